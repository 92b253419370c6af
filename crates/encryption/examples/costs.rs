//! Costs of encryption: processor time and elapsed time with it, against the same work without.
//!
//! In: an empty directory. Out: a line for each kind of work: the ratio encrypted to plain, as the
//! median of interleaved rounds. `cargo run --release -p esker-encryption --example costs -- DIR`
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement on the real disk")]

use esker::options::{Env, FileSystem};
use esker::{Db, Options, Result, WriteOptions};
use esker_encryption::{EncryptedFs, EncryptionPolicy, KeyCallback, MasterKey};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;

const KEYS: usize = 200_000;
const ROUNDS: usize = 9;

/// Ways to read.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// All blocks are in the block cache.
    Cached,
    /// No block cache: from the kernel's cache.
    FromKernel,
    /// No block cache and direct I/O: from the device.
    FromDevice,
}

fn options(fs: Arc<dyn FileSystem>, reads: Reads) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(fs);
    options.db.use_direct_reads = reads == Reads::FromDevice;
    options.cf.table.no_block_cache = reads != Reads::Cached;
    if reads == Reads::Cached {
        let cache = esker::options::CacheOptions::with_capacity(256 << 20);
        options.cf.table.block_cache = esker::internals::cache::Cache::new(&cache).ok().map(Arc::new);
    }
    options
}

/// Processor seconds of this process, and seconds since its start.
fn times() -> [f64; 2] {
    let seconds = |id| {
        let time = clock_gettime(id);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    [seconds(ClockId::ProcessCPUTime), seconds(ClockId::Monotonic)]
}

fn measure(work: impl FnOnce() -> Result<()>) -> Result<[f64; 2]> {
    let before = times();
    work()?;
    let after = times();
    Ok([after[0] - before[0], after[1] - before[1]])
}

fn key(n: usize) -> String {
    format!("key{:09}", n.wrapping_mul(7919) % KEYS)
}

fn put_all(db: &Db, count: usize, sync: bool) -> Result<()> {
    let value = [0x5A; 100];
    let options = WriteOptions::new().sync(sync);
    for n in 0..count {
        db.put_opt(&options, &db.default_column_family(), key(n), value)?;
    }
    if sync { Ok(()) } else { db.flush() }
}

fn get_all(db: &Db, count: usize, seed: usize) -> Result<()> {
    for n in 0..count {
        assert!(db.get(key(n * 31 + seed))?.is_some());
    }
    Ok(())
}

fn scan_all(db: &Db) -> Result<()> {
    let mut iter = db.iter()?;
    iter.seek_to_first();
    while iter.valid() {
        iter.next();
    }
    iter.status()
}

/// Runs the work on a plain and an encrypted database by turns. Prints the median ratios.
fn compare(name: &str, mut work: impl FnMut(usize, bool) -> Result<[f64; 2]>) -> Result<()> {
    let mut ratios = [Vec::new(), Vec::new()];
    let mut plain_times = Vec::new();
    for round in 0..ROUNDS {
        let is_first = round % 2 == 0;
        let one = work(round, is_first)?;
        let two = work(round, !is_first)?;
        let (encrypted, plain) = if is_first { (one, two) } else { (two, one) };
        plain_times.push(plain[0]);
        for kind in 0..2 {
            ratios[kind].push(encrypted[kind] / plain[kind]);
        }
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let [mut processor, mut elapsed] = ratios;
    println!(
        "{name:24} processor {:.3}  elapsed {:.3}  (plain {:.3} s of processor)",
        median(&mut processor),
        median(&mut elapsed),
        median(&mut plain_times)
    );
    Ok(())
}

fn main() -> Result<()> {
    let Some(dir) = std::env::args().nth(1) else {
        println!("name an empty directory");
        return Ok(());
    };
    let dir = Path::new(&dir);
    let plain: Arc<dyn FileSystem> = Env::default().fs;
    let provider = KeyCallback(|| Ok(vec![MasterKey::from_bytes([7; 32])]));
    let fs = EncryptedFs::new(plain.clone(), Arc::new(provider), EncryptionPolicy::default())?;
    let disks: [Arc<dyn FileSystem>; 2] = [plain, Arc::new(fs)];
    let path = |name: &str, is_encrypted: bool| dir.join(format!("{name}-{is_encrypted}"));
    compare("writes", |round, is_encrypted| {
        let at = path(&format!("writes{round}"), is_encrypted);
        let db = Db::open(&options(disks[usize::from(is_encrypted)].clone(), Reads::Cached), at)?;
        measure(|| put_all(&db, KEYS, false))
    })?;
    compare("synced writes", |round, is_encrypted| {
        let at = path(&format!("synced{round}"), is_encrypted);
        let db = Db::open(&options(disks[usize::from(is_encrypted)].clone(), Reads::Cached), at)?;
        measure(|| put_all(&db, 300, true))
    })?;
    for is_encrypted in [false, true] {
        let disk = disks[usize::from(is_encrypted)].clone();
        let db = Db::open(&options(disk, Reads::Cached), path("reads", is_encrypted))?;
        put_all(&db, KEYS, false)?;
        db.compact_range(None, None)?;
    }
    for (name, reads, count) in [
        ("gets, cached", Reads::Cached, KEYS),
        ("gets, kernel's cache", Reads::FromKernel, 50_000),
        ("gets, device", Reads::FromDevice, 3000),
    ] {
        let open = |is_encrypted: bool| {
            Db::open(&options(disks[usize::from(is_encrypted)].clone(), reads), path("reads", is_encrypted))
        };
        let dbs = [open(false)?, open(true)?];
        dbs.iter().try_for_each(|db| get_all(db, KEYS.min(count * 4), 0))?;
        compare(name, |round, is_encrypted| {
            measure(|| get_all(&dbs[usize::from(is_encrypted)], count, round))
        })?;
        compare(&name.replace("gets", "scan"), |_, is_encrypted| {
            measure(|| scan_all(&dbs[usize::from(is_encrypted)]))
        })?;
    }
    Ok(())
}
