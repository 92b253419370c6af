//! Searches for one key: in memtables, then in levels.
//!
//! In: a super version of the family and a key at a sequence number. Out: the key's value, lent or
//! pinned. Sources are searched newest first, and the search ends at the first source that settles
//! the answer. A range tombstone of a source hides all older entries.
//!
//! A search under a guard never waits, because the guard keeps alive everything that other threads
//! release meanwhile. At a block that is not in memory the search is suspended ([`SuspendedGet`]).
//! The caller then takes a reference to the super version, drops the guard, and calls
//! [`PointSearch::resume`].
//!
//! Source: RocksDB `db/version_set.cc` (`Version::Get`), `db/memtable.cc`.

use super::answer::{Answer, LentValue};
use super::by_level;
use super::saver::{AnswerFinish, Saver};
use crate::cf::{ColumnFamily, SuperVersion};
use crate::files::open_table::{TableRef, open_for, opened_file};
use crate::files::{NewRow, RowCache};
use crate::options::{ReadOptions, ReadTier};
use crate::picker::can_be_asked;
use crate::snapshot::{OwnNumbers, UnseenSections};
use crate::version::{Candidates, FileMeta, Version};
use esker_base::perf_context::{PerfLevel, is_detailed, perf_level};
use esker_base::rng::split_mix;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::Arc;
use esker_base::sync::epoch::Guard;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
use esker_base::{FileNumber, PinnedBytes, Result, SequenceNumber, ValueType};
use esker_base::{perf_add, perf_count, perf_time};
use esker_format::key::{LookupKey, ParsedInternalKey};
use esker_memtable::{MemTable, MemValue, ReadState};
use esker_table::blob::BlobReads;
use esker_table::{Missing, TableCache, TableReadOptions, TableValue};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// The parameters of a read besides the super version and the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadContext<'a> {
    pub(crate) tables: &'a TableCache,
    pub(crate) options: &'a TableReadOptions,
    pub(crate) ignore_range_deletions: bool,
    /// Searches only the memtables (`ReadTier::Memtable`).
    pub(crate) memtables_only: bool,
    /// Searches only the files (`ReadTier::Persisted`, if memtables may have writes without WAL).
    pub(crate) files_only: bool,
    pub(crate) statistics: Option<&'a Statistics>,
    /// The guard under which the read runs. A read without a guard may wait for files.
    pub(crate) guard: Option<&'a Guard>,
    /// Whether the caller wants entities. The search then turns each answer into an entity
    /// ([`AnswerFinish::entity`]). Only a plain value that is lent stays as it is.
    pub(crate) entities: bool,
}

impl<'a> ReadContext<'a> {
    /// The context of a read of this family with these options.
    pub(crate) fn new(
        cf: &'a ColumnFamily,
        options: &ReadOptions,
        table_options: &'a TableReadOptions,
        statistics: Option<&'a Statistics>,
    ) -> ReadContext<'a> {
        ReadContext {
            tables: &cf.tables,
            options: table_options,
            ignore_range_deletions: options.ignore_range_deletions,
            memtables_only: options.read_tier == ReadTier::Memtable,
            files_only: false,
            statistics,
            guard: None,
            entities: false,
        }
    }

    /// Access to values in blob files.
    #[inline]
    pub(crate) fn blobs(&self) -> BlobReads<'a> {
        BlobReads { source: self.tables.blobs(), options: self.options }
    }

    /// The parts needed to make the answer for `key`.
    #[inline]
    pub(crate) fn finish<'f>(&self, super_version: &'f SuperVersion, key: &'f LookupKey) -> AnswerFinish<'f>
    where
        'a: 'f,
    {
        AnswerFinish {
            user_key: key.user_key(),
            merge_operator: super_version.options.merge_operator.as_ref(),
            blobs: self.blobs(),
            entity: self.entities,
            statistics: self.statistics,
        }
    }

    /// The open table of `file`; `None` if the read would have to wait for it.
    #[inline]
    pub(super) fn table<'f>(&self, file: &'f FileMeta) -> Result<Option<TableRef<'f>>> {
        match self.guard {
            Some(_) => Ok(opened_file(self.tables, file)),
            None => open_for(self.tables, file, self.options).map(Some),
        }
    }
}

/// A search that stopped because it would have to wait under its guard.
#[derive(Debug)]
pub(crate) struct SuspendedGet {
    pub(crate) saver: Saver,
    /// The position at which the search continues; `None` if only a value in a blob file is
    /// missing, or if the search has seen no file (`find_in_memtables`).
    pub(crate) at: Option<SuspendedAt>,
}

/// A position among the files of a super version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuspendedAt {
    pub(crate) level: usize,
    pub(crate) file: FileNumber,
    /// The missing block; `None` if the table itself was missing.
    pub(crate) missing: Option<Missing>,
}

/// Says which entries up to a read's sequence number the read sees.
pub(crate) trait Sees: Copy {
    /// Whether the read sees an entry with this sequence number.
    fn sees(&self, sequence: SequenceNumber) -> bool;

    /// The number up to which range tombstones count; `None`: that of the read's key.
    #[inline(always)]
    fn tombstones_up_to(&self) -> Option<SequenceNumber> {
        None
    }

    /// The rows in which tables are looked up first.
    #[inline(always)]
    fn rows(&self) -> Option<&RowCache> {
        None
    }

    /// The sample of which the read is a part.
    #[inline(always)]
    fn sample(&self) -> Option<&ReadSample> {
        None
    }

    /// Whether the merge operator may end the search at an operand (`MergeOperator::should_merge`).
    #[inline(always)]
    fn asks_operator(&self) -> bool {
        true
    }
}

/// The entries that `S` sees, down to the value below all operands.
#[derive(Clone, Copy, Debug)]
struct WholeHistory<S>(S);

impl<S: Sees> Sees for WholeHistory<S> {
    #[inline]
    fn sees(&self, sequence: SequenceNumber) -> bool {
        self.0.sees(sequence)
    }

    fn tombstones_up_to(&self) -> Option<SequenceNumber> {
        self.0.tombstones_up_to()
    }

    fn rows(&self) -> Option<&RowCache> {
        self.0.rows()
    }

    fn sample(&self) -> Option<&ReadSample> {
        self.0.sample()
    }

    fn asks_operator(&self) -> bool {
        false
    }
}

/// Every entry: the check compiles to nothing.
impl Sees for () {
    #[inline(always)]
    fn sees(&self, _sequence: SequenceNumber) -> bool {
        true
    }
}

impl Sees for &UnseenSections {
    #[inline]
    fn sees(&self, sequence: SequenceNumber) -> bool {
        !self.hides(sequence)
    }
}

/// Every entry. Tables are looked up in the row cache first. Reads without a row cache have another
/// type, and no trace of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThroughRows<'a>(pub(crate) &'a RowCache);

impl Sees for ThroughRows<'_> {
    #[inline(always)]
    fn sees(&self, _sequence: SequenceNumber) -> bool {
        true
    }

    #[inline(always)]
    fn rows(&self) -> Option<&RowCache> {
        Some(self.0)
    }
}

/// Every entry, by way of the row cache if there is one. The read is sampled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled<'a> {
    pub(crate) rows: Option<&'a RowCache>,
    pub(crate) sample: &'a ReadSample,
}

impl Sees for Sampled<'_> {
    #[inline(always)]
    fn sees(&self, _sequence: SequenceNumber) -> bool {
        true
    }

    #[inline(always)]
    fn rows(&self) -> Option<&RowCache> {
        self.rows
    }

    #[inline(always)]
    fn sample(&self) -> Option<&ReadSample> {
        Some(self.sample)
    }
}

/// Gets of which one is sampled, as in RocksDB.
const READS_PER_SAMPLE: u64 = 1024;

/// The number of threads that have sampled: each gets a seed of its own. Otherwise threads with few
/// gets would all sample the same ones, or none.
static SAMPLING_THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static SAMPLER: Cell<u64> = Cell::new(split_mix(SAMPLING_THREADS.fetch_add(1, Ordering::Relaxed)));
}

/// Whether this get is sampled. Gets are drawn, since a pattern of gets may have a period.
pub(crate) fn is_sampled() -> bool {
    SAMPLER.with(|state| {
        state.set(state.get().wrapping_add(1));
        split_mix(state.get()).is_multiple_of(READS_PER_SAMPLE)
    })
}

/// The level of a table, and its number.
pub(crate) type HotFile = (usize, FileNumber);

/// Finds tables that gets search in vain too often.
#[derive(Debug)]
pub(crate) struct ReadSample {
    /// The family's `read_triggered_compaction_threshold`.
    threshold: f64,
    /// Tables that have just passed the threshold, and their levels.
    hot: RefCell<SmallVec<[HotFile; 2]>>,
}

impl ReadSample {
    pub(crate) fn new(threshold: f64) -> ReadSample {
        ReadSample { threshold, hot: RefCell::default() }
    }

    /// Takes a look at a table that gave no value. Tables that no compaction could take are not
    /// counted.
    fn found_no_value_in(&self, file: &FileMeta, (version, level): (&Version, usize)) {
        if can_be_asked(version, level) && file.add_wasted_reads(READS_PER_SAMPLE, self.threshold) {
            self.hot.borrow_mut().push((level, file.number));
        }
    }

    /// The tables to compact.
    pub(crate) fn into_hot(self) -> SmallVec<[HotFile; 2]> {
        self.hot.into_inner()
    }
}

/// A transaction that reads the database: it sees its own entries, and those of others up to
/// `sequence`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnReader<'a> {
    pub(crate) own: &'a OwnNumbers,
    /// The sections that a reader at `sequence` does not see.
    pub(crate) unseen: Option<&'a UnseenSections>,
    pub(crate) sequence: SequenceNumber,
}

impl OwnReader<'_> {
    /// The highest number of an entry that it may see.
    pub(crate) fn newest(&self) -> SequenceNumber {
        self.sequence.max(self.own.last())
    }
}

impl Sees for OwnReader<'_> {
    #[inline]
    fn sees(&self, sequence: SequenceNumber) -> bool {
        let is_seen_by_all =
            || sequence <= self.sequence && self.unseen.is_none_or(|unseen| !unseen.hides(sequence));
        self.own.contains(sequence) || is_seen_by_all()
    }

    fn tombstones_up_to(&self) -> Option<SequenceNumber> {
        Some(self.sequence)
    }
}

/// The search for one key in a super version.
#[derive(Debug)]
pub(crate) struct PointSearch<'a, S: Sees = ()> {
    super_version: &'a SuperVersion,
    context: &'a ReadContext<'a>,
    key: &'a LookupKey,
    saver: Saver,
    seen: S,
}

impl<'a> PointSearch<'a> {
    /// A search that has not begun.
    #[inline]
    pub(crate) fn new(
        super_version: &'a SuperVersion,
        context: &'a ReadContext<'a>,
        key: &'a LookupKey,
    ) -> PointSearch<'a> {
        PointSearch { super_version, context, key, saver: Saver::new(), seen: () }
    }

    /// The same search, without the entries that `seen` does not see.
    pub(crate) fn seeing<S: Sees>(self, seen: S) -> PointSearch<'a, S> {
        let PointSearch { super_version, context, key, saver, .. } = self;
        PointSearch { super_version, context, key, saver, seen }
    }
}

impl<'a, S: Sees> PointSearch<'a, S> {
    /// Searches `own` first: writes that are newer than the whole super version. `own_key` is the
    /// key at the newest sequence number of `own` that this read may see.
    pub(crate) fn over(mut self, own: &Arc<MemTable>, own_key: &LookupKey) -> PointSearch<'a, S> {
        let saver = &mut self.saver;
        if !self.context.ignore_range_deletions {
            saver.cover(own.max_covering_tombstone_seq(own_key.user_key(), own_key.sequence()));
        }
        let operator = self.super_version.options.merge_operator.as_ref();
        let searched = own.get(own_key, |value_type, sequence, value| {
            saver.save(value_type, sequence, || value.pin()) && saver.needs_older(operator)
        });
        if let Err(e) = searched {
            saver.fail(e);
        }
        self
    }

    /// Calls `settle` once with the key's value or an error. A plain value is lent in place,
    /// without a reference count. Returns the search if it is suspended. A suspended search has not
    /// called `settle`.
    ///
    /// The errors are `Corruption` and `IoError`, which name the file · `Incomplete`, if the read
    /// tier forbids a read of a file · the errors of [`Saver::finish`].
    #[inline]
    pub(crate) fn find(mut self, settle: &mut impl FnMut(Answer<'_>)) -> Option<SuspendedGet> {
        if is_detailed() {
            return self.find_detailed(settle);
        }
        let context = self.context;
        if !self.saver.is_done() && !context.files_only {
            self.search_memtables(settle);
            count(context, if self.saver.is_done() { Ticker::MemtableHit } else { Ticker::MemtableMiss });
        }
        if self.saver.is_taken() {
            return None;
        }
        let mut at = None;
        if !self.saver.is_done() && !context.memtables_only {
            let candidates = self.super_version.version.candidates(self.key.internal_key());
            at = self.search_files::<false>(candidates, settle);
        }
        self.settle_or_suspend(at, settle)
    }

    /// Searches the memtables. Calls `settle` if they have the answer. Otherwise returns the
    /// search, which [`resume_multi_get`](super::multi_get::resume_multi_get) continues at the
    /// first file.
    pub(crate) fn find_in_memtables(mut self, settle: &mut impl FnMut(Answer<'_>)) -> Option<SuspendedGet> {
        let context = self.context;
        if !context.files_only {
            self.search_memtables(settle);
            count(context, if self.saver.is_done() { Ticker::MemtableHit } else { Ticker::MemtableMiss });
        }
        if self.saver.is_done() || context.memtables_only {
            return self.settle_or_suspend(None, settle);
        }
        Some(SuspendedGet { saver: self.saver, at: None })
    }

    /// [`PointSearch::find`] for a thread whose `PerfContext` has times or counts by level. Its
    /// parts call `settle` through a pointer, so that those of `find` keep one caller, which
    /// inlines them.
    #[cold]
    fn find_detailed(mut self, settle: &mut dyn FnMut(Answer<'_>)) -> Option<SuspendedGet> {
        let (context, clock) = (self.context, self.context.tables.clock());
        let with_times = perf_level() >= PerfLevel::EnableTimeExceptForMutex;
        let now = || if with_times { clock.monotonic_nanos() } else { 0 };
        let with_cpu = perf_level() >= PerfLevel::EnableTimeAndCpuTimeExceptForMutex;
        let cpu_begun = with_cpu.then(|| clock.thread_cpu_nanos());
        let mut settle = |answer: Answer<'_>| {
            if with_times {
                perf_add!(get_read_bytes, answer.value_len() as u64);
            }
            settle(answer);
        };
        if !self.saver.is_done() && !context.files_only {
            let begun = now();
            self.search_memtables(&mut settle);
            perf_add!(get_from_memtable_time, now().saturating_sub(begun));
            if with_times {
                perf_count!(get_from_memtable_count);
            }
            count(context, if self.saver.is_done() { Ticker::MemtableHit } else { Ticker::MemtableMiss });
        }
        let mut suspended = None;
        if !self.saver.is_taken() {
            let begun = now();
            let mut at = None;
            if !self.saver.is_done() && !context.memtables_only {
                let candidates = self.super_version.version.candidates(self.key.internal_key());
                at = self.search_files::<true>(candidates, &mut settle);
            }
            let searched = now();
            perf_add!(get_from_output_files_time, searched.saturating_sub(begun));
            suspended = self.settle_or_suspend(at, &mut settle);
            perf_add!(get_post_process_time, now().saturating_sub(searched));
        }
        if let Some(begun) = cpu_begun {
            perf_add!(get_cpu_nanos, clock.thread_cpu_nanos().saturating_sub(begun));
        }
        suspended
    }

    /// The base value of the key and its merge operands, oldest first; empty if the key has no
    /// value. The context has no guard.
    /// # Errors
    /// The errors of [`PointSearch::find`], except errors of merging.
    pub(crate) fn operands(self) -> Result<Vec<PinnedBytes>> {
        let PointSearch { super_version, context, key, saver, seen } = self;
        PointSearch { super_version, context, key, saver, seen: WholeHistory(seen) }.collect_operands()
    }

    fn collect_operands(mut self) -> Result<Vec<PinnedBytes>> {
        let context = self.context;
        debug_assert!(context.guard.is_none());
        let mut newest = None;
        let mut settle = |answer: Answer<'_>| newest = Some(answer.into_pinned());
        if !context.files_only {
            self.search_memtables(&mut settle);
        }
        if !self.saver.is_done() && !context.memtables_only {
            let candidates = self.super_version.version.candidates(self.key.internal_key());
            self.search_files::<false>(candidates, &mut settle);
        }
        match newest {
            Some(value) => value.map(|value| value.into_iter().collect()),
            None => self.saver.into_operands(&context.finish(self.super_version, self.key)),
        }
    }

    /// Continues a suspended search to its end. The context has no guard, so the search waits for
    /// the blocks that it needs.
    #[cold]
    pub(crate) fn resume(mut self, suspended: SuspendedGet, settle: &mut impl FnMut(Answer<'_>)) {
        esker_base::probe!("read:suspended");
        debug_assert!(self.context.guard.is_none());
        self.saver = suspended.saver;
        if let Some(at) = suspended.at {
            let mut candidates = self.super_version.version.candidates(self.key.internal_key());
            let clock = self.context.tables.clock();
            let search = || {
                if let Some((level, file)) = candidates.find(|(_, file)| file.number == at.file)
                    && let Step::GoOn = self.search_file_by_level((level, &**file, at.missing), settle)
                {
                    _ = self.search_files::<true>(candidates, settle);
                }
            };
            perf_time!(get_from_output_files_time, clock, search());
        }
        _ = self.settle_or_suspend(None, settle);
    }

    #[inline]
    fn settle_or_suspend(
        self,
        at: Option<SuspendedAt>,
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Option<SuspendedGet> {
        let PointSearch { super_version, context, key, saver, .. } = self;
        if at.is_some() || (context.guard.is_some() && saver.needs_blobs()) {
            return Some(SuspendedGet { saver, at });
        }
        if !saver.is_taken() {
            settle(Answer::Made(saver.finish(&context.finish(super_version, key))));
        }
        None
    }

    #[inline]
    fn search_memtables(&mut self, settle: &mut impl FnMut(Answer<'_>)) {
        let PointSearch { super_version, context, key, saver, seen: visible } = self;
        for mem in super_version.memtables() {
            let bound = visible.tombstones_up_to();
            if let Some(bound) = bound.filter(|_| !context.ignore_range_deletions) {
                saver.cover(mem.max_covering_tombstone_seq(key.user_key(), bound));
            }
            let searched = if context.ignore_range_deletions || bound.is_some() {
                search_without_tombstones((mem, super_version), key, saver, *visible, settle)
            } else {
                mem.get_covered(key, |seen| match seen {
                    ReadState::Covered(by) => {
                        saver.cover(by);
                        true
                    }
                    ReadState::MayBeCovered(newest) => {
                        saver.may_cover(newest);
                        true
                    }
                    ReadState::Version(value_type, sequence, value) => {
                        saver.resolve_cover(sequence, super_version, key);
                        take((saver, super_version), *visible, (value_type, sequence, value), settle)
                    }
                })
            };
            if let Err(e) = searched {
                saver.fail(e);
            }
            if saver.is_done() {
                return;
            }
        }
    }

    /// Searches the candidates in order. Stops at a table or block that it would have to wait for,
    /// and returns the position. `BY_LEVEL`: counts by level, if the thread asks for them.
    fn search_files<const BY_LEVEL: bool>(
        &mut self,
        candidates: Candidates<'_>,
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Option<SuspendedAt> {
        for (level, file) in candidates {
            let step = if BY_LEVEL {
                self.search_file_by_level((level, file, None), settle)
            } else {
                self.search_file((level, file, None), settle)
            };
            match step {
                Step::GoOn => {}
                Step::End => return None,
                Step::Wait(at) => return Some(at),
            }
        }
        None
    }

    fn search_file_by_level(
        &mut self,
        at: (usize, &FileMeta, Option<Missing>),
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Step {
        let (level, clock) = (at.0, self.context.tables.clock());
        let step = by_level::timed(level, clock, || self.search_file(at, settle));
        by_level::found(level, usize::from(self.saver.found_value()));
        step
    }

    /// Searches one file, or its row.
    #[inline]
    fn search_file(
        &mut self,
        (level, file, missing): (usize, &FileMeta, Option<Missing>),
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Step {
        let step = match self.seen.rows() {
            Some(_) => self.search_row(level, file),
            None => self.search_table((level, file, missing), settle),
        };
        if let Some(sample) = self.seen.sample() {
            file.add_sampled_reads(READS_PER_SAMPLE);
            if self.saver.found_no_value() {
                sample.found_no_value_in(file, (&self.super_version.version, level));
            }
        }
        step
    }

    #[inline]
    fn search_table(
        &mut self,
        (level, file, missing): (usize, &FileMeta, Option<Missing>),
        settle: &mut impl FnMut(Answer<'_>),
    ) -> Step {
        let PointSearch { super_version, context, key, saver, seen } = self;
        let suspended_at = |missing| Step::Wait(SuspendedAt { level, file: file.number, missing });
        let reader = match context.table(file) {
            Ok(Some(reader)) => reader,
            Ok(None) => return suspended_at(None),
            Err(e) => {
                saver.fail(e);
                return Step::End;
            }
        };
        if !context.ignore_range_deletions
            && let Some(tombstones) = reader.range_dels()
        {
            let icmp = super_version.version.icmp();
            let bound = seen.tombstones_up_to().unwrap_or(key.sequence());
            saver.cover(tombstones.max_covering_seq(key.user_key(), icmp, bound));
        }
        let mut visit = |entry: ParsedInternalKey<'_>, value: TableValue<'_>| {
            if !seen.sees(entry.sequence) {
                return true;
            }
            saver.resolve_cover(entry.sequence, super_version, key);
            if saver.settles(entry.value_type, entry.sequence) {
                settle(Answer::Lent(LentValue::Table(value)));
                return false;
            }
            saver.save(entry.value_type, entry.sequence, || value.pin())
                && needs_older(saver, *seen, super_version)
        };
        let stopped = match (context.guard, missing) {
            (Some(guard), _) => reader.get_under(context.options, guard, key, &mut visit),
            (None, None) => reader.get(context.options, key, &mut visit).map(|()| None),
            (None, Some(missing)) => {
                reader.resume_get(context.options, key, missing, &mut visit).map(|()| None)
            }
        };
        match stopped {
            Err(e) => saver.fail(e),
            Ok(Some(missing)) => return suspended_at(Some(missing)),
            Ok(None) if !saver.is_done() => return Step::GoOn,
            Ok(None) => count(context, hit_at(level)),
        }
        Step::End
    }
}

impl<S: Sees> PointSearch<'_, S> {
    /// Searches one file by its row in the row cache, or searches the file and keeps the row.
    /// REQUIRES: a row cache; no guard.
    #[inline(never)]
    fn search_row(&mut self, level: usize, file: &FileMeta) -> Step {
        let PointSearch { super_version, context, key, saver, seen } = self;
        let rows = seen.rows().expect("the caller looked");
        let row_key = rows.key(file, key);
        if let Some(mut row) = rows.find(&row_key) {
            count(context, Ticker::RowCacheHit);
            if !context.ignore_range_deletions {
                saver.cover(row.cover);
            }
            while !saver.is_done()
                && let Some((value_type, sequence, value)) = row.next_entry()
            {
                saver.resolve_cover(sequence, super_version, key);
                _ = saver.save(value_type, sequence, || value) && needs_older(saver, *seen, super_version);
            }
            return end_of_file(context, saver, level);
        }
        count(context, Ticker::RowCacheMiss);
        let reader = match open_for(context.tables, file, context.options) {
            Ok(reader) => reader,
            Err(e) => {
                saver.fail(e);
                return Step::End;
            }
        };
        let cover = reader.range_dels().map_or(SequenceNumber::ZERO, |tombstones| {
            tombstones.max_covering_seq(key.user_key(), super_version.version.icmp(), key.sequence())
        });
        if !context.ignore_range_deletions {
            saver.cover(cover);
        }
        let mut row = NewRow::new(&row_key, cover);
        let searched = reader.get(context.options, key, &mut |entry, value| {
            row.add(entry.value_type, entry.sequence, value.bytes());
            saver.resolve_cover(entry.sequence, super_version, key);
            saver.save(entry.value_type, entry.sequence, || value.pin())
                && needs_older(saver, *seen, super_version)
        });
        if let Err(e) = searched {
            saver.fail(e);
            return Step::End;
        }
        if context.options.fill_cache && row.is_complete(!saver.is_done()) {
            rows.insert(&row_key, row);
        }
        end_of_file(context, saver, level)
    }
}

fn end_of_file(context: &ReadContext<'_>, saver: &Saver, level: usize) -> Step {
    if !saver.is_done() {
        return Step::GoOn;
    }
    count(context, hit_at(level));
    Step::End
}

/// The next step after a file was searched.
enum Step {
    GoOn,
    End,
    Wait(SuspendedAt),
}

/// Whether the search needs entries below the operand that `saver` has just taken.
#[inline]
fn needs_older(saver: &mut Saver, seen: impl Sees, super_version: &SuperVersion) -> bool {
    !seen.asks_operator() || saver.needs_older(super_version.options.merge_operator.as_ref())
}

/// Takes a version from a memtable. Returns whether older versions are needed.
#[inline(always)]
fn take(
    (saver, super_version): (&mut Saver, &SuperVersion),
    seen: impl Sees,
    (value_type, sequence, value): (ValueType, SequenceNumber, MemValue<'_>),
    settle: &mut impl FnMut(Answer<'_>),
) -> bool {
    if !seen.sees(sequence) {
        return true;
    }
    if saver.settles(value_type, sequence) {
        settle(Answer::Lent(LentValue::Memtable(value)));
        return false;
    }
    saver.save(value_type, sequence, || value.pin()) && needs_older(saver, seen, super_version)
}

#[cold]
fn search_without_tombstones(
    (mem, super_version): (&Arc<MemTable>, &SuperVersion),
    key: &LookupKey,
    saver: &mut Saver,
    seen: impl Sees,
    settle: &mut impl FnMut(Answer<'_>),
) -> Result<()> {
    mem.get(key, |value_type, sequence, value| {
        take((saver, super_version), seen, (value_type, sequence, value), settle)
    })
}

#[inline]
pub(super) fn count(context: &ReadContext<'_>, ticker: Ticker) {
    if let Some(statistics) = context.statistics {
        statistics.record_tick(ticker, 1);
    }
}

pub(super) fn hit_at(level: usize) -> Ticker {
    match level {
        0 => Ticker::GetHitL0,
        1 => Ticker::GetHitL1,
        _ => Ticker::GetHitL2AndUp,
    }
}

#[cfg(test)]
mod tests {
    use super::{READS_PER_SAMPLE, is_sampled};

    #[test]
    fn gets_of_short_threads_are_sampled_as_often_as_those_of_long_ones() {
        const THREADS: u64 = 1000;
        const GETS: u64 = 40;
        let samples = || (0..GETS).filter(|_| is_sampled()).count() as u64;
        let sampled: u64 =
            (0..THREADS).map(|_| std::thread::scope(|scope| scope.spawn(samples).join().unwrap())).sum();
        let expected = THREADS * GETS / READS_PER_SAMPLE;
        assert!((expected / 3..=expected * 3).contains(&sampled), "{sampled} samples, and not {expected}");
    }
}
