//! Decodes many entries ahead of the cursor in one loop.
//!
//! In: the current entry of a cursor. Out: it and its neighbours in a [`DecodedRun`], with whole
//! keys. The cursor does not move; [`move_to_run`](BlockCursor::move_to_run) moves it to one of
//! them without parsing.
//!
//! Forward and backward decoding share one loop, because entries can only be parsed, and keys
//! joined, in their order in the block. Short keys are joined in registers and stored whole, so
//! that no load waits for stores of their parts.
//!
//! An entry that cannot be decoded this way ends the run, or prevents it. That is no error here:
//! the cursor meets the entry when it moves.

use super::{BlockCursor, EntryShape, NOWHERE};
use crate::block::Block;
use crate::cursor::{DecodedRun, RunEntry};
use crate::key::{self, TRAILER_BYTES};
use esker_base::Result;

/// Internal keys up to this length are joined in registers.
const SHORT_KEY: usize = 32;
/// If some keys are longer, keys up to this length are joined in registers.
const MIDDLE_KEY: usize = 64;
/// A reader that requests fewer entries has not scanned far yet.
const FEW: usize = 32;
/// Nothing is decoded backward if an interval has more entries.
const MAX_INTERVAL: usize = 256;
/// Most (short) restart intervals that are decoded together.
const MAX_RESTARTS: u32 = 64;
/// Nothing is decoded backward if the joined keys of an interval take more bytes.
const MAX_KEY_BYTES: usize = 64 << 10;

/// Bytes with all bits set, then the same number of zero bytes.
static MASKS: [[u8; MIDDLE_KEY]; 2] = [[0xFF; MIDDLE_KEY], [0; MIDDLE_KEY]];

/// Longest key that is joined.
const MAX_KEY: usize = 16 << 10;

/// Three lengths, and the number of bytes that they take.
struct Lengths {
    shared: u32,
    non_shared: u32,
    value: u32,
    header: u32,
}

/// The part of a block to decode: from the entry at `at` to `end` at most.
#[derive(Clone, Copy)]
struct Stretch {
    at: u32,
    end: u32,
}

impl BlockCursor {
    /// Decodes the current entry and those behind it, up to the number that the run requests.
    /// REQUIRES: `valid()`.
    #[inline]
    pub fn decode_on(&self, block: &Block, run: &mut DecodedRun) {
        run.clear();
        if self.entry == NOWHERE || !self.can_decode(block) || self.key.len() >= MAX_KEY {
            return;
        }
        let wanted = run.wanted();
        let (keys, places) = run.room(wanted);
        // An entry that shares nothing is decoded again with the others, because the stores of its
        // key may be too recent for a load.
        let is_whole = self.shared == 0;
        let head = (!is_whole).then_some(&self.key[..]);
        let stretch = Stretch { at: if is_whole { self.entry } else { self.next }, end: block.entries_end };
        let Some((here, others)) = places.split_first_mut() else { return };
        *here = RunEntry {
            packed: key::trailer(&self.key),
            entry: self.entry,
            key: 0,
            key_len: u32::try_from(self.key.len()).unwrap_or(0),
            value: self.value.start,
            value_end: self.value.end,
            shared: u16::try_from(self.shared).unwrap_or(0),
            differs: false,
        };
        let others = if is_whole { places } else { others };
        let mut count = decode_by_length(self.key.len(), block, stretch, head, keys, others);
        if count <= usize::from(is_whole) {
            // The current key is long, or that of the next entry is.
            count = decode(block, stretch, head, keys, others);
        }
        run.set_count(usize::from(!is_whole) + count);
    }

    /// Decodes the current entry and those before it, back to a restart. REQUIRES: `valid()`.
    #[inline]
    pub fn decode_back(&self, block: &Block, run: &mut DecodedRun) {
        run.clear();
        if self.entry == NOWHERE || !self.can_decode(block) {
            return;
        }
        let last = self.restart_before(block, self.entry).unwrap_or(0);
        decode_intervals(block, last, (self.entry, self.next), self.key.len(), run);
    }

    /// Moves to the last entry and decodes it with those before it, back to a restart.
    /// # Errors
    /// `Corruption`.
    pub fn seek_to_last_and_decode(&mut self, block: &Block, run: &mut DecodedRun) -> Result<()> {
        run.clear();
        if self.can_decode(block) {
            let end = block.entries_end;
            decode_intervals(block, block.restart_count() - 1, (NOWHERE, end), self.key.len(), run);
        }
        if run.entries().is_empty() {
            return self.seek_to_last(block);
        }
        self.reset();
        self.stand_on_entry(run, run.entries().len() - 1);
        Ok(())
    }

    /// Moves to the entry at the run's position. REQUIRES: `run` was decoded from this block.
    #[inline]
    pub fn move_to_run(&mut self, run: &DecodedRun) {
        self.stand_on_entry(run, run.at());
    }

    /// Moves to entry `i` of the entries that were decoded into the run.
    #[inline]
    pub fn stand_on_entry(&mut self, run: &DecodedRun, i: usize) {
        let Some(entry) = run.entries().get(i) else { return };
        self.key.clear();
        self.key.extend_from_slice(run.internal_key(i));
        self.entry = entry.entry;
        self.next = entry.value_end;
        self.shared = u32::from(entry.shared);
        self.value = entry.value..entry.value_end;
    }

    /// Whether the current entry is the last one.
    #[inline]
    pub fn is_last(&self, block: &Block) -> bool {
        self.next >= block.entries_end
    }

    #[inline]
    fn can_decode(&self, block: &Block) -> bool {
        self.shape == EntryShape::KeyValue && block.decodes
    }
}

/// Decodes entries into `run`, from restart `last` or an earlier one up to the entry at `here.0`,
/// which ends at `here.1`. `NOWHERE` means up to the last entry. Decodes none if one fails.
fn decode_intervals(block: &Block, last: u32, here: (u32, u32), key_len: usize, run: &mut DecodedRun) {
    let wanted = run.wanted();
    let first = last.saturating_sub(run.intervals - 1);
    let stretch = Stretch { at: block.restart(first), end: here.1 };
    // A reader that scans far also gets room for long intervals.
    let (keys, places) = run.room(if wanted < FEW { 2 * FEW } else { MAX_INTERVAL });
    let is_whole = |places: &[RunEntry], count: usize| {
        let decoded = places.get(..count).and_then(<[RunEntry]>::last);
        decoded.is_some_and(|entry| entry.value_end == here.1 && (here.0 == NOWHERE || entry.entry == here.0))
    };
    // A restart shares the block's prefix with a key before it, as it were.
    let head = (block.entries_start > 0).then(|| block.key_prefix());
    let mut count = decode_by_length(key_len, block, stretch, head, keys, places);
    if !is_whole(places, count) {
        count = decode(block, stretch, head, keys, places);
    }
    let is_whole = is_whole(places, count);
    if count > 2 * wanted || !is_whole {
        run.intervals = (run.intervals / 2).max(1);
    } else if count < wanted {
        run.intervals = (run.intervals * 2).min(MAX_RESTARTS);
    }
    run.set_count(if is_whole { count } else { 0 });
}

/// `decode_short` for keys of about `key_len` bytes; 0 if they are long.
#[inline]
fn decode_by_length(
    key_len: usize,
    block: &Block,
    stretch: Stretch,
    head: Option<&[u8]>,
    keys: &mut Vec<u8>,
    places: &mut [RunEntry],
) -> usize {
    const SHORT_WORDS: usize = SHORT_KEY / 8;
    const MIDDLE_WORDS: usize = MIDDLE_KEY / 8;
    match (block.entries_start > 0, key_len) {
        (false, ..SHORT_KEY) => {
            decode_short::<SHORT_WORDS, SHORT_KEY, false>(block, stretch, head, keys, places)
        }
        (false, SHORT_KEY..MIDDLE_KEY) => {
            decode_short::<MIDDLE_WORDS, MIDDLE_KEY, false>(block, stretch, head, keys, places)
        }
        (true, ..SHORT_KEY) => {
            decode_short::<SHORT_WORDS, SHORT_KEY, true>(block, stretch, head, keys, places)
        }
        (true, SHORT_KEY..MIDDLE_KEY) => {
            decode_short::<MIDDLE_WORDS, MIDDLE_KEY, true>(block, stretch, head, keys, places)
        }
        (_, MIDDLE_KEY..) => 0,
    }
}

/// Number of bytes that an entry keeps of the key before it, from the number that is stored. `None`
/// if that is less than the block's prefix and not 0.
#[inline(always)]
fn kept_bytes(block: &Block, shared: u32) -> Option<usize> {
    match shared {
        0 => Some(block.entries_start as usize),
        shared if shared < block.entries_start => None,
        shared => Some(shared as usize),
    }
}

/// The lengths at the beginning of an entry, if the value's takes at most two bytes and the others
/// one. Nearly all entries have these sizes.
#[inline(always)]
fn lengths(rest: &[u8]) -> Option<Lengths> {
    let lengths = u32::from_le_bytes(*rest.first_chunk::<4>()?);
    let (shared, non_shared, value) = (lengths & 0xFF, lengths >> 8 & 0xFF, lengths >> 16 & 0xFF);
    if lengths & 0x80_80_80 == 0 {
        return Some(Lengths { shared, non_shared, value, header: 3 });
    }
    let value = (value & 0x7F) | lengths >> 24 << 7;
    (lengths & 0x80_00_80_80 == 0).then_some(Lengths { shared, non_shared, value, header: 4 })
}

/// The lengths at the beginning of an entry, of any size.
#[cold]
fn all_lengths(rest: &[u8]) -> Option<Lengths> {
    let (shared, non_shared, value, header) = super::lengths::long_lengths(rest)?;
    Some(Lengths { shared, non_shared, value, header })
}

/// Decodes entries with keys of at most `N` bytes, which are `W` words, into `places`; each key
/// gets `N` bytes. `head` is the key before the first entry, and comes first among the keys.
/// `PREFIXED`: the block has a common prefix. Returns the number of entries.
#[inline(never)]
fn decode_short<const W: usize, const N: usize, const PREFIXED: bool>(
    block: &Block,
    stretch: Stretch,
    head: Option<&[u8]>,
    keys: &mut Vec<u8>,
    places: &mut [RunEntry],
) -> usize {
    // The block has more bytes behind its entries, so whole vectors can be loaded near
    // the entries' end.
    let (bytes, end) = (block.bytes(), stretch.end.min(block.entries_end) as usize);
    let room = (places.len() + 1) * N;
    if keys.len() < room {
        keys.resize(room, 0);
    }
    let mut slots = keys.as_chunks_mut::<N>().0.iter_mut();
    let (mut at, mut key, mut key_len, mut slot_at) = (stretch.at as usize, [0; W], 0, 0);
    if let Some(head) = head
        && let Some(slot) = slots.next()
    {
        *slot = padded(head);
        (key, key_len, slot_at) = (words(slot), head.len(), N);
    }
    let mut count = 0;
    for (slot, place) in slots.zip(places) {
        if at >= end {
            break;
        }
        let Some(rest) = bytes.get(at..) else { break };
        let Some(Lengths { shared, non_shared, value, header }) = lengths(rest).or_else(|| all_lengths(rest))
        else {
            break;
        };
        let kept = if PREFIXED { kept_bytes(block, shared) } else { Some(shared as usize) };
        let Some(kept) = kept else { break };
        let suffix = at + header as usize;
        let value_at = suffix + non_shared as usize;
        let value_end = value_at + value as usize;
        let len = kept + non_shared as usize;
        if kept > key_len || len > N || value_end > end {
            break;
        }
        // Loads the vector that begins as far before the suffix as the key shares bytes. The block
        // has these bytes: the shared bytes lie in it before the suffix.
        let aligned = bytes.get(suffix.wrapping_sub(kept)..).and_then(<[u8]>::first_chunk::<N>);
        let before = key;
        match aligned {
            Some(aligned) => key = join(&key, &words(aligned), kept),
            None => key = join(&key, &near_edge(bytes.get(suffix..value_at).unwrap_or_default(), kept), kept),
        }
        *slot = bytes_of(&key);
        // The number lies in the entry, unless the entry shares a part of it.
        let trailer = value_at.checked_sub(TRAILER_BYTES).filter(|_| non_shared as usize >= TRAILER_BYTES);
        let trailer = trailer.and_then(|at| bytes.get(at..)).and_then(<[u8]>::first_chunk::<TRAILER_BYTES>);
        let packed = match trailer {
            Some(packed) => u64::from_le_bytes(*packed),
            None => key::trailer(slot.get(..len).unwrap_or_default()),
        };
        let differs = len != key_len || differ(&before, &key, len.saturating_sub(TRAILER_BYTES));
        *place = RunEntry {
            packed,
            entry: small(at),
            key: small(slot_at),
            key_len: small(len),
            value: small(value_at),
            value_end: small(value_end),
            shared: shorter(kept),
            differs,
        };
        (key_len, at, slot_at) = (len, value_end, slot_at + N);
        count += 1;
    }
    count
}

/// `bytes`, then zeros.
#[inline]
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    if let Some(place) = padded.get_mut(..bytes.len()) {
        place.copy_from_slice(bytes);
    }
    padded
}

/// The bytes as words.
#[inline(always)]
fn words<const W: usize, const N: usize>(bytes: &[u8; N]) -> [u64; W] {
    let (chunks, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| chunks.get(i).map_or(0, |chunk| u64::from_le_bytes(*chunk)))
}

/// The words as bytes.
#[inline(always)]
fn bytes_of<const W: usize, const N: usize>(words: &[u64; W]) -> [u8; N] {
    let mut bytes = [0; N];
    for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    bytes
}

/// Words in which exactly the first `at` bytes are set. REQUIRES: `W` words and `at` bytes are at
/// most 64 bytes.
#[inline(always)]
fn mask<const W: usize>(at: usize) -> [u64; W] {
    let masks = MASKS.as_flattened();
    let mask = masks.get(MIDDLE_KEY.saturating_sub(at)..).and_then(<[u8]>::first_chunk::<MIDDLE_KEY>);
    words(mask.unwrap_or(&[0; MIDDLE_KEY]))
}

/// The first `at` bytes of `head`, followed by those of `tail`. It takes some instructions on whole
/// vectors; no length decides a branch.
#[inline(always)]
fn join<const W: usize>(head: &[u64; W], tail: &[u64; W], at: usize) -> [u64; W] {
    let (mask, mut joined) = (mask::<W>(at), *tail);
    for ((to, head), mask) in joined.iter_mut().zip(head).zip(mask) {
        *to ^= (head ^ *to) & mask;
    }
    joined
}

/// Whether they differ in the first `len` bytes.
#[inline(always)]
fn differ<const W: usize>(a: &[u64; W], b: &[u64; W], len: usize) -> bool {
    let others = a.iter().zip(b).zip(mask::<W>(len)).map(|((a, b), mask)| (a ^ b) & mask);
    others.fold(0, |all, other| all | other) != 0
}

/// A key's suffix at its place in the key, if the block ends before a whole vector could be loaded.
#[cold]
#[inline(never)]
fn near_edge<const W: usize>(suffix: &[u8], at: usize) -> [u64; W] {
    let mut key = [0; MIDDLE_KEY];
    if let Some(place) = key.get_mut(at..at + suffix.len()) {
        place.copy_from_slice(suffix);
    }
    words(&key)
}

/// An offset within a block, or a checked length of a key or value in it: below 4 GiB.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see above")]
fn small(n: usize) -> u32 {
    debug_assert!(u32::try_from(n).is_ok());
    n as u32
}

/// The shared length of a key that is put together: below 64 KiB.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see above")]
fn shorter(n: usize) -> u16 {
    debug_assert!(u16::try_from(n).is_ok());
    n as u16
}

/// Decodes entries with keys of any length, which are stored one behind the other. Otherwise as
/// [`decode_short`].
#[inline(never)]
fn decode(
    block: &Block,
    stretch: Stretch,
    head: Option<&[u8]>,
    keys: &mut Vec<u8>,
    places: &mut [RunEntry],
) -> usize {
    keys.clear();
    keys.extend_from_slice(head.unwrap_or_default());
    let (bytes, end) = (block.bytes(), stretch.end.min(block.entries_end));
    let (mut at, mut before, mut count) = (stretch.at, 0..keys.len(), 0);
    for place in places {
        if at >= end || keys.len() >= MAX_KEY_BYTES {
            break;
        }
        let Some(Lengths { shared, non_shared, value, header }) =
            bytes.get(at as usize..).and_then(|rest| lengths(rest).or_else(|| all_lengths(rest)))
        else {
            break;
        };
        let Some(kept) = kept_bytes(block, shared) else { break };
        let suffix = at as usize + header as usize;
        let value_at = suffix + non_shared as usize;
        let value_end = value_at + value as usize;
        let len = kept + non_shared as usize;
        if kept > before.len() || len >= MAX_KEY || value_end > end as usize {
            break;
        }
        let key = keys.len();
        keys.extend_from_within(before.start..before.start + kept);
        keys.extend_from_slice(bytes.get(suffix..value_at).unwrap_or_default());
        before = key..key + len;
        *place = RunEntry {
            packed: key::trailer(keys.get(before.clone()).unwrap_or_default()),
            entry: at,
            key: small(key),
            key_len: small(len),
            value: small(value_at),
            value_end: small(value_end),
            shared: shorter(kept),
            differs: false,
        };
        at = small(value_end);
        count += 1;
    }
    count
}
