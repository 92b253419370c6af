//! File descriptors of this process: how many database files may be open, and which files are
//! closed when descriptors run out.
//!
//! In: the limit of the process (`RLIMIT_NOFILE`), and opens that fail for lack of descriptors.
//! Out: the same open, repeated after unused files of any database were closed.
//!
//! | share of the limit | purpose |
//! |---|---|
//! | a quarter, at least 16 and at most 512 | WALs, MANIFESTs, LOGs, outputs, directories, and the application's own |
//! | the rest | tables and blob files that are open for reading |
//! | half of the rest | tables and blob files that stay open for as long as they live (`max_open_files` = -1) |
//!
//! Invariants
//!  1. The shares are no strict limits: only the system refuses an open.
//!  2. No lock of this module is held while files are closed.

use esker_base::sync::Arc;
use esker_base::sync::fork::PerProcess;
use esker_base::sync::process::Mutex;
use esker_base::sync::process::atomic::{AtomicUsize, Ordering};
use rustix::io::Errno;
use std::sync::Weak;

/// This value means no limit.
const UNLIMITED: usize = usize::MAX / 2;
/// Number of files that the first attempt closes when descriptors run out.
const FIRST_CLOSED: usize = 8;

/// An object that has open files and can close them.
pub trait ClosesFiles: Send + Sync {
    /// Closes up to `count` files, least recently used first, and returns their number. Files that
    /// others use may stay open for a while.
    fn close_unused(&self, count: usize) -> usize;
    /// Number of files that this object keeps open.
    fn open_files(&self) -> usize;
}

/// Objects of this process that hold open files. A forked child has none of its parent's.
static CLOSERS: PerProcess<Mutex<Vec<Weak<dyn ClosesFiles>>>> = PerProcess::new();
/// Files open for random reads.
static DATA_FILES: AtomicUsize = AtomicUsize::new(0);
/// The last answer of [`data_file_limit`].
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// Files that stay open for as long as they live.
static KEPT: AtomicUsize = AtomicUsize::new(0);

fn closers() -> &'static Mutex<Vec<Weak<dyn ClosesFiles>>> {
    CLOSERS.get(|_| Mutex::new(Vec::new()))
}

/// Registers `closer`, which is called when descriptors run out, as long as it lives.
pub fn add_closer(closer: Weak<dyn ClosesFiles>) {
    let mut closers = closers().lock();
    closers.retain(|closer| closer.strong_count() > 0);
    closers.push(closer);
}

/// Number of tables and blob files, of all databases of the process, that may be open for reading.
/// Costs a system call.
pub fn data_file_limit() -> usize {
    let limit = crate::system::open_files_limit().and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.map_or(UNLIMITED, |limit| limit.min(UNLIMITED));
    let limit = limit - (limit / 4).clamp(16, 512).min(limit / 2);
    LIMIT.store(limit, Ordering::Relaxed);
    limit
}

/// Whether `data_files` files may be open. Queries the system's limit only if the number exceeds
/// the last limit.
fn is_allowed(data_files: usize) -> bool {
    data_files <= LIMIT.load(Ordering::Relaxed) || data_files <= data_file_limit()
}

/// Number of files that may stay open for as long as they live. A system call.
pub fn kept_limit() -> usize {
    data_file_limit() / 2
}

/// Number of files that stay open for as long as they live.
#[inline]
pub fn kept_files() -> usize {
    KEPT.load(Ordering::Relaxed)
}

/// Whether one more table or blob file may be opened.
pub fn has_room() -> bool {
    is_allowed(DATA_FILES.load(Ordering::Relaxed) + 1)
}

/// Counts a file that is open for random reads, until it is dropped.
#[derive(Debug)]
pub(crate) struct DataFile(());

impl DataFile {
    /// Counts a file that is about to be opened. Closes unused files if there is no room for it.
    pub(crate) fn new() -> DataFile {
        let open = DATA_FILES.fetch_add(1, Ordering::Relaxed) + 1;
        if !is_allowed(open) {
            close_unused(FIRST_CLOSED.max(open / 16));
        }
        DataFile(())
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        DATA_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a file that is never closed while its reader lives. A drop ends the count.
#[derive(Debug)]
pub struct KeptFile(());

impl KeptFile {
    /// Counts one more file.
    #[expect(clippy::new_without_default, reason = "it counts")]
    pub fn new() -> KeptFile {
        KEPT.fetch_add(1, Ordering::Relaxed);
        KeptFile(())
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Closes `count` unused files, from each holder in proportion to its files. Returns the number of
/// released files.
fn close_unused(count: usize) -> usize {
    let closers: Vec<Arc<dyn ClosesFiles>> = closers().lock().iter().filter_map(Weak::upgrade).collect();
    let open: Vec<usize> = closers.iter().map(|closer| closer.open_files()).collect();
    let all = open.iter().sum::<usize>().max(1);
    let share = |open: usize| (count * open).div_ceil(all);
    closers
        .iter()
        .zip(open)
        .filter(|(_, open)| *open > 0)
        .map(|(closer, open)| closer.close_unused(share(open)))
        .sum()
}

/// Calls `open`. As long as descriptors run out, closes unused files and calls it again.
pub(crate) fn with_descriptor<T>(mut open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut count = FIRST_CLOSED;
    loop {
        let failed = match open() {
            Err(e @ (Errno::MFILE | Errno::NFILE)) => e,
            done => return done,
        };
        // The limit may have been lowered.
        data_file_limit();
        if close_unused(count) == 0 {
            return Err(failed);
        }
        count = count.saturating_mul(2).min(UNLIMITED / 1024);
    }
}

#[cfg(test)]
mod tests;
