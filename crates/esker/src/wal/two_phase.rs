//! Two-phase transactions in WALs: the ops that each record applies, their sequence numbers, and
//! the transactions that stay prepared.
//!
//! In: the records of all WALs, in order. Out: ops to apply, each with the WAL whose data it
//! belongs to; at the end the sections that were prepared and neither committed nor rolled back.
//! Source: RocksDB `db/write_batch.cc` (`MemTableInserter`),
//! `utilities/transactions/write_{prepared,unprepared}_txn_db.h`.
//!
//! | policy | ops of a section | numbers |
//! |---|---|---|
//! | write-committed | applied by its commit, from the number of the commit's record on | one for each op |
//! | write-prepared, write-unprepared | RocksDB had them in memtables when the section was logged | one for each part of a batch without repeated keys |
//!
//! Invariants
//!  1. No op of a section is applied before its commit, under any policy: uncommitted ops cannot be
//!     seen.
//!  2. Ops of the second kind keep their original numbers, and belong to the section's WAL: tables
//!     may have them.
//!  3. The markers tell the policy of a WAL; batches of the second kind end in a marker or a no-op.
//!  4. Under policies of the second kind a rolled back transaction leaves ops. RocksDB takes keys
//!     back by writing their older values before the marker, but not keys that were only merged
//!     (`rollback_merge_operands`), nor those that a save point has taken back already.

use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::write_batch::{BatchOp, PrepareKind, WriteBatch, WriteBatchView};
use std::collections::{BTreeMap, BTreeSet, HashSet};

#[cfg(test)]
mod tests;

/// A part of a prepared transaction: one section. Only write-unprepared transactions have several.
#[derive(Clone, Debug)]
struct Section {
    kind: PrepareKind,
    wal: FileNumber,
    first: SequenceNumber,
    batch: WriteBatch,
}

/// A transaction that was prepared and is neither committed nor rolled back.
#[derive(Clone, Debug)]
pub(crate) struct PreparedTransaction {
    pub(crate) xid: Vec<u8>,
    /// Its ops, without markers.
    pub(crate) batch: WriteBatch,
    /// False for one that write-unprepared RocksDB began to write and never prepared: it is to be
    /// forgotten.
    pub(crate) is_prepared: bool,
    /// For each family that a table may have uncommitted ops of: the oldest section that RocksDB
    /// had applied, its WAL and its first number.
    pub(crate) applied: BTreeMap<ColumnFamilyId, (FileNumber, SequenceNumber)>,
    /// The keys that such ops were applied to.
    pub(crate) keys: BTreeSet<(ColumnFamilyId, Vec<u8>)>,
    /// The ops that take them back, in a batch of its own; recovery fills it.
    pub(crate) restore: WriteBatch,
}

/// Applies one op of a record: its WAL, its sequence number, the op.
pub(crate) type Insert<'a> = dyn FnMut(FileNumber, SequenceNumber, &BatchOp<'_>) -> Result<()> + 'a;

/// The state of two-phase commit while WALs are replayed.
#[derive(Debug, Default)]
pub(crate) struct TwoPhaseReplay {
    /// Without it, sections are refused.
    allowed: bool,
    /// Families whose keys get the timestamps of commits.
    timestamped: BTreeSet<ColumnFamilyId>,
    /// Whether batches of the WAL at hand take one number each, as far as it is known.
    by_batch: Option<bool>,
    prepared: BTreeMap<Vec<u8>, Vec<Section>>,
    /// The last record commits a section that is not there: how many numbers it took cannot be
    /// known.
    took_unknown: bool,
}

impl TwoPhaseReplay {
    /// Before the first WAL. Unless `allowed`, WALs with sections of transactions of two phases are
    /// refused.
    pub(crate) fn new(allowed: bool) -> TwoPhaseReplay {
        TwoPhaseReplay { allowed, ..TwoPhaseReplay::default() }
    }

    /// Keys of these families have timestamps, which a commit may say.
    pub(crate) fn set_timestamped(&mut self, families: impl IntoIterator<Item = ColumnFamilyId>) {
        self.timestamped = families.into_iter().collect();
    }

    /// The next WAL begins: it may have been written under another policy.
    pub(crate) fn begin_file(&mut self) {
        self.by_batch = None;
    }

    /// Passes the ops that the record applies to `insert`; returns how many sequence numbers it
    /// took.
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
        let mut record = Record {
            took_unknown: &mut self.took_unknown,
            wal,
            numbers: Numbers::new(self.by_batch == Some(true), batch.sequence()),
            open: None,
            batch,
            prepared: &mut self.prepared,
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

    /// Whether this commit or rollback needs its section. Without the section's WAL it does not:
    /// that WAL was no longer needed, because tables hold the ops it applied.
    fn needs_sections(&self, batch: &WriteBatchView<'_>) -> bool {
        batch.iter().any(|op| match op {
            BatchOp::BeginPrepare(_) => true,
            BatchOp::Commit { xid } | BatchOp::CommitWithTimestamp { xid, .. } => {
                self.prepared.contains_key(xid)
            }
            _ => false,
        })
    }

    /// Whether the sequence number behind the last record is known. It is unknown behind the commit
    /// of a section whose WAL is gone, because tables hold the committed ops.
    pub(crate) fn knows_next_number(&self) -> bool {
        !self.took_unknown
    }

    /// Whether the last record takes one number for each batch, as RocksDB's policies that apply
    /// operations before the commit do.
    pub(crate) fn numbers_batches(&self) -> bool {
        self.by_batch == Some(true)
    }

    /// The prepared and unresolved sections, by name, each with the ops of its transaction from
    /// before the prepare; also transactions that never prepared.
    /// # Errors
    /// `NotSupported` if there is any and none is allowed · those of [`WriteBatch::append`].
    pub(crate) fn into_prepared(self) -> Result<Vec<PreparedTransaction>> {
        if !self.allowed
            && let Some(section) = self.prepared.values().flatten().next()
        {
            return Err(not_allowed(section.wal));
        }
        let mut left = Vec::new();
        for (xid, sections) in self.prepared {
            let is_prepared = sections.last().is_some_and(|s| s.kind != PrepareKind::Unprepared);
            let mut prepared = PreparedTransaction {
                xid,
                batch: WriteBatch::new(),
                is_prepared,
                applied: BTreeMap::new(),
                keys: BTreeSet::new(),
                restore: WriteBatch::new(),
            };
            for section in &sections {
                if section.kind != PrepareKind::Committed {
                    for (id, _, key) in section.batch.iter().filter_map(|op| key_of(&op)) {
                        prepared.applied.entry(id).or_insert((section.wal, section.first));
                        prepared.keys.insert((id, key));
                    }
                }
                if is_prepared {
                    prepared.batch.append(&section.batch)?;
                }
            }
            left.push(prepared);
        }
        Ok(left)
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
            let kind = begun.or_else(resolved);
            // Ops before the marker take earlier ops back; the section may be gone. Under the other
            // policy such a record is a group's: another transaction's write, and behind it the
            // rollback of a section that is gone.
            let takes_back = batch.count() > 0
                && self.by_batch != Some(false)
                && begun.is_none()
                && matches!(batch.iter().last(), Some(BatchOp::Rollback { .. }));
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
        "{:06}.log holds two-phase transactions; open it with a TransactionDb or with allow_2pc",
        wal.0
    ))
}

/// One record under way.
struct Record<'a> {
    took_unknown: &'a mut bool,
    wal: FileNumber,
    numbers: Numbers,
    /// The section that has begun and not ended.
    open: Option<Section>,
    batch: &'a WriteBatchView<'a>,
    prepared: &'a mut BTreeMap<Vec<u8>, Vec<Section>>,
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
                let sections = self.prepared.remove(xid).unwrap_or_default();
                self.numbers.end_batch();
                self.keep_what_is_left(&sections, insert)
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
        }
        sections.push(section);
        self.numbers.end_batch();
        Ok(())
    }

    /// Applies the ops that RocksDB leaves of a rolled back transaction. If a section follows,
    /// Esker has written it anew.
    fn keep_what_is_left(&mut self, sections: &[Section], insert: &mut Insert<'_>) -> Result<()> {
        if sections.iter().all(|s| s.kind == PrepareKind::Committed)
            || !matches!(self.batch.iter().last(), Some(BatchOp::Rollback { .. }))
        {
            return Ok(());
        }
        let taken_back: HashSet<_> = self.batch.iter().filter_map(|op| key_of(&op)).collect();
        for section in sections {
            let mut numbers = Numbers::new(true, section.first);
            for op in section.batch.iter() {
                let number = numbers.take(&op);
                if key_of(&op).is_some_and(|key| !taken_back.contains(&key)) {
                    insert(section.wal, number, &op)?;
                }
            }
        }
        Ok(())
    }

    /// A commit whose section is not there was applied, and is in tables. Its timestamp goes where
    /// it belongs.
    fn commit(&mut self, xid: &[u8], timestamp: Option<&[u8]>, insert: &mut Insert<'_>) -> Result<()> {
        let sections = self.prepared.remove(xid).unwrap_or_default();
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
            let mut numbers = Numbers::new(true, section.first);
            for op in section.batch.iter() {
                insert(section.wal, numbers.take(&op), &op)?;
            }
        }
        self.numbers.end_batch();
        Ok(())
    }
}

/// Hands out sequence numbers as the writer did.
struct Numbers {
    by_batch: bool,
    next: SequenceNumber,
    in_batch: bool,
    /// Keys that have `next` already, by family and whether they begin a range.
    seen: HashSet<(ColumnFamilyId, bool, Vec<u8>)>,
}

impl Numbers {
    fn new(by_batch: bool, next: SequenceNumber) -> Numbers {
        Numbers { by_batch, next, in_batch: false, seen: HashSet::new() }
    }

    fn take(&mut self, op: &BatchOp<'_>) -> SequenceNumber {
        if !self.by_batch {
            let number = self.next;
            self.next.0 += 1;
            return number;
        }
        self.in_batch = true;
        let Some(key) = key_of(op) else { return self.next };
        if self.seen.contains(&key) {
            self.next.0 += 1;
            self.seen.clear();
        }
        self.seen.insert(key);
        self.next
    }

    fn end_batch(&mut self) {
        if self.by_batch {
            self.next.0 += 1;
            self.in_batch = false;
            self.seen.clear();
        }
    }
}

fn key_of(op: &BatchOp<'_>) -> Option<(ColumnFamilyId, bool, Vec<u8>)> {
    let (family, key) = match *op {
        BatchOp::Put { family, key, .. }
        | BatchOp::Delete { family, key }
        | BatchOp::SingleDelete { family, key }
        | BatchOp::Merge { family, key, .. }
        | BatchOp::BlobIndex { family, key, .. }
        | BatchOp::PutEntity { family, key, .. }
        | BatchOp::TimedPut { family, key, .. }
        | BatchOp::DeleteRange { family, begin: key, .. } => (family, key),
        _ => return None,
    };
    Some((family, matches!(op, BatchOp::DeleteRange { .. }), key.to_vec()))
}

/// The ops of `batch`, with the keys of families that `has_timestamps` names ending in `timestamp`
/// instead of their present timestamp.
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

/// The record of a prepared transaction: its ops between markers.
/// # Errors
/// Those of [`WriteBatch::put`].
pub(crate) fn section_record(xid: &[u8], ops: &WriteBatch) -> Result<WriteBatch> {
    let mut record = WriteBatch::with_capacity(ops.data_size() + 2 * xid.len() + 32);
    add_section(&mut record, xid, ops)?;
    Ok(record)
}

/// [`section_record`] as a copy of one in an older WAL, which may be replayed too; with ops that
/// are applied at once, before it.
/// # Errors
/// Those of [`WriteBatch::put`].
pub(crate) fn section_record_again(
    xid: &[u8],
    applied: &WriteBatch,
    section: Option<&WriteBatch>,
) -> Result<WriteBatch> {
    let mut record = WriteBatch::new();
    record.put_marker(BatchOp::Rollback { xid })?;
    record.append(applied)?;
    if let Some(ops) = section {
        add_section(&mut record, xid, ops)?;
    }
    Ok(record)
}

fn add_section(record: &mut WriteBatch, xid: &[u8], ops: &WriteBatch) -> Result<()> {
    record.put_marker(BatchOp::BeginPrepare(PrepareKind::Committed))?;
    record.append(ops)?;
    record.put_marker(BatchOp::EndPrepare { xid })
}

/// The sections of an open database: the prepared transactions and their WALs.
#[derive(Debug, Default)]
pub(crate) struct PreparedSections {
    /// Those that are not resolved, by name.
    open: BTreeMap<Vec<u8>, (FileNumber, Arc<WriteBatch>)>,
    /// The WALs of resolved sections, each with the WAL of its resolution, until that is durable.
    /// Otherwise a crash could lose a section and keep none of the writes before its resolution.
    resolved: Vec<(FileNumber, FileNumber)>,
}

impl PreparedSections {
    /// Notes a section that is in `wal`.
    pub(crate) fn insert(&mut self, xid: Vec<u8>, wal: FileNumber, batch: Arc<WriteBatch>) {
        self.open.insert(xid, (wal, batch));
    }

    /// The section is resolved, in that WAL; in none if it is durable there already.
    pub(crate) fn remove(&mut self, xid: &[u8], resolved_in: Option<FileNumber>) {
        if let Some((wal, _)) = self.open.remove(xid)
            && let Some(resolved_in) = resolved_in.filter(|resolved_in| *resolved_in > wal)
        {
            self.resolved.push((wal, resolved_in));
        }
    }

    /// The WAL that a section is in.
    pub(crate) fn wal_of(&self, xid: &[u8]) -> Option<FileNumber> {
        self.open.get(xid).map(|(wal, _)| *wal)
    }

    /// The ops of a transaction.
    pub(crate) fn get(&self, xid: &[u8]) -> Option<Arc<WriteBatch>> {
        self.open.get(xid).map(|(_, batch)| batch.clone())
    }

    /// The oldest WAL with a section that is not resolved.
    pub(crate) fn oldest_wal(&self) -> Option<FileNumber> {
        self.open.values().map(|(wal, _)| *wal).min()
    }

    /// The oldest WAL that is needed for a section: it is not resolved, or that is in a WAL that is
    /// not durable, as those before `durable_before` are.
    pub(crate) fn oldest_wal_needed(&mut self, durable_before: FileNumber) -> Option<FileNumber> {
        self.resolved.retain(|(_, resolved_in)| *resolved_in >= durable_before);
        let resolved = self.resolved.iter().map(|(wal, _)| *wal);
        resolved.chain(self.oldest_wal()).min()
    }

    /// All that are not resolved.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Arc<WriteBatch>)> + '_ {
        self.open.iter().map(|(xid, (_, batch))| (xid.as_slice(), batch))
    }

    /// All that are not resolved have been written to `wal` again.
    pub(crate) fn moved_to(&mut self, wal: FileNumber) {
        self.open.values_mut().for_each(|section| section.0 = wal);
    }
}
