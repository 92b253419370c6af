//! Ingestions whose preparation and commit are calls of their own.

use super::{Model, contents, file, key, options};
use esker::stats::{Histogram, Statistics};
use esker::{
    ColumnFamilyDescriptor, Db, ErrorKind, FileIngestionHandle, IngestExternalFileArg,
    IngestExternalFileOptions, Options, ReadOptions,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn prepare(db: &Db, files: Vec<PathBuf>) -> esker::Result<FileIngestionHandle> {
    let family = db.default_column_family();
    db.prepare_file_ingestion(&Default::default(), &[IngestExternalFileArg::new(&family, files)])
}

fn tables_in(options: &Options, dir: &str) -> usize {
    let names = options.db.env.fs.children(Path::new(dir)).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

/// Everything may happen between the two calls: the commit looks at the database as it is then.
#[test]
fn a_prepared_file_is_newer_than_what_is_written_before_its_commit() {
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let timed = |of| statistics.histogram_data(of).count;
    let db = Db::open(&options, "/db").unwrap();
    let path = file(&options, "/file", &[1, 2], "ingested", None);
    let handle = prepare(&db, vec![path.clone()]).unwrap();
    assert_eq!(timed(Histogram::IngestExternalFilePrepareTime), 1);
    options.db.env.fs.delete_file(&path).unwrap();
    db.put(key(1), "between").unwrap();
    db.put(key(3), "between").unwrap();
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    let snapshot = db.snapshot();
    let iter = db.iter().unwrap();
    assert_eq!(contents(&db, &ReadOptions::new(), "default").len(), 2);
    db.put(key(2), "in memory").unwrap();
    assert_eq!(timed(Histogram::IngestExternalFileRunTime), 0);
    db.commit_file_ingestion_handle(handle).unwrap();
    assert_eq!(timed(Histogram::IngestExternalFileRunTime), 1);
    let expected: Model =
        [(key(1), "ingested".into()), (key(2), "ingested".into()), (key(3), "between".into())].into();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected);
    let then: Model = [(key(1), "between".into()), (key(3), "between".into())].into();
    assert_eq!(contents(&db, &ReadOptions::new().snapshot(&snapshot), "default"), then);
    drop(iter);
}

#[test]
fn handles_are_committed_together_and_the_later_one_wins() {
    let options = options();
    let names = ["default", "other"];
    let families = names.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).to_vec();
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    let one = prepare(&db, vec![file(&options, "/one", &[1, 2], "one", None)]).unwrap();
    let two = prepare(&db, vec![file(&options, "/two", &[2, 3], "two", None)]).unwrap();
    let other = db.column_family("other").unwrap();
    let args = [IngestExternalFileArg::new(&other, vec![file(&options, "/three", &[9], "three", None)])];
    let three = db.prepare_file_ingestion(&Default::default(), &args).unwrap();
    db.commit_file_ingestion_handles(vec![one, two, three]).unwrap();
    let expected: Model = [(key(1), "one".into()), (key(2), "two".into()), (key(3), "two".into())].into();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected);
    assert_eq!(contents(&db, &ReadOptions::new(), "other"), Model::from([(key(9), "three".into())]));
}

#[test]
fn handles_that_do_not_fit_are_refused_and_given_up() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let other = Db::open(&options, "/other").unwrap();
    let path = file(&options, "/file", &[1], "ingested", None);
    let refused = |db: &Db, handles, text: &str| {
        let e = db.commit_file_ingestion_handles(handles).unwrap_err();
        assert!(e.kind() == ErrorKind::InvalidArgument && e.to_string().contains(text), "{e}");
        assert_eq!((tables_in(&options, "/db"), tables_in(&options, "/other")), (0, 0));
    };
    refused(&db, vec![], "no file ingestion handles to commit");
    let foreign = prepare(&other, vec![path.clone()]).unwrap();
    assert_eq!(tables_in(&options, "/other"), 1);
    refused(&db, vec![prepare(&db, vec![path.clone()]).unwrap(), foreign], "another database");
    let family = db.default_column_family();
    let args = [IngestExternalFileArg::new(&family, vec![path.clone()])];
    let no_flush = IngestExternalFileOptions { allow_blocking_flush: false, ..Default::default() };
    let different = db.prepare_file_ingestion(&no_flush, &args).unwrap();
    refused(
        &db,
        vec![prepare(&db, vec![path.clone()]).unwrap(), different],
        "same IngestExternalFileOptions",
    );
    let missing = prepare(&db, vec![path.clone(), PathBuf::from("/nowhere")]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::IoError, "{missing}");
    assert_eq!(tables_in(&options, "/db"), 0);

    let handle = prepare(&db, vec![path.clone()]).unwrap();
    assert_eq!(tables_in(&options, "/db"), 1);
    handle.abort().unwrap();
    assert_eq!(tables_in(&options, "/db"), 0);
    drop(prepare(&db, vec![path]).unwrap());
    assert_eq!(tables_in(&options, "/db"), 0);
}

/// The family is dropped between preparation and commit.
#[test]
fn a_file_for_a_dropped_family_is_refused() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.create_column_family("short-lived", &options.cf).unwrap();
    let path = file(&options, "/file", &[1], "ingested", None);
    let args = [IngestExternalFileArg::new(&family, vec![path])];
    let handle = db.prepare_file_ingestion(&Default::default(), &args).unwrap();
    db.drop_column_family(&family).unwrap();
    let e = db.commit_file_ingestion_handle(handle).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ColumnFamilyDropped, "{e}");
    assert_eq!(tables_in(&options, "/db"), 0);
    db.put("key", "value").unwrap();
}

/// The directory may belong to the next opener, with a table under the handle's number.
#[test]
fn a_handle_that_outlives_its_database_changes_nothing() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let path = file(&options, "/file", &[1], "ingested", None);
    let handle = prepare(&db, vec![path.clone()]).unwrap();
    let late = prepare(&db, vec![path.clone()]).unwrap();
    db.close().unwrap();
    let e = db.commit_file_ingestion_handle(handle).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress, "{e}");
    drop(db);
    let next = Db::open(&options, "/db").unwrap();
    assert_eq!(tables_in(&options, "/db"), 0, "the open deletes what was left");
    for n in 0..10 {
        next.put(key(n), "next").unwrap();
        next.flush().unwrap();
    }
    let there = tables_in(&options, "/db");
    let e = late.abort().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::ShutdownInProgress, "{e}");
    assert_eq!(tables_in(&options, "/db"), there);
    assert!((0..10).all(|n| next.get(key(n)).unwrap().is_some()));
}

/// Until the commit, the MANIFEST does not name the file: a crash leaves the database without it.
#[test]
fn a_crash_between_preparation_and_commit_leaves_the_database_as_it_was() {
    use esker::internals::env::{CrashChoices, CrashFs};
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = esker::Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, "/db").unwrap();
    db.put(key(1), "old").unwrap();
    db.sync_wal().unwrap();
    let handle = prepare(&db, vec![file(&options, "/file", &[1], "ingested", None)]).unwrap();
    options.db.env = esker::Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
    drop((handle, db));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), Model::from([(key(1), "old".into())]));
    for n in 0..10 {
        db.put(key(n), "next").unwrap();
        db.flush().unwrap();
    }
    db.verify_checksum().unwrap();
}
