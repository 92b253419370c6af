use super::*;
use crate::cache::Cache;
use crate::contract::{CachePriority, CacheType};
use crate::role::Role;
use esker_base::rng::Rng;
use esker_base::{ErrorKind, SubCode};
use std::sync::atomic::AtomicUsize as Counter;
use std::sync::atomic::Ordering;

fn key(i: u64) -> CacheKey {
    CacheKey::new((1, 2), i)
}

/// Options with one shard, no charge for metadata, and no pools.
fn options(capacity: usize) -> CacheOptions {
    CacheOptions {
        cache_type: CacheType::Lru,
        capacity,
        num_shard_bits: 0,
        high_pri_pool_ratio: 0.0,
        metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
        ..CacheOptions::default()
    }
}

fn lru(options: &CacheOptions) -> LruCache<u64> {
    LruCache::new(options, None).unwrap()
}

/// Puts a value in under the key of `i`.
fn insert(
    cache: &LruCache<u64>,
    i: u64,
    value: u64,
    charge: usize,
    priority: CachePriority,
) -> Result<Handle<u64>> {
    let about = About { key: key(i), charge, role: Role::Misc, priority };
    cache.insert(about, value).map(|i| i.handle).map_err(|r| r.error)
}

fn put(cache: &LruCache<u64>, i: u64, priority: CachePriority) {
    insert(cache, i, i, 1, priority).unwrap();
    cache.check();
}

fn order(cache: &LruCache<u64>) -> Vec<u64> {
    let keys: Vec<CacheKey> = cache.shards.iter().flat_map(|s| s.lock().order()).collect();
    keys.iter().map(|k| (0..1000).find(|&i| key(i) == *k).unwrap()).collect()
}

#[test]
fn the_least_recently_used_goes_first() {
    let cache = lru(&options(3));
    (0..3).for_each(|i| put(&cache, i, CachePriority::Low));
    assert_eq!(order(&cache), [0, 1, 2]);
    assert_eq!(cache.lookup(&key(0)).as_deref(), Some(&0));
    put(&cache, 3, CachePriority::Low);
    assert_eq!(order(&cache), [2, 0, 3]);
    assert!(cache.lookup(&key(1)).is_none());
    assert_eq!((cache.ledger().usage(), cache.occupancy_count()), (3, 3));
    assert!(cache.erase(&key(0)) && !cache.erase(&key(0)));
    assert_eq!(order(&cache), [2, 3]);
    cache.check();
}

#[test]
fn a_value_found_by_lookup_last_goes_first() {
    for high_pri_pool_ratio in [0.0, 0.5] {
        let cache = lru(&CacheOptions { high_pri_pool_ratio, ..options(4) });
        (0..4).for_each(|i| put(&cache, i, CachePriority::Low));
        for i in [2, 0, 2] {
            cache.lookup(&key(i)).unwrap();
        }
        assert_eq!(cache.lookup_last(&key(2)).as_deref(), Some(&2));
        cache.check();
        assert_eq!(order(&cache)[0], 2);
        assert!(cache.lookup_last(&key(9)).is_none());
        put(&cache, 4, CachePriority::Low);
        assert!(cache.lookup(&key(2)).is_none() && cache.lookup(&key(0)).is_some());
        cache.lookup_last(&key(4)).unwrap();
        cache.lookup(&key(4)).unwrap();
        cache.check();
        assert_ne!(order(&cache)[0], 4, "a use counts again");
    }
}

#[test]
fn pools_keep_what_is_dear_or_was_hit() {
    let cache = lru(&CacheOptions { high_pri_pool_ratio: 0.4, low_pri_pool_ratio: 0.4, ..options(5) });
    put(&cache, 0, CachePriority::Bottom);
    put(&cache, 1, CachePriority::Low);
    put(&cache, 2, CachePriority::High);
    put(&cache, 3, CachePriority::High);
    assert_eq!(order(&cache), [0, 1, 2, 3]);
    put(&cache, 4, CachePriority::High);
    assert_eq!(order(&cache), [0, 1, 2, 3, 4], "entry 2 was moved to the low pool");
    cache.lookup(&key(0));
    assert_eq!(
        order(&cache),
        [1, 2, 3, 4, 0],
        "a hit goes up to the high pool, 3 down, 1 down to the bottom"
    );
    put(&cache, 5, CachePriority::Bottom);
    assert_eq!(order(&cache), [5, 2, 3, 4, 0], "entry 1 was evicted");
    put(&cache, 6, CachePriority::Bottom);
    assert_eq!(order(&cache), [6, 2, 3, 4, 0]);
    cache.set_capacity(2);
    cache.check();
    assert_eq!(order(&cache), [4, 0]);
}

#[test]
fn entries_in_use_stay() {
    let cache = lru(&options(2));
    let held = insert(&cache, 0, 0, 1, CachePriority::Low).unwrap();
    (1..10).for_each(|i| put(&cache, i, CachePriority::Low));
    assert!(cache.lookup(&key(0)).is_some());
    assert_eq!((cache.ledger().usage(), cache.pinned_usage()), (2, 1));
    let also_held = cache.lookup(&key(9)).unwrap();
    put(&cache, 10, CachePriority::Low);
    assert_eq!((cache.ledger().usage(), cache.pinned_usage()), (3, 2), "values in use exceed the capacity");
    drop((held, also_held));
    put(&cache, 11, CachePriority::Low);
    assert_eq!((cache.ledger().usage(), cache.pinned_usage()), (2, 0));
    let held = cache.lookup(&key(11)).unwrap();
    cache.erase_unreferenced();
    assert_eq!(order(&cache), [11]);
    assert!(cache.erase(&key(11)));
    assert!(cache.lookup(&key(11)).is_none());
    assert_eq!(
        (*held, cache.ledger().usage()),
        (11, 1),
        "the value is erased at once, and charged while it is held"
    );
    assert_eq!((cache.pinned_usage(), cache.occupancy_count()), (1, 0));
    drop(held);
    assert_eq!((cache.ledger().usage(), cache.pinned_usage()), (0, 0));
}

#[test]
fn a_strict_limit_refuses() {
    let cache = lru(&CacheOptions { strict_capacity_limit: true, ..options(2) });
    let held: Vec<_> = (0..2).map(|i| insert(&cache, i, i, 1, CachePriority::Low).unwrap()).collect();
    let error = insert(&cache, 2, 2, 1, CachePriority::High).unwrap_err();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    assert_eq!(cache.ledger().usage(), 2);
    cache.ledger().set_strict(false);
    insert(&cache, 2, 2, 1, CachePriority::High).unwrap();
    cache.ledger().set_strict(true);
    assert!(cache.ledger().is_strict());
    drop(held);
    insert(&cache, 3, 3, 1, CachePriority::Low).unwrap();
    assert!(insert(&cache, 4, 4, 3, CachePriority::Low).is_err(), "the value exceeds the capacity");
    assert!(cache.ledger().usage() <= 2);
    cache.check();
}

#[test]
fn an_entry_larger_than_the_cache_is_returned_but_not_kept() {
    let cache = lru(&options(10));
    put(&cache, 0, CachePriority::Low);
    assert_eq!(*insert(&cache, 1, 1, 11, CachePriority::High).unwrap(), 1);
    assert_eq!(order(&cache), [0]);
    let nothing = lru(&options(0));
    assert_eq!(*insert(&nothing, 1, 1, 1, CachePriority::High).unwrap(), 1);
    assert_eq!((nothing.ledger().usage(), nothing.lookup(&key(1))), (0, None));
}

#[test]
fn the_same_key_replaces() {
    let cache = lru(&options(10));
    let old = insert(&cache, 0, 1, 4, CachePriority::Low).unwrap();
    insert(&cache, 0, 2, 3, CachePriority::Low).unwrap();
    assert_eq!((*old, cache.lookup(&key(0)).as_deref()), (1, Some(&2)));
    assert_eq!((cache.ledger().usage(), cache.occupancy_count()), (7, 1));
    drop(old);
    assert_eq!((cache.ledger().usage(), cache.occupancy_count()), (3, 1));
    cache.check();
}

#[test]
fn metadata_are_charged_on_request() {
    let cache = lru(&CacheOptions {
        metadata_charge_policy: MetadataChargePolicy::FullChargeCacheMetadata,
        ..options(1000)
    });
    put(&cache, 0, CachePriority::High);
    let overhead = cache.ledger().usage() - 1;
    assert!((60..=100).contains(&overhead), "{overhead}");
    let mut seen = Vec::new();
    cache.visit(&mut |e| seen.push((*e.key, *e.value, e.charge, e.priority)));
    assert_eq!(seen, [(key(0), 0, 1, CachePriority::High)]);
}

#[test]
fn shards_by_capacity() {
    let bits = [0, 512 << 10, 1 << 20, 8 << 20, 32 << 20, 1 << 40].map(default_shard_bits);
    assert_eq!(bits, [0, 0, 1, 4, 6, 6]);
    for bad in [
        CacheOptions { num_shard_bits: 20, ..options(1) },
        CacheOptions { high_pri_pool_ratio: 1.1, ..options(1) },
        CacheOptions { high_pri_pool_ratio: 0.6, low_pri_pool_ratio: 0.6, ..options(1) },
        CacheOptions { low_pri_pool_ratio: f64::NAN, ..options(1) },
    ] {
        assert_eq!(LruCache::<u64>::new(&bad, None).err().unwrap().kind(), ErrorKind::InvalidArgument);
    }
}

/// A cache whose values use it when dropped.
#[derive(Debug)]
struct Nosy(Option<std::sync::Weak<Cache<Nosy>>>);

static NOSY_DROPS: Counter = Counter::new(0);

impl Drop for Nosy {
    fn drop(&mut self) {
        NOSY_DROPS.fetch_add(1, Ordering::Relaxed);
        if let Some(cache) = self.0.take().and_then(|c| c.upgrade()) {
            cache.lookup(&key(0));
            cache.usage();
        }
    }
}

#[test]
fn values_are_dropped_outside_the_locks() {
    let cache = Arc::new(Cache::<Nosy>::new(&options(2)).unwrap());
    for i in 0..20 {
        let value = Nosy(Some(Arc::downgrade(&cache)));
        cache.insert(key(i % 7), value, 1 + (i % 3) as usize, CachePriority::Low, Role::Misc).unwrap();
        cache.erase(&key(i % 5));
    }
    cache.set_capacity(1);
    cache.erase_unreferenced();
    assert_eq!(NOSY_DROPS.load(Ordering::Relaxed), 20);
}

/// The rules of one shard, without any cleverness: entries from the first to be evicted to the
/// last.
struct Model {
    entries: Vec<(u64, usize, CachePriority, bool, Pool)>,
    capacity: usize,
    shares: [usize; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    Bottom,
    Low,
    High,
}

impl Model {
    fn place(&mut self, i: u64, charge: usize, priority: CachePriority, hit: bool) {
        let pool = match priority {
            _ if hit => Pool::High,
            CachePriority::High => Pool::High,
            CachePriority::Low => Pool::Low,
            CachePriority::Bottom => Pool::Bottom,
        };
        let at = self.entries.iter().position(|e| e.4 > pool).unwrap_or(self.entries.len());
        self.entries.insert(at, (i, charge, priority, hit, pool));
        for (pool, share, lower) in
            [(Pool::High, self.shares[0], Pool::Low), (Pool::Low, self.shares[1], Pool::Bottom)]
        {
            while self.entries.iter().filter(|e| e.4 == pool).map(|e| e.1).sum::<usize>() > share {
                let oldest = self.entries.iter_mut().find(|e| e.4 == pool).unwrap();
                oldest.4 = lower;
            }
        }
    }

    fn take(&mut self, i: u64) -> Option<(usize, CachePriority)> {
        let at = self.entries.iter().position(|e| e.0 == i)?;
        let (_, charge, priority, _, _) = self.entries.remove(at);
        Some((charge, priority))
    }

    fn insert(&mut self, i: u64, charge: usize, priority: CachePriority) {
        self.take(i);
        if charge <= self.capacity {
            while self.entries.iter().map(|e| e.1).sum::<usize>() + charge > self.capacity {
                self.entries.remove(0);
            }
            self.place(i, charge, priority, false);
        }
    }
}

#[test]
fn random_operations_agree_with_the_model() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let capacity = rng.between(1, 200) as usize;
        let cache =
            lru(&CacheOptions { high_pri_pool_ratio: 0.5, low_pri_pool_ratio: 0.25, ..options(capacity) });
        let shares = [capacity / 2, capacity / 4];
        let mut model = Model { entries: Vec::new(), capacity, shares };
        for step in 0..1000 {
            let i = rng.below(60);
            match rng.below(10) {
                0..=3 => {
                    let priority =
                        [CachePriority::Bottom, CachePriority::Low, CachePriority::High][rng.index(3)];
                    let charge = rng.below(20) as usize;
                    insert(&cache, i, i, charge, priority).unwrap();
                    model.insert(i, charge, priority);
                }
                4..=8 => {
                    let taken = model.take(i);
                    assert_eq!(cache.lookup(&key(i)).as_deref().copied(), taken.map(|_| i), "{seed} {step}");
                    if let Some((charge, priority)) = taken {
                        model.place(i, charge, priority, true);
                    }
                }
                _ => assert_eq!(cache.erase(&key(i)), model.take(i).is_some(), "{seed} {step}"),
            }
            cache.check();
            let expected: Vec<u64> = model.entries.iter().map(|e| e.0).collect();
            assert_eq!(order(&cache), expected, "seed {seed}, step {step}");
        }
    }
}

#[test]
fn a_strict_limit_refuses_only_what_is_held_leaves_no_room_for() {
    let cache = lru(&CacheOptions { strict_capacity_limit: true, num_shard_bits: 2, ..options(400) });
    // Outside of all shards, which have room for the whole capacity together.
    let about = About { key: key(999), charge: 300, role: Role::Misc, priority: CachePriority::Low };
    let outside = cache.standalone(about, 999).unwrap_or_else(|refused| panic!("{}", refused.error));
    for i in 0..200 {
        insert(&cache, i, i, 10, CachePriority::Low).unwrap_or_else(|e| panic!("value {i}: {e}"));
        assert!(cache.ledger().usage() <= 400);
    }
    let held: Vec<_> = (200..210).map(|i| insert(&cache, i, i, 10, CachePriority::Low).unwrap()).collect();
    assert_eq!(insert(&cache, 210, 210, 10, CachePriority::Low).unwrap_err().subcode(), SubCode::MemoryLimit);
    drop((held, outside));
    insert(&cache, 211, 211, 10, CachePriority::Low).unwrap();
    cache.check();
}
