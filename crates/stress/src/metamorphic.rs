//! Checks that options do not change answers. Runs one list of operations under many sets of
//! options, and compares each answer with the answer of sorted maps.
//!
//! In: seeds and sizes. Out: counts, or the first [`MetamorphicFailure`]. Shrinking
//! removes operations and options that the failure does not need, for a limited time. The failure
//! names the command that repeats it.
//! Options come from the whole space that the engine accepts (`space.rs`). Each reopening within a
//! list draws new options. Operations, options and answers depend on the seeds only, but the times
//! of flushes and compactions do not. So a rare failure does not come back in every run, and
//! shrinking removes fewer of its operations and options.
//!
//! Reading order: `ops` (operations and answers), `space` (options), `run` (one list under one set
//! of options), `reduce` (shrinks a failure).

mod ops;
mod reduce;
mod run;
mod space;
mod stamped;
mod transactions;

use ops::ScriptOp;
use run::RunDivergence;
use space::Space;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

/// Options for the `number`-th opening of a database, and options of the families. `lasting` is the
/// database's seed: options that all openings must share depend on it alone, the others on `number`
/// too. The caller sets comparator and merge operator.
pub(crate) fn stress_options(
    lasting: u64,
    number: u64,
    env: &esker::Env,
) -> (esker::DbOptions, esker::ColumnFamilyOptions) {
    Space { seed: lasting, without: Default::default() }.any_database(number, env)
}

/// Changes of mutable options of a family, in the form of `set_options`.
pub(crate) fn stress_changes(seed: u64) -> Vec<(String, String)> {
    Space { seed, without: Default::default() }.changes(seed)
}

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct MetamorphicParameters {
    /// Seed of the first list; each further list has the next number.
    pub seed: u64,
    /// Lists of operations.
    pub lists: u64,
    /// Operations in each list.
    pub operations: usize,
    /// Sets of options for each list.
    pub sets: u64,
    /// The only set to run; `None` means all sets.
    pub set: Option<u64>,
    /// The only operations to run, by the numbers in a failure; `None` means all operations.
    pub keep: Option<Vec<usize>>,
    /// Options that keep their defaults.
    pub without: Vec<String>,
    /// Wait for background work after every operation.
    pub calm: bool,
    /// Time for shrinking a failure.
    pub shrink: Duration,
    /// Time after which no further list begins.
    pub limit: Option<Duration>,
    /// Print a line for each list to standard error.
    pub verbose: bool,
}

impl Default for MetamorphicParameters {
    fn default() -> MetamorphicParameters {
        MetamorphicParameters {
            seed: 1,
            lists: 1,
            operations: 2000,
            sets: 4,
            set: None,
            keep: None,
            without: Vec::new(),
            calm: false,
            shrink: Duration::from_secs(60),
            limit: None,
            verbose: false,
        }
    }
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct MetamorphicReport {
    /// Lists of operations.
    pub lists: u64,
    /// Databases.
    pub databases: u64,
    /// Operations whose answers were compared.
    pub operations: u64,
    /// Options with text forms that `space.rs` does not draw, although it states no reason to leave
    /// them alone.
    pub unvaried: Vec<&'static str>,
}

impl fmt::Display for MetamorphicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "metamorphic: {} lists on {} databases, {} operations, every answer the same; options never varied: {}",
            self.lists,
            self.databases,
            self.operations,
            if self.unvaried.is_empty() { "none".to_owned() } else { self.unvaried.join(", ") }
        )
    }
}

/// A report of a wrong answer: the operations, the options, and the command that repeats it.
#[derive(Clone, Debug)]
pub struct MetamorphicFailure {
    text: String,
}

impl fmt::Display for MetamorphicFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A list of operations and a set of options. Shrinking removes parts of both.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    set: u64,
    operations: usize,
    kept: Vec<usize>,
    without: BTreeSet<String>,
    calm: bool,
}

impl Case {
    fn space(&self) -> Space {
        Space { seed: self.seed << space::SET_BITS | self.set, without: self.without.clone() }
    }

    fn run(&self, ops: &[ScriptOp]) -> Result<usize, RunDivergence> {
        let script = ops::script(ops, &self.kept);
        run::run(&script, &self.space(), self.calm).map(|()| script.len())
    }
}

/// Runs the campaign.
/// # Errors
/// The first failure, shrunk.
#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
pub fn run(parameters: &MetamorphicParameters) -> Result<MetamorphicReport, MetamorphicFailure> {
    let start = Instant::now();
    let mut report = MetamorphicReport { unvaried: space::unvaried(), ..MetamorphicReport::default() };
    for list in 0..parameters.lists {
        if parameters.limit.is_some_and(|limit| start.elapsed() >= limit) {
            break;
        }
        let seed = parameters.seed.wrapping_add(list);
        let ops = ops::random(seed, parameters.operations);
        let sets = parameters.set.map_or(0..parameters.sets, |set| set..set + 1);
        for set in sets {
            let case = Case {
                seed,
                set,
                operations: parameters.operations,
                kept: parameters.keep.clone().unwrap_or_else(|| (0..ops.len()).collect()),
                without: parameters.without.iter().cloned().collect(),
                calm: parameters.calm,
            };
            report.operations += match case.run(&ops) {
                Ok(operations) => operations as u64,
                Err(divergence) => return Err(reduce::shrink(case, &ops, divergence, parameters.shrink)),
            };
            report.databases += 1;
        }
        report.lists += 1;
        if parameters.verbose {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!(
                "metamorphic: list {seed} done, {} operations ({seconds:.1} s so far)",
                report.operations
            );
        }
    }
    Ok(report)
}
