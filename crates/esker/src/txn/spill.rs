//! Transactions larger than memory, under the write policy `WriteUnprepared`.
//!
//! Once the ops of a transaction pass `write_batch_flush_threshold`, the next write *spills* them:
//! they go to WAL and memtables, where the transaction alone sees them. The prepare writes the
//! rest, and the commit a marker, as under `WritePrepared`.
//!
//! The keys of spilled ops, their locks, and the sequence numbers of their entries stay in memory.
//!
//! Invariants
//!  1. A spill writes each stretch of ops between save points as a section of its own. So a save
//!     point lies between two sequence numbers: its *boundary* is the highest number before it.
//!  2. A rollback to a spilled save point spills the values of that point before it releases locks.
//!     So the writes of a later holder of the lock have higher numbers and win.
//!  3. A key leaves [`Spilled::keys`] when a rollback to a save point undoes its first spilled
//!     write, or the transaction ends. Its lock is released no earlier.
//!  4. A transaction that has spilled keeps its locks even when it expires, and deletes no ranges.
//!
//! Source of the semantics: RocksDB `utilities/transactions/write_unprepared_txn.cc`.

use super::batch_index::WriteBatchWithIndex;
use super::db::TransactionDbShared;
use super::former_values::{WrittenKey, WrittenKeys, former_values, ops_by_key};
use super::options::{TransactionDbOptions, TransactionOptions, WritePolicy};
use super::pessimistic::{PessimisticCore, Transaction, TransactionState};
use crate::db::Db;
use crate::snapshot::OwnNumbers;
use crate::wal::KeyWrites;
use esker_base::{Error, Result, SequenceNumber};
use esker_format::write_batch::WriteBatch;
use std::collections::BTreeMap;

/// The spilled ops of a transaction.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    /// Bytes of ops beyond which the next write spills them; 0: no write does.
    threshold: u64,
    numbers: OwnNumbers,
    keys: BTreeMap<WrittenKey, Sections>,
    /// Whether the transaction got its name from the spill.
    made_name: bool,
}

/// The first and the last section that wrote a key, as the number of the section's first entry, and
/// what they wrote.
#[derive(Clone, Copy, Debug)]
struct Sections {
    first: SequenceNumber,
    last: SequenceNumber,
    writes: KeyWrites,
}

/// The position of a save point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SavePointPosition {
    /// Bytes of ops before it, in the batch.
    InBatch(usize),
    /// The highest number before it.
    Spilled(SequenceNumber),
}

impl Spilled {
    pub(super) fn new(db: &TransactionDbOptions, options: &TransactionOptions) -> Spilled {
        let own = u64::try_from(options.write_batch_flush_threshold);
        let threshold = match db.write_policy {
            WritePolicy::WriteUnprepared => {
                own.unwrap_or_else(|_| u64::try_from(db.default_write_batch_flush_threshold).unwrap_or(0))
            }
            WritePolicy::WriteCommitted | WritePolicy::WritePrepared => 0,
        };
        Spilled { threshold, ..Spilled::default() }
    }

    /// Whether nothing was spilled.
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether the transaction got its name from the spill.
    pub(super) fn made_name(&self) -> bool {
        self.made_name
    }

    /// The numbers of the spilled entries; `None` if there are none.
    pub(super) fn numbers(&self) -> Option<&OwnNumbers> {
        (!self.is_empty()).then_some(&self.numbers)
    }

    /// The keys whose former values a rollback writes.
    pub(super) fn keys(&self) -> WrittenKeys {
        self.keys.iter().map(|(key, sections)| (key.clone(), sections.writes)).collect()
    }

    /// Forgets the spilled ops, which are committed or rolled back.
    pub(super) fn clear(&mut self) {
        self.numbers = OwnNumbers::default();
        self.keys.clear();
    }

    fn add(&mut self, db: &Db, section: &WriteBatch, first: SequenceNumber, count: u64) {
        self.numbers.add(first, count);
        for (key, op) in ops_by_key(db, section) {
            let fresh = Sections { first, last: first, writes: KeyWrites::default() };
            let sections = self.keys.entry(key).or_insert(fresh);
            sections.last = first;
            sections.writes.note(&op);
        }
    }
}

impl PessimisticCore {
    /// Whether the next write spills first.
    fn wants_spill(&self) -> bool {
        let batch = self.batch.write_batch();
        self.spilled.threshold > 0
            && self.state == TransactionState::Started
            && batch.count() > 0
            && batch.data_size() as u64 > self.spilled.threshold
            && !batch.content().delete_range
    }

    /// The position of a save point that is set now.
    pub(super) fn position(&self) -> SavePointPosition {
        let bytes = self.batch.write_batch().ops_bytes().len();
        if bytes == 0 && !self.spilled.is_empty() && self.save_points.last().is_none_or(|p| p.is_spilled()) {
            return SavePointPosition::Spilled(self.spilled.numbers.last());
        }
        SavePointPosition::InBatch(bytes)
    }

    /// The ops of the batch, cut at its save points.
    fn stretches(&self) -> Result<Vec<WriteBatch>> {
        let batch = self.batch.write_batch();
        let cuts = self.save_points.iter().filter_map(|point| match point.position {
            SavePointPosition::InBatch(bytes) => Some(bytes),
            SavePointPosition::Spilled(_) => None,
        });
        let mut ops = batch.iter();
        let (mut stretches, mut from) = (Vec::new(), 0);
        for to in cuts.chain([batch.ops_bytes().len()]) {
            let mut stretch = WriteBatch::new();
            while from + stretch.ops_bytes().len() < to
                && let Some(op) = ops.next()
            {
                stretch.push(op)?;
            }
            from = to;
            stretches.push(stretch);
        }
        Ok(stretches)
    }

    /// Replaces the batch by its last stretches, with a save point between every two. Ops that are
    /// not indexed stay so.
    fn set_stretches(&mut self, stretches: &[WriteBatch]) -> Result<()> {
        let bytes: usize = stretches.iter().map(|stretch| stretch.ops_bytes().len()).sum();
        let dropped = self.batch.write_batch().ops_bytes().len() - bytes;
        let mut unindexed = std::mem::take(&mut self.batch.unindexed);
        unindexed.drop_front(dropped);
        self.batch.clear();
        self.batch.unindexed = unindexed;
        let max_bytes = self.options.max_write_batch_size;
        self.batch.set_max_bytes(0);
        let in_batch = self.save_points.iter_mut().filter(|point| !point.is_spilled());
        let mut positions = in_batch.map(|point| &mut point.position);
        for (i, stretch) in stretches.iter().enumerate() {
            if i > 0 {
                self.batch.set_save_point();
                if let Some(position) = positions.next() {
                    *position = SavePointPosition::InBatch(self.batch.write_batch().ops_bytes().len());
                }
            }
            self.batch.batch.append(stretch)?;
        }
        self.batch.set_max_bytes(max_bytes);
        Ok(())
    }
}

impl Transaction {
    /// Spills the ops so far if their bytes pass the threshold. Each write calls it first.
    /// # Errors
    /// Those of [`Db::write`](crate::Db::write); `Expired`. The ops that were not spilled stay.
    pub(super) fn make_room(&self) -> Result<()> {
        let core = &mut *self.core_mut();
        if core.wants_spill() { self.spill(core) } else { Ok(()) }
    }

    #[cold]
    fn spill(&self, core: &mut PessimisticCore) -> Result<()> {
        core.locker.begin_commit()?;
        self.name_for_spill(core)?;
        let stretches = core.stretches()?;
        let mut done = 0;
        let result = stretches.iter().try_for_each(|stretch| {
            self.spill_section(core, stretch)?;
            // Every stretch but the last has a save point behind it.
            let boundary = core.spilled.numbers.last();
            if done + 1 < stretches.len()
                && let Some(point) = core.save_points.iter_mut().find(|point| !point.is_spilled())
            {
                point.position = SavePointPosition::Spilled(boundary);
            }
            done += 1;
            Ok(())
        });
        core.set_stretches(&stretches[done..])?;
        result
    }

    /// Writes one section to WAL and memtables.
    fn spill_section(&self, core: &mut PessimisticCore, section: &WriteBatch) -> Result<()> {
        if section.ops_bytes().is_empty() {
            return Ok(());
        }
        let name = core.name.clone().expect("a transaction that spills has a name");
        let mut batch = WriteBatch::with_capacity(section.data_size());
        batch.append(section)?;
        let (first, count) = self.shared().db.spill(&core.write_options, &name, batch)?;
        // The numbers are not shared while they grow, so they are not copied.
        core.batch.spilled = None;
        core.spilled.add(&self.shared().db, section, first, count);
        core.batch.spilled = Some(core.spilled.numbers.clone());
        Ok(())
    }

    /// Names the transaction if it has no name. Recovery finds its sections under the name.
    fn name_for_spill(&self, core: &mut PessimisticCore) -> Result<()> {
        if core.name.is_some() {
            return Ok(());
        }
        let mut names = self.shared().names.lock();
        let free = |number: &u64| !names.contains_key(&name_of(*number));
        let name = (core.locker.id()..).find(free).map(name_of);
        let name = name.ok_or_else(|| Error::invalid_argument("no name is left for a transaction"))?;
        names.insert(name.clone(), None);
        core.name = Some(name);
        core.spilled.made_name = true;
        Ok(())
    }

    /// Gives all keys that were written behind a spilled save point the values of that point.
    /// # Errors
    /// Those of reads and of [`Db::write`](crate::Db::write). Nothing has changed then.
    pub(super) fn undo_spilled(&self, core: &mut PessimisticCore, boundary: SequenceNumber) -> Result<()> {
        let is_behind = |sections: &Sections| sections.last > boundary;
        let behind = core.spilled.keys.iter().filter(|(_, sections)| is_behind(sections));
        let keys: WrittenKeys = behind.map(|(key, sections)| (key.clone(), sections.writes)).collect();
        if !keys.is_empty() {
            let own = core.spilled.numbers.up_to(boundary);
            let values = former_values(&self.shared().db, &keys, Some(own))?;
            self.spill_section(core, &values)?;
            // The caller may release the locks of keys that were first written behind the point.
            core.spilled.keys.retain(|_, sections| sections.first <= boundary);
        }
        core.batch.clear();
        Ok(())
    }

    /// Writes the former values of all spilled keys, and the marker of the rollback.
    /// # Errors
    /// Those of reads and of [`Db::write`](crate::Db::write). The transaction is unchanged then.
    pub(super) fn roll_back_spilled(shared: &TransactionDbShared, core: &mut PessimisticCore) -> Result<()> {
        let Some(name) = core.name.clone().filter(|_| !core.spilled.is_empty()) else { return Ok(()) };
        shared.db.engine().check_writable()?;
        let former = former_values(&shared.db, &core.spilled.keys(), None)?;
        shared.db.inner.write_path.rollback_in_memtables(&core.write_options, &name, former)
    }
}

fn name_of(number: u64) -> Vec<u8> {
    format!("unnamed transaction {number}").into_bytes()
}

impl WriteBatchWithIndex {
    /// A batch without ops, over older writes that are in the database.
    pub(super) fn over_spilled(spilled: Option<OwnNumbers>) -> WriteBatchWithIndex {
        let mut batch = WriteBatchWithIndex::default();
        batch.spilled = spilled;
        batch
    }
}
