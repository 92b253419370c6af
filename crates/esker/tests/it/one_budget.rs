//! Memory beside blocks that counts in the block cache: `cache_usage_options` and blob caches.

use esker::internals::base::sync::epoch;
use esker::internals::cache::{Cache, CacheOptions, CacheType, Role};
use esker::internals::env::MemFs;
use esker::internals::table::BlockCache;
use esker::options::{CacheEntryRoleOptions, CompressionType, Decision};
use esker::stats::{Statistics, Ticker};
use esker::{Db, Env, ErrorKind, FlushOptions, Options, SubCode};
use std::sync::Arc;

fn cache(capacity: usize, strict: bool) -> Arc<BlockCache> {
    let options = CacheOptions { strict_capacity_limit: strict, ..CacheOptions::with_capacity(capacity) };
    Arc::new(Cache::new(&options).unwrap())
}

fn charge(options: &mut Options, role: Role, charged: Decision) {
    options.cf.table.cache_usage_options.options_overrides.push((role, CacheEntryRoleOptions { charged }));
}

fn options(cache: &Arc<BlockCache>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.table.block_cache = Some(Arc::clone(cache));
    options.cf.disable_auto_compactions = true;
    options
}

fn with_blobs(cache: &Arc<BlockCache>, blobs: &Arc<BlockCache>) -> Options {
    let mut options = options(cache);
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.blob_compression_type = CompressionType::None;
    options.cf.blob_cache = Some(Arc::clone(blobs));
    charge(&mut options, Role::BlobCache, Decision::Enabled);
    options
}

/// Waits until `is_so`: other tests' threads may delay the release of super versions and of their
/// files' charges.
fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        epoch::collect();
        std::thread::yield_now();
    }
}

#[test]
fn flushes_put_values_into_the_blob_cache_if_the_option_says_so() {
    let (blocks, blobs) = (cache(8 << 20, false), cache(8 << 20, false));
    let mut options = with_blobs(&blocks, &blobs);
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let db = Db::open(&options, "/db").unwrap();
    let count = |ticker| statistics.ticker_count(ticker);
    let write = || {
        for n in 0..10 {
            db.put(format!("key{n}"), [n; 200]).unwrap();
        }
        db.flush().unwrap();
    };
    write();
    assert_eq!(count(Ticker::BlobDbCacheAdd), 0, "kDisable is the default");
    let family = db.default_column_family();
    db.set_options(&family, &[("prepopulate_blob_cache", "kFlushOnly")]).unwrap();
    write();
    assert_eq!(count(Ticker::BlobDbCacheAdd), 10);
    assert_eq!(count(Ticker::BlobDbCacheBytesWrite), 2000);
    for n in 0..10 {
        assert_eq!(db.get(format!("key{n}")).unwrap().unwrap(), [n; 200]);
    }
    assert_eq!((count(Ticker::BlobDbCacheHit), count(Ticker::BlobDbCacheMiss)), (10, 0));
    // A compaction that moves the values puts none into the cache.
    db.compact_range(None, None).unwrap();
    assert_eq!(count(Ticker::BlobDbCacheAdd), 10);
    db.get("key0").unwrap();
    assert_eq!(count(Ticker::BlobDbCacheMiss), 1, "the value lies in another file now");
    db.close().unwrap();
}

#[test]
fn file_metadata_is_charged_once_for_each_table() {
    let cache = cache(8 << 20, false);
    let mut options = options(&cache);
    charge(&mut options, Role::FileMetadata, Decision::Enabled);
    let files = || cache.role_stats().entries(Role::FileMetadata) as usize;
    let bytes = || cache.role_stats().bytes(Role::FileMetadata) as usize;
    for round in 0..2 {
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(files(), round, "existing files are charged at open");
        for i in 0..5 {
            db.put("first", "value").unwrap();
            db.put("last", "value").unwrap();
            db.flush().unwrap();
            assert_eq!((files(), files()), (round + i + 1, db.live_files().len()));
            assert!(
                (files() * 200..files() * 2000).contains(&bytes()),
                "{} bytes, {} files",
                bytes(),
                files()
            );
        }
        assert!(cache.usage() >= bytes());
        db.compact_range(None, None).unwrap();
        wait_for(|| files() == 1);
        db.close().unwrap();
        drop(db);
        wait_for(|| files() == 0);
        assert_eq!(bytes(), 0);
    }
}

#[test]
fn tables_that_a_strict_limit_has_no_room_for_cannot_be_added_or_opened() {
    let cache = cache(64 << 10, true);
    let mut options = options(&cache);
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    charge(&mut options, Role::FileMetadata, Decision::Enabled);
    cache.erase_unreferenced();
    let hog = cache.reserve(Role::Misc, cache.capacity() - cache.usage() - 100).unwrap();
    let refused = Db::open(&options, "/db").unwrap_err();
    assert_eq!(refused.subcode(), SubCode::MemoryLimit, "{refused}");
    drop(hog);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("key").unwrap(), Some(b"value".to_vec()));
    db.close().unwrap();
}

/// Two families share a blob cache: it is charged once, whatever is inserted and evicted.
#[test]
fn all_that_a_blob_cache_uses_is_charged() {
    let (blocks, blobs) = (cache(4 << 20, false), cache(1 << 20, false));
    let options = with_blobs(&blocks, &blobs);
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    let charged = || blocks.role_stats().bytes(Role::BlobCache) as usize;
    for i in 0..3000 {
        let value = vec![i as u8; 1000];
        db.put(format!("key{i}"), &value).unwrap();
        db.put_cf(&other, format!("key{i}"), &value).unwrap();
    }
    db.flush().unwrap();
    db.flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    assert_eq!(blocks.role_stats().entries(Role::BlobCache), 1);
    for family in [&db.default_column_family(), &other] {
        for i in 0..3000 {
            assert_eq!(db.get_cf(family, format!("key{i}")).unwrap(), Some(vec![i as u8; 1000]));
            assert!(charged() >= blobs.usage(), "{} of {}", charged(), blobs.usage());
        }
    }
    assert!(blobs.usage() > 900 << 10 && blobs.role_stats().entries(Role::BlobValue) > 500, "{blobs:?}");
    assert!(charged() < blobs.usage() + (64 << 10), "{} of {}", charged(), blobs.usage());
    blobs.set_capacity(256 << 10);
    assert!((blobs.usage()..400 << 10).contains(&charged()), "{} of {}", charged(), blobs.usage());
    blobs.erase_unreferenced();
    assert!(charged() < 200 << 10, "{}", charged());
    db.close().unwrap();
    drop((db, other, options));
    drop(blobs);
    // The last reader may be in another thread.
    wait_for(|| charged() == 0);
}

#[test]
fn a_blob_that_a_strict_limit_has_no_room_for_is_read_and_not_kept() {
    for cache_type in [CacheType::AutoHyperClock, CacheType::Lru] {
        let (blocks, blobs) = (cache(512 << 10, true), cache(256 << 10, false));
        let mut options = with_blobs(&blocks, &blobs);
        let of_type =
            CacheOptions { cache_type, num_shard_bits: 0, ..CacheOptions::with_capacity(256 << 10) };
        let blobs: Arc<BlockCache> = Arc::new(Cache::new(&of_type).unwrap());
        options.cf.blob_cache = Some(Arc::clone(&blobs));
        let db = Db::open(&options, "/db").unwrap();
        for i in 0..300 {
            db.put(format!("key{i}"), vec![i as u8; 1000]).unwrap();
        }
        db.flush().unwrap();
        let room = blocks.capacity() - blocks.usage();
        let hog = blocks.reserve(Role::Misc, room - (64 << 10)).unwrap();
        for i in 0..300 {
            assert_eq!(db.get(format!("key{i}")).unwrap(), Some(vec![i as u8; 1000]));
            assert!(blocks.usage() <= blocks.capacity(), "{blocks:?}");
            assert!(blocks.role_stats().bytes(Role::BlobCache) as usize + 1024 >= blobs.usage());
        }
        assert!((20 << 10..80 << 10).contains(&blobs.usage()), "{blobs:?}");
        drop(hog);
        for i in 0..300 {
            assert_eq!(db.get(format!("key{i}")).unwrap(), Some(vec![i as u8; 1000]));
        }
        assert!(blobs.usage() > 200 << 10, "{blobs:?}");
        db.close().unwrap();
    }
}

#[test]
fn options_that_cannot_be_charged_are_refused_by_name() {
    let blocks = cache(1 << 20, false);
    let larger = cache(2 << 20, false);
    type Change = fn(&mut Options, &Arc<BlockCache>, &Arc<BlockCache>);
    let changes: [(Change, ErrorKind, &str); 7] = [
        (|o, _, _| charge(o, Role::DataBlock, Decision::Enabled), ErrorKind::NotSupported, "DataBlock"),
        (|o, _, _| charge(o, Role::WriteBuffer, Decision::Disabled), ErrorKind::NotSupported, "WriteBuffer"),
        (
            |o, _, _| {
                o.cf.table.no_block_cache = true;
                charge(o, Role::FileMetadata, Decision::Enabled);
            },
            ErrorKind::InvalidArgument,
            "FileMetadata is to be charged, and there is no block cache",
        ),
        (
            |o, _, _| charge(o, Role::BlobCache, Decision::Enabled),
            ErrorKind::InvalidArgument,
            "there is none",
        ),
        (|o, blocks, _| *o = with_blobs(blocks, blocks), ErrorKind::InvalidArgument, "which it is"),
        (|o, blocks, larger| *o = with_blobs(blocks, larger), ErrorKind::InvalidArgument, "and is larger"),
        (|o, _, _| charge(o, Role::Misc, Decision::Enabled), ErrorKind::NotSupported, "Misc"),
    ];
    for (change, kind, part) in changes {
        let mut options = options(&blocks);
        change(&mut options, &blocks, &larger);
        let refused = Db::open(&options, "/db").unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let mut options = options(&blocks);
    charge(&mut options, Role::DataBlock, Decision::Fallback);
    Db::open(&options, "/db").unwrap().close().unwrap();
}
