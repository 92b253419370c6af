//! Queries a table's filter, full or partitioned.
//!
//! Invariant: on any error the answer is "may be there". A filter that cannot be read costs time,
//! not data.

use crate::block_source::{BlockKind, BlockRef, BlockSource, CachedBlock};
use crate::index_walker::IndexWalker;
use crate::options::{TableReadOptions, TableReadTier};
use crate::readahead::ReadPace;
use esker_base::sync::epoch::Guard;
use esker_base::{ErrorKind, Result};
use esker_cache::Handle;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::IndexShape;
use esker_format::key::InternalKeyComparator;

/// A block that the reader keeps for life, or looks up in the cache each time.
#[derive(Debug)]
pub(crate) enum Resident {
    Pinned(BlockRef),
    Cached(BlockHandle),
}

impl Resident {
    /// Calls `then` with the block, which it gets as `BlockSource::loan` does.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        source: &BlockSource,
        kind: BlockKind,
        (options, guard): (&TableReadOptions, Option<&Guard>),
        then: impl FnOnce(&CachedBlock) -> Result<R>,
    ) -> Result<R> {
        match self {
            Resident::Pinned(block) => then(block),
            Resident::Cached(handle) => then(&*source.loan(*handle, kind, options, guard)?),
        }
    }

    /// A shared reference to the block. A read for it is limited to `pace`.
    pub(crate) fn share(
        &self,
        source: &BlockSource,
        kind: BlockKind,
        options: &TableReadOptions,
        pace: Option<&ReadPace>,
    ) -> Result<BlockRef> {
        match self {
            Resident::Pinned(block) => Ok(block.clone()),
            Resident::Cached(handle) => source.block_at_pace(*handle, kind, options, pace),
        }
    }

    /// Whether the reader holds the block for good.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self, Resident::Pinned(_))
    }

    /// Bytes of memory that the block takes outside the cache.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            // The cache charges a block that is pinned in it.
            Resident::Pinned(block) if Handle::charge(block) > 0 => 0,
            Resident::Pinned(block) => block.memory_usage(),
            Resident::Cached(_) => 0,
        }
    }
}

/// A table's filter.
#[derive(Debug)]
pub(crate) enum TableFilter {
    /// The table has no filter that reads may use.
    None,
    /// One filter for the whole table.
    Full(Resident),
    /// One filter for each range of keys, found through an index.
    Partitioned { index: Resident, shape: IndexShape },
}

impl TableFilter {
    /// Whether the filter is cut into partitions, each for a range of keys.
    pub(crate) fn is_partitioned(&self) -> bool {
        matches!(self, TableFilter::Partitioned { .. })
    }

    /// Whether `key` (a user key without timestamp, or a prefix) may be in the table. `place` is
    /// the internal key that selects the partition.
    /// # Errors
    /// `Incomplete` if the read must not wait, and the filter is not in memory.
    #[inline]
    pub(crate) fn may_match(
        &self,
        source: &BlockSource,
        (options, guard): (&TableReadOptions, Option<&Guard>),
        icmp: &InternalKeyComparator,
        key: &[u8],
        place: &[u8],
    ) -> Result<bool> {
        let passes = match self {
            TableFilter::None => return Ok(true),
            TableFilter::Full(filter) => filter.with(source, BlockKind::Filter, (options, guard), |block| {
                Ok(block.filter().is_none_or(|f| f.may_match(key)))
            }),
            TableFilter::Partitioned { index, shape } => {
                index.with(source, BlockKind::Index, (options, guard), |top| {
                    let handle = partition_of(top, *shape, source, options, icmp, place)?;
                    let Some(handle) = handle else { return Ok(true) };
                    let partition = source.loan(handle, BlockKind::Filter, options, guard)?;
                    Ok(partition.filter().is_none_or(|f| f.may_match(key)))
                })
            }
        };
        or_may_match(passes, options)
    }

    /// Bytes of memory that the filter takes outside the cache.
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

/// Turns an error into "may be there". Returns the error only if the read must not wait for the
/// filter.
#[inline]
pub(crate) fn or_may_match(passes: Result<bool>, options: &TableReadOptions) -> Result<bool> {
    match passes {
        Ok(passes) => Ok(passes),
        Err(e) if options.read_tier == TableReadTier::NoWait && e.kind() == ErrorKind::Incomplete => Err(e),
        Err(_) => Ok(true),
    }
}
