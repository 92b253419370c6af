//! Reads one key of an open database: chooses the super version and the sequence number, then calls
//! `search.rs`.
//!
//! In: a family, a key, read options, and perhaps unwritten operations of a transaction. Out: the
//! value, lent or pinned.
//!
//! Invariants
//!  1. The super version is taken before the sequence number.
//!  2. No file is read under an epoch guard. A search that needs a file first takes a reference to
//!     its super version and drops the guard.

use super::answer::Answer;
use super::search::{
    OwnReader, PointSearch, ReadContext, ReadSample, Sampled, Sees, ThroughRows, is_sampled,
};
use crate::cf::{ColumnFamily, OwnWrites, SuperVersion};
use crate::compact::compact_hot_files;
use crate::engine::SAMPLED;
use crate::files::RowCache;
use crate::instance::DbInner;
use crate::options::{CompactionStyle, ReadOptions, ReadTier, table_read_options};
use crate::scan::iterator::new_timestamped_iter;
use crate::scan::timestamped::TimestampedIter;
use crate::snapshot::CommitTable;
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::{Arc, epoch};
use esker_base::{PinnedBytes, Result, SequenceNumber};
use esker_format::key::LookupKey;

/// The read of one key.
#[derive(Clone, Copy)]
pub(crate) struct PointRead<'a> {
    pub(crate) options: &'a ReadOptions,
    pub(crate) cf: &'a ColumnFamily,
    /// Operations of a transaction or batch that are not written yet. They are newer than the
    /// database.
    pub(crate) own: Option<&'a OwnWrites>,
    pub(crate) statistics: Option<&'a Statistics>,
    /// Whether the caller wants entities: [`ReadContext::entities`].
    pub(crate) entities: bool,
}

impl DbInner {
    /// The value of `key`. Updates counts and times in the statistics.
    /// # Errors
    /// See `Db::get_pinned_opt`.
    pub(crate) fn get(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<PinnedBytes>> {
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

    /// The value of `key`, from the unwritten operations `own` or from the database.
    #[inline]
    pub(crate) fn read(
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

    /// Calls `settle` once with the result for `key`. Memory is read under an epoch guard. Before a
    /// file is read, the call takes a reference to the super version and drops the guard.
    /// # Errors
    /// `InvalidArgument`: a snapshot or family of another database; `settle` is not called then.
    #[inline]
    pub(crate) fn find(
        &self,
        read: &PointRead<'_>,
        key: &[u8],
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Result<()> {
        let _traced = if self.may_be_traced(read.cf) {
            let traced = self.trace_get(read.cf, read.options, key, read.entities)?;
            if let Some(commits) = &self.engine.commits {
                return self.find_committed(read, key, commits, settle);
            }
            let rows = self.engine.row_cache.as_ref();
            if self.engine.open_tag.load(Ordering::Relaxed) & SAMPLED != 0 && is_sampled() {
                return self.find_sampled(read, key, rows, settle);
            }
            if let Some(rows) = rows {
                return self.find_seeing(read, key, ThroughRows(rows), settle);
            }
            traced
        } else {
            self.engine.check_process()?;
            None
        };
        let PointRead { options, cf, own, statistics, entities } = *read;
        if let Some(snapshot) = &options.snapshot {
            self.check_own(snapshot)?;
            if let Some(super_version) = self.super_version_at(snapshot, cf) {
                self.find_in(&super_version, snapshot.sequence(), read, key, settle);
                return Ok(());
            }
        }
        let guard = epoch::pin();
        // The super version first, then the sequence number. In the reverse order, a flush in
        // between could drop entries that are visible at the number.
        let super_version = cf.super_version.lend(&guard);
        let lookup = LookupKey::new(key, self.read_sequence(options));
        let table_options = table_read_options(options);
        let files_only = self.reads_files_only(options);
        let context = ReadContext::new(cf, options, &table_options, statistics);
        let context = ReadContext { entities, files_only, ..context };
        let under = ReadContext { guard: Some(&guard), ..context };
        let search = PointSearch::new(super_version.get(), &under, &lookup);
        let suspended = match own {
            None => search.find(settle),
            Some(own) => search.over(&own.mem, &LookupKey::new(key, own.up_to)).find(settle),
        };
        if let Some(suspended) = suspended {
            let super_version = super_version.hold();
            drop(guard);
            PointSearch::new(&super_version, &context, &lookup).resume(suspended, settle);
        }
        Ok(())
    }

    /// [`DbInner::find`] in a database with a commit table. It holds the super version, and may
    /// wait for files at once.
    #[cold]
    fn find_committed(
        &self,
        read: &PointRead<'_>,
        key: &[u8],
        commits: &CommitTable,
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Result<()> {
        let PointRead { options, cf, own, statistics, entities } = *read;
        let (super_version, sequence, unseen) = self.prepared_read_point(cf, options, commits)?;
        let table_options = table_read_options(options);
        let context = ReadContext::new(cf, options, &table_options, statistics);
        let context = ReadContext { entities, files_only: self.reads_files_only(options), ..context };
        let spilled = own.and_then(|own| own.spilled.as_ref());
        let reader = spilled.map(|own| OwnReader { own, unseen: unseen.as_ref(), sequence });
        let lookup = LookupKey::new(key, reader.map_or(sequence, |reader| reader.newest()));
        let mut search = PointSearch::new(&super_version, &context, &lookup);
        if let Some(own) = own {
            search = search.over(&own.mem, &LookupKey::new(key, own.up_to));
        }
        let suspended = match (reader, &unseen) {
            (Some(reader), _) => search.seeing(reader).find(settle),
            (None, Some(unseen)) => search.seeing(unseen).find(settle),
            (None, None) => search.find(settle),
        };
        debug_assert!(suspended.is_none(), "a search without a guard never waits");
        Ok(())
    }

    /// [`DbInner::find`] for one get of many. Compacts tables in which gets find too little.
    #[cold]
    fn find_sampled(
        &self,
        read: &PointRead<'_>,
        key: &[u8],
        rows: Option<&RowCache>,
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Result<()> {
        let guard = epoch::pin();
        let options = &read.cf.super_version.load(&guard).options;
        let threshold = match options.compaction_style {
            CompactionStyle::Fifo | CompactionStyle::None => 0.0,
            _ => options.read_triggered_compaction_threshold,
        };
        drop(guard);
        // Without a threshold no table passes it.
        let sample = ReadSample::new(if threshold > 0.0 { threshold } else { f64::INFINITY });
        self.find_seeing(read, key, Sampled { rows, sample: &sample }, settle)?;
        let hot = sample.into_hot();
        if !hot.is_empty() {
            compact_hot_files(&self.engine, read.cf, key, &hot);
        }
        Ok(())
    }

    /// [`DbInner::find`] with a look at each table. It holds the super version, and may wait for
    /// files at once: so each table is searched in one piece, and its row is whole.
    #[inline(never)]
    fn find_seeing(
        &self,
        read: &PointRead<'_>,
        key: &[u8],
        seen: impl Sees,
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Result<()> {
        let PointRead { options, cf, own, statistics, entities } = *read;
        if let Some(snapshot) = &options.snapshot {
            self.check_own(snapshot)?;
        }
        let (super_version, sequence) = self.pinned_read_point(cf, options, None);
        let table_options = table_read_options(options);
        let context = ReadContext::new(cf, options, &table_options, statistics);
        let context = ReadContext { entities, files_only: self.reads_files_only(options), ..context };
        let lookup = LookupKey::new(key, sequence);
        let mut search = PointSearch::new(&super_version, &context, &lookup);
        if let Some(own) = own {
            search = search.over(&own.mem, &LookupKey::new(key, own.up_to));
        }
        let suspended = search.seeing(seen).find(settle);
        debug_assert!(suspended.is_none(), "a search without a guard never waits");
        Ok(())
    }

    /// [`DbInner::find`] in the super version of a secondary's snapshot.
    #[cold]
    fn find_in(
        &self,
        super_version: &Arc<SuperVersion>,
        sequence: SequenceNumber,
        read: &PointRead<'_>,
        key: &[u8],
        settle: &mut impl FnMut(Answer<'_>),
    ) {
        let PointRead { options, cf, statistics, entities, .. } = *read;
        let table_options = table_read_options(options);
        let context = ReadContext::new(cf, options, &table_options, statistics);
        let context = ReadContext { entities, ..context };
        let lookup = LookupKey::new(key, sequence);
        _ = PointSearch::new(super_version, &context, &lookup).find(settle);
    }

    /// The value of `key` as of the timestamp that `options` name, and the timestamp of its write.
    #[cold]
    pub(crate) fn get_timestamped(
        &self,
        options: &ReadOptions,
        cf: &ColumnFamily,
        key: &[u8],
    ) -> Result<Option<(PinnedBytes, Vec<u8>)>> {
        let _get = if self.may_be_traced(cf) { self.trace_get(cf, options, key, false)? } else { None };
        self.timestamped(options, cf, key)?.get(key)
    }

    /// A cursor for `key` alone, as of the timestamp that `options` name.
    #[cold]
    pub(crate) fn timestamped(
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
        let (super_version, sequence) = self.pinned_read_point(cf, &options, None);
        new_timestamped_iter(cf, &super_version, &options, sequence, Some(key))
    }
}
