//! How much memory a cache is charged, beside its capacity. (What waits for readers under guards depends on other threads.)

use esker_base::rng::Rng;
use esker_cache::{Cache, CacheKey, CacheOptions, CacheType, Priority, Role};

/// Reads of blocks of many sizes, some as large as filters, through a cache with room for a part of them.
fn most_over(cache_type: CacheType, capacity: usize) -> f64 {
    let options = CacheOptions { cache_type, num_shard_bits: 0, ..CacheOptions::with_capacity(capacity) };
    let cache: Cache<Box<[u8]>> = Cache::new(&options).expect("the options are allowed");
    let mut rng = Rng::new(capacity as u64);
    let mut most = 0;
    for _ in 0..60_000 {
        let i = rng.below(4000).min(rng.below(4000));
        let key = CacheKey::new((5, i / 64), (i % 64) * 4096);
        let charge = if i.is_multiple_of(40) { capacity / 50 } else { 3000 + (i as usize * 37) % 2500 };
        let priority = if i.is_multiple_of(40) { Priority::High } else { Priority::Low };
        if cache.lookup(&key).is_none() {
            // What is charged is what counts; the bytes themselves would only take time.
            drop(cache.insert(key, Box::default(), charge, priority, Role::DataBlock));
        }
        most = most.max(cache.usage());
    }
    most as f64 / capacity as f64
}

#[test]
fn memory_is_at_most_three_percent_above_the_capacity() {
    for capacity in [1600 << 10, 4250 << 10, 11 << 20] {
        for cache_type in [
            CacheType::Lru,
            CacheType::AutoHyperClock,
            CacheType::FixedHyperClock { estimated_entry_charge: 4096 },
        ] {
            let most = most_over(cache_type, capacity);
            assert!(most <= 1.03, "{} of {capacity} bytes: {most:.4}", cache_type.name());
        }
    }
}
