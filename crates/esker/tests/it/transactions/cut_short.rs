//! Prepared transactions over crashes in the middle of recoveries: from an error of the disk, and of an opening.
//!
//! Steps of a transaction take no sequence numbers of their own, so that numbers alone do not tell whether one is missing.

use super::options;
use esker::internals::env::fault::OpKind;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::{
    Env, Options, Transaction, TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use std::sync::{Arc, Mutex};

fn on(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = options();
    options.db.env = Env::with_fs(fs);
    options
}

fn open(fs: Arc<dyn FileSystem>) -> TransactionDb {
    TransactionDb::open(&on(fs), &TransactionDbOptions::default(), "/db").unwrap()
}

/// A transaction that has put `key` and is prepared.
fn prepared(db: &TransactionDb, name: &str, key: &str, sync: bool) -> Transaction {
    let mut txn = db.begin_transaction(&WriteOptions::default().sync(sync), &TransactionOptions::default());
    txn.set_name(name.as_bytes()).unwrap();
    txn.put(key, name).unwrap();
    txn.prepare().unwrap();
    txn
}

/// What a crash before each operation would leave while `work` goes on.
fn crashes(fs: &FaultFs, disk: &CrashFs, choices: CrashChoices, work: impl FnOnce()) -> Vec<CrashFs> {
    let (left, copied) = (Arc::new(Mutex::new(Vec::new())), disk.clone());
    let caught = left.clone();
    fs.on_op(move |op| {
        if !matches!(op.kind, OpKind::Read | OpKind::Stat | OpKind::List) {
            caught.lock().unwrap().push(copied.crash_clone(&choices));
        }
    });
    work();
    fs.clear_hook();
    let left = std::mem::take(&mut *left.lock().unwrap());
    assert!(left.len() > 3, "{} operations", left.len());
    left
}

/// The WAL that replaces one that has failed begins with sections, numbered behind what the write that failed would have been.
#[test]
fn an_opening_that_is_cut_short_behind_a_failed_write_may_be_begun_again() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let db = open(Arc::new(fs.clone()));
    drop(prepared(&db, "one", "a", true));
    fs.add_rule(FaultRule::short_write(None).on_name(".log"));
    assert!(db.put("b", "1").is_err());
    fs.clear_rules();
    let while_resuming = crashes(&fs, &disk, CrashChoices::process_kill(), || db.db().resume().unwrap());
    for left in while_resuming.into_iter().chain([disk.crash_clone(&CrashChoices::process_kill())]) {
        let fs = FaultFs::new(Arc::new(left.clone()));
        let kill = CrashChoices::process_kill();
        let while_opening = crashes(&fs, &left, kill, || drop(open(Arc::new(fs.clone()))));
        for left in while_opening {
            let db = open(Arc::new(left));
            assert_eq!(db.db().get("a").unwrap(), None);
            db.get_transaction_by_name(b"one").unwrap().commit().unwrap();
            assert_eq!(db.db().get("a").unwrap().unwrap(), b"one");
        }
    }
}
