//! Open readers by file number: of one family, within the limit of all families of a database.
//!
//! In: a file's description in the MANIFEST. Out: its reader, opened at the first use, kept while
//! there is room.
//!
//! A lookup takes one shard's lock; engines that read a file often keep the `Arc` beside its
//! metadata instead.
//!
//! Invariants
//!  1. At most one thread opens a given file at a time; a failure is not remembered.
//!  2. An evicted reader lives on for its holders.

use crate::blob::{BlobSource, BlobSourceOptions};
use crate::block_source::BlockCache;
use crate::open_files::OpenFiles;
use crate::options::{BlockBasedTableOptions, TableReadOptions, TableReaderOptions};
use crate::reader::TableReader;
use crate::trace::{BlockCacheTracer, called_by};
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::prefix::SliceTransformRef;
use esker_base::stats::{
    Histogram, HistogramStat, Statistics, Ticker, record_tick, report_time_to_histogram,
};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use esker_base::{Error, FileNumber, Result, SubCode};
use esker_cache::Role;
use esker_env::{Clock, FileSystem, RandomAccessFile};
use esker_format::compression::manager::CompressionManagerRef;
use esker_format::file_name::{FilePaths, leveldb_table_file_name, table_file_name};
use esker_format::key::InternalKeyComparator;
use esker_format::trace::TableReaderCaller;
use esker_format::version_edit::FileMetaData;
use std::path::Path;
use std::sync::Arc;

const OPENERS: usize = 64;

/// Options common to all readers of one family.
#[derive(Clone, Debug)]
pub struct TableCacheOptions {
    /// The family's key order.
    pub icmp: InternalKeyComparator,
    /// The family's table options, until [`TableCache::set_table_options`] says otherwise.
    pub table_options: Arc<BlockBasedTableOptions>,
    /// The family's prefix extractor.
    pub prefix_extractor: Option<SliceTransformRef>,
    /// Reads blocks of codecs by user code.
    pub compression_manager: Option<CompressionManagerRef>,
    /// Merges the family's operands.
    pub merge_operator: Option<MergeOperatorRef>,
    /// The family's directories.
    pub paths: FilePaths,
    /// The open files of all families of the database.
    pub open_files: Arc<OpenFiles>,
    /// Whether the MANIFEST's unique ids are checked.
    pub verify_unique_ids: bool,
    /// Bytes up to which a table in level 0 counts as flushed when its index and filter may be
    /// pinned: one and a half memtables.
    pub max_file_size_for_l0_meta_pin: u64,
    /// The family's number of levels. Reads of the last one have statistics of their own.
    pub num_levels: usize,
    /// The temperature of tables for which the MANIFEST has none, as it would store it.
    pub default_temperature: u8,
    /// The family's name, for traces.
    pub family_name: Arc<str>,
    /// Counts opened files, cache hits and filters.
    pub statistics: Option<Arc<Statistics>>,
    /// The clock for deadlines of reads.
    pub clock: Arc<dyn Clock>,
    /// A cache for values from blob files; `None`: no cache.
    pub blob_cache: Option<Arc<BlockCache>>,
    /// Files are read past the page cache.
    pub use_direct_reads: bool,
    /// Bytes of a checksum for each entry of blocks in memory, until
    /// [`TableCache::set_block_protection`] says otherwise.
    pub block_protection_bytes_per_key: usize,
    /// The family's option of this name, until [`TableCache::set_uncache_aggressiveness`] says
    /// otherwise.
    pub uncache_aggressiveness: u32,
}

/// The facts needed to open one file.
#[derive(Clone, Copy, Debug)]
pub struct TableFile<'a> {
    /// Its description in the MANIFEST.
    pub meta: &'a FileMetaData,
    /// Its level, if known.
    pub level: Option<usize>,
}

/// Microseconds of the reads of a family's files.
#[derive(Debug)]
pub struct ReadLatencies {
    levels: Vec<Arc<HistogramStat>>,
    blobs: Arc<HistogramStat>,
}

impl ReadLatencies {
    fn new(num_levels: usize) -> ReadLatencies {
        ReadLatencies { levels: (0..num_levels).map(|_| Arc::default()).collect(), blobs: Arc::default() }
    }

    /// Those of tables that were opened in this level.
    fn of_level(&self, level: usize) -> Option<Arc<HistogramStat>> {
        self.levels.get(level).cloned()
    }

    /// Those of tables, level by level.
    pub fn levels(&self) -> impl Iterator<Item = &HistogramStat> {
        self.levels.iter().map(|level| &**level)
    }

    /// Those of blob files.
    pub fn blobs(&self) -> &HistogramStat {
        &self.blobs
    }

    /// Begins again.
    pub fn clear(&self) {
        self.levels().chain([self.blobs()]).for_each(HistogramStat::clear);
    }
}

/// The open readers of one family.
pub struct TableCache {
    fs: Arc<dyn FileSystem>,
    options: TableCacheOptions,
    /// The number that marks this family's readers in `OpenFiles`.
    family: u64,
    table_options: Mutex<Arc<BlockBasedTableOptions>>,
    block_protection: AtomicUsize,
    uncache_aggressiveness: Arc<AtomicU32>,
    blobs: Arc<BlobSource>,
    /// Times of reads, if there are statistics.
    latencies: Option<ReadLatencies>,
    /// Held while a file is opened; picked by its number.
    openers: [Mutex<()>; OPENERS],
}

impl std::fmt::Debug for TableCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCache").field("open", &self.len()).finish_non_exhaustive()
    }
}

impl TableCache {
    /// The clock for deadlines and times of reads.
    pub fn clock(&self) -> &dyn Clock {
        &*self.options.clock
    }

    /// A cache without open readers.
    pub fn new(fs: Arc<dyn FileSystem>, options: TableCacheOptions) -> TableCache {
        let blob_options = BlobSourceOptions {
            dir: options.paths.first().to_path_buf(),
            open_files: Arc::clone(&options.open_files),
            cache: options.blob_cache.clone(),
            charged_to: options.table_options.cache_charged_for(Role::BlobCache).cloned(),
            use_direct_reads: options.use_direct_reads,
            statistics: options.statistics.clone(),
            clock: options.clock.clone(),
        };
        let latencies = options.statistics.as_ref().map(|_| ReadLatencies::new(options.num_levels));
        let of_blobs = latencies.as_ref().map(|all| Arc::clone(&all.blobs));
        let blobs = Arc::new(BlobSource::new(Arc::clone(&fs), blob_options).with_latencies(of_blobs));
        let block_protection = AtomicUsize::new(options.block_protection_bytes_per_key);
        let uncache_aggressiveness = Arc::new(AtomicU32::new(options.uncache_aggressiveness));
        let table_options = Mutex::new(Arc::clone(&options.table_options));
        let family = options.open_files.add_family();
        TableCache {
            fs,
            options,
            family,
            table_options,
            block_protection,
            uncache_aggressiveness,
            blobs,
            latencies,
            openers: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// The statistics that count reads of tables.
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.options.statistics.as_ref()
    }

    /// Microseconds of the reads of the family's files; `None` without statistics.
    pub fn latencies(&self) -> Option<&ReadLatencies> {
        self.latencies.as_ref()
    }

    /// The prefix extractor that tables are opened with.
    pub fn prefix_extractor(&self) -> Option<&SliceTransformRef> {
        self.options.prefix_extractor.as_ref()
    }

    /// The reader of this file, opened if necessary.
    /// # Errors
    /// Those of [`TableReader::open`]; a failure is not remembered.
    pub fn reader(&self, file: &TableFile<'_>) -> Result<Arc<TableReader>> {
        let (number, open) = (file.meta.number, &self.options.open_files);
        if let Some(reader) = open.table(number) {
            return Ok(reader);
        }
        let _opening = self.openers[(number.0 % OPENERS as u64) as usize].lock();
        if let Some(reader) = open.table(number) {
            return Ok(reader);
        }
        let reader = self.open(file)?;
        open.keep_table(number, self.family, Arc::clone(&reader));
        Ok(reader)
    }

    /// Checks that there is time to read a file.
    /// # Errors
    /// `TimedOut` if a file would have to be read from now on, and the deadline has passed.
    pub fn check_deadline(&self, options: &TableReadOptions) -> Result<()> {
        options.check_deadline(&*self.options.clock)
    }

    /// Opens this file without keeping the reader.
    /// # Errors
    /// Those of [`TableReader::open`].
    pub fn open(&self, file: &TableFile<'_>) -> Result<Arc<TableReader>> {
        let meta = file.meta;
        let mut options = TableReaderOptions::new(
            self.options.icmp.clone(),
            self.table_options.lock().clone(),
            meta.file_size,
        );
        options.prefix_extractor = self.options.prefix_extractor.clone();
        options.compression_manager = self.options.compression_manager.clone();
        options.merge_operator = self.options.merge_operator.clone();
        options.level = file.level;
        options.is_last_level = file.level.is_some_and(|level| level + 1 == self.options.num_levels);
        options.temperature = match meta.temperature {
            0 => self.options.default_temperature,
            temperature => temperature,
        };
        options.max_file_size_for_l0_meta_pin = self.options.max_file_size_for_l0_meta_pin;
        options.file_number = meta.number;
        options.largest_seqno = Some(meta.largest_seqno);
        // With timestamps, the MANIFEST's bounds may have timestamps that the table's keys lack.
        let has_plain_keys = self.options.icmp.timestamp_size() == 0;
        options.smallest_key = has_plain_keys.then(|| meta.smallest.as_slice().into());
        options.largest_key = has_plain_keys.then(|| meta.largest.as_slice().into());
        options.expected_unique_id = meta.unique_id.filter(|_| self.options.verify_unique_ids);
        options.tail_size = meta.tail_size;
        options.statistics = self.options.statistics.clone();
        options.latencies = self.latencies.as_ref().and_then(|all| all.of_level(file.level?));
        options.clock = self.options.clock.clone();
        options.tracer = Some((self.options.open_files.tracer().clone(), self.options.family_name.clone()));
        let _opening = called_by(TableReaderCaller::Prefetch, None);
        options.block_protection_bytes_per_key = self.block_protection.load(Ordering::Relaxed);
        options.uncache_aggressiveness = Arc::clone(&self.uncache_aggressiveness);
        let (statistics, clock) = (&self.options.statistics, &self.options.clock);
        record_tick(statistics, Ticker::NoFileOpens, 1);
        let opened = self.open_file(meta).and_then(|file| {
            let begun = statistics.as_ref().map(|_| clock.monotonic_micros());
            let opened = TableReader::open(file, options);
            if let Some(begun) = begun {
                let micros = clock.monotonic_micros().saturating_sub(begun);
                report_time_to_histogram(statistics, Histogram::TableOpenIoMicros, micros);
            }
            opened
        });
        if opened.is_err() {
            record_tick(statistics, Ticker::NoFileErrors, 1);
        }
        opened
    }

    /// Opens a table file of another owner and keeps it open even if the owner deletes it. Reads
    /// nothing.
    /// # Errors
    /// `IoError`; sub-code `PathNotFound` if the file does not exist · `Corruption` if its size is
    /// not the MANIFEST's.
    pub fn hold(&self, meta: &FileMetaData) -> Result<()> {
        if self.options.open_files.held_table(meta.number).is_some() {
            return Ok(());
        }
        let file = self.open_path(meta)?;
        check_size(meta, file.size()?).map_err(|e| e.at(file.path().display()))?;
        self.options.open_files.hold_table(meta.number, file);
        Ok(())
    }

    /// Checks that the file exists with its size, without opening it.
    /// # Errors
    /// `IoError`; sub-code `PathNotFound` if the file does not exist · `Corruption` if its size is
    /// not the MANIFEST's.
    pub fn check_there(&self, meta: &FileMetaData) -> Result<()> {
        let dir = self.dir(meta.path_id);
        let path = table_file_name(dir, meta.number);
        let bytes = match self.fs.file_size(&path) {
            Err(e) if e.subcode() == SubCode::PathNotFound => {
                self.fs.file_size(&leveldb_table_file_name(dir, meta.number)).map_err(|_| e)
            }
            bytes => bytes,
        }?;
        check_size(meta, bytes).map_err(|e| e.at(path.display()))
    }

    fn open_file(&self, meta: &FileMetaData) -> Result<Arc<dyn RandomAccessFile>> {
        match self.options.open_files.held_table(meta.number) {
            Some(held) => Ok(held),
            None => {
                let path = table_file_name(self.dir(meta.path_id), meta.number);
                self.options.open_files.report(self.open_path(meta), &path)
            }
        }
    }

    /// The file under its name or, if that does not exist, under LevelDB's.
    fn open_path(&self, meta: &FileMetaData) -> Result<Arc<dyn RandomAccessFile>> {
        let (dir, is_direct) = (self.dir(meta.path_id), self.options.use_direct_reads);
        match self.fs.open_random_access(&table_file_name(dir, meta.number), is_direct) {
            Err(e) if e.subcode() == SubCode::PathNotFound => {
                let older = leveldb_table_file_name(dir, meta.number);
                self.fs.open_random_access(&older, is_direct).map_err(|_| e)
            }
            opened => opened,
        }
    }

    /// The values that tables of this family have in blob files.
    #[inline]
    pub fn blobs(&self) -> &Arc<BlobSource> {
        &self.blobs
    }

    /// The tracer of accesses to blocks, the same for all families of a database.
    pub fn tracer(&self) -> &Arc<BlockCacheTracer> {
        self.options.open_files.tracer()
    }

    /// The directories of the family's files.
    pub fn paths(&self) -> &FilePaths {
        &self.options.paths
    }

    fn dir(&self, path_id: u32) -> &Path {
        self.options.paths.directory(path_id)
    }

    /// Whether the number of open readers has no limit. Then a version may keep each file's reader.
    pub fn keeps_all_open(&self) -> bool {
        self.options.open_files.keeps_all()
    }

    /// Forgets a file that is about to be deleted. Readers that have the file open may continue to
    /// use it.
    pub fn evict(&self, number: FileNumber) {
        self.options.open_files.forget_table(number);
    }

    /// The reader of this file if it is open: no I/O.
    pub fn cached(&self, number: FileNumber) -> Option<Arc<TableReader>> {
        self.options.open_files.table(number)
    }

    /// The open files, with those of other families.
    pub fn open_files(&self) -> &Arc<OpenFiles> {
        &self.options.open_files
    }

    /// Changes how many bytes of a checksum each entry of a block in memory has, for tables that
    /// are opened from now on.
    pub fn set_block_protection(&self, bytes_per_key: usize) {
        self.block_protection.store(bytes_per_key, Ordering::Relaxed);
    }

    /// Changes `uncache_aggressiveness`, of all tables.
    pub fn set_uncache_aggressiveness(&self, aggressiveness: u32) {
        self.uncache_aggressiveness.store(aggressiveness, Ordering::Relaxed);
    }

    /// Changes the options of tables opened from now on. The block cache stays: blocks and their
    /// charges belong together.
    pub fn set_table_options(&self, options: Arc<BlockBasedTableOptions>) {
        *self.table_options.lock() = options;
    }

    /// Readers of this family that are open now.
    pub fn len(&self) -> usize {
        let mut count = 0;
        self.for_each(&mut |_| count += 1);
        count
    }

    fn for_each(&self, visit: &mut dyn FnMut(&TableReader)) {
        self.options.open_files.for_each_table(self.family, visit);
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that open readers hold apart from the block cache, in bytes
    /// (`estimate-table-readers-mem`).
    pub fn approximate_memory_usage(&self) -> usize {
        let mut bytes = 0;
        self.for_each(&mut |reader| bytes += reader.approximate_memory_usage());
        bytes
    }
}

fn check_size(meta: &FileMetaData, bytes: u64) -> Result<()> {
    if bytes == meta.file_size {
        return Ok(());
    }
    Err(Error::corruption(format!("the table has {bytes} bytes, the MANIFEST says {}", meta.file_size)))
}
