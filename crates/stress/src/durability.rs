//! The commands of the campaigns crash, changes, kill9, faults, histories, hostile, sim and
//! sim-scans.

use clap::Args;
use esker_stress::{crash, db_stress, faults, following, histories, hostile, kill9};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct CrashArguments {
    /// Seed of the first run; each further run has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Crash points to check.
    #[arg(long, default_value_t = 10_000)]
    points: u64,
    /// Encrypt the files.
    #[cfg(feature = "encryption")]
    #[arg(long)]
    encrypted: bool,
}

#[derive(Args)]
pub(crate) struct ChangesArguments {
    /// Seed of the first round; each further round has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Batches that followers apply.
    #[arg(long, default_value_t = 1_000_000)]
    batches: u64,
}

pub(crate) fn run_changes(arguments: &ChangesArguments) -> Result<String, String> {
    let &ChangesArguments { seed, batches } = arguments;
    let parameters = following::FollowingParameters { seed, batches, verbose: true };
    following::run(&parameters).map(|report| report.to_string())
}

#[derive(Args)]
pub(crate) struct Kill9Arguments {
    /// Directory for the database, empty or new.
    directory: PathBuf,
    /// Number of kills.
    #[arg(long, default_value_t = 200)]
    rounds: u32,
    /// Writing threads.
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Longest life of a child, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    max_millis: u64,
    /// Seed of the times at which children are killed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
pub(crate) struct ChildArguments {
    directory: PathBuf,
    #[arg(long)]
    threads: u64,
}

#[derive(Args)]
pub(crate) struct FaultsArguments {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let every n-th file operation fail, each in a trial of its own.
    #[arg(long, default_value_t = 1)]
    step: u64,
    /// Kinds of failure; by default all kinds.
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<faults::Fault>,
    /// Let all trials run this variation of the scripted load, so that each operation of the load
    /// fails once. By default the seed chooses a variation for each trial.
    #[arg(long)]
    script: Option<u64>,
    /// Let only the operation with this number fail. With `full-disk`: let the disk be full after
    /// this number of bytes.
    #[arg(long)]
    at: Option<u64>,
    /// Flip no bits.
    #[arg(long)]
    no_flips: bool,
}

/// Parameters of `histories`.
#[derive(Args)]
pub(crate) struct HistoriesArguments {
    /// Seed of the first history; each further history has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of histories.
    #[arg(long, default_value_t = 10_000)]
    histories: u64,
    /// Operations of each history.
    #[arg(long, default_value_t = 1000)]
    operations: u64,
    /// Least number of crashes of each history.
    #[arg(long, default_value_t = 10)]
    crashes: u64,
    /// Operations to leave out, as half-open ranges: `3-40,77-78` means 3 to 39, and 77.
    #[arg(long, value_delimiter = ',', value_parser = parse_range)]
    skip: Vec<(u64, u64)>,
    /// Let the disk crash only: no delays, errors or damaged reads.
    #[arg(long)]
    calm: bool,
    /// The program `esker-reader`, in which RocksDB reads crashed disks, too. With this option the
    /// same seed gives other histories.
    #[arg(long)]
    second_reader: Option<std::path::PathBuf>,
    /// Let RocksDB read every n-th crashed disk.
    #[arg(long, default_value_t = 4)]
    read_one_in: u64,
    /// Run each history twice, and compare the two runs (with `--cfg shuttle`).
    #[arg(long)]
    twice: bool,
    /// Seconds after which no further history begins.
    #[arg(long)]
    seconds: Option<u64>,
    /// Seconds for shrinking a failure.
    #[arg(long, default_value_t = 120)]
    shrink: u64,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once('-').ok_or("a range is FROM-TO")?;
    let number = |text: &str| text.parse().map_err(|e| format!("{text}: {e}"));
    Ok((number(from)?, number(to)?))
}

pub(crate) fn run_histories(arguments: &HistoriesArguments) -> Result<String, String> {
    let parameters = histories::HistoryParameters {
        seed: arguments.seed,
        histories: arguments.histories,
        operations: arguments.operations,
        crashes: arguments.crashes,
        trouble: !arguments.calm,
        second_reader: arguments.second_reader.clone().map(|program| (program, arguments.read_one_in.max(1))),
        skip: arguments.skip.iter().map(|(from, to)| *from..*to).collect(),
        twice: arguments.twice,
        limit: arguments.seconds.map(std::time::Duration::from_secs),
        shrink: std::time::Duration::from_secs(arguments.shrink),
        verbose: true,
    };
    histories::run(&parameters).map(|report| report.to_string())
}

pub(crate) fn run_crash(arguments: &CrashArguments) -> Result<String, String> {
    let parameters = crash::CrashParameters {
        seed: arguments.seed,
        points: arguments.points,
        verbose: true,
        brief: false,
        max_batches: u32::MAX,
        trouble: false,
        #[cfg(feature = "encryption")]
        encrypted: arguments.encrypted,
    };
    crash::run(&parameters).map(|report| report.to_string())
}

pub(crate) fn run_kill9(arguments: &Kill9Arguments) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let parameters = kill9::Kill9Parameters {
        program: &program,
        directory: &arguments.directory,
        rounds: arguments.rounds,
        threads: arguments.threads,
        max_millis: arguments.max_millis,
        seed: arguments.seed,
        verbose: true,
    };
    kill9::run(&parameters).map(|report| report.to_string())
}

pub(crate) fn run_crash_test(flags: &db_stress::crash_test::CrashFlags) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let report = db_stress::crash_test::run(flags, &program, &["db_stress"])?;
    Ok(report.to_string())
}

pub(crate) fn run_child(arguments: &ChildArguments) -> Result<String, String> {
    kill9::child(&arguments.directory, arguments.threads).map(|()| String::new()).map_err(|e| e.to_string())
}

pub(crate) fn run_faults(arguments: &FaultsArguments) -> Result<String, String> {
    let FaultsArguments { seed, step, ref kinds, script, at, no_flips } = *arguments;
    let faults = if kinds.is_empty() { faults::Fault::ALL.to_vec() } else { kinds.clone() };
    let parameters =
        faults::FaultParameters { seed, step, faults, script, at, bit_flips: !no_flips, verbose: true };
    faults::run(&parameters).map(|report| report.to_string())
}

/// Parameters of `hostile`.
#[derive(Args)]
pub(crate) struct HostileArguments {
    /// Parent of the trials' directories.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Seed of the first trial; each further trial has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of trials.
    #[arg(long, default_value_t = 170)]
    trials: u64,
    /// Run only these circumstances.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<hostile::Circumstance>,
}

pub(crate) fn run_hostile(arguments: &HostileArguments) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let directory = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    let parameters = hostile::HostileParameters {
        program: &program,
        directory: &directory,
        seed: arguments.seed,
        trials: arguments.trials,
        only: arguments.only.clone(),
        verbose: true,
    };
    hostile::run(&parameters).map(|report| report.to_string())
}

#[derive(Args)]
pub(crate) struct HostileChildArguments {
    directory: PathBuf,
    #[arg(long, default_value_t = 3)]
    threads: u64,
    #[arg(long)]
    forks: bool,
}

pub(crate) fn run_hostile_child(arguments: &HostileChildArguments) -> Result<String, String> {
    let HostileChildArguments { ref directory, threads, forks } = *arguments;
    hostile::child(&hostile::ChildParameters { directory, threads, forks }).map(|()| String::new())
}

#[derive(Args)]
pub(crate) struct HostileVerifyArguments {
    directory: PathBuf,
    /// The number of each thread's last acknowledged batch.
    acknowledged: Vec<u64>,
}

pub(crate) fn run_hostile_verify(arguments: &HostileVerifyArguments) -> Result<String, String> {
    let found = hostile::verify(&arguments.directory, &arguments.acknowledged)?;
    Ok(found.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
}

#[derive(Args)]
pub(crate) struct HostileOpenerArguments {
    directory: PathBuf,
    /// `read` or `write`.
    mode: String,
}

pub(crate) fn run_hostile_opener(arguments: &HostileOpenerArguments) -> Result<String, String> {
    hostile::open_beside(&arguments.directory, arguments.mode == "write").map(|()| String::new())
}

/// Parameters of `sim`.
#[cfg(shuttle)]
#[derive(Args)]
pub(crate) struct SimArguments {
    /// Seed of the first machine; each further machine has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Least number of crashes.
    #[arg(long, default_value_t = 1_000_000)]
    cycles: u64,
    /// Crashes of one machine.
    #[arg(long, default_value_t = 20)]
    per_machine: u64,
    /// Largest number of batches of each writer; a smaller number shrinks a failure.
    #[arg(long, default_value_t = u32::MAX)]
    max_batches: u32,
    /// Let the disk crash only: no delays, errors or damaged reads.
    #[arg(long)]
    calm: bool,
    /// Run each machine twice, and compare the two runs.
    #[arg(long)]
    twice: bool,
    /// Seconds after which no further machine begins.
    #[arg(long)]
    seconds: Option<u64>,
}

/// Parameters of `sim-scans`.
#[cfg(shuttle)]
#[derive(Args)]
pub(crate) struct SimScansArguments {
    /// Seed of the first round; each further round has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest number of rounds; each round has a database of its own.
    #[arg(long, default_value_t = u64::MAX)]
    rounds: u64,
    /// Batches of each writer.
    #[arg(long, default_value_t = 80)]
    batches: u64,
    /// Seconds after which no further round begins.
    #[arg(long)]
    seconds: Option<u64>,
}

#[cfg(shuttle)]
pub(crate) fn run_sim_scans(arguments: &SimScansArguments) -> Result<String, String> {
    let parameters = esker_stress::sim::scans::SimScanParameters {
        seed: arguments.seed,
        rounds: arguments.rounds,
        batches: arguments.batches,
        limit: arguments.seconds.map(std::time::Duration::from_secs),
        verbose: true,
    };
    esker_stress::sim::scans::run(&parameters).map(|report| report.to_string())
}

#[cfg(shuttle)]
pub(crate) fn run_sim(arguments: &SimArguments) -> Result<String, String> {
    let parameters = esker_stress::sim::SimParameters {
        seed: arguments.seed,
        cycles: arguments.cycles,
        per_machine: arguments.per_machine,
        max_batches: arguments.max_batches,
        trouble: !arguments.calm,
        twice: arguments.twice,
        limit: arguments.seconds.map(std::time::Duration::from_secs),
        verbose: true,
    };
    esker_stress::sim::run(&parameters).map(|report| report.to_string())
}
