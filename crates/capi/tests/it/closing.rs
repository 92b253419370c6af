//! The descriptors of a database that was closed through the C API.

use esker_capi::db::{rocksdb_close, rocksdb_open};
use esker_capi::options::{rocksdb_options_create, rocksdb_options_destroy};
use esker_capi::write_options::{rocksdb_writeoptions_create, rocksdb_writeoptions_destroy};
use esker_capi::writes::rocksdb_put;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// Files in `directory` that this process has open.
fn open_files(directory: &Path) -> Vec<PathBuf> {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(directory)).collect()
}

#[test]
fn no_file_stays_open_behind_a_close() {
    let _alone = crate::alone();
    let dir = esker_testkit::TempDir::new("capi-closing");
    let path = CString::new(dir.path().to_str().unwrap()).unwrap();
    for round in 0..6_u8 {
        unsafe {
            let options = rocksdb_options_create();
            (*options).db.create_if_missing = true;
            let db = rocksdb_open(options, path.as_ptr(), null_mut());
            let write = rocksdb_writeoptions_create();
            rocksdb_put(db, write, [round].as_ptr().cast(), 1, [round].as_ptr().cast(), 1, null_mut());
            rocksdb_writeoptions_destroy(write);
            rocksdb_options_destroy(options);
            rocksdb_close(db);
        }
        assert_eq!(open_files(dir.path()), Vec::<PathBuf>::new(), "round {round}");
    }
}
