//! A table block by block, for tools and tests such as `sst_dump`.

use crate::block_source::{BlockKind, CachedBlock};
use crate::options::TableReadOptions;
use crate::readahead::Readahead;
use crate::reader::TableReader;
use esker_base::Result;
use esker_format::block::{Block, BlockCursor, is_marked_uniform};
use esker_format::footer::Footer;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexCursor, IndexShape};
use esker_format::meta_index::{INDEX, MetaIndex, RANGE_DEL};
use esker_format::properties::IndexType;

/// Bytes of one read of a whole table. RocksDB's number, `file/file_util.cc`.
const WHOLE_FILE_READAHEAD: usize = 256 << 10;

/// A data block as its table's index describes it.
#[derive(Debug)]
pub struct DataBlock<'a> {
    /// The block's place in the file.
    pub handle: BlockHandle,
    /// The block's separator: a user key or an internal key, see [`TableReader::index_shape`].
    pub separator: &'a [u8],
    /// The block's first internal key, if the index has first keys.
    pub first_key: Option<&'a [u8]>,
    /// The block.
    pub block: &'a Block,
}

/// Sees an entry: internal key as stored, and value.
pub type EntryVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

impl DataBlock<'_> {
    /// Calls `visit` with each entry (internal key as stored, value).
    /// # Errors
    /// `Corruption`, or the first error of `visit`.
    pub fn for_each(&self, visit: &mut EntryVisitor<'_>) -> Result<()> {
        let mut cursor = BlockCursor::new();
        cursor.seek_to_first(self.block)?;
        while cursor.valid() {
            visit(cursor.key(), cursor.value(self.block))?;
            cursor.next(self.block)?;
        }
        Ok(())
    }
}

impl TableReader {
    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Names and places of the blocks in the meta index.
    pub fn meta_index(&self) -> &MetaIndex {
        &self.meta
    }

    /// The shape of the index's entries.
    pub fn index_shape(&self) -> IndexShape {
        self.index_shape
    }

    /// Readahead for all data blocks in order. It does not use the cache.
    pub(crate) fn whole_file_readahead(&self) -> Readahead {
        Readahead::new(&self.options.table_options, WHOLE_FILE_READAHEAD)
    }

    /// Visits all data blocks in order, read from the file and checked.
    /// # Errors
    /// `Corruption`, `IoError`, or the first error of `visit`.
    pub fn for_each_data_block(&self, visit: &mut dyn FnMut(DataBlock<'_>) -> Result<()>) -> Result<()> {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let mut walker = self.walker(&options)?;
        let (mut readahead, kind) = (self.whole_file_readahead(), BlockKind::Data);
        walker.seek_to_first(&self.source, &options).map_err(|e| self.source.in_file(e))?;
        while walker.valid() {
            let handle = walker.handle();
            if let CachedBlock::KeyValue(block) =
                &self.source.read_with((&mut readahead, false), handle, kind, true)?
            {
                let first_key = walker.first_key().map_err(|e| self.source.in_file(e))?;
                visit(DataBlock { handle, separator: walker.separator(), first_key, block })?;
            }
            walker.next(&self.source, &options).map_err(|e| self.source.in_file(e))?;
        }
        Ok(())
    }

    /// Visits all range tombstones as they are stored (value = end key), read from the file and
    /// checked.
    /// # Errors
    /// `Corruption`, `IoError`, or the first error of `visit`.
    pub fn for_each_stored_tombstone(&self, visit: &mut EntryVisitor<'_>) -> Result<()> {
        let Some(handle) = self.meta.find(RANGE_DEL) else { return Ok(()) };
        match &self.source.read(handle, BlockKind::Meta, true)? {
            CachedBlock::KeyValue(block) => {
                DataBlock { handle, separator: &[], first_key: None, block }.for_each(visit)
            }
            _ => Ok(()),
        }
    }

    /// The decompressed contents of the block at `handle`: the index, or a block in the meta index.
    /// # Errors
    /// `Corruption`, `IoError`.
    pub fn block_contents(&self, handle: BlockHandle) -> Result<Vec<u8>> {
        let block = self.source.read(handle, BlockKind::Filter, true)?;
        Ok(block.bytes().to_vec())
    }

    /// Whether a block of its index is marked as one of evenly spread keys (RocksDB 11.1).
    /// # Errors
    /// `Corruption`, `IoError`.
    pub fn has_uniform_index(&self) -> Result<bool> {
        let Some(top) = self.footer.index.or_else(|| self.meta.find(INDEX)) else { return Ok(false) };
        let contents = self.block_contents(top)?;
        let is_two_level = self.properties().index_type == Some(IndexType::TwoLevel as u32);
        if is_marked_uniform(&contents) || !is_two_level {
            return Ok(is_marked_uniform(&contents));
        }
        let block = Block::parse_prefixed(contents).map_err(|e| self.source.in_file(e))?;
        let mut cursor = IndexCursor::new(self.index_shape);
        cursor.seek_to_first(&block).map_err(|e| self.source.in_file(e))?;
        while cursor.valid() {
            if is_marked_uniform(&self.block_contents(cursor.handle())?) {
                return Ok(true);
            }
            cursor.next(&block).map_err(|e| self.source.in_file(e))?;
        }
        Ok(false)
    }
}
