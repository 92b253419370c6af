//! Simulates a block cache of another size beside the one in use.
//!
//! In: the accesses to blocks of a cache. Out: the hits and misses that a cache of `sim_capacity`
//! bytes would have had; a log of the accesses.
//!
//! The simulation is an LRU cache of keys with the charges of their blocks. It holds no block, so
//! it costs about 100 bytes for each block that the simulated cache would hold.
//!
//! Source: RocksDB `include/rocksdb/utilities/sim_cache.h`,
//! `utilities/simulator_cache/sim_cache.cc`.
//!
//! Invariants
//!  1. A cache without a simulation costs nothing: accesses are told from the place where traces
//!     take them, behind the same load of a static.
//!  2. A simulation changes no result of a read and no value of its cache.

use crate::block_source::{BlockCache, BlockKind, BlockSource};
use crate::trace;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::{Error, Result};
use esker_cache::{
    AccessWatch, Cache, CacheKey, CacheOptions, CachePriority, CacheType, MetadataChargePolicy, Role,
};
use esker_env::{FileSystem, WritableFile};
use esker_format::handle::BlockHandle;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

/// A simulation of a block cache of another size: RocksDB's `SimCache`. It ends when it is dropped.
///
/// | RocksDB | here |
/// |---|---|
/// | wraps the cache, and takes its place | is told of the accesses to the cache |
/// | a block comes when the real cache inserts it | also when the real cache has it |
/// | one | any number, to compare sizes in one run |
///
/// Blocks of tables count, not the blobs and rows that share the cache. An access that the cache
/// serves without a lookup, such as that of a pinned index, counts in neither.
pub struct SimCache {
    keys: Cache<()>,
    hits: AtomicU64,
    misses: AtomicU64,
    is_logging: AtomicBool,
    log: Mutex<ActivityLog>,
}

#[derive(Default)]
struct ActivityLog {
    file: Option<Box<dyn WritableFile>>,
    /// Bytes at which logging ends; 0: never.
    max_logging_size: u64,
    bytes: u64,
    first_error: Option<Error>,
}

impl SimCache {
    /// Begins to simulate an LRU cache of `sim_capacity` bytes, which sees the accesses to `cache`.
    /// It has 2^`num_shard_bits` shards; a negative number: as the capacity suggests. RocksDB:
    /// `NewSimCache`.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards.
    pub fn new(cache: &BlockCache, sim_capacity: usize, num_shard_bits: i32) -> Result<Arc<SimCache>> {
        let options = CacheOptions {
            cache_type: CacheType::Lru,
            num_shard_bits,
            metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
            ..CacheOptions::with_capacity(sim_capacity)
        };
        SimCache::with_options(cache, &options)
    }

    /// Begins to simulate a cache with these options.
    /// # Errors
    /// Those of [`Cache::new`].
    pub fn with_options(cache: &BlockCache, sim_cache: &CacheOptions) -> Result<Arc<SimCache>> {
        let simulation = Arc::new(SimCache {
            keys: Cache::new(sim_cache)?,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            is_logging: AtomicBool::new(false),
            log: Mutex::default(),
        });
        trace::begin_watching();
        let watch: Weak<SimCache> = Arc::downgrade(&simulation);
        cache.watch_accesses(watch);
        Ok(simulation)
    }

    /// Capacity of the simulated cache in bytes.
    pub fn sim_capacity(&self) -> usize {
        self.keys.capacity()
    }

    /// Bytes of the blocks that the simulated cache would hold.
    pub fn sim_usage(&self) -> usize {
        self.keys.usage()
    }

    /// Changes the capacity of the simulated cache. A smaller one evicts at once.
    pub fn set_sim_capacity(&self, capacity: usize) {
        self.keys.set_capacity(capacity);
    }

    /// Lookups that missed in the simulated cache.
    pub fn miss_counter(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Lookups that hit in the simulated cache.
    pub fn hit_counter(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Sets both counters to 0. Tickers stay.
    pub fn reset_counter(&self) {
        self.misses.store(0, Ordering::Relaxed);
        self.hits.store(0, Ordering::Relaxed);
    }

    /// Begins to write each access as a line into a new file, in RocksDB's form: `LOOKUP - KEY`,
    /// and `ADD - KEY - BYTES` when the real cache takes a block. Ends an earlier log. Stops by
    /// itself after `max_logging_size` bytes; 0: never.
    ///
    /// Each access then waits for a lock and appends to the file.
    /// # Errors
    /// `IoError` if the file cannot be made.
    pub fn start_activity_logging(
        &self,
        activity_log_file: impl AsRef<Path>,
        fs: &dyn FileSystem,
        max_logging_size: u64,
    ) -> Result<()> {
        let mut log = self.log.lock();
        log.stop();
        log.file = Some(fs.new_writable_file(activity_log_file.as_ref())?);
        (log.max_logging_size, log.bytes) = (max_logging_size, 0);
        self.is_logging.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Ends the log and closes its file.
    pub fn stop_activity_logging(&self) {
        let mut log = self.log.lock();
        self.is_logging.store(false, Ordering::Relaxed);
        log.stop();
    }

    /// The first error of a log, which ended it.
    /// # Errors
    /// That error.
    pub fn activity_logging_status(&self) -> Result<()> {
        self.log.lock().first_error.clone().map_or(Ok(()), Err)
    }

    fn log(&self, line: impl FnOnce() -> String) {
        if self.is_logging.load(Ordering::Relaxed) {
            let mut log = self.log.lock();
            if !log.append(&line()) {
                self.is_logging.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Puts a key that the simulated cache lacks into it.
    fn keep(&self, key: &CacheKey, charge: usize) {
        // A full cache with a strict limit simply lacks the key.
        _ = self.keys.insert(*key, (), charge, CachePriority::Low, Role::Misc);
    }
}

impl ActivityLog {
    /// Returns false if the log has ended.
    fn append(&mut self, line: &str) -> bool {
        let Some(file) = &mut self.file else { return false };
        let appended = file.append(line.as_bytes());
        self.bytes += line.len() as u64;
        let is_full = self.max_logging_size > 0 && self.bytes >= self.max_logging_size;
        if let Err(error) = appended {
            self.first_error.get_or_insert(error);
        } else if !is_full {
            return true;
        }
        self.stop();
        false
    }

    fn stop(&mut self) {
        if let Some(mut file) = self.file.take()
            && let Err(error) = file.close()
        {
            self.first_error.get_or_insert(error);
        }
    }
}

impl AccessWatch for SimCache {
    fn looked_up(&self, key: &CacheKey, found_charge: Option<usize>, statistics: Option<&Statistics>) {
        let is_hit = self.keys.lookup(key).is_some();
        let (counter, ticker) = match is_hit {
            true => (&self.hits, Ticker::SimBlockCacheHit),
            false => (&self.misses, Ticker::SimBlockCacheMiss),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if let Some(statistics) = statistics {
            statistics.record_tick(ticker, 1);
        }
        if let (false, Some(charge)) = (is_hit, found_charge) {
            self.keep(key, charge);
        }
        self.log(|| format!("LOOKUP - {}\n", hex(key)));
    }

    fn added(&self, key: &CacheKey, charge: usize) {
        if !self.keys.contains(key) {
            self.keep(key, charge);
        }
        self.log(|| format!("ADD - {} - {charge}\n", hex(key)));
    }

    fn erased(&self, key: &CacheKey) {
        self.keys.erase(key);
    }
}

fn hex(key: &CacheKey) -> String {
    key.to_bytes().iter().map(|byte| format!("{byte:02X}")).collect()
}

impl Drop for SimCache {
    fn drop(&mut self) {
        trace::end_watching();
        self.log.get_mut().stop();
    }
}

impl fmt::Display for SimCache {
    /// RocksDB's text of the counters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (misses, hits) = (self.miss_counter(), self.hit_counter());
        let rate = if hits == 0 { 0.0 } else { hits as f64 * 100.0 / (hits + misses) as f64 };
        writeln!(f, "SimCache MISSes:  {misses}")?;
        writeln!(f, "SimCache HITs:    {hits}")?;
        writeln!(f, "SimCache HITRATE: {rate:.2}")
    }
}

impl fmt::Debug for SimCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimCache")
            .field("sim_capacity", &self.sim_capacity())
            .field("hits", &self.hit_counter())
            .field("misses", &self.miss_counter())
            .finish_non_exhaustive()
    }
}

impl BlockSource {
    /// Tells those that watch the cache of a lookup. `found_charge`: the charge of the block, if
    /// the cache or a tier below had it.
    #[cold]
    pub(crate) fn tell_of_lookup(&self, handle: BlockHandle, kind: BlockKind, found_charge: Option<usize>) {
        if let (Some(cache), true) = (&self.cache, kind != BlockKind::Meta) {
            let key = self.key(handle);
            let statistics = self.statistics.as_deref();
            cache.each_watch(|watch| watch.looked_up(&key, found_charge, statistics));
        }
    }

    /// Tells those that watch the cache of a block that is erased.
    #[cold]
    pub(crate) fn tell_of_erasure(&self, handle: BlockHandle) {
        if let Some(cache) = &self.cache {
            cache.each_watch(|watch| watch.erased(&self.key(handle)));
        }
    }

    /// Tells those that watch the cache of a block that goes into it.
    #[cold]
    pub(crate) fn tell_of_addition(&self, handle: BlockHandle, kind: BlockKind, charge: usize) {
        if let (Some(cache), true) = (&self.cache, kind != BlockKind::Meta) {
            let key = self.key(handle);
            cache.each_watch(|watch| watch.added(&key, charge));
        }
    }
}
