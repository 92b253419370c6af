//! Files that wait to be deleted, and the thread that deletes them at the manager's rate.
//!
//! In: renamed files. Out: the files are deleted. The first is deleted at once, each further one
//! when the rate has paid for the bytes before it. A file that cannot be deleted is logged and left
//! for the next opening.
//!
//! The thread starts with the first file and ends with the manager; files that still wait stay.

use super::{Settings, Tracked};
use crate::clock::Clock;
use crate::fs::FileSystem;
use crate::thread_pool::spawn;
use esker_base::logger::InfoLog;
use esker_base::stats::{Statistics, Ticker, record_tick};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::thread::{JoinHandle, current};
use esker_base::sync::{Arc, Condvar, Mutex};
use esker_base::{Result, SubCode};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest single wait, because a clock of a test may jump.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// One file that waits.
#[derive(Clone)]
pub(super) struct TrashFile {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) info_log: Arc<dyn InfoLog>,
    pub(super) statistics: Option<Arc<Statistics>>,
    /// The path, with the suffix `.trash`.
    pub(super) path: PathBuf,
    /// Its size; 0 if unknown.
    pub(super) bytes: u64,
}

pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Notified when a file was added or removed, when the rate changed, or when the manager ends.
    changed: Condvar,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) tracked: Tracked,
    queue: VecDeque<TrashFile>,
    pub(super) trash_bytes: u64,
    /// The time at which the next deletion may begin, in monotonic nanoseconds.
    allowed_at: u64,
    /// A step of the front file is under way.
    is_deleting: bool,
    thread: Option<JoinHandle<()>>,
    is_closing: bool,
}

impl Shared {
    pub(super) fn new(clock: Arc<dyn Clock>, settings: Arc<Settings>) -> Shared {
        Shared { state: Mutex::new(State::default()), changed: Condvar::new(), clock, settings }
    }

    /// Queues a file that was called `path`. Returns false if the system refuses a thread.
    pub(super) fn push(self: &Arc<Self>, path: &Path, file: TrashFile) -> bool {
        let mut state = self.state.lock();
        if state.tracked.remove(path).is_some() {
            state.tracked.add(file.path.clone(), file.bytes);
        }
        if state.thread.is_none() {
            let shared = self.clone();
            state.thread = spawn("esker:trash", move || shared.run()).ok();
        }
        if state.thread.is_none() {
            return false;
        }
        state.trash_bytes += file.bytes;
        state.queue.push_back(file);
        self.changed.notify_all();
        true
    }

    pub(super) fn rate_changed(&self) {
        self.state.lock().allowed_at = 0;
        self.changed.notify_all();
    }

    pub(super) fn wait_for_empty_trash(&self) {
        let mut state = self.state.lock();
        while !state.queue.is_empty() && !state.is_closing {
            self.changed.wait(&mut state);
        }
    }

    /// Removes the files for which `gone` is true from all lists. Waits until a step of the front
    /// file has ended.
    pub(super) fn forget(&self, gone: &dyn Fn(&Path) -> bool) {
        let mut state = self.state.lock();
        let under_way = usize::from(state.is_deleting);
        state.forget_queued(under_way, gone);
        while state.is_deleting && state.queue.front().is_some_and(|file| gone(&file.path)) {
            self.changed.wait(&mut state);
        }
        state.forget_queued(0, gone);
        state.tracked.remove_all(gone);
        self.changed.notify_all();
    }

    /// Ends the thread. Files that wait stay.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closing = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        // A file system that holds the manager may drop the last reference on this thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != current().id()) {
            thread.join().expect("the thread does not panic");
        }
    }

    /// The life of the thread.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closing {
            let Some(file) = state.queue.front().cloned() else {
                self.changed.wait(&mut state);
                continue;
            };
            let (now, rate) = (self.clock.monotonic_nanos(), self.settings.rate());
            let wait = if rate == 0 { 0 } else { state.allowed_at.saturating_sub(now) };
            if wait > 0 {
                let wait = Duration::from_nanos(wait).min(LONGEST_WAIT);
                let _timed_out = self.changed.wait_for(&mut state, wait);
                continue;
            }
            state.is_deleting = true;
            drop(state);
            let step = self.delete_some(&file);
            state = self.state.lock();
            state.is_deleting = false;
            state.allowed_at = now.max(state.allowed_at).saturating_add(cost_nanos(step.bytes, rate));
            state.finish(&file, step);
            self.changed.notify_all();
        }
    }

    /// Deletes the file, or shortens it by a chunk.
    fn delete_some(&self, file: &TrashFile) -> Step {
        let chunk = self.settings.bytes_max_delete_chunk.load(Ordering::Relaxed);
        if chunk > 0 && file.bytes > chunk && file.fs.link_count(&file.path).is_ok_and(|links| links == 1) {
            match file.shorten(file.bytes - chunk) {
                Ok(()) => return Step { bytes: chunk, left: Some(file.bytes - chunk), is_gone: false },
                Err(e) => esker_base::info_log!(file.info_log, Warn, "Could not shorten a trash file: {e}"),
            }
        }
        let is_gone = match file.delete() {
            Ok(()) => true,
            Err(e) => {
                let is_gone = e.subcode() == SubCode::PathNotFound;
                if !is_gone {
                    esker_base::info_log!(file.info_log, Warn, "Could not delete a trash file: {e}");
                }
                is_gone
            }
        };
        record_tick(&file.statistics, Ticker::FilesDeletedFromTrashQueue, 1);
        Step { bytes: file.bytes, left: None, is_gone }
    }
}

/// A step of a deletion.
struct Step {
    /// Bytes that count against the rate.
    bytes: u64,
    /// The remaining size, if the file was only shortened.
    left: Option<u64>,
    is_gone: bool,
}

impl State {
    /// Removes the files for which `gone` is true from the queue, from this place on.
    fn forget_queued(&mut self, from: usize, gone: &dyn Fn(&Path) -> bool) {
        for file in self.queue.split_off(from.min(self.queue.len())) {
            if gone(&file.path) {
                self.trash_bytes -= file.bytes;
            } else {
                self.queue.push_back(file);
            }
        }
    }

    fn finish(&mut self, file: &TrashFile, step: Step) {
        self.trash_bytes -= step.bytes;
        match step.left {
            Some(left) => {
                if let Some(front) = self.queue.front_mut() {
                    front.bytes = left;
                }
                if self.tracked.files.contains_key(&file.path) {
                    self.tracked.add(file.path.clone(), left);
                }
            }
            None => {
                self.queue.pop_front();
            }
        }
        if step.is_gone {
            self.tracked.remove(&file.path);
        }
    }
}

impl TrashFile {
    fn shorten(&self, bytes: u64) -> Result<()> {
        let mut file = self.fs.reopen_writable_file(&self.path)?;
        file.truncate(bytes)?;
        file.fsync()?;
        file.close()
    }

    /// Deletes it, and syncs the directory so that its blocks are freed now.
    fn delete(&self) -> Result<()> {
        self.fs.delete_file(&self.path)?;
        self.path.parent().map_or(Ok(()), |dir| self.fs.new_directory(dir)?.fsync())
    }
}

/// The time that `bytes` take at `rate` bytes a second.
pub(super) fn cost_nanos(bytes: u64, rate: u64) -> u64 {
    if rate == 0 {
        return 0;
    }
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
}
