//! Counters and histograms of one or several databases.
//!
//! In: [`record_tick`] and [`record_in_histogram`] by all threads. Out: totals, under RocksDB's
//! names. Source of names, levels and text: RocksDB `include/rocksdb/statistics.h`,
//! `monitoring/statistics.cc`.
//!
//! Each thread adds to one of several shards, so that counting does not slow down the counted work.
//! A read adds up the shards. If other threads count during the read, the total lies between the
//! true totals before and after it.

pub mod histogram;
mod histogram_kind;
mod ticker;

pub use histogram::{HistogramData, HistogramSnapshot, HistogramStat};
pub use histogram_kind::Histogram;
pub use ticker::Ticker;

use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::thread_number;
use std::fmt;
use std::sync::Arc;

/// The statistics that are collected. Each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum StatsLevel {
    /// Nothing.
    DisableAll = 0,
    /// Tickers.
    ExceptHistogramOrTimers = 1,
    /// Also histograms that are not times.
    ExceptTimers = 2,
    /// Also times, except detailed times and times of mutexes.
    #[default]
    ExceptDetailedTimers = 3,
    /// Also detailed times: of compression, of compaction filters, and of file reads by user calls.
    ExceptTimeForMutex = 4,
    /// Also times of mutexes.
    All = 5,
}

impl StatsLevel {
    const ALL: [StatsLevel; 6] = [
        StatsLevel::DisableAll,
        StatsLevel::ExceptHistogramOrTimers,
        StatsLevel::ExceptTimers,
        StatsLevel::ExceptDetailedTimers,
        StatsLevel::ExceptTimeForMutex,
        StatsLevel::All,
    ];
}

const MAX_SHARDS: usize = 64;

/// One shard, on cache lines of its own.
#[repr(align(128))]
struct Shard {
    tickers: [AtomicU64; Ticker::COUNT],
    histograms: [HistogramStat; Histogram::COUNT],
}

/// The counters. Shared by `Arc`; every method may be called by any thread.
pub struct Statistics {
    level: AtomicU8,
    shards: Box<[Shard]>,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl Statistics {
    /// All zero, with a shard of about 73 KiB for each processor. The number of shards is rounded
    /// up to a power of two, and is at most 64.
    pub fn new() -> Statistics {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        Statistics::with_shards(processors)
    }

    fn with_shards(count: usize) -> Statistics {
        let count = count.next_power_of_two().min(MAX_SHARDS);
        let shard = |_| Shard {
            tickers: std::array::from_fn(|_| AtomicU64::new(0)),
            histograms: std::array::from_fn(|_| HistogramStat::new()),
        };
        Statistics {
            level: AtomicU8::new(StatsLevel::default() as u8),
            shards: (0..count).map(shard).collect(),
        }
    }

    /// The level of statistics that are collected.
    #[inline]
    pub fn stats_level(&self) -> StatsLevel {
        StatsLevel::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    /// Sets the level; totals so far stay.
    pub fn set_stats_level(&self, level: StatsLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    #[inline]
    fn collects(&self, level: StatsLevel) -> bool {
        self.level.load(Ordering::Relaxed) >= level as u8
    }

    /// Whether times are collected. If not, callers need not read the clock.
    #[inline]
    pub fn collects_times(&self) -> bool {
        self.collects(StatsLevel::ExceptDetailedTimers)
    }

    /// Whether detailed times are collected ([`StatsLevel::ExceptTimeForMutex`]).
    #[inline]
    pub fn collects_detailed_times(&self) -> bool {
        self.collects(StatsLevel::ExceptTimeForMutex)
    }

    /// Whether times of mutexes are collected.
    #[inline]
    pub fn collects_mutex_times(&self) -> bool {
        self.collects(StatsLevel::All)
    }

    #[inline]
    fn shard(&self) -> &Shard {
        &self.shards[thread_number() & (self.shards.len() - 1)]
    }

    /// Adds to a ticker.
    #[inline]
    pub fn record_tick(&self, ticker: Ticker, count: u64) {
        if self.collects(StatsLevel::ExceptHistogramOrTimers) {
            self.shard().tickers[ticker as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Adds a value to a distribution. For values other than times.
    #[inline]
    pub fn record_in_histogram(&self, histogram: Histogram, value: u64) {
        if self.collects(StatsLevel::ExceptTimers) {
            self.shard().histograms[histogram as usize].add(value);
        }
    }

    /// Adds a time to a distribution, in the unit that its name states.
    #[inline]
    pub fn report_time_to_histogram(&self, histogram: Histogram, time: u64) {
        if self.collects_times() {
            self.shard().histograms[histogram as usize].add(time);
        }
    }

    /// A ticker's total.
    pub fn ticker_count(&self, ticker: Ticker) -> u64 {
        self.shards.iter().map(|s| s.tickers[ticker as usize].load(Ordering::Relaxed)).sum()
    }

    /// Returns a ticker's total and sets it to zero. No count from other threads is lost.
    pub fn take_ticker_count(&self, ticker: Ticker) -> u64 {
        self.shards.iter().map(|s| s.tickers[ticker as usize].swap(0, Ordering::Relaxed)).sum()
    }

    /// Sets a ticker's total to `count`.
    pub fn set_ticker_count(&self, ticker: Ticker, count: u64) {
        for (i, shard) in self.shards.iter().enumerate() {
            shard.tickers[ticker as usize].store(if i == 0 { count } else { 0 }, Ordering::Relaxed);
        }
    }

    /// A distribution.
    pub fn histogram(&self, histogram: Histogram) -> HistogramSnapshot {
        let mut out = HistogramSnapshot::new();
        for shard in &self.shards {
            shard.histograms[histogram as usize].merge_into(&mut out);
        }
        out
    }

    /// A summary of a distribution.
    pub fn histogram_data(&self, histogram: Histogram) -> HistogramData {
        self.histogram(histogram).data()
    }

    /// Sets everything to zero.
    pub fn reset(&self) {
        for shard in &self.shards {
            shard.tickers.iter().for_each(|t| t.store(0, Ordering::Relaxed));
            shard.histograms.iter().for_each(HistogramStat::clear);
        }
    }
}

/// RocksDB's form: one line for each ticker (`rocksdb.block.cache.miss COUNT : 5`), then one line
/// for each histogram.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &ticker in Ticker::ALL {
            writeln!(f, "{} COUNT : {}", ticker.name(), self.ticker_count(ticker))?;
        }
        for &histogram in Histogram::ALL {
            let d = self.histogram_data(histogram);
            writeln!(
                f,
                "{} P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {}",
                histogram.name(),
                d.median,
                d.percentile95,
                d.percentile99,
                d.max,
                d.count,
                d.sum
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statistics").field("level", &self.stats_level()).finish_non_exhaustive()
    }
}

/// Adds to a ticker, if there are statistics.
#[inline]
pub fn record_tick(statistics: &Option<Arc<Statistics>>, ticker: Ticker, count: u64) {
    if let Some(statistics) = statistics {
        statistics.record_tick(ticker, count);
    }
}

/// Adds a value to a distribution, if there are statistics. For values other than times.
#[inline]
pub fn record_in_histogram(statistics: &Option<Arc<Statistics>>, histogram: Histogram, value: u64) {
    if let Some(statistics) = statistics {
        statistics.record_in_histogram(histogram, value);
    }
}

/// Adds a time to a distribution, if there are statistics.
#[inline]
pub fn report_time_to_histogram(statistics: &Option<Arc<Statistics>>, histogram: Histogram, time: u64) {
    if let Some(statistics) = statistics {
        statistics.report_time_to_histogram(histogram, time);
    }
}

#[cfg(test)]
mod tests;
