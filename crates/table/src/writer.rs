//! Writes one table.
//!
//! In: entries in internal-key order; range tombstones at any time. Out: a file that RocksDB can
//! read, and its description for the MANIFEST. Source: RocksDB
//! `table/block_based/block_based_table_builder.cc`.
//!
//! Invariants
//!  1. Point keys strictly ascend. A key that does not ascend is `Corruption`, and ends the table.
//!  2. After an error, every call returns that error. The caller deletes the file.
//!  3. The index gets the entry of a block only when the first key behind the block is known: the
//!     separator lies between the block and that key.
//!  4. Filter and index get keys and blocks in this order: the keys of a block, the block, the keys
//!     of the next block.

mod block_end;
mod custom_codec;
mod dictionary;
mod embedded;
mod filter;
mod index;
mod sampling;
mod setup;
mod sink;

use crate::block_source::BlockKind;
use crate::building_charge::{BYTES_PER_FILTER_KEY, BuildingCharge};
use crate::options::{DataBlockIndexType, TableBuilderOptions};
use crate::warm::Warmer;
use block_end::BlockEnd;
use custom_codec::CustomCodec;
use dictionary::{WaitingBlock, WaitingBlocks};
use embedded::EmbeddedBlobs;
use esker_base::comparator::KeyOrder;
use esker_base::{Error, Result, SequenceNumber, ValueType};
use esker_cache::Role;
use esker_env::WritableFile;
use esker_format::block::{Block, BlockBuilder, BlockCursor, EntryShape, common_prefix};
use esker_format::compression::{CompressionType, Compressor, make_dictionary};
use esker_format::deleted_runs::{self, DeletedRunBuilder, LongDeletedRun};
use esker_format::footer::Footer;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{DataBlockPlace, IndexBuilder};
use esker_format::key::{
    self, RANGE_END_SENTINEL, TRAILER_BYTES as KEY_TRAILER_BYTES, entry_too_long, fits_entry,
};
use esker_format::meta_index::{self, MetaIndex};
use esker_format::properties::TableProperties;
use esker_format::trailer::{BlockGuard, TRAILER_BYTES};
use esker_format::unique_id::unique_id;
use filter::{FinishedFilter, TableFilterBuilder};
use index::TableIndex;
pub use sampling::EndedBlock;
use sampling::{CompressionSampler, block_ended};
use sink::BlockSink;

/// Size of the largest block: offsets within a block have 32 bits.
const MAX_BLOCK_BYTES: usize = u32::MAX as usize;

/// A finished table: its description for the MANIFEST, and its properties.
#[derive(Clone, Debug, Default)]
pub struct TableFileInfo {
    /// Size of the file in bytes.
    pub file_size: u64,
    /// Bytes after the data blocks.
    pub tail_size: u64,
    /// The properties in the file.
    pub properties: TableProperties,
    /// Smallest internal key, range tombstones included; empty if nothing was added.
    pub smallest: Vec<u8>,
    /// Largest internal key. The end of a range tombstone counts as `(end, RANGE_END_SENTINEL)`.
    pub largest: Vec<u8>,
    /// Smallest sequence number added.
    pub smallest_seqno: SequenceNumber,
    /// Largest sequence number added.
    pub largest_seqno: SequenceNumber,
    /// Number of point entries and range tombstones.
    pub num_entries: u64,
    /// Number of deletions of all kinds.
    pub num_deletions: u64,
    /// Number of range tombstones.
    pub num_range_deletions: u64,
    /// The file's unique id, if database id, session id and file number were given.
    pub unique_id: Option<[u64; 2]>,
    /// Deleted runs with at least `TableBuilderOptions::long_deleted_run_entries` entries, in key
    /// order.
    pub long_deleted_runs: Vec<LongDeletedRun>,
}

/// Writes one table. The caller adds entries in internal-key order.
pub struct TableBuilder {
    options: TableBuilderOptions,
    sink: BlockSink,
    data: BlockBuilder,
    block_end: BlockEnd,
    /// Compresses all blocks. Once there is a dictionary, compresses index blocks only.
    compressor: Compressor,
    /// Compresses data blocks once there is a dictionary.
    dictionary_compressor: Option<Compressor>,
    dictionary: Vec<u8>,
    /// Compresses samples of the data blocks, for estimates.
    sampler: Option<CompressionSampler>,
    /// Data blocks that have ended since the caller took the list, if it asked for them.
    ended_blocks: Option<Vec<EndedBlock>>,
    /// Data blocks that wait for the dictionary.
    waiting: Option<WaitingBlocks>,
    index: TableIndex,
    /// First key of the current data block.
    first_key: Vec<u8>,
    /// The last data block, if its index entry still waits for the next key. The flag tells whether
    /// padding lies before the block.
    pending: Option<(BlockHandle, bool)>,
    filter: Option<TableFilterBuilder>,
    /// The charge to the block cache for the filter under construction.
    filter_charge: BuildingCharge,
    /// Puts blocks into the block cache as they are written.
    warmer: Option<Warmer>,
    timestamp_size: usize,
    range_del: BlockBuilder,
    deleted_runs: DeletedRunBuilder,
    properties: TableProperties,
    smallest: Vec<u8>,
    /// Largest end of a range tombstone, as an internal key.
    largest_range_end: Vec<u8>,
    seqnos: Option<(u64, u64)>,
    /// Limit on the bytes of an index block, or of the block of range tombstones.
    max_block_bytes: usize,
    embedded_blobs: EmbeddedBlobs,
    failed: Option<Error>,
}

impl std::fmt::Debug for TableBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableBuilder")
            .field("offset", &self.sink.offset)
            .field("num_entries", &self.properties.num_entries)
            .finish_non_exhaustive()
    }
}

impl TableBuilder {
    /// Starts a table in an empty file.
    /// # Errors
    /// `InvalidArgument` or `NotSupported` naming the option that the builder cannot honour.
    pub fn new(mut options: TableBuilderOptions, file: Box<dyn WritableFile>) -> Result<TableBuilder> {
        if options.compression == CompressionType::ZstdNotFinal {
            // `ZstdNotFinal` is an older code for the same bytes. RocksDB 11 does not know it.
            options.compression = CompressionType::Zstd;
        }
        setup::check_options(&options)?;
        let custom = CustomCodec::new(&mut options)?;
        let table = &options.table_options;
        let guard = BlockGuard {
            checksum_type: table.checksum,
            base_context: if table.format_version >= 6 { setup::base_context(&options) } else { 0 },
        };
        let mut data = BlockBuilder::new(table.block_restart_interval)
            .share_prefixes(table.use_delta_encoding)
            .values_apart(table.separate_key_value_in_data_block);
        if setup::stores_key_prefixes(&options) {
            data = data.key_prefix(EntryShape::KeyValue, false);
        }
        if table.data_block_index_type == DataBlockIndexType::BinaryAndHash {
            data = data.hash_index(table.data_block_hash_table_util_ratio);
        }
        let mut sink =
            BlockSink::new(file, guard, table, (options.statistics.clone(), options.clock.clone()));
        sink.custom = custom;
        Ok(TableBuilder {
            sink,
            data,
            block_end: BlockEnd::new(table),
            compressor: Compressor::new(options.compression, &options.compression_opts)?,
            dictionary_compressor: None,
            dictionary: Vec::new(),
            sampler: CompressionSampler::new(options.sample_for_compression, options.orig_file_number.0)?,
            ended_blocks: None,
            waiting: WaitingBlocks::new(&options)?,
            index: TableIndex::new(&options),
            first_key: Vec::new(),
            pending: None,
            filter: TableFilterBuilder::new(&options),
            filter_charge: BuildingCharge::new(table, Role::FilterConstruction)?,
            warmer: Warmer::new(&options),
            timestamp_size: options.icmp.user_comparator().timestamp_size(),
            range_del: BlockBuilder::new(1),
            deleted_runs: DeletedRunBuilder::new(setup::deleted_run_block_min_entries(&options))
                .reporting_runs_of(options.long_deleted_run_entries),
            properties: setup::first_properties(&options),
            smallest: Vec::new(),
            largest_range_end: Vec::new(),
            seqnos: None,
            max_block_bytes: max_block_bytes(&options),
            embedded_blobs: EmbeddedBlobs::default(),
            failed: None,
            options,
        })
    }

    /// Adds an entry. Point entries must come in internal-key order. Entries of type
    /// `RangeDeletion` may come at any time and in any order; their value is the end key.
    /// # Errors
    /// `Corruption` if the key is malformed, or not larger than the last one · `InvalidArgument` if
    /// the entry exceeds [`MAX_ENTRY_BYTES`](esker_format::key::MAX_ENTRY_BYTES) · `NotSupported`
    /// if the range tombstones exceed the 4 GiB of a block · `IoError`. After an error the table
    /// cannot be finished.
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
        if !fits_entry(user_key.len(), value.len()) {
            return Err(entry_too_long(user_key.len(), value.len()));
        }
        if value_type == ValueType::RangeDeletion {
            self.add_range_deletion(internal_key, value)?;
        } else {
            self.add_point(internal_key, user_key, packed, value_type, value)?;
        }
        self.count(internal_key, packed >> 8, value_type, value);
        Ok(())
    }

    #[inline]
    fn add_point(
        &mut self,
        internal_key: &[u8],
        user_key: &[u8],
        packed: u64,
        value_type: ValueType,
        value: &[u8],
    ) -> Result<()> {
        let shared = common_prefix(self.data.last_key(), internal_key);
        if !self.is_ascending(internal_key, user_key, shared) {
            return Err(out_of_order(self.data.last_key(), internal_key));
        }
        if self.deleted_runs.is_relevant(value_type) {
            let is_older = shared >= user_key.len() && self.data.last_key().len() == internal_key.len();
            self.deleted_runs.add(user_key, SequenceNumber(packed >> 8), value_type, is_older);
        }
        let table = &self.options.table_options;
        if self.block_end.is_before(internal_key, value, &self.data, table) {
            self.flush_data_block()?;
            if self.waiting.as_ref().is_some_and(WaitingBlocks::is_full) {
                self.write_waiting(Some(internal_key))?;
            }
        }
        if self.data.is_empty() {
            self.start_data_block(internal_key);
        }
        if self.waiting.is_none() {
            self.show_key(user_key);
        }
        self.data.add_knowing_shared(internal_key, value, shared);
        if value_type == ValueType::Merge {
            self.properties.num_merge_operands += 1;
        }
        Ok(())
    }

    /// Gives a key to the filter and to the index.
    #[inline]
    fn show_key(&mut self, user_key: &[u8]) {
        if let Some(filter) = &mut self.filter {
            let key = user_key.split_at(user_key.len().saturating_sub(self.timestamp_size)).0;
            filter.add(key, &mut self.index);
        }
        self.index.key_added(user_key);
    }

    /// Whether a key is larger than the last key. The two keys share a prefix of `shared` bytes.
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

    /// Begins a data block. Adds the last block to the index, now that the first key behind it is
    /// known.
    #[inline]
    fn start_data_block(&mut self, internal_key: &[u8]) {
        if self.first_key.is_empty() {
            self.smallest_is(internal_key);
        }
        self.enter_pending(Some(internal_key));
        self.first_key.clear();
        self.first_key.extend_from_slice(internal_key);
    }

    fn enter_pending(&mut self, next: Option<&[u8]>) {
        let Some((handle, follows_gap)) = self.pending.take() else { return };
        let (first, last) = (&self.first_key[..], self.data.last_key());
        let place = DataBlockPlace { first, last, next, handle, follows_gap };
        self.index.add(&place, &self.options);
    }

    fn add_range_deletion(&mut self, internal_key: &[u8], end: &[u8]) -> Result<()> {
        self.check_block("range deletions", self.range_del.size_estimate_after(internal_key, end))?;
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
        Ok(())
    }

    /// Checks that the offsets of a block with `bytes` bytes fit 32 bits.
    /// # Errors
    /// `NotSupported`, naming table and block, if they do not fit.
    fn check_block(&self, what: &str, bytes: usize) -> Result<()> {
        if bytes <= self.max_block_bytes {
            return Ok(());
        }
        let (number, max) = (self.options.orig_file_number.0, self.max_block_bytes);
        let message = format!(
            "{number:06}.sst: its block of {what} would have {bytes} bytes; a block has at most {max}"
        );
        Err(Error::not_supported(message))
    }

    /// Whether the table should end soon. True once the index fills half of the largest possible
    /// block.
    pub fn is_index_full(&self) -> bool {
        self.index.max_single_block_bytes() > self.max_block_bytes / 2
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
        self.embedded_blobs.of_block = 0;
        self.properties.num_data_blocks += 1;
        if let Some(waiting) = &mut self.waiting {
            let (first_key, last_key) = (self.first_key.clone(), self.data.last_key().to_vec());
            let contents = self.data.finish().to_vec();
            block_ended(&mut self.sampler, &mut self.ended_blocks, &contents)?;
            waiting.push(WaitingBlock { contents, first_key, last_key });
            self.data.reset();
            return Ok(());
        }
        self.charge_filter(0);
        let compressor = self.dictionary_compressor.as_mut().unwrap_or(&mut self.compressor);
        let contents = self.data.finish_mut();
        block_ended(&mut self.sampler, &mut self.ended_blocks, contents)?;
        let for_cache = self.warmer.as_ref().map(|_| contents.clone());
        let (handle, follows_gap) = self.sink.write_data(compressor, contents)?;
        self.warm_data(handle, for_cache);
        self.pending = Some((handle, follows_gap));
        self.data.reset();
        Ok(())
    }

    /// Makes the dictionary and writes the waiting blocks. Later blocks do not wait. `next` is the
    /// first key behind the waiting blocks.
    fn write_waiting(&mut self, next: Option<&[u8]>) -> Result<()> {
        let Some(waiting) = self.waiting.take() else { return Ok(()) };
        self.make_dictionary(&waiting)?;
        let mut blocks = waiting.blocks.into_iter().peekable();
        while let Some(mut block) = blocks.next() {
            self.show_keys_of(&block)?;
            let compressor = self.dictionary_compressor.as_mut().unwrap_or(&mut self.compressor);
            let for_cache = self.warmer.as_ref().map(|_| block.contents.clone());
            let (handle, follows_gap) = self.sink.write_data(compressor, &mut block.contents)?;
            self.warm_data(handle, for_cache);
            let next = blocks.peek().map_or(next, |b| Some(&b.first_key));
            let (first, last) = (&block.first_key[..], &block.last_key[..]);
            let place = DataBlockPlace { first, last, next, handle, follows_gap };
            self.index.add(&place, &self.options);
        }
        Ok(())
    }

    fn make_dictionary(&mut self, waiting: &WaitingBlocks) -> Result<()> {
        let opts = &self.options.compression_opts;
        let is_trained = opts.zstd_max_train_bytes > 0
            && matches!(self.options.compression, CompressionType::Zstd | CompressionType::ZstdNotFinal);
        // Without training, the samples themselves are the dictionary. (RocksDB 7.8 takes more
        // samples.)
        let most = if is_trained { opts.zstd_max_train_bytes } else { opts.max_dict_bytes };
        let (samples, sizes) = waiting.samples(most as usize);
        self.dictionary = make_dictionary(self.options.compression, opts, samples, &sizes);
        if !self.dictionary.is_empty() {
            let kind = self.options.compression;
            self.dictionary_compressor = Some(Compressor::with_dictionary(kind, opts, &self.dictionary)?);
            self.sink.verify_with_dictionary(&self.dictionary);
        }
        Ok(())
    }

    /// Gives the keys of a waiting block to the filter and to the index.
    fn show_keys_of(&mut self, block: &WaitingBlock) -> Result<()> {
        let parsed = Block::parse_prefixed(block.contents.clone())?;
        let mut cursor = BlockCursor::new();
        cursor.seek_to_first(&parsed)?;
        while cursor.valid() {
            self.show_key(key::user_key(cursor.key()));
            cursor.next(&parsed)?;
        }
        Ok(())
    }

    /// Writes the rest of the table, and flushes the file to the operating system. Does not sync:
    /// the caller syncs the file that `into_file` returns.
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
        self.write_waiting(None)?;
        self.enter_pending(None);
        self.check_block("the index", self.index.max_block_bytes())?;
        let tail_start = self.sink.offset;
        let mut meta = MetaIndex::default();
        self.write_filter(&mut meta)?;
        let index = self.write_index(&mut meta)?;
        if !self.dictionary.is_empty() {
            let dictionary = std::mem::take(&mut self.dictionary);
            meta.insert(meta_index::COMPRESSION_DICT, self.sink.write_plain(dictionary)?);
        }
        if !self.range_del.is_empty() {
            let contents = self.range_del.finish().to_vec();
            meta.insert(meta_index::RANGE_DEL, self.sink.write_plain(contents)?);
        }
        if let Some(contents) = self.deleted_runs.finish() {
            meta.insert(deleted_runs::NAME, self.sink.write_plain(contents)?);
        }
        self.properties.data_size = tail_start;
        if let Some(sampler) = &self.sampler {
            sampler.estimate(self.sink.uncompressed_data, &mut self.properties);
        }
        let format_version = self.options.table_options.format_version;
        if let Some(custom) = &self.sink.custom {
            self.properties.compression_options.push_str(&custom.describe());
            custom.legacy_name().clone_into(&mut self.properties.compression_name);
        }
        if format_version >= 7 {
            let compression = self.options.compression;
            self.properties.compression_name = match &self.sink.custom {
                Some(custom) => custom.compression_name(),
                None => setup::manager_and_codecs(compression, self.sink.any_compressed),
            };
            // These properties are new: RocksDB 7.8 does not write them.
            self.properties.key_smallest_seqno = self.seqnos.map(|(low, _)| low);
            self.properties.key_largest_seqno = Some(self.seqnos.map_or(0, |(_, high)| high));
            let blocks = self.properties.num_data_blocks;
            let is_plain = compression == CompressionType::None && self.sink.custom.is_none();
            let bypassed = if is_plain { blocks } else { 0 };
            self.properties.num_data_blocks_compression_bypassed = bypassed;
            self.properties.num_data_blocks_compression_rejected = self.sink.rejected;
        }
        if format_version >= 8 {
            self.properties.uncompressed_data_size = self.sink.uncompressed_data;
        }
        let properties = self.properties.encode();
        meta.insert(meta_index::PROPERTIES, self.sink.write_plain(properties)?);
        let meta_index = self.sink.write_plain(meta.encode())?;
        let guard = self.sink.guard();
        let index = (format_version < 6).then_some(index);
        let footer = Footer { format_version, guard, meta_index, index }.encode(self.sink.offset);
        self.sink.append(&footer)?;
        self.sink.file.flush()?;
        Ok(self.info(tail_start))
    }

    fn warm_data(&self, handle: BlockHandle, contents: Option<Vec<u8>>) {
        if let (Some(warmer), Some(contents)) = (&self.warmer, contents) {
            warmer.data(handle, contents);
        }
    }

    /// Charges the block cache for the filter's keys so far, and for `more` bytes. If the cache has
    /// no room, the table gets no filter, but stays readable.
    fn charge_filter(&mut self, more: usize) {
        if let Some(filter) = &self.filter
            && !self.filter_charge.set(filter.num_entries() * BYTES_PER_FILTER_KEY + more)
        {
            self.filter = None;
        }
    }

    fn write_filter(&mut self, meta: &mut MetaIndex) -> Result<()> {
        let bytes = self.filter.as_ref().map_or(0, TableFilterBuilder::estimated_bytes);
        self.charge_filter(bytes);
        let Some(filter) = &mut self.filter else { return Ok(()) };
        self.properties.num_filter_entries = filter.num_entries() as u64;
        if filter.num_entries() == 0 {
            return Ok(());
        }
        let table = &self.options.table_options;
        let delta_values = setup::has_delta_values(&self.options);
        let mut top = IndexBuilder::new(table.index_block_restart_interval, delta_values, false);
        if table.format_version >= 8 {
            top = top.in_format_8(setup::stores_index_key_prefixes(&self.options));
        }
        let finished = filter.finish(&mut self.index);
        filter.status()?;
        match finished {
            FinishedFilter::Full(contents) => {
                self.properties.filter_size = contents.len() as u64;
                let for_cache = self.warmer.as_ref().map(|_| contents.clone());
                let handle = self.sink.write_plain(contents)?;
                warm_later(&mut self.warmer, handle, BlockKind::Filter, for_cache);
                let name = setup::filter_block(meta_index::FULL_FILTER_PREFIX, &self.options);
                meta.insert(&name, handle);
            }
            FinishedFilter::Partitioned(parts) => {
                for (separator, contents) in parts {
                    self.properties.filter_size += contents.len() as u64;
                    let for_cache = self.warmer.as_ref().map(|_| contents.clone());
                    let handle = self.sink.write_plain(contents)?;
                    warm_later(&mut self.warmer, handle, BlockKind::Filter, for_cache);
                    top.add_separator(&separator, handle);
                }
                let (contents, _) = top.finish(self.index.key_is_user_key(&self.options));
                self.properties.filter_size += contents.len() as u64;
                let for_cache = self.warmer.as_ref().map(|_| contents.clone());
                let handle = self.sink.write_plain(contents)?;
                warm_later(&mut self.warmer, handle, BlockKind::Index, for_cache);
                let name = setup::filter_block(meta_index::PARTITIONED_FILTER_PREFIX, &self.options);
                meta.insert(&name, handle);
            }
        }
        self.filter_charge.set(0);
        Ok(())
    }

    fn write_index(&mut self, meta: &mut MetaIndex) -> Result<BlockHandle> {
        let allow_user_keys = index::allows_user_keys(&self.options);
        let compress = self.options.table_options.enable_index_compression;
        let (sink, compressor) = (&mut self.sink, &mut self.compressor);
        let warmer = &mut self.warmer;
        let mut bytes = 0;
        let (contents, shape) = match &mut self.index {
            TableIndex::Plain(index) => index.finish(allow_user_keys),
            TableIndex::Hash(index, prefixes) => {
                prefixes.end_prefix();
                if prefixes.is_complete {
                    bytes += prefixes.prefixes.len() + prefixes.metadata.len();
                    let metadata = sink.write_compressed(compressor, &mut prefixes.metadata)?;
                    let names = sink.write_compressed(compressor, &mut prefixes.prefixes)?;
                    meta.insert(meta_index::HASH_INDEX_PREFIXES, names);
                    meta.insert(meta_index::HASH_INDEX_METADATA, metadata);
                }
                index.finish(allow_user_keys)
            }
            TableIndex::Partitioned(index) => {
                let mut count = 0;
                let (top, shape) = index.finish(|mut partition| {
                    (bytes, count) = (bytes + partition.len(), count + 1);
                    let for_cache = warmer.as_ref().map(|_| partition.clone());
                    let handle =
                        write_index_block(sink, compress.then_some(&mut *compressor), &mut partition)?;
                    warm_later(warmer, handle, BlockKind::Index, for_cache);
                    Ok(handle)
                })?;
                self.properties.index_partitions = count;
                self.properties.top_level_index_size = top.len() as u64;
                (top, shape)
            }
        };
        self.properties.index_key_is_user_key = shape.key_is_user_key;
        self.properties.index_value_is_delta_encoded = shape.value_is_delta_encoded;
        self.properties.index_size = (bytes + contents.len() + TRAILER_BYTES) as u64;
        let mut contents = contents;
        let for_cache = warmer.as_ref().map(|_| contents.clone());
        let handle = write_index_block(sink, compress.then_some(compressor), &mut contents)?;
        warm_later(warmer, handle, BlockKind::Index, for_cache);
        if let Some(warmer) = warmer {
            warmer.finish(shape, &self.options.icmp);
        }
        if self.options.table_options.format_version >= 6 {
            meta.insert(meta_index::INDEX, handle);
        }
        Ok(handle)
    }

    fn info(&mut self, tail_start: u64) -> TableFileInfo {
        let long_deleted_runs = self.deleted_runs.take_long();
        let p = &self.properties;
        let last_point = self.data.last_key();
        let range_is_last = !self.largest_range_end.is_empty()
            && (last_point.is_empty()
                || self.options.icmp.compare(last_point, &self.largest_range_end).is_lt());
        let (low, high) = self.seqnos.unwrap_or((0, 0));
        TableFileInfo {
            file_size: self.sink.offset,
            tail_size: self.sink.offset - tail_start,
            properties: p.clone(),
            smallest: self.smallest.clone(),
            largest: if range_is_last { self.largest_range_end.clone() } else { last_point.to_vec() },
            smallest_seqno: SequenceNumber(low),
            largest_seqno: SequenceNumber(high),
            num_entries: p.num_entries,
            num_deletions: p.num_deletions,
            num_range_deletions: p.num_range_deletions,
            unique_id: unique_id(&p.db_id, &p.db_session_id, p.orig_file_number),
            long_deleted_runs,
        }
    }

    /// Returns the file after `finish`, so that the caller can sync and close it.
    pub fn into_file(self) -> Box<dyn WritableFile> {
        self.sink.file
    }

    /// Syncs and closes the file after `finish`.
    /// # Errors
    /// `IoError`.
    pub fn sync_and_close(mut self) -> Result<()> {
        self.sink.file.sync()?;
        self.sink.file.close()
    }

    /// Abandons the table. The caller deletes the file.
    pub fn abandon(self) {}

    /// Bytes written so far, without the current block.
    #[inline]
    pub fn file_size(&self) -> u64 {
        self.sink.offset
    }

    /// From now on, keeps the sizes of data blocks, for
    /// [`take_ended_blocks`](Self::take_ended_blocks).
    pub fn keep_ended_blocks(&mut self) {
        self.ended_blocks = Some(Vec::new());
    }

    /// The data blocks that have ended since the last call, in order.
    pub fn take_ended_blocks(&mut self) -> Vec<EndedBlock> {
        self.ended_blocks.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Ends the current data block, so that its size is known before `finish`.
    /// # Errors
    /// `IoError`, or the first error of any call. After an error the table cannot be finished.
    pub fn end_data_block(&mut self) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        self.flush_data_block().inspect_err(|e| self.failed = Some(e.clone()))
    }

    /// Adds the properties that the collectors with these names have collected. Must be called
    /// before `finish`.
    pub fn add_collected(
        &mut self,
        names: &[&str],
        properties: Vec<(Vec<u8>, Vec<u8>)>,
        readable: Vec<(Vec<u8>, Vec<u8>)>,
    ) {
        self.properties.readable_properties.extend(readable);
        self.properties.property_collectors_names = format!("[{}]", names.join(","));
        self.properties.user_collected_properties.extend(properties);
    }

    /// Sets the property with the times of sequence numbers
    /// ([`SeqnoToTimeMapping`](esker_format::seqno_to_time::SeqnoToTimeMapping)). Call it before
    /// `finish`.
    pub fn set_seqno_to_time_mapping(&mut self, encoded: Vec<u8>) {
        self.properties.seqno_to_time_mapping = encoded;
    }

    /// The smallest and the largest sequence number so far; `None` without entries.
    pub fn sequence_numbers(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        self.seqnos.map(|(low, high)| (SequenceNumber(low), SequenceNumber(high)))
    }

    /// Estimates the file's size if the table ended now: `file_size`, plus the uncompressed bytes
    /// in memory.
    pub fn estimated_file_size(&self) -> u64 {
        let filter = self.filter.as_ref().map_or(0, TableFilterBuilder::estimated_bytes);
        let data = if self.data.is_empty() { 0 } else { self.data.size_estimate() };
        let range_del = if self.range_del.is_empty() { 0 } else { self.range_del.size_estimate() };
        let waiting = self.waiting.as_ref().map_or(0, WaitingBlocks::bytes);
        let ends = self.index.size_estimate() + range_del + self.deleted_runs.size_estimate() + filter;
        self.sink.offset + waiting + (data + ends) as u64
    }

    /// Number of point entries and range tombstones so far.
    #[inline]
    pub fn num_entries(&self) -> u64 {
        self.properties.num_entries
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }
}

/// [`MAX_BLOCK_BYTES`], or a smaller limit that a test has set for the family.
fn max_block_bytes(options: &TableBuilderOptions) -> usize {
    let mut limit = (options.column_family_name.clone(), MAX_BLOCK_BYTES);
    esker_base::probe!("table:max_block_bytes", &mut limit);
    limit.1
}

fn warm_later(warmer: &mut Option<Warmer>, handle: BlockHandle, kind: BlockKind, contents: Option<Vec<u8>>) {
    if let (Some(warmer), Some(contents)) = (warmer, contents) {
        warmer.later(handle, kind, contents);
    }
}

/// Writes an index block. Compresses the block if there is a compressor, and if the result is small
/// enough.
fn write_index_block(
    sink: &mut BlockSink,
    compressor: Option<&mut Compressor>,
    contents: &mut Vec<u8>,
) -> Result<BlockHandle> {
    match compressor {
        Some(compressor) => sink.write_compressed(compressor, contents),
        None => sink.write_plain(std::mem::take(contents)),
    }
}

#[cold]
fn out_of_order(last: &[u8], key: &[u8]) -> Error {
    Error::corruption(format!(
        "keys came out of order to a table writer: '{}' after '{}'",
        key.escape_ascii(),
        last.escape_ascii()
    ))
}
