//! Reads that see unwritten operations of a batch or a transaction.
//!
//! In: own writes of a family. Out: the result of a read if they were written, and whether keys
//! were written since a sequence number.

use super::{ColumnFamilyHandle, Db};
use crate::cf::OwnWrites;
use crate::get::latest::{latest_sequence, range_written_since, timestamped_written_since};
use crate::get::search::ReadContext;
use crate::options::{ReadOptions, table_read_options};
use crate::scan::{self, DbIter, check_plain};
use esker_base::{PinnedBytes, Result, SequenceNumber};

/// Keys that are read over own writes, divided into those that these may have to do with and the
/// rest.
pub(super) struct Divided<'k> {
    /// Both parts are read with them: as of the same point in time.
    pub(super) options: ReadOptions,
    /// To be read of the database, together.
    pub(super) rest: Vec<&'k [u8]>,
    all: Vec<(&'k [u8], bool)>,
}

impl Divided<'_> {
    /// The answers as the keys stand: those of the rest, and of others what `over_own` gives.
    pub(super) fn join<T>(
        &self,
        rest: Vec<Result<T>>,
        over_own: impl Fn(&[u8]) -> Result<T>,
    ) -> Vec<Result<T>> {
        let mut rest = rest.into_iter();
        let mut next = || rest.next().expect("one answer for each key of the batch");
        self.all.iter().map(|(key, concerned)| if *concerned { over_own(key) } else { next() }).collect()
    }
}

impl Db {
    /// [`Db::get_pinned_opt`], with `own` writes over what is in the database.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub(crate) fn get_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: &OwnWrites,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
        check_plain(&family.cf, options)?;
        self.inner.read(options, &family.cf, key, Some(own), None)
    }

    /// [`Db::multi_get_opt`], with `own` writes over the database's entries. Keys that these writes
    /// may change are read one by one, and most such reads end there; the other keys are read
    /// together.
    pub(crate) fn multi_get_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: &OwnWrites,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        let divided = self.divided(options, own, keys);
        let rest = self.multi_get_opt(&divided.options, family, &divided.rest);
        divided.join(rest, |key| self.get_over(&divided.options, family, own, key))
    }

    pub(super) fn divided<'k>(
        &self,
        options: &ReadOptions,
        own: &OwnWrites,
        keys: &'k [impl AsRef<[u8]>],
    ) -> Divided<'k> {
        let mut options = options.clone();
        options.snapshot.get_or_insert_with(|| self.snapshot());
        let all = keys.iter().map(|key| (key.as_ref(), own.concern(key.as_ref())));
        let all: Vec<(&[u8], bool)> = all.collect();
        let rest = all.iter().filter(|(_, concerned)| !concerned).map(|(key, _)| *key).collect();
        Divided { options, rest, all }
    }

    /// [`Db::iter_opt`], with `own` writes over what is in the database.
    /// # Errors
    /// As [`Db::iter_opt`].
    pub(crate) fn iter_over(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        own: Option<&OwnWrites>,
    ) -> Result<DbIter> {
        scan::iter_over(&self.inner, &family.cf, options, own)
    }

    /// Whether `key` was written after `since`; range deletions over it count. Without
    /// `with_tables`, memtables only are asked; with them, `since` must be that of a live snapshot.
    /// # Errors
    /// `TryAgain` if memtables do not reach back to `since` and tables are not to be asked ·
    /// `Corruption` and `IoError` of the tables.
    pub(crate) fn written_since(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        since: SequenceNumber,
        with_tables: bool,
    ) -> Result<bool> {
        // Files may be read: the super version is held, without a guard.
        let (options, super_version) = (ReadOptions::default(), family.cf.pinned_super_version());
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        Ok(latest_sequence(&super_version, &context, key, since, with_tables)?.is_some())
    }

    /// Whether `key`, without a timestamp, of a family that has them was written after `since`, or
    /// at a timestamp newer than this one.
    /// # Errors
    /// `Corruption` and `IoError` of the tables.
    pub(crate) fn timestamped_written_since(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        since: SequenceNumber,
        timestamp: Option<&[u8]>,
    ) -> Result<bool> {
        let (mut options, super_version) = (ReadOptions::default(), family.cf.pinned_super_version());
        if let Some(timestamp) = timestamp {
            // At a timestamp before the remaining history, writes behind it may be forgotten.
            options.timestamp = Some(timestamp.to_vec());
            family.cf.read_timestamp(&super_version, &options)?;
        }
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        timestamped_written_since(&super_version, &context, key, since, timestamp)
    }

    /// Whether any key from `begin` to `end`, both included, was written after `since`; `None` is
    /// an open end.
    /// # Errors
    /// As [`Db::written_since`].
    pub(crate) fn range_written_since(
        &self,
        family: &ColumnFamilyHandle,
        range: (Option<&[u8]>, Option<&[u8]>),
        since: SequenceNumber,
        with_tables: bool,
    ) -> Result<bool> {
        let (options, super_version) = (ReadOptions::default(), family.cf.pinned_super_version());
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        range_written_since(&super_version, &context, range, since, with_tables)
    }
}
