//! Tickers and histograms of flushes and compactions: each moves by the work that it counts.

use esker::internals::env::mem::MemFs;
use esker::stats::{Histogram, Statistics, Ticker};
use esker::{CompactionOptions, Db, Env, Options};
use std::sync::Arc;

fn options() -> (Options, Arc<Statistics>) {
    let statistics = Arc::new(Statistics::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(statistics.clone());
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    (options, statistics)
}

#[test]
fn memory_of_flushed_memtables_is_counted_by_reason() {
    let (mut options, statistics) = options();
    options.cf.write_buffer_size = 64 << 10;
    let db = Db::open(&options, "/db").unwrap();
    let count = |histogram| statistics.histogram_data(histogram).count;
    let full = Histogram::FlushWriteBufferFullMemtableMemoryBytes;
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(count(Histogram::FlushMemtableMemoryBytes), 1);
    assert_eq!(count(Histogram::FlushMemtableTotalDataSize), 1);
    assert!(statistics.histogram_data(Histogram::FlushMemtableTotalDataSize).max >= 8.0);
    assert_eq!(count(full), 0);
    while count(full) == 0 {
        db.put("key", vec![0; 4000]).unwrap();
    }
    drop(db);

    let (mut options, statistics) = self::options();
    options.db.db_write_buffer_size = 256 << 10;
    let db = Db::open(&options, "/db").unwrap();
    let managed = Histogram::FlushWriteBufferManagerMemtableMemoryBytes;
    while statistics.histogram_data(managed).count == 0 {
        db.put("key", vec![0; 4000]).unwrap();
    }
}

#[test]
fn requests_of_atomic_flushes_are_counted_by_reason() {
    let (mut options, statistics) = options();
    options.db.atomic_flush = true;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.memtable_max_range_deletions = 1;
    let db = Db::open(&options, "/db").unwrap();
    let counts = || {
        [
            Ticker::AtomicFlushRequestReasonOther,
            Ticker::AtomicFlushRequestReasonWriteBufferFull,
            Ticker::AtomicFlushRequestReasonMemtableMaxRangeDeletions,
        ]
        .map(|ticker| statistics.ticker_count(ticker))
    };
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(counts(), [1, 0, 0]);
    while counts()[1] == 0 {
        db.put("key", vec![0; 4000]).unwrap();
    }
    while counts()[2] == 0 {
        db.delete_range("a", "b").unwrap();
    }
    assert_eq!(counts()[0], 1);
}

/// The compaction is not the bottommost one, but nothing below has the deleted key.
#[test]
fn deletions_that_nothing_needs_are_counted() {
    let (options, statistics) = options();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    let move_to = |level| {
        let files: Vec<_> =
            db.live_files().iter().filter(|file| file.level == 0).map(|file| file.file_number).collect();
        db.compact_files(&CompactionOptions::default(), &family, &files, level).unwrap();
    };
    for key in ["a", "c"] {
        db.put(key, "value").unwrap();
    }
    db.flush().unwrap();
    move_to(6);
    db.put("b", "value").unwrap();
    db.delete("x").unwrap();
    db.flush().unwrap();
    assert_eq!(statistics.ticker_count(Ticker::CompactionOptimizedDelDropObsolete), 0);
    move_to(5);
    assert_eq!(statistics.ticker_count(Ticker::CompactionOptimizedDelDropObsolete), 1);
}
