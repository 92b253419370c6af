//! Reads many keys with one call.
//!
//! In: keys, all of one family, or each with a family of its own. Out: for each key a value or
//! NULL, and an error or NULL. Values are copies made by `malloc`, or pinned one by one, or pinned
//! together by one object.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::iterator::rocksdb_slice_t;
use crate::memory::{answer, bytes, destroy, give, lend, object, put, slice, to_c_bytes, to_c_string};
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::rocksdb_pinnableslice_t;
use esker::{ColumnFamilyHandle, Error, PinnedBytes, Result};
use libc::{c_char, c_int, c_uchar};

type Found = Result<Option<PinnedBytes>>;

/// The keys of a call.
pub(crate) unsafe fn keys<'a>(count: usize, keys: *const *const c_char, lens: *const usize) -> Vec<&'a [u8]> {
    slice(keys, count).iter().zip(slice(lens, count)).map(|(key, len)| bytes(*key, *len)).collect()
}

/// Reads `keys`, all from `column_family`, or each from its own of `column_families`. If the call
/// fails, each key gets the error.
unsafe fn read_all(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    families: Families,
    keys: &[&[u8]],
) -> Vec<Found> {
    let read = || {
        let db = object(db)?;
        let families: Vec<&ColumnFamilyHandle> = match families {
            Families::Default => vec![&db.default; keys.len()],
            Families::One(column_family) => vec![family(column_family)?; keys.len()],
            Families::Each(each) => {
                slice(each, keys.len()).iter().map(|each| family(*each)).collect::<Result<_>>()?
            }
        };
        Ok(db.multi_get(&object(options)?.for_get(), &families, keys))
    };
    let failed = |error: Error| keys.iter().map(|_| Err(error.clone())).collect();
    answer(Vec::new(), || Ok(read().unwrap_or_else(failed)))
}

#[derive(Clone, Copy)]
enum Families {
    Default,
    One(*mut rocksdb_column_family_handle_t),
    Each(*const *const rocksdb_column_family_handle_t),
}

/// Puts the results of a call into the caller's arrays.
pub(crate) unsafe fn put_found(
    found: Vec<Found>,
    values: *mut *mut c_char,
    lens: *mut usize,
    errs: *mut *mut c_char,
) {
    for (at, found) in found.into_iter().enumerate() {
        put(values.add(at), std::ptr::null_mut());
        put(lens.add(at), 0);
        put(errs.add(at), std::ptr::null_mut());
        match found {
            Ok(Some(value)) => put(values.add(at), to_c_bytes(&value, lens.add(at))),
            Ok(None) => {}
            Err(error) => put(errs.add(at), to_c_string(error.to_string().as_bytes())),
        }
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
    let keys = keys(count, key_list, key_lens);
    put_found(read_all(db, options, Families::Default, &keys), values, value_lens, errs);
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
    let keys = keys(count, key_list, key_lens);
    put_found(read_all(db, options, Families::Each(column_families), &keys), values, value_lens, errs);
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
    let keys = keys(count, key_list, key_lens);
    read_timestamped(db, options, None, &keys, (values, value_lens), (timestamps, timestamp_lens), errs);
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
    let (keys, families) = (keys(count, key_list, key_lens), Some(column_families));
    read_timestamped(db, options, families, &keys, (values, value_lens), (timestamps, timestamp_lens), errs);
}

unsafe fn read_timestamped(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_families: Option<*const *const rocksdb_column_family_handle_t>,
    keys: &[&[u8]],
    (values, value_lens): (*mut *mut c_char, *mut usize),
    (timestamps, timestamp_lens): (*mut *mut c_char, *mut usize),
    errs: *mut *mut c_char,
) {
    for (at, key) in keys.iter().enumerate() {
        put(timestamps.add(at), std::ptr::null_mut());
        put(timestamp_lens.add(at), 0);
        let mut timestamp = Vec::new();
        let mut read = || {
            let db = object(db)?;
            let family = match column_families {
                Some(column_families) => family(*column_families.add(at))?,
                None => &db.default,
            };
            let found = db.db.get_with_timestamp(&object(options)?.for_get(), family, key)?;
            Ok(found.map(|(value, ts)| {
                timestamp = ts;
                value
            }))
        };
        let found = read();
        if matches!(found, Ok(Some(_))) {
            put(timestamps.add(at), to_c_bytes(&timestamp, timestamp_lens.add(at)));
        }
        put_found(vec![found], values.add(at), value_lens.add(at), errs.add(at));
    }
}

/// Puts pinned values into the caller's array; NULL is "not found".
pub(crate) unsafe fn put_pinned(
    found: Vec<Found>,
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
) {
    for (at, found) in found.into_iter().enumerate() {
        put(errs.add(at), std::ptr::null_mut());
        let value = match found {
            Ok(value) => value,
            Err(error) => {
                put(errs.add(at), to_c_string(error.to_string().as_bytes()));
                None
            }
        };
        put(values.add(at), rocksdb_pinnableslice_t::give(value));
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
    let keys = keys(count, key_list, key_lens);
    put_pinned(read_all(db, options, Families::One(column_family), &keys), values, errs);
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
    let keys = slices(key_list, count);
    put_pinned(read_all(db, options, Families::One(column_family), &keys), values, errs);
}

unsafe fn slices<'a>(keys: *const rocksdb_slice_t, count: usize) -> Vec<&'a [u8]> {
    slice(keys, count).iter().map(|key| bytes(key.data, key.size)).collect()
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
    let found = read_all(db, options, Families::One(column_family), &slices(key_list, count));
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
