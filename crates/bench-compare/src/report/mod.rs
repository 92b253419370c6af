//! The results of a run as JSON, as a table and as a page.

mod chart;
pub(crate) mod html;
pub(crate) mod stats;
pub(crate) mod table;

use crate::bench::{BenchPlan, StepInfo};
use crate::engines::EngineKind;
use crate::measure::Sample;
use crate::suites::SuiteId;
use serde::{Deserialize, Serialize};

/// The results of a whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Start of the run, local time.
    pub(crate) date: String,
    /// The command line.
    pub(crate) command: String,
    /// The machine.
    pub(crate) machine: Machine,
    /// The sizes of the run.
    pub(crate) plan: BenchPlan,
    /// Number of rounds, without the warm-up. Each engine runs once in each round.
    pub(crate) pairs: usize,
    /// Whether the run, or an engine, ended early.
    pub(crate) partial: bool,
    /// Errors and skipped steps.
    pub(crate) problems: Vec<String>,
    /// The engines of the run.
    pub(crate) engines: Vec<EngineInfo>,
    /// The figures.
    pub(crate) suites: Vec<SuiteReport>,
    /// Duration of the run, seconds.
    pub(crate) seconds: f64,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// The file system of the databases' directory.
    pub(crate) file_system: String,
    /// Load averages of the last 1, 5 and 15 minutes at the start of the run. `load_after` has
    /// those at the end. If the load exceeds the number of benchmark threads, other programs were
    /// running.
    pub(crate) load_before: String,
    pub(crate) load_after: String,
}

/// An engine that took part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineInfo {
    pub(crate) kind: EngineKind,
    pub(crate) title: String,
    /// Version and build.
    pub(crate) version: String,
    /// Differences from the other engines' settings.
    pub(crate) notes: Vec<String>,
}

/// The figures of one set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SuiteReport {
    pub(crate) id: SuiteId,
    pub(crate) title: String,
    pub(crate) rows: Vec<TableRow>,
}

/// The figures of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableRow {
    pub(crate) info: StepInfo,
    pub(crate) cells: Vec<TableCell>,
}

/// The figures of one step on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableCell {
    pub(crate) kind: EngineKind,
    /// Samples in the order of the rounds.
    pub(crate) samples: Vec<Sample>,
    /// The reason for missing samples.
    pub(crate) missing: Option<String>,
}

impl Report {
    /// Whether other programs kept all processors busy at the start, so that elapsed times are
    /// useless.
    pub(crate) fn was_disturbed(&self) -> bool {
        let load = |text: &str| text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
        load(&self.machine.load_before) > self.machine.cpus as f64
    }

    /// Speed of Esker divided by the speed of `rival`. Compares CPU times if the machine was
    /// disturbed.
    pub(crate) fn ratio(&self, row: &TableRow, rival: EngineKind) -> Option<stats::Spread> {
        if self.was_disturbed() {
            row.cpu_ratio(EngineKind::Esker, rival)
        } else {
            row.ratio(EngineKind::Esker, rival)
        }
    }

    /// The engines with figures in this set.
    pub(crate) fn engines_of(&self, suite: &SuiteReport) -> Vec<&EngineInfo> {
        let has_figures = |engine: &&EngineInfo| {
            suite.rows.iter().any(|row| row.cell(engine.kind).is_some_and(|cell| !cell.samples.is_empty()))
        };
        self.engines.iter().filter(has_figures).collect()
    }
}

impl SuiteReport {
    /// A sentence for each step in which two engines did the same number of operations and read
    /// different values.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        for row in &self.rows {
            let whole = row.cells.iter().flat_map(|cell| cell.samples.iter().map(move |s| (cell.kind, s)));
            let mut answers = whole.filter(|(_, sample)| !sample.cut && sample.digest != 0);
            let Some((first, sample)) = answers.next() else { continue };
            if let Some((other, _)) = answers
                .find(|(_, other)| other.operations == sample.operations && other.digest != sample.digest)
            {
                found.push(format!("{}: {first} and {other} have read different values", row.info.name));
            }
        }
        found
    }
}

impl TableRow {
    /// The figures of an engine.
    pub(crate) fn cell(&self, kind: EngineKind) -> Option<&TableCell> {
        self.cells.iter().find(|cell| cell.kind == kind)
    }
}

#[cfg(test)]
mod tests;
