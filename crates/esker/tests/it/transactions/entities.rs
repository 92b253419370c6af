//! Wide columns in batches and transactions: as in the database, with own writes over it.

use super::{open, options, until_waits};
use esker::txn::{IsolationLevel, LockMode};
use esker::{
    AttributeGroup, ColumnFamilyId, ColumnFamilyOptions, Db, ErrorKind, OptimisticTransactionDb,
    OptimisticTransactionOptions, ReadOptions, TransactionOptions, WideColumns, WriteBatchWithIndex,
    WriteOptions,
};

fn write() -> WriteOptions {
    WriteOptions::default()
}

fn columns(entity: Option<WideColumns>) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    entity.iter().flat_map(WideColumns::iter).map(|(name, value)| (text(name), text(value))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

#[test]
fn a_batch_shows_entities_over_those_of_the_database() {
    let db = Db::open(&options(), "/db").unwrap();
    let (family, read) = (db.default_column_family(), ReadOptions::default());
    db.put_entity(&write(), &family, "a", &[(b"x", b"1"), (b"y", b"2")]).unwrap();
    db.put("b", "plain").unwrap();
    db.put_entity(&write(), &family, "c", &[(b"", b"base"), (b"z", b"3")]).unwrap();
    let mut batch = WriteBatchWithIndex::default();
    let get = |batch: &WriteBatchWithIndex, key: &str| {
        columns(batch.get_entity_from_batch_and_db(&db, &read, &family, key.as_bytes()).unwrap())
    };
    assert_eq!(get(&batch, "a"), pairs(&[("x", "1"), ("y", "2")]));
    batch.put_entity_cf(ColumnFamilyId::DEFAULT, b"a", &[(b"w", b"0")]).unwrap();
    batch.merge_cf(ColumnFamilyId::DEFAULT, b"c", b"more").unwrap();
    batch.put_cf(ColumnFamilyId::DEFAULT, b"d", b"own").unwrap();
    assert_eq!(get(&batch, "a"), pairs(&[("w", "0")]));
    assert_eq!(get(&batch, "b"), pairs(&[("", "plain")]));
    assert_eq!(get(&batch, "c"), pairs(&[("", "base,more"), ("z", "3")]));
    let many = batch.multi_get_entity_from_batch_and_db(&db, &read, &family, &["d", "e", "b"]);
    assert_eq!(
        many.into_iter().map(|answer| columns(answer.unwrap())).collect::<Vec<_>>(),
        [pairs(&[("", "own")]), pairs(&[]), pairs(&[("", "plain")])]
    );
    batch.delete_range_cf(ColumnFamilyId::DEFAULT, b"a", b"d").unwrap();
    assert_eq!((get(&batch, "a"), get(&batch, "c")), (pairs(&[]), pairs(&[])));
    let mut iter = batch.iter_with_base(&db, &read, &family).unwrap();
    iter.seek_to_first();
    assert_eq!((iter.key(), iter.columns()), (&b"d"[..], vec![(&b""[..], &b"own"[..])]));
}

#[test]
fn a_transaction_locks_and_reads_entities_as_it_does_values() {
    let db = open();
    let family = db.db().default_column_family();
    let read = ReadOptions::default();
    let begin = |isolation| {
        let options = TransactionOptions { isolation, lock_timeout: 0, ..TransactionOptions::default() };
        db.begin_transaction_opt(&write(), &options)
    };
    let txn = begin(IsolationLevel::ReadCommitted);
    txn.put_entity(&family, "a", &[(b"x", b"1")]).unwrap();
    assert_eq!(columns(txn.get_entity(&read, &family, "a").unwrap()), pairs(&[("x", "1")]));
    let other = begin(IsolationLevel::Serializable);
    assert_eq!(other.put_entity_untracked(&family, "a", &[]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(other.get_entity(&read, &family, "a").unwrap_err().kind(), ErrorKind::TimedOut);
    txn.commit().unwrap();
    let seen = other.get_entity_for_update(&read, &family, "a", LockMode::Exclusive, true).unwrap();
    assert_eq!(columns(seen), pairs(&[("x", "1")]));
    let third = begin(IsolationLevel::ReadCommitted);
    assert_eq!(third.put("a", "2").unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(
        columns(third.multi_get_entity(&read, &family, &["a"]).remove(0).unwrap()),
        pairs(&[("x", "1")])
    );
    // If a name occurs twice, no column is written.
    let twice: [(&[u8], &[u8]); 2] = [(b"x", b"1"), (b"x", b"2")];
    assert!(other.put_entity(&family, "a", &twice).is_err());
    other.commit().unwrap();
    let late = begin(IsolationLevel::Snapshot);
    db.put_opt(&write(), &family, "a", "3").unwrap();
    let why = late.get_entity_for_update(&read, &family, "a", LockMode::Exclusive, true).unwrap_err();
    assert_eq!(why.kind(), ErrorKind::Busy);
    assert!(db.get_lock_status_data().is_empty());
}

#[test]
fn attribute_groups_are_written_to_all_their_families_or_none() {
    let db = open();
    let (first, read) = (db.db().default_column_family(), ReadOptions::default());
    let second = db.create_column_family("second", &ColumnFamilyOptions::default()).unwrap();
    let txn = db.begin_transaction_opt(&write(), &TransactionOptions::default());
    let groups = [
        AttributeGroup { column_family: &first, columns: &[(b"x", b"1")] },
        AttributeGroup { column_family: &second, columns: &[(b"y", b"2")] },
    ];
    txn.put_entity_attribute_groups("k", &groups).unwrap();
    assert_eq!(db.get_lock_status_data().len(), 2);
    let twice = [
        AttributeGroup { column_family: &first, columns: &[(b"x", b"3")] },
        AttributeGroup { column_family: &second, columns: &[(b"y", b"3"), (b"y", b"4")] },
    ];
    assert!(txn.put_entity_attribute_groups("k", &twice).is_err());
    assert_eq!(txn.put_entity_attribute_groups("k", &[]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let seen = txn.get_entity_attribute_groups(&read, &[&first, &second], "k").unwrap();
    let seen: Vec<_> = seen.into_iter().map(columns).collect();
    assert_eq!(seen, [pairs(&[("x", "1")]), pairs(&[("y", "2")])]);
    txn.commit().unwrap();
    let stored = db.db().get_entity(&read, &second, "k").unwrap();
    assert_eq!(columns(stored), pairs(&[("y", "2")]));
}

#[test]
fn an_optimistic_transaction_finds_conflicts_of_entities() {
    let db = OptimisticTransactionDb::open(&options(), "/db").unwrap();
    let (family, read) = (db.db().default_column_family(), ReadOptions::default());
    db.db().put_entity(&write(), &family, "a", &[(b"x", b"1")]).unwrap();
    let begin = || db.begin_transaction_opt(&write(), &OptimisticTransactionOptions::default());
    let (one, two) = (begin(), begin());
    assert_eq!(columns(one.get_entity_for_update(&read, &family, "a").unwrap()), pairs(&[("x", "1")]));
    one.put("b", "1").unwrap();
    let group = AttributeGroup { column_family: &family, columns: &[(b"x", b"2")] };
    two.put_entity_attribute_groups("a", &[group]).unwrap();
    let seen = two.get_entity_attribute_groups(&read, &[&family], "a").unwrap().remove(0);
    assert_eq!(columns(seen), pairs(&[("x", "2")]));
    two.put_entity_untracked(&family, "c", &[(b"", b"3")]).unwrap();
    two.commit().unwrap();
    assert_eq!(one.commit().unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(db.db().get("c").unwrap().unwrap(), b"3");
}

/// A snapshot that is taken before the lock misses writes that another transaction commits
/// meanwhile.
#[test]
fn a_serializable_transaction_reads_groups_of_columns_as_they_are_once_it_has_their_locks() {
    let db = open();
    let family = db.db().default_column_family();
    db.put("key", "old").unwrap();
    let begin = |isolation| {
        db.begin_transaction_opt(&write(), &TransactionOptions { isolation, ..TransactionOptions::default() })
    };
    let writer = begin(IsolationLevel::ReadCommitted);
    writer.put("key", "new").unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = begin(IsolationLevel::Serializable);
            let groups = reader.get_entity_attribute_groups(&ReadOptions::default(), &[&family], "key");
            let first = columns(groups.unwrap().remove(0));
            (first, reader.get("key").unwrap())
        });
        until_waits(&db, 1);
        writer.commit().unwrap();
        let (first, again) = reader.join().unwrap();
        assert_eq!((first, again.as_deref()), (pairs(&[("", "new")]), Some(&b"new"[..])));
    });
}
