//! An iterator with a reused cursor shows the same rows as one with a new cursor, and idle cursors
//! hold no resources.

use super::super::tests::{key, options};
use super::super::*;
use crate::db::Db;
use esker_base::comparator::Comparator;
use esker_base::stats::Ticker;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{self, AtomicBool};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A database with a hundred keys in a level, and the even keys again in a file of level 0.
fn open() -> Db {
    let db = Db::open(&options(), "/db").unwrap();
    (0..100).for_each(|i| db.put(key(i), "first").unwrap());
    db.compact_range(None, None).unwrap();
    (0..50).for_each(|i| db.put(key(2 * i), "second").unwrap());
    db.flush().unwrap();
    db
}

fn iter_opt(db: &Db, options: ReadOptions) -> DbIterator {
    db.iter_opt(options, &db.default_column_family()).unwrap()
}

fn rows(mut iter: DbIterator) -> Rows {
    let mut rows = Vec::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        rows.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    iter.status().unwrap();
    let mut back = Vec::new();
    iter.seek_to_last();
    while let Some((key, value)) = iter.item() {
        back.push((key.to_vec(), value.to_vec()));
        iter.prev();
    }
    back.reverse();
    assert_eq!(rows, back);
    rows
}

/// Drops the idle cursors of the current super version, and returns their number.
fn idle(db: &Db) -> usize {
    let super_version = db.default_column_family().cf.pinned_super_version();
    std::iter::from_fn(|| super_version.idle.take(|_: &DbIter<Runs>| true)).count()
}

/// Rows of an iterator with a reused cursor, and of one with a new cursor.
fn both(db: &Db, options: &ReadOptions) -> (Rows, Rows) {
    let taken = rows(iter_opt(db, options.clone()));
    assert_eq!(idle(db), 1, "the iterator has left the same cursor as before");
    let own = rows(iter_opt(db, options.clone()));
    (taken, own)
}

#[test]
fn later_writes_are_shown_at_each_sequence_number() {
    let db = open();
    let first = db.snapshot();
    drop(db.iter().unwrap());
    let mut snapshots = vec![(first, rows(db.iter().unwrap()))];
    let changes: [&dyn Fn(); 6] = [
        &|| db.put(key(7), "third").unwrap(),
        &|| db.merge(key(8), "more").unwrap(),
        &|| db.delete(key(9)).unwrap(),
        &|| db.delete_range(key(20), key(30)).unwrap(),
        &|| db.put(key(25), "fourth").unwrap(),
        &|| db.delete_range(key(24), key(26)).unwrap(),
    ];
    for change in changes {
        change();
        let (taken, own) = both(&db, &ReadOptions::new());
        assert_eq!(taken, own);
        snapshots.push((db.snapshot(), own));
        for (snapshot, expected) in snapshots.iter().chain(snapshots.iter().rev()) {
            assert_eq!(&both(&db, &ReadOptions::new().snapshot(snapshot)).0, expected);
        }
    }
    db.flush().unwrap();
    assert_eq!(idle(&db), 0, "idle cursors are dropped with their super version");
    for (snapshot, expected) in &snapshots {
        assert_eq!(&rows(iter_opt(&db, ReadOptions::new().snapshot(snapshot))), expected);
    }
}

#[test]
fn they_hold_neither_blocks_nor_super_versions_and_are_used_again_and_again() {
    let db = open();
    let family = db.default_column_family();
    let cache = family.cf.pinned_super_version().options.table.block_cache.clone().unwrap();
    for backward in [false, true] {
        let mut iter = db.iter().unwrap();
        if backward {
            iter.seek_to_last();
            iter.prev();
        } else {
            iter.seek(key(50));
            iter.next();
        }
        assert!(iter.valid() && cache.pinned_usage() > 0);
        drop(iter);
        assert_eq!(cache.pinned_usage(), 0);
    }
    assert_eq!(idle(&db), 1, "the second iterator used the first one's cursor");
    drop(db.iter().unwrap());
    let super_version = Arc::downgrade(&family.cf.pinned_super_version());
    let old = db.iter().unwrap();
    db.put(key(1), "third").unwrap();
    db.flush().unwrap();
    drop(old);
    esker_base::sync::epoch::settle(100_000, std::thread::yield_now);
    assert!(super_version.upgrade().is_none(), "an iterator over an old super version leaves nothing in it");
}

#[test]
fn iterators_with_other_options_leave_and_take_no_cursor() {
    let db = open();
    drop(db.iter().unwrap());
    let other: [fn(&mut ReadOptions); 6] = [
        |options| options.iterate_lower_bound = Some(key(99)),
        |options| options.iterate_upper_bound = Some(key(0)),
        |options| options.ignore_range_deletions = true,
        |options| options.pin_data = true,
        |options| options.max_skippable_internal_keys = 3,
        |options| options.read_tier = ReadTier::Memtable,
    ];
    for change in other {
        let mut options = ReadOptions::new();
        change(&mut options);
        let mut iter = iter_opt(&db, options.clone());
        iter.seek_to_first();
        drop(iter);
        assert_eq!(idle(&db), 1);
        drop(iter_opt(&db, options));
        assert_eq!(idle(&db), 0);
        drop(db.iter().unwrap());
    }
    let mut scans = db.multi_scan([(key(1), key(2)), (key(5), key(9))]).unwrap();
    let found: usize = std::iter::from_fn(|| scans.next_scan().map(|scan| scan.count())).sum();
    assert_eq!(found, 5);
    drop(scans);
    drop(iter_opt(&db, ReadOptions { fill_cache: false, ..ReadOptions::new() }));
    assert_eq!(idle(&db), 2, "the two iterators read with different options");
}

#[test]
fn where_no_file_is_left_out_they_go_from_bounds_to_bounds() {
    let db = open();
    let bounds = [
        (None, None),
        (Some(10), Some(20)),
        (None, Some(5)),
        (Some(90), None),
        (None, None),
        (Some(95), None),
    ];
    // First with a file of level 0 that overlaps all ranges, then without.
    for _ in 0..2 {
        go_through_bounds(&db, &bounds);
        db.compact_range(None, None).unwrap();
    }
}

fn go_through_bounds(db: &Db, bounds: &[(Option<usize>, Option<usize>)]) {
    for &(lower, upper) in bounds {
        let mut options = ReadOptions::new();
        (options.iterate_lower_bound, options.iterate_upper_bound) = (lower.map(key), upper.map(key));
        let shown: Vec<_> = rows(iter_opt(db, options)).into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = (lower.unwrap_or(0)..upper.unwrap_or(100)).map(key).collect();
        assert_eq!(shown, expected);
    }
    assert_eq!(idle(db), 1, "all iterators used the same cursor");
}

#[test]
fn they_go_by_the_options_that_are_in_force_now() {
    let mut options = options();
    let statistics = Arc::new(Statistics::default());
    options.db.statistics = Some(statistics.clone());
    let db = Db::open(&options, "/db").unwrap();
    (0..50).for_each(|i| db.put("a", key(i)).unwrap());
    db.put("b", "1").unwrap();
    let reseeks = || {
        let before = statistics.ticker_count(Ticker::NumberOfReseeksInIteration);
        assert_eq!(rows(db.iter().unwrap()).len(), 2);
        statistics.ticker_count(Ticker::NumberOfReseeksInIteration) - before
    };
    assert!(reseeks() > 0);
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    let family = db.default_column_family();
    db.set_options(&family, &[("max_sequential_skip_in_iterations", "1000")]).unwrap();
    iter.next();
    drop(iter);
    assert_eq!(reseeks(), 0, "only the caller's seeks move the cursor");
}

/// A comparator that panics while its flag is set.
#[derive(Default)]
struct Touchy(AtomicBool);

impl Comparator for Touchy {
    fn name(&self) -> &str {
        "touchy"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        assert!(!self.0.load(atomic::Ordering::SeqCst), "touched");
        a.cmp(b)
    }
}

#[test]
fn a_cursor_whose_change_of_super_version_panicked_is_not_left_behind() {
    let touchy = Arc::new(Touchy::default());
    let mut options = options();
    options.cf.comparator = touchy.clone();
    let db = Db::open(&options, "/db").unwrap();
    // The memtable has the next entry, and the table several entries behind it.
    for run in [0, 1, 3, 2] {
        (0..10).for_each(|i| db.put(key(4 * i + run), "value").unwrap());
        if run != 2 {
            db.flush().unwrap();
        }
    }
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    iter.next();
    db.flush().unwrap();
    touchy.0.store(true, atomic::Ordering::SeqCst);
    let moved = catch_unwind(AssertUnwindSafe(|| iter.next()));
    touchy.0.store(false, atomic::Ordering::SeqCst);
    assert!(moved.is_err());
    drop(iter);
    assert_eq!(idle(&db), 0);
    assert_eq!(rows(db.iter().unwrap()).len(), 40);
}

/// A database with a hundred keys in a level, each in a block of its own, and an empty cache.
fn open_cold() -> Db {
    let mut options = options();
    options.cf.table.no_block_cache = true;
    options.cf.table.block_size = 1;
    let db = Db::open(&options, "/db").unwrap();
    (0..100).for_each(|i| db.put(key(i), "value").unwrap());
    db.compact_range(None, None).unwrap();
    db
}

fn two_ranges() -> MultiScanArgs {
    let mut args = MultiScanArgs::new();
    args.insert(key(10), key(20));
    args.insert(key(50), key(60));
    args
}

#[test]
fn planned_scans_take_them_and_leave_them_without_ranges() {
    let db = open_cold();
    let scans = || db.new_multi_scan(ReadOptions::new(), &db.default_column_family(), &two_ranges()).unwrap();
    let counts = || {
        let mut scans = scans();
        let rows: usize = std::iter::from_fn(|| scans.next_scan().map(Iterator::count)).sum();
        assert_eq!(rows, 20);
        scans.ahead_counts()
    };
    let own = counts();
    assert_eq!((own.batches, own.ranges), (1, 2));
    assert_eq!(counts(), own, "a cursor with former ranges reads as much");
    assert_eq!(idle(&db), 1, "all iterators used the same cursor");
    drop(db.iter().unwrap());
    assert_eq!(counts(), own, "a cursor without former ranges reads as much");
    assert_eq!(rows(db.iter().unwrap()).len(), 100);

    // The iterator is dropped while it has unused blocks that were read ahead.
    let mut left = scans();
    assert!(left.next_scan().unwrap().next().is_some());
    drop(left);
    let super_version = db.default_column_family().cf.pinned_super_version();
    let cursor = super_version.idle.take(|_: &DbIter<Runs>| true).unwrap();
    assert!(cursor.inner().has_nothing_ahead());
    super_version.idle.put(cursor);
    assert_eq!(rows(db.iter().unwrap()).len(), 100);
}

#[test]
fn ranges_that_were_left_hold_nothing_of_an_older_super_version() {
    let db = open_cold();
    db.put(key(15), "newer").unwrap();
    let mut iter = db.iter().unwrap();
    for _ in 0..2 {
        iter.prepare(&two_ranges()).unwrap();
        iter.seek(key(10));
        assert_eq!(iter.ahead_counts().batches, 1);
        iter.seek(key(15));
        assert_eq!(iter.item(), Some((&key(15)[..], &b"newer"[..])));
    }
    // That target was not the start of a range.
    iter.seek(key(10));
    assert!(iter.iter.runs().unwrap().knows_files(), "the runs keep the files for later ranges");
    db.flush().unwrap();
    // The flush job holds the memtable until the job ends.
    db.wait_for_background_work().unwrap();
    iter.next();
    assert!(!iter.iter.runs().unwrap().knows_files());
    iter.prepare(&two_ranges()).unwrap();
    iter.seek(key(10));
    // The newer value lies in a file of level 0 now, whose blocks are read ahead, too.
    assert_eq!(iter.ahead_counts().blocks_read, 2 * 11 + 1);
}
