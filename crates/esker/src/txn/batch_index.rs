//! A write batch that can be read: alone, or over a database.
//!
//! In: ops, as for a [`WriteBatch`]. Out: the batch, and reads as if it were written.
//! Source of the semantics: RocksDB `utilities/write_batch_with_index.h`.
//!
//! Invariants
//!  1. The batch is the only copy of the ops. The index of a family is a memtable, built at the
//!     first read of the family and brought up to date at each read: a batch without reads pays
//!     nothing for it.
//!  2. Op i of the batch has sequence number `OwnWrites::FIRST + i`: newer ops hide older ops, and
//!     all ops hide the database's entries.
//!  3. An index never holds an op that is not in the batch: after a rollback it is built anew.
//!     Iterators keep the old index.

use super::batch_counts::{IndexedOp, indexed_ops};
use super::counts::Unindexed;
use super::iterator::TransactionIterator;
use crate::cf::{OwnRuns, OwnWrites};
use crate::db::batch_arg::sealed;
use crate::db::{BatchArg, ColumnFamilyHandle, Db, WideColumns};
use crate::merge::MergeOperands;
use crate::merge::operands::{MergedValue, StoredBase, merges_columns};
use crate::options::ReadOptions;
use crate::snapshot::OwnNumbers;
use crate::write::entry_of;
use esker_base::comparator::{BytewiseComparator, ComparatorRef};
use esker_base::merge_operator::MergeOperatorRef;
use esker_base::sync::{Arc, Mutex};
use esker_base::{ColumnFamilyId, Error, ErrorKind, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_format::key::{InternalKeyComparator, LookupKey};
use esker_format::wide_column::EncodedColumns as ParsedColumns;
use esker_format::write_batch::WriteBatch;
use esker_memtable::{MemTable, MemTableOptions};
use std::collections::BTreeMap;

/// A batch of ops that can be read before it is written.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// use esker::{ReadOptions, WriteBatchWithIndex};
///
/// db.put("a", "in the database")?;
/// let (read, family) = (ReadOptions::default(), db.default_column_family());
/// let mut batch = WriteBatchWithIndex::new(family.comparator().clone(), true);
/// batch.set_max_bytes(1 << 20);
/// batch.put_cf(&family, "b", "in the batch")?;
/// batch.set_save_point();
/// batch.delete_cf(&family, "a")?;
/// batch.single_delete_cf(&family, "once")?;
/// batch.delete_range_cf(&family, "x", "y")?;
/// batch.put_entity_cf(&family, "e", &[(b"column", b"value")])?;
/// assert_eq!(batch.get_from_batch_and_db(&db, &read, &family, b"a")?, None);
/// batch.rollback_to_save_point()?;
/// assert!(batch.get_from_batch_and_db(&db, &read, &family, b"a")?.is_some());
///
/// assert_eq!(batch.get_from_batch(family.id(), None, b"b")?.unwrap(), b"in the batch");
/// let both = batch.multi_get_from_batch_and_db(&db, &read, &family, &["a", "b"]);
/// assert!(both.iter().all(|value| matches!(value, Ok(Some(_)))));
/// assert!(batch.get_entity_from_batch_and_db(&db, &read, &family, b"b")?.is_some());
/// let entities = batch.multi_get_entity_from_batch_and_db(&db, &read, &family, &["a"]);
/// assert_eq!(entities.len(), 1);
/// assert_eq!(batch.iter_with_base(&db, &read, &family)?.into_iter().count(), 2);
///
/// let mut own = batch.iter(family.id())?;
/// own.seek(b"b");
/// assert!(own.valid());
/// batch.put_log_data(b"a note in the WAL")?;
/// batch.set_save_point();
/// batch.pop_save_point()?;
/// assert_eq!(batch.write_batch().len(), 1);
/// db.write(&mut batch)?;
/// batch.clear();
/// assert!(batch.into_write_batch().is_empty());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct WriteBatchWithIndex {
    pub(super) batch: WriteBatch,
    overwrite_key: bool,
    /// The order of families that are read without a handle.
    comparator: ComparatorRef,
    families: Mutex<BTreeMap<ColumnFamilyId, Index>>,
    /// Bytes of the batch whose ops no index gets.
    pub(super) unindexed: Unindexed,
    /// The numbers of older writes of the transaction, which are in the database:
    /// [`OwnWrites::spilled`].
    pub(super) spilled: Option<OwnNumbers>,
}

/// The index of one family.
#[derive(Debug)]
struct Index {
    mem: Arc<MemTable>,
    runs: Arc<OwnRuns>,
    /// Bytes of a key's timestamp, which the index leaves out.
    timestamp_size: usize,
    /// Bytes of the batch that the index contains.
    bytes: usize,
    ops: u32,
}

impl Index {
    fn new(icmp: &InternalKeyComparator) -> Index {
        let options = MemTableOptions {
            arena_block_size: 64 << 10,
            use_huge_pages: false,
            ..MemTableOptions::default()
        };
        Index {
            mem: MemTable::new(icmp.without_timestamp(), options),
            runs: Arc::default(),
            timestamp_size: icmp.timestamp_size(),
            bytes: 0,
            ops: 0,
        }
    }

    /// Indexes the ops that were added to the batch.
    fn catch_up(&mut self, family: ColumnFamilyId, batch: &WriteBatch, unindexed: &Unindexed) -> Result<()> {
        let behind = batch.ops_bytes().len();
        let mut ops = batch.iter_from(self.bytes);
        loop {
            let at = behind - ops.bytes_left();
            let Some(op) = ops.next() else { break };
            let Some((id, entry)) = entry_of(&op)? else { continue };
            if id == family && !unindexed.has(at) {
                let sequence = SequenceNumber(OwnWrites::FIRST.0 + u64::from(self.ops));
                let key = &entry.key[..entry.key.len().saturating_sub(self.timestamp_size)];
                self.mem.add(sequence, entry.value_type, key, entry.value)?;
            }
            self.ops += 1;
        }
        self.bytes = behind;
        Ok(())
    }
}

impl Default for WriteBatchWithIndex {
    fn default() -> WriteBatchWithIndex {
        WriteBatchWithIndex::new(Arc::new(BytewiseComparator), true)
    }
}

impl sealed::Sealed for WriteBatchWithIndex {}
impl sealed::Sealed for &mut WriteBatchWithIndex {}

impl BatchArg for WriteBatchWithIndex {
    fn lend<R>(mut self, write: impl FnOnce(&mut WriteBatch) -> R) -> R {
        write(&mut self.batch)
    }
}

impl BatchArg for &mut WriteBatchWithIndex {
    fn lend<R>(self, write: impl FnOnce(&mut WriteBatch) -> R) -> R {
        write(&mut self.batch)
    }
}

impl WriteBatchWithIndex {
    /// An empty batch. `comparator` is the order of families that are read without a handle. With
    /// `overwrite_key`, [`iter`](Self::iter) shows only the effective ops of each key: the newest
    /// op, and merges down to the op to which they apply.
    pub fn new(comparator: ComparatorRef, overwrite_key: bool) -> WriteBatchWithIndex {
        WriteBatchWithIndex {
            batch: WriteBatch::new(),
            overwrite_key,
            comparator,
            families: Mutex::new(BTreeMap::new()),
            unindexed: Unindexed::default(),
            spilled: None,
        }
    }

    /// Sets `key` to `value` in the default family.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.put("esker", "gravel")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.batch.put(key, value)
    }

    /// Sets `key` to `value` in `family`: a handle, or its id.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn put_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.batch.put_cf(family, key, value)
    }

    /// Removes `key` from the default family.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.delete("fjord")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.batch.delete(key)
    }

    /// Removes `key` from `family`: a handle, or its id.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn delete_cf(&mut self, family: impl Into<ColumnFamilyId>, key: impl AsRef<[u8]>) -> Result<()> {
        self.batch.delete_cf(family, key)
    }

    /// Removes `key`, put exactly once since its last deletion, from the default family.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.single_delete("visit")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn single_delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.batch.single_delete(key)
    }

    /// Removes `key`, put exactly once since its last deletion, from `family`: a handle, or its id.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn single_delete_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.batch.single_delete_cf(family, key)
    }

    /// Adds an operand to `key`, for the merge operator of the default family.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.merge("visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.batch.merge(key, operand)
    }

    /// Adds an operand to `key`, for the merge operator of `family`: a handle, or its id.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.merge_cf(&family, "visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn merge_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.batch.merge_cf(family, key, operand)
    }

    /// Removes the keys from `begin` up to `end`, exclusive, including keys of this batch, from the
    /// default family.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.delete_range("log/2025", "log/2026")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn delete_range(&mut self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.batch.delete_range(begin, end)
    }

    /// Removes the keys from `begin` up to `end`, exclusive, including keys of this batch, from
    /// `family`: a handle, or its id.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn delete_range_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.batch.delete_range_cf(family, begin, end)
    }

    /// Adds bytes that only go into the WAL, and that the database ignores.
    /// # Errors
    /// `InvalidArgument`: the entry has 4 GiB or more, or the batch 2^32 - 1 operations ·
    /// `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The batch stays as
    /// it was.
    pub fn put_log_data(&mut self, blob: &[u8]) -> Result<()> {
        self.batch.put_log_data(blob)
    }

    /// Limits the batch to `bytes`: an op beyond them fails with `Aborted`/`MemoryLimit`; 0: no
    /// limit.
    pub fn set_max_bytes(&mut self, bytes: usize) {
        self.batch.set_max_bytes(bytes);
    }

    /// Remembers the present state for [`rollback_to_save_point`](Self::rollback_to_save_point).
    /// Save points nest.
    pub fn set_save_point(&mut self) {
        self.batch.set_save_point();
    }

    /// Drops the ops since the last save point, and the save point.
    /// # Errors
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        self.batch.rollback_to_save_point()?;
        let left = self.batch.ops_bytes().len();
        self.families.lock().retain(|_, index| index.bytes <= left);
        self.unindexed.cut(left);
        Ok(())
    }

    /// Removes the last save point.
    /// # Errors
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.batch.pop_save_point()
    }

    /// Makes the batch empty.
    pub fn clear(&mut self) {
        self.batch.clear();
        self.unindexed.cut(0);
        self.forget_index();
    }

    /// Lets the next reads index the batch anew.
    pub(super) fn forget_index(&mut self) {
        self.families.lock().clear();
    }

    /// Number of operations. Log data does not count.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.put("a", "1")?;
    /// assert_eq!((batch.len(), batch.is_empty()), (1, false));
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether the batch has no op.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Whether the batch was made with `overwrite_key`.
    pub(super) fn overwrites_keys(&self) -> bool {
        self.overwrite_key
    }

    /// The order of families that are read without a handle.
    pub(super) fn default_order(&self) -> InternalKeyComparator {
        InternalKeyComparator::new(self.comparator.clone())
    }

    /// The ops, for reading.
    pub fn write_batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// The batch itself, for a caller that writes it and adds no ops.
    pub(super) fn write_batch_mut(&mut self) -> &mut WriteBatch {
        &mut self.batch
    }

    /// Returns the batch without its index.
    pub fn into_write_batch(self) -> WriteBatch {
        self.batch
    }

    /// The effect of the batch alone on `key`: its value, or `None` if the batch does not change it
    /// or removes it. `operator` is the family's, for merges; the order is that given to
    /// [`new`](Self::new).
    /// # Errors
    /// `MergeInProgress`: the value to which the merges apply is in the database · `NotSupported`:
    /// the batch has an op that only the database can apply · `InvalidArgument`: merges without
    /// `operator` · `Corruption`: the merge operator refuses the operands.
    pub fn get_from_batch(
        &self,
        family: ColumnFamilyId,
        operator: Option<&MergeOperatorRef>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let icmp = InternalKeyComparator::new(self.comparator.clone());
        match self.own(family, &icmp)? {
            Some(own) => get_alone(&own, operator, key),
            None => Ok(None),
        }
    }

    /// The value that `key` would have if the batch were written. `options` give the point in time
    /// of the database.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_from_batch_and_db(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned_from_batch_and_db(db, options, family, key)?.map(|value| value.to_vec()))
    }

    /// [`get_from_batch_and_db`](Self::get_from_batch_and_db) of several keys, all as of the same
    /// point in time, each with its own result. Keys that the batch does not change are read
    /// together, as by [`Db::multi_get_opt`].
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · `NotSupported`: the family has user-defined timestamps.
    pub fn multi_get_from_batch_and_db(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        match self.own_of(family) {
            Ok(Some(own)) => db.multi_get_over(options, family, &own, keys),
            Ok(None) => db.multi_get_opt(options, family, keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// An iterator over `family` as if the batch were written. It does not see later changes of the
    /// batch.
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; `tailing` together with a
    /// snapshot or timestamps · `NotSupported`: the family has user-defined timestamps, `tailing`
    /// is set, `read_tier` is `Persisted`, or this is a forked child process · `Corruption` and
    /// `IoError` from opening level-0 files · `Incomplete` and `TimedOut`: `read_tier` or
    /// `deadline` stops the opening of a file · `ShutdownInProgress`: the database was closed.
    pub fn iter_with_base(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
    ) -> Result<TransactionIterator> {
        TransactionIterator::new(db, options, family, self.own_of(family)?)
    }

    /// The batch's own ops in a family, by key in the order given to [`new`](Self::new), newest
    /// first. Leaves out range deletions.
    /// # Errors
    /// `NotSupported`: the batch has an op that this engine lacks.
    pub fn iter(&self, family: ColumnFamilyId) -> Result<BatchIterator> {
        let icmp = InternalKeyComparator::new(self.comparator.clone());
        let own = self.own(family, &icmp)?;
        let entries = own.map(|own| indexed_ops(&own, &icmp, self.overwrite_key)).transpose()?;
        Ok(BatchIterator { entries: entries.unwrap_or_default(), icmp, at: None })
    }

    /// Whether the batch may have an op on `key`, other than range deletions.
    pub(super) fn may_write(&self, family: &ColumnFamilyHandle, key: &[u8]) -> bool {
        let names = |own: Option<OwnWrites>| own.map_or(Ok(false), |own| own.name(key));
        !self.unindexed.is_empty() || self.own(family.id(), &family.cf.icmp).and_then(names).unwrap_or(true)
    }

    /// The entities of `keys` if the batch were written, all as of the same point in time.
    pub(super) fn entities<K: AsRef<[u8]>>(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[K],
    ) -> Vec<Result<Option<WideColumns>>> {
        match self.own_of(family) {
            Ok(own) => db.multi_get_entity_over(options, family, own.as_ref(), keys),
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    /// The ops in `family` as a memtable, with the numbers of older ones that are in the database;
    /// `None` if there are neither.
    /// # Errors
    /// `NotSupported`: the family has user-defined timestamps.
    pub(super) fn own_of(&self, family: &ColumnFamilyHandle) -> Result<Option<OwnWrites>> {
        let icmp = &family.cf.icmp;
        if icmp.timestamp_size() > 0 {
            return Err(no_timestamps(family));
        }
        match &self.spilled {
            None => self.own(family.id(), icmp),
            Some(_) => {
                Ok(Some(OwnWrites { spilled: self.spilled.clone(), ..self.indexed(family.id(), icmp)? }))
            }
        }
    }

    /// The ops in a family as a memtable, keys without timestamps; `None` if there are none.
    pub(super) fn own(
        &self,
        family: ColumnFamilyId,
        icmp: &InternalKeyComparator,
    ) -> Result<Option<OwnWrites>> {
        if self.batch.count() == 0 {
            return Ok(None);
        }
        let own = self.indexed(family, icmp)?;
        Ok((!own.mem.is_empty()).then_some(own))
    }

    fn indexed(&self, family: ColumnFamilyId, icmp: &InternalKeyComparator) -> Result<OwnWrites> {
        let mut families = self.families.lock();
        let index = families.entry(family).or_insert_with(|| Index::new(icmp));
        let is_other = match icmp.timestamp_size() {
            0 => index.mem.comparator().user_comparator().name() != icmp.user_comparator().name(),
            size => index.timestamp_size != size,
        };
        if is_other {
            *index = Index::new(icmp);
        }
        index.catch_up(family, &self.batch, &self.unindexed)?;
        // The number of the last op: the read does not see ops that the index gets later.
        let up_to = SequenceNumber(OwnWrites::FIRST.0 + u64::from(index.ops) - 1);
        Ok(OwnWrites { mem: index.mem.clone(), up_to, runs: index.runs.clone(), spilled: None })
    }
}

/// The effect of own writes on one key.
pub(super) struct OwnState<T = Vec<u8>> {
    /// The base of the operands, if the writes determine it: a value, or no value.
    pub(super) base: Option<Option<T>>,
    pub(super) operands: MergeOperands,
}

impl OwnState {
    pub(super) fn of(own: &OwnWrites, key: &[u8]) -> Result<OwnState> {
        OwnState::shown_by(own, key, shown)
    }
}

impl<T> OwnState<T> {
    /// The effect, with the newest op that is no merge as `shown` has it.
    pub(super) fn shown_by(
        own: &OwnWrites,
        key: &[u8],
        shown: impl Fn(ValueType, &[u8], &[u8]) -> Result<Option<T>>,
    ) -> Result<OwnState<T>> {
        let covering = own.mem.max_covering_tombstone_seq(key, own.up_to);
        let mut operands = MergeOperands::new();
        let mut base = None;
        own.mem.get(&LookupKey::new(key, own.up_to), |value_type, sequence, value| {
            if sequence < covering {
                base = Some(Ok(None));
            } else if value_type == ValueType::Merge {
                operands.push(value.bytes());
                return true;
            } else {
                base = Some(shown(value_type, value.bytes(), key));
            }
            false
        })?;
        if base.is_none() && covering > SequenceNumber::ZERO {
            base = Some(Ok(None));
        }
        Ok(OwnState { base: base.transpose()?, operands })
    }
}

pub(super) fn get_alone(
    own: &OwnWrites,
    operator: Option<&MergeOperatorRef>,
    key: &[u8],
) -> Result<Option<Vec<u8>>> {
    let OwnState { base, operands } = OwnState::of(own, key)?;
    match base {
        Some(_) if !operands.is_empty() && merges_columns(operator) => {
            get_value_alone(own, operator, key)?.map(MergedValue::into_value).transpose()
        }
        Some(base) if operands.is_empty() => Ok(base),
        Some(base) => operands.merge_newest_first(operator, key, base.as_deref()).map(Some),
        None if operands.is_empty() => Ok(None),
        None => Err(base_elsewhere(key)),
    }
}

/// The value or the entity that the own writes alone give `key`.
pub(super) fn get_value_alone(
    own: &OwnWrites,
    operator: Option<&MergeOperatorRef>,
    key: &[u8],
) -> Result<Option<MergedValue>> {
    let OwnState { base, operands } = OwnState::shown_by(own, key, shown_value)?;
    if operands.is_empty() {
        return Ok(base.flatten());
    }
    let Some(base) = base else { return Err(base_elsewhere(key)) };
    let base = base.as_ref().map_or(StoredBase::Nothing, MergedValue::as_base);
    operands.merge_columns_newest_first(operator, key, base).map(Some)
}

/// The value or the entity of the newest op, which is no merge.
pub(super) fn shown_value(value_type: ValueType, value: &[u8], key: &[u8]) -> Result<Option<MergedValue>> {
    match value_type {
        ValueType::WideColumnEntity => {
            ParsedColumns::parse(value)?;
            Ok(Some(MergedValue::Entity(value.to_vec())))
        }
        other => Ok(shown(other, value, key)?.map(MergedValue::Plain)),
    }
}

/// The error of a read of the batch alone whose operands have their base in the database.
#[cold]
pub(super) fn base_elsewhere(key: &[u8]) -> Error {
    Error::new(
        ErrorKind::MergeInProgress,
        format!("what '{}' is merged with is in the database", key.escape_ascii()),
    )
}

/// The value that readers see of the newest op, which is no merge.
pub(super) fn shown(value_type: ValueType, value: &[u8], key: &[u8]) -> Result<Option<Vec<u8>>> {
    match value_type {
        ValueType::Value => Ok(Some(value.to_vec())),
        ValueType::WideColumnEntity => Ok(Some(ParsedColumns::parse(value)?.default_value().to_vec())),
        deleted if deleted.is_point_deletion() => Ok(None),
        other => Err(Error::not_supported(format!(
            "a batch alone cannot show the {other:?} of '{}'",
            key.escape_ascii()
        ))),
    }
}

/// The error for families with user-defined timestamps, given by batches, optimistic transactions
/// and writes outside of transactions.
#[cold]
pub(super) fn no_timestamps(family: &ColumnFamilyHandle) -> Error {
    Error::not_supported(format!(
        "column family '{}' has user-defined timestamps: only transactions that lock come to it, to single keys",
        family.name()
    ))
}

/// One op of a batch, as an iterator over it shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct BatchEntry {
    /// The op's type: `Value`, `Deletion`, `SingleDeletion`, `Merge` and so on.
    pub value_type: ValueType,
    /// The op's key.
    pub key: Vec<u8>,
    /// The op's value or operand.
    pub value: Vec<u8>,
}

esker_base::debug_with_text!(BatchEntry {
    value_type,
    text key,
    text value,
});

/// A cursor over the ops of a batch in one family, as they were when it was made. Not valid until
/// it is positioned.
///
/// ```
/// let mut batch = esker::WriteBatchWithIndex::default();
/// batch.put("a", "1")?;
/// batch.put("b", "2")?;
/// let mut iter = batch.iter(esker::ColumnFamilyId::DEFAULT)?;
/// iter.seek_to_first();
/// while let Some(entry) = iter.entry() {
///     println!("{:?} {}", entry.value_type, entry.key.escape_ascii());
///     iter.next();
/// }
/// assert!(!iter.valid());
/// iter.seek_to_last();
/// iter.prev();
/// iter.seek(b"b");
/// iter.seek_for_prev(b"az");
/// assert_eq!(iter.entry().unwrap().key, b"a");
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchIterator {
    entries: Vec<IndexedOp>,
    icmp: InternalKeyComparator,
    at: Option<usize>,
}

impl BatchIterator {
    /// The op here, if it is valid.
    pub fn entry(&self) -> Option<&BatchEntry> {
        self.op().map(|op| &op.entry)
    }

    fn op(&self) -> Option<&IndexedOp> {
        self.entries.get(self.at?)
    }

    /// The number of the op here among those on its key, oldest first, from 1 on. 0 if the cursor
    /// is not valid, and 1 for each op of a batch that was made without `overwrite_key`.
    pub fn update_count(&self) -> u32 {
        self.op().map_or(0, |op| op.update_count)
    }

    /// Whether a later op on the key of the op here hides a single deletion. False in a batch that
    /// was made without `overwrite_key`.
    pub fn has_overwritten_single_del(&self) -> bool {
        self.op().is_some_and(|op| op.has_overwritten_single_del)
    }

    /// Whether the cursor is at an op.
    pub fn valid(&self) -> bool {
        self.entry().is_some()
    }

    /// Moves to the first op.
    pub fn seek_to_first(&mut self) {
        self.at = Some(0);
    }

    /// Moves to the last op.
    pub fn seek_to_last(&mut self) {
        self.at = self.entries.len().checked_sub(1);
    }

    /// Moves to the newest op of the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        self.at =
            Some(self.entries.partition_point(|op| self.icmp.compare_user_keys(&op.entry.key, key).is_lt()));
    }

    /// Moves to the oldest op of the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        let behind =
            self.entries.partition_point(|op| self.icmp.compare_user_keys(&op.entry.key, key).is_le());
        self.at = behind.checked_sub(1);
    }

    /// Moves to the next op. Does nothing if the cursor is not valid.
    pub fn next(&mut self) {
        self.at = self.at.filter(|_| self.valid()).map(|at| at + 1);
    }

    /// Moves to the previous op. Does nothing if the cursor is not valid.
    pub fn prev(&mut self) {
        self.at = self.at.filter(|_| self.valid()).and_then(|at| at.checked_sub(1));
    }
}
