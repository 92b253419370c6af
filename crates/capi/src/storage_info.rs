//! Lists the files to copy for a backup: `rocksdb_get_livefiles_storage_info`.

use crate::db::rocksdb_t;
use crate::field::Object;
use crate::memory::{attempt, destroy, give, lend, object, put};
use esker::observe::{FileType, LiveFileStorageInfo};
use esker::options::LiveFilesStorageInfoOptions;
use libc::{c_char, c_int, c_uchar};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// Options of the list.
#[derive(Debug, Default)]
pub struct rocksdb_livefiles_storage_info_options_t {
    /// The options.
    pub options: LiveFilesStorageInfoOptions,
}

impl Object for rocksdb_livefiles_storage_info_options_t {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_storage_info_options_create()
-> *mut rocksdb_livefiles_storage_info_options_t {
    give(rocksdb_livefiles_storage_info_options_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_storage_info_options_destroy(
    options: *mut rocksdb_livefiles_storage_info_options_t,
) {
    destroy(options);
}

/// The files that make up a database, and the size of the part of each to copy.
#[derive(Debug)]
pub struct rocksdb_livefiles_storage_info_t {
    files: Vec<StorageInfo>,
}

#[derive(Debug)]
struct StorageInfo {
    info: LiveFileStorageInfo,
    relative_filename: CString,
    directory: CString,
    checksum: CString,
    checksum_function: CString,
}

impl StorageInfo {
    fn new(info: LiveFileStorageInfo) -> StorageInfo {
        let c = |bytes: &[u8]| CString::new(bytes).unwrap_or_default();
        let checksum = info.file_checksum.as_ref();
        StorageInfo {
            relative_filename: c(info.relative_filename.as_bytes()),
            directory: c(info.directory.as_os_str().as_bytes()),
            checksum: c(checksum.map_or(&[], |(checksum, _)| checksum)),
            checksum_function: c(checksum.map_or(b"Unknown", |(_, function)| function.as_bytes())),
            info,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_livefiles_storage_info(
    db: *mut rocksdb_t,
    options: *const rocksdb_livefiles_storage_info_options_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_livefiles_storage_info_t {
    attempt(errptr, std::ptr::null_mut(), || {
        let default = LiveFilesStorageInfoOptions::default();
        let options = options.as_ref().map_or(&default, |options| &options.options);
        let files = object(db)?.db.live_files_storage_info(options)?;
        let files = files.into_iter().map(StorageInfo::new).collect();
        Ok(give(rocksdb_livefiles_storage_info_t { files }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_storage_info_destroy(info: *mut rocksdb_livefiles_storage_info_t) {
    destroy(info);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_storage_info_count(
    info: *const rocksdb_livefiles_storage_info_t,
) -> usize {
    info.as_ref().map_or(0, |info| info.files.len())
}

/// RocksDB's number for a type of file.
fn number(file_type: FileType) -> c_int {
    match file_type {
        FileType::Wal => 0,
        FileType::Table => 2,
        FileType::Descriptor => 3,
        FileType::Current => 4,
        FileType::Options => 9,
        FileType::Blob => 10,
        _ => -1,
    }
}

/// Defines getters of the file at an index.
macro_rules! figures {
    ($(fn $name:ident -> $ty:ty, $none:expr, |$it:ident| $figure:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(info: *const rocksdb_livefiles_storage_info_t, index: usize) -> $ty {
            info.as_ref().and_then(|info| info.files.get(index)).map_or($none, |$it| $figure)
        }
    )*};
}

figures! {
    fn rocksdb_livefiles_storage_info_relative_filename -> *const c_char, std::ptr::null(),
        |it| it.relative_filename.as_ptr();
    fn rocksdb_livefiles_storage_info_directory -> *const c_char, std::ptr::null(), |it| it.directory.as_ptr();
    fn rocksdb_livefiles_storage_info_file_number -> u64, 0, |it| it.info.file_number.0;
    fn rocksdb_livefiles_storage_info_file_type -> c_int, 0, |it| number(it.info.file_type);
    fn rocksdb_livefiles_storage_info_size -> u64, 0, |it| it.info.size;
    fn rocksdb_livefiles_storage_info_temperature -> c_int, 0, |it| it.info.temperature as c_int;
    fn rocksdb_livefiles_storage_info_file_checksum -> *const c_char, std::ptr::null(), |it| it.checksum.as_ptr();
    fn rocksdb_livefiles_storage_info_file_checksum_func_name -> *const c_char, std::ptr::null(),
        |it| it.checksum_function.as_ptr();
    fn rocksdb_livefiles_storage_info_trim_to_size -> c_uchar, 0, |it| it.info.trim_to_size.into();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_storage_info_replacement_contents(
    info: *const rocksdb_livefiles_storage_info_t,
    index: usize,
    len: *mut usize,
) -> *const c_char {
    put(len, 0);
    let file = info.as_ref().and_then(|info| info.files.get(index));
    file.map_or(std::ptr::null(), |file| lend(&file.info.replacement_contents, len))
}
