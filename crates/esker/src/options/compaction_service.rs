//! Remote compaction: a service to which a database gives its compactions, and the options of a
//! worker.
//!
//! Source: RocksDB `include/rocksdb/options.h`.

use super::log::{LogLine, ObjectLog};
use super::{
    BlockBasedTableOptions, CompactionFilterRef, FileChecksumGenFactoryRef, SstPartitionerFactoryRef,
};
use crate::observe::{CompactionReason, EventListener};
use esker_base::ColumnFamilyId;
use esker_base::compaction_filter::CompactionFilterFactoryRef;
use esker_base::comparator::ComparatorRef;
use esker_base::logger::InfoLog;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::SliceTransformRef;
use esker_base::stats::Statistics;
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_base::table_properties_collector::TablePropertiesCollectorFactoryRef;
use esker_env::{Env, Priority};
use std::fmt;

/// Where a job of a compaction service stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompactionServiceJobStatus {
    /// It was scheduled, or it is done.
    Success = 0,
    /// It failed: so does the compaction.
    Failure = 1,
    /// It was given up: so is the compaction.
    Aborted = 2,
    /// The database runs the compaction itself.
    UseLocal = 3,
}

/// The compaction that a service is given.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompactionServiceJobInfo {
    /// The database's directory.
    pub db_name: String,
    /// The database's id.
    pub db_id: String,
    /// The id of this opening of it.
    pub db_session_id: String,
    /// The id of the column family.
    pub cf_id: ColumnFamilyId,
    /// The name of the column family.
    pub cf_name: String,
    /// Unique within this opening of the database: the compaction's number, times 2³², and the
    /// number of the key range.
    pub job_id: u64,
    /// The pool that runs the compaction.
    pub priority: Priority,
    /// The reason for the compaction.
    pub compaction_reason: CompactionReason,
    /// Whether it takes all files of the family.
    pub is_full_compaction: bool,
    /// Whether a caller requested it.
    pub is_manual_compaction: bool,
    /// Whether no file below its output level holds any of its keys.
    pub bottommost_level: bool,
    /// The first level of its inputs.
    pub base_input_level: usize,
    /// The level of its outputs.
    pub output_level: usize,
}

/// A service's answer to a compaction that it is to schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionServiceScheduleResponse {
    /// The service's name for the job. Unique across databases.
    pub scheduled_job_id: String,
    /// Whether it was scheduled.
    pub status: CompactionServiceJobStatus,
}

impl CompactionServiceScheduleResponse {
    /// The job is scheduled under this name.
    pub fn scheduled(scheduled_job_id: impl Into<String>) -> Self {
        let scheduled_job_id = scheduled_job_id.into();
        CompactionServiceScheduleResponse { scheduled_job_id, status: CompactionServiceJobStatus::Success }
    }

    /// There is no job, for this reason.
    pub fn without_job(status: CompactionServiceJobStatus) -> Self {
        CompactionServiceScheduleResponse { scheduled_job_id: String::new(), status }
    }
}

/// Runs compactions elsewhere: in other threads, processes or machines that see the database's
/// directory.
///
/// A compaction thread calls [`schedule`](Self::schedule), then [`wait`](Self::wait), which blocks
/// it. Several threads call at once. The service hands the job's bytes to a worker, which calls
/// [`Db::open_and_compact`](crate::Db::open_and_compact); the worker's bytes are the answer of
/// `wait`. The database checks the files that they name, moves them into its own directories and
/// installs them. If bytes or files are not what they should be, it runs the compaction itself.
///
/// These compactions stay local: of families with blob files, with several paths or with timestamps
/// in memory only; trivial moves; deletions of whole files.
///
/// ```
/// use esker::options::{
///     CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
///     CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
/// };
/// use esker::{Db, DbOptions};
/// use std::collections::HashMap;
/// use std::path::PathBuf;
/// use std::sync::{Arc, Mutex};
/// use std::thread::JoinHandle;
///
/// /// A worker for each job: a thread here, mostly a process.
/// #[derive(Default)]
/// struct Threads(Mutex<HashMap<String, JoinHandle<esker::Result<Vec<u8>>>>>);
///
/// impl CompactionService for Threads {
///     fn name(&self) -> &str {
///         "threads"
///     }
///
///     fn schedule(
///         &self,
///         info: &CompactionServiceJobInfo,
///         input: &[u8],
///     ) -> CompactionServiceScheduleResponse {
///         let id = format!("{}-{}", info.db_session_id, info.job_id);
///         let (database, input) = (PathBuf::from(&info.db_name), input.to_vec());
///         let output = database.with_extension(&id);
///         let work = move || {
///             let options = OpenAndCompactOptions::default();
///             let overrides = CompactionServiceOptionsOverride::default();
///             Db::open_and_compact(&options, &database, &output, &input, &overrides)
///         };
///         self.0.lock().unwrap().insert(id.clone(), std::thread::spawn(work));
///         CompactionServiceScheduleResponse::scheduled(id)
///     }
///
///     fn wait(&self, scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
///         let worker = self.0.lock().unwrap().remove(scheduled_job_id).unwrap();
///         match worker.join().unwrap() {
///             Ok(result) => (CompactionServiceJobStatus::Success, result),
///             Err(_) => (CompactionServiceJobStatus::UseLocal, Vec::new()),
///         }
///     }
/// }
///
/// # let dir = esker_testkit::TempDir::new("doc");
/// let service: Arc<dyn CompactionService> = Arc::new(Threads::default());
/// let options = DbOptions::new().create_if_missing(true).compaction_service(Some(service));
/// let db = Db::open_cf(&options, dir.join("db"), ["default"])?;
/// for value in ["gravel", "sand"] {
///     db.put("esker", value)?;
///     db.flush()?;
/// }
/// db.compact_range(None, None)?;
/// assert_eq!(db.get("esker")?.as_deref(), Some(&b"sand"[..]));
/// # Ok::<_, esker::Error>(())
/// ```
pub trait CompactionService: Send + Sync {
    /// For logs.
    fn name(&self) -> &str;

    /// Hands a compaction, or one key range of it, to a worker. `input`: the job for
    /// [`Db::open_and_compact`](crate::Db::open_and_compact).
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        let _ = (info, input);
        CompactionServiceScheduleResponse::without_job(CompactionServiceJobStatus::UseLocal)
    }

    /// Waits for the end of a scheduled job. Returns its result, the bytes that the worker gives;
    /// none are needed with `UseLocal` and `Aborted`.
    fn wait(&self, scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
        let _ = scheduled_job_id;
        (CompactionServiceJobStatus::UseLocal, Vec::new())
    }

    /// The database closes, or cancels its background work: waiting calls should return, with
    /// `Aborted`.
    fn cancel_awaiting_jobs(&self) {}

    /// The result of a job was taken in (`Success`), was of no use (`UseLocal`) or is an error
    /// (`Failure`).
    fn on_installation(&self, scheduled_job_id: &str, status: CompactionServiceJobStatus) {
        let _ = (scheduled_job_id, status);
    }
}

impl fmt::Debug for dyn CompactionService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactionService({})", self.name())
    }
}

impl ObjectLog for Option<Arc<dyn CompactionService>> {
    fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
        let service = self.as_ref().map_or("None", |service| service.name());
        lines.push((name.to_owned(), service.to_owned()));
    }
}

/// Options of [`Db::open_and_compact`](crate::Db::open_and_compact).
#[derive(Clone, Debug)]
pub struct OpenAndCompactOptions {
    /// Set it to end the job with `Incomplete(ManualCompactionPaused)`. Default `None`.
    pub canceled: Option<Arc<AtomicBool>>,
    /// Take an output directory in which an earlier worker has left tables. These go, and the job
    /// begins anew, as in RocksDB where no progress can be found. Default false: the directory must
    /// have no tables.
    pub allow_resumption: bool,
    /// Attempts to open the database again while its owner changes its MANIFEST. Default 2; Esker
    /// goes on trying for as long as a secondary does, whatever the number.
    pub max_secondary_open_retries: u32,
}

impl Default for OpenAndCompactOptions {
    fn default() -> Self {
        OpenAndCompactOptions { canceled: None, allow_resumption: false, max_secondary_open_retries: 2 }
    }
}

esker_base::setters! {
    OpenAndCompactOptions {
        optional canceled: Arc<AtomicBool>;
        allow_resumption: bool;
        max_secondary_open_retries: u32;
    }
}

/// Objects and options of a worker that no OPTIONS file has. The rest is as the database's OPTIONS
/// file says.
///
/// Objects of the column family must do what those of the database do: the result depends on them.
#[derive(Clone, Default)]
pub struct CompactionServiceOptionsOverride {
    /// Files, clock and threads. Default: the machine's.
    pub env: Env,
    /// Makes checksums of whole files. Default `None`.
    pub file_checksum_gen_factory: Option<FileChecksumGenFactoryRef>,
    /// The order of keys. Default `None`: the one that the OPTIONS file names.
    pub comparator: Option<ComparatorRef>,
    /// Default `None`: the one that the OPTIONS file names.
    pub merge_operator: Option<MergeOperatorRef>,
    /// Default `None`.
    pub compaction_filter: Option<CompactionFilterRef>,
    /// Default `None`.
    pub compaction_filter_factory: Option<CompactionFilterFactoryRef>,
    /// Default `None`: the one that the OPTIONS file names.
    pub prefix_extractor: Option<SliceTransformRef>,
    /// Options of tables. Default `None`: those of the OPTIONS file.
    pub table: Option<BlockBasedTableOptions>,
    /// Default `None`: the one that the OPTIONS file names.
    pub sst_partitioner_factory: Option<SstPartitionerFactoryRef>,
    /// Told of the worker's tables and key range. Default none.
    pub listeners: Vec<Arc<dyn EventListener>>,
    /// Counts the worker's work. Default `None`.
    pub statistics: Option<Arc<Statistics>>,
    /// Default `None`: a LOG in the output directory.
    pub info_log: Option<Arc<dyn InfoLog>>,
    /// Make properties of the tables. Default none.
    pub table_properties_collector_factories: Vec<TablePropertiesCollectorFactoryRef>,
    /// Names and values of other options, of the database or of the family. Unknown names are
    /// ignored.
    pub options_map: Vec<(String, String)>,
}

impl fmt::Debug for CompactionServiceOptionsOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionServiceOptionsOverride")
            .field("options_map", &self.options_map)
            .finish_non_exhaustive()
    }
}
