//! WALs that idle or rarely written families hold back.

use esker::internals::env::mem::MemFs;
use esker::observe::{EventListener, FlushJobInfo, FlushReason};
use esker::{ColumnFamilyHandle, Db, Env, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts flushes that were begun because WALs had grown.
#[derive(Default)]
struct WalFlushes(AtomicU64);

impl EventListener for WalFlushes {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if info.flush_reason == FlushReason::WalFull {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

const MIB: u64 = 1 << 20;

/// A database with `families` families that have a few small keys, and a hot one, the default
/// family. Write buffers have 1 MiB.
fn with_hot_family(families: usize) -> (Db, Vec<ColumnFamilyHandle>, Arc<WalFlushes>) {
    let counter = Arc::<WalFlushes>::default();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.listeners = vec![counter.clone()];
    options.cf.write_buffer_size = 1 << 20;
    options.cf.disable_auto_compactions = true;
    options.cf.level0_slowdown_writes_trigger = 1 << 20;
    options.cf.level0_stop_writes_trigger = 1 << 20;
    let db = Db::open(&options, "/db").unwrap();
    let families = (0..families).map(|i| db.create_column_family(&format!("{i}"), &options.cf).unwrap());
    let families = families.collect();
    (db, families, counter)
}

/// Bytes and number of the WALs.
fn wals(db: &Db) -> (u64, usize) {
    let (fs, dir) = (db.db_options().env.fs.clone(), Path::new("/db"));
    let mut names = fs.children(dir).unwrap();
    names.retain(|name| name.ends_with(".log"));
    (names.iter().map(|name| fs.file_size(&dir.join(name)).unwrap_or(0)).sum(), names.len())
}

/// RocksDB's rule allows four times the bytes of all write buffers: 600 MiB here, and 512 MiB for
/// each family by default.
#[test]
fn wals_behind_idle_families_are_a_small_multiple_of_what_memtables_hold() {
    const FAMILIES: usize = 75;
    let (db, idle, counter) = with_hot_family(FAMILIES);
    idle.iter().for_each(|family| db.put_cf(family, "key", "value").unwrap());
    let (mut most, mut most_wals) = (0, 0);
    for i in 0..1200 {
        db.put(format!("{i}"), vec![7; 100 << 10]).unwrap();
        let (bytes, count) = wals(&db);
        (most, most_wals) = (most.max(bytes), most_wals.max(count));
    }
    // The limit is 16 MiB, 256 KiB for each family and twice the memtables; further bytes are
    // written until the flushes end.
    assert!(most < 60 * MIB, "{} MiB in {most_wals} WALs", most / MIB);
    let flushes = counter.0.load(Ordering::Relaxed);
    assert!(flushes <= FAMILIES as u64 + 2, "{flushes} flushes of families with one key");
    for family in &idle {
        assert_eq!(db.get_cf(family, "key").unwrap().unwrap(), b"value");
    }
}

#[test]
fn families_that_are_written_to_now_and_then_are_flushed_at_most_eight_times_for_each_mebibyte() {
    const FAMILIES: usize = 50;
    const MEBIBYTES: u64 = 100;
    let (db, families, counter) = with_hot_family(FAMILIES);
    for i in 0..MEBIBYTES * 10 {
        db.put(format!("{i}"), vec![7; 100 << 10]).unwrap();
        let family = &families[i as usize % FAMILIES];
        db.put_cf(family, format!("{i}"), "value").unwrap();
    }
    let flushes = counter.0.load(Ordering::Relaxed);
    assert!(flushes > 0, "WALs are released");
    assert!(flushes <= 8 * MEBIBYTES, "{flushes} flushes for {MEBIBYTES} MiB");
}

/// As in RocksDB, families that hold back the oldest WAL are flushed when all WALs exceed the
/// limit.
#[test]
fn a_limit_of_wals_that_the_user_has_set_is_kept() {
    let (db, idle, counter) = with_hot_family(3);
    db.set_db_options(&[("max_total_wal_size", "200000000")]).unwrap();
    idle.iter().for_each(|family| db.put_cf(family, "key", "value").unwrap());
    let write = |mebibytes: u64| {
        for i in 0..mebibytes * 10 {
            db.put(format!("{i}"), vec![7; 100 << 10]).unwrap();
        }
        db.wait_for_background_work().unwrap();
    };
    write(100);
    assert_eq!(counter.0.load(Ordering::Relaxed), 0);
    assert!(wals(&db).0 > 90 * MIB);
    db.set_db_options(&[("max_total_wal_size", "5000000")]).unwrap();
    write(10);
    assert_eq!(counter.0.load(Ordering::Relaxed), 3);
    assert!(wals(&db).0 < 8 * MIB);
}
