//! `esker verify`: sound databases pass, and each kind of damage is found and named.

use crate::run::{ProgramResult, copy, esker, files, flip, ldb, sample};
use esker::comparator::{BytewiseComparator, Comparator, ReverseBytewiseComparator};
use esker::options::CompressionType;
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn verify(db: &Path) -> ProgramResult {
    esker(&["verify", db.to_str().unwrap()])
}

#[test]
fn a_sound_database_passes_and_stays_as_it_was() {
    let temp = TempDir::new("verify-sound");
    let db = sample(&temp);
    let contents =
        |db: &Path| files(db, "").into_iter().map(|f| (std::fs::read(&f).unwrap(), f)).collect::<Vec<_>>();
    let before = contents(&db);
    let out = verify(&db).ok();
    assert!(out.contains("2 column families") && out.lines().last().unwrap().starts_with("OK: "), "{out}");
    assert!(contents(&db) == before, "verify changed the directory");
}

#[test]
fn a_quiet_look_at_a_sound_database_prints_nothing() {
    let temp = TempDir::new("verify-quiet");
    let db = sample(&temp);
    for flag in ["-q", "--quiet"] {
        assert_eq!(esker(&["verify", flag, db.to_str().unwrap()]).ok(), "");
    }
}

#[test]
fn any_flipped_bit_of_a_table_is_found() {
    let temp = TempDir::new("verify-flips");
    let db = sample(&temp);
    for table in files(&db, ".sst") {
        let bytes = std::fs::read(&table).unwrap();
        for offset in (0..bytes.len()).step_by(37) {
            flip(&table, offset);
            let out = verify(&db);
            assert_eq!(out.code, Some(1), "offset {offset} of {}: {out:?}", table.display());
            assert!(out.out.contains("PROBLEM: "), "{out:?}");
            std::fs::write(&table, &bytes).unwrap();
        }
    }
    verify(&db).ok();
}

#[test]
fn missing_short_and_extra_files_are_told_apart() {
    let temp = TempDir::new("verify-files");
    let db = sample(&temp);
    let table = files(&db, ".sst").remove(0);
    let name = table.file_name().unwrap().to_str().unwrap();

    let missing = temp.join("missing");
    copy(&db, &missing);
    std::fs::remove_file(missing.join(name)).unwrap();
    let out = verify(&missing);
    assert!(out.code == Some(1) && out.out.contains(&format!("{name} is missing")), "{out:?}");

    let longer = temp.join("longer");
    copy(&db, &longer);
    let mut bytes = std::fs::read(&table).unwrap();
    bytes.push(0);
    std::fs::write(longer.join(name), &bytes).unwrap();
    let out = verify(&longer);
    assert!(out.code == Some(1) && out.out.contains("the MANIFEST says"), "{out:?}");

    let extra = temp.join("extra");
    copy(&db, &extra);
    std::fs::copy(&table, extra.join("999999.sst")).unwrap();
    assert!(verify(&extra).ok().contains("note: table file #999999 is not in the MANIFEST"));
}

#[test]
fn logs_are_read_to_their_ends() {
    let temp = TempDir::new("verify-logs");
    let db = sample(&temp);
    ldb(&db, &["put", "z1", "v"]).ok();
    let wal = files(&db, ".log").pop().unwrap();
    let bytes = std::fs::read(&wal).unwrap();
    flip(&wal, 8);
    assert!(verify(&db).out.contains("checksum mismatch"), "{:?}", verify(&db));
    std::fs::write(&wal, &bytes[..bytes.len() - 1]).unwrap();
    assert!(verify(&db).ok().contains("note: "), "a killed process leaves a WAL with a torn end");

    let manifest = files(&db, "").into_iter().find(|f| f.to_str().unwrap().contains("MANIFEST")).unwrap();
    flip(&manifest, 10);
    let output = verify(&db).failed();
    assert!(output.contains("MANIFEST") && output.contains("offset"), "{output}");
    std::fs::remove_file(db.join("CURRENT")).unwrap();
    assert!(verify(&db).failed().contains("CURRENT"));
}

#[test]
fn a_log_with_a_prepared_transaction_is_needed() {
    use esker::{Options, TransactionDb, TransactionDbOptions};
    let temp = TempDir::new("verify-prepared");
    let path = temp.join("db");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), &path).unwrap();
    let txn = db.begin_transaction();
    txn.put("prepared", "1").unwrap();
    txn.set_name(b"one").unwrap();
    txn.prepare().unwrap();
    for value in ["1", "2"] {
        db.put("other", value).unwrap();
        db.db().flush().unwrap();
    }
    drop((txn, db));
    let logs = files(&path, ".log");
    let out = verify(&path).ok();
    assert!(logs.len() > 1 && !out.contains("not needed"), "{logs:?} {out}");
    // Its damage is found.
    flip(&logs[0], 20);
    assert!(verify(&path).out.contains("PROBLEM"), "{:?}", verify(&path));
}

#[test]
fn a_manifest_without_its_numbers_is_no_database() {
    let temp = TempDir::new("verify-empty-manifest");
    let db = sample(&temp);
    let current = std::fs::read_to_string(db.join("CURRENT")).unwrap();
    std::fs::write(db.join(current.trim()), "").unwrap();
    let out = verify(&db);
    assert!(out.code == Some(1) && out.out.contains("entry in MANIFEST"), "{out:?}");
}

#[test]
fn any_flipped_bit_of_a_blob_file_is_found() {
    let temp = TempDir::new("verify-blobs");
    let db = temp.join("db");
    let flags = ["--create_if_missing", "--enable_blob_files", "--min_blob_size=0"];
    for n in ["1", "2"] {
        ldb(&db, &[&flags[..], &["put", n, "a value"]].concat()).ok();
    }
    ldb(&db, &["--enable_blob_files", "compact"]).ok();
    verify(&db).ok();
    for blob in files(&db, ".blob") {
        let bytes = std::fs::read(&blob).unwrap();
        // The header has no checksum.
        for offset in 30..bytes.len() {
            flip(&blob, offset);
            let out = verify(&db);
            assert!(out.code == Some(1) && out.out.contains("PROBLEM: "), "offset {offset}: {out:?}");
            std::fs::write(&blob, &bytes).unwrap();
        }
        std::fs::write(&blob, "").unwrap();
        assert_eq!(verify(&db).code, Some(1), "an empty file is a problem");
        std::fs::write(&blob, &bytes).unwrap();
    }
}

#[test]
fn tools_find_tables_in_other_directories() {
    let temp = TempDir::new("verify-paths");
    let (db, fast, slow) = (temp.join("db"), temp.join("fast"), temp.join("slow"));
    let list = format!("--db_paths={}=1000000,{}", fast.display(), slow.display());
    let (path, dir) = (format!("--path={}", fast.display()), db.to_str().unwrap());
    ldb(&db, &["--create_if_missing", &list, "put", "a", "1"]).ok();
    ldb(&db, &[&list, "compact"]).ok();
    assert_eq!((files(&db, ".sst").len(), files(&fast, ".sst").len()), (0, 1));
    assert_eq!(ldb(&db, &[&list, "get", "a"]).ok(), "1\n");
    let e = ldb(&db, &["get", "a"]).failed();
    assert!(e.contains("is missing"), "{e}");

    let out = verify(&db);
    assert!(out.code == Some(1) && out.out.contains("is missing"), "{out:?}");
    let out = esker(&["verify", &path, dir]).ok();
    assert!(out.contains("OK: 1 table files (1 entries"), "{out}");
    assert!(esker(&["compat", dir]).failed().contains("db_paths"));
    let out = esker(&["compat", &path, dir]).ok();
    assert!(out.contains("1 tables and"), "{out}");
    assert!(esker(&["info", dir]).ok().contains(".sst is missing"));
    assert!(esker(&["info", &path, dir]).ok().contains("no damage in metadata"));

    std::fs::remove_file(db.join("CURRENT")).unwrap();
    ldb(&db, &[&list, "repair"]).ok();
    assert_eq!(ldb(&db, &[&list, "get", "a"]).ok(), "1\n");
    let e = ldb(&db, &["--db_paths=/a=many", "get", "a"]).failed();
    assert!(e.contains("'many' is no number of bytes"), "{e}");
}

/// Problems that `verify` prints.
fn problems(out: &str) -> Vec<&str> {
    out.lines().filter(|line| line.starts_with("PROBLEM: ")).collect()
}

#[test]
fn all_damage_is_counted() {
    let temp = TempDir::new("verify-all");
    let db = temp.join("db");
    let lines: String = (0..2000).map(|n| format!("key{n:05} ==> value {n} of the table\n")).collect();
    let flags = ["--create_if_missing", "--compression_type=no", "--block_size=1000"];
    crate::run::ldb_with_input(&db, &[&flags[..], &["load"]].concat(), lines).ok();
    ldb(&db, &["compact"]).ok();
    let table = files(&db, ".sst").remove(0);
    // Two blocks far from each other, two neighbours, and the index.
    let mut bytes = std::fs::read(&table).unwrap();
    let index = bytes.len() - 2000;
    for at in [5000, 20_000, 20_000 + 1100, index] {
        bytes[at..at + 4].copy_from_slice(b"\xA5\x5A\xA5\x5A");
    }
    std::fs::write(&table, bytes).unwrap();
    for n in 0..3 {
        ldb(&db, &["put", &format!("z{n}"), &"v".repeat(40_000)]).code.unwrap();
    }
    let out = verify(&db);
    let found = problems(&out.out);
    assert!(out.code == Some(1) && found.len() >= 3, "{out:?}");
    assert!(found.iter().any(|line| line.contains("with keys from 'key0")), "{found:?}");
    assert!(out.err.contains(&format!("{} problem(s)", found.len())), "{out:?}");

    // Without the MANIFEST, the table is checked by itself.
    let manifest = files(&db, "").into_iter().find(|f| f.to_str().unwrap().contains("MANIFEST")).unwrap();
    flip(&manifest, 10);
    let out = verify(&db);
    assert!(out.code == Some(1) && out.err.contains("MANIFEST") && problems(&out.out).len() >= 3, "{out:?}");
}

/// Makes a database of 2000 keys in one table. Returns the table's path.
fn one_table(db: &Path, comparator: Arc<dyn Comparator>) -> PathBuf {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.comparator = comparator;
    options.cf.table.block_size = 1000;
    options.cf.compression = CompressionType::None;
    let database = Db::open(&options, db).unwrap();
    for n in 0..2000 {
        database.put(format!("key{n:05}"), format!("value {n} of the table")).unwrap();
    }
    database.flush().unwrap();
    database.close().unwrap();
    let [table] = &files(db, ".sst")[..] else { panic!("the database has one table") };
    table.clone()
}

/// As `one_table`, and removes what names the table.
fn without_a_manifest(db: &Path, comparator: Arc<dyn Comparator>) -> PathBuf {
    let table = one_table(db, comparator);
    std::fs::remove_file(db.join("CURRENT")).unwrap();
    table
}

/// An order that the tools do not know.
#[derive(Debug)]
struct OwnOrder;

impl Comparator for OwnOrder {
    fn name(&self) -> &str {
        "own order"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn missing_and_short_tables_of_an_unknown_order_are_problems() {
    let temp = TempDir::new("verify-own-order");
    let db = temp.join("db");
    let table = one_table(&db, Arc::new(OwnOrder));
    let name = table.file_name().unwrap().to_str().unwrap();
    let out = verify(&db).ok();
    assert!(out.contains("its comparator own order is not known here"), "{out}");

    std::fs::OpenOptions::new().write(true).open(&table).unwrap().set_len(1000).unwrap();
    let out = verify(&db);
    assert!(
        out.code == Some(1) && problems(&out.out)[0].contains("1000 bytes, the MANIFEST says"),
        "{out:?}"
    );

    std::fs::remove_file(&table).unwrap();
    let out = verify(&db);
    assert!(out.code == Some(1) && out.out.contains(&format!("{name} is missing")), "{out:?}");
}

#[test]
fn a_lone_table_is_checked_in_its_own_order() {
    for comparator in
        [Arc::new(BytewiseComparator) as Arc<dyn Comparator>, Arc::new(ReverseBytewiseComparator)]
    {
        let temp = TempDir::new("verify-lone-order");
        let table = without_a_manifest(&temp.join("db"), comparator);
        flip(&table, 20_000);
        let out = verify(&temp.join("db"));
        let found = problems(&out.out);
        let of_table: Vec<_> = found.iter().filter(|line| line.contains(".sst")).collect();
        assert!(out.code == Some(1) && of_table.len() == 1, "{out:?}");
        assert!(!out.out.contains("out of order"), "{out:?}");
    }
}

#[test]
fn lone_tables_with_the_extension_of_leveldb_are_checked() {
    let temp = TempDir::new("verify-lone-ldb");
    let table = without_a_manifest(&temp.join("db"), Arc::new(BytewiseComparator));
    let renamed = table.with_extension("ldb");
    std::fs::rename(&table, &renamed).unwrap();
    let sound = verify(&temp.join("db"));
    assert!(!sound.out.contains(".sst"), "{sound:?}");
    flip(&renamed, 20_000);
    let damaged = verify(&temp.join("db"));
    assert_eq!(problems(&damaged.out).len(), problems(&sound.out).len() + 1, "{damaged:?}");
}

#[test]
fn each_damaged_record_of_a_wal_or_a_blob_file_is_a_problem() {
    let temp = TempDir::new("verify-records");
    let db = temp.join("db");
    let mut options = esker::Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    options.cf.enable_blob_files = true;
    let open = esker::Db::open(&options, &db).unwrap();
    (0..9).for_each(|n| open.put(format!("b{n}"), "a value of a blob file").unwrap());
    open.flush().unwrap();
    (0..9).for_each(|n| open.put(format!("w{n}"), vec![b'w'; 40_000]).unwrap());
    open.close().unwrap();
    let (wal, blob) = (files(&db, ".log").pop().unwrap(), files(&db, ".blob").remove(0));
    // The damage of a record costs the rest of its block of 32 KiB.
    for at in [20, 100_000, 220_000] {
        flip(&wal, at);
    }
    for at in [90, 200] {
        flip(&blob, at);
    }
    let out = verify(&db);
    let found = problems(&out.out);
    let of = |name: &str| found.iter().filter(|line| line.contains(name)).count();
    assert!(of(".log") >= 3 && of(".blob") >= 2, "{out:?}");
}

/// The open of a database whose WAL is damaged keeps the writes before the damage. The loss is
/// told.
#[test]
fn records_that_an_open_loses_are_reported_on_standard_error() {
    let temp = TempDir::new("ldb-wal-losses");
    let db = temp.join("db");
    let mut options = esker::Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    let open = esker::Db::open(&options, &db).unwrap();
    (0..9).for_each(|n| open.put(format!("w{n}"), "a value").unwrap());
    open.close().unwrap();
    drop(open);
    let wal = files(&db, ".log").pop().unwrap();
    let cut = temp.join("cut");
    copy(&db, &cut);
    flip(&wal, 100);
    let done = ldb(&db, &["scan"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let name = wal.file_name().unwrap().to_str().unwrap();
    assert!(done.err.contains("Warning: records are lost: ") && done.err.contains(name), "{done:?}");
    assert!(done.out.lines().count() < 9, "{done:?}");
    assert_eq!(ldb(&db, &["get_property", "rocksdb.num-wal-losses"]).ok(), "rocksdb.num-wal-losses: 1\n");
    // The end of a WAL after a crash is no loss.
    let wal = cut.join(name);
    let bytes = std::fs::read(&wal).unwrap();
    std::fs::write(&wal, &bytes[..bytes.len() - 3]).unwrap();
    let done = ldb(&cut, &["scan"]);
    assert!(done.code == Some(0) && done.err.is_empty() && done.out.lines().count() == 8, "{done:?}");
}
