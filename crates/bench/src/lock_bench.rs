//! `lock_bench`: measures how many locks per second the lock manager takes and releases.
//!
//! In: workloads, numbers of threads, locks for each transaction. Out: a table of millions of locks
//! per second. It has a row for each workload and number of threads, with figures for families that
//! lock points only and for families that lock ranges.
//!
//! Each round measures every cell once. The two kinds of family run directly after each other, so
//! that other load on the machine affects both. A figure is the median of the rounds; a ratio is
//! the median of the rounds' ratios. The table also shows processor time, which stays comparable on
//! a busy machine.
//!
//! Sources of the workloads: RocksDB's `point_lock_bench` (threads, keys, locks for each
//! transaction, shares of shared and exclusive locks), and the ranges that a transaction over a
//! table with secondary indexes locks.

mod cell;
mod commits;
mod deadlock_time;
mod oltp;
mod workload;

pub use commits::{CommitRow, run_commits};
pub use oltp::{Oltp, OltpRow, run_oltp};
pub use workload::LockWorkload;

use cell::LockBenchCell;
use esker_lock::Locking;
use std::fmt::Write as _;
use std::io;
use std::time::Duration;

/// Number of deadlocks that the measurement of their detection makes.
const CYCLES: usize = 200;

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct LockBenchOptions {
    /// Kinds of transactions.
    pub workloads: Vec<LockWorkload>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of each key, at least 8.
    pub key_bytes: usize,
    /// Locks that each transaction takes before it releases all.
    pub locks: usize,
    /// Number of keys between the initial leaves of a range family. A database would take leaves
    /// from samples of its data.
    pub boundaries: usize,
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of a round.
    pub time: Duration,
}

impl Default for LockBenchOptions {
    fn default() -> LockBenchOptions {
        LockBenchOptions {
            workloads: LockWorkload::ALL.to_vec(),
            threads: vec![1, 2, 8, 40],
            keys: 1_000_000,
            key_bytes: 16,
            locks: 5,
            boundaries: 63,
            rounds: 5,
            time: Duration::from_millis(200),
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct LockBenchRow {
    /// The workload.
    pub workload: LockWorkload,
    /// Number of threads.
    pub threads: usize,
    /// Locks a second in a family for points; `None` if the workload has ranges.
    pub point: Option<f64>,
    /// Locks a second in a family for ranges.
    pub range: f64,
    /// Ratio of the range family's rate to the point family's.
    pub ratio: Option<f64>,
    /// Ratio of the range family's rate to its rate with random keys in the same rounds, if that
    /// was measured.
    pub of_random: Option<f64>,
    /// Waiting requests per thousand, in the last round of the range family.
    pub waits: f64,
    /// Nanoseconds of processor time for a lock and its release in a family for points.
    pub point_cpu: Option<f64>,
    /// Nanoseconds of processor time for a lock and its release in a family for ranges.
    pub range_cpu: f64,
    /// Ratio of `point_cpu` to `range_cpu`: above 1 if ranges take less time.
    pub cpu_ratio: Option<f64>,
}

/// Measures everything and writes the table.
/// # Errors
/// Errors of the output.
pub fn run(options: &LockBenchOptions, out: &mut impl io::Write) -> io::Result<Vec<LockBenchRow>> {
    writeln!(
        out,
        "keys {} of {} bytes, {} locks for each transaction, {} leaves, medians of {} x {:?}",
        options.keys,
        options.key_bytes,
        options.locks,
        options.boundaries + 1,
        options.rounds,
        options.time
    )?;
    writeln!(
        out,
        "{:<14} {:>7} {:>10} {:>10} {:>11} {:>8} {:>11} {:>9} {:>9} {:>11}",
        "workload",
        "threads",
        "point M/s",
        "range M/s",
        "range:point",
        ":random",
        "waits 1/000",
        "point cpu",
        "range cpu",
        "range:point"
    )?;
    let mut rows = Vec::new();
    for &threads in &options.threads {
        for row in measure(options, threads).map_err(io::Error::other)? {
            writeln!(out, "{}", line(&row))?;
            rows.push(row);
        }
    }
    let times = deadlock_time::times_until_reported(CYCLES).map_err(io::Error::other)?;
    let micros = |index: usize| times[index] as f64 / 1e3;
    writeln!(
        out,
        "a cycle of two is reported after {:.1} us (median of {CYCLES}; 99% {:.1}, most {:.1})",
        micros(CYCLES / 2),
        micros(CYCLES * 99 / 100),
        micros(CYCLES - 1)
    )?;
    Ok(rows)
}

/// Measures all workloads with `threads` threads.
fn measure(options: &LockBenchOptions, threads: usize) -> esker::Result<Vec<LockBenchRow>> {
    let count = options.workloads.len();
    let (mut points, mut ranges) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    let (mut point_cpu, mut range_cpu) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    let mut waits = vec![0.0; count];
    for round in 0..options.rounds {
        for (index, &workload) in options.workloads.iter().enumerate() {
            let cell = LockBenchCell { options, workload, threads, seed: round as u64 };
            let both = [Locking::Points, Locking::Ranges];
            let first = round % 2;
            for locking in [both[first], both[1 - first]] {
                match locking {
                    Locking::Points if workload.has_ranges() => {}
                    Locking::Points => {
                        let result = cell.run(locking)?;
                        points[index].push(result.locks_per_second);
                        point_cpu[index].push(result.cpu_nanos);
                    }
                    Locking::Ranges => {
                        let result = cell.run(locking)?;
                        ranges[index].push(result.locks_per_second);
                        range_cpu[index].push(result.cpu_nanos);
                        waits[index] = result.waits_per_thousand;
                    }
                }
            }
        }
    }
    let random = options.workloads.iter().position(|w| *w == LockWorkload::Random);
    let row = |(index, &workload): (usize, &LockWorkload)| LockBenchRow {
        workload,
        threads,
        point: median(&points[index]),
        range: median(&ranges[index]).unwrap_or(0.0),
        ratio: median(&ratios(&ranges[index], &points[index])),
        of_random: random.and_then(|random| median(&ratios(&ranges[index], &ranges[random]))),
        waits: waits[index],
        point_cpu: median(&point_cpu[index]),
        range_cpu: median(&range_cpu[index]).unwrap_or(0.0),
        cpu_ratio: median(&ratios(&point_cpu[index], &range_cpu[index])),
    };
    Ok(options.workloads.iter().enumerate().map(row).collect())
}

/// Runs both kinds of family in turns. Returns a pair of results for each round.
fn take_turns<R, E>(
    rounds: usize,
    mut run: impl FnMut(Locking, usize) -> Result<R, E>,
) -> Result<[Vec<R>; 2], E> {
    let mut results = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let first = round % 2;
        for kind in [first, 1 - first] {
            results[kind].push(run([Locking::Points, Locking::Ranges][kind], round)?);
        }
    }
    Ok(results)
}

fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn line(row: &LockBenchRow) -> String {
    let mut line = format!("{:<14} {:>7}", row.workload.name(), row.threads);
    let millions = |value: f64| value / 1e6;
    let cells = [
        (row.point.map(millions), 10, 3),
        (Some(millions(row.range)), 10, 3),
        (row.ratio, 11, 2),
        (row.of_random, 8, 2),
        (Some(row.waits), 11, 1),
        (row.point_cpu, 9, 0),
        (Some(row.range_cpu), 9, 0),
        (row.cpu_ratio, 11, 2),
    ];
    for (value, width, digits) in cells {
        match value {
            Some(value) => write!(line, " {value:>width$.digits$}"),
            None => write!(line, " {:>width$}", "-"),
        }
        .expect("a write to a string cannot fail");
    }
    line
}

#[cfg(test)]
mod tests;
