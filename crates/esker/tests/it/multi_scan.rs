//! Planned scans give the same rows as single scans.

use crate::multi_get::{KEYS, Model, change, key, open, options, settle};
use esker::internals::base::prefix;
use esker::internals::cache::{Cache, CacheOptions, CacheType};
use esker::internals::env::fault::OpKind;
use esker::internals::env::{FaultFs, FaultRule, FileSystem, PosixFileSystem, mem::MemFs};
use esker::internals::table::FilterPolicy;
use esker::options::Statistics;
use esker::{
    ColumnFamilyHandle, Db, DbIterator, Env, ErrorKind, MultiScanArgs, ReadOptions, ReadTier, Snapshot,
};
use esker_testkit::TempDir;
use esker_testkit::seed::for_each_seed;
use std::path::Path;
use std::sync::Arc;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

type Range<'r> = (&'r [u8], Option<&'r [u8]>);

/// The model's entries in a range, in the order of the scan.
fn expected(model: &Model, (start, limit): Range<'_>, descending: bool, reverse: bool) -> Rows {
    let is_before = |a: &[u8], b: &[u8]| if descending { a > b } else { a < b };
    let within = |k: &&Vec<u8>| !is_before(k, start) && limit.is_none_or(|limit| is_before(k, limit));
    let mut rows: Rows = model.keys().filter(within).map(|k| (k.clone(), model[k].clone())).collect();
    if descending != reverse {
        rows.reverse();
    }
    rows
}

/// Random ranges that ascend in the family's order; some touch.
fn ranges(descending: bool, rng: &mut fastrand::Rng) -> MultiScanArgs {
    let mut ends: Vec<_> = (0..2 + rng.usize(..20)).map(|_| key(rng.u64(..KEYS + 20))).collect();
    ends.sort();
    ends.dedup();
    if descending {
        ends.reverse();
    }
    let mut args = MultiScanArgs { reverse: rng.bool(), ..MultiScanArgs::default() };
    let step = 1 + rng.usize(..2);
    let pairs: Vec<_> = ends.windows(2).step_by(step).collect();
    let is_open_ended = pairs.is_empty() || (!args.reverse && rng.u8(..4) == 0);
    let (last, bounded) = match pairs.split_last() {
        Some((last, others)) if is_open_ended => (Some(last[0].clone()), others),
        _ => (is_open_ended.then(|| key(0)), pairs.as_slice()),
    };
    bounded.iter().for_each(|pair| args.insert(&pair[0], &pair[1]));
    if let Some(last) = last {
        args.reverse = false;
        args.insert_unbounded(last);
    }
    args.io_coalesce_threshold = [0, 100, 16 << 10][rng.usize(..3)];
    args.max_prefetch_size = [0, 1, 300, 5000][rng.usize(..4)];
    args
}

/// Reads rows of the range that the iterator has just entered: perhaps not all, sometimes with a
/// step back.
fn walk(iter: &mut DbIterator, reverse: bool, expected: &Rows, rng: &mut fastrand::Rng) {
    let (mut at, mut steps) = (0, 0);
    loop {
        assert_eq!(iter.valid(), at < expected.len(), "row {at}: {:?}", iter.status());
        iter.status().unwrap();
        let Some((k, value)) = expected.get(at) else { return };
        assert_eq!((iter.key(), iter.value()), (k.as_slice(), value.as_slice()), "row {at}");
        steps += 1;
        if rng.u8(..100) == 0 || steps > 600 {
            return;
        }
        let turn = at > 0 && rng.u8(..10) == 0;
        at = if turn { at - 1 } else { at + 1 };
        if reverse != turn { iter.prev() } else { iter.next() }
    }
}

fn check(
    db: &Db,
    family: &ColumnFamilyHandle,
    (model, snapshot): (&Model, Option<&Snapshot>),
    disturb: &mut dyn FnMut(&mut fastrand::Rng),
    rng: &mut fastrand::Rng,
) {
    let descending = family.name() == "reverse";
    let mut read = snapshot.map_or_else(ReadOptions::default, |s| ReadOptions::new().snapshot(s));
    read.fill_cache = rng.u8(..4) > 0;
    read.pin_data = rng.u8(..8) == 0;
    let args = ranges(descending, rng);
    let expected = |range| expected(model, range, descending, args.reverse);

    let mut scans = db.new_multi_scan(read.clone(), family, &args).unwrap();
    for range in args.ranges.iter() {
        let scan = scans.next_scan().expect("there is one for each range");
        let rows = scan.map(|item| item.map(|(k, v)| (k, v.to_vec())));
        assert_eq!(rows.collect::<Result<Rows, _>>().unwrap(), expected(range), "{range:?}");
        disturb(rng);
    }
    assert!(scans.next_scan().is_none());
    let counts = scans.ahead_counts();
    let most = if args.max_prefetch_size == 0 { u64::MAX } else { args.max_prefetch_size };
    assert!(counts.most_held_bytes <= most, "{counts:?} of {most}");
    assert!(counts.ranges as usize <= args.ranges.len(), "{counts:?}");

    // The same with `prepare`, with skipped ranges, on an iterator that was positioned before.
    let mut iter = db.iter_opt(read, family).unwrap();
    iter.seek(key(rng.u64(..KEYS)));
    iter.prepare(&args).unwrap();
    assert!(!iter.valid());
    for range in args.ranges.iter() {
        if rng.u8(..4) == 0 {
            continue;
        }
        match range {
            (_, Some(limit)) if args.reverse => iter.seek_for_prev(limit),
            (start, _) => iter.seek(start),
        }
        walk(&mut iter, args.reverse, &expected(range), rng);
        disturb(rng);
    }
    iter.seek_to_first();
    let first: &[u8] = if descending { &[0xFF; 40] } else { &[] };
    let all = self::expected(model, (first, None), descending, false);
    assert_eq!(iter.item(), all.first().map(|(k, v)| (k.as_slice(), v.as_slice())));
    iter.seek_to_last();
    assert_eq!(iter.item(), all.last().map(|(k, v)| (k.as_slice(), v.as_slice())));
}

#[test]
fn scans_give_what_the_model_gives_while_files_change() {
    for_each_seed("multi_scan", 6, |_, mut rng| {
        let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
        options.db.max_open_files = if rng.bool() { 12 } else { -1 };
        options.db.statistics = Some(Arc::new(Statistics::new()));
        let db = open(&options, Path::new("/db"), &mut rng);
        let families: Vec<_> =
            ["default", "plain", "reverse"].iter().map(|name| db.column_family(name).unwrap()).collect();
        let mut models = vec![Model::new(); 3];
        let mut kept: Vec<(Snapshot, Vec<Model>)> = Vec::new();
        for _ in 0..16 {
            for _ in 0..rng.usize(..80) {
                let f = rng.usize(..3);
                change(&db, &families[f], &mut models[f], &mut rng);
            }
            if rng.u8(..4) == 0 {
                kept.push((db.snapshot(), models.clone()));
            }
            settle(&db, &families, &mut rng);
            let f = rng.usize(..3);
            check(&db, &families[f], (&models[f], None), &mut |_| {}, &mut rng);
            if let Some((snapshot, models)) = kept.get(rng.usize(..kept.len().max(1))) {
                check(&db, &families[f], (&models[f], Some(snapshot)), &mut |_| {}, &mut rng);
            }
            // Concurrent writes and compactions have no effect.
            let seen = models[f].clone();
            let held = db.snapshot();
            let mut disturb = |rng: &mut fastrand::Rng| {
                change(&db, &families[f], &mut models[f], rng);
                settle(&db, &families, rng);
            };
            check(&db, &families[f], (&seen, Some(&held)), &mut disturb, &mut rng);
        }
    });
}

/// A database with keys of eight bytes, each in a block of its own, a hundred in each file.
fn cold(fs: Arc<dyn FileSystem>, path: &Path) -> Db {
    let mut options = options(FaultFs::new(fs.clone()));
    options.db.env = Env::with_fs(fs);
    options.cf.table.no_block_cache = true;
    options.cf.table.block_size = 1;
    let db = Db::open(&options, path).unwrap();
    for n in 0..1000u64 {
        db.put(n.to_be_bytes(), vec![b'v'; 90]).unwrap();
        if n % 100 == 99 {
            db.flush().unwrap();
        }
    }
    db
}

fn tens(from: u64) -> MultiScanArgs {
    let mut args = MultiScanArgs::new();
    (from..from + 10).for_each(|n| args.insert((n * 50).to_be_bytes(), (n * 50 + 10).to_be_bytes()));
    args
}

#[test]
fn blocks_of_all_ranges_and_files_come_with_a_few_reads() {
    let dir = TempDir::new("multi-scan");
    let db = cold(Arc::new(PosixFileSystem::new()), &dir.path().join("db"));
    let mut scans = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &tens(0)).unwrap();
    let mut rows = 0;
    while let Some(scan) = scans.next_scan() {
        rows += scan.count();
    }
    assert_eq!(rows, 100);
    let counts = scans.ahead_counts();
    assert_eq!((counts.batches, counts.ranges), (1, 10));
    assert!((100..=120).contains(&counts.blocks_read), "{counts:?}");
    // Two ranges of a file lie near enough to each other for one read.
    assert_eq!(counts.reads, 5);

    let args = MultiScanArgs { io_coalesce_threshold: 0, max_prefetch_size: 1500, ..tens(0) };
    let mut scans = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &args).unwrap();
    while let Some(scan) = scans.next_scan() {
        assert_eq!(scan.count(), 10);
    }
    let counts = scans.ahead_counts();
    assert!(counts.batches > 2 && counts.reads == 10, "{counts:?}");
    assert!(counts.most_held_bytes <= 1500, "{counts:?}");
}

#[test]
fn cached_blocks_cost_no_readahead_batch() {
    let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
    // A clock cache may evict a block for another one of its bucket, even if it has room.
    let cache = CacheOptions {
        cache_type: CacheType::Lru,
        num_shard_bits: 0,
        ..CacheOptions::with_capacity(8 << 20)
    };
    options.cf.table.block_cache = Some(Arc::new(Cache::new(&cache).unwrap()));
    let db = Db::open(&options, "/db").unwrap();
    (0..1000u64).for_each(|n| db.put(n.to_be_bytes(), [0; 50]).unwrap());
    db.flush().unwrap();
    let scan = |read: ReadOptions| {
        let mut scans = db.new_multi_scan(read, &db.default_column_family(), &tens(0)).unwrap();
        while let Some(mut scan) = scans.next_scan() {
            while scan.next_item().unwrap().is_some() {}
        }
        scans.ahead_counts()
    };
    let first = scan(ReadOptions::default());
    assert_eq!(first.batches, 1);
    let second = scan(ReadOptions::default());
    assert_eq!(second.batches, 0, "{first:?} {second:?}");
}

#[test]
fn a_block_that_cannot_be_read_ends_its_range_alone() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let db = cold(Arc::new(fs.clone()), Path::new("/db"));
    let mut scans = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &tens(0)).unwrap();
    // A block of the readahead batch, which has 110 blocks, fails; then it fails again when the
    // scan reaches it, read with later blocks or alone.
    for nth in [55, 110, 111] {
        fs.add_rule(FaultRule::fail(&[OpKind::Read]).on_name(".sst").nth(nth));
    }
    let (mut good, mut bad) = (0, 0);
    while let Some(scan) = scans.next_scan() {
        let rows: Vec<_> = scan.collect();
        match rows.last() {
            Some(Err(e)) => {
                assert_eq!(e.kind(), ErrorKind::IoError);
                bad += 1;
            }
            _ => good += usize::from(rows.len() == 10),
        }
    }
    fs.clear_rules();
    assert_eq!((good, bad), (9, 1));
    let mut again = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &tens(0)).unwrap();
    while let Some(scan) = again.next_scan() {
        assert_eq!(scan.count(), 10);
    }
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let db = Db::open(&options(FaultFs::new(Arc::new(MemFs::new()))), "/db").unwrap();
    db.put("a", "1").unwrap();
    let refused = |args: &MultiScanArgs| {
        let family = db.default_column_family();
        let error = db.new_multi_scan(ReadOptions::default(), &family, args).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        assert_eq!(iter.prepare(args).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(iter.key(), b"a", "the iterator is unchanged");
        error.to_string()
    };
    let of = |ranges: &[(&str, &str)]| {
        let mut args = MultiScanArgs::new();
        ranges.iter().for_each(|(start, limit)| args.insert(*start, *limit));
        args
    };
    assert!(refused(&of(&[])).contains("there are no ranges"));
    assert!(refused(&of(&[("b", "a")])).contains("range 0 does not begin before its limit"));
    assert!(refused(&of(&[("a", "a")])).contains("range 0 does not begin before its limit"));
    assert!(refused(&of(&[("a", "c"), ("b", "d")])).contains("range 1 begins before range 0 ends"));
    assert!(refused(&of(&[("c", "d"), ("a", "b")])).contains("range 1 begins before range 0 ends"));
    let mut open_ended = MultiScanArgs::new();
    open_ended.insert_unbounded("a");
    assert!(db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &open_ended).is_ok());
    assert!(refused(&MultiScanArgs { reverse: true, ..open_ended.clone() }).contains("has no limit"));
    open_ended.insert("b", "c");
    assert!(refused(&open_ended).contains("range 0 has no limit, and another one follows it"));
}

#[test]
fn scans_of_a_database_that_was_closed_go_on() {
    let db = cold(Arc::new(MemFs::new()), Path::new("/db"));
    let mut scans = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &tens(0)).unwrap();
    assert_eq!(scans.next_scan().unwrap().count(), 10);
    db.close().unwrap();
    drop(db);
    while let Some(scan) = scans.next_scan() {
        assert_eq!(scan.count(), 10);
    }
}

#[test]
fn the_cache_only_tier_reads_nothing_ahead() {
    let db = cold(Arc::new(MemFs::new()), Path::new("/db"));
    let read = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() };
    let mut scans = db.new_multi_scan(read, &db.default_column_family(), &tens(0)).unwrap();
    let error = scans.next_scan().unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete);
    assert_eq!(scans.ahead_counts(), Default::default());
}

#[test]
fn scans_within_a_prefix_end_with_it() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs);
    options.cf.prefix_extractor = Some(prefix::fixed(2));
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
    let db = Db::open(&options, "/db").unwrap();
    for keys in [["aa1", "ab1", "cc1"], ["aa2", "bb1", "cc2"]] {
        keys.iter().for_each(|key| db.put(key, "v").unwrap());
        db.flush().unwrap();
    }
    let mut args = MultiScanArgs::new();
    args.insert("aa", "b");
    args.insert("bz", "c");
    args.insert("cc", "d");
    let read = ReadOptions::new().prefix_same_as_start(true);
    let mut scans = db.new_multi_scan(read, &db.default_column_family(), &args).unwrap();
    let mut found = Vec::new();
    while let Some(scan) = scans.next_scan() {
        found.push(scan.map(|item| String::from_utf8(item.unwrap().0).unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(found, [vec!["aa1", "aa2"], vec![], vec!["cc1", "cc2"]]);
}

#[test]
fn an_explanation_tells_what_was_read_ahead() {
    let db = cold(Arc::new(MemFs::new()), Path::new("/db"));
    let report =
        db.explain_multi_scan(&ReadOptions::default(), &db.default_column_family(), &tens(2)).unwrap();
    let scan = report.scan.as_ref().unwrap();
    assert_eq!((report.operation, scan.rows, &scan.error), ("multiscan", 100, &None));
    assert_eq!(scan.ahead.unwrap().ranges, 10);
    assert!(report.to_string().contains("1 times blocks read ahead, for 10 ranges"), "{report}");
    assert!(report.to_json().contains(r#""ahead": {"batches": 1, "ranges": 10"#), "{}", report.to_json());
}

#[test]
fn planned_ranges_of_an_iterator_with_bounds_are_whole_beyond_these() {
    let mut options = options(FaultFs::new(Arc::new(MemFs::new())));
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    // One file of level 0 on each side of the bounds, one within them, and a memtable.
    for k in ["a", "m", "x"] {
        db.put(k, "in a file").unwrap();
        db.flush().unwrap();
    }
    db.put("y", "in memory").unwrap();
    let family = db.default_column_family();
    for (reverse, pin_data) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut read = ReadOptions::new().lower_bound("k").upper_bound("o");
        read.pin_data = pin_data;
        let mut iter = db.iter_opt(read, &family).unwrap();
        let mut args = MultiScanArgs { reverse, ..MultiScanArgs::default() };
        args.insert("a", "c");
        args.insert("w", "z");
        let prepared = iter.prepare(&args);
        if pin_data {
            assert_eq!(prepared.unwrap_err().kind(), ErrorKind::InvalidArgument);
            continue;
        }
        prepared.unwrap();
        let mut keys = |from: &str| {
            if reverse {
                iter.seek_for_prev(from)
            } else {
                iter.seek(from)
            }
            let mut keys = Vec::new();
            while let Some((k, _)) = iter.item() {
                keys.push(k.to_vec());
                if reverse { iter.prev() } else { iter.next() }
            }
            iter.status().unwrap();
            keys
        };
        // A range that begins below the iterator's lower bound shows no row below it, unless it is
        // read backward.
        if reverse {
            assert_eq!(keys("c"), [b"a"]);
            assert_eq!(keys("z"), [b"y", b"x"]);
        } else {
            assert_eq!(keys("w"), [b"x", b"y"]);
        }
        iter.seek_to_first();
        assert_eq!(iter.item().map(|(k, _)| k), Some(&b"m"[..]));
        iter.next();
        assert!(!iter.valid());
    }
}

#[test]
fn a_plan_whose_files_cannot_be_opened_is_refused_and_leaves_the_iterator_as_it_was() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options(fs.clone());
    options.db.max_open_files = 20;
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "x"] {
        db.put(key, key).unwrap();
        db.flush().unwrap();
    }
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    let read = ReadOptions { iterate_upper_bound: Some(b"m".to_vec()), ..ReadOptions::default() };
    let mut iter = db.iter_opt(read, &db.default_column_family()).unwrap();
    iter.seek_to_first();
    let mut beyond = MultiScanArgs::new();
    beyond.insert("w", "z");
    fs.add_rule(FaultRule::fail(&[OpKind::Open]));
    assert_eq!(iter.prepare(&beyond).unwrap_err().kind(), ErrorKind::IoError);
    fs.clear_rules();
    assert_eq!(iter.item(), Some((&b"a"[..], &b"a"[..])));
    iter.prepare(&beyond).unwrap();
    iter.seek("w");
    assert_eq!(iter.item(), Some((&b"x"[..], &b"x"[..])));
    iter.next();
    assert!(!iter.valid() && iter.status().is_ok());
}
