//! Direct I/O (`O_DIRECT`): reads and writes past the page cache, and their alignment.
//!
//! In: a source or a sink of whole blocks in aligned memory. It is an open file
//! (`posix/direct.rs`), or a file of the simulated disk, which refuses all other requests
//! (`mem/direct.rs`).
//! Out: files that are read and written at any offset and length.
//!
//! An aligned request goes to the source unchanged. Any other is widened to whole blocks and copied
//! from a buffer that the thread keeps. Several requests at once share their common blocks
//! (`direct/together.rs`). A sequential reader has aligned memory of its own and requests whole
//! blocks: [`Alignment`].
//!
//! Invariants
//!  1. Sources and sinks get only requests for whole blocks, at a multiple of a block, in aligned
//!     memory.
//!  2. Bytes beyond the end of the file do not exist: a read that ends within a block ended with
//!     the file.
//!  3. `Alignment::block` is a multiple of `Alignment::memory`: a block that starts in aligned
//!     memory also ends at an aligned address.

mod buffer;
mod reader;
mod together;
mod writer;

pub use buffer::AlignedBuffer;
pub(crate) use reader::{DirectRandomAccessFile, DirectSequentialFile, DirectSource};
pub(crate) use together::read_together;
pub(crate) use writer::{DirectSink, DirectWritableFile};

/// The alignment of direct reads and writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alignment {
    block: usize,
    memory: usize,
}

impl Alignment {
    /// The alignment of files read through the page cache: every request is aligned.
    pub const NONE: Alignment = Alignment { block: 1, memory: 1 };

    /// An alignment of `block` for offsets and lengths, and of `memory` for addresses, in bytes.
    ///
    /// # Panics
    /// If one is not a power of two.
    pub fn new(block: usize, memory: usize) -> Alignment {
        assert!(
            block.is_power_of_two() && memory.is_power_of_two(),
            "{block} and {memory} are powers of two"
        );
        Alignment { block: block.max(memory), memory }
    }

    /// The number of which offsets and lengths must be multiples.
    #[inline]
    pub fn block(self) -> usize {
        self.block
    }

    /// Addresses are multiples of this.
    #[inline]
    pub fn memory(self) -> usize {
        self.memory
    }

    /// The start of the block that `offset` lies in.
    #[inline]
    pub fn down(self, offset: u64) -> u64 {
        offset & !(self.block as u64 - 1)
    }

    /// The end of the block that the byte before `offset` lies in.
    #[inline]
    pub fn up(self, offset: u64) -> u64 {
        self.down(offset.saturating_add(self.block as u64 - 1))
    }

    /// Whether bytes at `offset` and this memory are both aligned, so that no copy is needed.
    #[inline]
    pub fn fits(self, offset: u64, memory: &[u8]) -> bool {
        let length = memory.len();
        self.down(offset) == offset
            && length.is_multiple_of(self.block)
            && memory.as_ptr().addr().is_multiple_of(self.memory)
    }

    /// Bytes of `memory` before the first aligned one.
    #[inline]
    pub fn slack(self, memory: &[u8]) -> usize {
        memory.as_ptr().addr().wrapping_neg() % self.memory
    }
}

#[cfg(test)]
mod tests;
