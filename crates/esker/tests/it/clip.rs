//! Families that are clipped to a range, and tables that move from level 0 (`clip_column_family`,
//! `promote_l0`).

use esker::internals::env::mem::MemFs;
use esker::{Db, Env, ErrorKind, Options, comparator};
use esker_testkit::seed;
use std::collections::BTreeMap;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.target_file_size_base = 2 << 10;
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options
}

fn key(n: usize) -> String {
    format!("key{n:04}")
}

fn contents(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let items = db.iter().unwrap().into_iter().map(|item| item.unwrap());
    items.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn a_clipped_family_has_the_keys_of_the_range_and_nothing_else() {
    let mut rng = seed::rng("clip");
    for round in 0..10 {
        let options = options();
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        for step in 0..300 {
            let (a, b) = (key(rng.usize(..300)), key(rng.usize(..300)));
            match rng.u32(..20) {
                0..12 => db.put(&a, format!("{step}")).unwrap(),
                12..15 => db.merge(&a, "more").unwrap(),
                15 => db.delete(&a).unwrap(),
                16 => db.delete_range((&a).min(&b), (&a).max(&b)).unwrap(),
                17 if rng.bool() => db.compact_range(Some(a.as_bytes()), None).unwrap(),
                _ => db.flush().unwrap(),
            }
        }
        let (a, b) = (key(rng.usize(..320)), key(rng.usize(..320)));
        let (begin, end) = (a.as_str().min(&b), a.as_str().max(&b));
        let mut expected = contents(&db);
        expected.retain(|key, _| (begin.as_bytes()..end.as_bytes()).contains(&&key[..]));
        db.clip_column_family(&family, begin, end).unwrap();
        assert_eq!(contents(&db), expected, "round {round}: [{begin}, {end})");
        for file in db.live_files() {
            let within = |key: &[u8]| (begin.as_bytes()..end.as_bytes()).contains(&key);
            let (first, last) = (&file.smallest_key, &file.largest_key);
            assert!(within(first) && within(last), "round {round}: {file:?}");
            assert_eq!(file.num_deletions, 0, "round {round}");
        }
        drop((family, db));
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(contents(&db), expected, "round {round}: opened again");
    }
}

#[test]
fn a_snapshot_keeps_the_entries_of_tables_that_reach_into_the_range() {
    let db = Db::open(&options(), "/db").unwrap();
    (0..30).for_each(|n| db.put(key(n), "old").unwrap());
    let snapshot = db.snapshot();
    db.clip_column_family(&db.default_column_family(), key(10), key(20)).unwrap();
    assert_eq!(contents(&db).len(), 10);
    let family = db.default_column_family();
    let then = esker::ReadOptions::new().snapshot(&snapshot);
    assert!(db.get_opt(&then, &family, key(15)).unwrap().is_some());
    assert_eq!(db.get_opt(&then, &family, key(25)).unwrap().as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_range_that_ends_before_it_begins_and_a_family_with_timestamps_are_refused() {
    let mut options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("b", "here").unwrap();
    let family = db.default_column_family();
    let e = db.clip_column_family(&family, "c", "a").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert_eq!(contents(&db).len(), 1);
    db.clip_column_family(&family, "b", "b").unwrap();
    assert!(contents(&db).is_empty());
    options.cf.merge_operator = None;
    options.cf.comparator = comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let stamped = db.create_column_family("stamped", &options.cf).unwrap();
    let e = db.clip_column_family(&stamped, "a", "b").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
}

#[test]
fn tables_of_level_0_move_if_they_and_the_levels_allow_it() {
    let mut options = options();
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let levels = || db.live_files().iter().map(|file| file.level).collect::<Vec<_>>();
    let refused = |target, text: &str| {
        let before = levels();
        let e = db.promote_l0(&family, target).unwrap_err();
        assert!(e.kind() == ErrorKind::InvalidArgument && e.to_string().contains(text), "{e}");
        assert_eq!(levels(), before);
    };
    // Without tables nothing moves.
    db.promote_l0(&family, 3).unwrap();
    for n in [20, 0, 10] {
        (n..n + 10).for_each(|n| db.put(key(n), "value").unwrap());
        db.flush().unwrap();
    }
    refused(0, "Invalid target level");
    refused(-1, "Invalid target level");
    refused(7, "Target level does not exist");
    db.put("in memory", "stays").unwrap();
    db.promote_l0(&family, 3).unwrap();
    assert_eq!(levels(), [3, 3, 3]);
    let there = contents(&db);
    assert_eq!(there.len(), 31);
    db.flush().unwrap();
    refused(4, "All levels up to target_level must be empty");
    db.promote_l0(&family, 2).unwrap();
    for first in [1, 2] {
        db.put(key(first), "newer").unwrap();
        db.put(key(first + 2), "newer").unwrap();
        db.flush().unwrap();
    }
    refused(1, "L0 has overlapping files");
    drop((family, db));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"newer"[..]));
    assert_eq!(contents(&db).len(), 31);
    db.compact_range(None, None).unwrap();
    assert_eq!(contents(&db).len(), 31);
}

/// A manual compaction's plan names files by their levels, so no promotion may come between.
#[test]
fn a_promotion_waits_for_planned_compactions() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for n in 0..2 {
        db.put(key(n), "value").unwrap();
        db.flush().unwrap();
    }
    db.pause_background_work();
    std::thread::scope(|scope| {
        let compaction = scope.spawn(|| db.compact_range(None, None));
        // The plan is queued while background work rests.
        options.db.env.clock.sleep(std::time::Duration::from_millis(50));
        let promotion = scope.spawn(|| db.promote_l0(&db.default_column_family(), 6));
        options.db.env.clock.sleep(std::time::Duration::from_millis(50));
        db.continue_background_work().unwrap();
        compaction.join().unwrap().unwrap();
        // The compaction may have filled a level on the way: then the promotion is refused.
        let promoted = promotion.join().unwrap().map_err(|e| e.kind());
        assert!(matches!(promoted, Ok(()) | Err(ErrorKind::InvalidArgument)), "{promoted:?}");
    });
    db.put("after", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(contents(&db).len(), 3);
}
