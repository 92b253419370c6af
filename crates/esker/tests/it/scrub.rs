//! Scrubbing finds damage in a table before a read does. The damaged table stays in place, and all
//! other work continues.

use esker::internals::base::probe::Probes;
use esker::internals::env::{FileSystem, MemFs};
use esker::observe::{BackgroundErrorReason, EventListener};
use esker::options::CompressionType;
use esker::{Db, Env, Error, ErrorKind, Options, ReadOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

const KEYS: usize = 2000;
/// A rate so high that no test waits for it.
const FAST: u64 = 1 << 40;

struct Listener(Mutex<Sender<(BackgroundErrorReason, Error)>>);

impl EventListener for Listener {
    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        // The receiver may be gone when the test ends.
        self.0.lock().unwrap().send((reason, error.clone().unwrap())).ok();
    }
}

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.env = Env::with_fs(Arc::new(fs.clone()));
    options.db.create_if_missing = true;
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    options.cf.table.no_block_cache = true;
    options
}

fn listened(options: &mut Options) -> Receiver<(BackgroundErrorReason, Error)> {
    let (sender, receiver) = channel();
    options.db.listeners = vec![Arc::new(Listener(Mutex::new(sender)))];
    receiver
}

fn key(n: usize) -> String {
    format!("key{n:05}")
}

fn value(n: usize) -> String {
    format!("value {n} {}", "x".repeat(n % 100))
}

fn fill(db: &Db) {
    for n in 0..KEYS {
        db.put(key(n), value(n)).unwrap();
    }
    db.flush().unwrap();
}

fn tables(fs: &MemFs) -> Vec<PathBuf> {
    let mut names = fs.children(Path::new("/db")).unwrap();
    names.retain(|name| name.ends_with(".sst"));
    names.sort();
    names.into_iter().map(|name| Path::new("/db").join(name)).collect()
}

/// Flips a bit of the value of this key.
fn damage(fs: &MemFs, path: &Path, n: usize) {
    let mut bytes = vec![0; fs.file_size(path).unwrap() as usize];
    fs.new_random_access_file(path).unwrap().read_at(0, &mut bytes).unwrap();
    let wanted = format!("value {n} x");
    let at = bytes.windows(wanted.len()).position(|w| w == wanted.as_bytes()).unwrap();
    bytes[at + 2] ^= 4;
    let mut file = fs.new_writable_file(path).unwrap();
    file.append(&bytes).unwrap();
    file.close().unwrap();
}

/// The keys that gets cannot read; all others have their values.
fn unreadable(db: &Db) -> Vec<usize> {
    let read = |n: &usize| match db.get(key(*n)) {
        Ok(found) => {
            assert_eq!(found, Some(value(*n).into_bytes()));
            false
        }
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Corruption);
            true
        }
    };
    (0..KEYS).filter(read).collect()
}

#[test]
fn tables_without_damage_are_read_again_and_again_and_nothing_is_said() {
    let fs = MemFs::new();
    let mut options = options(&fs);
    options.db.scrub_bytes_per_second = FAST;
    let heard = listened(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    let bytes: u64 = tables(&fs).iter().map(|path| fs.file_size(path).unwrap()).sum();
    // After two more passes, one complete pass has seen the table.
    let passes = db.scrub_state().unwrap().passes;
    while db.scrub_state().unwrap().passes < passes + 2 {
        std::thread::yield_now();
    }
    let state = db.scrub_state().unwrap();
    assert!(state.damaged.is_empty() && state.tables > 0 && state.bytes > bytes / 2, "{state:?}");
    db.close().unwrap();
    assert!(db.scrub_state().is_none() && heard.try_recv().is_err());
}

#[test]
fn a_slow_scrubber_ends_when_the_database_is_closed() {
    let fs = MemFs::new();
    let mut options = options(&fs);
    fill(&Db::open(&options, "/db").unwrap());
    options.db.scrub_bytes_per_second = 1;
    let db = Db::open(&options, "/db").unwrap();
    while db.scrub_state().unwrap().bytes == 0 {
        std::thread::yield_now();
    }
    drop(db);
}

#[test]
fn a_damaged_block_is_reported_and_everything_else_goes_on() {
    let fs = MemFs::new();
    let mut options = options(&fs);
    fill(&Db::open(&options, "/db").unwrap());
    let table = tables(&fs).remove(0);
    damage(&fs, &table, 1050);
    options.db.scrub_bytes_per_second = FAST;
    let heard = listened(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    let (reason, error) = heard.recv().unwrap();
    assert_eq!((reason, error.kind()), (BackgroundErrorReason::Scrub, ErrorKind::Corruption));
    assert!(error.to_string().contains(table.file_name().unwrap().to_str().unwrap()), "{error}");
    let state = db.scrub_state().unwrap();
    assert_eq!(state.damaged.len(), 1);
    assert!(db.background_error().is_none());

    let lost = unreadable(&db);
    assert!(lost.contains(&1050) && lost.len() < 100 && lost.is_sorted_by(|a, b| a + 1 == *b), "{lost:?}");
    // A scan that ends before the damage, one that begins behind it, and batches over it.
    let (first, last) = (lost[0], lost[lost.len() - 1]);
    let scan = |options: ReadOptions| {
        let mut iter = db.iter_opt(options, &db.default_column_family()).unwrap();
        let mut rows = 0;
        iter.seek_to_first();
        while iter.valid() {
            rows += 1;
            iter.next();
        }
        (rows, iter.status().map_err(|e| e.kind()))
    };
    assert_eq!(scan(ReadOptions::default().upper_bound(key(first - 1))), (first - 1, Ok(())));
    assert_eq!(scan(ReadOptions::default().lower_bound(key(last + 1))), (KEYS - last - 1, Ok(())));
    assert_eq!(scan(ReadOptions::default()), (first, Err(ErrorKind::Corruption)));
    let answers = db.multi_get(&[key(0), key(1050), key(KEYS - 1)]);
    assert_eq!(answers.iter().map(|a| a.is_ok()).collect::<Vec<_>>(), [true, false, true]);

    // The lost keys may be written again, and are then right, flushed or not.
    for n in lost {
        db.put(key(n), value(n)).unwrap();
    }
    assert!(unreadable(&db).is_empty());
    db.flush().unwrap();
    assert!(unreadable(&db).is_empty());
    assert!(heard.try_recv().is_err(), "the damage is reported once");
}

#[test]
fn blob_files_are_read_too_and_damage_in_one_costs_only_its_value() {
    let fs = MemFs::new();
    let mut options = options(&fs);
    options.cf.enable_blob_files = true;
    fill(&Db::open(&options, "/db").unwrap());
    let names = fs.children(Path::new("/db")).unwrap();
    let name = names.iter().find(|name| name.ends_with(".blob")).unwrap();
    damage(&fs, &Path::new("/db").join(name), 1050);
    let db = Db::open(&options, "/db").unwrap();
    let found = db.verify_checksum().unwrap_err();
    assert!(found.kind() == ErrorKind::Corruption && found.to_string().contains(name.as_str()), "{found}");
    drop(db);

    options.db.scrub_bytes_per_second = FAST;
    let heard = listened(&mut options);
    let db = Db::open(&options, "/db").unwrap();
    let (reason, error) = heard.recv().unwrap();
    assert_eq!((reason, error.kind()), (BackgroundErrorReason::Scrub, ErrorKind::Corruption));
    assert!(error.to_string().contains(name.as_str()), "{error}");
    while db.scrub_state().unwrap().passes == 0 {
        std::thread::yield_now();
    }
    let state = db.scrub_state().unwrap();
    assert!(state.damaged.len() == 1 && state.blob_files > 0 && state.tables > 0, "{state:?}");
    assert_eq!(unreadable(&db), [1050]);
    assert!(heard.try_recv().is_err(), "the damage is reported once");
}

/// A listener that panics when it is notified of damage.
struct Nervous;

impl EventListener for Nervous {
    fn on_background_error(&self, _reason: BackgroundErrorReason, error: &mut Option<Error>) {
        panic!("touched by {error:?}");
    }
}

#[test]
fn a_listener_that_panics_at_damage_ends_neither_scrubbing_nor_the_process() {
    let fs = MemFs::new();
    let mut options = options(&fs);
    fill(&Db::open(&options, "/db").unwrap());
    damage(&fs, &tables(&fs).remove(0), 1050);
    options.db.scrub_bytes_per_second = FAST;
    options.db.listeners = vec![Arc::new(Nervous)];
    let db = Db::open(&options, "/db").unwrap();
    let state = || db.scrub_state().unwrap();
    while state().passes < 1 {
        assert!(state().damaged.is_empty() || state().tables > 0);
        std::thread::yield_now();
    }
    assert_eq!(state().damaged.len(), 1);
    db.close().unwrap();
}

#[test]
#[cfg(debug_assertions)]
fn a_pass_does_not_go_through_all_files_for_each() {
    const FILES: u64 = 50;
    let fs = MemFs::new();
    let mut options = options(&fs);
    let db = Db::open(&options, "/counted").unwrap();
    for n in 0..FILES as usize {
        db.put(key(n), value(n)).unwrap();
        db.flush().unwrap();
    }
    drop(db);
    let probes = Probes::new();
    let lists = Arc::new(AtomicU64::new(0));
    let counted = lists.clone();
    probes.on("scrub:list", move |path| {
        // The probe is also hit by other tests.
        let is_ours = path.downcast_ref::<PathBuf>().is_some_and(|path| path == Path::new("/counted"));
        counted.fetch_add(u64::from(is_ours), Ordering::Relaxed);
    });
    options.db.scrub_bytes_per_second = FAST;
    let db = Db::open(&options, "/counted").unwrap();
    while db.scrub_state().unwrap().passes == 0 {
        std::thread::yield_now();
    }
    let lists = lists.load(Ordering::Relaxed);
    let state = db.scrub_state().unwrap();
    assert!(state.tables >= FILES, "{state:?}");
    // Each pass lists all files once, and then checks for new ones.
    assert!(lists <= 2 * (state.passes + 1), "{lists} in {state:?}");
}
