//! Transactions that put and commit, on a database in memory that has all keys. They show the cost
//! of locks in use.
//!
//! In: numbers of threads and locks for each transaction. Out: thousands of transactions per
//! second, for a database that locks points only and for one that locks ranges. The two kinds of
//! database take turns, as in measurements of locks alone.

use super::cell::{cpu_nanos, generator, monotonic_nanos, write_key};
use super::{LockBenchOptions, median, ratios, take_turns};
use esker::internals::env::mem::MemFs;
use esker::internals::env::on_threads;
use esker::txn::Locking;
use esker::{
    Env, Options, Result, TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use std::io;
use std::sync::{Arc, Barrier};

/// Bytes of each value.
const VALUE_BYTES: usize = 100;

/// One row of the table.
#[derive(Clone, Debug)]
pub struct CommitRow {
    /// Number of threads.
    pub threads: usize,
    /// Transactions a second in a family for points.
    pub point: f64,
    /// Transactions a second in a family for ranges.
    pub range: f64,
    /// Ratio of ranges to points: the median of the rounds' ratios.
    pub ratio: f64,
    /// Microseconds of processor time for a transaction, in a family for points.
    pub point_cpu: f64,
    /// Microseconds of processor time for a transaction, in a family for ranges.
    pub range_cpu: f64,
    /// Ratio of `point_cpu` to `range_cpu`, as a median likewise: above 1 if ranges take less time.
    pub cpu_ratio: f64,
}

/// Measures everything and writes the table.
/// # Errors
/// Errors of the output; an error of the database as `io::Error`.
pub fn run_commits(options: &LockBenchOptions, out: &mut impl io::Write) -> io::Result<Vec<CommitRow>> {
    writeln!(
        out,
        "put and commit: {} keys of {} bytes, {} puts of {VALUE_BYTES} bytes for each transaction, everything in memory, medians of {} x {:?}",
        options.keys, options.key_bytes, options.locks, options.rounds, options.time
    )?;
    writeln!(
        out,
        "{:>7} {:>14} {:>14} {:>11} {:>13} {:>13} {:>11}",
        "threads",
        "point k txn/s",
        "range k txn/s",
        "range:point",
        "point cpu us",
        "range cpu us",
        "point:range"
    )?;
    let mut rows = Vec::new();
    for &threads in &options.threads {
        let row = measure(options, threads).map_err(io::Error::other)?;
        writeln!(
            out,
            "{threads:>7} {:>14.1} {:>14.1} {:>11.2} {:>13.2} {:>13.2} {:>11.2}",
            row.point / 1e3,
            row.range / 1e3,
            row.ratio,
            row.point_cpu,
            row.range_cpu,
            row.cpu_ratio
        )?;
        rows.push(row);
    }
    Ok(rows)
}

fn measure(options: &LockBenchOptions, threads: usize) -> Result<CommitRow> {
    let [point, range] =
        take_turns(options.rounds, |locking, round| run_one(options, threads, locking, round))?;
    let split = |all: Vec<(f64, f64)>| all.into_iter().unzip::<f64, f64, Vec<_>, Vec<_>>();
    let ((point_rates, point_cpu), (range_rates, range_cpu)) = (split(point), split(range));
    let of = |values: &[f64]| median(values).unwrap_or(0.0);
    Ok(CommitRow {
        threads,
        point: of(&point_rates),
        range: of(&range_rates),
        ratio: of(&ratios(&range_rates, &point_rates)),
        point_cpu: of(&point_cpu),
        range_cpu: of(&range_cpu),
        cpu_ratio: of(&ratios(&point_cpu, &range_cpu)),
    })
}

/// Transactions a second, and microseconds of processor time for each.
fn run_one(options: &LockBenchOptions, threads: usize, locking: Locking, round: usize) -> Result<(f64, f64)> {
    let mut db_options = Options::default();
    db_options.db.create_if_missing = true;
    db_options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    // A large memtable keeps flushes out of the measurement.
    db_options.cf.write_buffer_size = 1 << 30;
    // Ascending keys make no deadlocks, so waits need no timeout. So a pause of the machine cannot
    // end a wait.
    let txn_options =
        TransactionDbOptions { locking, transaction_lock_timeout: -1, ..TransactionDbOptions::default() };
    let db = TransactionDb::open(&db_options, &txn_options, "/lock_bench")?;
    fill(options, &db)?;
    let barrier = Barrier::new(threads);
    let done = on_threads("lock_bench", threads, |thread| {
        work(options, &db, &barrier, ((round as u64) << 32) | thread as u64)
    })?;
    let done: Vec<ThreadResult> = done.into_iter().collect::<Result<_>>()?;
    let transactions = done.iter().map(|d| d.transactions).sum::<u64>().max(1) as f64;
    let cpu = done.iter().map(|d| d.cpu_nanos).sum::<u64>() as f64;
    let rate = done.iter().map(|d| d.transactions as f64 * 1e9 / d.nanos as f64).sum();
    Ok((rate, cpu / transactions / 1e3))
}

/// Puts all keys.
fn fill(options: &LockBenchOptions, db: &TransactionDb) -> Result<()> {
    let (family, write_options) =
        (db.db().default_column_family(), WriteOptions::default().disable_wal(true));
    let (mut key, mut batch) = (vec![0; options.key_bytes.max(8)], WriteBatch::new());
    for n in 0..options.keys {
        write_key(&mut key, n);
        batch.put_cf(family.id(), &key, [b'v'; VALUE_BYTES])?;
        if n % 1000 == 999 || n + 1 == options.keys {
            db.db().write_opt(&write_options, &mut batch)?;
            batch.clear();
        }
    }
    Ok(())
}

/// The work of one thread.
struct ThreadResult {
    transactions: u64,
    nanos: u64,
    cpu_nanos: u64,
}

/// Runs transactions until the time is over. Their keys ascend, so waits make no deadlocks.
fn work(
    options: &LockBenchOptions,
    db: &TransactionDb,
    barrier: &Barrier,
    seed: u64,
) -> Result<ThreadResult> {
    let mut random = generator(seed);
    let (mut key, value) = (vec![0; options.key_bytes.max(8)], [b'v'; VALUE_BYTES]);
    let (write_options, txn_options) = (WriteOptions::default(), TransactionOptions::default());
    let family = db.db().default_column_family();
    let mut transactions = 0;
    barrier.wait();
    let (start, cpu) = (monotonic_nanos(), cpu_nanos());
    loop {
        let txn = db.begin_transaction_opt(&write_options, &txn_options);
        let mut keys: Vec<u64> = (0..options.locks).map(|_| random(options.keys)).collect();
        keys.sort_unstable();
        for n in keys {
            write_key(&mut key, n);
            txn.put_cf(&family, &key, value)?;
        }
        txn.commit()?;
        transactions += 1;
        if transactions % 16 == 0 {
            let nanos = monotonic_nanos() - start;
            if u128::from(nanos) >= options.time.as_nanos() {
                return Ok(ThreadResult { transactions, nanos, cpu_nanos: cpu_nanos() - cpu });
            }
        }
    }
}
