//! Rows of tables in memory, for `DbOptions::row_cache`.
//!
//! In: the entries of one user key in one table, as a get has read them. Out: the same entries for
//! later gets, which then look at no filter, index or block of that table.
//! Source of the rules: RocksDB `db/table_cache.cc`, `table/get_context.cc`.
//!
//! Invariants
//!  1. A row has the key's entries in the table up to the row's bound, newest first: all of them,
//!     or those down to the first that is no merge operand. So a search that takes them needs no
//!     more entries of the table, whatever newer tables and memtables have.
//!  2. `cover` is the newest range tombstone of the table over the key, up to the bound. A row is
//!     right beside range deletions, too.
//!  3. A row is found by a hash, and has its identity in full. A lookup compares: two keys with one
//!     hash are a miss.
//!  4. A row never becomes wrong. Tables do not change, their numbers do not come twice, and each
//!     opening of a database has a number of its own. Rows of deleted tables age in the cache.

use crate::version::FileMeta;
use esker_base::hash::xxh3_128;
use esker_base::sync::Arc;
use esker_base::{PinnedBytes, SequenceNumber, ValueType};
use esker_cache::key::process_unique_identity;
use esker_cache::{CacheKey, CachePriority, Role};
use esker_format::key::LookupKey;
use esker_table::{BlockCache, CachedBlock};
use smallvec::SmallVec;

/// Bytes of an identity in front of the user key: database, table, bound, length of the user key.
const IDENTITY_BYTES: usize = 32;

/// Bytes of an entry in front of its value: type, sequence number, length.
const ENTRY_BYTES: usize = 1 + 8 + 8;

/// The row cache of one open database.
#[derive(Debug)]
pub(crate) struct RowCache {
    cache: Arc<BlockCache>,
    /// The number of this opening of the database among all that share the cache.
    database: u64,
}

impl RowCache {
    pub(crate) fn new(cache: Arc<BlockCache>) -> RowCache {
        RowCache { cache, database: process_unique_identity().1 }
    }

    /// The identity of the row of `key` in `file`. Reads that see all of the table share a row. A
    /// read at an older sequence number has a row of its own.
    pub(crate) fn key(&self, file: &FileMeta, key: &LookupKey) -> RowKey {
        let sees_all = key.sequence() >= file.largest_seqno;
        let bound = if sees_all { 0 } else { 1 + key.sequence().0 };
        let user_key = key.user_key();
        let mut identity = SmallVec::with_capacity(IDENTITY_BYTES + user_key.len());
        for word in [self.database, file.number.0, bound, user_key.len() as u64] {
            identity.extend_from_slice(&word.to_le_bytes());
        }
        identity.extend_from_slice(user_key);
        let hash = xxh3_128(&identity, 0);
        RowKey { identity, place: CacheKey::from_words([hash as u64, (hash >> 64) as u64]) }
    }

    /// The row of this key, if the cache has it.
    pub(crate) fn find(&self, key: &RowKey) -> Option<Row> {
        let bytes = PinnedBytes::part_of(self.cache.lookup(&key.place)?, |cached| cached.bytes());
        let rest = bytes.strip_prefix(&*key.identity)?;
        let cover = SequenceNumber(u64::from_le_bytes(*rest.first_chunk()?));
        let next = key.identity.len() + size_of::<u64>();
        Some(Row { bytes, next, cover })
    }

    /// Keeps a row, if the cache has room.
    pub(crate) fn insert(&self, key: &RowKey, row: NewRow) {
        let charge = row.bytes.capacity() + size_of::<CachedBlock>();
        let row = CachedBlock::Blob(row.bytes);
        drop(self.cache.insert(key.place, row, charge, CachePriority::Low, Role::Misc));
    }
}

/// The identity of a row, and its place in the cache.
pub(crate) struct RowKey {
    identity: SmallVec<[u8; 96]>,
    place: CacheKey,
}

/// A row of the cache.
pub(crate) struct Row {
    bytes: PinnedBytes,
    /// The offset of the next entry.
    next: usize,
    /// The newest range tombstone over the key; 0 for none.
    pub(crate) cover: SequenceNumber,
}

impl Row {
    /// The next entry, and its value in place.
    pub(crate) fn next_entry(&mut self) -> Option<(ValueType, SequenceNumber, PinnedBytes)> {
        let (value_type, rest) = self.bytes.get(self.next..)?.split_first()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let len = u64::from_le_bytes(*rest.first_chunk()?) as usize;
        let begin = self.next + ENTRY_BYTES;
        self.next = begin + len;
        let value_type = ValueType::from_u8(*value_type)?;
        Some((value_type, SequenceNumber(u64::from_le_bytes(*sequence)), self.bytes.slice(begin..self.next)))
    }
}

/// A row that a search of its table makes.
pub(crate) struct NewRow {
    bytes: Vec<u8>,
    /// The type of the last entry.
    last: Option<ValueType>,
}

impl NewRow {
    pub(crate) fn new(key: &RowKey, cover: SequenceNumber) -> NewRow {
        let mut bytes = Vec::with_capacity(key.identity.len() + 64);
        bytes.extend_from_slice(&key.identity);
        bytes.extend_from_slice(&cover.0.to_le_bytes());
        NewRow { bytes, last: None }
    }

    /// Adds the next entry of the table.
    pub(crate) fn add(&mut self, value_type: ValueType, sequence: SequenceNumber, value: &[u8]) {
        self.bytes.reserve_exact(ENTRY_BYTES + value.len());
        self.bytes.push(value_type as u8);
        self.bytes.extend_from_slice(&sequence.0.to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(value);
        self.last = Some(value_type);
    }

    /// Whether the row is worth keeping, and complete (invariant 1). `is_exhausted`: the table has
    /// no further entry of the key.
    pub(crate) fn is_complete(&self, is_exhausted: bool) -> bool {
        self.last.is_some_and(|last| is_exhausted || last != ValueType::Merge)
    }
}
