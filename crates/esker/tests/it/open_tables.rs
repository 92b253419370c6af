//! Tables are opened with the database and before the MANIFEST names them.

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::{Db, Env, Options};
use std::path::Path;
use std::sync::Arc;

fn database(fs: &Arc<MemFs>) -> (Options, Db) {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    (options, db)
}

fn overwrite_end(fs: &MemFs, path: &Path) {
    let size = usize::try_from(fs.file_size(path).unwrap()).unwrap();
    let mut bytes = vec![0; size];
    assert_eq!(fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap(), size);
    bytes[size - 53..].fill(0xAB);
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    file.close().unwrap();
}

#[test]
fn a_damaged_table_fails_the_open_by_name_unless_checks_are_off() {
    let fs = Arc::new(MemFs::new());
    let (mut options, db) = database(&fs);
    for i in 0..3 {
        db.put(format!("key{i}"), "value").unwrap();
        db.flush().unwrap();
    }
    let victim = db.live_files().into_iter().find(|f| f.file.smallest_key == b"key1").unwrap();
    drop(db);
    overwrite_end(&fs, &victim.file.directory.join(&victim.file.relative_filename));
    let error = Db::open(&options, "/db").unwrap_err();
    assert!(error.to_string().contains(&victim.file.relative_filename), "{error}");

    options.db.paranoid_checks = false;
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("key2").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(db.get("key1").is_err());
    drop(db);

    options.db.paranoid_checks = true;
    options.db.max_open_files = 100;
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(
        db.get("key0").unwrap().as_deref(),
        Some(&b"value"[..]),
        "tables are opened when they are read"
    );
}

#[test]
fn live_files_say_what_is_in_each_table() {
    let fs = Arc::new(MemFs::new());
    let (options, db) = database(&fs);
    let other = db.create_column_family("other", &options.cf).unwrap();
    for key in ["b", "d", "c"] {
        db.put(key, "value").unwrap();
    }
    db.delete("a").unwrap();
    db.put_cf(&other, "x", "y").unwrap();
    db.flush_opt(&Default::default(), &[&db.default_column_family(), &other]).unwrap();
    let files = db.live_files();
    assert_eq!(files.len(), 2);
    let first = &files[0];
    assert_eq!((first.column_family_name.as_str(), first.level), ("default", 0));
    assert_eq!((&first.file.smallest_key[..], &first.file.largest_key[..]), (&b"a"[..], &b"d"[..]));
    assert_eq!((first.file.num_entries, first.file.num_deletions), (4, 1));
    assert_eq!((first.file.smallest_seqno.0, first.file.largest_seqno.0), (1, 4));
    assert_eq!(
        first.file.size,
        fs.file_size(&first.file.directory.join(&first.file.relative_filename)).unwrap()
    );
    let metadata = db.column_family_metadata(&other);
    assert_eq!((metadata.name.as_str(), metadata.file_count, metadata.levels.len()), ("other", 1, 7));
    assert_eq!(metadata.levels[0].files[0], files[1].file);
    assert_eq!(metadata.size, files[1].file.size);
}

#[test]
fn after_background_work_is_cancelled_reads_go_on_and_a_reopen_has_everything() {
    let fs = Arc::new(MemFs::new());
    let (options, db) = database(&fs);
    db.put("a", "1").unwrap();
    db.cancel_all_background_work(true).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.flush().is_err());
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
}
