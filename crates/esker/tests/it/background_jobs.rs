//! Background jobs that run concurrently.

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::cache::{Cache, CacheOptions};
use esker::internals::env::mem::MemFs;
use esker::internals::env::{IoPriority, RateLimiter, RateLimiterMode};
use esker::observe::{CompactionJobInfo, EventListener, FlushJobInfo};
use esker::options::{CompactRangeOptions, CompressionType, IndexType, WriteBufferManager};
use esker::{Db, Env, ErrorKind, FlushOptions, Options, SstFileWriter};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options
}

fn files(db: &Db, level: usize) -> usize {
    db.live_files().iter().filter(|file| file.level == level).count()
}

/// Holds the first compaction until a second one has begun.
#[derive(Default)]
struct InPairs {
    is_armed: AtomicBool,
    begun: AtomicUsize,
}

impl EventListener for InPairs {
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        if self.is_armed.load(Ordering::SeqCst) && self.begun.fetch_add(1, Ordering::SeqCst) == 0 {
            while self.begun.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn compactions_of_one_family_run_side_by_side() {
    let pairs = Arc::new(InPairs::default());
    let mut options = options();
    options.db.listeners = vec![pairs.clone()];
    options.db.max_background_jobs = 4;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.compression = CompressionType::None;
    options.cf.target_file_size_base = 2 << 10;
    options.cf.max_bytes_for_level_base = 2 << 10;
    options.cf.max_compaction_bytes = 4 << 10;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    for i in 0..500 {
        db.put(format!("key{i:04}"), "value0").unwrap();
    }
    let to_level2 =
        CompactRangeOptions { change_level: true, target_level: 2, ..CompactRangeOptions::default() };
    db.compact_range_opt(&to_level2, &family, None, None).unwrap();
    let tables: Vec<_> = (0..8).map(|n| format!("/db/{n}.made")).collect();
    for (n, path) in tables.iter().enumerate() {
        let mut table = SstFileWriter::new(&options);
        table.open(path).unwrap();
        for i in 0..30 {
            table.put(format!("key{:04}", n * 60 + i), "value1").unwrap();
        }
        table.finish().unwrap();
    }
    db.ingest_external_file(&tables).unwrap();
    assert_eq!((files(&db, 1), files(&db, 2) > 4), (8, true));
    pairs.is_armed.store(true, Ordering::SeqCst);
    db.set_options(&family, &[("disable_auto_compactions", "false")]).unwrap();
    db.wait_for_background_work().unwrap();
    assert!(pairs.begun.load(Ordering::SeqCst) > 1);
    assert_eq!(db.get("key0000").unwrap().as_deref(), Some(&b"value1"[..]));
}

/// Holds the first flush until the job of a second one has ended.
#[derive(Default)]
struct Outlast {
    db: OnceLock<Weak<Db>>,
    begun: AtomicBool,
    may_go_on: AtomicBool,
}

impl EventListener for Outlast {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        if !self.begun.swap(true, Ordering::SeqCst) {
            let db = self.db.get().and_then(Weak::upgrade).unwrap();
            let running = || db.int_property("rocksdb.num-running-flushes").unwrap();
            while !self.may_go_on.load(Ordering::SeqCst) || running() > 1 {
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn a_flush_that_is_asked_for_during_another_one_comes_after_it() {
    let outlast = Arc::new(Outlast::default());
    let mut options = options();
    options.db.listeners = vec![outlast.clone()];
    options.db.max_background_flushes = 2;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.max_write_buffer_number = 6;
    options.cf.min_write_buffer_number_to_merge = 2;
    let db = Arc::new(Db::open(&options, "/db").unwrap());
    assert!(outlast.db.set(Arc::downgrade(&db)).is_ok());
    let mut written = 0;
    while !outlast.begun.load(Ordering::SeqCst) {
        // Waits for the flush to begin, which takes two memtables.
        let waiting = db.int_property("rocksdb.num-immutable-mem-table").unwrap();
        if waiting < 2 {
            db.put(format!("key{written}"), [0; 1000]).unwrap();
            written += 1;
        }
    }
    db.put("asked for", "").unwrap();
    // There is one memtable: too few for an automatic flush.
    db.flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }, &[&db.default_column_family()])
        .unwrap();
    outlast.may_go_on.store(true, Ordering::SeqCst);
    db.wait_for_background_work().unwrap();
    assert_eq!(db.int_property("rocksdb.num-immutable-mem-table"), Some(0));
    assert_eq!(files(&db, 0), 2);
}

/// No flush would begin automatically: each family waits for a second memtable, and writers wait
/// for memory.
#[test]
#[expect(clippy::disallowed_methods, reason = "a writer who waits for ever is left behind")]
fn writers_that_wait_for_memory_cause_flushes_of_memtables_that_wait_for_more() {
    let mut options = options();
    options.db.write_buffer_manager = Some(Arc::new(WriteBufferManager::new(1 << 20, true)));
    options.cf.write_buffer_size = 640 << 10;
    options.cf.min_write_buffer_number_to_merge = 2;
    options.cf.max_write_buffer_number = 4;
    let db = Db::open(&options, "/db").unwrap();
    let (done, wait_done) = std::sync::mpsc::channel();
    let writer = db.clone();
    std::thread::spawn(move || {
        (0..3000).for_each(|i| writer.put(format!("key{i}"), [7; 1000]).unwrap());
        done.send(()).unwrap();
    });
    wait_done.recv_timeout(std::time::Duration::from_secs(60)).expect("writers go on");
    assert!((0..3000).all(|i| db.get(format!("key{i}")).unwrap().is_some()));
}

/// A filter that has the family dropped after ten keys.
struct Dropping {
    asked: AtomicUsize,
    ten: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

impl CompactionFilter for Dropping {
    fn name(&self) -> &str {
        "dropping"
    }
    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 9 {
            self.ten.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
        FilterDecision::Keep
    }
}

#[test]
fn the_compaction_of_a_family_that_is_dropped_ends_there() {
    let ((ten, wait_for_ten), (go_on, wait_for_go_on)) = (channel(), channel());
    let filter = Arc::new(Dropping { asked: AtomicUsize::new(0), ten, go_on: Mutex::new(wait_for_go_on) });
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    options.cf.compaction_filter = Some(filter.clone());
    let family = db.create_column_family("short-lived", &options.cf).unwrap();
    for n in 0..1000 {
        db.put_cf(&family, format!("key{n:04}"), "value").unwrap();
    }
    std::thread::scope(|scope| {
        let compaction =
            scope.spawn(|| db.compact_range_opt(&CompactRangeOptions::default(), &family, None, None));
        wait_for_ten.recv().unwrap();
        db.drop_column_family(&family).unwrap();
        go_on.send(()).unwrap();
        assert_eq!(compaction.join().unwrap().unwrap_err().kind(), ErrorKind::ColumnFamilyDropped);
    });
    assert!(filter.asked.load(Ordering::SeqCst) < 20, "{:?}", filter.asked);
    assert!(db.background_error().is_none());
    db.put("a", "b").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
}

/// A rate limiter for reads grants bytes before a compaction reads its inputs.
#[test]
fn compactions_read_at_the_pace_of_a_limiter_for_reads() {
    for mode in [RateLimiterMode::ReadsOnly, RateLimiterMode::AllIo, RateLimiterMode::WritesOnly] {
        for readahead in [0, 2 << 20] {
            let limiter = Arc::new(RateLimiter::new(1 << 40, 100_000, 10, mode));
            let mut options = options();
            options.db.rate_limiter = Some(limiter.clone());
            options.db.compaction_readahead_size = readahead;
            options.cf.compression = CompressionType::None;
            let db = Db::open(&options, "/db").unwrap();
            for round in 0..2 {
                for n in 0..1000 {
                    db.put(format!("{n:04}"), [round; 100]).unwrap();
                }
                db.flush().unwrap();
            }
            let bytes = || -> u64 { db.live_files().iter().map(|file| file.file.size).sum() };
            let inputs = bytes();
            let before = limiter.total_bytes_through(Some(IoPriority::Low));
            db.compact_range(None, None).unwrap();
            let low = limiter.total_bytes_through(Some(IoPriority::Low)) - before;
            let (read, written) = match mode {
                RateLimiterMode::ReadsOnly => (inputs, 0),
                RateLimiterMode::WritesOnly => (0, bytes()),
                RateLimiterMode::AllIo => (inputs, bytes()),
            };
            // The tables are open already, so only data blocks count.
            let least = (read + written) * 9 / 10;
            assert!(
                (least..=read * 5 / 4 + written).contains(&low),
                "{mode:?} {readahead}: {low} of {read} + {written}"
            );
            db.close().unwrap();
        }
    }
}

/// The limiter also grants bytes before a compaction opens a table and reads the partitions of its
/// index.
#[test]
fn compactions_open_tables_and_read_indexes_at_the_pace_of_a_limiter_for_reads() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let limiter = Arc::new(RateLimiter::new(1 << 40, 100_000, 10, RateLimiterMode::ReadsOnly));
        let mut options = options();
        options.db.rate_limiter = Some(limiter.clone());
        options.db.max_open_files = 20;
        options.db.compaction_readahead_size = 0;
        options.cf.compression = CompressionType::None;
        // Each block is read alone.
        options.cf.table.max_auto_readahead_size = 0;
        options.cf.table.index_type = index_type;
        options.cf.table.cache_index_and_filter_blocks = true;
        options.cf.table.block_cache = Some(Arc::new(Cache::new(&CacheOptions::with_capacity(0)).unwrap()));
        options.cf.table.block_size = 256;
        let db = Db::open(&options, "/db").unwrap();
        for round in 0..2 {
            for n in 0..2000 {
                db.put(format!("{n:08}"), [round; 100]).unwrap();
            }
            db.flush().unwrap();
        }
        let sums = db.map_property("rocksdb.aggregated-table-properties").unwrap();
        let [data, index]: [u64; 2] = ["data_size", "index_size"].map(|name| sums[name].parse().unwrap());
        let files = db.live_files().iter().map(|file| file.file.size).sum::<u64>();
        assert!(index > data / 20, "{index} of {data}");
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, "/db").unwrap();
        let before = limiter.total_bytes_through(Some(IoPriority::Low));
        db.compact_range(None, None).unwrap();
        let read = limiter.total_bytes_through(Some(IoPriority::Low)) - before;
        // All bytes of the files, including the index, and the index a second time, as it is not
        // cached.
        let wanted = files + index * 9 / 10..files + index * 3 / 2;
        assert!(wanted.contains(&read), "{index_type:?}: {read}, not {wanted:?}: {data}, {index}, {files}");
        db.close().unwrap();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a thread that waits for ever is left behind")]
fn no_call_waits_for_compactions_of_a_read_only_database() {
    let mut options = options();
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..8 {
        db.put("key", format!("{round}")).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    options.cf.disable_auto_compactions = false;
    let db = Db::open_for_read_only(&options, "/db").unwrap();
    let (done, wait_done) = channel();
    let waits = db.clone();
    std::thread::spawn(move || done.send(waits.wait_for_background_work()).unwrap());
    wait_done.recv_timeout(std::time::Duration::from_secs(120)).expect("nothing is done").unwrap();
    db.close().unwrap();
}
