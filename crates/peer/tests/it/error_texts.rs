//! Errors that programs recognise by their text: RocksDB's words come first.

use esker::options::CompressionType;
use esker::{Db, Options, TransactionDb, TransactionDbOptions};
use esker_peer::{FamilySpec, RocksDb, RocksTransactionDb, RocksWritePolicy, require};
use esker_testkit::TempDir;

fn options() -> Options {
    Options::new().create_if_missing(true)
}

fn rocksdb(dir: &TempDir, family: &str) -> Result<RocksDb, String> {
    RocksDb::open(dir.path(), "create_if_missing=true", &[FamilySpec::new("default", family)])
}

#[test]
fn another_comparator_is_refused_in_rocksdbs_words() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    let dir = TempDir::new("comparator");
    drop(rocksdb(&dir, "comparator=rocksdb.ReverseBytewiseComparator").unwrap());
    let theirs = rocksdb(&dir, "").unwrap_err();
    let ours = Db::open(&options(), dir.path()).unwrap_err().to_string();
    assert_eq!(ours, theirs);
}

#[test]
fn a_codec_that_is_not_there_is_refused_in_rocksdbs_words() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    let dir = TempDir::new("codec");
    let theirs = rocksdb(&dir, "compression=kXpressCompression").unwrap_err();
    let mut options = options();
    options.cf.compression = CompressionType::Xpress;
    let ours = Db::open(&options, dir.path()).unwrap_err().to_string();
    assert!(ours.starts_with(&theirs), "{ours}, RocksDB: {theirs}");
}

#[test]
fn a_lock_that_another_holds_is_refused_in_rocksdbs_words() {
    let Some(()) = require("RocksDB", RocksDb::available()) else { return };
    let (dir, other) = (TempDir::new("lock-theirs"), TempDir::new("lock-ours"));
    let db =
        RocksTransactionDb::open(dir.path(), "create_if_missing=true", RocksWritePolicy::Committed).unwrap();
    let (holder, waiter) = (db.begin_unnamed(), db.begin_unnamed());
    holder.put(b"k", b"v").unwrap();
    let theirs = waiter.put(b"k", b"v").unwrap_err();

    let db = TransactionDb::open(&options(), &TransactionDbOptions::default(), other.path()).unwrap();
    let (holder, waiter) = (db.begin_transaction(), db.begin_transaction());
    holder.put("k", "v").unwrap();
    let ours = waiter.put("k", "v").unwrap_err().to_string();
    assert_eq!(theirs, "Operation timed out: Timeout waiting to lock key");
    assert!(ours.starts_with(&theirs), "{ours}");
}
