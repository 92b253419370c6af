//! Descriptors run out (`RLIMIT_NOFILE`): unused tables are closed, and failed work is repeated
//! when descriptors are available again.

use super::{directory, run_in_child};
use esker::{Db, Error, ErrorKind, Options, SubCode};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

const FEW: u64 = 64;
const TABLES: usize = 200;

fn limit_descriptors(current: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

fn options(max_open_files: i32, blobs: bool) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.max_open_files = max_open_files;
    options.db.bgerror_resume_retry_interval = 50_000;
    options.cf.disable_auto_compactions = true;
    options.cf.level0_slowdown_writes_trigger = i32::MAX;
    options.cf.level0_stop_writes_trigger = i32::MAX;
    options.cf.enable_blob_files = blobs;
    options
}

fn key(n: usize) -> String {
    format!("key{n:04}")
}

/// Writes a table, and perhaps a blob file, for each key.
fn fill(db: &Db, keys: std::ops::Range<usize>) {
    for n in keys {
        db.put(key(n), format!("value {n}")).unwrap();
        db.flush().unwrap();
    }
}

fn check(db: &Db, keys: std::ops::Range<usize>) {
    for n in keys {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), Some(format!("value {n}").as_bytes()), "{}", key(n));
    }
}

/// Whether the error has the C library's words for a process without descriptors.
fn lacks_descriptors(error: &Error) -> bool {
    error.message().contains(&std::io::Error::from(Errno::MFILE).to_string())
}

#[test]
fn a_database_grows_beyond_the_descriptors_and_opens_again() {
    let Some(dir) = directory() else {
        return run_in_child("limits::descriptors::a_database_grows_beyond_the_descriptors_and_opens_again");
    };
    limit_descriptors(FEW);
    for (name, max_open_files, blobs) in [("all", -1, false), ("blobs", -1, true), ("many", 10_000, false)] {
        let path = Path::new(&dir).join(name);
        let db = Db::open(&options(max_open_files, blobs), &path).unwrap();
        fill(&db, 0..TABLES);
        check(&db, 0..TABLES);
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options(max_open_files, blobs), &path).unwrap();
        check(&db, 0..TABLES);
        fill(&db, TABLES..TABLES + 10);
        check(&db, 0..TABLES + 10);
        let reader = Db::open_for_read_only(&options(max_open_files, blobs), &path).unwrap();
        check(&reader, 0..TABLES + 10);
    }
}

#[test]
fn work_that_lacks_descriptors_fails_and_is_done_once_they_are_available() {
    let Some(dir) = directory() else {
        return run_in_child(
            "limits::descriptors::work_that_lacks_descriptors_fails_and_is_done_once_they_are_available",
        );
    };
    std::fs::create_dir_all(&dir).unwrap();
    let db = Db::open(&options(-1, false), Path::new(&dir).join("db")).unwrap();
    for n in 0..TABLES {
        // Overlapping tables are merged together and scanned together.
        db.put("a", "first").unwrap();
        db.put("z", "last").unwrap();
        fill(&db, n..n + 1);
    }
    limit_descriptors(FEW);
    drop(db);
    let db = Db::open(&options(-1, false), Path::new(&dir).join("db")).unwrap();
    // An iterator has all tables of level 0 open.
    let scan = || {
        let mut iter = db.iter()?;
        iter.seek_to_first();
        let mut count = 0;
        while iter.valid() {
            count += 1;
            iter.next();
        }
        iter.status().map(|()| count)
    };
    let failed = scan().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::IoError, "{failed}");
    assert!(failed.is_retryable() && lacks_descriptors(&failed), "{failed}");
    check(&db, 0..TABLES);
    // A compaction has all its inputs open, too.
    let failed = db.compact_range(None, None).unwrap_err();
    assert!(lacks_descriptors(&failed), "{failed}");
    db.put("more", "1").unwrap();
    limit_descriptors(1000);
    let resumed = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        db.background_error().is_none()
    });
    assert!(resumed, "{:?}", db.background_error());
    assert_eq!(scan().unwrap(), TABLES + 3);
    db.compact_range(None, None).unwrap();
    check(&db, 0..TABLES);
}

#[test]
fn databases_and_the_application_share_the_descriptors() {
    let Some(dir) = directory() else {
        return run_in_child("limits::descriptors::databases_and_the_application_share_the_descriptors");
    };
    limit_descriptors(2 * FEW);
    let open = |name: &str, max_open_files| {
        Db::open(&options(max_open_files, false), Path::new(&dir).join(name)).unwrap()
    };
    let (a, b) = (open("a", -1), open("b", 10_000));
    fill(&a, 0..TABLES);
    fill(&b, 0..TABLES);
    // A part of the limit is left for the application.
    let mut own: Vec<File> = (0..16).map(|_| File::open("/dev/null").unwrap()).collect();
    // The application takes the remaining descriptors, too.
    own.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
    for db in [&a, &b] {
        check(db, 0..TABLES);
        fill(db, TABLES..TABLES + 5);
        check(db, 0..TABLES + 5);
    }
    drop(own);
    for db in [&a, &b] {
        fill(db, TABLES + 5..TABLES + 10);
        check(db, 0..TABLES + 10);
    }
}

/// The reader cannot keep a descriptor of each table.
#[test]
fn a_reader_is_told_that_the_owner_has_deleted_a_file() {
    let Some(dir) = directory() else {
        return run_in_child("limits::descriptors::a_reader_is_told_that_the_owner_has_deleted_a_file");
    };
    limit_descriptors(FEW);
    let db = Db::open(&options(-1, false), &dir).unwrap();
    for n in 0..TABLES {
        // Overlapping tables are merged and not moved.
        db.put("a", "first").unwrap();
        db.put("z", "last").unwrap();
        fill(&db, n..n + 1);
    }
    let reader = Db::open_for_read_only(&options(-1, false), &dir).unwrap();
    limit_descriptors(1000);
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    let mut gone = 0;
    for n in 0..TABLES {
        match reader.get(key(n)) {
            Ok(value) => assert_eq!(value.as_deref(), Some(format!("value {n}").as_bytes())),
            Err(e) => {
                assert_eq!((e.kind(), e.subcode()), (ErrorKind::IoError, SubCode::StaleFile), "{e}");
                let is_told = e.message().contains(".sst: deleted by the database's owner since");
                assert!(is_told, "{e}");
                gone += 1;
            }
        }
    }
    assert!((1..TABLES).contains(&gone), "{gone} of {TABLES} tables were evicted");
    let anew = Db::open_for_read_only(&options(-1, false), &dir).unwrap();
    check(&anew, 0..TABLES);
}
