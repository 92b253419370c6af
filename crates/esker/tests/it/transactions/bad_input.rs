//! Mistakes of callers, by name: each gives RocksDB's code, and leaves no lock.

use super::{open, options};
use esker::txn::{Endpoint, LockMode, TransactionState};
use esker::{
    ErrorKind, OptimisticTransactionDb, SubCode, Transaction, TransactionDb, TransactionDbOptions,
    TransactionOptions, WriteOptions,
};
use std::sync::Mutex;

/// Begins a transaction that does not wait for locks.
fn begin_with(db: &TransactionDb, set: impl FnOnce(&mut TransactionOptions)) -> Transaction {
    let mut options = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
    set(&mut options);
    db.begin_transaction_opt(&WriteOptions::default(), &options)
}

#[track_caller]
fn is<T: std::fmt::Debug>(result: esker::Result<T>, kind: ErrorKind, subcode: SubCode) {
    let error = result.expect_err("must fail");
    assert_eq!((error.kind(), error.subcode()), (kind, subcode), "{error}");
}

#[track_caller]
fn is_invalid<T: std::fmt::Debug>(result: esker::Result<T>) {
    is(result, ErrorKind::InvalidArgument, SubCode::None);
}

#[test]
fn a_range_that_ends_before_it_begins() {
    let db = open();
    let family = db.db().default_column_family();
    let txn = begin_with(&db, |_| {});
    is_invalid(txn.delete_range_cf(&family, "b", "a"));
    let range = (Endpoint::Key(b"b"), Endpoint::Key(b"a"));
    is_invalid(txn.get_range_lock(&family, range.0, range.1, LockMode::Exclusive));
    is_invalid(db.delete_range_cf(&family, "b", "a"));
    assert!(db.get_lock_status_data().is_empty() && txn.write_batch().is_empty());
}

#[test]
fn a_release_of_what_is_not_held_changes_nothing() {
    let db = open();
    let family = db.db().default_column_family();
    let txn = begin_with(&db, |_| {});
    txn.put("a", "1").unwrap();
    txn.undo_get_for_update(&family, "a");
    txn.undo_get_for_update(&family, "b");
    is(begin_with(&db, |_| {}).put("a", "2"), ErrorKind::TimedOut, SubCode::LockTimeout);
    is(txn.rollback_to_save_point(), ErrorKind::NotFound, SubCode::None);
    is(txn.pop_save_point(), ErrorKind::NotFound, SubCode::None);
    txn.commit().unwrap();
}

/// The type admits one thread at a time. Locks belong to the transaction, whichever thread uses it.
#[test]
fn a_transaction_in_the_hands_of_two_threads() {
    let db = open();
    let txn = Mutex::new(begin_with(&db, |_| {}));
    std::thread::scope(|scope| {
        for thread in 0..2_u8 {
            let txn = &txn;
            scope.spawn(move || {
                for i in 0..50_u8 {
                    txn.lock().unwrap().put([i / 2], [thread]).unwrap();
                }
            });
        }
    });
    assert_eq!(db.get_lock_status_data().len(), 25);
    txn.into_inner().unwrap().commit().unwrap();
    assert!(db.get_lock_status_data().is_empty());
}

#[test]
fn use_after_the_commit() {
    let db = open();
    let txn = begin_with(&db, |_| {});
    txn.put("a", "1").unwrap();
    txn.commit().unwrap();
    let family = db.db().default_column_family();
    is_invalid(txn.put("a", "2"));
    is_invalid(txn.delete_range_cf(&family, "a", "b"));
    is_invalid(txn.put_entity(&family, "a", &[(b"", b"2")]));
    is_invalid(txn.get_for_update("a"));
    is_invalid(txn.get_range_lock(&family, Endpoint::Min, Endpoint::Max, LockMode::Shared));
    is_invalid(txn.commit());
    is_invalid(txn.rollback());
    is_invalid(txn.prepare());
    is_invalid(txn.set_name(b"late"));
    assert!(db.get_lock_status_data().is_empty());
    let optimistic = OptimisticTransactionDb::open(&options(), "/db").unwrap();
    let txn = optimistic.begin_transaction();
    txn.put("a", "1").unwrap();
    txn.commit().unwrap();
    is_invalid(txn.put("a", "2"));
    is_invalid(txn.commit());
    is_invalid(txn.rollback());
}

#[test]
fn a_transaction_prepared_twice() {
    let db = open();
    let txn = begin_with(&db, |_| {});
    txn.set_name(b"twice").unwrap();
    txn.put("a", "1").unwrap();
    txn.prepare().unwrap();
    is_invalid(txn.prepare());
    is_invalid(txn.rollback_to_save_point());
    assert_eq!(txn.state(), TransactionState::Prepared);
    txn.commit().unwrap();
    is_invalid(txn.prepare());
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"1");
    assert!(db.get_lock_status_data().is_empty());
}

#[test]
fn a_name_that_is_in_use_and_one_that_was() {
    let db = open();
    let named = |name: &[u8]| {
        let txn = begin_with(&db, |_| {});
        txn.set_name(name).map(|()| txn)
    };
    let first = named(b"n").unwrap();
    is_invalid(named(b"n"));
    is_invalid(first.set_name(b"other"));
    is_invalid(named(b""));
    is_invalid(named(&[b'x'; 513]));
    is_invalid(begin_with(&db, |_| {}).prepare());
    first.put("a", "1").unwrap();
    first.prepare().unwrap();
    drop(first);
    is_invalid(named(b"n"));
    db.get_transaction_by_name(b"n").unwrap().rollback().unwrap();
    let again = named(b"n").unwrap();
    again.commit().unwrap();
    drop(named(b"n").unwrap());
    named(b"n").unwrap();
}

#[test]
fn a_commit_after_the_expiration() {
    let db = open();
    let txn = begin_with(&db, |_| {});
    txn.put("a", "1").unwrap();
    txn.set_expiration(0);
    is(txn.commit(), ErrorKind::Expired, SubCode::None);
    is(txn.put("b", "1"), ErrorKind::Expired, SubCode::None);
    txn.set_name(b"late").unwrap();
    is(txn.prepare(), ErrorKind::Expired, SubCode::None);
    let thief = begin_with(&db, |_| {});
    thief.put("a", "2").unwrap();
    txn.rollback().unwrap();
    // The stolen lock still belongs to the other transaction.
    is(begin_with(&db, |_| {}).put("a", "3"), ErrorKind::TimedOut, SubCode::LockTimeout);
    thief.commit().unwrap();
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"2");
    assert!(db.get_lock_status_data().is_empty());
}

#[test]
fn limits_of_zero() {
    let none = TransactionDbOptions { max_lock_memory: 0, ..TransactionDbOptions::default() };
    is_invalid(TransactionDb::open(&options(), &none, "/db"));
    let db = open();
    db.set_deadlock_info_buffer_size(0);
    let txn = begin_with(&db, |options| {
        options.max_write_batch_size = 0;
        options.deadlock_detect = true;
        options.deadlock_detect_depth = 0;
    });
    txn.put("a", vec![b'v'; 100_000]).unwrap();
    let other = begin_with(&db, |_| {});
    other.put("b", "1").unwrap();
    is(txn.put("b", "2"), ErrorKind::TimedOut, SubCode::LockTimeout);
    assert!(db.get_deadlock_info_buffer().is_empty());
    other.commit().unwrap();
    txn.commit().unwrap();
    assert!(db.get_lock_status_data().is_empty());
}

/// A comparator that reverses its order when its flag is set.
#[derive(Debug, Default)]
struct Turning(std::sync::atomic::AtomicBool);

impl esker::comparator::Comparator for Turning {
    fn name(&self) -> &str {
        "test.Turning"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        if self.0.load(std::sync::atomic::Ordering::Relaxed) { b.cmp(a) } else { a.cmp(b) }
    }
}

#[test]
fn a_comparator_that_changes_its_mind() {
    let turning = std::sync::Arc::new(Turning::default());
    let mut options = options();
    options.cf.comparator = turning.clone();
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let mut txns: Vec<_> = (0..3).map(|_| begin_with(&db, |_| {})).collect();
    for round in 0..40_u8 {
        turning.0.store(round % 7 == 3, std::sync::atomic::Ordering::Relaxed);
        for (i, txn) in (0_u8..).zip(&mut txns) {
            if let Err(error) = txn.put([round * 5 + i], "1") {
                assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            }
        }
    }
    drop(txns);
    assert!(db.get_lock_status_data().is_empty());
}
