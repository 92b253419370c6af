use super::*;
use esker_base::rng::Rng;
use std::collections::VecDeque;

/// Lookups of `keys` keys, each of 4 KiB, small numbers more often.
fn key(i: u64) -> CacheKey {
    CacheKey::new((11, i / 64), (i % 64) * 4096)
}

#[test]
fn the_estimates_are_those_of_lru_caches_of_these_sizes() {
    let (keys, capacity) = (200_000_u64, 32 << 20);
    let sampler = Sampler::new(capacity);
    let mut rng = Rng::new(7);
    let mut lru = [capacity / 4096 / 2, capacity / 4096, capacity / 4096 * 4].map(Lru::new);
    let mut misses = [0_u32; 3];
    let lookups = 400_000;
    for i in 0..lookups {
        let one = rng.below(keys).min(rng.below(keys)).min(rng.below(keys)).min(rng.below(keys));
        let key = key(one.min(rng.below(keys)));
        if sampler.follows(&key) {
            sampler.looked_up(&key);
            sampler.charged(&key, 4096);
        }
        for (lru, misses) in lru.iter_mut().zip(&mut misses) {
            *misses += u32::from(!lru.hit(key, i));
        }
    }
    let estimates = sampler.estimates();
    for (at, misses) in [(2, misses[0]), (3, misses[1]), (5, misses[2])] {
        let real = f64::from(misses) / lookups as f64;
        let estimate = estimates[at];
        assert!((estimate.miss_ratio - real).abs() < 0.05, "{estimate:?}, in truth {real}");
    }
    assert!(estimates.is_sorted_by(|a, b| a.miss_ratio >= b.miss_ratio), "{estimates:?}");
}

/// An LRU cache of this many keys, each with the time of its last use.
struct Lru {
    most: usize,
    last: HashMap<CacheKey, u64>,
    order: VecDeque<(CacheKey, u64)>,
}

impl Lru {
    fn new(most: usize) -> Lru {
        Lru { most, last: HashMap::new(), order: VecDeque::new() }
    }

    fn hit(&mut self, key: CacheKey, now: u64) -> bool {
        let hit = self.last.insert(key, now).is_some();
        self.order.push_back((key, now));
        while self.last.len() > self.most {
            let (oldest, used) = self.order.pop_front().expect("each counted key is in the order list");
            if self.last[&oldest] == used {
                self.last.remove(&oldest);
            }
        }
        while let Some(&(oldest, used)) = self.order.front()
            && self.last.get(&oldest) != Some(&used)
        {
            self.order.pop_front();
        }
        hit
    }
}

#[test]
fn keys_read_once_miss_at_every_size() {
    let sampler = Sampler::new(1 << 20);
    for key in (0..100_000).map(key).filter(|key| sampler.follows(key)) {
        sampler.looked_up(&key);
    }
    assert!(sampler.estimates().iter().all(|e| e.miss_ratio == 1.0));
    assert!(sampler.stack.lock().newest.len() <= SLOTS);
    sampler.reset(2 << 20);
    assert_eq!(sampler.estimates()[3], MissEstimate { capacity: 2 << 20, miss_ratio: 0.0 });
}
