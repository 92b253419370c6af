//! The scans campaign in the simulated machine: a seed repeats a wrong answer.
//!
//! In: a seed and a number of rounds. Out: counts, or the first difference, with the seed that
//! repeats it, move by move. A round is one of [`crate::scans`] with a small number of keys,
//! writers and scanners, and one thread that changes super versions. All of them end by themselves.

use super::in_machine;
use crate::scans::{ScanParameters, ScanReport, ScanSize, run_sized};
use std::time::{Duration, Instant};

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct SimScanParameters {
    /// Seed of the first round; the next ones have the next numbers.
    pub seed: u64,
    /// Rounds, at most.
    pub rounds: u64,
    /// Batches of each of the two writers.
    pub batches: u64,
    /// Time after which no round is begun.
    pub limit: Option<Duration>,
    /// Print lines of progress.
    pub verbose: bool,
}

/// Simulates.
/// # Errors
/// The first difference, and the seed that shows it again.
#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
pub fn run(parameters: &SimScanParameters) -> Result<ScanReport, String> {
    let start = Instant::now();
    let mut report = ScanReport::default();
    while report.rounds < parameters.rounds
        && parameters.limit.is_none_or(|limit| report.rounds == 0 || start.elapsed() < limit)
    {
        let seed = parameters.seed + report.rounds;
        let round = round(seed, parameters.batches).map_err(|why| {
            let batches = parameters.batches;
            format!(
                "sim-scans: SEED={seed}: {why}\nagain: sim-scans --rounds 1 --seed {seed} --batches {batches}"
            )
        })?;
        report.rounds += 1;
        report.writes += round.writes;
        report.comparisons += round.comparisons;
        report.maintenance += round.maintenance;
        report.seconds = start.elapsed().as_secs_f64();
        if parameters.verbose && report.rounds % 100 == 0 {
            eprintln!("seed {seed}: {report}");
        }
    }
    Ok(report)
}

fn round(seed: u64, batches: u64) -> Result<ScanReport, String> {
    // Few keys, so that the threads' operations meet.
    let maintenance = batches / [4, 20, 100][usize::try_from(seed / 4 % 3).unwrap_or(0)];
    let size = ScanSize { keys: [24, 60, 160], batches, maintenance, scans: batches * 2, new: (80, 160) };
    let writers = [2, 3, 5][usize::try_from(seed / 12 % 3).unwrap_or(0)];
    let scans = ScanParameters { seed, writers, scanners: 2, ..ScanParameters::default() };
    in_machine(seed, move || run_sized(&scans, &size))?
}
