//! A scheduler above another one, which decides when time passes.
//!
//! In: any scheduler. Out: the same scheduler, except for the keeper, the thread that moves the
//! clock (`base/sync/time.rs`). The keeper runs when no other thread can, or at random, by a
//! little; each machine draws how often. Slow work then falls into the middle of other threads'
//! work.
//!
//! Invariant: while a thread that can run gets no turn, the clock moves at most `MOST_BESIDE`
//! times. The schedulers below promise no thread a turn (PCT always runs the first that can run). A
//! timer could then begin new work again and again before the old is done, and that thread would
//! wait for ever. With the limit all others finish their work, and the thread gets its turn.

use esker::internals::base::sync::time::{self, KEEPER};
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::collections::HashMap;

/// Most steps of the clock while a thread that could run gets no turn.
const MOST_BESIDE: u32 = 100;

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Timed<S> {
    inner: S,
    rng: fastrand::Rng,
    /// Average number of scheduling steps between two steps of the keeper beside other threads.
    seldom: u32,
    keeper: Option<TaskId>,
    /// Number of tasks that are already known.
    known: usize,
    /// Threads that could have run beside steps of the clock, each with the number of these steps
    /// since its last turn.
    passed_over: HashMap<TaskId, u32>,
}

impl<S> Timed<S> {
    pub(super) fn new(inner: S, seed: u64) -> Timed<S> {
        let mut rng = fastrand::Rng::with_seed(seed.rotate_left(17) ^ 0x71AE);
        let seldom = 1 << rng.u32(6..=16);
        Timed { inner, rng, seldom, keeper: None, known: 0, passed_over: HashMap::new() }
    }

    /// Whether the clock may move beside these threads. Counts the step if so.
    fn passes_beside(&mut self, others: &[&Task]) -> bool {
        if self.passed_over.values().any(|steps| *steps >= MOST_BESIDE) {
            return false;
        }
        for task in others {
            *self.passed_over.entry(task.id()).or_default() += 1;
        }
        true
    }

    fn goes_on(&mut self, next: Option<TaskId>) -> Option<TaskId> {
        if !self.passed_over.is_empty() {
            next.map(|task| self.passed_over.remove(&task));
        }
        next
    }

    fn look_for_keeper(&mut self, runnable: &[&Task]) {
        let Some(newest) = runnable.last().map(|task| usize::from(task.id())) else { return };
        if newest < self.known {
            return;
        }
        let new = runnable.iter().filter(|task| usize::from(task.id()) >= self.known);
        let found = new.filter(|task| task.name().is_some_and(|name| name == KEEPER)).map(|task| task.id());
        self.keeper = found.last().or(self.keeper);
        self.known = newest + 1;
    }
}

impl<S: Scheduler> Scheduler for Timed<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.inner.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        self.look_for_keeper(runnable);
        let is_keeper = |task: &&&Task| Some(task.id()) == self.keeper;
        let Some(keeper) = runnable.iter().find(is_keeper).map(|task| task.id()) else {
            let next = self.inner.next_task(runnable, current, is_yielding);
            return self.goes_on(next);
        };
        let others: Vec<&Task> = runnable.iter().copied().filter(|task| task.id() != keeper).collect();
        if others.is_empty() || self.rng.u32(..self.seldom) == 0 && self.passes_beside(&others) {
            time::keeper_goes_on(!others.is_empty());
            return Some(keeper);
        }
        let next = self.inner.next_task(&others, current, is_yielding);
        self.goes_on(next)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

#[cfg(test)]
mod tests;
