//! Results that one caller sees, case by case, on one thread.

use super::{StillClock, TickingClock, manager, manager_with_patience};
use crate::LockMode::{Exclusive, Shared};
use crate::*;
use esker_base::comparator::ReverseBytewiseComparator;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, ErrorKind, SubCode};
use std::time::Duration;

const TRY: LockerOptions = LockerOptions {
    lock_timeout: Timeout::Never,
    deadlock_detect: false,
    deadlock_detect_depth: 50,
    deadlock_timeout: Duration::ZERO,
    expiration: None,
};

fn family(manager: &LockManager) -> Arc<LockFamily> {
    manager.add_family(ColumnFamilyId::DEFAULT, &FamilyOptions::default()).unwrap()
}

#[track_caller]
fn refused(result: Result<(), Error>, kind: ErrorKind, subcode: SubCode) {
    let why = result.expect_err("must be refused");
    assert_eq!((why.kind(), why.subcode()), (kind, subcode), "{why}");
}

#[track_caller]
fn timed_out(result: Result<(), Error>) {
    refused(result, ErrorKind::TimedOut, SubCode::LockTimeout);
}

#[test]
fn shared_locks_coexist_and_exclusive_ones_do_not() {
    let manager = manager();
    let family = family(&manager);
    let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
    a.lock_key(&family, b"k", Shared).unwrap();
    b.lock_key(&family, b"k", Shared).unwrap();
    timed_out(a.lock_key(&family, b"k", Exclusive));
    b.unlock_key(&family, b"k").unwrap();
    a.lock_key(&family, b"k", Exclusive).unwrap();
    timed_out(b.lock_key(&family, b"k", Shared));
    a.downgrade(&family, Endpoint::Key(b"k"), Endpoint::Key(b"k")).unwrap();
    b.lock_key(&family, b"k", Shared).unwrap();
    let locks = manager.locks();
    assert_eq!(locks.len(), 1);
    assert_eq!((&locks[0].ids[..], locks[0].mode), (&[a.id(), b.id()][..], Shared));
}

#[test]
fn overlapping_shared_ranges_of_different_lockers_coexist() {
    let manager = manager();
    let family = family(&manager);
    let (mut a, mut b, mut c) = (manager.locker(TRY), manager.locker(TRY), manager.locker(TRY));
    a.lock_range(&family, Endpoint::Key(b"b"), Endpoint::Key(b"m"), Shared).unwrap();
    b.lock_range(&family, Endpoint::Key(b"f"), Endpoint::Max, Shared).unwrap();
    timed_out(c.lock_key(&family, b"z", Exclusive));
    timed_out(c.lock_range(&family, Endpoint::Min, Endpoint::Key(b"b"), Exclusive));
    c.lock_range(&family, Endpoint::Min, Endpoint::Key(b"a"), Exclusive).unwrap();
    drop(a);
    c.lock_range(&family, Endpoint::Key(b"b"), Endpoint::Key(b"e"), Exclusive).unwrap();
    timed_out(c.lock_key(&family, b"g", Exclusive));
    drop((b, c));
    assert!(manager.locks().is_empty());
}

#[test]
fn prefixes_are_locked_by_the_same_call_in_both_orders() {
    let manager = manager();
    let descending =
        FamilyOptions { comparator: Arc::new(ReverseBytewiseComparator), ..FamilyOptions::default() };
    let up = family(&manager);
    let down = manager.add_family(ColumnFamilyId(1), &descending).unwrap();
    for family in [up, down] {
        let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
        a.lock_range(&family, Endpoint::Infimum(b"ab"), Endpoint::Supremum(b"ab"), Exclusive).unwrap();
        for inside in [&b"ab"[..], b"ab\xff", b"abc"] {
            timed_out(b.lock_key(&family, inside, Shared));
        }
        for outside in [&b"a"[..], b"ac", b"aa\xff"] {
            b.lock_key(&family, outside, Exclusive).unwrap();
        }
    }
}

#[test]
fn invalid_requests_and_options_are_refused() {
    let manager = manager();
    let family = family(&manager);
    let mut a = manager.locker(TRY);
    let invalid = |result| refused(result, ErrorKind::InvalidArgument, SubCode::None);
    invalid(a.lock_range(&family, Endpoint::Key(b"b"), Endpoint::Key(b"a"), Shared));
    invalid(a.lock_range(&family, Endpoint::Max, Endpoint::Min, Shared));
    invalid(a.unlock_key(&family, b"a"));
    invalid(a.downgrade(&family, Endpoint::Min, Endpoint::Max));
    a.lock_range(&family, Endpoint::Max, Endpoint::Max, Exclusive).unwrap();
    assert!(a.is_empty());
    refused(a.rollback_to_save_point(), ErrorKind::NotFound, SubCode::None);
    refused(a.pop_save_point(), ErrorKind::NotFound, SubCode::None);
    let other = super::manager();
    let foreign = self::family(&other);
    invalid(a.lock_key(&foreign, b"a", Shared));
    assert!(manager.add_family(ColumnFamilyId::DEFAULT, &FamilyOptions::default()).is_err());
    let points = FamilyOptions { locking: Locking::Points, ..FamilyOptions::default() };
    let points = manager.add_family(ColumnFamilyId(7), &points).unwrap();
    let range = a.lock_range(&points, Endpoint::Min, Endpoint::Max, Shared);
    refused(range, ErrorKind::NotSupported, SubCode::None);
    a.lock_key(&points, b"a", Exclusive).unwrap();
    a.downgrade(&points, Endpoint::Key(b"a"), Endpoint::Key(b"a")).unwrap();
    a.unlock_key(&points, b"a").unwrap();
    assert!(manager.locks().is_empty());
}

#[test]
fn save_points_give_back_what_came_after_them() {
    let manager = manager();
    let family = family(&manager);
    let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
    a.lock_key(&family, b"1", Exclusive).unwrap();
    a.lock_key(&family, b"2", Shared).unwrap();
    a.set_save_point();
    a.lock_range(&family, Endpoint::Key(b"1"), Endpoint::Key(b"3"), Exclusive).unwrap();
    a.rollback_to_save_point().unwrap();
    timed_out(b.lock_key(&family, b"1", Shared));
    b.lock_key(&family, b"2", Shared).unwrap();
    b.lock_key(&family, b"3", Exclusive).unwrap();
    a.set_save_point();
    a.lock_key(&family, b"4", Exclusive).unwrap();
    a.pop_save_point().unwrap();
    timed_out(b.lock_key(&family, b"4", Shared));
}

#[test]
fn locking_and_unlocking_in_turn_does_not_grow_the_log() {
    let manager = manager();
    let family = family(&manager);
    let mut a = manager.locker(TRY);
    a.lock_key(&family, b"first", Exclusive).unwrap();
    for _ in 0..10_000 {
        a.lock_key(&family, b"key", Exclusive).unwrap();
        a.unlock_key(&family, b"key").unwrap();
    }
    assert!(a.log_bytes() < 1024);
}

#[test]
fn to_unlock_what_was_just_locked_is_as_cheap_with_many_locks_as_with_few() {
    const HELD: usize = 5000;
    let manager = manager();
    let family = family(&manager);
    let mut a = manager.locker(TRY);
    let key = |i: usize| i.to_be_bytes();
    (0..HELD).for_each(|i| a.lock_key(&family, &key(i), Exclusive).unwrap());
    for i in HELD..HELD + 100 {
        a.lock_key(&family, &key(i), Exclusive).unwrap();
        a.lock_key(&family, &key(i + 1), Exclusive).unwrap();
        a.unlock_key(&family, &key(i)).unwrap();
    }
    assert!(a.log_entries_looked_at() <= 200, "{}", a.log_entries_looked_at());
    // Unlocks in the order of locking: most entries lie too far back for the search of the log.
    let bytes = a.log_bytes();
    for i in 0..HELD {
        a.unlock_key(&family, &key(i)).unwrap();
    }
    assert!(a.log_entries_looked_at() <= HELD * 300, "{}", a.log_entries_looked_at());
    let mut b = manager.locker(TRY);
    (0..HELD).for_each(|i| b.lock_key(&family, &key(i), Exclusive).unwrap());
    timed_out(b.lock_key(&family, &key(HELD + 100), Shared));
    assert!(a.log_bytes() <= bytes);
    a.release_all();
    b.lock_key(&family, &key(HELD + 100), Shared).unwrap();
    manager.check().unwrap();
}

#[test]
fn keys_of_all_lengths_are_taken_back_one_by_one_and_by_save_points() {
    let manager = manager();
    let family = family(&manager);
    let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
    let lengths = [0, 1, 100, 245, 246, 251, 252, 253, 254, 255, 256, 70_000];
    let keys: Vec<Vec<u8>> = (1_u8..).zip(lengths).map(|(i, len)| vec![i; len]).collect();
    for (i, key) in keys.iter().enumerate() {
        a.set_save_point();
        a.lock_key(&family, key, Exclusive).unwrap();
        let end = [key.as_slice(), b"\0"].concat();
        a.lock_range(&family, Endpoint::Key(key), Endpoint::Key(&end), Exclusive).unwrap();
        if i % 2 == 0 {
            a.unlock_key(&family, key).unwrap();
        }
    }
    for (i, key) in keys.iter().enumerate().rev() {
        if i % 2 == 0 {
            b.lock_key(&family, key, Exclusive).unwrap();
        } else {
            timed_out(b.lock_key(&family, key, Exclusive));
        }
        timed_out(b.lock_key(&family, &[key.as_slice(), b"\0"].concat(), Exclusive));
        a.rollback_to_save_point().unwrap();
        b.lock_key(&family, key, Exclusive).unwrap();
        b.release_all();
    }
    assert!(a.is_empty() && manager.locks().is_empty());
}

#[test]
fn refusals_for_lack_of_memory_do_not_escalate_each_time() {
    let manager = LockManager::new(LockManagerOptions::new(Arc::new(TickingClock::default())));
    let family = family(&manager);
    let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
    manager.set_max_lock_memory(2000);
    // No locks can be joined.
    assert!((0..100_u64).any(|i| a.lock_key(&family, &i.to_be_bytes(), Shared).is_err()));
    for i in 100..200_u8 {
        refused(b.lock_key(&family, &[i], Exclusive), ErrorKind::Aborted, SubCode::LockLimit);
    }
    assert!(manager.counters().escalations <= 20, "{:?}", manager.counters());
    // Released memory is available at once.
    drop(a);
    b.lock_key(&family, b"key", Exclusive).unwrap();
}

#[test]
fn locks_just_below_the_limit_do_not_escalate_each_time() {
    let manager = LockManager::new(LockManagerOptions::new(Arc::new(TickingClock::default())));
    let family = family(&manager);
    let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
    // The shared locks of `a` cannot be joined. Escalation joins exclusive locks of `b`, and so
    // frees a little room.
    for i in 0..2000_u64 {
        a.lock_key(&family, &i.to_be_bytes(), Shared).unwrap();
    }
    let floor = manager.counters().lock_memory as usize;
    manager.set_max_lock_memory(floor + floor / 400);
    let granted =
        (0..2000_u64).filter(|i| b.lock_key(&family, &(1 << 32 | i).to_be_bytes(), Exclusive).is_ok());
    assert!(granted.count() > 100);
    let counters = manager.counters();
    assert!(counters.escalations > 1 && counters.escalations < 300, "{counters:?}");
    manager.check().unwrap();
    // One escalation frees so many bytes that many locks of any owner fit.
    let before = manager.counters().escalations;
    manager.set_max_lock_memory(2 * floor);
    let mut others: Vec<_> = (0..100).map(|_| manager.locker(TRY)).collect();
    for i in 0..20_000_u64 {
        let key = ((2 + i % 100) << 32 | i).to_be_bytes();
        others[(i % 100) as usize].lock_key(&family, &key, Exclusive).unwrap();
    }
    let counters = manager.counters();
    assert!(counters.escalations - before < 60, "{counters:?}");
    manager.check().unwrap();
    drop((a, b, others));
    assert_eq!(manager.counters().lock_memory, 0);
}

#[test]
fn expired_locks_are_stolen_unless_their_owner_commits() {
    let clock = Arc::new(StillClock::default());
    let manager = LockManager::new(LockManagerOptions::new(clock.clone()));
    let family = family(&manager);
    let expiring = LockerOptions { expiration: Some(Duration::from_nanos(100)), ..TRY };
    let (mut a, mut b) = (manager.locker(expiring), manager.locker(expiring));
    let mut thief = manager.locker(TRY);
    a.lock_key(&family, b"a", Exclusive).unwrap();
    b.lock_key(&family, b"b", Exclusive).unwrap();
    b.begin_commit().unwrap();
    timed_out(thief.lock_key(&family, b"a", Shared));
    clock.advance(100);
    thief.lock_key(&family, b"a", Shared).unwrap();
    timed_out(thief.lock_key(&family, b"b", Shared));
    refused(a.lock_key(&family, b"c", Shared), ErrorKind::Expired, SubCode::None);
    refused(a.begin_commit(), ErrorKind::Expired, SubCode::None);
    a.release_all();
    let locks = manager.locks();
    assert_eq!(locks.iter().filter(|l| l.ids == [thief.id()]).count(), 1, "{locks:?}");
    a.set_expiration(None);
    a.lock_key(&family, b"c", Exclusive).unwrap();
    a.begin_commit().unwrap();
}

#[test]
fn the_greediest_gives_up_precision_and_everything_in_the_end() {
    let manager = manager();
    let family = family(&manager);
    let (mut greedy, mut modest) = (manager.locker(TRY), manager.locker(TRY));
    modest.lock_key(&family, b"key 050", Exclusive).unwrap();
    manager.set_max_lock_memory(6000);
    for i in (0..300).filter(|i| *i != 50) {
        greedy.lock_key(&family, format!("key {i:03}").as_bytes(), Exclusive).unwrap();
    }
    let counters = manager.counters();
    assert!(counters.escalations > 0 && counters.escalated_locks > 100, "{counters:?}");
    assert!(counters.lock_memory < 6000, "{counters:?}");
    manager.check().unwrap();
    // Escalation locked a gap between the keys of `greedy`. `modest` still has its lock.
    timed_out(modest.lock_key(&family, b"key 000+", Shared));
    timed_out(greedy.lock_key(&family, b"key 050", Shared));
    greedy.set_save_point();
    greedy.rollback_to_save_point().unwrap();
    greedy.release_all();
    modest.release_all();
    assert!(manager.locks().is_empty());
    drop((greedy, modest));
    assert_eq!(manager.counters().lock_memory, 0);
}

#[test]
fn barriers_hold_and_a_limit_that_cannot_be_kept_is_reported() {
    let manager = manager();
    let family = family(&manager);
    manager.set_max_lock_memory(2000);
    manager.set_escalation_barrier(Some(Arc::new(|_, _, _| true)));
    let mut a = manager.locker(TRY);
    let keys: Vec<String> = (0..100).map(|i| format!("key {i:03}")).collect();
    let failed = keys.iter().find_map(|key| a.lock_key(&family, key.as_bytes(), Exclusive).err());
    let why = failed.expect("100 locks exceed the memory limit");
    assert_eq!((why.kind(), why.subcode()), (ErrorKind::Aborted, SubCode::LockLimit));
    manager.set_escalation_barrier(Some(Arc::new(|_, _, right| right.key == b"key 010")));
    for key in &keys {
        a.lock_key(&family, key.as_bytes(), Exclusive).unwrap();
    }
    let mut b = manager.locker(TRY);
    manager.set_max_lock_memory(usize::MAX);
    b.lock_key(&family, b"key 009+", Exclusive).unwrap();
    timed_out(b.lock_key(&family, b"key 010+", Exclusive));
    manager.set_max_lock_memory(0);
    refused(b.lock_key(&family, b"z", Shared), ErrorKind::Aborted, SubCode::LockLimit);
}

#[test]
fn a_dropped_family_takes_its_locks_with_it() {
    let manager = manager();
    let family = family(&manager);
    let (mut a, mut b) = (manager.locker(TRY), manager.locker(TRY));
    a.lock_range(&family, Endpoint::Min, Endpoint::Max, Exclusive).unwrap();
    manager.drop_family(ColumnFamilyId::DEFAULT).unwrap();
    refused(b.lock_key(&family, b"a", Shared), ErrorKind::ColumnFamilyDropped, SubCode::None);
    refused(a.lock_key(&family, b"a", Shared), ErrorKind::ColumnFamilyDropped, SubCode::None);
    a.release_all();
    assert!(manager.drop_family(ColumnFamilyId::DEFAULT).is_err());
    let again = self::family(&manager);
    b.lock_key(&again, b"a", Exclusive).unwrap();
    drop((a, b));
    assert_eq!(manager.counters().lock_memory, 0);
}

/// Bytes allocated for one locker's locks on `count` keys, per lock.
fn bytes_per_lock(key: impl Fn(u64) -> Vec<u8>, count: u64) -> f64 {
    let manager = manager();
    let family = family(&manager);
    let mut a = manager.locker(TRY);
    for i in 0..count {
        a.lock_key(&family, &key(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)), Exclusive).unwrap();
    }
    let mut bytes = a.log_bytes();
    family.for_each_leaf(|leaf, state| {
        bytes += size_of_val(leaf) + 16 + 48 + state.fragments.allocated_bytes()
    });
    bytes as f64 / count as f64
}

#[test]
fn a_point_lock_takes_at_most_64_bytes_and_its_key() {
    for count in [10_000, 200_000] {
        let bytes = bytes_per_lock(|i| [i.to_be_bytes(), i.to_be_bytes()].concat(), count);
        assert!(bytes <= 64.0 + 16.0, "{bytes} bytes for each of {count} locks on keys of 16 bytes");
    }
}

#[test]
fn one_locker_may_hold_many_locks() {
    let manager = manager();
    let family = family(&manager);
    let mut a = manager.locker(TRY);
    for i in 0..50_000_u32 {
        a.lock_key(&family, &i.to_be_bytes(), Exclusive).unwrap();
    }
    manager.check().unwrap();
    assert_eq!(manager.locks().len(), 50_000);
    assert!(manager.counters().splits > 100);
    a.release_all();
    assert!(manager.locks().is_empty());
}

/// Requests the keys from `first` to `last`; returns the waiting request if it has to wait.
fn request(
    locker: &mut Locker,
    family: &Arc<LockFamily>,
    first: u8,
    last: u8,
) -> Option<Arc<crate::wait::Waiter>> {
    let (first, last) = ([first], [last]);
    let span = crate::cut::KeySpan::closed(Endpoint::Key(&first), Endpoint::Key(&last));
    locker.start(family, span, Exclusive, true).unwrap()
}

#[test]
fn the_locker_that_a_line_waits_for_passes_all_of_it() {
    let manager = manager_with_patience(0);
    let family = family(&manager);
    let mut lockers: Vec<Locker> = (0..4).map(|_| manager.locker(TRY)).collect();
    let [holder, first, second, late] = &mut lockers[..] else { unreachable!() };
    assert!(request(holder, &family, 3, 3).is_none());
    let waits = [request(first, &family, 1, 5).unwrap(), request(second, &family, 4, 9).unwrap()];
    // The second waits for the first, and the first for the holder. If the holder waited for the
    // second, it would close a cycle.
    assert!(request(holder, &family, 8, 8).is_none());
    // `late` is younger than the second request, and waits for it.
    let waits_too = request(late, &family, 9, 9).unwrap();
    for waiter in [&waits_too, &waits[1], &waits[0]] {
        assert!(family.withdraw(waiter));
    }
}

#[test]
fn a_locker_that_was_let_through_passes_the_requests_behind_it() {
    let manager = manager();
    let family = family(&manager);
    let mut lockers: Vec<Locker> = (0..3).map(|_| manager.locker(TRY)).collect();
    let [holder, first, second] = &mut lockers[..] else { unreachable!() };
    assert!(request(holder, &family, 2, 2).is_none());
    let waits = [request(first, &family, 1, 3).unwrap(), request(second, &family, 2, 9).unwrap()];
    holder.release_all();
    let Some(crate::owner::WaitOutcome::Granted(pieces, bytes)) = first.take_outcome() else {
        panic!("the request is next in line")
    };
    first.finish(&family, waits[0].span.as_span(), pieces, bytes);
    // The second request waits for the first locker.
    assert!(request(first, &family, 7, 7).is_none());
    assert!(family.withdraw(&waits[1]));
}

#[test]
fn a_locker_that_begins_again_passes_no_waiting_request() {
    let manager = manager_with_patience(0);
    let family = family(&manager);
    let mut lockers: Vec<Locker> = (0..3).map(|_| manager.locker(TRY)).collect();
    let [first, second, wide] = &mut lockers[..] else { unreachable!() };
    assert!(request(first, &family, 3, 3).is_none());
    assert!(request(second, &family, 4, 4).is_none());
    let waits = request(wide, &family, 0, 9).unwrap();
    // `wide` waits for both lockers, so both pass it.
    assert!(request(first, &family, 5, 5).is_none());
    assert!(request(second, &family, 6, 6).is_none());
    first.release_all();
    let waits_too = request(first, &family, 3, 3).unwrap();
    assert!(request(second, &family, 5, 5).is_none());
    second.release_all();
    let Some(crate::owner::WaitOutcome::Granted(pieces, bytes)) = wide.take_outcome() else {
        panic!("all earlier lockers have released their locks")
    };
    wide.finish(&family, waits.span.as_span(), pieces, bytes);
    assert!(family.withdraw(&waits_too));
    wide.release_all();
    assert!(manager.locks().is_empty());
}

#[test]
fn a_waiting_range_is_passed_by_a_limited_number_and_by_earlier_lockers() {
    const PATIENCE: u64 = 5;
    let manager = manager_with_patience(PATIENCE);
    let family = family(&manager);
    let mut lockers: Vec<Locker> = (0..4).map(|_| manager.locker(TRY)).collect();
    let [holder, wide, young, key] = &mut lockers[..] else { unreachable!() };
    assert!(request(holder, &family, 3, 3).is_none());
    let waits = request(wide, &family, 0, 9).unwrap();
    for _ in 0..2 {
        assert!(request(young, &family, 1, 1).is_none());
        // Later requests of `young` pass as well: the age of its first lock decides.
        assert!(request(young, &family, 5, 7).is_none());
        young.release_all();
    }
    // The passes drew four tickets. One more pass draws the fifth.
    assert!(request(young, &family, 2, 2).is_none());
    let waits_too = request(key, &family, 1, 1).unwrap();
    // An owner that began in time still passes.
    assert!(request(young, &family, 8, 8).is_none());
    holder.release_all();
    young.release_all();
    let Some(crate::owner::WaitOutcome::Granted(pieces, bytes)) = wide.take_outcome() else {
        panic!("no locker blocks the request")
    };
    wide.finish(&family, waits.span.as_span(), pieces, bytes);
    wide.release_all();
    assert!(matches!(key.take_outcome(), Some(crate::owner::WaitOutcome::Granted(..))));
    drop(waits_too);
}

#[test]
fn a_waiting_key_is_passed_only_by_earlier_lockers() {
    let manager = manager();
    let family = family(&manager);
    let mut lockers: Vec<Locker> = (0..3).map(|_| manager.locker(TRY)).collect();
    let [reader, writer, late] = &mut lockers[..] else { unreachable!() };
    reader.lock_key(&family, &[3], Shared).unwrap();
    let waits = request(writer, &family, 3, 3).unwrap();
    refused(late.lock_key(&family, &[3], Shared), ErrorKind::TimedOut, SubCode::LockTimeout);
    assert!(family.withdraw(&waits));
    late.lock_key(&family, &[3], Shared).unwrap();
}

/// A comparator whose order changes between calls.
#[derive(Debug, Default)]
struct UnstableComparator {
    asked: std::sync::atomic::AtomicU64,
    /// 0: bytewise; 1: reverse; more: arbitrary.
    order: std::sync::atomic::AtomicU64,
}

impl esker_base::comparator::Comparator for UnstableComparator {
    fn name(&self) -> &str {
        "test.UnstableComparator"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        let asked = self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match self.order.load(std::sync::atomic::Ordering::Relaxed) {
            0 => a.cmp(b),
            1 => b.cmp(a),
            _ if a == b => std::cmp::Ordering::Equal,
            order => (asked.wrapping_mul(order | 1) >> 5 & 1).cmp(&(asked >> 3 & 1)),
        }
    }
}

/// Withdraws a request, or accepts its grant.
fn end_waiting(locker: &mut Locker, waiter: &crate::wait::Waiter) {
    if waiter.family.withdraw(waiter) {
        return;
    }
    let outcome = locker.take_outcome();
    let Some(crate::owner::WaitOutcome::Granted(pieces, bytes)) = outcome else { panic!("{outcome:?}") };
    locker.finish(&waiter.family, waiter.span.as_span(), pieces, bytes);
}

#[test]
fn a_comparator_whose_order_changes_costs_no_lock_and_no_endless_wait() {
    esker_testkit::seed::for_each_seed("lock::fickle", 200, |_, mut rng| {
        let manager = manager();
        let comparator = Arc::new(UnstableComparator::default());
        let options = FamilyOptions {
            comparator: comparator.clone(),
            max_fragments: rng.usize(1..6),
            ..FamilyOptions::default()
        };
        let family = manager.add_family(ColumnFamilyId::DEFAULT, &options).unwrap();
        let mut lockers: Vec<Locker> = (0..4).map(|_| manager.locker(TRY)).collect();
        let mut waits: Vec<Option<Arc<crate::wait::Waiter>>> = vec![None; 4];
        for _ in 0..60 {
            if rng.u8(..10) == 0 {
                comparator.order.store(rng.u64(..4), std::sync::atomic::Ordering::Relaxed);
            }
            let who = rng.usize(..4);
            let locker = &mut lockers[who];
            if let Some(waiter) = waits[who].take_if(|waiter| !waiter.is_unsettled() || rng.bool()) {
                end_waiting(locker, &waiter);
            }
            if waits[who].is_some() {
                continue;
            }
            let (left, right) = ([rng.u8(..20)], [rng.u8(..20)]);
            let mode = if rng.bool() { Shared } else { Exclusive };
            let span = match rng.bool() {
                true => crate::cut::KeySpan::point(&left),
                false => crate::cut::KeySpan::closed(Endpoint::Key(&left), Endpoint::Key(&right)),
            };
            match rng.u8(..10) {
                0 => locker.release_all(),
                1 => locker.set_save_point(),
                2 => drop(locker.rollback_to_save_point()),
                3 => drop(locker.unlock(&family, span)),
                4 => drop(locker.downgrade_span(&family, span)),
                _ => waits[who] = locker.start(&family, span, mode, true).unwrap(),
            }
        }
        for (locker, waiter) in lockers.iter_mut().zip(waits) {
            waiter.inspect(|waiter| end_waiting(locker, waiter));
        }
        drop(lockers);
        assert_eq!((manager.locks(), manager.waits()), (vec![], vec![]));
    });
}

/// Nothing writes to the pages of the key, so they take no memory.
#[cfg(target_pointer_width = "64")]
#[test]
fn keys_of_4_gib_are_refused() {
    let manager = manager();
    let family = family(&manager);
    let mut a = manager.locker(TRY);
    let key = vec![0; 1 << 32];
    refused(a.lock_key(&family, &key, Exclusive), ErrorKind::InvalidArgument, SubCode::None);
    let range = (Endpoint::Key(&[]), Endpoint::Supremum(&key));
    refused(a.lock_range(&family, range.0, range.1, Shared), ErrorKind::InvalidArgument, SubCode::None);
    assert!(a.is_empty() && manager.locks().is_empty());
}
