//! The tier below a cache: evicted values go there as bytes, and come back from there.
//!
//! In: bytes of evicted values. Out: the same bytes, later, unless the tier dropped them. Source of
//! the semantics: RocksDB `include/rocksdb/secondary_cache.h`, `cache/secondary_cache_adapter.cc`.
//! Implementations: `esker_table::tier`.
//!
//! | step | thread | event |
//! |---|---|---|
//! | evicted | the evicting thread, under no lock | [`SecondaryCache::insert`]: stored at the second time, so that a scan stores nothing |
//! | missed | the reader | [`SecondaryCache::lookup`] starts, [`Lookup::wait`] or [`wait_all`] ends it |
//! | promoted | the reader | parsed and inserted; the tier drops its copy if the cache has had the value before |
//!
//! Invariants
//!  1. A lookup reaches a tier only after a miss in the cache above, so a hit costs the same
//!     without a tier.
//!  2. A tier never fails a read. A value that it cannot return is a miss.
//!  3. The tier returns the inserted bytes. It checks bytes that came from a medium that can damage
//!     them.
//!  4. Cache and tier each charge their own copy. A copy that stays in the tier after a promotion
//!     is not stored again.

mod budget;
mod recent;

pub use budget::AdmissionPolicy;
pub(crate) use budget::{Lower, Shares};
pub use recent::Recent;

use crate::key::CacheKey;
use crate::role::Role;
use std::fmt;

/// A value as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// Its role.
    pub role: Role,
    /// Compression of `bytes`: a code that the tier chose; 0: none.
    pub codec: u8,
    /// Bytes from which the value can be made again.
    pub bytes: &'a [u8],
}

/// The result of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The tier stored the value.
    Stored,
    /// The tier had the value before.
    Present,
    /// The value was offered for the first time recently. The tier will store it at the second
    /// time.
    Remembered,
    /// There is no room, or the tier is off.
    Refused,
}

/// Where a value was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundIn {
    /// Compressed in memory.
    Memory,
    /// In a file.
    File,
}

/// A value that a lookup in the tier found, uncompressed.
#[derive(Debug)]
pub struct TierHit {
    /// Its role.
    pub role: Role,
    /// The inserted bytes.
    pub bytes: Vec<u8>,
    /// Whether the tier keeps its copy.
    pub is_kept: bool,
    /// The place where it was found.
    pub found_in: FoundIn,
}

/// A lookup in progress. A drop cancels it.
pub trait Pending: Send + fmt::Debug {
    /// Whether `wait` would return at once.
    fn is_ready(&self) -> bool;
    /// The value; `None` if the tier does not have it after all.
    fn wait(self: Box<Self>) -> Option<TierHit>;
}

/// The state of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// The tier does not have the value.
    Missing {
        /// Whether the value was offered recently.
        was_seen: bool,
    },
    /// The value.
    Ready(TierHit),
    /// The value is being read.
    Pending(Box<dyn Pending>),
}

impl Lookup {
    /// Waits for the result.
    pub fn wait(self) -> Option<TierHit> {
        match self {
            Lookup::Missing { .. } => None,
            Lookup::Ready(found) => Some(found),
            Lookup::Pending(pending) => pending.wait(),
        }
    }

    /// Whether `wait` would return at once.
    pub fn is_ready(&self) -> bool {
        match self {
            Lookup::Missing { .. } | Lookup::Ready(_) => true,
            Lookup::Pending(pending) => pending.is_ready(),
        }
    }
}

/// The results of lookups that were started before, in their order. Their reads overlap.
pub fn wait_all(lookups: impl IntoIterator<Item = Lookup>) -> Vec<Option<TierHit>> {
    lookups.into_iter().map(Lookup::wait).collect()
}

/// A store below one cache or several. All methods may be called from any thread.
pub trait SecondaryCache: Send + Sync + fmt::Debug {
    /// The tier's name: RocksDB's, or a name of its own.
    fn name(&self) -> &'static str;

    /// Offers a value. The tier stores it if it was offered recently, or if `is_forced`. It copies
    /// the needed bytes of `saved` before it returns.
    fn insert(&self, key: &CacheKey, saved: Saved<'_>, is_forced: bool) -> Admission;

    /// Starts a lookup of a value. `advise_erase`: the caller will keep the value, so the tier may
    /// drop it.
    fn lookup(&self, key: &CacheKey, advise_erase: bool) -> Lookup;

    /// Whether the tier has the value. Starts no read, and does not count as a use.
    fn contains(&self, key: &CacheKey) -> bool;

    /// Removes a value.
    fn erase(&self, key: &CacheKey);

    /// The capacity in bytes.
    fn capacity(&self) -> usize;

    /// Changes the capacity. 0 turns the tier off; another number turns it on again.
    fn set_capacity(&self, bytes: usize);

    /// Bytes in use.
    fn usage(&self) -> usize;

    /// Waits until all values inserted before are stored. For tests, and before a process ends.
    fn settle(&self) {}
}
