//! Tracks table and blob files: limits their space and the rate at which they are deleted.
//!
//! In: databases report files that they make, compact and delete. Out: totals, whether there is
//! room for more, and files that are deleted at a given rate. Several databases may share a
//! manager. Fast deletion of large files stalls other requests of an SSD, which discards their
//! blocks. Names, defaults and semantics are those of RocksDB's
//! `include/rocksdb/sst_file_manager.h`.
//!
//! Invariants
//!  1. A file that is deleted slowly is first renamed to `<name>.trash`: no database opens it
//!     again, and the next opening of its database deletes it.
//!  2. Once [`SstFileManager::forget_directories`] returns, the manager changes no file there.
//!  3. No file system is called while the lock is held.
//!  4. A forked child tracks no files of its parent.

mod trash;

use crate::clock::Clock;
use crate::fs::FileSystem;
use esker_base::Result;
use esker_base::logger::InfoLog;
use esker_base::stats::{Statistics, Ticker, record_tick};
use esker_base::sync::Arc;
use esker_base::sync::fork::PerProcess;
use esker_base::sync::process::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use trash::{Shared, TrashFile};

/// The suffix of files that wait to be deleted.
pub const TRASH_SUFFIX: &str = ".trash";

/// The settings that a manager begins with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SstFileManagerOptions {
    /// Bytes deleted per second; 0: files are deleted at once. Default 0.
    pub rate_bytes_per_sec: u64,
    /// The most trash, as a fraction of all tracked bytes. Above it files are deleted at once.
    /// Default 0.25.
    pub max_trash_db_ratio: f64,
    /// The step in bytes by which a larger file is shortened before it is deleted, if it has only
    /// one name. 0: files are deleted whole. Another process that has the file open then finds it
    /// damaged. Default 64 MiB.
    pub bytes_max_delete_chunk: u64,
}

impl Default for SstFileManagerOptions {
    fn default() -> SstFileManagerOptions {
        SstFileManagerOptions {
            rate_bytes_per_sec: 0,
            max_trash_db_ratio: 0.25,
            bytes_max_delete_chunk: 64 << 20,
        }
    }
}

/// Tracks the table and blob files of one or more databases. Knows their total size, limits it, and
/// limits the rate at which obsolete files are deleted. Goes into `DbOptions::sst_file_manager`.
///
/// A database reports each file when it makes it and when it deletes it. A report costs one lock
/// and one hash table access.
pub struct SstFileManager {
    shared: PerProcess<Arc<Shared>>,
    clock: Arc<dyn Clock>,
    settings: Arc<Settings>,
}

/// Settings. They lie outside the lock, because a forked child reads those of its parent.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    max_allowed_space: AtomicU64,
    compaction_buffer_size: AtomicU64,
    rate_bytes_per_sec: AtomicU64,
    /// The bits of an `f64`.
    max_trash_db_ratio: AtomicU64,
    bytes_max_delete_chunk: AtomicU64,
}

/// The tracked files.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    files: HashMap<PathBuf, u64>,
    total: u64,
    /// Bytes that running compactions may add.
    reserved: u64,
}

impl Tracked {
    fn add(&mut self, path: PathBuf, bytes: u64) {
        self.total += bytes;
        self.total -= self.files.insert(path, bytes).unwrap_or(0);
    }

    fn remove(&mut self, path: &Path) -> Option<u64> {
        let bytes = self.files.remove(path)?;
        self.total -= bytes;
        Some(bytes)
    }

    fn remove_all(&mut self, gone: &dyn Fn(&Path) -> bool) {
        let total = &mut self.total;
        self.files.retain(|path, bytes| {
            let stays = !gone(path);
            *total -= if stays { 0 } else { *bytes };
            stays
        });
    }
}

/// The parts of a database that a deletion of its file uses.
#[derive(Clone, Copy)]
pub struct Deleter<'a> {
    /// The file system of the database.
    pub fs: &'a Arc<dyn FileSystem>,
    /// The info log of the database, for background deletions that fail.
    pub info_log: &'a Arc<dyn InfoLog>,
    /// The statistics of the database.
    pub statistics: &'a Option<Arc<Statistics>>,
}

impl fmt::Debug for Deleter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deleter({:?})", self.fs)
    }
}

impl SstFileManager {
    /// A manager without files and without limits. `clock` times deletions.
    pub fn new(clock: Arc<dyn Clock>, options: SstFileManagerOptions) -> SstFileManager {
        let manager =
            SstFileManager { shared: PerProcess::new(), clock, settings: Arc::new(Settings::default()) };
        manager.set_delete_rate_bytes_per_second(options.rate_bytes_per_sec);
        manager.set_max_trash_db_ratio(options.max_trash_db_ratio);
        manager.settings.bytes_max_delete_chunk.store(options.bytes_max_delete_chunk, Ordering::Relaxed);
        manager
    }

    fn shared(&self) -> &Arc<Shared> {
        self.shared.get(|_| Arc::new(Shared::new(self.clock.clone(), self.settings.clone())))
    }

    /// Limits the size of all tracked files. At the limit a flush stops writes and a compaction
    /// fails, both with `IoError` and `SubCode::SpaceLimit`. 0: no limit, the default.
    pub fn set_max_allowed_space_usage(&self, bytes: u64) {
        self.settings.max_allowed_space.store(bytes, Ordering::Relaxed);
    }

    /// Sets the bytes below the limit that each compaction must leave free for flushes. Default 0.
    pub fn set_compaction_buffer_size(&self, bytes: u64) {
        self.settings.compaction_buffer_size.store(bytes, Ordering::Relaxed);
    }

    /// Whether the tracked files have reached the limit.
    pub fn is_max_allowed_space_reached(&self) -> bool {
        self.settings.is_reached(self.shared().state.lock().tracked.total)
    }

    /// Whether the tracked files, with all that running compactions may add, have reached the
    /// limit.
    pub fn is_max_allowed_space_reached_including_compactions(&self) -> bool {
        let state = self.shared().state.lock();
        self.settings.is_reached(state.tracked.total + state.tracked.reserved)
    }

    /// Bytes of all tracked files, trash included.
    pub fn total_size(&self) -> u64 {
        self.shared().state.lock().tracked.total
    }

    /// All tracked files and their sizes. Copies the table.
    pub fn tracked_files(&self) -> HashMap<PathBuf, u64> {
        self.shared().state.lock().tracked.files.clone()
    }

    /// Bytes deleted per second; 0: at once.
    pub fn delete_rate_bytes_per_second(&self) -> u64 {
        self.settings.rate()
    }

    /// Changes the rate, also for files that already wait.
    pub fn set_delete_rate_bytes_per_second(&self, rate: u64) {
        self.settings.rate_bytes_per_sec.store(rate, Ordering::Relaxed);
        if let Some(shared) = self.shared.here() {
            shared.rate_changed();
        }
    }

    /// The most trash, as a fraction of all tracked bytes. Above it files are deleted at once.
    pub fn max_trash_db_ratio(&self) -> f64 {
        f64::from_bits(self.settings.max_trash_db_ratio.load(Ordering::Relaxed))
    }

    /// Changes the fraction of [`SstFileManager::max_trash_db_ratio`]; a negative one counts as 0.
    pub fn set_max_trash_db_ratio(&self, ratio: f64) {
        self.settings.max_trash_db_ratio.store(ratio.max(0.0).to_bits(), Ordering::Relaxed);
    }

    /// Bytes of the files that wait to be deleted.
    pub fn total_trash_size(&self) -> u64 {
        self.shared().state.lock().trash_bytes
    }

    /// Waits until no trash is left. With rate 0 there is no trash.
    pub fn wait_for_empty_trash(&self) {
        self.shared().wait_for_empty_trash();
    }

    /// For databases: reports a file that was made or has changed its size.
    pub fn on_add_file(&self, path: &Path, bytes: u64) {
        self.shared().state.lock().tracked.add(path.to_owned(), bytes);
    }

    /// For databases: reports a file that was deleted.
    pub fn on_delete_file(&self, path: &Path) {
        self.shared().state.lock().tracked.remove(path);
    }

    /// For databases: reserves room for a compaction of `input_bytes`. `None`: there is not enough.
    pub fn reserve_for_compaction(self: &Arc<Self>, input_bytes: u64) -> Option<CompactionRoom> {
        let mut state = self.shared().state.lock();
        let tracked = &mut state.tracked;
        let limit = self.settings.max_allowed_space.load(Ordering::Relaxed);
        let buffer = self.settings.compaction_buffer_size.load(Ordering::Relaxed);
        let needed =
            [tracked.reserved, input_bytes, buffer].into_iter().fold(tracked.total, u64::saturating_add);
        if limit > 0 && needed > limit {
            return None;
        }
        tracked.reserved += input_bytes;
        Some(CompactionRoom { manager: self.clone(), bytes: input_bytes })
    }

    /// For databases: deletes a file, at once or slowly. A slow deletion renames the file and
    /// returns. The trash keeps the tracked bytes of the file.
    /// # Errors
    /// `IoError`: the file still exists under its name, or did not exist.
    pub fn delete_file(&self, deleter: Deleter<'_>, path: &Path) -> Result<()> {
        let shared = self.shared();
        if self.deletes_at_once(shared) {
            return self.delete_now(deleter, path);
        }
        let in_trash = in_trash(path);
        if in_trash != path && deleter.fs.rename(path, &in_trash).is_err() {
            return self.delete_now(deleter, path);
        }
        let bytes = deleter.fs.file_size(&in_trash).unwrap_or(0);
        let is_queued = shared.push(
            path,
            TrashFile {
                fs: deleter.fs.clone(),
                info_log: deleter.info_log.clone(),
                statistics: deleter.statistics.clone(),
                path: in_trash.clone(),
                bytes,
            },
        );
        if !is_queued {
            // The operating system has refused a thread for slow deletions.
            return self.delete_now(deleter, &in_trash);
        }
        record_tick(deleter.statistics, Ticker::FilesMarkedTrash, 1);
        Ok(())
    }

    fn deletes_at_once(&self, shared: &Shared) -> bool {
        let state = shared.state.lock();
        let most = state.tracked.total as f64 * self.max_trash_db_ratio();
        self.settings.rate() == 0 || state.trash_bytes as f64 > most
    }

    fn delete_now(&self, deleter: Deleter<'_>, path: &Path) -> Result<()> {
        deleter.fs.delete_file(path)?;
        self.on_delete_file(path);
        record_tick(deleter.statistics, Ticker::FilesDeletedImmediately, 1);
        Ok(())
    }

    /// For databases: forgets all files in these directories. Waits for a deletion in progress
    /// there. Trash stays until the next opening of the database.
    pub fn forget_directories(&self, dirs: &[&Path]) {
        self.shared().forget(&|path| path.parent().is_some_and(|parent| dirs.contains(&parent)));
    }
}

/// The name that `path` has while it waits to be deleted.
fn in_trash(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    if !name.as_encoded_bytes().ends_with(TRASH_SUFFIX.as_bytes()) {
        name.push(TRASH_SUFFIX);
    }
    name.into()
}

impl Settings {
    fn rate(&self) -> u64 {
        self.rate_bytes_per_sec.load(Ordering::Relaxed)
    }

    fn is_reached(&self, bytes: u64) -> bool {
        let limit = self.max_allowed_space.load(Ordering::Relaxed);
        limit > 0 && bytes >= limit
    }
}

/// Space reserved for a running compaction. Dropping it returns the space.
pub struct CompactionRoom {
    manager: Arc<SstFileManager>,
    bytes: u64,
}

impl Drop for CompactionRoom {
    fn drop(&mut self) {
        self.manager.shared().state.lock().tracked.reserved -= self.bytes;
    }
}

impl fmt::Debug for CompactionRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactionRoom({} bytes)", self.bytes)
    }
}

impl Drop for SstFileManager {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.here() {
            shared.close();
        }
    }
}

impl fmt::Debug for SstFileManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SstFileManager({} bytes, {:?})", self.total_size(), self.settings)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
