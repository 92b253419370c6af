//! Options of the lock manager, of its families and of lockers.

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

/// The limit on a request's wait. RocksDB's `lock_timeout` writes the three cases as 0, as
/// milliseconds, and as a negative number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// The request does not wait.
    Never,
    /// The request waits for at most this time.
    After(Duration),
    /// The request waits until a grant, an error or a cancellation.
    Forever,
}

/// The kind of locks of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locking {
    /// Single keys. Two keys are equal if their bytes are equal. A request looks at one stripe
    /// only, which the key's hash selects.
    Points,
    /// Keys and ranges of keys, in the comparator's order.
    Ranges,
}

/// A source of time.
pub trait LockClock: Send + Sync {
    /// Nanoseconds since a fixed point in time. Never goes back. Must run at the pace of real time
    /// if timeouts are used.
    fn monotonic_nanos(&self) -> u64;
    /// Seconds since the Unix epoch.
    fn now_seconds(&self) -> u64;
}

/// Options of a lock manager.
#[derive(Clone)]
pub struct LockManagerOptions {
    /// The clock for timeouts, expiry, and the times in deadlock reports.
    pub clock: Arc<dyn LockClock>,
    /// Bytes that all locks may take before escalation joins locks. `usize::MAX`, the default,
    /// means no limit.
    pub max_lock_memory: usize,
    /// Number of recent deadlocks that the manager remembers. Default: 5, as in RocksDB.
    pub max_num_deadlocks: usize,
    /// Limits the lockers that pass a waiting range request. A locker whose first lock is older
    /// than the request always passes. Each request that waits or passes draws a ticket. A newer
    /// locker passes if fewer than this number of tickets were drawn between the range's ticket
    /// and the locker's first lock. With 0, a range that waits for one key keeps newer lockers from
    /// all its other keys. Default: 256.
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
    /// The order of the family's keys. Keys come without timestamps.
    pub comparator: ComparatorRef,
    /// The kind of locks.
    pub locking: Locking,
    /// Keys at which the first leaves begin: samples of the data. They spread the first
    /// transactions over leaves. Leaves split further when they fill up, or when threads contend
    /// for them.
    pub boundaries: Vec<Vec<u8>>,
    /// Number of locks at which a leaf splits (higher if there are many leaves). Default: 64.
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

/// Options of a locker: those of RocksDB's `TransactionOptions` that concern locks.
#[derive(Clone, Copy, Debug)]
pub struct LockerOptions {
    /// The limit on a request's wait. Default: one second.
    pub lock_timeout: Timeout,
    /// Whether a waiting request searches for a cycle of waiting lockers. Default: no.
    pub deadlock_detect: bool,
    /// Length of the longest chain of locks that the search follows. A longer chain counts as a
    /// cycle. Default: 50.
    pub deadlock_detect_depth: usize,
    /// Time that a request waits before it searches for a cycle. Default: none.
    pub deadlock_timeout: Duration,
    /// Time after which other lockers may steal the locker's locks. Default: never.
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
