//! Switches to a new memtable and a new WAL.
//!
//! In: families whose active memtable must be flushed. Out: fresh active memtables, the old ones in
//! line for a flush, later writes in a fresh WAL.
//!
//! Invariant: runs as the write leader, so no write is in flight; the WAL is created before any
//! super version shows the new memtable, so a failure changes nothing.

use super::WritePath;
use super::queue::Leader;
use crate::cf::MemTableLimits;
use crate::engine::{DbState, Engine, ErrorReason, maybe_schedule, publish_super_versions, queue_flushes};
use crate::observe::FlushReason;
use crate::options::{ColumnFamilyOptions, DbOptions};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, FileNumber, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_memtable::{Checks, MemTable, MemTableFilterOptions, MemTableOptions, MemoryBudget};

impl WritePath {
    /// Switches the memtables of `families` (under `atomic_flush`, of all families with entries)
    /// and queues their flush. Skips families without entries.
    /// # Errors
    /// `IoError` if the new WAL could not be made; the error is in force for writes from then on.
    pub(super) fn switch_memtables(
        &self,
        leader: &Leader<'_>,
        families: &[ColumnFamilyId],
        reason: FlushReason,
    ) -> Result<()> {
        let engine = &self.engine;
        self.switch_memtables_then(leader, families, |state, switched| {
            queue_flushes(engine, state, switched, reason, false);
            maybe_schedule(engine, state);
        })
    }

    /// [`WritePath::switch_memtables`] that calls `queue` in place of queueing a flush, with the
    /// families that have a new memtable.
    /// # Errors
    /// `IoError` if the new WAL could not be made; the error is in force for writes from then on.
    pub(super) fn switch_memtables_then(
        &self,
        _leader: &Leader<'_>,
        families: &[ColumnFamilyId],
        queue: impl FnOnce(&mut DbState, &[ColumnFamilyId]),
    ) -> Result<()> {
        let engine = &self.engine;
        let families = families_to_switch(engine, families);
        if families.is_empty() {
            return Ok(());
        }
        let log_number = switch_wal(engine).map_err(|e| self.stop_writes(&e, ErrorReason::WalWrite))?;
        let mut sealed = Vec::new();
        let mut state = engine.state.lock();
        for id in &families {
            let earliest = SequenceNumber(engine.allocated_sequence.load(Ordering::Relaxed));
            let Some(family) = state.family_mut(*id) else { continue };
            let fresh = new_memtable(
                &engine.options,
                &family.cf.icmp,
                &family.options,
                family.next_memtable_id,
                earliest,
            );
            family.next_memtable_id += 1;
            sealed.push((family.cf.clone(), family.memtables.active.clone()));
            family.memtables.switch(fresh, log_number);
            let (history, before) = (family.options.history_bytes(), family.memtables.oldest_history());
            family.memtables.trim_history(history);
            state.history_changed(*id, before);
        }
        forget_old_wals(&mut state, log_number);
        engine.update_wal_bytes_limit(&state);
        publish_super_versions(engine, &mut state, &families);
        queue(&mut state, &families);
        drop(state);
        engine.hand_over_super_versions();
        for (cf, mem) in sealed {
            engine.report_memtable_sealed(&cf, &mem);
        }
        engine.report_stall_changes();
        Ok(())
    }
}

fn families_to_switch(engine: &Engine, wanted: &[ColumnFamilyId]) -> Vec<ColumnFamilyId> {
    let state = engine.state.lock();
    let has_entries =
        |id: &ColumnFamilyId| state.families.get(id).is_some_and(|f| !f.memtables.active.is_empty());
    if engine.options.atomic_flush && !wanted.is_empty() {
        state.families.keys().copied().filter(has_entries).collect()
    } else {
        wanted.iter().copied().filter(has_entries).collect()
    }
}

/// Makes an empty WAL the current one, and returns its number.
fn switch_wal(engine: &Engine) -> Result<FileNumber> {
    let mut wals = engine.wals.lock();
    if wals.current_is_empty() {
        return Ok(wals.current_number());
    }
    let number = engine.numbers.new_file_number();
    wals.switch(number)?;
    Ok(number)
}

/// Families without entries need nothing older than the new WAL.
pub(super) fn forget_old_wals(state: &mut DbState, log_number: FileNumber) {
    for family in state.families.values_mut() {
        if family.memtables.active.is_empty() {
            family.memtables.log_number = log_number;
        }
    }
}

/// An empty memtable for a family; every entry in it will be newer than `earliest`.
pub(crate) fn new_memtable(
    db: &DbOptions,
    icmp: &InternalKeyComparator,
    options: &ColumnFamilyOptions,
    id: u64,
    earliest: SequenceNumber,
) -> Arc<MemTable> {
    let memtable_options = MemTableOptions {
        id,
        arena_block_size: options.arena_block_size,
        expected_bytes: MemTableLimits::of(options).bytes(),
        earliest_sequence: earliest,
        budget: db.write_buffer_manager.clone().map(|manager| manager as Arc<dyn MemoryBudget>),
        checks: Checks {
            protection_bytes: u8::try_from(options.memtable_protection_bytes_per_key).unwrap_or(0),
            on_seek: options.memtable_verify_per_key_checksum_on_seek,
            order: options.paranoid_memory_checks,
        },
        sampled_run: options.pre_scan_threshold(),
        filter: filter_options(options),
        ..MemTableOptions::default()
    };
    MemTable::new(icmp.clone(), memtable_options)
}

/// The filter of a family's memtables: as in RocksDB, there is one if keys or prefixes would go
/// into it.
fn filter_options(options: &ColumnFamilyOptions) -> Option<MemTableFilterOptions> {
    let bytes = (options.write_buffer_size as f64 * options.memtable_prefix_bloom_size_ratio) as usize;
    let whole_keys = options.memtable_whole_key_filtering;
    let prefix_extractor = options.prefix_extractor.clone();
    let is_wanted = bytes > 0 && (whole_keys || prefix_extractor.is_some());
    is_wanted.then_some(MemTableFilterOptions { bytes, whole_keys, prefix_extractor })
}
