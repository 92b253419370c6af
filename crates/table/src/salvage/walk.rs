//! Finds blocks without an index, by their checksums.
//!
//! In: a place in the file where a block may begin. Out: the block's handle, if a checksum behind
//! some length is right.
//!
//! The byte behind a block is its compression code, and the four behind that its checksum. So only
//! places with a known code are tried. Uncompressed contents end with their restart points, which
//! rules out nearly all wrong places without hashing. A place where no block begins is left byte by
//! byte; `budget` bounds the work.

use crate::block_source::BlockSource;
use esker_base::coding::Decoder;
use esker_base::{Error, Result};
use esker_format::block::Block;
use esker_format::handle::BlockHandle;
use esker_format::trailer::TRAILER_BYTES;

/// The bytes that one table's walks may pass through a checksum function.
const MOST_HASHED_BYTES: u64 = 32 << 30;

/// The longest block that is looked for before any is found, and the shortest bound.
const LEAST_LIMIT: usize = 64 << 10;

/// The longest block that is looked for.
const MOST_LIMIT: usize = 1 << 20;

/// Bytes of one read.
const WINDOW: usize = 4 << 20;

/// A search through one file.
pub(super) struct Walker<'a> {
    source: &'a BlockSource,
    window: Vec<u8>,
    window_start: u64,
    budget: u64,
    /// The longest block so far, stored and decompressed.
    longest: usize,
    /// Compression codes that blocks of the file may have, one bit each.
    codes: u8,
}

impl<'a> Walker<'a> {
    pub(super) fn new(source: &'a BlockSource) -> Walker<'a> {
        Walker {
            source,
            window: Vec::new(),
            window_start: 0,
            budget: MOST_HASHED_BYTES,
            longest: 0,
            codes: 0,
        }
    }

    /// Records the sizes of a block that was found, so that later searches end sooner.
    pub(super) fn note(&mut self, handle: BlockHandle, decompressed: usize) {
        self.longest = self.longest.max(decompressed).max(handle.size as usize);
        self.codes |= if decompressed as u64 == handle.size { 1 } else { u8::MAX - 1 };
    }

    fn limit(&self) -> usize {
        (4 * self.longest).clamp(LEAST_LIMIT, MOST_LIMIT)
    }

    /// The bytes of the file from `at` on, at most `bytes` and up to `end`.
    fn bytes(&mut self, at: u64, end: u64, bytes: usize) -> Result<&[u8]> {
        let wanted = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes);
        let has = (self.window_start + self.window.len() as u64).saturating_sub(at) as usize;
        if at < self.window_start || has < wanted {
            let room = usize::try_from(self.source.file_size.saturating_sub(at)).unwrap_or(usize::MAX);
            self.window.resize(room.min(WINDOW.max(wanted)), 0);
            let read = self.source.file.read_at(at, &mut self.window)?;
            self.window.truncate(read);
            self.window_start = at;
        }
        let from = (at - self.window_start) as usize;
        let to = self.window.len().min(from + wanted);
        Ok(self.window.get(from..to).unwrap_or_default())
    }

    /// The block that begins at `at` and ends, with its trailer, at `end` or before.
    /// # Errors
    /// `IoError`.
    pub(super) fn block_at(&mut self, at: u64, end: u64) -> Result<Option<BlockHandle>> {
        let (limit, guard, mut budget) = (self.limit(), self.source.guard, self.budget);
        let bytes = self.bytes(at, end, limit + TRAILER_BYTES)?;
        let mut found = None;
        // Key/value blocks first: their form is checked before their bytes are hashed.
        for any_form in [false, true] {
            found = (0..bytes.len().saturating_sub(TRAILER_BYTES - 1)).find(|&size| {
                let code = bytes[size];
                let is_likely = match code {
                    0 => any_form || Block::has_form(&bytes[..size]),
                    1..=7 => !any_form,
                    _ => false,
                };
                is_likely && size > 0 && is_block(&guard, bytes, size, at, &mut budget)
            });
            if found.is_some() {
                break;
            }
        }
        self.budget = budget;
        Ok(found.map(|size| BlockHandle::new(at, size as u64)))
    }

    /// The first key/value block that begins behind `at` and ends at `end` or before. `None` also
    /// if the search takes too long.
    /// # Errors
    /// `IoError`.
    pub(super) fn block_behind(&mut self, at: u64, end: u64) -> Result<Option<BlockHandle>> {
        let (limit, guard, mut budget) = (self.limit(), self.source.guard, self.budget);
        let codes = if self.codes == 0 { u8::MAX } else { self.codes };
        let has_key_prefixes = self.source.has_key_prefixes;
        let mut start = at + 1;
        while start < end && budget > 0 {
            let bytes = self.bytes(start, end, limit + TRAILER_BYTES)?;
            let most = most_stored_bytes(bytes, limit);
            let is_plain = has_key_prefixes || begins_with_a_whole_key(bytes);
            let sizes = 1..bytes.len().saturating_sub(TRAILER_BYTES - 1);
            let found = sizes.into_iter().find(|&size| {
                let code = bytes[size];
                let is_likely = match code {
                    0 => is_plain && Block::has_form(&bytes[..size]),
                    1..=7 => size <= most && codes & (1 << code) != 0,
                    _ => false,
                };
                is_likely && is_block(&guard, bytes, size, start, &mut budget)
            });
            if let Some(size) = found {
                self.budget = budget;
                return Ok(Some(BlockHandle::new(start, size as u64)));
            }
            start += 1;
        }
        self.budget = budget;
        Ok(None)
    }

    /// The block whose trailer ends at `end`, if it is shorter than `most`.
    /// # Errors
    /// `IoError`.
    pub(super) fn block_before(&mut self, end: u64, most: u64) -> Result<Option<BlockHandle>> {
        let first = end.saturating_sub(most + TRAILER_BYTES as u64);
        let (guard, mut budget) = (self.source.guard, self.budget);
        let bytes = self.bytes(first, end, (end - first) as usize)?;
        let Some(last) = bytes.len().checked_sub(TRAILER_BYTES + 1) else { return Ok(None) };
        let found = (0..=last).rev().find(|&from| {
            let part = &bytes[from..];
            let size = part.len() - TRAILER_BYTES;
            part[size] <= 7 && is_block(&guard, part, size, first + from as u64, &mut budget)
        });
        self.budget = budget;
        Ok(found.map(|from| BlockHandle::new(first + from as u64, (last + 1 - from) as u64)))
    }
}

/// Whether a block of `size` bytes and its trailer are at the front of `bytes`, which lie at
/// `offset` in the file.
fn is_block(
    guard: &esker_format::trailer::BlockGuard,
    bytes: &[u8],
    size: usize,
    offset: u64,
    budget: &mut u64,
) -> bool {
    let Some(left) = budget.checked_sub(size as u64) else {
        *budget = 0;
        return false;
    };
    *budget = left;
    bytes.get(..size + TRAILER_BYTES).is_some_and(|stored| guard.check(stored, offset).is_ok())
}

/// The most bytes that a compressed block at the front of `bytes` can have: the size that it
/// decompresses to stands first, and a block that does not get smaller is stored as it is.
fn most_stored_bytes(bytes: &[u8], limit: usize) -> usize {
    let expanded = Decoder::new(bytes).varint32().map_or(0, |size| size as usize);
    if expanded > limit { 0 } else { expanded + 16 }
}

/// Whether the bytes can begin an uncompressed block: the first entry shares nothing, and its key
/// has at least a sequence number and a type.
fn begins_with_a_whole_key(bytes: &[u8]) -> bool {
    let mut input = Decoder::new(bytes);
    let lengths: Result<_, Error> = (|| Ok((input.varint32()?, input.varint32()?)))();
    lengths.is_ok_and(|(shared, key)| shared == 0 && key >= 8)
}
