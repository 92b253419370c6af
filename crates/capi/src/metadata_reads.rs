//! Reads that also return the value's timestamp, and whether a newer version exists.
//!
//! In: keys; pointers for the facts, NULL to skip a fact. Out: values made by `malloc`; NULL means
//! "not found".

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::memory::{attempt, bytes, c_bool, object, put, put_at, to_c_bytes, to_c_string};
use crate::multi_get::{Families, for_each_key, keys};
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::copy_found;
use esker::GetOutput;
use libc::{c_char, c_uchar};

/// The caller's pointers for the facts of one read.
#[derive(Clone, Copy)]
struct Facts {
    timestamp: *mut *mut c_char,
    timestamp_len: *mut usize,
    newer_version_present: *mut c_uchar,
}

impl Facts {
    unsafe fn put(self, output: Option<&GetOutput>) {
        let found = output.filter(|output| output.value.is_some());
        let is_newer = output.is_some_and(|output| output.newer_version_present);
        put(self.newer_version_present, c_bool(is_newer));
        if !self.timestamp.is_null() && !self.timestamp_len.is_null() {
            let copy = found.map(|output| to_c_bytes(&output.timestamp, self.timestamp_len));
            put(self.timestamp, copy.unwrap_or(std::ptr::null_mut()));
            if found.is_none() {
                put(self.timestamp_len, 0);
            }
        }
    }

    unsafe fn at(self, i: usize) -> Facts {
        let at = |wanted: bool| if wanted { i } else { 0 };
        Facts {
            timestamp: self.timestamp.wrapping_add(at(!self.timestamp.is_null())),
            timestamp_len: self.timestamp_len.wrapping_add(at(!self.timestamp_len.is_null())),
            newer_version_present: self
                .newer_version_present
                .wrapping_add(at(!self.newer_version_present.is_null())),
        }
    }
}

unsafe fn get(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    (key, key_len): (*const c_char, usize),
    value_len: *mut usize,
    facts: Facts,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let output = attempt(errptr, None, || {
        let db = object(db)?;
        let family = column_family.map_or(Ok(&db.default), |column_family| family(column_family))?;
        db.db.get_with_metadata(&object(options)?.for_get(), family, bytes(key, key_len)?).map(Some)
    });
    facts.put(output.as_ref());
    copy_found(output.and_then(|output| output.value), value_len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_with_metadata(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    timestamp: *mut *mut c_char,
    timestamp_len: *mut usize,
    newer_version_present: *mut c_uchar,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let facts = Facts { timestamp, timestamp_len, newer_version_present };
    get(db, options, None, (key, key_len), value_len, facts, errptr)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_cf_with_metadata(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    timestamp: *mut *mut c_char,
    timestamp_len: *mut usize,
    newer_version_present: *mut c_uchar,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let facts = Facts { timestamp, timestamp_len, newer_version_present };
    get(db, options, Some(column_family), (key, key_len), value_len, facts, errptr)
}

unsafe fn multi_get(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    families: Families,
    (count, key_list, key_lens): (usize, *const *const c_char, *const usize),
    (values, value_lens): (*mut *mut c_char, *mut usize),
    facts: Facts,
    errs: *mut *mut c_char,
) {
    let all = for_each_key(count, || {
        let (db, keys) = (object(db)?, keys(count, key_list, key_lens)?);
        let pairs: Vec<_> = families.of(db, count)?.into_iter().zip(keys).collect();
        Ok(db.db.multi_get_with_metadata(&object(options)?.for_get(), &pairs))
    });
    for (at, output) in all.into_iter().enumerate() {
        let error = output.as_ref().err().map(|error| to_c_string(error.to_string().as_bytes()));
        put_at(errs, at, error.unwrap_or(std::ptr::null_mut()));
        let output = output.ok();
        facts.at(at).put(output.as_ref());
        let mut len = 0;
        put_at(values, at, copy_found(output.and_then(|output| output.value), &mut len));
        put_at(value_lens, at, len);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get_with_metadata(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    num_keys: usize,
    keys_list: *const *const c_char,
    keys_list_sizes: *const usize,
    values_list: *mut *mut c_char,
    values_list_sizes: *mut usize,
    timestamp_list: *mut *mut c_char,
    timestamp_list_sizes: *mut usize,
    newer_version_present: *mut c_uchar,
    errs: *mut *mut c_char,
) {
    let facts =
        Facts { timestamp: timestamp_list, timestamp_len: timestamp_list_sizes, newer_version_present };
    let (keys, values) = ((num_keys, keys_list, keys_list_sizes), (values_list, values_list_sizes));
    multi_get(db, options, Families::Default, keys, values, facts, errs);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get_cf_with_metadata(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_families: *const *const rocksdb_column_family_handle_t,
    num_keys: usize,
    keys_list: *const *const c_char,
    keys_list_sizes: *const usize,
    values_list: *mut *mut c_char,
    values_list_sizes: *mut usize,
    timestamp_list: *mut *mut c_char,
    timestamp_list_sizes: *mut usize,
    newer_version_present: *mut c_uchar,
    errs: *mut *mut c_char,
) {
    let facts =
        Facts { timestamp: timestamp_list, timestamp_len: timestamp_list_sizes, newer_version_present };
    let (keys, values) = ((num_keys, keys_list, keys_list_sizes), (values_list, values_list_sizes));
    multi_get(db, options, Families::Each(column_families), keys, values, facts, errs);
}
