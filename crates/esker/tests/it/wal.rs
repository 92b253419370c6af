//! WALs, recycled and not, over several opens.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FileSystem};
use esker::observe::{EventListener, FlushJobInfo, TableFileCreationInfo};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyId, Db, Env, ErrorKind, FlushOptions, ImportColumnFamilyOptions,
    Options, SstFileWriter, WriteOptions,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.avoid_flush_during_recovery = true;
    options.db.avoid_flush_during_shutdown = true;
    options
}

fn put_unlogged(db: &Db, key: &str) -> esker::Result<()> {
    db.put_opt(&WriteOptions::default().disable_wal(true), &db.default_column_family(), key, "value")
}

#[test]
fn a_write_without_a_wal_is_refused_where_wals_are_recycled() {
    let mut options = options();
    options.db.recycle_log_file_num = 1;
    let db = Db::open(&options, "/db").unwrap();
    let error = put_unlogged(&db, "a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(db.get("a").unwrap(), None);
    db.put("a", "value").unwrap();
}

#[test]
fn writes_behind_a_recycled_wal_survive_though_one_between_them_was_not_logged() {
    let mut options = options();
    options.db.recycle_log_file_num = 2;
    let db = Db::open(&options, "/db").unwrap();
    // The first files are long, so they end with old records when they are recycled.
    for round in 0..4 {
        for i in 0..100 {
            db.put(format!("{round}-{i}"), "value").unwrap();
        }
        db.flush().unwrap();
    }
    db.put("first", "value").unwrap();
    drop(db);
    options.db.recycle_log_file_num = 0;
    let db = Db::open(&options, "/db").unwrap();
    put_unlogged(&db, "unlogged").unwrap();
    db.put("second", "value").unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert!(db.get("first").unwrap().is_some());
    assert!(db.get("second").unwrap().is_some());
    assert_eq!(db.get("unlogged").unwrap(), None);
}

/// The next WAL may be empty: then a reader cannot find out whether records are missing.
#[test]
fn a_recycled_wal_ends_with_its_last_record_once_another_is_begun() {
    for synced in [false, true] {
        let disk = CrashFs::new();
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        options.db.recycle_log_file_num = 2;
        options.db.create_missing_column_families = true;
        let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let db = Db::open_cf(&options.db, "/db", families).unwrap();
        let families = [db.default_column_family(), db.column_family("other").unwrap()];
        let put = |key: &str| {
            for family in &families {
                db.put_opt(&WriteOptions::default().sync(synced), family, key, "value").unwrap();
            }
        };
        for round in 0..4 {
            (0..100).for_each(|i| put(&format!("{round}-{i}")));
            db.flush_opt(&FlushOptions::default(), &[&families[0], &families[1]]).unwrap();
            db.wait_for_background_work().unwrap();
        }
        put("last");
        db.flush().unwrap();
        for choices in [CrashChoices::process_kill(), CrashChoices::lose_unsynced()] {
            let left = disk.crash_clone(&choices);
            let mut wals = left.children(Path::new("/db")).unwrap();
            wals.retain(|name| name.ends_with(".log"));
            wals.sort();
            let needed = &wals[wals.len() - 2];
            let bytes = left.file_size(&Path::new("/db").join(needed)).unwrap();
            assert!((50..500).contains(&bytes), "{needed} of {wals:?} has {bytes} bytes; synced: {synced}");
        }
    }
}

#[test]
fn a_wal_from_before_the_open_is_not_written_over() {
    // Its records may lack the log number that distinguishes new records of a recycled file from
    // old ones.
    let mut options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "value").unwrap();
    drop(db);
    let wals = |options: &Options| {
        let mut names = options.db.env.fs.children(std::path::Path::new("/db")).unwrap();
        names.retain(|name| name.ends_with(".log"));
        names.sort();
        names
    };
    let before = wals(&options);
    assert_eq!(before.len(), 1);
    options.db.recycle_log_file_num = 2;
    let db = Db::open(&options, "/db").unwrap();
    assert!(wals(&options).contains(&before[0]), "the first WAL is still needed");
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert!(!wals(&options).contains(&before[0]), "the first WAL is deleted, not recycled");
}

/// Options of a closed database in `/db` with a key in a WAL.
fn options_of_closed_database(wal_dir: &str) -> Options {
    let mut options = options();
    options.db.wal_dir = Some(wal_dir.into());
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "value").unwrap();
    db.close().unwrap();
    options
}

#[test]
fn destroying_takes_the_wals_wherever_they_are_and_nothing_else() {
    for wal_dir in ["/db", "/db/", "/wals"] {
        let options = options_of_closed_database(wal_dir);
        let fs = &options.db.env.fs;
        if wal_dir == "/wals" {
            fs.new_writable_file("/wals/MANIFEST-000007".as_ref()).unwrap().close().unwrap();
        }
        esker::destroy_db(&options.db, "/db").unwrap();
        assert!(!fs.file_exists("/db".as_ref()).unwrap(), "{wal_dir}");
        if wal_dir == "/wals" {
            assert_eq!(fs.children("/wals".as_ref()).unwrap(), ["MANIFEST-000007"]);
        }
        esker::destroy_db(&options.db, "/db").unwrap();
    }
}

/// While "default" is flushed, writes for "other" fill a WAL, and another one begins. Keeps the
/// disk of a crash when "default" is in its table and "other" is not.
#[derive(Default)]
struct SwitchDuringFlush {
    db: OnceLock<Weak<Db>>,
    disk: Option<CrashFs>,
    is_flushed: AtomicBool,
    left: Mutex<Vec<CrashFs>>,
}

impl EventListener for SwitchDuringFlush {
    fn on_table_file_created(&self, info: &TableFileCreationInfo) {
        if info.brief.cf_name == "default"
            && let Some(db) = self.db.get().and_then(Weak::upgrade)
        {
            let other = db.column_family("other").unwrap();
            for i in 0..40 {
                db.put_cf(&other, format!("{i}"), [7; 100]).unwrap();
            }
            db.flush_opt(
                &FlushOptions { wait: false, allow_write_stall: true, ..Default::default() },
                &[&other],
            )
            .unwrap();
        }
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.is_flushed.fetch_or(info.cf_name == "default", Ordering::Release);
    }

    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if info.cf_name == "other" {
            while !self.is_flushed.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let disk = self.disk.as_ref().unwrap();
            self.left
                .lock()
                .unwrap()
                .extend((0..200).map(|seed| disk.crash_clone(&CrashChoices::random(seed))));
        }
    }
}

/// A crash may lose the end of the WAL in the middle, which has no entries of the family with
/// tables.
#[test]
fn a_family_is_not_ahead_of_a_wal_that_was_closed_while_it_was_flushed() {
    let disk = CrashFs::new();
    let listener = Arc::new(SwitchDuringFlush { disk: Some(disk.clone()), ..SwitchDuringFlush::default() });
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk));
    options.db.create_missing_column_families = true;
    options.db.listeners = vec![listener.clone()];
    let open = |options: &Options| {
        let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        Db::open_cf(&options.db, "/db", families)
    };
    let db = Arc::new(open(&options).unwrap());
    assert!(listener.db.set(Arc::downgrade(&db)).is_ok());
    db.put("a", "value").unwrap();
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    options.db.listeners.clear();
    let left = std::mem::take(&mut *listener.left.lock().unwrap());
    assert_eq!(left.len(), 200);
    for (seed, disk) in left.into_iter().enumerate() {
        options.db.env = Env::with_fs(Arc::new(disk));
        let again = open(&options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(again.get("a").unwrap().is_some(), "seed {seed}");
    }
}

/// The file goes to a family that is younger than the WAL with an earlier write.
#[test]
fn an_ingested_file_is_not_ahead_of_a_wal_whose_flush_waits() {
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    options.db.create_missing_column_families = true;
    let open = |options: &Options| {
        let names = ["default", "other", "third"];
        let families = names.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        Db::open_cf(&options.db, "/db", families)
    };
    drop(open(&options).unwrap());
    let db = open(&options).unwrap();
    db.drop_column_family(&db.column_family("third").unwrap()).unwrap();
    db.pause_background_work();
    let other = db.column_family("other").unwrap();
    for i in 0..40 {
        db.put_cf(&other, format!("{i}"), [7; 100]).unwrap();
    }
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..Default::default() }, &[&other])
        .unwrap();
    let third = db.create_column_family("third", &options.cf).unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file").unwrap();
    writer.put("a", "value").unwrap();
    writer.finish().unwrap();
    db.ingest_external_file_cf(&third, &["/file"]).unwrap();
    for seed in 0..200 {
        let mut options = options.clone();
        options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::random(seed))));
        let again = open(&options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let third = again.column_family("third").unwrap();
        assert!(again.get_cf(&third, "a").unwrap().is_some(), "seed {seed}");
    }
    db.continue_background_work().unwrap();
}

/// Imported tables must wait like an ingested file.
#[test]
fn imported_tables_are_not_ahead_of_a_wal_whose_flush_waits() {
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, "/exporting").unwrap();
    db.put("a", "value").unwrap();
    let exported = db.export_column_family(&db.default_column_family(), "/exported").unwrap();
    drop(db);
    options.db.create_missing_column_families = true;
    let open = |options: &Options, names: &[&str]| {
        let families = names.iter().map(|name| ColumnFamilyDescriptor::new(*name, options.cf.clone()));
        Db::open_cf(&options.db, "/db", families)
    };
    drop(open(&options, &["default", "other"]).unwrap());
    let db = open(&options, &["default", "other"]).unwrap();
    db.pause_background_work();
    let other = db.column_family("other").unwrap();
    for i in 0..40 {
        db.put_cf(&other, format!("{i}"), [7; 100]).unwrap();
    }
    db.flush_opt(&FlushOptions { wait: false, allow_write_stall: true, ..Default::default() }, &[&other])
        .unwrap();
    let with = ImportColumnFamilyOptions::default();
    db.create_column_family_with_import(&with, "third", &options.cf, &exported).unwrap();
    for seed in 0..200 {
        let mut options = options.clone();
        options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::random(seed))));
        let again =
            open(&options, &["default", "other", "third"]).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let third = again.column_family("third").unwrap();
        assert!(again.get_cf(&third, "a").unwrap().is_some(), "seed {seed}");
    }
    db.continue_background_work().unwrap();
}

#[test]
fn a_wal_that_is_needed_and_not_in_wal_dir_is_named() {
    let mut options = options();
    let fs = options.db.env.fs.clone();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "flushed").unwrap();
    db.flush().unwrap();
    db.put("b", "only in the WAL").unwrap();
    db.close().unwrap();
    drop(db);
    let names = fs.children(Path::new("/db")).unwrap();
    let wal = names.iter().find(|name| name.ends_with(".log")).unwrap();
    options.db.wal_dir = Some("/wals".into());
    for read_only in [false, true] {
        let opened =
            if read_only { Db::open_for_read_only(&options, "/db") } else { Db::open(&options, "/db") };
        let e = opened.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
        assert!(e.message().contains(wal) && e.message().contains("wal_dir"), "{e}");
    }
    fs.rename(&Path::new("/db").join(wal), &Path::new("/wals").join(wal)).unwrap();
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("b").unwrap().as_deref(), Some(&b"only in the WAL"[..]));
    db.close().unwrap();
    drop(db);
    // A WAL file that is not needed does not prevent opening.
    let mut file = fs.new_writable_file(&Path::new("/db").join(wal)).unwrap();
    file.append(b"old").unwrap();
    file.close().unwrap();
    assert!(Db::open(&options, "/db").unwrap().get("b").unwrap().is_some());
}

/// Holds whether or not the job that deletes files has run before.
#[test]
fn closing_deletes_unneeded_wals() {
    for _ in 0..30 {
        let options = options();
        let db = Db::open(&options, "/db").unwrap();
        for i in 0..3 {
            db.put("a", format!("{i}")).unwrap();
            db.flush().unwrap();
        }
        db.put("b", "only in the WAL").unwrap();
        db.close().unwrap();
        let names = options.db.env.fs.children(Path::new("/db")).unwrap();
        let wals: Vec<_> = names.iter().filter(|name| name.ends_with(".log")).collect();
        assert_eq!(wals.len(), 1, "{names:?}");
    }
}

/// The family is idle, and has fewer memtables than one flush waits for.
#[test]
fn memtables_that_wait_for_more_do_not_hold_wals_back_beyond_their_limit() {
    let fs = Arc::new(MemFs::new());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.max_total_wal_size = 512 << 10;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.min_write_buffer_number_to_merge = 2;
    options.cf.max_write_buffer_number = 4;
    let db = Db::open(&options, "/db").unwrap();
    let idle = db.create_column_family("idle", &options.cf).unwrap();
    let waiting = || db.int_property_cf(&idle, "rocksdb.num-immutable-mem-table").unwrap();
    let mut written = 0;
    while waiting() == 0 {
        db.put_cf(&idle, format!("key{written}"), [7; 1000]).unwrap();
        written += 1;
    }
    for i in 0..8000 {
        db.put(format!("key{i}"), [7; 1000]).unwrap();
    }
    db.put("last", "1").unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(waiting(), 0);
    let wals =
        fs.children(Path::new("/db")).unwrap().into_iter().filter(|name| name.ends_with(".log")).count();
    assert!(wals < 12, "{wals} WALs");
    for i in 0..written {
        assert!(db.get_cf(&idle, format!("key{i}")).unwrap().is_some());
    }
}

#[test]
fn the_options_file_says_where_the_wals_are_and_that_of_a_checkpoint_does_not() {
    use esker::options::load_latest_options_from;
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    options.db.wal_dir = Some("/wals".into());
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value").unwrap();
    db.create_checkpoint("/copy", u64::MAX).unwrap();
    db.put("key", "later").unwrap();
    db.close().unwrap();
    drop(db);
    // Opens the database as tools do.
    for (dir, value, wal_dir) in [("/copy", "value", None), ("/db", "later", Some("/wals"))] {
        let loaded = load_latest_options_from(&disk, Path::new(dir)).unwrap();
        assert_eq!(loaded.db.wal_dir.as_deref(), wal_dir.map(Path::new), "{dir}");
        let mut as_it_is = options.clone();
        as_it_is.db = esker::DbOptions { env: options.db.env.clone(), ..loaded.db };
        let db = Db::open(&as_it_is, dir).unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(value.as_bytes()), "{dir}");
    }
}

/// RocksDB keeps old WALs in the archive if `WAL_ttl_seconds` is set.
#[test]
fn destroying_takes_archived_wals_too() {
    for wal_dir in ["/db", "/wals"] {
        let options = options_of_closed_database(wal_dir);
        let fs = &options.db.env.fs;
        let archive = Path::new(wal_dir).join("archive");
        fs.create_dir_if_missing(&archive).unwrap();
        fs.new_writable_file(&archive.join("000003.log")).unwrap().close().unwrap();
        let others = wal_dir == "/wals";
        if others {
            fs.new_writable_file(&archive.join("000003.sst")).unwrap().close().unwrap();
        }
        esker::destroy_db(&options.db, "/db").unwrap();
        assert!(!fs.file_exists("/db".as_ref()).unwrap(), "{wal_dir}");
        if others {
            assert_eq!(fs.children(&archive).unwrap(), ["000003.sst"]);
        }
    }
}

#[test]
fn a_missing_wal_dir_is_named_by_a_reader() {
    let mut options = options();
    options.db.wal_dir = Some("/wals".into());
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "only in the WAL").unwrap();
    db.close().unwrap();
    drop(db);
    options.db.wal_dir = Some("/walls".into());
    let e = Db::open_for_read_only(&options, "/db").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidArgument, "{e}");
    assert!(e.message().contains("wal_dir") && e.message().contains("/walls"), "{e}");
    assert!(!options.db.env.fs.file_exists("/walls".as_ref()).unwrap());
    options.db.wal_dir = Some("/wals".into());
    let db = Db::open_for_read_only(&options, "/db").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"only in the WAL"[..]));
}

/// One flush releases the memtables that were queued for the limit, so no further flush is needed.
#[test]
fn wals_beyond_their_limit_are_flushed_once() {
    let mut options = options();
    options.db.max_total_wal_size = 100 << 10;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    for i in 0..1000 {
        db.put(format!("key{i:04}"), [7; 1000]).unwrap();
        db.wait_for_background_work().unwrap();
    }
    let flushes: u64 = db.property("rocksdb.num-files-at-level0").unwrap().parse().unwrap();
    assert!((8..=10).contains(&flushes), "{flushes} flushes for a MB");
}

/// Otherwise the next open would meet the damage again, perhaps in a mode that refuses it or drops
/// later records.
#[test]
fn damage_that_was_tolerated_once_does_not_stay() {
    use esker::options::WalRecoveryMode;
    for tolerant in [WalRecoveryMode::TolerateCorruptedTailRecords, WalRecoveryMode::SkipAnyCorruptedRecords]
    {
        for strict in [WalRecoveryMode::AbsoluteConsistency, WalRecoveryMode::PointInTimeRecovery] {
            let mut options = options();
            let fs = options.db.env.fs.clone();
            let db = Db::open(&options, "/db").unwrap();
            db.put("first", "value").unwrap();
            db.put("torn", "value").unwrap();
            db.close().unwrap();
            drop(db);
            let names = fs.children(Path::new("/db")).unwrap();
            let wal = Path::new("/db").join(names.iter().find(|name| name.ends_with(".log")).unwrap());
            let bytes = fs.file_size(&wal).unwrap();
            let mut file = fs.reopen_writable_file(&wal).unwrap();
            file.truncate(bytes - 3).unwrap();
            file.close().unwrap();
            options.db.wal_recovery_mode = tolerant;
            let db = Db::open(&options, "/db").unwrap();
            put_unlogged(&db, "unlogged").unwrap();
            db.put_opt(&WriteOptions::default().sync(true), &db.default_column_family(), "last", "value")
                .unwrap();
            db.close().unwrap();
            drop(db);
            options.db.wal_recovery_mode = strict;
            let db = Db::open(&options, "/db").unwrap();
            for key in ["first", "last"] {
                assert!(db.get(key).unwrap().is_some(), "{key} is lost: {tolerant:?}, then {strict:?}");
            }
            assert_eq!(db.get("torn").unwrap(), None);
        }
    }
}

#[test]
fn a_user_who_forgets_the_wal_dir_is_told_and_loses_nothing() {
    let fs = Arc::new(MemFs::new());
    let mut options = Options::default();
    options.db.env = Env::with_fs(fs.clone());
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    let forgetful = options.clone();
    options.db.wal_dir = Some("/wals".into());
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "flushed").unwrap();
    db.flush().unwrap();
    db.put("b", "logged").unwrap();
    let copy = db.create_checkpoint("/copy", u64::MAX).unwrap();
    assert_eq!(copy.0, 2);
    drop(db);
    let error = Db::open(&forgetful, "/db").unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.message().contains("wal_dir /wals"),
        "{error}"
    );
    // A checkpoint has WALs of its own, so the option does not concern it.
    let copy = Db::open(&forgetful, "/copy").unwrap();
    assert_eq!(copy.get("b").unwrap().unwrap(), b"logged");
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("b").unwrap().unwrap(), b"logged");
    db.put("c", "logged").unwrap();
    drop(db);
    assert!(Db::open(&forgetful, "/db").is_err());
    // With this option the opening is allowed.
    let mut meant = forgetful.clone();
    meant.db.wal_dir = Some("/db".into());
    drop(Db::open(&meant, "/db").unwrap());
    let db = Db::open(&forgetful, "/db").unwrap();
    assert_eq!(["b", "c"].map(|key| db.get(key).unwrap().is_some()), [true, false]);
}

/// RocksDB detects an inverted range after it has logged the write, and then refuses the write.
#[test]
fn a_logged_range_deletion_that_ends_before_it_begins_is_damage_in_every_recovery_mode() {
    use esker::internals::format::log::{LogEvent, LogReader, LogWriter, SliceSource};
    use esker::internals::format::write_batch::WriteBatch;
    use esker::options::WalRecoveryMode::{
        AbsoluteConsistency, PointInTimeRecovery, SkipAnyCorruptedRecords, TolerateCorruptedTailRecords,
    };
    for (mode, expected) in [
        (PointInTimeRecovery, Some((true, false))),
        (SkipAnyCorruptedRecords, Some((true, true))),
        (TolerateCorruptedTailRecords, None),
        (AbsoluteConsistency, None),
    ] {
        let mut options = options();
        let fs = options.db.env.fs.clone();
        let db = Db::open(&options, "/db").unwrap();
        for key in ["before", "refused", "after"] {
            db.put(key, "value").unwrap();
        }
        db.close().unwrap();
        drop(db);
        let names = fs.children(Path::new("/db")).unwrap();
        let wal = Path::new("/db").join(names.iter().find(|name| name.ends_with(".log")).unwrap());
        let mut bytes = vec![0; usize::try_from(fs.file_size(&wal).unwrap()).unwrap()];
        fs.new_random_access_file(&wal).unwrap().read_at(0, &mut bytes).unwrap();
        let number = wal.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let mut reader = LogReader::new(SliceSource(&bytes), number);
        let (mut writer, mut log, mut record) = (LogWriter::new(number, false), Vec::new(), Vec::new());
        while let LogEvent::Record { .. } = reader.next_record(&mut record).unwrap() {
            let mut batch = WriteBatch::from_bytes(record.clone()).unwrap();
            if record.windows(7).any(|bytes| bytes == b"refused") {
                batch.delete_range_cf(ColumnFamilyId::DEFAULT, b"b", b"a").unwrap();
            }
            writer.add_record(batch.data(), &mut log);
        }
        let mut file = fs.new_writable_file(&wal).unwrap();
        file.append(&log).unwrap();
        file.close().unwrap();
        options.db.wal_recovery_mode = mode;
        match (Db::open(&options, "/db"), expected) {
            (Ok(db), Some(expected)) => {
                let has = |key| db.get(key).unwrap().is_some();
                assert_eq!((has("before"), has("after")), expected, "{mode:?}");
                assert!(!has("refused"), "half of a batch under {mode:?}");
            }
            (Err(e), None) => {
                assert_eq!(e.kind(), ErrorKind::Corruption);
                assert!(e.message().contains(".log") && e.message().contains("offset"), "{e}");
            }
            (Ok(_), None) => panic!("{mode:?} opens"),
            (Err(e), Some(_)) => panic!("{mode:?}: {e}"),
        }
    }
}
