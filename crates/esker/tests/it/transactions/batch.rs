//! `WriteBatchWithIndex`, alone and over a database.

use super::options;
use esker::comparator::{BytewiseComparator, ReverseBytewiseComparator};
use esker::stats::{Statistics, Ticker};
use esker::txn::BatchEntry;
use esker::{ColumnFamilyId, Db, ErrorKind, ReadOptions, ValueType, WriteBatchWithIndex, builtin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const DEFAULT: ColumnFamilyId = ColumnFamilyId::DEFAULT;

fn batch() -> WriteBatchWithIndex {
    WriteBatchWithIndex::new(Arc::new(BytewiseComparator), true)
}

#[test]
fn a_batch_alone_answers_for_what_it_knows() {
    let operator = builtin::string_append(",");
    let get = |batch: &WriteBatchWithIndex, key: &str| {
        batch.get_from_batch(DEFAULT, Some(&operator), key.as_bytes())
    };
    let mut batch = batch();
    assert_eq!(get(&batch, "a").unwrap(), None);
    batch.put_cf(DEFAULT, b"a", b"1").unwrap();
    batch.put_cf(DEFAULT, b"a", b"2").unwrap();
    batch.put_cf(DEFAULT, b"b", b"1").unwrap();
    batch.delete_cf(DEFAULT, b"b").unwrap();
    batch.merge_cf(DEFAULT, b"b", b"x").unwrap();
    batch.merge_cf(DEFAULT, b"c", b"y").unwrap();
    batch.put_cf(DEFAULT, b"d", b"1").unwrap();
    batch.delete_range_cf(DEFAULT, b"d", b"f").unwrap();
    batch.merge_cf(DEFAULT, b"e", b"z").unwrap();
    assert_eq!(get(&batch, "a").unwrap().unwrap(), b"2");
    assert_eq!(get(&batch, "b").unwrap().unwrap(), b"x");
    assert_eq!(get(&batch, "c").unwrap_err().kind(), ErrorKind::MergeInProgress);
    assert_eq!(get(&batch, "d").unwrap(), None);
    assert_eq!(get(&batch, "e").unwrap().unwrap(), b"z");
    batch.put_cf(DEFAULT, b"d", b"3").unwrap();
    assert_eq!(get(&batch, "d").unwrap().unwrap(), b"3");
    batch.clear();
    assert_eq!(get(&batch, "d").unwrap(), None);
}

#[test]
fn a_roll_back_takes_ops_out_of_the_index_too() {
    let get = |batch: &WriteBatchWithIndex, key: &str| batch.get_from_batch(DEFAULT, None, key.as_bytes());
    let mut batch = batch();
    batch.put_cf(DEFAULT, b"a", b"1").unwrap();
    batch.set_save_point();
    batch.put_cf(DEFAULT, b"a", b"2").unwrap();
    batch.put_cf(DEFAULT, b"b", b"2").unwrap();
    assert_eq!(get(&batch, "a").unwrap().unwrap(), b"2");
    batch.rollback_to_save_point().unwrap();
    assert_eq!(get(&batch, "a").unwrap().unwrap(), b"1");
    assert_eq!(get(&batch, "b").unwrap(), None);
    batch.put_cf(DEFAULT, b"b", b"3").unwrap();
    assert_eq!(get(&batch, "b").unwrap().unwrap(), b"3");
    assert_eq!(batch.rollback_to_save_point().unwrap_err().kind(), ErrorKind::NotFound);
    batch.set_save_point();
    batch.pop_save_point().unwrap();
    assert_eq!(batch.pop_save_point().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(batch.len(), 2);
}

#[test]
fn the_iterator_over_a_batch_shows_each_key_newest_first() {
    let entry = |value_type, key: &str, value: &str| BatchEntry {
        value_type,
        key: key.as_bytes().to_vec(),
        value: value.as_bytes().to_vec(),
    };
    for overwrite in [true, false] {
        let mut batch = WriteBatchWithIndex::new(Arc::new(ReverseBytewiseComparator), overwrite);
        batch.put_cf(DEFAULT, b"a", b"1").unwrap();
        batch.put_cf(DEFAULT, b"b", b"1").unwrap();
        batch.delete_cf(DEFAULT, b"a").unwrap();
        batch.merge_cf(DEFAULT, b"b", b"2").unwrap();
        batch.put_cf(ColumnFamilyId(7), b"c", b"1").unwrap();
        let mut iter = batch.iter(DEFAULT).unwrap();
        assert!(!iter.valid());
        iter.seek_to_first();
        let mut found = Vec::new();
        while let Some(entry) = iter.entry() {
            found.push(entry.clone());
            iter.next();
        }
        let mut expected = vec![
            entry(ValueType::Merge, "b", "2"),
            entry(ValueType::Value, "b", "1"),
            entry(ValueType::Deletion, "a", ""),
        ];
        if !overwrite {
            expected.push(entry(ValueType::Value, "a", "1"));
        }
        assert_eq!(found, expected);
        iter.seek(b"aa");
        assert_eq!(iter.entry().unwrap().value_type, ValueType::Deletion);
        iter.prev();
        assert_eq!(iter.entry(), Some(&expected[1]));
        iter.seek_for_prev(b"b");
        assert_eq!(iter.entry(), Some(&expected[1]));
        iter.seek_to_last();
        assert_eq!(iter.entry(), expected.last());
        iter.next();
        assert!(!iter.valid());
    }
}

#[test]
fn a_batch_over_a_database_reads_as_if_it_were_written() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.default_column_family();
    for key in ["a", "b", "c", "d", "e", "f", "g"] {
        db.put(key, "old").unwrap();
    }
    db.flush().unwrap();
    db.put("h", "old").unwrap();
    let mut batch = batch();
    batch.delete_range_cf(DEFAULT, b"c", b"f").unwrap();
    batch.put_cf(DEFAULT, b"d", b"new").unwrap();
    batch.merge_cf(DEFAULT, b"a", b"m").unwrap();
    batch.merge_cf(DEFAULT, b"e", b"m").unwrap();
    batch.delete_cf(DEFAULT, b"g").unwrap();
    batch.put_cf(DEFAULT, b"bb", b"new").unwrap();
    batch.single_delete_cf(DEFAULT, b"h").unwrap();
    batch.put_cf(DEFAULT, b"i", b"new").unwrap();
    let expected: Vec<(&str, &str)> = vec![
        ("a", "old,m"),
        ("b", "old"),
        ("bb", "new"),
        ("d", "new"),
        ("e", "m"),
        ("f", "old"),
        ("i", "new"),
    ];
    let options = ReadOptions::default();
    let mut iter = batch.iter_with_base(&db, &options, &family).unwrap();
    // The iterator sees neither later writes of others nor later ops of the batch.
    db.put("aa", "late").unwrap();
    batch.put_cf(DEFAULT, b"j", b"late").unwrap();
    let item = |iter: &esker::txn::TransactionIterator| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        iter.item().map(|(key, value)| (text(key), text(value)))
    };
    let owned = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    iter.seek_to_first();
    for pair in &expected {
        assert_eq!(item(&iter), Some(owned(pair)));
        iter.next();
    }
    assert!(!iter.valid() && iter.status().is_ok());
    iter.seek_to_last();
    for pair in expected.iter().rev() {
        assert_eq!(item(&iter), Some(owned(pair)));
        iter.prev();
    }
    assert!(!iter.valid());
    iter.seek("c");
    assert_eq!(item(&iter), Some(owned(&expected[3])));
    iter.prev();
    assert_eq!(item(&iter), Some(owned(&expected[2])));
    iter.next();
    assert_eq!(item(&iter), Some(owned(&expected[3])));
    iter.seek_for_prev("ccc");
    assert_eq!(item(&iter), Some(owned(&expected[2])));
    for (key, value) in &expected {
        let found = batch.get_from_batch_and_db(&db, &options, &family, key.as_bytes()).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()), "{key}");
    }
    for key in ["c", "g", "h", "k"] {
        let found = batch.get_from_batch_and_db(&db, &options, &family, key.as_bytes()).unwrap();
        assert_eq!(found, None, "{key}");
    }
    // The late op is in the index by now, and the iterator still does not see it.
    assert!(batch.get_from_batch_and_db(&db, &options, &family, b"j").unwrap().is_some());
    iter.seek("i");
    assert_eq!(item(&iter), Some(owned(&expected[6])));
    iter.next();
    assert!(!iter.valid(), "{:?}", item(&iter));
    db.write(&mut batch).unwrap();
    for (key, value) in expected {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{key}");
    }
    assert_eq!(db.get("c").unwrap(), None);
}

#[test]
fn random_batches_over_random_databases_read_as_what_is_there_when_they_are_written() {
    esker_testkit::seed::for_each_seed("batch_over_db", 20, |_, mut rng| {
        let db = Db::open(&options(), "/db").unwrap();
        let family = db.default_column_family();
        let key = |rng: &mut fastrand::Rng| format!("{:02}", rng.u8(..40)).into_bytes();
        let mut batch = batch();
        let mut model = esker::WriteBatch::new();
        for step in 0..400 {
            let (a, b) = (key(&mut rng), key(&mut rng));
            let (low, high) = if a < b { (&a, &b) } else { (&b, &a) };
            let value = step.to_string().into_bytes();
            let in_db = step < 200;
            match rng.u8(..10) {
                0..=3 if in_db => db.put(&a, &value).unwrap(),
                4 if in_db => db.delete(&a).unwrap(),
                5 if in_db => db.delete_range(low, high).unwrap(),
                6 if in_db && rng.u8(..8) == 0 => db.flush().unwrap(),
                _ if in_db => db.merge(&a, &value).unwrap(),
                0..=3 => batch.put_cf(DEFAULT, &a, &value).unwrap(),
                4 | 5 => batch.delete_cf(DEFAULT, &a).unwrap(),
                6 => batch.delete_range_cf(DEFAULT, low, high).unwrap(),
                7 => batch.set_save_point(),
                8 => drop(batch.rollback_to_save_point()),
                _ => batch.merge_cf(DEFAULT, &a, &value).unwrap(),
            }
            if !in_db && rng.u8(..8) == 0 {
                batch.get_from_batch_and_db(&db, &ReadOptions::default(), &family, &a).unwrap();
            }
        }
        let options = ReadOptions::default();
        let mut iter = batch.iter_with_base(&db, &options, &family).unwrap();
        let gets: Vec<_> = (0..40u8)
            .map(|i| {
                let key = format!("{i:02}");
                batch.get_from_batch_and_db(&db, &options, &family, key.as_bytes()).unwrap()
            })
            .collect();
        let keys: Vec<Vec<u8>> = (0..rng.usize(..120)).map(|_| key(&mut rng)).collect();
        for (key, value) in keys.iter().zip(batch.multi_get_from_batch_and_db(&db, &options, &family, &keys))
        {
            let number: usize = std::str::from_utf8(key).unwrap().parse().unwrap();
            assert_eq!(value.unwrap().as_deref(), gets[number].as_deref(), "{}", key.escape_ascii());
        }
        model.append(batch.write_batch()).unwrap();
        db.write(&mut model).unwrap();
        for (i, value) in gets.iter().enumerate() {
            assert_eq!(*value, db.get(format!("{i:02}")).unwrap(), "key {i}");
        }
        let mut written = db.iter().unwrap();
        written.seek_to_first();
        iter.seek_to_first();
        for _ in 0..600 {
            assert_eq!(iter.item(), written.item());
            let target = key(&mut rng);
            match rng.u8(..4) {
                0 => (iter.seek(&target), written.seek(&target)),
                1 => (iter.seek_for_prev(&target), written.seek_for_prev(&target)),
                2 if iter.valid() => (iter.next(), written.next()),
                _ if iter.valid() => (iter.prev(), written.prev()),
                _ => (iter.seek_to_last(), written.seek_to_last()),
            };
        }
        iter.status().unwrap();
    });
}

#[test]
fn keys_of_which_a_batch_says_nothing_are_read_together() {
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let keys: Vec<String> = (0..100).map(|i| format!("{i:03}")).collect();
    for key in &keys {
        db.put(key, key).unwrap();
    }
    db.flush().unwrap();
    let mut batch = batch();
    batch.put_cf(DEFAULT, b"007", b"new").unwrap();
    batch.delete_range_cf(DEFAULT, b"020", b"030").unwrap();
    batch.merge_cf(DEFAULT, b"050", b"m").unwrap();
    let before = statistics.ticker_count(Ticker::NumberMultigetKeysRead);
    let values = batch.multi_get_from_batch_and_db(&db, &ReadOptions::default(), &family, &keys);
    assert_eq!(statistics.ticker_count(Ticker::NumberMultigetCalls), 1);
    assert_eq!(statistics.ticker_count(Ticker::NumberMultigetKeysRead) - before, 88);
    for (i, (key, value)) in keys.iter().zip(values).enumerate() {
        let expected = match i {
            7 => Some("new".to_owned()),
            20..30 => None,
            50 => Some("050,m".to_owned()),
            _ => Some(key.clone()),
        };
        assert_eq!(value.unwrap().as_deref(), expected.as_ref().map(String::as_bytes), "{key}");
    }
}

#[test]
fn a_batch_of_keys_is_read_as_of_one_point_in_time_beside_writers() {
    let db = Db::open(&options(), "/db").unwrap();
    let family = db.default_column_family();
    db.put("a", "0").unwrap();
    db.put("b", "0").unwrap();
    let mut own = batch();
    own.merge_cf(DEFAULT, b"a", b"own").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=2000 {
                let mut both = esker::WriteBatch::new();
                both.put_cf(DEFAULT, b"a", i.to_string().as_bytes()).unwrap();
                both.put_cf(DEFAULT, b"b", i.to_string().as_bytes()).unwrap();
                db.write(&mut both).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            let values = own.multi_get_from_batch_and_db(&db, &ReadOptions::default(), &family, &["a", "b"]);
            let value = |i: usize| values[i].as_ref().unwrap().as_ref().unwrap().to_vec();
            assert_eq!(value(0), [&value(1)[..], b",own"].concat());
        }
    });
}
