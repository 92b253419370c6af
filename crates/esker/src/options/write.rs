//! Options of writes and of manual work: `WriteOptions`, `FlushOptions`, `CompactRangeOptions` and
//! so on.
//!
//! Source: RocksDB `include/rocksdb/options.h`.

use super::CompressionType;
use super::value::option_enum;
use crate::observe::Temperature;
use esker_base::sync::Arc;
use esker_base::sync::atomic::AtomicBool;
use esker_env::IoPriority;
use std::time::Duration;

/// Options of one write.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// use esker::WriteOptions;
///
/// let options = WriteOptions::new()
///     .sync(false)
///     .disable_wal(false)
///     .no_slowdown(true)
///     .low_pri(true)
///     .protection_bytes_per_key(8);
/// db.put_opt(&options, &db.default_column_family(), "esker", "gravel")?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteOptions {
    /// Return only when the WAL is on the medium. Default false: the write survives a crash of the
    /// process, but not of the machine.
    pub sync: bool,
    /// Do not write to the WAL: a crash loses the write unless it was flushed. Refused with
    /// `recycle_log_file_num` > 0, whose recovery needs sequence numbers without gaps. Default
    /// false.
    pub disable_wal: bool,
    /// Fail with `Incomplete` instead of waiting for background work. Default false.
    pub no_slowdown: bool,
    /// Give way to other writes when compaction is behind. Default false.
    pub low_pri: bool,
    /// Skip operations of a batch on families that do not exist. Default false: `InvalidArgument`.
    pub ignore_missing_column_families: bool,
    /// Accepted without effect: the memtable keeps its own hints. Default false.
    pub memtable_insert_hint_per_batch: bool,
    /// Bytes of a checksum for each entry of the batch, 0 or 8: computed before the write joins
    /// others, checked when the batch goes into the WAL and into the memtable. A batch made with
    /// `WriteBatch::with_protection` is checked in any case. Default 0.
    pub protection_bytes_per_key: usize,
    /// Accepted without effect: writes to the WAL never wait for a rate limiter. Default `None`.
    pub rate_limiter_priority: Option<IoPriority>,
}

impl WriteOptions {
    /// All defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `sync`.
    #[must_use]
    pub fn sync(mut self, value: bool) -> Self {
        self.sync = value;
        self
    }

    /// Sets `disable_wal`.
    #[must_use]
    pub fn disable_wal(mut self, value: bool) -> Self {
        self.disable_wal = value;
        self
    }

    /// Sets `no_slowdown`.
    #[must_use]
    pub fn no_slowdown(mut self, value: bool) -> Self {
        self.no_slowdown = value;
        self
    }

    /// Sets `protection_bytes_per_key`.
    #[must_use]
    pub fn protection_bytes_per_key(mut self, value: usize) -> Self {
        self.protection_bytes_per_key = value;
        self
    }

    /// Sets `low_pri`.
    #[must_use]
    pub fn low_pri(mut self, value: bool) -> Self {
        self.low_pri = value;
        self
    }
}

esker_base::setters! {
    WriteOptions {
        ignore_missing_column_families: bool;
        memtable_insert_hint_per_batch: bool;
        optional rate_limiter_priority: IoPriority;
    }
}

/// Options of `flush`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushOptions {
    /// Return when the flush is done. Default true.
    pub wait: bool,
    /// Flush at once even if that stalls writers. Default false: the flush waits until it would
    /// not.
    pub allow_write_stall: bool,
    /// With `wait`: return when listeners were notified of the end of the flush, too. Do not set it
    /// in a listener, which would wait for itself. Default false.
    pub listener_wait: bool,
    /// Flush the given families as one: after a crash all of them have their tables, or none. With
    /// the database's `atomic_flush` every flush is like that. Default false.
    pub force_atomic_flush: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        FlushOptions { wait: true, allow_write_stall: false, listener_wait: false, force_atomic_flush: false }
    }
}

esker_base::setters! {
    FlushOptions {
        wait: bool;
        allow_write_stall: bool;
        listener_wait: bool;
        force_atomic_flush: bool;
    }
}

/// Options of `ingest_external_file`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IngestExternalFileOptions {
    /// Hard-link the file and remove its old name. Default false: the file is copied.
    pub move_files: bool,
    /// Hard-link the file and keep its old name. Not together with `move_files`. Default false.
    pub link_files: bool,
    /// With `move_files` or `link_files`: copy if the file system cannot link the file. Default
    /// true.
    pub failed_move_fall_back_to_copy: bool,
    /// Existing snapshots do not see the files. Default true. False has an effect only if
    /// `allow_global_seqno` is off, too: existing snapshots and iterators may then see the files.
    pub snapshot_consistency: bool,
    /// Files may get a sequence number. If false, they must not overlap existing keys, and
    /// snapshots see them. Default true.
    pub allow_global_seqno: bool,
    /// Overlapping memtables are flushed while writers wait. If false, an overlap with memtables is
    /// an error. Default true.
    pub allow_blocking_flush: bool,
    /// Put the files behind all data: of a key that the family has written or deleted before, they
    /// change nothing. After a single deletion of the key, the result is undefined, as after two
    /// puts. They go into the last level with sequence number 0, so existing snapshots
    /// and iterators may see them, and they must not overlap files there. The family needs
    /// `cf_allow_ingest_behind`, and must have had it since its creation: otherwise the call may
    /// fail. Default false.
    pub ingest_behind: bool,
    /// Write the sequence number into the file. Not supported: the MANIFEST has it. Default false.
    pub write_global_seqno: bool,
    /// Check every block of the files first. Default false.
    pub verify_checksums_before_ingest: bool,
    /// Compute the checksums of files that come with one, and compare. If false, the given
    /// checksums are trusted. Only with `file_checksum_gen_factory`. Default true.
    pub verify_file_checksum: bool,
    /// Fail if a file does not fit into the last level. Default false.
    pub fail_if_not_bottommost_level: bool,
    /// Take tables that a database wrote, with their sequence numbers. Default false.
    ///
    /// The files may overlap each other, but not the database. Of files with a common key, the
    /// caller names the one with the older entries first: deeper levels before upper ones, and in
    /// level 0 older files before newer ones. `allow_global_seqno` has no effect. Each file is read
    /// once more, to find its sequence numbers and to refuse values that are in blob files. A
    /// snapshot that is taken during the call may see a part of the entries. Under `WritePrepared`
    /// and `WriteUnprepared` the call gives `TryAgain` while a transaction that has not ended, or
    /// that a live snapshot does not see, has one of the sequence numbers.
    pub allow_db_generated_files: bool,
}

impl Default for IngestExternalFileOptions {
    fn default() -> Self {
        IngestExternalFileOptions {
            move_files: false,
            link_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            write_global_seqno: false,
            verify_checksums_before_ingest: false,
            verify_file_checksum: true,
            fail_if_not_bottommost_level: false,
            allow_db_generated_files: false,
        }
    }
}

esker_base::setters! {
    IngestExternalFileOptions {
        move_files: bool;
        link_files: bool;
        failed_move_fall_back_to_copy: bool;
        snapshot_consistency: bool;
        allow_global_seqno: bool;
        allow_blocking_flush: bool;
        ingest_behind: bool;
        write_global_seqno: bool;
        verify_checksums_before_ingest: bool;
        verify_file_checksum: bool;
        fail_if_not_bottommost_level: bool;
        allow_db_generated_files: bool;
    }
}

/// Options of `create_column_family_with_import`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ImportColumnFamilyOptions {
    /// Hard-link the files and remove their old names. Default false: the files are copied.
    pub move_files: bool,
}

esker_base::setters! {
    ImportColumnFamilyOptions {
        move_files: bool;
    }
}

option_enum! {
    /// Whether a manual compaction rewrites the last level.
    #[derive(Default)]
    pub enum BottommostLevelCompaction {
        /// Leave the last level as it is.
        Skip = 0, "kSkip";
        /// Rewrite the last level if there is a compaction filter.
        #[default]
        IfHaveCompactionFilter = 1, "kIfHaveCompactionFilter";
        /// Rewrite the last level.
        Force = 2, "kForce";
        /// Rewrite the last level, except files that this call has written.
        ForceOptimized = 3, "kForceOptimized";
    }
}

option_enum! {
    /// Whether a manual compaction moves values out of the oldest blob files.
    #[derive(Default)]
    pub enum BlobGarbageCollectionPolicy {
        /// Move them, whatever `enable_blob_garbage_collection` says.
        Force = 0, "kForce";
        /// Leave them where they are.
        Disable = 1, "kDisable";
        /// As `enable_blob_garbage_collection` says.
        #[default]
        UseDefault = 2, "kUseDefault";
    }
}

/// A range of keys, without timestamps. The call that takes the range says whether `limit` belongs
/// to it. RocksDB's `RangeOpt`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeOpt<'a> {
    /// The first key; `None`: from the start.
    pub start: Option<&'a [u8]>,
    /// The last key; `None`: to the end.
    pub limit: Option<&'a [u8]>,
}

esker_base::debug_with_text!(RangeOpt<'_> {
    text start,
    text limit,
});

/// Options of `compact_range`.
#[derive(Clone)]
pub struct CompactRangeOptions {
    /// Let no other compaction of the database run meanwhile. Default false.
    pub exclusive_manual_compaction: bool,
    /// Afterwards move all files of the deepest compacted level to another level. Default false.
    pub change_level: bool,
    /// With `change_level`: the level to move to; all levels on the way must be empty. -1: the
    /// uppermost such level that is large enough. Default -1.
    pub target_level: i32,
    /// Whether to rewrite the last level. Default `IfHaveCompactionFilter`.
    pub bottommost_level_compaction: BottommostLevelCompaction,
    /// Flush at once even if that makes writers wait. Default false.
    pub allow_write_stall: bool,
    /// Threads for each compaction; 0: as `max_subcompactions`. Default 0.
    pub max_subcompactions: u32,
    /// The path id, an index into `cf_paths` or `db_paths`, that the compaction writes to;
    /// [`CompactRangeOptions::PATH_OF_LEVEL`]: the path that automatic compactions choose. Default
    /// 0.
    pub target_path_id: u32,
    /// In families with user-defined timestamps: first raise `full_history_ts_low` to this, so that
    /// versions for older reads are dropped. Default `None`.
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether the compaction moves values out of the oldest blob files. It moves those of the
    /// tables that it rewrites: see `bottommost_level_compaction`. Default `UseDefault`.
    pub blob_garbage_collection_policy: BlobGarbageCollectionPolicy,
    /// Fraction of blob files that counts as oldest, from 0 to 1; any other number: as the family's
    /// option says. Default -1.
    pub blob_garbage_collection_age_cutoff: f64,
    /// Set it to end the compaction with `Incomplete(ManualCompactionPaused)`. Finished parts stay.
    /// [`Db::disable_manual_compaction`](crate::Db::disable_manual_compaction) sets it, too.
    /// Default `None`.
    pub canceled: Option<Arc<AtomicBool>>,
}

esker_base::debug_with_text!(CompactRangeOptions {
    exclusive_manual_compaction,
    change_level,
    target_level,
    bottommost_level_compaction,
    allow_write_stall,
    max_subcompactions,
    target_path_id,
    text full_history_ts_low,
    blob_garbage_collection_policy,
    blob_garbage_collection_age_cutoff,
    canceled,
});

impl Default for CompactRangeOptions {
    fn default() -> Self {
        CompactRangeOptions {
            exclusive_manual_compaction: false,
            change_level: false,
            target_level: -1,
            bottommost_level_compaction: BottommostLevelCompaction::default(),
            allow_write_stall: false,
            max_subcompactions: 0,
            target_path_id: 0,
            full_history_ts_low: None,
            blob_garbage_collection_policy: BlobGarbageCollectionPolicy::default(),
            blob_garbage_collection_age_cutoff: -1.0,
            canceled: None,
        }
    }
}

esker_base::setters! {
    CompactRangeOptions {
        exclusive_manual_compaction: bool;
        change_level: bool;
        target_level: i32;
        bottommost_level_compaction: BottommostLevelCompaction;
        allow_write_stall: bool;
        max_subcompactions: u32;
        target_path_id: u32;
        optional full_history_ts_low: Vec<u8>;
        blob_garbage_collection_policy: BlobGarbageCollectionPolicy;
        blob_garbage_collection_age_cutoff: f64;
        optional canceled: Arc<AtomicBool>;
    }
}

impl CompactRangeOptions {
    /// Esker's own value of `target_path_id`: the path that automatic compactions choose, by level
    /// or (in the universal style) by size.
    pub const PATH_OF_LEVEL: u32 = u32::MAX;
}

/// Options of `compact_files`.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// The compression of the outputs. `None`: as the family's options say for their level. Default
    /// `None`.
    pub compression: Option<CompressionType>,
    /// The temperature of the outputs. `Unknown`: as the family's options say. Default `Unknown`.
    pub output_temperature_override: Temperature,
    /// Move files that need no rewrite to the output level, unless `compression` or
    /// `output_temperature_override` is given, or the family has a compaction filter. Default
    /// false.
    pub allow_trivial_move: bool,
    /// Bytes at which an output file ends; an output in level 0 is always one file. Default
    /// `u64::MAX`.
    pub output_file_size_limit: u64,
    /// Threads of the compaction; 0: as `DbOptions::max_subcompactions`. Default 0.
    pub max_subcompactions: u32,
    /// The path id that the compaction writes to. `None`: the path that automatic compactions
    /// choose; RocksDB refuses the call if there are several paths. Default `None`.
    pub output_path_id: Option<u32>,
    /// Set it to end the compaction with `Incomplete(ManualCompactionPaused)`; its inputs stay.
    /// [`Db::disable_manual_compaction`](crate::Db::disable_manual_compaction) sets it, too.
    /// Default `None`.
    pub canceled: Option<Arc<AtomicBool>>,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        CompactionOptions {
            compression: None,
            output_temperature_override: Temperature::Unknown,
            allow_trivial_move: false,
            output_file_size_limit: u64::MAX,
            max_subcompactions: 0,
            output_path_id: None,
            canceled: None,
        }
    }
}

esker_base::setters! {
    CompactionOptions {
        optional compression: CompressionType;
        output_temperature_override: Temperature;
        allow_trivial_move: bool;
        output_file_size_limit: u64;
        max_subcompactions: u32;
        optional output_path_id: u32;
        optional canceled: Arc<AtomicBool>;
    }
}

/// The parts of [`Db::approximate_sizes`](crate::Db::approximate_sizes), at least one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeApproximationOptions {
    /// Count memtables. Default false.
    pub include_memtables: bool,
    /// Count tables. Default true.
    pub include_files: bool,
    /// Count blob files: of their bytes the share that the range has of the tables. Default false.
    pub include_blob_files: bool,
    /// If positive: tables that begin or end within a range count half, unless they have more than
    /// this fraction of the bytes of tables that lie within it as a whole. That saves searches in
    /// indexes. Default -1.
    pub files_size_error_margin: f64,
}

impl Default for SizeApproximationOptions {
    fn default() -> Self {
        SizeApproximationOptions {
            include_memtables: false,
            include_files: true,
            include_blob_files: false,
            files_size_error_margin: -1.0,
        }
    }
}

esker_base::setters! {
    SizeApproximationOptions {
        include_memtables: bool;
        include_files: bool;
        include_blob_files: bool;
        files_size_error_margin: f64;
    }
}

/// Options of `live_files_storage_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LiveFilesStorageInfoOptions {
    /// Give checksums of tables and blob files. Default false.
    pub include_checksum_info: bool,
    /// Flush memtables first if the WALs have this many bytes or more. Default 0: always.
    pub wal_size_for_flush: u64,
    /// Accepted without effect: the list is always one point in time of all families. Default
    /// false.
    pub atomic_flush: bool,
}

esker_base::setters! {
    LiveFilesStorageInfoOptions {
        include_checksum_info: bool;
        wal_size_for_flush: u64;
        atomic_flush: bool;
    }
}

/// Options of `wait_for_compact`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitForCompactOptions {
    /// End with `Aborted` while background work is paused, instead of waiting until it continues.
    /// Default false.
    pub abort_on_pause: bool,
    /// Flush the memtables of all families first. Default false.
    pub flush: bool,
    /// Wait for the deletion of obsolete files, too. Default false.
    pub wait_for_purge: bool,
    /// Close the database when nothing is left to do. Default false.
    pub close_db: bool,
    /// The longest wait; zero: without end. Default zero.
    pub timeout: Duration,
}

esker_base::setters! {
    WaitForCompactOptions {
        abort_on_pause: bool;
        flush: bool;
        wait_for_purge: bool;
        close_db: bool;
        timeout: Duration;
    }
}
