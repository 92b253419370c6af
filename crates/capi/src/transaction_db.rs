//! `rocksdb_transactiondb_t`: a database whose transactions lock, and its options.
//!
//! In: calls. Out: writes of [`esker::TransactionDb`], which lock their keys. Reads and all other
//! calls go to the base database, as calls of a `rocksdb_t`.

use crate::backup::{rocksdb_checkpoint_object_create, rocksdb_checkpoint_t};
use crate::batch::rocksdb_writebatch_t;
use crate::column_family::{descriptors, give_family, put_handles, rocksdb_column_family_handle_t};
use crate::db::{family, rocksdb_t};
use crate::field::{Code, Held, Object, enumeration};
use crate::iterator::{rocksdb_create_iterator, rocksdb_create_iterator_cf, rocksdb_iterator_t};
use crate::maintenance::*;
use crate::memory::{answer, attempt, bytes, destroy, give, object, object_mut, path, put, text, to_c_array};
use crate::multi_get::{rocksdb_multi_get, rocksdb_multi_get_cf};
use crate::options::rocksdb_options_t;
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::*;
use crate::snapshot::{rocksdb_create_snapshot, rocksdb_release_snapshot, rocksdb_snapshot_t};
use crate::transaction::{begin, give_transaction, rocksdb_transaction_t};
use crate::write_options::{rocksdb_flushoptions_t, rocksdb_flushwaloptions_t, rocksdb_writeoptions_t};
use esker::txn::WritePolicy;
use esker::{ColumnFamilyDescriptor, Error, Result, TransactionDb, TransactionDbOptions, TransactionOptions};
use libc::{c_char, c_int, c_uchar};

/// An open database whose transactions lock.
///
/// `base` is the first field: clients pass a pointer to this object as a pointer to a `rocksdb_t`.
/// RocksDB's own layout allows this, and crate `rocksdb` drops a family this way.
#[derive(Debug)]
#[repr(C)]
pub struct rocksdb_transactiondb_t {
    /// The base database.
    base: rocksdb_t,
    db: TransactionDb,
}

/// The base database; NULL for NULL.
unsafe fn base(db: *mut rocksdb_transactiondb_t) -> *mut rocksdb_t {
    db.as_mut().map_or(std::ptr::null_mut(), |db| &raw mut db.base)
}

unsafe fn open(
    options: *const rocksdb_options_t,
    txn_options: *const rocksdb_transactiondb_options_t,
    name: *const c_char,
    families: impl FnOnce(&rocksdb_options_t) -> Result<Vec<ColumnFamilyDescriptor>>,
) -> Result<(TransactionDb, Vec<ColumnFamilyDescriptor>)> {
    let (options, txn_options) = (object(options)?, object(txn_options)?.checked()?);
    let families = families(options)?;
    let db = TransactionDb::open_cf(&options.checked()?.db, &txn_options, path(name)?, families.clone())?;
    Ok((db, families))
}

fn give_db(db: TransactionDb) -> *mut rocksdb_transactiondb_t {
    give(rocksdb_transactiondb_t { base: rocksdb_t::new(db.db().clone()), db })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_open(
    options: *const rocksdb_options_t,
    txn_options: *const rocksdb_transactiondb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_transactiondb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let default = |options: &rocksdb_options_t| {
            Ok(vec![ColumnFamilyDescriptor::new("default", options.cf.clone())])
        };
        Ok(give_db(open(options, txn_options, name, default)?.0))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_open_column_families(
    options: *const rocksdb_options_t,
    txn_options: *const rocksdb_transactiondb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_transactiondb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let families = |_: &rocksdb_options_t| descriptors(count, names, family_options);
        let (db, families) = open(options, txn_options, name, families)?;
        put_handles(db.db(), &families, handles)?;
        Ok(give_db(db))
    })
}

/// Closes the database. Transactions may outlive the call; their commits then fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_close(db: *mut rocksdb_transactiondb_t) {
    answer((), || object(db)?.db.db().close());
    destroy(db);
}

/// Returns a handle of the base database, whose writes lock nothing.
/// `rocksdb_transactiondb_close_base_db` frees the handle and leaves the database open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_get_base_db(
    db: *mut rocksdb_transactiondb_t,
) -> *mut rocksdb_t {
    answer(std::ptr::null_mut(), || Ok(give(rocksdb_t::new(object(db)?.db.db().clone()))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_close_base_db(base: *mut rocksdb_t) {
    destroy(base);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_create_column_family(
    db: *mut rocksdb_transactiondb_t,
    options: *const rocksdb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_column_family_handle_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let options = object(options)?;
        options.check()?;
        let db = object(db)?;
        Ok(give_family(db.base.database, db.db.create_column_family(&text(name)?, &options.cf)?))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_begin(
    db: *mut rocksdb_transactiondb_t,
    write_options: *const rocksdb_writeoptions_t,
    options: *const rocksdb_transaction_options_t,
    old: *mut rocksdb_transaction_t,
) -> *mut rocksdb_transaction_t {
    begin(old, || {
        let db = object(db)?;
        let (write, options) = (&object(write_options)?.options, &object(options)?.options);
        Ok((db.db.begin_transaction_opt(write, options), &db.base))
    })
}

/// The prepared transactions without a handle, as an array that the caller frees by `rocksdb_free`.
/// NULL if there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_get_prepared_transactions(
    db: *mut rocksdb_transactiondb_t,
    count: *mut usize,
) -> *mut *mut rocksdb_transaction_t {
    put(count, 0);
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        let prepared = db.db.get_all_prepared_transactions().into_iter();
        let prepared: Vec<_> = prepared.map(|txn| give_transaction(txn, &db.base)).collect();
        put(count, prepared.len());
        Ok(if prepared.is_empty() { std::ptr::null_mut() } else { to_c_array(&prepared) })
    })
}

/// Defines a write in two forms: for the default family and for a named one.
macro_rules! writes {
    ($(
        fn $name:ident, fn $name_cf:ident($($argument:ident: $ty:ty),*)
            |$db:ident, $options:ident, $family:ident| $call:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            db: *mut rocksdb_transactiondb_t,
            options: *const rocksdb_writeoptions_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let (db, $options) = (object(db)?, &object(options)?.options);
                let ($db, $family) = (&db.db, &db.base.default);
                $call
            });
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_cf(
            db: *mut rocksdb_transactiondb_t,
            options: *const rocksdb_writeoptions_t,
            column_family: *mut rocksdb_column_family_handle_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let ($db, $options) = (&object(db)?.db, &object(options)?.options);
                let $family = family(column_family)?;
                $call
            });
        }
    )*};
}

writes! {
    fn rocksdb_transactiondb_put, fn rocksdb_transactiondb_put_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |db, options, family| db.put_opt(options, family, bytes(key, key_len)?, bytes(value, value_len)?);
    fn rocksdb_transactiondb_merge, fn rocksdb_transactiondb_merge_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |db, options, family| db.merge_opt(options, family, bytes(key, key_len)?, bytes(value, value_len)?);
    fn rocksdb_transactiondb_delete, fn rocksdb_transactiondb_delete_cf(key: *const c_char, key_len: usize)
        |db, options, family| db.delete_opt(options, family, bytes(key, key_len)?);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_write(
    db: *mut rocksdb_transactiondb_t,
    options: *const rocksdb_writeoptions_t,
    batch: *mut rocksdb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        let batch = object_mut(batch)?.writable(db.base.database)?;
        db.db.write_opt(&object(options)?.options, batch)
    });
}

/// Defines calls that go to the base database.
macro_rules! of_base {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) $(-> $result:ty)? = $call:path;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            db: *mut rocksdb_transactiondb_t,
            $($argument: $ty,)*
        ) $(-> $result)? {
            $call(base(db), $($argument),*)
        }
    )*};
}

of_base! {
    fn rocksdb_transactiondb_create_snapshot() -> *const rocksdb_snapshot_t = rocksdb_create_snapshot;
    fn rocksdb_transactiondb_release_snapshot(snapshot: *const rocksdb_snapshot_t) = rocksdb_release_snapshot;
    fn rocksdb_transactiondb_property_value(name: *const c_char) -> *mut c_char = rocksdb_property_value;
    fn rocksdb_transactiondb_property_int(name: *const c_char, value: *mut u64) -> c_int
        = rocksdb_property_int;
    fn rocksdb_transactiondb_get(
        options: *const rocksdb_readoptions_t, key: *const c_char, key_len: usize, value_len: *mut usize,
        errptr: *mut *mut c_char
    ) -> *mut c_char = rocksdb_get;
    fn rocksdb_transactiondb_get_cf(
        options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char, key_len: usize, value_len: *mut usize, errptr: *mut *mut c_char
    ) -> *mut c_char = rocksdb_get_cf;
    fn rocksdb_transactiondb_get_pinned(
        options: *const rocksdb_readoptions_t, key: *const c_char, key_len: usize, errptr: *mut *mut c_char
    ) -> *mut rocksdb_pinnableslice_t = rocksdb_get_pinned;
    fn rocksdb_transactiondb_get_pinned_cf(
        options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char, key_len: usize, errptr: *mut *mut c_char
    ) -> *mut rocksdb_pinnableslice_t = rocksdb_get_pinned_cf;
    fn rocksdb_transactiondb_multi_get(
        options: *const rocksdb_readoptions_t, count: usize, keys: *const *const c_char,
        key_lens: *const usize, values: *mut *mut c_char, value_lens: *mut usize, errs: *mut *mut c_char
    ) = rocksdb_multi_get;
    fn rocksdb_transactiondb_multi_get_cf(
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t, count: usize,
        keys: *const *const c_char, key_lens: *const usize, values: *mut *mut c_char,
        value_lens: *mut usize, errs: *mut *mut c_char
    ) = rocksdb_multi_get_cf;
    fn rocksdb_transactiondb_create_iterator(options: *const rocksdb_readoptions_t)
        -> *mut rocksdb_iterator_t = rocksdb_create_iterator;
    fn rocksdb_transactiondb_create_iterator_cf(
        options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t
    ) -> *mut rocksdb_iterator_t = rocksdb_create_iterator_cf;
    fn rocksdb_transactiondb_flush(options: *const rocksdb_flushoptions_t, errptr: *mut *mut c_char)
        = rocksdb_flush;
    fn rocksdb_transactiondb_flush_cf(
        options: *const rocksdb_flushoptions_t, column_family: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char
    ) = rocksdb_flush_cf;
    fn rocksdb_transactiondb_flush_cfs(
        options: *const rocksdb_flushoptions_t, column_families: *mut *mut rocksdb_column_family_handle_t,
        count: c_int, errptr: *mut *mut c_char
    ) = rocksdb_flush_cfs;
    fn rocksdb_transactiondb_flush_wal(sync: c_uchar, errptr: *mut *mut c_char) = rocksdb_flush_wal;
    fn rocksdb_transactiondb_flush_wal_with_options(
        options: *const rocksdb_flushwaloptions_t, errptr: *mut *mut c_char
    ) = rocksdb_flush_wal_with_options;
    fn rocksdb_transactiondb_checkpoint_object_create(errptr: *mut *mut c_char)
        -> *mut rocksdb_checkpoint_t = rocksdb_checkpoint_object_create;
}

impl Code for WritePolicy {
    fn of(code: i64) -> Option<WritePolicy> {
        match code {
            0 => Some(WritePolicy::WriteCommitted),
            1 => Some(WritePolicy::WritePrepared),
            2 => Some(WritePolicy::WriteUnprepared),
            _ => None,
        }
    }
    fn code(&self) -> i64 {
        *self as i64
    }
}
enumeration!(WritePolicy: c_int);

/// Options of a database whose transactions lock.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_transactiondb_options_t {
    /// The options.
    pub options: TransactionDbOptions,
    pub(crate) held: Held,
    refused: Option<String>,
}

impl Object for rocksdb_transactiondb_options_t {
    fn refuse(&mut self, option: &'static str, value: String) {
        self.refused.get_or_insert(format!("{option}: '{value}' is not one of its values"));
    }

    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

impl rocksdb_transactiondb_options_t {
    /// The options for the engine.
    fn checked(&self) -> Result<TransactionDbOptions> {
        if let Some(refused) = &self.refused {
            return Err(Error::invalid_argument(refused));
        }
        Ok(self.options.clone())
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_options_create() -> *mut rocksdb_transactiondb_options_t {
    give(rocksdb_transactiondb_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transactiondb_options_destroy(
    options: *mut rocksdb_transactiondb_options_t,
) {
    destroy(options);
}

/// Options of a transaction that locks.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_transaction_options_t {
    /// The options.
    pub options: TransactionOptions,
    pub(crate) held: Held,
}

impl Object for rocksdb_transaction_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_options_create() -> *mut rocksdb_transaction_options_t {
    // RocksDB's default.
    let options = TransactionOptions::default().deadlock_timeout_us(500);
    give(rocksdb_transaction_options_t { options, held: Held::new() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_transaction_options_destroy(options: *mut rocksdb_transaction_options_t) {
    destroy(options);
}
