//! Options of the whole database: RocksDB's `DBOptions`.
//!
//! Source of names and defaults: RocksDB `include/rocksdb/options.h`, `options/db_options.cc`.

use super::file_checksum::FileChecksumGenFactoryRef;
use super::table::option_struct;
use super::value::option_enum;
use crate::observe::EventListener;
use esker_base::logger::{InfoLog, InfoLogLevel};
use esker_base::stats::Statistics;
use esker_env::{Env, RateLimiter, SstFileManager};
use std::path::PathBuf;
use std::sync::Arc;

option_enum! {
    /// The treatment, in recovery, of a WAL that ends badly or has a hole.
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
        /// Skips what is damaged and takes the rest: for disaster recovery.
        SkipAnyCorruptedRecords = 3, "kSkipAnyCorruptedRecords";
    }
}

option_enum! {
    /// The oldest RocksDB that must be able to read everything that is written. An option that
    /// needs a newer one is refused by name when the database is opened.
    #[derive(Default, PartialOrd, Ord)]
    pub enum TargetVersion {
        /// 7.8 and all later ones.
        #[default]
        V7_8 = 0, "7.8";
        /// The last 8, and all later ones.
        V8 = 1, "8.x";
        /// The last 9, and all later ones.
        V9 = 2, "9.x";
        /// The last 10, and all later ones.
        V10 = 3, "10.x";
        /// 11.
        V11 = 4, "11.x";
    }
}

option_struct! {
    /// Options of the whole database. Every field says its unit, its default and whether
    /// `set_db_options` may change it while the database runs.
    pub struct DbOptions: "DBOptions" {
        /// Create the database if its directory has none. Default false. Fixed.
        create_if_missing: bool = false, fixed;
        /// Create families named at open that do not exist. Default false. Fixed.
        create_missing_column_families: bool = false, fixed;
        /// Fail to open a database that exists. Default false. Fixed.
        error_if_exists: bool = false, fixed;
        /// The oldest RocksDB that is to read what is written: options that need a newer one are
        /// refused. Not RocksDB's. Default "7.8". Fixed.
        compatible_with: TargetVersion = TargetVersion::default(), fixed;
        /// Check more while opening and stop writes at the first sign of damage. Default true.
        /// Fixed.
        paranoid_checks: bool = true, fixed;
        /// Continue from the newest consistent set of files that is complete when some are missing.
        /// Default false. Fixed.
        best_efforts_recovery: bool = false, fixed;
        /// Most attempts in a row at resuming by itself after a background error that may pass, as
        /// `Db::resume` does; 0 or less: none. After a full disk it tries until there is space.
        /// Default: without end. Fixed.
        max_bgerror_resume_count: i32 = i32::MAX, fixed;
        /// Microseconds between two of these attempts. Default one second. Fixed.
        bgerror_resume_retry_interval: u64 = 1_000_000, fixed;
        /// Compare a table's unique id with the MANIFEST's when it is opened. Default true. Fixed.
        verify_sst_unique_id_in_manifest: bool = true, fixed;

        /// Makes checksums of whole files as they are written; the MANIFEST keeps them,
        /// `Db::verify_file_checksums` looks at them. Default `None`: none are made. Fixed.
        file_checksum_gen_factory: Option<FileChecksumGenFactoryRef> = None, fixed;

        /// Table and blob files kept open by all families together, less ten for other files; -1:
        /// as many as the process may have. All databases of a process leave a part of its limit
        /// (`RLIMIT_NOFILE`) to other files, and close unused files when descriptors run out.
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
        /// the sum of all write buffers, as in RocksDB, or, if that is less, 16 MiB, 256 KiB for
        /// each family with data in memory, and twice what memtables hold; then all families that
        /// keep more than half of it are flushed. Default 0. Mutable.
        max_total_wal_size: u64 = 0, mutable;
        /// Where WAL files go; `None`: in the database's directory. A database that has some there
        /// must not be opened before those that are still needed are moved. Default `None`. Fixed.
        wal_dir: Option<PathBuf> = None, fixed;
        /// Where LOG files go, under the database's path as their names: several databases may
        /// share one; `None`: in the database's directory. Default `None`. Fixed.
        db_log_dir: Option<PathBuf> = None, fixed;
        /// Seconds an archived WAL is kept; 0: not kept for its age. Default 0. Fixed.
        wal_ttl_seconds as "WAL_ttl_seconds": u64 = 0, fixed;
        /// MiB of archived WALs kept; 0: not kept for their size. Default 0. Fixed.
        wal_size_limit_mb as "WAL_size_limit_MB": u64 = 0, fixed;
        /// Old WAL files kept to be overwritten by new ones. Default 0: only then can every RocksDB
        /// read the WAL. Fixed.
        recycle_log_file_num: usize = 0, fixed;
        /// Treatment of damage in recovery. Default `PointInTimeRecovery`. Fixed.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::default(), fixed;
        /// Do not flush what was replayed at open, if nothing else demands it. Default false.
        /// Fixed.
        avoid_flush_during_recovery: bool = false, fixed;
        /// Do not flush at close; data without a WAL is lost. Default false. Mutable.
        avoid_flush_during_shutdown: bool = false, mutable;
        /// Appends stay in the process until `flush_wal`. Default false. Fixed.
        manual_wal_flush: bool = false, fixed;
        /// Recover prepared transactions from the WAL and keep WALs until these are committed or
        /// rolled back; without it a WAL with transactions of two phases keeps the database from
        /// opening. Compactions keep what transactions with a snapshot check for. `TransactionDb`
        /// turns it on. Default false. Fixed.
        allow_2pc: bool = false, fixed;
        /// Flush all families together, so that their files always agree. Default false. Fixed.
        atomic_flush: bool = false, fixed;

        /// Table bytes written between write-back hints; 0: the operating system decides. Default
        /// 0. Mutable.
        bytes_per_sync: u64 = 0, mutable;
        /// WAL bytes written between write-back hints; 0: the operating system decides. Default 0.
        /// Mutable.
        wal_bytes_per_sync: u64 = 0, mutable;
        /// Wait for each hinted range, so that dirty bytes stay bounded. Default false. Mutable.
        strict_bytes_per_sync: bool = false, mutable;
        /// `fsync` in place of `fdatasync`. Default false. Fixed.
        use_fsync: bool = false, fixed;
        /// Bypass the page cache for reads of tables and blob files, by users and by compactions.
        /// The file system must have direct I/O (`O_DIRECT`). WALs and MANIFESTs are read through
        /// the page cache. Default false. Fixed.
        use_direct_reads: bool = false, fixed;
        /// Bypass the page cache for what flush and compaction write,
        /// `writable_file_max_buffer_size` at a time; as above. WALs and MANIFESTs are written
        /// through the page cache. Default false. Fixed.
        use_direct_io_for_flush_and_compaction: bool = false, fixed;
        /// Reserve space ahead of writes. Default true. Fixed.
        allow_fallocate: bool = true, fixed;
        /// Bytes read ahead by a compaction's inputs. Default 2 MiB. Mutable.
        compaction_readahead_size: usize = 2 << 20, mutable;
        /// Bytes of buffer in front of each table and blob file that is written past the page
        /// cache. Default 1 MiB. Mutable.
        writable_file_max_buffer_size: usize = 1 << 20, mutable;

        /// Bytes per second granted to writers while they are slowed down; 0: the rate limiter's,
        /// else 16 MiB. Default 0. Mutable.
        delayed_write_rate: u64 = 0, mutable;
        /// Bytes of all memtables at which the largest is flushed; 0: no common limit. Makes a
        /// `write_buffer_manager` where none is given, and is not looked at where one is. Default
        /// 0. Fixed.
        db_write_buffer_size: usize = 0, fixed;
        /// Bytes that one leader may write for its followers. Default 1 MiB. Fixed.
        max_write_batch_group_size_bytes: u64 = 1 << 20, fixed;
        /// Several writers insert into a memtable at once. Default true. Fixed.
        allow_concurrent_memtable_write: bool = true, fixed;
        /// WAL append of one group overlaps the memtable insert of the one before. Default false.
        /// Fixed.
        enable_pipelined_write: bool = false, fixed;

        /// MANIFEST bytes at which a fresh one is begun, unless what a fresh one begins with would
        /// be a sixth of them or more. Default 1 GiB. Mutable.
        max_manifest_file_size: u64 = 1 << 30, mutable;
        /// Microseconds between full scans for files that may go. Default 6 hours. Mutable.
        delete_obsolete_files_period_micros: u64 = 6 * 60 * 60 * 1_000_000, mutable;
        /// Threads that open tables while the database is opened. Default 16. Fixed.
        max_file_opening_threads: i32 = 16, fixed;
        /// Skip looking at table sizes while opening; wrong sizes are then found later. Default
        /// false. Fixed.
        skip_checking_sst_file_sizes_on_db_open: bool = false, fixed;

        /// Esker's own: all tables are read and checked in the background, again and again, at this
        /// many bytes a second; 0: never. Damage is reported to listeners
        /// (`BackgroundErrorReason::Scrub`), in LOG and by `Db::scrub_state`; the database goes on.
        /// It has no text form. Default 0.
        scrub_bytes_per_second: u64 = 0, object;

        /// Seconds between dumps of statistics into LOG; 0: never. Default 600. Mutable.
        stats_dump_period_sec: u32 = 600, mutable;
        /// The least level of lines in LOG. Default `Info`. Fixed.
        info_log_level: InfoLogLevel = InfoLogLevel::default(), fixed;
        /// LOG bytes at which a new one is begun; 0: never. Default 0. Fixed.
        max_log_file_size: usize = 0, fixed;
        /// Seconds after which a new LOG is begun; 0: never. Default 0. Fixed.
        log_file_time_to_roll: usize = 0, fixed;
        /// LOG files kept. Default 1000. Fixed.
        keep_log_file_num: usize = 1000, fixed;
        /// Dump statistics into LOG when the options are dumped. Default false. Fixed.
        dump_malloc_stats: bool = false, fixed;

        /// Slows down flushes and compactions. Default `None`. Fixed.
        rate_limiter: Option<Arc<RateLimiter>> = None, object;
        /// Tracks table and blob files, limits their space and slows down their deletion; may serve
        /// several databases. Default `None`. Fixed.
        sst_file_manager: Option<Arc<SstFileManager>> = None, object;
        /// Counts what happens; may serve several databases. Default `None`: nothing is counted.
        /// Fixed.
        statistics: Option<Arc<Statistics>> = None, object;
        /// Told of flushes, compactions, files, errors and stalls. Default none. Fixed.
        listeners: Vec<Arc<dyn EventListener>> = Vec::new(), object;
        /// Where LOG lines go; `None`: the file LOG. Default `None`. Fixed.
        info_log: Option<Arc<dyn InfoLog>> = None, object;
        /// Files, clock and threads. Default: the machine's. Fixed.
        env: Env = Env::default(), object;
        /// Bounds the memtables of several databases together. Default `None`. Fixed.
        write_buffer_manager: Option<Arc<super::WriteBufferManager>> = None, object;
    }
}
