//! The LOG: a directory of its own, and its head.

use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options};
use std::path::Path;
use std::sync::Arc;

/// The names are RocksDB's, so that several databases may have their LOG in one directory.
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

/// The text of the LOG. Another file may take its name meanwhile, and be shorter.
fn log_of(options: &Options, dir: &str) -> String {
    let (fs, path) = (&options.db.env.fs, Path::new(dir).join("LOG"));
    let mut bytes = vec![0; usize::try_from(fs.file_size(&path).unwrap()).unwrap()];
    let mut file = fs.new_sequential_file(&path).unwrap();
    let mut filled = 0;
    while filled < bytes.len() {
        let read = file.read(&mut bytes[filled..]).unwrap();
        if read == 0 {
            break;
        }
        filled += read;
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_log_begins_with_versions_files_and_options() {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.cf.ttl = 86_400;
    let db = Db::open(&options, "/db").unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    db.create_column_family("users", &options.cf.clone().num_levels(3)).unwrap();
    let log = log_of(&options, "/db");
    for part in [
        "Esker version: ",
        "RocksDB version: 7.8\n",
        "DB SUMMARY\n",
        "DB Session ID:  ",
        "CURRENT file:  CURRENT\n",
        "SST files in /db dir, Total Num: 1, files: ",
        "Options.create_if_missing: 1\n",
        "kZSTD supported: 1\n",
        "Fast CRC32 supported: ",
        "Jemalloc supported: 0\n",
        "Options for column family [default]:\n",
        "Options.ttl: 86400\n",
        "  format_version: 5\n",
        "Options for column family [users]:\n",
        "Options.num_levels: 3\n",
    ] {
        assert!(log.contains(part), "no {part:?} in\n{log}");
    }
}

#[test]
fn options_of_ten_families_are_written() {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    let db = Db::open(&options, "/db").unwrap();
    db.create_column_families((0..20).map(|n| format!("family {n}"))).unwrap();
    drop(db);
    let names = Db::list_column_families(&options.db, "/db").unwrap();
    let db = Db::open_cf(&options.db, "/db", names).unwrap();
    let log = log_of(&options, "/db");
    assert_eq!(log.matches("Options for column family").count(), 10);
    assert!(log.contains("(skipping printing options)"));
    drop(db);
}

/// Headers alone must not start another file.
#[test]
fn a_log_that_is_smaller_than_its_headers_is_rolled_by_what_follows() {
    let mut options = Options::new().create_if_missing(true);
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    options.db.max_log_file_size = 2000;
    let db = Db::open(&options, "/db").unwrap();
    let logs = || {
        let names = options.db.env.fs.children(Path::new("/db")).unwrap();
        names.iter().filter(|name| name.starts_with("LOG")).count()
    };
    let at_first = logs();
    for _ in 0..20 {
        db.put("k", "v").unwrap();
        db.flush().unwrap();
    }
    // Jobs write to the LOG, and roll it.
    db.wait_for_background_work().unwrap();
    let lines = log_of(&options, "/db").lines().count();
    assert!(at_first <= 2 && lines > 300, "{at_first} files, {lines} lines in the last");
    assert!((2..40).contains(&logs()), "{} files for 20 flushes", logs());
}
