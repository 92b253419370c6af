//! Writes one table.
//!
//! In: entries in internal-key order, range tombstones at any time. Out: a file that RocksDB reads, and what the
//! MANIFEST must know about it.   Source: RocksDB `table/block_based/block_based_table_builder.cc`.
//!
//! Invariants
//!  1. Point keys strictly ascend; the first that does not ends the table with `Corruption`.
//!  2. After an error every call returns that error; the file is worthless and the caller deletes it.
//!  3. An index entry waits for the first key behind its block, because its separator lies between the two.

use crate::options::{BlockBasedTableOptions, IndexShorteningMode, TableBuilderOptions};
use esker_base::comparator::KeyOrder;
use esker_base::hash::xxh3_64;
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_env::WritableFile;
use esker_format::block::{BlockBuilder, common_prefix};
use esker_format::compression::{CompressionOptions, CompressionType, Compressor};
use esker_format::filter::{FilterBitsBuilder, FilterBuildingContext};
use esker_format::footer::Footer;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexBuilder, Shortening};
use esker_format::key::{RANGE_END_SENTINEL, TRAILER_BYTES as KEY_TRAILER_BYTES};
use esker_format::meta_index::{self, MetaIndex};
use esker_format::properties::{IndexType, TableProperties};
use esker_format::trailer::{BlockGuard, TRAILER_BYTES};
use esker_format::unique_id::unique_id;

/// What was written: what the MANIFEST needs to know, and the properties.
#[derive(Clone, Debug, Default)]
pub struct TableFileInfo {
    /// Bytes in the file.
    pub file_size: u64,
    /// Bytes after the data blocks.
    pub tail_size: u64,
    /// As written.
    pub properties: TableProperties,
    /// First internal key, range tombstones (as added) included; empty if nothing was added.
    pub smallest: Vec<u8>,
    /// Last internal key, range tombstones (as added) included: their ends are `(end, RANGE_END_SENTINEL)`.
    pub largest: Vec<u8>,
    /// Smallest sequence number added.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number added.
    pub largest_seqno: SequenceNumber,
    /// Point entries and range tombstones.
    pub num_entries: u64,
    /// Deletions of all kinds.
    pub num_deletions: u64,
    /// Range tombstones.
    pub num_range_deletions: u64,
    /// The file's unique id, if database id, session id and file number were given.
    pub unique_id: Option<[u64; 2]>,
}

/// Writes one table, key by key in internal-key order.
pub struct TableBuilder {
    options: TableBuilderOptions,
    file: Box<dyn WritableFile>,
    guard: BlockGuard,
    offset: u64,
    data: BlockBuilder,
    compressor: Compressor,
    compressed: Vec<u8>,
    index: IndexBuilder,
    /// First key of the block being filled; kept only if the index wants it.
    first_key: Vec<u8>,
    /// A finished block whose index entry waits for the next key.
    pending: Option<BlockHandle>,
    filter: Option<FilterBitsBuilder>,
    timestamp_size: usize,
    range_del: BlockBuilder,
    properties: TableProperties,
    smallest: Vec<u8>,
    /// Largest end of a range tombstone, as a bound.
    largest_range_end: Vec<u8>,
    seqnos: Option<(u64, u64)>,
    failed: Option<Error>,
}

impl std::fmt::Debug for TableBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBuilder")
            .field("offset", &self.offset)
            .field("num_entries", &self.properties.num_entries)
            .finish_non_exhaustive()
    }
}

impl TableBuilder {
    /// Starts a table in an empty file, which it owns.
    /// # Errors
    /// `InvalidArgument` or `NotSupported` naming the option that cannot be honoured.
    pub fn new(options: TableBuilderOptions, file: Box<dyn WritableFile>) -> Result<TableBuilder> {
        check_options(&options)?;
        let table = &options.table_options;
        let guard = BlockGuard {
            checksum_type: table.checksum,
            base_context: if table.format_version >= 6 { base_context(&options) } else { 0 },
        };
        let context = FilterBuildingContext {
            format_version: table.format_version,
            level: options.level,
            is_flush: options.is_flush,
        };
        let has_filter_keys = table.whole_key_filtering || options.prefix_extractor.is_some();
        let filter = table.filter_policy.filter(|_| has_filter_keys).and_then(|p| p.builder(&context));
        let delta_values = table.format_version >= 4 && !table.block_align;
        let with_first_key = table.index_type == IndexType::BinarySearchWithFirstKey;
        Ok(TableBuilder {
            file,
            guard,
            offset: 0,
            data: BlockBuilder::new(table.block_restart_interval).share_prefixes(table.use_delta_encoding),
            compressor: Compressor::new(options.compression, &options.compression_opts)?,
            compressed: Vec::new(),
            index: IndexBuilder::new(table.index_block_restart_interval, delta_values, with_first_key),
            first_key: Vec::new(),
            pending: None,
            filter,
            timestamp_size: options.icmp.user_comparator().timestamp_size(),
            range_del: BlockBuilder::new(1),
            properties: first_properties(&options),
            smallest: Vec::new(),
            largest_range_end: Vec::new(),
            seqnos: None,
            failed: None,
            options,
        })
    }

    /// Adds an entry. Point entries come in internal-key order; those of type `RangeDeletion` (value = end key) may
    /// come at any time, in any order.
    /// # Errors
    /// `Corruption` if the key is not larger than the last one or malformed; `IoError`. The table is lost then.
    #[inline]
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let added = self.try_add(internal_key, value);
        if let Err(e) = &added {
            self.failed = Some(e.clone());
        }
        added
    }

    #[inline]
    fn try_add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let Some((user_key, trailer)) = internal_key.split_last_chunk::<KEY_TRAILER_BYTES>() else {
            return Err(Error::corruption("a key without sequence and type came to a table writer"));
        };
        let packed = u64::from_le_bytes(*trailer);
        let Some(value_type) = ValueType::from_u8((packed & 0xFF) as u8) else {
            return Err(Error::corruption(format!("unknown type {} came to a table writer", packed & 0xFF)));
        };
        if value_type == ValueType::RangeDeletion {
            self.add_range_deletion(internal_key, value);
        } else {
            self.add_point(internal_key, user_key, value_type, value)?;
        }
        self.count(internal_key, packed >> 8, value_type, value);
        Ok(())
    }

    #[inline]
    fn add_point(
        &mut self,
        internal_key: &[u8],
        user_key: &[u8],
        value_type: ValueType,
        value: &[u8],
    ) -> Result<()> {
        let shared = common_prefix(self.data.last_key(), internal_key);
        if !self.is_ascending(internal_key, user_key, shared) {
            return Err(out_of_order(self.data.last_key(), internal_key));
        }
        if self.is_block_full(internal_key, value) {
            self.flush_data_block()?;
        }
        if self.data.is_empty() {
            self.start_data_block(internal_key);
        }
        if let Some(filter) = &mut self.filter {
            let key = user_key.split_at(user_key.len().saturating_sub(self.timestamp_size)).0;
            let prefix = self.options.prefix_extractor.as_ref().and_then(|e| e.transform(key));
            match (self.options.table_options.whole_key_filtering, prefix) {
                (true, Some(prefix)) => filter.add_key_and_prefix(key, prefix),
                (true, None) => filter.add_key(key),
                (false, Some(prefix)) => filter.add_key(prefix),
                (false, None) => {}
            }
        }
        self.data.add_knowing_shared(internal_key, value, shared);
        if value_type == ValueType::Merge {
            self.properties.num_merge_operands += 1;
        }
        Ok(())
    }

    /// Whether a key that shares `shared` bytes with the last one is larger than it.
    #[inline]
    fn is_ascending(&self, internal_key: &[u8], user_key: &[u8], shared: usize) -> bool {
        let last = self.data.last_key();
        if last.is_empty() {
            return true;
        }
        let user_part = user_key.len().min(last.len() - KEY_TRAILER_BYTES);
        if shared < user_part && self.options.icmp.order() == KeyOrder::Bytewise {
            return last[shared] < internal_key[shared];
        }
        self.options.icmp.compare(last, internal_key).is_lt()
    }

    /// RocksDB's rule: a block is cut when it has reached its size, or would pass it while it is nearly full.
    #[inline]
    fn is_block_full(&self, internal_key: &[u8], value: &[u8]) -> bool {
        let table = &self.options.table_options;
        let size = self.data.size_estimate();
        if self.data.is_empty() {
            return false;
        }
        if size >= table.block_size {
            return true;
        }
        let mut after = self.data.size_estimate_after(internal_key, value);
        if table.block_align {
            after += TRAILER_BYTES;
            return after > table.block_size;
        }
        let deviation = u64::from(table.block_size_deviation.min(100));
        let nearly_full = (table.block_size as u64 * (100 - deviation)).div_ceil(100);
        after > table.block_size && deviation > 0 && size as u64 > nearly_full
    }

    /// Enters the last block into the index, now that the key behind it is known.
    #[inline]
    fn start_data_block(&mut self, internal_key: &[u8]) {
        if self.properties.num_data_blocks == 0 {
            self.smallest_is(internal_key);
        }
        self.enter_pending(Some(internal_key));
        self.first_key.clear();
        self.first_key.extend_from_slice(internal_key);
    }

    fn enter_pending(&mut self, next: Option<&[u8]>) {
        let Some(handle) = self.pending.take() else { return };
        let shortening = match self.options.table_options.index_shortening {
            IndexShorteningMode::NoShortening => Shortening { separators: false, successor: false },
            IndexShorteningMode::ShortenSeparators => Shortening { separators: true, successor: false },
            IndexShorteningMode::ShortenSeparatorsAndSuccessor => {
                Shortening { separators: true, successor: true }
            }
        };
        let last = self.data.last_key();
        self.index.add(&self.first_key, last, next, handle, shortening, &self.options.icmp);
    }

    fn add_range_deletion(&mut self, internal_key: &[u8], end: &[u8]) {
        self.range_del.add(internal_key, end);
        self.smallest_is(internal_key);
        let mut bound = end.to_vec();
        bound.extend_from_slice(&RANGE_END_SENTINEL.to_le_bytes());
        let is_larger = self.largest_range_end.is_empty()
            || self.options.icmp.compare(&self.largest_range_end, &bound).is_lt();
        if is_larger {
            self.largest_range_end = bound;
        }
        self.properties.num_range_deletions += 1;
    }

    fn smallest_is(&mut self, internal_key: &[u8]) {
        if self.smallest.is_empty() || self.options.icmp.compare(internal_key, &self.smallest).is_lt() {
            self.smallest = internal_key.to_vec();
        }
    }

    #[inline]
    fn count(&mut self, internal_key: &[u8], sequence: u64, value_type: ValueType, value: &[u8]) {
        let p = &mut self.properties;
        p.num_entries += 1;
        p.raw_key_size += internal_key.len() as u64;
        p.raw_value_size += value.len() as u64;
        if value_type.is_point_deletion() || value_type == ValueType::RangeDeletion {
            p.num_deletions += 1;
        }
        let (low, high) = self.seqnos.unwrap_or((sequence, sequence));
        self.seqnos = Some((low.min(sequence), high.max(sequence)));
    }

    fn flush_data_block(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let contents = self.data.finish_mut();
        let handle = write_compressed(
            &mut *self.file,
            self.guard,
            &mut self.offset,
            &mut self.compressor,
            contents,
            &mut self.compressed,
        )?;
        self.data.reset();
        self.pending = Some(handle);
        self.properties.num_data_blocks += 1;
        if self.options.table_options.block_align {
            self.pad_to_block_size()?;
        }
        Ok(())
    }

    fn pad_to_block_size(&mut self) -> Result<()> {
        let size = self.options.table_options.block_size as u64;
        let padding = (size - self.offset % size) % size;
        self.file.append(&vec![0; padding as usize])?;
        self.offset += padding;
        Ok(())
    }

    /// Writes what is left and hands it to the operating system. The file is not synced: `into_file` and sync it.
    /// # Errors
    /// The first error of any call.
    pub fn finish(&mut self) -> Result<TableFileInfo> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let finished = self.try_finish();
        self.failed = Some(match &finished {
            Ok(_) => Error::invalid_argument("the table is finished"),
            Err(e) => e.clone(),
        });
        finished
    }

    fn try_finish(&mut self) -> Result<TableFileInfo> {
        self.flush_data_block()?;
        self.enter_pending(None);
        let tail_start = self.offset;
        let mut meta = MetaIndex::default();
        self.write_filter(&mut meta)?;
        let index = self.write_index(&mut meta)?;
        if !self.range_del.is_empty() {
            let contents = self.range_del.finish().to_vec();
            meta.insert(meta_index::RANGE_DEL, self.write_plain(contents)?);
        }
        self.properties.data_size = tail_start;
        let properties = self.properties.encode();
        meta.insert(meta_index::PROPERTIES, self.write_plain(properties)?);
        let meta_index = self.write_plain(meta.encode())?;
        let footer = Footer {
            format_version: self.options.table_options.format_version,
            guard: self.guard,
            meta_index,
            index: (self.options.table_options.format_version < 6).then_some(index),
        };
        let footer = footer.encode(self.offset);
        self.file.append(&footer)?;
        self.offset += footer.len() as u64;
        self.file.flush()?;
        Ok(self.info(tail_start))
    }

    fn write_filter(&mut self, meta: &mut MetaIndex) -> Result<()> {
        let Some(filter) = &mut self.filter else { return Ok(()) };
        self.properties.num_filter_entries = filter.num_entries() as u64;
        if filter.num_entries() == 0 {
            return Ok(());
        }
        let contents = filter.finish();
        self.properties.filter_size = contents.len() as u64;
        meta.insert(meta_index::FULL_FILTER, self.write_plain(contents)?);
        Ok(())
    }

    fn write_index(&mut self, meta: &mut MetaIndex) -> Result<BlockHandle> {
        let allow_user_keys = self.options.table_options.format_version >= 3;
        let (mut contents, shape) = self.index.finish(allow_user_keys);
        self.properties.index_key_is_user_key = shape.key_is_user_key;
        self.properties.index_value_is_delta_encoded = shape.value_is_delta_encoded;
        self.properties.index_size = (contents.len() + TRAILER_BYTES) as u64;
        let handle = if self.options.table_options.enable_index_compression {
            write_compressed(
                &mut *self.file,
                self.guard,
                &mut self.offset,
                &mut self.compressor,
                &mut contents,
                &mut self.compressed,
            )?
        } else {
            self.write_plain(contents)?
        };
        if self.options.table_options.format_version >= 6 {
            meta.insert(meta_index::INDEX, handle);
        }
        Ok(handle)
    }

    /// Writes a block as it is.
    fn write_plain(&mut self, mut contents: Vec<u8>) -> Result<BlockHandle> {
        write_block(&mut *self.file, self.guard, &mut self.offset, &mut contents, CompressionType::None)
    }

    fn info(&self, tail_start: u64) -> TableFileInfo {
        let p = &self.properties;
        let last_point = self.data.last_key();
        let range_is_last = !self.largest_range_end.is_empty()
            && (last_point.is_empty()
                || self.options.icmp.compare(last_point, &self.largest_range_end).is_lt());
        let (low, high) = self.seqnos.unwrap_or((0, 0));
        TableFileInfo {
            file_size: self.offset,
            tail_size: self.offset - tail_start,
            properties: p.clone(),
            smallest: self.smallest.clone(),
            largest: if range_is_last { self.largest_range_end.clone() } else { last_point.to_vec() },
            smallest_seqno: SequenceNumber(low),
            largest_seqno: SequenceNumber(high),
            num_entries: p.num_entries,
            num_deletions: p.num_deletions,
            num_range_deletions: p.num_range_deletions,
            unique_id: unique_id(&p.db_id, &p.db_session_id, p.orig_file_number),
        }
    }

    /// The file, to sync and close it, after `finish`.
    pub fn into_file(self) -> Box<dyn WritableFile> {
        self.file
    }

    /// Syncs and closes the file, after `finish`.
    /// # Errors
    /// `IoError`.
    pub fn sync_and_close(mut self) -> Result<()> {
        self.file.sync()?;
        self.file.close()
    }

    /// Gives up; the caller deletes the file.
    pub fn abandon(self) {}

    /// Bytes written so far (blocks not yet cut are not counted).
    #[inline]
    pub fn file_size(&self) -> u64 {
        self.offset
    }

    /// `file_size` and what is still in memory, uncompressed: about what the file would be if it ended here.
    pub fn estimated_file_size(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, FilterBitsBuilder::estimated_bytes);
        let data = if self.data.is_empty() { 0 } else { self.data.size_estimate() };
        let range_del = if self.range_del.is_empty() { 0 } else { self.range_del.size_estimate() };
        self.offset + (data + self.index.size_estimate() + range_del + filter) as u64
    }

    /// Point entries and range tombstones so far.
    #[inline]
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }
}

/// Writes the block whose contents are all of `contents`, compressed if that is worth it.
fn write_compressed(
    file: &mut dyn WritableFile,
    guard: BlockGuard,
    offset: &mut u64,
    compressor: &mut Compressor,
    contents: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<BlockHandle> {
    scratch.clear();
    if compressor.compress(contents, scratch)? {
        write_block(file, guard, offset, scratch, compressor.kind())
    } else {
        write_block(file, guard, offset, contents, CompressionType::None)
    }
}

/// Appends the trailer to `stored` and writes both.
fn write_block(
    file: &mut dyn WritableFile,
    guard: BlockGuard,
    offset: &mut u64,
    stored: &mut Vec<u8>,
    kind: CompressionType,
) -> Result<BlockHandle> {
    let handle = BlockHandle::new(*offset, stored.len() as u64);
    guard.append_trailer(stored, 0, kind as u8, *offset);
    file.append(stored)?;
    *offset += stored.len() as u64;
    Ok(handle)
}

fn check_options(options: &TableBuilderOptions) -> Result<()> {
    let table = &options.table_options;
    if !(2..=6).contains(&table.format_version) {
        return Err(Error::not_supported(format!(
            "writing format_version {} (2 to 6 are)",
            table.format_version
        )));
    }
    if !matches!(table.index_type, IndexType::BinarySearch | IndexType::BinarySearchWithFirstKey) {
        return Err(Error::not_supported(format!("writing index_type {:?}", table.index_type)));
    }
    if table.block_align
        && (options.compression != CompressionType::None || !table.block_size.is_power_of_two())
    {
        return Err(Error::invalid_argument(
            "block_align needs compression none and a block_size that is a power of 2",
        ));
    }
    if table.block_size == 0 || table.block_size > u32::MAX as usize {
        return Err(Error::invalid_argument(format!("block_size {}", table.block_size)));
    }
    Ok(())
}

/// A number that differs from file to file, so that blocks of other files do not pass; never 0.
fn base_context(options: &TableBuilderOptions) -> u32 {
    let mut seed = options.db_session_id.as_bytes().to_vec();
    seed.extend_from_slice(&options.orig_file_number.0.to_le_bytes());
    seed.extend_from_slice(&options.file_creation_time.to_le_bytes());
    let hash = xxh3_64(&seed, 0);
    ((hash ^ (hash >> 32)) as u32).max(1)
}

/// The properties that are known before the first key.
fn first_properties(options: &TableBuilderOptions) -> TableProperties {
    let table: &BlockBasedTableOptions = &options.table_options;
    let or_null = |name: Option<&str>| name.unwrap_or("nullptr").to_owned();
    TableProperties {
        index_type: Some(table.index_type as u32),
        whole_key_filtering: table.whole_key_filtering,
        prefix_filtering: options.prefix_extractor.is_some(),
        column_family_id: u64::from(options.column_family_id),
        column_family_name: options.column_family_name.clone(),
        comparator_name: options.icmp.user_comparator().name().to_owned(),
        merge_operator_name: or_null(options.merge_operator_name.as_deref()),
        prefix_extractor_name: or_null(options.prefix_extractor.as_ref().map(|e| e.name())),
        property_collectors_names: "[]".to_owned(),
        filter_policy_name: table.filter_policy.map_or("", |p| p.name()).to_owned(),
        compression_name: options.compression.property_name().to_owned(),
        compression_options: describe(&options.compression_opts),
        creation_time: options.creation_time,
        oldest_key_time: options.oldest_key_time,
        file_creation_time: options.file_creation_time,
        orig_file_number: options.orig_file_number.0,
        db_id: options.db_id.clone(),
        db_session_id: options.db_session_id.clone(),
        db_host_id: options.db_host_id.clone(),
        external_sst_file_version: options.is_external_file.then_some(2),
        external_sst_file_global_seqno: options.is_external_file.then_some(0),
        user_collected_properties: options.user_collected_properties.iter().cloned().collect(),
        ..TableProperties::absent()
    }
}

/// What RocksDB puts into `rocksdb.compression_options`.
fn describe(o: &CompressionOptions) -> String {
    format!(
        "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes=0; enabled=0; \
         max_dict_buffer_bytes=0; use_zstd_dict_trainer=1; ",
        o.window_bits, o.level, o.strategy, o.max_dict_bytes
    )
}

#[cold]
fn out_of_order(last: &[u8], key: &[u8]) -> Error {
    Error::corruption(format!(
        "keys came out of order to a table writer: '{}' after '{}'",
        key.escape_ascii(),
        last.escape_ascii()
    ))
}
