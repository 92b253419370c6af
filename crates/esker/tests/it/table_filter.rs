//! `ReadOptions::table_filter`: iterators leave tables out by their properties.

use esker::internals::env::mem::MemFs;
use esker::options::MultiScanArgs;
use esker::{Db, Env, Options, ReadOptions, TableProperties};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn open() -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    Db::open(&options, "/db").unwrap()
}

/// Writes a table of `keys` keys that begin with `prefix`.
fn table(db: &Db, prefix: &str, keys: usize) {
    (0..keys).for_each(|i| db.put(format!("{prefix}{i:03}"), prefix).unwrap());
    db.flush().unwrap();
}

fn count(db: &Db, options: &ReadOptions) -> usize {
    let family = db.default_column_family();
    let forward = db.iter_opt(options.clone(), &family).unwrap().into_iter().count();
    let mut iter = db.iter_opt(options.clone(), &family).unwrap();
    iter.seek_to_last();
    let mut backward = 0;
    while iter.valid() {
        backward += 1;
        iter.prev();
    }
    iter.status().unwrap();
    assert_eq!(forward, backward);
    forward
}

#[test]
fn iterators_leave_out_the_tables_that_a_filter_refuses_and_gets_do_not() {
    let db = open();
    table(&db, "few", 3);
    table(&db, "many", 50);
    db.put("memory", "is not asked about").unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let small = ReadOptions::new().table_filter(move |properties: &TableProperties| {
        seen.lock().unwrap().push(properties.num_entries);
        properties.num_entries < 10
    });
    let all = ReadOptions::new();
    // An iterator over all tables leaves its cursor to the next iterator.
    assert_eq!(count(&db, &all), 54);
    assert_eq!(count(&db, &small), 4);
    assert_eq!(count(&db, &all), 54);
    assert_eq!(asked.lock().unwrap().len(), 4, "{asked:?}");
    let family = db.default_column_family();
    assert!(db.get_opt(&small, &family, "many001").unwrap().is_some());
    assert_eq!(count(&db, &small.clone().lower_bound("few001").upper_bound("fewz")), 2);
    // The filter also works for levels and for planned scans.
    db.compact_range(None, None).unwrap();
    db.put("new", "1").unwrap();
    assert_eq!(count(&db, &small), 5);
    let mut args = MultiScanArgs::new();
    args.insert("a", "z");
    let mut scans = db.new_multi_scan(small, &family, &args).unwrap();
    assert_eq!(scans.next_scan().unwrap().count(), 5);
}

#[test]
fn range_deletions_of_a_refused_table_still_hide() {
    let db = open();
    table(&db, "k", 10);
    db.put("of the deleting table", "1").unwrap();
    db.delete_range("k002", "k005").unwrap();
    db.flush().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let points = ReadOptions::new().table_filter(move |properties| {
        counted.fetch_add(1, Ordering::Relaxed);
        properties.num_range_deletions == 0
    });
    assert_eq!(count(&db, &points), 7);
    // An iterator with a filter keeps its super version, and calls the filter again after a
    // refresh.
    let mut iter = db.iter_opt(points, &db.default_column_family()).unwrap();
    let before = calls.load(Ordering::Relaxed);
    table(&db, "l", 2);
    iter.refresh().unwrap();
    iter.seek("l");
    assert_eq!(iter.key(), b"l000");
    assert!(calls.load(Ordering::Relaxed) > before);
}
