//! Metadata of files: live files, families, levels, exports.
//!
//! In: an open database. Out: copies of the metadata at the time of the call. The object owns names
//! and keys, unless `c.h` says that the caller gets a copy by `malloc`.

use crate::column_family::rocksdb_column_family_handle_t;
use crate::db::rocksdb_t;
use crate::field::Object;
use crate::memory::{
    answer, bytes, bytes_or_none, destroy, give, lend, object, object_mut, put, take, text, to_c_bytes,
    to_c_string,
};
use esker::comparator::Comparator;
use esker::observe::{ColumnFamilyMetaData, LevelMetaData, SstFileMetaData};
use esker::{
    ColumnFamilyHandle, ExportImportFilesMetaData, FileNumber, LiveFileMetaData, Result, SequenceNumber,
};
use libc::{c_char, c_int};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The metadata of a file, and its texts as C strings.
#[derive(Clone, Debug)]
pub struct rocksdb_livefile_t {
    file: LiveFileMetaData,
    family: CString,
    name: CString,
    directory: CString,
}

fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

impl rocksdb_livefile_t {
    fn new(file: LiveFileMetaData) -> rocksdb_livefile_t {
        rocksdb_livefile_t {
            family: c_string(file.column_family_name.as_bytes()),
            // As in RocksDB, a live file's name begins with a slash.
            name: c_string(format!("/{}", file.relative_filename.trim_start_matches('/')).as_bytes()),
            directory: c_string(file.directory.as_os_str().as_bytes()),
            file,
        }
    }
}

/// A list of files.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_livefiles_t {
    files: Vec<rocksdb_livefile_t>,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles(db: *mut rocksdb_t) -> *const rocksdb_livefiles_t {
    answer(std::ptr::null(), || {
        let files = object(db)?.db.live_files().into_iter().map(rocksdb_livefile_t::new).collect();
        Ok(give(rocksdb_livefiles_t { files }).cast_const())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_create() -> *mut rocksdb_livefiles_t {
    give(rocksdb_livefiles_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_destroy(files: *const rocksdb_livefiles_t) {
    destroy(files.cast_mut());
}

/// Moves `file` to the end of the list. The object is the library's then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_add(
    files: *mut rocksdb_livefiles_t,
    file: *mut rocksdb_livefile_t,
) {
    answer((), || {
        let files = object_mut(files)?;
        files.files.push(*take(file)?);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_count(files: *const rocksdb_livefiles_t) -> c_int {
    answer(0, || Ok(c_int::try_from(object(files)?.files.len()).unwrap_or(c_int::MAX)))
}

/// Reads one value of the file at `index`; `none` if there is no such file.
unsafe fn of_file<T>(
    files: *const rocksdb_livefiles_t,
    index: c_int,
    none: T,
    figure: impl FnOnce(&rocksdb_livefile_t) -> T,
) -> T {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    files.as_ref().and_then(|files| files.files.get(index)).map_or(none, figure)
}

/// Defines getters that take a list and an index.
macro_rules! of_files {
    ($(fn $name:ident -> $ty:ty, $none:expr, |$file:ident| $figure:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(files: *const rocksdb_livefiles_t, index: c_int) -> $ty {
            of_file(files, index, $none, |$file| $figure)
        }
    )*};
}

of_files! {
    fn rocksdb_livefiles_column_family_name -> *const c_char, std::ptr::null(), |file| file.family.as_ptr();
    fn rocksdb_livefiles_name -> *const c_char, std::ptr::null(), |file| file.name.as_ptr();
    fn rocksdb_livefiles_directory -> *const c_char, std::ptr::null(), |file| file.directory.as_ptr();
    fn rocksdb_livefiles_level -> c_int, 0, |file| file.file.level as c_int;
    fn rocksdb_livefiles_size -> usize, 0, |file| file.file.size as usize;
    fn rocksdb_livefiles_smallest_seqno -> u64, 0, |file| file.file.smallest_seqno.0;
    fn rocksdb_livefiles_largest_seqno -> u64, 0, |file| file.file.largest_seqno.0;
    fn rocksdb_livefiles_entries -> u64, 0, |file| file.file.num_entries;
    fn rocksdb_livefiles_deletions -> u64, 0, |file| file.file.num_deletions;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_smallestkey(
    files: *const rocksdb_livefiles_t,
    index: c_int,
    len: *mut usize,
) -> *const c_char {
    of_file(files, index, std::ptr::null(), |file| lend(&file.file.smallest_key, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefiles_largestkey(
    files: *const rocksdb_livefiles_t,
    index: c_int,
    len: *mut usize,
) -> *const c_char {
    of_file(files, index, std::ptr::null(), |file| lend(&file.file.largest_key, len))
}

/// Makes the metadata of a file for an import. The caller sets its values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefile_create() -> *mut rocksdb_livefile_t {
    let file = SstFileMetaData {
        file_number: FileNumber(0),
        relative_filename: String::new(),
        directory: PathBuf::new(),
        size: 0,
        smallest_key: Vec::new(),
        largest_key: Vec::new(),
        smallest: Vec::new(),
        largest: Vec::new(),
        smallest_seqno: SequenceNumber(0),
        largest_seqno: SequenceNumber(0),
        num_reads_sampled: 0,
        being_compacted: false,
        num_entries: 0,
        num_deletions: 0,
        oldest_blob_file_number: None,
        oldest_ancestor_time: 0,
        file_creation_time: 0,
        epoch_number: 0,
        file_checksum: None,
        temperature: esker::options::Temperature::Unknown,
    };
    give(rocksdb_livefile_t::new(LiveFileMetaData { column_family_name: String::new(), level: 0, file }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_livefile_destroy(file: *mut rocksdb_livefile_t) {
    destroy(file);
}

/// Changes the caller's file and updates its C strings.
unsafe fn describe(file: *mut rocksdb_livefile_t, change: impl FnOnce(&mut LiveFileMetaData) -> Result<()>) {
    answer((), || {
        let file = object_mut(file)?;
        change(&mut file.file)?;
        *file = rocksdb_livefile_t::new(file.file.clone());
        Ok(())
    });
}

/// Defines setters of a file.
macro_rules! setters {
    ($(fn $name:ident($($argument:ident: $ty:ty),*) |$file:ident| $change:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: *mut rocksdb_livefile_t, $($argument: $ty),*) {
            describe(file, |$file| {
                $change;
                Ok(())
            });
        }
    )*};
}

setters! {
    fn rocksdb_livefile_set_column_family_name(name: *const c_char)
        |file| file.column_family_name = text(name)?.into_owned();
    fn rocksdb_livefile_set_level(level: c_int) |file| file.level = usize::try_from(level).unwrap_or(0);
    fn rocksdb_livefile_set_name(name: *const c_char) |file| file.file.relative_filename = text(name)?.into_owned();
    fn rocksdb_livefile_set_directory(directory: *const c_char)
        |file| file.file.directory = OsStr::from_bytes(text(directory)?.as_bytes()).into();
    fn rocksdb_livefile_set_size(size: usize) |file| file.file.size = size as u64;
    fn rocksdb_livefile_set_smallest_key(key: *const c_char, len: usize)
        |file| file.file.smallest_key = bytes(key, len)?.to_vec();
    fn rocksdb_livefile_set_largest_key(key: *const c_char, len: usize)
        |file| file.file.largest_key = bytes(key, len)?.to_vec();
    fn rocksdb_livefile_set_smallest_seqno(seqno: u64) |file| file.file.smallest_seqno = SequenceNumber(seqno);
    fn rocksdb_livefile_set_largest_seqno(seqno: u64) |file| file.file.largest_seqno = SequenceNumber(seqno);
    fn rocksdb_livefile_set_num_entries(count: u64) |file| file.file.num_entries = count;
    fn rocksdb_livefile_set_num_deletions(count: u64) |file| file.file.num_deletions = count;
}

/// The files of an exported family.
#[derive(Clone, Debug, Default)]
pub struct rocksdb_export_import_files_metadata_t {
    comparator: String,
    files: Vec<rocksdb_livefile_t>,
}

impl rocksdb_export_import_files_metadata_t {
    pub(crate) fn new(export: ExportImportFilesMetaData) -> rocksdb_export_import_files_metadata_t {
        // As in RocksDB, the files of an export have neither the family's name nor counts of
        // entries.
        let unnamed = |mut file: LiveFileMetaData| {
            file.column_family_name.clear();
            (file.file.num_entries, file.file.num_deletions) = (0, 0);
            file
        };
        let files = export.files.into_iter().map(unnamed).map(rocksdb_livefile_t::new).collect();
        rocksdb_export_import_files_metadata_t { comparator: export.db_comparator_name, files }
    }

    pub(crate) fn export(&self) -> ExportImportFilesMetaData {
        let files = self.files.iter().map(|file| file.file.clone()).collect();
        ExportImportFilesMetaData { db_comparator_name: self.comparator.clone(), files }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_export_import_files_metadata_create()
-> *mut rocksdb_export_import_files_metadata_t {
    give(rocksdb_export_import_files_metadata_t::default())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_export_import_files_metadata_destroy(
    metadata: *mut rocksdb_export_import_files_metadata_t,
) {
    destroy(metadata);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_export_import_files_metadata_get_db_comparator_name(
    metadata: *mut rocksdb_export_import_files_metadata_t,
) -> *mut c_char {
    answer(std::ptr::null_mut(), || Ok(to_c_string(object(metadata)?.comparator.as_bytes())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_export_import_files_metadata_set_db_comparator_name(
    metadata: *mut rocksdb_export_import_files_metadata_t,
    name: *const c_char,
) {
    answer((), || {
        object_mut(metadata)?.comparator = text(name)?.into_owned();
        Ok(())
    });
}

/// A copy of the files, which the caller destroys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_export_import_files_metadata_get_files(
    metadata: *mut rocksdb_export_import_files_metadata_t,
) -> *mut rocksdb_livefiles_t {
    answer(std::ptr::null_mut(), || Ok(give(rocksdb_livefiles_t { files: object(metadata)?.files.clone() })))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_export_import_files_metadata_set_files(
    metadata: *mut rocksdb_export_import_files_metadata_t,
    files: *mut rocksdb_livefiles_t,
) {
    answer((), || {
        let metadata = object_mut(metadata)?;
        metadata.files = take(files)?.files;
        Ok(())
    });
}

/// A family's levels and files.
#[derive(Debug)]
pub struct rocksdb_column_family_metadata_t {
    pub(crate) metadata: ColumnFamilyMetaData,
}

/// A level and its files.
#[derive(Debug)]
pub struct rocksdb_level_metadata_t {
    level: LevelMetaData,
}

/// A file of a level.
#[derive(Debug)]
pub struct rocksdb_sst_file_metadata_t {
    file: SstFileMetaData,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_column_family_metadata(
    db: *mut rocksdb_t,
) -> *mut rocksdb_column_family_metadata_t {
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        let metadata = db.db.column_family_metadata(&db.default);
        Ok(give(rocksdb_column_family_metadata_t { metadata }))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_column_family_metadata_cf(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
) -> *mut rocksdb_column_family_metadata_t {
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        let metadata = db.db.column_family_metadata(db.own_family(column_family)?);
        Ok(give(rocksdb_column_family_metadata_t { metadata }))
    })
}

/// Defines getters of numbers.
macro_rules! figures {
    ($(fn $name:ident($object:ty) -> $ty:ty, $none:expr, |$it:ident| $figure:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(object: *mut $object) -> $ty {
            object.as_ref().map_or($none, |$it| $figure)
        }
    )*};
}

figures! {
    fn rocksdb_column_family_metadata_get_size(rocksdb_column_family_metadata_t) -> u64, 0, |it| it.metadata.size;
    fn rocksdb_column_family_metadata_get_file_count(rocksdb_column_family_metadata_t) -> usize, 0,
        |it| it.metadata.file_count;
    fn rocksdb_column_family_metadata_get_name(rocksdb_column_family_metadata_t) -> *mut c_char,
        std::ptr::null_mut(), |it| to_c_string(it.metadata.name.as_bytes());
    fn rocksdb_column_family_metadata_get_level_count(rocksdb_column_family_metadata_t) -> usize, 0,
        |it| it.metadata.levels.len();
    fn rocksdb_level_metadata_get_level(rocksdb_level_metadata_t) -> c_int, 0, |it| it.level.level as c_int;
    fn rocksdb_level_metadata_get_size(rocksdb_level_metadata_t) -> u64, 0, |it| it.level.size;
    fn rocksdb_level_metadata_get_file_count(rocksdb_level_metadata_t) -> usize, 0, |it| it.level.files.len();
    fn rocksdb_sst_file_metadata_get_relative_filename(rocksdb_sst_file_metadata_t) -> *mut c_char,
        std::ptr::null_mut(), |it| to_c_string(it.file.relative_filename.as_bytes());
    fn rocksdb_sst_file_metadata_get_directory(rocksdb_sst_file_metadata_t) -> *mut c_char,
        std::ptr::null_mut(), |it| to_c_string(it.file.directory.as_os_str().as_bytes());
    fn rocksdb_sst_file_metadata_get_size(rocksdb_sst_file_metadata_t) -> u64, 0, |it| it.file.size;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_file_metadata_get_smallestkey(
    file: *mut rocksdb_sst_file_metadata_t,
    len: *mut usize,
) -> *mut c_char {
    file.as_ref().map_or(std::ptr::null_mut(), |file| to_c_bytes(&file.file.smallest_key, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_file_metadata_get_largestkey(
    file: *mut rocksdb_sst_file_metadata_t,
    len: *mut usize,
) -> *mut c_char {
    file.as_ref().map_or(std::ptr::null_mut(), |file| to_c_bytes(&file.file.largest_key, len))
}

/// The level at `index`, which the caller destroys; NULL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_get_level_metadata(
    metadata: *mut rocksdb_column_family_metadata_t,
    index: usize,
) -> *mut rocksdb_level_metadata_t {
    answer(std::ptr::null_mut(), || {
        let level = object(metadata)?.metadata.levels.get(index).cloned();
        Ok(level.map_or(std::ptr::null_mut(), |level| give(rocksdb_level_metadata_t { level })))
    })
}

/// The file at `index`, which the caller destroys; NULL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_level_metadata_get_sst_file_metadata(
    level: *mut rocksdb_level_metadata_t,
    index: usize,
) -> *mut rocksdb_sst_file_metadata_t {
    answer(std::ptr::null_mut(), || {
        let file = object(level)?.level.files.get(index).cloned();
        Ok(file.map_or(std::ptr::null_mut(), |file| give(rocksdb_sst_file_metadata_t { file })))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_destroy(
    metadata: *mut rocksdb_column_family_metadata_t,
) {
    destroy(metadata);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_level_metadata_destroy(level: *mut rocksdb_level_metadata_t) {
    destroy(level);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sst_file_metadata_destroy(file: *mut rocksdb_sst_file_metadata_t) {
    destroy(file);
}

/// Restricts a family's metadata to the files of one level, or of a range of keys.
#[derive(Clone, Debug)]
pub struct rocksdb_column_family_metadata_options_t {
    /// The level; -1 for all levels.
    pub level: c_int,
    start_key: Option<Vec<u8>>,
    end_key: Option<Vec<u8>>,
}

impl Object for rocksdb_column_family_metadata_options_t {}

impl rocksdb_column_family_metadata_options_t {
    /// Returns the part of `metadata` that the options select, with the sizes and counts of that
    /// part.
    fn restrict(&self, mut metadata: ColumnFamilyMetaData, order: &dyn Comparator) -> ColumnFamilyMetaData {
        if let Ok(level) = usize::try_from(self.level) {
            metadata.levels.retain(|listed| listed.level == level);
        }
        for level in &mut metadata.levels {
            level.files.retain(|file| {
                let before = |key: &Vec<u8>| order.compare(&file.largest_key, key).is_lt();
                let after = |key: &Vec<u8>| order.compare(&file.smallest_key, key).is_gt();
                !self.start_key.as_ref().is_some_and(before) && !self.end_key.as_ref().is_some_and(after)
            });
            level.size = level.files.iter().map(|file| file.size).sum();
        }
        metadata.size = metadata.levels.iter().map(|level| level.size).sum();
        metadata.file_count = metadata.levels.iter().map(|level| level.files.len()).sum();
        metadata
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_options_create()
-> *mut rocksdb_column_family_metadata_options_t {
    give(rocksdb_column_family_metadata_options_t { level: -1, start_key: None, end_key: None })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_options_destroy(
    options: *mut rocksdb_column_family_metadata_options_t,
) {
    destroy(options);
}

unsafe fn lend_key(key: Option<&Vec<u8>>, len: *mut usize) -> *const c_char {
    put(len, 0);
    key.map_or(std::ptr::null(), |key| lend(key, len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_options_set_start_key(
    options: *mut rocksdb_column_family_metadata_options_t,
    start: *const c_char,
    len: usize,
) {
    answer((), || {
        object_mut(options)?.start_key = bytes_or_none(start, len).map(<[u8]>::to_vec);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_options_get_start_key(
    options: *const rocksdb_column_family_metadata_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend_key(object(options)?.start_key.as_ref(), len)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_options_set_end_key(
    options: *mut rocksdb_column_family_metadata_options_t,
    end: *const c_char,
    len: usize,
) {
    answer((), || {
        object_mut(options)?.end_key = bytes_or_none(end, len).map(<[u8]>::to_vec);
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_column_family_metadata_options_get_end_key(
    options: *const rocksdb_column_family_metadata_options_t,
    len: *mut usize,
) -> *const c_char {
    answer(std::ptr::null(), || Ok(lend_key(object(options)?.end_key.as_ref(), len)))
}

unsafe fn restricted(
    db: &rocksdb_t,
    family: &ColumnFamilyHandle,
    options: *const rocksdb_column_family_metadata_options_t,
) -> Result<*mut rocksdb_column_family_metadata_t> {
    let metadata = db.db.column_family_metadata(family);
    let metadata = object(options)?.restrict(metadata, family.comparator().as_ref());
    Ok(give(rocksdb_column_family_metadata_t { metadata }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_column_family_metadata_with_options(
    db: *mut rocksdb_t,
    options: *const rocksdb_column_family_metadata_options_t,
) -> *mut rocksdb_column_family_metadata_t {
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        restricted(db, &db.default, options)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_get_column_family_metadata_cf_with_options(
    db: *mut rocksdb_t,
    column_family: *mut rocksdb_column_family_handle_t,
    options: *const rocksdb_column_family_metadata_options_t,
) -> *mut rocksdb_column_family_metadata_t {
    answer(std::ptr::null_mut(), || {
        let db = object(db)?;
        restricted(db, db.own_family(column_family)?, options)
    })
}
