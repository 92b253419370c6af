//! `ingest_write_batch_with_index`: large batches, written and flushed.

use super::options;
use esker::comparator::BytewiseComparator;
use esker::stats::{Statistics, Ticker};
use esker::txn::{TransactionOptions, WritePolicy};
use esker::{
    ColumnFamilyId, Db, ErrorKind, Options, ReadOptions, TransactionDb, TransactionDbOptions,
    WriteBatchWithIndex, WriteOptions,
};
use std::sync::Arc;

fn unlogged() -> WriteOptions {
    WriteOptions::new().disable_wal(true)
}

fn refused(options: &Options, write: &WriteOptions, batch: &mut WriteBatchWithIndex) -> String {
    let db = Db::open(options, "/db").unwrap();
    let before = db.latest_sequence_number();
    let error = db.ingest_write_batch_with_index(write, batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert_eq!(db.latest_sequence_number(), before);
    assert_eq!(db.get("key").unwrap(), None);
    error.to_string()
}

#[test]
fn an_ingested_batch_is_refused_by_name_and_changes_nothing() {
    let mut batch = WriteBatchWithIndex::default();
    batch.put("key", "1").unwrap();
    let plain = options();
    assert!(refused(&plain, &WriteOptions::new(), &mut batch).contains("disableWAL"));
    let mut kept = WriteBatchWithIndex::new(Arc::new(BytewiseComparator), false);
    kept.put("key", "1").unwrap();
    assert!(refused(&plain, &unlogged(), &mut kept).contains("overwrite_key"));
    let mut unordered = options();
    unordered.db.unordered_write = true;
    assert!(refused(&unordered, &unlogged(), &mut batch).contains("unordered_write"));
    let mut pipelined = options();
    pipelined.db.enable_pipelined_write = true;
    assert!(refused(&pipelined, &unlogged(), &mut batch).contains("pipelined_write"));

    let db = Db::open(&plain, "/db").unwrap();
    let mut elsewhere = WriteBatchWithIndex::default();
    elsewhere.put("key", "1").unwrap();
    elsewhere.put_cf(ColumnFamilyId(7), "key", "1").unwrap();
    let missing = db.ingest_write_batch_with_index(&unlogged(), &mut elsewhere).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.get("key").unwrap(), None);
    drop(db);
    let reader = Db::open_for_read_only(&plain, "/db").unwrap();
    let error = reader.ingest_write_batch_with_index(&unlogged(), &mut batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
}

#[test]
fn an_ingested_batch_shows_as_a_whole_and_is_flushed_without_a_wait() {
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    db.put("a", "old").unwrap();
    db.put("merged", "1").unwrap();
    let snapshot = db.snapshot();

    let mut batch = WriteBatchWithIndex::default();
    batch.put("a", "1").unwrap();
    batch.put("a", "2").unwrap();
    batch.merge("merged", "2").unwrap();
    batch.merge("merged", "3").unwrap();
    batch.put("deleted", "1").unwrap();
    batch.delete("deleted").unwrap();
    batch.put_cf(&other, "b", "1").unwrap();
    let before = db.latest_sequence_number();
    db.ingest_write_batch_with_index(&unlogged(), &mut batch).unwrap();
    assert_eq!(db.latest_sequence_number().0, before.0 + 7);
    let found = || ["a", "merged", "deleted"].map(|key| db.get(key).unwrap());
    let expected = [Some(b"2".to_vec()), Some(b"1,2,3".to_vec()), None];
    assert_eq!(found(), expected);
    let then = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    let family = db.default_column_family();
    assert_eq!(db.get_opt(&then, &family, "a").unwrap().as_deref(), Some(&b"old"[..]));

    // Both families are flushed, what was there before included.
    db.wait_for_background_work().unwrap();
    let level0 = |family| db.property_cf(family, "rocksdb.num-files-at-level0").unwrap();
    assert_eq!((level0(&family), level0(&other)), ("1".to_owned(), "1".to_owned()));
    assert_eq!(db.int_property("rocksdb.num-entries-active-mem-table"), Some(0));
    assert_eq!(found(), expected);
    assert_eq!(statistics.ticker_count(Ticker::NumberWbwiIngest), 1);

    // An empty batch needs no flush, and is not counted.
    db.put("later", "1").unwrap();
    db.ingest_write_batch_with_index(&unlogged(), &mut WriteBatchWithIndex::default()).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(level0(&family), "1");
    assert_eq!(statistics.ticker_count(Ticker::NumberWbwiIngest), 1);
}

#[test]
fn a_commit_is_flushed_behind_if_the_transactions_options_and_size_say_so() {
    let always = TransactionOptions::default().commit_bypass_memtable(true);
    let by_count = TransactionOptions::default().large_txn_commit_optimize_threshold(10);
    let by_bytes = TransactionOptions::default().large_txn_commit_optimize_byte_threshold(1000);
    let neither = TransactionOptions::default();
    for (options, keys, value_bytes, is_prepared, policy, expected) in [
        (&always, 1, 1, true, WritePolicy::WriteCommitted, true),
        (&always, 0, 1, true, WritePolicy::WriteCommitted, false),
        (&always, 1, 1, false, WritePolicy::WriteCommitted, false),
        (&always, 1, 1, true, WritePolicy::WritePrepared, false),
        (&by_count, 9, 300, true, WritePolicy::WriteCommitted, false),
        (&by_count, 10, 1, true, WritePolicy::WriteCommitted, true),
        (&by_bytes, 2, 300, true, WritePolicy::WriteCommitted, false),
        (&by_bytes, 2, 600, true, WritePolicy::WriteCommitted, true),
        (&neither, 20, 600, true, WritePolicy::WriteCommitted, false),
    ] {
        let what = format!("{keys} keys of {value_bytes} bytes, {is_prepared}, {policy:?}, {options:?}");
        let mut db_options = self::options();
        let statistics = Arc::new(Statistics::new());
        db_options.db.statistics = Some(statistics.clone());
        let of_db = TransactionDbOptions::default().write_policy(policy);
        let db = TransactionDb::open(&db_options, &of_db, "/db").unwrap();
        let txn = db.begin_transaction_opt(&WriteOptions::new(), options);
        txn.set_name(b"large").unwrap();
        for n in 0..keys {
            txn.put(format!("{n:03}"), vec![b'v'; value_bytes]).unwrap();
        }
        if is_prepared {
            txn.prepare().unwrap();
        }
        txn.commit().unwrap();
        db.db().wait_for_background_work().unwrap();
        assert_eq!(statistics.ticker_count(Ticker::NumberWbwiIngest), u64::from(expected), "{what}");
        let level0 = db.db().property("rocksdb.num-files-at-level0").unwrap();
        assert_eq!(level0, if expected { "1" } else { "0" }, "{what}");
        let last = db.db().get(format!("{:03}", i32::max(keys - 1, 0))).unwrap();
        assert_eq!(last.map(|value| value.len()), (keys > 0).then_some(value_bytes), "{what}");
    }
}
