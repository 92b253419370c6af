use super::Timer;
use crate::clock::MockClock;
use crate::thread_pool::tests::REFUSES;
use esker_base::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(600);

fn timer() -> (Arc<MockClock>, Timer) {
    let clock = Arc::new(MockClock::new(0));
    (clock.clone(), Timer::new(clock))
}

/// Waits for a call. A call that never comes fails the test instead of hanging it; a thread of a
/// busy machine may wait long for its turn.
fn wait<T>(calls: &Receiver<T>) -> T {
    calls.recv_timeout(Duration::from_secs(600)).expect("the timer calls the work")
}

#[test]
fn work_is_called_once_in_each_period() {
    let (clock, timer) = timer();
    let (tell, calls) = channel();
    let _repeating = timer.repeat(PERIOD, move || tell.send(()).unwrap());
    for _ in 0..3 {
        timer.read_clock_again();
        assert!(calls.try_recv().is_err(), "the call does not come early");
        clock.advance(PERIOD);
        timer.read_clock_again();
        wait(&calls);
        // The next round begins when the timer has finished this call.
        while timer.shared().state.lock().running.is_some() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn work_does_not_run_any_more_when_its_handle_is_dropped() {
    let (clock, timer) = timer();
    let (tell, calls) = channel();
    let (told, others) = channel();
    let repeating = timer.repeat(PERIOD, move || tell.send(()).unwrap());
    let _other = timer.repeat(PERIOD, move || told.send(()).unwrap());
    drop(repeating);
    assert!(calls.recv().is_err(), "the call's captures are dropped");
    clock.advance(PERIOD);
    timer.read_clock_again();
    wait(&others);
}

#[test]
fn work_may_drop_its_own_handle_and_the_timer() {
    let (clock, timer) = timer();
    let (tell, calls) = channel();
    let (give, take) = channel();
    let timer = Arc::new(timer);
    let weak = Arc::downgrade(&timer);
    let repeating = timer.repeat(PERIOD, move || {
        let owned: (Arc<Timer>, super::Repeating) = take.recv().unwrap();
        drop(owned.1);
        drop(owned.0);
        tell.send(()).unwrap();
    });
    give.send((timer.clone(), repeating)).unwrap();
    clock.advance(PERIOD);
    timer.read_clock_again();
    drop(timer);
    wait(&calls);
    assert!(weak.upgrade().is_none());
}

#[test]
fn work_that_panics_is_not_called_again_and_others_go_on() {
    let (clock, timer) = timer();
    let (tell, calls) = channel();
    let (told, others) = channel();
    let _panics = timer.repeat(PERIOD, move || {
        tell.send(()).unwrap();
        panic!("a planned panic");
    });
    let _other = timer.repeat(PERIOD, move || told.send(()).unwrap());
    clock.advance(PERIOD);
    timer.read_clock_again();
    wait(&calls);
    wait(&others);
    assert!(calls.recv().is_err(), "dropped");
}

#[test]
fn work_waits_for_a_thread_that_the_system_refuses() {
    let (clock, timer) = timer();
    let (tell, calls) = channel();
    REFUSES.set(true);
    let _repeating = timer.repeat(PERIOD, move || tell.send(()).unwrap());
    timer.start_refused();
    clock.advance(PERIOD);
    assert!(timer.shared().state.lock().thread.is_none());
    REFUSES.set(false);
    timer.start_refused();
    wait(&calls);
}
