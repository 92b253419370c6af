//! The lock manager with real threads. `waiting`: grants and their order; `soak`: everything at
//! once.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod soak;
mod waiting;

use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;
use esker_lock::{FamilyOptions, LockClock, LockFamily, LockManager, LockManagerOptions};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The real clock. A timed wait may end late, but never early.
struct RealClock(Instant);

impl LockClock for RealClock {
    fn monotonic_nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    #[expect(clippy::disallowed_methods, reason = "the engine's clock lies above this crate")]
    fn now_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
    }
}

fn manager() -> LockManager {
    LockManager::new(options())
}

fn manager_with_patience(range_patience: u64) -> LockManager {
    LockManager::new(LockManagerOptions { range_patience, ..options() })
}

#[expect(clippy::disallowed_methods, reason = "the engine's clock lies above this crate")]
fn options() -> LockManagerOptions {
    LockManagerOptions::new(Arc::new(RealClock(Instant::now())))
}

fn family(manager: &LockManager, id: u32) -> Arc<LockFamily> {
    manager.add_family(ColumnFamilyId(id), &FamilyOptions::default()).unwrap()
}

/// Yields to other threads until `condition` holds.
fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}
