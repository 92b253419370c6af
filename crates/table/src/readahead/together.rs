//! Reads several adjacent blocks at once, each into the memory that will hold it.
//!
//! In: the handles of adjacent blocks. Out: their bytes, in order.
//!
//! A copy out of a readahead buffer goes to new memory, which is not in the processor's cache, so
//! the copy waits. For a few blocks it is cheaper if the kernel writes into that memory directly.
//! Long scans, which reuse a few buffers, copy (`window.rs`).

use esker_base::Buffer;
use esker_env::RandomAccessFile;
use esker_format::handle::BlockHandle;
use esker_format::trailer::TRAILER_BYTES;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Blocks read at once; see the head of the file.
#[derive(Debug, Default)]
pub(super) struct Together {
    /// The block that the scan will read next, and the later blocks to read along.
    planned: Vec<BlockHandle>,
    /// Blocks that were read ahead of the scan.
    blocks: VecDeque<(BlockHandle, Buffer)>,
}

impl Together {
    /// Begins a plan with `first`. The caller adds the blocks to read along.
    pub(super) fn plan(&mut self, first: BlockHandle) -> &mut Vec<BlockHandle> {
        self.planned.clear();
        self.planned.push(first);
        &mut self.planned
    }

    /// Bytes of the blocks that were read ahead of the scan, with their trailers.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|(_, buffer)| buffer.len() as u64).sum()
    }

    pub(super) fn has(&self, handle: BlockHandle) -> bool {
        self.blocks.iter().any(|(at, _)| *at == handle)
    }

    /// Takes the block with its trailer, if it was read ahead. Drops the blocks before it: the scan
    /// has passed them.
    pub(super) fn take(&mut self, handle: BlockHandle) -> Option<Buffer> {
        let at = self.blocks.iter().position(|(there, _)| *there == handle)?;
        self.blocks.drain(..at);
        self.blocks.pop_front().map(|(_, buffer)| buffer)
    }

    /// Reads the block with its planned neighbours, up to `most` bytes behind it. The block lies
    /// within the file. `None`: the plan does not begin with this block, no planned neighbour is
    /// adjacent and fits `most`, or the read failed.
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
        // Nothing has checked the later handles of the index.
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
        // Drops blocks that were not read whole. The single read of such a block reports the error.
        let read_to = handle.offset + read.unwrap_or(0) as u64;
        self.blocks.retain(|(block, _)| end_of(*block) <= read_to);
        self.take(handle)
    }
}

fn end_of(handle: BlockHandle) -> u64 {
    handle.offset + handle.size + TRAILER_BYTES as u64
}
