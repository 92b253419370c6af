//! The state of an open database, its fields grouped by the lock that guards them.
//!
//! In: the result of recovery (`db/open.rs`). Out: one [`Engine`] that the write path and the
//! background jobs share.
//!
//! Reading order:
//!  1. `state`: the fields under the db mutex, with `totals`, `history` and `times`
//!  2. this file
//!  3. `install`: publishes a job's result
//!  4. `secondary`: the state of an engine that follows a primary
//!  5. `jobs`: starts jobs
//!  6. `stall`, `covered`, `background_error`, `scrub`, `space`
//!
//! `open_tag`, `threads`, `report`, `counters`, `under_way`, `periodic_work`, `pressure` and
//! `parts` help them.
//!
//! Locks, in the order in which they may be taken (docs/locking.md): write lead → manifest → state
//! → wals → small ones. MANIFEST and table I/O never happens under `state`.
//!
//! Invariants
//!  1. `FamilyState::version` is the version that `manifest` has for that family: both change under
//!     one hold of the manifest lock, `manifest` first.
//!  2. A file named in any live version is on disk; `files/obsolete.rs` gets all live versions and
//!     decides on deletions.
//!  3. Only the write leader changes active memtables, `wals` and the allocated sequence number.
//!     Purges and readers of the WAL change `wals.old`.

mod background_error;
mod counters;
mod covered;
mod history;
mod install;
mod jobs;
mod open_tag;
mod parts;
mod periodic_work;
mod pressure;
mod report;
mod scrub;
mod secondary;
mod space;
mod stall;
mod state;
mod threads;
mod times;
mod totals;
mod under_way;

use background_error::must_be_in_force;
pub(crate) use background_error::{BackgroundError, ErrorReason, may_pass};
pub(crate) use counters::{CommittedGroup, EngineCounters, StatsDump};
pub(crate) use install::{
    forget_shares, publish_super_version, publish_super_versions, queue_if_due, release_marks,
};
pub(crate) use jobs::{Purger, contained, maybe_schedule, queue_flushes, take_flush};
pub(crate) use open_tag::{PREPARED, ROWS, SAMPLED, TRACKED};
pub(crate) use parts::EngineParts;
use periodic_work::PeriodicWork;
pub(crate) use report::{CompactionReport, SubcompactionReport};
pub use scrub::ScrubState;
pub(crate) use scrub::{Scrubber, begin_scrubbing};
pub(crate) use secondary::{
    FollowedFamily, FollowedMemTable, PinnedSuperVersions, PrimaryFollower, Refresh, Secondary,
};
pub(crate) use stall::StallState;
pub(crate) use state::{AutomaticCompaction, DbState, FlushRequest, QueuedManualCompaction};
pub(crate) use threads::{compaction_properties, track_open};
pub(crate) use under_way::UnderWay;

use crate::cf::{ColumnFamily, ColumnFamilySet};
use crate::files::{OutputContext, RowCache};
use crate::observe::StatsHistory;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::schedule::Scheduler;
use crate::snapshot::{CommitTable, LiveSnapshots, SectionsForJob};
use crate::trace::Traces;
use crate::version::{Numbers, VersionSet};
use crate::wal::{PreparedSections, Wals};
use esker_base::logger::InfoLog;
use esker_base::stats::{Histogram, Ticker, record_tick, report_time_to_histogram};
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::fork::ProcessOwner;
use esker_base::sync::thread::JoinHandle;
use esker_base::sync::{Arc, Mutex, OnceLock, RankedCondvar, RankedMutex, RankedMutexGuard, RwLock};
use esker_base::{ColumnFamilyId, Error, ErrorKind, FileNumber, Result, SequenceNumber};
use esker_env::rate_limiter::IoPriority;
use esker_env::timer::Repeating;
use esker_env::{Env, FileLock, FileSystem};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The pause before a retry of failed work. RocksDB's number.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The ranks of the engine's locks: a thread may only take a lock of a higher rank than it holds.
pub(crate) mod rank {
    use esker_base::sync::LockRank;
    /// The progress of a secondary; held while it catches up.
    pub(crate) const CATCH_UP: LockRank = LockRank::new(5, "catch-up");
    /// MANIFEST writer and the authoritative versions; held during MANIFEST I/O.
    pub(crate) const MANIFEST: LockRank = LockRank::new(10, "manifest");
    /// The db mutex.
    pub(crate) const STATE: LockRank = LockRank::new(20, "db state");
    /// The WAL files; held while the leader appends and syncs.
    pub(crate) const WALS: LockRank = LockRank::new(30, "wals");
}

/// The functions of the background jobs, set by `db/open.rs`. This module only decides when they
/// run.
pub(crate) struct Jobs {
    pub(crate) flush: fn(&Arc<Engine>),
    pub(crate) compact: fn(&Arc<Engine>),
    /// Continues the first waiting pre-scan.
    pub(crate) pre_scan: fn(&Arc<Engine>),
}

/// Time between two checks of a waiting caller while the system refuses threads: no event reports
/// that threads are available again.
const LOOK_FOR_THREADS: Duration = Duration::from_millis(50);

/// Automatic recovery: its start, and its thread.
#[derive(Default)]
pub(crate) struct AutoRecovery {
    /// Starts a thread that recovers from this error. Set by `db/open.rs`, because the thread needs
    /// the write path.
    pub(crate) begin: OnceLock<Box<dyn Fn(Error) + Send + Sync>>,
    /// The thread of the recovery in progress, or of the last one.
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    /// The error of a recovery for which the system refused a thread.
    pub(crate) refused: Mutex<Option<Error>>,
}

/// Changed options that no OPTIONS file has yet.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenOptions {
    pub(crate) changes: usize,
    /// The timer that will write the OPTIONS file.
    pub(crate) timer: Option<Repeating>,
}

/// The shared state of one open database.
pub(crate) struct Engine {
    // Fields that never change after the open.
    /// The process that opened it.
    pub(crate) owner: ProcessOwner,
    pub(crate) path: PathBuf,
    pub(crate) wal_dir: PathBuf,
    /// The options at the open; valid for options that cannot change. See [`Engine::db_options`].
    pub(crate) options: DbOptions,
    pub(crate) env: Env,
    pub(crate) db_id: String,
    pub(crate) session_id: String,
    pub(crate) read_only: bool,
    /// Whether lists of open families leave out that of the statistics' history: the caller of the
    /// open has not named it.
    pub(crate) hides_stats_history: bool,
    /// A sentence for each place at which the open has lost records of WALs.
    pub(crate) wal_losses: Vec<String>,
    /// The state of an engine that follows a primary, which is read-only, too.
    pub(crate) secondary: Option<Secondary>,
    pub(crate) jobs: OnceLock<Jobs>,

    // Fields that synchronise themselves.
    pub(crate) info_log: Arc<dyn InfoLog>,
    pub(crate) options_in_force: RwLock<Arc<DbOptions>>,
    /// The number of this database among those that the process has open.
    pub(crate) tag: u64,
    /// `tag` while the database is open, then 0. Reads compare it with their family's tag. While
    /// reads and writes are traced, the bit `trace::TRACED` is added; with a commit table always
    /// the bit [`PREPARED`], with a row cache [`ROWS`], with `enable_thread_tracking` [`TRACKED`];
    /// once a family has a `read_triggered_compaction_threshold`, [`SAMPLED`].
    pub(crate) open_tag: AtomicU64,
    /// Rows of tables, if the options have a row cache. Gets under a commit table pass it by.
    pub(crate) row_cache: Option<RowCache>,
    /// The traces under way.
    pub(crate) traces: Traces,
    pub(crate) scheduler: Scheduler,
    pub(crate) purger: Arc<Purger>,
    pub(crate) families: ColumnFamilySet,
    /// The next file number, and the last published sequence number.
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) stall: StallState,
    /// Set once; compactions read it between entries.
    pub(crate) shutting_down: Arc<AtomicBool>,
    /// Whether the system has refused this database a thread since the last
    /// [`Engine::start_refused_threads`].
    pub(crate) threads_refused: AtomicBool,
    /// Set once, by the thread that closes the files.
    pub(crate) closed: AtomicBool,
    /// Whether listeners were notified that the database begins to close.
    pub(crate) shutdown_reported: AtomicBool,
    /// Failures of flushes and compactions since the open.
    pub(crate) background_errors: AtomicU64,
    /// Whether a background error refuses writes: `state` has the error.
    pub(crate) writes_stopped: AtomicBool,
    /// Whether there were writes without a WAL since the last full flush.
    pub(crate) has_unlogged_data: AtomicBool,
    /// Bytes of the WALs that are still needed, and (`wal_bytes_limit`) the bytes at which families
    /// are flushed to release some.
    pub(crate) wal_bytes: AtomicU64,
    pub(crate) wal_bytes_limit: AtomicU64,
    /// WAL bytes at which a write leader checks again which families hold WALs back. Until then,
    /// the families that it found are being flushed, or a prepared transaction holds the WALs back.
    /// A flush, a deletion of WALs and a resolved section set this mark to zero. They leave the
    /// limit as it is, because its computation reads every family.
    pub(crate) wal_bytes_of_next_check: AtomicU64,
    pub(crate) counters: EngineCounters,
    /// Whether a memtable is full: the next leader switches it.
    pub(crate) switch_wanted: AtomicBool,
    /// Whether a memtable has sampled enough deletions for a pre-scan around them.
    pub(crate) deletions_sampled: AtomicBool,
    /// The newest sequence number that a batch got; at least the published one. Only the write
    /// leader changes it.
    pub(crate) allocated_sequence: AtomicU64,
    pub(crate) super_version_number: AtomicU64,
    pub(crate) last_job_id: AtomicU64,

    // Fields with locks, in rank order.
    pub(crate) manifest: RankedMutex<VersionSet>,
    pub(crate) state: RankedMutex<DbState>,
    /// Signalled whenever a job ends, a stall changes or an error is set or cleared.
    pub(crate) state_changed: RankedCondvar,
    pub(crate) wals: RankedMutex<Wals>,
    pub(crate) snapshots: LiveSnapshots,
    /// The lowest `bottommost_threshold` of families that compact by themselves. Until the oldest
    /// snapshot is newer than this threshold, releases of snapshots make no compaction due.
    pub(crate) snapshot_threshold: AtomicU64,
    /// The sections whose entries are in memtables and tables before their commit, under an early
    /// write policy (`WritePrepared` or `WriteUnprepared`); `None` under `WriteCommitted`.
    pub(crate) commits: Option<CommitTable>,
    /// Prepared transactions that are neither committed nor rolled back.
    pub(crate) prepared: Mutex<PreparedSections>,
    /// The last periodic dump of statistics, for the intervals of the next.
    pub(crate) last_stats_dump: Mutex<StatsDump>,
    pub(crate) stats_dump: PeriodicWork,
    /// Snapshots of the tickers, and the timer that takes them.
    pub(crate) stats_history: Mutex<StatsHistory>,
    pub(crate) stats_persist: PeriodicWork,
    /// Reads all tables in the background, if the options request it.
    pub(crate) scrubber: Mutex<Option<Scrubber>>,
    /// Resumes the database automatically after a transient error.
    pub(crate) recovery: AutoRecovery,
    /// Checks for compactions that are due by time.
    pub(crate) compaction_trigger: PeriodicWork,
    pub(crate) time_recording: PeriodicWork,
    pub(crate) unwritten_options: Mutex<UnwrittenOptions>,
    /// Directories for tables and blob files besides `path`, including those of dropped families.
    pub(crate) other_directories: Mutex<Vec<PathBuf>>,
    /// The lock of the directory, released last.
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl Engine {
    /// Bytes of the timestamps of a family's keys; 0 for an unknown family.
    pub(crate) fn timestamp_size(&self, family: ColumnFamilyId) -> usize {
        self.families.with(family, |cf| cf.icmp.timestamp_size()).unwrap_or(0)
    }

    pub(crate) fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.env.fs
    }

    /// Makes the names of new files in these directories durable.
    /// # Errors
    /// `IoError`.
    pub(crate) fn sync_directories<'a>(&self, directories: impl Iterator<Item = &'a Path>) -> Result<()> {
        let each: BTreeSet<&Path> = directories.collect();
        each.into_iter().try_for_each(|directory| self.fs().new_directory(directory)?.fsync())
    }

    /// The newest sequence number that reads may see.
    #[inline]
    pub(crate) fn visible_sequence(&self) -> SequenceNumber {
        self.numbers.last_sequence()
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Ordering::Acquire)
    }

    /// Checks that the calling process is the one that opened the database.
    /// # Errors
    /// `NotSupported` in a forked child of the process that opened the database.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.owner.is_here() { Ok(()) } else { Err(self.is_of_another_process()) }
    }

    #[cold]
    pub(crate) fn is_of_another_process(&self) -> Error {
        self.owner.is_elsewhere(&format_args!("the database in {}", self.path.display()))
    }

    /// Checks that the database is open, in this process.
    /// # Errors
    /// `ShutdownInProgress` once closing has begun · `NotSupported` in a forked child.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.is_shutting_down() {
            return Err(esker_base::Error::shutdown_in_progress("the database is closing"));
        }
        Ok(())
    }

    /// Checks that the database can be written, in this process.
    /// # Errors
    /// `NotSupported` if the database was opened read-only or as a secondary, or in a forked child.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_process()?;
        if self.read_only {
            let mode = if self.secondary.is_some() { "secondary" } else { "read only" };
            return Err(Error::not_supported(format!("Not supported operation in {mode} mode.")));
        }
        Ok(())
    }

    /// Sequence numbers of live snapshots, ascending.
    pub(crate) fn snapshot_sequences(&self) -> Vec<SequenceNumber> {
        self.snapshots.all()
    }

    /// The live snapshots, and the sections of prepared transactions, for a flush or a compaction
    /// whose inputs are chosen. The job drops what lies below a committed section, so each commit
    /// that it knows becomes durable first.
    /// # Errors
    /// `IoError` of the WALs: a commit or rollback may not be durable.
    pub(crate) fn snapshots_for_job(&self) -> Result<(Vec<SequenceNumber>, Option<SectionsForJob>)> {
        let Some(commits) = &self.commits else { return Ok((self.snapshots.all(), None)) };
        let for_job = commits.for_job(&self.snapshots, || self.visible_sequence());
        // Another job that syncs the WALs holds this lock, so this call waits for its end.
        let mut wals = self.wals.lock();
        if commits.has_unsynced() {
            commits.set_synced();
            wals.sync().inspect_err(|_| commits.set_unsynced())?;
        }
        drop(wals);
        Ok(for_job)
    }

    /// Drops what no reader needs from the commit table, if there is one.
    #[cold]
    pub(crate) fn prune_commits(&self) {
        if let Some(commits) = &self.commits {
            commits.prune(&self.snapshots, self.visible_sequence());
        }
    }

    /// Checks that a table of another database may keep its sequence numbers `smallest..=largest`.
    /// Readers take an entry with the number of an early transaction for an op of that transaction.
    /// The caller is the write leader.
    /// # Errors
    /// `TryAgain` if a reader may not see a transaction with one of these numbers.
    pub(crate) fn check_foreign_numbers(
        &self,
        smallest: SequenceNumber,
        largest: SequenceNumber,
    ) -> Result<()> {
        let hides = |commits: &CommitTable| {
            commits.may_hide(smallest, largest, &self.snapshots, self.visible_sequence())
        };
        if self.commits.as_ref().is_some_and(hides) {
            return Err(Error::try_again(
                "the table's sequence numbers are those of a transaction that has not ended, or that a snapshot \
                 does not see: end the transaction, or release the snapshot",
            ));
        }
        Ok(())
    }

    /// The oldest live snapshot at the last release of a snapshot, or the newest sequence number if
    /// none was live; 0 before the first release. Files of the last level are rewritten only to
    /// drop versions that snapshots had kept.
    pub(crate) fn oldest_snapshot_at_release(&self) -> SequenceNumber {
        self.snapshots.oldest_at_release()
    }

    /// The oldest sequence number at which a snapshot or iterator reads, now or later. Call it
    /// under the db mutex, after reading a version. A snapshot takes its number and joins the list
    /// under the list's lock, so this call misses none.
    pub(crate) fn oldest_reader(&self) -> SequenceNumber {
        self.snapshots.with(|list| list.oldest().unwrap_or_else(|| self.visible_sequence()))
    }

    /// The context in which jobs write tables of this family, in the family's first path.
    pub(crate) fn output_context<'a>(
        &'a self,
        cf: &'a ColumnFamily,
        db_options: &'a DbOptions,
        options: &'a ColumnFamilyOptions,
        job_id: u64,
        io_priority: IoPriority,
    ) -> OutputContext<'a> {
        OutputContext {
            env: &self.env,
            options: db_options,
            family_options: options,
            icmp: &cf.icmp,
            database: &self.path,
            path_id: 0,
            column_family: cf.id,
            column_family_name: &cf.name,
            db_id: &self.db_id,
            session_id: &self.session_id,
            io_priority,
            info_log: &self.info_log,
            tables: &cf.tables,
            job_id,
            times: None,
            write_hint: db_options.sst_write_hint(options.compaction_style, 0, 0),
        }
    }

    /// The options in force; `set_db_options` changes them.
    pub(crate) fn db_options(&self) -> Arc<DbOptions> {
        self.options_in_force.read().clone()
    }

    /// Puts a background error in force. It stops background work and, if it is severe enough,
    /// writes. A transient error starts an automatic recovery, unless options or listeners forbid
    /// it. Returns the error in force. `None`: a listener has cleared the error. The caller must
    /// then retry the failed work, or report the error to a waiting caller.
    pub(crate) fn set_background_error(&self, error: &Error, reason: ErrorReason) -> Option<Error> {
        self.count_background_error(error);
        let answer = self.ask_listeners(error, reason);
        let error = answer.or_else(|| must_be_in_force(error, reason).then(|| error.clone()))?;
        esker_base::probe!("background_error:set");
        let mut state = self.state.lock();
        let in_force = state.background_error.set(&error, reason);
        if state.background_error.check_writes().is_err() {
            self.writes_stopped.store(true, Ordering::Release);
        }
        let may_recover = self.options.max_bgerror_resume_count > 0 && !self.is_shutting_down();
        let recovers = may_recover && state.background_error.plan_recovery();
        self.state_changed.notify_all();
        drop(state);
        if recovers {
            self.begin_recovery(&in_force, reason);
        }
        Some(in_force)
    }

    /// Waits before a retry of failed work: a listener has cleared its error, disk space was
    /// missing, or a recovery lets jobs run. Returns at once if jobs must end.
    pub(crate) fn pause_before_retry(&self) {
        let mut state = self.state.lock();
        let clock = self.env.clock.as_ref();
        let end = clock.monotonic_nanos().saturating_add(RETRY_PAUSE.as_nanos() as u64);
        while !self.is_shutting_down() && !state.is_paused() && !state.background_error.stops_compactions() {
            let left = Duration::from_nanos(end.saturating_sub(clock.monotonic_nanos()));
            if left.is_zero() || self.state_changed.wait_timeout(&mut state, left) {
                break;
            }
        }
    }

    fn count_background_error(&self, error: &Error) {
        let statistics = &self.options.statistics;
        record_tick(statistics, Ticker::ErrorHandlerBgErrorCount, 1);
        if error.kind() == ErrorKind::IoError {
            record_tick(statistics, Ticker::ErrorHandlerBgIoErrorCount, 1);
            if error.is_retryable() {
                record_tick(statistics, Ticker::ErrorHandlerBgRetryableIoErrorCount, 1);
            }
        }
    }

    /// Starts the planned recovery, if listeners allow it.
    fn begin_recovery(&self, error: &Error, reason: ErrorReason) {
        match self.recovery.begin.get() {
            Some(begin) if self.may_recover(error, reason) => {
                record_tick(&self.options.statistics, Ticker::ErrorHandlerAutoresumeCount, 1);
                begin(error.clone());
            }
            _ => {
                self.state.lock().background_error.recovery_ended();
                self.state_changed.notify_all();
            }
        }
    }

    /// Waits for a signal of `state_changed`; may return earlier. While the system refuses
    /// threads, the caller runs one queued job of this database itself, with the lock released.
    pub(crate) fn wait_for_change(&self, state: &mut RankedMutexGuard<'_, DbState>) {
        if !self.scheduler.is_starved() {
            return self.state_changed.wait(state);
        }
        if !self.run_starved_job(state) {
            let _timed_out = self.state_changed.wait_timeout(state, LOOK_FOR_THREADS);
        }
    }

    /// [`wait_for_change`](Self::wait_for_change), at most until `deadline`, in nanoseconds of the
    /// monotonic clock. Returns whether the time ran out.
    pub(crate) fn wait_for_change_until(
        &self,
        state: &mut RankedMutexGuard<'_, DbState>,
        deadline: u64,
    ) -> bool {
        let left = Duration::from_nanos(deadline.saturating_sub(self.env.clock.monotonic_nanos()));
        if left.is_zero() {
            return true;
        }
        if !self.scheduler.is_starved() {
            return self.state_changed.wait_timeout(state, left);
        }
        if !self.run_starved_job(state) {
            let _timed_out = self.state_changed.wait_timeout(state, left.min(LOOK_FOR_THREADS));
        }
        false
    }

    /// Waits until no job runs and none is queued. REQUIRES: `shutting_down` is set.
    pub(crate) fn wait_for_jobs(&self) {
        let mut state = self.state.lock();
        while self.jobs_scheduled(&state) > 0 {
            if cfg!(any(loom, shuttle)) {
                self.state_changed.wait(&mut state);
            } else if !self.run_starved_job(&mut state) {
                // A purge may be requested under any lock, and the system may refuse it a thread
                // while this thread waits.
                let _timed_out = self.state_changed.wait_timeout(&mut state, LOOK_FOR_THREADS);
            }
        }
    }

    /// Runs one job for which the system refuses a thread. Returns whether there was such a job.
    #[cfg(not(any(loom, shuttle)))]
    fn run_starved_job(&self, state: &mut RankedMutexGuard<'_, DbState>) -> bool {
        let Some(job) = self.scheduler.take_starved() else { return false };
        state.unlocked(job);
        true
    }

    /// Does nothing: models of the system refuse no threads.
    #[cfg(any(loom, shuttle))]
    fn run_starved_job(&self, _state: &mut RankedMutexGuard<'_, DbState>) -> bool {
        false
    }

    /// Tries again to start the threads that the system has refused. Called under no lock of the
    /// engine: at the end of each job and by writes that meet an error. Costs two loads if no
    /// thread was refused.
    pub(crate) fn start_refused_threads(self: &Arc<Self>) {
        self.env.timer.start_refused();
        if !self.threads_refused.load(Ordering::Acquire) || self.is_shutting_down() {
            return;
        }
        self.threads_refused.store(false, Ordering::Release);
        if self.scrubber.lock().is_none() {
            begin_scrubbing(self);
        }
        let refused = self.recovery.refused.lock().take();
        if let (Some(error), Some(begin)) = (refused, self.recovery.begin.get()) {
            let begins = self.state.lock().background_error.plan_recovery();
            if begins {
                begin(error);
            }
        }
    }

    /// Allows writes again, after the error was cleared.
    pub(crate) fn allow_writes(&self) {
        self.writes_stopped.store(false, Ordering::Release);
    }

    pub(crate) fn record_stall_micros(&self, micros: u64) {
        self.counters.count_stall(micros);
        record_tick(&self.options.statistics, Ticker::StallMicros, micros);
        report_time_to_histogram(&self.options.statistics, Histogram::WriteStall, micros);
    }

    /// The oldest WAL that a memtable of any family or a prepared transaction needs.
    pub(crate) fn oldest_wal_needed(&self, state: &DbState) -> Option<FileNumber> {
        // Memtables are read last: a commit first names its section in a memtable, and then removes
        // it from the list.
        let durable = self.wals.lock().durable_before();
        let outstanding = self.prepared.lock().oldest_wal_needed(durable);
        let committed = state.families.values().filter_map(|f| f.memtables.oldest_section(0)).min();
        state.oldest_log_needed().into_iter().chain(outstanding).chain(committed).min()
    }

    pub(crate) fn family_ids(&self) -> Vec<ColumnFamilyId> {
        self.state.lock().families.keys().copied().collect()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("path", &self.path).finish_non_exhaustive()
    }
}
