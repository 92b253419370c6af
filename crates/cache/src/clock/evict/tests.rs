//! Counts the buckets that evictions visit, by the steps of the hands.

use super::*;
use crate::clock::ClockCache;
use crate::contract::{CacheOptions, CachePriority, MetadataChargePolicy};
use crate::entry::About;
use crate::entry::Handle;
use crate::key::CacheKey;
use crate::role::Role;
use esker_base::rng::Rng;

fn cache(capacity: usize, entry_charge: usize, is_strict: bool) -> ClockCache<u64> {
    let options = CacheOptions {
        capacity,
        strict_capacity_limit: is_strict,
        metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
        // Pinned entries do not end the search.
        eviction_effort_cap: usize::MAX - 1,
        ..CacheOptions::default()
    };
    ClockCache::new(&options, entry_charge, None)
}

fn about(i: u64, charge: usize) -> About {
    About { key: CacheKey::new((1, 2), i), charge, role: Role::Misc, priority: CachePriority::Low }
}

fn put(cache: &ClockCache<u64>, i: u64, charge: usize) -> Handle<u64> {
    cache.insert(about(i, charge), i).expect("the value fits, or the limit is not strict").handle
}

/// Number of buckets that both hands have visited so far.
fn visited_buckets(cache: &ClockCache<u64>) -> usize {
    // With one thread, the number of a hand's next step is the number of steps it has made.
    let hands = cache.table.probation_claims.iter().chain([&cache.table.hand]);
    hands.map(|hand| hand.load(Ordering::Relaxed)).sum()
}

/// Charges the cache in small steps for memory outside of it. Returns the number of buckets that
/// the hands visited.
fn charge_often(cache: &ClockCache<u64>, times: usize) -> usize {
    let before = visited_buckets(cache);
    (0..times).for_each(|_| cache.charge(10).expect("the limit is not strict"));
    visited_buckets(cache) - before
}

#[test]
fn a_full_cache_without_entries_is_hardly_searched() {
    for is_strict in [false, true] {
        let cache = cache(10_000, 1, is_strict);
        drop(put(&cache, 1, 10));
        assert!(cache.erase(&about(1, 10).key));
        cache.charge(10_000).unwrap();
        for _ in 0..1000 {
            let before = visited_buckets(&cache);
            assert_eq!(cache.charge(10).is_err(), is_strict);
            assert_eq!(visited_buckets(&cache) - before, BARREN_BUCKETS);
        }
    }
}

#[test]
fn held_entries_are_searched_once_not_for_each_charge() {
    for held_count in [1, 20, 1000] {
        let cache = cache(10_000, 1, false);
        let length = cache.table.length();
        assert!(length > 40 * BARREN_BUCKETS);
        let held: Vec<_> = (0..held_count).map(|i| put(&cache, i, 1)).collect();
        cache.charge(10_000).unwrap();
        let most = (1 + PROBATION_BUCKETS) * MAX_TURNS * length + 1000 * BARREN_BUCKETS;
        let in_all = charge_often(&cache, 1000);
        assert!(in_all <= most, "{in_all} of {most}");
        // Lookups of the held entries do not lengthen the searches.
        let mut in_all = 0;
        for i in 0..1000 {
            drop(cache.lookup(&about(i % held_count, 1).key).expect("the entry is held"));
            in_all += charge_often(&cache, 1);
        }
        assert!(in_all <= 1000 * BARREN_BUCKETS, "{in_all}");
        assert_eq!(cache.occupancy_count(), held_count as usize);
        drop(held);
        // Once the hand meets a released entry, the next calls search the whole table and evict all
        // of them.
        charge_often(&cache, length / BARREN_BUCKETS);
        assert_eq!(cache.occupancy_count(), 0);
    }
}

#[test]
fn a_strict_limit_looks_at_all_before_it_refuses_and_once_is_enough() {
    let cache = cache(10_000, 1, true);
    let length = cache.table.length();
    let mut held: Vec<_> = (0..1000).map(|i| put(&cache, i, 1)).collect();
    cache.charge(9000).unwrap();
    for _ in 0..50 {
        assert!(cache.charge(1).is_err());
        let before = visited_buckets(&cache);
        assert!(cache.charge(1).is_err());
        assert_eq!(visited_buckets(&cache) - before, length);
        drop(cache.lookup(Handle::key(&held[0])));
        drop(held.swap_remove(held.len() / 2));
        cache.charge(1).expect("one entry can be evicted");
        assert_eq!(cache.ledger().usage(), 10_000);
    }
}

/// After a charge that evicted nothing, later charges may miss entries that became free. They find
/// these once the hand has passed all buckets.
#[test]
fn random_charges_find_free_entries_and_search_little_otherwise() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let capacity = rng.between(100, 5000) as usize;
        let cache = cache(capacity, [0, 1, 5][rng.index(3)], false);
        let (mut held, mut outside) = (Vec::new(), 0);
        let mut in_vain = 0;
        for step in 0..3000 {
            let was_barren = cache.table.barren.load(Ordering::Relaxed);
            let before = visited_buckets(&cache);
            let (mut grows, mut let_go) = (true, 0);
            match rng.below(12) {
                0..4 => {
                    let charge = rng.between(1, 8) as usize;
                    outside += charge;
                    cache.charge(charge).unwrap();
                }
                4..7 => {
                    let handle = put(&cache, rng.below(400), rng.between(1, 8) as usize);
                    if rng.below(3) == 0 {
                        held.push(handle);
                    } else {
                        // The new entry became free in this step.
                        let_go = 1;
                    }
                }
                7..9 => _ = cache.lookup(&about(rng.below(400), 1).key),
                9 if rng.below(50) == 0 => held.clear(),
                9 if !held.is_empty() => drop(held.swap_remove(rng.index(held.len()))),
                10 if rng.below(20) == 0 => {
                    cache.ledger().uncharge(std::mem::take(&mut outside));
                    grows = false;
                }
                _ => grows = false,
            }
            let (looked, length) = (visited_buckets(&cache) - before, cache.table.length());
            let mut free = 0;
            cache.visit(&mut |entry| free += usize::from(!entry.is_pinned));
            let is_over = cache.ledger().usage() > capacity;
            if looked > 0 && is_over && free > let_go {
                in_vain += 1;
                assert!(was_barren, "seed {seed}, step {step}: {free} stay");
                assert!(in_vain <= length / BARREN_BUCKETS + 2, "seed {seed}, step {step}: {in_vain} times");
            } else if grows && looked > 0 {
                in_vain = 0;
            }
            if looked > 0 && was_barren && cache.table.barren.load(Ordering::Relaxed) && free == 0 {
                assert!(looked <= BARREN_BUCKETS.min(length), "seed {seed}, step {step}: {looked}");
            }
        }
    }
}
