//! Backups: incremental, checked, restored, deleted.

use crate::ingest::becomes;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem, OpKind};
use esker::internals::format::file_name::FileType;
use esker::observe::{EventListener, FlushJobInfo};
use esker::options::{BottommostLevelCompaction, CompactRangeOptions, RateLimiter, RateLimiterMode};
use esker::{
    BackupEngine, BackupEngineOptions, CreateBackupOptions, Db, Env, ErrorKind, Options, RestoreMode,
    RestoreOptions, SstFileWriter,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.disable_auto_compactions = true;
    options
}

fn engine(fs: &Arc<MemFs>) -> BackupEngine {
    let env = Env::with_fs(fs.clone());
    BackupEngine::open(&BackupEngineOptions::new("/backups").env(env)).unwrap()
}

fn write(db: &Db, round: usize) {
    for i in 0..50 {
        db.put(format!("key{round}-{i:03}"), format!("value{round}")).unwrap();
    }
}

fn holds(db: &Db, round: usize) -> bool {
    (0..50).all(|i| {
        db.get(format!("key{round}-{i:03}")).unwrap().is_some_and(|v| v == format!("value{round}").as_bytes())
    })
}

fn shared_files(fs: &MemFs) -> usize {
    fs.children(Path::new("/backups/shared_checksum")).unwrap().len()
}

#[test]
fn tables_are_backed_up_once_and_each_backup_is_its_point_in_time() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let mut backups = engine(&fs);
    for round in 0..4 {
        write(&db, round);
        // The last backup includes the WAL.
        let id = backups
            .create_new_backup_with_metadata(&db, format!("round {round}").as_bytes(), round < 3)
            .unwrap();
        assert_eq!(id, round as u32 + 1);
        assert_eq!(shared_files(&fs), (round + 1).min(3));
    }
    db.close().unwrap();
    drop(backups);
    let backups = engine(&fs);
    let infos = backups.backup_infos();
    assert_eq!(infos.iter().map(|i| i.backup_id).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(infos[2].app_metadata, b"round 2");
    for (round, info) in infos.iter().enumerate() {
        backups.verify_backup(info.backup_id, true).unwrap();
        // Restores over the files of an earlier restoration.
        backups.restore_db_from_backup(info.backup_id, "/restored", "/restored").unwrap();
        let db = Db::open(&options(&fs), "/restored").unwrap();
        for other in 0..4 {
            assert_eq!(holds(&db, other), other <= round, "backup {round}, round {other}");
        }
        db.close().unwrap();
    }
    // RocksDB archives WALs; after a restoration they belong to another history.
    let archived = Path::new("/latest/archive/000003.log");
    fs.create_dir_if_missing(archived.parent().unwrap()).unwrap();
    fs.new_writable_file(archived).unwrap().close().unwrap();
    backups.restore_db_from_latest_backup("/latest", "/latest").unwrap();
    assert!(!fs.file_exists(archived.parent().unwrap()).unwrap());
    assert!(holds(&Db::open(&options(&fs), "/latest").unwrap(), 3));
}

#[test]
fn deleted_backups_take_along_what_only_they_need() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let mut backups = engine(&fs);
    for round in 0..3 {
        write(&db, round);
        backups.create_new_backup(&db, true).unwrap();
    }
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&force, &db.default_column_family(), None, None).unwrap();
    backups.create_new_backup(&db, true).unwrap();
    assert_eq!(shared_files(&fs), 4);
    backups.delete_backup(2).unwrap();
    assert_eq!(shared_files(&fs), 4, "backup 3 needs these files");
    backups.delete_backup(3).unwrap();
    assert_eq!(shared_files(&fs), 2);
    backups.purge_old_backups(1).unwrap();
    assert_eq!(shared_files(&fs), 1);
    assert_eq!(backups.backup_infos().len(), 1);
    assert_eq!(fs.children(Path::new("/backups/private")).unwrap(), ["4"]);
    assert!(backups.delete_backup(1).unwrap_err().message().contains("no backup 1"));
    backups.restore_db_from_backup(4, "/restored", "/restored").unwrap();
    let db = Db::open(&options(&fs), "/restored").unwrap();
    assert!((0..3).all(|round| holds(&db, round)));
}

#[test]
fn damage_is_named_and_left_alone() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let mut backups = engine(&fs);
    write(&db, 0);
    backups.create_new_backup(&db, true).unwrap();
    write(&db, 1);
    backups.create_new_backup(&db, true).unwrap();
    db.close().unwrap();
    let dir = Path::new("/backups/shared_checksum");
    let name = fs.children(dir).unwrap().into_iter().max().unwrap();
    let size = fs.file_size(&dir.join(&name)).unwrap();
    let mut file = fs.new_writable_file(&dir.join(&name)).unwrap();
    file.append(&vec![7; usize::try_from(size).unwrap()]).unwrap();
    file.close().unwrap();
    backups.verify_backup(2, false).unwrap();
    assert!(backups.verify_backup(2, true).unwrap_err().message().contains(&name));
    assert!(backups.restore_db_from_backup(2, "/restored", "/restored").is_err());
    assert!(!fs.file_exists(Path::new("/restored/CURRENT")).unwrap());
    backups.restore_db_from_backup(1, "/restored", "/restored").unwrap();
    fs.delete_file(&dir.join(&name)).unwrap();
    let backups = engine(&fs);
    assert_eq!(backups.corrupted_backups(), [2]);
    assert!(backups.verify_backup(2, false).unwrap_err().message().contains(&name));
    backups.verify_backup(1, true).unwrap();
}

#[test]
fn a_backup_that_could_not_be_deleted_is_whole_and_can_be_deleted_later() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let faults = Arc::new(FaultFs::new(fs.clone()));
    let env = Env::with_fs(faults.clone());
    let open = || BackupEngine::open(&BackupEngineOptions::new("/backups").env(env.clone()));
    let mut backups = open().unwrap();
    write(&db, 0);
    backups.create_new_backup(&db, true).unwrap();
    faults.add_rule(FaultRule::fail(&[OpKind::Delete]).on(|path| path.starts_with("/backups/meta")));
    backups.delete_backup(1).unwrap_err();
    faults.clear_rules();
    backups.garbage_collect().unwrap();
    assert_eq!(backups.backup_infos().len(), 1);
    open().unwrap().verify_backup(1, true).unwrap();
    backups.delete_backup(1).unwrap();
    assert_eq!((shared_files(&fs), open().unwrap().backup_infos().len()), (0, 0));
}

#[test]
fn a_restoration_that_loses_power_leaves_the_backup_or_no_database() {
    let disk = CrashFs::new();
    let mut options = options(&Arc::new(MemFs::new()));
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    options.db.wal_dir = Some("/wals".into());
    let backup_dir = || BackupEngineOptions::new("/backups").env(options.db.env.clone());
    let db = Db::open(&options, "/db").unwrap();
    let mut backups = BackupEngine::open(&backup_dir()).unwrap();
    write(&db, 0);
    db.flush().unwrap();
    // These entries are only in the WAL.
    write(&db, 1);
    backups.create_new_backup(&db, false).unwrap();
    write(&db, 2);
    db.flush().unwrap();
    write(&db, 3);
    db.sync_wal().unwrap();
    db.close().unwrap();
    drop(db);
    let mut met = 0;
    for seed in 0..300 {
        let before = disk.crash_clone(&CrashChoices::process_kill());
        let faults = FaultFs::new(Arc::new(before.clone()));
        faults.add_rule(FaultRule::fail_any().nth(seed / 6));
        let env = Env::with_fs(Arc::new(faults.clone()));
        let restored = BackupEngine::open(&BackupEngineOptions::new("/backups").env(env))
            .and_then(|backups| backups.restore_db_from_backup(1, "/db", "/wals"));
        met += faults.fault_count();
        let left = Arc::new(before.crash_clone(&CrashChoices::random(seed)));
        let mut options = options.clone();
        options.db.create_if_missing = false;
        options.db.env = Env::with_fs(left);
        // The directory is untouched, or without durable changes, or it has no database.
        match Db::open(&options, "/db") {
            Ok(db) => {
                let rounds = [0, 1, 2, 3].map(|round| holds(&db, round));
                let is_old = rounds == [true; 4];
                let is_new = rounds == [true, true, false, false];
                assert!(is_new || is_old && restored.is_err(), "seed {seed}: {rounds:?}, {restored:?}");
            }
            Err(e) => assert!(restored.is_err(), "seed {seed}: {e}"),
        }
    }
    assert!(met > 100);
}

/// The left file has the name and size of the next backup's file.
#[test]
fn a_leftover_of_a_failed_backup_is_not_taken_for_a_finished_file() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    write(&db, 0);
    engine(&fs).create_new_backup(&db, true).unwrap();
    let shared = Path::new("/backups/shared_checksum");
    let name = fs.children(shared).unwrap().remove(0);
    let table = shared.join(&name);
    fs.delete_file(Path::new("/backups/meta/1")).unwrap();
    let bytes = fs.file_size(&table).unwrap() as usize;
    let mut file = fs.new_writable_file(&table).unwrap();
    file.append(&vec![0; bytes]).unwrap();
    file.close().unwrap();
    let mut backups = engine(&fs);
    let id = backups.create_new_backup(&db, true).unwrap();
    backups.verify_backup(id, true).unwrap();
    backups.restore_db_from_backup(id, "/restored", "/restored").unwrap();
    assert!(holds(&Db::open(&options(&fs), "/restored").unwrap(), 0));
}

/// A restored database uses the same file numbers again, and files of one writer have the same
/// session.
#[test]
fn an_ingested_file_is_backed_up_though_an_earlier_backup_has_another_of_its_number_writer_and_size() {
    let fs = Arc::new(MemFs::new());
    let options = options(&fs);
    let db = Db::open(&options, "/db").unwrap();
    write(&db, 0);
    let mut backups = engine(&fs);
    let before = backups.create_new_backup(&db, true).unwrap();
    db.close().unwrap();
    let mut writer = SstFileWriter::new(&options);
    let mut made = Vec::new();
    for value in ["first", "other"] {
        backups.restore_db_from_backup(before, "/db", "/db").unwrap();
        let db = Db::open(&options, "/db").unwrap();
        let path = format!("/{value}");
        writer.open(&path).unwrap();
        writer.put("ingested", value).unwrap();
        writer.finish().unwrap();
        db.ingest_external_file(&[&path]).unwrap();
        let is_it = |f: &esker::LiveFileMetaData| f.file.smallest_key == b"ingested";
        let file = db.live_files().into_iter().find(is_it).unwrap().file;
        made.push((value, backups.create_new_backup(&db, true).unwrap(), (file.file_number, file.size)));
        // Files that exist already, under any name, are not copied again.
        let files = shared_files(&fs);
        backups.create_new_backup(&db, true).unwrap();
        assert_eq!(shared_files(&fs), files);
        db.close().unwrap();
    }
    assert_eq!(made[0].2, made[1].2, "the test needs tables of the same number and size");
    for (value, id, _) in made {
        backups.verify_backup(id, true).unwrap();
        backups.restore_db_from_backup(id, "/db", "/db").unwrap();
        let db = Db::open(&options, "/db").unwrap();
        assert_eq!(db.get("ingested").unwrap().as_deref(), Some(value.as_bytes()));
        db.close().unwrap();
    }
}

/// A database with about 1 MiB in tables.
fn large(options: &Options) -> Db {
    let db = Db::open(options, "/large").unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    for key in 0..1000_u32 {
        let value: Vec<u8> = (0..1000).map(|_| rng.u8(..)).collect();
        db.put(key.to_be_bytes(), value).unwrap();
    }
    db.flush().unwrap();
    db
}

#[test]
fn a_backup_reports_its_progress_and_stops_on_request() {
    let options = options(&Arc::new(MemFs::new()));
    let db = large(&options);
    let backups = BackupEngineOptions::new("/backups").env(options.db.env.clone());
    let backups = backups.callback_trigger_interval_size(100_000);
    let mut engine = BackupEngine::open(&backups).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let how = CreateBackupOptions::default().progress_callback(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    engine.create_new_backup_with_options(&db, &how, b"first").unwrap();
    let copied: u64 = engine.backup_infos()[0].size;
    let called = calls.load(Ordering::SeqCst) as u64;
    assert!(called * 100_000 <= copied && (called + 1) * 100_000 > copied - 10_000, "{called} of {copied}");
    engine.create_new_backup_with_options(&db, &how, b"second").unwrap();
    assert_eq!(calls.load(Ordering::SeqCst) as u64, called, "no table was copied again");
    let mut rng = fastrand::Rng::with_seed(2);
    for key in 0..200_u32 {
        let value: Vec<u8> = (0..3000).map(|_| rng.u8(..)).collect();
        db.put(key.to_be_bytes(), value).unwrap();
    }
    let stopper = engine.stopper();
    let stops =
        CreateBackupOptions::default().flush_before_backup(true).progress_callback(move || stopper.stop());
    let error = engine.create_new_backup_with_options(&db, &stops, b"third").unwrap_err();
    assert_eq!(error.to_string(), "Result incomplete: Backup stopped");
    let error = engine.create_new_backup(&db, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Incomplete, "all later backups stop, too, as in RocksDB");
    assert_eq!(engine.backup_infos().len(), 2);
    drop(engine);
    let mut engine = BackupEngine::open(&backups).unwrap();
    engine.garbage_collect().unwrap();
    assert_eq!(engine.create_new_backup(&db, true).unwrap(), 3);
    engine.verify_backup(3, true).unwrap();
}

#[test]
fn backups_and_restores_keep_to_their_rates() {
    let options = options(&Arc::new(MemFs::new()));
    let db = large(&options);
    let limiter = || Arc::new(RateLimiter::new(1 << 30, 100_000, 10, RateLimiterMode::AllIo));
    let (backing, restoring) = (limiter(), limiter());
    let backups = BackupEngineOptions::new("/backups").env(options.db.env.clone());
    let backups = backups.backup_rate_limiter(backing.clone()).restore_rate_limiter(restoring.clone());
    let mut engine = BackupEngine::open(&backups).unwrap();
    engine.create_new_backup(&db, true).unwrap();
    let size = engine.backup_infos()[0].size;
    let through = |limiter: &RateLimiter| limiter.total_bytes_through(None);
    // CURRENT is written anew, so it is not read.
    assert!(through(&backing) > size - 100 && through(&backing) <= size, "{} of {size}", through(&backing));
    engine.verify_backup(1, true).unwrap();
    assert!(through(&backing) > 2 * size - 200);
    assert_eq!(through(&restoring), 0);
    engine.restore_db_from_latest_backup("/restored", "/restored").unwrap();
    assert_eq!(through(&restoring), size);
    // A rate alone makes a limiter: 1 MiB takes about a second.
    let slow = BackupEngineOptions::new("/slow").env(options.db.env.clone()).backup_rate_limit(4 << 20);
    let clock = options.db.env.clock.clone();
    let begin = clock.monotonic_micros();
    BackupEngine::open(&slow).unwrap().create_new_backup(&db, true).unwrap();
    assert!(clock.monotonic_micros() - begin > 100_000, "{}", clock.monotonic_micros() - begin);
}

#[test]
fn destroy_old_data_deletes_every_backup_at_open() {
    let options = options(&Arc::new(MemFs::new()));
    let db = large(&options);
    let backups = BackupEngineOptions::new("/backups").env(options.db.env.clone());
    let mut engine = BackupEngine::open(&backups).unwrap();
    engine.create_new_backup(&db, true).unwrap();
    engine.create_new_backup(&db, false).unwrap();
    // One of the backups is corrupt.
    let fs = options.db.env.fs.clone();
    fs.delete_file(Path::new("/backups/private/2/CURRENT")).unwrap();
    drop(engine);
    let mut engine = BackupEngine::open(&backups.destroy_old_data(true)).unwrap();
    assert!(engine.backup_infos().is_empty() && engine.corrupted_backups().is_empty());
    assert!(fs.children(Path::new("/backups/shared_checksum")).unwrap().is_empty());
    assert_eq!(engine.create_new_backup(&db, true).unwrap(), 1);
}

#[test]
fn files_that_a_callback_leaves_out_come_from_other_backups_at_a_restore() {
    let fs = Arc::new(MemFs::new());
    let open = |fs: &Arc<MemFs>, dir: &str| {
        let options = BackupEngineOptions::new(dir).env(Env::with_fs(fs.clone())).schema_version(2);
        BackupEngine::open(&options).unwrap()
    };
    let db = Db::open(&options(&fs), "/db").unwrap();
    write(&db, 0);
    open(&fs, "/whole").create_new_backup(&db, true).unwrap();
    // The other backups may be in another file system.
    let others = Arc::new(MemFs::new());
    drop(open(&others, "/whole"));
    others.create_dir_if_missing(Path::new("/whole/private/1")).unwrap();
    for dir in ["/whole/meta", "/whole/private/1", "/whole/shared_checksum"].map(Path::new) {
        for path in fs.children(dir).unwrap().iter().map(|name| dir.join(name)) {
            let mut bytes = vec![0; fs.file_size(&path).unwrap() as usize];
            assert_eq!(fs.new_sequential_file(&path).unwrap().read(&mut bytes).unwrap(), bytes.len());
            let mut copy = others.new_writable_file(&path).unwrap();
            copy.append(&bytes).unwrap();
            copy.close().unwrap();
        }
    }
    let (mut backups, whole) = (open(&fs, "/backups"), open(&others, "/whole"));
    let without = CreateBackupOptions::default()
        .flush_before_backup(true)
        .exclude_files_callback(|name| name.starts_with("shared_checksum/") && name.ends_with(".sst"));
    backups.create_new_backup_with_options(&db, &without, b"").unwrap();
    assert_eq!(shared_files(&fs), 0);
    drop(backups);
    let mut backups = open(&fs, "/backups");
    let info = &backups.backup_infos()[0];
    assert_eq!((info.number_files, info.excluded_files.len()), (4, 1));
    backups.verify_backup(1, true).unwrap();

    // A restore without the file changes nothing: not even the database that is there.
    db.close().unwrap();
    let refused = backups.restore_db_from_backup(1, "/db", "/db").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.message().contains(&info.excluded_files[0]), "{refused}");
    let restored = RestoreOptions::default().alternate_dirs([&whole]);
    backups.restore_db_from_backup_with(&restored, 1, "/from-others", "/from-others").unwrap();
    assert!(holds(&Db::open(&options(&fs), "/from-others").unwrap(), 0));

    // A later backup of this engine has the file, and one that excludes it shares it.
    let db = Db::open(&options(&fs), "/db").unwrap();
    assert!(holds(&db, 0));
    backups.create_new_backup(&db, true).unwrap();
    backups.create_new_backup_with_options(&db, &without, b"").unwrap();
    assert!(backups.backup_infos()[2].excluded_files.is_empty());
    for id in 1..=3 {
        let target = format!("/restored-{id}");
        backups.restore_db_from_backup(id, &target, &target).unwrap();
        assert!(holds(&Db::open(&options(&fs), &target).unwrap(), 0), "backup {id}");
    }
}

#[test]
fn a_schema_of_meta_files_that_is_unknown_or_too_old_is_refused() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let excluding = CreateBackupOptions::default().exclude_files_callback(|_| true);
    let plain = CreateBackupOptions::default();
    for (schema, options, kind) in [
        (0, &plain, Some(ErrorKind::InvalidArgument)),
        (1, &excluding, Some(ErrorKind::InvalidArgument)),
        (1, &plain, None),
        (2, &excluding, None),
        (3, &plain, Some(ErrorKind::NotSupported)),
    ] {
        let env = Env::with_fs(fs.clone());
        let made = BackupEngineOptions::new("/backups").env(env).schema_version(schema);
        let made = BackupEngine::open(&made).unwrap().create_new_backup_with_options(&db, options, b"");
        assert_eq!(made.err().map(|error| error.kind()), kind, "schema {schema}");
    }
}

/// Changes a byte of the first block of a file.
fn damage(fs: &MemFs, path: &Path) {
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    fs.new_sequential_file(path).unwrap().read(&mut bytes).unwrap();
    bytes[10] ^= 1;
    fs.delete_file(path).unwrap();
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

fn tables(fs: &MemFs, dir: &str) -> Vec<PathBuf> {
    let mut names = fs.children(Path::new(dir)).unwrap();
    names.retain(|name| name.ends_with(".sst"));
    names.sort();
    names.iter().map(|name| Path::new(dir).join(name)).collect()
}

#[test]
fn a_restore_keeps_the_tables_that_its_mode_trusts() {
    for (mode, kept, is_whole) in [
        (RestoreMode::PurgeAllFiles, [false, false, false], true),
        (RestoreMode::KeepLatestDbSessionIdFiles, [true, false, true], false),
        (RestoreMode::VerifyChecksum, [false, false, true], true),
    ] {
        let fs = Arc::new(MemFs::new());
        let db = Db::open(&options(&fs), "/db").unwrap();
        let mut backups = engine(&fs);
        for round in 0..3 {
            write(&db, round);
            db.flush().unwrap();
        }
        let id = backups.create_new_backup(&db, true).unwrap();
        // A table that the backup lacks, one that is damaged, and one that is gone.
        write(&db, 3);
        db.flush().unwrap();
        db.close().unwrap();
        drop(db);
        let there = tables(&fs, "/db");
        assert_eq!(there.len(), 4);
        damage(&fs, &there[0]);
        fs.delete_file(&there[1]).unwrap();
        // Kept files have their second name still.
        fs.create_dir_if_missing(Path::new("/links")).unwrap();
        for table in there.iter().filter(|table| **table != there[1]) {
            fs.link_file(table, &Path::new("/links").join(table.file_name().unwrap())).unwrap();
        }
        let how = RestoreOptions::default().mode(mode);
        backups.restore_db_from_backup_with(&how, id, "/db", "/db").unwrap();
        assert_eq!(tables(&fs, "/db"), there[..3], "the backup lacks the fourth");
        let db = Db::open(&options(&fs), "/db").unwrap();
        assert_eq!(db.verify_checksum().is_ok(), is_whole, "{mode:?}");
        assert!((1..3).all(|round| holds(&db, round)) && db.get("key3-000").unwrap().is_none());
        db.close().unwrap();
        drop(db);
        for (table, kept) in there[..3].iter().zip(kept) {
            let link = Path::new("/links").join(table.file_name().unwrap());
            let is_kept = fs.file_exists(&link).unwrap() && {
                fs.truncate(&link, 0).unwrap();
                fs.file_size(table).unwrap() == 0
            };
            assert_eq!(is_kept, kept, "{mode:?}: {}", table.display());
        }
        // An empty directory gets everything.
        backups.restore_db_from_latest_backup_with(&how, "/new", "/new").unwrap();
        assert!(holds(&Db::open(&options(&fs), "/new").unwrap(), 0));
    }
}

#[test]
fn a_restore_looks_at_no_file_before_it_has_the_lock() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    write(&db, 0);
    let id = engine(&fs).create_new_backup(&db, true).unwrap();
    let faults = FaultFs::new(fs.clone());
    let is_table = |path: &Path| path.starts_with("/db") && path.extension().is_some_and(|e| e == "sst");
    faults.add_rule(FaultRule::fail_any().on(is_table).forever());
    let env = Env::with_fs(Arc::new(faults.clone()));
    let backups = BackupEngine::open(&BackupEngineOptions::new("/backups").env(env)).unwrap();
    for mode in [RestoreMode::KeepLatestDbSessionIdFiles, RestoreMode::VerifyChecksum] {
        let how = RestoreOptions::default().mode(mode);
        backups.restore_db_from_backup_with(&how, id, "/db", "/db").unwrap_err();
        assert_eq!(faults.fault_count(), 0, "{mode:?}");
    }
}

#[test]
fn files_that_a_restore_keeps_survive_a_power_loss() {
    let disk = CrashFs::new();
    let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    let db = Db::open(&options, "/db").unwrap();
    write(&db, 0);
    let how = BackupEngineOptions::new("/backups").env(options.db.env.clone());
    let mut backups = BackupEngine::open(&how).unwrap();
    let id = backups.create_new_backup(&db, true).unwrap();
    // An incomplete copy: whole files that nobody has synced.
    fs.create_dir_if_missing(Path::new("/copy")).unwrap();
    for name in fs.children(Path::new("/db")).unwrap().into_iter().filter(|name| name.ends_with(".sst")) {
        let (from, to) = (Path::new("/db").join(&name), Path::new("/copy").join(&name));
        let mut bytes = vec![0; usize::try_from(fs.file_size(&from).unwrap()).unwrap()];
        fs.new_sequential_file(&from).unwrap().read(&mut bytes).unwrap();
        let mut copy = fs.new_writable_file(&to).unwrap();
        copy.append(&bytes).unwrap();
        copy.close().unwrap();
    }
    let how = RestoreOptions::default().mode(RestoreMode::VerifyChecksum);
    backups.restore_db_from_backup_with(&how, id, "/copy", "/copy").unwrap();
    options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
    let db = Db::open(&options, "/copy").unwrap();
    assert!(db.verify_checksum().is_ok() && holds(&db, 0));
}

#[test]
fn a_damaged_backup_is_refused_again_when_the_restore_is_repeated() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    write(&db, 0);
    let mut backups = engine(&fs);
    backups.create_new_backup(&db, true).unwrap();
    damage(&fs, &tables(&fs, "/backups/shared_checksum")[0]);
    for mode in [RestoreMode::PurgeAllFiles, RestoreMode::KeepLatestDbSessionIdFiles] {
        let how = RestoreOptions::default().mode(mode);
        let refused = backups.restore_db_from_latest_backup_with(&how, "/new", "/new").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{mode:?}");
    }
}

#[test]
fn a_restore_keeps_no_other_file_of_a_writer_under_the_same_number() {
    let fs = Arc::new(MemFs::new());
    let mut backups = engine(&fs);
    let db = Db::open(&options(&fs), "/db").unwrap();
    let empty = backups.create_new_backup(&db, true).unwrap();
    db.close().unwrap();
    drop(db);
    let mut writer = SstFileWriter::new(&options(&fs));
    for n in 1..100 {
        writer.open(format!("/file{n}")).unwrap();
        writer.put(format!("key{n:02}"), "value").unwrap();
        writer.finish().unwrap();
    }
    // The number that an ingestion gives the first file which it takes.
    let ingested = |n: u64| {
        let db = Db::open(&options(&fs), "/db").unwrap();
        db.ingest_external_file(&[format!("/file{n}")]).unwrap();
        db
    };
    backups.restore_db_from_backup(empty, "/db", "/db").unwrap();
    let db = ingested(1);
    let with_first = backups.create_new_backup(&db, false).unwrap();
    let number = db.live_files()[0].file.file_number.0;
    db.close().unwrap();
    drop(db);
    assert!(number > 1 && number < 100, "{number}");
    backups.restore_db_from_backup(empty, "/db", "/db").unwrap();
    let db = ingested(number);
    assert_eq!(db.live_files()[0].file.file_number.0, number);
    db.close().unwrap();
    drop(db);
    let how = RestoreOptions::default().mode(RestoreMode::KeepLatestDbSessionIdFiles);
    backups.restore_db_from_backup_with(&how, with_first, "/db", "/db").unwrap();
    let db = Db::open(&options(&fs), "/db").unwrap();
    assert!(db.contains_key("key01").unwrap() && !db.contains_key(format!("key{number:02}")).unwrap());
}

#[test]
fn a_restore_takes_excluded_tables_from_the_database_that_is_there() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    write(&db, 0);
    let env = Env::with_fs(fs.clone());
    let how = BackupEngineOptions::new("/backups").env(env).schema_version(2);
    let mut backups = BackupEngine::open(&how).unwrap();
    let without = CreateBackupOptions::default().flush_before_backup(true).exclude_files_callback(|_| true);
    let id = backups.create_new_backup_with_options(&db, &without, b"").unwrap();
    assert_eq!(backups.env_for_open(id).unwrap_err().kind(), ErrorKind::NotSupported);
    write(&db, 1);
    db.close().unwrap();
    drop(db);
    let keep = RestoreOptions::default().mode(RestoreMode::KeepLatestDbSessionIdFiles);
    let refused = backups.restore_db_from_backup_with(&keep, id, "/elsewhere", "/elsewhere").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    backups.restore_db_from_backup_with(&keep, id, "/db", "/db").unwrap();
    let db = Db::open(&options(&fs), "/db").unwrap();
    assert!(holds(&db, 0) && db.get("key1-000").unwrap().is_none());
}

#[test]
fn a_backup_opens_in_place_and_stays_as_it_is() {
    let fs = Arc::new(MemFs::new());
    let db = Db::open(&options(&fs), "/db").unwrap();
    let mut backups = engine(&fs);
    for round in 0..3 {
        write(&db, round);
        // The last backup has a WAL, the others have tables.
        backups.create_new_backup(&db, round < 2).unwrap();
    }
    let files = |dir: &str| {
        let mut names = fs.children(Path::new(dir)).unwrap();
        names.sort();
        names
    };
    let before = (files("/backups/shared_checksum"), files("/backups/private/3"));
    for id in 1..=3 {
        let info = backups.backup_info(id).unwrap();
        assert_eq!(
            (info.file_details.len(), info.size),
            (info.number_files, { info.file_details.iter().map(|file| file.size).sum::<u64>() })
        );
        for file in &info.file_details {
            let path = file.directory.join(&file.relative_filename);
            assert_eq!(fs.file_size(&path).unwrap(), file.size, "{}", path.display());
        }
        let tables = info.file_details.iter().filter(|file| file.file_type == FileType::Table).count();
        assert_eq!(tables, (id as usize).min(2));
        let mut options = options(&fs);
        options.db.env = backups.env_for_open(id).unwrap();
        let backup = Db::open_for_read_only(&options, &info.name_for_open).unwrap();
        for round in 0..3 {
            assert_eq!(holds(&backup, round), round < id as usize, "backup {id}, round {round}");
        }
        backup.verify_checksum().unwrap();
        backup.close().unwrap();
        assert!(Db::open(&options, &info.name_for_open).is_err(), "for reading only");
        backups.verify_backup(id, true).unwrap();
    }
    assert_eq!((files("/backups/shared_checksum"), files("/backups/private/3")), before);
    assert!(backups.backup_infos().iter().all(|info| info.file_details.is_empty()));
    assert_eq!(backups.backup_info(4).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(backups.env_for_open(4).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Notes flushes that take all families or none.
#[derive(Default)]
struct Flushes(Mutex<Vec<String>>);

impl EventListener for Flushes {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.0.lock().unwrap().push(info.cf_name.clone());
    }
}

#[test]
fn a_backup_flushes_all_families_at_once_on_request() {
    for flush_before_backup in [false, true] {
        let (fs, flushes) = (Arc::new(MemFs::new()), Arc::new(Flushes::default()));
        let mut options = options(&fs);
        options.db.listeners = vec![flushes.clone()];
        let db = Db::open(&options, "/db").unwrap();
        let other = db.create_column_family("other", &options.cf).unwrap();
        write(&db, 0);
        db.put_cf(&other, "key", "value").unwrap();
        let how = CreateBackupOptions::default().flush_before_backup(flush_before_backup).atomic_flush(true);
        let mut backups = engine(&fs);
        backups.create_new_backup_with_options(&db, &how, b"").unwrap();
        let expected: &[&str] = if flush_before_backup { &["default", "other"] } else { &[] };
        // A listener may hear of a flush behind the waiting caller.
        assert!(becomes(|| {
            let mut flushed = flushes.0.lock().unwrap().clone();
            flushed.sort();
            flushed == expected
        }));
        assert_eq!(shared_files(&fs), if flush_before_backup { 2 } else { 0 });
        backups.restore_db_from_latest_backup("/restored", "/restored").unwrap();
        assert!(holds(&Db::open_for_read_only(&options, "/restored").unwrap(), 0));
    }
}
