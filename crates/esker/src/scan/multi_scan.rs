//! Several ranges of one family, scanned one after the other as of one point in time.
//!
//! In: ranges that ascend. Out: a [`Scan`] for each, in turn. One iterator goes through all of
//! them; their missing blocks are read together (`iterator/planned.rs`). Names: RocksDB
//! `include/rocksdb/multi_scan.h`.

use super::iterator::DbIterator;
use crate::cf::ColumnFamily;
use crate::instance::DbInner;
use crate::options::{MultiScanArgs, ReadOptions};
use esker_base::sync::Arc;
use esker_base::{PinnedBytes, Result};
use esker_table::AheadCounts;

/// Ranges that are scanned one after the other: see
/// [`Db::new_multi_scan`](crate::Db::new_multi_scan).
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// db.put("a1", "x")?;
/// let mut scans = db.multi_scan([("a", "b"), ("m", "n")])?;
/// let mut scan = scans.next_scan().expect("the first range");
/// assert!(scan.valid());
/// assert_eq!((scan.key(), scan.value()), (&b"a1"[..], &b"x"[..]));
/// while let Some((key, value)) = scan.next_item()? {
///     println!("{} has {} bytes", key.escape_ascii(), value.len());
/// }
/// scan.status()?;
/// println!("{:?}", scans.ahead_counts());
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct MultiScan {
    iter: DbIterator,
    reverse: bool,
}

/// One range of a [`MultiScan`]. A scan begins on its first entry, or with `reverse` on its last.
/// As an [`Iterator`] it returns copies of keys and values; [`Scan::next_item`] lends both without
/// a copy.
///
/// An error ends this range only: the later ranges can still be scanned.
///
/// ```
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let db = esker::Db::open_default(dir.path())?;
/// db.put("a1", "x")?;
/// let mut scans = db.multi_scan([("a", "b")])?;
/// let mut scan = scans.next_scan().expect("the first range");
/// assert!(scan.valid());
/// assert_eq!((scan.key(), scan.value()), (&b"a1"[..], &b"x"[..]));
/// assert!(scan.next_item()?.is_some() && scan.next_item()?.is_none());
/// scan.status()?;
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Debug)]
pub struct Scan<'m> {
    iter: &'m mut DbIterator,
    reverse: bool,
    /// Whether the caller has the current entry.
    is_given: bool,
    /// Whether the [`Iterator`] has returned an error.
    is_over: bool,
}

impl MultiScan {
    /// A scan of the ranges of `args`.
    /// # Errors
    /// See `Db::new_multi_scan`.
    pub(crate) fn new(
        db: &Arc<DbInner>,
        options: ReadOptions,
        cf: &Arc<ColumnFamily>,
        args: &MultiScanArgs,
    ) -> Result<MultiScan> {
        let options = ReadOptions { allow_unprepared_value: false, ..options };
        let iter = DbIterator::new_prepared(db, options, cf, args)?;
        Ok(MultiScan { iter, reverse: args.reverse })
    }

    /// The scan of the next range; `None` behind the last one. The rest of the range before it is
    /// skipped.
    pub fn next_scan(&mut self) -> Option<Scan<'_>> {
        let is_there = self.iter.enter_next_range();
        let (iter, reverse) = (&mut self.iter, self.reverse);
        is_there.then_some(Scan { iter, reverse, is_given: false, is_over: false })
    }

    /// Counts of the blocks read ahead so far.
    pub fn ahead_counts(&self) -> AheadCounts {
        self.iter.ahead_counts()
    }
}

impl Scan<'_> {
    /// The next entry, if there is one; it lives until the next call.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete`: the read needs I/O that `read_tier`
    /// forbids, or `max_skippable_internal_keys` was passed · `TimedOut`: it needs I/O after
    /// `deadline` · `NotSupported` in a forked child of the process that opened the database.
    #[inline]
    pub fn next_item(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_given && self.iter.valid() {
            if self.reverse { self.iter.prev() } else { self.iter.next() }
        }
        self.is_given = true;
        if self.iter.valid() {
            return Ok(Some((self.iter.key(), self.iter.value())));
        }
        self.iter.status().map(|()| None)
    }

    /// Whether the cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.iter.valid()
    }

    /// The key here.
    ///
    /// # Panics
    /// If the scan is not valid, in debug builds.
    pub fn key(&self) -> &[u8] {
        self.iter.key()
    }

    /// The value here.
    ///
    /// # Panics
    /// If the scan is not valid, in debug builds.
    pub fn value(&self) -> &[u8] {
        self.iter.value()
    }

    /// The error that made it invalid, if there was one.
    /// # Errors
    /// `Corruption` and `IoError` name the file · `Incomplete`: the read needs I/O that `read_tier`
    /// forbids, or `max_skippable_internal_keys` was passed · `TimedOut`: it needs I/O after
    /// `deadline` · `NotSupported` in a forked child of the process that opened the database.
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, PinnedBytes)>;

    /// Returns the next entry. The iteration ends after an error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        match self.next_item() {
            Ok(None) => None,
            Ok(Some((key, _))) => {
                let key = key.to_vec();
                Some(Ok((key, self.iter.pinned_value())))
            }
            Err(e) => {
                self.is_over = true;
                Some(Err(e))
            }
        }
    }
}
