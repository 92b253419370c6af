//! Whole caches under random schedules, compared with a reference: a map of held values, with
//! counts.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --profile stress -p esker-cache --lib shuttle`
//!
//! Threads insert, look up, hold, release and erase values in a cache that is too small for all
//! keys. Under every schedule, a lookup returns a living value of its key. The checks run after all
//! threads are done, while their handles are still held. Each key is in the cache at most once, and
//! the cache's pinned values are the values that the reference holds. Each inserted value is in the
//! cache, or was erased, replaced or reported as evicted. After all handles are released, nothing
//! is charged.

use super::*;
use crate::contract::{InsertOutcome, MetadataChargePolicy};
use crate::tier::{Admission, FoundIn, Saved, SecondaryCache, TierHit};
use esker_base::sync::process::Mutex as Process;
use esker_base::sync::process::atomic::{AtomicUsize as Plain, Ordering};
use esker_base::sync::{Mutex, epoch};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::collections::HashMap;

const THREADS: usize = 3;
const STEPS: usize = 12;
const KEYS: u64 = 6;
const CHARGE: usize = 1000;
const SCHEDULES: usize = 3000;

/// A value that stores its key, and counts living values.
struct Value {
    key: u64,
    bytes: Vec<u8>,
    alive: Arc<Plain>,
}

impl Value {
    fn new(key: u64, alive: &Arc<Plain>) -> Value {
        alive.fetch_add(1, Ordering::Relaxed);
        Value { key, bytes: key.to_le_bytes().to_vec(), alive: Arc::clone(alive) }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert_ne!(self.key, u64::MAX, "the value was dropped twice");
        self.key = u64::MAX;
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A tier that keeps every offered value, and counts them.
#[derive(Debug, Default)]
struct Keeper {
    values: Mutex<HashMap<CacheKey, Vec<u8>>>,
    offered: Plain,
}

impl SecondaryCache for Keeper {
    fn name(&self) -> &'static str {
        "Keeper"
    }
    fn insert(&self, key: &CacheKey, saved: Saved<'_>, _: bool) -> Admission {
        self.offered.fetch_add(1, Ordering::Relaxed);
        match self.values.lock().insert(*key, saved.bytes.to_vec()) {
            None => Admission::Stored,
            Some(_) => Admission::Present,
        }
    }
    fn lookup(&self, key: &CacheKey, advise_erase: bool) -> crate::tier::Lookup {
        let mut values = self.values.lock();
        let found = if advise_erase { values.remove(key) } else { values.get(key).cloned() };
        let was_seen = false;
        found.map_or(crate::tier::Lookup::Missing { was_seen }, |bytes| {
            let bytes = bytes.into();
            let (role, found_in) = (Role::DataBlock, FoundIn::Memory);
            crate::tier::Lookup::Ready(TierHit { role, bytes, is_kept: !advise_erase, found_in })
        })
    }
    fn contains(&self, key: &CacheKey) -> bool {
        self.values.lock().contains_key(key)
    }
    fn erase(&self, key: &CacheKey) {
        self.values.lock().remove(key);
    }
    fn capacity(&self) -> usize {
        0
    }
    fn set_capacity(&self, _: usize) {}
    fn usage(&self) -> usize {
        0
    }
}

fn saved(value: &Value) -> Option<&[u8]> {
    Some(&value.bytes)
}

fn key(i: u64) -> CacheKey {
    CacheKey::new((3, i), i)
}

/// Counts of the threads' operations.
#[derive(Default)]
struct Counts {
    added: Plain,
    /// Erased or replaced values. An insert that is erased before it is done counts here, and not
    /// as added.
    erased: Plain,
    evicted: Plain,
}

fn put(cache: &Cache<Value>, i: u64, alive: &Arc<Plain>, counts: &Counts) -> Handle<Value> {
    let inserted = cache.insert(key(i), Value::new(i, alive), CHARGE, CachePriority::Low, Role::DataBlock);
    let inserted = inserted.unwrap_or_else(|_| unreachable!("the limit is not strict"));
    match inserted.outcome {
        InsertOutcome::Added => _ = counts.added.fetch_add(1, Ordering::Relaxed),
        InsertOutcome::Replaced => {
            counts.added.fetch_add(1, Ordering::Relaxed);
            counts.erased.fetch_add(1, Ordering::Relaxed);
        }
        InsertOutcome::Found | InsertOutcome::Detached => {}
    }
    inserted.handle
}

/// The work of one thread. Returns the handles it still holds.
fn work(cache: &Cache<Value>, alive: &Arc<Plain>, counts: &Counts) -> Vec<Handle<Value>> {
    let mut held: Vec<Handle<Value>> = Vec::new();
    for _ in 0..STEPS {
        let i = thread_rng().gen_range(0..KEYS);
        match thread_rng().gen_range(0..11) {
            0..=3 => held.push(put(cache, i, alive, counts)),
            4..=6 => match cache.lookup(&key(i)) {
                Some(handle) => held.push(handle),
                None => {
                    if let Some(found) = cache.look_below(&key(i), true).wait() {
                        assert_eq!(*found.bytes, i.to_le_bytes(), "another key's bytes");
                        held.push(put(cache, i, alive, counts));
                    }
                }
            },
            7 => {
                let guard = epoch::pin();
                let found = cache.lookup_under(&key(i), &guard);
                assert!(found.is_none_or(|value| value.key == i), "another key's value");
            }
            8 => _ = counts.erased.fetch_add(usize::from(cache.erase(&key(i))), Ordering::Relaxed),
            9 => held.extend(cache.lookup_last(&key(i))),
            _ => held.clear(),
        }
        held.iter().for_each(|value| assert_eq!(Some(value.key), number_of(Handle::key(value))));
        if held.len() > 3 {
            held.remove(0);
        }
    }
    held
}

/// The number of a key in the scenario.
fn number_of(cache_key: &CacheKey) -> Option<u64> {
    (0..KEYS).find(|i| key(*i) == *cache_key)
}

fn scenario(cache_type: CacheType, is_tiered: bool) {
    let alive = Arc::new(Plain::new(0));
    let options = CacheOptions {
        cache_type,
        num_shard_bits: 0,
        metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
        ..CacheOptions::with_capacity(4 * CHARGE)
    };
    let tier = Arc::new(Keeper::default());
    let counts = Arc::new(Counts::default());
    let cache = if is_tiered {
        let below: Arc<dyn SecondaryCache> = Arc::clone(&tier) as _;
        Cache::with_secondary(&options, below, saved, crate::tier::AdmissionPolicy::AllowAll)
    } else {
        let counters = Arc::clone(&counts);
        let callback = Box::new(move |_| _ = counters.evicted.fetch_add(1, Ordering::Relaxed));
        Cache::with_eviction_callback(&options, callback)
    };
    let cache = Arc::new(cache.expect("the options are allowed"));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (cache, alive, counts) = (Arc::clone(&cache), Arc::clone(&alive), Arc::clone(&counts));
            thread::spawn(move || work(&cache, &alive, &counts))
        })
        .collect();
    let held: Vec<Handle<Value>> =
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect();
    assert!(epoch::settle(u32::MAX, std::thread::yield_now), "no guard is open");
    let mut references: HashMap<usize, usize> = HashMap::new();
    held.iter().for_each(|handle| *references.entry(std::ptr::from_ref(&**handle).addr()).or_default() += 1);
    assert_eq!(cache.pinned_usage(), references.len() * CHARGE, "each held value is pinned once");
    let mut seen = [0; KEYS as usize];
    cache.apply_to_all(|entry| seen[entry.value.key as usize] += 1);
    assert!(seen.iter().all(|&n| n <= 1), "a key is there twice: {seen:?}");
    let there = seen.iter().sum::<usize>();
    assert_eq!(there, cache.occupancy_count());
    let count = |count: &Plain| count.load(Ordering::Relaxed);
    let (added, erased) = (count(&counts.added), count(&counts.erased));
    let kept = there + count(&counts.evicted) + count(&tier.offered);
    assert!(kept <= added, "{kept} of {added}: a value is counted twice");
    assert!(added <= kept + erased, "{kept} and {erased} erased of {added}: a value is lost");
    if cache_type == CacheType::Lru {
        assert_eq!(added, kept + erased, "under a lock every erase is complete");
    }
    drop(held);
    cache.erase_unreferenced();
    assert!(epoch::settle(u32::MAX, std::thread::yield_now), "no guard is open");
    assert_eq!((cache.usage(), alive.load(Ordering::Relaxed)), (0, 0), "all memory is freed");
    assert_eq!(cache.role_stats().bytes(Role::DataBlock), 0);
}

/// Many random schedules, each thread with a stack large enough for a build without optimization.
fn check(scenario: impl Fn() + Send + Sync + 'static) {
    // The checker's atomics belong to one run, so one test's thread must not free values that
    // another test retired.
    static ONE_AT_A_TIME: Process<()> = Process::new(());
    let _alone = ONE_AT_A_TIME.lock();
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    let scheduler = shuttle::scheduler::RandomScheduler::new(SCHEDULES);
    shuttle::Runner::new(scheduler, config).run(scenario);
}

#[test]
fn shuttle_lru() {
    check(|| scenario(CacheType::Lru, false));
}

#[test]
fn shuttle_auto_clock() {
    check(|| scenario(CacheType::AutoHyperClock, false));
}

#[test]
fn shuttle_fixed_clock() {
    let cache_type = CacheType::FixedHyperClock { estimated_entry_charge: CHARGE };
    check(move || scenario(cache_type, false));
}

#[test]
fn shuttle_above_a_tier() {
    check(|| scenario(CacheType::Lru, true));
    check(|| scenario(CacheType::AutoHyperClock, true));
}

/// Threads make and drop reservations while the division changes. The capacities add up, and
/// nothing stays reserved.
#[test]
fn shuttle_reservations_beside_changes_of_the_division() {
    let run = || {
        let division = TieredCacheOptions {
            total_capacity: 100_000,
            compressed_secondary_ratio: 0.5,
            adm_policy: crate::tier::AdmissionPolicy::Auto,
        };
        let tier: Arc<dyn SecondaryCache> = Arc::new(Sized::default());
        let cache: Cache<Value> =
            Cache::tiered(&CacheOptions::default(), Arc::clone(&tier), saved, &division)
                .expect("the options are valid");
        let (cache, metadata) = (Arc::new(cache), Plain::new(0));
        metadata.store(cache.usage(), Ordering::Relaxed);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let cache = Arc::clone(&cache);
                thread::spawn(move || {
                    for step in 1..4 {
                        let mut reservation = cache.reserve(Role::Misc, 1000 * step).expect("not strict");
                        if thread == 0 {
                            let ratio = Some(0.25 * step as f64);
                            cache.update_tiered(None, ratio, None).expect("the ratio is between 0 and 1");
                        }
                        reservation.resize(500).expect("not strict");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        assert_eq!(cache.ledger().capacity() + tier.capacity(), 100_000);
        assert_eq!(tier.capacity(), 75_000, "no reservation is left");
        assert_eq!(cache.usage(), metadata.load(Ordering::Relaxed));
    };
    check(run);
}

/// A tier that has a capacity and nothing else.
#[derive(Debug, Default)]
struct Sized(Plain);

impl SecondaryCache for Sized {
    fn name(&self) -> &'static str {
        "Sized"
    }
    fn insert(&self, _: &CacheKey, _: Saved<'_>, _: bool) -> Admission {
        Admission::Refused
    }
    fn lookup(&self, _: &CacheKey, _: bool) -> crate::tier::Lookup {
        crate::tier::Lookup::Missing { was_seen: false }
    }
    fn contains(&self, _: &CacheKey) -> bool {
        false
    }
    fn erase(&self, _: &CacheKey) {}
    fn capacity(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
    fn set_capacity(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }
    fn usage(&self) -> usize {
        0
    }
}
