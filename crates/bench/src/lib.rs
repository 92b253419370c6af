//! esker-bench: RocksDB's `db_bench` for Esker, with its flags, its benchmarks and its result
//! lines.
//!
//! In: a command line as RocksDB's users have it in their scripts. Out: result lines that their
//! scripts parse.
//! Source of names and formats: RocksDB 11.9 `tools/db_bench_tool.cc`, and the output of 7.8.3's
//! `db_bench`. docs/compat/tools.md says where the two differ.
//!
//! Reading order: [`flags`] (the command line), `options` (flags become the engine's options),
//! `run` (the list of benchmarks), `workload` (what the threads of one do), `report` (what is
//! told). [`engine`] is what a benchmark needs of an engine; `keys`, `values` and `random` make the
//! same keys and values as RocksDB's tool from the same seed. [`cache_bench()`] is RocksDB's tool
//! of that name.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache_bench;
pub mod engine;
pub mod flags;
mod keys;
pub mod lock_bench;
mod options;
mod output;
mod random;
mod report;
mod run;
mod values;
mod workload;

pub use cache_bench::cache_bench;
pub use output::{Output, Stop};
pub use run::run_on;

use esker::internals::env::SystemClock;
use flags::CommandLine;

/// Runs `db_bench` with these arguments (without the program's name) on Esker.
/// # Errors
/// `Failed` says which flag is wrong, why the database cannot be opened, or which operation failed;
/// what was measured until then has been printed, and marked partial · `OutputClosed` if nobody
/// reads the results any more.
pub fn db_bench(arguments: &[String], output: &Output) -> Result<(), Stop> {
    match flags::parse(arguments).map_err(Stop::Failed)? {
        CommandLine::Help(text) => output.print(format_args!("{text}")),
        CommandLine::Version => {
            output.print(format_args!("db_bench version {}\n", env!("CARGO_PKG_VERSION")))
        }
        CommandLine::Run(flags) => {
            let store = options::store(&flags)?;
            run_on(&store, &flags, &SystemClock, output)
        }
    }
}
