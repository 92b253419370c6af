//! One block-based table in memory.
//!
//! In: the bytes of the table, and its description in the MANIFEST. Out: its entries in order, and
//! its range tombstones.
//! Source: RocksDB `table/block_based/block_based_table_reader.cc`.
//!
//! Invariant: the checksum of every block is checked before the block is parsed.

use crate::before_all_versions;
use crate::files::DirectoryFiles;
use crate::merge::ReadTime;
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_format::block::{Block, BlockCursor};
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::footer::{FOOTER_BYTES, Footer};
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexCursor, IndexShape};
use esker_format::key::{self, InternalKeyComparator, ParsedInternalKey, RANGE_END_SENTINEL};
use esker_format::meta_index::{self, MetaIndex};
use esker_format::properties::{IndexType, TableProperties};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};
use esker_format::trailer::TRAILER_BYTES;
use esker_format::version_edit::FileMetaData;
use std::borrow::Cow;
use std::cmp::Ordering;

/// An open table.
#[derive(Debug)]
pub(crate) struct TableBytes {
    name: String,
    meta: FileMetaData,
    footer: Footer,
    shape: IndexShape,
    /// A separator for each data block, and its handle.
    blocks: Vec<(Vec<u8>, BlockHandle)>,
    data: Decompressor,
    /// The sequence number of all entries, if an ingestion gave one.
    global_seqno: Option<SequenceNumber>,
    /// The timestamp of all keys, if the table stores keys without them; else empty.
    padding: Vec<u8>,
    tombstones: Vec<RangeTombstone>,
}

/// The bytes of a table, and the way to read a block of them.
struct Source<'a> {
    bytes: &'a [u8],
    footer: &'a Footer,
}

impl Source<'_> {
    fn contents(&self, handle: BlockHandle, decompressor: &Decompressor) -> Result<Vec<u8>> {
        let stored = self.stored(handle)?;
        let code = self.footer.guard.check(stored, handle.offset)?;
        let stored = stored.get(..stored.len() - TRAILER_BYTES).unwrap_or_default();
        decompressor.decompress(CompressionType::from_u8(code)?, stored)
    }

    fn stored(&self, handle: BlockHandle) -> Result<&[u8]> {
        handle.check_within(self.bytes.len() as u64)?;
        let range = handle
            .end()
            .and_then(|end| Some(usize::try_from(handle.offset).ok()?..usize::try_from(end).ok()?));
        range
            .and_then(|range| self.bytes.get(range))
            .ok_or_else(|| Error::corruption("a block outside of its file"))
    }

    /// A block of another kind than data or index.
    fn meta_block(&self, handle: BlockHandle) -> Result<Block> {
        Block::parse(self.contents(handle, &self.plain())?)
    }

    /// A data or index block, whose keys may have a common prefix.
    fn block(&self, handle: BlockHandle, decompressor: &Decompressor) -> Result<Block> {
        let contents = self.contents(handle, decompressor)?;
        if self.footer.format_version >= 8 { Block::parse_prefixed(contents) } else { Block::parse(contents) }
    }

    /// The decompressor of blocks that use no dictionary.
    fn plain(&self) -> Decompressor {
        Decompressor::new(self.footer.format_version)
    }

    /// Reads the properties. An ingestion may have written a sequence number into the block,
    /// without a new checksum: the checksum is that of the block with zeros in the place.
    fn properties(&self, handle: BlockHandle) -> Result<TableProperties> {
        let mismatch = match self.meta_block(handle) {
            Ok(block) => return TableProperties::parse(&block),
            Err(e) => e,
        };
        let mut stored = self.stored(handle)?.to_vec();
        let contents = stored.get(..stored.len() - TRAILER_BYTES).unwrap_or_default().to_vec();
        let Ok(properties) = Block::parse(contents).and_then(|block| TableProperties::parse(&block)) else {
            return Err(mismatch);
        };
        match properties.global_seqno_offset.and_then(|at| stored.get_mut(at..at + 8)) {
            Some(value) => value.fill(0),
            None => return Err(mismatch),
        }
        self.footer.guard.check(&stored, handle.offset).map_err(|_| mismatch)?;
        Ok(properties)
    }
}

impl TableBytes {
    /// Opens a table.
    /// # Errors
    /// `Corruption` · `NotSupported`; both name the file.
    pub(crate) fn open(
        files: &DirectoryFiles,
        meta: &FileMetaData,
        icmp: &InternalKeyComparator,
    ) -> Result<TableBytes> {
        let (name, bytes) = files.table(meta.number)?;
        TableBytes::parse(name.clone(), bytes, meta, icmp).map_err(|e| e.at(&name))
    }

    fn parse(
        name: String,
        bytes: &[u8],
        meta: &FileMetaData,
        icmp: &InternalKeyComparator,
    ) -> Result<TableBytes> {
        if bytes.len() as u64 != meta.file_size {
            let (is, should) = (bytes.len(), meta.file_size);
            return Err(Error::corruption(format!("the file has {is} bytes, the MANIFEST says {should}")));
        }
        let tail = bytes.get(bytes.len().saturating_sub(FOOTER_BYTES)..).unwrap_or_default();
        let footer = Footer::parse(tail, meta.file_size)?;
        let source = Source { bytes, footer: &footer };
        let meta_index = MetaIndex::parse(&source.meta_block(footer.meta_index)?, meta.file_size)?;
        let properties = match meta_index.properties() {
            Some(handle) => source.properties(handle)?,
            None => TableProperties::absent(),
        };
        check_readable(&properties, footer.format_version)?;
        let mut data = source.plain();
        if let Some(handle) = meta_index.find(meta_index::COMPRESSION_DICT) {
            data = data.with_dictionary(source.contents(handle, &source.plain())?);
        }
        let global_seqno = global_seqno(&properties, meta.largest_seqno);
        let is_stored = properties.user_defined_timestamps_persisted;
        let padding = if is_stored { Vec::new() } else { icmp.min_timestamp().to_vec() };
        let tombstones = match meta_index.find(meta_index::RANGE_DEL) {
            Some(handle) => tombstones(&source.meta_block(handle)?, global_seqno, &padding)?,
            None => Vec::new(),
        };
        let shape = IndexShape {
            key_is_user_key: properties.index_key_is_user_key,
            value_is_delta_encoded: properties.index_value_is_delta_encoded,
            with_first_key: properties.index_type == Some(IndexType::BinarySearchWithFirstKey as u32),
            value_escapes: properties.index_value_is_delta_encoded && footer.format_version >= 8,
        };
        let index = footer.index.or_else(|| meta_index.find(meta_index::INDEX));
        let index = index.ok_or_else(|| Error::corruption("the table has no index"))?;
        let is_partitioned = properties.index_type == Some(IndexType::TwoLevel as u32);
        let blocks = blocks_of_index(&source, index, shape, is_partitioned)?;
        let meta = meta.clone();
        Ok(TableBytes { name, meta, footer, shape, blocks, data, global_seqno, padding, tombstones })
    }

    /// Whether the key, which has no timestamp, lies between the bounds of the table.
    pub(crate) fn may_contain(&self, user_key: &[u8], time: &ReadTime<'_>) -> bool {
        let [first, last] = [&self.meta.smallest, &self.meta.largest].map(|internal| {
            let stored = key::user_key(internal);
            let has_timestamp = !self.meta.user_defined_timestamps_not_persisted;
            if has_timestamp { time.icmp.split_timestamp(stored).0 } else { stored }
        });
        let smallest = time.plain.compare_user_keys(first, user_key);
        let largest = time.plain.compare_user_keys(user_key, last);
        let is_exclusive = key::trailer(&self.meta.largest) == RANGE_END_SENTINEL;
        smallest != Ordering::Greater
            && (largest == Ordering::Less || largest == Ordering::Equal && !is_exclusive)
    }
}

/// The separators and handles of all data blocks.
fn blocks_of_index(
    source: &Source<'_>,
    index: BlockHandle,
    shape: IndexShape,
    is_partitioned: bool,
) -> Result<Vec<(Vec<u8>, BlockHandle)>> {
    let mut blocks = Vec::new();
    if is_partitioned {
        let mut parts = Vec::new();
        entries_of_index(source, index, shape, &mut parts)?;
        parts.iter().try_for_each(|(_, part)| entries_of_index(source, *part, shape, &mut blocks))?;
    } else {
        entries_of_index(source, index, shape, &mut blocks)?;
    }
    Ok(blocks)
}

/// Appends the separators and handles of an index block.
/// # Errors
/// `Corruption`: a block is damaged, or `out` has more handles than the file has room for blocks.
/// Otherwise a small file that names one partition again and again would take all memory.
fn entries_of_index(
    source: &Source<'_>,
    handle: BlockHandle,
    shape: IndexShape,
    out: &mut Vec<(Vec<u8>, BlockHandle)>,
) -> Result<()> {
    let block = source.block(handle, &source.plain())?;
    let mut cursor = IndexCursor::new(shape);
    cursor.seek_to_first(&block)?;
    while cursor.valid() {
        if out.len() >= source.bytes.len() / TRAILER_BYTES {
            return Err(Error::corruption("the index has more blocks than the file"));
        }
        out.push((cursor.separator().to_vec(), cursor.handle()));
        cursor.next(&block)?;
    }
    Ok(())
}

fn check_readable(properties: &TableProperties, format_version: u32) -> Result<()> {
    if let Some(code) = properties.index_type {
        IndexType::from_u32(code)?;
    }
    if properties.udi_is_primary_index {
        return Err(Error::not_supported("tables with a user-defined primary index"));
    }
    if properties.has_embedded_blobs() {
        return Err(Error::not_supported("tables with embedded blobs"));
    }
    let manager = properties.compression_name.split(';').next().unwrap_or_default();
    if format_version >= 7 && !matches!(manager, "" | "BuiltinV2") {
        return Err(Error::not_supported(format!("tables of the compression manager '{manager}'")));
    }
    Ok(())
}

/// The sequence number that an ingestion gave to all entries of the table, if it gave one.
fn global_seqno(properties: &TableProperties, largest: SequenceNumber) -> Option<SequenceNumber> {
    let is_ingested = properties.external_sst_file_version.unwrap_or(0) >= 2;
    let written = SequenceNumber(properties.external_sst_file_global_seqno.unwrap_or(0));
    let number = if written.0 == 0 { largest } else { written };
    (is_ingested && number.0 != 0).then_some(number)
}

fn tombstones(
    block: &Block,
    global_seqno: Option<SequenceNumber>,
    padding: &[u8],
) -> Result<Vec<RangeTombstone>> {
    let mut all: Vec<RangeTombstone> = Vec::new();
    let mut cursor = BlockCursor::new();
    cursor.seek_to_first(block)?;
    while cursor.valid() {
        let mut tombstone = RangeTombstoneRef::parse(cursor.key(), cursor.value(block))?.to_owned();
        tombstone.seq = global_seqno.unwrap_or(tombstone.seq);
        tombstone.start.extend_from_slice(padding);
        tombstone.end.extend_from_slice(padding);
        all.push(tombstone);
        cursor.next(block)?;
    }
    Ok(all)
}

/// A place in a table.
#[derive(Debug)]
pub(crate) struct TableCursor<'a> {
    table: &'a TableBytes,
    bytes: &'a [u8],
    time: &'a ReadTime<'a>,
    /// The range tombstones that the read sees.
    tombstones: FragmentedRangeTombstones,
    /// Index of the block behind the current one.
    next_block: usize,
    block: Option<Block>,
    cursor: BlockCursor,
    /// The internal key here; empty if the cursor has no position.
    key: Vec<u8>,
}

impl<'a> TableCursor<'a> {
    /// A cursor without a position.
    pub(crate) fn new(
        table: &'a TableBytes,
        files: &'a DirectoryFiles,
        time: &'a ReadTime<'a>,
    ) -> Result<TableCursor<'a>> {
        let (_, bytes) = files.table(table.meta.number)?;
        Ok(TableCursor {
            table,
            bytes,
            time,
            tombstones: time.seen(&table.tombstones),
            next_block: 0,
            block: None,
            cursor: BlockCursor::new(),
            key: Vec::new(),
        })
    }

    /// The internal key here; `None` behind the last.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        Some(self.key.as_slice()).filter(|key| !key.is_empty())
    }

    /// The value here.
    pub(crate) fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| self.cursor.value(block))
    }

    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        (self.next_block, self.block) = (0, None);
        self.settle()
    }

    /// The sequence number of the newest range tombstone of this table over the key, which has no
    /// timestamp. A tombstone reaches no further than the bounds of its table.
    pub(crate) fn newest_cover(&self, user_key: &[u8]) -> SequenceNumber {
        if self.tombstones.is_empty() || !self.table.may_contain(user_key, self.time) {
            return SequenceNumber::ZERO;
        }
        self.tombstones.max_covering_seq(user_key, &self.time.plain, SequenceNumber::MAX)
    }

    /// Moves to the first entry whose key, without its timestamp, is at or after `user_key`.
    pub(crate) fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        let icmp = if self.table.padding.is_empty() { self.time.icmp } else { &self.time.plain };
        let target = before_all_versions(user_key, icmp);
        let is_before = |separator: &[u8]| match self.table.shape.key_is_user_key {
            true => icmp.compare_user_keys(separator, key::user_key(&target)).is_lt(),
            false => icmp.compare(separator, &target).is_lt(),
        };
        self.next_block = self.table.blocks.partition_point(|(separator, _)| is_before(separator));
        if self.load()?
            && let Some(block) = &self.block
        {
            self.cursor.seek(block, &target, icmp).map_err(|e| e.at(&self.table.name))?;
        }
        self.settle()
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        if let Some(block) = &self.block {
            self.cursor.next(block).map_err(|e| e.at(&self.table.name))?;
        }
        self.settle()
    }

    /// Loads the next block; false behind the last.
    fn load(&mut self) -> Result<bool> {
        let Some((_, handle)) = self.table.blocks.get(self.next_block) else {
            self.block = None;
            return Ok(false);
        };
        let source = Source { bytes: self.bytes, footer: &self.table.footer };
        let block = source.block(*handle, &self.table.data).map_err(|e| e.at(&self.table.name))?;
        self.block = Some(block);
        self.cursor.reset();
        self.next_block += 1;
        Ok(true)
    }

    /// Moves to the next block if the current block has ended, and makes the key.
    fn settle(&mut self) -> Result<()> {
        self.key.clear();
        while self.block.is_none() || !self.cursor.valid() {
            if !self.load()? {
                return Ok(());
            }
            if let Some(block) = &self.block {
                self.cursor.seek_to_first(block).map_err(|e| e.at(&self.table.name))?;
            }
        }
        let parsed = ParsedInternalKey::parse(self.cursor.key()).map_err(|e| e.at(&self.table.name))?;
        let sequence = self.table.global_seqno.unwrap_or(parsed.sequence);
        let padded = match self.table.padding.as_slice() {
            [] => Cow::Borrowed(parsed.user_key),
            padding => Cow::Owned([parsed.user_key, padding].concat()),
        };
        key::append_internal_key(&mut self.key, &padded, sequence, parsed.value_type);
        Ok(())
    }
}

/// Whether entries of this type hide older versions and stand for a deleted key.
pub(crate) fn is_deletion(kind: ValueType) -> bool {
    matches!(kind, ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_format::block::BlockBuilder;

    /// Appends an index block with these handles, and returns its handle.
    fn append_index(file: &mut Vec<u8>, footer: &Footer, handles: &[BlockHandle]) -> BlockHandle {
        let mut block = BlockBuilder::new(1);
        for (number, handle) in (0_u32..).zip(handles) {
            let mut value = Vec::new();
            handle.encode(&mut value);
            block.add(&key::internal_key(&number.to_be_bytes(), SequenceNumber(0), ValueType::Value), &value);
        }
        let mut contents = block.finish().to_vec();
        let handle = BlockHandle { offset: file.len() as u64, size: contents.len() as u64 };
        footer.guard.append_trailer(&mut contents, 0, CompressionType::None as u8, handle.offset);
        file.extend_from_slice(&contents);
        handle
    }

    #[test]
    fn an_index_that_names_a_partition_again_and_again_is_damage() {
        let footer = Footer {
            format_version: 5,
            guard: Default::default(),
            meta_index: BlockHandle::default(),
            index: None,
        };
        let mut bytes = Vec::new();
        let data = [BlockHandle::default(); 100];
        let part = append_index(&mut bytes, &footer, &data);
        let few = append_index(&mut bytes, &footer, &[part; 3]);
        let many = append_index(&mut bytes, &footer, &[part; 100]);
        let source = Source { bytes: &bytes, footer: &footer };
        let blocks = |index| blocks_of_index(&source, index, IndexShape::default(), true);
        assert_eq!(blocks(few).unwrap().len(), 300);
        let error = blocks(many).unwrap_err();
        assert!(error.to_string().contains("more blocks than the file"), "{error}");
    }
}
