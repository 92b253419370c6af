//! Gets a table's blocks from the block cache, a tier below the cache, or the file.
//!
//! In: a block handle. Out: the checked and parsed block.
//!
//! Invariants
//!  1. The cache holds checked and parsed blocks. A hit needs no second check.
//!  2. A handle is checked against the file's size before memory for the block is allocated.
//!  3. Every error names the file and the block's offset.
//!  4. A read that finds damage is repeated once, past the page cache if possible, before the
//!     damage is reported.

use crate::counts;
use crate::embedded;
use crate::long_scan::LongScans;
use crate::options::{TableReadOptions, TableReadTier};
use crate::readahead::{ReadPace, Readahead, ReadaheadState};
use crate::trace::{self, TracedTable};
use esker_base::stats::{Histogram, Statistics};
use esker_base::sync::epoch::Guard;
use esker_base::{Buffer, Error, ErrorKind, IoActivity, Result, perf_add, perf_time};
use esker_cache::{BaseCacheKey, Cache, CacheKey, CacheOptions, CachePriority, Guarded, Handle, Role};
use esker_env::{Clock, RandomAccessFile, StopWatch};
use esker_format::block::{Block, EntryShape};
use esker_format::compression::manager::CustomDecompressor;
use esker_format::compression::{CompressionType, Decompressor};
use esker_format::filter::{CustomFilterPolicyRef, FilterReader};
use esker_format::handle::BlockHandle;
use esker_format::index_entry::{IndexShape, prepare_for_search};
use esker_format::key::InternalKeyComparator;
use esker_format::trailer::{BlockGuard, TRAILER_BYTES, compression_code};
use std::sync::Arc;

mod batch;
mod below;
pub(crate) use batch::{COALESCED_GAP_BYTES, GatherCounts, Gathered, Wanted, gather, gather_closer};
pub(crate) use below::Started;

/// The block cache. The key of a block is its file and its offset.
pub type BlockCache = Cache<CachedBlock>;

/// A counted reference to a block, inside or outside of the cache.
pub(crate) type BlockRef = Handle<CachedBlock>;

/// A block for the time of one read: borrowed from the cache under the read's guard, or held by a
/// counted reference.
pub(crate) type BlockLoan<'g> = Guarded<'g, CachedBlock>;

/// Capacity of the default block cache in bytes: RocksDB 11's number. A family uses that cache if
/// its options name none.
pub const DEFAULT_BLOCK_CACHE_BYTES: usize = 32 << 20;

/// Makes a cache of `DEFAULT_BLOCK_CACHE_BYTES`.
pub fn default_block_cache() -> Arc<BlockCache> {
    let options =
        CacheOptions { estimates_misses: true, ..CacheOptions::with_capacity(DEFAULT_BLOCK_CACHE_BYTES) };
    Arc::new(Cache::new(&options).expect("the default options of a cache are allowed"))
}

/// A block in the cache: decompressed, checked and parsed.
#[derive(Debug)]
pub enum CachedBlock {
    /// Data, index and other key/value blocks.
    KeyValue(Block),
    /// A filter, or a partition of one.
    Filter(FilterReader<Buffer>),
    /// A value from a blob file, or a row of a row cache.
    Blob(Vec<u8>),
}

impl CachedBlock {
    /// The key/value block.
    /// # Errors
    /// `Corruption` if the block is a filter or a blob. This happens if two handles of a damaged
    /// table point to the same place.
    #[inline]
    pub fn key_value(&self) -> Result<&Block> {
        match self {
            CachedBlock::KeyValue(block) => Ok(block),
            CachedBlock::Filter(_) => Err(Error::corruption("a filter where a key/value block should be")),
            CachedBlock::Blob(_) => Err(Error::corruption("a blob where a key/value block should be")),
        }
    }

    /// The filter. `None` if the block is something else.
    #[inline]
    pub fn filter(&self) -> Option<&FilterReader<Buffer>> {
        match self {
            CachedBlock::Filter(filter) => Some(filter),
            CachedBlock::KeyValue(_) | CachedBlock::Blob(_) => None,
        }
    }

    /// The bytes of the block.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            CachedBlock::KeyValue(block) => block.bytes(),
            CachedBlock::Filter(filter) => filter.contents(),
            CachedBlock::Blob(value) => value,
        }
    }

    /// The bytes from which the block can be parsed again, for a tier. `None` for blobs, which
    /// tiers do not keep.
    pub fn saved(&self) -> Option<&[u8]> {
        match self {
            CachedBlock::KeyValue(_) | CachedBlock::Filter(_) => Some(self.bytes()),
            CachedBlock::Blob(_) => None,
        }
    }

    /// Bytes of memory that the block uses.
    pub(crate) fn memory_usage(&self) -> usize {
        let inner = match self {
            CachedBlock::KeyValue(block) => block.memory_usage(),
            CachedBlock::Filter(filter) => filter.source().memory_bytes(),
            CachedBlock::Blob(value) => value.capacity(),
        };
        inner + size_of::<CachedBlock>()
    }
}

/// The purpose of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockKind {
    Data,
    Index,
    Filter,
    /// Properties, meta index and range tombstones. They are read at open and never cached.
    Meta,
}

impl BlockKind {
    pub(crate) fn role(self) -> Role {
        match self {
            BlockKind::Data => Role::DataBlock,
            BlockKind::Index => Role::IndexBlock,
            BlockKind::Filter => Role::FilterBlock,
            BlockKind::Meta => Role::OtherBlock,
        }
    }
}

/// The code of blocks that are stored as they are.
const PLAIN: u8 = CompressionType::None as u8;

/// The blocks of one table.
#[derive(Debug)]
pub(crate) struct BlockSource {
    pub(crate) file: Arc<dyn RandomAccessFile>,
    pub(crate) file_size: u64,
    pub(crate) guard: BlockGuard,
    /// The decompressor for data blocks. Has the table's dictionary, if there is one.
    pub(crate) data_decompressor: Decompressor,
    /// The decompressor for all other blocks.
    pub(crate) decompressor: Decompressor,
    /// Decompresses blocks in place of the two; `None`: the table has built-in codecs only.
    pub(crate) custom_decompressor: Option<Arc<dyn CustomDecompressor>>,
    pub(crate) cache: Option<Arc<BlockCache>>,
    /// The words of the blocks' cache keys.
    pub(crate) file_key: BaseCacheKey,
    pub(crate) index_priority: CachePriority,
    pub(crate) statistics: Option<Arc<Statistics>>,
    /// The table's level when it was opened, for counts by level; `u32::MAX`: none.
    pub(crate) level: u32,
    /// The table's family, level and number, for traces. `None` if nothing is traced.
    pub(crate) traced: Option<Box<TracedTable>>,
    /// The clock for the deadlines of reads.
    pub(crate) clock: Arc<dyn Clock>,
    /// The shape of index blocks, once it is known. Index blocks that are read later are prepared
    /// for fast searches.
    pub(crate) index_shape: Option<(IndexShape, InternalKeyComparator)>,
    /// Whether data and index blocks may store the common prefix of their keys apart (format
    /// version 8).
    pub(crate) has_key_prefixes: bool,
    /// The policy by user code that reads the table's filter; `None`: the filter is a built-in one.
    pub(crate) filter_policy: Option<CustomFilterPolicyRef>,
    /// Whether values of a data block may lie elsewhere in the file.
    pub(crate) has_embedded_blobs: bool,
    /// Bytes of the checksum of each entry in memory; 0: none.
    pub(crate) protection_bytes: usize,
    /// The long scans of this table that are under way.
    pub(crate) long_scans: LongScans,
}

impl BlockSource {
    /// The block's cache key.
    #[inline]
    pub(crate) fn key(&self, handle: BlockHandle) -> CacheKey {
        self.file_key.block(handle.offset)
    }

    /// Gets the block at `handle` from the cache, a tier or the file. `readahead` serves sequential
    /// readers.
    /// # Errors
    /// `Corruption`, `NotSupported`, `IoError`; `Incomplete` if the block is not cached and
    /// `read_tier` forbids I/O.
    #[inline]
    pub(crate) fn block(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        readahead: Option<&mut Readahead>,
    ) -> Result<BlockRef> {
        if let Some(block) = self.cached(handle, kind) {
            if let Some(readahead) = readahead {
                readahead.skipped(handle);
            }
            return Ok(block);
        }
        self.load(handle, kind, options, readahead)
    }

    /// Does [`BlockSource::block`] without readahead. `pace` limits the rate of reads.
    /// # Errors
    /// `Corruption`, `NotSupported`, `IoError`; `Incomplete` if the block is not cached and
    /// `read_tier` forbids I/O.
    pub(crate) fn block_at_pace(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        pace: Option<&ReadPace>,
    ) -> Result<BlockRef> {
        if let Some(block) = self.cached(handle, kind) {
            return Ok(block);
        }
        if let Some(pace) = pace {
            pace.wait_for(handle.size + TRAILER_BYTES as u64);
        }
        self.load(handle, kind, options, None)
    }

    /// Gets the block if the cache has it.
    #[inline]
    pub(crate) fn cached(&self, handle: BlockHandle, kind: BlockKind) -> Option<BlockRef> {
        let block = self.cache.as_ref()?.lookup(&self.key(handle))?;
        counts::cache_hit(self.statistics.as_ref(), kind, self.level, || block.memory_usage());
        self.trace_access(handle, kind, &block, true, false);
        Some(block)
    }

    /// Borrows the block from the cache for as long as the guard lives. `None` if the cache does
    /// not have it. Touches no reference count.
    #[inline]
    pub(crate) fn lent<'g>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        guard: &'g Guard,
    ) -> Option<BlockLoan<'g>> {
        let block = self.cache.as_ref()?.lookup_under(&self.key(handle), guard)?;
        counts::cache_hit(self.statistics.as_ref(), kind, self.level, || block.memory_usage());
        self.trace_access(handle, kind, &block, true, false);
        Some(block)
    }

    /// Gets a block for the time of one read. With a guard, borrows the block from the cache.
    /// Without a guard, returns a counted reference; a block that is not cached is then read from
    /// the file.
    /// # Errors
    /// `Corruption`, `NotSupported`, `IoError`; `Incomplete` if there is a guard and the cache has
    /// no such block.
    #[inline]
    pub(crate) fn loan<'g>(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        guard: Option<&'g Guard>,
    ) -> Result<BlockLoan<'g>> {
        match guard {
            Some(guard) => self.lent(handle, kind, guard).ok_or_else(not_waited_for),
            None => self.block(handle, kind, options, None).map(Guarded::Held),
        }
    }

    /// Loads a block from a tier or the file, after a miss in the cache.
    #[cold]
    pub(crate) fn load(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        readahead: Option<&mut Readahead>,
    ) -> Result<BlockRef> {
        if options.read_tier == TableReadTier::NoWait {
            return Err(not_waited_for());
        }
        if let Some(block) = self.promote(handle, kind, options) {
            if let Some(readahead) = readahead {
                readahead.skipped(handle);
            }
            return Ok(block);
        }
        let load = || self.load_from_file(handle, kind, options, readahead);
        match kind {
            BlockKind::Index => perf_time!(read_index_block_nanos, self.clock, load()),
            BlockKind::Filter => perf_time!(read_filter_block_nanos, self.clock, load()),
            BlockKind::Data | BlockKind::Meta => load(),
        }
    }

    /// Reads the block at `handle` from the file, and puts it into the cache if the options say so.
    fn load_from_file(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        readahead: Option<&mut Readahead>,
    ) -> Result<BlockRef> {
        self.begin_read(handle, kind, options)?;
        let (verify, for_cache) = (options.verify_checksums, options.fill_cache);
        let _activity = options.activity.begin();
        let watch = self.time_block();
        let Some(readahead) = readahead else {
            let block = self.read_for(for_cache, handle, kind, verify)?;
            drop(watch);
            return self.keep(block, handle, kind, options, true);
        };
        let block = self.read_with((readahead, for_cache), handle, kind, verify)?;
        drop(watch);
        match self.cache.as_ref().filter(|_| options.fill_cache && kind == BlockKind::Data) {
            Some(cache) => {
                let (capacity, usage) = (cache.capacity(), || cache.usage());
                if readahead.long.decide_bypass(handle.size, &self.long_scans, capacity, usage) {
                    Ok(self.hold_outside_cache(cache, block, handle, kind))
                } else {
                    self.keep(block, handle, kind, options, true)
                }
            }
            None => self.keep(block, handle, kind, options, true),
        }
    }

    /// Times the reading, checking and decompressing of a block.
    fn time_block(&self) -> StopWatch<'_> {
        let histogram = match IoActivity::current() {
            IoActivity::Compaction => Histogram::ReadBlockCompactionMicros,
            _ => Histogram::ReadBlockGetMicros,
        };
        StopWatch::start(self.statistics.as_deref(), &*self.clock, histogram)
    }

    /// Reads the block at `handle` from the file, with readahead. `for_cache`: as in `read_for`.
    /// # Errors
    /// `Corruption`, `NotSupported`, `IoError`.
    pub(crate) fn read_with(
        &self,
        (readahead, for_cache): (&mut Readahead, bool),
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<CachedBlock> {
        handle.check_within(self.file_size).map_err(|e| self.at(e, handle))?;
        let statistics = self.statistics.as_ref();
        match readahead
            .read(&*self.file, handle, self.file_size, statistics)
            .map_err(|e| self.at(e, handle))?
        {
            ReadaheadState::Stored(stored) => self
                .parse_borrowed(stored, handle, kind, verify)
                .inspect(|_| {
                    if for_cache && self.has_form_for_tier(stored, kind) {
                        self.offer_stored(stored, handle, kind);
                    }
                })
                .or_else(|e| self.again(e, handle, |stored| self.parse(stored, handle, kind, verify))),
            ReadaheadState::Own(stored) => self
                .parse_for(for_cache, stored, handle, kind, verify)
                .or_else(|e| self.again(e, handle, |stored| self.parse(stored, handle, kind, verify))),
            ReadaheadState::Alone => self.read_for(for_cache, handle, kind, verify),
            ReadaheadState::Failed => {
                counts::readahead_failed(self.statistics.as_ref());
                self.read_for(for_cache, handle, kind, verify)
            }
        }
    }

    /// Makes a reference to a block that stays out of the cache. The cache is charged for the block
    /// while the reference lives.
    fn hold_outside_cache(
        &self,
        cache: &BlockCache,
        block: CachedBlock,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> BlockRef {
        let charge = block.memory_usage();
        self.trace_access(handle, kind, &block, false, true);
        // If the cache is full and its limit strict, the read still succeeds.
        let block = cache
            .create_standalone(self.key(handle), block, charge, kind.role())
            .unwrap_or_else(|refused| BlockRef::uncached(refused.value));
        self.offer_to_tier(&block, handle, kind, false);
        block
    }

    /// Checks that the block may be read from the file, and counts the read.
    /// # Errors
    /// `Incomplete`: `read_tier` forbids it · `TimedOut`.
    fn begin_read(&self, handle: BlockHandle, kind: BlockKind, options: &TableReadOptions) -> Result<()> {
        if self.cache.is_some() {
            counts::cache_miss(self.statistics.as_ref(), kind, self.level);
            if trace::is_watched() {
                self.tell_of_lookup(handle, kind, None);
            }
        }
        if options.read_tier == TableReadTier::BlockCache {
            return Err(Error::incomplete("the block is not cached, and read_tier forbids I/O"));
        }
        options.check_deadline(&*self.clock)?;
        // A damaged index may give any size.
        counts::block_read(kind, handle.size.saturating_add(TRAILER_BYTES as u64));
        if options.activity == IoActivity::MultiGet
            && self.statistics.is_some()
            && let Some(table) = &self.traced
        {
            counts::batch_reads_block(kind, table.level, table.number.0);
        }
        Ok(())
    }

    /// Puts a block into the cache if the options say so. `is_read`: the block comes from the file,
    /// not from a tier, and counts as added.
    fn keep(
        &self,
        block: CachedBlock,
        handle: BlockHandle,
        kind: BlockKind,
        options: &TableReadOptions,
        is_read: bool,
    ) -> Result<BlockRef> {
        if self.cache.is_some() {
            self.trace_access(handle, kind, &block, !is_read, !options.fill_cache);
        }
        match &self.cache {
            Some(cache) if options.fill_cache && kind != BlockKind::Meta => {
                let priority = if kind == BlockKind::Data { CachePriority::Low } else { self.index_priority };
                let charge = block.memory_usage();
                let inserted = cache.insert(self.key(handle), block, charge, priority, kind.role());
                if is_read {
                    let outcome = inserted.as_ref().ok().map(|inserted| inserted.outcome);
                    counts::cache_add(self.statistics.as_ref(), kind, charge, outcome);
                }
                let block = match inserted {
                    Ok(inserted) => inserted.handle,
                    // If the cache is full and its limit strict, a read of data still succeeds.
                    Err(refused) if kind == BlockKind::Data => BlockRef::uncached(refused.value),
                    Err(refused) => return Err(self.at(refused.error, handle)),
                };
                if is_read {
                    self.offer_to_tier(&block, handle, kind, false);
                }
                Ok(block)
            }
            _ => Ok(BlockRef::uncached(block)),
        }
    }

    /// Reads and parses the block at `handle` from the file.
    /// # Errors
    /// `Corruption`, `NotSupported`, `IoError`.
    pub(crate) fn read(&self, handle: BlockHandle, kind: BlockKind, verify: bool) -> Result<CachedBlock> {
        if kind == BlockKind::Meta {
            perf_add!(metadata_block_read_byte, handle.size.saturating_add(TRAILER_BYTES as u64));
        }
        self.read_for(false, handle, kind, verify)
    }

    /// [`BlockSource::read`]. `for_cache`: the block goes into the cache, so the tier below is
    /// offered the block's compressed form.
    fn read_for(
        &self,
        for_cache: bool,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<CachedBlock> {
        self.read_checked(handle, |stored| self.parse_for(for_cache, stored, handle, kind, verify))
    }

    /// Reads contents and trailer at `handle` from the file, and returns the result of `check` on
    /// them.
    /// # Errors
    /// `IoError`; `Corruption` if the handle does not lie within the file; the errors of `check`.
    pub(crate) fn read_checked<T>(
        &self,
        handle: BlockHandle,
        check: impl Fn(Buffer) -> Result<T>,
    ) -> Result<T> {
        handle.check_within(self.file_size).map_err(|e| self.at(e, handle))?;
        self.read_stored(handle).and_then(&check).or_else(|e| self.again(e, handle, check))
    }

    /// Repeats a read whose bytes `check` found damaged: the device may still have the right bytes.
    /// # Errors
    /// `error`, if it is no damage, or if the second read fails too.
    #[cold]
    pub(crate) fn again<T>(
        &self,
        error: Error,
        handle: BlockHandle,
        check: impl Fn(Buffer) -> Result<T>,
    ) -> Result<T> {
        if !may_be_damage(&error) {
            return Err(error);
        }
        self.file.read_anew(handle.offset, handle.size + TRAILER_BYTES as u64);
        let checked = self.read_stored(handle).and_then(check);
        counts::read_again(self.statistics.as_ref(), checked.is_ok());
        checked.map_err(|_| error)
    }

    /// Reads contents and trailer at `handle`, and checks nothing. REQUIRES: the handle lies within
    /// the file.
    pub(crate) fn read_stored(&self, handle: BlockHandle) -> Result<Buffer> {
        let mut stored = Buffer::new(handle.size as usize + TRAILER_BYTES);
        let mut read = || self.file.read_at(handle.offset, &mut stored);
        let mut timed = || perf_time!(block_read_time, self.clock, read());
        let read = perf_time!(cpu block_read_cpu_time, self.clock, timed());
        let n = read.map_err(|e| self.at(e, handle))?;
        if n < stored.len() {
            return Err(self.truncated(n, handle));
        }
        Ok(stored)
    }

    /// The error of a read that got only `n` bytes of a block.
    #[cold]
    fn truncated(&self, n: usize, handle: BlockHandle) -> Error {
        let wanted = handle.size as usize + TRAILER_BYTES;
        self.at(Error::corruption(format!("truncated block read: {n} bytes instead of {wanted}")), handle)
    }

    /// Parses a block that has a buffer of its own. Uncompressed contents stay in that buffer.
    pub(crate) fn parse(
        &self,
        mut stored: Buffer,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<CachedBlock> {
        self.contents_code(&stored, handle, verify)
            .and_then(|codec| {
                stored.truncate(handle.size as usize);
                match codec {
                    PLAIN => Ok(stored),
                    codec => self.decompress(codec, &stored, kind),
                }
            })
            .and_then(|contents| self.block_of(contents, kind))
            .and_then(|block| self.with_values(block, kind, verify))
            .and_then(|block| self.protected(block, handle, kind))
            .map_err(|e| self.at(e, handle))
    }

    /// Parses a block that lies in a larger buffer.
    fn parse_borrowed(
        &self,
        stored: &[u8],
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
    ) -> Result<CachedBlock> {
        self.contents_code(stored, handle, verify)
            .and_then(|codec| {
                let stored = stored.get(..handle.size as usize).unwrap_or_default();
                if codec != PLAIN {
                    return self.decompress(codec, stored, kind);
                }
                let mut contents = Buffer::new(stored.len());
                contents.copy_from_slice(stored);
                Ok(contents)
            })
            .and_then(|contents| self.block_of(contents, kind))
            .and_then(|block| self.with_values(block, kind, verify))
            .and_then(|block| self.protected(block, handle, kind))
            .map_err(|e| self.at(e, handle))
    }

    /// Checks the trailer, and returns the compression code of the contents.
    fn contents_code(&self, stored: &[u8], handle: BlockHandle, verify: bool) -> Result<u8> {
        if !verify {
            return compression_code(stored);
        }
        let checked = perf_time!(block_checksum_time, self.clock, self.guard.check(stored, handle.offset));
        counts::checksum_computed(self.statistics.as_ref(), checked.is_ok());
        checked
    }

    /// Decompresses a block whose code is not [`PLAIN`].
    fn decompress(&self, code: u8, stored: &[u8], kind: BlockKind) -> Result<Buffer> {
        let decompressor = if kind == BlockKind::Data { &self.data_decompressor } else { &self.decompressor };
        let begun = counts::begin_detailed(self.statistics.as_ref(), &*self.clock);
        let decompress = || match &self.custom_decompressor {
            None => decompressor.decompress_block(CompressionType::from_u8(code)?, stored),
            Some(custom) => custom.contents_of(code, stored),
        };
        let contents = perf_time!(block_decompress_time, self.clock, decompress())?;
        counts::decompressed(self.statistics.as_ref(), stored.len(), contents.len());
        counts::end_detailed(begun, Histogram::DecompressionTimesNanos);
        Ok(contents)
    }

    /// Adds file and offset to the error.
    #[cold]
    pub(crate) fn at(&self, e: Error, handle: BlockHandle) -> Error {
        e.at(format_args!("{} at offset {}", self.file.path().display(), handle.offset))
    }

    /// Adds the file to the error.
    #[cold]
    pub(crate) fn in_file(&self, e: Error) -> Error {
        e.at(self.file.path().display())
    }

    /// Puts values that lie elsewhere in the file back into a data block.
    #[inline]
    fn with_values(&self, block: CachedBlock, kind: BlockKind, verify: bool) -> Result<CachedBlock> {
        if self.has_embedded_blobs && kind == BlockKind::Data {
            embedded::resolve(self, block, verify)
        } else {
            Ok(block)
        }
    }

    /// Adds checksums of the block's entries if the options request them. This is the last step, so
    /// the checksums cover the entries that readers see.
    #[inline]
    fn protected(&self, block: CachedBlock, handle: BlockHandle, kind: BlockKind) -> Result<CachedBlock> {
        if self.protection_bytes == 0 {
            return Ok(block);
        }
        let shape = match &self.index_shape {
            Some((shape, _)) if kind == BlockKind::Index => shape.entry_shape(),
            _ => EntryShape::KeyValue,
        };
        protect(block, handle, shape, self.protection_bytes)
    }

    fn block_of(&self, contents: Buffer, kind: BlockKind) -> Result<CachedBlock> {
        if kind == BlockKind::Filter {
            return Ok(CachedBlock::Filter(match &self.filter_policy {
                None => FilterReader::parse(contents),
                Some(policy) => FilterReader::of_policy(contents, policy),
            }));
        }
        let mut block = match kind {
            BlockKind::Data | BlockKind::Index if self.has_key_prefixes => Block::parse_prefixed(contents)?,
            _ => Block::parse(contents)?,
        };
        if let (BlockKind::Index, Some((shape, icmp))) = (kind, &self.index_shape) {
            prepare_for_search(&mut block, *shape, icmp);
        }
        Ok(CachedBlock::KeyValue(block))
    }
}

/// Whether damage can cause this error. Damaged bytes without a checksum may look like an unknown
/// feature.
pub(crate) fn may_be_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported)
}

/// Adds a checksum of `width` bytes for each entry of a key/value block. `shape` is the shape of
/// the entries. Filters and blobs get no checksums.
/// # Errors
/// `Corruption` if an entry cannot be read.
#[cold]
pub(crate) fn protect(
    mut block: CachedBlock,
    handle: BlockHandle,
    shape: EntryShape,
    width: usize,
) -> Result<CachedBlock> {
    if let CachedBlock::KeyValue(entries) = &mut block {
        entries.protect(shape, width, handle.offset)?;
        esker_base::probe!("block_source::protect", entries);
    }
    Ok(block)
}

/// The error of a read that must not wait, and whose block is not cached.
#[cold]
fn not_waited_for() -> Error {
    Error::incomplete("the block is not cached, and the read waits for nothing")
}

#[cfg(test)]
mod tests;
