//! `WriteBatch::mark_wal_termination_point`: batches that are logged in part.

use esker::internals::env::mem::MemFs;
use esker::txn::WritePolicy;
use esker::{
    Db, Env, ErrorKind, Options, TransactionDb, TransactionDbOptions, WriteBatch, WriteOptions, builtin,
};
use esker_testkit::seed;
use std::collections::BTreeMap;
use std::sync::Arc;

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(fs.clone());
    options.db.avoid_flush_during_shutdown = true;
    options.cf.merge_operator = Some(builtin::string_append(","));
    options
}

type Model = BTreeMap<String, String>;

fn contents(db: &Db) -> Model {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    db.iter().unwrap().into_iter().map(|entry| entry.map(|(k, v)| (text(&k), text(&v))).unwrap()).collect()
}

#[test]
fn a_reopen_has_the_logged_parts_and_the_flushed_rest() {
    seed::for_each_seed("logged_in_part", 12, |number, mut rng| {
        let fs = Arc::new(MemFs::new());
        let options = options(&fs);
        let mut db = Db::open(&options, "/db").unwrap();
        // The entries that reads see, and those that a reopen finds.
        let (mut seen, mut logged) = (Model::new(), Model::new());
        for _ in 0..60 {
            match rng.u32(..12) {
                0 => {
                    db.flush().unwrap();
                    logged = seen.clone();
                    continue;
                }
                1 => {
                    db.close().unwrap();
                    db = Db::open(&options, "/db").unwrap();
                    seen = logged.clone();
                    assert_eq!(contents(&db), seen);
                    continue;
                }
                _ => {}
            }
            let mut batch =
                if number % 2 == 0 { WriteBatch::new() } else { WriteBatch::with_protection(8).unwrap() };
            let (ops, end) = (rng.usize(..5), rng.usize(..6));
            for at in 0..=ops {
                if at == end {
                    batch.mark_wal_termination_point();
                }
                // A key is either logged or not: merges of both kinds would have two histories.
                let key = format!("{}{}", if at < end { "logged" } else { "rest" }, rng.u32(..9));
                let value = rng.u32(..1000).to_string();
                batch.put(&key, &value).unwrap();
                if at < end {
                    logged.insert(key.clone(), value.clone());
                }
                seen.insert(key, value);
            }
            let sync = rng.bool();
            db.write_opt(&WriteOptions::new().sync(sync), &batch).unwrap();
            assert_eq!(contents(&db), seen);
        }
    });
}

#[test]
fn a_batch_without_a_log_ignores_its_point_and_a_recycled_log_refuses_it() {
    let fs = Arc::new(MemFs::new());
    let mut batch = WriteBatch::new();
    batch.put("a", "1").unwrap();
    batch.mark_wal_termination_point();
    batch.put("b", "2").unwrap();
    let db = Db::open(&options(&fs), "/db").unwrap();
    db.write_opt(&WriteOptions::new().disable_wal(true), &batch).unwrap();
    assert_eq!(contents(&db).len(), 2);
    db.close().unwrap();
    let mut recycled = options(&fs);
    recycled.db.recycle_log_file_num = 2;
    let db = Db::open(&recycled, "/db").unwrap();
    assert_eq!(contents(&db).len(), 0, "nothing was logged");
    assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(contents(&db).len(), 0);
}

#[test]
fn a_transaction_database_logs_the_part_or_refuses_the_batch() {
    for (write_policy, is_taken) in [(WritePolicy::WriteCommitted, true), (WritePolicy::WritePrepared, false)]
    {
        let fs = Arc::new(MemFs::new());
        let txn_options = TransactionDbOptions { write_policy, ..TransactionDbOptions::default() };
        let open = || TransactionDb::open(&options(&fs), &txn_options, "/db").unwrap();
        let db = open();
        let mut batch = WriteBatch::new();
        batch.put("a", "1").unwrap();
        batch.mark_wal_termination_point();
        batch.put("b", "2").unwrap();
        assert_eq!(db.write(&batch).is_ok(), is_taken);
        assert_eq!(contents(db.db()).len(), if is_taken { 2 } else { 0 });
        drop(db);
        let left = contents(open().db());
        assert_eq!(left.contains_key("a"), is_taken);
        assert!(!left.contains_key("b"));
    }
}
