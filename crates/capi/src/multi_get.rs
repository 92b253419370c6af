//! Reads many keys with one call.
//!
//! In: keys, all of one family, or each with a family of its own. Out: for each key a value or
//! NULL, and an error or NULL. Values are copies made by `malloc`, or pinned one by one, or pinned
//! together by one object.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::iterator::rocksdb_slice_t;
use crate::memory::{answer, bytes, destroy, give, lend, object, outcome, put, put_at, slice, to_c_string};
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::{copy_found, rocksdb_pinnableslice_t};
use esker::{ColumnFamilyHandle, PinnedBytes, Result};
use libc::{c_char, c_int, c_uchar};

type Found = Result<Option<PinnedBytes>>;

/// The keys of a call.
pub(crate) unsafe fn keys<'a>(
    count: usize,
    keys: *const *const c_char,
    lens: *const usize,
) -> Result<Vec<&'a [u8]>> {
    slice(keys, count)?.iter().zip(slice(lens, count)?).map(|(key, len)| bytes(*key, *len)).collect()
}

/// The results of a call for `count` keys. If the call fails, each key gets the error.
pub(crate) fn for_each_key<T>(count: usize, call: impl FnOnce() -> Result<Vec<Result<T>>>) -> Vec<Result<T>> {
    outcome(call).unwrap_or_else(|error| (0..count).map(|_| Err(error.clone())).collect())
}

/// Reads `count` keys, all from one family, or each from its own.
unsafe fn read_all<'a>(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    families: Families,
    count: usize,
    keys: impl FnOnce() -> Result<Vec<&'a [u8]>>,
) -> Vec<Found> {
    for_each_key(count, || {
        let (db, keys) = (object(db)?, keys()?);
        Ok(db.multi_get(&object(options)?.for_get(), &families.of(db, count)?, &keys))
    })
}

/// The families of a call's keys.
#[derive(Clone, Copy)]
pub(crate) enum Families {
    Default,
    One(*mut rocksdb_column_family_handle_t),
    Each(*const *const rocksdb_column_family_handle_t),
}

impl Families {
    /// The family of each of `count` keys.
    pub(crate) unsafe fn of(self, db: &rocksdb_t, count: usize) -> Result<Vec<&ColumnFamilyHandle>> {
        match self {
            Families::Default => Ok(vec![&db.default; count]),
            Families::One(column_family) => Ok(vec![family(column_family)?; count]),
            Families::Each(each) => slice(each, count)?.iter().map(|each| family(*each)).collect(),
        }
    }
}

/// Puts the results of a call into the caller's arrays.
pub(crate) unsafe fn put_found(
    found: Vec<Found>,
    values: *mut *mut c_char,
    lens: *mut usize,
    errs: *mut *mut c_char,
) {
    for (at, found) in found.into_iter().enumerate() {
        let (value, error) = parts(found);
        let mut len = 0;
        put_at(values, at, copy_found(value, &mut len));
        put_at(lens, at, len);
        put_at(errs, at, error);
    }
}

/// The value, and the error as a text for the caller; NULL without an error.
unsafe fn parts<T>(found: Result<Option<T>>) -> (Option<T>, *mut c_char) {
    match found {
        Ok(value) => (value, std::ptr::null_mut()),
        Err(error) => (None, to_c_string(error.to_string().as_bytes())),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    count: usize,
    key_list: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    errs: *mut *mut c_char,
) {
    let found = read_all(db, options, Families::Default, count, || keys(count, key_list, key_lens));
    put_found(found, values, value_lens, errs);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_families: *const *const rocksdb_column_family_handle_t,
    count: usize,
    key_list: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    errs: *mut *mut c_char,
) {
    let families = Families::Each(column_families);
    let found = read_all(db, options, families, count, || keys(count, key_list, key_lens));
    put_found(found, values, value_lens, errs);
}

/// As [`rocksdb_multi_get`], with the timestamp of each value found.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get_with_ts(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    count: usize,
    key_list: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lens: *mut usize,
    errs: *mut *mut c_char,
) {
    let found = read_timestamped(db, options, Families::Default, count, (key_list, key_lens));
    put_timestamped(found, (values, value_lens), (timestamps, timestamp_lens), errs);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_multi_get_cf_with_ts(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_families: *const *const rocksdb_column_family_handle_t,
    count: usize,
    key_list: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut c_char,
    value_lens: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lens: *mut usize,
    errs: *mut *mut c_char,
) {
    let families = Families::Each(column_families);
    let found = read_timestamped(db, options, families, count, (key_list, key_lens));
    put_timestamped(found, (values, value_lens), (timestamps, timestamp_lens), errs);
}

type FoundWithTs = Result<Option<(PinnedBytes, Vec<u8>)>>;

unsafe fn read_timestamped(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    families: Families,
    count: usize,
    (key_list, key_lens): (*const *const c_char, *const usize),
) -> Vec<FoundWithTs> {
    for_each_key(count, || {
        let (db, options, keys) = (object(db)?, object(options)?.for_get(), keys(count, key_list, key_lens)?);
        let pairs = families.of(db, count)?.into_iter().zip(keys);
        Ok(pairs.map(|(family, key)| db.db.get_with_timestamp(&options, family, key)).collect())
    })
}

unsafe fn put_timestamped(
    found: Vec<FoundWithTs>,
    (values, value_lens): (*mut *mut c_char, *mut usize),
    (timestamps, timestamp_lens): (*mut *mut c_char, *mut usize),
    errs: *mut *mut c_char,
) {
    for (at, found) in found.into_iter().enumerate() {
        let (found, error) = parts(found);
        let (value, timestamp) = found.unzip();
        let (mut len, mut timestamp_len) = (0, 0);
        put_at(values, at, copy_found(value, &mut len));
        put_at(value_lens, at, len);
        put_at(timestamps, at, copy_found(timestamp, &mut timestamp_len));
        put_at(timestamp_lens, at, timestamp_len);
        put_at(errs, at, error);
    }
}

/// Puts pinned values into the caller's array; NULL is "not found".
pub(crate) unsafe fn put_pinned(
    found: Vec<Found>,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
) {
    for (at, found) in found.into_iter().enumerate() {
        let (value, error) = parts(found);
        put_at(values, at, rocksdb_pinnableslice_t::give(value));
        put_at(errs, at, error);
    }
}

/// Reads and pins the values of `keys` of one family. The argument `sorted_input` has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_batched_multi_get_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    count: usize,
    key_list: *const *const c_char,
    key_lens: *const usize,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
    _sorted_input: bool,
) {
    let families = Families::One(column_family);
    let found = read_all(db, options, families, count, || keys(count, key_list, key_lens));
    put_pinned(found, values, errs);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_batched_multi_get_cf_slice(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    count: usize,
    key_list: *const rocksdb_slice_t,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
    _sorted_input: bool,
) {
    let found = read_all(db, options, Families::One(column_family), count, || slices(key_list, count));
    put_pinned(found, values, errs);
}

unsafe fn slices<'a>(keys: *const rocksdb_slice_t, count: usize) -> Result<Vec<&'a [u8]>> {
    slice(keys, count)?.iter().map(|key| bytes(key.data, key.size)).collect()
}

/// The results of one call. It keeps the blocks of its values alive.
#[derive(Debug)]
pub struct rocksdb_pinnable_multi_get_t {
    found: Vec<Result<Option<PinnedBytes>, String>>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_batched_multi_get_pinned_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    count: usize,
    key_list: *const rocksdb_slice_t,
    _sorted_input: c_uchar,
) -> *mut rocksdb_pinnable_multi_get_t {
    let found = read_all(db, options, Families::One(column_family), count, || slices(key_list, count));
    let found = found.into_iter().map(|found| found.map_err(|error| error.to_string())).collect();
    give(rocksdb_pinnable_multi_get_t { found })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnable_multi_get_count(
    multi_get: *const rocksdb_pinnable_multi_get_t,
) -> usize {
    answer(0, || Ok(object(multi_get)?.found.len()))
}

/// Returns the code of the result at `index`: one of `c.h`'s constants
/// `rocksdb_pinnable_multi_get_*`. The object owns the value and the text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnable_multi_get_result(
    multi_get: *const rocksdb_pinnable_multi_get_t,
    index: usize,
    value: *mut *const c_char,
    value_len: *mut usize,
    error: *mut *const c_char,
    error_len: *mut usize,
) -> c_int {
    put(value, std::ptr::null());
    put(value_len, 0);
    put(error, std::ptr::null());
    put(error_len, 0);
    const NOT_FOUND: c_int = 0;
    const FOUND: c_int = 1;
    const ERROR: c_int = 2;
    const OUT_OF_BOUNDS: c_int = 3;
    answer(ERROR, || {
        Ok(match object(multi_get)?.found.get(index) {
            Some(Ok(Some(found))) => {
                put(value, lend(found, value_len));
                FOUND
            }
            Some(Ok(None)) => NOT_FOUND,
            Some(Err(text)) => {
                put(error, lend(text.as_bytes(), error_len));
                ERROR
            }
            None => OUT_OF_BOUNDS,
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnable_multi_get_destroy(multi_get: *mut rocksdb_pinnable_multi_get_t) {
    destroy(multi_get);
}
