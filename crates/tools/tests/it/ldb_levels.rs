//! Tests commands of `esker ldb` on whole files, its shell `query`, and `esker blob_dump`.

use crate::run::{copy, files, golden, ldb, ldb_with_input, peer, sample};
use esker::{Db, Options};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};

fn levels(db: &Path) -> String {
    let listed = ldb(db, &["list_live_files_metadata", "--sort_by_filename"]).ok();
    let levels = listed.lines().filter_map(|line| line.split_once(" : level ")).map(|(_, level)| &level[..1]);
    levels.collect()
}

/// The newest OPTIONS file.
fn options_file(db: &Path) -> PathBuf {
    files(db, "").into_iter().rfind(|file| file.to_str().unwrap().contains("OPTIONS-")).unwrap()
}

/// The line of an option in the newest OPTIONS file, which lacks defaults.
fn options_line(db: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(options_file(db)).unwrap();
    text.lines().find(|line| line.trim().starts_with(name)).map(|line| line.trim().to_owned())
}

/// A database with tables in levels 0 and 6.
fn two_levels(temp: &TempDir) -> PathBuf {
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "batchput", "a", "1", "b", "2", "c", "3"]).ok();
    ldb(&db, &["compact"]).ok();
    ldb_with_input(&db, &["load", "--disable_wal"], "b ==> 4\nd ==> 5\n").ok();
    assert_eq!(levels(&db), "60");
    db
}

#[test]
fn levels_are_reduced_and_the_options_file_says_so() {
    let temp = TempDir::new("ldb-reduce");
    let db = two_levels(&temp);
    let before = ldb(&db, &["scan"]).ok();
    let told = ldb(&db, &["reduce_levels", "--new_levels=3", "--print_old_levels"]).ok();
    assert_eq!(told, "The old number of levels in use is 7\nCompacting the db...\n");
    assert_eq!(levels(&db), "2");
    assert_eq!(options_line(&db, "num_levels").as_deref(), Some("num_levels=3"));
    assert_eq!(ldb(&db, &["scan"]).ok(), before);
    assert_eq!(options_line(&db, "disable_auto_compactions"), None);
    assert_eq!(ldb(&db, &["reduce_levels", "--new_levels=3"]).ok(), "");
    if let Some(theirs) = peer("ldb", &[&format!("--db={}", db.display()), "scan"]) {
        assert_eq!(theirs.ok(), before);
    }
}

#[test]
fn level_compaction_becomes_universal() {
    let temp = TempDir::new("ldb-style");
    let db = two_levels(&temp);
    let before = ldb(&db, &["scan"]).ok();
    let change = ["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"];
    let told = ldb(&db, &change).ok();
    let (from, to) = ("1,0,0,0,0,0,1", "1,0,0,0,0,0,0");
    assert_eq!(
        told,
        format!("files per level before compaction: {from}\nfiles per level after compaction: {to}\n")
    );
    let universal = Some("compaction_style=kCompactionStyleUniversal");
    assert_eq!(options_line(&db, "compaction_style").as_deref(), universal);
    assert_eq!(options_line(&db, "target_file_size_base"), None);
    assert_eq!(ldb(&db, &["scan"]).ok(), before);
    assert!(ldb(&db, &change).failed().contains("--old_compaction_style=0"), "it is universal already");
    if let Some(theirs) = peer("ldb", &[&format!("--db={}", db.display()), "scan"]) {
        assert_eq!(theirs.ok(), before);
    }
}

#[test]
fn a_change_that_the_open_refuses_is_taken_back() {
    let temp = TempDir::new("ldb-style-refused");
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "put", "a", "1"]).ok();
    ldb(&db, &["compact"]).ok();
    // An open checks this option only under universal compaction.
    let newest = options_file(&db);
    let text = std::fs::read_to_string(&newest).unwrap();
    let family = "[CFOptions \"default\"]\n";
    assert!(text.contains(family), "{text}");
    let more = format!("{family}  compaction_options_universal={{max_read_amp=1;}}\n");
    std::fs::write(&newest, text.replace(family, &more)).unwrap();
    let change = ["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"];
    let told = ldb(&db, &change).failed();
    assert!(told.contains("compaction_options_universal"), "{told}");
    for name in ["disable_auto_compactions", "target_file_size_base", "compaction_style"] {
        assert_eq!(options_line(&db, name), None, "{name}");
    }
    assert_eq!(ldb(&db, &["scan"]).ok(), "a : 1\n");
}

#[test]
fn a_table_without_a_file_can_be_removed_with_its_entries() {
    let temp = TempDir::new("ldb-remove");
    let db = two_levels(&temp);
    let newer = files(&db, ".sst").pop().unwrap();
    let number = newer.file_stem().unwrap().to_str().unwrap().trim_start_matches('0').to_owned();
    std::fs::remove_file(&newer).unwrap();
    ldb(&db, &["scan"]).failed();
    let removed = ldb(&db, &["unsafe_remove_sst_file", &number]);
    assert_eq!((removed.code, removed.err.as_str()), (Some(0), "unsafely removed SST file\n"));
    assert_eq!(ldb(&db, &["scan"]).ok(), "a : 1\nb : 2\nc : 3\n");
    assert!(ldb(&db, &["unsafe_remove_sst_file", &number]).failed().contains("not present in any level"));
    if let Some(theirs) = peer("ldb", &[&format!("--db={}", db.display()), "scan"]) {
        assert_eq!(theirs.ok(), "a : 1\nb : 2\nc : 3\n");
    }
}

#[test]
fn a_database_in_use_is_refused_unchanged() {
    let temp = TempDir::new("ldb-live");
    let path = temp.join("db");
    let db = Db::open(&Options::default().create_if_missing(true), &path).unwrap();
    db.put("a", "1").unwrap();
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    let before = files(&path, "");
    let number = db.live_files()[0].relative_filename[..6].trim_start_matches('0').to_owned();
    for command in [
        &["unsafe_remove_sst_file", &number][..],
        &["update_manifest", "--update_temperatures"],
        &["reduce_levels", "--new_levels=2"],
        &["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"],
        &["query"],
    ] {
        assert!(ldb(&path, command).failed().contains("LOCK"), "{command:?}");
        assert_eq!(files(&path, ""), before, "{command:?}");
    }
}

#[test]
fn directories_without_a_database_stay_empty() {
    let temp = TempDir::new("ldb-nothing");
    let empty = temp.join("empty");
    std::fs::create_dir(&empty).unwrap();
    for command in [
        &["unsafe_remove_sst_file", "5"][..],
        &["update_manifest", "--update_temperatures"],
        &["reduce_levels", "--new_levels=2"],
        &["dump_live_files"],
        &["put", "a", "b"],
        &["load"],
        &["query"],
        &["query", "--ttl"],
    ] {
        let told = ldb(&empty, command).failed();
        assert!(told.contains(empty.to_str().unwrap()), "{told}");
        assert_eq!(files(&empty, ""), Vec::<PathBuf>::new(), "{command:?}");
    }
}

#[test]
fn flags_that_contradict_each_other_are_named() {
    let temp = TempDir::new("ldb-flags");
    let db = sample(&temp);
    for (flags, name) in [
        (&["scan", "--timestamp"][..], "--timestamp"),
        (&["dump", "--start_time=5"], "--start_time"),
        (&["dump", "--bucket=5"], "--bucket"),
        (&["scan", "--ttl", "--start_time=10", "--end_time=5"], "--end_time"),
    ] {
        let told = ldb(&db, flags).failed();
        assert!(told.contains(name), "{told}");
    }
    let tables = files(&db, ".sst");
    let file = |name: &Path| format!("--path={}", name.display());
    for (path, flag, name) in [
        (db.join("CURRENT"), "--hex", "CURRENT"),
        (temp.join("000099.sst"), "--hex", "000099.sst"),
        (files(&db, ".log").remove(0), "--from=a", "--from"),
    ] {
        let told = crate::run::esker(&["ldb", "dump", &file(&path), flag]).failed();
        assert!(told.contains(name), "{told}");
    }
    let shown: String = tables
        .iter()
        .map(|table| crate::run::esker(&["ldb", "dump", &file(table), "--from=a3", "--to=b"]).ok())
        .collect();
    assert!(shown.contains("'a3' seq:") && !shown.contains("'a1' seq:"), "{shown}");
}

#[test]
fn the_shell_counts_and_scans_and_goes_on_after_a_mistake() {
    let temp = TempDir::new("ldb-query");
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "batchput", "--ttl", "a", "1", "b", "2", "c", "3"]).ok();
    let told = ldb_with_input(
        &db,
        &["query", "--ttl", "--hex"],
        "get a\ncount\ncount --from=0x62\nput 0x64 0x34\nscan --from=0x63\ncount --by=1\n\nhelp\n",
    );
    let told = told.ok();
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].contains("Invalid hex input key 'a'"), "{told}");
    assert_eq!(lines[1..4], ["3", "2", "Successfully put 0x64 0x34"]);
    assert_eq!(lines[4..7], ["0x63 ==> 0x33", "0x64 ==> 0x34", "count gets invalid arguments"]);
    assert_eq!(lines[7], "get <key>");
    assert_eq!(ldb(&db, &["get", "d", "--ttl"]).ok(), "4\n");
}

#[test]
fn the_shell_keeps_bytes_that_are_not_utf8() {
    let temp = TempDir::new("ldb-query-bytes");
    let db = temp.join("db");
    ldb(&db, &["--create_if_missing", "--hex", "batchput", "0x6BFE", "0x31", "0x6BEFBFBD", "0x32"]).ok();
    let input = b"put k\xFF v\xFE\ndelete k\xFE\ncount --from=k\xF0\nget k\xF1\n";
    let told = ldb_with_input(&db, &["query"], input).ok();
    assert!(told.starts_with("Successfully put k") && told.ends_with("\n1\nNot found k\u{FFFD}\n"), "{told}");
    // U+FFFD, which stands for such bytes in text, is a key of its own.
    assert_eq!(ldb(&db, &["--hex", "scan"]).ok(), "0x6BEFBFBD : 0x32\n0x6BFF : 0x76FE\n");
}

#[test]
fn blob_files_are_printed_and_damage_is_named() {
    let temp = TempDir::new("blob-dump");
    let db = temp.join("db");
    copy(&golden("v7_8_blob"), &db);
    let file = files(&db, ".blob").remove(0);
    let flag = format!("--file={}", file.display());
    let dump = |more: &[&str]| crate::run::esker(&[&["blob_dump", &flag], more].concat());
    let shown = dump(&["--show_blob=detail", "--show_summary"]).ok();
    assert!(shown.starts_with("Blob log header:\n  Version          : 1\n"), "{shown}");
    assert!(shown.contains("\n  key        : key000000\n  blob       : "), "{shown}");
    assert!(shown.contains("\nSummary:\n  total records: "), "{shown}");
    let plain = crate::run::esker(&[
        "ldb",
        "dump",
        &format!("--path={}", file.display()),
        "--dump_uncompressed_blobs",
    ]);
    assert!(plain.ok().contains("\n  raw blob   : val0-"));
    assert!(!dump(&["--show_key=none"]).ok().contains("Read record"));
    assert_eq!(dump(&["--show_key=loud"]).code, Some(2));
    crate::run::flip(&file, 80);
    let told = dump(&[]).failed();
    assert!(told.contains(".blob, offset 30") && told.contains("checksum mismatch"), "{told}");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..40]).unwrap();
    assert!(dump(&[]).failed().contains("Reach the end of the file"));
    std::fs::write(&file, b"").unwrap();
    assert!(dump(&[]).failed().contains("File is empty"));
}
