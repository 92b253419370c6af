//! Bytes and times of a thread's file operations (`IoStatsContext`), and times of `PerfContext`.

use esker::internals::env::MemFs;
use esker::iostats_context::IoStatsContext;
use esker::observe::{CompactionJobInfo, EventListener, FlushJobInfo};
use esker::options::{BottommostLevelCompaction, CompressionType, Temperature};
use esker::perf_context::{PerfContext, PerfLevel, set_perf_level};
use esker::stats::Statistics;
use esker::{CompactRangeOptions, Db, Env, Options, WriteOptions};
use std::sync::{Arc, Mutex};

fn options(env: &Env) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = env.clone();
    options.cf.compression = CompressionType::Lz4;
    options
}

fn begin(level: PerfLevel) {
    set_perf_level(level);
    IoStatsContext::reset();
    PerfContext::reset();
}

#[test]
fn bytes_are_counted_at_every_level_and_times_are_not() {
    let env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options(&env), "/db").unwrap();
    begin(PerfLevel::Disable);
    db.put("key", vec![7; 5000]).unwrap();
    let io = IoStatsContext::current();
    assert!((5000..5200).contains(&io.bytes_written), "{io}");
    assert_eq!(io.bytes_read, 0);
    db.flush().unwrap();
    drop(db);
    let db = Db::open(&options(&env), "/db").unwrap();
    IoStatsContext::reset();
    db.get("key").unwrap().unwrap();
    let io = IoStatsContext::current();
    assert!(io.bytes_read > 0, "the block of the key: {io}");
    let bytes = io.bytes_read;
    db.get("key").unwrap().unwrap();
    assert_eq!(IoStatsContext::current().bytes_read, bytes, "the block is cached");
    let times = ["read_nanos", "write_nanos", "open_nanos", "fsync_nanos", "cpu_read_nanos"];
    assert!(io.iter().filter(|(name, _)| times.contains(name)).all(|(_, nanos)| nanos == 0), "{io}");
    assert_eq!(PerfContext::current(), PerfContext::default());
}

#[test]
fn times_are_counted_from_their_levels_on() {
    let dir = esker_testkit::TempDir::new("io-stats");
    begin(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
    let db = Db::open(&options(&Env::default()), dir.path()).unwrap();
    let opened = PerfContext::current();
    assert!(opened.env_new_writable_file_nanos > 0 && opened.env_rename_file_nanos > 0, "{opened}");
    let io = IoStatsContext::current();
    assert!(io.open_nanos > 0 && io.fsync_nanos > 0 && io.write_nanos > 0, "{io}");

    begin(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
    for i in 0..100 {
        db.put(format!("key{i}"), "value".repeat(100)).unwrap();
    }
    db.put_opt(&WriteOptions::new().sync(true), &db.default_column_family(), "key", "value").unwrap();
    let (io, perf) = (IoStatsContext::current(), PerfContext::current());
    assert!(io.write_nanos > 0 && io.fsync_nanos > 0, "{io}");
    assert!(perf.write_wal_time > io.fsync_nanos && perf.write_memtable_time > 0, "{perf}");
    assert!(perf.write_thread_wait_nanos > 0 && perf.write_delay_time == 0, "{perf}");
    assert!(perf.write_scheduling_flushes_compactions_time > 0, "{perf}");
    db.flush().unwrap();
    drop(db);

    let db = Db::open(&options(&Env::default()), dir.path()).unwrap();
    begin(PerfLevel::EnableTimeAndCpuTimeExceptForMutex);
    db.get("key1").unwrap().unwrap();
    let (io, perf) = (IoStatsContext::current(), PerfContext::current());
    assert!(io.read_nanos > 0 && io.bytes_read > 0, "{io}");
    assert!(perf.block_read_time >= io.read_nanos, "{perf} {io}");
    assert!(perf.block_checksum_time > 0 && perf.block_decompress_time > 0, "{perf}");

    begin(PerfLevel::EnableCount);
    db.put("key", "value").unwrap();
    assert_eq!(PerfContext::current(), PerfContext::default());
    set_perf_level(PerfLevel::default());
}

#[test]
fn reads_are_counted_by_the_temperature_of_their_file() {
    let env = Env::with_fs(Arc::new(MemFs::new()));
    let mut options = options(&env);
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.last_level_temperature = Temperature::Cold;
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    begin(PerfLevel::EnableCount);
    db.get("key").unwrap().unwrap();
    let io = IoStatsContext::current();
    assert_eq!((io.unknown_non_last_level_read_count, io.cold_file_read_count), (1, 0), "{io}");
    assert_eq!(io.unknown_non_last_level_bytes_read, io.bytes_read);
    let all = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&all, &db.default_column_family(), None, None).unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    IoStatsContext::reset();
    db.get("key").unwrap().unwrap();
    let io = IoStatsContext::current();
    assert_eq!((io.cold_file_read_count, io.unknown_last_level_read_count), (1, 0), "{io}");
    assert_eq!(io.cold_file_bytes_read, io.bytes_read);
}

/// The times of the last compaction: of writes, syncs, and syncs of ranges.
#[derive(Default)]
struct Times(Mutex<(u64, u64, u64)>);

impl EventListener for Times {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        let stats = &info.stats;
        *self.0.lock().unwrap() =
            (stats.file_write_nanos, stats.file_fsync_nanos, stats.file_range_sync_nanos);
    }
}

#[test]
fn writes_and_syncs_of_compactions_are_timed_on_request() {
    for report_bg_io_stats in [false, true] {
        let times = Arc::new(Times::default());
        let mut options = options(&Env::with_fs(Arc::new(MemFs::new())));
        options.db.listeners = vec![times.clone()];
        options.cf.report_bg_io_stats = report_bg_io_stats;
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, "/db").unwrap();
        for _ in 0..2 {
            db.put("key", "value").unwrap();
            db.flush().unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        let (write, fsync, range_sync) = *times.0.lock().unwrap();
        let text = format!("{write} {fsync} {range_sync}");
        assert_eq!((write > 0, fsync > 0), (report_bg_io_stats, report_bg_io_stats), "{text}");
        assert_eq!(range_sync, 0, "without bytes_per_sync");
    }
}

/// The pools of the threads that called.
#[derive(Default)]
struct Pools(Mutex<Vec<(&'static str, u64)>>);

impl EventListener for Pools {
    fn on_flush_completed(&self, _info: &FlushJobInfo) {
        self.0.lock().unwrap().push(("flush", IoStatsContext::thread_pool_id()));
    }
    fn on_compaction_completed(&self, _info: &CompactionJobInfo) {
        self.0.lock().unwrap().push(("compaction", IoStatsContext::thread_pool_id()));
    }
}

#[test]
fn threads_know_their_pool_and_bytes_can_go_uncounted() {
    let pools = Arc::new(Pools::default());
    let mut options = options(&Env::with_fs(Arc::new(MemFs::new())));
    options.db.listeners = vec![pools.clone()];
    options.cf.level0_file_num_compaction_trigger = 2;
    let db = Db::open(&options, "/db").unwrap();
    for _ in 0..2 {
        db.put("key", "value").unwrap();
        db.flush().unwrap();
    }
    db.wait_for_background_work().unwrap();
    let pools = pools.0.lock().unwrap().clone();
    assert!(pools.contains(&("flush", 2)) && pools.contains(&("compaction", 1)), "{pools:?}");
    assert_eq!(IoStatsContext::thread_pool_id(), 4, "a thread of no pool");
    let written = |disable: bool| {
        IoStatsContext::reset();
        let former = IoStatsContext::disable_iostats(disable);
        db.put("key", "value").unwrap();
        IoStatsContext::disable_iostats(former);
        IoStatsContext::current().bytes_written
    };
    assert_eq!(written(true), 0);
    assert!(written(false) > 0);
}
