//! Transactions with locks: visibility, locked keys, commits and rollbacks.

use super::{open, options, until_waits};
use esker::txn::{Endpoint, LockMode, Locking, TransactionState};
use esker::{
    ErrorKind, IsolationLevel, ReadOptions, SubCode, Transaction, TransactionDb, TransactionDbOptions,
    TransactionOptions, WriteBatch, WriteOptions,
};
use std::thread;

fn begin(db: &TransactionDb) -> Transaction {
    begin_with(db, |_| {})
}

/// Begins a transaction that does not wait for locks, unless `set` changes that.
fn begin_with(db: &TransactionDb, set: impl FnOnce(&mut TransactionOptions)) -> Transaction {
    let mut options = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
    set(&mut options);
    db.begin_transaction_opt(&WriteOptions::default(), &options)
}

fn kind<T: std::fmt::Debug>(result: esker::Result<T>) -> (ErrorKind, SubCode) {
    let error = result.unwrap_err();
    (error.kind(), error.subcode())
}

const TIMED_OUT: (ErrorKind, SubCode) = (ErrorKind::TimedOut, SubCode::LockTimeout);
const INVALID: (ErrorKind, SubCode) = (ErrorKind::InvalidArgument, SubCode::None);
const BUSY: (ErrorKind, SubCode) = (ErrorKind::Busy, SubCode::None);

#[test]
fn a_transaction_sees_its_own_writes_and_others_see_them_when_it_commits() {
    let db = open();
    let family = db.db().default_column_family();
    db.put("a", "0").unwrap();
    let txn = begin(&db);
    txn.put("a", "1").unwrap();
    txn.merge_cf(&family, "a", "2").unwrap();
    txn.put("b", "1").unwrap();
    txn.delete("b").unwrap();
    txn.put("c", "1").unwrap();
    txn.single_delete_cf(&family, "c").unwrap();
    txn.put_log_data(b"note").unwrap();
    assert_eq!(txn.get("a").unwrap().unwrap(), b"1,2");
    let many = txn.multi_get(&ReadOptions::default(), &family, &["a", "b", "z"]);
    let many: Vec<_> = many.into_iter().map(|value| value.unwrap().map(|value| value.to_vec())).collect();
    assert_eq!(many, [Some(b"1,2".to_vec()), None, None]);
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"0");
    let mut iter = txn.iter_opt(&ReadOptions::default(), &family).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.item(), Some((&b"a"[..], &b"1,2"[..])));
    txn.commit().unwrap();
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"1,2");
    assert_eq!(db.get_lock_status_data(), []);
}

#[test]
fn written_keys_are_locked_until_the_transaction_ends() {
    let db = open();
    let family = db.db().default_column_family();
    for end in ["commit", "rollback", "drop"] {
        let txn = begin(&db);
        txn.put("a", "1").unwrap();
        txn.delete_untracked(&family, "b").unwrap();
        let other = begin(&db);
        assert_eq!(kind(other.put("a", "2")), TIMED_OUT);
        assert_eq!(kind(other.get_for_update("b")), TIMED_OUT);
        other.put("c", "2").unwrap();
        match end {
            "commit" => txn.commit().unwrap(),
            "rollback" => txn.rollback().unwrap(),
            _ => drop(txn),
        }
        other.put("a", "2").unwrap();
        other.rollback().unwrap();
        let found = db.db().get("a").unwrap();
        assert_eq!(found.as_deref(), Some(&b"1"[..]), "{end}");
        assert_eq!(db.get_lock_status_data(), []);
    }
}

#[test]
fn a_lock_error_names_the_key_and_the_holder() {
    let db = open();
    let first = begin(&db);
    first.put("a\n", "1").unwrap();
    let error = begin(&db).put("a\n", "2").unwrap_err();
    let holder =
        format!("key 'a\\n' of column family 0 was not granted in time: transaction {} ", first.id());
    assert!(error.message().contains(&holder), "{error}");
    assert!(error.is_retryable());
}

#[test]
fn a_waiting_transaction_goes_on_when_the_lock_is_free() {
    let db = open();
    let first = begin(&db);
    first.put("a", "1").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let second = begin_with(&db, |options| options.lock_timeout = 600_000);
            second.put("a", "2").unwrap();
            second.commit().unwrap();
        });
        until_waits(&db, 1);
        first.commit().unwrap();
    });
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"2");
}

#[test]
fn a_cycle_of_two_is_a_deadlock_for_the_transaction_that_closes_it() {
    let db = open();
    let first = begin_with(&db, |options| {
        options.lock_timeout = 600_000;
        options.deadlock_detect = true;
    });
    first.put("a", "1").unwrap();
    let second = begin_with(&db, |options| options.lock_timeout = 600_000);
    second.put("b", "2").unwrap();
    let ids = [first.id(), second.id()];
    thread::scope(|scope| {
        scope.spawn(move || {
            second.put("a", "2").unwrap();
            second.commit().unwrap();
        });
        until_waits(&db, 1);
        let error = first.put("b", "1").unwrap_err();
        assert_eq!((error.kind(), error.subcode()), (ErrorKind::Busy, SubCode::Deadlock));
        assert!(error.is_retryable() && error.message().contains("lock of key 'b'"), "{error}");
        let paths = db.get_deadlock_info_buffer();
        assert_eq!(paths.len(), 1);
        let text: Vec<String> = paths[0].path.iter().map(ToString::to_string).collect();
        assert!(text.iter().any(|t| t.ends_with("key 'a'")), "{text:?}");
        assert!(format!("{paths:?}").contains("'a'"), "{paths:?}");
        let mut found: Vec<u64> = paths[0].path.iter().map(|step| step.id).collect();
        found.sort_unstable();
        assert_eq!(found, ids);
        first.rollback().unwrap();
    });
    assert_eq!(db.db().get("b").unwrap().unwrap(), b"2");
    assert_eq!(db.get_lock_status_data(), []);
}

#[test]
fn a_waiting_transaction_can_be_called_off() {
    let db = open();
    let first = begin(&db);
    first.put("a", "1").unwrap();
    let second = begin_with(&db, |options| options.lock_timeout = -1);
    second.set_lock_timeout(-1);
    let canceller = second.canceller();
    thread::scope(|scope| {
        let waiting = scope.spawn(move || second.put("a", "2"));
        until_waits(&db, 1);
        canceller.cancel();
        assert_eq!(kind(waiting.join().unwrap()).0, ErrorKind::Aborted);
    });
}

#[test]
fn a_shared_lock_is_shared_and_its_only_holder_can_make_it_exclusive() {
    let db = open();
    let family = db.db().default_column_family();
    let read = |txn: &mut Transaction| {
        txn.get_for_update_opt(&ReadOptions::default(), &family, "a", LockMode::Shared, true)
    };
    let (mut first, mut second) = (begin(&db), begin(&db));
    read(&mut first).unwrap();
    read(&mut second).unwrap();
    assert_eq!(kind(first.put("a", "1")), TIMED_OUT);
    second.undo_get_for_update(&family, "a");
    first.put("a", "1").unwrap();
    assert_eq!(kind(read(&mut second)), TIMED_OUT);
    // The transaction has written the key: the lock stays.
    first.undo_get_for_update(&family, "a");
    assert_eq!(kind(read(&mut second)), TIMED_OUT);
    first.commit().unwrap();
    read(&mut second).unwrap();
}

#[test]
fn each_get_for_update_has_to_be_undone_and_only_since_the_save_point() {
    let db = open();
    let family = db.db().default_column_family();
    let txn = begin(&db);
    let is_locked = || begin(&db).get_for_update("a").is_err();
    txn.get_for_update("a").unwrap();
    txn.get_for_update("a").unwrap();
    txn.undo_get_for_update(&family, "a");
    assert!(is_locked());
    txn.set_save_point();
    txn.undo_get_for_update(&family, "a");
    assert!(is_locked());
    txn.pop_save_point().unwrap();
    txn.undo_get_for_update(&family, "a");
    assert!(!is_locked());
    txn.undo_get_for_update(&family, "a");
}

#[test]
fn a_key_in_a_range_that_is_locked_stays_locked_though_its_get_for_update_is_undone() {
    let db = open();
    let family = db.db().default_column_family();
    let lock_range = |txn: &mut Transaction| {
        let (begin, end) = (Endpoint::Key(b"a"), Endpoint::Key(b"z"));
        txn.get_range_lock(&family, begin, end, LockMode::Exclusive).unwrap();
    };
    let delete_range = |txn: &mut Transaction| txn.delete_range_cf(&family, "a", "z").unwrap();
    let take: [&dyn Fn(&mut Transaction); 2] = [&lock_range, &delete_range];
    for (i, take) in take.into_iter().enumerate() {
        for is_read_first in [false, true] {
            let mut txn = begin(&db);
            if is_read_first {
                txn.get_for_update("k").unwrap();
            }
            take(&mut txn);
            if !is_read_first {
                txn.get_for_update("k").unwrap();
            }
            txn.undo_get_for_update(&family, "k");
            assert_eq!(kind(begin(&db).put("k", "1")), TIMED_OUT, "{i}, {is_read_first}");
        }
    }
}

#[test]
fn a_second_read_since_a_save_point_is_undone_and_the_first_one_remains() {
    let db = open();
    let family = db.db().default_column_family();
    let txn = begin(&db);
    let is_locked = || begin(&db).get_for_update("a").is_err();
    txn.get_for_update("a").unwrap();
    txn.set_save_point();
    txn.get_for_update("a").unwrap();
    txn.rollback_to_save_point().unwrap();
    assert!(is_locked());
    txn.undo_get_for_update(&family, "a");
    assert!(!is_locked());
}

#[test]
fn batches_over_a_range_and_a_key_in_it_do_not_wait_for_each_other_in_a_descending_order() {
    let mut options = options();
    options.cf.comparator = esker::comparator::by_name("rocksdb.ReverseBytewiseComparator").unwrap();
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let family = db.db().default_column_family();
    let txn = begin(&db);
    txn.put("d", "0").unwrap();
    let write = |fill: &dyn Fn(&mut WriteBatch)| {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        db.write(&mut batch)
    };
    thread::scope(|scope| {
        let points = scope.spawn(|| {
            write(&|batch| {
                batch.put_cf(family.id(), b"d", b"1").unwrap();
                batch.put_cf(family.id(), b"e", b"1").unwrap();
            })
        });
        until_waits(&db, 1);
        let range = scope.spawn(|| {
            write(&|batch| {
                batch.put_cf(family.id(), b"e", b"2").unwrap();
                batch.delete_range_cf(family.id(), b"g", b"c").unwrap();
            })
        });
        until_waits(&db, 2);
        txn.commit().unwrap();
        assert!(points.join().unwrap().is_ok());
        assert!(range.join().unwrap().is_ok());
    });
}

#[test]
fn keys_read_by_a_serializable_transaction_stay_locked_though_get_for_update_is_undone() {
    let db = open();
    let family = db.db().default_column_family();
    let txn = begin_with(&db, |options| options.isolation = IsolationLevel::Serializable);
    txn.get("k").unwrap();
    txn.get_for_update("k").unwrap();
    txn.undo_get_for_update(&family, "k");
    let other = begin_with(&db, |options| options.lock_timeout = 0);
    assert_eq!(kind(other.put("k", "1")), (ErrorKind::TimedOut, SubCode::LockTimeout));
    txn.commit().unwrap();
    other.put("k", "1").unwrap();
}

#[test]
fn a_snapshot_keeps_a_transaction_from_writing_what_others_have_written_since() {
    for flushed in [false, true] {
        let db = open();
        let family = db.db().default_column_family();
        db.put("a", "0").unwrap();
        let txn = begin_with(&db, |options| options.set_snapshot = true);
        db.put("a", "1").unwrap();
        db.delete_cf(&family, "b").unwrap();
        db.delete_range_cf(&family, "c", "d").unwrap();
        if flushed {
            db.db().flush().unwrap();
            db.db().compact_range(None, None).unwrap();
        }
        assert_eq!(kind(txn.put("a", "2")), BUSY);
        assert_eq!(kind(txn.put("b", "2")), BUSY);
        assert_eq!(kind(txn.get_for_update("cc")), BUSY);
        assert_eq!(kind(txn.delete_range_cf(&family, "0", "a")), BUSY);
        // The locks were not kept.
        assert_eq!(db.get_lock_status_data(), []);
        txn.put_untracked(&family, "a", "2").unwrap();
        txn.put("e", "2").unwrap();
        txn.delete_range_cf(&family, "f", "g").unwrap();
        txn.set_snapshot();
        txn.put("b", "2").unwrap();
        txn.commit().unwrap();
        assert_eq!(db.db().get("a").unwrap().unwrap(), b"2");
    }
}

#[test]
fn a_key_that_came_and_went_since_the_snapshot_was_written_since() {
    let db = open();
    let family = db.db().default_column_family();
    db.put("z", "0").unwrap();
    let txn = begin_with(&db, |options| options.set_snapshot = true);
    db.put("a", "1").unwrap();
    let other = begin(&db);
    other.single_delete_cf(&family, "a").unwrap();
    other.commit().unwrap();
    db.db().flush().unwrap();
    db.db().compact_range(None, None).unwrap();
    assert_eq!(kind(txn.put("a", "2")), BUSY);
}

#[test]
fn the_snapshot_of_the_next_operation_is_taken_behind_its_lock() {
    let db = open();
    let txn = begin(&db);
    txn.set_snapshot_on_next_operation();
    db.put("a", "1").unwrap();
    assert!(txn.snapshot().is_none());
    txn.put("a", "2").unwrap();
    assert!(txn.snapshot().is_some());
    db.put("b", "1").unwrap();
    assert_eq!(kind(txn.put("b", "2")), BUSY);
    txn.clear_snapshot();
    txn.put("b", "2").unwrap();
}

#[test]
fn a_roll_back_to_a_save_point_gives_up_writes_and_locks() {
    let db = open();
    let txn = begin(&db);
    txn.put("a", "1").unwrap();
    txn.set_save_point();
    txn.put("a", "2").unwrap();
    txn.put("b", "2").unwrap();
    txn.set_snapshot();
    txn.rollback_to_save_point().unwrap();
    assert!(txn.snapshot().is_none());
    assert_eq!(txn.get("a").unwrap().unwrap(), b"1");
    assert_eq!(txn.get("b").unwrap(), None);
    begin(&db).put("b", "3").unwrap();
    assert_eq!(kind(begin(&db).put("a", "3")), TIMED_OUT);
    assert_eq!(kind(txn.rollback_to_save_point()).0, ErrorKind::NotFound);
    assert_eq!(kind(txn.pop_save_point()).0, ErrorKind::NotFound);
}

#[test]
fn a_removed_range_is_locked_for_keys_that_are_not_there() {
    let db = open();
    let family = db.db().default_column_family();
    db.put("b", "0").unwrap();
    let txn = begin(&db);
    txn.delete_range_cf(&family, "a", "c").unwrap();
    assert_eq!(txn.get("b").unwrap(), None);
    assert_eq!(kind(begin(&db).put("bb", "1")), TIMED_OUT);
    assert_eq!(kind(begin(&db).delete_range_cf(&family, "0", "a")), TIMED_OUT);
    begin(&db).put("d", "1").unwrap();
    assert_eq!(kind(txn.delete_range_cf(&family, "c", "a")), INVALID);
    txn.commit().unwrap();
    assert_eq!(db.db().get("b").unwrap(), None);
    let txn = begin(&db);
    txn.get_range_lock(&family, Endpoint::Key(b"x"), Endpoint::Max, LockMode::Shared).unwrap();
    assert_eq!(kind(begin(&db).put("y", "1")), TIMED_OUT);
}

#[test]
fn writes_outside_of_transactions_wait_for_their_locks_too() {
    let txn_options = TransactionDbOptions { default_lock_timeout: 0, ..TransactionDbOptions::default() };
    let db = TransactionDb::open(&options(), &txn_options, "/db").unwrap();
    let txn = begin(&db);
    txn.put("b", "1").unwrap();
    assert_eq!(kind(db.put("b", "2")), TIMED_OUT);
    let mut batch = WriteBatch::new();
    for key in [&b"c"[..], b"b", b"a"] {
        batch.put_cf(db.db().default_column_family().id(), key, b"2").unwrap();
    }
    assert_eq!(kind(db.write(&mut batch)), TIMED_OUT);
    txn.commit().unwrap();
    db.write(&mut batch).unwrap();
    assert_eq!(db.db().get("b").unwrap().unwrap(), b"2");
    drop((txn, db));
    let txn_options = TransactionDbOptions { skip_concurrency_control: true, ..txn_options };
    let db = TransactionDb::open(&options(), &txn_options, "/db").unwrap();
    let txn = begin(&db);
    txn.put("b", "1").unwrap();
    db.put("b", "2").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().get("b").unwrap().unwrap(), b"1");
}

#[test]
fn an_expired_transaction_can_only_be_rolled_back() {
    let db = open();
    let txn = begin_with(&db, |options| options.expiration = 0);
    assert_eq!(kind(txn.put("a", "1")).0, ErrorKind::Expired);
    txn.set_expiration(-1);
    txn.put("a", "1").unwrap();
    txn.set_expiration(0);
    assert_eq!(kind(txn.commit()).0, ErrorKind::Expired);
    txn.set_name(b"late").unwrap();
    assert_eq!(kind(txn.prepare()).0, ErrorKind::Expired);
    // Others may steal the locks of an expired transaction.
    begin_with(&db, |options| options.lock_timeout = 600_000).put("a", "2").unwrap();
    txn.rollback().unwrap();
    assert_eq!(db.db().get("a").unwrap(), None);
}

#[test]
fn a_transaction_that_is_over_takes_nothing_any_more() {
    let db = open();
    let txn = begin(&db);
    txn.put("a", "1").unwrap();
    txn.commit().unwrap();
    assert_eq!(txn.state(), TransactionState::Committed);
    assert_eq!(kind(txn.put("a", "2")), INVALID);
    assert_eq!(kind(txn.get_for_update("a")), INVALID);
    assert_eq!(kind(txn.commit()), INVALID);
    assert_eq!(kind(txn.rollback()), INVALID);
    assert_eq!(kind(txn.prepare()), INVALID);
    assert_eq!(kind(txn.set_name(b"late")), INVALID);
    assert_eq!(kind(txn.rollback_to_save_point()), INVALID);
    // A transaction that was rolled back before its prepare may continue.
    let txn = begin(&db);
    txn.put("a", "2").unwrap();
    txn.rollback().unwrap();
    txn.put("a", "3").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"3");
}

#[test]
fn impossible_options_and_calls_are_refused() {
    let refused =
        |txn_options: TransactionDbOptions| TransactionDb::open(&options(), &txn_options, "/db").map(drop);
    let defaults = TransactionDbOptions::default;
    assert_eq!(kind(refused(TransactionDbOptions { max_lock_memory: 0, ..defaults() })), INVALID);
    let points = TransactionDbOptions { locking: Locking::Points, ..defaults() };
    let db = TransactionDb::open(&options(), &points, "/db").unwrap();
    let family = db.db().default_column_family();
    let txn = begin(&db);
    txn.put("a", "1").unwrap();
    assert_eq!(kind(begin(&db).put("a", "1")), TIMED_OUT);
    assert_eq!(kind(txn.delete_range_cf(&family, "a", "b")).0, ErrorKind::NotSupported);
    let snapshot = db.db().snapshot();
    let at = ReadOptions::new().snapshot(&snapshot);
    assert_eq!(kind(txn.get_for_update_opt(&at, &family, "b", LockMode::Shared, false)), INVALID);
    let small = begin_with(&db, |options| options.max_write_batch_size = 30);
    small.put("x", "1").unwrap();
    assert_eq!(kind(small.put("y", "a value that is too long")).0, ErrorKind::Aborted);
    assert_eq!(small.get("x").unwrap().unwrap(), b"1");
    let careful = begin_with(&db, |options| options.skip_prepare = false);
    careful.put("z", "1").unwrap();
    assert_eq!(kind(careful.commit()), INVALID);
    let mut batch = WriteBatch::new();
    batch.put_marker(esker::BatchOp::Commit { xid: b"x" }).unwrap();
    assert_eq!(kind(db.db().write(&mut batch)), INVALID);
}

/// Otherwise the end of a key would be taken for its timestamp.
#[test]
fn operations_without_timestamps_are_refused_by_name_and_nothing_is_locked() {
    let db = open();
    let mut stamped = options().cf;
    stamped.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let family = db.create_column_family("stamped", &stamped).unwrap();
    let refused_as = |kind: ErrorKind, result: esker::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("'stamped'"), "{error}");
    };
    let refused = |result| refused_as(ErrorKind::NotSupported, result);
    let txn = begin(&db);
    let key = "longer than a timestamp";
    refused_as(ErrorKind::InvalidArgument, txn.delete_range_cf(&family, "a", "b"));
    refused_as(ErrorKind::InvalidArgument, txn.put_entity(&family, key, &[(b"a", b"1")]));
    refused(txn.get_entity(&ReadOptions::default(), &family, key).map(drop));
    refused(txn.iter_opt(&ReadOptions::default(), &family).map(drop));
    refused(db.put_cf(&family, key, "1"));
    txn.put("a", "1").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.get_lock_status_data(), []);
    let optimistic = esker::OptimisticTransactionDb::open(&options(), "/db").unwrap();
    let family = optimistic.db().create_column_family("stamped", &stamped).unwrap();
    let txn = optimistic.begin_transaction();
    refused(txn.put_cf(&family, key, "1"));
    refused(txn.get_opt(&ReadOptions::default(), &family, key).map(drop));
}

#[test]
fn locks_of_a_dropped_family_are_gone_and_new_families_have_their_own() {
    let db = open();
    let family = db.create_column_family("f", &options().cf).unwrap();
    let txn = begin(&db);
    txn.put_cf(&family, "a", "1").unwrap();
    begin(&db).put("a", "1").unwrap();
    assert_eq!(kind(begin(&db).put_cf(&family, "a", "2")), TIMED_OUT);
    db.drop_column_family(&family).unwrap();
    assert_eq!(kind(txn.put_cf(&family, "b", "1")).0, ErrorKind::ColumnFamilyDropped);
    assert_eq!(db.get_lock_status_data(), []);
    let unknown = db.db().create_column_family("g", &options().cf).unwrap();
    assert_eq!(kind(begin(&db).put_cf(&unknown, "a", "1")), INVALID);
}

#[test]
fn too_many_locks_are_refused_and_given_back() {
    let txn_options = TransactionDbOptions { max_lock_memory: 2000, ..TransactionDbOptions::default() };
    let db = TransactionDb::open(&options(), &txn_options, "/db").unwrap();
    let keeper = begin(&db);
    // Locks every second key, so that the other transaction's locks cannot be joined.
    let txn = begin(&db);
    let refused = (0..1000).find_map(|i| {
        keeper.put(format!("{:04}", 2 * i), "1").err().or(txn.put(format!("{:04}", 2 * i + 1), "1").err())
    });
    let error = refused.expect("a limit");
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::LockLimit));
    drop((keeper, txn));
    assert_eq!(db.get_lock_status_data(), []);
    begin(&db).put("a", "1").unwrap();
}

#[test]
fn a_snapshot_transaction_reads_its_snapshot_and_a_serializable_one_locks_what_it_reads() {
    let db = open();
    let family = db.db().default_column_family();
    db.put("a", "0").unwrap();
    let txn = begin_with(&db, |options| options.isolation = IsolationLevel::Snapshot);
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    assert_eq!(txn.get("a").unwrap().unwrap(), b"0");
    let mut iter = txn.iter_opt(&ReadOptions::default(), &family).unwrap();
    iter.seek_to_last();
    assert_eq!(iter.item(), Some((&b"a"[..], &b"0"[..])));
    assert_eq!(kind(txn.put("a", "2")), BUSY);
    drop(txn);
    let txn = begin_with(&db, |options| options.isolation = IsolationLevel::Serializable);
    assert_eq!(txn.get("a").unwrap().unwrap(), b"1");
    assert_eq!(kind(begin(&db).put("a", "2")), TIMED_OUT);
    let bounds = ReadOptions::new().lower_bound("m").upper_bound("p");
    txn.iter_opt(&bounds, &family).unwrap();
    assert_eq!(kind(begin(&db).put("n", "2")), TIMED_OUT);
    begin(&db).put("q", "2").unwrap();
    txn.multi_get(&ReadOptions::default(), &family, &["x", "y"])
        .into_iter()
        .for_each(|value| drop(value.unwrap()));
    assert_eq!(kind(begin(&db).put("y", "2")), TIMED_OUT);
}

#[test]
fn many_keys_are_locked_before_the_first_is_read_and_a_lock_that_is_not_given_fails_what_it_must() {
    let db = open();
    let family = db.db().default_column_family();
    let options = ReadOptions::default();
    for key in ["a", "b", "c"] {
        db.put(key, "0").unwrap();
    }
    let other = begin(&db);
    other.put("b", "1").unwrap();
    let reader = begin_with(&db, |options| options.isolation = IsolationLevel::Serializable);
    let mut values = reader.multi_get(&options, &family, &["a", "b", "c"]);
    assert_eq!(kind(values.remove(1)), TIMED_OUT);
    assert!(values.into_iter().all(|value| value.unwrap().as_deref() == Some(b"0")));
    assert_eq!(kind(begin(&db).put("c", "2")), TIMED_OUT);
    drop(reader);
    let writer = begin(&db);
    for value in writer.multi_get_for_update(&options, &family, &["a", "b", "c"]) {
        assert_eq!(kind(value), TIMED_OUT);
    }
    begin(&db).put("c", "3").unwrap();
    other.commit().unwrap();
    let values = writer.multi_get_for_update(&options, &family, &["a", "b", "c"]);
    let values: Vec<_> = values.into_iter().map(|value| value.unwrap().unwrap().to_vec()).collect();
    assert_eq!(values, [b"0", b"1", b"0"]);
    assert_eq!(kind(begin(&db).put("c", "3")), TIMED_OUT);
    writer.commit().unwrap();
    assert_eq!(db.get_lock_status_data(), []);
}
