//! After errors and crashes, acknowledged writes are present, and no write is there without the
//! earlier ones.

use esker::internals::env::fault::OpKind;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::observe::{CompactionJobInfo, EventListener, FlushJobInfo, MemTableInfo};
use esker::{
    ColumnFamilyDescriptor, Db, Env, ErrorKind, FlushOptions, Options, Severity, WalRecoveryMode,
    WriteOptions,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

fn open(options: &Options, fs: Arc<dyn FileSystem>) -> esker::Result<Db> {
    let mut options = options.clone();
    options.db.env = Env::with_fs(fs);
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    let families = ["default", "second"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Db::open_cf(&options.db, "/db", families)
}

fn wals(fs: &dyn FileSystem) -> Vec<PathBuf> {
    let names = fs.children(Path::new("/db")).unwrap();
    let mut wals: Vec<_> =
        names.iter().filter(|n| n.ends_with(".log")).map(|n| Path::new("/db").join(n)).collect();
    wals.sort();
    wals
}

#[test]
fn recovery_ends_where_the_end_of_a_wal_was_lost_without_a_trace() {
    let disk = CrashFs::new();
    let db = open(&Options::default(), Arc::new(disk.clone())).unwrap();
    db.put("a", "1").unwrap();
    let first = wals(&disk).pop().unwrap();
    let first_record = disk.file_size(&first).unwrap();
    db.put("b", "2").unwrap();
    db.pause_background_work();
    let no_wait = FlushOptions { wait: false, ..FlushOptions::default() };
    db.flush_opt(&no_wait, &[&db.default_column_family()]).unwrap();
    db.put("c", "3").unwrap();
    assert_eq!(wals(&disk).len(), 2, "the memtable was switched");
    let whole = disk.crash_clone(&CrashChoices::process_kill());
    let crashed = disk.crash_clone(&CrashChoices::process_kill());
    crashed.truncate(&first, first_record).unwrap();
    let mut strict = Options::default();
    strict.db.wal_recovery_mode = WalRecoveryMode::AbsoluteConsistency;
    let refused = open(&strict, Arc::new(crashed.crash_clone(&CrashChoices::process_kill()))).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    for (fs, expected) in [(whole, [true, true, true]), (crashed, [true, false, false])] {
        let db = open(&Options::default(), Arc::new(fs)).unwrap();
        let found = ["a", "b", "c"].map(|key| db.get(key).unwrap().is_some());
        assert_eq!(found, expected);
    }
    db.continue_background_work().unwrap();
}

#[test]
fn writes_after_a_damaged_wal_and_resume_survive_and_the_failed_write_stays_away() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let db = open(&Options::default(), Arc::new(fs.clone())).unwrap();
    db.put("before", "1").unwrap();
    for round in 0..2 {
        // In the second round memtables are empty.
        fs.add_rule(FaultRule::short_write(None).on_name(".log"));
        db.put("failed", "x").unwrap_err();
        assert!(db.put("refused", "x").is_err());
        db.resume().unwrap();
        assert!(db.background_error().is_none());
        if round == 1 {
            db.put("after", "2").unwrap();
        }
        for choices in [CrashChoices::process_kill(), CrashChoices::keep_flushed()] {
            let again = open(&Options::default(), Arc::new(disk.crash_clone(&choices))).unwrap();
            assert_eq!(again.get("before").unwrap().as_deref(), Some(&b"1"[..]));
            assert_eq!(again.get("after").unwrap().is_some(), round == 1);
            assert_eq!(again.get("failed").unwrap(), None);
        }
    }
}

/// Holds the first flush until a WAL has failed. Holds a write that queues a memtable afterwards
/// until some flush is done.
#[derive(Default)]
struct FlushBeforeAnother {
    wal_failed: AtomicBool,
    done: AtomicBool,
}

impl EventListener for FlushBeforeAnother {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        while !self.wal_failed.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
    fn on_flush_completed(&self, _info: &FlushJobInfo) {
        self.done.store(true, Ordering::Relaxed);
    }
    fn on_memtable_sealed(&self, _info: &MemTableInfo) {
        while self.wal_failed.load(Ordering::Relaxed) && !self.done.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_death_at_any_file_operation_of_a_recovery_from_a_damaged_wal_leaves_what_opens() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let mut options = Options::default();
    options.db.max_bgerror_resume_count = 0;
    let flushes = Arc::new(FlushBeforeAnother::default());
    options.db.listeners = vec![flushes.clone()];
    let db = open(&options, Arc::new(fs.clone())).unwrap();
    options.db.listeners.clear();
    let second = db.column_family("second").unwrap();
    let synced = WriteOptions { sync: true, ..WriteOptions::default() };
    db.put_opt(&synced, &db.default_column_family(), "a", "1").unwrap();
    db.put_opt(&synced, &second, "b", "2").unwrap();
    // One family has a memtable whose flush failed, the other only an active one; both need the
    // older WAL.
    db.flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }, &[&second]).unwrap();
    fs.add_rule(FaultRule::short_write(Some(12)).on_name(".log"));
    db.put("failed", "x").unwrap_err();
    fs.add_rule(FaultRule::fail(&[OpKind::Create]).on_name(".sst"));
    flushes.wal_failed.store(true, Ordering::Relaxed);
    while db.int_property("rocksdb.num-running-flushes").unwrap() > 0 {
        std::thread::yield_now();
    }
    let left = Arc::new(Mutex::new(Vec::new()));
    let (disk, leaves, damaged) = (disk.clone(), left.clone(), wals(&disk).pop().unwrap());
    fs.on_op(move |op| {
        let disk = disk.crash_clone(&CrashChoices::process_kill());
        if disk.file_exists(&damaged).unwrap() {
            // A record of five bytes with a wrong checksum.
            disk.new_writable_file(&damaged).unwrap().append(b"\xab\xab\xab\xab\x05\0\x01other").unwrap();
        }
        leaves.lock().unwrap().push((op.to_string(), disk));
    });
    db.resume().unwrap();
    fs.clear_hook();
    let left = std::mem::take(&mut *left.lock().unwrap());
    assert!(left.len() > 20, "{}", left.len());
    for (op, disk) in left {
        let again = open(&options, Arc::new(disk)).unwrap_or_else(|e| panic!("a death before {op}: {e}"));
        let second = again.column_family("second").unwrap();
        assert_eq!(again.get("a").unwrap().as_deref(), Some(&b"1"[..]), "after a crash before {op}");
        assert_eq!(
            again.get_cf(&second, "b").unwrap().as_deref(),
            Some(&b"2"[..]),
            "after a crash before {op}"
        );
        assert_eq!(again.get("failed").unwrap(), None, "after a crash before {op}");
    }
}

#[test]
fn an_atomic_flush_of_an_empty_family_flushes_the_others() {
    let disk = CrashFs::new();
    let mut options = Options::default();
    options.db.atomic_flush = true;
    let db = open(&options, Arc::new(disk.clone())).unwrap();
    let unlogged = WriteOptions::default().disable_wal(true);
    db.put_opt(&unlogged, &db.default_column_family(), "a", "1").unwrap();
    let second = db.column_family("second").unwrap();
    db.flush_opt(&FlushOptions::default(), &[&second]).unwrap();
    let again = open(&options, Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced()))).unwrap();
    assert_eq!(again.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// On a full disk the flush is retried again and again.
#[test]
fn a_flush_that_fails_leaves_no_tables_and_blob_files() {
    let fs = FaultFs::new(Arc::new(CrashFs::new()));
    let mut options = Options::default();
    options.db.atomic_flush = true;
    options.db.max_bgerror_resume_count = 0;
    options.cf.enable_blob_files = true;
    let db = open(&options, Arc::new(fs.clone())).unwrap();
    let second = db.column_family("second").unwrap();
    let files = || {
        let names = fs.children(Path::new("/db")).unwrap().into_iter();
        names.filter(|name| name.ends_with(".sst") || name.ends_with(".blob")).count()
    };
    let second_table = || FaultRule::fail(&[OpKind::Create]).on_name(".sst").nth(1).no_space();
    // It is unknown whether the MANIFEST has the record, so the files stay until another MANIFEST
    // is in force.
    let manifest = || FaultRule::fail(&[OpKind::Sync]).on_name("MANIFEST");
    for (round, (rule, left)) in [(second_table(), 0), (manifest(), 4)].into_iter().enumerate() {
        let before = files();
        db.put("a", "1").unwrap();
        db.put_cf(&second, "a", "1").unwrap();
        fs.add_rule(rule);
        db.flush().unwrap_err();
        fs.clear_rules();
        assert_eq!(files() - before, left, "round {round}");
        db.resume().unwrap();
        db.wait_for_background_work().unwrap();
        assert_eq!(files() - before, 4, "round {round}");
    }
}

#[test]
fn a_failed_sync_of_a_closed_wal_can_be_resumed_from() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let db = open(&Options::default(), Arc::new(fs.clone())).unwrap();
    db.put("a", "1").unwrap();
    let sync = esker::internals::env::OpKind::Sync;
    fs.add_rule(FaultRule::fail(&[sync]).on_name(".log"));
    db.flush().unwrap_err();
    db.resume().unwrap();
    db.put("b", "2").unwrap();
    let again = open(&Options::default(), Arc::new(disk.crash_clone(&CrashChoices::process_kill()))).unwrap();
    assert!(["a", "b"].iter().all(|key| again.get(key).unwrap().is_some()));
}

#[test]
fn merges_are_applied_once_though_recovery_filled_memtables_and_keeps_wals() {
    let disk = CrashFs::new();
    let mut options = Options::default();
    options.db.avoid_flush_during_recovery = true;
    options.cf.merge_operator = Some(esker::builtin::uint64_add());
    let db = open(&options, Arc::new(disk.clone())).unwrap();
    for i in 0..1000_u32 {
        db.merge("sum", 1_u64.to_le_bytes()).unwrap();
        db.put(format!("{i}"), [0; 200]).unwrap();
    }
    options.cf.write_buffer_size = 64 << 10;
    for _ in 0..3 {
        let fs = disk.crash_clone(&CrashChoices::process_kill());
        drop(open(&options, Arc::new(fs.clone())).unwrap());
        let again = open(&options, Arc::new(fs)).unwrap();
        assert_eq!(again.get("sum").unwrap().as_deref(), Some(&1000_u64.to_le_bytes()[..]));
    }
}

/// The first attempt to resume makes a WAL and fails; the second makes another. The first WAL is a
/// recycled old file, whose records must not end a recovery.
#[test]
fn a_second_resume_forgets_the_recycled_wal_of_the_first() {
    let disk = CrashFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let mut options = Options::default();
    options.db.recycle_log_file_num = 2;
    let db = open(&options, Arc::new(fs.clone())).unwrap();
    for round in 0..6 {
        db.put(format!("key{round}"), "1").unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
    }
    db.put("before", "1").unwrap();
    fs.add_rule(FaultRule::short_write(None).on_name(".log"));
    db.put("failed", "x").unwrap_err();
    fs.add_rule(FaultRule::fail_any().on_name(".sst"));
    db.resume().unwrap_err();
    fs.clear_rules();
    db.resume().unwrap();
    db.put_opt(&WriteOptions::default().sync(true), &db.default_column_family(), "after", "2").unwrap();
    for choices in [CrashChoices::process_kill(), CrashChoices::lose_unsynced()] {
        let again = open(&options, Arc::new(disk.crash_clone(&choices))).unwrap();
        assert_eq!(again.get("before").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(again.get("after").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(again.get("failed").unwrap(), None);
    }
}

/// When a compaction begins, waits until no other compaction job runs or is queued, and then makes
/// the creation of tables fail.
struct FailAlone {
    db: OnceLock<Weak<Db>>,
    fs: FaultFs,
    rule: Mutex<Option<FaultRule>>,
}

impl EventListener for FailAlone {
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        let Some(rule) = self.rule.lock().unwrap().take() else { return };
        let db = self.db.get().and_then(Weak::upgrade).unwrap();
        let number = |property| db.int_property(property).unwrap();
        while number("rocksdb.num-running-compactions") > 1 || number("rocksdb.compaction-pending") > 0 {
            std::thread::yield_now();
        }
        self.fs.add_rule(rule);
    }
}

/// A database with four files in level 0 whose compaction failed, and empty memtables.
fn with_failed_compaction(rule: FaultRule) -> (Arc<Db>, FaultFs) {
    let fs = FaultFs::new(Arc::new(CrashFs::new()));
    let rule = Mutex::new(Some(rule.on_name(".sst").forever()));
    let listener = Arc::new(FailAlone { db: OnceLock::new(), fs: fs.clone(), rule });
    let mut options = Options::default();
    options.db.max_background_jobs = 4;
    options.db.max_bgerror_resume_count = 0;
    options.db.listeners = vec![listener.clone()];
    options.cf.level0_file_num_compaction_trigger = 4;
    options.cf.level0_slowdown_writes_trigger = 4;
    options.cf.level0_stop_writes_trigger = 4;
    let db = Arc::new(open(&options, Arc::new(fs.clone())).unwrap());
    assert!(listener.db.set(Arc::downgrade(&db)).is_ok());
    for i in 0..4 {
        db.put("a", format!("{i}")).unwrap();
        db.put("z", format!("{i}")).unwrap();
        db.flush().unwrap();
    }
    while db.background_error().is_none() {
        std::thread::yield_now();
    }
    fs.clear_rules();
    (db, fs)
}

#[test]
fn resume_takes_up_compactions_that_were_given_up() {
    let (db, _fs) = with_failed_compaction(FaultRule::fail(&[OpKind::Create]).no_space());
    db.put("a", "5").unwrap_err();
    db.resume().unwrap();
    db.wait_for_background_work().unwrap();
    assert!(db.live_files().iter().all(|file| file.level > 0), "writers would wait without end");
    db.put("a", "5").unwrap();
}

#[test]
fn flushes_go_on_after_an_error_that_keeps_compactions_only_from_running() {
    let (db, _fs) = with_failed_compaction(FaultRule::fail(&[OpKind::Create]).retryable(true));
    let error = db.background_error().unwrap();
    assert_eq!(error.severity(), Severity::SoftError);
    // Level 0 is full, and no job will make room: writers get the error.
    assert_eq!(db.put("a", "5").unwrap_err().kind(), error.kind());
    db.flush().unwrap();
    db.set_options(&db.default_column_family(), &[("level0_stop_writes_trigger", "40")]).unwrap();
    db.put("a", "5").unwrap();
    db.flush().unwrap();
    assert_eq!(db.live_files().iter().filter(|file| file.level == 0).count(), 5);
    assert_eq!(db.background_error().map(|e| e.severity()), Some(Severity::SoftError));
    db.resume().unwrap();
    db.wait_for_background_work().unwrap();
    assert!(db.live_files().iter().all(|file| file.level > 0));
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"5"[..]));
}
