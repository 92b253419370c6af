//! Workloads of users, measured in processor time: a queue, a purge of old rows, a load with scans,
//! and a queue that is drained.
//!
//! In: names of workloads (all if there are none), `rows=N`, `dir=PATH`, and `pre_scans=N` for the
//! option `pre_scan_min_entries`. Out: a line for each phase: its name, processor time of the whole
//! process in ms (background work included), elapsed time in ms, and the longest operation in µs.
//!
//! ```text
//! cargo run --release -p esker-bench --example workloads -- \
//!     queue purge load drain rows=1000000 pre_scans=0
//! ```
//!
//! `drain` prints a line for each place of the messages: µs of processor time a pop, for each tenth
//! of the queue. `case=WORD` chooses places. Under callgrind, `pops=N` ends each case early.
//!
//! A mechanism of the engine stays if one of these takes over 3% more without it (median of five
//! interleaved pairs). Keys follow from fixed numbers; every answer is checked.
#![expect(clippy::print_stdout, reason = "that is what it is for")]
#![expect(clippy::disallowed_methods, reason = "the databases lie on the real disk")]

use esker::internals::table::BlockCache;
use esker::options::CacheOptions;
use esker::{Db, Options, ReadOptions, Result, WriteBatch};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const VALUE: [u8; 100] = [b'v'; 100];
/// Number of messages, rows or keys in a batch.
const BATCH: u64 = 100;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let rows = argument("rows").map_or(1_000_000, |rows| rows.parse().expect("rows=N"));
    let dir = argument("dir").map_or_else(|| std::env::temp_dir().join("esker-workloads"), PathBuf::from);
    let names: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.contains('=')).collect();
    for (name, workload) in
        [("queue", queue as fn(&Path, u64) -> Result<()>), ("purge", purge), ("load", load), ("drain", drain)]
    {
        if names.is_empty() || names.contains(&name) {
            _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).expect("a directory for the databases");
            workload(&dir.join(name), rows).expect(name);
        }
    }
    _ = std::fs::remove_dir_all(&dir);
}

/// The text behind `name=` on the command line.
fn argument(name: &str) -> Option<String> {
    std::env::args().find_map(|arg| Some(arg.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Pushes and pops `rows` messages, with some thousands in the queue at any time. The consumer
/// makes an iterator, reads the first message or the first `BATCH`, and deletes the messages that
/// it read.
fn queue(dir: &Path, rows: u64) -> Result<()> {
    for (name, popped_together) in [("queue_pop_one", 1), ("queue_pop_100", BATCH)] {
        let db = open(&dir.with_file_name(name))?;
        let mut phase = Phase::begin(name);
        let (mut pushed, mut popped) = (0, 0);
        while popped < rows {
            let backlog = if pushed < rows { 50 * BATCH } else { 0 };
            while pushed < rows && pushed < popped + backlog + BATCH {
                put_rows(&db, pushed..pushed + BATCH, number_key)?;
                pushed += BATCH;
            }
            for _ in 0..BATCH / popped_together {
                phase.operation(|| pop(&db, popped..popped + popped_together))?;
                popped += popped_together;
            }
        }
        let mut iter = db.iter()?;
        iter.seek_to_first();
        assert!(!iter.valid() && iter.status().is_ok());
        drop(iter);
        settle(&db)?;
        phase.end();
    }
    Ok(())
}

fn pop(db: &Db, numbers: std::ops::Range<u64>) -> Result<()> {
    let mut iter = db.iter()?;
    iter.seek_to_first();
    let mut batch = WriteBatch::new();
    for number in numbers {
        assert_eq!(iter.key(), number_key(number));
        black_box(iter.value());
        batch.delete(iter.key())?;
        iter.next();
    }
    drop(iter);
    db.write(&mut batch)
}

/// Purges rows, keyed by time or in no order: a scan finds the older half, and its keys are
/// deleted. Then scans while rows are written, from the first row and from any row.
fn purge(dir: &Path, rows: u64) -> Result<()> {
    for (name, key) in [("purge_by_time", number_key as fn(u64) -> [u8; 16]), ("purge_scattered", mixed_key)]
    {
        let db = open(&dir.with_file_name(name))?;
        (0..rows).step_by(BATCH as usize).try_for_each(|n| put_rows(&db, n..n + BATCH, key))?;
        settle(&db)?;
        let mut phase = Phase::begin(&format!("{name}: deletions"));
        for start in (0..rows / 2).step_by(BATCH as usize) {
            let mut batch = WriteBatch::new();
            (start..start + BATCH).try_for_each(|n| batch.delete(key(n)))?;
            phase.operation(|| db.write(&mut batch))?;
        }
        phase.end();
        // After a purge, an application usually begins to scan a little later.
        std::thread::sleep(Duration::from_millis(20));
        let mut phase = Phase::begin(&format!("{name}: first scan"));
        phase.operation(|| scan(&db, None, 100))?;
        phase.end();
        let mut phase = Phase::begin(&format!("{name}: scans"));
        for n in 0..rows / 50 {
            put_rows(&db, rows + n..rows + n + 1, key)?;
            let from = if n % 2 == 0 { None } else { Some(key(n * 7_919 % rows)) };
            phase.operation(|| scan(&db, from, 100))?;
        }
        phase.operation(|| scan(&db, None, usize::MAX))?;
        settle(&db)?;
        phase.end();
    }
    Ok(())
}

/// Loads rows in no order. Then scans 10 and 100 rows in both directions, and all rows; then reads
/// batches of keys.
fn load(dir: &Path, rows: u64) -> Result<()> {
    let db = open(&dir.with_file_name("load"))?;
    let phase = Phase::begin("load");
    (0..rows).step_by(BATCH as usize).try_for_each(|n| put_rows(&db, n..n + BATCH, mixed_key))?;
    settle(&db)?;
    phase.end();
    for (count, scans) in [(10, rows / 5), (100, rows / 50)] {
        let mut phase = Phase::begin(&format!("load: scans of {count}"));
        for n in 0..scans {
            phase.operation(|| scan(&db, Some(mixed_key(n * 7_919 % rows)), count))?;
        }
        phase.end();
    }
    let mut phase = Phase::begin("load: backward scans of 100");
    for n in 0..rows / 50 {
        phase.operation(|| {
            let mut iter = db.iter()?;
            iter.seek_for_prev(mixed_key(n * 7_919 % rows));
            for _ in 0..100 {
                black_box(iter.item());
                iter.prev();
            }
            iter.status()
        })?;
    }
    phase.end();
    let mut phase = Phase::begin("load: full scans");
    (0..5).try_for_each(|_| phase.operation(|| scan(&db, None, usize::MAX)))?;
    phase.end();
    drop(db);
    for (name, cache, direct) in
        [("cached", 512 << 20, false), ("8 MiB cache", 8 << 20, false), ("direct", 8 << 20, true)]
    {
        let db = open_with(&dir.with_file_name("load"), cache, direct)?;
        // Fewer rows, because direct reads wait for the device.
        let rows = if direct { rows / 10 } else { rows };
        for count in [2_u64, 4, 10, 30, 100] {
            let lookups = rows / 2 / count;
            let mut phase = Phase::begin(&format!("load: gets of {count}, {name}"));
            for n in 0..lookups {
                let keys: Vec<[u8; 16]> =
                    (0..count).map(|i| mixed_key((n * count + i) * 7_919 % rows)).collect();
                phase.operation(|| {
                    let found = db.multi_get(&keys);
                    found.into_iter().try_for_each(|value| value.map(|value| assert!(value.is_some())))
                })?;
            }
            phase.end();
        }
    }
    Ok(())
}

/// Where the messages of a queue lie when a consumer drains it, and from which end.
#[derive(Clone, Copy, PartialEq)]
enum Drain {
    Level0,
    LastLevel,
    Memtable,
    FromTheEnd,
    BesideSnapshot,
    AfterReopen,
}

/// Pushes `rows` messages, and then pops all of them one by one. Their deletions stay in the
/// memtable.
fn drain(dir: &Path, rows: u64) -> Result<()> {
    for (name, case) in [
        ("in level 0", Drain::Level0),
        ("in the last level", Drain::LastLevel),
        ("in the memtable", Drain::Memtable),
        ("from the end", Drain::FromTheEnd),
        ("beside a snapshot", Drain::BesideSnapshot),
        ("after a reopen", Drain::AfterReopen),
    ] {
        if argument("case").is_some_and(|word| !name.contains(&word)) {
            continue;
        }
        let dir = dir.with_file_name(name.replace(' ', "_"));
        let options = options_of_drain(case)?;
        let mut db = Db::open(&options, &dir)?;
        (0..rows).step_by(BATCH as usize).try_for_each(|n| put_rows(&db, n..n + BATCH, number_key))?;
        match case {
            Drain::Memtable => {}
            Drain::LastLevel => db.compact_range(None, None)?,
            _ => settle(&db)?,
        }
        let pops = argument("pops").map_or(rows, |pops| pops.parse().expect("pops=N"));
        let snapshot = (case == Drain::BesideSnapshot).then(|| db.snapshot());
        let mut micros = Vec::new();
        for tenth in 0..10 {
            if case == Drain::AfterReopen && tenth == 5 {
                drop(db);
                db = Db::open(&options, &dir)?;
            }
            let start = processor_time();
            for number in rows / 10 * tenth..(rows / 10 * (tenth + 1)).min(pops) {
                pop_from(&db, number, rows, case == Drain::FromTheEnd)?;
            }
            let took = processor_time().saturating_sub(start);
            micros.push(format!("{:.2}", took.as_secs_f64() * 1e6 / (rows / 10) as f64));
        }
        drop(snapshot);
        println!("drain: {name:<25}\t{}", micros.join(" "));
    }
    Ok(())
}

fn options_of_drain(case: Drain) -> Result<Options> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_recovery = true;
    options.db.avoid_flush_during_shutdown = true;
    options.cf.disable_auto_compactions = case != Drain::LastLevel;
    options.cf.write_buffer_size = if case == Drain::Memtable { 1 << 30 } else { 64 << 20 };
    options.cf.table.block_cache = Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(512 << 20))?));
    Ok(options)
}

/// Makes an iterator, checks that the first (last) message is the one called for, and deletes it.
fn pop_from(db: &Db, number: u64, rows: u64, backward: bool) -> Result<()> {
    let mut iter = db.iter()?;
    let number = if backward { rows - 1 - number } else { number };
    if backward {
        iter.seek_to_last()
    } else {
        iter.seek_to_first()
    }
    assert_eq!(iter.key(), number_key(number));
    black_box(iter.value());
    drop(iter);
    db.delete(number_key(number))
}

fn scan(db: &Db, from: Option<[u8; 16]>, count: usize) -> Result<()> {
    let mut iter = db.iter_opt(ReadOptions::default(), &db.default_column_family())?;
    match from {
        Some(key) => iter.seek(key),
        None => iter.seek_to_first(),
    }
    let mut seen = 0;
    while iter.valid() && seen < count {
        black_box((iter.key(), iter.value()));
        seen += 1;
        iter.next();
    }
    iter.status()
}

fn open(dir: &Path) -> Result<Db> {
    open_with(dir, 512 << 20, false)
}

fn open_with(dir: &Path, cache_bytes: usize, direct: bool) -> Result<Db> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.use_direct_reads = direct;
    options.cf.write_buffer_size = 8 << 20;
    options.cf.table.block_cache =
        Some(Arc::new(BlockCache::new(&CacheOptions::with_capacity(cache_bytes))?));
    if let Some(entries) = argument("pre_scans") {
        options.cf.pre_scan_min_entries = entries.parse().expect("pre_scans=N");
    }
    Db::open(&options, dir)
}

fn put_rows(db: &Db, numbers: std::ops::Range<u64>, key: fn(u64) -> [u8; 16]) -> Result<()> {
    let mut batch = WriteBatch::new();
    for number in numbers {
        batch.put(key(number), VALUE)?;
    }
    db.write(&mut batch)
}

/// Waits for flushes and compactions.
fn settle(db: &Db) -> Result<()> {
    db.flush()?;
    db.wait_for_background_work()
}

/// A key that ascends with the number, as times and places in a queue do.
fn number_key(number: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A key in no order. Different numbers have different keys.
fn mixed_key(number: u64) -> [u8; 16] {
    let mut key = [b'm'; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

/// The cost of a part of a workload.
struct Phase {
    name: String,
    processor: Duration,
    start: Instant,
    longest: Duration,
}

impl Phase {
    fn begin(name: &str) -> Phase {
        Phase {
            name: name.to_owned(),
            processor: processor_time(),
            start: Instant::now(),
            longest: Duration::ZERO,
        }
    }

    fn operation(&mut self, operation: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        operation()?;
        self.longest = self.longest.max(start.elapsed());
        Ok(())
    }

    fn end(self) {
        let processor = processor_time().saturating_sub(self.processor).as_millis();
        let (elapsed, longest) = (self.start.elapsed().as_millis(), self.longest.as_micros());
        println!("{:<32}\t{processor:>8}\t{elapsed:>8}\t{longest:>8}", self.name);
    }
}

/// Processor time of all threads of this process since its start.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("under a second"))
}
