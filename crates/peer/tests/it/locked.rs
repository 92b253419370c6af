//! A database is open for writing in one process only, whichever engine that runs.

use crate::peer_process::{db_options, open_esker, small_files};
use esker::options::CompressionType;
use esker_peer::{ModelOps, Tools, require};
use esker_testkit::TempDir;
use std::io::Write;
use std::process::{Child, Command, Stdio};

#[test]
fn esker_keeps_rocksdb_out() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("locked");
    let model = ModelOps::new(&[]);
    let db = open_esker(dir.path(), &model, &small_files(CompressionType::Lz4)).expect("opens");
    let error = tools.ldb(dir.path(), ["put", "key", "value"]).expect_err("Esker has it");
    assert!(error.to_lowercase().contains("lock"), "{error}");
    db.close().expect("closes");
    tools.ldb(dir.path(), ["put", "key", "value"]).expect("it is free");
}

#[test]
fn rocksdb_keeps_esker_out() {
    if require("ldb 7.8", Tools::find()).is_none() {
        return;
    }
    let dir = TempDir::new("locked");
    let model = ModelOps::new(&[]);
    let options = small_files(CompressionType::Lz4);
    open_esker(dir.path(), &model, &options).expect("opens").close().expect("closes");
    // `query` reads commands until its input ends, with the database open.
    let mut ldb = Command::new("ldb")
        .arg(format!("--db={}", dir.path().display()))
        .arg("query")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("ldb");
    let mut input = ldb.stdin.take().expect("piped");
    wait_for_lock(&mut ldb);
    let error = open_esker(dir.path(), &model, &options).expect_err("RocksDB has it");
    assert!(error.to_string().contains("LOCK"), "{error}");
    input.write_all(b"put key value\n").expect("written");
    drop(input);
    assert!(ldb.wait().expect("ended").success());
    let db = esker::Db::open_cf(&db_options(), dir.path(), model.descriptors(&options)).expect("it is free");
    assert_eq!(db.get("key").expect("read").as_deref(), Some(&b"value"[..]));
}

/// Waits until `process` holds a lock. The process prints nothing before it ends, and a try at the
/// lock could keep it from getting it.
fn wait_for_lock(process: &mut Child) {
    let pid = process.id().to_string();
    let holds = |locks: String| locks.lines().any(|line| line.split_whitespace().any(|field| field == pid));
    while !std::fs::read_to_string("/proc/locks").is_ok_and(holds) {
        assert!(process.try_wait().expect("asked").is_none(), "ldb ended");
        std::thread::yield_now();
    }
}
