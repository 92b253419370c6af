//! WALs and their archive as streams of changes: each engine reads those of the other.

use crate::peer_process::db_options;
use esker::{
    Db, DbOptions, Options, SequenceNumber, TransactionDb, TransactionDbOptions, WalReadOptions, WriteBatch,
};
use esker_peer::fixture::copy_files;
use esker_peer::{FamilySpec, PeerOp, RocksDb, RocksUpdates, WriteFlags, require};
use esker_testkit::TempDir;
use std::fs;
use std::path::Path;

const KEEP: &str = "WAL_ttl_seconds=1000000000";

type Batches = Vec<(u64, Vec<u8>)>;

fn is_there() -> bool {
    require("librocksdb 11.8", RocksDb::available()).is_some()
}

fn options() -> Options {
    Options { db: DbOptions { wal_ttl_seconds: 1_000_000_000, ..db_options() }, ..Options::default() }
}

fn copy(dir: &Path) -> TempDir {
    let copied = TempDir::new("updates-copy");
    copy_files(dir, copied.path());
    fs::create_dir_all(copied.join("archive")).expect("made");
    copy_files(&dir.join("archive"), &copied.join("archive"));
    copied
}

fn esker_updates(db: &Db, sequence: u64) -> Batches {
    let updates = db.get_updates_since(SequenceNumber(sequence), &WalReadOptions::default()).expect("there");
    let bytes = |(first, batch): (SequenceNumber, WriteBatch)| (first.0, batch.into_bytes());
    updates.map(|update| bytes(update.expect("whole"))).collect()
}

fn rocksdb_updates(db: &RocksDb, sequence: u64) -> Batches {
    let RocksUpdates { mut batches, status } = db.updates_since(sequence).expect("there");
    status.expect("whole");
    // Esker's statement about the WAL before, which has no operations.
    batches.retain(|(_, bytes)| bytes[8..12] != [0; 4]);
    batches
}

#[test]
fn rocksdb_reads_the_updates_in_eskers_wals_and_archive() {
    if !is_there() {
        return;
    }
    let dir = TempDir::new("updates-ours");
    let db = Db::open(&options(), dir.path()).expect("opens");
    for round in 0..4 {
        for i in 0..20 {
            let mut batch = WriteBatch::new();
            batch.put(format!("{round}-{i}"), vec![b'v'; i * 700]).expect("fits");
            batch.delete("gone").expect("fits");
            batch.put_log_data(b"note").expect("fits");
            db.write(&mut batch).expect("written");
        }
        if round < 3 {
            db.flush().expect("flushed");
            db.wait_for_background_work().expect("done");
        }
    }
    let ours = esker_updates(&db, 1);
    assert_eq!(ours.len(), 80);
    let copied = copy(dir.path());
    let rocksdb = RocksDb::open(copied.path(), KEEP, &[FamilySpec::new("default", "")]).expect("opens");
    assert_eq!(rocksdb_updates(&rocksdb, 0), ours);
    assert_eq!(rocksdb_updates(&rocksdb, 77), ours[38..]);
    // RocksDB continues after both.
    let put = PeerOp::Put { family: "default".to_owned(), key: b"more".to_vec(), value: b"value".to_vec() };
    rocksdb.write(&[put], WriteFlags::default()).expect("written");
    let theirs = rocksdb_updates(&rocksdb, 1);
    drop(rocksdb);
    let db = Db::open(&options(), copied.path()).expect("opens");
    assert_eq!(esker_updates(&db, 1), theirs);
}

/// RocksDB returns prepared operations before the commit, and then reports the commit as a gap.
#[test]
fn a_prepared_transaction_in_eskers_wal_is_a_gap_to_rocksdb_and_none_to_esker() {
    if !is_there() {
        return;
    }
    let dir = TempDir::new("updates-prepared");
    let db = TransactionDb::open(&options(), &TransactionDbOptions::default(), dir.path()).expect("opens");
    db.db().put("a", "1").expect("written");
    let txn = db.begin_transaction();
    txn.set_name(b"one").expect("free");
    txn.put("b", "2").expect("free");
    txn.put("c", "3").expect("free");
    txn.prepare().expect("prepared");
    txn.commit().expect("committed");
    db.db().put("d", "4").expect("written");
    db.db().flush().expect("flushed");
    db.db().wait_for_background_work().expect("done");
    db.db().put("e", "5").expect("written");
    let numbers = |batches: &Batches| batches.iter().map(|(first, _)| *first).collect::<Vec<_>>();
    assert_eq!(numbers(&esker_updates(db.db(), 1)), [1, 2, 4, 5]);
    let copied = copy(dir.path());
    let rocksdb = RocksDb::open(copied.path(), KEEP, &[FamilySpec::new("default", "")]).expect("opens");
    let RocksUpdates { batches, status } = rocksdb.updates_since(1).expect("there");
    assert_eq!(numbers(&batches), [1, 2]);
    assert!(status.expect_err("a gap").contains("Gap in sequence numbers"));
}

#[test]
fn esker_reads_the_updates_in_rocksdbs_wals_and_archive() {
    if !is_there() {
        return;
    }
    for more in ["", ";wal_compression=kZSTD", ";track_and_verify_wals=true"] {
        let dir = TempDir::new("updates-theirs");
        let db_options = format!("create_if_missing=true;{KEEP}{more}");
        let rocksdb =
            RocksDb::open(dir.path(), &db_options, &[FamilySpec::new("default", "")]).expect("opens");
        for round in 0..4 {
            for i in 0..20 {
                let key = format!("{round}-{i}").into_bytes();
                let ops = [
                    PeerOp::Put { family: "default".to_owned(), key, value: vec![b'v'; i * 3000] },
                    PeerOp::Delete { family: "default".to_owned(), key: b"gone".to_vec() },
                ];
                rocksdb.write(&ops, WriteFlags::default()).expect("written");
            }
            if round < 3 {
                rocksdb.flush("default").expect("flushed");
            }
        }
        let theirs = rocksdb_updates(&rocksdb, 1);
        assert_eq!(theirs.len(), 80, "{more}");
        let beside = copy(dir.path());
        drop(rocksdb);
        // As after a kill, and after a close.
        for dir in [beside.path(), dir.path()] {
            let db = Db::open(&options(), dir).expect("opens");
            assert_eq!(esker_updates(&db, 1), theirs, "{more}");
            assert_eq!(esker_updates(&db, 30), theirs[14..], "{more}");
            assert!(db.sorted_wal_files().expect("listed").len() >= 4);
        }
    }
}
