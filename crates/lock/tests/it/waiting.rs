//! Threads that wait: their order, and the events that end a wait. No test depends on time or
//! speed: a test waits until its threads are where it needs them.

use crate::{family, manager, manager_with_patience, until};
use esker_base::sync::{Arc, Mutex};
use esker_base::{ColumnFamilyId, Error, ErrorKind, SubCode};
use esker_lock::LockMode::{Exclusive, Shared};
use esker_lock::{Endpoint, LockFamily, LockManager, LockMode, Locker, LockerOptions, Timeout};
use std::thread;
use std::time::Duration;

const FOREVER: LockerOptions = LockerOptions {
    lock_timeout: Timeout::Forever,
    deadlock_detect: false,
    deadlock_detect_depth: 50,
    deadlock_timeout: Duration::ZERO,
    expiration: None,
};
const DETECTING: LockerOptions = LockerOptions { deadlock_detect: true, ..FOREVER };

fn code(result: Result<(), Error>) -> (ErrorKind, SubCode) {
    let why = result.expect_err("must fail");
    (why.kind(), why.subcode())
}

/// Starts threads in order, each once its predecessor is in the queue. Each locks `key`, records
/// its number and releases. Returns the recorded numbers after `before` has run and the key is
/// free.
fn served(
    manager: &LockManager,
    family: &Arc<LockFamily>,
    modes: &[LockMode],
    options: LockerOptions,
    release: impl FnOnce(),
) -> Vec<usize> {
    let order = Mutex::new(Vec::new());
    let already = manager.counters().waits;
    thread::scope(|scope| {
        for (number, mode) in modes.iter().enumerate() {
            let order = &order;
            let work = move || {
                let mut locker = manager.locker(options);
                locker.lock_key(family, b"key", *mode).unwrap();
                order.lock().push(number);
            };
            thread::Builder::new().stack_size(128 << 10).spawn_scoped(scope, work).unwrap();
            until(|| manager.counters().waits == already + number as u64 + 1);
        }
        release();
    });
    order.into_inner()
}

#[test]
fn a_thousand_waiters_are_served_in_order_and_each_is_woken_once() {
    let manager = manager();
    let family = family(&manager, 0);
    let mut holder = manager.locker(FOREVER);
    holder.lock_key(&family, b"key", Exclusive).unwrap();
    let order = served(&manager, &family, &[Exclusive; 1000], DETECTING, || holder.release_all());
    assert_eq!(order, (0..1000).collect::<Vec<_>>());
    assert_eq!(manager.counters().wakeups, 1000);
    assert_eq!(manager.counters().deadlocks, 0);
    assert!(manager.locks().is_empty());
}

#[test]
fn an_exclusive_request_is_not_overtaken_by_shared_ones() {
    let manager = manager();
    let family = family(&manager, 0);
    let mut holder = manager.locker(FOREVER);
    holder.lock_key(&family, b"key", Shared).unwrap();
    let modes = [Exclusive, Shared, Shared, Exclusive];
    let order = served(&manager, &family, &modes, FOREVER, || holder.release_all());
    assert_eq!((order[0], order[3]), (0, 3));
}

#[test]
fn an_upgrade_goes_before_requests_that_are_newer_than_its_lock() {
    let manager = manager();
    let family = family(&manager, 0);
    let (mut upgrading, mut other) = (manager.locker(FOREVER), manager.locker(FOREVER));
    upgrading.lock_key(&family, b"key", Shared).unwrap();
    other.lock_key(&family, b"key", Shared).unwrap();
    let upgraded = Mutex::new(false);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut locker = manager.locker(FOREVER);
            locker.lock_key(&family, b"key", Exclusive).unwrap();
            assert!(*upgraded.lock(), "the upgrade went first");
        });
        until(|| manager.waits().len() == 1);
        let upgrade = scope.spawn(|| {
            upgrading.lock_key(&family, b"key", Exclusive).unwrap();
            *upgraded.lock() = true;
            upgrading.release_all();
        });
        until(|| manager.waits().len() == 2);
        other.release_all();
        upgrade.join().unwrap();
        waiting.join().unwrap();
    });
}

#[test]
fn a_wide_range_is_granted_in_a_storm_of_points() {
    let manager = manager();
    let family = family(&manager, 0);
    let done = Mutex::new(false);
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (manager, family, done) = (&manager, &family, &done);
            scope.spawn(move || {
                let mut locker = manager.locker(FOREVER);
                for round in 0_u32.. {
                    if *done.lock() {
                        break;
                    }
                    // Two at a time, in ascending order: some key is always held.
                    locker.lock_key(family, &[thread, round as u8, 0], Exclusive).unwrap();
                    locker.lock_key(family, &[thread, round as u8, 1], Exclusive).unwrap();
                    locker.release_all();
                }
            });
        }
        let mut wide = manager.locker(FOREVER);
        for _ in 0..50 {
            wide.lock_range(&family, Endpoint::Min, Endpoint::Max, Exclusive).unwrap();
            assert_eq!(manager.locks().iter().filter(|l| l.ids != [wide.id()]).count(), 0);
            wide.release_all();
        }
        *done.lock() = true;
    });
    assert!(manager.locks().is_empty());
}

/// Two lockers, each of which requests a lock that the other holds. The request of the second
/// closes the cycle.
fn close_a_cycle(
    manager: &LockManager,
    first: &Arc<LockFamily>,
    second: &Arc<LockFamily>,
) -> (Locker, Locker) {
    let (mut a, mut b) = (manager.locker(FOREVER), manager.locker(DETECTING));
    a.lock_key(first, b"one", Exclusive).unwrap();
    b.lock_range(second, Endpoint::Infimum(b"two"), Endpoint::Supremum(b"two"), Shared).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.lock_key(second, b"two and a half", Exclusive));
        until(|| manager.waits().len() == 1);
        assert_eq!(code(b.lock_key(first, b"one", Shared)), (ErrorKind::Busy, SubCode::Deadlock));
        b.release_all();
        waiting.join().unwrap().unwrap();
    });
    (a, b)
}

#[test]
fn a_cycle_through_two_families_is_found_and_reported() {
    let manager = manager();
    let (first, second) = (family(&manager, 0), family(&manager, 1));
    let (a, b) = close_a_cycle(&manager, &first, &second);
    let deadlocks = manager.deadlocks();
    let path: Vec<_> = deadlocks[0]
        .path
        .iter()
        .map(|i| (i.id, i.family.0, i.mode, i.start.to_string(), i.end.to_string()))
        .collect();
    let expected = [
        (b.id(), 0, Shared, "one".to_owned(), "one".to_owned()),
        (a.id(), 1, Exclusive, "two and a half".to_owned(), "two and a half".to_owned()),
    ];
    assert_eq!(path, expected);
    assert!(!deadlocks[0].limit_exceeded && deadlocks[0].deadlock_time > 1_600_000_000);
}

#[test]
fn the_newest_deadlocks_are_remembered() {
    let manager = manager();
    let (first, second) = (family(&manager, 0), family(&manager, 1));
    let ids: Vec<u64> = (0..7).map(|_| close_a_cycle(&manager, &first, &second).1.id()).collect();
    let newest = || manager.deadlocks().iter().map(|d| d.path[0].id).collect::<Vec<_>>();
    assert_eq!(newest(), ids[2..].iter().rev().copied().collect::<Vec<_>>());
    manager.set_max_num_deadlocks(2);
    assert_eq!(newest(), [ids[6], ids[5]]);
    assert_eq!(manager.counters().deadlocks, 7);
}

#[test]
fn a_chain_longer_than_allowed_is_taken_for_a_cycle() {
    let manager = manager();
    let family = family(&manager, 0);
    let key = |i: usize| [i as u8];
    // Locker i holds key i and waits for key i + 1; no locker waits for locker 0.
    let lockers: Vec<Mutex<Locker>> = (0..5).map(|_| Mutex::new(manager.locker(FOREVER))).collect();
    for (i, locker) in lockers.iter().enumerate() {
        locker.lock().lock_key(&family, &key(i), Exclusive).unwrap();
    }
    thread::scope(|scope| {
        for i in 1..4 {
            let (lockers, family) = (&lockers, &family);
            scope.spawn(move || {
                let mut locker = lockers[i].lock();
                locker.lock_key(family, &key(i + 1), Exclusive).unwrap();
                locker.release_all();
            });
        }
        until(|| manager.waits().len() == 3);
        let mut short = manager.locker(LockerOptions { deadlock_detect_depth: 3, ..DETECTING });
        assert_eq!(code(short.lock_key(&family, &key(1), Exclusive)), (ErrorKind::Busy, SubCode::Deadlock));
        assert!(manager.deadlocks()[0].limit_exceeded);
        let waiting = scope.spawn(|| {
            let mut long = manager.locker(LockerOptions { deadlock_detect_depth: 4, ..DETECTING });
            long.lock_key(&family, &key(1), Exclusive)
        });
        until(|| manager.waits().len() == 4);
        lockers[4].lock().release_all();
        waiting.join().unwrap().unwrap();
    });
}

#[test]
fn waiting_ends_by_cancellation_by_time_and_with_the_family() {
    let manager = manager();
    let family = family(&manager, 3);
    let mut holder = manager.locker(FOREVER);
    holder.lock_range(&family, Endpoint::Min, Endpoint::Max, Exclusive).unwrap();
    let mut cancelled = manager.locker(FOREVER);
    let canceller = cancelled.canceller();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let first = code(cancelled.lock_key(&family, b"a", Shared));
            // Still cancelled: it may take a free lock, but not wait.
            let second = code(cancelled.lock_key(&family, b"b", Shared));
            cancelled.reset_cancel();
            (first, second)
        });
        until(|| manager.waits().len() == 1);
        canceller.cancel();
        let aborted = (ErrorKind::Aborted, SubCode::None);
        assert_eq!(waiting.join().unwrap(), (aborted, aborted));

        let late = LockerOptions { lock_timeout: Timeout::After(Duration::from_micros(300)), ..FOREVER };
        let result = manager.locker(late).lock_key(&family, b"a", Exclusive);
        assert_eq!(code(result), (ErrorKind::TimedOut, SubCode::LockTimeout));

        let waiting = scope.spawn(|| manager.locker(FOREVER).lock_key(&family, b"a", Shared));
        until(|| manager.waits().len() == 1);
        manager.drop_family(ColumnFamilyId(3)).unwrap();
        assert_eq!(code(waiting.join().unwrap()), (ErrorKind::ColumnFamilyDropped, SubCode::None));
    });
    assert!(manager.waits().is_empty());
    let counters = manager.counters();
    assert_eq!((counters.cancellations, counters.timeouts), (2, 1));
}

#[test]
fn the_waits_report_names_each_waiter_and_its_blockers() {
    // No later transaction passes.
    let manager = manager_with_patience(0);
    let family = family(&manager, 0);
    let mut holder = manager.locker(FOREVER);
    holder.lock_key(&family, b"k", Exclusive).unwrap();
    let mut first = manager.locker(FOREVER);
    let mut second = manager.locker(FOREVER);
    let ids = (holder.id(), first.id(), second.id());
    let (manager, family) = (&manager, &family);
    thread::scope(|scope| {
        scope.spawn(move || {
            first.lock_range(family, Endpoint::Key(b"a"), Endpoint::Max, Shared).map(|()| drop(first))
        });
        until(|| manager.waits().len() == 1);
        scope.spawn(move || second.lock_key(family, b"b", Exclusive).map(|()| drop(second)));
        until(|| manager.waits().len() == 2);
        let waits = manager.waits();
        assert_eq!((waits[0].id, &waits[0].waits_for[..]), (ids.1, &[ids.0][..]));
        assert_eq!((waits[1].id, &waits[1].waits_for[..]), (ids.2, &[ids.1][..]));
        assert_eq!((waits[0].start.to_string(), waits[0].end.to_string()), ("a".into(), "max".into()));
        holder.release_all();
    });
}

#[test]
fn expired_locks_wake_their_waiters() {
    let manager = manager();
    let family = family(&manager, 0);
    let mut holder = manager.locker(FOREVER);
    holder.lock_key(&family, b"k", Exclusive).unwrap();
    holder.set_expiration(Some(Duration::from_millis(3)));
    let mut thief = manager.locker(FOREVER);
    thief.lock_key(&family, b"k", Exclusive).unwrap();
    assert_eq!(holder.begin_commit().expect_err("stolen").kind(), ErrorKind::Expired);
}

#[test]
fn lockers_that_take_ranges_in_key_order_are_never_in_a_cycle() {
    let (manager, mut rng) = (manager(), esker_testkit::seed::rng("lock::ascending"));
    let family = family(&manager, 0);
    thread::scope(|scope| {
        for _ in 0..12 {
            let (manager, family, mut rng) = (&manager, &family, rng.fork());
            scope.spawn(move || {
                let mut locker =
                    manager.locker(LockerOptions { deadlock_detect_depth: usize::MAX, ..DETECTING });
                for _ in 0..200 {
                    let mut firsts: Vec<u8> = (0..5).map(|_| rng.u8(..100)).collect();
                    firsts.sort_unstable();
                    for first in firsts {
                        let last = if rng.u8(..3) == 0 { first + rng.u8(..30) } else { first };
                        let (first, last) = ([first], [last]);
                        let ends = (Endpoint::Key(&first), Endpoint::Key(&last));
                        locker.lock_range(family, ends.0, ends.1, Exclusive).unwrap();
                        if rng.u8(..4) == 0 {
                            thread::yield_now();
                        }
                    }
                    locker.release_all();
                }
            });
        }
    });
    assert_eq!(manager.counters().deadlocks, 0);
}
