//! Functions that crate `oxrocksdb-sys` adds to RocksDB's, for the shim of that crate.
//!
//! In: calls as its `api/c.h` declares them. Out: calls of Esker's public Rust API. The shim links
//! the crate's other functions to equal functions of RocksDB 11.8.

use crate::batch_index::{self, rocksdb_writebatch_wi_t};
use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::{family, rocksdb_t};
use crate::iterator::rocksdb_iterator_t;
use crate::memory::{answer, attempt, give, object, path, slice};
use crate::read_options::rocksdb_readoptions_t;
use crate::reads::read_into;
use crate::sst::rocksdb_ingestexternalfileoptions_t;
use esker::{Error, IngestExternalFileArg, Result};
use libc::{c_char, c_uchar};
use std::path::PathBuf;

/// The files of a family for [`oxrocksdb_ingest_external_files`].
#[repr(C)]
pub struct rocksdb_ingestexternalfilearg_t {
    column_family: *mut rocksdb_column_family_handle_t,
    external_files: *const *const c_char,
    external_files_len: usize,
    options: *mut rocksdb_ingestexternalfileoptions_t,
}

unsafe fn ingest(db: &rocksdb_t, families: &[rocksdb_ingestexternalfilearg_t]) -> Result<()> {
    let first = families.first().ok_or_else(|| Error::invalid_argument("ingestion arg list is empty"))?;
    let options = object(first.options)?.options;
    let mut arguments = Vec::with_capacity(families.len());
    for of_family in families {
        if object(of_family.options)?.options != options {
            return Err(Error::not_supported("an ingestion with different options for its families"));
        }
        let files = slice(of_family.external_files, of_family.external_files_len)?;
        let files: Vec<PathBuf> =
            files.iter().map(|file| Ok(path(*file)?.to_owned())).collect::<Result<_>>()?;
        arguments.push(IngestExternalFileArg::new(family(of_family.column_family)?, files));
    }
    db.db.ingest_external_files(&options, &arguments)
}

/// Ingests the files of several families as one write. The families' options must be the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oxrocksdb_ingest_external_files(
    db: *mut rocksdb_t,
    list: *const rocksdb_ingestexternalfilearg_t,
    list_len: usize,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || ingest(object(db)?, slice(list, list_len)?));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn oxrocksdb_writebatch_wi_create_iterator_with_base_readopts_cf(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
    options: *const rocksdb_readoptions_t,
    column_family: *mut rocksdb_column_family_handle_t,
) -> *mut rocksdb_iterator_t {
    batch_index::rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        batch,
        base,
        column_family,
        options,
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn oxrocksdb_writebatch_wi_get_into_buffer_cf(
    batch: *mut rocksdb_writebatch_wi_t,
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
    let read = || batch_index::read(batch, db, options, Some(column_family), key, key_len);
    read_into(attempt(errptr, None, read), (buffer, buffer_len), value_len, found)
}

/// Copies options. The caller keeps ownership of the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oxrocksdb_readoptions_create_copy(
    options: *mut rocksdb_readoptions_t,
) -> *mut rocksdb_readoptions_t {
    answer(std::ptr::null_mut(), || Ok(give(object(options)?.clone())))
}
