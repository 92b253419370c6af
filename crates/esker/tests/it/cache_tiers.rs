//! The engine with a tier below its block cache, with pinned and warmed blocks, and with all memory
//! in one budget.

use esker::internals::base::sync::epoch;
use esker::internals::cache::tier::{Admission, AdmissionPolicy, Lookup, Saved, SecondaryCache};
use esker::internals::cache::{Cache, CacheKey, CacheOptions, CacheType, Role, TieredCacheOptions};
use esker::internals::env::{FaultFs, FaultRule, FileSystem, MemFs, OpKind};
use esker::internals::table::tier::{
    CompressedSecondaryCache, CompressedSecondaryCacheOptions, FileSecondaryCache, FileSecondaryCacheOptions,
    block_cache_above, tiered_block_cache,
};
use esker::internals::table::{BlockCache, CachedBlock, FilterPolicy};
use esker::options::{
    CacheEntryRoleOptions, CacheUsageOptions, CompactionStyle, CompressionType, Decision,
    MetadataCacheOptions, PinningTier, PrepopulateBlockCache, ReadOptions, WriteBufferManager,
    block_cache_from_string,
};
use esker::stats::{Statistics, Ticker};
use esker::{Db, Env, Options, SubCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const KEYS: u32 = 2000;

fn key(i: u32) -> Vec<u8> {
    format!("key{i:06}").into_bytes()
}

fn value(i: u32) -> Vec<u8> {
    format!("{i:0120}").into_bytes()
}

fn options(fs: &Arc<MemFs>, cache: &Arc<BlockCache>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.statistics = Some(Arc::new(Statistics::default()));
    options.cf.table.block_size = 1024;
    options.cf.table.block_cache = Some(Arc::clone(cache));
    options.cf.table.cache_index_and_filter_blocks = true;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options
}

fn ticker(options: &Options, ticker: Ticker) -> u64 {
    options.db.statistics.as_ref().unwrap().ticker_count(ticker)
}

fn fill(db: &Db) {
    for i in 0..KEYS {
        db.put(key(i), value(i)).unwrap();
    }
    db.flush().unwrap();
}

fn read_all(db: &Db, options: &ReadOptions) {
    let family = db.default_column_family();
    for i in 0..KEYS {
        assert_eq!(db.get_opt(options, &family, key(i)).unwrap(), Some(value(i)), "{i}");
    }
    let keys: Vec<Vec<u8>> = (0..KEYS).step_by(37).map(key).collect();
    for (i, found) in (0..KEYS).step_by(37).zip(db.multi_get_opt(options, &family, &keys)) {
        assert_eq!(found.unwrap(), Some(value(i).into()));
    }
}

/// The small cache cannot hold the table, but the tier below can. After two rounds nearly all
/// blocks come from memory: not all, because a small clock cache evicts a block if the slots for a
/// key are full.
#[test]
fn blocks_that_were_given_up_come_back_from_the_compressed_tier() {
    for text in [
        "{id=auto_hyper_clock_cache;capacity=64k;compressed_secondary_cache={capacity=1M}}",
        "{id=fixed_hyper_clock_cache;estimated_entry_charge=1k;capacity=64k;compressed_secondary_cache={capacity=1M}}",
        "capacity=64k;num_shard_bits=0;secondary_cache=compressed_secondary_cache://capacity=1M",
        "{id=auto_hyper_clock_cache;capacity=1M;compressed_secondary_ratio=0.9;adm_policy=allow_all}",
    ] {
        let cache = block_cache_from_string(text).unwrap().unwrap();
        let fs = Arc::new(MemFs::new());
        let options = options(&fs, &cache);
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        for _ in 0..4 {
            read_all(&db, &ReadOptions::default());
        }
        let misses = ticker(&options, Ticker::BlockCacheMiss);
        read_all(&db, &ReadOptions::default());
        let more = ticker(&options, Ticker::BlockCacheMiss) - misses;
        assert!(more < 60, "{text}: {more} blocks were read from the file again");
        let hits = ticker(&options, Ticker::SecondaryCacheHits);
        assert!(hits > 100, "{text}: {hits}");
        assert_eq!(hits, ticker(&options, Ticker::CompressedSecondaryCacheHits));
        let by_kind = [
            Ticker::SecondaryCacheDataHits,
            Ticker::SecondaryCacheIndexHits,
            Ticker::SecondaryCacheFilterHits,
        ];
        assert_eq!(hits, by_kind.into_iter().map(|t| ticker(&options, t)).sum::<u64>());
        assert!(
            ticker(&options, Ticker::CompressedSecondaryCacheDummyHits) > 0 || text.contains("allow_all")
        );
        let text = db.property("rocksdb.block-cache-entry-stats").unwrap();
        assert!(text.contains("Secondary cache CompressedSecondaryCache capacity: "), "{text}");
    }
}

/// A compressed tier that counts the data blocks that it stores.
#[derive(Debug)]
struct CountingTier {
    tier: CompressedSecondaryCache,
    compressed: AtomicUsize,
    as_in_file: AtomicUsize,
}

impl SecondaryCache for CountingTier {
    fn name(&self) -> &'static str {
        "CountingTier"
    }
    fn insert(&self, key: &CacheKey, saved: Saved<'_>, is_forced: bool) -> Admission {
        let admission = self.tier.insert(key, saved, is_forced);
        let is_new = admission == Admission::Stored && saved.role == Role::DataBlock;
        self.compressed.fetch_add(usize::from(is_new), Ordering::Relaxed);
        admission
    }
    fn insert_stored(&self, key: &CacheKey, stored: Saved<'_>, is_forced: bool) -> Admission {
        let admission = self.tier.insert_stored(key, stored, is_forced);
        let is_new = admission == Admission::Stored && stored.role == Role::DataBlock;
        self.as_in_file.fetch_add(usize::from(is_new), Ordering::Relaxed);
        admission
    }
    fn lookup(&self, key: &CacheKey, advise_erase: bool) -> Lookup {
        self.tier.lookup(key, advise_erase)
    }
    fn contains(&self, key: &CacheKey) -> bool {
        self.tier.contains(key)
    }
    fn erase(&self, key: &CacheKey) {
        self.tier.erase(key);
    }
    fn capacity(&self) -> usize {
        self.tier.capacity()
    }
    fn set_capacity(&self, bytes: usize) {
        self.tier.set_capacity(bytes);
    }
    fn usage(&self) -> usize {
        self.tier.usage()
    }
}

/// Blocks go below in the form that the file has, and no read compresses any. Other blocks are
/// compressed once: those of a file without compression, with a dictionary, or with a codec of
/// another kind.
#[test]
fn a_block_is_compressed_at_most_once_and_never_if_its_file_has_it_compressed() {
    use CompressionType::{Lz4, None as Plain, Snappy, Zstd};
    for (codec, max_dict_bytes, is_kept) in
        [(Snappy, 0, true), (Lz4, 0, true), (Plain, 0, false), (Zstd, 0, false), (Lz4, 4096, false)]
    {
        for cache_type in [CacheType::AutoHyperClock, CacheType::Lru] {
            let tier = Arc::new(CountingTier {
                tier: CompressedSecondaryCache::new(&CompressedSecondaryCacheOptions::with_capacity(4 << 20))
                    .unwrap(),
                compressed: AtomicUsize::new(0),
                as_in_file: AtomicUsize::new(0),
            });
            let small =
                CacheOptions { cache_type, num_shard_bits: 0, ..CacheOptions::with_capacity(64 << 10) };
            let cache = block_cache_above(&small, tier.clone()).unwrap();
            let mut options = options(&Arc::new(MemFs::new()), &cache);
            options.cf.compression = codec;
            options.cf.compression_opts.max_dict_bytes = max_dict_bytes;
            let db = Db::open(&options, "/db").unwrap();
            fill(&db);
            db.compact_range(None, None).unwrap();
            for _ in 0..8 {
                read_all(&db, &ReadOptions::default());
            }
            let blocks = KEYS as usize * 140 / 1024;
            let (compressed, as_in_file) =
                (tier.compressed.load(Ordering::Relaxed), tier.as_in_file.load(Ordering::Relaxed));
            let what =
                format!("{codec:?}, {cache_type:?}: {compressed} compressed, {as_in_file} as in the file");
            assert!(
                if is_kept { as_in_file > blocks / 2 } else { as_in_file == 0 },
                "{what}, {blocks} blocks"
            );
            assert!(
                compressed <= if is_kept { blocks / 10 } else { blocks * 5 / 4 },
                "{what}, {blocks} blocks"
            );
            let hits = ticker(&options, Ticker::SecondaryCacheHits);
            assert!(hits as usize > 3 * blocks, "{what}: {hits} hits");
        }
    }
}

fn file_tier(fs: &Arc<dyn FileSystem>) -> Arc<FileSecondaryCache> {
    let options = FileSecondaryCacheOptions {
        path: "/tier".into(),
        capacity: 4 << 20,
        fs: Arc::clone(fs),
        info_log: None,
    };
    Arc::new(FileSecondaryCache::open(options).unwrap())
}

/// After a restart of the process there is a new cache over the same directory and tables.
#[test]
fn a_file_tier_serves_blocks_after_a_restart() {
    let fs = Arc::new(MemFs::new());
    let disk: Arc<dyn FileSystem> = Arc::new(MemFs::new());
    for round in 0..2 {
        let tier = file_tier(&disk);
        let small = CacheOptions::with_capacity(32 << 10);
        let cache = block_cache_above(&small, tier.clone()).unwrap();
        let options = options(&fs, &cache);
        let db = Db::open(&options, "/db").unwrap();
        if round == 0 {
            fill(&db);
        }
        for _ in 0..3 {
            read_all(&db, &ReadOptions::default());
            tier.settle();
        }
        let hits = ticker(&options, Ticker::SecondaryCacheHits);
        let misses = ticker(&options, Ticker::BlockCacheMiss);
        if round == 1 {
            assert!(hits > 500 && misses < hits / 4, "{hits} hits, {misses} misses after the restart");
        }
        db.close().unwrap();
        drop((db, options, cache));
        // Unused super versions hold the tier until the epoch advances; then its directory's lock
        // is released.
        while Arc::strong_count(&tier) > 1 {
            epoch::collect();
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_tier_whose_disk_fails_is_off_and_reads_go_on() {
    let disk = FaultFs::new(Arc::new(MemFs::new()));
    let tier = file_tier(&(Arc::new(disk.clone()) as Arc<dyn FileSystem>));
    let cache = block_cache_above(&CacheOptions::with_capacity(32 << 10), tier.clone()).unwrap();
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs, &cache), "/db").unwrap();
    fill(&db);
    read_all(&db, &ReadOptions::default());
    read_all(&db, &ReadOptions::default());
    disk.add_rule(FaultRule::fail(&[OpKind::Append, OpKind::Read]).forever());
    read_all(&db, &ReadOptions::default());
    tier.settle();
    read_all(&db, &ReadOptions::default());
    assert!(tier.is_off());
}

/// Two databases and a write buffer manager share a tiered cache whose division changes under them.
#[test]
fn one_capacity_is_divided_while_databases_work() {
    let division = TieredCacheOptions {
        total_capacity: 512 << 10,
        compressed_secondary_ratio: 0.5,
        adm_policy: AdmissionPolicy::Auto,
    };
    let cache = tiered_block_cache(
        &CacheOptions::default(),
        &CompressedSecondaryCacheOptions::default(),
        &division,
        None,
    )
    .unwrap();
    let fs = Arc::new(MemFs::new());
    let manager = Arc::new(WriteBufferManager::with_cache(1 << 20, &cache, false));
    let mut options = options(&fs, &cache);
    options.db.write_buffer_manager = Some(Arc::clone(&manager));
    let dbs = ["/a", "/b"].map(|path| Db::open(&options, path).unwrap());
    std::thread::scope(|scope| {
        for db in &dbs {
            scope.spawn(|| {
                fill(db);
                for _ in 0..3 {
                    read_all(db, &ReadOptions::default());
                }
            });
        }
        for ratio in [0.0, 1.0, 0.25, 0.75, 0.5] {
            cache.update_tiered(None, Some(ratio), None).unwrap();
        }
        cache.set_capacity(400 << 10);
    });
    // A thread of the pool may still be dropping a memtable, with charges that others have changed
    // meanwhile.
    let is_settled = || {
        let charged = cache.role_stats().bytes(Role::WriteBuffer) as usize;
        let below = cache.secondary().unwrap().capacity();
        charged == manager.dummy_entries_in_cache_usage()
            && charged >= manager.memory_usage()
            && below == ((400 << 10) - charged.min(400 << 10)) / 2
    };
    while !is_settled() {
        std::thread::yield_now();
    }
    for db in dbs {
        db.close().unwrap();
    }
}

/// Index and filter of level 0 stay cached and charged while their reader lives, even if the cache
/// has no room.
#[test]
fn pinned_index_and_filter_stay() {
    for (pinning, l0, stays) in [
        (PinningTier::Fallback, true, true),
        (PinningTier::Fallback, false, false),
        (PinningTier::FlushedAndSimilar, false, true),
        (PinningTier::All, false, true),
        (PinningTier::None, true, false),
    ] {
        let cache: Arc<BlockCache> = Arc::new(Cache::new(&CacheOptions::with_capacity(0)).unwrap());
        let fs = Arc::new(MemFs::new());
        let mut options = options(&fs, &cache);
        options.cf.table.pin_l0_filter_and_index_blocks_in_cache = l0;
        options.cf.table.metadata_cache_options =
            MetadataCacheOptions { unpartitioned_pinning: pinning, ..MetadataCacheOptions::default() };
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        let misses =
            || ticker(&options, Ticker::BlockCacheIndexMiss) + ticker(&options, Ticker::BlockCacheFilterMiss);
        let before = misses();
        read_all(&db, &ReadOptions::default());
        assert_eq!(misses() == before, stays, "{pinning:?}, {l0}");
        if stays {
            assert!(cache.pinned_usage() > 2000, "{pinning:?}: {}", cache.pinned_usage());
        }
        // Index and filter also stay if a read opens the table.
        db.close().unwrap();
        drop(db);
        let mut few_open = options.clone();
        few_open.db.max_open_files = 20;
        let db = Db::open(&few_open, "/db").unwrap();
        assert_eq!(db.get(key(0)).unwrap(), Some(value(0)));
        let before = misses();
        read_all(&db, &ReadOptions::default());
        assert_eq!(misses() == before, stays, "{pinning:?}, {l0}, opened by a read");
    }
}

/// Index and filter of a table that a compaction writes into level 0 stay, too.
#[test]
fn index_and_filter_of_what_is_merged_within_level_0_stay() {
    for (pins, num_levels, stays) in [(true, 1, true), (false, 1, false), (true, 7, false)] {
        let cache: Arc<BlockCache> = Arc::new(Cache::new(&CacheOptions::with_capacity(0)).unwrap());
        let mut options = options(&Arc::new(MemFs::new()), &cache);
        options.cf.table.pin_l0_filter_and_index_blocks_in_cache = pins;
        options.cf.compaction_style = CompactionStyle::Universal;
        options.cf.num_levels = num_levels;
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        fill(&db);
        db.compact_range(None, None).unwrap();
        let files = db.live_files();
        assert!(files.iter().all(|file| (file.level == 0) == (num_levels == 1)), "{files:?}");
        let misses =
            || ticker(&options, Ticker::BlockCacheIndexMiss) + ticker(&options, Ticker::BlockCacheFilterMiss);
        let before = misses();
        read_all(&db, &ReadOptions::default());
        assert_eq!(misses() == before, stays, "{pins}, {num_levels} levels");
    }
}

#[test]
fn a_flush_warms_the_cache() {
    for (prepopulate, warm) in
        [(PrepopulateBlockCache::Disable, false), (PrepopulateBlockCache::FlushOnly, true)]
    {
        for format_version in [3, 4, 5] {
            let cache: Arc<BlockCache> = Arc::new(Cache::new(&CacheOptions::with_capacity(8 << 20)).unwrap());
            let fs = Arc::new(MemFs::new());
            let mut options = options(&fs, &cache);
            options.cf.table.prepopulate_block_cache = prepopulate;
            options.cf.table.format_version = format_version;
            let db = Db::open(&options, "/db").unwrap();
            fill(&db);
            let misses = ticker(&options, Ticker::BlockCacheDataMiss);
            read_all(&db, &ReadOptions::default());
            let missed = ticker(&options, Ticker::BlockCacheDataMiss) - misses;
            // An insert may find all its slots taken and evict another block, which is counted. The
            // number depends on the keys' hashes, and so on the session's random id.
            let most = if warm { cache.crowded_count() as u64 } else { u64::MAX };
            assert!(missed <= most, "{prepopulate:?}: {missed} misses, {most} displaced");
            assert!(missed < 100 || !warm, "{prepopulate:?}: {missed}");
            assert!(missed > 200 || warm, "{prepopulate:?}: {missed}");
            assert_eq!(ticker(&options, Ticker::BlockCacheAddRedundant), 0);
            let misses = ticker(&options, Ticker::BlockCacheMiss);
            fill(&db);
            db.compact_range(None, None).unwrap();
            read_all(&db, &ReadOptions::default());
            assert!(ticker(&options, Ticker::BlockCacheMiss) > misses, "a compaction warms nothing");
        }
    }
}

/// A strict limit is never exceeded. Blocks that do not fit are read without the cache, or refused
/// with `MemoryLimit`.
#[test]
fn a_strict_limit_holds() {
    for cache_type in [
        CacheType::Lru,
        CacheType::AutoHyperClock,
        CacheType::FixedHyperClock { estimated_entry_charge: 1024 },
    ] {
        let cache: Arc<BlockCache> = Arc::new(
            Cache::new(&CacheOptions {
                cache_type,
                num_shard_bits: 0,
                strict_capacity_limit: true,
                ..CacheOptions::with_capacity(256 << 10)
            })
            .unwrap(),
        );
        let fs = Arc::new(MemFs::new());
        let mut options = options(&fs, &cache);
        options.cf.table.cache_usage_options = CacheUsageOptions {
            options: CacheEntryRoleOptions { charged: Decision::Enabled },
            options_overrides: Vec::new(),
        };
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        assert!(cache.role_stats().bytes(Role::BlockBasedTableReader) > 500);
        let all = cache.capacity() - cache.usage();
        read_all(&db, &ReadOptions::default());
        // All room is taken: data is read without the cache, index and filter are refused.
        cache.erase_unreferenced();
        let rest = cache.capacity() - cache.usage();
        let hog = cache.reserve(Role::Misc, rest.min(all) - 100).unwrap();
        let family = db.default_column_family();
        for i in (0..KEYS).step_by(61) {
            match db.get_opt(&ReadOptions::default(), &family, key(i)) {
                Ok(found) => assert_eq!(found, Some(value(i))),
                Err(e) => assert_eq!(e.subcode(), SubCode::MemoryLimit, "{e}"),
            }
            assert!(cache.usage() <= cache.capacity(), "{cache_type:?}: {cache:?}");
        }
        // Reads without `fill_cache` take no room.
        read_all(&db, &ReadOptions::default().fill_cache(false));
        assert!(cache.usage() <= cache.capacity());
        drop(hog);
        read_all(&db, &ReadOptions::default());
        db.close().unwrap();
    }
}

#[test]
fn a_write_buffer_manager_flushes_before_its_bound() {
    let cache: Arc<BlockCache> = Arc::new(Cache::new(&CacheOptions::with_capacity(8 << 20)).unwrap());
    let fs = Arc::new(MemFs::new());
    let manager = Arc::new(WriteBufferManager::with_cache(1 << 20, &cache, true));
    let mut options = options(&fs, &cache);
    options.db.write_buffer_manager = Some(Arc::clone(&manager));
    let db = Db::open(&options, "/db").unwrap();
    for i in 0..30_000 {
        db.put(key(i), value(i)).unwrap();
        // An arena may have allocated one block, of 1 MiB at most, since the manager's check.
        assert!(manager.mutable_memtable_memory_usage() <= 2 << 20, "{manager:?}");
        assert!(manager.dummy_entries_in_cache_usage() > 0);
    }
    db.wait_for_background_work().unwrap();
    for i in (0..30_000).step_by(101) {
        assert_eq!(db.get(key(i)).unwrap(), Some(value(i)));
    }
    db.close().unwrap();
}

/// The option works as a manager of that size. If a manager is given, the option is ignored.
#[test]
fn db_write_buffer_size_bounds_the_memtables_of_all_families() {
    for given in [false, true] {
        let cache: Arc<BlockCache> = Arc::new(Cache::new(&CacheOptions::with_capacity(8 << 20)).unwrap());
        let mut options = options(&Arc::new(MemFs::new()), &cache);
        options.cf.write_buffer_size = 64 << 20;
        options.cf.arena_block_size = 64 << 10;
        options.db.db_write_buffer_size = 1 << 20;
        if given {
            options.db.write_buffer_manager = Some(Arc::new(WriteBufferManager::new(64 << 20, false)));
        }
        let db = Db::open(&options, "/db").unwrap();
        let family = |n| db.create_column_family(&format!("family {n}"), &options.cf).unwrap();
        let families: Vec<_> = (0..4).map(family).collect();
        let in_memory = || {
            let size =
                |family| db.int_property_cf(family, "rocksdb.cur-size-active-mem-table").unwrap_or_default();
            families.iter().map(size).sum::<u64>()
        };
        let mut most = 0;
        for i in 0..30_000 {
            db.put_cf(&families[i as usize % 4], key(i), value(i)).unwrap();
            most = most.max(in_memory());
        }
        // Each arena may have allocated a block since the manager's check.
        let bound = (1 << 20) + 4 * (64 << 10);
        assert_eq!(most > bound, given, "{most} bytes");
        db.close().unwrap();
    }
}

#[test]
fn the_cache_says_what_another_size_would_bring() {
    let options_of_cache = CacheOptions { estimates_misses: true, ..CacheOptions::with_capacity(64 << 10) };
    let cache: Arc<Cache<CachedBlock>> = Arc::new(Cache::new(&options_of_cache).unwrap());
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs, &cache), "/db").unwrap();
    fill(&db);
    for _ in 0..5 {
        read_all(&db, &ReadOptions::default());
    }
    let estimates = db.map_property("rocksdb.block-cache-miss-estimate").unwrap();
    assert_eq!(estimates.len(), 7, "{estimates:?}");
    let ratio = |bytes: usize| estimates[&bytes.to_string()].parse::<f64>().unwrap();
    assert!(ratio(512 << 10) <= ratio(64 << 10), "{estimates:?}");
}

#[test]
fn a_tier_is_deflated_and_inflated_by_a_difference() {
    let options = CompressedSecondaryCacheOptions::with_capacity(1 << 20);
    let tier = CompressedSecondaryCache::new(&options).unwrap();
    let insert = |from: u64| {
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(4096).collect();
        for n in from..from + 256 {
            let saved = Saved { role: Role::DataBlock, codec: 0, bytes: &bytes };
            tier.insert(&CacheKey::from_words([n, 1]), saved, true);
        }
    };
    insert(0);
    let full = tier.usage();
    tier.deflate(3 << 18);
    assert_eq!(tier.capacity(), 1 << 18);
    assert!(tier.usage() <= 1 << 18 && full > 1 << 19, "{full} {}", tier.usage());
    tier.inflate(3 << 18);
    assert_eq!(tier.capacity(), 1 << 20);
    insert(1000);
    assert!(tier.usage() > 1 << 19);
    let taken = tier.deflate(usize::MAX);
    assert_eq!((taken, tier.capacity()), (1 << 20, 0));
    tier.inflate(taken);
    assert_eq!(tier.capacity(), 1 << 20);
}
