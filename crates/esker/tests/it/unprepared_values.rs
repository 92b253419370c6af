//! `allow_unprepared_value`: iterators that read values in blob files when they are asked to.

use crate::compat::put_entity_with_a_blob;
use esker::internals::base::stats::{Statistics, Ticker};
use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::options::{CompressionType, ReadTier};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, DbIterator, DbWithTtl, Env, ErrorKind, FlushOptions,
    OpenMode, Options, ReadOptions, TransactionDb, TransactionDbOptions, WriteOptions, builtin, comparator,
};
use esker_testkit::seed::for_each_seed;
use std::path::Path;
use std::sync::Arc;

const LARGE: usize = 400;

fn options() -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.blob_compression_type = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = Some(builtin::string_append(","));
    options
}

fn lazy() -> ReadOptions {
    ReadOptions::new().allow_unprepared_value(true)
}

fn bytes_of_blob_files(options: &Options) -> u64 {
    let statistics = options.db.statistics.as_ref().unwrap();
    statistics.ticker_count(Ticker::BlobDbBlobFileBytesRead)
}

fn flush(db: &Db, family: &ColumnFamilyHandle) {
    db.flush_opt(&FlushOptions::default(), &[family]).unwrap();
}

/// Flips a bit of the value in the only blob file of `/db`.
fn damage_a_value(fs: &dyn FileSystem) {
    let names = fs.children(Path::new("/db")).unwrap();
    let path = Path::new("/db").join(names.iter().find(|name| name.ends_with(".blob")).unwrap());
    let mut bytes = vec![0; fs.file_size(&path).unwrap() as usize];
    fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[200] ^= 1;
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

fn large(name: &str) -> Vec<u8> {
    name.bytes().cycle().take(LARGE).collect()
}

#[test]
fn a_value_in_a_blob_file_is_read_when_it_is_prepared_and_not_before() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "b", "d"] {
        db.put(key, large(key)).unwrap();
    }
    db.put("c", "small").unwrap();
    db.flush().unwrap();
    let family = db.default_column_family();
    let mut iter = db.iter_opt(lazy(), &family).unwrap();
    let before = bytes_of_blob_files(&options);
    for move_to in [DbIterator::seek_to_first, DbIterator::seek_to_last] {
        move_to(&mut iter);
        let step = if iter.key() == b"a" { DbIterator::next } else { DbIterator::prev };
        while iter.valid() {
            let expected: &[u8] = if iter.key() == b"c" { b"small" } else { b"" };
            assert_eq!(iter.value(), expected);
            assert_eq!(&iter.pinned_value()[..], expected);
            assert_eq!(iter.columns().len(), expected.len().min(1));
            step(&mut iter);
        }
        iter.status().unwrap();
    }
    assert_eq!(bytes_of_blob_files(&options), before, "a scan of keys reads no value");
    iter.seek("b");
    for _ in 0..2 {
        iter.prepare_value().unwrap();
        assert_eq!(iter.value(), large("b"));
        assert_eq!(&iter.pinned_value()[..], large("b"));
        assert_eq!(iter.columns(), [(&b""[..], &large("b")[..])]);
    }
    let read = bytes_of_blob_files(&options) - before;
    assert_eq!(read, LARGE as u64, "one value was read, once");
    iter.next();
    iter.prepare_value().unwrap();
    assert_eq!(iter.value(), b"small");
    // Gets ignore the option, also those of many keys.
    assert_eq!(db.get_opt(&lazy(), &family, "a").unwrap().unwrap(), large("a"));
    let both = db.multi_get_cf(&lazy(), &[(&family, b"a"), (&family, b"c")]);
    assert_eq!(both[0].as_ref().unwrap().as_ref().unwrap()[..], large("a"));
}

/// The value that `iter` shows, read if `rng` says so; `None` if it has not been read.
fn shown(iter: &mut DbIterator, rng: &mut fastrand::Rng, unread: &mut u64) -> Option<Vec<u8>> {
    if rng.u32(0..2) == 0 {
        iter.prepare_value().unwrap();
        assert!(!iter.value().is_empty());
    }
    *unread += u64::from(iter.value().is_empty());
    (!iter.value().is_empty()).then(|| iter.value().to_vec())
}

/// Walks at random with both iterators, and compares them.
fn walk_beside(db: &Db, family: &ColumnFamilyHandle, rng: &mut fastrand::Rng, with: &ReadOptions) -> u64 {
    let mut whole = db.iter_opt(with.clone(), family).unwrap();
    let options = ReadOptions { allow_unprepared_value: true, ..with.clone() };
    let mut iter = db.iter_opt(options, family).unwrap();
    let mut unread = 0;
    for _ in 0..60 {
        let key = format!("key{:02}", rng.u32(0..40));
        match rng.u32(0..8) {
            0 => (iter.seek(&key), whole.seek(&key)),
            1 => (iter.seek_for_prev(&key), whole.seek_for_prev(&key)),
            2 => (iter.seek_to_first(), whole.seek_to_first()),
            3 => (iter.seek_to_last(), whole.seek_to_last()),
            // The iterators move to another super version, and keep their place.
            4 if rng.u32(0..4) == 0 => (flush(db, family), ()),
            4 | 5 => (iter.next(), whole.next()),
            _ => (iter.prev(), whole.prev()),
        };
        iter.status().unwrap();
        whole.status().unwrap();
        assert_eq!(iter.valid(), whole.valid());
        if iter.valid() {
            assert_eq!(iter.key(), whole.key());
            let value = shown(&mut iter, rng, &mut unread);
            assert!(value.is_none_or(|value| value == whole.value()), "{}", whole.key().escape_ascii());
        }
    }
    unread
}

fn write_at_random(db: &Db, family: &ColumnFamilyHandle, rng: &mut fastrand::Rng, timestamp: Option<u64>) {
    for _ in 0..30 {
        let key = format!("key{:02}", rng.u32(0..40));
        let value = if rng.u32(0..2) == 0 { large(&key) } else { b"small".to_vec() };
        let Some(timestamp) = timestamp else {
            match rng.u32(0..8) {
                0 => db.delete_cf(family, &key).unwrap(),
                1 => db.merge_opt(&WriteOptions::default(), family, &key, "operand").unwrap(),
                2 => {
                    let columns: [(&[u8], &[u8]); 2] = [(b"", &value), (b"other", &value)];
                    db.put_entity(&WriteOptions::default(), family, &key, &columns).unwrap();
                }
                _ => db.put_cf(family, &key, &value).unwrap(),
            }
            continue;
        };
        let time = timestamp.to_le_bytes();
        match rng.u32(0..6) {
            0 => db.delete_with_ts(&WriteOptions::default(), family, &key, &time).unwrap(),
            _ => db.put_with_ts(&WriteOptions::default(), family, &key, &time, &value).unwrap(),
        }
    }
    flush(db, family);
}

#[test]
fn an_iterator_with_unprepared_values_walks_as_any_other() {
    let mut unread = 0;
    for_each_seed("unprepared_values", 20, |_, mut rng| {
        let rng = &mut rng;
        let mut options = options();
        let db = Db::open(&options, "/db").unwrap();
        options.cf.comparator = Arc::new(comparator::BytewiseComparatorWithU64Ts);
        options.cf.merge_operator = None;
        let stamped = db.create_column_family("stamped", &options.cf).unwrap();
        for time in 1..4u64 {
            write_at_random(&db, &db.default_column_family(), rng, None);
            write_at_random(&db, &stamped, rng, Some(time));
            unread += walk_beside(&db, &db.default_column_family(), rng, &ReadOptions::new());
            let at = ReadOptions::new().timestamp(time.to_le_bytes().to_vec());
            unread += walk_beside(&db, &stamped, rng, &at);
            let all = at.iter_start_ts(1u64.to_le_bytes().to_vec());
            let mut versions = db.iter_opt(all.clone(), &stamped).unwrap();
            let mut unprepared = db.iter_opt(all.allow_unprepared_value(true), &stamped).unwrap();
            versions.seek_to_first();
            unprepared.seek_to_first();
            while versions.valid() {
                assert_eq!(unprepared.key(), versions.key());
                if versions.value().len() == LARGE {
                    unread += u64::from(unprepared.value().is_empty());
                    unprepared.prepare_value().unwrap();
                }
                assert_eq!(unprepared.value(), versions.value());
                versions.next();
                unprepared.next();
            }
            assert!(!unprepared.valid());
        }
    });
    assert!(unread > 500, "only {unread} values were not read");
}

#[test]
fn merged_values_and_entities_are_read_at_once() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    put_entity_with_a_blob(&db);
    db.merge("b", "operand").unwrap();
    let mut iter = db.iter_opt(lazy(), &db.default_column_family()).unwrap();
    for round in 0..2 {
        if round == 0 {
            iter.seek_to_first()
        } else {
            iter.seek_for_prev("a")
        }
        assert_eq!(iter.columns().len(), 2);
        assert_eq!(iter.columns()[0].1.len(), 250);
        if round == 0 {
            iter.next()
        } else {
            iter.seek_for_prev("b")
        }
        assert_eq!(iter.value().len(), 250 + ",operand".len());
    }
    iter.seek("c");
    assert!(iter.value().is_empty());
}

#[test]
fn a_value_that_cannot_be_read_ends_its_iterator() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", large("a")).unwrap();
    db.put("b", "small").unwrap();
    db.flush().unwrap();
    let family = db.default_column_family();
    // All of the table is in the block cache, and no value in a blob cache.
    db.iter().unwrap().seek_to_first();
    let cached = lazy().read_tier(ReadTier::BlockCache);
    let mut iter = db.iter_opt(cached, &family).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.key(), b"a");
    let error = iter.prepare_value().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().kind(), ErrorKind::Incomplete);
    iter.seek("b");
    iter.prepare_value().unwrap();
    assert_eq!(iter.value(), b"small");

    drop((iter, db));
    damage_a_value(&*options.db.env.fs);
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let mut iter = db.iter_opt(lazy(), &family).unwrap();
    iter.seek_to_first();
    let error = iter.prepare_value().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains(".blob"), "{error}");
    assert!(!iter.valid());
    // Entries load every value, so the damage ends them.
    let mut iter = db.iter_opt(lazy(), &family).unwrap();
    iter.seek_to_first();
    let entries: Vec<_> = iter.into_iter().collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].as_ref().unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn entries_and_databases_with_ttl_load_every_value() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, large(key)).unwrap();
    }
    db.flush().unwrap();
    let family = db.default_column_family();
    let mut iter = db.iter_opt(lazy(), &family).unwrap();
    assert_eq!(db.iter_opt(lazy(), &family).unwrap().into_iter().count(), 3);
    iter.seek("b");
    assert!(iter.value().is_empty());
    for (i, entry) in iter.into_iter().enumerate() {
        assert_eq!(entry.unwrap().1, large(["b", "c"][i]));
    }
    for entry in db.range_opt(lazy(), &family, "a"..).rev() {
        assert_eq!(entry.unwrap().1.len(), LARGE);
    }

    let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
    let ttl = DbWithTtl::open(&options.db, "/ttl", [default], &[1000], OpenMode::ReadWrite).unwrap();
    ttl.put("a", large("a")).unwrap();
    ttl.base_db().flush().unwrap();
    let mut iter = ttl.iter_opt(lazy(), &ttl.base_db().default_column_family()).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.value().unwrap(), large("a"));
}

#[test]
fn iterators_of_transactions_and_over_families_prepare_values_too() {
    let options = options();
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    let default = db.db().default_column_family();
    for (family, value) in [(&default, "a"), (&other, "b")] {
        db.db().put_cf(family, "a", large(value)).unwrap();
        flush(db.db(), family);
    }
    let txn = db.begin_transaction();
    txn.put("b", "own").unwrap();
    let mut iter = txn.iter_opt(&lazy(), &default).unwrap();
    iter.seek_to_first();
    assert!(iter.value().is_empty());
    iter.prepare_value().unwrap();
    assert_eq!(iter.value(), large("a"));
    iter.next();
    iter.prepare_value().unwrap();
    assert_eq!(iter.value(), b"own");

    let mut iter = db.db().coalescing_iter(&lazy(), &[&default, &other]).unwrap();
    let before = bytes_of_blob_files(&options);
    iter.seek_to_first();
    assert!(iter.value().is_empty());
    assert_eq!(bytes_of_blob_files(&options), before);
    iter.prepare_value().unwrap();
    assert_eq!(iter.value(), large("b"));
    assert_eq!(iter.attribute_groups()[0].1, [(&b""[..], &large("a")[..])]);
    iter.next();
    assert!(!iter.valid());
    iter.prepare_value().unwrap();
}
