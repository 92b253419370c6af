//! Applies batches to the memtables. The leader applies all batches of a group, or each writer
//! applies its own batch.
//!
//! In: a checked batch and the sequence number of its first op. Out: entries in the active
//! memtables, not yet visible.
//!
//! Invariants
//!  1. Every op is counted, except log data and no-ops. The i-th counted op, from 0, has the
//!     sequence number `first + i`. Ops of dropped families count, too.
//!  2. No active memtable is replaced while a group is applied, because only a leader replaces
//!     memtables.

use super::prepared::{numbered_ops, order_of};
use crate::cf::{ColumnFamily, MemTableLimits};
use crate::engine::{Engine, contained};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::epoch;
use esker_base::sync::{Arc, Condvar, Mutex};
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber, Severity, ValueType};
use esker_format::write_batch::{BatchOp, WriteBatch};
use esker_memtable::MemTable;
use std::fmt;

/// The memtables of all families, as a target for batches.
pub(crate) trait Memtables: fmt::Debug + Send + Sync {
    /// Inserts every op of `batch`. The first op gets the sequence number `first`.
    /// # Errors
    /// `TryAgain`: an entry with this key and sequence number exists · `NotSupported`: an op that
    /// this engine lacks · `Aborted`: a comparator panicked · `Aborted(MemoryLimit)`: no memory is
    /// left.
    fn apply(&self, batch: &WriteBatch, first: SequenceNumber) -> Result<(), Refused>;

    /// [`apply`](Self::apply) with one number for each part of the batch: see `prepared.rs`.
    /// # Errors
    /// Those of [`apply`](Self::apply).
    fn apply_parts(&self, batch: &WriteBatch, first: SequenceNumber) -> Result<(), Refused>;
}

/// A batch that the memtables did not take.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// Whether no memtable holds an entry of the batch.
    pub(crate) is_clean: bool,
}

impl Memtables for Engine {
    fn apply(&self, batch: &WriteBatch, first: SequenceNumber) -> Result<(), Refused> {
        let mut next = first;
        let applied = contained("a write", Severity::HardError, || apply(self, batch, &mut next));
        // `contained` gives the error of a panic a severity. A panic may leave an op half done, so
        // the refusal is not clean then.
        applied.map_err(|error| Refused {
            is_clean: next == first && error.severity() == Severity::NoError,
            error,
        })
    }

    fn apply_parts(&self, batch: &WriteBatch, first: SequenceNumber) -> Result<(), Refused> {
        let mut is_clean = true;
        let applied = contained("a write", Severity::HardError, || {
            batch.verify_checksum()?;
            let guard = epoch::pin();
            let mut target = Target::new(self, &guard);
            numbered_ops(batch, first, &|id| order_of(self, id), |number, op| {
                let Some((family, entry)) = entry_of(op)? else { return Ok(()) };
                let full = target.insert(family, number, entry)?;
                is_clean = false;
                if full == Some(true) {
                    self.switch_wanted.store(true, Ordering::Relaxed);
                }
                Ok(())
            })
        });
        applied
            .map_err(|error| Refused { is_clean: is_clean && error.severity() == Severity::NoError, error })
    }
}

/// Inserts the ops of `batch`. The first op gets the sequence number `sequence`, which rises by one
/// with each counted op.
fn apply(engine: &Engine, batch: &WriteBatch, sequence: &mut SequenceNumber) -> Result<()> {
    let guard = epoch::pin();
    let mut target = Target::new(engine, &guard);
    if batch.is_protected() {
        return apply_protected(engine, batch, sequence, &mut target);
    }
    for op in batch.iter() {
        if let Some((family, entry)) = entry_of(&op)? {
            if let Some(full) = target.insert(family, *sequence, entry)?
                && full
            {
                engine.switch_wanted.store(true, Ordering::Relaxed);
            }
            sequence.0 += 1;
        }
    }
    Ok(())
}

/// Applies a batch with checksums: the memtable checks and keeps the checksum of each entry.
#[cold]
fn apply_protected(
    engine: &Engine,
    batch: &WriteBatch,
    sequence: &mut SequenceNumber,
    target: &mut Target<'_>,
) -> Result<()> {
    batch.checked_ops(&mut |op, checksum| {
        if let Some((family, entry)) = entry_of(op)? {
            if target.insert_checked(family, *sequence, entry, checksum)? == Some(true) {
                engine.switch_wanted.store(true, Ordering::Relaxed);
            }
            sequence.0 += 1;
        }
        Ok(())
    })
}

/// One memtable entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyEntry<'a> {
    pub(crate) value_type: ValueType,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The memtable entry of an op; `None` for log data and no-ops.
/// # Errors
/// `NotSupported`: an op of two-phase transactions.
pub(crate) fn entry_of<'a>(op: &BatchOp<'a>) -> Result<Option<(ColumnFamilyId, ApplyEntry<'a>)>> {
    fn entry<'a>(
        family: ColumnFamilyId,
        value_type: ValueType,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Result<Option<(ColumnFamilyId, ApplyEntry<'a>)>> {
        Ok(Some((family, ApplyEntry { value_type, key, value })))
    }
    match *op {
        BatchOp::Put { family, key, value } => entry(family, ValueType::Value, key, value),
        BatchOp::Delete { family, key } => entry(family, ValueType::Deletion, key, &[]),
        BatchOp::SingleDelete { family, key } => entry(family, ValueType::SingleDeletion, key, &[]),
        BatchOp::Merge { family, key, operand } => entry(family, ValueType::Merge, key, operand),
        BatchOp::DeleteRange { family, begin, end } => entry(family, ValueType::RangeDeletion, begin, end),
        BatchOp::BlobIndex { family, key, index } => entry(family, ValueType::BlobIndex, key, index),
        BatchOp::PutEntity { family, key, entity } => entry(family, ValueType::WideColumnEntity, key, entity),
        BatchOp::LogData(_) | BatchOp::Noop => Ok(None),
        BatchOp::TimedPut { family, key, value } => {
            entry(family, ValueType::ValuePreferredSeqno, key, value.packed())
        }
        _ => Err(Error::not_supported("two-phase transactions")),
    }
}

/// Finds the memtables of families, and remembers the last one: most batches are for one family.
struct Target<'g> {
    engine: &'g Engine,
    guard: &'g epoch::Guard,
    last: Option<(ColumnFamilyId, &'g MemTable, MemTableLimits)>,
}

impl<'g> Target<'g> {
    fn new(engine: &'g Engine, guard: &'g epoch::Guard) -> Target<'g> {
        Target { engine, guard, last: None }
    }

    /// Called after each insert. If the entry is a point deletion and the memtable has sampled
    /// deletions, sets `deletions_sampled`. Returns whether the memtable is full.
    #[inline]
    fn inserted(&self, mem: &MemTable, limits: MemTableLimits, value_type: ValueType) -> bool {
        if value_type.is_point_deletion() && mem.has_sampled_deletions() {
            self.engine.deletions_sampled.store(true, Ordering::Relaxed);
        }
        limits.has_too_many_bytes(mem)
            || (value_type == ValueType::RangeDeletion && limits.has_too_many_range_deletions(mem))
    }

    /// Inserts an entry. Returns whether the memtable is full now; `None` if the family is gone.
    #[inline(always)]
    fn insert(
        &mut self,
        family: ColumnFamilyId,
        sequence: SequenceNumber,
        entry: ApplyEntry<'_>,
    ) -> Result<Option<bool>> {
        let Some((mem, limits)) = self.memtable(family) else { return Ok(None) };
        mem.add(sequence, entry.value_type, entry.key, entry.value)?;
        Ok(Some(self.inserted(mem, limits, entry.value_type)))
    }

    /// [`Target::insert`] of an entry that has a checksum.
    fn insert_checked(
        &mut self,
        family: ColumnFamilyId,
        sequence: SequenceNumber,
        entry: ApplyEntry<'_>,
        checksum: EntryChecksum,
    ) -> Result<Option<bool>> {
        let Some((mem, limits)) = self.memtable(family) else { return Ok(None) };
        mem.add_checked(sequence, entry.value_type, entry.key, entry.value, checksum)?;
        Ok(Some(self.inserted(mem, limits, entry.value_type)))
    }

    /// The family's memtable and its limits; `None` if the family is gone.
    #[inline]
    fn memtable(&mut self, family: ColumnFamilyId) -> Option<(&'g MemTable, MemTableLimits)> {
        match self.last {
            Some((id, mem, limits)) if id == family => Some((mem, limits)),
            _ => {
                let load = |cf: &ColumnFamily| cf.super_version.load(self.guard);
                let sv = self.engine.families.with(family, load)?;
                let (mem, limits) = (&*sv.mem, MemTableLimits::of(&sv.options));
                self.last = Some((family, mem, limits));
                Some((mem, limits))
            }
        }
    }
}

/// Counts the unfinished parts of a group's parallel insertion, and keeps an error.
#[derive(Debug)]
pub(crate) struct Countdown {
    left: Mutex<(usize, Result<(), Refused>)>,
    zero: Condvar,
}

impl Countdown {
    /// A countdown of `parts` parts.
    pub(crate) fn new(parts: usize) -> Arc<Countdown> {
        Arc::new(Countdown { left: Mutex::new((parts, Ok(()))), zero: Condvar::new() })
    }

    fn done(&self, result: Result<(), Refused>) {
        let mut left = self.left.lock();
        left.0 -= 1;
        if result.is_err() {
            left.1 = result;
        }
        if left.0 == 0 {
            self.zero.notify_one();
        }
    }

    /// Waits for all parts.
    /// # Errors
    /// The error of one failed part.
    pub(crate) fn wait(&self) -> Result<(), Refused> {
        let mut left = self.left.lock();
        while left.0 > 0 {
            self.zero.wait(&mut left);
        }
        left.1.clone()
    }
}

/// The insertion of a follower's batch, which the follower runs itself.
#[derive(Debug)]
pub(crate) struct ApplyTask {
    pub(crate) memtables: Arc<dyn Memtables>,
    pub(crate) batch: WriteBatch,
    pub(crate) first: SequenceNumber,
    pub(crate) countdown: Arc<Countdown>,
}

impl ApplyTask {
    /// Inserts the batch, counts down and returns the batch.
    pub(crate) fn run(self) -> WriteBatch {
        let result = self.memtables.apply(&self.batch, self.first);
        self.countdown.done(result);
        self.batch
    }
}
