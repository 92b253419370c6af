//! Blocks from the tier below the cache.
//!
//! In: a handle whose block is not in the cache. Out: the block, if the tier has it; it then counts
//! as a cache hit. A batch first starts all its lookups and then ends them one by one, so that
//! reads from disk overlap. A block that is read from the file for the cache is offered to the tier
//! in its compressed form.
//!
//! Invariant: a tier's block is parsed as if it had come from the file. If that fails, the lookup
//! finds nothing.

use super::{BlockKind, BlockRef, BlockSource, CachedBlock};
use crate::counts;
use crate::options::TableReadOptions;
use esker_base::{Buffer, Result};
use esker_cache::Handle;
use esker_cache::tier::{FoundIn, Lookup, Saved, TierHit};
use esker_format::compression::CompressionType;
use esker_format::handle::BlockHandle;
use esker_format::trailer::{TRAILER_BYTES, compression_code};

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
                counts::cache_hit(self.statistics.as_ref(), kind, self.level, || block.memory_usage());
                self.trace_access(handle, kind, &block, true, false);
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
        counts::cache_hit(self.statistics.as_ref(), kind, self.level, || block.memory_usage());
        counts::secondary_hit(self.statistics.as_ref(), kind, found_in);
        if found_in == FoundIn::File
            && let Some(tier) = self.cache.as_ref().and_then(|cache| cache.secondary())
        {
            let saved = Saved { role: kind.role(), codec: 0, bytes: block.bytes() };
            let admission = tier.insert(&self.key(handle), saved, false);
            counts::secondary_promotion(self.statistics.as_ref(), admission);
        }
        // A cache with a strict limit may have no room for an index or a filter. The read from the
        // file then reports the error.
        let block = self.keep(block, handle, kind, options, false).ok()?;
        if !is_kept {
            self.offer_to_tier(&block, handle, kind, true);
        }
        Some(block)
    }

    /// Offers the tier a block for which the cache had no room, as if the cache had evicted the
    /// block. `was_taken`: the block came from the tier and goes back.
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

    /// Parses a block as [`BlockSource::parse`] does. `for_cache`: the block goes into the cache,
    /// so the tier is offered the block's compressed form.
    pub(super) fn parse_for(
        &self,
        for_cache: bool,
        stored: Buffer,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<CachedBlock> {
        if !for_cache || !self.has_form_for_tier(&stored, kind) {
            return self.parse(stored, handle, kind, verify);
        }
        self.parse_borrowed(&stored, handle, kind, verify)
            .inspect(|_| self.offer_stored(&stored, handle, kind))
    }

    /// Whether the file's form of a block is compressed, and the tier could restore the block from
    /// it. `stored`: contents and trailer, as the file has them.
    pub(super) fn has_form_for_tier(&self, stored: &[u8], kind: BlockKind) -> bool {
        let has_tier = self.cache.as_ref().is_some_and(|cache| cache.secondary().is_some());
        let (decompressor, is_whole) = match kind {
            BlockKind::Data => (&self.data_decompressor, !self.has_embedded_blobs),
            BlockKind::Index | BlockKind::Filter => (&self.decompressor, true),
            BlockKind::Meta => return false,
        };
        has_tier
            && is_whole
            && self.custom_decompressor.is_none()
            && decompressor.is_self_contained()
            && compression_code(stored).is_ok_and(|code| code != CompressionType::None as u8)
    }

    /// Offers the tier a block in the form that the file has. REQUIRES: `has_form_for_tier`; the
    /// block was checked.
    pub(super) fn offer_stored(&self, stored: &[u8], handle: BlockHandle, kind: BlockKind) {
        if let (Some(cache), Ok(codec)) = (&self.cache, compression_code(stored)) {
            let bytes = stored.get(..stored.len() - TRAILER_BYTES).unwrap_or_default();
            cache.offer_stored(&self.key(handle), Saved { role: kind.role(), codec, bytes });
        }
    }

    fn restore(&self, found: TierHit, handle: BlockHandle, kind: BlockKind) -> Option<CachedBlock> {
        if found.role != kind.role() {
            return None;
        }
        // A block of a dump that RocksDB wrote names its embedded values. Ours has them.
        self.block_of(found.bytes, kind)
            .and_then(|block| self.with_values(block, kind, true))
            .and_then(|block| self.protected(block, handle, kind))
            .ok()
    }
}
