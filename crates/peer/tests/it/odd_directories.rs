//! Directories as crashes, copies and other programs leave them. Esker opens the same directories
//! as RocksDB 11.8.1, finds the same entries, and deletes the same leftovers.

use crate::peer_process::db_options;
use esker::internals::base::FileNumber;
use esker::internals::format::log::LogWriter;
use esker::options::{CompressionType, FlushOptions};
use esker::{
    BackupEngine, BackupEngineOptions, ColumnFamilyDescriptor, ColumnFamilyOptions, Db, ReadOptions,
};
use esker_peer::fixture::copy_files;
use esker_peer::{Contents, FamilySpec, RocksDb, require};
use esker_testkit::TempDir;
use std::fs;
use std::path::{Path, PathBuf};

const FAMILIES: [&str; 2] = ["default", "other"];

fn descriptors() -> Vec<ColumnFamilyDescriptor> {
    let options =
        ColumnFamilyOptions { compression: CompressionType::None, ..ColumnFamilyOptions::default() };
    FAMILIES.map(|name| ColumnFamilyDescriptor::new(name, options.clone())).to_vec()
}

/// Writes two tables of the default family, and three WALs that the other family needs.
fn write(dir: &Path) {
    let mut options = db_options();
    options.avoid_flush_during_recovery = true;
    let db = Db::open_cf(&options, dir, descriptors()).expect("opens");
    let other = db.column_family("other").expect("open");
    for round in 0..3 {
        for i in 0..20 {
            db.put(format!("key{i:02}"), format!("{round}")).expect("written");
            db.put_cf(&other, format!("other{round}{i:02}"), "here").expect("written");
        }
        if round < 2 {
            db.flush_opt(&FlushOptions::default(), &[&db.default_column_family()]).expect("flushed");
        }
    }
    db.close().expect("closes");
}

type Found = Result<Vec<Contents>, String>;

fn esker(dir: &Path, read_only: bool) -> Found {
    let mode = if read_only { esker::OpenMode::ReadOnly } else { esker::OpenMode::ReadWrite };
    let mut options = db_options();
    options.create_if_missing = false;
    let db = Db::open_with(&options, dir, descriptors(), mode).map_err(|e| e.to_string())?;
    let found = FAMILIES.map(|name| {
        Contents::of(&db, &db.column_family(name).expect("open"), &ReadOptions::default())
            .map_err(|e| e.to_string())
    });
    db.close().map_err(|e| e.to_string())?;
    found.into_iter().collect()
}

fn rocksdb(dir: &Path, read_only: bool) -> Found {
    let specs = FAMILIES.map(|name| FamilySpec::new(name, "compression=kNoCompression"));
    let db = match read_only {
        true => RocksDb::open_for_read_only(dir, "", &specs),
        false => RocksDb::open(dir, "", &specs),
    }?;
    FAMILIES.iter().map(|name| db.contents(name, None)).collect()
}

/// Checks that both engines treat the spoilt directory alike, read-only and read-write.
fn compare(what: &str, expected: Option<bool>, spoil: impl Fn(&Path)) {
    let base = TempDir::new("odd-base");
    write(base.path());
    for read_only in [true, false] {
        let (ours, theirs) = (TempDir::new("odd-esker"), TempDir::new("odd-rocksdb"));
        for dir in [&ours, &theirs] {
            copy_files(base.path(), dir.path());
            spoil(dir.path());
        }
        let what = format!("{what}, {}", if read_only { "read-only" } else { "read-write" });
        match (esker(ours.path(), read_only), rocksdb(theirs.path(), read_only)) {
            (Ok(ours), Ok(theirs)) => {
                assert_ne!(expected, Some(false), "{what}: opened");
                for ((ours, theirs), name) in ours.iter().zip(&theirs).zip(FAMILIES) {
                    ours.assert_same(theirs, &format!("{what}: '{name}'"));
                }
            }
            (Err(ours), Err(theirs)) => {
                assert_ne!(expected, Some(true), "{what}: Esker: {ours}; RocksDB: {theirs}")
            }
            (ours, theirs) => panic!("{what}: Esker: {ours:?}; RocksDB: {theirs:?}"),
        }
    }
}

fn numbered(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let names = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<PathBuf> = names.filter(|path| path.to_string_lossy().ends_with(suffix)).collect();
    found.sort();
    found
}

fn manifest(dir: &Path) -> PathBuf {
    dir.join(fs::read_to_string(dir.join("CURRENT")).expect("CURRENT").trim())
}

/// Appends records to the MANIFEST.
fn append_edits(dir: &Path, edits: &[&[u8]]) {
    let path = manifest(dir);
    let mut bytes = fs::read(&path).expect("a MANIFEST");
    let mut writer = LogWriter::resume(0, false, bytes.len() as u64);
    for edit in edits {
        writer.add_record(edit, &mut bytes);
    }
    fs::write(path, bytes).expect("written");
}

fn number_of(path: &Path) -> FileNumber {
    FileNumber(path.file_stem().and_then(|s| s.to_str()).and_then(|s| s.parse().ok()).expect("a number"))
}

#[test]
fn current_is_read_as_rocksdb_reads_it() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let with = |change: fn(String) -> String| {
        move |dir: &Path| {
            let text = fs::read_to_string(dir.join("CURRENT")).expect("CURRENT");
            fs::write(dir.join("CURRENT"), change(text)).expect("written");
        }
    };
    compare("as it is", Some(true), |_| ());
    compare("CURRENT without newline", Some(false), with(|text| text.trim_end().to_owned()));
    compare("CURRENT with two newlines", Some(false), with(|text| text + "\n"));
    compare("CURRENT with a second line", Some(false), with(|text| text + "MANIFEST-000001\n"));
    compare("CURRENT with a carriage return", Some(false), with(|text| text.replace('\n', "\r\n")));
    compare("CURRENT with a space", Some(false), with(|text| format!(" {text}")));
    compare("CURRENT of another kind", Some(false), with(|_| "OPTIONS-000005\n".to_owned()));
    compare("CURRENT names no MANIFEST that is there", Some(false), with(|_| "MANIFEST-000999\n".to_owned()));
    compare("CURRENT is empty", Some(false), with(|_| String::new()));
    compare("CURRENT is missing", Some(false), |dir| fs::remove_file(dir.join("CURRENT")).expect("removed"));
    compare("IDENTITY is missing", None, |dir| fs::remove_file(dir.join("IDENTITY")).expect("removed"));
}

/// An edit with two tags. Tag 300 begins an entry of an atomic group and gives the number of
/// entries that follow; tag 6 deletes a table of a level.
fn deletes_in_group(remaining: u8, file: FileNumber) -> Vec<u8> {
    let number = u8::try_from(file.0).expect("few files");
    assert!(number < 128, "the number fits into one byte");
    vec![0xac, 0x02, remaining, 6, 0, number]
}

#[test]
fn the_end_of_a_manifest_is_read_as_rocksdb_reads_it() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let table = |dir: &Path| number_of(&numbered(dir, ".sst")[0]);
    compare("an atomic group without its end", Some(true), |dir| {
        append_edits(dir, &[&deletes_in_group(1, table(dir))]);
    });
    compare("an atomic group", Some(true), |dir| {
        append_edits(dir, &[&deletes_in_group(1, table(dir)), &[0xac, 2, 0]])
    });
    compare("an atomic group that counts wrongly", Some(false), |dir| {
        append_edits(dir, &[&deletes_in_group(3, table(dir)), &[0xac, 2, 0]]);
    });
    compare("an atomic group with another edit in it", Some(false), |dir| {
        append_edits(dir, &[&deletes_in_group(1, table(dir)), &[4, 100]]);
    });
    // Tag 12192 has the bit that marks it as ignorable; tag 77 has not.
    compare("an unknown tag that may be skipped", Some(true), |dir| {
        append_edits(dir, &[&[0xa0, 0x5f, 2, 1, 2, 4, 100]])
    });
    compare("an unknown tag that must be known", Some(false), |dir| append_edits(dir, &[&[77, 1, 1]]));
    compare("a record without edits", Some(true), |dir| append_edits(dir, &[&[]]));
    compare("a torn record", Some(true), |dir| {
        append_edits(dir, &[&deletes_in_group(0, table(dir))]);
        let bytes = fs::read(manifest(dir)).expect("a MANIFEST");
        fs::write(manifest(dir), &bytes[..bytes.len() - 3]).expect("written");
    });
    compare("zeros behind it", Some(true), |dir| {
        let mut bytes = fs::read(manifest(dir)).expect("a MANIFEST");
        bytes.resize(bytes.len() + 5000, 0);
        fs::write(manifest(dir), bytes).expect("written");
    });
    compare("an empty MANIFEST", Some(false), |dir| fs::write(manifest(dir), "").expect("written"));
}

#[test]
fn wals_are_found_as_rocksdb_finds_them() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let at = |dir: &Path, i: usize| numbered(dir, ".log")[i].clone();
    compare("an empty WAL behind the others", Some(true), |dir| {
        fs::write(dir.join("000111.log"), "").expect("written")
    });
    compare("an empty WAL between the others", None, |dir| fs::write(at(dir, 1), "").expect("written"));
    compare("a WAL is missing between the others", None, |dir| fs::remove_file(at(dir, 1)).expect("removed"));
    compare("the first WAL is missing", None, |dir| fs::remove_file(at(dir, 0)).expect("removed"));
    compare("the last WAL is missing", None, |dir| fs::remove_file(at(dir, 2)).expect("removed"));
    compare("a gap in the numbers", Some(true), |dir| {
        fs::rename(at(dir, 2), dir.join("000100.log")).expect("renamed")
    });
    compare("an old WAL that nobody needs", Some(true), |dir| {
        fs::copy(at(dir, 0), dir.join("000001.log")).expect("copied");
    });
    compare("all WALs are missing", None, |dir| {
        numbered(dir, ".log").iter().for_each(|p| fs::remove_file(p).expect("removed"))
    });
}

#[test]
fn tables_may_have_leveldbs_name_and_others_are_missed() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    compare("tables under LevelDB's name", Some(true), |dir| {
        for path in numbered(dir, ".sst") {
            fs::rename(&path, path.with_extension("ldb")).expect("renamed");
        }
    });
    compare("a table is missing", Some(false), |dir| {
        fs::remove_file(&numbered(dir, ".sst")[0]).expect("removed")
    });
    compare("a table with more bytes", Some(false), |dir| {
        let path = &numbered(dir, ".sst")[0];
        let mut bytes = fs::read(path).expect("a table");
        bytes.push(0);
        fs::write(path, bytes).expect("written");
    });
}

/// Tables that a compaction replaced are deleted, whatever suffix their names have.
#[test]
fn tables_under_leveldbs_name_are_deleted_when_they_are_not_needed() {
    let dir = TempDir::new("odd-ldb");
    write(dir.path());
    for path in numbered(dir.path(), ".sst") {
        fs::rename(&path, path.with_extension("ldb")).expect("renamed");
    }
    let db = Db::open_cf(&db_options(), dir.path(), descriptors()).expect("opens");
    assert!(!numbered(dir.path(), ".ldb").is_empty());
    let copy = dir.join("checkpoint");
    db.create_checkpoint(&copy, u64::MAX).expect("made");
    esker(&copy, true).expect("a database").iter().for_each(|found| assert!(!found.0.is_empty()));
    let mut backups = BackupEngine::open(&BackupEngineOptions::new(dir.join("backups"))).expect("opens");
    backups.create_new_backup(&db, false).expect("made");
    let restored = dir.join("restored");
    backups.restore_db_from_latest_backup(&restored, &restored).expect("restored");
    assert_eq!(esker(&restored, true).expect("a database"), esker(&copy, true).expect("a database"));
    db.compact_range(None, None).expect("compacts");
    db.put("key00", "again").expect("written");
    db.flush().expect("flushes");
    db.compact_range(None, None).expect("compacts");
    db.close().expect("closes");
    drop(db);
    assert_eq!(numbered(dir.path(), ".ldb"), Vec::<PathBuf>::new());
}

#[test]
fn leftovers_go_when_rocksdb_deletes_them() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let leftovers = [
        "000003.sst",
        "000777.sst",
        "000778.ldb",
        "000779.blob",
        "000003.dbtmp",
        "000780.dbtmp",
        "OPTIONS-000002.dbtmp",
        "000004.sst.trash",
        "MANIFEST-000001",
        "MANIFEST-000900",
        "OPTIONS-000001",
        "OPTIONS-000002",
        "000001.log",
        "notes.txt",
        "10.sst.bak",
        "METADB-000004",
        "LOG.old.1",
        "archive",
    ];
    let left = |open: &dyn Fn(&Path) -> Found| {
        let dir = TempDir::new("odd-leftovers");
        write(dir.path());
        for name in leftovers {
            fs::write(dir.join(name), "leftover").expect("written");
        }
        let found = open(dir.path()).expect("opens");
        let there = |name: &&str| dir.join(name).exists();
        (found, leftovers.into_iter().filter(there).collect::<Vec<_>>())
    };
    let ours = left(&|dir| esker(dir, false));
    let theirs = left(&|dir| rocksdb(dir, false));
    assert!(ours.0.iter().zip(&theirs.0).all(|(ours, theirs)| ours == theirs));
    // RocksDB looks for tables only under its own suffix, so it leaves these files too.
    let more = ["000778.ldb", "000779.blob", "OPTIONS-000002.dbtmp"];
    let theirs: Vec<&str> = theirs.1.into_iter().filter(|name| !more.contains(name)).collect();
    assert_eq!(ours.1, theirs, "the files that Esker and RocksDB leave");
}
