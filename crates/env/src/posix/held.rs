//! Held directories: paths below them follow the directories, not their names.
//!
//! In: the directories of a database. Out: a file system that resolves a path below one of them
//! from its descriptor. A renamed directory is still the same. A removed one has no files any more,
//! and a new directory under its path is never touched. Once `LOCK` is locked, nothing is created,
//! renamed or deleted in the directories unless `LOCK` is still the locked file.
//!
//! Invariants
//!  1. A path below a held directory is never resolved by its name from the root.
//!  2. In a forked child nothing in the directories is changed.

use super::{At, Places, failed, lock, open};
use esker_base::Result;
use esker_base::sync::OnceLock;
use esker_base::sync::fork::ProcessOwner;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use std::path::{Path, PathBuf};

/// A file system that holds some directories. See the head of the file.
#[derive(Debug)]
pub(super) struct HeldDirectories {
    owner: ProcessOwner,
    /// Absolute paths.
    directories: Vec<(PathBuf, OwnedFd)>,
    /// The inode of `LOCK` when it was locked.
    locked: OnceLock<(PathBuf, lock::Inode)>,
}

impl HeldDirectories {
    /// Opens the directories.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    pub(super) fn new(paths: &[&Path]) -> Result<HeldDirectories> {
        let mut directories: Vec<(PathBuf, OwnedFd)> = Vec::with_capacity(paths.len());
        for path in paths {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            directories.push(((*path).to_owned(), open("open directory", &At::by_path(path), flags)?));
        }
        // Of two nested directories the inner one resolves the path.
        directories.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        Ok(HeldDirectories { owner: ProcessOwner::here(), directories, locked: OnceLock::new() })
    }
}

impl Places for HeldDirectories {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        for (directory, fd) in &self.directories {
            if let Ok(name) = path.strip_prefix(directory) {
                let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
                return At { dir: fd.as_fd(), name, path, is_held: true };
            }
        }
        At::by_path(path)
    }

    fn check_may_change(&self, at: &At<'_>) -> Result<()> {
        if !at.is_held {
            return Ok(());
        }
        self.owner.check(at.path.display())?;
        let Some((path, inode)) = self.locked.get() else { return Ok(()) };
        match lock::inode_at(&self.at(path)) {
            Ok(there) if there == Some(*inode) => Ok(()),
            Ok(_) => Err(lock::replaced(path)),
            Err(e) => Err(failed("stat", path, e)),
        }
    }

    fn note_lock(&self, at: &At<'_>, inode: lock::Inode) {
        if at.is_held {
            self.locked.get_or_init(|| (at.path.to_owned(), inode));
        }
    }
}
