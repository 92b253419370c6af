//! Reads from a memtable that holds 0, 1, 10, 100 or 1000 range tombstones, in 1 and in 32 threads.
//!
//! Source: RocksDB's benchmark, called as
//! `fillrandom,readrandom --writes_per_range_tombstone=1 --max_num_range_tombstones=100`.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, load, read_in_threads};
use crate::engine::{Abilities, RivalEngine, RivalResult};
use crate::keys::{VALUE_BYTES, key};
use crate::measure::Sample;

/// The set of range tombstones.
pub(crate) struct TombstoneSuite;

/// A number of tombstones, and a number of reading threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TombstoneStep {
    tombstones: u64,
    threads: u64,
}

const SEED: u64 = 601;
/// Keys that one tombstone covers.
const WIDTH: u64 = 100;

const LIMIT: &str =
    "as a read from the memtable; a search among the tombstones: log2 of their number, in cache";

impl Suite for TombstoneSuite {
    type Step = TombstoneStep;

    fn steps(_plan: &BenchPlan) -> Vec<(StepInfo, TombstoneStep)> {
        let mut steps = Vec::new();
        for tombstones in [0, 1, 10, 100, 1000] {
            for threads in [1, 32] {
                let name = format!("tombstones/{tombstones}-{threads}");
                let title = format!("{tombstones} range tombstones, threads: {threads}");
                steps.push((StepInfo::new(name, title, "get", LIMIT), TombstoneStep { tombstones, threads }));
            }
        }
        steps
    }

    fn missing(_step: &TombstoneStep, abilities: &Abilities) -> Option<&'static str> {
        (!abilities.delete_range).then_some("it deletes no ranges")
    }

    fn prepares(_step: &TombstoneStep) -> bool {
        false
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &TombstoneStep) -> RivalResult<Sample> {
        let num = bench.plan.num / 2;
        let mut settings = bench.plan.settings.clone();
        settings.write_buffer_bytes =
            settings.write_buffer_bytes.max(usize::try_from(num).expect("fits") * 512);
        bench.fresh(&settings)?;
        let mut random = fastrand::Rng::with_seed(SEED);
        load(bench.db(), num, SEED, VALUE_BYTES, |_| random.u64(..num))?;
        for i in 0..step.tombstones {
            // Tombstones are spread evenly over all keys; a thousand of them may overlap.
            let begin = i * num / step.tombstones;
            bench.db().delete_range(&key(begin), &key(begin + WIDTH))?;
        }
        let (threads, share) = (step.threads, num / step.threads);
        bench.measure(|db, deadline| read_in_threads(db, deadline, threads, share, num, SEED + 1))
    }
}
