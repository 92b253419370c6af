//! Esker and RocksDB's `ldb --ttl` write databases with TTL in turn.

use esker::{ColumnFamilyDescriptor, DbWithTtl, OpenMode, Options, ReadOptions, WriteBatch};
use esker_peer::{RocksDb, Tools, require};
use esker_testkit::TempDir;
use std::path::Path;

fn open(dir: &Path) -> DbWithTtl {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.cf.merge_operator = esker::builtin::merge_operator("stringappend");
    let families = vec![ColumnFamilyDescriptor::new("default", options.cf.clone())];
    DbWithTtl::open(&options.db, dir, families, &[3600], OpenMode::ReadWrite).expect("opens")
}

/// The output of `ldb --ttl`. Version 7.8.3 runs the command, and still complains of several
/// families if the database exists. The complaint is left out.
fn ldb(tools: Tools, dir: &Path, args: &[&str]) -> Vec<String> {
    let text = tools.ldb(dir, [args, &["--ttl"]].concat()).unwrap_or_else(|e| e);
    let complaint = "Failed: ldb doesn't support TTL DB with multiple column families";
    assert!(text.lines().all(|line| !line.starts_with("Failed") || line == complaint), "{text}");
    let is_output = |line: &&str| !line.starts_with('"') && *line != complaint;
    text.lines().filter(is_output).map(str::to_owned).collect()
}

#[test]
fn values_with_times_are_read_and_written_by_both() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("ttl");
    let db = open(dir.path());
    for i in 0..20 {
        db.put(format!("key{i:02}"), format!("of Esker {i}")).expect("written");
    }
    let family = db.base_db().default_column_family().id();
    for operand in ["a", "b"] {
        let mut batch = WriteBatch::new();
        batch.merge_cf(family, b"list", operand.as_bytes()).expect("taken");
        db.write(&batch).expect("written");
    }
    db.base_db().compact_range(None, None).expect("compacted");
    db.base_db().close().expect("closes");
    drop(db);
    assert_eq!(ldb(tools, dir.path(), &["get", "key07"]), ["of Esker 7"]);
    assert_eq!(ldb(tools, dir.path(), &["get", "list"]), ["a,b"]);
    let scanned = ldb(tools, dir.path(), &["scan"]);
    assert_eq!((scanned.len(), scanned[3].as_str()), (21, "key03 : of Esker 3"));
    // Despite the merge operator in the OPTIONS file, `ldb` and the library open the database.
    tools.ldb(dir.path(), ["scan"]).expect("as a plain database");
    if require("librocksdb 11.8", RocksDb::available()).is_some() {
        RocksDb::open_as_its_options_say(dir.path()).expect("as a plain database");
    }
    assert_eq!(ldb(tools, dir.path(), &["put", "key07", "of ldb"]), ["OK"]);
    assert_eq!(ldb(tools, dir.path(), &["batchput", "more1", "x", "more2", "y"]), ["OK"]);

    let db = open(dir.path());
    for (key, value) in [("key07", "of ldb"), ("key08", "of Esker 8"), ("more2", "y"), ("list", "a,b")] {
        assert_eq!(db.get(key).expect("read").as_deref(), Some(value.as_bytes()), "{key}");
    }
    db.base_db().compact_range(None, None).expect("compacted");
    let mut iter = db.iter_opt(ReadOptions::default(), &db.base_db().default_column_family()).expect("opens");
    iter.seek_to_first();
    let mut keys = 0;
    while iter.valid() {
        iter.value().expect("has a time");
        keys += 1;
        iter.next();
    }
    assert_eq!(keys, 23);
}
