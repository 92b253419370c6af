//! The history of tickers: how much each counted between two snapshots.
//!
//! In: the totals of all tickers at points in time. Out: the differences between neighbours, in
//! memory up to a limit, or as the keys and values that a column family keeps.
//!
//! Key: `TTTTTTTTTT#NAME`, the seconds since 1970 with ten digits and the ticker's name. Value: the
//! difference, in decimal. Keys without `#` are no part of a snapshot: they hold versions.
//! Source: RocksDB `monitoring/persistent_stats_history.cc`, `DBImpl::PersistStats`.

use esker_base::stats::{Statistics, Ticker};
use std::collections::BTreeMap;

/// One number for each ticker, in the order of [`Ticker::ALL`].
pub(crate) type TickerCounts = Box<[u64]>;

/// The snapshots of one database.
#[derive(Debug, Default)]
pub(crate) struct StatsHistory {
    /// The totals at the last snapshot.
    last: Option<TickerCounts>,
    /// Differences by the seconds since 1970 at which they were taken.
    snapshots: BTreeMap<u64, TickerCounts>,
}

impl StatsHistory {
    /// Whether the history has totals to compare the next ones with.
    pub(crate) fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Makes `totals` those of the last snapshot.
    pub(crate) fn advance(&mut self, totals: TickerCounts) {
        self.last = Some(totals);
    }

    /// The differences to the last snapshot; `None` if there is none. A ticker that was reset since
    /// then differs by its new total.
    pub(crate) fn differences(&self, totals: &[u64]) -> Option<TickerCounts> {
        let last = self.last.as_ref()?;
        let since = |(now, before): (&u64, &u64)| now.checked_sub(*before).unwrap_or(*now);
        Some(totals.iter().zip(last).map(since).collect())
    }

    /// Adds a snapshot of this time, and drops the oldest ones above `limit` bytes.
    pub(crate) fn keep(&mut self, seconds: u64, differences: TickerCounts, limit: usize) {
        self.snapshots.insert(seconds, differences);
        let each = snapshot_bytes();
        while each.saturating_mul(self.snapshots.len()) > limit {
            self.snapshots.pop_first();
        }
    }

    /// The first snapshot from `start` on and before `end`.
    pub(crate) fn find(&self, start: u64, end: u64) -> Option<(u64, BTreeMap<String, u64>)> {
        let (seconds, counts) =
            self.snapshots.range(start..).next().filter(|(seconds, _)| **seconds < end)?;
        let named = |(ticker, count): (&Ticker, &u64)| (ticker.name().to_owned(), *count);
        Some((*seconds, Ticker::ALL.iter().zip(counts).map(named).collect()))
    }
}

/// The totals of all tickers.
pub(crate) fn ticker_totals(statistics: &Statistics) -> TickerCounts {
    Ticker::ALL.iter().map(|ticker| statistics.ticker_count(*ticker)).collect()
}

/// The key of a ticker's difference. Keys sort by time, then by name.
pub(crate) fn stats_key(seconds: u64, name: &str) -> String {
    format!("{seconds:010}#{name}")
}

/// The time and the name in a key; `None` for a key that is no part of a snapshot.
pub(crate) fn parse_stats_key(key: &[u8]) -> Option<(u64, &str)> {
    let (seconds, name) = std::str::from_utf8(key).ok()?.split_once('#')?;
    Some((seconds.parse().ok()?, name))
}

/// RocksDB's estimate of the memory of a snapshot, so that a limit keeps as many of them here: a
/// map of 48 bytes with a time, and for each ticker a string of 32 bytes with its characters (at
/// least 15) and a number.
fn snapshot_bytes() -> usize {
    let of_ticker = |ticker: &Ticker| 32 + ticker.name().len().max(15) + 8;
    8 + 48 + Ticker::ALL.iter().map(of_ticker).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: u64) -> TickerCounts {
        Ticker::ALL.iter().map(|_| count).collect()
    }

    fn times(history: &StatsHistory) -> Vec<u64> {
        history.snapshots.keys().copied().collect()
    }

    #[test]
    fn differences_are_those_since_the_last_snapshot() {
        let mut history = StatsHistory::default();
        assert!(history.differences(&counts(5)).is_none() && !history.has_begun());
        history.advance(counts(5));
        assert_eq!(history.differences(&counts(12)), Some(counts(7)));
        assert_eq!(history.differences(&counts(3)), Some(counts(3)), "after a reset");
    }

    #[test]
    fn the_oldest_snapshots_go_when_the_limit_is_reached() {
        let mut history = StatsHistory::default();
        let limit = snapshot_bytes() * 2;
        for seconds in 1..=5 {
            history.keep(seconds, counts(seconds), limit);
        }
        assert_eq!(times(&history), [4, 5]);
        history.keep(6, counts(6), snapshot_bytes() - 1);
        assert!(times(&history).is_empty());
    }

    #[test]
    fn a_search_begins_at_its_start_and_stops_before_its_end() {
        let mut history = StatsHistory::default();
        for seconds in [10, 20, 30] {
            history.keep(seconds, counts(seconds), usize::MAX);
        }
        let found = |start, end| history.find(start, end).map(|(seconds, _)| seconds);
        assert_eq!((found(0, 11), found(10, 11), found(11, 20)), (Some(10), Some(10), None));
        assert_eq!((found(11, 21), found(31, u64::MAX)), (Some(20), None));
        let (_, tickers) = history.find(20, 21).unwrap();
        assert_eq!((tickers.len(), tickers["rocksdb.block.cache.miss"]), (Ticker::ALL.len(), 20));
    }

    #[test]
    fn keys_are_those_of_rocksdb() {
        assert_eq!(stats_key(1_700_000_000, "rocksdb.bytes.read"), "1700000000#rocksdb.bytes.read");
        assert_eq!(stats_key(7, "x"), "0000000007#x");
        assert_eq!(parse_stats_key(b"0000000007#x"), Some((7, "x")));
        for key in [&b"__persistent_stats_format_version__"[..], b"seven#x", b"\xFF#x", b"-1#x"] {
            assert_eq!(parse_stats_key(key), None);
        }
    }
}
