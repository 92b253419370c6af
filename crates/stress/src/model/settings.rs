//! Random options of one opening, with which small data exercises everything: tiny buffers,
//! tiny files, many levels.

use super::families::ModelFamilySpec;
use esker::internals::base::prefix;
use esker::internals::cache::{CacheOptions, CacheType};
use esker::internals::env::{RateLimiter, RateLimiterMode};
use esker::internals::format::properties::IndexType;
use esker::internals::format::trailer::ChecksumType;
use esker::internals::table::{BlockCache, DataBlockIndexType, FilterPolicy};
use esker::options::{CompactionPri, CompressionType, TargetVersion};
use esker::prefix::SliceTransformRef;
use esker::txn::WritePolicy;
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions, Env};
use std::sync::Arc;

/// The options of one opening.
pub(crate) struct ModelSettings {
    pub(crate) db: DbOptions,
    pub(crate) families: Vec<ColumnFamilyOptions>,
    /// The write policy, if the database is opened for transactions.
    pub(crate) write_policy: WritePolicy,
    /// `default_write_batch_flush_threshold`, for `WriteUnprepared`.
    pub(crate) spill_threshold: i64,
}

/// The newest format of tables that RocksDB 11.8.1 reads.
const MOST_SHARED_FORMAT: u32 = 7;

impl ModelSettings {
    pub(crate) fn random(rng: &mut fastrand::Rng, env: &Env, specs: &[ModelFamilySpec]) -> ModelSettings {
        let cache_type = pick(
            rng,
            &[
                CacheType::Lru,
                CacheType::FixedHyperClock { estimated_entry_charge: 4096 },
                CacheType::AutoHyperClock,
            ],
        );
        let capacity = pick(rng, &[16 << 10, 256 << 10, 8 << 20]);
        let cache = BlockCache::new(&CacheOptions { cache_type, ..CacheOptions::with_capacity(capacity) });
        let cache = Arc::new(cache.expect("the options are in range"));
        let mut families: Vec<_> = specs.iter().map(|spec| random_family(rng, spec, &cache)).collect();
        let mut db = random_db(rng, env);
        if specs.iter().any(|spec| spec.is_shared) {
            db.compatible_with = TargetVersion::V11;
            families.iter_mut().for_each(|family| {
                family.table.format_version = family.table.format_version.min(MOST_SHARED_FORMAT)
            });
        }
        ModelSettings { db, families, write_policy: WritePolicy::WriteCommitted, spill_threshold: 0 }
    }

    /// Draws options whose effect depends on time, for machines with a simulated clock.
    pub(crate) fn let_time_matter(&mut self, rng: &mut fastrand::Rng) {
        let db = &mut self.db;
        db.stats_dump_period_sec = pick(rng, &[0, 0, 60, 600]);
        db.delayed_write_rate = pick(rng, &[16 << 10, 1 << 20, 1 << 30]);
        db.max_bgerror_resume_count = pick(rng, &[0, 1, i32::MAX]);
        db.bgerror_resume_retry_interval = pick(rng, &[1_000, 1_000_000]);
        db.scrub_bytes_per_second = pick(rng, &[0, 0, 10_000, 1 << 20]);
        if rng.u8(..3) == 0 {
            let bytes_per_second = pick(rng, &[20 << 10, 1 << 20]);
            let mode = pick(rng, &[RateLimiterMode::WritesOnly, RateLimiterMode::AllIo]);
            db.rate_limiter = Some(Arc::new(RateLimiter::new(bytes_per_second, 100_000, 10, mode)));
        }
        for family in &mut self.families {
            // On a slow disk whose clock jumps, a compaction takes hours. A wait for all
            // compactions must still come to an end.
            family.ttl = pick(rng, &[0, 3 * 86_400, 30 * 86_400]);
            family.periodic_compaction_seconds = pick(rng, &[0, 3 * 86_400, 30 * 86_400]);
            if !family.disable_auto_compactions {
                family.level0_slowdown_writes_trigger = pick(rng, &[4, 1000]);
            }
        }
    }

    /// Draws whether the database resumes by itself. Only for machines with the system's clock,
    /// where it does so at once.
    pub(crate) fn let_errors_pass(&mut self, rng: &mut fastrand::Rng) {
        self.db.max_bgerror_resume_count = pick(rng, &[0, 1, i32::MAX]);
        self.db.bgerror_resume_retry_interval = 1_000;
    }

    pub(crate) fn descriptors(&self, specs: &[ModelFamilySpec]) -> Vec<ColumnFamilyDescriptor> {
        let pairs = specs.iter().zip(&self.families);
        pairs.map(|(spec, options)| ColumnFamilyDescriptor::new(spec.name, options.clone())).collect()
    }
}

fn pick<T: Clone>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())].clone()
}

fn random_db(rng: &mut fastrand::Rng, env: &Env) -> DbOptions {
    DbOptions {
        create_if_missing: true,
        create_missing_column_families: true,
        max_open_files: pick(rng, &[-1, -1, 20, 100]),
        max_background_jobs: pick(rng, &[1, 2, 4]),
        max_subcompactions: pick(rng, &[1, 1, 4]),
        max_total_wal_size: pick(rng, &[0, 0, 256 << 10]),
        recycle_log_file_num: pick(rng, &[0, 0, 2]),
        avoid_flush_during_recovery: rng.bool(),
        avoid_flush_during_shutdown: rng.bool(),
        wal_compression: pick(rng, &[CompressionType::None, CompressionType::None, CompressionType::Zstd]),
        manual_wal_flush: rng.u8(..4) == 0,
        atomic_flush: rng.u8(..3) == 0,
        allow_concurrent_memtable_write: rng.bool(),
        enable_pipelined_write: rng.u8(..4) == 0,
        db_write_buffer_size: pick(rng, &[0, 0, 512 << 10]),
        max_manifest_file_size: pick(rng, &[16 << 10, 1 << 30]),
        delayed_write_rate: 1 << 30,
        stats_dump_period_sec: 0,
        // The campaigns decide when errors are cleared.
        max_bgerror_resume_count: 0,
        max_log_file_size: 64 << 10,
        keep_log_file_num: 2,
        info_log_level: esker::options::InfoLogLevel::Error,
        // Statistics are too large for the small stacks of a simulated machine.
        statistics: (rng.bool() && !cfg!(shuttle)).then(Arc::default),
        env: env.clone(),
        compatible_with: TargetVersion::V11_10,
        ..DbOptions::default()
    }
}

fn random_family(
    rng: &mut fastrand::Rng,
    spec: &ModelFamilySpec,
    cache: &Arc<BlockCache>,
) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions {
        comparator: spec.comparator.clone(),
        merge_operator: Some(spec.operator.clone()),
        prefix_extractor: if spec.prefixes_lie_together { random_extractor(rng) } else { None },
        write_buffer_size: pick(rng, &[64 << 10, 64 << 10, 128 << 10, 1 << 20]),
        max_write_buffer_number: pick(rng, &[2, 3, 6]),
        min_write_buffer_number_to_merge: pick(rng, &[1, 1, 2]),
        memtable_prefix_bloom_size_ratio: pick(rng, &[0.0, 0.1]),
        memtable_whole_key_filtering: rng.bool(),
        max_successive_merges: pick(rng, &[0, 0, 3]),
        memtable_protection_bytes_per_key: pick(rng, &[0, 0, 1, 2, 4, 8]),
        memtable_verify_per_key_checksum_on_seek: rng.u8(..4) == 0,
        paranoid_memory_checks: rng.u8(..4) == 0,
        num_levels: 7,
        level0_file_num_compaction_trigger: pick(rng, &[2, 4]),
        target_file_size_base: pick(rng, &[8 << 10, 32 << 10, 1 << 20]),
        max_bytes_for_level_base: pick(rng, &[32 << 10, 128 << 10, 1 << 20]),
        max_bytes_for_level_multiplier: pick(rng, &[2.0, 4.0, 10.0]),
        level_compaction_dynamic_level_bytes: rng.bool(),
        max_compaction_bytes: pick(rng, &[0, 64 << 10]),
        disable_auto_compactions: rng.u8(..12) == 0,
        compaction_pri: pick(
            rng,
            &[
                CompactionPri::MinOverlappingRatio,
                CompactionPri::ByCompensatedSize,
                CompactionPri::OldestLargestSeqFirst,
                CompactionPri::OldestSmallestSeqFirst,
                CompactionPri::RoundRobin,
            ],
        ),
        compression: random_compression(rng),
        bottommost_compression: if rng.u8(..3) == 0 { Some(random_compression(rng)) } else { None },
        paranoid_file_checks: rng.u8(..4) == 0,
        verify_output_flags: pick(rng, &[0, 0, 1025, 4098, u32::MAX]),
        optimize_filters_for_hits: rng.u8(..4) == 0,
        max_sequential_skip_in_iterations: pick(rng, &[0, 1, 8]),
        deleted_run_block_min_entries: pick(rng, &[0, 1, 3, 64]),
        deleted_run_memory_min_keys: pick(rng, &[0, 1, 2, 256]),
        ..ColumnFamilyOptions::default()
    };
    let dead = options.deleted_run_block_min_entries + options.deleted_run_memory_min_keys;
    options.pre_scan_min_entries = [0, 1, 4, 4096][dead as usize % 4];
    options.level0_slowdown_writes_trigger = 1000;
    options.level0_stop_writes_trigger = 1000;
    random_table(rng, &mut options, cache);
    random_layout(rng, &mut options);
    random_blobs(rng, &mut options, cache);
    options
}

/// Draws layouts of indexes, filters and data blocks. Some are only drawn with a prefix extractor:
/// the engine refuses them otherwise.
fn random_layout(rng: &mut fastrand::Rng, options: &mut ColumnFamilyOptions) {
    let has_prefixes = options.prefix_extractor.is_some();
    let table = &mut options.table;
    table.index_type = match rng.u8(..6) {
        0 | 1 => IndexType::TwoLevel,
        2 => IndexType::BinarySearchWithFirstKey,
        3 if has_prefixes => IndexType::HashSearch,
        _ => IndexType::BinarySearch,
    };
    table.metadata_block_size = pick(rng, &[1, 128, 512, 4096]);
    table.partition_filters = rng.bool();
    table.decouple_partitioned_filters = rng.bool();
    table.data_block_index_type =
        if rng.u8(..4) == 0 { DataBlockIndexType::BinaryAndHash } else { DataBlockIndexType::BinarySearch };
    table.separate_key_value_in_data_block = rng.u8(..4) == 0;
    table.super_block_alignment_size = pick(rng, &[0, 0, 4096]);
    table.super_block_alignment_space_overhead_ratio = 4;
    table.verify_compression = rng.u8(..4) == 0;
    if rng.u8(..4) == 0 {
        options.compression_opts.max_dict_bytes = pick(rng, &[256, 4096]);
        options.compression_opts.zstd_max_train_bytes = pick(rng, &[0, 16 << 10]);
        options.compression_opts.max_dict_buffer_bytes = pick(rng, &[0, 8 << 10]);
    }
}

fn random_blobs(rng: &mut fastrand::Rng, options: &mut ColumnFamilyOptions, cache: &Arc<BlockCache>) {
    options.enable_blob_files = rng.u8(..3) == 0;
    options.min_blob_size = pick(rng, &[0, 16, 100]);
    options.blob_file_size = pick(rng, &[4 << 10, 64 << 10, 256 << 20]);
    options.blob_compression_type = random_compression(rng);
    options.enable_blob_garbage_collection = rng.bool();
    options.blob_garbage_collection_age_cutoff = pick(rng, &[0.0, 0.25, 1.0]);
    options.blob_garbage_collection_force_threshold = pick(rng, &[0.2, 0.8, 1.0]);
    options.blob_file_starting_level = pick(rng, &[0, 0, 1, 3]);
    options.blob_cache = rng.bool().then(|| cache.clone());
}

fn random_table(rng: &mut fastrand::Rng, options: &mut ColumnFamilyOptions, cache: &Arc<BlockCache>) {
    let table = &mut options.table;
    table.block_size = pick(rng, &[256, 1024, 4096]);
    table.block_restart_interval = pick(rng, &[1, 4, 16]);
    table.index_block_restart_interval = pick(rng, &[1, 4]);
    table.use_delta_encoding = rng.u8(..5) > 0;
    table.format_version = pick(rng, &[3, 5, 6, 7, 8]);
    table.checksum =
        pick(rng, &[ChecksumType::Xxh3, ChecksumType::Crc32c, ChecksumType::XxHash64, ChecksumType::XxHash]);
    table.filter_policy =
        if rng.u8(..3) > 0 { Some(FilterPolicy::bloom(pick(rng, &[2.0, 10.0]))) } else { None };
    table.whole_key_filtering = rng.u8(..4) > 0;
    table.no_block_cache = rng.u8(..4) == 0;
    table.block_cache = if table.no_block_cache { None } else { Some(cache.clone()) };
    table.cache_index_and_filter_blocks = !table.no_block_cache && rng.bool();
    table.pin_l0_filter_and_index_blocks_in_cache = rng.bool();
}

fn random_compression(rng: &mut fastrand::Rng) -> CompressionType {
    pick(
        rng,
        &[
            CompressionType::None,
            CompressionType::None,
            CompressionType::Snappy,
            CompressionType::Lz4,
            CompressionType::Zlib,
            CompressionType::Zstd,
        ],
    )
}

fn random_extractor(rng: &mut fastrand::Rng) -> Option<SliceTransformRef> {
    match rng.u8(..3) {
        0 => None,
        1 => Some(prefix::fixed(2)),
        _ => Some(prefix::capped(3)),
    }
}
