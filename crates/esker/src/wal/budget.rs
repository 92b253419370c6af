//! Limits the memory of a WAL replay: decides when it writes tables.
//!
//! In: the entries that are replayed. Out: whether memtables should become tables, and which of
//! them.

use crate::options::{DbOptions, WriteBufferManager};
use esker_base::sync::Arc;

/// Approximate bytes of an entry in a memtable besides its key and value.
const ENTRY_OVERHEAD: usize = 64;

/// The bound of the write buffer manager, for a replay.
#[derive(Debug)]
pub(crate) struct ReplayBudget {
    manager: Option<Arc<WriteBufferManager>>,
    /// Bytes of entries since tables were last written.
    bytes_since_flush: usize,
}

impl ReplayBudget {
    /// The budget of a database with these options.
    pub(crate) fn new(options: &DbOptions) -> ReplayBudget {
        ReplayBudget { manager: options.write_buffer_manager.clone(), bytes_since_flush: 0 }
    }

    /// Counts a replayed entry.
    pub(crate) fn note(&mut self, key: &[u8], value: &[u8]) {
        self.bytes_since_flush += key.len() + value.len() + ENTRY_OVERHEAD;
    }

    /// Records that tables are written, or that none can be. The next look at all families then
    /// comes after an eighth of the limit.
    pub(crate) fn note_look(&mut self) {
        self.bytes_since_flush = 0;
    }

    /// Whether the manager requires a flush, and the replay uses enough memory for one. Otherwise
    /// the memory of other databases would cause a flush after each batch.
    pub(crate) fn is_exceeded(&self) -> bool {
        let manager = self.manager.as_ref();
        manager.is_some_and(|m| self.bytes_since_flush >= m.buffer_size() / 8 && m.should_flush())
    }
}

/// Chooses the largest memtables, with half of all memory, from pairs of bytes and family. Cost: a
/// sort of the pairs.
pub(crate) fn largest_half<K: Copy + Ord>(memtables: impl Iterator<Item = (usize, K)>) -> Vec<K> {
    let mut filled: Vec<_> = memtables.collect();
    filled.sort_unstable_by(|a, b| b.cmp(a));
    let half = filled.iter().map(|(bytes, _)| bytes).sum::<usize>() / 2;
    let mut chosen = 0;
    let is_needed = |(bytes, _): &(usize, K)| {
        let is_needed = chosen < half;
        chosen += bytes;
        is_needed
    };
    filled.into_iter().take_while(is_needed).map(|(_, id)| id).collect()
}
