//! Reads of transactions.
//!
//! In: keys, one or many. Out: their values as the transaction sees them: its own writes, then the
//! entries of the database that its isolation level shows
//! ([`WriteBatchWithIndex`](super::WriteBatchWithIndex)).
//!
//! Invariants
//!  1. Before a key is read for update (with `Serializable`, before any read), it is locked, or
//!     remembered for the check at commit.
//!  2. Several keys are read as of one point in time. Those that the transaction has not written
//!     are read from the database as a batch.
//!
//! Source of the semantics: RocksDB `utilities/transactions/transaction_base.cc`.

use super::batch_index::no_timestamps;
use super::iterator::TransactionIterator;
use super::optimistic::Own;
use super::options::IsolationLevel;
use super::timestamps::has_timestamps;
use super::{OptimisticTransaction, Transaction};
use crate::db::ColumnFamilyHandle;
use crate::options::ReadOptions;
use esker_base::{Error, PinnedBytes, Result};
use esker_lock::{Endpoint, LockMode};

impl Transaction {
    /// The value of `key` in the default family, as this transaction sees it: its own writes, then
    /// what its isolation level shows.
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
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let family = self.db().default_column_family();
        self.get_opt(&ReadOptions::default(), &family, key)
    }

    /// The value of `key` in `family`, as this transaction sees it. A snapshot in `options` takes
    /// precedence over the transaction's snapshot.
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
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned_opt(options, family, key)?.map(|value| value.to_vec()))
    }

    /// [`Transaction::get_opt`], without copying the value.
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
    pub fn get_pinned_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedBytes>> {
        self.lock_read(family, key.as_ref())?;
        self.read_own(&self.read_options(options), family, key.as_ref())
    }

    /// With `Serializable`, locks `key` for a read.
    /// # Errors
    /// Those of [`Transaction::lock`].
    pub(super) fn lock_read(&self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        let locks = self.core().options.isolation == IsolationLevel::Serializable;
        if locks { self.lock(family, key, None, LockMode::Shared, true) } else { Ok(()) }
    }

    /// The values of `keys` in `family`, all as of the same point in time, each with its own
    /// result. Keys that this transaction has not written are read together, as by
    /// [`Db::multi_get_opt`](crate::Db::multi_get_opt).
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · with `Serializable`, which locks what is read: `TimedOut(LockTimeout)`:
    /// another transaction holds the lock · `Busy(Deadlock)`: waiting would close a cycle · `Busy`:
    /// another has written the key since the snapshot · `Expired`: others may have stolen the
    /// transaction's locks · `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the
    /// transaction was cancelled · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is
    /// over. A refused lock fails only its key. After `Busy` or `Expired`, roll back.
    pub fn multi_get(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        self.reading_many(family, keys, |this| this.read_own_batch(&this.read_options(options), family, keys))
    }

    /// The results of `read`, after locking the keys if necessary. A refused lock fails only its
    /// key.
    pub(super) fn reading_many<T>(
        &self,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
        read: impl FnOnce(&Transaction) -> Vec<Result<T>>,
    ) -> Vec<Result<T>> {
        if self.core().options.isolation != IsolationLevel::Serializable {
            return read(self);
        }
        let lock = |key: &[u8]| self.lock(family, key, None, LockMode::Shared, true);
        let locked: Vec<Result<()>> = keys.iter().map(|key| lock(key.as_ref())).collect();
        locked.into_iter().zip(read(self)).map(|(locked, value)| locked.and(value)).collect()
    }

    /// An iterator over `family` that sees the transaction's writes so far. With `Serializable`,
    /// first locks all keys between the bounds of `options` against writes.
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; `tailing` together with a
    /// snapshot or timestamps · `NotSupported`: `read_tier` is `Persisted`, or this is a forked
    /// child process · `Corruption` and `IoError` from opening level-0 files · `Incomplete` and
    /// `TimedOut`: `read_tier` or `deadline` stops the opening of a file · `ShutdownInProgress`:
    /// the database was closed; the family has user-defined timestamps · with `Serializable`, which
    /// locks all between the bounds: `TimedOut(LockTimeout)`: another transaction holds the lock ·
    /// `Busy(Deadlock)`: waiting would close a cycle · `Busy`: another has written the key since
    /// the snapshot · `Expired`: others may have stolen the transaction's locks ·
    /// `Aborted(LockLimit)`: locks take too much memory · `Aborted`: the transaction was cancelled
    /// · `ColumnFamilyDropped` · `InvalidArgument`: the transaction is over. After `Busy` or
    /// `Expired`, roll back.
    pub fn iter_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
    ) -> Result<TransactionIterator> {
        self.guard_range(options, family)?;
        self.core().batch.iter_with_base(self.db(), &self.read_options(options), family)
    }

    /// Checks that the family can be iterated. With `Serializable`, locks all keys between the
    /// bounds of `options` for a read.
    /// # Errors
    /// `NotSupported`: the family has user-defined timestamps · those of [`Transaction::iter_opt`]
    /// that concern locks.
    pub(super) fn guard_range(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> Result<()> {
        if has_timestamps(family) {
            return Err(no_timestamps(family));
        }
        let locks_range = {
            let own = &self.core().options;
            own.isolation == IsolationLevel::Serializable && !own.skip_concurrency_control
        };
        if !locks_range {
            return Ok(());
        }
        let locks = self.shared().locks_of(family)?.clone();
        let left = options.iterate_lower_bound.as_deref().map_or(Endpoint::Min, Endpoint::Key);
        let right = options.iterate_upper_bound.as_deref().map_or(Endpoint::Max, Endpoint::Key);
        self.check_live()?;
        self.core_mut().locker.lock_range(&locks, left, right, LockMode::Shared)
    }

    /// Locks a key of the default family exclusively, for a later write, and reads it:
    /// [`Transaction::get`].
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
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let family = self.db().default_column_family();
        self.get_for_update_opt(&ReadOptions::default(), &family, key, LockMode::Exclusive, true)
    }

    /// Locks `key` and reads it. Without `do_validate`, skips the check that the key is unchanged
    /// since the snapshot.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// use esker::txn::LockMode;
    ///
    /// let (read, family) = (Default::default(), db.default_column_family());
    /// let txn = db.begin_transaction();
    /// txn.get_for_update_opt(&read, &family, "a", LockMode::Shared, true)?;
    /// txn.undo_get_for_update(&family, "a");
    /// txn.multi_get_for_update(&read, &family, &["a", "b"]);
    /// assert!(txn.get_pinned_opt(&read, &family, "a")?.is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
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
    pub fn get_for_update_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        mode: LockMode,
        do_validate: bool,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        self.lock_for_update(options, family, key, mode, do_validate)?;
        let value = self.read_own(&self.update_options(options, family), family, key)?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// Locks `key` exclusively, reads it, and puts the value that it has, so that later reads find
    /// one value in place of a chain of merge operands. A family with secondary indices has no
    /// operands: the call only locks and reads there.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let mut options = esker::Options::new().create_if_missing(true);
    /// options.cf.merge_operator = Some(esker::builtin::uint64_add());
    /// let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// (0..100).try_for_each(|_| db.merge("visits", 1u64.to_le_bytes()))?;
    /// let txn = db.begin_transaction();
    /// txn.collapse_key(&Default::default(), &db.default_column_family(), "visits")?;
    /// txn.commit()?;
    /// assert_eq!(db.get("visits")?.unwrap(), 100u64.to_le_bytes());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotFound`: the key has no value · those of [`Transaction::get_for_update_opt`] and
    /// [`Transaction::put_cf`].
    pub fn collapse_key(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        let key = key.as_ref();
        match self.get_for_update_opt(options, family, key, LockMode::Exclusive, true)? {
            Some(_) if self.is_indexed(family) => Ok(()),
            Some(value) => self.put_cf(family, key, value),
            None => Err(Error::not_found(format!("'{}' has no value", key.escape_ascii()))),
        }
    }

    /// Locks all keys exclusively, for later writes, and then reads them:
    /// [`Transaction::multi_get`].
    /// # Errors
    /// The same error for all keys if one cannot be locked (keys before it stay locked):
    /// `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`: waiting
    /// would close a cycle · `Busy`: another has written the key since the snapshot · `Expired`:
    /// others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take too much
    /// memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over · Of each key: `Corruption` and `IoError` name
    /// the file and offset · `Incomplete`: the read needs I/O that `read_tier` forbids ·
    /// `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge operands without a
    /// merge operator, or a snapshot or family of another database. After `Busy` or `Expired`, roll
    /// back.
    pub fn multi_get_for_update(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let lock = |key: &[u8]| self.lock_for_update(options, family, key, LockMode::Exclusive, true);
        if let Err(error) = keys.iter().try_for_each(|key| lock(key.as_ref())) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        self.read_own_batch(&self.update_options(options, family), family, keys)
    }

    /// Locks `key` for a read for update.
    pub(super) fn lock_for_update(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
        mode: LockMode,
        do_validate: bool,
    ) -> Result<()> {
        if !do_validate && options.snapshot.is_some() {
            return Err(Error::invalid_argument(
                "If do_validate is false then GetForUpdate with snapshot is not defined.",
            ));
        }
        self.check_read_timestamp(options, family, do_validate)?;
        self.lock(family, key, None, mode, do_validate)?;
        *self.core_mut().reads.entry((family.id(), key.to_vec())).or_insert(0) += 1;
        Ok(())
    }

    /// Undoes one `get_for_update` of `key`. If it was the last one since the newest save point,
    /// and the transaction has not written the key, the lock is released. A key inside a range that
    /// the transaction has locked stays locked. With `Serializable`, the call does nothing: all
    /// keys that were read stay locked.
    pub fn undo_get_for_update(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        let Ok(locks) = self.shared().locks_of(family).cloned() else { return };
        let core = &mut *self.core_mut();
        if core.options.isolation == IsolationLevel::Serializable {
            return;
        }
        let name = (family.id(), key.to_vec());
        let Some(count) = core.reads.get_mut(&name) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        core.reads.remove(&name);
        let is_read_before = core.save_points.iter().any(|point| point.reads.contains_key(&name));
        let is_needed = core.range_locked.contains(&family.id())
            || !core.spilled.is_empty()
            || core.batch.may_write(family, key);
        if !is_read_before && !is_needed {
            // An error means that escalation has joined the key's lock with others: the lock stays.
            drop(core.locker.unlock_key(&locks, key));
        }
    }

    pub(super) fn read_options(&self, options: &ReadOptions) -> ReadOptions {
        let mut options = options.clone();
        let core = self.core();
        if options.snapshot.is_none() && core.options.isolation == IsolationLevel::Snapshot {
            options.snapshot.clone_from(&core.snapshot);
        }
        options
    }
}

impl OptimisticTransaction {
    /// The value of `key` in the default family, as this transaction sees it.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let family = self.db.default_column_family();
        self.get_opt(&ReadOptions::default(), &family, key)
    }

    /// The value of `key` in `family`, as this transaction sees it: its own writes, then the
    /// database at its snapshot (with `ReadCommitted`, as of now). A snapshot in `options` takes
    /// precedence.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned_opt(options, family, key)?.map(|value| value.to_vec()))
    }

    /// The values of `keys` in `family`, all as of the same point in time, each with its own
    /// result. Keys that this transaction has not written are read together, as by
    /// [`Db::multi_get_opt`](crate::Db::multi_get_opt).
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · `NotSupported`: the family has user-defined timestamps.
    pub fn multi_get(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let own = &mut *self.own();
        if let Err(error) = keys.iter().try_for_each(|key| own.touch_read(family, key.as_ref())) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        own.batch.multi_get_from_batch_and_db(&own.db, &own.read_options(options), family, keys)
    }

    /// [`OptimisticTransaction::multi_get`] of keys that other transactions must not write before
    /// the commit.
    /// # Errors
    /// Of each key: `Corruption` and `IoError` name the file and offset · `Incomplete`: the read
    /// needs I/O that `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` ·
    /// `InvalidArgument`: merge operands without a merge operator, or a snapshot or family of
    /// another database · `NotSupported`: the family has user-defined timestamps.
    pub fn multi_get_for_update(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let own = &mut *self.own();
        if let Err(error) = keys.iter().try_for_each(|key| own.touch_for_update(family, key.as_ref())) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        own.batch.multi_get_from_batch_and_db(&own.db, &own.read_options(options), family, keys)
    }

    /// The value of a key in the default family, which other transactions must not write before the
    /// commit.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let family = self.db.default_column_family();
        self.get_for_update_opt(&ReadOptions::default(), &family, key)
    }

    /// [`OptimisticTransaction::get_for_update`] in `family`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let family = db.default_column_family();
    /// let txn = db.begin_transaction();
    /// assert_eq!(txn.get_for_update_opt(&Default::default(), &family, "stock")?, None);
    /// txn.multi_get_for_update(&Default::default(), &family, &["a", "b"]);
    /// db.put("stock", "5")?;
    /// assert!(txn.commit().is_err(), "another has written what it read");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_for_update_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        self.own().touch_for_update(family, key.as_ref())?;
        self.get_opt(options, family, key)
    }

    /// An iterator over `family` that sees the transaction's writes so far. With `Serializable`,
    /// the commit fails if others write between the bounds of `options` before it.
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; `tailing` together with a
    /// snapshot or timestamps · `NotSupported`: `read_tier` is `Persisted`, or this is a forked
    /// child process · `Corruption` and `IoError` from opening level-0 files · `Incomplete` and
    /// `TimedOut`: `read_tier` or `deadline` stops the opening of a file · `ShutdownInProgress`:
    /// the database was closed; the family has user-defined timestamps.
    pub fn iter_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
    ) -> Result<TransactionIterator> {
        let own = &mut *self.own();
        own.touch_read_range(options, family)?;
        own.batch.iter_with_base(&own.db, &own.read_options(options), family)
    }
}

impl Own {
    /// With `Serializable`, records that the transaction has read `key`.
    /// # Errors
    /// Those of [`Own::touch`].
    pub(super) fn touch_read(&mut self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        if self.isolation == IsolationLevel::Serializable { self.touch(family, key) } else { Ok(()) }
    }

    /// With `Serializable`, records that the transaction has read all between the bounds.
    /// # Errors
    /// Those of [`Own::touch`].
    pub(super) fn touch_read_range(
        &mut self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
    ) -> Result<()> {
        if self.isolation != IsolationLevel::Serializable {
            return Ok(());
        }
        let range = (options.iterate_lower_bound.clone(), options.iterate_upper_bound.clone());
        self.touch_range(family, range)
    }

    pub(super) fn read_options(&self, options: &ReadOptions) -> ReadOptions {
        let mut options = options.clone();
        if options.snapshot.is_none() && self.isolation != IsolationLevel::ReadCommitted {
            options.snapshot.clone_from(&self.snapshot);
        }
        options
    }
}
