//! Objects that options and calls share: caches, filters, environments, limits, merge operators,
//! slices, statistics, checkpoints.
//!
//! In: their natives. Out: handles. An option takes a share of the object behind a handle, so Java
//! may close its object while databases use it.

use crate::border::NativeResult;
use crate::callbacks::LogLevel;
use crate::db::Database;
use crate::field::JavaField;
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaBytes, JavaEnv, Reference};
use crate::release::JavaRelease;
use esker::compaction_filter::CompactionFilterFactoryRef;
use esker::comparator::ComparatorRef;
use esker::merge_operator::MergeOperatorRef;
use esker::options::{
    BlockBasedTableOptions, BlockCache, BlockSearchType, CacheOptions, CacheType, CompactionFilterRef,
    Env as EngineEnv, FilterPolicy, InfoLog, MemFs, Priority, RateLimiter, RateLimiterMode, SstFileManager,
    SstPartitionerFactoryRef, SstPartitionerFixedPrefixFactory, WriteBufferManager,
};
use esker::{Db, Error};
use std::sync::{Arc, OnceLock};

/// A block cache.
#[derive(Debug)]
pub(crate) struct CacheObject(pub(crate) Arc<BlockCache>);

/// A filter policy.
#[derive(Debug)]
pub(crate) struct FilterObject(pub(crate) FilterPolicy);

/// Options of tables, on their way from `BlockBasedTableConfig` to a family's options.
#[derive(Debug)]
pub(crate) struct TableFactory(pub(crate) BlockBasedTableOptions);

/// A merge operator.
#[derive(Debug)]
pub(crate) struct MergeObject(pub(crate) MergeOperatorRef);

/// An order of keys.
#[derive(Debug)]
pub(crate) struct Comparators {
    pub(crate) comparator: ComparatorRef,
    pub(crate) uses_direct_buffers: bool,
}

/// A compaction filter.
pub(crate) struct CompactionFilterObject(pub(crate) CompactionFilterRef);

/// A factory of compaction filters.
#[derive(Debug)]
pub(crate) struct CompactionFilterFactoryObject(pub(crate) CompactionFilterFactoryRef);

/// An environment.
#[derive(Debug)]
pub(crate) struct EnvObject(pub(crate) EngineEnv);

/// A rate limiter.
#[derive(Debug)]
pub(crate) struct Limiter(pub(crate) Arc<RateLimiter>);

/// A write buffer manager.
#[derive(Debug)]
pub(crate) struct Manager(pub(crate) Arc<WriteBufferManager>);

/// A manager of the space of tables.
#[derive(Debug)]
pub(crate) struct SpaceManager(pub(crate) Arc<SstFileManager>);

/// A factory of table partitioners.
#[derive(Debug)]
pub(crate) struct Partitioner(pub(crate) SstPartitionerFactoryRef);

/// Counters and histograms.
#[derive(Debug)]
pub(crate) struct StatisticsObject {
    pub(crate) counts: Arc<esker::options::Statistics>,
    /// Java's numbers of histograms that stay empty for Java.
    pub(crate) ignored: Vec<u8>,
}

/// A log, and its level, which Java may change.
pub(crate) struct LoggerObject {
    pub(crate) log: Arc<dyn InfoLog>,
    pub(crate) level: LogLevel,
}

/// A database, for its checkpoints.
#[derive(Debug)]
pub(crate) struct Checkpoints(pub(crate) Db);

/// Bytes that Java has handed over.
#[derive(Debug)]
pub(crate) struct SliceObject {
    bytes: JavaBytes,
    /// Bytes removed from the beginning.
    begin: usize,
}

impl SliceObject {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.begin..]
    }
}

fn new_cache(options: &CacheOptions) -> NativeResult<i64> {
    Ok(give(CacheObject(Arc::new(BlockCache::new(options)?))))
}

pub(crate) fn new_lru_cache(
    capacity: i64,
    num_shard_bits: i32,
    strict_capacity_limit: bool,
    high_pri_pool_ratio: f64,
    low_pri_pool_ratio: f64,
) -> NativeResult<i64> {
    new_cache(&CacheOptions {
        cache_type: CacheType::Lru,
        num_shard_bits,
        strict_capacity_limit,
        high_pri_pool_ratio,
        low_pri_pool_ratio,
        ..CacheOptions::with_capacity(usize::try_from(capacity).unwrap_or(0))
    })
}

/// A HyperClockCache. With an entry charge of 0 the table grows with its entries.
pub(crate) fn new_clock_cache(
    capacity: i64,
    entry_charge: i64,
    num_shard_bits: i32,
    strict_capacity_limit: bool,
) -> NativeResult<i64> {
    let cache_type = match usize::try_from(entry_charge) {
        Ok(estimated_entry_charge) if estimated_entry_charge > 0 => {
            CacheType::FixedHyperClock { estimated_entry_charge }
        }
        _ => CacheType::AutoHyperClock,
    };
    new_cache(&CacheOptions {
        cache_type,
        num_shard_bits,
        strict_capacity_limit,
        ..CacheOptions::with_capacity(usize::try_from(capacity).unwrap_or(0))
    })
}

pub(crate) fn cache_usage(cache: NativeHandle<CacheObject>) -> NativeResult<i64> {
    Ok(cache.get()?.0.usage() as i64)
}

pub(crate) fn cache_pinned_usage(cache: NativeHandle<CacheObject>) -> NativeResult<i64> {
    Ok(cache.get()?.0.pinned_usage() as i64)
}

pub(crate) fn new_bloom_filter(bits_per_key: f64) -> NativeResult<i64> {
    Ok(give(FilterObject(FilterPolicy::bloom(bits_per_key))))
}

/// The arguments of `BlockBasedTableConfig.newTableFactoryHandle` in all releases.
#[derive(Debug)]
pub(crate) struct TableConfig {
    /// `cacheIndexAndFilterBlocks`, `…WithHighPriority`, `pinL0…`, `pinTopLevel…`.
    pub(crate) index_blocks: [bool; 4],
    pub(crate) index_type: i8,
    pub(crate) data_block_index_type: i8,
    pub(crate) hash_table_util_ratio: f64,
    pub(crate) checksum: i8,
    pub(crate) no_block_cache: bool,
    pub(crate) cache: NativeHandle<CacheObject>,
    pub(crate) block_size: i64,
    pub(crate) block_size_deviation: i32,
    pub(crate) block_restart_interval: i32,
    pub(crate) index_block_restart_interval: i32,
    pub(crate) metadata_block_size: i64,
    /// `partitionFilters`, `optimizeFiltersForMemory`, `useDeltaEncoding`.
    pub(crate) filters: [bool; 3],
    pub(crate) filter_policy: NativeHandle<FilterObject>,
    pub(crate) whole_key_filtering: bool,
    pub(crate) verify_compression: bool,
    pub(crate) read_amp_bytes_per_bit: i32,
    pub(crate) format_version: i32,
    pub(crate) enable_index_compression: bool,
    pub(crate) block_align: bool,
    pub(crate) index_shortening: i8,
    /// The capacity of a cache of the table's own, if `cache` is none.
    pub(crate) own_cache: i64,
    pub(crate) own_cache_shard_bits: i32,
}

/// Arguments that release 11 added.
#[derive(Debug)]
pub(crate) struct NewTableConfig {
    pub(crate) separate_key_value: bool,
    pub(crate) uniform_cv_threshold: f64,
    pub(crate) super_block_alignment: [i64; 2],
    pub(crate) index_search_type: i8,
}

pub(crate) fn new_table_factory(config: &TableConfig, new: Option<&NewTableConfig>) -> NativeResult<i64> {
    let mut table = BlockBasedTableOptions::default();
    let wrong = |value| Error::invalid_argument(format!("BlockBasedTableConfig: no enumeration has {value}"));
    [
        table.cache_index_and_filter_blocks,
        table.cache_index_and_filter_blocks_with_high_priority,
        table.pin_l0_filter_and_index_blocks_in_cache,
        table.pin_top_level_index_and_filter,
    ] = config.index_blocks;
    table.index_type.store(config.index_type).map_err(wrong)?;
    table.data_block_index_type.store(config.data_block_index_type).map_err(wrong)?;
    table.data_block_hash_table_util_ratio = config.hash_table_util_ratio;
    table.checksum.store(config.checksum).map_err(wrong)?;
    table.no_block_cache = config.no_block_cache;
    table.block_size.store(config.block_size).map_err(wrong)?;
    table.block_size_deviation.store(config.block_size_deviation).map_err(wrong)?;
    table.block_restart_interval.store(config.block_restart_interval).map_err(wrong)?;
    table.index_block_restart_interval.store(config.index_block_restart_interval).map_err(wrong)?;
    table.metadata_block_size.store(config.metadata_block_size).map_err(wrong)?;
    [table.partition_filters, table.optimize_filters_for_memory, table.use_delta_encoding] = config.filters;
    table.filter_policy = config.filter_policy.find().map(|filter| filter.0.clone());
    table.whole_key_filtering = config.whole_key_filtering;
    table.verify_compression = config.verify_compression;
    table.read_amp_bytes_per_bit.store(config.read_amp_bytes_per_bit).map_err(wrong)?;
    table.format_version.store(config.format_version).map_err(wrong)?;
    table.enable_index_compression = config.enable_index_compression;
    table.block_align = config.block_align;
    table.index_shortening.store(config.index_shortening).map_err(wrong)?;
    if let Some(new) = new {
        table.separate_key_value_in_data_block = new.separate_key_value;
        table.uniform_cv_threshold = new.uniform_cv_threshold;
        table.super_block_alignment_size = new.super_block_alignment[0].cast_unsigned();
        table.super_block_alignment_space_overhead_ratio = new.super_block_alignment[1].cast_unsigned();
        table.index_block_search_type = match new.index_search_type {
            1 => BlockSearchType::Interpolation,
            2 => BlockSearchType::Auto,
            _ => BlockSearchType::Binary,
        };
    }
    table.block_cache = match config.cache.find() {
        Some(cache) => Some(cache.0.clone()),
        None if config.own_cache > 0 && !config.no_block_cache => {
            Some(Arc::new(BlockCache::new(&CacheOptions {
                cache_type: CacheType::Lru,
                num_shard_bits: config.own_cache_shard_bits,
                ..CacheOptions::with_capacity(usize::try_from(config.own_cache).unwrap_or(0))
            })?))
        }
        None => None,
    };
    Ok(give(TableFactory(table)))
}

pub(crate) fn new_string_append(delimiter: Vec<u8>) -> NativeResult<i64> {
    Ok(give(MergeObject(esker::builtin::string_append(delimiter))))
}

/// The bytes of a Java character, as RocksJava passes it: its low byte.
pub(crate) fn low_byte(character: u16) -> Vec<u8> {
    vec![character.to_le_bytes()[0]]
}

pub(crate) fn new_uint64_add() -> NativeResult<i64> {
    Ok(give(MergeObject(esker::builtin::uint64_add())))
}

/// The default environment, which no Java object frees.
pub(crate) fn default_env() -> NativeResult<i64> {
    static DEFAULT: OnceLock<i64> = OnceLock::new();
    Ok(*DEFAULT.get_or_init(|| give(EnvObject(EngineEnv::default()))))
}

pub(crate) fn new_mem_env() -> NativeResult<i64> {
    Ok(give(EnvObject(EngineEnv::with_fs(Arc::new(MemFs::new())))))
}

/// RocksJava's numbers of pools.
fn priority(number: i8) -> Priority {
    match number {
        0 => Priority::Bottom,
        2 => Priority::High,
        _ => Priority::Low,
    }
}

pub(crate) fn set_background_threads(
    env: NativeHandle<EnvObject>,
    threads: i32,
    pool: i8,
) -> NativeResult<()> {
    let threads = usize::try_from(threads).unwrap_or(0);
    env.get()?.0.pool.set_background_threads(threads, priority(pool));
    Ok(())
}

pub(crate) fn raise_background_threads(
    env: NativeHandle<EnvObject>,
    threads: i32,
    pool: i8,
) -> NativeResult<()> {
    if background_threads(env, pool)? < threads {
        set_background_threads(env, threads, pool)?;
    }
    Ok(())
}

pub(crate) fn background_threads(env: NativeHandle<EnvObject>, pool: i8) -> NativeResult<i32> {
    Ok(i32::try_from(env.get()?.0.pool.background_threads(priority(pool))).unwrap_or(i32::MAX))
}

pub(crate) fn new_write_buffer_manager(
    bytes: i64,
    cache: NativeHandle<CacheObject>,
    allow_stall: bool,
) -> NativeResult<i64> {
    let bytes = usize::try_from(bytes).unwrap_or(0);
    let manager = match cache.find() {
        Some(cache) => WriteBufferManager::with_cache(bytes, &cache.0, allow_stall),
        None => WriteBufferManager::new(bytes, allow_stall),
    };
    Ok(give(Manager(Arc::new(manager))))
}

pub(crate) fn new_rate_limiter(
    rate: i64,
    refill_period_us: i64,
    fairness: i32,
    mode: i8,
    auto_tuned: bool,
) -> NativeResult<i64> {
    let mode = match mode {
        0 => RateLimiterMode::ReadsOnly,
        2 => RateLimiterMode::AllIo,
        _ => RateLimiterMode::WritesOnly,
    };
    let make = if auto_tuned { RateLimiter::auto_tuned } else { RateLimiter::new };
    let limiter = make(
        rate.max(1).unsigned_abs(),
        refill_period_us.max(1).unsigned_abs(),
        fairness.max(1).unsigned_abs(),
        mode,
    );
    Ok(give(Limiter(Arc::new(limiter))))
}

pub(crate) fn new_fixed_prefix_partitioner(bytes: i64) -> NativeResult<i64> {
    let factory = SstPartitionerFixedPrefixFactory::new(usize::try_from(bytes).unwrap_or(0));
    Ok(give(Partitioner(Arc::new(factory))))
}

pub(crate) fn new_slice(bytes: JavaBytes) -> NativeResult<i64> {
    Ok(give(SliceObject { bytes, begin: 0 }))
}

/// The bytes of an array from `offset` on.
pub(crate) fn tail(env: &JavaEnv<'_>, array: Reference, offset: i32) -> NativeResult<JavaBytes> {
    let len = crate::jni::java_len(env.len(array)?)?;
    env.bytes(array, offset, len.saturating_sub(offset))
}

pub(crate) fn slice_bytes(env: &JavaEnv<'_>, slice: NativeHandle<SliceObject>) -> NativeResult<Reference> {
    env.new_bytes(slice.get()?.bytes())
}

pub(crate) fn slice_len(slice: NativeHandle<SliceObject>) -> NativeResult<i32> {
    crate::jni::java_len(slice.get()?.bytes().len())
}

pub(crate) fn slice_text(
    env: &JavaEnv<'_>,
    slice: NativeHandle<SliceObject>,
    in_hex: bool,
) -> NativeResult<Reference> {
    let bytes = slice.get()?.bytes();
    if in_hex {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        return env.new_text(&digits);
    }
    env.new_text(&String::from_utf8_lossy(bytes))
}

pub(crate) fn slice_order(
    slice: NativeHandle<SliceObject>,
    other: NativeHandle<SliceObject>,
) -> NativeResult<i32> {
    Ok(slice.get()?.bytes().cmp(other.get()?.bytes()) as i32)
}

pub(crate) fn slice_starts_with(
    slice: NativeHandle<SliceObject>,
    prefix: NativeHandle<SliceObject>,
) -> NativeResult<bool> {
    Ok(slice.get()?.bytes().starts_with(prefix.get()?.bytes()))
}

pub(crate) fn slice_clear(slice: NativeHandle<SliceObject>) -> NativeResult<()> {
    let slice = slice.get_mut()?;
    slice.bytes.clear();
    slice.begin = 0;
    Ok(())
}

pub(crate) fn slice_remove_prefix(slice: NativeHandle<SliceObject>, len: i32) -> NativeResult<()> {
    let slice = slice.get_mut()?;
    slice.begin = slice.bytes.len().min(slice.begin + usize::try_from(len).unwrap_or(0));
    Ok(())
}

pub(crate) fn new_checkpoints(db: NativeHandle<Database>) -> NativeResult<i64> {
    Ok(give(Checkpoints(db.get()?.db.clone())))
}

/// Before release 10 a checkpoint has no empty WALs. Flink's backend cannot upload an empty file.
pub(crate) fn create_checkpoint(
    env: &JavaEnv<'_>,
    checkpoints: NativeHandle<Checkpoints>,
    directory: Reference,
) -> NativeResult<()> {
    let directory = crate::db::path(env, directory)?;
    let db = &checkpoints.get()?.0;
    db.create_checkpoint(&directory, 0)?;
    if JavaRelease::of_caller(env)? >= JavaRelease::V10_1 {
        return Ok(());
    }
    let fs = db.db_options().env.fs;
    for name in fs.children(&directory)?.iter().filter(|name| name.ends_with(".log")) {
        let path = directory.join(name);
        if fs.file_size(&path)? == 0 {
            fs.delete_file(&path)?;
        }
    }
    Ok(())
}
