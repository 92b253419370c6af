//! An open database whose directory is renamed, removed, emptied or replaced.
#![expect(clippy::disallowed_methods, reason = "others change the directory behind the database's back")]

use esker::internals::env::forked::fork;
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options
}

fn fill(db: &Db, value: &str) {
    for i in 0..200 {
        db.put(format!("{i:04}"), value.repeat(20)).unwrap();
    }
}

fn holds(db: &Db, value: &str) -> bool {
    (0..200).all(|i| db.get(format!("{i:04}")).unwrap().is_some_and(|v| v == value.repeat(20).as_bytes()))
}

/// Creates another process's database at this path, with tables, and closes it.
fn another_makes_one(path: &Path) {
    let mut other = fork(|| {
        let db = Db::open(&options(), path).unwrap();
        for _ in 0..3 {
            fill(&db, "theirs");
            db.flush().unwrap();
        }
        u8::from(!holds(&db, "theirs"))
    })
    .unwrap();
    assert_eq!(other.wait(PATIENCE), Some(0));
}

/// Checks that `db`, replaced at `path` by another database, stops writing and leaves the other's
/// files alone.
fn stops_and_leaves_the_other_alone(db: Db, path: &Path) {
    let synced = esker::WriteOptions { sync: true, ..esker::WriteOptions::default() };
    let family = db.default_column_family();
    let e = db.put_opt(&synced, &family, "k", "v").unwrap_err();
    assert!(
        e.message().contains("lock file of this process is no longer at its path"),
        "a write with sync: {e}"
    );
    drop(family);
    let e = db.flush().unwrap_err();
    assert!(e.message().contains("lock file of this process is no longer at its path"), "a flush: {e}");
    // Entries in memory are still readable.
    assert!(holds(&db, "ours"));
    drop(db);
    let db = Db::open(&options(), path).unwrap();
    assert!(holds(&db, "theirs"));
    db.verify_checksum().unwrap();
    db.compact_range(None, None).unwrap();
    assert!(holds(&db, "theirs"));
}

#[test]
fn a_database_whose_directory_was_replaced_stops_and_leaves_the_other_alone() {
    let dir = TempDir::new("replaced");
    let path = dir.path().join("db");
    let db = Db::open(&options(), &path).unwrap();
    fill(&db, "ours");
    std::fs::remove_dir_all(&path).unwrap();
    another_makes_one(&path);
    stops_and_leaves_the_other_alone(db, &path);
}

#[test]
fn a_database_whose_directory_was_emptied_stops_and_leaves_the_other_alone() {
    let dir = TempDir::new("emptied");
    let path = dir.path().join("db");
    let db = Db::open(&options(), &path).unwrap();
    fill(&db, "old");
    db.flush().unwrap();
    fill(&db, "ours");
    for entry in std::fs::read_dir(&path).unwrap() {
        match std::fs::remove_file(entry.unwrap().path()) {
            // The database itself has deleted an old WAL meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.unwrap(),
        }
    }
    another_makes_one(&path);
    stops_and_leaves_the_other_alone(db, &path);
}

#[test]
fn a_database_whose_directory_was_renamed_goes_on() {
    let dir = TempDir::new("renamed");
    let (path, moved, link) = (dir.path().join("db"), dir.path().join("moved"), dir.path().join("link"));
    std::fs::create_dir_all(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut options = options();
    options.db.max_open_files = 20;
    options.db.recycle_log_file_num = 2;
    let db = Db::open(&options, &link).unwrap();
    fill(&db, "old");
    db.flush().unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::fs::remove_file(&link).unwrap();
    another_makes_one(&path);
    for _ in 0..6 {
        fill(&db, "ours");
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    let sequence = db.create_checkpoint(dir.path().join("checkpoint"), 0).unwrap();
    assert!(sequence.0 > 0 && holds(&db, "ours"));
    db.create_column_family("more", &options.cf).unwrap();
    db.close().unwrap();
    drop(db);
    let families =
        ["default", "more"].map(|name| esker::ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = Db::open_cf(&options.db, &moved, families.to_vec()).unwrap();
    assert!(holds(&db, "ours"));
    assert!(holds(&Db::open(&options, &path).unwrap(), "theirs"));
    assert!(holds(&Db::open(&options, dir.path().join("checkpoint")).unwrap(), "ours"));
}

#[test]
fn a_wal_dir_that_was_renamed_keeps_its_wals() {
    let dir = TempDir::new("renamed-wals");
    let (path, wals, moved) = (dir.path().join("db"), dir.path().join("wals"), dir.path().join("moved"));
    let mut options = options();
    options.db.wal_dir = Some(wals.clone());
    options.db.avoid_flush_during_shutdown = true;
    let db = Db::open(&options, &path).unwrap();
    fill(&db, "old");
    std::fs::rename(&wals, &moved).unwrap();
    std::fs::create_dir(&wals).unwrap();
    let foreign: Vec<_> = (1..40).map(|number| wals.join(format!("{number:06}.log"))).collect();
    foreign.iter().for_each(|path| std::fs::write(path, "theirs").unwrap());
    db.flush().unwrap();
    fill(&db, "ours");
    db.close().unwrap();
    drop(db);
    assert!(foreign.iter().all(|path| std::fs::read(path).unwrap() == b"theirs"));
    std::fs::remove_dir_all(&wals).unwrap();
    options.db.wal_dir = Some(moved);
    assert!(holds(&Db::open(&options, &path).unwrap(), "ours"));
}

#[test]
fn files_of_others_with_the_next_numbers_are_not_written_over() {
    let dir = TempDir::new("foreign");
    let mut options = options();
    options.db.max_bgerror_resume_count = 0;
    options.cf.enable_blob_files = true;
    let db = Db::open(&options, dir.path()).unwrap();
    fill(&db, "ours");
    let file = |number: u64, kind: &str| dir.path().join(format!("{number:06}.{kind}"));
    let kinds = ["sst", "log", "blob"];
    let newest = (1..40).rfind(|number| kinds.iter().any(|kind| file(*number, kind).exists())).unwrap();
    let foreign: Vec<_> = (newest + 1..newest + 20).flat_map(|n| kinds.map(|kind| file(n, kind))).collect();
    foreign.iter().for_each(|path| std::fs::write(path, "theirs").unwrap());
    let refused = db.flush().unwrap_err();
    assert!(refused.message().contains("exists"), "{refused}");
    assert!(foreign.iter().all(|path| std::fs::read(path).unwrap() == b"theirs"));
    assert!(holds(&db, "ours"));
    foreign.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    db.resume().unwrap();
    db.flush().unwrap();
    drop(db);
    assert!(holds(&Db::open(&options, dir.path()).unwrap(), "ours"));
}

#[test]
fn one_directory_is_opened_once_whatever_it_is_called() {
    let dir = TempDir::new("called");
    let (path, link) = (dir.path().join("db"), dir.path().join("link"));
    let db = Db::open(&options(), &path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for other in [path.clone(), path.join("."), link, dir.path().join("db/../db")] {
        let e = Db::open(&options(), other).unwrap_err();
        assert!(e.message().contains("lock hold by current process"), "{e}");
    }
    let snapshot = db.snapshot();
    drop(db);
    let e = Db::open(&options(), &path).unwrap_err();
    assert!(e.message().contains("snapshot or transaction of it is still alive"), "{e}");
    drop(snapshot);
    Db::open(&options(), &path).unwrap();
}

#[test]
fn the_log_of_a_fresh_database_warns_of_nothing() {
    let dir = TempDir::new("fresh");
    drop(Db::open(&options(), dir.path()).unwrap());
    let log = std::fs::read_to_string(dir.path().join("LOG")).unwrap();
    assert!(!log.contains("Could not delete"), "{log}");
}
