//! Writes of optimistic transactions that the commit does not check, and reads for update that are
//! undone.
//!
//! Source of the semantics: RocksDB `utilities/transactions/transaction_base.cc`.

use super::counts::CountedOp;
use super::optimistic::Own;
use super::options::IsolationLevel;
use super::{OptimisticTransaction, WriteBatchWithIndex};
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
        self.put_as(family, key.as_ref(), value.as_ref(), false)
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
        self.delete_as(family, key.as_ref(), false)
    }

    /// [`OptimisticTransaction::single_delete_cf`], without a check for writes of others.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the family is one of another database ·
    /// `ColumnFamilyDropped` · `NotSupported`: the family has user-defined timestamps.
    pub fn single_delete_untracked(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_as(family, key.as_ref(), false)
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
        self.merge_as(family, key.as_ref(), operand.as_ref(), false)
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

/// Writes of both kinds. `is_checked`: the commit fails if others write the key before it.
impl OptimisticTransaction {
    pub(super) fn put_as(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        value: &[u8],
        is_checked: bool,
    ) -> Result<()> {
        let put = |batch: &mut WriteBatchWithIndex| batch.put_cf(family.id(), key, value);
        self.own().write(family, key, is_checked, CountedOp::Put, put)
    }

    pub(super) fn delete_as(&self, family: &ColumnFamilyHandle, key: &[u8], is_checked: bool) -> Result<()> {
        let delete = |batch: &mut WriteBatchWithIndex| batch.delete_cf(family.id(), key);
        self.own().write(family, key, is_checked, CountedOp::Delete, delete)
    }

    pub(super) fn single_delete_as(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        is_checked: bool,
    ) -> Result<()> {
        let delete = |batch: &mut WriteBatchWithIndex| batch.single_delete_cf(family.id(), key);
        self.own().write(family, key, is_checked, CountedOp::Delete, delete)
    }

    pub(super) fn merge_as(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        operand: &[u8],
        is_checked: bool,
    ) -> Result<()> {
        let merge = |batch: &mut WriteBatchWithIndex| batch.merge_cf(family.id(), key, operand);
        self.own().write(family, key, is_checked, CountedOp::Merge, merge)
    }

    pub(super) fn put_entity_as(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        columns: &[(&[u8], &[u8])],
        is_checked: bool,
    ) -> Result<()> {
        let put = |batch: &mut WriteBatchWithIndex| batch.put_entity_cf(family.id(), key, columns);
        self.own().write(family, key, is_checked, CountedOp::PutEntity, put)
    }
}

impl Own {
    /// Adds an op on `key`. `is_checked`: the commit fails if others write the key before it.
    fn write(
        &mut self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        is_checked: bool,
        op: CountedOp,
        add: impl FnOnce(&mut WriteBatchWithIndex) -> Result<()>,
    ) -> Result<()> {
        self.check_usable(family)?;
        if is_checked {
            self.touch(family, key)?;
        }
        self.add(op, add)
    }

    /// [`Own::touch`] for a read for update, which may be undone.
    /// # Errors
    /// Those of [`Own::touch`].
    pub(super) fn touch_for_update(&mut self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        self.touch(family, key)?;
        *self.reads.entry((family.id(), key.to_vec())).or_insert(0) += 1;
        Ok(())
    }
}
