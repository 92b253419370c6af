//! Key/value blocks: sorted entries with shared prefixes, and restart points for binary search.
//!
//! In: the decompressed contents of a block. Out: a [`Block`], which a [`BlockCursor`] reads.
//! [`BlockBuilder`] writes blocks. Source: RocksDB `table/block_based/block.cc`,
//! `block_builder.cc`, `data_block_footer.cc`. Page: `docs/format/sst.md`.
//!
//! ```text
//! block:  [prefix] | entries... | [values] | restart offsets u32... | [hash index]
//!         | [offset of values u32] | footer u32
//! entry:  shared varint32 | non_shared varint32 | value_len varint32 | key bytes | value bytes
//! footer: bits 0-27 restart count | 28 values lie apart | 29 hint: keys are evenly spread
//!         | 30 zero | 31 there is a hash index
//! ```
//!
//! Invariants of a parsed block
//!  1. The block has at least one restart point. The first entry is the first restart point, and
//!     the offsets of restart points ascend. An empty block has the restart offset 0.
//!  2. The block is below 4 GiB, so offsets are u32.
//!  3. A cursor checks each entry that it reads. Damaged entries are `Corruption`, never a panic.
//!  4. Since format version 8 a common prefix of all user keys may lie before the first entry. An
//!     entry at a restart point stores its key without that prefix. Every other key shares at least
//!     the prefix with the key before.

mod builder;
mod cursor;
mod hash_index;
mod prefixes;
mod protection;
mod restarts;
mod run;

pub use builder::{BlockBuilder, common_prefix};
pub use cursor::{BlockCursor, EntryShape};
pub use restarts::RestartCheck;
pub(crate) use restarts::check as check_restarts;
pub use run::cut_run;

use esker_base::memory::prefetch;
use esker_base::{Buffer, Error, Result};

const RESTART_COUNT_MASK: u32 = (1 << 28) - 1;
const SEPARATED_VALUES: u32 = 1 << 28;
const UNIFORM_KEYS: u32 = 1 << 29;
/// No release of RocksDB sets this bit.
const EXTENDED: u32 = 1 << 30;
const HASH_INDEX: u32 = 1 << 31;

/// Whether the footer has the hint that keys are evenly spread (bit 29). RocksDB before 11.1 reads
/// that bit as a part of the restart count.
pub fn is_marked_uniform(contents: &[u8]) -> bool {
    contents.last_chunk::<4>().is_some_and(|footer| u32::from_le_bytes(*footer) & UNIFORM_KEYS != 0)
}

/// A parsed block. Owns its bytes.
pub struct Block {
    bytes: Buffer,
    /// Start of the entries. Also the length of the common prefix, which lies before them.
    entries_start: u32,
    /// End of the entries. Behind them lie the values if the block stores values apart, otherwise
    /// the restart offsets.
    entries_end: u32,
    /// Start of the values, if the block stores them apart. They end at `restarts`.
    values: Option<u32>,
    restarts: u32,
    restart_count: u32,
    /// First bytes of the restart points' keys, for large indexes in bytewise order.
    prefixes: Option<prefixes::RestartPrefixes>,
    /// Checksums of the entries, if the block is protected.
    protection: Option<Box<protection::Protection>>,
    /// Whether cursors may decode runs of entries. True if values lie beside their keys and entries
    /// have no checksums.
    decodes: bool,
    /// Whether `decodes` holds and the entries at restart points have whole keys.
    is_plain: bool,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block")
            .field("bytes", &self.bytes.len())
            .field("restart_count", &self.restart_count)
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

impl Block {
    /// Parses a block whose keys have no common prefix before the entries.
    /// # Errors
    /// `Corruption` if the footer or the restart offsets do not fit the bytes.
    pub fn parse(bytes: impl Into<Buffer>) -> Result<Block> {
        let block = Self::parse_prefixed(bytes)?;
        if block.entries_start == 0 { Ok(block) } else { Err(bad_layout()) }
    }

    /// Parses a data or index block of a table of format version 8 or later. The common prefix of
    /// its user keys may lie before the entries.
    /// # Errors
    /// `Corruption` if the footer or the restart offsets do not fit the bytes.
    pub fn parse_prefixed(bytes: impl Into<Buffer>) -> Result<Block> {
        let bytes = bytes.into();
        let footer = bytes.last_chunk::<4>().map_or(0, |footer| u32::from_le_bytes(*footer));
        if footer & EXTENDED != 0 {
            return Err(Error::corruption(
                "a block with unknown data of its own (bit 30 of its footer), or a damaged footer",
            ));
        }
        let layout = Self::layout(&bytes, footer).ok_or_else(bad_layout)?;
        let mut block = Block {
            bytes,
            entries_start: 0,
            entries_end: layout.entries_end,
            values: layout.values,
            restarts: layout.restarts,
            restart_count: footer & RESTART_COUNT_MASK,
            prefixes: None,
            protection: None,
            decodes: layout.values.is_none(),
            is_plain: layout.values.is_none(),
        };
        block.entries_start = block.restart(0);
        block.is_plain &= block.entries_start == 0;
        Ok(block)
    }

    /// Whether the footer and the restart offsets fit these contents. Copies nothing.
    pub fn has_form(contents: &[u8]) -> bool {
        let footer = contents.last_chunk::<4>().map_or(0, |footer| u32::from_le_bytes(*footer));
        footer & EXTENDED == 0 && Self::layout(contents, footer).is_some()
    }

    /// Finds the end of the entries, and the start of values and restart offsets.
    fn layout(bytes: &[u8], footer: u32) -> Option<Layout> {
        let (mut head, _) = bytes.split_last_chunk::<4>()?;
        u32::try_from(bytes.len()).ok()?;
        let mut values = None;
        if footer & SEPARATED_VALUES != 0 {
            let (rest, offset) = head.split_last_chunk::<4>()?;
            values = Some(u32::from_le_bytes(*offset));
            head = rest;
        }
        if footer & HASH_INDEX != 0 {
            // Skips the hash index: only point lookups could use it, and a binary search in a small
            // block is as fast.
            let (rest, buckets) = head.split_last_chunk::<2>()?;
            let buckets = usize::from(u16::from_le_bytes(*buckets));
            head = rest.get(..rest.len().checked_sub(buckets)?)?;
        }
        let restart_count = footer & RESTART_COUNT_MASK;
        let restarts = head.len().checked_sub(4usize.checked_mul(restart_count as usize)?)?;
        let entries_end = values.unwrap_or(u32::try_from(restarts).ok()?);
        if restart_count == 0 || entries_end as usize > restarts {
            return None;
        }
        let (offsets, _) = head.get(restarts..)?.as_chunks::<4>();
        let mut last = None;
        for offset in offsets {
            let offset = u32::from_le_bytes(*offset);
            let is_within = offset < entries_end;
            let fits = last.map_or(offset == 0 || is_within, |l| l < offset && is_within);
            if !fits {
                return None;
            }
            last = Some(offset);
        }
        Some(Layout { entries_end, values, restarts: u32::try_from(restarts).ok()? })
    }

    /// All bytes of the block. Cursors return ranges of these bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The common prefix, if there is one, and the entries.
    #[inline]
    pub(crate) fn entries(&self) -> &[u8] {
        self.bytes.get(..self.entries_end as usize).unwrap_or_default()
    }

    /// The common prefix of all user keys. Entries at restart points store their keys without it.
    /// Empty before format version 8.
    #[inline]
    pub(crate) fn key_prefix(&self) -> &[u8] {
        self.bytes.get(..self.entries_start as usize).unwrap_or_default()
    }

    /// Whether the entries start at this offset.
    #[inline]
    pub fn starts_at(&self, offset: u32) -> bool {
        offset == self.entries_start
    }

    /// Whether the entries end at this offset.
    #[inline]
    pub fn ends_at(&self, offset: u32) -> bool {
        offset == self.entries_end
    }

    /// Whether the block has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries_end == 0
    }

    /// Number of restart points.
    #[inline]
    pub fn restart_count(&self) -> u32 {
        self.restart_count
    }

    /// The offset of restart point `i`.
    #[inline]
    pub(crate) fn restart(&self, i: u32) -> u32 {
        let at = self.restarts as usize + 4 * i as usize;
        self.bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
    }

    /// Prefetches the restart offsets, which a search reads first.
    #[inline]
    pub fn prefetch_restarts(&self) {
        prefetch(self.bytes.get(self.restarts as usize..).unwrap_or_default());
    }

    /// Prefetches the keys at up to four restart points, spread over the block.
    #[inline]
    pub fn prefetch_restart_keys(&self) {
        let few = 4;
        let step = self.restart_count.div_ceil(few);
        for restart in (0..self.restart_count).step_by(step as usize) {
            let at = self.restart(restart) as usize;
            prefetch(self.bytes.get(at..=at).unwrap_or_default());
        }
    }

    /// Prefetches the entries from this restart point on.
    pub fn prefetch_from(&self, restart: u32) {
        let entries = self.restart(restart) as usize..self.entries_end as usize;
        prefetch(self.bytes.get(entries).unwrap_or_default());
    }

    /// Prefetches the entries from this restart point up to the next one.
    #[inline]
    pub fn prefetch_interval(&self, restart: u32) {
        let end = if restart + 1 < self.restart_count { self.restart(restart + 1) } else { self.entries_end };
        prefetch(self.bytes.get(self.restart(restart) as usize..end as usize).unwrap_or_default());
    }

    /// Stores the first bytes of the restart points' keys, for fast searches in bytewise order.
    /// `user_key` extracts the user key from a restart point's key.
    pub(crate) fn prepare_for_search(&mut self, shape: EntryShape, user_key: impl Fn(&[u8]) -> &[u8]) {
        let cursor = BlockCursor::with_buffer(shape, Vec::new());
        let key = |i| cursor.restart_key(self, i).map(&user_key);
        self.prefixes = prefixes::RestartPrefixes::build(self.restart_count, self.key_prefix(), key);
    }

    /// Returns the restart points `(low, high)` between which a search for `user_key` must look.
    /// `low` is 0, or its key is before `user_key`. Each restart point behind `high` has a key
    /// at or after `user_key`.
    #[inline]
    pub(crate) fn narrow(&self, user_key: &[u8]) -> (u32, u32) {
        match &self.prefixes {
            Some(prefixes) => {
                let (low, high) = prefixes.narrow(user_key);
                let restart = |n: usize| u32::try_from(n.saturating_sub(1)).unwrap_or(0);
                (restart(low), restart(high))
            }
            None => (0, self.restart_count - 1),
        }
    }

    /// Bytes of memory that the block uses.
    pub fn memory_usage(&self) -> usize {
        let prefixes = self.prefixes.as_ref().map_or(0, prefixes::RestartPrefixes::memory_usage);
        let protection = self.protection.as_ref().map_or(0, |protection| protection.memory_usage());
        self.bytes.memory_bytes() + size_of::<Block>() + prefixes + protection
    }
}

/// Offsets within a block, from its footer.
struct Layout {
    entries_end: u32,
    values: Option<u32>,
    restarts: u32,
}

#[cold]
fn bad_layout() -> Error {
    Error::corruption("block with a bad footer or bad restart points")
}

#[cfg(test)]
mod tests;
