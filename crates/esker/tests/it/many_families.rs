//! Databases of very many families.

use esker::internals::base::probe::Probes;
use esker::internals::env::fault::{FaultFs, OpKind};
use esker::internals::env::mem::MemFs;
use esker::internals::env::{Clock, MockClock, SystemClock};
use esker::internals::memtable::MemoryBudget;
use esker::observe::{EventListener, FlushJobInfo};
use esker::options::{WriteBufferManager, load_latest_options_from};
use esker::{
    ColumnFamilyHandle, ColumnFamilyOptions, Db, DbOptions, Env, ErrorKind, Options, WriteBatch, repair_db,
};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Nanoseconds that this thread has run.
fn own_nanos() -> u64 {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    times.split_whitespace().next().unwrap().parse().unwrap()
}

/// Nanoseconds that this thread runs for a flush of `count` families together.
fn nanos_of_switch(count: usize) -> u64 {
    let options = DbOptions {
        env: Env::with_fs(Arc::new(MemFs::new())),
        create_if_missing: true,
        create_missing_column_families: true,
        atomic_flush: true,
        ..DbOptions::default()
    };
    let cf = ColumnFamilyOptions { arena_block_size: 4096, ..ColumnFamilyOptions::default() };
    let names = std::iter::once("default".to_owned()).chain((1..count).map(|n| format!("f{n}")));
    let families = names.map(|name| (name, cf.clone()));
    let db = Db::open_cf(&options, "/db", families).unwrap();
    let mut batch = WriteBatch::new();
    for name in db.column_family_names() {
        batch.put_cf(db.column_family(&name).unwrap().id(), b"key", b"value").unwrap();
    }
    db.write(&mut batch).unwrap();
    let before = own_nanos();
    db.flush().unwrap();
    let nanos = own_nanos() - before;
    assert_eq!(db.live_files().len(), count);
    db.close().unwrap();
    nanos
}

#[test]
fn a_flush_of_all_families_does_not_cost_the_square_of_their_number() {
    // Other work on the machine makes single measurements longer.
    let least = |count| (0..3).map(|_| nanos_of_switch(count)).min().unwrap();
    let (few, many) = (least(150), least(900));
    assert!(many < 15 * few, "150 families: {few} ns, 900: {many} ns");
}

fn names(count: usize) -> Vec<String> {
    std::iter::once("default".to_owned()).chain((1..count).map(|n| format!("f{n}"))).collect()
}

fn open(options: &DbOptions, names: &[String], cf: &ColumnFamilyOptions) -> Db {
    let families = names.iter().map(|name| (name, cf.clone()));
    Db::open_cf(options, "/db", families).unwrap()
}

fn new_options(fs: &FaultFs) -> DbOptions {
    DbOptions {
        env: Env::with_fs(Arc::new(fs.clone())),
        create_if_missing: true,
        create_missing_column_families: true,
        ..DbOptions::default()
    }
}

/// Number of families that replay walks over, on this thread, while the database is opened.
fn walked_while_opening(options: &DbOptions, names: &[String], cf: &ColumnFamilyOptions) -> u64 {
    let walked = Arc::new(AtomicU64::new(0));
    let sum = walked.clone();
    let probes = Probes::new();
    probes.on_this_thread("recovery:families_walked", move |value| {
        sum.fetch_add(*value.downcast_ref::<u64>().unwrap(), Ordering::Relaxed);
    });
    open(options, names, cf).close().unwrap();
    drop(probes);
    walked.load(Ordering::Relaxed)
}

#[test]
fn replay_looks_at_the_families_of_a_record_and_at_no_others() {
    let cf = ColumnFamilyOptions { write_buffer_size: 64 << 10, ..ColumnFamilyOptions::default() };
    let (families, records) = (200, 1000);
    let options = new_options(&FaultFs::new(Arc::new(MemFs::new())));
    let names = names(families);
    let db = open(&options, &names, &cf);
    let roomy = ColumnFamilyOptions { write_buffer_size: 64 << 20, ..cf.clone() };
    db.close().unwrap();
    let db = open(&options, &names, &roomy);
    for record in 0..records {
        db.put(format!("{record:05}"), [b'x'; 200]).unwrap();
    }
    db.close().unwrap();
    let walked = walked_while_opening(&options, &names, &cf);
    assert!(walked > 0, "the walks at the begin and the end of replay are counted");
    assert!(
        walked <= 8 * families as u64,
        "{records} records of one of {families} families: {walked} looked at"
    );
}

#[test]
fn opening_writes_a_table_for_each_family_and_syncs_the_directory_once_for_all() {
    let dir_syncs = |count: usize| {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let (options, names) = (new_options(&fs), names(count));
        let db = open(&options, &names, &ColumnFamilyOptions::default());
        let mut batch = WriteBatch::new();
        for name in &names {
            batch.put_cf(db.column_family(name).unwrap().id(), b"key", b"value").unwrap();
        }
        db.write(&mut batch).unwrap();
        db.close().unwrap();
        let before = (fs.op_count_of(OpKind::DirSync), fs.op_count_of(OpKind::Sync));
        let db = open(&options, &names, &ColumnFamilyOptions::default());
        let after = (fs.op_count_of(OpKind::DirSync), fs.op_count_of(OpKind::Sync));
        assert_eq!(db.live_files().len(), count);
        for name in &names {
            let family = db.column_family(name).unwrap();
            assert_eq!(db.get_cf(&family, b"key").unwrap().as_deref(), Some(&b"value"[..]));
        }
        db.close().unwrap();
        (after.0 - before.0, after.1 - before.1 - count as u64)
    };
    assert_eq!(dir_syncs(3), dir_syncs(300));
}

#[test]
fn recovery_and_repair_keep_to_the_bound_of_the_write_buffer_manager() {
    for repairs in [false, true] {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let (options, names) = (new_options(&fs), names(20));
        let cf = ColumnFamilyOptions::default();
        let db = open(&options, &names, &cf);
        let families: Vec<_> = names.iter().map(|name| db.column_family(name).unwrap()).collect();
        for record in 0..400 {
            for family in &families {
                db.put_cf(family, format!("{record:05}"), [b'x'; 1000]).unwrap();
            }
        }
        db.close().unwrap();
        // 8 MB in the WAL.
        let bound = 2 << 20;
        let manager = Arc::new(WriteBufferManager::new(bound, false));
        let most = Arc::new(AtomicU64::new(0));
        let (seen, watched) = (most.clone(), manager.clone());
        fs.on_op(move |_| {
            seen.fetch_max(watched.memory_usage() as u64, Ordering::Relaxed);
        });
        let bounded = DbOptions { write_buffer_manager: Some(manager), ..options.clone() };
        if repairs {
            let options = Options { db: bounded.clone(), cf: cf.clone() };
            let summary = repair_db(&options, "/db", &[]).unwrap();
            assert_eq!(summary.wal_records, 8000);
        }
        let db = open(&bounded, &names, &cf);
        fs.clear_hook();
        let most = most.load(Ordering::Relaxed);
        assert!(most <= 2 * bound as u64, "{most} bytes of memtables under a bound of {bound}");
        for (name, record) in names.iter().zip(0..) {
            let key = format!("{:05}", record * 7);
            let family = db.column_family(name).unwrap();
            assert_eq!(db.get_cf(&family, &key).unwrap().map(|v| v.len()), Some(1000));
        }
        db.close().unwrap();
    }
}

#[test]
fn memory_that_another_database_holds_does_not_make_recovery_write_a_table_for_each_record() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let (options, names) = (new_options(&fs), names(1));
    let cf = ColumnFamilyOptions::default();
    let db = open(&options, &names, &cf);
    for record in 0..300 {
        db.put(format!("{record:05}"), [b'x'; 100]).unwrap();
    }
    db.close().unwrap();
    let manager = Arc::new(WriteBufferManager::new(1 << 20, false));
    MemoryBudget::reserve(&*manager, 2 << 20); // another user's memory
    let shared = DbOptions { write_buffer_manager: Some(manager), ..options.clone() };
    let db = open(&shared, &names, &cf);
    assert_eq!(db.live_files().len(), 1);
    db.close().unwrap();
}

/// A new database of one family under a clock that never advances by itself.
struct Growing {
    fs: FaultFs,
    clock: Arc<MockClock>,
    env: Env,
    db: Db,
}

impl Growing {
    fn new() -> Growing {
        let (fs, clock) = (FaultFs::new(Arc::new(MemFs::new())), Arc::new(MockClock::new(0)));
        let env = Env::new(Arc::new(fs.clone()), clock.clone());
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.env = env.clone();
        let db = Db::open(&options, "/db").unwrap();
        Growing { fs, clock, env, db }
    }

    fn create(&self, numbers: std::ops::Range<usize>) -> Vec<ColumnFamilyHandle> {
        let cf = ColumnFamilyOptions::default();
        numbers.map(|n| self.db.create_column_family(&format!("f{n}"), &cf).unwrap()).collect()
    }

    /// The families that the newest OPTIONS file names, besides the default one.
    fn in_options_file(&self) -> usize {
        load_latest_options_from(&self.fs, Path::new("/db")).unwrap().families.len() - 1
    }

    /// Bytes that `work` writes into OPTIONS files, and bytes into the MANIFEST.
    fn bytes_of(&self, work: impl FnOnce()) -> (u64, u64) {
        self.fs.list_ops(true);
        work();
        let ops = self.fs.take_ops();
        self.fs.list_ops(false);
        let of = |name: &str| {
            let appends = ops.iter().filter(|op| op.kind == OpKind::Append);
            appends.filter(|op| op.path.to_string_lossy().contains(name)).map(|op| op.bytes).sum()
        };
        (of("dbtmp"), of("MANIFEST"))
    }
}

#[test]
fn the_cost_of_making_and_dropping_a_family_does_not_grow_with_their_number() {
    let cost_of = |count: usize| {
        let growing = Growing::new();
        let mut made = Vec::new();
        let (options, manifest) = growing.bytes_of(|| made = growing.create(0..count));
        let (dropped, _) = growing
            .bytes_of(|| made.iter().for_each(|family| growing.db.drop_column_family(family).unwrap()));
        growing.db.close().unwrap();
        [options, manifest, dropped].map(|bytes| bytes / count as u64)
    };
    let (few, many) = (cost_of(60), cost_of(240));
    assert!(
        few.iter().zip(many).all(|(few, many)| many <= few * 3 / 2),
        "60: {few:?} bytes each, 240: {many:?}"
    );
}

#[test]
fn families_are_in_an_options_file_at_once_or_after_a_second_or_when_the_database_closes() {
    let growing = Growing::new();
    let mut made = growing.create(0..31);
    assert_eq!(growing.in_options_file(), 31, "few families are written at once");
    made.extend(growing.create(31..200));
    let at_once = growing.in_options_file();
    assert!((150..200).contains(&at_once), "{at_once} of 200 at once");
    growing.clock.advance(Duration::from_secs(1));
    growing.env.timer.read_clock_again();
    let is_written = |_| {
        SystemClock.sleep(Duration::from_millis(1));
        growing.in_options_file() == 200
    };
    assert!((0..600_000).any(is_written), "a second later the file has all families");
    growing.db.drop_column_families(&made[..3].iter().collect::<Vec<_>>()).unwrap();
    assert!(growing.db.column_family("f2").is_none() && growing.db.column_family("f3").is_some());
    assert_eq!(growing.in_options_file(), 200, "three changes of 200 families are few");
    growing.db.close().unwrap();
    assert_eq!(growing.in_options_file(), 197);
}

#[test]
fn families_are_dropped_together_or_not_at_all() {
    let growing = Growing::new();
    let made = growing.create(0..3);
    let default = growing.db.default_column_family();
    for wrong in [[&made[0], &default], [&made[0], &made[0]]] {
        assert_eq!(growing.db.drop_column_families(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(growing.db.column_family("f0").is_some());
    }
    growing.db.drop_column_families(&[]).unwrap();
    let syncs = growing.fs.op_count_of(OpKind::Sync);
    growing.db.drop_column_families(&[&made[2], &made[0]]).unwrap();
    assert_eq!(growing.fs.op_count_of(OpKind::Sync) - syncs, 2, "the MANIFEST and the OPTIONS file");
    assert!(growing.db.put_cf(&made[0], "key", "value").is_err());
    growing.db.put_cf(&made[1], "key", "value").unwrap();
    assert_eq!(growing.db.column_family_names(), ["default", "f1"]);
    growing.db.close().unwrap();
    let names = Db::list_column_families(&new_options(&growing.fs), "/db").unwrap();
    assert_eq!(names, ["default", "f1"]);
}

#[test]
fn memory_of_idle_families_does_not_make_each_write_flush() {
    let options = DbOptions {
        write_buffer_manager: Some(Arc::new(WriteBufferManager::new(1 << 20, false))),
        ..new_options(&FaultFs::new(Arc::new(MemFs::new())))
    };
    // An empty memtable has a block of 4 KiB.
    let db = open(&options, &names(400), &ColumnFamilyOptions::default());
    for record in 0..100 {
        db.put(format!("{record:05}"), "value").unwrap();
    }
    db.pause_background_work();
    assert_eq!(db.live_files().len(), 0, "no memtable is large enough for a flush");
    db.continue_background_work().unwrap();
    db.close().unwrap();
}

/// Flushes begin when the other end is dropped.
struct HoldFlushes(Mutex<Receiver<()>>);

impl EventListener for HoldFlushes {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.0.lock().unwrap().recv().unwrap_err();
    }
}

#[test]
fn writes_beside_flushes_for_long_wals_do_not_ask_all_families() {
    let (families, records) = (300, 2000);
    let (release, held) = channel();
    let options = DbOptions {
        max_total_wal_size: 256 << 10,
        listeners: vec![Arc::new(HoldFlushes(Mutex::new(held)))],
        ..new_options(&FaultFs::new(Arc::new(MemFs::new())))
    };
    let names = names(families);
    let db = open(&options, &names, &ColumnFamilyOptions::default());
    let mut batch = WriteBatch::new();
    for name in &names {
        batch.put_cf(db.column_family(name).unwrap().id(), b"key", b"value").unwrap();
    }
    db.write(&mut batch).unwrap();
    let (asked, walked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (times, last) = (asked.clone(), walked.clone());
    let probes = Probes::new();
    probes.on_this_thread("write:wal_check", move |value| {
        times.fetch_add(1, Ordering::Relaxed);
        last.store(*value.downcast_ref::<u64>().unwrap(), Ordering::Relaxed);
    });
    for record in 0..records {
        db.put(format!("{record:05}"), [b'x'; 200]).unwrap();
    }
    let (asked, walked) = (asked.load(Ordering::Relaxed), walked.load(Ordering::Relaxed));
    drop(release);
    assert!(asked > 1, "the WALs stay longer than their limit");
    assert!(asked <= 40, "{records} writes checked all families {asked} times");
    assert!(walked <= 120 * families as u64, "{walked} visits of {families} families");
    db.close().unwrap();
}
