//! Properties, flushes, compactions, checks, and changes of options.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::field::{Held, Object};
use crate::job_info::rocksdb_compactionjobinfo_t;
use crate::memory::{
    answer, attempt, bytes, bytes_or_none, destroy, give, object, object_mut, put, put_at, slice, text,
    to_c_array, to_c_bytes, to_c_string,
};
use crate::multi_get::keys;
use crate::read_options::rocksdb_readoptions_t;
use crate::write_options::{
    rocksdb_compaction_options_t, rocksdb_compactoptions_t, rocksdb_flushoptions_t,
    rocksdb_flushwaloptions_t, rocksdb_wait_for_compact_options_t,
};
use esker::{ColumnFamilyHandle, CompactionOptions, Db, Error, ErrorKind, FileNumber, RangeOpt, Result};
use libc::{c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

unsafe fn property(text: Option<String>) -> *mut c_char {
    text.map_or(std::ptr::null_mut(), |text| to_c_string(text.as_bytes()))
}

unsafe fn int_property(value: Option<u64>, place: *mut u64) -> c_int {
    match value {
        Some(value) => {
            put(place, value);
            0
        }
        None => -1,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_value(db: *mut rocksdb_t, name: *const c_char) -> *mut c_char {
    property(answer(None, || Ok(object(db)?.db.property(&text(name)?))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_value_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    name: *const c_char,
) -> *mut c_char {
    property(answer(None, || Ok(object(db)?.db.property_cf(family(column_family)?, &text(name)?))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_int(
    db: *mut rocksdb_t,
    name: *const c_char,
    value: *mut u64,
) -> c_int {
    int_property(answer(None, || Ok(object(db)?.db.int_property(&text(name)?))), value)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_property_int_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    name: *const c_char,
    value: *mut u64,
) -> c_int {
    int_property(
        answer(None, || Ok(object(db)?.db.int_property_cf(family(column_family)?, &text(name)?))),
        value,
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush(
    db: *mut rocksdb_t,
    options: *const rocksdb_flushoptions_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        db.db.flush_opt(&object(options)?.options, &[&db.default])
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_cf(
    db: *mut rocksdb_t,
    options: *const rocksdb_flushoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(db)?.db.flush_opt(&object(options)?.options, &[family(column_family)?]));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_cfs(
    db: *mut rocksdb_t,
    options: *const rocksdb_flushoptions_t,
    column_families: *mut *mut rocksdb_column_family_handle_t,
    count: c_int,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let families = slice(column_families, usize::try_from(count).unwrap_or(0))?;
        let families =
            families.iter().map(|column_family| family(*column_family)).collect::<Result<Vec<_>>>()?;
        object(db)?.db.flush_opt(&object(options)?.options, &families)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_wal(db: *mut rocksdb_t, sync: c_uchar, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.flush_wal(sync != 0));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flush_wal_with_options(
    db: *mut rocksdb_t,
    options: *const rocksdb_flushwaloptions_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(db)?.db.flush_wal(object(options)?.sync));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wait_for_compact(
    db: *mut rocksdb_t,
    options: *mut rocksdb_wait_for_compact_options_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(db)?.db.wait_for_compact(&object(options)?.options));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_disable_manual_compaction(db: *mut rocksdb_t) {
    answer((), || {
        object(db)?.db.disable_manual_compaction();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_enable_manual_compaction(db: *mut rocksdb_t) {
    answer((), || {
        object(db)?.db.enable_manual_compaction();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_suggest_compact_range(
    db: *mut rocksdb_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        db.db.suggest_compact_range(
            &db.default,
            bytes_or_none(start, start_len),
            bytes_or_none(limit, limit_len),
        )
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_suggest_compact_range_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (start, limit) = (bytes_or_none(start, start_len), bytes_or_none(limit, limit_len));
        object(db)?.db.suggest_compact_range(family(column_family)?, start, limit)
    });
}

/// Compacts all keys between two keys. As in RocksDB, errors are not reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range(
    db: *mut rocksdb_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    answer((), || {
        let db = object(db)?;
        db.db.compact_range(bytes_or_none(start, start_len), bytes_or_none(limit, limit_len))
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    answer((), || {
        let options = esker::CompactRangeOptions::default();
        let (start, limit) = (bytes_or_none(start, start_len), bytes_or_none(limit, limit_len));
        object(db)?.db.compact_range_opt(&options, family(column_family)?, start, limit)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range_opt(
    db: *mut rocksdb_t,
    options: *mut rocksdb_compactoptions_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    answer((), || {
        let db = object(db)?;
        let (start, limit) = (bytes_or_none(start, start_len), bytes_or_none(limit, limit_len));
        db.db.compact_range_opt(&object(options)?.options, &db.default, start, limit)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_range_cf_opt(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    options: *mut rocksdb_compactoptions_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
) {
    answer((), || {
        let (start, limit) = (bytes_or_none(start, start_len), bytes_or_none(limit, limit_len));
        object(db)?.db.compact_range_opt(&object(options)?.options, family(column_family)?, start, limit)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_disable_file_deletions(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || {
        object(db)?.db.disable_file_deletions();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_enable_file_deletions(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || undo_disabling(&object(db)?.db).map(|_| ()));
}

/// Undoes one call that disabled file deletions. Returns false if there was none, which in RocksDB
/// is no error.
fn undo_disabling(db: &Db) -> Result<bool> {
    match db.enable_file_deletions() {
        Err(e) if e.kind() == ErrorKind::InvalidArgument => Ok(false),
        undone => undone.map(|()| true),
    }
}

/// RocksDB 8's form of the function, for the shims: `force` undoes all calls that disabled
/// deletions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_enable_file_deletions(
    db: *mut rocksdb_t,
    force: c_uchar,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = &object(db)?.db;
        while undo_disabling(db)? && force != 0 {}
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_pause_background_work(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || {
        object(db)?.db.pause_background_work();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_continue_background_work(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.continue_background_work());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cancel_all_background_work(db: *mut rocksdb_t, wait: c_uchar) {
    answer((), || object(db)?.db.cancel_all_background_work(wait != 0));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_checksum(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.verify_checksum());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_file_checksums(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
    attempt(errptr, (), || object(db)?.db.verify_file_checksums());
}

/// Names and values of options for `set_options`.
unsafe fn changes<'a>(
    count: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
) -> Result<Vec<(std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>)>> {
    let count = usize::try_from(count).unwrap_or(0);
    let pairs = slice(keys, count)?.iter().zip(slice(values, count)?);
    pairs.map(|(key, value)| Ok((text(*key)?, text(*value)?))).collect()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_options(
    db: *mut rocksdb_t,
    count: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        let changes = changes(count, keys, values)?;
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, value)| (&**key, &**value)).collect();
        db.db.set_options(&db.default, &changes)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_options_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    count: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let changes = changes(count, keys, values)?;
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, value)| (&**key, &**value)).collect();
        object(db)?.db.set_options(family(column_family)?, &changes)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_set_db_options(
    db: *mut rocksdb_t,
    count: c_int,
    keys: *const *const c_char,
    values: *const *const c_char,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let changes = changes(count, keys, values)?;
        let changes: Vec<(&str, &str)> = changes.iter().map(|(key, value)| (&**key, &**value)).collect();
        object(db)?.db.set_db_options(&changes)
    });
}

/// The ranges of a call, each with begin and end.
unsafe fn ranges<'a>(
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
) -> Result<Vec<(&'a [u8], &'a [u8])>> {
    let count = usize::try_from(count).unwrap_or(0);
    Ok(keys(count, starts, start_lens)?.into_iter().zip(keys(count, limits, limit_lens)?).collect())
}

/// Bits of `c.h` that select the parts of a database to measure.
const INCLUDE_MEMTABLES: u8 = 1;
const INCLUDE_FILES: u8 = 2;

unsafe fn put_sizes(
    db: &rocksdb_t,
    family: &ColumnFamilyHandle,
    ranges: &[(&[u8], &[u8])],
    include: u8,
    sizes: *mut u64,
) {
    for (at, (start, limit)) in ranges.iter().enumerate() {
        let files =
            if include & INCLUDE_FILES != 0 { db.db.approximate_size(family, start, limit) } else { 0 };
        let has_memtables = include & INCLUDE_MEMTABLES != 0;
        let memtables = if has_memtables { db.db.approximate_memtable_size(family, start, limit) } else { 0 };
        put_at(sizes, at, files + memtables);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes(
    db: *mut rocksdb_t,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        let ranges = ranges(count, starts, start_lens, limits, limit_lens)?;
        put_sizes(db, &db.default, &ranges, INCLUDE_FILES, sizes);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
    errptr: *mut *mut c_char,
) {
    let include = INCLUDE_FILES;
    rocksdb_approximate_sizes_cf_with_flags(
        db,
        column_family,
        count,
        starts,
        start_lens,
        limits,
        limit_lens,
        include,
        sizes,
        errptr,
    );
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes_cf_with_flags(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    include: u8,
    sizes: *mut u64,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let ranges = ranges(count, starts, start_lens, limits, limit_lens)?;
        let db = object(db)?;
        put_sizes(db, db.own_family(column_family)?, &ranges, include, sizes);
        Ok(())
    });
}

/// Deletes the files whose keys all lie between two keys.
unsafe fn delete_files(
    db: &rocksdb_t,
    family: &ColumnFamilyHandle,
    start: Option<&[u8]>,
    limit: Option<&[u8]>,
) -> Result<()> {
    db.db.delete_files_in_ranges(family, &[RangeOpt { start, limit }], true).map(drop)
}

/// Deletes nothing. The function may refuse any file and has no `errptr` to report it; RocksDB 9
/// has removed it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_file(_db: *mut rocksdb_t, _name: *const c_char) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_file_in_range(
    db: *mut rocksdb_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        delete_files(db, &db.default, bytes_or_none(start, start_len), bytes_or_none(limit, limit_len))
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_delete_file_in_range_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    start: *const c_char,
    start_len: usize,
    limit: *const c_char,
    limit_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        delete_files(
            object(db)?,
            family(column_family)?,
            bytes_or_none(start, start_len),
            bytes_or_none(limit, limit_len),
        )
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_increase_full_history_ts_low(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    timestamp: *const c_char,
    len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        object(db)?.db.increase_full_history_ts_low(family(column_family)?, bytes(timestamp, len)?)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_full_history_ts_low(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    len: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    attempt(errptr, std::ptr::null_mut(), || {
        Ok(to_c_bytes(&object(db)?.db.full_history_ts_low(family(column_family)?)?, len))
    })
}

/// Selects the parts of a database whose size is measured.
#[derive(Debug)]
pub struct rocksdb_size_approximation_options_t {
    /// Whether memtables count.
    pub include_memtables: bool,
    /// Whether tables count.
    pub include_files: bool,
    /// Whether blob files count.
    pub include_blob_files: bool,
    held: Held,
}

impl Object for rocksdb_size_approximation_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

impl rocksdb_size_approximation_options_t {
    fn bits(&self) -> u8 {
        u8::from(self.include_memtables) * INCLUDE_MEMTABLES + u8::from(self.include_files) * INCLUDE_FILES
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_size_approximation_options_create()
-> *mut rocksdb_size_approximation_options_t {
    give(rocksdb_size_approximation_options_t {
        include_memtables: false,
        include_files: true,
        include_blob_files: false,
        held: Held::new(),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_size_approximation_options_destroy(
    options: *mut rocksdb_size_approximation_options_t,
) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes_with_options(
    db: *mut rocksdb_t,
    options: *const rocksdb_size_approximation_options_t,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let (db, include) = (object(db)?, object(options)?.bits());
        put_sizes(db, &db.default, &ranges(count, starts, start_lens, limits, limit_lens)?, include, sizes);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_approximate_sizes_cf_with_options(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    options: *const rocksdb_size_approximation_options_t,
    count: c_int,
    starts: *const *const c_char,
    start_lens: *const usize,
    limits: *const *const c_char,
    limit_lens: *const usize,
    sizes: *mut u64,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let include = object(options)?.bits();
        let ranges = ranges(count, starts, start_lens, limits, limit_lens)?;
        let db = object(db)?;
        put_sizes(db, db.own_family(column_family)?, &ranges, include, sizes);
        Ok(())
    });
}

/// Ignores the read options: they have no effect on the check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_checksum_with_options(
    db: *mut rocksdb_t,
    _options: *const rocksdb_readoptions_t,
    errptr: *mut *mut c_char,
) {
    rocksdb_verify_checksum(db, errptr);
}

/// Ignores the read options: they have no effect on the check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_verify_file_checksums_with_options(
    db: *mut rocksdb_t,
    _options: *const rocksdb_readoptions_t,
    errptr: *mut *mut c_char,
) {
    rocksdb_verify_file_checksums(db, errptr);
}

/// The number in a table's name.
fn number_of(name: &str) -> Result<FileNumber> {
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str());
    let number = stem.and_then(|stem| stem.parse().ok()).map(FileNumber);
    number.ok_or_else(|| Error::invalid_argument(format!("'{name}' is no name of a table")))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_files(
    db: *mut rocksdb_t,
    options: *const rocksdb_compaction_options_t,
    inputs: *const *const c_char,
    count: usize,
    output_level: c_int,
    output_path_id: c_int,
    outputs: *mut *mut *mut c_char,
    output_count: *mut usize,
    info: *mut rocksdb_compactionjobinfo_t,
    errptr: *mut *mut c_char,
) {
    let family = std::ptr::null_mut();
    rocksdb_compact_files_cf(
        db,
        family,
        options,
        inputs,
        count,
        output_level,
        output_path_id,
        outputs,
        output_count,
        info,
        errptr,
    );
}

/// Compacts the tables with these names. A NULL family means the default one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_files_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    options: *const rocksdb_compaction_options_t,
    inputs: *const *const c_char,
    count: usize,
    output_level: c_int,
    output_path_id: c_int,
    outputs: *mut *mut *mut c_char,
    output_count: *mut usize,
    info: *mut rocksdb_compactionjobinfo_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        let family = column_family.as_ref().map_or(&db.default, |column_family| &column_family.family);
        let mut options = options.as_ref().map_or_else(CompactionOptions::default, |it| it.options.clone());
        // With -1 the database chooses the path.
        options.output_path_id = u32::try_from(output_path_id).ok();
        let files =
            slice(inputs, count)?.iter().map(|name| number_of(&text(*name)?)).collect::<Result<Vec<_>>>()?;
        let level = usize::try_from(output_level)
            .map_err(|_| Error::invalid_argument(format!("output_level: {output_level}")))?;
        let (_, made) = db.db.compact_files_with_info(&options, family, &files, level)?;
        let names: Vec<*mut c_char> =
            made.output_files.iter().map(|path| to_c_string(path.as_os_str().as_bytes())).collect();
        put(output_count, names.len());
        if outputs.is_null() {
            names.iter().for_each(|name| libc::free((*name).cast()));
        } else {
            put(outputs, to_c_array(&names));
        }
        if let Some(info) = info.as_mut() {
            *info = rocksdb_compactionjobinfo_t::new(made);
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compact_files_output_file_names_destroy(
    names: *mut *mut c_char,
    count: usize,
) {
    for name in slice(names, count).unwrap_or_default() {
        libc::free((*name).cast());
    }
    libc::free(names.cast());
}

/// A flag that cancels a compaction. The client and the options share ownership of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_options_canceled_create() -> *mut c_uchar {
    Arc::into_raw(Arc::new(AtomicBool::new(false))).cast_mut().cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_options_canceled_destroy(canceled: *mut c_uchar) {
    if !canceled.is_null() {
        drop(Arc::from_raw(canceled.cast::<AtomicBool>()));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_options_canceled_set(canceled: *mut c_uchar, value: c_uchar) {
    if let Some(flag) = canceled.cast::<AtomicBool>().as_ref() {
        flag.store(value != 0, Ordering::Relaxed);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_options_set_canceled(
    options: *mut rocksdb_compaction_options_t,
    canceled: *mut c_uchar,
) {
    answer((), || {
        let flag = (!canceled.is_null()).then(|| {
            let flag = canceled.cast::<AtomicBool>();
            Arc::increment_strong_count(flag);
            Arc::from_raw(flag)
        });
        object_mut(options)?.options.canceled = flag;
        Ok(())
    });
}
/// The database's id, as a buffer made by `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_db_identity(db: *mut rocksdb_t, len: *mut usize) -> *mut c_char {
    answer(std::ptr::null_mut(), || Ok(to_c_bytes(object(db)?.db.db_identity().as_bytes(), len)))
}
