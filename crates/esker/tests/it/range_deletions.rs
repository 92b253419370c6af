//! Many range deletions in one family: their cost does not grow with their overlaps.

use crate::shared::CountingComparator;
use esker::internals::env::mem::MemFs;
use esker::stats::{Statistics, Ticker};
use esker::{Db, DbIterator, Env, Options, ReadOptions, Snapshot, SstFileWriter, WriteBatch};
use esker_testkit::ranges::{RANGE_SHAPES, RangeShape};
use esker_testkit::seed::for_each_seed;
use std::collections::BTreeMap;
use std::sync::Arc;

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn options(counting: &Arc<CountingComparator>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.comparator = counting.clone();
    options.cf.disable_auto_compactions = true;
    options
}

/// Makes `n` range deletions over as many keys. Every fifth key is written again later.
fn delete(db: &Db, shape: RangeShape, n: u32, with_snapshots: bool) -> Vec<Snapshot> {
    let mut snapshots = Vec::new();
    for i in 0..n {
        let (start, end) = shape(i, n);
        db.delete_range(key(start), key(end)).unwrap();
        if i.is_multiple_of(5) {
            db.put(key(i / 2), i.to_le_bytes()).unwrap();
        }
        if with_snapshots && i.is_multiple_of(n / 8) {
            snapshots.push(db.snapshot());
        }
    }
    snapshots
}

/// The contents at each snapshot, and now: all keys, found by a scan, and checked by gets.
fn contents(db: &Db, snapshots: &[Snapshot]) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let family = db.default_column_family();
    let at = snapshots.iter().map(|snapshot| ReadOptions::new().snapshot(snapshot));
    let mut all = Vec::new();
    for options in at.chain([ReadOptions::new()]) {
        let mut iter = db.iter_opt(options.clone(), &family).unwrap();
        let mut found = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            found.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status().unwrap();
        let mut back = Vec::new();
        iter.seek_to_last();
        while iter.valid() {
            back.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.prev();
        }
        back.reverse();
        assert_eq!(found, back);
        for (key, value) in &found {
            assert_eq!(db.get_opt(&options, &family, key).unwrap().as_ref(), Some(value));
        }
        all.push(found);
    }
    all
}

/// Comparisons of a flush, of a reopening from the WAL, and of two compactions, each over all
/// deletions.
fn costs(shape: RangeShape, n: u32, with_snapshots: bool) -> [u64; 4] {
    let counting = Arc::new(CountingComparator::default());
    let options = options(&counting);
    let mut db = Db::open(&options, "/db").unwrap();
    (0..2 * n).for_each(|i| db.put(key(i), b"old").unwrap());
    db.flush().unwrap();
    let snapshots = delete(&db, shape, n, with_snapshots);
    let expected = contents(&db, &snapshots);
    let flush = counting.in_work(|| db.flush().unwrap());
    assert_eq!(contents(&db, &snapshots), expected);
    let compaction = counting.in_work(|| db.compact_range(None, None).unwrap());
    assert_eq!(contents(&db, &snapshots), expected);
    drop(snapshots);
    delete(&db, shape, n, false);
    let expected = contents(&db, &[]);
    drop(db);
    let mut opened = None;
    let reopening = counting.in_work(|| opened = Some(Db::open(&options, "/db").unwrap()));
    db = opened.unwrap();
    assert_eq!(contents(&db, &[]), expected);
    let second = counting.in_work(|| db.compact_range(None, None).unwrap());
    assert_eq!(contents(&db, &[]), expected);
    [flush, compaction, reopening, second]
}

#[test]
fn flushes_reopenings_and_compactions_of_n_range_deletions_cost_n_log_n_in_every_shape() {
    for (name, shape) in RANGE_SHAPES {
        for with_snapshots in [false, true] {
            let [few, many] = [300, 1200].map(|n| costs(shape, n, with_snapshots));
            for (what, (few, many)) in ["flush", "compaction", "reopening", "second compaction"]
                .iter()
                .zip(few.into_iter().zip(many))
            {
                // Four times as many deletions, times the growth of the logarithm: 4.8 times.
                assert!(many < 7 * few + 1000, "{name}, {what}: {few} comparisons, then {many}");
            }
        }
    }
}

/// Comparisons of a new iterator and its seeks to the middle and to both ends, after each of `n`
/// range deletions; counted for the last tenth of the deletions. The keys are in the same memtable
/// or in a file.
fn cost_of_iterators(shape: RangeShape, n: u32, is_flushed: bool, with_snapshot: bool) -> u64 {
    let counting = Arc::new(CountingComparator::default());
    let db = Db::open(&options(&counting), "/db").unwrap();
    let mut batch = WriteBatch::new();
    let family = db.default_column_family();
    (0..2 * n).for_each(|i| batch.put_cf(family.id(), key(i), b"old").unwrap());
    db.write(&mut batch).unwrap();
    if is_flushed {
        db.flush().unwrap();
    }
    let (mut cost, mut snapshot) = (0, None);
    for i in 0..n {
        let (start, end) = shape(i, n);
        db.delete_range(key(start), key(end)).unwrap();
        if i == n / 2 {
            snapshot = Some(db.snapshot());
        }
        let made = counting.in_work(|| {
            let options = match snapshot.as_ref().filter(|_| with_snapshot) {
                Some(snapshot) => ReadOptions::new().snapshot(snapshot),
                None => ReadOptions::new(),
            };
            let mut iter = db.iter_opt(options, &family).unwrap();
            iter.seek(key(n / 2));
            iter.seek_to_first();
            iter.seek_to_last();
        });
        cost += if i >= n - n / 10 { made } else { 0 };
    }
    cost / u64::from(n / 10)
}

#[test]
fn an_iterator_after_each_range_deletion_costs_no_more_for_those_before_it() {
    for (name, shape) in RANGE_SHAPES {
        for (is_flushed, with_snapshot) in [(true, false), (true, true), (false, false)] {
            let cost = |n| cost_of_iterators(shape, n, is_flushed, with_snapshot);
            let [few, many] = [300, 1500].map(cost);
            let what = format!("{name}, flushed: {is_flushed}, at a snapshot: {with_snapshot}");
            // In a partly covered leaf of the memtable, each record may be looked up.
            assert!(many < 2 * few + 30_000, "{what}: {few} comparisons each, then {many}");
        }
    }
}

/// Iterators see the right keys at both ends of a queue. Meanwhile keys are written, deleted one by
/// one and in ranges, and some are written again.
#[test]
fn iterators_over_a_memtable_show_what_is_there_while_ranges_are_deleted_and_written_anew() {
    for_each_seed("a queue by ranges", 6, |_, mut rng| {
        let db = Db::open(&options(&Arc::default()), "/db").unwrap();
        let family = db.default_column_family();
        let (mut model, mut snapshots) = (BTreeMap::new(), Vec::new());
        let (mut first, mut end, mut is_flushed) = (0, 0, false);
        for step in 0..3000u32 {
            match rng.u8(..20) {
                0..8 => {
                    db.put(key(end), step.to_le_bytes()).unwrap();
                    model.insert(key(end).to_vec(), step.to_le_bytes().to_vec());
                    end += 1;
                }
                8..16 => {
                    let most = [1, 1, 1, 40][rng.usize(..4)];
                    let until = (first + rng.u32(1..=most)).min(end);
                    db.delete_range(key(if rng.bool() { 0 } else { first }), key(until)).unwrap();
                    model.retain(|other, _| **other >= key(until)[..] || **other < key(first)[..]);
                    first = until;
                    model.retain(|other, _| **other >= key(first)[..]);
                    db.delete_range(key(0), key(first)).unwrap();
                }
                16 => {
                    let back = end.saturating_sub(rng.u32(1..30)).max(first);
                    db.delete_range(key(back), key(end)).unwrap();
                    model.retain(|other, _| **other < key(back)[..]);
                }
                17 if end > 0 => {
                    let any = rng.u32(..end);
                    db.delete(key(any)).unwrap();
                    model.remove(&key(any)[..]);
                }
                18 if end > 0 => {
                    let again = rng.u32(..end);
                    db.put(key(again), step.to_le_bytes()).unwrap();
                    model.insert(key(again).to_vec(), step.to_le_bytes().to_vec());
                    first = first.min(again);
                }
                19 if rng.u8(..30) == 0 => snapshots.push((db.snapshot(), model.clone())),
                19 if rng.u8(..80) == 0 => {
                    db.flush().unwrap();
                    is_flushed = true;
                }
                _ => {}
            }
            check_ends(&mut db.iter().unwrap(), &model);
            if let Some((snapshot, model)) = snapshots.get(rng.usize(..=snapshots.len())) {
                let options = ReadOptions::new().snapshot(snapshot);
                check_ends(&mut db.iter_opt(options, &family).unwrap(), model);
            }
        }
        // With `ignore_range_deletions`, keys are visible that only ranges have deleted.
        let options = ReadOptions { ignore_range_deletions: true, ..ReadOptions::new() };
        let mut iter = db.iter_opt(options, &family).unwrap();
        iter.seek_to_first();
        let mut all = 0;
        while iter.valid() {
            all += 1;
            iter.next();
        }
        assert!(all >= model.len() && (is_flushed || all > end as usize / 2), "{all} of {end}");
    });
}

fn check_ends(iter: &mut DbIterator, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    fn item(iter: &DbIterator) -> Option<(Vec<u8>, Vec<u8>)> {
        iter.item().map(|(key, value)| (key.to_vec(), value.to_vec()))
    }
    let expected = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
    iter.seek_to_first();
    for entry in model.iter().take(3) {
        assert_eq!(item(iter), Some(expected(entry)));
        iter.next();
    }
    assert_eq!(iter.valid(), model.len() > 3);
    iter.seek_to_last();
    for entry in model.iter().rev().take(3) {
        assert_eq!(item(iter), Some(expected(entry)));
        iter.prev();
    }
    assert_eq!(iter.valid(), model.len() > 3);
    iter.status().unwrap();
}

#[test]
fn range_deletions_of_every_shape_are_ingested_and_read_back() {
    let n = 400;
    for (name, shape) in RANGE_SHAPES {
        let counting = Arc::new(CountingComparator::default());
        let options = options(&counting);
        let db = Db::open(&options, "/db").unwrap();
        (0..2 * n).for_each(|i| db.put(key(i), b"old").unwrap());
        let mut writer = SstFileWriter::new(&options);
        writer.open("/deletions.sst").unwrap();
        for i in 0..n {
            let (start, end) = shape(i, n);
            writer.delete_range(key(start), key(end)).unwrap();
        }
        writer.finish().unwrap();
        db.ingest_external_file(&["/deletions.sst"]).unwrap();
        let is_deleted = |k: u32| (0..n).map(|i| shape(i, n)).any(|(start, end)| (start..end).contains(&k));
        let left: Vec<_> = (0..2 * n).filter(|&k| !is_deleted(k)).map(|k| key(k).to_vec()).collect();
        for compacted in [false, true] {
            if compacted {
                db.compact_range(None, None).unwrap();
            }
            let found: Vec<_> = contents(&db, &[]).remove(0).into_iter().map(|(key, _)| key).collect();
            assert_eq!(found, left, "{name}, compacted: {compacted}");
        }
    }
}

#[test]
fn a_memtable_is_flushed_when_it_has_as_many_range_deletions_as_it_may() {
    let mut options = options(&Arc::default());
    options.cf.memtable_max_range_deletions = 10;
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(statistics.clone());
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let flushes = || {
        db.wait_for_background_work().unwrap();
        statistics.ticker_count(Ticker::FlushReasonMemtableMaxRangeDeletions)
    };
    let delete = |range: std::ops::Range<u32>| {
        range.for_each(|i| db.delete_range(key(i), key(i + 1)).unwrap());
        // The next write finds the memtable full.
        db.put("key", "value").unwrap();
    };
    delete(0..9);
    assert_eq!(flushes(), 0);
    delete(9..10);
    assert_eq!(flushes(), 1);
    db.set_options(&family, &[("memtable_max_range_deletions", "3")]).unwrap();
    delete(10..13);
    assert_eq!(flushes(), 2);
    db.set_options(&family, &[("memtable_max_range_deletions", "0")]).unwrap();
    delete(13..50);
    assert_eq!(flushes(), 2);
}

/// Range deletions of a memtable hide older entries of files, also from reads that wait for blocks.
#[test]
fn range_deletions_of_a_memtable_hide_files_from_gets_and_batches() {
    for_each_seed("memtable_over_files", 6, |_, mut rng| {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        // Without a block cache, each read of a file is suspended.
        options.cf.table.no_block_cache = rng.bool();
        options.cf.table.block_size = 512;
        let db = Db::open(&options, "/db").unwrap();
        let mut model = BTreeMap::new();
        let all: Vec<[u8; 4]> = (0..800).map(key).collect();
        for key in &all[..600] {
            db.put(key, [1]).unwrap();
            model.insert(*key, 1);
        }
        db.flush().unwrap();
        let mut snapshots = Vec::new();
        for _ in 0..60 {
            let start = rng.usize(..700);
            let end = start + rng.usize(..20);
            db.delete_range(all[start], all[end]).unwrap();
            model.retain(|key, _| *key < all[start] || *key >= all[end]);
            let again = rng.usize(..800);
            db.put(all[again], [2]).unwrap();
            model.insert(all[again], 2);
            if rng.u8(..10) == 0 {
                snapshots.push((db.snapshot(), model.clone()));
            }
        }
        let family = db.default_column_family();
        let at = snapshots.iter().map(|(snapshot, model)| (ReadOptions::new().snapshot(snapshot), model));
        for (read, model) in at.chain([(ReadOptions::new(), &model)]) {
            let expected = |key: &[u8; 4]| model.get(key).map(|&value| vec![value]);
            for async_io in [false, true] {
                let read = ReadOptions { async_io, ..read.clone() };
                for (key, value) in all.iter().zip(db.multi_get_opt(&read, &family, &all)) {
                    assert_eq!(value.unwrap().map(|v| v.to_vec()), expected(key), "{key:?}");
                }
            }
            for key in &all {
                assert_eq!(db.get_opt(&read, &family, key).unwrap(), expected(key), "{key:?}");
            }
        }
    });
}

#[test]
fn absent_keys_search_no_range_deletions_of_the_memtable() {
    let counting = Arc::new(CountingComparator::default());
    let costs = [0, 2000].map(|deletions| {
        let db = Db::open(&options(&counting), format!("/db{deletions}")).unwrap();
        for i in 0..4000 {
            let even = i * 1597 % 4000 * 4;
            db.put(key(even), b"value").unwrap();
            if i % 2 == 0 && deletions > 0 {
                db.delete_range(key(even + 1), key(even + 2)).unwrap();
            }
        }
        // The first search fragments the tombstones.
        _ = db.get(key(0)).unwrap();
        counting.in_work(|| (0..4000).for_each(|i| assert_eq!(db.get(key(i * 4 + 1)).unwrap(), None)))
    });
    assert!(costs[1] <= costs[0] + costs[0] / 50, "comparisons without and with tombstones: {costs:?}");
}
