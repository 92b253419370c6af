//! Remote compaction: a service to which a database gives its compactions, and the options of a
//! worker.
//!
//! Source: RocksDB `include/rocksdb/options.h`.

use super::log::{LogLine, ObjectLog};
use super::{
    BlockBasedTableOptions, CompactionFilterRef, FileChecksumGenFactoryRef, SstPartitionerFactoryRef,
};
use crate::compaction_filter::CompactionFilterFactoryRef;
use crate::observe::{CompactionReason, EventListener};
use esker_base::ColumnFamilyId;
use esker_base::comparator::ComparatorRef;
use esker_base::logger::InfoLog;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::SliceTransformRef;
use esker_base::stats::Statistics;
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_base::table_properties_collector::TablePropertiesCollectorFactoryRef;
use esker_env::{Env, Priority};
use esker_format::compression::manager::CompressionManagerRef;
use std::fmt;

/// The state of a job of a compaction service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompactionServiceJobStatus {
    /// The job was scheduled, or it has succeeded.
    Success = 0,
    /// The job has failed, and the compaction fails with it.
    Failure = 1,
    /// The service has aborted the job, and the compaction ends with `Aborted`.
    Aborted = 2,
    /// The database runs the compaction itself.
    UseLocal = 3,
}

/// Describes a compaction to the service that schedules it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompactionServiceJobInfo {
    /// The database's directory.
    pub db_name: String,
    /// The database's id.
    pub db_id: String,
    /// The id of the present session: each opening of the database has a new one.
    pub db_session_id: String,
    /// The id of the column family.
    pub cf_id: ColumnFamilyId,
    /// The name of the column family.
    pub cf_name: String,
    /// The job's number, unique within the session: the compaction's number times 2³², plus the
    /// number of the key range.
    pub job_id: u64,
    /// The pool that runs the compaction.
    pub priority: Priority,
    /// The reason for the compaction.
    pub compaction_reason: CompactionReason,
    /// Whether the inputs are all files of the family.
    pub is_full_compaction: bool,
    /// Whether a caller requested the compaction.
    pub is_manual_compaction: bool,
    /// Whether no file below the output level overlaps the compaction.
    pub bottommost_level: bool,
    /// The first level of its inputs.
    pub base_input_level: usize,
    /// The level of its outputs.
    pub output_level: usize,
}

/// The answer of [`CompactionService::schedule`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionServiceScheduleResponse {
    /// The service's name for the job, unique across databases.
    pub scheduled_job_id: String,
    /// `Success` if the service has scheduled the job; otherwise the reason.
    pub status: CompactionServiceJobStatus,
}

impl CompactionServiceScheduleResponse {
    /// The answer for a scheduled job with this name.
    pub fn scheduled(scheduled_job_id: impl Into<String>) -> Self {
        let scheduled_job_id = scheduled_job_id.into();
        CompactionServiceScheduleResponse { scheduled_job_id, status: CompactionServiceJobStatus::Success }
    }

    /// The answer if the service has not scheduled a job, with the reason.
    pub fn without_job(status: CompactionServiceJobStatus) -> Self {
        CompactionServiceScheduleResponse { scheduled_job_id: String::new(), status }
    }
}

/// Runs compactions elsewhere: in other threads, processes or machines that see the database's
/// directory.
///
/// A compaction thread calls [`schedule`](Self::schedule), then [`wait`](Self::wait), which blocks
/// the thread. Several threads may call at once. The service sends the job's bytes to a worker,
/// which calls [`Db::open_and_compact`](crate::Db::open_and_compact). The result of that call is
/// the answer of `wait`. The database checks the files that the result names, moves them into its
/// own directories and installs them. If the result or a file is invalid, the database runs the
/// compaction itself.
///
/// These compactions stay local: trivial moves; deletions of whole files; compactions of families
/// with blob files, with several paths or with timestamps in memory only.
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
    /// The service's name, for logs.
    fn name(&self) -> &str;

    /// Schedules a compaction, or one key range of it, for a worker. `input` is the job, as
    /// [`Db::open_and_compact`](crate::Db::open_and_compact) takes it.
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> CompactionServiceScheduleResponse {
        let _ = (info, input);
        CompactionServiceScheduleResponse::without_job(CompactionServiceJobStatus::UseLocal)
    }

    /// Waits for the end of a scheduled job. Returns its status and the worker's result. With
    /// `UseLocal` and `Aborted` the result is ignored.
    fn wait(&self, scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
        let _ = scheduled_job_id;
        (CompactionServiceJobStatus::UseLocal, Vec::new())
    }

    /// Cancels waiting jobs: calls of [`wait`](Self::wait) should return `Aborted`. The database
    /// calls this when it closes, or when it cancels its background work.
    fn cancel_awaiting_jobs(&self) {}

    /// Reports the outcome of a job: its result was installed (`Success`), refused (`UseLocal`), or
    /// is an error (`Failure`).
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
    /// A flag that cancels the job, which then ends with `Incomplete(ManualCompactionPaused)`.
    /// Default `None`.
    pub canceled: Option<Arc<AtomicBool>>,
    /// Record each finished table in a file `COMPACTION_PROGRESS-N` of the output directory, so
    /// that the next worker of the same job in this directory goes on behind it. Needs the same
    /// bytes of the job. Tables without usable progress are deleted, and the job begins anew; so it
    /// does in families with user-defined timestamps. Costs two syncs for each table. Default
    /// false: tables in the directory are an error.
    pub allow_resumption: bool,
    /// Number of attempts to open the database while its owner changes the MANIFEST. Default 2. Has
    /// no effect: Esker retries as a secondary does.
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

/// Objects and options of a worker that no OPTIONS file stores. Other options come from the
/// database's OPTIONS file.
///
/// Objects of the column family must do what those of the database do: the result depends on them.
#[derive(Clone, Default)]
pub struct CompactionServiceOptionsOverride {
    /// Files, clock and threads. Default: those of the machine.
    pub env: Env,
    /// Factory of checksums of whole files. Default `None`.
    pub file_checksum_gen_factory: Option<FileChecksumGenFactoryRef>,
    /// The order of keys. Default `None`: the comparator that the OPTIONS file names.
    pub comparator: Option<ComparatorRef>,
    /// Default `None`: the one that the OPTIONS file names.
    pub merge_operator: Option<MergeOperatorRef>,
    /// Default `None`.
    pub compaction_filter: Option<CompactionFilterRef>,
    /// Default `None`.
    pub compaction_filter_factory: Option<CompactionFilterFactoryRef>,
    /// Default `None`: the one that the OPTIONS file names.
    pub prefix_extractor: Option<SliceTransformRef>,
    /// Codecs by user code. Default `None`: the built-in ones. All families get it.
    pub compression_manager: Option<CompressionManagerRef>,
    /// Options of tables. Default `None`: those of the OPTIONS file.
    pub table: Option<BlockBasedTableOptions>,
    /// Default `None`: the one that the OPTIONS file names.
    pub sst_partitioner_factory: Option<SstPartitionerFactoryRef>,
    /// Listeners for the worker's events: its tables and its subcompaction. Default none.
    pub listeners: Vec<Arc<dyn EventListener>>,
    /// Statistics of the worker. Default `None`.
    pub statistics: Option<Arc<Statistics>>,
    /// The worker's info log. Default `None`: a LOG in the output directory.
    pub info_log: Option<Arc<dyn InfoLog>>,
    /// Factories of collectors of table properties. Default none.
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
