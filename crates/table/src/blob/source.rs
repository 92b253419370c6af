//! The values of blob indexes, from the blob cache or a blob file.
//!
//! In: a user key and its blob index. Out: the value, shared with the cache.
//!
//! Invariants
//!  1. Cached values were checked and decompressed.
//!  2. A file is open at most once in the list; a failure to open is not remembered.
//!
//! Source: RocksDB `db/blob/blob_source.cc`, `blob_file_cache.cc`.

use super::BlobFileReader;
use crate::block_source::{BlockCache, CachedBlock};
use crate::open_files::OpenFiles;
use crate::options::{TableReadOptions, TableReadTier};
use esker_base::stats::{Histogram, HistogramStat, Statistics, Ticker, record_tick};
use esker_base::{Error, FileNumber, PinnedBytes, Result, perf_add, perf_count, perf_time};
use esker_cache::key::process_unique_identity;
use esker_cache::{CacheKey, CachePriority, Role};
use esker_env::{Clock, CountedRandomAccessFile, FileSystem, RandomAccessFile, ReadCounter};
use esker_format::blob::{BlobIndex, BlobLocation};
use esker_format::file_name::blob_file_name;
use std::path::PathBuf;
use std::sync::Arc;

/// Options common to the blob files of a family.
#[derive(Clone, Debug)]
pub struct BlobSourceOptions {
    /// The directory of the files.
    pub dir: PathBuf,
    /// The open files, with tables and blob files of all families.
    pub open_files: Arc<OpenFiles>,
    /// A cache for values; may be the block cache.
    pub cache: Option<Arc<BlockCache>>,
    /// The cache to which all usage of `cache` is charged, if that is another one.
    pub charged_to: Option<Arc<BlockCache>>,
    /// Files are read past the page cache.
    pub use_direct_reads: bool,
    /// Counts reads and cache hits.
    pub statistics: Option<Arc<Statistics>>,
    /// The clock for deadlines of reads.
    pub clock: Arc<dyn Clock>,
}

/// The values in the blob files of one family.
pub struct BlobSource {
    fs: Arc<dyn FileSystem>,
    options: BlobSourceOptions,
    /// Identifies its files in the cache, together with their numbers.
    identity: u64,
    /// Gets the time of each read, if there are statistics.
    latencies: Option<Arc<HistogramStat>>,
}

impl std::fmt::Debug for BlobSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BlobSource({})", self.options.dir.display())
    }
}

impl BlobSource {
    /// A source without open files.
    pub fn new(fs: Arc<dyn FileSystem>, options: BlobSourceOptions) -> BlobSource {
        if let (Some(cache), Some(charged)) = (&options.cache, &options.charged_to) {
            cache.charge_usage_to(charged, Role::BlobCache);
        }
        BlobSource { fs, options, identity: process_unique_identity().1, latencies: None }
    }

    /// The same source, whose reads add their times to `latencies`, too.
    #[must_use]
    pub fn with_latencies(self, latencies: Option<Arc<HistogramStat>>) -> BlobSource {
        BlobSource { latencies, ..self }
    }

    /// The value to which the blob index of `user_key` leads.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` for values that expire ·
    /// `Incomplete`: the value is not cached, and `read_tier` forbids I/O · `TimedOut`: the
    /// deadline for I/O has passed.
    pub fn value(&self, user_key: &[u8], index: &[u8], options: &TableReadOptions) -> Result<PinnedBytes> {
        match BlobIndex::parse(index) {
            Ok(BlobIndex::Blob(location)) => self.at(user_key, &location, options),
            Ok(BlobIndex::InlinedTtl { .. } | BlobIndex::BlobTtl { .. }) => Err(expires(user_key)),
            Err(e) => Err(e.at(format_args!("blob index of key '{}'", user_key.escape_ascii()))),
        }
    }

    /// The value of `user_key` at this location.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` for values that expire ·
    /// `Incomplete`: the value is not cached, and `read_tier` forbids I/O · `TimedOut`: the
    /// deadline for I/O has passed.
    pub fn at(
        &self,
        user_key: &[u8],
        location: &BlobLocation,
        options: &TableReadOptions,
    ) -> Result<PinnedBytes> {
        let key = self.key_of(location);
        if let Some(cached) = self.cached(&key) {
            return Ok(cached);
        }
        if options.read_tier == TableReadTier::BlockCache {
            return Err(Error::incomplete("the blob is not cached, and read_tier forbids I/O"));
        }
        options.check_deadline(&*self.options.clock)?;
        let _activity = options.activity.begin();
        let reader = self.reader(location.file_number)?;
        let read = || reader.value(user_key, location, options.verify_checksums);
        let value = perf_time!(blob_read_time, self.options.clock, read())?;
        perf_count!(blob_read_count);
        perf_add!(blob_read_byte, location.size);
        record_tick(&self.options.statistics, Ticker::BlobDbBlobFileBytesRead, location.size);
        Ok(if options.fill_cache { self.keep(key, value) } else { PinnedBytes::from_vec(value) })
    }

    /// Puts a copy of the value that has just been written at this location into the cache, if
    /// there is one: `prepopulate_blob_cache`. A full cache may refuse the value.
    pub fn prepopulate(&self, location: &BlobLocation, value: &[u8]) {
        if self.options.cache.is_some() {
            drop(self.keep(self.key_of(location), value.to_vec()));
        }
    }

    fn key_of(&self, location: &BlobLocation) -> CacheKey {
        CacheKey::new((self.identity, location.file_number.0), location.offset)
    }

    fn cached(&self, key: &CacheKey) -> Option<PinnedBytes> {
        let cache = self.options.cache.as_ref()?;
        let Some(found) = cache.lookup(key) else {
            record_tick(&self.options.statistics, Ticker::BlobDbCacheMiss, 1);
            return None;
        };
        let value = PinnedBytes::part_of(found, |block| block.bytes());
        perf_count!(blob_cache_hit_count);
        perf_add!(blob_cache_read_byte, value.len() as u64);
        record_tick(&self.options.statistics, Ticker::BlobDbCacheHit, 1);
        record_tick(&self.options.statistics, Ticker::BlobDbCacheBytesRead, value.len() as u64);
        Some(value)
    }

    /// Puts a value into the cache, if there is one.
    fn keep(&self, key: CacheKey, value: Vec<u8>) -> PinnedBytes {
        let Some(cache) = &self.options.cache else { return PinnedBytes::from_vec(value) };
        let bytes = value.len();
        match cache.insert(key, CachedBlock::Blob(value), bytes, CachePriority::Bottom, Role::BlobValue) {
            Ok(inserted) => {
                record_tick(&self.options.statistics, Ticker::BlobDbCacheAdd, 1);
                record_tick(&self.options.statistics, Ticker::BlobDbCacheBytesWrite, bytes as u64);
                PinnedBytes::part_of(inserted.handle, |block| block.bytes())
            }
            // A full cache with a strict limit does not make the value unreadable.
            Err(mut refused) => {
                record_tick(&self.options.statistics, Ticker::BlobDbCacheAddFailures, 1);
                match &mut refused.value {
                    CachedBlock::Blob(value) => PinnedBytes::from_vec(std::mem::take(value)),
                    other => PinnedBytes::copy_from(other.bytes()),
                }
            }
        }
    }

    /// The open blob file with this number.
    /// # Errors
    /// `Corruption` (cut off, damaged), `NotSupported` (values that expire, an unknown codec) and
    /// `IoError` name the file.
    pub fn reader(&self, number: FileNumber) -> Result<Arc<BlobFileReader>> {
        if let Some(reader) = self.options.open_files.blob_file(number) {
            return Ok(reader);
        }
        record_tick(&self.options.statistics, Ticker::NoFileOpens, 1);
        let opened = self.open_file(number).and_then(|file| {
            BlobFileReader::open_counting(self.counted(file), self.options.statistics.clone())
        });
        let reader = match opened {
            Ok(reader) => Arc::new(reader),
            Err(e) => {
                record_tick(&self.options.statistics, Ticker::NoFileErrors, 1);
                return Err(e);
            }
        };
        // Two threads may both have opened it: either reader will do.
        self.options.open_files.keep_blob_file(number, Arc::clone(&reader));
        Ok(reader)
    }

    /// Opens a blob file of another owner and keeps it open even if the owner deletes it. Reads
    /// nothing.
    /// # Errors
    /// `IoError`; sub-code `PathNotFound` if the file does not exist.
    pub fn hold(&self, number: FileNumber) -> Result<()> {
        if self.options.open_files.held_blob_file(number).is_none() {
            self.options.open_files.hold_blob_file(number, self.open_path(number)?);
        }
        Ok(())
    }

    fn open_file(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let open_files = &self.options.open_files;
        match open_files.held_blob_file(number) {
            Some(held) => Ok(held),
            None => open_files.report(self.open_path(number), &blob_file_name(&self.options.dir, number)),
        }
    }

    /// The file, with its reads counted if there are statistics.
    fn counted(&self, file: Arc<dyn RandomAccessFile>) -> Arc<dyn RandomAccessFile> {
        let Some(statistics) = self.options.statistics.clone() else { return file };
        let counter = ReadCounter {
            statistics,
            clock: self.options.clock.clone(),
            histogram: Histogram::BlobDbBlobFileReadMicros,
            is_last_level: false,
            temperature: 0,
            latencies: self.latencies.clone(),
        };
        Arc::new(CountedRandomAccessFile::new(file, counter))
    }

    fn open_path(&self, number: FileNumber) -> Result<Arc<dyn RandomAccessFile>> {
        let path = blob_file_name(&self.options.dir, number);
        self.fs.open_random_access(&path, self.options.use_direct_reads)
    }

    /// Forgets a file that is about to be deleted. Readers that have the file open may continue to
    /// use it.
    pub fn evict(&self, number: FileNumber) {
        self.options.open_files.forget_blob_file(number);
    }
}

#[cold]
fn expires(user_key: &[u8]) -> Error {
    Error::not_supported(format!(
        "the value of key '{}' has an expiration time (stacked BlobDB)",
        user_key.escape_ascii()
    ))
}

#[cfg(test)]
mod tests;
