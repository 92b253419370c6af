//! Reads with metadata, and policies of write buffer managers, called as a C program calls them.

use super::*;
use esker_testkit::TempDir;
use std::ffi::CString;
use std::ptr::null_mut;

#[test]
fn policies_come_back_and_numbers_without_a_policy_are_refused() {
    unsafe {
        let plain = rocksdb_write_buffer_manager_create(1 << 20, false);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(plain), 0);
        let manager = rocksdb_write_buffer_manager_create_with_policy(1 << 20, false, 2);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(manager), 2);
        rocksdb_write_buffer_manager_set_flush_policy(manager, 3);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(manager), 2);
        rocksdb_write_buffer_manager_set_flush_policy(manager, 1);
        assert_eq!(rocksdb_write_buffer_manager_flush_policy(manager), 1);
        for policy in [-1, 3, 257] {
            assert!(rocksdb_write_buffer_manager_create_with_policy(1, false, policy).is_null());
        }
        let cache = rocksdb_cache_create_lru(1 << 20);
        let cached = rocksdb_write_buffer_manager_create_with_cache_and_policy(1 << 20, cache, false, 0);
        assert!(rocksdb_write_buffer_manager_cost_to_cache(cached));
        for manager in [plain, manager, cached] {
            rocksdb_write_buffer_manager_destroy(manager);
        }
        rocksdb_cache_destroy(cache);
    }
}

#[test]
fn metadata_is_given_where_it_is_wanted() {
    let dir = TempDir::new("capi-metadata");
    let path = CString::new(dir.path().to_str().unwrap()).unwrap();
    unsafe {
        let (options, read, write) =
            (rocksdb_options_create(), rocksdb_readoptions_create(), rocksdb_writeoptions_create());
        rocksdb_options_set_create_if_missing(options, 1);
        let mut err = null_mut();
        let db = rocksdb_open(options, path.as_ptr(), &raw mut err);
        let put = |value: &str| {
            let mut err = null_mut();
            rocksdb_put(db, write, c"k".as_ptr(), 1, value.as_ptr().cast(), value.len(), &raw mut err);
            assert!(err.is_null());
        };
        put("old");
        let snapshot = rocksdb_create_snapshot(db);
        rocksdb_readoptions_set_snapshot(read, snapshot);
        put("new");
        let (mut len, mut ts, mut ts_len, mut newer) = (9, null_mut(), 9, 9);
        let value = rocksdb_get_with_metadata(
            db,
            read,
            c"k".as_ptr(),
            1,
            &raw mut len,
            &raw mut ts,
            &raw mut ts_len,
            &raw mut newer,
            &raw mut err,
        );
        assert!(err.is_null() && !ts.is_null());
        assert_eq!((bytes(value, len).unwrap(), ts_len, newer), (&b"old"[..], 0, 1));
        rocksdb_free(value.cast());
        rocksdb_free(ts.cast());
        let keys = [c"k".as_ptr(), c"x".as_ptr()];
        let (sizes, mut values, mut lens) = ([1, 1], [null_mut(); 2], [9; 2]);
        let (mut newer, mut errs) = ([9; 2], [null_mut(); 2]);
        rocksdb_multi_get_with_metadata(
            db,
            read,
            2,
            keys.as_ptr(),
            sizes.as_ptr(),
            values.as_mut_ptr(),
            lens.as_mut_ptr(),
            null_mut(),
            null_mut(),
            newer.as_mut_ptr(),
            errs.as_mut_ptr(),
        );
        assert_eq!((newer, lens), ([1, 0], [3, 0]));
        assert!(values[1].is_null() && errs.iter().all(|err| err.is_null()));
        rocksdb_free(values[0].cast());
        let absent = rocksdb_get_with_metadata(
            null_mut(),
            read,
            c"k".as_ptr(),
            1,
            &raw mut len,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut err,
        );
        assert!(absent.is_null() && !err.is_null(), "a NULL database is an error");
        rocksdb_free(err.cast());
        rocksdb_release_snapshot(db, snapshot);
        rocksdb_close(db);
        rocksdb_options_destroy(options);
        rocksdb_readoptions_destroy(read);
        rocksdb_writeoptions_destroy(write);
    }
}

#[test]
fn properties_that_a_table_records_are_not_zero() {
    let recorded = esker::TableProperties {
        uncompressed_data_size: 1,
        lsm_info_at_creation: 2,
        global_seqno_offset: Some(3),
        ..esker::TableProperties::default()
    };
    let properties = rocksdb_table_properties_t::new(&recorded);
    // SAFETY: the properties live as long as the calls.
    let read = unsafe {
        [
            rocksdb_table_properties_uncompressed_data_size(&raw const properties),
            rocksdb_table_properties_lsm_info_at_creation(&raw const properties),
            rocksdb_table_properties_external_sst_file_global_seqno_offset(&raw const properties),
        ]
    };
    assert_eq!(read, [1, 2, 3]);
}
