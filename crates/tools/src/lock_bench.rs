//! `esker lock_bench`: measures how many locks per second the lock manager takes and releases. With
//! `--commits` or `--oltp` it measures whole transactions instead.

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use clap::Args;
use esker_bench::lock_bench::{LockBenchOptions, LockWorkload, Oltp, run as measure, run_commits, run_oltp};
use std::time::Duration;

#[derive(Args)]
pub(crate) struct LockBenchArguments {
    /// Numbers of threads, one row each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 8, 40])]
    threads: Vec<usize>,
    /// random, increasing, short-ranges, wide-ranges, shared, hot
    #[arg(long, value_delimiter = ',', value_parser = workload, default_values_t = LockWorkload::ALL.map(Named))]
    workloads: Vec<Named>,
    /// Locks that each transaction takes before it releases all
    #[arg(long, default_value_t = 5)]
    locks: usize,
    /// Number of keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Bytes of each key
    #[arg(long, default_value_t = 16)]
    key_size: usize,
    /// Number of boundaries between the leaves of a range family at the start
    #[arg(long, default_value_t = 63)]
    boundaries: usize,
    /// Measure transactions that put and commit, on a database in memory
    #[arg(long)]
    commits: bool,
    /// Measure sysbench's transactions: oltp_write_only, oltp_read_write; --keys is the number of
    /// rows
    #[arg(long, value_delimiter = ',', value_parser = oltp)]
    oltp: Vec<Oltp>,
    /// Rounds for each cell
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of a round
    #[arg(long, default_value_t = 200)]
    milliseconds: u64,
}

/// A workload named on the command line.
#[derive(Clone, Copy)]
struct Named(LockWorkload);

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

fn workload(name: &str) -> Result<Named, String> {
    let names = || LockWorkload::ALL.map(LockWorkload::name).join(", ");
    LockWorkload::by_name(name).map(Named).ok_or_else(|| format!("one of {}", names()))
}

fn oltp(name: &str) -> Result<Oltp, String> {
    let names = || Oltp::ALL.map(Oltp::name).join(", ");
    Oltp::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| format!("one of {}", names()))
}

/// The failure for an error of the output or of the database. A closed output is
/// [`Failure::OutputClosed`].
fn failure(why: std::io::Error) -> Failure {
    if why.kind() == std::io::ErrorKind::BrokenPipe { Failure::OutputClosed } else { Failure::new(why) }
}

pub(crate) fn run(arguments: &LockBenchArguments, host: &Host) -> CommandOutcome {
    let LockBenchArguments { threads, workloads, locks, keys, key_size, boundaries, .. } = arguments;
    let LockBenchArguments { rounds, milliseconds, .. } = arguments;
    let is_zero = threads.is_empty() || threads.contains(&0) || *locks == 0 || *keys == 0 || *rounds == 0;
    if is_zero {
        return Err(Failure::new(format_args!(
            "lock_bench: threads, locks, keys and rounds must be 1 or more"
        )));
    }
    let options = LockBenchOptions {
        workloads: workloads.iter().map(|named| named.0).collect(),
        threads: threads.clone(),
        keys: *keys,
        key_bytes: *key_size,
        locks: *locks,
        boundaries: *boundaries,
        rounds: *rounds,
        time: Duration::from_millis(*milliseconds),
    };
    let out = &mut host.output();
    for kind in &arguments.oltp {
        run_oltp(&options, *kind, out).map_err(failure)?;
    }
    if arguments.commits {
        run_commits(&options, out).map_err(failure)?;
    }
    if arguments.commits || !arguments.oltp.is_empty() {
        return Ok(());
    }
    measure(&options, out).map(drop).map_err(failure)
}
