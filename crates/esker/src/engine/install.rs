//! Installs new super versions of a family, and updates what depends on them: stall conditions, and
//! compactions that became due.

use crate::cf::{ColumnFamily, FamilyState, IdleCursors, StallInputs, SuperVersion, WriteStall, is_pressed};
use crate::engine::covered::note_covered;
use crate::engine::totals::Share;
use crate::engine::{DbState, Engine, maybe_schedule};
use crate::files::open_table::open_file;
use crate::observe::WriteStallInfo;
use crate::picker::{
    PickContext, PickerOptions, RunningId, level0_files_for_stalls, needs_compaction,
    pending_compaction_bytes, prepare, snapshot_threshold,
};
use crate::version::{FileMeta, Version};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, epoch};
use esker_base::{ColumnFamilyId, FileNumber, SequenceNumber};
use std::collections::{BTreeSet, HashSet};

/// Publishes a super version from `state`, recomputes stalls, and queues a compaction if one is
/// due. The old super version is released after its last reader, once a thread without the db mutex
/// calls [`Engine::hand_over_super_versions`].
pub(crate) fn publish_super_version(engine: &Engine, state: &mut DbState, family: ColumnFamilyId) {
    publish_super_versions(engine, state, &[family]);
}

/// [`publish_super_version`] for several families. The cost does not depend on the number of other
/// families.
pub(crate) fn publish_super_versions(engine: &Engine, state: &mut DbState, families: &[ColumnFamilyId]) {
    for family in families {
        show_super_version(engine, state, *family);
    }
    let oldest_snapshot = set_snapshot_thresholds(engine, state, families);
    for family in families {
        queue_if_due(engine, state, *family, oldest_snapshot);
    }
    update_stall(engine, state);
}

/// The part of [`publish_super_version`] that concerns one family only.
fn show_super_version(engine: &Engine, state: &mut DbState, family: ColumnFamilyId) {
    let Some(family_state) = state.families.get_mut(&family) else { return };
    let super_version = SuperVersion {
        mem: family_state.memtables.active.clone(),
        imm: family_state.memtables.immutables_newest_first(),
        history: family_state.memtables.history_newest_first(),
        ingested: family_state.memtables.ingested,
        newest_file: family_state.version.newest_file(),
        version: family_state.version.clone(),
        options: family_state.options.clone(),
        deleted_run_memory: family_state.deleted_run_memory.clone(),
        idle: IdleCursors::default(),
        number: engine.super_version_number.fetch_add(1, Ordering::Relaxed) + 1,
    };
    let old = family_state.cf.super_version.load_full();
    state.retired.push(family_state.cf.super_version.replace(Arc::new(super_version)));
    // Otherwise the last scan over the old super version would drop all its idle cursors, mostly in
    // the middle of a step.
    drop(old.idle.take_all());
    if !family_state.suggested.is_empty() && !Arc::ptr_eq(&old.version, &family_state.version) {
        let live: BTreeSet<_> = family_state.version.all_files().map(|(_, file)| file.number).collect();
        family_state.suggested.retain(|number| live.contains(number));
    }
    if family_state.options.read_triggered_compaction_threshold > 0.0 && !engine.read_only {
        engine.begin_sampling();
    }
    family_state.pending_compaction_bytes =
        pending_compaction_bytes(&family_state.version, &family_state.compaction_options);
    let stall = stall_of(family_state);
    let before = std::mem::replace(&mut family_state.stall, stall);
    if let Some(cause) = stall.cause {
        let level0_is_compacting = family_state.running.reads_level0();
        family_state.stall_counts.count(cause, stall.condition, level0_is_compacting);
    }
    if before.condition != family_state.stall.condition && !engine.options.listeners.is_empty() {
        state.stall_changes.push(WriteStallInfo {
            cf_name: family_state.cf.name.clone(),
            cur: family_state.stall.condition,
            prev: before.condition,
        });
    }
}

/// Releases the marks of a compaction that has changed nothing. Until then another thread may have
/// found no files that it could compact, and taken the family from the queue: so the family is
/// queued again if a compaction is due.
pub(crate) fn release_marks(
    engine: &Engine,
    state: &mut DbState,
    family: ColumnFamilyId,
    running: RunningId,
) {
    if let Some(family) = state.family_mut(family) {
        family.running.finish(running);
    }
    queue_if_due(engine, state, family, engine.oldest_snapshot_at_release());
}

/// Queues the family for compaction if one may be due.
pub(crate) fn queue_if_due(
    engine: &Engine,
    state: &mut DbState,
    family: ColumnFamilyId,
    oldest_snapshot: SequenceNumber,
) {
    let Some(family_state) = state.families.get_mut(&family) else { return };
    let now_seconds = engine.env.clock.now_seconds();
    let context = PickContext {
        options: &family_state.compaction_options,
        running: &family_state.running,
        now_seconds,
        seconds_ahead: engine.db_options().offpeak_seconds_ahead(now_seconds),
        oldest_snapshot,
        // `oldest_reader` would be too old: an ingestion's files become visible right afterwards,
        // under the same hold of the db mutex.
        oldest_live: engine.snapshots.oldest().unwrap_or(SequenceNumber::MAX),
        suggested: &family_state.suggested,
    };
    if !family_state.options.disable_auto_compactions
        && !family_state.compaction_queued
        && needs_compaction(&family_state.version, &context)
    {
        family_state.compaction_queued = true;
        state.compaction_queue.push_back(family);
    }
}

/// Sets the snapshot threshold of these families: once the oldest snapshot is newer, a compaction
/// would drop versions that snapshots kept. A thread that releases a snapshot meanwhile either sees
/// the new threshold, or its release is seen here.
pub(super) fn set_snapshot_thresholds(
    engine: &Engine,
    state: &mut DbState,
    families: &[ColumnFamilyId],
) -> SequenceNumber {
    loop {
        let oldest = engine.oldest_snapshot_at_release();
        for family in families {
            let Some(family_state) = state.families.get_mut(family) else { continue };
            let style = family_state.options.compaction_style;
            family_state.bottommost_threshold = snapshot_threshold(&family_state.version, style, oldest);
        }
        families.iter().for_each(|family| update_share(state, *family));
        engine.snapshot_threshold.store(state.totals.lowest_threshold().0, Ordering::SeqCst);
        if engine.oldest_snapshot_at_release() == oldest {
            return oldest;
        }
    }
}

impl Engine {
    /// Prepares versions that have just been logged, before they are published: each file keeps the
    /// table that its job opened, the tables' properties are read, and the pickers' scans over
    /// files are done in advance. No I/O. Call it without the db mutex.
    pub(crate) fn prepare_versions(&self, versions: &[(ColumnFamilyId, Arc<Version>)]) {
        for (id, version) in versions {
            let Some(cf) = self.families.by_id(*id) else { continue };
            if let Some(manager) = &self.options.sst_file_manager {
                for file in version.new_files() {
                    manager.on_add_file(&file.path(), file.file_size);
                }
            }
            for file in version.new_files().iter().filter(|file| file.stats().is_none()) {
                if cf.tables.cached(file.number).is_some()
                    && let Err(e) = open_file(&cf.tables, file)
                {
                    esker_base::info_log!(self.info_log, Warn, "[{}] {e}", cf.name);
                }
            }
            self.find_out(&cf, version, version.new_files(), false);
        }
    }

    /// [`Engine::prepare_versions`] for all families of a database that has just been opened. Skips
    /// tables that are not open.
    pub(crate) fn prepare_opened_versions(&self) {
        let versions: Vec<_> = {
            let state = self.state.lock();
            state.families.values().map(|f| (f.cf.clone(), f.version.clone())).collect()
        };
        for (cf, version) in versions {
            let files: Vec<_> = version.all_files().map(|(_, file)| file.clone()).collect();
            self.find_out(&cf, &version, &files, true);
        }
    }

    fn find_out(&self, cf: &ColumnFamily, version: &Version, new_files: &[Arc<FileMeta>], all_new: bool) {
        note_covered(cf, version, new_files, all_new);
        let options = PickerOptions::from(&*cf.super_version.load_full().options);
        prepare(version, &options, self.env.clock.now_seconds());
    }

    /// Gives replaced super versions to the epoch, which releases them after the reads under way.
    /// Call it when the db mutex is free: a thread that falls idle must not keep memtables and
    /// files. Purges call it too, so no file waits for the thread that replaced a super version.
    pub(crate) fn hand_over_super_versions(&self) {
        let mut state = self.state.lock();
        let retired = std::mem::take(&mut state.retired);
        state.handing_over += 1;
        drop(state);
        let _handing_over = HandingOver(self);
        drop(retired);
        epoch::pin().flush();
    }

    /// Passes all super versions that were replaced before the call to the epoch. Waits for other
    /// threads that do the same.
    pub(crate) fn hand_over_all_super_versions(&self) {
        self.hand_over_super_versions();
        let mut state = self.state.lock();
        while state.handing_over > 0 {
            self.state_changed.wait(&mut state);
        }
    }

    /// [`hand_over_super_versions`](Self::hand_over_super_versions), and releases them at once if
    /// no read is under way.
    pub(crate) fn release_super_versions(&self) {
        self.hand_over_super_versions();
        epoch::collect();
    }

    /// Deletes files of a job that no MANIFEST names; `path_id` is that of its tables. Files that a
    /// failed MANIFEST write may have named are deleted after the next successful write, or at the
    /// next open.
    pub(crate) fn delete_outputs(
        &self,
        cf: &ColumnFamily,
        path_id: u32,
        tables: impl Iterator<Item = FileNumber>,
        blobs: impl Iterator<Item = FileNumber>,
    ) {
        let manifest = self.manifest.lock();
        let is_nobodys = |number: &FileNumber| !manifest.may_be_named(*number);
        let tables: Vec<_> = tables.filter(is_nobodys).collect();
        let blobs: Vec<_> = blobs.filter(is_nobodys).collect();
        drop(manifest);
        let tables = tables.into_iter().map(|number| {
            cf.tables.evict(number);
            cf.tables.paths().table(path_id, number)
        });
        let blobs = blobs.into_iter().map(|number| {
            cf.tables.blobs().evict(number);
            cf.tables.paths().blob(number)
        });
        for path in tables.chain(blobs) {
            if let Err(e) = self.delete_file(&path) {
                esker_base::info_log!(self.info_log, Warn, "Could not delete an unfinished output: {e}");
            }
        }
    }
}

/// A thread that has taken super versions from `DbState::retired` for the epoch.
struct HandingOver<'a>(&'a Engine);

impl Drop for HandingOver<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.handing_over -= 1;
        if state.handing_over == 0 {
            self.0.state_changed.notify_all();
        }
    }
}

/// Updates a family's share of the sums over all families.
fn update_share(state: &mut DbState, id: ColumnFamilyId) {
    let share = state.families.get(&id).map(|f| {
        let is_automatic = !f.options.disable_auto_compactions;
        Share {
            condition: f.stall.condition,
            debt: f.pending_compaction_bytes,
            is_pressed: is_automatic && is_pressed(stall_inputs(f), &f.options),
            threshold: if is_automatic { f.bottommost_threshold } else { SequenceNumber::MAX },
        }
    });
    state.totals.set(id, share);
}

/// Removes dropped families from the sums, so that they stall no writer.
pub(crate) fn forget_shares(engine: &Engine, state: &mut DbState, gone: &HashSet<ColumnFamilyId>) {
    gone.iter().for_each(|id| state.totals.set(*id, None));
    update_stall(engine, state);
}

/// Applies the worst condition over all families and wakes waiting writers.
fn update_stall(engine: &Engine, state: &DbState) {
    engine.stall.update(std::iter::once(state.totals.condition()), state.totals.debt());
    engine.stall.set_pressure(state.totals.is_pressed());
    engine.state_changed.notify_all();
}

fn stall_of(family: &FamilyState) -> WriteStall {
    WriteStall::of(stall_inputs(family), &family.options)
}

pub(super) fn stall_inputs(family: &FamilyState) -> StallInputs {
    StallInputs {
        waiting_memtables: family.memtables.immutables.len(),
        level0_files: level0_files_for_stalls(&family.version, family.options.compaction_style),
        pending_compaction_bytes: family.pending_compaction_bytes,
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;

impl Engine {
    /// Handles the release of a snapshot: compactions may drop versions that only it saw. `oldest`:
    /// at most the oldest present or future snapshot. If it were newer than some snapshot, files
    /// that this snapshot needs would be rewritten again and again.
    #[inline]
    pub(crate) fn snapshot_released(self: &Arc<Self>, oldest: SequenceNumber) {
        // The order is: store this, then read the threshold. `publish_super_version` stores the
        // threshold, and then reads this.
        let before = self.snapshots.raise_oldest_at_release(oldest);
        if oldest > before && oldest.0 > self.snapshot_threshold.load(Ordering::SeqCst) {
            self.compact_what_waits_for_snapshots(oldest);
        }
    }

    #[cold]
    fn compact_what_waits_for_snapshots(self: &Arc<Self>, oldest: SequenceNumber) {
        let mut state = self.state.lock();
        let due = state.totals.waiting_for_snapshots(oldest);
        let mut queued = Vec::new();
        for id in due {
            let Some(family) = state.family_mut(id).filter(|f| !f.compaction_queued) else { continue };
            family.compaction_queued = true;
            state.compaction_queue.push_back(id);
            queued.push(id);
        }
        // Raises the thresholds, so that the next release does not check these families again.
        set_snapshot_thresholds(self, &mut state, &queued);
        maybe_schedule(self, &mut state);
    }
}
