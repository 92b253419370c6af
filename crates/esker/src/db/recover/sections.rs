//! Transactions that the WALs leave unresolved.
//!
//! In: their sections, and the recovered families, with every committed write. Out: each prepared
//! transaction as one section, and the ops that take back what tables have of unresolved ones.
//! The policies write-prepared and write-unprepared ("early") put ops into memtables before their
//! commit, and so into tables.
//!
//! Cost: one search for each key of a section of an early policy, in the order of the keys. It
//! reads tables that have entries newer than the section. A second search reads all tables if the
//! section's WAL was flushed. If a table has an entry of the key, a single deletion in an unflushed
//! WAL costs one more of the first kind. The keys of all sections are sorted in memory. All
//! prepared sections and restoring ops are one record, so memory holds them about three times while
//! it is written.
//!
//! Invariants
//!  1. A key gets the value that it would have in the recovered state if there were no unresolved
//!     entries.
//!  2. A transaction locks each key that it writes, until a save point gives the key back with its
//!     old value. So only the last writer of a key has changed it. If a write of another follows an
//!     op, the op is left out of its section.
//!  3. A flush or a compaction drops an unresolved entry only if a committed entry lies over it. It
//!     may replace the number of that committed entry by 0. So if a read of a key does not meet a
//!     flushed op, a write of another follows that op.

use super::{NEW_WAL, ReplayRun, ReplayedFamily};
use crate::cf::SuperVersion;
use crate::deleted_runs::DeletedRunMemory;
use crate::get::answer::Answer;
use crate::get::latest::{Since, latest_sequence};
use crate::get::search::{PointSearch, ReadContext, Sees};
use crate::snapshot::OwnNumbers;
use crate::wal::{
    CustomOrders, KeyWrites, OpNumbers, PreparedTransaction, SectionOp, SectionsAgain, UnresolvedTransaction,
    Wals, custom_order, family_and_key, numbers_by_batch,
};
use crate::write::{ApplyEntry, entry_of};
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_format::key::{InternalKeyComparator, LookupKey};
use esker_format::wide_column::{DEFAULT_COLUMN_NAME, EncodedColumns};
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch};
use esker_table::TableReadOptions;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// An entry of a section of an early policy.
#[derive(Clone, Copy, Debug)]
struct EarlyEntry<'a> {
    family: ColumnFamilyId,
    key: &'a [u8],
    number: SequenceNumber,
    wal: FileNumber,
    op: OpPlace,
}

/// The index of a transaction, and of an op of it.
type OpPlace = (usize, usize);

/// The ops by which an open takes back what tables have of unresolved transactions.
#[derive(Default)]
pub(super) struct TakenBack {
    /// The ops that give keys their committed values.
    restore: WriteBatch,
    /// The ops that are left out of their sections, because writes of others follow.
    superseded: BTreeSet<OpPlace>,
}

impl ReplayRun<'_> {
    /// Makes the sections for the new WAL, and adds the restoring ops to the memtables. Under an
    /// early policy, adds the ops of the sections, too. `taken_back`: the result of
    /// [`Self::take_back`].
    /// # Errors
    /// `NotSupported` if a prepared transaction deletes ranges and the database is opened with an
    /// early policy.
    pub(super) fn resolve_sections(
        &mut self,
        unresolved: &[UnresolvedTransaction],
        taken_back: TakenBack,
    ) -> Result<SectionsAgain> {
        self.report(unresolved);
        let custom = self.custom_orders();
        let orders = |id| custom.get(&id).cloned();
        let ops: Vec<_> = unresolved.iter().map(|transaction| transaction.ops(&orders)).collect();
        let first = SequenceNumber(self.last_sequence.0 + 1);
        // If ops are numbered by batch, each marker that ends older sections takes a number. The
        // restoring ops follow these markers.
        let behind_markers = SequenceNumber(first.0 + unresolved.len() as u64);
        let TakenBack { restore, superseded } = taken_back;
        let first_restored = if self.recovery.write_prepared { behind_markers } else { first };
        self.insert(&restore, self.recovery.write_prepared, first_restored, &orders)?;
        let mut again = SectionsAgain { restore, orders: custom.clone(), ..SectionsAgain::default() };
        again.restore.set_sequence(first);
        for (t, (transaction, ops)) in unresolved.iter().zip(&ops).enumerate() {
            let xid = transaction.xid.clone();
            if !transaction.is_prepared() {
                again.dropped.push(xid);
                continue;
            }
            let mut batch = WriteBatch::new();
            for (at, op) in ops.iter().enumerate() {
                if !superseded.contains(&(t, at)) {
                    batch.push(op.op)?;
                }
            }
            again.prepared.push(PreparedTransaction { xid, batch, numbers: None });
        }
        if self.recovery.write_prepared && !again.is_empty() {
            self.last_sequence = self.last_sequence.max(SequenceNumber(behind_markers.0 - 1));
            again
                .prepared
                .iter_mut()
                .try_for_each(|transaction| self.insert_section(transaction, &orders))?;
        }
        Ok(again)
    }

    /// Adds single deletions of unresolved transactions to the memtables, with their own numbers.
    /// Without such a deletion, a single deletion of a later value could show a flushed put again.
    /// A single deletion is kept if all of these hold:
    ///  - It is not flushed, and a table has an entry of its key from such a transaction.
    ///  - A later committed write of its key follows.
    ///  - The newest write of its key is no merge. The single deletion would hide the operand's
    ///    base, and nobody deletes such a key singly.
    ///
    /// The caller flushes afterwards: no table may have the later write before the older deletion.
    /// `ended`: transactions whose sections the record of an earlier open has ended. If that open
    /// did not finish, its tables are gone.
    /// # Errors
    /// `Corruption` and `IoError` of the tables.
    pub(super) fn keep_single_deletions(
        &mut self,
        unresolved: &[UnresolvedTransaction],
        ended: &[UnresolvedTransaction],
    ) -> Result<()> {
        if unresolved.is_empty() && ended.is_empty() {
            return Ok(());
        }
        let orders = self.custom_orders();
        let orders = |id| orders.get(&id).cloned();
        let all = unresolved.iter().chain(ended);
        let ops: Vec<_> = all.map(|transaction| transaction.ops(&orders)).collect();
        let (entries, numbers) = self.early_entries(&ops);
        let mut kept = Vec::new();
        for entries in entries.chunk_by(|a, b| a.family == b.family) {
            let family = &self.families[&entries[0].family];
            let is_flushed = |entry: &EarlyEntry<'_>| entry.wal < family.manifest_log_number;
            let state = RecoveredState::of(self, family)?;
            for of_key in entries.chunk_by(|a, b| family.icmp.same_user_key(a.key, b.key)) {
                if !of_key.iter().any(is_flushed) {
                    continue;
                }
                for entry in of_key {
                    let is_single = matches!(ops[entry.op.0][entry.op.1].op, BatchOp::SingleDelete { .. });
                    if is_single
                        && !is_flushed(entry)
                        && state.latest(entry.key, entry.number, &numbers)?.is_some()
                        && !family.ends_in_operand(entry.key)?
                    {
                        kept.push(*entry);
                    }
                }
            }
        }
        for EarlyEntry { family, key, number, wal, .. } in kept {
            let family = self.families.get_mut(&family).expect("its entries were found");
            let entry = ApplyEntry { value_type: ValueType::SingleDeletion, key, value: &[] };
            family.add(wal, number, &entry)?;
        }
        Ok(())
    }

    /// The orders of families in which keys of different bytes may be equal.
    fn custom_orders(&self) -> BTreeMap<ColumnFamilyId, InternalKeyComparator> {
        self.families.iter().filter_map(|(id, f)| Some((*id, custom_order(&f.icmp)?))).collect()
    }

    /// Puts the ops of a prepared transaction into the memtables, with the numbers that the copy of
    /// its section in the new WAL has.
    fn insert_section(
        &mut self,
        transaction: &mut PreparedTransaction,
        orders: CustomOrders<'_>,
    ) -> Result<()> {
        if transaction.batch.content().delete_range {
            let name = transaction.xid.escape_ascii();
            return Err(Error::not_supported(format!(
                "the prepared transaction '{name}' deletes ranges, which an early write policy (WritePrepared, \
                 WriteUnprepared) does not support; open the database with WriteCommitted and resolve it"
            )));
        }
        let first = SequenceNumber(self.last_sequence.0 + 1);
        let count = numbers_by_batch(&transaction.batch, orders).max(1);
        transaction.numbers = Some((first, count));
        self.insert(&transaction.batch, true, first, orders)?;
        // A section without ops takes a number, too.
        self.last_sequence = SequenceNumber(first.0 + count - 1);
        Ok(())
    }

    /// Puts the ops of a batch into the memtables, with numbers from `first` on.
    fn insert(
        &mut self,
        batch: &WriteBatch,
        by_batch: bool,
        first: SequenceNumber,
        orders: CustomOrders<'_>,
    ) -> Result<()> {
        let mut numbers = OpNumbers::new(by_batch, first, orders);
        for op in batch.iter() {
            if let (Some(number), Some((id, entry))) = (numbers.number_of(&op), entry_of(&op)?)
                && let Some(family) = self.families.get_mut(&id)
            {
                family.add(NEW_WAL, number, &entry)?;
                self.last_sequence = self.last_sequence.max(number);
            }
        }
        Ok(())
    }

    fn report(&self, unresolved: &[UnresolvedTransaction]) {
        for transaction in unresolved {
            let (info_log, xid) = (self.recovery.info_log, transaction.xid.escape_ascii());
            if transaction.is_prepared() {
                esker_base::info_log!(info_log, Info, "Recovered prepared transaction '{xid}'");
            } else {
                esker_base::info_log!(
                    info_log,
                    Info,
                    "Rolled back transaction '{xid}': it was never prepared, so none of its writes is kept"
                );
            }
        }
    }

    /// Finds the ops that give the keys of unresolved transactions their committed values, and the
    /// ops to leave out of sections. [`KeyWrites`] says which keys get a single deletion, too. Call
    /// it before the memtables are flushed: a flush drops a single deletion with its value, and
    /// merges operands.
    /// # Errors
    /// `Corruption` and `IoError` of the tables.
    pub(super) fn take_back(&self, unresolved: &[UnresolvedTransaction]) -> Result<TakenBack> {
        if unresolved.is_empty() {
            return Ok(TakenBack::default());
        }
        let orders = self.custom_orders();
        let orders = |id| orders.get(&id).cloned();
        let ops: Vec<_> = unresolved.iter().map(|transaction| transaction.ops(&orders)).collect();
        let (entries, unresolved) = self.early_entries(&ops);
        let (mut singles, mut values) = (WriteBatch::new(), WriteBatch::new());
        let mut superseded = BTreeSet::new();
        let is_same_family = |a: &EarlyEntry<'_>, b: &EarlyEntry<'_>| a.family == b.family;
        for entries in entries.chunk_by(is_same_family) {
            let id = entries[0].family;
            let state = RecoveredState::of(self, &self.families[&id])?;
            let icmp = self.families[&id].icmp.clone();
            for of_key in entries.chunk_by(|a, b| icmp.same_user_key(a.key, b.key)) {
                let (oldest, newest) = (&of_key[0], &of_key[of_key.len() - 1]);
                let log_number = self.families[&id].manifest_log_number;
                let is_flushed = |entry: &EarlyEntry<'_>| entry.wal < log_number;
                let (met, value) = match of_key.iter().any(is_flushed) {
                    true => state.committed_value(oldest.key, &unresolved)?,
                    false => Default::default(),
                };
                let committed = state.latest(oldest.key, oldest.number, &unresolved)?;
                let is_superseded = |entry: &&EarlyEntry<'_>| {
                    committed.is_some_and(|number| number > entry.number)
                        || (is_flushed(entry) && !met.contains(&entry.number))
                        || (entry.op.0 != newest.op.0 && entry.number < newest.number)
                };
                superseded.extend(of_key.iter().filter(is_superseded).map(|entry| entry.op));
                let Some(value) = value else { continue };
                let mut writes = KeyWrites::default();
                for entry in of_key.iter().filter(|entry| met.contains(&entry.number)) {
                    writes.note(&ops[entry.op.0][entry.op.1].op);
                }
                if writes.need_single_deletion(value.is_some()) {
                    singles.single_delete_cf(id, oldest.key)?;
                }
                restore_value(id, oldest.key, value, &mut values)?;
            }
        }
        if singles.count() > 0 {
            // The marker ends a batch, so the ops behind it have higher numbers. Without it,
            // RocksDB would number the sections behind too low: it does not look for repeated keys
            // of flushed families.
            singles.put_marker(BatchOp::Noop)?;
        }
        singles.append(&values)?;
        Ok(TakenBack { restore: singles, superseded })
    }

    /// The entries of sections of early policies, by family, key and number, and their numbers. A
    /// range deletion would count as an entry of its first key; these policies refuse it in
    /// transactions.
    fn early_entries<'a>(&self, ops: &[Vec<SectionOp<'a>>]) -> (Vec<EarlyEntry<'a>>, OwnNumbers) {
        let mut entries = Vec::new();
        let mut all_numbers = Vec::new();
        for (t, ops) in ops.iter().enumerate() {
            for (at, op) in ops.iter().enumerate() {
                let Some((number, wal)) = op.entry else { continue };
                all_numbers.push(number);
                if let Some((family, key)) = family_and_key(&op.op)
                    && self.families.get(&family).is_some()
                {
                    entries.push(EarlyEntry { family, key, number, wal, op: (t, at) });
                }
            }
        }
        entries.sort_by(|a, b| {
            let by_key = || self.families[&a.family].icmp.compare_user_keys(a.key, b.key);
            let by_place = || (a.number, a.op).cmp(&(b.number, b.op));
            a.family.cmp(&b.family).then_with(by_key).then_with(by_place)
        });
        let mut numbers = OwnNumbers::default();
        all_numbers.sort_unstable();
        all_numbers.into_iter().for_each(|number| numbers.add(number, 1));
        (entries, numbers)
    }
}

/// Adds an op with the value of a key to `restore`; a deletion if it has none.
fn restore_value(
    family: ColumnFamilyId,
    key: &[u8],
    value: CommittedValue,
    restore: &mut WriteBatch,
) -> Result<()> {
    match value {
        None => restore.delete_cf(family, key),
        Some((ValueType::Value, value)) => restore.put_cf(family, key, &value),
        Some((_, entity)) => {
            let columns: Vec<_> = EncodedColumns::parse(&entity)?.iter().collect();
            restore.put_entity_cf(family, key, &columns)
        }
    }
}

/// A plain value or an entity, with its type; `None`: the key has no value.
type CommittedValue = Option<(ValueType, PinnedBytes)>;

/// The state of one family after replay: its memtable, the tables that recovery has written, and
/// those of the MANIFEST.
struct RecoveredState<'a> {
    super_version: SuperVersion,
    options: TableReadOptions,
    run: &'a super::Recovery<'a>,
    id: ColumnFamilyId,
}

impl<'a> RecoveredState<'a> {
    fn of(run: &ReplayRun<'a>, family: &ReplayedFamily) -> Result<RecoveredState<'a>> {
        let in_manifest = run.manifest.family(family.id).expect("recovered from this MANIFEST");
        let options = Arc::new(family.descriptor.options.clone());
        let deleted_run_memory = DeletedRunMemory::of(&family.icmp, &options);
        let version = match family.new_files.is_empty() {
            true => in_manifest.current().clone(),
            false => in_manifest.with_tables(&family.new_files, &family.new_blobs)?,
        };
        let super_version = SuperVersion::first(family.mem.clone(), version, options, deleted_run_memory);
        Ok(RecoveredState {
            super_version,
            options: TableReadOptions::default(),
            run: run.recovery,
            id: family.id,
        })
    }

    fn context(&self) -> ReadContext<'_> {
        ReadContext {
            tables: &self.run.tables[&self.id],
            options: &self.options,
            ignore_range_deletions: false,
            memtables_only: false,
            files_only: false,
            statistics: None,
            guard: None,
            entities: true,
        }
    }

    /// The number of the newest committed write of `key` after `since`; `None`: there is none.
    fn latest(
        &self,
        key: &[u8],
        since: SequenceNumber,
        unresolved: &OwnNumbers,
    ) -> Result<Option<SequenceNumber>> {
        let since = Since::new(since, None).without_own(Some(unresolved));
        latest_sequence(&self.super_version, &self.context(), key, &since, true)
    }

    /// The numbers of the unresolved entries that a read of `key` meets, and the value without
    /// them; `None` if it meets none.
    /// # Errors
    /// `Corruption` · `IoError` · if it meets one, the errors of merging, too.
    fn committed_value(
        &self,
        key: &[u8],
        unresolved: &OwnNumbers,
    ) -> Result<(BTreeSet<SequenceNumber>, Option<CommittedValue>)> {
        let (context, key) = (self.context(), LookupKey::new(key, SequenceNumber::MAX));
        let met = RefCell::default();
        let search = || {
            PointSearch::new(&self.super_version, &context, &key).seeing(Without { unresolved, met: &met })
        };
        let mut found = Ok(None);
        search().find(&mut |answer| {
            found = match answer {
                Answer::Lent(value) => Ok(Some((ValueType::Value, value.pin()))),
                Answer::Made(entity) => entity.and_then(|entity| entity.map(simplify_entity).transpose()),
            }
        });
        if found.is_err() && met.borrow().is_empty() {
            // A search that merges nothing tells whether a read meets unresolved entries.
            search().operands()?;
            if met.borrow().is_empty() {
                return Ok(Default::default());
            }
        }
        let found = found?;
        let met = met.into_inner();
        let value = (!met.is_empty()).then_some(found);
        Ok((met, value))
    }
}

/// A read that does not see the unresolved entries, and records the numbers of those that it meets.
#[derive(Clone, Copy)]
struct Without<'a> {
    unresolved: &'a OwnNumbers,
    met: &'a RefCell<BTreeSet<SequenceNumber>>,
}

impl Sees for Without<'_> {
    fn sees(&self, sequence: SequenceNumber) -> bool {
        let is_unresolved = self.unresolved.contains(sequence);
        if is_unresolved {
            self.met.borrow_mut().insert(sequence);
        }
        !is_unresolved
    }

    fn asks_operator(&self) -> bool {
        false
    }
}

/// Turns an entity that has only a default column into a plain value.
pub(crate) fn simplify_entity(entity: PinnedBytes) -> Result<(ValueType, PinnedBytes)> {
    let columns = EncodedColumns::parse(&entity)?;
    match (columns.len(), columns.column(DEFAULT_COLUMN_NAME)) {
        (1, Some(value)) => Ok((ValueType::Value, PinnedBytes::copy_from(value))),
        _ => Ok((ValueType::WideColumnEntity, entity)),
    }
}

/// Writes prepared sections durably to the new WAL, because the old WALs are deleted. The same
/// record undoes uncommitted operations in tables, so both take effect together. `next`: the
/// sequence number after the last one of the record.
/// # Errors
/// `IoError`.
pub(in crate::db) fn log_sections(
    wals: &mut Wals,
    sections: &SectionsAgain,
    kind: PrepareKind,
    next: SequenceNumber,
) -> Result<()> {
    if sections.is_empty() {
        return Ok(());
    }
    let record = sections.record(kind)?;
    wals.append(&[record.data()], record.sequence()..next)?;
    wals.sync()
}
