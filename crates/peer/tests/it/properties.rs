//! `rocksdb.*` properties: both engines say the same of one directory.

use esker::options::CompressionType;
use esker::{Db, Options};
use esker_peer::{FamilySpec, RocksDb, require};
use esker_testkit::{TempDir, seed};

/// Properties that follow from the directory.
const OF_THE_DIRECTORY: [&str; 16] = [
    "num-files-at-level0",
    "num-files-at-level1",
    "num-files-at-level6",
    "levelstats",
    "live-sst-files-size",
    "total-sst-files-size",
    "obsolete-sst-files-size",
    "live-sst-files-size-at-temperature0",
    "estimate-live-data-size",
    "base-level",
    "num-blob-files",
    "blob-stats",
    "total-blob-file-size",
    "live-blob-file-size",
    "live-blob-file-garbage-size",
    "compression-ratio-at-level0",
];

/// Properties of an idle engine.
const AT_REST: [&str; 13] = [
    "num-immutable-mem-table",
    "num-immutable-mem-table-flushed",
    "mem-table-flush-pending",
    "num-running-flushes",
    "num-running-compactions",
    "num-running-compaction-sorted-runs",
    "num-live-versions",
    "num-snapshots",
    "background-errors",
    "is-file-deletions-enabled",
    "is-write-stopped",
    "actual-delayed-write-rate",
    "num-entries-active-mem-table",
];

fn options(blobs: bool) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.stats_dump_period_sec = 0;
    options.cf.disable_auto_compactions = true;
    options.cf.compression = CompressionType::Lz4;
    options.cf.target_file_size_base = 20 << 10;
    options.cf.enable_blob_files = blobs;
    options.cf.min_blob_size = 100;
    options.cf.enable_blob_garbage_collection = false;
    options
}

/// Writes several levels whose files overlap, with garbage in blob files.
fn fill(db: &Db, rng: &mut fastrand::Rng) {
    for round in 0..rng.usize(2..7) {
        for _ in 0..rng.usize(100..900) {
            let key = format!("key{:04}", rng.u16(..1000));
            match rng.u8(..8) {
                0 => db.delete(key).expect("deletes"),
                _ => db.put(key, format!("{round} of some value ").repeat(rng.usize(1..12))).expect("writes"),
            }
        }
        db.flush().expect("flushes");
        if rng.u8(..3) == 0 {
            db.compact_range(None, None).expect("compacts");
        }
    }
    db.wait_for_background_work().expect("no error");
}

#[test]
fn both_engines_say_the_same_of_one_directory() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    for blobs in [false, true] {
        let mut rng = seed::rng(&format!("properties, blobs {blobs}"));
        for _ in 0..6 {
            let dir = TempDir::new("properties");
            let db = Db::open(&options(blobs), dir.path()).expect("opens");
            fill(&db, &mut rng);
            db.close().expect("closes");
            drop(db);
            let of_both: Vec<&str> = OF_THE_DIRECTORY.into_iter().chain(AT_REST).collect();
            let name = |property: &str| format!("rocksdb.{property}");
            let db = Db::open(&options(blobs), dir.path()).expect("opens");
            db.verify_checksum().expect("sound; every table is open now");
            let ours: Vec<Option<String>> =
                of_both.iter().map(|property| db.property(&name(property))).collect();
            db.close().expect("closes");
            drop(db);
            let family = FamilySpec::new("default", "disable_auto_compactions=true");
            let db = RocksDb::open(dir.path(), "stats_dump_period_sec=0", &[family]).expect("opens");
            for (property, ours) in of_both.iter().zip(ours) {
                assert_eq!(ours, db.property("default", &name(property)), "{property}, blobs {blobs}");
            }
        }
    }
}
