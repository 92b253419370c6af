//! Scans: the public methods of `scan/`.

use super::{ColumnFamilyHandle, Db};
use crate::options::{MultiScanArgs, ReadOptions};
use crate::scan::{self, DbIterator, MultiScan};
use esker_base::{Result, SequenceNumber};
use esker_format::cursor::InternalIterator;

impl Db {
    /// An iterator over the default family as of now.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// use esker::ReadOptions;
    /// # db.put("a", "1")?;
    ///
    /// for entry in db.iter()? {
    ///     let (key, value) = entry?;
    ///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
    /// }
    /// let family = db.default_column_family();
    /// let mut cursor = db.iter_cf(&family)?;
    /// cursor.seek("a");
    /// let bounded = ReadOptions::new().lower_bound("a").upper_bound("b");
    /// assert_eq!(db.iter_opt(bounded, &family)?.into_iter().count(), 1);
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `Corruption` and `IoError` from opening level-0 files · `NotSupported` in a forked child of
    /// the process that opened the database · `ShutdownInProgress`: the database was closed.
    pub fn iter(&self) -> Result<DbIterator> {
        self.iter_opt(ReadOptions::default(), &self.default_column_family())
    }

    /// An iterator over `family` as of now.
    /// # Errors
    /// `InvalidArgument`: a family of another database · `Corruption` and `IoError` from opening
    /// level-0 files · `NotSupported` in a forked child of the process that opened the database ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn iter_cf(&self, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        self.iter_opt(ReadOptions::default(), family)
    }

    /// An iterator over `family` within the bounds of `options`, as of its snapshot or of now.
    /// # Errors
    /// `InvalidArgument` if the snapshot or the family is one of another database, or `tailing`
    /// meets a snapshot or timestamps · `NotSupported`: `read_tier` is `Persisted` · `Corruption`
    /// and `IoError` from opening level-0 files; `Incomplete` and `TimedOut` if opening one takes
    /// I/O or time that the options forbid.
    pub fn iter_opt(&self, options: ReadOptions, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        DbIterator::new(&self.inner, options, &family.cf, None)
    }

    /// Scans of several `ranges` of the default family as of now. Each goes from its first key up
    /// to, not including, its second.
    /// # Errors
    /// `InvalidArgument`: there are no ranges; a range does not begin before its limit, begins
    /// before the previous one ends, or lacks a limit and is not the last; a snapshot or family of
    /// another database · `NotSupported`: `read_tier` is `Persisted`, or this is a forked child of
    /// the process that opened the database · `Corruption` and `IoError` from opening level-0 files
    /// · `Incomplete` and `TimedOut`: `read_tier` or `deadline` stops the opening of a file ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn multi_scan<K: AsRef<[u8]>>(&self, ranges: impl IntoIterator<Item = (K, K)>) -> Result<MultiScan> {
        let mut args = MultiScanArgs::new();
        ranges.into_iter().for_each(|(start, limit)| args.insert(start, limit));
        self.new_multi_scan(ReadOptions::default(), &self.default_column_family(), &args)
    }

    /// Scans of the ranges of `args` in `family`, as of the snapshot of `options` or of now. The
    /// ranges replace `iterate_upper_bound` and, with `reverse`, `iterate_lower_bound`. When the
    /// cache lacks a block, the following blocks of all files and ranges are read together with it,
    /// up to the limit in `args`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// let mut scans = db.multi_scan([("a", "b"), ("m", "n")])?;
    /// while let Some(scan) = scans.next_scan() {
    ///     for item in scan {
    ///         let (key, value) = item?;
    ///         println!("{} has {} bytes", key.escape_ascii(), value.len());
    ///     }
    /// }
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `InvalidArgument`: there are no ranges; a range does not begin before its limit, begins
    /// before the previous one ends, or lacks a limit and is not the last; a snapshot or family of
    /// another database · `NotSupported`: `read_tier` is `Persisted`, or this is a forked child of
    /// the process that opened the database · `Corruption` and `IoError` from opening level-0 files
    /// · `Incomplete` and `TimedOut`: `read_tier` or `deadline` stops the opening of a file ·
    /// `ShutdownInProgress`: the database was closed.
    pub fn new_multi_scan(
        &self,
        options: ReadOptions,
        family: &ColumnFamilyHandle,
        args: &MultiScanArgs,
    ) -> Result<MultiScan> {
        MultiScan::new(&self.inner, options, &family.cf, args)
    }
}

/// A cursor over all internal entries of `family` as of now: every version of every key but those
/// that range tombstones hide. Keys end in their sequence number and type.
/// # Errors
/// `InvalidArgument` for a family of another database · `Corruption` and `IoError` from opening
/// level-0 files.
pub fn internal_iterator(db: &Db, family: &ColumnFamilyHandle) -> Result<Box<dyn InternalIterator>> {
    db.inner.check_family(&family.cf)?;
    let super_version = family.cf.pinned_super_version();
    let options = ReadOptions { total_order_seek: true, ..ReadOptions::default() };
    Ok(scan::iterator::internal_iterator(&family.cf, &super_version, &options, SequenceNumber::MAX, None)?)
}
