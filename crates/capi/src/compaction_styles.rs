//! Options of universal and FIFO compaction.

use crate::field::{Held, Object};
use crate::memory::{answer, destroy, give, object, object_mut};
use esker::options::{CompactionOptionsFifo, CompactionOptionsUniversal};
use libc::c_int;

/// Options of universal compaction.
#[derive(Debug, Default)]
pub struct rocksdb_universal_compaction_options_t {
    /// The options.
    pub options: CompactionOptionsUniversal,
    held: Held,
}

impl Object for rocksdb_universal_compaction_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_universal_compaction_options_create()
-> *mut rocksdb_universal_compaction_options_t {
    give(rocksdb_universal_compaction_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_universal_compaction_options_destroy(
    options: *mut rocksdb_universal_compaction_options_t,
) {
    destroy(options);
}

/// Sets the largest number of runs to merge. As in RocksDB, the bits of `width` are a `u32`: -1
/// means no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_universal_compaction_options_set_max_merge_width(
    options: *mut rocksdb_universal_compaction_options_t,
    width: c_int,
) {
    answer((), || {
        object_mut(options)?.options.max_merge_width = width.cast_unsigned();
        Ok(())
    });
}

/// The width; -1 means no limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_universal_compaction_options_get_max_merge_width(
    options: *mut rocksdb_universal_compaction_options_t,
) -> c_int {
    answer(0, || Ok(object(options)?.options.max_merge_width.cast_signed()))
}

/// Options of FIFO compaction.
#[derive(Debug, Default)]
pub struct rocksdb_fifo_compaction_options_t {
    /// The options.
    pub options: CompactionOptionsFifo,
    held: Held,
}

impl Object for rocksdb_fifo_compaction_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_fifo_compaction_options_create() -> *mut rocksdb_fifo_compaction_options_t {
    give(rocksdb_fifo_compaction_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_fifo_compaction_options_destroy(
    options: *mut rocksdb_fifo_compaction_options_t,
) {
    destroy(options);
}
