//! The monitor of one database: a listener before the open, snapshots after it.
//!
//! In: events of the listener. Out: running jobs and stall states, which snapshots contain.
//!
//! Invariants
//!  1. The record of jobs is bounded: [`MOST_JOBS`]. A flush that fails has no last event, so a
//!     snapshot forgets the flushes that it knew when the engine runs none.
//!  2. The listener takes one short lock and calls nothing, so that no event waits for a reader.

use crate::gather;
use crate::snapshot::{BackgroundJobKind, RunningJob, StallKind, StatisticsSnapshot};
use crate::wake::Waker;
use esker::observe::{
    BlobFileCreationInfo, CompactionJobInfo, EventListener, FlushJobInfo, TableFileCreationInfo,
    WriteStallCondition, WriteStallInfo,
};
use esker::options::Env;
use esker::{Db, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Jobs that are remembered at once: more than an engine runs.
const MOST_JOBS: usize = 256;
/// Families whose stalls are remembered.
const MOST_FAMILIES: usize = 65_536;

/// Reads the statistics of one database. A clone is another handle to the same monitor.
///
/// A monitor without its listener knows everything but the reasons of jobs and, without
/// `enable_thread_tracking`, the jobs themselves.
///
/// ```
/// use esker::{Db, Options};
/// use esker_monitor::Monitor;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let monitor = Monitor::new();
/// let mut options = Options::new().create_if_missing(true);
/// options.db.listeners.push(monitor.listener());
/// let db = Db::open(&options, dir.path())?;
/// let snapshot = monitor.snapshot(&db)?;
/// assert!(snapshot.has_listener && snapshot.jobs.is_empty());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Monitor {
    events: Arc<MonitorEvents>,
    max_families: Option<usize>,
}

/// The events that snapshots need.
#[derive(Default)]
pub(crate) struct MonitorEvents {
    state: Mutex<EventState>,
}

#[derive(Default)]
struct EventState {
    jobs: BTreeMap<u64, Recorded>,
    stalls: BTreeMap<String, StallKind>,
    wakers: Vec<Weak<Waker>>,
}

/// A job with the time of its begin.
struct Recorded {
    job: RunningJob,
    began_at: u64,
}

impl Monitor {
    /// Families that a snapshot lists one by one, unless [`Monitor::max_families`] says else.
    pub const DEFAULT_MAX_FAMILIES: usize = 64;

    /// A monitor that has seen nothing.
    pub fn new() -> Monitor {
        Monitor::default()
    }

    /// The same monitor, whose snapshots list `families` families one by one and sum up the others.
    #[must_use]
    pub fn max_families(mut self, families: usize) -> Monitor {
        self.max_families = Some(families);
        self
    }

    /// The listener to put into [`DbOptions::listeners`](esker::DbOptions) before the open. One
    /// listener serves one database.
    pub fn listener(&self) -> Arc<dyn EventListener> {
        self.events.clone()
    }

    /// The values of `db` now.
    ///
    /// Cost: some locks of the db mutex a family; a visit of each file's metadata. No I/O.
    /// # Errors
    /// `ShutdownInProgress` if `db` is closed · `NotSupported` in a forked child.
    pub fn snapshot(&self, db: &Db) -> Result<StatisticsSnapshot> {
        gather::snapshot(self, db)
    }

    pub(crate) fn family_limit(&self) -> usize {
        self.max_families.unwrap_or(Monitor::DEFAULT_MAX_FAMILIES)
    }

    pub(crate) fn events(&self) -> &Arc<MonitorEvents> {
        &self.events
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor").field("max_families", &self.family_limit()).finish_non_exhaustive()
    }
}

fn now() -> u64 {
    Env::default().clock.monotonic_micros()
}

impl MonitorEvents {
    fn state(&self) -> MutexGuard<'_, EventState> {
        // A panic of another thread leaves whole values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded jobs, with their elapsed time.
    pub(crate) fn jobs(&self) -> Vec<RunningJob> {
        let now = now();
        let state = self.state();
        let jobs = state.jobs.values().map(|recorded| RunningJob {
            elapsed_micros: now.saturating_sub(recorded.began_at),
            ..recorded.job.clone()
        });
        jobs.collect()
    }

    /// Forgets jobs that ended without an event.
    pub(crate) fn forget(&self, ended: impl Fn(&RunningJob) -> bool) {
        self.state().jobs.retain(|_, recorded| !ended(&recorded.job));
    }

    /// The last state of the family's writers that was reported.
    pub(crate) fn stall_of(&self, family: &str) -> Option<StallKind> {
        self.state().stalls.get(family).copied()
    }

    /// Wakes `waker` when the database begins to close.
    pub(crate) fn wake_at_close(&self, waker: &Arc<Waker>) {
        let mut state = self.state();
        state.wakers.retain(|waker| waker.strong_count() > 0);
        state.wakers.push(Arc::downgrade(waker));
    }

    fn begin(&self, job: RunningJob) {
        let began_at = now();
        let mut state = self.state();
        if state.jobs.len() >= MOST_JOBS {
            state.jobs.pop_first();
        }
        state.jobs.insert(job.job_id, Recorded { job, began_at });
    }

    fn end(&self, job_id: u64) {
        self.state().jobs.remove(&job_id);
    }

    fn add_written(&self, job_id: u64, bytes: u64) {
        if let Some(recorded) = self.state().jobs.get_mut(&job_id) {
            recorded.job.written_bytes += bytes;
        }
    }
}

impl EventListener for MonitorEvents {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.begin(RunningJob {
            kind: BackgroundJobKind::Flush,
            job_id: info.job_id,
            family: info.cf_name.clone(),
            reason: info.flush_reason.as_str().to_owned(),
            ..RunningJob::default()
        });
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.end(info.job_id);
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        let sizes = info.table_properties.values().map(|p| p.data_size + p.index_size + p.filter_size);
        self.begin(RunningJob {
            kind: BackgroundJobKind::Compaction,
            job_id: info.job_id,
            family: info.cf_name.clone(),
            input_level: Some(info.base_input_level as u64),
            output_level: info.output_level as u64,
            reason: info.compaction_reason.as_str().to_owned(),
            input_files: info.input_files.len() as u64,
            input_bytes: sizes.sum(),
            ..RunningJob::default()
        });
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.end(info.job_id);
    }

    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        self.add_written(info.brief.job_id, info.file_size);
    }

    fn on_blob_file_created(&self, info: &BlobFileCreationInfo) {
        self.add_written(info.brief.job_id, info.total_blob_bytes);
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        let kind = match info.cur {
            WriteStallCondition::Normal => StallKind::Normal,
            WriteStallCondition::Delayed => StallKind::Delayed,
            WriteStallCondition::Stopped => StallKind::Stopped,
        };
        let mut state = self.state();
        if kind == StallKind::Normal {
            state.stalls.remove(&info.cf_name);
        } else if state.stalls.len() < MOST_FAMILIES {
            state.stalls.insert(info.cf_name.clone(), kind);
        }
    }

    fn on_db_shutdown_begin(&self) {
        let wakers = std::mem::take(&mut self.state().wakers);
        wakers.iter().filter_map(Weak::upgrade).for_each(|waker| waker.close_begins());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_jobs_is_bounded() {
        let events = MonitorEvents::default();
        for job_id in 0..MOST_JOBS as u64 + 10 {
            events.begin(RunningJob { job_id, ..RunningJob::default() });
        }
        let jobs = events.jobs();
        assert_eq!((jobs.len(), jobs[0].job_id), (MOST_JOBS, 10));
        events.add_written(20, 7);
        events.end(10);
        events.forget(|job| job.job_id > 20);
        let jobs = events.jobs();
        assert_eq!(jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), (11..=20).collect::<Vec<_>>());
        assert_eq!(jobs[9].written_bytes, 7);
    }
}
