//! Calls that RocksDB takes, or refuses with an error of a certain kind. Suite `semantics` of
//! `cargo xtask long clients` compares the same cases with RocksDB's library.

use super::*;
use esker_testkit::TempDir;
use std::ptr::{null, null_mut};

/// The kind of the error that `call` gives; "ok" if it gives none.
unsafe fn outcome(call: impl FnOnce(*mut *mut c_char)) -> String {
    let mut error = null_mut();
    call(&mut error);
    // SAFETY: the message ends with a NUL, and is freed once.
    unsafe {
        let text =
            if error.is_null() { "ok".into() } else { CStr::from_ptr(error).to_string_lossy().into_owned() };
        rocksdb_free(error.cast());
        text.split(':').next().unwrap_or_default().to_owned()
    }
}

fn path(dir: &TempDir, name: &str) -> CString {
    CString::new(dir.path().join(name).to_str().unwrap()).unwrap()
}

unsafe fn creating() -> *mut rocksdb_options_t {
    // SAFETY: the options were created just now.
    unsafe {
        let options = rocksdb_options_create();
        (*options).db.create_if_missing = true;
        options
    }
}

#[test]
fn an_optimistic_transaction_is_used_again_after_its_commit() {
    let dir = TempDir::new("capi-used-again");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (options, writes, reads) =
            (creating(), rocksdb_writeoptions_create(), rocksdb_readoptions_create());
        let db = rocksdb_optimistictransactiondb_open(options, path(&dir, "db").as_ptr(), null_mut());
        let base = rocksdb_optimistictransactiondb_get_base_db(db);
        let how = rocksdb_optimistictransaction_options_create();
        let begin = || rocksdb_optimistictransaction_begin(db, writes, how, null_mut());
        let (txn, other) = (begin(), begin());
        let put = |txn, key: &CStr| {
            outcome(|error| rocksdb_transaction_put(txn, key.as_ptr(), 1, c"v".as_ptr(), 1, error))
        };
        let commit = |txn| outcome(|error| rocksdb_transaction_commit(txn, error));
        let rollback = |txn| outcome(|error| rocksdb_transaction_rollback(txn, error));
        let has = |key: &CStr| {
            let found = rocksdb_get_pinned(base, reads, key.as_ptr(), 1, null_mut());
            rocksdb_pinnableslice_destroy(found);
            !found.is_null()
        };
        assert_eq!([put(txn, c"a"), commit(txn), put(txn, c"b")], ["ok", "ok", "ok"]);
        assert!(has(c"a") && !has(c"b"), "the second put waits for its commit");
        assert_eq!([commit(txn), commit(txn), rollback(txn)], ["ok", "ok", "ok"]);
        assert!(has(c"b"));
        assert_eq!([put(txn, c"c"), put(other, c"c")], ["ok", "ok"]);
        assert_eq!([commit(other), commit(txn), commit(txn)], ["ok", "Resource busy", "Resource busy"]);
        assert_eq!([rollback(txn), put(txn, c"d"), commit(txn)], ["ok", "ok", "ok"]);
        assert!(has(c"d"));
        rocksdb_transaction_destroy(txn);
        rocksdb_transaction_destroy(other);
        rocksdb_optimistictransaction_options_destroy(how);
        rocksdb_optimistictransactiondb_close_base_db(base);
        rocksdb_optimistictransactiondb_close(db);
        rocksdb_options_destroy(options);
        rocksdb_writeoptions_destroy(writes);
        rocksdb_readoptions_destroy(reads);
    }
}

/// Adds a change by each kind of function.
unsafe fn change_in_all_ways(db: *mut rocksdb_t, batch: *mut rocksdb_writebatch_t) {
    let k = c"k".as_ptr();
    // SAFETY: the objects are live.
    unsafe {
        let family = rocksdb_get_default_column_family_handle(db);
        rocksdb_writebatch_put(batch, k, 1, k, 1);
        rocksdb_writebatch_put_cf(batch, family, k, 1, k, 1);
        rocksdb_writebatch_putv(batch, 1, &k, &1, 1, &k, &1);
        rocksdb_writebatch_put_log_data(batch, k, 1);
        rocksdb_column_family_handle_destroy(family);
    }
}

#[test]
fn bytes_that_are_no_batch_make_a_batch_that_cannot_be_written_or_changed() {
    unsafe extern "C" fn put(
        seen: *mut libc::c_void,
        _: u32,
        _: *const c_char,
        _: usize,
        _: *const c_char,
        _: usize,
    ) {
        // SAFETY: the test passes the address of a number.
        unsafe { *seen.cast::<usize>() += 1 };
    }
    unsafe extern "C" fn log_data(seen: *mut libc::c_void, _: *const c_char, _: usize) {
        // SAFETY: the test passes the address of a number.
        unsafe { *seen.cast::<usize>() += 1 };
    }
    let dir = TempDir::new("capi-no-batch");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (options, writes) = (creating(), rocksdb_writeoptions_create());
        let db = rocksdb_open(options, path(&dir, "db").as_ptr(), null_mut());
        let cases: [(&[u8], i32); 4] = [
            (b"", 0),
            (b"\0\0\0\0\0\0\0\0\x01\0\0\0", 1),
            (b"\0\0\0\0\0\0\0\0\xff\xff\xff\xff\x01\x01k\x01v", -1),
            (b"\0\0\0\0\0\0\0\0\x01\0\0\0\x77\x01k\x01v", 1),
        ];
        for (rep, count) in cases {
            let batch = rocksdb_writebatch_create_from(rep.as_ptr().cast(), rep.len());
            change_in_all_ways(db, batch);
            let mut len = 0;
            let data = rocksdb_writebatch_data(batch, &mut len).cast::<u8>();
            assert_eq!(std::slice::from_raw_parts(data, len), rep);
            assert_eq!(rocksdb_writebatch_count(batch), count, "{rep:?}");
            let mut seen = 0_usize;
            let state = (&raw mut seen).cast();
            rocksdb_writebatch_iterate_cf_ld(batch, state, Some(put), None, None, Some(log_data));
            assert_eq!(seen, 0, "{rep:?}");
            let stamped = outcome(|error| {
                rocksdb_writebatch_update_timestamps(batch, null(), 0, null_mut(), None, error);
            });
            assert_eq!(stamped, "Corruption", "{rep:?}");
            assert_eq!(outcome(|error| rocksdb_write(db, writes, batch, error)), "Corruption", "{rep:?}");
            rocksdb_writebatch_clear(batch);
            rocksdb_writebatch_put(batch, c"k".as_ptr(), 1, c"v".as_ptr(), 1);
            assert_eq!(outcome(|error| rocksdb_write(db, writes, batch, error)), "ok", "{rep:?}, cleared");
            rocksdb_writebatch_destroy(batch);
        }
        assert!(rocksdb_writebatch_create_from(null(), 9).is_null());
        rocksdb_close(db);
        rocksdb_options_destroy(options);
        rocksdb_writeoptions_destroy(writes);
    }
}

#[test]
fn tables_for_ingestion_take_timestamps_of_the_comparators_size_only() {
    unsafe extern "C" fn free(_: *mut libc::c_void) {}
    unsafe extern "C" fn name(_: *mut libc::c_void) -> *const c_char {
        c"of a test".as_ptr()
    }
    unsafe extern "C" fn bytes(
        _: *mut libc::c_void,
        a: *const c_char,
        al: usize,
        b: *const c_char,
        bl: usize,
    ) -> i32 {
        // SAFETY: the library gives live bytes.
        let order = unsafe { std::slice::from_raw_parts(a, al).cmp(std::slice::from_raw_parts(b, bl)) };
        order as i32
    }
    unsafe extern "C" fn keys(
        state: *mut libc::c_void,
        a: *const c_char,
        al: usize,
        _: u8,
        b: *const c_char,
        bl: usize,
        _: u8,
    ) -> i32 {
        // SAFETY: the library gives live bytes.
        unsafe { bytes(state, a, al, b, bl) }
    }
    let dir = TempDir::new("capi-sst-timestamps");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (options, env) = (creating(), rocksdb_envoptions_create());
        let stamped = rocksdb_comparator_with_ts_create(
            null_mut(),
            Some(free),
            Some(bytes),
            Some(bytes),
            Some(keys),
            Some(name),
            8,
        );
        let writers = [
            rocksdb_sstfilewriter_create(env, options),
            rocksdb_sstfilewriter_create_with_comparator(env, options, stamped),
        ];
        for (writer, size) in writers.into_iter().zip([0, 8]) {
            let file = path(&dir, &size.to_string());
            assert_eq!(outcome(|error| rocksdb_sstfilewriter_open(writer, file.as_ptr(), error)), "ok");
            let key = c"keykeykeykey".as_ptr();
            let expected = |given| if given == size { "ok" } else { "Invalid argument" };
            for given in [0, 4, 8] {
                let put = outcome(|error| {
                    rocksdb_sstfilewriter_put_with_ts(writer, key, 9 + size, key, given, key, 1, error)
                });
                assert_eq!(put, expected(given), "{given} bytes, where keys have {size}");
            }
            let put = outcome(|error| rocksdb_sstfilewriter_put(writer, c"z".as_ptr(), 1, key, 1, error));
            assert_eq!(put, expected(0), "no timestamp, where keys have {size}");
            rocksdb_sstfilewriter_destroy(writer);
        }
        rocksdb_comparator_destroy(stamped);
        rocksdb_envoptions_destroy(env);
        rocksdb_options_destroy(options);
    }
}

/// The kind of the error of loading the options of a directory, and the number of families.
fn outcome_of_load(dir: &TempDir, name: &str) -> (String, usize) {
    let (mut db, mut count, mut names, mut families) = (null_mut(), 7, null_mut(), null_mut());
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (env, cache) = (rocksdb_create_default_env(), rocksdb_cache_create_lru(1 << 20));
        let loaded = outcome(|error| {
            let place = path(dir, name);
            rocksdb_load_latest_options(
                place.as_ptr(),
                env,
                false,
                cache,
                &mut db,
                &mut count,
                &mut names,
                &mut families,
                error,
            );
        });
        rocksdb_cache_destroy(cache);
        rocksdb_env_destroy(env);
        (loaded, count)
    }
}

#[test]
fn the_options_of_a_missing_directory_are_not_found() {
    let dir = TempDir::new("capi-no-options");
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    for name in ["missing", "empty"] {
        assert_eq!(outcome_of_load(&dir, name), ("NotFound".to_owned(), 0), "{name}");
    }
}

#[test]
fn a_directory_that_cannot_be_listed_is_an_io_error_unless_it_is_none() {
    let dir = TempDir::new("capi-unlisted-options");
    std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
    let (file, long) = (std::env::current_exe().unwrap(), "long".repeat(100));
    let file = file.to_str().unwrap();
    for (name, expected) in [(file, "NotFound"), ("loop", "IO error"), (&long, "IO error")] {
        assert_eq!(outcome_of_load(&dir, name), (expected.to_owned(), 0), "{name}");
    }
}

#[test]
fn new_options_have_the_defaults_of_the_librarys_release() {
    const SNAPPY: i32 = 1;
    const LZ4: i32 = 4;
    let expected = if cfg!(feature = "defaults-of-11-1") { SNAPPY } else { LZ4 };
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let options = rocksdb_options_create();
        assert_eq!(rocksdb_options_get_compression(options), expected);
        assert!((*options).cf.table.optimize_filters_for_memory);
        rocksdb_options_destroy(options);
    }
}

#[test]
fn a_merge_width_without_a_limit_is_minus_one() {
    // SAFETY: the object is created here and destroyed once.
    unsafe {
        let styles = rocksdb_universal_compaction_options_create();
        assert_eq!(rocksdb_universal_compaction_options_get_max_merge_width(styles), -1);
        rocksdb_universal_compaction_options_set_max_merge_width(styles, 7);
        assert_eq!((*styles).options.max_merge_width, 7);
        rocksdb_universal_compaction_options_set_max_merge_width(styles, -1);
        assert_eq!((*styles).options.max_merge_width, u32::MAX);
        rocksdb_universal_compaction_options_destroy(styles);
    }
}

#[test]
fn numbers_below_the_least_of_a_table_option_are_raised() {
    let dir = TempDir::new("capi-raised");
    // SAFETY: the objects are created here and destroyed once.
    unsafe {
        let (options, table) = (creating(), rocksdb_block_based_options_create());
        rocksdb_block_based_options_set_block_size(table, 0);
        rocksdb_block_based_options_set_block_restart_interval(table, 0);
        rocksdb_block_based_options_set_index_block_restart_interval(table, 0);
        rocksdb_block_based_options_set_format_version(table, 0);
        rocksdb_options_set_block_based_table_factory(options, table);
        let mut db = null_mut();
        let opened = outcome(|error| db = rocksdb_open(options, path(&dir, "db").as_ptr(), error));
        assert_eq!(opened, "ok");
        rocksdb_close(db);
        rocksdb_block_based_options_destroy(table);
        rocksdb_options_destroy(options);
    }
}
