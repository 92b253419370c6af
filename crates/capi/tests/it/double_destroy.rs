//! Destroys objects twice, or uses destroyed objects. The behavior is undefined, as in RocksDB, and
//! the process may die. The database keeps each acknowledged write and stays readable.
//!
//! The test starts its own program as a child process, which makes the mistake. A child that
//! survives continues to write.

use esker::Db;
use esker_capi::batch::{rocksdb_writebatch_create, rocksdb_writebatch_destroy, rocksdb_writebatch_put};
use esker_capi::column_family::{
    rocksdb_column_family_handle_destroy, rocksdb_get_default_column_family_handle,
};
use esker_capi::db::{rocksdb_close, rocksdb_open, rocksdb_t};
use esker_capi::iterator::{rocksdb_create_iterator, rocksdb_iter_destroy, rocksdb_iter_seek_to_first};
use esker_capi::options::{rocksdb_options_create, rocksdb_options_destroy, rocksdb_options_t};
use esker_capi::read_options::{
    rocksdb_readoptions_create, rocksdb_readoptions_destroy, rocksdb_readoptions_t,
};
use esker_capi::reads::{rocksdb_get_pinned, rocksdb_pinnableslice_destroy};
use esker_capi::snapshot::{rocksdb_create_snapshot, rocksdb_release_snapshot};
use esker_capi::write_options::{
    rocksdb_writeoptions_create, rocksdb_writeoptions_destroy, rocksdb_writeoptions_t,
};
use esker_capi::writes::rocksdb_put;
use std::ffi::CString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

const MISTAKE: &str = "ESKER_CAPI_MISTAKE";
const DIRECTORY: &str = "ESKER_CAPI_DIRECTORY";

/// The objects of the child.
struct Objects {
    db: *mut rocksdb_t,
    options: *mut rocksdb_options_t,
    reads: *mut rocksdb_readoptions_t,
    writes: *mut rocksdb_writeoptions_t,
}

type Mistake = (&'static str, unsafe fn(&Objects));

const MISTAKES: [Mistake; 11] = [
    ("close", |o| unsafe {
        rocksdb_close(o.db);
        rocksdb_close(o.db);
    }),
    ("put after close", |o| unsafe { rocksdb_close(o.db) }),
    ("iterator", |o| unsafe {
        let iterator = rocksdb_create_iterator(o.db, o.reads);
        rocksdb_iter_seek_to_first(iterator);
        rocksdb_iter_destroy(iterator);
        rocksdb_iter_destroy(iterator);
    }),
    ("move of a destroyed iterator", |o| unsafe {
        let iterator = rocksdb_create_iterator(o.db, o.reads);
        rocksdb_iter_destroy(iterator);
        rocksdb_iter_seek_to_first(iterator);
    }),
    ("family", |o| unsafe {
        let family = rocksdb_get_default_column_family_handle(o.db);
        rocksdb_column_family_handle_destroy(family);
        rocksdb_column_family_handle_destroy(family);
    }),
    ("batch", |_| unsafe {
        let batch = rocksdb_writebatch_create();
        rocksdb_writebatch_put(batch, c"key".as_ptr(), 3, c"value".as_ptr(), 5);
        rocksdb_writebatch_destroy(batch);
        rocksdb_writebatch_destroy(batch);
    }),
    ("pinned value", |o| unsafe {
        let value = rocksdb_get_pinned(o.db, o.reads, c"key00000000".as_ptr(), 11, null_mut());
        rocksdb_pinnableslice_destroy(value);
        rocksdb_pinnableslice_destroy(value);
    }),
    ("snapshot", |o| unsafe {
        let snapshot = rocksdb_create_snapshot(o.db);
        rocksdb_release_snapshot(o.db, snapshot);
        rocksdb_release_snapshot(o.db, snapshot);
    }),
    ("options", |o| unsafe {
        rocksdb_options_destroy(o.options);
        rocksdb_options_destroy(o.options);
    }),
    ("options of reads", |o| unsafe {
        rocksdb_readoptions_destroy(o.reads);
        rocksdb_readoptions_destroy(o.reads);
    }),
    ("options of writes", |o| unsafe {
        rocksdb_writeoptions_destroy(o.writes);
        rocksdb_writeoptions_destroy(o.writes);
    }),
];

/// Puts `count` keys from `first` on. Each acknowledged write makes the file `acknowledged` a byte
/// longer.
unsafe fn put(o: &Objects, directory: &Path, first: usize, count: usize) {
    use std::io::Write;
    let path = directory.join("acknowledged");
    let mut acknowledged = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    for key in first..first + count {
        let (key, mut error) = (format!("key{key:08}"), null_mut());
        let (bytes, len) = (key.as_ptr().cast(), key.len());
        unsafe { rocksdb_put(o.db, o.writes, bytes, len, bytes, len, &mut error) };
        if error.is_null() {
            acknowledged.write_all(b".").unwrap();
        }
    }
}

/// The child process. Without the two environment variables this test does nothing.
#[test]
fn child() {
    let (Ok(mistake), Ok(directory)) = (std::env::var(MISTAKE), std::env::var(DIRECTORY)) else { return };
    let directory = Path::new(&directory);
    let path = CString::new(directory.join("db").to_str().unwrap()).unwrap();
    let (_, make) = MISTAKES.iter().find(|(name, _)| *name == mistake).unwrap();
    unsafe {
        let options = rocksdb_options_create();
        (*options).db.create_if_missing = true;
        let db = rocksdb_open(options, path.as_ptr(), null_mut());
        let (reads, writes) = (rocksdb_readoptions_create(), rocksdb_writeoptions_create());
        let objects = Objects { db, options, reads, writes };
        put(&objects, directory, 0, 1_000);
        make(&objects);
        put(&objects, directory, 1_000, 1_000);
    }
}

/// Waits for the child, and ends it if it hangs.
fn wait(mut child: std::process::Child) -> String {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return status.to_string();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    "hung".to_string()
}

#[test]
fn a_second_destruction_may_end_the_process_but_loses_no_acknowledged_write() {
    let _alone = crate::alone();
    for (mistake, _) in MISTAKES {
        let dir = esker_testkit::TempDir::new("capi-double-destroy");
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["--exact", "double_destroy::child"])
            .env(MISTAKE, mistake)
            .env(DIRECTORY, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ending = wait(child);
        let acknowledged = std::fs::read(dir.path().join("acknowledged")).unwrap().len();
        let db = Db::open_default(dir.path().join("db")).unwrap();
        db.verify_checksum().unwrap();
        let kept = db.iter().unwrap().into_iter().map(|entry| entry.unwrap().0);
        let keys: Vec<String> = kept.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect();
        let expected: Vec<String> = (0..keys.len()).map(|key| format!("key{key:08}")).collect();
        assert_eq!(keys, expected, "{mistake}: {ending}");
        assert!(acknowledged >= 1_000, "{mistake}: {ending}: {acknowledged} writes");
        assert!(keys.len() >= acknowledged, "{mistake}: {ending}: {} of {acknowledged} keys", keys.len());
        println!("{mistake}: {ending}; {acknowledged} writes, {} keys", keys.len());
    }
}
