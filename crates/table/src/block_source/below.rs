//! Blocks from the tier below the cache.
//!
//! In: a handle whose block is not in the cache. Out: the block, if the tier has it; it then counts
//! as a cache hit. A batch first starts all its lookups and then ends them one by one, so that
//! reads from disk overlap.
//!
//! Invariant: a tier's block is parsed as if it had come from the file. If that fails, the lookup
//! finds nothing.

use super::{BlockKind, BlockRef, BlockSource, CachedBlock};
use crate::counts;
use crate::options::TableReadOptions;
use esker_cache::Handle;
use esker_cache::tier::{FoundIn, Lookup, Saved, TierHit};
use esker_format::handle::BlockHandle;

/// A block of a batch: one that the cache had, or a lookup below that has started.
pub(crate) enum Started {
    Found(BlockRef),
    Missed(Lookup),
}

impl BlockSource {
    /// Looks up a block of a batch, and starts a lookup below if the cache lacks it. `finish`
    /// returns the block.
    pub(crate) fn start(&self, handle: BlockHandle, kind: BlockKind, options: &TableReadOptions) -> Started {
        let Some(cache) = &self.cache else { return Started::Missed(Lookup::Missing { was_seen: false }) };
        let key = self.key(handle);
        match cache.lookup(&key) {
            Some(block) => {
                counts::cache_hit(self.statistics.as_ref(), kind, || block.memory_usage());
                Started::Found(block)
            }
            None => Started::Missed(cache.look_below(&key, options.fill_cache)),
        }
    }

    /// Ends the lookup. Returns the block if it was found.
    pub(crate) fn finish(
        &self,
        started: Started,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Option<BlockRef> {
        match started {
            Started::Found(block) => Some(block),
            Started::Missed(lookup) => self.end(lookup, handle, kind, options),
        }
    }

    /// The block, if the tier below has it.
    pub(super) fn promote(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Option<BlockRef> {
        let cache = self.cache.as_ref().filter(|cache| cache.secondary().is_some())?;
        self.end(cache.look_below(&self.key(handle), options.fill_cache), handle, kind, options)
    }

    fn end(
        &self,
        lookup: Lookup,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
    ) -> Option<BlockRef> {
        if let Lookup::Missing { was_seen: true } = lookup {
            counts::secondary_remembers(self.statistics.as_ref());
        }
        let found = lookup.wait()?;
        let (found_in, is_kept) = (found.found_in, found.is_kept);
        let block = self.restore(found, handle, kind)?;
        counts::cache_hit(self.statistics.as_ref(), kind, || block.memory_usage());
        counts::secondary_hit(self.statistics.as_ref(), kind, found_in);
        if found_in == FoundIn::File
            && let Some(tier) = self.cache.as_ref().and_then(|cache| cache.secondary())
        {
            let saved = Saved { role: kind.role(), codec: 0, bytes: block.bytes() };
            let admission = tier.insert(&self.key(handle), saved, false);
            counts::secondary_promotion(self.statistics.as_ref(), admission);
        }
        // A strict limit may have no room for an index. The read from the file then reports the
        // error.
        let block = self.keep(block, handle, kind, options, false).ok()?;
        if !is_kept {
            self.offer_to_tier(&block, handle, kind, true);
        }
        Some(block)
    }

    /// Offers a block below for which the cache had no room, as if the cache had evicted it.
    /// `was_taken`: the block came from below and goes back.
    pub(super) fn offer_to_tier(
        &self,
        block: &BlockRef,
        handle: BlockHandle,
        kind: BlockKind,
        was_taken: bool,
    ) {
        if !Handle::is_in_cache(block)
            && let Some(tier) = self.cache.as_ref().and_then(|cache| cache.secondary())
        {
            let saved = Saved { role: kind.role(), codec: 0, bytes: block.bytes() };
            tier.insert(&self.key(handle), saved, was_taken);
        }
    }

    fn restore(&self, found: TierHit, handle: BlockHandle, kind: BlockKind) -> Option<CachedBlock> {
        if found.role != kind.role() {
            return None;
        }
        self.block_of(found.bytes.into(), kind).and_then(|block| self.protected(block, handle, kind)).ok()
    }
}
