//! Entries of a family by range and by prefix, its first and last entry, and whether it is empty.

use super::{ColumnFamilyHandle, Db};
use crate::options::{PLAIN, ReadOptions};
use crate::scan::entries::{Span, prefix_span};
use crate::scan::{Entries, KeyRange, KeyValue};
use esker_base::{Error, Result};

impl Db {
    /// The entries of `range` in the default family, as of now.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("user/1", "ada")?;
    /// # db.put("user/2", "grace")?;
    /// for entry in db.range("user/1".."user/9") {
    ///     let (key, value) = entry?;
    ///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    /// }
    /// let newest = db.range("user/".."user0").rev().take(10);
    /// assert_eq!(newest.count(), 2);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Entries {
        self.range_cf(&self.default_column_family(), range)
    }

    /// The entries of `range` in `family`, as of now.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let users = db.create_column_family("users", &Default::default())?;
    /// db.put_cf(&users, "ada", "1815")?;
    /// assert_eq!(db.range_cf(&users, "a"..).count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn range_cf(&self, family: &ColumnFamilyHandle, range: impl KeyRange) -> Entries {
        self.range_opt(ReadOptions::default(), family, range)
    }

    /// The entries of `range` in `family`, as of the snapshot of `options`, else as of now. The
    /// range takes the place of the bounds in `options`.
    ///
    /// ```
    /// use esker::ReadOptions;
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # let family = db.default_column_family();
    ///
    /// let once = ReadOptions::new().fill_cache(false);
    /// assert_eq!(db.range_opt(once, &family, ..).count(), 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn range_opt(
        &self,
        options: ReadOptions,
        family: &ColumnFamilyHandle,
        range: impl KeyRange,
    ) -> Entries {
        let span = Span::new(&family.cf.icmp.without_timestamp(), range.ends());
        self.entries(options, family, span)
    }

    /// The entries of the default family whose keys begin with `prefix`, as of now.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("user/1", "ada")?;
    /// db.put("visits", "17")?;
    /// assert_eq!(db.prefix("user/").count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf(&self.default_column_family(), prefix)
    }

    /// The entries of `family` whose keys begin with `prefix`, as of now.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # let users = db.default_column_family();
    /// let newest_first = db.prefix_cf(&users, "user/").rev();
    /// # assert_eq!(newest_first.count(), 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn prefix_cf(&self, family: &ColumnFamilyHandle, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_opt(ReadOptions::default(), family, prefix)
    }

    /// The entries of `family` whose keys begin with `prefix`, as of the snapshot of `options`,
    /// else as of now. The prefix takes the place of the bounds in `options`.
    ///
    /// A custom comparator does not determine the place of keys with a prefix: the only item is
    /// then `InvalidArgument`.
    ///
    /// ```
    /// use esker::ReadOptions;
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # let family = db.default_column_family();
    ///
    /// let before = ReadOptions::new().snapshot(&db.snapshot());
    /// db.put("user/3", "barbara")?;
    /// assert_eq!(db.prefix_opt(before, &family, "user/").count(), 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn prefix_opt(
        &self,
        options: ReadOptions,
        family: &ColumnFamilyHandle,
        prefix: impl AsRef<[u8]>,
    ) -> Entries {
        match prefix_span(&family.cf.icmp.without_timestamp(), prefix.as_ref()) {
            Ok(span) => self.entries(options, family, span),
            Err(error) => Entries::new(Err(error), Span::default()),
        }
    }

    fn entries(&self, mut options: ReadOptions, family: &ColumnFamilyHandle, span: Span) -> Entries {
        if options.iter_start_ts.is_some() {
            let what = "ReadOptions::iter_start_ts: versions are not entries; use iter_opt";
            return Entries::new(Err(Error::invalid_argument(what)), span);
        }
        span.bound(&mut options);
        Entries::new(self.iter_opt(options, family), span)
    }

    /// The first entry of the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// assert!(db.first()?.is_none());
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// let (key, value) = db.first()?.expect("there are two");
    /// assert_eq!((&key[..], &value[..]), (&b"a"[..], &b"1"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn first(&self) -> Result<Option<KeyValue>> {
        self.first_cf(&self.default_column_family())
    }

    /// The first entry of `family`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// assert!(db.first_cf(&family)?.is_none() && db.last_cf(&family)?.is_none());
    /// assert!(db.is_empty_cf(&family)? && !db.contains_key_cf(&family, "a")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument` for a family of another database · `Corruption` and `IoError` name the
    /// file · `NotSupported` in a forked child process · `ShutdownInProgress`: the database was
    /// closed.
    pub fn first_cf(&self, family: &ColumnFamilyHandle) -> Result<Option<KeyValue>> {
        self.range_cf(family, ..).next().transpose()
    }

    /// The last entry of the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// assert_eq!(db.last()?.expect("there are two").0, b"b");
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn last(&self) -> Result<Option<KeyValue>> {
        self.last_cf(&self.default_column_family())
    }

    /// The last entry of `family`.
    /// # Errors
    /// `InvalidArgument` for a family of another database · `Corruption` and `IoError` name the
    /// file · `NotSupported` in a forked child process · `ShutdownInProgress`: the database was
    /// closed.
    pub fn last_cf(&self, family: &ColumnFamilyHandle) -> Result<Option<KeyValue>> {
        self.range_cf(family, ..).next_back().transpose()
    }

    /// Whether the default family has `key`. Reads as [`Db::get_pinned`] does, and copies nothing.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// assert!(db.contains_key("esker")?);
    /// assert!(!db.contains_key("fjord")?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator · `NotSupported` in a forked child process · `ShutdownInProgress`:
    /// the database was closed.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_pinned(key)?.is_some())
    }

    /// Whether `family` has `key`. Reads as [`Db::get_pinned_opt`] does, and copies nothing.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator, and for a family of another database · `NotSupported` in a forked
    /// child process · `ShutdownInProgress`: the database was closed.
    pub fn contains_key_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_pinned_opt(&PLAIN, family, key)?.is_some())
    }

    /// Whether the default family has no key. Costs as much as finding its first one.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// assert!(db.is_empty()?);
    /// db.put("a", "1")?;
    /// assert!(!db.is_empty()?);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn is_empty(&self) -> Result<bool> {
        self.is_empty_cf(&self.default_column_family())
    }

    /// Whether `family` has no key. Costs as much as finding its first one.
    /// # Errors
    /// `InvalidArgument` for a family of another database · `Corruption` and `IoError` name the
    /// file · `NotSupported` in a forked child process · `ShutdownInProgress`: the database was
    /// closed.
    pub fn is_empty_cf(&self, family: &ColumnFamilyHandle) -> Result<bool> {
        Ok(self.range_cf(family, ..).next_item()?.is_none())
    }
}
