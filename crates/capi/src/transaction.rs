//! `rocksdb_transaction_t`: a transaction that locks, or one that checks at commit.
//!
//! In: calls of either kind. Out: [`esker::Transaction`] or [`esker::OptimisticTransaction`]. The
//! caller gets a transaction's snapshot or batch in a wrapper and frees the wrapper by
//! `rocksdb_free`. The transaction owns the content until it is destroyed or begun again.

use crate::batch::rocksdb_writebatch_t;
use crate::batch_index::{Indexed, look, rocksdb_writebatch_wi_t};
use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{DatabaseNumber, family, rocksdb_t};
use crate::iterator::{Cursor, rocksdb_iterator_t};
use crate::memory::{answer, attempt, bytes, destroy, give, object, object_mut, slice, to_c_bytes};
use crate::multi_get::{for_each_key, keys, put_found};
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::{copy_found, rocksdb_pinnableslice_t};
use crate::snapshot::rocksdb_snapshot_t;
use esker::txn::LockMode;
use esker::{
    ColumnFamilyHandle, Error, OptimisticTransaction, OptimisticTransactionDb, OptimisticTransactionOptions,
    PinnedBytes, Result, Snapshot, Transaction, WriteBatchWithIndex, WriteOptions,
};
use libc::{c_char, c_uchar};
use std::ops::Deref;

/// A transaction.
#[derive(Debug)]
pub struct rocksdb_transaction_t {
    kind: Kind,
    /// The family of calls that name none.
    default: ColumnFamilyHandle,
    /// The number of the database.
    pub(crate) database: DatabaseNumber,
    /// Snapshots for which callers have wrappers.
    #[expect(clippy::vec_box, reason = "wrappers point into the boxes")]
    snapshots: Vec<Box<Snapshot>>,
    /// The batch for which callers have wrappers.
    batch: Option<Box<Indexed>>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Locking(Transaction),
    Optimistic(Box<Optimistic>),
}

/// An optimistic transaction, and what begins it again. As in RocksDB, the transaction can be used
/// again after its commit.
#[derive(Debug)]
pub(crate) struct Optimistic {
    transaction: OptimisticTransaction,
    db: OptimisticTransactionDb,
    writes: WriteOptions,
    options: OptimisticTransactionOptions,
}

impl Optimistic {
    pub(crate) fn begin(
        db: &OptimisticTransactionDb,
        writes: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Optimistic {
        let transaction = db.begin_transaction_opt(writes, options);
        Optimistic { transaction, db: db.clone(), writes: *writes, options: *options }
    }

    /// Commits the transaction, and begins the next one in its place.
    /// # Errors
    /// As [`OptimisticTransaction::commit`]; the transaction stays then.
    fn commit(&mut self) -> Result<()> {
        self.transaction.commit()?;
        self.transaction = self.db.begin_transaction_opt(&self.writes, &self.options);
        Ok(())
    }
}

impl Deref for Optimistic {
    type Target = OptimisticTransaction;

    fn deref(&self) -> &OptimisticTransaction {
        &self.transaction
    }
}

impl From<Transaction> for Kind {
    fn from(transaction: Transaction) -> Kind {
        Kind::Locking(transaction)
    }
}

impl From<Optimistic> for Kind {
    fn from(transaction: Optimistic) -> Kind {
        Kind::Optimistic(Box::new(transaction))
    }
}

/// Calls the same method on a transaction of either kind.
macro_rules! of_kind {
    ($kind:expr, $transaction:ident => $call:expr) => {
        match $kind {
            Kind::Locking($transaction) => $call,
            Kind::Optimistic($transaction) => $call,
        }
    };
}

/// Begins a transaction in a new object, or in `old`.
pub(crate) unsafe fn begin<'a, T>(
    old: *mut rocksdb_transaction_t,
    begin: impl FnOnce() -> Result<(T, &'a rocksdb_t)>,
) -> *mut rocksdb_transaction_t
where
    Kind: From<T>,
{
    answer(std::ptr::null_mut(), || {
        let (transaction, db) = begin()?;
        let Some(object) = old.as_mut() else { return Ok(give_transaction(transaction, db)) };
        object.kind = transaction.into();
        (object.default, object.database) = (db.default.clone(), db.database);
        object.snapshots.clear();
        Ok(old)
    })
}

pub(crate) fn give_transaction<T>(transaction: T, db: &rocksdb_t) -> *mut rocksdb_transaction_t
where
    Kind: From<T>,
{
    give(rocksdb_transaction_t {
        kind: transaction.into(),
        default: db.default.clone(),
        database: db.database,
        snapshots: Vec::new(),
        batch: None,
    })
}

impl rocksdb_transaction_t {
    /// Runs `look` on the writes of the transaction.
    pub(crate) fn with_batch<R>(&self, look: impl FnOnce(&WriteBatchWithIndex) -> R) -> R {
        of_kind!(&self.kind, transaction => transaction.with_write_batch(look))
    }

    /// The family of a call; the default family if the call names none.
    unsafe fn family(
        &self,
        column_family: Option<*mut rocksdb_column_family_handle_t>,
    ) -> Result<&ColumnFamilyHandle> {
        column_family.map_or(Ok(&self.default), |column_family| family(column_family))
    }

    fn locking(&self, otherwise: &str) -> Result<&Transaction> {
        match &self.kind {
            Kind::Locking(transaction) => Ok(transaction),
            Kind::Optimistic(_) => Err(Error::invalid_argument(otherwise)),
        }
    }
}

/// Destroys the transaction. Rolls it back, unless it is prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_destroy(txn: *mut rocksdb_transaction_t) {
    destroy(txn);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_set_name(
    txn: *mut rocksdb_transaction_t,
    name: *const c_char,
    name_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        object(txn)?.locking("Optimistic transactions cannot be named.")?.set_name(bytes(name, name_len)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_name(
    txn: *mut rocksdb_transaction_t,
    name_len: *mut usize,
) -> *mut c_char {
    answer(std::ptr::null_mut(), || {
        let name = match &object(txn)?.kind {
            Kind::Locking(transaction) => transaction.name().unwrap_or_default(),
            Kind::Optimistic(_) => Vec::new(),
        };
        Ok(to_c_bytes(&name, name_len))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_prepare(
    txn: *mut rocksdb_transaction_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let otherwise = "Two phase commit not supported for optimistic transactions.";
        object(txn)?.locking(otherwise)?.prepare()
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_commit(
    txn: *mut rocksdb_transaction_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || of_kind!(&mut object_mut(txn)?.kind, transaction => transaction.commit()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rollback(
    txn: *mut rocksdb_transaction_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || of_kind!(&object(txn)?.kind, transaction => transaction.rollback()));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_put_log_data(
    txn: *mut rocksdb_transaction_t,
    blob: *const c_char,
    len: usize,
) {
    answer((), || of_kind!(&object(txn)?.kind, transaction => transaction.put_log_data(bytes(blob, len)?)));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_set_savepoint(txn: *mut rocksdb_transaction_t) {
    answer((), || {
        of_kind!(&object(txn)?.kind, transaction => transaction.set_save_point());
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rollback_to_savepoint(
    txn: *mut rocksdb_transaction_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || of_kind!(&object(txn)?.kind, transaction => transaction.rollback_to_save_point()));
}

/// The transaction's batch, for reading only. The caller frees the wrapper by `rocksdb_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_writebatch_wi(
    txn: *mut rocksdb_transaction_t,
) -> *mut rocksdb_writebatch_wi_t {
    answer(std::ptr::null_mut(), || {
        let batch = object_mut(txn)?.batch.get_or_insert_with(|| Box::new(Indexed::OfTransaction(txn)));
        Ok(rocksdb_writebatch_wi_t::give(&raw mut **batch))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rebuild_from_writebatch(
    txn: *mut rocksdb_transaction_t,
    batch: *mut rocksdb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (txn, batch) = (object(txn)?, object(batch)?.of_database(object(txn)?.database)?);
        of_kind!(&txn.kind, transaction => transaction.rebuild_from_write_batch(batch))
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_rebuild_from_writebatch_wi(
    txn: *mut rocksdb_transaction_t,
    batch: *mut rocksdb_writebatch_wi_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        // Copies the batch, because it may belong to the transaction itself.
        let txn = object(txn)?;
        object(object(batch)?.indexed())?.check_database(txn.database)?;
        let batch = look(batch, |batch| batch.write_batch().clone())?;
        of_kind!(&txn.kind, transaction => transaction.rebuild_from_write_batch(&batch))
    });
}

/// As in RocksDB, this call reports no error; the commit fails instead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_set_commit_timestamp(
    txn: *mut rocksdb_transaction_t,
    timestamp: u64,
) {
    answer((), || object(txn)?.locking("timestamp not supported")?.set_commit_timestamp(timestamp));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_set_read_timestamp_for_validation(
    txn: *mut rocksdb_transaction_t,
    timestamp: u64,
) {
    answer((), || {
        object(txn)?.locking("timestamp not supported")?.set_read_timestamp_for_validation(timestamp)
    });
}

/// The transaction's snapshot; an empty wrapper if it has none. The caller frees the wrapper by
/// `rocksdb_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_get_snapshot(
    txn: *mut rocksdb_transaction_t,
) -> *const rocksdb_snapshot_t {
    answer(std::ptr::null(), || {
        let txn = object_mut(txn)?;
        let snapshot = of_kind!(&txn.kind, transaction => transaction.snapshot());
        let snapshot = match snapshot {
            None => std::ptr::null(),
            Some(snapshot) => {
                if txn.snapshots.last().is_none_or(|last| last.sequence() != snapshot.sequence()) {
                    txn.snapshots.push(Box::new(snapshot));
                }
                txn.snapshots.last().map_or(std::ptr::null(), |last| &raw const **last)
            }
        };
        Ok(rocksdb_snapshot_t::give(snapshot).cast_const())
    })
}

/// Reads `key`. With a lock mode, locks the key first.
unsafe fn read(
    txn: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    (key, key_len): (*const c_char, usize),
    exclusive: Option<c_uchar>,
) -> Result<Option<PinnedBytes>> {
    let txn = object(txn)?;
    let (options, family, key) =
        (object(options)?.for_get(), txn.family(column_family)?, bytes(key, key_len)?);
    let Some(exclusive) = exclusive else {
        return of_kind!(&txn.kind, transaction => transaction.get_pinned_opt(&options, family, key));
    };
    let mode = if exclusive != 0 { LockMode::Exclusive } else { LockMode::Shared };
    let found = match &txn.kind {
        Kind::Locking(transaction) => transaction.get_for_update_opt(&options, family, key, mode, true),
        Kind::Optimistic(transaction) => transaction.get_for_update_opt(&options, family, key),
    };
    Ok(found?.map(PinnedBytes::from))
}

/// Defines the four forms of a read: copied or pinned, of the default family or of a named one.
/// `$exclusive` is an argument that only reads for update have.
macro_rules! reads {
    (
        fn $copied:ident, fn $copied_cf:ident, fn $pinned:ident, fn $pinned_cf:ident
        [$($exclusive:ident)?] => $mode:expr
    ) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $copied(
            txn: *mut rocksdb_transaction_t,
            options: *const rocksdb_readoptions_t,
            key: *const c_char,
            key_len: usize,
            value_len: *mut usize,
            $($exclusive: c_uchar,)?
            errptr: *mut *mut c_char,
        ) -> *mut c_char {
            let found = attempt(errptr, None, || read(txn, options, None, (key, key_len), $mode));
            copy_found(found, value_len)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $copied_cf(
            txn: *mut rocksdb_transaction_t,
            options: *const rocksdb_readoptions_t,
            column_family: *mut rocksdb_column_family_handle_t,
            key: *const c_char,
            key_len: usize,
            value_len: *mut usize,
            $($exclusive: c_uchar,)?
            errptr: *mut *mut c_char,
        ) -> *mut c_char {
            let read = || read(txn, options, Some(column_family), (key, key_len), $mode);
            copy_found(attempt(errptr, None, read), value_len)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pinned(
            txn: *mut rocksdb_transaction_t,
            options: *const rocksdb_readoptions_t,
            key: *const c_char,
            key_len: usize,
            $($exclusive: c_uchar,)?
            errptr: *mut *mut c_char,
        ) -> *mut rocksdb_pinnableslice_t {
            let read = || read(txn, options, None, (key, key_len), $mode);
            rocksdb_pinnableslice_t::give(attempt(errptr, None, read))
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $pinned_cf(
            txn: *mut rocksdb_transaction_t,
            options: *const rocksdb_readoptions_t,
            column_family: *mut rocksdb_column_family_handle_t,
            key: *const c_char,
            key_len: usize,
            $($exclusive: c_uchar,)?
            errptr: *mut *mut c_char,
        ) -> *mut rocksdb_pinnableslice_t {
            let read = || read(txn, options, Some(column_family), (key, key_len), $mode);
            rocksdb_pinnableslice_t::give(attempt(errptr, None, read))
        }
    };
}

reads!(
    fn rocksdb_transaction_get, fn rocksdb_transaction_get_cf,
    fn rocksdb_transaction_get_pinned, fn rocksdb_transaction_get_pinned_cf [] => None
);
reads!(
    fn rocksdb_transaction_get_for_update, fn rocksdb_transaction_get_for_update_cf,
    fn rocksdb_transaction_get_pinned_for_update, fn rocksdb_transaction_get_pinned_for_update_cf
    [exclusive] => Some(exclusive)
);

/// Reads `keys`, all from the default family, or each from its own. A read for update locks all
/// keys first. If the call fails, each key gets the error.
unsafe fn read_all(
    txn: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    families: Option<*const *const rocksdb_column_family_handle_t>,
    (count, key_list, key_lens): (usize, *const *const c_char, *const usize),
    for_update: bool,
) -> Vec<Result<Option<PinnedBytes>>> {
    for_each_key(count, || {
        let (txn, options, keys) =
            (object(txn)?, object(options)?.for_get(), keys(count, key_list, key_lens)?);
        let Some(families) = families else {
            return Ok(of_kind!(&txn.kind, transaction => match for_update {
                true => transaction.multi_get_for_update(&options, &txn.default, &keys),
                false => transaction.multi_get(&options, &txn.default, &keys),
            }));
        };
        let families = slice(families, count)?.iter().map(|each| family(*each));
        let families = families.collect::<Result<Vec<_>>>()?;
        let keys: Vec<(&ColumnFamilyHandle, &[u8])> = families.into_iter().zip(keys).collect();
        Ok(of_kind!(&txn.kind, transaction => match for_update {
            true => transaction.multi_get_for_update_cf(&options, &keys),
            false => transaction.multi_get_cf(&options, &keys),
        }))
    })
}

/// Defines a read of several keys in two forms: for the default family and for named families.
macro_rules! multi_gets {
    (fn $name:ident, fn $name_cf:ident, $for_update:expr) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            txn: *mut rocksdb_transaction_t,
            options: *const rocksdb_readoptions_t,
            count: usize,
            key_list: *const *const c_char,
            key_lens: *const usize,
            values: *mut *mut c_char,
            value_lens: *mut usize,
            errs: *mut *mut c_char,
        ) {
            let found = read_all(txn, options, None, (count, key_list, key_lens), $for_update);
            put_found(found, values, value_lens, errs);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_cf(
            txn: *mut rocksdb_transaction_t,
            options: *const rocksdb_readoptions_t,
            column_families: *const *const rocksdb_column_family_handle_t,
            count: usize,
            key_list: *const *const c_char,
            key_lens: *const usize,
            values: *mut *mut c_char,
            value_lens: *mut usize,
            errs: *mut *mut c_char,
        ) {
            let keys = (count, key_list, key_lens);
            let found = read_all(txn, options, Some(column_families), keys, $for_update);
            put_found(found, values, value_lens, errs);
        }
    };
}

multi_gets!(fn rocksdb_transaction_multi_get, fn rocksdb_transaction_multi_get_cf, false);
multi_gets!(
    fn rocksdb_transaction_multi_get_for_update,
    fn rocksdb_transaction_multi_get_for_update_cf,
    true
);

/// Defines a write in two forms: for the default family and for a named one.
macro_rules! writes {
    ($(
        fn $name:ident, fn $name_cf:ident($($argument:ident: $ty:ty),*)
            |$transaction:ident, $family:ident| $call:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            txn: *mut rocksdb_transaction_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let txn = object(txn)?;
                let $family = &txn.default;
                of_kind!(&txn.kind, $transaction => $call)
            });
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_cf(
            txn: *mut rocksdb_transaction_t,
            column_family: *mut rocksdb_column_family_handle_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let txn = object(txn)?;
                let $family = family(column_family)?;
                of_kind!(&txn.kind, $transaction => $call)
            });
        }
    )*};
}

writes! {
    fn rocksdb_transaction_put, fn rocksdb_transaction_put_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |transaction, family| transaction.put_cf(family, bytes(key, key_len)?, bytes(value, value_len)?);
    fn rocksdb_transaction_merge, fn rocksdb_transaction_merge_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |transaction, family| transaction.merge_cf(family, bytes(key, key_len)?, bytes(value, value_len)?);
    fn rocksdb_transaction_delete, fn rocksdb_transaction_delete_cf(key: *const c_char, key_len: usize)
        |transaction, family| transaction.delete_cf(family, bytes(key, key_len)?);
}

unsafe fn iterator(
    txn: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
) -> *mut rocksdb_iterator_t {
    answer(std::ptr::null_mut(), || {
        let txn = object(txn)?;
        let (options, family) = (object(options)?.for_iterator(), txn.family(column_family)?);
        let made = of_kind!(&txn.kind, transaction => transaction.iter_opt(&options, family));
        Ok(rocksdb_iterator_t::give(Cursor::of_transaction(made)))
    })
}

/// Makes an iterator over the database with the transaction's writes so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_create_iterator(
    txn: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
) -> *mut rocksdb_iterator_t {
    iterator(txn, options, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_create_iterator_cf(
    txn: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
) -> *mut rocksdb_iterator_t {
    iterator(txn, options, Some(column_family))
}
