//! Opens a damaged table: its footer, and the blocks that say how its data blocks are to be read.
//!
//! In: a file. Out: a [`TableSalvage`], with a finding for each damaged part.
//!
//! Order of the attempts, from the most certain to the least:
//! 1. The footer leads to a meta index whose checksum holds.
//! 2. The footer does so after one of its bits is flipped back.
//! 3. The footer states the checksums of the blocks, and the meta index is damaged or lost.
//! 4. The footer is lost, and the first data blocks show how checksums are made.
//!
//! Without a meta index, its blocks are looked for backwards from its place: properties and range
//! deletions lie directly before it.

use super::mend::{MOST_HASHED_BYTES, mend};
use super::walk::Walker;
use super::{DamagedPart, TableSalvage, Tombstones};
use crate::block_source::{BlockKind, BlockSource, CachedBlock, may_be_damage};
use crate::open::{decompressor_by_name, first_source, parse_properties, range_tombstones, uses_dictionary};
use crate::options::TableReaderOptions;
use esker_base::sync::Arc;
use esker_base::{Error, Result, ValueType};
use esker_env::RandomAccessFile;
use esker_format::block::{Block, BlockCursor};
use esker_format::compression::manager::CompressionManagerRef;
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::footer::{FOOTER_BYTES, Footer, LEGACY_FOOTER_BYTES};
use esker_format::handle::BlockHandle;
use esker_format::key::{InternalKeyComparator, ParsedInternalKey};
use esker_format::meta_index::{self, MetaIndex};
use esker_format::properties::TableProperties;
use esker_format::trailer::{BlockGuard, ChecksumType, TRAILER_BYTES};

/// The longest block that is looked for backwards.
const MOST_META_BYTES: u64 = 64 << 10;

impl TableSalvage {
    /// Opens the table in `file`, even if only parts of it are readable.
    /// # Errors
    /// `Corruption`: no part of the file shows how its checksums are made · `NotSupported`: another
    /// kind of table, or one of a newer format · `IoError`.
    pub fn open(file: Arc<dyn RandomAccessFile>, file_size: u64) -> Result<TableSalvage> {
        let path = file.path().to_owned();
        open(file, file_size).map_err(|e| match e.message().contains(&*path.to_string_lossy()) {
            true => e,
            false => e.at(path.display()),
        })
    }

    /// Sets the manager of codecs by user code. Blocks with codes of programs count as lost without
    /// it.
    /// # Errors
    /// `NotSupported`: the table needs another manager.
    pub fn set_compression_manager(&mut self, manager: Option<&CompressionManagerRef>) -> Result<()> {
        if let Some(properties) = &self.properties {
            self.source.custom_decompressor = decompressor_by_name(properties, manager)?;
        }
        Ok(())
    }
}

fn open(file: Arc<dyn RandomAccessFile>, file_size: u64) -> Result<TableSalvage> {
    let options = TableReaderOptions::new(InternalKeyComparator::default(), Arc::default(), file_size);
    let source_of = |footer| first_source(Arc::clone(&file), &options, footer);
    let length = file_size.min(FOOTER_BYTES as u64);
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(file_size - length, &mut bytes)?;
    bytes.truncate(read);
    let parsed = Footer::parse(&bytes, file_size);
    let mut budget = MOST_HASHED_BYTES;
    let mut damaged = Vec::new();
    // A candidate whose meta index is whole comes first.
    if let Ok(footer) = parsed
        && let Ok((meta, None)) = read_meta_index(&source_of(footer), footer, file_size, &mut budget)
    {
        return Opening { source: source_of(footer), footer, budget, damaged }.finish(Some(meta));
    }
    if let Some((footer, meta)) = flipped_back(&mut bytes, file_size, &source_of) {
        let error = parsed.err().unwrap_or_else(|| Error::corruption("a flipped bit in the footer"));
        damaged.push(DamagedPart::mended("footer", file_size - length, error));
        return Opening { source: source_of(footer), footer, budget, damaged }.finish(Some(meta));
    }
    if let Ok(footer) = parsed {
        let source = source_of(footer);
        match read_meta_index(&source, footer, file_size, &mut budget) {
            Ok((meta, Some(error))) => {
                damaged.push(DamagedPart::mended("meta index", footer.meta_index.offset, error));
                return Opening { source, footer, budget, damaged }.finish(Some(meta));
            }
            Err(error) if may_be_damage(&error) => {
                if states_the_checksums(&source, footer)? {
                    damaged.push(DamagedPart::lost("meta index", footer.meta_index.offset, error));
                    return Opening { source, footer, budget, damaged }.finish(None);
                }
            }
            Err(error) => return Err(error),
            Ok((_, None)) => {}
        }
    }
    let error = match parsed {
        Err(e) if !may_be_damage(&e) => return Err(e),
        Err(e) => e,
        Ok(_) => Error::corruption("the footer leads to no block of the table"),
    };
    let Some(footer) = guessed(&source_of)? else { return Err(error) };
    damaged.push(DamagedPart::lost("footer", file_size - length, error));
    Opening { source: source_of(footer), footer, budget, damaged }.finish(None)
}

/// The meta index, and the error that mending it has removed.
fn read_meta_index(
    source: &BlockSource,
    footer: Footer,
    file_size: u64,
    budget: &mut u64,
) -> Result<(MetaIndex, Option<Error>)> {
    let (block, error) = read_or_mend(source, footer.meta_index, BlockKind::Meta, budget)?;
    let meta = MetaIndex::parse(block.key_value()?, file_size)?;
    if meta.properties().is_none() && meta.iter().next().is_some() && footer.format_version > 0 {
        return Err(Error::corruption("a meta index without properties"));
    }
    Ok((meta, error))
}

/// The block at `handle`, and the error that mending it has removed.
/// # Errors
/// `Corruption`, `NotSupported`, `IoError`.
pub(super) fn read_or_mend(
    source: &BlockSource,
    handle: BlockHandle,
    kind: BlockKind,
    budget: &mut u64,
) -> Result<(CachedBlock, Option<Error>)> {
    let error = match source.read(handle, kind, true) {
        Ok(block) => return Ok((block, None)),
        Err(e) => e,
    };
    if !may_be_damage(&error) || handle.check_within(source.file_size).is_err() {
        return Err(error);
    }
    let Ok(mut stored) = source.read_stored(handle) else { return Err(error) };
    if source.guard.check(&stored, handle.offset).is_ok() {
        return Err(error);
    }
    if !mend(&source.guard, &mut stored, handle.offset, budget) {
        return Err(error);
    }
    source.parse(stored, handle, kind, true).map(|block| (block, Some(error.clone()))).map_err(|_| error)
}

/// The footer and the meta index if one bit of the footer is flipped.
fn flipped_back(
    bytes: &mut [u8],
    file_size: u64,
    source_of: &dyn Fn(Footer) -> BlockSource,
) -> Option<(Footer, MetaIndex)> {
    for bit in 0..8 * bytes.len() {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let footer = Footer::parse(bytes, file_size).ok();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Some(footer) = footer else { continue };
        let found = read_meta_index(&source_of(footer), footer, file_size, &mut 0);
        if let Ok((meta, None)) = found {
            return Some((footer, meta));
        }
    }
    None
}

/// Whether the footer's checksums are right: its own, or that of a block.
fn states_the_checksums(source: &BlockSource, footer: Footer) -> Result<bool> {
    if footer.format_version >= 6 {
        return Ok(true);
    }
    let holds = |handle: BlockHandle| {
        source.read_checked(handle, |stored| source.guard.check(&stored, handle.offset)).is_ok()
    };
    Ok(footer.index.is_some_and(holds) || Walker::new(source).block_at(0, source.file_size)?.is_some())
}

/// A footer that fits the first data blocks. It names no block.
/// # Errors
/// `IoError`.
fn guessed(source_of: &dyn Fn(Footer) -> BlockSource) -> Result<Option<Footer>> {
    let nowhere = BlockHandle::default();
    let kinds = [ChecksumType::Xxh3, ChecksumType::Crc32c, ChecksumType::XxHash64, ChecksumType::XxHash];
    for checksum_type in kinds {
        let plain = BlockGuard { checksum_type, base_context: 0 };
        // Versions 2 to 5 store blocks in the same way; so do 6 and 7, with a base context. Since
        // version 8, keys may have a common prefix.
        let footer = Footer { format_version: 5, guard: plain, meta_index: nowhere, index: None };
        let source = source_of(footer);
        if Walker::new(&source).block_at(0, source.file_size)?.is_some() {
            return Ok(Some(footer));
        }
    }
    for (checksum_type, format_version) in kinds.into_iter().flat_map(|kind| [(kind, 6), (kind, 8)]) {
        let plain = BlockGuard { checksum_type, base_context: 0 };
        let footer = Footer { format_version, guard: plain, meta_index: nowhere, index: None };
        if let Some(guard) = guessed_context(&source_of(footer), source_of, footer)? {
            return Ok(Some(Footer { guard, ..footer }));
        }
    }
    Ok(None)
}

/// The most bytes of a first block from which the base context is computed.
const MOST_FIRST_BYTES: usize = 64 << 10;

/// The base context that makes the checksums of the first block and of the next one right. Each
/// length of the first block fits some base context, so its entries and the next block decide.
fn guessed_context(
    source: &BlockSource,
    source_of: &dyn Fn(Footer) -> BlockSource,
    footer: Footer,
) -> Result<Option<BlockGuard>> {
    let mut bytes = vec![0; usize::try_from(source.file_size).unwrap_or(usize::MAX).min(MOST_FIRST_BYTES)];
    let read = source.file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    for size in 1..bytes.len().saturating_sub(TRAILER_BYTES - 1) {
        let Some(contents) = contents_of(source, &bytes[..size], bytes[size]) else { continue };
        let block = match source.has_key_prefixes {
            true => Block::parse_prefixed(contents),
            false => Block::parse(contents),
        };
        if !block.is_ok_and(|block| has_whole_entries(&block)) {
            continue;
        }
        let stored = bytes[size + 1..].first_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
        let base_context = stored.wrapping_sub(footer.guard.checksum_type.checksum(&bytes[..=size]));
        let guard = BlockGuard { base_context, ..footer.guard };
        let source = source_of(Footer { guard, ..footer });
        let next = (size + TRAILER_BYTES) as u64;
        if base_context != 0 && Walker::new(&source).block_at(next, source.file_size)?.is_some() {
            return Ok(Some(guard));
        }
    }
    Ok(None)
}

/// The decompressed contents of a key/value block, if the bytes have the form of one.
fn contents_of(source: &BlockSource, stored: &[u8], code: u8) -> Option<Vec<u8>> {
    match CompressionType::from_u8(code).ok()? {
        CompressionType::None => Block::has_form(stored).then(|| stored.to_vec()),
        codec => source.decompressor.decompress(codec, stored).ok(),
    }
}

/// Whether all entries of the block have internal keys.
fn has_whole_entries(block: &Block) -> bool {
    let mut cursor = BlockCursor::new();
    let mut moved = cursor.seek_to_first(block);
    while moved.is_ok() && cursor.valid() {
        if ParsedInternalKey::parse(cursor.key()).is_err() {
            return false;
        }
        moved = cursor.next(block);
    }
    moved.is_ok() && !block.is_empty()
}

/// A table whose checksums are known.
struct Opening {
    source: BlockSource,
    footer: Footer,
    budget: u64,
    damaged: Vec<DamagedPart>,
}

impl Opening {
    fn finish(mut self, meta: Option<MetaIndex>) -> Result<TableSalvage> {
        let has_meta = meta.is_some();
        let (meta, mut properties, stored) = match meta {
            Some(meta) => (meta, None, None),
            None => self.find_meta_blocks()?,
        };
        if properties.is_none() {
            properties = self.read_properties(&meta)?;
        }
        if let Some(properties) = &properties {
            self.source.has_embedded_blobs = properties.has_embedded_blobs();
        }
        if properties.as_ref().is_none_or(uses_dictionary) {
            self.read_dictionary(&meta)?;
        }
        let tombstones = self.read_tombstones(&meta, stored, properties.as_ref(), has_meta)?;
        Ok(TableSalvage {
            index: self.footer.index.or_else(|| meta.find(meta_index::INDEX)),
            source: self.source,
            meta,
            properties,
            tombstones,
            damaged: self.damaged,
            budget: self.budget,
        })
    }

    /// The meta index or, if there is none, properties and range deletions, from the blocks before
    /// the place of the meta index.
    fn find_meta_blocks(&mut self) -> Result<(MetaIndex, Option<TableProperties>, Option<BlockHandle>)> {
        let size = self.source.file_size;
        let (mut properties, mut deletions) = (None, None);
        let ends = [
            self.footer.meta_index.offset,
            size.saturating_sub(FOOTER_BYTES as u64),
            size.saturating_sub(LEGACY_FOOTER_BYTES as u64),
        ];
        let mut walker = Walker::new(&self.source);
        for first in ends {
            let mut end = first;
            while let Some(handle) = walker.block_before(end, MOST_META_BYTES.min(end))? {
                end = handle.offset;
                let Ok(block) = self.source.read(handle, BlockKind::Meta, true) else { continue };
                let Ok(block) = block.key_value() else { continue };
                let meta = MetaIndex::parse(block, size).ok().filter(|meta| meta.properties().is_some());
                if let Some(meta) = meta {
                    return Ok((meta, None, None));
                }
                if let Some(found) = as_properties(block) {
                    properties = properties.or(Some(found));
                } else if holds_range_deletions(block) {
                    deletions = deletions.or(Some(handle));
                }
            }
            if properties.is_some() {
                break;
            }
        }
        Ok((MetaIndex::default(), properties, deletions))
    }

    fn read_properties(&mut self, meta: &MetaIndex) -> Result<Option<TableProperties>> {
        let Some(handle) = meta.properties() else { return Ok(None) };
        let source = &self.source;
        let error = match source.read_checked(handle, |stored| parse_properties(source, handle, stored)) {
            Ok(properties) => return Ok(Some(properties)),
            Err(e) if may_be_damage(&e) => e,
            Err(e) => return Err(e),
        };
        let mended = read_or_mend(&self.source, handle, BlockKind::Meta, &mut self.budget)
            .and_then(|(block, _)| block.key_value().and_then(TableProperties::parse));
        match mended {
            Ok(properties) => {
                self.damaged.push(DamagedPart::mended("properties", handle.offset, error));
                Ok(Some(properties))
            }
            Err(e) if may_be_damage(&e) => {
                self.damaged.push(DamagedPart::lost("properties", handle.offset, error));
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn read_dictionary(&mut self, meta: &MetaIndex) -> Result<()> {
        let Some(handle) = meta.find(meta_index::COMPRESSION_DICT) else { return Ok(()) };
        // Its contents are raw bytes, as a filter's are.
        match read_or_mend(&self.source, handle, BlockKind::Filter, &mut self.budget) {
            Ok((block, error)) => {
                let bytes = block.bytes().to_vec();
                let plain = Decompressor::new(self.footer.format_version);
                self.source.data_decompressor = plain.with_dictionary(bytes);
                let part = |e| DamagedPart::mended("compression dictionary", handle.offset, e);
                self.damaged.extend(error.map(part));
                Ok(())
            }
            Err(e) if may_be_damage(&e) => {
                self.damaged.push(DamagedPart::lost("compression dictionary", handle.offset, e));
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    fn read_tombstones(
        &mut self,
        meta: &MetaIndex,
        found: Option<BlockHandle>,
        properties: Option<&TableProperties>,
        has_meta: bool,
    ) -> Result<Tombstones> {
        let Some(handle) = meta.find(meta_index::RANGE_DEL).or(found) else {
            let may_have = !has_meta && properties.is_none_or(|p| p.num_range_deletions > 0);
            let is_known = meta.properties().is_some();
            return Ok(if may_have && !is_known { Tombstones::Lost } else { Tombstones::Known(Vec::new()) });
        };
        match read_range_tombstones_or_mend(&self.source, handle, &mut self.budget) {
            Ok((tombstones, error)) => {
                let part = |e| DamagedPart::mended("range deletions", handle.offset, e);
                self.damaged.extend(error.map(part));
                Ok(Tombstones::Known(tombstones))
            }
            Err(e) if may_be_damage(&e) => {
                self.damaged.push(DamagedPart::lost("range deletions", handle.offset, e));
                Ok(Tombstones::Lost)
            }
            Err(e) => Err(e),
        }
    }
}

fn read_range_tombstones_or_mend(
    source: &BlockSource,
    handle: BlockHandle,
    budget: &mut u64,
) -> Result<(Vec<esker_format::range_del::RangeTombstone>, Option<Error>)> {
    let (block, error) = read_or_mend(source, handle, BlockKind::Meta, budget)?;
    let tombstones = block.key_value().and_then(|block| range_tombstones(block, None))?;
    Ok((tombstones, error))
}

/// The properties in the block, if it has the properties of a table.
pub(super) fn as_properties(block: &Block) -> Option<TableProperties> {
    TableProperties::parse(block).ok().filter(|p| !p.comparator_name.is_empty() && p.num_entries > 0)
}

pub(super) fn holds_range_deletions(block: &Block) -> bool {
    let mut cursor = BlockCursor::new();
    let mut moved = cursor.seek_to_first(block);
    while moved.is_ok() && cursor.valid() {
        let is_one = |key: ParsedInternalKey<'_>| key.value_type == ValueType::RangeDeletion;
        if !ParsedInternalKey::parse(cursor.key()).is_ok_and(is_one) {
            return false;
        }
        moved = cursor.next(block);
    }
    moved.is_ok() && !block.is_empty()
}
