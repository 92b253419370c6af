//! Index blocks: the places of a table's data blocks, and separators between their keys.
//!
//! In: an index block, and three switches from the table's properties. Out: [`IndexCursor`].
//! [`IndexBuilder`] and [`PartitionedIndexBuilder`] write them.
//! Source: RocksDB `table/block_based/index_builder.cc`, `table/format.cc` (IndexValue). Page:
//! `docs/format/index.md`.
//!
//! ```text
//! key:   a separator s, last key of the block <= s < first key of the next: internal key, or
//!        bare user key
//! value: offset varint64 | size varint64          full
//!        zigzag varint64 (size - previous size)   delta-encoded and key sharing bytes with the
//!                                                 last one; offset = end of the previous block
//!                                                 with its trailer
//!        the same + 1, or 0 and a full value      likewise, since format version 8
//!        then, with first keys: length varint32 | first internal key of the block
//! ```

mod build;
mod partitions;

pub use build::{DataBlockPlace, IndexBuilder, Shortening};
pub use partitions::PartitionedIndexBuilder;

use crate::block::{Block, BlockCursor, EntryShape};
use crate::handle::BlockHandle;
use crate::key::{self, InternalKeyComparator};
use esker_base::coding::{Decoder, from_zigzag};
use esker_base::comparator::KeyOrder;
use esker_base::{Error, Result};

/// The shape of an index's entries; the same for all index blocks of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexShape {
    /// Whether keys are user keys; otherwise they are internal keys.
    pub key_is_user_key: bool,
    /// Whether values are delta-encoded.
    pub value_is_delta_encoded: bool,
    /// Whether each value has the first key of its block.
    pub with_first_key: bool,
    /// Whether differences are stored plus 1, and 0 precedes a whole handle: since format version
    /// 8. Only with delta-encoded values.
    pub value_escapes: bool,
}

impl IndexShape {
    /// The shape of the entries in its blocks.
    pub fn entry_shape(self) -> EntryShape {
        if self.value_is_delta_encoded {
            EntryShape::DeltaIndex { with_first_key: self.with_first_key, escapes: self.value_escapes }
        } else {
            EntryShape::KeyValue
        }
    }
}

/// Makes searches of a large index block fast, if its user keys are in bytewise order. Costs 8
/// bytes for each restart.
pub fn prepare_for_search(block: &mut Block, shape: IndexShape, icmp: &InternalKeyComparator) {
    if icmp.order() == KeyOrder::Bytewise {
        let is_user_key = shape.key_is_user_key;
        block.prepare_for_search(shape.entry_shape(), |k| if is_user_key { k } else { key::user_key(k) });
    }
}

/// Checks that seeks in an index block find the same entries as a scan.
/// # Errors
/// `Corruption`.
pub fn check_restarts(block: &Block, shape: IndexShape) -> Result<()> {
    crate::block::check_restarts(block, shape.entry_shape())
}

/// A place in an index block: a separator and the handle of its block.
#[derive(Clone, Debug)]
pub struct IndexCursor {
    shape: IndexShape,
    cursor: BlockCursor,
    handle: BlockHandle,
    /// After a backward move, usually the restart of the current entry.
    restart: u32,
}

impl IndexCursor {
    /// A cursor without a position.
    pub fn new(shape: IndexShape) -> IndexCursor {
        IndexCursor::with_buffer(shape, Vec::new())
    }

    /// A cursor without a position, with the key buffer of an earlier cursor.
    #[inline]
    pub fn with_buffer(shape: IndexShape, buffer: Vec<u8>) -> IndexCursor {
        IndexCursor {
            shape,
            cursor: BlockCursor::with_buffer(shape.entry_shape(), buffer),
            handle: BlockHandle::default(),
            restart: 0,
        }
    }

    /// The key buffer, for the next cursor.
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        self.cursor.into_buffer()
    }

    /// Removes the position, ready for another block.
    pub fn reset(&mut self) {
        self.cursor.reset();
    }

    /// Moves to the entry of `other`, a cursor over the same block. Costs less than a step.
    pub fn stand_as(&mut self, other: &IndexCursor) {
        self.cursor.stand_as(&other.cursor);
        (self.handle, self.restart) = (other.handle, other.restart);
    }

    /// Whether the cursor is on an entry.
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

    /// The handle of the current entry's block.
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
        // Skips the handle, which is already known. A delta-encoded one could only be decoded with
        // the one before it.
        if !self.is_delta(block) || (input.varint64()? == 0 && self.shape.value_escapes) {
            BlockHandle::decode(&mut input)?;
        }
        Ok(Some(input.length_prefixed()?))
    }

    /// Moves to the first entry.
    /// # Errors
    /// `Corruption`; the cursor is then invalid, as after every error below.
    pub fn seek_to_first(&mut self, block: &Block) -> Result<()> {
        self.cursor.seek_to_first(block)?;
        self.read_handle(block)
    }

    /// Moves to the last entry.
    /// # Errors
    /// `Corruption`.
    pub fn seek_to_last(&mut self, block: &Block) -> Result<()> {
        self.walk(block, block.restart_count() - 1, |_| true)
    }

    /// Moves to the first entry whose separator is at or after the internal key `target`. Its block
    /// has the first entry at or after `target`, unless that is the first entry of the next block.
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

    /// Moves to the next entry; invalid behind the last.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn next(&mut self, block: &Block) -> Result<()> {
        self.cursor.next(block)?;
        self.read_handle(block)
    }

    /// Moves to the previous entry; invalid before the first.
    /// # Errors
    /// `Corruption`.
    pub fn prev(&mut self, block: &Block) -> Result<()> {
        let Some(here) = self.cursor.entry_offset() else { return Ok(()) };
        let restart = match self.restart {
            known @ 1.. if known < block.restart_count() && block.restart(known) == here => Some(known - 1),
            _ => self.cursor.restart_before(block, here),
        };
        match restart {
            // Handles are deltas from the restart on, so go there and walk.
            Some(restart) => self.walk(block, restart, |next| next < here),
            None => {
                self.cursor.reset();
                Ok(())
            }
        }
    }

    /// Moves on from `restart` while there are entries and `goes_on` is true for the offset of the
    /// next one.
    fn walk(&mut self, block: &Block, restart: u32, goes_on: impl Fn(u32) -> bool) -> Result<()> {
        self.restart = restart;
        self.cursor.seek_to_restart(block, restart)?;
        self.read_handle(block)?;
        while let Some(next) = self.cursor.next_offset(block)
            && goes_on(next)
        {
            self.next(block)?;
        }
        Ok(())
    }

    /// Decodes the handle of the current entry, which may be a difference from the last one.
    #[inline]
    fn read_handle(&mut self, block: &Block) -> Result<()> {
        if !self.cursor.valid() {
            return Ok(());
        }
        let mut input = Decoder::new(self.cursor.value(block));
        match self.decode_handle(block, &mut input) {
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

    /// Whether the current value is a difference from the previous value.
    #[inline]
    fn is_delta(&self, block: &Block) -> bool {
        self.shape.value_is_delta_encoded && self.cursor.stored_shared(block) > 0
    }

    #[inline]
    fn decode_handle(&self, block: &Block, input: &mut Decoder<'_>) -> Result<BlockHandle> {
        if !self.is_delta(block) {
            return BlockHandle::decode(input);
        }
        let previous = self.handle;
        let delta = if self.shape.value_escapes {
            match input.varint64()?.checked_sub(1) {
                None => return BlockHandle::decode(input),
                Some(delta) => from_zigzag(delta),
            }
        } else {
            input.varsignedint64()?
        };
        match (previous.end(), previous.size.checked_add_signed(delta)) {
            (Some(offset), Some(size)) => Ok(BlockHandle { offset, size }),
            _ => Err(Error::corruption("an index entry's size delta leads out of the file")),
        }
    }
}

#[cfg(test)]
mod tests;
