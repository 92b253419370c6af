//! Random reads with a block cache of 1% to 200% of the data.

use super::Suite;
use crate::bench::{Bench, BenchPlan, StepInfo, load, read_in_threads, unhurried};
use crate::engine::{Abilities, RivalEngine, RivalResult};
use crate::keys::{KEY_BYTES, VALUE_BYTES};
use crate::measure::Sample;

/// The set of cache sizes.
pub(crate) struct CacheSizes;

/// A cache size in percent of the data, and a number of reading threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheStep {
    percent: u64,
    threads: u64,
}

const SEED: u64 = 701;

const LIMIT: &str =
    "a hit: as readrandom; a miss: one pread(2) of 4 KiB from the page cache, about 1 µs, and its checksum";

impl Suite for CacheSizes {
    type Step = CacheStep;

    fn steps(plan: &BenchPlan) -> Vec<(StepInfo, CacheStep)> {
        let threads: &[u64] = if plan.full { &[1, 2, 16, 128] } else { &[1, 16] };
        let mut steps = Vec::new();
        for percent in [1, 10, 50, 100, 200] {
            for &threads in threads {
                let name = format!("cache/{percent}-{threads}");
                let title = format!("cache of {percent}% of the data, threads: {threads}");
                steps.push((StepInfo::new(name, title, "get", LIMIT), CacheStep { percent, threads }));
            }
        }
        steps
    }

    fn missing(_step: &CacheStep, abilities: &Abilities) -> Option<&'static str> {
        (!abilities.cache).then_some("it has no cache whose size could be set")
    }

    fn prepares(_step: &CacheStep) -> bool {
        false
    }

    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &CacheStep) -> RivalResult<Sample> {
        let num = bench.plan.num;
        if !bench.is_open() {
            bench.fresh_as_planned()?;
            let mut random = fastrand::Rng::with_seed(SEED);
            let mut numbers: Vec<u64> = (0..num).collect();
            random.shuffle(&mut numbers);
            let number = |i| numbers[usize::try_from(i).expect("an index")];
            load(bench.db(), num, SEED, VALUE_BYTES, number)?;
            bench.db().flush()?;
            bench.db().settle()?;
        }
        let data = num * (KEY_BYTES + VALUE_BYTES) as u64;
        let mut settings = bench.plan.settings.clone();
        settings.cache_bytes = usize::try_from(data * step.percent / 100).expect("fits");
        bench.reopen(&settings)?;
        let (threads, share) = (step.threads, num / step.threads);
        // The cache is full before the measurement starts.
        read_in_threads(bench.db(), unhurried(), 1, num / 2, num, SEED + 1000)?;
        bench.measure(|db, deadline| read_in_threads(db, deadline, threads, share, num, SEED + 1))
    }
}
