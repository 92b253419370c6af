//! Each ticker and histogram moves when its work is done, and only then.

use esker::compaction_filter::FilterDecision;
use esker::internals::env::mem::MemFs;
use esker::options::{
    BottommostLevelCompaction, CompactRangeOptions, CompressionType, FileChecksumGenCrc32cFactory, Options,
    Statistics, StatsLevel, Temperature,
};
use esker::stats::{Histogram, Ticker};
use esker::{Db, Env, SstFileReader, SstFileWriter};
use esker_testkit::TempDir;
use std::sync::Arc;

/// Options with statistics of all levels, without a block cache, so that each read is one of a
/// file.
fn counting() -> (Options, Arc<Statistics>) {
    let statistics = Arc::new(Statistics::new());
    statistics.set_stats_level(StatsLevel::All);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.compression = CompressionType::Lz4;
    options.cf.table.no_block_cache = true;
    (options, statistics)
}

fn fill(db: &Db) {
    (0..500).for_each(|i| db.put(format!("key{i:04}"), "value".repeat(20)).unwrap());
}

/// Rewrites everything into the last level.
fn compact(db: &Db) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&force, &db.default_column_family(), None, None).unwrap();
    db.wait_for_background_work().unwrap();
}

/// Checks that `work` moves all these histograms and no other of `family`.
fn moves(statistics: &Statistics, family: &[Histogram], moved: &[Histogram], work: impl FnOnce()) {
    statistics.reset();
    work();
    for &histogram in family {
        let count = statistics.histogram_data(histogram).count;
        assert_eq!(count > 0, moved.contains(&histogram), "{}: {count}", histogram.name());
    }
}

/// The histograms of file reads and writes by activity.
const BY_ACTIVITY: [Histogram; 11] = [
    Histogram::FileReadFlushMicros,
    Histogram::FileReadCompactionMicros,
    Histogram::FileReadDbOpenMicros,
    Histogram::FileReadGetMicros,
    Histogram::FileReadMultigetMicros,
    Histogram::FileReadDbIteratorMicros,
    Histogram::FileReadVerifyDbChecksumMicros,
    Histogram::FileReadVerifyFileChecksumsMicros,
    Histogram::FileWriteFlushMicros,
    Histogram::FileWriteCompactionMicros,
    Histogram::FileWriteDbOpenMicros,
];

#[test]
fn reads_and_writes_of_tables_are_timed_by_activity() {
    use Histogram::*;
    let (mut options, statistics) = counting();
    options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
    let db = Db::open(&options, "/db").unwrap();
    let check = |moved: &[Histogram], work: &dyn Fn()| moves(&statistics, &BY_ACTIVITY, moved, work);
    fill(&db);
    check(&[FileWriteFlushMicros, FileReadFlushMicros], &|| db.flush().unwrap());
    fill(&db);
    check(&[FileWriteFlushMicros, FileReadFlushMicros], &|| db.flush().unwrap());
    check(&[FileReadGetMicros], &|| assert!(db.get("key0001").unwrap().is_some()));
    assert!(statistics.histogram_data(ReadBlockGetMicros).count > 0);
    assert_eq!(statistics.histogram_data(ReadBlockCompactionMicros).count, 0);
    assert!(statistics.histogram_data(SstReadMicros).count > 0);
    assert!(statistics.histogram_data(DecompressionTimesNanos).count > 0);
    assert_eq!(statistics.histogram_data(SstWriteMicros).count, 0);
    let keys: Vec<String> = (0..500).step_by(9).map(|i| format!("key{i:04}")).collect();
    check(&[FileReadMultigetMicros], &|| assert!(db.multi_get(&keys).iter().all(|value| value.is_ok())));
    assert!(statistics.histogram_data(MultigetIoBatchSize).max > 1.0);
    check(&[FileReadDbIteratorMicros], &|| {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        while iter.valid() {
            iter.next();
        }
    });
    check(&[FileReadVerifyDbChecksumMicros], &|| db.verify_checksum().unwrap());
    check(&[FileReadVerifyFileChecksumsMicros], &|| db.verify_file_checksums().unwrap());
    check(&[FileReadCompactionMicros, FileWriteCompactionMicros], &|| compact(&db));
    for histogram in [
        ReadBlockCompactionMicros,
        WriteRawBlockMicros,
        SstWriteMicros,
        CompressionTimesNanos,
        DecompressionTimesNanos,
    ] {
        assert!(statistics.histogram_data(histogram).count > 0, "{}", histogram.name());
    }
    fill(&db);
    db.close().unwrap();
    drop(db);
    check(&[FileReadDbOpenMicros, FileWriteDbOpenMicros], &|| {
        Db::open(&options, "/db").unwrap().close().unwrap()
    });
}

#[test]
fn times_of_users_reads_of_files_are_detailed_times() {
    let (options, statistics) = counting();
    statistics.set_stats_level(StatsLevel::ExceptDetailedTimers);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    db.flush().unwrap();
    moves(&statistics, &BY_ACTIVITY, &[], || assert!(db.get("key0001").unwrap().is_some()));
    assert!(statistics.histogram_data(Histogram::SstReadMicros).count > 0);
    assert_eq!(statistics.histogram_data(Histogram::DecompressionTimesNanos).count, 0);
}

#[test]
fn reads_of_files_are_counted_by_level_and_temperature() {
    let count = |statistics: &Statistics, tickers: [Ticker; 2]| tickers.map(|t| statistics.ticker_count(t));
    let (in_last, in_others) = (
        [Ticker::LastLevelReadBytes, Ticker::LastLevelReadCount],
        [Ticker::NonLastLevelReadBytes, Ticker::NonLastLevelReadCount],
    );
    for (temperature, tickers) in [
        (Temperature::Hot, [Ticker::HotFileReadBytes, Ticker::HotFileReadCount]),
        (Temperature::Warm, [Ticker::WarmFileReadBytes, Ticker::WarmFileReadCount]),
        (Temperature::Cool, [Ticker::CoolFileReadBytes, Ticker::CoolFileReadCount]),
        (Temperature::Cold, [Ticker::ColdFileReadBytes, Ticker::ColdFileReadCount]),
        (Temperature::Ice, [Ticker::IceFileReadBytes, Ticker::IceFileReadCount]),
    ] {
        let (mut options, statistics) = counting();
        options.cf.last_level_temperature = temperature;
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        db.flush().unwrap();
        statistics.reset();
        assert!(db.get("key0001").unwrap().is_some());
        let [bytes, reads] = count(&statistics, in_others);
        assert!(reads > 0 && bytes > reads, "{bytes} bytes in {reads} reads");
        assert_eq!((count(&statistics, in_last), count(&statistics, tickers)), ([0, 0], [0, 0]));

        compact(&db);
        statistics.reset();
        assert!(db.get("key0001").unwrap().is_some());
        assert!(db.multi_get(&["key0001", "key0400"]).iter().all(|value| value.is_ok()));
        let [bytes, reads] = count(&statistics, in_last);
        assert!(reads > 0 && bytes > reads, "{bytes} bytes in {reads} reads");
        assert_eq!(count(&statistics, tickers), [bytes, reads], "{temperature:?}");
        assert_eq!(count(&statistics, in_others), [0, 0]);
    }
    let (mut options, statistics) = counting();
    options.cf.default_temperature = Temperature::Cold;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    db.flush().unwrap();
    assert!(statistics.ticker_count(Ticker::ColdFileReadCount) > 0, "the MANIFEST has no temperature");
}

/// A file of the machine lends its descriptor, and batches go past the file's own methods.
#[test]
fn batches_that_the_kernel_reads_together_are_counted() {
    for is_direct in [false, true] {
        let dir = TempDir::new("statistics");
        let (mut options, statistics) = counting();
        options.db.env = Env::default();
        options.db.use_direct_reads = is_direct;
        let db = Db::open(&options, dir.path()).unwrap();
        fill(&db);
        db.flush().unwrap();
        statistics.reset();
        let keys: Vec<String> = (0..500).step_by(3).map(|i| format!("key{i:04}")).collect();
        assert!(db.multi_get(&keys).iter().all(|value| matches!(value, Ok(Some(_)))));
        let reads = statistics.ticker_count(Ticker::NonLastLevelReadCount);
        let bytes = statistics.ticker_count(Ticker::NonLastLevelReadBytes);
        assert!(reads > 0 && bytes > 1000, "{bytes} bytes in {reads} reads");
        assert!(statistics.histogram_data(Histogram::FileReadMultigetMicros).count > 0);
    }
}

#[test]
fn work_at_blob_files_is_timed() {
    let (mut options, statistics) = counting();
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 50;
    options.cf.blob_compression_type = CompressionType::Lz4;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    let family = [
        Histogram::BlobDbBlobFileWriteMicros,
        Histogram::BlobDbBlobFileSyncMicros,
        Histogram::BlobDbCompressionMicros,
        Histogram::BlobDbBlobFileReadMicros,
        Histogram::BlobDbDecompressionMicros,
    ];
    moves(&statistics, &family, &family[..3], || db.flush().unwrap());
    moves(&statistics, &family, &family[3..], || assert!(db.get("key0001").unwrap().is_some()));
}

/// Checks that `work` moves `ticker`.
fn ticks(statistics: &Statistics, ticker: Ticker, work: impl FnOnce()) {
    statistics.reset();
    work();
    assert!(statistics.ticker_count(ticker) > 0, "{}", ticker.name());
}

#[test]
fn times_of_merge_operators_and_filters_are_counted() {
    let (mut options, statistics) = counting();
    options.cf.merge_operator = Some(esker::builtin::string_append(","));
    let keeps = |_: usize, _: &[u8], _: &[u8]| FilterDecision::Keep;
    options.cf = options.cf.compaction_filter_fn("keeps", keeps);
    let db = Db::open(&options, "/db").unwrap();
    ["a", "b"].iter().for_each(|operand| db.merge("key", operand).unwrap());
    let ticker = Ticker::MergeOperationTotalTime;
    ticks(&statistics, ticker, || assert_eq!(db.get("key").unwrap().unwrap(), *b"a,b"));
    ticks(&statistics, ticker, || {
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        assert_eq!(iter.value(), b"a,b");
    });
    ticks(&statistics, ticker, || db.flush().unwrap());
    ticks(&statistics, Ticker::FilterOperationTotalTime, || compact(&db));

    let (db_options, cf_options) = (db.db_options(), db.options_cf(&db.default_column_family()));
    let operator = cf_options.merge_operator.clone().unwrap();
    assert_eq!(operator.name(), "StringAppendOperator");
    drop(db);
    let again = Options { db: db_options, cf: cf_options };
    let db = Db::open(&again, "/db").unwrap();
    statistics.set_stats_level(StatsLevel::ExceptDetailedTimers);
    statistics.reset();
    compact(&db);
    assert_eq!(statistics.ticker_count(Ticker::FilterOperationTotalTime), 0, "a detailed time");
}

#[test]
fn processor_time_and_setup_of_compactions_are_counted() {
    let (mut options, statistics) = counting();
    options.db.max_subcompactions = 4;
    options.cf.target_file_size_base = 1 << 10;
    options.cf.compression = CompressionType::None;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    moves(&statistics, &[Histogram::ManifestFileSyncMicros], &[Histogram::ManifestFileSyncMicros], || {
        db.flush().unwrap();
    });
    let family = [Histogram::CompactionCpuTime, Histogram::SubcompactionSetupTime];
    moves(&statistics, &family, &family, || compact(&db));
    assert!(statistics.ticker_count(Ticker::CompactionCpuTotalTime) > 0);
}

#[test]
fn outdated_bytes_of_memtables_and_range_tombstones_are_counted() {
    let (options, statistics) = counting();
    let db = Db::open(&options, "/db").unwrap();
    let counts = || {
        [Ticker::MemtablePayloadBytesAtFlush, Ticker::MemtableGarbageBytesAtFlush]
            .map(|ticker| statistics.take_ticker_count(ticker))
    };
    let payload = |keys: u64| keys * ("key0000".len() + 8 + 5 * 20) as u64;
    fill(&db);
    db.flush().unwrap();
    assert_eq!(counts(), [payload(500), 0]);
    (0..2).for_each(|_| fill(&db));
    db.flush().unwrap();
    assert_eq!(counts(), [payload(1000), payload(500)]);

    db.delete_range("key0100", "key0200").unwrap();
    db.flush().unwrap();
    assert_eq!(counts(), [7 + 8 + 7, 0]);
    let ticker = Ticker::CompactionRangeDelDropObsolete;
    ticks(&statistics, ticker, || compact(&db));
    assert_eq!(statistics.ticker_count(ticker), 1);
}

#[test]
fn reads_of_the_tails_of_tables_are_counted() {
    let (mut options, statistics) = counting();
    options.cf.table.block_size = 64;
    let mut writer = SstFileWriter::new(&options);
    writer.open("/outside.sst").unwrap();
    (0..3000).for_each(|i| writer.put(format!("key{i:04}"), "value".repeat(20)).unwrap());
    writer.finish().unwrap();
    let counts = || {
        [Ticker::TableOpenPrefetchTailHit, Ticker::TableOpenPrefetchTailMiss]
            .map(|ticker| statistics.take_ticker_count(ticker))
    };
    counts();
    drop(SstFileReader::open(&options, "/outside.sst").unwrap());
    let [hits, misses] = counts();
    assert!(hits >= 3 && misses == 0, "{hits} hits and {misses} misses");
    assert!(statistics.histogram_data(Histogram::TableOpenPrefetchTailReadBytes).max > 4096.0);
    options.cf.table.cache_index_and_filter_blocks = true;
    options.cf.table.no_block_cache = false;
    drop(SstFileReader::open(&options, "/outside.sst").unwrap());
    let [hits, misses] = counts();
    assert!(hits > 0 && misses > 0, "the tail is longer than what is read of it");
}
