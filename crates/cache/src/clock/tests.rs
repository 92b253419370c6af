//! Tests of the clock caches: each rule alone, for the LRU too where it has the same rule, and
//! random operations against reference counts. All interleavings of two threads are in
//! `table/models.rs`.

use super::*;
use crate::cache::Cache;
use crate::contract::{CachePriority, CacheType};
use crate::role::Role;
use esker_base::rng::Rng;
use esker_base::{ErrorKind, SubCode};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn key(i: u64) -> CacheKey {
    CacheKey::new((1, 2), i)
}

fn options(cache_type: CacheType, capacity: usize) -> CacheOptions {
    CacheOptions {
        cache_type,
        capacity,
        metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
        ..CacheOptions::default()
    }
}

const TYPES: [CacheType; 2] =
    [CacheType::AutoHyperClock, CacheType::FixedHyperClock { estimated_entry_charge: 1 }];

fn put(cache: &Cache<u64>, i: u64, charge: usize, priority: CachePriority) -> Handle<u64> {
    cache
        .insert(key(i), i, charge, priority, Role::DataBlock)
        .expect("the limit is not strict, or it fits")
        .handle
}

/// Waits until no memory waits for guards, some of which belong to other tests.
fn settle(cache: &Cache<u64>) {
    while cache.deferred_free_usage() > 0 {
        epoch::collect();
        std::thread::yield_now();
    }
}

fn get(cache: &Cache<u64>, i: u64) -> Option<u64> {
    cache.lookup(&key(i)).as_deref().copied()
}

#[test]
fn inserted_entries_are_found_while_there_is_room() {
    for cache_type in TYPES {
        let cache = Cache::new(&options(cache_type, 100_000)).unwrap();
        (0..100_000).for_each(|i| drop(put(&cache, i, 1, CachePriority::Low)));
        let found = (0..100_000).filter(|&i| get(&cache, i) == Some(i)).count();
        let crowded = cache.crowded_count();
        assert_eq!(found + crowded, 100_000, "each crowded insert displaced another entry");
        assert!(crowded <= 300, "{crowded} in {cache_type:?}");
        assert_eq!(cache.occupancy_count(), found);
        assert_eq!(cache.usage(), found);
        assert!(cache.table_address_count() < 100_000 * 32 / 10);
    }
}

#[test]
fn unused_entries_are_evicted_and_usage_never_exceeds_the_capacity() {
    for cache_type in TYPES {
        let cache = Cache::new(&options(cache_type, 1000)).unwrap();
        for i in 0..20_000 {
            put(&cache, i, 1, CachePriority::Low);
            assert!(cache.usage() <= 1000);
            // Ten keys are looked up all the time, each often enough to stay.
            get(&cache, i % 10);
        }
        let hot = (0..10).filter(|&i| get(&cache, i).is_some()).count();
        assert_eq!(hot, 10);
        assert!(cache.occupancy_count() > 950, "{}", cache.occupancy_count());
    }
}

#[test]
fn a_large_cache_makes_room_for_a_few_more_and_no_other_does() {
    for cache_type in TYPES {
        for (capacity, spare) in [(1 << 20, 3 * 300), (10_000, 0)] {
            let cache = Cache::new(&options(cache_type, capacity)).unwrap();
            let mut least = usize::MAX;
            for i in 0..3 * capacity as u64 / 300 {
                put(&cache, i, 300, CachePriority::Low);
                assert!(cache.usage() <= capacity);
                if i > 2 * capacity as u64 / 300 {
                    least = least.min(cache.usage());
                }
            }
            // An eviction frees up to one entry more than needed, because entries are evicted
            // whole.
            assert!(least + spare + 2 * 300 >= capacity, "{least} of {capacity}");
            assert_eq!(cache.usage(), 300 * cache.occupancy_count(), "{cache_type:?}");
            settle(&cache);
        }
    }
}

/// Compares, when it is dropped, the living bytes with the cache's charge.
struct Witness(Arc<Watched>);

#[derive(Default)]
struct Watched {
    cache: std::sync::OnceLock<Cache<Witness>>,
    gone: AtomicUsize,
    /// The largest excess of the charge over the living bytes.
    worst: AtomicUsize,
}

impl Drop for Witness {
    fn drop(&mut self) {
        let gone = self.0.gone.fetch_add(1, Ordering::Relaxed) + 1;
        let usage = self.0.cache.get().map_or(0, |cache| cache.usage());
        self.0.worst.fetch_max((usage + gone).saturating_sub(20_000), Ordering::Relaxed);
    }
}

#[test]
fn a_long_sweep_reports_what_it_has_taken_so_far() {
    let watched = Arc::new(Watched::default());
    let cache = watched.cache.get_or_init(|| {
        Cache::new(&options(CacheType::FixedHyperClock { estimated_entry_charge: 1 }, 30_000)).unwrap()
    });
    for i in 0..20_000 {
        let value = Witness(Arc::clone(&watched));
        drop(cache.insert(key(i), value, 1, CachePriority::Low, Role::DataBlock));
    }
    let crowded = 20_000 - cache.usage();
    watched.worst.store(0, Ordering::Relaxed);
    cache.set_capacity(1000);
    assert_eq!(cache.usage(), 1000);
    // A concurrent insert would evict as much again.
    let worst = watched.worst.load(Ordering::Relaxed);
    assert!(worst <= 64, "{worst} of {}", 19_000 - crowded);
    // Entries left in the cache keep it alive.
    cache.set_capacity(0);
}

#[test]
fn threads_that_have_evicted_and_wait_do_not_keep_new_entries_out() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 20_000)).unwrap();
    let come_in = |keys: std::ops::Range<u64>| keys.map(|i| put(&cache, i, 1, CachePriority::Low));
    assert_eq!(come_in(0..20_000).count(), 20_000);
    let end = std::sync::RwLock::new(());
    let waiting = std::thread::scope(|scope| {
        let not_yet = end.write().unwrap();
        for thread in 0..200 {
            let (done, is_done) = std::sync::mpsc::channel();
            let (end, first) = (&end, 20_000 + 60 * thread);
            scope.spawn(move || {
                assert_eq!(come_in(first..first + 60).count(), 60);
                done.send(()).unwrap();
                drop(end.read());
            });
            is_done.recv().unwrap();
        }
        // Waits until their retired values are freed, for any lifetime of the guards of other
        // tests.
        assert!(epoch::settle(u32::MAX, std::thread::yield_now));
        let waiting = cache.deferred_free_usage();
        drop(not_yet);
        waiting
    });
    // Beyond 256 KiB of waiting memory no value is inserted.
    assert!(waiting < 160 << 10, "{waiting}");
}

#[test]
fn held_entries_stay_and_are_charged_until_their_release() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 10)).unwrap();
    let held: Vec<_> = (0..10).map(|i| put(&cache, i, 1, CachePriority::Low)).collect();
    assert_eq!((cache.usage(), cache.pinned_usage()), (10, 10));
    let more = put(&cache, 10, 1, CachePriority::Low);
    assert_eq!((cache.usage(), cache.pinned_usage()), (11, 11), "the value is served, over capacity");
    assert!((0..=10).all(|i| get(&cache, i) == Some(i)));
    assert!(cache.erase(&key(3)) && !cache.erase(&key(3)));
    assert_eq!((cache.usage(), cache.pinned_usage(), get(&cache, 3)), (11, 11, None));
    assert!(!Handle::is_in_cache(&held[3]) && Handle::is_in_cache(&held[4]));
    drop((held, more));
    assert_eq!((cache.usage(), cache.pinned_usage()), (10, 0), "the erased value was freed with its handle");
    put(&cache, 11, 5, CachePriority::Low);
    assert!(cache.usage() <= 10);
    cache.erase_unreferenced();
    assert_eq!((cache.usage(), cache.occupancy_count()), (0, 0));
    settle(&cache);
    assert_eq!(cache.role_stats().entries(Role::DataBlock), 0);
}

#[test]
fn a_strict_limit_refuses_and_gives_the_value_back() {
    for cache_type in [TYPES[0], TYPES[1], CacheType::Lru] {
        let strict =
            CacheOptions { strict_capacity_limit: true, num_shard_bits: 0, ..options(cache_type, 2) };
        let cache = Arc::new(Cache::new(&strict).unwrap());
        let held: Vec<_> = (0..2).map(|i| put(&cache, i, 1, CachePriority::Low)).collect();
        let refused = cache.insert(key(2), 7, 1, CachePriority::High, Role::Misc).unwrap_err();
        assert_eq!((refused.value, refused.error.kind()), (7, ErrorKind::Aborted));
        assert_eq!(refused.error.subcode(), SubCode::MemoryLimit);
        assert!(cache.create_standalone(key(2), 7, 1, Role::Misc).is_err());
        assert!(cache.reserve(Role::WriteBuffer, 1).is_err());
        assert_eq!(cache.usage(), 2);
        drop(held);
        let alone = cache.create_standalone(key(2), 7, 1, Role::Misc).unwrap();
        assert_eq!((*alone, get(&cache, 2), cache.usage() <= 2), (7, None, true));
        let reserved = cache.reserve(Role::WriteBuffer, 1).unwrap();
        assert_eq!((cache.usage(), cache.occupancy_count()), (2, 0));
        drop((alone, reserved));
        assert_eq!(cache.usage(), 0);
        cache.set_strict_capacity_limit(false);
        let held: Vec<_> = (0..5).map(|i| put(&cache, i, 1, CachePriority::Low)).collect();
        assert_eq!(cache.usage(), 5);
        drop(held);
        put(&cache, 9, 1, CachePriority::Low);
        assert!(cache.usage() <= 2, "the usage falls again");
    }
}

#[test]
fn nothing_is_kept_without_capacity_or_beyond_it() {
    for cache_type in [TYPES[0], TYPES[1], CacheType::Lru] {
        let cache = Cache::new(&options(cache_type, 0)).unwrap();
        let inserted = cache.insert(key(1), 1, 5, CachePriority::High, Role::Misc).unwrap();
        assert_eq!((inserted.outcome, *inserted.handle, cache.usage()), (InsertOutcome::Detached, 1, 5));
        drop(inserted);
        assert_eq!((get(&cache, 1), cache.usage()), (None, 0));
        cache.set_capacity(10);
        drop(put(&cache, 1, 5, CachePriority::Low));
        drop(put(&cache, 2, 11, CachePriority::Low));
        assert_eq!((get(&cache, 1), get(&cache, 2), cache.usage()), (Some(1), None, 5));
        cache.set_capacity(4);
        assert_eq!((get(&cache, 1), cache.usage()), (None, 0));
    }
}

#[test]
fn the_key_decides_which_of_two_values_stays() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 10)).unwrap();
    drop(put(&cache, 1, 1, CachePriority::Low));
    let second = cache.insert(key(1), 2, 1, CachePriority::Low, Role::Misc).unwrap();
    assert_eq!((second.outcome, *second.handle), (InsertOutcome::Found, 1));
    drop(second);
    assert_eq!((get(&cache, 1), cache.usage(), cache.occupancy_count()), (Some(1), 1, 1));
}

#[test]
fn readers_under_a_guard_keep_what_they_read() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 100)).unwrap();
    drop(cache.insert(key(1), vec![7_u8; 100], 100, CachePriority::Low, Role::Misc).unwrap());
    let guard = epoch::pin();
    let value = cache.lookup_under(&key(1), &guard).unwrap();
    assert!(matches!(value, crate::Guarded::Borrowed(_)));
    drop(value.hold().expect("the value is in the cache"));
    assert!(cache.erase(&key(1)));
    assert!(value.hold().is_none(), "an evicted value cannot be held again");
    assert_eq!((cache.usage(), cache.deferred_free_usage()), (0, 100));
    drop(cache);
    assert!(value.iter().all(|&byte| byte == 7), "the value outlives the cache");
}

/// A thread that sleeps under a guard delays only memory that it may have read.
#[test]
fn an_unread_value_is_freed_at_once_under_any_guard() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 300)).unwrap();
    let values: Vec<Arc<()>> = (0..4).map(|_| Arc::new(())).collect();
    let insert = |i: usize| {
        cache.insert(key(i as u64), values[i].clone(), 100, CachePriority::Low, Role::Misc).unwrap().handle
    };
    let guard = epoch::pin();
    (0..2).for_each(|i| drop(insert(i)));
    let read = cache.lookup_under(&key(0), &guard).unwrap();
    drop(cache.lookup(&key(1)));
    let held = insert(2);
    for i in 0..3 {
        assert!(cache.erase(&key(i)));
    }
    let alive = || values.iter().map(|value| Arc::strong_count(value) - 1).collect::<Vec<_>>();
    assert_eq!(alive(), [1, 0, 1, 0], "one value is being read, one is held");
    drop(held);
    assert_eq!(alive(), [1, 0, 0, 0]);
    assert_eq!(
        (Arc::strong_count(&read), cache.deferred_free_usage()),
        (2, 100 + 2 * crate::entry::CacheEntry::<Arc<()>>::OVERHEAD_BYTES)
    );
    drop(insert(3));
    cache.set_capacity(0);
    assert_eq!(alive(), [1, 0, 0, 0], "evicted and erased values are freed alike");
}

#[test]
fn a_value_held_from_a_guard_outlives_the_guard() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 100)).unwrap();
    drop(cache.insert(key(1), 7, 100, CachePriority::Low, Role::Misc).unwrap());
    let held = cache.lookup_under(&key(1), &epoch::pin()).unwrap().hold().unwrap();
    assert!(cache.erase(&key(1)));
    epoch::collect();
    assert_eq!((*held, cache.usage()), (7, 100));
    drop(held);
    assert_eq!(cache.usage(), 0);
}

#[test]
fn a_useless_lookup_leaves_no_trace() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 3)).unwrap();
    for i in 0..3 {
        put(&cache, i, 1, CachePriority::Bottom);
    }
    for _ in 0..3 {
        cache.release(cache.lookup(&key(0)).unwrap(), false);
        cache.release(cache.lookup(&key(1)).unwrap(), true);
    }
    // Two of the three have a clock of zero, and are evicted before the third.
    put(&cache, 3, 2, CachePriority::Low);
    assert_eq!((get(&cache, 0), get(&cache, 1), get(&cache, 2)), (None, Some(1), None));
}

#[test]
fn values_found_by_lookup_last_go_first() {
    let capacity = 100_000;
    let cache = Cache::<u64>::new(&options(CacheType::AutoHyperClock, capacity)).unwrap();
    let all = capacity as u64 / 1000;
    for i in 0..all {
        drop(put(&cache, i, 1000, CachePriority::Low));
        assert_eq!(get(&cache, i), Some(i));
        assert_eq!(get(&cache, i), Some(i));
    }
    let is_last = |i: &u64| i.is_multiple_of(4);
    for i in (0..all).filter(is_last) {
        assert_eq!(cache.lookup_last(&key(i)).as_deref(), Some(&i));
    }
    for i in all..all + all / 8 {
        drop(put(&cache, i, 1000, CachePriority::High));
    }
    let (last, others): (Vec<u64>, Vec<u64>) = (0..all).partition(is_last);
    let left = |of: &[u64]| of.iter().filter(|&&i| cache.contains(&key(i))).count();
    assert!(left(&others) + 2 >= others.len(), "{} of {}", left(&others), others.len());
    assert!(left(&last) <= last.len() * 2 / 3, "{} of {}", left(&last), last.len());
}

#[test]
fn a_scan_does_not_push_out_what_comes_back() {
    let cache = Cache::new(&options(CacheType::AutoHyperClock, 1000)).unwrap();
    let mut rng = Rng::new(1);
    let mut use_hot = |count: usize| {
        let mut hits = 0;
        for _ in 0..count {
            let i = rng.below(800);
            if get(&cache, i).is_some() { hits += 1 } else { drop(put(&cache, i, 1, CachePriority::Low)) }
        }
        hits
    };
    use_hot(20_000);
    let before = use_hot(5000);
    for i in 0..30_000_u64 {
        drop(put(&cache, 1_000_000 + i, 1, CachePriority::Low));
        use_hot(1);
    }
    let after = use_hot(5000);
    assert!(after * 100 >= before * 95, "{before} hits of 5000 before the scan, {after} after");
}

#[test]
fn the_callback_sees_what_is_evicted_and_may_keep_it() {
    let kept = Arc::new(esker_base::sync::Mutex::new(Vec::new()));
    for cache_type in [TYPES[0], TYPES[1], CacheType::Lru] {
        let sink = Arc::clone(&kept);
        let callback = Box::new(move |evicted: crate::Evicted<u64>| sink.lock().push(evicted));
        let cache = Cache::with_eviction_callback(
            &CacheOptions { num_shard_bits: 0, ..options(cache_type, 4) },
            callback,
        )
        .unwrap();
        (0..4).for_each(|i| drop(put(&cache, i, 1, CachePriority::Bottom)));
        get(&cache, 2);
        cache.erase(&key(3));
        drop(put(&cache, 4, 4, CachePriority::Low));
        let mut evicted: Vec<_> = kept.lock().drain(..).collect();
        evicted.sort_by_key(|e| *e.value);
        let seen: Vec<_> = evicted.iter().map(|e| (*e.value, e.was_hit)).collect();
        assert_eq!(seen, [(0, false), (1, false), (2, true)], "{cache_type:?}");
        assert_eq!((cache.usage(), cache.pinned_usage()), (7, 3), "kept values are charged");
        drop(evicted);
        assert_eq!(cache.usage(), 4);
    }
}

#[test]
fn a_hit_of_an_entry_of_any_priority_is_known_at_its_eviction() {
    let kept = Arc::new(esker_base::sync::Mutex::new(Vec::new()));
    for cache_type in [TYPES[0], TYPES[1], CacheType::Lru] {
        for priority in [CachePriority::High, CachePriority::Low, CachePriority::Bottom] {
            let sink = Arc::clone(&kept);
            let callback = Box::new(move |evicted: crate::Evicted<u64>| {
                sink.lock().push((*evicted.value, evicted.was_hit))
            });
            let options = CacheOptions { num_shard_bits: 0, ..options(cache_type, 2) };
            let cache = Cache::with_eviction_callback(&options, callback).unwrap();
            (0..2).for_each(|i| drop(put(&cache, i, 1, priority)));
            get(&cache, 1);
            drop(put(&cache, 2, 2, priority));
            let mut evicted: Vec<_> = kept.lock().drain(..).collect();
            evicted.sort_unstable();
            assert_eq!(evicted, [(0, false), (1, true)], "{cache_type:?}, {priority:?}");
        }
    }
}

#[test]
fn counts_by_role_follow() {
    for cache_type in [TYPES[0], CacheType::Lru] {
        let cache = Arc::new(Cache::new(&options(cache_type, 1000)).unwrap());
        cache.insert(key(1), 1, 10, CachePriority::Low, Role::DataBlock).unwrap();
        cache.insert(key(2), 2, 20, CachePriority::High, Role::FilterBlock).unwrap();
        let mut reserved = cache.reserve(Role::WriteBuffer, 100).unwrap();
        reserved.resize(70).unwrap();
        let counts = |role| (cache.role_stats().entries(role), cache.role_stats().bytes(role));
        assert_eq!(counts(Role::DataBlock), (1, 10));
        assert_eq!(counts(Role::FilterBlock), (1, 20));
        assert_eq!(counts(Role::WriteBuffer), (1, 70));
        assert_eq!(cache.usage(), 100);
        let mut seen = Vec::new();
        cache.apply_to_all(|e| seen.push((*e.value, e.charge, e.role, e.priority)));
        seen.sort_by_key(|e| e.0);
        assert_eq!(
            seen,
            [(1, 10, Role::DataBlock, CachePriority::Low), (2, 20, Role::FilterBlock, CachePriority::High)]
        );
        reserved.resize(995).unwrap();
        assert!(cache.usage() <= 1000, "values made room");
        drop(reserved);
        cache.erase(&key(1));
        cache.erase(&key(2));
        settle(&cache);
        assert_eq!((counts(Role::DataBlock), counts(Role::WriteBuffer), cache.usage()), ((0, 0), (0, 0), 0));
    }
}

#[test]
fn metadata_are_at_most_a_hundred_bytes_an_entry_and_all_charged() {
    for cache_type in [
        CacheType::AutoHyperClock,
        CacheType::FixedHyperClock { estimated_entry_charge: 100 },
        CacheType::Lru,
    ] {
        let charged = CacheOptions {
            metadata_charge_policy: MetadataChargePolicy::FullChargeCacheMetadata,
            ..options(cache_type, 10 << 20)
        };
        let cache = Cache::new(&charged).unwrap();
        // The table grows from half full to full, through all states of growth by doubling.
        for i in 0..55_000 {
            drop(put(&cache, i, 100, CachePriority::Low));
            if i % 500 == 0 && i > 27_000 || cache_type == CacheType::AutoHyperClock && i > 1000 {
                let count = cache.occupancy_count();
                let overhead = (cache.usage() - count * 100) as f64 / count as f64;
                assert!(overhead <= 100.0, "{overhead} bytes with {count} entries: {cache_type:?}");
            }
        }
    }
}

#[test]
fn one_of_many_misses_loads() {
    let cache = Arc::new(Cache::new(&options(CacheType::AutoHyperClock, 100)).unwrap());
    let loads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let load = || {
                    loads.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>((5, 1))
                };
                let handle = cache.lookup_or_load(key(1), CachePriority::Low, Role::Misc, load, |_| ());
                assert_eq!(*handle.unwrap(), 5);
            });
        }
    });
    assert_eq!(loads.load(Ordering::Relaxed), 1);
    let failed = cache.lookup_or_load(key(2), CachePriority::Low, Role::Misc, || Err("no"), |_| "full");
    assert_eq!(failed.err(), Some("no"), "the next caller may try to load");
    assert!(
        cache.lookup_or_load(key(2), CachePriority::Low, Role::Misc, || Ok::<_, ()>((1, 1)), |_| ()).is_ok()
    );
}

/// Keeps reference counts beside the cache: the existing values, their holders, their charges.
#[test]
fn random_operations_agree_with_a_map_with_reference_counts() {
    for seed in 0..15 {
        let mut rng = Rng::new(seed);
        let capacity = rng.between(50, 2000) as usize;
        let cache_type = [TYPES[0], TYPES[1], CacheType::Lru][rng.index(3)];
        let cache = Cache::new(&CacheOptions { num_shard_bits: 0, ..options(cache_type, capacity) }).unwrap();
        let mut held: Vec<Handle<u64>> = Vec::new();
        let mut outside: HashMap<*const u64, usize> = HashMap::new();
        for step in 0..1000 {
            let i = rng.below(150);
            match rng.below(20) {
                0..8 => {
                    let charge = rng.between(1, 20) as usize;
                    let handle = put(&cache, i, charge, CachePriority::Low);
                    assert_eq!(*handle, i);
                    if rng.below(4) == 0 {
                        held.push(handle);
                    }
                }
                8..15 => {
                    if let Some(handle) = cache.lookup(&key(i)) {
                        assert_eq!(*handle, i);
                        if rng.below(4) == 0 {
                            held.push(handle);
                        }
                    }
                }
                15 => _ = cache.erase(&key(i)),
                16 => cache.set_capacity(rng.between(50, 2000) as usize),
                _ if !held.is_empty() => drop(held.swap_remove(rng.index(held.len()))),
                _ => {}
            }
            outside.clear();
            outside.extend(
                held.iter().filter(|h| !Handle::is_in_cache(h)).map(|h| (&raw const **h, Handle::charge(h))),
            );
            let (mut inside, mut count) = (0, 0);
            cache.apply_to_all(|e| {
                inside += e.charge;
                count += 1;
            });
            assert_eq!(count, cache.occupancy_count(), "seed {seed}, step {step}");
            assert_eq!(
                cache.usage(),
                inside + outside.values().sum::<usize>(),
                "seed {seed}, step {step}, {cache_type:?}"
            );
        }
        drop(held);
        cache.erase_unreferenced();
        settle(&cache);
        assert_eq!((cache.usage(), cache.occupancy_count()), (0, 0));
    }
}
