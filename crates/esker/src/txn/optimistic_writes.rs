//! Writes of a database with optimistic transactions outside of these.
//!
//! In: ops. Out: the writes of [`Db`](crate::Db). Under parallel validation they take the mutexes
//! of their keys (`occ.rs`): no transaction with one of them is then between check and write.

use super::OptimisticTransactionDb;
use super::occ::OccGuard;
use crate::db::{BatchArg, ColumnFamilyDescriptor, ColumnFamilyHandle};
use crate::options::WriteOptions;
use esker_base::{ColumnFamilyId, Result};

/// Writes outside of transactions. For transactions they count as writes of others.
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
    /// `InvalidArgument`: the keys of the family have timestamps · `NotSupported`: a forked child
    /// process · `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be
    /// written · the background error in force.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let _locked = self.lock_key(ColumnFamilyId::DEFAULT, key.as_ref());
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
    /// `InvalidArgument`: a family of another database, or one whose keys have timestamps ·
    /// `ColumnFamilyDropped` · `NotSupported`: a forked child process · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn put_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let _locked = self.lock_key(family.id(), key.as_ref());
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
    /// `InvalidArgument`: the keys of the family have timestamps · `NotSupported`: a forked child
    /// process · `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be
    /// written · the background error in force.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let _locked = self.lock_key(ColumnFamilyId::DEFAULT, key.as_ref());
        self.db.delete(key)
    }

    /// Removes `key` from `family`.
    /// # Errors
    /// `InvalidArgument`: a family of another database, or one whose keys have timestamps ·
    /// `ColumnFamilyDropped` · `NotSupported`: a forked child process · `ShutdownInProgress`: the
    /// database was closed · `IoError`: the WAL could not be written · the background error in
    /// force.
    pub fn delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        let _locked = self.lock_key(family.id(), key.as_ref());
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
    /// `InvalidArgument`: the keys of the family have timestamps · `NotSupported`: a forked child
    /// process, or the family has no merge operator · `ShutdownInProgress`: the database was closed
    /// · `IoError`: the WAL could not be written · the background error in force.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let _locked = self.lock_key(ColumnFamilyId::DEFAULT, key.as_ref());
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
    /// `InvalidArgument`: a family of another database, or one whose keys have timestamps ·
    /// `ColumnFamilyDropped` · `NotSupported`: a forked child process, or the family has no merge
    /// operator · `ShutdownInProgress`: the database was closed · `IoError`: the WAL could not be
    /// written · the background error in force.
    pub fn merge_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let _locked = self.lock_key(family.id(), key.as_ref());
        self.db.merge_opt(&WriteOptions::default(), family, key, operand)
    }

    /// Writes `batch` atomically: [`Db::write`](crate::Db::write).
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
    /// `InvalidArgument`: a family that is not open, or a range that ends before it begins ·
    /// `NotSupported`: a forked child process · `ShutdownInProgress`: the database was closed ·
    /// `IoError`: the WAL could not be written · the background error in force.
    pub fn write(&self, batch: impl BatchArg) -> Result<()> {
        self.write_opt(&WriteOptions::default(), batch)
    }

    /// Writes `batch` atomically: [`Db::write_opt`](crate::Db::write_opt).
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let mut batch = esker::WriteBatch::new();
    /// batch.put("seat 12", "Ada")?;
    /// db.write_opt(&esker::WriteOptions::new().sync(true), batch)?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: options that contradict each other, a family that is not open, or a range
    /// that ends before it begins · `Incomplete`: `no_slowdown` is set, and writers are stalled ·
    /// `NotSupported`: a forked child process · `ShutdownInProgress`: the database was closed ·
    /// `IoError`: the WAL could not be written · the background error in force.
    pub fn write_opt(&self, options: &WriteOptions, batch: impl BatchArg) -> Result<()> {
        batch.lend(|batch| {
            let _locked = self.locks.as_ref().map(|locks| locks.lock_batch(&self.db, batch));
            self.db.write_opt(options, batch)
        })
    }

    /// Under parallel validation, keeps transactions with this key from being checked.
    fn lock_key(&self, family: ColumnFamilyId, key: &[u8]) -> Option<OccGuard<'_>> {
        self.locks.as_ref().map(|locks| locks.lock_key(&self.db, family, key))
    }

    /// Creates families: [`Db::create_column_families`](crate::Db::create_column_families).
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
