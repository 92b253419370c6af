//! Transactions without locks: at commit, others must not have written the keys they touched.
//!
//! Invariants
//!  1. Keys written, read for update or, with `Serializable`, read are remembered with the sequence
//!     number up to which they were checked. That number is taken before the read, so that writes
//!     during the read are found.
//!  2. Commit checks, as the write leader, whether any of these keys was written since. All earlier
//!     writes are in memtables, and no other write comes in between.
//!  3. If memtables no longer have the answer, commit gives `TryAgain`, never a guess.
//!
//! Source of the semantics: RocksDB `utilities/transactions/optimistic_transaction.cc`.

use super::batch_index::{WriteBatchWithIndex, no_timestamps};
use super::options::{IsolationLevel, OptimisticTransactionOptions};
use crate::db::{BatchArg, ColumnFamilyDescriptor, ColumnFamilyHandle, Db, OpenMode};
use crate::options::{DbOptions, Options, WriteOptions};
use crate::snapshot::Snapshot;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

/// A database with transactions that check at commit. Cloning gives another handle to the same one.
/// Writes outside of transactions count as written by others.
#[derive(Clone, Debug)]
pub struct OptimisticTransactionDb {
    db: Db,
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
    /// option is out of range · `IoError`/`Busy`: another process has it · `Corruption`: names file
    /// and offset · `NotSupported`: names the feature · `IoError` from the directory.
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<OptimisticTransactionDb> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        OptimisticTransactionDb::open_cf(&options.db, path, [default])
    }

    /// Opens the database in `path` with these families, which must be all it has. As in RocksDB, a
    /// family whose options say nothing keeps flushed memtables, as many bytes as its write buffers
    /// have, to check for conflicts (`max_write_buffer_size_to_maintain` becomes -1).
    ///
    /// A family is a name, a name with options, or a [`ColumnFamilyDescriptor`].
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that are not named (the message names them); an
    /// option is out of range · `IoError`/`Busy`: another process has it · `Corruption`: names file
    /// and offset · `NotSupported`: names the feature · `IoError` from the directory.
    pub fn open_cf(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<OptimisticTransactionDb> {
        let mut families = ColumnFamilyDescriptor::list(families);
        for family in &mut families {
            if family.options.max_write_buffer_size_to_maintain == 0 {
                family.options.max_write_buffer_size_to_maintain = -1;
            }
        }
        Ok(OptimisticTransactionDb { db: Db::open_with(options, path, families, OpenMode::ReadWrite)? })
    }

    /// The database itself: reads, writes, flushes, compactions, properties.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Begins a transaction with default options. Dropping it rolls it back.
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

    /// Begins a transaction. Dropping it rolls it back.
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
            write_options: *write_options,
            isolation: options.isolation,
            batch: WriteBatchWithIndex::default(),
            snapshot: None,
            snapshot_needed: false,
            reads_one_snapshot: false,
            touched: BTreeMap::new(),
            touched_since: Vec::new(),
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

/// Writes past transactions: to them they are writes of others.
impl OptimisticTransactionDb {
    /// Stores `value` under `key` in the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// db.put("seat 12", "Ada")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.db.put(key, value)
    }

    /// Stores `value` under `key` in `family`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let families = db.create_column_families(["seats"])?;
    /// let seats = &families[0];
    /// db.put_cf(seats, "12", "Ada")?;
    /// db.delete_cf(seats, "12")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn put_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.put_opt(&WriteOptions::default(), family, key, value)
    }

    /// Removes `key` from the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// db.delete("seat 12")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete(key)
    }

    /// Removes `key` from `family`.
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.db.delete_opt(&WriteOptions::default(), family, key)
    }

    /// Adds an operand to `key` in the default family, for its merge operator.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::new().create_if_missing(true);
    /// # options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// db.merge("visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.db.merge(key, operand)
    }

    /// Adds an operand to `key` in `family`, for its merge operator.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// let db = esker::OptimisticTransactionDb::open_cf(&options.db, dir.path(), [("default", options.cf)])?;
    /// db.merge_cf(&db.default_column_family(), "visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn merge_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.db.merge_opt(&WriteOptions::default(), family, key, operand)
    }

    /// Writes `batch` as one: [`Db::write`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let mut batch = esker::WriteBatch::new();
    /// batch.put("seat 12", "Ada")?;
    /// db.write(batch)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, an
    /// inverted range · `NotSupported`: the database is read-only, or the family has no merge
    /// operator ·
    /// `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn write(&self, batch: impl BatchArg) -> Result<()> {
        self.db.write(batch)
    }

    /// Creates families: [`Db::create_column_families`].
    /// # Errors
    /// `InvalidArgument`: a name is taken, empty or has a NUL, or an option is out of range ·
    /// `NotSupported`: the database is read-only · `IoError` from the MANIFEST.
    pub fn create_column_families(
        &self,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<Vec<ColumnFamilyHandle>> {
        self.db.create_column_families(families)
    }
}

/// A range that was read or removed; `None` is an open end, both ends belong to it.
#[derive(Clone, Debug)]
struct Range {
    family: ColumnFamilyId,
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    since: SequenceNumber,
}

#[derive(Debug)]
struct SavePoint {
    snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// Number of entries of `touched_since` before it.
    touched: usize,
    ranges: usize,
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
    /// No borrow outlives the call that needs it.
    own: RefCell<Own>,
}

/// Writes of a transaction, and the keys it has touched.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) db: Db,
    write_options: WriteOptions,
    pub(super) isolation: IsolationLevel,
    pub(super) batch: WriteBatchWithIndex,
    pub(super) snapshot: Option<Snapshot>,
    snapshot_needed: bool,
    /// All that was touched was looked at as of the snapshot that it has.
    reads_one_snapshot: bool,
    /// Keys, with the oldest sequence number since which they must not have been written.
    touched: BTreeMap<(ColumnFamilyId, Vec<u8>), SequenceNumber>,
    /// The previous value in `touched`, for each change to it since the first save point.
    touched_since: Vec<(ColumnFamilyId, Vec<u8>, Option<SequenceNumber>)>,
    ranges: Vec<Range>,
    families: BTreeMap<ColumnFamilyId, ColumnFamilyHandle>,
    save_points: Vec<SavePoint>,
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
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.touch(family, key.as_ref())?;
        own.batch.put_cf(family.id(), key.as_ref(), value.as_ref())
    }

    /// [`OptimisticTransaction::put_cf`], whether or not others write the key.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn put_untracked(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.batch.put_cf(family.id(), key.as_ref(), value.as_ref())
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
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.touch(family, key.as_ref())?;
        own.batch.delete_cf(family.id(), key.as_ref())
    }

    /// Removes `key`, which was put exactly once since its last deletion.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn single_delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.touch(family, key.as_ref())?;
        own.batch.single_delete_cf(family.id(), key.as_ref())
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
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.touch(family, key.as_ref())?;
        own.batch.merge_cf(family.id(), key.as_ref(), operand.as_ref())
    }

    /// Removes the keys of `family` from `begin` up to `end`, exclusive. Commit fails if others
    /// write there, or to `end`, before it.
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
        own.batch.delete_range_cf(family.id(), begin, end)
    }

    /// Sets the snapshot to now: others must not have written since then a key touched later.
    pub fn set_snapshot(&self) {
        self.own().set_snapshot();
    }

    /// The next operation sets the snapshot.
    pub fn set_snapshot_on_next_operation(&self) {
        self.own().snapshot_needed = true;
    }

    /// The snapshot, if one is set.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.own().snapshot.clone()
    }

    /// Forgets the snapshot.
    pub fn clear_snapshot(&self) {
        self.own().change_snapshot(None, false);
    }

    /// Remembers what is written and touched now. Save points nest.
    pub fn set_save_point(&self) {
        let own = &mut *self.own();
        own.batch.set_save_point();
        own.save_points.push(SavePoint {
            snapshot: own.snapshot.clone(),
            snapshot_needed: own.snapshot_needed,
            touched: own.touched_since.len(),
            ranges: own.ranges.len(),
        });
    }

    /// Undoes writes and forgets touched keys since the newest save point, which is gone. With
    /// `Serializable` touched keys stay touched: the caller knows the values it has read.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rollback_to_save_point(&self) -> Result<()> {
        let own = &mut *self.own();
        let point = own.save_points.pop().ok_or_else(no_save_point)?;
        own.batch.rollback_to_save_point()?;
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

    /// Forgets the newest save point.
    /// # Errors
    /// `NotFound` if there is none.
    pub fn pop_save_point(&self) -> Result<()> {
        let own = &mut *self.own();
        own.save_points.pop().ok_or_else(no_save_point)?;
        own.forget_changes();
        own.batch.pop_save_point()
    }

    /// A copy of what it has written so far.
    pub fn write_batch(&self) -> WriteBatchWithIndex {
        WriteBatchWithIndex::from(self.own().batch.write_batch().clone())
    }

    /// Writes everything to the database, as one, if nothing that was touched has been written by
    /// others.
    /// # Errors
    /// `Busy`: another has written something that this transaction touched; roll back and start
    /// anew · `TryAgain`: memtables do not reach back far enough to tell
    /// (`max_write_buffer_size_to_maintain`); roll back and start anew · `InvalidArgument`: it is
    /// over · `Incomplete`: `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`:
    /// the database was closed · `NotSupported`: the database is read-only · `IoError`: the WAL
    /// could not be written, and no write succeeds until [`Db::resume`] · the background error in
    /// force.
    pub fn commit(&self) -> Result<()> {
        let own = &mut *self.own();
        if own.is_over {
            return Err(over());
        }
        let (db, touched, ranges) = (&own.db, &own.touched, &own.ranges);
        let families = &own.families;
        let mut validate = || {
            for ((id, key), since) in touched {
                if db.written_since(&families[id], key, *since, false)? {
                    return Err(conflict(&families[id], format_args!("key '{}'", key.escape_ascii())));
                }
            }
            for range in ranges {
                let bounds = (range.begin.as_deref(), range.end.as_deref());
                if db.range_written_since(&families[&range.family], bounds, range.since, false)? {
                    let (begin, end) = (bound_text(bounds.0), bound_text(bounds.1));
                    let what = format_args!("a key from {begin} to {end}");
                    return Err(conflict(&families[&range.family], what));
                }
            }
            Ok(())
        };
        if !own.batch.is_empty() {
            db.write_if(&own.write_options, own.batch.write_batch_mut(), &mut validate)?;
        } else if own.isolation != IsolationLevel::Serializable || !own.reads_one_snapshot {
            validate()?;
        } // else it wrote nothing and read one snapshot: it comes at its place among the others, in any case

        own.clear();
        own.is_over = true;
        Ok(())
    }

    /// Forgets everything; it is as if it had just begun: without a snapshot, or with a new one if
    /// its isolation level has one.
    /// # Errors
    /// `InvalidArgument`: it is over.
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

    /// Without save points the order of changes is not needed.
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

    /// Sets the snapshot that the isolation level begins with, if nothing else has.
    fn start(&mut self) {
        if self.isolation != IsolationLevel::ReadCommitted && self.snapshot.is_none() {
            self.set_snapshot();
        }
    }

    fn clear(&mut self) {
        self.batch.clear();
        self.touched.clear();
        self.touched_since.clear();
        self.ranges.clear();
        self.save_points.clear();
        self.change_snapshot(None, false);
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

    /// Since when what is touched now must not have been written.
    fn since(&mut self) -> SequenceNumber {
        if self.snapshot_needed {
            self.set_snapshot();
        }
        self.snapshot.as_ref().map_or_else(|| self.db.latest_sequence_number(), Snapshot::sequence)
    }

    /// Notes that the transaction has touched `key`, for the check at the commit.
    /// # Errors
    /// `InvalidArgument` for a family of another database: it would pass for that of ours with the
    /// same id.
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

    /// Notes that the transaction has touched a range, for the check at the commit.
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
