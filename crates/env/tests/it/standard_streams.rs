//! A process without standard input, output or error: no file of a database takes their numbers.

use crate::temp_dir::TempDir;
use esker_env::{FileSystem, PosixFileSystem};
use std::any::Any;
use std::path::Path;

/// The ways to open something. Each value keeps it open.
fn opened(fs: &dyn FileSystem, dir: &Path) -> Vec<(&'static str, Box<dyn Any>)> {
    let there = dir.join("there");
    let path = |name: &str| dir.join(name);
    vec![
        ("new_writable_file", Box::new(fs.new_writable_file(&there).unwrap())),
        ("create_writable_file", Box::new(fs.create_writable_file(&path("created")).unwrap())),
        ("reopen_writable_file", Box::new(fs.reopen_writable_file(&there).unwrap())),
        ("new_sequential_file", Box::new(fs.new_sequential_file(&there).unwrap())),
        ("new_random_access_file", Box::new(fs.new_random_access_file(&there).unwrap())),
        ("reuse_writable_file", Box::new(fs.reuse_writable_file(&path("reused"), &there).unwrap())),
        ("new_directory", Box::new(fs.new_directory(dir).unwrap())),
        ("hold_directories", Box::new(fs.hold_directories(&[dir]).unwrap())),
        ("lock_file", Box::new(fs.lock_file(&path("LOCK")).unwrap())),
    ]
}

/// Other tests of a process would take the number of the closed stream, so this one runs alone.
#[test]
fn no_file_takes_the_number_of_a_closed_standard_stream() {
    if !esker_testkit::runs_alone("standard_streams::no_file_takes_the_number_of_a_closed_standard_stream") {
        return;
    }
    let dir = TempDir::new();
    // SAFETY: nothing in this process owns or reads standard input.
    let closed = unsafe { libc::close(0) };
    assert_eq!(closed, 0);
    for (what, file) in opened(&PosixFileSystem, dir.path()) {
        let taken = std::fs::read_link("/proc/self/fd/0");
        assert!(taken.is_err(), "{what} or one before it has number 0: {taken:?}");
        drop(file);
    }
}
