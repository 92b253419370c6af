//! Facts about a transaction: counts, numbers, its state, and the key for which it waits.
//!
//! In: a transaction's handle. Out: values of Java. A call that waits for a key keeps the lock of
//! its transaction, so [`waiting`], [`id`] and [`num_keys`] do without the lock.

use crate::border::NativeResult;
use crate::handle::NativeHandle;
use crate::jni::{JavaEnv, Reference, long, reference};
use crate::transactions::{TransactionKind, TransactionObject, locked};
use esker::BatchOp;
use esker::txn::TransactionState;
use std::sync::atomic::Ordering;

type Handle = NativeHandle<TransactionObject>;

/// The number of keys that the transaction has locked, or that its commit checks.
pub(crate) fn num_keys(transaction: Handle) -> NativeResult<i64> {
    let object = transaction.get()?;
    let Some(db) = locked(&object.locks).clone() else {
        return object.with(|open| match &open.kind {
            TransactionKind::Locking(transaction) => Ok(transaction.num_keys() as i64),
            TransactionKind::Optimistic(transaction) => Ok(transaction.num_keys() as i64),
        });
    };
    let id = object.id.load(Ordering::Relaxed);
    let held = db.get_lock_status_data().into_iter().filter(|lock| lock.ids.contains(&id));
    Ok(held.count() as i64)
}

pub(crate) fn num_puts(transaction: Handle) -> NativeResult<i64> {
    transaction.get()?.with(|open| Ok(open.count(|op| matches!(op, BatchOp::Put { .. }))))
}

pub(crate) fn num_deletes(transaction: Handle) -> NativeResult<i64> {
    let is_delete = |op: &BatchOp<'_>| matches!(op, BatchOp::Delete { .. } | BatchOp::SingleDelete { .. });
    transaction.get()?.with(|open| Ok(open.count(is_delete)))
}

pub(crate) fn num_merges(transaction: Handle) -> NativeResult<i64> {
    transaction.get()?.with(|open| Ok(open.count(|op| matches!(op, BatchOp::Merge { .. }))))
}

/// Milliseconds since the begin.
pub(crate) fn elapsed_time(transaction: Handle) -> NativeResult<i64> {
    transaction.get()?.with(|open| {
        let nanos = open.clock.monotonic_nanos().saturating_sub(open.began_nanos);
        Ok((nanos / 1_000_000).cast_signed())
    })
}

/// The number by which lock dumps name the transaction; 0 for one without locks.
pub(crate) fn id(transaction: Handle) -> NativeResult<i64> {
    Ok(transaction.get()?.id.load(Ordering::Relaxed).cast_signed())
}

pub(crate) fn is_deadlock_detect(transaction: Handle) -> NativeResult<bool> {
    transaction.get()?.with(|open| Ok(open.deadlock_detect))
}

/// The lock for which another thread waits in this transaction: a `WaitingTransactions`.
pub(crate) fn waiting(env: &JavaEnv<'_>, transaction: Handle) -> NativeResult<Reference> {
    let object = transaction.get()?;
    let (db, id) = (locked(&object.locks).clone(), object.id.load(Ordering::Relaxed));
    let waits = db.map(|db| db.get_waiting_transactions()).unwrap_or_default();
    let wait = waits.into_iter().find(|wait| wait.id == id);
    let (family, key, ids) = wait.map_or((0, Vec::new(), Vec::new()), |wait| {
        (i64::from(wait.family.0), wait.start.key, wait.waits_for)
    });
    let ids: Vec<i64> = ids.into_iter().map(u64::cast_signed).collect();
    let arguments = [
        long(family),
        reference(env.new_text(&String::from_utf8_lossy(&key))?),
        reference(env.new_longs(&ids)?),
    ];
    let class = "org/rocksdb/Transaction$WaitingTransactions";
    env.new_object(class, "(JLjava/lang/String;[J)V", &arguments)
}

/// RocksJava's number of the transaction's state.
pub(crate) fn state(transaction: Handle) -> NativeResult<i8> {
    const STARTED: i8 = 0;
    transaction.get()?.with(|open| {
        let TransactionKind::Locking(transaction) = &open.kind else { return Ok(STARTED) };
        Ok(match transaction.state() {
            TransactionState::Prepared => 2,
            TransactionState::Committed => 4,
            TransactionState::RolledBack => 6,
            _ => STARTED,
        })
    })
}

/// The number of the WAL that has the prepared writes; 0 for a transaction that is not prepared.
pub(crate) fn log_number(transaction: Handle) -> NativeResult<i64> {
    Ok(transaction.get()?.log_number.load(Ordering::Relaxed))
}

/// Changes only the number that [`log_number`] returns.
pub(crate) fn set_log_number(transaction: Handle, number: i64) -> NativeResult<()> {
    transaction.get()?.log_number.store(number, Ordering::Relaxed);
    Ok(())
}
