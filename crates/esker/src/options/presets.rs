//! Presets: several options at once, with RocksDB's meaning.
//!
//! Each preset sets the same options to the same values as RocksDB 11's method of its name. It
//! overwrites earlier settings; later settings overwrite it.
//!
//! Source of the values: RocksDB `options/options.cc`.

use super::{
    BlockBasedTableOptions, BlockCache, CacheOptions, CacheType, ColumnFamilyOptions, CompactionStyle,
    CompressionType, DataBlockIndexType, DbOptions, FilterPolicy, IndexType, Options, WriteBufferManager,
};
use esker_base::Result;
use esker_env::Priority;
use std::sync::Arc;

/// Bytes of the block cache that [`Options::optimize_for_small_db`] makes.
const SMALL_CACHE_BYTES: usize = 16 << 20;
/// Bits of a Bloom filter for each key.
const BLOOM_BITS: f64 = 10.0;

fn lru_cache(bytes: usize) -> Result<Arc<BlockCache>> {
    let options = CacheOptions { cache_type: CacheType::Lru, ..CacheOptions::with_capacity(bytes) };
    BlockCache::new(&options).map(Arc::new)
}

impl DbOptions {
    /// Lets flushes and compactions use `total_threads` threads together.
    ///
    /// Sets `max_background_jobs`, and the threads of the environment: `total_threads` for
    /// compactions, one for flushes. Without it, two jobs run at once. Set `env` before.
    ///
    /// ```
    /// let options = esker::DbOptions::new().increase_parallelism(8);
    /// assert_eq!(options.max_background_jobs, 8);
    /// ```
    #[must_use]
    pub fn increase_parallelism(mut self, total_threads: u32) -> Self {
        self.max_background_jobs = i32::try_from(total_threads).unwrap_or(i32::MAX);
        self.env.pool.set_background_threads(total_threads as usize, Priority::Low);
        self.env.pool.set_background_threads(1, Priority::High);
        self
    }

    /// Tunes for a database of less than a gigabyte: few descriptors, one thread that opens tables,
    /// and memtables that are charged to `cache`.
    ///
    /// ```
    /// let options = esker::DbOptions::new().optimize_for_small_db(None);
    /// assert_eq!(options.max_open_files, 5000);
    /// ```
    #[must_use]
    pub fn optimize_for_small_db(mut self, cache: Option<&Arc<BlockCache>>) -> Self {
        self.max_file_opening_threads = 1;
        self.max_open_files = 5000;
        if let Some(cache) = cache {
            self.write_buffer_manager = Some(Arc::new(WriteBufferManager::with_cache(0, cache, false)));
        }
        self
    }
}

impl ColumnFamilyOptions {
    /// Tunes for point lookups only, without scans: a Bloom filter of 10 bits for each key, a hash
    /// index in data blocks, and a block cache of `block_cache_size_mb` MiB.
    ///
    /// The rest of the table options goes back to the defaults.
    ///
    /// ```
    /// let options = esker::ColumnFamilyOptions::new().optimize_for_point_lookup(64)?;
    /// assert!(options.table.filter_policy.is_some());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: no cache can have this size.
    pub fn optimize_for_point_lookup(mut self, block_cache_size_mb: u64) -> Result<Self> {
        let bytes = usize::try_from(block_cache_size_mb).unwrap_or(usize::MAX).saturating_mul(1 << 20);
        self.table = BlockBasedTableOptions {
            data_block_index_type: DataBlockIndexType::BinaryAndHash,
            data_block_hash_table_util_ratio: 0.75,
            filter_policy: Some(FilterPolicy::bloom(BLOOM_BITS)),
            block_cache: Some(lru_cache(bytes)?),
            ..BlockBasedTableOptions::default()
        };
        self.memtable_prefix_bloom_size_ratio = 0.02;
        self.memtable_whole_key_filtering = true;
        Ok(self)
    }

    /// Sets leveled compaction for heavy loads, with memtables of `memtable_memory_budget` bytes
    /// together (RocksDB's default is 512 MiB).
    ///
    /// The budget is the expected use; the worst case is one and a half times the budget. Levels 0
    /// and 1 are not compressed, deeper ones with LZ4.
    ///
    /// ```
    /// let options = esker::ColumnFamilyOptions::new().optimize_level_style_compaction(512 << 20);
    /// assert_eq!(options.write_buffer_size, 128 << 20);
    /// ```
    #[must_use]
    pub fn optimize_level_style_compaction(mut self, memtable_memory_budget: u64) -> Self {
        self = self.budgeted_memtables(memtable_memory_budget);
        self.level0_file_num_compaction_trigger = 2;
        self.target_file_size_base = memtable_memory_budget / 8;
        self.max_bytes_for_level_base = memtable_memory_budget;
        self.compaction_style = CompactionStyle::Level;
        let levels = usize::try_from(self.num_levels).unwrap_or(0);
        let compression = |level| if level < 2 { CompressionType::None } else { CompressionType::Lz4 };
        self.compression_per_level = (0..levels).map(compression).collect();
        self
    }

    /// Sets universal compaction for heavy loads, with memtables of `memtable_memory_budget` bytes
    /// together (RocksDB's default is 512 MiB).
    ///
    /// The budget is the expected use; the worst case is one and a half times the budget. The
    /// newest fifth of the data is not compressed.
    ///
    /// ```
    /// let options = esker::ColumnFamilyOptions::new().optimize_universal_style_compaction(64 << 20);
    /// assert_eq!(options.write_buffer_size, 16 << 20);
    /// ```
    #[must_use]
    pub fn optimize_universal_style_compaction(mut self, memtable_memory_budget: u64) -> Self {
        self = self.budgeted_memtables(memtable_memory_budget);
        self.compaction_style = CompactionStyle::Universal;
        self.compaction_options_universal.compression_size_percent = 80;
        self
    }

    /// Sizes memtables so that four fill the budget. A flush merges two of them; writes stop at
    /// six.
    fn budgeted_memtables(mut self, memtable_memory_budget: u64) -> Self {
        self.write_buffer_size = usize::try_from(memtable_memory_budget / 4).unwrap_or(usize::MAX);
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
        self
    }

    /// Tunes for a database of less than a gigabyte: memtables and tables of 2 MiB. With `cache`,
    /// blocks, indexes and filters are cached there, and indexes have two levels.
    ///
    /// ```
    /// let options = esker::ColumnFamilyOptions::new().optimize_for_small_db(None);
    /// assert_eq!(options.write_buffer_size, 2 << 20);
    /// ```
    #[must_use]
    pub fn optimize_for_small_db(mut self, cache: Option<&Arc<BlockCache>>) -> Self {
        self.write_buffer_size = 2 << 20;
        self.target_file_size_base = 2 << 20;
        self.max_bytes_for_level_base = 10 << 20;
        self.soft_pending_compaction_bytes_limit = 256 << 20;
        self.hard_pending_compaction_bytes_limit = 1 << 30;
        self.table = BlockBasedTableOptions {
            block_cache: cache.cloned(),
            cache_index_and_filter_blocks: true,
            index_type: IndexType::TwoLevel,
            ..BlockBasedTableOptions::default()
        };
        self
    }
}

impl Options {
    /// All defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets [`DbOptions::create_if_missing`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let options = esker::Options::new().create_if_missing(true);
    /// let db = esker::Db::open(&options, dir.path())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn create_if_missing(mut self, value: bool) -> Options {
        self.db.create_if_missing = value;
        self
    }

    /// See [`DbOptions::increase_parallelism`].
    #[must_use]
    pub fn increase_parallelism(mut self, total_threads: u32) -> Options {
        self.db = self.db.increase_parallelism(total_threads);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_for_point_lookup`].
    /// # Errors
    /// `InvalidArgument`: no cache can have this size.
    pub fn optimize_for_point_lookup(mut self, block_cache_size_mb: u64) -> Result<Options> {
        self.cf = self.cf.optimize_for_point_lookup(block_cache_size_mb)?;
        Ok(self)
    }

    /// See [`ColumnFamilyOptions::optimize_level_style_compaction`].
    #[must_use]
    pub fn optimize_level_style_compaction(mut self, memtable_memory_budget: u64) -> Options {
        self.cf = self.cf.optimize_level_style_compaction(memtable_memory_budget);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_universal_style_compaction`].
    #[must_use]
    pub fn optimize_universal_style_compaction(mut self, memtable_memory_budget: u64) -> Options {
        self.cf = self.cf.optimize_universal_style_compaction(memtable_memory_budget);
        self
    }

    /// Tunes for loading a whole database and then compacting it once. No write waits, no automatic
    /// compaction runs, and a manual compaction takes all files of level 0 at once.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let options = esker::Options::new().create_if_missing(true).prepare_for_bulk_load();
    /// let db = esker::Db::open(&options, dir.path())?;
    /// db.put("esker", "gravel")?;
    /// db.compact_range(None, None)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    #[must_use]
    pub fn prepare_for_bulk_load(mut self) -> Options {
        self.db.max_background_flushes = 4;
        self.db.max_background_compactions = 2;
        let cf = &mut self.cf;
        cf.level0_file_num_compaction_trigger = 1 << 30;
        cf.level0_slowdown_writes_trigger = 1 << 30;
        cf.level0_stop_writes_trigger = 1 << 30;
        cf.soft_pending_compaction_bytes_limit = 0;
        cf.hard_pending_compaction_bytes_limit = 0;
        cf.disable_auto_compactions = true;
        cf.max_compaction_bytes = 1 << 60;
        // With two levels, a manual compaction rewrites each entry once.
        cf.num_levels = 2;
        cf.max_write_buffer_number = 6;
        cf.min_write_buffer_number_to_merge = 1;
        cf.target_file_size_base = 256 << 20;
        self
    }

    /// Tunes for a database of less than a gigabyte: small memtables and tables, few descriptors,
    /// and one cache of 16 MiB for blocks, indexes, filters and memtables.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let options = esker::Options::new().create_if_missing(true).optimize_for_small_db()?;
    /// let db = esker::Db::open(&options, dir.path())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// None today: the cache has a fixed, valid size.
    pub fn optimize_for_small_db(mut self) -> Result<Options> {
        let cache = lru_cache(SMALL_CACHE_BYTES)?;
        self.db = self.db.optimize_for_small_db(Some(&cache));
        self.cf = self.cf.optimize_for_small_db(Some(&cache));
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
