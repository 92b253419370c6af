//! Reads that see unwritten operations of a batch or a transaction.
//!
//! In: own writes of a family. Out: results of reads as if the own writes were in the database;
//! whether others wrote keys since a sequence number.

use super::{ColumnFamilyHandle, Db};
use crate::cf::OwnWrites;
use crate::get::latest::{Since, latest_sequence, range_written_since, timestamped_written_since};
use crate::get::search::ReadContext;
use crate::options::{ReadOptions, table_read_options};
use crate::scan::{self, DbIter, check_plain};
use crate::snapshot::OwnNumbers;
use esker_base::{PinnedBytes, Result, SequenceNumber};

/// The keys of one call, divided into those that own writes may concern and the rest.
pub(super) struct Divided<'k> {
    /// The read options of both parts: they have the same snapshot.
    pub(super) options: ReadOptions,
    /// Keys that own writes do not concern. The database reads them together.
    pub(super) rest: Vec<&'k [u8]>,
    all: Vec<(&'k [u8], bool)>,
}

impl Divided<'_> {
    /// The answers in the order of the keys. `rest` are the answers to `self.rest`; `over_own`
    /// reads each other key.
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
    /// [`Db::get_pinned_opt`], with `own` writes over the database's entries.
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

    /// [`Db::iter_opt`], with `own` writes over the database's entries.
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
    /// `with_tables`, only memtables are searched. With it, `since` must be the number of a live
    /// snapshot. Entries of `own` do not count.
    /// # Errors
    /// `TryAgain`: without `with_tables`, memtables do not reach back to `since` · `Corruption` and
    /// `IoError` of the tables.
    pub(crate) fn written_since(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        (since, own): (SequenceNumber, Option<&OwnNumbers>),
        with_tables: bool,
    ) -> Result<bool> {
        // A read of files may take long, so this holds the super version itself and no guard.
        let (options, super_version) = (ReadOptions::default(), family.cf.pinned_super_version());
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        let since = Since::new(since, self.inner.unseen_sections(since)).without_own(own);
        Ok(latest_sequence(&super_version, &context, key, &since, with_tables)?.is_some())
    }

    /// Whether `key` of a family with timestamps was written after `since`, or at a timestamp newer
    /// than `timestamp`. `key` comes without a timestamp.
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
            // Below the oldest readable timestamp, compactions may have dropped later writes.
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
        (since, own): (SequenceNumber, Option<&OwnNumbers>),
        with_tables: bool,
    ) -> Result<bool> {
        let (options, super_version) = (ReadOptions::default(), family.cf.pinned_super_version());
        let table_options = table_read_options(&options);
        let context = ReadContext::new(&family.cf, &options, &table_options, None);
        let since = Since::new(since, self.inner.unseen_sections(since)).without_own(own);
        range_written_since(&super_version, &context, range, &since, with_tables)
    }
}
