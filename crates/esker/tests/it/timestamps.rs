//! Families with user-defined timestamps: reads at every point in time match a model, through
//! flushes, compactions and reopenings.

mod counted;
mod ingested;
mod judged;
mod operands;
pub(crate) mod orders;
mod parts;
mod trim_history;
mod trimmed;

use esker::internals::env::mem::MemFs;
use esker::internals::format::cursor::InternalIterator;
use esker::internals::format::filter::FilterPolicy;
use esker::internals::format::properties::IndexType;
use esker::internals::internal_iterator;
use esker::options::{BottommostLevelCompaction, TargetVersion};
use esker::stats::{Statistics, Ticker};
use esker::{
    CompactRangeOptions, Db, Env, ErrorKind, Options, ParsedEntryInfo, ReadOptions, WriteBatch, WriteOptions,
};
use esker_testkit::seed::for_each_seed;
use esker_testkit::timestamps::TimestampFormat;
use orders::Stamped as _;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAMES: [&str; 2] = ["leveldb.BytewiseComparator.u64ts", "rocksdb.ReverseBytewiseComparator.u64ts"];

fn options(comparator: &str) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.comparator = esker::comparator::by_name(comparator).unwrap();
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options.cf.target_file_size_base = 2 << 10;
    options.cf.table.block_size = 256;
    options
}

fn ts(n: u64) -> [u8; 8] {
    n.to_le_bytes()
}

fn at(n: u64) -> ReadOptions {
    ReadOptions { timestamp: Some(ts(n).to_vec()), ..ReadOptions::default() }
}

/// An operation of the history.
#[derive(Clone)]
enum Event {
    Put(String, String),
    Delete(String),
    Merge(String, String),
    /// A deletion of the keys between two keys in the family's order, the first included.
    DeleteRange(String, String),
}

/// Keys and values as of `point`, with the timestamps of the newest visible writes.
fn state(history: &[(u64, Event)], point: u64) -> BTreeMap<String, (String, u64)> {
    let mut state: BTreeMap<String, (String, u64)> = BTreeMap::new();
    for (time, event) in history.iter().filter(|(time, _)| *time <= point) {
        match event {
            Event::Put(key, value) => drop(state.insert(key.clone(), (value.clone(), *time))),
            Event::Delete(key) => drop(state.remove(key)),
            Event::Merge(key, operand) => {
                let entry = state.entry(key.clone()).or_default();
                let joined = [entry.0.as_str(), operand].join(",");
                *entry = (if entry.1 == 0 { operand.clone() } else { joined }, *time);
            }
            Event::DeleteRange(a, b) => {
                let (low, high) = (a.min(b), a.max(b));
                // In a reversed order the first key is the larger one; the last is still excluded.
                let gone =
                    |key: &String| if a <= b { key >= low && key < high } else { key > low && key <= high };
                state.retain(|key, _| !gone(key));
            }
        }
    }
    state
}

fn check(db: &Db, history: &[(u64, Event)], point: u64, is_reverse: bool) {
    check_by(TimestampFormat::STOCK, db, history, point, is_reverse);
}

/// Checks scans in both directions, seeks and gets, with timestamps of this `format`.
fn check_by(format: TimestampFormat, db: &Db, history: &[(u64, Event)], point: u64, is_reverse: bool) {
    let at = |point| format.at(point);
    let mut expected: Vec<_> = state(history, point).into_iter().collect();
    if is_reverse {
        expected.reverse();
    }
    let mut iter = db.iter_opt(at(point), &db.default_column_family()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let item =
        |iter: &esker::DbIterator| (text(iter.key()), (text(iter.value()), format.time(iter.timestamp())));
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        forward.push(item(&iter));
        iter.next();
    }
    iter.seek_to_last();
    while iter.valid() {
        backward.push(item(&iter));
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(forward, expected, "at {point}");
    assert_eq!(backward, expected, "backward at {point}");
    for key in (0..20).map(|n| format!("k{n:02}")) {
        let expected = expected.iter().find(|(k, _)| *k == key).map(|(_, v)| v.clone());
        let got = db.get_with_timestamp(&at(point), &db.default_column_family(), &key).unwrap();
        let got = got.map(|(value, time)| (text(&value), format.time(&time)));
        assert_eq!(got, expected, "{key} at {point}");
        let several = db.multi_get_opt(&at(point), &db.default_column_family(), &[&key]);
        let value = several[0].as_ref().unwrap().as_ref().map(|v| text(v));
        assert_eq!(value, expected.as_ref().map(|(v, _)| v.clone()), "{key} at {point}");
        iter.seek(&key);
        let there = iter.valid().then(|| item(&iter));
        let is_at_or_behind = |k: &str| if is_reverse { k <= key.as_str() } else { k >= key.as_str() };
        assert_eq!(there.as_ref(), forward.iter().find(|(k, _)| is_at_or_behind(k)), "seek {key} at {point}");
        iter.seek_for_prev(&key);
        let there = iter.valid().then(|| item(&iter));
        let is_at_or_before = |k: &str| if is_reverse { k >= key.as_str() } else { k <= key.as_str() };
        assert_eq!(
            there.as_ref(),
            forward.iter().rfind(|(k, _)| is_at_or_before(k)),
            "before {key} at {point}"
        );
    }
}

fn apply(db: &Db, time: u64, event: &Event) {
    apply_by(TimestampFormat::STOCK, db, time, event);
}

fn apply_by(format: TimestampFormat, db: &Db, time: u64, event: &Event) {
    let time = format.timestamp(time);
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    match event {
        Event::Put(key, value) => db.put_with_ts(&write, &family, key, &time, value),
        Event::Delete(key) => db.delete_with_ts(&write, &family, key, &time),
        Event::Merge(key, operand) => db.merge_with_ts(&write, &family, key, &time, operand),
        Event::DeleteRange(begin, end) => db.delete_range_with_ts(&write, &family, begin, end, &time),
    }
    .unwrap();
}

/// Rewrites the default family into new files.
pub(crate) fn rewrite(db: &Db) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&options, &db.default_column_family(), None, None).unwrap();
}

#[test]
fn every_point_in_time_is_read_as_it_was() {
    for_each_seed("timestamps", 6, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.cf.enable_blob_files = rng.bool();
        if seed > 1 {
            options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
            if rng.bool() {
                options.cf.table.index_type = IndexType::TwoLevel;
                options.cf.table.partition_filters = rng.bool();
                options.cf.table.decouple_partitioned_filters = rng.bool();
            }
            options.cf.table.metadata_block_size = 64;
        }
        let mut db = Db::open(&options, "/db").unwrap();
        let mut history = Vec::new();
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..20));
        for time in 1..400 {
            let event = match rng.u32(..20) {
                0..12 => Event::Put(key(&mut rng), format!("v{time}")),
                12..15 => Event::Delete(key(&mut rng)),
                15..18 => Event::Merge(key(&mut rng), format!("m{time}")),
                _ => {
                    let (a, b) = (key(&mut rng), key(&mut rng));
                    let (low, high) = (a.clone().min(b.clone()), a.max(b));
                    if is_reverse { Event::DeleteRange(high, low) } else { Event::DeleteRange(low, high) }
                }
            };
            apply(&db, time, &event);
            history.push((time, event));
            match rng.u32(..60) {
                0 | 1 => db.flush().unwrap(),
                2 => rewrite(&db),
                3 => {
                    db.close().unwrap();
                    drop(db);
                    db = Db::open(&options, "/db").unwrap();
                }
                _ => {}
            }
            if time % 40 == 0 {
                (0..4).for_each(|_| check(&db, &history, rng.u64(..time + 2), is_reverse));
            }
        }
        rewrite(&db);
        for point in [0, 1, 50, 100, 250, 399, u64::MAX] {
            check(&db, &history, point, is_reverse);
        }
        db.close().unwrap();
    });
}

#[test]
fn timestamps_in_memory_only_end_with_the_flush() {
    let mut options = options(NAMES[0]);
    options.db.compatible_with = TargetVersion::V8;
    options.cf.persist_user_defined_timestamps = false;
    let db = Db::open(&options, "/db").unwrap();
    let mut history: Vec<(u64, Event)> = Vec::new();
    for time in 1..=30 {
        let event = match time % 10 {
            9 => Event::Delete(format!("k{:02}", time % 7)),
            5 => Event::DeleteRange("k01".into(), "k03".into()),
            _ => Event::Put(format!("k{:02}", time % 7), format!("v{time}")),
        };
        apply(&db, time, &event);
        history.push((time, event));
    }
    (1..31).for_each(|point| check(&db, &history, point, false));
    let newest: Vec<_> = state(&history, 30).into_iter().map(|(k, (v, _))| (k, v)).collect();
    let check_newest = |db: &Db, timestamp: u64| {
        let mut iter = db.iter_opt(at(timestamp), &db.default_column_family()).unwrap();
        let mut found = Vec::new();
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            found
                .push((String::from_utf8(key.to_vec()).unwrap(), String::from_utf8(value.to_vec()).unwrap()));
            iter.next();
        }
        assert_eq!(found, newest);
    };
    db.flush().unwrap();
    check_newest(&db, 31);
    let error = db.get_opt(&at(30), &db.default_column_family(), "k01").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    rewrite(&db);
    check_newest(&db, 100);
    db.close().unwrap();
    drop(db);
    // The MANIFEST records it; the option need not.
    options.cf.persist_user_defined_timestamps = true;
    let db = Db::open(&options, "/db").unwrap();
    check_newest(&db, u64::MAX);
    assert!(db.get_opt(&at(30), &db.default_column_family(), "k01").is_err());
    db.close().unwrap();
}

#[test]
fn a_timestamp_is_wanted_where_there_are_some_and_nowhere_else() {
    let stamped = options(NAMES[0]);
    let db = Db::open(&stamped, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    let refused =
        |result: esker::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidArgument);
    refused(db.put("key", "value"));
    refused(db.delete_cf(&family, "key"));
    refused(db.put_with_ts(&write, &family, "key", &[1, 2, 3], "value"));
    let mut batch = WriteBatch::new();
    batch.put_cf(family.id(), b"short", b"value").unwrap();
    refused(db.write_opt(&write, &mut batch));
    refused(db.get("key").map(drop));
    refused(db.iter().map(drop));
    let short = ReadOptions { timestamp: Some(vec![1]), ..ReadOptions::default() };
    refused(db.get_opt(&short, &family, "key").map(drop));
    assert_eq!(db.get_opt(&at(9), &family, "key").unwrap(), None);
    db.close().unwrap();
    let mut plain = options(NAMES[0]);
    plain.cf.comparator = Options::default().cf.comparator;
    let db = Db::open(&plain, "/db").unwrap();
    let family = db.default_column_family();
    refused(db.put_with_ts(&write, &family, "key", &ts(1), "value"));
    refused(db.get_opt(&at(9), &family, "key").map(drop));
    refused(db.iter_opt(at(9), &family).map(drop));
    db.close().unwrap();
}

/// Versions from `from` to `to` as an iterator with `iter_start_ts` shows them, forward: key,
/// timestamp, and value or `None`.
fn versions(db: &Db, from: u64, to: u64) -> Vec<(String, u64, Option<String>)> {
    let options = ReadOptions { iter_start_ts: Some(ts(from).to_vec()), ..at(to) };
    let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
    let comparator = db.default_column_family().comparator().clone();
    let item = |iter: &esker::DbIterator| {
        let entry = ParsedEntryInfo::parse(iter.key(), &comparator).unwrap();
        assert_eq!(iter.timestamp(), entry.timestamp);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let value = (!entry.entry_type.is_point_deletion()).then(|| text(iter.value()));
        (text(entry.user_key), u64::from_le_bytes(entry.timestamp.try_into().unwrap()), value)
    };
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    iter.seek_to_first();
    while iter.valid() {
        forward.push(item(&iter));
        iter.next();
    }
    iter.status().unwrap();
    iter.seek_to_last();
    while iter.valid() {
        backward.push(item(&iter));
        iter.prev();
    }
    iter.status().unwrap();
    backward.reverse();
    assert_eq!(backward, forward, "backward from {from} to {to}");
    // Moves forward and backward from every position.
    iter.seek_to_first();
    for (i, here) in forward.iter().enumerate() {
        assert_eq!(&item(&iter), here);
        if i > 0 {
            iter.prev();
            assert_eq!(item(&iter), forward[i - 1]);
            iter.next();
            assert_eq!(&item(&iter), here);
        }
        iter.next();
    }
    forward
}

#[test]
fn all_versions_between_two_timestamps_are_shown() {
    for_each_seed("versions", 4, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.cf.enable_blob_files = rng.bool();
        let db = Db::open(&options, "/db").unwrap();
        let mut written: Vec<(String, u64, Option<String>)> = Vec::new();
        let mut low = 0;
        for time in 1..300 {
            let key = format!("k{:02}", rng.u32(..12));
            let event = match rng.u32(..4) {
                0 => Event::Delete(key.clone()),
                _ => Event::Put(key.clone(), format!("v{time}")),
            };
            apply(&db, time, &event);
            let value = matches!(event, Event::Put(..)).then(|| format!("v{time}"));
            written.push((key, time, value));
            match rng.u32(..40) {
                0 | 1 => db.flush().unwrap(),
                2 => rewrite(&db),
                3 if time > 100 => {
                    low = rng.u64(low..time);
                    db.increase_full_history_ts_low(&db.default_column_family(), &ts(low)).unwrap();
                }
                _ => {}
            }
            if time % 20 == 0 {
                let from = rng.u64(low..time + 1);
                let to = rng.u64(from..time + 2);
                let mut expected: Vec<_> =
                    written.iter().filter(|(_, t, _)| (from..=to).contains(t)).cloned().collect();
                expected.sort_by(|a, b| {
                    let keys = if is_reverse { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) };
                    keys.then(b.1.cmp(&a.1))
                });
                assert_eq!(versions(&db, from, to), expected, "from {from} to {to}");
            }
        }
    });
}

#[test]
fn history_before_a_timestamp_goes_and_is_refused() {
    for_each_seed("history", 6, |seed, mut rng| {
        let is_reverse = seed % 2 == 1;
        let mut options = options(NAMES[usize::from(is_reverse)]);
        options.cf.enable_blob_files = rng.bool();
        let mut db = Db::open(&options, "/db").unwrap();
        let (mut history, mut low) = (Vec::new(), 0);
        let key = |rng: &mut fastrand::Rng| format!("k{:02}", rng.u32(..20));
        for time in 1..400 {
            let event = match rng.u32(..20) {
                0..12 => Event::Put(key(&mut rng), format!("v{time}")),
                12..16 => Event::Delete(key(&mut rng)),
                16..18 => Event::Merge(key(&mut rng), format!("m{time}")),
                _ => {
                    let (a, b) = (key(&mut rng), key(&mut rng));
                    let (first, last) = (a.clone().min(b.clone()), a.max(b));
                    if is_reverse { Event::DeleteRange(last, first) } else { Event::DeleteRange(first, last) }
                }
            };
            apply(&db, time, &event);
            history.push((time, event));
            match rng.u32(..60) {
                0..3 => db.flush().unwrap(),
                3 => rewrite(&db),
                4 => {
                    db.close().unwrap();
                    drop(db);
                    db = Db::open(&options, "/db").unwrap();
                }
                5 | 6 => {
                    low = rng.u64(low..time + 1);
                    db.increase_full_history_ts_low(&db.default_column_family(), &ts(low)).unwrap();
                }
                _ => {}
            }
            if time % 25 == 0 {
                (0..3).for_each(|_| check(&db, &history, rng.u64(low..time + 2), is_reverse));
            }
        }
        let family = db.default_column_family();
        let trim = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            full_history_ts_low: Some(ts(390).to_vec()),
            ..CompactRangeOptions::default()
        };
        db.compact_range_opt(&trim, &family, None, None).unwrap();
        assert_eq!(db.full_history_ts_low(&family).unwrap(), ts(390));
        for point in [390, 395, 399, u64::MAX] {
            check(&db, &history, point, is_reverse);
        }
        let refused = db.get_opt(&at(389), &family, "k01").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        let lower = db.increase_full_history_ts_low(&family, &ts(389)).unwrap_err();
        assert_eq!(lower.kind(), ErrorKind::InvalidArgument);
        // Of the earlier writes, one version of each key is left, and operands.
        let before = versions_stored(&db).into_iter().filter(|(_, time)| *time < 390).count();
        assert!(before <= 20 + 60, "{before} of {}", history.len());
    });
}

/// Key and timestamp of each point entry.
fn versions_stored(db: &Db) -> Vec<(Vec<u8>, u64)> {
    let mut iter = internal_iterator(db, &db.default_column_family()).unwrap();
    let comparator = db.default_column_family().comparator().clone();
    let mut found = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        let entry = ParsedEntryInfo::parse(iter.key(), &comparator).unwrap();
        found.push((entry.user_key.to_vec(), u64::from_le_bytes(entry.timestamp.try_into().unwrap())));
        iter.next();
    }
    found
}

#[test]
fn deleted_keys_leave_nothing_once_no_reader_can_see_them() {
    let db = Db::open(&options(NAMES[0]), "/db").unwrap();
    let family = db.default_column_family();
    for time in 1..6 {
        apply(&db, time, &Event::Put("kept".into(), format!("v{time}")));
        apply(&db, time, &Event::Put("gone".into(), format!("v{time}")));
    }
    apply(&db, 6, &Event::Delete("gone".into()));
    let snapshot = db.snapshot();
    apply(&db, 7, &Event::Put("kept".into(), "v7".into()));
    let trim = |low: u64| {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            full_history_ts_low: Some(ts(low).to_vec()),
            ..CompactRangeOptions::default()
        };
        db.compact_range_opt(&options, &family, None, None).unwrap();
        versions_stored(&db).iter().map(|(k, t)| format!("{}@{t}", k.escape_ascii())).collect::<Vec<_>>()
    };
    assert_eq!(trim(5), ["gone@6", "gone@5", "gone@4", "kept@7", "kept@5", "kept@4"]);
    // The snapshot does not see the newest version, so that the one before it stays.
    assert_eq!(trim(8), ["kept@7", "kept@5"]);
    drop(snapshot);
    assert_eq!(trim(9), ["kept@7"]);
    assert_eq!(db.get_opt(&at(9), &family, "gone").unwrap(), None);
}

/// A family with prefixes of 2 bytes, and keys `aa0..aa3`, `ab0..ab3`, ... at timestamp 1; every
/// second one is deleted at 2.
fn of_prefixes(fs: Arc<dyn esker::internals::env::FileSystem>) -> Db {
    let mut options = options(NAMES[0]);
    options.db.env = Env::with_fs(fs);
    options.cf.prefix_extractor = Some(esker::internals::base::prefix::fixed(2));
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    for prefix in ["aa", "ab", "ac"] {
        for n in 0..4 {
            db.put_with_ts(&write, &family, format!("{prefix}{n}"), &ts(1), "value").unwrap();
            if n % 2 == 1 {
                db.delete_with_ts(&write, &family, format!("{prefix}{n}"), &ts(2)).unwrap();
            }
        }
    }
    db
}

#[test]
fn a_scan_by_prefix_stays_in_it_with_timestamps_too() {
    let db = of_prefixes(Arc::new(MemFs::new()));
    let family = db.default_column_family();
    for iter_start_ts in [None, Some(ts(1).to_vec())] {
        let options = ReadOptions { prefix_same_as_start: true, iter_start_ts, ..at(2) };
        let rows = |start: &dyn Fn(&mut esker::DbIterator), forward: bool| {
            let mut iter = db.iter_opt(options.clone(), &family).unwrap();
            start(&mut iter);
            let mut prefixes = Vec::new();
            while iter.valid() {
                prefixes.push(String::from_utf8(iter.key()[..2].to_vec()).unwrap());
                if forward { iter.next() } else { iter.prev() }
            }
            iter.status().unwrap();
            prefixes
        };
        let each = if options.iter_start_ts.is_some() { 6 } else { 2 };
        assert_eq!(rows(&|iter| iter.seek("ab"), true), vec!["ab"; each]);
        assert_eq!(rows(&|iter| iter.seek_for_prev("ab9"), false), vec!["ab"; each]);
        assert_eq!(rows(&|iter| iter.seek_to_first(), true), vec!["aa"; each]);
        assert_eq!(rows(&|iter| iter.seek_to_last(), false), vec!["ac"; each]);
        assert!(rows(&|iter| iter.seek("abx"), true).is_empty());
        assert!(rows(&|iter| iter.seek_for_prev("ab"), false).is_empty());
    }
}

#[test]
fn a_move_with_timestamps_passes_no_more_than_it_may() {
    let db = of_prefixes(Arc::new(MemFs::new()));
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    (0..100).for_each(|n| db.delete_with_ts(&write, &family, format!("b{n:02}"), &ts(2)).unwrap());
    db.put_with_ts(&write, &family, "c", &ts(2), "value").unwrap();
    for (most, is_too_few) in [(0, false), (20, true), (200, false)] {
        let options = ReadOptions { max_skippable_internal_keys: most, ..at(2) };
        let mut iter = db.iter_opt(options.clone(), &family).unwrap();
        for forward in [true, false] {
            if forward {
                iter.seek("b")
            } else {
                iter.seek_for_prev("b99")
            }
            assert_eq!(iter.valid(), !is_too_few);
            assert_eq!(iter.status().is_err_and(|e| e.kind() == ErrorKind::Incomplete), is_too_few);
        }
        // The next move starts a new count.
        iter.seek("ab0");
        iter.next();
        assert_eq!(iter.key(), b"ab2");
        // The filter must not be queried with the prefix alone.
        assert_eq!(db.get_opt(&options, &family, "b50").unwrap(), None);
        assert_eq!(db.get_entity(&options, &family, "b50").unwrap(), None);
    }
}

#[test]
fn batches_with_timestamps_keep_to_the_options_of_gets() {
    let fs = esker::internals::env::FaultFs::new(Arc::new(MemFs::new()));
    let db = of_prefixes(Arc::new(fs.clone()));
    let family = db.default_column_family();
    // Keys beyond the limit fail.
    let limited = ReadOptions { value_size_soft_limit: 7, ..at(2) };
    let kinds = |keys: &[&str], options: &ReadOptions| -> Vec<_> {
        let values = db.multi_get_opt(options, &family, keys).into_iter();
        values.map(|v| v.map(|v| v.is_some()).map_err(|e| e.kind())).collect()
    };
    let aborted = Err(ErrorKind::Aborted);
    assert_eq!(
        kinds(&["aa0", "aa1", "ab0", "aa2", "ab2"], &limited),
        [Ok(true), Ok(false), Ok(true), aborted, aborted]
    );
    let entities = db.multi_get_entity(&limited, &family, &["aa0", "ab0", "ab2"]);
    let entities: Vec<_> =
        entities.into_iter().map(|v| v.map(|v| v.is_some()).map_err(|e| e.kind())).collect();
    assert_eq!(entities, [Ok(true), Ok(true), aborted]);
    // Gets ignore the option.
    let tailing = ReadOptions { tailing: true, ..at(2) };
    assert!(db.get_opt(&tailing, &family, "aa0").unwrap().is_some());
    assert!(db.get_entity(&tailing, &family, "aa0").unwrap().is_some());
    assert_eq!(kinds(&["aa0", "aa1"], &tailing), [Ok(true), Ok(false)]);
}

#[test]
fn a_timestamp_is_refused_by_batches_where_keys_have_none() {
    let mut options = options(NAMES[0]);
    options.cf.comparator = Options::default().cf.comparator;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    db.put("key", "value").unwrap();
    for keys in [&["key"][..], &["key", "other"], &["key"; 40]] {
        for value in db.multi_get_opt(&at(9), &family, keys) {
            assert_eq!(value.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        for value in db.multi_get_entity(&at(9), &family, keys) {
            assert_eq!(value.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let pairs: Vec<_> = keys.iter().map(|key| (&family, key.as_bytes())).collect();
        for value in db.multi_get_cf(&at(9), &pairs) {
            assert_eq!(value.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}

/// A search for an absent key ends at its position, however many entries follow.
#[test]
fn an_entity_that_is_not_there_costs_no_more_than_a_value_that_is_not() {
    let fs = esker::internals::env::FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(NAMES[0]);
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.disable_auto_compactions = true;
    options.cf.table.no_block_cache = true;
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    db.put_with_ts(&write, &family, "z", &ts(1), "value").unwrap();
    (0..2000).for_each(|n| db.delete_with_ts(&write, &family, format!("b{n:04}"), &ts(2)).unwrap());
    db.flush().unwrap();
    let reads = |read: &dyn Fn()| {
        fs.list_ops(true);
        read();
        fs.take_ops().iter().filter(|op| op.kind == esker::internals::env::fault::OpKind::Read).count()
    };
    let of_value = reads(&|| assert_eq!(db.get_opt(&at(2), &family, "a").unwrap(), None));
    let of_entity = reads(&|| assert_eq!(db.get_entity(&at(2), &family, "a").unwrap(), None));
    assert_eq!(of_entity, of_value);
}

/// Families with timestamps keep many versions of their keys.
#[test]
fn a_step_over_a_key_of_many_versions_does_not_read_them_all() {
    use esker::internals::base::perf_context::{PerfContext, PerfLevel, set_perf_level};
    let mut options = options(NAMES[0]);
    options.cf.disable_auto_compactions = true;
    options.cf.table.no_block_cache = true;
    options.cf.target_file_size_base = 64 << 20;
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    (1..=2000).for_each(|n| db.put_with_ts(&write, &family, "a", &ts(n), "value").unwrap());
    db.put_with_ts(&write, &family, "b", &ts(1), "value").unwrap();
    db.flush().unwrap();
    set_perf_level(PerfLevel::EnableCount);
    let mut iter = db.iter_opt(at(2000), &family).unwrap();
    let before = PerfContext::current().block_read_count;
    iter.seek_to_first();
    iter.next();
    assert_eq!(iter.key(), b"b");
    let read = PerfContext::current().block_read_count - before;
    set_perf_level(PerfLevel::Disable);
    assert!(read < 10, "{read} blocks");
}

/// A get searches only files that may hold the key.
#[test]
fn gets_with_timestamps_ask_filters() {
    for (in_memory_only, partitioned) in [(false, false), (false, true), (true, false)] {
        let statistics = Arc::new(Statistics::new());
        let mut options = options(NAMES[0]);
        options.cf.disable_auto_compactions = true;
        options.cf.persist_user_defined_timestamps = !in_memory_only;
        options.db.compatible_with = TargetVersion::V8;
        options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
        if partitioned {
            (options.cf.table.index_type, options.cf.table.partition_filters) = (IndexType::TwoLevel, true);
            options.cf.table.metadata_block_size = 16;
        }
        options.cf.table.whole_key_filtering = true;
        options.db.statistics = Some(statistics.clone());
        let db = Db::open(&options, "/db").unwrap();
        let (write, family) = (WriteOptions::default(), db.default_column_family());
        for file in 0..10_u64 {
            for n in 0..20 {
                db.put_with_ts(&write, &family, format!("b{}", n * 10 + file), &ts(1 + file), "value")
                    .unwrap();
            }
            db.flush().unwrap();
        }
        let asked = |key: &str| {
            let count = |ticker| statistics.ticker_count(ticker);
            let before = (count(Ticker::BloomFilterUseful), count(Ticker::BloomFilterFullPositive));
            let value = db.get_opt(&at(100), &family, key).unwrap();
            let useful = count(Ticker::BloomFilterUseful) - before.0;
            (value.is_some(), useful, count(Ticker::BloomFilterFullPositive) - before.1)
        };
        assert_eq!(asked("b55"), (true, 9, 1), "one of ten files has the key");
        assert_eq!(asked("b55x"), (false, 10, 0), "no file has the key");
        assert_eq!(asked("a"), (false, 0, 0), "the key is before all files");
    }
}

#[test]
fn sizes_of_ranges_are_those_of_keys_without_their_timestamps() {
    for persisted in [true, false] {
        let mut options = options("leveldb.BytewiseComparator.u64ts");
        options.cf.persist_user_defined_timestamps = persisted;
        options.db.compatible_with = TargetVersion::V8;
        options.db.allow_concurrent_memtable_write = persisted;
        let db = Db::open(&options, "/db").unwrap();
        let family = db.default_column_family();
        for n in 0..1000_u64 {
            let key = format!("a key with a number {n:04}");
            db.put_with_ts(&WriteOptions::default(), &family, key, &ts(n), [7; 50]).unwrap();
        }
        let key = |n: u64| format!("a key with a number {n:04}").into_bytes();
        let sizes = |size: &dyn Fn(&[u8], &[u8]) -> u64| {
            [
                (b"a".to_vec(), b"b".to_vec()),
                (key(0), key(500)),
                (key(500), key(1000)),
                (b"b".to_vec(), b"z".to_vec()),
            ]
            .map(|(begin, end)| size(&begin, &end))
        };
        for in_files in [false, true] {
            let [all, first, second, none] = match in_files {
                false => sizes(&|begin, end| db.approximate_memtable_size(&family, begin, end)),
                true => {
                    db.flush().unwrap();
                    db.compact_range(None, None).unwrap();
                    sizes(&|begin, end| db.approximate_size(&family, begin, end))
                }
            };
            let what = format!("{all} = {first} + {second}, persisted: {persisted}, in files: {in_files}");
            assert!(all >= 50_000 * u64::from(!in_files), "{what}");
            assert!(first.abs_diff(second) < all / 4 && all.abs_diff(first + second) < all / 4, "{what}");
            assert!(first > all / 4 && none == 0, "{what}");
        }
    }
}

#[test]
fn an_entity_without_a_timestamp_is_refused_however_long_its_key() {
    for name in NAMES {
        let db = Db::open(&options(name), "/db").unwrap();
        let (family, write) = (db.default_column_family(), WriteOptions::default());
        let columns: [(&[u8], &[u8]); 1] = [(b"", b"value")];
        for key in ["k", "a key longer than a timestamp"] {
            let error = db.put_entity(&write, &family, key, &columns).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            let groups = [esker::AttributeGroup { column_family: &family, columns: &columns }];
            let error = db.put_entity_attribute_groups(&write, key, &groups).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        }
        assert_eq!(db.latest_sequence_number().0, 0);
    }
}

#[test]
fn wals_tell_of_no_family_that_was_dropped() {
    let wal_of_one_row = |dropped: usize| {
        let mut options = options(NAMES[0]);
        options.db.compatible_with = TargetVersion::V11;
        let db = Db::open(&options, "/db").unwrap();
        for i in 0..dropped {
            let family = db.create_column_family(&format!("family {i}"), &options.cf).unwrap();
            db.put_with_ts(&WriteOptions::default(), &family, "key", &ts(1), "value").unwrap();
            db.drop_column_family(&family).unwrap();
        }
        db.put_with_ts(&WriteOptions::default(), &db.default_column_family(), "key", &ts(1), "value")
            .unwrap();
        // Otherwise the next file may record where this one ends.
        db.sync_wal().unwrap();
        db.flush().unwrap();
        db.put_with_ts(&WriteOptions::default(), &db.default_column_family(), "key", &ts(2), "value")
            .unwrap();
        let fs = &options.db.env.fs;
        let mut wals = fs.children("/db".as_ref()).unwrap();
        wals.retain(|name| name.ends_with(".log"));
        let newest = wals.into_iter().max().unwrap();
        fs.file_size(&std::path::Path::new("/db").join(newest)).unwrap()
    };
    assert_eq!(wal_of_one_row(20), wal_of_one_row(0));
}
