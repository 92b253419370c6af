//! Events that listeners receive as they happen.
//!
//! In: the info structs below, filled by the code that does the work. Out: calls to the listeners
//! in `DbOptions::listeners`, in their order. Source: RocksDB `include/rocksdb/listener.h`.
//!
//! Invariants
//!  1. No lock of the database is held during a call. A listener may call the database, but must
//!     not wait for background work (a flush, a compaction, close): it would wait for itself.
//!     Writers report sealed memtables, stalls and errors before their write is done. So a listener
//!     that writes in such a call also waits for itself, as with RocksDB.
//!  2. A listener must not panic: a panic ends the background job that made the call.
//!  3. Calls about files are an exception to 1: the thread that works on a file makes them, under
//!     whatever locks it holds. They must be short, and must not call the database.

use super::compaction_stats::CompactionJobStats;
use super::file_operations::FileOperationInfo;
use super::reason::{BackgroundErrorReason, CompactionReason, FlushReason, WriteStallCondition};
use crate::compaction_filter::TableFileCreationReason;
use esker_base::{ColumnFamilyId, Error, FileNumber, SequenceNumber};
use esker_format::compression::CompressionType;
use esker_format::properties::TableProperties;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Receives events of a database. Every method does nothing by default.
pub trait EventListener: Send + Sync {
    /// A flush begins: it has chosen its memtables.
    fn on_flush_begin(&self, _info: &FlushJobInfo) {}
    /// A flush is installed: its file is live.
    fn on_flush_completed(&self, _info: &FlushJobInfo) {}
    /// A flush that a caller requested or waits for is scheduled for these families.
    fn on_manual_flush_scheduled(&self, _info: &[ManualFlushInfo]) {}
    /// A compaction begins. Moves of whole files are reported too.
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {}
    /// A compaction's outputs are complete but not installed yet.
    fn on_compaction_pre_commit(&self, _info: &CompactionJobInfo) {}
    /// A compaction is installed, or has failed: see `status`.
    fn on_compaction_completed(&self, _info: &CompactionJobInfo) {}
    /// One key range of a compaction begins, on the thread that compacts it.
    fn on_subcompaction_begin(&self, _info: &SubcompactionJobInfo) {}
    /// One key range of a compaction is done.
    fn on_subcompaction_completed(&self, _info: &SubcompactionJobInfo) {}
    /// A table file is about to be written.
    fn on_table_file_creation_started(&self, _info: &TableFileCreationBriefInfo) {}
    /// A table file was written, or writing it failed: see `status`.
    fn on_table_file_created(&self, _info: &TableFileCreationInfo) {}
    /// A table file was deleted.
    fn on_table_file_deleted(&self, _info: &TableFileDeletionInfo) {}
    /// A blob file is about to be written.
    fn on_blob_file_creation_started(&self, _info: &BlobFileCreationBriefInfo) {}
    /// A blob file was written, or writing it failed: see `status`.
    fn on_blob_file_created(&self, _info: &BlobFileCreationInfo) {}
    /// A blob file was deleted.
    fn on_blob_file_deleted(&self, _info: &BlobFileDeletionInfo) {}
    /// A memtable was made immutable.
    fn on_memtable_sealed(&self, _info: &MemTableInfo) {}
    /// An ingested file is live.
    fn on_external_file_ingested(&self, _info: &ExternalFileIngestionInfo) {}
    /// Background work failed. If a listener sets `error` to `None`, the database continues: it
    /// tries the flush or compaction again after a second; callers that wait for the work get the
    /// error. Another error replaces it. An error that the database cannot ignore (a failed write
    /// to a WAL or a memtable, a job that panicked) stays in force all the same.
    fn on_background_error(&self, _reason: BackgroundErrorReason, _error: &mut Option<Error>) {}
    /// Writers are slowed down, stopped, or released again.
    fn on_stall_conditions_changed(&self, _info: &WriteStallInfo) {}
    /// Recovery from a background error is about to begin; `auto_recovery = false` prevents it.
    fn on_error_recovery_begin(
        &self,
        _reason: BackgroundErrorReason,
        _error: &Error,
        _auto_recovery: &mut bool,
    ) {
    }
    /// Recovery from a background error ended; `new_bg_error` is `None` if it succeeded.
    fn on_error_recovery_end(&self, _info: &BackgroundErrorRecoveryInfo) {}
    /// Recovery from `old_bg_error` ended, with or without success: the older form of
    /// [`on_error_recovery_end`](Self::on_error_recovery_end), which is called next.
    fn on_error_recovery_completed(&self, _old_bg_error: &Error) {}
    /// Whether the following calls about files are wanted. Asked once, when the database opens.
    /// Each operation then costs two readings of the clock and the calls, and reads do not use
    /// `io_uring`. Without such a listener it costs nothing. Default: false.
    ///
    /// ```
    /// use esker::observe::{EventListener, FileOperationInfo};
    /// use esker::{Db, Options};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// #[derive(Default)]
    /// struct Written(AtomicU64);
    ///
    /// impl EventListener for Written {
    ///     fn should_be_notified_on_file_io(&self) -> bool {
    ///         true
    ///     }
    ///     fn on_file_write_finish(&self, info: &FileOperationInfo) {
    ///         self.0.fetch_add(info.length, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let written = Arc::new(Written::default());
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// options.db.listeners = vec![written.clone()];
    /// let db = Db::open(&options, dir.path())?;
    /// db.put("esker", "gravel")?;
    /// assert!(written.0.load(Ordering::Relaxed) > 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    fn should_be_notified_on_file_io(&self) -> bool {
        false
    }
    /// Bytes of a file were read.
    fn on_file_read_finish(&self, _info: &FileOperationInfo) {}
    /// Bytes were added to a file.
    fn on_file_write_finish(&self, _info: &FileOperationInfo) {}
    /// A file's buffered bytes were given to the operating system.
    fn on_file_flush_finish(&self, _info: &FileOperationInfo) {}
    /// A file was synced.
    fn on_file_sync_finish(&self, _info: &FileOperationInfo) {}
    /// The operating system was asked to write back a part of a file.
    fn on_file_range_sync_finish(&self, _info: &FileOperationInfo) {}
    /// A file was cut.
    fn on_file_truncate_finish(&self, _info: &FileOperationInfo) {}
    /// A file was closed.
    fn on_file_close_finish(&self, _info: &FileOperationInfo) {}
    /// One of these operations failed; called after the call for its kind.
    fn on_io_error(&self, _info: &FileOperationInfo) {}
    /// A flush or compaction job has ended, on the thread that ran it; also if the pressure is as
    /// before. A close waits for the call. With a listener, the end of each job looks at every
    /// family once, under the db mutex, for the one that is nearest to a stall.
    fn on_background_job_pressure_changed(&self, _pressure: &BackgroundJobPressure) {}
    /// A handle is about to be destroyed by
    /// [`Db::destroy_column_family_handle`](crate::Db::destroy_column_family_handle).
    fn on_column_family_handle_deletion_started(&self, _cf_id: ColumnFamilyId, _cf_name: &str) {}
    /// The database begins to close, or to cancel its background work. Called once. Jobs may still
    /// run, and their events may follow.
    fn on_db_shutdown_begin(&self) {}
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

/// The jobs that wait and run, and the distance of writers from a stall.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct BackgroundJobPressure {
    /// Compactions that wait for a thread or run.
    pub compaction_scheduled: usize,
    /// Compactions that run.
    pub compaction_running: usize,
    /// Those of `compaction_scheduled` with low priority: all.
    pub compaction_low_scheduled: usize,
    /// Those of `compaction_running` with low priority: all.
    pub compaction_low_running: usize,
    /// Those of `compaction_scheduled` with bottom priority: none.
    pub compaction_bottom_scheduled: usize,
    /// Those of `compaction_running` with bottom priority: none.
    pub compaction_bottom_running: usize,
    /// Flushes that wait for a thread or run.
    pub flush_scheduled: usize,
    /// Flushes that run.
    pub flush_running: usize,
    /// Level-0 files or bytes to compact, in percent of the number that slows writers down: the
    /// highest of all families. Above 100 while writers are slow.
    pub write_stall_proximity_pct: u64,
    /// Whether compactions of any family are behind.
    pub compaction_speedup_active: bool,
}

/// One flush.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlushJobInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// The table that the flush makes; empty at the beginning if none is chosen yet.
    pub file_path: PathBuf,
    /// The file's number.
    pub file_number: FileNumber,
    /// The thread that flushes.
    pub thread_id: u64,
    /// Unique among the flushes and compactions of one opening.
    pub job_id: u64,
    /// Writers of the family are slowed down because level 0 has too many files.
    pub triggered_writes_slowdown: bool,
    /// Writers of the family are stopped because level 0 has too many files.
    pub triggered_writes_stop: bool,
    /// Oldest sequence number in the table.
    pub smallest_seqno: SequenceNumber,
    /// Newest sequence number in the table.
    pub largest_seqno: SequenceNumber,
    /// Bytes of the table; 0 at the beginning.
    pub file_size: u64,
    /// Entries in the table; 0 at the beginning.
    pub num_entries: u64,
    /// The reason for the flush.
    pub flush_reason: FlushReason,
    /// The oldest blob file that the table refers to.
    pub oldest_blob_file_number: Option<FileNumber>,
    /// Properties of the table; empty at the beginning.
    pub table_properties: TableProperties,
    /// Compression of blob files.
    pub blob_compression_type: CompressionType,
    /// The blob files that the flush has made.
    pub blob_file_addition_infos: Vec<BlobFileAdditionInfo>,
}

/// A blob file that a flush or compaction has made.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BlobFileAdditionInfo {
    /// The file.
    pub blob_file_path: PathBuf,
    /// The file's number.
    pub blob_file_number: FileNumber,
    /// Number of its blobs.
    pub total_blob_count: u64,
    /// Bytes of its blobs, with their headers.
    pub total_blob_bytes: u64,
}

/// Blobs that a compaction has made garbage, in one file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BlobFileGarbageInfo {
    /// The file.
    pub blob_file_path: PathBuf,
    /// The file's number.
    pub blob_file_number: FileNumber,
    /// Number of the garbage blobs.
    pub garbage_blob_count: u64,
    /// Bytes of the garbage blobs, with their headers.
    pub garbage_blob_bytes: u64,
}

/// One family of a manual flush.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManualFlushInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// The reason for the flush.
    pub flush_reason: FlushReason,
}

/// One file of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompactionFileInfo {
    /// The file's level.
    pub level: usize,
    /// The file's number.
    pub file_number: FileNumber,
    /// The oldest blob file that it refers to.
    pub oldest_blob_file_number: Option<FileNumber>,
}

/// One compaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CompactionJobInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// The result; `Ok` at the beginning.
    pub status: Result<(), Error>,
    /// The thread that leads the compaction.
    pub thread_id: u64,
    /// Unique among the flushes and compactions of one opening.
    pub job_id: u64,
    /// Number of files in level 0 before the compaction.
    pub num_l0_files: usize,
    /// The first level of the inputs.
    pub base_input_level: usize,
    /// The level of the outputs.
    pub output_level: usize,
    /// Inputs, with their levels.
    pub input_file_infos: Vec<CompactionFileInfo>,
    /// Paths of the inputs, in the same order.
    pub input_files: Vec<PathBuf>,
    /// Outputs, with their levels; empty at the beginning.
    pub output_file_infos: Vec<CompactionFileInfo>,
    /// Paths of the outputs, in the same order.
    pub output_files: Vec<PathBuf>,
    /// The reason for the compaction.
    pub compaction_reason: CompactionReason,
    /// Compression of the outputs.
    pub compression: CompressionType,
    /// Counts of the compaction's work; zero at the beginning.
    pub stats: CompactionJobStats,
    /// Whether the job was cancelled on request.
    pub aborted: bool,
    /// Whether the inputs are all files of the family.
    pub is_full_compaction: bool,
    /// Whether a caller requested it.
    pub is_manual_compaction: bool,
    /// Whether a worker of the `compaction_service` ran it, or a part of it. When it begins:
    /// whether there is such a service.
    pub is_remote_compaction: bool,
    /// Properties of inputs and outputs, by path; without tables that cannot be opened.
    pub table_properties: BTreeMap<PathBuf, TableProperties>,
    /// The first 8 bytes of the smallest user key of the outputs.
    pub smallest_output_key_prefix: Vec<u8>,
    /// The first 8 bytes of the largest user key of the outputs.
    pub largest_output_key_prefix: Vec<u8>,
    /// Compression of blob files.
    pub blob_compression_type: CompressionType,
    /// The blob files that it has made.
    pub blob_file_addition_infos: Vec<BlobFileAdditionInfo>,
    /// The garbage that the job has made, by blob file.
    pub blob_file_garbage_infos: Vec<BlobFileGarbageInfo>,
}

/// One key range of a compaction.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SubcompactionJobInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// The result; `Ok` at the beginning.
    pub status: Result<(), Error>,
    /// The thread that compacts it.
    pub thread_id: u64,
    /// The compaction's number.
    pub job_id: u64,
    /// Its own number within the compaction.
    pub subcompaction_job_id: usize,
    /// The first level of the inputs.
    pub base_input_level: usize,
    /// The level of the outputs.
    pub output_level: usize,
    /// The reason for the compaction.
    pub compaction_reason: CompactionReason,
    /// Compression of the outputs.
    pub compression: CompressionType,
    /// Counts of the compaction's work; zero at the beginning.
    pub stats: CompactionJobStats,
    /// Compression of blob files.
    pub blob_compression_type: CompressionType,
}

/// A table file about to be written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFileCreationBriefInfo {
    /// The database's directory.
    pub db_name: String,
    /// The family's name.
    pub cf_name: String,
    /// The file.
    pub file_path: PathBuf,
    /// The job that writes it.
    pub job_id: u64,
    /// The reason for the file.
    pub reason: TableFileCreationReason,
}

/// A table file that was written, or failed to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFileCreationInfo {
    /// The facts known before writing.
    pub brief: TableFileCreationBriefInfo,
    /// Bytes of the file.
    pub file_size: u64,
    /// Entries in it.
    pub num_entries: u64,
    /// Its properties, and in `readable_properties` those that only collectors know; empty after a
    /// failure.
    pub table_properties: TableProperties,
    /// The result.
    pub status: Result<(), Error>,
}

/// A table file that was deleted, or failed to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableFileDeletionInfo {
    /// The database's directory.
    pub db_name: String,
    /// The file.
    pub file_path: PathBuf,
    /// The job that deletes it.
    pub job_id: u64,
    /// The result.
    pub status: Result<(), Error>,
}

/// A blob file about to be written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlobFileCreationBriefInfo {
    /// The database's directory.
    pub db_name: String,
    /// The family's name.
    pub cf_name: String,
    /// The file.
    pub file_path: PathBuf,
    /// The job that writes it.
    pub job_id: u64,
    /// The reason for the file.
    pub reason: TableFileCreationReason,
}

/// A blob file that was written, or failed to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlobFileCreationInfo {
    /// The facts known before writing.
    pub brief: BlobFileCreationBriefInfo,
    /// Number of its blobs; 0 after an error.
    pub total_blob_count: u64,
    /// Bytes of its blobs, with their headers; 0 after an error.
    pub total_blob_bytes: u64,
    /// The result.
    pub status: Result<(), Error>,
    /// Checksum of the whole file; empty without a `file_checksum_gen_factory`.
    pub file_checksum: Vec<u8>,
    /// Name of its function.
    pub file_checksum_func_name: String,
}

/// A blob file that was deleted, or failed to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BlobFileDeletionInfo {
    /// The database's directory.
    pub db_name: String,
    /// The file.
    pub file_path: PathBuf,
    /// The job that deletes it.
    pub job_id: u64,
    /// The result.
    pub status: Result<(), Error>,
}

/// A memtable made immutable.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemTableInfo {
    /// The family's name.
    pub cf_name: String,
    /// The first sequence number inserted; 0 if it is empty.
    pub first_seqno: SequenceNumber,
    /// No entry is older than this.
    pub earliest_seqno: SequenceNumber,
    /// Number of entries.
    pub num_entries: u64,
    /// Deletions among them.
    pub num_deletes: u64,
    /// The newest user-defined timestamp in it, if flushes leave timestamps out
    /// (`persist_user_defined_timestamps` is false); else empty.
    pub newest_udt: Vec<u8>,
}

/// A file that was ingested.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExternalFileIngestionInfo {
    /// The family's name.
    pub cf_name: String,
    /// Its path before the ingestion.
    pub external_file_path: PathBuf,
    /// Its path in the database.
    pub internal_file_path: PathBuf,
    /// The sequence number it was given; 0 for none.
    pub global_seqno: SequenceNumber,
    /// Properties of the table.
    pub table_properties: TableProperties,
}

/// A change in how a family's writers are slowed down.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteStallInfo {
    /// The family's name.
    pub cf_name: String,
    /// The condition now.
    pub cur: WriteStallCondition,
    /// The condition before.
    pub prev: WriteStallCondition,
}

/// The end of a recovery from a background error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundErrorRecoveryInfo {
    /// The error that was lifted.
    pub old_bg_error: Error,
    /// The error that remains; `None` if the recovery succeeded.
    pub new_bg_error: Option<Error>,
}
