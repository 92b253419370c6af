//! Transactions that stay open between operations: their expected contents, and their calls on a
//! database.
//!
//! The write policy, and the bytes after which a transaction spills, are options: each set draws
//! them for each opening. In databases without transactions a batch with an index stands for the
//! transaction: it reads over the database, and is written at the commit.
//!
//! Invariants
//!  1. Writes of others leave out keys of running transactions. A key that a rollback to a save
//!     point gave back is free, until the transaction is found prepared by a later opening. It then
//!     locks such keys again.
//!  2. A prepared transaction outlives each reopening. Then the database is opened for
//!     transactions. Others end.
//!  3. Transactions delete no ranges: those of early policies cannot be prepared with them.

use super::ops::{Bytes, Map, PLAIN, REVERSED, ScriptWrite, apply};
use super::run::{Run, RunStore};
use esker::comparator::BytewiseComparator;
use esker::{
    Error, ReadOptions, Result, Transaction, TransactionDb, TransactionOptions, WriteBatchWithIndex,
    WriteOptions,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of transactions at once.
pub(super) const TRANSACTIONS: usize = 3;

/// An operation of the transaction in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransactionOp {
    Begin,
    Write(Vec<ScriptWrite>),
    Get(usize, Bytes),
    /// Family, backwards: everything that the transaction sees.
    Scan(usize, bool),
    SetSavePoint,
    RollBackToSavePoint,
    Prepare,
    Commit,
    RollBack,
}

/// The expected state of a transaction.
#[derive(Clone, Default)]
pub(super) struct ScriptTransaction {
    writes: Vec<ScriptWrite>,
    /// Number of writes at each save point.
    points: Vec<usize>,
    /// Keys that it has locked.
    locked: BTreeSet<(usize, Bytes)>,
    /// Keys that a rollback to a save point gave back.
    given_back: BTreeSet<(usize, Bytes)>,
    pub(super) is_prepared: bool,
}

impl ScriptTransaction {
    pub(super) fn has_locked(&self, family: usize, key: &Bytes) -> bool {
        self.locked.contains(&(family, key.clone()))
    }

    /// Whether it has locked a key between these, ends included.
    pub(super) fn meets(&self, family: usize, begin: &Bytes, end: &Bytes) -> bool {
        let (low, high) = if family == REVERSED { (end, begin) } else { (begin, end) };
        self.locked.iter().any(|(of, key)| *of == family && key >= low && key <= high)
    }

    /// The contents that the transaction sees.
    pub(super) fn sees(&self, maps: &[Map; PLAIN]) -> [Map; PLAIN] {
        let mut seen = maps.clone();
        self.writes.iter().for_each(|write| _ = apply(&mut seen, write));
        seen
    }

    /// Adds those of `writes` that its view allows, and returns them.
    pub(super) fn write(&mut self, maps: &[Map; PLAIN], writes: &[ScriptWrite]) -> Vec<ScriptWrite> {
        let mut seen = self.sees(maps);
        let mut done = Vec::new();
        for write in writes {
            if let Some((family, key)) = write.key()
                && apply(&mut seen, write)
            {
                self.locked.insert((family, key.clone()));
                done.push(write.clone());
            }
        }
        self.writes.extend(done.iter().cloned());
        done
    }

    pub(super) fn set_save_point(&mut self) {
        self.points.push(self.writes.len());
    }

    /// Whether there was a save point.
    pub(super) fn roll_back_to_save_point(&mut self) -> bool {
        let Some(point) = self.points.pop() else { return false };
        self.writes.truncate(point);
        let kept = self.writes.iter().filter_map(|write| write.key());
        let kept: BTreeSet<_> = kept.map(|(family, key)| (family, key.clone())).collect();
        let given_back = std::mem::replace(&mut self.locked, kept.clone());
        self.given_back.extend(given_back.into_iter().filter(|key| !kept.contains(key)));
        true
    }

    /// Records that a later opening has found it.
    pub(super) fn is_found(&mut self) {
        self.locked.append(&mut self.given_back);
    }
}

impl ScriptWrite {
    /// The family and the key; `None` of a range deletion.
    pub(super) fn key(&self) -> Option<(usize, &Bytes)> {
        match self {
            ScriptWrite::Put(family, key, _)
            | ScriptWrite::Merge(family, key, _)
            | ScriptWrite::Delete(family, key)
            | ScriptWrite::SingleDelete(family, key) => Some((*family, key)),
            ScriptWrite::DeleteRange(..) => None,
        }
    }
}

/// A transaction of a database.
pub(super) enum RunTransaction {
    /// In a database with transactions.
    Of(Box<Transaction>),
    /// Prepared, without a handle.
    Named(Vec<u8>),
    /// A batch in its place.
    Batch { batch: Box<WriteBatchWithIndex>, is_prepared: bool },
}

impl RunTransaction {
    /// The form in which it outlives the database's handle, if it does.
    pub(super) fn closed(self) -> Option<RunTransaction> {
        match self {
            RunTransaction::Of(txn) if txn.state() == esker::txn::TransactionState::Prepared => {
                txn.name().map(RunTransaction::Named)
            }
            RunTransaction::Named(name) => Some(RunTransaction::Named(name)),
            RunTransaction::Batch { batch, is_prepared: true } => {
                Some(RunTransaction::Batch { batch, is_prepared: true })
            }
            RunTransaction::Of(_) | RunTransaction::Batch { .. } => None,
        }
    }

    fn name(&self) -> Option<&[u8]> {
        match self {
            RunTransaction::Named(name) => Some(name),
            _ => None,
        }
    }
}

/// The answer of a read.
pub(super) enum Seen {
    Nothing,
    Value(Option<Bytes>),
    Pairs(Vec<(Bytes, Bytes)>),
}

impl Run<'_> {
    /// Whether the database has prepared transactions, so that it must be opened for transactions.
    pub(super) fn has_prepared(&self) -> bool {
        self.transactions.iter().flatten().any(|running| running.name().is_some())
    }

    /// Checks that the database, just opened, has the transactions that are prepared, and no
    /// others.
    pub(super) fn check_prepared(&self, db: &TransactionDb) -> Result<()> {
        let found = db.get_all_prepared_transactions();
        let found: BTreeSet<Vec<u8>> = found.iter().filter_map(Transaction::name).collect();
        let expected = self.transactions.iter().flatten().filter_map(RunTransaction::name);
        let expected: BTreeSet<Vec<u8>> = expected.map(<[u8]>::to_vec).collect();
        if expected == found {
            return Ok(());
        }
        Err(Error::aborted(format!("prepared are {found:?}, not {expected:?}")))
    }

    pub(super) fn transact(&mut self, slot: usize, op: &TransactionOp) -> Result<Seen> {
        let options = WriteOptions::default().sync(self.rng.u8(..20) == 0);
        if *op == TransactionOp::Begin {
            self.transactions[slot] = Some(self.begin(&options)?);
            return Ok(Seen::Nothing);
        }
        let running = self.transactions[slot].take().expect("the script has begun this transaction");
        let running = match (running, self.store()) {
            (RunTransaction::Named(name), RunStore::Pessimistic(db)) => {
                let found = db.get_transaction_by_name(&name);
                RunTransaction::Of(Box::new(found.ok_or_else(|| Error::aborted("the transaction is gone"))?))
            }
            (running, _) => running,
        };
        let (seen, left) = match running {
            RunTransaction::Of(txn) => {
                let ends = matches!(op, TransactionOp::Commit | TransactionOp::RollBack);
                (self.transact_in(&txn, &options, op)?, (!ends).then_some(RunTransaction::Of(txn)))
            }
            RunTransaction::Batch { batch, is_prepared } => self.transact_over(batch, is_prepared, op)?,
            RunTransaction::Named(_) => {
                return Err(Error::aborted("a prepared transaction without its database"));
            }
        };
        self.transactions[slot] = left;
        Ok(seen)
    }

    fn begin(&mut self, options: &WriteOptions) -> Result<RunTransaction> {
        self.named += 1;
        let RunStore::Pessimistic(db) = self.store() else {
            let batch = WriteBatchWithIndex::new(Arc::new(BytewiseComparator), true);
            return Ok(RunTransaction::Batch { batch: Box::new(batch), is_prepared: false });
        };
        let how = TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() };
        let txn = db.begin_transaction_opt(options, &how);
        txn.set_name(format!("open {}", self.named).as_bytes())?;
        Ok(RunTransaction::Of(Box::new(txn)))
    }

    fn transact_in(&mut self, txn: &Transaction, options: &WriteOptions, op: &TransactionOp) -> Result<Seen> {
        txn.set_write_options(options);
        match op {
            TransactionOp::Begin => {}
            TransactionOp::Write(writes) => {
                writes.iter().try_for_each(|write| self.write_in(txn, write))?;
            }
            TransactionOp::Get(family, key) => {
                let found = txn.get_opt(&ReadOptions::default(), &self.handles[*family], key)?;
                return Ok(Seen::Value(found));
            }
            TransactionOp::Scan(family, backwards) => {
                let mut iter = txn.iter_opt(&ReadOptions::default(), &self.handles[*family])?;
                return all_in(&mut iter, *backwards).map(Seen::Pairs);
            }
            TransactionOp::SetSavePoint => txn.set_save_point(),
            TransactionOp::RollBackToSavePoint => txn.rollback_to_save_point()?,
            TransactionOp::Prepare => txn.prepare()?,
            TransactionOp::Commit => txn.commit()?,
            TransactionOp::RollBack => txn.rollback()?,
        }
        Ok(Seen::Nothing)
    }

    /// Adds a write to a transaction.
    pub(super) fn write_in(&self, txn: &Transaction, write: &ScriptWrite) -> Result<()> {
        match write {
            ScriptWrite::Put(family, key, value) => txn.put_cf(&self.handles[*family], key, value),
            ScriptWrite::Delete(family, key) => txn.delete_cf(&self.handles[*family], key),
            ScriptWrite::SingleDelete(family, key) => txn.single_delete_cf(&self.handles[*family], key),
            ScriptWrite::Merge(family, key, operand) => txn.merge_cf(&self.handles[*family], key, operand),
            ScriptWrite::DeleteRange(family, begin, end) => {
                txn.delete_range_cf(&self.handles[*family], begin, end)
            }
        }
    }

    /// An operation of a transaction that a batch stands for.
    fn transact_over(
        &mut self,
        mut batch: Box<WriteBatchWithIndex>,
        mut is_prepared: bool,
        op: &TransactionOp,
    ) -> Result<(Seen, Option<RunTransaction>)> {
        let options = ReadOptions::default();
        let mut seen = Seen::Nothing;
        match op {
            TransactionOp::Begin => {}
            TransactionOp::Write(writes) => {
                writes.iter().try_for_each(|write| add_over(&mut batch, &*self, write))?;
            }
            TransactionOp::Get(family, key) => {
                let found = batch.get_from_batch_and_db(self.db(), &options, &self.handles[*family], key)?;
                seen = Seen::Value(found);
            }
            TransactionOp::Scan(family, backwards) => {
                let mut iter = batch.iter_with_base(self.db(), &options, &self.handles[*family])?;
                seen = Seen::Pairs(all_in(&mut iter, *backwards)?);
            }
            TransactionOp::SetSavePoint => batch.set_save_point(),
            TransactionOp::RollBackToSavePoint => batch.rollback_to_save_point()?,
            TransactionOp::Prepare => is_prepared = true,
            TransactionOp::Commit => {
                let options = self.write_options();
                self.db().write_opt(&options, *batch)?;
                return Ok((Seen::Nothing, None));
            }
            TransactionOp::RollBack => return Ok((Seen::Nothing, None)),
        }
        Ok((seen, Some(RunTransaction::Batch { batch, is_prepared })))
    }
}

fn add_over(batch: &mut WriteBatchWithIndex, run: &Run<'_>, write: &ScriptWrite) -> Result<()> {
    let id = |family: &usize| run.handles[*family].id();
    match write {
        ScriptWrite::Put(family, key, value) => batch.put_cf(id(family), key, value),
        ScriptWrite::Delete(family, key) => batch.delete_cf(id(family), key),
        ScriptWrite::SingleDelete(family, key) => batch.single_delete_cf(id(family), key),
        ScriptWrite::Merge(family, key, operand) => batch.merge_cf(id(family), key, operand),
        ScriptWrite::DeleteRange(family, begin, end) => batch.delete_range_cf(id(family), begin, end),
    }
}

fn all_in(iter: &mut esker::txn::TransactionIterator, backwards: bool) -> Result<Vec<(Bytes, Bytes)>> {
    let mut pairs = Vec::new();
    if backwards {
        iter.seek_to_last();
    } else {
        iter.seek_to_first();
    }
    while let Some((key, value)) = iter.item() {
        pairs.push((key.to_vec(), value.to_vec()));
        if backwards {
            iter.prev();
        } else {
            iter.next();
        }
    }
    iter.status()?;
    Ok(pairs)
}
