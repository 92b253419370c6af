//! Reads of one key: copied, pinned, or into a buffer.
//!
//! In: a key. Out: a copy made by `malloc`, a pinned value that keeps its block alive, or bytes in
//! the caller's buffer. NULL without an error means "not found".

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::memory::{
    answer, attempt, bytes, bytes_or_none, c_bool, destroy, give, guarded, lend, object, put, to_c_bytes,
};
use crate::read_options::rocksdb_readoptions_t;
use esker::{ErrorKind, PinnedBytes, Result};
use libc::{c_char, c_uchar};
use std::cell::Cell;

/// Reads `key` of `column_family`. `None` means the default family.
#[inline]
unsafe fn read(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    key: *const c_char,
    key_len: usize,
) -> Result<Option<PinnedBytes>> {
    let db = object(db)?;
    let family = match column_family {
        Some(column_family) => family(column_family)?,
        None => &db.default,
    };
    let (options, key) = (object(options)?, bytes(key, key_len)?);
    match (&db.ttl, options.with_timestamp()) {
        // The usual case, as one call of the engine.
        (None, None) => db.db.get_pinned_opt(&options.options, family, key),
        (_, given) => db.get(given.as_ref().unwrap_or(&options.options), family, key),
    }
}

/// Copies a found value for the caller. NULL with `len` 0 means "not found".
pub(crate) unsafe fn copy_found(found: Option<impl AsRef<[u8]>>, len: *mut usize) -> *mut c_char {
    match found {
        Some(value) => to_c_bytes(value.as_ref(), len),
        None => {
            put(len, 0);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    copy_found(attempt(errptr, None, || read(db, options, None, key, key_len)), value_len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    copy_found(attempt(errptr, None, || read(db, options, Some(column_family), key, key_len)), value_len)
}

/// Reads a value and its timestamp; the caller owns both copies.
unsafe fn read_with_ts(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    (key, key_len): (*const c_char, usize),
    value_len: *mut usize,
    (ts, ts_len): (*mut *mut c_char, *mut usize),
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let found = attempt(errptr, None, || {
        let db = object(db)?;
        let family = column_family.map_or(Ok(&db.default), |column_family| family(column_family))?;
        db.db.get_with_timestamp(&object(options)?.for_get(), family, bytes(key, key_len)?)
    });
    match found {
        Some((value, timestamp)) => {
            put(ts, to_c_bytes(&timestamp, ts_len));
            to_c_bytes(&value, value_len)
        }
        None => {
            put(value_len, 0);
            put(ts_len, 0);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_with_ts(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    ts: *mut *mut c_char,
    ts_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    read_with_ts(db, options, None, (key, key_len), value_len, (ts, ts_len), errptr)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_cf_with_ts(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    value_len: *mut usize,
    ts: *mut *mut c_char,
    ts_len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    read_with_ts(db, options, Some(column_family), (key, key_len), value_len, (ts, ts_len), errptr)
}

/// A pinned value. It keeps its cached block or its memtable alive.
#[derive(Debug)]
pub struct rocksdb_pinnableslice_t {
    value: PinnedBytes,
}

/// A handle without a value, or NULL.
struct Spare(Cell<*mut rocksdb_pinnableslice_t>);

impl Drop for Spare {
    fn drop(&mut self) {
        // SAFETY: the handle came from `give`, `take` has put it here, and nobody else has it.
        unsafe { destroy(self.0.get()) };
    }
}

thread_local! {
    /// The handle for the thread's next pinned value. Most clients destroy each handle before they
    /// ask for the next one, and an allocation costs a tenth of a get.
    static SPARE: Spare = const { Spare(Cell::new(std::ptr::null_mut())) };
}

impl rocksdb_pinnableslice_t {
    /// Moves a found value to the heap and returns a pointer to it; NULL if none was found.
    #[inline]
    pub(crate) fn give(found: Option<PinnedBytes>) -> *mut rocksdb_pinnableslice_t {
        let Some(value) = found else { return std::ptr::null_mut() };
        let spare = SPARE.try_with(|spare| spare.0.take()).unwrap_or(std::ptr::null_mut());
        // SAFETY: a spare handle lives, and nobody else has it.
        match unsafe { spare.as_mut() } {
            Some(handle) => {
                handle.value = value;
                spare
            }
            None => give(rocksdb_pinnableslice_t { value }),
        }
    }

    /// Takes back a handle: drops its value, and keeps the handle if the thread has no spare one.
    /// If a client destroys a handle twice in a row, the second call finds it as the spare one and
    /// keeps it.
    unsafe fn take(slice: *mut rocksdb_pinnableslice_t) {
        let is_kept = SPARE.try_with(|spare| {
            if spare.0.get().is_null() {
                (*slice).value = PinnedBytes::empty();
                spare.0.set(slice);
            }
            std::ptr::eq(spare.0.get(), slice)
        });
        if is_kept != Ok(true) {
            destroy(slice);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_pinnableslice_t {
    // `give` is called inside `attempt`, so `attempt` returns a pointer, not a value of several
    // words.
    attempt(errptr, std::ptr::null_mut(), || {
        read(db, options, None, key, key_len).map(rocksdb_pinnableslice_t::give)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_pinnableslice_t {
    attempt(errptr, std::ptr::null_mut(), || {
        read(db, options, Some(column_family), key, key_len).map(rocksdb_pinnableslice_t::give)
    })
}

/// Returns the bytes of `slice`, which stays their owner. Returns NULL if `slice` is NULL, which
/// means "not found".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnableslice_value(
    slice: *const rocksdb_pinnableslice_t,
    len: *mut usize,
) -> *const c_char {
    match slice.as_ref() {
        Some(slice) => lend(&slice.value, len),
        None => {
            put(len, 0);
            std::ptr::null()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnableslice_destroy(slice: *mut rocksdb_pinnableslice_t) {
    if !slice.is_null() {
        drop(guarded(|| rocksdb_pinnableslice_t::take(slice)));
    }
}

/// [`rocksdb_pinnableslice_t`] under the name that newer functions use.
#[derive(Debug)]
pub struct rocksdb_pinnable_handle_t {
    value: PinnedBytes,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned_v2(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_pinnable_handle_t {
    let found = attempt(errptr, None, || read(db, options, None, key, key_len));
    found.map_or(std::ptr::null_mut(), |value| give(rocksdb_pinnable_handle_t { value }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_pinned_cf_v2(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_pinnable_handle_t {
    let found = attempt(errptr, None, || read(db, options, Some(column_family), key, key_len));
    found.map_or(std::ptr::null_mut(), |value| give(rocksdb_pinnable_handle_t { value }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnable_handle_get_value(
    handle: *const rocksdb_pinnable_handle_t,
    len: *mut usize,
) -> *const c_char {
    match handle.as_ref() {
        Some(handle) => lend(&handle.value, len),
        None => {
            put(len, 0);
            std::ptr::null()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pinnable_handle_destroy(handle: *mut rocksdb_pinnable_handle_t) {
    destroy(handle);
}

/// Copies a value into the caller's buffer. Returns 1 if the value was copied. Writes the length to
/// `value_len`, even if the buffer is too small.
pub(crate) unsafe fn read_into(
    found: Option<PinnedBytes>,
    (buffer, buffer_len): (*mut c_char, usize),
    value_len: *mut usize,
    was_found: *mut c_uchar,
) -> c_uchar {
    put(was_found, c_bool(found.is_some()));
    let Some(value) = found else {
        put(value_len, 0);
        return 0;
    };
    put(value_len, value.len());
    if value.len() > buffer_len || (buffer.is_null() && !value.is_empty()) {
        return 0;
    }
    if !value.is_empty() {
        buffer.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len());
    }
    1
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_into_buffer(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    buffer: *mut c_char,
    buffer_len: usize,
    value_len: *mut usize,
    found: *mut c_uchar,
    errptr: *mut *mut c_char,
) -> c_uchar {
    let value = attempt(errptr, None, || read(db, options, None, key, key_len));
    read_into(value, (buffer, buffer_len), value_len, found)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_into_buffer_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    buffer: *mut c_char,
    buffer_len: usize,
    value_len: *mut usize,
    found: *mut c_uchar,
    errptr: *mut *mut c_char,
) -> c_uchar {
    let value = attempt(errptr, None, || read(db, options, Some(column_family), key, key_len));
    read_into(value, (buffer, buffer_len), value_len, found)
}

/// Returns whether a key may exist. Reads no file. As in RocksDB, `value_found` is 1 if memory has
/// the answer, even for an absent key. The value of an absent key is empty.
unsafe fn may_exist(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    (key, key_len): (*const c_char, usize),
    (timestamp, timestamp_len): (*const c_char, usize),
    (value, value_len): (*mut *mut c_char, *mut usize),
    value_found: *mut c_uchar,
) -> c_uchar {
    put(value_found, 0);
    answer(0, || {
        let db = object(db)?;
        let family = column_family.map_or(Ok(&db.default), |column_family| family(column_family))?;
        let mut options = object(options)?.for_get().into_owned();
        options.read_tier = esker::ReadTier::BlockCache;
        if let Some(timestamp) = bytes_or_none(timestamp, timestamp_len) {
            options.timestamp = Some(timestamp.to_vec());
        }
        let found = db.get(&options, family, bytes(key, key_len)?);
        if let Ok(found) = &found
            && !value_found.is_null()
        {
            put(value_found, 1);
            put(value, to_c_bytes(found.as_deref().unwrap_or_default(), value_len));
        }
        match found {
            Ok(found) => Ok(found.is_some().into()),
            Err(error) => Ok((error.kind() == ErrorKind::Incomplete).into()),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_key_may_exist(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    timestamp: *const c_char,
    timestamp_len: usize,
    value_found: *mut c_uchar,
) -> c_uchar {
    let (value, timestamp) = ((value, value_len), (timestamp, timestamp_len));
    may_exist(db, options, None, (key, key_len), timestamp, value, value_found)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_key_may_exist_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    timestamp: *const c_char,
    timestamp_len: usize,
    value_found: *mut c_uchar,
) -> c_uchar {
    let (value, timestamp) = ((value, value_len), (timestamp, timestamp_len));
    may_exist(db, options, Some(column_family), (key, key_len), timestamp, value, value_found)
}
