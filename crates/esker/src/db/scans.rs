//! Scans: the door to `scan/`.

use super::{ColumnFamilyHandle, Db};
use crate::options::{MultiScanArgs, ReadOptions};
use crate::scan::{self, DbIterator, MultiScan};
use esker_base::{Result, SequenceNumber};
use esker_format::cursor::InternalIterator;

impl Db {
    /// An iterator over the default family as of now.
    /// # Errors
    /// As [`Db::iter_opt`].
    pub fn iter(&self) -> Result<DbIterator> {
        self.iter_opt(ReadOptions::default(), &self.default_column_family())
    }

    /// An iterator over `family` as of now.
    /// # Errors
    /// As [`Db::iter_opt`].
    pub fn iter_cf(&self, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        self.iter_opt(ReadOptions::default(), family)
    }

    /// An iterator over `family` within the bounds of `options`, as of its snapshot or of now.
    /// # Errors
    /// `InvalidArgument` if the snapshot or the family is one of another database, or the iterator
    /// is to follow new writes and has a snapshot or timestamps, too · `NotSupported` for the tier
    /// of what is persisted · `Corruption` and `IoError` from opening level-0 files; `Incomplete`
    /// and `TimedOut` if one cannot be opened as far, or as long, as the options let a read go.
    pub fn iter_opt(&self, options: ReadOptions, family: &ColumnFamilyHandle) -> Result<DbIterator> {
        DbIterator::new(&self.inner, options, &family.cf, None)
    }

    /// Scans of several `ranges` of the default family, each from its first key up to, not
    /// including, its second, as of now.
    /// # Errors
    /// As [`Db::new_multi_scan`].
    pub fn multi_scan<K: AsRef<[u8]>>(&self, ranges: impl IntoIterator<Item = (K, K)>) -> Result<MultiScan> {
        let mut args = MultiScanArgs::new();
        ranges.into_iter().for_each(|(start, limit)| args.insert(start, limit));
        self.new_multi_scan(ReadOptions::default(), &self.default_column_family(), &args)
    }

    /// Scans of the ranges of `args` in `family`, as of the snapshot of `options` or of now. The
    /// ranges take the place of `iterate_upper_bound`, with `reverse` of `iterate_lower_bound` too.
    /// Blocks of all files and ranges are read together, as many as `args` has room for, when the
    /// first of them is missing in the cache.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), esker::Error> {
    /// # let db = esker::Db::open(&esker::Options::default(), "/tmp/db")?;
    /// let mut scans = db.multi_scan([("a", "b"), ("m", "n")])?;
    /// while let Some(scan) = scans.next_scan() {
    ///     for item in scan {
    ///         let (key, value) = item?;
    ///         println!("{} has {} bytes", key.escape_ascii(), value.len());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    /// # Errors
    /// `InvalidArgument`: there are no ranges; one does not begin before its limit; one begins
    /// before the one before it ends (as RocksDB refuses them); one without a limit is not the
    /// last, or `reverse` is set (RocksDB takes the former among others that have limits) · as
    /// [`Db::iter_opt`].
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
    Ok(scan::iterator::internal_iterator(&family.cf, &super_version, &options, SequenceNumber::MAX)?)
}
