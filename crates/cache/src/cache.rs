//! The contract of a cache.
//!
//! In: values with a key and a charge in bytes. Out: the same values, as long as they fit.
//! Source of the semantics: RocksDB `include/rocksdb/advanced_cache.h`, `cache/lru_cache.h`.
//!
//! Invariants
//!  1. Usage is the sum of the charges of the values in the cache. It exceeds the capacity only by values that are
//!     in use (somebody else holds their `Arc`), and never if the limit is strict.
//!  2. A value in use is not evicted: that would free nothing. Erasing takes it out at once; the memory goes with
//!     its last `Arc`.
//!  3. No value is dropped under a lock of the cache: dropping may take time, or use the cache.

use crate::key::CacheKey;
use crate::lru::LruCache;
use esker_base::Result;
use std::fmt;
use std::sync::Arc;

/// How dear a value is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Given up first.
    Bottom,
    /// Usual.
    #[default]
    Low,
    /// Kept longest: index and filter blocks.
    High,
}

/// Whether the cache's own memory counts as used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetadataChargePolicy {
    /// Only the values count.
    DontChargeCacheMetadata,
    /// What an entry costs beside its value counts too.
    #[default]
    FullChargeCacheMetadata,
}

/// RocksDB's `LRUCacheOptions`.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Bytes.
    pub capacity: usize,
    /// 2 to the power of this many shards; negative: by capacity, at least 512 KiB for each, at most 64 shards.
    pub num_shard_bits: i32,
    /// Refuse what does not fit instead of exceeding the capacity by what is in use.
    pub strict_capacity_limit: bool,
    /// The part of the capacity kept for values of high priority and those that have been hit. 0: no such part.
    pub high_pri_pool_ratio: f64,
    /// The part of the capacity kept for values of low priority. 0: no such part.
    pub low_pri_pool_ratio: f64,
    /// Whether the cache's own memory counts.
    pub metadata_charge_policy: MetadataChargePolicy,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions {
            capacity: 32 << 20,
            num_shard_bits: -1,
            strict_capacity_limit: false,
            high_pri_pool_ratio: 0.5,
            low_pri_pool_ratio: 0.0,
            metadata_charge_policy: MetadataChargePolicy::default(),
        }
    }
}

impl CacheOptions {
    /// The defaults, with this capacity in bytes.
    pub fn with_capacity(capacity: usize) -> CacheOptions {
        CacheOptions { capacity, ..CacheOptions::default() }
    }
}

/// A cache, shared by `Arc` between any number of tables, families and databases.
pub struct Cache<V> {
    // The lock-free clock cache becomes the other variant.
    inner: Inner<V>,
}

enum Inner<V> {
    Lru(LruCache<V>),
}

macro_rules! each {
    ($self:ident, $cache:ident => $call:expr) => {
        match &$self.inner {
            Inner::Lru($cache) => $call,
        }
    };
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// An empty cache that evicts what was used least recently.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards, or the pool ratios are not between 0 and 1 together.
    pub fn lru(options: &CacheOptions) -> Result<Cache<V>> {
        Ok(Cache { inner: Inner::Lru(LruCache::new(options)?) })
    }

    /// Puts `value` in, replacing what has this key. `charge` is what it costs, in bytes. Returns the value.
    ///
    /// What alone exceeds a shard's capacity is not kept, but still returned.
    /// # Errors
    /// `Aborted` with sub-code `MemoryLimit` if the limit is strict and what is in use leaves no room. What had this
    /// key is gone then too.
    #[inline]
    pub fn insert(&self, key: CacheKey, value: Arc<V>, charge: usize, priority: Priority) -> Result<Arc<V>> {
        each!(self, cache => cache.insert(key, value, charge, priority))
    }

    /// The value with this key, which counts as used now. It is not evicted while the `Arc` is held.
    #[inline]
    pub fn lookup(&self, key: &CacheKey) -> Option<Arc<V>> {
        each!(self, cache => cache.lookup(key))
    }

    /// Takes the value with this key out. True if there was one.
    pub fn erase(&self, key: &CacheKey) -> bool {
        each!(self, cache => cache.erase(key))
    }

    /// Takes out everything that is not in use.
    pub fn erase_unreferenced(&self) {
        each!(self, cache => cache.erase_unreferenced());
    }

    /// Bytes it may use.
    pub fn capacity(&self) -> usize {
        each!(self, cache => cache.capacity())
    }

    /// Changes the capacity, evicting what no longer fits.
    pub fn set_capacity(&self, capacity: usize) {
        each!(self, cache => cache.set_capacity(capacity));
    }

    /// Whether what does not fit is refused.
    pub fn has_strict_capacity_limit(&self) -> bool {
        each!(self, cache => cache.has_strict_capacity_limit())
    }

    /// Changes whether what does not fit is refused.
    pub fn set_strict_capacity_limit(&self, strict: bool) {
        each!(self, cache => cache.set_strict_capacity_limit(strict));
    }

    /// Bytes in use by all values in the cache.
    pub fn usage(&self) -> usize {
        each!(self, cache => cache.usage())
    }

    /// Bytes of the values in the cache that somebody holds. Looks at each entry.
    pub fn pinned_usage(&self) -> usize {
        each!(self, cache => cache.pinned_usage())
    }

    /// How many values are in the cache.
    pub fn occupancy_count(&self) -> usize {
        each!(self, cache => cache.occupancy_count())
    }

    /// Shows `visit` each value with its key, charge and priority, without counting as use. Locks a part of the cache
    /// for each call's part, so `visit` must be quick and must not use this cache.
    pub fn apply_to_all(&self, mut visit: impl FnMut(&CacheKey, &Arc<V>, usize, Priority)) {
        each!(self, cache => cache.apply_to_all(&mut visit));
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("capacity", &self.capacity()).field("usage", &self.usage()).finish()
    }
}
