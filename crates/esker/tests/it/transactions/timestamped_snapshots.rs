//! Snapshots by timestamps of the user: taken at any time, and with commits.

use super::{open, options};
use esker::comparator::BytewiseComparatorWithU64Ts;
use esker::txn::WritePolicy;
use esker::{
    BatchOp, ColumnFamilyOptions, ErrorKind, Snapshot, TransactionDb, TransactionDbOptions, WalReadOptions,
};
use std::sync::Arc;
use std::thread;

fn timestamps(snapshots: &[Snapshot]) -> Vec<u64> {
    snapshots.iter().map(|snapshot| snapshot.timestamp().unwrap()).collect()
}

#[test]
fn timestamped_snapshots_are_found_by_timestamp_and_by_range_until_they_are_released() {
    let db = open();
    assert!(db.latest_timestamped_snapshot().is_none() && db.all_timestamped_snapshots().is_empty());
    for timestamp in [10, 20, 30] {
        db.put("a", timestamp.to_string()).unwrap();
        let made = db.create_timestamped_snapshot(timestamp).unwrap();
        assert_eq!((made.timestamp(), made.sequence()), (Some(timestamp), db.db().latest_sequence_number()));
    }
    db.put("a", "newest").unwrap();
    assert_eq!(db.db().snapshot().timestamp(), None);
    let value =
        |timestamp: u64| db.timestamped_snapshot(timestamp).map(|found| found.get("a").unwrap().unwrap());
    assert_eq!(value(10).unwrap(), b"10");
    assert_eq!(value(20).unwrap(), b"20");
    assert_eq!(value(u64::MAX).unwrap(), b"30", "the latest");
    assert!(value(15).is_none() && value(0).is_none());
    assert_eq!(db.latest_timestamped_snapshot().unwrap().timestamp(), Some(30));
    let range = |from, to| timestamps(&db.timestamped_snapshots(from..to).unwrap());
    assert_eq!(
        (range(10, 30), range(11, 31), range(0, u64::MAX)),
        (vec![10, 20], vec![20, 30], vec![10, 20, 30])
    );
    assert_eq!(db.timestamped_snapshots(20..20).unwrap_err().kind(), ErrorKind::InvalidArgument);

    let held = db.timestamped_snapshot(10).unwrap();
    db.release_timestamped_snapshots_older_than(30);
    assert_eq!(timestamps(&db.all_timestamped_snapshots()), [30], "a snapshot of that timestamp stays");
    assert_eq!(held.get("a").unwrap().unwrap(), b"10", "a clone stays readable");
    db.release_timestamped_snapshots_older_than(u64::MAX);
    assert!(db.all_timestamped_snapshots().is_empty());
    assert_eq!(db.db().int_property("rocksdb.num-snapshots"), Some(1), "that of the test");
}

#[test]
fn timestamps_of_snapshots_do_not_fall_and_one_timestamp_names_one_state() {
    let db = open();
    db.put("a", "1").unwrap();
    let first = db.create_timestamped_snapshot(10).unwrap();
    let again = db.create_timestamped_snapshot(10).unwrap();
    assert_eq!((first.sequence(), db.all_timestamped_snapshots().len()), (again.sequence(), 1));
    let kind = |timestamp| db.create_timestamped_snapshot(timestamp).unwrap_err().kind();
    assert_eq!(kind(9), ErrorKind::InvalidArgument);
    assert_eq!(kind(u64::MAX), ErrorKind::InvalidArgument);
    db.put("a", "2").unwrap();
    assert_eq!(kind(10), ErrorKind::InvalidArgument, "the state is another one");
    assert!(db.create_timestamped_snapshot(11).is_ok());
}

#[test]
fn a_commit_creates_a_snapshot_at_its_own_number() {
    let db = open();
    let txn = db.begin_transaction();
    txn.put("a", "1").unwrap();
    assert_eq!(txn.commit_and_try_create_snapshot(None).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let snapshot = txn.commit_and_try_create_snapshot(Some(10)).unwrap().unwrap();
    assert_eq!((snapshot.timestamp(), snapshot.get("a").unwrap().unwrap()), (Some(10), b"1".to_vec()));
    assert_eq!(txn.timestamped_snapshot().unwrap().sequence(), snapshot.sequence());

    let prepared = db.begin_transaction();
    prepared.set_name(b"one").unwrap();
    prepared.put("a", "2").unwrap();
    prepared.set_commit_timestamp(20).unwrap();
    prepared.prepare().unwrap();
    let other = prepared.commit_and_try_create_snapshot(Some(21)).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::InvalidArgument, "the commit timestamp is another one");
    let snapshot = prepared.commit_and_try_create_snapshot(None).unwrap().unwrap();
    assert_eq!((snapshot.timestamp(), snapshot.get("a").unwrap().unwrap()), (Some(20), b"2".to_vec()));

    let late = db.begin_transaction();
    late.put("a", "3").unwrap();
    assert!(late.commit_and_try_create_snapshot(Some(15)).unwrap().is_none(), "20 is larger");
    assert_eq!(db.get("a").unwrap().unwrap(), b"3", "the commit itself succeeded");
    assert!(late.timestamped_snapshot().is_none());
    let empty = db.begin_transaction();
    assert!(empty.commit_and_try_create_snapshot(Some(30)).unwrap().is_some());
    assert_eq!(timestamps(&db.all_timestamped_snapshots()), [10, 20, 30]);

    let failed = db.begin_transaction();
    assert!(failed.commit().is_ok());
    assert!(failed.commit_and_try_create_snapshot(Some(40)).is_err());
    assert!(db.timestamped_snapshot(40).is_none());
}

#[test]
fn a_snapshot_of_a_commit_sees_its_family_with_timestamps() {
    let db = open();
    let stamped = ColumnFamilyOptions::new().comparator(Arc::new(BytewiseComparatorWithU64Ts));
    let prices = db.create_column_family("prices", &stamped).unwrap();
    let txn = db.begin_transaction();
    txn.put_cf(&prices, "gravel", "3").unwrap();
    let snapshot = txn.commit_and_try_create_snapshot(Some(20)).unwrap().unwrap();
    let read = esker::ReadOptions::new().snapshot(&snapshot).timestamp(20_u64.to_le_bytes().to_vec());
    assert_eq!(db.db().get_opt(&read, &prices, "gravel").unwrap().unwrap(), b"3");
}

#[test]
fn only_write_committed_creates_snapshots_at_commits() {
    for policy in [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared] {
        let locks = TransactionDbOptions::default().write_policy(policy);
        let db = TransactionDb::open(&options(), &locks, "/db").unwrap();
        let txn = db.begin_transaction();
        txn.put("a", "1").unwrap();
        let refused = txn.commit_and_try_create_snapshot(Some(10)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotSupported);
        txn.commit().unwrap();
        assert!(db.create_timestamped_snapshot(10).unwrap().get("a").unwrap().is_some());
    }
}

#[test]
fn beside_other_writers_each_snapshot_sees_its_commit_as_the_newest_write() {
    let db = open();
    thread::scope(|scope| {
        for writer in 0..3 {
            let db = &db;
            scope.spawn(move || (0..300).for_each(|n| db.put(format!("{writer}"), format!("{n}")).unwrap()));
        }
        for n in 1..=200_u64 {
            let txn = db.begin_transaction();
            txn.put("at", n.to_string()).unwrap();
            let snapshot = txn.commit_and_try_create_snapshot(Some(n)).unwrap().unwrap();
            let options = WalReadOptions::default();
            let mut updates = db.db().get_updates_since(snapshot.sequence(), &options).unwrap();
            let (_, newest) = updates.next().unwrap().unwrap();
            let last = newest.iter().last();
            let is_own = matches!(last, Some(BatchOp::Put { key: b"at", .. }));
            assert!(is_own, "snapshot {n} ends with {last:?}");
        }
    });
    let seen: Vec<_> =
        db.all_timestamped_snapshots().iter().map(|found| found.get("at").unwrap().unwrap()).collect();
    assert_eq!(seen, (1..=200).map(|n: u64| n.to_string().into_bytes()).collect::<Vec<_>>());
}
