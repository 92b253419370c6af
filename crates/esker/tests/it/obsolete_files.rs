//! Files that no view names any more go, whoever held the last view and however idle the database is then.

use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::observe::{EventListener, FlushJobInfo};
use esker::{ColumnFamilyHandle, Db, Env, FlushOptions, Options};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

fn database(fs: &Arc<MemFs>) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 64 << 10;
    Db::open(&options, "/db").unwrap()
}

fn fill(db: &Db, round: u32) {
    for i in 0..2000_u32 {
        db.put(format!("key{i:06}"), [round.to_le_bytes(); 25].concat()).unwrap();
    }
}

fn tables_on_disk(fs: &MemFs) -> BTreeSet<String> {
    let names = fs.children(Path::new("/db")).unwrap();
    names.into_iter().filter(|name| name.ends_with(".sst")).collect()
}

pub(crate) fn live_tables(db: &Db) -> BTreeSet<String> {
    db.live_files().into_iter().map(|f| f.file.relative_filename.trim_start_matches('/').to_owned()).collect()
}

/// Waits until only live tables are on disk. Reads go on meanwhile, as in any process that uses a database; no job runs.
fn wait_until_only_live_tables_are_left(fs: &MemFs, db: &Db) {
    for _ in 0..10_000 {
        for i in 0..300_u32 {
            db.get(format!("key{i:06}")).unwrap();
        }
        let (disk, live) = (tables_on_disk(fs), live_tables(db));
        if disk == live {
            return;
        }
        std::thread::yield_now();
    }
    panic!("on disk {:?}, live {:?}", tables_on_disk(fs), live_tables(db));
}

/// Drops a family when its flush begins.
#[derive(Default)]
struct DropAtFlush {
    family: Mutex<Option<(Db, ColumnFamilyHandle)>>,
}

impl EventListener for DropAtFlush {
    fn on_flush_begin(&self, _info: &FlushJobInfo) {
        if let Some((db, family)) = self.family.lock().unwrap().take() {
            db.drop_column_family(&family).unwrap();
        }
    }
}

#[test]
fn the_flush_of_a_family_that_is_dropped_meanwhile_leaves_nothing() {
    let fs = Arc::new(MemFs::new());
    let listener = Arc::new(DropAtFlush::default());
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.db.listeners = vec![listener.clone()];
    options.cf.enable_blob_files = true;
    let db = Db::open(&options, "/db").unwrap();
    let second = db.create_column_family("second", &options.cf).unwrap();
    db.put_cf(&second, "a", "1").unwrap();
    *listener.family.lock().unwrap() = Some((db.clone(), second.clone()));
    db.flush_opt(&FlushOptions::default(), &[&second]).unwrap();
    db.wait_for_background_work().unwrap();
    let names = fs.children(Path::new("/db")).unwrap();
    assert!(!names.iter().any(|name| name.ends_with(".sst") || name.ends_with(".blob")), "{names:?}");
}

#[test]
fn a_writer_that_has_fallen_idle_holds_no_files() {
    let fs = Arc::new(MemFs::new());
    let db = database(&fs);
    let (filled, wait_filled) = channel();
    let (end, wait_end) = channel::<()>();
    std::thread::scope(|scope| {
        let writer = db.clone();
        scope.spawn(move || {
            (0..4).for_each(|round| fill(&writer, round));
            filled.send(()).unwrap();
            assert!(wait_end.recv().is_err(), "the other end is dropped");
        });
        wait_filled.recv().unwrap();
        db.compact_range(None, None).unwrap();
        db.wait_for_background_work().unwrap();
        wait_until_only_live_tables_are_left(&fs, &db);
        drop(end);
    });
}

#[test]
fn the_end_of_the_last_iterator_of_a_view_deletes_its_files() {
    let fs = Arc::new(MemFs::new());
    let db = database(&fs);
    fill(&db, 0);
    db.flush().unwrap();
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    fill(&db, 1);
    db.compact_range(None, None).unwrap();
    db.wait_for_background_work().unwrap();
    let seen = iter.value().to_vec();
    assert_eq!(seen, [0_u32.to_le_bytes(); 25].concat(), "an iterator stays at its view");
    drop(iter);
    wait_until_only_live_tables_are_left(&fs, &db);
}

#[test]
fn the_end_of_an_iterator_has_nothing_rewritten() {
    let fs = Arc::new(MemFs::new());
    let db = database(&fs);
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.put("another", "value").unwrap();
    let before = live_tables(&db);
    let mut iter = db.iter().unwrap();
    iter.seek_to_first();
    drop(iter);
    db.wait_for_background_work().unwrap();
    assert_eq!(live_tables(&db), before);
    // A snapshot's end does: files of the last level lose what only it kept, and their sequence numbers.
    drop(db.snapshot());
    db.wait_for_background_work().unwrap();
    assert_ne!(live_tables(&db), before);
}

#[test]
fn what_nobody_needs_any_more_is_gone_when_the_database_is_closed() {
    // The last view of the inputs ends when no job runs any more. Another test's read may hold on to it meanwhile.
    let leaves_nothing = || {
        let fs = Arc::new(MemFs::new());
        let db = database(&fs);
        fill(&db, 0);
        db.flush().unwrap();
        let mut iter = db.iter().unwrap();
        iter.seek_to_first();
        fill(&db, 1);
        db.compact_range(None, None).unwrap();
        let live = live_tables(&db);
        db.cancel_all_background_work(true).unwrap();
        drop(iter);
        assert_ne!(tables_on_disk(&fs), live);
        db.close().unwrap();
        tables_on_disk(&fs) == live
    };
    assert!((0..50).any(|_| leaves_nothing()));
}

#[test]
fn options_files_stay_while_file_deletions_are_disabled() {
    let fs = Arc::new(MemFs::new());
    let db = database(&fs);
    let options_files = || {
        let names = fs.children(Path::new("/db")).unwrap();
        names.into_iter().filter(|name| name.starts_with("OPTIONS-")).collect::<BTreeSet<_>>()
    };
    let change = |n: u32| {
        let trigger = n.to_string();
        let changes = [("level0_file_num_compaction_trigger", trigger.as_str())];
        db.set_options(&db.default_column_family(), &changes).unwrap();
    };
    let listed = options_files();
    db.disable_file_deletions();
    (4..9).for_each(change);
    assert!(options_files().is_superset(&listed), "{listed:?}, now {:?}", options_files());
    db.enable_file_deletions().unwrap();
    change(4);
    assert_eq!(options_files().len(), 2);
}
