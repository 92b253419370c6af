//! Tables are opened with the database and before the MANIFEST names them.

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::stats::{Statistics, Ticker};
use esker::{ColumnFamilyDescriptor, Db, Env, Options};
#[cfg(target_os = "linux")]
use esker_testkit::TempDir;
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

#[test]
#[cfg(target_os = "linux")]
fn tables_and_blob_files_together_are_as_many_open_as_the_option_says() {
    let dir = TempDir::new("open_files");
    let mut options = Options::default();
    options.db.create_if_missing = true;
    // Ten of these are for other files, as in RocksDB.
    options.db.max_open_files = 30;
    options.cf.disable_auto_compactions = true;
    options.cf.enable_blob_files = true;
    let db = Db::open(&options, dir.path()).unwrap();
    // Writes a table and a blob file for each key.
    for n in 0..30 {
        db.put(format!("key{n}"), "value").unwrap();
        db.flush().unwrap();
    }
    let open_after_reading_all = || {
        for n in 0..30 {
            assert_eq!(db.get(format!("key{n}")).unwrap().as_deref(), Some(&b"value"[..]));
        }
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let files = descriptors.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        let is_data = |file: &Path| file.extension().is_some_and(|e| e == "sst" || e == "blob");
        files.filter(|file| file.starts_with(dir.path()) && is_data(file)).count()
    };
    assert_eq!(open_after_reading_all(), 20);
    db.set_db_options(&[("max_open_files", "-1")]).unwrap();
    assert_eq!(open_after_reading_all(), 60);
}

#[test]
fn all_families_together_keep_as_many_tables_open_as_the_option_says() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.env = Env::with_fs(Arc::new(MemFs::new()));
    // Ten of these are for other files, as in RocksDB.
    options.db.max_open_files = 20;
    let statistics = Arc::new(Statistics::default());
    options.db.statistics = Some(statistics.clone());
    let names: Vec<String> =
        std::iter::once("default".to_owned()).chain((1..14).map(|n| format!("f{n}"))).collect();
    let open = |names: &[String]| {
        let families =
            names.iter().map(|name| ColumnFamilyDescriptor::new(name.as_str(), options.cf.clone()));
        Db::open_cf(&options.db, "/db", families).unwrap()
    };
    let mut db = open(&names[..7]);
    for name in &names[7..] {
        db.create_column_family(name, &options.cf).unwrap();
    }
    for again in [false, true] {
        let opened = |n: usize| {
            let before = statistics.ticker_count(Ticker::NoFileOpens);
            let family = db.column_family(&names[n]).unwrap();
            assert_eq!(db.get_cf(&family, "key").unwrap().as_deref(), Some(&b"value"[..]));
            statistics.ticker_count(Ticker::NoFileOpens) - before
        };
        if !again {
            for name in &names {
                let family = db.column_family(name).unwrap();
                db.put_cf(&family, "key", "value").unwrap();
                db.flush_opt(&Default::default(), &[&family]).unwrap();
            }
        }
        let _all: u64 = (0..names.len()).map(opened).sum();
        let last = (4..14).map(opened).sum::<u64>();
        assert_eq!((last, opened(0), opened(13)), (0, 1, 0), "reopened: {again}");
        let bytes = |n: usize| {
            let family = db.column_family(&names[n]).unwrap();
            db.int_property_cf(&family, "rocksdb.estimate-table-readers-mem").unwrap()
        };
        assert!(bytes(0) > 0 && bytes(1) == 0, "only tables of the family count");
        db.set_db_options(&[("max_open_files", "-1")]).unwrap();
        let _all: u64 = (0..names.len()).map(opened).sum();
        assert_eq!((0..names.len()).map(opened).sum::<u64>(), 0);
        drop(db);
        db = open(&names);
    }
}
