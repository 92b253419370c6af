//! esker-bench: RocksDB's `db_bench` for Esker, with its flags, benchmarks and result lines.
//!
//! In: a command line that a script for `db_bench` uses. Out: result lines that this script can
//! parse. Source of names and formats: RocksDB 11.9 `tools/db_bench_tool.cc`, and the output of
//! 7.8.3's `db_bench`. docs/compat/tools.md lists the differences.
//!
//! Reading order: [`flags`] (the command line), `options` (flags become the engine's options),
//! `run` (the list of benchmarks), `workload` (the work of their threads), `report` (the output).
//! [`engine`] is the interface between benchmarks and engines. `keys`, `values` and `random` make
//! the same keys and values from a seed as RocksDB's `db_bench`. [`cache_bench()`] is RocksDB's
//! `cache_bench`.
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
pub use output::{BenchOutput, BenchStop};
pub use run::run_on;

use esker::internals::env::SystemClock;
use flags::BenchCommandLine;

/// Runs `db_bench` with these arguments (without the program's name) on Esker.
/// # Errors
/// `Failed` names the wrong flag, the failed operation, or the reason why the database cannot be
/// opened. The results before a failed operation are printed and marked partial. `OutputClosed`:
/// the reader has closed the stream of results.
pub fn db_bench(arguments: &[String], output: &BenchOutput) -> Result<(), BenchStop> {
    match flags::parse(arguments).map_err(BenchStop::Failed)? {
        BenchCommandLine::Help(text) => output.print(format_args!("{text}")),
        BenchCommandLine::Version => {
            output.print(format_args!("db_bench version {}\n", env!("CARGO_PKG_VERSION")))
        }
        BenchCommandLine::Run(flags) => {
            let store = options::store(&flags)?;
            run_on(&store, &flags, &SystemClock, output)
        }
    }
}
