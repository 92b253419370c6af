//! Point reads and snapshots.

use super::{ColumnFamilyHandle, Db};
use crate::options::{PLAIN, ReadOptions, ReadTier};
use crate::snapshot::{Holder, Snapshot};
use esker_base::{PinnedBytes, Result, SequenceNumber};

impl Db {
    /// The value of `key` in the default family, copied.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// assert_eq!(db.get("esker")?.as_deref(), Some(&b"gravel"[..]));
    /// let family = db.default_column_family();
    /// assert_eq!(db.get_cf(&family, "fjord")?, None);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument`: merge operands
    /// without a merge operator, or the keys of the family have timestamps · `NotSupported`: a
    /// newer version wrote it, or this is a forked child process · `ShutdownInProgress`: the
    /// database was closed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned(key)?.map(|value| value.to_vec()))
    }

    /// The value of `key` in `family`, copied.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument`: merge operands
    /// without a merge operator, a family of another database, or one whose keys have timestamps ·
    /// `NotSupported`: a newer version wrote it, or this is a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn get_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_opt(&PLAIN, family, key)
    }

    /// The value of `key` in `family`, copied.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::ReadOptions;
    ///
    /// let family = db.default_column_family();
    /// let careful = ReadOptions::new().verify_checksums(true).fill_cache(false);
    /// assert_eq!(db.get_opt(&careful, &family, "fjord")?, None);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, a snapshot or family of another database, or timestamps
    /// that the options and the family do not agree on · `NotSupported`: a newer version wrote it,
    /// or this is a forked child process · `ShutdownInProgress`: the database was closed.
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned_opt(options, family, key)?.map(|value| value.to_vec()))
    }

    /// Gives the value of `key` in `family` to `callback`, once. The read ends before the call
    /// returns, and `callback` runs on the caller's thread, as in RocksDB 11.8. RocksDB's
    /// `GetAsync`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// let (family, mut found) = (db.default_column_family(), None);
    /// db.get_async(&Default::default(), &family, "esker", |value| found = value.ok().flatten());
    /// assert_eq!(found.as_deref(), Some(&b"gravel"[..]));
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn get_async(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
        callback: impl FnOnce(Result<Option<PinnedBytes>>),
    ) {
        callback(self.get_pinned_opt(options, family, key));
    }

    /// The value of `key` in the default family, without copying it.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.put("esker", "gravel")?;
    /// let value = db.get_pinned("esker")?.expect("it was just written");
    /// assert_eq!(&value[..], b"gravel");
    /// let family = db.default_column_family();
    /// assert!(db.get_pinned_opt(&Default::default(), &family, "fjord")?.is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `InvalidArgument`: merge operands
    /// without a merge operator, or the keys of the family have timestamps · `NotSupported`: a
    /// newer version wrote it, or this is a forked child process · `ShutdownInProgress`: the
    /// database was closed.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedBytes>> {
        let family = self.engine().families.default_family();
        self.inner.get(&PLAIN, family, key.as_ref())
    }

    /// The value of `key` in `family`, or `None`. The value is not copied: it keeps its block or
    /// memtable alive, whatever happens to the database, until it is dropped.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: merge
    /// operands without a merge operator, a snapshot or family of another database, or timestamps
    /// that the options and the family do not agree on · `NotSupported`: a newer version wrote it,
    /// or this is a forked child process · `ShutdownInProgress`: the database was closed.
    pub fn get_pinned_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedBytes>> {
        self.inner.get(options, &family.cf, key.as_ref())
    }

    /// In a family with user-defined timestamps: the value of `key` as of `ReadOptions::timestamp`,
    /// and the timestamp it was written with.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete`: the read needs I/O that
    /// `read_tier` forbids · `TimedOut`: it needs I/O after `deadline` · `InvalidArgument`: the
    /// family has no timestamps; the timestamp is missing, of another size, or older than what the
    /// family still keeps; merge operands without a merge operator; a snapshot or family of another
    /// database · `NotSupported`: a newer version wrote it, or this is a forked child process ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn get_with_timestamp(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(PinnedBytes, Vec<u8>)>> {
        self.inner.get_timestamped(options, &family.cf, key.as_ref())
    }

    /// Returns `false` if `key` is certainly absent, `true` if it may exist. The call looks only at
    /// memtables, filters and cached blocks.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let family = db.default_column_family();
    /// assert!(!db.key_may_exist(&family, "fjord"));
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn key_may_exist(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> bool {
        let options = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() };
        !matches!(self.inner.get(&options, &family.cf, key.as_ref()), Ok(None))
    }

    /// The present state, readable until the last clone of the snapshot is dropped. Until then
    /// compactions keep the versions that it shows.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.hold_now(Holder::User)
    }

    /// The present state, for an iterator. Statistics do not count this snapshot.
    pub(crate) fn hold_for_iterator(&self) -> Snapshot {
        self.inner.hold_now(Holder::Iterator)
    }

    /// Checks that the family belongs to this database.
    /// # Errors
    /// `InvalidArgument` if `family` is one of another database.
    pub(crate) fn check_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.inner.check_family(&family.cf)
    }

    /// The newest sequence number that reads see.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let before = db.latest_sequence_number();
    /// db.put("esker", "gravel")?;
    /// assert!(db.latest_sequence_number() > before);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.engine().visible_sequence()
    }
}

#[cfg(test)]
mod tests;
