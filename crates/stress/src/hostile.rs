//! Runs real processes in hostile surroundings: limits, full disks, signals, directories that are
//! moved or replaced, second openers.
//!
//! In: a seed and a number of trials. Out: a [`HostileReport`], or the bug that a trial found, with
//! the seed of that trial.
//!
//! A trial starts a [`child`] that writes from several threads and reports each acknowledged batch
//! on a pipe. The driver then begins one [`Circumstance`] and ends it again. Then it kills the
//! child or lets the child end. Three things must hold:
//!
//!  1. Each failure is an error that the child reports with its message. Nothing panics, and no
//!     thread waits for ever.
//!  2. When the cause is gone, every thread of the child continues, by itself or after `resume`.
//!     Some circumstances make an open database unusable; then the error says why.
//!  3. The database opens afterwards, and contains every acknowledged batch completely.
//!
//! The driver needs only the system's tools. It leaves some circumstances out if it may not mount a
//! file system or may not run a child as another user. Its report names these circumstances.

mod child;
mod circumstance;
mod place;
mod process;

pub use child::{ChildParameters, child, open_beside, verify};
pub use circumstance::Circumstance;

use circumstance::ChildOutcome;
use esker::internals::env::{Clock, SystemClock};
use esker_testkit::TempDir;
use place::HostilePlace;
use process::Process;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Writing threads of a child.
pub(crate) const THREADS: u64 = 3;
/// Time limit for a child to begin, to continue, or to end.
const PATIENCE: Duration = Duration::from_secs(90);

/// Parameters of a campaign.
#[derive(Clone, Debug)]
pub struct HostileParameters<'a> {
    /// The `esker-stress` binary.
    pub program: &'a Path,
    /// Parent of the trials' directories. It must not be a `tmpfs`.
    pub directory: &'a Path,
    /// Seed of the first trial. Later trials have the seeds that follow.
    pub seed: u64,
    /// Number of trials.
    pub trials: u64,
    /// Circumstances to try. An empty list means all circumstances.
    pub only: Vec<Circumstance>,
    /// Print a line for each trial.
    pub verbose: bool,
}

/// Counts of a campaign.
#[derive(Clone, Debug, Default)]
pub struct HostileReport {
    /// Trials by circumstance.
    pub trials: BTreeMap<&'static str, u64>,
    /// Circumstances that this machine does not allow, with the reasons.
    pub left_out: BTreeMap<&'static str, &'static str>,
    /// Errors that children reported.
    pub errors: u64,
    /// Batches that were acknowledged.
    pub acknowledged: u64,
    /// Trials in which the child met an error.
    pub met: u64,
    /// Children that died in circumstances in which the system may kill them.
    pub died: u64,
}

impl fmt::Display for HostileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trials: u64 = self.trials.values().sum();
        let each: Vec<String> = self.trials.iter().map(|(name, n)| format!("{name} {n}")).collect();
        write!(
            f,
            "hostile: {trials} trials ({}), {} of them met errors, {} errors in all, {} children died of a limit; {} \
             acknowledged batches, all there; every child went on, or said why it could not",
            each.join(", "),
            self.met,
            self.errors,
            self.died,
            self.acknowledged
        )?;
        for (name, why) in &self.left_out {
            write!(f, "\nleft out: {name}: {why}")?;
        }
        Ok(())
    }
}

/// Runs the trials. With fewer trials than circumstances, the seed chooses the circumstances.
/// # Errors
/// The first bug, with the seed of its trial.
pub fn run(parameters: &HostileParameters<'_>) -> Result<HostileReport, String> {
    let mut report = HostileReport::default();
    let all = if parameters.only.is_empty() { &Circumstance::ALL[..] } else { &parameters.only[..] };
    let mut possible = Vec::new();
    for circumstance in all {
        match circumstance.why_impossible(parameters.directory) {
            None => possible.push(*circumstance),
            Some(why) => {
                report.left_out.insert(circumstance.name(), why);
            }
        }
    }
    if possible.is_empty() {
        return Err("hostile: this machine allows no circumstance".to_owned());
    }
    // Copies the program, because the children's user may have no access to its directory.
    let work = TempDir::within(parameters.directory, "hostile-program").ok_or("no directory can be made")?;
    let program = work.join("esker-stress");
    copy_program(parameters.program, &program)?;
    let parameters = &HostileParameters { program: &program, ..parameters.clone() };
    for seed in (parameters.seed..).take(usize::try_from(parameters.trials).unwrap_or(usize::MAX)) {
        let circumstance = possible[(seed % possible.len() as u64) as usize];
        let mut trial = Trial::new(parameters, circumstance, seed)?;
        let outcome = trial.run(&mut report).map_err(|why| {
            format!("hostile: seed {seed}, {}: {why}\n{}", circumstance.name(), trial.log_of_child())
        });
        outcome?;
        *report.trials.entry(circumstance.name()).or_default() += 1;
        if parameters.verbose {
            progress(seed, circumstance, &trial);
        }
    }
    Ok(report)
}

fn copy_program(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", to.display()))
}

#[expect(clippy::print_stderr, reason = "progress of a long campaign")]
fn progress(seed: u64, circumstance: Circumstance, trial: &Trial<'_>) {
    let said = trial.process.as_ref().map(Process::said);
    let (errors, first) = said.map_or((0, None), |said| (said.errors, said.first_error));
    let first = first.map_or(String::new(), |first| format!("; first: {first}"));
    eprintln!("{seed}: {}: {errors} errors{first}", circumstance.name());
}

/// A trial: one directory, one child, one circumstance.
struct Trial<'a> {
    parameters: &'a HostileParameters<'a>,
    circumstance: Circumstance,
    /// The child. It must end before `place` is removed.
    process: Option<Process>,
    place: HostilePlace,
    rng: fastrand::Rng,
}

impl<'a> Trial<'a> {
    fn new(
        parameters: &'a HostileParameters<'a>,
        circumstance: Circumstance,
        seed: u64,
    ) -> Result<Trial<'a>, String> {
        let place = HostilePlace::new(parameters.directory, circumstance.kind_of_place(seed))?;
        let rng = fastrand::Rng::with_seed(seed);
        Ok(Trial { parameters, circumstance, place, process: None, rng })
    }

    fn run(&mut self, report: &mut HostileReport) -> Result<(), String> {
        let (program, circumstance) = (self.parameters.program, self.circumstance);
        // The first child meets no trouble. Its batches must survive the circumstance, too.
        let mut calm = Process::start(program, &self.place, &[], &[])?;
        calm.wait_for_progress(&[0; THREADS as usize], PATIENCE)?;
        calm.end(self.rng.bool())?;
        let before = calm.said();
        before.check()?;

        let process = self.process.insert(Process::start(
            program,
            &self.place,
            &circumstance.wrapper(),
            circumstance.arguments(),
        )?);
        process.expect(&before.acknowledged);
        if circumstance.wrapper().is_empty() {
            process.wait_for_progress(&before.acknowledged, PATIENCE)?;
        }
        let mut trouble = circumstance.begin(program, &self.place, process)?;
        SystemClock.sleep(Duration::from_millis(self.rng.u64(100..1200)));
        trouble.end(process)?;
        let may = circumstance.outcome();
        let mut died = false;
        match process.wait_for_progress(&process.said().acknowledged, PATIENCE) {
            Ok(()) => process.end(self.rng.bool())?,
            Err(_) if may == ChildOutcome::MayDie && process.has_died() => died = true,
            Err(_) if may == ChildOutcome::MayStop && process.said().errors > 0 => process.end(true)?,
            Err(why) => return Err(format!("it does not go on when the cause is gone: {why}")),
        }
        let said = process.said();
        said.check()?;
        if let Some(directory) = trouble.directory() {
            let found = process::verify(program, &directory, &said.acknowledged)?;
            report.acknowledged += found.iter().sum::<u64>();
        }
        if let Some((directory, acknowledged)) = trouble.other() {
            process::verify(program, &directory, &acknowledged)
                .map_err(|why| format!("the database that took the place: {why}"))?;
        }
        report.errors += said.errors;
        report.met += u64::from(said.errors > 0);
        report.died += u64::from(died);
        Ok(())
    }

    fn log_of_child(&self) -> String {
        let said = self.process.as_ref().map(Process::said);
        said.map_or(String::new(), |said| said.text)
    }
}
