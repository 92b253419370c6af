//! What a run has found, and its forms: JSON, a table, a page.

mod chart;
pub(crate) mod html;
pub(crate) mod stats;
pub(crate) mod table;

use crate::bench::{Plan, StepInfo};
use crate::engines::Kind;
use crate::measure::Sample;
use crate::suites::SuiteId;
use serde::{Deserialize, Serialize};

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// When it began, local time.
    pub(crate) date: String,
    /// The command line.
    pub(crate) command: String,
    /// What it ran on.
    pub(crate) machine: Machine,
    /// Its sizes.
    pub(crate) plan: Plan,
    /// Rounds that count; each engine ran once in each.
    pub(crate) pairs: usize,
    /// It did not come to its end, or an engine did not.
    pub(crate) partial: bool,
    /// What went wrong, and what was left out.
    pub(crate) problems: Vec<String>,
    /// Who took part.
    pub(crate) engines: Vec<EngineInfo>,
    /// The figures.
    pub(crate) suites: Vec<SuiteReport>,
    /// How long it took, seconds.
    pub(crate) seconds: f64,
}

/// The machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// Of the directory the databases were in.
    pub(crate) file_system: String,
    /// Load averages of a minute when it began and when it ended: above the number of threads at
    /// work, somebody else was working too.
    pub(crate) load_before: String,
    pub(crate) load_after: String,
}

/// An engine that took part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineInfo {
    pub(crate) kind: Kind,
    pub(crate) title: String,
    /// Version and build.
    pub(crate) version: String,
    /// How it differs from what the others were asked for.
    pub(crate) notes: Vec<String>,
}

/// The figures of one set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SuiteReport {
    pub(crate) id: SuiteId,
    pub(crate) title: String,
    pub(crate) rows: Vec<Row>,
}

/// The figures of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) info: StepInfo,
    pub(crate) cells: Vec<Cell>,
}

/// The figures of one step on one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) kind: Kind,
    /// In the order of the rounds.
    pub(crate) samples: Vec<Sample>,
    /// Why there are none.
    pub(crate) missing: Option<String>,
}

impl Report {
    /// Whether the machine had so much other work that times say more about that than about
    /// engines.
    pub(crate) fn was_disturbed(&self) -> bool {
        let load = |text: &str| text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
        load(&self.machine.load_before) > self.machine.cpus as f64
    }

    /// How many times as fast as `rival` Esker is; by CPU time if the machine was disturbed.
    pub(crate) fn ratio(&self, row: &Row, rival: Kind) -> Option<stats::Spread> {
        if self.was_disturbed() { row.cpu_ratio(Kind::Esker, rival) } else { row.ratio(Kind::Esker, rival) }
    }

    /// The engines that have figures in this set.
    pub(crate) fn engines_of(&self, suite: &SuiteReport) -> Vec<&EngineInfo> {
        let has_figures = |engine: &&EngineInfo| {
            suite.rows.iter().any(|row| row.cell(engine.kind).is_some_and(|cell| !cell.samples.is_empty()))
        };
        self.engines.iter().filter(has_figures).collect()
    }
}

impl SuiteReport {
    /// A sentence for each step in which engines have read different values, though they did the
    /// same operations.
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

impl Row {
    /// The cell of an engine.
    pub(crate) fn cell(&self, kind: Kind) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.kind == kind)
    }
}

#[cfg(test)]
mod tests;
