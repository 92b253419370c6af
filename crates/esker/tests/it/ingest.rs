//! Ingested files become part of the database at one point in time, newer than all its entries.

mod apart;
mod behind;
mod databases;
mod replaced;
mod unopened;

use esker::comparator::Comparator;
use esker::internals::base::probe::Probes;
use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem, OpKind};
use esker::options::CompactionStyle;
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyHandle, CompactionOptions, Db, Env, ErrorKind, FlushOptions,
    ImportColumnFamilyOptions, IngestExternalFileArg, IngestExternalFileOptions, Options, ReadOptions,
    SstFileWriter, comparator,
};
use esker_testkit::seed;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Model = BTreeMap<String, String>;

fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    options
}

fn contents(db: &Db, options: &ReadOptions, family: &str) -> Model {
    let family = db.column_family(family).unwrap();
    let mut iter = db.iter_opt(options.clone(), &family).unwrap();
    let mut found = Model::new();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let got = db.get_opt(options, &family, key).unwrap();
        assert_eq!(got.as_deref(), Some(value), "get and scan agree on {}", text(key));
        found.insert(text(key), text(value));
        iter.next();
    }
    iter.status().unwrap();
    found
}

#[test]
fn a_scan_passes_a_deletion_without_a_number() {
    let mut options = options();
    options.cf.max_sequential_skip_in_iterations = 0;
    let db = Db::open(&options, "/db").unwrap();
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file").unwrap();
    ["a", "b"].iter().for_each(|key| writer.delete(key).unwrap());
    writer.put("c", "old").unwrap();
    writer.finish().unwrap();
    let without_number =
        IngestExternalFileOptions { allow_global_seqno: false, ..IngestExternalFileOptions::default() };
    db.ingest_external_file_opt(&without_number, &db.default_column_family(), &["/file"]).unwrap();
    db.put("b", "new").unwrap();
    let found: Vec<_> = contents(&db, &ReadOptions::default(), "default").into_iter().collect();
    assert_eq!(found, [("b".into(), "new".into()), ("c".into(), "old".into())]);
}

/// The second link may be a table of another database.
#[test]
fn a_file_that_is_replaced_keeps_its_other_links() {
    let dir = esker_testkit::TempDir::new("replaced-table");
    let (path, link) = (dir.path().join("table.sst"), dir.path().join("link.sst"));
    let mut writer = SstFileWriter::new(&Options::default());
    let mut write = |key: &str| {
        writer.open(&path).unwrap();
        writer.put(key, "value").unwrap();
        writer.finish().unwrap();
    };
    write("old");
    std::fs::hard_link(&path, &link).unwrap();
    let read = |path: &Path| {
        let mut bytes = vec![0; 1 << 16];
        let fs = Options::default().db.env.fs;
        let n = fs.new_sequential_file(path).unwrap().read(&mut bytes).unwrap();
        bytes[..n].to_vec()
    };
    let old = read(&path);
    write("new");
    assert_eq!(read(&link), old);
    assert_ne!(read(&path), old);
    drop(writer);
    let error = SstFileWriter::new(&Options::default()).open(dir.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
    assert!(dir.path().is_dir());
}

fn key(n: usize) -> String {
    format!("key{n:04}")
}

/// A file with these keys and this value, and perhaps a range deletion over `hole`.
fn file(options: &Options, path: &str, keys: &[usize], value: &str, hole: Option<(usize, usize)>) -> PathBuf {
    let mut writer = SstFileWriter::new(options);
    writer.open(path).unwrap();
    if let Some((begin, end)) = hole {
        writer.delete_range(key(begin), key(end)).unwrap();
    }
    for n in keys {
        writer.put(key(*n), value).unwrap();
    }
    let info = writer.finish().unwrap();
    assert_eq!(info.num_entries, keys.len() as u64);
    PathBuf::from(path)
}

fn apply(model: &mut Model, keys: &[usize], value: &str, hole: Option<(usize, usize)>) {
    if let Some((begin, end)) = hole {
        model.retain(|k, _| !(key(begin)..key(end)).contains(k));
    }
    model.extend(keys.iter().map(|n| (key(*n), value.to_owned())));
}

#[test]
fn random_ingestions_between_writes_agree_with_the_model() {
    let mut rng = seed::rng("ingest");
    for round in 0..6 {
        let mut options = options();
        if round % 3 == 2 {
            options.cf.compaction_style = CompactionStyle::Universal;
        }
        options.cf.write_buffer_size = 32 << 10;
        options.cf.target_file_size_base = 8 << 10;
        options.cf.max_bytes_for_level_base = 32 << 10;
        let mut db = Db::open(&options, "/db").unwrap();
        let mut model = Model::new();
        for step in 0..60 {
            let value = format!("{round}.{step}");
            let snapshot = rng.bool().then(|| (db.snapshot(), model.clone()));
            match rng.u32(..10) {
                0..4 => {
                    for _ in 0..rng.usize(1..100) {
                        let k = key(rng.usize(..1000));
                        db.put(&k, &value).unwrap();
                        model.insert(k, value.clone());
                    }
                }
                4 => db.flush().unwrap(),
                5 => db.compact_range(None, None).unwrap(),
                6 => {
                    db.close().unwrap();
                    drop(snapshot);
                    db = Db::open(&options, "/db").unwrap();
                    assert_eq!(contents(&db, &ReadOptions::new(), "default"), model);
                    continue;
                }
                _ => {
                    let mut paths = Vec::new();
                    for n in 0..rng.usize(1..4) {
                        let first = rng.usize(..950);
                        let mut keys: Vec<usize> = (first..first + 50).filter(|_| rng.bool()).collect();
                        keys.push(first + 50);
                        let hole = rng.bool().then(|| (first, first + rng.usize(1..80)));
                        let path = format!("/file{round}.{step}.{n}");
                        let value = format!("{value}.{n}");
                        paths.push(file(&options, &path, &keys, &value, hole));
                        apply(&mut model, &keys, &value, hole);
                    }
                    let ingest = IngestExternalFileOptions {
                        move_files: rng.bool(),
                        verify_checksums_before_ingest: rng.bool(),
                        ..Default::default()
                    };
                    db.ingest_external_file_opt(&ingest, &db.default_column_family(), &paths).unwrap();
                    for path in paths {
                        assert_eq!(options.db.env.fs.file_exists(&path).unwrap(), !ingest.move_files);
                    }
                }
            }
            assert_eq!(contents(&db, &ReadOptions::new(), "default"), model, "round {round}, step {step}");
            if let Some((snapshot, then)) = snapshot {
                let at = ReadOptions::new().snapshot(&snapshot);
                assert_eq!(contents(&db, &at, "default"), then, "round {round}, step {step}: the snapshot");
            }
        }
    }
}

#[test]
fn a_file_goes_as_deep_as_it_can() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    let ingest = IngestExternalFileOptions::default();
    let level_of = |db: &Db, file: &Path| {
        let size = options.db.env.fs.file_size(file).unwrap();
        let files = db.live_files();
        let newest = files.iter().filter(|f| f.file.size == size).max_by_key(|f| f.file.file_number);
        newest.unwrap().level
    };
    let bottom = file(&options, "/bottom", &[1, 5], "bottom", None);
    db.ingest_external_file_opt(&ingest, &db.default_column_family(), &[&bottom]).unwrap();
    assert_eq!(level_of(&db, &bottom), 6);
    let above = file(&options, "/above", &[3], "above", None);
    db.ingest_external_file_opt(&ingest, &db.default_column_family(), &[&above]).unwrap();
    assert!(level_of(&db, &above) < 6, "the second file's range overlaps the first one's");
    let beside = file(&options, "/beside", &[7, 8, 9], "beside", None);
    db.ingest_external_file_opt(&ingest, &db.default_column_family(), &[&beside]).unwrap();
    assert_eq!(level_of(&db, &beside), 6);

    let only_bottom = IngestExternalFileOptions { fail_if_not_bottommost_level: true, ..ingest };
    let again = file(&options, "/again", &[2], "again", None);
    let e = db.ingest_external_file_opt(&only_bottom, &db.default_column_family(), &[&again]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TryAgain, "{e}");
    assert_eq!(db.get(key(2)).unwrap(), None);
}

/// The files form one sorted run: a run for each file would stop writers.
#[test]
fn files_beside_each_other_are_one_run_of_universal_compaction() {
    let mut options = options();
    options.cf.compaction_style = CompactionStyle::Universal;
    let db = Db::open(&options, "/db").unwrap();
    let paths: Vec<_> =
        (0..50).map(|n| file(&options, &format!("/{n}"), &[2 * n, 2 * n + 1], "new", None)).collect();
    db.ingest_external_file(&paths).unwrap();
    assert!(db.live_files().iter().all(|file| file.level == 6));
    assert_eq!(db.live_files().len(), 50);
    // Newer entries stay above older ones.
    let above = file(&options, "/above", &[3, 120], "above", None);
    db.ingest_external_file(&[&above]).unwrap();
    db.put(key(4), "put").unwrap();
    db.flush().unwrap();
    let check = |db: &Db| {
        let found = |n| db.get(key(n)).unwrap().unwrap();
        assert_eq!((&*found(2), &*found(3), &*found(4)), (&b"new"[..], &b"above"[..], &b"put"[..]));
    };
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    db.close().unwrap();
}

#[test]
fn merges_and_deletions_in_a_file_meet_what_is_there() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for n in 0..4 {
        db.put(key(n), "old").unwrap();
    }
    let mut writer = SstFileWriter::new(&options);
    writer.open("/file").unwrap();
    writer.delete(key(0)).unwrap();
    writer.merge(key(1), "appended").unwrap();
    writer.delete_range(key(2), key(3)).unwrap();
    let info = writer.finish().unwrap();
    assert_eq!((info.num_entries, info.num_range_del_entries), (2, 1));
    assert_eq!((info.smallest_key, info.largest_key), (key(0).into_bytes(), key(1).into_bytes()));
    db.ingest_external_file(&["/file"]).unwrap();
    let expected = Model::from([(key(1), "old,appended".to_owned()), (key(3), "old".to_owned())]);
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected);
    db.compact_range(None, None).unwrap();
    assert_eq!(contents(&db, &ReadOptions::new(), "default"), expected);
}

#[test]
fn files_that_cannot_be_ingested_are_refused_and_change_nothing() {
    let options = options();
    let fs = options.db.env.fs.clone();
    let db = Db::open(&options, "/db").unwrap();
    db.put(key(1), "here").unwrap();
    let before =
        |db: &Db| (contents(db, &ReadOptions::new(), "default"), fs.children(Path::new("/db")).unwrap());
    let there = before(&db);
    let ingest = IngestExternalFileOptions::default();
    let refused = |path: &Path, ingest: &IngestExternalFileOptions, kind, text: &str| {
        let e = db.ingest_external_file_opt(ingest, &db.default_column_family(), &[path]).unwrap_err();
        assert!(e.kind() == kind && e.to_string().contains(text), "{e}");
        assert_eq!(before(&db), there);
    };

    let good = file(&options, "/good", &[1, 2], "new", None);
    let no_flush = IngestExternalFileOptions { allow_blocking_flush: false, ..ingest };
    refused(&good, &no_flush, ErrorKind::InvalidArgument, "allow_blocking_flush");
    let snapshot = db.snapshot();
    let apart = file(&options, "/apart", &[7], "new", None);
    let no_seqno = IngestExternalFileOptions { allow_global_seqno: false, ..ingest };
    refused(&apart, &no_seqno, ErrorKind::InvalidArgument, "Global seqno is required");
    drop(snapshot);
    let written = IngestExternalFileOptions { write_global_seqno: true, ..ingest };
    refused(&good, &written, ErrorKind::NotSupported, "write_global_seqno");
    refused(Path::new("/nowhere"), &ingest, ErrorKind::IoError, "/nowhere");

    let mut reverse = options.clone();
    reverse.cf.comparator = comparator::by_name("rocksdb.ReverseBytewiseComparator").unwrap();
    let mut writer = SstFileWriter::new(&reverse);
    writer.open("/reverse").unwrap();
    writer.put("b", "").unwrap();
    writer.put("a", "").unwrap();
    writer.finish().unwrap();
    refused(Path::new("/reverse"), &ingest, ErrorKind::InvalidArgument, "/reverse");

    let e = writer.put("c", "").unwrap_err();
    assert!(e.to_string().contains("File is not opened"), "{e}");
    writer.open("/open").unwrap();
    writer.put("b", "").unwrap();
    let e = writer.put("b", "").unwrap_err();
    assert!(e.to_string().contains("strict ascending order"), "{e}");
    drop(writer);
    assert!(!fs.file_exists(Path::new("/open")).unwrap(), "a table that is not finished is deleted");

    // A table that a database wrote cannot be ingested.
    db.flush().unwrap();
    let own = db.live_files().remove(0).file;
    let e = db
        .ingest_external_file_opt(
            &ingest,
            &db.default_column_family(),
            &[own.directory.join(own.relative_filename)],
        )
        .unwrap_err();
    assert!(e.to_string().contains("External file version not found"), "{e}");
}

/// A comparator under the bytewise comparator's name: its files claim to be in byte order.
struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &'static str {
        "leveldb.BytewiseComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// RocksDB misreads the ranges of such a file, and would hide keys that were not deleted.
#[test]
fn a_file_with_a_range_deletion_that_ends_before_it_begins_is_refused() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    db.put(key(1), "here").unwrap();
    let mut backwards = options.clone();
    backwards.cf.comparator = Arc::new(Backwards);
    let hole = file(&backwards, "/inverted", &[], "", Some((9, 3)));
    for verify_checksums_before_ingest in [true, false] {
        let ingest = IngestExternalFileOptions {
            verify_checksums_before_ingest,
            ..IngestExternalFileOptions::default()
        };
        let e = db.ingest_external_file_opt(&ingest, &db.default_column_family(), &[&hole]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
        assert!(e.to_string().contains("/inverted"), "{e}");
        assert!(e.to_string().contains("from 'key0009' on ends at 'key0003'"), "{e}");
        assert_eq!(contents(&db, &ReadOptions::new(), "default").len(), 1);
    }
}

#[test]
fn files_of_several_families_come_together_or_not_at_all() {
    let names = ["default", "other"];
    for step in 0.. {
        let base = options();
        let disk = CrashFs::new();
        let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
        let mut options = base.clone();
        options.db.env = Env::with_fs(faults.clone());
        let families = || names.map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone())).to_vec();
        let db = Db::open_cf(&options.db, "/db", families()).unwrap();
        db.put(key(1), "old").unwrap();
        db.sync_wal().unwrap();
        let (one, two) =
            (file(&options, "/one", &[1, 2], "new", None), file(&options, "/two", &[1], "new", None));
        faults.new_directory(Path::new("/")).unwrap().fsync().unwrap();
        db.wait_for_background_work().unwrap();
        let handles = names.map(|name| db.column_family(name).unwrap());
        let args = [
            IngestExternalFileArg::new(&handles[0], vec![one]),
            IngestExternalFileArg::new(&handles[1], vec![two]),
        ];
        faults.add_rule(FaultRule::fail_any().nth(step).on(|path| !path.starts_with("/db/LOG")));
        let taken = db.ingest_external_files(&Default::default(), &args);
        let met = faults.fault_count() > 0;
        faults.clear_rules();
        // After a power failure, an acknowledged ingestion is present, and never one family's file
        // without the other's.
        options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
        drop((handles, db));
        let db = Db::open_cf(&options.db, "/db", families()).unwrap();
        let found = names.map(|name| contents(&db, &ReadOptions::new(), name).get(&key(1)).cloned());
        let new = Some("new".to_owned());
        match &taken {
            Ok(()) => assert_eq!(found, [new.clone(), new], "step {step}"),
            Err(e) => assert!(
                found == [Some("old".to_owned()), None] || found == [new.clone(), new],
                "step {step}: {e}: {found:?}"
            ),
        }
        if !met {
            assert!(taken.is_ok());
            return;
        }
    }
}

/// Writes a copy of the file without a sync; only its name is durable.
pub(crate) fn copy_without_sync(fs: &dyn FileSystem, from: &Path, to: &Path) {
    let mut bytes = vec![0; usize::try_from(fs.file_size(from).unwrap()).unwrap()];
    let read = fs.new_random_access_file(from).unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    let mut copy = fs.new_writable_file(to).unwrap();
    copy.append(&bytes).unwrap();
    copy.close().unwrap();
    fs.new_directory(to.parent().unwrap()).unwrap().fsync().unwrap();
}

#[test]
fn a_moved_file_is_durable_though_its_maker_did_not_sync_it() {
    let disk = CrashFs::new();
    let mut options = options();
    options.db.env = Env::with_fs(Arc::new(disk.clone()));
    let db = Db::open(&options, "/db").unwrap();
    let made = file(&options, "/made.sst", &[1, 2, 3], "value", None);
    let copy = PathBuf::from("/copy.sst");
    copy_without_sync(&disk, &made, &copy);
    let moved = IngestExternalFileOptions { move_files: true, ..Default::default() };
    db.ingest_external_file_opt(&moved, &db.default_column_family(), &[copy]).unwrap();
    options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::lose_unsynced())));
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db, &ReadOptions::default(), "default").len(), 3);
}

#[test]
fn a_write_behind_an_ingestion_that_failed_is_newer_than_its_file() {
    let disk = CrashFs::new();
    let faults = Arc::new(FaultFs::new(Arc::new(disk.clone())));
    let mut options = options();
    options.db.env = Env::with_fs(faults.clone());
    let db = Db::open(&options, "/db").unwrap();
    db.put(key(1), "old").unwrap();
    db.flush().unwrap();
    let new = file(&options, "/new.sst", &[1], "ingested", None);
    let is_manifest = |path: &Path| path.to_string_lossy().contains("MANIFEST");
    faults.add_rule(FaultRule::fail(&[OpKind::Sync]).on(is_manifest));
    db.ingest_external_file(&[new]).unwrap_err();
    faults.clear_rules();
    db.delete(key(1)).unwrap();
    db.sync_wal().unwrap();
    // The MANIFEST's record has reached the medium all the same.
    options.db.env = Env::with_fs(Arc::new(disk.crash_clone(&CrashChoices::process_kill())));
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.live_files().len(), 3, "a flushed table, the ingested table, and one of the WAL");
    assert_eq!(db.get(key(1)).unwrap(), None);
    db.compact_range(None, None).unwrap();
    assert_eq!(db.get(key(1)).unwrap(), None, "the key was deleted after the ingestion");
}

#[test]
fn a_file_of_which_a_read_fails_is_refused() {
    for n in 0.. {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let mut options = options();
        options.db.env = Env::with_fs(Arc::new(fs.clone()));
        options.cf.table.block_size = 64;
        let db = Db::open(&options, "/db").unwrap();
        let path = file(&options, "/file.sst", &(0..200).collect::<Vec<_>>(), "value", None);
        fs.add_rule(FaultRule::fail(&[OpKind::Read]).nth(n));
        let ingested = db.ingest_external_file(&[path]);
        if fs.fault_count() == 0 {
            assert!(n > 2 && ingested.is_ok(), "{n}");
            return;
        }
        fs.clear_rules();
        // The table cache may read it again.
        let expected = if ingested.is_ok() { 200 } else { 0 };
        assert_eq!(contents(&db, &ReadOptions::default(), "default").len(), expected, "{n}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a compaction that waits is left behind")]
fn a_compaction_that_begins_during_an_ingestion_leaves_its_place_alone() {
    let options = options();
    let db = Arc::new(Db::open(&options, "/db").unwrap());
    // Two files of a level with a gap between them, and files that make a compaction merge them.
    for (from, level) in [(100, 6), (300, 6), (100, 0), (300, 0)] {
        for n in from..from + 10 {
            db.put(key(n), format!("{level}")).unwrap();
        }
        db.flush().unwrap();
        if level > 0 {
            db.compact_range(None, None).unwrap();
        }
    }
    let between = file(&options, "/between", &[200], "between", None);
    let compaction = Arc::new(Mutex::new(None));
    let probes = Probes::new();
    let (compactor, begun) = (db.clone(), compaction.clone());
    probes.on_this_thread("ingest:planned", move |_| {
        let db = compactor.clone();
        let compact = move || {
            let files: Vec<_> = db.live_files().iter().map(|f| f.file.file_number).collect();
            db.compact_files(&CompactionOptions::default(), &db.default_column_family(), &files, 6)
        };
        // The call is refused at once: otherwise it would wait for this very ingestion.
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(compact()));
        *begun.lock().unwrap() = told.recv_timeout(Duration::from_secs(60)).ok();
    });
    db.ingest_external_file(&[between]).unwrap();
    drop(probes);
    let refused = compaction.lock().unwrap().take().expect("an answer").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Aborted, "{refused}");
    db.compact_range(None, None).unwrap();
    let found = contents(&db, &ReadOptions::new(), "default");
    assert_eq!(found.len(), 21);
    assert_eq!(found[&key(200)], "between");
    db.put("and it takes writes", "still").unwrap();
}

/// Waits until `is_so`, without a call that would make the database search for work. False if that
/// takes two minutes.
#[expect(clippy::disallowed_methods, reason = "nobody tells")]
pub(crate) fn becomes(is_so: impl Fn() -> bool) -> bool {
    (0..12_000).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    })
}

#[test]
fn files_due_after_an_ingestion_or_an_import_are_compacted_though_nothing_else_happens() {
    let mut options = options();
    options.cf.level0_file_num_compaction_trigger = 4;
    let db = Db::open(&options, "/db").unwrap();
    let level0 = |family: &ColumnFamilyHandle| db.column_family_metadata(family).levels[0].files.len();
    let default = db.default_column_family();
    for n in 0..5 {
        let file = file(&options, &format!("/file{n}"), &[1, 9], "value", None);
        // The first file moves down by itself.
        db.ingest_external_file(&[file]).unwrap();
    }
    assert!(becomes(|| level0(&default) == 0), "{} files in level 0", level0(&default));

    let mut quiet = options.cf.clone();
    quiet.disable_auto_compactions = true;
    let source = db.create_column_family("source", &quiet).unwrap();
    for n in 0..5 {
        db.put_cf(&source, "key", format!("{n}")).unwrap();
        db.flush_opt(&FlushOptions::default(), &[&source]).unwrap();
    }
    let export = db.export_column_family(&source, "/export").unwrap();
    let import = ImportColumnFamilyOptions::default();
    let twin = db.create_column_family_with_import(&import, "twin", &options.cf, &export).unwrap();
    assert!(becomes(|| level0(&twin) == 0), "{} files in level 0", level0(&twin));
}

/// While `take_in` has its files in the directory and waits at `probe`, the database is closed,
/// opened again by a second user and written to. The second database must lose nothing, and the
/// ingestion must not report files that it does not have.
#[expect(clippy::disallowed_methods, reason = "nobody tells that nothing goes on")]
fn closed_meanwhile(probe: &str, options: &Options, take_in: impl FnOnce(&Db) -> esker::Result<()>) {
    let db = Arc::new(Db::open(options, "/db").unwrap());
    let probes = Probes::new();
    let (closer, options_of_next) = (db.clone(), options.clone());
    let next = Arc::new(Mutex::new(None));
    let opener = next.clone();
    probes.on_this_thread(probe, move |_| {
        let (db, options) = (closer.clone(), options_of_next.clone());
        let close_and_go_on = move || {
            db.close().unwrap();
            let next = Db::open(&options, "/db").unwrap();
            for n in 0..20 {
                next.put(key(n), "next").unwrap();
                next.flush().unwrap();
            }
            next
        };
        *opener.lock().unwrap() = Some(std::thread::spawn(close_and_go_on));
        let refused = || closer.put("", "").is_err_and(|e| e.kind() == ErrorKind::ShutdownInProgress);
        assert!(becomes(refused));
        // Time in which the close would end if it did not wait.
        std::thread::sleep(Duration::from_millis(500));
    });
    let refused = take_in(&db);
    drop(probes);
    let next = next.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ShutdownInProgress);
    next.close().unwrap();
    let next = Db::open(options, "/db").unwrap();
    for n in 0..20 {
        assert_eq!(next.get(key(n)).unwrap().as_deref(), Some(&b"next"[..]), "{n}");
    }
    assert_eq!(next.get(key(200)).unwrap(), None);
    assert!(next.column_family("imported").is_none());
}

#[test]
fn an_ingestion_ends_before_its_database_is_closed() {
    let options = options();
    let path = file(&options, "/apart", &[200], "ingested", None);
    let move_it = IngestExternalFileOptions { move_files: true, ..Default::default() };
    closed_meanwhile("ingest:prepared", &options, |db| {
        db.ingest_external_file_opt(&move_it, &db.default_column_family(), &[&path])
    });
    assert!(options.db.env.fs.file_exists(&path).unwrap(), "the file was not moved");
}

#[test]
fn an_import_ends_before_its_database_is_closed() {
    let options = options();
    let other = Db::open(&options, "/other").unwrap();
    other.put(key(200), "imported").unwrap();
    let export = other.export_column_family(&other.default_column_family(), "/export").unwrap();
    closed_meanwhile("import:prepared", &options, |db| {
        let move_them = ImportColumnFamilyOptions { move_files: true };
        db.create_column_family_with_import(&move_them, "imported", &options.cf, &export).map(drop)
    });
    assert_eq!(options.db.env.fs.children(Path::new("/export")).unwrap().len(), 1, "the file was not moved");
}

#[test]
fn writers_do_not_wait_for_a_flush_that_is_not_allowed_though_what_overlaps_came_late() {
    let options = options();
    let db = Arc::new(Db::open(&options, "/db").unwrap());
    let path = file(&options, "/late", &[5], "ingested", None);
    let probes = Probes::new();
    let writer = db.clone();
    probes.on_this_thread("ingest:prepared", move |_| writer.put(key(5), "written").unwrap());
    let ingest = IngestExternalFileOptions { allow_blocking_flush: false, ..Default::default() };
    let refused = db.ingest_external_file_opt(&ingest, &db.default_column_family(), &[path]).unwrap_err();
    assert!(refused.to_string().contains("allow_blocking_flush"), "{refused}");
    assert_eq!(db.get(key(5)).unwrap().as_deref(), Some(&b"written"[..]));
}

/// The iterator changes to the newer super version, which has the file.
#[test]
fn an_iterator_does_not_see_a_file_that_came_after_it_though_snapshots_need_not_agree() {
    let options = options();
    let db = Db::open(&options, "/db").unwrap();
    for n in [1, 9] {
        db.put(key(n), "old").unwrap();
        db.flush().unwrap();
    }
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    assert_eq!(iter.key(), key(1).as_bytes());
    let between = file(&options, "/between", &[5], "new", None);
    let ingest = IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() };
    db.ingest_external_file_opt(&ingest, &db.default_column_family(), &[between]).unwrap();
    iter.next();
    assert_eq!(iter.key(), key(9).as_bytes());
    iter.seek(key(5));
    assert_eq!(iter.key(), key(9).as_bytes());
    assert_eq!(db.get(key(5)).unwrap().as_deref(), Some(&b"new"[..]));
}
