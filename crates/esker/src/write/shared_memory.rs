//! Flushes that a write buffer manager requires, because memtables have reached its bound.
//!
//! In: the manager's policy. Out: the family to flush, here or in another database.

use super::WritePath;
use crate::cf::FamilyState;
use crate::engine::Engine;
use crate::observe::FlushReason;
use crate::options::{SharesMemory, WriteBufferFlushPolicy};
use crate::schedule::Job;
use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;

impl WritePath {
    /// The family to flush. Empty if no memtable has entries, or if another database flushes
    /// instead.
    pub(super) fn family_to_flush(&self, policy: WriteBufferFlushPolicy) -> Vec<ColumnFamilyId> {
        let family = match policy {
            WriteBufferFlushPolicy::Oldest => family_with_oldest_memtable(&self.engine),
            WriteBufferFlushPolicy::Largest => family_with_largest_memtable(&self.engine),
            WriteBufferFlushPolicy::LargestAcrossDbs if self.is_other_database_chosen() => None,
            WriteBufferFlushPolicy::LargestAcrossDbs => family_with_largest_memtable(&self.engine),
        };
        family.map(|(id, _)| id).into_iter().collect()
    }

    /// Whether no flush is needed here: another database flushes, or memory is below the bound
    /// again.
    fn is_other_database_chosen(&self) -> bool {
        let manager = self.engine.options.write_buffer_manager.as_ref();
        let own = self.myself.upgrade().map(|own| own as Arc<dyn SharesMemory>);
        // The other database may have freed memory since the caller's check.
        manager
            .zip(own)
            .is_some_and(|(manager, own)| manager.another_flushes(&own) || !manager.should_flush())
    }
}

impl SharesMemory for WritePath {
    fn largest_memtable(&self) -> usize {
        let engine = &self.engine;
        if engine.is_shutting_down() || engine.read_only || engine.writes_stopped.load(Ordering::Acquire) {
            return 0;
        }
        family_with_largest_memtable(engine).map_or(0, |(_, bytes)| bytes)
    }

    fn flush_largest(self: Arc<Self>) -> bool {
        if self.flush_asked.swap(true, Ordering::Relaxed) {
            return false;
        }
        let scheduler = self.engine.scheduler.clone();
        let flush = move || {
            if let (Ok(()), Some((id, _))) =
                (self.engine.check_open(), family_with_largest_memtable(&self.engine))
                && let Err(e) = self.flush(&[id], FlushReason::WriteBufferManager, false)
            {
                let log = &self.engine.info_log;
                esker_base::info_log!(log, Warn, "A flush for other databases' memory failed: {e}");
            }
            self.flush_asked.store(false, Ordering::Relaxed);
        };
        scheduler.schedule(Job::Flush, Box::new(flush));
        true
    }
}

/// The largest active memtable with entries: its family and its bytes.
fn family_with_largest_memtable(engine: &Engine) -> Option<(ColumnFamilyId, usize)> {
    let state = engine.state.lock();
    let bytes = |f: &FamilyState| f.memtables.active.approximate_memory_usage();
    let with_entries = state.families.values().filter(|f| !f.memtables.active.is_empty());
    with_entries.map(|f| (f.cf.id, bytes(f))).max_by_key(|(_, bytes)| *bytes)
}

/// The oldest active memtable with entries: its family and its bytes.
fn family_with_oldest_memtable(engine: &Engine) -> Option<(ColumnFamilyId, usize)> {
    let state = engine.state.lock();
    let with_entries = state.families.values().filter(|f| !f.memtables.active.is_empty());
    let oldest = with_entries.min_by_key(|f| {
        let active = &f.memtables.active;
        (active.creation_seqno(), active.first_seqno())
    });
    oldest.map(|f| (f.cf.id, f.memtables.active.approximate_memory_usage()))
}
