//! Flushed memtables that stay for conflict checks, within the write buffer manager's limit.
//!
//! In: families whose memtables were flushed, and the manager's count of memory. Out: while memory
//! is over the limit, the oldest of these memtables are dropped. Each family's own limit,
//! `max_write_buffer_size_to_maintain`, applies as well (`cf/memtables.rs`).
//!
//! History is a cache: without it an optimistic transaction that began earlier must retry
//! (`TryAgain`). Active memtables, and memtables that wait for a flush, are needed. So history is
//! dropped before a memtable is flushed for lack of memory, and before a writer waits for memory.
//! That holds for every database that shares the manager, idle ones included.

use super::{DbState, Engine, publish_super_versions};
use crate::options::HoldsHistory;
use esker_base::ColumnFamilyId;
use esker_base::sync::{Arc, Weak};

impl Engine {
    /// Drops flushed memtables, oldest first, until enough memory will be free. The caller
    /// publishes new super versions of the returned families, because the old ones still hold the
    /// memtables.
    pub(crate) fn trim_histories(self: &Arc<Self>, state: &mut DbState) -> Vec<ColumnFamilyId> {
        let Some(manager) = &self.options.write_buffer_manager else { return Vec::new() };
        self.give_up(state, manager.bytes_over_bound()).1
    }

    /// Drops the oldest flushed memtables, `bytes` in total or as many as there are. Returns the
    /// dropped bytes and the families.
    fn give_up(self: &Arc<Self>, state: &mut DbState, bytes: usize) -> (usize, Vec<ColumnFamilyId>) {
        let (mut given_up, mut trimmed) = (0, Vec::new());
        while given_up < bytes
            && let Some((sequence, id)) = state.histories.oldest.first().copied()
        {
            let Some(family) = state.family_mut(id) else { break };
            given_up += family.memtables.drop_oldest_history();
            state.history_changed(id, Some(sequence));
            if !trimmed.contains(&id) {
                trimmed.push(id);
            }
        }
        if let Some(manager) = &self.options.write_buffer_manager {
            let who: Weak<Engine> = Arc::downgrade(self);
            manager.set_holds_history(who, !state.histories.oldest.is_empty());
        }
        (given_up, trimmed)
    }
}

/// Writers of another database with the same manager may call it.
impl HoldsHistory for Engine {
    fn release_history(self: Arc<Self>, bytes: usize) -> usize {
        // In a forked child, threads of the parent may hold the locks.
        if !self.owner.is_here() {
            return 0;
        }
        let mut state = self.state.lock();
        let (given_up, trimmed) = self.give_up(&mut state, bytes);
        publish_super_versions(&self, &mut state, &trimmed);
        drop(state);
        // The old super versions hold the memory.
        self.release_super_versions();
        given_up
    }
}
