//! The flags that `db_bench` acts on: one line each makes the field, its default, its parser and
//! its line in `--help`.
//!
//! Source of names and defaults: RocksDB 11.9 `tools/db_bench_tool.cc` and the option headers it
//! refers to. `ribbon_starting_level` is from older versions. `format_version` is the engine's
//! default, 5, where RocksDB 11 has 7.

use super::value::{FlagKind, FlagValue};

/// The default of `--benchmarks`.
const DEFAULT_BENCHMARKS: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,newiterator,seekrandom,\
    seekrandomwhilewriting,readseq,readreverse,compact,flush,waitforcompaction,multireadrandom,readseq,readreverse,\
    readwhilewriting,readwhilescanning,readrandomwriterandom,updaterandom,fill100K,crc32c,xxhash,xxhash64,xxh3,compress,\
    uncompress";

/// A flag as the parser and `--help` see it.
#[derive(Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: FlagKind,
    /// Sets the field from text; says what would be right if it cannot.
    pub(super) set: fn(&mut Flags, &str) -> Result<(), String>,
    /// The field as text.
    pub(super) text: fn(&Flags) -> String,
}

macro_rules! flags {
    ($( $( #[doc = $help:literal] )+ $field:ident $(as $alias:literal)? : $ty:ty = $default:expr; )*) => {
        /// The flags of one run.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Flags {
            $( $( #[doc = $help] )+ pub $field: $ty, )*
        }

        impl Default for Flags {
            fn default() -> Flags {
                Flags { $( $field: $default, )* }
            }
        }

        pub(super) static TABLE: &[Flag] = &[ $( Flag {
            name: flags!(@name $field $($alias)?),
            help: concat!($($help),+),
            kind: <$ty as FlagValue>::KIND,
            set: |flags, text| {
                flags.$field = <$ty as FlagValue>::parse(text)?;
                Ok(())
            },
            text: |flags| flags.$field.to_string(),
        }, )* ];
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $alias:literal) => { $alias };
}

flags! {
    // The run.
    /// Comma-separated benchmarks, run in this order; `name[-X3]` repeats one, `name[-W1]` warms it
    /// up.
    benchmarks: String = DEFAULT_BENCHMARKS.to_owned();
    /// Directory of the database; empty: $TEST_TMPDIR/dbbench, else /tmp/rocksdbtest-UID/dbbench.
    db: String = String::new();
    /// Keep the existing database; benchmarks that need a new one are skipped.
    use_existing_db: bool = false;
    /// Open for reading only; implies use_existing_db.
    readonly: bool = false;
    /// Keys in the database.
    num: i64 = 1_000_000;
    /// Reads for each thread; negative: as many as `num`.
    reads: i64 = -1;
    /// Writes for each thread; negative: as many as `num`.
    writes: i64 = -1;
    /// Deletions for each thread; negative: as many as `num`.
    deletes: i64 = -1;
    /// Distinct keys of mergerandom; negative: as many as `num`.
    merge_keys: i64 = -1;
    /// If positive, the number of keys from which a background writer draws; otherwise `num`.
    bgwriter_num: i64 = 0;
    /// Number of threads that run a benchmark.
    threads: i32 = 1;
    /// Seconds that a benchmark runs; 0: until it has run the requested number of operations.
    duration: i32 = 0;
    /// Operations of a thread between two reads of the clock, if `duration` is set.
    ops_between_duration_checks: i32 = 1000;
    /// Seed of the keys; 0: taken from the clock.
    seed: i64 = 0;
    /// A background writer continues until it has made all its writes.
    finish_after_writes: bool = false;

    // Keys and values.
    /// Bytes of a key.
    key_size: i32 = 16;
    /// Bytes of a value of fixed size.
    value_size: i32 = 100;
    /// Distribution of value sizes: fixed, uniform or normal.
    value_size_distribution_type: String = String::from("fixed");
    /// Smallest value, bytes.
    value_size_min: i32 = 100;
    /// Largest value, bytes.
    value_size_max: i32 = 102_400;
    /// Ratio to which values compress.
    compression_ratio: f64 = 0.5;
    /// Percentage of writes that write the same value.
    same_value_percentage: i32 = 0;
    /// If positive, random reads are skewed: keys are drawn as num * e^-r with r up to this.
    read_random_exp_range: f64 = 0.0;
    /// Bytes of a key that are its prefix; 0: no prefixes.
    prefix_size: i32 = 0;
    /// Keys that share a prefix; 0: keys are not made of prefixes.
    keys_per_prefix: i64 = 0;

    // The way of the benchmarks.
    /// Writes in a batch, or keys in a multi-get.
    batch_size: i64 = 1;
    /// Difference between the numbers of neighbouring keys of one multi-get; 0: every key is
    /// random.
    multiread_stride: i64 = 0;
    /// Multi-get returns pinned values; if false, copies.
    multiread_batched: bool = false;
    /// Ranges of one multiscan.
    multiscan_size: i64 = 10;
    /// Number of keys between the end of a multiscan's range and the start of the next range.
    multiscan_stride: i64 = 100;
    /// Blocks of a file are read as one if the gap between them has at most this many bytes:
    /// MultiScanArgs::io_coalesce_threshold.
    multiscan_coalesce_threshold: u64 = 16384;
    /// Bytes of blocks that are read ahead at once; 0: 8 MiB: MultiScanArgs::max_prefetch_size.
    multiscan_max_prefetch_size: u64 = 0;
    /// Sets MultiScanArgs::use_async_io.
    multiscan_use_async_io: bool = false;
    /// Whether multiscanrandom uses multi-scans; if false, it seeks and steps through its ranges
    /// one by one.
    use_multiscan: bool = true;
    /// Steps after each seek; keys of each range of multiscan (0: 50).
    seek_nexts: i32 = 0;
    /// Number of keys that seekrandom deletes behind the last key of each scan.
    seek_nexts_to_delete: i32 = 0;
    /// Step backwards after a seek.
    reverse_iterator: bool = false;
    /// Number of keys between the seek key and the iterator's bound; 0: no bound.
    max_scan_distance: i64 = 0;
    /// Seek prefixes that no key has.
    seek_missing_prefix: bool = false;
    /// Set ReadOptions::auto_prefix_mode in seekrandom.
    auto_prefix_mode: bool = false;
    /// Set ReadOptions::total_order_seek.
    total_order_seek: bool = false;
    /// Set ReadOptions::prefix_same_as_start.
    prefix_same_as_start: bool = false;
    /// Check block checksums on reads.
    verify_checksum: bool = true;
    /// Bytes an iterator reads ahead; 0: it adapts.
    readahead_size: i32 = 0;
    /// Set ReadOptions::adaptive_readahead.
    adaptive_readahead: bool = false;
    /// Set ReadOptions::async_io.
    async_io: bool = false;
    /// Iterators read under a snapshot.
    explicit_snapshot: bool = false;
    /// Set ReadOptions::auto_refresh_iterator_with_snapshot.
    auto_refresh_iterator_with_snapshot: bool = false;
    /// Percentage of reads in readrandomwriterandom.
    readwritepercent: i32 = 90;
    /// Sync each write.
    sync: bool = false;
    /// Write no WAL.
    disable_wal: bool = false;
    /// Writes before the first range deletion.
    writes_before_delete_range: i64 = 0;
    /// Writes between range deletions; 0: no range deletions.
    writes_per_range_tombstone: i64 = 0;
    /// Keys that a range deletion covers.
    range_tombstone_width: i64 = 100;
    /// Most range deletions of a benchmark.
    max_num_range_tombstones: i64 = 0;
    /// Delete each key of the range by a deletion of its own.
    expand_range_tombstones: bool = false;
    /// Largest number of bytes that benchmarks write per second; 0: no limit.
    benchmark_write_rate_limit: u64 = 0;
    /// Largest number of reads per second; 0: no limit.
    benchmark_read_rate_limit: u64 = 0;

    // Reports.
    /// Print the distribution of latencies.
    histogram: bool = false;
    /// Turn on the engine's statistics and print them at the end.
    statistics: bool = false;
    /// Level of `statistics`, 0 to 5.
    stats_level: i32 = 3;
    /// Report the progress of a benchmark on standard error.
    progress_reports: bool = true;
    /// After each repeat print the confidence interval only.
    confidence_interval_only: bool = false;
    /// Level of the threads' perf contexts, 1 (nothing) to 6; the result line ends with their
    /// counts.
    perf_level: i32 = 1;
    /// Operations of a thread between two reports on standard error. 0: 100 at first, and more as
    /// the thread continues.
    stats_interval: i64 = 0;
    /// Least number of seconds between two reports on standard error, if `stats_interval` is not 0.
    stats_interval_seconds: i64 = 0;
    /// With each report, also print the database's statistics.
    stats_per_interval: i32 = 0;
    /// Report on standard error each operation that takes at least this number of microseconds;
    /// needs `histogram`.
    slow_usecs: u64 = 1_000_000;
    /// Seconds between lines of `report_file`; 0: no such file.
    report_interval_seconds: i64 = 0;
    /// Path of the file that gets the number of operations of each interval.
    report_file: String = String::from("report.csv");
    /// Esker's own: path of a Unix socket that `esker top` reads; turns statistics on.
    statistics_socket: String = String::new();

    // The database.
    /// The engine's option of this name.
    write_buffer_size: i64 = 67_108_864;
    /// The engine's option of this name.
    max_write_buffer_number: i32 = 2;
    /// The engine's option of this name.
    min_write_buffer_number_to_merge: i32 = 1;
    /// The engine's option of this name.
    max_write_buffer_size_to_maintain: i64 = 0;
    /// Limit on the bytes of all memtables together, at which the largest one is flushed; 0: no
    /// limit.
    db_write_buffer_size: i64 = 0;
    /// The engine's option of this name.
    arena_block_size: i64 = 0;
    /// The engine's option `memtable_prefix_bloom_size_ratio`.
    memtable_bloom_size_ratio: f64 = 0.0;
    /// The engine's option of this name.
    memtable_whole_key_filtering: bool = false;
    /// The engine's option of this name.
    max_background_jobs: i32 = 2;
    /// The engine's option of this name.
    max_background_compactions: i32 = -1;
    /// The engine's option of this name.
    max_background_flushes: i32 = -1;
    /// The engine's option `max_subcompactions`.
    subcompactions: u64 = 1;
    /// 0: leveled.
    compaction_style: i32 = 0;
    /// The engine's option of this name.
    compaction_pri: i32 = 3;
    /// The engine's option of this name.
    num_levels: i32 = 7;
    /// The engine's option of this name.
    target_file_size_base: i64 = 67_108_864;
    /// The engine's option of this name.
    target_file_size_multiplier: i32 = 1;
    /// The engine's option of this name.
    max_bytes_for_level_base: u64 = 268_435_456;
    /// The engine's option of this name.
    max_bytes_for_level_multiplier: f64 = 10.0;
    /// Comma-separated.
    max_bytes_for_level_multiplier_additional: String = String::new();
    /// The engine's option of this name.
    level_compaction_dynamic_level_bytes: bool = false;
    /// The engine's option of this name.
    level0_file_num_compaction_trigger: i32 = 4;
    /// The engine's option of this name.
    level0_slowdown_writes_trigger: i32 = 20;
    /// The engine's option of this name.
    level0_stop_writes_trigger: i32 = 36;
    /// The engine's option of this name.
    max_compaction_bytes: u64 = 0;
    /// The engine's option of this name.
    soft_pending_compaction_bytes_limit: u64 = 68_719_476_736;
    /// The engine's option of this name.
    hard_pending_compaction_bytes_limit: u64 = 137_438_953_472;
    /// The engine's option of this name.
    delayed_write_rate: u64 = 8_388_608;
    /// The engine's option of this name.
    disable_auto_compactions: bool = false;
    /// The engine's option of this name.
    min_tombstones_for_range_conversion: u32 = 0;
    /// The engine's option `ttl`.
    ttl_seconds: u64 = 18_446_744_073_709_551_614;
    /// The engine's option of this name.
    periodic_compaction_seconds: u64 = 18_446_744_073_709_551_614;
    /// The engine's option of this name.
    preserve_internal_time_seconds: i64 = 0;
    /// The engine's option of this name.
    compaction_readahead_size: u64 = 2_097_152;
    /// The engine's option of this name.
    writable_file_max_buffer_size: i32 = 1_048_576;
    /// The engine's option `max_open_files`.
    open_files: i32 = -1;
    /// The engine's option `max_file_opening_threads`.
    file_opening_threads: i32 = 16;
    /// The engine's option of this name.
    max_manifest_file_size: i64 = 1_073_741_824;
    /// The engine's option of this name.
    max_total_wal_size: u64 = 0;
    /// The engine's option of this name.
    wal_dir: String = String::new();
    /// The engine's option of this name.
    wal_ttl_seconds: u64 = 0;
    /// The engine's option of this name.
    wal_size_limit_mb as "wal_size_limit_MB": u64 = 0;
    /// The engine's option of this name.
    wal_bytes_per_sync: u64 = 0;
    /// The engine's option of this name.
    bytes_per_sync: u64 = 0;
    /// The engine's option of this name.
    use_fsync: bool = false;
    /// The engine's option of this name.
    manual_wal_flush: bool = false;
    /// The engine's option of this name.
    enable_pipelined_write: bool = true;
    /// The engine's option of this name.
    allow_concurrent_memtable_write: bool = true;
    /// The engine's option of this name.
    use_direct_reads: bool = false;
    /// The engine's option of this name.
    use_direct_io_for_flush_and_compaction: bool = false;
    /// The engine's option of this name.
    avoid_flush_during_recovery: bool = false;
    /// The engine's option of this name.
    avoid_flush_during_shutdown: bool = false;
    /// The engine's option of this name.
    block_protection_bytes_per_key: u32 = 0;
    /// The engine's option of this name.
    paranoid_checks: bool = true;
    /// The engine's option of this name.
    force_consistency_checks: bool = true;
    /// The engine's option of this name.
    report_bg_io_stats: bool = false;
    /// The engine's option of this name; 0: its default.
    delete_obsolete_files_period_micros: u64 = 0;
    /// The engine's option of this name.
    dump_malloc_stats: bool = true;
    /// The engine's option of this name.
    stats_dump_period_sec: u64 = 600;
    /// Bytes per second of flushes and compactions; 0: no limit.
    rate_limiter_bytes_per_sec: u64 = 0;
    /// The rate limiter adapts its rate to the demand, up to `rate_limiter_bytes_per_sec`.
    rate_limiter_auto_tuned: bool = false;
    /// The engine's option of this name.
    rate_limiter_refill_period_us: i64 = 100_000;
    /// Name of the merge operator.
    merge_operator: String = String::new();
    /// The engine's option of this name.
    max_successive_merges: i32 = 0;
    /// none, snappy, zlib, lz4, lz4hc or zstd.
    compression_type: String = String::from("snappy");
    /// The engine's option of this name.
    compression_level: i32 = 32_767;
    /// The engine's option of this name.
    compression_max_dict_bytes: i32 = 0;
    /// The engine's option of this name.
    compression_zstd_max_train_bytes: i32 = 0;
    /// The engine's option of this name.
    compression_parallel_threads: i32 = 1;
    /// The engine's option of this name.
    sample_for_compression: i64 = 0;
    /// Bytes of a cache for rows of tables; 0: none.
    row_cache_size: i64 = 0;
    /// The engine's option of this name.
    uncache_aggressiveness: u32 = 0;
    /// The first compressed level; negative: all levels are compressed.
    min_level_to_compress: i32 = -1;

    // Its tables.
    /// The engine's option of this name.
    block_size: i32 = 4096;
    /// The engine's option of this name.
    block_restart_interval: i32 = 16;
    /// The engine's option of this name.
    index_block_restart_interval: i32 = 1;
    /// The engine's option of this name.
    format_version: i32 = 5;
    /// 0 none, 1 CRC32C, 2 XXH32, 3 XXH64, 4 XXH3.
    checksum_type: i32 = 4;
    /// Bits per key of the filter; negative: the default, which is no filter; 0: no filter.
    bloom_bits: i32 = -1;
    /// Ribbon in place of Bloom.
    use_ribbon_filter: bool = false;
    /// Ribbon in place of Bloom from this level on.
    ribbon_starting_level: i32 = 999;
    /// The engine's option of this name.
    whole_key_filtering: bool = true;
    /// The engine's option of this name.
    optimize_filters_for_hits: bool = false;
    /// Bytes of the block cache; 0 or less: no cache.
    cache_size: i64 = 33_554_432;
    /// lru_cache, or the name of a clock cache (docs/compat/tools.md).
    cache_type: String = String::from("hyper_clock_cache");
    /// The block cache has 2 to the power of this many shards; negative: by its size.
    cache_numshardbits: i32 = -1;
    /// The engine's option of this name.
    cache_high_pri_pool_ratio: f64 = 0.0;
    /// The engine's option of this name.
    cache_low_pri_pool_ratio: f64 = 0.0;
    /// A block cache in the text form of the option block_cache. Empty: the flags above describe
    /// the cache.
    cache_uri: String = String::new();
    /// Keep compressed blocks in memory, in a tier below the block cache.
    use_compressed_secondary_cache: bool = false;
    /// Capacity of the tier of compressed blocks, bytes.
    compressed_secondary_cache_size: i64 = 33_554_432;
    /// That tier has 2 to the power of this number of shards, if it is an LRU cache.
    compressed_secondary_cache_numshardbits: i32 = 6;
    /// The option high_pri_pool_ratio of that tier.
    compressed_secondary_cache_high_pri_pool_ratio: f64 = 0.0;
    /// The option low_pri_pool_ratio of that tier.
    compressed_secondary_cache_low_pri_pool_ratio: f64 = 0.0;
    /// none, snappy, zlib, lz4, lz4hc or zstd.
    compressed_secondary_cache_compression_type: String = String::from("lz4");
    /// Level of that compression.
    compressed_secondary_cache_compression_level: i32 = 32_767;
    /// The tier below the block cache, as a URI; with use_tiered_cache, below the compressed
    /// blocks.
    secondary_cache_uri: String = String::new();
    /// The block cache and the tier of compressed blocks share the sum of their capacities.
    use_tiered_cache: bool = false;
    /// Policy that decides which evicted blocks a tier stores: auto, placeholder, allow_cache_hits,
    /// three_queue or allow_all.
    tiered_adm_policy: String = String::from("auto");
    /// Memtables are charged to the block cache.
    cost_write_buffer_to_cache: bool = false;
    /// Blocks that wait for a dictionary are charged to the block cache.
    charge_compression_dictionary_building_buffer: bool = false;
    /// Filters being built are charged to the block cache.
    charge_filter_construction: bool = false;
    /// The memory of open tables is charged to the block cache.
    charge_table_reader: bool = false;
    /// The memory of file metadata is charged to the block cache.
    charge_file_metadata: bool = false;
    /// Blocks go into the cache as they are written: 0 none, 1 those of flushes, 2 of compactions,
    /// too.
    prepopulate_block_cache: i64 = 0;
    /// The engine's option of this name.
    cache_index_and_filter_blocks: bool = false;
    /// The engine's option of this name.
    pin_l0_filter_and_index_blocks_in_cache: bool = false;
    /// The engine's option of this name.
    index_with_first_key: bool = false;
    /// 0 none, 1 between blocks, 2 everywhere.
    index_shortening_mode: i64 = 2;
    /// The engine's option of this name.
    enable_index_compression: bool = true;
    /// The engine's option of this name.
    block_align: bool = false;
    /// The engine's option of this name.
    initial_auto_readahead_size: u64 = 8192;
    /// The engine's option of this name.
    max_auto_readahead_size: u64 = 262_144;
    /// The engine's option of this name.
    num_file_reads_for_auto_readahead: u64 = 2;
}
