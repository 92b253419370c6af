//! Scrubbing: reads and checks all tables and blob files in the background, one after the other,
//! repeatedly, at a set rate.
//!
//! In: `scrub_bytes_per_second`. Out: each pass checks every live file as `Db::verify_checksum`
//! does, and reports damage: an error in LOG, `EventListener::on_background_error` with the reason
//! `Scrub`, `Db::scrub_state`. The database continues to work: only reads of damaged blocks fail.
//!
//! Invariants
//!  1. From a file's begin to each of its blocks or records, the rate is not exceeded. If a rate
//!     limiter applies to reads, it is obeyed, too.
//!  2. A scrubber holds no lock and no super version while it reads or waits, only its current
//!     file.
//!  3. Dropping a `Scrubber` waits for the end of its thread.

use super::Engine;
use crate::files::open_table::open_file;
use crate::version::FileMeta;
use crate::version::blob_meta::LiveBlobFile;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::sync::thread::{JoinHandle, current};
use esker_base::sync::{Arc, Condvar, Mutex, Weak};
use esker_base::{Error, FileNumber, Result};
use esker_env::rate_limiter::{IoKind, IoPriority};
use esker_env::thread_pool::spawn;
use esker_table::TableCache;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// The least time between two passes, in seconds, so that a small database is not read all the
/// time.
const SHORTEST_PASS: u64 = 1;

/// The progress and findings of scrubbing since the database was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ScrubState {
    /// Completed passes over all files.
    pub passes: u64,
    /// Tables checked.
    pub tables: u64,
    /// Blob files checked.
    pub blob_files: u64,
    /// Bytes of data blocks and of blob records checked.
    pub bytes: u64,
    /// Damaged tables and blob files, with the error of reading them. An entry is removed when its
    /// file is deleted.
    pub damaged: BTreeMap<FileNumber, Error>,
}

/// The thread of a database that is scrubbed.
pub(crate) struct Scrubber {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<ScrubState>,
    is_over: AtomicBool,
    /// The lock for the thread's wait. A caller that ends the wait locks it, too.
    waiting: Mutex<()>,
    over: Condvar,
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scrubber({:?})", *self.shared.state.lock())
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        let waiting = self.shared.waiting.lock();
        self.shared.is_over.store(true, Ordering::Release);
        drop(waiting);
        self.shared.over.notify_all();
        // The thread itself may drop the last handle of the engine, and must not wait for itself.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != current().id()) {
            thread.join().expect("the scrubber does not panic");
        }
    }
}

impl Scrubber {
    /// The scrubber's progress and findings so far.
    pub(crate) fn state(&self) -> ScrubState {
        self.shared.state.lock().clone()
    }
}

impl Shared {
    /// Waits for `time`, or until the scrubber is stopped.
    fn wait(&self, time: Duration) {
        let mut waiting = self.waiting.lock();
        if !time.is_zero() && !self.is_over.load(Ordering::Acquire) {
            let _timed_out = self.over.wait_for(&mut waiting, time);
        }
    }
}

/// Starts scrubbing, if the options request it.
pub(crate) fn begin_scrubbing(engine: &Arc<Engine>) {
    let rate = engine.options.scrub_bytes_per_second;
    if rate == 0 {
        return;
    }
    let shared = Arc::new(Shared {
        state: Mutex::new(ScrubState::default()),
        is_over: AtomicBool::new(false),
        waiting: Mutex::new(()),
        over: Condvar::new(),
    });
    let (weak, of_thread) = (Arc::downgrade(engine), Arc::clone(&shared));
    match spawn("esker:scrub", move || run(&weak, &of_thread, rate)) {
        Ok(thread) => *engine.scrubber.lock() = Some(Scrubber { shared, thread: Some(thread) }),
        Err(e) => {
            esker_base::info_log!(engine.info_log, Warn, "No scrubbing until threads can be had: {e}");
            engine.threads_refused.store(true, Ordering::Release);
        }
    }
}

/// The thread's function: pass after pass, until it is stopped.
fn run(engine: &Weak<Engine>, shared: &Shared, rate: u64) {
    while !shared.is_over.load(Ordering::Acquire) {
        let Some(begin) = engine.upgrade().map(|engine| engine.env.clock.monotonic_nanos()) else { return };
        if pass(engine, shared, rate) {
            shared.state.lock().passes += 1;
        }
        let Some(engine) = engine.upgrade() else { return };
        let spent = engine.env.clock.monotonic_nanos() - begin;
        drop(engine);
        shared.wait(Duration::from_secs(SHORTEST_PASS).saturating_sub(Duration::from_nanos(spent)));
    }
}

/// A file to check, with the reference that keeps it on disk.
enum Scrubbed {
    Table(Arc<FileMeta>),
    Blobs(Arc<LiveBlobFile>),
}

impl Listed {
    fn hold(&self) -> Option<Scrubbed> {
        match self {
            Listed::Table(file) => file.upgrade().map(Scrubbed::Table),
            Listed::Blobs(file) => file.upgrade().map(Scrubbed::Blobs),
        }
    }
}

impl Scrubbed {
    fn number(&self) -> FileNumber {
        match self {
            Scrubbed::Table(file) => file.number,
            Scrubbed::Blobs(file) => file.number(),
        }
    }
}

/// A file to check later; it may be deleted meanwhile.
enum Listed {
    Table(Weak<FileMeta>),
    Blobs(Weak<LiveBlobFile>),
}

/// Checks each file once; returns false if the scrubber was stopped.
fn pass(engine: &Weak<Engine>, shared: &Shared, rate: u64) -> bool {
    // Files may have appeared since the list was made, and listed files may have gone, perhaps to
    // another level.
    let (mut last, mut missed) = (None, BTreeSet::new());
    loop {
        let Some(strong) = engine.upgrade() else { return false };
        let listed = list(&strong, last, &std::mem::take(&mut missed));
        if listed.is_empty() {
            forget_gone(&strong, shared);
            return true;
        }
        drop(strong);
        for (number, (tables, listed)) in listed {
            last = last.max(Some(number));
            let Some(strong) = engine.upgrade().filter(|_| !shared.is_over.load(Ordering::Acquire)) else {
                return false;
            };
            let Some(file) = listed.hold() else {
                missed.insert(number);
                continue;
            };
            let checked = check(&strong, &tables, &file, shared, rate);
            if shared.is_over.load(Ordering::Acquire) {
                return false;
            }
            note(&strong, shared, &file, checked);
        }
    }
}

/// Reports the result of a check.
fn note(engine: &Engine, shared: &Shared, file: &Scrubbed, checked: Result<()>) {
    let mut state = shared.state.lock();
    match file {
        Scrubbed::Table(_) => state.tables += 1,
        Scrubbed::Blobs(_) => state.blob_files += 1,
    }
    let Err(e) = checked else { return };
    let is_known = state.damaged.insert(file.number(), e.clone()).is_some();
    drop(state);
    if !is_known {
        engine.report_damage_found(&e);
    }
}

/// Checks one file, slowly.
fn check(engine: &Engine, tables: &TableCache, file: &Scrubbed, shared: &Shared, rate: u64) -> Result<()> {
    let clock = engine.env.clock.as_ref();
    let (begin, mut before) = (clock.monotonic_nanos(), 0);
    let nanos_for =
        |bytes: u64| u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX);
    let mut goes_on = |bytes: u64| {
        let more = bytes - std::mem::replace(&mut before, bytes);
        shared.state.lock().bytes += more;
        if let Some(limiter) = &engine.options.rate_limiter {
            let statistics = engine.options.statistics.as_deref();
            limiter.request(more, IoPriority::Low, IoKind::Read, clock, statistics);
        }
        let due = begin.saturating_add(nanos_for(bytes));
        shared.wait(Duration::from_nanos(due.saturating_sub(clock.monotonic_nanos())));
        !shared.is_over.load(Ordering::Acquire)
    };
    match file {
        Scrubbed::Table(file) => open_file(tables, file)?.verify(&mut goes_on),
        Scrubbed::Blobs(file) => {
            let reader = tables.blobs().reader(file.number())?;
            reader.for_each_record(&mut |record| {
                reader.decompress(record)?;
                match goes_on(record.offset + record.stored.len() as u64) {
                    true => Ok(()),
                    false => Err(Error::aborted("scrubbing was ended")),
                }
            })
        }
    }
}

/// Removes findings about files that are not live.
fn forget_gone(engine: &Engine, shared: &Shared) {
    if shared.state.lock().damaged.is_empty() {
        return;
    }
    let super_versions: Vec<_> =
        engine.families.all().iter().map(|family| family.super_version.load_full()).collect();
    let live: HashSet<FileNumber> = super_versions.iter().flat_map(|v| v.version.live_files()).collect();
    shared.state.lock().damaged.retain(|number, _| live.contains(number));
}

/// The live files with numbers above `last`, and those in `missed`, in the form to open them later.
/// One pass lists all files: a search for each would iterate over all files.
fn list(
    engine: &Engine,
    last: Option<FileNumber>,
    missed: &BTreeSet<FileNumber>,
) -> BTreeMap<FileNumber, (Arc<TableCache>, Listed)> {
    esker_base::probe!("scrub:list", &mut engine.path.clone());
    let is_due = |number: FileNumber| Some(number) > last || missed.contains(&number);
    let mut listed = BTreeMap::new();
    for family in engine.families.all() {
        let super_version = family.super_version.load_full();
        let tables =
            super_version.version.all_files().map(|(_, f)| (f.number, Listed::Table(Arc::downgrade(f))));
        let blobs = super_version.version.live_blob_files().values();
        let blobs = blobs.map(|file| (file.number(), Listed::Blobs(Arc::downgrade(file))));
        let due = tables.chain(blobs).filter(|(number, _)| is_due(*number));
        listed.extend(due.map(|(number, file)| (number, (family.tables.clone(), file))));
    }
    listed
}
