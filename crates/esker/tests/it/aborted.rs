//! Compactions that are aborted, and resumed (`abort_all_compactions`, `abort_compactions`).

use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::internals::env::mem::MemFs;
use esker::stats::{Statistics, Ticker};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, Error, FlushOptions, Options, SubCode,
    WaitForCompactOptions,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.level0_file_num_compaction_trigger = 2;
    options
}

fn open(options: &Options) -> (Db, ColumnFamilyHandle) {
    let families =
        ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).to_vec();
    let db = Db::open_cf(&options.db, "/aborted", families).unwrap();
    let other = db.column_family("other").unwrap();
    (db, other)
}

fn write_table(db: &Db, family: &ColumnFamilyHandle, value: usize) {
    for n in 0..20 {
        db.put_cf(family, format!("{n:03}"), format!("{value}")).unwrap();
    }
    db.flush_opt(&FlushOptions::default().allow_write_stall(true), &[family]).unwrap();
}

fn level0(db: &Db, family: &ColumnFamilyHandle) -> u64 {
    db.property_cf(family, "rocksdb.num-files-at-level0").unwrap().parse().unwrap()
}

fn wait_briefly(db: &Db) -> esker::Result<()> {
    db.wait_for_compact(&WaitForCompactOptions::default().timeout(Duration::from_millis(300)))
}

fn is_aborted(e: &Error) -> bool {
    e.subcode() == SubCode::CompactionAborted && e.to_string().contains("All compactions aborted")
}

#[test]
fn nothing_is_compacted_until_each_abort_is_undone() {
    let options = options();
    let (db, other) = open(&options);
    let family = db.default_column_family();
    db.abort_all_compactions();
    db.abort_all_compactions();
    (0..4).for_each(|value| write_table(&db, &family, value));
    assert!(is_aborted(&db.compact_range(None, None).unwrap_err()));
    let files: Vec<_> = db.live_files().iter().map(|file| file.file_number).collect();
    let refused = db.compact_files(&Default::default(), &family, &files, 6).unwrap_err();
    assert!(is_aborted(&refused), "{refused}");
    // The work is due, so a wait for it does not end.
    assert!(wait_briefly(&db).is_err());
    assert_eq!(level0(&db, &family), 4);
    db.resume_all_compactions();
    assert!(wait_briefly(&db).is_err());
    // One family has an abort of its own.
    db.abort_compactions(&family).unwrap();
    db.resume_all_compactions();
    write_table(&db, &other, 0);
    write_table(&db, &other, 1);
    while level0(&db, &other) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(level0(&db, &family), 4);
    db.resume_compactions(&family).unwrap();
    // Undoing more than was done changes nothing.
    db.resume_compactions(&family).unwrap();
    db.resume_all_compactions();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(level0(&db, &family), 0);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get("007").unwrap().as_deref(), Some(&b"3"[..]));
}

/// A filter that waits in its first call.
#[derive(Default)]
struct Gate {
    begun: AtomicBool,
    open: AtomicBool,
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "Gate"
    }

    fn filter(&self, _level: usize, _key: &[u8], _value: &[u8]) -> FilterDecision {
        if !self.begun.swap(true, Ordering::SeqCst) {
            until(|| self.open.load(Ordering::SeqCst));
        }
        FilterDecision::Keep
    }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Whether an abort is in force.
fn refuses(db: &Db) -> bool {
    db.compact_files(&Default::default(), &db.default_column_family(), &[], 6).is_err_and(|e| is_aborted(&e))
}

/// A compaction that runs, automatic or manual, ends before the abort returns, and leaves no file.
#[test]
fn a_running_compaction_is_cancelled_and_its_outputs_go() {
    for manual in [false, true] {
        let gate = Arc::new(Gate::default());
        let mut options = options();
        options.cf.disable_auto_compactions = manual;
        options.cf.compaction_filter = Some(gate.clone());
        let (db, _) = open(&options);
        let family = db.default_column_family();
        write_table(&db, &family, 0);
        write_table(&db, &family, 1);
        std::thread::scope(|scope| {
            let compaction = manual.then(|| scope.spawn(|| db.compact_range(None, None)));
            until(|| gate.begun.load(Ordering::SeqCst));
            let abort = scope.spawn(|| db.abort_all_compactions());
            until(|| refuses(&db));
            assert!(!abort.is_finished(), "it waits for the compaction");
            gate.open.store(true, Ordering::SeqCst);
            abort.join().unwrap();
            if let Some(compaction) = compaction {
                assert!(is_aborted(&compaction.join().unwrap().unwrap_err()));
            }
        });
        assert_eq!(level0(&db, &family), 2, "manual: {manual}");
        let statistics = options.db.statistics.as_ref().unwrap();
        assert_eq!(statistics.ticker_count(Ticker::CompactionAborted), 1, "manual: {manual}");
        assert!(db.background_error().is_none());
        let names = options.db.env.fs.children(Path::new("/aborted")).unwrap();
        assert_eq!(names.iter().filter(|name| name.ends_with(".sst")).count(), 2, "{names:?}");
        db.resume_all_compactions();
        db.compact_range(None, None).unwrap();
        assert_eq!(level0(&db, &family), 0);
        assert_eq!(db.get("007").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_database_with_aborted_compactions_closes_and_opens() {
    let options = options();
    let (db, other) = open(&options);
    db.abort_all_compactions();
    db.abort_compactions(&other).unwrap();
    (0..3).for_each(|value| write_table(&db, &other, value));
    db.drop_column_family(&other).unwrap();
    // A dropped family is due for nothing.
    db.wait_for_background_work().unwrap();
    assert!(db.abort_compactions(&other).is_err());
    db.close().unwrap();
    drop((db, other));
    let (db, other) = open(&options);
    (0..3).for_each(|value| write_table(&db, &other, value));
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert!(level0(&db, &other) < 2);
}
