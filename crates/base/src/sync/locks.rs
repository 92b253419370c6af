//! Locks of the system. On Linux each is a futex, without global state.
//!
//! A forked child has none of its parent's other threads, and its new threads reuse the memory of
//! their stacks. `parking_lot` keeps a global table of sleeping threads. In the child that table
//! names wrong threads, and the child's own locks would hang. A futex's waiters are known to the
//! kernel only, and the child has none there.

#[cfg(target_os = "linux")]
pub use futex::Condvar;
#[cfg(not(target_os = "linux"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(target_os = "linux")]
pub use rustix_futex_sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(target_os = "linux")]
mod futex {
    use rustix_futex_sync::{MutexGuard, RawCondvar};
    use std::fmt;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// A condition variable whose notifications cost one load while no thread waits.
    ///
    /// A waiter counts itself under its mutex before it sleeps. A notifier changes the condition
    /// under that mutex. Either the waiter sees the change, or the notifier sees the waiter.
    pub struct Condvar {
        inner: RawCondvar,
        waiters: AtomicU32,
    }

    /// Whether a wait ended because its time ran out.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct WaitTimeoutResult(bool);

    impl WaitTimeoutResult {
        /// Whether the time ran out.
        pub fn timed_out(self) -> bool {
            self.0
        }
    }

    impl Condvar {
        /// A condition variable without waiters.
        pub const fn new() -> Condvar {
            Condvar { inner: RawCondvar::new(), waiters: AtomicU32::new(0) }
        }

        /// Releases the lock, waits for a notification, and takes the lock again. A wait may also
        /// end without a notification, so callers check their condition.
        pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
            self.waiters.fetch_add(1, Ordering::SeqCst);
            // SAFETY: the guard holds the lock, nothing is read through it meanwhile, and the lock
            // is held again afterwards.
            let mutex = unsafe { MutexGuard::mutex(guard).raw() };
            // SAFETY: this thread holds the lock.
            unsafe { self.inner.wait(mutex) };
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }

        /// As [`Condvar::wait`], for as long as `condition` holds.
        pub fn wait_while<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut condition: impl FnMut(&mut T) -> bool,
        ) {
            while condition(&mut **guard) {
                self.wait(guard);
            }
        }

        /// As [`Condvar::wait`], for at most `timeout`.
        pub fn wait_for<T: ?Sized>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            timeout: Duration,
        ) -> WaitTimeoutResult {
            self.waiters.fetch_add(1, Ordering::SeqCst);
            // SAFETY: the guard holds the lock, nothing is read through it meanwhile, and the lock
            // is held again afterwards.
            let mutex = unsafe { MutexGuard::mutex(guard).raw() };
            // SAFETY: this thread holds the lock.
            let is_in_time = unsafe { self.inner.wait_timeout(mutex, timeout) };
            self.waiters.fetch_sub(1, Ordering::SeqCst);
            WaitTimeoutResult(!is_in_time)
        }

        /// Wakes one waiter.
        #[inline]
        pub fn notify_one(&self) {
            if self.waiters.load(Ordering::SeqCst) > 0 {
                self.inner.notify_one();
            }
        }

        /// Wakes all waiters.
        #[inline]
        pub fn notify_all(&self) {
            if self.waiters.load(Ordering::SeqCst) > 0 {
                self.inner.notify_all();
            }
        }
    }

    impl Default for Condvar {
        fn default() -> Condvar {
            Condvar::new()
        }
    }

    impl fmt::Debug for Condvar {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Condvar")
        }
    }
}
