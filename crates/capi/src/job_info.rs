//! Infos of events: flushes, compactions, ingestions, stalls, memtables.
//!
//! In: Esker's infos. Out: objects that own their texts and parts. Plain numbers come from
//! `accessors.txt`.

use crate::memory::{attempt, bytes, destroy, give, lend, object, put};
use crate::table_properties::rocksdb_table_properties_t;
use esker::observe::{
    BlobFileAdditionInfo, BlobFileGarbageInfo, CompactionFileInfo, CompactionJobInfo, CompactionJobStats,
    ExternalFileIngestionInfo, FlushJobInfo, MemTableInfo, SubcompactionJobInfo, WriteStallCondition,
    WriteStallInfo,
};
use libc::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Describes a flush.
#[derive(Debug)]
pub struct rocksdb_flushjobinfo_t {
    /// The info.
    pub info: FlushJobInfo,
    /// The table's path.
    pub file_path: Vec<u8>,
    table_properties: rocksdb_table_properties_t,
    blob_files: Vec<rocksdb_blob_file_addition_info_t>,
}

impl rocksdb_flushjobinfo_t {
    pub(crate) fn new(info: &FlushJobInfo) -> rocksdb_flushjobinfo_t {
        rocksdb_flushjobinfo_t {
            file_path: path_bytes(&info.file_path),
            table_properties: rocksdb_table_properties_t::new(&info.table_properties),
            blob_files: info
                .blob_file_addition_infos
                .iter()
                .map(rocksdb_blob_file_addition_info_t::new)
                .collect(),
            info: info.clone(),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushjobinfo_flush_reason(info: *const rocksdb_flushjobinfo_t) -> u32 {
    info.as_ref().map_or(0, |info| info.info.flush_reason as u32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushjobinfo_table_properties(
    info: *const rocksdb_flushjobinfo_t,
) -> *const rocksdb_table_properties_t {
    info.as_ref().map_or(std::ptr::null(), |info| &info.table_properties)
}

/// Describes a compaction. An info that the client made is empty until a call fills it.
#[derive(Debug)]
pub struct rocksdb_compactionjobinfo_t {
    filled: Option<Box<Filled>>,
}

#[derive(Debug)]
struct Filled {
    info: CompactionJobInfo,
    stats: rocksdb_compaction_job_stats_t,
    input_files: Vec<Vec<u8>>,
    output_files: Vec<Vec<u8>>,
    input_infos: Vec<rocksdb_compaction_file_info_t>,
    output_infos: Vec<rocksdb_compaction_file_info_t>,
    table_properties: Vec<(Vec<u8>, rocksdb_table_properties_t)>,
    blob_additions: Vec<rocksdb_blob_file_addition_info_t>,
    blob_garbage: Vec<rocksdb_blob_file_garbage_info_t>,
}

impl rocksdb_compactionjobinfo_t {
    pub(crate) fn new(info: CompactionJobInfo) -> rocksdb_compactionjobinfo_t {
        let properties = info.table_properties.iter();
        let filled = Filled {
            stats: rocksdb_compaction_job_stats_t {
                stats: info.stats.clone(),
                smallest_output_key_prefix: info.smallest_output_key_prefix.clone(),
                largest_output_key_prefix: info.largest_output_key_prefix.clone(),
                is_full_compaction: info.is_full_compaction,
                is_manual_compaction: info.is_manual_compaction,
                is_remote_compaction: info.is_remote_compaction,
            },
            input_files: info.input_files.iter().map(|path| path_bytes(path)).collect(),
            output_files: info.output_files.iter().map(|path| path_bytes(path)).collect(),
            input_infos: info
                .input_file_infos
                .iter()
                .map(|info| rocksdb_compaction_file_info_t { info: *info })
                .collect(),
            output_infos: info
                .output_file_infos
                .iter()
                .map(|info| rocksdb_compaction_file_info_t { info: *info })
                .collect(),
            table_properties: properties
                .map(|(path, properties)| (path_bytes(path), rocksdb_table_properties_t::new(properties)))
                .collect(),
            blob_additions: info
                .blob_file_addition_infos
                .iter()
                .map(rocksdb_blob_file_addition_info_t::new)
                .collect(),
            blob_garbage: info
                .blob_file_garbage_infos
                .iter()
                .map(rocksdb_blob_file_garbage_info_t::new)
                .collect(),
            info,
        };
        rocksdb_compactionjobinfo_t { filled: Some(Box::new(filled)) }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionjobinfo_create() -> *mut rocksdb_compactionjobinfo_t {
    give(rocksdb_compactionjobinfo_t { filled: None })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionjobinfo_destroy(info: *mut rocksdb_compactionjobinfo_t) {
    destroy(info);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionjobinfo_status(
    info: *const rocksdb_compactionjobinfo_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || match &object(info)?.filled {
        Some(filled) => filled.info.status.clone(),
        None => Ok(()),
    });
}

/// Reads one value of a compaction; `none` for an empty info.
unsafe fn of_compaction<T>(
    info: *const rocksdb_compactionjobinfo_t,
    none: T,
    figure: impl FnOnce(&Filled) -> T,
) -> T {
    info.as_ref().and_then(|info| info.filled.as_deref()).map_or(none, figure)
}

/// Defines functions that return a number of a compaction.
macro_rules! of_compactions {
    ($(fn $name:ident -> $ty:ty, |$it:ident| $figure:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(info: *const rocksdb_compactionjobinfo_t) -> $ty {
            of_compaction(info, Default::default(), |$it| $figure)
        }
    )*};
}

of_compactions! {
    fn rocksdb_compactionjobinfo_cf_id -> u32, |it| it.info.cf_id.0;
    fn rocksdb_compactionjobinfo_thread_id -> u64, |it| it.info.thread_id;
    fn rocksdb_compactionjobinfo_job_id -> i32, |it| it.info.job_id as i32;
    fn rocksdb_compactionjobinfo_num_l0_files -> i32, |it| it.info.num_l0_files as i32;
    fn rocksdb_compactionjobinfo_input_files_count -> usize, |it| it.input_files.len();
    fn rocksdb_compactionjobinfo_output_files_count -> usize, |it| it.output_files.len();
    fn rocksdb_compactionjobinfo_input_file_infos_count -> usize, |it| it.input_infos.len();
    fn rocksdb_compactionjobinfo_output_file_infos_count -> usize, |it| it.output_infos.len();
    fn rocksdb_compactionjobinfo_table_properties_count -> usize, |it| it.table_properties.len();
    fn rocksdb_compactionjobinfo_blob_file_addition_infos_count -> usize, |it| it.blob_additions.len();
    fn rocksdb_compactionjobinfo_blob_file_garbage_infos_count -> usize, |it| it.blob_garbage.len();
    fn rocksdb_compactionjobinfo_elapsed_micros -> u64, |it| it.info.stats.elapsed_micros;
    fn rocksdb_compactionjobinfo_num_corrupt_keys -> u64, |it| it.info.stats.num_corrupt_keys;
    fn rocksdb_compactionjobinfo_base_input_level -> i32, |it| it.info.base_input_level as i32;
    fn rocksdb_compactionjobinfo_output_level -> i32, |it| it.info.output_level as i32;
    fn rocksdb_compactionjobinfo_input_records -> u64, |it| it.info.stats.num_input_records;
    fn rocksdb_compactionjobinfo_output_records -> u64, |it| it.info.stats.num_output_records;
    fn rocksdb_compactionjobinfo_total_input_bytes -> u64, |it| it.info.stats.total_input_bytes;
    fn rocksdb_compactionjobinfo_total_output_bytes -> u64, |it| it.info.stats.total_output_bytes;
    fn rocksdb_compactionjobinfo_compaction_reason -> u32, |it| it.info.compaction_reason as u32;
    fn rocksdb_compactionjobinfo_compression -> u32, |it| it.info.compression as u32;
    fn rocksdb_compactionjobinfo_blob_compression_type -> u32, |it| it.info.blob_compression_type as u32;
    fn rocksdb_compactionjobinfo_aborted -> u8, |it| it.info.aborted.into();
    fn rocksdb_compactionjobinfo_num_input_files -> usize, |it| it.info.stats.num_input_files as usize;
    fn rocksdb_compactionjobinfo_num_input_files_at_output_level -> usize,
        |it| it.info.stats.num_input_files_at_output_level as usize;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionjobinfo_cf_name(
    info: *const rocksdb_compactionjobinfo_t,
    len: *mut usize,
) -> *const c_char {
    put(len, 0);
    of_compaction(info, std::ptr::null(), |it| lend(it.info.cf_name.as_bytes(), len))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionjobinfo_stats(
    info: *const rocksdb_compactionjobinfo_t,
) -> *const rocksdb_compaction_job_stats_t {
    of_compaction(info, std::ptr::null(), |it| &it.stats)
}

/// Defines functions that return the text at an index of a list.
macro_rules! texts_at {
    ($(fn $name:ident, |$it:ident, $place:ident| $text:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            info: *const rocksdb_compactionjobinfo_t,
            $place: usize,
            len: *mut usize,
        ) -> *const c_char {
            put(len, 0);
            of_compaction(info, std::ptr::null(), |$it| $text.map_or(std::ptr::null(), |text| lend(text, len)))
        }
    )*};
}

texts_at! {
    fn rocksdb_compactionjobinfo_input_file_at, |it, place| it.input_files.get(place);
    fn rocksdb_compactionjobinfo_output_file_at, |it, place| it.output_files.get(place);
    fn rocksdb_compactionjobinfo_table_properties_key_at,
        |it, place| it.table_properties.get(place).map(|(path, _)| path);
}

/// Defines functions that return the part at an index of a list; NULL beyond the last one.
macro_rules! parts_at {
    ($(fn $name:ident($object:ty) -> $ty:ty, |$it:ident, $place:ident| $part:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(info: *const $object, $place: usize) -> *const $ty {
            let part = info.as_ref().and_then(|$it| $part);
            part.map_or(std::ptr::null(), |part: &$ty| part)
        }
    )*};
}

parts_at! {
    fn rocksdb_flushjobinfo_blob_file_addition_info_at(rocksdb_flushjobinfo_t) -> rocksdb_blob_file_addition_info_t,
        |it, place| it.blob_files.get(place);
    fn rocksdb_compactionjobinfo_input_file_info_at(rocksdb_compactionjobinfo_t) -> rocksdb_compaction_file_info_t,
        |it, place| it.filled.as_ref()?.input_infos.get(place);
    fn rocksdb_compactionjobinfo_output_file_info_at(rocksdb_compactionjobinfo_t) -> rocksdb_compaction_file_info_t,
        |it, place| it.filled.as_ref()?.output_infos.get(place);
    fn rocksdb_compactionjobinfo_table_properties_value_at(rocksdb_compactionjobinfo_t) -> rocksdb_table_properties_t,
        |it, place| it.filled.as_ref()?.table_properties.get(place).map(|(_, properties)| properties);
    fn rocksdb_compactionjobinfo_blob_file_addition_info_at(rocksdb_compactionjobinfo_t)
        -> rocksdb_blob_file_addition_info_t, |it, place| it.filled.as_ref()?.blob_additions.get(place);
    fn rocksdb_compactionjobinfo_blob_file_garbage_info_at(rocksdb_compactionjobinfo_t)
        -> rocksdb_blob_file_garbage_info_t, |it, place| it.filled.as_ref()?.blob_garbage.get(place);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_flushjobinfo_blob_file_addition_infos_count(
    info: *const rocksdb_flushjobinfo_t,
) -> usize {
    info.as_ref().map_or(0, |info| info.blob_files.len())
}

/// The properties of one of the compaction's tables, which its path names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_compactionjobinfo_table_properties_for_file(
    info: *const rocksdb_compactionjobinfo_t,
    file: *const c_char,
    len: usize,
) -> *const rocksdb_table_properties_t {
    let Ok(file) = bytes(file, len) else { return std::ptr::null() };
    of_compaction(info, std::ptr::null(), |it| {
        let found = it.table_properties.iter().find(|(path, _)| path == file);
        found.map_or(std::ptr::null(), |(_, properties)| properties)
    })
}

/// Describes a subcompaction.
#[derive(Debug)]
pub struct rocksdb_subcompactionjobinfo_t {
    /// The info.
    pub info: SubcompactionJobInfo,
    stats: rocksdb_compaction_job_stats_t,
}

impl rocksdb_subcompactionjobinfo_t {
    pub(crate) fn new(info: &SubcompactionJobInfo) -> rocksdb_subcompactionjobinfo_t {
        let stats = rocksdb_compaction_job_stats_t { stats: info.stats.clone(), ..Default::default() };
        rocksdb_subcompactionjobinfo_t { info: info.clone(), stats }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_subcompactionjobinfo_status(
    info: *const rocksdb_subcompactionjobinfo_t,
    errptr: *mut *mut c_char,
) {
    attempt(errptr, (), || object(info)?.info.status.clone());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_subcompactionjobinfo_stats(
    info: *const rocksdb_subcompactionjobinfo_t,
) -> *const rocksdb_compaction_job_stats_t {
    info.as_ref().map_or(std::ptr::null(), |info| &info.stats)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_subcompactionjobinfo_compaction_reason(
    info: *const rocksdb_subcompactionjobinfo_t,
) -> u32 {
    info.as_ref().map_or(0, |info| info.info.compaction_reason as u32)
}

/// Counts and times of a compaction.
#[derive(Debug, Default)]
pub struct rocksdb_compaction_job_stats_t {
    /// The figures.
    pub stats: CompactionJobStats,
    /// The first bytes of the smallest key written.
    pub smallest_output_key_prefix: Vec<u8>,
    /// The first bytes of the largest key written.
    pub largest_output_key_prefix: Vec<u8>,
    /// Whether all files of the family took part.
    pub is_full_compaction: bool,
    /// Whether the user requested the compaction.
    pub is_manual_compaction: bool,
    /// Whether a worker ran the compaction.
    pub is_remote_compaction: bool,
}

/// Defines statistics that Esker's compactions do not have.
macro_rules! constant_stats {
    ($(fn $name:ident -> $ty:ty = $value:expr;)*) => {$(
        #[doc = "Returns the same number for all compactions."]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_stats: *const rocksdb_compaction_job_stats_t) -> $ty {
            $value
        }
    )*};
}

constant_stats! {
    fn rocksdb_compaction_job_stats_has_accurate_num_input_records -> u8 = 1;
}

/// Describes a file of a compaction.
#[derive(Debug)]
pub struct rocksdb_compaction_file_info_t {
    /// The info.
    pub info: CompactionFileInfo,
}

/// Describes a new blob file.
#[derive(Debug)]
pub struct rocksdb_blob_file_addition_info_t {
    /// The info.
    pub info: BlobFileAdditionInfo,
    /// The file's path.
    pub blob_file_path: Vec<u8>,
}

impl rocksdb_blob_file_addition_info_t {
    fn new(info: &BlobFileAdditionInfo) -> rocksdb_blob_file_addition_info_t {
        rocksdb_blob_file_addition_info_t {
            blob_file_path: path_bytes(&info.blob_file_path),
            info: info.clone(),
        }
    }
}

/// Describes the garbage that a compaction left in a blob file.
#[derive(Debug)]
pub struct rocksdb_blob_file_garbage_info_t {
    /// The info.
    pub info: BlobFileGarbageInfo,
    /// The file's path.
    pub blob_file_path: Vec<u8>,
}

impl rocksdb_blob_file_garbage_info_t {
    fn new(info: &BlobFileGarbageInfo) -> rocksdb_blob_file_garbage_info_t {
        rocksdb_blob_file_garbage_info_t {
            blob_file_path: path_bytes(&info.blob_file_path),
            info: info.clone(),
        }
    }
}

/// Describes an ingestion.
#[derive(Debug)]
pub struct rocksdb_externalfileingestioninfo_t {
    /// The info.
    pub info: ExternalFileIngestionInfo,
    /// The path of the ingested file.
    pub external_file_path: Vec<u8>,
    /// The path of the file in the database.
    pub internal_file_path: Vec<u8>,
    table_properties: rocksdb_table_properties_t,
}

impl rocksdb_externalfileingestioninfo_t {
    pub(crate) fn new(info: &ExternalFileIngestionInfo) -> rocksdb_externalfileingestioninfo_t {
        rocksdb_externalfileingestioninfo_t {
            external_file_path: path_bytes(&info.external_file_path),
            internal_file_path: path_bytes(&info.internal_file_path),
            table_properties: rocksdb_table_properties_t::new(&info.table_properties),
            info: info.clone(),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_externalfileingestioninfo_table_properties(
    info: *const rocksdb_externalfileingestioninfo_t,
) -> *const rocksdb_table_properties_t {
    info.as_ref().map_or(std::ptr::null(), |info| &info.table_properties)
}

/// Describes a change of a family's write stall.
#[derive(Debug)]
pub struct rocksdb_writestallinfo_t {
    /// The info.
    pub info: WriteStallInfo,
    current: rocksdb_writestallcondition_t,
    previous: rocksdb_writestallcondition_t,
}

/// A condition: 0 delayed, 1 stopped, 2 normal.
#[repr(C)]
#[derive(Debug)]
pub struct rocksdb_writestallcondition_t {
    condition: u8,
}

impl rocksdb_writestallcondition_t {
    fn new(condition: WriteStallCondition) -> rocksdb_writestallcondition_t {
        rocksdb_writestallcondition_t { condition: condition as u8 }
    }
}

impl rocksdb_writestallinfo_t {
    pub(crate) fn new(info: &WriteStallInfo) -> rocksdb_writestallinfo_t {
        rocksdb_writestallinfo_t {
            current: rocksdb_writestallcondition_t::new(info.cur),
            previous: rocksdb_writestallcondition_t::new(info.prev),
            info: info.clone(),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writestallinfo_cur(
    info: *const rocksdb_writestallinfo_t,
) -> *const rocksdb_writestallcondition_t {
    info.as_ref().map_or(std::ptr::null(), |info| &info.current)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_writestallinfo_prev(
    info: *const rocksdb_writestallinfo_t,
) -> *const rocksdb_writestallcondition_t {
    info.as_ref().map_or(std::ptr::null(), |info| &info.previous)
}

/// Describes a memtable that has become immutable.
#[derive(Debug)]
pub struct rocksdb_memtableinfo_t {
    /// The info.
    pub info: MemTableInfo,
}

impl rocksdb_memtableinfo_t {
    pub(crate) fn new(info: &MemTableInfo) -> rocksdb_memtableinfo_t {
        rocksdb_memtableinfo_t { info: info.clone() }
    }
}
