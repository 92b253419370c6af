//! The declared signatures, and what a C program does first.

mod as_rocksdb;
mod iterators;
mod metadata;
mod perf;
mod remote_compaction;
mod transactions;
mod user_defined_index;
mod wrong_arguments;

use super::accessors::*;
use super::backup::*;
use super::batch::*;
use super::batch_index::*;
use super::cache::*;
use super::callbacks::*;
use super::column_family::*;
use super::compaction_styles::*;
use super::db::*;
use super::env::*;
use super::iterator::*;
use super::job_info::*;
use super::listener::*;
use super::live_files::*;
use super::maintenance::*;
use super::memory::*;
use super::metadata_reads::*;
use super::multi_get::*;
use super::optimistic::*;
use super::option_sets::*;
use super::options::*;
use super::perf::*;
use super::read_options::*;
use super::reads::*;
use super::remote_compaction::*;
use super::replay::*;
use super::snapshot::*;
use super::sst::*;
use super::storage_info::*;
use super::table_kinds::*;
use super::table_options::*;
use super::table_properties::*;
use super::trace::*;
use super::transaction::*;
use super::transaction_db::*;
use super::user_defined_index::*;
use super::wal::*;
use super::wal_filter::*;
use super::write_buffer_policy::*;
use super::write_options::*;
use super::writes::*;

use libc::c_char;
use std::ffi::{CStr, CString};

#[test]
fn the_page_lists_the_functions_that_are_not_there() {
    let missing: &[&str] = include!(concat!(env!("OUT_DIR"), "/missing_names.rs"));
    let page = include_str!("../../../docs/compat/c-api.md");
    let (_, list) = page.split_once("```text\n").unwrap();
    let (list, _) = list.split_once("```").unwrap();
    let listed: Vec<String> = list.split_whitespace().map(|name| format!("rocksdb_{name}")).collect();
    assert_eq!(listed, missing);
}

#[test]
fn functions_have_the_declared_signatures() {
    include!(concat!(env!("OUT_DIR"), "/signatures.rs"));
}

#[test]
fn statistics_have_the_numbers_of_each_shims_release() {
    use esker::stats::{Histogram, Ticker};
    let of_8 = esker_v8_rocksdb_options_statistics_get_ticker_count;
    let of_10 = esker_v10_rocksdb_options_statistics_get_ticker_count;
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_enable_statistics(options);
        let statistics = (*options).db.statistics.clone().unwrap();
        for (count, ticker) in (1..).zip(Ticker::ALL) {
            statistics.set_ticker_count(*ticker, count);
        }
        for (ticker, in_8, in_10) in [
            (Ticker::BlockCacheMiss, 0, 0),
            (Ticker::NumberKeysWritten, 37, 57),
            (Ticker::ErrorHandlerBgErrorCount, 142, 163),
            (Ticker::BytesCompressedTo, 198, 104),
            (Ticker::PrefetchHits, 210, 211),
        ] {
            let count = statistics.ticker_count(ticker);
            assert_eq!((of_8(options, in_8), of_10(options, in_10)), (count, count), "{ticker:?}");
        }
        assert_eq!(
            (of_8(options, 82), of_8(options, 215), of_10(options, 216)),
            (0, 0, 0),
            "gone or unknown"
        );

        statistics.record_in_histogram(Histogram::NumSstReadPerLevel, 7);
        let data = rocksdb_statistics_histogram_data_create();
        esker_v8_rocksdb_options_statistics_get_histogram_data(options, 51, data);
        assert_eq!(rocksdb_statistics_histogram_data_get_count(data), 1);
        esker_v8_rocksdb_options_statistics_get_histogram_data(options, 30, data);
        assert_eq!(
            rocksdb_statistics_histogram_data_get_count(data),
            0,
            "RocksDB 11 has no BYTES_COMPRESSED"
        );
        rocksdb_statistics_histogram_data_destroy(data);
        rocksdb_options_destroy(options);
    }
}

#[test]
fn getters_give_the_numbers_that_setters_took_also_without_a_name() {
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let options = rocksdb_options_create();
        for number in [2, 8, 1, 0] {
            rocksdb_options_set_last_level_temperature(options, number);
            assert_eq!(rocksdb_options_get_last_level_temperature(options), number);
        }
        assert!((*options).refused.is_empty());
        rocksdb_options_destroy(options);

        let read = rocksdb_readoptions_create();
        let name = |read| {
            let mut len = 9;
            let name = rocksdb_readoptions_get_request_id(read, &mut len);
            (!name.is_null()).then(|| bytes(name, len).unwrap().to_vec()).ok_or(len)
        };
        assert_eq!(name(read), Err(0));
        rocksdb_readoptions_set_request_id(read, c"id-7".as_ptr(), 4);
        assert_eq!(name(read).unwrap(), b"id-7");
        rocksdb_readoptions_set_request_id(read, c"".as_ptr(), 0);
        assert_eq!(name(read).unwrap(), b"");
        rocksdb_readoptions_clear_request_id(read);
        assert_eq!(name(read), Err(0));
        rocksdb_readoptions_destroy(read);
    }
}

#[test]
fn sets_of_numbers_become_the_options_of_the_engine() {
    use esker::options::{CompactionStyle, FileType};
    // SAFETY: the options are created here and destroyed once.
    unsafe {
        let options = rocksdb_options_create();
        assert_eq!(rocksdb_options_calculate_sst_write_lifetime_hint_set_contains(options, 0), 1);
        rocksdb_options_calculate_sst_write_lifetime_hint_set_add(options, 1);
        rocksdb_options_calculate_sst_write_lifetime_hint_set_remove(options, 0);
        rocksdb_options_checksum_handoff_file_types_add(options, 0);
        rocksdb_options_checksum_handoff_file_types_add(options, 10);
        assert_eq!(rocksdb_options_checksum_handoff_file_types_count(options), 2);
        let db = &(*options).db;
        assert!(db.calculate_sst_write_lifetime_hint_set.iter().eq(&[CompactionStyle::Universal]));
        assert!(db.checksum_handoff_file_types.iter().eq(&[FileType::Wal, FileType::Blob]));
        rocksdb_options_destroy(options);
    }
}

#[test]
fn a_shims_options_write_files_that_its_release_reads() {
    use esker::options::{CompressionType, TargetVersion};
    type CreateTable = unsafe extern "C" fn() -> *mut rocksdb_block_based_table_options_t;
    type Create = unsafe extern "C" fn() -> *mut rocksdb_options_t;
    let shims: [(Create, CreateTable, TargetVersion, u32, bool); 3] = [
        (
            esker_v8_1_rocksdb_options_create,
            esker_v8_rocksdb_block_based_options_create,
            TargetVersion::V8,
            5,
            false,
        ),
        (
            esker_v8_rocksdb_options_create,
            esker_v8_rocksdb_block_based_options_create,
            TargetVersion::V8,
            5,
            true,
        ),
        (
            esker_v10_rocksdb_options_create,
            esker_v10_rocksdb_block_based_options_create,
            TargetVersion::V10,
            6,
            true,
        ),
    ];
    for (create, create_table, target, format_version, dynamic) in shims {
        // SAFETY: the objects are created here and destroyed once.
        unsafe {
            let (options, table) = (create(), create_table());
            assert_eq!((*options).db.compatible_with, target);
            assert_eq!((*options).cf.compression, CompressionType::Snappy);
            assert_eq!((*options).cf.table.format_version, format_version);
            assert_eq!((*options).cf.level_compaction_dynamic_level_bytes, dynamic);
            let fills_memory = target != TargetVersion::V8;
            assert_eq!((*options).cf.table.optimize_filters_for_memory, fills_memory);
            rocksdb_options_set_block_based_table_factory(options, table);
            assert_eq!((*options).cf.table.format_version, format_version);
            assert_eq!((*options).cf.table.optimize_filters_for_memory, fills_memory);
            rocksdb_block_based_options_destroy(table);
            rocksdb_options_destroy(options);
        }
    }
}

#[test]
fn a_read_only_opening_refuses_wals_if_it_is_told_to() {
    let dir = esker_testkit::TempDir::new("capi-read-only");
    let path = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
    // SAFETY: the objects are created here and destroyed once; the texts end with a zero.
    unsafe {
        let (options, write) = (rocksdb_options_create(), rocksdb_writeoptions_create());
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_avoid_flush_during_shutdown(options, 1);
        let mut err = std::ptr::null_mut();
        let db = rocksdb_open(options, path.as_ptr(), &raw mut err);
        rocksdb_put(db, write, c"key".as_ptr(), 3, c"value".as_ptr(), 5, &raw mut err);
        rocksdb_close(db);
        assert!(err.is_null());

        let refused = rocksdb_open_for_read_only(options, path.as_ptr(), 1, &raw mut err);
        assert!(refused.is_null());
        let text = std::ffi::CStr::from_ptr(err).to_str().unwrap().to_owned();
        assert!(text.starts_with("Corruption: The db was opened in readonly mode"), "{text}");
        rocksdb_free(err.cast());
        err = std::ptr::null_mut();

        let db = rocksdb_open_for_read_only(options, path.as_ptr(), 0, &raw mut err);
        assert!(err.is_null());
        rocksdb_close(db);
        rocksdb_options_set_avoid_flush_during_recovery(options, 0);
        rocksdb_close(rocksdb_open(options, path.as_ptr(), &raw mut err));
        let db = rocksdb_open_for_read_only(options, path.as_ptr(), 1, &raw mut err);
        assert!(err.is_null(), "no WAL has records after the flush");
        rocksdb_close(db);
        rocksdb_writeoptions_destroy(write);
        rocksdb_options_destroy(options);
    }
}

#[test]
fn enabling_file_deletions_by_force_undoes_all_that_disabled_them() {
    let dir = esker_testkit::TempDir::new("capi-deletions");
    let path = std::ffi::CString::new(dir.path().to_str().unwrap()).unwrap();
    // SAFETY: the objects are created here and destroyed once; the path ends with a zero.
    unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        let mut err = std::ptr::null_mut();
        let db = rocksdb_open(options, path.as_ptr(), &raw mut err);
        rocksdb_disable_file_deletions(db, &raw mut err);
        rocksdb_disable_file_deletions(db, &raw mut err);
        esker_v8_rocksdb_enable_file_deletions(db, 0, &raw mut err);
        assert!((*db).db.enable_file_deletions().is_ok(), "one of the two calls was not undone");
        rocksdb_disable_file_deletions(db, &raw mut err);
        rocksdb_disable_file_deletions(db, &raw mut err);
        esker_v8_rocksdb_enable_file_deletions(db, 1, &raw mut err);
        assert!((*db).db.enable_file_deletions().is_err(), "both calls were undone");
        rocksdb_enable_file_deletions(db, &raw mut err);
        assert!(err.is_null(), "enabling enabled deletions is no error");
        rocksdb_close(db);
        rocksdb_options_destroy(options);
    }
}
