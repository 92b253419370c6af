//! Tests `esker ldb` alone: the expected output is written out here, as RocksDB's tool prints it.

use crate::run::{esker, files, golden, ldb, ldb_with_input, peer, sample};
use esker::internals::base::merge_operator::MergeOperator;
use esker::{Db, Options, WriteBatch};
use esker_testkit::TempDir;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

#[test]
fn reads_and_scans_print_as_rocksdbs() {
    let temp = TempDir::new("ldb-reads");
    let db = sample(&temp);
    assert_eq!(ldb(&db, &["get", "a1"]).ok(), "one\n");
    assert_eq!(ldb(&db, &["get", "0x6331", "--hex"]).ok(), "0x00FF10\n");
    assert_eq!(ldb(&db, &["get", "a2"]).failed(), "Failed: Get failed: NotFound: \n");
    assert_eq!(ldb(&db, &["scan", "--to=c"]).ok(), "a1 : one\na3 : three\nb2 : y\n");
    assert_eq!(ldb(&db, &["scan", "--from=a2", "--max_keys=1"]).ok(), "a3 : three\n");
    assert_eq!(ldb(&db, &["scan", "--no_value", "--key_hex"]).ok(), "0x6131\n0x6133\n0x6232\n0x6331\n");
    assert_eq!(ldb(&db, &["--column_family=cf1", "scan"]).ok(), "k : v\nk2 : v2\n");
    assert!(
        ldb(&db, &["dump", "--count_only"])
            .ok()
            .starts_with("Keys in range: 4\nValue size distribution: \nCount: 4 ")
    );
    assert_eq!(ldb(&db, &["idump", "--from=c"]).ok().lines().last(), Some("Internal keys in range: 1"));
}

#[test]
fn a_read_only_command_leaves_the_directory_as_it_was() {
    let temp = TempDir::new("ldb-read-only");
    let db = sample(&temp);
    let before = files(&db, "");
    for command in [&["scan"][..], &["idump"], &["checkconsistency"], &["get_property", "rocksdb.stats"]] {
        ldb(&db, command).ok();
    }
    assert_eq!(files(&db, ""), before);
}

#[test]
fn a_secondary_reads_beside_the_process_that_writes() {
    let temp = TempDir::new("ldb-secondary");
    let db = sample(&temp);
    let secondary = format!("--secondary_path={}", temp.path().join("mine").display());
    let families = Db::list_column_families(&Options::default().db, &db).unwrap();
    let writer = Db::open_cf(&Options::default().db, &db, families).unwrap();
    writer.put("new", "value").unwrap();
    let before = files(&db, "");
    assert_eq!(ldb(&db, &[&secondary, "get", "new"]).ok(), "value\n");
    assert_eq!(ldb(&db, &[&secondary, "--column_family=cf1", "scan"]).ok(), "k : v\nk2 : v2\n");
    let refused = ldb(&db, &[&secondary, "put", "new", "other"]).failed();
    assert!(refused.contains("Not supported operation in secondary mode."), "{refused}");
    assert_eq!(files(&db, ""), before);
    assert!(temp.path().join("mine/LOG").exists());
}

#[test]
fn families_come_and_go() {
    let temp = TempDir::new("ldb-families");
    let db = sample(&temp);
    let names = |list: &str| format!("Column families in {}: \n{{{list}}}\n", db.display());
    assert_eq!(ldb(&db, &["list_column_families"]).ok(), names("default, cf1"));
    assert_eq!(ldb(&db, &["drop_column_family", "cf1"]).ok(), "OK\n");
    assert_eq!(ldb(&db, &["list_column_families"]).ok(), names("default"));
    assert_eq!(
        ldb(&db, &["--column_family=cf1", "scan"]).failed(),
        "Failed: Non-existing column family cf1\n"
    );
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let temp = TempDir::new("ldb-checkpoint");
    let db = sample(&temp);
    let copy = temp.path().join("copy");
    let to = format!("--checkpoint_dir={}", copy.display());
    assert_eq!(ldb(&db, &["checkpoint", &to]).ok(), "OK\n");
    ldb(&db, &["put", "a1", "changed"]).ok();
    assert_eq!(ldb(&copy, &["get", "a1"]).ok(), "one\n");
    assert!(ldb(&db, &["checkpoint", &to]).failed().contains("Directory exists"));
}

#[test]
fn a_backup_brings_back_what_was_there() {
    let temp = TempDir::new("ldb-backup");
    let db = sample(&temp);
    let to = format!("--backup_dir={}", temp.path().join("backups").display());
    assert!(ldb(&db, &["backup", &to]).ok().contains("OK"));
    ldb(&db, &["put", "a1", "changed"]).ok();
    let restored = temp.path().join("restored");
    assert!(ldb(&restored, &["restore", &to]).ok().contains("OK"));
    assert_eq!(ldb(&restored, &["get", "a1"]).ok(), "one\n");
    ldb(&db, &["restore", &to]).ok();
    assert_eq!(ldb(&db, &["get", "a1"]).ok(), "one\n");
    std::fs::create_dir(temp.path().join("empty")).unwrap();
    let empty = format!("--backup_dir={}", temp.path().join("empty").display());
    assert!(ldb(&db, &["restore", &empty]).failed().contains("no backup"));
}

#[test]
fn a_wal_is_dumped_batch_by_batch() {
    let temp = TempDir::new("ldb-wal");
    let db = sample(&temp);
    let wal = files(&db, ".log").pop().unwrap();
    let dumped =
        esker(&["ldb", "dump_wal", &format!("--walfile={}", wal.display()), "--header", "--print_value"])
            .ok();
    let lines: Vec<&str> = dumped.lines().collect();
    assert_eq!(lines[0], "Sequence,Count,ByteSize,Physical Offset,Key(s) : value ");
    assert!(lines.last().unwrap().ends_with("PUT(0) : 0x6331 : 0x00FF10 "), "{dumped}");
}

#[test]
fn errors_name_what_is_wrong() {
    let temp = TempDir::new("ldb-errors");
    let db = sample(&temp);
    assert!(ldb(&temp.join("none"), &["scan"]).failed().contains("none"));
    assert!(ldb(&temp.join("none"), &["put", "a", "b"]).failed().contains("create_if_missing"));
    assert!(esker(&["ldb", "scan"]).failed().contains("--db"));
    assert!(ldb(&db, &["get", "zz", "--hex"]).failed().contains("zz"));
    assert!(ldb(&db, &["batchput", "a"]).failed().contains("batchput"));
    assert!(ldb(&db, &["get_property", "nope"]).failed().contains("nope"));
    assert!(ldb(&db, &["--compression_type=best", "put", "a", "b"]).failed().contains("compression_type"));
    assert_eq!(ldb(&db, &["nosuch"]).code, Some(2));
    assert!(!temp.join("none").exists(), "a failed command made the directory");
}

#[test]
fn a_damaged_table_is_reported_with_file_and_offset() {
    let temp = TempDir::new("ldb-damaged");
    let db = sample(&temp);
    let table = files(&db, ".sst").remove(0);
    crate::run::flip(&table, 5);
    let name = table.file_name().unwrap().to_str().unwrap();
    let output = [ldb(&db, &["scan"]), ldb(&db, &["--column_family=cf1", "scan"])];
    let failed: Vec<_> = output.iter().filter(|done| done.code == Some(1)).collect();
    assert_eq!(failed.len(), 1, "{output:?}");
    assert!(failed[0].err.contains(name) && failed[0].err.contains("offset"), "{failed:?}");
}

#[test]
fn recorded_checksums_are_dumped() {
    let db = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/v7_8_file_checksum/db"));
    let end = "Print SST file checksum information finished \n";
    let lines = format!("9, FileChecksumCrc32c, 0xCE5AFCE9\n11, FileChecksumCrc32c, 0xCD96D6C8\n{end}");
    assert_eq!(ldb(db, &["file_checksum_dump", "--hex"]).ok(), lines);
    let without = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/v7_8_default/db"));
    assert!(ldb(without, &["file_checksum_dump"]).ok().contains(", Unknown, \n"));
}

#[test]
fn entries_are_loaded_and_go_into_tables_that_both_take_in() {
    let temp = TempDir::new("ldb-load");
    let db = temp.join("db");
    let lines = "a ==> 1\nb ==> 2\nKeys in range: 2\nno entry\n";
    let loaded = ldb_with_input(&db, &["load", "--create_if_missing", "--compact"], lines).ok();
    assert_eq!(loaded, "Warning: 1 bad lines ignored.\n");
    let table = temp.join("more.sst");
    let table = table.to_str().unwrap();
    let made = ldb_with_input(&db, &["write_extern_sst", table], "b ==> 3\nc ==> 4\n").ok();
    assert_eq!(made, format!("external SST file written to {table}\n"));
    let other = temp.join("other.sst");
    let unsorted = ["write_extern_sst", other.to_str().unwrap()];
    let unsorted = ldb_with_input(&db, &unsorted, "b ==> 3\na ==> 4\n");
    assert!(unsorted.failed().starts_with("Failed: failed to write record to file: "));
    assert_eq!(ldb(&db, &["ingest_extern_sst", table]).ok(), "external SST files ingested\n");
    assert_eq!(ldb(&db, &["scan"]).ok(), "a : 1\nb : 3\nc : 4\n");
    if let Some(theirs) = peer("ldb", &[&format!("--db={}", db.display()), "ingest_extern_sst", table]) {
        assert_eq!(theirs.code, Some(0), "{theirs:?}");
        assert_eq!(ldb(&db, &["get", "c"]).ok(), "4\n");
    }
}

#[test]
fn a_load_restores_the_dumped_bytes() {
    let temp = TempDir::new("ldb-load-bytes");
    let (from, to) = (temp.join("from"), temp.join("to"));
    for pair in [["0x6b00ff", "0x7600fe0d"], ["0x6c", "0x0d"], ["0x6d", "0x203d3d3e20"]] {
        ldb(&from, &["put", "--hex", "--create_if_missing", pair[0], pair[1]]).ok();
    }
    let family = Db::open(&Options::default(), &from).unwrap();
    let mut dumped = Vec::new();
    let mut iter = family.iter().unwrap();
    iter.seek_to_first();
    while let Some((key, value)) = iter.item() {
        dumped.extend([key, b" ==> ", value, b"\n"].concat());
        iter.next();
    }
    drop(iter);
    family.close().unwrap();
    assert_eq!(ldb_with_input(&to, &["load", "--create_if_missing"], dumped).ok(), "");
    assert_eq!(ldb(&to, &["scan", "--hex"]).ok(), ldb(&from, &["scan", "--hex"]).ok());
    let wrong = ldb_with_input(&to, &["load", "--hex"], b"0x61 ==> 0x\xff\xff\n").failed();
    assert!(wrong.contains("Invalid hex input value"), "{wrong}");
}

#[test]
fn values_get_their_times_when_they_are_loaded() {
    let temp = TempDir::new("ldb-load-ttl");
    let db = temp.join("db");
    assert_eq!(ldb_with_input(&db, &["load", "--ttl", "--create_if_missing"], "a ==> 1\n").ok(), "");
    assert_eq!(ldb(&db, &["get", "a", "--ttl"]).ok(), "1\n");
    let table = temp.join("t.sst");
    let refused = ldb_with_input(&db, &["write_extern_sst", "--ttl", table.to_str().unwrap()], "a ==> 1\n");
    assert!(refused.failed().contains("--ttl"));
}

#[test]
fn a_load_without_a_wal_is_flushed_under_any_options() {
    let temp = TempDir::new("ldb-load-no-wal");
    let db = temp.join("db");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.avoid_flush_during_shutdown = true;
    Db::open(&options, &db).unwrap().close().unwrap();
    assert_eq!(ldb_with_input(&db, &["load", "--disable_wal"], "a ==> 1\n").ok(), "");
    assert_eq!(ldb(&db, &["get", "a"]).ok(), "1\n");
}

#[test]
fn values_with_times_are_shown_without_them() {
    let temp = TempDir::new("ldb-ttl");
    let db = temp.join("db");
    assert_eq!(ldb(&db, &["put", "a", "1", "--ttl", "--create_if_missing"]).ok(), "OK\n");
    assert_eq!(ldb(&db, &["batchput", "b", "2", "c", "3", "--ttl"]).ok(), "OK\n");
    assert_eq!(ldb(&db, &["get", "b", "--ttl"]).ok(), "2\n");
    assert_eq!(ldb(&db, &["scan", "--ttl"]).ok(), "a : 1\nb : 2\nc : 3\n");
    assert_eq!(ldb(&db, &["scan", "--ttl", "--end_time=1400000000"]).ok(), "");
    let wide = ldb(&db, &["dump", "--ttl", "--start_time=-2147483648", "--bucket=2000000000"]).ok();
    assert!(wide.matches("Keys in range ").count() == 3 && wide.contains(" : 3\n"), "{wide}");
    assert_eq!(ldb(&db, &["dump", "--ttl"]).ok(), "a ==> 1\nb ==> 2\nc ==> 3\nKeys in range: 3\n");
    // Without `--ttl` the same values are read with their times.
    assert_eq!(
        ldb(&db, &["scan", "--value_hex"]).ok().lines().next().unwrap().len(),
        "a : 0x3100000000".len()
    );
    if let Some(theirs) = peer("ldb", &[&format!("--db={}", db.display()), "scan", "--ttl"]) {
        assert_eq!(theirs.out, "a : 1\nb : 2\nc : 3\n");
    }
}

#[test]
fn large_values_go_into_blob_files_if_flags_say_so() {
    let temp = TempDir::new("ldb-blobs");
    let db = temp.join("db");
    let large = "x".repeat(500);
    let blobs =
        ["--create_if_missing", "--enable_blob_files", "--min_blob_size=100", "--blob_compression_type=lz4"];
    ldb(&db, &[&["put", "k", &large], &blobs[..]].concat()).ok();
    ldb(&db, &[&["compact"], &blobs[1..]].concat()).ok();
    assert_eq!(files(&db, ".blob").len(), 1);
    assert_eq!(ldb(&db, &["get", "k"]).ok(), format!("{large}\n"));
    let wrong = ldb(&db, &["compact", "--blob_compression_type=best"]).failed();
    assert!(wrong.contains("--blob_compression_type"), "{wrong}");
    if let Some(theirs) = peer("ldb", &[&format!("--db={}", db.display()), "get", "k"]) {
        assert_eq!(theirs.out, format!("{large}\n"));
    }
}

/// Concatenates operands: a merge operator that only this test knows.
struct Concatenate;

impl MergeOperator for Concatenate {
    fn name(&self) -> &str {
        "its.owner.Concatenate"
    }
    fn full_merge(&self, _key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some([existing.unwrap_or_default(), &operands.concat()].concat())
    }
}

fn merge(db: &Db, operand: &str) {
    let mut batch = WriteBatch::new();
    batch.merge_cf(db.default_column_family().id(), b"key", operand.as_bytes()).unwrap();
    db.write(&mut batch).unwrap();
}

#[test]
fn operands_of_an_operator_that_is_not_known_here_stay_as_they_are() {
    let temp = TempDir::new("ldb-operands");
    let path = temp.join("db");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.merge_operator = Some(Arc::new(Concatenate));
    // A background compaction would combine the operands of the flushed file.
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, &path).unwrap();
    ["a", "b"].iter().for_each(|operand| merge(&db, operand));
    db.flush().unwrap();
    ["c", "d"].iter().for_each(|operand| merge(&db, operand));
    db.close().unwrap();
    drop(db);
    // RocksDB's tool joins the operands in the same way.
    assert_eq!(ldb(&path, &["get", "key"]).ok(), "a:b:c:d\n");
    for command in [&["put", "other", "value"][..], &["compact"], &["repair"], &["--ttl", "put", "ttl", "x"]]
    {
        ldb(&path, command).ok();
        let db = Db::open(&options, &path).unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"abcd"[..]), "{command:?}");
        db.close().unwrap();
    }
}

#[test]
fn wals_in_a_directory_of_their_own_are_found() {
    let temp = TempDir::new("ldb-wal-dir");
    let (path, wals) = (temp.join("db"), temp.join("wals"));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.wal_dir = Some(wals.clone());
    let db = Db::open(&options, &path).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(ldb(&path, &["get", "key"]).ok(), "value\n");
    for (tool, seen) in [("verify", "1 WALs (1 batches)"), ("compat", "1 WALs were looked into")] {
        let out = esker(&[tool, path.to_str().unwrap()]).ok();
        assert!(out.contains(seen), "{out}");
    }
    ldb(&path, &["put", "other", "value"]).ok();
    assert_eq!(ldb(&path, &["scan"]).ok(), "key : value\nother : value\n");
    // Repairs a database without a MANIFEST, and one without CURRENT too.
    for gone in [&["MANIFEST-"][..], &["MANIFEST-", "CURRENT"]] {
        for file in
            files(&path, "").into_iter().filter(|p| gone.iter().any(|g| p.to_string_lossy().contains(g)))
        {
            std::fs::remove_file(file).unwrap();
        }
        ldb(&path, &["repair"]).ok();
        assert_eq!(ldb(&path, &["scan"]).ok(), "key : value\nother : value\n");
        ldb(&path, &["put", "other", "value"]).ok();
    }
    // Moves the database, and its WALs into the database's directory.
    ldb(&path, &["put", "key", "later"]).ok();
    let moved = temp.join("moved");
    std::fs::rename(&path, &moved).unwrap();
    for wal in files(&wals, ".log") {
        std::fs::rename(&wal, moved.join(wal.file_name().unwrap())).unwrap();
    }
    std::fs::remove_dir_all(&wals).unwrap();
    assert_eq!(ldb(&moved, &["scan"]).ok(), "key : later\nother : value\n");
}

#[test]
fn live_files_are_listed_with_blob_files() {
    let db = golden("v7_8_blob");
    let dir = db.display();
    let by_level = ldb(&db, &["list_live_files_metadata"]).ok();
    let blobs = format!("Live Blob Files:\n{dir}/000010.blob\n{dir}/000013.blob\n------");
    let tables = format!("---------- level 0 ----------\n{dir}/000012.sst\n{dir}/000009.sst\n---");
    assert!(by_level.contains(&blobs) && by_level.contains(&tables), "{by_level}");
    assert_eq!(
        ldb(&db, &["list_live_files_metadata", "--sort_by_filename"]).ok(),
        format!(
            "Live SST and Blob Files:\n\
             {dir}/000009.sst : level 0, column family 'default'\n\
             {dir}/000010.blob, column family 'default'\n\
             {dir}/000012.sst : level 0, column family 'default'\n\
             {dir}/000013.blob, column family 'default'\n\
             ------------------------------\n"
        )
    );
}

#[test]
fn internal_entries_begin_and_end_at_keys_without_timestamps() {
    let db = golden("v7_8_udt_u64");
    let dumped = ldb(&db, &["idump", "--from=key000011", "--to=key000013"]).ok();
    let keys: BTreeSet<&str> =
        dumped.lines().filter_map(|line| line.get(1..10)).filter(|k| k.starts_with("key")).collect();
    assert_eq!(keys, BTreeSet::from(["key000011", "key000012"]), "{dumped}");
}

#[test]
fn entities_are_written_and_several_keys_read() {
    let temp = TempDir::new("ldb-entities");
    let db = sample(&temp);
    assert_eq!(ldb(&db, &["put_entity", "a2", "name:Ada", "born:1815", ":plain"]).ok(), "OK\n");
    assert_eq!(ldb(&db, &["get_entity", "a2"]).ok(), ":plain born:1815 name:Ada\n");
    assert_eq!(ldb(&db, &["get_entity", "a1", "--value_hex"]).ok(), ":0x6F6E65\n");
    assert_eq!(ldb(&db, &["get_entity", "none"]).failed(), "Failed: GetEntity failed: NotFound: \n");
    assert_eq!(
        ldb(&db, &["multi_get_entity", "a1", "none", "a2"]).ok(),
        "a1 ==> :one\nKey not found: none\na2 ==> :plain born:1815 name:Ada\n"
    );
    assert_eq!(
        ldb(&db, &["multi_get", "0x6131", "0x00", "--hex"]).ok(),
        "0x6131 ==> 0x6F6E65\nKey not found: 0x00\n"
    );
    assert_eq!(ldb(&db, &["get", "a2"]).ok(), "plain\n");
    let scanned = "a1 : one\na2 : :plain born:1815 name:Ada\n";
    assert_eq!(ldb(&db, &["scan", "--max_keys=2"]).ok(), scanned);
    let dumped = ldb(&db, &["dump", "--hex", "--max_keys=2"]).ok();
    let hex = "0x6132 ==> :0x706C61696E 0x626F726E:0x31383135 0x6E616D65:0x416461";
    assert_eq!(dumped.lines().nth(1), Some(hex), "{dumped}");
    for columns in ["name", "a:b:c"] {
        let told = ldb(&db, &["put_entity", "a2", columns]).failed();
        assert!(told.contains("<column_name>:<column_value>"), "{told}");
    }
    assert!(ldb(&db, &["put_entity", "a2", "a:b", "--ttl"]).failed().contains("--ttl"));
    assert_eq!(ldb(&db, &["put", "once", "1"]).ok(), "OK\n");
    assert_eq!(ldb(&db, &["singledelete", "once"]).ok(), "OK\n");
    assert!(ldb(&db, &["idump"]).ok().contains("'once' seq:"), "a single deletion hides the value");
    ldb(&db, &["get", "once"]).failed();
}

#[test]
fn reads_of_families_with_timestamps_name_one() {
    let temp = TempDir::new("ldb-read-timestamp");
    let dir = temp.join("db");
    let mut options = Options::default().create_if_missing(true);
    options.cf.comparator = Arc::new(esker::comparator::BytewiseComparatorWithU64Ts);
    let db = Db::open(&options, &dir).unwrap();
    for (at, value) in [(3u64, "old"), (7, "new")] {
        let family = db.default_column_family();
        db.put_with_ts(&Default::default(), &family, "key", &at.to_le_bytes(), value).unwrap();
    }
    db.close().unwrap();
    assert_eq!(ldb(&dir, &["get", "key", "--read_timestamp=5"]).ok(), "old\n");
    assert_eq!(ldb(&dir, &["multi_get", "key", "--read_timestamp=7"]).ok(), "key ==> new\n");
    assert_eq!(ldb(&dir, &["get_entity", "key", "--read_timestamp=9"]).ok(), ":new\n");
    assert_eq!(ldb(&dir, &["scan", "--read_timestamp=6"]).ok(), "key|timestamp:3 : old\n");
    ldb(&dir, &["get", "key", "--read_timestamp=2"]).failed();
    assert!(ldb(&dir, &["get", "key"]).failed().contains("--read_timestamp is not provided"));
    let other = TempDir::new("ldb-no-timestamps");
    let told = ldb(&sample(&other), &["get", "a1", "--read_timestamp=1"]).failed();
    assert!(told.contains("does not enable user-defined timestamps"), "{told}");
}

#[test]
fn blob_indexes_are_printed_in_words() {
    let dumped = ldb(&golden("v7_8_blob"), &["idump", "--decode_blob_index", "--max_keys=1"]).ok();
    let first =
        "'key000000' seq:1, type:17 => [blob ref] file:10 offset:71 size:150 compression: NoCompression\n";
    assert!(dumped.starts_with(first), "{dumped}");
}

#[test]
fn mistaken_directories_are_refused_and_stay_unchanged() {
    let temp = TempDir::new("ldb-mistakes");
    let (db, nowhere) = (sample(&temp), temp.join("nowhere"));
    let before = ldb(&db, &["scan"]).ok();
    let output = ldb(&db, &["restore", &format!("--backup_dir={}", nowhere.display())]).failed();
    assert!(output.contains("nowhere is missing"), "{output}");
    assert!(!nowhere.exists());
    assert_eq!(ldb(&db, &["scan"]).ok(), before);
    std::fs::create_dir(&nowhere).unwrap();
    ldb(&nowhere, &["repair"]).failed();
    assert_eq!(files(&nowhere, "IDENTITY"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_database_with_a_prepared_transaction_is_read_and_explained_whatever_its_options_file_says() {
    use esker::{TransactionDb, TransactionDbOptions};
    let temp = TempDir::new("ldb-prepared");
    let path = temp.join("db");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), &path).unwrap();
    db.put("written", "1").unwrap();
    let txn = db.begin_transaction();
    txn.put("prepared", "2").unwrap();
    txn.set_name(b"one").unwrap();
    txn.prepare().unwrap();
    drop((txn, db));
    assert_eq!(ldb(&path, &["scan"]).ok(), "written : 1\n");
    for file in files(&path, "").iter().filter(|file| file.to_string_lossy().contains("OPTIONS")) {
        std::fs::remove_file(file).unwrap();
    }
    assert_eq!(ldb(&path, &["scan"]).ok(), "written : 1\n");
    let explained = esker(&["explain", path.to_str().unwrap(), "get", "written"]).ok();
    assert!(explained.contains("key \"written\": found, 1 B, "), "{explained}");
    assert!(ldb(&path, &["put", "a", "b"]).failed().contains("two-phase transactions"));
    // The prepared transaction is still there.
    let db = TransactionDb::open(&options, &TransactionDbOptions::default(), &path).unwrap();
    let prepared = db.get_all_prepared_transactions();
    assert_eq!(prepared.len(), 1);
}

#[test]
fn range_deletions_of_tables_are_listed() {
    let temp = TempDir::new("ldb-range-deletes");
    let db = temp.join("db");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    // Otherwise a compaction in the background may end before the listing, and drop the deletions.
    options.cf.disable_auto_compactions = true;
    let writer = Db::open(&options, &db).unwrap();
    for (begin, end) in [("a", "c"), ("b", "d"), ("c", "f")] {
        writer.put(begin, end).unwrap();
        writer.delete_range(begin, end).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    for flags in [&["list_file_range_deletes"][..], &["list_file_range_deletes", "--max_keys=1"]] {
        let own = ldb(&db, flags).ok();
        assert!(own.contains("start: 63 end: 66 seq: ") && own.contains("=== file : "), "{own}");
        let path = format!("--db={}", db.display());
        if let Some(theirs) = peer("ldb", &[&[&path[..]], flags].concat()) {
            assert_eq!(own, theirs.ok());
        }
    }
}

#[test]
fn scans_print_the_times_of_writes_that_families_record() {
    let temp = TempDir::new("ldb-write-time");
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut options = Options::new().create_if_missing(true);
    options.cf.preserve_internal_time_seconds = 3600;
    let begin = now();
    let db = Db::open(&options, temp.join("db")).unwrap();
    db.put("flushed", "1").unwrap();
    db.flush().unwrap();
    db.put("in the log", "2").unwrap();
    let end = now();
    db.close().unwrap();
    drop(db);
    let scanned = ldb(&temp.join("db"), &["scan", "--get_write_unix_time"]).ok();
    let lines: Vec<&str> = scanned.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[2]), (4, "flushed : 1", "in the log : 2"), "{scanned}");
    let time: u64 = lines[1].strip_prefix("  write unix time: ").expect(&scanned).parse().unwrap();
    assert!((begin..=end).contains(&time), "{time} is not in {begin}..={end}");
    // A reader records no times for what it takes from a WAL.
    assert_eq!(lines[3], "  write unix time: 18446744073709551615");
    let temp = TempDir::new("ldb-write-time-plain");
    let plain = sample(&temp);
    let scanned = ldb(&plain, &["scan", "--no_value", "--max_keys=1", "--get_write_unix_time"]).ok();
    assert_eq!(scanned.lines().count(), 2, "{scanned}");
}
