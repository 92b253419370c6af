//! esker-tools: the binary `esker`, with a demonstration, RocksDB's tools and a verifier.
//!
//! In: a command line. Out: text on standard output, failures on standard error, and an exit code:
//! 0 for success, 1 for a failure, 2 for a wrong command line. Some subcommands have other codes,
//! too.
//!
//! The features `benchmarks`, `campaigns` and `top`, all on by default, add the subcommands that
//! need the crates `esker-bench`, `esker-stress`, `esker-monitor` and `ratatui`. Without these
//! features the binary builds in a fraction of the time.
//!
//! Each subcommand is a module that starts with its options. Subcommands share `host`, `failure`,
//! `text`, `table_text` and `manifest`. Tests use this crate as a library: they run a
//! [`CommandLine`] on a [`Host`], and start no process.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod blob_dump;
mod block_cache_trace_analyzer;
mod changes;
mod command_line;
mod compaction_worker;
mod compare;
mod compat;
#[cfg(feature = "benchmarks")]
mod db_bench;
mod db_dump;
#[cfg(feature = "campaigns")]
mod db_stress;
mod demo;
#[cfg(feature = "encryption")]
mod encryption;
mod explain;
mod failure;
mod host;
mod html;
mod info;
mod io_tracer_parser;
mod ldb;
#[cfg(feature = "benchmarks")]
mod lock_bench;
mod manifest;
mod progress;
mod recompress;
mod report;
mod shell;
mod sst_dump;
mod table_text;
#[cfg(feature = "shell")]
mod terminal;
mod text;
#[cfg(feature = "top")]
mod top;
mod trace_analyzer;
mod units;
mod verify;
mod write_stress;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;
pub use host::Host;
use progress::LongCommand;
use std::ffi::OsString;
use std::io::Write;

/// An embedded LSM key-value engine that opens RocksDB's databases in place.
#[derive(Parser)]
#[command(name = "esker", version)]
struct Arguments {
    #[cfg(feature = "encryption")]
    #[command(flatten)]
    keys: encryption::KeyFlags,
    /// Print no progress of long commands on a terminal
    #[arg(long, global = true, alias = "no_progress")]
    no_progress: bool,
    #[command(subcommand)]
    command: Command,
}

/// A parsed command line.
pub struct CommandLine {
    command: Command,
    no_progress: bool,
    #[cfg(feature = "encryption")]
    keys: encryption::KeyFlags,
}

#[derive(Subcommand)]
enum Command {
    /// Shows a real database at work: load, read, scan, delete a range, kill -9, recover; and
    /// checks every answer
    Demo(demo::DemoArguments),
    /// Prints the records of a blob file, as RocksDB's blob_dump
    #[command(name = "blob_dump")]
    BlobDump(blob_dump::BlobDumpOptions),
    /// Analyzes a trace of the block cache, as RocksDB's block_cache_trace_analyzer
    #[command(name = "block_cache_trace_analyzer")]
    BlockCacheTraceAnalyzer(Box<block_cache_trace_analyzer::CacheAnalyzerOptions>),
    /// Prints the committed batches of a database in order, from a position on, and follows it
    Changes(changes::ChangesCommand),
    /// Runs a job of a compaction service: RocksDB's OpenAndCompact, as a process
    #[command(name = "compaction_worker")]
    CompactionWorker(compaction_worker::WorkerOptions),
    /// Prints a script that completes command lines in a shell
    Completions(command_line::CompletionsOptions),
    /// Compares two databases, and shows the first difference
    Compare(compare::CompareOptions),
    /// Shows the oldest RocksDB version that can open a database, and the features that need this
    /// version
    #[command(alias = "door")] // The name in earlier builds.
    Compat(compat::CompatOptions),
    /// Shows the steps of a read, and the time of each step
    Explain(explain::ExplainOptions),
    /// Runs benchmarks, like RocksDB's db_bench
    #[cfg(feature = "benchmarks")]
    #[command(name = "db_bench")]
    DbBench(db_bench::BenchOptions),
    /// Runs benchmarks of the block cache, like RocksDB's cache_bench
    #[cfg(feature = "benchmarks")]
    #[command(name = "cache_bench")]
    CacheBench(db_bench::BenchOptions),
    /// Runs random operations on a real directory and checks each answer, like RocksDB's db_stress
    #[cfg(feature = "campaigns")]
    #[command(name = "db_stress")]
    DbStress(db_stress::StressFlags),
    /// Starts db_stress with random flags again and again, and kills it, like RocksDB's
    /// db_crashtest.py
    #[cfg(feature = "campaigns")]
    #[command(name = "db_crashtest")]
    DbCrashtest(db_stress::CrashFlags),
    /// Says what a database holds: families, levels, operators, options, large files, damage
    Info(info::DatabaseInfoOptions),
    /// Prints a trace of I/O, as RocksDB's io_tracer_parser
    #[command(name = "io_tracer_parser")]
    IoTracerParser(io_tracer_parser::IoTracerOptions),
    /// Administers a database, and reads and writes data, like RocksDB's ldb
    Ldb(Box<ldb::LdbOptions>),
    /// Measures how many locks per second the lock manager takes and releases
    #[cfg(feature = "benchmarks")]
    #[command(name = "lock_bench")]
    LockBench(lock_bench::LockBenchArguments),
    /// Writes manual pages: one file for each command
    Manpages(command_line::ManpagesOptions),
    /// Writes an HTML page about a database and its past: levels, flushes, compactions, stalls over
    /// time, from its LOG files
    Report(report::HtmlReportOptions),
    /// Writes a database to one file, as RocksDB's rocksdb_dump
    #[command(name = "rocksdb_dump")]
    RocksdbDump(db_dump::DbDumpOptions),
    /// Puts the entries of such a file into a database, as RocksDB's rocksdb_undump
    #[command(name = "rocksdb_undump")]
    RocksdbUndump(db_dump::DbUndumpOptions),
    /// Reads and writes a database interactively: families, transactions, snapshots, scans
    Shell(shell::ShellOptions),
    /// Looks into table files, like RocksDB's sst_dump
    #[command(name = "sst_dump")]
    SstDump(sst_dump::SstDumpOptions),
    /// Shows the database of a running process, live
    #[cfg(feature = "top")]
    Top(top::TopOptions),
    /// Analyzes a trace of queries, as RocksDB's trace_analyzer
    #[command(name = "trace_analyzer")]
    TraceAnalyzer(trace_analyzer::AnalyzerOptions),
    /// Checks a database: every file, every checksum, every key order, the MANIFEST against the
    /// directory
    Verify(verify::VerifyOptions),
    /// Writes while iterators hold files for a long time, like RocksDB's write_stress
    #[command(name = "write_stress")]
    WriteStress(write_stress::WriteStressOptions),
    /// Writes until it is killed; `demo` starts it
    #[command(hide = true)]
    DemoVictim(demo::DemoArguments),
}

impl std::fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommandLine").field("only_reads", &self.only_reads()).finish_non_exhaustive()
    }
}

impl CommandLine {
    /// Parses arguments. The first argument is the program's name.
    /// # Errors
    /// A mistake in the arguments, or the requested help or version. The error has an exit code and
    /// can print itself.
    pub fn parse(
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<CommandLine, clap::Error> {
        let arguments = Arguments::try_parse_from(arguments)?;
        Ok(CommandLine {
            command: arguments.command,
            no_progress: arguments.no_progress,
            #[cfg(feature = "encryption")]
            keys: arguments.keys,
        })
    }

    /// Whether the command uses only its [`Host`]. Benchmarks, the demonstration and the stress
    /// tests start threads or processes. Some of them use real files with every host.
    pub fn keeps_to_its_host(&self) -> bool {
        matches!(
            self.command,
            Command::BlobDump(_)
                | Command::BlockCacheTraceAnalyzer(_)
                | Command::Changes(_)
                | Command::CompactionWorker(_)
                | Command::Compare(_)
                | Command::Compat(_)
                | Command::Explain(_)
                | Command::Info(_)
                | Command::IoTracerParser(_)
                | Command::Ldb(_)
                | Command::Report(_)
                | Command::RocksdbDump(_)
                | Command::RocksdbUndump(_)
                | Command::Shell(_)
                | Command::SstDump(_)
                | Command::TraceAnalyzer(_)
                | Command::Verify(_)
        )
    }

    /// Whether the command is known to change no file.
    pub fn only_reads(&self) -> bool {
        match &self.command {
            Command::BlobDump(_)
            | Command::Changes(_)
            | Command::Compare(_)
            | Command::Compat(_)
            | Command::Explain(_)
            | Command::IoTracerParser(_)
            | Command::Verify(_) => true,
            Command::Info(options) => options.only_reads(),
            Command::Ldb(options) => options.only_reads(),
            Command::Report(options) => options.only_reads(),
            Command::Shell(options) => options.only_reads(),
            Command::SstDump(options) => options.only_reads(),
            _ => false,
        }
    }

    /// Runs the command and returns the exit code. The code is 0 after success, or if the reader of
    /// the output has closed the output. Otherwise a message is on standard error.
    pub fn run(&self, host: &Host) -> u8 {
        let watched = self.long_command().and_then(|command| command.watch(host));
        let code = self.run_on(watched.as_ref().map_or(host, |(host, _)| host));
        if let Some((_, progress)) = watched {
            progress.end();
        }
        code
    }

    /// The files for the progress of the command; `None`: it is short, prints rows all the time, or
    /// is to print no progress.
    fn long_command(&self) -> Option<LongCommand> {
        if self.no_progress {
            return None;
        }
        match &self.command {
            Command::BlockCacheTraceAnalyzer(options) => options.long_command(),
            Command::Compare(options) => options.long_command(),
            Command::Compat(options) => options.long_command(),
            Command::Ldb(options) => options.long_command(),
            Command::RocksdbDump(options) => options.long_command(),
            Command::RocksdbUndump(options) => options.long_command(),
            Command::SstDump(options) => options.long_command(),
            Command::TraceAnalyzer(options) => options.long_command(),
            Command::Verify(options) => options.long_command(),
            _ => None,
        }
    }

    fn run_on(&self, host: &Host) -> u8 {
        #[cfg(feature = "encryption")]
        let encrypted;
        #[cfg(feature = "encryption")]
        let host = match self.keys.host(host) {
            Ok(None) => host,
            Ok(Some(other)) => {
                encrypted = other;
                &encrypted
            }
            Err(e) => {
                writeln!(host.errors(), "{e}").ok();
                return 1;
            }
        };
        let outcome = match &self.command {
            Command::Demo(options) => demo::run(options),
            Command::BlobDump(options) => blob_dump::run(options, host),
            Command::BlockCacheTraceAnalyzer(options) => block_cache_trace_analyzer::run(options, host),
            Command::Changes(options) => changes::run(options, host),
            Command::CompactionWorker(options) => compaction_worker::run(options, host),
            Command::Completions(options) => command_line::completions(options, Arguments::command(), host),
            Command::Compare(options) => compare::run(options, host),
            Command::Compat(options) => compat::run(options, host),
            Command::Explain(options) => explain::run(options, host),
            #[cfg(feature = "benchmarks")]
            Command::DbBench(options) => db_bench::run(options, host),
            #[cfg(feature = "benchmarks")]
            Command::CacheBench(options) => db_bench::run_cache_bench(options, host),
            #[cfg(feature = "campaigns")]
            Command::DbStress(flags) => db_stress::run(flags, host),
            #[cfg(feature = "campaigns")]
            Command::DbCrashtest(flags) => db_stress::run_crash_test(flags, host),
            Command::Info(options) => info::run(options, host),
            Command::IoTracerParser(options) => io_tracer_parser::run(options, host),
            Command::Ldb(options) => ldb::run(options, host),
            #[cfg(feature = "benchmarks")]
            Command::LockBench(arguments) => lock_bench::run(arguments, host),
            Command::Manpages(options) => command_line::manpages(options, Arguments::command(), host),
            Command::Report(options) => report::run(options, host),
            Command::RocksdbDump(options) => db_dump::dump(options, host),
            Command::RocksdbUndump(options) => db_dump::undump(options, host),
            Command::Shell(options) => shell::run(options, !self.no_progress, host),
            Command::SstDump(options) => sst_dump::run(options, host),
            #[cfg(feature = "top")]
            Command::Top(options) => top::run(options, host),
            Command::TraceAnalyzer(options) => trace_analyzer::run(options, host),
            Command::Verify(options) => verify::run(options, host),
            Command::WriteStress(options) => write_stress::run(options, host),
            Command::DemoVictim(options) => demo::run_victim(options),
        };
        let (code, why) = match outcome {
            Ok(()) | Err(Failure::OutputClosed) => return 0,
            Err(Failure::Told(why)) => (1, why),
            Err(Failure::Coded(code, why)) => (code, why),
        };
        // If standard error is closed too, the message is lost.
        writeln!(host.errors(), "{why}").ok();
        code
    }
}
