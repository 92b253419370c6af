//! A closed database releases its directory for good: the next owner has it alone.

use crate::ingest::becomes;
use esker::internals::base::probe::Probes;
use esker::internals::env::mem::MemFs;
use esker::{
    BackupEngine, BackupEngineOptions, Db, Env, ErrorKind, ExplainScan, ExportImportFilesMetaData,
    ImportColumnFamilyOptions, Options, RangeOpt, ReadOptions, SstFileWriter,
};
use esker_testkit::TempDir;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

/// Names and sizes of the files in a directory, except the LOG.
fn files(options: &Options, dir: &str) -> BTreeMap<String, u64> {
    let fs = &options.db.env.fs;
    let names = fs.children(Path::new(dir)).unwrap().into_iter().filter(|name| !name.starts_with("LOG"));
    names.map(|name| (name.clone(), fs.file_size(&Path::new(dir).join(name)).unwrap())).collect()
}

#[test]
fn calls_after_the_close_change_nothing_in_the_directory() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let family = db.create_column_family("family", &options.cf).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "1").unwrap();
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    let default = db.default_column_family();
    let export = db.export_column_family(&default, "/export").unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/apart").unwrap();
    writer.put("d", "1").unwrap();
    writer.finish().unwrap();
    let backup_options =
        BackupEngineOptions { env: options.db.env.clone(), ..BackupEngineOptions::new("/backups") };
    let backups = Mutex::new(BackupEngine::open(&backup_options).unwrap());
    let import = |export: &ExportImportFilesMetaData| {
        let how = ImportColumnFamilyOptions::default();
        db.create_column_family_with_import(&how, "import", &options.cf, export)
    };
    db.close().unwrap();
    let before = files(&options, "/db");
    let calls: [(&str, &dyn Fn() -> esker::Result<()>); 13] = [
        ("put", &|| db.put("e", "1")),
        ("flush", &|| db.flush()),
        ("compact_range", &|| db.compact_range(None, None)),
        ("delete_files_in_ranges", &|| {
            let all = [RangeOpt { start: None, limit: None }];
            db.delete_files_in_ranges(&default, &all, true).map(drop)
        }),
        ("create_column_family", &|| db.create_column_family("late", &options.cf).map(drop)),
        ("drop_column_family", &|| db.drop_column_family(&family)),
        ("set_options", &|| db.set_options(&default, &[("write_buffer_size", "1000000")])),
        ("set_db_options", &|| db.set_db_options(&[("max_open_files", "100")])),
        ("ingest_external_file", &|| db.ingest_external_file(&["/apart"])),
        ("import", &|| import(&export).map(drop)),
        ("create_checkpoint", &|| db.create_checkpoint("/copy", u64::MAX).map(drop)),
        ("create_new_backup", &|| backups.lock().unwrap().create_new_backup(&db, false).map(drop)),
        ("resume", &|| db.resume()),
    ];
    for (name, call) in calls {
        let refused = call().expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::ShutdownInProgress, "{name}: {refused}");
        assert_eq!(files(&options, "/db"), before, "{name}");
    }
    assert!(!options.db.env.fs.file_exists(Path::new("/copy")).unwrap());
}

#[test]
fn reads_that_begin_after_the_close_are_refused_and_what_was_open_goes_on() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    db.put("b", "2").unwrap();
    let default = db.default_column_family();
    let (snapshot, mut iter) = (db.snapshot(), db.iter().unwrap());
    let value = db.get("a").unwrap().unwrap();
    db.close().unwrap();
    let read = ReadOptions::new();
    let then = ReadOptions::new().snapshot(&snapshot);
    let calls: [(&str, &dyn Fn() -> esker::Result<()>); 8] = [
        ("get", &|| db.get("a").map(drop)),
        ("get_opt", &|| db.get_opt(&then, &default, "a").map(drop)),
        ("multi_get", &|| db.multi_get(&["a"]).remove(0).map(drop)),
        ("multi_get of many", &|| db.multi_get(&["a"; 100]).remove(99).map(drop)),
        ("iter", &|| db.iter().map(drop)),
        ("iter_opt", &|| db.iter_opt(then.clone(), &default).map(drop)),
        ("explain_get", &|| db.explain_get(&read, &default, "a").map(drop)),
        ("explain_scan", &|| db.explain_scan(&read, &default, &ExplainScan::default()).map(drop)),
    ];
    for (name, call) in calls {
        let refused = call().expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::ShutdownInProgress, "{name}: {refused}");
    }
    iter.seek_to_first();
    let mut seen = Vec::new();
    while let Some((key, value)) = iter.item() {
        seen.push((key.to_vec(), value.to_vec()));
        iter.next();
    }
    assert_eq!(seen, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    assert_eq!(&*value, b"1");
    assert_eq!(db.latest_sequence_number().0, 2);
    assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("1"));
    assert_eq!(db.live_files().len(), 1);
    db.close().unwrap();
}

/// A checkpoint is being copied when another thread closes the database.
#[test]
#[expect(clippy::disallowed_methods, reason = "nobody tells that nothing goes on")]
fn a_checkpoint_ends_before_its_database_is_closed() {
    let options = options();
    let db = Arc::new(Db::open(&options, "/db").unwrap());
    db.put("a", "1").unwrap();
    let probes = Probes::new();
    let (closing, closed) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let (closer, thread, is_closed) = (db.clone(), closing.clone(), closed.clone());
    probes.on_this_thread("live_cut:name_files", move |_| {
        let (db, closed) = (closer.clone(), is_closed.clone());
        *thread.lock().unwrap() = Some(std::thread::spawn(move || {
            db.close().unwrap();
            closed.store(true, Ordering::SeqCst);
        }));
        let refused = || closer.put("", "").is_err_and(|e| e.kind() == ErrorKind::ShutdownInProgress);
        assert!(becomes(refused));
        // Time in which the close would end if it did not wait.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!is_closed.load(Ordering::SeqCst));
    });
    let made = db.create_checkpoint("/copy", 0);
    drop(probes);
    closing.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!(made.unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    let fs = &options.db.env.fs;
    assert!(!fs.file_exists(Path::new("/copy")).unwrap() && !fs.file_exists(Path::new("/copy.tmp")).unwrap());
}

#[test]
#[cfg(target_os = "linux")]
fn the_last_handle_of_a_family_closes_its_tables() {
    let dir = TempDir::new("closing");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let open_tables = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let files = descriptors.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        files.filter(|file| file.starts_with(dir.path())).count()
    };
    for number in 0..4 {
        let db = Db::open(&options, dir.path()).unwrap();
        let families = [
            db.default_column_family(),
            db.create_column_family(&format!("family{number}"), &options.cf).unwrap(),
        ];
        for family in &families {
            db.put_cf(family, "key", "value").unwrap();
            db.flush_opt(&Default::default(), &[family]).unwrap();
            db.get_cf(family, "key").unwrap();
        }
        db.drop_column_family(&families[1]).unwrap();
        drop(db);
        drop(families);
        assert_eq!(open_tables(), 0, "after opening {number}");
    }
}
