//! The workloads in which SurrealKV, TidesDB and Bf-Tree say that they are ahead.
//!
//! | step | source |
//! |---|---|
//! | reads and durable puts by 48 tasks, keys without values, skips | SurrealKV 1.2, README |
//! | batches by 8 threads, cold reads | TidesDB 10, its comparison with RocksDB |
//! | more data than the buffer holds, records of some 100 bytes | Bf-Tree, VLDB 2024 |
//!
//! Each step gives a digest of all that it has read. The digest of a step that writes covers the
//! whole database after the step; durable puts are read from the reopened database.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, in_threads, load, puts, reads, sum};
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult, RivalSettings};
use crate::keys::{Digest, KEY_BYTES, Key, RivalValues, VALUE_BYTES, key};
use crate::measure::{Deadline, Sample, device_bytes_read};

/// The set of claims.
pub(crate) struct ClaimSuite;

/// The steps of the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimStep {
    ReadTasks,
    ColdReads,
    Keys,
    Skips,
    BatchThreads,
    SyncedTasks,
}

const SEED: u64 = 1001;
const TASKS: u64 = 48;
const THREADS: u64 = 8;
/// Pairs of a batch.
const BATCH: u64 = 1000;
/// Pairs that a query steps over, and pairs that it then reads.
const SKIP: usize = 5000;
const TAKE: usize = 100;
/// Cache, in percent of the data.
const CACHE_PERCENT: u64 = 10;
/// Keys for each cold read. A page of 4 KiB has some 35 pairs: few reads find a page that an
/// earlier read has fetched.
const KEYS_PER_COLD_READ: u64 = 200;
/// Keys for each durable put.
const KEYS_PER_SYNC: u64 = 50;
/// Durable puts and reads of a task between two looks at the clock.
const LOOK_EVERY: u64 = 8;
const LOOK_EVERY_READS: u64 = 256;

impl Suite for ClaimSuite {
    type Step = ClaimStep;

    fn steps(_plan: &BenchPlan) -> Vec<(StepInfo, ClaimStep)> {
        let step = |step, name: &str, title: &str, unit: &str, limit: &str| {
            (StepInfo::new(format!("claims/{name}"), title, unit, limit), step)
        };
        let miss = "a hit: as readrandom; a miss: one pread(2) of 4 KiB from the page cache, about 1 µs";
        vec![
            step(
                ClaimStep::ReadTasks,
                "reads-48",
                "reads by 48 tasks, cache of 10% of the data",
                "get",
                miss,
            ),
            step(
                ClaimStep::ColdReads,
                "cold",
                "reads from a disk, page cache dropped",
                "get",
                "one read of 4 KiB from the device",
            ),
            step(ClaimStep::Keys, "keys", "scan of all keys, without values", "key", "16 bytes in order"),
            step(
                ClaimStep::Skips,
                "skip",
                "seek, skip 5000, take 100",
                "scan",
                "one seek and 5100 steps in order: 50–100 µs; less if a node or block can be skipped as a whole",
            ),
            step(
                ClaimStep::BatchThreads,
                "batches-8",
                "batches of 1000, 8 threads",
                "put",
                "116 bytes into the log; one insertion: 2–3 dependent cache misses",
            ),
            step(
                ClaimStep::SyncedTasks,
                "synced-48",
                "durable puts by 48 tasks",
                "put",
                "one sync of the file for at most 48 puts",
            ),
        ]
    }

    fn missing(step: &ClaimStep, abilities: &Abilities) -> Option<&'static str> {
        match step {
            ClaimStep::ColdReads if !abilities.disk => Some("it stores nothing on a disk"),
            ClaimStep::BatchThreads if !abilities.batches => {
                Some("it has no batches: it stores pair by pair")
            }
            ClaimStep::SyncedTasks if !abilities.synced => Some("it has no durable writes"),
            _ => None,
        }
    }

    fn prepares(_step: &ClaimStep) -> bool {
        false
    }

    fn needs_device(step: &ClaimStep) -> bool {
        *step == ClaimStep::ColdReads
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &ClaimStep) -> RivalResult<Sample> {
        let num = bench.plan.num;
        if matches!(step, ClaimStep::BatchThreads) {
            return batch_threads(bench);
        }
        if matches!(step, ClaimStep::SyncedTasks) {
            return synced_tasks(bench);
        }
        if !bench.is_open() {
            load_more_than_the_cache_holds(bench)?;
        }
        match step {
            ClaimStep::ReadTasks => bench.measure(|db, deadline| read_tasks(db, deadline, num)),
            ClaimStep::ColdReads => cold_reads(bench, num),
            ClaimStep::Keys => bench.measure(|db, _| {
                let mut digest = Digest::default();
                let count = db.with_cursor(false, |cursor| {
                    cursor.keys(From::First, usize::MAX, &mut |key| digest.add(key))
                })?;
                Ok(reads(count as u64, count as u64, digest.0))
            }),
            _ => bench.measure(|db, deadline| skips(db, deadline, num)),
        }
    }
}

/// The plan's settings, with a cache of a tenth of the data.
fn small_cache(plan: &BenchPlan) -> RivalSettings {
    let data = plan.num * (KEY_BYTES + VALUE_BYTES) as u64;
    let cache_bytes = usize::try_from(data * CACHE_PERCENT / 100).expect("fits");
    RivalSettings { cache_bytes, ..plan.settings.clone() }
}

/// Loads all keys in random order into a database with a small cache.
fn load_more_than_the_cache_holds<E: RivalEngine>(bench: &mut Bench<E>) -> RivalResult<()> {
    let num = bench.plan.num;
    bench.fresh(&small_cache(&bench.plan))?;
    let mut numbers: Vec<u64> = (0..num).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut numbers);
    let number = |i| numbers[usize::try_from(i).expect("an index")];
    load(bench.db(), num, SEED, VALUE_BYTES, number)?;
    bench.db().flush()?;
    bench.db().settle()
}

fn read_tasks<E: RivalEngine>(db: &E, deadline: Deadline, num: u64) -> RivalResult<Sample> {
    let share = num / TASKS;
    let (seconds, done) = db.in_tasks(TASKS, async |task| {
        let (mut random, mut digest) = (fastrand::Rng::with_seed(SEED + task), Digest::default());
        for i in 0..share {
            if i % LOOK_EVERY_READS == 0 && i > 0 && deadline.is_over() {
                return Ok((i, digest.0));
            }
            db.get_in_task(&key(random.u64(..num)), &mut |value| digest.add(value)).await?;
        }
        Ok((share, digest.0))
    })?;
    Ok(Sample { seconds, ..sum(&done, share * TASKS) })
}

/// Reads random keys after the pages of all files have left the page cache.
fn cold_reads<E: RivalEngine>(bench: &mut Bench<E>, num: u64) -> RivalResult<Sample> {
    let fetched = device_bytes_read();
    bench.reopen_cold(&small_cache(&bench.plan))?;
    let count = (num / KEYS_PER_COLD_READ).max(1);
    let sample = bench.measure(|db, deadline| {
        let (mut random, mut digest) = (fastrand::Rng::with_seed(SEED + TASKS), Digest::default());
        let done = deadline
            .repeat(count, |_| db.get(&key(random.u64(..num)), &mut |value| digest.add(value)).map(drop))?;
        Ok(reads(done, count, digest.0))
    })?;
    if device_bytes_read() == fetched {
        return Err("no byte came from a device: the page cache was not dropped".to_owned());
    }
    Ok(sample)
}

/// Queries that together step over twice as many pairs as there are.
fn skips<E: RivalEngine>(db: &E, deadline: Deadline, num: u64) -> RivalResult<Sample> {
    let pairs = (SKIP + TAKE) as u64;
    let (count, last) = ((2 * num / pairs).max(1), num.saturating_sub(pairs));
    let (mut random, mut digest) = (fastrand::Rng::with_seed(SEED + TASKS + 1), Digest::default());
    let done = db.with_cursor(false, |cursor| {
        deadline.repeat(count, |_| {
            let start = key(random.u64(..=last));
            cursor.scan_behind(From::Key(&start), SKIP, TAKE, &mut |_, value| digest.add(value)).map(drop)
        })
    })?;
    Ok(reads(done, count, digest.0))
}

fn batch_threads<E: RivalEngine>(bench: &mut Bench<E>) -> RivalResult<Sample> {
    bench.fresh_as_planned()?;
    let share = (bench.plan.num / THREADS / BATCH).max(1);
    let sample = bench.measure(|db, deadline| {
        let (seconds, done) = in_threads(THREADS, |thread| {
            let mut own = OwnKeys::new(thread, THREADS, share * BATCH);
            deadline.repeat(share, |_| {
                let batch: Vec<_> = (0..BATCH).map(|_| own.next()).collect();
                let pairs: Vec<(&[u8], &[u8])> =
                    batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
                db.put_all(&pairs, Durability::Wal)
            })
        })?;
        Ok(Sample { seconds, ..puts(done.iter().sum::<u64>() * BATCH, share * BATCH * THREADS) })
    })?;
    Ok(Sample { digest: digest_of_all(bench.db())?, ..sample })
}

fn synced_tasks<E: RivalEngine>(bench: &mut Bench<E>) -> RivalResult<Sample> {
    let settings = RivalSettings { synced: true, ..bench.plan.settings.clone() };
    bench.fresh(&settings)?;
    let share = (bench.plan.num / KEYS_PER_SYNC / TASKS).max(1);
    let sample = bench.measure(|db, deadline| {
        let (seconds, done) = db.in_tasks(TASKS, async |task| {
            let mut own = OwnKeys::new(task, TASKS, share);
            for i in 0..share {
                if i % LOOK_EVERY == 0 && i > 0 && deadline.is_over() {
                    return Ok(i);
                }
                let (key, value) = own.next();
                db.put_in_task(&key, &value, Durability::Sync).await?;
            }
            Ok(share)
        })?;
        Ok(Sample { seconds, ..puts(done.iter().sum(), share * TASKS) })
    })?;
    if E::ABILITIES.reopens {
        bench.reopen(&settings)?;
    }
    Ok(Sample { digest: digest_of_all(bench.db())?, ..sample })
}

/// Random pairs of one of several writers. No other writer has their keys, so that the order of
/// writers does not show in the database.
struct OwnKeys {
    random: fastrand::Rng,
    values: RivalValues,
    writer: u64,
    writers: u64,
    keys: u64,
}

impl OwnKeys {
    fn new(writer: u64, writers: u64, keys: u64) -> OwnKeys {
        let seed = SEED + 100 + writer;
        let (random, values) = (fastrand::Rng::with_seed(seed), RivalValues::new(seed));
        OwnKeys { random, values, writer, writers, keys }
    }

    fn next(&mut self) -> (Key, Vec<u8>) {
        let number = self.random.u64(..self.keys) * self.writers + self.writer;
        (key(number), self.values.next(VALUE_BYTES).to_vec())
    }
}

/// A digest of all keys and values.
fn digest_of_all<E: RivalEngine>(db: &E) -> RivalResult<u64> {
    let mut digest = Digest::default();
    db.with_cursor(false, |cursor| {
        cursor.scan(From::First, usize::MAX, &mut |key, value| digest.add_pair(key, value))
    })?;
    Ok(digest.0)
}
