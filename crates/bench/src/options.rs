//! Translates flags into the engine's options.

mod cache;

use crate::engine::EskerStore;
use crate::flags::Flags;
use esker::internals::env::{RateLimiter, RateLimiterMode};
use esker::internals::format::compression::CodecOptions;
use esker::internals::format::filter::FilterPolicy;
use esker::internals::format::properties::IndexType;
use esker::internals::format::trailer::ChecksumType;
use esker::internals::table::IndexShorteningMode;
use esker::options::{
    BlockBasedTableOptions, BlockCache, CacheOptions, ColumnFamilyOptions, CompactionPri, CompactionStyle,
    CompressionType, DbOptions, Statistics, StatsLevel, TargetVersion, WriteBufferManager,
};
use esker::perf_context::PerfLevel;
use esker::{Error, Options, Result, builtin, comparator, prefix};
use std::path::PathBuf;
use std::sync::Arc;

/// The database that the flags describe.
/// # Errors
/// `InvalidArgument` naming the flag; errors from making or opening the caches.
pub(crate) fn store(flags: &Flags) -> Result<EskerStore> {
    let mut options = Options { db: db_options(flags)?, cf: family_options(flags)? };
    if flags.cost_write_buffer_to_cache
        && let Some(cache) = &options.cf.table.block_cache
    {
        let manager = WriteBufferManager::with_cache(options.db.db_write_buffer_size, cache, false);
        options.db.write_buffer_manager = Some(Arc::new(manager));
    }
    let mut store = EskerStore { path: directory(flags), options, read_only: flags.readonly, watch: None };
    if !flags.statistics_socket.is_empty() {
        store.watch_at(&flags.statistics_socket);
    }
    Ok(store)
}

/// The directory of the database.
fn directory(flags: &Flags) -> PathBuf {
    if !flags.db.is_empty() {
        return PathBuf::from(&flags.db);
    }
    let parent = std::env::var_os("TEST_TMPDIR").map_or_else(
        || PathBuf::from(format!("/tmp/rocksdbtest-{}", rustix::process::getuid().as_raw())),
        PathBuf::from,
    );
    parent.join("dbbench")
}

/// Converts `value` to the type of the engine's option.
fn number<T: TryFrom<V>, V: Copy + std::fmt::Display>(flag: &str, value: V) -> Result<T> {
    T::try_from(value).map_err(|_| bad(flag, format_args!("{value} is out of range")))
}

fn bad(flag: &str, why: impl std::fmt::Display) -> Error {
    Error::invalid_argument(format!("--{flag}: {why}"))
}

fn db_options(flags: &Flags) -> Result<DbOptions> {
    let mut db = DbOptions {
        // An older RocksDB need not be able to read the database of a benchmark.
        compatible_with: TargetVersion::V11,
        create_if_missing: !flags.readonly,
        paranoid_checks: flags.paranoid_checks,
        max_open_files: flags.open_files,
        max_file_opening_threads: flags.file_opening_threads,
        max_background_jobs: flags.max_background_jobs,
        max_background_compactions: flags.max_background_compactions,
        max_background_flushes: flags.max_background_flushes,
        max_subcompactions: number("subcompactions", flags.subcompactions)?,
        max_total_wal_size: flags.max_total_wal_size,
        wal_dir: (!flags.wal_dir.is_empty()).then(|| PathBuf::from(&flags.wal_dir)),
        wal_ttl_seconds: flags.wal_ttl_seconds,
        wal_size_limit_mb: flags.wal_size_limit_mb,
        avoid_flush_during_recovery: flags.avoid_flush_during_recovery,
        avoid_flush_during_shutdown: flags.avoid_flush_during_shutdown,
        manual_wal_flush: flags.manual_wal_flush,
        bytes_per_sync: flags.bytes_per_sync,
        wal_bytes_per_sync: flags.wal_bytes_per_sync,
        use_fsync: flags.use_fsync,
        use_direct_reads: flags.use_direct_reads,
        use_direct_io_for_flush_and_compaction: flags.use_direct_io_for_flush_and_compaction,
        compaction_readahead_size: number("compaction_readahead_size", flags.compaction_readahead_size)?,
        writable_file_max_buffer_size: number(
            "writable_file_max_buffer_size",
            flags.writable_file_max_buffer_size,
        )?,
        delayed_write_rate: flags.delayed_write_rate,
        db_write_buffer_size: number("db_write_buffer_size", flags.db_write_buffer_size)?,
        allow_concurrent_memtable_write: flags.allow_concurrent_memtable_write,
        enable_pipelined_write: flags.enable_pipelined_write,
        max_manifest_file_size: number("max_manifest_file_size", flags.max_manifest_file_size)?,
        stats_dump_period_sec: number("stats_dump_period_sec", flags.stats_dump_period_sec)?,
        dump_malloc_stats: flags.dump_malloc_stats,
        ..DbOptions::default()
    };
    if flags.delete_obsolete_files_period_micros > 0 {
        db.delete_obsolete_files_period_micros = flags.delete_obsolete_files_period_micros;
    }
    if flags.statistics {
        let statistics = Statistics::new();
        statistics.set_stats_level(stats_level(flags.stats_level)?);
        db.statistics = Some(Arc::new(statistics));
    }
    if flags.row_cache_size > 0 {
        let capacity = number("row_cache_size", flags.row_cache_size)?;
        db.row_cache = Some(Arc::new(BlockCache::lru(&CacheOptions::with_capacity(capacity))?));
    }
    if flags.rate_limiter_bytes_per_sec > 0 {
        let period = number("rate_limiter_refill_period_us", flags.rate_limiter_refill_period_us)?;
        let new = if flags.rate_limiter_auto_tuned { RateLimiter::auto_tuned } else { RateLimiter::new };
        let limiter = new(flags.rate_limiter_bytes_per_sec, period, 10, RateLimiterMode::WritesOnly);
        db.rate_limiter = Some(Arc::new(limiter));
    }
    Ok(db)
}

/// Translates `--perf_level`.
pub(crate) fn perf_level(flags: &Flags) -> Result<PerfLevel> {
    Ok(match flags.perf_level {
        1 => PerfLevel::Disable,
        2 => PerfLevel::EnableCount,
        3 => PerfLevel::EnableWait,
        4 => PerfLevel::EnableTimeExceptForMutex,
        5 => PerfLevel::EnableTimeAndCpuTimeExceptForMutex,
        6 => PerfLevel::EnableTime,
        other => return Err(bad("perf_level", format_args!("{other} is not in 1..=6"))),
    })
}

fn stats_level(level: i32) -> Result<StatsLevel> {
    Ok(match level {
        0 => StatsLevel::DisableAll,
        1 => StatsLevel::ExceptHistogramOrTimers,
        2 => StatsLevel::ExceptTimers,
        3 => StatsLevel::ExceptDetailedTimers,
        4 => StatsLevel::ExceptTimeForMutex,
        5 => StatsLevel::All,
        _ => return Err(bad("stats_level", format_args!("{level} is not in 0..=5"))),
    })
}

fn family_options(flags: &Flags) -> Result<ColumnFamilyOptions> {
    let mut cf = ColumnFamilyOptions {
        comparator: Arc::new(comparator::BytewiseComparator),
        write_buffer_size: number("write_buffer_size", flags.write_buffer_size)?,
        max_write_buffer_number: flags.max_write_buffer_number,
        min_write_buffer_number_to_merge: flags.min_write_buffer_number_to_merge,
        max_write_buffer_size_to_maintain: flags.max_write_buffer_size_to_maintain,
        arena_block_size: number("arena_block_size", flags.arena_block_size)?,
        memtable_prefix_bloom_size_ratio: flags.memtable_bloom_size_ratio,
        memtable_whole_key_filtering: flags.memtable_whole_key_filtering,
        block_protection_bytes_per_key: flags.block_protection_bytes_per_key,
        max_successive_merges: number("max_successive_merges", flags.max_successive_merges)?,
        num_levels: flags.num_levels,
        level0_file_num_compaction_trigger: flags.level0_file_num_compaction_trigger,
        level0_slowdown_writes_trigger: flags.level0_slowdown_writes_trigger,
        level0_stop_writes_trigger: flags.level0_stop_writes_trigger,
        target_file_size_base: number("target_file_size_base", flags.target_file_size_base)?,
        target_file_size_multiplier: flags.target_file_size_multiplier,
        max_bytes_for_level_base: flags.max_bytes_for_level_base,
        max_bytes_for_level_multiplier: flags.max_bytes_for_level_multiplier,
        max_bytes_for_level_multiplier_additional: additional_multipliers(flags)?,
        level_compaction_dynamic_level_bytes: flags.level_compaction_dynamic_level_bytes,
        max_compaction_bytes: flags.max_compaction_bytes,
        soft_pending_compaction_bytes_limit: flags.soft_pending_compaction_bytes_limit,
        hard_pending_compaction_bytes_limit: flags.hard_pending_compaction_bytes_limit,
        disable_auto_compactions: flags.disable_auto_compactions,
        min_tombstones_for_range_conversion: flags.min_tombstones_for_range_conversion,
        compaction_style: compaction_style(flags.compaction_style)?,
        compaction_pri: compaction_pri(flags.compaction_pri)?,
        ttl: flags.ttl_seconds,
        periodic_compaction_seconds: flags.periodic_compaction_seconds,
        preserve_internal_time_seconds: number(
            "preserve_internal_time_seconds",
            flags.preserve_internal_time_seconds,
        )?,
        force_consistency_checks: flags.force_consistency_checks,
        optimize_filters_for_hits: flags.optimize_filters_for_hits,
        report_bg_io_stats: flags.report_bg_io_stats,
        sample_for_compression: number("sample_for_compression", flags.sample_for_compression)?,
        uncache_aggressiveness: flags.uncache_aggressiveness,
        table: table_options(flags)?,
        ..ColumnFamilyOptions::default()
    };
    set_compression(flags, &mut cf)?;
    if flags.prefix_size > 0 {
        if flags.prefix_size > flags.key_size {
            return Err(bad("prefix_size", "is larger than --key_size"));
        }
        let name = format!("rocksdb.FixedPrefix.{}", flags.prefix_size);
        cf.prefix_extractor = prefix::by_name(&name);
    }
    if !flags.merge_operator.is_empty() {
        let operator = builtin::merge_operator(&flags.merge_operator);
        cf.merge_operator =
            Some(operator.ok_or_else(|| {
                bad("merge_operator", format_args!("there is no '{}'", flags.merge_operator))
            })?);
    }
    Ok(cf)
}

fn additional_multipliers(flags: &Flags) -> Result<Vec<i32>> {
    const FLAG: &str = "max_bytes_for_level_multiplier_additional";
    let text = &flags.max_bytes_for_level_multiplier_additional;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let parse =
        |t: &str| t.trim().parse().map_err(|_| bad(FLAG, format_args!("'{t}' is not a whole number")));
    let multipliers: Vec<i32> = text.split(',').map(parse).collect::<Result<_>>()?;
    if i64::try_from(multipliers.len()) != Ok(flags.num_levels.into()) {
        return Err(bad(
            FLAG,
            format_args!("must have as many numbers as there are levels, {}", flags.num_levels),
        ));
    }
    Ok(multipliers)
}

fn compaction_style(code: i32) -> Result<CompactionStyle> {
    Ok(match code {
        0 => CompactionStyle::Level,
        1 => CompactionStyle::Universal,
        2 => CompactionStyle::Fifo,
        3 => CompactionStyle::None,
        _ => return Err(bad("compaction_style", format_args!("{code} is not in 0..=3"))),
    })
}

fn compaction_pri(code: i32) -> Result<CompactionPri> {
    Ok(match code {
        0 => CompactionPri::ByCompensatedSize,
        1 => CompactionPri::OldestLargestSeqFirst,
        2 => CompactionPri::OldestSmallestSeqFirst,
        3 => CompactionPri::MinOverlappingRatio,
        4 => CompactionPri::RoundRobin,
        _ => return Err(bad("compaction_pri", format_args!("{code} is not in 0..=4"))),
    })
}

fn set_compression(flags: &Flags, cf: &mut ColumnFamilyOptions) -> Result<()> {
    cf.compression = compression(flags)?;
    cf.compression_opts.level = flags.compression_level;
    cf.compression_opts.max_dict_bytes =
        number("compression_max_dict_bytes", flags.compression_max_dict_bytes)?;
    cf.compression_opts.zstd_max_train_bytes =
        number("compression_zstd_max_train_bytes", flags.compression_zstd_max_train_bytes)?;
    cf.compression_opts.parallel_threads =
        number("compression_parallel_threads", flags.compression_parallel_threads)?;
    if flags.min_level_to_compress >= 0 {
        let levels = 0..flags.num_levels;
        let of =
            |level| if level < flags.min_level_to_compress { CompressionType::None } else { cf.compression };
        cf.compression_per_level = levels.map(of).collect();
    }
    Ok(())
}

/// The codec of `--compression_type`.
pub(crate) fn compression(flags: &Flags) -> Result<CompressionType> {
    codec_named("compression_type", &flags.compression_type)
}

fn codec_named(flag: &str, name: &str) -> Result<CompressionType> {
    let name = name.to_ascii_lowercase();
    let kind = match name.as_str() {
        "none" => CompressionType::None,
        "snappy" => CompressionType::Snappy,
        "zlib" => CompressionType::Zlib,
        "lz4" => CompressionType::Lz4,
        "lz4hc" => CompressionType::Lz4hc,
        "zstd" => CompressionType::Zstd,
        _ => return Err(bad(flag, format_args!("'{name}' cannot be written"))),
    };
    Ok(kind)
}

/// The codec and its level, for benchmarks that compress without a database.
pub(crate) fn codec(flags: &Flags) -> Result<(CompressionType, CodecOptions)> {
    let mut cf = ColumnFamilyOptions::default();
    set_compression(flags, &mut cf)?;
    Ok((cf.compression, cf.compression_opts.codec()))
}

fn table_options(flags: &Flags) -> Result<BlockBasedTableOptions> {
    let cache = cache::block_cache(flags)?;
    Ok(BlockBasedTableOptions {
        block_size: number("block_size", flags.block_size)?,
        block_restart_interval: number("block_restart_interval", flags.block_restart_interval)?,
        index_block_restart_interval: number(
            "index_block_restart_interval",
            flags.index_block_restart_interval,
        )?,
        format_version: number("format_version", flags.format_version)?,
        checksum: checksum(flags.checksum_type)?,
        filter_policy: filter_policy(flags),
        whole_key_filtering: flags.whole_key_filtering,
        index_type: if flags.index_with_first_key {
            IndexType::BinarySearchWithFirstKey
        } else {
            IndexType::BinarySearch
        },
        index_shortening: index_shortening(flags.index_shortening_mode)?,
        enable_index_compression: flags.enable_index_compression,
        block_align: flags.block_align,
        no_block_cache: cache.is_none(),
        block_cache: cache,
        cache_index_and_filter_blocks: flags.cache_index_and_filter_blocks,
        cache_index_and_filter_blocks_with_high_priority: true,
        cache_usage_options: cache::usage(flags),
        prepopulate_block_cache: cache::prepopulate(flags)?,
        pin_l0_filter_and_index_blocks_in_cache: flags.pin_l0_filter_and_index_blocks_in_cache,
        initial_auto_readahead_size: number(
            "initial_auto_readahead_size",
            flags.initial_auto_readahead_size,
        )?,
        max_auto_readahead_size: number("max_auto_readahead_size", flags.max_auto_readahead_size)?,
        num_file_reads_for_auto_readahead: flags.num_file_reads_for_auto_readahead,
        ..BlockBasedTableOptions::default()
    })
}

fn filter_policy(flags: &Flags) -> Option<FilterPolicy> {
    let bits = f64::from(flags.bloom_bits);
    if flags.bloom_bits <= 0 {
        None
    } else if flags.use_ribbon_filter {
        Some(FilterPolicy::ribbon(bits, 0))
    } else if flags.ribbon_starting_level < Flags::default().ribbon_starting_level {
        Some(FilterPolicy::ribbon(bits, flags.ribbon_starting_level))
    } else {
        Some(FilterPolicy::bloom(bits))
    }
}

fn checksum(code: i32) -> Result<ChecksumType> {
    u8::try_from(code)
        .ok()
        .and_then(|code| ChecksumType::from_u8(code).ok())
        .ok_or_else(|| bad("checksum_type", format_args!("{code} is not in 0..=4")))
}

fn index_shortening(code: i64) -> Result<IndexShorteningMode> {
    Ok(match code {
        0 => IndexShorteningMode::NoShortening,
        1 => IndexShorteningMode::ShortenSeparators,
        2 => IndexShorteningMode::ShortenSeparatorsAndSuccessor,
        _ => return Err(bad("index_shortening_mode", format_args!("{code} is not in 0..=2"))),
    })
}
