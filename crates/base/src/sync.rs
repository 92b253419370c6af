//! Locks, atomics and fences of the engine.
//!
//! All of them come from here, so that loom, shuttle and the sanitizers can drive them. Nothing
//! else in the workspace names `std::sync::atomic` or a crate of locks.

pub mod epoch;
pub mod fork;
mod locks;
#[cfg(not(any(loom, shuttle)))]
pub mod ranked;
#[cfg(shuttle)]
pub mod simulated_thread;
mod thread_number;
#[cfg(shuttle)]
pub mod time;
#[cfg(shuttle)]
pub mod waits;

pub use thread_number::thread_number;

#[cfg(not(any(loom, shuttle)))]
pub use locks::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(any(loom, shuttle)))]
pub use ranked::{LockRank, RankedCondvar, RankedMutex, RankedMutexGuard};
#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic;

#[cfg(any(loom, shuttle))]
mod model;
#[cfg(loom)]
pub use loom::sync::atomic;
#[cfg(any(loom, shuttle))]
pub use model::{
    Condvar, LockRank, Mutex, MutexGuard, RankedCondvar, RankedMutex, RankedMutexGuard, RwLock,
    RwLockReadGuard, RwLockWriteGuard,
};
#[cfg(shuttle)]
pub use shuttle::sync::atomic;

// Also built in tests, so that it keeps compiling.
#[cfg(any(esker_tsan, test))]
#[cfg_attr(not(esker_tsan), expect(unreachable_pub, reason = "only builds with esker_tsan hand it out"))]
mod once;
#[cfg(esker_tsan)]
pub use once::OnceLock;

#[cfg(not(esker_tsan))]
pub use std::sync::OnceLock;
pub use std::sync::{Arc, Weak};

/// Threads: the system's, or those of a model.
#[cfg(shuttle)]
pub use simulated_thread as thread;
#[cfg(not(shuttle))]
pub use std::thread;

/// Marks a place between a change and its publication. Other threads must not rely on this thread
/// there. In the simulated machine a thread often loses its processor here for long; elsewhere
/// nothing happens.
#[inline(always)]
pub fn hesitate() {
    #[cfg(shuttle)]
    model::hesitate();
}

#[cfg(shuttle)]
pub use model::take_hesitation;

/// Types for statics: state of the whole process, outside of any model. loom's own locks and
/// atomics exist only while a model runs.
pub mod process {
    pub use super::locks::{Condvar, Mutex, MutexGuard};
    pub use std::sync::atomic;
}
