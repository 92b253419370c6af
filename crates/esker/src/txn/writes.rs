//! Writes of transactions that lock, and range locks that the user takes.

use super::counts::CountedOp;
use super::pessimistic::Transaction;
use super::timestamps::stored;
use crate::db::ColumnFamilyHandle;
use esker_base::Result;
use esker_lock::{Endpoint, LockMode};

/// An op on one key.
#[derive(Clone, Copy, Debug)]
pub(super) enum KeyOp<'a> {
    Put(&'a [u8]),
    /// Names and values of the columns, in any order.
    PutEntity(&'a [(&'a [u8], &'a [u8])]),
    Merge(&'a [u8]),
    Delete,
    SingleDelete,
}

impl Transaction {
    /// Locks `key` and adds an op on it. With `validate`, writes of others since the snapshot are a
    /// conflict. Changes the entries of secondary indices, too.
    /// # Errors
    /// Those of [`Transaction::put_cf`].
    #[inline]
    pub(super) fn write_key(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        op: KeyOp<'_>,
        validate: bool,
    ) -> Result<()> {
        if !self.shared().has_plain_writes {
            return self.write_key_and_index(family, key, op, validate);
        }
        self.lock(family, key, None, LockMode::Exclusive, validate)?;
        self.add_op(family, key, op)
    }

    /// Adds an op on a key that is locked.
    /// # Errors
    /// `InvalidArgument`: the entry or the batch is too large · `Aborted(MemoryLimit)`.
    #[inline]
    pub(super) fn add_op(&self, family: &ColumnFamilyHandle, key: &[u8], op: KeyOp<'_>) -> Result<()> {
        let (id, key) = (family.id(), stored(family, key));
        let core = &mut *self.core_mut();
        match op {
            KeyOp::Put(value) => core.add(CountedOp::Put, |batch| batch.put_cf(id, key, value)),
            KeyOp::PutEntity(columns) => {
                core.add(CountedOp::PutEntity, |batch| batch.put_entity_cf(id, key, columns))
            }
            KeyOp::Merge(operand) => core.add(CountedOp::Merge, |batch| batch.merge_cf(id, key, operand)),
            KeyOp::Delete => core.add(CountedOp::Delete, |batch| batch.delete_cf(id, key)),
            KeyOp::SingleDelete => core.add(CountedOp::Delete, |batch| batch.single_delete_cf(id, key)),
        }
    }

    /// Stores `value` under `key` in the default family.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · `Aborted(MemoryLimit)`: the transaction writes
    /// more than `max_write_batch_size`. The call then changes nothing. After `Busy` or `Expired`,
    /// roll back.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db().default_column_family();
        self.put_cf(&family, key, value)
    }

    /// Stores `value` under `key` in `family`; the key is locked.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · an error of a secondary index ·
    /// `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`. The call
    /// then changes nothing. After `Busy` or `Expired`, roll back.
    pub fn put_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::Put(value.as_ref()), true)
    }

    /// [`Transaction::put_cf`], whether or not the key was written since the snapshot.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over ·
    /// `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`. The call
    /// then changes nothing. After `Busy(Deadlock)` or `Expired`, roll back.
    pub fn put_untracked(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::Put(value.as_ref()), false)
    }

    /// Removes `key` from the default family.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · `Aborted(MemoryLimit)`: the transaction writes
    /// more than `max_write_batch_size`. The call then changes nothing. After `Busy` or `Expired`,
    /// roll back.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let family = self.db().default_column_family();
        self.delete_cf(&family, key)
    }

    /// Removes `key` from `family`; the key is locked.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · an error of a secondary index ·
    /// `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`. The call
    /// then changes nothing. After `Busy` or `Expired`, roll back.
    pub fn delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::Delete, true)
    }

    /// [`Transaction::delete_cf`], whether or not the key was written since the snapshot.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let family = db.default_column_family();
    /// let txn = db.begin_transaction();
    /// txn.delete_untracked(&family, "a")?;
    /// txn.single_delete_untracked(&family, "b")?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over ·
    /// `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`. The call
    /// then changes nothing. After `Busy(Deadlock)` or `Expired`, roll back.
    pub fn delete_untracked(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::Delete, false)
    }

    /// Removes `key`, which was put exactly once since its last deletion; the key is locked.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · `Aborted(MemoryLimit)`: the transaction writes
    /// more than `max_write_batch_size`. The call then changes nothing. After `Busy` or `Expired`,
    /// roll back.
    pub fn single_delete_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::SingleDelete, true)
    }

    /// [`Transaction::single_delete_cf`], whether or not the key was written since the snapshot.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over ·
    /// `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`. The call
    /// then changes nothing. After `Busy(Deadlock)` or `Expired`, roll back.
    pub fn single_delete_untracked(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::SingleDelete, false)
    }

    /// Adds an operand to `key` for the family's merge operator; the key is locked.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let family = db.default_column_family();
    /// let txn = db.begin_transaction();
    /// txn.merge_cf(&family, "visits", 1u64.to_le_bytes())?;
    /// txn.merge_untracked(&family, "visits", 1u64.to_le_bytes())?;
    /// txn.commit()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · `NotSupported`: the database has secondary
    /// indices · `Aborted(MemoryLimit)`: the transaction writes more than `max_write_batch_size`.
    /// The call then changes nothing. After `Busy` or `Expired`, roll back.
    pub fn merge_cf(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::Merge(operand.as_ref()), true)
    }

    /// [`Transaction::merge_cf`], whether or not the key was written since the snapshot.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over · `NotSupported`:
    /// the database has secondary indices · `Aborted(MemoryLimit)`: the transaction writes more
    /// than `max_write_batch_size`. The call then changes nothing. After `Busy(Deadlock)` or
    /// `Expired`, roll back.
    pub fn merge_untracked(
        &self,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.write_key(family, key.as_ref(), KeyOp::Merge(operand.as_ref()), false)
    }

    /// Removes the keys of `family` from `begin` up to `end`, exclusive. Locks the whole range with
    /// `end`, for present and absent keys.
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over, `end` comes before `begin`, or the keys of the
    /// family have timestamps · `NotSupported`: only points can be locked, or a secondary index has
    /// the family · `Aborted(MemoryLimit)`: the transaction writes more than
    /// `max_write_batch_size`. The call then changes nothing. After `Busy` or `Expired`, roll back.
    pub fn delete_range_cf(
        &self,
        family: &ColumnFamilyHandle,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        self.refuse_range_of_index(family)?;
        self.lock_for_write(family, begin, Some(end), true)?;
        self.core_mut().add(CountedOp::Delete, |batch| batch.delete_range_cf(family.id(), begin, end))
    }

    /// Locks all keys of `family` from `begin` to `end`, both included, present or absent:
    /// RocksDB's `GetRangeLock`, in the order of the comparator.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::txn::{Endpoint, LockMode};
    ///
    /// let family = db.default_column_family();
    /// let txn = db.begin_transaction();
    /// txn.set_lock_timeout(100);
    /// txn.set_expiration(60_000);
    /// txn.get_range_lock(&family, Endpoint::Key(b"a"), Endpoint::Key(b"f"), LockMode::Exclusive)?;
    /// assert_eq!(txn.id(), db.get_lock_status_data()[0].ids[0]);
    /// let canceller = txn.canceller();
    /// txn.put_log_data(b"a note in the WAL")?;
    /// txn.rollback()?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over, or `end` comes before `begin` · `NotSupported`:
    /// only points can be locked. The call then changes nothing. After `Busy` or `Expired`, roll
    /// back.
    pub fn get_range_lock(
        &self,
        family: &ColumnFamilyHandle,
        begin: Endpoint<'_>,
        end: Endpoint<'_>,
        mode: LockMode,
    ) -> Result<()> {
        self.check_live()?;
        family.check_live(self.db())?;
        let locks = self.shared().locks_of(family)?.clone();
        let core = &mut *self.core_mut();
        core.range_locked.insert(family.id());
        core.locker.lock_range(&locks, begin, end, mode)
    }

    /// Puts bytes into the WAL that the database does not read.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the bytes are 4 GiB or more ·
    /// `Aborted(MemoryLimit)`: it writes more than `max_write_batch_size`. The transaction is as it
    /// was before the call.
    pub fn put_log_data(&self, blob: &[u8]) -> Result<()> {
        self.check_live()?;
        self.core_mut().batch.put_log_data(blob)
    }
}
