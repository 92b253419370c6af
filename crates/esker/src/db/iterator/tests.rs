//! Iterators move to newer views by themselves: an iterator lets go of old files, and shows what it would have shown.

use super::*;
use crate::options::{BottommostLevelCompaction, CompactRangeOptions, Options};
use esker_env::Env;
use esker_env::mem::MemFs;

const KEYS: usize = 300;

fn open() -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    Db::open(&options, "/db").unwrap()
}

/// Writes every key, or deletes the odd ones and writes the others, and puts all into fresh files.
fn replace_all(db: &Db, round: usize) {
    for i in 0..KEYS {
        match i % 2 {
            1 if round > 0 => db.delete(format!("key{i:04}")).unwrap(),
            _ => db.put(format!("key{i:04}"), format!("value{round}")).unwrap(),
        }
    }
    let rewrite = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&rewrite, &db.default_column_family(), None, None).unwrap();
}

fn iterator(db: &Db, options: ReadOptions) -> DbIterator {
    db.iter_opt(options, &db.default_column_family()).unwrap()
}

#[test]
fn steps_go_on_at_the_same_place_and_release_the_old_view() {
    for backwards in [false, true] {
        let db = open();
        replace_all(&db, 0);
        let snapshot = db.snapshot();
        let options = ReadOptions::new().snapshot(&snapshot).auto_refresh_iterator_with_snapshot(true);
        let mut iter = iterator(&db, options);
        if backwards {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        let mut shown = Vec::new();
        while iter.valid() {
            shown.push((iter.key().to_vec(), iter.value().to_vec()));
            if shown.len() % 100 == 50 {
                replace_all(&db, shown.len());
                assert!(iter.is_outdated(), "it holds the old view until it moves");
            }
            if backwards {
                iter.prev()
            } else {
                iter.next()
            }
            assert!(!iter.is_outdated());
        }
        iter.status().unwrap();
        if backwards {
            shown.reverse();
        }
        let expected: Vec<_> =
            (0..KEYS).map(|i| (format!("key{i:04}").into_bytes(), b"value0".to_vec())).collect();
        assert_eq!(shown, expected);
    }
}

#[test]
fn seeks_release_the_old_view_too() {
    let db = open();
    replace_all(&db, 0);
    let snapshot = db.snapshot();
    let options = ReadOptions::new().snapshot(&snapshot).auto_refresh_iterator_with_snapshot(true);
    let mut iter = iterator(&db, options);
    let seeks: [fn(&mut DbIterator); 4] = [
        |iter| iter.seek_to_first(),
        |iter| iter.seek_to_last(),
        |iter| iter.seek("key0007"),
        |iter| iter.seek_for_prev("key0007"),
    ];
    for (round, seek) in seeks.into_iter().enumerate() {
        replace_all(&db, round + 1);
        assert!(iter.is_outdated());
        seek(&mut iter);
        assert!(!iter.is_outdated());
        assert_eq!(iter.value(), b"value0");
    }
    iter.refresh().unwrap();
    iter.seek("key0007");
    assert_eq!(iter.key(), b"key0007", "an iterator with a snapshot stays at it");
}

#[test]
fn without_a_snapshot_it_stays_at_its_moment_and_lets_go_as_well() {
    let db = open();
    replace_all(&db, 0);
    let mut iter = iterator(&db, ReadOptions::new());
    assert_eq!(
        db.property("rocksdb.num-snapshots").as_deref(),
        Some("0"),
        "what iterators hold does not count"
    );
    iter.seek_to_first();
    for i in 0..KEYS {
        assert_eq!(iter.item(), Some((format!("key{i:04}").as_bytes(), &b"value0"[..])));
        if i % 50 == 20 {
            replace_all(&db, i);
            assert!(iter.is_outdated());
        }
        iter.next();
        assert!(!iter.is_outdated());
    }
    assert!(!iter.valid());
    iter.status().unwrap();
    iter.refresh().unwrap();
    iter.seek_to_first();
    assert_eq!(iter.value(), b"value270");
    iter.next();
    assert_eq!(iter.key(), b"key0002", "odd keys are deleted now");
    drop(iter);
    assert_eq!(db.engine().snapshots.oldest(), None);
}

#[test]
fn refresh_at_moves_to_another_moment() {
    let db = open();
    replace_all(&db, 0);
    let zero = db.snapshot();
    replace_all(&db, 1);
    let mut iter = iterator(&db, ReadOptions::new());
    replace_all(&db, 2);
    for (moment, value) in [(None, "value1"), (Some(&zero), "value0"), (Some(&db.snapshot()), "value2")] {
        moment.map_or(Ok(()), |snapshot| iter.refresh_at(snapshot)).unwrap();
        iter.seek_to_first();
        assert_eq!(iter.value(), value.as_bytes());
        replace_all(&db, 9);
        iter.next();
        assert_eq!(iter.value(), value.as_bytes(), "it stays there");
    }
    let other = open();
    let error = iter.refresh_at(&other.snapshot()).unwrap_err();
    assert_eq!(error.kind(), esker_base::ErrorKind::InvalidArgument);
    let options = ReadOptions::new().snapshot(&other.snapshot());
    assert_eq!(
        db.iter_opt(options, &db.default_column_family()).unwrap_err().kind(),
        esker_base::ErrorKind::InvalidArgument
    );
}

#[test]
fn pin_data_keeps_the_view() {
    let db = open();
    replace_all(&db, 0);
    let snapshot = db.snapshot();
    let pinned = ReadOptions { pin_data: true, ..ReadOptions::default() };
    for options in [pinned.clone().snapshot(&snapshot), pinned] {
        let mut iter = iterator(&db, options);
        iter.seek_to_first();
        replace_all(&db, 1);
        iter.next();
        assert!(iter.watched.is_none());
        assert_eq!(iter.key(), b"key0001");
        drop(iter);
        replace_all(&db, 0);
    }
}

#[test]
fn a_flush_costs_one_new_cursor_and_a_compaction_those_of_its_levels() {
    let db = open();
    let put = |from: usize, value: &str| {
        (from..KEYS).step_by(3).for_each(|i| db.put(format!("key{i:04}"), value).unwrap());
    };
    put(0, "bottom");
    replace_all(&db, 0);
    put(1, "first file");
    db.flush().unwrap();
    put(2, "memtable");
    let mut iter = iterator(&db, ReadOptions::new());
    iter.seek("key0100");
    let fresh = |iter: &DbIterator| -> Vec<bool> {
        let view = pinned_view(&iter.cf);
        let Cursor::Plain(plain) = &iter.iter else { panic!("no timestamps here") };
        let prepared = plain.inner().prepare(&iter.cf, &view, &iter.options, plain.sequence());
        prepared.unwrap().iter().map(runs::Exchange::is_fresh).collect()
    };
    assert_eq!(fresh(&iter), [false; 3], "memtable, file, level");
    db.flush().unwrap();
    put(0, "later");
    assert_eq!(
        fresh(&iter),
        [true, false, false],
        "the memtable is a file now; the new one is seen by nobody"
    );
    iter.next();
    db.flush().unwrap();
    assert_eq!(fresh(&iter), [true, false, false, false]);
    iter.prev();
    assert_eq!(iter.item(), Some((&b"key0100"[..], &b"first file"[..])));
    db.compact_range(None, None).unwrap();
    assert_eq!(fresh(&iter), [true], "all in one level");
    for (i, value) in [(99, "value0"), (98, "memtable"), (97, "first file")] {
        iter.prev();
        assert_eq!(iter.item(), Some((format!("key{i:04}").as_bytes(), value.as_bytes())));
    }
}
