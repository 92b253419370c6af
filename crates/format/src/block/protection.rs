//! Checksums of a block's entries in memory: `block_protection_bytes_per_key`.
//!
//! In: a block that was just read and checked. Out: for a parsed entry, whether it has changed
//! since. Idea: RocksDB `table/block_based/block.cc` (`InitializeDataBlockProtectionInfo`), which
//! sums whole keys. Here the stored bytes are summed. So skipped entries and restart keys are
//! compared too, and a damaged key cannot mislead a search. Sums are in memory only.
//!
//! Invariant: `offsets` ascend, one for each entry; the sums have the same order.

use super::{Block, BlockCursor, EntryShape};
use esker_base::xxph3::hash64_with_seed;
use esker_base::{Error, Result};
use std::ops::Range;

/// See the head of the file.
pub(super) struct Protection {
    /// Offsets of the entries.
    offsets: Box<[u32]>,
    /// Offsets of the restarts.
    restarts: Box<[u32]>,
    sums: Box<[u8]>,
    /// Bytes of each sum.
    width: usize,
    /// The block's offset in its file, for errors.
    place: u64,
}

impl Protection {
    /// Bytes of memory in use.
    pub(super) fn memory_usage(&self) -> usize {
        size_of::<Protection>() + size_of_val(&*self.offsets) + size_of_val(&*self.restarts) + self.sums.len()
    }

    /// See [`Block::is_intact`].
    fn is_intact(&self, block: &Block, offset: u32, next: u32, value: Range<u32>) -> bool {
        let Ok(i) = self.offsets.binary_search(&offset) else { return false };
        let end = self.offsets.get(i + 1).copied().unwrap_or(block.entries_end);
        let sum = sum_of(block, offset..next, value).to_le_bytes();
        next == end && self.sums.get(i * self.width..(i + 1) * self.width) == sum.get(..self.width)
    }
}

/// The sum of a stored entry.
fn sum_of(block: &Block, entry: Range<u32>, value: Range<u32>) -> u64 {
    let bytes =
        |range: Range<u32>| block.bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
    // The sum includes the offset, so that entries cannot be swapped.
    let mut sum = hash64_with_seed(bytes(entry.clone()), u64::from(entry.start));
    if block.entries_start > 0 {
        sum = hash64_with_seed(block.key_prefix(), sum);
    }
    if block.values.is_some() { hash64_with_seed(bytes(value), sum) } else { sum }
}

impl Block {
    /// Sums the entries, with `width` bytes for each (0: not at all) plus 4 for its offset. From
    /// then on cursors compare the sums. `place` is the block's offset in its file, for errors.
    /// Drops the copies of keys that `prepare_for_search` made, because nothing protects them.
    /// # Errors
    /// `Corruption` if an entry cannot be read.
    pub fn protect(&mut self, shape: EntryShape, width: usize, place: u64) -> Result<()> {
        if width == 0 {
            return Ok(());
        }
        let width = width.min(size_of::<u64>());
        let (mut offsets, mut sums) = (Vec::new(), Vec::new());
        let mut cursor = BlockCursor::with_buffer(shape, Vec::new());
        cursor.seek_to_first(self)?;
        while let Some(offset) = cursor.entry_offset() {
            let next = cursor.next_offset(self).unwrap_or(self.entries_end);
            offsets.push(offset);
            let sum = sum_of(self, offset..next, cursor.stored_value()).to_le_bytes();
            sums.extend(sum.iter().take(width));
            cursor.next(self)?;
        }
        let restarts = (0..self.restart_count).map(|i| self.restart(i)).collect();
        let protection = Protection { offsets: offsets.into(), restarts, sums: sums.into(), width, place };
        (self.protection, self.prefixes) = (Some(Box::new(protection)), None);
        (self.decodes, self.is_plain) = (false, false);
        Ok(())
    }

    /// Whether the entry at `offset` is unchanged. It ends at `next`; `value` is its value if that
    /// is separate. True if the block has no sums.
    pub(super) fn is_intact(&self, offset: u32, next: u32, value: Range<u32>) -> bool {
        self.protection.as_ref().is_none_or(|known| known.is_intact(self, offset, next, value))
    }

    /// Whether restart `i` is unchanged. True if the block has no sums.
    pub(super) fn is_restart_intact(&self, i: u32) -> bool {
        let known = self.protection.as_ref().map(|known| known.restarts.get(i as usize));
        known.is_none_or(|offset| offset == Some(&self.restart(i)))
    }

    /// The error for a cursor that cannot read an entry.
    #[cold]
    pub(super) fn bad_entry(&self, offset: u32) -> Error {
        Error::corruption(match &self.protection {
            None => format!("bad entry at byte {offset} of a block"),
            Some(known) => format!(
                "the entry at byte {offset} of the block at offset {} is not what was read from the file: memory was \
                 damaged (block_protection_bytes_per_key)",
                known.place
            ),
        })
    }

    /// Flips bits of a byte, for tests of damaged memory.
    #[doc(hidden)]
    pub fn damage_for_test(&mut self, at: usize, bits: u8) {
        if let Some(byte) = self.bytes.get_mut(at) {
            *byte ^= bits;
        }
    }
}

#[cfg(test)]
mod tests;
