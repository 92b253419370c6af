//! Reads known blocks at once, each into the memory in which it stays.
//!
//! In: the handles of adjacent blocks. Out: their bytes, in order.
//!
//! A block copied out of a readahead buffer waits for its new memory, which is not in the
//! processor's cache. For a few blocks it is cheaper if the kernel writes into that memory
//! directly. Long scans, which reuse a few buffers, copy (`window.rs`).

use esker_base::Buffer;
use esker_env::RandomAccessFile;
use esker_format::handle::BlockHandle;
use esker_format::trailer::TRAILER_BYTES;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// The block that is asked for next, and those behind it that are to be read with it.
    planned: Vec<BlockHandle>,
    /// Blocks that were read so and not asked for yet.
    blocks: VecDeque<(BlockHandle, Buffer)>,
}

impl Together {
    /// Where to add the blocks that are to be read with this one.
    pub(super) fn plan(&mut self, first: BlockHandle) -> &mut Vec<BlockHandle> {
        self.planned.clear();
        self.planned.push(first);
        &mut self.planned
    }

    pub(super) fn has(&self, handle: BlockHandle) -> bool {
        self.blocks.iter().any(|(at, _)| *at == handle)
    }

    /// The block and its trailer, if it was read. Those before it are not wanted any more.
    pub(super) fn take(&mut self, handle: BlockHandle) -> Option<Buffer> {
        let at = self.blocks.iter().position(|(there, _)| *there == handle)?;
        self.blocks.drain(..at);
        self.blocks.pop_front().map(|(_, buffer)| buffer)
    }

    /// Reads the block, which lies within the file, with its planned neighbours, up to `most`
    /// bytes. `None`: none were planned, or it cannot be read this way.
    pub(super) fn read(
        &mut self,
        file: &dyn RandomAccessFile,
        handle: BlockHandle,
        most: usize,
    ) -> Option<Buffer> {
        if self.planned.first() != Some(&handle) {
            return None;
        }
        let end = end_of(handle).saturating_add(most as u64);
        // Handles behind the first come from the index as they are.
        let is_adjacent = |pair: &&[BlockHandle]| {
            let (start, size) = (end_of(pair[0]), pair[1].size);
            let to = size.checked_add(start + TRAILER_BYTES as u64);
            pair[1].offset == start && to.is_some_and(|to| to <= end)
        };
        let behind = self.planned.windows(2).take_while(is_adjacent).count();
        if behind == 0 {
            return None;
        }
        self.planned.truncate(behind + 1);
        self.blocks.clear();
        let memory = |handle: BlockHandle| (handle, Buffer::new(handle.size as usize + TRAILER_BYTES));
        self.blocks.extend(self.planned.drain(..).map(memory));
        let mut buffers: SmallVec<[&mut [u8]; 8]> =
            self.blocks.iter_mut().map(|(_, buffer)| &mut **buffer).collect();
        let read = file.read_vectored_at(handle.offset, &mut buffers);
        drop(buffers);
        // A block that is not whole is read by its own reader, which meets the error.
        let read_to = handle.offset + read.unwrap_or(0) as u64;
        self.blocks.retain(|(block, _)| end_of(*block) <= read_to);
        self.take(handle)
    }
}

fn end_of(handle: BlockHandle) -> u64 {
    handle.offset + handle.size + TRAILER_BYTES as u64
}
