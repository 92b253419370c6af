//! Transactions of sysbench's `oltp_write_only` and `oltp_read_write`, on a table with secondary
//! indexes.
//!
//! In: numbers of threads. Out: a line for each number of threads, with queries per second. One
//! figure is for a database that locks points only, the other for one that locks ranges.
//!
//! The key of a row is its number, in the default family. Its columns are the indexed columns `k`,
//! a text `c` of 120 bytes and a `pad` of 60. Each index is a family of its own; its keys are
//! column and number, and its values are empty. A statement that changes a row first reads the row
//! for update. It locks the row and the index entries that it writes.
//!
//! | | statements of a transaction, between BEGIN and COMMIT |
//! |---|---|
//! | `oltp_write_only` | change the indexed columns of a row; change a row's text; delete a row, and insert it anew |
//! | `oltp_read_write` | the same, behind 10 reads of a row and 4 of a hundred neighbouring rows |
//!
//! Source of the statements: sysbench `src/lua/oltp_common.lua`.

use super::cell::{generator, monotonic_nanos};
use super::{LockBenchOptions, median, ratios, take_turns};
use esker::internals::env::mem::MemFs;
use esker::internals::env::on_threads;
use esker::txn::Locking;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Env, ErrorKind, Options, ReadOptions, Result, Transaction,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteBatch, WriteOptions,
};
use std::io;
use std::sync::{Arc, Barrier};

const INDEXES: [&str; 2] = ["k1", "k2"];
const TEXT_BYTES: usize = 120;
const PAD_BYTES: usize = 60;
/// Single rows that `oltp_read_write` reads.
const POINT_READS: u64 = 10;
/// Ranges that `oltp_read_write` reads. The next constant is the number of rows in each.
const RANGE_READS: u64 = 4;
const RANGE_ROWS: u64 = 100;

/// A kind of transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oltp {
    /// Four writing statements.
    WriteOnly,
    /// Fourteen reading statements, and the four writing ones.
    ReadWrite,
}

impl Oltp {
    /// All kinds.
    pub const ALL: [Oltp; 2] = [Oltp::WriteOnly, Oltp::ReadWrite];

    /// sysbench's name.
    pub const fn name(self) -> &'static str {
        match self {
            Oltp::WriteOnly => "oltp_write_only",
            Oltp::ReadWrite => "oltp_read_write",
        }
    }

    /// Queries of one transaction, BEGIN and COMMIT included.
    const fn queries(self) -> u64 {
        match self {
            Oltp::WriteOnly => 6,
            Oltp::ReadWrite => 6 + POINT_READS + RANGE_READS,
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct OltpRow {
    /// Number of threads.
    pub threads: usize,
    /// Queries a second if families lock points.
    pub point: f64,
    /// Queries a second if families lock ranges.
    pub range: f64,
    /// Ratio of ranges to points: the median of the rounds' ratios.
    pub ratio: f64,
    /// Transactions that failed with `Busy` or `TimedOut`, per thousand commits, if families lock
    /// ranges.
    pub retries: f64,
}

/// Measures everything and writes the table.
/// # Errors
/// Errors of the output; an error of the database as `io::Error`.
pub fn run_oltp(
    options: &LockBenchOptions,
    kind: Oltp,
    out: &mut impl io::Write,
) -> io::Result<Vec<OltpRow>> {
    let (name, indexes) = (kind.name(), INDEXES.len());
    let LockBenchOptions { keys, rounds, time, .. } = options;
    writeln!(out, "{name}: {keys} rows, {indexes} indexes, in memory, medians of {rounds} x {time:?}")?;
    writeln!(
        out,
        "{:>7} {:>12} {:>12} {:>11} {:>14}",
        "Threads", "point QPS", "range QPS", "range:point", "retries 1/000"
    )?;
    let databases = [Locking::Points, Locking::Ranges].map(|locking| Database::filled(*keys, locking));
    let [points, ranges] = databases;
    let (points, ranges) = (points.map_err(io::Error::other)?, ranges.map_err(io::Error::other)?);
    let mut rows = Vec::new();
    for &threads in &options.threads {
        let [point, range] = take_turns(*rounds, |locking, round| {
            let database = if locking == Locking::Points { &points } else { &ranges };
            database.run(options, kind, threads, round as u64)
        })
        .map_err(io::Error::other)?;
        let rates = |all: &[(f64, f64)]| all.iter().map(|(rate, _)| *rate).collect::<Vec<_>>();
        let (point_rates, range_rates) = (rates(&point), rates(&range));
        let row = OltpRow {
            threads,
            point: median(&point_rates).unwrap_or(0.0),
            range: median(&range_rates).unwrap_or(0.0),
            ratio: median(&ratios(&range_rates, &point_rates)).unwrap_or(0.0),
            retries: median(&range.iter().map(|(_, retries)| *retries).collect::<Vec<_>>()).unwrap_or(0.0),
        };
        let OltpRow { point, range, ratio, retries, .. } = row;
        writeln!(out, "{threads:>7} {point:>12.0} {range:>12.0} {ratio:>11.2} {retries:>14.1}")?;
        rows.push(row);
    }
    Ok(rows)
}

/// The key of a row.
fn row_key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

/// The key of a row in an index.
fn index_key(k: u64, id: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&k.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The columns of a row.
#[derive(Clone, Debug)]
struct Columns {
    k: [u64; INDEXES.len()],
    text: u8,
}

impl Columns {
    fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(8 * INDEXES.len() + TEXT_BYTES + PAD_BYTES);
        self.k.iter().for_each(|k| value.extend_from_slice(&k.to_be_bytes()));
        value.resize(value.len() + TEXT_BYTES, self.text);
        value.resize(value.len() + PAD_BYTES, b'p');
        value
    }

    fn decode(value: &[u8]) -> Columns {
        let mut k = [0; INDEXES.len()];
        for (k, bytes) in k.iter_mut().zip(value.chunks_exact(8)) {
            *k = u64::from_be_bytes(bytes.try_into().expect("chunks of eight"));
        }
        Columns { k, text: value[8 * INDEXES.len()] }
    }
}

struct Database {
    db: TransactionDb,
    table: ColumnFamilyHandle,
    indexes: Vec<ColumnFamilyHandle>,
    rows: u64,
}

impl Database {
    fn filled(rows: u64, locking: Locking) -> Result<Database> {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.create_missing_column_families = true;
        options.db.env = Env::with_fs(Arc::new(MemFs::new()));
        // A large memtable keeps flushes out of the measurement.
        options.cf.write_buffer_size = 2 << 30;
        options.db.max_total_wal_size = 8 << 30;
        let names = ["default"].into_iter().chain(INDEXES);
        let families = names.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let txn_options = TransactionDbOptions { locking, ..TransactionDbOptions::default() };
        let db = TransactionDb::open_cf(&options.db, &txn_options, "/oltp", families)?;
        let family =
            |name: &str| db.db().column_family(name).expect("the database was opened with this family");
        let (table, indexes) = (family("default"), INDEXES.map(family).to_vec());
        let database = Database { db, table, indexes, rows };
        let mut random = generator(7);
        let write_options = WriteOptions::default().disable_wal(true);
        let mut batch = WriteBatch::new();
        for id in 0..rows {
            let columns = Columns { k: std::array::from_fn(|_| random(rows)), text: b'c' };
            batch.put_cf(database.table.id(), row_key(id), columns.encode())?;
            for (index, k) in database.indexes.iter().zip(columns.k) {
                batch.put_cf(index.id(), index_key(k, id), [])?;
            }
            if id % 1000 == 999 || id + 1 == rows {
                database.db.db().write_opt(&write_options, &mut batch)?;
                batch.clear();
            }
        }
        Ok(database)
    }

    /// Queries a second, and transactions that failed with `Busy` or `TimedOut` per thousand
    /// commits.
    fn run(&self, options: &LockBenchOptions, kind: Oltp, threads: usize, round: u64) -> Result<(f64, f64)> {
        let barrier = Barrier::new(threads);
        let work = |thread: usize| {
            let mut random = generator((round << 32) | thread as u64);
            let (mut done, mut retries) = (0, 0);
            barrier.wait();
            let start = monotonic_nanos();
            loop {
                match self.transaction(kind, &mut random) {
                    Ok(()) => done += 1,
                    Err(why) if matches!(why.kind(), ErrorKind::Busy | ErrorKind::TimedOut) => retries += 1,
                    Err(why) => return Err(why),
                }
                let nanos = monotonic_nanos() - start;
                if u128::from(nanos) >= options.time.as_nanos() {
                    return Ok((done * kind.queries()) as f64 * 1e9 / nanos as f64)
                        .map(|rate| (rate, done, retries));
                }
            }
        };
        let (mut rate, mut done, mut retries) = (0.0, 0, 0);
        for result in on_threads("lock_bench", threads, work)? {
            let (own_rate, own_done, own_retries) = result?;
            rate += own_rate;
            done += own_done;
            retries += own_retries;
        }
        Ok((rate, retries as f64 * 1000.0 / done.max(1) as f64))
    }

    fn transaction(&self, kind: Oltp, random: &mut impl FnMut(u64) -> u64) -> Result<()> {
        let txn_options = TransactionOptions { deadlock_detect: true, ..TransactionOptions::default() };
        let mut txn = self.db.begin_transaction_opt(&WriteOptions::default(), &txn_options);
        if kind == Oltp::ReadWrite {
            for _ in 0..POINT_READS {
                txn.get_pinned_opt(&ReadOptions::default(), &self.table, row_key(random(self.rows)))?;
            }
            for _ in 0..RANGE_READS {
                self.read_range(&mut txn, random(self.rows))?;
            }
        }
        self.change(&mut txn, random(self.rows), |columns| {
            columns.k.iter_mut().for_each(|k| *k = k.wrapping_add(1));
        })?;
        let text = random(26) as u8;
        self.change(&mut txn, random(self.rows), |columns| columns.text = b'a' + text)?;
        self.replace(&mut txn, random(self.rows), random(self.rows))?;
        txn.commit()
    }

    fn read_range(&self, txn: &mut Transaction, first: u64) -> Result<()> {
        let options = ReadOptions {
            iterate_upper_bound: Some(row_key(first + RANGE_ROWS).to_vec()),
            ..ReadOptions::default()
        };
        let mut iter = txn.iter_opt(&options, &self.table)?;
        iter.seek(row_key(first));
        let mut bytes = 0;
        while let Some((_, value)) = iter.item() {
            bytes += value.len();
            iter.next();
        }
        std::hint::black_box(bytes);
        iter.status()
    }

    /// UPDATE: reads a row for update and writes it with `change` applied.
    fn change(&self, txn: &mut Transaction, id: u64, change: impl FnOnce(&mut Columns)) -> Result<()> {
        let Some(old) = self.row(txn, id)? else { return Ok(()) };
        let mut new = old.clone();
        change(&mut new);
        txn.put_cf(&self.table, row_key(id), new.encode())?;
        for (index, (old, new)) in self.indexes.iter().zip(old.k.into_iter().zip(new.k)) {
            if old != new {
                txn.delete_cf(index, index_key(old, id))?;
                txn.put_cf(index, index_key(new, id), [])?;
            }
        }
        Ok(())
    }

    /// DELETE and INSERT of the same row, with another `k`.
    fn replace(&self, txn: &mut Transaction, id: u64, k: u64) -> Result<()> {
        if let Some(old) = self.row(txn, id)? {
            txn.delete_cf(&self.table, row_key(id))?;
            for (index, k) in self.indexes.iter().zip(old.k) {
                txn.delete_cf(index, index_key(k, id))?;
            }
        }
        let new = Columns { k: [k; INDEXES.len()], text: b'c' };
        txn.put_cf(&self.table, row_key(id), new.encode())?;
        for (index, k) in self.indexes.iter().zip(new.k) {
            txn.put_cf(index, index_key(k, id), [])?;
        }
        Ok(())
    }

    fn row(&self, txn: &mut Transaction, id: u64) -> Result<Option<Columns>> {
        let mode = esker::txn::LockMode::Exclusive;
        let row = txn.get_for_update_opt(&ReadOptions::default(), &self.table, row_key(id), mode, true)?;
        Ok(row.map(|row| Columns::decode(&row)))
    }
}

#[cfg(test)]
mod tests;
