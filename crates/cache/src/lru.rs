//! A sharded LRU cache with three pools.
//!
//! [`Cache`](crate::Cache) documents the operations. Source of the rules: RocksDB
//! `cache/lru_cache.cc`.
//!
//! The hash of a key selects the shard. A shard is a mutex over a hash table, a slab of entries,
//! and three lists of entries, the pools:
//!
//! ```text
//! evicted first                                               evicted last
//!   [bottom: oldest … newest] [low: oldest … newest] [high: oldest … newest]
//! ```
//!
//! The high pool takes entries of high priority, and entries that had a hit. The low pool takes
//! entries of low priority. A pool without a share of the capacity takes no entries: they go to the
//! next lower pool. The bottom pool takes the rest. A pool that outgrows its share gives its oldest
//! entry to the next lower pool.
//!
//! A hit costs one short lock, one probe of the table and a move of the entry within the lists. It
//! allocates nothing.

mod shard;

use crate::contract::{CacheOptions, InsertOutcome, MetadataChargePolicy, Visited, full};
use crate::entry::{About, CacheEntry, Handle, Home, Listed};
use crate::key::CacheKey;
use crate::ledger::Ledger;
use crate::outcome::{CacheInserted, EvictionCallback, Rejected};
use crossbeam_utils::CachePadded;
use esker_base::rng::split_mix;
use esker_base::sync::{Arc, Mutex};
use esker_base::{Error, Result};
use shard::{Limits, LruGarbage, LruShard};

const MAX_SHARD_BITS: u32 = 19;
const DEFAULT_MAX_SHARD_BITS: u32 = 6;
const MIN_SHARD_BYTES: usize = 512 << 10;
const ENTRIES_PER_LOCK: usize = 256;
/// Under a strict limit, other threads may take the bytes that an insert has freed. The insert then
/// evicts again, at most this number of times.
const STRICT_ATTEMPTS: usize = 8;

/// The cache. Use it through [`Cache`](crate::Cache).
pub(crate) struct LruCache<V> {
    shards: Box<[CachePadded<Mutex<LruShard<V>>>]>,
    seed: u64,
    /// Bytes charged for an entry beside the value's charge; 0 if the cache does not charge for its
    /// own memory.
    entry_overhead: usize,
    home: Arc<Home<V>>,
    /// Bytes of reservations. They reduce the capacity of the shards. The lock is held while limits
    /// change, so that all shards get the same limits.
    reserved: Mutex<usize>,
    on_evict: Option<EvictionCallback<V>>,
}

impl<V> LruCache<V> {
    pub(crate) fn new(options: &CacheOptions, on_evict: Option<EvictionCallback<V>>) -> Result<LruCache<V>> {
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
            tells: on_evict.is_some(),
            high_ratio: high,
            low_ratio: low,
        };
        // The seed depends on the capacity only, so tests can repeat a run. Keys that collide in
        // one cache do not collide in a cache of another size.
        let seed = split_mix(options.capacity as u64);
        Ok(LruCache {
            shards: (0..shard_count)
                .map(|_| CachePadded::new(Mutex::new(LruShard::new(limits, seed))))
                .collect(),
            seed,
            entry_overhead: match options.metadata_charge_policy {
                MetadataChargePolicy::DontChargeCacheMetadata => 0,
                MetadataChargePolicy::FullChargeCacheMetadata => {
                    CacheEntry::<V>::OVERHEAD_BYTES + LruShard::<V>::ENTRY_OVERHEAD_BYTES
                }
            },
            home: Home::new(Ledger::new(options.capacity, options.strict_capacity_limit)),
            reserved: Mutex::new(0),
            on_evict,
        })
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.home.ledger
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<LruShard<V>> {
        // The table of a shard uses the lowest and the highest bits of the hash.
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }

    pub(crate) fn insert(&self, about: About, value: V) -> Result<CacheInserted<V>, Rejected<V>> {
        let hash = about.key.hash(self.seed);
        let about = About { charge: about.charge.saturating_add(self.entry_overhead), ..about };
        let is_strict = self.home.ledger.is_strict();
        let mut garbage = LruGarbage::default();
        let mut replaced = false;
        for _ in 0..STRICT_ATTEMPTS {
            let mut shard = self.shard(hash).lock();
            replaced |= shard.erase(hash, &about.key, &mut garbage);
            let is_room = shard.make_room_for(about.charge, is_strict, &mut garbage);
            if is_strict && !is_room {
                break;
            }
            // The ledger counts values in shards and outside. Under a strict limit, `excess` is the
            // number of bytes for which the cache as a whole has no room.
            let excess = match is_strict {
                true => self.home.ledger.charge_within_capacity(about.charge).err(),
                false => {
                    self.home.ledger.charge(about.charge);
                    None
                }
            };
            if let Some(excess) = excess {
                // The shard has room, but the cache as a whole has none: values outside the shards
                // use the bytes. Other shards may have entries to evict.
                drop(shard);
                self.report(std::mem::take(&mut garbage));
                if self.evict(excess) == 0 {
                    break;
                }
                continue;
            }
            let inserted = if about.charge <= shard.capacity() {
                let handle = CacheEntry::tentative(about, &self.home, value);
                shard.put(hash, Listed::new(&handle));
                let outcome = if replaced { InsertOutcome::Replaced } else { InsertOutcome::Added };
                CacheInserted { handle, outcome }
            } else {
                let handle = CacheEntry::standalone(about, &self.home, value);
                CacheInserted { handle, outcome: InsertOutcome::Detached }
            };
            drop(shard);
            self.report(garbage);
            return Ok(inserted);
        }
        self.report(garbage);
        Err(Rejected { value, error: full(about.charge) })
    }

    pub(crate) fn standalone(&self, about: About, value: V) -> Result<Handle<V>, Rejected<V>> {
        let about = About { charge: about.charge.saturating_add(self.entry_overhead), ..about };
        match self.charge_outside(about.charge) {
            Ok(()) => Ok(CacheEntry::standalone(about, &self.home, value)),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Charges for bytes that are in no shard. Evicts entries of the shards to make room.
    fn charge_outside(&self, charge: usize) -> Result<()> {
        if !self.home.ledger.is_strict() {
            let excess = self.home.ledger.charge(charge);
            self.evict(excess);
            return Ok(());
        }
        if let Err(excess) = self.home.ledger.charge_within_capacity(charge) {
            self.evict(excess);
            return self.home.ledger.charge_within_capacity(charge).map_err(|_| full(charge));
        }
        Ok(())
    }

    /// Evicts values without handles until `wanted` bytes are free, or no such value is left.
    /// Returns the bytes freed.
    fn evict(&self, wanted: usize) -> usize {
        let mut freed = 0;
        for shard in &self.shards {
            if freed >= wanted {
                break;
            }
            let mut garbage = LruGarbage::default();
            freed += shard.lock().evict(wanted - freed, &mut garbage);
            self.report(garbage);
        }
        freed
    }

    /// Charges for a reservation, and reduces the capacity of the shards.
    pub(crate) fn charge(&self, bytes: usize) -> Result<()> {
        self.charge_outside(bytes)?;
        let mut reserved = self.reserved.lock();
        *reserved += bytes;
        self.share_out(*reserved);
        Ok(())
    }

    /// Ends a reservation, and gives its bytes back to the shards' capacity.
    pub(crate) fn give_reserved_back(&self, bytes: usize) {
        let mut reserved = self.reserved.lock();
        *reserved -= bytes;
        self.share_out(*reserved);
    }

    /// Divides the capacity, without `reserved` bytes, among the shards. REQUIRES: `self.reserved`
    /// is locked.
    fn share_out(&self, reserved: usize) {
        let for_all = self.home.ledger.capacity().saturating_sub(reserved);
        for shard in &self.shards {
            let mut garbage = LruGarbage::default();
            shard.lock().set_capacity(for_all.div_ceil(self.shards.len()), &mut garbage);
            self.report(garbage);
        }
    }

    /// Reports evicted entries and drops garbage. REQUIRES: no shard is locked.
    fn report(&self, garbage: LruGarbage<V>) {
        if let Some(callback) = &self.on_evict {
            garbage.evicted.into_iter().for_each(callback);
        }
    }

    #[inline]
    pub(crate) fn lookup(&self, key: &CacheKey) -> Option<Handle<V>> {
        let hash = key.hash(self.seed);
        self.shard(hash).lock().lookup(hash, key)
    }

    pub(crate) fn lookup_last(&self, key: &CacheKey) -> Option<Handle<V>> {
        let hash = key.hash(self.seed);
        self.shard(hash).lock().lookup_last(hash, key)
    }

    pub(crate) fn contains(&self, key: &CacheKey) -> bool {
        let hash = key.hash(self.seed);
        self.shard(hash).lock().contains(hash, key)
    }

    pub(crate) fn erase(&self, key: &CacheKey) -> bool {
        let hash = key.hash(self.seed);
        let mut garbage = LruGarbage::default();
        let erased = self.shard(hash).lock().erase(hash, key, &mut garbage);
        self.report(garbage);
        erased
    }

    pub(crate) fn erase_unreferenced(&self) {
        for shard in &self.shards {
            let mut garbage = LruGarbage::default();
            shard.lock().evict(usize::MAX, &mut garbage);
            self.report(garbage);
        }
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        let reserved = self.reserved.lock();
        self.home.ledger.set_capacity(capacity);
        self.share_out(*reserved);
    }

    pub(crate) fn pinned_usage(&self) -> usize {
        let in_shards: usize = self.shards.iter().map(|shard| shard.lock().pinned_usage()).sum();
        in_shards + self.home.ledger.detached()
    }

    pub(crate) fn occupancy_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    pub(crate) fn table_size(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().table_size()).sum()
    }

    /// Visits all entries. Locks a shard for [`ENTRIES_PER_LOCK`] entries at a time.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Visited<'_, V>)) {
        for shard in &self.shards {
            let mut next = 0;
            while next != shard::END {
                next = shard.lock().visit(next, ENTRIES_PER_LOCK, &mut |entry| {
                    // SAFETY: the entry is in the table, and the shard's lock is held.
                    visit(&unsafe { entry.visited(self.entry_overhead) });
                });
            }
        }
    }

    #[cfg(test)]
    fn check(&self) {
        for shard in &self.shards {
            shard.lock().check();
        }
    }
}

fn default_shard_bits(capacity: usize) -> u32 {
    (capacity / MIN_SHARD_BYTES).checked_ilog2().unwrap_or(0).min(DEFAULT_MAX_SHARD_BITS)
}

#[cfg(test)]
mod tests;
