//! A filter cut into partitions, each for a range of keys.
//!
//! In: keys in the table's order, and the places to cut. Out: filters, each with its separator.
//! Source: RocksDB `table/block_based/partitioned_filter_block.cc`.
//!
//! Invariants
//!  1. A seek by prefix may land in the partition next to the prefix's own, and must find the
//!     prefix there too. So at each cut the partition that ends gets the next key's prefix, and the
//!     partition that begins gets the last key's.
//!  2. A separator is at or after all keys of its partition, and before all keys of the next.

use super::FilterBitsBuilder;
use crate::key;
use esker_base::{Result, SequenceNumber, ValueType};

/// Largest size in bytes that is tried. Beyond it a partition gets one key for each byte.
const MOST_TRIED_BYTES: usize = 100_000;

/// A part of a filter.
#[derive(Debug)]
pub struct FilterPartition {
    /// An internal key.
    pub separator: Vec<u8>,
    /// As of a full filter.
    pub contents: Vec<u8>,
}

/// Collects the keys of a table for a filter of parts.
#[derive(Debug)]
pub struct PartitionedFilterBuilder {
    bits: FilterBitsBuilder,
    keys_per_partition: usize,
    whole_keys: bool,
    /// The oldest timestamp; empty if keys have none. Keys come without timestamps.
    min_timestamp: Vec<u8>,
    partitions: Vec<FilterPartition>,
    entries_in_partitions: usize,
    bytes_in_partitions: usize,
    previous_key: Vec<u8>,
    /// The previous key's prefix, if it has one.
    previous_prefix: Option<usize>,
}

impl PartitionedFilterBuilder {
    /// A builder of partitions of about `partition_bytes`. `whole_keys`: keys are added, not only
    /// their prefixes.
    pub fn new(
        bits: FilterBitsBuilder,
        partition_bytes: usize,
        whole_keys: bool,
        has_prefixes: bool,
    ) -> PartitionedFilterBuilder {
        let mut keys_per_partition = bits.approximate_num_entries(partition_bytes);
        let mut larger = (partition_bytes + 4).max(16);
        while keys_per_partition == 0 {
            keys_per_partition = bits.approximate_num_entries(larger);
            larger += larger / 4;
            if larger > MOST_TRIED_BYTES {
                keys_per_partition = partition_bytes.max(1);
            }
        }
        if keys_per_partition > 1 && has_prefixes {
            // Leaves room for the next key's prefix, which is added after the count is checked.
            keys_per_partition -= 1;
        }
        PartitionedFilterBuilder {
            bits,
            keys_per_partition,
            whole_keys,
            min_timestamp: Vec::new(),
            partitions: Vec::new(),
            entries_in_partitions: 0,
            bytes_in_partitions: 0,
            previous_key: Vec::new(),
            previous_prefix: None,
        }
    }

    /// The table's keys and separators end in timestamps; a separator gets `min_timestamp`, the
    /// oldest.
    #[must_use]
    pub fn with_timestamps(mut self, min_timestamp: &[u8]) -> PartitionedFilterBuilder {
        self.min_timestamp = min_timestamp.to_vec();
        self
    }

    /// Whether the part has as many entries as it should have.
    pub fn is_full(&self) -> bool {
        self.bits.num_entries() >= self.keys_per_partition
    }

    /// Adds a user key (without timestamp) and the prefix it may have.
    pub fn add(&mut self, user_key: &[u8], prefix: Option<&[u8]>) {
        match (self.whole_keys, prefix) {
            (true, Some(prefix)) => self.bits.add_key_and_prefix(user_key, prefix),
            (true, None) => self.bits.add_key(user_key),
            (false, Some(prefix)) => self.bits.add_key(prefix),
            (false, None) => {}
        }
        self.previous_key.clear();
        self.previous_key.extend_from_slice(user_key);
        self.previous_prefix = prefix.map(<[u8]>::len);
    }

    /// Ends the partition before a key with the prefix `next_prefix`. Without a `separator`, the
    /// last key is the separator.
    pub fn cut(&mut self, next_prefix: Option<&[u8]>, separator: Option<&[u8]>) {
        if let Some(prefix) = next_prefix {
            if self.whole_keys {
                self.bits.add_key_and_prefix(prefix, prefix);
            } else {
                self.bits.add_key(prefix);
            }
        }
        self.end_partition(separator);
        if let Some(prefix) = self.previous_prefix.and_then(|length| self.previous_key.get(..length)) {
            self.bits.add_key(prefix);
        }
    }

    /// Ends the last part, if anything is in it.
    pub fn finish(&mut self, separator: Option<&[u8]>) {
        if self.bits.num_entries() > 0 {
            self.end_partition(separator);
        }
    }

    fn end_partition(&mut self, separator: Option<&[u8]>) {
        self.entries_in_partitions += self.bits.num_entries();
        let separator = separator.map_or_else(
            || {
                // The oldest timestamp sorts behind all others of its key.
                let last = [&self.previous_key[..], &self.min_timestamp].concat();
                key::internal_key(&last, SequenceNumber(0), ValueType::Deletion)
            },
            <[u8]>::to_vec,
        );
        let contents = self.bits.finish();
        self.bytes_in_partitions += contents.len();
        self.partitions.push(FilterPartition { separator, contents });
    }

    /// Whether all finished parts were found to be right.
    /// # Errors
    /// As of [`FilterBitsBuilder::status`].
    pub fn status(&self) -> Result<()> {
        self.bits.status()
    }

    /// Entries of all parts.
    pub fn num_entries(&self) -> usize {
        self.entries_in_partitions + self.bits.num_entries()
    }

    /// About how many bytes all parts have.
    pub fn estimated_bytes(&self) -> usize {
        self.bytes_in_partitions + self.bits.estimated_bytes()
    }

    /// The parts, after `finish`.
    pub fn take_partitions(&mut self) -> Vec<FilterPartition> {
        std::mem::take(&mut self.partitions)
    }
}

#[cfg(test)]
mod tests;
