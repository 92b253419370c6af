//! [`Cache`], the interface of all caches.
//!
//! In: values, each with a key and a charge in bytes. Out: the same values, as long as they fit.
//! Source of the semantics: RocksDB `include/rocksdb/advanced_cache.h`, `cache/lru_cache.h`.
//!
//! Invariants
//!  1. Usage is the sum of all charges: for values in the cache, evicted values that are still
//!     held, reservations, and the cache's own table. Only held values can make the usage exceed
//!     the capacity; if the limit is strict, nothing can.
//!  2. A value that a [`Handle`] holds is not evicted. An erasure removes a value from the table at
//!     once; the last handle frees memory and charge.
//!  3. No value is dropped under a lock of the cache: the drop may take long, or use the cache.
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
use crate::watch::AccessWatch;
use esker_base::buffer;
use esker_base::sync::epoch::Guard;
use esker_base::sync::{Arc, Mutex, OnceLock, Weak};
use esker_base::{Error, Result};
use std::fmt;
use std::ops::Deref;

/// A value found under a guard.
#[derive(Debug)]
pub enum Guarded<'g, V> {
    /// Borrowed for as long as the guard lives, without a reference count.
    Borrowed(Borrowed<'g, V>),
    /// Held by a reference count. An LRU cache returns values in this way.
    Held(Handle<V>),
}

impl<V> Guarded<'_, V> {
    /// Holds the value beyond the life of the guard. `None` if the cache has dropped the value
    /// meanwhile.
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

/// A cache, which tables, families and databases share by `Arc`.
pub struct Cache<V: Send + Sync + 'static> {
    inner: Inner<V>,
    flights: Flights,
    cache_type: CacheType,
    lower: Option<Arc<Lower<V>>>,
    sampler: Option<Box<Sampler>>,
    charged: OnceLock<ChargedCache<V>>,
    pub(crate) watches: Mutex<Vec<Weak<dyn AccessWatch>>>,
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
    /// `InvalidArgument` if there are more than 2^19 shards, or the estimated charge is 0. Also if
    /// a pool ratio, or the sum of the two ratios, is not between 0 and 1.
    pub fn new(options: &CacheOptions) -> Result<Cache<V>> {
        Cache::with_callback(options, None, None)
    }

    /// An empty LRU cache. Ignores `cache_type` in the options.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards, or the estimated charge is 0. Also if
    /// a pool ratio, or the sum of the two ratios, is not between 0 and 1.
    pub fn lru(options: &CacheOptions) -> Result<Cache<V>> {
        Cache::new(&CacheOptions { cache_type: CacheType::Lru, ..options.clone() })
    }

    /// An empty cache that calls `callback` for each evicted value. The evicting thread makes the
    /// call, without a lock. Erased values are not reported.
    /// # Errors
    /// `InvalidArgument` if there are more than 2^19 shards, or the estimated charge is 0. Also if
    /// a pool ratio, or the sum of the two ratios, is not between 0 and 1.
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
        let watches = Mutex::new(Vec::new());
        Ok(Cache { inner, flights, cache_type: options.cache_type, lower, sampler, charged, watches })
    }

    /// The kind of cache.
    pub fn cache_type(&self) -> CacheType {
        self.cache_type
    }

    fn ledger(&self) -> &Arc<Ledger> {
        each!(self, cache => cache.ledger())
    }

    /// Inserts `value` with a `charge` in bytes. If the key has a value already, an LRU cache
    /// replaces it, and a clock keeps it: a key must determine its value.
    ///
    /// The cache does not keep a value larger than the capacity (LRU: the capacity of a shard), but
    /// returns a handle of it.
    /// # Errors
    /// `MemoryLimit` if the limit is strict and held values leave no room, in this cache or in the
    /// one to which it is charged. The error returns the value. An LRU cache may have removed the
    /// key's old value then.
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

    /// Charges for a value that no lookup finds. The last handle frees the value.
    /// # Errors
    /// `MemoryLimit` if the limit is strict and held values leave no room.
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

    /// Finds the value with this key, and counts a use of it. The cache does not evict the value
    /// while the handle lives.
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

    /// Finds the value with this key, for as long as the guard lives. Counts a use.
    ///
    /// A clock cache touches no reference count. Evicted values stay in memory until the guard
    /// ends, so do not hold a guard across waits.
    #[inline]
    pub fn lookup_under<'g>(&self, key: &CacheKey, guard: &'g Guard) -> Option<Guarded<'g, V>> {
        self.sample(key);
        match &self.inner {
            Inner::Lru(cache) => cache.lookup(key).map(Guarded::Held),
            Inner::Clock(cache) => cache.lookup_under(key, guard).map(Guarded::Borrowed),
        }
    }

    /// Finds the value with this key, or inserts the value and charge that `load` returns. Other
    /// threads that call this method for the key wait for the load.
    /// # Errors
    /// The error of `load`. A thread that waited for a failed load then calls its own `load`. If a
    /// strict limit leaves no room for the value, `refused` makes the error.
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

    /// Releases a handle. If `is_useful` is false, a clock does not count the lookup as a use of
    /// the value.
    pub fn release(&self, handle: Handle<V>, is_useful: bool) {
        match &self.inner {
            Inner::Lru(_) => drop(handle),
            Inner::Clock(cache) => cache.release(handle, is_useful),
        }
    }

    /// Finds the value with this key, and makes it the first to be evicted, as if it had never been
    /// used. For a caller that keeps a copy of the value.
    pub fn lookup_last(&self, key: &CacheKey) -> Option<Handle<V>> {
        each!(self, cache => cache.lookup_last(key))
    }

    /// Whether the cache has a value with this key. Does not count as a use.
    pub fn contains(&self, key: &CacheKey) -> bool {
        each!(self, cache => cache.contains(key))
    }

    /// Whether the cache evicted a value with this key recently. An LRU cache does not record
    /// evictions and returns true.
    fn knew(&self, key: &CacheKey) -> bool {
        match &self.inner {
            Inner::Lru(_) => true,
            Inner::Clock(cache) => cache.remembers(key),
        }
    }

    /// Removes the value with this key from the cache and from the tier below. Returns whether the
    /// cache had the value.
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

    /// Charges the usage of this cache to the cache `charged` as well, as long as this cache lives.
    /// Only the first call has an effect. RocksDB: `ChargedCache`.
    pub fn charge_usage_to(&self, charged: &Arc<Cache<V>>, role: Role) {
        self.charged.get_or_init(|| ChargedCache::new(charged, role));
    }

    fn fit_charged(&self) {
        if let Some(charged) = self.charged.get() {
            charged.fit(self.ledger());
        }
    }

    /// Charges this cache for memory elsewhere, as long as the reservation lives. Evicts values to
    /// make room.
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

    /// The capacity in bytes. Includes the tier below if both share one capacity.
    pub fn capacity(&self) -> usize {
        let total = self.lower.as_ref().and_then(|lower| lower.shares().map(|shares| shares.total));
        total.unwrap_or_else(|| self.ledger().capacity())
    }

    /// Changes the capacity. If cache and tier share one capacity, changes the shared one. Evicts
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
            // Evicted values leave free pages all over memory. Return these to the system.
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

    /// Bytes in use: values in the cache, evicted or erased values that are still held, and
    /// reservations. Also the cache's own memory, with `FullChargeCacheMetadata`.
    pub fn usage(&self) -> usize {
        self.ledger().usage()
    }

    /// Bytes of evicted and erased values whose memory waits until readers close their guards.
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

    /// Number of inserts that found all their buckets full. Each replaced another value, or was not
    /// kept. In a fixed table, a high number means that the estimated charge is too high.
    pub fn crowded_count(&self) -> usize {
        match &self.inner {
            Inner::Lru(_) => 0,
            Inner::Clock(cache) => cache.crowded_count(),
        }
    }

    /// Number of entries and bytes of each role. Does not visit the entries.
    pub fn role_stats(&self) -> RoleStats {
        self.ledger().role_stats()
    }

    /// Calls `visit` with each value. Does not count as a use. Other threads go on meanwhile;
    /// values that they insert, remove or move may be missed or repeated. `visit` must be quick,
    /// and must not use this cache.
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
