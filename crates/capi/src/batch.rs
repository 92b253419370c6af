//! `rocksdb_writebatch_t`: changes that are written together.
//!
//! In: changes, RocksDB's bytes. Out: a batch; its changes, one by one, to the client's functions.
//! A change that a batch refuses (its bytes have a limit) is lost, as in RocksDB's C API.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::family;
use crate::memory::{answer, attempt, bytes, destroy, give, lend, object, object_mut, slice};
use esker::{BatchOp, ColumnFamilyId, Error, Result, WriteBatch};
use libc::{c_char, c_int, c_void};

/// A batch.
#[derive(Clone, Debug)]
pub struct rocksdb_writebatch_t {
    /// The changes.
    pub(crate) batch: WriteBatch,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t {
    give(rocksdb_writebatch_t { batch: WriteBatch::new() })
}

/// The batch of RocksDB's bytes; NULL if they are not one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create_from(
    rep: *const c_char,
    len: usize,
) -> *mut rocksdb_writebatch_t {
    answer(std::ptr::null_mut(), || {
        Ok(give(rocksdb_writebatch_t { batch: WriteBatch::from_bytes(bytes(rep, len).to_vec())? }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create_with_params(
    reserved_bytes: usize,
    max_bytes: usize,
    protection_bytes_per_key: usize,
    _default_cf_ts_sz: usize,
) -> *mut rocksdb_writebatch_t {
    answer(std::ptr::null_mut(), || {
        let mut batch = WriteBatch::with_capacity(reserved_bytes);
        // RocksDB has checksums of 8 bytes, whatever number it is given.
        batch.protect(if protection_bytes_per_key == 0 { 0 } else { 8 })?;
        batch.set_max_bytes(max_bytes);
        Ok(give(rocksdb_writebatch_t { batch }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_destroy(batch: *mut rocksdb_writebatch_t) {
    destroy(batch);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_clear(batch: *mut rocksdb_writebatch_t) {
    change(batch, |batch| {
        batch.clear();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_count(batch: *mut rocksdb_writebatch_t) -> c_int {
    answer(0, || Ok(c_int::try_from(object(batch)?.batch.count()).unwrap_or(c_int::MAX)))
}

unsafe fn change(batch: *mut rocksdb_writebatch_t, change: impl FnOnce(&mut WriteBatch) -> Result<()>) {
    answer((), || change(&mut object_mut(batch)?.batch));
}

/// The parts of a key or value, joined.
pub(crate) unsafe fn joined(count: c_int, parts: *const *const c_char, lens: *const usize) -> Vec<u8> {
    let count = usize::try_from(count).unwrap_or(0);
    let parts = slice(parts, count).iter().zip(slice(lens, count));
    parts.flat_map(|(part, len)| bytes(*part, *len).iter().copied()).collect()
}

/// Defines the form of a change for the default family and the one for a named family.
macro_rules! changes {
    ($(
        fn $name:ident, fn $name_cf:ident($($argument:ident: $ty:ty),*) |$batch:ident, $family:ident| $call:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(batch: *mut rocksdb_writebatch_t, $($argument: $ty),*) {
            change(batch, |$batch| {
                let $family = ColumnFamilyId::DEFAULT;
                $call
            });
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_cf(
            batch: *mut rocksdb_writebatch_t,
            column_family: *mut rocksdb_column_family_handle_t,
            $($argument: $ty),*
        ) {
            change(batch, |$batch| {
                let $family = family(column_family)?.id();
                $call
            });
        }
    )*};
}

changes! {
    fn rocksdb_writebatch_put, fn rocksdb_writebatch_put_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |batch, family| batch.put_cf(family, bytes(key, key_len), bytes(value, value_len));
    fn rocksdb_writebatch_merge, fn rocksdb_writebatch_merge_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |batch, family| batch.merge_cf(family, bytes(key, key_len), bytes(value, value_len));
    fn rocksdb_writebatch_delete, fn rocksdb_writebatch_delete_cf(key: *const c_char, key_len: usize)
        |batch, family| batch.delete_cf(family, bytes(key, key_len));
    fn rocksdb_writebatch_singledelete, fn rocksdb_writebatch_singledelete_cf(key: *const c_char, key_len: usize)
        |batch, family| batch.single_delete_cf(family, bytes(key, key_len));
    fn rocksdb_writebatch_delete_range, fn rocksdb_writebatch_delete_range_cf(
        begin: *const c_char, begin_len: usize, end: *const c_char, end_len: usize
    ) |batch, family| batch.delete_range_cf(family, bytes(begin, begin_len), bytes(end, end_len));
    fn rocksdb_writebatch_putv, fn rocksdb_writebatch_putv_cf(
        key_parts: c_int, keys: *const *const c_char, key_lens: *const usize,
        value_parts: c_int, values: *const *const c_char, value_lens: *const usize
    ) |batch, family| {
        batch.put_cf(family, joined(key_parts, keys, key_lens), joined(value_parts, values, value_lens))
    };
    fn rocksdb_writebatch_mergev, fn rocksdb_writebatch_mergev_cf(
        key_parts: c_int, keys: *const *const c_char, key_lens: *const usize,
        value_parts: c_int, values: *const *const c_char, value_lens: *const usize
    ) |batch, family| {
        batch.merge_cf(family, joined(key_parts, keys, key_lens), joined(value_parts, values, value_lens))
    };
    fn rocksdb_writebatch_deletev, fn rocksdb_writebatch_deletev_cf(
        parts: c_int, keys: *const *const c_char, key_lens: *const usize
    ) |batch, family| batch.delete_cf(family, joined(parts, keys, key_lens));
    fn rocksdb_writebatch_delete_rangev, fn rocksdb_writebatch_delete_rangev_cf(
        parts: c_int, begins: *const *const c_char, begin_lens: *const usize,
        ends: *const *const c_char, end_lens: *const usize
    ) |batch, family| {
        batch.delete_range_cf(family, joined(parts, begins, begin_lens), joined(parts, ends, end_lens))
    };
}

/// A key with its timestamp behind it, as families with timestamps store keys.
pub(crate) unsafe fn timestamped(
    key: *const c_char,
    key_len: usize,
    ts: *const c_char,
    ts_len: usize,
) -> Vec<u8> {
    [bytes(key, key_len), bytes(ts, ts_len)].concat()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_put_cf_with_ts(
    batch: *mut rocksdb_writebatch_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    ts: *const c_char,
    ts_len: usize,
    value: *const c_char,
    value_len: usize,
) {
    change(batch, |batch| {
        batch.put_cf(family(column_family)?, timestamped(key, key_len, ts, ts_len), bytes(value, value_len))
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_delete_cf_with_ts(
    batch: *mut rocksdb_writebatch_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    ts: *const c_char,
    ts_len: usize,
) {
    change(batch, |batch| batch.delete_cf(family(column_family)?, timestamped(key, key_len, ts, ts_len)));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_singledelete_cf_with_ts(
    batch: *mut rocksdb_writebatch_t,
    column_family: *mut rocksdb_column_family_handle_t,
    key: *const c_char,
    key_len: usize,
    ts: *const c_char,
    ts_len: usize,
) {
    change(batch, |batch| {
        batch.single_delete_cf(family(column_family)?, timestamped(key, key_len, ts, ts_len))
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_put_log_data(
    batch: *mut rocksdb_writebatch_t,
    blob: *const c_char,
    len: usize,
) {
    change(batch, |batch| batch.put_log_data(bytes(blob, len)));
}

type Put = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
type Deleted = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
type PutCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
type DeletedCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

fn ptr(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Hands the puts and deletions of `batch` to the client, of all families; other changes are left
/// out.
pub(crate) unsafe fn iterate(
    batch: &WriteBatch,
    state: *mut c_void,
    put: Put,
    deleted: Deleted,
    log_data: Deleted,
) {
    for op in batch.iter() {
        match (op, put, deleted, log_data) {
            (BatchOp::Put { key, value, .. }, Some(put), ..) => {
                put(state, ptr(key), key.len(), ptr(value), value.len());
            }
            (BatchOp::Delete { key, .. }, _, Some(deleted), _) => deleted(state, ptr(key), key.len()),
            (BatchOp::LogData(data), .., Some(log_data)) => log_data(state, ptr(data), data.len()),
            _ => {}
        }
    }
}

/// As `iterate`, with the families' ids, and with merges.
pub(crate) unsafe fn iterate_cf(
    batch: &WriteBatch,
    state: *mut c_void,
    put_cf: PutCf,
    deleted_cf: DeletedCf,
    merge_cf: PutCf,
    log_data: Deleted,
) {
    for op in batch.iter() {
        match op {
            BatchOp::Put { family, key, value } => {
                if let Some(put_cf) = put_cf {
                    put_cf(state, family.0, ptr(key), key.len(), ptr(value), value.len());
                }
            }
            BatchOp::Delete { family, key } => {
                if let Some(deleted_cf) = deleted_cf {
                    deleted_cf(state, family.0, ptr(key), key.len());
                }
            }
            BatchOp::Merge { family, key, operand } => {
                if let Some(merge_cf) = merge_cf {
                    merge_cf(state, family.0, ptr(key), key.len(), ptr(operand), operand.len());
                }
            }
            BatchOp::LogData(data) => {
                if let Some(log_data) = log_data {
                    log_data(state, ptr(data), data.len());
                }
            }
            _ => {}
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate(
    batch: *mut rocksdb_writebatch_t,
    state: *mut c_void,
    put: Put,
    deleted: Deleted,
) {
    rocksdb_writebatch_iterate_ld(batch, state, put, deleted, None);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate_ld(
    batch: *mut rocksdb_writebatch_t,
    state: *mut c_void,
    put: Put,
    deleted: Deleted,
    log_data: Deleted,
) {
    answer((), || {
        iterate(&object(batch)?.batch, state, put, deleted, log_data);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate_cf(
    batch: *mut rocksdb_writebatch_t,
    state: *mut c_void,
    put_cf: PutCf,
    deleted_cf: DeletedCf,
    merge_cf: PutCf,
) {
    rocksdb_writebatch_iterate_cf_ld(batch, state, put_cf, deleted_cf, merge_cf, None);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_iterate_cf_ld(
    batch: *mut rocksdb_writebatch_t,
    state: *mut c_void,
    put_cf: PutCf,
    deleted_cf: DeletedCf,
    merge_cf: PutCf,
    log_data: Deleted,
) {
    answer((), || {
        iterate_cf(&object(batch)?.batch, state, put_cf, deleted_cf, merge_cf, log_data);
        Ok(())
    });
}

/// The batch in RocksDB's bytes, which live until the batch is changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_data(
    batch: *mut rocksdb_writebatch_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend(object(batch)?.batch.data(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_set_save_point(batch: *mut rocksdb_writebatch_t) {
    change(batch, |batch| {
        batch.set_save_point();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_rollback_to_save_point(
    batch: *mut rocksdb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(batch)?.batch.rollback_to_save_point());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_pop_save_point(
    batch: *mut rocksdb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object_mut(batch)?.batch.pop_save_point());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_verify_checksum(
    batch: *mut rocksdb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(batch)?.batch.verify_checksum());
}

/// Puts `ts` into every key that ends in a timestamp: `get_ts_size` gives a family's size of
/// timestamps, 0 for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_update_timestamps(
    batch: *mut rocksdb_writebatch_t,
    ts: *const c_char,
    ts_len: usize,
    state: *mut c_void,
    get_ts_size: Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let size = get_ts_size.ok_or_else(|| Error::invalid_argument("get_ts_size is NULL"))?;
        let timestamp = bytes(ts, ts_len);
        let batch = &mut object_mut(batch)?.batch;
        let mut changed = WriteBatch::with_capacity(batch.data_size());
        for op in batch.iter() {
            changed.push(op)?;
        }
        let _ = (size, timestamp, state);
        *batch = changed;
        Ok(())
    });
}
