//! `rocksdb_writebatch_t`: changes that are written together.
//!
//! In: changes, or a batch in RocksDB's encoding. Out: a batch, or calls of the client's functions
//! with the batch's changes. A change that would exceed the batch's limit of bytes is lost without
//! an error, as in RocksDB's C API.
//!
//! In a family with timestamps, zeros take the place of a timestamp that the caller leaves out.
//! A batch with these zeros can be written only after `rocksdb_writebatch_update_timestamps`.

use crate::batch_index::rocksdb_writebatch_wi_t;
use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::DatabaseNumber;
use crate::memory::{answer, attempt, bytes, destroy, give, lend, object, object_mut};
use crate::multi_get::keys;
use esker::{BatchOp, ColumnFamilyId, Error, Result, WriteBatch};
use libc::{c_char, c_int, c_void};
use std::borrow::Cow;

/// A batch.
#[derive(Clone, Debug)]
pub struct rocksdb_writebatch_t {
    /// The changes.
    pub(crate) batch: WriteBatch,
    checks: BatchChecks,
    /// Bytes from the client that are no batch. `batch` is empty then, and takes no changes.
    malformed: Option<Malformed>,
}

/// Bytes that are no batch.
#[derive(Clone, Debug)]
struct Malformed {
    rep: Vec<u8>,
    /// The error of a write.
    error: Error,
}

impl rocksdb_writebatch_t {
    pub(crate) fn new(batch: WriteBatch) -> rocksdb_writebatch_t {
        rocksdb_writebatch_t { batch, checks: BatchChecks::default(), malformed: None }
    }

    fn check_form(&self) -> Result<()> {
        self.malformed.as_ref().map_or(Ok(()), |malformed| Err(malformed.error.clone()))
    }

    /// The changes, for another one.
    /// # Errors
    /// `Corruption`: the bytes from which the batch was made are malformed.
    fn changeable(&mut self) -> Result<(&mut WriteBatch, &mut BatchChecks)> {
        self.check_form()?;
        Ok((&mut self.batch, &mut self.checks))
    }

    /// Returns the changes if they can be written to this database.
    /// # Errors
    /// `InvalidArgument`: some keys lack timestamps, or a family belongs to another database ·
    /// `Corruption`: the bytes from which the batch was made are malformed.
    pub(crate) fn writable(&mut self, database: DatabaseNumber) -> Result<&mut WriteBatch> {
        self.check_form()?;
        self.checks.check(database)?;
        Ok(&mut self.batch)
    }

    /// Returns the changes if their families belong to this database.
    /// # Errors
    /// `InvalidArgument`: a family belongs to another database · `Corruption`: the bytes from
    /// which the batch was made are malformed.
    pub(crate) fn of_database(&self, database: DatabaseNumber) -> Result<&WriteBatch> {
        self.check_form()?;
        self.checks.check_families(database)?;
        Ok(&self.batch)
    }
}

/// Facts to check before a batch is written: which database its families belong to, and whether
/// keys lack timestamps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchChecks {
    /// The database of the family handles that changes named. `None`: no change named a handle.
    /// `DatabaseNumber::NONE`: the handles belong to several databases.
    database: Option<DatabaseNumber>,
    /// Size of a timestamp in the default family, in bytes, for calls without a handle.
    of_default: usize,
    /// Whether some keys end with zeros in place of timestamps.
    are_wanted: bool,
}

impl BatchChecks {
    /// The family of a change: the handle's family, or the default family if there is no handle.
    pub(crate) unsafe fn target(
        &mut self,
        column_family: Option<*mut rocksdb_column_family_handle_t>,
    ) -> Result<ChangedFamily<'_>> {
        let Some(column_family) = column_family else {
            let (id, size) = (ColumnFamilyId::DEFAULT, self.of_default);
            return Ok(ChangedFamily { id, size, database: None, checks: self });
        };
        let handle = object(column_family)?;
        let family = &handle.family;
        let (id, size) = (family.id(), family.comparator().timestamp_size());
        if id == ColumnFamilyId::DEFAULT && size != self.of_default {
            return Err(Error::invalid_argument("Default cf timestamp size mismatch"));
        }
        Ok(ChangedFamily { id, size, database: Some(handle.database), checks: self })
    }

    /// Records the database of a handle.
    fn record(&mut self, database: DatabaseNumber) {
        if *self.database.get_or_insert(database) != database {
            self.database = Some(DatabaseNumber::NONE);
        }
    }

    /// Records that every key has its timestamp.
    pub(crate) fn are_set(&mut self) {
        self.are_wanted = false;
    }

    /// Checks that the families belong to `database`.
    /// # Errors
    /// `InvalidArgument`: a family belongs to another database.
    pub(crate) fn check_families(&self, database: DatabaseNumber) -> Result<()> {
        self.database.map_or(Ok(()), |named| database.check(named))
    }

    /// Checks that the families belong to `database`, and that every key has its timestamp.
    /// # Errors
    /// `InvalidArgument`: a family belongs to another database, or some keys lack timestamps.
    pub(crate) fn check(&self, database: DatabaseNumber) -> Result<()> {
        self.check_families(database)?;
        if self.are_wanted {
            return Err(Error::invalid_argument("write batch must have timestamp(s) set"));
        }
        Ok(())
    }
}

/// The family of a change.
pub(crate) struct ChangedFamily<'a> {
    /// The family's id.
    id: ColumnFamilyId,
    /// Size of a timestamp in the family, in bytes.
    size: usize,
    /// The database of the handle; `None` if the call had no handle.
    database: Option<DatabaseNumber>,
    checks: &'a mut BatchChecks,
}

impl ChangedFamily<'_> {
    /// `key` as the batch stores it. In a family with timestamps, zeros take the place of the
    /// timestamp. Also records the facts to check, so call it only for a change that goes into the
    /// batch.
    fn key<'k>(&mut self, key: impl Into<Cow<'k, [u8]>>) -> Cow<'k, [u8]> {
        let mut key = key.into();
        if let Some(database) = self.database {
            self.checks.record(database);
        }
        if self.size > 0 {
            self.checks.are_wanted = true;
            let len = key.len() + self.size;
            key.to_mut().resize(len, 0);
        }
        key
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t {
    give(rocksdb_writebatch_t::new(WriteBatch::new()))
}

/// A batch from RocksDB's encoding. If the bytes are no batch, a write of the result fails, and it
/// takes changes only after `rocksdb_writebatch_clear`. NULL if `rep` is NULL and `len` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create_from(
    rep: *const c_char,
    len: usize,
) -> *mut rocksdb_writebatch_t {
    answer(std::ptr::null_mut(), || {
        let rep = bytes(rep, len)?.to_vec();
        Ok(give(match WriteBatch::from_bytes(rep.clone()) {
            Ok(batch) => rocksdb_writebatch_t::new(batch),
            Err(error) => rocksdb_writebatch_t {
                malformed: Some(Malformed { rep, error }),
                ..rocksdb_writebatch_t::new(WriteBatch::new())
            },
        }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_create_with_params(
    reserved_bytes: usize,
    max_bytes: usize,
    protection_bytes_per_key: usize,
    default_cf_ts_sz: usize,
) -> *mut rocksdb_writebatch_t {
    answer(std::ptr::null_mut(), || {
        let mut batch = WriteBatch::with_capacity(reserved_bytes);
        // As in RocksDB, any number but 0 means checksums of 8 bytes.
        batch.protect(if protection_bytes_per_key == 0 { 0 } else { 8 })?;
        batch.set_max_bytes(max_bytes);
        let checks = BatchChecks { of_default: default_cf_ts_sz, ..BatchChecks::default() };
        Ok(give(rocksdb_writebatch_t { checks, ..rocksdb_writebatch_t::new(batch) }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_destroy(batch: *mut rocksdb_writebatch_t) {
    destroy(batch);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_clear(batch: *mut rocksdb_writebatch_t) {
    answer((), || {
        let object = object_mut(batch)?;
        object.batch.clear();
        (object.checks, object.malformed) = (BatchChecks::default(), None);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_count(batch: *mut rocksdb_writebatch_t) -> c_int {
    answer(0, || {
        let object = object(batch)?;
        // As in RocksDB, the count of malformed bytes comes from their header.
        Ok(match object.malformed.as_ref().map(|malformed| malformed.rep.get(8..12)) {
            None => c_int::try_from(object.batch.count()).unwrap_or(c_int::MAX),
            Some(field) => {
                let field = field.and_then(|field| field.try_into().ok()).unwrap_or_default();
                c_int::from_le_bytes(field)
            }
        })
    })
}

/// The parts of a key or value, joined.
pub(crate) unsafe fn joined(
    count: c_int,
    parts: *const *const c_char,
    lens: *const usize,
) -> Result<Vec<u8>> {
    Ok(keys(usize::try_from(count).unwrap_or(0), parts, lens)?.concat())
}

/// Applies `change` to the batch, for a family; `None` means the default family.
unsafe fn change_in(
    batch: *mut rocksdb_writebatch_t,
    column_family: Option<*mut rocksdb_column_family_handle_t>,
    change: impl FnOnce(&mut WriteBatch, &mut ChangedFamily<'_>) -> Result<()>,
) {
    answer((), || {
        let (batch, checks) = object_mut(batch)?.changeable()?;
        change(batch, &mut checks.target(column_family)?)
    });
}

/// Defines four functions for each change: two for a batch, and two for a batch with an index. In
/// each pair, one function takes a family and the other uses the default family.
macro_rules! changes {
    ($(
        fn $name:ident, fn $name_cf:ident, fn $name_wi:ident, fn $name_wi_cf:ident($($argument:ident: $ty:ty),*)
            |$batch:ident, $target:ident| $call:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(batch: *mut rocksdb_writebatch_t, $($argument: $ty),*) {
            change_in(batch, None, |$batch, $target| $call);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_cf(
            batch: *mut rocksdb_writebatch_t,
            column_family: *mut rocksdb_column_family_handle_t,
            $($argument: $ty),*
        ) {
            change_in(batch, Some(column_family), |$batch, $target| $call);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_wi(batch: *mut rocksdb_writebatch_wi_t, $($argument: $ty),*) {
            crate::batch_index::change_in(batch, None, |$batch, $target| $call);
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name_wi_cf(
            batch: *mut rocksdb_writebatch_wi_t,
            column_family: *mut rocksdb_column_family_handle_t,
            $($argument: $ty),*
        ) {
            crate::batch_index::change_in(batch, Some(column_family), |$batch, $target| $call);
        }
    )*};
}

changes! {
    fn rocksdb_writebatch_put, fn rocksdb_writebatch_put_cf,
    fn rocksdb_writebatch_wi_put, fn rocksdb_writebatch_wi_put_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |batch, target| {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        batch.put_cf(target.id, target.key(key), value)
    };
    fn rocksdb_writebatch_merge, fn rocksdb_writebatch_merge_cf,
    fn rocksdb_writebatch_wi_merge, fn rocksdb_writebatch_wi_merge_cf(
        key: *const c_char, key_len: usize, value: *const c_char, value_len: usize
    ) |batch, target| {
        let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
        batch.merge_cf(target.id, target.key(key), value)
    };
    fn rocksdb_writebatch_delete, fn rocksdb_writebatch_delete_cf,
    fn rocksdb_writebatch_wi_delete, fn rocksdb_writebatch_wi_delete_cf(
        key: *const c_char, key_len: usize
    ) |batch, target| batch.delete_cf(target.id, target.key(bytes(key, key_len)?));
    fn rocksdb_writebatch_singledelete, fn rocksdb_writebatch_singledelete_cf,
    fn rocksdb_writebatch_wi_singledelete, fn rocksdb_writebatch_wi_singledelete_cf(
        key: *const c_char, key_len: usize
    ) |batch, target| batch.single_delete_cf(target.id, target.key(bytes(key, key_len)?));
    fn rocksdb_writebatch_delete_range, fn rocksdb_writebatch_delete_range_cf,
    fn rocksdb_writebatch_wi_delete_range, fn rocksdb_writebatch_wi_delete_range_cf(
        begin: *const c_char, begin_len: usize, end: *const c_char, end_len: usize
    ) |batch, target| {
        let (begin, end) = (bytes(begin, begin_len)?, bytes(end, end_len)?);
        batch.delete_range_cf(target.id, target.key(begin), target.key(end))
    };
    fn rocksdb_writebatch_putv, fn rocksdb_writebatch_putv_cf,
    fn rocksdb_writebatch_wi_putv, fn rocksdb_writebatch_wi_putv_cf(
        key_parts: c_int, keys: *const *const c_char, key_lens: *const usize,
        value_parts: c_int, values: *const *const c_char, value_lens: *const usize
    ) |batch, target| {
        let value = joined(value_parts, values, value_lens)?;
        batch.put_cf(target.id, target.key(joined(key_parts, keys, key_lens)?), value)
    };
    fn rocksdb_writebatch_mergev, fn rocksdb_writebatch_mergev_cf,
    fn rocksdb_writebatch_wi_mergev, fn rocksdb_writebatch_wi_mergev_cf(
        key_parts: c_int, keys: *const *const c_char, key_lens: *const usize,
        value_parts: c_int, values: *const *const c_char, value_lens: *const usize
    ) |batch, target| {
        let value = joined(value_parts, values, value_lens)?;
        batch.merge_cf(target.id, target.key(joined(key_parts, keys, key_lens)?), value)
    };
    fn rocksdb_writebatch_deletev, fn rocksdb_writebatch_deletev_cf,
    fn rocksdb_writebatch_wi_deletev, fn rocksdb_writebatch_wi_deletev_cf(
        parts: c_int, keys: *const *const c_char, key_lens: *const usize
    ) |batch, target| batch.delete_cf(target.id, target.key(joined(parts, keys, key_lens)?));
    fn rocksdb_writebatch_delete_rangev, fn rocksdb_writebatch_delete_rangev_cf,
    fn rocksdb_writebatch_wi_delete_rangev, fn rocksdb_writebatch_wi_delete_rangev_cf(
        parts: c_int, begins: *const *const c_char, begin_lens: *const usize,
        ends: *const *const c_char, end_lens: *const usize
    ) |batch, target| {
        let (begin, end) = (joined(parts, begins, begin_lens)?, joined(parts, ends, end_lens)?);
        batch.delete_range_cf(target.id, target.key(begin), target.key(end))
    };
}

/// A key and its timestamp, joined as families with timestamps store them.
pub(crate) unsafe fn timestamped(
    key: *const c_char,
    key_len: usize,
    ts: *const c_char,
    ts_len: usize,
) -> Result<Vec<u8>> {
    Ok([bytes(key, key_len)?, bytes(ts, ts_len)?].concat())
}

/// Applies `change` to the batch, with a key and its timestamp.
unsafe fn change_with_ts(
    batch: *mut rocksdb_writebatch_t,
    column_family: *mut rocksdb_column_family_handle_t,
    (key, key_len): (*const c_char, usize),
    (ts, ts_len): (*const c_char, usize),
    change: impl FnOnce(&mut WriteBatch, ColumnFamilyId, &[u8]) -> Result<()>,
) {
    answer((), || {
        let handle = object(column_family)?;
        let family = &handle.family;
        match family.comparator().timestamp_size() {
            0 => return Err(Error::invalid_argument("timestamp disabled")),
            size if size != ts_len => return Err(Error::invalid_argument("timestamp size mismatch")),
            _ => {}
        }
        let key = timestamped(key, key_len, ts, ts_len)?;
        let (batch, checks) = object_mut(batch)?.changeable()?;
        checks.record(handle.database);
        change(batch, family.id(), &key)
    });
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
    change_with_ts(batch, column_family, (key, key_len), (ts, ts_len), |batch, id, key| {
        batch.put_cf(id, key, bytes(value, value_len)?)
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
    change_with_ts(batch, column_family, (key, key_len), (ts, ts_len), |batch, id, key| {
        batch.delete_cf(id, key)
    });
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
    change_with_ts(batch, column_family, (key, key_len), (ts, ts_len), |batch, id, key| {
        batch.single_delete_cf(id, key)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_put_log_data(
    batch: *mut rocksdb_writebatch_t,
    blob: *const c_char,
    len: usize,
) {
    answer((), || object_mut(batch)?.changeable()?.0.put_log_data(bytes(blob, len)?));
}

pub(crate) type Put = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
pub(crate) type Deleted = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
type PutCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
type DeletedCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

fn ptr(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Passes the puts, deletions and log data of `batch` to the client, for all families. Skips other
/// changes.
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

/// Passes the puts, deletions, merges and log data of `batch` to the client, with the ids of
/// families. Skips other changes.
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

/// The batch in RocksDB's encoding. The bytes are valid until the batch is changed or destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_data(
    batch: *mut rocksdb_writebatch_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || {
        let object = object(batch)?;
        let malformed = object.malformed.as_ref().map(|malformed| malformed.rep.as_slice());
        Ok(lend(malformed.unwrap_or_else(|| object.batch.data()), len))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_set_save_point(batch: *mut rocksdb_writebatch_t) {
    answer((), || {
        object_mut(batch)?.batch.set_save_point();
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

pub(crate) type TimestampSize = Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>;

/// A function that asks the client for the size of a family's timestamps. The answer `SIZE_MAX`
/// means that the client does not know the family.
pub(crate) unsafe fn timestamp_sizes(
    state: *mut c_void,
    get_ts_size: TimestampSize,
) -> Result<impl FnMut(ColumnFamilyId) -> Result<usize>> {
    let get_ts_size = get_ts_size.ok_or_else(|| Error::invalid_argument("get_ts_size is NULL"))?;
    Ok(move |family: ColumnFamilyId| match get_ts_size(state, family.0) {
        usize::MAX => Err(Error::not_found(format!("the size of timestamps in {family}"))),
        size => Ok(size),
    })
}

/// Writes `ts` into every key that ends with a timestamp. `get_ts_size` gives the size of a
/// family's timestamps, 0 for none. After an error the batch is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writebatch_update_timestamps(
    batch: *mut rocksdb_writebatch_t,
    ts: *const c_char,
    ts_len: usize,
    state: *mut c_void,
    get_ts_size: TimestampSize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (batch, checks) = object_mut(batch)?.changeable()?;
        batch.update_timestamps(bytes(ts, ts_len)?, timestamp_sizes(state, get_ts_size)?)?;
        checks.are_set();
        Ok(())
    });
}
