//! The LOG in a directory of its own.

use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options};
use std::path::Path;
use std::sync::Arc;

/// As RocksDB names them: several databases may have theirs in one directory.
#[test]
fn logs_in_a_directory_of_their_own_have_the_databases_name() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.keep_log_file_num = 2;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.db_log_dir = Some("/logs".into());
    let fs = options.db.env.fs.clone();
    let logs = |of: &str| {
        let mut names = fs.children(Path::new("/logs")).unwrap();
        names.retain(|name| name.starts_with(of));
        names.sort();
        names
    };
    let open = |path: &str| Db::open(&options, path).unwrap().close().unwrap();
    open("/data/first");
    open("/data/second-db");
    assert_eq!(logs(""), ["data_first_LOG", "data_second-db_LOG"]);
    for _ in 0..4 {
        open("/data/second-db");
    }
    assert_eq!(logs("data_first"), ["data_first_LOG"]);
    let of_second = logs("data_second");
    assert_eq!(of_second.len(), 2, "keep_log_file_num: {of_second:?}");
    assert!(of_second[1].starts_with("data_second-db_LOG.old."), "{of_second:?}");
    assert!(!fs.children(Path::new("/data/first")).unwrap().iter().any(|name| name.contains("LOG")));

    fs.new_writable_file(Path::new("/logs/LOG")).unwrap().close().unwrap();
    esker::destroy_db(&options.db, "/data/second-db").unwrap();
    assert_eq!(logs(""), ["LOG", "data_first_LOG"]);
    assert!(!fs.file_exists(Path::new("/data/second-db")).unwrap());
}

#[test]
fn a_long_path_has_a_log_too() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.db_log_dir = Some("/logs".into());
    let path = format!("/{}/{}/db", "a".repeat(200), "b".repeat(200));
    options.db.env.fs.create_dir_if_missing(format!("/{}", "a".repeat(200)).as_ref()).unwrap();
    options.db.env.fs.create_dir_if_missing(Path::new(&path).parent().unwrap()).unwrap();
    for _ in 0..2 {
        Db::open(&options, &path).unwrap().close().unwrap();
    }
    for name in options.db.env.fs.children(Path::new("/logs")).unwrap() {
        assert!(name.len() <= 255, "{name}");
    }
}
