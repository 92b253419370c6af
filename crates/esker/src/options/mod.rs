//! The user's options: RocksDB's option structs under RocksDB's names.
//!
//! In: values from the program, from text, or from an OPTIONS file. Out: structs the engine can
//! trust. `sanitize` makes their values consistent, and `validate` refuses values without a
//! meaning.
//!
//! ```
//! use esker::options::{BlockCache, CacheOptions, CacheType, CompressionType, FilterPolicy, Statistics};
//! use esker::stats::Ticker;
//! use esker::{Db, Options};
//! use std::sync::Arc;
//!
//! # fn main() -> esker::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("esker-options-{}", std::process::id()));
//! let cache = CacheOptions { cache_type: CacheType::Lru, ..CacheOptions::with_capacity(64 << 20) };
//! let statistics = Arc::new(Statistics::new());
//! let mut options = Options::default();
//! options.db.create_if_missing = true;
//! options.db.statistics = Some(statistics.clone());
//! options.cf.compression = CompressionType::Lz4;
//! options.cf.table.block_cache = Some(Arc::new(BlockCache::new(&cache)?));
//! options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
//! let db = Db::open(&options, &dir)?;
//! db.put("esker", "gravel")?;
//! db.put("moraine", "stones")?;
//! db.flush()?;
//! assert_eq!(db.get("fjord")?, None);
//! assert_eq!(statistics.ticker_count(Ticker::BloomFilterUseful), 1);
//! # drop(db);
//! # esker::destroy_db(&options.db, &dir)
//! # }
//! ```
//!
//! Option structs get new fields in any release: begin a literal from a default, as above with
//! `..CacheOptions::with_capacity(…)`, or use the setters. Enums that may grow, and structs that
//! Esker fills in, are `#[non_exhaustive]`.
//!
//! Reading order: `table` (how an option is declared), `former` (names that are not fields), `db`
//! and `cf` (the options), `table_options` (those of tables, by name; their struct is in
//! `esker_table`), `styles` (of compaction styles), `paths` (directories for tables),
//! `sst_partitioner`, `compaction_service`, `presets`, `leveldb_options`, `closures`,
//! `write_buffer_manager`, `file_checksum`, `wal_filter`, `hints`; `read`, `write` and `scan` (per
//! call); `sanitize` (consistent or refused), `target` (what each RocksDB reads), `set` (changes
//! while the database runs), `file` (OPTIONS files); `log` (lines of the LOG); `value`,
//! `compression` and `cache_text` (values as text).

mod cache_text;
mod cf;
mod closures;
mod compaction_service;
mod compression;
mod db;
mod file;
mod file_checksum;
mod former;
mod hints;
mod inplace;
mod leveldb_options;
pub mod log;
mod offpeak;
mod paths;
mod presets;
mod read;
mod sanitize;
mod scan;
mod set;
mod sst_partitioner;
mod styles;
pub mod table;
mod table_options;
mod target;
mod task_limiter;
pub mod value;
mod wal_filter;
mod write;
mod write_buffer_manager;

pub use cache_text::{block_cache_from_string, secondary_cache_from_string};
pub use cf::{
    CHOOSE_AT_OPEN, ColumnFamilyOptions, CompactionFilterRef, CompactionPri, CompactionStyle,
    CompressionOptions, VerifyOutputFlags,
};
pub use compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
};
pub use db::{DbOptions, HOSTNAME_FOR_DB_HOST_ID, TargetVersion, WalRecoveryMode};
pub use esker_base::logger::{InfoLog, InfoLogLevel};
pub use esker_base::stats::{Statistics, StatsLevel};
pub use esker_cache::{CacheOptions, CacheType, MetadataChargePolicy, TieredCacheOptions};
pub use esker_env::{
    Clock, Env, FileSystem, IoKind, IoPriority, MemFs, Priority, RateLimiter, RateLimiterMode,
    SstFileManager, SstFileManagerOptions,
};
pub use esker_format::compression::auto_skip::{
    auto_skip_compression_manager, cost_aware_compression_manager,
};
pub use esker_format::compression::manager::{
    BUILT_IN_COMPRESSION, CompressionManager, CompressionManagerRef, CustomCompressor, CustomDecompressor,
    FIRST_CUSTOM_COMPRESSION, LAST_CUSTOM_COMPRESSION,
};
pub use esker_format::compression::{CodecOptions, CompressionType};
pub use esker_format::file_name::FileType;
pub use esker_format::properties::IndexType;
pub use esker_format::trailer::ChecksumType;
pub use esker_table::cache_options::{
    CacheEntryRoleOptions, CacheUsageOptions, Decision, MetadataCacheOptions, PinningTier,
    PrepopulateBlockCache,
};
pub use esker_table::flush_block_policy::{
    DataBlockInProgress, FlushBlockBySizePolicyFactory, FlushBlockEveryKeyPolicyFactory, FlushBlockPolicy,
    FlushBlockPolicyFactory, FlushBlockPolicyFactoryRef,
};
pub use esker_table::{
    BlockBasedTableOptions, BlockCache, BlockSearchType, CustomFilterBitsBuilder, CustomFilterBitsReader,
    CustomFilterPolicy, CustomFilterPolicyRef, DataBlockIndexType, FilterBitsBuilder, FilterBuildingContext,
    FilterPolicy, IndexMode, IndexShorteningMode, OptimizeKeyCommonPrefix,
};
pub use file::{
    LoadedOptions, OPTIONS_FILES_KEPT, latest_options_file, load_latest_options, load_latest_options_from,
    load_options_file, obsolete_options_files, parse_options, print_options, save_options_file,
};
pub use file_checksum::{
    FileChecksumGenContext, FileChecksumGenCrc32cFactory, FileChecksumGenFactory, FileChecksumGenFactoryRef,
    FileChecksumGenerator,
};
pub use hints::{CacheTier, MemtableFactory, PrepopulateBlobCache, Temperature};
pub use inplace::{InplaceCallback, UpdateStatus};
pub use leveldb_options::{LevelDbOptions, convert_options};
pub use paths::DbPath;
pub(crate) use read::{PLAIN, table_read_options};
pub use read::{ReadOptions, ReadTier, ScanTableFilter, WalReadOptions};
pub(crate) use sanitize::check_compression;
pub use scan::MultiScanArgs;
pub use set::{cf_options_from_string, options_from_string, set_db_options, set_options};
pub use sst_partitioner::{
    PartitionerRequest, SstPartitioner, SstPartitionerContext, SstPartitionerFactory,
    SstPartitionerFactoryRef, SstPartitionerFixedPrefixFactory,
};
pub use styles::{
    CompactionOptionsFifo, CompactionOptionsUniversal, CompactionStopStyle, FileTemperatureAge,
};
pub use table::{OptionInfo, OptionKind, OptionStruct};
pub use target::{Feature, Release};
pub use task_limiter::ConcurrentTaskLimiter;
pub(crate) use task_limiter::TaskToken;
pub use wal_filter::{WalFilter, WalFilterDecision, WalFilterRecord, WalFilterRef};
pub use write::{
    BlobGarbageCollectionPolicy, BottommostLevelCompaction, CompactRangeOptions, CompactionOptions,
    FlushOptions, ImportColumnFamilyOptions, IngestExternalFileOptions, LiveFilesStorageInfoOptions,
    RangeOpt, SizeApproximationOptions, WaitForCompactOptions, WriteOptions,
};
pub(crate) use write_buffer_manager::{HoldsHistory, SharesMemory, WaitsForMemory};
pub use write_buffer_manager::{WriteBufferFlushPolicy, WriteBufferManager};

/// The options of a database and of the families that are not given their own.
///
/// ```
/// use esker::Options;
///
/// let options = Options::new()
///     .create_if_missing(true)
///     .increase_parallelism(4)
///     .optimize_level_style_compaction(64 << 20)
///     .optimize_universal_style_compaction(64 << 20)
///     .optimize_for_point_lookup(32)?;
/// assert!(options.db.create_if_missing);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the whole database.
    pub db: DbOptions,
    /// Options of its families.
    pub cf: ColumnFamilyOptions,
}
