//! Tests of the crate as a whole; those of single modules lie beside them.
#![allow(clippy::unwrap_used, reason = "tests")]

#[cfg(not(any(loom, shuttle)))]
mod behaviour;
#[cfg(not(loom))]
mod concurrent;
#[cfg(not(loom))]
mod fairness;
pub(crate) mod history;
#[cfg(any(loom, shuttle))]
mod interleavings;
#[cfg(not(any(loom, shuttle)))]
mod random;
mod reference;

use crate::*;
use esker_base::sync::Arc;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};

/// A clock that advances only when a test advances it.
#[derive(Debug, Default)]
pub(crate) struct StillClock(AtomicU64);

impl StillClock {
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl LockClock for StillClock {
    fn monotonic_nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn now_seconds(&self) -> u64 {
        1_700_000_000
    }
}

/// A clock that advances by a microsecond at each read.
#[cfg(not(loom))]
#[derive(Debug, Default)]
struct TickingClock(AtomicU64);

#[cfg(not(loom))]
impl LockClock for TickingClock {
    fn monotonic_nanos(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
    fn now_seconds(&self) -> u64 {
        1_700_000_000
    }
}

pub(crate) fn manager() -> LockManager {
    LockManager::new(LockManagerOptions::new(Arc::new(StillClock::default())))
}

pub(crate) fn manager_with_patience(range_patience: u64) -> LockManager {
    let options = LockManagerOptions::new(Arc::new(StillClock::default()));
    LockManager::new(LockManagerOptions { range_patience, ..options })
}
