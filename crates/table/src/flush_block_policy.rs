//! Policies that end data blocks.
//!
//! In: the entries of a table, in order, and the size of its current block. Out: whether the block
//! ends before an entry. The writer has RocksDB's rule by size built in and calls no policy unless
//! the options have a factory. Source: RocksDB `include/rocksdb/flush_block_policy.h`,
//! `table/block_based/flush_block_policy.cc`.

use crate::options::BlockBasedTableOptions;
use esker_format::block::BlockBuilder;
use esker_format::trailer::TRAILER_BYTES;
use std::fmt;
use std::sync::Arc;

/// The data block of a table that is being written, as a [`FlushBlockPolicy`] sees it.
#[derive(Debug)]
pub struct DataBlockInProgress<'a> {
    block: &'a BlockBuilder,
}

impl<'a> DataBlockInProgress<'a> {
    pub(crate) fn new(block: &'a BlockBuilder) -> DataBlockInProgress<'a> {
        DataBlockInProgress { block }
    }

    /// Whether the block has no entry.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Bytes of the block if it ended now, before compression and without its trailer.
    pub fn current_size_estimate(&self) -> usize {
        self.block.size_estimate()
    }

    /// RocksDB's estimate of the bytes with one more entry. `key` is an internal key.
    pub fn estimate_size_after_kv(&self, key: &[u8], value: &[u8]) -> usize {
        self.block.size_estimate_after(key, value)
    }
}

/// Decides where the data blocks of one table end.
///
/// The writer asks for each point entry of the table, in key order. Range tombstones have a block
/// of their own.
pub trait FlushBlockPolicy: Send {
    /// Whether the block ends before the entry. `key` is an internal key: a user key, then 8 bytes
    /// with sequence number and type. The answer has no effect while the block is empty. The writer
    /// ends a block of nearly 4 GiB whatever the answer.
    fn update(&mut self, key: &[u8], value: &[u8], block: &DataBlockInProgress<'_>) -> bool;
}

/// Makes a policy for each table.
///
/// ```
/// use esker_table::flush_block_policy::{
///     DataBlockInProgress, FlushBlockPolicy, FlushBlockPolicyFactory,
/// };
/// use esker_table::BlockBasedTableOptions;
/// use std::sync::Arc;
///
/// /// Blocks of one user each: keys begin with a user's 4 bytes.
/// struct ByUser;
/// struct Users(Vec<u8>);
///
/// impl FlushBlockPolicyFactory for ByUser {
///     fn name(&self) -> &str {
///         "example.ByUser"
///     }
///     fn flush_block_policy(&self, _: &BlockBasedTableOptions) -> Box<dyn FlushBlockPolicy> {
///         Box::new(Users(Vec::new()))
///     }
/// }
///
/// impl FlushBlockPolicy for Users {
///     fn update(&mut self, key: &[u8], _: &[u8], _: &DataBlockInProgress<'_>) -> bool {
///         let user = &key[..key.len().min(4)];
///         let ends = self.0 != user;
///         self.0 = user.to_vec();
///         ends
///     }
/// }
///
/// let options = BlockBasedTableOptions::default()
///     .flush_block_policy_factory(Arc::new(ByUser) as Arc<dyn FlushBlockPolicyFactory>);
/// assert!(options.flush_block_policy_factory.is_some());
/// ```
pub trait FlushBlockPolicyFactory: Send + Sync {
    /// The factory's name in OPTIONS files. A table does not record it: readers need no policy.
    fn name(&self) -> &str;
    /// A policy for one table with these options.
    fn flush_block_policy(&self, table_options: &BlockBasedTableOptions) -> Box<dyn FlushBlockPolicy>;
}

/// A shared factory.
pub type FlushBlockPolicyFactoryRef = Arc<dyn FlushBlockPolicyFactory>;

impl fmt::Debug for dyn FlushBlockPolicyFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlushBlockPolicyFactory({})", self.name())
    }
}

/// RocksDB's rule by size, as a policy to which policies of programs can delegate. Tables whose
/// options have no factory follow the same rule without a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushBlockBySizePolicyFactory;

impl FlushBlockBySizePolicyFactory {
    /// The factory's name in OPTIONS files.
    pub const NAME: &'static str = "FlushBlockBySizePolicyFactory";

    /// A policy for blocks of about `size` bytes. A block that is fuller than `100 - deviation`
    /// percent ends rather than exceed that size.
    pub fn policy(size: usize, deviation: u32) -> Box<dyn FlushBlockPolicy> {
        Box::new(BlockSizePolicy { size, deviation, align: false })
    }
}

impl FlushBlockPolicyFactory for FlushBlockBySizePolicyFactory {
    fn name(&self) -> &str {
        FlushBlockBySizePolicyFactory::NAME
    }
    fn flush_block_policy(&self, table_options: &BlockBasedTableOptions) -> Box<dyn FlushBlockPolicy> {
        let BlockBasedTableOptions { block_size, block_size_deviation, block_align, .. } = *table_options;
        let (size, deviation, align) = (block_size, block_size_deviation, block_align);
        Box::new(BlockSizePolicy { size, deviation, align })
    }
}

/// Ends blocks by [`exceeds_block_size`].
struct BlockSizePolicy {
    size: usize,
    deviation: u32,
    align: bool,
}

impl FlushBlockPolicy for BlockSizePolicy {
    fn update(&mut self, key: &[u8], value: &[u8], block: &DataBlockInProgress<'_>) -> bool {
        if block.is_empty() {
            return false;
        }
        let size = block.current_size_estimate();
        size >= self.size || {
            let after = block.estimate_size_after_kv(key, value);
            exceeds_block_size(size, after, self.size, self.deviation, self.align)
        }
    }
}

/// Whether a block of `size` bytes, smaller than `block_size`, is nearly full and would exceed
/// `block_size` with an entry that makes it `after` bytes long. Aligned blocks never exceed it.
#[inline]
pub(crate) fn exceeds_block_size(
    size: usize,
    after: usize,
    block_size: usize,
    deviation: u32,
    align: bool,
) -> bool {
    if align {
        return after + TRAILER_BYTES > block_size;
    }
    let deviation = u64::from(deviation.min(100));
    let nearly_full = (block_size as u64 * (100 - deviation)).div_ceil(100);
    after > block_size && deviation > 0 && size as u64 > nearly_full
}

/// Ends a block before every key: blocks of one entry.
///
/// ```
/// use esker_table::BlockBasedTableOptions;
/// use esker_table::flush_block_policy::{FlushBlockEveryKeyPolicyFactory, FlushBlockPolicyFactory};
/// use std::sync::Arc;
///
/// let every: Arc<dyn FlushBlockPolicyFactory> = Arc::new(FlushBlockEveryKeyPolicyFactory);
/// let options = BlockBasedTableOptions::default().flush_block_policy_factory(every);
/// assert!(options.flush_block_policy_factory.is_some());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlushBlockEveryKeyPolicyFactory;

impl FlushBlockEveryKeyPolicyFactory {
    /// The factory's name in OPTIONS files.
    pub const NAME: &'static str = "FlushBlockEveryKeyPolicyFactory";
}

impl FlushBlockPolicyFactory for FlushBlockEveryKeyPolicyFactory {
    fn name(&self) -> &str {
        FlushBlockEveryKeyPolicyFactory::NAME
    }
    fn flush_block_policy(&self, _table_options: &BlockBasedTableOptions) -> Box<dyn FlushBlockPolicy> {
        Box::new(BlockOfOneEntry)
    }
}

struct BlockOfOneEntry;

impl FlushBlockPolicy for BlockOfOneEntry {
    fn update(&mut self, _key: &[u8], _value: &[u8], block: &DataBlockInProgress<'_>) -> bool {
        !block.is_empty()
    }
}
