//! The allocations of calls through the C API, beside those of the Rust calls behind them.
//!
//! The copy that `rocksdb_get` gives is `malloc`'s, which the allocator here does not count.

use esker::{Db, Options, ReadOptions, WriteOptions};
use esker_base::allocations::Allocations;
use esker_capi::db::{rocksdb_close, rocksdb_open, rocksdb_t};
use esker_capi::iterator::{
    rocksdb_create_iterator, rocksdb_iter_destroy, rocksdb_iter_key, rocksdb_iter_next,
    rocksdb_iter_seek_to_first, rocksdb_iter_valid, rocksdb_iter_value,
};
use esker_capi::memory::rocksdb_free;
use esker_capi::options::{rocksdb_options_create, rocksdb_options_destroy};
use esker_capi::read_options::{rocksdb_readoptions_create, rocksdb_readoptions_destroy};
use esker_capi::reads::{rocksdb_get, rocksdb_get_pinned, rocksdb_pinnableslice_destroy};
use esker_capi::write_options::{rocksdb_writeoptions_create, rocksdb_writeoptions_destroy};
use esker_capi::writes::rocksdb_put;
use std::ffi::CString;
use std::ptr::null_mut;

const KEYS: usize = 500;

/// The allocations of `work`: the least of five runs, for other threads allocate, too.
fn allocations(mut work: impl FnMut()) -> u64 {
    let run = |_| {
        let before = Allocations::now().count;
        work();
        Allocations::now().count - before
    };
    (0..5).map(run).min().expect("five runs")
}

/// Opens a database through the C API.
unsafe fn open(path: &std::path::Path) -> *mut rocksdb_t {
    let path = CString::new(path.to_str().expect("a path of text")).expect("without NUL");
    unsafe {
        let options = rocksdb_options_create();
        (*options).db.create_if_missing = true;
        let db = rocksdb_open(options, path.as_ptr(), null_mut());
        rocksdb_options_destroy(options);
        db
    }
}

#[test]
fn a_call_allocates_what_its_rust_form_does() {
    let _alone = crate::alone();
    let dir = esker_testkit::TempDir::new("capi-allocations");
    let rust = Db::open(&Options::default().create_if_missing(true), dir.path().join("rust")).unwrap();
    let family = rust.default_column_family();
    let (read, write) = (ReadOptions::default(), WriteOptions::default());
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key{key:06}")).collect();
    unsafe {
        let db = open(&dir.path().join("c"));
        let (reads, writes) = (rocksdb_readoptions_create(), rocksdb_writeoptions_create());

        let put_rust =
            allocations(|| keys.iter().for_each(|key| rust.put_opt(&write, &family, key, key).unwrap()));
        let put_c = allocations(|| {
            for key in &keys {
                let (bytes, len) = (key.as_ptr().cast(), key.len());
                rocksdb_put(db, writes, bytes, len, bytes, len, null_mut());
            }
        });
        assert_eq!(put_c, put_rust, "{KEYS} puts");

        let get_rust = allocations(|| {
            keys.iter().for_each(|key| drop(rust.get_pinned_opt(&read, &family, key).unwrap()))
        });
        let get_c = allocations(|| {
            for key in &keys {
                let mut len = 0;
                let value = rocksdb_get(db, reads, key.as_ptr().cast(), key.len(), &mut len, null_mut());
                assert_eq!(len, key.len());
                rocksdb_free(value.cast());
            }
        });
        assert_eq!(get_c, get_rust, "{KEYS} gets");
        let pinned_c = allocations(|| {
            for key in &keys {
                let value = rocksdb_get_pinned(db, reads, key.as_ptr().cast(), key.len(), null_mut());
                assert!(!value.is_null());
                rocksdb_pinnableslice_destroy(value);
            }
        });
        assert_eq!(pinned_c, get_rust, "{KEYS} pinned gets");

        let iterator = rocksdb_create_iterator(db, reads);
        let scan_c = allocations(|| {
            rocksdb_iter_seek_to_first(iterator);
            let (mut entries, mut len) = (0, 0);
            while rocksdb_iter_valid(iterator) != 0 {
                assert!(!rocksdb_iter_key(iterator, &mut len).is_null());
                assert!(!rocksdb_iter_value(iterator, &mut len).is_null());
                rocksdb_iter_next(iterator);
                entries += 1;
            }
            assert_eq!(entries, KEYS);
        });
        assert_eq!(scan_c, 0, "a scan of {KEYS} entries");
        rocksdb_iter_destroy(iterator);

        rocksdb_readoptions_destroy(reads);
        rocksdb_writeoptions_destroy(writes);
        rocksdb_close(db);
    }
}
