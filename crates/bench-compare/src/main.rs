//! `esker-compare`: runs Esker, RocksDB, fjall, redb, LMDB and a plain BTreeMap under the same
//! workloads in one run.
//!
//! In: engines, workloads, sizes, a directory. Out: a table, JSON, and a page with charts.
//!
//! Every engine runs in a process of its own (`worker.rs`), with a fresh directory in each round.
//! The engines take turns at every step, in alternating order, so a disturbance of the machine
//! affects all of them (`run.rs`). One trait is the interface to all engines (`engine.rs`);
//! `engines/` implements it. The workloads are in `suites/`.
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time and real files, and its rivals do not go through esker-env"
)]

mod bench;
mod directory;
mod engine;
mod engines;
mod keys;
mod machine;
mod measure;
mod report;
mod run;
mod suites;
mod worker;
mod zipf;

use crate::engines::EngineKind;
use crate::suites::SuiteId;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Esker beside other engines: the same keys in the same order, in one run.
#[derive(Debug, Parser)]
#[command(name = "esker-compare", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one engine; the program starts this command itself
    #[command(hide = true)]
    Worker {
        /// The task as JSON
        task: String,
    },
}

/// The command line of a run.
#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Small sizes: about ten minutes for everything on two cores.
    #[arg(long)]
    quick: bool,
    /// The engines; a missing engine is reported and skipped.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = EngineKind::ALL)]
    engines: Vec<EngineKind>,
    /// The sets of workloads, or single steps (`core`, `core/readrandom`); default: all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Number of keys of the core set; other sets scale with this number.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..))]
    num: Option<u64>,
    /// Number of counted rounds. In each round each engine runs once; the order alternates.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// Skip the round that warms up the machine.
    #[arg(long)]
    no_warm_up: bool,
    /// Minutes after which no further set begins; the figures are then partial. Default with
    /// --quick: 10.
    #[arg(long)]
    minutes: Option<u64>,
    /// Seconds after which a step is cut off; its rate counts the operations until then.
    #[arg(long)]
    step_seconds: Option<f64>,
    /// Bytes of a memtable.
    #[arg(long)]
    write_buffer_size: Option<usize>,
    /// Bytes of the block cache; default: enough for all data.
    #[arg(long)]
    cache_size: Option<usize>,
    /// Directory for the databases, empty or new. Default: shared memory, which is not slowed down
    /// by a disk; without shared memory, the temporary directory.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Esker's librocksdb.so.11 to load for engine `esker-c`. Default: the library that `cargo
    /// build -p esker-capi` puts beside this program.
    #[arg(long)]
    esker_library: Option<PathBuf>,
    /// The RocksDB to load: a librocksdb.so of 11.x, for example one compiled for this machine.
    /// Default: the library of the tests, in `target/peers` or `$ESKER_PEERS_DIR`.
    #[arg(long, env = "ESKER_ROCKSDB_LIBRARY")]
    rocksdb_library: Option<PathBuf>,
    /// File for the figures as JSON; updated during the run.
    #[arg(long, default_value = "target/compare/compare.json")]
    json: PathBuf,
    /// File for the page with charts; default: beside the JSON.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Run no step: make table and page from the figures of an earlier run.
    #[arg(long, value_name = "JSON")]
    render: Option<PathBuf>,
    /// List the workloads and stop.
    #[arg(long)]
    list: bool,
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.command {
        Some(Command::Worker { task }) => worker::serve(task),
        None => run::main(&arguments.run),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("esker-compare: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The steps that a command line selects.
#[derive(Clone, Debug)]
struct Selection {
    words: Vec<String>,
}

impl Selection {
    /// The steps that `words` select. A word names a whole set or one step. An empty list selects
    /// all steps.
    /// # Errors
    /// A word that names neither a set nor a step.
    fn new(words: &[String], plan: &bench::BenchPlan) -> engine::RivalResult<Selection> {
        let steps = || SuiteId::ALL.iter().flat_map(|suite| suite.steps(plan));
        for word in words {
            let is_step = steps().any(|step| step.name == *word);
            if !is_step && !steps().any(|step| step.name.starts_with(&format!("{word}/"))) {
                return Err(format!("--only {word}: no such workload; --list shows them"));
            }
        }
        Ok(Selection { words: words.to_vec() })
    }

    fn contains(&self, name: &str) -> bool {
        let matches = |word: &String| {
            name == word || name.strip_prefix(word.as_str()).is_some_and(|r| r.starts_with('/'))
        };
        self.words.is_empty() || self.words.iter().any(matches)
    }
}
