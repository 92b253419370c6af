//! Options of one column family: RocksDB's `ColumnFamilyOptions`.
//!
//! Source of names and defaults: RocksDB `include/rocksdb/options.h`,
//! `include/rocksdb/advanced_options.h`.

use super::hints::{MemtableFactory, PrepopulateBlobCache, Temperature};
use super::inplace::InplaceCallback;
use super::sst_partitioner::SstPartitionerFactoryRef;
use super::styles::{CompactionOptionsFifo, CompactionOptionsUniversal};
use super::table::option_struct;
use super::value::{OptionValue, option_enum};
use crate::compaction_filter::{CompactionFilter, CompactionFilterFactoryRef};
pub use esker_base::CompactionStyle;
use esker_base::comparator::{BytewiseComparator, ComparatorRef};
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::SliceTransformRef;
use esker_base::table_properties_collector::TablePropertiesCollectorFactoryRef;
use esker_base::{Error, Result};
use esker_format::compression::CompressionType;
use esker_format::compression::manager::CompressionManagerRef;
use esker_table::BlockBasedTableOptions;
use std::sync::Arc;

impl OptionValue for CompactionStyle {
    fn parse(text: &str) -> Result<CompactionStyle> {
        let style = CompactionStyle::ALL.iter().find(|style| style.as_str() == text.trim());
        style.copied().ok_or_else(|| {
            let names = CompactionStyle::ALL.iter().map(|style| style.as_str()).collect::<Vec<_>>().join(" ");
            Error::invalid_argument(format!("'{}' is none of {names}", text.trim()))
        })
    }
    fn print(&self) -> String {
        self.as_str().to_owned()
    }
}

option_enum! {
    /// Chooses the file of a level that is compacted first.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum CompactionPri {
        /// The largest file, with deletions counted double.
        ByCompensatedSize = 0, "kByCompensatedSize";
        /// The file whose newest entry is the oldest.
        OldestLargestSeqFirst = 1, "kOldestLargestSeqFirst";
        /// The file whose oldest entry is the oldest.
        OldestSmallestSeqFirst = 2, "kOldestSmallestSeqFirst";
        /// The file that overlaps the fewest bytes of the next level, relative to its own size.
        #[default]
        MinOverlappingRatio = 3, "kMinOverlappingRatio";
        /// The files one after the other, in the order of their keys.
        RoundRobin = 4, "kRoundRobin";
    }
}

/// Parameters of compression; the text form is RocksDB's `{window_bits=..;level=..;…}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompressionOptions {
    /// Log2 of zlib's window, negative for raw deflate as RocksDB stores it. Default -14.
    pub window_bits: i32,
    /// The algorithm's level; [`CompressionOptions::DEFAULT_LEVEL`] for its own default.
    pub level: i32,
    /// zlib's strategy. Default 0.
    pub strategy: i32,
    /// Dictionary bytes for each file; 0 for none. Used by zlib, LZ4 and zstd. Default 0.
    pub max_dict_bytes: u32,
    /// Sample bytes a dictionary is trained from. Default 0.
    pub zstd_max_train_bytes: u32,
    /// Whether zstd's trainer makes the dictionary. `false`: the samples themselves are the
    /// dictionary, as with `zstd_max_train_bytes = 0` (RocksDB puts zstd's tables before them).
    /// Default true.
    pub use_zstd_dict_trainer: bool,
    /// Bytes of a file kept in memory to sample a dictionary from; 0: up to its target size.
    /// Default 0.
    pub max_dict_buffer_bytes: u64,
    /// Accepted without effect: one thread compresses the blocks of a file. Default 1.
    pub parallel_threads: u32,
    /// Whether zstd adds a checksum to each block, beside the one that every block of a table has.
    /// Costs 4 bytes a block. Default false.
    pub checksum: bool,
    /// Whether these options apply to the last level in place of `compression_opts`. Used in
    /// `bottommost_compression_opts` only. Default false.
    pub enabled: bool,
    /// A compressed block is stored if at most this many of each 1024 bytes remain. Numbers above
    /// 1023 count as 1023; 0 and less store all blocks as they are. Default 896.
    pub max_compressed_bytes_per_kb: i32,
    /// Accepted without effect: compression is tried on every block. In RocksDB from 11.10 on,
    /// blocks behind incompressible ones are mostly stored as they are. Default false.
    pub auto_skip: bool,
    /// Accepted without effect: see `auto_skip`. In RocksDB, about one of this many skipped blocks
    /// is compressed on trial; 0: RocksDB's number. Default 0.
    pub auto_skip_min_sample_every: i32,
}

impl CompressionOptions {
    /// Stands for the algorithm's own default level: RocksDB's `kDefaultCompressionLevel`.
    pub const DEFAULT_LEVEL: i32 = 32767;

    /// The options in the form that codecs take.
    pub fn codec(&self) -> esker_format::compression::CodecOptions {
        esker_format::compression::CodecOptions {
            window_bits: self.window_bits,
            level: self.level,
            strategy: self.strategy,
            max_dict_bytes: self.max_dict_bytes,
            zstd_max_train_bytes: if self.use_zstd_dict_trainer { self.zstd_max_train_bytes } else { 0 },
            max_dict_buffer_bytes: self.max_dict_buffer_bytes,
            max_compressed_bytes_per_kb: self.max_compressed_bytes_per_kb,
            checksum: self.checksum,
        }
    }
}

impl Default for CompressionOptions {
    fn default() -> Self {
        CompressionOptions {
            window_bits: -14,
            level: Self::DEFAULT_LEVEL,
            strategy: 0,
            max_dict_bytes: 0,
            zstd_max_train_bytes: 0,
            use_zstd_dict_trainer: true,
            max_dict_buffer_bytes: 0,
            parallel_threads: 1,
            checksum: false,
            enabled: false,
            max_compressed_bytes_per_kb: 896,
            auto_skip: false,
            auto_skip_min_sample_every: 0,
        }
    }
}

esker_base::setters! {
    CompressionOptions {
        window_bits: i32;
        level: i32;
        strategy: i32;
        max_dict_bytes: u32;
        zstd_max_train_bytes: u32;
        use_zstd_dict_trainer: bool;
        max_dict_buffer_bytes: u64;
        parallel_threads: u32;
        checksum: bool;
        enabled: bool;
        max_compressed_bytes_per_kb: i32;
        auto_skip: bool;
        auto_skip_min_sample_every: i32;
    }
}

/// The bits of [`ColumnFamilyOptions::verify_output_flags`]: checks, and the jobs whose outputs
/// they cover.
#[derive(Debug)]
pub struct VerifyOutputFlags;

impl VerifyOutputFlags {
    /// RocksDB's `kVerifyNone`.
    pub const VERIFY_NONE: u32 = 0;
    /// `kVerifyBlockChecksum`: every block has its checksum, and the table is in order.
    pub const VERIFY_BLOCK_CHECKSUM: u32 = 1 << 0;
    /// `kVerifyIteration`: the table's entries are those that were written.
    pub const VERIFY_ITERATION: u32 = 1 << 1;
    /// `kVerifyFileChecksum`: the file has the checksum that the MANIFEST gets, if there is a
    /// `file_checksum_gen_factory`.
    pub const VERIFY_FILE_CHECKSUM: u32 = 1 << 2;
    /// `kEnableForLocalCompaction`: check the outputs of compactions.
    pub const ENABLE_FOR_LOCAL_COMPACTION: u32 = 1 << 10;
    /// `kEnableForRemoteCompaction`: Esker has no remote compactions.
    pub const ENABLE_FOR_REMOTE_COMPACTION: u32 = 1 << 11;
    /// Check the outputs of flushes and recovery. RocksDB reserves the bit for this, and ignores it
    /// so far.
    pub const ENABLE_FOR_FLUSH: u32 = 1 << 12;
    /// `kVerifyAll`: all checks, for all jobs.
    pub const VERIFY_ALL: u32 = u32::MAX;
}

/// A shared compaction filter.
pub type CompactionFilterRef = Arc<dyn CompactionFilter>;

/// A value of `ttl` and `periodic_compaction_seconds` that the opening of the database replaces by
/// its own choice.
pub const CHOOSE_AT_OPEN: u64 = u64::MAX - 1;

impl ColumnFamilyOptions {
    /// Memtables that may wait before writers stop.
    pub(crate) fn memtable_limit(&self) -> usize {
        count(self.max_write_buffer_number).max(2)
    }

    /// Bytes of all memtables up to which flushed memtables are kept for conflict checks.
    pub(crate) fn history_bytes(&self) -> usize {
        usize::try_from(self.max_write_buffer_size_to_maintain).unwrap_or(0)
    }

    /// Memtables that should wait before a flush.
    pub(crate) fn memtables_to_merge(&self) -> usize {
        count(self.min_write_buffer_number_to_merge).max(1)
    }

    /// Level-0 files at which writers are slowed down.
    pub(crate) fn level0_slowdown(&self) -> usize {
        count(self.level0_slowdown_writes_trigger)
    }

    /// Level-0 files at which writers stop.
    pub(crate) fn level0_stop(&self) -> usize {
        count(self.level0_stop_writes_trigger)
    }

    /// Compression of tables in `level`. `is_bottommost`: no data lies below. `base_level`: the
    /// level into which level 0 is compacted; `compression_per_level[1]` is for it.
    pub fn compression_for(
        &self,
        level: usize,
        base_level: usize,
        is_bottommost: bool,
    ) -> (CompressionType, CompressionOptions) {
        let opts = &self.bottommost_compression_opts;
        let opts = if is_bottommost && opts.enabled { *opts } else { self.compression_opts };
        if is_bottommost && let Some(compression) = self.bottommost_compression {
            return (compression, opts);
        }
        let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level).max(1) };
        let listed = self.compression_per_level.get(index).or(self.compression_per_level.last());
        (listed.copied().unwrap_or(self.compression), opts)
    }
}

option_struct! {
    /// Options of one column family. Every field says its unit, its default and whether
    /// `set_options` may change it while the database runs.
    pub struct ColumnFamilyOptions: "ColumnFamilyOptions" {
        /// Order of user keys; its name is checked at open. Default `leveldb.BytewiseComparator`.
        /// Fixed.
        comparator: ComparatorRef = Arc::new(BytewiseComparator), fixed;
        /// Combines merge operands; reads of a family with operands need it. Default `None`. Fixed.
        merge_operator: Option<MergeOperatorRef> = None, fixed;
        /// Cuts prefixes for prefix filters and prefix scans. Default `None`. Mutable.
        prefix_extractor: Option<SliceTransformRef> = None, mutable;
        /// One filter for all compactions; used instead of the factory. Default `None`. Fixed.
        compaction_filter: Option<CompactionFilterRef> = None, read;
        /// Makes a filter for each compaction. Default `None`. Fixed.
        compaction_filter_factory: Option<CompactionFilterFactoryRef> = None, read;
        /// Factories of collectors. For each table that a flush or compaction writes, a collector
        /// sees its entries and may request an early compaction of the table:
        /// [`CompactOnDeletionCollectorFactory`](crate::table_properties_collector::CompactOnDeletionCollectorFactory),
        /// [`CompactForTieringCollectorFactory`](crate::table_properties_collector::CompactForTieringCollectorFactory),
        /// or your own. As in RocksDB, factories have no text form. Default: none. Fixed.
        table_properties_collector_factories: Vec<TablePropertiesCollectorFactoryRef> = Vec::new(), object;

        /// Makes the compressors and decompressors of tables. Their codes are the program's: reads
        /// need a manager of the same compatibility name, and tables `format_version` 7 or later.
        /// Default `None`: the built-in codecs. Mutable, for new tables only.
        compression_manager: Option<CompressionManagerRef> = None, mutable;
        /// Makes a partitioner for each compaction. The partitioner chooses keys at which tables
        /// end. Default `None`. Fixed.
        sst_partitioner_factory: Option<SstPartitionerFactoryRef> = None, fixed;
        /// Refuse writes to the family. Not built: setting it is refused. Default false. Fixed.
        disallow_memtable_writes: bool = false, fixed;

        /// Bytes that the entries of a memtable use before it is switched; as in RocksDB it takes
        /// six tenths of an arena block more. Default 64 MiB. Mutable.
        write_buffer_size: usize = 64 << 20, mutable;
        /// Memtables, active and immutable, at which writes stop. Default 2. Mutable.
        max_write_buffer_number: i32 = 2, mutable;
        /// Immutable memtables that one flush waits for. Default 1. Fixed.
        min_write_buffer_number_to_merge: i32 = 1, fixed;
        /// Bytes of all memtables up to which flushed memtables are kept, for the conflict checks
        /// of optimistic transactions; -1: `max_write_buffer_number` buffers. Default 0. Fixed.
        max_write_buffer_size_to_maintain: i64 = 0, fixed;
        /// Bytes in one arena block; 0: an eighth of the write buffer, at most 1 MiB. Default 0.
        /// Mutable.
        arena_block_size: usize = 0, mutable;
        /// Share of the write buffer for a Bloom filter of a memtable's key prefixes, 0 to 0.25. A
        /// lookup of an absent key then costs a tenth; a write costs a third more. Has an effect
        /// with a prefix extractor or `memtable_whole_key_filtering`. Default 0: no filter.
        /// Mutable, for later memtables.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, mutable;
        /// Put whole keys into the memtable's Bloom filter, too, and look them up there. Default
        /// false. Mutable, for later memtables.
        memtable_whole_key_filtering: bool = false, mutable;
        /// Range deletions in a memtable before it is switched, like `write_buffer_size`; 0: any
        /// number. Default 0. Mutable.
        memtable_max_range_deletions: u32 = 0, mutable;
        /// Whether `inplace_callback` is in use. Without one it has no effect: each write is a
        /// version of its own, so snapshots stay right. Default false. Fixed.
        inplace_update_support: bool = false, fixed;
        /// Makes the value of each put, of the key's value and the put's argument. In use with
        /// `inplace_update_support`, which then needs `allow_concurrent_memtable_write` off. The
        /// new value is what the WAL and the memtable get, as a version of its own. A batch with
        /// such a put is written in a group of its own, after reads of the keys' values. Prepared
        /// transactions and families with timestamps refuse such puts. Default `None`. Fixed.
        inplace_callback: Option<InplaceCallback> = None, object;
        /// Accepted without effect: operands are combined by reads, flushes and compactions.
        /// Default 0. Mutable.
        max_successive_merges: usize = 0, mutable;

        /// Whether tables store user-defined timestamps. If not, only memtables and WALs have them,
        /// and reads at timestamps older than the last flush are refused. Default true. Fixed.
        persist_user_defined_timestamps: bool = true, fixed;

        /// Levels. Default 7. Fixed.
        num_levels: i32 = 7, fixed;
        /// Level-0 files that start a compaction. Default 4. Mutable.
        level0_file_num_compaction_trigger: i32 = 4, mutable;
        /// Level-0 files at which writes are slowed down. Default 20. Mutable.
        level0_slowdown_writes_trigger: i32 = 20, mutable;
        /// Level-0 files at which writes stop. Default 36. Mutable.
        level0_stop_writes_trigger: i32 = 36, mutable;
        /// Bytes of a file on level 1. Default 64 MiB. Mutable.
        target_file_size_base: u64 = 64 << 20, mutable;
        /// Growth of the file size from level to level. Default 1. Mutable.
        target_file_size_multiplier: i32 = 1, mutable;
        /// Bytes of level 1 (with dynamic level bytes: the smallest base level is derived). Default
        /// 256 MiB. Mutable.
        max_bytes_for_level_base: u64 = 256 << 20, mutable;
        /// Growth of the level size from level to level. Default 10. Mutable.
        max_bytes_for_level_multiplier: f64 = 10.0, mutable;
        /// Further factor for each level; a missing factor is 1. Default empty. Mutable.
        max_bytes_for_level_multiplier_additional: Vec<i32> = Vec::new(), mutable;
        /// Derive level sizes from the last level, so that 90% of the data is there. Default true.
        /// Fixed.
        level_compaction_dynamic_level_bytes: bool = true, fixed;
        /// Most input bytes of one compaction; 0: 25 times the target file size. Default 0.
        /// Mutable.
        max_compaction_bytes: u64 = 0, mutable;
        /// Bytes waiting for compaction at which writes are slowed down; 0: never. Default 64 GiB.
        /// Mutable.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, mutable;
        /// Bytes waiting for compaction at which writes stop; 0: never. Default 256 GiB. Mutable.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, mutable;
        /// Run manual compactions only. Default false. Mutable.
        disable_auto_compactions: bool = false, mutable;
        /// Layout. Default `Level`. Fixed.
        compaction_style: CompactionStyle = CompactionStyle::default(), fixed;
        /// Options of the compaction style `Universal`. Mutable.
        compaction_options_universal: CompactionOptionsUniversal = CompactionOptionsUniversal::default(), mutable;
        /// Options of the compaction style `Fifo`. Mutable.
        compaction_options_fifo: CompactionOptionsFifo = CompactionOptionsFifo::default(), mutable;
        /// The order in which files of a level are compacted. Default `MinOverlappingRatio`. Fixed.
        compaction_pri: CompactionPri = CompactionPri::default(), fixed;
        /// Seconds after which a file is compacted for its age; 0: never. Default: 30 days.
        /// Mutable.
        ttl: u64 = CHOOSE_AT_OPEN, mutable;
        /// Seconds after which a file is rewritten; 0: never. Default: 30 days if there is a
        /// compaction filter or the style is `Universal`, else never. With `Universal` the smaller
        /// one of this and `ttl` counts. Mutable.
        periodic_compaction_seconds: u64 = CHOOSE_AT_OPEN, mutable;
        /// An entry younger than this many seconds keeps its sequence number in the last level,
        /// too, and tables store the times of sequence numbers; 0: neither. An entry without a
        /// recorded time counts as old as its file. Default 0. Mutable.
        preserve_internal_time_seconds: u64 = 0, mutable;
        /// An entry younger than this many seconds stays above the last level, in the styles
        /// `Level` and `Universal`; 0: it may go there at once. Times are recorded as for
        /// `preserve_internal_time_seconds`. A universal compaction then leaves the last level out
        /// when it computes the size amplification. Default 0. Mutable.
        preclude_last_level_data_seconds: u64 = 0, mutable;

        /// Compression of tables. Default LZ4, which RocksDB 7.8 and 11 both read. Mutable.
        compression: CompressionType = CompressionType::Lz4, mutable;
        /// Compression of the last level; `None`: as on the other levels. Default `None`. Mutable.
        bottommost_compression: Option<CompressionType> = None, mutable;
        /// Parameters of compression. Mutable.
        compression_opts: CompressionOptions = CompressionOptions::default(), mutable;
        /// Parameters of compression on the last level, if its `enabled` is set. Mutable.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(), mutable;
        /// Compression of each level; the last entry is for all deeper levels; empty:
        /// `compression`. Default empty. Fixed.
        compression_per_level: Vec<CompressionType> = Vec::new(), fixed;

        /// Put large values into blob files, so that compactions need not rewrite them. Default
        /// false. Mutable.
        enable_blob_files: bool = false, mutable;
        /// Bytes at which a value counts as large. Default 0. Mutable.
        min_blob_size: u64 = 0, mutable;
        /// Bytes at which a blob file ends. Default 256 MiB. Mutable.
        blob_file_size: u64 = 256 << 20, mutable;
        /// Compression of blob files, value by value. Default none. Mutable.
        blob_compression_type: CompressionType = CompressionType::None, mutable;
        /// Parameters of the compression of blob files; values get no dictionary. Same default as
        /// `compression_opts`. Mutable.
        blob_compression_opts: CompressionOptions = CompressionOptions::default(), mutable;
        /// Compactions move values out of the oldest blob files, so that those files can be
        /// deleted. Default false. Mutable.
        enable_blob_garbage_collection: bool = false, mutable;
        /// Share of the blob files, by number, that counts as oldest: 0 to 1. Default 0.25.
        /// Mutable.
        blob_garbage_collection_age_cutoff: f64 = 0.25, mutable;
        /// Share of garbage in the oldest blob files that starts compactions to remove it: 0 to 1;
        /// 1: never. Default
        /// 1. Mutable.
        blob_garbage_collection_force_threshold: f64 = 1.0, mutable;
        /// The first level whose values go into blob files. Default 0. Mutable.
        blob_file_starting_level: i32 = 0, mutable;
        /// Caches values from blob files; may be the block cache. Default `None`: values are not
        /// cached. Fixed.
        blob_cache: Option<Arc<esker_table::BlockCache>> = None, read;

        /// Bytes of a checksum that each entry of a memtable has: 0 (none), 1, 2, 4 or 8. Every
        /// read of an entry (gets, iterators, flushes) checks it: `Corruption` if the entry has
        /// changed. A change of the option applies to new memtables. Range deletions are checked
        /// only at insertion. Default 0. Mutable.
        memtable_protection_bytes_per_key: u32 = 0, mutable;
        /// Bytes of a checksum for each entry of a block, computed when the block is read into
        /// memory: 0 (none), 1, 2, 4 or 8. Each entry takes 4 further bytes for its place. A read
        /// checks every entry that it decodes, also on its way to another: `Corruption`, with the
        /// file and the block's offset, if the entry has changed in memory. Covers data, index and
        /// meta blocks; not filters. A change of the option applies to tables that are opened
        /// later. Default 0. Mutable.
        block_protection_bytes_per_key: u32 = 0, mutable;
        /// Searches in memtables also check all entries of the last leaf that they visit, so that a
        /// changed key is an error and not just absent. Needs `memtable_protection_bytes_per_key`.
        /// Default false. Mutable.
        memtable_verify_per_key_checksum_on_seek: bool = false, mutable;
        /// Reads of memtables check the order of keys: `Corruption` if it is broken. Default false.
        /// Mutable.
        paranoid_memory_checks: bool = false, mutable;
        /// Before a table of a flush or compaction is installed, read all of it and compare its
        /// entries with those that were written: `Corruption` if they differ. Default false.
        /// Mutable.
        paranoid_file_checks: bool = false, mutable;
        /// Checks of the tables that compactions and flushes write, made before they are installed:
        /// bits of [`VerifyOutputFlags`]. A failed check gives `Corruption`. Default 0: no checks.
        /// Mutable.
        verify_output_flags: u32 = VerifyOutputFlags::VERIFY_NONE, mutable;
        /// Accepted without effect: the order of files is always checked. Default true. Fixed.
        force_consistency_checks: bool = true, fixed;
        /// No filters on the last level: most lookups are expected to hit. Default false. Fixed.
        optimize_filters_for_hits: bool = false, fixed;
        /// Versions of one key that an iterator steps over before it seeks past the other versions.
        /// Default 8. Mutable.
        max_sequential_skip_in_iterations: u64 = 8, mutable;
        /// Measures writes and syncs of compactions, for
        /// [`CompactionJobStats`](crate::observe::CompactionJobStats). Costs two readings of the
        /// clock for each. Default false. Mutable.
        report_bg_io_stats: bool = false, mutable;

        /// After an iterator steps over this many contiguous deletions, the deleted run is
        /// remembered, so that later iterators skip it. 0: `deleted_run_memory_min_keys` alone
        /// decides; with both, the smaller number is used. RocksDB inserts a range tombstone into
        /// the memtable. Esker writes nothing and keeps the run in memory, so RocksDB's
        /// restrictions for snapshots and memtables do not apply. Default 0. Fixed (in RocksDB
        /// mutable).
        min_tombstones_for_range_conversion: u32 = 0, fixed;
        /// Accepted without effect: iterators skip deleted runs in memtables. In RocksDB, hidden
        /// entries that one step may pass before the memtable is flushed. Default 0. Mutable.
        memtable_op_scan_flush_trigger: u32 = 0, mutable;
        /// Accepted without effect: see `memtable_op_scan_flush_trigger`. In RocksDB, the average
        /// of the steps between two seeks. Default 0. Mutable.
        memtable_avg_op_scan_flush_trigger: u32 = 0, mutable;

        /// Accepted without effect: one tree serves all kinds. Default `SkipList`. Fixed.
        memtable_factory: MemtableFactory = MemtableFactory::default(), fixed;
        /// Accepted without effect: the memtable keeps its own hints. Default `None`. Fixed.
        memtable_insert_with_hint_prefix_extractor: Option<SliceTransformRef> = None, fixed;
        /// Accepted without effect: the system chooses its pages. Default 0. Mutable.
        memtable_huge_page_size: usize = 0, mutable;
        /// Accepted without effect: a batch of lookups always fetches memory ahead. Default false.
        /// Fixed.
        memtable_batch_lookup_optimization: bool = false, fixed;
        /// Accepted without effect: filters lie in cache lines. Default 0. Fixed.
        bloom_locality: u32 = 0, fixed;
        /// Accepted without effect: nothing is overwritten in place. Default 10000. Mutable.
        inplace_update_num_locks: usize = 10000, mutable;
        /// Accepted without effect: see `max_successive_merges`. Default false. Mutable.
        strict_max_successive_merges: bool = false, mutable;
        /// Accepted without effect: flushes always write tables. Default 0. Mutable.
        experimental_mempurge_threshold: f64 = 0.0, mutable;
        /// Accepted without effect: flushes write blob files. Default false. Fixed.
        enable_blob_direct_write: bool = false, fixed;
        /// Accepted without effect: see `enable_blob_direct_write`. Default 1. Fixed.
        blob_direct_write_partitions: u32 = 1, fixed;
        /// Accepted without effect: blob files have the buffers of tables. In RocksDB from 11.10
        /// on, bytes of their write buffer; 0: `writable_file_max_buffer_size`. Default 0. Mutable.
        blob_file_writable_file_max_buffer_size: u64 = 0, mutable;
        /// Accepted without effect: compactions choose how far they read ahead. Default 0. Mutable.
        blob_compaction_readahead_size: u64 = 0, mutable;
        /// Whether flushes put the values that they write into blob files into `blob_cache` too.
        /// Costs a copy of each such value. Default `Disable`. Mutable.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::default(), mutable;
        /// Accepted without effect: filter and index always count towards a table's size. Default
        /// false. Mutable.
        target_file_size_is_upper_bound: bool = false, mutable;
        /// Accepted without effect: the last level is compacted when a snapshot is released.
        /// Default 0. Mutable.
        bottommost_file_compaction_delay: u32 = 0, mutable;
        /// Reads a byte of a table that find no value in it, at which the table is compacted into
        /// the next level: a get passed it on the way to deeper ones, or found a deletion or merge
        /// operands there. One get of 1,024 is sampled; `multi_get` of several keys and iterators
        /// are not. RocksDB recommends 0.01 to begin with. Not for FIFO, or the last level with
        /// files. Costs a random number a get, and nothing at 0. Default 0: never. Mutable.
        read_triggered_compaction_threshold: f64 = 0.0, mutable;
        /// Above 0, blocks of tables that are about to be deleted leave the block cache. The purge
        /// tries one data block after the other, until fewer than 0.99^(n - 1) of those that it
        /// tried were in the cache: 1 stops at the first miss, 10000 practically never. RocksDB
        /// recommends 300. Default 0: blocks age in the cache. Mutable.
        uncache_aggressiveness: u32 = 0, mutable;
        /// One data block in this many is also compressed with LZ4 and with zstd. The properties
        /// of the table then estimate its size under each codec. Costs the compression of these
        /// blocks. Default 0: none. Mutable.
        sample_for_compression: u64 = 0, mutable;
        /// Whether files can be ingested behind all data
        /// (`IngestExternalFileOptions::ingest_behind`). Universal compactions then leave the last
        /// level to such files, and compactions keep all deletions and sequence numbers. It should
        /// be set from the family's creation on, and turned off once the files are in. `num_levels`
        /// becomes at least 3. Default false. Fixed.
        cf_allow_ingest_behind: bool = false, fixed;
        /// The temperature of tables that compactions write into the last level, as the MANIFEST
        /// stores it; `Unknown`: `default_write_temperature`. FIFO sets it to `Unknown`. Default
        /// `Unknown`. Mutable.
        last_level_temperature: Temperature = Temperature::Unknown, mutable;
        /// The temperature of all other new tables. Default `Unknown`. Mutable.
        default_write_temperature: Temperature = Temperature::Unknown, mutable;
        /// The temperature by which statistics count reads of tables that have none in the
        /// MANIFEST. Default `Unknown`. Fixed.
        default_temperature: Temperature = Temperature::Unknown, fixed;

        /// Esker's own: a table lists its deleted runs of at least this many entries in a block
        /// that RocksDB ignores, and scans skip the runs. A table without such runs has no such
        /// block. 0: no table has it. The option has no text form, so OPTIONS files stay RocksDB's.
        /// Default 64. Fixed.
        deleted_run_block_min_entries: u64 = 64, object;
        /// Esker's own: an iterator that has stepped over at least this many deleted keys in one
        /// call remembers the deleted run in memory, for all later iterators. 00: never, unless
        /// `min_tombstones_for_range_conversion` is set. The runs of a family take at most 256 KiB,
        /// charged to its block cache. The option has no text form. Default 64. Fixed.
        deleted_run_memory_min_keys: u64 = 64, object;
        /// Esker's own: least entries of a deleted run that a background pre-scan reads; 0: no
        /// pre-scans. A flush or compaction starts one after it has written a table with such a run
        /// (see `deleted_run_block_min_entries`) over other tables. The first scan by a user then
        /// finds the run remembered (see `deleted_run_memory_min_keys`). A pre-scan gives way to
        /// flushes and compactions, leaves the block cache alone, and reads at most 16 entries for
        /// each deletion of the run. Runs of this many deletions in the memtable are pre-scanned,
        /// too, at most 8 entries for each deletion. The option has no text form. Default
        /// 4096. Fixed.
        pre_scan_min_entries: u64 = 4096, object;

        /// Directories for this family's tables and blob files, at most 4; see
        /// `DbOptions::db_paths`. Empty: those of `db_paths`. Two families may share a directory;
        /// each counts only its own bytes against the target size. Default empty. Fixed.
        cf_paths: Vec<super::DbPath> = Vec::new(), object;

        /// Limits the compactions of all families that share it. As in RocksDB, it has no text
        /// form. Default `None`: only `max_background_jobs` limits them. Fixed.
        compaction_thread_limiter: Option<Arc<super::ConcurrentTaskLimiter>> = None, object;

        /// Options of tables. Their text form has a section of its own. Fixed.
        table: BlockBasedTableOptions = BlockBasedTableOptions::default(), object;
        /// Objects of an OPTIONS file that this program cannot make, as (option, text). Loading
        /// fills the list. Opening is refused until each option is set to an object of that name.
        /// Fixed.
        unresolved: Vec<(String, String)> = Vec::new(), object;
    }
}

impl ColumnFamilyOptions {
    /// The temperature of a table that a job writes into `level`.
    pub(crate) fn temperature_of(&self, level: usize, num_levels: usize) -> Temperature {
        match self.last_level_temperature {
            Temperature::Unknown => self.default_write_temperature,
            last if level + 1 == num_levels && level > 0 => last,
            _ => self.default_write_temperature,
        }
    }

    /// Seconds for which the family keeps the times of its entries; 0: it keeps none.
    pub(crate) fn kept_seconds(&self) -> u64 {
        self.preserve_internal_time_seconds.max(self.preclude_last_level_data_seconds)
    }

    /// An iterator that has stepped over this many deleted keys remembers the run; 0: never.
    pub(crate) fn deleted_run_memory_threshold(&self) -> u64 {
        match (self.deleted_run_memory_min_keys, u64::from(self.min_tombstones_for_range_conversion)) {
            (0, keys) | (keys, 0) => keys,
            (a, b) => a.min(b),
        }
    }

    /// A pre-scan reads deleted runs of this many entries or more; 0: no pre-scans.
    pub(crate) fn pre_scan_threshold(&self) -> u64 {
        let remembers = self.deleted_run_memory_threshold() > 0 && self.comparator.timestamp_size() == 0;
        if remembers { self.pre_scan_min_entries } else { 0 }
    }
}

/// A count that RocksDB keeps as `int`; a negative count is 0.
fn count(n: i32) -> usize {
    usize::try_from(n).unwrap_or(0)
}
