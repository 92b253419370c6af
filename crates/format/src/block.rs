//! Key/value blocks: sorted entries with shared prefixes, and restart points for binary search.
//!
//! In: a block's contents, decompressed. Out: [`Block`], read through a [`BlockCursor`]; written by
//! [`BlockBuilder`].
//! Source: RocksDB `table/block_based/block.cc`, `block_builder.cc`, `data_block_footer.cc`. Page:
//! `docs/format/sst.md`.
//!
//! ```text
//! block:  [prefix] | entries... | [values] | restart offsets u32... | [hash index]
//!         | [offset of values u32] | footer u32
//! entry:  shared varint32 | non_shared varint32 | value_len varint32 | key bytes | value bytes
//! footer: restart count, bits 0-27 | 28 values stand apart | 29 a hint | 30 zero
//!         | 31 hash index before it
//! ```
//!
//! Invariants of a parsed block
//!  1. It has at least one restart. Restarts ascend from the first entry, and each is an offset
//!     within the entries; an empty block still has the restart at 0.
//!  2. It is below 4 GiB, so offsets are u32.
//!  3. Entries are checked when they are read: a cursor on damaged entries gives `Corruption`,
//!     never a panic.
//!  4. Since format version 8 the bytes before the first restart are the common prefix of all user
//!     keys. The keys of restarts are stored without it. Every other key shares at least these
//!     bytes with the key before it.

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
/// Set by no release so far.
const EXTENDED: u32 = 1 << 30;
const HASH_INDEX: u32 = 1 << 31;

/// Whether the footer of these contents says that keys are evenly spread. RocksDB before 11.1 takes
/// that bit for a part of the number of restarts.
pub fn is_marked_uniform(contents: &[u8]) -> bool {
    contents.last_chunk::<4>().is_some_and(|footer| u32::from_le_bytes(*footer) & UNIFORM_KEYS != 0)
}

/// A parsed block; owns its bytes.
pub struct Block {
    bytes: Buffer,
    /// Start of the entries: the length of the prefix before them.
    entries_start: u32,
    /// End of the entries. Behind it lie the values if they are separate, otherwise the restarts.
    entries_end: u32,
    /// Start of the values section, if there is one; it ends at `restarts`.
    values: Option<u32>,
    restarts: u32,
    restart_count: u32,
    /// First bytes of keys, for large indexes in bytewise order.
    prefixes: Option<prefixes::RestartPrefixes>,
    /// Checksums of its entries, if it is protected.
    protection: Option<Box<protection::Protection>>,
    /// Whether values lie beside their keys and no sums are compared.
    decodes: bool,
    /// Whether, moreover, restarts have whole keys.
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
    /// Parses a block's contents. Its keys have no common prefix before the entries.
    /// # Errors
    /// `Corruption` if footer and restarts do not fit the bytes.
    pub fn parse(bytes: impl Into<Buffer>) -> Result<Block> {
        let block = Self::parse_prefixed(bytes)?;
        if block.entries_start == 0 { Ok(block) } else { Err(bad_layout()) }
    }

    /// Parses a data or index block of a table of format version 8 or later. It may hold the common
    /// prefix of its user keys before the entries.
    /// # Errors
    /// `Corruption` if footer and restarts do not fit the bytes.
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

    /// Whether the footer and the restarts of these contents fit together. Copies nothing.
    pub fn has_form(contents: &[u8]) -> bool {
        let footer = contents.last_chunk::<4>().map_or(0, |footer| u32::from_le_bytes(*footer));
        footer & EXTENDED == 0 && Self::layout(contents, footer).is_some()
    }

    /// Finds end of entries, values and restarts.
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
            // The hash index is skipped: only point lookups could use it, and a binary search
            // is as fast in a small block.
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

    /// All bytes of the block. The ranges that cursors return index into them.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The entries, behind the prefix if there is one.
    #[inline]
    pub(crate) fn entries(&self) -> &[u8] {
        self.bytes.get(..self.entries_end as usize).unwrap_or_default()
    }

    /// The common prefix of all user keys, which the keys of restarts lack; empty before format
    /// version 8.
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

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries_end == 0
    }

    /// Number of restart points.
    #[inline]
    pub fn restart_count(&self) -> u32 {
        self.restart_count
    }

    /// The offset of restart `i`.
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

    /// Prefetches the first keys that a search compares. In a block with few restarts these are all
    /// keys.
    #[inline]
    pub fn prefetch_restart_keys(&self) {
        let few = 4;
        let step = self.restart_count.div_ceil(few);
        for restart in (0..self.restart_count).step_by(step as usize) {
            let at = self.restart(restart) as usize;
            prefetch(self.bytes.get(at..=at).unwrap_or_default());
        }
    }

    /// Prefetches the entries from this restart on.
    pub fn prefetch_from(&self, restart: u32) {
        let entries = self.restart(restart) as usize..self.entries_end as usize;
        prefetch(self.bytes.get(entries).unwrap_or_default());
    }

    /// Prefetches the entries from this restart up to the next one.
    #[inline]
    pub fn prefetch_interval(&self, restart: u32) {
        let end = if restart + 1 < self.restart_count { self.restart(restart + 1) } else { self.entries_end };
        prefetch(self.bytes.get(self.restart(restart) as usize..end as usize).unwrap_or_default());
    }

    /// Prepares fast searches by user key in bytewise order; `user_key` extracts it from a
    /// restart's key.
    pub(crate) fn prepare_for_search(&mut self, shape: EntryShape, user_key: impl Fn(&[u8]) -> &[u8]) {
        let cursor = BlockCursor::with_buffer(shape, Vec::new());
        let key = |i| cursor.restart_key(self, i).map(&user_key);
        self.prefixes = prefixes::RestartPrefixes::build(self.restart_count, self.key_prefix(), key);
    }

    /// The restarts (low, high) between which to search `user_key`. Restart `low` is the first
    /// restart, or is before the key. No restart behind `high` is before the key.
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

    /// Bytes of memory in use.
    pub fn memory_usage(&self) -> usize {
        let prefixes = self.prefixes.as_ref().map_or(0, prefixes::RestartPrefixes::memory_usage);
        let protection = self.protection.as_ref().map_or(0, |protection| protection.memory_usage());
        self.bytes.memory_bytes() + size_of::<Block>() + prefixes + protection
    }
}

/// The places that a block's footer and restarts give.
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
