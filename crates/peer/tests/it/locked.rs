//! A database is open for writing in one process only, whichever engine that runs. RocksDB 11.8.1
//! runs in a child: this test binary again.

use crate::peer_process::{db_options, open_esker, small_files};
use esker::options::CompressionType;
use esker_peer::{ModelOps, RocksDb, Tools, require};
use esker_testkit::TempDir;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const DIRECTORY: &str = "ESKER_PEER_LOCKED_DIRECTORY";
/// The words before the outcome of the child's open, in its output.
const OUTCOME: &str = "RocksDB 11.8.1: ";
const OPEN: &str = "open";

/// The work of the child process; not a test of its own. It keeps the database open until its
/// standard input ends.
#[test]
fn rocksdb_owns_the_database_in_a_child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let opened = RocksDb::open(Path::new(&dir), "", &ModelOps::new(&[]).specs(""));
    println!("{OUTCOME}{}", opened.as_ref().map_or_else(String::as_str, |_| OPEN));
    std::io::stdin().read_to_end(&mut Vec::new()).expect("read");
}

/// A child that has opened the database with RocksDB 11.8.1, or has failed to. A drop ends it.
struct RocksProcess {
    child: Child,
    outcome: String,
    /// Takes the rest of the output.
    _output: BufReader<ChildStdout>,
}

impl RocksProcess {
    fn open(dir: &Path) -> RocksProcess {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "locked::rocksdb_owns_the_database_in_a_child", "--nocapture"])
            .env(DIRECTORY, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = output.by_ref().lines().map(|line| line.expect("text"));
        let outcome = lines.find_map(|line| Some(line.split_once(OUTCOME)?.1.to_owned()));
        let outcome = outcome.expect("the child tells how its open ended");
        RocksProcess { child, outcome, _output: output }
    }
}

impl Drop for RocksProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

/// Reads the LOCK file. In the owner's process, this ends a record lock of `fcntl`.
fn read_lock_file(dir: &Path) {
    drop(std::fs::read(dir.join("LOCK")).expect("it is there"));
}

#[test]
fn esker_keeps_rocksdb_11_out() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let dir = TempDir::new("locked");
    let db = open_esker(dir.path(), &ModelOps::new(&[]), &small_files(CompressionType::Lz4)).expect("opens");
    read_lock_file(dir.path());
    let refused = RocksProcess::open(dir.path()).outcome.to_lowercase();
    assert!(refused.contains("while lock file"), "{refused}");
    db.close().expect("closes");
    assert_eq!(RocksProcess::open(dir.path()).outcome, OPEN);
}

#[test]
fn rocksdb_11_keeps_esker_out() {
    if require("librocksdb 11.8", RocksDb::available()).is_none() {
        return;
    }
    let (dir, model) = (TempDir::new("locked"), ModelOps::new(&[]));
    let open = || open_esker(dir.path(), &model, &small_files(CompressionType::Lz4));
    open().expect("opens").close().expect("closes");
    let owner = RocksProcess::open(dir.path());
    assert_eq!(owner.outcome, OPEN);
    read_lock_file(dir.path());
    for _ in 0..2 {
        let error = open().expect_err("RocksDB has it").to_string();
        assert!(error.contains("LOCK"), "{error}");
    }
    drop(owner);
    open().expect("it is free");
}

#[test]
fn esker_keeps_rocksdb_out() {
    let Some(tools) = require("ldb 7.8", Tools::find()) else { return };
    let dir = TempDir::new("locked");
    let model = ModelOps::new(&[]);
    let db = open_esker(dir.path(), &model, &small_files(CompressionType::Lz4)).expect("opens");
    read_lock_file(dir.path());
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
    read_lock_file(dir.path());
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
