//! Each ticker and histogram moves when its work is done, and only then.

use esker::compaction_filter::FilterDecision;
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::env::mem::MemFs;
use esker::internals::format::properties::IndexType;
use esker::options::FilterPolicy;
use esker::options::{
    BottommostLevelCompaction, CompactRangeOptions, CompressionType, FileChecksumGenCrc32cFactory, Options,
    Statistics, StatsLevel, Temperature,
};
use esker::stats::{Histogram, Ticker};
use esker::{
    Db, Env, ReadOptions, SstFileReader, SstFileWriter, TransactionDb, TransactionDbOptions, WriteOptions,
    prefix,
};
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

/// The tickers of seeks in the levels above the last and in the last: filtered, let pass by a
/// filter, led to a data block, and used, without a filter and with one.
const SEEKS: [[Ticker; 5]; 2] = [
    [
        Ticker::NonLastLevelSeekFiltered,
        Ticker::NonLastLevelSeekFilterMatch,
        Ticker::NonLastLevelSeekData,
        Ticker::NonLastLevelSeekDataUsefulNoFilter,
        Ticker::NonLastLevelSeekDataUsefulFilterMatch,
    ],
    [
        Ticker::LastLevelSeekFiltered,
        Ticker::LastLevelSeekFilterMatch,
        Ticker::LastLevelSeekData,
        Ticker::LastLevelSeekDataUsefulNoFilter,
        Ticker::LastLevelSeekDataUsefulFilterMatch,
    ],
];

#[test]
fn seeks_in_tables_are_counted_by_filter_and_use() {
    let (mut options, statistics) = counting();
    options.cf.prefix_extractor = Some(prefix::fixed(5));
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
    let db = Db::open(&options, "/db").unwrap();
    let keys = (0..500).step_by(10).filter(|i| !(200..300).contains(i));
    keys.for_each(|i| db.put(format!("key{i:04}"), "value".repeat(200)).unwrap());
    db.flush().unwrap();
    for [of_level, of_other] in [SEEKS, [SEEKS[1], SEEKS[0]]] {
        let counts = |tickers: [Ticker; 5]| tickers.map(|ticker| statistics.ticker_count(ticker));
        let seek = |same_prefix: bool, target: &str, reads_value: bool| {
            statistics.reset();
            let read = ReadOptions::default().prefix_same_as_start(same_prefix);
            let mut iter = db.iter_opt(read, &db.default_column_family()).unwrap();
            iter.seek(target);
            if reads_value {
                assert_eq!(iter.value(), "value".repeat(200).as_bytes());
            }
            assert_eq!(counts(of_other), [0; 5]);
            counts(of_level)
        };
        assert_eq!(seek(false, "key0010", true), [0, 0, 1, 1, 0]);
        assert_eq!(seek(true, "key0010", true), [0, 1, 1, 0, 1]);
        assert_eq!(seek(true, "key0250", false), [1, 0, 0, 0, 0]);
        compact(&db);
    }
}

#[test]
fn answers_of_prefix_filters_are_counted() {
    let (mut options, statistics) = counting();
    options.cf.prefix_extractor = Some(prefix::fixed(5));
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(20.0));
    options.cf.table.whole_key_filtering = false;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    db.flush().unwrap();
    let right = || statistics.take_ticker_count(Ticker::BloomFilterPrefixTruePositive);
    assert!(db.get("key0001").unwrap().is_some());
    assert_eq!(right(), 1);
    assert!(db.get("key0001a").unwrap().is_none());
    assert_eq!(right(), 0, "the filter let an absent key pass");
    let keys: Vec<String> = (0..500).step_by(10).map(|i| format!("key{i:04}")).collect();
    assert!(db.multi_get(&keys).iter().all(|value| matches!(value, Ok(Some(_)))));
    assert_eq!(right(), 50);
    assert_eq!(statistics.ticker_count(Ticker::BloomFilterFullTruePositive), 0);
}

#[test]
fn a_filter_is_right_once_about_a_key_in_several_blocks() {
    let (mut options, statistics) = counting();
    options.cf.merge_operator = Some(esker::builtin::string_append(","));
    options.cf.compression = CompressionType::None;
    options.cf.table.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table.no_block_cache = false;
    options.cf.table.block_size = 200;
    let db = Db::open(&options, "/db").unwrap();
    db.put("before", "value").unwrap();
    // Each operand is kept for a snapshot; the newest one shares the block of "before".
    let operands = [180, 180, 50].map(|length| {
        db.merge("key", vec![b'x'; length]).unwrap();
        db.snapshot()
    });
    db.flush().unwrap();
    drop((operands, db));
    for batched in [false, true] {
        options.cf.table.block_cache =
            Some(Arc::new(Cache::new(&CacheOptions::with_capacity(1 << 20)).unwrap()));
        let db = Db::open(&options, "/db").unwrap();
        db.get("before").unwrap();
        statistics.reset();
        let value = if batched { db.multi_get(&["key", "none"]).remove(0) } else { db.get_pinned("key") };
        assert_eq!(value.unwrap().unwrap().len(), 412);
        assert_eq!(statistics.ticker_count(Ticker::BloomFilterFullPositive), 1);
        assert_eq!(statistics.ticker_count(Ticker::BloomFilterFullTruePositive), 1, "batched {batched}");
    }
}

#[test]
fn reads_of_batches_are_counted_by_level() {
    let (mut options, statistics) = counting();
    options.cf.disable_auto_compactions = true;
    options.cf.table.no_block_cache = false;
    // A clock cache may evict a block below its capacity.
    let cache = Cache::lru(&CacheOptions::with_capacity(8 << 20)).unwrap();
    options.cf.table.block_cache = Some(Arc::new(cache));
    options.cf.table.cache_index_and_filter_blocks = true;
    options.cf.table.index_type = IndexType::TwoLevel;
    options.cf.table.metadata_block_size = 64;
    options.cf.table.block_size = 512;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    compact(&db);
    for start in [0, 1] {
        (start..500).step_by(3).for_each(|i| db.put(format!("key{i:04}"), "newer").unwrap());
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    statistics.reset();
    let keys: Vec<String> = (0..500).step_by(17).map(|i| format!("key{i:04}")).collect();
    assert!(db.multi_get(&keys).iter().all(|value| matches!(value, Ok(Some(_)))));
    let data = |histogram| statistics.histogram_data(histogram);
    let levels = data(Histogram::NumLevelReadPerMultiget);
    assert_eq!((levels.count, levels.sum), (1, 3), "each table of level 0 counts as a level");
    let tables = data(Histogram::NumSstReadPerLevel);
    assert_eq!((tables.count, tables.sum), (3, 3));
    let metadata = data(Histogram::NumIndexAndFilterBlocksReadPerLevel);
    assert!(metadata.count > 0 && metadata.sum >= 3, "{} blocks", metadata.sum);
    let batch = data(Histogram::SstBatchSize);
    assert!((1.0..=30.0).contains(&batch.max), "{}", batch.max);

    statistics.reset();
    assert!(db.multi_get(&keys).iter().all(|value| matches!(value, Ok(Some(_)))));
    assert_eq!(data(Histogram::NumLevelReadPerMultiget).count, 0, "all blocks are cached");
    assert!((29.0..=30.0).contains(&data(Histogram::SstBatchSize).max));
}

#[test]
fn tables_that_are_newer_than_a_read_are_left_out() {
    let (mut options, statistics) = counting();
    options.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for ts in [10u64, 20] {
        let write = WriteOptions::default();
        db.put_with_ts(&write, &family, "key", &ts.to_le_bytes(), ts.to_string()).unwrap();
        db.flush().unwrap();
    }
    let counts = || {
        [Ticker::TimestampFilterTableChecked, Ticker::TimestampFilterTableFiltered]
            .map(|ticker| statistics.take_ticker_count(ticker))
    };
    counts();
    let read = |ts: u64| ReadOptions::default().timestamp(ts.to_le_bytes().to_vec());
    assert_eq!(db.get_opt(&read(15), &family, "key").unwrap().unwrap(), *b"10");
    assert_eq!(counts(), [2, 1]);
    assert!(db.get_opt(&read(5), &family, "key").unwrap().is_none());
    assert_eq!(counts(), [2, 2]);
    let mut iter = db.iter_opt(read(15), &family).unwrap();
    iter.seek_to_first();
    assert_eq!(iter.value(), b"10");
    assert_eq!(counts(), [2, 1]);
    iter.next();
    assert!(!iter.valid());
    assert_eq!(db.get_opt(&read(20), &family, "key").unwrap().unwrap(), *b"20");
    assert_eq!(counts()[1], 0);
}

#[test]
fn operations_of_prepared_transactions_are_counted() {
    let (options, statistics) = counting();
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), "/db").unwrap();
    let transaction = db.begin_transaction();
    transaction.set_name(b"one").unwrap();
    ["a", "b", "c"].iter().for_each(|key| transaction.put(key, "value").unwrap());
    transaction.prepare().unwrap();
    transaction.commit().unwrap();
    let operations = statistics.histogram_data(Histogram::NumOpPerTransaction);
    assert_eq!((operations.count, operations.sum), (1, 3));
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
