//! The changes since a sequence number, out of WALs and their archive.

mod failures;
mod model;
mod two_phase;

use esker::internals::env::mem::MemFs;
use esker::internals::env::{Clock, MockClock, SystemClock};
use esker::{
    BatchOp, ColumnFamilyDescriptor, Db, Env, ErrorKind, FileNumber, OpenMode, Options, SequenceNumber,
    SstFileWriter, WalFileType, WalIterator, WalReadOptions, WriteBatch, WriteOptions,
};
use std::path::Path;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.avoid_flush_during_shutdown = true;
    options
}

/// Options with an archive that keeps everything.
fn archiving() -> Options {
    let mut options = options();
    options.db.wal_ttl_seconds = 1 << 30;
    options
}

fn since(db: &Db, sequence: u64) -> WalIterator {
    db.get_updates_since(SequenceNumber(sequence), &WalReadOptions::default()).unwrap()
}

/// The updates from `sequence` on, or from the start of the WALs.
fn since_there(db: &Db, sequence: u64) -> WalIterator {
    let options = WalReadOptions::new().from_next_available(true);
    db.get_updates_since(SequenceNumber(sequence), &options).unwrap()
}

/// A batch as text: its number, and its keys.
fn text((sequence, batch): (SequenceNumber, WriteBatch)) -> String {
    let mut text = format!("{sequence}:");
    for op in batch.iter() {
        let line = match op {
            BatchOp::Put { family, key, .. } => format!(" {}{family}", key.escape_ascii()),
            BatchOp::Delete { family, key } => format!(" -{}{family}", key.escape_ascii()),
            BatchOp::LogData(blob) => format!(" ({})", blob.escape_ascii()),
            other => format!(" {other:?}"),
        };
        text.push_str(&line);
    }
    text
}

/// The remaining batches, until the iterator has caught up.
fn rest(updates: &mut WalIterator) -> Vec<String> {
    updates.map(|update| text(update.unwrap())).collect()
}

/// The error that ends the iterator after `batches` batches.
fn error_after(updates: &mut WalIterator, batches: usize) -> String {
    for _ in 0..batches {
        updates.next().unwrap().unwrap();
    }
    let error = updates.next().unwrap().unwrap_err();
    assert!(updates.next().is_none());
    assert_eq!(updates.status().unwrap_err().to_string(), error.to_string());
    error.to_string()
}

fn put_unlogged(db: &Db, key: &str) {
    let options = WriteOptions::new().disable_wal(true);
    db.put_opt(&options, &db.default_column_family(), key, "value").unwrap();
}

fn flush(db: &Db) {
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
}

fn logs(options: &Options, dir: &str) -> Vec<String> {
    let mut names = options.db.env.fs.children(Path::new(dir)).unwrap_or_default();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names
}

#[test]
fn batches_come_in_order_each_with_the_number_of_its_first_operation() {
    let db = Db::open(&options(), "/db").unwrap();
    assert_eq!(rest(&mut since(&db, 0)), Vec::<String>::new());
    let other = db.create_column_family("other", &Default::default()).unwrap();
    db.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch.put_cf(&other, "b", "2").unwrap();
    batch.put_log_data(b"note").unwrap();
    batch.delete("a").unwrap();
    db.write(&mut batch).unwrap();
    db.put("c", "3").unwrap();
    let all = ["1: a0", "2: b1 (note) -a0", "4: c0"];
    assert_eq!(rest(&mut since(&db, 0)), all);
    assert_eq!(rest(&mut since(&db, 1)), all);
    // The first batch is the one that contains the number.
    assert_eq!(rest(&mut since(&db, 2)), all[1..]);
    assert_eq!(rest(&mut since(&db, 3)), all[1..]);
    assert_eq!(rest(&mut since(&db, 4)), all[2..]);
    let error = db.get_updates_since(SequenceNumber(5), &Default::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.message(), "Requested sequence not yet written in the db");
}

#[test]
fn an_iterator_goes_on_where_it_had_caught_up_also_in_later_wals() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut updates = since(&db, 1);
    for round in 0..5 {
        assert_eq!(rest(&mut updates).len(), 1);
        assert!(updates.next().is_none());
        if round % 2 == 1 {
            flush(&db);
            assert!(updates.next().is_none());
        }
        db.put("a", vec![round; 20_000]).unwrap();
    }
    assert_eq!(rest(&mut updates), ["6: a0"]);
    updates.status().unwrap();
}

#[test]
fn a_number_whose_wal_is_gone_is_a_gap_and_not_the_next_one_that_is_there() {
    let db = Db::open(&options(), "/db").unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    flush(&db);
    db.put("c", "3").unwrap();
    for sequence in [0, 1, 2] {
        let error = db.get_updates_since(SequenceNumber(sequence), &Default::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().starts_with("Gap in sequence numbers"), "{error}");
        assert_eq!(rest(&mut since_there(&db, sequence)), ["3: c0"]);
    }
    assert_eq!(rest(&mut since(&db, 3)), ["3: c0"]);
    flush(&db);
    // No WAL holds a record.
    let error = error_after(&mut since(&db, 3), 0);
    assert!(error.contains("Gap in sequence numbers: no WAL has 3 "), "{error}");
    let mut updates = since_there(&db, 1);
    assert!(updates.next().is_none());
    db.put("d", "4").unwrap();
    assert_eq!(rest(&mut updates), ["4: d0"]);
}

#[test]
fn a_write_that_no_wal_has_is_a_gap_wherever_it_is() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    put_unlogged(&db, "a");
    db.put("b", "2").unwrap();
    let error = db.get_updates_since(SequenceNumber(1), &Default::default()).unwrap_err();
    assert!(error.message().starts_with("Gap in sequence numbers"), "{error}");
    let mut updates = since(&db, 2);
    assert_eq!(rest(&mut updates), ["2: b0"]);
    // The last write has no WAL, and no later write shows the gap.
    put_unlogged(&db, "c");
    assert!(error_after(&mut updates, 0).contains("no WAL has 3 "));
    db.put("d", "4").unwrap();
    assert!(error_after(&mut since(&db, 2), 1).contains("no WAL has 3 "));
    // An ingestion that takes a sequence number.
    assert_eq!(rest(&mut since(&db, 4)), ["4: d0"]);
    let snapshot = db.snapshot();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/d.sst").unwrap();
    writer.put("d", "5").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&["/d.sst"]).unwrap();
    drop(snapshot);
    assert_eq!(db.latest_sequence_number().0, 5);
    assert!(error_after(&mut since(&db, 4), 1).contains("no WAL has 5 "));
}

#[test]
fn an_archive_keeps_wals_that_no_family_needs_for_later_iterators() {
    let options = archiving();
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..3 {
        db.put(format!("{round}"), "value").unwrap();
        flush(&db);
    }
    assert_eq!(logs(&options, "/db/archive").len(), 3);
    assert_eq!(logs(&options, "/db").len(), 1);
    db.put("3", "value").unwrap();
    let all = ["1: 00", "2: 10", "3: 20", "4: 30"];
    assert_eq!(rest(&mut since(&db, 1)), all);
    assert_eq!(rest(&mut since(&db, 2)), all[1..]);
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(rest(&mut since(&db, 1)), all);
    db.put("4", "value").unwrap();
    assert_eq!(rest(&mut since(&db, 3)), ["3: 20", "4: 30", "5: 40"]);
    let files = db.sorted_wal_files().unwrap();
    let found: Vec<_> = files.iter().map(|f| (f.file_type, f.start_sequence.0)).collect();
    let archived = WalFileType::Archived;
    let expected = [(archived, 1), (archived, 2), (archived, 3), (archived, 4), (WalFileType::Alive, 5)];
    assert_eq!(found, expected);
    assert!(files.windows(2).all(|pair| pair[0].log_number < pair[1].log_number));
    for file in &files {
        let path = format!("/db{}", file.path_name);
        let bytes = options.db.env.fs.file_size(Path::new(&path)).unwrap();
        assert!(file.size_file_bytes > 20 && file.size_file_bytes <= bytes, "{file:?}, {bytes} bytes");
    }
    let current = db.current_wal_file().unwrap();
    assert_eq!((current.log_number, current.file_type), (files[4].log_number, WalFileType::Alive));
    assert_eq!(current.size_file_bytes, files[4].size_file_bytes);
    drop(db);
    esker::destroy_db(&options.db, "/db").unwrap();
    assert!(options.db.env.fs.children(Path::new("/db")).is_err(), "the directory is deleted");
}

#[test]
fn the_archive_loses_wals_by_age_and_by_size() {
    let clock = Arc::new(MockClock::new(SystemClock.now_micros()));
    let mut options = options();
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    options.db.wal_ttl_seconds = 3600;
    options.db.wal_size_limit_mb = 1;
    let db = Db::open(&options, "/db").unwrap();
    let write = |kib: usize| {
        db.put("key", vec![7; kib << 10]).unwrap();
        flush(&db);
        db.put("other", "").unwrap();
        flush(&db);
    };
    write(600);
    assert_eq!(logs(&options, "/db/archive").len(), 2);
    let mut updates = since(&db, 1);
    write(600);
    write(600);
    assert_eq!(logs(&options, "/db/archive").len(), 6, "an iterator holds the archived WALs");
    assert_eq!(rest(&mut updates).len(), 6);
    // The iterator has moved on, so the limit of the archive applies to the files behind it.
    flush(&db);
    db.put("more", "").unwrap();
    flush(&db);
    let left = logs(&options, "/db/archive");
    assert_eq!(left.len(), 4, "one of the three long WALs is deleted: {left:?}");
    drop(updates);
    clock.set_micros(clock.now_micros() + 3700 * 1_000_000);
    db.put("late", "").unwrap();
    flush(&db);
    let now = logs(&options, "/db/archive");
    assert!(!left.iter().any(|name| now.contains(name)), "{now:?}");
}

#[test]
fn an_iterator_keeps_the_wals_that_it_has_still_to_read_and_nothing_else() {
    for recycled in [0, 2] {
        let mut options = options();
        options.db.recycle_log_file_num = recycled;
        let db = Db::open(&options, "/db").unwrap();
        for round in 0..3 {
            db.put(format!("{round}"), "value").unwrap();
            flush(&db);
        }
        db.put("3", "value").unwrap();
        let mut updates = since(&db, 4);
        for round in 4..8 {
            flush(&db);
            db.put(format!("{round}"), "value").unwrap();
        }
        assert_eq!(logs(&options, "/db").len(), 5);
        // WALs that only readers hold do not cause flushes, and are not copied into checkpoints.
        assert_eq!(db.int_property("rocksdb.num-immutable-mem-table").unwrap(), 0);
        db.create_checkpoint("/copy", u64::MAX).unwrap();
        assert_eq!(logs(&options, "/copy").len(), 1);
        assert_eq!(updates.next().map(|u| text(u.unwrap())).unwrap(), "4: 30");
        assert_eq!(updates.next().map(|u| text(u.unwrap())).unwrap(), "5: 40");
        db.wait_for_background_work().unwrap();
        assert_eq!(logs(&options, "/db").len(), 4);
        let second = since(&db, 7);
        assert_eq!(rest(&mut updates).len(), 3);
        drop(updates);
        db.wait_for_background_work().unwrap();
        assert_eq!(logs(&options, "/db").len(), 2, "the second iterator holds two WALs");
        drop(second);
        db.wait_for_background_work().unwrap();
        assert_eq!(logs(&options, "/db").len(), 1);
        destroy_and_leave_nothing(&options, db);
    }
}

fn destroy_and_leave_nothing(options: &Options, db: Db) {
    drop(db);
    esker::destroy_db(&options.db, "/db").unwrap();
    assert!(options.db.env.fs.children(Path::new("/db")).is_err());
}

#[test]
fn with_manual_wal_flush_a_write_comes_after_the_flush_of_the_wal() {
    let mut options = archiving();
    options.db.manual_wal_flush = true;
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut updates = since(&db, 1);
    assert!(updates.next().is_none());
    db.flush_wal(false).unwrap();
    assert_eq!(rest(&mut updates), ["1: a0"]);
    db.put("b", vec![1; 200_000]).unwrap();
    assert!(updates.next().is_none(), "a part of the record may be in the file");
    put_unlogged(&db, "c");
    assert!(updates.next().is_none(), "b comes first");
    db.flush_wal(true).unwrap();
    assert!(error_after(&mut updates, 1).contains("no WAL has 3 "));
}

#[test]
fn a_recycled_wal_gives_its_own_records_only() {
    let mut options = options();
    options.db.recycle_log_file_num = 2;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..4 {
        for i in 0..100 {
            db.put(format!("{round}-{i}"), "value").unwrap();
        }
        flush(&db);
    }
    db.put("last", "value").unwrap();
    assert_eq!(rest(&mut since_there(&db, 1)), ["401: last0"]);
    let mut updates = since(&db, 401);
    assert_eq!(rest(&mut updates).len(), 1);
    for round in 0..6 {
        flush(&db);
        db.put(format!("{round}"), "value").unwrap();
        assert_eq!(rest(&mut updates).len(), 1);
    }
}

#[test]
fn a_read_only_database_reads_the_owners_wals_up_to_its_own_point_in_time() {
    let options = archiving();
    let owner = Db::open(&options, "/db").unwrap();
    owner.put("a", "1").unwrap();
    flush(&owner);
    owner.put("b", "2").unwrap();
    let default = || vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let reader = Db::open_with(&options.db, "/db", default(), OpenMode::ReadOnly).unwrap();
    owner.put("c", "3").unwrap();
    let mut updates = since(&reader, 1);
    assert_eq!(rest(&mut updates), ["1: a0", "2: b0"]);
    assert!(updates.next().is_none());
    assert_eq!(reader.sorted_wal_files().unwrap().len(), 2);
    assert_eq!(reader.current_wal_file().unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn closing_ends_an_iterator_and_lets_its_wals_go() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut updates = since(&db, 1);
    flush(&db);
    db.put("b", "2").unwrap();
    assert_eq!(logs(&options, "/db").len(), 2);
    db.close().unwrap();
    assert_eq!(logs(&options, "/db").len(), 1);
    let error = updates.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress);
    let error = db.get_updates_since(SequenceNumber(1), &Default::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShutdownInProgress);
}

#[test]
fn a_database_lives_as_long_as_its_iterator() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    let mut updates = since(&db, 1);
    drop(db);
    assert_eq!(rest(&mut updates), ["1: a0"]);
    assert!(Db::open(&options, "/db").is_err(), "the database is open");
    drop(updates);
    Db::open(&options, "/db").unwrap();
}

#[test]
fn an_archive_of_an_earlier_database_is_no_history_of_a_new_one() {
    let options = archiving();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    flush(&db);
    let archived = db.sorted_wal_files().unwrap()[0].log_number;
    drop(db);
    for name in options.db.env.fs.children(Path::new("/db")).unwrap() {
        if name != "archive" {
            options.db.env.fs.delete_file(&Path::new("/db").join(name)).unwrap();
        }
    }
    let error = Db::open(&options, "/db").unwrap_err();
    assert!(error.to_string().contains(&format!("/db/archive/{archived:06}.log")), "{error}");
}

#[test]
fn a_wal_gets_no_number_of_the_archive() {
    let options = archiving();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    drop(db);
    options.db.env.fs.create_dir_if_missing(Path::new("/db/archive")).unwrap();
    let mut file = options.db.env.fs.new_writable_file(Path::new("/db/archive/000100.log")).unwrap();
    file.close().unwrap();
    let db = Db::open(&options, "/db").unwrap();
    db.put("b", "2").unwrap();
    assert!(db.current_wal_file().unwrap().log_number > FileNumber(100));
}
