//! The locks of loom and shuttle, with the interfaces of `sync/locks.rs`, for model checkers.
//!
//! In: the engine's calls of those types. Out: the same results. At each call
//! the checker may switch threads. A poisoned lock means that a thread of the model has panicked:
//! the model has already failed.

#[cfg(loom)]
use loom::sync as ls;
#[cfg(shuttle)]
use shuttle::sync as ls;
use std::ops::{Deref, DerefMut};

#[cfg(shuttle)]
use super::waits::during;

const POISON: &str = "no thread of the model panicked";

/// loom itself reports which threads wait where.
#[cfg(loom)]
fn during<T>(_what: &'static str, wait: impl FnOnce() -> T) -> T {
    wait()
}

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(ls::Mutex<T>);

/// Proof that the mutex is held.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<ls::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(ls::Mutex::new(value))
    }
    /// Waits until the mutex is free, and locks it.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(during("a lock", || self.0.lock()).expect(POISON)))
    }
    /// Locks the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|g| MutexGuard(Some(g)))
    }
    /// The value, by exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(POISON)
    }
    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner().expect(POISON)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guard lacks its lock only during a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a guard lacks its lock only during a wait")
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Arc<ls::Condvar>);

impl Condvar {
    /// A condition variable without waiters.
    pub fn new() -> Condvar {
        Condvar(std::sync::Arc::new(ls::Condvar::new()))
    }
    /// Waits for a notification; the lock is released meanwhile.
    #[track_caller]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("a guard lacks its lock only during a wait");
        guard.0 = Some(during("a notification", || self.0.wait(held)).expect(POISON));
    }
    /// Waits for a notification or a timeout. Without a clock the notification must come. Returns
    /// whether the wait timed out. With a clock, other waiters may wake spuriously.
    #[track_caller]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, at_most: std::time::Duration) -> bool {
        #[cfg(shuttle)]
        if let Some(now) = super::time::now() {
            let nanos = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
            let held = guard.0.take().expect("a guard lacks its lock only during a wait");
            let until = now.saturating_add(nanos);
            let (held, is_over) =
                during("a notification or a deadline", || super::time::wait(&self.0, held, until));
            guard.0 = Some(held);
            return is_over;
        }
        _ = at_most;
        self.wait(guard);
        false
    }
    /// As `wait_for`, under the name that ranked locks have.
    #[track_caller]
    pub fn wait_timeout<T>(&self, guard: &mut MutexGuard<'_, T>, at_most: std::time::Duration) -> bool {
        self.wait_for(guard, at_most)
    }
    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A reader-writer lock.
#[derive(Debug, Default)]
pub struct RwLock<T>(ls::RwLock<T>);

/// Proof that the lock is held for reading.
pub type RwLockReadGuard<'a, T> = ls::RwLockReadGuard<'a, T>;
/// Proof that the lock is held for writing.
pub type RwLockWriteGuard<'a, T> = ls::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> RwLock<T> {
        RwLock(ls::RwLock::new(value))
    }
    /// Waits for the lock and acquires it for reading.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        during("a lock for reading", || self.0.read()).expect(POISON)
    }
    /// Waits for the lock and acquires it for writing.
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        during("a lock for writing", || self.0.write()).expect(POISON)
    }
}

/// A rank, which models ignore. Tests of the whole engine check the order of locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockRank;

impl LockRank {
    /// Makes a rank, as without a model checker.
    pub const fn new(_rank: u16, _name: &'static str) -> LockRank {
        LockRank
    }
}

/// A mutex with a rank.
#[derive(Debug)]
pub struct RankedMutex<T>(Mutex<T>);

/// Proof that the ranked mutex is held.
pub type RankedMutexGuard<'a, T> = MutexGuard<'a, T>;

impl<T> RankedMutex<T> {
    /// An unlocked mutex.
    pub fn new(_rank: LockRank, value: T) -> RankedMutex<T> {
        RankedMutex(Mutex::new(value))
    }
    /// Waits until the mutex is free, and locks it.
    #[track_caller]
    pub fn lock(&self) -> RankedMutexGuard<'_, T> {
        self.0.lock()
    }
    /// Locks the mutex if it is free.
    pub fn try_lock(&self) -> Option<RankedMutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

/// A condition variable of ranked mutexes.
pub type RankedCondvar = Condvar;

// All threads of a simulated machine share one thread of the system.
#[cfg(shuttle)]
std::thread_local! {
    static HESITATES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(shuttle)]
pub(super) fn hesitate() {
    HESITATES.set(true);
    shuttle::thread::yield_now();
}

/// For the scheduler: whether the thread that it may replace is in `hesitate`.
/// Resets the answer.
#[cfg(shuttle)]
pub fn take_hesitation() -> bool {
    HESITATES.take()
}
