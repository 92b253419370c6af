//! Directories and files that the user may not read or write. The child is no root, which may do
//! anything.

use super::{directory, run_in_child};
use esker::{Db, ErrorKind, Options};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Checks that the message of a refused opening says which file the user may not use. Returns the
/// message.
fn check_refused(opened: esker::Result<Db>, path: &Path) -> String {
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError, "{error}");
    let message = error.message();
    assert!(message.contains(&*path.to_string_lossy()), "{} is not in: {message}", path.display());
    assert!(message.contains("Permission denied"), "{message}");
    message.to_owned()
}

#[test]
fn an_opening_without_permission_says_so_and_names_the_file() {
    let Some(dir) = directory() else {
        return run_in_child("limits::permissions::an_opening_without_permission_says_so_and_names_the_file");
    };
    let mut options = Options::default();
    options.db.create_if_missing = true;
    let db = Db::open(&options, &dir).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let child = dir.join("child");
    set_mode(&dir, 0o555);
    check_refused(Db::open(&options, &child), &child);
    check_refused(Db::open(&options, &dir), &dir);
    set_mode(&dir, 0o000);
    for refused in [Db::open(&options, &dir), Db::open_for_read_only(&options, &dir)] {
        let message = check_refused(refused, &dir);
        assert!(!message.contains("LOCK"), "the user may not use the directory: {message}");
    }
    check_refused(Db::open(&options, &child), &child);
    set_mode(&dir, 0o755);
    for name in ["CURRENT", "LOCK"] {
        let file = dir.join(name);
        set_mode(&file, 0o000);
        check_refused(Db::open(&options, &dir), &file);
        set_mode(&file, 0o644);
    }
    assert_eq!(Db::open(&options, &dir).unwrap().get("key").unwrap().unwrap(), b"value");
}
