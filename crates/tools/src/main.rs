//! `esker`: one binary for people: a demonstration, RocksDB's tools, a verifier.
//!
//! In: a command line. Out: text on standard output, what went wrong on standard error, and an exit code: 0 if all went
//! well, 1 if not, 2 for a command line that cannot be understood (and what a subcommand says besides).
//!
//! Each subcommand is a module that starts with its options; what they share is in
//! `failure`, `text`, `table_text` and `manifest`.
#![forbid(unsafe_code)]

mod compare;
mod db_bench;
mod db_stress;
mod demo;
mod door;
mod explain;
mod failure;
mod ldb;
mod lock_bench;
mod manifest;
mod sst_dump;
mod table_text;
mod text;
mod verify;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::io::Write;
use std::process::ExitCode;

/// An embedded LSM key-value engine that opens RocksDB's databases in place.
#[derive(Parser)]
#[command(name = "esker", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows a real database at work: load, read, scan, delete a range, kill -9, recover; and checks every answer
    Demo(demo::DemoOptions),
    /// Whether two databases hold the same, and where they first differ
    Compare(compare::CompareOptions),
    /// Which RocksDB versions can open a database, and what in it needs the newest
    Door(door::DoorOptions),
    /// What a read looks at, and why it takes as long as it does
    Explain(explain::ExplainOptions),
    /// Benchmarks, as RocksDB's db_bench
    #[command(name = "db_bench")]
    DbBench(db_bench::BenchOptions),
    /// Benchmarks of the block cache, as RocksDB's cache_bench
    #[command(name = "cache_bench")]
    CacheBench(db_bench::BenchOptions),
    /// Random operations on a real directory, each answer compared with what is expected, as RocksDB's db_stress
    #[command(name = "db_stress")]
    DbStress(db_stress::Flags),
    /// Starts db_stress with random flags again and again, and kills it, as RocksDB's db_crashtest.py
    #[command(name = "db_crashtest")]
    DbCrashtest(db_stress::CrashFlags),
    /// Administration and data access, as RocksDB's ldb
    Ldb(ldb::LdbOptions),
    /// How many locks a second the lock manager takes and gives back
    #[command(name = "lock_bench")]
    LockBench(lock_bench::LockBenchArguments),
    /// Looks into table files, as RocksDB's sst_dump
    #[command(name = "sst_dump")]
    SstDump(sst_dump::SstDumpOptions),
    /// Checks a database: every file, every checksum, every key order, the MANIFEST against the directory
    Verify(verify::VerifyOptions),
    /// Writes until it is killed; `demo` starts it
    #[command(hide = true)]
    DemoVictim(demo::VictimOptions),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(options) => demo::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Door(options) => door::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::DbBench(options) => db_bench::run(&options),
        Command::CacheBench(options) => db_bench::run_cache_bench(&options),
        Command::DbStress(flags) => db_stress::run(&flags),
        Command::DbCrashtest(flags) => db_stress::run_crash_test(&flags),
        Command::Ldb(options) => ldb::run(&options),
        Command::LockBench(arguments) => lock_bench::run(&arguments),
        Command::SstDump(options) => sst_dump::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::DemoVictim(options) => demo::run_victim(&options),
    };
    match outcome {
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Told(why)) => {
            // Standard error may be closed as well; then there is nobody left to tell.
            writeln!(std::io::stderr(), "{why}").ok();
            ExitCode::FAILURE
        }
        Err(Failure::Coded(code, why)) => {
            // As above.
            writeln!(std::io::stderr(), "{why}").ok();
            ExitCode::from(code)
        }
    }
}
