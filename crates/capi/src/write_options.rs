//! Options of writes, flushes and manual compactions.

use crate::field::{Held, Object};
use crate::memory::{answer, bytes_or_none, destroy, give, object_mut};
use esker::{CompactRangeOptions, CompactionOptions, FlushOptions, WaitForCompactOptions, WriteOptions};
use libc::{c_char, c_int};

/// Options of writes.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_writeoptions_t {
    /// The options.
    pub options: WriteOptions,
    pub(crate) held: Held,
}

impl Object for rocksdb_writeoptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t {
    give(rocksdb_writeoptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writeoptions_destroy(options: *mut rocksdb_writeoptions_t) {
    destroy(options);
}

/// Options of flushes.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_flushoptions_t {
    /// The options.
    pub options: FlushOptions,
    pub(crate) held: Held,
}

impl Object for rocksdb_flushoptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t {
    give(rocksdb_flushoptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushoptions_destroy(options: *mut rocksdb_flushoptions_t) {
    destroy(options);
}

/// Options of the compaction of a range.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_compactoptions_t {
    /// The options.
    pub options: CompactRangeOptions,
    pub(crate) held: Held,
}

impl Object for rocksdb_compactoptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t {
    give(rocksdb_compactoptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactoptions_destroy(options: *mut rocksdb_compactoptions_t) {
    destroy(options);
}

/// Options of the compaction of given files.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_compaction_options_t {
    /// The options.
    pub options: CompactionOptions,
    pub(crate) held: Held,
}

impl Object for rocksdb_compaction_options_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_options_create() -> *mut rocksdb_compaction_options_t {
    give(rocksdb_compaction_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compaction_options_destroy(options: *mut rocksdb_compaction_options_t) {
    destroy(options);
}

/// Lets the compaction drop versions older than this timestamp.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactoptions_set_full_history_ts_low(
    options: *mut rocksdb_compactoptions_t,
    timestamp: *mut c_char,
    len: usize,
) {
    answer((), || {
        let low = bytes_or_none(timestamp, len).map(<[u8]>::to_vec);
        object_mut(options)?.options.full_history_ts_low = low;
        Ok(())
    });
}

/// Options of a wait for compactions.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_wait_for_compact_options_t {
    /// The options.
    pub options: WaitForCompactOptions,
}

impl Object for rocksdb_wait_for_compact_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wait_for_compact_options_create() -> *mut rocksdb_wait_for_compact_options_t
{
    give(rocksdb_wait_for_compact_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wait_for_compact_options_destroy(
    options: *mut rocksdb_wait_for_compact_options_t,
) {
    destroy(options);
}

/// Options of a flush of the WAL.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_flushwaloptions_t {
    /// Whether the file is synced.
    pub sync: bool,
    pub(crate) held: Held,
}

impl Object for rocksdb_flushwaloptions_t {
    fn held(&mut self) -> Option<&mut Held> {
        Some(&mut self.held)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushwaloptions_create() -> *mut rocksdb_flushwaloptions_t {
    give(rocksdb_flushwaloptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushwaloptions_destroy(options: *mut rocksdb_flushwaloptions_t) {
    destroy(options);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writeoptions_disable_WAL(
    options: *mut rocksdb_writeoptions_t,
    disable: c_int,
) {
    answer((), || {
        object_mut(options)?.options.disable_wal = disable != 0;
        Ok(())
    });
}
