//! The LOCK file between processes. The other process is this test binary started again, or
//! RocksDB's `ldb`.

use super::temp_dir::TempDir;
use esker_env::forked::fork;
use esker_env::{FileSystem, PosixFileSystem};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const PATH_VARIABLE: &str = "ESKER_TEST_LOCK_PATH";

/// No test of its own: the work of the child, if there is a path to lock.
#[test]
fn lock_in_a_child() {
    let Some(path) = std::env::var_os(PATH_VARIABLE) else { return };
    match PosixFileSystem.lock_file(Path::new(&path)) {
        Ok(_) => println!("child: locked"),
        Err(e) => println!("child: {e}"),
    }
}

fn child(path: &Path) -> String {
    let Output { stdout, status, .. } = esker_testkit::this_program()
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
    // A refused attempt of this process must not release the lock by closing the file.
    assert!(PosixFileSystem.lock_file(&path).is_err());
    assert!(child(&path).starts_with(&refusal));
    // An attempt through another name of the file must not release the lock either.
    let link = dir.path().join("LINK");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(PosixFileSystem.lock_file(&link).is_err());
    assert!(child(&path).starts_with(&refusal));
    // The message names the process that has it.
    let process = std::process::id();
    assert!(child(&path).contains(&format!("process {process} (")), "{}", child(&path));
    // Reading the file must not release the lock.
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), process.to_string());
    assert!(child(&path).starts_with(&refusal), "after the file was read: {}", child(&path));
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
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let is_required = std::env::var_os("ESKER_REQUIRE_PEERS").is_some_and(|v| v != "0");
            assert!(!is_required, "ldb is required (ESKER_REQUIRE_PEERS), but there is none");
            return println!("SKIPPED: there is no ldb");
        }
        made => assert!(made.unwrap().status.success()),
    }
    let lock = PosixFileSystem.lock_file(&dir.path().join("LOCK")).unwrap();
    drop(std::fs::read(dir.path().join("LOCK")).unwrap());
    let refused = put().unwrap();
    let words =
        format!("{}{}", String::from_utf8_lossy(&refused.stdout), String::from_utf8_lossy(&refused.stderr));
    assert!(!refused.status.success() && words.contains("While lock file"), "{words}");
    drop(lock);
    assert!(put().unwrap().status.success());
}

#[test]
fn forked_children_neither_keep_a_lock_nor_give_it_away() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let dir = TempDir::new();
    let path = dir.path().join("LOCK");
    let lock = PosixFileSystem.lock_file(&path).unwrap();
    let inherited = &lock;
    let mut short = fork(|| {
        // For the child, another process has the lock.
        let refused = PosixFileSystem.lock_file(&path).map(drop).unwrap_err().to_string();
        let parent = std::os::unix::process::parent_id();
        u8::from(!refused.contains(&format!("process {parent} (")) || refused.contains("current process"))
    })
    .unwrap();
    assert_eq!(short.wait(PATIENCE), Some(0));
    _ = inherited;
    assert!(child(&path).contains("temporarily unavailable"), "the end of the child has unlocked nothing");
    let idle = || {
        std::thread::sleep(PATIENCE);
        0
    };
    let mut long = fork(idle).unwrap();
    drop(lock);
    assert_eq!(child(&path), "child: locked", "the lock is released although a child lives");
    long.kill();

    // The process that has the lock dies, and a child of it lives on.
    let mut holder = fork(|| {
        let lock = PosixFileSystem.lock_file(&path);
        let orphan = fork(idle);
        std::mem::forget(orphan);
        u8::from(lock.is_err())
    })
    .unwrap();
    assert_eq!(holder.wait(PATIENCE), Some(0));
    assert_eq!(child(&path), "child: locked");
}
