//! Lists the threads that wait in a simulated machine, for the report of a deadlock.
//!
//! In: each wait for a lock or a notification, with its place in the source. Out: a list of the
//! waits that have not ended. All threads of a machine share one thread of the system, so that
//! thread keeps the list. No access to the list is a place where the scheduler changes threads.
//!
//! Invariant: a wait that ends removes its own entry. A wait that never ends leaves its entry, also
//! when its thread is unwound.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::Location;

struct Wait {
    thread: String,
    what: &'static str,
    at: &'static Location<'static>,
}

#[derive(Default)]
struct Waits {
    begun: u64,
    waiting: BTreeMap<u64, Wait>,
}

thread_local! {
    static WAITS: RefCell<Waits> = RefCell::default();
}

/// Runs `wait` and lists it while it runs as a wait for `what`.
#[track_caller]
pub(super) fn during<T>(what: &'static str, wait: impl FnOnce() -> T) -> T {
    let at = Location::caller();
    let number = WAITS.with_borrow_mut(|waits| {
        waits.begun += 1;
        waits.waiting.insert(waits.begun, Wait { thread: name(), what, at });
        waits.begun
    });
    let result = wait();
    WAITS.with_borrow_mut(|waits| waits.waiting.remove(&number));
    result
}

fn name() -> String {
    let thread = shuttle::thread::current();
    match thread.name() {
        Some(name) => format!("{name} ({:?})", thread.id()),
        None => format!("{:?}", thread.id()),
    }
}

/// A line for each wait that has not ended, oldest first.
pub fn list_waiters() -> String {
    WAITS.with_borrow(|waits| {
        waits.waiting.values().fold(String::new(), |mut list, wait| {
            write!(list, "\n  {} waits for {} at {}", wait.thread, wait.what, wait.at)
                .expect("a write to a string cannot fail");
            list
        })
    })
}

/// Empties the list for a new machine.
pub(super) fn forget() {
    WAITS.with_borrow_mut(|waits| *waits = Waits::default());
}
