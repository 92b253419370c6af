//! `esker-growth`: measures how work grows with the size of a database, against the table in
//! `docs/growth.md`.
//!
//! A program of its own, because it installs a global allocator that counts.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

use clap::Parser;
use esker::internals::base::allocations::CountingAllocator;
use esker_stress::growth::{GrowthParameters, run, run_under_callgrind};
use esker_testkit::TempDir;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Measures every operation at n, 2n, 4n of every axis.
#[derive(Parser)]
struct Arguments {
    /// Multiplies the smallest n of the short form.
    #[arg(long, default_value_t = 1)]
    scale: u64,
    /// Sizes: n, 2n, 4n and so on.
    #[arg(long, default_value_t = 3)]
    sizes: u32,
    /// Axes to take, by name; by default all.
    #[arg(long, value_delimiter = ',')]
    axes: Vec<String>,
    /// Operations to take, by name; by default all.
    #[arg(long, value_delimiter = ',')]
    operations: Vec<String>,
    /// Print every finding.
    #[arg(long)]
    all: bool,
    /// Count instructions, too: everything runs under callgrind, 50 times slower.
    #[arg(long)]
    instructions: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = if arguments.instructions {
        let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--instructions").collect();
        let directory = TempDir::new("growth");
        run_under_callgrind(directory.path(), &args).map(|()| String::new())
    } else {
        let Arguments { scale, sizes, axes, operations, all, .. } = arguments;
        run(&GrowthParameters { scale, sizes: sizes.max(2), axes, operations, verbose: all })
            .map(|report| report.to_string())
    };
    match outcome {
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
