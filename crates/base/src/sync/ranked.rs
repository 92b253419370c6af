//! Mutexes with ranks. In debug builds a wrong order of locking panics at once, with both names,
//! instead of deadlocking once a month.
//!
//! In: a value and a [`LockRank`]. Out: a guard. `docs/locking.md` lists the ranks. Without debug
//! assertions these are the system's mutex and condition variable and nothing else.
//!
//! Invariants (checked in debug builds)
//!  1. A thread waits only for a lock of higher rank than each one it holds. `try_lock` does not
//!     wait, so it may take any.
//!  2. A thread that waits on a condition variable holds no lock of higher rank than the lock it
//!     releases meanwhile.

use super::locks::{Condvar, Mutex, MutexGuard};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Place of a lock in the order of all locks, with a name for messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRank {
    rank: u16,
    name: &'static str,
}

impl LockRank {
    /// Locks of higher rank are taken while locks of lower rank are held, never the reverse.
    pub const fn new(rank: u16, name: &'static str) -> LockRank {
        LockRank { rank, name }
    }
    /// The number.
    pub const fn rank(self) -> u16 {
        self.rank
    }
    /// The name.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Display for LockRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (rank {})", self.name, self.rank)
    }
}

/// The locks that each thread holds. Only in debug builds.
#[cfg(debug_assertions)]
mod held {
    use super::LockRank;
    use std::cell::RefCell;

    /// Most locks that a thread holds. `lock` takes each rank at most once, and there are fewer
    /// ranks.
    pub(super) const MOST: usize = 64;

    /// The locks of one thread, in place. Nothing is freed when the thread ends, so a leak detector
    /// sees the thread as in a build without these checks.
    struct Held {
        locks: [LockRank; MOST],
        count: usize,
    }

    const _: () = assert!(!std::mem::needs_drop::<Held>());

    thread_local! {
        static HELD: RefCell<Held> =
            const { RefCell::new(Held { locks: [LockRank::new(0, ""); MOST], count: 0 }) };
    }

    impl Held {
        fn locks(&self) -> &[LockRank] {
            &self.locks[..self.count]
        }

        fn highest(&self) -> Option<LockRank> {
            self.locks().iter().copied().max_by_key(|l| l.rank())
        }
    }

    pub(super) fn check_may_wait_for(wanted: LockRank) {
        let highest = HELD.with_borrow(Held::highest);
        if let Some(highest) = highest
            && highest.rank() >= wanted.rank()
        {
            panic!("lock order: this thread waits for lock {wanted} while it holds lock {highest}");
        }
    }

    pub(super) fn push(taken: LockRank) {
        HELD.with_borrow_mut(|held| {
            assert!(held.count < MOST, "lock order: this thread takes lock {taken} and holds {MOST} already");
            held.locks[held.count] = taken;
            held.count += 1;
        });
    }

    pub(super) fn pop(released: LockRank) {
        HELD.with_borrow_mut(|held| {
            let at = held
                .locks()
                .iter()
                .rposition(|l| *l == released)
                .expect("a guard is dropped on the thread that took it");
            held.locks.copy_within(at + 1..held.count, at);
            held.count -= 1;
        });
    }

    pub(super) fn check_may_sleep(on: LockRank) {
        let highest = HELD.with_borrow(Held::highest);
        if let Some(highest) = highest
            && highest.rank() > on.rank()
        {
            panic!("lock order: this thread gives up lock {on} to wait while it holds lock {highest}");
        }
    }
}

/// A mutex with a rank.
pub struct RankedMutex<T: ?Sized> {
    #[cfg(debug_assertions)]
    rank: LockRank,
    inner: Mutex<T>,
}

impl<T> RankedMutex<T> {
    /// A mutex with this rank around `value`.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "ranks are checked in debug builds"))]
    pub const fn new(rank: LockRank, value: T) -> RankedMutex<T> {
        RankedMutex {
            #[cfg(debug_assertions)]
            rank,
            inner: Mutex::new(value),
        }
    }

    /// The value; ownership proves that the lock is free.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RankedMutex<T> {
    /// Waits for the lock.
    ///
    /// # Panics
    /// In debug builds, if this thread holds a lock of the same or a higher rank.
    #[inline]
    pub fn lock(&self) -> RankedMutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        held::check_may_wait_for(self.rank);
        self.guard(self.inner.lock())
    }

    /// The lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<RankedMutexGuard<'_, T>> {
        Some(self.guard(self.inner.try_lock()?))
    }

    /// The value, without locking: the mutable borrow proves that the lock is free.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    #[inline]
    fn guard<'a>(&'a self, inner: MutexGuard<'a, T>) -> RankedMutexGuard<'a, T> {
        #[cfg(debug_assertions)]
        held::push(self.rank);
        RankedMutexGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner,
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RankedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Holds the lock; dropping it releases the lock.
#[must_use]
pub struct RankedMutexGuard<'a, T: ?Sized> {
    #[cfg(debug_assertions)]
    rank: LockRank,
    inner: MutexGuard<'a, T>,
}

impl<T: ?Sized> RankedMutexGuard<'_, T> {
    /// Releases the lock while `f` runs and then takes it again.
    ///
    /// # Panics
    /// In debug builds, if this thread then holds a lock of the same or a higher rank.
    pub fn unlocked<R>(&mut self, f: impl FnOnce() -> R) -> R {
        #[cfg(debug_assertions)]
        let _again = {
            held::pop(self.rank);
            Again(self.rank)
        };
        MutexGuard::unlocked(&mut self.inner, || {
            let out = f();
            #[cfg(debug_assertions)]
            held::check_may_wait_for(self.rank);
            out
        })
    }
}

/// Records the lock as held again, also if the closure of `unlocked` panics. The guard's drop
/// removes the record.
#[cfg(debug_assertions)]
struct Again(LockRank);

#[cfg(debug_assertions)]
impl Drop for Again {
    fn drop(&mut self) {
        held::push(self.0);
    }
}

impl<T: ?Sized> Deref for RankedMutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RankedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(debug_assertions)]
impl<T: ?Sized> Drop for RankedMutexGuard<'_, T> {
    fn drop(&mut self) {
        held::pop(self.rank);
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RankedMutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A condition variable for [`RankedMutex`].
#[derive(Debug, Default)]
pub struct RankedCondvar {
    inner: Condvar,
}

impl RankedCondvar {
    /// A condition variable without waiters.
    pub const fn new() -> RankedCondvar {
        RankedCondvar { inner: Condvar::new() }
    }

    /// Releases the lock, waits for a notification (which may be spurious: check the condition),
    /// and takes the lock again.
    ///
    /// # Panics
    /// In debug builds, if this thread holds a lock of higher rank.
    #[inline]
    pub fn wait<T: ?Sized>(&self, guard: &mut RankedMutexGuard<'_, T>) {
        #[cfg(debug_assertions)]
        held::check_may_sleep(guard.rank);
        self.inner.wait(&mut guard.inner);
    }

    /// As [`wait`](Self::wait), for as long as `condition` holds.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut RankedMutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// As [`wait`](Self::wait), for at most `timeout`. Returns whether the time ran out.
    #[inline]
    pub fn wait_timeout<T: ?Sized>(&self, guard: &mut RankedMutexGuard<'_, T>, timeout: Duration) -> bool {
        #[cfg(debug_assertions)]
        held::check_may_sleep(guard.rank);
        self.inner.wait_for(&mut guard.inner, timeout).timed_out()
    }

    /// Wakes one waiter.
    #[inline]
    pub fn notify_one(&self) {
        self.inner.notify_one();
    }

    /// Wakes all waiters.
    #[inline]
    pub fn notify_all(&self) {
        self.inner.notify_all();
    }
}

#[cfg(test)]
mod tests;
