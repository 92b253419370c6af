//! The meta index: names and handles of a table's other blocks.
//!
//! In: a key/value block of names and handles. Out: [`MetaIndex`], and back. Unknown names are
//! skipped. Source: RocksDB `table/meta_blocks.cc`,
//! `table/block_based/block_based_table_builder.cc`.
//!
//! Page: `docs/format/sst.md`.

use crate::block::{Block, BlockBuilder, BlockCursor};
use crate::handle::BlockHandle;
use esker_base::coding::Decoder;
use esker_base::{Error, Result};
use std::collections::BTreeMap;

/// Properties of the table.
pub const PROPERTIES: &str = "rocksdb.properties";
/// The name of the properties in very old tables.
const OLD_PROPERTIES: &str = "rocksdb.stats";
/// The index, since format version 6.
pub const INDEX: &str = "rocksdb.index";
/// The compression dictionary.
pub const COMPRESSION_DICT: &str = "rocksdb.compression_dict";
/// The range tombstones.
pub const RANGE_DEL: &str = "rocksdb.range_del";
/// Precedes the name of a full filter's form.
pub const FULL_FILTER_PREFIX: &str = "fullfilter.";
/// Precedes the name of a partitioned filter's form.
pub const PARTITIONED_FILTER_PREFIX: &str = "partitionedfilter.";
/// A full filter of one of the built-in kinds.
pub const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// The index of the partitions of a filter.
pub const PARTITIONED_FILTER: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
/// Prefixes of a hash index, back to back.
pub const HASH_INDEX_PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// For each prefix of a hash index: its length, its first index entry, and its number of entries.
pub const HASH_INDEX_METADATA: &str = "rocksdb.hashindex.metadata";

/// Names and handles of a table's other blocks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetaIndex {
    blocks: BTreeMap<Vec<u8>, BlockHandle>,
}

impl MetaIndex {
    /// Parses the meta index of a file of `file_size` bytes.
    /// # Errors
    /// `Corruption` if the block is malformed, names are out of order or a handle leaves the file.
    pub fn parse(block: &Block, file_size: u64) -> Result<MetaIndex> {
        let mut blocks = BTreeMap::new();
        let mut cursor = BlockCursor::new();
        cursor.seek_to_first(block)?;
        while cursor.valid() {
            let name = cursor.key();
            if blocks.last_key_value().is_some_and(|(last, _): (&Vec<u8>, _)| last.as_slice() >= name) {
                return Err(Error::corruption("meta index: names are not strictly ascending"));
            }
            let handle = BlockHandle::decode(&mut Decoder::new(cursor.value(block)))?;
            handle.check_within(file_size)?;
            blocks.insert(name.to_vec(), handle);
            cursor.next(block)?;
        }
        Ok(MetaIndex { blocks })
    }

    /// The handle of the block with this name.
    pub fn find(&self, name: &str) -> Option<BlockHandle> {
        self.blocks.get(name.as_bytes()).copied()
    }

    /// The handle of the properties, also under their old name.
    pub fn properties(&self) -> Option<BlockHandle> {
        self.find(PROPERTIES).or_else(|| self.find(OLD_PROPERTIES))
    }

    /// All names and handles, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], BlockHandle)> {
        self.blocks.iter().map(|(name, handle)| (name.as_slice(), *handle))
    }

    /// Adds the name and handle of a block.
    pub fn insert(&mut self, name: &str, handle: BlockHandle) {
        self.blocks.insert(name.as_bytes().to_vec(), handle);
    }

    /// The block's contents.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = BlockBuilder::new(1);
        let mut value = Vec::new();
        for (name, handle) in &self.blocks {
            value.clear();
            handle.encode(&mut value);
            block.add(name, &value);
        }
        block.finish();
        block.into_contents()
    }
}

#[cfg(test)]
mod tests;
