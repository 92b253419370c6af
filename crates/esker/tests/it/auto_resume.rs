//! Automatic recovery after a transient error, within the limits of options and listeners.

use esker::internals::env::fault::OpKind;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::observe::{BackgroundErrorReason, BackgroundErrorRecoveryInfo, CompactionJobInfo, EventListener};
use esker::stats::{Histogram, Statistics, Ticker};
use esker::{Db, Env, Error, ErrorKind, FlushOptions, Options, Severity, WriteOptions};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// An interval, in microseconds, that is longer than any test.
const NEVER: u64 = 3_600_000_000;

/// Events that listeners receive.
#[derive(Debug)]
enum RecoveryEvent {
    Begin(BackgroundErrorReason),
    End(BackgroundErrorRecoveryInfo),
}

struct Listener {
    sender: Mutex<Sender<RecoveryEvent>>,
    lets_recover: bool,
}

impl EventListener for Listener {
    fn on_error_recovery_begin(&self, reason: BackgroundErrorReason, _: &Error, auto_recovery: &mut bool) {
        *auto_recovery &= self.lets_recover;
        self.sender.lock().unwrap().send(RecoveryEvent::Begin(reason)).unwrap();
    }

    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        self.sender.lock().unwrap().send(RecoveryEvent::End(info.clone())).unwrap();
    }
}

struct Scene {
    db: Db,
    disk: CrashFs,
    fs: FaultFs,
    events: Receiver<RecoveryEvent>,
    statistics: Arc<Statistics>,
}

/// A database whose disk can fail. `interval`: microseconds between attempts.
fn scene(count: i32, interval: u64, lets_recover: bool) -> Scene {
    scene_with(count, interval, lets_recover).1
}

/// [`scene`], with the database's options.
fn scene_with(count: i32, interval: u64, lets_recover: bool) -> (Options, Scene) {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let (sender, events) = channel();
    let statistics = Arc::new(Statistics::default());
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.db.max_bgerror_resume_count = count;
    options.db.bgerror_resume_retry_interval = interval;
    options.db.statistics = Some(statistics.clone());
    options.db.listeners = vec![Arc::new(Listener { sender: Mutex::new(sender), lets_recover })];
    options.cf.level0_file_num_compaction_trigger = 4;
    options.cf.level0_slowdown_writes_trigger = 4;
    options.cf.level0_stop_writes_trigger = 4;
    let db = Db::open(&options, "/db").unwrap();
    (options, Scene { db, disk, fs, events, statistics })
}

impl Scene {
    fn begun(&self) -> BackgroundErrorReason {
        match self.events.recv().unwrap() {
            RecoveryEvent::Begin(reason) => reason,
            RecoveryEvent::End(info) => panic!("{info:?}"),
        }
    }

    /// The error of the finished recovery, and the error that remains.
    fn ended(&self) -> (Error, Option<Error>) {
        match self.events.recv().unwrap() {
            RecoveryEvent::End(info) => (info.old_bg_error, info.new_bg_error),
            RecoveryEvent::Begin(reason) => panic!("{reason:?}"),
        }
    }

    /// The flushing caller gets the error, or waits until a recovery has flushed.
    fn fail_flush(&self) {
        match self.db.flush() {
            Ok(()) => {}
            Err(e) => assert_eq!(e.kind(), ErrorKind::IoError),
        }
    }

    fn counts<const N: usize>(&self, tickers: [Ticker; N]) -> [u64; N] {
        tickers.map(|ticker| self.statistics.ticker_count(ticker))
    }
}

fn tables() -> FaultRule {
    FaultRule::fail(&[OpKind::Create]).on_name(".sst").retryable(true)
}

#[test]
fn a_flush_is_tried_again_until_it_succeeds() {
    let scene = scene(i32::MAX, 1000, true);
    scene.db.put("a", "1").unwrap();
    scene.fs.add_rule(tables().times(3));
    scene.fail_flush();
    assert_eq!(scene.begun(), BackgroundErrorReason::Flush);
    let (old, new) = scene.ended();
    assert_eq!((old.kind(), old.severity(), new.is_none()), (ErrorKind::IoError, Severity::HardError, true));
    assert!(scene.db.background_error().is_none());
    assert_eq!(scene.db.live_files().len(), 1);
    scene.db.put("b", "2").unwrap();
    let attempts = [
        Ticker::ErrorHandlerAutoresumeCount,
        Ticker::ErrorHandlerAutoresumeRetryTotalCount,
        Ticker::ErrorHandlerAutoresumeSuccessCount,
        Ticker::ErrorHandlerBgErrorCount,
        Ticker::ErrorHandlerBgRetryableIoErrorCount,
    ];
    assert_eq!(scene.counts(attempts), [1, 3, 1, 3, 3]);
    assert_eq!(scene.db.int_property("rocksdb.background-errors"), Some(3), "failures, not what is in force");
    let retries = scene.statistics.histogram_data(Histogram::ErrorHandlerAutoresumeRetryCount);
    assert_eq!((retries.count, retries.sum), (1, 3));
}

#[test]
fn writes_go_on_behind_a_wal_that_could_not_be_written() {
    let scene = scene(1, NEVER, true);
    let sync = WriteOptions::default().sync(true);
    scene.db.put_opt(&sync, &scene.db.default_column_family(), "a", "1").unwrap();
    scene.fs.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name(".log").retryable(true));
    scene.db.put_opt(&sync, &scene.db.default_column_family(), "b", "2").unwrap_err();
    assert_eq!(scene.begun(), BackgroundErrorReason::WriteCallback);
    assert!(scene.ended().1.is_none());
    scene.db.put_opt(&sync, &scene.db.default_column_family(), "c", "3").unwrap();
    let crashed = scene.disk.crash_clone(&CrashChoices::lose_unsynced());
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(crashed));
    let db = Db::open(&options, "/db").unwrap();
    let found = ["a", "b", "c"].map(|key| db.get(key).unwrap().is_some());
    assert_eq!(found, [true, false, true], "a refused write does not reappear");
}

#[test]
fn a_recovery_gives_up_after_the_limit_of_attempts() {
    let scene = scene(3, 1000, true);
    scene.db.put("a", "1").unwrap();
    scene.fs.add_rule(tables().forever());
    scene.fail_flush();
    scene.begun();
    let (old, new) = scene.ended();
    assert_eq!((old.kind(), new.map(|e| e.kind())), (ErrorKind::IoError, Some(ErrorKind::Aborted)));
    assert_eq!(scene.counts([Ticker::ErrorHandlerAutoresumeRetryTotalCount]), [3]);
    assert_eq!(scene.db.put("b", "2").unwrap_err().kind(), ErrorKind::IoError);
    scene.fs.clear_rules();
    scene.db.resume().unwrap();
    scene.db.put("b", "2").unwrap();
}

/// Each attempt writes all memtables. Files that it left behind would fill the disk, and a full
/// disk may be the very failure.
#[test]
fn attempts_that_cannot_write_the_manifest_leave_no_files_behind() {
    let scene = scene(5, 1000, true);
    scene.db.put("a", "1").unwrap();
    scene.fs.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name("MANIFEST").retryable(true).forever());
    scene.fail_flush();
    scene.begun();
    assert!(scene.ended().1.is_some());
    assert_eq!(scene.counts([Ticker::ErrorHandlerAutoresumeRetryTotalCount]), [5]);
    let count = |part: &str| {
        let names = scene.fs.children(Path::new("/db")).unwrap();
        names.iter().filter(|name| name.contains(part)).count()
    };
    // The MANIFEST may name the first flush's table.
    assert_eq!((count(".sst"), count("MANIFEST-")), (1, 1));
    let crashed = scene.disk.crash_clone(&CrashChoices::process_kill());
    scene.fs.clear_rules();
    scene.db.resume().unwrap();
    scene.db.put("b", "2").unwrap();
    scene.db.wait_for_background_work().unwrap();
    assert_eq!((count(".sst"), count("MANIFEST-")), (1, 1));
    for fs in [crashed, scene.disk.crash_clone(&CrashChoices::process_kill())] {
        let mut options = Options::default();
        options.db.env = Env::with_fs(Arc::new(fs));
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn attempts_behind_a_damaged_wal_make_one_wal() {
    let scene = scene(5, 1000, true);
    let sync = WriteOptions::default().sync(true);
    scene.db.put_opt(&sync, &scene.db.default_column_family(), "a", "1").unwrap();
    scene.fs.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name(".log").retryable(true));
    scene.fs.add_rule(tables().forever());
    scene.db.put_opt(&sync, &scene.db.default_column_family(), "b", "2").unwrap_err();
    scene.begun();
    assert!(scene.ended().1.is_some());
    assert_eq!(scene.counts([Ticker::ErrorHandlerAutoresumeRetryTotalCount]), [5]);
    let wals = || {
        let names = scene.fs.children(Path::new("/db")).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    assert_eq!(wals(), 2);
    scene.fs.clear_rules();
    scene.db.resume().unwrap();
    scene.db.put_opt(&sync, &scene.db.default_column_family(), "c", "3").unwrap();
    scene.db.wait_for_background_work().unwrap();
    assert_eq!(wals(), 1);
    let mut options = Options::default();
    let crashed = scene.disk.crash_clone(&CrashChoices::lose_unsynced());
    options.db.env = Env::with_fs(Arc::new(crashed));
    let db = Db::open(&options, "/db").unwrap();
    let found = ["a", "b", "c"].map(|key| db.get(key).unwrap().is_some());
    assert_eq!(found, [true, false, true]);
}

#[test]
fn an_error_that_will_not_pass_ends_it() {
    let scene = scene(i32::MAX, 1000, true);
    scene.db.put("a", "1").unwrap();
    scene.fs.add_rule(tables());
    scene.fs.add_rule(FaultRule::fail(&[OpKind::Create]).on_name(".sst").nth(0).forever().retryable(false));
    scene.fail_flush();
    scene.begun();
    let (_, new) = scene.ended();
    assert!(!new.unwrap().is_retryable());
    assert_eq!(scene.db.background_error().map(|e| e.is_retryable()), Some(false));
    // No recovery begins for this error.
    scene.fs.clear_rules();
    assert_eq!(scene.counts([Ticker::ErrorHandlerAutoresumeCount]), [1]);
    scene.db.resume().unwrap();
}

#[test]
fn neither_options_nor_listeners_need_let_it() {
    for (count, lets_recover) in [(0, true), (-1, true), (i32::MAX, false)] {
        let scene = scene(count, 1000, lets_recover);
        scene.db.put("a", "1").unwrap();
        scene.fs.add_rule(tables());
        scene.fail_flush();
        assert!(scene.db.background_error().is_some());
        assert_eq!(scene.counts([Ticker::ErrorHandlerAutoresumeCount]), [0]);
        scene.db.resume().unwrap();
        scene.db.put("a", "1").unwrap();
        assert_eq!(scene.events.try_iter().count(), usize::from(!lets_recover));
    }
}

#[test]
fn closing_ends_it() {
    for drops in [false, true] {
        let scene = scene(i32::MAX, NEVER, true);
        scene.db.put("a", "1").unwrap();
        scene.fs.add_rule(tables().forever());
        scene.fail_flush();
        scene.begun();
        if drops {
            let Scene { db, events, .. } = scene;
            // This is the last handle: listeners hold none.
            drop(db);
            assert!(
                matches!(events.recv().unwrap(), RecoveryEvent::End(info) if info.new_bg_error.is_some())
            );
        } else {
            scene.db.close().unwrap();
            assert!(scene.ended().1.is_some());
        }
    }
}

#[test]
fn resume_by_hand_ends_it() {
    let scene = scene(i32::MAX, NEVER, true);
    scene.db.put("a", "1").unwrap();
    scene.fs.add_rule(tables().times(2));
    scene.fail_flush();
    scene.begun();
    while scene.fs.fault_count() < 2 {
        std::thread::yield_now();
    }
    scene.db.resume().unwrap();
    assert!(scene.ended().1.is_none());
    scene.db.put("b", "2").unwrap();
    // The database recovers from the next error, too.
    scene.fs.add_rule(tables());
    scene.fail_flush();
    scene.begun();
    assert!(scene.ended().1.is_none());
    assert!(scene.db.background_error().is_none());
}

/// When the first compaction begins, makes the creation of tables fail for a while.
struct FailCompactions {
    fs: FaultFs,
    rule: Mutex<Option<FaultRule>>,
}

impl EventListener for FailCompactions {
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        if let Some(rule) = self.rule.lock().unwrap().take() {
            self.fs.add_rule(rule);
        }
    }
}

#[test]
fn a_writer_that_waits_for_a_compaction_waits_for_its_recovery() {
    let (mut options, scene) = scene_with(i32::MAX, 1000, true);
    let rule = Mutex::new(Some(tables().times(3)));
    options.db.listeners.push(Arc::new(FailCompactions { fs: scene.fs.clone(), rule }));
    let db = Db::open(&options, "/other").unwrap();
    for i in 0..4 {
        db.put("a", format!("{i}")).unwrap();
        db.put("z", format!("{i}")).unwrap();
        db.flush().unwrap();
    }
    // Writes are stopped until a compaction makes room.
    db.put("b", "1").unwrap();
    for _ in 0..3 {
        assert_eq!(scene.begun(), BackgroundErrorReason::Compaction);
        let (old, new) = scene.ended();
        assert_eq!((old.severity(), new.is_none()), (Severity::SoftError, true));
    }
    db.wait_for_background_work().unwrap();
    assert!(db.live_files().iter().all(|file| file.level > 0));
    db.flush().unwrap();
}

#[test]
fn writers_that_waited_for_compactions_without_space_write_once_their_family_is_dropped() {
    let (mut options, scene) = scene_with(i32::MAX, NEVER, true);
    let rule = Mutex::new(Some(tables().forever()));
    options.db.listeners.push(Arc::new(FailCompactions { fs: scene.fs.clone(), rule }));
    let db = Db::open(&options, "/other").unwrap();
    let large = db.create_column_family("large", &options.cf).unwrap();
    for i in 0..4 {
        db.put_cf(&large, "a", format!("{i}")).unwrap();
        db.put_cf(&large, "z", format!("{i}")).unwrap();
        db.flush_opt(&FlushOptions::default(), &[&large]).unwrap();
    }
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put("b", "1"));
        // The next attempt is far away.
        assert_eq!(scene.begun(), BackgroundErrorReason::Compaction);
        options.db.env.clock.sleep(std::time::Duration::from_millis(50));
        assert!(!writer.is_finished());
        db.drop_column_family(&large).unwrap();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.background_error().is_some());
}
