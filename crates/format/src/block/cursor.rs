//! Reads key/value blocks, forwards and backwards.
//!
//! A cursor does not own its block: every call names the block, so that one cursor (and its
//! buffers) serves block after block. A call with another block than the one in which the cursor
//! was positioned gives wrong entries or `Corruption`: call `reset` first.
//!
//! Invariants
//!  1. Valid: `key` is the whole key of the entry at `entry`, `value` its value's range in the
//!     block's bytes, `next` the offset behind it.
//!  2. Moving one entry forward allocates nothing once `key` has grown to the longest key.
//!  3. `before` holds the places of one restart interval's entries up to `end`: a backward scan
//!     parses each entry once, and builds a key from its successor's key and its own bytes.
//!  4. In a block with a common prefix, `shared` of a restart is the length of the prefix: before
//!     it is parsed, `key` begins with the prefix.

mod ahead;
mod compare;
mod lengths;
mod parse;

use super::Block;
use crate::key::{self, InternalKeyComparator};
use compare::{compare_bytewise, compare_prefix, smaller_behind};
use esker_base::Result;
use esker_base::coding::Decoder;
use esker_base::comparator::KeyOrder;
use std::cmp::Ordering;
use std::ops::Range;

/// The shape of a block's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryShape {
    /// `shared | non_shared | value_len | key | value`: nearly all blocks.
    KeyValue,
    /// `shared | non_shared | key | value`, a delta-coded handle: index blocks since version 4.
    DeltaIndex {
        /// Whether the first key of the block follows the handle.
        with_first_key: bool,
        /// Whether a difference of 0 precedes a whole handle: since format version 8.
        escapes: bool,
    },
}

/// The offset of a cursor without an entry.
const NOWHERE: u32 = u32::MAX;

/// A place in a block.
#[derive(Clone, Debug)]
pub struct BlockCursor {
    shape: EntryShape,
    key: Vec<u8>,
    entry: u32,
    next: u32,
    shared: u32,
    value: Range<u32>,
    before: Before,
}

/// Entries already parsed for a backward scan: from a restart up to offset `end`, exclusive.
#[derive(Clone, Debug, Default)]
struct Before {
    entries: Vec<PendingEntry>,
    end: u32,
    /// The end of the last separate value.
    value_end: u32,
    /// The restart with which they begin.
    restart: u32,
}

/// An entry whose ends its successor gives. Its value ends where the successor begins,
/// and its key where its value begins. With separate values, its value ends where the successor's
/// value begins, and its key where the successor begins.
#[derive(Clone, Copy, Debug)]
struct PendingEntry {
    entry: u32,
    shared: u32,
    /// Offset of the part of the key that is not shared.
    key: u32,
    /// Offset of the value.
    value: u32,
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
    /// A cursor for blocks of the common shape, without a position.
    pub fn new() -> BlockCursor {
        BlockCursor::with_buffer(EntryShape::KeyValue, Vec::new())
    }

    /// A cursor for blocks of this shape, with the key buffer of an earlier cursor.
    #[inline]
    pub fn with_buffer(shape: EntryShape, key: Vec<u8>) -> BlockCursor {
        BlockCursor { shape, key, entry: NOWHERE, next: 0, shared: 0, value: 0..0, before: Before::default() }
    }

    /// The key buffer, for the next cursor.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.key
    }

    /// Removes the position, ready for another block.
    #[inline]
    pub fn reset(&mut self) {
        self.entry = NOWHERE;
        self.before.entries.clear();
        self.before.end = NOWHERE;
    }

    /// Moves to the entry of `other`, a cursor over the same block.
    pub(crate) fn stand_as(&mut self, other: &BlockCursor) {
        self.reset();
        self.key.clone_from(&other.key);
        (self.entry, self.next, self.shared) = (other.entry, other.next, other.shared);
        self.value = other.value.clone();
    }

    /// Whether the cursor is on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.entry != NOWHERE
    }

    /// Whether the cursor is on the first entry.
    #[inline]
    pub fn is_first(&self) -> bool {
        // Only the first entry has that many bytes before it that belong to no entry: none, or the
        // block's prefix. All others lie behind the keys with which they share bytes.
        self.entry == self.shared
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

    /// The range of the value in the block's bytes.
    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        self.value.start as usize..self.value.end as usize
    }

    /// The range of the value as blocks store it.
    pub(super) fn stored_value(&self) -> Range<u32> {
        self.value.clone()
    }

    /// Number of bytes that this entry shares with the key before it, as stored. REQUIRES: the
    /// cursor is valid.
    #[inline]
    pub(crate) fn stored_shared(&self, block: &Block) -> u32 {
        if block.entries_start == 0 || self.shared == 0 { self.shared } else { self.read_shared(block) }
    }

    #[inline(never)]
    fn read_shared(&self, block: &Block) -> u32 {
        let stored = block.entries().get(self.entry as usize..).unwrap_or_default();
        Decoder::new(stored).varint32().unwrap_or(0)
    }

    /// Moves to the first entry.
    /// # Errors
    /// `Corruption`; the cursor is then invalid, as after every error below.
    #[inline]
    pub fn seek_to_first(&mut self, block: &Block) -> Result<()> {
        self.move_to(block, block.entries_start)
    }

    /// Moves to the last entry.
    /// # Errors
    /// `Corruption`.
    pub fn seek_to_last(&mut self, block: &Block) -> Result<()> {
        self.begin_key(block);
        self.shared = block.entries_start;
        self.entry = NOWHERE;
        // Only in an empty block, or a damaged one, the last restart has no entry behind it.
        self.parse_interval(block, block.restart_count() - 1, block.entries_end)?;
        self.step_back(block)
    }

    /// Moves to the first entry whose key is not `before`. Keys that are must precede all others.
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

    /// Moves to the last entry whose key is `not_after`; such keys precede all others.
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

    /// The last restart of `within` (first, last) whose key is `before`, or its first restart.
    #[inline]
    pub(crate) fn search_restarts(
        &mut self,
        block: &Block,
        within: (u32, u32),
        before: &mut impl FnMut(&[u8]) -> bool,
    ) -> Result<u32> {
        if block.entries_start > 0 {
            let (mut key, prefix) = (Vec::new(), block.key_prefix());
            return self.search_stored(block, within, &mut |stored| {
                key.clear();
                key.extend_from_slice(prefix);
                key.extend_from_slice(stored);
                before(&key)
            });
        }
        self.search_stored(block, within, before)
    }

    /// As `search_restarts`; `before` gets keys as they are stored, without the block's prefix.
    #[inline]
    fn search_stored(
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
                    return Err(block.bad_entry(block.restart(middle)));
                }
            }
        }
        Ok(low)
    }

    /// The key of a restart as it is stored, without the block's prefix. Does not read its value.
    #[inline]
    pub(crate) fn restart_key<'b>(&self, block: &'b Block, restart: u32) -> Option<&'b [u8]> {
        let entries = block.entries();
        let rest = entries.get(block.restart(restart) as usize..)?;
        let has_value_len = self.shape == EntryShape::KeyValue;
        if block.is_plain
            && let [0, length @ 0..0x80, value_len, ..] = *rest
            && (!has_value_len || value_len < 0x80)
        {
            let start = if has_value_len { 3 } else { 2 };
            return rest.get(start..start + usize::from(length));
        }
        let entry = self.parse(block, block.restart(restart))?;
        if entry.shared != block.entries_start || !block.is_restart_intact(restart) {
            return None;
        }
        entries.get(entry.key.start as usize..entry.key.end as usize)
    }

    /// Moves to the first entry at or after the internal key `target`.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn seek(&mut self, block: &Block, target: &[u8], icmp: &InternalKeyComparator) -> Result<()> {
        let restart = self.restart_for(block, target, icmp)?;
        self.seek_from(block, restart, target, icmp)
    }

    /// The restart from which to search `target`: the last one before it, or the first.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn restart_for(&mut self, block: &Block, target: &[u8], icmp: &InternalKeyComparator) -> Result<u32> {
        self.restart_behind(block, 0, target, icmp)
    }

    /// [`restart_for`](Self::restart_for) for a target at or after restart `low` of the block.
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
                let target = match block.entries_start {
                    0 => target,
                    length => match compare_prefix(block.key_prefix(), target) {
                        Ordering::Equal => target.get(length as usize..).unwrap_or_default(),
                        Ordering::Less => return Ok(low),
                        Ordering::Greater => return Ok(within.1),
                    },
                };
                self.search_stored(block, within, &mut |k| compare_bytewise(k, target).0.is_lt())
            }
            _ => self.search_restarts(block, within, &mut |k| icmp.compare(k, target).is_lt()),
        }
    }

    /// [`seek`](Self::seek) from a restart that [`restart_for`](Self::restart_for) returned.
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

    /// [`seek_from`](Self::seek_from) for a later target than before: steps on if that is shorter.
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

    /// Moves forward to the first entry at or after the internal key `target`. Entries before the
    /// current one are before the target.
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

    /// Moves to the next entry that is not clearly smaller than the user key `target`; invalid if
    /// there is none. The current key is smaller at byte `at`, which both user keys have.
    ///
    /// An entry that shares more than `at` bytes with its predecessor is smaller at the same byte.
    /// An entry that shares exactly `at` bytes is compared from there. An entry that shares fewer
    /// is greater. Only the key of the entry that ends the search is built.
    #[inline]
    fn skip_smaller(&mut self, block: &Block, target: &[u8], mut at: usize) -> Result<()> {
        let entries = block.entries();
        let mut key_len = self.key.len();
        while self.next < block.entries_end {
            let here = self.next;
            let entry = self.parse(block, here).filter(|entry| entry.shared as usize <= key_len);
            let Some(entry) = entry else {
                self.entry = NOWHERE;
                return Err(block.bad_entry(here));
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

    /// Moves to the next entry; invalid behind the last.
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

    /// Moves to the previous entry; invalid before the first.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn prev(&mut self, block: &Block) -> Result<()> {
        let here = self.entry;
        if self.before.end != here || self.before.entries.is_empty() {
            if block.starts_at(here) || here == NOWHERE {
                self.entry = NOWHERE;
                return Ok(());
            }
            self.parse_interval_before(block, here)?;
        }
        self.step_back(block)
    }

    /// Fills `before` with the entries from the last restart before `here` up to it.
    fn parse_interval_before(&mut self, block: &Block, here: u32) -> Result<()> {
        // Usually the restart interval before the current one.
        let known = self.before.restart;
        let restart = if known > 0 && known < block.restart_count() && block.restart(known) == here {
            known - 1
        } else {
            self.restart_before(block, here).unwrap_or(0)
        };
        self.parse_interval(block, restart, here)
    }

    /// Fills `before` with the entries from a restart up to offset `end`, exclusive.
    fn parse_interval(&mut self, block: &Block, restart: u32, end: u32) -> Result<()> {
        let start = block.restart(restart);
        self.before.entries.clear();
        (self.before.end, self.before.restart) = (end, restart);
        let parsed = if self.shape == EntryShape::KeyValue && block.is_plain {
            self.before.value_end = end;
            self.parse_short_lengths(block, start, end)
        } else {
            Ok((start, block.entries_start))
        };
        parsed.and_then(|(at, key_len)| self.parse_rest(block, at, end, key_len)).map_err(|at| {
            self.reset();
            block.bad_entry(at)
        })
    }

    /// Parses entries from `at` on, up to one with lengths of more than a byte. Returns its offset
    /// and the length of the key before it. A malformed entry is an error, with its offset.
    ///
    /// Lengths stay in registers: a load that spans several recent smaller stores would stall.
    #[inline]
    fn parse_short_lengths(
        &mut self,
        block: &Block,
        mut at: u32,
        end: u32,
    ) -> std::result::Result<(u32, u32), u32> {
        let entries = block.entries();
        let mut key_len = 0;
        while at < end {
            let Some(&[shared, non_shared, value_len]) =
                entries.get(at as usize..).and_then(<[u8]>::first_chunk::<3>)
            else {
                return Err(at);
            };
            if (shared | non_shared | value_len) >= 0x80 {
                break;
            }
            let (shared, key) = (u32::from(shared), at + 3);
            let value = key + u32::from(non_shared);
            let next = value + u32::from(value_len);
            if shared > key_len || next > end {
                return Err(at);
            }
            self.before.entries.push(PendingEntry { entry: at, shared, key, value });
            key_len = shared + u32::from(non_shared);
            at = next;
        }
        Ok((at, key_len))
    }

    /// As `parse_short_lengths`, for entries of all kinds, to the end.
    fn parse_rest(
        &mut self,
        block: &Block,
        mut at: u32,
        end: u32,
        mut key_len: u32,
    ) -> std::result::Result<(), u32> {
        // With separate values, `parse` uses these lengths.
        if let Some(values) = block.values {
            self.value = values..values;
        }
        while at < end {
            let entry = self.parse(block, at).filter(|entry| entry.shared <= key_len).ok_or(at)?;
            let (shared, key, value) = (entry.shared, entry.key.start, entry.value.start);
            key_len = shared + (entry.key.end - key);
            self.before.value_end = entry.value.end;
            if block.values.is_some() {
                self.value = entry.value;
            }
            self.before.entries.push(PendingEntry { entry: at, shared, key, value });
            at = entry.next;
        }
        if at == end { Ok(()) } else { Err(end) }
    }

    /// Moves to the last entry of `before`, which lies before the current one. If the cursor is
    /// invalid, `key` and `shared` are empty.
    #[inline]
    fn step_back(&mut self, block: &Block) -> Result<()> {
        let Some(passed) = self.before.entries.pop() else {
            self.reset();
            return Ok(());
        };
        let (next, value_end) = (self.before.end, self.before.value_end);
        let (key_end, value_end_before) = match block.is_plain {
            true => (passed.value, passed.entry),
            false => self.check_again(block, passed, (next, value_end), self.shared < passed.shared)?,
        };
        // The entry behind this one shares `shared` bytes of its key.
        let (known, shared) = (self.shared, passed.shared);
        self.key.truncate(known as usize);
        if known < shared {
            self.fetch_shared(block, known, shared);
        }
        let from = passed.key + known.saturating_sub(shared);
        let suffix = block.entries().get(from as usize..key_end as usize);
        self.key.extend_from_slice(suffix.unwrap_or_default());
        self.before.end = passed.entry;
        self.before.value_end = value_end_before;
        self.entry = passed.entry;
        self.next = next;
        self.shared = shared;
        self.value = passed.value..value_end;
        Ok(())
    }

    /// Parses an entry of `before` again, in a block with separate values or long lengths. The
    /// entry ends at `next` and its value at `value_end`. Returns the end of its key and the end of
    /// the value before it. If it `borrows`, its key has bytes of earlier entries.
    #[inline(never)]
    fn check_again(
        &mut self,
        block: &Block,
        passed: PendingEntry,
        (next, value_end): (u32, u32),
        borrows: bool,
    ) -> Result<(u32, u32)> {
        let mut is_intact = block.is_intact(passed.entry, next, passed.value..value_end);
        let mut behind = passed;
        for before in self.before.entries.iter().rev().take_while(|_| borrows) {
            is_intact &= block.is_intact(before.entry, behind.entry, before.value..behind.value);
            behind = *before;
        }
        if !is_intact {
            self.reset();
            return Err(block.bad_entry(passed.entry));
        }
        Ok(if block.values.is_some() { (next, passed.value) } else { (passed.value, passed.entry) })
    }

    /// Appends bytes `from..until` of the last key in `before` to `key`, whose length is `from`.
    /// The entry behind has the same bytes.
    #[inline(never)]
    fn fetch_shared(&mut self, block: &Block, from: u32, until: u32) {
        // `parse_interval` checked that each key is at least as long as the next one's shared part,
        // so all these bytes exist.
        let bytes = |entry: &PendingEntry, start: u32, end: u32| {
            let stored = (entry.key + (start - entry.shared)) as usize;
            block.entries().get(stored..stored + (end - start) as usize).unwrap_or_default()
        };
        let mut end = until;
        for entry in self.before.entries.iter().rev() {
            if entry.shared >= end {
                continue;
            }
            if entry.shared <= from && end == until {
                // Usually one entry has all of these bytes.
                self.key.extend_from_slice(bytes(entry, from, until));
                return;
            }
            let start = entry.shared.max(from);
            self.key.resize(until as usize, 0);
            if let Some(place) = self.key.get_mut(start as usize..end as usize) {
                place.copy_from_slice(bytes(entry, start, end));
            }
            end = start;
            if end <= from {
                return;
            }
        }
    }

    /// Moves to the entry of a restart.
    #[inline]
    pub(crate) fn seek_to_restart(&mut self, block: &Block, restart: u32) -> Result<()> {
        if block.is_plain {
            self.key.clear();
            return self.move_to_restart(block, block.restart(restart), 0..0);
        }
        self.seek_to_restart_seldom(block, restart)
    }

    #[inline(never)]
    fn seek_to_restart_seldom(&mut self, block: &Block, restart: u32) -> Result<()> {
        let offset = block.restart(restart);
        if !block.is_restart_intact(restart) {
            self.reset();
            return Err(block.bad_entry(offset));
        }
        self.move_to(block, offset)
    }

    /// The last restart before the entry at offset `here`, if that is not the first entry.
    pub(crate) fn restart_before(&self, block: &Block, here: u32) -> Option<u32> {
        let (mut low, mut high) = (0, block.restart_count() - 1);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if block.restart(middle) < here { low = middle } else { high = middle - 1 }
        }
        (!block.starts_at(here)).then_some(low)
    }

    /// The offset of the current entry, if the cursor has one.
    #[inline]
    pub(crate) fn entry_offset(&self) -> Option<u32> {
        (self.entry != NOWHERE).then_some(self.entry)
    }

    /// The offset of the next entry, if there is one.
    #[inline]
    pub(crate) fn next_offset(&self, block: &Block) -> Option<u32> {
        (self.entry != NOWHERE && self.next < block.entries_end).then_some(self.next)
    }

    /// Moves to the entry at `offset`, a restart. If the entries end there, removes the position.
    #[inline]
    fn move_to(&mut self, block: &Block, offset: u32) -> Result<()> {
        self.begin_key(block);
        self.move_to_restart(block, offset, block.values.map_or(0..0, |v| v..v))
    }

    /// Makes `key` the bytes that every key of the block has.
    #[inline]
    fn begin_key(&mut self, block: &Block) {
        self.key.clear();
        if block.entries_start > 0 {
            self.key.extend_from_slice(block.key_prefix());
        }
    }

    /// As `move_to`. `behind` is an empty range at the end of the value before the entry. `key` has
    /// the block's prefix.
    #[inline]
    fn move_to_restart(&mut self, block: &Block, offset: u32, behind: Range<u32>) -> Result<()> {
        self.next = offset;
        self.value = behind;
        self.entry = NOWHERE;
        if offset < block.entries_end { self.step(block) } else { Ok(()) }
    }

    /// Reads the entry at `next`.
    #[inline]
    fn step(&mut self, block: &Block) -> Result<()> {
        let at = self.next;
        let Some(entry) = self.parse(block, at) else {
            self.entry = NOWHERE;
            return Err(block.bad_entry(at));
        };
        self.take(block, at, entry)
    }

    /// Makes `entry`, at offset `at`, the current one. `key` keeps the bytes that the entry shares
    /// with its predecessor.
    #[inline]
    fn take(&mut self, block: &Block, at: u32, entry: Entry) -> Result<()> {
        let suffix = block.entries().get(entry.key.start as usize..entry.key.end as usize);
        let (Some(suffix), true) = (suffix, entry.shared as usize <= self.key.len()) else {
            self.entry = NOWHERE;
            return Err(block.bad_entry(at));
        };
        self.key.truncate(entry.shared as usize);
        self.key.extend_from_slice(suffix);
        self.entry = at;
        self.next = entry.next;
        self.shared = entry.shared;
        self.value = entry.value;
        Ok(())
    }
}
