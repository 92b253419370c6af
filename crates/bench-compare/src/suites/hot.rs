//! Few hot keys: many threads read the same 5 or 500 keys of flushed data, one by one or 200 in a
//! call.
//!
//! Source: RocksDB's benchmark as
//! `-benchmarks=multireadrandom -readonly -num=5 -threads=20 -multiread_batched -batch_size=200`.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, in_threads, load, sum};
use crate::engine::{Abilities, RivalEngine, RivalResult};
use crate::keys::{Digest, Key, VALUE_BYTES, key};
use crate::measure::Sample;

/// The set of hot reads.
pub(crate) struct Hot;

/// A number of keys, read in batches or one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotStep {
    keys: u64,
    batched: bool,
}

const THREADS: u64 = 20;
const BATCH: usize = 200;
const SEED: u64 = 501;

const LIMIT: &str = "everything is in the first caches: hash, compare, copy out; 20–40 ns";

impl Suite for Hot {
    type Step = HotStep;

    fn steps(_plan: &BenchPlan) -> Vec<(StepInfo, HotStep)> {
        let step = |keys, batched| {
            let (word, title) = if batched { ("batched", "200 in a call") } else { ("single", "one by one") };
            let name = format!("hot/{keys}-{word}");
            let title = format!("{keys} keys, 20 threads, {title}");
            (StepInfo::new(name, title, "key", LIMIT), HotStep { keys, batched })
        };
        vec![step(5, false), step(5, true), step(500, false), step(500, true)]
    }

    fn missing(step: &HotStep, abilities: &Abilities) -> Option<&'static str> {
        (step.batched && !abilities.multi_get).then_some("it reads keys one by one")
    }

    fn prepares(_step: &HotStep) -> bool {
        false
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &HotStep) -> RivalResult<Sample> {
        bench.fresh_as_planned()?;
        load(bench.db(), step.keys, SEED, VALUE_BYTES, |i| i)?;
        bench.db().flush()?;
        let HotStep { keys, batched } = *step;
        let share = (bench.plan.num * 2 / THREADS).next_multiple_of(BATCH as u64);
        bench.measure(|db, deadline| {
            let (seconds, done) = in_threads(THREADS, |thread| {
                let mut random = fastrand::Rng::with_seed(SEED + thread);
                let mut digest = Digest::default();
                let mut batch = [Key::default(); BATCH];
                let calls = deadline.repeat(share / BATCH as u64, |_| {
                    batch.fill_with(|| key(random.u64(..keys)));
                    if batched {
                        let slices: [&[u8]; BATCH] = std::array::from_fn(|i| &batch[i][..]);
                        db.multi_get(&slices, &mut |value| digest.add(value)).map(drop)
                    } else {
                        batch.iter().try_for_each(|k| db.get(k, &mut |value| digest.add(value)).map(drop))
                    }
                })?;
                Ok((calls * BATCH as u64, digest.0))
            })?;
            Ok(Sample { seconds, ..sum(&done, share * THREADS) })
        })
    }
}
