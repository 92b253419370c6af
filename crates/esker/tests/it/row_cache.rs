//! `row_cache`: gets that find the entries of a table in memory, and their answers.

use esker::comparator::BytewiseComparatorWithU64Ts;
use esker::internals::env::mem::MemFs;
use esker::options::{BlockCache, CacheOptions};
use esker::stats::{Statistics, Ticker};
use esker::txn::WritePolicy;
use esker::{
    Db, Env, FlushOptions, IngestExternalFileOptions, Options, ReadOptions, ReadTier, SstFileWriter,
    TransactionDb, TransactionDbOptions, WriteBatch, builtin,
};
use std::collections::BTreeMap;
use std::sync::Arc;

struct RowScene {
    options: Options,
    rows: Arc<BlockCache>,
    statistics: Arc<Statistics>,
}

impl RowScene {
    fn new() -> RowScene {
        let mut options = Options::new().create_if_missing(true);
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        options.cf.merge_operator = Some(builtin::string_append(","));
        options.cf.disable_auto_compactions = true;
        // A clock cache may evict an entry below its capacity, and tests count each hit.
        let rows = Arc::new(BlockCache::lru(&CacheOptions::with_capacity(8 << 20)).unwrap());
        let statistics = Arc::new(Statistics::new());
        options.db.row_cache = Some(rows.clone());
        options.db.statistics = Some(statistics.clone());
        RowScene { options, rows, statistics }
    }

    fn open(&self) -> Db {
        Db::open(&self.options, "/db").unwrap()
    }

    /// Hits and misses since the last call.
    fn counts(&self) -> (u64, u64) {
        (
            self.statistics.take_ticker_count(Ticker::RowCacheHit),
            self.statistics.take_ticker_count(Ticker::RowCacheMiss),
        )
    }

    fn blocks_looked_up(&self) -> u64 {
        self.statistics.take_ticker_count(Ticker::BlockCacheHit)
            + self.statistics.take_ticker_count(Ticker::BlockCacheMiss)
    }
}

fn get(db: &Db, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value).unwrap())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_get_that_finds_its_row_looks_at_no_block() {
    let mut scene = RowScene::new();
    scene.options.cf.table.cache_index_and_filter_blocks = true;
    let db = scene.open();
    db.put("a", "1").unwrap();
    db.put("deleted", "1").unwrap();
    db.delete("deleted").unwrap();
    db.put("z", "1").unwrap();
    db.flush().unwrap();
    assert_eq!(scene.counts(), (0, 0), "memtables have no rows");
    for key in ["a", "deleted", "missing"] {
        let first = get(&db, key);
        assert_eq!(scene.counts(), (0, 1), "{key}");
        scene.blocks_looked_up();
        assert_eq!(get(&db, key), first, "{key}");
        let expected = if key == "missing" { (0, 1) } else { (1, 0) };
        assert_eq!(scene.counts(), expected, "{key}: absent keys have no rows");
        assert_eq!(scene.blocks_looked_up() == 0, key != "missing", "{key}");
    }
    assert_eq!(get(&db, "a"), some("1"));
    // The tier of the cache has the row, too.
    let cached = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() };
    let family = db.default_column_family();
    assert_eq!(db.get_opt(&cached, &family, "a").unwrap().as_deref(), Some(&b"1"[..]));
    // A newer table, a memtable and a compaction change the answer.
    db.put("a", "2").unwrap();
    assert_eq!(get(&db, "a"), some("2"));
    db.flush().unwrap();
    assert_eq!(get(&db, "a"), some("2"));
    db.delete_range("a", "b").unwrap();
    assert_eq!(get(&db, "a"), None);
    db.compact_range(None, None).unwrap();
    assert_eq!((get(&db, "a"), get(&db, "z")), (None, some("1")));
    // Another opening has rows of its own: its numbers may mean other files.
    let before = scene.rows.occupancy_count();
    drop(db);
    let db = scene.open();
    scene.counts();
    assert_eq!(get(&db, "z"), some("1"));
    assert_eq!(scene.counts(), (0, 1));
    assert_eq!(scene.rows.occupancy_count(), before + 1);
}

/// Values of a `multi_get`, as text.
fn many(db: &Db, options: &ReadOptions, keys: &[&str]) -> Vec<Option<String>> {
    let values = db.multi_get_opt(options, &db.default_column_family(), keys);
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
    values.into_iter().map(|value| value.unwrap().map(|value| text(&value))).collect()
}

#[test]
fn a_multi_get_looks_up_each_keys_row_and_reads_the_others_together() {
    for (async_io, soft_limit) in [(false, u64::MAX), (true, u64::MAX), (false, 1 << 20)] {
        let mut scene = RowScene::new();
        scene.options.cf.table.cache_index_and_filter_blocks = true;
        let db = scene.open();
        let keys: Vec<String> = (0..40).map(|n| format!("{n:02}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        // The lower level has all keys, level 0 operands for every third.
        keys.iter().for_each(|key| db.put(key, "base").unwrap());
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        keys.iter().step_by(3).for_each(|key| db.merge(key, "more").unwrap());
        db.delete("07").unwrap();
        db.flush().unwrap();
        db.put("01", "in a memtable").unwrap();
        let value_of = |key: &&str| match *key {
            "07" => None,
            "01" => some("in a memtable"),
            key if key.parse::<u32>().unwrap().is_multiple_of(3) => some("base,more"),
            _ => some("base"),
        };
        let expected: Vec<_> = keys.iter().map(value_of).collect();
        let options = ReadOptions { async_io, value_size_soft_limit: soft_limit, ..ReadOptions::default() };
        scene.counts();
        for few in [&keys[..2], &keys[6..9]] {
            let first = few[0].parse::<usize>().unwrap();
            assert_eq!(many(&db, &options, few), expected[first..first + few.len()]);
        }
        // 00 has a row in either table; 01 is in a memtable; 06, 07 and 08 lie in one range.
        assert_eq!(scene.counts(), (0, 2 + 2 + 1 + 2));
        assert_eq!(many(&db, &options, &keys), expected);
        let rows = 14 + 1 + 38;
        // Level 0 has no row for a key that only the lower level has, so the search misses there.
        let absent = 39 - 14 - 1;
        let (hits, misses) = scene.counts();
        assert_eq!((hits, hits + misses), (2 + 2 + 1 + 1, rows + absent));
        scene.blocks_looked_up();
        let in_both: Vec<&str> = keys.iter().step_by(3).copied().collect();
        let merged = vec![some("base,more"); in_both.len()];
        assert_eq!(many(&db, &options, &in_both), merged);
        assert_eq!(scene.counts(), (2 * in_both.len() as u64, 0));
        assert_eq!(scene.blocks_looked_up(), 0, "rows answer without a block");
        // A repeated key is looked up once, unless keys are read in turn.
        assert_eq!(many(&db, &options, &["00", "00", "00", "03", "03"]), vec![some("base,more"); 5]);
        assert_eq!(scene.counts(), if soft_limit == u64::MAX { (4, 0) } else { (10, 0) });
        // A get finds the rows that the batch has left, and the other way round.
        assert_eq!(get(&db, "12"), some("base,more"));
        assert_eq!(scene.counts(), (2, 0));
    }
}

#[test]
fn a_multi_get_of_several_families_keeps_their_rows_apart() {
    let scene = RowScene::new();
    let db = scene.open();
    let other = db.create_column_family("other", &scene.options.cf).unwrap();
    let default = db.default_column_family();
    db.put("k", "1").unwrap();
    db.put_cf(&other, "k", "2").unwrap();
    db.flush_opt(&FlushOptions::default(), &[&default, &other]).unwrap();
    for round in 0..3 {
        let keys: [(_, &[u8]); 3] = [(&default, b"k"), (&other, b"k"), (&default, b"absent")];
        let found = db.multi_get_cf(&ReadOptions::default(), &keys);
        let found: Vec<_> = found.into_iter().map(|value| value.unwrap().map(|v| v.to_vec())).collect();
        assert_eq!(found, [Some(b"1".to_vec()), Some(b"2".to_vec()), None], "round {round}");
    }
    // The absent key lies outside of the table.
    assert_eq!(scene.counts(), (4, 2));
}

#[test]
fn rows_are_as_old_as_the_snapshots_that_read_them() {
    let scene = RowScene::new();
    let db = scene.open();
    let family = db.default_column_family();
    db.merge("m", "1").unwrap();
    db.put("a", "1").unwrap();
    let old = db.snapshot();
    db.merge("m", "2").unwrap();
    db.put("a", "2").unwrap();
    db.delete_range("a", "b").unwrap();
    db.flush().unwrap();
    let then = ReadOptions { snapshot: Some(old), ..ReadOptions::default() };
    let at = |key: &str| db.get_opt(&then, &family, key).unwrap().map(|v| String::from_utf8(v).unwrap());
    for round in 0..3 {
        assert_eq!((at("a"), get(&db, "a")), (some("1"), None), "round {round}");
        assert_eq!((at("m"), get(&db, "m")), (some("1"), some("1,2")), "round {round}");
        assert_eq!(scene.counts(), if round == 0 { (0, 4) } else { (4, 0) }, "round {round}");
    }
    // A snapshot that sees the whole table shares its rows with reads of the present.
    let new = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    assert_eq!(db.get_opt(&new, &family, "m").unwrap().as_deref(), Some(&b"1,2"[..]));
    assert_eq!(scene.counts(), (1, 0));
    // Without range deletions the same row gives what the flush has left.
    let ignoring = ReadOptions { ignore_range_deletions: true, ..ReadOptions::default() };
    assert_eq!(db.get_opt(&ignoring, &family, "a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(scene.counts(), (1, 0));
}

#[test]
fn a_row_that_a_newer_tombstone_cut_short_is_not_kept() {
    let scene = RowScene::new();
    let db = scene.open();
    let family = db.default_column_family();
    db.put("m", "0").unwrap();
    let first = db.snapshot();
    db.merge("m", "1").unwrap();
    let second = db.snapshot();
    db.merge("m", "2").unwrap();
    db.flush().unwrap();
    drop((first, second));
    let old = ReadOptions { snapshot: Some(db.snapshot()), ..ReadOptions::default() };
    db.delete_range("a", "z").unwrap();
    // This search ends at the first operand, since the tombstone covers it.
    assert_eq!(get(&db, "m"), None);
    assert_eq!(db.get_opt(&old, &family, "m").unwrap().as_deref(), Some(&b"0,1,2"[..]));
    assert_eq!(db.get_opt(&old, &family, "m").unwrap().as_deref(), Some(&b"0,1,2"[..]));
    assert_eq!(get(&db, "m"), None);
    assert_eq!(scene.counts(), (2, 2));
}

#[test]
fn reads_that_pass_the_row_cache_by_leave_nothing_in_it() {
    let mut scene = RowScene::new();
    let db = scene.open();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    let family = db.default_column_family();
    let transient = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    db.get_opt(&transient, &family, "a").unwrap().unwrap();
    assert_eq!(db.range(..).count(), 1);
    for (soft_limit, async_io) in [(u64::MAX, false), (u64::MAX, true), (100, false)] {
        let transient = ReadOptions { value_size_soft_limit: soft_limit, async_io, ..transient.clone() };
        assert!(db.multi_get_opt(&transient, &family, &["a", "b"])[0].as_ref().unwrap().is_some());
    }
    assert_eq!(scene.rows.occupancy_count(), 0);
    drop(db);

    scene.options.cf.comparator = Arc::new(BytewiseComparatorWithU64Ts);
    let stamped = Db::open(&scene.options, "/stamped").unwrap();
    let family = stamped.default_column_family();
    stamped.put_with_ts(&esker::WriteOptions::default(), &family, "a", &[1; 8], "1").unwrap();
    stamped.flush().unwrap();
    let newest = ReadOptions::new().timestamp([2; 8].to_vec());
    stamped.get_opt(&newest, &family, "a").unwrap().unwrap();
    drop((stamped, family));

    scene.options.cf.comparator = Options::default().cf.comparator;
    let prepared =
        TransactionDbOptions { write_policy: WritePolicy::WritePrepared, ..TransactionDbOptions::default() };
    let db = TransactionDb::open(&scene.options, &prepared, "/prepared").unwrap();
    db.put("a", "1").unwrap();
    db.db().flush().unwrap();
    assert!(db.db().get("a").unwrap().is_some());
    assert_eq!(scene.rows.occupancy_count(), 0);
}

#[test]
fn a_cache_for_rows_and_blocks_of_two_databases_mixes_nothing_up() {
    let mut scene = RowScene::new();
    scene.options.cf.table.block_cache = Some(scene.rows.clone());
    let databases = [Db::open(&scene.options, "/one").unwrap(), Db::open(&scene.options, "/two").unwrap()];
    for (i, db) in databases.iter().enumerate() {
        for key in 0..100 {
            db.put(format!("{key:03}"), format!("{i}")).unwrap();
        }
        db.flush().unwrap();
    }
    for _ in 0..2 {
        for (i, db) in databases.iter().enumerate() {
            for key in 0..100 {
                assert_eq!(get(db, &format!("{key:03}")), some(&i.to_string()));
            }
        }
    }
    assert_eq!(scene.counts(), (200, 200));
}

#[test]
fn the_answers_of_random_histories_are_those_without_a_row_cache() {
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut scene = RowScene::new();
        if seed % 3 == 0 {
            // Rows come and go.
            let tiny = CacheOptions { num_shard_bits: 0, ..CacheOptions::with_capacity(2000) };
            scene.options.db.row_cache = Some(Arc::new(BlockCache::lru(&tiny).unwrap()));
        }
        scene.options.cf.enable_blob_files = seed % 2 == 1;
        let db = scene.open();
        let family = db.default_column_family();
        type State = BTreeMap<String, String>;
        let (mut model, mut snapshots): (State, Vec<(esker::Snapshot, State)>) = Default::default();
        for step in 0..600 {
            let key = format!("{:02}", rng.u32(..30));
            match rng.u32(..100) {
                0..25 => {
                    db.put(&key, step.to_string()).unwrap();
                    model.insert(key, step.to_string());
                }
                25..45 => {
                    db.merge(&key, step.to_string()).unwrap();
                    let value = model.remove(&key);
                    model.insert(key, value.map_or(step.to_string(), |v| format!("{v},{step}")));
                }
                45..52 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                52..55 => {
                    let end = format!("{:02}", rng.u32(..30));
                    if key < end {
                        db.delete_range(&key, &end).unwrap();
                        model.retain(|k, _| !(&key..&end).contains(&k));
                    }
                }
                55..57 => {
                    let path = format!("/in{step}.sst");
                    let mut writer = SstFileWriter::new(&scene.options);
                    writer.open(&path).unwrap();
                    writer.put(&key, "ingested").unwrap();
                    writer.finish().unwrap();
                    let options = IngestExternalFileOptions::default();
                    db.ingest_external_file_opt(&options, &family, &[&path]).unwrap();
                    model.insert(key, "ingested".to_owned());
                }
                57..59 => {
                    let mut batch = WriteBatch::new();
                    batch.delete_range("05", "10").unwrap();
                    batch.put("07", "in the range").unwrap();
                    db.write(&mut batch).unwrap();
                    model.retain(|k, _| !("05".."10").contains(&k.as_str()));
                    model.insert("07".to_owned(), "in the range".to_owned());
                }
                59..66 => db.flush().unwrap(),
                66..68 => db.compact_range(None, None).unwrap(),
                68..71 => snapshots.push((db.snapshot(), model.clone())),
                71..73 if !snapshots.is_empty() => drop(snapshots.swap_remove(rng.usize(..snapshots.len()))),
                73..78 => {
                    let keys: Vec<String> =
                        (0..rng.u32(2..12)).map(|_| format!("{:02}", rng.u32(..30))).collect();
                    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                    let options = ReadOptions { async_io: rng.bool(), ..ReadOptions::default() };
                    let expected: Vec<_> = keys.iter().map(|key| model.get(*key).cloned()).collect();
                    assert_eq!(many(&db, &options, &keys), expected, "seed {seed}, step {step}: {keys:?}");
                    if let Some((snapshot, then)) = rng.choice(&snapshots) {
                        let old = ReadOptions { snapshot: Some(snapshot.clone()), ..options };
                        let expected: Vec<_> = keys.iter().map(|key| then.get(*key).cloned()).collect();
                        assert_eq!(many(&db, &old, &keys), expected, "seed {seed}, step {step}: {keys:?}");
                    }
                }
                _ => {
                    assert_eq!(get(&db, &key), model.get(&key).cloned(), "seed {seed}, step {step}: {key}");
                    if let Some((snapshot, then)) = rng.choice(&snapshots) {
                        let old = ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() };
                        let found = db.get_opt(&old, &family, &key).unwrap();
                        let expected = then.get(&key).map(|value| value.clone().into_bytes());
                        assert_eq!(found, expected, "seed {seed}, step {step}: {key} at a snapshot");
                    }
                }
            }
        }
        let (hits, _) = scene.counts();
        assert!(hits > 20, "seed {seed}: {hits} hits");
    }
}
