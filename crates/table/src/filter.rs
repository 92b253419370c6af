//! Asks a table's filter (full or partitioned) whether the table may hold a key.
//!
//! Invariant: after an error the answer is "may be there". An unreadable filter costs time, not
//! data.

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

/// A block of metadata. The table's reader holds the block as long as the reader lives, or looks
/// the block up in the cache at each use.
#[derive(Debug)]
pub(crate) enum Resident {
    Pinned(BlockRef),
    Cached(BlockHandle),
}

impl Resident {
    /// Gets the block (from the cache by `BlockSource::loan`) and calls `then` with it.
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

    /// Gets a counted reference to the block. `pace` limits the rate of a read from the file.
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

    /// Whether the reader holds the block as long as the reader lives.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self, Resident::Pinned(_))
    }

    /// Bytes of memory that the block uses outside the cache.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            // A pinned block that lies in the cache is charged there.
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
    /// One filter for each range of keys. An index finds the filter of a key.
    Partitioned { index: Resident, shape: IndexShape },
}

impl TableFilter {
    /// Whether the filter is cut into partitions, each for a range of keys.
    pub(crate) fn is_partitioned(&self) -> bool {
        matches!(self, TableFilter::Partitioned { .. })
    }

    /// Whether `key` may be in the table. `key` is a prefix, or a user key without its timestamp.
    /// The internal key `place` selects the partition.
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

    /// Bytes of memory that the filter uses outside the cache.
    pub(crate) fn memory_usage(&self) -> usize {
        match self {
            TableFilter::None => 0,
            TableFilter::Full(resident) | TableFilter::Partitioned { index: resident, .. } => {
                resident.memory_usage()
            }
        }
    }
}

/// Finds the filter partition for `place`: the first one whose separator is at or after `place`. If
/// there is none, the last partition.
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

/// Turns an error into "may be there". Returns the error only if it says that the read must not
/// wait for the filter.
#[inline]
pub(crate) fn or_may_match(passes: Result<bool>, options: &TableReadOptions) -> Result<bool> {
    match passes {
        Ok(passes) => Ok(passes),
        Err(e) if options.read_tier == TableReadTier::NoWait && e.kind() == ErrorKind::Incomplete => Err(e),
        Err(_) => Ok(true),
    }
}
