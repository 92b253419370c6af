//! Results of a cache that hold a value: inserts, failed inserts and evictions.

use crate::contract::InsertOutcome;
use crate::entry::Handle;
use esker_base::Error;
use smallvec::SmallVec;

/// The result of an insert that succeeded.
#[derive(Debug)]
pub struct CacheInserted<V> {
    /// Holds the inserted value, or the value that the key had before ([`InsertOutcome::Found`]).
    pub handle: Handle<V>,
    /// The outcome of the insert.
    pub outcome: InsertOutcome,
}

/// The result of a failed insert. The caller owns the value again.
#[derive(Debug)]
pub struct Rejected<V> {
    /// The value of the failed insert.
    pub value: V,
    /// `Aborted` with sub-code `MemoryLimit`.
    pub error: Error,
}

/// An entry that the cache evicted.
#[derive(Debug)]
pub struct Evicted<V> {
    /// The last handle. The value and its charge live as long as this handle.
    pub value: Handle<V>,
    /// Whether the cache has recorded a hit of the entry. `lookup_last` erases the record.
    pub was_hit: bool,
}

/// A callback for each evicted entry. The evicting thread calls it without a lock.
pub type EvictionCallback<V> = Box<dyn Fn(Evicted<V>) + Send + Sync>;

/// Evicted entries. The thread reports them after it has closed its guard (clock) or released the
/// shard's lock (LRU).
pub(crate) type EvictedList<V> = SmallVec<[Evicted<V>; 2]>;
