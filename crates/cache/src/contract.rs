//! The options of a cache, and the results that hold no value.
//!
//! Results that hold a value are in `outcome.rs`.

use crate::key::CacheKey;
use crate::role::Role;
use esker_base::{Error, ErrorKind, Result, SubCode};

/// The priority of a value. The cache evicts values of low priority sooner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum CachePriority {
    /// Evicted first.
    Bottom,
    /// The usual priority.
    #[default]
    Low,
    /// Kept longest: index and filter blocks.
    High,
}

/// Whether a cache charges for its own memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetadataChargePolicy {
    /// Charges the values only.
    DontChargeCacheMetadata,
    /// Charges for the values, and for the other bytes of each entry.
    #[default]
    FullChargeCacheMetadata,
}

/// The kind of a cache: how it finds values and how it selects values to evict. Names: RocksDB's
/// `cache_type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheType {
    /// `lru_cache`: shards with three pools each. Evicts the least recently used value of the
    /// lowest pool.
    Lru,
    /// `fixed_hyper_clock_cache`: a clock. The table's size follows from the capacity and the
    /// expected charge.
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

    /// The type with this name. `hyper_clock_cache` means `AutoHyperClock` if
    /// `estimated_entry_charge` is 0, otherwise `FixedHyperClock`, as in RocksDB.
    /// # Errors
    /// `InvalidArgument` for an unknown name, and for `fixed_hyper_clock_cache` without a charge.
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

/// The options of a cache: RocksDB's `LRUCacheOptions` and `HyperClockCacheOptions`.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The kind of cache.
    pub cache_type: CacheType,
    /// Capacity in bytes.
    pub capacity: usize,
    /// LRU: the cache has 2^`num_shard_bits` shards. If the option is negative, the capacity
    /// decides: at most 64 shards of at least 512 KiB. The clocks ignore this option.
    pub num_shard_bits: i32,
    /// Whether inserts beyond the capacity fail. Otherwise values in use may exceed the capacity.
    pub strict_capacity_limit: bool,
    /// LRU: the share of the capacity for values of high priority and values that had a hit. 0:
    /// there is no high pool.
    pub high_pri_pool_ratio: f64,
    /// LRU: the share of the capacity for values of low priority. 0: there is no low pool.
    pub low_pri_pool_ratio: f64,
    /// Clocks: the number of held values that an insert may meet for each value that it evicts. An
    /// insert that meets more stops evicting.
    pub eviction_effort_cap: usize,
    /// Whether the cache charges for its own memory.
    pub metadata_charge_policy: MetadataChargePolicy,
    /// Whether the cache samples keys to estimate the misses of caches of other sizes.
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
    /// The key had a value, which stays (clocks). The handle holds the old value.
    Found,
    /// The value is not in the cache, but charged while the handle lives. LRU: the value is larger
    /// than the capacity of its shard. Clocks: the value is larger than the capacity, its buckets
    /// are full, or too many evicted values wait for readers under guards. A concurrent split or
    /// erasure may also remove the value at once.
    Detached,
}

/// A cached value, as [`Cache::apply_to_all`](crate::Cache::apply_to_all) shows it.
#[derive(Debug)]
pub struct Visited<'a, V> {
    /// The value's key.
    pub key: &'a CacheKey,
    /// The value.
    pub value: &'a V,
    /// The charge in bytes, without the bytes of the entry itself.
    pub charge: usize,
    /// The value's role.
    pub role: Role,
    /// The value's priority.
    pub priority: CachePriority,
    /// Whether somebody holds a handle of the value.
    pub is_pinned: bool,
}

#[cold]
pub(crate) fn full(charge: usize) -> Error {
    Error::new(ErrorKind::Aborted, format!("the cache is full of what is in use: no room for {charge} bytes"))
        .with_subcode(SubCode::MemoryLimit)
}
