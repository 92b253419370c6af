//! Epochs: a guard keeps every value alive that was loaded under it.
//!
//! In: an `Arc<T>` put into a [`Swap`]. Out: `&T` for as long as a [`Guard`] lives, without a lock
//! and without a shared reference count; or a clone of the `Arc` for longer use. `crossbeam-epoch`
//! does the reclamation. Only this file uses that crate, so that it can be replaced.
//!
//! Invariants
//!  1. A `Swap` always holds one strong count of its current `Arc`. `replace` hands the count of
//!     the old `Arc` to a `Retired`. A dropped `Retired` gives the count to the epoch. The epoch
//!     releases the count after the end of all guards under which the value can have been loaded.
//!  2. A guard stays on its thread.

use super::Arc;
use super::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::fmt;

/// Keeps loaded values alive. A guard costs some nanoseconds, and a thread may open several.
pub struct Guard(reclaim::Guard);

/// Opens a guard.
#[inline]
pub fn pin() -> Guard {
    Guard(reclaim::pin())
}

/// Whether this thread has a guard open. A thread with a guard should not wait.
pub fn is_pinned() -> bool {
    reclaim::is_pinned()
}

/// Moves this thread's retired values to the shared queue and tries to advance the epoch. Releases
/// queued values that no guard protects; one call may leave some of a long queue. Call it after
/// replacing something large.
pub fn collect() {
    for _ in 0..3 {
        reclaim::pin().flush();
    }
}

/// Waits until the epoch has released this thread's retired values and all values in the shared
/// queue. Makes at most `attempts` attempts and calls `pause` after each failed one: a guard lives
/// as long as its read, and longer if its thread gets no processor. Only for threads without a
/// guard or lock. Returns whether all these values are released.
pub fn settle(attempts: u32, mut pause: impl FnMut()) -> bool {
    let mut left = attempts;
    // Releases begin in the order of retirement. The first round shows that the releases of all
    // earlier values have begun. A thread in the middle of a release holds a guard, and the second
    // round waits for that guard.
    reach_release(&mut left, &mut pause) && reach_release(&mut left, &mut pause)
}

/// Defers a closure and waits until it has run, for at most `left` attempts.
fn reach_release(left: &mut u32, pause: &mut impl FnMut()) -> bool {
    let settled = Arc::new(AtomicBool::new(false));
    let flag = settled.clone();
    // SAFETY: the closure owns what it captures, and that is `Send`.
    unsafe { pin().defer(move || flag.store(true, Ordering::Release)) };
    while *left > 0 {
        *left -= 1;
        collect();
        if settled.load(Ordering::Acquire) {
            return true;
        }
        pause();
    }
    false
}

impl Guard {
    /// Calls `release` on any thread, at any time after the end of all guards that are open now.
    ///
    /// # Safety
    /// Everything that `release` captures is `Send` and stays alive until it has run.
    #[inline]
    pub unsafe fn defer(&self, release: impl FnOnce()) {
        // SAFETY: the captures of `release` are `Send` and live until it has run (contract).
        unsafe { self.0.defer_unchecked(release) };
    }

    /// Moves this thread's deferred calls to the shared queue and tries to advance the epoch.
    /// Releases nothing that this guard protects.
    pub fn flush(&self) {
        self.0.flush();
    }
}

#[cfg(all(loom, crossbeam_loom))]
use crossbeam_epoch as reclaim;

/// Crossbeam's reclamation. A forked child replaces the collector: a thread of the parent that had
/// a guard at the fork would otherwise keep the child from releasing anything.
#[cfg(not(any(loom, shuttle)))]
mod reclaim {
    use crate::sync::process::atomic::{AtomicPtr, Ordering};
    use crossbeam_epoch::{Collector, LocalHandle};
    use std::cell::Cell;
    use std::ptr;

    pub(super) use crossbeam_epoch::Guard;

    /// Made at the first use, and never freed.
    static COLLECTOR: AtomicPtr<Collector> = AtomicPtr::new(ptr::null_mut());

    thread_local! {
        /// This thread's handle of the collector; `None` before the first `pin`.
        static HANDLE: Cell<Option<&'static LocalHandle>> = const { Cell::new(None) };
        static END: End = const { End };
    }

    /// Frees this thread's handle when the thread ends.
    struct End;

    impl Drop for End {
        fn drop(&mut self) {
            if let Some(handle) = HANDLE.take() {
                // SAFETY: `pin_first` leaked this box on this thread, and guards do not refer to
                // it.
                drop(unsafe { Box::from_raw(ptr::from_ref(handle).cast_mut()) });
            }
        }
    }

    fn collector() -> &'static Collector {
        let now = COLLECTOR.load(Ordering::Acquire);
        // SAFETY: null, or a box that is never freed.
        if let Some(collector) = unsafe { now.as_ref() } {
            return collector;
        }
        let new = Box::into_raw(Box::new(Collector::new()));
        match COLLECTOR.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: just made, and never freed from now on.
            Ok(_) => unsafe { &*new },
            Err(others) => {
                // SAFETY: the box was not published, so nothing else refers to it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: another thread published this box, and it is never freed.
                unsafe { &*others }
            }
        }
    }

    /// Gives the child a new collector at its next use. The old collector is never freed: it
    /// records guards of threads that do not exist in the child.
    pub(super) fn begin_in_child() {
        HANDLE.set(None);
        COLLECTOR.store(ptr::null_mut(), Ordering::Release);
    }

    pub(super) fn is_pinned() -> bool {
        HANDLE.get().is_some_and(LocalHandle::is_pinned)
    }

    #[inline]
    pub(super) fn pin() -> Guard {
        match HANDLE.get() {
            Some(handle) => handle.pin(),
            None => pin_first(),
        }
    }

    #[cold]
    fn pin_first() -> Guard {
        let handle = collector().register();
        // A thread that is ending keeps no handle: the guard holds its own place in the collector.
        if END.try_with(|_| ()).is_err() {
            return handle.pin();
        }
        let handle: &'static LocalHandle = Box::leak(Box::new(handle));
        HANDLE.set(Some(handle));
        handle.pin()
    }
}

/// Called in a forked child by the forking thread. Later retirements then wait for no thread of the
/// parent.
#[cfg(not(any(loom, shuttle)))]
pub(super) fn begin_in_child() {
    reclaim::begin_in_child();
}

#[cfg(any(loom, shuttle))]
pub(super) fn begin_in_child() {}

/// Cheap reclamation for loom and shuttle models. With `--cfg crossbeam_loom`, loom models use
/// crossbeam's reclamation instead. All model threads run on one system thread: their guards are
/// counted together, and deferred calls run when the last guard is dropped. The fences stand for
/// those of crossbeam's `pin` and of its epoch advance. A guard opened after a release can
/// therefore not load the released value.
#[cfg(any(all(loom, not(crossbeam_loom)), shuttle))]
mod reclaim {
    use crate::sync::atomic::{Ordering, fence};
    use std::cell::{Cell, RefCell};

    type Release = Box<dyn FnOnce()>;

    thread_local! {
        static OPEN: Cell<usize> = const { Cell::new(0) };
        static DEFERRED: RefCell<Vec<Release>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) struct Guard(());

    pub(super) fn is_pinned() -> bool {
        OPEN.get() > 0
    }

    pub(super) fn pin() -> Guard {
        OPEN.set(OPEN.get() + 1);
        fence(Ordering::SeqCst);
        Guard(())
    }

    impl Guard {
        pub(super) unsafe fn defer_unchecked<F: FnOnce()>(&self, release: F) {
            let release: Box<dyn FnOnce() + '_> = Box::new(release);
            // SAFETY: the captures live until the call runs (contract of `defer`); only the
            // lifetime's name changes.
            let release = unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Release>(release) };
            DEFERRED.with_borrow_mut(|all| all.push(release));
        }

        #[expect(clippy::unused_self, reason = "as crossbeam's")]
        pub(super) fn flush(&self) {}
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            OPEN.set(OPEN.get() - 1);
            fence(Ordering::SeqCst);
            // The model switches threads only at its own operations, so no other thread opens a
            // guard between `get` and `take`.
            let releases = if OPEN.get() == 0 { DEFERRED.take() } else { Vec::new() };
            releases.into_iter().for_each(|release| release());
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// A shared value that is read often and replaced seldom.
pub struct Swap<T: Send + Sync + 'static> {
    current: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> Swap<T> {
    /// Holds `value`.
    pub fn new(value: Arc<T>) -> Swap<T> {
        Swap { current: AtomicPtr::new(Arc::into_raw(value).cast_mut()) }
    }

    /// The current value, for as long as the guard lives.
    #[inline]
    pub fn load<'g>(&self, _guard: &'g Guard) -> &'g T {
        // SAFETY: the pointer came from `Arc::into_raw`. Its strong count is released after a later
        // `replace`, and only when every guard open at that time, this one included, is gone
        // (invariant 1).
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// The current value, for as long as the guard lives. [`hold`](Lent::hold) keeps the value
    /// longer.
    #[inline]
    pub fn lend<'g>(&self, guard: &'g Guard) -> Lent<'g, T> {
        Lent(self.load(guard))
    }

    /// Whether `value` is the current value, as far as this thread has seen. The caller's `Arc`
    /// keeps its address from being reused for another value.
    #[inline]
    pub fn holds(&self, value: &Arc<T>) -> bool {
        std::ptr::eq(self.current.load(Ordering::Acquire), Arc::as_ptr(value))
    }

    /// A clone of the current `Arc`.
    pub fn load_full(&self) -> Arc<T> {
        let guard = reclaim::pin();
        let ptr = self.current.load(Ordering::Acquire);
        // SAFETY: the count that this Swap held when the pointer was read lasts until `guard` is
        // dropped (invariant 1).
        unsafe { Arc::increment_strong_count(ptr) };
        drop(guard);
        // SAFETY: `ptr` came from `Arc::into_raw`, and the count just added is ours to own.
        unsafe { Arc::from_raw(ptr) }
    }

    /// Replaces the current value by `value`. The old value is released when no guard protects it.
    /// It may stay in this thread's list until the thread calls [`collect`], retires more values,
    /// or ends.
    pub fn store(&self, value: Arc<T>) {
        drop(self.replace(value));
    }

    /// Replaces the value by `value` and returns the old one.
    #[must_use = "the old value is retired when this is dropped"]
    pub fn replace(&self, value: Arc<T>) -> Retired<T> {
        Retired(self.current.swap(Arc::into_raw(value).cast_mut(), Ordering::AcqRel))
    }
}

/// The former value of a [`Swap`]. A drop, on any thread, gives the value to the epoch. The epoch
/// keeps the value until the end of all guards under which it can have been loaded.
///
/// Invariant: owns one strong count, which the `Swap` held.
pub struct Retired<T: Send + Sync + 'static>(*mut T);

// SAFETY: stands for an `Arc<T>` with `T: Send + Sync`.
unsafe impl<T: Send + Sync> Send for Retired<T> {}
// SAFETY: a shared `Retired` gives no access to its value.
unsafe impl<T: Send + Sync> Sync for Retired<T> {}

impl<T: Send + Sync + 'static> Drop for Retired<T> {
    fn drop(&mut self) {
        let value = SendPtr(self.0);
        let guard = reclaim::pin();
        // SAFETY: the closure owns the strong count this value held; the value is `Send + Sync +
        // 'static`, so it may be dropped on whichever thread runs the closure, at any later time.
        unsafe { guard.defer_unchecked(move || drop(value.into_arc())) };
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Retired<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Retired")
    }
}

/// A value of a [`Swap`], borrowed for as long as a guard lives.
///
/// Invariant: the value lies in an `Arc` whose count is released only after the guard.
pub struct Lent<'g, T>(&'g T);

impl<T> Clone for Lent<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lent<'_, T> {}

impl<'g, T> Lent<'g, T> {
    /// The value.
    #[inline]
    pub fn get(self) -> &'g T {
        self.0
    }

    /// A clone of the value's `Arc`, which may outlive the guard.
    pub fn hold(self) -> Arc<T> {
        // SAFETY: `Swap::load` made the reference from a pointer of `Arc::into_raw`. The `Swap`'s
        // count of it outlives the guard, and `'g` does not outlive the guard.
        unsafe { Arc::increment_strong_count(self.0) };
        // SAFETY: the pointer came from `Arc::into_raw`, and the count just added is this
        // `Arc`'s.
        unsafe { Arc::from_raw(self.0) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Lent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

struct SendPtr<T>(*mut T);
// SAFETY: stands for an `Arc<T>` with `T: Send + Sync`; see `Retired`.
unsafe impl<T: Send + Sync> Send for SendPtr<T> {}

impl<T> SendPtr<T> {
    fn into_arc(self) -> Arc<T> {
        // SAFETY: made from `Arc::into_raw` in `Swap`, and turned back exactly once.
        unsafe { Arc::from_raw(self.0) }
    }
}

impl<T: Send + Sync + 'static> Drop for Swap<T> {
    fn drop(&mut self) {
        // References under guards may still point to the value, so the epoch releases this count
        // too.
        drop(Retired(self.current.load(Ordering::Relaxed)));
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(&pin()).fmt(f)
    }
}

#[cfg(all(test, crossbeam_loom))]
mod tests;
