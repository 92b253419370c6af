//! `esker-compare`: Esker, RocksDB, fjall, redb, LMDB and a plain BTreeMap under the same workloads
//! in one run.
//!
//! In: which engines and workloads, how large, where. Out: a table, JSON, and a page with charts.
//!
//! Every engine runs in a process of its own (`worker.rs`); a round gives each a fresh directory,
//! and the engines take turns at every step, in turning order, so that what disturbs the machine
//! disturbs all of them (`run.rs`). What is asked of an engine is one trait (`engine.rs`),
//! implemented in `engines/`; the workloads are in `suites/`.
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

use crate::engines::Kind;
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
    /// One engine's process; started by the program itself.
    #[command(hide = true)]
    Worker {
        /// What to do, as JSON.
        task: String,
    },
}

/// What to run.
#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Small sizes: about ten minutes for everything on two cores.
    #[arg(long)]
    quick: bool,
    /// The engines; those that are not installed are left out, and named.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Kind::ALL)]
    engines: Vec<Kind>,
    /// The sets of workloads, or single ones (`core`, `core/readrandom`); everything if not said.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Keys of the core set; other sets scale with it.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..))]
    num: Option<u64>,
    /// Rounds that count; each engine runs once in each, in turning order.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: Option<u32>,
    /// No round that warms up the machine.
    #[arg(long)]
    no_warm_up: bool,
    /// When to stop, minutes: no set is begun behind that, and the figures are partial. 10 with
    /// --quick.
    #[arg(long)]
    minutes: Option<u64>,
    /// When a step of a slow engine is cut, seconds; its rate is then that of what it has done.
    #[arg(long)]
    step_seconds: Option<f64>,
    /// Bytes of a memtable.
    #[arg(long)]
    write_buffer_size: Option<usize>,
    /// Bytes of the block cache; everything fits if not said.
    #[arg(long)]
    cache_size: Option<usize>,
    /// Where the databases go: a directory that is empty or not there. If not said: shared memory,
    /// so that no disk disturbs, or else the temporary directory.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// The RocksDB to load: a librocksdb.so of 11.x, such as one that was compiled for this
    /// machine. If not said: the one of the tests, in `target/peers` or `$ESKER_PEERS_DIR`.
    #[arg(long, env = "ESKER_ROCKSDB_LIBRARY")]
    rocksdb_library: Option<PathBuf>,
    /// Where the figures go as JSON; kept up to date while it runs.
    #[arg(long, default_value = "target/compare/compare.json")]
    json: PathBuf,
    /// Where the page with the charts goes; beside the JSON if not said.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Run nothing: make table and page of the figures of an earlier run.
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

/// The steps that are asked for: all of a set, or single ones.
#[derive(Clone, Debug)]
struct Selection {
    words: Vec<String>,
}

impl Selection {
    /// # Errors
    /// A word that names nothing.
    fn new(words: &[String], plan: &bench::Plan) -> engine::Result<Selection> {
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
