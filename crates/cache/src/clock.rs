//! The clock caches, in which no operation waits, and a hit writes at most one shared word.
//!
//! [`Cache`](crate::Cache) documents the operations. Source of the semantics: RocksDB's
//! `HyperClockCache` (`cache/clock_cache.h`). The implementation is Esker's own:
//! `docs/design/0002-block-cache.md`.
//!
//! | operation | shared words it writes |
//! |---|---|
//! | a hit under a guard | one word of a bucket, until the entry's clock (a counter of uses) is at its maximum; then nothing |
//! | a hit with a handle | the entry's state, once to take and once to release |
//! | a miss | nothing |
//! | an insert | usage, occupancy, the free slots, the entry's bucket, the buckets of evicted entries, the hand |
//!
//! There is one table without shards. Operations take no locks, so shards would not help. Without
//! shards, a small cache with large filters can use its whole capacity.

mod evict;
mod slot;
mod table;

use crate::contract::{CacheOptions, InsertOutcome, MetadataChargePolicy, Visited, full};
use crate::entry::{About, Borrowed, CacheEntry, Handle, Home};
use crate::key::CacheKey;
use crate::ledger::Ledger;
use crate::outcome::{CacheInserted, EvictedList, EvictionCallback, Rejected};
use esker_base::Result;
use esker_base::rng::split_mix;
use esker_base::sync::Arc;
use esker_base::sync::epoch::{self, Guard};
use slot::{Bucket, PLACES};
use std::ptr::NonNull;
use table::{ClockInsertOutcome, ClockTable, ClockTableSize};

/// The share of occupied slots in a fixed table when entries of the estimated charge fill the
/// capacity.
const FIXED_LOAD: f64 = 0.6;
/// An eviction makes room for the current charge and for this number of further charges of the same
/// size. [`SPARE_SHARE`] limits them.
const SPARE_CHARGES: usize = 3;
/// The further charges take at most the capacity divided by this.
const SPARE_SHARE: usize = 1024;
/// Under a strict limit, other threads may take the bytes that an insert has freed. The insert then
/// evicts again, at most this number of times.
const STRICT_ATTEMPTS: usize = 8;
/// Number of buckets that one guard covers during a visit of all entries.
const BUCKETS_PER_GUARD: usize = 32;
/// Number of buckets with which a growing table starts: room for 56 entries.
const AUTO_MIN_LENGTH: usize = 8;

/// The cache. Use it through [`Cache`](crate::Cache).
pub(crate) struct ClockCache<V: Send + Sync + 'static> {
    table: ClockTable<V>,
    home: Arc<Home<V>>,
    /// Bytes charged for an entry beside the value's charge; 0 if the cache does not charge for its
    /// own memory.
    entry_overhead: usize,
    effort_cap: usize,
}

impl<V: Send + Sync + 'static> ClockCache<V> {
    /// Makes an empty cache. If `estimated_entry_charge` is 0, the table grows. Otherwise the table
    /// has a fixed size, for entries of that charge.
    pub(crate) fn new(
        options: &CacheOptions,
        estimated_entry_charge: usize,
        on_evict: Option<EvictionCallback<V>>,
    ) -> ClockCache<V> {
        let home = Home::new(Ledger::new(options.capacity, options.strict_capacity_limit));
        let (entry_overhead, bucket_charge) = match options.metadata_charge_policy {
            MetadataChargePolicy::DontChargeCacheMetadata => (0, 0),
            MetadataChargePolicy::FullChargeCacheMetadata => {
                (CacheEntry::<V>::OVERHEAD_BYTES, size_of::<Bucket<V>>())
            }
        };
        let size = if estimated_entry_charge == 0 {
            ClockTableSize { min_length: AUTO_MIN_LENGTH, max_length: usize::MAX, bucket_charge }
        } else {
            let entries = options.capacity / (estimated_entry_charge + entry_overhead).max(1);
            let length = (entries as f64 / FIXED_LOAD / PLACES as f64).ceil() as usize;
            ClockTableSize { min_length: length, max_length: length, bucket_charge }
        };
        // The seed depends on the capacity only, so tests can repeat a run. Keys that collide in
        // one cache do not collide in a cache of another size.
        let seed = split_mix(options.capacity as u64);
        ClockCache {
            table: ClockTable::new(size, seed, Arc::clone(&home.ledger), on_evict),
            home,
            entry_overhead,
            effort_cap: options.eviction_effort_cap.max(1),
        }
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.home.ledger
    }

    pub(crate) fn insert(&self, about: About, value: V) -> Result<CacheInserted<V>, Rejected<V>> {
        let about = About { charge: about.charge.saturating_add(self.entry_overhead), ..about };
        let is_refused = self.table.is_deferred_full();
        if is_refused && !self.home.ledger.is_strict() {
            // Too much memory of evicted entries waits for guards. An eviction would not help: the
            // memory of its entry would wait too.
            self.home.ledger.charge(about.charge);
        } else if let Err(error) = self.charge(about.charge) {
            return Err(Rejected { value, error });
        }
        if is_refused || about.charge > self.home.ledger.capacity() {
            let handle = CacheEntry::standalone(about, &self.home, value);
            return Ok(CacheInserted { handle, outcome: InsertOutcome::Detached });
        }
        let mut evicted = EvictedList::new();
        let outcome = self.table.insert(CacheEntry::tentative(about, &self.home, value), &mut evicted);
        self.table.report(evicted);
        Ok(match outcome {
            ClockInsertOutcome::Added(handle) => CacheInserted { handle, outcome: InsertOutcome::Added },
            ClockInsertOutcome::Found(handle) => CacheInserted { handle, outcome: InsertOutcome::Found },
            ClockInsertOutcome::Detached(handle) => {
                CacheInserted { handle, outcome: InsertOutcome::Detached }
            }
        })
    }

    pub(crate) fn standalone(&self, about: About, value: V) -> Result<Handle<V>, Rejected<V>> {
        let about = About { charge: about.charge.saturating_add(self.entry_overhead), ..about };
        match self.charge(about.charge) {
            Ok(()) => Ok(CacheEntry::standalone(about, &self.home, value)),
            Err(error) => Err(Rejected { value, error }),
        }
    }

    /// Charges `charge` bytes, and evicts entries to make room.
    /// # Errors
    /// `MemoryLimit` if the limit is strict and there is no room; nothing is charged.
    pub(crate) fn charge(&self, charge: usize) -> Result<()> {
        if !self.home.ledger.is_strict() {
            let excess = self.home.ledger.charge(charge);
            let capacity = self.home.ledger.capacity();
            if excess > 0 && charge <= capacity {
                // Make room for the next charges as well. The thread then writes each shared word
                // once for all evicted entries. It also fetches a bucket once, often from another
                // processor's cache, and may evict several of the bucket's entries.
                let more = charge.saturating_mul(SPARE_CHARGES);
                let more = if more <= capacity / SPARE_SHARE { more } else { 0 };
                self.table.evict(excess + more, self.effort_cap);
            }
            return Ok(());
        }
        for _ in 0..STRICT_ATTEMPTS {
            let Err(excess) = self.home.ledger.charge_within_capacity(charge) else { return Ok(()) };
            if charge > self.home.ledger.capacity() || self.table.evict(excess, usize::MAX) == 0 {
                break;
            }
        }
        self.home.ledger.charge_within_capacity(charge).map_err(|_| full(charge))
    }

    #[inline]
    pub(crate) fn lookup(&self, key: &CacheKey) -> Option<Handle<V>> {
        let guard = epoch::pin();
        let found = self.table.find(key, &guard)?;
        found.touch();
        found.entry.pin()
    }

    pub(crate) fn lookup_last(&self, key: &CacheKey) -> Option<Handle<V>> {
        let guard = epoch::pin();
        let found = self.table.find(key, &guard)?;
        found.forget_uses();
        found.entry.pin()
    }

    #[inline]
    pub(crate) fn lookup_under<'g>(&self, key: &CacheKey, guard: &'g Guard) -> Option<Borrowed<'g, V>> {
        let found = self.table.find(key, guard)?;
        found.touch();
        let entry = NonNull::from(found.entry);
        // SAFETY: the entry was read from the table under `guard`, and lives as long as that guard.
        Borrowed::new(unsafe { CacheEntry::under(entry, guard) })
    }

    pub(crate) fn release(&self, handle: Handle<V>, is_useful: bool) {
        if !is_useful {
            let guard = epoch::pin();
            if let Some(found) = self.table.find(Handle::key(&handle), &guard)
                && found.word.clock() > 0
            {
                found.age();
            }
        }
        drop(handle);
    }

    pub(crate) fn contains(&self, key: &CacheKey) -> bool {
        self.table.find(key, &epoch::pin()).is_some()
    }

    /// Whether a value with this key was evicted recently.
    pub(crate) fn remembers(&self, key: &CacheKey) -> bool {
        self.table.has_ghost(key)
    }

    pub(crate) fn erase(&self, key: &CacheKey) -> bool {
        self.table.erase(key)
    }

    pub(crate) fn erase_unreferenced(&self) {
        self.table.evict_all();
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.home.ledger.set_capacity(capacity);
        let excess = self.home.ledger.usage().saturating_sub(capacity);
        if excess > 0 {
            self.table.evict(excess, usize::MAX);
        }
    }

    pub(crate) fn occupancy_count(&self) -> usize {
        self.table.occupancy()
    }

    pub(crate) fn table_size(&self) -> usize {
        self.table.length() * PLACES
    }

    pub(crate) fn crowded_count(&self) -> usize {
        self.table.crowded()
    }

    pub(crate) fn pinned_usage(&self) -> usize {
        let mut bytes = self.home.ledger.detached();
        self.for_each(|entry| {
            if entry.is_pinned() {
                bytes += entry.about.charge;
            }
        });
        bytes
    }

    /// Visits all entries. May miss or repeat an entry that another thread moves meanwhile.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Visited<'_, V>)) {
        self.for_each(|entry| {
            if entry.borrow() {
                // SAFETY: the entry was found, and is borrowed, under the guard of `for_each`.
                visit(&unsafe { entry.visited(self.entry_overhead) });
            }
        });
    }

    /// Calls `look` with each entry. Opens a new guard after [`BUCKETS_PER_GUARD`] buckets.
    fn for_each(&self, mut look: impl FnMut(&CacheEntry<V>)) {
        let mut next = 0;
        while next < self.table.length() {
            let guard = epoch::pin();
            let end = (next + BUCKETS_PER_GUARD).min(self.table.length());
            for index in next..end {
                let living = self.table.bucket(index).entries(&guard).filter(|found| !found.entry.is_dead());
                living.for_each(|found| look(found.entry));
            }
            next = end;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
