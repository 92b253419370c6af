//! A listener may clear an error: the database continues, callers that wait for the failed work get
//! the error, and the work is retried.

use esker::internals::env::fault::OpKind;
use esker::internals::env::{FaultFs, FaultRule, MemFs};
use esker::observe::{BackgroundErrorReason, CompactionJobInfo, EventListener, MemTableInfo};
use esker::{Db, Env, Error, ErrorKind, FlushOptions, Options, WriteOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any step of these tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// A listener that clears errors while its flag is set, and records the times of its calls.
struct Careless {
    calls_off: AtomicBool,
    asked: Mutex<Vec<Instant>>,
    /// Whether the thread that seals a memtable waits until its flush has failed.
    waits_for_failure: AtomicBool,
    /// A compaction of this database waits until another thread has emptied the queue.
    queue_of: Mutex<Option<Db>>,
}

impl EventListener for Careless {
    #[expect(clippy::disallowed_methods, reason = "pauses are real ones")]
    fn on_background_error(&self, _reason: BackgroundErrorReason, error: &mut Option<Error>) {
        self.asked.lock().unwrap().push(Instant::now());
        if self.calls_off.load(Ordering::Relaxed) {
            *error = None;
        }
    }

    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        let database = self.queue_of.lock().unwrap().clone();
        if let Some(db) = database {
            wait_until(|| db.int_property("rocksdb.compaction-pending") == Some(0));
        }
    }

    fn on_memtable_sealed(&self, _info: &MemTableInfo) {
        if self.waits_for_failure.load(Ordering::Relaxed) {
            wait_until(|| !self.asked.lock().unwrap().is_empty());
            // The database records the failure right after it has called the listeners.
            wait_briefly();
        }
    }
}

struct Scene {
    db: Db,
    fs: FaultFs,
    listener: Arc<Careless>,
}

fn scene(change: impl Fn(&mut Options)) -> Scene {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let listener = Arc::new(Careless {
        calls_off: AtomicBool::new(true),
        asked: Mutex::default(),
        waits_for_failure: AtomicBool::new(false),
        queue_of: Mutex::default(),
    });
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.db.max_bgerror_resume_count = 0;
    options.db.listeners = vec![listener.clone()];
    change(&mut options);
    Scene { db: Db::open(&options, "/db").unwrap(), fs, listener }
}

fn no_table() -> FaultRule {
    FaultRule::fail(&[OpKind::Create]).on_name(".sst").retryable(true)
}

/// The result of `work`, which must end within [`PATIENCE`].
#[expect(clippy::disallowed_methods, reason = "a thread that waits for ever is left behind")]
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(work()).unwrap_or_default());
    told.recv_timeout(PATIENCE).expect("nobody waits in vain")
}

#[expect(clippy::disallowed_methods, reason = "the database gives no sign")]
fn wait_briefly() {
    std::thread::sleep(Duration::from_millis(50));
}

#[expect(clippy::disallowed_methods, reason = "it is done by itself, and says so to nobody")]
fn wait_until(what: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < end, "the job is not repeated");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_flush_whose_error_is_called_off_fails_for_its_waiter_and_is_repeated() {
    for atomic_flush in [false, true] {
        let Scene { db, fs, listener } = scene(|options| options.db.atomic_flush = atomic_flush);
        db.put("key", "value").unwrap();
        fs.add_rule(no_table().times(1));
        let waiting = db.clone();
        let error = in_time(move || waiting.flush()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError);
        assert!(db.background_error().is_none());
        // The flush succeeds without another request and without writes.
        wait_until(|| db.live_files().len() == 1);
        assert_eq!(listener.asked.lock().unwrap().len(), 1);
        db.put("key", "again").unwrap();
        let waiting = db.clone();
        in_time(move || waiting.flush()).unwrap();
    }
}

#[test]
fn a_flush_that_fails_before_its_caller_waits_gives_the_caller_its_error() {
    for atomic_flush in [false, true] {
        let Scene { db, fs, listener } = scene(|options| options.db.atomic_flush = atomic_flush);
        db.put("key", "value").unwrap();
        listener.waits_for_failure.store(true, Ordering::Relaxed);
        fs.add_rule(no_table().times(1));
        let waiting = db.clone();
        assert_eq!(in_time(move || waiting.flush()).unwrap_err().kind(), ErrorKind::IoError);
        listener.waits_for_failure.store(false, Ordering::Relaxed);
        // An error of an earlier flush is not that of a later one.
        let waiting = db.clone();
        in_time(move || waiting.flush()).unwrap();
        assert_eq!(db.live_files().len(), 1);
    }
}

#[test]
fn writers_do_not_wait_for_ever_for_flushes_whose_errors_are_called_off() {
    let Scene { db, fs, .. } = scene(|options| options.cf.write_buffer_size = 64 << 10);
    fs.add_rule(no_table().times(2));
    let writing = db.clone();
    in_time(move || (0..40).try_for_each(|i| writing.put(format!("key{i}"), vec![0; 20_000]))).unwrap();
    assert_eq!(db.get("key0").unwrap().unwrap().len(), 20_000);
}

#[test]
fn a_recovery_whose_error_is_called_off_ends_with_it() {
    let Scene { db, fs, listener } = scene(|_| ());
    db.put("key", "value").unwrap();
    listener.calls_off.store(false, Ordering::Relaxed);
    fs.add_rule(no_table().times(2));
    db.flush().unwrap_err();
    listener.calls_off.store(true, Ordering::Relaxed);
    let resuming = db.clone();
    assert_eq!(in_time(move || resuming.resume()).unwrap_err().kind(), ErrorKind::IoError);
    assert!(db.background_error().is_some(), "the error stays in force after a failed `resume`");
    db.resume().unwrap();
    assert_eq!(db.live_files().len(), 1);
}

#[test]
fn work_whose_error_is_called_off_is_not_tried_again_without_a_pause() {
    let Scene { db, fs, listener } = scene(|options| {
        options.cf.level0_file_num_compaction_trigger = 2;
        options.db.max_background_jobs = 1;
    });
    for value in ["one", "two"] {
        db.put("key", value).unwrap();
        if value == "two" {
            // The second table belongs to a flush; later ones belong to the compaction.
            fs.add_rule(no_table().nth(1).times(2));
        }
        db.flush().unwrap();
    }
    wait_until(|| db.live_files().iter().all(|file| file.level > 0));
    let asked = listener.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    assert!(asked[1] - asked[0] > Duration::from_millis(900), "{:?}", asked[1] - asked[0]);
}

#[test]
fn a_compaction_whose_error_is_called_off_is_repeated_though_its_family_has_left_the_queue() {
    let Scene { db, fs, listener } = scene(|options| {
        options.cf.level0_file_num_compaction_trigger = 2;
        options.db.max_background_jobs = 4;
    });
    *listener.queue_of.lock().unwrap() = Some(db.clone());
    db.put("key", "one").unwrap();
    db.flush().unwrap();
    db.put("key", "two").unwrap();
    // The second table belongs to the compaction.
    fs.add_rule(no_table().nth(1).times(1));
    db.flush().unwrap();
    wait_until(|| db.live_files().iter().all(|file| file.level > 0));
    assert_eq!(listener.asked.lock().unwrap().len(), 1);
    *listener.queue_of.lock().unwrap() = None;
}

#[test]
fn a_wal_that_takes_no_more_records_is_an_error_in_force_whatever_listeners_say() {
    let Scene { db, fs, .. } = scene(|_| ());
    let sync = WriteOptions::default().sync(true);
    fs.add_rule(FaultRule::fail(&[OpKind::Sync]).on_name(".log").times(1));
    db.put_opt(&sync, &db.default_column_family(), "a", "1").unwrap_err();
    assert!(db.background_error().is_some());
    db.resume().unwrap();
    db.put_opt(&sync, &db.default_column_family(), "b", "2").unwrap();
    db.flush_opt(&FlushOptions::default(), &[&db.default_column_family()]).unwrap();
}
