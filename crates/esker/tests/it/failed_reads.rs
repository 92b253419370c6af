//! A scan with a failed read shows the right entries before it, and reports the error. It never
//! shows an older version instead of an unreadable one, and never takes a failure for the end.

use crate::timestamps::rewrite;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FaultRule, OpKind};
use esker::{
    Db, DbIterator, Env, MultiScanArgs, Options, ReadOptions, Snapshot, WriteBatchWithIndex, WriteOptions,
};
use esker_testkit::seed::for_each_seed;
use std::sync::Arc;

/// Options that put each entry into a block of its own, without cache and readahead.
fn options(fs: &FaultFs, comparator: &str) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.cf.comparator = esker::comparator::by_name(comparator).unwrap();
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options.cf.disable_auto_compactions = true;
    options.cf.table.block_size = 1;
    options.cf.table.no_block_cache = true;
    options.cf.table.max_auto_readahead_size = 0;
    options
}

type Row = (Vec<u8>, Vec<u8>);

/// The direction and kind of a scan.
#[derive(Clone, Copy, Debug)]
struct Way {
    forward: bool,
    to_and_fro: bool,
    /// Whether a newer file appears after the second row.
    changes_super_version: bool,
}

/// The rows of a scan, and whether it ended without a failure.
fn rows(db: &Db, iter: &mut DbIterator, way: Way) -> (Vec<Row>, bool) {
    let mut rows = Vec::new();
    if way.forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    while let Some((key, value)) = iter.item() {
        rows.push((key.to_vec(), value.to_vec()));
        if way.to_and_fro && rows.len() % 3 == 2 {
            if way.forward {
                iter.prev()
            } else {
                iter.next()
            }
            if !iter.valid() {
                break;
            }
            rows.push((iter.key().to_vec(), iter.value().to_vec()));
            if way.forward {
                iter.next()
            } else {
                iter.prev()
            }
            if !iter.valid() {
                break;
            }
        }
        if way.changes_super_version && rows.len() == 2 {
            db.delete("nothing").unwrap();
            db.flush().unwrap();
        }
        if way.forward { iter.next() } else { iter.prev() }
    }
    (rows, iter.status().is_ok())
}

/// Makes each read of tables and blob files in such a scan fail in turn.
fn check(fs: &FaultFs, db: &Db, read: &ReadOptions, ways: &[Way]) {
    let family = db.default_column_family();
    let new = || db.iter_opt(read.clone(), &family).unwrap();
    let first_new = db.live_files().iter().map(|file| file.file_number.0).max().unwrap() + 1;
    let is_old = move |path: &std::path::Path| {
        let number = path.file_stem().and_then(|stem| stem.to_string_lossy().parse::<u64>().ok());
        number.is_some_and(|number| number < first_new)
    };
    for &way in ways {
        let before = fs.op_count_of(OpKind::Read);
        let (expected, is_whole) = rows(db, &mut new(), way);
        assert!(is_whole && !expected.is_empty());
        let reads = fs.op_count_of(OpKind::Read) - before;
        for nth in 0..reads {
            for times in [1, 2, u64::MAX] {
                let mut iter = new();
                fs.add_rule(FaultRule::fail(&[OpKind::Read]).on(is_old).nth(nth).times(times));
                let (found, is_whole) = rows(db, &mut iter, way);
                fs.clear_rules();
                let scene = format!("read {nth} of {reads}, {times} times, {way:?}, {read:?}");
                assert!(expected.starts_with(&found), "{found:?} is not the start of {expected:?}: {scene}");
                assert!(!is_whole || found.len() == expected.len(), "a failure seems to be the end: {scene}");
                // Afterwards the iterator works as a new one.
                assert_eq!(rows(db, &mut iter, way), (expected.clone(), true), "{scene}");
            }
        }
    }
}

const PLAIN: Way = Way { forward: true, to_and_fro: false, changes_super_version: false };
const BACK: Way = Way { forward: false, ..PLAIN };

#[test]
fn scans_of_which_a_read_fails_show_nothing_wrong() {
    for_each_seed("failed_reads", 3, |_, mut rng| {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let mut options = options(&fs, "leveldb.BytewiseComparator");
        options.cf.max_sequential_skip_in_iterations = [0, 1, 8][rng.usize(..3)];
        options.cf.enable_blob_files = rng.bool();
        options.cf.level0_stop_writes_trigger = 1 << 20;
        options.cf.level0_slowdown_writes_trigger = 1 << 20;
        let db = Db::open(&options, "/db").unwrap();
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for n in 0..40 {
            let key = format!("k{}", rng.u8(..8));
            match rng.u8(..10) {
                0..4 => db.put(key, format!("v{n}")).unwrap(),
                4..7 => db.merge(key, format!("m{n}")).unwrap(),
                7 => db.delete_range(key, "k6").unwrap_or_default(),
                _ => db.delete(key).unwrap(),
            }
            match rng.u8(..12) {
                0 => db.flush().unwrap(),
                1 => rewrite(&db),
                2..6 => snapshots.push(db.snapshot()),
                _ => {}
            }
        }
        db.put("k9", "last").unwrap();
        snapshots.push(db.snapshot());
        db.flush().unwrap();
        let newest = ReadOptions::default();
        let ways = |way: Way| [way, Way { to_and_fro: true, ..way }];
        for way in [PLAIN, BACK].map(ways) {
            check(&fs, &db, &newest, &way);
            check(&fs, &db, &newest.clone().snapshot(&snapshots[snapshots.len() - 1]), &way);
        }
        let changing =
            [PLAIN, BACK].map(|way| Way { changes_super_version: true, to_and_fro: rng.bool(), ..way });
        check(&fs, &db, &newest, &changing);
    });
}

#[test]
fn scans_with_timestamps_of_which_a_read_fails_show_nothing_wrong() {
    for_each_seed("failed_timestamps", 3, |_, mut rng| {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let db = Db::open(&options(&fs, "leveldb.BytewiseComparator.u64ts"), "/db").unwrap();
        let (write, family) = (WriteOptions::default(), db.default_column_family());
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for n in 0..30u64 {
            // Some versions are written more than once.
            let (key, time) = (format!("k{}", rng.u8(..5)), (n / 10).to_le_bytes());
            match rng.u8(..10) {
                0..7 => db.put_with_ts(&write, &family, key, &time, format!("v{n}")).unwrap(),
                _ => db.delete_with_ts(&write, &family, key, &time).unwrap(),
            }
            match rng.u8(..12) {
                0 => db.flush().unwrap(),
                1 => rewrite(&db),
                _ => snapshots.push(db.snapshot()),
            }
        }
        db.put_with_ts(&write, &family, "k9", &9u64.to_le_bytes(), "last").unwrap();
        rewrite(&db);
        let at = |time: u64| ReadOptions {
            timestamp: Some(time.to_le_bytes().to_vec()),
            ..ReadOptions::default()
        };
        let ways = [PLAIN, BACK, Way { to_and_fro: true, ..PLAIN }, Way { to_and_fro: true, ..BACK }];
        check(&fs, &db, &at(9), &ways);
        check(&fs, &db, &ReadOptions { iter_start_ts: Some(0u64.to_le_bytes().to_vec()), ..at(9) }, &ways);
        drop(snapshots);
    });
}

/// Rows of each range, and the number of ranges that were read to their end.
fn rows_of_ranges(db: &Db, args: &MultiScanArgs) -> Vec<(Vec<Row>, bool)> {
    let mut scans = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), args).unwrap();
    let mut all = Vec::new();
    while let Some(mut scan) = scans.next_scan() {
        let mut rows = Vec::new();
        let is_whole = loop {
            match scan.next_item() {
                Ok(Some((key, value))) => rows.push((key.to_vec(), value.to_vec())),
                end => break end.is_ok(),
            }
        };
        all.push((rows, is_whole));
    }
    all
}

fn rows_over_own_writes(db: &Db, own: &WriteBatchWithIndex, forward: bool) -> (Vec<Row>, bool) {
    let mut iter = own.iter_with_base(db, &ReadOptions::default(), &db.default_column_family()).unwrap();
    let mut rows = Vec::new();
    if forward {
        iter.seek_to_first()
    } else {
        iter.seek_to_last()
    }
    while let Some((key, value)) = iter.item() {
        rows.push((key.to_vec(), value.to_vec()));
        if forward { iter.next() } else { iter.prev() }
    }
    (rows, iter.status().is_ok())
}

#[test]
fn scans_of_ranges_and_over_own_writes_of_which_a_read_fails_show_nothing_wrong() {
    for_each_seed("failed_ranges", 3, |_, mut rng| {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let mut options = options(&fs, "leveldb.BytewiseComparator");
        options.cf.enable_blob_files = rng.bool();
        let db = Db::open(&options, "/db").unwrap();
        let mut own = WriteBatchWithIndex::default();
        let family = db.default_column_family().id();
        for n in 0..60 {
            let key = format!("k{:02}", rng.u8(..30));
            match rng.u8(..10) {
                0..5 => db.put(key, format!("v{n}")).unwrap(),
                5..7 => db.merge(key, format!("m{n}")).unwrap(),
                7 => db.delete(key).unwrap(),
                8 => own.merge_cf(family, key.as_bytes(), b"own").unwrap(),
                _ => own.delete_cf(family, key.as_bytes()).unwrap(),
            }
            if rng.u8(..15) == 0 {
                db.flush().unwrap();
            }
        }
        rewrite(&db);
        db.put("k00", "first").unwrap();
        db.flush().unwrap();
        let count = |read: &mut dyn FnMut()| {
            let before = fs.op_count_of(OpKind::Read);
            read();
            fs.op_count_of(OpKind::Read) - before
        };
        let fails = |nth, times| {
            fs.add_rule(FaultRule::fail(&[OpKind::Read]).nth(nth).times(times));
        };
        for reverse in [false, true] {
            let mut args = MultiScanArgs { reverse, io_coalesce_threshold: 0, ..MultiScanArgs::new() };
            for (start, limit) in [("k00", "k05"), ("k05", "k09"), ("k12", "k20"), ("k25", "k31")] {
                args.insert(start, limit);
            }
            let expected = rows_of_ranges(&db, &args);
            for nth in 0..count(&mut || drop(rows_of_ranges(&db, &args))) {
                for times in [1, 2, u64::MAX] {
                    fails(nth, times);
                    let found = rows_of_ranges(&db, &args);
                    fs.clear_rules();
                    assert_eq!(found.len(), expected.len());
                    for ((found, is_whole), (expected, _)) in found.iter().zip(&expected) {
                        let scene = format!("read {nth}, {times} times, reverse {reverse}");
                        assert!(expected.starts_with(found), "{found:?} of {expected:?}: {scene}");
                        assert!(!is_whole || found.len() == expected.len(), "{scene}");
                    }
                }
            }
        }
        for forward in [true, false] {
            let (expected, _) = rows_over_own_writes(&db, &own, forward);
            for nth in 0..count(&mut || drop(rows_over_own_writes(&db, &own, forward))) {
                for times in [1, 2, u64::MAX] {
                    fails(nth, times);
                    let (found, is_whole) = rows_over_own_writes(&db, &own, forward);
                    fs.clear_rules();
                    let scene = format!("read {nth}, {times} times, forward {forward}");
                    assert!(expected.starts_with(&found), "{found:?} of {expected:?}: {scene}");
                    assert!(!is_whole || found.len() == expected.len(), "{scene}");
                }
            }
        }
    });
}
