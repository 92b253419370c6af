//! Tells a forked child from the process that made a value.
//!
//! In: a value and the process that makes it. Out: [`Owner::is_here`], one load and one comparison.
//! A forked child has a copy of all memory and one thread. The other threads are gone, but the
//! locks that they held stay taken. A value of the parent must not write to its files, wait for its
//! threads, or take its locks.
//!
//! `pthread_atfork` raises a generation in the child. A child made by a bare `clone` system call
//! runs no such handler and is not noticed; neither is `vfork`, after which only `exec` is allowed.
//!
//! Invariants
//!  1. The generation never changes while a process runs, except in its child, before `fork`
//!     returns there.
//!  2. Nothing that another process made is freed here: a thread that is gone may have been
//!     changing it.

use super::epoch;
use super::process::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use super::process::{Mutex, MutexGuard};
use crate::{Error, Result};
use std::fmt;
use std::ptr;

/// How many forks lie between this process and the first one that made an [`Owner`].
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Whether `fork` raises it.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    epoch::begin_in_child();
}

fn watch() {
    if IS_WATCHED.load(Ordering::Relaxed) || cfg!(any(miri, loom)) || IS_WATCHED.swap(true, Ordering::Relaxed)
    {
        return;
    }
    // SAFETY: the handler is a function that lives as long as the process; it stores into atomics
    // and a thread-local cell without destructor, which is allowed in a child of a process with
    // threads.
    let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // Without memory for the handler forks are not noticed; the next owner tries again.
    if result != 0 {
        IS_WATCHED.store(false, Ordering::Relaxed);
    }
}

/// The process that made a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    generation: u64,
    process_id: u32,
}

impl Owner {
    /// This process.
    pub fn here() -> Owner {
        watch();
        Owner { generation: GENERATION.load(Ordering::Relaxed), process_id: std::process::id() }
    }

    /// Whether this process is the owner, not a forked child of it.
    #[inline(always)]
    pub fn is_here(self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }

    /// Fails in a forked child; `what` is the subject of the message: "the database in /db".
    /// # Errors
    /// `NotSupported` names both processes.
    #[inline]
    pub fn check(self, what: impl fmt::Display) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(self.is_elsewhere(&what)) }
    }

    /// The error of [`Owner::check`].
    #[cold]
    pub fn is_elsewhere(self, what: &dyn fmt::Display) -> Error {
        let (owner, here) = (self.process_id, std::process::id());
        Error::not_supported(format!(
            "{what} belongs to process {owner}; this is process {here}, a forked child, which must open its own"
        ))
    }
}

/// A value that each process has of its own: a forked child makes a new one at its first use.
pub struct PerProcess<T> {
    made: AtomicPtr<Made<T>>,
}

struct Made<T> {
    owner: Owner,
    value: T,
}

impl<T> PerProcess<T> {
    /// Nothing yet.
    pub const fn new() -> PerProcess<T> {
        PerProcess { made: AtomicPtr::new(ptr::null_mut()) }
    }

    /// This process's value. A forked child calls `make` with the parent's value, whose locks may
    /// be held for ever: `make` may read only parts that are never locked.
    #[inline]
    pub fn get(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        match self.here() {
            Some(value) => value,
            None => self.make(make),
        }
    }

    /// This process's value, if it has made one.
    #[inline]
    pub fn here(&self) -> Option<&T> {
        self.made().filter(|made| made.owner.is_here()).map(|made| &made.value)
    }

    fn made(&self) -> Option<&Made<T>> {
        // SAFETY: null, or from `Box::into_raw` in `make`. It is freed only by `drop`, which has
        // `&mut self`, or by the thread that failed to publish it.
        unsafe { self.made.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn make(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        let old = self.made.load(Ordering::Acquire);
        // SAFETY: the pointer came from `Box::into_raw`; a value that a parent made is never freed.
        let value = make(unsafe { old.as_ref() }.map(|made| &made.value));
        let new = Box::into_raw(Box::new(Made { owner: Owner::here(), value }));
        match self.made.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made and published; freed as said in `made`.
            Ok(_) => unsafe { &(*new).value },
            Err(others) => {
                // SAFETY: the box was not published, so nothing else refers to it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: another thread of this process published it, and it stays as said in
                // `made`.
                unsafe { &(*others).value }
            }
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> PerProcess<T> {
        PerProcess::new()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.here().is_some() {
            // SAFETY: this process made it with `Box::into_raw`, and `&mut self` shows that nothing
            // refers to it.
            drop(unsafe { Box::from_raw(*self.made.get_mut()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerProcess").field(&self.here()).finish()
    }
}

// SAFETY: it owns one value, which `drop` may drop on another thread.
unsafe impl<T: Send> Send for PerProcess<T> {}
// SAFETY: it hands out `&T` to all threads, and one thread may drop what another has made.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

/// A mutex of a static, which a thread of the parent may have held when this process was forked.
pub struct StaticMutex<T> {
    mutex: Mutex<T>,
    /// The last generation in which it was known to be whole.
    generation: AtomicU64,
}

impl<T> StaticMutex<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> StaticMutex<T> {
        StaticMutex { mutex: Mutex::new(value), generation: AtomicU64::new(0) }
    }

    /// The lock; `None` in a forked child if a thread that is gone may hold it.
    #[inline]
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        let now = GENERATION.load(Ordering::Relaxed);
        if self.generation.load(Ordering::Relaxed) == now {
            return Some(self.mutex.lock());
        }
        let guard = self.mutex.try_lock()?;
        self.generation.store(now, Ordering::Relaxed);
        Some(guard)
    }
}

impl<T> fmt::Debug for StaticMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticMutex")
    }
}

#[cfg(all(test, not(any(miri, loom, shuttle))))]
mod tests;
