use super::*;
use crate::sync::{Condvar, Mutex, thread};
use std::time::Duration;

/// Runs `work` in many orders of the threads.
fn in_machines(work: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(move || with_clock(None, &work), 200);
}

#[test]
fn shuttle_no_thread_wakes_before_its_deadline_and_no_time_passes_without_a_waiter() {
    in_machines(|| {
        thread::scope(|scope| {
            for seconds in [30, 10, 20] {
                scope.spawn(move || {
                    let until = now().expect("there is a clock") + seconds * SECOND;
                    sleep(seconds * SECOND);
                    assert!(now() >= Some(until));
                });
            }
        });
        // At once, or in turn.
        assert!((30 * SECOND..61 * SECOND).contains(&now().expect("there is a clock")));
    });
}

#[test]
fn shuttle_a_timed_wait_ends_by_a_call_or_by_the_clock() {
    in_machines(|| {
        let (open, changed) = (Mutex::new(false), Condvar::new());
        let begin = now().expect("there is a clock");
        let mut held = open.lock();
        assert!(changed.wait_for(&mut held, Duration::from_secs(5)), "no thread notifies the waiter");
        assert!(now() >= Some(begin + 5 * SECOND));
        drop(held);
        thread::scope(|scope| {
            scope.spawn(|| {
                sleep(SECOND);
                *open.lock() = true;
                changed.notify_all();
            });
            let mut held = open.lock();
            while !*held {
                _ = changed.wait_for(&mut held, Duration::from_secs(3600));
            }
        });
    });
}

/// A lock may be waited for, a call, or a deadline, while threads of the scope end.
#[test]
fn shuttle_the_thread_that_opens_a_scope_may_wait_in_it() {
    in_machines(|| {
        thread::scope(|scope| {
            scope.spawn(thread::yield_now);
            sleep(SECOND);
        });
    });
}

#[test]
fn shuttle_a_clock_that_leaps_never_goes_back() {
    shuttle::check_random(
        || {
            with_clock(Some(7), || {
                let mut last = 0;
                for _ in 0..300 {
                    sleep(1_000_000);
                    let now = now().expect("there is a clock");
                    assert!(now >= last + 1_000_000);
                    last = now;
                }
                assert!(last > SECOND, "the clock has not leapt");
            });
        },
        5,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn shuttle_a_wait_that_nothing_ends_is_found() {
    in_machines(|| {
        let (nothing, never) = (Mutex::new(()), Condvar::new());
        never.wait(&mut nothing.lock());
    });
}
