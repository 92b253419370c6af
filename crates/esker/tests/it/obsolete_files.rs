//! Files that no super version names are deleted, whichever reader held the last one, even if the
//! database is idle.

use esker::internals::base::probe::Probes;
use esker::internals::base::sync::epoch;
use esker::internals::env::FileSystem;
use esker::internals::env::mem::MemFs;
use esker::observe::{EventListener, FlushJobInfo, TableFileDeletionInfo};
use esker::{ColumnFamilyHandle, Db, Env, FlushOptions, Options, RangeOpt};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn options(fs: &Arc<MemFs>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(fs.clone());
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 64 << 10;
    options
}

fn database(fs: &Arc<MemFs>) -> Db {
    database_at(fs, "/db")
}

fn database_at(fs: &Arc<MemFs>, path: &str) -> Db {
    Db::open(&options(fs), path).unwrap()
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

/// Waits until only live tables are on disk. Reads continue meanwhile, as in any process that uses
/// a database; no job runs.
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

/// A listener that drops a family when its flush begins.
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

/// A purge waits two seconds for a reader whose thread gets no processor. The reader would hold up
/// the purges of all tests, and their reads would end its epoch, so this one has its own process.
#[test]
#[expect(clippy::disallowed_methods, reason = "the reader is a real thread, and pauses are real ones")]
fn files_of_a_reader_that_outlasts_a_purge_are_deleted_without_a_new_job() {
    let test = "obsolete_files::files_of_a_reader_that_outlasts_a_purge_are_deleted_without_a_new_job";
    if !esker_testkit::runs_alone(test) {
        return;
    }
    let fs = Arc::new(MemFs::new());
    let db = database(&fs);
    fill(&db, 0);
    db.flush().unwrap();
    let (end, wait_end) = channel::<()>();
    let (open, is_open) = channel();
    let reader = std::thread::spawn(move || {
        let _read = epoch::pin();
        open.send(()).unwrap();
        assert!(wait_end.recv().is_err(), "the other end is dropped");
    });
    is_open.recv().unwrap();
    fill(&db, 1);
    db.compact_range(None, None).unwrap();
    let live = live_tables(&db);
    db.wait_for_background_work().unwrap();
    assert_ne!(tables_on_disk(&fs), live, "the reader keeps the old tables");
    drop(end);
    reader.join().unwrap();
    // Nothing reads or writes any more.
    let start = std::time::Instant::now();
    while tables_on_disk(&fs) != live {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "on disk {:?}, live {live:?}",
            tables_on_disk(&fs)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_end_of_the_last_iterator_of_a_super_version_deletes_its_files() {
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
    assert_eq!(seen, [0_u32.to_le_bytes(); 25].concat(), "an iterator stays at its super version");
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
    // The end of a snapshot starts jobs: files of the last level lose entries that only it kept,
    // and their sequence numbers.
    drop(db.snapshot());
    db.wait_for_background_work().unwrap();
    assert_ne!(live_tables(&db), before);
}

#[test]
fn unneeded_files_are_gone_when_the_database_is_closed() {
    // The last super version of the inputs ends when no job runs. Reads of other tests may hold it
    // meanwhile.
    for _ in 0..50 {
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
        assert_eq!(tables_on_disk(&fs), live);
    }
}

/// Threads that have written and read, and are idle until their senders are dropped.
fn idle_threads<'s>(scope: &'s std::thread::Scope<'s, '_>, db: &Db, threads: usize) -> Vec<Sender<()>> {
    let (ready, are_ready) = channel();
    let ends = (0..threads)
        .map(|_| {
            let ((end, wait_end), ready, db) = (channel(), ready.clone(), db.clone());
            scope.spawn(move || {
                for i in 0..700_u32 {
                    let key = format!("key{:06}", i % 50);
                    db.put(&key, [i.to_le_bytes(); 25].concat()).unwrap();
                    db.get(&key).unwrap();
                }
                db.iter().unwrap().seek_to_first();
                drop(db);
                ready.send(()).unwrap();
                assert!(wait_end.recv().is_err(), "the other end is dropped");
            });
            end
        })
        .collect();
    (0..threads).for_each(|_| are_ready.recv().unwrap());
    ends
}

/// Fills a database and compacts it, beside idle threads that have read it. Then only `settle`
/// advances the epoch, and only live tables may be left.
fn check_tables_behind_a_compaction(rounds: u32, settle: impl Fn(&Db)) {
    for round in 0..rounds {
        let fs = Arc::new(MemFs::new());
        let db = database(&fs);
        std::thread::scope(|scope| {
            let idle = idle_threads(scope, &db, 6);
            fill(&db, round);
            db.compact_range(None, None).unwrap();
            settle(&db);
            assert_eq!(tables_on_disk(&fs), live_tables(&db), "round {round}");
            drop(idle);
        });
    }
}

#[test]
fn a_database_closed_right_behind_a_compaction_has_live_tables_only() {
    check_tables_behind_a_compaction(100, |db| db.close().unwrap());
}

#[test]
fn tables_go_while_the_database_is_idle() {
    check_tables_behind_a_compaction(20, |db| db.wait_for_background_work().unwrap());
}

/// Calls `work` while another thread reads. Then that thread ends its read, and sleeps until the
/// returned sender is dropped.
fn beside_a_read<'s>(scope: &'s std::thread::Scope<'s, '_>, work: impl FnOnce()) -> Sender<()> {
    let ((begun, has_begun), (go_on, may_go_on), (ended, has_ended)) = (channel(), channel(), channel());
    scope.spawn(move || {
        let guard = epoch::pin();
        begun.send(()).unwrap();
        may_go_on.recv().unwrap_or_default();
        drop(guard);
        ended.send(()).unwrap_or_default();
        assert!(may_go_on.recv().is_err(), "the other end is dropped");
    });
    has_begun.recv().unwrap();
    work();
    go_on.send(()).unwrap();
    has_ended.recv().unwrap();
    go_on
}

/// A user who drops a family for its space makes no further calls.
#[test]
fn files_of_a_dropped_family_go_with_its_last_user() {
    for last in ["handle", "iterator", "handle of an idle thread"] {
        let fs = Arc::new(MemFs::new());
        let db = database(&fs);
        let family = db.create_column_family("dropped", &options(&fs).cf).unwrap();
        db.put_cf(&family, "key", "value").unwrap();
        db.flush_opt(&FlushOptions::default(), &[&family]).unwrap();
        assert_eq!(tables_on_disk(&fs).len(), 1);
        std::thread::scope(|scope| {
            let end = beside_a_read(scope, || {
                let iterator = (last == "iterator").then(|| db.iter_cf(&family).unwrap());
                db.drop_column_family(&family).unwrap();
                if last == "handle of an idle thread" {
                    let (dropped, is_dropped) = channel();
                    scope.spawn(move || {
                        drop(family);
                        dropped.send(()).unwrap();
                        Env::default().clock.sleep(Duration::from_millis(100));
                    });
                    is_dropped.recv().unwrap();
                } else {
                    drop(family);
                }
                drop(iterator);
            });
            db.wait_for_background_work().unwrap();
            assert_eq!(tables_on_disk(&fs), BTreeSet::new(), "the last user was the {last}");
            drop(end);
        });
    }
}

#[test]
fn replaced_files_go_when_the_reads_beside_end() {
    for deletes in [false, true] {
        let fs = Arc::new(MemFs::new());
        let mut options = options(&fs);
        // The old tables stay until they are replaced beside the read.
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, "/db").unwrap();
        fill(&db, 0);
        db.compact_range(None, None).unwrap();
        db.wait_for_background_work().unwrap();
        let before = tables_on_disk(&fs);
        // The read holds up purges of all tests, so it must be short.
        if !deletes {
            fill(&db, 1);
            db.flush().unwrap();
        }
        std::thread::scope(|scope| {
            let end = beside_a_read(scope, || {
                if deletes {
                    let all = [RangeOpt { start: None, limit: None }];
                    db.delete_files_in_ranges(&db.default_column_family(), &all, true).unwrap();
                } else {
                    db.compact_range(None, None).unwrap();
                }
            });
            db.wait_for_background_work().unwrap();
            assert_eq!(tables_on_disk(&fs), live_tables(&db));
            assert!(before.is_disjoint(&live_tables(&db)));
            drop(end);
        });
    }
}

/// Sends a message when a purge of the database in `path` has listed its files. Lets it delete them
/// on a message, or after half a second.
fn hold_purges(probes: &Probes, path: &'static str) -> (Receiver<()>, Sender<()>) {
    let ((listed, is_listed), (go_on, may_go_on)) = (channel(), channel());
    let (listed, may_go_on) = (Mutex::new(listed), Mutex::new(may_go_on));
    probes.on("purge:listed", move |of| {
        if of.downcast_ref::<PathBuf>().is_some_and(|of| of == Path::new(path)) {
            listed.lock().unwrap().send(()).unwrap_or_default();
            may_go_on.lock().unwrap().recv_timeout(Duration::from_millis(500)).unwrap_or_default();
        }
    });
    (is_listed, go_on)
}

#[test]
fn no_file_goes_after_file_deletions_were_disabled_beside_a_purge() {
    let probes = Probes::new();
    let fs = Arc::new(MemFs::new());
    let db = database_at(&fs, "/copied");
    let (is_listed, go_on) = hold_purges(&probes, "/copied");
    for round in 0..3 {
        fill(&db, round);
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        if cfg!(debug_assertions) {
            is_listed.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        db.disable_file_deletions();
        let listed = fs.children(Path::new("/copied")).unwrap();
        go_on.send(()).unwrap();
        db.wait_for_background_work().unwrap();
        Env::default().clock.sleep(Duration::from_millis(20));
        let left = fs.children(Path::new("/copied")).unwrap();
        assert!(listed.iter().all(|name| left.contains(name)), "{listed:?}, now {left:?}");
        db.enable_file_deletions().unwrap();
        while is_listed.try_recv().is_ok() {}
    }
}

#[test]
fn the_last_call_that_enables_deletions_returns_when_obsolete_files_are_gone() {
    let fs = Arc::new(MemFs::new());
    let mut options = options(&fs);
    // An automatic compaction may hold its inputs a little longer.
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..4 {
        db.disable_file_deletions();
        db.disable_file_deletions();
        for _ in 0..3 {
            fill(&db, round);
            db.flush().unwrap();
            db.compact_range(None, None).unwrap();
        }
        db.enable_file_deletions().unwrap();
        let kept = tables_on_disk(&fs).len();
        assert!(kept > live_tables(&db).len());
        db.enable_file_deletions().unwrap();
        assert_eq!(tables_on_disk(&fs), live_tables(&db), "round {round}");
    }
    db.disable_file_deletions();
    let files = fs.children(Path::new("/db")).unwrap();
    db.close().unwrap();
    db.enable_file_deletions().unwrap();
    let left = fs.children(Path::new("/db")).unwrap();
    assert_eq!(left, files, "a closed database leaves its directory alone");
}

/// A file system that copies the directory whenever a table is deleted.
#[derive(Default)]
struct Copier {
    db: Mutex<Option<Db>>,
    copies: AtomicUsize,
}

impl EventListener for Copier {
    fn on_table_file_deleted(&self, _info: &TableFileDeletionInfo) {
        let Some(db) = self.db.lock().unwrap().clone() else { return };
        db.disable_file_deletions();
        self.copies.fetch_add(1, Ordering::Relaxed);
        db.enable_file_deletions().unwrap();
    }
}

#[test]
fn a_listener_of_deletions_can_disable_deletions() {
    let (fs, copier) = (Arc::new(MemFs::new()), Arc::new(Copier::default()));
    let mut options = options(&fs);
    options.db.listeners = vec![copier.clone()];
    let db = Db::open(&options, "/db").unwrap();
    *copier.db.lock().unwrap() = Some(db.clone());
    for round in 0..3 {
        fill(&db, round);
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
    }
    wait_until_only_live_tables_are_left(&fs, &db);
    *copier.db.lock().unwrap() = None;
    assert!(copier.copies.load(Ordering::Relaxed) > 0);
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

/// Other calls than flushes and compactions may roll the MANIFEST.
#[test]
fn a_manifest_that_a_new_family_has_rolled_is_deleted() {
    let fs = MemFs::new();
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.max_manifest_file_size = 1;
    let db = Db::open(&options, "/db").unwrap();
    let manifests = || {
        let names = fs.children(Path::new("/db")).unwrap();
        names.into_iter().filter(|name| name.starts_with("MANIFEST")).collect::<Vec<_>>()
    };
    let first = manifests();
    for number in 0.. {
        db.create_column_family(&format!("family{number}"), &options.cf).unwrap();
        if !manifests().contains(&first[0]) || manifests().len() > 1 {
            break;
        }
    }
    db.wait_for_background_work().unwrap();
    assert_eq!(manifests().len(), 1, "{first:?}, then {:?}", manifests());
}
