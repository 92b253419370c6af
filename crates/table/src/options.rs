//! Options for writers and readers of tables. RocksDB's names and defaults.
//!
//! Source: RocksDB `include/rocksdb/table.h`, `table/table_builder.h`.

use crate::block_source::BlockCache;
use crate::cache_options::{CacheUsageOptions, MetadataCacheOptions, PrepopulateBlockCache};
use crate::flush_block_policy::FlushBlockPolicyFactoryRef;
use crate::trace::BlockCacheTracer;
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::SliceTransformRef;
use esker_base::stats::{HistogramStat, Statistics};
use esker_base::sync::atomic::AtomicU32;
use esker_base::{
    CompactionStyle, Error, FileNumber, IoActivity, Result, SequenceNumber, TableFileCreationReason,
};
use esker_cache::Role;
use esker_env::{Clock, SystemClock};
use esker_format::compression::manager::CompressionManagerRef;
use esker_format::compression::{CodecOptions, CompressionType};
use esker_format::filter::FilterPolicy;
use esker_format::key::InternalKeyComparator;
use esker_format::properties::IndexType;
use esker_format::trailer::ChecksumType;
use std::sync::Arc;

/// The shortening of index keys. A separator is a key between a block's last key and the next
/// block's first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexShorteningMode {
    /// Full last keys.
    NoShortening,
    /// Shortened between blocks, full at the end of the table.
    #[default]
    ShortenSeparators,
    /// Shortened everywhere.
    ShortenSeparatorsAndSuccessor,
}

/// The search within a data block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DataBlockIndexType {
    /// The restarts, by halving.
    #[default]
    BinarySearch,
    /// A hash index too, for point lookups of readers that use it.
    BinaryAndHash,
}

/// The search within index blocks. All kinds give the same answers; Esker always halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BlockSearchType {
    /// By halving.
    #[default]
    Binary,
    /// By the place that the key's bytes suggest.
    Interpolation,
    /// As each block is marked.
    Auto,
}

/// When blocks store the common prefix of their user keys once, in format version 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OptimizeKeyCommonPrefix {
    /// Never.
    Disabled,
    /// For keys in bytewise order, ascending or descending.
    #[default]
    IfFastSeek,
    /// Always.
    Enabled,
}

/// RocksDB's choice between its own index and one by user code. Esker has its own only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexMode {
    /// Write and read RocksDB's index.
    StandardOnly,
    /// Write both, read RocksDB's unless a read requests the other.
    #[default]
    StandardDefault,
    /// Write both, read the other.
    CustomDefault,
    /// Write and read the other.
    CustomOnly,
    /// Write both, read RocksDB's; an open without the other fails.
    StandardRequired,
}

/// RocksDB's options of the block-based table.
#[derive(Clone, Debug)]
pub struct BlockBasedTableOptions {
    /// Data blocks are cut at about this many uncompressed bytes.
    pub block_size: usize,
    /// A block that is fuller than this many percent is cut rather than overfilled by the next
    /// entry.
    pub block_size_deviation: u32,
    /// Entries between full keys in data blocks.
    pub block_restart_interval: usize,
    /// Entries between full keys in index blocks.
    pub index_block_restart_interval: usize,
    /// Whether data-block keys share prefixes.
    pub use_delta_encoding: bool,
    /// 2 to 8 can be written.
    pub format_version: u32,
    /// When blocks store the common prefix of their user keys once. Needs `format_version` 8 and
    /// `use_delta_encoding`.
    pub optimize_key_common_prefix: OptimizeKeyCommonPrefix,
    /// The checksum of blocks.
    pub checksum: ChecksumType,
    /// The filter to write; `None`: none, and stored ones are ignored. A policy by user code is
    /// made by [`FilterPolicy::custom`]. Stored filters of another form are ignored.
    pub filter_policy: Option<FilterPolicy>,
    /// Whether whole keys go into the filter.
    pub whole_key_filtering: bool,
    /// The index of data blocks; `HashSearch` needs a prefix extractor.
    pub index_type: IndexType,
    /// Partitions of indexes and filters are cut at about this many uncompressed bytes.
    pub metadata_block_size: u64,
    /// Whether filters are cut into partitions; needs `index_type` `TwoLevel`.
    pub partition_filters: bool,
    /// Whether filter partitions are cut by their own size, not with those of the index.
    pub decouple_partitioned_filters: bool,
    /// Whether filters are rounded up to the allocator's size classes, so that no memory is wasted.
    pub optimize_filters_for_memory: bool,
    /// Whether data blocks have a hash index.
    pub data_block_index_type: DataBlockIndexType,
    /// Keys for each bucket of that hash index.
    pub data_block_hash_table_util_ratio: f64,
    /// Whether values are stored behind all keys of a data block. RocksDB reads this from version
    /// 11 on.
    pub separate_key_value_in_data_block: bool,
    /// Data blocks do not cross multiples of this many bytes, if padding can prevent it; 0: they
    /// may. A power of 2.
    pub super_block_alignment_size: u64,
    /// A block is padded only if the padding is below `super_block_alignment_size` divided by this.
    /// 0: no padding.
    pub super_block_alignment_space_overhead_ratio: u64,
    /// Whether each compressed block is decompressed again and compared before it is written.
    pub verify_compression: bool,
    /// The rule by which keys of the index are shortened.
    pub index_shortening: IndexShorteningMode,
    /// Whether index blocks are compressed as data blocks are.
    pub enable_index_compression: bool,
    /// Data blocks start at multiples of the block size and do not cross them.
    pub block_align: bool,
    /// Cache of blocks, shared by tables. `None` with `no_block_cache` unset: the engine makes one.
    pub block_cache: Option<Arc<BlockCache>>,
    /// No cache at all.
    pub no_block_cache: bool,
    /// Whether index and filter live in the cache, and may be evicted, rather than with the reader.
    pub cache_index_and_filter_blocks: bool,
    /// Whether cached index and filter blocks go into the high-priority pool.
    pub cache_index_and_filter_blocks_with_high_priority: bool,
    /// Whether index and filter blocks of tables in level 0 stay while their reader is open.
    /// `metadata_cache_options` has finer choices.
    pub pin_l0_filter_and_index_blocks_in_cache: bool,
    /// Whether the top-level indexes of partitions stay while their reader is open.
    /// `metadata_cache_options` has finer choices.
    pub pin_top_level_index_and_filter: bool,
    /// The index and filter blocks that stay in the cache while their reader is open.
    pub metadata_cache_options: MetadataCacheOptions,
    /// Whether blocks of new tables are put into the cache as they are written.
    pub prepopulate_block_cache: PrepopulateBlockCache,
    /// The memory beside blocks that is charged to the cache.
    pub cache_usage_options: CacheUsageOptions,
    /// First automatic read-ahead, bytes.
    pub initial_auto_readahead_size: usize,
    /// Largest automatic read-ahead, bytes; 0: no automatic read-ahead.
    pub max_auto_readahead_size: usize,
    /// Sequential block reads after which read-ahead starts.
    pub num_file_reads_for_auto_readahead: u64,
    /// Accepted without effect: index blocks are searched by halving.
    pub index_block_search_type: BlockSearchType,
    /// Accepted without effect: no index block is marked for interpolation.
    pub uniform_cv_threshold: f64,
    /// Accepted without effect: bytes read in vain are not counted.
    pub read_amp_bytes_per_bit: u32,
    /// Whether each new filter is asked for all its keys before it is written. A table whose
    /// filter lacks one, by a fault of memory or processor, fails with `Corruption`. Costs a probe
    /// for each key. Default false.
    pub detect_filter_construct_corruption: bool,
    /// Accepted without effect: no table has an index by user code.
    pub fail_if_no_udi_on_open: bool,
    /// A user's index, by name. Refused unless `None`: not built.
    pub user_defined_index_factory: Option<String>,
    /// Whether reads use a user's index only. Refused if true: not built.
    pub use_udi_as_primary_index: bool,
    /// Accepted without effect, as in RocksDB 11.12: no table has an index by user code.
    pub index_mode: IndexMode,
    /// Makes the policies that end data blocks. `None`: blocks end by `block_size` and
    /// `block_size_deviation`, without a call for each entry.
    pub flush_block_policy_factory: Option<FlushBlockPolicyFactoryRef>,
}

impl BlockBasedTableOptions {
    /// The block cache, if there is one and memory of this role is charged to it.
    pub fn cache_charged_for(&self, role: Role) -> Option<&Arc<BlockCache>> {
        let is_charged = !self.no_block_cache && self.cache_usage_options.is_charged(role);
        self.block_cache.as_ref().filter(|_| is_charged)
    }
}

impl Default for BlockBasedTableOptions {
    fn default() -> BlockBasedTableOptions {
        BlockBasedTableOptions {
            block_size: 4096,
            block_size_deviation: 10,
            block_restart_interval: 16,
            index_block_restart_interval: 1,
            use_delta_encoding: true,
            format_version: 5,
            optimize_key_common_prefix: OptimizeKeyCommonPrefix::default(),
            checksum: ChecksumType::Xxh3,
            filter_policy: None,
            whole_key_filtering: true,
            index_type: IndexType::BinarySearch,
            metadata_block_size: 4096,
            partition_filters: false,
            decouple_partitioned_filters: true,
            optimize_filters_for_memory: false,
            data_block_index_type: DataBlockIndexType::BinarySearch,
            data_block_hash_table_util_ratio: 0.75,
            separate_key_value_in_data_block: false,
            super_block_alignment_size: 0,
            super_block_alignment_space_overhead_ratio: 128,
            verify_compression: false,
            index_shortening: IndexShorteningMode::ShortenSeparators,
            enable_index_compression: true,
            block_align: false,
            block_cache: None,
            no_block_cache: false,
            cache_index_and_filter_blocks: false,
            cache_index_and_filter_blocks_with_high_priority: true,
            pin_l0_filter_and_index_blocks_in_cache: false,
            pin_top_level_index_and_filter: true,
            metadata_cache_options: MetadataCacheOptions::default(),
            prepopulate_block_cache: PrepopulateBlockCache::default(),
            cache_usage_options: CacheUsageOptions::default(),
            initial_auto_readahead_size: 8 * 1024,
            max_auto_readahead_size: 256 * 1024,
            num_file_reads_for_auto_readahead: 2,
            index_block_search_type: BlockSearchType::default(),
            uniform_cv_threshold: -1.0,
            read_amp_bytes_per_bit: 0,
            detect_filter_construct_corruption: false,
            fail_if_no_udi_on_open: false,
            user_defined_index_factory: None,
            use_udi_as_primary_index: false,
            index_mode: IndexMode::default(),
            flush_block_policy_factory: None,
        }
    }
}

esker_base::setters! {
    BlockBasedTableOptions {
        block_size: usize;
        block_size_deviation: u32;
        block_restart_interval: usize;
        index_block_restart_interval: usize;
        use_delta_encoding: bool;
        format_version: u32;
        optimize_key_common_prefix: OptimizeKeyCommonPrefix;
        checksum: ChecksumType;
        optional filter_policy: FilterPolicy;
        whole_key_filtering: bool;
        index_type: IndexType;
        metadata_block_size: u64;
        partition_filters: bool;
        decouple_partitioned_filters: bool;
        optimize_filters_for_memory: bool;
        data_block_index_type: DataBlockIndexType;
        data_block_hash_table_util_ratio: f64;
        separate_key_value_in_data_block: bool;
        super_block_alignment_size: u64;
        super_block_alignment_space_overhead_ratio: u64;
        verify_compression: bool;
        index_shortening: IndexShorteningMode;
        enable_index_compression: bool;
        block_align: bool;
        optional block_cache: Arc<BlockCache>;
        no_block_cache: bool;
        cache_index_and_filter_blocks: bool;
        cache_index_and_filter_blocks_with_high_priority: bool;
        pin_l0_filter_and_index_blocks_in_cache: bool;
        pin_top_level_index_and_filter: bool;
        metadata_cache_options: MetadataCacheOptions;
        prepopulate_block_cache: PrepopulateBlockCache;
        cache_usage_options: CacheUsageOptions;
        initial_auto_readahead_size: usize;
        max_auto_readahead_size: usize;
        num_file_reads_for_auto_readahead: u64;
        index_block_search_type: BlockSearchType;
        uniform_cv_threshold: f64;
        read_amp_bytes_per_bit: u32;
        detect_filter_construct_corruption: bool;
        fail_if_no_udi_on_open: bool;
        optional user_defined_index_factory: String;
        use_udi_as_primary_index: bool;
        index_mode: IndexMode;
        optional flush_block_policy_factory: FlushBlockPolicyFactoryRef;
    }
}

/// Everything a writer needs besides the file. Start from [`TableBuilderOptions::new`].
#[derive(Clone, Debug)]
pub struct TableBuilderOptions {
    /// Order of the keys.
    pub icmp: InternalKeyComparator,
    /// Layout.
    pub table_options: Arc<BlockBasedTableOptions>,
    /// Codec of this file.
    pub compression: CompressionType,
    /// Level and dictionary of the codec.
    pub compression_opts: CodecOptions,
    /// Makes the table's compressor in place of `compression`; the table then has no dictionary.
    pub compression_manager: Option<CompressionManagerRef>,
    /// Prefixes for the filter.
    pub prefix_extractor: Option<SliceTransformRef>,
    /// Name of the family's merge operator, for the properties.
    pub merge_operator_name: Option<String>,
    /// The family.
    pub column_family_id: u32,
    /// Its name.
    pub column_family_name: String,
    /// Identity of the database; with the next two it makes the file's unique id.
    pub db_id: String,
    /// Identity of this open of the database (20 characters).
    pub db_session_id: String,
    /// The file's number.
    pub orig_file_number: FileNumber,
    /// Name of this machine.
    pub db_host_id: String,
    /// Time at which the oldest data of the table was flushed, in Unix seconds.
    pub creation_time: u64,
    /// Time at which the oldest key of the table was written, in Unix seconds; 0 if unknown.
    pub oldest_key_time: u64,
    /// Now, Unix seconds.
    pub file_creation_time: u64,
    /// The file's level, if known; Ribbon filters depend on it.
    pub level: Option<i32>,
    /// Whether no older data lies below its level.
    pub is_bottommost: bool,
    /// Whether a flush writes it.
    pub is_flush: bool,
    /// The reason for the table, for filter policies.
    pub reason: TableFileCreationReason,
    /// The compaction style of its family, for filter policies.
    pub compaction_style: CompactionStyle,
    /// The number of levels of its family, if known, for filter policies.
    pub num_levels: Option<i32>,
    /// Whether it gets no filter, whatever the policy says.
    pub skip_filters: bool,
    /// Expected bytes of the file; 0: unknown. Limits the samples of a dictionary in memory.
    pub target_file_size: u64,
    /// Makes an ingestible file (all sequences 0, `external_sst_file` properties).
    pub is_external_file: bool,
    /// Whether [`add_embedded_blob`](crate::TableBuilder::add_embedded_blob) may be called. Needs
    /// `format_version` 7 or later.
    pub embeds_blobs: bool,
    /// More properties, under names of the user's.
    pub user_collected_properties: Vec<(Vec<u8>, Vec<u8>)>,
    /// Runs of deleted keys of at least this many entries are recorded in a block of Esker's own,
    /// which RocksDB ignores (`docs/format/deleted-runs.md`); 0: none, and the table has no such
    /// block.
    pub deleted_run_block_min_entries: u64,
    /// `TableFileInfo` names the runs of at least this many entries; 0: none.
    pub long_deleted_run_entries: u64,
    /// One data block in this many is compressed with a fast codec and with a slow one, for the
    /// estimates among the properties; 0: none.
    pub sample_for_compression: u64,
    /// Counts the blocks that are put into the cache.
    pub statistics: Option<Arc<Statistics>>,
    /// The clock for times; by default the machine's.
    pub clock: Arc<dyn Clock>,
    /// False if timestamps were taken off the keys. `icmp` must then expect none.
    pub user_defined_timestamps_persisted: bool,
    /// Bytes of a checksum for each entry of the blocks that are put into the cache as they are
    /// written: 0 to 8.
    pub block_protection_bytes_per_key: usize,
}

impl TableBuilderOptions {
    /// Makes options for keys in this order and with this layout, without compression and without a
    /// family.
    pub fn new(
        icmp: InternalKeyComparator,
        table_options: Arc<BlockBasedTableOptions>,
    ) -> TableBuilderOptions {
        TableBuilderOptions {
            icmp,
            table_options,
            compression: CompressionType::None,
            compression_opts: CodecOptions::default(),
            compression_manager: None,
            prefix_extractor: None,
            merge_operator_name: None,
            column_family_id: 0x7FFF_FFFF,
            column_family_name: String::new(),
            db_id: String::new(),
            db_session_id: String::new(),
            orig_file_number: FileNumber(0),
            db_host_id: String::new(),
            creation_time: 0,
            oldest_key_time: 0,
            file_creation_time: 0,
            level: None,
            is_bottommost: false,
            is_flush: false,
            reason: TableFileCreationReason::Misc,
            compaction_style: CompactionStyle::default(),
            num_levels: None,
            skip_filters: false,
            target_file_size: 0,
            is_external_file: false,
            embeds_blobs: false,
            user_collected_properties: Vec::new(),
            deleted_run_block_min_entries: 0,
            long_deleted_run_entries: 0,
            sample_for_compression: 0,
            statistics: None,
            clock: Arc::new(SystemClock),
            user_defined_timestamps_persisted: true,
            block_protection_bytes_per_key: 0,
        }
    }
}

/// Everything a reader needs besides the file. Start from [`TableReaderOptions::new`].
#[derive(Clone, Debug)]
pub struct TableReaderOptions {
    /// Order of the keys; its name must be the table's.
    pub icmp: InternalKeyComparator,
    /// Cache, filter policy, read-ahead.
    pub table_options: Arc<BlockBasedTableOptions>,
    /// Bytes in the file, as the MANIFEST says.
    pub file_size: u64,
    /// The family's prefix extractor.
    pub prefix_extractor: Option<SliceTransformRef>,
    /// Reads blocks of codecs by user code.
    pub compression_manager: Option<CompressionManagerRef>,
    /// Merges the table's operands; `None`: no operator.
    pub merge_operator: Option<MergeOperatorRef>,
    /// The file's level. Tables of level 0 can have their index and filter pinned.
    pub level: Option<usize>,
    /// Whether that is the last level of its family, for statistics.
    pub is_last_level: bool,
    /// The file's temperature as the MANIFEST stores it, for statistics; 0: unknown.
    pub temperature: u8,
    /// Bytes up to which a table in level 0 counts as flushed when its index and filter may be
    /// pinned.
    pub max_file_size_for_l0_meta_pin: u64,
    /// The file's number.
    pub file_number: FileNumber,
    /// The MANIFEST's largest sequence number; an ingested file takes its sequence from here.
    pub largest_seqno: Option<SequenceNumber>,
    /// The MANIFEST's lower bound, an internal key. A backward seek to a key before it finds
    /// nothing, and does not read the index.
    pub smallest_key: Option<Box<[u8]>>,
    /// The MANIFEST's upper bound, an internal key. A seek beyond it finds nothing, and does not
    /// read the index.
    pub largest_key: Option<Box<[u8]>>,
    /// The MANIFEST's unique id; one that differs from the table's own is `Corruption`.
    pub expected_unique_id: Option<[u64; 2]>,
    /// Counts cache hits, filters and reads.
    pub statistics: Option<Arc<Statistics>>,
    /// Gets the time of each read of the file, if there are statistics.
    pub latencies: Option<Arc<HistogramStat>>,
    /// The tracer of its database, and the name of its column family.
    pub tracer: Option<(Arc<BlockCacheTracer>, Arc<str>)>,
    /// The clock for deadlines of reads; by default the machine's.
    pub clock: Arc<dyn Clock>,
    /// The length of the tail from the MANIFEST, so that one read gets everything behind the data
    /// blocks; 0: unknown.
    pub tail_size: u64,
    /// Bytes of a checksum for each entry of a block in memory, 0 (none) to 8. Each read of an
    /// entry compares it: `Corruption` if the entry has changed.
    pub block_protection_bytes_per_key: usize,
    /// The family's `uncache_aggressiveness`, which may change.
    pub uncache_aggressiveness: Arc<AtomicU32>,
}

impl TableReaderOptions {
    /// Makes options for a file of `file_size` bytes with keys in this order.
    pub fn new(
        icmp: InternalKeyComparator,
        table_options: Arc<BlockBasedTableOptions>,
        file_size: u64,
    ) -> TableReaderOptions {
        TableReaderOptions {
            icmp,
            table_options,
            file_size,
            prefix_extractor: None,
            compression_manager: None,
            merge_operator: None,
            level: None,
            is_last_level: false,
            temperature: 0,
            max_file_size_for_l0_meta_pin: u64::MAX,
            file_number: FileNumber(0),
            largest_seqno: None,
            smallest_key: None,
            largest_key: None,
            expected_unique_id: None,
            statistics: None,
            latencies: None,
            tracer: None,
            clock: Arc::new(SystemClock),
            tail_size: 0,
            block_protection_bytes_per_key: 0,
            uncache_aggressiveness: Arc::new(AtomicU32::new(0)),
        }
    }
}

/// The places where a read may look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum TableReadTier {
    /// The cache, the tiers below it, and the files.
    #[default]
    ReadAll,
    /// The block cache and the tiers below it; if they lack a block, the answer is `Incomplete`.
    BlockCache,
    /// The block cache alone, because a reader under a guard must not wait. See
    /// [`Missing`](crate::Missing).
    NoWait,
}

/// Options of one read of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableReadOptions {
    /// Check block checksums on every read from the file.
    pub verify_checksums: bool,
    /// Leave the blocks read in the cache.
    pub fill_cache: bool,
    /// The places where the read may look.
    pub read_tier: TableReadTier,
    /// Bytes that an iterator reads ahead from the start; 0: the iterator adapts to its reads.
    pub readahead_size: usize,
    /// Whether an iterator's `seek` may use the prefix filter. The prefix is that of
    /// `ScanIterator::set_wanted_prefix_of`. If no key has it, the seek ends at once.
    pub prefix_filter_on_seek: bool,
    /// A batch may read blocks of all levels at once, some of them needlessly.
    pub async_io: bool,
    /// The point in time, in microseconds since the Unix epoch, from which on no file is read;
    /// `u64::MAX`: never.
    pub deadline_micros: u64,
    /// The operation to which the times of file reads belong; `Unknown`: that of the thread.
    pub activity: IoActivity,
}

impl Default for TableReadOptions {
    fn default() -> TableReadOptions {
        TableReadOptions {
            verify_checksums: true,
            fill_cache: true,
            read_tier: TableReadTier::ReadAll,
            readahead_size: 0,
            prefix_filter_on_seek: false,
            async_io: false,
            deadline_micros: u64::MAX,
            activity: IoActivity::Unknown,
        }
    }
}

impl TableReadOptions {
    /// Whether there is one.
    #[inline]
    pub fn has_deadline(&self) -> bool {
        self.deadline_micros < u64::MAX
    }

    /// Checks that the deadline has not passed.
    /// # Errors
    /// `TimedOut` from the deadline on.
    #[inline]
    pub(crate) fn check_deadline(&self, clock: &dyn Clock) -> Result<()> {
        if self.has_deadline() && clock.now_micros() >= self.deadline_micros {
            return Err(Error::timed_out(
                "ReadOptions::deadline has passed, and a file would have to be read",
            ));
        }
        Ok(())
    }

    /// These options for a read that waits for nothing.
    #[inline]
    pub(crate) fn without_waiting(&self) -> TableReadOptions {
        TableReadOptions { read_tier: TableReadTier::NoWait, ..*self }
    }
}
