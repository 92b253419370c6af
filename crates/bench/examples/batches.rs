//! The cost of a key in a batch beside a single `get` of it: batches of 1 to 1000 keys, in the
//! memtable and in tables.
//!
//! `cargo run --release -p esker-bench --example batches -- [keys] [rounds] [word of the case] [one
//! size]`
//!
//! Both sides take turns in one process. Times are processor time; each figure is the median of
//! the rounds' ratios. Keys are drawn at random from all keys, from 500 neighbours or from 5. The
//! block cache holds everything or, in the cases `cold`, nothing. The cold cases read blocks from
//! memory files, or from files in TMPDIR that the kernel has in memory (`files`).
#![expect(clippy::print_stdout, reason = "that is what it is for")]

mod common;

use common::{Key, key};
use esker::internals::base::rng::split_mix;
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::env::mem::MemFs;
use esker::internals::format::compression::CompressionType;
use esker::internals::format::filter::FilterPolicy;
use esker::{ColumnFamilyHandle, Db, Env, MultiGetOutput, Options, PinnedBytes, ReadOptions, Result};
use esker_testkit::TempDir;
use std::hint::black_box;
use std::sync::Arc;

const BATCHES: [usize; 12] = [1, 2, 3, 4, 8, 12, 16, 32, 64, 200, 500, 1000];

/// Keys that one side reads in a turn.
const TURN: usize = 20_000;

/// The place of a case's keys.
struct Place {
    name: &'static str,
    /// Whether blocks are in the block cache; otherwise each call reads them from the file.
    is_cached: bool,
    /// Whether files are on a disk; otherwise they are in memory, and no system call reads them.
    has_real_files: bool,
}

const PLACES: [Place; 4] = [
    Place { name: "memtable", is_cached: true, has_real_files: false },
    Place { name: "tables", is_cached: true, has_real_files: false },
    Place { name: "tables-cold", is_cached: false, has_real_files: false },
    Place { name: "files-cold", is_cached: false, has_real_files: true },
];

fn open(keys: u64, place: &Place, dir: &TempDir) -> Result<Db> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    if !place.has_real_files {
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    }
    options.db.stats_dump_period_sec = 0;
    options.cf.write_buffer_size = 1 << 30;
    options.cf.compression = CompressionType::None;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    let capacity = if place.is_cached { 1 << 30 } else { 1 << 20 };
    options.cf.table.block_cache = Some(Arc::new(Cache::new(&CacheOptions::with_capacity(capacity))?));
    let db = Db::open(&options, dir.path().join("db"))?;
    let mut numbers: Vec<u64> = (0..keys).collect();
    numbers.sort_unstable_by_key(|&number| split_mix(number));
    numbers.into_iter().try_for_each(|number| db.put(key(number), [b'v'; 100]))?;
    Ok(db)
}

struct Reader<'a> {
    db: &'a Db,
    family: ColumnFamilyHandle,
    options: ReadOptions,
    output: MultiGetOutput,
    values: Vec<Result<Option<PinnedBytes>>>,
}

impl Reader<'_> {
    fn one_by_one(&self, keys: &[Key]) -> Result<usize> {
        let mut bytes = 0;
        for key in keys {
            bytes += self.db.get_pinned_opt(&self.options, &self.family, key)?.map_or(0, |v| look_at(&v));
        }
        Ok(bytes)
    }

    fn lent(&mut self, keys: &[Key]) -> Result<usize> {
        self.db.multi_get_lent(&self.options, &self.family, keys, &mut self.output);
        self.output.iter().try_fold(0, |sum, value| Ok(sum + value?.map_or(0, look_at)))
    }

    fn pinned(&mut self, keys: &[Key]) -> Result<usize> {
        let values = self.db.multi_get_opt(&self.options, &self.family, keys);
        values.into_iter().try_fold(0, |sum, value| Ok(sum + value?.map_or(0, |v| look_at(&v))))
    }

    fn pinned_into(&mut self, keys: &[Key]) -> Result<usize> {
        self.db.multi_get_into(&self.options, &self.family, keys, &mut self.values);
        self.values.drain(..).try_fold(0, |sum, value| Ok(sum + value?.map_or(0, |v| look_at(&v))))
    }
}

/// The length of a value, after reading its first and last byte. A user reads a value; pinning it
/// alone does not.
fn look_at(value: &[u8]) -> usize {
    black_box((value[0], value[value.len() - 1]));
    value.len()
}

/// The processor time of this thread, in nanoseconds.
fn processor_nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Nanoseconds per key of `work`.
fn timed(work: impl FnOnce() -> Result<usize>) -> Result<f64> {
    let start = processor_nanos();
    black_box(work()?);
    Ok((processor_nanos() - start) / TURN as f64)
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn compare(db: &Db, case: &str, hot: u64, (rounds, size): (usize, Option<usize>)) -> Result<()> {
    let (family, options) = (db.default_column_family(), ReadOptions::default());
    let mut reader = Reader { db, family, options, output: MultiGetOutput::new(), values: Vec::new() };
    let mut drawn = 0;
    for batch in BATCHES.into_iter().filter(|batch| size.is_none_or(|size| size == *batch)) {
        let (mut single, mut lent, mut pinned, mut into) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let mut draw = || {
                drawn += 1;
                key(split_mix(drawn) % hot)
            };
            let keys: Vec<Key> = (0..TURN).map(|_| draw()).collect();
            let chunks = || keys.chunks(batch);
            let before = timed(|| chunks().try_fold(0, |sum, keys| Ok(sum + reader.one_by_one(keys)?)))?;
            let a = timed(|| chunks().try_fold(0, |sum, keys| Ok(sum + reader.lent(keys)?)))?;
            let b = timed(|| chunks().try_fold(0, |sum, keys| Ok(sum + reader.pinned(keys)?)))?;
            let c = timed(|| chunks().try_fold(0, |sum, keys| Ok(sum + reader.pinned_into(keys)?)))?;
            let after = timed(|| chunks().try_fold(0, |sum, keys| Ok(sum + reader.one_by_one(keys)?)))?;
            let one = (before + after) / 2.0;
            // The first round warms up.
            if round > 0 {
                single.push(one);
                lent.push(a / one);
                pinned.push(b / one);
                into.push(c / one);
            }
        }
        let (get, lent, pinned, into) = (median(single), median(lent), median(pinned), median(into));
        println!(
            "{case:<22} {batch:>5} {get:>8.0} ns/get   lent x{lent:.2}   pinned x{pinned:.2}   into x{into:.2}"
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let keys: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(200_000);
    let rounds: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(7);
    let wanted = args.next().unwrap_or_default();
    let size: Option<usize> = args.next().and_then(|n| n.parse().ok());
    for place in PLACES.iter().filter(|place| place.name.contains(wanted.as_str())) {
        let dir = TempDir::new("batches");
        let (db, name) = (open(keys, place, &dir)?, place.name);
        if name != "memtable" {
            db.flush()?;
            db.wait_for_background_work()?;
        }
        for (locality, hot) in [("random", keys), ("500", 500.min(keys)), ("5", 5)] {
            compare(&db, &format!("{name}/{locality}"), hot, (rounds, size))?;
        }
    }
    Ok(())
}
