//! Point reads and snapshots.

use super::own_writes::OwnWrites;
use super::{ColumnFamilyHandle, Db};
use crate::cf::ColumnFamily;
use crate::get::answer::Answer;
use crate::get::search::{ReadContext, find, find_on, find_over};
use crate::instance::DbInner;
use crate::options::{PLAIN, ReadOptions, ReadTier, table_read_options};
use crate::scan::iterator::new_timestamped_iter;
use crate::scan::timestamped::TimestampedIter;
use crate::snapshot::{Holder, Snapshot};
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::sync::epoch;
use esker_base::{PinnedBytes, Result, SequenceNumber};
use esker_format::key::LookupKey;

impl Db {
    /// The value of `key` in the default family, copied.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned(key)?.map(|value| value.to_vec()))
    }

    /// The value of `key` in `family`, copied.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_cf(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_opt(&PLAIN, family, key)
    }

    /// The value of `key` in `family`, copied.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_opt(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.get_pinned_opt(options, family, key)?.map(|value| value.to_vec()))
    }

    /// The value of `key` in the default family, without copying it.
    /// # Errors
    /// As [`Db::get_pinned_opt`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedBytes>> {
        let family = self.engine().families.default_family();
        self.inner.get(&PLAIN, family, key.as_ref())
    }

    /// The value of `key` in `family`, or `None`. The value is not copied: it keeps its block or
    /// memtable alive, whatever happens to the database, until it is dropped.
    /// # Errors
    /// `Corruption` and `IoError` name the file and offset · `Incomplete` if `read_tier` forbids
    /// the I/O it would take · `InvalidArgument` for merge operands in a family without merge
    /// operator, and for a snapshot or family of another database · `NotSupported` for what only a
    /// newer version can read, and in a forked child of the process that opened the database.
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
    /// As [`Db::get_pinned_opt`]; `InvalidArgument` if the family has no timestamps, the timestamp
    /// is missing or of another size, or older than what the family still keeps.
    pub fn get_with_timestamp(
        &self,
        options: &ReadOptions,
        family: &ColumnFamilyHandle,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(PinnedBytes, Vec<u8>)>> {
        self.inner.get_timestamped(options, &family.cf, key.as_ref())
    }

    /// Whether `key` is certainly absent (`false`), judging by memtables, filters and cached blocks
    /// only.
    pub fn key_may_exist(&self, family: &ColumnFamilyHandle, key: impl AsRef<[u8]>) -> bool {
        let options = ReadOptions { read_tier: ReadTier::BlockCache, ..ReadOptions::default() };
        !matches!(self.inner.get(&options, &family.cf, key.as_ref()), Ok(None))
    }

    /// The state of now, readable until the last clone of the snapshot is dropped. Keeps old
    /// versions from being compacted away meanwhile.
    pub fn snapshot(&self) -> Snapshot {
        self.inner.hold_now(Holder::User)
    }

    /// # Errors
    /// `InvalidArgument` if `family` is one of another database.
    pub(crate) fn check_family(&self, family: &ColumnFamilyHandle) -> Result<()> {
        self.inner.check_family(&family.cf)
    }

    /// The newest sequence number that reads see.
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.engine().visible_sequence()
    }
}

/// How one key is read.
#[derive(Clone, Copy)]
pub(super) struct PointRead<'a> {
    pub(super) options: &'a ReadOptions,
    pub(super) cf: &'a ColumnFamily,
    /// Writes over what is in the database.
    pub(super) own: Option<&'a OwnWrites>,
    pub(super) statistics: Option<&'a Statistics>,
    /// As an entity: [`ReadContext::entities`].
    pub(super) entities: bool,
}

impl DbInner {
    fn get(&self, options: &ReadOptions, cf: &ColumnFamily, key: &[u8]) -> Result<Option<PinnedBytes>> {
        if cf.icmp.timestamp_size() > 0 || options.timestamp.is_some() {
            return Ok(self.get_timestamped(options, cf, key)?.map(|(value, _)| value));
        }
        let Some(statistics) = &self.engine.options.statistics else {
            return self.read(options, cf, key, None, None);
        };
        let start = self.engine.env.clock.monotonic_nanos();
        let value = self.read(options, cf, key, None, Some(statistics))?;
        let micros = (self.engine.env.clock.monotonic_nanos() - start) / 1000;
        statistics.record_tick(Ticker::NumberKeysRead, 1);
        let bytes = value.as_ref().map_or(0, |v| v.len() as u64);
        statistics.record_tick(Ticker::BytesRead, bytes);
        statistics.record_in_histogram(Histogram::BytesPerRead, bytes);
        statistics.report_time_to_histogram(Histogram::DbGet, micros);
        Ok(value)
    }

    /// The value of `key`, with `own` writes over what is in the database.
    #[inline]
    pub(super) fn read(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
        own: Option<&OwnWrites>,
        statistics: Option<&Statistics>,
    ) -> Result<Option<PinnedBytes>> {
        let mut found = Ok(None);
        let read = PointRead { options, cf, own, statistics, entities: false };
        self.find(&read, key, &mut |answer| found = answer.into_pinned())?;
        found
    }

    /// Gives `settle` what `read` finds for `key`, once. What is in memory is read under a guard;
    /// if that is not enough, the view is held and the guard given up before a file is read.
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; nothing is settled then.
    #[inline]
    pub(super) fn find(
        &self,
        read: &PointRead<'_>,
        key: &[u8],
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Result<()> {
        let PointRead { options, cf, own, statistics, entities } = *read;
        self.check_family(cf)?;
        if let Some(snapshot) = &options.snapshot {
            self.check_own(snapshot)?;
        }
        let guard = epoch::pin();
        // The view first, then the sequence number: the other way round, a flush in between could
        // drop what the number still sees.
        let view = cf.super_version.lend(&guard);
        let lookup = LookupKey::new(key, self.read_sequence(options));
        let table_options = table_read_options(options);
        let files_only = self.reads_files_only(options);
        let context = ReadContext::new(cf, options, &table_options, statistics);
        let context = ReadContext { entities, files_only, ..context };
        let under = ReadContext { guard: Some(&guard), ..context };
        let parked = match own {
            None => find(view.get(), &under, &lookup, settle),
            Some(own) => {
                let own_key = LookupKey::new(key, own.up_to);
                find_over(view.get(), &under, &own.mem, &own_key, &lookup, settle)
            }
        };
        if let Some(parked) = parked {
            let view = view.hold();
            drop(guard);
            _ = find_on(&view, &context, &lookup, parked, settle);
        }
        Ok(())
    }

    /// The value of `key` as of the timestamp that `options` name, and the timestamp it was written
    /// with.
    #[cold]
    fn get_timestamped(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<(PinnedBytes, Vec<u8>)>> {
        self.timestamped(options, cf, key)?.get(key)
    }

    /// A cursor for `key` alone, as of the timestamp that `options` name.
    #[cold]
    pub(super) fn timestamped(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<TimestampedIter> {
        self.check_family(cf)?;
        if let Some(snapshot) = &options.snapshot {
            self.check_own(snapshot)?;
        }
        let mut options = options.clone();
        if options.read_tier == ReadTier::Persisted && !self.reads_files_only(&options) {
            options.read_tier = ReadTier::ReadAll;
        }
        let view = cf.pinned_view();
        let sequence = self.read_sequence(&options);
        new_timestamped_iter(cf, &view, &options, sequence, Some(key))
    }
}

#[cfg(test)]
mod tests;
