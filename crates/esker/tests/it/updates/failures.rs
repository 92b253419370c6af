//! Damaged WALs, failed writes and crashes: the stream of changes has the same changes as the
//! database.

use super::{archiving, error_after, flush, logs, options, rest, since};
use esker::internals::env::fault::OpKind;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule};
use esker::options::WalRecoveryMode;
use esker::{Db, Env, Options, WriteOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn flip(options: &Options, path: &Path, at: u64) {
    let fs = &options.db.env.fs;
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    let mut filled = 0;
    let mut file = fs.new_sequential_file(path).unwrap();
    while filled < bytes.len() {
        filled += file.read(&mut bytes[filled..]).unwrap();
    }
    bytes[at as usize] ^= 1;
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

fn wal_of(db: &Db) -> (PathBuf, u64) {
    let file = db.current_wal_file().unwrap();
    (PathBuf::from(format!("/db{}", file.path_name)), file.size_file_bytes)
}

#[test]
fn damage_in_an_archived_wal_is_an_error_and_nothing_behind_it_comes() {
    let options = archiving();
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, vec![1; 40_000]).unwrap();
    }
    let (wal, _) = wal_of(&db);
    flush(&db);
    db.put("d", "4").unwrap();
    let archived = Path::new("/db/archive").join(wal.file_name().unwrap());
    // Damages the second record.
    flip(&options, &archived, 60_000);
    let error = error_after(&mut since(&db, 1), 1);
    assert!(error.contains("Corruption") && error.contains(".log: checksum mismatch"), "{error}");
    assert_eq!(rest(&mut since(&db, 4)), ["4: d0"]);
    // The file without "d" is damaged before its first batch.
    flip(&options, &archived, 20);
    assert_eq!(rest(&mut since(&db, 4)), ["4: d0"]);
    let error = db.get_updates_since(esker::SequenceNumber(2), &Default::default()).unwrap_err();
    assert!(error.message().contains("Gap"), "{error}");
    assert!(db.sorted_wal_files().is_err());
}

#[test]
fn records_behind_the_damage_at_which_a_recovery_stopped_are_no_history() {
    for mode in [WalRecoveryMode::PointInTimeRecovery, WalRecoveryMode::TolerateCorruptedTailRecords] {
        let mut options = archiving();
        options.db.wal_recovery_mode = mode;
        let db = Db::open(&options, "/db").unwrap();
        for key in ["a", "b", "c", "d"] {
            db.put(key, vec![1; 40_000]).unwrap();
        }
        let (wal, bytes) = wal_of(&db);
        drop(db);
        if mode == WalRecoveryMode::PointInTimeRecovery {
            flip(&options, &wal, 60_000);
        } else {
            options.db.env.fs.truncate(&wal, bytes - 10).unwrap();
        }
        let db = Db::open(&options, "/db").unwrap();
        let last = db.latest_sequence_number().0;
        assert_eq!(last, if mode == WalRecoveryMode::PointInTimeRecovery { 1 } else { 3 });
        db.put("e", "5").unwrap();
        let mut all: Vec<_> =
            ["1: a0", "2: b0", "3: c0"].into_iter().take(last as usize).map(str::to_owned).collect();
        all.push(format!("{}: e0", last + 1));
        assert_eq!(rest(&mut since(&db, 1)), all);
        assert_eq!(rest(&mut since(&db, last + 1)), all[last as usize..]);
    }
}

#[test]
fn a_write_that_failed_is_not_in_the_stream_and_its_number_is_a_gap() {
    let faults =
        [FaultRule::fail(&[OpKind::Append]), FaultRule::short_write(None), FaultRule::fail(&[OpKind::Sync])];
    for (kind, rule) in faults.into_iter().enumerate() {
        let disk = FaultFs::new(Arc::new(MemFs::new()));
        let mut options = archiving();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        options.db.max_bgerror_resume_count = 0;
        let db = Db::open(&options, "/db").unwrap();
        db.put("a", "1").unwrap();
        let mut early = since(&db, 1);
        disk.add_rule(rule.on_name(".log").times(1));
        let sync = WriteOptions::new().sync(true);
        db.put_opt(&sync, &db.default_column_family(), "failed", vec![1; 300]).unwrap_err();
        assert_eq!(rest(&mut early), ["1: a0"]);
        db.resume().unwrap();
        db.put("b", "3").unwrap();
        db.wait_for_background_work().unwrap();
        let number = db.latest_sequence_number().0;
        let found = |stream: Vec<Result<_, esker::Error>>| -> Vec<String> {
            stream.into_iter().filter_map(|update| update.ok().map(super::text)).collect()
        };
        for stream in [early.collect(), since(&db, 1).collect::<Vec<_>>()] {
            let texts = found(stream);
            assert!(!texts.iter().any(|text| text.contains("failed")), "fault {kind}: {texts:?}");
        }
        assert_eq!(rest(&mut since(&db, number)), [format!("{number}: b0")]);
        drop(db);
        let db = Db::open(&options, "/db").unwrap();
        let texts = found(since(&db, 1).collect());
        assert!(!texts.iter().any(|text| text.contains("failed")), "fault {kind}: {texts:?}");
        assert_eq!(db.get("failed").unwrap(), None);
    }
}

#[test]
fn wals_that_a_crash_leaves_are_archived_by_the_next_opening() {
    let disk = CrashFs::new();
    let mut options = archiving();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..6 {
        db.put(format!("{round}"), "value").unwrap();
        if round % 2 == 1 {
            db.flush().unwrap();
        }
    }
    db.wait_for_background_work().unwrap();
    db.put("6", "value").unwrap();
    let left = disk.crash_clone(&CrashChoices::process_kill());
    drop(db);
    options.db.env = Env::with_fs(Arc::new(left));
    let db = Db::open(&options, "/db").unwrap();
    db.put("7", "value").unwrap();
    assert_eq!(rest(&mut since(&db, 1)).len(), 8);
    assert_eq!(logs(&options, "/db/archive").len(), 4);
}

#[test]
fn an_archive_that_cannot_be_made_leaves_the_wal_where_it_is_and_is_tried_again() {
    let disk = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = archiving();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, "/db").unwrap();
    disk.add_rule(FaultRule::fail(&[OpKind::Rename]).on_name(".log").forever());
    for round in 0..3 {
        db.put(format!("{round}"), "value").unwrap();
        flush(&db);
    }
    assert_eq!((logs(&options, "/db").len(), logs(&options, "/db/archive").len()), (4, 0));
    assert_eq!(rest(&mut since(&db, 1)).len(), 3);
    disk.clear_rules();
    db.put("3", "value").unwrap();
    flush(&db);
    assert_eq!((logs(&options, "/db").len(), logs(&options, "/db/archive").len()), (1, 4));
    assert_eq!(rest(&mut since(&db, 1)).len(), 4);
}

#[test]
fn a_repaired_database_keeps_its_archive() {
    let options = archiving();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    flush(&db);
    db.put("b", "2").unwrap();
    drop(db);
    options.db.env.fs.delete_file(Path::new("/db/CURRENT")).unwrap();
    let families = [esker::ColumnFamilyDescriptor::new("default", options.cf.clone())];
    esker::repair_db(&options, "/db", &families).unwrap();
    assert_eq!(logs(&options, "/db/archive").len(), 1);
    let db = Db::open(&options, "/db").unwrap();
    let mut updates = since(&db, 1);
    assert_eq!(updates.next().map(|update| super::text(update.unwrap())).unwrap(), "1: a0");
    // The repair has converted the other WAL into a table, and moved the WAL to `lost`.
    assert!(error_after(&mut updates, 0).contains("Gap in sequence numbers: no WAL has 2 "));
}

#[test]
fn a_database_without_an_archive_makes_none() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    flush(&db);
    assert!(!options.db.env.fs.file_exists(Path::new("/db/archive")).unwrap());
}
