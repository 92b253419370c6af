//! Block handles: the place of a block in its table.
//!
//! `offset varint64 | size varint64`. Source: RocksDB `table/format.h`.
//!
//! Invariant: `size` counts the contents only, without the 5-byte trailer behind them.
//!
//! Page: `docs/format/sst.md`.

use crate::trailer::TRAILER_BYTES;
use esker_base::coding::{Decoder, put_varint64};
use esker_base::{Error, Result};

/// Length of the longest encoding of a handle.
pub const MAX_HANDLE_BYTES: usize = 20;

/// Offset and size (without trailer) of a block, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct BlockHandle {
    /// Offset of the block's first byte in the file.
    pub offset: u64,
    /// Number of stored bytes, without the trailer.
    pub size: u64,
}

impl BlockHandle {
    /// Makes a handle.
    pub const fn new(offset: u64, size: u64) -> BlockHandle {
        BlockHandle { offset, size }
    }

    /// Reads a handle from the front of `input`.
    /// # Errors
    /// `Corruption` if `input` ends within the handle, or a varint is longer than 10 bytes.
    #[inline]
    pub fn decode(input: &mut Decoder<'_>) -> Result<BlockHandle> {
        Ok(BlockHandle { offset: input.varint64()?, size: input.varint64()? })
    }

    /// Appends the encoded handle to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint64(out, self.offset);
        put_varint64(out, self.size);
    }

    /// The offset behind block and trailer. `None` if the sum overflows.
    #[inline]
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)?.checked_add(TRAILER_BYTES as u64)
    }

    /// Checks that the block and its trailer lie within a file of `file_size` bytes, and that the
    /// block is smaller than `u32::MAX` bytes.
    /// # Errors
    /// `Corruption` naming the handle.
    #[inline]
    pub fn check_within(&self, file_size: u64) -> Result<()> {
        match self.end() {
            Some(end) if end <= file_size && self.size < u64::from(u32::MAX) => Ok(()),
            _ => Err(out_of_file(*self, file_size)),
        }
    }
}

#[cold]
fn out_of_file(handle: BlockHandle, file_size: u64) -> Error {
    Error::corruption(format!(
        "block handle (offset {}, size {}) does not fit into the file of {file_size} bytes",
        handle.offset, handle.size
    ))
}
