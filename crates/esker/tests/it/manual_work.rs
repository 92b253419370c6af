//! Manual compactions that are disabled, cancelled or suggested; waiting for background work.

use esker::internals::env::mem::MemFs;
use esker::observe::{CompactionJobInfo, EventListener, FlushJobInfo};
use esker::options::{CompactRangeOptions, WaitForCompactOptions};
use esker::{CompactionOptions, Db, Env, Error, ErrorKind, FileNumber, FlushOptions, Options, SubCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Reports that a compaction or flush has begun, and holds it until the test lets it continue.
struct Holder {
    begun: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
    /// Status and `aborted` of each compaction that has ended.
    ended: Mutex<Vec<(Result<(), Error>, bool)>>,
}

impl Holder {
    fn hold(&self) {
        self.begun.lock().unwrap().send(()).unwrap_or_default();
        self.go_on.lock().unwrap().recv().unwrap_or_default();
    }
}

impl EventListener for Holder {
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        self.hold();
    }
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.ended.lock().unwrap().push((info.status.clone(), info.aborted));
    }
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if info.cf_name == "held" {
            self.hold();
        }
    }
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options
}

fn held(options: &mut Options) -> (Arc<Holder>, Receiver<()>, Sender<()>) {
    let ((begun, wait_begun), (go_on, wait_go_on)) = (channel(), channel());
    let holder = Holder { begun: Mutex::new(begun), go_on: Mutex::new(wait_go_on), ended: Mutex::default() };
    let holder = Arc::new(holder);
    options.db.listeners = vec![holder.clone()];
    (holder, wait_begun, go_on)
}

/// Writes `tables` overlapping tables into level 0.
fn fill(db: &Db, tables: usize) {
    for round in 0..tables {
        for key in 0..100 {
            db.put(format!("key{key:04}"), format!("value{round}")).unwrap();
        }
        db.flush().unwrap();
    }
}

fn levels(db: &Db) -> Vec<usize> {
    let mut count = vec![0; 7];
    db.live_files().iter().for_each(|file| count[file.level] += 1);
    count
}

fn numbers(db: &Db) -> Vec<FileNumber> {
    db.live_files().iter().map(|file| file.file_number).collect()
}

fn is_paused(result: Result<(), Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.to_string(), "Result incomplete: Manual compaction paused");
    assert_eq!(error.subcode(), SubCode::ManualCompactionPaused);
}

/// grocksdb calls `EnableManualCompaction` on a fresh database, and disables it afterwards.
#[test]
fn the_count_of_disabling_calls_may_go_below_zero() {
    let db = Db::open(&options(), "/db").unwrap();
    fill(&db, 2);
    db.enable_manual_compaction();
    db.disable_manual_compaction();
    db.compact_range(None, None).unwrap();
    db.disable_manual_compaction();
    db.disable_manual_compaction();
    fill(&db, 1);
    is_paused(db.compact_range(None, None));
    let family = db.default_column_family();
    is_paused(db.compact_files(&CompactionOptions::default(), &family, &numbers(&db), 1).map(drop));
    db.enable_manual_compaction();
    is_paused(db.compact_range(None, None));
    db.enable_manual_compaction();
    db.compact_range(None, None).unwrap();
}

#[test]
fn disabling_stops_compactions_that_run_or_wait_and_waits_for_their_ends() {
    // A thread that misses its wake-up does so in some of the rounds.
    for files in [false, true].repeat(10) {
        let mut options = options();
        let (holder, begun, go_on) = held(&mut options);
        let db = Db::open(&options, "/db").unwrap();
        fill(&db, 2);
        let before = db.live_files();
        let (db, begun) = (&db, &begun);
        std::thread::scope(move |scope| {
            let compacting = scope.spawn(move || match files {
                false => db.compact_range(None, None),
                true => {
                    let (options, family) = (CompactionOptions::default(), db.default_column_family());
                    db.compact_files(&options, &family, &numbers(db), 1).map(drop)
                }
            });
            begun.recv().unwrap();
            // The second compaction waits for the running one.
            let waiting = scope.spawn(move || db.compact_range(None, None));
            let disabling = scope.spawn(move || db.disable_manual_compaction());
            is_paused(waiting.join().unwrap());
            assert!(!disabling.is_finished());
            go_on.send(()).unwrap();
            disabling.join().unwrap();
            is_paused(compacting.join().unwrap());
            // From here on, or if an assertion fails, the holder holds no compaction.
            drop(go_on);
        });
        assert_eq!(db.live_files(), before);
        let ended = holder.ended.lock().unwrap().pop().unwrap();
        assert!(ended.1, "the job was aborted and did not fail");
        is_paused(ended.0);
        assert!(db.background_error().is_none());
        db.enable_manual_compaction();
        db.compact_range(None, None).unwrap();
        assert_eq!(levels(db)[0], 0);
    }
}

#[test]
fn a_callers_own_flag_cancels_its_compaction() {
    let mut options = options();
    let (_holder, begun, go_on) = held(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 2);
    let canceled = Arc::new(AtomicBool::new(true));
    let family = db.default_column_family();
    let range = CompactRangeOptions::default().canceled(canceled.clone());
    is_paused(db.compact_range_opt(&range, &family, None, None));
    let these = CompactionOptions::default().canceled(canceled.clone());
    is_paused(db.compact_files(&these, &family, &numbers(&db), 1).map(drop));
    canceled.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range_opt(&range, &family, None, None));
        begun.recv().unwrap();
        canceled.store(true, Ordering::SeqCst);
        go_on.send(()).unwrap();
        is_paused(compacting.join().unwrap());
    });
    assert_eq!(levels(&db)[0], 2);
    // A close cancels nothing.
    canceled.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range_opt(&range, &family, None, None));
        begun.recv().unwrap();
        db.cancel_all_background_work(false).unwrap();
        go_on.send(()).unwrap();
        let error = compacting.join().unwrap().unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Incomplete, "{error}");
    });
}

#[test]
fn suggested_tables_go_one_level_down_in_the_background() {
    let mut options = options();
    options.cf.level0_file_num_compaction_trigger = 100;
    let db = Db::open(&options, "/db").unwrap();
    let family = db.default_column_family();
    fill(&db, 1);
    db.set_options(&family, &[("disable_auto_compactions", "false")]).unwrap();
    db.suggest_compact_range(&family, None, None).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(levels(&db)[..3], [1, 0, 0], "the last level with files is not compacted");
    db.compact_range(None, None).unwrap();
    fill(&db, 2);
    db.suggest_compact_range(&family, Some(b"key1"), Some(b"key2")).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(levels(&db)[..3], [2, 1, 0], "no table has keys of the range");
    db.suggest_compact_range(&family, Some(b"key0050"), None).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(levels(&db)[..3], [0, 1, 0]);
    // Level 1 is empty, so the new file moves there, and no further.
    db.compact_files(&CompactionOptions::default(), &family, &numbers(&db), 4).unwrap();
    db.put("other", "value").unwrap();
    db.flush().unwrap();
    db.suggest_compact_range(&family, None, Some(b"zoo")).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(levels(&db)[..5], [0, 1, 0, 0, 1]);
    db.set_options(&family, &[("disable_auto_compactions", "true")]).unwrap();
    fill(&db, 1);
    db.suggest_compact_range(&family, None, None).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(levels(&db)[0], 1, "the family does not compact by itself");
    db.close().unwrap();
    let closed = db.suggest_compact_range(&family, None, None).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::ShutdownInProgress);
}

#[test]
fn waiting_for_compactions_ends_by_time_pause_error_or_close() {
    let mut options = options();
    let (_holder, begun, go_on) = held(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    let family = db.create_column_family("held", &options.cf).unwrap();
    let wait = |options: &WaitForCompactOptions| db.wait_for_compact(options);
    let plain = WaitForCompactOptions::default();
    wait(&plain).unwrap();
    db.put_cf(&family, "a", "1").unwrap();
    wait(&plain).unwrap();
    assert_eq!(db.column_family_metadata(&family).file_count, 0, "no flush was due");
    let no_wait = FlushOptions::default().wait(false);
    db.flush_opt(&no_wait, &[&family]).unwrap();
    begun.recv().unwrap();
    let error = wait(&plain.timeout(Duration::from_millis(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&plain.abort_on_pause(true)));
        let pausing = scope.spawn(|| db.pause_background_work());
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::Aborted);
        go_on.send(()).unwrap();
        pausing.join().unwrap();
    });
    db.put_cf(&family, "b", "2").unwrap();
    db.flush_opt(&no_wait, &[&family]).unwrap();
    let error = wait(&plain.timeout(Duration::from_millis(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "paused");
    drop(go_on);
    db.continue_background_work().unwrap();
    wait(&plain).unwrap();
    assert_eq!(db.column_family_metadata(&family).file_count, 2);
    db.put("c", "3").unwrap();
    wait(&plain.flush(true).wait_for_purge(true)).unwrap();
    assert_eq!(db.column_family_metadata(&db.default_column_family()).file_count, 1);
    wait(&plain.close_db(true).timeout(Duration::from_secs(60))).unwrap();
    assert_eq!(db.get("c").unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    assert_eq!(wait(&plain).unwrap_err().kind(), ErrorKind::ShutdownInProgress);
}
