//! The residence of a table's index and filter: in the reader, pinned in the block cache, or cached
//! like data blocks.
//!
//! In: the options, and the kind of block. Out: the block's residence; pinned partitions.
//! Source of the rules: RocksDB `BlockBasedTable::PrefetchIndexAndFilterBlocks`.
//!
//! Invariant: a pinned block is charged in the cache, and its reader holds a handle to it for life.

use crate::block_source::{BlockKind, BlockRef, BlockSource, CachedBlock};
use crate::cache_options::PinningTier;
use crate::filter::Resident;
use crate::index_walker::IndexWalker;
use crate::options::{TableReadOptions, TableReaderOptions};
use esker_base::Result;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::IndexShape;

/// A kind of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Metadata {
    /// The top level of a partitioned index or filter.
    TopLevel,
    /// A partition of an index or filter.
    Partition,
    /// An index or filter that is one block.
    Unpartitioned,
}

/// See the head of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Residence {
    Reader,
    Pinned,
    Cache,
}

impl Residence {
    pub(crate) fn of(metadata: Metadata, options: &TableReaderOptions) -> Residence {
        let table = &options.table_options;
        let has_cache = table.block_cache.is_some() && !table.no_block_cache;
        if !has_cache || (!table.cache_index_and_filter_blocks && metadata != Metadata::Partition) {
            return Residence::Reader;
        }
        let of_level0 = match table.pin_l0_filter_and_index_blocks_in_cache {
            true => PinningTier::FlushedAndSimilar,
            false => PinningTier::None,
        };
        let of_top = match table.pin_top_level_index_and_filter {
            true => PinningTier::All,
            false => PinningTier::None,
        };
        let pinning = &table.metadata_cache_options;
        let (tier, fallback) = match metadata {
            Metadata::TopLevel => (pinning.top_level_index_pinning, of_top),
            Metadata::Partition => (pinning.partition_pinning, of_level0),
            Metadata::Unpartitioned => (pinning.unpartitioned_pinning, of_level0),
        };
        let is_flushed =
            options.level == Some(0) && options.file_size <= options.max_file_size_for_l0_meta_pin;
        let is_pinned = match if tier == PinningTier::Fallback { fallback } else { tier } {
            PinningTier::Fallback | PinningTier::None => false,
            PinningTier::FlushedAndSimilar => is_flushed,
            PinningTier::All => true,
        };
        if is_pinned { Residence::Pinned } else { Residence::Cache }
    }

    /// Reads the block in every case, so that damage shows at open.
    pub(crate) fn take(self, source: &BlockSource, handle: BlockHandle, kind: BlockKind) -> Result<Resident> {
        match self {
            Residence::Reader => {
                let block: CachedBlock = source.read(handle, kind, true)?;
                Ok(Resident::Pinned(BlockRef::uncached(block)))
            }
            Residence::Pinned => {
                Ok(Resident::Pinned(source.block(handle, kind, &TableReadOptions::default(), None)?))
            }
            Residence::Cache => {
                source.block(handle, kind, &TableReadOptions::default(), None)?;
                Ok(Resident::Cached(handle))
            }
        }
    }
}

/// All partitions of an index or filter, if they are to be pinned.
/// # Errors
/// `Corruption`, `NotSupported`, `IoError`; `Aborted` (`MemoryLimit`) if the block cache has a
/// strict limit and no room.
pub(crate) fn pin_partitions(
    top: &Resident,
    shape: IndexShape,
    kind: BlockKind,
    source: &BlockSource,
    options: &TableReaderOptions,
) -> Result<Vec<BlockRef>> {
    let mut pinned = Vec::new();
    if Residence::of(Metadata::Partition, options) != Residence::Pinned {
        return Ok(pinned);
    }
    let read = TableReadOptions::default();
    top.with(source, BlockKind::Index, (&read, None), |top| {
        let mut walker = IndexWalker::new(top, shape, false, Vec::new());
        walker.seek_to_first(source, &read)?;
        while walker.valid() {
            pinned.push(source.block(walker.handle(), kind, &read, None)?);
            walker.next(source, &read)?;
        }
        Ok(())
    })?;
    Ok(pinned)
}
