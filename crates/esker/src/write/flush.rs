//! Requested flushes: switch the memtables as the write leader, then wait for the job.

use super::WritePath;
use super::queue::Leader;
use super::switch::forget_old_wals;
use crate::cf::FamilyState;
use crate::engine::{DbState, ErrorReason, maybe_schedule, publish_super_versions, queue_flushes};
use crate::observe::FlushReason;
use crate::version::LogOptions;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result};
use esker_format::file_name;
use esker_format::version_edit::VersionEdit;

impl WritePath {
    /// Switches and flushes the memtables of `families`. With `wait`, returns when every earlier
    /// write is in tables.
    /// # Errors
    /// The background error in force, or the flush's error · `ShutdownInProgress`.
    pub(crate) fn flush(&self, families: &[ColumnFamilyId], reason: FlushReason, wait: bool) -> Result<()> {
        let leader = self.lead_alone_urgently();
        let failed_before = self.begin_flush(reason)?;
        self.switch_memtables(&leader, families, reason)?;
        drop(leader);
        let newest = self.queue_sealed(families, reason, false);
        self.engine.report_manual_flush(families, reason);
        if wait { self.wait_for_flush(&newest, failed_before, reason) } else { Ok(()) }
    }

    /// [`WritePath::flush`] of all `families` or none: `force_atomic_flush`.
    /// # Errors
    /// The background error in force, or the flush's error · `ShutdownInProgress`.
    pub(crate) fn flush_atomically(
        &self,
        families: &[ColumnFamilyId],
        reason: FlushReason,
        wait: bool,
    ) -> Result<()> {
        let leader = self.lead_alone_urgently();
        let failed_before = self.begin_flush(reason)?;
        self.switch_memtables_then(&leader, families, |_, _| ())?;
        // The flush is queued before the lead ends. Otherwise the next leader could queue a flush
        // of one of these families alone.
        let newest = self.queue_sealed(families, reason, true);
        drop(leader);
        self.engine.report_manual_flush(families, reason);
        if wait { self.wait_for_flush(&newest, failed_before, reason) } else { Ok(()) }
    }

    /// [`WritePath::flush`] that blocks all writes until it is done.
    /// # Errors
    /// The background error in force, or the flush's error · `ShutdownInProgress`.
    pub(crate) fn flush_as_leader(
        &self,
        leader: &Leader<'_>,
        families: &[ColumnFamilyId],
        reason: FlushReason,
    ) -> Result<()> {
        let failed_before = self.begin_flush(reason)?;
        self.switch_memtables(leader, families, reason)?;
        let newest = self.queue_sealed(families, reason, false);
        self.wait_for_flush(&newest, failed_before, reason)
    }

    /// The count of failed flushes. A caller reads it before it switches memtables: the switch
    /// already starts the flush, and that may fail at once.
    /// # Errors
    /// The background error in force, unless a recovery flushes.
    fn begin_flush(&self, reason: FlushReason) -> Result<u64> {
        let state = self.engine.state.lock();
        if reason != FlushReason::ErrorRecovery {
            state.background_error.check_writes()?;
        }
        Ok(state.failed_flushes)
    }

    /// Queues the sealed memtables of these families; returns the newest waiting memtable of each
    /// family that has one. `forced_atomic`: one flush for all of them.
    pub(super) fn queue_sealed(
        &self,
        families: &[ColumnFamilyId],
        reason: FlushReason,
        forced_atomic: bool,
    ) -> Vec<Sealed> {
        let engine = &self.engine;
        let mut state = engine.state.lock();
        // Earlier memtables that still wait are part of the request.
        let all: Vec<_> = if engine.options.atomic_flush {
            state.families.keys().copied().collect()
        } else {
            families.to_vec()
        };
        queue_flushes(engine, &mut state, &all, reason, forced_atomic);
        maybe_schedule(engine, &mut state);
        all.iter().filter_map(|id| newest_waiting(&state, *id)).collect()
    }

    /// Waits until these memtables and all before them are in tables. `failed_before`: the count of
    /// failed flushes before the request.
    fn wait_for_flush(&self, newest: &[Sealed], failed_before: u64, reason: FlushReason) -> Result<()> {
        let engine = &self.engine;
        let mut state = engine.state.lock();
        loop {
            if newest.iter().all(|sealed| sealed.is_flushed(&state)) {
                if matches!(reason, FlushReason::ErrorRecovery | FlushReason::ShutDown) {
                    return Ok(());
                }
                return state.background_error.check_space_limit();
            }
            engine.check_open()?;
            // If a listener cleared the error, the database retries by itself, and the caller still
            // gets the error.
            if let Some(error) = newest.iter().find_map(|sealed| sealed.failure(&state, failed_before)) {
                return Err(error.clone());
            }
            if reason != FlushReason::ErrorRecovery {
                // Fails during a recovery, too: the recovery may wait until this thread gives up
                // leadership.
                state.background_error.check_writes()?;
            } else if state.background_error.stops_flushes()
                && let Some(error) = state.background_error.current()
            {
                return Err(error.clone());
            }
            engine.wait_for_change(&mut state);
        }
    }

    /// Waits until the flushes of these families that are done have notified listeners.
    /// # Errors
    /// `ShutdownInProgress`.
    pub(crate) fn wait_for_flush_listeners(&self, families: &[ColumnFamilyId]) -> Result<()> {
        let engine = &self.engine;
        let mut state = engine.state.lock();
        let is_asked_for = |(_, id): &&(u64, ColumnFamilyId)| families.contains(id);
        let done: Vec<_> = state.flushes_reported.iter().filter(is_asked_for).copied().collect();
        while done.iter().any(|flush| state.flushes_reported.contains(flush)) {
            engine.check_open()?;
            engine.wait_for_change(&mut state);
        }
        Ok(())
    }

    /// Flushes everything in memory and waits.
    /// # Errors
    /// The background error in force, or the flush's error · `ShutdownInProgress`.
    pub(crate) fn flush_all(&self, reason: FlushReason) -> Result<()> {
        self.flush(&self.engine.family_ids(), reason, true)
    }

    /// Waits until flushing `families` now would not stop writers.
    /// # Errors
    /// The background error in force · `ShutdownInProgress`.
    pub(crate) fn wait_for_flush_room(&self, families: &[ColumnFamilyId]) -> Result<()> {
        let engine = &self.engine;
        let mut state = engine.state.lock();
        let crowded = |state: &DbState| {
            let families = families.iter().filter_map(|id| state.families.get(id));
            families.into_iter().any(|f| {
                let memtables = f.memtables.immutables.len() + 1;
                let level0_files = f.version.num_files(0) + 1;
                memtables >= f.options.memtable_limit()
                    || !f.options.disable_auto_compactions && level0_files >= f.options.level0_stop()
            })
        };
        while crowded(&state) && !state.is_paused() {
            engine.check_open()?;
            state.background_error.check_writes()?;
            if engine.jobs_scheduled(&state) == 0
                && state.flush_queue.is_empty()
                && (!state.has_due_compaction() || state.background_error.stops_compactions())
            {
                break; // no running job would make room
            }
            engine.wait_for_change(&mut state);
        }
        Ok(())
    }

    /// Writes buffered WAL bytes to the operating system.
    /// # Errors
    /// `IoError`.
    pub(crate) fn flush_wal(&self) -> Result<()> {
        let flushed = self.engine.wals.lock().flush();
        flushed.map_err(|e| self.stop_writes(&e, ErrorReason::WalWrite))
    }

    /// Makes commits durable whose ops are in tables. Under the early write policies a commit
    /// writes its marker to the WAL only, and a flush of empty memtables does not sync the WAL.
    /// Does nothing under `WriteCommitted`.
    /// # Errors
    /// Those of [`WritePath::sync_wal`].
    pub(crate) fn sync_commits(&self) -> Result<()> {
        if self.engine.commits.is_none() {
            return Ok(());
        }
        let switched = self.engine.wals.lock().current_is_empty();
        if switched { self.sync_closed_wals() } else { self.sync_wal() }
    }

    /// Syncs the WALs before the current one. Otherwise a flush of one family could become durable
    /// before earlier writes of the others.
    /// # Errors
    /// `IoError`.
    pub(crate) fn sync_closed_wals(&self) -> Result<()> {
        let synced = self.engine.wals.lock().sync_closed();
        synced.map_err(|e| self.stop_writes(&e, ErrorReason::WalWrite))
    }

    /// Flushes all memtables while writes are still refused. First begins a fresh WAL if the old
    /// one is damaged.
    /// # Errors
    /// The flush's error · `IoError` if no WAL can be made · `ShutdownInProgress`.
    pub(crate) fn recover_from_error(&self, wal_damaged: bool, reason: FlushReason) -> Result<()> {
        if !wal_damaged {
            return self.flush_all(reason);
        }
        let leader = self.lead_alone_urgently();
        let fresh = {
            let mut wals = self.engine.wals.lock();
            // Each attempt needs a WAL without records. It reuses the one of an earlier attempt, or
            // deletes it.
            if !wals.current_is_sound()
                && let Some(useless) = wals.abandon_current(self.engine.numbers.new_file_number())?
            {
                self.delete_wal(useless);
            }
            wals.current_number()
        };
        self.log_sections_again(fresh)?;
        // An earlier attempt may have left a recycled WAL without a new record. The old records in
        // it would stop a replay before the fresh WAL, so no family may need it.
        forget_old_wals(&mut self.engine.state.lock(), fresh);
        drop(leader);
        self.flush_all(reason)?;
        self.disown_old_wals()?;
        self.engine.wals.lock().forget_replaced();
        Ok(())
    }

    fn delete_wal(&self, number: FileNumber) {
        let engine = &self.engine;
        if let Err(e) = engine.fs().delete_file(&file_name::wal_file_name(&engine.wal_dir, number)) {
            esker_base::info_log!(engine.info_log, Warn, "Could not delete an unfinished WAL: {e}");
        }
    }

    /// Records in the MANIFEST that no family needs a WAL before the current one. A replay then
    /// never meets the damage, which would hide later writes, and failed writes stay away.
    fn disown_old_wals(&self) -> Result<()> {
        let engine = &self.engine;
        let mut manifest = engine.manifest.lock();
        let edits: Vec<_> = {
            let state = engine.state.lock();
            let edit = |f: &FamilyState| VersionEdit {
                column_family: f.cf.id,
                log_number: Some(f.memtables.oldest_log_needed()),
                ..VersionEdit::default()
            };
            state.families.values().map(edit).collect()
        };
        let sections = engine.prepared.lock().oldest_wal();
        manifest.keep_sections_from(sections);
        let log = LogOptions { atomic_group: edits.len() > 1, ..LogOptions::default() };
        let versions = manifest.log_and_apply(edits, log)?;
        engine.prepare_versions(&versions);
        let mut state = engine.state.lock();
        let families: Vec<ColumnFamilyId> = versions.iter().map(|(id, _)| *id).collect();
        for (id, version) in versions {
            if let Some(family) = state.family_mut(id) {
                family.version = version;
            }
        }
        publish_super_versions(engine, &mut state, &families);
        engine.purger.request();
        drop(state);
        drop(manifest);
        engine.release_super_versions();
        Ok(())
    }
}

/// The memtable to wait for in a family.
pub(super) struct Sealed {
    family: ColumnFamilyId,
    /// The memtable; all memtables before it count too.
    memtable: u64,
}

impl Sealed {
    /// Whether the memtable is in a table, or the family is gone.
    fn is_flushed(&self, state: &DbState) -> bool {
        let family = state.families.get(&self.family);
        family.is_none_or(|f| f.memtables.immutables.iter().all(|i| i.mem.id() > self.memtable))
    }

    /// The error of the memtable's flush, if it did not become the background error.
    fn failure<'a>(&self, state: &'a DbState, failed_before: u64) -> Option<&'a Error> {
        let failed = state.families.get(&self.family)?.failed_flush.as_ref()?;
        failed.concerns(self.memtable, failed_before).then_some(&failed.error)
    }
}

fn newest_waiting(state: &DbState, family: ColumnFamilyId) -> Option<Sealed> {
    let waits = state.families.get(&family)?;
    let memtable = waits.memtables.immutables.last()?.mem.id();
    Some(Sealed { family, memtable })
}

#[cfg(test)]
mod tests;
