//! The vocabulary of a cache: its users' choices and answers, apart from the implementations.
//!
//! In: nothing. Out: options, priorities and outcomes without a value; those with one are in
//! `outcome.rs`.

use crate::key::CacheKey;
use crate::role::Role;
use esker_base::{Error, ErrorKind, Result, SubCode};

/// The priority of a value. Values of low priority are evicted sooner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CachePriority {
    /// Evicted first.
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
    /// Charges the values only.
    DontChargeCacheMetadata,
    /// The bytes of an entry beside its value count too.
    #[default]
    FullChargeCacheMetadata,
}

/// A cache's method to find its values and to choose those to evict. Names: RocksDB's `cache_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheType {
    /// `lru_cache`: sharded, least recently used first, three pools.
    Lru,
    /// `fixed_hyper_clock_cache`: a clock whose table is made for entries of this charge, in bytes.
    FixedHyperClock {
        /// Expected charge of an entry, in bytes. Not 0.
        estimated_entry_charge: usize,
    },
    /// `auto_hyper_clock_cache`: a clock whose table grows with its entries.
    #[default]
    AutoHyperClock,
}

impl CacheType {
    /// RocksDB's name.
    pub const fn name(self) -> &'static str {
        match self {
            CacheType::Lru => "lru_cache",
            CacheType::FixedHyperClock { .. } => "fixed_hyper_clock_cache",
            CacheType::AutoHyperClock => "auto_hyper_clock_cache",
        }
    }

    /// The type with this name. `hyper_clock_cache`, as in RocksDB, means the automatic one without
    /// an estimated charge.
    /// # Errors
    /// `InvalidArgument` for an unknown name.
    pub fn parse(name: &str, estimated_entry_charge: usize) -> Result<CacheType> {
        match (name, estimated_entry_charge) {
            ("lru_cache", _) => Ok(CacheType::Lru),
            ("auto_hyper_clock_cache", _) | ("hyper_clock_cache", 0) => Ok(CacheType::AutoHyperClock),
            ("fixed_hyper_clock_cache" | "hyper_clock_cache", 1..) => {
                Ok(CacheType::FixedHyperClock { estimated_entry_charge })
            }
            ("fixed_hyper_clock_cache", 0) => {
                Err(Error::invalid_argument("fixed_hyper_clock_cache needs an estimated_entry_charge"))
            }
            _ => Err(Error::invalid_argument(format!("'{name}' is not supported"))),
        }
    }
}

/// RocksDB's `LRUCacheOptions` and `HyperClockCacheOptions`.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The kind of cache.
    pub cache_type: CacheType,
    /// Capacity in bytes.
    pub capacity: usize,
    /// LRU: 2 to the power of this many shards; negative: by capacity, at least 512 KiB for each,
    /// at most 64 shards. The clocks have one table whatever this says.
    pub num_shard_bits: i32,
    /// Whether inserts beyond the capacity fail. Without this, values in use may exceed the
    /// capacity.
    pub strict_capacity_limit: bool,
    /// LRU: the part of the capacity kept for high-priority values and those that have been hit. 0:
    /// no such part.
    pub high_pri_pool_ratio: f64,
    /// LRU: the part of the capacity kept for low-priority values. 0: no such part.
    pub low_pri_pool_ratio: f64,
    /// Clocks: an insert stops making room once it has met this many held values for each value
    /// that it evicted.
    pub eviction_effort_cap: usize,
    /// Whether the cache's own memory counts.
    pub metadata_charge_policy: MetadataChargePolicy,
    /// Whether the cache estimates how often caches of other sizes would miss, from a sample of the
    /// keys.
    pub estimates_misses: bool,
}

impl Default for CacheOptions {
    fn default() -> CacheOptions {
        CacheOptions {
            cache_type: CacheType::default(),
            capacity: 32 << 20,
            num_shard_bits: -1,
            strict_capacity_limit: false,
            high_pri_pool_ratio: 0.5,
            low_pri_pool_ratio: 0.0,
            eviction_effort_cap: 30,
            metadata_charge_policy: MetadataChargePolicy::default(),
            estimates_misses: false,
        }
    }
}

impl CacheOptions {
    /// The defaults, with this capacity in bytes.
    pub fn with_capacity(capacity: usize) -> CacheOptions {
        CacheOptions { capacity, ..CacheOptions::default() }
    }
}

esker_base::setters! {
    CacheOptions {
        cache_type: CacheType;
        capacity: usize;
        num_shard_bits: i32;
        strict_capacity_limit: bool;
        high_pri_pool_ratio: f64;
        low_pri_pool_ratio: f64;
        eviction_effort_cap: usize;
        metadata_charge_policy: MetadataChargePolicy;
        estimates_misses: bool;
    }
}

/// The result of an insert that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
    /// The value is in the cache.
    Added,
    /// The value replaced the key's former value (LRU).
    Replaced,
    /// The key had a value, which stays (clocks). The handle holds that value.
    Found,
    /// The value is not in the cache, but charged while the handle is held. It is larger than the
    /// capacity allows, the table had no place for it, or too many bytes of evicted values wait for
    /// readers under guards.
    Detached,
}

/// An entry, for a visitor.
#[derive(Debug)]
pub struct Visited<'a, V> {
    /// Its key.
    pub key: &'a CacheKey,
    /// The value.
    pub value: &'a V,
    /// The charge in bytes, without the bytes of the entry itself.
    pub charge: usize,
    /// Its role.
    pub role: Role,
    /// The value's priority.
    pub priority: CachePriority,
    /// Whether it has a handle now.
    pub is_pinned: bool,
}

#[cold]
pub(crate) fn full(charge: usize) -> Error {
    Error::new(ErrorKind::Aborted, format!("the cache is full of what is in use: no room for {charge} bytes"))
        .with_subcode(SubCode::MemoryLimit)
}
