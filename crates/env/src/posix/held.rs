//! Held directories: paths below them are resolved from the open directories, not by their names.
//!
//! In: the directories of a database; more of them while it is open. Out: a file system that
//! resolves a path below one of them from its descriptor. A directory that was renamed is still
//! found. A directory that was removed has no files, and a new one under its path is never touched.
//! Once `LOCK` is locked, nothing is created, renamed or deleted in the directories unless `LOCK`
//! is still the locked file.
//!
//! Invariants
//!  1. A path below a held directory is never resolved by its name from the root.
//!  2. A forked child changes nothing in the directories.

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
    directories: OnceLock<Box<OpenDirectory>>,
    /// The inode of `LOCK` when it was locked.
    locked: OnceLock<(PathBuf, lock::Inode)>,
}

/// One directory, and the next one of the list. The list only grows, so a path may borrow a
/// descriptor from it.
#[derive(Debug)]
struct OpenDirectory {
    /// Absolute.
    path: PathBuf,
    fd: OwnedFd,
    next: OnceLock<Box<OpenDirectory>>,
}

impl HeldDirectories {
    /// Opens the directories.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    pub(super) fn new(paths: &[&Path]) -> Result<HeldDirectories> {
        let owner = ProcessOwner::here();
        let held = HeldDirectories { owner, directories: OnceLock::new(), locked: OnceLock::new() };
        paths.iter().try_for_each(|path| held.add(path)).map(|()| held)
    }

    /// Opens one more directory, unless it is held under this path.
    fn add(&self, path: &Path) -> Result<()> {
        if self.all().any(|held| held.path == path) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = open("open directory", &At::by_path(path), flags)?;
        let mut new = Some(Box::new(OpenDirectory { path: path.to_owned(), fd, next: OnceLock::new() }));
        let mut last = &self.directories;
        while let Some(held) = new.take() {
            let mut unused = Some(held);
            let there = last.get_or_init(|| unused.take().expect("the path is resolved once"));
            (last, new) = (&there.next, unused);
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &OpenDirectory> {
        std::iter::successors(self.directories.get(), |held| held.next.get()).map(Box::as_ref)
    }
}

impl Places for HeldDirectories {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        let below = self.all().filter_map(|held| Some((held, path.strip_prefix(&held.path).ok()?)));
        // If directories are nested, the innermost one resolves the path.
        let Some((held, name)) = below.min_by_key(|(_, name)| name.as_os_str().len()) else {
            return At::by_path(path);
        };
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        At { dir: held.fd.as_fd(), name, path, is_held: true }
    }

    fn hold(&self, path: &Path) -> Result<()> {
        self.add(path)
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
