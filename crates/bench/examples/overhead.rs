//! The cost of db_bench's loops by themselves: the named benchmarks on an engine that does nothing.
//!
//! `cargo run --release -p esker-bench --example overhead -- --benchmarks=fillrandom,readrandom
//! --num=20000000`

use esker::internals::env::SystemClock;
use esker_bench::engine::NoStore;
use esker_bench::flags::{BenchCommandLine, parse};
use esker_bench::{BenchOutput, run_on};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let output = BenchOutput::new(std::io::stdout(), std::io::stderr());
    let outcome = match parse(&arguments) {
        Ok(BenchCommandLine::Run(flags)) => run_on(&NoStore, &flags, &SystemClock, &output).is_ok(),
        _ => false,
    };
    if outcome { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
