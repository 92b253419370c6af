//! shuttle's threads, with a `scope` whose body may wait.
//!
//! The last thread of shuttle's own scope wakes the thread that opened the scope, even from a wait
//! for a lock, a notification or a deadline. Here one more thread stays until the body is done, so
//! that the last thread ends after it.

use shuttle::sync::{Condvar, Mutex};
pub use shuttle::thread::*;
use std::sync::Arc;

/// As the standard library's.
pub fn scope<'env, F, T>(body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let done = Arc::new((Mutex::new(false), Condvar::new()));
    shuttle::thread::scope(|scope| {
        let waits = done.clone();
        scope.spawn(move || {
            let mut is_done = waits.0.lock().expect("no thread panics while it holds this lock");
            while !*is_done {
                is_done = waits.1.wait(is_done).expect("no thread panics while it holds this lock");
            }
        });
        let result = body(scope);
        *done.0.lock().expect("no thread panics while it holds this lock") = true;
        done.1.notify_one();
        result
    })
}
