//! Events, told to the user while they happen.
//!
//! In: the info structs below, filled by whoever does the work. Out: calls to the listeners in
//! `DbOptions::listeners`, in their order. Source: RocksDB `include/rocksdb/listener.h`.
//!
//! Invariants
//!  1. No lock of the database is held during a call; a listener may call the database, but must
//!     not wait for background work (a flush, a compaction, close) or it waits for itself. Sealed
//!     memtables, stalls and errors are told by writers, too, before their write is done: a
//!     listener that writes then waits for itself as well, as with RocksDB.
//!  2. A listener that panics takes its background thread's job down: it must not panic.

use super::compaction_stats::CompactionJobStats;
use super::reason::{
    BackgroundErrorReason, CompactionReason, FlushReason, TableFileCreationReason, WriteStallCondition,
};
use esker_base::{ColumnFamilyId, Error, FileNumber, SequenceNumber};
use esker_format::compression::CompressionType;
use std::fmt;
use std::path::PathBuf;

/// Told of what happens. Every method does nothing by default.
pub trait EventListener: Send + Sync {
    /// A flush begins: the memtables are chosen.
    fn on_flush_begin(&self, _info: &FlushJobInfo) {}
    /// A flush is installed: its file is live.
    fn on_flush_completed(&self, _info: &FlushJobInfo) {}
    /// A flush that somebody waits for, or has asked for, is scheduled for these families.
    fn on_manual_flush_scheduled(&self, _info: &[ManualFlushInfo]) {}
    /// A compaction begins; moves of whole files are told too.
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {}
    /// A compaction's outputs are complete but not installed yet.
    fn on_compaction_pre_commit(&self, _info: &CompactionJobInfo) {}
    /// A compaction is installed, or failed: see `status`.
    fn on_compaction_completed(&self, _info: &CompactionJobInfo) {}
    /// One key range of a compaction begins, on the thread that will do it.
    fn on_subcompaction_begin(&self, _info: &SubcompactionJobInfo) {}
    /// One key range of a compaction is done.
    fn on_subcompaction_completed(&self, _info: &SubcompactionJobInfo) {}
    /// A table file is about to be written.
    fn on_table_file_creation_started(&self, _info: &TableFileCreationBriefInfo) {}
    /// A table file was written, or writing it failed: see `status`.
    fn on_table_file_created(&self, _info: &TableFileCreationInfo) {}
    /// A table file was deleted.
    fn on_table_file_deleted(&self, _info: &TableFileDeletionInfo) {}
    /// A memtable was made immutable.
    fn on_memtable_sealed(&self, _info: &MemTableInfo) {}
    /// A file from outside is live.
    fn on_external_file_ingested(&self, _info: &ExternalFileIngestionInfo) {}
    /// Background work failed. Setting `error` to `None` makes the database go on: a flush or
    /// compaction is tried again after a second, and whoever waits for it has the error. What must
    /// not be gone on from (a failed write to a WAL or a memtable, a job that panicked) is in force
    /// all the same. Setting it to another error replaces it.
    fn on_background_error(&self, _reason: BackgroundErrorReason, _error: &mut Option<Error>) {}
    /// Writers are slowed down, stopped, or free again.
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
    /// The database begins to close, or to cancel its background work; told once. Jobs may still
    /// run, and be told of.
    fn on_db_shutdown_begin(&self) {}
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

/// One flush.
#[derive(Clone, Debug)]
pub struct FlushJobInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// The table made; empty at the beginning if none is chosen yet.
    pub file_path: PathBuf,
    /// Its number.
    pub file_number: FileNumber,
    /// The thread that flushes.
    pub thread_id: u64,
    /// Unique among the flushes and compactions of one opening.
    pub job_id: u64,
    /// Writers of the family are slowed down, for level 0 has too many files.
    pub triggered_writes_slowdown: bool,
    /// Writers of the family are stopped, for level 0 has too many files.
    pub triggered_writes_stop: bool,
    /// Oldest sequence number in the table.
    pub smallest_seqno: SequenceNumber,
    /// Newest sequence number in the table.
    pub largest_seqno: SequenceNumber,
    /// Bytes of the table; 0 at the beginning.
    pub file_size: u64,
    /// Entries in the table; 0 at the beginning.
    pub num_entries: u64,
    /// Why.
    pub flush_reason: FlushReason,
}

/// One family of a manual flush.
#[derive(Clone, Debug)]
pub struct ManualFlushInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// Why.
    pub flush_reason: FlushReason,
}

/// One file of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactionFileInfo {
    /// Its level.
    pub level: usize,
    /// Its number.
    pub file_number: FileNumber,
}

/// One compaction.
#[derive(Clone, Debug)]
pub struct CompactionJobInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// How it went; `Ok` at the beginning.
    pub status: Result<(), Error>,
    /// The thread that leads it.
    pub thread_id: u64,
    /// Unique among the flushes and compactions of one opening.
    pub job_id: u64,
    /// Files in level 0 before.
    pub num_l0_files: usize,
    /// The first level of the inputs.
    pub base_input_level: usize,
    /// Where the outputs go.
    pub output_level: usize,
    /// Inputs, with their levels.
    pub input_file_infos: Vec<CompactionFileInfo>,
    /// Paths of the inputs, in the same order.
    pub input_files: Vec<PathBuf>,
    /// Outputs, with their levels; empty at the beginning.
    pub output_file_infos: Vec<CompactionFileInfo>,
    /// Paths of the outputs, in the same order.
    pub output_files: Vec<PathBuf>,
    /// Why.
    pub compaction_reason: CompactionReason,
    /// Compression of the outputs.
    pub compression: CompressionType,
    /// What was done; zero at the beginning.
    pub stats: CompactionJobStats,
    /// Given up on request, not failed.
    pub aborted: bool,
}

/// One key range of a compaction.
#[derive(Clone, Debug)]
pub struct SubcompactionJobInfo {
    /// The family's id.
    pub cf_id: ColumnFamilyId,
    /// The family's name.
    pub cf_name: String,
    /// How it went; `Ok` at the beginning.
    pub status: Result<(), Error>,
    /// The thread that does it.
    pub thread_id: u64,
    /// The compaction's number.
    pub job_id: u64,
    /// Its own number within the compaction.
    pub subcompaction_job_id: usize,
    /// The first level of the inputs.
    pub base_input_level: usize,
    /// Where the outputs go.
    pub output_level: usize,
    /// Why.
    pub compaction_reason: CompactionReason,
    /// Compression of the outputs.
    pub compression: CompressionType,
    /// What was done; zero at the beginning.
    pub stats: CompactionJobStats,
}

/// A table file about to be written.
#[derive(Clone, Debug)]
pub struct TableFileCreationBriefInfo {
    /// The database's directory.
    pub db_name: String,
    /// The family's name.
    pub cf_name: String,
    /// The file.
    pub file_path: PathBuf,
    /// Which job writes it.
    pub job_id: u64,
    /// Why.
    pub reason: TableFileCreationReason,
}

/// A table file written, or not.
#[derive(Clone, Debug)]
pub struct TableFileCreationInfo {
    /// What was known before.
    pub brief: TableFileCreationBriefInfo,
    /// Bytes of the file.
    pub file_size: u64,
    /// Entries in it.
    pub num_entries: u64,
    /// How it went.
    pub status: Result<(), Error>,
}

/// A table file deleted, or not.
#[derive(Clone, Debug)]
pub struct TableFileDeletionInfo {
    /// The database's directory.
    pub db_name: String,
    /// The file.
    pub file_path: PathBuf,
    /// Which job deletes it.
    pub job_id: u64,
    /// How it went.
    pub status: Result<(), Error>,
}

/// A memtable made immutable.
#[derive(Clone, Debug)]
pub struct MemTableInfo {
    /// The family's name.
    pub cf_name: String,
    /// The first sequence number inserted; 0 if it is empty.
    pub first_seqno: SequenceNumber,
    /// No entry is older than this.
    pub earliest_seqno: SequenceNumber,
    /// Entries.
    pub num_entries: u64,
    /// Deletions among them.
    pub num_deletes: u64,
}

/// A file from outside.
#[derive(Clone, Debug)]
pub struct ExternalFileIngestionInfo {
    /// The family's name.
    pub cf_name: String,
    /// Where it was.
    pub external_file_path: PathBuf,
    /// Where it is.
    pub internal_file_path: PathBuf,
    /// The sequence number it was given; 0 for none.
    pub global_seqno: SequenceNumber,
}

/// Writers of a family feel something else than before.
#[derive(Clone, Debug)]
pub struct WriteStallInfo {
    /// The family's name.
    pub cf_name: String,
    /// What they feel now.
    pub cur: WriteStallCondition,
    /// What they felt before.
    pub prev: WriteStallCondition,
}

/// Recovery from a background error, ended.
#[derive(Clone, Debug)]
pub struct BackgroundErrorRecoveryInfo {
    /// What it recovered from.
    pub old_bg_error: Error,
    /// What is left; `None` if nothing.
    pub new_bg_error: Option<Error>,
}
