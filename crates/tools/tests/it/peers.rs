//! Runs the same commands by RocksDB's tools and by Esker's, on databases of both. Outputs and exit
//! codes must be equal. Skipped where the tools are not installed; `ESKER_REQUIRE_PEERS=1` makes
//! that a failure.

use crate::run::{Done, copy, esker, files, golden, ldb, peer, sample};
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
fn both(db: &Path, tool: &str, arguments: &dyn Fn(&Path) -> Vec<String>) -> Option<(Done, Done)> {
    let copy_path = db.with_extension("copy");
    let run = |program: &dyn Fn(&[&str]) -> Option<Done>| {
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
        assert_eq!((ours.code, &ours.out), (theirs.code, &theirs.out), "{command:?}: {}", ours.err);
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
