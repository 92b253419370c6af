//! Pre-scans visit runs of deletions in a memtable while they are written, in any order, at a
//! bounded cost.

use super::super::{Stop, resume_pre_scan};
use crate::db::Db;
use crate::options::{ColumnFamilyOptions, Options};
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Arc;
use esker_env::Env;
use esker_env::mem::MemFs;

/// Keys of the tests. All but the first and the last are deleted.
const KEYS: usize = 4000;
/// After this many deletions a pre-scan is due. A scan may step over as many entries.
const RUN: u64 = 256;

struct Scene {
    db: Db,
    statistics: Arc<Statistics>,
}

fn key(i: usize) -> String {
    format!("key{i:06}")
}

/// A scene whose values are in a file.
fn scene(change: impl FnOnce(&mut ColumnFamilyOptions)) -> Scene {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.statistics = Some(statistics.clone());
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.pre_scan_min_entries = RUN;
    options.cf.table.block_size = 512;
    change(&mut options.cf);
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    db.flush().unwrap();
    Scene { db, statistics }
}

/// The keys that a scan from one end shows, and the number of entries it stepped over.
fn scan(scene: &Scene, backward: bool) -> (Vec<String>, u64) {
    let before = scene.statistics.ticker_count(Ticker::NumberIterSkip);
    let mut iter = scene.db.iter().unwrap();
    let mut shown = Vec::new();
    if backward {
        iter.seek_to_last()
    } else {
        iter.seek_to_first()
    }
    while let Some((key, _)) = iter.item() {
        shown.push(String::from_utf8(key.to_vec()).unwrap());
        if backward { iter.prev() } else { iter.next() }
    }
    iter.status().unwrap();
    drop(iter);
    (shown, scene.statistics.ticker_count(Ticker::NumberIterSkip) - before)
}

fn scanned(db: &Db) -> u64 {
    db.int_property("rocksdb.num-pre-scanned-entries").unwrap()
}

fn ends() -> Vec<String> {
    vec![key(0), key(KEYS - 1)]
}

/// Orders in which all keys but the ends are deleted.
fn orders() -> Vec<Vec<usize>> {
    let upward: Vec<_> = (1..KEYS - 1).collect();
    let downward = upward.iter().rev().copied().collect();
    let outward = (0..KEYS / 2 - 1).flat_map(|i| [KEYS / 2 - 1 - i, KEYS / 2 + i]).collect();
    let in_turns = (1..KEYS / 2).flat_map(|i| [i, KEYS / 2 + i - 1]).collect();
    let scattered = (0..KEYS - 2).map(|i| 1 + i * 1171 % (KEYS - 2)).collect();
    vec![upward, downward, outward, in_turns, scattered]
}

#[test]
fn the_first_scan_over_deletions_in_memory_finds_the_way_across() {
    for (number, order) in orders().into_iter().enumerate() {
        for backward in [false, true] {
            let scene = scene(|_| {});
            let old = scene.db.snapshot();
            for i in &order {
                scene.db.delete(key(*i)).unwrap();
                // A pause after each group of deletions, as if the next came much later.
                if i % 64 == 0 {
                    scene.db.wait_for_background_work().unwrap();
                }
            }
            scene.db.wait_for_background_work().unwrap();
            let (mut shown, skipped) = scan(&scene, backward);
            shown.sort();
            assert_eq!(shown, ends());
            // A scan steps over the keys deleted since the last pre-scan, and their values, in one
            // or two runs.
            let most = if number < 3 { KEYS / 4 } else { KEYS / 2 } as u64;
            assert!(skipped < most, "order {number}: {skipped} entries");
            let entries = scanned(&scene.db);
            let deletions = KEYS as u64 + 512;
            assert!(entries >= deletions && entries < 10 * deletions, "order {number}: {entries} entries");
            if number < 3 {
                assert!(entries < 4 * deletions, "each run is scanned once: {entries} entries");
            }
            drop(old);
        }
    }
}

#[test]
fn keys_put_back_are_shown_and_older_snapshots_keep_theirs() {
    let scene = scene(|_| {});
    let db = &scene.db;
    let before = db.snapshot();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    db.wait_for_background_work().unwrap();
    assert_eq!(scan(&scene, false).0, ends());
    db.put(key(77), "back").unwrap();
    db.merge(key(78), "no operator").unwrap_err();
    (1000..2000).for_each(|i| db.put(key(i), "back").unwrap());
    let between = db.snapshot();
    (1000..2000).for_each(|i| db.delete(key(i)).unwrap());
    db.wait_for_background_work().unwrap();
    assert_eq!(scan(&scene, false).0, [key(0), key(77), key(KEYS - 1)]);
    let count = |snapshot| {
        let options = crate::options::ReadOptions::new().snapshot(snapshot);
        let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
        iter.seek_to_first();
        let mut count = 0;
        while iter.valid() {
            count += 1;
            iter.next();
        }
        count
    };
    assert_eq!((count(&before), count(&between)), (KEYS, 1003));
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(scan(&scene, true).0, [key(KEYS - 1), key(77), key(0)]);
    assert_eq!((count(&before), count(&between)), (KEYS, 1003));
}

#[test]
fn nothing_is_looked_at_where_nothing_is_sampled_or_nothing_lies_below() {
    type Change = fn(&mut ColumnFamilyOptions);
    let never: [Change; 3] = [
        |options| options.pre_scan_min_entries = 0,
        |options| options.deleted_run_memory_min_keys = 0,
        |options| options.pre_scan_min_entries = 2 * KEYS as u64,
    ];
    for change in never {
        let scene = scene(change);
        (1..KEYS - 1).for_each(|i| scene.db.delete(key(i)).unwrap());
        scene.db.wait_for_background_work().unwrap();
        assert_eq!((scanned(&scene.db), scan(&scene, false).0), (0, ends()));
    }
    let scene = scene(|_| {});
    (0..KEYS).for_each(|i| scene.db.put(format!("other{i:06}"), "").unwrap());
    (0..KEYS).for_each(|i| scene.db.delete(format!("other{i:06}")).unwrap());
    scene.db.wait_for_background_work().unwrap();
    assert_eq!(scanned(&scene.db), 0, "no table has an entry of the run");
}

#[test]
fn keys_put_and_deleted_again_and_again_do_not_have_a_run_pre_scanned_each_time() {
    let scene = scene(|_| {});
    let db = &scene.db;
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    for round in 0..40 {
        for i in (1..KEYS - 1).step_by(29) {
            db.put(key(i), "back").unwrap();
            db.delete(key(i)).unwrap();
        }
        db.wait_for_background_work().unwrap();
        assert_eq!(scan(&scene, round % 2 == 0).0.len(), 2);
    }
    let deletions = KEYS as u64 + 40 * KEYS as u64 / 29;
    let entries = scanned(db);
    assert!(entries < 10 * deletions, "{entries} entries for {deletions} deletions");
}

#[test]
fn a_pause_leaves_what_is_not_looked_at_and_closing_ends_it() {
    let scene = scene(|_| {});
    let db = &scene.db;
    db.pause_background_work();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    assert_eq!(scanned(db), 0);
    assert!(!db.engine().state.lock().pre_scans.is_empty());
    // Resumes a job that was running when the pause began.
    resume_pre_scan(db.engine());
    let left = db
        .engine()
        .state
        .lock()
        .pre_scans
        .waiting
        .front()
        .map(|pre_scan| pre_scan.around.clone().unwrap().len());
    assert!(left.is_some_and(|left| left > 0), "{:?}: {left:?}", Stop::GiveWay);
    db.continue_background_work().unwrap();
    db.wait_for_background_work().unwrap();
    let (shown, skipped) = scan(&scene, false);
    assert_eq!(shown, ends());
    assert!(skipped < KEYS as u64 / 2, "{skipped} entries");
    db.pause_background_work();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    db.cancel_all_background_work(false).unwrap();
    db.close().unwrap();
}

#[test]
fn a_pre_scan_of_one_family_ends_beside_a_family_without_pre_scans() {
    let scene = scene(|_| ());
    let unseen = ColumnFamilyOptions { pre_scan_min_entries: 0, ..ColumnFamilyOptions::default() };
    let unseen = scene.db.create_column_family("unseen", &unseen).unwrap();
    scene.db.put_cf(&unseen, "key", "value").unwrap();
    scene.db.flush_opt(&crate::FlushOptions::default(), &[&unseen]).unwrap();
    for i in 1..KEYS - 1 {
        scene.db.delete(key(i)).unwrap();
    }
    scene.db.wait_for_background_work().unwrap();
    assert!(scanned(&scene.db) > 0);
}
