//! The C interface of RocksDB 11 with the functions that Oxigraph adds, implemented by Esker.
//! docs/compat/c-api.md of Esker says how to use this crate through `[patch.crates-io]`.
#![allow(non_snake_case, non_camel_case_types, non_upper_case_globals, missing_docs)]

extern crate esker_capi;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// Oxigraph's name of RocksDB's own type.
pub type oxrocksdb_pinnable_handle_t = rocksdb_pinnableslice_t;
pub type oxrocksdb_slice_t = rocksdb_slice_t;

/// The files for one family, in an ingestion into several families.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rocksdb_ingestexternalfilearg_t {
    pub column_family: *mut rocksdb_column_family_handle_t,
    pub external_files: *const *const libc::c_char,
    pub external_files_len: usize,
    pub options: *mut rocksdb_ingestexternalfileoptions_t,
}

// Functions that Esker has for this crate only.
unsafe extern "C" {
    pub fn oxrocksdb_ingest_external_files(
        db: *mut rocksdb_t,
        list: *const rocksdb_ingestexternalfilearg_t,
        list_len: usize,
        errptr: *mut *mut libc::c_char,
    );
    pub fn oxrocksdb_writebatch_wi_create_iterator_with_base_readopts_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        options: *const rocksdb_readoptions_t,
        cf: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t;
    pub fn oxrocksdb_writebatch_wi_get_into_buffer_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        keylen: usize,
        buffer: *mut libc::c_char,
        buffer_size: usize,
        vallen: *mut usize,
        found: *mut libc::c_uchar,
        errptr: *mut *mut libc::c_char,
    ) -> libc::c_uchar;
    pub fn oxrocksdb_readoptions_create_copy(arg1: *mut rocksdb_readoptions_t)
    -> *mut rocksdb_readoptions_t;
}

// Functions of RocksDB, under Oxigraph's names.
unsafe extern "C" {
    #[link_name = "rocksdb_get_pinned_cf"]
    pub fn oxrocksdb_get_pinned_cf_v2(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        keylen: usize,
        errptr: *mut *mut libc::c_char,
    ) -> *mut oxrocksdb_pinnable_handle_t;
    #[link_name = "rocksdb_pinnableslice_value"]
    pub fn oxrocksdb_pinnable_handle_get_value(
        handle: *const oxrocksdb_pinnable_handle_t,
        vallen: *mut usize,
    ) -> *const libc::c_char;
    #[link_name = "rocksdb_pinnableslice_destroy"]
    pub fn oxrocksdb_pinnable_handle_destroy(handle: *mut oxrocksdb_pinnable_handle_t);
    #[link_name = "rocksdb_get_into_buffer_cf"]
    pub fn oxrocksdb_get_into_buffer_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        keylen: usize,
        buffer: *mut libc::c_char,
        buffer_size: usize,
        vallen: *mut usize,
        found: *mut libc::c_uchar,
        errptr: *mut *mut libc::c_char,
    ) -> libc::c_uchar;
    #[link_name = "rocksdb_iter_key_slice"]
    pub fn oxrocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> oxrocksdb_slice_t;
    #[link_name = "rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf"]
    pub fn oxrocksdb_writebatch_wi_get_pinned_cf_v2(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const libc::c_char,
        keylen: usize,
        errptr: *mut *mut libc::c_char,
    ) -> *mut oxrocksdb_pinnable_handle_t;
}
