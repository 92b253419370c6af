//! Reads of several families see one point in time.

use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use esker::internals::env::{mem::MemFs, thread_pool};
use esker::{ColumnFamilyOptions, Db, Env, Options, ReadOptions, WriteBatch};
use esker_testkit::TempDir;
use std::sync::Arc;

#[test]
fn multi_get_over_families_sees_whole_batches_though_memtables_are_switched() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.write_buffer_size = 64 << 10;
    let db = Arc::new(Db::open(&options, "/db").unwrap());
    let second = ColumnFamilyOptions { write_buffer_size: 64 << 10, ..ColumnFamilyOptions::default() };
    let families = [db.default_column_family(), db.create_column_family("second", &second).unwrap()];
    let done = Arc::new(AtomicBool::new(false));
    let writer = {
        let (db, families, done) = (db.clone(), families.clone(), done.clone());
        thread_pool::spawn("writer", move || {
            let mut batch = WriteBatch::new();
            for n in 0u64..30_000 {
                batch.clear();
                for (family, padding) in families.iter().zip([100, 230]) {
                    let mut value = n.to_be_bytes().to_vec();
                    value.resize(padding, 0);
                    batch.put_cf(family.id(), b"key", &value).unwrap();
                }
                db.write(&mut batch).unwrap();
            }
            done.store(true, Ordering::Release);
        })
        .unwrap()
    };
    let keys: Vec<_> = families.iter().map(|family| (family, &b"key"[..])).collect();
    while !done.load(Ordering::Acquire) {
        let found = db.multi_get_cf(&ReadOptions::default(), &keys);
        let numbers: Vec<_> =
            found.into_iter().map(|value| value.unwrap().map(|v| v[..8].to_vec())).collect();
        assert_eq!(numbers[0], numbers[1]);
    }
    writer.join().unwrap();
}

/// The cursor that reads from the back is opened later than the other one.
#[test]
fn both_ends_of_an_iterator_read_one_point_in_time() {
    for pin_data in [false, true] {
        let dir = TempDir::new("both-ends");
        let db = Db::open_default(dir.path()).unwrap();
        db.put("a", "1").unwrap();
        let read = ReadOptions { pin_data, ..ReadOptions::new() };
        let iter = db.iter_opt(read, &db.default_column_family()).unwrap();
        db.put("b", "2").unwrap();
        let keys: Vec<_> = iter.into_iter().rev().map(|entry| entry.unwrap().0.to_vec()).collect();
        assert_eq!(keys, [b"a"], "pin_data {pin_data}");
    }
}
