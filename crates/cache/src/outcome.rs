//! Answers of a cache with a value in them: failed inserts, and evictions.

use crate::contract::InsertOutcome;
use crate::entry::Handle;
use esker_base::Error;
use smallvec::SmallVec;

/// A value that was inserted.
#[derive(Debug)]
pub struct CacheInserted<V> {
    /// The inserted value, or the value that was there before.
    pub handle: Handle<V>,
    /// The outcome of the insert.
    pub outcome: InsertOutcome,
}

/// A value that was refused. The caller owns it again.
#[derive(Debug)]
pub struct Rejected<V> {
    /// The value of the failed insert.
    pub value: V,
    /// `Aborted` with sub-code `MemoryLimit`.
    pub error: Error,
}

/// An entry that the clock evicted.
#[derive(Debug)]
pub struct Evicted<V> {
    /// The last handle: keeping it keeps the value and its charge.
    pub value: Handle<V>,
    /// Whether it was ever looked up.
    pub was_hit: bool,
}

/// A callback for each evicted entry. The evicting thread calls it, under no lock.
pub type EvictionCallback<V> = Box<dyn Fn(Evicted<V>) + Send + Sync>;

/// Evicted entries to report once no guard is open any more.
pub(crate) type EvictedList<V> = SmallVec<[Evicted<V>; 2]>;
