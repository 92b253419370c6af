//! Opens a table: reads its tail, and makes the reader from it.
//!
//! In: a file and its description in the MANIFEST. Out: a [`TableReader`], or an error.
//! Source: RocksDB `table/block_based/block_based_table_reader.cc` (Open and its helpers).
//!
//! Order: footer, meta index, properties, dictionary, range tombstones, index, filter. The open
//! checks the properties for features that this version cannot read. The error names the feature.

use crate::block_source::{BlockKind, BlockSource, may_be_damage};
use crate::counts;
use crate::filter::TableFilter;
use crate::long_scan::LongScans;
use crate::options::TableReaderOptions;
use crate::readahead::ScanLength;
use crate::reader::{TableReader, missing};
use crate::residence::{Metadata, Residence, pin_partitions};
use crate::trace::TracedTable;
use esker_base::merge_operator::check_operands_of;
use esker_base::prefix::{self, SliceTransformRef};
use esker_base::stats::{Histogram, Statistics, Ticker, record_in_histogram, record_tick};
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Buffer, Error, ErrorKind, Result, SequenceNumber};
use esker_cache::key::process_unique_identity;
use esker_cache::{BaseCacheKey, CachePriority};
use esker_env::{CountedRandomAccessFile, RandomAccessFile, ReadCounter};
use esker_format::block::{Block, BlockCursor};
use esker_format::compression::manager::{
    BUILT_IN_COMPRESSION, CompressionManagerRef, CustomDecompressor, parse_compression_name,
};
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::deleted_runs::{self, DeletedRuns};
use esker_format::footer::{FOOTER_BYTES, Footer};
use esker_format::handle::BlockHandle;
use esker_format::index_entry::IndexShape;
use esker_format::key::InternalKeyComparator;
use esker_format::meta_index::{self, MetaIndex};
use esker_format::properties::{IndexType, TableProperties};
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};
use esker_format::trailer::TRAILER_BYTES;
use esker_format::unique_id::unique_id;
use std::path::Path;
use std::sync::Arc;

/// Bytes to read from the end of the file if the MANIFEST does not state the length of the tail. If
/// the block cache holds index and filter blocks, an open reads a 128th of this number.
const USUAL_TAIL: u64 = 512 * 1024;

impl TableReader {
    /// Opens a table. One read gets its tail: footer, meta index, properties, index, filter, range
    /// tombstones.
    /// # Errors
    /// `Corruption` naming the file and offset; `NotSupported` naming the feature;
    /// `InvalidArgument` if the table was written with another comparator; `IoError`.
    pub fn open(file: Arc<dyn RandomAccessFile>, options: TableReaderOptions) -> Result<Arc<TableReader>> {
        let path = file.path().to_owned();
        let file = counted(file, &options);
        let tail = Tail::with_footer(&file, &options);
        if tail.as_ref().is_err_and(|e| e.kind() == ErrorKind::Corruption) {
            counts::footer_is_damaged(options.statistics.as_ref());
        }
        let opened = tail.and_then(|(tail, footer)| open_with(tail, footer, options));
        opened.map(Arc::new).map_err(|e| in_file(e, &path))
    }

    /// Reads the properties of a table of `file_size` bytes. Needs no options of the table: a tool
    /// can derive the options from the properties.
    /// # Errors
    /// `Corruption`, `NotSupported` for other kinds of tables, `IoError`.
    pub fn properties_of(file: Arc<dyn RandomAccessFile>, file_size: u64) -> Result<TableProperties> {
        let path = file.path().to_owned();
        properties_alone(file, file_size).map_err(|e| in_file(e, &path))
    }
}

fn properties_alone(file: Arc<dyn RandomAccessFile>, file_size: u64) -> Result<TableProperties> {
    let options = TableReaderOptions::new(InternalKeyComparator::default(), Arc::default(), file_size);
    let (tail, footer) = Tail::with_footer(&file, &options)?;
    let mut source = first_source(tail.file.clone(), &options, footer);
    source.file = Arc::new(tail);
    let meta_block = source.read(footer.meta_index, BlockKind::Meta, true)?;
    let meta = MetaIndex::parse(meta_block.key_value()?, file_size)?;
    read_properties(&source, &meta)
}

/// The file, with its reads counted if there are statistics.
fn counted(file: Arc<dyn RandomAccessFile>, options: &TableReaderOptions) -> Arc<dyn RandomAccessFile> {
    let Some(statistics) = options.statistics.clone() else { return file };
    let counter = ReadCounter {
        statistics,
        clock: options.clock.clone(),
        histogram: Histogram::SstReadMicros,
        is_last_level: options.is_last_level,
        temperature: options.temperature,
        latencies: options.latencies.clone(),
    };
    Arc::new(CountedRandomAccessFile::new(file, counter))
}

/// Adds the file's path to the error, unless the error names it already.
fn in_file(e: Error, path: &Path) -> Error {
    let path = path.display().to_string();
    if e.message().contains(&path) { e } else { e.at(path) }
}

fn open_with(tail: Tail, footer: Footer, mut options: TableReaderOptions) -> Result<TableReader> {
    let mut source = first_source(tail.file.clone(), &options, footer);
    let tail = Arc::new(tail);
    source.file = tail.clone();
    let meta_block = source.read(footer.meta_index, BlockKind::Meta, true)?;
    let meta = MetaIndex::parse(meta_block.key_value()?, options.file_size)?;
    let properties = read_properties(&source, &meta)?;
    check_readable(&properties, footer.format_version, &options)?;
    check_unique_id(&properties, &options)?;
    let lacks_timestamps = !properties.user_defined_timestamps_persisted && options.icmp.timestamp_size() > 0;
    if lacks_timestamps {
        options.icmp = options.icmp.without_timestamp();
    }
    let global_seqno = global_seqno(&properties, options.largest_seqno)?;
    source.learn(&properties, footer.format_version, options.compression_manager.as_ref())?;
    if let (Some(handle), true) = (meta.find(meta_index::COMPRESSION_DICT), uses_dictionary(&properties)) {
        let dictionary = read_dictionary(&source, handle)?;
        source.data_decompressor = Decompressor::new(footer.format_version).with_dictionary(dictionary);
    }
    let range_tombstones = read_range_tombstones(&source, &meta, global_seqno)?;
    let range_dels = fragmented(&range_tombstones, &options);
    let has_timestamps = lacks_timestamps || options.icmp.timestamp_size() > 0;
    let range_tombstones = if has_timestamps { range_tombstones } else { Vec::new() };
    let deleted_runs = read_deleted_runs(&source, &meta, &options, global_seqno)?;
    let index_shape = IndexShape {
        key_is_user_key: properties.index_key_is_user_key,
        value_is_delta_encoded: properties.index_value_is_delta_encoded,
        with_first_key: properties.index_type == Some(IndexType::BinarySearchWithFirstKey as u32),
        value_escapes: properties.index_value_is_delta_encoded && footer.format_version >= 8,
    };
    source.index_shape = Some((index_shape, options.icmp.clone()));
    let index_handle =
        footer.index.or_else(|| meta.find(meta_index::INDEX)).ok_or_else(|| missing("index"))?;
    let two_level = properties.index_type == Some(IndexType::TwoLevel as u32);
    let metadata = if two_level { Metadata::TopLevel } else { Metadata::Unpartitioned };
    let index = Residence::of(metadata, &options).take(&source, index_handle, BlockKind::Index)?;
    let filter = open_filter(&source, &meta, &options, index_shape)?;
    let mut pinned_partitions = Vec::new();
    if two_level {
        pinned_partitions = pin_partitions(&index, index_shape, BlockKind::Index, &source, &options)?;
    }
    if let TableFilter::Partitioned { index, shape } = &filter {
        pinned_partitions.extend(pin_partitions(index, *shape, BlockKind::Filter, &source, &options)?);
    }
    source.file = tail.file.clone();
    let mut reader = TableReader {
        two_level,
        pinned_partitions,
        charge: None,
        whole_keys: properties.whole_key_filtering && !matches!(filter, TableFilter::None),
        filter_prefix: filter_prefix(&properties, options.prefix_extractor.as_ref()),
        source,
        footer,
        meta,
        properties,
        index,
        index_shape,
        filter,
        scan_length: ScanLength::default(),
        range_dels,
        deleted_runs,
        range_tombstones,
        lacks_timestamps,
        global_seqno,
        options,
    };
    reader.charge_to_cache()?;
    Ok(reader)
}

/// The end of a file in memory, which serves reads while the table is opened.
#[derive(Debug)]
struct Tail {
    file: Arc<dyn RandomAccessFile>,
    start: u64,
    bytes: Vec<u8>,
    /// Whether a part of the bytes in memory is damaged. Later reads then come from the file.
    is_damaged: AtomicBool,
    statistics: Option<Arc<Statistics>>,
}

impl Tail {
    /// Reads the tail. If the footer is damaged, reads once more.
    fn with_footer(file: &Arc<dyn RandomAccessFile>, options: &TableReaderOptions) -> Result<(Tail, Footer)> {
        let read = || {
            let tail = Tail::read(Arc::clone(file), options)?;
            let footer = Footer::parse(&tail.bytes, options.file_size)?;
            Ok((tail, footer))
        };
        let first = read();
        let Err(error) = first else { return first };
        if !may_be_damage(&error) {
            return Err(error);
        }
        file.read_anew(0, options.file_size);
        let second = read();
        counts::read_again(options.statistics.as_ref(), second.is_ok());
        second.map_err(|_| error)
    }

    fn read(file: Arc<dyn RandomAccessFile>, options: &TableReaderOptions) -> Result<Tail> {
        let wanted = match options.tail_size {
            0 if options.table_options.cache_index_and_filter_blocks => USUAL_TAIL / 128,
            0 => USUAL_TAIL,
            size => size,
        };
        let length = wanted.max(FOOTER_BYTES as u64).min(options.file_size);
        let start = options.file_size - length;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let n = file.read_at(start, &mut bytes)?;
        if n < bytes.len() {
            return Err(Error::corruption(format!(
                "{}: the file is shorter than the {} bytes it should have",
                file.path().display(),
                options.file_size
            )));
        }
        let statistics = options.statistics.clone();
        record_in_histogram(&statistics, Histogram::TableOpenPrefetchTailReadBytes, length);
        Ok(Tail { file, start, bytes, is_damaged: AtomicBool::new(false), statistics })
    }
}

impl RandomAccessFile for Tail {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let part = offset
            .checked_sub(self.start)
            .filter(|_| !self.is_damaged.load(Ordering::Relaxed))
            .and_then(|from| usize::try_from(from).ok())
            .and_then(|from| self.bytes.get(from..from.checked_add(buf.len())?));
        let answer =
            if part.is_some() { Ticker::TableOpenPrefetchTailHit } else { Ticker::TableOpenPrefetchTailMiss };
        record_tick(&self.statistics, answer, 1);
        match part {
            Some(part) => {
                buf.copy_from_slice(part);
                Ok(buf.len())
            }
            None => self.file.read_at(offset, buf),
        }
    }
    fn read_anew(&self, offset: u64, bytes: u64) {
        self.is_damaged.store(true, Ordering::Relaxed);
        self.file.read_anew(offset, bytes);
    }
    fn size(&self) -> Result<u64> {
        self.file.size()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

pub(crate) fn first_source(
    file: Arc<dyn RandomAccessFile>,
    options: &TableReaderOptions,
    footer: Footer,
) -> BlockSource {
    let table = &options.table_options;
    let high = table.cache_index_and_filter_blocks_with_high_priority;
    BlockSource {
        file,
        file_size: options.file_size,
        guard: footer.guard,
        data_decompressor: Decompressor::new(footer.format_version),
        decompressor: Decompressor::new(footer.format_version),
        custom_decompressor: None,
        cache: if table.no_block_cache { None } else { table.block_cache.clone() },
        file_key: BaseCacheKey::default(),
        index_priority: if high { CachePriority::High } else { CachePriority::Low },
        index_shape: None,
        statistics: options.statistics.clone(),
        level: level_of(options),
        traced: traced(options),
        clock: options.clock.clone(),
        has_key_prefixes: footer.format_version >= 8,
        filter_policy: table.filter_policy.as_ref().and_then(|policy| policy.as_custom()).cloned(),
        has_embedded_blobs: false,
        protection_bytes: options.block_protection_bytes_per_key,
        long_scans: LongScans::default(),
    }
}

impl BlockSource {
    /// Takes from a table's properties where its blocks are cached, and how they are stored.
    /// # Errors
    /// `NotSupported` without a manager for the table's codecs.
    fn learn(
        &mut self,
        properties: &TableProperties,
        format_version: u32,
        manager: Option<&CompressionManagerRef>,
    ) -> Result<()> {
        self.file_key = file_key(properties);
        self.has_embedded_blobs = properties.has_embedded_blobs();
        self.custom_decompressor =
            custom_decompressor(&properties.compression_name, format_version, manager)?;
        Ok(())
    }
}

fn level_of(options: &TableReaderOptions) -> u32 {
    options.level.and_then(|level| u32::try_from(level).ok()).unwrap_or(u32::MAX)
}

/// The table's family, level and number, for traces.
fn traced(options: &TableReaderOptions) -> Option<Box<TracedTable>> {
    let (tracer, family_name) = options.tracer.clone()?;
    Some(Box::new(TracedTable { tracer, family_name, level: level_of(options), number: options.file_number }))
}

/// Reads the properties. An ingestion may have written a sequence number into the block later,
/// without a new checksum. If the checksum does not match, the block is checked once more without
/// that number.
fn read_properties(source: &BlockSource, meta: &MetaIndex) -> Result<TableProperties> {
    let Some(handle) = meta.properties() else { return Ok(TableProperties::absent()) };
    source.read_checked(handle, |stored| parse_properties(source, handle, stored))
}

pub(crate) fn parse_properties(
    source: &BlockSource,
    handle: BlockHandle,
    stored: Buffer,
) -> Result<TableProperties> {
    let mismatch = match source.parse(stored.clone(), handle, BlockKind::Meta, true) {
        Ok(block) => return TableProperties::parse(block.key_value()?).map_err(|e| source.at(e, handle)),
        Err(e) => e,
    };
    let unchecked = source.parse(stored.clone(), handle, BlockKind::Meta, false);
    let patched = unchecked.and_then(|block| TableProperties::parse(block.key_value()?));
    let Ok(properties) = patched else { return Err(mismatch) };
    let mut before = stored;
    match properties.global_seqno_offset.and_then(|at| before.get_mut(at..at + 8)) {
        Some(value) => value.fill(0),
        None => return Err(mismatch),
    }
    match source.parse(before, handle, BlockKind::Meta, true) {
        Ok(_) => Ok(properties),
        Err(_) => Err(mismatch),
    }
}

/// Checks by its properties whether a table can be read with these options. `format_version`: that
/// of its footer, or 0 if the footer was not read.
/// # Errors
/// `InvalidArgument`: another comparator, or operands of another merge operator · `NotSupported`:
/// a feature that this version would read wrongly.
pub fn check_readable(p: &TableProperties, format_version: u32, options: &TableReaderOptions) -> Result<()> {
    if let Some(code) = p.index_type {
        IndexType::from_u32(code)?;
    }
    let comparator = options.icmp.user_comparator();
    if !p.comparator_name.is_empty() && p.comparator_name != comparator.name() {
        return Err(Error::invalid_argument(format!(
            "the table was written with comparator '{}' and is opened with '{}'",
            p.comparator_name,
            comparator.name()
        )));
    }
    if let Some(operator) = options.merge_operator.as_ref().filter(|_| p.num_merge_operands > 0)
        && !matches!(&*p.merge_operator_name, "" | "nullptr")
    {
        check_operands_of(&**operator, &p.merge_operator_name)?;
    }
    let refuse = |what: &str| Err(Error::not_supported(format!("tables with {what}")));
    if p.udi_is_primary_index {
        return refuse("a user-defined primary index (rocksdb.udi.is.primary.index)");
    }
    custom_decompressor(&p.compression_name, format_version, options.compression_manager.as_ref()).map(drop)
}

/// Checks that `manager` reads the codecs of the table with these properties.
/// # Errors
/// `NotSupported` names the manager that the table needs.
pub fn check_compression_manager(p: &TableProperties, manager: Option<&CompressionManagerRef>) -> Result<()> {
    decompressor_by_name(p, manager).map(drop)
}

/// [`custom_decompressor`] of a table whose format version is not known. Names of managers have a
/// semicolon, those of codecs in older format versions have none.
pub(crate) fn decompressor_by_name(
    p: &TableProperties,
    manager: Option<&CompressionManagerRef>,
) -> Result<Option<Arc<dyn CustomDecompressor>>> {
    match parse_compression_name(&p.compression_name) {
        Ok(_) if p.compression_name.contains(';') => custom_decompressor(&p.compression_name, 7, manager),
        // A name that does not parse is damage, which the blocks will show.
        _ => Ok(None),
    }
}

/// The decompressor of a table whose property `rocksdb.compression` is `name`; `None`: its blocks
/// have built-in codecs. Since format version 7 the property names a compression manager. The
/// decompressor comes from `manager`, or from one that `manager` finds.
/// # Errors
/// `NotSupported` if no manager of that name is at hand.
fn custom_decompressor(
    name: &str,
    format_version: u32,
    manager: Option<&CompressionManagerRef>,
) -> Result<Option<Arc<dyn CustomDecompressor>>> {
    if format_version < 7 || name.is_empty() {
        return Ok(None);
    }
    let unknown = || {
        let needed = name.split(';').next().unwrap_or_default();
        let what = format!("tables of the compression manager '{name}'");
        Error::not_supported(format!("{what}: set compression_manager to one that reads '{needed}'"))
    };
    let (wanted, _) = parse_compression_name(name).map_err(|_| unknown())?;
    if matches!(wanted, "" | BUILT_IN_COMPRESSION) {
        return Ok(None);
    }
    let manager = manager.ok_or_else(unknown)?;
    if manager.compatibility_name() == wanted {
        return Ok(Some(manager.decompressor()));
    }
    let found = manager.find_compatible(wanted).ok_or_else(unknown)?;
    Ok(Some(found.decompressor()))
}

fn check_unique_id(p: &TableProperties, options: &TableReaderOptions) -> Result<()> {
    let Some(expected) = options.expected_unique_id.filter(|id| *id != [0, 0]) else { return Ok(()) };
    match unique_id(&p.db_id, &p.db_session_id, p.orig_file_number) {
        Some(own) if own == expected => Ok(()),
        own => Err(Error::corruption(format!(
            "unique id mismatch: the MANIFEST has {:016X}-{:016X}, the table {}",
            expected[0],
            expected[1],
            own.map_or("none".to_owned(), |id| format!("{:016X}-{:016X}", id[0], id[1]))
        ))),
    }
}

/// The sequence number that an ingestion gave to all entries of the table, if it gave one.
pub(crate) fn global_seqno(
    p: &TableProperties,
    largest: Option<SequenceNumber>,
) -> Result<Option<SequenceNumber>> {
    let written = p.external_sst_file_global_seqno.unwrap_or(0);
    if p.external_sst_file_version.unwrap_or(0) < 2 {
        return match written {
            0 => Ok(None),
            n => {
                Err(Error::corruption(format!("an ingested file before version 2 has the global seqno {n}")))
            }
        };
    }
    match (written, largest) {
        (0, Some(largest)) => Ok(Some(largest).filter(|l| l.0 != 0)),
        (0, None) => Ok(None),
        (n, Some(largest)) if n != largest.0 => Err(Error::corruption(format!(
            "an ingested file has the global seqno {n}, the MANIFEST says {largest}"
        ))),
        (n, _) => Ok(Some(SequenceNumber(n))),
    }
}

/// The words of the file's cache keys: of its unique id, which survives restarts, or of an id that
/// this process makes.
fn file_key(p: &TableProperties) -> BaseCacheKey {
    stable_file_key(p).unwrap_or_else(|| BaseCacheKey::new(process_unique_identity()))
}

/// The words of the cache keys of the table with these properties. `None` if the table does not
/// name the database and the session that wrote it, as before RocksDB 6.24.
pub fn stable_file_key(p: &TableProperties) -> Option<BaseCacheKey> {
    let [session, file] = unique_id(&p.db_id, &p.db_session_id, p.orig_file_number)?;
    Some(BaseCacheKey::new((session, file)))
}

/// Whether the table's blocks use its dictionary. Snappy and bzip2 ignore it.
pub(crate) fn uses_dictionary(p: &TableProperties) -> bool {
    let without = [CompressionType::Snappy, CompressionType::Bzip2, CompressionType::None];
    !without.iter().any(|t| t.property_name() == p.compression_name)
}

fn read_dictionary(source: &BlockSource, handle: BlockHandle) -> Result<Vec<u8>> {
    counts::dictionary_read(handle.size.saturating_add(TRAILER_BYTES as u64));
    let check = |mut stored: Buffer| {
        let code = source.guard.check(&stored, handle.offset)?;
        stored.truncate(stored.len() - TRAILER_BYTES);
        source.decompressor.decompress(CompressionType::from_u8(code)?, &stored)
    };
    source.read_checked(handle, |stored| check(stored).map_err(|e| source.at(e, handle)))
}

pub(crate) fn read_range_tombstones(
    source: &BlockSource,
    meta: &MetaIndex,
    global_seqno: Option<SequenceNumber>,
) -> Result<Vec<RangeTombstone>> {
    let Some(handle) = meta.find(meta_index::RANGE_DEL) else { return Ok(Vec::new()) };
    let block = source.read(handle, BlockKind::Meta, true)?;
    block.key_value().and_then(|b| range_tombstones(b, global_seqno)).map_err(|e| source.at(e, handle))
}

fn fragmented(
    tombstones: &[RangeTombstone],
    options: &TableReaderOptions,
) -> Option<Arc<FragmentedRangeTombstones>> {
    if tombstones.is_empty() {
        return None;
    }
    let refs = tombstones.iter().map(|t| t.as_ref());
    let fragments = FragmentedRangeTombstones::from_refs(refs, &options.icmp);
    Some(Arc::new(fragments)).filter(|f| !f.is_empty())
}

fn read_deleted_runs(
    source: &BlockSource,
    meta: &MetaIndex,
    options: &TableReaderOptions,
    global_seqno: Option<SequenceNumber>,
) -> Result<Option<DeletedRuns>> {
    let Some(handle) = meta.find(deleted_runs::NAME) else { return Ok(None) };
    let block = source.read(handle, BlockKind::Meta, true)?;
    let spans = block.key_value().and_then(|b| DeletedRuns::parse(b, &options.icmp, global_seqno));
    spans.map(Some).map_err(|e| source.at(e, handle))
}

pub(crate) fn range_tombstones(
    block: &Block,
    global_seqno: Option<SequenceNumber>,
) -> Result<Vec<RangeTombstone>> {
    let mut tombstones = Vec::new();
    let mut cursor = BlockCursor::new();
    cursor.seek_to_first(block)?;
    while cursor.valid() {
        let mut tombstone = RangeTombstoneRef::parse(cursor.key(), cursor.value(block))?.to_owned();
        if let Some(sequence) = global_seqno {
            tombstone.seq = sequence;
        }
        tombstones.push(tombstone);
        cursor.next(block)?;
    }
    Ok(tombstones)
}

/// Opens the filter, if the family uses filters and the table has one of a form that the family's
/// policy reads.
fn open_filter(
    source: &BlockSource,
    meta: &MetaIndex,
    options: &TableReaderOptions,
    shape: IndexShape,
) -> Result<TableFilter> {
    let Some(policy) = &options.table_options.filter_policy else { return Ok(TableFilter::None) };
    let find = |prefix: &str| meta.find(&format!("{prefix}{}", policy.compatibility_name()));
    if let Some(handle) = find(meta_index::FULL_FILTER_PREFIX) {
        let residence = Residence::of(Metadata::Unpartitioned, options);
        return Ok(TableFilter::Full(residence.take(source, handle, BlockKind::Filter)?));
    }
    let residence = Residence::of(Metadata::TopLevel, options);
    match find(meta_index::PARTITIONED_FILTER_PREFIX) {
        Some(handle) => Ok(TableFilter::Partitioned {
            index: residence.take(source, handle, BlockKind::Index)?,
            // Only the index of data blocks has first keys.
            shape: IndexShape { with_first_key: false, ..shape },
        }),
        None => Ok(TableFilter::None),
    }
}

/// The family's prefix extractor, if the filter holds the prefixes of that extractor.
fn filter_prefix(p: &TableProperties, extractor: Option<&SliceTransformRef>) -> Option<SliceTransformRef> {
    let extractor = extractor.filter(|_| p.prefix_filtering)?;
    let same = extractor.name() == p.prefix_extractor_name
        || prefix::by_name(&p.prefix_extractor_name).is_some_and(|e| e.name() == extractor.name());
    same.then(|| extractor.clone())
}

#[cfg(test)]
mod tests;
