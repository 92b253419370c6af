//! Finds the next two blocks of a scan early.
//!
//! In: a run that reaches a block's end. Out: the index is at the neighbour, and the memory of the
//! next two blocks is being prefetched if the cache has them. Without that the processor waits at
//! the end of each block, longest in backward scans, which it cannot predict.
//!
//! One block ahead is not enough while other processes load the memory: its prefetch is not done
//! when the scan needs its bytes. A second block ahead took a row of cached blocks beside such a
//! load from 52 to 30 ns backward and from 34 to 30 forward. Without that load it stayed
//! at 18 (2-vCPU Zen 5, 2026-11-23).
//!
//! The far neighbour is looked up once. Its reference is held until the block is the neighbour, and
//! the index then moves to the far neighbour's position.

use super::TableIter;
use crate::block_source::{BlockKind, BlockRef};
use crate::index_walker::IndexWalker;
use esker_base::memory::{prefetch, prefetch_back, prefetch_early, prefetch_early_back};
use esker_base::{Error, Result};
use esker_format::handle::BlockHandle;
use esker_format::index_entry::IndexCursor;
use esker_format::key;

/// The neighbour: the block next to the current one in the direction of the scan.
#[derive(Debug)]
pub(super) struct Neighbour {
    forward: bool,
    /// The neighbour, if the cache had it.
    block: Option<BlockRef>,
    is_sought: bool,
    /// The error of moving in the index.
    failed: Option<Error>,
}

/// The far neighbour, which comes after the neighbour.
#[derive(Debug, Default)]
pub(super) struct FarNeighbour {
    /// Its position in the index.
    cursor: Option<IndexCursor>,
    /// The neighbour that the cursor is next to, and whether the cursor is after it.
    beside: Option<(BlockHandle, bool)>,
    /// The far neighbour, if the cache had it.
    block: Option<(BlockHandle, BlockRef)>,
}

impl FarNeighbour {
    /// Forgets the far neighbour.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.beside = None;
        self.block = None;
    }

    #[cfg(test)]
    pub(super) fn holds_a_block(&self) -> bool {
        self.block.is_some()
    }

    /// The cursor, if it is next to the block at `handle`.
    fn cursor_beside(&self, handle: BlockHandle, forward: bool) -> Option<&IndexCursor> {
        self.cursor.as_ref().filter(|_| self.beside == Some((handle, forward)))
    }

    /// Moves the cursor to the block next to the walker's block.
    fn advance(&mut self, walker: &IndexWalker<BlockRef>, forward: bool) -> Option<BlockHandle> {
        let there = walker.beside(&mut self.cursor, forward);
        self.beside = there.map(|_| (walker.handle(), forward));
        there
    }

    /// Takes the far neighbour, if it is the one at `handle`.
    fn take(&mut self, handle: BlockHandle) -> Option<BlockRef> {
        self.block.take().filter(|(at, _)| *at == handle).map(|(_, block)| block)
    }
}

impl TableIter {
    /// Moves the walker to the neighbour. Leaves it where it is if the neighbour is in another
    /// index block, or beyond the upper bound.
    pub(super) fn step_to_neighbour(&mut self, forward: bool) {
        // A planned scan may already hold the next block.
        let holds = self.ahead.as_ref().is_some_and(|ahead| ahead.holds());
        let can_step = !holds && self.walker.as_ref().is_some_and(IndexWalker::is_flat);
        if self.neighbour.is_some() || !can_step || (forward && self.is_beyond_upper_bound()) {
            return;
        }
        let walked = match &mut self.walker {
            Some(walker) if let Some(cursor) = self.far_neighbour.cursor_beside(walker.handle(), forward) => {
                walker.move_to(cursor);
                Ok(())
            }
            _ => self.walk(|w, r, o| if forward { w.next(&r.source, o) } else { w.prev(&r.source, o) }),
        };
        self.neighbour = Some(Neighbour { forward, block: None, is_sought: false, failed: walked.err() });
    }

    /// Looks up the neighbour and the block behind it in the cache, and prefetches them. It is the
    /// last step at a block's end, since changing a reference count waits for the prefetched line.
    pub(super) fn prefetch_neighbours(&mut self) {
        let ends_there = self.is_beyond_upper_bound();
        let (Some(neighbour), Some(walker)) = (&mut self.neighbour, &self.walker) else { return };
        if neighbour.is_sought || !walker.valid() {
            return;
        }
        neighbour.is_sought = true;
        let (handle, source) = (walker.handle(), &self.reader.source);
        neighbour.block = self.far_neighbour.take(handle).or_else(|| source.cached(handle, BlockKind::Data));
        let Some(block) = &neighbour.block else { return };
        if !(neighbour.forward && ends_there)
            && let Some(handle) = self.far_neighbour.advance(walker, neighbour.forward)
        {
            self.far_neighbour.block = source.cached(handle, BlockKind::Data).map(|block| (handle, block));
        }
        let far = self.far_neighbour.block.as_ref().map_or(&[][..], |(_, block)| block.bytes());
        if neighbour.forward {
            prefetch_early(far);
            prefetch(block.bytes());
            return;
        }
        prefetch_early_back(far);
        if let Ok(entries) = block.key_value() {
            // The cursor reads the restarts first.
            entries.prefetch_restarts();
        }
        prefetch_back(block.bytes());
    }

    /// Whether the previous block is known to have no entry with the user key of `first`, an
    /// internal key and the first entry here.
    pub(super) fn is_alone_at_edge(&self, first: &[u8]) -> bool {
        let is_before =
            self.neighbour.as_ref().is_some_and(|neighbour| !neighbour.forward && neighbour.failed.is_none());
        // The previous block's separator lies between its last entry and the first entry here.
        self.walker.as_ref().filter(|walker| is_before && walker.valid()).is_some_and(|walker| {
            let icmp = &self.reader.options.icmp;
            !icmp.same_user_key(walker.separator_user_key(), key::user_key(first))
        })
    }

    /// Leaves the block on this side and clears `neighbour`. Returns true if the walker is at the
    /// neighbour on this side: the neighbour is loaded then if it was found. False: the caller must
    /// move the walker.
    pub(super) fn cross(&mut self, forward: bool) -> Result<bool> {
        let Some(Neighbour { forward: is_forward, block, failed, .. }) = self.neighbour.take() else {
            return Ok(false);
        };
        if is_forward == forward {
            if let Some(error) = failed {
                return Err(error);
            }
            if let (Some(block), Some(walker)) = (block, &self.walker) {
                let handle = walker.handle();
                self.count_entered();
                self.readahead.skipped(handle);
                self.block = Some(block);
                self.loaded = handle;
            }
            return Ok(true);
        }
        // The walker goes back to the current block.
        if failed.is_none() && self.walker.as_ref().is_some_and(IndexWalker::valid) {
            self.walk(|w, r, o| if forward { w.next(&r.source, o) } else { w.prev(&r.source, o) })?;
        } else if failed.is_none() {
            self.walk(
                |w, r, o| if forward { w.seek_to_first(&r.source, o) } else { w.seek_to_last(&r.source, o) },
            )?;
        } else {
            let here = self.loaded;
            self.walk(|w, r, o| {
                w.seek_to_first(&r.source, o)?;
                while w.valid() && w.handle() != here {
                    w.next(&r.source, o)?;
                }
                Ok(())
            })?;
        }
        Ok(false)
    }
}
