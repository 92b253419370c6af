//! The sets of workloads.
//!
//! A set is a list of steps. Each engine runs the steps in order, in a process of its own. A step
//! may use the database of the previous step.

mod cache;
mod claims;
mod core;
mod hot;
mod redb_set;
mod scans;
mod tombstones;
mod ycsb;

use crate::bench::{Bench, BenchPlan, StepInfo};
use crate::engine::{Abilities, RivalEngine, RivalResult};
use crate::measure::Sample;
use serde::{Deserialize, Serialize};

/// One set of workloads.
pub(crate) trait Suite {
    /// The type of the set's steps.
    type Step: Clone;
    /// The steps under a plan, in order.
    fn steps(plan: &BenchPlan) -> Vec<(StepInfo, Self::Step)>;
    /// The reason why an engine with these abilities skips the step; `None` if it runs the step.
    fn missing(step: &Self::Step, abilities: &Abilities) -> Option<&'static str>;
    /// Whether later steps need the database of this step.
    fn prepares(step: &Self::Step) -> bool;
    /// Whether the step measures reads from a storage device.
    fn needs_device(_step: &Self::Step) -> bool {
        false
    }
    /// Prepares the step, and measures it.
    fn run<E: RivalEngine>(bench: &mut Bench<E>, step: &Self::Step) -> RivalResult<Sample>;
}

/// A set by name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SuiteId {
    /// The core of RocksDB's own benchmark.
    Core,
    /// Reads of a small number of hot keys.
    Hot,
    /// Range tombstones in the memtable.
    Tombstones,
    /// Block caches from 1% to 200% of the data.
    Cache,
    /// Scans beside a writer.
    Scans,
    /// YCSB A to F.
    Ycsb,
    /// redb's own benchmark.
    Redb,
    /// The workloads of SurrealKV's, TidesDB's and Bf-Tree's publications.
    Claims,
}

/// Runs `$body` with `$S` as the suite's type.
macro_rules! with_suite {
    ($id:expr, $S:ident => $body:expr) => {
        match $id {
            SuiteId::Core => {
                type $S = core::CoreSuite;
                $body
            }
            SuiteId::Hot => {
                type $S = hot::Hot;
                $body
            }
            SuiteId::Tombstones => {
                type $S = tombstones::TombstoneSuite;
                $body
            }
            SuiteId::Cache => {
                type $S = cache::CacheSizes;
                $body
            }
            SuiteId::Scans => {
                type $S = scans::ScanSuite;
                $body
            }
            SuiteId::Ycsb => {
                type $S = ycsb::Ycsb;
                $body
            }
            SuiteId::Redb => {
                type $S = redb_set::RedbSet;
                $body
            }
            SuiteId::Claims => {
                type $S = claims::ClaimSuite;
                $body
            }
        }
    };
}

impl SuiteId {
    /// All sets, in the order of the table.
    pub(crate) const ALL: [SuiteId; 8] = [
        SuiteId::Core,
        SuiteId::Hot,
        SuiteId::Tombstones,
        SuiteId::Cache,
        SuiteId::Scans,
        SuiteId::Ycsb,
        SuiteId::Redb,
        SuiteId::Claims,
    ];

    /// The title of the set.
    pub(crate) fn title(self) -> &'static str {
        match self {
            SuiteId::Core => "Core set: RocksDB's own benchmark",
            SuiteId::Hot => "Few hot keys",
            SuiteId::Tombstones => "Range tombstones in the memtable",
            SuiteId::Cache => "Block caches from 1% to 200% of the data",
            SuiteId::Scans => "Scans under a snapshot, beside a writer",
            SuiteId::Ycsb => "YCSB",
            SuiteId::Redb => "redb's published comparison",
            SuiteId::Claims => "Workloads in which other engines say that they are ahead",
        }
    }

    /// The set's steps under a plan.
    pub(crate) fn steps(self, plan: &BenchPlan) -> Vec<StepInfo> {
        with_suite!(self, S => S::steps(plan).into_iter().map(|(info, _)| info).collect())
    }

    /// The reason why an engine skips step `index`; `None` if it runs the step.
    pub(crate) fn missing(
        self,
        plan: &BenchPlan,
        index: usize,
        abilities: &Abilities,
    ) -> Option<&'static str> {
        with_suite!(self, S => {
            let step = &S::steps(plan)[index].1;
            let no_device = S::needs_device(step) && plan.in_memory;
            let no_device = no_device.then_some("its files lie in memory: --directory names a place on a disk");
            S::missing(step, abilities).or(no_device)
        })
    }

    /// Whether later steps need the database of step `index`.
    pub(crate) fn prepares(self, plan: &BenchPlan, index: usize) -> bool {
        with_suite!(self, S => S::prepares(&S::steps(plan)[index].1))
    }

    /// Runs step `index`.
    pub(crate) fn run<E: RivalEngine>(self, bench: &mut Bench<E>, index: usize) -> RivalResult<Sample> {
        with_suite!(self, S => {
            let steps = S::steps(&bench.plan);
            S::run(bench, &steps[index].1)
        })
    }
}
