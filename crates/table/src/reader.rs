//! An open table: point reads and queries. `open.rs` opens it.

use crate::block_source::{BlockKind, BlockLoan, BlockRef, BlockSource, CachedBlock};
use crate::counts;
use crate::filter::{Resident, TableFilter};
use crate::index_walker::IndexWalker;
use crate::iter::TableIter;
use crate::open;
use crate::options::{TableReadOptions, TableReaderOptions};
use crate::readahead::{ReadPace, ScanLength};
use esker_base::perf_context::counts_by_level;
use esker_base::prefix::SliceTransformRef;
use esker_base::sync::epoch::Guard;
use esker_base::{Error, ErrorKind, PinnedBytes, Result, SequenceNumber};
use esker_cache::{Guarded, Reservation, Role};
use esker_env::RandomAccessFile;
use esker_format::block::{Block, BlockCursor, EntryShape};
use esker_format::deleted_runs::DeletedRuns;
use esker_format::footer::Footer;
use esker_format::handle::BlockHandle;
use esker_format::index_entry::IndexShape;
use esker_format::key::{self, InternalKeyComparator, LookupKey, ParsedInternalKey};
use esker_format::meta_index::MetaIndex;
use esker_format::properties::TableProperties;
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone};
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// A value inside a block, as `get` shows it.
#[derive(Clone, Debug)]
pub struct TableValue<'a> {
    block: &'a BlockLoan<'a>,
    range: Range<usize>,
}

impl<'a> TableValue<'a> {
    /// The bytes, for the time of the callback.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.block.bytes().get(self.range.clone()).unwrap_or_default()
    }

    /// The bytes, kept alive by their block. They are copied only if the cache has just evicted the
    /// block.
    #[inline]
    pub fn pin(&self) -> PinnedBytes {
        match self.block.hold() {
            Some(block) => pin(block, self.range.clone()),
            None => PinnedBytes::copy_from(self.bytes()),
        }
    }
}

/// Part of a block, kept alive by it.
#[inline]
pub(crate) fn pin(block: BlockRef, range: Range<usize>) -> PinnedBytes {
    PinnedBytes::part_of(block, |b| b.bytes().get(range).unwrap_or_default())
}

/// A read's access to blocks. Under a guard the read waits for nothing, and its options forbid
/// waiting; without a guard it may read files.
#[derive(Clone, Copy)]
pub(crate) struct Access<'r> {
    pub(crate) options: &'r TableReadOptions,
    pub(crate) guard: Option<&'r Guard>,
}

/// Receives entries; returns whether to continue.
pub type Visit<'v> = &'v mut dyn FnMut(ParsedInternalKey<'_>, TableValue<'_>) -> bool;

/// The place where a read of one key stopped because it would have to wait.
/// [`TableReader::resume_get`] continues from there.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// The missing data block. `None` if a block that leads to it is missing: the read then starts
    /// over.
    pub(crate) block: Option<MissingBlock>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingBlock {
    pub(crate) handle: BlockHandle,
    /// Whether the read has visited no block before this one.
    pub(crate) is_first: bool,
    /// Whether the block's entries were visited, so that only later blocks remain.
    pub(crate) is_visited: bool,
    /// Whether entries of the user key can lie behind the block.
    pub(crate) may_continue_behind: bool,
}

impl Missing {
    #[cold]
    pub(crate) fn data(handle: BlockHandle, is_first: bool, may_continue_behind: bool) -> Missing {
        Missing { block: Some(MissingBlock { handle, is_first, is_visited: false, may_continue_behind }) }
    }

    /// [`Missing::from_error`] for a read that has visited the entries of the block at `handle`.
    #[cold]
    pub(crate) fn from_error_behind(handle: BlockHandle, error: Error) -> Result<Option<Missing>> {
        let place = MissingBlock { handle, is_first: false, is_visited: true, may_continue_behind: true };
        Missing::from_error(error).map(|_| Some(Missing { block: Some(place) }))
    }

    /// Turns an error of a read under a guard into the missing block, if a block is missing.
    #[cold]
    pub(crate) fn from_error(error: Error) -> Result<Option<Missing>> {
        match error.kind() {
            ErrorKind::Incomplete => Ok(Some(Missing { block: None })),
            _ => Err(error),
        }
    }
}

/// An open table. Shared; all methods may be called from any thread.
#[derive(Debug)]
pub struct TableReader {
    pub(crate) source: BlockSource,
    pub(crate) options: TableReaderOptions,
    pub(crate) footer: Footer,
    pub(crate) meta: MetaIndex,
    pub(crate) properties: TableProperties,
    pub(crate) index: Resident,
    pub(crate) index_shape: IndexShape,
    pub(crate) two_level: bool,
    pub(crate) filter: TableFilter,
    pub(crate) scan_length: ScanLength,
    /// Whether the filter has whole keys.
    pub(crate) whole_keys: bool,
    /// The extractor that made the prefixes in the filter, if the family still has it.
    pub(crate) filter_prefix: Option<SliceTransformRef>,
    /// Partitions kept in the cache by these references.
    pub(crate) pinned_partitions: Vec<BlockRef>,
    /// The reader's own charge in the block cache.
    pub(crate) charge: Option<Reservation<CachedBlock>>,
    pub(crate) range_dels: Option<Arc<FragmentedRangeTombstones>>,
    pub(crate) deleted_runs: Option<DeletedRuns>,
    /// The range tombstones as they are stored. Kept only in families with user-defined timestamps,
    /// since fragments lose them.
    pub(crate) range_tombstones: Vec<RangeTombstone>,
    /// Whether the family's keys have timestamps and the table's keys do not.
    pub(crate) lacks_timestamps: bool,
    /// The sequence number of all entries, if the file was ingested with one.
    pub(crate) global_seqno: Option<SequenceNumber>,
}

thread_local! {
    /// A key buffer for point reads, so that they allocate nothing. A read takes it and puts it
    /// back. A read in the callback of another read finds no buffer and makes its own.
    pub(crate) static KEY_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl TableReader {
    /// Shows `visit` the entries of `key`'s user key not newer than its sequence, newest first,
    /// until it returns false. Range tombstones are not among them: see `range_dels`. May read
    /// files: call it without a guard.
    /// # Errors
    /// `Corruption`, `IoError`, or `Incomplete` when `read_tier` forbids I/O that is needed.
    pub fn get(&self, options: &TableReadOptions, key: &LookupKey, visit: Visit<'_>) -> Result<()> {
        self.get_with(Access { options, guard: None }, key, visit).map(drop)
    }

    /// `get` that waits for nothing: it returns the missing block, and [`TableReader::resume_get`]
    /// continues there without a guard.
    /// # Errors
    /// `Corruption`.
    #[inline]
    pub fn get_under(
        &self,
        options: &TableReadOptions,
        guard: &Guard,
        key: &LookupKey,
        visit: Visit<'_>,
    ) -> Result<Option<Missing>> {
        let options = options.without_waiting();
        let found = self.get_with(Access { options: &options, guard: Some(guard) }, key, visit);
        found.or_else(Missing::from_error)
    }

    /// Continues a `get` at its missing block.
    /// # Errors
    /// `Corruption`, `IoError`, or `Incomplete` when `read_tier` forbids I/O that is needed.
    #[cold]
    pub fn resume_get(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        missing: Missing,
        visit: Visit<'_>,
    ) -> Result<()> {
        let Some(place) = missing.block else { return self.get(options, key, visit) };
        let block = match place.is_visited {
            true => None,
            false => Some(self.source.block(place.handle, BlockKind::Data, options, None)?),
        };
        self.resume_get_in(options, key, (place, block), visit)
    }

    /// Resumes at `place` with its block, or behind it if that block was visited before.
    fn resume_get_in(
        &self,
        options: &TableReadOptions,
        key: &LookupKey,
        (place, block): (MissingBlock, Option<BlockRef>),
        visit: Visit<'_>,
    ) -> Result<()> {
        let target = key.internal_key();
        let block = block.map(Guarded::Held);
        let mut read = |visit: Visit<'_>| {
            let more = match &block {
                None => true,
                Some(block) => self
                    .visit_block(block, place.is_first.then_some(target), key::user_key(target), visit)
                    .map_err(|e| self.source.at(e, place.handle))?,
            };
            if more && place.may_continue_behind {
                self.get_behind(Access { options, guard: None }, place.handle, target, visit)?;
            }
            Ok(None)
        };
        // The read of an earlier block has counted the filter's answer.
        if place.is_first { self.note_if_there(visit, &mut read) } else { read(visit) }.map(drop)
    }

    fn get_with(&self, access: Access<'_>, key: &LookupKey, visit: Visit<'_>) -> Result<Option<Missing>> {
        let target = key.internal_key();
        if !self.filter_asked(access, target)? {
            return Ok(None);
        }
        self.note_if_there(visit, &mut |visit| self.get_unfiltered(access, target, visit))
    }

    /// Asks the filter for the key of a lookup that starts at the internal key `target`. True if
    /// the filter does not cover the key. The call counts as a lookup in the statistics.
    /// # Errors
    /// `Corruption`, `IoError` and `Incomplete` of the filter's blocks.
    pub fn filter_lets_pass(&self, options: &TableReadOptions, target: &[u8]) -> Result<bool> {
        self.filter_asked(Access { options, guard: None }, target)
    }

    #[inline]
    fn filter_asked(&self, access: Access<'_>, target: &[u8]) -> Result<bool> {
        let Some(asked_for) = self.in_filter(key::user_key(target)) else { return Ok(true) };
        let passes = self.filter_passes(access, asked_for, target)?;
        self.count_asked(passes);
        Ok(passes)
    }

    /// The filter's entry for a user key of the table: the key without its timestamp or, in a
    /// filter without whole keys, its prefix. `None` if there is neither.
    #[inline]
    pub(crate) fn in_filter<'k>(&self, user_key: &'k [u8]) -> Option<&'k [u8]> {
        let key = self.without_timestamp(user_key);
        if self.whole_keys { Some(key) } else { self.prefix_in_filter(key) }
    }

    #[cold]
    fn prefix_in_filter<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let has_filter = !matches!(self.filter, TableFilter::None);
        self.filter_prefix.as_ref().filter(|_| has_filter)?.transform(key)
    }

    /// Counts a lookup in the filter.
    #[inline]
    pub(crate) fn count_asked(&self, passes: bool) {
        let count = if self.whole_keys { counts::filter_asked } else { counts::prefix_asked_by_get };
        count(self.source.statistics.as_ref(), self.source.level, passes);
    }

    /// Calls `read`, and counts the filter's answer as right if the key is there.
    #[inline]
    fn note_if_there(
        &self,
        visit: Visit<'_>,
        read: &mut dyn FnMut(Visit<'_>) -> Result<Option<Missing>>,
    ) -> Result<Option<Missing>> {
        let statistics = self.source.statistics.as_ref();
        if statistics.is_none() && !counts_by_level() || !(self.whole_keys || self.has_prefix_filter()) {
            return read(visit);
        }
        let mut is_there = false;
        let found = read(&mut |key, value| {
            is_there = true;
            visit(key, value)
        });
        if is_there {
            counts::filter_was_right(statistics, self.source.level, self.whole_keys);
        }
        found
    }

    /// Whether the table has a filter of prefixes alone.
    #[cold]
    pub(crate) fn has_prefix_filter(&self) -> bool {
        !self.whole_keys && self.filter_prefix.is_some() && !matches!(self.filter, TableFilter::None)
    }

    fn get_unfiltered(&self, access: Access<'_>, target: &[u8], visit: Visit<'_>) -> Result<Option<Missing>> {
        self.index.with(&self.source, BlockKind::Index, (access.options, access.guard), |top| {
            let buffer = KEY_BUFFER.take();
            let mut walker = IndexWalker::new(top, self.index_shape, self.two_level, buffer);
            let found = self.get_from(access, &mut walker, target, visit);
            KEY_BUFFER.set(walker.into_buffer());
            found
        })
    }

    fn get_from(
        &self,
        access: Access<'_>,
        walker: &mut IndexWalker<&CachedBlock>,
        target: &[u8],
        visit: Visit<'_>,
    ) -> Result<Option<Missing>> {
        walker
            .seek(&self.source, access.options, target, &self.options.icmp)
            .map_err(|e| self.source.in_file(e))?;
        self.get_at(access, walker, target, true, visit)
    }

    /// `get` from the walker's block on. With `is_first` that is the first block with entries at or
    /// after `target`; otherwise it is a later one.
    #[inline]
    fn get_at(
        &self,
        access: Access<'_>,
        walker: &mut IndexWalker<&CachedBlock>,
        target: &[u8],
        mut is_first: bool,
        visit: Visit<'_>,
    ) -> Result<Option<Missing>> {
        let icmp = &self.options.icmp;
        while walker.valid() {
            if let Some(first) = walker.first_key()?
                && icmp.compare_user_keys(key::user_key(first), key::user_key(target)).is_gt()
            {
                return Ok(None);
            }
            let handle = walker.handle();
            let block = match access.guard {
                Some(guard) => match self.source.lent(handle, BlockKind::Data, guard) {
                    Some(block) => block,
                    None => {
                        let may_continue_behind = self.may_continue_behind(walker, target);
                        return Ok(Some(Missing::data(handle, is_first, may_continue_behind)));
                    }
                },
                None => Guarded::Held(self.source.block(handle, BlockKind::Data, access.options, None)?),
            };
            let more = self
                .visit_block(&block, is_first.then_some(target), key::user_key(target), visit)
                .map_err(|e| self.source.at(e, walker.handle()))?;
            if !more || !self.may_continue_behind(walker, target) {
                return Ok(None);
            }
            is_first = false;
            if let Err(e) = walker.next(&self.source, access.options) {
                let e = self.source.in_file(e);
                return if access.guard.is_some() { Missing::from_error_behind(handle, e) } else { Err(e) };
            }
        }
        Ok(None)
    }

    /// `get` in the blocks behind the block at `behind`, which was visited and may hold `target`.
    #[cold]
    pub(crate) fn get_behind(
        &self,
        access: Access<'_>,
        behind: BlockHandle,
        target: &[u8],
        visit: Visit<'_>,
    ) -> Result<Option<Missing>> {
        let found = self.index.with(&self.source, BlockKind::Index, (access.options, access.guard), |top| {
            let mut walker = IndexWalker::new(top, self.index_shape, self.two_level, Vec::new());
            let in_file = |e| self.source.in_file(e);
            walker.seek(&self.source, access.options, target, &self.options.icmp).map_err(in_file)?;
            while walker.valid() && walker.handle().offset <= behind.offset {
                walker.next(&self.source, access.options).map_err(in_file)?;
            }
            self.get_at(access, &mut walker, target, false, visit)
        });
        match found {
            Err(e) if access.guard.is_some() => Missing::from_error_behind(behind, e),
            found => found,
        }
    }

    /// Whether entries of the target's user key can lie behind the walker's block, which is the
    /// target's block or a later one. A user key never spans two blocks of an index of user keys.
    #[inline]
    pub(crate) fn may_continue_behind(&self, walker: &IndexWalker<&CachedBlock>, target: &[u8]) -> bool {
        let may_span = !self.index_shape.key_is_user_key;
        let icmp = &self.options.icmp;
        may_span && icmp.compare_user_keys(walker.separator_user_key(), key::user_key(target)).is_le()
    }

    /// Visits the entries of `user_key` in a block, from `seek` on or from the block's start.
    /// Returns whether the read continues in the next block: neither `visit` nor another user key
    /// has ended it.
    #[inline]
    pub(crate) fn visit_block(
        &self,
        shared: &BlockLoan<'_>,
        seek: Option<&[u8]>,
        user_key: &[u8],
        visit: Visit<'_>,
    ) -> Result<bool> {
        let block = shared.key_value()?;
        let mut cursor = BlockCursor::with_buffer(EntryShape::KeyValue, DATA_BUFFER.take());
        let walked = self.visit_with(&mut cursor, block, shared, seek, user_key, visit);
        DATA_BUFFER.set(cursor.into_buffer());
        walked
    }

    #[inline]
    fn visit_with(
        &self,
        cursor: &mut BlockCursor,
        block: &Block,
        shared: &BlockLoan<'_>,
        seek: Option<&[u8]>,
        user_key: &[u8],
        visit: Visit<'_>,
    ) -> Result<bool> {
        match seek {
            Some(target) if self.global_seqno.is_none() => {
                let icmp = &self.options.icmp;
                let restart = cursor.restart_for(block, target, icmp)?;
                block.prefetch_interval(restart);
                cursor.seek_from(block, restart, target, icmp)?;
            }
            Some(target) => seek_block(cursor, block, target, &self.options.icmp, self.global_seqno)?,
            None => cursor.seek_to_first(block)?,
        }
        self.visit_from(cursor, block, shared, user_key, visit)
    }

    /// Visits the entries of `user_key` from the cursor's position on. The result is that of
    /// `visit_block`.
    #[inline]
    pub(crate) fn visit_from(
        &self,
        cursor: &mut BlockCursor,
        block: &Block,
        shared: &BlockLoan<'_>,
        user_key: &[u8],
        visit: Visit<'_>,
    ) -> Result<bool> {
        while cursor.valid() {
            if !self.options.icmp.same_user_key(key::user_key(cursor.key()), user_key) {
                return Ok(false);
            }
            let mut parsed = ParsedInternalKey::parse(cursor.key())?;
            if let Some(sequence) = self.global_seqno {
                parsed.sequence = sequence;
            }
            if !visit(parsed, TableValue { block: shared, range: cursor.value_range() }) {
                return Ok(false);
            }
            cursor.next(block)?;
        }
        Ok(true)
    }

    /// Whether the filter lets `user_key` pass; true without a filter. Reads nothing but the
    /// filter.
    pub fn may_contain(&self, options: &TableReadOptions, user_key: &[u8]) -> bool {
        let place = key::seek_key(user_key, SequenceNumber::MAX);
        let access = Access { options, guard: None };
        self.in_filter(user_key).is_none_or(|key| self.filter_passes(access, key, &place).unwrap_or(true))
    }

    /// Whether the filter lets the prefix of a user key pass; true if the filter has no prefixes of
    /// the family's extractor, if the key has none, or if the filter is partitioned: keys with one
    /// prefix may lie in several partitions.
    pub fn may_contain_prefix(&self, options: &TableReadOptions, user_key: &[u8]) -> bool {
        self.prefix_passes(options, user_key).unwrap_or(true)
    }

    /// The filter's answer for the prefix of `user_key`; `None` if the filter was not asked.
    pub(crate) fn prefix_passes(&self, options: &TableReadOptions, user_key: &[u8]) -> Option<bool> {
        let user_key = self.without_timestamp(user_key);
        let prefix = self.filter_prefix.as_ref().and_then(|e| e.transform(user_key))?;
        if self.filter.is_partitioned() {
            return None;
        }
        let access = Access { options, guard: None };
        let passes = self.filter_passes(access, prefix, &[]).unwrap_or(true);
        counts::prefix_asked(self.source.statistics.as_ref(), passes);
        Some(passes)
    }

    #[inline]
    pub(crate) fn filter_passes(&self, access: Access<'_>, key: &[u8], place: &[u8]) -> Result<bool> {
        self.filter.may_match(&self.source, (access.options, access.guard), &self.options.icmp, key, place)
    }

    #[inline]
    pub(crate) fn without_timestamp<'a>(&self, user_key: &'a [u8]) -> &'a [u8] {
        match self.options.icmp.user_comparator().timestamp_size() {
            0 => user_key,
            n => user_key.split_at(user_key.len().saturating_sub(n)).0,
        }
    }

    /// The range tombstones one by one, as they are stored; in families with user-defined
    /// timestamps only.
    pub fn stored_range_tombstones(&self) -> &[RangeTombstone] {
        &self.range_tombstones
    }

    /// Whether the family's keys have user-defined timestamps, and this table's keys do not. The
    /// table then returns keys without timestamps, and seeks take such keys.
    #[inline]
    pub fn lacks_timestamps(&self) -> bool {
        self.lacks_timestamps
    }

    /// A cursor over the point entries.
    pub fn iter(self: &Arc<Self>, options: TableReadOptions) -> TableIter {
        TableIter::new(self.clone(), options)
    }

    /// Its range tombstones, if it has any.
    pub fn range_dels(&self) -> Option<&Arc<FragmentedRangeTombstones>> {
        self.range_dels.as_ref()
    }

    /// Reads the range tombstones from the file, in any family and also those that hide nothing. An
    /// ingested file's tombstones have their stored sequence numbers. For ingestion; reads use
    /// [`range_dels`](Self::range_dels).
    /// # Errors
    /// `Corruption`: bytes that are no range tombstones · `IoError`.
    pub fn read_range_tombstones(&self) -> Result<Vec<RangeTombstone>> {
        open::read_range_tombstones(&self.source, &self.meta, None)
    }

    /// Its deleted runs, if the table recorded any.
    pub fn deleted_runs(&self) -> Option<&DeletedRuns> {
        self.deleted_runs.as_ref()
    }

    /// Its properties.
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The version of its format.
    pub fn format_version(&self) -> u32 {
        self.footer.format_version
    }

    /// The sequence number of all entries, if the file was ingested with one.
    pub fn global_seqno(&self) -> Option<SequenceNumber> {
        self.global_seqno
    }

    /// Its file.
    pub fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.source.file
    }

    /// The order of its keys.
    pub fn icmp(&self) -> &InternalKeyComparator {
        &self.options.icmp
    }

    /// A new walker over the index, not yet positioned.
    pub(crate) fn walker(&self, options: &TableReadOptions) -> Result<IndexWalker<BlockRef>> {
        self.walker_at_pace(options, None)
    }

    /// A new walker, not yet positioned, whose reads of the index are limited to `pace`.
    pub(crate) fn walker_at_pace(
        &self,
        options: &TableReadOptions,
        pace: Option<&ReadPace>,
    ) -> Result<IndexWalker<BlockRef>> {
        let top = self.index.share(&self.source, BlockKind::Index, options, pace)?;
        let walker = IndexWalker::new(top, self.index_shape, self.two_level, Vec::new());
        Ok(walker.with_pace(pace.cloned()))
    }

    /// Whether the reader itself holds the top of its index. A walker then keeps no entry of the
    /// cache in use.
    pub(crate) fn holds_index(&self) -> bool {
        self.index.is_pinned()
    }

    /// About where in the file the entry at or after `internal_key` lies, in bytes from the start.
    pub fn approximate_offset_of(&self, internal_key: &[u8]) -> u64 {
        let options = TableReadOptions::default();
        let found = self.walker(&options).and_then(|mut walker| {
            walker.seek(&self.source, &options, internal_key, &self.options.icmp)?;
            Ok(walker.valid().then(|| walker.handle().offset))
        });
        match found {
            Ok(Some(offset)) => offset,
            // The key lies behind the last entry, or the index cannot be read: an estimate returns
            // no error.
            Ok(None) | Err(_) => self.data_end(),
        }
    }

    /// The offset at which the data blocks end.
    fn data_end(&self) -> u64 {
        match self.properties.data_size {
            0 => self.footer.meta_index.offset,
            size => size.min(self.options.file_size),
        }
    }

    /// About how many file bytes lie between two internal keys.
    pub fn approximate_size(&self, start: &[u8], end: &[u8]) -> u64 {
        self.approximate_offset_of(end).saturating_sub(self.approximate_offset_of(start))
    }

    /// At most `most` user keys that cut the table into parts of about equal size, each with the
    /// bytes of the part that it ends.
    /// # Errors
    /// `Corruption`, `IoError`, or `Incomplete` when `read_tier` forbids I/O that is needed.
    pub fn anchors(&self, most: usize) -> Result<Vec<(Vec<u8>, u64)>> {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let mut walker = self.walker(&options)?;
        let mut anchors = Vec::new();
        let part = self.data_end().div_ceil(most.max(1) as u64).max(1);
        let mut bytes = 0;
        walker.seek_to_first(&self.source, &options).map_err(|e| self.source.in_file(e))?;
        while walker.valid() {
            bytes += walker.handle().size;
            if bytes >= part && anchors.len() < most {
                anchors.push((walker.separator_user_key().to_vec(), bytes));
                bytes = 0;
            }
            walker.next(&self.source, &options).map_err(|e| self.source.in_file(e))?;
        }
        Ok(anchors)
    }

    /// Bytes of memory that the reader uses outside of the block cache.
    pub fn approximate_memory_usage(&self) -> usize {
        let range_dels = self.range_dels.as_ref().map_or(0, |r| r.approximate_memory_usage());
        let deleted_runs = self.deleted_runs.as_ref().map_or(0, DeletedRuns::memory_usage);
        size_of::<TableReader>()
            + self.index.memory_usage()
            + self.filter.memory_usage()
            + size_of_val(&*self.pinned_partitions)
            + range_dels
            + deleted_runs
    }

    /// Charges the reader's own memory to the block cache, if the options say so.
    /// # Errors
    /// `MemoryLimit` if a strict limit has no room for it.
    pub(crate) fn charge_to_cache(&mut self) -> Result<()> {
        let is_charged =
            self.options.table_options.cache_usage_options.is_charged(Role::BlockBasedTableReader);
        if let Some(cache) = self.source.cache.as_ref().filter(|_| is_charged) {
            let bytes = self.approximate_memory_usage();
            self.charge = Some(cache.reserve(Role::BlockBasedTableReader, bytes)?);
        }
        Ok(())
    }
}

thread_local! {
    /// A buffer for keys of the data block: see `KEY_BUFFER`.
    pub(crate) static DATA_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Moves `cursor` to the first entry at or after the internal key `target`.
#[inline]
pub(crate) fn seek_block(
    cursor: &mut BlockCursor,
    block: &Block,
    target: &[u8],
    icmp: &InternalKeyComparator,
    global_seqno: Option<SequenceNumber>,
) -> Result<()> {
    match global_seqno {
        None => cursor.seek(block, target, icmp),
        Some(g) => cursor.seek_by(block, |k| compare_as(k, g, target, icmp).is_lt()),
    }
}

/// Compares a stored key with `target`, as if its sequence number were `g`.
pub(crate) fn compare_as(
    stored: &[u8],
    g: SequenceNumber,
    target: &[u8],
    icmp: &InternalKeyComparator,
) -> Ordering {
    let packed = (g.0 << 8) | (key::trailer(stored) & 0xFF);
    icmp.compare_user_keys(key::user_key(stored), key::user_key(target))
        .then_with(|| key::trailer(target).cmp(&packed))
}

/// The error of a table that lacks a mandatory part.
#[cold]
pub(crate) fn missing(what: &str) -> Error {
    Error::corruption(format!("the table has no {what}"))
}
