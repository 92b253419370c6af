//! The work of each thread.

use super::check::{WriterState, check_writer, key, log_key, number, value};
use super::{Outcome, Shared};
use esker::internals::base::sync::atomic::Ordering;
use esker::{
    BatchOp, CompactRangeOptions, DbIterator, FlushOptions, ReadOptions, Snapshot, Transaction,
    TransactionDb, TransactionOptions, WriteBatch, WriteOptions,
};

/// Limit of the snapshots that a reader holds, and of its iterators.
const HELD: usize = 4;

/// Counts up, one batch for each number.
pub(super) fn write(shared: &Shared, writer: usize, mut rng: fastrand::Rng) -> Outcome {
    let mut n = shared.done[writer].load(Ordering::Relaxed);
    let mut batch = WriteBatch::new();
    while !shared.stopped() {
        n += 1;
        batch.clear();
        fill(shared, writer, n, rng.u8(..50) == 0, &mut batch).map_err(|e| format!("batch {n}: {e}"))?;
        let options = WriteOptions::default().sync(rng.u16(..500) == 0);
        let written = match &shared.transactions {
            None => shared.db.write_opt(&options, &mut batch),
            Some(db) => {
                let mut transact = || -> esker::Result<()> {
                    if rng.u8(..4) == 0 {
                        let mut other = WriteBatch::new();
                        fill(shared, writer, n + rng.u64(1..100), false, &mut other)?;
                        transact(db, &options, &format!("{writer} other {n}"), &other, &mut rng)?
                            .rollback()?;
                    }
                    transact(db, &options, &format!("{writer} {n}"), &batch, &mut rng)?.commit()
                };
                transact()
            }
        };
        written.map_err(|e| format!("write {n}: {e}"))?;
        shared.done[writer].store(n, Ordering::Release);
    }
    Ok(())
}

/// The batch of a number. `clears`: it begins the log anew.
fn fill(shared: &Shared, writer: usize, n: u64, clears: bool, batch: &mut WriteBatch) -> esker::Result<()> {
    let (first, second, bytes) = (shared.first.id(), shared.second.id(), value(n));
    if clears {
        batch.delete_range_cf(first, key(writer, "log/"), key(writer, "log0"))?;
        batch.put_cf(first, key(writer, "base"), &bytes)?;
    }
    batch.put_cf(first, key(writer, "a"), &bytes)?;
    batch.put_cf(first, log_key(writer, n), &bytes)?;
    batch.put_cf(second, key(writer, "b"), &bytes)?;
    batch.merge_cf(second, key(writer, "c"), 1u64.to_le_bytes())
}

/// A transaction of these ops, prepared or not. If it deletes ranges, it neither spills nor is
/// prepared.
fn transact(
    db: &TransactionDb,
    options: &WriteOptions,
    name: &str,
    ops: &WriteBatch,
    rng: &mut fastrand::Rng,
) -> esker::Result<Transaction> {
    let stays = ops.iter().any(|op| matches!(op, BatchOp::DeleteRange { .. }));
    let how = TransactionOptions {
        write_batch_flush_threshold: if stays { 0 } else { -1 },
        ..TransactionOptions::default()
    };
    let txn = db.begin_transaction_opt(options, &how);
    txn.set_name(name.as_bytes())?;
    txn.rebuild_from_write_batch(ops)?;
    if !stays && rng.u8(..4) > 0 {
        txn.prepare()?;
    }
    Ok(txn)
}

/// A reader, with the values that it has read.
struct Reader<'a> {
    shared: &'a Shared,
    rng: fastrand::Rng,
    /// The largest `a` seen for each writer.
    seen: Vec<u64>,
    held: Vec<(Snapshot, usize, WriterState)>,
    iterators: Vec<(DbIterator, usize, WriterState)>,
}

pub(super) fn read(shared: &Shared, _reader: usize, rng: fastrand::Rng) -> Outcome {
    let seen = vec![0; shared.done.len()];
    let mut reader = Reader { shared, rng, seen, held: Vec::new(), iterators: Vec::new() };
    while !shared.stopped() {
        let writer = reader.rng.usize(..shared.done.len());
        match reader.rng.u8(..10) {
            0..=3 => reader.get(writer)?,
            4 | 5 => reader.multi_get(writer)?,
            6 => reader.take_snapshot(writer)?,
            7 => reader.check_snapshot()?,
            8 => reader.open_iterator(writer)?,
            _ => reader.check_iterator()?,
        }
        shared.checks.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Reader<'_> {
    /// Records an `a` that was just read; `done` is the number of batches acknowledged before the
    /// read.
    fn record_read(&mut self, writer: usize, a: u64, done: u64) -> Outcome {
        let seen = self.seen[writer];
        if a < seen || a < done {
            return Err(format!("writer {writer}: a is {a}, was {seen} before, {done} acknowledged"));
        }
        self.seen[writer] = a;
        Ok(())
    }

    fn done(&self, writer: usize) -> u64 {
        self.shared.done[writer].load(Ordering::Acquire)
    }

    fn get(&mut self, writer: usize) -> Outcome {
        let done = self.done(writer);
        let found = self.shared.db.get_pinned(key(writer, "a")).map_err(|e| format!("get: {e}"))?;
        self.record_read(writer, number(found.as_deref())?, done)
    }

    fn multi_get(&mut self, writer: usize) -> Outcome {
        let Shared { first, second, db, .. } = self.shared;
        let done = self.done(writer);
        let (a, b, c) = (key(writer, "a"), key(writer, "b"), key(writer, "c"));
        let wanted = [(second, c.as_slice()), (first, a.as_slice()), (second, b.as_slice())];
        let found = db.multi_get_cf(&ReadOptions::default(), &wanted);
        let numbers: Vec<u64> = found
            .into_iter()
            .map(|value| number(value.map_err(|e| format!("multi_get: {e}"))?.as_deref()))
            .collect::<Result<_, String>>()?;
        if numbers[0] != numbers[1] || numbers[0] != numbers[2] {
            return Err(format!("writer {writer}: multi_get of c, a, b gives {numbers:?}"));
        }
        self.record_read(writer, numbers[0], done)
    }

    fn take_snapshot(&mut self, writer: usize) -> Outcome {
        let done = self.done(writer);
        let snapshot = self.shared.db.snapshot();
        let state = check_writer(self.shared, writer, &snapshot)?;
        self.record_read(writer, state.a, done)?;
        if self.held.len() == HELD {
            self.held.swap_remove(self.rng.usize(..HELD));
        }
        self.held.push((snapshot, writer, state));
        Ok(())
    }

    fn check_snapshot(&mut self) -> Outcome {
        if self.held.is_empty() {
            return Ok(());
        }
        let (snapshot, writer, state) = &self.held[self.rng.usize(..self.held.len())];
        let again = check_writer(self.shared, *writer, snapshot)?;
        if again != *state {
            return Err(format!("writer {writer} at {snapshot:?}: was {state:?}, now {again:?}"));
        }
        Ok(())
    }

    /// Opens and keeps an iterator over all of a writer's keys in the first family.
    fn open_iterator(&mut self, writer: usize) -> Outcome {
        let done = self.done(writer);
        let options = ReadOptions::new().lower_bound(key(writer, "")).upper_bound(key(writer, "~"));
        let iter = self.shared.db.iter_opt(options, &self.shared.first);
        let mut iter = iter.map_err(|e| format!("iterator: {e}"))?;
        let mut number_at = |name: &str| -> Result<u64, String> {
            let wanted = key(writer, name);
            iter.seek(&wanted);
            iter.status().map_err(|e| format!("seek {writer}/{name}: {e}"))?;
            number(iter.item().filter(|(key, _)| *key == wanted).map(|(_, value)| value))
        };
        let state = WriterState { a: number_at("a")?, base: number_at("base")? };
        self.record_read(writer, state.a, done)?;
        if self.iterators.len() == HELD {
            self.iterators.swap_remove(self.rng.usize(..HELD));
        }
        self.iterators.push((iter, writer, state));
        self.check_iterator()
    }

    /// Checks that an iterator still shows key `a` and the newest log entry of its opening. One
    /// time in four it then refreshes and drops the iterator.
    fn check_iterator(&mut self) -> Outcome {
        if self.iterators.is_empty() {
            return Ok(());
        }
        let chosen = self.rng.usize(..self.iterators.len());
        let (iter, writer, state) = &mut self.iterators[chosen];
        let writer = *writer;
        let (first, last) = (key(writer, "a"), log_key(writer, state.a));
        iter.seek_to_first();
        if state.a > 0 && iter.item().is_none_or(|(key, _)| key != first) {
            return Err(format!("writer {writer}: an iterator lost 'a': {:?}", iter.status()));
        }
        iter.seek_for_prev(&last);
        if state.a > 0 && iter.item().is_none_or(|(key, _)| key != last) {
            return Err(format!(
                "writer {writer}: an iterator lost its newest log entry: {:?}",
                iter.status()
            ));
        }
        if self.rng.u8(..4) == 0 {
            iter.refresh().map_err(|e| format!("refresh: {e}"))?;
            self.iterators.swap_remove(chosen);
        }
        Ok(())
    }
}

/// Flushes, compacts, pauses.
pub(super) fn maintain(shared: &Shared, _index: usize, mut rng: fastrand::Rng) -> Outcome {
    while !shared.stopped() {
        let family = if rng.bool() { &shared.first } else { &shared.second };
        match rng.u8(..10) {
            0..=4 => {
                let options = FlushOptions {
                    wait: rng.bool(),
                    allow_write_stall: rng.bool(),
                    ..FlushOptions::default()
                };
                shared.db.flush_opt(&options, &[family]).map_err(|e| format!("flush: {e}"))?;
            }
            5..=7 => {
                let options = CompactRangeOptions {
                    exclusive_manual_compaction: rng.bool(),
                    ..CompactRangeOptions::default()
                };
                let (begin, end) = (key(rng.usize(..9), ""), key(rng.usize(9..20), ""));
                let done = shared.db.compact_range_opt(&options, family, Some(&begin), Some(&end));
                done.map_err(|e| format!("compact_range: {e}"))?;
            }
            8 => {
                shared.db.pause_background_work();
                shared.db.continue_background_work().map_err(|e| format!("continue: {e}"))?;
            }
            _ => shared.db.wait_for_background_work().map_err(|e| format!("wait: {e}"))?,
        }
        shared.maintenance.fetch_add(1, Ordering::Relaxed);
        rest(rng.u64(..20));
    }
    Ok(())
}

/// Makes a family, writes to it, reads it back, drops it.
pub(super) fn make_families(shared: &Shared, _index: usize, mut rng: fastrand::Rng) -> Outcome {
    let mut round = 0u64;
    while !shared.stopped() {
        round += 1;
        let name = format!("passing-{round}");
        let options = esker::ColumnFamilyOptions::default();
        let family =
            shared.db.create_column_family(&name, &options).map_err(|e| format!("create {name}: {e}"))?;
        let count = rng.u64(1..200);
        for n in 0..count {
            shared.db.put_cf(&family, n.to_be_bytes(), value(n)).map_err(|e| format!("put: {e}"))?;
        }
        if rng.bool() {
            let flushed = shared.db.flush_opt(&FlushOptions::default(), &[&family]);
            flushed.map_err(|e| format!("flush of {name}: {e}"))?;
        }
        let mut iter = shared.db.iter_cf(&family).map_err(|e| format!("iterator over {name}: {e}"))?;
        if rng.bool() {
            shared.db.drop_column_family(&family).map_err(|e| format!("drop {name}: {e}"))?;
        }
        iter.seek_to_first();
        let mut there = 0;
        while iter.valid() {
            there += 1;
            iter.next();
        }
        iter.status().map_err(|e| format!("scan of {name}: {e}"))?;
        if there != count {
            return Err(format!("{name}: {count} keys were written, an iterator shows {there}"));
        }
        // The family may be dropped already.
        let _gone = shared.db.drop_column_family(&family).is_ok();
        shared.maintenance.fetch_add(1, Ordering::Relaxed);
        rest(rng.u64(..50));
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the patience of the campaign, not of the engine")]
fn rest(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}
