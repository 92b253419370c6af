//! Names and text forms of the block-based table's options. The struct lives in `esker_table`.
//!
//! Source: RocksDB `table/block_based/block_based_table_factory.cc`,
//! `table/block_based/filter_policy.cc`.

use super::cache_text::block_cache_from_string;
use super::log::LogLine;
use super::table::option_table;
use super::value::{ObjectValue, OptionValue, is_null, object_name, split_map};
use esker_base::{Error, Result};
use esker_format::properties::IndexType;
use esker_format::trailer::ChecksumType;
use esker_table::cache_options::{MetadataCacheOptions, PinningTier, PrepopulateBlockCache};
use esker_table::flush_block_policy::{
    FlushBlockBySizePolicyFactory, FlushBlockEveryKeyPolicyFactory, FlushBlockPolicyFactoryRef,
};
use esker_table::{
    BlockBasedTableOptions, BlockCache, BlockSearchType, DataBlockIndexType, FilterPolicy, IndexMode,
    IndexShorteningMode, OptimizeKeyCommonPrefix,
};
use std::sync::Arc;

option_table! {
    impl BlockBasedTableOptions: "BlockBasedTableOptions" {
        block_size, mutable;
        block_size_deviation, mutable;
        block_restart_interval, mutable;
        index_block_restart_interval, mutable;
        use_delta_encoding, mutable;
        format_version, mutable;
        optimize_key_common_prefix, mutable;
        checksum, mutable;
        filter_policy, mutable;
        whole_key_filtering, mutable;
        index_type, mutable;
        metadata_block_size, mutable;
        partition_filters, mutable;
        decouple_partitioned_filters, mutable;
        optimize_filters_for_memory, mutable;
        data_block_index_type, mutable;
        data_block_hash_table_util_ratio, mutable;
        separate_key_value_in_data_block, mutable;
        super_block_alignment_size, mutable;
        super_block_alignment_space_overhead_ratio, mutable;
        verify_compression, mutable;
        index_shortening, mutable;
        enable_index_compression, mutable;
        block_align, mutable;
        block_cache, read;
        no_block_cache, fixed;
        cache_index_and_filter_blocks, mutable;
        cache_index_and_filter_blocks_with_high_priority, mutable;
        pin_l0_filter_and_index_blocks_in_cache, mutable;
        pin_top_level_index_and_filter, mutable;
        metadata_cache_options, mutable;
        prepopulate_block_cache, mutable;
        cache_usage_options, object;
        initial_auto_readahead_size, mutable;
        max_auto_readahead_size, mutable;
        num_file_reads_for_auto_readahead, mutable;
        index_block_search_type, mutable;
        uniform_cv_threshold, mutable;
        read_amp_bytes_per_bit, mutable;
        detect_filter_construct_corruption, mutable;
        fail_if_no_udi_on_open, mutable;
        user_defined_index_factory, fixed;
        use_udi_as_primary_index, fixed;
        index_mode, fixed;
        flush_block_policy_factory, fixed;
    }
}

/// Text forms of an enum that is declared elsewhere.
macro_rules! enum_names {
    ($ty:ident { $( $variant:ident = $text:literal, )* }) => {
        impl OptionValue for $ty {
            fn parse(text: &str) -> Result<$ty> {
                match text.trim() {
                    $( $text => Ok($ty::$variant), )*
                    other => Err(Error::invalid_argument(format!(
                        concat!("'{}' is none of", $(" ", $text),*), other
                    ))),
                }
            }
            fn print(&self) -> String {
                match self { $( $ty::$variant => $text, )* }.to_owned()
            }
            fn log(&self, name: &str, lines: &mut Vec<LogLine>) {
                lines.push((name.to_owned(), (*self as i32).to_string()));
            }
        }
    };
}

enum_names!(ChecksumType {
    NoChecksum = "kNoChecksum",
    Crc32c = "kCRC32c",
    XxHash = "kxxHash",
    XxHash64 = "kxxHash64",
    Xxh3 = "kXXH3",
});
enum_names!(IndexType {
    BinarySearch = "kBinarySearch",
    HashSearch = "kHashSearch",
    TwoLevel = "kTwoLevelIndexSearch",
    BinarySearchWithFirstKey = "kBinarySearchWithFirstKey",
});
enum_names!(DataBlockIndexType {
    BinarySearch = "kDataBlockBinarySearch",
    BinaryAndHash = "kDataBlockBinaryAndHash",
});
enum_names!(BlockSearchType {
    Binary = "kBinary",
    Interpolation = "kInterpolation",
    Auto = "kAuto",
});
enum_names!(OptimizeKeyCommonPrefix {
    Disabled = "kDisabled",
    IfFastSeek = "kIfFastSeek",
    Enabled = "kEnabled",
});
enum_names!(IndexMode {
    StandardOnly = "kStandardOnly",
    StandardDefault = "kStandardDefault",
    CustomDefault = "kCustomDefault",
    CustomOnly = "kCustomOnly",
    StandardRequired = "kStandardRequired",
});
enum_names!(IndexShorteningMode {
    NoShortening = "kNoShortening",
    ShortenSeparators = "kShortenSeparators",
    ShortenSeparatorsAndSuccessor = "kShortenSeparatorsAndSuccessor",
});

impl ObjectValue for Option<Arc<BlockCache>> {
    fn read(text: &str) -> Result<Option<Arc<BlockCache>>> {
        block_cache_from_string(text)
    }
}

enum_names!(PinningTier {
    Fallback = "kFallback",
    None = "kNone",
    FlushedAndSimilar = "kFlushedAndSimilar",
    All = "kAll",
});
enum_names!(PrepopulateBlockCache {
    Disable = "kDisable",
    FlushOnly = "kFlushOnly",
    FlushAndCompaction = "kFlushAndCompaction",
});

/// Text: `{top_level_index_pinning=kAll;unpartitioned_pinning=kFallback;…}`.
impl OptionValue for MetadataCacheOptions {
    fn parse(text: &str) -> Result<MetadataCacheOptions> {
        let mut options = MetadataCacheOptions::default();
        options.update(text)?;
        Ok(options)
    }
    fn print(&self) -> String {
        format!(
            "{{unpartitioned_pinning={};partition_pinning={};top_level_index_pinning={};}}",
            self.unpartitioned_pinning.print(),
            self.partition_pinning.print(),
            self.top_level_index_pinning.print(),
        )
    }
    fn update(&mut self, text: &str) -> Result<()> {
        let mut changed = *self;
        let text = text.trim();
        let inner = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
        for (name, value) in split_map(inner)? {
            let field = match name {
                "top_level_index_pinning" => &mut changed.top_level_index_pinning,
                "partition_pinning" => &mut changed.partition_pinning,
                "unpartitioned_pinning" => &mut changed.unpartitioned_pinning,
                _ => return Err(Error::invalid_argument(format!("{name}: no such metadata_cache_options"))),
            };
            *field = PinningTier::parse(value).map_err(|e| e.at(name))?;
        }
        *self = changed;
        Ok(())
    }
}

/// Text: `nullptr`, `bloomfilter:10:false` or `ribbonfilter:10:-1`, say.
impl OptionValue for Option<FilterPolicy> {
    fn parse(text: &str) -> Result<Option<FilterPolicy>> {
        FilterPolicy::parse(object_name(text))
    }
    fn print(&self) -> String {
        self.as_ref().map_or_else(|| "nullptr".to_owned(), |policy| policy.to_string())
    }
}

/// Text: the name of a policy. `nullptr` and `FlushBlockBySizePolicyFactory` give the rule by size.
impl OptionValue for Option<FlushBlockPolicyFactoryRef> {
    fn parse(text: &str) -> Result<Option<FlushBlockPolicyFactoryRef>> {
        match object_name(text) {
            FlushBlockBySizePolicyFactory::NAME => Ok(None),
            name if is_null(name) => Ok(None),
            FlushBlockEveryKeyPolicyFactory::NAME => Ok(Some(Arc::new(FlushBlockEveryKeyPolicyFactory))),
            name => Err(Error::invalid_argument(format!("no built-in policy of blocks is called '{name}'"))),
        }
    }
    fn print(&self) -> String {
        self.as_ref().map_or(FlushBlockBySizePolicyFactory::NAME, |factory| factory.name()).to_owned()
    }
}
