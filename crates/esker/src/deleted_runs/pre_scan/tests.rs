//! Pre-scans read deleted runs before scans reach them, and stop for other work.

use super::*;
use crate::db::{ColumnFamilyHandle, Db};
use crate::options::{ColumnFamilyOptions, Options};
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_env::Env;
use esker_env::fault::{FaultFs, FaultRule, OpKind};
use esker_env::mem::MemFs;
use esker_format::deleted_runs::LongDeletedRun;

/// Number of keys. All but the first and the last are deleted.
const KEYS: usize = 2000;
/// Entries that a scan may step over in a run that was pre-scanned.
const FEW: u64 = 40;

struct Scene {
    db: Db,
    fs: FaultFs,
    statistics: Arc<Statistics>,
}

fn key(i: usize) -> String {
    format!("key{i:06}")
}

/// A database with the values in one file and the deletions in another. `pre_scan`: the length from
/// which runs are pre-scanned.
fn scene(pre_scan: u64, change: impl FnOnce(&mut ColumnFamilyOptions)) -> Scene {
    let statistics = Arc::new(Statistics::new());
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.statistics = Some(statistics.clone());
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.disable_auto_compactions = true;
    options.cf.pre_scan_min_entries = pre_scan;
    options.cf.table.block_size = 512;
    change(&mut options.cf);
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    db.flush().unwrap();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    Scene { db, fs, statistics }
}

/// Runs a pre-scan over the whole run on this thread, with any options.
fn pre_scan_now(db: &Db) {
    let engine = db.engine();
    let span = LongDeletedRun { first: key(1).into(), last: key(KEYS - 2).into(), entries: KEYS as u64 };
    engine.state.lock().queue_pre_scans(db.default_column_family().id(), [&span]);
    resume_pre_scan(engine);
}

/// Lets `act` run in the middle of a pre-scan: at its `n`-th read of a table from now on.
fn at_read(scene: &Scene, n: u64, act: impl Fn(&Db) + Send + Sync + 'static) {
    let (db, reads) = (scene.db.clone(), AtomicU64::new(0));
    let walking = std::thread::current().id();
    scene.fs.on_op(move |op| {
        let counts = op.kind == OpKind::Read && std::thread::current().id() == walking;
        if counts && reads.fetch_add(1, Ordering::SeqCst) + 1 == n {
            act(&db);
        }
    });
}

/// The keys that a scan from the first key on shows, and the number of entries it stepped over.
fn scan(scene: &Scene) -> (Vec<String>, u64) {
    let before = scene.statistics.ticker_count(Ticker::NumberIterSkip);
    let mut iter = scene.db.iter().unwrap();
    let mut shown = Vec::new();
    iter.seek_to_first();
    while let Some((key, _)) = iter.item() {
        shown.push(String::from_utf8(key.to_vec()).unwrap());
        iter.next();
    }
    iter.status().unwrap();
    drop(iter);
    (shown, scene.statistics.ticker_count(Ticker::NumberIterSkip) - before)
}

fn ends() -> Vec<String> {
    vec![key(0), key(KEYS - 1)]
}

#[test]
fn the_first_scan_finds_the_way_across_known() {
    let scene = scene(1000, |_| {});
    let usage = scene.db.default_column_family().cf.super_version.load_full();
    let cache = usage.options.table.block_cache.clone().unwrap();
    let is_cached = |role| cache.role_stats().bytes(role);
    assert_eq!(is_cached(esker_cache::Role::DataBlock), 0, "a pre-scan leaves the cache alone");
    let scanned = scene.db.int_property("rocksdb.num-pre-scanned-entries").unwrap();
    assert!((KEYS as u64..3 * KEYS as u64).contains(&scanned), "{scanned} entries");
    let (shown, skipped) = scan(&scene);
    assert_eq!(shown, ends());
    assert!(skipped < FEW, "{skipped} entries");
}

#[test]
fn nothing_is_gone_through_unless_it_is_long_lies_over_something_and_may_be_remembered() {
    for (pre_scan, min_keys) in [(0, 64), (2 * KEYS as u64, 64), (1000, 0)] {
        let scene = scene(pre_scan, |options| options.deleted_run_memory_min_keys = min_keys);
        let (shown, skipped) = scan(&scene);
        assert_eq!(shown, ends());
        assert!(skipped > KEYS as u64 / 2, "{skipped} entries");
    }
    let lone = scene(1000, |_| {});
    (0..KEYS).for_each(|i| lone.db.delete(format!("other{i:06}")).unwrap());
    let engine = lone.db.engine();
    let span = LongDeletedRun { first: "other".into(), last: "otherwise".into(), entries: 5000 };
    lone.db.flush().unwrap();
    lone.db.wait_for_background_work().unwrap();
    engine.state.lock().queue_pre_scans(lone.db.default_column_family().id(), [&span]);
    assert!(engine.state.lock().pre_scans.is_empty(), "the table itself names the runs");
}

#[test]
fn a_compaction_that_moves_deletions_over_others_is_followed_by_a_pre_scan() {
    let scene = scene(1000, |_| {});
    let db = &scene.db;
    // The values move down two levels, the deletions one.
    let overwritten = scan(&scene);
    assert_eq!(overwritten.0, ends());
    (1..KEYS - 1).for_each(|i| db.put(key(i), "again").unwrap());
    db.compact_range(None, None).unwrap();
    let held = db.snapshot();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    db.put(key(0), "so that no sequence number is the last").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    let (shown, skipped) = scan(&scene);
    assert_eq!(shown, ends());
    assert!(skipped < FEW, "{skipped} entries");
    drop(held);
}

#[test]
fn concurrent_writes_are_found_and_the_pre_scan_goes_on_over_the_newer_super_version() {
    for n in [1, 2, 3, 5] {
        let scene = scene(0, |options| options.table.no_block_cache = true);
        at_read(&scene, n, |db| {
            db.put(key(700), "new").unwrap();
            db.put(key(1), "new").unwrap();
            db.flush().unwrap();
        });
        pre_scan_now(&scene.db);
        scene.fs.clear_hook();
        let (shown, skipped) = scan(&scene);
        assert_eq!(shown, [key(0), key(1), key(700), key(KEYS - 1)], "at read {n}");
        assert!(skipped < KEYS as u64 / 2, "at read {n}: {skipped} entries");
        scene.db.delete(key(700)).unwrap();
        assert_eq!(scan(&scene).0, [key(0), key(1), key(KEYS - 1)], "at read {n}");
    }
}

#[test]
fn it_looks_up_where_every_few_keys_one_is_there_too() {
    let scene = scene(0, |options| options.table.no_block_cache = true);
    // The deleted runs become too short for a skip.
    (1..KEYS).step_by(5).for_each(|i| scene.db.put(key(i), "new").unwrap());
    at_read(&scene, 6, Db::pause_background_work);
    let engine = scene.db.engine();
    let span =
        LongDeletedRun { first: key(1).into(), last: key(KEYS - 2).into(), entries: 100 * KEYS as u64 };
    engine.state.lock().queue_pre_scans(scene.db.default_column_family().id(), [&span]);
    resume_pre_scan(engine);
    scene.fs.clear_hook();
    let left = engine
        .state
        .lock()
        .pre_scans
        .waiting
        .front()
        .map(|pre_scan| (pre_scan.from.clone(), pre_scan.keys_there));
    let (from, there) = left.expect("the pre-scan stops for the pause");
    assert!(from > key(1).into_bytes() && from < key(1500).into_bytes(), "{}", from.escape_ascii());
    scene.db.continue_background_work().unwrap();
    scene.db.wait_for_background_work().unwrap();
    assert!(there > 10 && engine.state.lock().pre_scans.is_empty());
    let shown: Vec<_> = (0..KEYS).filter(|i| *i == 0 || *i == KEYS - 1 || i % 5 == 1).map(key).collect();
    assert_eq!(scan(&scene).0, shown);
}

#[test]
fn it_gives_way_to_a_pause_and_goes_on_behind_it() {
    let scene = scene(0, |options| options.table.no_block_cache = true);
    at_read(&scene, 6, Db::pause_background_work);
    pre_scan_now(&scene.db);
    scene.fs.clear_hook();
    let engine = scene.db.engine();
    let from = engine.state.lock().pre_scans.waiting.front().map(|pre_scan| pre_scan.from.clone()).unwrap();
    assert!(from > key(1).into_bytes() && from < key(KEYS - 2).into_bytes(), "{}", from.escape_ascii());
    scene.db.continue_background_work().unwrap();
    scene.db.wait_for_background_work().unwrap();
    assert!(engine.state.lock().pre_scans.is_empty());
    let (shown, skipped) = scan(&scene);
    assert_eq!(shown, ends());
    assert!(skipped < 2 * FEW, "{skipped} entries");
}

#[test]
fn closing_and_dropping_end_it() {
    type End = fn(&Db);
    let close: End = |db| db.cancel_all_background_work(false).unwrap();
    let scene = scene(0, |options| options.table.no_block_cache = true);
    at_read(&scene, 6, close);
    pre_scan_now(&scene.db);
    scene.fs.clear_hook();
    let scanned = scan(&scene);
    assert_eq!(scanned.0, ends());
    assert!(scene.db.engine().state.lock().pre_scans.is_empty());
    assert!(scanned.1 > KEYS as u64 / 2, "the pre-scan continued: {} entries", scanned.1);
    scene.db.close().unwrap();
}

#[test]
fn a_dropped_family_is_left() {
    let scene = scene(0, |_| {});
    let db = &scene.db;
    let family: ColumnFamilyHandle =
        db.create_column_family("other", &ColumnFamilyOptions::default()).unwrap();
    let pre_scan = PreScan {
        family: family.id(),
        from: key(0).into(),
        around: None,
        last: key(9).into(),
        passed: 0,
        most_entries: 100,
        deletions: 0,
        micros: 0,
        keys_there: 0,
        most_there: 1,
    };
    db.drop_column_family(&family).unwrap();
    db.engine().state.lock().pre_scans.waiting.push_back(pre_scan);
    resume_pre_scan(db.engine());
    assert!(db.engine().state.lock().pre_scans.is_empty());
}

#[test]
fn an_error_is_no_background_error() {
    let scene = scene(0, |options| options.table.no_block_cache = true);
    scene.fs.add_rule(FaultRule::fail(&[OpKind::Read]).nth(4));
    pre_scan_now(&scene.db);
    scene.fs.clear_rules();
    assert_eq!(scene.db.int_property("rocksdb.background-errors"), Some(0));
    scene.db.put("key", "value").unwrap();
    scene.db.delete("key").unwrap();
    assert_eq!(scan(&scene).0, ends());
}

#[test]
fn a_run_between_whose_keys_others_are_there_is_soon_left() {
    let scene = scene(0, |options| options.table.no_block_cache = true);
    let db = &scene.db;
    (1..KEYS).for_each(|i| db.put(format!("{}x", key(i)), "between").unwrap());
    db.flush().unwrap();
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    scene.fs.on_op(move |op| _ = counted.fetch_add(u64::from(op.kind == OpKind::Read), Ordering::SeqCst));
    pre_scan_now(db);
    scene.fs.clear_hook();
    let scanned = reads.swap(0, Ordering::SeqCst);
    assert!(scanned < 12, "{scanned} reads");
}
