//! What managers, families and lockers are made with.

use esker_base::comparator::{BytewiseComparator, ComparatorRef};
use esker_base::sync::Arc;
use std::fmt;
use std::time::Duration;

/// What kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockMode {
    /// Together with other shared ones.
    Shared,
    /// Alone.
    Exclusive,
}

/// How long a request waits. RocksDB's `lock_timeout`: 0, milliseconds, negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// Not at all.
    Never,
    /// So long.
    After(Duration),
    /// Until it is granted, refused for another reason, or cancelled.
    Forever,
}

/// What a family can lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    /// Single keys, equal when their bytes are. A request looks at one of many stripes, chosen by
    /// the key's hash.
    Points,
    /// Keys and ranges of keys, in the comparator's order.
    Ranges,
}

/// The time.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment; never goes back. Must keep pace with real time if
    /// requests wait for a time.
    fn monotonic_nanos(&self) -> u64;
    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64;
}

/// What a lock manager is made with.
#[derive(Clone)]
pub struct LockManagerOptions {
    /// For timeouts, expiry and the time of deadlocks.
    pub clock: Arc<dyn Clock>,
    /// Bytes that locks may take before they are joined; `usize::MAX`, the default: no limit.
    pub max_lock_memory: usize,
    /// How many recent deadlocks are remembered. Default: 5, as in RocksDB.
    pub max_num_deadlocks: usize,
    /// A range that waits is passed by lockers that took their first lock before it came, or before
    /// so many requests have waited or passed behind it. With 0, for one key that it waits for it
    /// shuts all its others to whoever begins. Default: 256.
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
    pub fn new(clock: Arc<dyn Clock>) -> LockManagerOptions {
        LockManagerOptions { clock, max_lock_memory: usize::MAX, max_num_deadlocks: 5, range_patience: 256 }
    }
}

/// What a family is made with.
#[derive(Clone, Debug)]
pub struct FamilyOptions {
    /// The order of its keys. Timestamps do not count: keys are given without them.
    pub comparator: ComparatorRef,
    /// What can be locked.
    pub locking: Locking,
    /// Keys that separate leaves from the start, so that the first transactions already spread:
    /// samples of the data. Leaves are cut further as they fill up or get busy.
    pub boundaries: Vec<Vec<u8>>,
    /// Locks that one leaf may hold before it is cut in two (more, where there are many leaves).
    /// Default: 64.
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

/// What a locker is made with; RocksDB's `TransactionOptions`, as far as locks go.
#[derive(Clone, Copy, Debug)]
pub struct LockerOptions {
    /// How long requests wait. Default: a second.
    pub lock_timeout: Timeout,
    /// Look for a circle before waiting. Default: no.
    pub deadlock_detect: bool,
    /// Longest chain of locks that is followed; a longer one is taken for a circle. Default: 50.
    pub deadlock_detect_depth: usize,
    /// How long to wait before looking for a circle. Default: not at all.
    pub deadlock_timeout: Duration,
    /// After this time its locks may be stolen. Default: never.
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
