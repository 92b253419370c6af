//! The index of a table being written, of any kind.
//!
//! In: data blocks, and the keys in them if the index needs them. Out: index blocks.
//! Source: RocksDB `table/block_based/index_builder.{h,cc}`.

use super::setup;
use crate::options::{IndexShorteningMode, TableBuilderOptions};
use esker_base::coding::put_varint32;
use esker_base::prefix::SliceTransformRef;
use esker_format::index_entry::{DataBlockPlace, IndexBuilder, PartitionedIndexBuilder, Shortening};
use esker_format::properties::IndexType;

/// Collects an index.
#[derive(Debug)]
pub(super) enum TableIndex {
    /// One block.
    Plain(IndexBuilder),
    /// One block, and for each prefix the data blocks that have it.
    Hash(IndexBuilder, PrefixBlocks),
    /// Two levels.
    Partitioned(PartitionedIndexBuilder),
}

impl TableIndex {
    pub(super) fn new(options: &TableBuilderOptions) -> TableIndex {
        let table = &options.table_options;
        let interval = table.index_block_restart_interval;
        let delta_values = setup::has_delta_values(options);
        let format_8 = (table.format_version >= 8).then(|| setup::stores_index_key_prefixes(options));
        let one_block = |interval, with_first_key| {
            let index = IndexBuilder::new(interval, delta_values, with_first_key);
            match format_8 {
                Some(key_prefix) => index.in_format_8(key_prefix),
                None => index,
            }
        };
        match (table.index_type, &options.prefix_extractor) {
            (IndexType::TwoLevel, _) => {
                let index = PartitionedIndexBuilder::new(
                    interval,
                    delta_values,
                    allows_user_keys(options),
                    usize::try_from(table.metadata_block_size).unwrap_or(usize::MAX),
                    table.block_size_deviation,
                );
                TableIndex::Partitioned(match format_8 {
                    Some(key_prefix) => index.in_format_8(key_prefix),
                    None => index,
                })
            }
            (IndexType::HashSearch, Some(extractor)) => {
                TableIndex::Hash(one_block(1, false), PrefixBlocks::new(extractor.clone()))
            }
            (kind, _) => {
                let with_first_key = kind == IndexType::BinarySearchWithFirstKey;
                TableIndex::Plain(one_block(interval, with_first_key))
            }
        }
    }

    /// Takes a key of the block being filled.
    #[inline]
    pub(super) fn key_added(&mut self, user_key: &[u8]) {
        if let TableIndex::Hash(_, prefixes) = self {
            prefixes.add(user_key);
        }
    }

    /// Adds a finished data block.
    pub(super) fn add(&mut self, place: &DataBlockPlace<'_>, options: &TableBuilderOptions) {
        let shortening = match options.table_options.index_shortening {
            IndexShorteningMode::NoShortening => Shortening { separators: false, successor: false },
            IndexShorteningMode::ShortenSeparators => Shortening { separators: true, successor: false },
            IndexShorteningMode::ShortenSeparatorsAndSuccessor => {
                Shortening { separators: true, successor: true }
            }
        };
        match self {
            TableIndex::Plain(index) => index.add(place, shortening, &options.icmp),
            TableIndex::Hash(index, prefixes) => {
                prefixes.block += 1;
                index.add(place, shortening, &options.icmp);
            }
            TableIndex::Partitioned(index) => index.add(place, shortening, &options.icmp),
        }
    }

    /// The builder of a partitioned index.
    pub(super) fn partitions(&mut self) -> Option<&mut PartitionedIndexBuilder> {
        match self {
            TableIndex::Partitioned(index) => Some(index),
            _ => None,
        }
    }

    /// Whether the keys of the index, and of the filter's partitions, will be user keys without a
    /// trailer.
    pub(super) fn key_is_user_key(&self, options: &TableBuilderOptions) -> bool {
        allows_user_keys(options)
            && match self {
                TableIndex::Plain(index) | TableIndex::Hash(index, _) => !index.needs_sequence(),
                TableIndex::Partitioned(index) => !index.needs_sequence(),
            }
    }

    /// Estimated bytes of the index.
    pub(super) fn size_estimate(&self) -> usize {
        match self {
            TableIndex::Plain(index) => index.size_estimate(),
            TableIndex::Hash(index, prefixes) => index.size_estimate() + prefixes.prefixes.len(),
            TableIndex::Partitioned(index) => index.size_estimate(),
        }
    }
}

impl TableIndex {
    /// An upper bound of the bytes of the largest index block, without the prefixes of a hash
    /// index. The cost grows with the number of partitions.
    pub(super) fn max_block_bytes(&self) -> usize {
        match self {
            TableIndex::Plain(index) | TableIndex::Hash(index, _) => index.max_block_bytes(),
            TableIndex::Partitioned(index) => index.max_block_bytes(),
        }
    }

    /// An upper bound of the bytes of the index block; 0 for a partitioned index.
    pub(super) fn max_single_block_bytes(&self) -> usize {
        match self {
            TableIndex::Plain(index) | TableIndex::Hash(index, _) => index.max_block_bytes(),
            TableIndex::Partitioned(_) => 0,
        }
    }
}

/// Whether index keys may be bare user keys: since format version 3.
pub(super) fn allows_user_keys(options: &TableBuilderOptions) -> bool {
    options.table_options.format_version >= 3
}

/// The data blocks of each prefix: the two meta blocks of a hash index.
#[derive(Debug)]
pub(super) struct PrefixBlocks {
    extractor: SliceTransformRef,
    /// The number of the block being filled.
    block: u32,
    pending: Vec<u8>,
    first_block: u32,
    block_count: u32,
    /// Prefixes, back to back.
    pub(super) prefixes: Vec<u8>,
    /// For each prefix, its length, its first block and its number of blocks.
    pub(super) metadata: Vec<u8>,
    /// Whether every key so far had a prefix. If not, the two blocks would hide keys from RocksDB,
    /// and are left out.
    pub(super) is_complete: bool,
}

impl PrefixBlocks {
    fn new(extractor: SliceTransformRef) -> PrefixBlocks {
        PrefixBlocks {
            extractor,
            block: 0,
            pending: Vec::new(),
            first_block: 0,
            block_count: 0,
            prefixes: Vec::new(),
            metadata: Vec::new(),
            is_complete: true,
        }
    }

    fn add(&mut self, user_key: &[u8]) {
        let Some(prefix) = self.extractor.transform(user_key) else {
            self.is_complete = false;
            return;
        };
        if self.block_count > 0 && self.pending == prefix {
            self.block_count = self.block - self.first_block + 1;
            return;
        }
        let next = prefix.to_vec();
        self.end_prefix();
        self.pending = next;
        self.first_block = self.block;
        self.block_count = 1;
    }

    /// Writes the pending prefix down. Call it at the end, too.
    pub(super) fn end_prefix(&mut self) {
        if self.block_count == 0 {
            return;
        }
        self.prefixes.extend_from_slice(&self.pending);
        put_varint32(&mut self.metadata, u32::try_from(self.pending.len()).unwrap_or(u32::MAX));
        put_varint32(&mut self.metadata, self.first_block);
        put_varint32(&mut self.metadata, self.block_count);
        self.block_count = 0;
    }
}
