//! Measures by how much charges, and allocated memory, exceed a cache's capacity.

use esker_base::rng::Rng;
use esker_base::sync::epoch;
use esker_cache::{Cache, CacheKey, CacheOptions, CachePriority, CacheType, MetadataChargePolicy, Role};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Reads blocks of many sizes, some as large as filters, through a cache with room for a part of
/// them.
fn most_over(cache_type: CacheType, capacity: usize) -> f64 {
    let options = CacheOptions { cache_type, num_shard_bits: 0, ..CacheOptions::with_capacity(capacity) };
    let cache: Cache<Box<[u8]>> = Cache::new(&options).expect("the options are allowed");
    let mut rng = Rng::new(capacity as u64);
    let mut most = 0;
    for _ in 0..60_000 {
        let i = rng.below(4000).min(rng.below(4000));
        let key = CacheKey::new((5, i / 64), (i % 64) * 4096);
        let charge = if i.is_multiple_of(40) { capacity / 50 } else { 3000 + (i as usize * 37) % 2500 };
        let priority = if i.is_multiple_of(40) { CachePriority::High } else { CachePriority::Low };
        if cache.lookup(&key).is_none() {
            // The test measures charges only; real bytes would only cost time.
            drop(cache.insert(key, Box::default(), charge, priority, Role::DataBlock));
        }
        most = most.max(cache.usage());
    }
    most as f64 / capacity as f64
}

#[test]
fn memory_is_at_most_three_percent_above_the_capacity() {
    let _turn = crate::alone();
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

/// A value that counts its bytes in `alive` until it is dropped.
struct Counted<'a> {
    alive: &'a AtomicUsize,
    _bytes: Box<[u8]>,
}

const VALUE_BYTES: usize = 4096;

impl<'a> Counted<'a> {
    fn new(alive: &'a AtomicUsize) -> (Counted<'a>, usize) {
        let now = alive.fetch_add(VALUE_BYTES, Ordering::SeqCst) + VALUE_BYTES;
        (Counted { alive, _bytes: vec![0; VALUE_BYTES].into() }, now)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.alive.fetch_sub(VALUE_BYTES, Ordering::SeqCst);
    }
}

const READERS: usize = 8;

/// Reads under guards, and inserts missing values. Returns the most bytes of living values,
/// measured after each new value.
fn read(cache: &Cache<Counted<'static>>, alive: &'static AtomicUsize, seed: u64, slow: &AtomicBool) -> usize {
    let (mut rng, mut most) = (Rng::new(seed), 0);
    for _ in 0..4_000 {
        let i = rng.below(2000).min(rng.below(2000));
        let key = CacheKey::new((9, i / 64), (i % 64) * 4096);
        let guard = epoch::pin();
        let is_there = cache.lookup_under(&key, &guard).is_some();
        if !is_there {
            if slow.swap(false, Ordering::Relaxed) {
                // One reader waits, as for a slow file, while the other threads read.
                let start = alive.load(Ordering::SeqCst);
                (0..100).for_each(|_| thread::yield_now());
                most = most.max(start);
            }
            let (value, now) = Counted::new(alive);
            most = most.max(now);
            drop(cache.insert(key, value, VALUE_BYTES, CachePriority::Low, Role::DataBlock));
        }
        drop(guard);
        if rng.one_in(500) {
            slow.store(true, Ordering::Relaxed);
        }
    }
    most
}

/// All living values count, evicted or not. They may exceed the capacity by 3 %, and by two values
/// for each reader.
#[test]
fn memory_held_up_by_slow_readers_is_bounded() {
    const CAPACITY: usize = 1600 << 10;
    // The last evicted entry may be dropped after the test.
    static ALIVE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    let _turn = crate::alone();
    let types =
        [CacheType::AutoHyperClock, CacheType::FixedHyperClock { estimated_entry_charge: VALUE_BYTES }];
    for (cache_type, alive) in types.into_iter().zip(&ALIVE) {
        let options = CacheOptions {
            cache_type,
            metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
            ..CacheOptions::with_capacity(CAPACITY)
        };
        let cache: Cache<Counted<'static>> = Cache::new(&options).expect("the options are allowed");
        let slow = AtomicBool::new(false);
        let most = thread::scope(|scope| {
            let (cache, slow) = (&cache, &slow);
            let readers: Vec<_> =
                (0..READERS).map(|seed| scope.spawn(move || read(cache, alive, seed as u64, slow))).collect();
            readers.into_iter().map(|reader| reader.join().expect("no reader panics")).max()
        });
        let most = most.expect("there are readers");
        let in_hand = 2 * READERS * VALUE_BYTES;
        assert!(most > CAPACITY / 10 * 9, "{most}");
        assert!(most <= CAPACITY / 100 * 103 + in_hand, "{cache_type:?}: {most} of {CAPACITY}");
    }
}
