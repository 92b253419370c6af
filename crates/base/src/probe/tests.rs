use super::*;
use crate::sync::atomic::AtomicU64;
use std::thread;

#[test]
fn points_do_nothing_on_their_own() {
    probe!("nothing");
    let mut value = 1u64;
    probe!("nothing with a value", &mut value);
    assert_eq!(value, 1);
}

#[test]
fn a_call_sees_and_changes_the_value() {
    let probes = Probes::new();
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    probes.on("value", move |value| {
        counted.fetch_add(1, Ordering::Relaxed);
        *value.downcast_mut::<u64>().unwrap() += 10;
        probe!("passed by a call");
    });
    let mut value = 1u64;
    probe!("value", &mut value);
    assert_eq!((value, calls.load(Ordering::Relaxed)), (11, 1));
    assert!(
        probes.has_passed("value") && probes.has_passed("passed by a call") && !probes.has_passed("other")
    );
    probes.clear("value");
    probe!("value", &mut value);
    assert_eq!(value, 11);
    probes.forget_passed();
    assert!(!probes.has_passed("value"));
    drop(probes);
    probe!("value", &mut value);
    assert_eq!((value, calls.load(Ordering::Relaxed)), (11, 1));
}

#[test]
fn a_call_of_one_thread_leaves_other_threads_alone() {
    let probes = Probes::new();
    probes.on_this_thread("thread", |value| *value.downcast_mut::<u64>().unwrap() += 10);
    let pass = || {
        let mut value = 1u64;
        probe!("thread", &mut value);
        value
    };
    assert_eq!((pass(), thread::scope(|scope| scope.spawn(pass).join().unwrap())), (11, 1));
}

#[test]
fn points_wait_for_those_before_them() {
    for _ in 0..50 {
        let probes = Probes::new();
        probes.order("first", "second").order("second", "third");
        let trace = Arc::new(Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for name in ["third", "second", "first"] {
                let trace = Arc::clone(&trace);
                probes.on(name, move |_| trace.lock().push(name));
                scope.spawn(move || probe!(name));
            }
            probes.wait_for("third");
        });
        assert_eq!(*trace.lock(), ["first", "second", "third"]);
    }
}

#[test]
fn dropping_probes_releases_every_waiter() {
    let probes = Probes::new();
    probes.order("never passed", "waits");
    let thread = thread::Builder::new()
        .spawn(|| {
            probe!("reached");
            probe!("waits");
        })
        .unwrap();
    probes.wait_for("reached");
    drop(probes);
    thread.join().unwrap();
}

#[test]
fn a_call_that_panics_does_not_block_the_drop_of_probes() {
    let probes = Probes::new();
    probes.on("panics", |_| panic!("a planned panic"));
    assert!(std::panic::catch_unwind(|| probe!("panics")).is_err());
    drop(probes);
}
