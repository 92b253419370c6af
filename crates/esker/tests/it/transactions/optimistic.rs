//! Transactions that check at commit.

use super::options;
use esker::options::WriteBufferManager;
use esker::{
    ErrorKind, FlushOptions, IsolationLevel, OptimisticTransaction, OptimisticTransactionDb,
    OptimisticTransactionOptions, ReadOptions, SstFileWriter, WriteOptions,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

fn open() -> OptimisticTransactionDb {
    OptimisticTransactionDb::open(&options(), "/db").unwrap()
}

fn begin(db: &OptimisticTransactionDb) -> OptimisticTransaction {
    db.begin_transaction()
}

fn kind<T: std::fmt::Debug>(result: esker::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_transaction_commits_if_no_other_writer_changed_its_keys() {
    let db = open();
    let family = db.db().default_column_family();
    db.db().put("a", "0").unwrap();
    let txn = begin(&db);
    txn.put("a", "1").unwrap();
    txn.merge_cf(&family, "a", "2").unwrap();
    txn.delete("b").unwrap();
    txn.single_delete_cf(&family, "c").unwrap();
    db.db().put("d", "others").unwrap();
    assert_eq!(txn.get("a").unwrap().unwrap(), b"1,2");
    let many = txn.multi_get(&ReadOptions::default(), &family, &["a", "d"]);
    assert_eq!(many[1].as_ref().unwrap().as_deref(), Some(&b"others"[..]));
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"0");
    txn.commit().unwrap();
    assert_eq!(db.db().get("a").unwrap().unwrap(), b"1,2");
    assert_eq!(kind(txn.commit()), ErrorKind::InvalidArgument);
    assert_eq!(kind(txn.put("a", "3")), ErrorKind::InvalidArgument);
    assert_eq!(kind(txn.rollback()), ErrorKind::InvalidArgument);
}

#[test]
fn every_kind_of_write_by_others_is_a_conflict() {
    let db = open();
    let family = db.db().default_column_family();
    let others: [fn(&OptimisticTransactionDb); 5] = [
        |db| db.db().put("k", "1").unwrap(),
        |db| db.db().delete("k").unwrap(),
        |db| db.db().merge("k", "1").unwrap(),
        |db| db.db().single_delete("k").unwrap(),
        |db| db.db().delete_range("j", "l").unwrap(),
    ];
    for other in others {
        let writer = begin(&db);
        writer.put("k", "2").unwrap();
        let reader = begin(&db);
        reader.get_for_update("k").unwrap();
        let reader_of_many = begin(&db);
        let values = reader_of_many.multi_get_for_update(&ReadOptions::default(), &family, &["a", "k"]);
        assert!(values.into_iter().all(|value| value.is_ok()));
        let remover = begin(&db);
        remover.delete_range_cf(&family, "a", "k").unwrap();
        let untracked = begin(&db);
        untracked.put_untracked(&family, "k", "3").unwrap();
        other(&db);
        let conflict = writer.commit().unwrap_err();
        assert!(conflict.kind() == ErrorKind::Busy && conflict.is_retryable(), "{conflict}");
        assert_eq!(kind(reader.commit()), ErrorKind::Busy);
        assert_eq!(kind(reader_of_many.commit()), ErrorKind::Busy);
        assert_eq!(kind(remover.commit()), ErrorKind::Busy);
        untracked.commit().unwrap();
        // The transaction may start anew.
        writer.rollback().unwrap();
        writer.put("k", "2").unwrap();
        writer.commit().unwrap();
    }
    let txn = begin(&db);
    assert_eq!(kind(txn.delete_range_cf(&family, "b", "a")), ErrorKind::InvalidArgument);
}

#[test]
fn with_a_snapshot_what_was_written_since_it_is_a_conflict() {
    let db = open();
    let txn = begin(&db);
    txn.set_snapshot();
    db.db().put("a", "1").unwrap();
    txn.put("a", "2").unwrap();
    assert_eq!(kind(txn.commit()), ErrorKind::Busy);
    let txn = begin(&db);
    txn.set_snapshot_on_next_operation();
    db.db().put("a", "1").unwrap();
    txn.put("b", "2").unwrap();
    assert!(txn.snapshot().is_some());
    txn.clear_snapshot();
    txn.commit().unwrap();
}

#[test]
fn flushed_memtables_are_kept_to_check_for_conflicts_and_what_is_gone_is_try_again() {
    for (maintain, known) in [(0, true), (1, false)] {
        let mut options = options();
        options.cf.max_write_buffer_size_to_maintain = maintain;
        let db = OptimisticTransactionDb::open(&options, "/db").unwrap();
        let writer = begin(&db);
        writer.put("a", "1").unwrap();
        let reader = begin(&db);
        reader.get_for_update("b").unwrap();
        let family = db.db().default_column_family();
        let remover = begin(&db);
        remover.delete_range_cf(&family, "x", "y").unwrap();
        db.db().put("a", "others").unwrap();
        db.db().flush().unwrap();
        let expected = |result: esker::Result<()>, conflict: bool| match (known, conflict) {
            (true, false) => result.unwrap(),
            (true, true) => assert_eq!(kind(result), ErrorKind::Busy),
            (false, _) => assert_eq!(kind(result), ErrorKind::TryAgain),
        };
        expected(reader.commit(), false);
        expected(writer.commit(), true);
        expected(remover.commit(), false);
        // Reads do not use history memtables.
        db.db().delete("a").unwrap();
        db.db().flush().unwrap();
        assert_eq!(db.db().get("a").unwrap(), None);
        assert!(!db.db().iter().unwrap().valid());
    }
}

#[test]
fn keys_rolled_back_to_a_save_point_cause_no_conflict() {
    let db = open();
    let txn = begin(&db);
    txn.put("a", "1").unwrap();
    txn.set_save_point();
    txn.put("b", "1").unwrap();
    txn.rollback_to_save_point().unwrap();
    assert_eq!(kind(txn.rollback_to_save_point()), ErrorKind::NotFound);
    txn.set_save_point();
    txn.pop_save_point().unwrap();
    assert_eq!(kind(txn.pop_save_point()), ErrorKind::NotFound);
    db.db().put("b", "2").unwrap();
    txn.commit().unwrap();
    assert_eq!(db.db().get("b").unwrap().unwrap(), b"2");
}

#[test]
fn a_serializable_transaction_that_changes_its_snapshot_has_not_read_one_state() {
    let changes: [fn(&OptimisticTransaction); 4] = [
        OptimisticTransaction::set_snapshot,
        OptimisticTransaction::clear_snapshot,
        OptimisticTransaction::set_snapshot_on_next_operation,
        |txn| {
            txn.set_snapshot();
            txn.set_save_point();
            txn.set_snapshot();
            txn.rollback_to_save_point().unwrap();
        },
    ];
    for (i, change) in changes.into_iter().enumerate() {
        for others_write in [true, false] {
            let db = open();
            db.db().put("a", "0").unwrap();
            let options = OptimisticTransactionOptions {
                isolation: IsolationLevel::Serializable,
                ..Default::default()
            };
            let txn = db.begin_transaction_opt(&WriteOptions::default(), &options);
            assert_eq!(txn.get("a").unwrap().unwrap(), b"0");
            if others_write {
                db.db().put("a", "1").unwrap();
                db.db().put("b", "1").unwrap();
            }
            change(&txn);
            assert_eq!(txn.get("b").unwrap().is_some(), others_write, "{i}");
            assert_eq!(txn.commit().is_err(), others_write, "{i}");
        }
    }
}

#[test]
fn save_points_know_what_was_touched_before_them() {
    esker_testkit::seed::for_each_seed("save_points", 200, |seed, mut rng| {
        let db = open();
        let txn = begin(&db);
        let (mut touched, mut points) = (BTreeSet::new(), Vec::new());
        for _ in 0..rng.u8(..30) {
            let key = rng.u8(..8);
            match rng.u8(..6) {
                0 => {
                    txn.set_save_point();
                    points.push(touched.clone());
                }
                1 => match points.pop() {
                    Some(before) => {
                        touched = before;
                        txn.rollback_to_save_point().unwrap();
                    }
                    None => assert_eq!(kind(txn.rollback_to_save_point()), ErrorKind::NotFound),
                },
                2 => assert_eq!(txn.pop_save_point().is_ok(), points.pop().is_some()),
                3 => {
                    touched.insert(key);
                    txn.get_for_update(key.to_string()).unwrap();
                }
                _ => {
                    touched.insert(key);
                    txn.put(key.to_string(), "mine").unwrap();
                }
            }
        }
        let key = rng.u8(..8);
        db.db().put(key.to_string(), "others").unwrap();
        assert_eq!(txn.commit().is_err(), touched.contains(&key), "seed {seed}");
    });
}

#[test]
fn counters_that_are_read_and_written_by_many_threads_lose_nothing() {
    let db = open();
    db.db().put("n", "0").unwrap();
    const THREADS: u64 = 4;
    const EACH: u64 = 50;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    loop {
                        let txn = begin(&db);
                        let n: u64 = String::from_utf8(txn.get_for_update("n").unwrap().unwrap())
                            .unwrap()
                            .parse()
                            .unwrap();
                        txn.put("n", (n + 1).to_string()).unwrap();
                        match txn.commit() {
                            Ok(()) => break,
                            Err(e) => assert_eq!(e.kind(), ErrorKind::Busy),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(db.db().get("n").unwrap().unwrap(), (THREADS * EACH).to_string().into_bytes());
}

/// Memtables have no record of the ingested file.
#[test]
fn whether_an_ingested_file_is_in_the_way_cannot_be_said() {
    let options = options();
    let db = OptimisticTransactionDb::open(&options, "/db").unwrap();
    let family = db.db().default_column_family();
    db.db().put("a", "0").unwrap();
    let writer = begin(&db);
    writer.put("k", "mine").unwrap();
    let remover = begin(&db);
    remover.delete_range_cf(&family, "j", "l").unwrap();
    let untouched = begin(&db);
    untouched.put_untracked(&family, "b", "1").unwrap();
    let mut file = SstFileWriter::new(&options);
    file.open("/file").unwrap();
    file.put("k", "ingested").unwrap();
    file.finish().unwrap();
    db.db().ingest_external_file(&["/file"]).unwrap();
    assert_eq!(kind(writer.commit()), ErrorKind::TryAgain);
    assert_eq!(kind(remover.commit()), ErrorKind::TryAgain);
    untouched.commit().unwrap();
    assert_eq!(db.db().get("k").unwrap().unwrap(), b"ingested");
    writer.rollback().unwrap();
    writer.put("k", "mine").unwrap();
    writer.commit().unwrap();
    assert_eq!(db.db().get("k").unwrap().unwrap(), b"mine");
}

#[test]
fn history_of_an_idle_database_goes_when_another_one_needs_the_memory() {
    let bound = 4 << 20;
    let manager = Arc::new(WriteBufferManager::new(bound, false));
    let mut options = options();
    options.db.write_buffer_manager = Some(manager.clone());
    let kept = |db: &OptimisticTransactionDb| {
        db.db().int_property("rocksdb.num-immutable-mem-table-flushed").unwrap()
    };
    let idle = OptimisticTransactionDb::open(&options, "/idle").unwrap();
    for round in 0..3 {
        for i in 0..1000 {
            idle.db().put(format!("{round}{i:06}"), [b'x'; 800]).unwrap();
        }
        idle.db().flush().unwrap();
    }
    assert_eq!(kept(&idle), 3);
    let busy = OptimisticTransactionDb::open(&options, "/busy").unwrap();
    for i in 0..4000 {
        busy.db().put(format!("{i:06}"), [b'x'; 800]).unwrap();
    }
    assert_eq!(kept(&idle), 0, "{} bytes of {bound}", manager.memory_usage());
    // Only transactions that began before memtables were released need those memtables.
    let txn = idle.begin_transaction();
    txn.put("key", "value").unwrap();
    txn.commit().unwrap();
    idle.db().close().unwrap();
    drop(idle);
    busy.db().flush().unwrap();
    busy.db().put("last", "value").unwrap();
}

#[test]
fn history_goes_before_writers_wait_for_memory() {
    for may_stall in [false, true] {
        let bound = 1 << 20;
        let manager = Arc::new(WriteBufferManager::new(bound, may_stall));
        let mut options = options();
        options.db.write_buffer_manager = Some(manager.clone());
        let db = OptimisticTransactionDb::open(&options, "/db").unwrap();
        let other = db.db().create_column_family("other", &options.cf).unwrap();
        let mut most = 0;
        for i in 0..20_000 {
            db.db().put(format!("{i:06}"), [b'x'; 500]).unwrap();
            if i % 10 == 0 {
                db.db().put_cf(&other, format!("{i:06}"), [b'x'; 500]).unwrap();
            }
            most = most.max(manager.memory_usage());
        }
        // The bound covers full memtables and the active ones. While flushes are behind, only
        // writers that may wait keep to it.
        db.db().flush().unwrap();
        let most = if may_stall { most } else { manager.memory_usage() };
        assert!(most <= 2 * bound, "{most} bytes of memtables under a bound of {bound}");
        db.db().put("last", "value").unwrap();
        db.db().flush().unwrap();
        let kept = db.db().int_property("rocksdb.num-immutable-mem-table-flushed");
        assert!(kept > Some(0), "a memtable within the bound is kept");
        db.db().close().unwrap();
    }
}

#[test]
fn a_rolled_back_transaction_keeps_no_file_of_a_family_that_is_dropped() {
    let options = options();
    let db = OptimisticTransactionDb::open(&options, "/db").unwrap();
    let family = db.db().create_column_family("f", &options.cf).unwrap();
    db.put_cf(&family, "a", "1").unwrap();
    db.db().flush_opt(&FlushOptions::default(), &[&family]).unwrap();
    let txn = begin(&db);
    txn.get_for_update_opt(&ReadOptions::default(), &family, "a").unwrap();
    txn.rollback().unwrap();
    db.db().drop_column_family(&family).unwrap();
    drop(family);
    let names = || options.db.env.fs.children(Path::new("/db")).unwrap();
    // Reads let the files of earlier versions go.
    let is_gone = (0..100_000).any(|_| {
        db.get("b").unwrap();
        !names().iter().any(|name| name.ends_with(".sst"))
    });
    assert!(is_gone, "{:?}", names());
    txn.put("b", "1").unwrap();
    txn.commit().unwrap();
}
