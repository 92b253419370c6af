//! Iterators move to newer super versions by themselves. They release old files, and show the same
//! entries as before.

use super::*;
use crate::db::Db;
use crate::options::{BottommostLevelCompaction, CompactRangeOptions, Options};
use esker_base::stats::Ticker;
use esker_env::Env;
use esker_env::mem::MemFs;

const KEYS: usize = 300;

/// Options of a database in memory that compacts nothing by itself.
pub(super) fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = Some(crate::builtin::string_append(","));
    options
}

fn open() -> Db {
    Db::open(&options(), "/db").unwrap()
}

pub(super) fn key(i: usize) -> Vec<u8> {
    format!("key{i:04}").into_bytes()
}

/// Writes every key, or deletes the odd ones and writes the others, and puts all into fresh files.
fn replace_all(db: &Db, round: usize) {
    for i in 0..KEYS {
        match i % 2 {
            1 if round > 0 => db.delete(key(i)).unwrap(),
            _ => db.put(key(i), format!("value{round}")).unwrap(),
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
fn steps_go_on_at_the_same_place_and_release_the_old_super_version_within_a_block() {
    const BLOCK_SIZE: usize = 512;
    for backwards in [false, true] {
        let mut options = options();
        options.cf.table.block_size = BLOCK_SIZE;
        let db = Db::open(&options, "/db").unwrap();
        replace_all(&db, 0);
        let snapshot = db.snapshot();
        let options = ReadOptions::new().snapshot(&snapshot).auto_refresh_iterator_with_snapshot(true);
        let mut iter = iterator(&db, options);
        if backwards {
            iter.seek_to_last()
        } else {
            iter.seek_to_first()
        }
        let (mut shown, mut behind) = (Vec::new(), 0);
        while iter.valid() {
            shown.push((iter.key().to_vec(), iter.value().to_vec()));
            if shown.len() % 100 == 50 {
                replace_all(&db, shown.len());
                assert!(iter.is_outdated(), "the iterator holds the old super version until it moves");
            }
            if backwards {
                iter.prev()
            } else {
                iter.next()
            }
            behind = if iter.is_outdated() { behind + 1 } else { 0 };
            assert!(behind < BLOCK_SIZE / (key(0).len() + b"value0".len()), "a block has fewer rows");
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
fn seeks_release_the_old_super_version_too() {
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
    iter.refresh_at(&snapshot).unwrap();
    iter.seek("key0007");
    assert_eq!(iter.key(), b"key0007", "the iterator stays at its snapshot");
}

/// RocksDB's `Refresh()`, which is `Refresh(nullptr)`.
#[test]
fn a_refresh_leaves_the_snapshot_for_the_present() {
    let db = open();
    replace_all(&db, 0);
    for auto in [false, true] {
        let snapshot = db.snapshot();
        let options = ReadOptions::new().snapshot(&snapshot);
        let mut iter = iterator(&db, options.auto_refresh_iterator_with_snapshot(auto));
        drop(snapshot);
        replace_all(&db, 1);
        assert_eq!(
            db.property("rocksdb.num-snapshots").as_deref(),
            Some("1"),
            "only the iterator's snapshot counts"
        );
        iter.refresh().unwrap();
        assert!(!iter.valid());
        assert_eq!(db.property("rocksdb.num-snapshots").as_deref(), Some("0"));
        iter.seek_to_first();
        assert_eq!(iter.value(), b"value1");
        replace_all(&db, 2);
        iter.seek_to_first();
        assert_eq!(iter.value(), b"value1", "the iterator stays at its place after the refresh");
        replace_all(&db, 0);
    }
}

#[test]
fn without_a_snapshot_it_stays_at_its_point_in_time_and_lets_go_as_well() {
    let db = open();
    replace_all(&db, 0);
    let mut iter = iterator(&db, ReadOptions::new());
    assert_eq!(
        db.property("rocksdb.num-snapshots").as_deref(),
        Some("0"),
        "sequence numbers of iterators do not count"
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
fn refresh_at_moves_to_another_point_in_time() {
    let db = open();
    replace_all(&db, 0);
    let zero = db.snapshot();
    replace_all(&db, 1);
    let mut iter = iterator(&db, ReadOptions::new());
    replace_all(&db, 2);
    for (point, value) in [(None, "value1"), (Some(&zero), "value0"), (Some(&db.snapshot()), "value2")] {
        point.map_or(Ok(()), |snapshot| iter.refresh_at(snapshot)).unwrap();
        iter.seek_to_first();
        assert_eq!(iter.value(), value.as_bytes());
        replace_all(&db, 9);
        iter.next();
        assert_eq!(iter.value(), value.as_bytes(), "the iterator keeps its point in time");
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
fn pin_data_keeps_the_super_version() {
    let db = open();
    replace_all(&db, 0);
    let snapshot = db.snapshot();
    let pinned = ReadOptions { pin_data: true, ..ReadOptions::default() };
    for options in [pinned.clone().snapshot(&snapshot), pinned] {
        let mut iter = iterator(&db, options);
        iter.seek_to_first();
        replace_all(&db, 1);
        iter.next();
        assert!(matches!(iter.watched, Watched::Stays));
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
    let fresh = |iter: &DbIterator| -> Vec<usize> {
        let super_version = iter.cf.pinned_super_version();
        let Cursor::Plain(plain) = &iter.iter else { panic!("the family has no timestamps") };
        let prepared = plain.inner().prepare(&iter.cf, &super_version, &iter.options, plain.sequence());
        prepared.unwrap().fresh()
    };
    assert_eq!(fresh(&iter), [0; 0], "memtable, file, level");
    db.flush().unwrap();
    put(0, "later");
    assert_eq!(fresh(&iter), [0], "the memtable was flushed, and no reader needs the new one");
    iter.next();
    db.flush().unwrap();
    assert_eq!(fresh(&iter), [0]);
    iter.prev();
    assert_eq!(iter.item(), Some((&b"key0100"[..], &b"first file"[..])));
    db.compact_range(None, None).unwrap();
    assert_eq!(fresh(&iter), [0], "one level has all files");
    for (i, value) in [(99, "value0"), (98, "memtable"), (97, "first file")] {
        iter.prev();
        assert_eq!(iter.item(), Some((format!("key{i:04}").as_bytes(), value.as_bytes())));
    }
}

/// A database of small files, and a function that returns the number of block lookups in the cache.
fn open_counting() -> (Db, impl Fn() -> u64) {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.disable_auto_compactions = true;
    options.cf.target_file_size_base = 1 << 10;
    let lookups = move || {
        let tickers = [Ticker::BlockCacheHit, Ticker::BlockCacheMiss];
        tickers.map(|ticker| statistics.ticker_count(ticker)).iter().sum::<u64>()
    };
    (Db::open(&options, "/db").unwrap(), lookups)
}

#[test]
fn the_file_with_the_place_is_not_opened_again_when_others_of_its_level_are_compacted() {
    for backwards in [false, true] {
        let (db, lookups) = open_counting();
        replace_all(&db, 0);
        let mut iter = iterator(&db, ReadOptions::new());
        iter.seek("key0150");
        if backwards {
            iter.seek_for_prev("key0150");
        }
        let (first, last) = (b"key0000".as_slice(), b"key0010".as_slice());
        db.put(first, "another").unwrap();
        let rewrite = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        db.compact_range_opt(&rewrite, &db.default_column_family(), Some(first), Some(last)).unwrap();
        assert!(iter.is_outdated());
        let before = lookups();
        if backwards {
            iter.prev();
        } else {
            iter.next();
        }
        assert_eq!(iter.key(), if backwards { b"key0149" } else { b"key0151" });
        assert_eq!(lookups() - before, 0, "neither index nor block were looked up");
        let Cursor::Plain(plain) = &iter.iter else { unreachable!("the family has no timestamps") };
        assert!(plain.inner().keeps_nothing());
        while iter.valid() {
            assert_eq!(iter.value(), b"value0");
            if backwards {
                iter.prev();
            } else {
                iter.next();
            }
        }
        iter.status().unwrap();
    }
}

#[test]
fn a_file_that_moved_to_another_level_is_handed_over_with_its_place() {
    for (backwards, hides) in [(false, false), (true, false), (false, true), (true, true)] {
        let (db, lookups) = open_counting();
        let family = db.default_column_family();
        replace_all(&db, 0);
        let snapshot = db.snapshot();
        if hides {
            // The range tombstone vanishes with its file.
            db.delete_range("key0160", "key0170").unwrap();
        }
        db.put("key0140", "newer").unwrap();
        db.put("key0155", "newer").unwrap();
        db.flush().unwrap();
        let to = |level| CompactRangeOptions {
            change_level: true,
            target_level: level,
            ..CompactRangeOptions::default()
        };
        db.compact_range_opt(&to(4), &family, None, None).unwrap();
        let upper = ReadOptions { iterate_upper_bound: Some(b"key0200".to_vec()), ..ReadOptions::new() };
        let mut iter = iterator(&db, upper);
        let mut expected = Vec::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            expected.push((key.to_vec(), value.to_vec()));
            iter.next();
        }
        iter.seek("key0150");
        if backwards {
            iter.seek_for_prev("key0150");
        }
        let at = expected.iter().position(|(key, _)| key == b"key0150").unwrap();
        db.compact_range_opt(&to(5), &family, None, None).unwrap();
        assert!(iter.is_outdated());
        let rest: Vec<_> = if backwards {
            expected[..at].iter().rev().cloned().collect()
        } else {
            expected[at + 1..].to_vec()
        };
        let before = lookups();
        for (i, (key, value)) in rest.iter().enumerate() {
            if backwards {
                iter.prev();
            } else {
                iter.next();
            }
            assert_eq!(iter.item(), Some((&key[..], &value[..])));
            assert!(i > 0 || lookups() == before, "the file has only moved");
        }
        if backwards {
            iter.prev();
        } else {
            iter.next();
        }
        assert!(!iter.valid());
        iter.status().unwrap();
        drop(snapshot);
    }
}

#[test]
fn gets_do_not_look_at_tailing() {
    let db = open();
    db.put("a", "1").unwrap();
    let (family, options) =
        (db.default_column_family(), ReadOptions { tailing: true, ..ReadOptions::default() });
    assert_eq!(db.get_opt(&options, &family, "a").unwrap().as_deref(), Some(&b"1"[..]));
    let values = db.multi_get_opt(&options, &family, &["a", "b"]);
    assert_eq!(values[0].as_ref().unwrap().as_deref(), Some(&b"1"[..]));
    assert!(values[1].as_ref().unwrap().is_none());
}

#[test]
fn a_tailing_iterator_shows_what_is_written_ahead_of_it() {
    let db = open();
    let put = |key: &str| db.put(key, key).unwrap();
    ["b", "d", "h"].into_iter().for_each(put);
    let options = || ReadOptions { tailing: true, ..ReadOptions::default() };
    let mut iter = iterator(&db, options());
    let at = |iter: &DbIterator| iter.item().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap());
    let some = |key: &str| Some(key.to_owned());
    iter.seek_to_first();
    assert_eq!(at(&iter), some("b"));
    put("c");
    iter.next();
    assert_eq!(at(&iter), some("c"), "a key written since is visible");
    db.delete("c").unwrap();
    db.delete_range("d", "e").unwrap();
    db.flush().unwrap();
    iter.next();
    assert_eq!(at(&iter), some("h"), "its own key and the next one are deleted");
    put("g");
    iter.prev();
    assert_eq!(at(&iter), some("g"));
    iter.next();
    iter.next();
    assert_eq!(at(&iter), None);
    put("i");
    iter.seek("h0");
    assert_eq!(at(&iter), some("i"));
    iter.status().unwrap();
    let refused = ReadOptions { snapshot: Some(db.snapshot()), ..options() };
    let error = db.iter_opt(refused, &db.default_column_family()).unwrap_err();
    assert_eq!(error.kind(), esker_base::ErrorKind::InvalidArgument);
    let error = iter.refresh_at(&db.snapshot()).unwrap_err();
    assert_eq!(error.kind(), esker_base::ErrorKind::InvalidArgument);
    put("k");
    iter.seek("j");
    assert_eq!(at(&iter), some("k"), "the iterator continues as before");
}

#[test]
fn empty_inverted_and_unbounded_ranges_are_what_they_say() {
    let db = open();
    replace_all(&db, 0);
    let count = |lower: Option<&str>, upper: Option<&str>| {
        let mut options = ReadOptions::new();
        options.iterate_lower_bound = lower.map(|key| key.as_bytes().to_vec());
        options.iterate_upper_bound = upper.map(|key| key.as_bytes().to_vec());
        let mut iter = iterator(&db, options);
        let (mut forward, mut backward) = (0, 0);
        iter.seek_to_first();
        while iter.valid() {
            forward += 1;
            iter.next();
        }
        iter.seek_to_last();
        while iter.valid() {
            backward += 1;
            iter.prev();
        }
        for target in ["", "key0007", "zzz"] {
            iter.seek(target);
            let found = iter.valid();
            iter.seek_for_prev(target);
            assert!(forward > 0 || !(found || iter.valid()), "{lower:?} to {upper:?} at {target:?}");
        }
        iter.status().unwrap();
        assert_eq!(forward, backward, "{lower:?} to {upper:?}");
        forward
    };
    assert_eq!(count(None, None), KEYS);
    assert_eq!(count(Some(""), None), KEYS);
    assert_eq!(count(Some("key0100"), None), KEYS - 100);
    assert_eq!(count(None, Some("key0100")), 100);
    assert_eq!(count(Some("key0100"), Some("key0100")), 0, "empty");
    assert_eq!(count(Some("key0100"), Some("key0050")), 0, "inverted");
    assert_eq!(count(None, Some("")), 0, "no key is below the empty key");
}

#[test]
fn an_iterator_goes_on_when_its_database_is_closed() {
    let db = open();
    replace_all(&db, 0);
    db.put("key0001", "in memory").unwrap();
    let mut iter = iterator(&db, ReadOptions::new());
    iter.seek_to_first();
    db.close().unwrap();
    for i in 0..KEYS {
        let value: &[u8] = if i == 1 { b"in memory" } else { b"value0" };
        assert_eq!(iter.item(), Some((format!("key{i:04}").as_bytes(), value)));
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
    iter.seek_for_prev("key0007");
    assert_eq!(iter.value(), b"value0");
    drop(db);
    iter.prev();
    assert_eq!(iter.key(), b"key0006");
    iter.refresh().unwrap();
    iter.seek_to_last();
    assert!(iter.valid());
}

#[test]
fn memory_of_a_long_scan_stays_flat_while_everything_is_replaced() {
    let db = open();
    replace_all(&db, 0);
    let mut iter = iterator(&db, ReadOptions::new());
    iter.seek_to_first();
    let super_versions: Vec<_> = (0..120)
        .map(|minute| {
            // All files and the memtable are replaced once more; the scan takes a step.
            replace_all(&db, minute);
            let Watched::SuperVersion(super_version) = &iter.watched else {
                panic!("the iterator does not follow the super versions")
            };
            let super_version = Arc::downgrade(super_version);
            iter.next();
            super_version
        })
        .collect();
    assert!(iter.valid());
    // The epoch still holds the old super versions; each read lets it advance.
    let mut held = usize::MAX;
    for _ in 0..1_000_000 {
        esker_base::sync::epoch::collect();
        held = super_versions.iter().filter(|super_version| super_version.strong_count() > 0).count();
        if held <= 1 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(held <= 1, "{held} of 120 super versions are held");
}

#[test]
fn a_super_version_with_the_same_files_costs_nothing_and_is_let_go() {
    let db = open();
    replace_all(&db, 0);
    db.put("key0010", "in memory").unwrap();
    for forward in [true, false] {
        let mut iter = iterator(&db, ReadOptions::new());
        iter.seek("key0009");
        for step in 0..10 {
            let family = db.default_column_family();
            let change = (step % 5).to_string();
            db.set_options(&family, &[("max_sequential_skip_in_iterations", &change)]).unwrap();
            let Cursor::Plain(plain) = &iter.iter else { panic!("the family has no timestamps") };
            let super_version = iter.cf.pinned_super_version();
            let prepared =
                plain.inner().prepare(&iter.cf, &super_version, &iter.options, plain.sequence()).unwrap();
            assert!(iter.is_outdated() && prepared.is_empty());
            if forward == (step % 4 < 2) {
                iter.next();
            } else {
                iter.prev();
            }
            assert!(!iter.is_outdated());
            let value: &[u8] = if iter.key() == b"key0010" { b"in memory" } else { b"value0" };
            assert_eq!(iter.value(), value);
        }
    }
}
