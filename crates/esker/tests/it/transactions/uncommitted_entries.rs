//! Entries of transactions that are in memtables and tables before their commit: what reads beside
//! a commit see, and what a crash leaves.

use super::options;
use super::write_prepared::{Contents, begin, contents, open_as};
use esker::internals::base::probe::Probes;
use esker::internals::env::{CrashChoices, CrashFs};
use esker::txn::WritePolicy;
use esker::{
    ColumnFamilyDescriptor, Env, FlushOptions, Options, TransactionDb, TransactionDbOptions, WriteOptions,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn of<const N: usize>(pairs: [(&str, &str); N]) -> Contents {
    pairs.map(|(key, value)| (key.into(), value.into())).into()
}

fn on(fs: &CrashFs) -> Options {
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.disable_auto_compactions = true;
    options
}

/// A database whose transactions spill each write with the next one.
fn open_spilling(options: &Options) -> TransactionDb {
    let txn_options = TransactionDbOptions {
        write_policy: WritePolicy::WriteUnprepared,
        default_write_batch_flush_threshold: 1,
        ..TransactionDbOptions::default()
    };
    TransactionDb::open(options, &txn_options, "/db").unwrap()
}

#[test]
fn a_write_before_an_unflushed_section_of_a_flushed_transaction_survives_a_crash() {
    for (is_prepared, has_old) in [(false, false), (false, true), (true, false), (true, true)] {
        let fs = CrashFs::new();
        let db = open_spilling(&on(&fs));
        if has_old {
            db.put("k1", "old").unwrap();
        }
        let txn = begin(&db, "one");
        txn.put("k0", "t").unwrap();
        txn.put("k2", "t").unwrap();
        db.db().flush().unwrap();
        db.put("k1", "v").unwrap();
        txn.put("k1", "t").unwrap();
        txn.put("k3", "t").unwrap();
        if is_prepared {
            txn.prepare().unwrap();
        }
        let image = fs.crash_clone(&CrashChoices::process_kill());
        drop((txn, db));
        for policy in [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared, WritePolicy::WriteCommitted]
        {
            let db = open_as(&on(&image), policy);
            assert_eq!(contents(&db, None), of([("k1", "v")]), "{is_prepared} {has_old} {policy:?}");
        }
        let db = open_as(&on(&image), WritePolicy::WriteUnprepared);
        assert_eq!(db.get_transaction_by_name(b"one").is_some(), is_prepared);
    }
}

#[test]
fn the_next_opens_number_what_the_open_after_a_crash_has_restored() {
    for policies in [
        [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared],
        [WritePolicy::WriteCommitted, WritePolicy::WritePrepared],
        [WritePolicy::WriteUnprepared, WritePolicy::WriteCommitted],
    ] {
        let fs = CrashFs::new();
        let db = open_spilling(&on(&fs));
        (0..3).for_each(|i| db.put(format!("k{i}"), "old").unwrap());
        let names = ["two", "one"].map(|name| {
            let txn = begin(&db, name);
            let key = |i: usize| if name == "one" { format!("k{i}") } else { format!("x{i}") };
            (0..6).for_each(|i| txn.put(key(i), "uncommitted").unwrap());
            txn
        });
        db.db().flush().unwrap();
        let image = fs.crash_clone(&CrashChoices::process_kill());
        drop((names, db));
        let mut expected = of([("k0", "old"), ("k1", "old"), ("k2", "old")]);
        for i in 0..5 {
            let db = open_as(&on(&image), policies[i % 2]);
            assert_eq!(contents(&db, None), expected, "{policies:?}, open {i}");
            for key in ["k3", "k0"] {
                db.put(key, i.to_string()).unwrap();
                expected.insert(key.into(), i.to_string().into_bytes());
            }
        }
    }
}

/// The WAL of the section is deleted, and nothing else in the rollback's WAL shows the policy. The
/// next WAL says which number it continues with.
#[test]
fn writes_behind_the_rollback_of_a_transaction_without_ops_survive_an_open() {
    let fs = CrashFs::new();
    let names = ["default", "other", "third"];
    let open = || {
        let mut options = on(&fs);
        options.db.create_missing_column_families = true;
        let families = names.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let txn_options = TransactionDbOptions {
            write_policy: WritePolicy::WritePrepared,
            ..TransactionDbOptions::default()
        };
        TransactionDb::open_cf(&options.db, &txn_options, "/db", families).unwrap()
    };
    let db = open();
    let [other, third] = ["other", "third"].map(|name| db.db().column_family(name).unwrap());
    let begin_flush = |family| {
        let options = FlushOptions { wait: false, ..FlushOptions::default() };
        db.db().flush_opt(&options, &[family]).unwrap();
    };
    let put = |family| db.db().put_opt(&WriteOptions::default(), family, "k", "v").unwrap();
    let txn = begin(&db, "one");
    txn.prepare().unwrap();
    // Each flush begins a WAL at once, and syncs the older ones later.
    put(&third);
    begin_flush(&third);
    db.db().wait_for_background_work().unwrap();
    db.put("k1", "v").unwrap();
    put(&other);
    put(&third);
    db.db().pause_background_work();
    begin_flush(&third);
    txn.rollback().unwrap();
    begin_flush(&other);
    db.put("k2", "v").unwrap();
    db.db().continue_background_work().unwrap();
    db.db().wait_for_background_work().unwrap();
    drop((txn, other, third, db));
    assert_eq!(contents(&open(), None), of([("k1", "v"), ("k2", "v")]));
}

/// The second flush finds no entry: the commit is a marker in the WAL.
#[test]
fn a_flush_makes_the_commit_durable_of_what_a_table_has_already() {
    for manual_wal_flush in [false, true] {
        let fs = CrashFs::new();
        let mut options = on(&fs);
        options.db.manual_wal_flush = manual_wal_flush;
        let db = open_as(&options, WritePolicy::WritePrepared);
        let txn = begin(&db, "one");
        txn.put("k1", "t").unwrap();
        txn.prepare().unwrap();
        db.db().flush().unwrap();
        txn.commit().unwrap();
        db.db().flush().unwrap();
        let image = fs.crash_clone(&CrashChoices::lose_unsynced());
        drop((txn, db));
        let db = open_as(&on(&image), WritePolicy::WritePrepared);
        assert_eq!(contents(&db, None), of([("k1", "t")]), "manual_wal_flush {manual_wal_flush}");
        assert!(db.get_all_prepared_transactions().is_empty());
    }
}

#[test]
fn a_power_failure_leaves_an_unsynced_commit_whole_or_the_older_values() {
    for (flushes_behind, commits) in [(false, true), (true, true), (false, false), (true, false)] {
        let fs = CrashFs::new();
        let db = open_as(&on(&fs), WritePolicy::WritePrepared);
        db.put("k0", "old").unwrap();
        db.put("k1", "old").unwrap();
        let txn = begin(&db, "one");
        txn.put("k0", "new").unwrap();
        txn.put("k1", "new").unwrap();
        txn.prepare().unwrap();
        db.db().flush().unwrap();
        db.db().sync_wal().unwrap();
        if commits {
            txn.commit().unwrap()
        } else {
            txn.rollback().unwrap()
        }
        if flushes_behind {
            db.put("k2", "later").unwrap();
            db.db().flush().unwrap();
        }
        db.db().compact_range(None, None).unwrap();
        let image = fs.crash_clone(&CrashChoices::lose_unsynced());
        drop((txn, db));
        let mut expected = match commits {
            true => of([("k0", "new"), ("k1", "new")]),
            false => of([("k0", "old"), ("k1", "old")]),
        };
        if flushes_behind {
            expected.extend(of([("k2", "later")]));
        }
        let db = open_as(&on(&image), WritePolicy::WritePrepared);
        assert!(db.get_transaction_by_name(b"one").is_none(), "the compaction has seen its end");
        assert_eq!(contents(&db, None), expected, "{flushes_behind} {commits}");
    }
}

/// Gets `key` while, between its reads of the super version and of the sequence number, the
/// memtable is switched and `then` runs.
fn get_beside(db: &TransactionDb, key: &str, then: impl Fn() + Send + Sync + 'static) -> Option<Vec<u8>> {
    let probes = Probes::new();
    let (other, done) = (db.db().clone(), AtomicBool::new(false));
    probes.on_this_thread("read_point:super_version", move |_| {
        if !done.swap(true, Ordering::SeqCst) {
            other.flush().unwrap();
            then();
        }
    });
    let found = db.db().get(key).unwrap();
    drop(probes);
    found
}

#[test]
fn a_get_beside_a_rollback_does_not_see_what_was_rolled_back() {
    let db = open_as(&on(&CrashFs::new()), WritePolicy::WritePrepared);
    db.put("k0", "old").unwrap();
    let txn = begin(&db, "one");
    txn.put("k0", "new").unwrap();
    txn.prepare().unwrap();
    let txn = Mutex::new(txn);
    let found = get_beside(&db, "k0", move || txn.lock().unwrap().rollback().unwrap());
    assert_eq!(found.unwrap(), b"old");
}

#[test]
fn a_get_beside_a_commit_does_not_see_what_the_transaction_wrote_over() {
    let db = open_spilling(&on(&CrashFs::new()));
    db.put("k0", "old").unwrap();
    let txn = begin(&db, "one");
    txn.put("k0", "first").unwrap();
    txn.put("k1", "1").unwrap();
    let txn = Mutex::new(txn);
    let found = get_beside(&db, "k0", move || {
        let txn = txn.lock().unwrap();
        txn.put("k0", "second").unwrap();
        txn.put("k2", "1").unwrap();
        txn.commit().unwrap();
    });
    assert_eq!(found.unwrap(), b"second");
}
