//! Records with sections of transactions: the ops of a prepared transaction, or of a part of one,
//! between markers.
//!
//! In: the ops. Out: a record for the WAL. Source: RocksDB `db/write_batch.cc` (`MarkEndPrepare`),
//! `utilities/transactions/write_prepared_txn.cc`.
//!
//! Invariant: a section of an early policy has a no-op before each op whose key is in its part
//! already. So RocksDB finds the numbers of the ops also where tables have them: there it does not
//! notice the third op of a key, and takes all numbers behind it for lower ones. Ops of prepared
//! transactions would then count as committed (`db/dbformat.h`, `DuplicateDetector`).

use super::two_phase::{CustomOrders, OpNumbers, numbers_by_batch};
use esker_base::{ColumnFamilyId, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch};
use std::collections::BTreeMap;

/// A prepared transaction that recovery has found.
#[derive(Clone, Debug)]
pub(crate) struct PreparedTransaction {
    pub(crate) xid: Vec<u8>,
    /// The ops that its commit applies, without markers.
    pub(crate) batch: WriteBatch,
    /// The first sequence number of its section, and their count, if its ops are in memtables.
    pub(crate) numbers: Option<(SequenceNumber, u64)>,
}

/// The transactions that recovery writes to the new WAL, in one record. So a crash keeps all of the
/// record or nothing, and the next recovery finds either the old sections or the new ones.
#[derive(Debug, Default)]
pub(crate) struct SectionsAgain {
    pub(crate) prepared: Vec<PreparedTransaction>,
    /// The names of transactions that never prepared.
    pub(crate) dropped: Vec<Vec<u8>>,
    /// Gives keys their committed values again where tables have ops of these transactions. Its
    /// sequence number is that of the record.
    pub(crate) restore: WriteBatch,
    /// The orders of families in which keys of different bytes may be equal.
    pub(crate) orders: BTreeMap<ColumnFamilyId, InternalKeyComparator>,
}

impl SectionsAgain {
    /// Whether nothing has to be written: tables have no op of a dropped transaction.
    pub(crate) fn is_empty(&self) -> bool {
        self.prepared.is_empty() && self.restore.count() == 0
    }

    /// The record, with sections of this kind. Its first markers end the older sections, which may
    /// be replayed before it; then come the restoring ops, and the sections.
    /// # Errors
    /// Those of [`WriteBatch::put`].
    pub(crate) fn record(&self, kind: PrepareKind) -> Result<WriteBatch> {
        let orders = |id| self.orders.get(&id).cloned();
        let mut record = WriteBatch::new();
        let names = self.prepared.iter().map(|transaction| &transaction.xid).chain(&self.dropped);
        for xid in names {
            record.put_marker(BatchOp::Rollback { xid })?;
        }
        record.append(&self.restore)?;
        if kind != PrepareKind::Committed && self.restore.count() > 0 {
            record.put_marker(BatchOp::Noop)?;
        }
        for transaction in &self.prepared {
            let (xid, ops) = (&transaction.xid, &transaction.batch);
            match kind {
                PrepareKind::Committed => add_section(&mut record, xid, ops)?,
                _ => _ = add_early_section(&mut record, xid, ops, kind, &orders)?,
            }
        }
        record.set_sequence(self.restore.sequence());
        Ok(record)
    }
}

/// The record of a prepared transaction: its ops between markers.
/// # Errors
/// Those of [`WriteBatch::put`].
pub(crate) fn section_record(xid: &[u8], ops: &WriteBatch) -> Result<WriteBatch> {
    let mut record = WriteBatch::with_capacity(ops.data_size() + 2 * xid.len() + 32);
    add_section(&mut record, xid, ops)?;
    Ok(record)
}

/// [`section_record`] of a section that an older WAL has too; both may be replayed.
/// # Errors
/// Those of [`WriteBatch::put`].
pub(crate) fn section_record_again(xid: &[u8], ops: &WriteBatch) -> Result<WriteBatch> {
    let mut record = WriteBatch::new();
    record.put_marker(BatchOp::Rollback { xid })?;
    add_section(&mut record, xid, ops)?;
    Ok(record)
}

/// The record of a section that the memtables get, too, and how many sequence numbers its ops take,
/// at least one. `kind`: of a prepare, or of a transaction that is not prepared yet.
/// # Errors
/// Those of [`WriteBatch::put`].
pub(crate) fn early_section(
    xid: &[u8],
    ops: &WriteBatch,
    kind: PrepareKind,
    orders: CustomOrders<'_>,
) -> Result<(WriteBatch, u64)> {
    let mut record = WriteBatch::with_capacity(ops.data_size() + 2 * xid.len() + 32);
    let numbers = add_early_section(&mut record, xid, ops, kind, orders)?;
    Ok((record, numbers))
}

fn add_section(record: &mut WriteBatch, xid: &[u8], ops: &WriteBatch) -> Result<()> {
    record.put_marker(BatchOp::BeginPrepare(PrepareKind::Committed))?;
    record.append(ops)?;
    record.put_marker(BatchOp::EndPrepare { xid })
}

fn add_early_section(
    record: &mut WriteBatch,
    xid: &[u8],
    ops: &WriteBatch,
    kind: PrepareKind,
    orders: CustomOrders<'_>,
) -> Result<u64> {
    record.put_marker(BatchOp::BeginPrepare(kind))?;
    let count = numbers_by_batch(ops, orders).max(1);
    if count == 1 {
        record.append(ops)?;
    } else {
        ops.verify_checksum()?;
        let mut numbers = OpNumbers::new(true, SequenceNumber::ZERO, orders);
        let mut last = SequenceNumber::ZERO;
        for op in ops.iter() {
            let number = numbers.number_of(&op).unwrap_or(last);
            if number > last {
                record.put_marker(BatchOp::Noop)?;
                last = number;
            }
            record.push(op)?;
        }
    }
    record.put_marker(BatchOp::EndPrepare { xid })?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_testkit::seed;
    use std::collections::HashSet;

    /// The numbers that RocksDB gives the ops of a record, from 0 on, if tables have the ops
    /// already. It compares an op with those that had the same number, and forgets them with the
    /// first op of the next number: also the op whose repetition began that number.
    fn numbers_of_rocksdb(record: &WriteBatch) -> (Vec<u64>, u64) {
        let mut seen = HashSet::new();
        let (mut number, mut number_of_seen) = (0, 0);
        let mut in_batch = false;
        let mut numbers = Vec::new();
        for op in record.iter() {
            match op {
                BatchOp::BeginPrepare(_) => in_batch = true,
                BatchOp::Noop if in_batch => number += 1,
                BatchOp::EndPrepare { .. } => number += 1,
                BatchOp::Put { key, .. } | BatchOp::Delete { key, .. } => {
                    if number_of_seen != number {
                        seen.clear();
                    }
                    number_of_seen = number;
                    if !seen.insert(key.to_vec()) {
                        seen = HashSet::from([key.to_vec()]);
                        number += 1;
                    }
                    numbers.push(number);
                }
                other => panic!("{other:?}"),
            }
        }
        (numbers, number)
    }

    #[test]
    fn rocksdb_numbers_sections_alike_where_tables_have_their_ops() {
        let orders = |_| None;
        seed::for_each_seed("sections", 300, |_, mut rng| {
            let mut ops = WriteBatch::new();
            for _ in 0..rng.usize(..12) {
                let key = [rng.u8(..3)];
                if rng.bool() { ops.put(key, "v") } else { ops.delete(key) }.unwrap();
            }
            let kind = if rng.bool() { PrepareKind::Persisted } else { PrepareKind::Unprepared };
            let (record, count) = early_section(b"x", &ops, kind, &orders).unwrap();
            let mut numbers = OpNumbers::new(true, SequenceNumber::ZERO, &orders);
            let own: Vec<_> = ops.iter().map(|op| numbers.take(&op).0).collect();
            assert_eq!(numbers_of_rocksdb(&record), (own, count));
        });
    }
}
