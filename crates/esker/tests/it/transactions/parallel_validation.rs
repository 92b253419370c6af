//! Optimistic transactions that are checked in parallel: of two with the same key, one commits.

use super::options;
use esker::comparator::{Comparator, ReverseBytewiseComparator};
use esker::txn::{OccLockBuckets, OccValidationPolicy, OptimisticTransactionDbOptions};
use esker::{
    ColumnFamilyOptions, ErrorKind, IsolationLevel, OptimisticTransactionDb, OptimisticTransactionOptions,
    Options, WriteBatch, WriteOptions,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: usize = 20;

fn parallel(buckets: u32) -> OptimisticTransactionDbOptions {
    OptimisticTransactionDbOptions::default()
        .validate_policy(OccValidationPolicy::ValidateParallel)
        .shared_lock_buckets(OccLockBuckets::new(buckets).unwrap())
}

fn open(options: &Options, buckets: u32) -> OptimisticTransactionDb {
    OptimisticTransactionDb::open_opt(options, &parallel(buckets), "/db").unwrap()
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Adds 1 to each of the keys. Returns whether the transaction committed.
fn increments(db: &OptimisticTransactionDb, keys: [&str; 2]) -> bool {
    let txn = db.begin_transaction();
    for key in keys {
        let before = number(txn.get_for_update(key).unwrap());
        thread::yield_now();
        txn.put(key, (before + 1).to_le_bytes()).unwrap();
    }
    match txn.commit() {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Busy);
            false
        }
    }
}

#[test]
fn of_transactions_with_the_same_keys_on_twenty_threads_no_increment_is_lost() {
    for buckets in [1, 2, 1 << 16] {
        let mut options = options();
        options.cf.merge_operator = Some(esker::builtin::uint64_add());
        let db = open(&options, buckets);
        let family = db.db().default_column_family();
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for i in 0..THREADS {
                let (db, family, a, b) = (&db, &family, &a, &b);
                scope.spawn(move || {
                    for n in 0..60 {
                        // Writes of the handle count as writes of others.
                        match (i + n) % 10 {
                            0 => {
                                db.merge("a", 1_u64.to_le_bytes()).unwrap();
                                a.fetch_add(1, Ordering::Relaxed);
                            }
                            1 => {
                                let mut batch = WriteBatch::new();
                                batch.merge_cf(family, "b", 1_u64.to_le_bytes()).unwrap();
                                match n % 2 {
                                    0 => db.write(batch).unwrap(),
                                    _ => db.write_opt(&WriteOptions::default(), batch).unwrap(),
                                }
                                b.fetch_add(1, Ordering::Relaxed);
                            }
                            2 => {
                                let txn = db.begin_transaction();
                                txn.merge_untracked(family, "a", 1_u64.to_le_bytes()).unwrap();
                                txn.commit().unwrap();
                                a.fetch_add(1, Ordering::Relaxed);
                            }
                            _ => {
                                let order = if n % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
                                let done = u64::from(increments(db, order));
                                a.fetch_add(done, Ordering::Relaxed);
                                b.fetch_add(done, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(number(db.get("a").unwrap()), a.into_inner(), "{buckets} buckets");
        assert_eq!(number(db.get("b").unwrap()), b.into_inner(), "{buckets} buckets");
    }
}

#[test]
fn transactions_that_read_ranges_exclude_all_others() {
    const SEATS: usize = 10;
    let db = open(&options(), 1 << 10);
    let family = db.db().default_column_family();
    let strict = OptimisticTransactionOptions::default().isolation(IsolationLevel::Serializable);
    thread::scope(|scope| {
        for i in 0..THREADS {
            let (db, family, strict) = (&db, &family, &strict);
            scope.spawn(move || {
                for n in 0..10 {
                    let txn = db.begin_transaction_opt(&WriteOptions::default(), strict);
                    if txn.prefix_cf(family, "seat/").count() < SEATS {
                        txn.put(format!("seat/{i}/{n}"), "taken").unwrap();
                    }
                    drop(txn.commit());
                    // A transaction with other keys runs at the same time.
                    increments(db, ["x", "y"]);
                }
            });
        }
    });
    assert_eq!(db.db().prefix_cf(&family, "seat/").count(), SEATS);
}

/// Keys that differ by case are equal.
#[derive(Debug)]
struct WithoutCase;

impl Comparator for WithoutCase {
    fn name(&self) -> &str {
        "test.WithoutCase"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

#[test]
fn keys_that_a_comparator_takes_for_equal_exclude_each_other() {
    let db = open(&options(), 1 << 16);
    let families = db
        .create_column_families([
            ("reverse", ColumnFamilyOptions::new().comparator(Arc::new(ReverseBytewiseComparator))),
            ("caseless", ColumnFamilyOptions::new().comparator(Arc::new(WithoutCase))),
        ])
        .unwrap();
    for family in &families {
        let done = AtomicU64::new(0);
        let keys = if family.name() == "caseless" { ["key", "KEY"] } else { ["key", "key"] };
        thread::scope(|scope| {
            for i in 0..THREADS {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let txn = db.begin_transaction();
                        let read = Default::default();
                        let before = number(txn.get_for_update_opt(&read, family, keys[i % 2]).unwrap());
                        txn.put_cf(family, keys[i % 2], (before + 1).to_le_bytes()).unwrap();
                        done.fetch_add(u64::from(txn.commit().is_ok()), Ordering::Relaxed);
                    }
                });
            }
        });
        let counted = db.db().get_cf(family, "key").unwrap();
        assert_eq!(number(counted), done.into_inner(), "{}", family.name());
    }
}

#[test]
fn parallel_validation_refuses_what_serial_validation_refuses() {
    for options_of in [OptimisticTransactionDbOptions::default(), parallel(8)] {
        let db = OptimisticTransactionDb::open_opt(&options(), &options_of, "/db").unwrap();
        let (lost, won, reader) = (db.begin_transaction(), db.begin_transaction(), db.begin_transaction());
        lost.put("a", "1").unwrap();
        won.put("a", "2").unwrap();
        reader.get_for_update("a").unwrap();
        won.commit().unwrap();
        assert_eq!(lost.commit().unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Busy, "it wrote nothing");
        lost.rollback().unwrap();
        lost.put("a", "3").unwrap();
        lost.commit().unwrap();
        db.delete("a").unwrap();
        assert_eq!(db.get("a").unwrap(), None);
    }
}

#[test]
fn a_database_that_asks_for_no_mutexes_gets_some_and_shared_mutexes_are_at_least_one() {
    for buckets in [0, 1, 16] {
        let options_of = OptimisticTransactionDbOptions::default()
            .validate_policy(OccValidationPolicy::ValidateParallel)
            .occ_lock_buckets(buckets);
        let db = OptimisticTransactionDb::open_opt(&options(), &options_of, "/db").unwrap();
        assert!(increments(&db, ["a", "b"]));
    }
    assert_eq!(OccLockBuckets::new(0).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn databases_share_buckets() {
    let shared = OccLockBuckets::new(4).unwrap();
    let with = parallel(1).shared_lock_buckets(shared);
    let one = OptimisticTransactionDb::open_opt(&options(), &with, "/one").unwrap();
    let two = OptimisticTransactionDb::open_opt(&options(), &with, "/two").unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    increments(&one, ["a", "b"]);
                    increments(&two, ["b", "a"]);
                }
            });
        }
    });
    for db in [&one, &two] {
        assert_eq!(db.get("a").unwrap(), db.get("b").unwrap());
        assert!(number(db.get("a").unwrap()) > 0);
    }
}
