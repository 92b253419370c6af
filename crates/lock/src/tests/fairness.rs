//! No request starves: with `range_patience` 0, a transaction that begins while a request waits
//! never passes that request.
//!
//! One thread takes wide ranges. The other threads take some keys in ascending order, and so pass
//! waiting requests again and again. A transaction that begins while a wide request waits gets its
//! first key only after that request. The threads are real; under `--cfg shuttle` a scheduler
//! chooses their order.

use super::manager_with_patience;
use crate::*;
use esker_base::sync::Arc;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
#[cfg(shuttle)]
use shuttle::thread;
#[cfg(not(shuttle))]
use std::thread;

/// A function that gives a random number below a bound.
type Pick<'a> = &'a mut dyn FnMut(u8) -> u8;

const KEYS: u8 = 12;

struct Stage {
    manager: LockManager,
    family: Arc<LockFamily>,
    /// Number of grants of wide ranges. A thread adds one while it holds its range.
    grants: AtomicU64,
    /// Threads that take keys and are not done.
    busy: AtomicU64,
    /// Number of keys that a later transaction got before a waiting wide request.
    wrong: AtomicU64,
}

impl Stage {
    fn new(max_fragments: usize, threads: u64) -> Stage {
        // With patience 0, no younger transaction passes a waiting range.
        let manager = manager_with_patience(0);
        let options = FamilyOptions { max_fragments, ..FamilyOptions::default() };
        let family = manager.add_family(ColumnFamilyId::DEFAULT, &options).unwrap();
        Stage {
            manager,
            family,
            grants: AtomicU64::new(0),
            busy: AtomicU64::new(threads),
            wrong: AtomicU64::new(0),
        }
    }

    fn locker(&self) -> Locker {
        let options = LockerOptions {
            deadlock_detect: true,
            deadlock_detect_depth: usize::MAX,
            lock_timeout: Timeout::Forever,
            ..LockerOptions::default()
        };
        self.manager.locker(options)
    }

    fn take_wide_ranges(&self, mut locker: Locker) {
        while self.busy.load(Ordering::Acquire) > 0 {
            locker.lock_range(&self.family, Endpoint::Min, Endpoint::Max, LockMode::Exclusive).unwrap();
            self.grants.fetch_add(1, Ordering::AcqRel);
            locker.release_all();
            thread::yield_now();
        }
    }

    fn take_keys(&self, mut locker: Locker, wide: u64, rounds: usize, pick: Pick<'_>) {
        for _ in 0..rounds {
            let before = self.grants.load(Ordering::Acquire);
            let was_waiting = self.manager.waits().iter().any(|wait| wait.id == wide);
            let mut first = pick(KEYS / 2);
            locker.lock_key(&self.family, &[first], LockMode::Exclusive).unwrap();
            let was_granted = self.grants.load(Ordering::Acquire) > before;
            self.wrong.fetch_add(u64::from(was_waiting && !was_granted), Ordering::AcqRel);
            // While some transactions hold locks, others begin.
            thread::yield_now();
            while pick(4) != 0 && first + 2 < KEYS {
                first += 1 + pick(2);
                let last = (first + pick(2)).min(KEYS - 1);
                let (left, right) = ([first], [last]);
                let (left, right) = (Endpoint::Key(&left), Endpoint::Key(&right));
                locker.lock_range(&self.family, left, right, LockMode::Exclusive).unwrap();
                first = last;
            }
            locker.release_all();
        }
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }

    fn check(&self) {
        self.manager.check().unwrap();
        assert!(self.manager.locks().is_empty() && self.manager.waits().is_empty());
        assert_eq!(self.manager.counters().deadlocks, 0);
        assert_eq!(self.wrong.load(Ordering::Acquire), 0);
    }
}

#[cfg(not(shuttle))]
#[test]
fn a_wide_range_is_passed_only_by_earlier_lockers() {
    esker_testkit::seed::for_each_seed("lock::fairness", 4, |_, mut rng| {
        let threads = rng.u64(2..7);
        let stage = Stage::new(rng.usize(1..5), threads);
        let wide = stage.locker();
        let id = wide.id();
        thread::scope(|scope| {
            for _ in 0..threads {
                let (mut rng, stage, locker) = (rng.fork(), &stage, stage.locker());
                scope.spawn(move || {
                    stage.take_keys(locker, id, 50, &mut |bound| rng.u8(..bound));
                });
            }
            stage.take_wide_ranges(wide);
        });
        stage.check();
    });
}

#[cfg(shuttle)]
#[test]
fn shuttle_a_wide_range_is_passed_only_by_earlier_lockers() {
    use shuttle::rand::{Rng, thread_rng};
    let round = || {
        let count = thread_rng().gen_range(2..5);
        let stage = Arc::new(Stage::new(thread_rng().gen_range(1..4), count));
        let wide = stage.locker();
        let id = wide.id();
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (stage, locker) = (stage.clone(), stage.locker());
                thread::spawn(move || {
                    stage.take_keys(locker, id, 6, &mut |bound| thread_rng().gen_range(0..bound));
                })
            })
            .collect();
        stage.take_wide_ranges(wide);
        for thread in threads {
            thread.join().unwrap();
        }
        stage.check();
    };
    let rounds = std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(1000);
    shuttle::check_random(round, rounds);
}
