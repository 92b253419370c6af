//! The contract of a cache.
//!
//! In: values with a key and a charge in bytes. Out: the same values, as long as they fit.
//! Source of the semantics: RocksDB `include/rocksdb/advanced_cache.h`, `cache/lru_cache.h`.
//!
//! Invariants
//!  1. Usage is the sum of the charges of values in the cache, evicted values that are still held,
//!     reservations, and the cache's own table. It exceeds the capacity only by held values, and
//!     never if the limit is strict.
//!  2. A value that a [`Handle`] holds is not evicted: that would free nothing. Erasing removes it
//!     from the table at once; its last handle frees memory and charge.
//!  3. No value is dropped under a lock of the cache: dropping may take time, or use the cache.
//!  4. A miss is always allowed: a cache may refuse to keep a value.

use crate::clock::ClockCache;
use crate::contract::{CacheOptions, CachePriority, CacheType, Visited};
use crate::entry::{About, Borrowed, Handle};
use crate::flight::Flights;
use crate::key::CacheKey;
use crate::ledger::Ledger;
use crate::lru::LruCache;
use crate::outcome::{CacheInserted, EvictionCallback, Rejected};
use crate::role::{Role, RoleStats};
use crate::sampler::Sampler;
use crate::tier::Lower;
use esker_base::buffer;
use esker_base::sync::epoch::Guard;
use esker_base::sync::{Arc, OnceLock};
use esker_base::{Error, Result};
use std::fmt;
use std::ops::Deref;

/// A value found under a guard: borrowed from the cache without touching a count, or held.
#[derive(Debug)]
pub enum Guarded<'g, V> {
    /// Borrowed for as long as the guard lives.
    Borrowed(Borrowed<'g, V>),
    /// Held by a reference count, as an LRU cache returns values.
    Held(Handle<V>),
}

impl<V> Guarded<'_, V> {
    /// The value, held beyond the guard; `None` if the cache has dropped it meanwhile.
    #[inline]
    pub fn hold(&self) -> Option<Handle<V>> {
        match self {
            Guarded::Borrowed(value) => value.hold(),
            Guarded::Held(handle) => Some(handle.clone()),
        }
    }
}

impl<V> Deref for Guarded<'_, V> {
    type Target = V;
    #[inline]
    fn deref(&self) -> &V {
        match self {
            Guarded::Borrowed(value) => value,
            Guarded::Held(handle) => handle,
        }
    }
}

/// A cache, shared by `Arc` between any number of tables, families and databases.
pub struct Cache<V: Send + Sync + 'static> {
    inner: Inner<V>,
    flights: Flights,
    cache_type: CacheType,
    lower: Option<Arc<Lower<V>>>,
    sampler: Option<Box<Sampler>>,
    charged: OnceLock<ChargedCache<V>>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "one for each cache, and one step less on the way to the table"
)]
enum Inner<V: Send + Sync + 'static> {
    Lru(LruCache<V>),
    Clock(ClockCache<V>),
}

macro_rules! each {
    ($self:ident, $cache:ident => $call:expr) => {
        match &$self.inner {
            Inner::Lru($cache) => $call,
            Inner::Clock($cache) => $call,
        }
    };
}

impl<V: Send + Sync + 'static> Cache<V> {
    /// An empty cache.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards, the pool ratios are not between 0 and
    /// 1 together, or the estimated charge is 0.
    pub fn new(options: &CacheOptions) -> Result<Cache<V>> {
        Cache::with_callback(options, None, None)
    }

    /// An empty LRU cache, whatever type the options name.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards, the pool ratios are not between 0 and
    /// 1 together, or the estimated charge is 0.
    pub fn lru(options: &CacheOptions) -> Result<Cache<V>> {
        Cache::new(&CacheOptions { cache_type: CacheType::Lru, ..options.clone() })
    }

    /// An empty cache that reports each value it evicts, from the evicting thread and under no
    /// lock. It does not report erased values.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards, the pool ratios are not between 0 and
    /// 1 together, or the estimated charge is 0.
    pub fn with_eviction_callback(options: &CacheOptions, callback: EvictionCallback<V>) -> Result<Cache<V>> {
        Cache::with_callback(options, Some(callback), None)
    }

    fn with_callback(
        options: &CacheOptions,
        callback: Option<EvictionCallback<V>>,
        lower: Option<Arc<Lower<V>>>,
    ) -> Result<Cache<V>> {
        let inner = match options.cache_type {
            CacheType::Lru => Inner::Lru(LruCache::new(options, callback)?),
            CacheType::FixedHyperClock { estimated_entry_charge: 0 } => {
                return Err(Error::invalid_argument(
                    "the estimated_entry_charge of a fixed clock must not be 0",
                ));
            }
            CacheType::FixedHyperClock { estimated_entry_charge } => {
                Inner::Clock(ClockCache::new(options, estimated_entry_charge, callback))
            }
            CacheType::AutoHyperClock => Inner::Clock(ClockCache::new(options, 0, callback)),
        };
        let sampler = options.estimates_misses.then(|| Box::new(Sampler::new(options.capacity)));
        let (flights, charged) = (Flights::default(), OnceLock::new());
        Ok(Cache { inner, flights, cache_type: options.cache_type, lower, sampler, charged })
    }

    /// The kind of cache.
    pub fn cache_type(&self) -> CacheType {
        self.cache_type
    }

    fn ledger(&self) -> &Arc<Ledger> {
        each!(self, cache => cache.ledger())
    }

    /// Inserts `value` with a `charge` in bytes. A value with the same key is replaced (LRU) or
    /// stays (clocks): a key must determine its value.
    ///
    /// A value larger than the capacity (LRU: than a shard's) is not kept, but still returned.
    /// # Errors
    /// `MemoryLimit` if the limit is strict and held values leave no room, here or in the cache to
    /// which this one is charged. The error returns the value. An LRU cache then has also removed
    /// the key's former value.
    pub fn insert(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
        priority: CachePriority,
        role: Role,
    ) -> Result<CacheInserted<V>, Rejected<V>> {
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| sampler.follows(&key)) {
            sampler.charged(&key, charge);
        }
        let Some(charged) = self.charged.get() else {
            return each!(self, cache => cache.insert(About { key, charge, role, priority }, value));
        };
        let _coming = match charged.make_room(self.ledger(), charge) {
            Ok(coming) => coming,
            Err(error) => return Err(Rejected { value, error }),
        };
        let inserted = each!(self, cache => cache.insert(About { key, charge, role, priority }, value));
        // The table may have grown.
        charged.fit(self.ledger());
        inserted
    }

    /// Charges for a value that no lookup finds. Its last handle frees it.
    /// # Errors
    /// `MemoryLimit`, as `insert`.
    pub fn create_standalone(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
        role: Role,
    ) -> Result<Handle<V>, Rejected<V>> {
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| sampler.follows(&key)) {
            sampler.charged(&key, charge);
        }
        let about = About { key, charge, role, priority: CachePriority::Bottom };
        each!(self, cache => cache.standalone(about, value))
    }

    /// The value with this key, which counts as used now. It is not evicted while the handle is
    /// held.
    #[inline]
    pub fn lookup(&self, key: &CacheKey) -> Option<Handle<V>> {
        self.sample(key);
        each!(self, cache => cache.lookup(key))
    }

    #[inline]
    fn sample(&self, key: &CacheKey) {
        if let Some(sampler) = &self.sampler
            && sampler.follows(key)
        {
            sampler.looked_up(key);
        }
    }

    /// `lookup` for as long as the guard lives. In a clock cache this touches no count; evicted
    /// values wait for the guard, so do not hold it across waits.
    #[inline]
    pub fn lookup_under<'g>(&self, key: &CacheKey, guard: &'g Guard) -> Option<Guarded<'g, V>> {
        self.sample(key);
        match &self.inner {
            Inner::Lru(cache) => cache.lookup(key).map(Guarded::Held),
            Inner::Clock(cache) => cache.lookup_under(key, guard).map(Guarded::Borrowed),
        }
    }

    /// The value with this key. If there is none, `load` makes it and its charge. Other threads
    /// that look up the key meanwhile wait for this load.
    /// # Errors
    /// The error of `load`; a thread that waited for a failed load then loads itself. `refused`
    /// makes the error if a strict limit leaves no room for the value.
    pub fn lookup_or_load<E>(
        &self,
        key: CacheKey,
        priority: CachePriority,
        role: Role,
        load: impl FnOnce() -> Result<(V, usize), E>,
        refused: impl FnOnce(Rejected<V>) -> E,
    ) -> Result<Handle<V>, E> {
        loop {
            if let Some(handle) = self.lookup(&key) {
                return Ok(handle);
            }
            let Some(_flight) = self.flights.begin_or_wait(&key) else { continue };
            // Another thread may have loaded the value since the lookup.
            if let Some(handle) = self.lookup(&key) {
                return Ok(handle);
            }
            let (value, charge) = load()?;
            return self.insert(key, value, charge, priority, role).map(|i| i.handle).map_err(refused);
        }
    }

    /// Releases a handle. If `is_useful` is false, the lookup does not count as a use of the value.
    pub fn release(&self, handle: Handle<V>, is_useful: bool) {
        match &self.inner {
            Inner::Lru(_) => drop(handle),
            Inner::Clock(cache) => cache.release(handle, is_useful),
        }
    }

    /// Whether there is a value with this key. Does not count as a use.
    pub fn contains(&self, key: &CacheKey) -> bool {
        each!(self, cache => cache.contains(key))
    }

    /// Whether the cache had a value with this key recently. An LRU cache does not record this and
    /// returns true.
    fn knew(&self, key: &CacheKey) -> bool {
        match &self.inner {
            Inner::Lru(_) => true,
            Inner::Clock(cache) => cache.remembers(key),
        }
    }

    /// Removes the value with this key from the cache and from the tier below. Returns whether the
    /// cache had it.
    pub fn erase(&self, key: &CacheKey) -> bool {
        let erased = each!(self, cache => cache.erase(key));
        if let Some(lower) = &self.lower {
            lower.tier.erase(key);
        }
        erased
    }

    /// Erases every value without a handle.
    pub fn erase_unreferenced(&self) {
        each!(self, cache => cache.erase_unreferenced());
        self.fit_charged();
    }

    /// Charges all usage of this cache to `charged` as well, as long as this cache lives. Only the
    /// first call has an effect. RocksDB: `ChargedCache`.
    pub fn charge_usage_to(&self, charged: &Arc<Cache<V>>, role: Role) {
        self.charged.get_or_init(|| ChargedCache::new(charged, role));
    }

    fn fit_charged(&self) {
        if let Some(charged) = self.charged.get() {
            charged.fit(self.ledger());
        }
    }

    /// Charges memory outside of the cache to it, for as long as the reservation lives. Values are
    /// evicted to make room.
    /// # Errors
    /// `MemoryLimit` if the limit is strict and there is no room. RocksDB:
    /// `CacheReservationManager`.
    pub fn reserve(self: &Arc<Self>, role: Role, bytes: usize) -> Result<Reservation<V>> {
        Reservation::new(Arc::clone(self), role, bytes)
    }

    fn charge_own(&self, bytes: usize) -> Result<()> {
        each!(self, cache => cache.charge(bytes))
    }

    fn uncharge_own(&self, bytes: usize) {
        self.ledger().uncharge(bytes);
        if let Inner::Lru(cache) = &self.inner {
            cache.give_reserved_back(bytes);
        }
    }

    pub(crate) fn count_reservation(&self, role: Role, reservations: isize) {
        self.ledger().count(role, reservations, 0);
    }

    /// The capacity in bytes, including the tier below if they share one.
    pub fn capacity(&self) -> usize {
        let total = self.lower.as_ref().and_then(|lower| lower.shares().map(|shares| shares.total));
        total.unwrap_or_else(|| self.ledger().capacity())
    }

    /// Changes the capacity (of the cache and its tier together, if they share one), evicting
    /// values that no longer fit.
    pub fn set_capacity(&self, capacity: usize) {
        if let Some(sampler) = &self.sampler {
            sampler.reset(capacity);
        }
        match self.lower.as_ref().filter(|lower| lower.shares().is_some()) {
            Some(lower) => self.divide(lower, |shares| shares.total = capacity),
            None => self.set_own_capacity(capacity),
        }
    }

    fn set_own_capacity(&self, capacity: usize) {
        let is_less = capacity < self.ledger().capacity();
        each!(self, cache => cache.set_capacity(capacity));
        self.fit_charged();
        if is_less {
            // The memory of evicted values is scattered, so this returns free pages to the system.
            buffer::trim();
        }
    }

    /// Whether inserts beyond the capacity fail.
    pub fn has_strict_capacity_limit(&self) -> bool {
        self.ledger().is_strict()
    }

    /// Sets whether inserts beyond the capacity fail.
    pub fn set_strict_capacity_limit(&self, strict: bool) {
        self.ledger().set_strict(strict);
    }

    /// Bytes in use: values in the cache, evicted or erased values that are still held,
    /// reservations, and the cache's own memory if it is charged.
    pub fn usage(&self) -> usize {
        self.ledger().usage()
    }

    /// Bytes of unreachable values whose memory waits for readers under guards.
    pub fn deferred_free_usage(&self) -> usize {
        self.ledger().deferred_free()
    }

    /// Bytes of the values with handles. Reads every entry.
    pub fn pinned_usage(&self) -> usize {
        each!(self, cache => cache.pinned_usage())
    }

    /// Number of values in the cache.
    pub fn occupancy_count(&self) -> usize {
        each!(self, cache => cache.occupancy_count())
    }

    /// Number of slots of the table.
    pub fn table_address_count(&self) -> usize {
        each!(self, cache => cache.table_size())
    }

    /// Inserts so far that found all their buckets full. Each displaced another value or was not
    /// kept. Many of them in a fixed table mean that the estimated charge is too high.
    pub fn crowded_count(&self) -> usize {
        match &self.inner {
            Inner::Lru(_) => 0,
            Inner::Clock(cache) => cache.crowded_count(),
        }
    }

    /// Entries and bytes of each role, without a walk over entries.
    pub fn role_stats(&self) -> RoleStats {
        self.ledger().role_stats()
    }

    /// Calls `visit` with each value, which does not count as a use. Runs in small steps beside
    /// other threads. It may miss or repeat values that other threads insert, remove or move
    /// meanwhile. `visit` must be quick and must not use this cache.
    pub fn apply_to_all(&self, mut visit: impl FnMut(&Visited<'_, V>)) {
        each!(self, cache => cache.visit(&mut visit));
    }
}

impl<V: Send + Sync + 'static> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("type", &self.cache_type.name())
            .field("capacity", &self.capacity())
            .field("usage", &self.usage())
            .finish()
    }
}

mod charged;
mod reservation;
mod tiered;
use charged::ChargedCache;
pub use reservation::Reservation;
pub use tiered::TieredCacheOptions;

#[cfg(all(test, shuttle))]
mod scenarios;
#[cfg(all(test, not(shuttle)))]
mod tests;
