//! Iterates over the entries of a table's index, which has one level or two. Each entry is the
//! handle of a data block.
//!
//! A point read borrows the top level, and so touches no reference count. A cursor outlives the
//! call, and so holds a reference to the top level.

use crate::block_source::{BlockKind, BlockRef, BlockSource, CachedBlock};
use crate::options::TableReadOptions;
use crate::readahead::ReadPace;
use esker_base::Result;
use esker_format::block::Block;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexCursor, IndexShape, check_restarts};
use esker_format::key::{self, InternalKeyComparator};
use std::ops::Deref;

/// A position in an index.
#[derive(Debug)]
pub(crate) struct IndexWalker<H> {
    top: H,
    top_cursor: IndexCursor,
    /// The current partition of a two-level index.
    partition: Option<(BlockRef, IndexCursor)>,
    /// The handle of `partition`.
    partition_handle: BlockHandle,
    two_level: bool,
    shape: IndexShape,
    /// The rate limit for reads of partitions.
    pace: Option<ReadPace>,
}

impl<H: Deref<Target = CachedBlock>> IndexWalker<H> {
    /// Makes a walker without a position. `buffer` is memory for its keys.
    #[inline]
    pub(crate) fn new(top: H, shape: IndexShape, two_level: bool, buffer: Vec<u8>) -> IndexWalker<H> {
        IndexWalker {
            top,
            top_cursor: IndexCursor::with_buffer(shape, buffer),
            partition: None,
            partition_handle: BlockHandle::default(),
            two_level,
            shape,
            pace: None,
        }
    }

    /// Limits the rate at which partitions are read.
    pub(crate) fn with_pace(self, pace: Option<ReadPace>) -> IndexWalker<H> {
        IndexWalker { pace, ..self }
    }

    /// Returns the memory of the keys, for reuse.
    #[inline]
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.top_cursor.into_buffer()
    }

    /// Whether the walker is at an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        if self.two_level {
            self.partition.as_ref().is_some_and(|(_, cursor)| cursor.valid())
        } else {
            self.top_cursor.valid()
        }
    }

    /// Whether the index is one block.
    #[inline]
    pub(crate) fn is_flat(&self) -> bool {
        !self.two_level
    }

    /// The cursor in the lowest level of the index, whose entries are data blocks. REQUIRES:
    /// `valid()`.
    #[inline]
    fn cursor(&self) -> &IndexCursor {
        match &self.partition {
            Some((_, cursor)) if self.two_level => cursor,
            _ => &self.top_cursor,
        }
    }

    /// The current data block's handle.
    #[inline]
    pub(crate) fn handle(&self) -> BlockHandle {
        self.cursor().handle()
    }

    /// The user key of the current separator.
    #[inline]
    pub(crate) fn separator_user_key(&self) -> &[u8] {
        self.cursor().separator_user_key()
    }

    /// Checks that seeks in the top level and in the current partition find the entries that a scan
    /// finds. Checks the top level only while `checked` is `None`, and skips the partition that
    /// `checked` names. Sets `checked` to the current partition.
    /// # Errors
    /// `Corruption`.
    pub(crate) fn check_restarts(&self, checked: &mut Option<BlockHandle>) -> Result<()> {
        if checked.is_none() {
            check_restarts(self.top.key_value()?, self.shape)?;
        }
        if let Some((block, _)) = &self.partition
            && *checked != Some(self.partition_handle)
        {
            check_restarts(block.key_value()?, self.shape)?;
        }
        *checked = Some(self.partition_handle);
        Ok(())
    }

    /// Whether the separator is at or after the internal key `target`. REQUIRES: `valid()`.
    #[inline]
    pub(crate) fn reaches(&self, target: &[u8], icmp: &InternalKeyComparator) -> bool {
        let separator = self.cursor().separator();
        let order = if self.shape.key_is_user_key {
            icmp.compare_user_keys(separator, key::user_key(target))
        } else {
            icmp.compare(separator, target)
        };
        order.is_ge()
    }

    /// The current separator: a user key or an internal key, by the index's shape.
    pub(crate) fn separator(&self) -> &[u8] {
        self.cursor().separator()
    }

    /// The current partition's separator in the top level. REQUIRES: `valid()`.
    pub(crate) fn partition_separator(&self) -> Option<&[u8]> {
        self.two_level.then(|| self.top_cursor.separator())
    }

    /// The handle of the current partition. REQUIRES: `valid()`.
    pub(crate) fn partition_handle(&self) -> Option<BlockHandle> {
        self.two_level.then_some(self.partition_handle)
    }

    /// The first key of the current data block, if the index stores first keys.
    pub(crate) fn first_key(&self) -> Result<Option<&[u8]>> {
        let block = match &self.partition {
            Some((block, _)) if self.two_level => block.key_value()?,
            _ => self.top.key_value()?,
        };
        self.cursor().first_key(block)
    }

    /// Moves to the first entry whose separator is at or after the internal key `target`.
    #[inline]
    pub(crate) fn seek(
        &mut self,
        source: &BlockSource,
        options: &TableReadOptions,
        target: &[u8],
        icmp: &InternalKeyComparator,
    ) -> Result<()> {
        self.top_cursor.seek(self.top.key_value()?, target, icmp)?;
        if !self.two_level {
            return Ok(());
        }
        self.enter(source, options, |cursor, block| cursor.seek(block, target, icmp))?;
        self.leave_empty_forwards(source, options)
    }

    pub(crate) fn seek_to_first(&mut self, source: &BlockSource, options: &TableReadOptions) -> Result<()> {
        self.top_cursor.seek_to_first(self.top.key_value()?)?;
        self.enter(source, options, IndexCursor::seek_to_first)?;
        self.leave_empty_forwards(source, options)
    }

    pub(crate) fn seek_to_last(&mut self, source: &BlockSource, options: &TableReadOptions) -> Result<()> {
        self.top_cursor.seek_to_last(self.top.key_value()?)?;
        self.enter(source, options, IndexCursor::seek_to_last)?;
        self.leave_empty_backwards(source, options)
    }

    /// Appends the handles of up to `most` data blocks behind the current one. Does not leave the
    /// current index block.
    pub(crate) fn behind(&self, most: u32, handles: &mut Vec<BlockHandle>) {
        let (block, mut cursor) = match &self.partition {
            Some((block, cursor)) if self.two_level => (block.key_value(), cursor.clone()),
            _ => (self.top.key_value(), self.top_cursor.clone()),
        };
        let Ok(block) = block else { return };
        for _ in 0..most {
            // A later read of that entry reports the error.
            if cursor.next(block).is_err() || !cursor.valid() {
                return;
            }
            handles.push(cursor.handle());
        }
    }

    /// Returns the handle of the data block before or after the current one. Leaves `cursor` at
    /// that block's entry. After `move_to`, the next call starts from there. REQUIRES: `valid()`,
    /// `is_flat()`.
    pub(crate) fn beside(&self, cursor: &mut Option<IndexCursor>, forward: bool) -> Option<BlockHandle> {
        let block = self.top.key_value().ok()?;
        let cursor = match cursor {
            Some(cursor) if cursor.valid() && cursor.handle() == self.handle() => cursor,
            _ => cursor.insert(self.top_cursor.clone()),
        };
        // A later read of that entry reports the error.
        if forward { cursor.next(block) } else { cursor.prev(block) }.ok()?;
        cursor.valid().then(|| cursor.handle())
    }

    /// Moves the walker to the position of a cursor from `beside`. REQUIRES: `is_flat()`.
    pub(crate) fn move_to(&mut self, cursor: &IndexCursor) {
        self.top_cursor.stand_as(cursor);
    }

    /// Moves to the next data block.
    #[inline]
    pub(crate) fn next(&mut self, source: &BlockSource, options: &TableReadOptions) -> Result<()> {
        match &mut self.partition {
            Some((block, cursor)) if self.two_level => {
                cursor.next(block.key_value()?)?;
                self.leave_empty_forwards(source, options)
            }
            _ => self.top_cursor.next(self.top.key_value()?),
        }
    }

    /// Moves to the previous data block.
    pub(crate) fn prev(&mut self, source: &BlockSource, options: &TableReadOptions) -> Result<()> {
        match &mut self.partition {
            Some((block, cursor)) if self.two_level => {
                cursor.prev(block.key_value()?)?;
                self.leave_empty_backwards(source, options)
            }
            _ => self.top_cursor.prev(self.top.key_value()?),
        }
    }

    /// Opens the partition of the current top-level entry, and calls `place` to position the cursor
    /// in it. Does nothing if the index has one level.
    fn enter(
        &mut self,
        source: &BlockSource,
        options: &TableReadOptions,
        place: impl FnOnce(&mut IndexCursor, &Block) -> Result<()>,
    ) -> Result<()> {
        if !self.two_level {
            return Ok(());
        }
        let before = self.partition.take();
        if !self.top_cursor.valid() {
            return Ok(());
        }
        let handle = self.top_cursor.handle();
        let (block, mut cursor) = match before {
            Some(before) if self.partition_handle == handle => before,
            _ => {
                let block = source.block_at_pace(handle, BlockKind::Index, options, self.pace.as_ref())?;
                (block, IndexCursor::new(self.shape))
            }
        };
        self.partition_handle = handle;
        cursor.reset();
        place(&mut cursor, block.key_value()?)?;
        self.partition = Some((block, cursor));
        Ok(())
    }

    fn leave_empty_forwards(&mut self, source: &BlockSource, options: &TableReadOptions) -> Result<()> {
        while self.two_level && !self.valid() && self.top_cursor.valid() {
            self.top_cursor.next(self.top.key_value()?)?;
            self.enter(source, options, IndexCursor::seek_to_first)?;
        }
        Ok(())
    }

    fn leave_empty_backwards(&mut self, source: &BlockSource, options: &TableReadOptions) -> Result<()> {
        while self.two_level && !self.valid() && self.top_cursor.valid() {
            self.top_cursor.prev(self.top.key_value()?)?;
            self.enter(source, options, IndexCursor::seek_to_last)?;
        }
        Ok(())
    }

    /// Makes the walker invalid.
    pub(crate) fn reset(&mut self) {
        self.top_cursor.reset();
        self.partition = None;
    }
}
