//! Batches as a whole: turned into transactions, read over iterators, in the order of a family.

use super::{open, options};
use esker::comparator::ReverseBytewiseComparator;
use esker::{
    ColumnFamilyId, ErrorKind, OptimisticTransactionDb, ReadOptions, TransactionOptions, WriteBatch,
    WriteBatchWithIndex, WriteOptions,
};
use std::sync::Arc;

/// Each kind of op that a transaction has, in the default family and in `other`.
fn all_kinds(other: ColumnFamilyId) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for family in [ColumnFamilyId::DEFAULT, other] {
        batch.put_cf(family, "put", "1").unwrap();
        batch.put_cf(family, "deleted", "1").unwrap();
        batch.delete_cf(family, "deleted").unwrap();
        batch.single_delete_cf(family, "once").unwrap();
        batch.merge_cf(family, "merged", "a").unwrap();
        batch.merge_cf(family, "merged", "b").unwrap();
        batch.put_cf(family, "x1", "in the range").unwrap();
        batch.delete_range_cf(family, "x", "y").unwrap();
        batch.put_entity_cf(family, "entity", &[(b"", b"7"), (b"column", b"8")]).unwrap();
    }
    batch.put_log_data(b"a note").unwrap();
    batch
}

const AFTER: [(&str, &str); 3] = [("entity", "7"), ("merged", "a,b"), ("put", "1")];

#[test]
fn a_batch_becomes_a_part_of_a_transaction_that_locks_its_keys() {
    let db = open();
    let cf = options().cf;
    let other = db.create_column_family("other", &cf).unwrap();
    let txn = db.begin_transaction();
    txn.rebuild_from_write_batch(&all_kinds(other.id())).unwrap();
    let eager = TransactionOptions::default().lock_timeout(0);
    let second = db.begin_transaction_opt(&WriteOptions::default(), &eager);
    for key in ["put", "deleted", "once", "merged", "x2", "entity"] {
        let refused = second.put_cf(&other, key, "2").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{key}");
    }
    assert_eq!(
        txn.with_write_batch(|batch| batch.write_batch().data().to_vec()),
        all_kinds(other.id()).data()
    );
    txn.commit().unwrap();
    for family in [&db.default_column_family(), &other] {
        let entries = db.range_cf(family, ..).map(|entry| entry.unwrap());
        let entries: Vec<_> = entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert_eq!(entries, AFTER.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())));
    }
}

#[test]
fn a_batch_becomes_a_part_of_an_optimistic_transaction() {
    let db = OptimisticTransactionDb::open(&options(), "/db").unwrap();
    let other = db.db().create_column_family("other", &options().cf).unwrap();
    let (lost, won) = (db.begin_transaction(), db.begin_transaction());
    for txn in [&lost, &won] {
        txn.rebuild_from_write_batch(&all_kinds(other.id())).unwrap();
    }
    assert_eq!(
        won.with_write_batch(|batch| batch.write_batch().data().to_vec()),
        all_kinds(other.id()).data()
    );
    won.commit().unwrap();
    assert_eq!(lost.commit().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(db.get("merged").unwrap().unwrap(), b"a,b");
}

#[test]
fn ops_that_a_transaction_cannot_hold_are_refused_by_name() {
    let db = open();
    let txn = db.begin_transaction();
    let mut unknown = WriteBatch::new();
    unknown.put("before", "1").unwrap();
    unknown.put_cf(ColumnFamilyId(9), "a", "1").unwrap();
    let refused = txn.rebuild_from_write_batch(&unknown).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(txn.get("before").unwrap().unwrap(), b"1");
    let mut timed = WriteBatch::new();
    timed.timed_put(b"a", b"1", 7).unwrap();
    let refused = txn.rebuild_from_write_batch(&timed).unwrap_err().to_string();
    assert!(refused.contains("TimedPut"), "{refused}");
}

#[test]
fn a_batch_over_an_iterator_is_within_its_bounds_and_at_its_point_in_time() {
    let db = open();
    for key in ["a", "b", "d", "z"] {
        db.put(key, "of the database").unwrap();
    }
    let read = ReadOptions::new().lower_bound(b"b".to_vec()).upper_bound(b"y".to_vec());
    let base = db.db().iter_opt(read, &db.default_column_family()).unwrap();
    db.put("c", "too late").unwrap();
    let mut batch = WriteBatchWithIndex::default();
    for key in ["a", "bb", "y"] {
        batch.put(key, "of the batch").unwrap();
    }
    batch.delete("d").unwrap();
    let keys = batch.iter_over(&base).unwrap().into_iter().map(|entry| entry.unwrap().0.to_vec());
    assert_eq!(keys.collect::<Vec<_>>(), [b"b".to_vec(), b"bb".to_vec()]);
}

#[test]
fn a_batch_alone_is_read_in_the_order_of_the_family() {
    let db = open();
    let mut cf = options().cf;
    cf.comparator = Arc::new(ReverseBytewiseComparator);
    let reverse = db.create_column_family("reverse", &cf).unwrap();
    let mut batch = WriteBatchWithIndex::default();
    for key in ["a", "b", "c"] {
        batch.put_cf(&reverse, key, key).unwrap();
    }
    batch.delete_range_cf(&reverse, "c", "a").unwrap();
    batch.merge_cf(&reverse, "c", "x").unwrap();
    batch.merge_cf(&reverse, "d", "x").unwrap();
    let get = |key: &str| batch.get_from_batch_cf(&reverse, key.as_bytes());
    assert_eq!(get("a").unwrap().unwrap(), b"a");
    assert_eq!(get("b").unwrap(), None);
    assert_eq!(get("c").unwrap().unwrap(), b"x");
    assert_eq!(get("d").unwrap_err().kind(), ErrorKind::MergeInProgress);
}

#[test]
fn keys_of_several_families_are_all_locked_or_all_fail() {
    let db = open();
    let other = db.create_column_family("other", &options().cf).unwrap();
    let default = db.default_column_family();
    db.put_cf(&other, "k", "1").unwrap();
    let holder = db.begin_transaction();
    holder.put_cf(&other, "held", "1").unwrap();
    let eager = TransactionOptions::default().lock_timeout(0);
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &eager);
    let read = ReadOptions::default();
    let found = txn.multi_get_cf(&read, &[(&default, "k"), (&other, "k"), (&other, "held")]);
    assert!(matches!(&found[..], [Ok(None), Ok(Some(value)), Ok(None)] if value[..] == *b"1"));
    let found = txn.multi_get_for_update_cf(&read, &[(&default, "k"), (&other, "held")]);
    assert!(found.iter().all(|found| matches!(found, Err(error) if error.kind() == ErrorKind::TimedOut)));
    let found = txn.multi_get_for_update_cf(&read, &[(&other, "k")]);
    assert!(matches!(&found[..], [Ok(Some(_))]));
    let third = db.begin_transaction_opt(&WriteOptions::default(), &eager);
    assert_eq!(third.put_cf(&other, "k", "2").unwrap_err().kind(), ErrorKind::TimedOut);
}
