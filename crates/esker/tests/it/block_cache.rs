//! The engine on each kind of block cache, with plenty of room, and with so little that blocks are
//! evicted at once.

use esker::internals::base::sync::epoch;
use esker::internals::cache::{CacheOptions, CacheType};
use esker::internals::env::mem::MemFs;
use esker::internals::table::{BlockCache, FilterPolicy};
use esker::{Db, Env, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

const TYPES: [CacheType; 3] =
    [CacheType::Lru, CacheType::FixedHyperClock { estimated_entry_charge: 4096 }, CacheType::AutoHyperClock];

fn cache(cache_type: CacheType, capacity: usize) -> Arc<BlockCache> {
    Arc::new(BlockCache::new(&CacheOptions { cache_type, ..CacheOptions::with_capacity(capacity) }).unwrap())
}

fn options(fs: &Arc<MemFs>, cache: &Arc<BlockCache>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.write_buffer_size = 64 << 10;
    options.cf.table.block_size = 1024;
    options.cf.table.block_cache = Some(Arc::clone(cache));
    options.cf.table.cache_index_and_filter_blocks = true;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options
}

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn value(i: u32, round: u32) -> Vec<u8> {
    format!("{i:060}{round:040}").into_bytes()
}

/// The value of `count` once it settles. Unused super versions, and their blocks, are freed when
/// the epoch moves on. Other tests of this process may delay that.
fn settled<T: PartialEq>(count: impl Fn() -> T) -> T {
    let mut last = count();
    let mut same = 0;
    while same < 200 {
        epoch::collect();
        std::thread::yield_now();
        let now = count();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// Gets and scans in several threads while another thread writes. Iterators and pinned values
/// outlive their blocks' stay in the cache.
fn use_it(db: &Db) {
    let mut model = BTreeMap::new();
    for i in 0..4000 {
        db.put(key(i), value(i, 0)).unwrap();
        model.insert(key(i), value(i, 0));
    }
    db.flush().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let model = &model;
            scope.spawn(move || {
                let mut kept = Vec::new();
                for step in 0..1000_u32 {
                    let i = (step * 7919 + thread * 1000) % 4000;
                    let found = db.get_pinned(key(i)).unwrap().unwrap();
                    assert_eq!(Some(&*found), model.get(&key(i)).map(|v| &v[..]));
                    kept.push((i, found));
                    if kept.len() > 20 {
                        kept.swap_remove(step as usize % 20);
                    }
                }
                let mut iter = db.iter().unwrap();
                iter.seek(key(thread * 500));
                for (expected_key, expected) in model.range(key(thread * 500)..).take(500) {
                    assert_eq!((iter.key(), iter.value()), (&expected_key[..], &expected[..]));
                    iter.next();
                }
                assert!(kept.iter().all(|(i, found)| model[&key(*i)] == **found));
            });
        }
    });
    assert!(db.get(b"key000000x").unwrap().is_none());
}

#[test]
fn every_cache_serves_the_engine_with_room_and_without() {
    for cache_type in TYPES {
        for capacity in [8 << 20, 64 << 10] {
            let (fs, cache) = (Arc::new(MemFs::new()), cache(cache_type, capacity));
            let db = Db::open(&options(&fs, &cache), "/db").unwrap();
            use_it(&db);
            assert_eq!(db.int_property("rocksdb.block-cache-capacity"), Some(capacity as u64));
            agree(|| db.int_property("rocksdb.block-cache-usage"), || Some(cache.usage() as u64));
            let stats = db.map_property("rocksdb.block-cache-entry-stats").unwrap();
            let count = |role: &str| stats[&format!("count.{role}")].parse::<u64>().unwrap();
            assert!(count("data-block") > 0, "{cache_type:?} {capacity}: {stats:?}");
            if capacity > 1 << 20 {
                assert!(count("index-block") > 0 && count("filter-block") > 0, "{stats:?}");
            }
            let text = db.property("rocksdb.block-cache-entry-stats").unwrap();
            assert!(text.starts_with(&format!("Block cache {}@", cache_type.name())), "{text}");
            assert!(db.property("rocksdb.cfstats").unwrap().contains("Block cache entry stats("));
            db.close().unwrap();
            drop(db);
            assert_eq!(settled(|| cache.pinned_usage()), 0, "no block of a closed database is pinned");
        }
    }
}

/// Waits until both give the same: background work and other tests' guards may delay that.
fn agree<T: PartialEq + std::fmt::Debug>(one: impl Fn() -> T, other: impl Fn() -> T) {
    for _ in 0..100_000 {
        if one() == other() {
            return;
        }
        std::thread::yield_now();
    }
    assert_eq!(one(), other());
}

#[test]
fn databases_share_a_cache() {
    let cache = cache(CacheType::AutoHyperClock, 256 << 10);
    let (one, other) = (Arc::new(MemFs::new()), Arc::new(MemFs::new()));
    let one = Db::open(&options(&one, &cache), "/one").unwrap();
    let other = Db::open(&options(&other, &cache), "/other").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| use_it(&one));
        scope.spawn(|| use_it(&other));
    });
    agree(
        || one.int_property("rocksdb.block-cache-usage"),
        || other.int_property("rocksdb.block-cache-usage"),
    );
}
