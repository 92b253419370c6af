//! Two-phase transactions in WALs: the ops that each record applies, their sequence numbers, and
//! the transactions that stay prepared.
//!
//! In: the records of all WALs, in order. Out: the ops to apply, each with the WAL whose data it
//! belongs to. At the end: the transactions that are neither committed nor rolled back.
//! Source: RocksDB `db/write_batch.cc` (`MemTableInserter`),
//! `utilities/transactions/write_{prepared,unprepared}_txn_db.h`.
//!
//!  - Under write-committed, the commit applies the ops of a section. Each op takes a number, from
//!    the number of the commit's record on.
//!  - Under write-prepared and write-unprepared ("early" policies), the writer put the ops into
//!    memtables at the prepare or spill. Each part of a batch without repeated keys takes a number.
//!
//! Invariants
//!  1. No op of a section is applied before its commit, or before the rollback that undoes it:
//!     uncommitted ops cannot be seen.
//!  2. Ops of an early policy keep their original numbers, and belong to the section's WAL: tables
//!     may have them.
//!  3. The markers show the policy of a WAL; batches of an early policy end in a marker or a no-op.
//!  4. Under an early policy the ops of a rolled back transaction stay, below the older values of
//!     its keys. The rollback's record has these values before its marker. It may lack a key that a
//!     save point has undone already. RocksDB's may also lack a key that was only merged
//!     (`rollback_merge_operands`).

use esker_base::comparator::KeyOrder;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch, WriteBatchView};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

#[cfg(test)]
mod tests;

/// A part of a transaction: one section. Only write-unprepared transactions have several.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    kind: PrepareKind,
    wal: FileNumber,
    first: SequenceNumber,
    batch: WriteBatch,
}

/// A transaction of which WALs have sections, and which is neither committed nor rolled back.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedTransaction {
    pub(crate) xid: Vec<u8>,
    sections: Vec<Section>,
}

/// An op of a section. Under an early policy a reader finds it in memtables and tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionOp<'a> {
    pub(crate) op: BatchOp<'a>,
    /// The number of its entry, and the WAL that has it; `None` under write-committed.
    pub(crate) entry: Option<(SequenceNumber, FileNumber)>,
}

impl UnresolvedTransaction {
    /// Whether the transaction is prepared. Recovery drops one that spilled under write-unprepared
    /// and never prepared.
    pub(crate) fn is_prepared(&self) -> bool {
        self.sections.last().is_some_and(|section| section.kind != PrepareKind::Unprepared)
    }

    /// The ops of all its sections, in order.
    pub(crate) fn ops(&self, orders: CustomOrders<'_>) -> Vec<SectionOp<'_>> {
        let mut ops = Vec::new();
        for section in &self.sections {
            let is_early = section.kind != PrepareKind::Committed;
            let mut numbers = OpNumbers::new(true, section.first, orders);
            ops.extend(section.batch.iter().map(|op| {
                let number = numbers.take(&op);
                SectionOp { op, entry: is_early.then_some((number, section.wal)) }
            }));
        }
        ops
    }
}

/// Applies one op of a record: its WAL, its sequence number, the op.
pub(crate) type Insert<'a> = dyn FnMut(FileNumber, SequenceNumber, &BatchOp<'_>) -> Result<()> + 'a;

/// The state of two-phase commit while WALs are replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct TwoPhaseReplay {
    /// Whether prepared sections are allowed; else a record with one is refused.
    allowed: bool,
    /// Families whose keys end in the timestamp of their commit.
    timestamped: BTreeSet<ColumnFamilyId>,
    /// The orders of the families.
    orders: BTreeMap<ColumnFamilyId, InternalKeyComparator>,
    /// Whether each batch of the present WAL takes one number; `None` until a record shows it.
    by_batch: Option<bool>,
    prepared: BTreeMap<Vec<u8>, Vec<Section>>,
    /// The families of each early transaction's ops, each with the newest WAL of these ops.
    early_families: BTreeMap<Vec<u8>, BTreeMap<ColumnFamilyId, FileNumber>>,
    /// Early transactions that the record of an earlier open has ended. If that open did not
    /// finish, this one reads the same WALs and tables. It must then keep the same single
    /// deletions.
    ended: Vec<UnresolvedTransaction>,
    /// The families of the ops of `ended`, each with the newest WAL of these ops.
    ended_families: BTreeMap<ColumnFamilyId, FileNumber>,
    /// Whether the last record took an unknown count of numbers. Such a record commits a section
    /// whose WAL is deleted. Or it rolls one back before its own WAL has shown the policy.
    took_unknown: bool,
}

impl TwoPhaseReplay {
    /// The state before the first WAL. `allowed`: whether WALs may hold sections of two-phase
    /// transactions; otherwise such WALs are refused.
    pub(crate) fn new(allowed: bool) -> TwoPhaseReplay {
        TwoPhaseReplay { allowed, ..TwoPhaseReplay::default() }
    }

    /// Sets the families whose keys have timestamps. A commit may give the timestamp.
    pub(crate) fn set_timestamped(&mut self, families: impl IntoIterator<Item = ColumnFamilyId>) {
        self.timestamped = families.into_iter().collect();
    }

    /// Sets the orders of the families.
    pub(crate) fn set_orders<'a>(
        &mut self,
        families: impl IntoIterator<Item = (ColumnFamilyId, &'a InternalKeyComparator)>,
    ) {
        self.orders = families.into_iter().map(|(id, icmp)| (id, icmp.clone())).collect();
    }

    /// The next WAL begins: it may have been written under another policy.
    pub(crate) fn begin_file(&mut self) {
        self.by_batch = None;
    }

    /// Passes the ops that the record applies to `insert`. Returns how many sequence numbers the
    /// record took.
    /// # Errors
    /// `NotSupported` if there is a section and none is allowed · `Corruption` if markers do not
    /// match, or a commit timestamp does not match its keys · those of `insert`.
    pub(crate) fn record(
        &mut self,
        wal: FileNumber,
        batch: &WriteBatchView<'_>,
        insert: &mut Insert<'_>,
    ) -> Result<u64> {
        if !self.allowed && batch.content().transaction_markers && self.needs_sections(batch) {
            return Err(not_allowed(wal));
        }
        self.learn_policy(batch);
        self.took_unknown = false;
        let all = &self.orders;
        let orders = |id| all.get(&id).and_then(custom_order);
        let mut record = Record {
            took_unknown: &mut self.took_unknown,
            knows_policy: self.by_batch.is_some(),
            wal,
            numbers: OpNumbers::new(self.by_batch == Some(true), batch.sequence(), &orders),
            open: None,
            batch,
            is_of_open: None,
            prepared: &mut self.prepared,
            early_families: &mut self.early_families,
            ended: &mut self.ended,
            ended_families: &mut self.ended_families,
            timestamped: &self.timestamped,
        };
        for op in batch.iter() {
            record.op(&op, insert).map_err(|e| e.at(format_args!("{:06}.log", wal.0)))?;
        }
        if record.open.is_some() {
            return Err(Error::corruption(format!("{:06}.log: a prepared section has no end", wal.0)));
        }
        Ok(record.numbers.next.0 - batch.sequence().0)
    }

    /// Records the prepares and resolutions of a record that no family needs. Skips a malformed
    /// record.
    pub(crate) fn note(&mut self, wal: FileNumber, batch: &WriteBatchView<'_>) {
        let allowed = std::mem::replace(&mut self.allowed, true);
        self.record(wal, batch, &mut |_, _, _| Ok(())).unwrap_or_default();
        self.allowed = allowed;
    }

    /// The number of sequence numbers that a record takes. Nothing is applied, and sections stay as
    /// they are. Costs a copy of all open and ended sections if the record has markers of
    /// transactions.
    pub(crate) fn numbers_of(&mut self, wal: FileNumber, batch: &WriteBatchView<'_>) -> u64 {
        let count = |two_phase: &mut TwoPhaseReplay| two_phase.record(wal, batch, &mut |_, _, _| Ok(()));
        let counted = match batch.content().transaction_markers {
            true => count(&mut self.clone()),
            false => count(self),
        };
        counted.unwrap_or(u64::from(batch.count()))
    }

    /// Whether this record needs sections to be allowed: it prepares one, or commits one that was
    /// read. A commit whose section's WAL is deleted needs no section: tables have its ops.
    fn needs_sections(&self, batch: &WriteBatchView<'_>) -> bool {
        batch.iter().any(|op| match op {
            BatchOp::BeginPrepare(_) => true,
            BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
                self.prepared.contains_key(xid)
            }
            _ => false,
        })
    }

    /// Whether the sequence number after the last record is known. A commit of a section whose WAL
    /// is deleted leaves it unknown. A rollback of one does, too, if the policy is unknown.
    pub(crate) fn knows_next_number(&self) -> bool {
        !self.took_unknown
    }

    /// Whether the last record takes one number for each batch, as under RocksDB's early policies.
    pub(crate) fn numbers_batches(&self) -> bool {
        self.by_batch == Some(true)
    }

    /// Whether replay may still add ops of this family that belong to a WAL numbered `log_number`
    /// or higher. The resolution of an open early transaction adds its ops. The end of the replay
    /// adds single deletions of ended ones. Costs a look at each open transaction.
    pub(crate) fn may_add_to(&self, family: ColumnFamilyId, log_number: FileNumber) -> bool {
        let open = self.early_families.values().filter_map(|wals| wals.get(&family));
        let newest = open.chain(self.ended_families.get(&family)).max();
        newest.is_some_and(|wal| *wal >= log_number)
    }

    /// Takes the early transactions that records of earlier opens have ended.
    pub(crate) fn take_ended(&mut self) -> Vec<UnresolvedTransaction> {
        self.ended_families.clear();
        std::mem::take(&mut self.ended)
    }

    /// The transactions that are not resolved, by name.
    /// # Errors
    /// `NotSupported` if there is any and none is allowed.
    pub(crate) fn into_unresolved(self) -> Result<Vec<UnresolvedTransaction>> {
        if !self.allowed
            && let Some(section) = self.prepared.values().flatten().next()
        {
            return Err(not_allowed(section.wal));
        }
        let unresolved = |(xid, sections)| UnresolvedTransaction { xid, sections };
        Ok(self.prepared.into_iter().map(unresolved).collect())
    }

    fn learn_policy(&mut self, batch: &WriteBatchView<'_>) {
        if batch.content().transaction_markers {
            let begun = batch.iter().find_map(|op| match op {
                BatchOp::BeginPrepare(kind) => Some(kind),
                _ => None,
            });
            let kind_of = |xid: &[u8]| self.prepared.get(xid).and_then(|s| s.first()).map(|s| s.kind);
            let resolved = || {
                batch.iter().find_map(|op| match op {
                    BatchOp::Commit { xid }
                    | BatchOp::CommitWithTimestamp { xid, .. }
                    | BatchOp::Rollback { xid } => kind_of(xid),
                    _ => None,
                })
            };
            // The record of an open begins with rollbacks, and other ops follow. If it has no
            // section, a no-op at its end shows that it numbers by batch. A record that ends in
            // another marker comes from a write group: that marker belongs to another transaction.
            let is_rollback = |op: Option<BatchOp<'_>>| matches!(op, Some(BatchOp::Rollback { .. }));
            let last = batch.iter().last();
            let ends_in_ops = last.is_some_and(|op| op.family().is_some() || op == BatchOp::Noop);
            if begun.is_none() && is_rollback(batch.iter().next()) && ends_in_ops {
                self.by_batch = Some(last == Some(BatchOp::Noop));
                return;
            }
            let kind = begun.or_else(resolved);
            // Under an early policy a rollback's record may have ops before the marker, which take
            // earlier ops back; its section may be gone. Under write-committed such a record comes
            // from a write group: one transaction's write, then the rollback of another, whose
            // section is gone.
            let takes_back =
                batch.count() > 0 && self.by_batch != Some(false) && begun.is_none() && is_rollback(last);
            let by_batch = kind.map(|kind| kind != PrepareKind::Committed).or(takes_back.then_some(true));
            self.by_batch = by_batch.or(self.by_batch);
        } else if batch.count() > 0 {
            self.by_batch = Some(batch.iter().last() == Some(BatchOp::Noop));
        }
    }
}

#[cold]
fn not_allowed(wal: FileNumber) -> Error {
    Error::not_supported(format!(
        "{:06}.log holds two-phase transactions; open the database with a TransactionDb or with allow_2pc",
        wal.0
    ))
}

/// The record that is being passed on.
struct Record<'a> {
    took_unknown: &'a mut bool,
    knows_policy: bool,
    wal: FileNumber,
    numbers: OpNumbers<'a>,
    /// The section whose end has not come yet.
    open: Option<Section>,
    batch: &'a WriteBatchView<'a>,
    /// Whether it is the record of an open: [`Record::apply_rolled_back`]. `None`: no rollback has
    /// asked yet.
    is_of_open: Option<bool>,
    prepared: &'a mut BTreeMap<Vec<u8>, Vec<Section>>,
    early_families: &'a mut BTreeMap<Vec<u8>, BTreeMap<ColumnFamilyId, FileNumber>>,
    ended: &'a mut Vec<UnresolvedTransaction>,
    ended_families: &'a mut BTreeMap<ColumnFamilyId, FileNumber>,
    timestamped: &'a BTreeSet<ColumnFamilyId>,
}

impl Record<'_> {
    fn op(&mut self, op: &BatchOp<'_>, insert: &mut Insert<'_>) -> Result<()> {
        match *op {
            BatchOp::BeginPrepare(kind) => self.begin(kind),
            BatchOp::EndPrepare { xid } => self.end(xid),
            BatchOp::Commit { xid } => self.commit(xid, None, insert),
            BatchOp::CommitWithTimestamp { timestamp, xid } => self.commit(xid, Some(timestamp), insert),
            BatchOp::Rollback { xid } => {
                let sections = self.take_sections(xid);
                // Under an early policy the marker takes a number.
                *self.took_unknown |= sections.is_empty() && !self.knows_policy;
                self.numbers.end_batch();
                self.apply_rolled_back(xid, sections, insert)
            }
            BatchOp::Noop => {
                if self.numbers.in_batch {
                    self.numbers.end_batch();
                }
                Ok(())
            }
            BatchOp::LogData(_) => Ok(()),
            ref op => match &mut self.open {
                Some(section) => {
                    section.batch.push(*op)?;
                    if self.numbers.by_batch {
                        self.numbers.take(op);
                    }
                    Ok(())
                }
                None => insert(self.wal, self.numbers.take(op), op),
            },
        }
    }

    fn begin(&mut self, kind: PrepareKind) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::corruption("a prepared section begins in another one"));
        }
        let first = self.numbers.next;
        self.open = Some(Section { kind, wal: self.wal, first, batch: WriteBatch::new() });
        Ok(())
    }

    fn end(&mut self, xid: &[u8]) -> Result<()> {
        let section = self.open.take();
        let section = section.ok_or_else(|| Error::corruption("a prepared section ends that never began"))?;
        let sections = self.prepared.entry(xid.to_vec()).or_default();
        if section.kind == PrepareKind::Committed {
            sections.clear();
        } else {
            let wals = self.early_families.entry(xid.to_vec()).or_default();
            wals.extend(section.batch.iter().filter_map(|op| Some((op.family()?, section.wal))));
        }
        sections.push(section);
        self.numbers.end_batch();
        Ok(())
    }

    fn take_sections(&mut self, xid: &[u8]) -> Vec<Section> {
        self.early_families.remove(xid);
        self.prepared.remove(xid).unwrap_or_default()
    }

    /// Applies the ops of a rolled back early transaction below those that undo them, as the writer
    /// did. A put that undoes a single deletion needs that deletion below it. If the record begins
    /// with the rollback and does not end in one, it is the record of an open. The open has written
    /// the section again, or dropped it, so nothing is applied.
    fn apply_rolled_back(
        &mut self,
        xid: &[u8],
        sections: Vec<Section>,
        insert: &mut Insert<'_>,
    ) -> Result<()> {
        if sections.iter().all(|s| s.kind == PrepareKind::Committed) {
            return Ok(());
        }
        let batch = self.batch;
        let is_of_open = *self.is_of_open.get_or_insert_with(|| {
            let is_rollback = |op: Option<BatchOp<'_>>| matches!(op, Some(BatchOp::Rollback { .. }));
            is_rollback(batch.iter().next()) && !is_rollback(batch.iter().last())
        });
        if is_of_open {
            for section in sections.iter().filter(|section| section.kind != PrepareKind::Committed) {
                for family in section.batch.iter().filter_map(|op| op.family()) {
                    let newest = self.ended_families.entry(family).or_insert(section.wal);
                    *newest = section.wal.max(*newest);
                }
            }
            self.ended.push(UnresolvedTransaction { xid: xid.to_vec(), sections });
            return Ok(());
        }
        for section in sections {
            let mut numbers = OpNumbers::new(true, section.first, self.numbers.orders);
            for op in section.batch.iter() {
                insert(section.wal, numbers.take(&op), &op)?;
            }
        }
        Ok(())
    }

    /// Commits the sections of `xid`, with keys stamped by `timestamp`. If the sections are gone,
    /// tables have their ops.
    fn commit(&mut self, xid: &[u8], timestamp: Option<&[u8]>, insert: &mut Insert<'_>) -> Result<()> {
        let sections = self.take_sections(xid);
        *self.took_unknown |= sections.is_empty();
        for mut section in sections {
            if let Some(timestamp) = timestamp {
                section.batch = stamped(&section.batch, timestamp, &|id| self.timestamped.contains(&id))?;
            }
            if section.kind == PrepareKind::Committed {
                for op in section.batch.iter() {
                    insert(self.wal, self.numbers.take(&op), &op)?;
                }
                continue;
            }
            let mut numbers = OpNumbers::new(true, section.first, self.numbers.orders);
            for op in section.batch.iter() {
                insert(section.wal, numbers.take(&op), &op)?;
            }
        }
        self.numbers.end_batch();
        Ok(())
    }
}

/// The order of a family in which keys of different bytes may be equal; `None` in all others.
pub(crate) type CustomOrders<'a> = &'a dyn Fn(ColumnFamilyId) -> Option<InternalKeyComparator>;

/// The order, if the comparator is none of the built-in ones.
pub(crate) fn custom_order(icmp: &InternalKeyComparator) -> Option<InternalKeyComparator> {
    (icmp.user_comparator().order() == KeyOrder::Custom).then(|| icmp.clone())
}

/// Allocates sequence numbers as the writer did.
pub(crate) struct OpNumbers<'a> {
    by_batch: bool,
    next: SequenceNumber,
    in_batch: bool,
    /// Keys that already have an op with the number `next`: the family, whether the op is a range
    /// deletion, and the key.
    seen: HashSet<(ColumnFamilyId, bool, Vec<u8>)>,
    orders: CustomOrders<'a>,
}

impl<'a> OpNumbers<'a> {
    pub(crate) fn new(by_batch: bool, next: SequenceNumber, orders: CustomOrders<'a>) -> OpNumbers<'a> {
        OpNumbers { by_batch, next, in_batch: false, seen: HashSet::new(), orders }
    }

    /// The number of `op`, the next one of the batch.
    pub(crate) fn take(&mut self, op: &BatchOp<'_>) -> SequenceNumber {
        if !self.by_batch {
            let number = self.next;
            self.next.0 += 1;
            return number;
        }
        self.in_batch = true;
        let Some(key) = key_of(op) else { return self.next };
        if self.has_seen(&key) {
            self.next.0 += 1;
            self.seen.clear();
        }
        self.seen.insert(key);
        self.next
    }

    /// Whether an op with this key has the number `next`. In a family with an order of its own the
    /// key is compared with each: a batch of n such keys costs n² comparisons.
    fn has_seen(&self, key: &(ColumnFamilyId, bool, Vec<u8>)) -> bool {
        match (self.orders)(key.0) {
            None => self.seen.contains(key),
            Some(icmp) => {
                let is_same = |other: &&(ColumnFamilyId, bool, Vec<u8>)| {
                    (other.0, other.1) == (key.0, key.1) && icmp.same_user_key(&other.2, &key.2)
                };
                self.seen.iter().any(|other| is_same(&other))
            }
        }
    }

    /// The number of `op`; `None` if a memtable does not take it. A no-op ends a batch.
    pub(crate) fn number_of(&mut self, op: &BatchOp<'_>) -> Option<SequenceNumber> {
        if op.family().is_some() {
            return Some(self.take(op));
        }
        if *op == BatchOp::Noop && self.in_batch {
            self.end_batch();
        }
        None
    }

    fn end_batch(&mut self) {
        if self.by_batch {
            self.next.0 += 1;
            self.in_batch = false;
            self.seen.clear();
        }
    }
}

/// Number of sequence numbers that a batch takes under an early policy: one for each part without
/// repeated keys; none for a batch without ops.
pub(crate) fn numbers_by_batch(batch: &WriteBatch, orders: CustomOrders<'_>) -> u64 {
    if batch.count() <= 1 {
        return u64::from(batch.count());
    }
    let mut numbers = OpNumbers::new(true, SequenceNumber::ZERO, orders);
    batch.iter().for_each(|op| _ = numbers.number_of(&op));
    numbers.next.0 + u64::from(numbers.in_batch)
}

/// The family and key of an op, and whether it deletes a range.
pub(crate) fn key_of(op: &BatchOp<'_>) -> Option<(ColumnFamilyId, bool, Vec<u8>)> {
    let (family, key) = family_and_key(op)?;
    Some((family, matches!(op, BatchOp::DeleteRange { .. }), key.to_vec()))
}

/// The kinds of a transaction's ops on one key, for the ops that take them back. They include the
/// ops that a rollback to a save point wrote.
///
/// The key gets its former value, or a deletion if it had none. If the last op puts a value, the
/// key may also get a single deletion below that, for users who delete it singly. A deletion is
/// dropped once a newer value lies over it. A single deletion of the newer value would then show
/// the value that was taken back. The single deletion below prevents that: it stays until it meets
/// its value.
///
/// Other users need the deletion, because a single deletion removes one value only. So a key
/// without a former value gets both. A key with a former value gets a single deletion if the
/// transaction has deleted it singly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyWrites {
    /// Whether the newest op puts a value.
    ends_in_value: bool,
    /// Whether one of the ops is a single deletion.
    deletes_singly: bool,
}

impl KeyWrites {
    /// Adds the next op on the key.
    pub(crate) fn note(&mut self, op: &BatchOp<'_>) {
        self.ends_in_value = matches!(
            op,
            BatchOp::Put { .. }
                | BatchOp::BlobIndex { .. }
                | BatchOp::PutEntity { .. }
                | BatchOp::TimedPut { .. }
        );
        self.deletes_singly |= matches!(op, BatchOp::SingleDelete { .. });
    }

    /// Whether a single deletion comes below the former value, or below the deletion.
    pub(crate) fn need_single_deletion(self, has_former: bool) -> bool {
        self.ends_in_value && (!has_former || self.deletes_singly)
    }
}

/// The family and key of an op; of a range deletion, the first key.
pub(crate) fn family_and_key<'a>(op: &BatchOp<'a>) -> Option<(ColumnFamilyId, &'a [u8])> {
    Some(match *op {
        BatchOp::Put { family, key, .. }
        | BatchOp::Delete { family, key }
        | BatchOp::SingleDelete { family, key }
        | BatchOp::Merge { family, key, .. }
        | BatchOp::BlobIndex { family, key, .. }
        | BatchOp::PutEntity { family, key, .. }
        | BatchOp::TimedPut { family, key, .. }
        | BatchOp::DeleteRange { family, begin: key, .. } => (family, key),
        _ => return None,
    })
}

/// The ops of `batch`. Keys of families that `has_timestamps` names end in `timestamp` in place of
/// their own timestamp.
/// # Errors
/// `Corruption` if a key has no room for a timestamp.
pub(crate) fn stamped(
    batch: &WriteBatch,
    timestamp: &[u8],
    has_timestamps: &dyn Fn(ColumnFamilyId) -> bool,
) -> Result<WriteBatch> {
    let mut stamped = batch.clone();
    let size_in = |family| Ok(if has_timestamps(family) { timestamp.len() } else { 0 });
    let put = stamped.update_timestamps(timestamp, size_in);
    put.map_err(|error| Error::corruption(format!("commit timestamp: {error}")))?;
    Ok(stamped)
}

/// The sections of an open database: the prepared transactions and their WALs.
#[derive(Debug, Default)]
pub(crate) struct PreparedSections {
    /// Transactions that are not resolved, by name.
    open: BTreeMap<Vec<u8>, OpenTransaction>,
    /// The count of them by the WAL of the first section. Each purge asks for the oldest one.
    open_by_wal: BTreeMap<FileNumber, usize>,
    /// The WALs of resolved sections, each with the WAL of the resolution. They stay listed until
    /// the resolution is durable. Otherwise a crash could lose a section together with its
    /// resolution.
    resolved: Vec<(FileNumber, FileNumber)>,
}

/// A transaction of which WALs have sections.
#[derive(Debug)]
struct OpenTransaction {
    /// The WAL with the first section.
    wal: FileNumber,
    /// Number of sections written before the prepare, under `WriteUnprepared`.
    unprepared: u64,
    /// The ops of the section that the prepare wrote; `None`: it is not prepared.
    batch: Option<Arc<WriteBatch>>,
}

impl PreparedSections {
    /// Records that `xid` is prepared, with the section `batch` in `wal`.
    pub(crate) fn insert(&mut self, xid: Vec<u8>, wal: FileNumber, batch: Arc<WriteBatch>) {
        self.open_mut(xid, wal).batch = Some(batch);
    }

    /// Records that `wal` has a section of `xid`, which is not prepared.
    pub(crate) fn insert_unprepared(&mut self, xid: Vec<u8>, wal: FileNumber) {
        self.open_mut(xid, wal).unprepared += 1;
    }

    fn open_mut(&mut self, xid: Vec<u8>, wal: FileNumber) -> &mut OpenTransaction {
        self.open.entry(xid).or_insert_with(|| {
            *self.open_by_wal.entry(wal).or_default() += 1;
            OpenTransaction { wal, unprepared: 0, batch: None }
        })
    }

    fn remove_open(&mut self, xid: &[u8]) -> Option<OpenTransaction> {
        let open = self.open.remove(xid)?;
        if let Entry::Occupied(mut count) = self.open_by_wal.entry(open.wal) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(open)
    }

    /// Undoes the last call of [`insert`](Self::insert) or
    /// [`insert_unprepared`](Self::insert_unprepared) for `xid`.
    pub(crate) fn forget(&mut self, xid: &[u8]) {
        let Some(open) = self.open.get_mut(xid) else { return };
        if open.batch.take().is_none() {
            open.unprepared -= 1;
        }
        if open.unprepared == 0 {
            self.remove_open(xid);
        }
    }

    /// Removes a transaction that a record in WAL `resolved_in` resolves. `None`: the resolution is
    /// durable.
    pub(crate) fn remove(&mut self, xid: &[u8], resolved_in: Option<FileNumber>) {
        if let Some(OpenTransaction { wal, .. }) = self.remove_open(xid)
            && let Some(resolved_in) = resolved_in.filter(|resolved_in| *resolved_in > wal)
        {
            self.resolved.push((wal, resolved_in));
        }
    }

    /// The WAL that the first section of a transaction is in.
    pub(crate) fn wal_of(&self, xid: &[u8]) -> Option<FileNumber> {
        self.open.get(xid).map(|open| open.wal)
    }

    /// The ops of the section that the prepare of a transaction wrote; `None`: it is not prepared.
    pub(crate) fn get(&self, xid: &[u8]) -> Option<Arc<WriteBatch>> {
        self.open.get(xid)?.batch.clone()
    }

    /// The oldest WAL with a section that is not resolved. The cost does not depend on the number
    /// of sections.
    pub(crate) fn oldest_wal(&self) -> Option<FileNumber> {
        self.open_by_wal.keys().next().copied()
    }

    /// The oldest WAL that a section needs. An unresolved section needs its WAL, and so does one
    /// whose resolution is not durable yet. WALs before `durable_before` are durable.
    pub(crate) fn oldest_wal_needed(&mut self, durable_before: FileNumber) -> Option<FileNumber> {
        self.resolved.retain(|(_, resolved_in)| *resolved_in >= durable_before);
        let resolved = self.resolved.iter().map(|(wal, _)| *wal);
        resolved.chain(self.oldest_wal()).min()
    }

    /// All prepared transactions, each with the ops of the section that its prepare wrote.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<WriteBatch>)> + '_ {
        self.open.iter().filter_map(|(xid, open)| Some((xid.as_slice(), open.batch.as_ref()?)))
    }

    /// Records that all unresolved sections have been written to `wal` again.
    pub(crate) fn moved_to(&mut self, wal: FileNumber) {
        self.open.values_mut().for_each(|open| open.wal = wal);
        self.open_by_wal.clear();
        if !self.open.is_empty() {
            self.open_by_wal.insert(wal, self.open.len());
        }
    }
}
