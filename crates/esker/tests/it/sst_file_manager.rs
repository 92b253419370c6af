//! Space limits and slow deletion of files, by an `sst_file_manager` that databases share.

use esker::internals::base::stats::{Statistics, Ticker};
use esker::internals::env::mem::MemFs;
use esker::internals::env::{FileSystem, SystemClock};
use esker::options::{CompressionType, DbPath, SstFileManager, SstFileManagerOptions};
use esker::{
    ColumnFamilyDescriptor, CompactRangeOptions, Db, Env, ErrorKind, FlushOptions, Options, SstFileWriter,
    SubCode,
};
use std::path::Path;
use std::sync::Arc;

struct Scene {
    fs: Arc<MemFs>,
    manager: Arc<SstFileManager>,
    options: Options,
}

fn scene(settings: SstFileManagerOptions) -> Scene {
    let fs = Arc::new(MemFs::new());
    let manager = Arc::new(SstFileManager::new(Arc::new(SystemClock), settings));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.sst_file_manager = Some(manager.clone());
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.disable_auto_compactions = true;
    options.cf.compression = CompressionType::None;
    Scene { fs, manager, options }
}

impl Scene {
    fn open(&self, path: &str) -> Db {
        Db::open(&self.options, path).unwrap()
    }

    /// Bytes of the tables and blob files in these directories, with those in the trash. A file may
    /// go meanwhile.
    fn bytes(&self, dirs: &[&str]) -> u64 {
        let mut bytes = 0;
        for dir in dirs.iter().map(Path::new) {
            let names = self.fs.children(dir).unwrap();
            let tracked = names.iter().filter(|name| {
                [".sst", ".blob", ".sst.trash", ".blob.trash"].iter().any(|suffix| name.ends_with(suffix))
            });
            bytes += tracked.filter_map(|name| self.fs.file_size(&dir.join(name)).ok()).sum::<u64>();
        }
        bytes
    }

    fn trash(&self, dir: &str) -> usize {
        let names = self.fs.children(Path::new(dir)).unwrap();
        names.iter().filter(|name| name.ends_with(".trash")).count()
    }

    fn ticks(&self, ticker: Ticker) -> u64 {
        self.options.db.statistics.as_ref().unwrap().ticker_count(ticker)
    }
}

/// Writes a table of about 4 KiB.
fn add_table(db: &Db, name: &str) {
    (0..4).for_each(|i| db.put(format!("{name}{i}"), [b'v'; 1_000]).unwrap());
    db.flush().unwrap();
}

/// Waits until `condition` holds: no call waits for these jobs.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

fn compact(db: &Db) -> esker::Result<()> {
    db.compact_range(None::<&[u8]>, None::<&[u8]>)
}

/// A deletion rate at which the first file is deleted, and the second one waits longer than any
/// test.
fn slow() -> SstFileManagerOptions {
    SstFileManagerOptions { rate_bytes_per_sec: 1, max_trash_db_ratio: 100.0, ..Default::default() }
}

#[test]
fn the_total_is_that_of_all_tables_and_blob_files_of_all_databases() {
    let mut scene = scene(SstFileManagerOptions::default());
    let one = scene.open("/one");
    scene.options.cf.enable_blob_files = true;
    scene.options.cf.min_blob_size = 100;
    let two = scene.open("/two");
    for db in [&one, &two] {
        add_table(db, "a");
        add_table(db, "b");
    }
    assert_eq!(scene.manager.total_size(), scene.bytes(&["/one", "/two"]));
    compact(&one).unwrap();
    compact(&two).unwrap();
    [&one, &two].into_iter().for_each(|db| db.wait_for_background_work().unwrap());
    until(|| scene.manager.total_size() == scene.bytes(&["/one", "/two"]));

    let mut writer = SstFileWriter::new(&scene.options);
    writer.open("/outside.sst").unwrap();
    writer.put("zz", [b'v'; 3_000]).unwrap();
    writer.finish().unwrap();
    let before = scene.manager.total_size();
    one.ingest_external_file(&["/outside.sst"]).unwrap();
    assert!(scene.manager.total_size() > before + 3_000);
    assert_eq!(scene.manager.total_size(), scene.bytes(&["/one", "/two"]));

    drop(two);
    assert_eq!(scene.manager.total_size(), scene.bytes(&["/one"]), "files of a closed database do not count");
    let two = scene.open("/two");
    assert_eq!(scene.manager.total_size(), scene.bytes(&["/one", "/two"]));
    drop((one, two));
    assert_eq!(scene.manager.tracked_files().len(), 0);
}

/// Three directories: `db_paths` of the database, `cf_paths` of a family that it is opened with,
/// and those of a family that is made later.
#[test]
fn files_of_all_paths_are_tracked_until_they_are_deleted() {
    let mut scene = scene(slow());
    scene.options.db.create_missing_column_families = true;
    scene.options.db.db_paths = vec![DbPath::new("/fast", u64::MAX)];
    // Elsewhere than tables, so that no WAL becomes trash.
    scene.options.db.wal_dir = Some("/wals".into());
    scene.options.cf.enable_blob_files = true;
    scene.options.cf.min_blob_size = 100;
    let dirs = ["/db", "/fast", "/own", "/later"];
    let in_path = |path: &str| scene.options.cf.clone().cf_paths(vec![DbPath::new(path, u64::MAX)]);
    let families = [
        ColumnFamilyDescriptor::new("default", scene.options.cf.clone()),
        ColumnFamilyDescriptor::new("own", in_path("/own")),
        ColumnFamilyDescriptor::new("later", in_path("/later")),
    ];
    let db = Db::open_cf(&scene.options.db, "/db", families[..2].to_vec()).unwrap();
    drop(db.create_column_family("later", &families[2].options).unwrap());
    let tracked_in = |dir: &str| scene.manager.tracked_files().keys().filter(|f| f.starts_with(dir)).count();
    for name in ["default", "own", "later"] {
        let family = db.column_family(name).unwrap();
        for value in [b'1', b'2'] {
            db.put_cf(&family, "a", [value; 10]).unwrap();
            db.put_cf(&family, "b", [value; 3_000]).unwrap();
            db.flush_opt(&FlushOptions::default(), &[&family]).unwrap();
        }
    }
    assert_eq!(dirs.map(tracked_in), [0, 4, 4, 4]);
    assert_eq!(scene.manager.total_size(), scene.bytes(&dirs));

    // Its files become trash, where they are.
    let own = db.column_family("own").unwrap();
    db.drop_column_family(&own).unwrap();
    drop(own);
    db.wait_for_background_work().unwrap();
    until(|| scene.manager.total_size() == scene.bytes(&dirs));
    let left = scene.fs.children("/own".as_ref()).unwrap();
    assert!(left.len() >= 3, "at most one file is deleted at this rate: {left:?}");
    assert!(left.iter().all(|name| name.ends_with(".trash")), "{left:?}");
    drop(db);
    assert_eq!(scene.manager.tracked_files().len(), 0, "files of a closed database do not count");

    let families = [families[0].clone(), families[2].clone()];
    let db = Db::open_cf(&scene.options.db, "/db", families).unwrap();
    assert_eq!(dirs.map(tracked_in), [0, 4, 0, 4]);
    assert_eq!(scene.manager.total_size(), scene.bytes(&["/db", "/fast", "/later"]));
    let later = db.column_family("later").unwrap();
    db.compact_range_opt(&CompactRangeOptions::default(), &later, None, None).unwrap();
    db.wait_for_background_work().unwrap();
    until(|| scene.manager.total_size() == scene.bytes(&["/db", "/fast", "/later"]));
    assert!(scene.trash("/later") >= 1);
    assert_eq!(scene.trash("/fast"), 0);
}

#[test]
fn writes_stop_at_the_limit_until_it_is_raised() {
    let scene = scene(SstFileManagerOptions::default());
    let db = scene.open("/db");
    add_table(&db, "a");
    scene.manager.set_max_allowed_space_usage(scene.manager.total_size() + 1);
    assert!(!scene.manager.is_max_allowed_space_reached());
    db.put("key", "value").unwrap();
    let error = db.flush().unwrap_err();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::IoError, SubCode::SpaceLimit));
    assert_eq!(error.message(), "Max allowed space was reached");
    assert!(scene.manager.is_max_allowed_space_reached());
    assert_eq!(db.put("key", "other").unwrap_err().subcode(), SubCode::SpaceLimit);
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]), "the write is not lost");
    assert_eq!(db.resume().unwrap_err().subcode(), SubCode::SpaceLimit, "the limit is still reached");

    scene.manager.set_max_allowed_space_usage(0);
    db.resume().unwrap();
    db.put("key", "other").unwrap();
    db.flush().unwrap();
    drop(db);
    let db = scene.open("/db");
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"other"[..]));
}

#[test]
fn a_compaction_for_which_there_is_no_room_does_not_begin() {
    let scene = scene(SstFileManagerOptions::default());
    let db = scene.open("/db");
    add_table(&db, "a");
    add_table(&db, "a");
    let total = scene.manager.total_size();
    scene.manager.set_max_allowed_space_usage(2 * total);
    scene.manager.set_compaction_buffer_size(1);
    let error = compact(&db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CompactionTooLarge);
    assert_eq!(scene.ticks(Ticker::CompactionCancelled), 1);
    db.put("key", "value").unwrap();
    scene.manager.set_max_allowed_space_usage(3 * total);
    compact(&db).unwrap();
    assert!(
        !scene.manager.is_max_allowed_space_reached_including_compactions(),
        "the reserved room was freed"
    );
}

#[test]
fn a_compaction_that_reaches_the_limit_fails_and_leaves_nothing() {
    let scene = scene(SstFileManagerOptions::default());
    let db = scene.open("/db");
    add_table(&db, "a");
    add_table(&db, "a");
    let total = scene.manager.total_size();
    // Another database fills the space after the compaction has begun.
    let manager = scene.manager.clone();
    let listener = OnBegin(Box::new(move || manager.set_max_allowed_space_usage(total + 1)));
    drop(db);
    let mut options = scene.options.clone();
    options.db.listeners = vec![Arc::new(listener)];
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(compact(&db).unwrap_err().subcode(), SubCode::SpaceLimit);
    assert_eq!(scene.manager.total_size(), total, "the output is deleted");
    assert_eq!(db.put("key", "value").unwrap_err().subcode(), SubCode::SpaceLimit);
    scene.manager.set_max_allowed_space_usage(0);
    db.resume().unwrap();
    db.put("key", "value").unwrap();
}

struct OnBegin(Box<dyn Fn() + Send + Sync>);

impl esker::observe::EventListener for OnBegin {
    fn on_compaction_begin(&self, _info: &esker::observe::CompactionJobInfo) {
        self.0();
    }
}

#[test]
fn an_automatic_compaction_waits_for_room() {
    let mut scene = scene(SstFileManagerOptions::default());
    scene.options.cf.disable_auto_compactions = false;
    scene.options.cf.level0_file_num_compaction_trigger = 2;
    let db = scene.open("/db");
    add_table(&db, "a");
    scene.manager.set_max_allowed_space_usage(3 * scene.manager.total_size());
    add_table(&db, "a");
    until(|| scene.ticks(Ticker::CompactionCancelled) > 0);
    assert_eq!(db.live_files().len(), 2);
    scene.manager.set_max_allowed_space_usage(0);
    db.wait_for_background_work().unwrap();
    assert_eq!(db.live_files().len(), 1);
}

#[test]
fn files_are_deleted_at_the_rate_and_by_the_next_opening() {
    let scene = scene(slow());
    let db = scene.open("/db");
    for _ in 0..3 {
        add_table(&db, "a");
        add_table(&db, "a");
        compact(&db).unwrap();
    }
    // All old files are in the trash.
    db.wait_for_background_work().unwrap();
    until(|| scene.ticks(Ticker::FilesDeletedFromTrashQueue) == 1 && scene.trash("/db") > 3);
    assert!(scene.manager.total_trash_size() > 0);
    assert_eq!(scene.manager.total_size(), scene.bytes(&["/db"]));
    let trash = scene.trash("/db");
    drop(db);
    assert_eq!(scene.manager.total_trash_size(), 0);
    assert!(scene.trash("/db") >= trash, "a closed database keeps its trash");

    scene.manager.set_delete_rate_bytes_per_second(1 << 30);
    let db = scene.open("/db");
    scene.manager.wait_for_empty_trash();
    assert_eq!((scene.trash("/db"), scene.manager.total_size()), (0, scene.bytes(&["/db"])));
    assert!(db.get("a0").unwrap().is_some());
    drop(db);

    scene.fs.link_file(Path::new("/db/CURRENT"), Path::new("/db/000099.sst.trash")).unwrap();
    esker::destroy_db(&scene.options.db, "/db").unwrap();
    assert!(!scene.fs.file_exists(Path::new("/db")).unwrap(), "trash is deleted with the database");
}
