//! Reads of transactions over several families with one call.
//!
//! In: keys, each with its family. Out: for each key its value or its error, all as of one point in
//! time. Source of the semantics: RocksDB's `Transaction::{MultiGet,MultiGetForUpdate}`.
//!
//! Invariant: with `Serializable`, all keys and ranges are locked, or remembered for the check at
//! commit, before the point in time is chosen. A read after a wait for a lock sees what the former
//! holder has committed.

use super::TransactionIterator;
use super::{OptimisticTransaction, Transaction};
use crate::db::{CoalescingIterator, ColumnFamilyHandle, check_families};
use crate::options::ReadOptions;
use esker_base::{PinnedBytes, Result};
use esker_lock::LockMode;

impl Transaction {
    /// [`Transaction::multi_get`] of keys of several families. Keys are read one by one.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let (users, posts) = (db.default_column_family(), db.create_column_families(["posts"])?.remove(0));
    /// let txn = db.begin_transaction();
    /// txn.put_cf(&posts, "1", "hello")?;
    /// let keys = [(&users, "ada"), (&posts, "1")];
    /// let found = txn.multi_get_cf(&Default::default(), &keys);
    /// assert!(matches!(found[..], [Ok(None), Ok(Some(_))]));
    /// let locked = txn.multi_get_for_update_cf(&Default::default(), &keys);
    /// assert_eq!(locked.len(), 2);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// Each key has those of [`Transaction::get_opt`].
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, impl AsRef<[u8]>)],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let lock = |(family, key): &(&ColumnFamilyHandle, _)| self.lock_read(family, AsRef::as_ref(key));
        let locked: Vec<Result<()>> = keys.iter().map(lock).collect();
        let mut options = self.read_options(options);
        options.snapshot.get_or_insert_with(|| self.db().snapshot());
        let read = |(locked, (family, key)): (Result<()>, &(&ColumnFamilyHandle, _))| {
            locked.and_then(|()| self.read_own(&options, family, AsRef::as_ref(key)))
        };
        locked.into_iter().zip(keys).map(read).collect()
    }

    /// [`Transaction::multi_get_for_update`] of keys of several families. Keys are read one by one.
    /// # Errors
    /// If a key cannot be locked, every key has that error, and the keys before it stay locked ·
    /// otherwise each key has those of [`Transaction::get_for_update_opt`].
    pub fn multi_get_for_update_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, impl AsRef<[u8]>)],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let lock = |(family, key): &(&ColumnFamilyHandle, _)| {
            self.lock_for_update(options, family, AsRef::as_ref(key), LockMode::Exclusive, true)
        };
        if let Err(error) = keys.iter().try_for_each(lock) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        let mut options = self.read_options(options);
        options.snapshot.get_or_insert_with(|| self.db().snapshot());
        let read = |(family, key): &(&ColumnFamilyHandle, _)| {
            self.read_own(&self.update_options(&options, family), family, AsRef::as_ref(key))
        };
        keys.iter().map(read).collect()
    }
}

/// Gives a kind of transaction its iterator over several families. `$open` opens a database for
/// the example.
macro_rules! coalescing_of {
    ($name:ident, $open:literal, $errors:literal) => {
        impl $name {
            #[doc = "An iterator over the keys of all `families` that sees the transaction's writes so far: at the"]
            #[doc = "snapshot of `options`, or as [`iter_opt`](Self::iter_opt). Both of RocksDB's"]
            #[doc = "`GetCoalescingIterator` and `GetAttributeGroupIterator`. Costs an iterator for each family."]
            #[doc = ""]
            #[doc = "```"]
            #[doc = "# let dir = esker_testkit::TempDir::new(\"doc\");"]
            #[doc = "# let options = esker::Options::new().create_if_missing(true);"]
            #[doc = $open]
            #[doc = "let (one, two) = (db.default_column_family(), db.create_column_families([\"two\"])?.remove(0));"]
            #[doc = "db.put_cf(&two, \"b\", \"1\")?;"]
            #[doc = "let txn = db.begin_transaction();"]
            #[doc = "txn.put_cf(&one, \"a\", \"2\")?;"]
            #[doc = "txn.put_entity(&two, \"a\", &[(b\"column\", b\"3\")])?;"]
            #[doc = "let mut iter = txn.coalescing_iter(&Default::default(), &[&one, &two])?;"]
            #[doc = "iter.seek_to_first();"]
            #[doc = "assert_eq!((iter.key(), iter.value(), iter.columns().len()), (&b\"a\"[..], &b\"2\"[..], 2));"]
            #[doc = "assert_eq!(iter.attribute_groups().len(), 2);"]
            #[doc = "iter.next();"]
            #[doc = "assert_eq!((iter.key(), iter.value()), (&b\"b\"[..], &b\"1\"[..]));"]
            #[doc = "# Ok::<_, esker::Error>(())"]
            #[doc = "```"]
            #[doc = "# Errors"]
            #[doc = "`InvalidArgument`: no family is given, or the families have different comparators ·"]
            #[doc = $errors]
            pub fn coalescing_iter(
                &self,
                options: &ReadOptions,
                families: &[&ColumnFamilyHandle],
            ) -> Result<CoalescingIterator<TransactionIterator>> {
                check_families(families)?;
                families.iter().try_for_each(|family| self.guard_range(options, family))?;
                let mut options = self.read_options_of(options);
                let snapshot = options.snapshot.get_or_insert_with(|| self.db().hold_for_iterator()).clone();
                CoalescingIterator::new(families, snapshot, |family| self.iter_of(&options, family))
            }
        }
    };
}

coalescing_of!(
    Transaction,
    "let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;",
    "those of [`Transaction::iter_opt`]."
);
coalescing_of!(
    OptimisticTransaction,
    "let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;",
    "those of [`OptimisticTransaction::iter_opt`]."
);

impl Transaction {
    fn read_options_of(&self, options: &ReadOptions) -> ReadOptions {
        self.read_options(options)
    }

    fn iter_of(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> Result<TransactionIterator> {
        self.core().batch.iter_with_base(self.db(), options, family)
    }
}

impl OptimisticTransaction {
    fn read_options_of(&self, options: &ReadOptions) -> ReadOptions {
        self.own().read_options(options)
    }

    fn guard_range(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> Result<()> {
        self.own().touch_read_range(options, family)
    }

    fn iter_of(&self, options: &ReadOptions, family: &ColumnFamilyHandle) -> Result<TransactionIterator> {
        let own = &*self.own();
        own.batch.iter_with_base(&own.db, options, family)
    }
}

impl OptimisticTransaction {
    /// [`OptimisticTransaction::get_opt`], without copying the value.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let (users, posts) = (db.default_column_family(), db.create_column_families(["posts"])?.remove(0));
    /// let txn = db.begin_transaction();
    /// txn.put_cf(&posts, "1", "hello")?;
    /// assert!(txn.get_pinned_opt(&Default::default(), &users, "ada")?.is_none());
    /// let keys = [(&users, "ada"), (&posts, "1")];
    /// let found = txn.multi_get_cf(&Default::default(), &keys);
    /// assert!(matches!(found[..], [Ok(None), Ok(Some(_))]));
    /// assert_eq!(txn.multi_get_for_update_cf(&Default::default(), &keys).len(), 2);
    /// txn.put_log_data(b"a note in the WAL")?;
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, or a snapshot or family of another database ·
    /// `NotSupported`: the family has user-defined timestamps.
    pub fn get_pinned_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedBytes>> {
        let own = &mut *self.own();
        own.touch_read(family, key.as_ref())?;
        own.batch.get_pinned_from_batch_and_db(&own.db, &own.read_options(options), family, key.as_ref())
    }

    /// [`OptimisticTransaction::multi_get`] of keys of several families. Keys are read one by one.
    /// # Errors
    /// Each key has those of [`OptimisticTransaction::get_opt`].
    pub fn multi_get_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, impl AsRef<[u8]>)],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let own = &mut *self.own();
        let touch = |(family, key): &(&ColumnFamilyHandle, _)| own.touch_read(family, AsRef::as_ref(key));
        let touched: Vec<Result<()>> = keys.iter().map(touch).collect();
        let mut options = own.read_options(options);
        options.snapshot.get_or_insert_with(|| own.db.snapshot());
        let read = |(touched, (family, key)): (Result<()>, &(&ColumnFamilyHandle, _))| {
            touched?;
            own.batch.get_pinned_from_batch_and_db(&own.db, &options, family, AsRef::as_ref(key))
        };
        touched.into_iter().zip(keys).map(read).collect()
    }

    /// [`OptimisticTransaction::multi_get_for_update`] of keys of several families. Keys are read
    /// one by one.
    /// # Errors
    /// Each key has those of [`OptimisticTransaction::get_for_update_opt`].
    pub fn multi_get_for_update_cf(
        &self,
        options: &ReadOptions,
        keys: &[(&ColumnFamilyHandle, impl AsRef<[u8]>)],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let touch = |(family, key): &(&ColumnFamilyHandle, _)| {
            self.own().touch_for_update(family, AsRef::as_ref(key))
        };
        if let Err(error) = keys.iter().try_for_each(touch) {
            return keys.iter().map(|_| Err(error.clone())).collect();
        }
        self.multi_get_cf(options, keys)
    }

    /// Puts bytes into the WAL that the database does not read.
    /// # Errors
    /// `InvalidArgument`: the transaction is over, or the bytes are 4 GiB or more.
    pub fn put_log_data(&self, blob: &[u8]) -> Result<()> {
        let own = &mut *self.own();
        own.check_not_over()?;
        own.batch.put_log_data(blob)
    }
}
