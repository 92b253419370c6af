//! Comparisons of keys in reads of keys with timestamps.

use super::{NAMES, at, options, rewrite, ts};
use esker::{Db, Options, ReadOptions, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The order of keys with timestamps; it counts comparisons.
#[derive(Debug)]
struct Counting {
    asked: Arc<AtomicU64>,
    timestamp_size: usize,
}

impl esker::comparator::Comparator for Counting {
    fn name(&self) -> &str {
        "test.Counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let ((a, of_a), (b, of_b)) =
            (a.split_at(a.len() - self.timestamp_size), b.split_at(b.len() - self.timestamp_size));
        a.cmp(b).then_with(|| of_b.iter().rev().cmp(of_a.iter().rev()))
    }
    fn timestamp_size(&self) -> usize {
        self.timestamp_size
    }
    fn without_timestamp(&self) -> Option<esker::comparator::ComparatorRef> {
        (self.timestamp_size > 0)
            .then(|| Arc::new(Counting { asked: self.asked.clone(), timestamp_size: 0 }) as Arc<_>)
    }
}

/// Options with that order, and a function that counts the comparisons of a piece of work.
fn counting() -> (Options, impl Fn(&dyn Fn()) -> u64) {
    let asked: Arc<AtomicU64> = Arc::default();
    let mut options = options(NAMES[0]);
    options.cf.comparator = Arc::new(Counting { asked: asked.clone(), timestamp_size: 8 });
    options.cf.merge_operator = None;
    options.cf.disable_auto_compactions = true;
    let asked_by = move |read: &dyn Fn()| {
        let before = asked.load(Ordering::Relaxed);
        read();
        asked.load(Ordering::Relaxed) - before
    };
    (options, asked_by)
}

fn count_rows(db: &Db, read: ReadOptions) -> u64 {
    let mut iter = db.iter_opt(read, &db.default_column_family()).unwrap();
    iter.seek_to_first();
    let mut found = 0;
    while iter.valid() {
        found += 1;
        iter.next();
    }
    iter.status().unwrap();
    found
}

#[test]
fn a_key_is_not_compared_with_every_deleted_range() {
    const RANGES: u64 = 2000;
    let (options, asked_by) = counting();
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    for n in 0..RANGES {
        db.put_with_ts(&write, &family, format!("k{n:04}"), &ts(1), "value").unwrap();
        db.put_with_ts(&write, &family, format!("k{n:04}z"), &ts(1), "value").unwrap();
        let (begin, end) = (format!("k{n:04}"), format!("k{n:04}m"));
        db.delete_range_with_ts(&write, &family, begin, end, &ts(2)).unwrap();
    }
    for is_flushed in [false, true] {
        if is_flushed {
            db.flush().unwrap();
        }
        for iter_start_ts in [None, Some(ts(1).to_vec())] {
            for (point, rows) in [(1, 2 * RANGES), (2, RANGES)] {
                let read = ReadOptions { iter_start_ts: iter_start_ts.clone(), ..at(point) };
                let asked = asked_by(&|| assert_eq!(count_rows(&db, read.clone()), rows));
                assert!(asked < RANGES * 200, "{asked} comparisons for {rows} keys");
            }
        }
    }
    assert_eq!(db.get_opt(&at(2), &family, "k0007").unwrap(), None);
    assert!(db.get_opt(&at(1), &family, "k0007").unwrap().is_some());
    assert!(db.get_opt(&at(2), &family, "k0007z").unwrap().is_some());
}

#[test]
fn a_key_is_not_compared_with_the_deleted_ranges_of_every_file() {
    const RANGES: u64 = 1000;
    let (mut options, asked_by) = counting();
    options.cf.target_file_size_base = 1;
    options.cf.table.block_size = 1;
    let db = Db::open(&options, "/db").unwrap();
    let (write, family) = (WriteOptions::default(), db.default_column_family());
    for n in 0..RANGES {
        db.put_with_ts(&write, &family, format!("k{n:04}"), &ts(1), "value").unwrap();
        let (begin, end) = (format!("k{n:04}"), format!("k{n:04}m"));
        db.delete_range_with_ts(&write, &family, begin, end, &ts(2)).unwrap();
    }
    rewrite(&db);
    assert!(db.live_files().len() as u64 >= RANGES);
    let asked = asked_by(&|| {
        assert_eq!(db.get_opt(&at(2), &family, "k0500").unwrap(), None);
        assert!(db.get_opt(&at(1), &family, "k0500").unwrap().is_some());
    });
    assert!(asked < 300, "{asked} comparisons for two gets");
    for iter_start_ts in [None, Some(ts(1).to_vec())] {
        let read = |point| ReadOptions { iter_start_ts: iter_start_ts.clone(), ..at(point) };
        let asked = asked_by(&|| {
            assert_eq!(count_rows(&db, read(1)), RANGES);
            assert_eq!(count_rows(&db, read(2)), 0);
        });
        assert!(asked < RANGES * 200, "{asked} comparisons for {RANGES} keys");
    }
    db.close().unwrap();
}
