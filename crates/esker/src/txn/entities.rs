//! Wide columns in batches and transactions.
//!
//! In: entities, or their parts in several families. Out: reads and writes as [`Db::get_entity`]
//! and [`Db::put_entity`] do them, with own writes over the database. Locks, snapshots and
//! conflicts are those of plain values: an entity is the value of its key.
//! Source: RocksDB `include/rocksdb/utilities/{transaction,write_batch_with_index}.h`.

use super::batch_index::WriteBatchWithIndex;
use super::counts::CountedOp;
use super::options::IsolationLevel;
use super::timestamps::refuse_timestamps;
use super::writes::KeyOp;
use super::{OptimisticTransaction, Transaction};
use crate::db::{AttributeGroup, ColumnFamilyHandle, Db, WideColumns};
use crate::options::ReadOptions;
use esker_base::{ColumnFamilyId, Error, Result};
use esker_lock::LockMode;

/// Columns of an entity: names and values, in any order.
type Columns<'a> = [(&'a [u8], &'a [u8])];

impl WriteBatchWithIndex {
    /// Sets `key` in the default family to an entity of these columns (name, value), in any order.
    ///
    /// ```
    /// let mut batch = esker::WriteBatchWithIndex::default();
    /// batch.put_entity("ada", &[(b"born", b"1815"), (b"name", b"Ada")])?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, the entry has 4 GiB or more, or the batch 2^32 - 1
    /// operations · `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The
    /// batch stays as it was.
    pub fn put_entity(&mut self, key: impl AsRef<[u8]>, columns: &Columns<'_>) -> Result<()> {
        self.batch.put_entity(key, columns)
    }

    /// Sets `key` in `family` (a handle, or its id) to an entity of these columns (name, value), in
    /// any order.
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, the entry has 4 GiB or more, or the batch 2^32 - 1
    /// operations · `Aborted`: the batch would pass [`set_max_bytes`](Self::set_max_bytes). The
    /// batch stays as it was.
    pub fn put_entity_cf(
        &mut self,
        family: impl Into<ColumnFamilyId>,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        self.batch.put_entity_cf(family, key, columns)
    }

    /// The columns that `key` would have if the batch were written: `options` give the point in
    /// time of the database.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
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
    /// same point in time, each with its own result; the answers are in the order of the keys.
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · `NotSupported`: the family has user-defined timestamps.
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
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database · with
    /// `Serializable`, which locks what is read: `TimedOut(LockTimeout)`: another transaction holds
    /// the lock · `Busy(Deadlock)`: waiting would close a cycle · `Busy`: another has written the
    /// key since the snapshot · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over. After `Busy` or
    /// `Expired`, roll back.
    pub fn get_entity(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        one(self.multi_get_entity(options, family, &[key]))
    }

    /// [`Transaction::get_entity`] of many keys, all as of the same point in time, each with its
    /// own result; the answers are in the order of the keys.
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · with `Serializable`, which locks what is read: `TimedOut(LockTimeout)`:
    /// another transaction holds the lock · `Busy(Deadlock)`: waiting would close a cycle · `Busy`:
    /// another has written the key since the snapshot · `Expired`: others may have stolen the
    /// transaction's locks · `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the
    /// transaction was cancelled · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is
    /// over. A lock that is not given fails its key alone. After `Busy` or `Expired`, roll back.
    pub fn multi_get_entity(
        &self,
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
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over; a snapshot in `options` without `do_validate` ·
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`, too:
    /// merge operands without a merge operator, or a snapshot or family of another database. After
    /// `Busy` or `Expired`, roll back.
    pub fn get_entity_for_update(
        &self,
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
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::AttributeGroup;
    ///
    /// let (read, family) = (Default::default(), db.default_column_family());
    /// let txn = db.begin_transaction();
    /// txn.put_entity(&family, "ada", &[(b"born", b"1815")])?;
    /// txn.put_entity_untracked(&family, "grace", &[(b"born", b"1906")])?;
    /// assert!(txn.get_entity(&read, &family, "ada")?.is_some());
    /// assert_eq!(txn.multi_get_entity(&read, &family, &["ada", "grace"]).len(), 2);
    /// txn.get_entity_for_update(&read, &family, "ada", esker::txn::LockMode::Exclusive, true)?;
    /// let group = AttributeGroup { column_family: &family, columns: &[(b"born", b"1918")] };
    /// txn.put_entity_attribute_groups("katherine", &[group])?;
    /// txn.get_entity_attribute_groups(&read, &[&family], "katherine")?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, or the keys of the family have timestamps ·
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · `Aborted(MemoryLimit)`: the transaction writes
    /// more than `max_write_batch_size`. The call then changes nothing. After `Busy` or `Expired`,
    /// roll back.
    pub fn put_entity(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        refuse_timestamps(family, "entities")?;
        self.write_key(family, key.as_ref(), KeyOp::PutEntity(columns), true)
    }

    /// [`Transaction::put_entity`], without a check that the key is unchanged since the snapshot.
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, or the keys of the family have timestamps ·
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over ·
    /// `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`. The call
    /// then changes nothing. After `Busy(Deadlock)` or `Expired`, roll back.
    pub fn put_entity_untracked(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        refuse_timestamps(family, "entities")?;
        self.write_key(family, key.as_ref(), KeyOp::PutEntity(columns), false)
    }

    /// Sets `key` in several families, in each to the columns of its group. Locks the key in all of
    /// them first; in a database with secondary indices, family by family.
    /// # Errors
    /// `InvalidArgument`: there are no groups, a name occurs twice, or the keys of the family have
    /// timestamps · `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`:
    /// waiting would close a cycle · `Busy`: another has written the key since the snapshot ·
    /// `Expired`: others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take
    /// too much memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · `Aborted(MemoryLimit)`: the transaction writes
    /// more than `max_write_batch_size`. The call then changes nothing. After `Busy` or `Expired`,
    /// roll back.
    pub fn put_entity_attribute_groups(
        &self,
        key: impl AsRef<[u8]>,
        groups: &[AttributeGroup<'_>],
    ) -> Result<()> {
        check_groups(groups)?;
        if !self.shared().options.secondary_indices.is_empty() {
            return self.put_groups_and_index(key.as_ref(), groups);
        }
        for group in groups {
            refuse_timestamps(group.column_family, "entities")?;
            self.lock_for_write(group.column_family, key.as_ref(), None, true)?;
        }
        let core = &mut *self.core_mut();
        put_groups(&mut core.batch, key.as_ref(), groups)?;
        groups.iter().for_each(|_| core.counts.count(CountedOp::PutEntity));
        Ok(())
    }

    /// The entities that each family has under `key`, as of the same point in time, in the
    /// families' order.
    /// # Errors
    /// The error of the first family that fails: `Corruption` and `IoError` name the file and
    /// offset · `Incomplete`: the read needs I/O that `read_tier` forbids · `TimedOut`: it needs
    /// I/O after `deadline` · `InvalidArgument`: merge operands without a merge operator, or a
    /// snapshot or family of another database · with `Serializable`, which locks what is read:
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over. After `Busy` or `Expired`, roll back.
    pub fn get_entity_attribute_groups(
        &self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
        key: impl AsRef<[u8]>,
    ) -> Result<Vec<Option<WideColumns>>> {
        // The locks come before the point in time: a caller that has waited for a lock reads values
        // that were committed meanwhile.
        if self.core().options.isolation == IsolationLevel::Serializable {
            let lock = |family| self.lock(family, key.as_ref(), None, LockMode::Shared, true);
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
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_entity(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        one(self.multi_get_entity(options, family, &[key]))
    }

    /// [`OptimisticTransaction::get_entity`] of many keys, all as of the same point in time, each
    /// with its own result; the answers are in the order of the keys.
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · `NotSupported`: the family has user-defined timestamps.
    pub fn multi_get_entity(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<WideColumns>>> {
        let own = &mut *self.own();
        if own.isolation == IsolationLevel::Serializable
            && let Err(error) = keys.iter().try_for_each(|key| own.touch(family, key.as_ref()))
        {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        own.batch.entities(&own.db, &own.read_options(options), family, keys)
    }

    /// The columns of a key, which other transactions must not write before the commit.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_entity_for_update(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<WideColumns>> {
        self.own().touch_for_update(family, key.as_ref())?;
        self.get_entity(options, family, key)
    }

    /// Sets `key` in `family` to an entity of these columns (name, value), in any order.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// use esker::AttributeGroup;
    ///
    /// let (read, family) = (Default::default(), db.default_column_family());
    /// let txn = db.begin_transaction();
    /// txn.put_entity(&family, "ada", &[(b"born", b"1815")])?;
    /// txn.put_entity_untracked(&family, "grace", &[(b"born", b"1906")])?;
    /// assert!(txn.get_entity(&read, &family, "ada")?.is_some());
    /// assert_eq!(txn.multi_get_entity(&read, &family, &["ada", "grace"]).len(), 2);
    /// txn.get_entity_for_update(&read, &family, "ada")?;
    /// let group = AttributeGroup { column_family: &family, columns: &[(b"born", b"1918")] };
    /// txn.put_entity_attribute_groups("katherine", &[group])?;
    /// txn.get_entity_attribute_groups(&read, &[&family], "katherine")?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, the transaction is over, or the family is one of
    /// another database · `ColumnFamilyDropped` · `NotSupported`: the family has user-defined
    /// timestamps.
    pub fn put_entity(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        self.put_entity_as(family, key.as_ref(), columns, true)
    }

    /// [`OptimisticTransaction::put_entity`], without a check for writes of others.
    /// # Errors
    /// `InvalidArgument`: a name occurs twice, the transaction is over, or the family is one of
    /// another database · `ColumnFamilyDropped` · `NotSupported`: the family has user-defined
    /// timestamps.
    pub fn put_entity_untracked(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        columns: &Columns<'_>,
    ) -> Result<()> {
        self.put_entity_as(family, key.as_ref(), columns, false)
    }

    /// Sets `key` in several families, in each to the columns of its group.
    /// # Errors
    /// `InvalidArgument`: there are no groups, a name occurs twice, the transaction is over, or the
    /// family is one of another database · `ColumnFamilyDropped` · `NotSupported`: the family has
    /// user-defined timestamps.
    pub fn put_entity_attribute_groups(
        &self,
        key: impl AsRef<[u8]>,
        groups: &[AttributeGroup<'_>],
    ) -> Result<()> {
        let own = &mut *self.own();
        check_groups(groups)?;
        for group in groups {
            own.check_usable(group.column_family)?;
            own.touch(group.column_family, key.as_ref())?;
        }
        put_groups(&mut own.batch, key.as_ref(), groups)?;
        groups.iter().for_each(|_| own.counts.count(CountedOp::PutEntity));
        Ok(())
    }

    /// The entities that each family has under `key`, as of the same point in time, in the
    /// families' order.
    /// # Errors
    /// The error of the first family that fails: `Corruption` and `IoError` name the file and
    /// offset · `Incomplete`: the read needs I/O that `read_tier` forbids · `TimedOut`: it needs
    /// I/O after `deadline` · `InvalidArgument`: merge operands without a merge operator, or a
    /// snapshot or family of another database · `NotSupported`: the family has user-defined
    /// timestamps.
    pub fn get_entity_attribute_groups(
        &self,
        options: &ReadOptions,
        families: &[&ColumnFamilyHandle],
        key: impl AsRef<[u8]>,
    ) -> Result<Vec<Option<WideColumns>>> {
        let mut options = {
            let own = &mut *self.own();
            // The keys are touched before the read point is taken, so that later writes count as
            // conflicts.
            if own.isolation == IsolationLevel::Serializable {
                families.iter().try_for_each(|family| own.touch(family, key.as_ref()))?;
            }
            own.read_options(options)
        };
        options.snapshot.get_or_insert_with(|| self.db.snapshot());
        families.iter().map(|family| self.get_entity(&options, family, key.as_ref())).collect()
    }
}

/// The answer for a batch of one key.
fn one(mut answers: Vec<Result<Option<WideColumns>>>) -> Result<Option<WideColumns>> {
    answers.pop().unwrap_or(Ok(None))
}

fn check_groups(groups: &[AttributeGroup<'_>]) -> Result<()> {
    if groups.is_empty() {
        return Err(Error::invalid_argument("Cannot call this method without attribute groups"));
    }
    Ok(())
}

/// Adds all groups to `batch`, or none.
fn put_groups(batch: &mut WriteBatchWithIndex, key: &[u8], groups: &[AttributeGroup<'_>]) -> Result<()> {
    batch.set_save_point();
    let mut groups = groups.iter();
    match groups.try_for_each(|group| batch.put_entity_cf(group.column_family.id(), key, group.columns)) {
        Ok(()) => batch.pop_save_point(),
        Err(why) => batch.rollback_to_save_point().and(Err(why)),
    }
}
