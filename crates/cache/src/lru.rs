//! A sharded LRU cache with three pools.
//!
//! In and out: as [`Cache`](crate::Cache) says.   Source of the rules: RocksDB `cache/lru_cache.cc`.
//!
//! A key's hash picks the shard; a shard is a mutex over a table, a slab of entries and three lists of slab indices:
//!
//! ```text
//! evicted first                                                   used last
//!   [bottom: oldest … newest] [low: oldest … newest] [high: oldest … newest]
//! ```
//!
//! An entry of high priority, or that has been hit, belongs into the high pool if that has any share of the
//! capacity; else one of low priority into the low pool, likewise; else into the bottom pool. A pool that outgrows
//! its share hands its oldest down to the next.
//!
//! A hit costs one short lock, one probe of the table and the relinking of one entry; it allocates nothing.

mod shard;

use crate::cache::{CacheOptions, MetadataChargePolicy, Priority};
use crate::key::CacheKey;
use esker_base::rng::split_mix;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker_base::{Error, ErrorKind, Result, SubCode};
use shard::{Limits, Shard, Visit};
use std::fmt;
use std::sync::Arc;

const MAX_SHARD_BITS: u32 = 19;
const DEFAULT_MAX_SHARD_BITS: u32 = 6;
const MIN_SHARD_BYTES: usize = 512 << 10;

/// On lines of its own, so that shards do not slow each other down.
#[repr(align(128))]
struct Padded<T>(T);

/// The cache. Use it through [`Cache`](crate::Cache).
pub(crate) struct LruCache<V> {
    shards: Box<[Padded<Mutex<Shard<V>>>]>,
    seed: u64,
    /// What an entry costs beside its value, or 0.
    entry_overhead: usize,
    capacity: AtomicUsize,
    strict: AtomicBool,
    /// Held while limits change, so that all shards get the same ones.
    changing: Mutex<()>,
}

impl<V> LruCache<V> {
    pub(crate) fn new(options: &CacheOptions) -> Result<LruCache<V>> {
        let bits = match u32::try_from(options.num_shard_bits) {
            Ok(bits) if bits > MAX_SHARD_BITS => {
                return Err(Error::invalid_argument(format!(
                    "num_shard_bits {bits} exceeds {MAX_SHARD_BITS}"
                )));
            }
            Ok(bits) => bits,
            Err(_) => default_shard_bits(options.capacity),
        };
        let (high, low) = (options.high_pri_pool_ratio, options.low_pri_pool_ratio);
        let is_share = |ratio: f64| (0.0..=1.0).contains(&ratio);
        if !is_share(high) || !is_share(low) || !is_share(high + low) {
            return Err(Error::invalid_argument(format!(
                "high_pri_pool_ratio {high} and low_pri_pool_ratio {low} must lie between 0 and 1, also together"
            )));
        }
        let shard_count = 1usize << bits;
        let limits = Limits {
            capacity: options.capacity.div_ceil(shard_count),
            strict: options.strict_capacity_limit,
            high_ratio: high,
            low_ratio: low,
        };
        // Different caches shall not have the same unlucky keys; tests shall be able to repeat what they see.
        let seed = split_mix(options.capacity as u64);
        Ok(LruCache {
            shards: (0..shard_count).map(|_| Padded(Mutex::new(Shard::new(limits, seed)))).collect(),
            seed,
            entry_overhead: match options.metadata_charge_policy {
                MetadataChargePolicy::DontChargeCacheMetadata => 0,
                MetadataChargePolicy::FullChargeCacheMetadata => Shard::<V>::ENTRY_OVERHEAD_BYTES,
            },
            capacity: AtomicUsize::new(options.capacity),
            strict: AtomicBool::new(options.strict_capacity_limit),
            changing: Mutex::new(()),
        })
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard<V>> {
        // The table inside uses the lowest and the highest bits.
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)].0
    }

    pub(crate) fn insert(
        &self,
        key: CacheKey,
        value: Arc<V>,
        charge: usize,
        priority: Priority,
    ) -> Result<Arc<V>> {
        let hash = key.hash(self.seed);
        let charge = charge.saturating_add(self.entry_overhead);
        let kept = Arc::clone(&value);
        let mut shard = self.shard(hash).lock();
        let (inserted, garbage) = shard.insert(hash, key, value, charge, priority);
        drop(shard);
        drop(garbage);
        if inserted { Ok(kept) } else { Err(full(charge)) }
    }

    #[inline]
    pub(crate) fn lookup(&self, key: &CacheKey) -> Option<Arc<V>> {
        let hash = key.hash(self.seed);
        self.shard(hash).lock().lookup(hash, key)
    }

    pub(crate) fn erase(&self, key: &CacheKey) -> bool {
        let hash = key.hash(self.seed);
        let erased = self.shard(hash).lock().erase(hash, key);
        erased.is_some()
    }

    pub(crate) fn erase_unreferenced(&self) {
        for shard in &self.shards {
            let garbage = shard.0.lock().erase_unreferenced();
            drop(garbage);
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        let _changing = self.changing.lock();
        self.capacity.store(capacity, Ordering::Relaxed);
        let for_each = capacity.div_ceil(self.shards.len());
        for shard in &self.shards {
            let garbage = shard.0.lock().set_capacity(for_each);
            drop(garbage);
        }
    }

    pub(crate) fn has_strict_capacity_limit(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    pub(crate) fn set_strict_capacity_limit(&self, strict: bool) {
        let _changing = self.changing.lock();
        self.strict.store(strict, Ordering::Relaxed);
        for shard in &self.shards {
            shard.0.lock().set_strict(strict);
        }
    }

    pub(crate) fn usage(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().usage()).sum()
    }

    pub(crate) fn pinned_usage(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().pinned_usage()).sum()
    }

    pub(crate) fn occupancy_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().len()).sum()
    }

    pub(crate) fn apply_to_all(&self, visit: &mut Visit<'_, V>) {
        for shard in &self.shards {
            shard.0.lock().for_each(&mut |key, value, charge, priority| {
                visit(key, value, charge - self.entry_overhead, priority);
            });
        }
    }

    #[cfg(test)]
    fn check(&self) {
        for shard in &self.shards {
            shard.0.lock().check();
        }
    }
}

impl<V> fmt::Debug for LruCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LruCache").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

fn default_shard_bits(capacity: usize) -> u32 {
    (capacity / MIN_SHARD_BYTES).checked_ilog2().unwrap_or(0).min(DEFAULT_MAX_SHARD_BITS)
}

#[cold]
fn full(charge: usize) -> Error {
    Error::new(ErrorKind::Aborted, format!("the cache is full of what is in use: no room for {charge} bytes"))
        .with_subcode(SubCode::MemoryLimit)
}

#[cfg(test)]
mod tests;
