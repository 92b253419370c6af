//! Distinguishes a forked child from the process that made a value.
//!
//! In: a value and the process that makes it. Out: [`ProcessOwner::is_here`], one load and one
//! comparison. A forked child has a copy of all memory and one thread. The other threads are gone,
//! but the locks that they held stay taken. So the child must not write to the files of a parent's
//! value, wait for its threads, or take its locks.
//!
//! The generation of a process lies in a page that the kernel wipes in each child
//! (`MADV_WIPEONFORK`), even in one made by a bare `clone` system call. `pthread_atfork` gives the
//! child of a `fork` the next generation before `fork` returns; other children take it at their
//! first [`ProcessOwner::here`]. If the kernel cannot wipe the page, only `fork` is noticed.
//! `vfork` is not noticed: after it only `exec` is allowed.
//!
//! Invariants
//!  1. The generation never changes while a process runs, except from 0 to its own.
//!  2. A process frees nothing that another process made: a vanished thread may have been changing
//!     it.

use super::epoch;
#[cfg(unix)]
use super::process::atomic::AtomicBool;
use super::process::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use super::process::{Mutex, MutexGuard};
use crate::{Error, Result};
use std::fmt;
use std::ptr;

/// The generation of the first process that makes a [`ProcessOwner`].
const FIRST: u64 = 1;

/// Size of [`PAGE`], a multiple of the kernel's pages. On aarch64 they have 4, 16 or 64 KiB.
const PAGE_BYTES: usize = if cfg!(target_arch = "aarch64") { 65536 } else { 4096 };

/// Whole pages for the generation alone: the kernel wipes all of them.
#[repr(C)]
#[cfg_attr(target_arch = "aarch64", repr(align(65536)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(align(4096)))]
struct Page {
    /// The generation; 0 before it is known.
    generation: AtomicU64,
    _rest: [u8; PAGE_BYTES - size_of::<AtomicU64>()],
}

static PAGE: Page = Page { generation: AtomicU64::new(0), _rest: [0; PAGE_BYTES - size_of::<AtomicU64>()] };

/// The newest generation of this process and its ancestors.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// The process that last took a generation in [`begin`]; 0 for none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether the handler of `fork` that raises the generation is installed.
#[cfg(unix)]
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
extern "C" fn in_child() {
    PAGE.generation.store(NEWEST.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    epoch::begin_in_child();
}

/// This process's generation.
#[inline]
fn generation() -> u64 {
    match PAGE.generation.load(Ordering::Relaxed) {
        0 => begin(),
        known => known,
    }
}

/// Takes the first generation. In a child for which no handler ran, takes the next one.
#[cold]
fn begin() -> u64 {
    let here = process_id();
    let before = PROCESS.swap(here, Ordering::AcqRel);
    if before == 0 {
        NEWEST.store(FIRST, Ordering::Relaxed);
        PAGE.generation.store(FIRST, Ordering::Release);
    } else if before != here {
        epoch::begin_in_child();
        let next = NEWEST.fetch_add(1, Ordering::Relaxed) + 1;
        PAGE.generation.store(next, Ordering::Release);
    }
    // Another thread of this process has taken the generation and is about to store it.
    loop {
        match PAGE.generation.load(Ordering::Acquire) {
            0 => std::hint::spin_loop(),
            known => return known,
        }
    }
}

/// Makes the kernel wipe the generation in each child.
#[cfg(target_os = "linux")]
fn wipe_in_children() {
    let page = std::ptr::from_ref(&PAGE);
    if PAGE_BYTES.is_multiple_of(page_size()) {
        // SAFETY: the advice changes only the child's view of these pages, which hold only the
        // generation. A kernel without it, or a page of a file, gives an error.
        unsafe { libc::madvise(page.cast_mut().cast(), PAGE_BYTES, libc::MADV_WIPEONFORK) };
    }
}

#[cfg(target_os = "linux")]
fn page_size() -> usize {
    // SAFETY: the call only reads a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(0)
}

#[cfg(all(unix, not(target_os = "linux")))]
fn wipe_in_children() {}

/// The number of this process. WebAssembly has no processes.
fn process_id() -> u32 {
    if cfg!(unix) { std::process::id() } else { 1 }
}

/// Does nothing: a system without `fork` has no forked children.
#[cfg(not(unix))]
fn watch() {}

#[cfg(unix)]
fn watch() {
    if IS_WATCHED.load(Ordering::Relaxed) || cfg!(any(miri, loom)) || IS_WATCHED.swap(true, Ordering::Relaxed)
    {
        return;
    }
    wipe_in_children();
    // SAFETY: the handler is a function that lives as long as the process; it stores into atomics
    // and a thread-local cell without destructor, which is allowed in a child of a process with
    // threads.
    let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // Without memory for the handler, forks are not noticed. The next owner tries again.
    if result != 0 {
        IS_WATCHED.store(false, Ordering::Relaxed);
    }
}

/// The process that made a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessOwner {
    generation: u64,
    process_id: u32,
}

impl ProcessOwner {
    /// This process.
    pub fn here() -> ProcessOwner {
        watch();
        ProcessOwner { generation: generation(), process_id: process_id() }
    }

    /// Whether this process is the owner. False in its forked children.
    #[inline(always)]
    pub fn is_here(self) -> bool {
        self.generation == PAGE.generation.load(Ordering::Relaxed)
    }

    /// Fails in a forked child; `what` is the subject of the message: "the database in /db".
    /// # Errors
    /// `NotSupported` names both processes.
    #[inline]
    pub fn check(self, what: impl fmt::Display) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(self.is_elsewhere(&what)) }
    }

    /// The error of [`ProcessOwner::check`].
    #[cold]
    pub fn is_elsewhere(self, what: &dyn fmt::Display) -> Error {
        let (owner, here) = (self.process_id, process_id());
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
    owner: ProcessOwner,
    value: T,
}

impl<T> PerProcess<T> {
    /// An empty value.
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
        // SAFETY: the pointer is null, or came from `Box::into_raw` in `make`. Only `drop`, which
        // has `&mut self`, or the thread that failed to publish it frees it.
        unsafe { self.made.load(Ordering::Acquire).as_ref() }
    }

    #[cold]
    fn make(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        let old = self.made.load(Ordering::Acquire);
        // SAFETY: the pointer came from `Box::into_raw`; a value that a parent made is never freed.
        let value = make(unsafe { old.as_ref() }.map(|made| &made.value));
        let new = Box::into_raw(Box::new(Made { owner: ProcessOwner::here(), value }));
        match self.made.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: this thread just made and published it; `made` says who may free it.
            Ok(_) => unsafe { &(*new).value },
            Err(others) => {
                // SAFETY: the box was not published, so nothing else refers to it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: another thread of this process published it; `made` says who may free it.
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
// SAFETY: all threads get `&T` from it, and one thread may drop what another has made.
unsafe impl<T: Send + Sync> Sync for PerProcess<T> {}

/// A mutex of a static. A thread of the parent may hold it while this process is forked.
pub struct StaticMutex<T> {
    mutex: Mutex<T>,
    /// The last generation in which the mutex was known to be usable.
    generation: AtomicU64,
}

impl<T> StaticMutex<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> StaticMutex<T> {
        StaticMutex { mutex: Mutex::new(value), generation: AtomicU64::new(FIRST) }
    }

    /// Takes the lock. `None` in a forked child if a thread of the parent may hold it.
    #[inline]
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        let now = generation();
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
