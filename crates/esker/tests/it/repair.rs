//! A repair restores a database without MANIFEST and CURRENT from its tables and WALs.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem, OpKind};
use esker::options::{BottommostLevelCompaction, TargetVersion};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, ColumnFamilyId, ColumnFamilyOptions, CompactRangeOptions, Db,
    DbOptions, Env, ErrorKind, ImportColumnFamilyOptions, OpenMode, Options, ReadOptions, SstFileWriter,
    WriteBatch, WriteOptions, repair_db,
};
use std::path::Path;
use std::sync::Arc;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options
}

fn families(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    let reverse = ColumnFamilyOptions {
        comparator: esker::comparator::by_name("rocksdb.ReverseBytewiseComparator").unwrap(),
        ..options.cf.clone()
    };
    let merging = ColumnFamilyOptions {
        merge_operator: esker::builtin::merge_operator("stringappend"),
        ..options.cf.clone()
    };
    vec![
        ColumnFamilyDescriptor::new("default", options.cf.clone()),
        ColumnFamilyDescriptor::new("reverse", reverse),
        ColumnFamilyDescriptor::new("merging", merging),
    ]
}

fn contents(db: &Db, family: &ColumnFamilyHandle) -> Vec<(String, String)> {
    let mut iter = db.iter_cf(family).unwrap();
    let mut found = Vec::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.push((text(key), text(value)));
        iter.next();
    }
    iter.status().unwrap();
    found
}

fn all_contents(db: &Db) -> Vec<Vec<(String, String)>> {
    let names = ["default", "reverse", "merging"];
    names.iter().map(|name| contents(db, &db.column_family(name).unwrap())).collect()
}

/// Three families with overwritten keys, deletions and range deletions in tables and in the WAL.
fn fill(options: &Options, path: &Path) -> Vec<Vec<(String, String)>> {
    let mut db_options = options.db.clone();
    db_options.create_missing_column_families = true;
    let db = Db::open_cf(&db_options, path, families(options)).unwrap();
    let of = |name| db.column_family(name).unwrap();
    let (reverse, merging) = (of("reverse"), of("merging"));
    for round in 0..4 {
        let mut batch = WriteBatch::new();
        for i in 0..200 {
            let key = format!("key{i:04}");
            batch
                .put_cf(db.default_column_family().id(), key.as_bytes(), format!("v{round}").as_bytes())
                .unwrap();
            batch.put_cf(reverse.id(), key.as_bytes(), format!("r{round}").as_bytes()).unwrap();
            batch.merge_cf(merging.id(), key.as_bytes(), format!("{round}").as_bytes()).unwrap();
        }
        batch.delete_cf(reverse.id(), format!("key{:04}", round * 7).as_bytes()).unwrap();
        db.write(&mut batch).unwrap();
        let (begin, end) = (format!("key{:04}", 20 * round), format!("key{:04}", 20 * round + 10));
        db.delete_range(begin, end).unwrap();
        match round {
            // The other families stay in the WAL, which also has the entries of these tables.
            0 | 2 => db.flush_opt(&Default::default(), &[&db.default_column_family(), &merging]).unwrap(),
            1 => db.flush_opt(&Default::default(), &[&reverse]).unwrap(),
            _ => {}
        }
    }
    all_contents(&db)
}

fn lose(fs: &dyn FileSystem, path: &Path, kinds: &[&str]) {
    for name in fs.children(path).unwrap() {
        if kinds.iter().any(|kind| name.starts_with(kind)) {
            fs.delete_file(&path.join(name)).unwrap();
        }
    }
}

#[test]
fn everything_comes_back_without_manifest_and_current() {
    let options = options();
    let path = Path::new("/db");
    let expected = fill(&options, path);
    let fs = options.db.env.fs.clone();
    lose(fs.as_ref(), path, &["MANIFEST", "CURRENT"]);

    let summary = repair_db(&options, path, &families(&options)).unwrap();
    assert_eq!(summary.families, ["default", "reverse", "merging"]);
    assert!(summary.tables_lost.is_empty(), "{summary:?}");
    assert_eq!(summary.wal_records_without_family, 0);
    assert!(summary.wal_records > 0 && !summary.tables_from_wals.is_empty(), "{summary:?}");

    let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
    assert_eq!(all_contents(&db), expected);
    db.put("key0000", "new").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get("key0000").unwrap().as_deref(), Some(&b"new"[..]));
    assert!(!fs.children(&path.join("lost")).unwrap().is_empty(), "the WALs are kept");
}

/// Tables without timestamps are described as such, bounds and all, and a WAL's operands are not
/// taken a second time.
#[test]
fn a_family_whose_timestamps_are_in_memory_only_comes_back_as_one() {
    let path = Path::new("/db");
    for with_manifest in [false, true] {
        let mut options = options();
        options.db.compatible_with = TargetVersion::V8;
        options.cf.comparator = esker::comparator::by_name("leveldb.BytewiseComparator.u64ts").unwrap();
        options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
        options.cf.persist_user_defined_timestamps = false;
        let default = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
        let write = WriteOptions::default();
        let (mut db_options, path_of) = (options.db.clone(), |i: u64| format!("k{i:02}"));
        db_options.create_missing_column_families = true;
        // The other family needs the WAL, so it stays.
        let plain = ColumnFamilyDescriptor::new("plain", ColumnFamilyOptions::default());
        let both = [default[0].clone(), plain.clone()];
        let db = Db::open_cf(&db_options, path, both.to_vec()).unwrap();
        let family = db.default_column_family();
        db.put_cf(&db.column_family("plain").unwrap(), "a", "1").unwrap();
        for i in 0..50 {
            db.put_with_ts(&write, &family, path_of(i), &(i + 1).to_le_bytes(), format!("v{i}")).unwrap();
            db.merge_with_ts(&write, &family, path_of(i), &(i + 2).to_le_bytes(), "once").unwrap();
        }
        db.delete_range_with_ts(&write, &family, "k40", "k60", &60u64.to_le_bytes()).unwrap();
        db.flush().unwrap();
        for i in 0..10 {
            db.put_with_ts(&write, &family, path_of(i), &(i + 100).to_le_bytes(), format!("w{i}")).unwrap();
        }
        let state = |db: &Db| -> Vec<_> {
            let now = ReadOptions { timestamp: Some(1000u64.to_le_bytes().to_vec()), ..Default::default() };
            let family = db.default_column_family();
            let scanned = {
                let mut iter = db.iter_opt(now.clone(), &family).unwrap();
                iter.seek_to_first();
                std::iter::from_fn(move || {
                    let found = iter.item().map(|(key, value)| (key.to_vec(), value.to_vec()))?;
                    iter.next();
                    Some(found)
                })
            };
            let scanned: Vec<_> = scanned.collect();
            let got = (0..50).filter_map(|i| {
                Some((path_of(i).into_bytes(), db.get_opt(&now, &family, path_of(i)).unwrap()?))
            });
            assert_eq!(got.collect::<Vec<_>>(), scanned);
            scanned
        };
        let expected = state(&db);
        assert_eq!(expected.len(), 40);
        db.close().unwrap();
        drop((db, family));
        lose(
            options.db.env.fs.as_ref(),
            path,
            if with_manifest { &["CURRENT"] } else { &["MANIFEST", "CURRENT"] },
        );
        let summary = repair_db(&options, path, &both).unwrap();
        assert!(summary.tables_lost.is_empty() && !summary.tables_from_wals.is_empty(), "{summary:?}");
        for _ in 0..2 {
            let mut options = options.clone();
            options.cf.persist_user_defined_timestamps = true;
            // The MANIFEST counts.
            let default = ColumnFamilyDescriptor::new("default", options.cf.clone());
            let families = db_families(&options, path, [default, plain.clone()]);
            let db = Db::open_cf(&options.db, path, families).unwrap();
            assert_eq!(state(&db), expected);
            db.compact_range(None, None).unwrap();
            assert_eq!(state(&db), expected);
            let old = ReadOptions { timestamp: Some(30u64.to_le_bytes().to_vec()), ..Default::default() };
            let error = db.get_opt(&old, &db.default_column_family(), "k01").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            db.close().unwrap();
        }
    }
}

/// The families that the database has: only the WAL names a family without tables.
fn db_families(
    options: &Options,
    path: &Path,
    all: [ColumnFamilyDescriptor; 2],
) -> Vec<ColumnFamilyDescriptor> {
    let names = Db::list_column_families(&options.db, path).unwrap();
    all.into_iter().filter(|family| names.contains(&family.name)).collect()
}

/// Tables of this kind name no family, or the one from which they come, and do not contain their
/// age.
#[test]
fn ingested_and_imported_tables_keep_their_family_and_age_if_the_manifest_can_be_read() {
    let path = Path::new("/db");
    for with_manifest in [true, false] {
        let mut options = options();
        options.db.create_missing_column_families = true;
        // The tables stay as they are.
        options.cf.disable_auto_compactions = true;
        let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
        let merging = db.column_family("merging").unwrap();
        for key in ["key", "other"] {
            db.put_cf(&merging, key, "of before").unwrap();
        }
        db.flush_opt(&Default::default(), &[&merging]).unwrap();
        let mut writer = SstFileWriter::new(&options);
        writer.open("/file").unwrap();
        writer.put("key", "ingested").unwrap();
        writer.finish().unwrap();
        db.ingest_external_file_cf(&merging, &["/file"]).unwrap();
        let exported = db.export_column_family(&merging, "/export").unwrap();
        db.delete_cf(&merging, "other").unwrap();
        db.flush_opt(&Default::default(), &[&merging]).unwrap();
        db.drop_column_family(&db.column_family("reverse").unwrap()).unwrap();
        let with = ImportColumnFamilyOptions::default();
        let family = families(&options).remove(2).options;
        db.create_column_family_with_import(&with, "reverse", &family, &exported).unwrap();
        db.close().unwrap();
        drop((merging, db));
        let fs = options.db.env.fs.clone();
        lose(fs.as_ref(), path, if with_manifest { &["CURRENT"] } else { &["CURRENT", "MANIFEST"] });

        let all = ["default", "merging", "reverse"];
        let described = all.map(|name| ColumnFamilyDescriptor::new(name, family.clone()));
        let summary = repair_db(&options, path, &described).unwrap();
        assert!(summary.tables_lost.is_empty(), "{summary:?}");
        if !with_manifest {
            // The ingested table counts as the oldest of the default family; its copy, too.
            assert_eq!(summary.families, ["default", "merging"]);
            assert!(!summary.order_unsure.is_empty(), "{summary:?}");
            continue;
        }
        assert_eq!(summary.families, all);
        let db = Db::open_cf(&options.db, path, described).unwrap();
        let found = |name| contents(&db, &db.column_family(name).unwrap());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(found("default"), []);
        assert_eq!(found("merging"), [pair("key", "ingested")]);
        assert_eq!(found("reverse"), [pair("key", "ingested"), pair("other", "of before")]);
        for name in ["merging", "reverse"] {
            let value = db.get_cf(&db.column_family(name).unwrap(), "key").unwrap();
            assert_eq!(value.as_deref(), Some(&b"ingested"[..]), "{name}");
        }
    }
}

/// The family's tables are still on disk, because a handle holds it.
#[test]
fn a_dropped_family_stays_dropped_if_the_manifest_can_be_read() {
    let path = Path::new("/db");
    for with_manifest in [true, false] {
        let disk = CrashFs::new();
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        let expected = fill(&options, path);
        let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
        let reverse = db.column_family("reverse").unwrap();
        let tables = db.live_files().iter().filter(|f| f.column_family_name == "reverse").count();
        db.drop_column_family(&reverse).unwrap();
        let left = disk.crash_clone(&CrashChoices::process_kill());
        lose(&left, path, if with_manifest { &["CURRENT"] } else { &["CURRENT", "MANIFEST"] });
        options.db.env = Env::with_fs(Arc::new(left.clone()));

        let summary = repair_db(&options, path, &families(&options)).unwrap();
        assert!(tables > 0, "deleted entries may reappear");
        if !with_manifest {
            assert_eq!(summary.families, ["default", "reverse", "merging"]);
            continue;
        }
        assert_eq!(summary.families, ["default", "merging"]);
        assert_eq!(summary.tables_obsolete.len(), tables, "{summary:?}");
        let others: Vec<_> = families(&options).into_iter().filter(|f| f.name != "reverse").collect();
        let again = Db::open_cf(&options.db, path, others).unwrap();
        assert_eq!(contents(&again, &again.default_column_family()), expected[0]);
        assert_eq!(contents(&again, &again.column_family("merging").unwrap()), expected[2]);
        let anew = again.create_column_family("reverse", &options.cf).unwrap();
        assert!(anew.id() > reverse.id().max(db.column_family("merging").unwrap().id()));
        assert_eq!(contents(&again, &anew), []);
        assert!(left.children(&path.join("lost")).unwrap().len() > tables);
    }
}

/// A WAL that another family still needs has operands that a flush joined into one.
#[test]
fn operands_joined_by_a_flush_are_not_taken_from_the_wal_again() {
    let mut options = options();
    // A compaction would zero the sequence numbers that show which WAL entries the table has.
    options.cf.disable_auto_compactions = true;
    let path = Path::new("/db");
    let mut db_options = options.db.clone();
    db_options.create_missing_column_families = true;
    let db = Db::open_cf(&db_options, path, families(&options)).unwrap();
    let merging = db.column_family("merging").unwrap();
    db.put("keeps the WAL", "alive").unwrap();
    let mut batch = WriteBatch::new();
    for operand in [b"1", b"2", b"3"] {
        batch.merge_cf(merging.id(), b"joined", operand).unwrap();
    }
    batch.put_cf(merging.id(), b"overwritten", b"old").unwrap();
    batch.put_cf(merging.id(), b"overwritten", b"new").unwrap();
    batch.merge_cf(merging.id(), b"hidden", b"1").unwrap();
    batch.delete_range_cf(merging.id(), b"hidden", b"hidden0").unwrap();
    db.write(&mut batch).unwrap();
    db.flush_opt(&Default::default(), &[&merging]).unwrap();
    let mut batch = WriteBatch::new();
    batch.merge_cf(merging.id(), b"joined", b"4").unwrap();
    db.write(&mut batch).unwrap();
    let expected = all_contents(&db);
    drop(merging);
    drop(db);
    lose(options.db.env.fs.as_ref(), path, &["MANIFEST", "CURRENT"]);

    let summary = repair_db(&options, path, &families(&options)).unwrap();
    assert_eq!(summary.wal_records, 2, "the WAL's put and last operand are recovered: {summary:?}");
    let db = Db::open_cf(&db_options, path, families(&options)).unwrap();
    assert_eq!(all_contents(&db), expected);
}

#[test]
fn a_damaged_table_goes_to_lost_and_the_rest_comes_back() {
    let options = options();
    let path = Path::new("/db");
    let db = Db::open(&options, path).unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, "1").unwrap();
        db.flush().unwrap();
    }
    let victim = db.live_files().into_iter().find(|f| f.file.smallest_key == b"b").unwrap().file;
    drop(db);
    let fs = options.db.env.fs.clone();
    let file = path.join(&victim.relative_filename);
    let mut bytes = vec![0; usize::try_from(victim.size).unwrap()];
    fs.new_random_access_file(&file).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[2] ^= 1;
    let mut damaged = fs.new_writable_file(&file).unwrap();
    damaged.append(&bytes).unwrap();
    damaged.close().unwrap();

    let summary = repair_db(&options, path, &[]).unwrap();
    assert_eq!(summary.tables_lost.len(), 1);
    assert_eq!(summary.tables_lost[0].0, victim.file_number);
    assert!(fs.file_exists(&path.join("lost").join(&victim.relative_filename)).unwrap());
    let db = Db::open(&options, path).unwrap();
    let default = db.default_column_family();
    assert_eq!(contents(&db, &default).len(), 2);
}

#[test]
fn another_comparator_is_refused_and_nothing_is_touched() {
    let options = options();
    let path = Path::new("/db");
    let expected = fill(&options, path);
    let fs = options.db.env.fs.clone();
    let before = fs.children(path).unwrap().len();
    let error = repair_db(&options, path, &[]).unwrap_err();
    assert!(error.to_string().contains("rocksdb.ReverseBytewiseComparator"), "{error}");
    assert_eq!(fs.children(path).unwrap().len(), before);
    let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
    assert_eq!(all_contents(&db), expected);
}

/// Runs RocksDB's `ldb`; `None` where it is not installed.
fn ldb(path: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let database = format!("--db={}", path.display());
    let output = std::process::Command::new("ldb").arg(database).args(arguments).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn rocksdb_reads_what_was_repaired() {
    let path = std::env::temp_dir().join(format!("esker-repair-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &path).unwrap();
    let other = db.create_column_family("other", &options.cf).unwrap();
    for round in 0..3 {
        for i in 0..50 {
            db.put(format!("key{i:02}"), format!("v{round}")).unwrap();
            db.put_cf(&other, format!("key{i:02}"), format!("o{round}")).unwrap();
        }
        db.delete_range(format!("key{:02}", 10 * round), format!("key{:02}", 10 * round + 5)).unwrap();
        if round == 1 {
            db.flush_opt(&Default::default(), &[&db.default_column_family(), &other]).unwrap();
        }
    }
    let expected = [contents(&db, &db.default_column_family()), contents(&db, &other)];
    drop((other, db));
    lose(options.db.env.fs.as_ref(), &path, &["MANIFEST", "CURRENT"]);
    let summary = repair_db(&options, &path, &[]).unwrap();
    assert!(summary.order_unsure.is_empty(), "{summary:?}");
    if let Some((ok, text)) = ldb(&path, &["checkconsistency"]) {
        assert!(ok && text.contains("OK"), "{text}");
        for (name, expected) in ["default", "other"].iter().zip(&expected) {
            let (ok, text) = ldb(&path, &[&format!("--column_family={name}"), "scan"]).unwrap();
            let lines: Vec<String> = expected.iter().map(|(key, value)| format!("{key} : {value}")).collect();
            let found: Vec<&str> = text.lines().filter(|line| line.contains(" : ")).collect();
            assert!(ok && found == lines, "{text}");
        }
    }
    let families = ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let db = Db::open_cf(&options.db, &path, families.to_vec()).unwrap();
    let other = db.column_family("other").unwrap();
    assert_eq!([contents(&db, &db.default_column_family()), contents(&db, &other)], expected);
    drop((other, db));
    std::fs::remove_dir_all(&path).unwrap();
}

/// A database with operands of one key: two in a table of the last level, whose sequence numbers a
/// compaction has taken away, and all three in WALs. Returns its contents.
fn operands_without_sequence_numbers(options: &Options, path: &Path) -> Vec<Vec<(String, String)>> {
    let mut db_options = options.db.clone();
    db_options.create_missing_column_families = true;
    let db = Db::open_cf(&db_options, path, families(options)).unwrap();
    let merging = db.column_family("merging").unwrap();
    db.put("keeps the WAL", "alive").unwrap();
    for operand in ["1", "2"] {
        db.merge_opt(&WriteOptions::default(), &merging, "key", operand).unwrap();
    }
    db.flush_opt(&Default::default(), &[&merging]).unwrap();
    let all = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range_opt(&all, &merging, None, None).unwrap();
    db.merge_opt(&WriteOptions::default(), &merging, "key", "3").unwrap();
    all_contents(&db)
}

/// CURRENT is gone and the MANIFEST's end is torn, but the rest of the MANIFEST says that they were
/// flushed.
#[test]
fn operands_that_lost_their_sequence_numbers_are_not_taken_from_the_wal_again() {
    let options = options();
    let path = Path::new("/db");
    let expected = operands_without_sequence_numbers(&options, path);
    let fs = options.db.env.fs.clone();
    lose(fs.as_ref(), path, &["CURRENT"]);
    let manifest = fs.children(path).unwrap().into_iter().find(|n| n.starts_with("MANIFEST")).unwrap();
    let manifest = path.join(manifest);
    let mut file = fs.reopen_writable_file(&manifest).unwrap();
    file.append(b"torn off: no record").unwrap();
    file.close().unwrap();

    let summary = repair_db(&options, path, &families(&options)).unwrap();
    assert_eq!(summary.wal_records, 2, "the WAL's put and last operand are recovered: {summary:?}");
    let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
    assert_eq!(all_contents(&db), expected);
}

/// Nothing in the tables or WALs says that the operands were flushed: docs/compat/backups.md.
#[test]
fn without_a_manifest_operands_that_lost_their_sequence_numbers_are_taken_again() {
    let options = options();
    let path = Path::new("/db");
    operands_without_sequence_numbers(&options, path);
    lose(options.db.env.fs.as_ref(), path, &["MANIFEST", "CURRENT"]);
    let summary = repair_db(&options, path, &families(&options)).unwrap();
    assert_eq!(summary.wal_records, 4, "the WAL's put and all operands are recovered: {summary:?}");
    let mut db_options = options.db.clone();
    db_options.create_missing_column_families = true;
    let db = Db::open_cf(&db_options, path, families(&options)).unwrap();
    let merging = db.column_family("merging").unwrap();
    assert_eq!(db.get_cf(&merging, "key").unwrap().as_deref(), Some(&b"1,2,1,2,3"[..]));
}

#[test]
fn a_manifest_that_was_only_begun_is_not_taken_for_the_newest() {
    for (has_current, begun_with) in [(true, 0), (true, 60), (false, 0), (false, 60)] {
        let options = options();
        let (path, fs) = (Path::new("/db"), options.db.env.fs.clone());
        let families = || {
            vec![
                ColumnFamilyDescriptor::new("default", options.cf.clone()),
                ColumnFamilyDescriptor::new("only in a WAL", options.cf.clone()),
            ]
        };
        let mut db_options = options.db.clone();
        db_options.create_missing_column_families = true;
        let db = Db::open_cf(&db_options, path, families()).unwrap();
        db.put_cf(&db.column_family("only in a WAL").unwrap(), "key", "value").unwrap();
        drop(db);
        // The state after a power failure while an open or an earlier repair writes its MANIFEST.
        let manifests = fs.children(path).unwrap().into_iter().filter(|name| name.starts_with("MANIFEST"));
        let manifest = path.join(manifests.max().unwrap());
        let mut beginning = vec![0; begun_with];
        assert_eq!(fs.new_sequential_file(&manifest).unwrap().read(&mut beginning).unwrap(), begun_with);
        let mut begun = fs.new_writable_file(&path.join("MANIFEST-000999")).unwrap();
        begun.append(&beginning).unwrap();
        begun.close().unwrap();
        if !has_current {
            lose(fs.as_ref(), path, &["CURRENT"]);
        }

        let summary = repair_db(&options, path, &families()).unwrap();
        assert_eq!(summary.wal_records_without_family, 0, "CURRENT: {has_current}, {begun_with} bytes");
        let db = Db::open_cf(&options.db, path, families()).unwrap();
        let family = db.column_family("only in a WAL").unwrap();
        assert_eq!(contents(&db, &family), [("key".to_owned(), "value".to_owned())]);
    }
}

#[test]
fn wals_from_before_there_was_a_wal_dir_are_read_where_they_are() {
    let mut options = options();
    let (path, fs) = (Path::new("/db"), options.db.env.fs.clone());
    options.db.avoid_flush_during_shutdown = true;
    let db = Db::open(&options, path).unwrap();
    db.put("key", "from a WAL beside the tables").unwrap();
    db.close().unwrap();
    lose(fs.as_ref(), path, &["MANIFEST", "CURRENT"]);
    fs.create_dir_if_missing(Path::new("/wals")).unwrap();
    options.db.wal_dir = Some("/wals".into());
    let summary = repair_db(&options, path, &[]).unwrap();
    assert_eq!((summary.wals.len(), summary.wal_records), (1, 1), "{summary:?}");
    assert!(fs.children(path).unwrap().iter().all(|name| !name.ends_with(".log")));
    let db = Db::open(&options, path).unwrap();
    assert_eq!(db.get("key").unwrap().unwrap(), b"from a WAL beside the tables");
    db.close().unwrap();
    drop(db);
    // A directory with two names has each WAL once.
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options.db.wal_dir = None;
    let db = Db::open(&options, path).unwrap();
    db.merge("operands", "one").unwrap();
    db.close().unwrap();
    lose(fs.as_ref(), path, &["MANIFEST", "CURRENT"]);
    options.db.wal_dir = Some("/db/./".into());
    repair_db(&options, path, &[]).unwrap();
    let db = Db::open(&options, path).unwrap();
    assert_eq!(db.get("operands").unwrap().unwrap(), b"one");
}

#[test]
fn a_repair_that_failed_or_was_cut_short_is_done_again_and_loses_nothing() {
    let path = Path::new("/db");
    for (gone, wal_dir) in [(&[][..], None), (&["MANIFEST", "CURRENT"][..], Some("/wals"))] {
        let mut options = options();
        options.cf.enable_blob_files = wal_dir.is_some();
        let disk = CrashFs::new();
        options.db.env = Env::with_fs(Arc::new(disk.clone()));
        options.db.avoid_flush_during_shutdown = true;
        options.db.wal_dir = wal_dir.map(Into::into);
        let expected = fill(&options, path);
        lose(&disk, path, gone);
        // A power loss during the repair may lose writes that were not synced before; after the
        // repair it loses none.
        let killed = disk.crash_clone(&CrashChoices::process_kill());
        options.db.env = Env::with_fs(Arc::new(killed.clone()));
        repair_db(&options, path, &families(&options)).unwrap();
        options.db.env = Env::with_fs(Arc::new(killed.crash_clone(&CrashChoices::lose_unsynced())));
        let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
        assert_eq!(all_contents(&db), expected);
        drop(db);
        let damaged = disk.crash_clone(&CrashChoices::keep_flushed());
        for step in (1..).step_by(5) {
            let disk = damaged.crash_clone(&CrashChoices::process_kill());
            let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
            let rule = FaultRule::fail_any().nth(step);
            faults.add_rule(if step % 2 == 0 { rule } else { rule.forever() });
            options.db.env = Env::with_fs(faults.clone());
            let repaired = repair_db(&options, path, &families(&options));
            let met = faults.fault_count() > 0;
            // The power fails.
            let disk = disk.crash_clone(&CrashChoices::lose_unsynced());
            options.db.env = Env::with_fs(Arc::new(disk));
            if let Err(e) = &repaired {
                let again = repair_db(&options, path, &families(&options));
                again.unwrap_or_else(|again| panic!("step {step}: {e}, then {again}"));
            }
            let db = Db::open_cf(&options.db, path, families(&options))
                .unwrap_or_else(|e| panic!("step {step}: {repaired:?}, then {e}"));
            // A table whose read fails once does not count as damaged. A part of a WAL that cannot
            // be read is left out, and reported.
            assert!(
                repaired.as_ref().is_ok_and(|told| told.tables_lost.is_empty() && told.blobs_lost.is_empty())
                    || repaired.is_err(),
                "step {step}: {repaired:?}"
            );
            if repaired.as_ref().is_ok_and(|told| !told.wals_damaged.is_empty()) {
                assert!(met, "step {step}: {repaired:?}");
            } else {
                assert_eq!(all_contents(&db), expected, "step {step}: {repaired:?}");
            }
            db.close().unwrap();
            if !met {
                repaired.unwrap();
                break;
            }
        }
    }
}

/// Without the MANIFEST's facts, a dropped family and compacted entries would reappear.
#[test]
fn a_manifest_that_cannot_be_read_for_once_is_not_taken_for_damaged() {
    let path = Path::new("/db");
    for name in ["CURRENT", "MANIFEST"] {
        let disk = CrashFs::new();
        let faults = FaultFs::new(Arc::new(disk.clone()));
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(faults.clone()));
        fill(&options, path);
        let db = Db::open_cf(&options.db, path, families(&options)).unwrap();
        let reverse = db.column_family("reverse").unwrap();
        db.drop_column_family(&reverse).unwrap();
        let left = disk.crash_clone(&CrashChoices::process_kill());
        let faults = FaultFs::new(Arc::new(left.clone()));
        options.db.env = Env::with_fs(Arc::new(faults.clone()));
        let before = left.children(path).unwrap();
        faults.add_rule(FaultRule::fail(&[OpKind::Read]).on_name(name));
        let error = repair_db(&options, path, &families(&options)).unwrap_err();
        assert!(error.kind() == ErrorKind::IoError && error.to_string().contains(name), "{error}");
        assert_eq!(left.children(path).unwrap(), before);
        let summary = repair_db(&options, path, &families(&options)).unwrap();
        assert_eq!(summary.families, ["default", "merging"]);
    }
}

/// Simulates a process that died while its directory was copied. The copy has tables that a
/// compaction had replaced, and tables of a dropped family. One table has an older value of a key
/// whose newest value has lost its sequence number. Returns the options, and the contents of the
/// default family.
fn with_given_up_tables(disk: &CrashFs) -> (Options, Vec<(String, String)>) {
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    fill(&options, Path::new("/db"));
    let db = Db::open_cf(&options.db, "/db", families(&options)).unwrap();
    let all = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    let default = db.default_column_family();
    db.put("overwritten", "old").unwrap();
    db.flush().unwrap();
    db.disable_file_deletions();
    db.put("overwritten", "new").unwrap();
    db.delete("key0001").unwrap();
    db.flush().unwrap();
    // Only the older table is held.
    let newest = db.live_files().into_iter().max_by_key(|file| file.file_number).unwrap();
    db.compact_range_opt(&all, &default, None, None).unwrap();
    db.flush_opt(&Default::default(), &[&db.column_family("merging").unwrap()]).unwrap();
    db.drop_column_family(&db.column_family("reverse").unwrap()).unwrap();
    let expected = contents(&db, &default);
    let left = disk.crash_clone(&CrashChoices::process_kill());
    left.delete_file(&Path::new("/db").join(&newest.relative_filename)).unwrap();
    drop(db);
    options.db.env = Env::with_fs(Arc::new(left));
    (options, expected)
}

fn without_reverse(options: &Options) -> Vec<ColumnFamilyDescriptor> {
    families(options).into_iter().filter(|family| family.name != "reverse").collect()
}

fn flip_a_bit(fs: &dyn FileSystem, path: &Path) {
    let mut bytes = vec![0; usize::try_from(fs.file_size(path).unwrap()).unwrap()];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
    bytes[2] ^= 1;
    let mut damaged = fs.new_writable_file(path).unwrap();
    damaged.append(&bytes).unwrap();
    damaged.close().unwrap();
}

#[test]
fn obsolete_tables_stay_obsolete_though_a_table_of_another_family_is_lost() {
    let disk = CrashFs::new();
    let (options, expected) = with_given_up_tables(&disk);
    let path = Path::new("/db");
    let db = Db::open_with(&options.db, path, without_reverse(&options), OpenMode::ReadOnly).unwrap();
    let of_merging = db.live_files().into_iter().find(|file| file.column_family_name == "merging").unwrap();
    drop(db);
    let fs = options.db.env.fs.clone();
    flip_a_bit(fs.as_ref(), &path.join(&of_merging.relative_filename));
    // All entries were flushed.
    for wal in fs.children(path).unwrap().iter().filter(|name| name.ends_with(".log")) {
        fs.delete_file(&path.join(wal)).unwrap();
    }

    let summary = repair_db(&options, path, &families(&options)).unwrap();
    assert_eq!(summary.tables_lost.len(), 1, "{summary:?}");
    assert!(summary.tables_obsolete.len() > 1, "{summary:?}");
    let db = Db::open_cf(&options.db, path, without_reverse(&options)).unwrap();
    assert_eq!(db.get("overwritten").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(contents(&db, &db.default_column_family()), expected);
}

#[test]
fn obsolete_tables_stay_obsolete_when_a_repair_is_repeated() {
    let first = CrashFs::new();
    let (mut options, expected) = with_given_up_tables(&first);
    let (path, found) = (Path::new("/db"), options.db.env.fs.clone());
    let disk_of = |fs: &Arc<dyn FileSystem>| {
        let copy = esker::internals::env::mem::MemFs::new();
        copy.create_dir_if_missing(path).unwrap();
        for name in fs.children(path).unwrap() {
            let file = path.join(&name);
            let mut bytes = vec![0; usize::try_from(fs.file_size(&file).unwrap()).unwrap()];
            fs.new_random_access_file(&file).unwrap().read_at(0, &mut bytes).unwrap();
            let mut to = copy.new_writable_file(&file).unwrap();
            to.append(&bytes).unwrap();
            to.close().unwrap();
        }
        copy
    };
    for step in 1.. {
        let disk = disk_of(&found);
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        faults.add_rule(FaultRule::fail(&[OpKind::Rename]).nth(step).forever());
        options.db.env = Env::with_fs(faults.clone());
        let repaired = repair_db(&options, path, &families(&options));
        let met = faults.fault_count() > 0;
        assert_eq!(repaired.is_err(), met, "step {step}: {repaired:?}");
        options.db.env = Env::with_fs(Arc::new(disk));
        if met {
            repair_db(&options, path, &families(&options)).unwrap();
        }
        let db = Db::open_cf(&options.db, path, without_reverse(&options))
            .unwrap_or_else(|e| panic!("step {step}: {repaired:?}, then {e}"));
        assert_eq!(contents(&db, &db.default_column_family()), expected, "step {step}: {repaired:?}");
        if !met {
            assert!(step > 5, "{step} files are moved");
            break;
        }
    }
}

/// No readable record says that the older family was dropped.
#[test]
fn families_of_one_name_come_back_under_two() {
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let path = Path::new("/db");
    let db = Db::open(&options, path).unwrap();
    let mut kept = Vec::new();
    for value in ["older", "younger"] {
        let family = db.create_column_family("name", &options.cf).unwrap();
        db.put_cf(&family, "key", value).unwrap();
        db.flush_opt(&Default::default(), &[&family]).unwrap();
        if value == "older" {
            kept.push(db.iter_cf(&family).unwrap());
            db.drop_column_family(&family).unwrap();
        }
    }
    let left = disk.crash_clone(&CrashChoices::process_kill());
    lose(&left, path, &["CURRENT", "MANIFEST"]);
    options.db.env = Env::with_fs(Arc::new(left));

    let summary = repair_db(&options, path, &[]).unwrap();
    assert_eq!(summary.families, ["default", "name.1", "name"]);
    assert_eq!(summary.families_renamed, [(ColumnFamilyId(1), "name".into(), "name.1".into())]);
    for again in [false, true] {
        if again {
            assert_eq!(repair_db(&options, path, &[]).unwrap().families, ["default", "name.1", "name"]);
        }
        let described = ["default", "name.1", "name"];
        let described = described.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        let db = Db::open_cf(&options.db, path, described.to_vec()).unwrap();
        for (name, value) in [("name.1", "older"), ("name", "younger")] {
            let found = contents(&db, &db.column_family(name).unwrap());
            assert_eq!(found, [("key".to_owned(), value.to_owned())]);
        }
    }
}

#[test]
fn wals_in_a_wal_dir_that_was_left_out_are_not_given_up() {
    let mut options = options();
    let path = Path::new("/db");
    options.db.wal_dir = Some("/wals".into());
    let db = Db::open(&options, path).unwrap();
    db.put("key", "value").unwrap();
    drop(db);
    lose(options.db.env.fs.as_ref(), path, &["CURRENT", "MANIFEST"]);
    let left_out = Options { db: DbOptions { wal_dir: None, ..options.db.clone() }, ..options.clone() };
    let refused = repair_db(&left_out, path, &[]).unwrap_err();
    assert!(
        refused.kind() == ErrorKind::InvalidArgument && refused.to_string().contains("/wals"),
        "{refused}"
    );
    repair_db(&options, path, &[]).unwrap();
    assert_eq!(Db::open(&options, path).unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
