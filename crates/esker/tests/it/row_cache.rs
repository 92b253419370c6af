//! `row_cache`: gets that find the entries of a table in memory, and their answers.

use esker::comparator::BytewiseComparatorWithU64Ts;
use esker::internals::env::mem::MemFs;
use esker::options::{BlockCache, CacheOptions};
use esker::stats::{Statistics, Ticker};
use esker::txn::WritePolicy;
use esker::{
    Db, Env, IngestExternalFileOptions, Options, ReadOptions, ReadTier, SstFileWriter, TransactionDb,
    TransactionDbOptions, WriteBatch, builtin,
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
        let rows = Arc::new(BlockCache::new(&CacheOptions::with_capacity(8 << 20)).unwrap());
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
    assert!(db.multi_get(&["a", "b"])[0].as_ref().unwrap().is_some());
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
