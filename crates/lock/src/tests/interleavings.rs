//! Threads whose order a scheduler chooses: small models in all orders (loom), larger models in
//! random orders (shuttle).
//!
//! `RUSTFLAGS="--cfg loom" cargo test --profile stress -p esker-lock --lib loom`, and the same with
//! `shuttle`.

use super::manager;
#[cfg(loom)]
use super::manager_with_patience;
use crate::LockMode::{Exclusive, Shared};
use crate::*;
use esker_base::ErrorKind;
#[cfg(shuttle)]
use esker_base::Result;
use esker_base::sync::Arc;

const FOREVER: LockerOptions = LockerOptions {
    lock_timeout: Timeout::Forever,
    deadlock_detect: true,
    deadlock_detect_depth: 50,
    deadlock_timeout: std::time::Duration::ZERO,
    expiration: None,
};

fn family(manager: &LockManager, max_fragments: usize) -> Arc<LockFamily> {
    let options = FamilyOptions { max_fragments, ..FamilyOptions::default() };
    manager.add_family(ColumnFamilyId::DEFAULT, &options).unwrap()
}

#[cfg(shuttle)]
mod shuttle_scenarios {
    use super::*;
    use shuttle::rand::{Rng, thread_rng};
    use shuttle::thread;

    /// The work of one thread: `transactions` transactions of one to five requests.
    fn work(mut locker: Locker, family: &Arc<LockFamily>, passing: &Arc<LockFamily>, transactions: usize) {
        for _ in 0..transactions {
            for _ in 0..thread_rng().gen_range(1..6) {
                if step(&mut locker, family, passing).is_err() {
                    break;
                }
            }
            locker.release_all();
            locker.reset_cancel();
        }
    }

    fn step(locker: &mut Locker, family: &Arc<LockFamily>, passing: &Arc<LockFamily>) -> Result<()> {
        let mut rng = thread_rng();
        let first: u8 = rng.gen_range(0..8);
        let last = first + if rng.gen_range(0..3) == 0 { rng.gen_range(0..4) } else { 0 };
        let mode = if rng.gen_range(0..2) == 0 { Shared } else { Exclusive };
        let (left, right) = ([first], [last]);
        match rng.gen_range(0..10) {
            0 => locker.set_save_point(),
            1 => {
                locker.rollback_to_save_point().ok();
            }
            2 => {
                locker.downgrade(family, Endpoint::Key(&left), Endpoint::Key(&right)).ok();
            }
            3 => locker.lock_key(passing, &left, Exclusive)?,
            4 => {
                locker.set_lock_timeout(Timeout::Never);
                let result = locker.lock_range(family, Endpoint::Key(&left), Endpoint::Key(&right), mode);
                locker.set_lock_timeout(Timeout::Forever);
                // A locker that timed out continues with the locks it has.
                result.or_else(|why| if why.kind() == ErrorKind::TimedOut { Ok(()) } else { Err(why) })?;
            }
            _ => locker.lock_range(family, Endpoint::Key(&left), Endpoint::Key(&right), mode)?,
        }
        Ok(())
    }

    fn soak(threads: usize, limit: usize) {
        let manager = manager();
        let family = family(&manager, 2);
        manager.set_max_lock_memory(limit);
        let passing = manager.add_family(ColumnFamilyId(1), &FamilyOptions::default()).unwrap();
        let lockers: Vec<_> = (0..threads).map(|_| manager.locker(FOREVER)).collect();
        let cancellers: Vec<_> = lockers.iter().map(Locker::canceller).collect();
        let workers: Vec<_> = lockers
            .into_iter()
            .map(|locker| {
                let (family, passing) = (family.clone(), passing.clone());
                thread::spawn(move || work(locker, &family, &passing, 3))
            })
            .collect();
        cancellers[0].cancel();
        if thread_rng().gen_range(0..2) == 0 {
            manager.drop_family(ColumnFamilyId(1)).unwrap();
        }
        cancellers[1].cancel();
        for worker in workers {
            worker.join().unwrap();
        }
        manager.check().unwrap();
        assert!(manager.locks().is_empty() && manager.waits().is_empty());
        assert_eq!(manager.counters().lock_memory, 0);
    }

    fn rounds() -> usize {
        std::env::var("ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(2000)
    }

    #[test]
    fn shuttle_everything_at_once() {
        shuttle::check_random(|| soak(5, usize::MAX), rounds());
    }

    #[test]
    fn shuttle_everything_at_once_in_little_memory() {
        shuttle::check_random(|| soak(4, 700), rounds());
    }
}

#[cfg(loom)]
mod loom_models {
    use super::*;
    use esker_base::sync::process::atomic::{AtomicU64, Ordering};
    use loom::thread;

    /// Runs `model` in all orders of its threads with at most `preemptions` preemptions.
    fn all_orders(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        let runs = std::sync::Arc::new(AtomicU64::new(0));
        let count = runs.clone();
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            model();
        });
        let runs = runs.load(Ordering::Relaxed);
        println!("{runs} orders");
        assert!(runs > 10, "{runs} orders: the search has ended at once");
    }

    fn is_empty(manager: &LockManager) {
        manager.check().unwrap();
        assert!(manager.locks().is_empty() && manager.waits().is_empty());
    }

    #[test]
    fn loom_a_lock_is_handed_over() {
        all_orders(3, || {
            let manager = manager();
            let family = family(&manager, 4);
            let other = {
                let (manager, family) = (manager.clone(), family.clone());
                thread::spawn(move || manager.locker(FOREVER).lock_key(&family, b"k", Exclusive))
            };
            let mut locker = manager.locker(FOREVER);
            locker.lock_key(&family, b"k", Exclusive).unwrap();
            locker.release_all();
            other.join().unwrap().unwrap();
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_a_leaf_is_cut_beside_requests_for_what_it_holds() {
        all_orders(3, || {
            let manager = manager();
            let family = family(&manager, 1);
            let mut locker = manager.locker(FOREVER);
            locker.lock_key(&family, b"a", Exclusive).unwrap();
            let other = {
                let (manager, family) = (manager.clone(), family.clone());
                thread::spawn(move || {
                    let mut locker = manager.locker(FOREVER);
                    locker.lock_range(&family, Endpoint::Key(b"a"), Endpoint::Key(b"c"), Exclusive)
                })
            };
            // This is the second lock of a leaf, and a leaf with more than one lock splits.
            match locker.lock_key(&family, b"b", Shared) {
                Ok(()) => {}
                Err(why) => assert_eq!(why.kind(), ErrorKind::Busy),
            }
            locker.release_all();
            other.join().unwrap().unwrap();
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_two_threads_cut_leaves_of_one_directory() {
        all_orders(2, || {
            let manager = manager();
            let family = family(&manager, 1);
            let take = |keys: [&'static [u8]; 2]| {
                let (manager, family) = (manager.clone(), family.clone());
                move || {
                    let mut locker = manager.locker(FOREVER);
                    for key in keys {
                        locker.lock_key(&family, key, Exclusive).unwrap();
                    }
                    locker.release_all();
                }
            };
            let other = thread::spawn(take([b"a", b"b"]));
            take([b"c", b"d"])();
            other.join().unwrap();
            assert!(manager.counters().splits >= 1);
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_a_range_over_two_leaves_is_handed_over() {
        all_orders(3, || {
            let manager = manager();
            let boundaries = vec![b"m".to_vec()];
            let options = FamilyOptions { boundaries, ..FamilyOptions::default() };
            let family = manager.add_family(ColumnFamilyId::DEFAULT, &options).unwrap();
            let mut locker = manager.locker(FOREVER);
            locker.lock_key(&family, b"a", Exclusive).unwrap();
            locker.lock_key(&family, b"z", Exclusive).unwrap();
            let other = {
                let (manager, family) = (manager.clone(), family.clone());
                thread::spawn(move || {
                    manager.locker(FOREVER).lock_range(&family, Endpoint::Min, Endpoint::Max, Exclusive)
                })
            };
            locker.release_all();
            other.join().unwrap().unwrap();
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_a_family_is_dropped_under_holders_and_waiters() {
        all_orders(3, || {
            let manager = manager();
            let family = family(&manager, 4);
            let mut locker = manager.locker(FOREVER);
            locker.lock_key(&family, b"k", Exclusive).unwrap();
            let other = {
                let (manager, family) = (manager.clone(), family.clone());
                thread::spawn(move || {
                    let mut locker = manager.locker(FOREVER);
                    locker.lock_key(&family, b"k", Exclusive).map_err(|why| why.kind())
                })
            };
            manager.drop_family(ColumnFamilyId::DEFAULT).unwrap();
            locker.release_all();
            assert_eq!(other.join().unwrap(), Err(ErrorKind::ColumnFamilyDropped));
            drop(locker);
            assert_eq!(manager.counters().lock_memory, 0);
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_a_cycle_costs_one_victim() {
        all_orders(3, || {
            let manager = manager();
            let family = family(&manager, 4);
            let cross = |first: &'static [u8], second: &'static [u8]| {
                let (manager, family) = (manager.clone(), family.clone());
                move || {
                    let mut locker = manager.locker(FOREVER);
                    locker.lock_key(&family, first, Exclusive).unwrap();
                    locker.lock_key(&family, second, Exclusive).is_err()
                }
            };
            let other = thread::spawn(cross(b"a", b"b"));
            let victims = u8::from(cross(b"b", b"a")()) + u8::from(other.join().unwrap());
            assert!(victims <= 1);
            assert_eq!(u64::from(victims), manager.counters().deadlocks);
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_a_cancellation_meets_a_grant() {
        all_orders(3, || {
            let manager = manager();
            let family = family(&manager, 4);
            let mut locker = manager.locker(FOREVER);
            locker.lock_key(&family, b"k", Exclusive).unwrap();
            let mut waiting = manager.locker(FOREVER);
            let canceller = waiting.canceller();
            let other = {
                let family = family.clone();
                thread::spawn(move || waiting.lock_key(&family, b"k", Shared).map_err(|why| why.kind()))
            };
            canceller.cancel();
            locker.release_all();
            let result = other.join().unwrap();
            assert!(result.is_ok() || result == Err(ErrorKind::Aborted));
            is_empty(&manager);
        });
    }

    #[test]
    fn loom_a_locker_that_others_wait_for_passes_and_later_stands_behind() {
        all_orders(3, || {
            let manager = manager_with_patience(0);
            let family = family(&manager, 2);
            let mut locker = manager.locker(FOREVER);
            let keeper = manager.locker(FOREVER);
            let lock = |locker: &mut Locker, key: &[u8]| locker.lock_key(&family, key, Exclusive);
            lock(&mut locker, b"c").unwrap();
            let (was_granted, id) = (Arc::new(AtomicU64::new(0)), keeper.id());
            let other = {
                let (family, was_granted, mut keeper) = (family.clone(), was_granted.clone(), keeper);
                thread::spawn(move || {
                    let ends = (Endpoint::Key(b"a"), Endpoint::Key(b"e"));
                    keeper.lock_range(&family, ends.0, ends.1, Exclusive).unwrap();
                    was_granted.store(1, Ordering::Release);
                })
            };
            // This lock is granted, whether the keeper already waits or not.
            lock(&mut locker, b"d").unwrap();
            locker.release_all();
            let was_waiting = manager.waits().iter().any(|wait| wait.id == id);
            lock(&mut locker, b"d").unwrap();
            assert!(!was_waiting || was_granted.load(Ordering::Acquire) == 1);
            locker.release_all();
            other.join().unwrap();
            assert_eq!(manager.counters().deadlocks, 0);
            is_empty(&manager);
        });
    }
}
