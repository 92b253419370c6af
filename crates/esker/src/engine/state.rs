//! The state under the db mutex.

use crate::cf::FamilyState;
use crate::deleted_runs::PreScanQueue;
use crate::engine::BackgroundError;
use crate::engine::totals::Totals;
use crate::observe::{CompactionJobInfo, FlushReason, WriteStallInfo};
use crate::picker::{CompactionPlan, RunningId};
use crate::version::FamilyMap;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{ColumnFamilyId, FileNumber, Result, SequenceNumber};
use esker_format::deleted_runs::LongDeletedRun;
use std::collections::{BTreeSet, VecDeque};

/// A flush that waits for a slot: these families' waiting memtables, together if there are several.
#[derive(Clone, Debug)]
pub(crate) struct FlushRequest {
    pub(crate) families: Vec<ColumnFamilyId>,
    pub(crate) reason: FlushReason,
}

/// A manual compaction that waits for a slot, and its result.
#[derive(Debug)]
pub(crate) struct QueuedManualCompaction {
    pub(crate) id: u64,
    /// Its inputs are marked under this.
    pub(crate) running: Option<RunningId>,
    /// Taken by the job.
    pub(crate) plan: Option<CompactionPlan>,
    /// Threads; 0: as the option says.
    pub(crate) max_subcompactions: u32,
    /// Set to stop it: the caller's own flag, if it has one.
    pub(crate) canceled: Arc<AtomicBool>,
    /// Whether its caller wants `info`, which the job fills before `done`.
    pub(crate) wants_info: bool,
    pub(crate) info: Option<Box<CompactionJobInfo>>,
    /// The files it has written.
    pub(crate) done: Option<Result<Vec<FileNumber>>>,
}

/// The families that have history. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// By the first sequence number of the oldest memtable: this one goes first.
    pub(super) oldest: BTreeSet<(SequenceNumber, ColumnFamilyId)>,
}

/// Everything that changes under the db mutex.
#[derive(Debug, Default)]
pub(crate) struct DbState {
    pub(crate) families: FamilyMap<FamilyState>,
    /// Of all families.
    pub(crate) totals: Totals,
    pub(crate) histories: Histories,

    pub(crate) flush_queue: VecDeque<FlushRequest>,
    pub(crate) compaction_queue: VecDeque<ColumnFamilyId>,
    pub(crate) manual_compactions: Vec<QueuedManualCompaction>,
    pub(crate) next_manual_id: u64,
    /// Runs of deleted keys to be gone through.
    pub(crate) pre_scans: PreScanQueue,
    /// A manual compaction wants to be the only one: no other is begun.
    pub(crate) exclusive_manual: bool,
    /// `disable_manual_compaction` calls minus `enable_manual_compaction` calls. Manual compactions
    /// are refused while it is above 0.
    pub(crate) manual_disabled: i64,
    /// Jobs handed to the pool and not ended.
    pub(crate) flushes_scheduled: usize,
    pub(crate) compactions_scheduled: usize,
    /// Those of them that have not looked into the queues yet.
    pub(crate) flushes_unbegun: usize,
    pub(crate) compactions_unbegun: usize,
    /// `pause_background_work` calls without their `continue`.
    pub(crate) paused: usize,
    /// Those that move files about, beside which nothing else may, and whom no caller's `continue`
    /// ends.
    pub(crate) quiet: usize,
    /// Callers of `disable_file_deletions` without their `enable`.
    pub(crate) file_deletions_disabled: usize,
    /// Checkpoints and backups under way, which no caller's `enable` ends.
    pub(crate) files_kept: usize,
    /// Threads that are deleting files, since a time when deletions were enabled.
    pub(crate) deleting: usize,
    /// See `UnderWay`.
    pub(crate) calls_under_way: usize,

    pub(crate) background_error: BackgroundError,
    /// Events for listeners, reported when no lock is held.
    pub(crate) stall_changes: Vec<WriteStallInfo>,
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

    /// The family with this id, if it has not been dropped.
    pub(crate) fn family_mut(&mut self, id: ColumnFamilyId) -> Option<&mut FamilyState> {
        self.families.get_mut(&id)
    }

    /// Queues pre-scans over long runs of deleted keys in tables that the family's version has now.
    pub(crate) fn queue_pre_scans<'a>(
        &mut self,
        family: ColumnFamilyId,
        spans: impl IntoIterator<Item = &'a LongDeletedRun>,
    ) {
        if let Some(FamilyState { version, .. }) = self.families.get(&family) {
            self.pre_scans.add_over(family, version, spans);
        }
    }

    /// Whether no job is to begin.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused > 0 || self.quiet > 0
    }

    /// Tells every manual compaction, queued or running, to stop.
    pub(crate) fn cancel_manual_compactions(&self) {
        self.manual_compactions.iter().for_each(|manual| manual.canceled.store(true, Ordering::Release));
    }

    /// Whether no file is to be deleted.
    pub(crate) fn keeps_files(&self) -> bool {
        self.file_deletions_disabled > 0 || self.files_kept > 0
    }

    /// The oldest WAL that any family needs, but for prepared sections: see
    /// [`super::Engine::oldest_wal_needed`].
    pub(super) fn oldest_log_needed(&self) -> Option<FileNumber> {
        self.families.values().map(|f| f.memtables.oldest_log_needed()).min()
    }
}
