//! A scheduler that puts threads to sleep in the middle of their work.
//!
//! In: a seed. Out: the thread that continues. A system may take a thread's processor away in the
//! middle of its work and give it back thousands of steps later. Other threads then see its work
//! half done. A scheduler that chooses at random at every step lets all threads advance alike: none
//! is ever that late. With this scheduler a running thread falls asleep at random, for a number of
//! steps drawn over orders of magnitude. Each machine draws how often that happens and the longest
//! sleep. At places that the engine marks by `hesitate` a thread falls asleep half of the time: no
//! other thread may rely on work that is half done there.
//!
//! Invariant: while a thread can run, one does. If all are asleep, the one with the earliest end
//! continues.

use esker::internals::base::sync::take_hesitation;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::collections::HashMap;

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Delays {
    seed: u64,
    rng: fastrand::Rng,
    begun: bool,
    step: u64,
    /// A running thread falls asleep once in this number of steps, on average.
    seldom: u64,
    /// A sleep is at most two to this power.
    longest: u32,
    /// Step at which each sleeping thread wakes.
    asleep: HashMap<TaskId, u64>,
}

impl Delays {
    pub(super) fn new(seed: u64) -> Delays {
        let mut rng = fastrand::Rng::with_seed(seed);
        let seldom = 1 << rng.u32(4..=12);
        let longest = rng.u32(6..=17);
        Delays { seed, rng, begun: false, step: 0, seldom, longest, asleep: HashMap::new() }
    }

    fn is_awake(&mut self, task: TaskId) -> bool {
        match self.asleep.get(&task) {
            Some(&until) if until > self.step => false,
            Some(_) => self.asleep.remove(&task).is_some(),
            None => true,
        }
    }
}

impl Scheduler for Delays {
    /// A scheduler serves one execution.
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.begun, true)).then(|| Schedule::new(self.seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.step += 1;
        let seldom = if take_hesitation() { 2 } else { self.seldom };
        if let Some(current) = current
            && self.rng.u64(..seldom) == 0
        {
            let most = 1 << self.rng.u32(..=self.longest);
            self.asleep.insert(current, self.step + self.rng.u64(..most));
        }
        let ids = runnable.iter().map(|task| task.id());
        let mut awake: Vec<TaskId> = ids.clone().filter(|&id| self.is_awake(id)).collect();
        if awake.is_empty() {
            return ids.min_by_key(|id| (self.asleep.get(id).copied(), usize::from(*id)));
        }
        // Most of the time the running thread continues.
        if let Some(current) = current.filter(|current| awake.contains(current)) {
            if !is_yielding && self.rng.u8(..4) > 0 {
                return Some(current);
            }
            if is_yielding && awake.len() > 1 {
                awake.retain(|id| *id != current);
            }
        }
        Some(awake[self.rng.usize(..awake.len())])
    }

    fn next_u64(&mut self) -> u64 {
        self.rng.u64(..)
    }
}
