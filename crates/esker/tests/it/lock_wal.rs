//! `lock_wal`: no write takes effect under it, and everything else goes on.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{Clock, SystemClock};
use esker::{
    Db, Env, ErrorKind, Options, SequenceNumber, SstFileWriter, WalLock, WalReadOptions, WriteOptions,
};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time in which a write that nothing stops ends by far.
const WHILE: Duration = Duration::from_millis(100);

fn open(change: impl FnOnce(&mut Options)) -> (Db, Options) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    change(&mut options);
    (Db::open(&options, "/db").unwrap(), options)
}

#[expect(clippy::disallowed_methods, reason = "a writer who waits for ever is left behind")]
fn put_in_thread(db: &Db, key: &'static str, bytes: usize) -> JoinHandle<esker::Result<()>> {
    let db = db.clone();
    thread::spawn(move || db.put(key, vec![b'v'; bytes]))
}

fn has(db: &Db, key: &str) -> bool {
    db.get(key).unwrap().is_some()
}

fn put_without_waiting(db: &Db, key: &str) -> esker::Result<()> {
    db.put_opt(&WriteOptions::new().no_slowdown(true), &db.default_column_family(), key, "value")
}

#[test]
fn writes_wait_until_the_last_lock_is_gone() {
    let (db, _) = open(|_| ());
    let locks: Vec<WalLock> = (0..2).map(|_| db.lock_wal().unwrap()).collect();
    assert_eq!(db.int_property("rocksdb.is-write-stopped"), Some(1));
    let writer = put_in_thread(&db, "waits", 1);
    SystemClock.sleep(WHILE);
    assert_eq!(put_without_waiting(&db, "refused").unwrap_err().kind(), ErrorKind::Incomplete);
    let third = db.lock_wal().unwrap();
    for lock in locks {
        drop(lock);
        SystemClock.sleep(WHILE);
        assert!(!has(&db, "waits") && !writer.is_finished());
    }
    // Any thread may give it back.
    thread::scope(|scope| scope.spawn(move || drop(third)).join()).unwrap();
    put_without_waiting(&db, "next").unwrap();
    writer.join().unwrap().unwrap();
    assert!(has(&db, "waits") && has(&db, "next") && !has(&db, "refused"));
    assert_eq!(db.int_property("rocksdb.is-write-stopped"), Some(0));
}

#[test]
fn reads_flushes_and_checkpoints_go_on_under_a_lock() {
    let (db, options) = open(|_| ());
    db.put("before", "value").unwrap();
    let lock = db.lock_wal().unwrap();
    let at = db.latest_sequence_number();
    let writer = put_in_thread(&db, "waits", 1);
    SystemClock.sleep(WHILE);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.create_checkpoint("/copy", 0).unwrap();
    assert!(has(&db, "before"));
    assert_eq!(db.latest_sequence_number(), at);
    drop(lock);
    writer.join().unwrap().unwrap();
    let copy = Db::open(&options, "/copy").unwrap();
    assert!(has(&copy, "before") && !has(&copy, "waits"));
    assert_eq!(copy.latest_sequence_number(), at);
}

/// Writes the table of one key, for ingestions.
fn write_table(options: &Options, path: &str, key: &str) {
    let mut writer = SstFileWriter::new(options);
    writer.open(path).unwrap();
    writer.put(key, "value").unwrap();
    writer.finish().unwrap();
}

#[expect(clippy::disallowed_methods, reason = "an ingestion that waits for ever is left behind")]
fn ingest_in_thread(db: &Db) -> JoinHandle<esker::Result<()>> {
    let db = db.clone();
    thread::spawn(move || db.ingest_external_file(&["/table.sst"]))
}

#[expect(clippy::disallowed_methods, reason = "an import that waits for ever is left behind")]
fn import_in_thread(db: &Db) -> JoinHandle<esker::Result<()>> {
    let (db, family) = (db.clone(), db.default_column_family());
    let export = db.export_column_family(&family, "/export").unwrap();
    let import = move || {
        db.create_column_family_with_import(&Default::default(), "imported", &Default::default(), &export)
            .map(drop)
    };
    thread::spawn(import)
}

#[test]
fn ingestions_and_imports_wait_for_the_end_of_a_lock() {
    let (db, options) = open(|_| ());
    db.put("a", "value").unwrap();
    db.flush().unwrap();
    write_table(&options, "/table.sst", "ingested");
    let import: fn(&Db) -> JoinHandle<esker::Result<()>> = import_in_thread;
    for (copy, start) in [("/copy1", import), ("/copy2", ingest_in_thread)] {
        let lock = db.lock_wal().unwrap();
        let at = db.latest_sequence_number();
        let started = start(&db);
        SystemClock.sleep(WHILE);
        db.create_checkpoint(copy, 0).unwrap();
        assert!(!started.is_finished() && !has(&db, "ingested"));
        assert_eq!(
            (db.column_family("imported").is_some(), db.latest_sequence_number()),
            (copy != "/copy1", at)
        );
        drop(lock);
        started.join().unwrap().unwrap();
    }
    assert!(has(&db, "ingested"));
    let imported = db.column_family("imported").unwrap();
    assert!(db.get_cf(&imported, "a").unwrap().is_some());
    // A close ends the wait, and nothing is left of the ingestion.
    write_table(&options, "/table.sst", "too late");
    let lock = db.lock_wal().unwrap();
    let ingesting = ingest_in_thread(&db);
    SystemClock.sleep(WHILE);
    db.close().unwrap();
    assert_eq!(ingesting.join().unwrap().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    drop(lock);
}

#[test]
fn a_lock_hands_buffered_bytes_of_the_wal_to_the_system() {
    let (db, _) = open(|options| options.db.manual_wal_flush = true);
    db.put("buffered", "value").unwrap();
    let mut updates = db.get_updates_since(SequenceNumber(1), &WalReadOptions::default()).unwrap();
    assert!(updates.next().is_none());
    let lock = db.lock_wal().unwrap();
    assert!(updates.next().is_some());
    drop(lock);
}

/// A delayed leader lends its lead to the lock. The end of the delay does not let it write.
#[test]
fn a_delayed_write_that_has_lent_its_lead_waits_too() {
    let (db, _) = open(|options| {
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.level0_slowdown_writes_trigger = 2;
        options.db.delayed_write_rate = 16 << 10;
    });
    db.abort_all_compactions();
    for key in ["a", "b"] {
        db.put(key, "value").unwrap();
        db.flush().unwrap();
    }
    let writer = put_in_thread(&db, "delayed", 100_000);
    while db.int_property("rocksdb.actual-delayed-write-rate") == Some(0) {
        thread::yield_now();
    }
    SystemClock.sleep(WHILE);
    assert!(!has(&db, "delayed"), "it is delayed for seconds");
    let lock = db.lock_wal().unwrap();
    SystemClock.sleep(3 * WHILE);
    assert!(!has(&db, "delayed") && !writer.is_finished());
    drop(lock);
    writer.join().unwrap().unwrap();
    assert!(has(&db, "delayed"));
}

#[test]
fn a_close_ends_the_waits_of_a_lock() {
    let (db, options) = open(|_| ());
    let lock = db.lock_wal().unwrap();
    let writer = put_in_thread(&db, "waits", 1);
    SystemClock.sleep(WHILE);
    db.close().unwrap();
    assert_eq!(writer.join().unwrap().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    drop(lock);
    assert_eq!(db.lock_wal().unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    let reader = Db::open_for_read_only(&options, "/db").unwrap();
    assert_eq!(reader.lock_wal().unwrap_err().kind(), ErrorKind::NotSupported);
}
