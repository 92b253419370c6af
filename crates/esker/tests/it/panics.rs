//! Users' callbacks may panic in background jobs and in writes: callers get an error, and no caller
//! waits in vain.

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::base::Severity;
use esker::internals::base::comparator::Comparator;
use esker::internals::base::merge_operator::MergeOperator;
use esker::internals::env::fault::OpKind;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FaultFs, FaultRule};
use esker::observe::{
    BackgroundErrorReason, BackgroundErrorRecoveryInfo, EventListener, FlushJobInfo, MemTableInfo,
};
use esker::{ColumnFamilyDescriptor, CompactRangeOptions, Db, Env, Error, ErrorKind, Options};
use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicBool};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Panics while its flag is set.
#[derive(Default)]
struct Touchy(AtomicBool);

impl Touchy {
    fn may_panic(&self) {
        assert!(!self.0.load(atomic::Ordering::SeqCst), "touched");
    }

    fn set(&self, panics: bool) {
        self.0.store(panics, atomic::Ordering::SeqCst);
    }
}

impl CompactionFilter for Touchy {
    fn name(&self) -> &str {
        "touchy"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        self.may_panic();
        FilterDecision::Keep
    }
}

impl MergeOperator for Touchy {
    fn name(&self) -> &str {
        "touchy"
    }

    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.may_panic();
        Some([&[existing.unwrap_or_default()], operands].concat().concat())
    }
}

impl Comparator for Touchy {
    fn name(&self) -> &str {
        "touchy"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.may_panic();
        a.cmp(b)
    }
}

impl EventListener for Touchy {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        self.may_panic();
    }
}

/// A listener that panics at the end of a recovery, and, while its flag is set, at sealed
/// memtables.
struct Ticklish {
    touchy: Touchy,
    told: Mutex<Sender<()>>,
}

impl EventListener for Ticklish {
    fn on_error_recovery_end(&self, info: &BackgroundErrorRecoveryInfo) {
        self.told.lock().unwrap().send(()).unwrap();
        panic!("touched by {info:?}");
    }

    fn on_memtable_sealed(&self, _info: &MemTableInfo) {
        self.touchy.may_panic();
    }
}

fn ticklish() -> (Arc<Ticklish>, Receiver<()>) {
    let (tell, told) = channel();
    (Arc::new(Ticklish { touchy: Touchy::default(), told: Mutex::new(tell) }), told)
}

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.disable_auto_compactions = true;
    options
}

fn count(db: &Db) -> usize {
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    let mut n = 0;
    while iter.valid() {
        n += 1;
        iter.next();
    }
    iter.status().unwrap();
    n
}

fn check(error: &Error, severity: Severity, what: &str) {
    assert_eq!((error.kind(), error.severity()), (ErrorKind::Aborted, severity), "{error}");
    assert!(error.message().contains(what) && error.message().contains("touched"), "{error}");
}

#[test]
fn a_compaction_filter_that_panics_fails_the_compaction_and_loses_nothing() {
    let filter = Arc::new(Touchy::default());
    let mut options = options();
    options.cf.compaction_filter = Some(filter.clone());
    options.db.max_subcompactions = 3;
    options.cf.target_file_size_base = 4096;
    options.cf.table.block_size = 256;
    let db = Db::open(&options, "/db").unwrap();
    for i in 0..2000 {
        db.put(format!("key{i:05}"), [7; 40]).unwrap();
    }
    db.flush().unwrap();
    let before = db.live_files().len();

    filter.set(true);
    let by_hand = CompactRangeOptions::default();
    let family = db.default_column_family();
    let error = db.compact_range_opt(&by_hand, &family, None, None).unwrap_err();
    check(&error, Severity::HardError, "a compaction panicked");
    check(&db.put("key", "value").unwrap_err(), Severity::HardError, "a compaction panicked");
    assert_eq!(db.live_files().len(), before);
    assert_eq!(count(&db), 2000);

    filter.set(false);
    db.resume().unwrap();
    db.put("key", "value").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(count(&db), 2001);
    db.close().unwrap();
}

#[test]
fn a_merge_operator_that_panics_fails_the_flush_and_loses_nothing() {
    let operator = Arc::new(Touchy::default());
    let mut options = options();
    options.cf.merge_operator = Some(operator.clone());
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "a").unwrap();
    db.merge("key", "b").unwrap();

    operator.set(true);
    check(&db.flush().unwrap_err(), Severity::HardError, "a flush panicked");
    check(&db.background_error().unwrap(), Severity::HardError, "a flush panicked");
    check(&db.resume().unwrap_err(), Severity::HardError, "a flush panicked");

    operator.set(false);
    db.resume().unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"ab");
    assert_eq!(db.live_files().len(), 1);
    db.close().unwrap();
    assert_eq!(Db::open(&options, "/db").unwrap().get("key").unwrap().unwrap(), b"ab");
}

#[test]
fn a_listener_that_panics_stops_the_database_until_it_is_opened_again() {
    let listener = Arc::new(Touchy::default());
    let mut options = options();
    options.db.listeners.push(listener.clone());
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();

    listener.set(true);
    check(&db.flush().unwrap_err(), Severity::FatalError, "a flush panicked");
    listener.set(false);
    check(&db.resume().unwrap_err(), Severity::FatalError, "a flush panicked");
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    db.close().unwrap();

    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    db.flush().unwrap();
}

#[test]
fn a_comparator_that_panics_in_a_write_stops_writes_and_keeps_no_writer_waiting() {
    let comparator = Arc::new(Touchy::default());
    let mut options = options();
    options.cf.comparator = comparator.clone();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    comparator.set(true);
    // Some writers lead and some follow: each gets the error.
    let errors = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|i| {
                let db = db.clone();
                scope.spawn(move || db.put(format!("key{i}"), vec![1; 30_000]).unwrap_err())
            })
            .collect();
        writers.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    errors.iter().for_each(|e| check(e, Severity::HardError, "a write panicked"));
    comparator.set(false);
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert_eq!(count(&db), 1);
    db.close().unwrap();
    // No failed write reappears.
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert_eq!(count(&db), 1);
    db.put("b", "2").unwrap();
}

/// The next creation of a table fails.
fn no_table() -> FaultRule {
    FaultRule::fail(&[OpKind::Create]).on_name(".sst").retryable(true).times(1)
}

#[test]
fn listeners_that_panic_do_not_keep_a_database_from_going_on_by_itself() {
    let (listener, told) = ticklish();
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.listeners.push(listener);
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..3 {
        db.put(format!("key{round}"), "value").unwrap();
        fs.add_rule(no_table());
        // The flush returns the error, or waits until it is lifted.
        _ = db.flush();
        told.recv().unwrap();
    }
    assert_eq!(count(&db), 3);
    db.close().unwrap();
}

#[test]
fn a_listener_that_panics_in_resume_blocks_no_waiter() {
    let (listener, _told) = ticklish();
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.max_bgerror_resume_count = 0;
    options.db.listeners.push(listener.clone());
    let db = Db::open(&options, "/db").unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    db.put("key", "value").unwrap();
    db.put_cf(&other, "key", "value").unwrap();
    fs.add_rule(no_table());
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::IoError);
    listener.touchy.set(true);
    let error = db.resume().unwrap_err();
    assert!(error.message().contains("touched"), "{error}");
    listener.touchy.set(false);
    assert_eq!(db.resume().unwrap_err().severity(), Severity::FatalError);
    db.close().unwrap();
    let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    let other = db.column_family("other").unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"value");
    assert_eq!(db.get_cf(&other, "key").unwrap().unwrap(), b"value");
}

/// A listener that panics when it is notified of an error.
struct Nervous;

impl EventListener for Nervous {
    fn on_background_error(&self, _reason: BackgroundErrorReason, error: &mut Option<Error>) {
        let error = error.take();
        panic!("touched by {error:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a writer who waits for ever is left behind")]
fn an_error_is_in_force_and_told_to_all_writers_though_a_listener_panics_at_it() {
    const WRITERS: usize = 8;
    for op in [OpKind::Create, OpKind::Append] {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(fs.clone()));
        options.db.max_bgerror_resume_count = 0;
        options.db.listeners.push(Arc::new(Nervous));
        let db = Db::open(&options, "/db").unwrap();
        db.put("key", "value").unwrap();
        let (tell, told) = channel();
        let name = if op == OpKind::Create { ".sst" } else { ".log" };
        fs.add_rule(FaultRule::fail(&[op]).on_name(name).retryable(true).times(1));
        for i in 0..WRITERS {
            let (db, tell) = (db.clone(), tell.clone());
            std::thread::spawn(move || {
                let result = match op {
                    OpKind::Create => db.flush(),
                    _ => db.put(format!("key{i}"), vec![1; 30_000]),
                };
                tell.send(result).unwrap_or_default();
            });
        }
        for _ in 0..WRITERS {
            let result = told.recv_timeout(Duration::from_secs(120)).expect("nobody waits in vain");
            assert_eq!(result.unwrap_err().kind(), ErrorKind::IoError);
        }
        db.resume().unwrap();
        db.put("key", "again").unwrap();
        db.flush().unwrap();
        assert_eq!(db.get("key").unwrap().unwrap(), b"again");
    }
}
