//! Events, tickers and properties agree with the work done.

use esker::internals::base::logger::{InfoLog, InfoLogLevel};
use esker::internals::env::MockClock;
use esker::internals::env::mem::MemFs;
use esker::observe::{
    CompactionJobInfo, EventListener, FlushJobInfo, TableFileCreationBriefInfo, TableFileCreationInfo,
    TableFileDeletionInfo,
};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, CompressionType, Statistics};
use esker::stats::{Histogram, Ticker};
use esker::{Db, Env, Options, SstFileWriter, WriteOptions};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Heard {
    flushes_begun: Vec<u64>,
    flushes_ended: Vec<(u64, PathBuf)>,
    compactions_begun: Vec<u64>,
    compactions_ended: Vec<(u64, Vec<PathBuf>)>,
    tables_begun: BTreeSet<PathBuf>,
    tables_made: BTreeSet<PathBuf>,
    tables_deleted: BTreeSet<PathBuf>,
    sealed: u64,
}

#[derive(Default)]
struct Recorder(Mutex<Heard>);

impl EventListener for Recorder {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        self.0.lock().unwrap().flushes_begun.push(info.job_id);
    }
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.0.lock().unwrap().flushes_ended.push((info.job_id, info.file_path.clone()));
    }
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.0.lock().unwrap().compactions_begun.push(info.job_id);
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        info.status.as_ref().unwrap();
        self.0.lock().unwrap().compactions_ended.push((info.job_id, info.output_files.clone()));
    }
    fn on_table_file_creation_started(&self, info: &TableFileCreationBriefInfo) {
        assert!(
            self.0.lock().unwrap().tables_begun.insert(info.file_path.clone()),
            "the table was begun twice"
        );
    }
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        info.status.as_ref().unwrap();
        self.0.lock().unwrap().tables_made.insert(info.brief.file_path.clone());
    }
    fn on_table_file_deleted(&self, info: &TableFileDeletionInfo) {
        info.status.as_ref().unwrap();
        assert!(
            self.0.lock().unwrap().tables_deleted.insert(info.file_path.clone()),
            "the table was deleted twice"
        );
    }
    fn on_memtable_sealed(&self, _info: &esker::observe::MemTableInfo) {
        self.0.lock().unwrap().sealed += 1;
    }
}

#[test]
fn events_pair_up_and_tickers_add_up() {
    let (recorder, statistics) = (Arc::new(Recorder::default()), Arc::new(Statistics::new()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.listeners = vec![recorder.clone()];
    options.db.statistics = Some(statistics.clone());
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..6 {
        for i in 0..300 {
            db.put(format!("key{i:04}"), format!("value{round}")).unwrap();
        }
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    for i in 0..400 {
        assert_eq!(db.get(format!("key{i:04}")).unwrap().is_some(), i < 300);
    }
    db.wait_for_background_work().unwrap();
    let alive: BTreeSet<PathBuf> =
        db.live_files().iter().map(|f| f.file.directory.join(&f.file.relative_filename)).collect();

    assert_eq!(statistics.ticker_count(Ticker::NumberKeysWritten), 1800);
    assert_eq!(statistics.ticker_count(Ticker::NumberKeysRead), 400);
    assert_eq!(statistics.ticker_count(Ticker::BytesRead), 300 * 6);
    assert!(statistics.ticker_count(Ticker::FlushWriteBytes) > 0);
    assert!(statistics.ticker_count(Ticker::CompactReadBytes) > 0);
    let text = db.property("rocksdb.options-statistics").unwrap();
    assert!(text.contains("rocksdb.number.keys.written COUNT : 1800"), "{text}");

    let sums = db.map_property("rocksdb.aggregated-table-properties").unwrap();
    assert_eq!(sums["num_entries"], "300");
    assert!(!db.map_property("rocksdb.cfstats").unwrap().is_empty());
    assert!(!db.map_property("rocksdb.dbstats").unwrap().is_empty());
    assert_eq!(db.map_property("rocksdb.levelstats").unwrap()["L0.num_files"], "0");
    // `cargo xtask long caches` runs this test on other caches.
    if std::env::var_os("ESKER_TEST_BLOCK_CACHE").is_none() {
        assert_eq!(db.int_property("rocksdb.block-cache-capacity"), Some(32 << 20));
    }
    assert!(db.int_property("rocksdb.block-cache-usage").unwrap() > 0);
    db.close().unwrap();

    let heard = recorder.0.lock().unwrap();
    assert_eq!((heard.sealed, heard.flushes_begun.len()), (6, 6));
    assert_eq!(heard.flushes_begun, heard.flushes_ended.iter().map(|(job, _)| *job).collect::<Vec<_>>());
    let ended: BTreeSet<u64> = heard.compactions_ended.iter().map(|(job, _)| *job).collect();
    assert_eq!(heard.compactions_begun.iter().copied().collect::<BTreeSet<_>>(), ended);
    assert!(!ended.is_empty());
    let of_flushes = heard.flushes_ended.iter().map(|(_, path)| path.clone());
    let of_compactions = heard.compactions_ended.iter().flat_map(|(_, paths)| paths.clone());
    let made: BTreeSet<PathBuf> = of_flushes.chain(of_compactions).collect();
    assert_eq!(heard.tables_begun, heard.tables_made);
    assert_eq!(heard.tables_made, made, "every table belongs to a job");
    assert!(heard.tables_deleted.is_subset(&made));
    assert!(alive.is_subset(&made) && alive.is_disjoint(&heard.tables_deleted));
}

/// An info log that sends every line to the test.
struct Lines(Mutex<Sender<String>>);

impl InfoLog for Lines {
    fn log(&self, _level: InfoLogLevel, args: std::fmt::Arguments<'_>) {
        // The receiver may be gone: a test that has seen enough drops it.
        self.0.lock().unwrap().send(args.to_string()).unwrap_or_default();
    }
    fn level(&self) -> InfoLogLevel {
        InfoLogLevel::Warn
    }
}

fn next_dump(clock: &MockClock, env: &Env, lines: &Receiver<String>) -> String {
    clock.advance(Duration::from_secs(30));
    env.timer.read_clock_again();
    loop {
        let line = lines.recv_timeout(Duration::from_secs(600)).expect("a dump comes");
        if line.contains("** DB Stats **") {
            return line;
        }
    }
}

#[test]
fn statistics_are_dumped_into_the_log_at_intervals() {
    let (tell, lines) = channel();
    let clock = Arc::new(MockClock::new(0));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::new(Arc::new(MemFs::new()), clock.clone());
    options.db.info_log = Some(Arc::new(Lines(Mutex::new(tell))));
    options.db.stats_dump_period_sec = 0;
    let env = options.db.env.clone();
    let db = Db::open(&options, "/db").unwrap();
    db.set_db_options(&[("stats_dump_period_sec", "30")]).unwrap();
    for i in 0..1000 {
        db.put(format!("key{i:04}"), "value").unwrap();
    }
    db.flush().unwrap();

    let dump = next_dump(&clock, &env, &lines);
    assert!(dump.contains("Cumulative writes: 1000 writes, 1000 keys, 1000 commit groups"), "{dump}");
    assert!(dump.contains("Cumulative WAL: 1000 writes, 0 syncs"), "{dump}");
    assert!(dump.contains("Interval writes: 1000 writes"), "{dump}");
    assert!(dump.contains("** Compaction Stats [default] **") && dump.contains("\n  L0      1/0"), "{dump}");
    assert!(dump.contains("Uptime(secs): 30.0 total, 30.0 interval"), "{dump}");

    db.put("one", "more").unwrap();
    let asked = db.property("rocksdb.stats").unwrap();
    assert!(asked.contains("Interval writes: 1 writes"), "the interval begins at the dump: {asked}");
    let map = db.map_property("rocksdb.dbstats").unwrap();
    assert_eq!((&map["db.user_keys_written"][..], &map["db.user_writes_with_wal"][..]), ("1001", "1001"));

    db.close().unwrap();
    clock.advance(Duration::from_secs(30));
    env.timer.read_clock_again();
    drop((db, options));
    assert!(!lines.iter().any(|line| line.contains("DB Stats")), "a closed database logs no further line");
}

#[test]
fn calls_and_jobs_are_timed_and_what_they_do_is_counted() {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.compression = CompressionType::Lz4;
    options.cf.merge_operator = Some(esker::builtin::string_append(","));
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let sync = WriteOptions::default().sync(true);
    for round in 0..2 {
        (0..200).for_each(|i| db.put(format!("key{i:03}"), format!("{round} ").repeat(100)).unwrap());
        db.put_opt(&sync, &family, "key000", "synced").unwrap();
        db.merge("key001", "operand").unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    db.merge("key001", "operand").unwrap();
    assert!(db.get("key001").unwrap().is_some());
    let values = db.multi_get(&["key002", "key003", "none"]);
    let bytes: usize = values.into_iter().filter_map(|value| value.unwrap()).map(|value| value.len()).sum();
    let mut iter = db.iter().unwrap();
    iter.seek("key1");
    iter.seek_for_prev("key1");
    iter.seek_to_first();
    iter.seek_to_last();
    let count = |histogram| statistics.histogram_data(histogram).count;
    assert_eq!(count(Histogram::DbWrite), 2 * 202 + 1);
    assert_eq!(count(Histogram::DbGet), 1);
    assert_eq!(count(Histogram::DbMultiget), 1);
    assert_eq!(statistics.histogram_data(Histogram::BytesPerMultiget).sum, bytes as u64);
    assert_eq!(count(Histogram::DbSeek), 4);
    assert_eq!(count(Histogram::WalFileSyncMicros), 2);
    assert_eq!(count(Histogram::TableSyncMicros), 2);
    assert!(count(Histogram::CompactionOutfileSyncMicros) > 0);
    assert_eq!(statistics.histogram_data(Histogram::ReadNumMergeOperands).sum, 1);
    assert!(statistics.histogram_data(Histogram::NumFilesInSingleCompaction).max >= 2.0);
    let ticks = |ticker| statistics.ticker_count(ticker);
    assert_eq!((ticks(Ticker::NoIteratorCreated), ticks(Ticker::NoIteratorDeleted)), (1, 0));
    drop(iter);
    assert_eq!(ticks(Ticker::NoIteratorDeleted), 1);
    assert!(ticks(Ticker::NumberBlockCompressed) > 0);
    assert!(ticks(Ticker::BytesCompressedTo) < ticks(Ticker::BytesCompressedFrom));
    assert!(ticks(Ticker::BytesDecompressedFrom) < ticks(Ticker::BytesDecompressedTo));
    assert!(ticks(Ticker::BlockChecksumComputeCount) >= ticks(Ticker::NumberBlockDecompressed));
    assert_eq!(ticks(Ticker::BlockChecksumMismatchCount), 0);
}

#[test]
fn bytes_of_blob_files_and_ingested_files_are_in_the_statistics() {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 100;
    options.cf.enable_blob_garbage_collection = true;
    options.cf.blob_garbage_collection_age_cutoff = 1.0;
    let db = Db::open(&options, "/db").unwrap();
    const BYTES: u64 = 4 << 20;
    let value = vec![b'x'; (BYTES / 10) as usize];
    (0..10).for_each(|n| db.put(format!("key{n}"), &value).unwrap());
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert!(statistics.ticker_count(Ticker::FlushWriteBytes) > BYTES);
    let text = db.property("rocksdb.cfstats").unwrap();
    let gigabytes = |name: &str| db.map_property("rocksdb.cfstats").unwrap()[name].parse::<f64>().unwrap();
    assert!(text.contains("\nBlob file count: 1, total size: 0.0 GB"), "{text}");
    let flushed = BYTES as f64 / (1u64 << 30) as f64;
    let is_flushed = |gigabytes: f64| (flushed * 0.99..flushed * 1.1).contains(&gigabytes);
    assert!(is_flushed(gigabytes("compaction.L0.WblobGB")));
    assert!(gigabytes("compaction.L0.WriteGB") < flushed / 10.0);
    assert!((1.0..1.1).contains(&gigabytes("compaction.L0.WriteAmp")));

    let mut writer = SstFileWriter::new(&options);
    writer.open("/outside.sst").unwrap();
    writer.put("y", "1").unwrap();
    writer.put("z", "1").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&["/outside.sst"]).unwrap();
    let text = db.property("rocksdb.cfstats").unwrap();
    for line in [
        "AddFile(Total Files): cumulative 1,",
        "AddFile(L0 Files): cumulative 0,",
        "AddFile(Keys): cumulative 2,",
    ] {
        assert!(text.contains(line), "{line} {text}");
    }

    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&force, &db.default_column_family(), None, None).unwrap();
    db.wait_for_background_work().unwrap();
    assert!(statistics.ticker_count(Ticker::CompactWriteBytes) > BYTES);
    assert!(statistics.ticker_count(Ticker::CompactReadBytes) > BYTES);
    assert!(is_flushed(gigabytes("compaction.L6.WblobGB")));
    assert!(is_flushed(gigabytes("compaction.L6.RblobGB")));
    db.close().unwrap();
}

#[test]
fn the_estimate_of_a_memtable_begins_with_the_first_key_of_a_range() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, [7; 1000]).unwrap();
    }
    let size = |begin: &str, end: &str| {
        db.approximate_memtable_size(&db.default_column_family(), begin.as_bytes(), end.as_bytes())
    };
    assert_eq!(
        [size("a", "b"), size("c", "d"), size("a", "d"), size("b", "b")].map(|n| n / 1000),
        [1, 1, 3, 0]
    );
}
