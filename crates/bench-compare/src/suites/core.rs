//! The core benchmarks of RocksDB, under their names there.
//!
//! Source: RocksDB `tools/db_bench_tool.cc`. Keys have 16 bytes, values 100. Keys are drawn with
//! repetition. A thread uses one iterator for all its seeks.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, fill, in_threads, load, load_behind, puts, reads};
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use crate::keys::{Digest, KEY_BYTES, Key, RivalValues, VALUE_BYTES, key};
use crate::measure::{Deadline, Sample};
use esker::internals::base::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The set of RocksDB's core benchmarks.
pub(crate) struct CoreSuite;

/// The steps of the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CoreStep {
    FillSeq,
    FillRandomNoWal,
    ReadMemtable,
    FillRandomThreads,
    FillRandom,
    Overwrite,
    ReadRandom,
    MultiReadRandom,
    ReadSeq,
    ReadReverse,
    SeekRandom,
    SeekNexts,
    ReadWhileWriting,
    Compact,
}

/// Keys of one batch in `multireadrandom`.
const BATCH: usize = 32;
/// Threads that write in the parallel fill.
const THREADS: u64 = 8;
/// Pairs read after each seek.
const NEXTS: usize = 100;

/// Factor for the time limit of overwriting. If the step were cut early, its rate would only show
/// the compactions that the fill caused.
const OVERWRITE_PATIENCE: f64 = 10.0;

/// Bytes per second of a writer beside readers: RocksDB's `--benchmark_write_rate_limit`.
const WRITER_BYTES_PER_SECOND: f64 = 2e6;
/// The writer sleeps when it is ahead of that rate by this time.
const WRITER_NAP: Duration = Duration::from_millis(1);

/// Seeds, one for each stream of random numbers: no step repeats the choices of another.
const FILL_SEED: u64 = 301;
const OVERWRITE_SEED: u64 = 302;
const READ_SEED: u64 = 303;
const SEEK_SEED: u64 = 304;
const WRITER_SEED: u64 = 305;
const VALUE_SEED: u64 = 306;

const WRITE_LIMIT: &str = "116 bytes into the log: one write(2) of about 0.7 µs, or 60–90 ns into a mapped log; one \
                           insertion: 2–3 dependent cache misses; every byte written at least once more by the flush";
const READ_LIMIT: &str = "filter, index and block of one table: 4–6 dependent cache misses of about 90 ns";

impl Suite for CoreSuite {
    type Step = CoreStep;

    fn steps(_plan: &BenchPlan) -> Vec<(StepInfo, CoreStep)> {
        let step = |step, name: &str, title: &str, unit: &str, limit: &str| {
            (StepInfo::new(format!("core/{name}"), title, unit, limit), step)
        };
        let mut steps = vec![
            step(CoreStep::FillSeq, "fillseq", "fillseq", "put", WRITE_LIMIT),
            step(
                CoreStep::FillRandomNoWal,
                "fillrandom-nowal",
                "fillrandom, no WAL",
                "put",
                "one insertion: 2–3 dependent cache misses",
            ),
            step(
                CoreStep::ReadMemtable,
                "readmemtable",
                "readrandom, all in the memtable",
                "get",
                "one search: 3–4 dependent cache misses of about 90 ns",
            ),
            step(CoreStep::FillRandomThreads, "fillrandom-8", "fillrandom, 8 threads", "put", WRITE_LIMIT),
            step(CoreStep::FillRandom, "fillrandom", "fillrandom", "put", WRITE_LIMIT),
            step(CoreStep::Overwrite, "overwrite", "overwrite, with its compactions", "put", WRITE_LIMIT),
            step(CoreStep::ReadRandom, "readrandom", "readrandom", "get", READ_LIMIT),
            step(
                CoreStep::MultiReadRandom,
                "multireadrandom",
                "multireadrandom, batch 32",
                "key",
                "as readrandom, but the misses of 32 keys can overlap",
            ),
            step(
                CoreStep::ReadSeq,
                "readseq",
                "readseq",
                "row",
                "116 bytes in order: about 10 ns at 12 GB/s",
            ),
            step(CoreStep::ReadReverse, "readreverse", "readreverse", "row", "116 bytes in order, backwards"),
            step(CoreStep::SeekRandom, "seekrandom", "seekrandom", "seek", READ_LIMIT),
            step(
                CoreStep::SeekNexts,
                "seekrandom-100",
                "seekrandom + 100 nexts",
                "seek",
                "one seek and 11.6 KB in order: about 1.5 µs",
            ),
            step(
                CoreStep::ReadWhileWriting,
                "readwhilewriting",
                "readwhilewriting, one thread reads, one writes 2 MB/s",
                "get",
                READ_LIMIT,
            ),
            step(
                CoreStep::Compact,
                "compact",
                "compact the whole tree",
                "key",
                "three overlapping files: every byte read, checked, merged and written once: about 0.1 s for 100 MB in memory",
            ),
        ];
        for (info, step) in &mut steps {
            if *step == CoreStep::Overwrite {
                *info = info.clone().counting_settling();
            }
        }
        steps
    }

    fn missing(step: &CoreStep, abilities: &Abilities) -> Option<&'static str> {
        match step {
            CoreStep::FillRandomNoWal if !abilities.no_wal => Some("it has no writes without its log"),
            CoreStep::MultiReadRandom if !abilities.multi_get => Some("it reads keys one by one"),
            CoreStep::ReadReverse if !abilities.reverse => Some("it scans only forward"),
            CoreStep::ReadWhileWriting if !abilities.disk => {
                Some("it has no versions: readers and writer take turns")
            }
            CoreStep::Compact if !abilities.compacts => Some("it does not compact in place"),
            _ => None,
        }
    }

    fn prepares(step: &CoreStep) -> bool {
        matches!(step, CoreStep::FillRandom | CoreStep::Overwrite | CoreStep::ReadRandom)
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &CoreStep) -> RivalResult<Sample> {
        let num = bench.plan.num;
        match step {
            CoreStep::FillSeq => fill_fresh(bench, Durability::Wal, |i| i),
            CoreStep::FillRandomNoWal => fill_fresh(bench, Durability::NoWal, random_below(num, FILL_SEED)),
            CoreStep::ReadMemtable => read_memtable(bench),
            CoreStep::FillRandomThreads => fill_in_threads(bench),
            CoreStep::FillRandom => {
                let sample = fill_fresh(bench, Durability::Wal, random_below(num, FILL_SEED))?;
                complete(bench, &sample, FILL_SEED)?;
                Ok(sample)
            }
            CoreStep::Overwrite => {
                let patience = Duration::from_secs_f64(bench.plan.step_seconds * OVERWRITE_PATIENCE);
                let sample = bench.measure(|db, _| {
                    let number = random_below(num, OVERWRITE_SEED);
                    let done = fill(db, Deadline::after(patience), num, VALUE_SEED, Durability::Wal, number)?;
                    Ok(puts(done, num))
                })?;
                complete(bench, &sample, OVERWRITE_SEED)?;
                Ok(sample)
            }
            CoreStep::ReadRandom => {
                bench.db().flush()?;
                bench.db().settle()?;
                read_random(bench, num)
            }
            CoreStep::MultiReadRandom => multi_read_random(bench, num),
            CoreStep::ReadSeq => read_all(bench, From::First),
            CoreStep::ReadReverse => read_all(bench, From::Last),
            CoreStep::SeekRandom => seek_random(bench, num / 2, 1),
            CoreStep::SeekNexts => seek_random(bench, num / 20, NEXTS),
            CoreStep::ReadWhileWriting => read_while_writing(bench, num),
            CoreStep::Compact => compact(bench, num),
        }
    }
}

fn random_below(num: u64, seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    move |_| random.u64(..num)
}

fn fill_fresh<E: RivalEngine>(
    bench: &mut Bench<E>,
    durability: Durability,
    number: impl FnMut(u64) -> u64,
) -> RivalResult<Sample> {
    bench.fresh_as_planned()?;
    let num = bench.plan.num;
    bench.measure(|db, deadline| {
        let done = fill(db, deadline, num, VALUE_SEED, durability, number)?;
        Ok(puts(done, num))
    })
}

/// Puts the keys that a fill missed because it was cut. Later steps then find the same keys in
/// every engine.
fn complete<E: RivalEngine>(bench: &Bench<E>, sample: &Sample, seed: u64) -> RivalResult<()> {
    let num = bench.plan.num;
    let mut number = random_below(num, seed);
    for i in 0..sample.operations {
        number(i);
    }
    load_behind(bench.db(), sample.operations..num, VALUE_SEED, VALUE_BYTES, number)?;
    bench.db().settle()
}

/// Reads from a memtable that holds all keys.
fn read_memtable<E: RivalEngine>(bench: &mut Bench<E>) -> RivalResult<Sample> {
    let num = bench.plan.num;
    bench.fresh(&in_one_memtable(bench, num))?;
    let number = random_below(num, FILL_SEED);
    load(bench.db(), num, VALUE_SEED, VALUE_BYTES, number)?;
    read_random(bench, num)
}

fn fill_in_threads<E: RivalEngine>(bench: &mut Bench<E>) -> RivalResult<Sample> {
    bench.fresh_as_planned()?;
    let num = bench.plan.num;
    let share = num / THREADS;
    bench.measure(|db, deadline| {
        let (seconds, done) = in_threads(THREADS, |thread| {
            let number = random_below(num, FILL_SEED * 1000 + thread);
            fill(db, deadline, share, VALUE_SEED + thread, Durability::Wal, number)
        })?;
        Ok(Sample { seconds, ..puts(done.iter().sum(), share * THREADS) })
    })
}

/// Reads a tenth of the keys, to warm up caches.
fn warm<E: RivalEngine>(db: &E, num: u64) -> RivalResult<()> {
    let mut number = random_below(num, READ_SEED + 1);
    for i in 0..num / 10 {
        db.get(&key(number(i)), &mut |_| ())?;
    }
    Ok(())
}

fn read_random<E: RivalEngine>(bench: &mut Bench<E>, num: u64) -> RivalResult<Sample> {
    warm(bench.db(), num)?;
    bench.measure(|db, deadline| {
        let (mut number, mut digest) = (random_below(num, READ_SEED), Digest::default());
        let done =
            deadline.repeat(num, |i| db.get(&key(number(i)), &mut |value| digest.add(value)).map(drop))?;
        Ok(reads(done, num, digest.0))
    })
}

fn multi_read_random<E: RivalEngine>(bench: &mut Bench<E>, num: u64) -> RivalResult<Sample> {
    let batches = num / BATCH as u64;
    bench.measure(|db, deadline| {
        let (mut number, mut digest) = (random_below(num, READ_SEED), Digest::default());
        let mut keys = [Key::default(); BATCH];
        let done = deadline.repeat(batches, |_| {
            keys.fill_with(|| key(number(0)));
            let slices: [&[u8]; BATCH] = std::array::from_fn(|i| &keys[i][..]);
            db.multi_get(&slices, &mut |value| digest.add(value)).map(drop)
        })?;
        Ok(reads(done * BATCH as u64, batches * BATCH as u64, digest.0))
    })
}

/// Scans all keys twice: once to warm up, once to measure.
fn read_all<E: RivalEngine>(bench: &mut Bench<E>, from: From<'_>) -> RivalResult<Sample> {
    // The first scan warms up the caches.
    bench.db().with_cursor(false, |cursor| cursor.scan(from, usize::MAX, &mut |_, _| ()))?;
    bench.measure(|db, _| {
        let mut digest = Digest::default();
        let count =
            db.with_cursor(false, |cursor| cursor.scan(from, usize::MAX, &mut |_, value| digest.add(value)))?;
        Ok(reads(count as u64, count as u64, digest.0))
    })
}

fn seek_random<E: RivalEngine>(bench: &mut Bench<E>, count: u64, nexts: usize) -> RivalResult<Sample> {
    let num = bench.plan.num;
    bench.measure(|db, deadline| {
        let (mut number, mut digest) = (random_below(num, SEEK_SEED), Digest::default());
        let done = db.with_cursor(false, |cursor| {
            deadline.repeat(count, |i| {
                let target = key(number(i));
                cursor.scan(From::Key(&target), nexts, &mut |_, value| digest.add(value)).map(drop)
            })
        })?;
        Ok(reads(done, count, digest.0))
    })
}

/// Level-0 files to compact: too few to trigger a compaction.
const RUNS: u64 = 3;

/// Compacts a number of level-0 files that is equal for all engines.
fn compact<E: RivalEngine>(bench: &mut Bench<E>, num: u64) -> RivalResult<Sample> {
    bench.fresh(&in_one_memtable(bench, num))?;
    let mut number = random_below(num, FILL_SEED);
    for run in 0..RUNS {
        let part = run * num / RUNS..(run + 1) * num / RUNS;
        load(bench.db(), part.end - part.start, VALUE_SEED + run, VALUE_BYTES, &mut number)?;
        bench.db().flush()?;
    }
    bench.reopen(&bench.plan.settings.clone())?;
    bench.measure(|db, _| {
        db.compact()?;
        Ok(reads(num, num, 0))
    })
}

/// The plan's settings, with a memtable that holds all keys.
fn in_one_memtable<E: RivalEngine>(bench: &Bench<E>, num: u64) -> RivalSettings {
    let mut settings = bench.plan.settings.clone();
    settings.write_buffer_bytes = settings.write_buffer_bytes.max(usize::try_from(num).expect("fits") * 512);
    settings
}

/// One thread reads while another overwrites, until the reads are done. The overwriting rate is
/// equal for all engines.
fn read_while_writing<E: RivalEngine>(bench: &mut Bench<E>, num: u64) -> RivalResult<Sample> {
    bench.measure(|db, deadline| {
        let is_done = AtomicBool::new(false);
        let (seconds, done) = in_threads(2, |thread| {
            if thread == 1 {
                return write_until(db, &is_done, num).map(|()| 0);
            }
            let result = read_for_a_while(db, deadline, num);
            is_done.store(true, Ordering::Relaxed);
            result
        })?;
        Ok(Sample { seconds, ..reads(done[0], num, 0) })
    })
}

fn read_for_a_while<E: RivalEngine>(db: &E, deadline: Deadline, num: u64) -> RivalResult<u64> {
    let mut number = random_below(num, READ_SEED);
    deadline.repeat(num, |i| db.get(&key(number(i)), &mut |_| ()).map(drop))
}

fn write_until<E: RivalEngine>(db: &E, is_done: &AtomicBool, num: u64) -> RivalResult<()> {
    let (mut number, mut values) = (random_below(num, WRITER_SEED), RivalValues::new(WRITER_SEED));
    let (start, mut bytes) = (Instant::now(), 0);
    while !is_done.load(Ordering::Relaxed) {
        db.put(&key(number(0)), values.next(VALUE_BYTES), Durability::Wal)?;
        bytes += KEY_BYTES + VALUE_BYTES;
        let due = Duration::from_secs_f64(bytes as f64 / WRITER_BYTES_PER_SECOND);
        let ahead = due.saturating_sub(start.elapsed());
        if ahead > WRITER_NAP {
            std::thread::sleep(ahead);
        }
    }
    Ok(())
}
