//! Tickers and histograms of readahead and of planned ranges.

use esker::internals::env::MemFs;
use esker::options::CompressionType;
use esker::stats::{Histogram, Statistics, Ticker};
use esker::{Db, Env, MultiScanArgs, Options, ReadOptions};
use std::sync::Arc;

/// A database with two tables of 200 kB each, and its statistics.
fn db() -> (Db, Arc<Statistics>) {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options.cf.table.no_block_cache = true;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..2 {
        for i in 0..2000 {
            db.put(format!("key{i:05}"), format!("{round}").repeat(100)).unwrap();
        }
        db.flush().unwrap();
    }
    (db, statistics)
}

/// Scans `rows` rows with this readahead.
fn scan(db: &Db, rows: usize, readahead_size: usize) {
    let options = ReadOptions { readahead_size, ..ReadOptions::default() };
    let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
    iter.seek_to_first();
    (1..rows).for_each(|_| iter.next());
    assert!(iter.valid());
}

#[test]
fn scans_count_readahead_and_its_use() {
    let (db, statistics) = db();
    let count = |ticker| statistics.ticker_count(ticker);
    let discarded = || statistics.histogram_data(Histogram::PrefetchedBytesDiscarded);
    scan(&db, 2000, 0);
    let (read, useful) = (count(Ticker::PrefetchBytes), count(Ticker::PrefetchBytesUseful));
    assert!(read > 100_000 && useful > 50_000 && useful < read, "{read} {useful}");
    assert!(count(Ticker::PrefetchHits) > 10);
    let at_the_ends = discarded();
    assert_eq!(at_the_ends.count, 2);
    assert!(at_the_ends.sum < 10_000, "both tables were read to their ends: {at_the_ends:?}");
    scan(&db, 2, 64 << 10);
    let more = count(Ticker::PrefetchBytes) - read;
    assert!((128 << 10..160 << 10).contains(&more), "two reads of 64 kB: {more}");
    assert_eq!(discarded().count, 4);
    let sum = discarded().sum - at_the_ends.sum;
    assert!(sum > 110_000 && sum < more, "{sum} of {more}");
}

#[test]
fn readahead_of_compactions_is_counted_apart() {
    let (db, statistics) = db();
    db.compact_range(None, None).unwrap();
    let read = statistics.histogram_data(Histogram::CompactionPrefetchBytes);
    assert!(read.count >= 2 && read.sum > 400_000, "{read:?}");
    assert_eq!(statistics.ticker_count(Ticker::PrefetchBytes), 0);
    assert_eq!(statistics.ticker_count(Ticker::PrefetchHits), 0);
}

#[test]
fn the_preparation_of_ranges_is_timed() {
    let (db, statistics) = db();
    let mut ranges = MultiScanArgs::new();
    ranges.insert("key00100", "key00200");
    db.iter().unwrap().prepare(&ranges).unwrap();
    assert_eq!(statistics.histogram_data(Histogram::MultiscanPrepareMicros).count, 1);
}
