//! Runs the whole engine in a simulated machine and crashes its database. Threads, clock and disk
//! all follow one seed.
//!
//! In: a seed and a number of cycles. Out: a [`SimReport`], or the first bug with the seed that
//! repeats it exactly. Only builds with `--cfg shuttle` have this module. In such builds shuttle's
//! scheduler chooses the next thread at every lock, condition variable, atomic, spawn and join, in
//! the engine and in the simulated disk. All simulated threads run in one thread of the operating
//! system, so nothing but the scheduler decides their order.
//!
//! `machine` is the simulated machine; [`scans`] is another campaign in such a machine.
//!
//! A cycle is one crash, made as in the campaign [`crate::crash`], with small loads. After a crash,
//! the database is opened from the crashed disk, and its contents are compared; some openings crash
//! again. With `trouble`, disk operations of some loads take simulated time. Some crashed disks
//! then fail, are full, or return wrong bytes while the database is opened and read. Afterwards the
//! database is opened once more, without faults.
//!
//! The seed decides options, writes, file operations, the order of threads, faults of the disk, and
//! the clock. It also decides which parts of file operations survive a crash. The seed does not
//! decide the names of sessions and of the database, but nothing depends on these names. Memory is
//! sequentially consistent: shuttle simulates no weaker memory.

mod delays;
mod keeper;
mod machine;
pub mod scans;

use crate::crash;
pub(crate) use machine::in_machine;
use std::fmt;
use std::time::{Duration, Instant};

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct SimParameters {
    /// Seed of the first machine. Later machines have the seeds that follow.
    pub seed: u64,
    /// Least number of crashes.
    pub cycles: u64,
    /// Crashes in one machine.
    pub per_machine: u64,
    /// Largest number of batches of each writer; a smaller number shrinks a failure.
    pub max_batches: u32,
    /// Let the disk be slow, and fail or damage some reads.
    pub trouble: bool,
    /// Run each machine twice, and compare their file operations.
    pub twice: bool,
    /// Time after which no further machine begins.
    pub limit: Option<Duration>,
    /// Print lines of progress.
    pub verbose: bool,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct SimReport {
    /// Simulated machines.
    pub machines: u64,
    /// The sum of the machines' counts.
    pub crashes: crash::CrashReport,
    /// Duration.
    pub time: Duration,
}

impl fmt::Display for SimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, cycles) = (self.time.as_secs_f64(), self.crashes.points);
        let (machines, history) = (self.machines, self.crashes.fingerprint);
        writeln!(
            f,
            "sim: {machines} machines, {:.0} cycles a second, history {history:016x}",
            cycles as f64 / seconds
        )?;
        self.crashes.fmt(f)
    }
}

/// Runs the simulations.
/// # Errors
/// The first bug, and the seed that repeats it.
#[expect(clippy::disallowed_methods, reason = "the clock of the campaign, not of the engine")]
#[expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]
pub fn run(parameters: &SimParameters) -> Result<SimReport, String> {
    let start = Instant::now();
    let mut report = SimReport::default();
    while report.crashes.points < parameters.cycles {
        if parameters.limit.is_some_and(|limit| start.elapsed() >= limit) {
            break;
        }
        let seed = parameters.seed + report.machines;
        let of_machine = machine(seed, parameters).map_err(|why| shrink(seed, parameters, why))?;
        if parameters.twice
            && machine(seed, parameters).map(|again| again.fingerprint) != Ok(of_machine.fingerprint)
        {
            return Err(format!("sim: SEED={seed}: the same seed gave another history"));
        }
        let before = report.crashes.points;
        add(&mut report.crashes, of_machine);
        report.machines += 1;
        if parameters.verbose && before / 1000 != report.crashes.points / 1000 {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("sim: {} cycles, seed {seed} ({seconds:.0} s so far)", report.crashes.points);
        }
    }
    report.time = start.elapsed();
    Ok(report)
}

/// Runs the cycles of one machine.
fn machine(seed: u64, parameters: &SimParameters) -> Result<crash::CrashReport, String> {
    let (points, max_batches) = (parameters.per_machine, parameters.max_batches);
    let trouble = parameters.trouble;
    let parameters = crash::CrashParameters {
        seed,
        points,
        verbose: false,
        brief: true,
        max_batches,
        trouble,
        #[cfg(feature = "encryption")]
        encrypted: false,
    };
    in_machine(seed, move || crash::run(&parameters))?
}

/// Reduces a failure to the least number of batches that still fail, and adds the command that
/// repeats it.
fn shrink(seed: u64, parameters: &SimParameters, why: String) -> String {
    let fails = |max_batches| {
        let fewer = SimParameters { max_batches, ..parameters.clone() };
        machine(seed, &fewer).err().map(|why| (max_batches, why))
    };
    let most = parameters.max_batches.min(100);
    let (batches, why) = (1..most).find_map(fails).unwrap_or((parameters.max_batches, why));
    let per_machine = parameters.per_machine;
    let calm = if parameters.trouble { "" } else { " --calm" };
    let again = format!(
        "again: sim --cycles 1 --seed {seed} --per-machine {per_machine} --max-batches {batches}{calm}"
    );
    format!("sim: SEED={seed}: {why}\n{again}")
}

fn add(all: &mut crash::CrashReport, one: crash::CrashReport) {
    all.runs += one.runs;
    all.batches += one.batches;
    all.points += one.points;
    all.kills += one.kills;
    all.second_crashes += one.second_crashes;
    all.refused += one.refused;
    all.in_trouble += one.in_trouble;
    all.errors += one.errors;
    all.faults += one.faults;
    all.lost += one.lost;
    all.fingerprint ^= one.fingerprint;
    for (op, n) in one.by_op {
        *all.by_op.entry(op).or_default() += n;
    }
}
