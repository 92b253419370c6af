//! Aligned memory without `unsafe`: a vector with slack in front.
//!
//! Invariant: the vector never grows beyond its capacity, so it never moves and stays aligned.

use super::Alignment;

/// Bytes in aligned memory.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    /// Offset in `bytes` at which the buffer begins.
    start: usize,
    capacity: usize,
}

impl AlignedBuffer {
    /// Empty, with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize, alignment: Alignment) -> AlignedBuffer {
        let mut bytes = Vec::with_capacity(capacity + alignment.memory() - 1);
        let start = alignment.slack(&bytes);
        bytes.resize(start, 0);
        AlignedBuffer { bytes, start, capacity }
    }

    /// Bytes in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that it has room for.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether it has room for `length` bytes with this alignment.
    pub(crate) fn serves(&self, length: usize, alignment: Alignment) -> bool {
        let address = self.bytes.as_ptr().addr() + self.start;
        length <= self.capacity && address.is_multiple_of(alignment.memory())
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The bytes.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Changes the length to `length`; new bytes are zeros.
    ///
    /// # Panics
    /// If there is no room.
    pub fn resize(&mut self, length: usize) {
        assert!(length <= self.capacity, "{length} bytes do not fit into {}", self.capacity);
        self.bytes.resize(self.start + length, 0);
    }

    /// Appends `data`.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub fn extend(&mut self, data: &[u8]) {
        assert!(self.len() + data.len() <= self.capacity, "the added bytes fit");
        self.bytes.extend_from_slice(data);
    }

    /// Removes the first `count` bytes; the others move to the front.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn drop_front(&mut self, count: usize) {
        self.bytes.drain(self.start..self.start + count);
    }
}
