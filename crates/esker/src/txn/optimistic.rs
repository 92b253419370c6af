//! Transactions without locks: a commit fails if others have written a key that the transaction
//! touched.
//!
//! Invariants
//!  1. The transaction remembers each key that it writes or reads for update (with `Serializable`,
//!     each key that it reads), with the sequence number up to which the key was checked. That
//!     number is taken before the read, so that the commit finds writes during the read.
//!  2. Commit checks, as the write leader, whether any of these keys was written since. All earlier
//!     writes are in memtables then, and no other write intervenes.
//!  3. If memtables do not reach back far enough, commit gives `TryAgain`, never a guess.
//!
//! Source of the semantics: RocksDB `utilities/transactions/optimistic_transaction.cc`.

use super::batch_index::{WriteBatchWithIndex, no_timestamps};
use super::counts::{CountedOp, OpCounts};
use super::occ::OccLockBuckets;
use super::options::{IsolationLevel, OptimisticTransactionDbOptions, OptimisticTransactionOptions};
use super::pessimistic::Reads;
use crate::db::{ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::options::{DbOptions, Options, WriteOptions};
use crate::snapshot::Snapshot;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// A database with transactions that check at commit. A clone is a further handle to the same
/// database. Writes outside of transactions count as writes of others.
#[derive(Clone, Debug)]
pub struct OptimisticTransactionDb {
    pub(super) db: Db,
    /// The mutexes of parallel validation; `None`: validation is serial.
    pub(super) locks: Option<OccLockBuckets>,
}

impl OptimisticTransactionDb {
    /// Opens the database in `path` with its default family only.
    ///
    /// ```
    /// use esker::{OptimisticTransactionDb, Options};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// let db = OptimisticTransactionDb::open(&options, dir.path())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that are not named (the message names them); an
    /// option is out of range · `IoError`, retryable: open elsewhere · `Corruption`: names file
    /// and offset · `NotSupported`: names the feature · `IoError` from the directory.
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<OptimisticTransactionDb> {
        OptimisticTransactionDb::open_opt(options, &OptimisticTransactionDbOptions::default(), path)
    }

    /// [`open`](Self::open) with options of the transactions.
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_opt(
        options: &Options,
        txn_options: &OptimisticTransactionDbOptions,
        path: impl AsRef<Path>,
    ) -> Result<OptimisticTransactionDb> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        OptimisticTransactionDb::open_cf_opt(&options.db, txn_options, path, [default])
    }

    /// Opens the database in `path` with these families, which must be all it has. As in RocksDB, a
    /// family with the default `max_write_buffer_size_to_maintain` gets -1: it keeps flushed
    /// memtables for conflict checks, up to the bytes of its write buffers.
    ///
    /// A family is a name, a name with options, or a [`ColumnFamilyDescriptor`].
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that are not named (the message names them); an
    /// option is out of range · `IoError`, retryable: open elsewhere · `Corruption`: names file
    /// and offset · `NotSupported`: names the feature · `IoError` from the directory.
    pub fn open_cf(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<OptimisticTransactionDb> {
        let default = OptimisticTransactionDbOptions::default();
        OptimisticTransactionDb::open_cf_opt(options, &default, path, families)
    }

    /// [`open_cf`](Self::open_cf) with options of the transactions.
    /// # Errors
    /// Those of [`open_cf`](Self::open_cf).
    pub fn open_cf_opt(
        options: &DbOptions,
        txn_options: &OptimisticTransactionDbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<OptimisticTransactionDb> {
        let locks = OccLockBuckets::of(txn_options);
        let mut families = ColumnFamilyDescriptor::list(families);
        for family in &mut families {
            if family.options.max_write_buffer_size_to_maintain == 0 {
                family.options.max_write_buffer_size_to_maintain = -1;
            }
        }
        let db = Db::open_with(options, path, families, OpenMode::ReadWrite)?;
        Ok(OptimisticTransactionDb { db, locks })
    }

    /// The database itself: reads, writes, flushes, compactions, properties.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Begins a transaction with default options. A drop rolls it back.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("ada", "900")?;
    /// txn.put("grace", "1100")?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn begin_transaction(&self) -> OptimisticTransaction {
        self.begin_transaction_opt(&WriteOptions::default(), &OptimisticTransactionOptions::default())
    }

    /// Begins a transaction. A drop rolls it back.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// use esker::{IsolationLevel, OptimisticTransactionOptions, WriteOptions};
    ///
    /// let strict = OptimisticTransactionOptions::default().isolation(IsolationLevel::Serializable);
    /// let txn = db.begin_transaction_opt(&WriteOptions::default(), &strict);
    /// txn.put("seat 12", "Ada")?;
    /// txn.commit()?;
    /// db.db().flush()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn begin_transaction_opt(
        &self,
        write_options: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> OptimisticTransaction {
        let mut own = Own {
            db: self.db.clone(),
            locks: self.locks.clone(),
            write_options: *write_options,
            isolation: options.isolation,
            batch: WriteBatchWithIndex::default(),
            counts: OpCounts::default(),
            began: self.db.engine().env.clock.monotonic_nanos(),
            snapshot: None,
            snapshot_needed: false,
            reads_one_snapshot: false,
            touched: BTreeMap::new(),
            touched_since: Vec::new(),
            reads: Reads::new(),
            ranges: Vec::new(),
            families: BTreeMap::new(),
            save_points: Vec::new(),
            is_over: false,
        };
        if options.set_snapshot {
            own.set_snapshot();
        }
        own.start();
        OptimisticTransaction { db: self.db.clone(), own: RefCell::new(own) }
    }
}

/// A range that was read or removed. Both ends belong to it; `None` is an open end.
#[derive(Clone, Debug)]
struct Range {
    family: ColumnFamilyId,
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    since: SequenceNumber,
}

#[derive(Debug)]
pub(super) struct OptimisticSavePoint {
    snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// Length of `touched_since` when the save point was set.
    touched: usize,
    ranges: usize,
    counts: OpCounts,
    /// Reads for update between the save point before and this one.
    pub(super) reads: Reads,
}

/// Several reads and writes that take effect together, if no conflicting write intervenes.
///
/// One thread uses it at a time; it may be sent to another.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let options = esker::Options::new().create_if_missing(true);
/// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
/// use esker::ReadOptions;
///
/// db.put("stock", "3")?;
/// let (read, family) = (ReadOptions::default(), db.default_column_family());
/// let txn = db.begin_transaction();
/// txn.set_snapshot();
/// assert_eq!(txn.get_for_update("stock")?.unwrap(), b"3");
/// txn.put("stock", "2")?;
/// txn.put_cf(&family, "order/17", "a shovel")?;
/// assert_eq!(txn.get("stock")?.unwrap(), b"2");
/// assert_eq!(txn.get_opt(&read, &family, "stock")?.unwrap(), b"2");
/// assert_eq!(txn.multi_get(&read, &family, &["stock", "order/17"]).len(), 2);
/// let mut cursor = txn.iter_opt(&read, &family)?;
/// cursor.seek("order/");
/// assert!(cursor.valid());
/// assert_eq!(txn.range_cf(&family, "order/"..).count(), 2);
/// assert_eq!(txn.prefix_cf(&family, "order/").count(), 1);
///
/// txn.set_save_point();
/// txn.delete("stock")?;
/// txn.rollback_to_save_point()?;
/// txn.set_save_point();
/// txn.pop_save_point()?;
/// assert_eq!(txn.write_batch().len(), 2);
/// txn.commit()?;
/// assert!(db.contains_key("order/17")?);
///
/// let dropped = db.begin_transaction();
/// dropped.delete_cf(&family, "stock")?;
/// dropped.single_delete_cf(&family, "order/17")?;
/// dropped.delete_range_cf(&family, "x", "y")?;
/// dropped.put_untracked(&family, "last", "wins")?;
/// dropped.clear_snapshot();
/// dropped.set_snapshot_on_next_operation();
/// assert!(dropped.snapshot().is_none());
/// dropped.rollback()?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct OptimisticTransaction {
    pub(super) db: Db,
    /// No borrow outlives a call.
    own: RefCell<Own>,
}

/// Writes of a transaction, and the keys it has touched.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) db: Db,
    locks: Option<OccLockBuckets>,
    pub(super) write_options: WriteOptions,
    pub(super) isolation: IsolationLevel,
    pub(super) batch: WriteBatchWithIndex,
    pub(super) counts: OpCounts,
    /// Monotonic nanoseconds of the begin.
    pub(super) began: u64,
    pub(super) snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// Whether all reads so far saw the snapshot that the transaction has now.
    reads_one_snapshot: bool,
    /// Touched keys, each with the sequence number since which others must not have written it.
    pub(super) touched: BTreeMap<(ColumnFamilyId, Vec<u8>), SequenceNumber>,
    /// The previous value in `touched`, for each change to it since the first save point.
    touched_since: Vec<(ColumnFamilyId, Vec<u8>, Option<SequenceNumber>)>,
    /// Reads for update of each key since the newest save point, or since the begin. Each save
    /// point has the counts before it.
    pub(super) reads: Reads,
    ranges: Vec<Range>,
    families: BTreeMap<ColumnFamilyId, ColumnFamilyHandle>,
    pub(super) save_points: Vec<OptimisticSavePoint>,
    is_over: bool,
}

impl OptimisticTransaction {
    pub(super) fn own(&self) -> RefMut<'_, Own> {
        self.own.borrow_mut()
    }

    /// Stores `value` under `key` in the default family.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_column_family();
        self.put_cf(&family, key, value)
    }

    /// Stores `value` under `key` in `family`.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn put_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_as(family, key.as_ref(), value.as_ref(), true)
    }

    /// Removes `key` from the default family.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db.default_column_family();
        self.delete_cf(&family, key)
    }

    /// Removes `key` from `family`.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_as(family, key.as_ref(), true)
    }

    /// Removes `key`, which was put exactly once since its last deletion.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn single_delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_as(family, key.as_ref(), true)
    }

    /// Adds an operand to `key` for the family's merge operator.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let family = db.default_column_family();
    /// let txn = db.begin_transaction();
    /// txn.merge_cf(&family, "visits", 1u64.to_le_bytes())?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn merge_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_as(family, key.as_ref(), operand.as_ref(), true)
    }

    /// Removes the keys of `family` from `begin` up to `end`, exclusive. The commit fails if others
    /// write a key of the range, or `end`, before it.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, `end` comes before `begin`, or the family is one
    /// of another database · `ColumnFamilyDropped` · `NotSupported`: the family has user-defined
    /// timestamps.
    pub fn delete_range_cf(
        &self,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let own = &mut *self.own();
        let (begin, end) = (begin.as_ref(), end.as_ref());
        own.check_usable(family)?;
        if family.cf.icmp.compare_user_keys(begin, end).is_gt() {
            return Err(Error::invalid_argument("end key comes before start key"));
        }
        own.touch_range(family, (Some(begin.to_vec()), Some(end.to_vec())))?;
        own.add(CountedOp::Delete, |batch| batch.delete_range_cf(family.id(), begin, end))
    }

    /// Sets the snapshot to now: the commit fails if others write, from now on, a key that the
    /// transaction touches later.
    pub fn set_snapshot(&self) {
        self.own().set_snapshot();
    }

    /// Lets the next operation set the snapshot.
    pub fn set_snapshot_on_next_operation(&self) {
        self.own().snapshot_needed = true;
    }

    /// The snapshot, if one is set.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.own().snapshot.clone()
    }

    /// Drops the snapshot.
    pub fn clear_snapshot(&self) {
        self.own().change_snapshot(None, false);
    }

    /// Remembers the present writes and touched keys. Save points nest.
    pub fn set_save_point(&self) {
        let own = &mut *self.own();
        own.batch.set_save_point();
        own.save_points.push(OptimisticSavePoint {
            snapshot: own.snapshot.clone(),
            snapshot_needed: own.snapshot_needed,
            touched: own.touched_since.len(),
            ranges: own.ranges.len(),
            counts: own.counts,
            reads: std::mem::take(&mut own.reads),
        });
    }

    /// Undoes the writes and forgets the touched keys since the newest save point, and removes it.
    /// With `Serializable`, touched keys stay touched: the caller may use the values that it has
    /// read.
    /// # Errors
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        let own = &mut *self.own();
        let point = own.save_points.pop().ok_or_else(no_save_point)?;
        own.batch.rollback_to_save_point()?;
        own.counts = point.counts;
        own.reads = point.reads;
        if own.isolation != IsolationLevel::Serializable {
            while own.touched_since.len() > point.touched {
                let Some((family, key, before)) = own.touched_since.pop() else { break };
                match before {
                    Some(since) => own.touched.insert((family, key), since),
                    None => own.touched.remove(&(family, key)),
                };
            }
            own.ranges.truncate(point.ranges);
        }
        let sequence = |snapshot: &Option<Snapshot>| snapshot.as_ref().map(Snapshot::sequence);
        if sequence(&own.snapshot) != sequence(&point.snapshot) {
            own.change_snapshot(point.snapshot, point.snapshot_needed);
        }
        own.snapshot_needed = point.snapshot_needed;
        own.forget_changes();
        Ok(())
    }

    /// Removes the newest save point.
    /// # Errors
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&self) -> Result<()> {
        let own = &mut *self.own();
        let point = own.save_points.pop().ok_or_else(no_save_point)?;
        let since = std::mem::replace(&mut own.reads, point.reads);
        since.into_iter().for_each(|(key, count)| *own.reads.entry(key).or_insert(0) += count);
        own.forget_changes();
        own.batch.pop_save_point()
    }

    /// A copy of the transaction's writes so far.
    pub fn write_batch(&self) -> WriteBatchWithIndex {
        WriteBatchWithIndex::from(self.own().batch.write_batch().clone())
    }

    /// Writes everything to the database atomically, unless others have written a touched key.
    /// # Errors
    /// `Busy`: another has written a key that this transaction touched · `TryAgain`: memtables do
    /// not reach back far enough for the check (`max_write_buffer_size_to_maintain`) · after both,
    /// roll back and start anew · `InvalidArgument`: the transaction is over · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `NotSupported`: the database is read-only · `IoError`: the WAL could not be
    /// written; writes fail until [`Db::resume`] · the background error in force.
    pub fn commit(&self) -> Result<()> {
        let own = &mut *self.own();
        if own.is_over {
            return Err(over());
        }
        let (db, touched, ranges) = (&own.db, &own.touched, &own.ranges);
        let families = &own.families;
        let mut validate = || {
            for ((id, key), since) in touched {
                if db.written_since(&families[id], key, (*since, None), false)? {
                    return Err(conflict(&families[id], format_args!("key '{}'", key.escape_ascii())));
                }
            }
            for range in ranges {
                let bounds = (range.begin.as_deref(), range.end.as_deref());
                if db.range_written_since(&families[&range.family], bounds, (range.since, None), false)? {
                    let (begin, end) = (bound_text(bounds.0), bound_text(bounds.1));
                    let what = format_args!("a key from {begin} to {end}");
                    return Err(conflict(&families[&range.family], what));
                }
            }
            Ok(())
        };
        let locks = own.locks.clone();
        let _locked = locks.as_ref().map(|locks| locks.lock_transaction(&own.db, own));
        if _locked.is_some() && !own.batch.is_empty() {
            validate()?;
            db.write_opt(&own.write_options, own.batch.write_batch_mut())?;
        } else if !own.batch.is_empty() {
            db.write_if(&own.write_options, own.batch.write_batch_mut(), &mut validate)?;
        } else if own.isolation != IsolationLevel::Serializable || !own.reads_one_snapshot {
            validate()?;
        } // else it wrote nothing and read one snapshot, so it is serializable in any case

        own.clear();
        own.is_over = true;
        Ok(())
    }

    /// Drops all writes and touched keys. The transaction is as if it had just begun: with a new
    /// snapshot if its isolation level takes one, else without.
    /// # Errors
    /// `InvalidArgument`: the transaction is over.
    pub fn rollback(&self) -> Result<()> {
        let own = &mut *self.own();
        if own.is_over {
            return Err(over());
        }
        own.clear();
        own.start();
        Ok(())
    }
}

impl Own {
    /// Sets the snapshot to now.
    fn set_snapshot(&mut self) {
        let snapshot = self.db.snapshot();
        self.change_snapshot(Some(snapshot), false);
    }

    /// Clears `touched_since` if there are no save points, which alone need it.
    fn forget_changes(&mut self) {
        if self.save_points.is_empty() {
            self.touched_since.clear();
        }
    }

    fn change_snapshot(&mut self, snapshot: Option<Snapshot>, snapshot_needed: bool) {
        self.reads_one_snapshot = snapshot.is_some() && self.touched.is_empty() && self.ranges.is_empty();
        self.snapshot = snapshot;
        self.snapshot_needed = snapshot_needed;
    }

    /// Sets the isolation level's initial snapshot, unless the transaction has one.
    fn start(&mut self) {
        if self.isolation != IsolationLevel::ReadCommitted && self.snapshot.is_none() {
            self.set_snapshot();
        }
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.counts = OpCounts::default();
        self.reads.clear();
        self.touched.clear();
        self.touched_since.clear();
        self.ranges.clear();
        self.families.clear();
        self.save_points.clear();
        self.change_snapshot(None, false);
    }

    /// Whether it has read or removed ranges.
    pub(super) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    pub(super) fn check_not_over(&self) -> Result<()> {
        if self.is_over { Err(over()) } else { Ok(()) }
    }

    pub(super) fn check_usable(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.check_not_over()?;
        if family.cf.icmp.timestamp_size() > 0 {
            return Err(no_timestamps(family));
        }
        family.check_live(&self.db)
    }

    /// The sequence number since which others must not have written a key that is touched now.
    fn since(&mut self) -> SequenceNumber {
        if self.snapshot_needed {
            self.set_snapshot();
        }
        self.snapshot.as_ref().map_or_else(|| self.db.latest_sequence_number(), Snapshot::sequence)
    }

    /// Records that the transaction has touched `key`, for the check at the commit.
    /// # Errors
    /// `InvalidArgument` for a family of another database, which could have the same id as a family
    /// of this one.
    pub(super) fn touch(&mut self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        self.db.check_family(family)?;
        let since = self.since();
        self.families.entry(family.id()).or_insert_with(|| family.clone());
        let before = match self.touched.entry((family.id(), key.to_vec())) {
            Entry::Occupied(oldest) if *oldest.get() <= since => return Ok(()),
            Entry::Occupied(mut oldest) => Some(oldest.insert(since)),
            Entry::Vacant(unknown) => {
                unknown.insert(since);
                None
            }
        };
        if !self.save_points.is_empty() {
            self.touched_since.push((family.id(), key.to_vec(), before));
        }
        Ok(())
    }

    /// Records that the transaction has touched a range, for the check at the commit.
    /// # Errors
    /// As [`Self::touch`].
    pub(super) fn touch_range(
        &mut self,
        family: &ColumnFamilyHandle,
        range: (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<()> {
        self.db.check_family(family)?;
        let since = self.since();
        self.families.entry(family.id()).or_insert_with(|| family.clone());
        self.ranges.push(Range { family: family.id(), begin: range.0, end: range.1, since });
        Ok(())
    }
}

#[cold]
fn conflict(family: &ColumnFamilyHandle, what: std::fmt::Arguments<'_>) -> Error {
    Error::busy(format!(
        "{what} of column family '{}' was written by others since the transaction touched it; roll back and start anew",
        family.name()
    ))
    .with_retryable(true)
}

fn bound_text(bound: Option<&[u8]>) -> String {
    bound.map_or_else(|| "the end".to_owned(), |key| format!("'{}'", key.escape_ascii()))
}

#[cold]
fn over() -> Error {
    Error::invalid_argument("Transaction has already been committed.")
}

#[cold]
fn no_save_point() -> Error {
    Error::not_found("the transaction has no save point")
}
