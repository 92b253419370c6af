//! The LOCK file between processes. The other process is this test binary started again, or RocksDB's `ldb`.

use super::temp_dir::TempDir;
use esker_env::{FileSystem, PosixFileSystem};
use std::path::Path;
use std::process::{Command, Output};

const PATH_VARIABLE: &str = "ESKER_TEST_LOCK_PATH";

/// Not a test of its own: what the child does, when there is a path to lock.
#[test]
fn lock_in_a_child() {
    let Some(path) = std::env::var_os(PATH_VARIABLE) else { return };
    match PosixFileSystem.lock_file(Path::new(&path)) {
        Ok(_) => println!("child: locked"),
        Err(e) => println!("child: {e}"),
    }
}

fn child(path: &Path) -> String {
    let Output { stdout, status, .. } = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "locks::lock_in_a_child", "--nocapture"])
        .env(PATH_VARIABLE, path)
        .output()
        .unwrap();
    assert!(status.success());
    let stdout = String::from_utf8(stdout).unwrap();
    let from = stdout.find("child: ").unwrap_or_else(|| panic!("{stdout}"));
    stdout[from..].lines().next().unwrap().to_owned()
}

#[test]
fn another_process_is_kept_out_until_the_lock_goes() {
    let dir = TempDir::new();
    let path = dir.path().join("LOCK");
    let lock = PosixFileSystem.lock_file(&path).unwrap();
    let refusal =
        format!("child: IO error: While lock file: {}: Resource temporarily unavailable", path.display());
    assert!(child(&path).starts_with(&refusal), "{}", child(&path));
    // A refused attempt of our own must not give the lock away by closing the file.
    assert!(PosixFileSystem.lock_file(&path).is_err());
    assert!(child(&path).starts_with(&refusal));
    // Nor under another name.
    let link = dir.path().join("LINK");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(PosixFileSystem.lock_file(&link).is_err());
    assert!(child(&path).starts_with(&refusal));
    drop(lock);
    assert_eq!(child(&path), "child: locked");
    drop(PosixFileSystem.lock_file(&path).unwrap());
}

#[test]
fn a_lock_file_that_was_removed_still_locks_its_path() {
    let dir = TempDir::new();
    let path = dir.path().join("LOCK");
    let lock = PosixFileSystem.lock_file(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(PosixFileSystem.lock_file(&path).is_err());
    drop(lock);
    drop(PosixFileSystem.lock_file(&path).unwrap());
}

#[test]
fn rocksdb_is_kept_out() {
    let dir = TempDir::new();
    let db = format!("--db={}", dir.path().display());
    let put = || Command::new("ldb").args([&db, "--create_if_missing", "put", "k", "v"]).output();
    match put() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return println!("no ldb here: skipped"),
        made => assert!(made.unwrap().status.success()),
    }
    let lock = PosixFileSystem.lock_file(&dir.path().join("LOCK")).unwrap();
    let refused = put().unwrap();
    let words =
        format!("{}{}", String::from_utf8_lossy(&refused.stdout), String::from_utf8_lossy(&refused.stderr));
    assert!(!refused.status.success() && words.contains("While lock file"), "{words}");
    drop(lock);
    assert!(put().unwrap().status.success());
}
