//! A database whose transactions lock the keys they touch.
//!
//! In: the user's calls. Out: transactions; and writes outside of them, which take the same locks
//! briefly.
//!
//! Invariants
//!  1. A prepared transaction is in `names`, with its core if it has no handle. It keeps its locks.
//!  2. Every family that can be written to has its lock table before any caller gets a handle to
//!     it.

use super::batch_index::WriteBatchWithIndex;
use super::counts::OpCounts;
use super::direct_writes::DirectWrites;
use super::options::{TransactionDbOptions, TransactionOptions, WritePolicy};
use super::pessimistic::{PessimisticCore, Transaction};
use super::secondary_index::check_policy;
use super::timestamps::{check_timestamps, is_timestamped};
use crate::db::{BatchArg, ColumnFamilyDescriptor, ColumnFamilyHandle, Db};
use crate::options::{ColumnFamilyOptions, DbOptions, Options, WriteOptions};
use crate::snapshot::Snapshot;
use esker_base::sync::{Arc, Mutex};
use esker_base::{ColumnFamilyId, Error, Result};
use esker_format::write_batch::BatchOp;
use esker_lock::{
    DeadlockPath, Endpoint, FamilyOptions, LockClock, LockCounters, LockInfo, LockManager,
    LockManagerOptions, LockMode, Locker, Locking, Timeout, WaitInfo,
};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A database with transactions that lock. A clone is a further handle to the same database.
#[derive(Clone, Debug)]
pub struct TransactionDb {
    pub(super) shared: Arc<TransactionDbShared>,
}

/// State that the handles and their transactions share.
pub(super) struct TransactionDbShared {
    pub(super) db: Db,
    pub(super) locks: LockManager,
    pub(super) options: TransactionDbOptions,
    /// Whether a write of a transaction is a lock and an op, without more work: the policy is
    /// `WriteCommitted`, and there are no secondary indices.
    pub(super) has_plain_writes: bool,
    pub(super) direct_writes: DirectWrites,
    /// Named transactions. A prepared transaction without a handle has its core here.
    pub(super) names: Mutex<BTreeMap<Vec<u8>, Option<Box<PessimisticCore>>>>,
    /// Snapshots by the user's timestamps. With the timestamps, their sequence numbers never fall.
    pub(super) timestamped_snapshots: Mutex<BTreeMap<u64, Snapshot>>,
}

impl fmt::Debug for TransactionDbShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionDb").field("db", &self.db).finish_non_exhaustive()
    }
}

/// The environment's clock, for the lock manager.
pub(super) struct EnvClock(pub(super) Arc<dyn esker_env::Clock>);

impl LockClock for EnvClock {
    fn monotonic_nanos(&self) -> u64 {
        self.0.monotonic_nanos()
    }
    fn now_seconds(&self) -> u64 {
        self.0.now_seconds()
    }
}

impl TransactionDb {
    /// Opens the database in `path` with its default family only.
    ///
    /// ```
    /// use esker::{Options, TransactionDb, TransactionDbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// let db = TransactionDb::open(&options, &TransactionDbOptions::default(), dir.path())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that are not named (the message names them); an
    /// option is out of range; a family has timestamps of another size than 8 bytes ·
    /// `IoError`, retryable: open elsewhere · `Corruption`: names file and offset ·
    /// `NotSupported`: names the feature, or a write policy that a family's timestamps or
    /// `secondary_indices` exclude · `IoError` from the directory.
    pub fn open(
        options: &Options,
        txn_options: &TransactionDbOptions,
        path: impl AsRef<Path>,
    ) -> Result<TransactionDb> {
        let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
        TransactionDb::open_cf(&options.db, txn_options, path, [default])
    }

    /// Opens the database in `path` with these families, which must be all it has, with
    /// `allow_2pc`. Transactions that were prepared before a close or a crash are restored:
    /// [`TransactionDb::get_all_prepared_transactions`].
    ///
    /// A family is a name, a name with options, or a [`ColumnFamilyDescriptor`].
    ///
    /// ```
    /// use esker::{DbOptions, TransactionDb, TransactionDbOptions};
    /// # let dir = esker_testkit::TempDir::new("doc");
    ///
    /// let options = DbOptions::new().create_if_missing(true).create_missing_column_families(true);
    /// let locks = TransactionDbOptions::default();
    /// let db = TransactionDb::open_cf(&options, &locks, dir.path(), ["default", "accounts"])?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the database does not exist and `create_if_missing` is off; it exists and
    /// `error_if_exists` is on; it has families that are not named (the message names them); an
    /// option is out of range; a family has timestamps of another size than 8 bytes ·
    /// `IoError`, retryable: open elsewhere · `Corruption`: names file and offset ·
    /// `NotSupported`: names the feature, or a write policy that a family's timestamps or
    /// `secondary_indices` exclude · `IoError` from the directory.
    pub fn open_cf(
        options: &DbOptions,
        txn_options: &TransactionDbOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<TransactionDb> {
        let families = ColumnFamilyDescriptor::list(families);
        let policy = txn_options.write_policy;
        if txn_options.max_lock_memory == 0 {
            return Err(Error::invalid_argument("max_lock_memory: with 0 bytes nothing can be locked"));
        }
        check_policy(&txn_options.secondary_indices, policy)?;
        families.iter().try_for_each(|family| check_timestamps(&family.name, &family.options, policy))?;
        let mut options = options.clone();
        options.allow_2pc = true;
        let db = match policy {
            WritePolicy::WriteCommitted => Db::open_cf(&options, path, families)?,
            _ => Db::open_write_prepared(&options, path.as_ref(), families)?,
        };
        let clock = Arc::new(EnvClock(options.env.clock.clone()));
        let locks = LockManager::new(LockManagerOptions {
            max_lock_memory: txn_options.max_lock_memory,
            max_num_deadlocks: txn_options.max_num_deadlocks as usize,
            ..LockManagerOptions::new(clock)
        });
        let names = Mutex::new(BTreeMap::new());
        let options = txn_options.clone();
        let timestamped_snapshots = Mutex::new(BTreeMap::new());
        let has_plain_writes = policy == WritePolicy::WriteCommitted && options.secondary_indices.is_empty();
        let direct_writes = DirectWrites::of(&options);
        let shared = Arc::new(TransactionDbShared {
            db,
            locks,
            options,
            has_plain_writes,
            direct_writes,
            names,
            timestamped_snapshots,
        });
        let db = TransactionDb { shared };
        for name in db.db().column_family_names() {
            if let Some(family) = db.db().column_family(&name) {
                db.add_locks(&family)?;
            }
        }
        db.restore_prepared()?;
        Ok(db)
    }

    /// The database itself: reads, flushes, compactions, properties. Writes through it take no
    /// locks and are invisible to the conflict checks of transactions.
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    /// The options with which it was opened.
    pub fn options(&self) -> &TransactionDbOptions {
        &self.shared.options
    }

    /// Begins a transaction with default options. A drop rolls it back, unless it is prepared.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("ada", "900")?;
    /// txn.put("grace", "1100")?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn begin_transaction(&self) -> Transaction {
        self.begin_transaction_opt(&WriteOptions::default(), &TransactionOptions::default())
    }

    /// Begins a transaction. A drop rolls it back, unless it is prepared.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::{TransactionOptions, WriteOptions};
    ///
    /// let durable = WriteOptions::new().sync(true);
    /// let patient = TransactionOptions::default().lock_timeout(5000).deadlock_detect(true);
    /// let txn = db.begin_transaction_opt(&durable, &patient);
    /// txn.put("ada", "900")?;
    /// txn.commit()?;
    /// db.db().flush()?;
    /// assert_eq!(db.options().default_lock_timeout, 1000);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn begin_transaction_opt(
        &self,
        write_options: &WriteOptions,
        options: &TransactionOptions,
    ) -> Transaction {
        Transaction::begin(self.shared.clone(), write_options, options)
    }

    /// All prepared transactions without a handle: those from before a crash, and those whose
    /// handle was dropped.
    pub fn get_all_prepared_transactions(&self) -> Vec<Transaction> {
        if !self.db().engine().owner.is_here() {
            return Vec::new();
        }
        let mut names = self.shared.names.lock();
        let cores: Vec<_> = names.values_mut().filter_map(Option::take).collect();
        drop(names);
        cores.into_iter().map(|core| Transaction::of_core(self.shared.clone(), core)).collect()
    }

    /// The prepared transaction called `name`; `None` if there is none, or if it has a handle.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.set_name(b"transfer 17")?;
    /// txn.put("ada", "900")?;
    /// txn.prepare()?;
    /// drop(txn);
    /// let found = db.get_transaction_by_name(b"transfer 17").expect("it is prepared");
    /// found.rollback()?;
    /// assert!(db.get_all_prepared_transactions().is_empty());
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn get_transaction_by_name(&self, name: &[u8]) -> Option<Transaction> {
        self.db().engine().check_process().ok()?;
        let core = self.shared.names.lock().get_mut(name)?.take()?;
        Some(Transaction::of_core(self.shared.clone(), core))
    }

    /// Creates a family, with a lock table: [`Db::create_column_family`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let users = db.create_column_family("users", &Default::default())?;
    /// let more = db.create_column_families(["orders", "items"])?;
    /// db.put_cf(&users, "ada", "countess")?;
    /// db.drop_column_family(&users)?;
    /// db.drop_column_families(&[&more[0], &more[1]])?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name is taken, empty or has a NUL, an option is out of range, or keys
    /// have timestamps of another size than 8 bytes · `NotSupported`: the database is read-only ·
    /// `IoError` from the MANIFEST.
    pub fn create_column_family(
        &self,
        name: &str,
        options: &ColumnFamilyOptions,
    ) -> Result<ColumnFamilyHandle> {
        check_timestamps(name, options, self.shared.options.write_policy)?;
        let family = self.db().create_column_family(name, options)?;
        self.add_locks(&family)?;
        Ok(family)
    }

    /// Creates families, with lock tables: [`Db::create_column_families`].
    /// # Errors
    /// `InvalidArgument`: a name is taken, empty or has a NUL, an option is out of range, or keys
    /// have timestamps of another size than 8 bytes · `NotSupported`: the database is read-only ·
    /// `IoError` from the MANIFEST.
    pub fn create_column_families(
        &self,
        families: impl IntoIterator<Item = impl Into<ColumnFamilyDescriptor>>,
    ) -> Result<Vec<ColumnFamilyHandle>> {
        let families = ColumnFamilyDescriptor::list(families);
        let policy = self.shared.options.write_policy;
        families.iter().try_for_each(|f| check_timestamps(&f.name, &f.options, policy))?;
        let families = self.db().create_column_families(families)?;
        families.iter().try_for_each(|family| self.add_locks(family))?;
        Ok(families)
    }

    /// Drops a family: [`Db::drop_column_family`]. A wait for a lock in the family ends with
    /// `ColumnFamilyDropped`.
    /// # Errors
    /// `InvalidArgument`: the default family, a family that was dropped already or is named twice,
    /// or one of another database · `IoError` from the MANIFEST or the OPTIONS file.
    pub fn drop_column_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.drop_column_families(&[family])
    }

    /// Drops families: [`Db::drop_column_families`]. A wait for a lock in one of them ends with
    /// `ColumnFamilyDropped`.
    /// # Errors
    /// `InvalidArgument`: the default family, a family that was dropped already or is named twice,
    /// or one of another database · `IoError` from the MANIFEST or the OPTIONS file.
    pub fn drop_column_families(&self, families: &[&ColumnFamilyHandle]) -> Result<()> {
        self.db().drop_column_families(families)?;
        families.iter().try_for_each(|family| self.shared.locks.drop_family(family.id()))
    }

    /// Stores `value` under `key` in the default family; locks the key during the write.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.put("ada", "1000")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `NotSupported`: a family with user-defined timestamps or a forked child process ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf(&self.db().default_column_family(), key, value)
    }

    /// Stores `value` under `key` in `family`; locks the key during the write.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: a family of another database · `ColumnFamilyDropped` ·
    /// `NotSupported`: a family with user-defined timestamps or a forked child process ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn put_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_opt(&WriteOptions::default(), family, key, value)
    }

    /// [`put_cf`](Self::put_cf) with options.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::WriteOptions;
    ///
    /// let (durable, family) = (WriteOptions::new().sync(true), db.default_column_family());
    /// db.put_cf(&family, "ada", "900")?;
    /// db.put_opt(&durable, &family, "ada", "901")?;
    /// db.delete_cf(&family, "ada")?;
    /// db.delete_opt(&durable, &family, "ada")?;
    /// db.delete_range_cf(&family, "a", "b")?;
    /// db.delete_range_opt(&durable, &family, "a", "b")?;
    /// db.write_opt(&durable, esker::WriteBatch::new())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: options that contradict each other or a family of another
    /// database · `ColumnFamilyDropped` · `NotSupported`: a family with user-defined timestamps or
    /// a forked child process · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn put_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_one(options, family, |batch| batch.put_cf(family, key, value))
    }

    /// Removes `key` from the default family; locks it during the write.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.delete("ada")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `NotSupported`: a family with user-defined timestamps or a forked child process ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf(&self.db().default_column_family(), key)
    }

    /// Removes `key` from `family`; locks it during the write.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: a family of another database · `ColumnFamilyDropped` ·
    /// `NotSupported`: a family with user-defined timestamps or a forked child process ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(&WriteOptions::default(), family, key)
    }

    /// [`delete_cf`](Self::delete_cf) with options.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: options that contradict each other or a family of another
    /// database · `ColumnFamilyDropped` · `NotSupported`: a family with user-defined timestamps or
    /// a forked child process · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn delete_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_one(options, family, |batch| batch.delete_cf(family, key))
    }

    /// Adds an operand to `key` in the default family; locks it during the write.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.merge("visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `NotSupported`: a database with secondary indices, a family with user-defined
    /// timestamps, or a forked child process · `ShutdownInProgress`: the database was closed ·
    /// `IoError`: the WAL could not be written · the background error in force.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf(&self.db().default_column_family(), key, operand)
    }

    /// Adds an operand to `key` in `family`; locks it during the write.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: a family of another database · `ColumnFamilyDropped` ·
    /// `NotSupported`: a database with secondary indices, a family with user-defined timestamps, or
    /// a forked child process · `ShutdownInProgress`: the database was closed · `IoError`: the
    /// WAL could not be written · the background error in force.
    pub fn merge_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_opt(&WriteOptions::default(), family, key, operand)
    }

    /// [`merge_cf`](Self::merge_cf) with options.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let family = db.default_column_family();
    /// db.merge_cf(&family, "visits", 1u64.to_le_bytes())?;
    /// db.merge_opt(&Default::default(), &family, "visits", 1u64.to_le_bytes())?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: options that contradict each other or a family of another
    /// database · `ColumnFamilyDropped` · `NotSupported`: a database with secondary indices, a
    /// family with user-defined timestamps, or a forked child process · `Incomplete`:
    /// `no_slowdown` is set, and writers are stalled · `ShutdownInProgress`: the database was
    /// closed · `IoError`: the WAL could not be written · the background error in force.
    pub fn merge_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_one(options, family, |batch| batch.merge_cf(family, key, operand))
    }

    /// Removes the keys from `begin` up to `end`, exclusive, from the default family; locks the
    /// range, `end` too.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.delete_range("log/2025", "log/2026")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: `end` comes before `begin` · `NotSupported`: a range, where
    /// only points can be locked, a family with a secondary index or with user-defined timestamps,
    /// or a forked child process · `ShutdownInProgress`: the database was closed · `IoError`: the
    /// WAL could not be written · the background error in force.
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf(&self.db().default_column_family(), begin, end)
    }

    /// Removes the keys from `begin` up to `end`, exclusive, from `family`; locks the range, `end`
    /// too.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: a family of another database or `end` comes before `begin` ·
    /// `ColumnFamilyDropped` · `NotSupported`: a range, where only points can be locked, a family
    /// with a secondary index or with user-defined timestamps, or a forked child process ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn delete_range_cf(
        &self,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_opt(&WriteOptions::default(), family, begin, end)
    }

    /// [`delete_range_cf`](Self::delete_range_cf) with options.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: options that contradict each other, a family of another
    /// database, or `end` comes before `begin` · `ColumnFamilyDropped` · `NotSupported`: a range,
    /// where only points can be locked, a family with a secondary index or with user-defined
    /// timestamps, or a forked child process · `Incomplete`: `no_slowdown` is set, and writers are
    /// stalled · `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be
    /// written · the background error in force.
    pub fn delete_range_opt(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_one(options, family, |batch| batch.delete_range_cf(family, begin, end))
    }

    /// Writes `batch` atomically, outside of any transaction.
    ///
    /// Locks the keys of the batch, in their order, until it is written, unless
    /// `skip_concurrency_control` is on. The batch comes by value, by `&mut` or by `&`: see
    /// [`BatchArg`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let mut options = esker::Options::default();
    /// # options.db.create_if_missing = true;
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let mut batch = esker::WriteBatch::new();
    /// batch.put("ada", "900")?;
    /// batch.put("grace", "1100")?;
    /// db.write(batch)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: a family that is not open or a range that ends before it begins
    /// · `ColumnFamilyDropped` · `NotSupported`: a range, where only points can be locked, a family
    /// with user-defined timestamps, or a forked child process · `ShutdownInProgress`: the database
    /// was closed · `IoError`: the WAL could not be written · the background error in force.
    pub fn write(&self, batch: impl BatchArg) -> Result<()> {
        self.write_opt(&WriteOptions::default(), batch)
    }

    /// [`write`](Self::write) with options.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another holds the lock for longer than `default_lock_timeout` ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Aborted(LockLimit)`: locks take too much
    /// memory · `InvalidArgument`: options that contradict each other, a family that is not open,
    /// or a range that ends before it begins · `ColumnFamilyDropped` · `NotSupported`: a range,
    /// where only points can be locked, a family with user-defined timestamps, or a forked child
    /// process · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be written ·
    /// the background error in force.
    pub fn write_opt(&self, options: &WriteOptions, batch: impl BatchArg) -> Result<()> {
        batch.lend(|batch| {
            if self.shared.options.skip_concurrency_control {
                return self.db().write_opt(options, batch);
            }
            self.write_locked(options, batch)
        })
    }

    /// Every lock that is held: RocksDB's `GetLockStatusData` and `GetRangeLockStatusData`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.set_deadlock_info_buffer_size(16);
    /// let txn = db.begin_transaction();
    /// txn.put("ada", "900")?;
    /// for lock in db.get_lock_status_data() {
    ///     println!("{lock:?}");
    /// }
    /// assert!(db.get_waiting_transactions().is_empty());
    /// assert!(db.get_deadlock_info_buffer().is_empty());
    /// println!("{:?}", db.lock_counters());
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn get_lock_status_data(&self) -> Vec<LockInfo> {
        self.shared.locks.locks()
    }

    /// Every waiting request for a lock, with the transactions for which it waits.
    pub fn get_waiting_transactions(&self) -> Vec<WaitInfo> {
        self.shared.locks.waits()
    }

    /// The most recent deadlocks, newest first.
    pub fn get_deadlock_info_buffer(&self) -> Vec<DeadlockPath> {
        self.shared.locks.deadlocks()
    }

    /// Sets the number of deadlocks that are remembered.
    pub fn set_deadlock_info_buffer_size(&self, deadlocks: u32) {
        self.shared.locks.set_max_num_deadlocks(deadlocks as usize);
    }

    /// Counts of lock operations since the database was opened.
    pub fn lock_counters(&self) -> LockCounters {
        self.shared.locks.counters()
    }

    fn add_locks(&self, family: &ColumnFamilyHandle) -> Result<()> {
        let options = FamilyOptions {
            comparator: family.cf.icmp.without_timestamp().user_comparator().clone(),
            locking: self.shared.options.locking,
            ..FamilyOptions::default()
        };
        let locks = self.shared.locks.add_family(family.id(), &options)?;
        family
            .cf
            .locks
            .set(locks)
            .map_err(|_| Error::invalid_argument("the database has transactions that lock already"))
    }

    /// Gives prepared transactions of an earlier opening their locks back.
    fn restore_prepared(&self) -> Result<()> {
        let sections: Vec<_> = {
            let prepared = self.db().engine().prepared.lock();
            prepared.iter().map(|(xid, batch)| (xid.to_vec(), batch.clone())).collect()
        };
        for (name, batch) in sections {
            let options = TransactionOptions::default();
            let mut core = PessimisticCore::new(&self.shared, &WriteOptions::default(), &options);
            // Two prepared transactions may have written the same key only if they took no locks.
            core.locker.set_lock_timeout(Timeout::Never);
            for (id, key, end) in batch.iter().filter_map(target) {
                let Some(cf) = self.db().engine().families.by_id(id) else { continue };
                let (key, _) = cf.icmp.split_timestamp(key);
                let end = end.map(|end| cf.icmp.split_timestamp(end).0);
                let family = ColumnFamilyHandle { cf: cf.clone() };
                let locks = self.shared.locks_of(&family)?;
                let end = end.filter(|_| self.shared.options.locking == Locking::Ranges);
                if end.is_some() {
                    core.range_locked.insert(id);
                }
                match lock(&mut core.locker, locks, &family, key, end, LockMode::Exclusive) {
                    Err(e) if e.kind() != esker_base::ErrorKind::TimedOut => return Err(e),
                    _ => {}
                }
            }
            core.may_have_timestamps = is_timestamped(self.db(), &batch);
            core.batch = WriteBatchWithIndex::from((*batch).clone());
            core.counts = OpCounts::of(&batch);
            core.set_prepared();
            core.name = Some(name.clone());
            self.shared.names.lock().insert(name, Some(Box::new(core)));
        }
        Ok(())
    }
}

impl TransactionDbShared {
    /// The lock table of a family.
    /// # Errors
    /// `InvalidArgument` for a family of another database, or one that was not created through the
    /// `TransactionDb`.
    pub(super) fn locks_of<'a>(
        &self,
        family: &'a ColumnFamilyHandle,
    ) -> Result<&'a Arc<esker_lock::LockFamily>> {
        family.cf.locks.get().ok_or_else(|| {
            Error::invalid_argument(format!(
                "column family '{}' was not opened or created by this TransactionDb",
                family.name()
            ))
        })
    }
}

/// Locks a key, or the keys from it to `end`.
pub(super) fn lock(
    locker: &mut Locker,
    locks: &Arc<esker_lock::LockFamily>,
    family: &ColumnFamilyHandle,
    key: &[u8],
    end: Option<&[u8]>,
    mode: LockMode,
) -> Result<()> {
    match end {
        None => locker.lock_key(locks, key, mode),
        Some(end) if family.cf.icmp.compare_user_keys(key, end).is_gt() => {
            Err(Error::invalid_argument("end key comes before start key"))
        }
        Some(end) => locker.lock_range(locks, Endpoint::Key(key), Endpoint::Key(end), mode),
    }
}

/// A family and a key, or a range from the key to an end.
pub(super) type LockTarget<'a> = (ColumnFamilyId, &'a [u8], Option<&'a [u8]>);

/// The target of an operation.
pub(super) fn target(op: BatchOp<'_>) -> Option<LockTarget<'_>> {
    match op {
        BatchOp::Put { family, key, .. }
        | BatchOp::Delete { family, key }
        | BatchOp::SingleDelete { family, key }
        | BatchOp::Merge { family, key, .. }
        | BatchOp::BlobIndex { family, key, .. }
        | BatchOp::PutEntity { family, key, .. }
        | BatchOp::TimedPut { family, key, .. } => Some((family, key, None)),
        BatchOp::DeleteRange { family, begin, end } => Some((family, begin, Some(end))),
        _ => None,
    }
}
