//! The cost of deletes, snapshots and changing super versions for readers: the figures of
//! docs/performance.md, "Other programs".
//!
//! `cargo run --release -p esker-bench --example cliffs -- [rounds] [word of the case]`
//!
//! All files are in memory. The variants of a case take turns in one process; a figure is
//! the median of the rounds. Figures of one thread are processor time, figures of several threads
//! are wall-clock time.
#![expect(clippy::print_stdout, reason = "that is what it is for")]

mod common;

use common::key;
use esker::internals::base::rng::split_mix;
use esker::internals::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::env::mem::MemFs;
use esker::internals::format::compression::CompressionType;
use esker::internals::format::filter::FilterPolicy;
use esker::options::BottommostLevelCompaction;
use esker::{CompactRangeOptions, Db, DbIterator, Env, Options, ReadOptions, Result};
use std::hint::black_box;
use std::sync::Arc;

fn options() -> Result<Options> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.stats_dump_period_sec = 0;
    options.cf.write_buffer_size = 1 << 30;
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table.block_cache = Some(Arc::new(Cache::new(&CacheOptions::with_capacity(1 << 30))?));
    Ok(options)
}

fn open(options: &Options) -> Result<Db> {
    Db::open(options, "/db")
}

/// The processor time of this thread, in nanoseconds.
fn processor_nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Nanoseconds of processor time per call, over `count` calls.
fn timed(count: u64, mut work: impl FnMut(u64) -> Result<()>) -> Result<f64> {
    let start = processor_nanos();
    (0..count).try_for_each(&mut work)?;
    Ok((processor_nanos() - start) / count as f64)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn spread(of: &[f64]) -> String {
    let (least, most) = of.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
    format!("{:.3} ({least:.3}-{most:.3})", median(of.to_vec()))
}

fn line(case: &str, figure: &str) {
    println!("{case:<74} {figure}");
}

fn snapshots(rounds: u64) -> Result<()> {
    let db = open(&options()?)?;
    for live in [0, 10_000] {
        let mut held = Vec::new();
        for i in 0..live {
            db.put(key(i), b"value")?;
            held.push(db.snapshot());
        }
        let pair = |_| {
            black_box(db.snapshot());
            Ok(())
        };
        timed(10_000, pair)?;
        let figures = (0..rounds).map(|_| timed(200_000, pair)).collect::<Result<Vec<_>>>()?;
        line(&format!("snapshot taken and released, {live} live, ns"), &spread(&figures));
    }
    Ok(())
}

/// Nanoseconds of one thread per write, over `count` writes, while `threads` threads repeat
/// `beside`.
fn beside(
    threads: usize,
    count: u64,
    write: impl Fn(u64) -> Result<()>,
    beside: impl Fn() + Sync,
) -> Result<f64> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    beside();
                }
            });
        }
        let written = timed(count, &write);
        stop.store(true, Ordering::Relaxed);
        written
    })
}

fn snapshots_beside_a_writer(rounds: u64) -> Result<()> {
    let db = open(&options()?)?;
    let next = AtomicU64::new(0);
    let put = |_| db.put(key(split_mix(next.fetch_add(1, Ordering::Relaxed)) % 1_000_000), [b'v'; 100]);
    beside(0, 50_000, put, || {})?;
    // The baseline: the same number of threads, each of which takes and drops a lock of its own.
    let alone = || {
        beside(16, 100_000, put, || drop(black_box(Arc::new(esker::internals::base::sync::Mutex::new(0)))))
    };
    // The least work of a snapshot or read: load the sequence number that each put changes.
    let look = || beside(16, 100_000, put, || _ = black_box(db.latest_sequence_number()));
    let with = || beside(16, 100_000, put, || drop(black_box(db.snapshot())));
    let (mut looks, mut snapshots) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        // A put costs more as the memtable grows, so the second half runs in reverse order.
        let (a, b, c) = (alone()?, look()?, with()?);
        let (d, e, f) = (with()?, look()?, alone()?);
        looks.push((b + e) / (a + f));
        snapshots.push((c + d) / (a + f));
    }
    line("a writer's put beside 16 threads with snapshots / with other work", &spread(&snapshots));
    line("  beside 16 that only look at the newest number / with other work", &spread(&looks));
    Ok(())
}

fn memtable_of(tombstones: u64, keys: u64) -> Result<Db> {
    let db = open(&options()?)?;
    for i in 0..keys {
        db.put(key(i * 10), [b'v'; 100])?;
    }
    cover_nothing(&db, tombstones, keys)?;
    Ok(db)
}

/// Deletes ranges that contain no key of [`memtable_of`].
fn cover_nothing(db: &Db, tombstones: u64, keys: u64) -> Result<()> {
    (0..tombstones).try_for_each(|i| {
        let at = split_mix(i) % keys * 10;
        db.delete_range(key(at + 1), key(at + 9))
    })
}

fn tombstones(rounds: u64) -> Result<()> {
    const KEYS: u64 = 100_000;
    let read = |db: &Db, i: u64| {
        let found = db.get_pinned(key(split_mix(i) % KEYS * 10))?;
        assert!(black_box(found).is_some());
        Ok(())
    };
    // Writing 100,000 tombstones displaces the keys from the processor's caches: reads warm them
    // again.
    let warm = |db: &Db| -> Result<f64> {
        (0..4).try_for_each(|_| timed(50_000, |i| read(db, i)).map(drop))?;
        timed(50_000, |i| read(db, i))
    };
    // Two memtables of the same keys differ by more than tombstones cost. So each memtable is read
    // before and after it gets tombstones. The case without tombstones shows the error of
    // measurement.
    const COUNTS: [u64; 6] = [0, 1, 10, 100, 1000, 100_000];
    for place in ["between the keys", "behind them"] {
        let mut ratios = COUNTS.map(|_| Vec::new());
        for _ in 0..rounds {
            for (count, ratios) in COUNTS.into_iter().zip(&mut ratios) {
                let db = memtable_of(0, KEYS)?;
                let before = warm(&db)?;
                match place {
                    "between the keys" => cover_nothing(&db, count, KEYS)?,
                    _ => (KEYS..KEYS + count)
                        .try_for_each(|i| db.delete_range(key(i * 10 + 1), key(i * 10 + 9)))?,
                }
                ratios.push(warm(&db)? / before);
            }
        }
        for (count, ratios) in COUNTS.into_iter().zip(&ratios) {
            let what = format!("get in the memtable, {count} range tombstones {place} / before they came");
            line(&what, &spread(ratios));
        }
    }
    let none = memtable_of(0, KEYS)?;
    let covered = memtable_of(0, KEYS)?;
    for i in 0..1000 {
        covered.delete_range(key(i * 1000), key(i * 1000 + 1000))?;
    }
    let mut figures = Vec::new();
    for _ in 0..rounds {
        let before = timed(50_000, |i| read(&none, i))?;
        let with = timed(50_000, |i| {
            assert!(covered.get_pinned(key(split_mix(i) % KEYS * 10))?.is_none());
            Ok(())
        })?;
        figures.push(with - before);
    }
    line("get of a covered key, 1000 tombstones, more than of one that is there, ns", &spread(&figures));
    Ok(())
}

/// Measures the same scans in 25 threads: wall-clock nanoseconds per key, because the threads share
/// the processors.
fn tombstones_and_threads(rounds: u64) -> Result<()> {
    const KEYS: u64 = 100_000;
    const READS: u64 = 20_000;
    let read_all = |db: &Db| -> Result<f64> {
        let start = nanos();
        std::thread::scope(|scope| {
            let read = |thread: u64| -> Result<()> {
                (0..READS).try_for_each(|i| {
                    let found = db.get_pinned(key(split_mix(thread << 32 | i) % KEYS * 10))?;
                    assert!(black_box(found).is_some());
                    Ok(())
                })
            };
            let threads: Vec<_> = (0..25).map(|thread| scope.spawn(move || read(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        Ok((nanos() - start) / (25 * READS) as f64)
    };
    const COUNTS: [u64; 6] = [0, 1, 10, 100, 1000, 100_000];
    let mut ratios = COUNTS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (count, ratios) in COUNTS.into_iter().zip(&mut ratios) {
            // As in the case of one thread: two memtables differ.
            let db = memtable_of(0, KEYS)?;
            read_all(&db)?;
            let before = read_all(&db)?;
            cover_nothing(&db, count, KEYS)?;
            read_all(&db)?;
            ratios.push(read_all(&db)? / before);
        }
    }
    for (count, ratios) in COUNTS.into_iter().zip(&ratios) {
        let what = format!("get by 25 threads, {count} range tombstones between the keys / before they came");
        line(&what, &spread(ratios));
    }
    Ok(())
}

fn alternating(rounds: u64) -> Result<()> {
    const KEYS: u64 = 100_000;
    let db = memtable_of(100_000, KEYS)?;
    let mut next = 0;
    let mut pair = |_| {
        next += 1;
        let at = split_mix(next) % KEYS * 10;
        db.delete_range(key(at + 1), key(at + 9))?;
        black_box(db.get_pinned(key(split_mix(next + 7) % KEYS * 10))?);
        Ok(())
    };
    timed(1000, &mut pair)?;
    let figures = (0..rounds).map(|_| timed(5000, &mut pair)).collect::<Result<Vec<_>>>()?;
    line("delete_range and get in turn at 100,000 tombstones, ns the pair", &spread(&figures));
    Ok(())
}

fn fill_with_threads(rounds: u64) -> Result<()> {
    let fill = |tombstones: u64| -> Result<f64> {
        let db = open(&options()?)?;
        for i in 0..tombstones {
            db.delete_range(key(i * 10 + 1), key(i * 10 + 9))?;
        }
        let start = nanos();
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let work = || -> Result<()> {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= 300_000 {
                        return Ok(());
                    }
                    db.put(key(split_mix(i) % 10_000_000), [b'v'; 100])?;
                }
            };
            let threads: Vec<_> = (0..25).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        Ok(nanos() - start)
    };
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        let (a, with, b) = (fill(0)?, fill(1000)?, fill(0)?);
        ratios.push(2.0 * with / (a + b));
    }
    line("fill by 25 threads over 1000 range tombstones / over none, time", &spread(&ratios));
    Ok(())
}

/// Moves over a million deleted keys between two live ones, under an old snapshot.
fn crossings() -> Result<()> {
    const KEYS: u64 = 1_000_000;
    for layout in ["memtable", "one file", "memtable over a file", "the same at once", "file over a file"] {
        let mut with = options()?;
        with.cf.deleted_run_block_min_entries = 64;
        with.cf.deleted_run_memory_min_keys = 256;
        let db = open(&with)?;
        (0..KEYS + 2).try_for_each(|i| db.put(key(i), b"value"))?;
        if layout != "memtable" {
            db.flush()?;
            compact(&db)?;
        }
        let before = db.snapshot();
        (1..=KEYS).try_for_each(|i| db.delete(key(i)))?;
        match layout {
            "one file" => compact(&db)?,
            "file over a file" => db.flush()?,
            _ => {}
        }
        if layout != "the same at once" {
            db.wait_for_background_work()?;
        }
        for way in ["next", "prev", "seek", "seek_for_prev"] {
            let mut figures = Vec::new();
            for _ in 0..20 {
                let mut iter = db.iter()?;
                match way {
                    "next" => iter.seek_to_first(),
                    "prev" => iter.seek_to_last(),
                    _ => {}
                }
                let start = processor_nanos();
                match way {
                    "next" => iter.next(),
                    "prev" => iter.prev(),
                    "seek" => iter.seek(key(KEYS / 2)),
                    _ => iter.seek_for_prev(key(KEYS / 2)),
                }
                figures.push((processor_nanos() - start) / 1000.0);
                let expected = key(if matches!(way, "next" | "seek") { KEYS + 1 } else { 0 });
                assert_eq!(iter.key(), expected);
            }
            let first = figures[0];
            let case = format!("{way} across a million deleted keys, {layout}, us");
            line(&case, &format!("first {first:.1}, then {:.1}", median(figures[1..].to_vec())));
        }
        drop(before);
    }
    Ok(())
}

fn compact(db: &Db) -> Result<()> {
    compact_from(db, None)
}

fn compact_from(db: &Db, begin: Option<&[u8]>) -> Result<()> {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&force, &db.default_column_family(), begin, None)
}

fn scan(iter: &mut DbIterator, from: u64, rows: u64) -> Result<()> {
    iter.seek(key(from));
    for _ in 0..rows {
        assert!(iter.valid());
        black_box(iter.value().len());
        iter.next();
    }
    iter.status()
}

/// Compares scans that follow the super versions with scans that stay where they began. Super
/// versions are replaced at intervals.
fn scans(rounds: u64) -> Result<()> {
    const KEYS: u64 = 1_000_000;
    let db = open(&options()?)?;
    (0..KEYS).try_for_each(|i| db.put(key(i), [b'v'; 100]))?;
    compact(&db)?;
    let snapshot = db.snapshot();
    let family = db.default_column_family();
    for millis in [10, 1000] {
        let stop = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let changing = scope.spawn(|| change_super_versions(&db, 3 * millis, KEYS, &stop));
            let measured = scan_sizes(&db, &snapshot, &family, millis, rounds);
            stop.store(true, Ordering::Relaxed);
            changing.join().expect("no panic").and(measured)
        });
        outcome?;
    }
    Ok(())
}

/// Flushes and compacts in turn, with keys behind the scanned ones. The number of files stays the
/// same, and scanned blocks stay in the cache. So a scan that moves to new super versions pays only
/// for their changes, not for more files or first reads.
fn change_super_versions(db: &Db, millis: i64, from: u64, stop: &AtomicBool) -> Result<()> {
    let tick = rustix::time::Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
    let mut change = 0;
    while !stop.load(Ordering::Relaxed) {
        let _interrupted = rustix::thread::nanosleep(&tick);
        change += 1;
        if change % 2 == 0 {
            compact_from(db, Some(&key(from)))?;
        } else {
            db.put(key(from + change % 100), b"value")?;
            db.flush()?;
        }
    }
    Ok(())
}

/// In a round three iterators read the same number of rows: one follows the super versions, and two
/// stay. They take turns of some thousand rows, in alternating order, so that other work of the
/// machine affects all of them. Each runs for a third of the time. A super version is installed
/// every 3 × `millis`, so each iterator meets a new one every `millis` of its own time.
fn scan_sizes(
    db: &Db,
    snapshot: &esker::Snapshot,
    family: &esker::ColumnFamilyHandle,
    millis: i64,
    rounds: u64,
) -> Result<()> {
    for rows in [100, 20_000, 400_000] {
        let scans = (4000 / rows).max(1);
        let turns = (800_000 / rows / scans).max(6);
        let round = |round: u64| -> Result<[f64; 3]> {
            let open = |follows: bool| {
                let mut options = ReadOptions::new().snapshot(snapshot);
                options.pin_data = !follows;
                db.iter_opt(options, family)
            };
            let (mut iters, mut nanos) = ([open(true)?, open(false)?, open(false)?], [0.0; 3]);
            for turn in 0..turns {
                for place in 0..3 {
                    let at = if turn % 2 == 0 { turn + place } else { turn + 3 - place } as usize % 3;
                    let from = |i| split_mix(((round * turns + turn) * 3 + place) * scans + i) % 500_000;
                    nanos[at] += timed(scans, |i| scan(&mut iters[at], from(i), rows))?;
                }
            }
            Ok(nanos)
        };
        round(0)?;
        let (mut ratios, mut noise) = (Vec::new(), Vec::new());
        for i in 1..=rounds {
            let [follows, stays, also_stays] = round(i)?;
            ratios.push(2.0 * follows / (stays + also_stays));
            noise.push(stays / also_stays);
        }
        let case = format!("scan of {rows} rows, a super version every {millis} ms: refresh on / off");
        line(&case, &spread(&ratios));
        line("  off / off in the same turns", &spread(&noise));
    }
    Ok(())
}

/// Compares the refresh of an iterator over 100 files with the making of a new one. The newer super
/// version has the same runs, or one memtable has become a file.
fn refreshing(rounds: u64) -> Result<()> {
    for flushes in [false, true] {
        let db = open(&options()?)?;
        let put = |file: u64| (0..200).try_for_each(|i| db.put(key(i * 1000 + file), [b'v'; 100]));
        for file in 0..100 {
            put(file)?;
            db.flush()?;
        }
        let family = db.default_column_family();
        let (mut go_over, mut make, mut seek) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds * 5 {
            db.put(key(1), round.to_le_bytes())?;
            let snapshot = db.snapshot();
            let at = || ReadOptions::new().snapshot(&snapshot);
            let mut iter = db.iter_opt(at(), &family)?;
            iter.seek(key(100_000));
            if flushes {
                db.flush()?;
            } else {
                db.set_options(&family, &[("max_sequential_skip_in_iterations", "8")])?;
            }
            let start = processor_nanos();
            iter.next();
            let went = processor_nanos();
            let mut fresh = db.iter_opt(at(), &family)?;
            let made = processor_nanos();
            fresh.seek(key(100_000));
            let sought = processor_nanos();
            assert!(iter.valid() && fresh.valid());
            go_over.push((went - start) / 1000.0);
            make.push((made - went) / 1000.0);
            seek.push((sought - made) / 1000.0);
        }
        let what = if flushes { "a memtable has become a file" } else { "the same runs" };
        line(&format!("a step over to another super version, 100 files, {what}, us"), &spread(&go_over));
        line("making an iterator over 100 files, us", &spread(&make));
        line("seeking it, us", &spread(&seek));
    }
    Ok(())
}

/// The time for which a running scan keeps a replaced version alive.
fn releasing(rounds: u64) -> Result<()> {
    const KEYS: u64 = 200_000;
    let db = open(&options()?)?;
    (0..KEYS).try_for_each(|i| db.put(key(i), [b'v'; 100]))?;
    compact(&db)?;
    let mut iter = db.iter()?;
    let stop = AtomicBool::new(false);
    let mut millis = std::thread::scope(|scope| {
        let scanning = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if !iter.valid() {
                    iter.seek_to_first();
                }
                black_box(iter.value().len());
                iter.next();
            }
        });
        let released = (0..rounds * 40).map(|round| -> Result<f64> {
            db.put(key(round), b"value")?;
            db.flush()?;
            let start = nanos();
            while db.property("rocksdb.num-live-versions").as_deref() != Some("1") {
                std::thread::yield_now();
            }
            Ok((nanos() - start) / 1e6)
        });
        let released = released.collect::<Result<Vec<_>>>();
        stop.store(true, Ordering::Relaxed);
        scanning.join().expect("no panic");
        released
    })?;
    millis.sort_by(f64::total_cmp);
    let at = |part: f64| millis[((millis.len() - 1) as f64 * part) as usize];
    let text = format!("{:.3}, 90%: {:.3}, 99%: {:.3}, most: {:.3}", at(0.5), at(0.9), at(0.99), at(1.0));
    line("a version is let go beside a scan, ms after it was replaced: median", &text);
    Ok(())
}

fn directions(rounds: u64) -> Result<()> {
    for compression in [CompressionType::None, CompressionType::Lz4] {
        directions_of(compression, rounds)?;
    }
    Ok(())
}

fn directions_of(compression: CompressionType, rounds: u64) -> Result<()> {
    const KEYS: u64 = 1_000_000;
    let mut options = options()?;
    options.cf.compression = compression;
    let db = open(&options)?;
    (0..KEYS).try_for_each(|i| db.put(key(i), [b'v'; 100]))?;
    compact(&db)?;
    let (mut ratios, mut nanos) = (Vec::new(), (Vec::new(), Vec::new()));
    for round in 0..=rounds {
        let mut iter = db.iter()?;
        iter.seek_to_first();
        let forward = timed(KEYS - 1, |_| {
            black_box(iter.value().len());
            iter.next();
            Ok(())
        })?;
        let mut iter = db.iter()?;
        iter.seek_to_last();
        let backward = timed(KEYS - 1, |_| {
            black_box(iter.value().len());
            iter.prev();
            Ok(())
        })?;
        if round > 0 {
            ratios.push(forward / backward);
            nanos.0.push(forward);
            nanos.1.push(backward);
        }
    }
    line(&format!("readreverse, how many times as fast as readseq, {compression:?}"), &spread(&ratios));
    line("  readseq, ns", &spread(&nanos.0));
    line("  readreverse, ns", &spread(&nanos.1));
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let wanted = args.next().unwrap_or_default();
    let cases: [(&str, &dyn Fn() -> Result<()>); 11] = [
        ("snapshots", &|| snapshots(rounds)),
        ("beside", &|| snapshots_beside_a_writer(rounds)),
        ("tombstones", &|| tombstones(rounds)),
        ("threads", &|| tombstones_and_threads(rounds)),
        ("alternating", &|| alternating(rounds)),
        ("fill", &|| fill_with_threads(rounds)),
        ("crossings", &crossings),
        ("scans", &|| scans(rounds)),
        ("refresh", &|| refreshing(rounds)),
        ("release", &|| releasing(rounds)),
        ("directions", &|| directions(rounds)),
    ];
    cases.into_iter().filter(|(name, _)| name.contains(wanted.as_str())).try_for_each(|(_, case)| case())
}
