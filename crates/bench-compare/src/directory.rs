//! The directory for the databases of a run, on a disk with enough space.
//!
//! Invariants
//!  1. A run deletes only files in a directory that has the mark.
//!  2. A run removes its directory and the mark at its end.

use crate::engine::RivalResult;
use rustix::fs::{Advice, fadvise};
use std::path::{Path, PathBuf};

/// The mark: a file in each directory that belongs to a run.
const MARK: &str = "ESKER-COMPARE";

/// Prefix of the names of default directories; the process id follows.
const PREFIX: &str = "esker-compare-";

/// Removes the default directories of killed runs. Leaves the directories of other users, which it
/// cannot remove.
fn remove_orphans(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        let is_dead = process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
        if is_dead && entry.path().join(MARK).exists() {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// A directory for one run. A drop of this value removes the directory.
#[derive(Debug)]
pub(crate) struct WorkDirectory {
    path: PathBuf,
}

impl WorkDirectory {
    /// Empties the directory `wanted`, or makes a default directory, and marks it.
    /// # Errors
    /// The directory cannot be made, emptied or marked · it has files and no mark · fewer than
    /// `needed_bytes` are free on the disk.
    pub(crate) fn take(wanted: Option<&Path>, needed_bytes: u64) -> RivalResult<WorkDirectory> {
        let path = match wanted {
            Some(path) => path.to_owned(),
            None => {
                let parent = default_parent();
                remove_orphans(&parent);
                parent.join(format!("{PREFIX}{}", std::process::id()))
            }
        };
        let text = |e: std::io::Error| format!("--directory {}: {e}", path.display());
        std::fs::create_dir_all(&path).map_err(text)?;
        let is_ours = path.join(MARK).exists();
        let is_empty = std::fs::read_dir(&path).map_err(text)?.next().is_none();
        if !is_ours && !is_empty {
            return Err(format!(
                "--directory {}: it holds something else; name an empty directory or a new one",
                path.display()
            ));
        }
        std::fs::remove_dir_all(&path).map_err(text)?;
        std::fs::create_dir_all(&path).map_err(text)?;
        std::fs::write(path.join(MARK), "databases of esker-compare; may be deleted\n").map_err(text)?;
        let directory = WorkDirectory { path };
        directory.check_room(needed_bytes)?;
        Ok(directory)
    }

    fn check_room(&self, needed: u64) -> RivalResult<()> {
        let disk = rustix::fs::statvfs(&self.path).map_err(|e| format!("{}: {e}", self.path.display()))?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free < needed {
            return Err(format!(
                "{}: {} MB are free, and the run needs up to {} MB: name another --directory, or a smaller --num",
                self.path.display(),
                free >> 20,
                needed >> 20
            ));
        }
        Ok(())
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDirectory {
    #[expect(clippy::print_stderr, reason = "a command-line tool says what it leaves")]
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("{} is left over: {error}", self.path.display());
        }
    }
}

/// Syncs the files below `dir`, and drops their pages from the page cache by `posix_fadvise(2)`.
/// Pages of a file that a process has mapped stay.
/// # Errors
/// The directory or a file cannot be read or synced.
pub(crate) fn drop_page_cache(dir: &Path) -> RivalResult<()> {
    let fail = |e: std::io::Error| format!("{}: {e}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if entry.file_type().map_err(fail)?.is_dir() {
            drop_page_cache(&entry.path())?;
            continue;
        }
        let file = std::fs::File::open(entry.path()).map_err(fail)?;
        // Only pages that are written can be dropped.
        file.sync_all().map_err(fail)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|e| fail(e.into()))?;
    }
    Ok(())
}

/// The directory of shared memory if it exists; otherwise the temporary directory.
fn default_parent() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}
