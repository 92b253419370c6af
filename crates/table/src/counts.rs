//! Counters of block lookups, reads and filters: RocksDB's tickers and perf context.

use crate::block_source::BlockKind;
use esker_base::perf_context::{count_at_level, counts_by_level, is_detailed};
use esker_base::stats::{Histogram, Statistics, Ticker};
use esker_base::{IoActivity, perf_add, perf_count};
use esker_cache::InsertOutcome;
use esker_cache::tier::{Admission, FoundIn};
use esker_env::Clock;
use std::cell::RefCell;
use std::sync::Arc;

/// Counts a cache hit. `level`: that of the table · `charge`: the block's charge in bytes.
#[inline]
pub(crate) fn cache_hit(
    statistics: Option<&Arc<Statistics>>,
    kind: BlockKind,
    level: u32,
    charge: impl Fn() -> usize,
) {
    perf_count!(block_cache_hit_count);
    match kind {
        BlockKind::Index => perf_count!(block_cache_index_hit_count),
        BlockKind::Filter => perf_count!(block_cache_filter_hit_count),
        BlockKind::Data | BlockKind::Meta => {}
    }
    if is_detailed() {
        detailed_hit(kind, level, charge() as u64);
    }
    if let Some(statistics) = statistics {
        statistics.record_tick(Ticker::BlockCacheHit, 1);
        statistics.record_tick(Ticker::BlockCacheBytesRead, charge() as u64);
        statistics.record_tick(
            match kind {
                BlockKind::Index => Ticker::BlockCacheIndexHit,
                BlockKind::Filter => Ticker::BlockCacheFilterHit,
                BlockKind::Data | BlockKind::Meta => Ticker::BlockCacheDataHit,
            },
            1,
        );
    }
}

#[cold]
fn detailed_hit(kind: BlockKind, level: u32, charge: u64) {
    count_at_level(level, |level| level.block_cache_hit_count += 1);
    perf_add!(block_cache_read_byte, charge);
    match kind {
        BlockKind::Index => perf_add!(block_cache_index_read_byte, charge),
        BlockKind::Filter => perf_add!(block_cache_filter_read_byte, charge),
        BlockKind::Data | BlockKind::Meta => {}
    }
}

/// Counts a block found in the tier below the cache, as RocksDB counts it: as in the cache.
pub(crate) fn secondary_hit(statistics: Option<&Arc<Statistics>>, kind: BlockKind, found_in: FoundIn) {
    perf_count!(secondary_cache_hit_count);
    let Some(statistics) = statistics else { return };
    statistics.record_tick(Ticker::SecondaryCacheHits, 1);
    let of_kind = match kind {
        BlockKind::Index => Ticker::SecondaryCacheIndexHits,
        BlockKind::Filter => Ticker::SecondaryCacheFilterHits,
        BlockKind::Data | BlockKind::Meta => Ticker::SecondaryCacheDataHits,
    };
    statistics.record_tick(of_kind, 1);
    if found_in == FoundIn::Memory {
        statistics.record_tick(Ticker::CompressedSecondaryCacheHits, 1);
    }
}

/// The tier below has recorded the block's key, but does not have the block.
pub(crate) fn secondary_remembers(statistics: Option<&Arc<Statistics>>) {
    if let Some(statistics) = statistics {
        statistics.record_tick(Ticker::CompressedSecondaryCacheDummyHits, 1);
    }
}

/// A block that was found in a file was offered to the compressed tier above it.
pub(crate) fn secondary_promotion(statistics: Option<&Arc<Statistics>>, admission: Admission) {
    let Some(statistics) = statistics else { return };
    match admission {
        Admission::Stored => statistics.record_tick(Ticker::CompressedSecondaryCachePromotions, 1),
        Admission::Remembered => statistics.record_tick(Ticker::CompressedSecondaryCachePromotionSkips, 1),
        Admission::Present | Admission::Refused => {}
    }
}

/// The block was not in the cache.
pub(crate) fn cache_miss(statistics: Option<&Arc<Statistics>>, kind: BlockKind, level: u32) {
    count_at_level(level, |level| level.block_cache_miss_count += 1);
    let Some(statistics) = statistics else { return };
    statistics.record_tick(Ticker::BlockCacheMiss, 1);
    let of_kind = match kind {
        BlockKind::Index => Ticker::BlockCacheIndexMiss,
        BlockKind::Filter => Ticker::BlockCacheFilterMiss,
        BlockKind::Data | BlockKind::Meta => Ticker::BlockCacheDataMiss,
    };
    statistics.record_tick(of_kind, 1);
}

/// Counts an insert into the cache, with the block's charge; or that the block was there already;
/// or (`None`) that it did not fit.
pub(crate) fn cache_add(
    statistics: Option<&Arc<Statistics>>,
    kind: BlockKind,
    charge: usize,
    outcome: Option<InsertOutcome>,
) {
    let Some(statistics) = statistics else { return };
    let Some(outcome) = outcome else {
        statistics.record_tick(Ticker::BlockCacheAddFailures, 1);
        return;
    };
    if matches!(outcome, InsertOutcome::Found | InsertOutcome::Replaced) {
        let redundant = match kind {
            BlockKind::Index => Ticker::BlockCacheIndexAddRedundant,
            BlockKind::Filter => Ticker::BlockCacheFilterAddRedundant,
            BlockKind::Data | BlockKind::Meta => Ticker::BlockCacheDataAddRedundant,
        };
        statistics.record_tick(Ticker::BlockCacheAddRedundant, 1);
        statistics.record_tick(redundant, 1);
    }
    let (add, bytes) = match kind {
        BlockKind::Index => (Ticker::BlockCacheIndexAdd, Ticker::BlockCacheIndexBytesInsert),
        BlockKind::Filter => (Ticker::BlockCacheFilterAdd, Ticker::BlockCacheFilterBytesInsert),
        BlockKind::Data | BlockKind::Meta => (Ticker::BlockCacheDataAdd, Ticker::BlockCacheDataBytesInsert),
    };
    statistics.record_tick(Ticker::BlockCacheAdd, 1);
    statistics.record_tick(Ticker::BlockCacheBytesWrite, charge as u64);
    statistics.record_tick(add, 1);
    statistics.record_tick(bytes, charge as u64);
}

/// The block was read from the file: `stored` bytes with its trailer.
pub(crate) fn block_read(kind: BlockKind, stored: u64) {
    perf_count!(block_read_count);
    perf_add!(block_read_byte, stored);
    match kind {
        BlockKind::Index => {
            perf_count!(index_block_read_count);
            perf_add!(index_block_read_byte, stored);
        }
        BlockKind::Filter => {
            perf_count!(filter_block_read_count);
            perf_add!(filter_block_read_byte, stored);
        }
        BlockKind::Data => perf_add!(data_block_read_byte, stored),
        BlockKind::Meta => perf_add!(metadata_block_read_byte, stored),
    }
}

/// A table's dictionary was read: `stored` bytes with its trailer.
pub(crate) fn dictionary_read(stored: u64) {
    perf_count!(compression_dict_block_read_count);
    perf_add!(compression_dict_block_read_byte, stored);
}

/// Counts reads that go to the kernel together.
pub(crate) fn batch_read(statistics: Option<&Arc<Statistics>>, reads: usize) {
    if let Some(statistics) = statistics {
        statistics.record_in_histogram(Histogram::MultigetIoBatchSize, reads as u64);
    }
}

/// Counts a repeated read of a damaged block, and whether it helped.
pub(crate) fn read_again(statistics: Option<&Arc<Statistics>>, helped: bool) {
    let Some(statistics) = statistics else { return };
    statistics.record_tick(Ticker::FileReadCorruptionRetryCount, 1);
    statistics.record_tick(Ticker::FileReadCorruptionRetrySuccessCount, u64::from(helped));
}

/// The footer of a table is damaged.
#[cold]
pub(crate) fn footer_is_damaged(statistics: Option<&Arc<Statistics>>) {
    if let Some(statistics) = statistics {
        statistics.record_tick(Ticker::SstFooterCorruptionCount, 1);
    }
}

/// Counts bytes that one read has brought for a scan, the next block's included: RocksDB counts
/// those of compactions apart.
pub(crate) fn prefetched(statistics: Option<&Arc<Statistics>>, bytes: u64) {
    let Some(statistics) = statistics else { return };
    if IoActivity::current() == IoActivity::Compaction {
        statistics.record_in_histogram(Histogram::CompactionPrefetchBytes, bytes);
    } else {
        statistics.record_tick(Ticker::PrefetchBytes, bytes);
    }
}

/// Counts a block that an earlier read has brought.
pub(crate) fn prefetch_used(statistics: Option<&Arc<Statistics>>, bytes: u64) {
    let Some(statistics) = statistics else { return };
    if IoActivity::current() != IoActivity::Compaction {
        statistics.record_tick(Ticker::PrefetchHits, 1);
        statistics.record_tick(Ticker::PrefetchBytesUseful, bytes);
    }
}

/// Counts a readahead that failed behind the requested block.
pub(crate) fn readahead_failed(statistics: Option<&Arc<Statistics>>) {
    if let Some(statistics) = statistics {
        statistics.record_tick(Ticker::ReadaheadErrors, 1);
    }
}

/// A detailed time that has begun: the statistics, the clock, and its nanoseconds.
pub(crate) type Begun<'a> = Option<(&'a Statistics, &'a dyn Clock, u64)>;

/// Begins a time of compression or decompression, if the statistics collect these times.
#[inline]
pub(crate) fn begin_detailed<'a>(statistics: Option<&'a Arc<Statistics>>, clock: &'a dyn Clock) -> Begun<'a> {
    let statistics = statistics.filter(|statistics| statistics.collects_detailed_times())?;
    Some((statistics, clock, clock.monotonic_nanos()))
}

/// Adds the nanoseconds since [`begin_detailed`] to a histogram.
#[inline]
pub(crate) fn end_detailed(begun: Begun<'_>, histogram: Histogram) {
    if let Some((statistics, clock, begun)) = begun {
        let nanos = clock.monotonic_nanos().saturating_sub(begun);
        statistics.report_time_to_histogram(histogram, nanos);
    }
}

/// A block of `from` bytes was decompressed to `to` bytes.
pub(crate) fn decompressed(statistics: Option<&Arc<Statistics>>, from: usize, to: usize) {
    perf_count!(block_decompress_count);
    if let Some(statistics) = statistics {
        statistics.record_tick(Ticker::NumberBlockDecompressed, 1);
        statistics.record_tick(Ticker::BytesDecompressedFrom, from as u64);
        statistics.record_tick(Ticker::BytesDecompressedTo, to as u64);
    }
}

/// Counts the outcome of compressing a block of `from` bytes.
pub(crate) fn compressed(statistics: Option<&Arc<Statistics>>, from: usize, outcome: Compressed) {
    let Some(statistics) = statistics else { return };
    let from = from as u64;
    let (number, bytes) = match outcome {
        Compressed::To(to) => {
            statistics.record_tick(Ticker::BytesCompressedTo, to as u64);
            (Ticker::NumberBlockCompressed, Ticker::BytesCompressedFrom)
        }
        Compressed::NotAsked => (Ticker::NumberBlockCompressionBypassed, Ticker::BytesCompressionBypassed),
        Compressed::Rejected => (Ticker::NumberBlockCompressionRejected, Ticker::BytesCompressionRejected),
    };
    statistics.record_tick(number, 1);
    statistics.record_tick(bytes, from);
}

/// See [`compressed`].
pub(crate) enum Compressed {
    /// Compressed to this many bytes.
    To(usize),
    /// The options name no codec.
    NotAsked,
    /// Compression would have saved too little.
    Rejected,
}

/// A block's checksum was computed, and fits or not.
#[inline]
pub(crate) fn checksum_computed(statistics: Option<&Arc<Statistics>>, fits: bool) {
    let Some(statistics) = statistics else { return };
    statistics.record_tick(Ticker::BlockChecksumComputeCount, 1);
    if !fits {
        statistics.record_tick(Ticker::BlockChecksumMismatchCount, 1);
    }
}

/// Counts a query of a filter with a whole key.
#[inline]
pub(crate) fn filter_asked(statistics: Option<&Arc<Statistics>>, level: u32, passes: bool) {
    count_hit(level, passes);
    if let Some(statistics) = statistics {
        let answer = if passes { Ticker::BloomFilterFullPositive } else { Ticker::BloomFilterUseful };
        statistics.record_tick(answer, 1);
    }
}

#[inline]
fn count_hit(level: u32, passes: bool) {
    if passes {
        perf_count!(bloom_sst_hit_count);
    } else {
        perf_count!(bloom_sst_miss_count);
    }
    if counts_by_level() {
        count_at_level(level, |level| match passes {
            true => level.bloom_filter_full_positive += 1,
            false => level.bloom_filter_useful += 1,
        });
    }
}

/// Counts a query of a filter with the prefix of a lookup's key.
#[cold]
pub(crate) fn prefix_asked_by_get(statistics: Option<&Arc<Statistics>>, level: u32, passes: bool) {
    count_hit(level, passes);
    prefix_asked(statistics, passes);
}

/// Counts a key that the filter let pass and the table had.
pub(crate) fn filter_was_right(statistics: Option<&Arc<Statistics>>, level: u32, whole_keys: bool) {
    if counts_by_level() {
        count_at_level(level, |level| level.bloom_filter_full_true_positive += 1);
    }
    let Some(statistics) = statistics else { return };
    let right =
        if whole_keys { Ticker::BloomFilterFullTruePositive } else { Ticker::BloomFilterPrefixTruePositive };
    statistics.record_tick(right, 1);
}

/// A block that a batch of keys has read: level and number of its table, and whether it is a data
/// block.
type BatchRead = (u32, u64, bool);

thread_local! {
    static BATCH_READS: RefCell<Vec<BatchRead>> = const { RefCell::new(Vec::new()) };
}

/// Remembers a block that the thread's multi-get reads, for [`count_batch_reads`].
pub(crate) fn batch_reads_block(kind: BlockKind, level: u32, number: u64) {
    if kind != BlockKind::Meta {
        BATCH_READS.with_borrow_mut(|reads| reads.push((level, number, kind == BlockKind::Data)));
    }
}

/// Counts the blocks, tables and levels that the multi-get of this thread has read. Each table of
/// level 0 counts as a level.
pub fn count_batch_reads(statistics: &Statistics) {
    let mut reads = BATCH_READS.take();
    reads.sort_unstable();
    let is_same_level = |a: &BatchRead, b: &BatchRead| a.0 == b.0 && (a.0 > 0 || a.1 == b.1);
    let mut levels = 0;
    for level in reads.chunk_by(is_same_level) {
        let metadata = level.iter().filter(|(_, _, is_data)| !is_data).count();
        if metadata > 0 {
            statistics.record_in_histogram(Histogram::NumIndexAndFilterBlocksReadPerLevel, metadata as u64);
        }
        let has_data = |table: &[BatchRead]| table.iter().any(|(_, _, is_data)| *is_data);
        let tables = level.chunk_by(|a, b| a.1 == b.1).filter(|table| has_data(table)).count();
        if tables > 0 {
            statistics.record_in_histogram(Histogram::NumSstReadPerLevel, tables as u64);
            levels += 1;
        }
    }
    if levels > 0 {
        statistics.record_in_histogram(Histogram::NumLevelReadPerMultiget, levels);
    }
}

/// Counts a query of a filter with a seek's prefix.
pub(crate) fn prefix_asked(statistics: Option<&Arc<Statistics>>, passes: bool) {
    let Some(statistics) = statistics else { return };
    statistics.record_tick(Ticker::BloomFilterPrefixChecked, 1);
    if !passes {
        statistics.record_tick(Ticker::BloomFilterPrefixUseful, 1);
    }
}
