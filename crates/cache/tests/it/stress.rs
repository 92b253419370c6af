use esker_base::rng::Rng;
use esker_cache::{Cache, CacheKey, CacheOptions, Priority};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const THREADS: u64 = 20;
const KEYS: u64 = 500;
const CHARGE: usize = 1000;

/// Knows its key, and counts those alive.
struct Value {
    key: u64,
    alive: Arc<AtomicUsize>,
}

impl Value {
    fn new(key: u64, alive: &Arc<AtomicUsize>) -> Arc<Value> {
        alive.fetch_add(1, Ordering::Relaxed);
        Arc::new(Value { key, alive: Arc::clone(alive) })
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

fn key(i: u64) -> CacheKey {
    CacheKey::new((7, i / 16), 4096 * (i % 16))
}

fn work(cache: &Cache<Value>, alive: &Arc<AtomicUsize>, seed: u64, steps: usize) {
    let mut rng = Rng::new(seed);
    let mut held: Vec<Arc<Value>> = Vec::new();
    for _ in 0..steps {
        let i = rng.below(KEYS);
        match rng.below(100) {
            0..=59 => {
                if let Some(value) = cache.lookup(&key(i)) {
                    assert_eq!(value.key, i, "seed {seed}: another key's value");
                    held.push(value);
                }
            }
            60..=94 => {
                let priority = [Priority::Bottom, Priority::Low, Priority::High][rng.index(3)];
                // Refused when the limit is strict and all is in use.
                if let Ok(value) = cache.insert(key(i), Value::new(i, alive), CHARGE, priority) {
                    assert_eq!(value.key, i);
                    held.push(value);
                }
            }
            95..=97 => {
                cache.erase(&key(i));
            }
            98 => cache.set_capacity(rng.between(50, 150) as usize * CHARGE),
            _ => match rng.below(20) {
                0 => cache.erase_unreferenced(),
                1 => cache.set_strict_capacity_limit(rng.one_in(2)),
                2 => cache.apply_to_all(|k, v, charge, _| assert_eq!((*k, charge), (key(v.key), CHARGE))),
                _ => assert!(cache.pinned_usage() <= 1 << 30),
            },
        }
        if held.len() > 5 {
            held.swap_remove(rng.index(6));
        }
    }
}

#[test]
fn many_threads_keep_the_books_right() {
    for shard_bits in [0, 3] {
        let options = CacheOptions {
            num_shard_bits: shard_bits,
            low_pri_pool_ratio: 0.2,
            ..CacheOptions::with_capacity(100 * CHARGE)
        };
        let cache = Cache::lru(&options).unwrap();
        let alive = Arc::new(AtomicUsize::new(0));
        let steps = if cfg!(miri) { 50 } else { 20_000 };
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (cache, alive) = (&cache, &alive);
                scope.spawn(move || work(cache, alive, seed, steps));
            }
        });
        assert_eq!(cache.pinned_usage(), 0);
        assert_eq!(
            alive.load(Ordering::Relaxed),
            cache.occupancy_count(),
            "nothing leaks, nothing is dropped twice"
        );
        cache.set_capacity(10 * CHARGE);
        assert!(cache.usage() <= 10 * CHARGE + 8, "{}", cache.usage());
        cache.set_capacity(0);
        assert_eq!((cache.usage(), alive.load(Ordering::Relaxed)), (0, 0));
    }
}
