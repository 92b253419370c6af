//! Runs the binary and RocksDB's tools.

use esker_testkit::TempDir;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The result of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProgramResult {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl ProgramResult {
    fn from(output: Output) -> ProgramResult {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        ProgramResult { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The output of a program, which must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// The error message of a program, which must fail.
    #[track_caller]
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        self.err
    }
}

pub(crate) fn esker(arguments: &[&str]) -> ProgramResult {
    let output = Command::new(env!("CARGO_BIN_EXE_esker")).args(arguments).stdin(Stdio::null()).output();
    ProgramResult::from(output.expect("the binary runs"))
}

/// Runs `esker ldb --db=DB …`.
pub(crate) fn ldb(db: &Path, arguments: &[&str]) -> ProgramResult {
    let db = format!("--db={}", db.display());
    esker(&[&["ldb", &db], arguments].concat())
}

/// As [`ldb`], with `input` on standard input.
pub(crate) fn ldb_with_input(db: &Path, arguments: &[&str], input: impl AsRef<[u8]>) -> ProgramResult {
    let flag = format!("--db={}", db.display());
    with_input(env!("CARGO_BIN_EXE_esker"), &[&["ldb", &flag], arguments].concat(), input)
}

/// Runs a program with `input` on standard input.
pub(crate) fn with_input(program: &str, arguments: &[&str], input: impl AsRef<[u8]>) -> ProgramResult {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().expect("piped").write_all(input.as_ref()).expect("read");
    ProgramResult::from(child.wait_with_output().expect("ends"))
}

/// Runs one of RocksDB's tools. `None` if it is not installed and not required.
pub(crate) fn peer(tool: &str, arguments: &[&str]) -> Option<ProgramResult> {
    match Command::new(tool).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => Some(ProgramResult::from(output)),
        Err(e) => {
            let insisted = std::env::var_os("ESKER_REQUIRE_PEERS").is_some_and(|v| v == "1");
            assert!(!insisted, "{tool} is not installed: {e}");
            eprintln!("skipped: {tool} is not installed");
            None
        }
    }
}

/// A database in two families with deletions, a range delete, several tables and an unflushed WAL.
pub(crate) fn sample(temp: &TempDir) -> PathBuf {
    let db = temp.join("db");
    ldb(
        &db,
        &["--create_if_missing", "batchput", "a1", "one", "a2", "two", "a3", "three", "b1", "x", "b2", "y"],
    )
    .ok();
    ldb(&db, &["delete", "a2"]).ok();
    ldb(&db, &["deleterange", "b1", "b2"]).ok();
    ldb(&db, &["create_column_family", "cf1"]).ok();
    ldb(&db, &["--column_family=cf1", "batchput", "k", "v", "k2", "v2"]).ok();
    ldb(&db, &["compact"]).ok();
    ldb(&db, &["--hex", "put", "0x6331", "0x00ff10"]).ok();
    db
}

/// A golden database of RocksDB, which tests must not change.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name).join("db")
}

/// A copy of a database's directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Files of a directory whose names end with `suffix`, by name.
pub(crate) fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(suffix))
        .collect();
    found.sort();
    found
}

/// Changes a byte of a file.
pub(crate) fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}
