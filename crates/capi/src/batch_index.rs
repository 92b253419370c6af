//! `rocksdb_writebatch_wi_t`: a batch that can be read before it is written.
//!
//! In: changes, keys, iterators over a database. Out: values as they would be after the write, and
//! the changes. The C type is a wrapper: one pointer in memory made by `malloc`. The caller frees
//! the wrapper of a transaction's batch by `rocksdb_free`; such a batch is read-only.

use crate::batch::{BatchChecks, ChangedFamily, Deleted, Put, TimestampSize, iterate, timestamp_sizes};
use crate::callbacks::rocksdb_comparator_t;
use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{DatabaseNumber, family, rocksdb_t};
use crate::iterator::{Cursor, rocksdb_iterator_t};
use crate::memory::{answer, attempt, bytes, give, lend, object, to_c_array};
use crate::options::rocksdb_options_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::{copy_found, rocksdb_pinnableslice_t};
use crate::transaction::rocksdb_transaction_t;
use crate::write_options::rocksdb_writeoptions_t;
use esker::comparator::BytewiseComparator;
use esker::{ColumnFamilyId, Error, PinnedBytes, Result, WriteBatch, WriteBatchWithIndex};
use libc::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

/// A batch with an index.
#[repr(C)]
#[derive(Debug)]
pub struct rocksdb_writebatch_wi_t {
    indexed: *mut Indexed,
}

/// The batch behind a wrapper.
#[derive(Debug)]
pub(crate) enum Indexed {
    /// A batch that the wrapper owns.
    Own(Box<WriteBatchWithIndex>, BatchChecks),
    /// The batch of a transaction.
    OfTransaction(*const rocksdb_transaction_t),
}

impl Indexed {
    /// Refuses a batch that names families of another database than this one.
    /// # Errors
    /// `InvalidArgument` for such a batch.
    pub(crate) unsafe fn check_database(&self, database: DatabaseNumber) -> Result<()> {
        match self {
            Indexed::Own(_, checks) => checks.check_families(database),
            Indexed::OfTransaction(transaction) => database.check(object(*transaction)?.database),
        }
    }
}

impl rocksdb_writebatch_wi_t {
    /// The batch behind the wrapper.
    pub(crate) fn indexed(&self) -> *const Indexed {
        self.indexed
    }

    /// A wrapper of `indexed`. `indexed` must outlive it.
    pub(crate) unsafe fn give(indexed: *mut Indexed) -> *mut rocksdb_writebatch_wi_t {
        to_c_array(&[indexed]).cast()
    }
}

unsafe fn give_batch(batch: WriteBatchWithIndex) -> *mut rocksdb_writebatch_wi_t {
    rocksdb_writebatch_wi_t::give(give(Indexed::Own(Box::new(batch), BatchChecks::default())))
}

/// Runs `look` on the batch.
pub(crate) unsafe fn look<R>(
    batch: *const rocksdb_writebatch_wi_t,
    look: impl FnOnce(&WriteBatchWithIndex) -> R,
) -> Result<R> {
    match object(object(batch)?.indexed)? {
        Indexed::Own(batch, _) => Ok(look(batch)),
        Indexed::OfTransaction(transaction) => Ok(object(*transaction)?.with_batch(look)),
    }
}

unsafe fn change<R>(
    batch: *mut rocksdb_writebatch_wi_t,
    change: impl FnOnce(&mut WriteBatchWithIndex, &mut BatchChecks) -> Result<R>,
) -> Result<R> {
    match &mut *object(batch)?.indexed {
        Indexed::Own(batch, checks) => change(batch, checks),
        Indexed::OfTransaction(_) => {
            Err(Error::not_supported("the batch of a transaction is changed by calls of the transaction"))
        }
    }
}

/// Changes the batch in a family; `None` means the default family.
pub(crate) unsafe fn change_in(
    batch: *mut rocksdb_writebatch_wi_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    change_it: impl FnOnce(&mut WriteBatchWithIndex, &mut ChangedFamily<'_>) -> Result<()>,
) {
    answer((), || change(batch, |batch, checks| change_it(batch, &mut checks.target(column_family)?)));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create(
    _reserved_bytes: usize,
    overwrite_keys: c_uchar,
) -> *mut rocksdb_writebatch_wi_t {
    give_batch(WriteBatchWithIndex::new(Arc::new(BytewiseComparator), overwrite_keys != 0))
}

/// A batch from RocksDB's encoding; NULL if the bytes are not a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create_from(
    rep: *const c_char,
    len: usize,
) -> *mut rocksdb_writebatch_wi_t {
    answer(std::ptr::null_mut(), || Ok(give_batch(WriteBatch::from_bytes(bytes(rep, len)?.to_vec())?.into())))
}

/// Makes an empty batch. `comparator` orders the keys of families that are read without a handle.
/// The caller keeps ownership of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create_with_params(
    comparator: *mut rocksdb_comparator_t,
    _reserved_bytes: usize,
    overwrite_keys: c_uchar,
    max_bytes: usize,
    protection_bytes_per_key: usize,
) -> *mut rocksdb_writebatch_wi_t {
    answer(std::ptr::null_mut(), || {
        let bytewise = || Arc::new(BytewiseComparator) as _;
        let comparator =
            comparator.as_ref().map_or_else(bytewise, |comparator| comparator.comparator.clone());
        let mut batch = WriteBatchWithIndex::new(comparator, overwrite_keys != 0);
        batch.protect(protection_bytes_per_key)?;
        batch.set_max_bytes(max_bytes);
        Ok(give_batch(batch))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_destroy(batch: *mut rocksdb_writebatch_wi_t) {
    if let Some(wrapper) = batch.as_ref() {
        if matches!(wrapper.indexed.as_ref(), Some(Indexed::Own(..))) {
            crate::memory::destroy(wrapper.indexed);
        }
        libc::free(batch.cast());
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_clear(batch: *mut rocksdb_writebatch_wi_t) {
    answer((), || {
        change(batch, |batch, checks| {
            batch.clear();
            *checks = BatchChecks::default();
            Ok(())
        })
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_count(batch: *mut rocksdb_writebatch_wi_t) -> c_int {
    answer(0, || look(batch, |batch| c_int::try_from(batch.len()).unwrap_or(c_int::MAX)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_put_log_data(
    batch: *mut rocksdb_writebatch_wi_t,
    blob: *const c_char,
    len: usize,
) {
    answer((), || change(batch, |batch, _| batch.put_log_data(bytes(blob, len)?)));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_iterate(
    batch: *mut rocksdb_writebatch_wi_t,
    state: *mut c_void,
    put: Put,
    deleted: Deleted,
) {
    answer((), || look(batch, |batch| iterate(batch.write_batch(), state, put, deleted, None)));
}

/// The batch in RocksDB's encoding. The bytes live until the batch is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_data(
    batch: *mut rocksdb_writebatch_wi_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || look(batch, |batch| lend(batch.write_batch().data(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_set_save_point(batch: *mut rocksdb_writebatch_wi_t) {
    answer((), || {
        change(batch, |batch, _| {
            batch.set_save_point();
            Ok(())
        })
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_rollback_to_save_point(
    batch: *mut rocksdb_writebatch_wi_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || change(batch, |batch, _| batch.rollback_to_save_point()));
}

/// Sets timestamps as `rocksdb_writebatch_update_timestamps` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_update_timestamps(
    batch: *mut rocksdb_writebatch_wi_t,
    ts: *const c_char,
    ts_len: usize,
    state: *mut c_void,
    get_ts_size: TimestampSize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        change(batch, |batch, checks| {
            batch.update_timestamps(bytes(ts, ts_len)?, timestamp_sizes(state, get_ts_size)?)?;
            checks.are_set();
            Ok(())
        })
    });
}

/// Reads a key of the default family from the batch alone. NULL if the batch does not change the
/// key, or deletes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch(
    batch: *mut rocksdb_writebatch_wi_t,
    options: *const rocksdb_options_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let found = attempt(errptr, None, || {
        let operator = object(options)?.cf.merge_operator.as_ref();
        let key = bytes(key, key_len)?;
        look(batch, |batch| batch.get_from_batch(ColumnFamilyId::DEFAULT, operator, key))?
    });
    copy_found(found.map(PinnedBytes::from), value_len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch_cf(
    batch: *mut rocksdb_writebatch_wi_t,
    _options: *const rocksdb_options_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let found = attempt(errptr, None, || {
        let (family, key) = (family(column_family)?, bytes(key, key_len)?);
        look(batch, |batch| batch.get_from_batch_cf(family, key))?
    });
    copy_found(found.map(PinnedBytes::from), value_len)
}

/// Reads `key` as it would be after the write.
pub(crate) unsafe fn read(
    batch: *mut rocksdb_writebatch_wi_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    key: *const c_char,
    key_len: usize,
) -> Result<Option<PinnedBytes>> {
    let (db, options) = (object(db)?, object(options)?.for_get());
    let family = column_family.map_or(Ok(&db.default), |column_family| family(column_family))?;
    if db.ttl.is_some() {
        return Err(Error::not_supported("reads of a batch over a database with TTL"));
    }
    let key = bytes(key, key_len)?;
    look(batch, |batch| batch.get_pinned_from_batch_and_db(&db.db, &options, family, key))?
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch_and_db(
    batch: *mut rocksdb_writebatch_wi_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    copy_found(attempt(errptr, None, || read(batch, db, options, None, key, key_len)), value_len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
    batch: *mut rocksdb_writebatch_wi_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let read = || read(batch, db, options, Some(column_family), key, key_len);
    copy_found(attempt(errptr, None, read), value_len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
    batch: *mut rocksdb_writebatch_wi_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_pinnableslice_t {
    let read = || read(batch, db, options, None, key, key_len);
    rocksdb_pinnableslice_t::give(attempt(errptr, None, read))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
    batch: *mut rocksdb_writebatch_wi_t,
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_pinnableslice_t {
    let read = || read(batch, db, options, Some(column_family), key, key_len);
    rocksdb_pinnableslice_t::give(attempt(errptr, None, read))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write_writebatch_wi(
    db: *mut rocksdb_t,
    options: *const rocksdb_writeoptions_t,
    batch: *mut rocksdb_writebatch_wi_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (db, options) = (object(db)?, &object(options)?.options);
        let indexed = &mut *object(batch)?.indexed;
        indexed.check_database(db.database)?;
        match indexed {
            Indexed::Own(batch, checks) => {
                checks.check(db.database)?;
                match &db.ttl {
                    Some(ttl) => ttl.write_opt(options, batch.write_batch()),
                    None => db.db.write_opt(options, &mut **batch),
                }
            }
            Indexed::OfTransaction(transaction) => {
                db.write(options, &mut object(*transaction)?.with_batch(|batch| batch.write_batch().clone()))
            }
        }
    });
}

/// An iterator over the entries of `base` as they would be after the write, within the bounds of
/// `base`. Destroys `base`.
unsafe fn over(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
) -> *mut rocksdb_iterator_t {
    answer(std::ptr::null_mut(), || {
        object(base)?;
        let base = Box::from_raw(base);
        let cursor = match &base.cursor {
            Cursor::Db(base) => Cursor::of_transaction(look(batch, |batch| batch.iter_over(base)).flatten()),
            Cursor::Failed(error) => Cursor::Failed(error.clone()),
            _ => {
                Cursor::Failed(Error::not_supported("a batch over an iterator with TTL or of a transaction"))
            }
        };
        Ok(rocksdb_iterator_t::give(cursor))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
) -> *mut rocksdb_iterator_t {
    over(batch, base)
}

/// Ignores `column_family`: the family is that of `base`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
    _column_family: *mut rocksdb_column_family_handle_t,
) -> *mut rocksdb_iterator_t {
    over(batch, base)
}

/// Ignores the read options: those of `base` apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
    _options: *const rocksdb_readoptions_t,
) -> *mut rocksdb_iterator_t {
    over(batch, base)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
    _column_family: *mut rocksdb_column_family_handle_t,
    _options: *const rocksdb_readoptions_t,
) -> *mut rocksdb_iterator_t {
    over(batch, base)
}
