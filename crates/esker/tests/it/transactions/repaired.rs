//! Repairs of databases whose transactions are in memtables before their commit.

use super::options;
use super::write_prepared::{begin, open_as};
use super::write_unprepared::Folding;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::txn::WritePolicy;
use esker::{Env, Options, RepairSummary, TransactionDb, TransactionDbOptions, WriteBatch, repair_db};
use std::sync::Arc;

fn on(fs: &CrashFs) -> Options {
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.disable_auto_compactions = true;
    options
}

/// A database whose transactions spill each write before the next one.
fn open_spilling(options: &Options) -> TransactionDb {
    let txn_options = TransactionDbOptions {
        write_policy: WritePolicy::WriteUnprepared,
        default_write_batch_flush_threshold: 1,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open(options, &txn_options, "/db").unwrap()
}

/// Repairs the database as a crash of the process leaves it.
fn repaired(fs: &CrashFs, mut options: Options) -> (RepairSummary, TransactionDb) {
    options.db.env = Env::with_fs(Arc::new(fs.crash_clone(&CrashChoices::process_kill())));
    let summary = repair_db(&options, "/db", &[]).unwrap();
    (summary, open_as(&options, WritePolicy::WriteCommitted))
}

#[test]
fn a_repair_gives_different_numbers_to_keys_that_the_comparator_takes_for_equal() {
    let fs = CrashFs::new();
    let mut options = on(&fs);
    options.cf.comparator = Arc::new(Folding);
    let db = open_as(&options, WritePolicy::WritePrepared);
    let mut batch = WriteBatch::new();
    batch.put("k1", "1").unwrap();
    batch.put("K1", "2").unwrap();
    db.db().write(&mut batch).unwrap();
    let txn = begin(&db, "one");
    txn.put("k2", "1").unwrap();
    txn.put("K2", "2").unwrap();
    txn.prepare().unwrap();
    txn.commit().unwrap();
    db.put("k3", "behind").unwrap();
    let (summary, db) = repaired(&fs, options);
    assert_eq!(summary.wals_damaged, []);
    let value = |key| db.get(key).unwrap().unwrap();
    assert_eq!([value("k1"), value("k2"), value("k3")], [&b"2"[..], b"2", b"behind"]);
}

/// The repair's memtable is full before the WAL shows the transaction's end. The memtable then has
/// operations of the transaction, and newer writes of others.
#[test]
fn a_repair_keeps_writes_that_are_newer_than_ops_of_a_transaction_that_ends_later() {
    for commits in [true, false] {
        let fs = CrashFs::new();
        let db = open_spilling(&on(&fs));
        let txn = begin(&db, "one");
        txn.put("k2", "own").unwrap();
        txn.set_save_point();
        txn.put("k1", "taken back").unwrap();
        txn.put("k3", "spills k1").unwrap();
        txn.rollback_to_save_point().unwrap();
        db.put("k1", "new").unwrap();
        (0..230).for_each(|i| db.put(format!("bulk{i}"), [b'x'; 1024]).unwrap());
        if commits {
            txn.commit().unwrap()
        } else {
            txn.rollback().unwrap()
        }
        let mut options = on(&fs);
        options.cf.write_buffer_size = 64 << 10;
        let (_, db) = repaired(&fs, options);
        assert_eq!(db.get("k1").unwrap().unwrap(), b"new", "{commits}");
        assert_eq!(db.get("k2").unwrap().is_some(), commits);
    }
}
