//! Options of managers, families and lockers.

use esker_base::comparator::{BytewiseComparator, ComparatorRef};
use esker_base::sync::Arc;
use std::fmt;
use std::time::Duration;

/// The mode of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockMode {
    /// Compatible with other shared locks.
    Shared,
    /// Compatible with no other lock.
    Exclusive,
}

/// Longest wait of a request. RocksDB's `lock_timeout` has 0, milliseconds, and negative numbers
/// for these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// The request does not wait.
    Never,
    /// The request waits for at most this long.
    After(Duration),
    /// The request waits until it is granted, refused for another reason, or cancelled.
    Forever,
}

/// The kind of locks a family takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    /// Single keys, equal when their bytes are. A request looks at one stripe, chosen by the key's
    /// hash.
    Points,
    /// Keys and ranges of keys, in the comparator's order.
    Ranges,
}

/// A source of time.
pub trait LockClock: Send + Sync {
    /// Nanoseconds since a fixed point in time. Never goes back, and keeps pace with real time if
    /// requests wait for a time.
    fn monotonic_nanos(&self) -> u64;
    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64;
}

/// Options of a lock manager.
#[derive(Clone)]
pub struct LockManagerOptions {
    /// The clock for timeouts, expiry and the times of deadlocks.
    pub clock: Arc<dyn LockClock>,
    /// Bytes that locks may take before escalation joins them; `usize::MAX`, the default: no limit.
    pub max_lock_memory: usize,
    /// Number of recent deadlocks that are kept. Default: 5, as in RocksDB.
    pub max_num_deadlocks: usize,
    /// Number of later tickets for which new lockers still pass a waiting range. Each later request
    /// that waits or passes draws a ticket. A locker always passes a range that arrived after its
    /// own first lock. With 0, a range that waits for one key blocks all its other keys for new
    /// lockers. Default: 256.
    pub range_patience: u64,
}

impl fmt::Debug for LockManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManagerOptions")
            .field("max_lock_memory", &self.max_lock_memory)
            .field("max_num_deadlocks", &self.max_num_deadlocks)
            .field("range_patience", &self.range_patience)
            .finish_non_exhaustive()
    }
}

impl LockManagerOptions {
    /// The defaults, with this clock.
    pub fn new(clock: Arc<dyn LockClock>) -> LockManagerOptions {
        LockManagerOptions { clock, max_lock_memory: usize::MAX, max_num_deadlocks: 5, range_patience: 256 }
    }
}

/// Options of a family.
#[derive(Clone, Debug)]
pub struct FamilyOptions {
    /// The order of its keys. Keys come without timestamps.
    pub comparator: ComparatorRef,
    /// The kind of locks.
    pub locking: Locking,
    /// Keys that separate leaves from the start, so that the first transactions already spread:
    /// samples of the data. Leaves split further as they fill up or are contended.
    pub boundaries: Vec<Vec<u8>>,
    /// Locks that one leaf may hold before it splits (more with many leaves). Default: 64.
    pub max_fragments: usize,
}

impl Default for FamilyOptions {
    fn default() -> FamilyOptions {
        FamilyOptions {
            comparator: Arc::new(BytewiseComparator),
            locking: Locking::Ranges,
            boundaries: Vec::new(),
            max_fragments: 64,
        }
    }
}

/// Options of a locker; the part of RocksDB's `TransactionOptions` that concerns locks.
#[derive(Clone, Copy, Debug)]
pub struct LockerOptions {
    /// Longest wait of a request. Default: one second.
    pub lock_timeout: Timeout,
    /// Look for a cycle before waiting. Default: no.
    pub deadlock_detect: bool,
    /// Longest chain of locks that the search follows; a longer one counts as a cycle. Default: 50.
    pub deadlock_detect_depth: usize,
    /// Time to wait before the search for a cycle. Default: none.
    pub deadlock_timeout: Duration,
    /// Time after which its locks may be stolen. Default: never.
    pub expiration: Option<Duration>,
}

impl Default for LockerOptions {
    fn default() -> LockerOptions {
        LockerOptions {
            lock_timeout: Timeout::After(Duration::from_secs(1)),
            deadlock_detect: false,
            deadlock_detect_depth: 50,
            deadlock_timeout: Duration::ZERO,
            expiration: None,
        }
    }
}
