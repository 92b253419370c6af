//! Forked children: a child cannot use or harm the parent's databases, and its own databases work.
#![expect(
    clippy::disallowed_methods,
    reason = "processes, threads and files of the system are what is tested"
)]

use esker::internals::env::RateLimiter;
use esker::internals::env::forked::fork;
use esker::internals::env::{FileSystem, PosixFileSystem, RateLimiterMode};
use esker::txn::{TransactionDb, TransactionDbOptions};
use esker::{
    BackupEngine, BackupEngineOptions, CompactionOptions, Db, Error, ErrorKind, ExplainScan,
    ExportImportFilesMetaData, FlushOptions, ImportColumnFamilyOptions, IngestExternalFileOptions, Options,
    ReadOptions, Result, SequenceNumber, SstFileWriter, WaitForCompactOptions, WalReadOptions, WriteBatch,
    WriteOptions,
};
use esker_testkit::TempDir;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time after which a child counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options
}

fn synced() -> WriteOptions {
    WriteOptions { sync: true, ..WriteOptions::default() }
}

/// Names, sizes and contents of the files in `dir`, except the LOG.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = PosixFileSystem.children(dir).unwrap();
    names.sort();
    let read = |name: String| {
        let bytes = std::fs::read(dir.join(&name)).ok()?;
        Some((name, bytes))
    };
    names.into_iter().filter(|name| name != "LOG").filter_map(read).collect()
}

/// Fails with the names of files in `dir` that are not as they were when `before` was taken.
#[track_caller]
fn assert_untouched(dir: &Path, before: &[(String, Vec<u8>)]) {
    let after = contents(dir);
    let touched = |a: &[(String, Vec<u8>)], b: &[(String, Vec<u8>)]| {
        a.iter().filter(|file| !b.contains(file)).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let (gone, new) = (touched(before, &after), touched(&after, before));
    assert!(gone.is_empty() && new.is_empty(), "changed or gone: {gone:?}; changed or new: {new:?}");
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in contents(from) {
        std::fs::write(to.join(name), bytes).unwrap();
    }
}

#[test]
fn a_child_that_ends_normally_leaves_the_parents_writes_alone() {
    let (dir, copied) = (TempDir::new("forked"), TempDir::new("forked-copy"));
    let db = Db::open(&options(), dir.path()).unwrap();
    for i in 0..10 {
        db.put(format!("before{i}"), [7; 100]).unwrap();
    }
    let handle = db.clone();
    let (iter, snapshot) = (db.iter().unwrap(), db.snapshot());
    let mut child = fork(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop((iter, snapshot));
        drop(handle);
        0
    })
    .unwrap();
    for i in 0..89 {
        db.put_opt(&synced(), &db.default_column_family(), format!("after{i}"), [8; 1000]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(child.wait(PATIENCE), Some(0));
    copy(dir.path(), copied.path());
    let recovered = Db::open(&options(), copied.path()).unwrap();
    let missing = (0..89).filter(|i| recovered.get(format!("after{i}")).unwrap().is_none()).count();
    assert_eq!(missing, 0, "an acknowledged write with sync is missing");
    // The parent continues to write.
    for i in 0..89 {
        db.put(format!("later{i}"), [9; 1000]).unwrap();
    }
    db.flush().unwrap();
    drop(db);
    let db = Db::open(&options(), dir.path()).unwrap();
    assert!((0..89).all(|i| db.get(format!("later{i}")).unwrap().is_some()));
}

/// The calls on the parent's `db` that did not fail as they should.
fn calls_that_go_through(db: &Db, dir: &Path) -> Vec<&'static str> {
    let family = db.default_column_family();
    let plain = ReadOptions::default;
    let mut iterated = db.iter().map(drop);
    if let Ok(mut iter) = db.iter() {
        iter.seek_to_first();
        iterated = iter.status();
    }
    let first = |mut values: Vec<Result<Option<esker::PinnedBytes>>>| values.remove(0).map(drop);
    let results: [(&'static str, Result<()>); 27] = [
        ("get", db.get("a").map(drop)),
        ("get_opt", db.get_opt(&plain(), &family, "a").map(drop)),
        ("multi_get", first(db.multi_get(&["a"]))),
        ("multi_get of many", first(db.multi_get(&["a", "b", "c", "d", "e", "f", "g"]))),
        ("iter", iterated),
        ("put", db.put("a", "b")),
        ("put with sync", db.put_opt(&synced(), &family, "a", "b")),
        ("delete", db.delete("a")),
        ("delete_range", db.delete_range("a", "b")),
        ("write", db.write(WriteBatch::default())),
        ("flush", db.flush()),
        ("flush_opt", db.flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }, &[&family])),
        ("sync_wal", db.sync_wal()),
        ("flush_wal", db.flush_wal(true)),
        ("compact_range", db.compact_range(None, None)),
        ("delete_files_in_ranges", db.delete_files_in_ranges(&family, &[], false).map(drop)),
        ("create_column_family", db.create_column_family("x", &Options::default().cf).map(drop)),
        ("drop_column_family", db.drop_column_family(&family)),
        ("set_options", db.set_options(&family, &[("write_buffer_size", "1000000")])),
        ("set_db_options", db.set_db_options(&[("max_background_jobs", "3")])),
        ("create_checkpoint", db.create_checkpoint(dir.join("checkpoint"), 0).map(drop)),
        ("export", db.export_column_family(&family, dir.join("export")).map(drop)),
        ("resume", db.resume()),
        ("verify_checksum", db.verify_checksum()),
        ("wait_for_background_work", db.wait_for_background_work()),
        ("enable_file_deletions", db.enable_file_deletions()),
        ("close", db.close()),
    ];
    let through = results.iter().filter(|(_, result)| !result.as_ref().is_err_and(is_refused));
    let mut through: Vec<_> = through.map(|(name, _)| *name).collect();
    // Calls without a result do nothing, and do not wait.
    db.disable_file_deletions();
    db.pause_background_work();
    let silent = [
        ("property", db.property("rocksdb.stats").is_none()),
        ("int_property", db.int_property("rocksdb.num-snapshots").is_none()),
        ("map_property", db.map_property("rocksdb.cfstats").is_none()),
        ("approximate_size", db.approximate_size(&family, b"a", b"b") == 0),
        ("live_files", db.live_files().is_empty()),
        ("column_family", db.column_family("default").is_none()),
        ("background_error", db.background_error().is_some_and(|e| is_refused(&e))),
        ("live_files_checksum_info", db.live_files_checksum_info().is_empty()),
        ("approximate_memtable_size", db.approximate_memtable_size(&family, b"a", b"b") == 0),
        ("key_may_exist", db.key_may_exist(&family, "a")),
    ];
    through.extend(silent.iter().filter(|(_, is_silent)| !is_silent).map(|(name, _)| *name));
    through.extend(rarer_calls_that_go_through(db, dir));
    through
}

/// As [`calls_that_go_through`], of calls that fewer users make.
fn rarer_calls_that_go_through(db: &Db, dir: &Path) -> Vec<&'static str> {
    let family = db.default_column_family();
    let (plain, written, table) = (ReadOptions::default(), WriteOptions::default(), dir.join("table.sst"));
    let ingest = IngestExternalFileOptions::default();
    let export = ExportImportFilesMetaData {
        db_comparator_name: "leveldb.BytewiseComparator".to_owned(),
        files: Vec::new(),
    };
    let (import, cf) = (ImportColumnFamilyOptions::default(), Options::default().cf);
    let updates = db.get_updates_since(SequenceNumber(1), &WalReadOptions::default());
    let scan = ExplainScan { from: None, rows: 1, reverse: false };
    let results: [(&'static str, Result<()>); 27] = [
        ("single_delete", db.single_delete("a")),
        ("put_entity", db.put_entity(&written, &family, "a", &[(b"column", b"value")])),
        ("get_entity", db.get_entity(&plain, &family, "a").map(drop)),
        ("multi_get_entity", db.multi_get_entity(&plain, &family, &["a"]).remove(0).map(drop)),
        ("get_with_metadata", db.get_with_metadata(&plain, &family, "a").map(drop)),
        ("contains_key", db.contains_key("a").map(drop)),
        ("first", db.first().map(drop)),
        ("is_empty", db.is_empty().map(drop)),
        ("multi_scan", db.multi_scan([("a", "b")]).map(drop)),
        ("explain_get", db.explain_get(&plain, &family, "a").map(drop)),
        ("explain_scan", db.explain_scan(&plain, &family, &scan).map(drop)),
        ("ingest_external_file", db.ingest_external_file(&[&table])),
        ("ingest_external_file_opt", db.ingest_external_file_opt(&ingest, &family, &[&table])),
        ("prepare_file_ingestion", db.prepare_file_ingestion(&ingest, &[]).map(drop)),
        ("commit_file_ingestion_handles", db.commit_file_ingestion_handles(Vec::new())),
        ("import", db.create_column_family_with_import(&import, "import", &cf, &export).map(drop)),
        ("compact_files", db.compact_files(&CompactionOptions::default(), &family, &[], 1).map(drop)),
        ("promote_l0", db.promote_l0(&family, 1)),
        ("clip_column_family", db.clip_column_family(&family, "a", "b")),
        ("suggest_compact_range", db.suggest_compact_range(&family, None, None)),
        ("abort_compactions", db.abort_compactions(&family)),
        ("cancel_all_background_work", db.cancel_all_background_work(true)),
        ("wait_for_compact", db.wait_for_compact(&WaitForCompactOptions::default())),
        ("get_updates_since", updates.map(drop)),
        ("sorted_wal_files", db.sorted_wal_files().map(drop)),
        ("current_wal_file", db.current_wal_file().map(drop)),
        ("end_trace", db.end_trace()),
    ];
    // Calls without a result do nothing, and do not wait.
    db.abort_all_compactions();
    db.disable_manual_compaction();
    let through = results.iter().filter(|(_, result)| !result.as_ref().is_err_and(is_refused));
    through.map(|(name, _)| *name).collect()
}

/// Whether the error says that a forked child may not use the parent's database.
fn is_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::NotSupported && error.message().contains("forked child")
}

#[test]
fn every_call_in_a_child_fails_and_touches_nothing() {
    let dir = TempDir::new("forked-calls");
    let db = Db::open(&options(), dir.path()).unwrap();
    for i in 0..100 {
        db.put(format!("{i}"), [7; 100]).unwrap();
    }
    db.flush().unwrap();
    db.put("a", "parent's").unwrap();
    db.wait_for_background_work().unwrap();
    let before = contents(dir.path());
    let path = dir.path().to_owned();
    let mut child = fork(|| {
        let through = calls_that_go_through(&db, &path);
        through.iter().for_each(|name| eprintln!("went through: {name}"));
        u8::try_from(through.len()).unwrap()
    })
    .unwrap();
    assert_eq!(child.wait(PATIENCE), Some(0), "number of calls that were not refused; `None` means a hang");
    assert_untouched(dir.path(), &before);
    assert_eq!(db.get("a").unwrap().unwrap(), b"parent's");
}

#[test]
fn readers_in_a_child_fail_and_touch_nothing() {
    let (dir, own) = (TempDir::new("forked-readers"), TempDir::new("forked-reader"));
    let db = Db::open(&options(), dir.path()).unwrap();
    db.put("a", [7; 100]).unwrap();
    db.flush().unwrap();
    db.put("b", "in the WAL").unwrap();
    let read_only = Db::open_for_read_only(&options(), dir.path()).unwrap();
    let secondary = Db::open_as_secondary(&options(), dir.path(), own.path()).unwrap();
    db.wait_for_background_work().unwrap();
    let before = contents(dir.path());
    let (readers, mine) = ((&read_only, &secondary), (read_only.clone(), secondary.clone()));
    let mut child = fork(move || {
        let refused =
            |db: &Db| db.get("a").is_err_and(|e| is_refused(&e)) && db.iter().is_err_and(|e| is_refused(&e));
        let wrong = u8::from(!refused(readers.0))
            + u8::from(!refused(readers.1))
            + u8::from(!readers.1.try_catch_up_with_primary().is_err_and(|e| is_refused(&e)));
        drop(mine);
        wrong
    })
    .unwrap();
    assert_eq!(child.wait(PATIENCE), Some(0), "number of calls that were not refused; `None` means a hang");
    assert_untouched(dir.path(), &before);
    db.put("c", "later").unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    assert_eq!(secondary.get("c").unwrap().unwrap(), b"later");
    assert_eq!(read_only.get("b").unwrap().unwrap(), b"in the WAL");
}

#[test]
fn objects_in_a_child_are_dropped_there_and_stay_the_parents() {
    let dir = TempDir::new("forked-things");
    let options = options();
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), dir.path().join("db")).unwrap();
    db.db().put("old", [7; 5000]).unwrap();
    db.db().flush().unwrap();
    let begin = || db.begin_transaction();
    let (named, prepared) = (begin(), begin());
    named.set_name(b"named").unwrap();
    named.put("locked", "1").unwrap();
    prepared.set_name(b"prepared").unwrap();
    prepared.put("prepared", "1").unwrap();
    prepared.prepare().unwrap();
    let family = db.db().default_column_family();
    let pinned = db.db().get_pinned("old").unwrap().unwrap();
    let mut iter = db.db().iter().unwrap();
    iter.seek_to_first();
    let mut own_iter = named.iter_opt(&ReadOptions::default(), &family).unwrap();
    own_iter.seek_to_first();
    let snapshot = db.db().snapshot();
    let mut writer = SstFileWriter::new(&options);
    let table = dir.path().join("table.sst");
    writer.open(&table).unwrap();
    writer.put("k", [1; 100_000]).unwrap();
    let backup_dir = dir.path().join("backups");
    let mut backups = BackupEngine::open(&BackupEngineOptions::new(&backup_dir)).unwrap();
    db.db().wait_for_background_work().unwrap();
    let before = contents(&dir.path().join("db"));
    // The parent drops the captured values, too.
    let parents = db.clone();

    let mut child = fork(|| {
        let mut wrong = u8::from(pinned.len() != 5000);
        iter.next();
        own_iter.seek("a");
        wrong += u8::from(iter.valid() || iter.status().is_ok() || own_iter.status().is_ok());
        wrong += u8::from(named.put("b", "2").is_ok() || named.get("old").is_ok() || named.commit().is_ok());
        wrong += u8::from(prepared.commit().is_ok() || prepared.rollback().is_ok());
        wrong += u8::from(writer.put("l", "1").is_ok() || writer.finish().is_ok());
        wrong +=
            u8::from(backups.create_new_backup(db.db(), true).is_ok() || backups.garbage_collect().is_ok());
        wrong += u8::from(db.get_transaction_by_name(b"prepared").is_some());
        let fresh = db.begin_transaction();
        drop((fresh, pinned, iter, own_iter, snapshot, writer, backups));
        drop((named, prepared));
        drop((family, db));
        wrong
    })
    .unwrap();
    assert_eq!(child.wait(PATIENCE), Some(0), "number of calls that did not fail; `None` means a hang");
    assert_untouched(&dir.path().join("db"), &before);
    parents.get_transaction_by_name(b"prepared").unwrap().commit().unwrap();
    assert_eq!(parents.db().get("prepared").unwrap().unwrap(), b"1");
}

#[test]
fn the_parent_goes_on_with_what_a_child_has_dropped() {
    let dir = TempDir::new("forked-parent");
    let options = options();
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), dir.path().join("db")).unwrap();
    let mut named = db.begin_transaction();
    named.set_name(b"named").unwrap();
    named.put("k", "1").unwrap();
    let mut writer = SstFileWriter::new(&options);
    let table = dir.path().join("table.sst");
    writer.open(&table).unwrap();
    writer.put("l", [1; 100_000]).unwrap();
    let (child_db, child_named, child_writer) = (&db, &mut named, &mut writer);
    let mut child = fork(|| {
        // Drops the values, as at the end of a scope. (The values behind the references are the
        // child's copies.)
        let own = child_db.begin_transaction();
        let locked = own.put("free", "2").is_ok();
        u8::from(locked || child_named.rollback().is_err() && child_writer.finish().is_ok())
    })
    .unwrap();
    assert_eq!(child.wait(PATIENCE), Some(0));
    named.prepare().unwrap();
    named.commit().unwrap();
    writer.finish().unwrap();
    db.db().ingest_external_file(&[&table]).unwrap();
    assert_eq!(db.db().get("k").unwrap().unwrap(), b"1");
    assert_eq!(db.db().get("l").unwrap().unwrap().len(), 100_000);
}

/// Opens, fills, flushes, compacts and closes a database of its own; returns whether all entries
/// are there.
fn uses_its_own(options: &Options, dir: &Path) -> Result<bool> {
    let db = Db::open(options, dir)?;
    for round in 0..4 {
        for i in 0..200 {
            db.put(format!("{i:04}"), vec![round; 500])?;
        }
        db.flush()?;
    }
    db.compact_range(None, None)?;
    db.wait_for_background_work()?;
    let all = db.iter()?;
    drop(all);
    let keys: Vec<_> = (0..200).map(|i| format!("{i:04}")).collect();
    let found = db.multi_get(&keys).into_iter().filter(|value| matches!(value, Ok(Some(_)))).count();
    db.close()?;
    Ok(found == 200)
}

#[test]
fn a_daemon_that_used_the_default_environment_opens_a_database() {
    let dir = TempDir::new("forked-daemon");
    let mut options = options();
    let limiter = RateLimiter::new(1 << 30, 100_000, 10, RateLimiterMode::AllIo);
    options.db.rate_limiter = Some(Arc::new(limiter));
    options.db.stats_dump_period_sec = 1;
    // All threads of the pool, the timer and the limiter have been used.
    assert!(uses_its_own(&options, &dir.path().join("first")).unwrap());
    for i in 0..3 {
        let mut child = fork(|| {
            let path = dir.path().join(format!("child{i}"));
            let used = uses_its_own(&options, &path);
            // A daemon forks twice.
            let mut grandchild = fork(|| {
                let path = dir.path().join(format!("grandchild{i}"));
                u8::from(!uses_its_own(&options, &path).is_ok_and(|is_all| is_all))
            });
            let ended = grandchild.as_mut().is_ok_and(|grandchild| grandchild.wait(PATIENCE) == Some(0));
            u8::from(!used.is_ok_and(|is_all| is_all)) + 2 * u8::from(!ended)
        })
        .unwrap();
        assert_eq!(
            child.wait(PATIENCE),
            Some(0),
            "1: the child failed, 2: the grandchild failed; `None` means a hang"
        );
    }
    assert!(uses_its_own(&options, &dir.path().join("last")).unwrap());
}

#[test]
fn children_of_a_busy_parent_open_their_own_and_end() {
    let dir = TempDir::new("forked-busy");
    let mut options = options();
    options.cf.write_buffer_size = 100_000;
    options.db.max_background_jobs = 4;
    let db = Db::open(&options, dir.path().join("parent")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|thread: u8| {
            let (db, stop) = (db.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut count = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    db.put([&[thread], &count.to_be_bytes()[..]].concat(), [thread; 200]).unwrap();
                    assert!(db.get([&[thread], &(count / 2).to_be_bytes()[..]].concat()).unwrap().is_some());
                    count += 1;
                }
                count
            })
        })
        .collect();
    for i in 0..8 {
        let handle = db.clone();
        let path = dir.path().join(format!("child{i}"));
        let mut child = fork(move || {
            let refused = handle.put("x", "y").is_err() && handle.get("x").is_err();
            drop(handle);
            // The parent's threads are not in the child, so their work on a shared cache never
            // ends: the child uses caches of its own.
            let own = self::options();
            let used = uses_its_own(&own, &path);
            u8::from(!refused) + 2 * u8::from(!used.is_ok_and(|is_all| is_all))
        })
        .unwrap();
        assert_eq!(child.wait(PATIENCE), Some(0), "child {i}; `None` means a hang");
    }
    stop.store(true, Ordering::Relaxed);
    let counts: Vec<_> = writers.into_iter().map(|thread| thread.join().unwrap()).collect();
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, dir.path().join("parent")).unwrap();
    for (thread, count) in counts.into_iter().enumerate() {
        let is_there = |i: u32| db.get([&[thread as u8], &i.to_be_bytes()[..]].concat()).unwrap().is_some();
        assert!((0..count).all(is_there), "thread {thread}");
    }
}
