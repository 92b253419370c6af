//! Planned ranges: blocks of scans that are known in advance, read together.
//!
//! In: ranges in order, and a source of the tables that may hold keys of one. Out: blocks, for the
//! table cursors of one iterator. The cursors share a [`ScansAhead`] for life; ranges are added to
//! it and removed from it. Nothing happens while the cache has the blocks. The first missing block
//! starts a readahead batch: the blocks of all tables for the current range, and for as many later
//! ranges as there is room for. The next batch starts with the first missing block in a later
//! range. Requirements: RocksDB `include/rocksdb/options.h` (`MultiScanArgs`).
//!
//! Invariants
//!  1. Held memory is bounded: a batch's blocks have at most `most_bytes` in the file, and are
//!     released before the next batch.
//!  2. The result of a scan does not depend on it: a block that was not read ahead is read by its
//!     reader, which meets any error.
//!  3. The lock is not held while anything is read.
//!  4. Without ranges nothing is held and nothing is read ahead.

use crate::block_source::{
    BlockKind, BlockRef, BlockSource, COALESCED_GAP_BYTES, GatherCounts, Wanted, gather_closer,
};
use crate::options::{TableReadOptions, TableReadTier};
use crate::readahead::Readahead;
use crate::reader::TableReader;
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use esker_base::{Result, SequenceNumber, perf_add};
use esker_cache::CacheKey;
use esker_format::handle::BlockHandle;
use esker_format::key;
use esker_format::trailer::TRAILER_BYTES;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Bytes of one readahead batch where the user names no limit.
const BATCH_BYTES: u64 = 8 << 20;

/// Bytes of one table for one range. A scan that goes beyond them uses the ordinary readahead.
const PART_BYTES: u64 = 1 << 20;

/// The first range reserves memory for the keys of this many ranges, as if all were as long as its
/// own.
const FIRST_RANGES: usize = 16;

/// Memory of ranges' keys that is kept for later ranges.
const KEPT_BYTES: usize = 16 << 10;

/// The tables that may have keys of a range.
pub trait ScanTables: Send {
    /// Calls `each` with every table that may hold keys from `start` up to `limit`, exclusive.
    /// Skips tables that cannot be opened.
    fn within(&self, start: &[u8], limit: &[u8], each: &mut dyn FnMut(&Arc<TableReader>));
}

/// Ascending ranges of user keys, with all their keys in one buffer.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ScanRanges {
    keys: Vec<u8>,
    /// The ends of each range's start and limit in the buffer.
    ends: Vec<(usize, Option<usize>)>,
}

impl ScanRanges {
    /// Adds the range from `start` up to `limit`, exclusive, if there is one.
    pub fn push(&mut self, start: &[u8], limit: Option<&[u8]>) {
        if self.ends.capacity() == 0 {
            self.ends.reserve(FIRST_RANGES);
            self.keys.reserve(FIRST_RANGES * (start.len() + limit.map_or(0, <[u8]>::len)));
        }
        self.keys.extend_from_slice(start);
        let middle = self.keys.len();
        self.keys.extend_from_slice(limit.unwrap_or_default());
        self.ends.push((middle, limit.map(|_| self.keys.len())));
    }

    /// Replaces the ranges by those of `others`. Keeps its memory, unless that is large.
    fn copy_from(&mut self, others: &ScanRanges) {
        if self.keys.capacity() > KEPT_BYTES || self.ends.capacity() > KEPT_BYTES / size_of::<usize>() {
            *self = ScanRanges::default();
        }
        self.keys.clear();
        self.keys.extend_from_slice(&others.keys);
        self.ends.clear();
        self.ends.extend_from_slice(&others.ends);
    }

    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Start and limit of range `number`, if there is one.
    pub fn get(&self, number: usize) -> Option<(&[u8], Option<&[u8]>)> {
        let &(middle, end) = self.ends.get(number)?;
        let before = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = before.map_or(0, |&(middle, end)| end.unwrap_or(middle));
        Some((&self.keys[start..middle], end.map(|end| &self.keys[middle..end])))
    }

    /// Start and limit of the last one.
    pub fn last(&self) -> Option<(&[u8], Option<&[u8]>)> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Start and limit of each.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        (0..self.len()).filter_map(|number| self.get(number))
    }
}

/// Counts of readahead so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AheadCounts {
    /// Readahead batches.
    pub batches: u64,
    /// Ranges of these batches.
    pub ranges: u64,
    /// Blocks read from files.
    pub blocks_read: u64,
    /// Blocks found in the cache, or below it.
    pub blocks_cached: u64,
    /// Bytes of the blocks read from files, as stored.
    pub bytes_read: u64,
    /// Reads for these blocks.
    pub reads: u64,
    /// The most bytes, as stored, that were held at once.
    pub most_held_bytes: u64,
}

/// Options for reading ranges ahead.
#[derive(Clone, Copy, Debug)]
pub struct AheadOptions {
    /// The scans' own read options.
    pub table: TableReadOptions,
    /// Blocks with at most this many bytes between them are read as one.
    pub coalesced_gap_bytes: u64,
    /// Most bytes of the blocks of a readahead batch, as stored; 0: a default.
    pub most_bytes: u64,
    /// Scans go from the end of each range to its start.
    pub reverse: bool,
}

impl Default for AheadOptions {
    fn default() -> AheadOptions {
        AheadOptions {
            table: TableReadOptions::default(),
            coalesced_gap_bytes: COALESCED_GAP_BYTES,
            most_bytes: 0,
            reverse: false,
        }
    }
}

/// The planned ranges of one iterator, at first none.
#[derive(Default)]
pub struct ScansAhead {
    /// Whether there are ranges.
    is_planned: AtomicBool,
    /// The current range.
    current: AtomicUsize,
    /// Whether any block is held: most scans find everything in the cache.
    holds: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ranges: Arc<ScanRanges>,
    options: AheadOptions,
    statistics: Option<Arc<Statistics>>,
    tables: Option<Box<dyn ScanTables>>,
    held: HashMap<CacheKey, HeldBlock>,
    /// Ranges before this one are in a readahead batch already.
    planned: usize,
    counts: AheadCounts,
}

struct HeldBlock {
    block: BlockRef,
    is_used: bool,
}

/// Blocks of one table, in the order of their offsets.
type Part = (Arc<TableReader>, Vec<BlockHandle>);

impl fmt::Debug for ScansAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScansAhead(told: {})", self.is_planned())
    }
}

impl ScansAhead {
    /// Plans `ranges`, which ascend, and numbers them from 0. Without tables nothing is read.
    /// Returns a copy of the ranges, which uses the memory of earlier ranges if those are done.
    pub fn plan(
        &self,
        ranges: &ScanRanges,
        options: AheadOptions,
        statistics: Option<&Arc<Statistics>>,
    ) -> Arc<ScanRanges> {
        self.forget();
        let mut state = self.state.lock();
        if Arc::get_mut(&mut state.ranges).is_none() {
            state.ranges = Arc::default();
        }
        if let Some(of_before) = Arc::get_mut(&mut state.ranges) {
            of_before.copy_from(ranges);
        }
        (state.options, state.planned, state.counts) = (options, 0, AheadCounts::default());
        state.statistics = statistics.cloned();
        self.current.store(0, Ordering::Relaxed);
        self.is_planned.store(true, Ordering::Relaxed);
        Arc::clone(&state.ranges)
    }

    /// Removes the ranges. Keeps the tables.
    pub fn forget(&self) {
        if !self.is_planned() {
            return;
        }
        self.is_planned.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        let released = self.take_held(&mut state);
        let statistics = state.statistics.take();
        drop(state);
        count_wasted(statistics.as_ref(), &released);
    }

    /// Whether there are ranges.
    #[inline]
    pub fn is_planned(&self) -> bool {
        self.is_planned.load(Ordering::Relaxed)
    }

    /// Whether blocks are held.
    #[inline]
    pub fn holds(&self) -> bool {
        // Relaxed: the thread that reads ahead also takes the blocks, or hands the iterator to the
        // thread that does.
        self.holds.load(Ordering::Relaxed)
    }

    /// Sets the source of tables. Without one, nothing is read ahead and no block is held.
    pub fn set_tables(&self, tables: Option<Box<dyn ScanTables>>) {
        let mut state = self.state.lock();
        let released = if tables.is_some() { HashMap::new() } else { self.take_held(&mut state) };
        let before = std::mem::replace(&mut state.tables, tables);
        let statistics = state.statistics.clone();
        drop(state);
        count_wasted(statistics.as_ref(), &released);
        drop(before);
    }

    /// Whether it has tables.
    pub fn knows_tables(&self) -> bool {
        self.state.lock().tables.is_some()
    }

    /// Takes the held blocks out.
    fn take_held(&self, state: &mut State) -> HashMap<CacheKey, HeldBlock> {
        self.holds.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.held)
    }

    /// Says that range `number` is scanned from now on; earlier ranges are done. Releases the held
    /// blocks once all ranges of the last readahead batch are done.
    pub fn enter(&self, number: usize) {
        self.current.store(number, Ordering::Relaxed);
        if !self.holds() {
            return;
        }
        let mut state = self.state.lock();
        if number < state.planned {
            return;
        }
        let released = self.take_held(&mut state);
        let statistics = state.statistics.clone();
        drop(state);
        count_wasted(statistics.as_ref(), &released);
    }

    /// Counts of readahead so far.
    pub fn counts(&self) -> AheadCounts {
        self.state.lock().counts
    }

    /// The data block at `handle`, otherwise like [`BlockSource::block`].
    pub(crate) fn block(
        &self,
        source: &BlockSource,
        handle: BlockHandle,
        options: &TableReadOptions,
        readahead: &mut Readahead,
    ) -> Result<BlockRef> {
        let key = source.key(handle);
        let found = self.held(&key).or_else(|| source.cached(handle, BlockKind::Data));
        let found = match found {
            None if self.read_batch() => self.held(&key),
            found => found,
        };
        match found {
            Some(block) => {
                readahead.skipped(handle);
                Ok(block)
            }
            None => source.load(handle, BlockKind::Data, options, Some(readahead)),
        }
    }

    fn held(&self, key: &CacheKey) -> Option<BlockRef> {
        if !self.holds() {
            return None;
        }
        let mut state = self.state.lock();
        let held = state.held.get_mut(key)?;
        held.is_used = true;
        Some(held.block.clone())
    }

    /// Reads the blocks of the current range and of later ranges, unless that was done before.
    /// Returns whether it read now.
    #[cold]
    fn read_batch(&self) -> bool {
        let first = self.current.load(Ordering::Relaxed);
        let mut state = self.state.lock();
        if state.options.table.read_tier != TableReadTier::ReadAll || first < state.planned {
            return false;
        }
        let Some(tables) = state.tables.take() else { return false };
        let batch = ReadaheadBatch { ranges: Arc::clone(&state.ranges), options: state.options };
        let statistics = state.statistics.clone();
        drop(state);
        let (parts, planned) = batch.plan(&*tables, first);
        let mut counts = GatherCounts::default();
        let held = batch.read(&parts, &mut counts);
        let bytes = parts.iter().flat_map(|(_, handles)| handles).copied().map(stored_bytes).sum();
        count(statistics.as_ref(), &counts, held.len());
        let mut state = self.state.lock();
        state.tables = Some(tables);
        state.planned = planned;
        self.holds.store(!held.is_empty(), Ordering::Relaxed);
        let released = std::mem::replace(&mut state.held, held);
        let total = &mut state.counts;
        total.batches += 1;
        total.ranges += (planned - first) as u64;
        total.blocks_read += counts.blocks_read;
        total.blocks_cached += counts.blocks_cached;
        total.bytes_read += counts.bytes_read;
        total.reads += counts.reads;
        total.most_held_bytes = total.most_held_bytes.max(bytes);
        drop(state);
        count_wasted(statistics.as_ref(), &released);
        true
    }
}

/// Blocks to read together.
struct ReadaheadBatch {
    ranges: Arc<ScanRanges>,
    options: AheadOptions,
}

impl ReadaheadBatch {
    /// The blocks of the readahead batch that begins with range `first`, and the range that begins
    /// the next batch.
    fn plan(&self, tables: &dyn ScanTables, first: usize) -> (Vec<Part>, usize) {
        let most_bytes = if self.options.most_bytes == 0 { BATCH_BYTES } else { self.options.most_bytes };
        let (mut batch, mut places) = (Vec::<Part>::new(), HashMap::new());
        let mut bytes = 0;
        let rest = (first..self.ranges.len()).filter_map(|at| self.ranges.get(at).map(|range| (at, range)));
        for (number, (start, limit)) in rest {
            // The length of a scan without a limit is unknown.
            let Some(limit) = limit else { return (batch, number + 1) };
            let room = most_bytes - bytes;
            let (mut of_range, mut range_bytes, mut fits) = (Vec::<Part>::new(), 0, true);
            tables.within(start, limit, &mut |reader| {
                let most = PART_BYTES.min(room - range_bytes);
                let mut handles = Vec::new();
                // If the blocks cannot be planned, the scan reads them itself.
                if let Ok(is_all) = reader.blocks_within((start, limit), &self.options, most, &mut handles) {
                    fits &= is_all || most == PART_BYTES;
                    range_bytes += handles.iter().copied().map(stored_bytes).sum::<u64>();
                    of_range.push((Arc::clone(reader), handles));
                }
            });
            if number > first && !fits {
                return (batch, number);
            }
            bytes += range_bytes;
            for (reader, handles) in of_range {
                let place = *places.entry(Arc::as_ptr(&reader) as usize).or_insert_with(|| {
                    batch.push((reader, Vec::new()));
                    batch.len() - 1
                });
                batch[place].1.extend(handles);
            }
            if !fits {
                return (batch, number + 1);
            }
        }
        (batch, self.ranges.len())
    }

    fn read(&self, parts: &[Part], counts: &mut GatherCounts) -> HashMap<CacheKey, HeldBlock> {
        let wanted: Vec<Wanted<'_>> = (parts.iter())
            .flat_map(|(reader, handles)| {
                let mut handles = handles.clone();
                handles.sort_unstable_by_key(|handle| handle.offset);
                handles.dedup();
                handles.into_iter().map(|handle| Wanted { source: &reader.source, handle })
            })
            .collect();
        let blocks = gather_closer(&wanted, &self.options.table, self.options.coalesced_gap_bytes, counts);
        let held = wanted.iter().zip(blocks).filter_map(|(wanted, block)| {
            let held = HeldBlock { block: block.ok()?, is_used: false };
            Some((wanted.source.key(wanted.handle), held))
        });
        held.collect()
    }
}

fn count(statistics: Option<&Arc<Statistics>>, counts: &GatherCounts, blocks: usize) {
    perf_add!(multiscan_blocks_prefetched, counts.blocks_read);
    perf_add!(multiscan_blocks_from_cache, counts.blocks_cached);
    perf_add!(multiscan_prefetch_bytes, counts.bytes_read);
    perf_add!(multiscan_io_requests, counts.reads);
    perf_add!(multiscan_io_coalesced_nonadjacent, counts.gaps_read);
    let Some(statistics) = statistics else { return };
    for (ticker, count) in [
        (Ticker::MultiscanBlocksPrefetched, counts.blocks_read),
        (Ticker::MultiscanBlocksFromCache, counts.blocks_cached),
        (Ticker::MultiscanPrefetchBytes, counts.bytes_read),
        (Ticker::MultiscanIoRequests, counts.reads),
        (Ticker::MultiscanIoCoalescedNonadjacent, counts.gaps_read),
    ] {
        statistics.record_tick(ticker, count);
    }
    statistics.record_in_histogram(Histogram::MultiscanBlocksPerPrepare, blocks as u64);
}

fn count_wasted(statistics: Option<&Arc<Statistics>>, released: &HashMap<CacheKey, HeldBlock>) {
    if let Some(statistics) = statistics.filter(|_| !released.is_empty()) {
        let wasted = released.values().filter(|held| !held.is_used).count();
        statistics.record_tick(Ticker::MultiscanPrefetchBlocksWasted, wasted as u64);
    }
}

/// The size may be any number if the index is damaged.
fn stored_bytes(handle: BlockHandle) -> u64 {
    handle.size.saturating_add(TRAILER_BYTES as u64)
}

impl TableReader {
    /// The data blocks that a scan from `start` up to `limit` reads, in its order, up to `most`
    /// bytes. Returns whether these are all.
    /// # Errors
    /// Those of reading the index.
    fn blocks_within(
        &self,
        (start, limit): (&[u8], &[u8]),
        options: &AheadOptions,
        most: u64,
        handles: &mut Vec<BlockHandle>,
    ) -> Result<bool> {
        let (icmp, source, table) = (&self.options.icmp, &self.source, &options.table);
        if table.prefix_filter_on_seek && !self.may_contain_prefix(table, start) {
            return Ok(true);
        }
        let mut walker = self.walker(table)?;
        let from = if options.reverse { limit } else { start };
        walker.seek(source, table, &key::seek_key(from, SequenceNumber::MAX), icmp)?;
        if options.reverse && !walker.valid() {
            walker.seek_to_last(source, table)?;
        }
        let mut bytes = 0;
        while walker.valid() {
            let separator = walker.separator_user_key();
            if options.reverse && icmp.compare_user_keys(separator, start).is_lt() {
                break;
            }
            let is_last = !options.reverse && icmp.compare_user_keys(separator, limit).is_ge();
            bytes = stored_bytes(walker.handle()).saturating_add(bytes);
            if bytes > most {
                return Ok(false);
            }
            handles.push(walker.handle());
            if is_last {
                break;
            }
            if options.reverse { walker.prev(source, table)? } else { walker.next(source, table)? }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ahead: &ScansAhead, keys: &[&str]) -> Arc<ScanRanges> {
        let mut ranges = ScanRanges::default();
        keys.iter().for_each(|key| ranges.push(key.as_bytes(), Some(b"z")));
        ahead.plan(&ranges, AheadOptions::default(), None)
    }

    #[test]
    fn new_ranges_take_the_memory_of_former_ranges_once_no_reader_has_these() {
        let ahead = ScansAhead::default();
        assert!(!ahead.is_planned());
        let first = plan(&ahead, &["a", "b", "c"]);
        assert!(ahead.is_planned());
        let second = plan(&ahead, &["d"]);
        assert_eq!((first.len(), first.get(2)), (3, Some((&b"c"[..], Some(&b"z"[..])))));
        assert_eq!((second.len(), second.get(0)), (1, Some((&b"d"[..], Some(&b"z"[..])))));
        let memory = Arc::as_ptr(&second);
        drop((first, second));
        ahead.forget();
        assert!(!ahead.is_planned());
        let third = plan(&ahead, &["e", "f"]);
        assert_eq!(Arc::as_ptr(&third), memory);
        assert_eq!((third.len(), third.get(2)), (2, None));
        let long = "k".repeat(KEPT_BYTES + 1);
        drop(third);
        drop(plan(&ahead, &[&long]));
        assert!(plan(&ahead, &["g"]).keys.capacity() < KEPT_BYTES);
    }
}
