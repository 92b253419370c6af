use esker_base::rng::Rng;
use esker_base::sync::epoch;
use esker_cache::{
    Cache, CacheKey, CacheOptions, CachePriority, CacheType, Handle, MetadataChargePolicy, Role,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

const THREADS: u64 = 20;
const KEYS: u64 = 500;
const CHARGE: usize = 1000;

/// A value that stores its key, and counts living values.
struct Value {
    /// `GONE` when it is dropped: a reader that sees it has read too late.
    key: AtomicU64,
    alive: Arc<AtomicUsize>,
}

const GONE: u64 = u64::MAX;

impl Value {
    fn new(key: u64, alive: &Arc<AtomicUsize>) -> Value {
        alive.fetch_add(1, Ordering::Relaxed);
        Value { key: AtomicU64::new(key), alive: Arc::clone(alive) }
    }

    fn key(&self) -> u64 {
        self.key.load(Ordering::Relaxed)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.key.store(GONE, Ordering::Relaxed);
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

fn key(i: u64) -> CacheKey {
    CacheKey::new((7, i / 16), 4096 * (i % 16))
}

fn work(cache: &Cache<Value>, alive: &Arc<AtomicUsize>, seed: u64, steps: usize) {
    let mut rng = Rng::new(seed);
    let mut held: Vec<Handle<Value>> = Vec::new();
    for _ in 0..steps {
        let i = rng.below(KEYS);
        match rng.below(100) {
            0..=29 => {
                if let Some(value) = cache.lookup(&key(i)) {
                    assert_eq!(value.key(), i, "seed {seed}: another key's value");
                    held.push(value);
                }
            }
            30..=59 => {
                let guard = epoch::pin();
                let values: Vec<_> = (i..i + 4).map(|i| (i, cache.lookup_under(&key(i), &guard))).collect();
                for (i, value) in values {
                    assert!(value.is_none_or(|v| v.key() == i), "seed {seed}: another key's value");
                }
            }
            60..=94 => {
                let priority = [CachePriority::Bottom, CachePriority::Low, CachePriority::High][rng.index(3)];
                // Refused when the limit is strict and all is in use.
                let inserted = cache.insert(key(i), Value::new(i, alive), CHARGE, priority, Role::DataBlock);
                if let Ok(inserted) = inserted {
                    assert_eq!(inserted.handle.key(), i);
                    held.push(inserted.handle);
                }
            }
            95..=97 => {
                cache.erase(&key(i));
            }
            98 => cache.set_capacity(rng.between(50, 150) as usize * CHARGE),
            _ => match rng.below(20) {
                0 => cache.erase_unreferenced(),
                1 => cache.set_strict_capacity_limit(rng.one_in(2)),
                2 => cache.apply_to_all(|e| assert_eq!((*e.key, e.charge), (key(e.value.key()), CHARGE))),
                _ => assert!(cache.pinned_usage() <= 1 << 30),
            },
        }
        if held.len() > 5 {
            let handle = held.swap_remove(rng.index(6));
            assert_ne!(handle.key(), GONE);
            cache.release(handle, rng.one_in(2));
        }
    }
    assert!(held.iter().all(|handle| handle.key() != GONE));
}

#[test]
fn many_threads_keep_the_books_right() {
    let _turn = crate::alone();
    let types = [
        (CacheType::Lru, 0),
        (CacheType::Lru, 3),
        (CacheType::AutoHyperClock, 0),
        (CacheType::FixedHyperClock { estimated_entry_charge: CHARGE }, 0),
    ];
    for (cache_type, num_shard_bits) in types {
        let options = CacheOptions {
            cache_type,
            num_shard_bits,
            low_pri_pool_ratio: 0.2,
            metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
            ..CacheOptions::with_capacity(100 * CHARGE)
        };
        let cache = Cache::new(&options).unwrap();
        let alive = Arc::new(AtomicUsize::new(0));
        let steps = if cfg!(miri) { 50 } else { 10_000 };
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (cache, alive) = (&cache, &alive);
                scope.spawn(move || work(cache, alive, seed, steps));
            }
        });
        while cache.deferred_free_usage() > 0 {
            epoch::collect();
            thread::yield_now();
        }
        assert_eq!((cache.pinned_usage(), cache.usage()), (0, cache.occupancy_count() * CHARGE));
        assert_eq!(cache.role_stats().entries(Role::DataBlock), cache.occupancy_count() as u64);
        cache.set_strict_capacity_limit(false);
        cache.set_capacity(10 * CHARGE);
        assert!(cache.usage() <= 10 * CHARGE, "{}", cache.usage());
        cache.set_capacity(0);
        assert_eq!(cache.usage(), 0, "{cache_type:?}");
        drop(cache);
        while alive.load(Ordering::Relaxed) > 0 {
            epoch::collect();
            thread::yield_now();
        }
    }
}
