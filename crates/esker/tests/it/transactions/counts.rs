//! Counts of transactions, writes that are not indexed, and the commit-time batch.

use super::options;
use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::options::WriteBufferManager;
use esker::txn::WritePolicy;
use esker::{
    Env, ErrorKind, IsolationLevel, OptimisticTransactionDb, OptimisticTransactionOptions, ReadOptions,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use std::sync::Arc;
use std::time::Duration;

fn open(policy: WritePolicy) -> TransactionDb {
    let locks = TransactionDbOptions::default().write_policy(policy);
    TransactionDb::open(&options(), &locks, "/db").unwrap()
}

/// Keys, puts, entities, deletions and merges of a transaction of either kind.
macro_rules! counts {
    ($txn:expr) => {
        [$txn.num_keys(), $txn.num_puts(), $txn.num_put_entities(), $txn.num_deletes(), $txn.num_merges()]
    };
}

/// Writes by a transaction of either kind, with their counts at each step.
macro_rules! writes_are_counted {
    ($db:expr, $txn:expr) => {
        let (db, txn, family) = ($db, $txn, $db.default_column_family());
        assert_eq!(counts!(txn), [0; 5]);
        txn.put("a", "1").unwrap();
        txn.put("a", "2").unwrap();
        txn.put_entity(&family, "e", &[(b"column", b"3")]).unwrap();
        txn.delete("b").unwrap();
        txn.single_delete_cf(&family, "c").unwrap();
        txn.merge_cf(&family, "a", "4").unwrap();
        txn.get_for_update("d").unwrap();
        assert_eq!(counts!(txn), [5, 2, 1, 2, 1]);

        txn.set_save_point();
        txn.put("f", "5").unwrap();
        txn.delete_range_cf(&family, "x", "y").unwrap();
        assert_eq!(counts!(txn), [6, 3, 1, 3, 1], "a range is no key");
        txn.rollback_to_save_point().unwrap();
        assert_eq!(counts!(txn), [5, 2, 1, 2, 1]);
        txn.set_save_point();
        txn.merge_cf(&family, "f", "6").unwrap();
        txn.pop_save_point().unwrap();
        assert_eq!(counts!(txn), [6, 2, 1, 2, 2]);

        txn.rollback().unwrap();
        assert_eq!(counts!(txn), [0; 5]);
        txn.put("a", "7").unwrap();
        txn.commit().unwrap();
        assert_eq!(counts!(txn), [0; 5]);
        assert_eq!(db.get("a").unwrap().unwrap(), b"7");
    };
}

#[test]
fn a_transaction_counts_its_keys_and_its_writes_by_kind() {
    let db = open(WritePolicy::WriteCommitted);
    let txn = db.begin_transaction();
    writes_are_counted!(&db, &txn);
    let db = OptimisticTransactionDb::open(&options(), "/db2").unwrap();
    let txn = db.begin_transaction();
    writes_are_counted!(&db, &txn);
}

#[test]
fn writes_without_validation_are_counted_and_only_locked_keys_are_keys() {
    let db = open(WritePolicy::WriteCommitted);
    let family = db.default_column_family();
    let txn = db.begin_transaction();
    txn.put_untracked(&family, "a", "1").unwrap();
    txn.merge_untracked(&family, "b", "1").unwrap();
    txn.delete_untracked(&family, "c").unwrap();
    assert_eq!(counts!(txn), [3, 1, 0, 1, 1]);

    let db = OptimisticTransactionDb::open(&options(), "/db2").unwrap();
    let family = db.default_column_family();
    let txn = db.begin_transaction();
    txn.put_untracked(&family, "a", "1").unwrap();
    txn.merge_untracked(&family, "b", "1").unwrap();
    txn.delete_untracked(&family, "c").unwrap();
    txn.single_delete_untracked(&family, "d").unwrap();
    assert_eq!(counts!(txn), [0, 1, 0, 2, 1]);
    for key in ["a", "b", "c", "d"] {
        db.put(key, "of others").unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), b"of others,1");
    assert!(db.get("c").unwrap().is_none() && db.get("d").unwrap().is_none());
}

#[test]
fn a_refused_write_is_not_counted() {
    let db = open(WritePolicy::WriteCommitted);
    let small = TransactionOptions::default().max_write_batch_size(30);
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &small);
    txn.put("a", "1").unwrap();
    assert_eq!(txn.put("b", [0; 100]).unwrap_err().kind(), ErrorKind::Aborted);
    assert_eq!(txn.num_puts(), 1);
}

#[test]
fn spilled_and_prepared_writes_stay_counted_and_a_reopen_counts_prepared_ones() {
    let db = open(WritePolicy::WriteUnprepared);
    let eager = TransactionOptions::default().write_batch_flush_threshold(1);
    let txn = db.begin_transaction_opt(&WriteOptions::default(), &eager);
    for key in ["a", "b", "c"] {
        txn.put(key, "1").unwrap();
    }
    assert!(txn.with_write_batch(|batch| batch.len()) < 3, "ops were spilled");
    assert_eq!(counts!(txn), [3, 3, 0, 0, 0]);
    txn.set_save_point();
    txn.delete("d").unwrap();
    txn.put("a", "2").unwrap();
    txn.rollback_to_save_point().unwrap();
    assert_eq!(counts!(txn), [3, 3, 0, 0, 0]);

    let options = options();
    let open = || TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let db = open();
    let txn = db.begin_transaction();
    txn.set_name(b"one").unwrap();
    txn.put("a", "1").unwrap();
    txn.delete("b").unwrap();
    txn.prepare().unwrap();
    assert_eq!(counts!(txn), [2, 1, 0, 1, 0]);
    drop((txn, db));
    let db = open();
    let found = db.get_transaction_by_name(b"one").unwrap();
    assert_eq!(counts!(found), [2, 1, 0, 1, 0]);
}

#[test]
fn the_age_of_a_transaction_is_that_of_its_begin() {
    let clock = Arc::new(MockClock::new(1_000_000));
    let mut options = options();
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let optimistic = OptimisticTransactionDb::open(&options, "/db2").unwrap();
    let (txn, other) = (db.begin_transaction(), optimistic.begin_transaction());
    let before = (txn.elapsed_time(), other.elapsed_time());
    clock.advance(Duration::from_secs(5));
    txn.rollback().unwrap();
    assert!(txn.elapsed_time() - before.0 >= Duration::from_secs(5));
    assert!(other.elapsed_time() - before.1 >= Duration::from_secs(5));
    assert!(db.begin_transaction().elapsed_time() < Duration::from_secs(5));
}

/// Writes of a transaction of either kind with and without indexing.
macro_rules! unindexed_writes_are_committed {
    ($db:expr, $txn:expr) => {
        let (db, txn) = ($db, $txn);
        txn.put("a", "1").unwrap();
        assert!(txn.get("a").unwrap().is_some());
        txn.disable_indexing();
        txn.put("b", "1").unwrap();
        txn.put("a", "2").unwrap();
        txn.disable_indexing();
        txn.delete("c").unwrap();
        txn.enable_indexing();
        txn.put("d", "1").unwrap();
        let read = |key: &str| txn.get(key).unwrap();
        assert_eq!(read("a").unwrap(), b"1", "the newest write that is indexed");
        assert_eq!((read("b"), read("c").unwrap(), read("d").unwrap()), (None, b"0".into(), b"1".into()));
        let keys = |iter: esker::txn::TransactionIterator| iter.into_iter().count();
        assert_eq!(keys(txn.iter().unwrap()), 3);

        txn.set_save_point();
        txn.disable_indexing();
        txn.put("e", "1").unwrap();
        txn.rollback_to_save_point().unwrap();
        txn.put("f", "1").unwrap();
        assert!(txn.get("f").unwrap().is_none(), "indexing is still disabled");
        txn.enable_indexing();
        txn.put("f", "2").unwrap();
        assert!(txn.get("f").unwrap().is_some());
        txn.commit().unwrap();
        for (key, value) in [("a", "2"), ("b", "1"), ("d", "1"), ("f", "2")] {
            assert_eq!(db.get(key).unwrap().unwrap(), value.as_bytes(), "{key}");
        }
        assert!(db.get("c").unwrap().is_none() && db.get("e").unwrap().is_none());
    };
}

#[test]
fn writes_without_indexing_are_committed_and_own_reads_do_not_find_them() {
    let db = open(WritePolicy::WriteCommitted);
    db.put("c", "0").unwrap();
    unindexed_writes_are_committed!(&db, &db.begin_transaction());
    let db = OptimisticTransactionDb::open(&options(), "/db2").unwrap();
    db.put("c", "0").unwrap();
    unindexed_writes_are_committed!(&db, &db.begin_transaction());
}

#[test]
fn a_key_that_was_written_without_indexing_stays_locked_and_checked() {
    let db = open(WritePolicy::WriteCommitted);
    let family = db.default_column_family();
    let txn = db.begin_transaction();
    txn.get_for_update("a").unwrap();
    txn.disable_indexing();
    txn.put("a", "1").unwrap();
    txn.undo_get_for_update(&family, "a");
    let eager = TransactionOptions::default().lock_timeout(0);
    let other = db.begin_transaction_opt(&WriteOptions::default(), &eager);
    assert_eq!(other.put("a", "2").unwrap_err().kind(), ErrorKind::TimedOut);

    let db = OptimisticTransactionDb::open(&options(), "/db2").unwrap();
    let txn = db.begin_transaction();
    txn.get_for_update("a").unwrap();
    txn.disable_indexing();
    txn.put("a", "1").unwrap();
    txn.undo_get_for_update(&db.default_column_family(), "a");
    db.put("a", "of others").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Busy);
}

#[test]
fn an_optimistic_read_for_update_is_undone_as_often_as_it_was_done() {
    let db = OptimisticTransactionDb::open(&options(), "/db").unwrap();
    let (family, read) = (db.default_column_family(), ReadOptions::default());
    let commit_after = |reads: usize, undone: usize, level: IsolationLevel| {
        let options = OptimisticTransactionOptions::default().isolation(level);
        let txn = db.begin_transaction_opt(&WriteOptions::default(), &options);
        (0..reads).for_each(|_| drop(txn.get_for_update("a").unwrap()));
        (0..undone).for_each(|_| txn.undo_get_for_update(&family, "a"));
        db.put("a", "of others").unwrap();
        txn.put("b", "1").unwrap();
        txn.commit().is_ok()
    };
    assert!(!commit_after(2, 1, IsolationLevel::ReadCommitted));
    assert!(commit_after(2, 2, IsolationLevel::ReadCommitted));
    assert!(commit_after(1, 3, IsolationLevel::ReadCommitted));
    assert!(!commit_after(1, 1, IsolationLevel::Serializable), "what was read is checked");

    let txn = db.begin_transaction();
    txn.multi_get_for_update(&read, &family, &["a", "c"]);
    txn.set_save_point();
    txn.get_for_update("a").unwrap();
    txn.undo_get_for_update(&family, "a");
    txn.undo_get_for_update(&family, "c");
    db.put("c", "of others").unwrap();
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Busy, "reads before the save point stay");
}

#[test]
fn an_optimistic_read_for_update_over_families_is_undone_like_the_others() {
    let db = OptimisticTransactionDb::open(&options(), "/db").unwrap();
    let (family, read) = (db.default_column_family(), ReadOptions::default());
    for is_read_again in [true, false] {
        let txn = db.begin_transaction();
        txn.multi_get_for_update_cf(&read, &[(&family, "a")]);
        if is_read_again {
            txn.get_for_update("a").unwrap();
        }
        txn.undo_get_for_update(&family, "a");
        db.put("a", "of others").unwrap();
        txn.put("b", "1").unwrap();
        assert_eq!(txn.commit().is_err(), is_read_again, "{is_read_again}");
    }
}

/// A spill that fails puts the ops back into the batch.
#[test]
fn writes_stay_indexed_or_not_though_their_spill_fails() {
    let mut options = options();
    let manager = Arc::new(WriteBufferManager::new(256 << 10, true));
    options.cf.arena_block_size = 4096;
    options.db.write_buffer_manager = Some(manager.clone());
    let locks = TransactionDbOptions::default().write_policy(WritePolicy::WriteUnprepared);
    let db = TransactionDb::open(&options, &locks, "/db").unwrap();
    let impatient = WriteOptions::new().no_slowdown(true);
    let eager = TransactionOptions::default().write_batch_flush_threshold(1);
    let (indexed, hidden) =
        (db.begin_transaction_opt(&impatient, &eager), db.begin_transaction_opt(&impatient, &eager));
    db.db().pause_background_work();
    let family = db.default_column_family();
    let mut written = 0_u32;
    while db.db().put_opt(&impatient, &family, format!("key{written}"), [7; 1000]).is_ok() {
        written += 1;
        assert!(written < 10_000, "{manager:?}");
    }

    indexed.put("a", "1").unwrap();
    indexed.disable_indexing();
    assert_eq!(indexed.put("b", "2").unwrap_err().kind(), ErrorKind::Incomplete);
    assert_eq!(indexed.get("a").unwrap().unwrap(), b"1");

    hidden.disable_indexing();
    hidden.put("c", "3").unwrap();
    hidden.enable_indexing();
    assert_eq!(hidden.put("d", "4").unwrap_err().kind(), ErrorKind::Incomplete);
    assert_eq!(hidden.get("c").unwrap(), None);
    db.db().continue_background_work().unwrap();
}

#[test]
fn a_commit_time_batch_is_written_by_the_commit_of_a_prepared_transaction_below_its_own_ops() {
    let options = options();
    let open = || TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let db = open();
    let txn = db.begin_transaction();
    txn.set_name(b"one").unwrap();
    txn.put("a", "prepared").unwrap();
    txn.prepare().unwrap();
    txn.put("later", "1").unwrap();
    txn.with_commit_time_write_batch(|batch| {
        batch.put("position", "17").unwrap();
        batch.put("a", "commit time").unwrap();
        batch.put("later", "commit time").unwrap();
    });
    assert!(txn.get("position").unwrap().is_none() && db.get("position").unwrap().is_none());
    txn.commit().unwrap();
    let check = |db: &TransactionDb| {
        for (key, value) in [("a", "prepared"), ("later", "1"), ("position", "17")] {
            assert_eq!(db.get(key).unwrap().unwrap(), value.as_bytes(), "{key}");
        }
    };
    check(&db);
    let last = db.db().latest_sequence_number();
    drop((txn, db));
    let db = open();
    check(&db);
    assert_eq!(db.db().latest_sequence_number(), last, "the replay gives the same numbers");
}

#[test]
fn a_commit_time_batch_without_a_prepare_is_refused_and_a_rollback_drops_it() {
    let put = |batch: &mut WriteBatch| batch.put("position", "17").unwrap();
    let db = open(WritePolicy::WriteCommitted);
    let txn = db.begin_transaction();
    txn.put("a", "1").unwrap();
    txn.with_commit_time_write_batch(put);
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::InvalidArgument);
    txn.rollback().unwrap();
    txn.put("a", "1").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.get("position").unwrap(), None);

    let db = open(WritePolicy::WritePrepared);
    let txn = db.begin_transaction();
    txn.set_name(b"one").unwrap();
    txn.put("a", "1").unwrap();
    txn.prepare().unwrap();
    txn.with_commit_time_write_batch(put);
    assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::NotSupported);
    txn.with_commit_time_write_batch(WriteBatch::clear);
    txn.commit().unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
}
