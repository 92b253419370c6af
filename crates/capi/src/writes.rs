//! Writes of one key, of a range and of a batch.

use crate::batch::rocksdb_writebatch_t;
use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::memory::{attempt, bytes, object, object_mut};
use crate::write_options::rocksdb_writeoptions_t;
use esker::{DbWithTtl, Result, WriteBatch, WriteOptions};
use libc::c_char;

/// Defines the functions of a write: for the default family, and for a given one.
macro_rules! writes {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, fn $name_cf:ident($($argument:ident: $ty:ty),*)
            |$db:ident, $options:ident, $family:ident| $call:expr;
    )*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            db: *mut rocksdb_t,
            options: *const rocksdb_writeoptions_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let ($db, $options) = (object(db)?, &object(options)?.options);
                let $family = &$db.default;
                $call
            });
        }

        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_cf(
            db: *mut rocksdb_t,
            options: *const rocksdb_writeoptions_t,
            column_family: *mut rocksdb_column_family_handle_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let ($db, $options) = (object(db)?, &object(options)?.options);
                let $family = family(column_family)?;
                $call
            });
        }
    )*};
}

writes! {
    fn rocksdb_put, fn rocksdb_put_cf(key: *const c_char, key_len: usize, value: *const c_char, value_len: usize)
        |db, options, family| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            match &db.ttl {
                None => db.db.put_opt(options, family, key, value),
                Some(ttl) => write_one(ttl, options, |batch| batch.put_cf(family, key, value)),
            }
        };
    fn rocksdb_delete, fn rocksdb_delete_cf(key: *const c_char, key_len: usize)
        |db, options, family| db.db.delete_opt(options, family, bytes(key, key_len)?);
    fn rocksdb_singledelete, fn rocksdb_singledelete_cf(key: *const c_char, key_len: usize)
        |db, options, family| db.db.single_delete_opt(options, family, bytes(key, key_len)?);
    fn rocksdb_merge, fn rocksdb_merge_cf(key: *const c_char, key_len: usize, value: *const c_char, value_len: usize)
        |db, options, family| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            match &db.ttl {
                None => db.db.merge_opt(options, family, key, value),
                Some(ttl) => write_one(ttl, options, |batch| batch.merge_cf(family, key, value)),
            }
        };
    fn rocksdb_put_with_ts, fn rocksdb_put_cf_with_ts(
        key: *const c_char, key_len: usize, ts: *const c_char, ts_len: usize, value: *const c_char, value_len: usize
    ) |db, options, family| {
        let (key, ts, value) = (bytes(key, key_len)?, bytes(ts, ts_len)?, bytes(value, value_len)?);
        db.db.put_with_ts(options, family, key, ts, value)
    };
    fn rocksdb_delete_with_ts, fn rocksdb_delete_cf_with_ts(
        key: *const c_char, key_len: usize, ts: *const c_char, ts_len: usize
    ) |db, options, family| db.db.delete_with_ts(options, family, bytes(key, key_len)?, bytes(ts, ts_len)?);
    fn rocksdb_singledelete_with_ts, fn rocksdb_singledelete_cf_with_ts(
        key: *const c_char, key_len: usize, ts: *const c_char, ts_len: usize
    ) |db, options, family| db.db.single_delete_with_ts(options, family, bytes(key, key_len)?, bytes(ts, ts_len)?);
}

fn write_one(
    ttl: &DbWithTtl,
    options: &WriteOptions,
    change: impl FnOnce(&mut WriteBatch) -> Result<()>,
) -> Result<()> {
    let mut batch = WriteBatch::new();
    change(&mut batch)?;
    ttl.write_opt(options, &batch)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_range_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_writeoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    begin: *const c_char,
    begin_len: usize,
    end: *const c_char,
    end_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (begin, end) = (bytes(begin, begin_len)?, bytes(end, end_len)?);
        object(db)?.db.delete_range_opt(&object(options)?.options, family(column_family)?, begin, end)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_write(
    db: *mut rocksdb_t,
    options: *const rocksdb_writeoptions_t,
    batch: *mut rocksdb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        db.write(&object(options)?.options, object_mut(batch)?.writable(db.database)?)
    });
}
