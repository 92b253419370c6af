//! Features of RocksDB that Esker does not read are refused by name.

use esker::{Db, ErrorKind, Options};
use esker_peer::require;
use esker_testkit::TempDir;
use std::path::Path;
use std::process::Command;

/// Fills a database with RocksDB's `db_bench`.
fn fill(db: &Path, flags: &[&str]) -> Result<(), String> {
    let done = Command::new("db_bench")
        .args(["--benchmarks=fillseq,flush", "--num=200", "--mmap_read=1", "--compression_type=none"])
        .arg(format!("--db={}", db.display()))
        .args(flags)
        .output()
        .map_err(|e| format!("db_bench: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

#[test]
fn plain_and_cuckoo_tables_are_refused_by_name() {
    for (flags, name) in [
        (&["--use_plain_table=1", "--prefix_size=8"][..], "plain table"),
        (&["--use_cuckoo_table=1"], "cuckoo table"),
    ] {
        let dir = TempDir::new("refused");
        if require("db_bench 7.8", fill(dir.path(), flags)).is_none() {
            return;
        }
        let has_table = || {
            let mut files = std::fs::read_dir(dir.path()).expect("a directory");
            files.any(|file| file.expect("readable").path().extension().is_some_and(|e| e == "sst"))
        };
        assert!(has_table(), "{name}");
        // Opened with all of its tables, and one by one.
        let mut options = Options::default();
        let error = Db::open(&options, dir.path()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().contains(name) && error.message().contains(".sst"), "{error}");
        options.db.max_open_files = 100;
        let found = Db::open(&options, dir.path()).and_then(|db| {
            let mut iter = db.iter()?;
            iter.seek_to_first();
            iter.status()
        });
        let error = found.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        assert!(error.message().contains(name), "{error}");
        assert!(has_table(), "no table is deleted");
    }
}
