//! The values that a monitor reads from a database at one point in time.
//!
//! In: nothing; `gather` fills the structs. Out: plain numbers, which serde reads and writes.
//!
//! Invariants
//!  1. No key, no value and no bound of a file appears, and no message of an error: messages may
//!     quote keys.
//!  2. Counters count since the open. A reader makes rates from two snapshots.
//!  3. A missing field has its default, and an unknown one is ignored: versions of one format read
//!     each other.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of the format. It changes when a field changes its meaning.
pub const SNAPSHOT_FORMAT: u32 = 1;

/// One database at one point in time.
///
/// ```
/// use esker::{Db, Options};
/// use esker_monitor::Monitor;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let db = Db::open_default(dir.path())?;
/// db.put("esker", "gravel")?;
/// db.flush()?;
/// let snapshot = Monitor::new().snapshot(&db)?;
/// assert_eq!(snapshot.families[0].levels[0].files, 1);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StatisticsSnapshot {
    /// [`SNAPSHOT_FORMAT`] of the writer.
    pub format: u32,
    /// The process and the directory.
    pub process: ProcessFacts,
    /// Time of the snapshot, in microseconds since the Unix epoch.
    pub taken_at_micros: u64,
    /// Seconds since the open.
    pub uptime_seconds: f64,
    /// The families, in the order of their creation; at most `max_families`.
    pub families: Vec<FamilyStatistics>,
    /// The sum of the families beyond `max_families`, if there are any.
    pub other_families: Option<FamilyStatistics>,
    /// Number of all families.
    pub family_count: usize,
    /// Flushes and compactions that run, oldest first.
    pub jobs: Vec<RunningJob>,
    /// Flushes that run, as the engine counts them.
    pub running_flushes: u64,
    /// Compactions that run, as the engine counts them.
    pub running_compactions: u64,
    /// Writers of the whole database.
    pub stall: StallStatistics,
    /// Totals of writes.
    pub writes: WriteStatistics,
    /// The WAL.
    pub wal: WalStatistics,
    /// The block caches. Families that share a cache have one entry.
    pub block_caches: Vec<CacheStatistics>,
    /// Live snapshots.
    pub live_snapshots: SnapshotCounts,
    /// Errors of background work.
    pub background: BackgroundStatistics,
    /// Whether the database has a `Statistics` object. Without it `tickers` and `histograms` are
    /// empty.
    pub has_statistics: bool,
    /// Whether the monitor's listener is among the database's listeners. Without it `jobs` come
    /// from `enable_thread_tracking` alone.
    pub has_listener: bool,
    /// Totals by RocksDB's names.
    pub tickers: BTreeMap<String, u64>,
    /// Distributions by RocksDB's names, without empty ones.
    pub histograms: BTreeMap<String, HistogramSummary>,
}

/// The process that has the database open.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProcessFacts {
    /// Its number.
    pub pid: u32,
    /// The directory of the database.
    pub path: String,
    /// The version of this crate.
    pub version: String,
    /// Bytes of the process in memory; 0 if the system does not tell.
    pub resident_bytes: u64,
}

/// One family, or the sum of several.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FamilyStatistics {
    /// The family's name; empty in a sum.
    pub name: String,
    /// Its levels, from 0 on.
    pub levels: Vec<LevelStatistics>,
    /// Its memtables.
    pub memtables: MemtableStatistics,
    /// Bytes that compactions must rewrite to bring all levels to size.
    pub pending_compaction_bytes: u64,
    /// The state of its writers; the worst one in a sum.
    pub stall: StallKind,
    /// The limits that hold writers back, with their values now. Empty in a sum.
    pub pressures: Vec<StallPressure>,
    /// Number of stalls since the open, by RocksDB's names, such as `memtable-limit-stops`.
    pub stall_counts: BTreeMap<String, u64>,
    /// Bytes of open tables outside the block cache.
    pub table_reader_bytes: u64,
    /// Number of blob files.
    pub blob_files: u64,
    /// Bytes of blob files.
    pub blob_bytes: u64,
    /// Bytes of garbage in blob files.
    pub blob_garbage_bytes: u64,
    /// Damaged tables that compactions leave alone.
    pub quarantined_tables: u64,
}

impl FamilyStatistics {
    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Number of tables.
    pub fn table_files(&self) -> u64 {
        self.levels.iter().map(|level| level.files).sum()
    }
}

/// One level of a family.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LevelStatistics {
    /// Number of tables.
    pub files: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// The compaction score: from 1 on the level is due. The largest one in a sum.
    pub score: f64,
    /// Tables that running compactions read.
    pub compacting_files: u64,
    /// Bytes that compactions into this level have read, to the KiB.
    pub read_bytes: u64,
    /// Bytes that flushes and compactions have written into this level, to the KiB.
    pub written_bytes: u64,
}

/// The memtables of a family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemtableStatistics {
    /// Bytes of the active memtable.
    pub active_bytes: u64,
    /// Bytes of the memtables that are not flushed.
    pub unflushed_bytes: u64,
    /// Bytes of all memtables, those included that readers hold.
    pub all_bytes: u64,
    /// Entries of the active memtable.
    pub active_entries: u64,
    /// Immutable memtables that wait for a flush.
    pub immutable: u64,
}

/// The state of writers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StallKind {
    /// Nothing holds writers back.
    #[default]
    Normal,
    /// Writers are slowed down.
    Delayed,
    /// Writers wait.
    Stopped,
}

impl StallKind {
    /// `normal`, `delayed` or `stopped`.
    pub const fn as_str(self) -> &'static str {
        match self {
            StallKind::Normal => "normal",
            StallKind::Delayed => "delayed",
            StallKind::Stopped => "stopped",
        }
    }
}

/// A limit that slows writers down or stops them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StallPressure {
    /// RocksDB's name of the cause: `memtable-limit`, `l0-file-count-limit` or
    /// `pending-compaction-bytes`.
    pub cause: String,
    /// The value now: memtables, files or bytes.
    pub value: u64,
    /// The value at which writers are slowed down; 0: never.
    pub delay_at: u64,
    /// The value at which writers stop; 0: never.
    pub stop_at: u64,
}

impl StallPressure {
    /// The state that this limit alone gives.
    pub fn state(&self) -> StallKind {
        let reached = |limit: u64| limit > 0 && self.value >= limit;
        match (reached(self.stop_at), reached(self.delay_at)) {
            (true, _) => StallKind::Stopped,
            (false, true) => StallKind::Delayed,
            (false, false) => StallKind::Normal,
        }
    }
}

/// The writers of the whole database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StallStatistics {
    /// The state of writers now.
    pub state: StallKind,
    /// Bytes per second that delayed writers get; 0 if writers are not delayed.
    pub write_rate: u64,
    /// Microseconds that writers have waited.
    pub stalled_micros: u64,
    /// Stops because all memtables together were too large.
    pub write_buffer_manager_stops: u64,
}

/// The kind of a background job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackgroundJobKind {
    /// Memtables to a table.
    #[default]
    Flush,
    /// Tables to tables.
    Compaction,
}

impl BackgroundJobKind {
    /// `flush` or `compaction`.
    pub const fn as_str(self) -> &'static str {
        match self {
            BackgroundJobKind::Flush => "flush",
            BackgroundJobKind::Compaction => "compaction",
        }
    }
}

/// A flush or compaction that runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunningJob {
    /// Flush or compaction.
    pub kind: BackgroundJobKind,
    /// Its number, unique in one opening.
    pub job_id: u64,
    /// The family's name.
    pub family: String,
    /// The first level of the inputs; `None` for a flush.
    pub input_level: Option<u64>,
    /// The level of the outputs.
    pub output_level: u64,
    /// RocksDB's word for the reason; empty if unknown.
    pub reason: String,
    /// Tables that it reads.
    pub input_files: u64,
    /// Bytes of all inputs; 0 if unknown.
    pub input_bytes: u64,
    /// Bytes read so far; `None` without `enable_thread_tracking`.
    pub read_bytes: Option<u64>,
    /// Bytes written so far. Without `enable_thread_tracking` finished files count only.
    pub written_bytes: u64,
    /// Microseconds since it began.
    pub elapsed_micros: u64,
}

/// Totals of writes since the open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WriteStatistics {
    /// Keys that users wrote.
    pub keys: u64,
    /// Bytes of keys and values that users wrote.
    pub bytes: u64,
    /// Write calls.
    pub calls: u64,
    /// Groups of writes that one leader did.
    pub groups: u64,
}

/// The WAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WalStatistics {
    /// Bytes of the file that is being written; 0 if the database is read-only.
    pub current_bytes: u64,
    /// Bytes written since the open.
    pub written_bytes: u64,
    /// Syncs since the open.
    pub syncs: u64,
    /// Writes that went to a WAL.
    pub writes: u64,
}

/// One block cache.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// The first family that uses it; empty in the sum of the caches beyond `max_families`.
    pub family: String,
    /// Number of families that use it.
    pub families: u64,
    /// Bytes that it may hold.
    pub capacity: u64,
    /// Bytes that it holds.
    pub usage: u64,
    /// Bytes of entries that are in use now.
    pub pinned: u64,
}

/// The live snapshots of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SnapshotCounts {
    /// Their number.
    pub count: u64,
    /// Age of the oldest one in seconds; 0 if there is none.
    pub oldest_age_seconds: u64,
}

/// Errors of background work.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct BackgroundStatistics {
    /// Failures of flushes and compactions since the open.
    pub errors: u64,
    /// Kind and severity of the error in force, such as `IO error (SoftError)`. The message is in
    /// the LOG.
    pub error: Option<String>,
}

/// A summary of a distribution. The unit is in the name: mostly microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HistogramSummary {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// Half of the values are at most this.
    pub p50: f64,
    /// 95% of the values are at most this.
    pub p95: f64,
    /// 99% of the values are at most this.
    pub p99: f64,
    /// The largest value.
    pub max: f64,
}
