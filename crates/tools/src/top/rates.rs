//! Rates between two snapshots.
//!
//! In: two snapshots of one opening. Out: numbers per second. A new opening, whose counters begin
//! anew, gives zeros.

use esker_monitor::StatisticsSnapshot;

/// Numbers per second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct ThroughputRates {
    pub(super) keys_written: f64,
    pub(super) bytes_written: f64,
    pub(super) keys_read: f64,
    pub(super) seeks: f64,
    pub(super) flushed: f64,
    pub(super) compacted: f64,
    pub(super) wal: f64,
    /// The share of lookups that the block cache answers, from 0 to 1; `None` without lookups.
    pub(super) cache_hits: Option<f64>,
}

pub(super) fn rates(now: &StatisticsSnapshot, before: Option<&StatisticsSnapshot>) -> ThroughputRates {
    let same = |before: &&StatisticsSnapshot| {
        before.process.pid == now.process.pid && before.uptime_seconds < now.uptime_seconds
    };
    let Some(before) = before.filter(same) else { return ThroughputRates::default() };
    let seconds = now.uptime_seconds - before.uptime_seconds;
    let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let ticker = |name: &str| {
        let of = |snapshot: &StatisticsSnapshot| snapshot.tickers.get(name).copied().unwrap_or(0);
        rate(of(now), of(before))
    };
    let (hits, misses) = (ticker("rocksdb.block.cache.hit"), ticker("rocksdb.block.cache.miss"));
    ThroughputRates {
        keys_written: rate(now.writes.keys, before.writes.keys),
        bytes_written: rate(now.writes.bytes, before.writes.bytes),
        keys_read: ticker("rocksdb.number.keys.read") + ticker("rocksdb.number.multiget.keys.read"),
        seeks: ticker("rocksdb.number.db.seek"),
        flushed: ticker("rocksdb.flush.write.bytes"),
        compacted: ticker("rocksdb.compact.write.bytes"),
        wal: rate(now.wal.written_bytes, before.wal.written_bytes),
        cache_hits: (hits + misses > 0.0).then(|| hits / (hits + misses)),
    }
}
