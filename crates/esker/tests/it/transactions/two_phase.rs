//! Prepared transactions: their survival, and the time for which their WALs stay.

use super::options;
use esker::internals::env::fault::OpKind;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::txn::TransactionState;
use esker::{
    Db, Env, ErrorKind, FlushOptions, OpenMode, Options, Transaction, TransactionDb, TransactionDbOptions,
    TransactionOptions, WriteOptions,
};
use std::path::Path;
use std::sync::Arc;

fn open(options: &Options) -> TransactionDb {
    TransactionDb::open(options, &TransactionDbOptions::default(), "/db").unwrap()
}

fn on(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = options();
    options.db.env = Env::with_fs(fs);
    options
}

fn begin(db: &TransactionDb) -> Transaction {
    let options = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
    db.begin_transaction_opt(&WriteOptions::default(), &options)
}

/// A transaction that has put `key` and is prepared.
fn prepared(db: &TransactionDb, name: &str, key: &str) -> Transaction {
    let txn = begin(db);
    txn.set_name(name.as_bytes()).unwrap();
    txn.put(key, name).unwrap();
    txn.prepare().unwrap();
    txn
}

fn wals(options: &Options) -> usize {
    let names = options.db.env.fs.children(Path::new("/db")).unwrap();
    names.iter().filter(|name| name.ends_with(".log")).count()
}

#[test]
fn a_prepared_transaction_outlives_closing_and_keeps_its_locks() {
    let options = options();
    let db = open(&options);
    let txn = prepared(&db, "one", "a");
    assert_eq!(txn.state(), TransactionState::Prepared);
    assert_eq!(txn.prepare().unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(txn.get("a").unwrap().unwrap(), b"one");
    assert_eq!(db.db().get("a").unwrap(), None);
    drop(prepared(&db, "two", "b"));
    assert!(db.get_transaction_by_name(b"one").is_none(), "the transaction has an owner already");
    drop((txn, db));
    for _ in 0..2 {
        let db = open(&options);
        assert_eq!(db.db().get("a").unwrap(), None);
        assert_eq!(begin(&db).put("a", "2").unwrap_err().kind(), ErrorKind::TimedOut);
        db.put("c", "1").unwrap();
        db.db().flush().unwrap();
    }
    let db = open(&options);
    let all = db.get_all_prepared_transactions();
    assert_eq!(all.iter().filter_map(Transaction::name).collect::<Vec<_>>(), [b"one", b"two"]);
    assert!(db.get_all_prepared_transactions().is_empty(), "the test holds all prepared transactions");
    assert_eq!(all[0].get("a").unwrap().unwrap(), b"one");
    all[0].commit().unwrap();
    all[1].rollback().unwrap();
    assert_eq!(all[1].state(), TransactionState::RolledBack);
    assert_eq!(db.get_lock_status_data(), []);
    drop((all, db));
    let db = open(&options);
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"one");
    assert_eq!(db.db().get("b").unwrap(), None);
    assert!(db.get_all_prepared_transactions().is_empty());
}

#[test]
fn names_are_unique_while_they_are_in_use() {
    let db = open(&options());
    let txn = begin(&db);
    assert_eq!(txn.prepare().unwrap_err().kind(), ErrorKind::InvalidArgument);
    for bad in [&b""[..], &[b'x'; 513]] {
        assert_eq!(txn.set_name(bad).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    txn.set_name(&[b'x'; 512]).unwrap();
    assert_eq!(txn.set_name(b"other").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(begin(&db).set_name(&[b'x'; 512]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    txn.prepare().unwrap();
    drop(txn);
    assert_eq!(begin(&db).set_name(&[b'x'; 512]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.get_transaction_by_name(&[b'x'; 512]).unwrap().commit().unwrap();
    begin(&db).set_name(&[b'x'; 512]).unwrap();
    begin(&db).set_name(&[b'x'; 512]).unwrap();
}

#[test]
fn without_allow_2pc_a_wal_with_a_prepared_transaction_is_refused() {
    let mut options = options();
    drop(prepared(&open(&options), "one", "a"));
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let family = esker::ColumnFamilyDescriptor::new("default", options.cf.clone());
        let error = Db::open_with(&options.db, "/db", vec![family], mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    }
    options.db.allow_2pc = true;
    let db = Db::open_for_read_only(&options, "/db").unwrap();
    assert_eq!(db.get("a").unwrap(), None);
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    db.put("b", "1").unwrap();
    db.flush().unwrap();
    drop(db);
    let db = open(&options);
    db.get_transaction_by_name(b"one").unwrap().commit().unwrap();
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"one");
}

/// No family needs the WAL with the section.
#[test]
fn a_prepared_transaction_in_an_old_wal_is_not_lost() {
    let options = options();
    let db = open(&options);
    drop(prepared(&db, "one", "a"));
    for i in 0..3 {
        db.put("b", i.to_string()).unwrap();
        db.db().flush().unwrap();
    }
    drop(db);
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let family = esker::ColumnFamilyDescriptor::new("default", options.cf.clone());
        let error = Db::open_with(&options.db, "/db", vec![family], mode).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    }
    let db = open(&options);
    db.get_transaction_by_name(b"one").unwrap().commit().unwrap();
    drop(db);
    let error = Db::open(&options, "/db").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "that WAL has committed operations, too: {error}");
    // Resolved transactions whose writes are in tables do not prevent opening.
    drop(open(&options));
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"one");
}

/// The WAL of the section is recycled, and the WAL of the commit is deleted.
#[test]
fn a_section_committed_into_a_dropped_family_is_not_prepared_again() {
    let mut options = options();
    options.db.recycle_log_file_num = 1;
    let db = open(&options);
    let other = db.create_column_family("f", &options.cf).unwrap();
    let one = begin(&db);
    one.set_name(b"one").unwrap();
    one.put("a", "one").unwrap();
    one.put_cf(&other, "a", "one").unwrap();
    one.prepare().unwrap();
    let in_both = || {
        db.put("b", "1").unwrap();
        db.put_cf(&other, "b", "1").unwrap();
        let default = db.db().default_column_family();
        db.db().flush_opt(&FlushOptions::default(), &[&default, &other]).unwrap();
    };
    in_both();
    in_both();
    one.commit().unwrap();
    db.put("b", "2").unwrap();
    db.db().flush().unwrap();
    db.put("a", "later").unwrap();
    db.drop_column_family(&other).unwrap();
    drop((one, other, db));
    let db = open(&options);
    assert!(db.get_all_prepared_transactions().is_empty());
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"later");
}

/// The WAL of the section is gone. The WAL of the commit stays, because another family needs it.
#[test]
fn the_commit_of_what_is_in_tables_needs_no_allow_2pc() {
    let disk = CrashFs::new();
    let options = on(Arc::new(disk.clone()));
    let db = open(&options);
    let other = db.create_column_family("f", &options.cf).unwrap();
    let one = prepared(&db, "one", "a");
    db.put("b", "1").unwrap();
    db.db().flush().unwrap();
    one.commit().unwrap();
    db.put_cf(&other, "x", "1").unwrap();
    let default = db.db().default_column_family();
    db.db().flush_opt(&FlushOptions::default(), &[&default]).unwrap();
    db.db().wait_for_background_work().unwrap();
    let crashed = on(Arc::new(disk.crash_clone(&CrashChoices::process_kill())));
    assert_eq!(wals(&crashed), 2, "the WAL of the commit and the new one are left");
    let families = || ["default", "f"].map(|name| (name, crashed.cf.clone()));
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite, OpenMode::ReadWrite] {
        let db = Db::open_with(&crashed.db, "/db", families(), mode).unwrap();
        assert_eq!(db.get("a").unwrap().unwrap(), b"one");
        assert_eq!(db.get_cf(&db.column_family("f").unwrap(), "x").unwrap().unwrap(), b"1");
    }
}

#[test]
fn the_wal_of_a_section_stays_until_what_was_committed_is_in_tables() {
    let disk = CrashFs::new();
    let options = on(Arc::new(disk.clone()));
    let db = open(&options);
    let other = db.create_column_family("f", &options.cf).unwrap();
    let one = prepared(&db, "one", "a");
    // Only the section needs its WAL.
    for i in 0..3 {
        db.put("b", i.to_string()).unwrap();
        db.db().flush().unwrap();
    }
    assert_eq!(wals(&options), 4);
    one.commit().unwrap();
    // Only the other family is flushed.
    db.put_cf(&other, "x", "1").unwrap();
    db.db().flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    let crashed = on(Arc::new(disk.crash_clone(&CrashChoices::process_kill())));
    db.db().flush().unwrap();
    db.db().wait_for_background_work().unwrap();
    assert_eq!(wals(&options), 1);
    drop((one, other, db));
    for options in [options, crashed] {
        let mut db_options = options.db.clone();
        db_options.create_missing_column_families = true;
        let families = ["default", "f"].map(|f| esker::ColumnFamilyDescriptor::new(f, options.cf.clone()));
        let txn_options = TransactionDbOptions::default();
        let db = TransactionDb::open_cf(&db_options, &txn_options, "/db", families).unwrap();
        assert_eq!(db.db().get("a").unwrap().unwrap(), b"one");
        assert!(db.get_all_prepared_transactions().is_empty());
    }
}

/// Waiting writers share a record. Here it holds a write and a rollback, whose section is in a WAL
/// that is gone. It must not be taken for a rollback of another policy, whose ops take no numbers.
#[test]
#[expect(clippy::disallowed_methods, reason = "nobody tells that somebody is in line")]
fn writes_around_a_rollback_are_there_after_a_crash() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let options = on(Arc::new(fs.clone()));
    let db = open(&options);
    let other = db.create_column_family("f", &options.cf).unwrap();
    let mut one = prepared(&db, "one", "a");
    db.put("x", "1").unwrap();
    db.db().flush().unwrap();
    // Holds the next append until the other writers are queued behind it.
    let gate = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
    let (held, waits) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), gate.clone());
    let first = held.clone();
    fs.on_op(move |op| {
        if op.kind == OpKind::Append
            && op.path.extension().is_some_and(|e| e == "log")
            && !first.swap(true, std::sync::atomic::Ordering::SeqCst)
        {
            let mut open = waits.0.lock().unwrap();
            while !*open {
                open = waits.1.wait(open).unwrap();
            }
        }
    });
    std::thread::scope(|scope| {
        let line = |write: Box<dyn FnOnce() + Send>| {
            scope.spawn(write);
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        let (put, write) = (db.clone(), db.clone());
        line(Box::new(move || put.put("b", "first").unwrap()));
        while !held.load(std::sync::atomic::Ordering::SeqCst) {
            std::thread::yield_now();
        }
        line(Box::new(move || write.put("c", "second").unwrap()));
        let one = &mut one;
        line(Box::new(move || one.rollback().unwrap()));
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
    });
    fs.clear_hook();
    db.put("d", "third").unwrap();
    db.put("e", "last").unwrap();
    // The section's WAL is deleted once the MANIFEST says that it is not needed.
    let before = wals(&options);
    db.put_cf(&other, "x", "1").unwrap();
    db.db().flush_opt(&FlushOptions::default(), &[&other]).unwrap();
    while wals(&options) > before {
        std::thread::yield_now();
    }
    let crashed = on(Arc::new(disk.crash_clone(&CrashChoices::process_kill())));
    let families = ["default", "f"].map(|f| esker::ColumnFamilyDescriptor::new(f, crashed.cf.clone()));
    let txn_options = TransactionDbOptions::default();
    let db = TransactionDb::open_cf(&crashed.db, &txn_options, "/db", families).unwrap();
    let found = ["a", "b", "c", "d", "e"].map(|key| db.db().get(key).unwrap());
    let expected = [None, Some("first"), Some("second"), Some("third"), Some("last")];
    assert_eq!(found, expected.map(|value| value.map(|v| v.as_bytes().to_vec())));
}

/// Only the section shows how many numbers the commit took, and its WAL is gone. So the first
/// number of the next WAL is accepted as it is.
#[test]
fn a_wal_may_end_in_the_commit_of_a_section_that_is_in_tables() {
    let disk = CrashFs::new();
    let options = on(Arc::new(disk.clone()));
    let db = open(&options);
    let one = prepared(&db, "one", "a");
    db.put("x", "1").unwrap();
    db.db().flush().unwrap();
    let two = prepared(&db, "two", "b");
    db.put("x", "2").unwrap();
    one.commit().unwrap();
    // The next WAL begins before this one is synced, and records that.
    db.db().pause_background_work();
    db.db()
        .flush_opt(
            &FlushOptions { wait: false, ..FlushOptions::default() },
            &[&db.db().default_column_family()],
        )
        .unwrap();
    db.put("x", "3").unwrap();
    db.db().continue_background_work().unwrap();
    db.db().wait_for_background_work().unwrap();
    // The first transaction's section is gone, its commit follows the other's, and a further WAL
    // follows.
    assert_eq!(wals(&options), 2);
    let crashed = on(Arc::new(disk.crash_clone(&CrashChoices::process_kill())));
    drop((one, two, db));
    let db = open(&crashed);
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"one");
    assert_eq!(db.db().get("x").unwrap().unwrap(), b"3");
    db.get_transaction_by_name(b"two").unwrap().commit().unwrap();
    assert_eq!(db.db().get("b").unwrap().unwrap(), b"two");
}

/// The MANIFEST names the oldest WAL that sections may need; that WAL may be gone after they were
/// resolved.
#[test]
fn a_wal_may_follow_one_that_only_a_resolved_section_needed() {
    let disk = CrashFs::new();
    let options = on(Arc::new(disk.clone()));
    let db = open(&options);
    let one = prepared(&db, "one", "a");
    db.put("x", "1").unwrap();
    // The next WAL begins before this one is synced, and records that.
    db.db().pause_background_work();
    let family = db.db().default_column_family();
    db.db().flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }, &[&family]).unwrap();
    db.put("x", "2").unwrap();
    db.db().continue_background_work().unwrap();
    db.db().wait_for_background_work().unwrap();
    assert_eq!(wals(&options), 2);
    one.rollback().unwrap();
    let crashed = on(Arc::new(disk.crash_clone(&CrashChoices::process_kill())));
    drop((one, db));
    let dir = std::path::Path::new("/db");
    let mut logs = crashed.db.env.fs.children(dir).unwrap();
    logs.retain(|name| name.ends_with(".log"));
    logs.sort();
    crashed.db.env.fs.delete_file(&dir.join(&logs[0])).unwrap();
    let db = open(&crashed);
    assert_eq!(db.db().get("x").unwrap().unwrap(), b"2");
    assert!(db.get_all_prepared_transactions().is_empty());
}

#[test]
fn sections_survive_a_failed_wal_and_resume() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let db = open(&on(Arc::new(fs.clone())));
    let one = prepared(&db, "one", "a");
    let two = prepared(&db, "two", "b");
    fs.add_rule(FaultRule::short_write(None).on_name(".log"));
    assert!(db.put("c", "1").is_err());
    fs.clear_rules();
    db.db().resume().unwrap();
    two.commit().unwrap();
    let crashed = disk.crash_clone(&CrashChoices::process_kill());
    one.commit().unwrap();
    let again = open(&on(Arc::new(crashed)));
    assert_eq!(again.db().get("b").unwrap().unwrap(), b"two");
    assert_eq!(again.db().get("a").unwrap(), None);
    again.get_transaction_by_name(b"one").unwrap().commit().unwrap();
    assert_eq!(again.db().get("a").unwrap().unwrap(), b"one");
}

/// The known fate of a transaction of the test below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Prepared,
    Committed,
    RolledBack,
}

#[test]
fn after_any_crash_each_transaction_is_prepared_or_over_and_whole() {
    esker_testkit::seed::for_each_seed("two_phase_crashes", 60, |seed, mut rng| {
        let disk = CrashFs::new();
        let mut options = on(Arc::new(disk.clone()));
        options.cf.write_buffer_size = 64 << 10;
        let db = open(&options);
        let sync = WriteOptions::default().sync(true);
        let mut fates: Vec<Fate> = Vec::new();
        let mut open_ones: Vec<(usize, Transaction)> = Vec::new();
        for _ in 0..rng.usize(5..40) {
            match rng.u8(..6) {
                0 | 1 => {
                    let n = fates.len();
                    let txn = db.begin_transaction_opt(&sync, &TransactionOptions::default());
                    txn.set_name(format!("t{n}").as_bytes()).unwrap();
                    for half in ["x", "y"] {
                        txn.put(format!("{half}{n}"), format!("{n}")).unwrap();
                    }
                    txn.prepare().unwrap();
                    fates.push(Fate::Prepared);
                    open_ones.push((n, txn));
                }
                2 if !open_ones.is_empty() => {
                    let (n, txn) = open_ones.swap_remove(rng.usize(..open_ones.len()));
                    txn.commit().unwrap();
                    fates[n] = Fate::Committed;
                }
                3 if !open_ones.is_empty() => {
                    let (n, txn) = open_ones.swap_remove(rng.usize(..open_ones.len()));
                    txn.rollback().unwrap();
                    fates[n] = Fate::RolledBack;
                }
                4 => db.db().flush().unwrap(),
                _ => {
                    let plain = db.db().default_column_family();
                    db.put_cf(&plain, "filler", vec![b'f'; 20_000]).unwrap();
                }
            }
        }
        // All steps of transactions were synced.
        let crashed = disk.crash_clone(&CrashChoices::random(seed));
        let again = open(&on(Arc::new(crashed)));
        for (n, fate) in fates.iter().enumerate() {
            let found = ["x", "y"].map(|half| again.db().get(format!("{half}{n}")).unwrap());
            let expected = (*fate == Fate::Committed).then(|| n.to_string().into_bytes());
            assert_eq!(found, [expected.clone(), expected], "{n} {fate:?}");
            let txn = again.get_transaction_by_name(format!("t{n}").as_bytes());
            assert_eq!(txn.is_some(), *fate == Fate::Prepared, "{n}");
            if let Some(txn) = txn {
                txn.commit().unwrap();
                assert!(again.db().get(format!("y{n}")).unwrap().is_some());
            }
        }
    });
}

#[test]
fn attempts_behind_a_damaged_wal_do_not_pile_up_wals_beside_prepared_transactions() {
    let tables = || FaultRule::fail(&[OpKind::Create]).on_name(".sst").retryable(true);
    let syncs = || FaultRule::fail(&[OpKind::Sync]).on_name(".log").retryable(true);
    // The damaged WAL, the WAL with prepared sections, and an empty one if the flush got so far.
    for (rules, most) in [(vec![syncs(), tables().forever()], 3), (vec![syncs().forever()], 2)] {
        let disk = CrashFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let mut options = on(Arc::new(fs.clone()));
        options.db.max_bgerror_resume_count = 0;
        let db = open(&options);
        let sync = WriteOptions::default().sync(true);
        db.db().put_opt(&sync, &db.db().default_column_family(), "a", "1").unwrap();
        let txn = prepared(&db, "one", "b");
        db.db().sync_wal().unwrap();
        rules.into_iter().for_each(|rule| fs.add_rule(rule));
        db.db().put_opt(&sync, &db.db().default_column_family(), "c", "1").unwrap_err();
        for _ in 0..5 {
            db.db().resume().unwrap_err();
            assert!(wals(&options) <= most);
        }
        let crashed = disk.crash_clone(&CrashChoices::lose_unsynced());
        fs.clear_rules();
        db.db().resume().unwrap();
        db.db().put_opt(&sync, &db.db().default_column_family(), "d", "1").unwrap();
        let later = disk.crash_clone(&CrashChoices::lose_unsynced());
        drop((txn, db));
        for (fs, expected) in [(crashed, [true, true, false, false]), (later, [true, true, false, true])] {
            let db = open(&on(Arc::new(fs)));
            db.get_transaction_by_name(b"one").unwrap().commit().unwrap();
            assert_eq!(["a", "b", "c", "d"].map(|key| db.db().get(key).unwrap().is_some()), expected);
        }
    }
}

/// The state after `prepare`, a deletion of a key and a write to another. For each end of the
/// transaction, the contents that a later opening finds.
#[test]
fn writes_after_prepare_are_locked_read_committed_and_recovered() {
    let options = options();
    let db = open(&options);
    db.put("kept", "old").unwrap();
    let txn = prepared(&db, "one", "a");
    txn.set_save_point();
    txn.delete("a").unwrap();
    txn.put("b", "late").unwrap();
    assert_eq!(txn.get("a").unwrap(), None);
    assert_eq!(txn.get("b").unwrap().unwrap(), b"late");
    assert_eq!(db.get("b").unwrap(), None);
    assert_eq!(begin(&db).put("b", "2").unwrap_err().kind(), ErrorKind::TimedOut);
    let refused = txn.rollback_to_save_point().unwrap_err();
    assert_eq!(refused.to_string(), "Invalid argument: Transaction is beyond state for rollback.");
    let before = db.db().latest_sequence_number();
    txn.commit().unwrap();
    assert_eq!(db.db().latest_sequence_number().0, before.0 + 3, "each operation takes a number");
    db.put("after", "1").unwrap();
    assert_eq!(db.get("a").unwrap(), None);
    drop((txn, db));
    let db = open(&options);
    assert_eq!(db.get("a").unwrap(), None, "the deletion is newer than the prepared write");
    assert_eq!(db.get("b").unwrap().unwrap(), b"late");
    assert_eq!(db.get("after").unwrap().unwrap(), b"1");
    let txn = prepared(&db, "two", "c");
    txn.put("kept", "new").unwrap();
    txn.rollback().unwrap();
    assert_eq!(db.get("kept").unwrap().unwrap(), b"old");
    assert_eq!(db.get_lock_status_data(), []);
}

#[test]
fn a_crash_before_the_commit_leaves_the_section_as_it_was_prepared() {
    let options = options();
    let db = open(&options);
    let txn = prepared(&db, "one", "a");
    txn.put("b", "late").unwrap();
    drop(txn);
    assert_eq!(db.get_transaction_by_name(b"one").unwrap().get("b").unwrap().unwrap(), b"late");
    drop(db);
    let db = open(&options);
    let txn = db.get_transaction_by_name(b"one").unwrap();
    assert_eq!(txn.get("b").unwrap(), None);
    txn.put("c", "later still").unwrap();
    txn.commit().unwrap();
    drop((txn, db));
    let db = open(&options);
    let values = [b"a", b"b", b"c"].map(|key| db.get(key).unwrap().is_some());
    assert_eq!(values, [true, false, true]);
}

/// RocksDB's second queue is for WAL-only writes. One queue keeps the promises of both: committed
/// transactions are whole, and those prepared before a synced commit are there after a crash.
#[test]
fn two_write_queues_keeps_prepared_and_committed_transactions_whole() {
    let disk = CrashFs::new();
    let mut options = on(Arc::new(disk.clone()));
    options.db.two_write_queues = true;
    options.db.manual_wal_flush = true;
    let db = open(&options);
    let synced = WriteOptions::new().sync(true);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, synced) = (&db, &synced);
            scope.spawn(move || {
                for round in 0..10 {
                    let key = format!("{thread}-{round}");
                    let txn = db.begin_transaction_opt(synced, &TransactionOptions::default());
                    txn.set_name(key.as_bytes()).unwrap();
                    txn.put(format!("a{key}"), &key).unwrap();
                    txn.put(format!("b{key}"), &key).unwrap();
                    txn.prepare().unwrap();
                    db.put(format!("plain{key}"), &key).unwrap();
                    if round % 3 < 2 {
                        txn.commit().unwrap();
                    }
                }
            });
        }
    });
    let last = db.db().latest_sequence_number();
    db.db().sync_wal().unwrap();
    let after = disk.crash_clone(&CrashChoices::lose_unsynced());
    drop(db);
    let mut options = options.clone();
    options.db.env = Env::with_fs(Arc::new(after));
    let db = open(&options);
    assert_eq!(db.db().latest_sequence_number(), last);
    for thread in 0..4 {
        for round in 0..10 {
            let key = format!("{thread}-{round}");
            let expected = (round % 3 < 2).then(|| key.clone().into_bytes());
            for part in ["a", "b"] {
                assert_eq!(db.db().get(format!("{part}{key}")).unwrap(), expected, "{part}{key}");
            }
            assert_eq!(db.db().get(format!("plain{key}")).unwrap(), Some(key.clone().into_bytes()));
            assert_eq!(db.get_transaction_by_name(key.as_bytes()).is_some(), expected.is_none(), "{key}");
        }
    }
}

#[test]
fn a_key_in_a_range_of_a_recovered_transaction_stays_locked_though_its_get_for_update_is_undone() {
    let options = options();
    let db = open(&options);
    let txn = begin(&db);
    txn.set_name(b"one").unwrap();
    txn.delete_range_cf(&db.default_column_family(), "a", "z").unwrap();
    txn.prepare().unwrap();
    drop((txn, db));
    let db = open(&options);
    let found = db.get_transaction_by_name(b"one").unwrap();
    found.get_for_update("m").unwrap();
    found.undo_get_for_update(&db.default_column_family(), "m");
    assert_eq!(begin(&db).get_for_update("m").unwrap_err().kind(), ErrorKind::TimedOut);
    found.commit().unwrap();
    begin(&db).get_for_update("m").unwrap();
}
