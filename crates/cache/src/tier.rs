//! The contract of a tier: a store below a cache, for evicted values as bytes.
//!
//! In: the bytes of evicted values. Out: the same bytes, unless the tier has dropped them. Source
//! of the semantics: RocksDB `include/rocksdb/secondary_cache.h`,
//! `cache/secondary_cache_adapter.cc`. Implementations: `esker_table::tier`.
//!
//! | step | thread | event |
//! |---|---|---|
//! | evicted | the evicting thread, under no lock | [`SecondaryCache::insert`]: the tier stores the value at its second eviction, so a scan stores nothing |
//! | missed | the reader | [`SecondaryCache::lookup`] starts, [`Lookup::wait`] or [`wait_all`] ends it |
//! | promoted | the reader | the cache parses and inserts the value; if the cache evicted the value recently, the tier's copy is the first to go |
//! | read from its source | the reader | [`SecondaryCache::insert_stored`]: the tier stores the value's compressed form if it remembers the key |
//!
//! Invariants
//!  1. A lookup reaches a tier only after a miss in the cache above, so a hit costs the same
//!     without a tier.
//!  2. A tier never fails a read. A value that the tier cannot return is a miss.
//!  3. A tier returns the inserted bytes. If its medium can damage them, the tier checks them
//!     first.
//!  4. Cache and tier each charge for their own copy. A value whose copy stayed in the tier is not
//!     stored again at the next eviction: that eviction counts as a use of the copy.

mod budget;
mod recent;

pub use budget::AdmissionPolicy;
pub(crate) use budget::{Lower, Shares};
pub use recent::Recent;

use crate::key::CacheKey;
use crate::role::Role;
use esker_base::Buffer;
use std::fmt;

/// A value as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// The value's role.
    pub role: Role,
    /// The code of the compression of `bytes`, as in the trailers of a table's blocks; 0: not
    /// compressed.
    pub codec: u8,
    /// Bytes from which the cache's user can make the value again.
    pub bytes: &'a [u8],
}

/// The result of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The tier stored the value.
    Stored,
    /// The tier had the value before.
    Present,
    /// The tier remembers the key and stores the value if it is offered again soon.
    Remembered,
    /// The tier has no room, or is off.
    Refused,
}

/// The place where a tier found a value.
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
    /// The value's role.
    pub role: Role,
    /// The value's bytes, without compression.
    pub bytes: Buffer,
    /// Whether the tier keeps its copy as before. If not, the copy is gone, or the first to go.
    pub is_kept: bool,
    /// The place where it was found.
    pub found_in: FoundIn,
}

/// A lookup in progress. A drop cancels the lookup.
pub trait Pending: Send + fmt::Debug {
    /// Whether `wait` would return at once.
    fn is_ready(&self) -> bool;
    /// Waits for the value. `None` if the tier turns out not to have it.
    fn wait(self: Box<Self>) -> Option<TierHit>;
}

/// The state of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// The tier does not have the value.
    Missing {
        /// Whether the tier remembers the key: the value was offered recently.
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

/// Waits for lookups that the caller has started, so that their reads overlap. Returns the results
/// in the same order.
pub fn wait_all(lookups: impl IntoIterator<Item = Lookup>) -> Vec<Option<TierHit>> {
    lookups.into_iter().map(Lookup::wait).collect()
}

/// A tier below one or several caches. All methods may be called from any thread.
pub trait SecondaryCache: Send + Sync + fmt::Debug {
    /// The tier's name: RocksDB's if RocksDB has such a tier.
    fn name(&self) -> &'static str;

    /// Offers a value. The tier stores the value if it was offered recently, or if `is_forced`. The
    /// call copies the bytes of `saved`. If the tier has the value, the call counts as a use of it.
    fn insert(&self, key: &CacheKey, saved: Saved<'_>, is_forced: bool) -> Admission;

    /// Offers a value that the caller keeps, in the compressed form that its source has. The tier
    /// stores this form only if its own codec is of the same kind. The tier must also remember the
    /// key, unless `is_forced`. The stored copy is the first to go. RocksDB: `InsertSaved`.
    fn insert_stored(&self, _key: &CacheKey, _stored: Saved<'_>, _is_forced: bool) -> Admission {
        Admission::Refused
    }

    /// Starts a lookup of a value. `advise_erase`: the caller will keep the value, so the tier may
    /// drop its copy at once, or before others.
    fn lookup(&self, key: &CacheKey, advise_erase: bool) -> Lookup;

    /// Whether the tier has the value. Reads nothing, and does not count as a use.
    fn contains(&self, key: &CacheKey) -> bool;

    /// Removes a value.
    fn erase(&self, key: &CacheKey);

    /// The capacity in bytes.
    fn capacity(&self) -> usize;

    /// Changes the capacity. 0 turns the tier off, any other number on.
    fn set_capacity(&self, bytes: usize);

    /// Lowers the capacity by a number of bytes, at most to 0, until [`inflate`](Self::inflate)
    /// gives them back. Returns the bytes that it took. No other call may change the capacity at
    /// the same time.
    fn deflate(&self, decrease: usize) -> usize {
        let before = self.capacity();
        self.set_capacity(before.saturating_sub(decrease));
        before.min(decrease)
    }

    /// Gives back bytes that [`deflate`](Self::deflate) took.
    fn inflate(&self, increase: usize) {
        self.set_capacity(self.capacity().saturating_add(increase));
    }

    /// Bytes in use.
    fn usage(&self) -> usize;

    /// Waits until the tier has stored all values inserted so far.
    fn settle(&self) {}
}
