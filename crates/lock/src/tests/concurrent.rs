//! Many threads at once. The manager's decisions are recorded in order (`history.rs`), and the
//! reference must make the same ones.
//!
//! Requests wait or do not, time out or are cancelled. They name keys, or ranges over one to all
//! leaves, in two families for ranges and one for points. Threads upgrade, downgrade, set save
//! points, release, and close cycles. The threads are real; under `--cfg shuttle` a scheduler
//! chooses their order. `ROUNDS` sets the number of rounds. `cargo xtask long locks` sets it for
//! twenty million requests.

use super::TickingClock;
use super::history::KEYS;
use crate::*;
use esker_base::sync::Arc;
#[cfg(shuttle)]
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
use esker_base::{ErrorKind, Result};

/// A function that gives a random number below a bound.
type Pick<'a> = &'a mut dyn FnMut(u32) -> u32;

const FAMILIES: usize = 3;
/// Values of `range_patience`.
const PATIENCE: [u64; 4] = [0, 1, 8, 256];

/// The ways in which waits may end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    /// With a grant, or because the request closed a cycle.
    Calm,
    /// Also with a cancellation.
    Cancelled,
    /// Also with a timeout.
    Any,
}

struct Stage {
    manager: LockManager,
    families: Vec<Arc<LockFamily>>,
    ends: Ends,
    patience: u64,
}

impl Stage {
    fn new(ends: Ends, max_fragments: usize, patience: u64) -> Stage {
        let options = LockManagerOptions::new(Arc::new(TickingClock::default()));
        let manager = LockManager::new(LockManagerOptions { range_patience: patience, ..options });
        let kinds = [Locking::Ranges, Locking::Ranges, Locking::Points];
        let add = |(id, locking): (u32, Locking)| {
            let options = FamilyOptions { locking, max_fragments, ..FamilyOptions::default() };
            manager.add_family(ColumnFamilyId(id), &options).unwrap()
        };
        let families: Vec<_> = (0..FAMILIES as u32).zip(kinds).map(add).collect();
        families[0].shared.history.begin();
        Stage { manager, families, ends, patience }
    }

    fn lockers(&self, count: usize) -> Vec<Locker> {
        let options = LockerOptions {
            deadlock_detect: true,
            deadlock_detect_depth: usize::MAX,
            lock_timeout: Timeout::Forever,
            ..LockerOptions::default()
        };
        (0..count).map(|_| self.manager.locker(options)).collect()
    }

    /// The work of one thread.
    fn work(&self, mut locker: Locker, cancellers: &[Canceller], steps: usize, pick: Pick<'_>) {
        for _ in 0..steps {
            let done = self.step(&mut locker, cancellers, pick);
            if done.is_err() || pick(12) == 0 {
                locker.release_all();
                locker.reset_cancel();
            }
        }
    }

    fn step(&self, locker: &mut Locker, cancellers: &[Canceller], pick: Pick<'_>) -> Result<()> {
        let number = pick(FAMILIES as u32) as usize;
        let family = &self.families[number];
        let (left, right) = self.range(number, pick);
        let (left, right) = (left.as_ref(), right.as_ref());
        let ends = (end(left, Endpoint::Min), end(right, Endpoint::Max));
        let kind = pick(24);
        match kind {
            // Releasing a lock that is not held fails and changes nothing.
            0 => drop(locker.unlock_range(family, ends.0, ends.1)),
            1 => drop(locker.downgrade(family, ends.0, ends.1)),
            2 => locker.set_save_point(),
            3 => drop(locker.rollback_to_save_point()),
            4 if self.ends != Ends::Calm => cancellers[pick(cancellers.len() as u32) as usize].cancel(),
            _ => {
                locker.set_lock_timeout(match kind {
                    5..=9 => Timeout::Never,
                    10..=12 if self.ends == Ends::Any => {
                        Timeout::After(std::time::Duration::from_micros(pick(50).into()))
                    }
                    _ => Timeout::Forever,
                });
                let mode = if pick(2) == 0 { LockMode::Shared } else { LockMode::Exclusive };
                let result = match (left, right) {
                    (Some(key), Some(last)) if key == last => locker.lock_key(family, key, mode),
                    _ => locker.lock_range(family, ends.0, ends.1, mode),
                };
                return match result {
                    Err(why) if why.kind() == ErrorKind::TimedOut && pick(2) == 0 => Ok(()),
                    other => other,
                };
            }
        }
        Ok(())
    }

    /// Mostly keys, some ranges, few of them with an open end.
    fn range(&self, number: usize, pick: Pick<'_>) -> (Option<[u8; 1]>, Option<[u8; 1]>) {
        let first = pick(KEYS.into()) as u8;
        if self.families[number].locking() == Locking::Points || pick(3) != 0 {
            return (Some([first]), Some([first]));
        }
        let last = (first + pick(5) as u8).min(KEYS - 1);
        let open = pick(16);
        ((open != 0).then_some([first]), (open != 1).then_some([last]))
    }

    /// Compares each request with the reference; returns the number of requests.
    fn check(self, lockers: usize) -> usize {
        self.manager.check().unwrap();
        assert!(self.manager.locks().is_empty() && self.manager.waits().is_empty());
        assert_eq!(self.manager.counters().lock_memory, 0);
        self.families[0].shared.history.check(FAMILIES, lockers, self.patience, self.ends == Ends::Calm)
    }
}

fn end<'a>(key: Option<&'a [u8; 1]>, open: Endpoint<'a>) -> Endpoint<'a> {
    key.map_or(open, |key| Endpoint::Key(key))
}

#[cfg(not(shuttle))]
#[test]
fn threads_get_the_decisions_of_the_reference() {
    use std::thread;
    let mut requests = 0;
    esker_testkit::seed::for_each_seed("lock::concurrent", 12, |_, mut rng| {
        let ends = [Ends::Calm, Ends::Cancelled, Ends::Any][rng.usize(..3)];
        let stage = Stage::new(ends, rng.usize(1..5), PATIENCE[rng.usize(..PATIENCE.len())]);
        let count = rng.usize(2..9);
        let lockers = stage.lockers(count);
        let cancellers: Vec<_> = lockers.iter().map(Locker::canceller).collect();
        thread::scope(|scope| {
            for locker in lockers {
                let (mut rng, stage, cancellers) = (rng.fork(), &stage, &cancellers);
                scope.spawn(move || stage.work(locker, cancellers, 500, &mut |bound| rng.u32(..bound)));
            }
        });
        requests += stage.check(count);
    });
    println!("{requests} requests by real threads, each decided as by the reference");
}

#[cfg(shuttle)]
#[test]
fn shuttle_threads_get_the_decisions_of_the_reference() {
    use shuttle::rand::{Rng, thread_rng};
    use shuttle::thread;
    let requests = Arc::new(AtomicU64::new(0));
    let sum = requests.clone();
    let round = move || {
        let ends = [Ends::Calm, Ends::Cancelled][thread_rng().gen_range(0..2)];
        let patience = PATIENCE[thread_rng().gen_range(0..PATIENCE.len())];
        let stage = Arc::new(Stage::new(ends, thread_rng().gen_range(1..4), patience));
        let count = thread_rng().gen_range(2..6);
        let lockers = stage.lockers(count);
        let cancellers: Vec<_> = lockers.iter().map(Locker::canceller).collect();
        let threads: Vec<_> = lockers
            .into_iter()
            .map(|locker| {
                let (stage, cancellers) = (stage.clone(), cancellers.clone());
                thread::spawn(move || {
                    let mut pick = |bound: u32| thread_rng().gen_range(0..bound);
                    stage.work(locker, &cancellers, 60, &mut pick);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let stage = Arc::into_inner(stage).expect("all other threads have ended");
        sum.fetch_add(stage.check(count) as u64, Ordering::Relaxed);
    };
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(500);
    shuttle::check_random(round, rounds);
    let requests = requests.load(Ordering::Relaxed);
    println!("{requests} requests in orders of a scheduler, each decided as by the reference");
}
