//! Runs the same commands by RocksDB's tools and by Esker's, on databases of both. Outputs and exit
//! codes must be equal. Skipped where the tools are not installed; `ESKER_REQUIRE_PEERS=1` makes
//! that a failure.

use crate::run::{ProgramResult, copy, esker, files, golden, ldb, ldb_with_input, peer, sample};
use esker_testkit::TempDir;
use std::path::{Path, PathBuf};

/// The database of `sample`, made by RocksDB's tool.
fn rocksdb_sample(temp: &TempDir) -> Option<PathBuf> {
    let db = temp.join("rocksdb");
    let flag = format!("--db={}", db.display());
    for arguments in [
        &["--create_if_missing", "batchput", "a1", "one", "a2", "two", "a3", "three", "b1", "x", "b2", "y"][..],
        &["delete", "a2"],
        &["deleterange", "b1", "b2"],
        &["create_column_family", "cf1"],
        &["--column_family=cf1", "batchput", "k", "v", "k2", "v2"],
        &["compact"],
        &["put", "d1", "later"],
        &["--column_family=cf1", "deleterange", "k", "k1"],
    ] {
        peer("ldb", &[&[flag.as_str()], arguments].concat())?.ok();
    }
    Some(db)
}

/// Runs a command by both tools, each on its own copy, at the same path.
fn both(
    db: &Path,
    tool: &str,
    arguments: &dyn Fn(&Path) -> Vec<String>,
) -> Option<(ProgramResult, ProgramResult)> {
    let copy_path = db.with_extension("copy");
    let run = |program: &dyn Fn(&[&str]) -> Option<ProgramResult>| {
        copy(db, &copy_path);
        let owned = arguments(&copy_path);
        let done = program(&owned.iter().map(String::as_str).collect::<Vec<_>>());
        std::fs::remove_dir_all(&copy_path).unwrap();
        done
    };
    let theirs = run(&|a| peer(tool, a))?;
    let ours = run(&|a| Some(esker(&[&[tool], a].concat())))?;
    Some((theirs, ours))
}

/// Commands whose output must be equal byte for byte, apart from error messages.
const LDB: &[&[&str]] = &[
    &["get", "a1"],
    &["get", "a2"],
    &["get", "0x6131", "--hex"],
    &["scan"],
    &["scan", "--hex"],
    &["scan", "--no_value"],
    &["scan", "--from=a2", "--to=c"],
    &["scan", "--max_keys=2"],
    &["scan", "--key_hex", "--from=0x6132"],
    &["--column_family=cf1", "scan"],
    &["--column_family=nope", "scan"],
    &["dump"],
    &["dump", "--hex"],
    &["dump", "--count_only"],
    &["dump", "--max_keys=1"],
    &["idump"],
    &["idump", "--hex"],
    &["idump", "--count_only"],
    &["idump", "--from=a3", "--to=d"],
    &["idump", "--count_delim=2"],
    &["dump", "--count_delim"],
    &["dump", "--count_delim=2"],
    &["dump", "--count_delim=1", "--count_only"],
    &["dump_live_files"],
    &["reduce_levels"],
    &["reduce_levels", "--new_levels=1"],
    &["change_compaction_style"],
    &["change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=0"],
    &["change_compaction_style", "--old_compaction_style=1", "--new_compaction_style=0"],
    &["update_manifest"],
    &["update_manifest", "--update_temperatures"],
    &["unsafe_remove_sst_file"],
    &["unsafe_remove_sst_file", "nope"],
    &["unsafe_remove_sst_file", "777777"],
    &["list_column_families"],
    &["create_column_family", "new"],
    &["create_column_family", "cf1"],
    &["drop_column_family", "cf1"],
    &["drop_column_family", "nope"],
    &["checkconsistency"],
    &["compact"],
    &["approxsize", "--from=a", "--to=z"],
    &["approxsize"],
    &["get_property", "rocksdb.num-files-at-level0"],
    &["get_property", "rocksdb.levelstats"],
    &["get_property", "rocksdb.estimate-num-keys"],
    &["get_property", "rocksdb.aggregated-table-properties"],
    &["get_property", "nope"],
    &["put", "q", "r"],
    &["batchput", "a", "b", "c", "d"],
    &["batchput", "a"],
    &["delete", "x"],
    &["deleterange", "a", "b"],
    &["list_live_files_metadata"],
    &["list_live_files_metadata", "--sort_by_filename"],
    &["manifest_dump"],
    &["manifest_dump", "--verbose"],
    &["manifest_dump", "--hex"],
];

/// Whether RocksDB prints this line of the aggregated properties since 11 only.
fn is_newer(line: &str) -> bool {
    let names = ["compression_rejected", "compression_bypassed", "num_uniform_blocks"];
    line.starts_with("rocksdb.aggregated-table-properties") && names.iter().any(|name| line.contains(name))
}

#[test]
fn ldb_prints_what_rocksdbs_prints_of_rocksdbs_database() {
    let temp = TempDir::new("peers-ldb");
    let Some(db) = rocksdb_sample(&temp) else { return };
    for command in LDB {
        let arguments = |path: &Path| {
            let flag = format!("--db={}", path.display());
            std::iter::once(flag).chain(command.iter().map(|a| (*a).to_owned())).collect()
        };
        let Some((theirs, ours)) = both(&db, "ldb", &arguments) else { return };
        let ours_then: String = ours.out.split_inclusive('\n').filter(|line| !is_newer(line)).collect();
        assert_eq!((ours.code, &ours_then), (theirs.code, &theirs.out), "{command:?}: {}", ours.err);
    }
    for wal in files(&db, ".log") {
        let name = wal.file_name().unwrap().to_str().unwrap().to_owned();
        for flags in [&[][..], &["--header"], &["--header", "--print_value"]] {
            let arguments = |path: &Path| {
                let flag = format!("--walfile={}", path.join(&name).display());
                ["dump_wal".to_owned(), flag]
                    .into_iter()
                    .chain(flags.iter().map(|f| (*f).to_owned()))
                    .collect()
            };
            let Some((theirs, ours)) = both(&db, "ldb", &arguments) else { return };
            assert_eq!(ours, theirs, "dump_wal {flags:?}");
        }
    }
}

#[test]
fn single_files_are_dumped_as_by_rocksdbs() {
    let temp = TempDir::new("peers-files");
    let Some(db) = rocksdb_sample(&temp) else { return };
    let blobs = golden("v7_8_blob");
    let mut seen = 0;
    for (db, suffix) in [(&db, ".sst"), (&db, ".log"), (&db, ""), (&blobs, ".blob")] {
        let names = files(db, suffix).into_iter().map(|file| file.file_name().unwrap().to_owned());
        let wanted =
            |name: &std::ffi::OsString| !suffix.is_empty() || name.to_str().unwrap().starts_with("MANIFEST");
        for name in names.filter(wanted) {
            // RocksDB's tool prints no decompressed values of a blob file without compression.
            for flags in [&[][..], &["--hex"]] {
                let arguments = |path: &Path| {
                    let flag = format!("--path={}", path.join(&name).display());
                    ["dump".to_owned(), flag]
                        .into_iter()
                        .chain(flags.iter().map(|f| (*f).to_owned()))
                        .collect()
                };
                let Some((theirs, ours)) = both(db, "ldb", &arguments) else { return };
                assert_eq!(ours, theirs, "{name:?} {flags:?}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn times_and_buckets_of_values_are_those_of_rocksdbs() {
    let temp = TempDir::new("peers-ttl");
    let db = temp.join("ttl");
    let flag = format!("--db={}", db.display());
    // RocksDB 7.8.3's tool fails after each command with `--ttl`, which it carries out.
    let make = [&flag, "--create_if_missing", "--ttl", "batchput", "a", "1", "b", "2"];
    if peer("ldb", &make).is_none() {
        return;
    }
    for command in [
        &["dump", "--ttl", "--timestamp"][..],
        &["dump", "--ttl", "--bucket=100000000"],
        &["dump", "--ttl", "--bucket=100000000", "--count_only"],
        &["dump", "--ttl", "--start_time=1700000000", "--end_time=1700000050", "--bucket=20"],
        &["dump", "--ttl", "--start_time=1400000000", "--end_time=1400000000"],
        &["dump", "--ttl", "--count_delim=x", "--timestamp"],
        &["scan", "--ttl", "--timestamp"],
        &["scan", "--ttl", "--timestamp", "--no_value", "--end_time=1400000000"],
    ] {
        let arguments = |path: &Path| {
            let flag = format!("--db={}", path.display());
            std::iter::once(flag).chain(command.iter().map(|a| (*a).to_owned())).collect()
        };
        let Some((theirs, ours)) = both(&db, "ldb", &arguments) else { return };
        assert_eq!((ours.code, ours.out), (Some(0), theirs.out), "{command:?}: {}", ours.err);
    }
}

#[test]
fn the_shell_answers_as_rocksdbs() {
    let temp = TempDir::new("peers-query");
    let Some(db) = rocksdb_sample(&temp) else { return };
    let commands = b"get a1\nput a1 new\nget a1\ndelete a3\nput a\xFF \xFE\nput a b c\nfoo\nget\nget zz\n";
    let flag = format!("--db={}", db.display());
    let copy_path = temp.join("query");
    copy(&db, &copy_path);
    // RocksDB's shell ends at the first key that it does not find, and prints nothing for empty
    // lines.
    let theirs = crate::run::with_input("ldb", &[&flag, "query"], commands).out;
    let ours = ldb_with_input(&copy_path, &["query"], commands).ok();
    assert_eq!(ours, theirs);
    assert_eq!(ldb(&copy_path, &["scan", "--hex"]), ldb(&db, &["scan", "--hex"]));
}

/// `text` without the line that has an address in memory.
fn without_address(text: &str) -> String {
    text.lines().filter(|l| !l.starts_with("options.env is ")).map(|l| l.to_owned() + "\n").collect()
}

#[test]
fn sst_dump_prints_what_rocksdbs_prints() {
    let temp = TempDir::new("peers-sst-dump");
    let Some(theirs) = rocksdb_sample(&temp) else { return };
    for db in [theirs, sample(&temp)] {
        for table in files(&db, ".sst") {
            let name = table.file_name().unwrap().to_str().unwrap().to_owned();
            for command in [
                &["--command=scan"][..],
                &["--command=scan", "--output_hex"],
                &["--command=scan", "--from=a2", "--to=b2"],
                &["--command=scan", "--read_num=1"],
                &["--command=check", "--show_properties"],
                &["--command=verify"],
                &["--command=identify"],
                &["--command=check", "--show_summary"],
            ] {
                let arguments = |path: &Path| {
                    let flag = format!("--file={}", path.join(&name).display());
                    std::iter::once(flag).chain(command.iter().map(|a| (*a).to_owned())).collect()
                };
                let Some((theirs, ours)) = both(&db, "sst_dump", &arguments) else { return };
                assert_eq!((ours.code, ours.out), (theirs.code, without_address(&theirs.out)), "{command:?}");
            }
        }
    }
}

#[test]
fn recompressed_sizes_have_the_lines_of_rocksdbs_tool() {
    let temp = TempDir::new("peers-recompress");
    let Some(db) = rocksdb_sample(&temp) else { return };
    let name = files(&db, ".sst").remove(0).file_name().unwrap().to_str().unwrap().to_owned();
    let types = "--compression_types=kNoCompression,kSnappyCompression,kLZ4Compression,kZSTD";
    for flags in [
        &[types][..],
        &["--compression_types=kZSTD", "--compression_level_from=1", "--compression_level_to=2"],
    ] {
        let arguments = |path: &Path| {
            let flag = format!("--file={}", path.join(&name).display());
            let fixed = [flag, "--command=recompress".to_owned()].into_iter();
            fixed.chain(flags.iter().map(|f| (*f).to_owned())).collect()
        };
        let Some((theirs, ours)) = both(&db, "sst_dump", &arguments) else { return };
        // Sizes, times and what a codec saves depend on the engine.
        let masked = |text: &str| -> Vec<String> {
            let line = |line: &str| line.split_once(" Size: ").map_or(line, |(head, _)| head).to_owned();
            without_address(text).lines().map(line).collect()
        };
        assert_eq!((ours.code, masked(&ours.out)), (theirs.code, masked(&theirs.out)));
        let words = |text: &str| -> String {
            let letters = text.lines().rfind(|line| line.contains(" Size: ")).unwrap().chars();
            letters.filter(|c| c.is_alphabetic() || *c == ':' || *c == '(').collect()
        };
        assert_eq!(words(&ours.out), words(&theirs.out));
    }
}

#[test]
fn raw_dumps_are_equal() {
    let temp = TempDir::new("peers-raw");
    let Some(db) = rocksdb_sample(&temp) else { return };
    let goldens =
        ["range_del", "range_del_only_sst", "dict_lz4", "index_first_key", "udt_u64", "partitioned"];
    let copies = goldens.map(|name| {
        copy(&golden(&format!("v7_8_{name}")), &temp.join(name));
        temp.join(name)
    });
    for table in copies.iter().chain([&db]).flat_map(|db| files(db, ".sst")) {
        let db = table.parent().unwrap().to_owned();
        let flag = format!("--file={}", table.display());
        let dump = || {
            let path = files(&db, "_dump.txt").remove(0);
            let text = std::fs::read(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            text.escape_ascii().to_string()
        };
        let Some(done) = peer("sst_dump", &[&flag, "--command=raw"]) else { return };
        done.ok();
        let theirs = dump();
        esker(&["sst_dump", &flag, "--command=raw"]).ok();
        assert_eq!(dump(), theirs);
    }
}

#[test]
fn rocksdbs_tools_read_what_ours_wrote() {
    let temp = TempDir::new("peers-ours");
    let db = sample(&temp);
    let flag = format!("--db={}", db.display());
    for command in [&["scan", "--hex"][..], &["--column_family=cf1", "scan"], &["checkconsistency"]] {
        let ours = ldb(&db, command);
        let Some(theirs) = peer("ldb", &[&[flag.as_str()], command].concat()) else { return };
        assert_eq!((ours.code, ours.out), (theirs.code, theirs.out), "{command:?}: {}", theirs.err);
    }
}
