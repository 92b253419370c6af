//! Makes an [`Engine`] from the result of recovery.

use super::open_tag::untraced_tag;
use super::{
    AutoRecovery, DbState, Engine, EngineCounters, PeriodicWork, Purger, Secondary, StallState, StatsDump,
    UnwrittenOptions, rank,
};
use crate::cf::ColumnFamilySet;
use crate::files::RowCache;
use crate::observe::StatsHistory;
use crate::options::DbOptions;
use crate::schedule::Scheduler;
use crate::snapshot::{CommitTable, LiveSnapshots};
use crate::trace::Traces;
use crate::version::{Numbers, VersionSet};
use crate::wal::{PreparedSections, Wals};
use esker_base::logger::InfoLog;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::fork::ProcessOwner;
use esker_base::sync::{Arc, Mutex, OnceLock, RankedCondvar, RankedMutex, RwLock};
use esker_env::FileLock;
use std::path::PathBuf;

/// RocksDB's rate for delayed writers if neither `delayed_write_rate` nor a rate limiter sets one.
const DEFAULT_DELAYED_WRITE_RATE: u64 = 16 << 20;

/// The parts that `db/open.rs` has made.
pub(crate) struct EngineParts {
    pub(crate) path: PathBuf,
    pub(crate) other_directories: Vec<PathBuf>,
    pub(crate) wal_dir: PathBuf,
    pub(crate) options: DbOptions,
    pub(crate) db_id: String,
    pub(crate) session_id: String,
    pub(crate) read_only: bool,
    pub(crate) hides_stats_history: bool,
    pub(crate) secondary: Option<Secondary>,
    pub(crate) info_log: Arc<dyn InfoLog>,
    pub(crate) tag: u64,
    pub(crate) scheduler: Scheduler,
    pub(crate) families: ColumnFamilySet,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) manifest: VersionSet,
    pub(crate) state: DbState,
    pub(crate) wals: Wals,
    pub(crate) prepared: PreparedSections,
    pub(crate) commits: Option<CommitTable>,
    pub(crate) wal_losses: Vec<String>,
    pub(crate) traces: Traces,
    pub(crate) lock: Option<Box<dyn FileLock>>,
}

impl Engine {
    /// An idle engine: no job runs, nothing is stalled.
    pub(crate) fn new(parts: EngineParts) -> Engine {
        let rate = match parts.options.delayed_write_rate {
            0 => DEFAULT_DELAYED_WRITE_RATE,
            set => set,
        };
        let last_sequence = parts.numbers.last_sequence();
        let shutting_down = Arc::new(AtomicBool::new(false));
        let row_cache = parts.options.row_cache.clone().map(RowCache::new);
        let open_tag = untraced_tag(parts.tag, parts.commits.is_some(), &parts.options);
        Engine {
            purger: Arc::new(Purger::new(shutting_down.clone())),
            counters: EngineCounters::new(parts.options.env.clock.as_ref()),
            stall: StallState::new(rate),
            allocated_sequence: AtomicU64::new(last_sequence.0),
            wal_bytes: AtomicU64::new(parts.wals.total_bytes()),
            wal_bytes_limit: AtomicU64::new(wal_bytes_limit(&parts.options, &parts.state)),
            owner: ProcessOwner::here(),
            env: parts.options.env.clone(),
            path: parts.path,
            wal_dir: parts.wal_dir,
            options_in_force: RwLock::new(Arc::new(parts.options.clone())),
            options: parts.options,
            db_id: parts.db_id,
            session_id: parts.session_id,
            read_only: parts.read_only,
            hides_stats_history: parts.hides_stats_history,
            wal_losses: parts.wal_losses,
            secondary: parts.secondary,
            jobs: OnceLock::new(),
            info_log: parts.info_log,
            tag: parts.tag,
            open_tag: AtomicU64::new(open_tag),
            row_cache,
            traces: parts.traces,
            scheduler: parts.scheduler,
            families: parts.families,
            numbers: parts.numbers,
            shutting_down,
            closed: AtomicBool::new(false),
            shutdown_reported: AtomicBool::new(false),
            background_errors: AtomicU64::new(0),
            writes_stopped: AtomicBool::new(false),
            threads_refused: AtomicBool::new(false),
            has_unlogged_data: AtomicBool::new(false),
            wal_bytes_of_next_check: AtomicU64::new(0),
            switch_wanted: AtomicBool::new(false),
            deletions_sampled: AtomicBool::new(false),
            super_version_number: AtomicU64::new(0),
            last_job_id: AtomicU64::new(0),
            manifest: RankedMutex::new(rank::MANIFEST, parts.manifest),
            state: RankedMutex::new(rank::STATE, parts.state),
            state_changed: RankedCondvar::new(),
            wals: RankedMutex::new(rank::WALS, parts.wals),
            snapshots: LiveSnapshots::new(),
            snapshot_threshold: AtomicU64::new(u64::MAX),
            prepared: Mutex::new(parts.prepared),
            commits: parts.commits,
            last_stats_dump: Mutex::new(StatsDump::default()),
            stats_dump: PeriodicWork::default(),
            stats_history: Mutex::new(StatsHistory::default()),
            stats_persist: PeriodicWork::default(),
            scrubber: Mutex::new(None),
            recovery: AutoRecovery::default(),
            compaction_trigger: PeriodicWork::default(),
            time_recording: PeriodicWork::default(),
            unwritten_options: Mutex::new(UnwrittenOptions::default()),
            other_directories: Mutex::new(parts.other_directories),
            lock: Mutex::new(parts.lock),
        }
    }

    /// Recomputes the limit on the bytes of all WALs. Called after a change of families, of their
    /// options or of their memtables. Reads each family, and lets the next write leader check all
    /// families again.
    pub(crate) fn update_wal_bytes_limit(&self, state: &DbState) {
        self.wal_bytes_limit.store(wal_bytes_limit(&self.db_options(), state), Ordering::Relaxed);
        self.request_wal_check();
    }

    /// Records that a write leader has checked which families hold WALs back, and has requested
    /// their flushes. The next check comes after a sixteenth of the limit, or once a flush has
    /// ended.
    pub(crate) fn record_wal_check(&self) {
        let (bytes, limit) =
            (self.wal_bytes.load(Ordering::Relaxed), self.wal_bytes_limit.load(Ordering::Relaxed));
        self.wal_bytes_of_next_check.store(bytes.saturating_add(limit / 16), Ordering::Relaxed);
    }

    /// Lets the next write leader check all families. Called after a flush, a deletion of WALs or a
    /// resolved section: other families may hold WALs back now.
    pub(crate) fn request_wal_check(&self) {
        self.wal_bytes_of_next_check.store(0, Ordering::Relaxed);
    }
}

/// Bytes that all WALs may have beyond those of the memtables.
const WAL_SLACK_BYTES: u64 = 16 << 20;
/// WAL bytes allowed for each family with data, so that small memtables are not flushed early.
const WAL_BYTES_PER_FLUSH: u64 = 256 << 10;

/// The limit: `max_total_wal_size` if it is set. Otherwise the smaller of RocksDB's default, four
/// times the size of all write buffers, and a small multiple of the memtables' bytes. The second
/// bound is for a family without further writes, which would keep WALs that no other family needs.
fn wal_bytes_limit(options: &DbOptions, state: &DbState) -> u64 {
    if options.max_total_wal_size > 0 {
        return options.max_total_wal_size;
    }
    let (mut of_buffers, mut of_memtables) = (0u64, WAL_SLACK_BYTES);
    for family in state.families.values() {
        let number = u64::try_from(family.options.max_write_buffer_number).unwrap_or(1);
        let buffers = number.saturating_mul(family.options.write_buffer_size as u64);
        of_buffers = of_buffers.saturating_add(buffers.saturating_mul(4));
        let (memtables, active) = (&family.memtables, &family.memtables.active);
        // This test takes no lock: there may be thousands of families.
        let is_empty = active.has_no_points() && !active.has_range_tombstones();
        if !memtables.immutables.is_empty() || !is_empty {
            of_memtables += 2 * memtables.memory_usage() as u64 + WAL_BYTES_PER_FLUSH;
        }
    }
    of_buffers.min(of_memtables)
}
