use super::*;
use esker_cache::{CacheKey, CacheOptions, CachePriority};

#[test]
fn a_cached_block_costs_at_most_a_hundred_bytes_beside_itself() {
    const BLOCKS: u64 = 100_000;
    let cache = BlockCache::new(&CacheOptions::with_capacity(64 << 20)).expect("the options are allowed");
    for i in 0..BLOCKS {
        let block = CachedBlock::Blob(Vec::new());
        drop(cache.insert(CacheKey::new((1, 2), i), block, 0, CachePriority::Low, Role::DataBlock));
    }
    let bytes = cache.usage() as u64 / BLOCKS;
    assert!((1..=100).contains(&bytes), "{bytes}");
}

/// Regions of the whole process are counted: those of other tests are few beside these.
#[test]
fn memory_of_blocks_is_charged_and_goes_with_their_cache() {
    const BLOCKS: usize = 1000;
    const BYTES: usize = 128 << 10;
    let all = BLOCKS * BYTES;
    let block = || {
        let mut bytes = Buffer::new(BYTES);
        bytes.fill(0);
        bytes[BYTES - 4] = 1; // one restart point
        CachedBlock::KeyValue(Block::parse(bytes).unwrap())
    };
    let cache = BlockCache::new(&CacheOptions::with_capacity(2 * all)).unwrap();
    let pinned = (0..BLOCKS as u64).map(|i| {
        let (key, block) = (CacheKey::new((1, 2), i), block());
        let charge = block.memory_usage();
        assert!((BYTES..BYTES + 512).contains(&charge), "{charge}");
        cache.insert(key, block, charge, CachePriority::Low, Role::DataBlock).unwrap().handle
    });
    let pinned = pinned.step_by(BLOCKS / 2).collect::<Vec<_>>();
    let full = esker_base::buffer::region_bytes();
    assert!(cache.usage() >= all && full >= all, "{} used, {full} in regions", cache.usage());
    cache.set_capacity(all / 8);
    let less = esker_base::buffer::region_bytes();
    assert!(less < full - all / 2, "{less} of {full}");
    drop(cache);
    let held = esker_base::buffer::region_bytes();
    assert!(held < full - all / 4 * 3, "{held} of {full}");
    assert!(pinned.iter().all(|block| block.bytes().len() == BYTES && block.bytes()[BYTES - 4] == 1));
}
