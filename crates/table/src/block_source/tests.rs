use super::*;
use esker_cache::{CacheKey, CacheOptions, Priority};

#[test]
fn a_cached_block_costs_at_most_a_hundred_bytes_beside_itself() {
    const BLOCKS: u64 = 100_000;
    let cache = BlockCache::new(&CacheOptions::with_capacity(64 << 20)).expect("the options are allowed");
    for i in 0..BLOCKS {
        let block = CachedBlock::Blob(Vec::new());
        drop(cache.insert(CacheKey::new((1, 2), i), block, 0, Priority::Low, Role::DataBlock));
    }
    let bytes = cache.usage() as u64 / BLOCKS;
    assert!((1..=100).contains(&bytes), "{bytes}");
}
