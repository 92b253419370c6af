//! Reads key/value blocks, forwards and backwards.
//!
//! A cursor does not own its block: every call names it, so that one cursor (and its buffers) serves block after
//! block. Naming another block than the one it was positioned in gives wrong entries or `Corruption`; call `reset`.
//!
//! Invariants
//!  1. Valid: `key` is the whole key of the entry at `entry`, `value` its value's range in the block's bytes, `next`
//!     the offset behind it.
//!  2. Moving one entry forward allocates nothing once `key` has grown to the longest key.
//!  3. `before` holds the entries of one restart interval up to some entry, so that going back decodes each entry once.

use super::{Block, common_prefix};
use crate::key::{self, InternalKeyComparator};
use esker_base::coding::Decoder;
use esker_base::comparator::KeyOrder;
use esker_base::{Error, Result};
use std::cmp::Ordering;
use std::ops::Range;

/// How a block's entries look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryShape {
    /// `shared | non_shared | value_len | key | value`: nearly all blocks.
    KeyValue,
    /// `shared | non_shared | key | value`, the value being a delta-coded handle: index blocks since version 4.
    DeltaIndex {
        /// Whether the first key of the block follows the handle.
        with_first_key: bool,
    },
}

/// Stands on no entry.
const NOWHERE: u32 = u32::MAX;

/// A place in a block.
#[derive(Debug)]
pub struct BlockCursor {
    shape: EntryShape,
    key: Vec<u8>,
    entry: u32,
    next: u32,
    shared: u32,
    value: Range<u32>,
    before: Before,
}

/// Entries already decoded on the way back.
#[derive(Debug, Default)]
struct Before {
    entries: Vec<Decoded>,
    keys: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Decoded {
    entry: u32,
    next: u32,
    value: Range<u32>,
    key: Range<u32>,
}

/// One entry as it lies in the block.
struct Entry {
    shared: u32,
    key: Range<u32>,
    value: Range<u32>,
    next: u32,
}

impl Default for BlockCursor {
    fn default() -> BlockCursor {
        BlockCursor::new()
    }
}

impl BlockCursor {
    /// For blocks of the common shape, standing nowhere.
    pub fn new() -> BlockCursor {
        BlockCursor::with_buffer(EntryShape::KeyValue, Vec::new())
    }

    /// For blocks of this shape, with a key buffer from elsewhere.
    #[inline]
    pub fn with_buffer(shape: EntryShape, key: Vec<u8>) -> BlockCursor {
        BlockCursor { shape, key, entry: NOWHERE, next: 0, shared: 0, value: 0..0, before: Before::default() }
    }

    /// The key buffer, for the next cursor.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.key
    }

    /// Stands nowhere, ready for another block.
    #[inline]
    pub fn reset(&mut self) {
        self.entry = NOWHERE;
        self.before.entries.clear();
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.entry != NOWHERE
    }

    /// The key here.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value here.
    #[inline]
    pub fn value<'b>(&self, block: &'b Block) -> &'b [u8] {
        block.bytes().get(self.value_range()).unwrap_or_default()
    }

    /// Where in the block's bytes the value lies.
    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        self.value.start as usize..self.value.end as usize
    }

    /// How many bytes the key here was stored without.
    #[inline]
    pub(crate) fn shared(&self) -> u32 {
        self.shared
    }

    /// To the first entry.
    /// # Errors
    /// `Corruption`; the cursor stands nowhere then. So for all that follow.
    #[inline]
    pub fn seek_to_first(&mut self, block: &Block) -> Result<()> {
        self.move_to(block, 0)
    }

    /// To the last entry.
    /// # Errors
    /// `Corruption`.
    pub fn seek_to_last(&mut self, block: &Block) -> Result<()> {
        // The last restart may have no entry behind it only in an empty block (or a damaged one).
        self.seek_to_restart(block, block.restart_count() - 1)?;
        while self.valid() && self.next < block.entries_end {
            self.step(block)?;
        }
        Ok(())
    }

    /// To the first entry whose key is not `before`; keys that are come before those that are not.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn seek_by(&mut self, block: &Block, mut before: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let all = (0, block.restart_count() - 1);
        let restart = self.search_restarts(block, all, &mut before)?;
        self.seek_to_restart(block, restart)?;
        while self.valid() && before(&self.key) {
            self.next(block)?;
        }
        Ok(())
    }

    /// To the last entry whose key is `not_after`; keys that are come before those that are not.
    /// # Errors
    /// `Corruption`.
    pub fn seek_for_prev_by(
        &mut self,
        block: &Block,
        mut not_after: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.seek_by(block, &mut not_after)?;
        if self.valid() { self.prev(block) } else { self.seek_to_last(block) }
    }

    /// The last restart of `within` (first, last) whose key is `before`; the first of them if none is.
    #[inline]
    pub(crate) fn search_restarts(
        &mut self,
        block: &Block,
        within: (u32, u32),
        before: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<u32> {
        let (mut low, mut high) = within;
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match self.restart_key(block, middle) {
                Some(key) if before(key) => low = middle,
                Some(_) => high = middle - 1,
                None => {
                    self.entry = NOWHERE;
                    return Err(bad_entry(block.restart(middle)));
                }
            }
        }
        Ok(low)
    }

    /// The key of a restart, without looking at its value.
    #[inline]
    pub(crate) fn restart_key<'b>(&self, block: &'b Block, restart: u32) -> Option<&'b [u8]> {
        let entries = block.entries();
        let rest = entries.get(block.restart(restart) as usize..)?;
        let has_value_len = self.shape == EntryShape::KeyValue;
        if block.values.is_none()
            && let [0, length @ 0..0x80, value_len, ..] = *rest
            && (!has_value_len || value_len < 0x80)
        {
            let start = if has_value_len { 3 } else { 2 };
            return rest.get(start..start + usize::from(length));
        }
        let entry = self.parse(block, block.restart(restart))?;
        if entry.shared != 0 {
            return None;
        }
        entries.get(entry.key.start as usize..entry.key.end as usize)
    }

    /// To the first entry at or after the internal key `target`.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn seek(&mut self, block: &Block, target: &[u8], icmp: &InternalKeyComparator) -> Result<()> {
        let restart = self.restart_for(block, target, icmp)?;
        self.seek_from(block, restart, target, icmp)
    }

    /// The restart from which a search for the internal key `target` walks: the last one before it, or the first.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn restart_for(&mut self, block: &Block, target: &[u8], icmp: &InternalKeyComparator) -> Result<u32> {
        self.restart_behind(block, 0, target, icmp)
    }

    /// [`restart_for`](Self::restart_for) if it is known not to be before restart `low`, which the block has.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn restart_behind(
        &mut self,
        block: &Block,
        low: u32,
        target: &[u8],
        icmp: &InternalKeyComparator,
    ) -> Result<u32> {
        let within = (low, block.restart_count() - 1);
        match icmp.order() {
            KeyOrder::Bytewise => {
                self.search_restarts(block, within, &mut |k| compare_bytewise(k, target).0.is_lt())
            }
            _ => self.search_restarts(block, within, &mut |k| icmp.compare(k, target).is_lt()),
        }
    }

    /// [`seek`](Self::seek), from what [`restart_for`](Self::restart_for) has found.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn seek_from(
        &mut self,
        block: &Block,
        restart: u32,
        target: &[u8],
        icmp: &InternalKeyComparator,
    ) -> Result<()> {
        self.seek_to_restart(block, restart)?;
        self.walk_to(block, target, icmp)
    }

    /// As [`seek_from`](Self::seek_from), when the last seek in this block was for a target before this one: walks on from
    /// here if that is not the longer way.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn seek_on_from(
        &mut self,
        block: &Block,
        restart: u32,
        target: &[u8],
        icmp: &InternalKeyComparator,
    ) -> Result<()> {
        match self.entry_offset() {
            Some(here) if here >= block.restart(restart) => self.walk_to(block, target, icmp),
            _ => self.seek_from(block, restart, target, icmp),
        }
    }

    /// To the first entry at or after the internal key `target`, from the entry here on: what lies before it is before
    /// the target.
    #[inline]
    fn walk_to(&mut self, block: &Block, target: &[u8], icmp: &InternalKeyComparator) -> Result<()> {
        if icmp.order() != KeyOrder::Bytewise {
            while self.valid() && icmp.compare(&self.key, target).is_lt() {
                self.next(block)?;
            }
            return Ok(());
        }
        while self.valid() {
            let (order, smaller_at) = compare_bytewise(&self.key, target);
            if order.is_ge() {
                break;
            }
            match smaller_at {
                Some(at) => self.skip_smaller(block, key::user_key(target), at)?,
                None => self.next(block)?,
            }
        }
        Ok(())
    }

    /// To the next entry that is not clearly smaller than `target`, a user key; nowhere if there is none. The key here is
    /// smaller at byte `at`, within both user keys.
    ///
    /// An entry that shares more than `at` bytes with the one before it is smaller at the same place; one that shares just
    /// so many is compared from there on; one that shares fewer is greater. Until then no key is put together: that was two
    /// thirds of a seek. When one is, what it shares it shares with the target too.
    #[inline]
    fn skip_smaller(&mut self, block: &Block, target: &[u8], mut at: usize) -> Result<()> {
        let entries = block.entries();
        let mut key_len = self.key.len();
        while self.next < block.entries_end {
            let here = self.next;
            let entry = self.parse(block, here).filter(|entry| entry.shared as usize <= key_len);
            let Some(entry) = entry else {
                self.entry = NOWHERE;
                return Err(bad_entry(here));
            };
            let shared = entry.shared as usize;
            if shared <= at {
                let suffix =
                    entries.get(entry.key.start as usize..entry.key.end as usize).unwrap_or_default();
                let smaller_at = if shared == at { smaller_behind(suffix, target, at) } else { None };
                let Some(smaller_at) = smaller_at else {
                    self.key.clear();
                    self.key.extend_from_slice(target.get(..shared).unwrap_or_default());
                    return self.take(block, here, entry);
                };
                at = smaller_at;
            }
            key_len = shared + entry.key.len();
            self.next = entry.next;
            self.value = entry.value;
        }
        self.entry = NOWHERE;
        Ok(())
    }

    /// One entry on; nowhere behind the last.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn next(&mut self, block: &Block) -> Result<()> {
        if self.next < block.entries_end {
            self.step(block)
        } else {
            self.entry = NOWHERE;
            Ok(())
        }
    }

    /// One entry back; nowhere before the first.
    /// # Errors
    /// `Corruption`.
    pub fn prev(&mut self, block: &Block) -> Result<()> {
        let here = self.entry;
        if here == 0 || here == NOWHERE {
            self.entry = NOWHERE;
            return Ok(());
        }
        if self.before.entries.last().is_some_and(|e| e.entry == here) {
            self.before.entries.pop();
        }
        if self.before.entries.last().is_none_or(|e| e.next != here) {
            self.decode_up_to(block, here)?;
        }
        match self.before.entries.last().cloned() {
            Some(e) => {
                self.key.clear();
                let key = self.before.keys.get(e.key.start as usize..e.key.end as usize);
                self.key.extend_from_slice(key.unwrap_or_default());
                (self.entry, self.next, self.value) = (e.entry, e.next, e.value);
                Ok(())
            }
            None => {
                self.entry = NOWHERE;
                Err(bad_entry(here))
            }
        }
    }

    /// Fills `before` with the entries from the last restart before `here` up to it.
    fn decode_up_to(&mut self, block: &Block, here: u32) -> Result<()> {
        self.before.entries.clear();
        self.before.keys.clear();
        let restart = self.restart_before(block, here).unwrap_or(0);
        self.seek_to_restart(block, restart)?;
        while self.valid() && self.entry < here {
            let start = self.before.keys.len();
            self.before.keys.extend_from_slice(&self.key);
            let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(self.before.keys.len())) else {
                self.entry = NOWHERE;
                return Err(Error::corruption("4 GiB of keys between two restarts of a block"));
            };
            self.before.entries.push(Decoded {
                entry: self.entry,
                next: self.next,
                value: self.value.clone(),
                key: start..end,
            });
            self.next(block)?;
        }
        Ok(())
    }

    /// To the entry of a restart.
    #[inline]
    pub(crate) fn seek_to_restart(&mut self, block: &Block, restart: u32) -> Result<()> {
        self.move_to(block, block.restart(restart))
    }

    /// The last restart before the entry at offset `here`, if that is not the first entry.
    pub(crate) fn restart_before(&self, block: &Block, here: u32) -> Option<u32> {
        let (mut low, mut high) = (0, block.restart_count() - 1);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if block.restart(middle) < here { low = middle } else { high = middle - 1 }
        }
        (here != 0).then_some(low)
    }

    /// Where the entry here begins, if it stands on one.
    #[inline]
    pub(crate) fn entry_offset(&self) -> Option<u32> {
        (self.entry != NOWHERE).then_some(self.entry)
    }

    /// Where the entry behind this one begins, if there is one.
    #[inline]
    pub(crate) fn next_offset(&self, block: &Block) -> Option<u32> {
        (self.entry != NOWHERE && self.next < block.entries_end).then_some(self.next)
    }

    /// To the entry at `offset`, a restart; nowhere if the entries end there.
    #[inline]
    fn move_to(&mut self, block: &Block, offset: u32) -> Result<()> {
        self.key.clear();
        self.next = offset;
        self.value = block.values.map_or(0..0, |v| v..v);
        self.entry = NOWHERE;
        if offset < block.entries_end { self.step(block) } else { Ok(()) }
    }

    /// Reads the entry at `next`.
    #[inline]
    fn step(&mut self, block: &Block) -> Result<()> {
        let at = self.next;
        let Some(entry) = self.parse(block, at) else {
            self.entry = NOWHERE;
            return Err(bad_entry(at));
        };
        self.take(block, at, entry)
    }

    /// Stands on `entry`, at offset `at`; of the key here, what it shares with the one before it is left.
    #[inline]
    fn take(&mut self, block: &Block, at: u32, entry: Entry) -> Result<()> {
        let suffix = block.entries().get(entry.key.start as usize..entry.key.end as usize);
        let (Some(suffix), true) = (suffix, entry.shared as usize <= self.key.len()) else {
            self.entry = NOWHERE;
            return Err(bad_entry(at));
        };
        self.key.truncate(entry.shared as usize);
        self.key.extend_from_slice(suffix);
        self.entry = at;
        self.next = entry.next;
        self.shared = entry.shared;
        self.value = entry.value;
        Ok(())
    }

    /// The entry at `offset`, if one lies there within the block.
    #[inline]
    fn parse(&self, block: &Block, offset: u32) -> Option<Entry> {
        if self.shape != EntryShape::KeyValue || block.values.is_some() {
            return self.parse_seldom(block, offset);
        }
        let rest = block.entries().get(offset as usize..)?;
        let (shared, non_shared, value_len, header) = match *rest {
            [shared, non_shared, value_len, ..] if (shared | non_shared | value_len) < 0x80 => {
                (u32::from(shared), u32::from(non_shared), u32::from(value_len), 3)
            }
            _ => long_lengths(rest)?,
        };
        let key_start = offset + header;
        let key_end = key_start.checked_add(non_shared)?;
        let next = key_end.checked_add(value_len)?;
        (next <= block.entries_end).then_some(Entry {
            shared,
            key: key_start..key_end,
            value: key_end..next,
            next,
        })
    }

    /// `parse` for index blocks without first keys, whose handles are skipped: who reads them checks them.
    #[inline]
    fn parse_index(rest: &[u8], offset: u32) -> Option<Entry> {
        let [shared, key_len, ..] = *rest else { return None };
        if (shared | key_len) >= 0x80 {
            return None;
        }
        let value_start = 2 + usize::from(key_len);
        let mut end = skip_varint(rest, value_start)?;
        if shared == 0 {
            end = skip_varint(rest, end)?;
        }
        let position = |n: usize| u32::try_from(n).ok()?.checked_add(offset);
        let (value_start, next) = (position(value_start)?, position(end)?);
        Some(Entry {
            shared: u32::from(shared),
            key: offset + 2..value_start,
            value: value_start..next,
            next,
        })
    }

    /// `parse` for index blocks and blocks with values apart.
    fn parse_seldom(&self, block: &Block, offset: u32) -> Option<Entry> {
        let rest = block.entries().get(offset as usize..)?;
        if self.shape == (EntryShape::DeltaIndex { with_first_key: false })
            && let Some(entry) = Self::parse_index(rest, offset)
        {
            return Some(entry);
        }
        let mut input = Decoder::new(rest);
        let position = |input: &Decoder<'_>| u32::try_from(rest.len() - input.rest().len()).ok();
        let shared = input.varint32().ok()?;
        let non_shared = input.varint32().ok()?;
        if let EntryShape::DeltaIndex { with_first_key } = self.shape {
            let key_start = offset + position(&input)?;
            input.bytes(non_shared as usize).ok()?;
            let value_start = offset + position(&input)?;
            input.varint64().ok()?;
            if shared == 0 {
                input.varint64().ok()?;
            }
            if with_first_key {
                input.length_prefixed().ok()?;
            }
            let next = offset + position(&input)?;
            return Some(Entry {
                shared,
                key: key_start..key_start + non_shared,
                value: value_start..next,
                next,
            });
        }
        let values = block.values?;
        let value_len = input.varint32().ok()?;
        let value_start = if self.is_restart(block, offset) {
            values.checked_add(input.varint32().ok()?)?
        } else {
            self.value.end
        };
        let key_start = offset + position(&input)?;
        input.bytes(non_shared as usize).ok()?;
        let value_end = value_start.checked_add(value_len)?;
        (value_end <= block.restarts).then_some(Entry {
            shared,
            key: key_start..key_start + non_shared,
            value: value_start..value_end,
            next: offset + position(&input)?,
        })
    }

    /// Whether a restart points to `offset`.
    fn is_restart(&self, block: &Block, offset: u32) -> bool {
        let (mut low, mut high) = (0, block.restart_count() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if block.restart(middle) < offset { low = middle + 1 } else { high = middle }
        }
        block.restart(low) == offset
    }
}

/// Compares internal keys in bytewise order; if they differ within both user keys, says where.
#[inline]
fn compare_bytewise(a: &[u8], b: &[u8]) -> (Ordering, Option<usize>) {
    let (a_user, b_user) = (key::user_key(a), key::user_key(b));
    let common = common_prefix(a_user, b_user);
    match (a_user.get(common), b_user.get(common)) {
        (Some(x), Some(y)) => (x.cmp(y), Some(common)),
        (None, None) => (key::trailer(b).cmp(&key::trailer(a)), None),
        (x, y) => (x.is_some().cmp(&y.is_some()), None),
    }
}

/// Where an internal key that begins with the first `at` bytes of `target` and goes on with `suffix` is smaller than it
/// within both user keys, if it is.
#[inline]
fn smaller_behind(suffix: &[u8], target: &[u8], at: usize) -> Option<usize> {
    let (user_suffix, _) = suffix.split_last_chunk::<{ key::TRAILER_BYTES }>()?;
    let rest = target.get(at..)?;
    let first = user_suffix.first()?.cmp(rest.first()?);
    if first.is_ne() {
        return first.is_lt().then_some(at);
    }
    let common = common_prefix(user_suffix, rest);
    (user_suffix.get(common)? < rest.get(common)?).then_some(at + common)
}

/// The place behind the varint at `at`, if it ends within the bytes.
#[inline]
fn skip_varint(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    if let Some(word) = rest.first_chunk::<8>() {
        // The highest bit is clear in the last byte only.
        let ends = !u64::from_le_bytes(*word) & 0x8080_8080_8080_8080;
        if ends != 0 {
            return Some(at + (ends.trailing_zeros() / 8) as usize + 1);
        }
    }
    let length = rest.iter().take(10).position(|b| *b < 0x80)?;
    Some(at + length + 1)
}

/// The three lengths before an entry, when one of them takes more than a byte.
fn long_lengths(rest: &[u8]) -> Option<(u32, u32, u32, u32)> {
    let mut input = Decoder::new(rest);
    let (shared, non_shared, value_len) =
        (input.varint32().ok()?, input.varint32().ok()?, input.varint32().ok()?);
    Some((shared, non_shared, value_len, u32::try_from(rest.len() - input.rest().len()).ok()?))
}

#[cold]
fn bad_entry(offset: u32) -> Error {
    Error::corruption(format!("bad entry at byte {offset} of a block"))
}
