//! Index blocks: where the data blocks of a table are, and which keys they hold.
//!
//! In: an index block, and three switches from the table's properties. Out: [`IndexCursor`], and [`IndexBuilder`].
//! Source: RocksDB `table/block_based/index_builder.cc`, `table/format.cc` (IndexValue). Page: `docs/format/index.md`.
//!
//!   key:   a separator s, last key of the block <= s < first key of the next: internal key, or bare user key
//!   value: offset varint64 | size varint64              full
//!          zigzag varint64 (size - previous size)       delta-encoded and key sharing bytes with the one before;
//!                                                       offset = end of the previous block with its trailer
//!          then, with first keys: length varint32 | first internal key of the block

use crate::block::{Block, BlockBuilder, BlockCursor, EntryShape};
use crate::handle::BlockHandle;
use crate::key::{self, InternalKeyComparator};
use crate::trailer::TRAILER_BYTES;
use esker_base::coding::{Decoder, put_length_prefixed, put_varsignedint64};
use esker_base::comparator::KeyOrder;
use esker_base::{Error, Result, SequenceNumber, ValueType};

/// How the entries of an index look; the same for all index blocks of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexShape {
    /// Keys are user keys; else internal keys.
    pub key_is_user_key: bool,
    /// Values are delta-encoded.
    pub value_is_delta_encoded: bool,
    /// Each value carries the first key of its block.
    pub with_first_key: bool,
}

impl IndexShape {
    fn entry_shape(self) -> EntryShape {
        if self.value_is_delta_encoded {
            EntryShape::DeltaIndex { with_first_key: self.with_first_key }
        } else {
            EntryShape::KeyValue
        }
    }
}

/// Makes searches of a large index block fast, if its user keys are in bytewise order. Costs 8 bytes for each restart.
pub fn prepare_for_search(block: &mut Block, shape: IndexShape, icmp: &InternalKeyComparator) {
    if icmp.order() == KeyOrder::Bytewise {
        let is_user_key = shape.key_is_user_key;
        block.prepare_for_search(shape.entry_shape(), |k| if is_user_key { k } else { key::user_key(k) });
    }
}

/// A place in an index block: a separator and the handle of its block.
#[derive(Debug)]
pub struct IndexCursor {
    shape: IndexShape,
    cursor: BlockCursor,
    handle: BlockHandle,
}

impl IndexCursor {
    /// Standing nowhere.
    pub fn new(shape: IndexShape) -> IndexCursor {
        IndexCursor::with_buffer(shape, Vec::new())
    }

    /// Standing nowhere, with a key buffer from elsewhere.
    #[inline]
    pub fn with_buffer(shape: IndexShape, buffer: Vec<u8>) -> IndexCursor {
        IndexCursor {
            shape,
            cursor: BlockCursor::with_buffer(shape.entry_shape(), buffer),
            handle: BlockHandle::default(),
        }
    }

    /// The key buffer, for the next cursor.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.cursor.into_buffer()
    }

    /// Stands nowhere, ready for another block.
    pub fn reset(&mut self) {
        self.cursor.reset();
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The separator here: a user key or an internal key, as the shape says.
    #[inline]
    pub fn separator(&self) -> &[u8] {
        self.cursor.key()
    }

    /// The user key of the separator.
    #[inline]
    pub fn separator_user_key(&self) -> &[u8] {
        if self.shape.key_is_user_key { self.cursor.key() } else { key::user_key(self.cursor.key()) }
    }

    /// The block that this entry is about.
    #[inline]
    pub fn handle(&self) -> BlockHandle {
        self.handle
    }

    /// The first internal key of the block, if the index has first keys.
    /// # Errors
    /// `Corruption` if the value is malformed.
    pub fn first_key<'b>(&self, block: &'b Block) -> Result<Option<&'b [u8]>> {
        if !self.shape.with_first_key {
            return Ok(None);
        }
        let mut input = Decoder::new(self.cursor.value(block));
        // Past the handle, which is known; as a difference it would mean something to the entry before only.
        if self.is_delta() {
            input.varsignedint64()?;
        } else {
            BlockHandle::decode(&mut input)?;
        }
        Ok(Some(input.length_prefixed()?))
    }

    /// To the first entry.
    /// # Errors
    /// `Corruption`; it stands nowhere then. So for all that follow.
    pub fn seek_to_first(&mut self, block: &Block) -> Result<()> {
        self.cursor.seek_to_first(block)?;
        self.read_handle(block)
    }

    /// To the last entry.
    /// # Errors
    /// `Corruption`.
    pub fn seek_to_last(&mut self, block: &Block) -> Result<()> {
        self.walk(block, block.restart_count() - 1, |_| true)
    }

    /// To the first entry whose separator is at or after the internal key `target`: the block that holds the first
    /// entry at or after `target`, unless that is the first entry of the next block.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn seek(&mut self, block: &Block, target: &[u8], icmp: &InternalKeyComparator) -> Result<()> {
        let within = block.narrow(key::user_key(target));
        if self.shape.key_is_user_key {
            let target = key::user_key(target);
            self.seek_by(block, within, |k| icmp.compare_user_keys(k, target).is_lt())
        } else {
            self.seek_by(block, within, |k| icmp.compare(k, target).is_lt())
        }
    }

    #[inline]
    fn seek_by(
        &mut self,
        block: &Block,
        within: (u32, u32),
        mut before: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let restart = self.cursor.search_restarts(block, within, &mut before)?;
        self.cursor.seek_to_restart(block, restart)?;
        self.read_handle(block)?;
        while self.cursor.valid() && before(self.cursor.key()) {
            self.next(block)?;
        }
        Ok(())
    }

    /// One entry on; nowhere behind the last.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn next(&mut self, block: &Block) -> Result<()> {
        self.cursor.next(block)?;
        self.read_handle(block)
    }

    /// One entry back; nowhere before the first.
    /// # Errors
    /// `Corruption`.
    pub fn prev(&mut self, block: &Block) -> Result<()> {
        let Some(here) = self.cursor.entry_offset() else { return Ok(()) };
        match self.cursor.restart_before(block, here) {
            // Handles are deltas from the restart on, so go there and walk.
            Some(restart) => self.walk(block, restart, |next| next < here),
            None => {
                self.cursor.reset();
                Ok(())
            }
        }
    }

    /// From `restart` on while there are entries and `goes_on(offset of the next one)`.
    fn walk(&mut self, block: &Block, restart: u32, goes_on: impl Fn(u32) -> bool) -> Result<()> {
        self.cursor.seek_to_restart(block, restart)?;
        self.read_handle(block)?;
        while let Some(next) = self.cursor.next_offset(block)
            && goes_on(next)
        {
            self.next(block)?;
        }
        Ok(())
    }

    /// Decodes the handle of the entry here, which may build upon the last one.
    #[inline]
    fn read_handle(&mut self, block: &Block) -> Result<()> {
        if !self.cursor.valid() {
            return Ok(());
        }
        let mut input = Decoder::new(self.cursor.value(block));
        match self.decode_handle(&mut input, self.handle) {
            Ok(handle) => {
                self.handle = handle;
                Ok(())
            }
            Err(e) => {
                self.cursor.reset();
                Err(e)
            }
        }
    }

    /// Whether the value here is a difference to the one before.
    #[inline]
    fn is_delta(&self) -> bool {
        self.shape.value_is_delta_encoded && self.cursor.shared() > 0
    }

    #[inline]
    fn decode_handle(&self, input: &mut Decoder<'_>, previous: BlockHandle) -> Result<BlockHandle> {
        if !self.is_delta() {
            return BlockHandle::decode(input);
        }
        let delta = input.varsignedint64()?;
        match (previous.end(), previous.size.checked_add_signed(delta)) {
            (Some(offset), Some(size)) => Ok(BlockHandle { offset, size }),
            _ => Err(Error::corruption("an index entry's size delta leads out of the file")),
        }
    }
}

/// Collects the index of a table; the form of its keys is known only at the end.
#[derive(Debug)]
pub struct IndexBuilder {
    restart_interval: usize,
    with_first_key: bool,
    delta_values: bool,
    /// Separators as internal keys, one behind the other, then first keys; cut by `entries`.
    keys: Vec<u8>,
    entries: Vec<IndexEntry>,
    needs_sequence: bool,
}

#[derive(Debug)]
struct IndexEntry {
    separator_end: usize,
    first_key_end: usize,
    handle: BlockHandle,
}

/// How far separators are shortened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortening {
    /// Between blocks.
    pub separators: bool,
    /// Behind the last block.
    pub successor: bool,
}

impl IndexBuilder {
    /// An index with a full key every `restart_interval` entries.
    pub fn new(restart_interval: usize, delta_values: bool, with_first_key: bool) -> IndexBuilder {
        IndexBuilder {
            restart_interval,
            with_first_key,
            delta_values,
            keys: Vec::new(),
            entries: Vec::new(),
            needs_sequence: false,
        }
    }

    /// Adds a block. `last` is its last internal key, `first` its first one (used if the index has first keys), `next`
    /// the first one of the following block, if any.
    pub fn add(
        &mut self,
        first: &[u8],
        last: &[u8],
        next: Option<&[u8]>,
        handle: BlockHandle,
        shortening: Shortening,
        icmp: &InternalKeyComparator,
    ) {
        let last_user = key::user_key(last);
        let mut separator = last_user.to_vec();
        match next.map(key::user_key) {
            Some(next_user) if icmp.same_user_key(last_user, next_user) => self.needs_sequence = true,
            Some(next_user) if shortening.separators => {
                icmp.user_comparator().find_shortest_separator(&mut separator, next_user);
            }
            None if shortening.successor => icmp.user_comparator().find_short_successor(&mut separator),
            _ => {}
        }
        let is_shorter =
            separator.len() <= last_user.len() && icmp.compare_user_keys(last_user, &separator).is_lt();
        if is_shorter {
            let newest = SequenceNumber::MAX;
            key::append_internal_key(&mut self.keys, &separator, newest, ValueType::SEPARATOR);
        } else {
            self.keys.extend_from_slice(last);
        }
        let separator_end = self.keys.len();
        if self.with_first_key {
            self.keys.extend_from_slice(first);
        }
        self.entries.push(IndexEntry { separator_end, first_key_end: self.keys.len(), handle });
    }

    /// About how many bytes the index block will have.
    pub fn size_estimate(&self) -> usize {
        self.keys.len() + 8 * self.entries.len() + 8
    }

    /// The index block, and the form its entries took: user keys if no user key spans two blocks and
    /// `allow_user_keys`.
    pub fn finish(&self, allow_user_keys: bool) -> (Vec<u8>, IndexShape) {
        let shape = IndexShape {
            key_is_user_key: allow_user_keys && !self.needs_sequence,
            value_is_delta_encoded: self.delta_values,
            with_first_key: self.with_first_key,
        };
        let mut block = BlockBuilder::new(self.restart_interval);
        let mut start = 0;
        let mut previous = BlockHandle::default();
        let mut value = Vec::new();
        for entry in &self.entries {
            let separator = self.keys.get(start..entry.separator_end).unwrap_or_default();
            let first_key = self.keys.get(entry.separator_end..entry.first_key_end).unwrap_or_default();
            let separator = if shape.key_is_user_key { key::user_key(separator) } else { separator };
            if self.delta_values {
                block.add_unsized(separator, |shared, out| {
                    let delta_base = (shared > 0).then_some(previous);
                    self.put_value(out, entry.handle, delta_base, first_key);
                });
            } else {
                value.clear();
                self.put_value(&mut value, entry.handle, None, first_key);
                block.add(separator, &value);
            }
            start = entry.first_key_end;
            previous = entry.handle;
        }
        block.finish();
        (block.into_contents(), shape)
    }

    fn put_value(&self, out: &mut Vec<u8>, handle: BlockHandle, base: Option<BlockHandle>, first_key: &[u8]) {
        match base {
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

#[cfg(test)]
mod tests;
