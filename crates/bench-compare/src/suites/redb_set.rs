//! The comparison that redb publishes, scaled down from its five million pairs.
//!
//! Source: redb's `redb-bench-compare`. Keys are 24 random bytes, values 150. Steps are a bulk load
//! in one batch, single durable writes, durable batches, writes without sync, length, random reads,
//! range scans of ten rows, reads by 4 to 32 threads, removals, compaction. The steps `retain`,
//! `extract_if` and `pop` are left out: only redb has these calls. The last two steps show the
//! bytes on disk before and after the compaction.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, in_threads, reads, sum, unhurried};
use crate::engine::{Abilities, Durability, From, RivalCursor, RivalEngine, RivalResult};
use crate::keys::Digest;
use crate::measure::{Deadline, Sample};
use fastrand::Rng;

/// The set of redb's steps.
pub(crate) struct RedbSet;

/// The steps of the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RedbSetStep {
    BulkLoad,
    SingleWrites,
    BatchWrites,
    NoSyncWrites,
    Length,
    RandomReads,
    RangeReads,
    ThreadedReads(u64),
    Removals,
    Compact,
}

type Pair = ([u8; 24], [u8; 150]);

const SEED: u64 = 3;
/// Pairs of a batch, in the bulk load and in each durable batch.
const BATCH: u64 = 1000;
/// Rows of a range.
const RANGE: usize = 10;

/// Number of pairs in the bulk load.
fn elements(plan: &BenchPlan) -> u64 {
    (plan.num / 2 / BATCH).max(1) * BATCH
}

impl Suite for RedbSet {
    type Step = RedbSetStep;

    fn steps(plan: &BenchPlan) -> Vec<(StepInfo, RedbSetStep)> {
        let step = |step, name: &str, title: &str, unit: &str, limit: &str| {
            (StepInfo::new(format!("redb/{name}"), title, unit, limit), step)
        };
        let reads = "4–6 dependent cache misses";
        let sync = "one sync of the file";
        let mut steps = vec![
            step(RedbSetStep::BulkLoad, "bulk", "bulk load", "pair", "174 bytes, written at least once"),
            step(RedbSetStep::SingleWrites, "single", "single writes, durable", "put", sync),
            step(RedbSetStep::BatchWrites, "batch", "batches of 1000, durable", "pair", sync),
            step(RedbSetStep::NoSyncWrites, "nosync", "single writes, no sync", "put", "one system call"),
            step(
                RedbSetStep::Length,
                "len",
                "how many pairs there are",
                "call",
                "a counter; without one, a scan",
            ),
            step(RedbSetStep::RandomReads, "reads", "random reads", "get", reads),
            step(RedbSetStep::RangeReads, "ranges", "random ranges of 10", "range", reads),
        ];
        let threads: &[u64] = if plan.full { &[4, 8, 16, 32] } else { &[4, 32] };
        for &count in threads {
            let (name, title) = (format!("reads-{count}"), format!("random reads, {count} threads"));
            steps.push(step(RedbSetStep::ThreadedReads(count), &name, &title, "get", reads));
        }
        steps.push(step(RedbSetStep::Removals, "removals", "remove half", "key", "as a write"));
        steps.push(step(
            RedbSetStep::Compact,
            "compact",
            "compact",
            "pair",
            "every byte read and written once",
        ));
        steps
    }

    fn missing(step: &RedbSetStep, abilities: &Abilities) -> Option<&'static str> {
        match step {
            RedbSetStep::Compact if !abilities.compacts => Some("it does not compact in place"),
            // Later steps read what the durable steps have written.
            _ if abilities.disk && !abilities.synced => Some("it has no durable writes"),
            _ => None,
        }
    }

    fn prepares(step: &RedbSetStep) -> bool {
        *step == RedbSetStep::BulkLoad
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &RedbSetStep) -> RivalResult<Sample> {
        let count = elements(&bench.plan);
        if *step == RedbSetStep::BulkLoad {
            bench.fresh_as_planned()?;
        }
        bench.measure(|db, deadline| match *step {
            RedbSetStep::BulkLoad => {
                let mut random = Rng::with_seed(SEED);
                write(db, unhurried(), count / BATCH, BATCH, Durability::Wal, &mut random)
            }
            RedbSetStep::SingleWrites => {
                write(db, deadline, (count / 200).max(1), 1, Durability::Sync, &mut Rng::with_seed(SEED + 1))
            }
            RedbSetStep::BatchWrites => {
                let batches = (count / (10 * BATCH)).max(1);
                write(db, deadline, batches, BATCH, Durability::Sync, &mut Rng::with_seed(SEED + 2))
            }
            RedbSetStep::NoSyncWrites => {
                write(db, deadline, count / 10, 1, Durability::Wal, &mut Rng::with_seed(SEED + 3))
            }
            RedbSetStep::Length => db.len().map(|_| reads(1, 1, 0)),
            RedbSetStep::RandomReads => read(db, deadline, count, count).map(|done| sum(&[done], count)),
            RedbSetStep::RangeReads => ranges(db, deadline, count / 2, count),
            RedbSetStep::ThreadedReads(threads) => {
                let share = count / threads;
                let (seconds, done) = in_threads(threads, |_| read(db, deadline, share, count))?;
                Ok(Sample { seconds, ..sum(&done, share * threads) })
            }
            RedbSetStep::Removals => {
                let mut random = Rng::with_seed(SEED);
                let done = deadline.repeat(count / 2, |_| db.delete(&pair(&mut random).0))?;
                Ok(Sample {
                    operations: done,
                    user_bytes: done * 24,
                    cut: done < count / 2,
                    ..Sample::default()
                })
            }
            RedbSetStep::Compact => db.compact().map(|()| reads(count / 2, count / 2, 0)),
        })
    }
}

fn pair(random: &mut Rng) -> Pair {
    let (mut key, mut value) = ([0; 24], [0; 150]);
    random.fill(&mut key);
    random.fill(&mut value);
    (key, value)
}

fn write<E: RivalEngine>(
    db: &E,
    deadline: Deadline,
    batches: u64,
    size: u64,
    durability: Durability,
    random: &mut Rng,
) -> RivalResult<Sample> {
    let done = deadline.repeat(batches, |_| {
        let batch: Vec<Pair> = (0..size).map(|_| pair(random)).collect();
        if let [(key, value)] = &batch[..] {
            return db.put(key, value, durability);
        }
        let pairs: Vec<(&[u8], &[u8])> = batch.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        db.put_all(&pairs, durability)
    })?;
    let operations = done * size;
    Ok(Sample { operations, user_bytes: operations * 174, cut: done < batches, ..Sample::default() })
}

/// Reads the pairs of the bulk load in their random order. Returns their number and digest.
fn read<E: RivalEngine>(db: &E, deadline: Deadline, count: u64, elements: u64) -> RivalResult<(u64, u64)> {
    let (mut random, mut digest) = (Rng::with_seed(SEED), Digest::default());
    let done = deadline.repeat(count.min(elements), |_| {
        let (key, _) = pair(&mut random);
        if db.get(&key, &mut |value| digest.add(value))? { Ok(()) } else { Err(format!("{key:?} is lost")) }
    })?;
    Ok((done, digest.0))
}

fn ranges<E: RivalEngine>(db: &E, deadline: Deadline, count: u64, elements: u64) -> RivalResult<Sample> {
    let (mut random, mut digest) = (Rng::with_seed(SEED), Digest::default());
    let done = db.with_cursor(false, |cursor| {
        deadline.repeat(count.min(elements), |_| {
            let (key, _) = pair(&mut random);
            cursor.scan(From::Key(&key), RANGE, &mut |_, value| digest.add(value)).map(drop)
        })
    })?;
    Ok(reads(done, count, digest.0))
}
