//! WALs, recycled and not, over several opens.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FileSystem};
use esker::{ColumnFamilyDescriptor, Db, Env, ErrorKind, FlushOptions, Options, WriteOptions};
use std::path::Path;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.avoid_flush_during_recovery = true;
    options.db.avoid_flush_during_shutdown = true;
    options
}

fn put_unlogged(db: &Db, key: &str) -> esker::Result<()> {
    db.put_opt(&WriteOptions::default().disable_wal(true), &db.default_column_family(), key, "value")
}

#[test]
fn a_write_without_a_wal_is_refused_where_wals_are_recycled() {
    let mut options = options();
    options.db.recycle_log_file_num = 1;
    let db = Db::open(&options, "/db").unwrap();
    let error = put_unlogged(&db, "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(db.get("a").unwrap(), None);
    db.put("a", "value").unwrap();
}

#[test]
fn writes_behind_a_recycled_wal_survive_though_one_between_them_was_not_logged() {
    let mut options = options();
    options.db.recycle_log_file_num = 2;
    let db = Db::open(&options, "/db").unwrap();
    // The first files are long, and come to an end with records of before when they are used again.
    for round in 0..4 {
        for i in 0..100 {
            db.put(format!("{round}-{i}"), "value").unwrap();
        }
        db.flush().unwrap();
    }
    db.put("first", "value").unwrap();
    drop(db);
    options.db.recycle_log_file_num = 0;
    let db = Db::open(&options, "/db").unwrap();
    put_unlogged(&db, "unlogged").unwrap();
    db.put("second", "value").unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert!(db.get("first").unwrap().is_some());
    assert!(db.get("second").unwrap().is_some());
    assert_eq!(db.get("unlogged").unwrap(), None);
}

/// What follows it may be empty: then a reader cannot know that nothing is missing.
#[test]
fn a_recycled_wal_ends_with_its_last_record_once_another_is_begun() {
    for synced in [false, true] {
        let disk = CrashFs::new();
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        options.db.recycle_log_file_num = 2;
        options.db.create_missing_column_families = true;
        let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let db = Db::open_cf(&options.db, "/db", families.into()).unwrap();
        let families = [db.default_column_family(), db.column_family("other").unwrap()];
        let put = |key: &str| {
            for family in &families {
                db.put_opt(&WriteOptions::default().sync(synced), family, key, "value").unwrap();
            }
        };
        for round in 0..4 {
            (0..100).for_each(|i| put(&format!("{round}-{i}")));
            db.flush_opt(&FlushOptions::default(), &[&families[0], &families[1]]).unwrap();
            db.wait_for_background_work().unwrap();
        }
        put("last");
        db.flush().unwrap();
        for choices in [CrashChoices::process_kill(), CrashChoices::lose_unsynced()] {
            let left = disk.crash_clone(&choices);
            let mut wals = left.children(Path::new("/db")).unwrap();
            wals.retain(|name| name.ends_with(".log"));
            wals.sort();
            let needed = &wals[wals.len() - 2];
            let bytes = left.file_size(&Path::new("/db").join(needed)).unwrap();
            assert!((50..500).contains(&bytes), "{needed} of {wals:?} has {bytes} bytes; synced: {synced}");
        }
    }
}

#[test]
fn a_wal_from_before_the_open_is_not_written_over() {
    // Its records may lack the log number by which a recycled file's new records are told from its old ones.
    let mut options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "value").unwrap();
    drop(db);
    let wals = |options: &Options| {
        let mut names = options.db.env.fs.children(std::path::Path::new("/db")).unwrap();
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        names
    };
    let before = wals(&options);
    assert_eq!(before.len(), 1);
    options.db.recycle_log_file_num = 2;
    let db = Db::open(&options, "/db").unwrap();
    assert!(wals(&options).contains(&before[0]), "it is still needed");
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert!(!wals(&options).contains(&before[0]), "it is deleted, not kept for recycling");
}

#[test]
fn destroying_takes_the_wals_wherever_they_are_and_nothing_else() {
    for wal_dir in ["/db", "/db/", "/wals"] {
        let mut options = options();
        options.db.wal_dir = Some(wal_dir.into());
        let fs = options.db.env.fs.clone();
        let db = Db::open(&options, "/db").unwrap();
        db.put("a", "value").unwrap();
        db.close().unwrap();
        drop(db);
        if wal_dir == "/wals" {
            fs.new_writable_file("/wals/MANIFEST-000007".as_ref()).unwrap().close().unwrap();
        }
        esker::destroy_db(&options.db, "/db").unwrap();
        assert!(!fs.file_exists("/db".as_ref()).unwrap(), "{wal_dir}");
        if wal_dir == "/wals" {
            assert_eq!(fs.children("/wals".as_ref()).unwrap(), ["MANIFEST-000007"]);
        }
        esker::destroy_db(&options.db, "/db").unwrap();
    }
}
