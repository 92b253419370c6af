//! Reads of ranges and prefixes by transactions.

use super::iterator::TransactionIterator;
use super::{OptimisticTransaction, Transaction};
use crate::db::{ColumnFamilyHandle, Db};
use crate::options::ReadOptions;
use crate::scan::entries::{Span, prefix_span};
use crate::scan::{Entries, KeyRange};
use esker_base::Result;

impl Transaction {
    /// A cursor over the default family, own writes included.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("a", "1")?;
    /// let mut iter = txn.iter()?;
    /// iter.seek_to_first();
    /// assert_eq!(iter.item(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` from opening level-0 files · with `Serializable`, which locks all
    /// keys: `TimedOut(LockTimeout)`: another transaction holds the lock · `Busy(Deadlock)`:
    /// waiting would close a cycle · `Busy`: another has written the key since the snapshot ·
    /// `Expired`: others may have stolen the transaction's locks · `Aborted(LockLimit)`: locks take
    /// too much memory · `Aborted`: the transaction was cancelled · `ColumnFamilyDropped` ·
    /// `InvalidArgument`: the transaction is over. After `Busy` or `Expired`, roll back.
    pub fn iter(&self) -> Result<TransactionIterator> {
        let family = self.database().default_column_family();
        self.iter_opt(&ReadOptions::default(), &family)
    }

    /// The entries of `range` in the default family as this transaction sees them: its own writes
    /// so far, over what its isolation level shows.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// db.put("a", "1")?;
    /// let txn = db.begin_transaction();
    /// txn.put("b", "2")?;
    /// assert_eq!(txn.range(..).count(), 2);
    /// assert_eq!(db.range(..).count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Entries<TransactionIterator> {
        self.range_cf(&self.database().default_column_family(), range)
    }

    /// The entries of `range` in `family` as this transaction sees them.
    ///
    /// With `Serializable`, the range is protected against writes of others, as by
    /// [`iter_opt`](Self::iter_opt).
    pub fn range_cf(
        &self,
        family: &ColumnFamilyHandle,
        range: impl KeyRange,
    ) -> Entries<TransactionIterator> {
        self.entries(family, Span::new(&family.cf.icmp, range.ends()))
    }

    /// The entries of the default family whose keys begin with `prefix`, as this transaction sees
    /// them.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("user/1", "ada")?;
    /// assert_eq!(txn.prefix("user/").rev().count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries<TransactionIterator> {
        self.prefix_cf(&self.database().default_column_family(), prefix)
    }

    /// The entries of `family` whose keys begin with `prefix`, as this transaction sees them.
    pub fn prefix_cf(
        &self,
        family: &ColumnFamilyHandle,
        prefix: impl AsRef<[u8]>,
    ) -> Entries<TransactionIterator> {
        match prefix_span(&family.cf.icmp, prefix.as_ref()) {
            Ok(span) => self.entries(family, span),
            Err(error) => Entries::new(Err(error), Span::default()),
        }
    }

    /// Whether this transaction sees `key` in the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::TransactionDb::open(&options, &Default::default(), dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("a", "1")?;
    /// assert!(txn.contains_key("a")? && !db.contains_key("a")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
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
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    fn entries(&self, family: &ColumnFamilyHandle, span: Span) -> Entries<TransactionIterator> {
        let mut options = ReadOptions::default();
        span.bound(&mut options);
        Entries::new(self.iter_opt(&options, family), span)
    }

    fn database(&self) -> &Db {
        self.db()
    }
}

impl OptimisticTransaction {
    /// A cursor over the default family, own writes included.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("a", "1")?;
    /// let mut iter = txn.iter()?;
    /// iter.seek_to_first();
    /// assert_eq!(iter.item(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` from opening level-0 files · `NotSupported`: the family has
    /// user-defined timestamps.
    pub fn iter(&self) -> Result<TransactionIterator> {
        let family = self.database().default_column_family();
        self.iter_opt(&ReadOptions::default(), &family)
    }

    /// The entries of `range` in the default family as this transaction sees them: its own writes
    /// so far, over what its isolation level shows.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// db.put("a", "1")?;
    /// let txn = db.begin_transaction();
    /// txn.put("b", "2")?;
    /// assert_eq!(txn.range(..).count(), 2);
    /// assert_eq!(db.range(..).count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Entries<TransactionIterator> {
        self.range_cf(&self.database().default_column_family(), range)
    }

    /// The entries of `range` in `family` as this transaction sees them.
    ///
    /// With `Serializable`, the range is protected against writes of others, as by
    /// [`iter_opt`](Self::iter_opt).
    pub fn range_cf(
        &self,
        family: &ColumnFamilyHandle,
        range: impl KeyRange,
    ) -> Entries<TransactionIterator> {
        self.entries(family, Span::new(&family.cf.icmp, range.ends()))
    }

    /// The entries of the default family whose keys begin with `prefix`, as this transaction sees
    /// them.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("user/1", "ada")?;
    /// assert_eq!(txn.prefix("user/").rev().count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries<TransactionIterator> {
        self.prefix_cf(&self.database().default_column_family(), prefix)
    }

    /// The entries of `family` whose keys begin with `prefix`, as this transaction sees them.
    pub fn prefix_cf(
        &self,
        family: &ColumnFamilyHandle,
        prefix: impl AsRef<[u8]>,
    ) -> Entries<TransactionIterator> {
        match prefix_span(&family.cf.icmp, prefix.as_ref()) {
            Ok(span) => self.entries(family, span),
            Err(error) => Entries::new(Err(error), Span::default()),
        }
    }

    /// Whether this transaction sees `key` in the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let options = esker::Options::new().create_if_missing(true);
    /// # let db = esker::OptimisticTransactionDb::open(&options, dir.path())?;
    /// let txn = db.begin_transaction();
    /// txn.put("a", "1")?;
    /// assert!(txn.contains_key("a")? && !db.contains_key("a")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    fn entries(&self, family: &ColumnFamilyHandle, span: Span) -> Entries<TransactionIterator> {
        let mut options = ReadOptions::default();
        span.bound(&mut options);
        Entries::new(self.iter_opt(&options, family), span)
    }

    fn database(&self) -> &Db {
        &self.db
    }
}
