//! Kinds of tables and memtables that Esker does not have.
//!
//! In: RocksDB's options of plain and cuckoo tables, and of memtables. Out: none of them has an
//! effect. Tables stay block-based, and all memtables are Esker's. The options are stored for their
//! getters.

use crate::field::{Held, Object};
use crate::memory::{answer, destroy, give, object_mut};
use crate::options::rocksdb_options_t;
use esker::options::MemtableFactory;
use libc::{c_char, c_int, c_uchar};

/// Options of cuckoo tables.
#[derive(Debug, Default)]
pub struct rocksdb_cuckoo_table_options_t {
    held: Held,
}

impl Object for rocksdb_cuckoo_table_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cuckoo_options_create() -> *mut rocksdb_cuckoo_table_options_t {
    give(rocksdb_cuckoo_table_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_cuckoo_options_destroy(options: *mut rocksdb_cuckoo_table_options_t) {
    destroy(options);
}

/// Tables stay block-based.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_cuckoo_table_factory(
    _options: *mut rocksdb_options_t,
    _table: *mut rocksdb_cuckoo_table_options_t,
) {
}

/// Tables stay block-based.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_plain_table_factory(
    _options: *mut rocksdb_options_t,
    _user_key_len: u32,
    _bloom_bits_per_key: c_int,
    _hash_table_ratio: f64,
    _index_sparseness: usize,
    _huge_page_tlb_size: usize,
    _encoding_type: c_char,
    _full_scan_mode: c_uchar,
    _store_index_in_file: c_uchar,
) {
}

/// The form of RocksDB 8.1, for the shims.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_v8_rocksdb_options_set_plain_table_factory(
    _options: *mut rocksdb_options_t,
    _user_key_len: u32,
    _bloom_bits_per_key: c_int,
    _hash_table_ratio: f64,
    _index_sparseness: usize,
) {
}

unsafe fn set_memtable(options: *mut rocksdb_options_t, factory: MemtableFactory) {
    answer((), || {
        object_mut(options)?.cf.memtable_factory = factory;
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_memtable_vector_rep(options: *mut rocksdb_options_t) {
    set_memtable(options, MemtableFactory::Vector);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_hash_skip_list_rep(
    options: *mut rocksdb_options_t,
    _bucket_count: usize,
    _height: i32,
    _branching_factor: i32,
) {
    set_memtable(options, MemtableFactory::HashSkipList);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_options_set_hash_link_list_rep(
    options: *mut rocksdb_options_t,
    _bucket_count: usize,
) {
    set_memtable(options, MemtableFactory::HashLinkList);
}
