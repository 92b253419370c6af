use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;

const LOW: LockRank = LockRank::new(10, "low");
const HIGH: LockRank = LockRank::new(20, "high");

fn panic_message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("should panic");
    payload.downcast_ref::<String>().cloned().expect("a formatted message")
}

#[test]
fn rising_order_is_right() {
    let (low, high) = (RankedMutex::new(LOW, 1), RankedMutex::new(HIGH, 2));
    let a = low.lock();
    let mut b = high.lock();
    *b += *a;
    drop(a);
    assert_eq!(*b, 3);
    drop(b);
    drop((high.lock(), ()));
    assert_eq!(*low.lock(), 1, "after all are released any may come first");
}

#[test]
#[cfg(debug_assertions)]
fn falling_order_panics_and_names_both() {
    let (low, high) = (RankedMutex::new(LOW, ()), RankedMutex::new(HIGH, ()));
    let message = panic_message(|| {
        let _high = high.lock();
        let _low = low.lock();
    });
    assert!(message.contains("`low` (rank 10)") && message.contains("`high` (rank 20)"), "{message}");
    // The panic left nothing behind.
    let _low = low.lock();
    let _high = high.lock();
}

#[test]
#[cfg(debug_assertions)]
fn the_same_rank_twice_panics() {
    let (one, two) = (RankedMutex::new(LOW, ()), RankedMutex::new(LOW, ()));
    let _one = one.lock();
    panic_message(|| drop(two.lock()));
    assert!(two.try_lock().is_some(), "trying never waits");
}

#[test]
#[cfg(debug_assertions)]
fn locks_that_are_released_in_any_order_leave_the_others_held() {
    static RANKS: [LockRank; 3] = [LOW, LockRank::new(15, "between"), HIGH];
    for released in 0..3 {
        let locks = RANKS.map(|rank| RankedMutex::new(rank, ()));
        let mut guards: Vec<_> = locks.iter().map(|lock| Some(lock.lock())).collect();
        guards[released] = None;
        let highest = if released == 2 { "`between`" } else { "`high`" };
        let message = panic_message(|| drop(RankedMutex::new(LOW, ()).lock()));
        assert!(message.contains(highest), "{message}");
    }
    drop(RankedMutex::new(LOW, ()).lock());
}

#[test]
#[cfg(debug_assertions)]
fn a_lock_beyond_the_most_that_a_thread_can_record_panics() {
    let locks: Vec<_> = (0..=held::MOST).map(|_| RankedMutex::new(LOW, ())).collect();
    let (last, others) = locks.split_last().unwrap();
    let guards: Vec<_> = others.iter().map(|lock| lock.try_lock().unwrap()).collect();
    let message = panic_message(|| drop(last.try_lock()));
    assert!(message.contains("holds 64 already"), "{message}");
    drop(guards);
    drop(last.lock());
}

#[test]
#[cfg(debug_assertions)]
fn sleeping_with_a_higher_lock_panics() {
    let (low, high) = (RankedMutex::new(LOW, ()), RankedMutex::new(HIGH, ()));
    let condvar = RankedCondvar::new();
    let mut low = low.lock();
    let _high = high.lock();
    panic_message(|| {
        condvar.wait_timeout(&mut low, Duration::ZERO);
    });
}

#[test]
fn unlocked_releases_the_lock_and_takes_it_again() {
    let (low, high) = (RankedMutex::new(LOW, 0), RankedMutex::new(HIGH, 0));
    let mut guard = high.lock();
    guard.unlocked(|| {
        *low.lock() = 7;
        *high.lock() = 8;
    });
    assert_eq!(*guard, 8);
    drop(guard);
    let mut guard = low.lock();
    let payload = catch_unwind(AssertUnwindSafe(|| guard.unlocked(|| std::panic::panic_any(5))));
    assert_eq!(payload.expect_err("passed on").downcast_ref::<i32>(), Some(&5));
    drop(guard);
    assert_eq!(*low.lock(), 7);
}

#[test]
fn a_wait_ends_at_a_notification_or_at_its_timeout() {
    let shared = Arc::new((RankedMutex::new(LOW, false), RankedCondvar::new()));
    let mut guard = shared.0.lock();
    assert!(shared.1.wait_timeout(&mut guard, Duration::from_millis(1)));
    let (started, has_started) = mpsc::channel();
    let other = Arc::clone(&shared);
    let thread = std::thread::Builder::new()
        .spawn(move || {
            started.send(()).unwrap();
            *other.0.lock() = true;
            other.1.notify_all();
        })
        .unwrap();
    has_started.recv().unwrap();
    shared.1.wait_while(&mut guard, |done| !*done);
    assert!(*guard);
    drop(guard);
    thread.join().unwrap();
}
