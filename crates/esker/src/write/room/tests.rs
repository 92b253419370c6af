use crate::observe::{CompactionJobInfo, EventListener};
use crate::options::{FlushOptions, Options, WriteOptions};
use crate::write::PreparedCommit;
use crate::{ColumnFamilyHandle, ColumnFamilyId, Db, ErrorKind, WriteBatch};
use esker_env::mem::MemFs;
use esker_env::{Env, MockClock};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const RATE: u64 = 1 << 20;

/// A database in which uncompacted files of level 0 slow writers down to [`RATE`].
fn delayed() -> (Db, Arc<MockClock>) {
    with_level0_files(2)
}

/// A database with two uncompacted files in level 0, in which `slowdown` such files slow down
/// writers.
fn with_level0_files(slowdown: i32) -> (Db, Arc<MockClock>) {
    let clock = Arc::new(MockClock::new(1_000_000));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env { clock: clock.clone(), ..Env::with_fs(Arc::new(MemFs::new())) };
    options.db.delayed_write_rate = RATE;
    options.cf.level0_file_num_compaction_trigger = 1;
    options.cf.level0_slowdown_writes_trigger = slowdown;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    for i in 0..2 {
        db.put(format!("key{i}"), "value").unwrap();
        db.flush().unwrap();
    }
    db.pause_background_work();
    set_delayed(&db, true);
    (db, clock)
}

fn set_delayed(db: &Db, is_delayed: bool) {
    let compacts_not = if is_delayed { "false" } else { "true" };
    db.set_options(&db.default_column_family(), &[("disable_auto_compactions", compacts_not)]).unwrap();
}

fn batch(bytes: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put_cf(ColumnFamilyId::DEFAULT, b"key", vec![7; bytes]).unwrap();
    batch
}

fn seconds(bytes: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / RATE as f64)
}

#[test]
fn delayed_writers_share_the_rate_also_if_one_of_them_writes_for_all() {
    const WRITERS: usize = 8;
    const BYTES: usize = 16 << 10;
    let (db, clock) = delayed();
    std::thread::scope(|scope| {
        let leader = db.inner.write_path.lead_alone();
        for _ in 0..WRITERS {
            scope.spawn(|| db.write(batch(BYTES)).unwrap());
        }
        while db.inner.write_path.queue.len() < WRITERS {
            std::thread::yield_now();
        }
        drop(leader);
    });
    db.write(batch(1)).unwrap();
    let stats = db.engine().counters.db_stats(&*clock);
    assert!(stats.user_writes_by_other > 0, "writers formed a group");
    // The followers inserted their batches themselves; their bytes still count.
    assert!(stats.user_bytes_written >= (WRITERS * BYTES) as u64, "{}", stats.user_bytes_written);
    let wanted = seconds((WRITERS * BYTES) as u64);
    assert!(clock.slept() >= wanted * 9 / 10, "{:?} of {wanted:?}", clock.slept());
    assert!(clock.slept() <= wanted * 11 / 10, "{:?} of {wanted:?}", clock.slept());
}

/// The reader holds up the purges of all tests in its process, so this test has its own.
#[test]
fn a_purge_that_waits_for_reads_does_not_move_the_clock_of_the_database() {
    let test = "a_purge_that_waits_for_reads_does_not_move_the_clock_of_the_database";
    if !esker_testkit::runs_alone(&format!("write::room::tests::{test}")) {
        return;
    }
    let (db, clock) = delayed();
    set_delayed(&db, false);
    let before = clock.slept();
    std::thread::scope(|scope| {
        let (end, wait_end) = std::sync::mpsc::channel::<()>();
        let (open, is_open) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let _read = esker_base::sync::epoch::pin();
            open.send(()).unwrap();
            assert!(wait_end.recv().is_err(), "the other end is dropped");
        });
        is_open.recv().unwrap();
        // The close cannot wait for the guard, which stays open.
        db.close().unwrap();
        drop(end);
    });
    assert_eq!(clock.slept(), before);
}

#[test]
fn a_delay_after_a_quiet_time_delays_as_the_first_one_did() {
    const BYTES: usize = 64 << 10;
    let (db, clock) = delayed();
    for _ in 0..2 {
        let before = clock.slept();
        for _ in 0..8 {
            db.write(batch(BYTES)).unwrap();
        }
        let (slept, wanted) = (clock.slept() - before, seconds(8 * BYTES as u64));
        assert!(slept >= wanted * 9 / 10, "{slept:?} of {wanted:?}");
        set_delayed(&db, false);
        clock.advance(Duration::from_secs(3600));
        set_delayed(&db, true);
    }
}

#[test]
fn a_clock_that_is_set_back_makes_no_delay_longer() {
    let (db, clock) = delayed();
    db.write(batch(64 << 10)).unwrap();
    clock.set_micros(0);
    let before = clock.slept();
    db.write(batch(64 << 10)).unwrap();
    assert!(clock.slept() - before <= seconds(128 << 10), "{:?}", clock.slept() - before);
}

#[test]
fn a_writer_that_may_not_wait_writes_while_the_rate_allows_it() {
    let (db, clock) = delayed();
    let impatient = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    clock.advance(Duration::from_secs(1));
    db.write_opt(&impatient, batch(100)).unwrap();
    let error = db.write_opt(&impatient, batch(64 << 10)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Incomplete);
    assert_eq!(clock.slept(), Duration::ZERO);
    // A refused write has used up nothing.
    clock.advance(Duration::from_secs(1));
    db.write_opt(&impatient, batch(64 << 10)).unwrap();
}

#[test]
fn writes_of_low_priority_give_way_as_soon_as_compactions_are_behind() {
    const BYTES: usize = 64 << 10;
    let (db, clock) = with_level0_files(5);
    let low_pri = WriteOptions { low_pri: true, ..WriteOptions::default() };
    let timed = |options: &WriteOptions| {
        let before = clock.slept();
        (0..8).for_each(|_| db.write_opt(options, batch(BYTES)).unwrap());
        clock.slept() - before
    };
    // Two files are enough for a compaction and too few to slow all writers: only low-priority
    // writers get 1 MiB per second.
    assert_eq!(timed(&WriteOptions::default()), Duration::ZERO);
    let slept = timed(&low_pri);
    assert!(slept >= seconds(8 * BYTES as u64) * 9 / 10, "{slept:?}");
    let error = db.write_opt(&WriteOptions { no_slowdown: true, ..low_pri }, batch(BYTES)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Incomplete);

    // Compactions are not behind, so no writer gives way.
    set_delayed(&db, false);
    assert_eq!(timed(&low_pri), Duration::ZERO);
}

#[test]
fn writes_of_low_priority_do_not_slow_others_down() {
    let (db, clock) = delayed();
    let low_pri = WriteOptions { low_pri: true, ..WriteOptions::default() };
    db.give_way(&low_pri, &batch(1 << 20)).unwrap();
    let before = clock.slept();
    db.write(batch(100)).unwrap();
    assert_eq!(clock.slept(), before);
}

/// Keeps compactions waiting until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    /// Whether the gate opens within `patience`.
    fn is_passed_within(&self, patience: Duration) -> bool {
        let is_open = self.is_open.lock().unwrap();
        *self.opened.wait_timeout_while(is_open, patience, |is_open| !*is_open).unwrap().0
    }
}

impl EventListener for Gate {
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.is_passed_within(Duration::from_secs(3600));
    }
}

/// A database whose writers are stopped until `gate` lets a compaction of the family begin.
fn stopped(gate: &Arc<Gate>) -> (Db, ColumnFamilyHandle) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.listeners = vec![gate.clone()];
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 2;
    options.cf.level0_stop_writes_trigger = 2;
    let db = Db::open(&options, "/db").unwrap();
    let busy = db.create_column_family("busy", &options.cf).unwrap();
    db.put("before", "value").unwrap();
    for i in 0..2 {
        db.put_cf(&busy, format!("key{i}"), "value").unwrap();
        db.flush_opt(&FlushOptions::default(), &[&busy]).unwrap();
    }
    (db, busy)
}

/// Calls `then` while a writer waits for the gate, and opens the gate afterwards. If `then` itself
/// waits, the gate opens after a minute, so that the test ends.
fn beside_a_stopped_writer(db: &Db, gate: &Gate, then: impl FnOnce(&dyn Fn() -> bool)) {
    let done = Gate::default();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put("key", "value"));
        while !db.inner.write_path.queue.is_stalled() {
            std::thread::yield_now();
        }
        scope.spawn(|| {
            if !done.is_passed_within(Duration::from_secs(60)) {
                gate.open();
            }
        });
        then(&|| writer.is_finished());
        done.open();
        gate.open();
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn families_are_made_flushed_and_dropped_while_writers_are_stopped() {
    let gate = Arc::new(Gate::default());
    let (db, busy) = stopped(&gate);
    beside_a_stopped_writer(&db, &gate, |writer_is_done| {
        let other = db.create_column_family("other", &db.options_cf(&busy)).unwrap();
        db.flush().unwrap();
        assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("1"));
        db.drop_column_family(&other).unwrap();
        assert!(
            db.inner.write_path.queue.is_stalled() && !writer_is_done(),
            "no thread has waited for the writer"
        );
        // The writer waits for this family, which is dropped.
        db.drop_column_family(&busy).unwrap();
        while !writer_is_done() {
            std::thread::yield_now();
        }
        assert!(!*gate.is_open.lock().unwrap());
    });
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn wals_are_synced_and_checkpoints_made_while_writers_are_stopped() {
    let gate = Arc::new(Gate::default());
    let (db, _busy) = stopped(&gate);
    beside_a_stopped_writer(&db, &gate, |writer_is_done| {
        db.sync_wal().unwrap();
        db.flush_wal(true).unwrap();
        assert!(!*gate.is_open.lock().unwrap(), "the WAL was synced at once");
        db.create_checkpoint("/copy", u64::MAX).unwrap();
        assert!(!*gate.is_open.lock().unwrap(), "the checkpoint was made at once");
        assert!(!writer_is_done());
    });
}

#[test]
fn a_wal_that_a_prepared_transaction_keeps_does_not_have_each_write_look_for_room() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.allow_2pc = true;
    options.db.max_total_wal_size = 100_000;
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    let path = &db.inner.write_path;
    db.put_cf(&other, "key", "value").unwrap();
    db.prepare(&WriteOptions::default(), b"one", batch(10)).unwrap();
    (0..400).for_each(|_| db.write(batch(1000)).unwrap());
    db.wait_for_background_work().unwrap();
    let looks_after = |_: &usize| {
        db.write(batch(1000)).unwrap();
        !path.has_room()
    };
    // A sixteenth of the limit lies between two looks.
    let looks = (0..400).filter(looks_after).count();
    assert!(looks <= 400 / 6 + 1, "{looks} of 400 writes");
    // All other writes of the WAL are in tables, so no flush would release it.
    let wals = || db.engine().wals.lock().alive().count();
    assert!(wals() > 1 && db.engine().wals.lock().total_bytes() > 100_000);
    // The WAL is deleted soon after the section was resolved.
    let none = WriteBatch::new();
    let commit = PreparedCommit { timestamp: None, first: &none, later: WriteBatch::new() };
    path.commit_prepared(&WriteOptions::default(), b"one", commit, None).unwrap();
    assert!(!path.has_room());
    db.put("key", "value").unwrap();
    db.wait_for_background_work().unwrap();
    while wals() > 1 || !path.has_room() {
        std::thread::yield_now();
    }
}

#[test]
fn a_writer_that_may_not_wait_does_not_wait_for_a_stopped_check_and_write() {
    let gate = Arc::new(Gate::default());
    let (db, _busy) = stopped(&gate);
    let impatient = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    let check_and_write = || {
        let error = db.write_if(&impatient, &mut batch(10), &mut || Ok(())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
        assert!(!*gate.is_open.lock().unwrap(), "the write was refused at once");
    };
    check_and_write();
    beside_a_stopped_writer(&db, &gate, |_| check_and_write());
    db.write_if(&WriteOptions::default(), &mut batch(10), &mut || Ok(())).unwrap();
}

#[test]
fn a_writer_that_needs_no_room_does_not_wait_for_a_delayed_writer() {
    let (db, clock) = delayed();
    let path = &db.inner.write_path;
    std::thread::scope(|scope| {
        let leader = path.lead_alone();
        scope.spawn(|| db.write(batch(RATE as usize)).unwrap());
        while path.queue.len() < 1 {
            std::thread::yield_now();
        }
        let urgent = scope.spawn(|| {
            let _lead = path.lead_alone_urgently();
            db.get(b"key").unwrap().is_some()
        });
        while path.queue.len() < 2 {
            std::thread::yield_now();
        }
        drop(leader);
        assert!(!urgent.join().unwrap(), "the writer before it has written");
    });
    assert!(clock.slept() >= seconds(RATE) * 9 / 10, "{:?}", clock.slept());
    assert!(db.get(b"key").unwrap().is_some());
}

#[test]
fn memory_of_a_large_record_is_given_back() {
    let (db, _) = with_level0_files(100);
    let options = WriteOptions::default();
    db.write_opt(&options, batch(100 << 10)).unwrap();
    assert!(db.engine().wals.lock().buffer_bytes() >= 100 << 10, "the next record needs no new memory");
    db.write_opt(&options, batch(20 << 20)).unwrap();
    assert_eq!(db.engine().wals.lock().buffer_bytes(), 0);
}
