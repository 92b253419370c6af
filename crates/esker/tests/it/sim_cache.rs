//! Simulations of block caches of other sizes.

use esker::internals::env::mem::MemFs;
use esker::options::{BlockCache, CacheOptions, CacheType, CompressionType, MetadataChargePolicy};
use esker::stats::{Statistics, Ticker};
use esker::{Db, Env, ErrorKind, Options, SimCache};
use esker_testkit::seed::for_each_seed;
use std::path::Path;
use std::sync::Arc;

const KEYS: u32 = 3000;

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

/// A cache of `capacity` bytes, made as a simulated one is.
fn alike(capacity: usize) -> CacheOptions {
    CacheOptions {
        cache_type: CacheType::Lru,
        num_shard_bits: 0,
        metadata_charge_policy: MetadataChargePolicy::DontChargeCacheMetadata,
        ..CacheOptions::with_capacity(capacity)
    }
}

/// A database whose blocks are in `cache`, with a table of about 400 blocks.
fn open(fs: &Arc<MemFs>, cache: &Arc<BlockCache>) -> (Db, Arc<Statistics>) {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(fs.clone());
    options.db.statistics = Some(statistics.clone());
    options.cf.compression = CompressionType::None;
    options.cf.table.block_size = 1024;
    options.cf.table.block_cache = Some(cache.clone());
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), format!("{i:0120}")).unwrap());
    db.flush().unwrap();
    (db, statistics)
}

fn cache(options: &CacheOptions) -> Arc<BlockCache> {
    Arc::new(BlockCache::new(options).unwrap())
}

/// The same gets, once with a real cache of the simulated size, and once with others beside
/// simulations.
#[test]
fn a_simulation_counts_the_hits_that_a_real_cache_of_its_size_has() {
    for_each_seed("simulated", 3, |_, mut rng| {
        let size = rng.usize(20..300) << 10;
        let gets: Vec<u32> = (0..4000).map(|_| rng.u32(..KEYS).min(rng.u32(..KEYS))).collect();
        let hits_of = |db: &Db, statistics: &Statistics| {
            let before = statistics.ticker_count(Ticker::BlockCacheDataHit);
            gets.iter().for_each(|i| assert!(db.get(key(*i)).unwrap().is_some()));
            statistics.ticker_count(Ticker::BlockCacheDataHit) - before
        };
        let (db, statistics) = open(&Arc::new(MemFs::new()), &cache(&alike(size)));
        let expected = hits_of(&db, &statistics);
        assert!(expected > 100 && expected < 3950, "{expected} hits of 4000 at {size} bytes");
        for real in [CacheOptions::with_capacity(8 << 10), CacheOptions::with_capacity(8 << 20)] {
            let real = cache(&real);
            let (db, statistics) = open(&Arc::new(MemFs::new()), &real);
            let simulated = SimCache::new(&real, size, 0).unwrap();
            let other = SimCache::with_options(&real, &alike(2 * size)).unwrap();
            hits_of(&db, &statistics);
            assert_eq!(simulated.hit_counter(), expected, "{size} bytes beside {real:?}");
            assert_eq!(simulated.hit_counter() + simulated.miss_counter(), 4000);
            assert!(other.hit_counter() >= expected);
            assert!(simulated.sim_usage() <= size && simulated.sim_capacity() == size);
            let counted = |ticker| statistics.ticker_count(ticker);
            let both = simulated.hit_counter() + other.hit_counter();
            assert_eq!(counted(Ticker::SimBlockCacheHit), both, "each simulation counts");
            assert_eq!(counted(Ticker::SimBlockCacheHit) + counted(Ticker::SimBlockCacheMiss), 8000);
        }
    });
}

#[test]
fn every_way_to_a_block_is_seen_once_and_no_more_after_the_end() {
    let real = cache(&CacheOptions::with_capacity(8 << 20));
    let (db, statistics) = open(&Arc::new(MemFs::new()), &real);
    let simulated = SimCache::new(&real, 64 << 20, -1).unwrap();
    let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
    let blocks = {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
        simulated.miss_counter()
    };
    assert!((300..600).contains(&blocks), "{blocks} blocks");
    assert_eq!(simulated.hit_counter(), 0);
    simulated.reset_counter();
    for found in db.multi_get(&keys) {
        assert!(found.unwrap().is_some());
    }
    assert_eq!((simulated.miss_counter(), simulated.hit_counter() >= blocks), (0, true));
    simulated.reset_counter();
    real.erase_unreferenced();
    for found in db.multi_get(&keys) {
        assert!(found.unwrap().is_some());
    }
    assert_eq!((simulated.miss_counter(), simulated.hit_counter() >= blocks), (0, true));

    simulated.set_sim_capacity(0);
    simulated.reset_counter();
    (0..7).for_each(|_| assert!(db.get(key(1)).unwrap().is_some()));
    assert_eq!((simulated.miss_counter(), simulated.hit_counter(), simulated.sim_usage()), (7, 0, 0));
    assert_eq!(simulated.to_string(), "SimCache MISSes:  7\nSimCache HITs:    0\nSimCache HITRATE: 0.00\n");
    drop(simulated);
    let counted = statistics.ticker_count(Ticker::SimBlockCacheMiss);
    db.get(key(1)).unwrap();
    assert_eq!(statistics.ticker_count(Ticker::SimBlockCacheMiss), counted);
    let error = SimCache::new(&real, 1 << 20, 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_log_has_a_line_for_each_lookup_and_each_block_that_is_added() {
    let fs = Arc::new(MemFs::new());
    let env = Env::with_fs(fs.clone());
    let real = cache(&CacheOptions::with_capacity(8 << 20));
    let (db, _) = open(&fs, &real);
    let simulated = SimCache::new(&real, 1 << 20, -1).unwrap();
    let path = Path::new("/activity");
    let lines = || {
        let mut text = vec![0; env.fs.file_size(path).unwrap() as usize];
        env.fs.new_random_access_file(path).unwrap().read_at(0, &mut text).unwrap();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    simulated.start_activity_logging(path, &*env.fs, 0).unwrap();
    (0..3).for_each(|_| assert!(db.get(key(7)).unwrap().is_some()));
    simulated.stop_activity_logging();
    assert!(db.get(key(7)).unwrap().is_some());
    let logged = lines();
    let block = logged[0].strip_prefix("LOOKUP - ").unwrap().to_owned();
    assert!(block.len() == 32 && block.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase()));
    assert_eq!(logged.len(), 4);
    let charge = logged[1].strip_prefix(&format!("ADD - {block} - ")).unwrap();
    assert!((1000..3000).contains(&charge.parse::<u32>().unwrap()), "{charge}");
    assert!(logged[2..].iter().all(|line| *line == format!("LOOKUP - {block}")));

    // A log ends once it has its size. Each line has 42 bytes here.
    simulated.start_activity_logging(path, &*env.fs, 100).unwrap();
    (0..9).for_each(|_| assert!(db.get(key(7)).unwrap().is_some()));
    assert_eq!(lines().len(), 3);
    simulated.activity_logging_status().unwrap();
}
