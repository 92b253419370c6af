//! `best_efforts_recovery`: opens of directories from which files are missing.

use esker::internals::env::mem::MemFs;
use esker::internals::env::{CrashChoices, CrashFs, FaultFs, FaultRule, FileSystem};
use esker::options::CompressionType;
use esker::{Db, Env, Error, ErrorKind, FlushOptions, Options, SstFileReader, WriteBatch};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FAMILIES: [&str; 2] = ["default", "other"];

fn options(fs: &Arc<impl FileSystem + 'static>) -> Options {
    let mut options = Options::new().create_if_missing(true);
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.disable_auto_compactions = true;
    options.cf.compression = CompressionType::None;
    options
}

fn best(fs: &Arc<impl FileSystem + 'static>) -> Options {
    let mut options = options(fs);
    options.db.best_efforts_recovery = true;
    (options.db.create_if_missing, options.db.create_missing_column_families) = (false, false);
    options
}

fn open(options: &Options) -> Result<Db, Error> {
    Db::open_cf(&options.db, "/db", FAMILIES.map(|name| (name, options.cf.clone())))
}

fn flush(db: &Db, name: &str) {
    db.flush_opt(&FlushOptions::default(), &[&db.column_family(name).unwrap()]).unwrap();
}

/// Puts `value` under the key of this round in both families, and flushes them.
fn write(db: &Db, rounds: std::ops::Range<usize>) {
    for round in rounds {
        for name in FAMILIES {
            let family = db.column_family(name).unwrap();
            db.put_cf(&family, format!("key{round}"), round.to_string()).unwrap();
            db.put_cf(&family, "newest", round.to_string()).unwrap();
            flush(db, name);
        }
    }
}

/// The rounds that a family has. Checks that it is as it was after the last one of them.
fn rounds(db: &Db, name: &str) -> usize {
    let family = db.column_family(name).unwrap();
    let rounds = db.range_cf(&family, "key".."kez").count();
    let newest = db.get_cf(&family, "newest").unwrap();
    assert_eq!(newest, rounds.checked_sub(1).map(|last| last.to_string().into_bytes()), "{name}");
    rounds
}

fn files(fs: &dyn FileSystem, dir: &str, end: &str) -> Vec<PathBuf> {
    let mut names = fs.children(Path::new(dir)).unwrap_or_default();
    names.retain(|name| name.ends_with(end));
    names.sort();
    names.into_iter().map(|name| Path::new(dir).join(name)).collect()
}

/// The table with the key of this round of the default family.
fn table_of(fs: &Arc<impl FileSystem + 'static>, round: usize) -> PathBuf {
    let options = options(fs);
    let has = |path: &PathBuf| {
        let reader = SstFileReader::open(&options, path).unwrap();
        let found = reader.get(&esker::ReadOptions::default(), format!("key{round}")).unwrap();
        found.is_some() && reader.table_properties().column_family_name == "default"
    };
    files(&**fs, "/db", ".sst").into_iter().find(has).unwrap()
}

fn manifest(fs: &dyn FileSystem) -> PathBuf {
    let mut names = fs.children(Path::new("/db")).unwrap();
    names.retain(|name| name.starts_with("MANIFEST"));
    names.sort();
    Path::new("/db").join(names.pop().unwrap())
}

fn cut_short(fs: &dyn FileSystem, path: &Path, bytes: usize) {
    let mut content = vec![0; fs.file_size(path).unwrap() as usize];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut content).unwrap();
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&content[..content.len() - bytes]).unwrap();
    file.close().unwrap();
}

#[test]
fn a_family_is_as_it_was_before_its_missing_table() {
    for (missing, left) in [(2, 2), (1, 1), (0, 0)] {
        for is_cut in [false, true] {
            let fs = Arc::new(MemFs::new());
            let db = open(&options(&fs)).unwrap();
            write(&db, 0..3);
            db.put("only in the WAL", "").unwrap();
            db.close().unwrap();
            let table = table_of(&fs, missing);
            if is_cut {
                cut_short(&*fs, &table, 7)
            } else {
                fs.delete_file(&table).unwrap()
            }
            assert_eq!(open(&options(&fs)).unwrap_err().kind(), ErrorKind::Corruption);

            let db = open(&best(&fs)).unwrap();
            assert_eq!(rounds(&db, "default"), left);
            assert_eq!(rounds(&db, "other"), 3);
            assert_eq!(db.get("only in the WAL").unwrap(), None, "it is newer than lost entries");
            // Later tables and the WALs are kept for people.
            assert_eq!(files(&*fs, "/db/lost", ".sst").len(), 2 - left + usize::from(is_cut));
            assert!(!files(&*fs, "/db/lost", ".log").is_empty());
            db.put("later", "1").unwrap();
            db.close().unwrap();
            drop(db);
            for options in [options(&fs), best(&fs)] {
                let db = open(&options).unwrap();
                assert_eq!(rounds(&db, "default"), left);
                assert_eq!(rounds(&db, "other"), 3);
                assert!(db.get("later").unwrap().is_some());
                assert_eq!(db.get("only in the WAL").unwrap(), None);
            }
        }
    }
}

#[test]
fn a_whole_directory_opens_as_without_the_option_with_its_wals() {
    for without in ["", "CURRENT", "IDENTITY", "OPTIONS"] {
        let fs = Arc::new(MemFs::new());
        let db = open(&options(&fs)).unwrap();
        write(&db, 0..3);
        db.put("only in the WAL", "").unwrap();
        db.close().unwrap();
        drop(db);
        for name in fs.children(Path::new("/db")).unwrap() {
            if !without.is_empty() && name.starts_with(without) {
                fs.delete_file(&Path::new("/db").join(name)).unwrap();
            }
        }
        let db = open(&best(&fs)).unwrap();
        assert_eq!((rounds(&db, "default"), rounds(&db, "other")), (3, 3));
        assert!(db.get("only in the WAL").unwrap().is_some(), "without {without}");
        assert_eq!(files(&*fs, "/db/lost", ""), [] as [PathBuf; 0]);
    }
}

#[test]
fn a_manifest_that_is_cut_short_gives_an_older_state() {
    let fs = Arc::new(MemFs::new());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..3);
    db.close().unwrap();
    drop(db);
    // The last record is about the last table of the other family.
    cut_short(&*fs, &manifest(&*fs), 10);
    fs.delete_file(&table_of(&fs, 2)).unwrap();
    fs.delete_file(Path::new("/db/CURRENT")).unwrap();
    let db = open(&best(&fs)).unwrap();
    assert_eq!((rounds(&db, "default"), rounds(&db, "other")), (2, 2));
    drop(db);
    // Damage that is no end: there is no other MANIFEST.
    let path = manifest(&*fs);
    let mut content = vec![0; fs.file_size(&path).unwrap() as usize];
    fs.new_random_access_file(&path).unwrap().read_at(0, &mut content).unwrap();
    content[20] ^= 1;
    let mut file = fs.new_writable_file(&path).unwrap();
    file.append(&content).unwrap();
    file.close().unwrap();
    let error = open(&best(&fs)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("MANIFEST"), "{error}");
}

#[test]
fn without_any_manifest_nothing_is_recovered() {
    let fs = Arc::new(MemFs::new());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..1);
    drop(db);
    fs.delete_file(&manifest(&*fs)).unwrap();
    let error = open(&best(&fs)).unwrap_err();
    assert!(error.to_string().contains("MANIFEST"), "{error}");
    fs.delete_file(Path::new("/db/CURRENT")).unwrap();
    let before = fs.children(Path::new("/db")).unwrap();
    open(&best(&fs)).unwrap_err();
    // A new database would delete the tables of the lost one.
    open(&Options { db: esker::DbOptions { create_if_missing: true, ..best(&fs).db }, ..best(&fs) })
        .unwrap_err();
    let sst = |names: &[String]| names.iter().filter(|name| name.ends_with(".sst")).count();
    assert_eq!(sst(&fs.children(Path::new("/db")).unwrap()), sst(&before));
}

#[test]
fn a_missing_blob_file_is_missed_as_its_table_is() {
    for (missing, left) in [(2, 2), (0, 0)] {
        let fs = Arc::new(MemFs::new());
        let mut options = options(&fs);
        options.cf.enable_blob_files = true;
        let db = open(&options).unwrap();
        write(&db, 0..3);
        db.close().unwrap();
        drop(db);
        // Both families write one in each round.
        let blobs = files(&*fs, "/db", ".blob");
        cut_short(&*fs, &blobs[2 * missing], 1);
        fs.delete_file(&blobs[2 * missing + 1]).unwrap();
        let db = open(&best(&fs)).unwrap();
        assert_eq!((rounds(&db, "default"), rounds(&db, "other")), (left, left));
    }
}

#[test]
fn families_that_were_flushed_together_go_back_together() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs);
    options.db.atomic_flush = true;
    let db = open(&options).unwrap();
    for round in 0..3 {
        let mut batch = WriteBatch::new();
        for name in FAMILIES {
            let family = db.column_family(name).unwrap();
            batch.put_cf(family.id(), format!("key{round}").as_bytes(), b"").unwrap();
            batch.put_cf(family.id(), b"newest", round.to_string().as_bytes()).unwrap();
        }
        db.write(batch).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    drop(db);
    fs.delete_file(&table_of(&fs, 1)).unwrap();
    let db = open(&best(&fs)).unwrap();
    assert_eq!((rounds(&db, "default"), rounds(&db, "other")), (1, 1));
}

#[test]
fn options_that_do_not_fit_change_nothing() {
    let fs = Arc::new(MemFs::new());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..3);
    drop(db);
    fs.delete_file(&table_of(&fs, 1)).unwrap();
    fs.delete_file(Path::new("/db/CURRENT")).unwrap();
    let all = || {
        let mut names = fs.children(Path::new("/db")).unwrap();
        names.retain(|name| !name.starts_with("LO"));
        names.sort();
        names
    };
    let before = all();
    let families = |names: &[&str]| {
        let options = best(&fs);
        Db::open_cf(&options.db, "/db", names.iter().map(|name| (*name, options.cf.clone())))
    };
    let error = families(&["default"]).unwrap_err().to_string();
    assert!(error.contains("Column families not opened: other"), "{error}");
    let error = families(&["default", "other", "third"]).unwrap_err().to_string();
    assert!(error.contains("Column family not found: third"), "{error}");
    let mut exists = best(&fs);
    exists.db.error_if_exists = true;
    let error = open(&exists).unwrap_err().to_string();
    assert!(error.contains("exists (error_if_exists is true)"), "{error}");
    let mut reverse = best(&fs);
    reverse.cf.comparator = Arc::new(esker::comparator::ReverseBytewiseComparator);
    let error = open(&reverse).unwrap_err().to_string();
    assert!(error.contains("does not match existing comparator"), "{error}");
    assert_eq!(all(), before);
    assert_eq!(rounds(&open(&best(&fs)).unwrap(), "default"), 1);
}

fn open_for_reading(options: &Options) -> Result<Db, Error> {
    let families = FAMILIES.map(|name| (name, options.cf.clone()));
    Db::open_with(&options.db, "/db", families, esker::OpenMode::ReadOnly)
}

#[test]
fn an_open_for_reading_shows_the_newest_whole_state_and_changes_nothing() {
    let fs = Arc::new(MemFs::new());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..3);
    db.put("only in the WAL", "").unwrap();
    drop(db);
    // Without CURRENT: everything is there, the WAL included.
    fs.delete_file(Path::new("/db/CURRENT")).unwrap();
    let before = fs.children(Path::new("/db")).unwrap();
    let reader = open_for_reading(&best(&fs)).unwrap();
    assert_eq!((rounds(&reader, "default"), rounds(&reader, "other")), (3, 3));
    assert_eq!(reader.get("only in the WAL").unwrap().as_deref(), Some(&b""[..]));
    drop(reader);
    open_for_reading(&options(&fs)).unwrap_err();
    // Without a table, too: the state before it, and no WAL.
    fs.delete_file(&table_of(&fs, 1)).unwrap();
    let without_table = fs.children(Path::new("/db")).unwrap();
    assert_eq!(without_table.len() + 1, before.len());
    let reader = open_for_reading(&best(&fs)).unwrap();
    assert_eq!((rounds(&reader, "default"), rounds(&reader, "other")), (1, 3));
    assert_eq!(reader.get("only in the WAL").unwrap(), None);
    assert_eq!(reader.put("key", "").unwrap_err().kind(), ErrorKind::NotSupported);
    drop(reader);
    // One family alone, and one that the state does not have.
    let mut one = best(&fs);
    let alone = Db::open_for_read_only(&one, "/db").unwrap();
    assert_eq!(rounds(&alone, "default"), 1);
    drop(alone);
    let missing = [("default", one.cf.clone()), ("missing", one.cf.clone())];
    let error = Db::open_with(&one.db, "/db", missing, esker::OpenMode::ReadOnly).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    // Nothing there at all.
    one.db.create_if_missing = true;
    let error = Db::open_for_read_only(&one, "/elsewhere").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(fs.children(Path::new("/db")).unwrap(), without_table);
    // An open that writes finds the same state.
    assert_eq!(rounds(&open(&best(&fs)).unwrap(), "default"), 1);
}

#[test]
fn an_open_for_reading_needs_no_files_of_families_that_it_does_not_name() {
    for is_elsewhere in [false, true] {
        let fs = Arc::new(MemFs::new());
        let mut other = options(&fs).cf;
        if is_elsewhere {
            other.cf_paths = vec![esker::options::DbPath::new("/elsewhere", 1 << 30)];
        }
        let mut both = options(&fs).db;
        both.atomic_flush = true;
        let families = [("default", options(&fs).cf), ("other", other)];
        let db = Db::open_cf(&both, "/db", families).unwrap();
        let handles = FAMILIES.map(|name| db.column_family(name).unwrap());
        for family in &handles {
            db.put_cf(family, "flushed", "1").unwrap();
        }
        db.flush_opt(&FlushOptions::default(), &[&handles[0], &handles[1]]).unwrap();
        db.put("only in the WAL", "1").unwrap();
        db.close().unwrap();
        drop((db, handles));
        if !is_elsewhere {
            let is_of_other = |path: &PathBuf| {
                let reader = SstFileReader::open(&options(&fs), path).unwrap();
                reader.table_properties().column_family_name == "other"
            };
            let table = files(&*fs, "/db", ".sst").into_iter().find(is_of_other).unwrap();
            fs.delete_file(&table).unwrap();
        }
        let reader = Db::open_for_read_only(&best(&fs), "/db").unwrap();
        for key in ["flushed", "only in the WAL"] {
            assert_eq!(reader.get(key).unwrap().as_deref(), Some(&b"1"[..]), "{key}, {is_elsewhere}");
        }
    }
}

#[test]
fn an_open_for_reading_beside_the_owner_takes_no_deleted_table_for_a_loss() {
    let fs = Arc::new(MemFs::new());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..2);
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 2..40 {
                write(&db, round..round + 1);
                db.compact_range(None, None).unwrap();
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        let (mut least, mut opened) = (2, 0);
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            match open_for_reading(&best(&fs)) {
                Ok(reader) => {
                    let family = reader.column_family("default").unwrap();
                    let found = reader.range_cf(&family, "key".."kez").count();
                    assert!(found >= least, "{found} rounds, after {least}");
                    (least, opened) = (found, opened + 1);
                }
                Err(e) => assert_eq!(e.kind(), ErrorKind::TryAgain, "{e}"),
            }
        }
        assert!(opened > 0);
    });
}

#[test]
fn a_crash_in_the_recovery_leaves_the_same_state() {
    let disk = CrashFs::new();
    let fs = Arc::new(disk.clone());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..4);
    db.put("only in the WAL", "").unwrap();
    db.sync_wal().unwrap();
    db.close().unwrap();
    drop(db);
    fs.delete_file(&table_of(&fs, 2)).unwrap();
    fs.delete_file(Path::new("/db/CURRENT")).unwrap();
    fs.new_directory(Path::new("/db")).unwrap().fsync().unwrap();
    let mut met = 0;
    for seed in 0..120 {
        let before = disk.crash_clone(&CrashChoices::process_kill());
        let faults = Arc::new(FaultFs::new(Arc::new(before.clone())));
        faults.add_rule(FaultRule::fail_any().nth(seed).forever());
        let opened = open(&best(&faults));
        met += u64::from(opened.is_err());
        drop(opened);
        let left = Arc::new(before.crash_clone(&CrashChoices::random(seed)));
        let db = open(&best(&left)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!((rounds(&db, "default"), rounds(&db, "other")), (2, 4), "seed {seed}");
        assert_eq!(db.get("only in the WAL").unwrap(), None, "seed {seed}");
    }
    assert!(met > 60, "only {met} recoveries failed");
}

/// An ordinary opening fails at one operation, and the process dies while it deletes the new files.
#[test]
fn remains_of_a_failed_opening_cost_no_write() {
    let disk = CrashFs::new();
    let fs = Arc::new(disk.clone());
    let db = open(&options(&fs)).unwrap();
    write(&db, 0..2);
    db.put("only in the WAL", "").unwrap();
    db.close().unwrap();
    drop(db);
    let mut newer_manifests = 0_usize;
    for failing in 0.. {
        let mut has_failed = false;
        for end in 1..10 {
            let before = disk.crash_clone(&CrashChoices::process_kill());
            let faults = Arc::new(FaultFs::new(Arc::new(before.clone())));
            faults.add_rule(FaultRule::fail_any().nth(failing));
            faults.add_rule(FaultRule::fail_any().nth(failing + end).forever());
            has_failed = open(&options(&faults)).is_err();
            let left = Arc::new(before.crash_clone(&CrashChoices::process_kill()));
            let names = left.children(Path::new("/db")).unwrap();
            newer_manifests += names.iter().filter(|name| name.starts_with("MANIFEST")).count() - 1;
            let db = open(&best(&left)).unwrap_or_else(|e| panic!("{failing}, {end}: {e}"));
            assert_eq!((rounds(&db, "default"), rounds(&db, "other")), (2, 2), "{failing}, {end}");
            assert!(db.get("only in the WAL").unwrap().is_some(), "{failing}, {end}");
        }
        if !has_failed {
            break;
        }
    }
    assert!(newer_manifests > 3, "only {newer_manifests} openings left a MANIFEST");
}
