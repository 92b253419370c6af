//! The cost of remembering a run of deleted keys, and the saving of the next scan.
//!
//! `cargo run --release -p esker-bench --example deleted_run_memory -- [rounds]`
//!
//! Each group has one live key and then deleted ones; the values are in one file, the deletions in
//! another. Two scans go through all groups. The figures are nanoseconds per group, medians of the
//! rounds, in three cases that take turns:
//! * `deleted_run_memory_min_keys` is 0: the scan steps over each run.
//! * It is the length of a run: the first scan steps over each run and remembers it.
//! * The second scan skips the remembered runs.
#![expect(clippy::print_stdout, reason = "that is what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::env::mem::MemFs;
use esker::internals::table::BlockCache;
use esker::{Db, Env, Options, Result};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Groups of keys.
const GROUPS: u64 = 400;

/// Files and a block cache that all databases with one length of runs share.
struct Shared {
    env: Env,
    cache: Arc<BlockCache>,
}

fn open(shared: &Shared, min_keys: u64) -> Result<Db> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = shared.env.clone();
    options.cf.table.block_cache = Some(shared.cache.clone());
    options.cf.disable_auto_compactions = true;
    (options.cf.deleted_run_block_min_entries, options.cf.deleted_run_memory_min_keys) = (0, min_keys);
    Db::open(&options, "/db")
}

fn key(group: u64, number: u64) -> String {
    format!("{group:08}{number:08}")
}

/// Puts values, and then deletes all keys of each group but the first.
fn fill(shared: &Shared, run: u64) -> Result<()> {
    let db = open(shared, 0)?;
    for group in 0..GROUPS {
        (0..=run).try_for_each(|number| db.put(key(group, number), [b'v'; 100]))?;
    }
    db.flush()?;
    for group in 0..GROUPS {
        (1..=run).try_for_each(|number| db.delete(key(group, number)))?;
    }
    db.flush()?;
    db.close()
}

/// Scans all groups. Returns nanoseconds per group.
fn scan(db: &Db) -> Result<f64> {
    let mut iter = db.iter()?;
    let (start, mut keys) = (Instant::now(), 0);
    iter.seek_to_first();
    while iter.valid() {
        keys += 1;
        black_box(iter.value());
        iter.next();
    }
    let nanos = start.elapsed().as_secs_f64() * 1e9;
    iter.status()?;
    assert_eq!(keys, GROUPS, "one key of each group is there");
    Ok(nanos / GROUPS as f64)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<()> {
    let rounds: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(9);
    println!("deleted keys   stepped over   and remembered   skipped over   ns for each run");
    for run in [4, 8, 16, 32, 64, 128, 256, 1024] {
        let cache = Arc::new(Cache::new(&CacheOptions::with_capacity(1 << 30))?);
        let shared = Shared { env: Env::with_fs(Arc::new(MemFs::new())), cache };
        fill(&shared, run)?;
        let (mut stepped, mut remembered, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let db = open(&shared, 0)?;
            scan(&db)?;
            stepped.push(scan(&db)?);
            db.close()?;
            let db = open(&shared, run)?;
            remembered.push(scan(&db)?);
            skipped.push(scan(&db)?);
            db.close()?;
        }
        let (stepped, remembered, skipped) = (median(stepped), median(remembered), median(skipped));
        println!("{run:>12}   {stepped:>12.0}   {remembered:>14.0}   {skipped:>11.0}");
    }
    Ok(())
}
