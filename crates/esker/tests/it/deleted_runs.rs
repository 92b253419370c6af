//! Deleted runs are stepped through at most once, wherever the deletions and the hidden values lie.

use esker::compaction_filter::{
    CompactionFilter, CompactionFilterContext, CompactionFilterFactory, FilterDecision,
    TableFileCreationReason,
};
use esker::comparator::BytewiseComparator;
use esker::internals::base::probe::Probes;
use esker::internals::base::stats::{Statistics, Ticker};
use esker::internals::base::sync::epoch;
use esker::internals::env::mem::MemFs;
use esker::options::{BlockCache, BottommostLevelCompaction, CacheOptions, CompactRangeOptions};
use esker::{Db, DbIterator, Env, ExplainScan, Options, ReadOptions, Snapshot, WriteBatchWithIndex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of keys. All but the first and the last are deleted.
const KEYS: usize = 3000;
/// Entries that a scan may step over in a known run.
const FEW: u64 = 60;

/// The places of the deletions and of the values that they hide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    AllInTheMemtable,
    MemtableOverFiles,
    FileOverFile,
    OneFile,
}

struct Scene {
    db: Db,
    statistics: Arc<Statistics>,
    /// A snapshot that sees all values.
    before: Snapshot,
}

fn key(i: usize) -> String {
    format!("key{i:06}")
}

fn scene(layout: Layout) -> Scene {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.statistics = Some(statistics.clone());
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    (options.cf.deleted_run_block_min_entries, options.cf.deleted_run_memory_min_keys) = (64, 256);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    if layout != Layout::AllInTheMemtable {
        db.flush().unwrap();
    }
    let before = db.snapshot();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    match layout {
        Layout::AllInTheMemtable | Layout::MemtableOverFiles => {}
        Layout::FileOverFile => db.flush().unwrap(),
        Layout::OneFile => compact(&db),
    }
    Scene { db, statistics, before }
}

fn compact(db: &Db) {
    let rewrite = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&rewrite, &db.default_column_family(), None, None).unwrap();
}

fn at(iter: &DbIterator) -> Option<String> {
    iter.status().unwrap();
    iter.item().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
}

/// Crosses the run in each way, and returns the number of entries that each scan stepped over.
fn cross(scene: &Scene, options: &ReadOptions) -> Vec<u64> {
    let (first, last) = (Some(key(0)), Some(key(KEYS - 1)));
    let mut skipped = Vec::new();
    for way in 0..4 {
        let before = scene.statistics.ticker_count(Ticker::NumberIterSkip);
        let mut iter = scene.db.iter_opt(options.clone(), &scene.db.default_column_family()).unwrap();
        match way {
            0 => {
                iter.seek_to_first();
                assert_eq!(at(&iter), first);
                iter.next();
                assert_eq!(at(&iter), last);
            }
            1 => {
                iter.seek_to_last();
                assert_eq!(at(&iter), last);
                iter.prev();
                assert_eq!(at(&iter), first);
            }
            2 => {
                iter.seek(key(KEYS / 2));
                assert_eq!(at(&iter), last);
            }
            _ => {
                iter.seek_for_prev(key(KEYS / 2));
                assert_eq!(at(&iter), first);
            }
        }
        drop(iter);
        skipped.push(scene.statistics.ticker_count(Ticker::NumberIterSkip) - before);
    }
    skipped
}

#[test]
fn a_run_is_stepped_through_once() {
    for layout in [Layout::AllInTheMemtable, Layout::MemtableOverFiles, Layout::FileOverFile, Layout::OneFile]
    {
        let scene = scene(layout);
        let found = cross(&scene, &ReadOptions::default());
        let at_first = match layout {
            Layout::AllInTheMemtable | Layout::OneFile => FEW,
            Layout::MemtableOverFiles | Layout::FileOverFile => u64::MAX,
        };
        assert!(found.iter().all(|&n| n < at_first), "{layout:?} states the deleted run: {found:?}");
        let again = cross(&scene, &ReadOptions::default());
        assert!(
            again.iter().all(|&n| n < at_first.min(4 * FEW)),
            "{layout:?}: first {found:?}, then {again:?}"
        );
        // The snapshot sees all keys.
        let options = ReadOptions::new().snapshot(&scene.before);
        let mut iter = scene.db.iter_opt(options, &scene.db.default_column_family()).unwrap();
        iter.seek_to_first();
        for i in 0..KEYS {
            assert_eq!(at(&iter), Some(key(i)), "{layout:?}");
            iter.next();
        }
    }
}

#[test]
fn later_writes_into_a_run_are_found() {
    for layout in [Layout::AllInTheMemtable, Layout::MemtableOverFiles, Layout::FileOverFile, Layout::OneFile]
    {
        let scene = scene(layout);
        cross(&scene, &ReadOptions::default());
        let db = &scene.db;
        let after = db.snapshot();
        db.put(key(700), "new").unwrap();
        let check = |when: &str| {
            for forward in [true, false] {
                let mut iter = db.iter().unwrap();
                let expected = [key(0), key(700), key(KEYS - 1)];
                if forward {
                    iter.seek_to_first();
                    for key in expected {
                        assert_eq!(at(&iter), Some(key), "{layout:?} {when}");
                        iter.next();
                    }
                } else {
                    iter.seek_to_last();
                    for key in expected.into_iter().rev() {
                        assert_eq!(at(&iter), Some(key), "{layout:?} {when}");
                        iter.prev();
                    }
                }
            }
            assert!(cross(&scene, &ReadOptions::new().snapshot(&after)).len() == 4, "{layout:?} {when}");
        };
        check("in the memtable");
        db.flush().unwrap();
        check("flushed");
        compact(db);
        check("compacted");
    }
}

#[test]
fn without_snapshots_a_compaction_sets_numbers_to_zero_and_all_is_found() {
    let Scene { db, before, .. } = scene(Layout::MemtableOverFiles);
    let cross = |expected: &[usize]| {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        for &i in expected {
            assert_eq!(at(&iter), Some(key(i)));
            iter.next();
        }
        assert_eq!(at(&iter), None);
    };
    cross(&[0, KEYS - 1]);
    drop(before);
    db.put(key(42), "new").unwrap();
    compact(&db);
    db.put(key(43), "newer").unwrap();
    cross(&[0, 42, 43, KEYS - 1]);
}

#[test]
fn keys_deleted_in_a_batch_are_there_for_other_readers() {
    let Scene { db, before, .. } = scene(Layout::MemtableOverFiles);
    let family = db.default_column_family();
    let mut deleting = WriteBatchWithIndex::new(Arc::new(BytewiseComparator), true);
    for i in 0..KEYS {
        deleting.delete_cf(family.id(), key(i).as_bytes()).unwrap();
    }
    // A batch with as many operations, so that it reads at the same sequence number as the other.
    let mut writing = WriteBatchWithIndex::new(Arc::new(BytewiseComparator), true);
    for i in 0..20 {
        writing.delete_cf(family.id(), key(i).as_bytes()).unwrap();
    }
    for i in 20..KEYS {
        writing.put_cf(family.id(), format!("other{i}").as_bytes(), b"value").unwrap();
    }
    let at_snapshot = ReadOptions::new().snapshot(&before);
    for _ in 0..2 {
        let mut iter = deleting.iter_with_base(&db, &ReadOptions::new(), &family).unwrap();
        iter.seek(key(0));
        assert!(!iter.valid(), "the batch has deleted all keys");
        // The database has deleted the keys; the snapshot still shows them, under the batch's own
        // writes.
        let mut iter = db.iter().unwrap();
        iter.seek(key(0));
        iter.next();
        assert_eq!(at(&iter), Some(key(KEYS - 1)));
        let mut iter = writing.iter_with_base(&db, &at_snapshot, &family).unwrap();
        iter.seek(key(0));
        for i in 20..KEYS {
            assert_eq!(iter.key(), key(i).as_bytes());
            iter.next();
        }
    }
}

#[test]
fn runs_that_an_iterator_skipped_stay_hidden_when_older_files_are_rewritten_under_it() {
    for forward in [true, false] {
        let scene = scene(Layout::MemtableOverFiles);
        let db = &scene.db;
        compact(db);
        drop(scene.before);
        // The values lie in a file of the last level; their deletions, flushed, above it.
        (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
        compact(db);
        (10..KEYS - 10).for_each(|i| db.delete(key(i)).unwrap());
        db.flush().unwrap();
        let cross = || {
            let mut iter = db.iter().unwrap();
            if forward {
                iter.seek(key(9));
                iter.next();
            } else {
                iter.seek(key(KEYS - 10));
                iter.prev();
            }
            iter
        };
        drop(cross());
        db.put(key(700), "new").unwrap();
        let mut iter = cross();
        assert_eq!(at(&iter), Some(key(700)));
        let rewrite = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        // Only the file with the values lies in this range.
        let (begin, end) = (key(0), key(5));
        let (begin, end) = (Some(begin.as_bytes()), Some(end.as_bytes()));
        db.compact_range_opt(&rewrite, &db.default_column_family(), begin, end).unwrap();
        if forward {
            iter.next();
            assert_eq!(at(&iter), Some(key(KEYS - 10)));
        } else {
            iter.prev();
            assert_eq!(at(&iter), Some(key(9)));
        }
    }
}

/// A filter: at a value `skip` it drops all entries up to the last key, including deletions that
/// hide older values.
struct SkipAll;

impl CompactionFilter for SkipAll {
    fn name(&self) -> &str {
        "SkipAll"
    }
    fn filter(&self, _level: usize, _key: &[u8], value: &[u8]) -> FilterDecision {
        match value {
            b"skip" => FilterDecision::RemoveAndSkipUntil(key(KEYS - 1).into_bytes()),
            _ => FilterDecision::Keep,
        }
    }
}

#[test]
fn scans_find_again_what_a_compaction_filter_has_uncovered() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.compaction_filter = Some(Arc::new(SkipAll));
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.disable_auto_compactions = true;
    options.cf.level0_file_num_compaction_trigger = 2;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let scan = || {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        std::iter::from_fn(|| {
            let found = at(&iter)?;
            iter.next();
            Some(found)
        })
        .collect::<Vec<_>>()
    };
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    let far_down =
        CompactRangeOptions { change_level: true, target_level: 3, ..CompactRangeOptions::default() };
    db.compact_range_opt(&far_down, &family, None, None).unwrap();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    assert_eq!(scan(), [key(0), key(KEYS - 1)]);
    db.put(key(100), "skip").unwrap();
    db.flush().unwrap();
    assert_eq!(scan(), [key(0), key(100), key(KEYS - 1)]);
    db.set_options(&family, &[("disable_auto_compactions", "false")]).unwrap();
    db.wait_for_background_work().unwrap();
    let found: Vec<String> = (0..KEYS).map(key).filter(|key| db.get(key).unwrap().is_some()).collect();
    assert!(found.len() > KEYS - 110, "deletions blocked the filter: {}", found.len());
    assert_eq!(scan(), found);
}

/// Filters flushes by [`SkipAll`].
struct InFlushes;

impl CompactionFilterFactory for InFlushes {
    fn name(&self) -> &str {
        "InFlushes"
    }
    fn should_filter_table_file_creation(&self, reason: TableFileCreationReason) -> bool {
        reason == TableFileCreationReason::Flush
    }
    fn create(&self, _context: &CompactionFilterContext) -> Option<Box<dyn CompactionFilter>> {
        Some(Box::new(SkipAll))
    }
}

#[test]
fn scans_find_again_what_a_filter_of_a_flush_has_uncovered() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.compaction_filter_factory = Some(Arc::new(InFlushes));
    options.cf.disable_auto_compactions = true;
    options.cf.deleted_run_memory_min_keys = 64;
    let db = Db::open(&options, "/db").unwrap();
    let scan = || db.iter().unwrap().into_iter().map(|item| item.unwrap().0.to_vec()).collect::<Vec<_>>();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    db.compact_range(None, None).unwrap();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    // Scans remember the deleted run, and skip it.
    (0..3).for_each(|_| assert_eq!(scan().len(), 2));
    db.put(key(100), "skip").unwrap();
    assert_eq!(scan().len(), 3);
    db.flush().unwrap();
    let found: Vec<_> = (0..KEYS).map(key).filter(|key| db.get(key).unwrap().is_some()).collect();
    assert_eq!(found.len(), KEYS - 99, "deletions blocked the filter");
    assert_eq!(scan(), found.iter().map(|key| key.as_bytes().to_vec()).collect::<Vec<_>>());
}

#[test]
fn an_explained_scan_remembers_nothing_beside_a_memtable_that_it_did_not_see() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    (options.cf.deleted_run_block_min_entries, options.cf.deleted_run_memory_min_keys) = (0, 64);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    db.flush().unwrap();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    db.flush().unwrap();
    db.put(key(0), "again").unwrap();
    // Between the reads of the super version and of the sequence number, a memtable is switched and
    // written to.
    let probes = Probes::new();
    let (other, done) = (db.clone(), AtomicBool::new(false));
    probes.on_this_thread("read_point:super_version", move |_| {
        if !done.swap(true, Ordering::SeqCst) {
            other.flush().unwrap();
            other.put(key(KEYS / 2), "late").unwrap();
        }
    });
    let scan = ExplainScan { from: None, rows: 10, reverse: false };
    db.explain_scan(&ReadOptions::default(), &db.default_column_family(), &scan).unwrap();
    drop(probes);
    assert_eq!(db.get(key(KEYS / 2)).unwrap().as_deref(), Some(&b"late"[..]));
    let mut iter = db.iter().unwrap();
    iter.seek(key(1));
    assert_eq!(at(&iter), Some(key(KEYS / 2)));
}

/// Each pop makes an iterator, reads the first or the last message and deletes it. An iterator that
/// lives on is not used again, so the next one knows only what the family remembers.
#[test]
fn a_pop_steps_over_few_of_the_messages_that_were_popped_before() {
    for (backward, has_snapshot, lives_on) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (true, false, true),
    ] {
        let statistics = Arc::new(Statistics::new());
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.statistics = Some(statistics.clone());
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        let db = Db::open(&options, "/db").unwrap();
        (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
        db.flush().unwrap();
        let snapshot = has_snapshot.then(|| db.snapshot());
        let mut living = Vec::new();
        for popped in 0..KEYS / 2 {
            let first = if backward { KEYS - 1 - popped } else { popped };
            let mut iter = db.iter().unwrap();
            if backward {
                iter.seek_to_last();
            } else {
                iter.seek_to_first();
            }
            assert_eq!(at(&iter), Some(key(first)));
            if lives_on {
                living.push(iter);
            }
            db.delete(key(first)).unwrap();
        }
        drop(living);
        let each = statistics.ticker_count(Ticker::NumberIterSkip) / (KEYS as u64 / 2);
        assert!(
            each <= 8,
            "{each} entries a pop, backward {backward}, snapshot {has_snapshot}, lives on {lives_on}"
        );
        drop(snapshot);
    }
}

/// Keys that lived while the ranges between them were remembered are deleted afterwards. One call
/// then passes all ranges.
#[test]
fn a_call_steps_over_few_entries_of_each_of_many_remembered_runs() {
    const RUNS: usize = 16;
    for (backward, flushes) in [(false, false), (true, false), (false, true), (true, true)] {
        let statistics = Arc::new(Statistics::new());
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.statistics = Some(statistics.clone());
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        (options.cf.pre_scan_min_entries, options.cf.disable_auto_compactions) = (0, true);
        let db = Db::open(&options, "/db").unwrap();
        let last = RUNS * 200;
        (0..=last).for_each(|i| db.put(key(i), "value").unwrap());
        db.flush().unwrap();
        (0..=last).filter(|i| i % 200 != 0).for_each(|i| db.delete(key(i)).unwrap());
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        (0..RUNS).for_each(|_| iter.next());
        assert_eq!(at(&iter), Some(key(last)));
        if flushes {
            db.flush().unwrap();
        }
        (1..RUNS).for_each(|run| db.delete(key(run * 200)).unwrap());
        let before = statistics.ticker_count(Ticker::NumberIterSkip);
        let mut iter = db.iter().unwrap();
        if backward {
            iter.seek_to_last();
            iter.prev();
            assert_eq!(at(&iter), Some(key(0)));
        } else {
            iter.seek_to_first();
            iter.next();
            assert_eq!(at(&iter), Some(key(last)));
        }
        drop(iter);
        let each = (statistics.ticker_count(Ticker::NumberIterSkip) - before) / RUNS as u64;
        assert!(each <= 16, "{each} entries a run, backward {backward}, flushes {flushes}");
    }
}

/// The charge is that of the family's remembered runs.
#[test]
fn a_batch_that_outlives_its_database_keeps_nothing_in_the_cache() {
    let cache = Arc::new(BlockCache::lru(&CacheOptions::with_capacity(8 << 20)).unwrap());
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.deleted_run_memory_min_keys = 256;
    options.cf.table.block_cache = Some(cache.clone());
    let db = Db::open(&options, "/db").unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), "value").unwrap());
    db.flush().unwrap();
    (1..KEYS - 1).for_each(|i| db.delete(key(i)).unwrap());
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    iter.next();
    assert!(iter.valid());
    drop(iter);
    let charged = || {
        cache.erase_unreferenced();
        cache.usage()
    };
    assert!(charged() > 0, "the scan has remembered a run");
    let mut batch = WriteBatchWithIndex::new(Arc::new(BytewiseComparator), true);
    batch.put("own", "value").unwrap();
    let mut iter = batch.iter_with_base(&db, &ReadOptions::default(), &db.default_column_family()).unwrap();
    iter.seek_to_first();
    iter.next();
    assert!(iter.valid());
    drop((iter, db));
    epoch::settle(1, || ());
    assert_eq!(charged(), 0);
}
