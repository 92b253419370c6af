//! Writes tables outside of a database, and ingests them.

use crate::batch::timestamped;
use crate::callbacks::rocksdb_comparator_t;
use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::env::rocksdb_ratelimiter_t;
use crate::field::{Held, Object};
use crate::memory::{answer, attempt, bytes, destroy, give, object, object_mut, path, put, slice};
use crate::options::rocksdb_options_t;
use esker::{ColumnFamilyHandle, Error, IngestExternalFileOptions, Options, Result, SstFileWriter};
use libc::c_char;

/// Options of files. They have no effect: the options of the database decide.
#[derive(Debug, Default)]
pub struct rocksdb_envoptions_t {
    held: Held,
}

impl Object for rocksdb_envoptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t {
    give(rocksdb_envoptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_envoptions_destroy(options: *mut rocksdb_envoptions_t) {
    destroy(options);
}

/// Does nothing: the limiter of a database's options applies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_envoptions_set_rate_limiter(
    _options: *mut rocksdb_envoptions_t,
    _limiter: *mut rocksdb_ratelimiter_t,
) {
}

/// Writes a table.
#[derive(Debug)]
pub struct rocksdb_sstfilewriter_t {
    writer: SstFileWriter,
    /// Bytes of a timestamp, which the comparator tells; 0 for none.
    timestamp_size: usize,
}

impl rocksdb_sstfilewriter_t {
    fn new(options: &Options) -> rocksdb_sstfilewriter_t {
        let timestamp_size = options.cf.comparator.timestamp_size();
        rocksdb_sstfilewriter_t { writer: SstFileWriter::new(options), timestamp_size }
    }

    /// The writer, for a call that gives a timestamp of `size` bytes, or none (0).
    /// # Errors
    /// `InvalidArgument`: keys have timestamps of another size.
    fn with_timestamp(&mut self, size: usize) -> Result<&mut SstFileWriter> {
        if size == self.timestamp_size {
            return Ok(&mut self.writer);
        }
        let why = format!(
            "a timestamp of {size} bytes, but the table has timestamps of {} bytes",
            self.timestamp_size
        );
        Err(Error::invalid_argument(why))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_create(
    _env: *const rocksdb_envoptions_t,
    options: *const rocksdb_options_t,
) -> *mut rocksdb_sstfilewriter_t {
    answer(std::ptr::null_mut(), || Ok(give(rocksdb_sstfilewriter_t::new(&object(options)?.checked()?))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_create_with_comparator(
    _env: *const rocksdb_envoptions_t,
    options: *const rocksdb_options_t,
    comparator: *const rocksdb_comparator_t,
) -> *mut rocksdb_sstfilewriter_t {
    answer(std::ptr::null_mut(), || {
        let mut options = object(options)?.checked()?;
        options.cf.comparator = object(comparator)?.comparator.clone();
        Ok(give(rocksdb_sstfilewriter_t::new(&options)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_destroy(writer: *mut rocksdb_sstfilewriter_t) {
    destroy(writer);
}

/// Defines functions of a writer.
macro_rules! writes {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) |$object:ident| $call:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            writer: *mut rocksdb_sstfilewriter_t,
            $($argument: $ty,)*
            errptr: *mut *mut c_char,
        ) {
            attempt(errptr, (), || {
                let $object = object_mut(writer)?;
                $call
            });
        }
    )*};
}

writes! {
    fn rocksdb_sstfilewriter_open(name: *const c_char) |object| object.writer.open(path(name)?);
    fn rocksdb_sstfilewriter_add(key: *const c_char, key_len: usize, value: *const c_char, value_len: usize)
        |object| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            object.with_timestamp(0)?.put(key, value)
        };
    fn rocksdb_sstfilewriter_put(key: *const c_char, key_len: usize, value: *const c_char, value_len: usize)
        |object| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            object.with_timestamp(0)?.put(key, value)
        };
    fn rocksdb_sstfilewriter_put_with_ts(
        key: *const c_char, key_len: usize, ts: *const c_char, ts_len: usize, value: *const c_char, value_len: usize
    ) |object| {
        let (key, value) = (timestamped(key, key_len, ts, ts_len)?, bytes(value, value_len)?);
        object.with_timestamp(ts_len)?.put(key, value)
    };
    fn rocksdb_sstfilewriter_merge(key: *const c_char, key_len: usize, value: *const c_char, value_len: usize)
        |object| {
            let (key, value) = (bytes(key, key_len)?, bytes(value, value_len)?);
            object.with_timestamp(0)?.merge(key, value)
        };
    fn rocksdb_sstfilewriter_delete(key: *const c_char, key_len: usize) |object| {
        let key = bytes(key, key_len)?;
        object.with_timestamp(0)?.delete(key)
    };
    fn rocksdb_sstfilewriter_delete_with_ts(key: *const c_char, key_len: usize, ts: *const c_char, ts_len: usize)
        |object| {
            let key = timestamped(key, key_len, ts, ts_len)?;
            object.with_timestamp(ts_len)?.delete(key)
        };
    fn rocksdb_sstfilewriter_delete_range(begin: *const c_char, begin_len: usize, end: *const c_char, end_len: usize)
        |object| {
            let (begin, end) = (bytes(begin, begin_len)?, bytes(end, end_len)?);
            object.with_timestamp(0)?.delete_range(begin, end)
        };
    fn rocksdb_sstfilewriter_finish() |object| object.writer.finish().map(drop);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_file_size(
    writer: *mut rocksdb_sstfilewriter_t,
    size: *mut u64,
) {
    answer((), || {
        put(size, object(writer)?.writer.file_size());
        Ok(())
    });
}

/// Options of an ingestion.
#[derive(Debug, Default)]
pub struct rocksdb_ingestexternalfileoptions_t {
    /// The options.
    pub options: IngestExternalFileOptions,
    held: Held,
}

impl Object for rocksdb_ingestexternalfileoptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ingestexternalfileoptions_create() -> *mut rocksdb_ingestexternalfileoptions_t
{
    give(rocksdb_ingestexternalfileoptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ingestexternalfileoptions_destroy(
    options: *mut rocksdb_ingestexternalfileoptions_t,
) {
    destroy(options);
}

unsafe fn ingest(
    db: &rocksdb_t,
    family: &ColumnFamilyHandle,
    files: *const *const c_char,
    count: usize,
    options: *const rocksdb_ingestexternalfileoptions_t,
) -> Result<()> {
    let files = slice(files, count)?.iter().map(|file| path(*file)).collect::<Result<Vec<_>>>()?;
    db.db.ingest_external_file_opt(&object(options)?.options, family, &files)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ingest_external_file(
    db: *mut rocksdb_t,
    files: *const *const c_char,
    count: usize,
    options: *const rocksdb_ingestexternalfileoptions_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || {
        let db = object(db)?;
        ingest(db, &db.default, files, count, options)
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ingest_external_file_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    files: *const *const c_char,
    count: usize,
    options: *const rocksdb_ingestexternalfileoptions_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || ingest(object(db)?, family(column_family)?, files, count, options));
}
