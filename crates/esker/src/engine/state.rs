//! The state under the db mutex.

use crate::cf::{FamilyState, SuperVersion};
use crate::deleted_runs::PreScanQueue;
use crate::engine::BackgroundError;
use crate::engine::times::RecordedTimes;
use crate::engine::totals::Totals;
use crate::observe::{CompactionJobInfo, FlushReason, WriteStallInfo};
use crate::picker::{CompactionPlan, RunningId};
use crate::version::FamilyMap;
use esker_base::sync::Arc;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::epoch::Retired;
use esker_base::{ColumnFamilyId, FileNumber, Result, SequenceNumber};
use esker_format::deleted_runs::LongDeletedRun;
use std::collections::{BTreeSet, VecDeque};

/// A flush that waits for a slot: it flushes the waiting memtables of these families, as one job.
#[derive(Clone, Debug)]
pub(crate) struct FlushRequest {
    pub(crate) families: Vec<ColumnFamilyId>,
    pub(crate) reason: FlushReason,
    /// Whether all families are flushed, or none: `force_atomic_flush`. The job begins when no
    /// other one flushes any of them.
    pub(crate) forced_atomic: bool,
}

/// A manual compaction that waits for a slot, and its result.
#[derive(Debug)]
pub(crate) struct QueuedManualCompaction {
    pub(crate) id: u64,
    /// The id under which the inputs are marked.
    pub(crate) running: Option<RunningId>,
    pub(crate) family: ColumnFamilyId,
    /// The plan, until the job takes it.
    pub(crate) plan: Option<CompactionPlan>,
    /// Threads; 0: as the option `max_subcompactions` says.
    pub(crate) max_subcompactions: u32,
    /// Set to cancel the compaction: the caller's own flag, if it has one.
    pub(crate) canceled: Arc<AtomicBool>,
    /// Whether the caller requested `info`, which the job fills before `done`.
    pub(crate) wants_info: bool,
    pub(crate) info: Option<Box<CompactionJobInfo>>,
    /// The result: the written files.
    pub(crate) done: Option<Result<Vec<FileNumber>>>,
}

/// An automatic compaction that runs.
#[derive(Debug)]
pub(crate) struct AutomaticCompaction {
    pub(crate) family: ColumnFamilyId,
    /// Set to cancel the compaction.
    pub(crate) canceled: Arc<AtomicBool>,
}

/// The families that have history. Guarded by the db mutex.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// Families by the first sequence number of their oldest memtable, which is dropped first.
    pub(super) oldest: BTreeSet<(SequenceNumber, ColumnFamilyId)>,
}

/// Everything that changes under the db mutex.
#[derive(Debug, Default)]
pub(crate) struct DbState {
    pub(crate) families: FamilyMap<FamilyState>,
    /// Sums over all families.
    pub(crate) totals: Totals,
    pub(crate) histories: Histories,
    /// The times of sequence numbers.
    pub(crate) times: RecordedTimes,

    pub(crate) flush_queue: VecDeque<FlushRequest>,
    /// Count of flushes that failed with an error that a listener cleared.
    pub(crate) failed_flushes: u64,
    /// Flush jobs whose tables are live, with their families, while listeners are notified.
    pub(crate) flushes_reported: Vec<(u64, ColumnFamilyId)>,
    pub(crate) compaction_queue: VecDeque<ColumnFamilyId>,
    pub(crate) manual_compactions: Vec<QueuedManualCompaction>,
    pub(crate) next_manual_id: u64,
    pub(crate) automatic_compactions: Vec<AutomaticCompaction>,
    /// Calls that abort the compactions of all families, without their resuming calls.
    pub(crate) compactions_aborted: usize,
    /// Families that were due for a compaction while theirs were aborted. They count as queued.
    pub(crate) held_back: BTreeSet<ColumnFamilyId>,
    /// Families that are due for a compaction for which their `compaction_thread_limiter` has no
    /// room. They count as queued.
    pub(crate) throttled: VecDeque<ColumnFamilyId>,
    /// Deleted runs that wait for a pre-scan.
    pub(crate) pre_scans: PreScanQueue,
    /// Whether an exclusive manual compaction waits or runs: no other compaction begins.
    pub(crate) exclusive_manual: bool,
    /// `disable_manual_compaction` calls minus `enable_manual_compaction` calls. Manual compactions
    /// are refused while it is above 0.
    pub(crate) manual_disabled: i64,
    /// Jobs scheduled on the pool that have not ended.
    pub(crate) flushes_scheduled: usize,
    pub(crate) compactions_scheduled: usize,
    /// Scheduled flushes that have not read the queues yet.
    pub(crate) flushes_unbegun: usize,
    pub(crate) compactions_unbegun: usize,
    /// `pause_background_work` calls without their `continue`.
    pub(crate) paused: usize,
    /// Pauses by work that moves files and excludes all other jobs. No caller's `continue` ends
    /// them.
    pub(crate) quiet: usize,
    /// Callers of `disable_file_deletions` without their `enable`.
    pub(crate) file_deletions_disabled: usize,
    /// Running checkpoints and backups, which keep files, too. No caller's `enable` ends them.
    pub(crate) files_kept: usize,
    /// Threads that are deleting files: they began while deletions were enabled.
    pub(crate) deleting: usize,
    /// See `UnderWay`.
    pub(crate) calls_under_way: usize,

    /// Replaced super versions that [`super::Engine::hand_over_super_versions`] has not seen yet.
    pub(crate) retired: Vec<Retired<SuperVersion>>,
    /// Threads that have removed super versions from `retired`, and have not passed them to the
    /// epoch yet.
    pub(crate) handing_over: usize,
    pub(crate) background_error: BackgroundError,
    /// Events for listeners, reported when no lock is held.
    pub(crate) stall_changes: Vec<WriteStallInfo>,
}

impl DbState {
    /// Whether a family is due for an automatic compaction that has not begun.
    pub(crate) fn has_due_compaction(&self) -> bool {
        !self.compaction_queue.is_empty() || !self.throttled.is_empty()
    }

    /// Updates the list of histories after a family's history may have changed. `before` is the
    /// former result of `MemTables::oldest_history`.
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

    /// Whether no job may begin.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused > 0 || self.quiet > 0
    }

    /// Cancels every manual compaction, queued or running.
    pub(crate) fn cancel_manual_compactions(&self) {
        self.manual_compactions.iter().for_each(|manual| manual.canceled.store(true, Ordering::Release));
    }

    /// Cancels every compaction of the family, or, with `None`, of all families.
    pub(crate) fn cancel_compactions(&self, of: Option<ColumnFamilyId>) {
        let manual = self.manual_compactions.iter().map(|manual| (manual.family, &manual.canceled));
        let automatic = self.automatic_compactions.iter().map(|job| (job.family, &job.canceled));
        let meant = manual.chain(automatic).filter(|(family, _)| of.is_none_or(|of| of == *family));
        meant.for_each(|(_, canceled)| canceled.store(true, Ordering::Release));
    }

    /// Whether a compaction of the family, or, with `None`, of any family, is queued by a caller or
    /// runs.
    pub(crate) fn has_compactions(&self, of: Option<ColumnFamilyId>) -> bool {
        let meant = |family: ColumnFamilyId| of.is_none_or(|of| of == family);
        self.manual_compactions.iter().any(|manual| meant(manual.family))
            || self.automatic_compactions.iter().any(|job| meant(job.family))
    }

    /// Whether the family's compactions are aborted until a call resumes them.
    pub(crate) fn is_compaction_aborted(&self, family: ColumnFamilyId) -> bool {
        self.compactions_aborted > 0
            || self.families.get(&family).is_some_and(|family| family.compactions_aborted > 0)
    }

    /// Whether a family is held back that has not been dropped.
    pub(crate) fn has_held_back(&self) -> bool {
        self.held_back.iter().any(|id| self.families.get(id).is_some())
    }

    /// Whether no file may be deleted.
    pub(crate) fn keeps_files(&self) -> bool {
        self.file_deletions_disabled > 0 || self.files_kept > 0
    }

    /// The oldest WAL that any family needs. Prepared sections may need older ones: see
    /// [`super::Engine::oldest_wal_needed`].
    pub(super) fn oldest_log_needed(&self) -> Option<FileNumber> {
        self.families.values().map(|f| f.memtables.oldest_log_needed()).min()
    }
}
