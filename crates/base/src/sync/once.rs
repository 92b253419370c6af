//! `OnceLock` for ThreadSanitizer (`--cfg esker_tsan`). The standard library is not instrumented,
//! so ThreadSanitizer reports each value that its `OnceLock` publishes as a race.
//!
//! Invariant: a thread sets `ready`, with release, after it put or found the value under `lock`. A
//! thread that loads `ready` as set, with acquire, sees the value.

use super::locks::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A cell that is written once.
#[derive(Debug)]
pub struct OnceLock<T> {
    cell: std::sync::OnceLock<T>,
    lock: Mutex<()>,
    ready: AtomicBool,
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        let cell = self.get().cloned().map_or_else(std::sync::OnceLock::new, std::sync::OnceLock::from);
        OnceLock { ready: AtomicBool::new(cell.get().is_some()), cell, lock: Mutex::new(()) }
    }
}

impl<T> OnceLock<T> {
    /// An empty cell.
    pub const fn new() -> OnceLock<T> {
        OnceLock { cell: std::sync::OnceLock::new(), lock: Mutex::new(()), ready: AtomicBool::new(false) }
    }

    /// The value, if it was put.
    pub fn get(&self) -> Option<&T> {
        if self.ready.load(Ordering::Acquire) { self.cell.get() } else { None }
    }

    /// Sets the value.
    /// # Errors
    /// The given value, if the cell has one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _one_at_a_time = self.lock.lock();
        let result = self.cell.set(value);
        self.ready.store(true, Ordering::Release);
        result
    }

    /// The value, made by `make` if there is none.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if !self.ready.load(Ordering::Acquire) {
            let _one_at_a_time = self.lock.lock();
            self.cell.get_or_init(make);
            self.ready.store(true, Ordering::Release);
        }
        self.cell.get_or_init(|| unreachable!("ready is set behind the value"))
    }
}

#[cfg(test)]
mod tests;
