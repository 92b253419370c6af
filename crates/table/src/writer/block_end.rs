//! The end of a data block: before which entry the writer begins another.
//!
//! In: an entry, and the block before it. Out: whether the block ends. Without a policy the rule is
//! RocksDB's: a block ends once it has its full size, or if it is nearly full and the entry does
//! not fit.
//!
//! Invariant: no block reaches 4 GiB unless its first entry does.

use super::MAX_BLOCK_BYTES;
use crate::flush_block_policy::{DataBlockInProgress, FlushBlockPolicy, exceeds_block_size};
use crate::options::BlockBasedTableOptions;
use esker_format::block::BlockBuilder;

/// Ends the data blocks of one table.
pub(super) struct BlockEnd {
    /// Replaces the rule by size.
    policy: Option<Box<dyn FlushBlockPolicy>>,
    /// Bytes from which on a block is full. With a policy 0, so that the same comparison leads to
    /// the policy.
    full_bytes: usize,
}

impl BlockEnd {
    pub(super) fn new(table: &BlockBasedTableOptions) -> BlockEnd {
        let policy = table.flush_block_policy_factory.as_ref().map(|f| f.flush_block_policy(table));
        BlockEnd { full_bytes: if policy.is_some() { 0 } else { table.block_size }, policy }
    }

    /// Whether the block ends before this entry.
    #[inline]
    pub(super) fn is_before(
        &mut self,
        internal_key: &[u8],
        value: &[u8],
        block: &BlockBuilder,
        table: &BlockBasedTableOptions,
    ) -> bool {
        let size = block.size_estimate();
        if block.is_empty() {
            // A policy sees all entries, but cannot end an empty block.
            if self.policy.is_some() {
                self.asks(internal_key, value, block);
            }
            return false;
        }
        if size >= self.full_bytes {
            return self.policy.is_none() || self.asks(internal_key, value, block);
        }
        let after = block.size_estimate_after(internal_key, value);
        let (deviation, align) = (table.block_size_deviation, table.block_align);
        after > MAX_BLOCK_BYTES || exceeds_block_size(size, after, table.block_size, deviation, align)
    }

    /// Whether the policy ends the block before this entry, or must.
    #[cold]
    fn asks(&mut self, internal_key: &[u8], value: &[u8], block: &BlockBuilder) -> bool {
        let in_progress = DataBlockInProgress::new(block);
        let ends = self.policy.as_mut().is_some_and(|p| p.update(internal_key, value, &in_progress));
        ends || block.size_estimate_after(internal_key, value) > MAX_BLOCK_BYTES
    }
}
