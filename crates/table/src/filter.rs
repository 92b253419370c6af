//! Asks a table's filter, full or partitioned.
//!
//! Invariant: whatever goes wrong, the answer is "may be there". A filter that cannot be read costs time, not data.

use crate::block_source::{BlockKind, BlockRef, BlockSource, CachedBlock};
use crate::index_walker::IndexWalker;
use crate::options::TableReadOptions;
use esker_base::Result;
use esker_base::sync::epoch;
use esker_cache::Handle;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::IndexShape;
use esker_format::key::InternalKeyComparator;

/// A block that stays with the reader, or is asked of the cache each time.
#[derive(Debug)]
pub(crate) enum Resident {
    Pinned(BlockRef),
    Cached(BlockHandle),
}

impl Resident {
    /// Calls `then` with the block.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        source: &BlockSource,
        kind: BlockKind,
        options: &TableReadOptions,
        then: impl FnOnce(&CachedBlock) -> Result<R>,
    ) -> Result<R> {
        match self {
            Resident::Pinned(block) => then(block),
            Resident::Cached(handle) => then(&*source.block_under(*handle, kind, options, &epoch::pin())?),
        }
    }

    /// The block, shared.
    pub(crate) fn share(
        &self,
        source: &BlockSource,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Result<BlockRef> {
        match self {
            Resident::Pinned(block) => Ok(block.clone()),
            Resident::Cached(handle) => source.block(*handle, kind, options, None),
        }
    }

    /// Bytes of memory it holds outside the cache.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            // One that is pinned in the cache is charged there.
            Resident::Pinned(block) if Handle::charge(block) > 0 => 0,
            Resident::Pinned(block) => block.memory_usage(),
            Resident::Cached(_) => 0,
        }
    }
}

/// A table's filter.
#[derive(Debug)]
pub(crate) enum TableFilter {
    /// There is none that may be used.
    None,
    /// One for the whole table.
    Full(Resident),
    /// One for each range of keys, found through an index.
    Partitioned { index: Resident, shape: IndexShape },
}

impl TableFilter {
    /// Whether it is cut into parts, each for a range of keys.
    pub(crate) fn is_partitioned(&self) -> bool {
        matches!(self, TableFilter::Partitioned { .. })
    }

    /// Whether `key` (a user key without timestamp, or a prefix) may be in the table. `place` is the internal key
    /// that picks the partition.
    #[inline]
    pub(crate) fn may_match(
        &self,
        source: &BlockSource,
        options: &TableReadOptions,
        icmp: &InternalKeyComparator,
        key: &[u8],
        place: &[u8],
    ) -> bool {
        match self {
            TableFilter::None => true,
            TableFilter::Full(filter) => filter
                .with(source, BlockKind::Filter, options, |block| {
                    Ok(block.filter().is_none_or(|f| f.may_match(key)))
                })
                .unwrap_or(true),
            TableFilter::Partitioned { index, shape } => index
                .with(source, BlockKind::Index, options, |top| {
                    let handle = partition_of(top, *shape, source, options, icmp, place)?;
                    let Some(handle) = handle else { return Ok(true) };
                    let guard = epoch::pin();
                    let partition = source.block_under(handle, BlockKind::Filter, options, &guard)?;
                    Ok(partition.filter().is_none_or(|f| f.may_match(key)))
                })
                .unwrap_or(true),
        }
    }

    /// Bytes of memory it holds outside the cache.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            TableFilter::None => 0,
            TableFilter::Full(resident) | TableFilter::Partitioned { index: resident, .. } => {
                resident.memory_usage()
            }
        }
    }
}

/// The filter partition for `place`: the first whose separator is not before it, else the last.
fn partition_of(
    top: &CachedBlock,
    shape: IndexShape,
    source: &BlockSource,
    options: &TableReadOptions,
    icmp: &InternalKeyComparator,
    place: &[u8],
) -> Result<Option<BlockHandle>> {
    let mut walker = IndexWalker::new(top, shape, false, Vec::new());
    walker.seek(source, options, place, icmp)?;
    if !walker.valid() {
        walker.seek_to_last(source, options)?;
    }
    Ok(walker.valid().then(|| walker.handle()))
}
