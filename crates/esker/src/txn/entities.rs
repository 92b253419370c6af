//! Wide columns in batches and transactions.
//!
//! In: entities, or their parts in several families. Out: the same as those of the database
//! ([`Db::get_entity`]), with own writes over it. Locks, snapshots and conflicts are those of plain
//! values: an entity is the value of its key.
//! Source: RocksDB `include/rocksdb/utilities/{transaction,write_batch_with_index}.h`.

use super::batch_index::WriteBatchWithIndex;
use super::options::IsolationLevel;
use super::timestamps::refuse_timestamps;
use super::{OptimisticTransaction, Transaction};
use crate::db::{AttributeGroup, ColumnFamilyHandle, Db, WideColumns};
use crate::options::ReadOptions;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_lock::LockMode;

/// Columns of an entity: names and values, in any order.
type Columns<'a> = [(&'a [u8], &'a [u8])];

impl WriteBatchWithIndex {
    /// Sets `key` to an entity of these columns (name, value), which may stand in any order.
    /// # Errors
    /// `InvalidArgument` if a name occurs twice, else see [`put`](Self::put).
    pub fn put_entity(&mut self, family: ColumnFamilyId, key: &[u8], columns: &Columns<'_>) -> Result<()> {
        self.batch.put_entity(family, key, columns)
    }

    /// The columns that `key` would have if the batch were written: `options` say as of when the
    /// database is read.
    /// # Errors
    /// As [`Db::get_entity`] · `NotSupported`: the family has user-defined timestamps.
    pub fn get_entity_from_batch_and_db(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<Option<WideColumns>> {
        one(self.entities(db, options, family, &[key]))
    }

    /// [`get_entity_from_batch_and_db`](Self::get_entity_from_batch_and_db) of many keys, as of the
    /// same point in time, each with its own result; answers stand as the keys do.
    /// # Errors
    /// Of each key: as there.
    pub fn multi_get_entity_from_batch_and_db(
        &self,
        db: &Db,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<WideColumns>>> {
        self.entities(db, options, family, keys)
    }
}

impl Transaction {
    /// The columns of `key` in `family`, as this transaction sees them; a plain value is a column
    /// without a name.
    /// # Errors
    /// As [`Transaction::get_opt`].
    pub fn get_entity(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        one(self.multi_get_entity(options, family, &[key]))
    }

    /// [`Transaction::get_entity`] of many keys, all as of the same point in time, each with its
    /// own result; answers stand as the keys do.
    /// # Errors
    /// Of each key: as [`Transaction::get_opt`]; a lock that is not given fails its key alone.
    pub fn multi_get_entity(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<WideColumns>>> {
        self.reading_many(family, keys, |this| {
            this.core().batch.entities(this.db(), &this.read_options(options), family, keys)
        })
    }

    /// Locks `key` and reads its columns: [`Transaction::get_for_update_opt`] of an entity.
    /// # Errors
    /// As there.
    pub fn get_entity_for_update(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        mode: LockMode,
        do_validate: bool,
    ) -> Result<Option<WideColumns>> {
        refuse_timestamps(family, "entities")?;
        let key = key.as_ref();
        self.lock_for_update(options, family, key, mode, do_validate)?;
        one(self.core().batch.entities(self.db(), &self.read_options(options), family, &[key]))
    }

    /// Sets `key` in `family` to an entity of these columns (name, value), in any order; the key is
    /// locked.
    /// # Errors
    /// `InvalidArgument` if a name occurs twice · as [`Transaction::put_cf`].
    pub fn put_entity(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        refuse_timestamps(family, "entities")?;
        self.lock(family, key.as_ref(), None, LockMode::Exclusive, true)?;
        self.core_mut().batch.put_entity(family.id(), key.as_ref(), columns)
    }

    /// [`Transaction::put_entity`], whether or not the key was written since the snapshot.
    /// # Errors
    /// As [`Transaction::put_entity`].
    pub fn put_entity_untracked(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        refuse_timestamps(family, "entities")?;
        self.lock(family, key.as_ref(), None, LockMode::Exclusive, false)?;
        self.core_mut().batch.put_entity(family.id(), key.as_ref(), columns)
    }

    /// Sets `key` in several families, in each to the columns of its group; the key is locked in
    /// all of them first.
    /// # Errors
    /// `InvalidArgument` without groups · as [`Transaction::put_entity`].
    pub fn put_entity_attribute_groups(
        &mut self,
        key: impl AsRef<[u8]>,
        groups: &[AttributeGroup<'_>],
    ) -> Result<()> {
        check_groups(groups)?;
        for group in groups {
            refuse_timestamps(group.column_family, "entities")?;
            self.lock(group.column_family, key.as_ref(), None, LockMode::Exclusive, true)?;
        }
        put_groups(&mut self.core_mut().batch, key.as_ref(), groups)
    }

    /// What each of the families has under `key`, all as of the same point in time; answers stand
    /// as the families do.
    /// # Errors
    /// As [`Transaction::get_opt`], the first that any of them gives.
    pub fn get_entity_attribute_groups(
        &mut self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
        key: impl AsRef<[u8]>,
    ) -> Result<Vec<Option<WideColumns>>> {
        // Before the point in time is taken: who waits for a lock reads what was committed
        // meanwhile.
        if self.core().options.isolation == IsolationLevel::Serializable {
            let mut lock = |family| self.lock(family, key.as_ref(), None, LockMode::Shared, true);
            families.iter().try_for_each(|family| lock(family))?;
        }
        let mut options = self.read_options(options);
        options.snapshot.get_or_insert_with(|| self.db().snapshot());
        families.iter().map(|family| self.get_entity(&options, family, key.as_ref())).collect()
    }
}

impl OptimisticTransaction {
    /// The columns of `key` in `family`, as this transaction sees them; a plain value is a column
    /// without a name.
    /// # Errors
    /// As [`OptimisticTransaction::get_opt`].
    pub fn get_entity(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        one(self.multi_get_entity(options, family, &[key]))
    }

    /// [`OptimisticTransaction::get_entity`] of many keys, all as of the same point in time, each
    /// with its own result; answers stand as the keys do.
    /// # Errors
    /// Of each key: as [`OptimisticTransaction::get_opt`].
    pub fn multi_get_entity(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<WideColumns>>> {
        if self.isolation == IsolationLevel::Serializable
            && let Err(error) = keys.iter().try_for_each(|key| self.touch(family, key.as_ref()))
        {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        self.batch.entities(&self.db, &self.read_options(options), family, keys)
    }

    /// The columns of a key that is going to be written, or must not be by others.
    /// # Errors
    /// As [`OptimisticTransaction::get_opt`].
    pub fn get_entity_for_update(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        self.touch(family, key.as_ref())?;
        self.get_entity(options, family, key)
    }

    /// Sets `key` in `family` to an entity of these columns (name, value), in any order.
    /// # Errors
    /// `InvalidArgument` if a name occurs twice · as [`OptimisticTransaction::put_cf`].
    pub fn put_entity(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        self.check_usable(family)?;
        self.touch(family, key.as_ref())?;
        self.batch.put_entity(family.id(), key.as_ref(), columns)
    }

    /// [`OptimisticTransaction::put_entity`], whether or not others write the key.
    /// # Errors
    /// As [`OptimisticTransaction::put_entity`].
    pub fn put_entity_untracked(
        &mut self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        self.check_usable(family)?;
        self.batch.put_entity(family.id(), key.as_ref(), columns)
    }

    /// Sets `key` in several families, in each to the columns of its group.
    /// # Errors
    /// `InvalidArgument` without groups · as [`OptimisticTransaction::put_entity`].
    pub fn put_entity_attribute_groups(
        &mut self,
        key: impl AsRef<[u8]>,
        groups: &[AttributeGroup<'_>],
    ) -> Result<()> {
        check_groups(groups)?;
        for group in groups {
            self.check_usable(group.column_family)?;
            self.touch(group.column_family, key.as_ref())?;
        }
        put_groups(&mut self.batch, key.as_ref(), groups)
    }

    /// What each of the families has under `key`, all as of the same point in time; answers stand
    /// as the families do.
    /// # Errors
    /// As [`OptimisticTransaction::get_opt`], the first that any of them gives.
    pub fn get_entity_attribute_groups(
        &mut self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
        key: impl AsRef<[u8]>,
    ) -> Result<Vec<Option<WideColumns>>> {
        // Before the point in time is taken: what is written since is a conflict.
        if self.isolation == IsolationLevel::Serializable {
            families.iter().try_for_each(|family| self.touch(family, key.as_ref()))?;
        }
        let mut options = self.read_options(options);
        options.snapshot.get_or_insert_with(|| self.db.snapshot());
        families.iter().map(|family| self.get_entity(&options, family, key.as_ref())).collect()
    }
}

/// The answer of a batch of one key.
fn one(mut answers: Vec<Result<Option<WideColumns>>>) -> Result<Option<WideColumns>> {
    answers.pop().unwrap_or(Ok(None))
}

fn check_groups(groups: &[AttributeGroup<'_>]) -> Result<()> {
    if groups.is_empty() {
        return Err(Error::invalid_argument("Cannot call this method without attribute groups"));
    }
    Ok(())
}

/// All of them, or none.
fn put_groups(batch: &mut WriteBatchWithIndex, key: &[u8], groups: &[AttributeGroup<'_>]) -> Result<()> {
    batch.set_save_point();
    let mut groups = groups.iter();
    match groups.try_for_each(|group| batch.put_entity(group.column_family.id(), key, group.columns)) {
        Ok(()) => batch.pop_save_point(),
        Err(why) => batch.rollback_to_save_point().and(Err(why)),
    }
}
