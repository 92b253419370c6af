//! Options of the whole database: RocksDB's `DBOptions`.
//!
//! Source of names and defaults: RocksDB `include/rocksdb/options.h`, `options/db_options.cc`.

use super::CompactionStyle;
use super::file_checksum::FileChecksumGenFactoryRef;
use super::hints::{CacheTier, Temperature};
use super::table::option_struct;
use super::value::option_enum;
use super::wal_filter::WalFilterRef;
use crate::observe::EventListener;
use esker_base::logger::{InfoLog, InfoLogLevel};
use esker_base::stats::Statistics;
use esker_env::{ChecksumHandoff, Env, RateLimiter, SstFileManager, WritableFile, WriteLifeTimeHint};
use esker_format::compression::CompressionType;
use esker_format::file_name::FileType;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

option_enum! {
    /// The treatment, by recovery, of a WAL that is cut off or damaged.
    #[derive(Default)]
    pub enum WalRecoveryMode {
        /// A damaged or cut-off record at the end of the newest WAL is forgiven; damage elsewhere
        /// is an error.
        TolerateCorruptedTailRecords = 0, "kTolerateCorruptedTailRecords";
        /// Any damage is an error.
        AbsoluteConsistency = 1, "kAbsoluteConsistency";
        /// Replays up to the first damage and stops there: a consistent point in time.
        #[default]
        PointInTimeRecovery = 2, "kPointInTimeRecovery";
        /// Skips damaged records and replays the others: for disaster recovery.
        SkipAnyCorruptedRecords = 3, "kSkipAnyCorruptedRecords";
    }
}

option_enum! {
    /// The oldest RocksDB that must be able to read everything that is written. An option that
    /// needs a newer one is refused by name when the database is opened.
    #[derive(Default, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum TargetVersion {
        /// RocksDB 7.8 and all later releases.
        #[default]
        V7_8 = 0, "7.8";
        /// The last release 8, and all later releases.
        V8 = 1, "8.x";
        /// The last release 9, and all later releases.
        V9 = 2, "9.x";
        /// The last release 10, and all later releases.
        V10 = 3, "10.x";
        /// RocksDB 11.9, and all later releases.
        V11 = 4, "11.x";
        /// RocksDB 11.10, and all later releases.
        V11_10 = 5, "11.10";
    }
}

/// The default of `db_host_id`, RocksDB's `kHostnameForDbHostId`.
pub const HOSTNAME_FOR_DB_HOST_ID: &str = "__hostname__";

impl DbOptions {
    /// The file, whose appends carry checksums if `checksum_handoff_file_types` says so.
    pub(crate) fn with_handoff(
        &self,
        file_type: FileType,
        file: Box<dyn WritableFile>,
    ) -> Box<dyn WritableFile> {
        match self.checksum_handoff_file_types.contains(&file_type) {
            true => Box::new(ChecksumHandoff::new(file)),
            false => file,
        }
    }

    /// The lifetime of a table in `level`: RocksDB's `CalculateSSTWriteHint`.
    pub(crate) fn sst_write_hint(
        &self,
        style: CompactionStyle,
        level: usize,
        base_level: usize,
    ) -> WriteLifeTimeHint {
        if !self.calculate_sst_write_lifetime_hint_set.contains(&style) {
            return WriteLifeTimeHint::NotSet;
        }
        match (style, level) {
            (CompactionStyle::Universal, 0) => WriteLifeTimeHint::Short,
            (CompactionStyle::Universal, 1) => WriteLifeTimeHint::Medium,
            (CompactionStyle::Universal, _) => WriteLifeTimeHint::Long,
            (CompactionStyle::Level, 0) => WriteLifeTimeHint::Medium,
            (CompactionStyle::Level, _) => match level.saturating_sub(base_level) {
                0 => WriteLifeTimeHint::Medium,
                1 => WriteLifeTimeHint::Long,
                _ => WriteLifeTimeHint::Extreme,
            },
            (CompactionStyle::Fifo | CompactionStyle::None, _) => WriteLifeTimeHint::NotSet,
        }
    }

    /// Disk bytes to reserve for a new MANIFEST.
    pub(crate) fn manifest_preallocation(&self) -> u64 {
        let bytes = self.manifest_preallocation_size.min(self.max_manifest_file_size);
        if self.allow_fallocate { bytes } else { 0 }
    }

    /// `max_manifest_space_amp_pct`; a negative value counts as 0.
    pub(crate) fn manifest_space_amp_pct(&self) -> u64 {
        u64::try_from(self.max_manifest_space_amp_pct).unwrap_or(0)
    }

    /// The host's name for the properties of tables; empty: none.
    pub(crate) fn host_in_tables(&self) -> &str {
        if self.db_host_id == HOSTNAME_FOR_DB_HOST_ID { "" } else { &self.db_host_id }
    }
}

option_struct! {
    /// Options of the whole database. Every field says its unit, its default and whether
    /// `set_db_options` may change it while the database runs.
    pub struct DbOptions: "DBOptions" {
        /// Create the database if its directory has none. Default false. Fixed.
        create_if_missing: bool = false, fixed;
        /// Create families named at open that do not exist, in a new database too. The family
        /// `default` needs no option. Default false. Fixed.
        create_missing_column_families: bool = false, fixed;
        /// Fail to open a database that exists. Default false. Fixed.
        error_if_exists: bool = false, fixed;
        /// Esker's own: the oldest RocksDB that must be able to read the database. Options that
        /// need a newer one are refused. Default "7.8". Fixed.
        compatible_with: TargetVersion = TargetVersion::default(), fixed;
        /// Check more while opening and stop writes at the first sign of damage. Default true.
        /// Fixed.
        paranoid_checks: bool = true, fixed;
        /// If tables, blob files, CURRENT or the end of the MANIFEST are missing or cut short, open
        /// the newest state of each family that has all its files, or has lost only the newest
        /// tables of level 0. WALs are not replayed then: they, and the tables and blob files that
        /// the state does not have, are moved into `lost`. The LOG names all of them. Needs a
        /// MANIFEST; without one, [`repair_db`](crate::repair_db) makes a database of the tables. A
        /// database from which nothing is missing opens as without this option. An open checks each
        /// file that the MANIFEST has ever named. An open for reading only shows the same state,
        /// and moves nothing; secondaries ignore the option. Default false. Fixed.
        ///
        /// ```
        /// # let dir = esker_testkit::TempDir::new("doc");
        /// use esker::{Db, Options};
        ///
        /// let db = Db::open_default(dir.path())?;
        /// db.put("esker", "gravel")?;
        /// db.flush()?;
        /// # drop(db);
        /// std::fs::remove_file(dir.join("CURRENT")).unwrap();
        ///
        /// let mut options = Options::default();
        /// options.db.best_efforts_recovery = true;
        /// let db = Db::open(&options, dir.path())?;
        /// assert_eq!(db.get("esker")?.as_deref(), Some(&b"gravel"[..]));
        /// # Ok::<_, esker::Error>(())
        /// ```
        best_efforts_recovery: bool = false, fixed;
        /// Attempts in a row to resume automatically after a temporary background error, as
        /// `Db::resume` does; 0 or less: none. After a full disk, attempts continue until there is
        /// space. Default: without end. Fixed.
        max_bgerror_resume_count: i32 = i32::MAX, fixed;
        /// Microseconds between two attempts to resume. Default one second. Fixed.
        bgerror_resume_retry_interval: u64 = 1_000_000, fixed;
        /// Compare a table's unique id with the MANIFEST's when it is opened. Default true. Fixed.
        verify_sst_unique_id_in_manifest: bool = true, fixed;

        /// Makes checksums of whole files as they are written; the MANIFEST keeps them,
        /// `Db::verify_file_checksums` compares them. Default `None`: none are made. Fixed.
        file_checksum_gen_factory: Option<FileChecksumGenFactoryRef> = None, fixed;

        /// Write the database's id into each MANIFEST. Openings then read it there, and checkpoints
        /// keep it. Default true. Fixed.
        write_dbid_to_manifest: bool = true, fixed;
        /// Keep the database's id in the file IDENTITY. Needed if `write_dbid_to_manifest` is off.
        /// Default true. Fixed.
        write_identity_file: bool = true, fixed;
        /// The host's name in the properties of tables; `__hostname__`: none. Default
        /// `__hostname__`. Fixed.
        db_host_id: String = HOSTNAME_FOR_DB_HOST_ID.to_owned(), fixed;

        /// Files kept open by all families together: this number less ten for WAL, MANIFEST and
        /// LOG; -1: as many as the process may have. All databases of a process leave a part of its
        /// limit (`RLIMIT_NOFILE`) to other files, and close unused files when descriptors run out.
        /// Default -1. Mutable.
        max_open_files: i32 = -1, mutable;
        /// Flushes and compactions that may run at once. Default 2. Mutable.
        max_background_jobs: i32 = 2, mutable;
        /// Compactions that may run at once; -1: derived from `max_background_jobs`. Default -1.
        /// Mutable.
        max_background_compactions: i32 = -1, mutable;
        /// Flushes that may run at once; -1: derived from `max_background_jobs`. Default -1.
        /// Mutable.
        max_background_flushes: i32 = -1, mutable;
        /// Threads that one compaction may use. Default 1. Mutable.
        max_subcompactions: u32 = 1, mutable;

        /// WAL bytes at which the families that hold back the oldest WAL are flushed. 0: four times
        /// the sum of all write buffers, as in RocksDB. If that is less, the limit is 16 MiB, 256
        /// KiB for each family with data in memory, and twice the bytes in memtables. In that case
        /// all families that hold back more than half of the limit are flushed. Default 0. Mutable.
        max_total_wal_size: u64 = 0, mutable;
        /// Directories for tables and blob files, at most 4, for all families without `cf_paths`:
        /// earlier directories hold newer data, up to their target sizes. New level-0 tables and
        /// blob files go to the first. Empty: the database's directory, which holds all other files
        /// in any case. The MANIFEST names a directory by its index in this list: never reorder the
        /// list or remove entries. The option has no text form, as in RocksDB. Default empty.
        /// Fixed.
        db_paths: Vec<super::DbPath> = Vec::new(), object;
        /// Directory of WAL files; `None`: the database's directory. Before a database with live
        /// WALs is opened with another `wal_dir`, move those WALs there. Default `None`. Fixed.
        wal_dir: Option<PathBuf> = None, fixed;
        /// Directory of LOG files. Their names contain the database's path, so several databases
        /// may share a directory; `None`: in the database's directory. Default `None`. Fixed.
        db_log_dir: Option<PathBuf> = None, fixed;
        /// Seconds after its last write that a WAL stays in the directory `archive` of the WAL
        /// directory, where [`Db::get_updates_since`](crate::Db::get_updates_since) reads it. A
        /// purge of obsolete files deletes it afterwards. 0: no bound by age. If
        /// `WAL_size_limit_MB` is 0, too, there is no archive. With an archive, no WAL is recycled.
        /// Default 0. Fixed.
        wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0, fixed;
        /// MiB of WALs in `archive`: beyond, a purge of obsolete files deletes the oldest. 0: no
        /// bound by size. Default 0. Fixed.
        wal_size_limit_mb as "WAL_size_limit_MB": u64 = 0, fixed;
        /// Old WAL files kept to be overwritten by new ones. Default 0: every RocksDB can read a
        /// WAL that is not recycled. Fixed.
        recycle_log_file_num: usize = 0, fixed;
        /// Compresses each WAL record: zstd or nothing. Every RocksDB from 7.8 on reads it. Default
        /// `None`. Fixed.
        wal_compression: CompressionType = CompressionType::None, fixed;
        /// Treatment of damaged WALs by recovery. Default `PointInTimeRecovery`. Fixed.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::default(), fixed;
        /// Do not flush replayed data at open, unless another option needs that. Default false.
        /// Fixed.
        avoid_flush_during_recovery: bool = false, fixed;
        /// Do not flush at close; data without a WAL is lost. Default false. Mutable.
        avoid_flush_during_shutdown: bool = false, mutable;
        /// Appends stay in the process until `flush_wal`. Default false. Fixed.
        manual_wal_flush: bool = false, fixed;
        /// Recover prepared transactions from the WAL, and keep WALs until those transactions are
        /// committed or rolled back. Without it, a WAL with two-phase transactions keeps the
        /// database from opening. Compactions keep entries that transactions with a snapshot need
        /// for conflict checks. `TransactionDb` turns it on. Default false. Fixed.
        allow_2pc: bool = false, fixed;
        /// Flush all families together, so that their tables always hold the same point in time.
        /// Default false. Fixed.
        atomic_flush: bool = false, fixed;

        /// Table bytes written between write-back hints; 0: the operating system decides. Default
        /// 0. Mutable.
        bytes_per_sync: u64 = 0, mutable;
        /// WAL bytes written between write-back hints; 0: the operating system decides. Default 0.
        /// Mutable.
        wal_bytes_per_sync: u64 = 0, mutable;
        /// Accepted without effect: write-back hints never wait. Default false. Mutable.
        strict_bytes_per_sync: bool = false, mutable;
        /// `fsync` in place of `fdatasync`. Default false. Fixed.
        use_fsync: bool = false, fixed;
        /// Bypass the page cache for reads of tables and blob files, by users and by compactions.
        /// The file system must have direct I/O (`O_DIRECT`). WALs and MANIFESTs are read through
        /// the page cache. Default false. Fixed.
        use_direct_reads: bool = false, fixed;
        /// Bypass the page cache for the output of flushes and compactions,
        /// `writable_file_max_buffer_size` bytes at a time. The file system must have direct I/O.
        /// WALs and MANIFESTs are written through the page cache. Default false. Fixed.
        use_direct_io_for_flush_and_compaction: bool = false, fixed;
        /// Reserve space ahead of writes. Default true. Fixed.
        allow_fallocate: bool = true, fixed;
        /// Bytes read ahead by a compaction's inputs. Default 2 MiB. Mutable.
        compaction_readahead_size: usize = 2 << 20, mutable;
        /// Buffer bytes of each table and blob file that is written with direct I/O. Default 1 MiB.
        /// Mutable.
        writable_file_max_buffer_size: usize = 1 << 20, mutable;

        /// Bytes per second granted to writers while they are slowed down; 00: the rate limiter's
        /// rate, else 16 MiB. Default 0. Mutable.
        delayed_write_rate: u64 = 0, mutable;
        /// Bytes of all memtables at which the largest is flushed; 0: no common limit. Makes a
        /// `write_buffer_manager` if none is given; ignored if one is. Default
        /// 0. Fixed.
        db_write_buffer_size: usize = 0, fixed;
        /// Bytes that one leader may write for its followers. Default 1 MiB. Fixed.
        max_write_batch_group_size_bytes: u64 = 1 << 20, fixed;
        /// Several writers insert into a memtable at once. Default true. Fixed.
        allow_concurrent_memtable_write: bool = true, fixed;
        /// Accepted without effect: one group of writers is written at a time. Default false.
        /// Fixed.
        enable_pipelined_write: bool = false, fixed;

        /// MANIFEST bytes at which a new MANIFEST is begun, unless its first content would be a
        /// sixth of these bytes or more. Default 1 GiB. Mutable.
        max_manifest_file_size: u64 = 1 << 30, mutable;
        /// Percent by which a MANIFEST may outgrow its first content before a new MANIFEST is due.
        /// Default 500. Mutable.
        max_manifest_space_amp_pct: i32 = 500, mutable;
        /// Disk bytes reserved for a new MANIFEST, if `allow_fallocate` is on. Default 4 MiB.
        /// Mutable.
        manifest_preallocation_size: u64 = 4 << 20, mutable;
        /// Accepted without effect: files are deleted as soon as nothing needs them. Default 6
        /// hours. Mutable.
        delete_obsolete_files_period_micros: u64 = 6 * 60 * 60 * 1_000_000, mutable;
        /// Threads that open tables while the database is opened. Default 16. Fixed.
        max_file_opening_threads: i32 = 16, fixed;
        /// Accepted without effect: RocksDB 11 ignores it, too. Default false. Fixed.
        skip_checking_sst_file_sizes_on_db_open: bool = false, fixed;

        /// Esker's own: background work reads and checks all tables, again and again, at this many
        /// bytes a second; 0: never. Damage is reported to listeners
        /// (`BackgroundErrorReason::Scrub`), in LOG and by `Db::scrub_state`; the database
        /// continues to work. The option has no text form. Default 0.
        scrub_bytes_per_second: u64 = 0, object;

        /// Esker's own: a new database moves tables and blob files that it finds in its `db_paths`
        /// and `cf_paths` into a directory `lost` beside them, and says so in LOG. If false, the
        /// database is not created. RocksDB deletes these files, so the C API sets the option. No
        /// other database may use the paths. The option has no text form. Default false.
        move_leftovers_of_paths: bool = false, object;

        /// Seconds between dumps of statistics into LOG; 0: never. Default 600. Mutable.
        stats_dump_period_sec: u32 = 600, mutable;
        /// Seconds between two snapshots of the tickers of `statistics` for
        /// [`Db::get_stats_history`](crate::Db::get_stats_history); 0: none. Default 600. Mutable.
        stats_persist_period_sec: u32 = 600, mutable;
        /// Writes these snapshots into the hidden column family `___rocksdb_stats_history___`,
        /// which no open needs to name, and keeps all of them. Default false: in memory. Fixed.
        persist_stats_to_disk: bool = false, fixed;
        /// Bytes of snapshots in memory above which the oldest are dropped. Default 1 MiB. Mutable.
        stats_history_buffer_size: usize = 1 << 20, mutable;
        /// Shows the operations of the database in
        /// [`Env::get_thread_list`](crate::Env::get_thread_list): flushes, compactions, gets,
        /// multi-gets, seeks, verifications and the opening itself. Each get then takes two locks
        /// of its own thread. Default false. Fixed.
        enable_thread_tracking: bool = false, fixed;
        /// The least level of lines in LOG. Default `Info`. Fixed.
        info_log_level: InfoLogLevel = InfoLogLevel::default(), fixed;
        /// LOG bytes at which a new LOG begins; 0: never. Default 0. Fixed.
        max_log_file_size: usize = 0, fixed;
        /// Seconds after which a new LOG begins; 0: never. Default 0. Fixed.
        log_file_time_to_roll: usize = 0, fixed;
        /// LOG files kept. Default 1000. Fixed.
        keep_log_file_num: usize = 1000, fixed;
        /// Accepted without effect: allocators have no statistics here. Default false. Fixed.
        dump_malloc_stats: bool = false, fixed;

        /// Inspects, changes or drops the records of WALs that an open replays. Default `None`.
        /// Fixed.
        wal_filter: Option<WalFilterRef> = None, fixed;

        /// Slows down flushes and compactions. Default `None`. Fixed.
        rate_limiter: Option<Arc<RateLimiter>> = None, read;
        /// Tracks table and blob files, limits their space and slows down their deletion; may serve
        /// several databases. Default `None`. Fixed.
        sst_file_manager: Option<Arc<SstFileManager>> = None, object;
        /// Keeps rows of tables for gets: the entries that a table has of a key. A get that finds
        /// the row looks at no block of the table. Iterators, `multi_get` of several keys, reads
        /// with timestamps and databases under the write policies `WritePrepared` and
        /// `WriteUnprepared` pass it by; gets with `fill_cache=false` insert nothing. May serve
        /// several databases, and be a block cache, too. Costs a hash and a lookup for each table
        /// that a get searches. Default `None`. Fixed.
        ///
        /// ```
        /// # let dir = esker_testkit::TempDir::new("doc");
        /// use esker::options::{BlockCache, CacheOptions};
        /// use esker::{Db, Options};
        /// use std::sync::Arc;
        ///
        /// let mut options = Options::new().create_if_missing(true);
        /// let rows = BlockCache::new(&CacheOptions::with_capacity(8 << 20))?;
        /// options.db.row_cache = Some(Arc::new(rows));
        /// let db = Db::open(&options, dir.path())?;
        /// db.put("esker", "gravel")?;
        /// db.flush()?;
        /// assert!(db.get("esker")?.is_some() && db.get("esker")?.is_some());
        /// assert_eq!(options.db.row_cache.unwrap().occupancy_count(), 1);
        /// # Ok::<_, esker::Error>(())
        /// ```
        row_cache: Option<Arc<esker_table::BlockCache>> = None, object;
        /// Counts the engine's work; may serve several databases. Default `None`: no counts. Fixed.
        statistics: Option<Arc<Statistics>> = None, read;
        /// Objects that are notified of flushes, compactions, files, errors and stalls. Default
        /// none. Fixed.
        listeners: Vec<Arc<dyn EventListener>> = Vec::new(), object;
        /// Runs compactions elsewhere. Compactions of which it makes nothing run here. Default
        /// `None`. Fixed.
        compaction_service: Option<Arc<dyn super::CompactionService>> = None, object;
        /// Types of files whose appends carry a CRC32C to the file system, which may check them
        /// ([`WritableFile::append_with_checksum`](esker_env::WritableFile)): `Wal`, `Table`,
        /// `Descriptor` and `Blob`. Esker's own file systems do not check them. Costs a pass over
        /// the bytes. Default: none. Fixed.
        checksum_handoff_file_types: BTreeSet<FileType> = BTreeSet::new(), object;
        /// The compaction styles whose table and blob files get a hint about their lifetime, by
        /// level (`F_SET_RW_HINT`): `Level` and `Universal`. Costs a system call a file. Default:
        /// `Level`. Fixed.
        calculate_sst_write_lifetime_hint_set: BTreeSet<CompactionStyle> =
            BTreeSet::from([CompactionStyle::Level]), object;
        /// Destination of LOG lines; `None`: the file LOG. Default `None`. Fixed.
        info_log: Option<Arc<dyn InfoLog>> = None, object;
        /// Files, clock and threads. Default: the machine's. Fixed.
        env: Env = Env::default(), object;
        /// Bounds the memtables of several databases together. Default `None`. Fixed.
        write_buffer_manager: Option<Arc<super::WriteBufferManager>> = None, object;

        /// Accepted without effect: writes stay ordered, so that snapshots stay unchanged. Default
        /// false. Fixed.
        unordered_write: bool = false, fixed;
        /// Accepted without effect: all writes share one queue. So a write to the WAL only, as that
        /// of a prepared section, has the order and the visibility that RocksDB's second queue
        /// gives. Default false. Fixed.
        two_write_queues: bool = false, fixed;
        /// Accepted without effect: writers decide themselves how long they spin before they sleep.
        /// Default true. Fixed.
        enable_write_thread_adaptive_yield: bool = true, fixed;
        /// Accepted without effect: see `enable_write_thread_adaptive_yield`. Default 100. Fixed.
        write_thread_max_yield_usec: u64 = 100, fixed;
        /// Accepted without effect: see `enable_write_thread_adaptive_yield`. Default 3. Fixed.
        write_thread_slow_yield_usec: u64 = 3, fixed;
        /// Accepted without effect: locks decide themselves whether to spin. Default false. Fixed.
        use_adaptive_mutex: bool = false, fixed;
        /// Accepted without effect: tables are read with `pread` or `io_uring`. Default false.
        /// Fixed.
        allow_mmap_reads: bool = false, fixed;
        /// Accepted without effect: files are written with `write`. Default false. Fixed.
        allow_mmap_writes: bool = false, fixed;
        /// Accepted without effect: compactions read as `use_direct_reads` says. Default false.
        /// Fixed.
        use_direct_io_for_compaction_reads: bool = false, fixed;
        /// Accepted without effect: table readers decide how far to read ahead. Default true.
        /// Fixed.
        advise_random_on_open: bool = true, fixed;
        /// Accepted without effect: child processes never inherit descriptors. Default true. Fixed.
        is_fd_close_on_exec: bool = true, fixed;
        /// Accepted without effect: the cache of open tables chooses its shards. Default 6. Fixed.
        table_cache_numshardbits: i32 = 6, fixed;
        /// Accepted without effect: an open reads no statistics from tables. Default false. Fixed.
        skip_stats_update_on_db_open: bool = false, fixed;
        /// Accepted without effect: `max_file_opening_threads` open the tables. Default false.
        /// Fixed.
        open_files_async: bool = false, fixed;
        /// Accepted without effect: threads read for themselves, or through `io_uring`. Default 1.
        /// Fixed.
        read_io_executor_threads: i32 = 1, fixed;
        /// Accepted without effect: an open reads the tail of a table in one request. Default
        /// false. Mutable.
        fast_sst_open: bool = false, mutable;
        /// Accepted without effect: files are always deleted in the background. Default false.
        /// Fixed.
        avoid_unnecessary_blocking_io: bool = false, fixed;
        /// Accepted without effect: a WAL is closed when the next one begins. Default false. Fixed.
        background_close_inactive_wals: bool = false, fixed;
        /// Accepted without effect: a WAL is created when it is needed. Default false. Fixed.
        async_wal_precreate: bool = false, fixed;
        /// Accepted without effect: recovery chooses how far it reads ahead. Default 0. Fixed.
        log_readahead_size: usize = 0, fixed;
        /// Turns on `cf_allow_ingest_behind` in all families. Default false. Fixed.
        allow_ingest_behind: bool = false, fixed;
        /// Accepted without effect: messages are the same in both modes. Default false. Fixed.
        allow_data_in_errors: bool = false, fixed;
        /// Accepted without effect: compactions count wrong uses of single deletions, and continue.
        /// Default true. Fixed.
        enforce_single_del_contracts: bool = true, fixed;
        /// Accepted without effect: `paranoid_file_checks` compares whole entries. Default true.
        /// Fixed.
        flush_verify_memtable_count: bool = true, fixed;
        /// Accepted without effect: `paranoid_file_checks` compares whole entries. Default true.
        /// Fixed.
        compaction_verify_record_count: bool = true, fixed;
        /// Accepted without effect: recovery flushes a memtable when it is full. Default true.
        /// Fixed.
        enforce_write_buffer_manager_during_recovery: bool = true, fixed;
        /// Accepted without effect: no key is missed in either mode. Default false. Fixed.
        prefix_seek_opt_in_only: bool = false, fixed;
        /// Accepted without effect: see `track_and_verify_wals`. Default false. Fixed.
        track_and_verify_wals_in_manifest: bool = false, fixed;
        /// Accepted without effect: each WAL says where the one before it ended, in a batch that
        /// every RocksDB skips. Default false. Fixed.
        track_and_verify_wals: bool = false, fixed;
        /// Accepted without effect: each open begins a MANIFEST. Default false. Fixed.
        reuse_manifest_on_open: bool = false, fixed;
        /// Accepted without effect: each record of a MANIFEST is synced as it is written. Default
        /// false. Mutable.
        verify_manifest_content_on_close: bool = false, mutable;
        /// Accepted without effect: recovery reads a MANIFEST once. Default false. Mutable.
        optimize_manifest_for_recovery: bool = false, mutable;
        /// A part of the day in UTC, `HH:mm-HH:mm`, both ends included, in which reads and writes
        /// are few. Periodic compactions then take the files that will be due before it begins
        /// again. They look ahead at most half of `periodic_compaction_seconds`. Default empty: no
        /// part. Mutable.
        daily_offpeak_time_utc: String = String::new(), mutable;
        /// The longest time in seconds between two searches for files that are due for their age.
        /// Default 43200. Mutable.
        max_compaction_trigger_wakeup_seconds: u64 = 43200, mutable;
        /// Accepted without effect: a cache uses all the tiers it was made with. Default
        /// `NonVolatileBlockTier`. Fixed.
        lowest_used_cache_tier: CacheTier = CacheTier::default(), fixed;
        /// Accepted without effect: file systems take no hint of temperature. Default `Unknown`.
        /// Fixed.
        metadata_write_temperature: Temperature = Temperature::Unknown, fixed;
        /// Accepted without effect: see `metadata_write_temperature`. Default `Unknown`. Fixed.
        wal_write_temperature: Temperature = Temperature::Unknown, fixed;
        /// Accepted without effect: periodic compactions run when they are due. In RocksDB from
        /// 11.10 on, how fast their due times are spread, in percent. Default 0. Mutable.
        periodic_compaction_phase_recovery_percent: i32 = 0, mutable;
        /// Accepted without effect: a worker of a remote compaction reads the files that it is
        /// given. Default true. Mutable.
        remote_compaction_manifest_floor: bool = true, mutable;
        /// Accepted without effect: the caller names the output directory of a remote compaction.
        /// Default false. Fixed.
        use_session_tmp_dir_for_remote_compaction: bool = false, fixed;
        /// Milliseconds from one catch-up of a follower ([`crate::Db::open_as_follower`]) to the
        /// next; 0 counts as 1. Default 10000. Fixed.
        follower_refresh_catchup_period_ms: u64 = 10_000, fixed;
        /// Attempts of a follower to catch up before it waits for the next period. With 0 it never
        /// catches up by itself. Default 10. Fixed.
        follower_catchup_retry_count: u64 = 10, fixed;
        /// Milliseconds from one attempt of a follower to catch up that failed to the next. Default
        /// 100. Fixed.
        follower_catchup_retry_wait_ms: u64 = 100, fixed;
    }
}
