//! Two-phase transactions in the stream of changes.

use super::{archiving, flush, options, rest, since};
use esker::{Db, Options, Transaction, TransactionDb, TransactionDbOptions};

fn open(options: &Options) -> TransactionDb {
    TransactionDb::open(options, &TransactionDbOptions::default(), "/db").unwrap()
}

fn prepared(db: &TransactionDb, name: &str, keys: &[&str]) -> Transaction {
    let txn = db.begin_transaction();
    txn.set_name(name.as_bytes()).unwrap();
    keys.iter().for_each(|key| txn.put(key, name).unwrap());
    txn.prepare().unwrap();
    txn
}

#[test]
fn a_prepared_transaction_comes_with_its_commit_and_not_if_it_is_rolled_back() {
    let db = open(&archiving());
    let one = prepared(&db, "one", &["a", "b"]);
    let two = prepared(&db, "two", &["c"]);
    let mut updates = since(db.db(), 0);
    assert!(updates.next().is_none());
    db.db().put("d", "plain").unwrap();
    flush(db.db());
    one.commit().unwrap();
    two.rollback().unwrap();
    db.db().put("e", "plain").unwrap();
    let all = ["1: d0", "2: a0 b0", "4: e0"];
    assert_eq!(rest(&mut updates), all);
    assert_eq!(rest(&mut since(db.db(), 1)), all);
    // The section is in an earlier WAL than the sequence number.
    for sequence in [2, 3] {
        assert_eq!(rest(&mut since(db.db(), sequence)), all[1..]);
    }
}

#[test]
fn a_transaction_that_a_reopening_has_copied_comes_once() {
    for options in [archiving(), options()] {
        let db = open(&options);
        db.db().put("a", "plain").unwrap();
        drop(prepared(&db, "one", &["b", "c"]));
        drop(db);
        let db = open(&options);
        db.db().put("d", "plain").unwrap();
        let txn = db.get_transaction_by_name(b"one").unwrap();
        txn.commit().unwrap();
        db.db().put("e", "plain").unwrap();
        assert_eq!(rest(&mut since(db.db(), 2)), ["2: d0", "3: b0 c0", "5: e0"]);
        if options.db.wal_ttl_seconds > 0 {
            assert_eq!(rest(&mut since(db.db(), 1)).len(), 4);
        }
        flush(db.db());
    }
}

#[test]
fn a_commit_whose_section_is_gone_is_a_gap() {
    let options = archiving();
    let db = open(&options);
    let txn = prepared(&db, "one", &["a"]);
    db.db().put("b", "plain").unwrap();
    flush(db.db());
    txn.commit().unwrap();
    db.db().put("c", "plain").unwrap();
    flush(db.db());
    db.db().put("d", "plain").unwrap();
    let oldest = db.db().sorted_wal_files().unwrap().remove(0);
    drop((txn, db));
    options.db.env.fs.delete_file(std::path::Path::new(&format!("/db{}", oldest.path_name))).unwrap();
    let db = open(&options);
    let updates: Result<Vec<_>, _> = since(db.db(), 2).collect();
    let error = updates.unwrap_err();
    assert!(error.message().contains("Gap in sequence numbers: no WAL has the prepared transaction 'one'"));
    assert_eq!(rest(&mut since(db.db(), 3)), ["3: c0", "4: d0"]);
}

#[test]
fn transactions_of_one_phase_come_as_they_are() {
    let db = open(&options());
    let txn = db.begin_transaction();
    txn.put("a", "1").unwrap();
    txn.delete("b").unwrap();
    txn.commit().unwrap();
    let plain: &Db = db.db();
    assert_eq!(rest(&mut since(plain, 1)), ["1: a0 -b0"]);
}
