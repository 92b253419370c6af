//! Reads changes from WALs, and lists WAL files.

use crate::batch::rocksdb_writebatch_t;
use crate::db::rocksdb_t;
use crate::field::Object;
use crate::memory::{answer, attempt, destroy, give, object, object_mut, put};
use esker::{SequenceNumber, WalFile, WalIterator, WalReadOptions, WriteBatch};
use libc::{c_char, c_int, c_uchar};
use std::ffi::CString;

/// Options for reading changes.
#[derive(Debug, Default)]
pub struct rocksdb_wal_readoptions_t {
    /// The options.
    pub options: WalReadOptions,
}

impl Object for rocksdb_wal_readoptions_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_readoptions_create() -> *mut rocksdb_wal_readoptions_t {
    give(rocksdb_wal_readoptions_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_readoptions_destroy(options: *mut rocksdb_wal_readoptions_t) {
    destroy(options);
}

/// A cursor over changes. Its position is a batch, or the end.
#[derive(Debug)]
pub struct rocksdb_wal_iterator_t {
    changes: WalIterator,
    current: Option<(SequenceNumber, WriteBatch)>,
}

impl rocksdb_wal_iterator_t {
    /// Moves to the next batch. After an error there is none, and `changes` keeps the error.
    fn advance(&mut self) {
        self.current = self.changes.next().and_then(Result::ok);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_updates_since(
    db: *mut rocksdb_t,
    sequence: u64,
    options: *const rocksdb_wal_readoptions_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_wal_iterator_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let mut options = options.as_ref().map_or_else(WalReadOptions::default, |it| it.options);
        // As in RocksDB, the WAL of the requested sequence number may be deleted. The iterator then
        // starts at the next WAL.
        options.from_next_available = true;
        let changes = object(db)?.db.get_updates_since(SequenceNumber(sequence), &options)?;
        let mut iterator = rocksdb_wal_iterator_t { changes, current: None };
        iterator.advance();
        Ok(give(iterator))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_iter_next(iterator: *mut rocksdb_wal_iterator_t) {
    answer((), || {
        object_mut(iterator)?.advance();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_iter_valid(iterator: *const rocksdb_wal_iterator_t) -> c_uchar {
    iterator.as_ref().is_some_and(|iterator| iterator.current.is_some()).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_iter_status(
    iterator: *const rocksdb_wal_iterator_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(iterator)?.changes.status());
}

/// A copy of the batch, which the caller destroys; NULL behind the last batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_iter_get_batch(
    iterator: *const rocksdb_wal_iterator_t,
    sequence: *mut u64,
) -> *mut rocksdb_writebatch_t {
    answer(std::ptr::null_mut(), || {
        Ok(match &object(iterator)?.current {
            Some((first, batch)) => {
                put(sequence, first.0);
                give(rocksdb_writebatch_t::new(batch.clone()))
            }
            None => std::ptr::null_mut(),
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_iter_destroy(iterator: *const rocksdb_wal_iterator_t) {
    destroy(iterator.cast_mut());
}

/// A WAL file.
#[derive(Clone, Debug)]
pub struct rocksdb_wal_file_t {
    file: WalFile,
    path_name: CString,
}

impl rocksdb_wal_file_t {
    fn new(file: WalFile) -> rocksdb_wal_file_t {
        rocksdb_wal_file_t { path_name: CString::new(file.path_name.as_bytes()).unwrap_or_default(), file }
    }
}

/// WAL files, oldest first.
#[derive(Debug)]
pub struct rocksdb_wal_files_t {
    files: Vec<rocksdb_wal_file_t>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_sorted_wal_files(
    db: *mut rocksdb_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_wal_files_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let files = object(db)?.db.sorted_wal_files()?.into_iter().map(rocksdb_wal_file_t::new).collect();
        Ok(give(rocksdb_wal_files_t { files }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_current_wal_file(
    db: *mut rocksdb_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_wal_file_t {
    attempt(errptr, std::ptr::null_mut(), || {
        Ok(give(rocksdb_wal_file_t::new(object(db)?.db.current_wal_file()?)))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_files_count(files: *const rocksdb_wal_files_t) -> usize {
    files.as_ref().map_or(0, |files| files.files.len())
}

/// The file at `index`, which the list owns; NULL beyond the last file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_files_get_wal_file(
    files: *const rocksdb_wal_files_t,
    index: usize,
) -> *const rocksdb_wal_file_t {
    let file = files.as_ref().and_then(|files| files.files.get(index));
    file.map_or(std::ptr::null(), |file| file)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_files_destroy(files: *mut rocksdb_wal_files_t) {
    destroy(files);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_wal_file_destroy(file: *mut rocksdb_wal_file_t) {
    destroy(file);
}

/// Defines getters of a WAL file.
macro_rules! figures {
    ($(fn $name:ident -> $ty:ty, $none:expr, |$it:ident| $figure:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: *const rocksdb_wal_file_t) -> $ty {
            file.as_ref().map_or($none, |$it| $figure)
        }
    )*};
}

figures! {
    fn rocksdb_wal_file_path_name -> *const c_char, std::ptr::null(), |it| it.path_name.as_ptr();
    fn rocksdb_wal_file_log_number -> u64, 0, |it| it.file.log_number.0;
    fn rocksdb_wal_file_type -> c_int, 0, |it| it.file.file_type as c_int;
    fn rocksdb_wal_file_start_sequence -> u64, 0, |it| it.file.start_sequence.0;
    fn rocksdb_wal_file_size_file_bytes -> u64, 0, |it| it.file.size_file_bytes;
}
