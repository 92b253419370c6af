//! Flushes of several families with `force_atomic_flush`: all of their tables outlive a crash, or
//! none.

use esker::internals::env::{CrashChoices, CrashFs, FileSystem};
use esker::observe::{EventListener, FlushJobInfo};
use esker::{ColumnFamilyHandle, Db, DbOptions, Env, FlushOptions, WriteOptions};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FAMILIES: [&str; 2] = ["default", "second"];

fn options(fs: &CrashFs) -> DbOptions {
    DbOptions::new()
        .create_if_missing(true)
        .create_missing_column_families(true)
        .env(Env::with_fs(Arc::new(fs.clone())))
}

/// Writes a key to each family without the WAL.
fn put_unlogged(db: &Db, families: &[ColumnFamilyHandle]) {
    let unlogged = WriteOptions::default().disable_wal(true);
    for family in families {
        db.put_opt(&unlogged, family, "key", "value").unwrap();
    }
}

fn manifest(fs: &CrashFs) -> PathBuf {
    let names = fs.children("/db".as_ref()).unwrap();
    let name = names.into_iter().filter(|name| name.starts_with("MANIFEST")).max();
    PathBuf::from("/db").join(name.unwrap())
}

/// The families that have their key after a crash during the flush, for each length of the
/// MANIFEST.
fn survivors(forced: bool) -> Vec<[bool; 2]> {
    let disk = CrashFs::new();
    let db = Db::open_cf(&options(&disk), "/db", FAMILIES).unwrap();
    let handles = FAMILIES.map(|name| db.column_family(name).unwrap());
    put_unlogged(&db, &handles);
    let path = manifest(&disk);
    let begin = disk.file_size(&path).unwrap();
    let how = FlushOptions::default().force_atomic_flush(forced);
    db.flush_opt(&how, &[&handles[0], &handles[1]]).unwrap();
    let mut seen: Vec<[bool; 2]> = Vec::new();
    for end in begin..=disk.file_size(&path).unwrap() {
        let crashed = disk.crash_clone(&CrashChoices::process_kill());
        crashed.truncate(&path, end).unwrap();
        let again = Db::open_cf(&options(&crashed), "/db", FAMILIES).unwrap();
        seen.push(FAMILIES.map(|name| {
            let family = again.column_family(name).unwrap();
            again.get_cf(&family, "key").unwrap().is_some()
        }));
    }
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn a_forced_atomic_flush_outlives_a_crash_whole_or_not_at_all() {
    assert_eq!(survivors(true), [[false, false], [true, true]]);
    // Other flushes are made one by one.
    assert!(survivors(false).len() > 2);
}

/// A listener that stops flushes of family `second` until it is told to continue.
struct Stopping {
    begun: SyncSender<()>,
    go_on: Mutex<Receiver<()>>,
    /// The families of each job that has ended.
    ended: Mutex<Vec<(u64, String)>>,
}

impl EventListener for Stopping {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if info.cf_name == "second" {
            self.begun.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        self.ended.lock().unwrap().push((info.job_id, info.cf_name.clone()));
    }
}

/// The database, its families, a sender that lets one flush continue, the listener, and a receiver
/// that gets each begin of a flush of `second`.
type Scene = (Db, [ColumnFamilyHandle; 2], SyncSender<()>, Arc<Stopping>, Receiver<()>);

/// Opens a database with two threads for flushes, in which a flush of family `second` has begun and
/// does not continue.
fn with_running_flush(disk: &CrashFs) -> Scene {
    let (begun, has_begun) = sync_channel(10);
    let (continued, go_on) = sync_channel(10);
    let listener = Arc::new(Stopping { begun, go_on: Mutex::new(go_on), ended: Mutex::default() });
    let mut options = options(disk).max_background_flushes(2).max_background_compactions(1);
    options.listeners.push(listener.clone());
    let db = Db::open_cf(&options, "/db", FAMILIES).unwrap();
    let handles = FAMILIES.map(|name| db.column_family(name).unwrap());
    put_unlogged(&db, &handles);
    db.flush_opt(&FlushOptions::default().wait(false), &[&handles[1]]).unwrap();
    has_begun.recv().unwrap();
    (db, handles, continued, listener, has_begun)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a flush that begins too early begins at once")]
fn a_forced_atomic_flush_waits_for_a_running_flush_of_its_families() {
    let disk = CrashFs::new();
    let (db, handles, continued, listener, _has_begun) = with_running_flush(&disk);
    let how = FlushOptions::default().force_atomic_flush(true).wait(false).allow_write_stall(true);
    db.flush_opt(&how, &[&handles[0], &handles[1]]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // A table of the default family alone would be half of the atomic flush.
    assert_eq!(db.live_files().len(), 0);
    continued.send(()).unwrap();
    db.wait_for_background_work().unwrap();
    let ended: Vec<_> = listener.ended.lock().unwrap().iter().map(|(_, name)| name.clone()).collect();
    assert_eq!(ended, ["second", "default"]);
}

#[test]
fn a_forced_atomic_flush_takes_over_flushes_that_wait() {
    let disk = CrashFs::new();
    let (db, handles, continued, listener, has_begun) = with_running_flush(&disk);
    continued.send(()).unwrap();
    db.wait_for_background_work().unwrap();
    listener.ended.lock().unwrap().clear();
    put_unlogged(&db, &handles);
    db.pause_background_work();
    let later = FlushOptions::default().wait(false);
    db.flush_opt(&later, &[&handles[1]]).unwrap();
    db.flush_opt(&later.force_atomic_flush(true), &[&handles[0], &handles[1]]).unwrap();
    db.continue_background_work().unwrap();
    has_begun.recv().unwrap();
    continued.send(()).unwrap();
    db.wait_for_background_work().unwrap();
    let mut ended = std::mem::take(&mut *listener.ended.lock().unwrap());
    ended.sort_by(|a, b| a.1.cmp(&b.1));
    assert!(matches!(&ended[..], [(a, _), (b, _)] if a == b), "one job: {ended:?}");
}
