//! Methods of a snapshot that read the database.

use super::{ColumnFamilyHandle, Db};
use crate::instance::DbInner;
use crate::options::ReadOptions;
use crate::scan::{DbIterator, Entries, KeyRange, KeyValue};
use crate::snapshot::Snapshot;
use esker_base::{PinnedBytes, Result};

/// Reads of the database as it was when the snapshot was taken. For reads with options, set
/// [`ReadOptions::snapshot`].
impl Snapshot {
    /// The snapshot's database.
    fn db(&self) -> Db {
        let inner = self.owner().downcast::<DbInner>().expect("the owner of a user's snapshot is a database");
        Db { inner }
    }

    fn options(&self) -> ReadOptions {
        ReadOptions::new().snapshot(self)
    }

    /// The value that `key` of the default family had, copied.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("fjord", "water")?;
    /// let snapshot = db.snapshot();
    /// db.delete("fjord")?;
    /// assert_eq!(snapshot.get("fjord")?.as_deref(), Some(&b"water"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator · `NotSupported` in a forked child process · `ShutdownInProgress`:
    /// the database was closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let db = self.db();
        db.get_opt(&self.options(), &db.default_column_family(), key)
    }

    /// The value that `key` of `family` had, copied.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// let snapshot = db.snapshot();
    /// println!("at {}", snapshot.sequence());
    /// assert_eq!(snapshot.get_cf(&family, "fjord")?, None);
    /// assert!(!snapshot.contains_key("fjord")?);
    /// assert!(snapshot.multi_get_cf(&[(&family, b"fjord")])[0].as_ref().unwrap().is_none());
    /// assert!(!snapshot.iter_cf(&family)?.valid());
    /// assert_eq!(snapshot.range_cf(&family, ..).count(), 0);
    /// assert_eq!(snapshot.prefix_cf(&family, "user/").count(), 0);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator, and for a family of another database · `NotSupported` in a forked
    /// child process · `ShutdownInProgress`: the database was closed.
    pub fn get_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.db().get_opt(&self.options(), family, key)
    }

    /// The value that `key` of the default family had, without copying it.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("fjord", "water")?;
    /// let value = db.snapshot().get_pinned("fjord")?;
    /// assert_eq!(value.as_deref(), Some(&b"water"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator · `NotSupported` in a forked child process · `ShutdownInProgress`:
    /// the database was closed.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedBytes>> {
        let db = self.db();
        db.get_pinned_opt(&self.options(), &db.default_column_family(), key)
    }

    /// The values that `keys` of the default family had, in the order of the keys, each with its
    /// own result.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("a", "1")?;
    /// let values = db.snapshot().multi_get(&["a", "b"]);
    /// assert_eq!(values[0].as_ref().unwrap().as_deref(), Some(&b"1"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<PinnedBytes>>> {
        let db = self.db();
        db.multi_get_opt(&self.options(), &db.default_column_family(), keys)
    }

    /// The values that keys of several families had, in the order of the keys, each with its own
    /// result.
    pub fn multi_get_cf(&self, keys: &[(&ColumnFamilyHandle, &[u8])]) -> Vec<Result<Option<PinnedBytes>>> {
        self.db().multi_get_cf(&self.options(), keys)
    }

    /// Whether the default family had `key`.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument` for merge operands
    /// without a merge operator · `NotSupported` in a forked child process · `ShutdownInProgress`:
    /// the database was closed.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_pinned(key)?.is_some())
    }

    /// A cursor over the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("a", "1")?;
    /// let mut iter = db.snapshot().iter()?;
    /// iter.seek_to_first();
    /// assert_eq!(iter.item(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` from opening level-0 files · `NotSupported` in a forked child
    /// process · `ShutdownInProgress`: the database was closed.
    pub fn iter(&self) -> Result<DbIterator> {
        let db = self.db();
        db.iter_opt(self.options(), &db.default_column_family())
    }

    /// A cursor over `family`.
    /// # Errors
    /// `InvalidArgument` for a family of another database · `Corruption` and `IoError` from opening
    /// level-0 files · `NotSupported` in a forked child process · `ShutdownInProgress`: the
    /// database was closed.
    pub fn iter_cf(&self, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        self.db().iter_opt(self.options(), family)
    }

    /// The entries of `range` in the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("a", "1")?;
    /// let snapshot = db.snapshot();
    /// db.put("b", "2")?;
    /// assert_eq!(snapshot.range("a"..).count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Entries {
        let db = self.db();
        db.range_opt(self.options(), &db.default_column_family(), range)
    }

    /// The entries of `range` in `family`.
    pub fn range_cf(&self, family: &ColumnFamilyHandle, range: impl KeyRange) -> Entries {
        self.db().range_opt(self.options(), family, range)
    }

    /// The entries of the default family whose keys begin with `prefix`: [`Db::prefix_opt`].
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// # db.put("user/1", "ada")?;
    /// assert_eq!(db.snapshot().prefix("user/").count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries {
        let db = self.db();
        db.prefix_opt(self.options(), &db.default_column_family(), prefix)
    }

    /// The entries of `family` whose keys begin with `prefix`: [`Db::prefix_opt`].
    pub fn prefix_cf(&self, family: &ColumnFamilyHandle, prefix: impl AsRef<[u8]>) -> Entries {
        self.db().prefix_opt(self.options(), family, prefix)
    }

    /// The first entry of the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// assert!(db.snapshot().first()?.is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn first(&self) -> Result<Option<KeyValue>> {
        self.range(..).next().transpose()
    }

    /// The last entry of the default family.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// assert!(db.snapshot().last()?.is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file · `NotSupported` in a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn last(&self) -> Result<Option<KeyValue>> {
        self.range(..).next_back().transpose()
    }
}
