//! Several ranges of one family, scanned one after the other as of one moment.
//!
//! In: ranges that ascend. Out: a [`Scan`] for each, in turn. One iterator goes through all of
//! them; what they have to read from files is read together (`iterator/prepared.rs`). Names:
//! RocksDB `include/rocksdb/multi_scan.h`.

use super::iterator::DbIterator;
use super::{ColumnFamilyHandle, Db};
use crate::options::{MultiScanArgs, ReadOptions};
use esker_base::{PinnedBytes, Result};
use esker_table::AheadCounts;

/// Ranges that are scanned one after the other: see [`Db::new_multi_scan`].
#[derive(Debug)]
pub struct MultiScan {
    iter: DbIterator,
    reverse: bool,
}

/// One range of a [`MultiScan`]. Stands on its first entry (with `reverse` its last) from the
/// start, if it has one. As an [`Iterator`] it gives copies of keys and values that stay readable;
/// [`Scan::next_item`] gives both where they lie.
///
/// An error ends the range, not those behind it.
#[derive(Debug)]
pub struct Scan<'m> {
    iter: &'m mut DbIterator,
    reverse: bool,
    /// The entry here has been given out.
    is_given: bool,
    /// An error has been given out by the [`Iterator`].
    is_over: bool,
}

impl Db {
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
        let iter = self.prepared_iter(options, family, args)?;
        Ok(MultiScan { iter, reverse: args.reverse })
    }
}

impl MultiScan {
    /// The scan of the next range; `None` behind the last one. What is left of the one before it is
    /// passed over.
    pub fn next_scan(&mut self) -> Option<Scan<'_>> {
        let is_there = self.iter.enter_next_range();
        let (iter, reverse) = (&mut self.iter, self.reverse);
        is_there.then_some(Scan { iter, reverse, is_given: false, is_over: false })
    }

    /// What has been read ahead so far.
    pub fn ahead_counts(&self) -> AheadCounts {
        self.iter.ahead_counts()
    }
}

impl Scan<'_> {
    /// The next entry, if there is one; it lives until the next call.
    /// # Errors
    /// As [`DbIterator::status`].
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

    /// Whether it stands on an entry.
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

    /// Why it is not valid, if an error was the reason.
    /// # Errors
    /// As [`DbIterator::status`].
    pub fn status(&self) -> Result<()> {
        self.iter.status()
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, PinnedBytes)>;

    /// After an error it ends.
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
