//! A handle belongs to one open database: calls of another database refuse it, even if that
//! database has a family with the same id.

use esker::internals::env::{FileSystem, MemFs};
use esker::internals::internal_iterator;
use esker::txn::LockMode;
use esker::{
    ColumnFamilyHandle, CompactRangeOptions, Db, Env, ErrorKind, FlushOptions, MultiGetOutput,
    OptimisticTransactionDb, Options, ReadOptions, TransactionDb, TransactionDbOptions, WriteOptions,
};
use std::fmt::Debug;
use std::sync::Arc;

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()) as Arc<dyn FileSystem>);
    options.db.create_if_missing = true;
    options
}

fn open() -> Db {
    Db::open(&options(&MemFs::new()), "/db").unwrap()
}

#[track_caller]
fn refused<T: Debug>(result: esker::Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("'default' is one of another database"), "{error}");
}

#[test]
fn no_call_takes_a_family_of_another_database() {
    let (db, other) = (open(), open());
    other.put("a", "of the other").unwrap();
    let foreign = other.default_column_family();
    let (read, write) = (ReadOptions::default(), WriteOptions::default());
    refused(db.get_cf(&foreign, "a"));
    refused(db.get_entity(&read, &foreign, "a"));
    refused(db.iter_cf(&foreign).map(|_| ()));
    refused(internal_iterator(&db, &foreign).map(|_| ()));
    refused(db.explain_get(&read, &foreign, "a").map(|_| ()));
    db.multi_get_opt(&read, &foreign, &["a", "b"]).into_iter().for_each(refused);
    let own = db.default_column_family();
    let both: [(&ColumnFamilyHandle, &[u8]); 2] = [(&own, b"a"), (&foreign, b"a")];
    db.multi_get_cf(&read, &both).into_iter().for_each(refused);
    let mut output = MultiGetOutput::new();
    db.multi_get_lent(&read, &foreign, &["a"; 40], &mut output);
    output.iter().for_each(refused);
    refused(db.put_cf(&foreign, "a", "here"));
    refused(db.put_entity(&write, &foreign, "a", &[]));
    refused(db.delete_cf(&foreign, "a"));
    refused(db.delete_range_opt(&write, &foreign, "a", "b"));
    refused(db.flush_opt(&FlushOptions::default(), &[&foreign]));
    refused(db.compact_range_opt(&CompactRangeOptions::default(), &foreign, None, None));
    refused(db.set_options(&foreign, &[("write_buffer_size", "1048576")]));
    refused(db.drop_column_family(&foreign));
    assert_eq!(db.get("a").unwrap(), None);
    assert_eq!(other.get("a").unwrap().as_deref(), Some(&b"of the other"[..]));
}

#[test]
fn a_handle_does_not_outlive_its_opening() {
    let fs = MemFs::new();
    let db = Db::open(&options(&fs), "/db").unwrap();
    let old = db.default_column_family();
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options(&fs), "/db").unwrap();
    refused(db.put_cf(&old, "a", "1"));
    refused(db.get_cf(&old, "a"));
}

#[test]
fn transactions_refuse_families_of_other_databases() {
    let read = ReadOptions::default();
    let open =
        || TransactionDb::open(&options(&MemFs::new()), &TransactionDbOptions::default(), "/db").unwrap();
    let (db, other) = (open(), open());
    let foreign = other.db().default_column_family();
    let txn = db.begin_transaction();
    refused(txn.put_cf(&foreign, "a", "1"));
    refused(txn.get_for_update_opt(&read, &foreign, "a", LockMode::Exclusive, true));
    refused(txn.get_opt(&read, &foreign, "a"));
    refused(db.put_cf(&foreign, "a", "1"));
    let open = || OptimisticTransactionDb::open(&options(&MemFs::new()), "/db").unwrap();
    let (db, other) = (open(), open());
    let foreign = other.db().default_column_family();
    let txn = db.begin_transaction();
    refused(txn.put_cf(&foreign, "a", "1"));
    refused(txn.get_for_update_opt(&read, &foreign, "a"));
    refused(txn.get_opt(&read, &foreign, "a"));
}
