//! Tickers and histograms of flushes and compactions: each moves by the work that it counts.

use esker::internals::env::mem::MemFs;
use esker::options::FileChecksumGenCrc32cFactory;
use esker::stats::{Histogram, Statistics, Ticker};
use esker::{BackupEngine, BackupEngineOptions, CompactionOptions, Db, Env, Options};
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

#[test]
fn bytes_of_backups_checkpoints_and_verifications_are_counted() {
    let (mut options, statistics) = options();
    options.db.file_checksum_gen_factory = Some(Arc::new(FileChecksumGenCrc32cFactory));
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", vec![7; 5000]).unwrap();
    db.flush().unwrap();
    db.put("in the WAL", vec![7; 3000]).unwrap();
    let table = db.live_files()[0].size;
    let count = |ticker| statistics.ticker_count(ticker);
    db.verify_checksum().unwrap();
    assert_eq!(count(Ticker::VerifyChecksumReadBytes), table);
    db.verify_file_checksums().unwrap();
    assert_eq!(count(Ticker::VerifyChecksumReadBytes), 2 * table);

    // The tables are linked; the WAL and the MANIFEST are copied.
    db.create_checkpoint("/checkpoint", u64::MAX).unwrap();
    let copied = count(Ticker::CheckpointWriteBytes);
    assert!(copied > 3000 && copied < 3000 + table, "{copied}");
    assert_eq!(count(Ticker::CheckpointReadBytes), copied);

    let mut how = BackupEngineOptions::new("/backups");
    how.env = options.db.env.clone();
    let mut backups = BackupEngine::open(&how).unwrap();
    backups.create_new_backup(&db, false).unwrap();
    let (read, written) = (count(Ticker::BackupReadBytes), count(Ticker::BackupWriteBytes));
    assert!(written > table + 3000 && read >= written, "{read} and {written}");
}

#[test]
fn openings_of_tables_are_timed_and_damaged_footers_counted() {
    let (options, statistics) = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(statistics.histogram_data(Histogram::TableOpenIoMicros).count, 1);
    let table = db.live_files()[0].clone();
    drop(db);
    let (fs, path) = (&options.db.env.fs, table.directory.join(&table.relative_filename));
    let mut bytes = vec![0; table.size as usize];
    fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
    assert!(Db::open(&options, "/db").and_then(|db| db.get("key")).is_err());
    assert!(statistics.ticker_count(Ticker::SstFooterCorruptionCount) > 0);
}
