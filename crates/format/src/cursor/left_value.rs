//! The value of an entry that a backward scan has left.
//!
//! In: a cursor that steps back. Out: the value that it left, lent by the cursor where possible. A
//! backward scan must leave an entry to find out whether a newer version exists.

use super::{InternalIterator, ScanIterator};
use esker_base::PinnedBytes;

/// Values of at least this size are pinned instead of copied. A pin costs two atomic operations.
const PIN_VALUES_FROM_BYTES: usize = 4096;

/// The value of an entry that a cursor has left by [`ScanIterator::prev_key_leaving`].
#[derive(Debug, Default)]
pub struct LeftValue {
    place: LeftPlace,
    /// The value, if it was copied.
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
enum LeftPlace {
    /// The cursor lends it until the next move.
    #[default]
    Lent,
    Copied,
    Pinned(PinnedBytes),
}

impl LeftValue {
    /// Records that the cursor lends the value: [`ScanIterator::left_value`].
    #[inline]
    pub fn lend(&mut self) {
        self.place = LeftPlace::Lent;
    }

    /// Keeps the value at the cursor's position.
    pub fn keep<I: InternalIterator + ?Sized>(&mut self, iter: &I) {
        let value = iter.value();
        if value.len() >= PIN_VALUES_FROM_BYTES {
            self.place = LeftPlace::Pinned(iter.pinned_value());
        } else {
            self.copy(value);
        }
    }

    /// Keeps the value that the cursor lends, before the cursor moves again.
    pub fn keep_lent<I: ScanIterator + ?Sized>(&mut self, iter: &I) {
        if !matches!(self.place, LeftPlace::Lent) {
            return;
        }
        let value = iter.left_value();
        if value.len() >= PIN_VALUES_FROM_BYTES {
            self.place = LeftPlace::Pinned(iter.pinned_left_value());
        } else {
            self.copy(value);
        }
    }

    /// Releases the value, and the buffer if it is large.
    pub fn release(&mut self) {
        self.place = LeftPlace::Lent;
        if self.buffer.capacity() > PIN_VALUES_FROM_BYTES {
            self.buffer = Vec::new();
        }
    }

    fn copy(&mut self, value: &[u8]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(value);
        self.place = LeftPlace::Copied;
    }

    /// The value. REQUIRES: `iter` is the cursor that left it, and has not moved since unless
    /// [`keep_lent`](Self::keep_lent) was called before.
    #[inline]
    pub fn value<'a, I: ScanIterator + ?Sized>(&'a self, iter: &'a I) -> &'a [u8] {
        match &self.place {
            LeftPlace::Lent => iter.left_value(),
            LeftPlace::Copied => &self.buffer,
            LeftPlace::Pinned(bytes) => bytes,
        }
    }

    /// As [`value`](Self::value), alive beyond the next move.
    pub fn pinned<I: ScanIterator + ?Sized>(&self, iter: &I) -> PinnedBytes {
        match &self.place {
            LeftPlace::Lent => iter.pinned_left_value(),
            LeftPlace::Copied => PinnedBytes::copy_from(&self.buffer),
            LeftPlace::Pinned(bytes) => bytes.clone(),
        }
    }
}
