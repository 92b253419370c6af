//! Flushed memtables that stay for conflict checks, within the write buffer manager's limit.
//!
//! In: families whose memtables were flushed, and the manager's count of memory. Out: the oldest of
//! these memtables go while memory is over the limit. `max_write_buffer_size_to_maintain` of each
//! family holds besides (`cf/memtables.rs`).
//!
//! History is a cache: without it an optimistic transaction that began earlier must retry
//! (`TryAgain`). Memtables that take writes, and those that wait for a flush, are no cache. So
//! history goes before a memtable is flushed for lack of memory, and before a writer waits for
//! memory.

use super::{DbState, Engine, publish_super_versions};
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::epoch;
use esker_base::{ColumnFamilyId, SequenceNumber};
use std::collections::BTreeSet;

/// The families that have history. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// By the first sequence number of the oldest memtable: this one goes first.
    oldest: BTreeSet<(SequenceNumber, ColumnFamilyId)>,
}

impl DbState {
    /// Updates the list of history for a family. Call it whenever that may have changed; `before`
    /// is the former result of `MemTables::oldest_history`.
    pub(crate) fn history_changed(&mut self, id: ColumnFamilyId, before: Option<SequenceNumber>) {
        let now = self.families.get(&id).and_then(|family| family.memtables.oldest_history());
        if now != before {
            before.map(|sequence| self.histories.oldest.remove(&(sequence, id)));
            now.map(|sequence| self.histories.oldest.insert((sequence, id)));
        }
    }
}

impl Engine {
    /// Whether flushed memtables should go because memory is over the bound. Cheap enough for each
    /// write.
    #[inline]
    pub(crate) fn history_is_too_large(&self) -> bool {
        self.has_history.load(Ordering::Relaxed) && self.memory_over_bound() > 0
    }

    fn memory_over_bound(&self) -> usize {
        let manager = self.options.write_buffer_manager.as_ref();
        manager.map_or(0, |manager| manager.bytes_over_bound())
    }

    /// Lets go of flushed memtables, oldest first, until enough memory will be free. The caller
    /// shows the super versions of the families that are returned: readers hold the memtables
    /// through the old ones.
    pub(crate) fn trim_histories(&self, state: &mut DbState) -> Vec<ColumnFamilyId> {
        let (mut over, mut trimmed) = (self.memory_over_bound(), Vec::new());
        while over > 0
            && let Some((sequence, id)) = state.histories.oldest.first().copied()
        {
            let Some(family) = state.family_mut(id) else { break };
            over = over.saturating_sub(family.memtables.drop_oldest_history());
            state.history_changed(id, Some(sequence));
            if !trimmed.contains(&id) {
                trimmed.push(id);
            }
        }
        store(&self.has_history, !state.histories.oldest.is_empty());
        trimmed
    }

    /// The same, outside of any other change.
    pub(crate) fn give_up_history(&self) {
        let mut state = self.state.lock();
        let trimmed = self.trim_histories(&mut state);
        publish_super_versions(self, &mut state, &trimmed);
        drop(state);
        // The old super versions hold the memory.
        epoch::collect();
    }
}

/// Writers look at it with each write: it is written to only if it changes.
fn store(flag: &AtomicBool, value: bool) {
    if flag.load(Ordering::Relaxed) != value {
        flag.store(value, Ordering::Relaxed);
    }
}
