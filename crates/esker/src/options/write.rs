//! Options of writes and of work asked for by hand: `WriteOptions`, `FlushOptions`,
//! `CompactRangeOptions` and so on.
//!
//! Source: RocksDB `include/rocksdb/options.h`.

use super::value::option_enum;
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
    /// Return only when the WAL is on the medium. Default false: survives the process, not the
    /// machine.
    pub sync: bool,
    /// Do not write to the WAL: lost unless flushed. Refused with `recycle_log_file_num` > 0, whose
    /// recovery needs sequence numbers without gaps. Default false.
    pub disable_wal: bool,
    /// `Incomplete` where the write would have to wait for background work. Default false.
    pub no_slowdown: bool,
    /// Give way to other writes when compaction is behind. Default false.
    pub low_pri: bool,
    /// Skip what a batch says about families that do not exist. Default false: `InvalidArgument`.
    pub ignore_missing_column_families: bool,
    /// Accepted without effect: the memtable keeps its own hints. Default false.
    pub memtable_insert_hint_per_batch: bool,
    /// Bytes of a checksum for each entry of the batch, 0 or 8: made before the write joins others,
    /// compared when the batch goes into the WAL and into the memtable. A batch made with
    /// `WriteBatch::with_protection` is compared in any case. Default 0.
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
    /// Flush at once even if that makes writers wait. Default false: the flush itself waits first.
    pub allow_write_stall: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        FlushOptions { wait: true, allow_write_stall: false }
    }
}

esker_base::setters! {
    FlushOptions {
        wait: bool;
        allow_write_stall: bool;
    }
}

/// Options of `ingest_external_file`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IngestExternalFileOptions {
    /// Take the file over by a hard link and remove its old name. Default false: it is copied.
    pub move_files: bool,
    /// With `move_files`: copy where the file system has no link between the two. Default true.
    pub failed_move_fall_back_to_copy: bool,
    /// Snapshots taken before do not see the files. Default true. Without, they may, and iterators:
    /// only if `allow_global_seqno` is off, too.
    pub snapshot_consistency: bool,
    /// Files may be given a sequence number; without, they may overlap nothing, and snapshots see
    /// them. Default true.
    pub allow_global_seqno: bool,
    /// Memtables that overlap are flushed, while writers wait; without, overlapping them is an
    /// error. Default true.
    pub allow_blocking_flush: bool,
    /// Put the files below everything else. Not supported. Default false.
    pub ingest_behind: bool,
    /// Write the sequence number into the file. Not supported: the MANIFEST has it. Default false.
    pub write_global_seqno: bool,
    /// Check every block of the files first. Default false.
    pub verify_checksums_before_ingest: bool,
    /// Make the checksums of files that come with one, and compare; without, they are taken as they
    /// are said. Only with `file_checksum_gen_factory`. Default true.
    pub verify_file_checksum: bool,
    /// Fail if a file does not fit into the last level. Default false.
    pub fail_if_not_bottommost_level: bool,
}

impl Default for IngestExternalFileOptions {
    fn default() -> Self {
        IngestExternalFileOptions {
            move_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            ingest_behind: false,
            write_global_seqno: false,
            verify_checksums_before_ingest: false,
            verify_file_checksum: true,
            fail_if_not_bottommost_level: false,
        }
    }
}

esker_base::setters! {
    IngestExternalFileOptions {
        move_files: bool;
        failed_move_fall_back_to_copy: bool;
        snapshot_consistency: bool;
        allow_global_seqno: bool;
        allow_blocking_flush: bool;
        ingest_behind: bool;
        write_global_seqno: bool;
        verify_checksums_before_ingest: bool;
        verify_file_checksum: bool;
        fail_if_not_bottommost_level: bool;
    }
}

/// Options of `create_column_family_with_import`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ImportColumnFamilyOptions {
    /// Take the files over by hard links and remove their old names. Default false: they are
    /// copied.
    pub move_files: bool,
}

esker_base::setters! {
    ImportColumnFamilyOptions {
        move_files: bool;
    }
}

option_enum! {
    /// The treatment of the last level by a manual compaction.
    #[derive(Default)]
    pub enum BottommostLevelCompaction {
        /// Leave it.
        Skip = 0, "kSkip";
        /// Rewrite it if there is a compaction filter.
        #[default]
        IfHaveCompactionFilter = 1, "kIfHaveCompactionFilter";
        /// Rewrite it.
        Force = 2, "kForce";
        /// Rewrite it, except files this call has made.
        ForceOptimized = 3, "kForceOptimized";
    }
}

/// A range of keys, without timestamps. The call that takes it says whether `limit` belongs to it.
/// RocksDB's `RangeOpt`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeOpt<'a> {
    /// The first key; `None`: from the start.
    pub start: Option<&'a [u8]>,
    /// The last one; `None`: to the end.
    pub limit: Option<&'a [u8]>,
}

esker_base::debug_with_text!(RangeOpt<'_> {
    text start,
    text limit,
});

/// Options of `compact_range`.
#[derive(Clone)]
pub struct CompactRangeOptions {
    /// No other compaction of the database runs meanwhile. Default false.
    pub exclusive_manual_compaction: bool,
    /// Afterwards move all files of the level that the range ended in to another one. Default
    /// false.
    pub change_level: bool,
    /// With `change_level`: the level to move to, all levels on the way being empty; -1: the
    /// smallest that is large enough. Default -1.
    pub target_level: i32,
    /// Treatment of the last level. Default `IfHaveCompactionFilter`.
    pub bottommost_level_compaction: BottommostLevelCompaction,
    /// Flush at once even if that makes writers wait. Default false.
    pub allow_write_stall: bool,
    /// Threads for each compaction; 0: as `max_subcompactions`. Default 0.
    pub max_subcompactions: u32,
    /// The path id, an index into `cf_paths` or `db_paths`, that the compaction writes to;
    /// [`CompactRangeOptions::PATH_OF_LEVEL`]: the one that automatic compactions choose. Default
    /// 0.
    pub target_path_id: u32,
    /// In families with user-defined timestamps: raise `full_history_ts_low` to this first, so that
    /// what only older reads could come to goes. Default `None`.
    pub full_history_ts_low: Option<Vec<u8>>,
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
        optional canceled: Arc<AtomicBool>;
    }
}

impl CompactRangeOptions {
    /// Esker's own `target_path_id`: the path that automatic compactions choose, by level or, in
    /// the universal style, by size.
    pub const PATH_OF_LEVEL: u32 = u32::MAX;
}

/// Options of `compact_files`.
#[derive(Clone, Debug)]
pub struct CompactionOptions {
    /// Bytes at which an output file ends; in level 0 there is one in any case. Default `u64::MAX`.
    pub output_file_size_limit: u64,
    /// Threads; 0: as `max_subcompactions`. Default 0.
    pub max_subcompactions: u32,
    /// The path id that the compaction writes to; `None`: the one that automatic compactions
    /// choose, where RocksDB refuses the call if there is more than one. Default `None`.
    pub output_path_id: Option<u32>,
    /// Set it to end the compaction with `Incomplete(ManualCompactionPaused)`; its inputs stay.
    /// [`Db::disable_manual_compaction`](crate::Db::disable_manual_compaction) sets it, too.
    /// Default `None`.
    pub canceled: Option<Arc<AtomicBool>>,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        CompactionOptions {
            output_file_size_limit: u64::MAX,
            max_subcompactions: 0,
            output_path_id: None,
            canceled: None,
        }
    }
}

esker_base::setters! {
    CompactionOptions {
        output_file_size_limit: u64;
        max_subcompactions: u32;
        optional output_path_id: u32;
        optional canceled: Arc<AtomicBool>;
    }
}

/// Options of `live_files_storage_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LiveFilesStorageInfoOptions {
    /// Give checksums of tables and blob files. Default false.
    pub include_checksum_info: bool,
    /// Flush memtables first if the WALs have this many bytes or more. Default 0: always.
    pub wal_size_for_flush: u64,
    /// Accepted: the list is one point in time of all families whether their flush is atomic or
    /// not. Default false.
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
    /// End with `Aborted` while background work is paused, instead of waiting until it goes on.
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
