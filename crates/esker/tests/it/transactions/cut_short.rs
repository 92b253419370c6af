//! Prepared transactions after crashes in the middle of a recovery from a disk error or of an
//! opening.
//!
//! Steps of a transaction take no sequence numbers of their own, so sequence numbers alone do not
//! show whether a step is missing.

use super::options;
use esker::internals::env::crash::{CrashKind, Keep, Tail};
use esker::internals::env::fault::OpKind;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::{
    Env, FlushOptions, Options, Transaction, TransactionDb, TransactionDbOptions, TransactionOptions,
    WriteOptions,
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
    let txn = db.begin_transaction_opt(&WriteOptions::default().sync(sync), &TransactionOptions::default());
    txn.set_name(name.as_bytes()).unwrap();
    txn.put(key, name).unwrap();
    txn.prepare().unwrap();
    txn
}

/// The disks after a crash before each operation of `work`.
pub(super) fn crashes(
    fs: &FaultFs,
    disk: &CrashFs,
    choices: CrashChoices,
    work: impl FnOnce(),
) -> Vec<CrashFs> {
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

/// A WAL that replaces a failed one begins with copies of sections, numbered after the failed
/// write.
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

/// An opening writes prepared sections to its own WAL, durably. Earlier writes are in a WAL that
/// was not synced.
#[test]
fn no_prepared_transaction_is_ahead_of_earlier_writes_when_an_opening_is_cut_short() {
    for avoid_flush in [false, true] {
        let disk = CrashFs::new();
        let db = open(Arc::new(disk.clone()));
        db.put("b", "1").unwrap();
        drop((prepared(&db, "one", "a", false), db));
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let mut options = on(Arc::new(fs.clone()));
        options.db.avoid_flush_during_recovery = avoid_flush;
        let reopen = || drop(TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap());
        let all = crashes(&fs, &disk, CrashChoices::lose_unsynced(), reopen);
        let mut found = (0, 0);
        for left in all {
            let db = open(Arc::new(left));
            let is_written = db.db().get("b").unwrap().is_some();
            let is_prepared = db.get_transaction_by_name(b"one").is_some();
            assert!(is_written || !is_prepared, "avoid_flush_during_recovery {avoid_flush}");
            found = (found.0 + u32::from(is_prepared), found.1 + u32::from(!is_prepared));
        }
        assert!(found.0 > 0 && found.1 > 0, "{found:?}");
    }
}

/// The sections of a failed WAL are copied durably before tables get its other entries.
#[test]
fn no_prepared_transaction_is_ahead_of_earlier_writes_while_a_failed_wal_is_replaced() {
    for choices in [CrashChoices::lose_unsynced(), CrashChoices::keep_flushed()] {
        let disk = CrashFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(Arc::new(fs.clone()));
        drop(prepared(&db, "first", "a", true));
        db.put("b", "1").unwrap();
        let second = prepared(&db, "second", "c", false);
        fs.add_rule(FaultRule::short_write(None).on_name(".log"));
        assert!(db.put("d", "1").is_err());
        fs.clear_rules();
        let all = crashes(&fs, &disk, choices, || db.db().resume().unwrap());
        drop((second, db));
        for left in all {
            let db = open(Arc::new(left));
            assert!(db.get_transaction_by_name(b"first").is_some());
            if db.get_transaction_by_name(b"second").is_some() {
                assert_eq!(db.db().get("b").unwrap().as_deref(), Some(&b"1"[..]));
            }
        }
    }
}

/// The failed WAL has the whole commit, which was refused: so the section is copied.
#[test]
fn no_transaction_is_both_committed_and_prepared_while_a_failed_wal_is_replaced() {
    for choices in [CrashChoices::process_kill(), CrashChoices::keep_flushed()] {
        let disk = CrashFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(Arc::new(fs.clone()));
        let one = prepared(&db, "one", "a", true);
        fs.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name(".log"));
        assert!(one.commit().is_err());
        fs.clear_rules();
        let all = crashes(&fs, &disk, choices, || db.db().resume().unwrap());
        drop((one, db));
        for left in all {
            let db = open(Arc::new(left));
            let is_committed = db.db().get("a").unwrap().is_some();
            assert_ne!(is_committed, db.get_transaction_by_name(b"one").is_some());
        }
    }
}

/// A crash loses the end of a full WAL, cut behind a record, but not the next WAL.
#[test]
fn no_later_write_is_there_without_the_step_that_ended_the_wal_before() {
    let cut = |seed| CrashChoices {
        kind: CrashKind::PowerLoss,
        keep_names: Keep::Everything,
        keep_data: Keep::Some,
        tear: seed % 2 == 0,
        tail: Tail::Cut,
        ..CrashChoices::random(seed)
    };
    let mut lost = 0;
    for (rolls_back, seed) in (0..400).map(|n| (n % 2 == 0, n / 2)) {
        let disk = CrashFs::new();
        let db = open(Arc::new(disk.clone()));
        let one = prepared(&db, "one", "a", true);
        db.put("x", "1").unwrap();
        let two = if rolls_back {
            one.rollback().unwrap();
            None
        } else {
            Some(prepared(&db, "two", "b", false))
        };
        db.db().pause_background_work();
        let family = db.db().default_column_family();
        db.db().flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }, &[&family]).unwrap();
        db.put("x", "2").unwrap();
        let left = disk.crash_clone(&cut(seed));
        db.db().continue_background_work().unwrap();
        drop((one, two, db));
        let db = open(Arc::new(left));
        let is_later = db.db().get("x").unwrap().as_deref() == Some(b"2");
        let is_done = match rolls_back {
            true => db.get_transaction_by_name(b"one").is_none(),
            false => db.get_transaction_by_name(b"two").is_some(),
        };
        assert!(is_done || !is_later, "seed {seed}, rolls back {rolls_back}");
        lost += u32::from(!is_done);
    }
    assert!(lost > 20, "{lost}");
}

/// The section's WAL would be deleted with the family; the rollback is in the current WAL, which
/// was not synced.
#[test]
fn a_transaction_is_not_rolled_back_before_what_was_written_before_that() {
    for commits in [false, true] {
        let disk = CrashFs::new();
        let options = on(Arc::new(disk.clone()));
        let db = open(Arc::new(disk.clone()));
        let other = db.create_column_family("other", &options.cf).unwrap();
        let one =
            db.begin_transaction_opt(&WriteOptions::default().sync(true), &TransactionOptions::default());
        one.set_name(b"one").unwrap();
        if commits {
            one.put_cf(&other, "a", "one").unwrap();
        }
        one.prepare().unwrap();
        db.put("x", "1").unwrap();
        db.db().flush().unwrap();
        db.put("x", "2").unwrap();
        one.set_write_options(&WriteOptions::default());
        if commits {
            one.commit().unwrap()
        } else {
            one.rollback().unwrap()
        }
        db.drop_column_family(&other).unwrap();
        db.db().wait_for_background_work().unwrap();
        let left = disk.crash_clone(&CrashChoices::lose_unsynced());
        drop((one, other, db));
        let db = open(Arc::new(left));
        let is_resolved = db.get_transaction_by_name(b"one").is_none();
        let is_later = db.db().get("x").unwrap().as_deref() == Some(b"2");
        assert!(is_later || !is_resolved, "commits {commits}");
    }
}
