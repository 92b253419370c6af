//! Transactions in families with user-defined timestamps: written without a timestamp, committed
//! with one.

use super::options;
use crate::timestamps::orders::Stamped as _;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::txn::LockMode;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, ErrorKind, FlushOptions, Options, ReadOptions,
    Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use esker_testkit::timestamps::{TimestampFormat, TimestampOrder};
use std::sync::Arc;

const INVALID: ErrorKind = ErrorKind::InvalidArgument;

/// Opens a database with a family `stamped`, whose keys have timestamps.
fn open_with(options: &Options, txn_options: &TransactionDbOptions) -> (TransactionDb, ColumnFamilyHandle) {
    let mut options = options.clone();
    options.db.create_missing_column_families = true;
    let mut stamped = options.cf.clone();
    stamped.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let families = vec![
        ColumnFamilyDescriptor::new("default", options.cf.clone()),
        ColumnFamilyDescriptor::new("stamped", stamped),
    ];
    let db = TransactionDb::open_cf(&options.db, txn_options, "/db", families).unwrap();
    let family = db.db().column_family("stamped").unwrap();
    (db, family)
}

fn open() -> (TransactionDb, ColumnFamilyHandle) {
    open_with(&options(), &TransactionDbOptions::default())
}

fn begin(db: &TransactionDb) -> Transaction {
    let options = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
    db.begin_transaction_opt(&WriteOptions::default(), &options)
}

fn at(timestamp: u64) -> ReadOptions {
    ReadOptions { timestamp: Some(timestamp.to_le_bytes().to_vec()), ..ReadOptions::default() }
}

fn read(db: &Db, family: &ColumnFamilyHandle, key: &str, timestamp: u64) -> Option<(String, u64)> {
    let (value, written) = db.get_with_timestamp(&at(timestamp), family, key).unwrap()?;
    let written = u64::from_le_bytes(written.as_slice().try_into().unwrap());
    Some((String::from_utf8(value.to_vec()).unwrap(), written))
}

fn for_update(
    txn: &mut Transaction,
    family: &ColumnFamilyHandle,
    key: &str,
) -> esker::Result<Option<Vec<u8>>> {
    txn.get_for_update_opt(&ReadOptions::default(), family, key, LockMode::Exclusive, true)
}

/// Puts `key` and commits at `timestamp`.
fn put_at(db: &TransactionDb, family: &ColumnFamilyHandle, key: &str, value: &str, timestamp: u64) {
    let txn = begin(db);
    txn.put_cf(family, key, value).unwrap();
    txn.set_commit_timestamp(timestamp).unwrap();
    txn.commit().unwrap();
}

#[test]
fn everything_is_written_at_the_commit_timestamp() {
    let (db, family) = open();
    let txn = begin(&db);
    txn.put_cf(&family, "a", "1").unwrap();
    txn.put("plain", "1").unwrap();
    txn.merge_cf(&family, "m", "x").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), INVALID);
    assert_eq!(db.db().get("plain").unwrap(), None, "the refused write is not visible");
    txn.set_commit_timestamp(10).unwrap();
    assert_eq!(txn.commit_timestamp(), Some(10));
    txn.commit().unwrap();
    assert_eq!(db.db().get("plain").unwrap().unwrap(), b"1");
    let txn = begin(&db);
    txn.delete_cf(&family, "a").unwrap();
    txn.merge_cf(&family, "m", "y").unwrap();
    txn.set_commit_timestamp(20).unwrap();
    txn.commit().unwrap();
    let read = |key, timestamp| read(db.db(), &family, key, timestamp);
    assert_eq!(read("a", 9), None);
    assert_eq!(read("a", 10), Some(("1".to_owned(), 10)));
    assert_eq!(read("a", 20), None);
    assert_eq!(read("m", 19), Some(("x".to_owned(), 10)));
    assert_eq!(read("m", 20), Some(("x,y".to_owned(), 20)));
    assert_eq!(db.get_lock_status_data(), []);
}

#[test]
fn a_commit_timestamp_is_wanted_only_for_what_is_still_in_the_batch() {
    let (db, family) = open();
    let txn = begin(&db);
    txn.put("plain", "1").unwrap();
    txn.set_save_point();
    txn.put_cf(&family, "a", "1").unwrap();
    txn.rollback_to_save_point().unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().get("plain").unwrap().unwrap(), b"1");
    assert_eq!(read(db.db(), &family, "a", 99), None);
}

#[test]
fn own_writes_are_read_whatever_the_timestamp_and_others_as_of_it() {
    let (db, family) = open();
    put_at(&db, &family, "a", "old", 10);
    put_at(&db, &family, "m", "x", 10);
    put_at(&db, &family, "m", "y", 20);
    let mut txn = begin(&db);
    let get = |txn: &mut Transaction, key, timestamp| {
        let value = txn.get_opt(&at(timestamp), &family, key).unwrap();
        value.map(|value| String::from_utf8(value).unwrap())
    };
    assert_eq!(get(&mut txn, "a", 10).as_deref(), Some("old"));
    assert_eq!(get(&mut txn, "a", 9), None);
    txn.put_cf(&family, "a", "new").unwrap();
    txn.merge_cf(&family, "m", "z").unwrap();
    assert_eq!(get(&mut txn, "a", 1).as_deref(), Some("new"));
    assert_eq!(get(&mut txn, "m", 1).as_deref(), Some("z"));
    assert_eq!(get(&mut txn, "m", 15).as_deref(), Some("x,z"));
    assert_eq!(get(&mut txn, "m", 20).as_deref(), Some("y,z"));
    txn.put_cf(&family, "m", "base").unwrap();
    txn.merge_cf(&family, "m", "w").unwrap();
    assert_eq!(get(&mut txn, "m", 20).as_deref(), Some("base,w"));
    txn.single_delete_cf(&family, "a").unwrap();
    assert_eq!(get(&mut txn, "a", 99), None);
    let all = txn.multi_get(&at(20), &family, &["a", "m"]);
    assert_eq!(all.iter().map(|value| value.as_ref().unwrap().is_some()).collect::<Vec<_>>(), [false, true]);
    // As in RocksDB, a read needs a timestamp, even if it only meets own writes.
    for key in ["a", "m", "none"] {
        let error = txn.get_opt(&ReadOptions::default(), &family, key).unwrap_err();
        assert_eq!(error.kind(), INVALID);
    }
}

#[test]
fn a_write_newer_than_the_read_timestamp_is_a_conflict() {
    let (db, family) = open();
    for flush in [false, true] {
        put_at(&db, &family, "a", "1", 10);
        put_at(&db, &family, "gone", "1", 10);
        let txn = begin(&db);
        txn.delete_cf(&family, "gone").unwrap();
        txn.set_commit_timestamp(30).unwrap();
        txn.commit().unwrap();
        let options = WriteOptions::default();
        db.db().delete_range_with_ts(&options, &family, "r", "s", &30u64.to_le_bytes()).unwrap();
        if flush {
            db.db().flush_opt(&FlushOptions::default(), &[&family]).unwrap();
        }
        let mut txn = begin(&db);
        assert_eq!(
            for_update(&mut txn, &family, "a").unwrap_err().kind(),
            INVALID,
            "a read without a read timestamp is refused"
        );
        txn.set_read_timestamp_for_validation(10).unwrap();
        assert_eq!(txn.set_read_timestamp_for_validation(9).unwrap_err().kind(), INVALID);
        assert_eq!(for_update(&mut txn, &family, "a").unwrap().unwrap(), b"1");
        for key in ["gone", "r1"] {
            assert_eq!(for_update(&mut txn, &family, key).unwrap_err().kind(), ErrorKind::Busy, "{key}");
            assert_eq!(txn.put_cf(&family, key, "2").unwrap_err().kind(), ErrorKind::Busy, "{key}");
            // The failed calls have locked no key.
            begin(&db).put_cf(&family, key, "2").unwrap();
        }
        txn.put_untracked(&family, "gone", "2").unwrap();
        txn.put_cf(&family, "s", "2").unwrap();
        let again = txn.get_for_update_opt(&at(11), &family, "a", LockMode::Exclusive, true);
        assert_eq!(again.unwrap_err().kind(), INVALID, "a second, different timestamp is refused");
        let blind = txn.get_for_update_opt(&at(10), &family, "a", LockMode::Exclusive, false);
        assert_eq!(blind.unwrap_err().kind(), INVALID, "a read timestamp is validated");
        assert_eq!(txn.set_commit_timestamp(10).unwrap_err().kind(), INVALID);
        txn.rollback().unwrap();
        txn.set_read_timestamp_for_validation(30).unwrap();
        assert_eq!(for_update(&mut txn, &family, "gone").unwrap(), None);
        txn.set_commit_timestamp(31).unwrap();
        txn.commit().unwrap();
    }
}

#[test]
fn without_validation_timestamps_are_no_conflicts_but_snapshots_are() {
    let txn_options =
        TransactionDbOptions { enable_udt_validation: false, ..TransactionDbOptions::default() };
    let (db, family) = open_with(&options(), &txn_options);
    put_at(&db, &family, "a", "1", 10);
    let mut txn = begin(&db);
    assert_eq!(for_update(&mut txn, &family, "a").unwrap().unwrap(), b"1", "the newest");
    txn.set_read_timestamp_for_validation(5).unwrap();
    assert_eq!(for_update(&mut txn, &family, "a").unwrap_err().kind(), INVALID);
    txn.put_cf(&family, "a", "2").unwrap();
    txn.set_commit_timestamp(5).unwrap();
    txn.rollback().unwrap();
    let txn = begin(&db);
    txn.set_snapshot();
    txn.put_cf(&family, "b", "1").unwrap();
    put_at(&db, &family, "a", "3", 20);
    assert_eq!(txn.put_cf(&family, "a", "4").unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn a_prepared_transaction_gets_its_timestamp_when_it_commits_and_a_crash_changes_nothing() {
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let (db, family) = open_with(&options, &TransactionDbOptions::default());
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    let prepare = |name: &str, key: &str| {
        let txn = db.begin_transaction_opt(&sync, &TransactionOptions::default());
        txn.set_name(name.as_bytes()).unwrap();
        txn.put_cf(&family, key, name).unwrap();
        txn.put(key, name).unwrap();
        txn.prepare().unwrap();
        txn
    };
    let (one, two, three) = (prepare("one", "a"), prepare("two", "b"), prepare("three", "c"));
    assert_eq!(one.commit().unwrap_err().kind(), INVALID);
    assert_eq!(read(db.db(), &family, "a", 99), None);
    one.set_commit_timestamp(10).unwrap();
    one.commit().unwrap();
    assert_eq!(read(db.db(), &family, "a", 99), Some(("one".to_owned(), 10)));
    let crashed = Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced()));
    drop((one, two, three, family, db));

    options.db.env = Env::with_fs(crashed);
    let (db, family) = open_with(&options, &TransactionDbOptions::default());
    assert_eq!(read(db.db(), &family, "a", 9), None);
    assert_eq!(read(db.db(), &family, "a", 99), Some(("one".to_owned(), 10)));
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"one");
    let error = begin(&db).put_cf(&family, "b", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "the key is locked");
    let two = db.get_transaction_by_name(b"two").unwrap();
    assert_eq!(two.get_opt(&at(1), &family, "b").unwrap().unwrap(), b"two");
    assert_eq!(two.commit().unwrap_err().kind(), INVALID);
    two.set_commit_timestamp(20).unwrap();
    two.commit().unwrap();
    db.get_transaction_by_name(b"three").unwrap().rollback().unwrap();
    for in_tables in [false, true] {
        assert_eq!(read(db.db(), &family, "b", 99), Some(("two".to_owned(), 20)), "{in_tables}");
        assert_eq!(read(db.db(), &family, "c", 99), None);
        db.db().flush_opt(&FlushOptions::default(), &[&family]).unwrap();
    }
}

#[test]
fn writes_without_a_timestamp_are_refused_outside_of_transactions_whatever_is_locked() {
    for skip_concurrency_control in [false, true] {
        let txn_options =
            TransactionDbOptions { skip_concurrency_control, ..TransactionDbOptions::default() };
        let (db, family) = open_with(&options(), &txn_options);
        let (write, key) = (WriteOptions::default(), "longer than a timestamp");
        for refused in [
            db.put_opt(&write, &family, key, "1"),
            db.delete_opt(&write, &family, key),
            db.merge_opt(&write, &family, key, "1"),
            db.delete_range_opt(&write, &family, key, "longer than a timestamp, too"),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotSupported);
        }
        assert_eq!(db.db().latest_sequence_number().0, 0);
    }
}

#[test]
fn timestamps_of_another_size_are_refused_at_open() {
    let (db, _) = open();
    let mut other = options().cf;
    other.comparator = Arc::new(Short);
    assert_eq!(db.create_column_family("short", &other).unwrap_err().kind(), INVALID);
}

/// A comparator with timestamps of 4 bytes.
#[derive(Debug)]
struct Short;

impl esker::comparator::Comparator for Short {
    fn name(&self) -> &str {
        "short"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.cmp(b)
    }
    fn timestamp_size(&self) -> usize {
        4
    }
}

/// The two timestamps may be set in either order.
#[test]
fn the_commit_timestamp_is_newer_than_the_one_that_was_read() {
    let (db, family) = open();
    put_at(&db, &family, "key", "value", 15);
    let txn = begin(&db);
    txn.set_commit_timestamp(10).unwrap();
    for older in [10, 20] {
        assert_eq!(txn.set_read_timestamp_for_validation(older).unwrap_err().kind(), INVALID);
    }
    txn.set_commit_timestamp(21).unwrap();
    txn.set_read_timestamp_for_validation(20).unwrap();
    txn.put_cf(&family, "key", "later").unwrap();
    txn.commit().unwrap();
    assert_eq!(read(db.db(), &family, "key", 21), Some(("later".to_owned(), 21)));
}

/// Versions at an earlier timestamp may have been dropped.
#[test]
fn nothing_is_validated_at_a_timestamp_before_the_history_that_is_left() {
    let (db, family) = open();
    put_at(&db, &family, "key", "value", 10);
    db.db().increase_full_history_ts_low(&family, &30_u64.to_le_bytes()).unwrap();
    let txn = begin(&db);
    txn.set_read_timestamp_for_validation(20).unwrap();
    assert_eq!(txn.put_cf(&family, "key", "older").unwrap_err().kind(), INVALID);
    let txn = begin(&db);
    txn.set_read_timestamp_for_validation(30).unwrap();
    txn.put_cf(&family, "key", "newer").unwrap();
}

#[test]
fn families_without_timestamps_are_not_read_as_of_one_over_own_writes_either() {
    let (db, _) = open();
    let default = db.db().default_column_family();
    let txn = begin(&db);
    txn.put("own", "value").unwrap();
    let since = ReadOptions { iter_start_ts: Some(vec![0; 8]), ..ReadOptions::default() };
    for key in ["own", "other"] {
        assert_eq!(txn.get_opt(&at(5), &default, key).unwrap_err().kind(), INVALID, "{key}");
    }
    for options in [at(5), since] {
        assert_eq!(txn.iter_opt(&options, &default).map(drop).unwrap_err().kind(), INVALID);
    }
}

/// The number whose eight bytes are the timestamp of `point` in the format `clock`.
fn number(clock: TimestampFormat, point: u64) -> u64 {
    u64::from_le_bytes(clock.timestamp(point).try_into().unwrap())
}

fn open_clocks(options: &Options, clocks: &[TimestampFormat]) -> (TransactionDb, Vec<ColumnFamilyHandle>) {
    let mut options = options.clone();
    options.db.create_missing_column_families = true;
    let mut families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    for (i, clock) in clocks.iter().enumerate() {
        let mut stamped = options.cf.clone();
        stamped.comparator = clock.comparator();
        families.push(ColumnFamilyDescriptor::new(format!("clock{i}"), stamped));
    }
    let db = TransactionDb::open_cf(&options.db, &TransactionDbOptions::default(), "/db", families).unwrap();
    let families = (0..clocks.len()).map(|i| db.db().column_family(&format!("clock{i}")).unwrap()).collect();
    (db, families)
}

#[test]
fn the_family_s_comparator_orders_the_timestamps_of_transactions() {
    for order in TimestampFormat::ORDERS {
        let clock = TimestampFormat::new(order, 8);
        let at = |point| number(clock, point);
        let mut options = options();
        options.db.avoid_flush_during_shutdown = true;
        let (db, families) = open_clocks(&options, &[clock]);
        let family = &families[0];
        for (point, value) in [(255, "older"), (1000, "newer")] {
            put_at(&db, family, "key", value, at(point));
        }
        let mut txn = begin(&db);
        txn.set_read_timestamp_for_validation(at(256)).unwrap();
        assert_eq!(for_update(&mut txn, family, "key").unwrap_err().kind(), ErrorKind::Busy, "{order:?}");
        assert_eq!(txn.set_read_timestamp_for_validation(at(255)).unwrap_err().kind(), INVALID, "{order:?}");
        txn.set_read_timestamp_for_validation(at(1000)).unwrap();
        assert_eq!(for_update(&mut txn, family, "key").unwrap().unwrap(), b"newer", "{order:?}");
        assert_eq!(txn.set_commit_timestamp(at(999)).unwrap_err().kind(), INVALID, "{order:?}");
        txn.put_cf(family, "key", "newest").unwrap();
        txn.set_name(b"prepared").unwrap();
        txn.prepare().unwrap();
        txn.set_commit_timestamp(at(1001)).unwrap();
        txn.commit().unwrap();
        drop((txn, families));
        db.db().close().unwrap();
        drop(db);
        let (db, families) = open_clocks(&options, &[clock]);
        let get = |point| {
            let value = db.db().get_opt(&clock.at(point), &families[0], "key").unwrap();
            value.map(|value| String::from_utf8(value.to_vec()).unwrap())
        };
        let found = [254, 255, 256, 1000, 1001, 5000].map(get);
        let expected = [None, Some("older"), Some("older"), Some("newer"), Some("newest"), Some("newest")];
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{order:?}");
        drop(families);
        db.db().close().unwrap();
    }
}

#[test]
fn a_commit_is_newer_than_what_was_read_in_each_family_that_it_writes_to() {
    let clocks =
        [TimestampFormat::new(TimestampOrder::Little, 8), TimestampFormat::new(TimestampOrder::Reverse, 8)];
    let (db, families) = open_clocks(&options(), &clocks);
    let txn = begin(&db);
    txn.set_read_timestamp_for_validation(100).unwrap();
    // The timestamp is newer in the first family only.
    txn.set_commit_timestamp(200).unwrap();
    for family in &families {
        txn.put_cf(family, "key", "value").unwrap();
    }
    let refused = txn.commit().unwrap_err();
    assert_eq!(refused.kind(), INVALID);
    assert!(refused.to_string().contains("clock1"), "{refused}");
    assert_eq!(
        db.db().get_opt(&at(300), &families[0], "key").unwrap(),
        None,
        "the refused write is not visible"
    );
    txn.rollback().unwrap();
    txn.put_cf(&families[1], "key", "value").unwrap();
    txn.set_commit_timestamp(50).unwrap();
    txn.commit().unwrap();
}
