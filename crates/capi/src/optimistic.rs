//! `rocksdb_optimistictransactiondb_t`: a database whose transactions check for conflicts at
//! commit, and its options.

use crate::backup::{rocksdb_checkpoint_object_create, rocksdb_checkpoint_t};
use crate::batch::rocksdb_writebatch_t;
use crate::column_family::{descriptors, put_handles, rocksdb_column_family_handle_t};
use crate::db::rocksdb_t;
use crate::field::{Code, Held, Object, enumeration};
use crate::maintenance::{rocksdb_property_int, rocksdb_property_value};
use crate::memory::{answer, attempt, destroy, give, object, object_mut, path};
use crate::options::rocksdb_options_t;
use crate::transaction::{Optimistic, begin, rocksdb_transaction_t};
use crate::write_options::rocksdb_writeoptions_t;
use esker::txn::{OccLockBuckets, OccValidationPolicy, OptimisticTransactionDbOptions};
use esker::{OptimisticTransactionDb, OptimisticTransactionOptions};
use libc::{c_char, c_int, c_uchar};

/// An open database whose transactions check for conflicts at commit.
///
/// `base` is the first field: clients pass a pointer to this object as a pointer to a `rocksdb_t`.
/// RocksDB's own layout allows this, and crate `rocksdb` drops a family this way.
#[derive(Debug)]
#[repr(C)]
pub struct rocksdb_optimistictransactiondb_t {
    /// The base database.
    base: rocksdb_t,
    db: OptimisticTransactionDb,
}

/// The base database; NULL for NULL.
unsafe fn base(db: *mut rocksdb_optimistictransactiondb_t) -> *mut rocksdb_t {
    db.as_mut().map_or(std::ptr::null_mut(), |db| &raw mut db.base)
}

fn give_db(db: OptimisticTransactionDb) -> *mut rocksdb_optimistictransactiondb_t {
    give(rocksdb_optimistictransactiondb_t { base: rocksdb_t::new(db.db().clone()), db })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open(
    options: *const rocksdb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_optimistictransactiondb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        Ok(give_db(OptimisticTransactionDb::open(&object(options)?.checked()?, path(name)?)?))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
    options: *const rocksdb_options_t,
    otxn_options: *const rocksdb_optimistictransactiondb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_optimistictransactiondb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, otxn_options) = (object(options)?.checked()?, &object(otxn_options)?.options);
        Ok(give_db(OptimisticTransactionDb::open_opt(&options, otxn_options, path(name)?)?))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open_column_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_optimistictransactiondb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let options = object(options)?.checked()?;
        let families = descriptors(count, names, family_options)?;
        let db = OptimisticTransactionDb::open_cf(&options.db, path(name)?, families.clone())?;
        put_handles(db.db(), &families, handles)?;
        Ok(give_db(db))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
    options: *const rocksdb_options_t,
    otxn_options: *const rocksdb_optimistictransactiondb_options_t,
    name: *const c_char,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_optimistictransactiondb_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let (options, otxn_options) = (object(options)?.checked()?, &object(otxn_options)?.options);
        let families = descriptors(count, names, family_options)?;
        let db =
            OptimisticTransactionDb::open_cf_opt(&options.db, otxn_options, path(name)?, families.clone())?;
        put_handles(db.db(), &families, handles)?;
        Ok(give_db(db))
    })
}

/// Closes the database. Transactions may outlive the call; their commits then fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_close(db: *mut rocksdb_optimistictransactiondb_t) {
    answer((), || object(db)?.db.db().close());
    destroy(db);
}

/// Returns a handle of the base database. `rocksdb_optimistictransactiondb_close_base_db` frees the
/// handle and leaves the database open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_get_base_db(
    db: *mut rocksdb_optimistictransactiondb_t,
) -> *mut rocksdb_t {
    answer(std::ptr::null_mut(), || Ok(give(rocksdb_t::new(object(db)?.db.db().clone()))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_close_base_db(base: *mut rocksdb_t) {
    destroy(base);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransaction_begin(
    db: *mut rocksdb_optimistictransactiondb_t,
    write_options: *const rocksdb_writeoptions_t,
    options: *const rocksdb_optimistictransaction_options_t,
    old: *mut rocksdb_transaction_t,
) -> *mut rocksdb_transaction_t {
    begin(old, || {
        let db = object(db)?;
        let (write, options) = (&object(write_options)?.options, &object(options)?.options);
        Ok((Optimistic::begin(&db.db, write, options), &db.base))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_write(
    db: *mut rocksdb_optimistictransactiondb_t,
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_checkpoint_object_create(
    db: *mut rocksdb_optimistictransactiondb_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_checkpoint_t {
    rocksdb_checkpoint_object_create(base(db), errptr)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_property_value(
    db: *mut rocksdb_optimistictransactiondb_t,
    name: *const c_char,
) -> *mut c_char {
    rocksdb_property_value(base(db), name)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_property_int(
    db: *mut rocksdb_optimistictransactiondb_t,
    name: *const c_char,
    value: *mut u64,
) -> c_int {
    rocksdb_property_int(base(db), name, value)
}

/// Options of a transaction that checks for conflicts at commit.
#[derive(Clone, Copy, Debug, Default)]
pub struct rocksdb_optimistictransaction_options_t {
    /// The options.
    pub options: OptimisticTransactionOptions,
}

impl Object for rocksdb_optimistictransaction_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransaction_options_create()
-> *mut rocksdb_optimistictransaction_options_t {
    give(rocksdb_optimistictransaction_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransaction_options_destroy(
    options: *mut rocksdb_optimistictransaction_options_t,
) {
    destroy(options);
}

/// Options of a database whose transactions check for conflicts at commit. As in RocksDB, new ones
/// validate in parallel; a database that is opened without such options validates serially.
#[derive(Clone, Debug)]
pub struct rocksdb_optimistictransactiondb_options_t {
    pub(crate) options: OptimisticTransactionDbOptions,
    pub(crate) held: Held,
}

impl Default for rocksdb_optimistictransactiondb_options_t {
    fn default() -> Self {
        let options = OptimisticTransactionDbOptions::default();
        Self {
            options: options.validate_policy(OccValidationPolicy::ValidateParallel),
            held: Held::default(),
        }
    }
}

impl Code for OccValidationPolicy {
    fn of(code: i64) -> Option<OccValidationPolicy> {
        match code {
            0 => Some(OccValidationPolicy::ValidateSerial),
            1 => Some(OccValidationPolicy::ValidateParallel),
            _ => None,
        }
    }
    fn code(&self) -> i64 {
        *self as i64
    }
}
enumeration!(OccValidationPolicy: c_int);

impl Object for rocksdb_optimistictransactiondb_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_options_create()
-> *mut rocksdb_optimistictransactiondb_options_t {
    give(rocksdb_optimistictransactiondb_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_options_destroy(
    options: *mut rocksdb_optimistictransactiondb_options_t,
) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(
    options: *mut rocksdb_optimistictransactiondb_options_t,
    lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
) {
    answer((), || {
        let shared = lock_buckets.as_ref().map(|buckets| buckets.buckets.clone());
        object_mut(options)?.options.shared_lock_buckets = shared;
        Ok(())
    });
}

/// Mutexes that the commits of several databases share.
#[derive(Debug)]
pub struct rocksdb_optimistictransactiondb_lock_buckets_t {
    buckets: OccLockBuckets,
}

/// Most mutexes of one object.
const MOST_BUCKETS: usize = 1 << 24;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_lock_buckets_create(
    bucket_count: usize,
    _cache_aligned: c_uchar,
) -> *mut rocksdb_optimistictransactiondb_lock_buckets_t {
    answer(std::ptr::null_mut(), || {
        let count = bucket_count.clamp(1, MOST_BUCKETS) as u32;
        Ok(give(rocksdb_optimistictransactiondb_lock_buckets_t { buckets: OccLockBuckets::new(count)? }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(
    lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
) -> usize {
    lock_buckets.as_ref().map_or(0, |buckets| buckets.buckets.approximate_memory_usage())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_optimistictransactiondb_lock_buckets_destroy(
    lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
) {
    destroy(lock_buckets);
}
