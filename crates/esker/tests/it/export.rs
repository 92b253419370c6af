//! A family that one database exports becomes a family of another.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, Db, Env, ErrorKind, ExportImportFilesMetaData,
    ImportColumnFamilyOptions, Options, ReadOptions, SequenceNumber, SstFileWriter, WriteBatch,
};
use esker_testkit::seed;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<String, String>;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options.cf.write_buffer_size = 32 << 10;
    options.cf.target_file_size_base = 8 << 10;
    options.cf.max_bytes_for_level_base = 32 << 10;
    options
}

fn key(n: usize) -> String {
    format!("key{n:04}")
}

fn contents(db: &Db, family: &ColumnFamilyHandle) -> Model {
    let mut iter = db.iter_opt(ReadOptions::new(), family).unwrap();
    let mut found = Model::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(db.get_cf(family, key).unwrap().as_deref(), Some(value), "get and scan agree");
        found.insert(text(key), text(value));
        iter.next();
    }
    iter.status().unwrap();
    found
}

fn compact(db: &Db, family: &ColumnFamilyHandle) {
    db.compact_range_opt(&Default::default(), family, None, None).unwrap();
}

/// Random writes of every kind, with flushes and compactions between them.
fn write(db: &Db, family: &ColumnFamilyHandle, model: &mut Model, rng: &mut fastrand::Rng, tag: &str) {
    for step in 0..300 {
        let (n, value) = (rng.usize(..1000), format!("{tag}.{step}"));
        match rng.u32(..20) {
            0 => {
                let end = n + rng.usize(1..100);
                let mut batch = WriteBatch::new();
                batch.delete_range_cf(family.id(), key(n).as_bytes(), key(end).as_bytes()).unwrap();
                db.write(&mut batch).unwrap();
                model.retain(|k, _| !(key(n)..key(end)).contains(k));
            }
            1..4 => {
                db.delete_cf(family, key(n)).unwrap();
                model.remove(&key(n));
            }
            4..8 => {
                let mut batch = WriteBatch::new();
                batch.merge_cf(family.id(), key(n).as_bytes(), value.as_bytes()).unwrap();
                db.write(&mut batch).unwrap();
                model.entry(key(n)).and_modify(|v| *v = format!("{v},{value}")).or_insert(value);
            }
            8 if rng.u32(..6) == 0 => db.flush_opt(&Default::default(), &[family]).unwrap(),
            9 if rng.u32(..10) == 0 => compact(db, family),
            _ => {
                for n in n..n + rng.usize(1..20) {
                    db.put_cf(family, key(n), &value).unwrap();
                    model.insert(key(n), value.clone());
                }
            }
        }
    }
}

#[test]
fn an_exported_family_is_imported_as_it_was() {
    let mut rng = seed::rng("export");
    for round in 0..6 {
        let options = options();
        let db = Db::open(&options, "/db").unwrap();
        let family = db.create_column_family("source", &options.cf).unwrap();
        let mut model = Model::new();
        write(&db, &family, &mut model, &mut rng, "a");
        // A table whose sequence number only the MANIFEST has.
        let mut writer = SstFileWriter::new(&options);
        writer.open("/ingested").unwrap();
        for n in (0..1000).step_by(rng.usize(7..300)) {
            writer.put(key(n), "ingested").unwrap();
            model.insert(key(n), "ingested".to_owned());
        }
        writer.finish().unwrap();
        db.ingest_external_file_cf(&family, &["/ingested"]).unwrap();
        let snapshot = rng.bool().then(|| db.snapshot());
        write(&db, &family, &mut model, &mut rng, "b");
        let exported = db.export_column_family(&family, "/exported").unwrap();
        assert_eq!(exported.db_comparator_name, "leveldb.BytewiseComparator");
        assert!(exported.files.iter().all(|f| f.column_family_name == "source"));
        let before = model.clone();
        drop(snapshot);
        write(&db, &family, &mut model.clone(), &mut rng, "unseen");

        // The target is an almost empty database with lower sequence numbers, or the same database.
        let target = if rng.bool() { db.clone() } else { Db::open(&options, "/other").unwrap() };
        let numbers = |db: &Db| db.latest_sequence_number();
        let move_files = rng.bool();
        let import = ImportColumnFamilyOptions { move_files };
        let imported =
            target.create_column_family_with_import(&import, "twin", &options.cf, &exported).unwrap();
        let newest = exported.files.iter().map(|f| f.largest_seqno).max().unwrap_or_default();
        assert!(numbers(&target) >= newest && newest > SequenceNumber::ZERO);
        assert_eq!(contents(&target, &imported), before, "round {round}");
        for file in &exported.files {
            let there = options.db.env.fs.file_exists(&file.directory.join(&file.relative_filename)).unwrap();
            assert_eq!(there, !move_files);
        }
        write(&target, &imported, &mut model, &mut rng, "c");
        assert_eq!(contents(&target, &imported), model, "round {round}, written on");

        let path = target.path().to_owned();
        target.close().unwrap();
        drop((imported, family, target));
        db.close().unwrap();
        drop(db);
        let names = Db::list_column_families(&options.db, &path).unwrap();
        let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let target = Db::open_cf(&options.db, &path, families).unwrap();
        let imported = target.column_family("twin").unwrap();
        assert_eq!(contents(&target, &imported), model, "round {round}, opened again");
        compact(&target, &imported);
        assert_eq!(contents(&target, &imported), model, "round {round}, compacted");
    }
}

/// A small family and its export.
fn exported(options: &Options) -> (Db, ExportImportFilesMetaData) {
    let db = Db::open(options, "/db").unwrap();
    let family = db.create_column_family("source", &options.cf).unwrap();
    for half in [0, 100] {
        (half..half + 100).for_each(|n| db.put_cf(&family, key(n), "value").unwrap());
        db.flush_opt(&Default::default(), &[&family]).unwrap();
    }
    let export = db.export_column_family(&family, "/exported").unwrap();
    assert_eq!(export.files.len(), 2);
    (db, export)
}

#[test]
fn the_metadata_of_an_export_is_checked_against_its_tables() {
    let options = options();
    let (db, export) = exported(&options);
    let names = || options.db.env.fs.children(Path::new("/db")).unwrap();
    let tables = || names().into_iter().filter(|n| n.ends_with(".sst")).count();
    let before = tables();
    let refused = |change: &dyn Fn(&mut ExportImportFilesMetaData), kind: ErrorKind, what: &str| {
        let mut changed = export.clone();
        change(&mut changed);
        let import = ImportColumnFamilyOptions::default();
        let e = db.create_column_family_with_import(&import, "twin", &options.cf, &changed).unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(e.to_string().contains(what), "{e}");
        assert_eq!(tables(), before, "{e}");
        assert!(db.column_family("twin").is_none());
    };
    let reverse = "rocksdb.ReverseBytewiseComparator";
    let invalid = ErrorKind::InvalidArgument;
    refused(&|e| reverse.clone_into(&mut e.db_comparator_name), invalid, "Comparator name mismatch");
    refused(&|e| e.files[0].level = 7, invalid, "num_levels");
    refused(&|e| e.files[0].file.smallest.clear(), invalid, "bounds");
    refused(&|e| e.files[0].file.size += 1, ErrorKind::Corruption, "bytes");
    refused(&|e| e.files[0].file.relative_filename.push('x'), ErrorKind::IoError, "sstx");
    refused(&|e| e.files[0].file.largest = e.files[0].smallest.clone(), ErrorKind::Corruption, "outside");
    refused(
        &|e| e.files[0].file.smallest = e.files[0].largest.clone(),
        ErrorKind::Corruption,
        "outside of the bounds",
    );
    refused(
        &|e| e.files.iter_mut().for_each(|f| f.file.oldest_blob_file_number = Some(esker::FileNumber(9))),
        ErrorKind::NotSupported,
        "blob",
    );
    let twice = |e: &mut ExportImportFilesMetaData| {
        e.files[1] = e.files[0].clone();
        e.files.iter_mut().for_each(|f| f.level = 3);
    };
    refused(&twice, invalid, "Files have overlapping ranges");
    let import = ImportColumnFamilyOptions::default();
    let taken = db.create_column_family_with_import(&import, "source", &options.cf, &export).unwrap_err();
    assert_eq!((taken.kind(), tables()), (invalid, before));
    let there = db.export_column_family(&db.default_column_family(), "/exported").unwrap_err();
    assert!(there.to_string().contains("Specified export_dir exists"), "{there}");
    db.create_column_family_with_import(&import, "twin", &options.cf, &export).unwrap();
}

#[test]
fn a_table_with_a_changed_byte_is_named_by_verify_checksum() {
    let options = options();
    let (db, export) = exported(&options);
    db.verify_checksum().unwrap();
    let fs = options.db.env.fs.clone();
    for file in &export.files {
        let path = Path::new("/db").join(&file.relative_filename);
        let mut bytes = vec![0; usize::try_from(file.size).unwrap()];
        let read = fs.new_random_access_file(&path).unwrap().read_at(0, &mut bytes).unwrap();
        assert_eq!(read, bytes.len());
        let rewrite = |bytes: &[u8]| {
            let mut file = fs.new_writable_file(&path).unwrap();
            file.append(bytes).unwrap();
            file.close().unwrap();
        };
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        rewrite(&damaged);
        let e = db.verify_checksum().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        assert!(e.to_string().contains(&file.relative_filename), "{e}");
        rewrite(&bytes);
        db.verify_checksum().unwrap();
    }
}

#[test]
fn values_in_blob_files_are_not_exported() {
    let mut options = options();
    options.cf.enable_blob_files = true;
    let db = Db::open(&options, "/db").unwrap();
    db.put("key", "value in a blob file").unwrap();
    let e = db.export_column_family(&db.default_column_family(), "/exported").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotSupported, "{e}");
    assert!(!options.db.env.fs.file_exists(Path::new("/exported")).unwrap());
}

#[test]
fn moved_tables_of_an_import_are_durable_though_their_writer_did_not_sync_them() {
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let (db, mut export) = exported(&options);
    // The export was brought from another place.
    disk.create_dir_if_missing(Path::new("/brought")).unwrap();
    for file in &mut export.files {
        let name = file.relative_filename.clone();
        let to = Path::new("/brought").join(&name);
        crate::ingest::copy_without_sync(&disk, &file.directory.join(&name), &to);
        file.file.directory = "/brought".into();
    }
    let import = ImportColumnFamilyOptions { move_files: true };
    drop(db.create_column_family_with_import(&import, "twin", &options.cf, &export).unwrap());
    options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
    drop(db);
    let families = ["default", "source", "twin"];
    let families = families.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).to_vec();
    let db = Db::open_cf(&options.db, "/db", families).unwrap();
    assert_eq!(contents(&db, &db.column_family("twin").unwrap()).len(), 200);
}

#[test]
fn an_import_that_fails_or_loses_power_leaves_all_or_no_keys() {
    for step in 0.. {
        let disk = CrashFs::new();
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let mut options = options();
        options.db.env = Env::with_fs(faults.clone());
        let (db, export) = exported(&options);
        faults.new_directory(Path::new("/")).unwrap().fsync().unwrap();
        db.put("key", "value").unwrap();
        db.sync_wal().unwrap();
        db.wait_for_background_work().unwrap();
        faults.add_rule(FaultRule::fail_any().nth(step).on(|path| !path.starts_with("/db/LOG")));
        let import = ImportColumnFamilyOptions { move_files: step % 2 == 0 };
        let done = db.create_column_family_with_import(&import, "twin", &options.cf, &export);
        let met = faults.fault_count() > 0;
        faults.clear_rules();
        let named = done.as_ref().map(|_| ()).map_err(Clone::clone);
        if let Err(e) = &named {
            let left = db.column_family("twin").map(|family| contents(&db, &family));
            assert!(
                left.as_ref().is_none_or(|left| left.is_empty() || left.len() == 200),
                "step {step}: {e}"
            );
        }
        drop(done);
        options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
        drop(db);
        let names = Db::list_column_families(&options.db, "/db").unwrap();
        let families = names.into_iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let db = Db::open_cf(&options.db, "/db", families).unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]), "step {step}");
        assert_eq!(contents(&db, &db.column_family("source").unwrap()).len(), 200, "step {step}");
        let twin = db.column_family("twin").map(|family| contents(&db, &family).len());
        match &named {
            Ok(()) => assert_eq!(twin, Some(200), "step {step}"),
            Err(e) => assert!(matches!(twin, None | Some(0 | 200)), "step {step}: {e}: {twin:?}"),
        }
        if !met {
            return;
        }
    }
}
