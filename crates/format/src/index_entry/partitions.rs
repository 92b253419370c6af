//! Builds an index of two levels: partitions of about equal size, and a top-level block with their
//! handles.
//!
//! In: data blocks, in order. Out: the partitions, then the top level.
//! Source: RocksDB `table/block_based/index_builder.cc` (`PartitionedIndexBuilder`),
//! `flush_block_policy.cc`.
//!
//! Invariants
//!  1. All partitions and the top level have the same form of keys: bare user keys, unless a user
//!     key spans two blocks.
//!  2. If there are several partitions, the last one has more than the last block's entry: that
//!     entry is added without a check of the size.

use super::{DataBlockPlace, IndexBuilder, IndexShape, Shortening};
use crate::block::BlockBuilder;
use crate::handle::BlockHandle;
use crate::key::InternalKeyComparator;

/// Collects a two-level index.
#[derive(Debug)]
pub struct PartitionedIndexBuilder {
    restart_interval: usize,
    delta_values: bool,
    /// For format version 8: whether each block stores the common prefix of its user keys once.
    format_8: Option<bool>,
    /// Bytes at which a partition is cut. The next field is the size from which it may be cut
    /// early.
    partition_bytes: usize,
    nearly_full_bytes: usize,
    /// The partitions, at least one. The last one is being filled.
    partitions: Vec<IndexBuilder>,
    /// The last partition as a block, which gives its size.
    current: BlockBuilder,
    needs_sequence: bool,
    cut_requested: bool,
    /// Whether a partition ended since the last call of `take_cut`.
    was_cut: bool,
}

impl PartitionedIndexBuilder {
    /// An index of partitions of about `partition_bytes`. A partition within `deviation_percent` of
    /// that size is cut early if one more entry would exceed it.
    pub fn new(
        restart_interval: usize,
        delta_values: bool,
        allow_user_keys: bool,
        partition_bytes: usize,
        deviation_percent: u32,
    ) -> PartitionedIndexBuilder {
        let deviation = deviation_percent.min(100) as usize;
        PartitionedIndexBuilder {
            restart_interval,
            delta_values,
            format_8: None,
            partition_bytes,
            nearly_full_bytes: partition_bytes.saturating_mul(100 - deviation).div_ceil(100),
            partitions: vec![IndexBuilder::new(restart_interval, delta_values, false)],
            current: BlockBuilder::new(restart_interval),
            needs_sequence: !allow_user_keys,
            cut_requested: false,
            was_cut: false,
        }
    }

    /// See [`IndexBuilder::in_format_8`].
    #[must_use]
    pub fn in_format_8(mut self, key_prefix: bool) -> PartitionedIndexBuilder {
        self.format_8 = Some(key_prefix);
        self.partitions = vec![self.empty_index()];
        self.current = self.filling().block_builder(!self.needs_sequence);
        self
    }

    /// An index of one block in the form of all of them.
    fn empty_index(&self) -> IndexBuilder {
        let index = IndexBuilder::new(self.restart_interval, self.delta_values, false);
        match self.format_8 {
            Some(key_prefix) => index.in_format_8(key_prefix),
            None => index,
        }
    }

    /// Ends the partition at the next block.
    pub fn request_cut(&mut self) {
        self.cut_requested = true;
    }

    /// Whether a partition has ended since the last call. The matching filter partition then ends
    /// too.
    pub fn take_cut(&mut self) -> bool {
        std::mem::take(&mut self.was_cut)
    }

    /// The separator of the last block added, an internal key.
    pub fn last_separator(&self) -> &[u8] {
        self.filling().last_separator()
    }

    /// Whether keys must be internal ones.
    pub fn needs_sequence(&self) -> bool {
        self.needs_sequence
    }

    fn filling(&self) -> &IndexBuilder {
        self.partitions.last().expect("there is always a last partition")
    }

    /// Adds a data block.
    pub fn add(&mut self, place: &DataBlockPlace<'_>, shortening: Shortening, icmp: &InternalKeyComparator) {
        let ends = !self.current.is_empty()
            && place.next.is_some()
            && (self.cut_requested || self.is_full(place.last, place.handle));
        if ends {
            self.partitions.push(self.empty_index());
            self.current = self.filling().block_builder(!self.needs_sequence);
            self.cut_requested = false;
            self.was_cut = true;
        }
        let partition = self.partitions.last_mut().expect("there is always a last partition");
        partition.add(place, shortening, icmp);
        if partition.needs_sequence() && !self.needs_sequence {
            self.needs_sequence = true;
            self.current = partition.block_builder(false);
            partition.fill(&mut self.current, false);
        } else {
            partition.put_last(&mut self.current, !self.needs_sequence);
        }
        self.was_cut |= place.next.is_none();
    }

    /// RocksDB's rule for blocks, with the sizes it sees.
    fn is_full(&self, last_key: &[u8], handle: BlockHandle) -> bool {
        let size = self.current.size_estimate();
        if size >= self.partition_bytes {
            return true;
        }
        let mut value = Vec::new();
        handle.encode(&mut value);
        let after = if self.delta_values {
            self.current.size_estimate_after_unsized(last_key, value.len())
        } else {
            self.current.size_estimate_after(last_key, &value)
        };
        self.nearly_full_bytes > 0 && after > self.partition_bytes && size > self.nearly_full_bytes
    }

    /// About how many bytes the index will have.
    pub fn size_estimate(&self) -> usize {
        self.partitions.iter().map(IndexBuilder::size_estimate).sum()
    }

    /// An upper bound of the bytes of its largest block. The cost grows with the number of
    /// partitions.
    pub fn max_block_bytes(&self) -> usize {
        let mut top = self.empty_index();
        for partition in self.partitions.iter().filter(|p| !p.last_separator().is_empty()) {
            top.add_separator(partition.last_separator(), BlockHandle::default());
        }
        let partitions = self.partitions.iter().map(IndexBuilder::max_block_bytes);
        partitions.chain([top.max_block_bytes()]).max().unwrap_or(0)
    }

    /// Calls `write` with the partitions, in order; returns the top level and the form of all keys.
    /// # Errors
    /// Those of `write`.
    pub fn finish<E>(
        &self,
        mut write: impl FnMut(Vec<u8>) -> Result<BlockHandle, E>,
    ) -> Result<(Vec<u8>, IndexShape), E> {
        let mut top = self.empty_index();
        for partition in self.partitions.iter().filter(|p| !p.last_separator().is_empty()) {
            let mut block = partition.block_builder(!self.needs_sequence);
            partition.fill(&mut block, !self.needs_sequence);
            block.finish();
            let handle = write(block.into_contents())?;
            top.add_separator(partition.last_separator(), handle);
        }
        Ok(top.finish(!self.needs_sequence))
    }
}
