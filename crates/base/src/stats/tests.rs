use super::*;
use std::collections::HashSet;
use std::thread;

#[test]
fn names_are_known_and_differ() {
    assert_eq!(Ticker::BlockCacheMiss.name(), "rocksdb.block.cache.miss");
    assert_eq!(Ticker::from_name("rocksdb.bytes.written"), Some(Ticker::BytesWritten));
    assert_eq!(Histogram::DbGet.name(), "rocksdb.db.get.micros");
    assert_eq!(Histogram::from_name("no such name"), None);
    let tickers: HashSet<_> = Ticker::ALL.iter().map(|t| t.name()).collect();
    let histograms: HashSet<_> = Histogram::ALL.iter().map(|h| h.name()).collect();
    assert_eq!((tickers.len(), histograms.len()), (Ticker::COUNT, Histogram::COUNT));
    let is_rocksdbs = |name: &str| name.starts_with("rocksdb.");
    let first_own = Ticker::ALL.iter().position(|t| !is_rocksdbs(t.name())).unwrap_or(Ticker::COUNT);
    assert!(
        Ticker::ALL[first_own..].iter().all(|t| t.name().starts_with("esker.")),
        "own tickers follow RocksDB's"
    );
    assert!(histograms.iter().all(|name| is_rocksdbs(name)));
}

#[test]
fn nothing_is_lost_between_threads() {
    let statistics = Statistics::with_shards(3);
    assert_eq!(statistics.shards.len(), 4);
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| {
                for i in 0..1000 {
                    statistics.record_tick(Ticker::BytesRead, 2);
                    statistics.record_in_histogram(Histogram::BytesPerRead, i);
                }
            });
        }
    });
    assert_eq!(statistics.ticker_count(Ticker::BytesRead), 20_000);
    let data = statistics.histogram_data(Histogram::BytesPerRead);
    assert_eq!((data.count, data.sum, data.min, data.max), (10_000, 4_995_000, 0.0, 999.0));
    assert_eq!(statistics.take_ticker_count(Ticker::BytesRead), 20_000);
    assert_eq!(statistics.ticker_count(Ticker::BytesRead), 0);
    statistics.set_ticker_count(Ticker::BytesRead, 5);
    assert_eq!(statistics.ticker_count(Ticker::BytesRead), 5);
    statistics.reset();
    assert_eq!(statistics.ticker_count(Ticker::BytesRead), 0);
    assert_eq!(statistics.histogram_data(Histogram::BytesPerRead).count, 0);
}

#[test]
fn levels_decide_which_statistics_are_collected() {
    let counted = |level| {
        let statistics = Statistics::with_shards(1);
        statistics.set_stats_level(level);
        assert_eq!(statistics.stats_level(), level);
        statistics.record_tick(Ticker::BytesRead, 1);
        statistics.record_in_histogram(Histogram::BytesPerRead, 1);
        statistics.report_time_to_histogram(Histogram::DbGet, 1);
        [
            statistics.ticker_count(Ticker::BytesRead),
            statistics.histogram_data(Histogram::BytesPerRead).count,
            statistics.histogram_data(Histogram::DbGet).count,
            u64::from(statistics.collects_detailed_times()),
            u64::from(statistics.collects_mutex_times()),
        ]
    };
    assert_eq!(
        StatsLevel::ALL.map(counted),
        [
            [0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0],
            [1, 1, 0, 0, 0],
            [1, 1, 1, 0, 0],
            [1, 1, 1, 1, 0],
            [1, 1, 1, 1, 1]
        ]
    );
}

#[test]
fn the_text_is_rocksdbs() {
    let statistics = Statistics::new();
    statistics.record_tick(Ticker::BlockCacheMiss, 5);
    for v in [1, 3, 3, 50] {
        statistics.report_time_to_histogram(Histogram::DbGet, v);
    }
    let text = statistics.to_string();
    assert!(text.starts_with("rocksdb.block.cache.miss COUNT : 5\nrocksdb.block.cache.hit COUNT : 0\n"));
    let line = "rocksdb.db.get.micros P50 : 2.500000 P95 : 47.600000 P99 : 50.000000 P100 : 50.000000 COUNT : 4 SUM : 57\n";
    assert!(text.contains(line), "{}", text.lines().find(|l| l.contains("db.get.micros")).unwrap());
    assert_eq!(text.lines().count(), Ticker::COUNT + Histogram::COUNT);
}

#[test]
fn without_statistics_a_record_does_nothing() {
    record_tick(&None, Ticker::BytesRead, 1);
    record_in_histogram(&None, Histogram::BytesPerRead, 1);
    let statistics = Arc::new(Statistics::with_shards(1));
    let some = Some(Arc::clone(&statistics));
    record_tick(&some, Ticker::BytesRead, 1);
    report_time_to_histogram(&some, Histogram::DbGet, 1);
    assert_eq!(statistics.ticker_count(Ticker::BytesRead), 1);
}
