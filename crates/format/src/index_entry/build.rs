//! Builds an index block.
//!
//! In: data blocks, in order. Out: the index block. The builder knows only after the last data
//! block whether keys can be bare user keys.
//! Source: RocksDB `table/block_based/index_builder.{h,cc}` (`ShortenedIndexBuilder`).

use super::IndexShape;
use crate::block::{BlockBuilder, EntryShape};
use crate::handle::BlockHandle;
use crate::key::{self, InternalKeyComparator};
use crate::trailer::TRAILER_BYTES;
use esker_base::coding::{put_length_prefixed, put_varint64, put_varsignedint64, zigzag};
use esker_base::{SequenceNumber, ValueType};

/// The most bytes of an entry beside its keys: four lengths, a handle and a restart point.
const MAX_ENTRY_OVERHEAD: usize = 4 * 5 + 20 + 4;

/// Collects the index of a table; the form of its keys is known only at the end.
#[derive(Debug)]
pub struct IndexBuilder {
    restart_interval: usize,
    with_first_key: bool,
    delta_values: bool,
    /// Whether the values are those of format version 8.
    value_escapes: bool,
    /// Whether the block stores the common prefix of its user keys once.
    key_prefix: bool,
    /// Separators as internal keys, back to back, each followed by the first key; `entries` has the
    /// boundaries.
    keys: Vec<u8>,
    entries: Vec<IndexEntry>,
    needs_sequence: bool,
}

#[derive(Debug)]
struct IndexEntry {
    separator_end: usize,
    first_key_end: usize,
    handle: BlockHandle,
    /// Whether other bytes lie between this block and the previous one.
    follows_gap: bool,
}

/// Selects the index keys that are shortened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortening {
    /// The separators between blocks.
    pub separators: bool,
    /// The key behind the last block.
    pub successor: bool,
}

/// A data block as an index needs it.
#[derive(Clone, Copy, Debug)]
pub struct DataBlockPlace<'a> {
    /// Its first internal key; used if the index has first keys.
    pub first: &'a [u8],
    /// Its last internal key.
    pub last: &'a [u8],
    /// The first internal key of the next block, if there is one.
    pub next: Option<&'a [u8]>,
    /// The place of the block in the file.
    pub handle: BlockHandle,
    /// Whether there is padding before it.
    pub follows_gap: bool,
}

impl DataBlockPlace<'_> {
    /// Whether its last user key continues in the next block.
    pub(super) fn shares_user_key(&self, icmp: &InternalKeyComparator) -> bool {
        self.next.is_some_and(|next| icmp.same_user_key(key::user_key(self.last), key::user_key(next)))
    }

    /// Appends the separator, an internal key.
    pub(super) fn append_separator(
        &self,
        out: &mut Vec<u8>,
        shortening: Shortening,
        icmp: &InternalKeyComparator,
    ) {
        let last_user = key::user_key(self.last);
        let mut separator = last_user.to_vec();
        match self.next.map(key::user_key) {
            Some(next_user) if shortening.separators && !icmp.same_user_key(last_user, next_user) => {
                icmp.user_comparator().find_shortest_separator(&mut separator, next_user);
            }
            None if shortening.successor => icmp.user_comparator().find_short_successor(&mut separator),
            _ => {}
        }
        // If the comparator shortened nothing, it is not called again.
        let is_shorter = separator.len() <= last_user.len()
            && separator != last_user
            && icmp.compare_user_keys(last_user, &separator).is_lt();
        if is_shorter {
            key::append_internal_key(out, &separator, SequenceNumber::MAX, ValueType::SEPARATOR);
        } else {
            out.extend_from_slice(self.last);
        }
    }
}

impl IndexBuilder {
    /// An index with a full key every `restart_interval` entries.
    pub fn new(restart_interval: usize, delta_values: bool, with_first_key: bool) -> IndexBuilder {
        IndexBuilder {
            restart_interval,
            with_first_key,
            delta_values,
            value_escapes: false,
            key_prefix: false,
            keys: Vec::new(),
            entries: Vec::new(),
            needs_sequence: false,
        }
    }

    /// Writes the values of format version 8, and with `key_prefix` the common prefix of all user
    /// keys once. The last key is not shortened then: a short successor would have no common prefix
    /// with the others.
    #[must_use]
    pub fn in_format_8(mut self, key_prefix: bool) -> IndexBuilder {
        (self.value_escapes, self.key_prefix) = (true, key_prefix);
        self
    }

    /// Adds a data block.
    pub fn add(&mut self, place: &DataBlockPlace<'_>, shortening: Shortening, icmp: &InternalKeyComparator) {
        self.needs_sequence |= place.shares_user_key(icmp);
        let shortening = Shortening { successor: shortening.successor && !self.key_prefix, ..shortening };
        place.append_separator(&mut self.keys, shortening, icmp);
        let separator_end = self.keys.len();
        if self.with_first_key {
            self.keys.extend_from_slice(place.first);
        }
        self.entries.push(IndexEntry {
            separator_end,
            first_key_end: self.keys.len(),
            handle: place.handle,
            follows_gap: place.follows_gap,
        });
    }

    /// Adds a block of any kind with a known separator, an internal key. Not for indexes
    /// with first keys.
    pub fn add_separator(&mut self, separator: &[u8], handle: BlockHandle) {
        debug_assert!(!self.with_first_key);
        self.keys.extend_from_slice(separator);
        let end = self.keys.len();
        self.entries.push(IndexEntry { separator_end: end, first_key_end: end, handle, follows_gap: false });
    }

    /// Whether a user key spans two blocks, so that keys must be internal ones.
    pub fn needs_sequence(&self) -> bool {
        self.needs_sequence
    }

    /// Estimated bytes of the index block.
    pub fn size_estimate(&self) -> usize {
        self.keys.len() + 8 * self.entries.len() + 8
    }

    /// An upper bound of the bytes of the index block.
    pub fn max_block_bytes(&self) -> usize {
        self.keys.len().saturating_add(MAX_ENTRY_OVERHEAD * (self.entries.len() + 1))
    }

    /// The index block and the form of its entries. Keys are user keys if no user key spans two
    /// blocks and `allow_user_keys` is set.
    pub fn finish(&self, allow_user_keys: bool) -> (Vec<u8>, IndexShape) {
        let shape = IndexShape {
            key_is_user_key: allow_user_keys && !self.needs_sequence,
            value_is_delta_encoded: self.delta_values,
            with_first_key: self.with_first_key,
            value_escapes: self.delta_values && self.value_escapes,
        };
        let mut block = self.block_builder(shape.key_is_user_key);
        self.fill(&mut block, shape.key_is_user_key);
        block.finish();
        (block.into_contents(), shape)
    }

    /// A builder for its block.
    pub(super) fn block_builder(&self, key_is_user_key: bool) -> BlockBuilder {
        let block = BlockBuilder::new(self.restart_interval);
        if !self.key_prefix {
            return block;
        }
        let shape = if self.delta_values {
            EntryShape::DeltaIndex { with_first_key: self.with_first_key, escapes: self.value_escapes }
        } else {
            EntryShape::KeyValue
        };
        block.key_prefix(shape, key_is_user_key)
    }

    /// Puts all entries into `block`.
    pub(super) fn fill(&self, block: &mut BlockBuilder, key_is_user_key: bool) {
        let mut start = 0;
        let mut previous = BlockHandle::default();
        for entry in &self.entries {
            let separator = self.keys.get(start..entry.separator_end).unwrap_or_default();
            let first_key = self.keys.get(entry.separator_end..entry.first_key_end).unwrap_or_default();
            let separator = if key_is_user_key { key::user_key(separator) } else { separator };
            self.put_entry(block, separator, first_key, entry, previous);
            start = entry.first_key_end;
            previous = entry.handle;
        }
    }

    /// Puts the last entry into `block`, which has the earlier ones.
    pub(super) fn put_last(&self, block: &mut BlockBuilder, key_is_user_key: bool) {
        let Some((last, before)) = self.entries.split_last() else { return };
        let previous = before.last();
        let start = previous.map_or(0, |e| e.first_key_end);
        let separator = self.keys.get(start..last.separator_end).unwrap_or_default();
        let separator = if key_is_user_key { key::user_key(separator) } else { separator };
        self.put_entry(block, separator, &[], last, previous.map_or(BlockHandle::default(), |e| e.handle));
    }

    /// The last separator, an internal key; empty if there is none.
    pub(super) fn last_separator(&self) -> &[u8] {
        let Some((last, before)) = self.entries.split_last() else { return &[] };
        let start = before.last().map_or(0, |e| e.first_key_end);
        self.keys.get(start..last.separator_end).unwrap_or_default()
    }

    fn put_entry(
        &self,
        block: &mut BlockBuilder,
        separator: &[u8],
        first_key: &[u8],
        entry: &IndexEntry,
        previous: BlockHandle,
    ) {
        let in_full = entry.follows_gap && !self.value_escapes;
        if self.delta_values {
            block.add_unsized(separator, in_full, |shared, out| {
                let delta_base = (shared > 0).then_some(previous);
                self.put_value(out, entry.handle, delta_base, first_key);
            });
        } else {
            let mut value = Vec::new();
            self.put_value(&mut value, entry.handle, None, first_key);
            if in_full {
                block.add_in_full(separator, &value);
            } else {
                block.add(separator, &value);
            }
        }
    }

    fn put_value(&self, out: &mut Vec<u8>, handle: BlockHandle, base: Option<BlockHandle>, first_key: &[u8]) {
        match base {
            Some(base) if self.value_escapes => {
                if base.end() == Some(handle.offset) {
                    put_varint64(out, zigzag(handle.size.wrapping_sub(base.size).cast_signed()) + 1);
                } else {
                    put_varint64(out, 0);
                    handle.encode(out);
                }
            }
            Some(base) => {
                debug_assert_eq!(handle.offset, base.offset + base.size + TRAILER_BYTES as u64);
                put_varsignedint64(out, handle.size.wrapping_sub(base.size).cast_signed());
            }
            None => handle.encode(out),
        }
        if self.with_first_key {
            put_length_prefixed(out, first_key);
        }
    }
}
