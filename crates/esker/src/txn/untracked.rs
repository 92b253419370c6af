//! Writes of optimistic transactions that the commit does not check, and reads for update that are
//! undone.
//!
//! Source of the semantics: RocksDB `utilities/transactions/transaction_base.cc`.

use super::OptimisticTransaction;
use super::counts::CountedOp;
use super::optimistic::Own;
use super::options::IsolationLevel;
use crate::db::ColumnFamilyHandle;
use crate::options::WriteOptions;
use esker_base::Result;

impl OptimisticTransaction {
    /// [`OptimisticTransaction::put_cf`], without a check for writes of others.
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
        own.add(CountedOp::Put, |batch| batch.put_cf(family.id(), key.as_ref(), value.as_ref()))
    }

    /// [`OptimisticTransaction::delete_cf`], without a check for writes of others.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let family = db.default_column_family();
    /// let txn = db.begin_transaction();
    /// txn.delete_untracked(&family, "a")?;
    /// txn.single_delete_untracked(&family, "b")?;
    /// txn.merge_untracked(&family, "visits", 1u64.to_le_bytes())?;
    /// db.put("a", "of others")?;
    /// txn.commit()?;
    /// assert!(!db.contains_key("a")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn delete_untracked(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.add(CountedOp::Delete, |batch| batch.delete_cf(family.id(), key.as_ref()))
    }

    /// [`OptimisticTransaction::single_delete_cf`], without a check for writes of others.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn single_delete_untracked(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.add(CountedOp::Delete, |batch| batch.single_delete_cf(family.id(), key.as_ref()))
    }

    /// [`OptimisticTransaction::merge_cf`], without a check for writes of others.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn merge_untracked(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let own = &mut *self.own();
        own.check_usable(family)?;
        own.add(CountedOp::Merge, |batch| batch.merge_cf(family.id(), key.as_ref(), operand.as_ref()))
    }

    /// Undoes one `get_for_update` of `key`. If it was the last one since the newest save point,
    /// and the transaction has not written the key, the commit does not check the key. With
    /// `Serializable`, the call does nothing: the commit checks all keys that were read.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.get_for_update("stock")?;
    /// db.put("stock", "5")?;
    /// txn.undo_get_for_update(&db.default_column_family(), "stock");
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn undo_get_for_update(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) {
        let own = &mut *self.own();
        if own.isolation == IsolationLevel::Serializable {
            return;
        }
        let name = (family.id(), key.as_ref().to_vec());
        let Some(count) = own.reads.get_mut(&name) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        own.reads.remove(&name);
        let is_read_before = own.save_points.iter().any(|point| point.reads.contains_key(&name));
        if !is_read_before && !own.batch.may_write(family, key.as_ref()) {
            own.touched.remove(&name);
        }
    }

    /// Sets the options of the write that commits.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("seat 12", "Ada")?;
    /// txn.set_write_options(&esker::WriteOptions::new().sync(true));
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn set_write_options(&self, options: &WriteOptions) {
        self.own().write_options = *options;
    }
}

impl Own {
    /// [`Own::touch`] for a read for update, which may be undone.
    /// # Errors
    /// Those of [`Own::touch`].
    pub(super) fn touch_for_update(&mut self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        self.touch(family, key)?;
        *self.reads.entry((family.id(), key.to_vec())).or_insert(0) += 1;
        Ok(())
    }
}
