//! `esker-stress`: runs one campaign of the library with parameters from the command line.
//!
//! Exit code 0 if every answer was right; otherwise 1, with a report on standard error.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod durability;

use clap::{Args, Parser, Subcommand};
use esker::txn::WritePolicy;
use esker_stress::{db_stress, metamorphic, model, probes, scans, threads};
use std::process::ExitCode;

/// Long campaigns against Esker.
#[derive(Parser)]
struct Arguments {
    /// Print how often the campaign ran through each probe. A probe marks a rare path of the
    /// engine. Fail if the campaign missed a probe that it must reach.
    #[arg(long, global = true)]
    probes: bool,
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Random operations, each answer compared with a model.
    Model(ModelArguments),
    /// The same operations under many sets of options.
    Metamorphic(MetamorphicArguments),
    /// Crashes in a simulated machine.
    #[cfg(shuttle)]
    Sim(durability::SimArguments),
    /// Scans beside writers in a simulated machine.
    #[cfg(shuttle)]
    SimScans(durability::SimScansArguments),
    /// Random operations on a real directory, with expected values in another directory.
    #[command(name = "db_stress")]
    DbStress(db_stress::StressFlags),
    /// Starts db_stress with random flags again and again, and kills it.
    #[command(name = "db_crashtest")]
    DbCrashtest(db_stress::crash_test::CrashFlags),
    /// Many writers and readers at once.
    Threads(ThreadsArguments),
    /// Scans beside writers, each answer compared.
    ScanThreads(ScansArguments),
    /// Crashes at random points in time on a simulated disk.
    Crash(durability::CrashArguments),
    /// Long histories with many crashes, each answer compared with a model.
    Histories(durability::HistoriesArguments),
    /// The change stream and a follower under crashes, compared with a model.
    Changes(durability::ChangesArguments),
    /// A child process killed while it writes, on the real disk.
    Kill9(durability::Kill9Arguments),
    /// The child process of `kill9`.
    #[command(hide = true)]
    Kill9Child(durability::ChildArguments),
    /// Real processes in hostile surroundings.
    Hostile(durability::HostileArguments),
    /// The child processes of `hostile`: a writer, a verifier, openers.
    #[command(hide = true)]
    HostileChild(durability::HostileChildArguments),
    #[command(hide = true)]
    HostileVerify(durability::HostileVerifyArguments),
    #[command(hide = true)]
    HostileOpener(durability::HostileOpenerArguments),
    /// For each file operation, a run in which this operation fails.
    Faults(durability::FaultsArguments),
}

impl Campaign {
    /// The campaign's name in the lists of probes.
    fn name(&self) -> &'static str {
        match self {
            Campaign::Model(_) => "model",
            Campaign::Metamorphic(_) => "metamorphic",
            #[cfg(shuttle)]
            Campaign::Sim(_) => "sim",
            #[cfg(shuttle)]
            Campaign::SimScans(_) => "sim-scans",
            Campaign::DbStress(_) => "db_stress",
            Campaign::DbCrashtest(_) => "db_crashtest",
            Campaign::Threads(_) => "threads",
            Campaign::ScanThreads(_) => "scan-threads",
            Campaign::Crash(_) => "crash",
            Campaign::Histories(_) => "histories",
            Campaign::Changes(_) => "changes",
            Campaign::Kill9(_) | Campaign::Kill9Child(_) => "kill9",
            Campaign::Hostile(_)
            | Campaign::HostileChild(_)
            | Campaign::HostileVerify(_)
            | Campaign::HostileOpener(_) => "hostile",
            Campaign::Faults(_) => "faults",
        }
    }
}

#[derive(Args)]
struct ModelArguments {
    /// Seed of the first round; each further round has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of rounds; each round has a database of its own.
    #[arg(long, default_value_t = 40)]
    rounds: u64,
    /// Operations in each round.
    #[arg(long, default_value_t = 250_000)]
    operations: u64,
    /// Kinds of operation to leave out.
    #[arg(long, value_enum, value_delimiter = ',')]
    without: Vec<model::OperationKind>,
    /// Keys of each family; 0 lets the seed choose.
    #[arg(long, default_value_t = 0)]
    keys: usize,
    /// Wait for background work after every operation.
    #[arg(long)]
    calm: bool,
}

fn run_model(arguments: ModelArguments) -> Result<String, String> {
    let ModelArguments { seed, rounds, operations, without, keys, calm } = arguments;
    let parameters = model::ModelParameters {
        seed,
        rounds,
        operations,
        without,
        keys,
        calm,
        verbose: true,
        ..model::ModelParameters::default()
    };
    model::run(&parameters).map(|report| report.to_string()).map_err(|divergence| divergence.to_string())
}

#[derive(Args)]
struct MetamorphicArguments {
    /// Seed of the first list of operations; each further list has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lists of operations.
    #[arg(long, default_value_t = 100)]
    lists: u64,
    /// Operations in each list.
    #[arg(long, default_value_t = 2000)]
    operations: usize,
    /// Sets of options for each list.
    #[arg(long, default_value_t = 4)]
    sets: u64,
    /// Run only this set of options.
    #[arg(long)]
    set: Option<u64>,
    /// Run only these operations, by their numbers.
    #[arg(long, value_delimiter = ',')]
    keep: Option<Vec<usize>>,
    /// Options that keep their defaults.
    #[arg(long, value_delimiter = ',')]
    without: Vec<String>,
    /// Wait for background work after every operation.
    #[arg(long)]
    calm: bool,
    /// Seconds for shrinking a failure.
    #[arg(long, default_value_t = 60)]
    shrink: u64,
    /// Seconds after which no further list begins.
    #[arg(long)]
    seconds: Option<u64>,
}

fn run_metamorphic(arguments: MetamorphicArguments) -> Result<String, String> {
    let parameters = metamorphic::MetamorphicParameters {
        seed: arguments.seed,
        lists: arguments.lists,
        operations: arguments.operations,
        sets: arguments.sets,
        set: arguments.set,
        keep: arguments.keep,
        without: arguments.without,
        calm: arguments.calm,
        shrink: std::time::Duration::from_secs(arguments.shrink),
        limit: arguments.seconds.map(std::time::Duration::from_secs),
        verbose: true,
    };
    metamorphic::run(&parameters).map(|report| report.to_string()).map_err(|failure| failure.to_string())
}

#[derive(Args)]
struct ThreadsArguments {
    /// Seed of the choices of each thread.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that write.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Threads that read.
    #[arg(long, default_value_t = 8)]
    readers: usize,
    /// Duration in seconds.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Directory of the database. By default the database is in memory.
    #[arg(long)]
    directory: Option<std::path::PathBuf>,
    /// Make each batch a transaction under this write policy.
    #[arg(long, value_enum)]
    policy: Option<PolicyArgument>,
}

/// A write policy of transactions.
#[derive(Clone, Copy, clap::ValueEnum)]
enum PolicyArgument {
    Committed,
    Prepared,
    Unprepared,
}

impl From<PolicyArgument> for WritePolicy {
    fn from(policy: PolicyArgument) -> WritePolicy {
        match policy {
            PolicyArgument::Committed => WritePolicy::WriteCommitted,
            PolicyArgument::Prepared => WritePolicy::WritePrepared,
            PolicyArgument::Unprepared => WritePolicy::WriteUnprepared,
        }
    }
}

fn run_threads(arguments: ThreadsArguments) -> Result<String, String> {
    let ThreadsArguments { seed, writers, readers, seconds, directory, policy } = arguments;
    let policy = policy.map(WritePolicy::from);
    let time = std::time::Duration::from_secs(seconds);
    threads::run(&threads::ThreadParameters { seed, writers, readers, time, directory, policy })
        .map(|report| report.to_string())
}

#[derive(Args)]
struct ScansArguments {
    /// Seed of the first round; each further round has the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that write.
    #[arg(long, default_value_t = 2)]
    writers: usize,
    /// Threads that scan.
    #[arg(long, default_value_t = 2)]
    scanners: usize,
    /// Duration of all rounds together, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Duration of a round, in seconds.
    #[arg(long, default_value_t = 4)]
    round_seconds: u64,
}

fn run_scans(arguments: ScansArguments) -> Result<String, String> {
    let ScansArguments { seed, writers, scanners, seconds, round_seconds } = arguments;
    let [time, round] = [seconds, round_seconds].map(std::time::Duration::from_secs);
    let parameters = scans::ScanParameters { seed, writers, scanners, time, round, verbose: true };
    scans::run(&parameters).map(|report| report.to_string())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let name = arguments.campaign.name();
    if arguments.probes {
        probes::begin();
    }
    let outcome: Result<String, String> = match arguments.campaign {
        Campaign::Model(arguments) => run_model(arguments),
        Campaign::Metamorphic(arguments) => run_metamorphic(arguments),
        #[cfg(shuttle)]
        Campaign::Sim(arguments) => durability::run_sim(&arguments),
        #[cfg(shuttle)]
        Campaign::SimScans(arguments) => durability::run_sim_scans(&arguments),
        Campaign::DbStress(flags) => db_stress::run(&flags).map(|report| report.to_string()),
        Campaign::DbCrashtest(flags) => durability::run_crash_test(&flags),
        Campaign::Threads(arguments) => run_threads(arguments),
        Campaign::ScanThreads(arguments) => run_scans(arguments),
        Campaign::Crash(arguments) => durability::run_crash(&arguments),
        Campaign::Histories(arguments) => durability::run_histories(&arguments),
        Campaign::Changes(arguments) => durability::run_changes(&arguments),
        Campaign::Kill9(arguments) => durability::run_kill9(&arguments),
        Campaign::Kill9Child(arguments) => durability::run_child(&arguments),
        Campaign::Hostile(arguments) => durability::run_hostile(&arguments),
        Campaign::HostileChild(arguments) => durability::run_hostile_child(&arguments),
        Campaign::HostileVerify(arguments) => durability::run_hostile_verify(&arguments),
        Campaign::HostileOpener(arguments) => durability::run_hostile_opener(&arguments),
        Campaign::Faults(arguments) => durability::run_faults(&arguments),
    };
    let reached = |report: String| match arguments.probes {
        true => probes::check(name).map(|told| format!("{report}\n{told}")),
        false => Ok(report),
    };
    match outcome.and_then(reached) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
