//! Options of universal and FIFO compaction.

use crate::field::{Held, Object};
use crate::memory::{destroy, give};
use esker::options::{CompactionOptionsFifo, CompactionOptionsUniversal};

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
