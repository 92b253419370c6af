//! The cost of ranges planned together (`Db::new_multi_scan`) beside one iterator that seeks the
//! start of each range.
//!
//! `cargo run --release -p esker-bench --example multi_scan -- DIRECTORY [keys] [rounds]`
//!
//! Both take turns in one process. Times are wall-clock times, because reads wait for files. For
//! each case, the output has two medians of the rounds. `loop` is the iterator's time. `together`
//! is the ratio of the planned ranges' time to the iterator's.
//!
//! There are 1 to 100 ranges of 1, 10 or 100 rows, at random places. The block cache holds
//! everything (`warm`) or nothing (`cold`: files are read, mostly from the system's page cache).
#![expect(clippy::print_stdout, reason = "that is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it waits for real files, and measures for how long")]

mod common;

use common::key;
use esker::internals::base::rng::split_mix;
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::format::compression::CompressionType;
use esker::{Db, MultiScanArgs, Options, ReadOptions, Result};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn open(path: &Path, cache_bytes: usize) -> Result<Db> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.compression = CompressionType::None;
    options.cf.table.block_cache = Some(Arc::new(Cache::new(&CacheOptions::with_capacity(cache_bytes))?));
    Db::open(&options, path)
}

/// Fills several levels: writes each key once, compacts, and then writes `keys / 2` random keys.
fn fill(path: &Path, keys: u64) -> Result<()> {
    let db = open(path, 1 << 20)?;
    (0..keys).try_for_each(|number| db.put(key(number), [b'v'; 100]))?;
    db.compact_range(None, None)?;
    (0..keys / 2).try_for_each(|number| db.put(key(split_mix(number) % keys), [b'w'; 100]))?;
    db.flush()?;
    db.wait_for_background_work()?;
    db.close()
}

/// First keys of ranges that do not overlap, ascending.
fn starts(seed: u64, ranges: u64, rows: u64, keys: u64) -> Vec<u64> {
    let part = keys / ranges;
    (0..ranges).map(|i| i * part + split_mix(seed * 1000 + i) % (part - rows)).collect()
}

fn together(db: &Db, starts: &[u64], rows: u64) -> Result<usize> {
    let mut args = MultiScanArgs::new();
    starts.iter().for_each(|&start| args.insert(key(start), key(start + rows)));
    let mut scans = db.new_multi_scan(ReadOptions::default(), &db.default_column_family(), &args)?;
    let mut bytes = 0;
    while let Some(mut scan) = scans.next_scan() {
        while let Some((_, value)) = scan.next_item()? {
            bytes += black_box(value).len();
        }
    }
    Ok(bytes)
}

fn one_by_one(db: &Db, starts: &[u64], rows: u64) -> Result<usize> {
    let mut iter = db.iter()?;
    let mut bytes = 0;
    for &start in starts {
        let limit = key(start + rows);
        iter.seek(key(start));
        while iter.valid() && iter.key() < limit.as_slice() {
            bytes += black_box(iter.value()).len();
            iter.next();
        }
        iter.status()?;
    }
    Ok(bytes)
}

/// Microseconds of `work`, and its result.
fn timed(work: impl FnOnce() -> Result<usize>) -> Result<(f64, usize)> {
    let start = Instant::now();
    let bytes = work()?;
    Ok((start.elapsed().as_secs_f64() * 1e6, bytes))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().unwrap_or_else(|| "/tmp/esker-multi-scan".to_owned());
    let keys: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(500_000);
    let rounds: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(15);
    let path = Path::new(&directory);
    fill(path, keys)?;
    for (case, cache_bytes) in [("warm", 1 << 30), ("cold", 0)] {
        let db = open(path, cache_bytes)?;
        for (ranges, rows) in [(1, 10), (10, 1), (10, 10), (10, 100), (100, 10)] {
            let (mut ratios, mut loops) = (Vec::new(), Vec::new());
            for round in 0..=rounds {
                // Without a cache the two sides read different places; with one they read the same.
                let places = |side: u64| starts(round * 4 + side, ranges, rows, keys);
                let mut at = [places(0), places(1), places(2), places(3)];
                if cache_bytes > 0 {
                    at = [places(0), places(0), places(0), places(0)];
                    together(&db, &at[0], rows)?;
                }
                let (before, expected) = timed(|| one_by_one(&db, &at[0], rows))?;
                let (a, first) = timed(|| together(&db, &at[1], rows))?;
                let (b, second) = timed(|| together(&db, &at[2], rows))?;
                let (after, _) = timed(|| one_by_one(&db, &at[3], rows))?;
                assert_eq!((first, second), (expected, expected), "all keys are there");
                if round > 0 {
                    ratios.push((a + b) / (before + after));
                    loops.push((before + after) / 2.0);
                }
            }
            let (ratio, alone) = (median(ratios), median(loops));
            println!(
                "{case:<5} {ranges:>4} ranges of {rows:>3} rows   loop {alone:>9.1} us   together x{ratio:.2}"
            );
        }
        db.close()?;
    }
    esker::destroy_db(&Options::default().db, path)
}
