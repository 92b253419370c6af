//! The real file system.
//!
//! In: paths. Out: files, directories and locks. Every error names the operation and the path, and
//! the offset if there is one. A full disk gives the sub-code `NoSpace`, a missing path
//! `PathNotFound`.
//!
//! Invariants
//!  1. This module continues interrupted calls (`EINTR`) and short reads and writes. Callers never
//!     see them.
//!  2. Every descriptor is closed on `exec`.
//!  3. `Places` resolves every path: by its name, or from a held directory (`posix/held.rs`).
//!  4. An open that finds no free descriptor closes other files and tries again (`descriptors.rs`).
//!
//! A random read is one `pread`. `posix/ring.rs` gives several reads to the kernel together, where
//! the kernel can do that.

#[cfg(target_os = "linux")]
mod direct;
mod file;
mod held;
mod lock;
#[cfg_attr(not(target_os = "linux"), path = "posix/unmapped.rs")]
mod mapped;
pub(crate) mod os;
pub(crate) mod refused;
#[cfg(target_os = "linux")]
pub(crate) mod resident;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
#[cfg(test)]
mod tests;

use crate::descriptors::with_descriptor;
#[cfg(target_os = "linux")]
use crate::direct::{DirectRandomAccessFile, DirectSequentialFile, DirectWritableFile};
use crate::fs::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use esker_base::{Error, Result};
use file::{PosixDirectory, PosixRandomAccessFile, PosixSequentialFile, PosixWritableFile};
use held::HeldDirectories;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of this machine. The type has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFileSystem;

impl PosixFileSystem {
    /// The file system of this machine.
    pub fn new() -> PosixFileSystem {
        PosixFileSystem
    }
}

/// Makes an error such as "While pwrite: /db/000012.sst: No space left on device".
#[cold]
pub(crate) fn failed(operation: &str, path: &Path, cause: impl Into<std::io::Error>) -> Error {
    Error::io_with(format_args!("While {operation}: {}", path.display()), cause.into())
}

/// Makes an error such as "While pwrite: /db/000012.sst at offset 4096: No space left on device".
#[cold]
fn failed_at(operation: &str, path: &Path, offset: impl Display, cause: Errno) -> Error {
    Error::io_with(format_args!("While {operation}: {} at offset {offset}", path.display()), cause.into())
}

/// A path, and the directory from which the kernel looks it up.
struct At<'a> {
    dir: BorrowedFd<'a>,
    name: &'a Path,
    /// The path, for messages.
    path: &'a Path,
    is_held: bool,
}

impl<'a> At<'a> {
    fn by_path(path: &'a Path) -> At<'a> {
        At { dir: CWD, name: path, path, is_held: false }
    }

    fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(self.dir, self.name, AtFlags::empty())
    }
}

/// Resolves paths: by their names, or from held directories.
trait Places: Debug + Send + Sync {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a>;

    /// Checks that this process may change the file.
    /// # Errors
    /// `IoError`: the file belongs to another process · `NotSupported` in a forked child.
    fn check_may_change(&self, at: &At<'_>) -> Result<()>;

    /// Opens a directory and resolves later paths below it from its descriptor. Without effect if
    /// this value holds no directories.
    /// # Errors
    /// `IoError` if the directory cannot be opened.
    fn hold(&self, path: &Path) -> Result<()>;

    /// Records that the lock file with this inode was locked.
    fn note_lock(&self, at: &At<'_>, inode: lock::Inode);

    /// Resolves the path of a file that the caller will change. Calls [`Places::check_may_change`]
    /// first.
    fn at_to_change<'a>(&'a self, path: &'a Path) -> Result<At<'a>> {
        let at = self.at(path);
        self.check_may_change(&at)?;
        Ok(at)
    }
}

impl Places for PosixFileSystem {
    fn at<'a>(&'a self, path: &'a Path) -> At<'a> {
        At::by_path(path)
    }

    fn check_may_change(&self, _at: &At<'_>) -> Result<()> {
        Ok(())
    }

    fn hold(&self, _path: &Path) -> Result<()> {
        Ok(())
    }

    fn note_lock(&self, _at: &At<'_>, _inode: lock::Inode) {}
}

fn open(operation: &str, at: &At<'_>, flags: OFlags) -> Result<OwnedFd> {
    try_open(at, flags).map_err(|e| failed(operation, at.path, e))
}

fn try_open(at: &At<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let open = || retry_on_intr(|| rustix::fs::openat(at.dir, at.name, flags | OFlags::CLOEXEC, mode));
    // The open and the duplication of its descriptor retry separately. A repeated open with `EXCL`
    // would fail, because the first open has made the file.
    let fd = with_descriptor(open)?;
    above_standard_streams(fd)
}

/// Moves the descriptor above those of standard input, output and error. If a process has closed
/// one of these, the next file gets that number, and a later print would overwrite the file.
fn above_standard_streams(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    const FIRST_ABOVE: i32 = 3;
    match fd.as_raw_fd() {
        FIRST_ABOVE.. => Ok(fd),
        _ => with_descriptor(|| rustix::io::fcntl_dupfd_cloexec(&fd, FIRST_ABOVE)),
    }
}

/// Makes a directory and its parents.
fn create_directory(places: &dyn Places, path: &Path) -> Result<()> {
    let at = places.at_to_change(path)?;
    let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
    match rustix::fs::mkdirat(at.dir, at.name, mode) {
        Err(Errno::NOENT) => {
            let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
                return Err(failed("mkdir", path, Errno::NOENT));
            };
            create_directory(places, parent)?;
            match rustix::fs::mkdirat(at.dir, at.name, mode) {
                // Another process has made it meanwhile.
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(e) => Err(failed("mkdir", path, e)),
            }
        }
        Err(e) => match at.stat() {
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => Ok(()),
            Ok(_) => Err(failed("mkdir", path, Errno::NOTDIR)),
            Err(Errno::NOENT) if e == Errno::EXIST => {
                let target = std::fs::read_link(path).unwrap_or_default();
                let what = format!("mkdir: the link leads to {}, which is not there", target.display());
                Err(failed(&what, path, Errno::NOENT))
            }
            Err(_) => Err(failed("mkdir", path, e)),
        },
        Ok(()) => Ok(()),
    }
}

fn size_of(fd: &OwnedFd, path: &Path) -> Result<u64> {
    let stat = rustix::fs::fstat(fd).map_err(|e| failed("fstat", path, e))?;
    Ok(u64::try_from(stat.st_size).expect("a file's size is not negative"))
}

impl<P: Places> FileSystem for P {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let fd = open("open a file for sequential read", &self.at(path), OFlags::RDONLY)?;
        Ok(Box::new(PosixSequentialFile::new(fd, path)))
    }

    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let fd = open("open a file for random read", &self.at(path), OFlags::RDONLY)?;
        Ok(Arc::new(PosixRandomAccessFile::new(fd, path)))
    }

    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let fd = open("open a file for appending", &self.at_to_change(path)?, flags)?;
        Ok(Box::new(PosixWritableFile::new(fd, path, 0)))
    }

    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let fd = open("create a file", &self.at_to_change(path)?, flags)?;
        Ok(Box::new(PosixWritableFile::new(fd, path, 0)))
    }

    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let fd = open("reopen a file for appending", &self.at_to_change(path)?, flags)?;
        let size = size_of(&fd, path)?;
        Ok(Box::new(PosixWritableFile::new(fd, path, size)))
    }

    #[cfg(target_os = "linux")]
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let source = direct::DirectFile::open_to_read("open a file for sequential read", &self.at(path))?;
        Ok(Box::new(DirectSequentialFile::new(source)))
    }

    #[cfg(target_os = "linux")]
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let source = direct::DirectFile::open_to_read("open a file for random read", &self.at(path))?;
        Ok(Arc::new(DirectRandomAccessFile::new(source)))
    }

    #[cfg(target_os = "linux")]
    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        let at = self.at_to_change(path)?;
        let sink = direct::DirectFile::create("open a file for appending", &at, OFlags::TRUNC)?;
        Ok(Box::new(DirectWritableFile::new(sink, path, buffer_bytes)))
    }

    #[cfg(target_os = "linux")]
    fn create_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        let sink = direct::DirectFile::create("create a file", &self.at_to_change(path)?, OFlags::EXCL)?;
        Ok(Box::new(DirectWritableFile::new(sink, path, buffer_bytes)))
    }

    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        self.rename(old, new)?;
        let fd = open("open a file for reuse", &self.at(new), OFlags::WRONLY)?;
        Ok(Box::new(PosixWritableFile::new(fd, new, 0)))
    }

    fn overwrite_file(&self, path: &Path, offset: u64) -> Result<Box<dyn WritableFile>> {
        let fd = open("open a file for overwriting", &self.at_to_change(path)?, OFlags::WRONLY)?;
        Ok(Box::new(PosixWritableFile::new(fd, path, offset)))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let fd = open("open directory", &self.at(path), OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Box::new(PosixDirectory::new(fd, path)))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        match self.at(path).stat() {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(failed("stat", path, e)),
        }
    }

    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        let fd = open("opendir", &self.at(dir), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(fd).map_err(|e| failed("opendir", dir, e))? {
            let entry = entry.map_err(|e| failed("readdir", dir, e))?;
            let name = entry.file_name().to_string_lossy();
            if !matches!(&*name, "." | "..") {
                names.push(name.into_owned());
            }
        }
        Ok(names)
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        let at = self.at_to_change(path)?;
        rustix::fs::unlinkat(at.dir, at.name, AtFlags::empty()).map_err(|e| failed("unlink", path, e))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        create_directory(self, path)
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        let at = self.at_to_change(path)?;
        rustix::fs::unlinkat(at.dir, at.name, AtFlags::REMOVEDIR).map_err(|e| failed("rmdir", path, e))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let stat = self.at(path).stat().map_err(|e| failed("stat", path, e))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    #[allow(clippy::useless_conversion, reason = "the type of the count differs between machines")]
    fn link_count(&self, path: &Path) -> Result<u64> {
        let stat = self.at(path).stat().map_err(|e| failed("stat", path, e))?;
        Ok(u64::try_from(stat.st_nlink).unwrap_or(0))
    }

    fn modification_time(&self, path: &Path) -> Result<u64> {
        let stat = self.at(path).stat().map_err(|e| failed("stat", path, e))?;
        Ok(u64::try_from(stat.st_mtime).unwrap_or(0))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (old, new) = (self.at_to_change(from)?, self.at_to_change(to)?);
        rustix::fs::renameat(old.dir, old.name, new.dir, new.name).map_err(|e| {
            Error::io_with(format_args!("While rename: {} to {}", from.display(), to.display()), e.into())
        })
    }

    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        let (old, at) = (self.at(existing), self.at_to_change(new)?);
        rustix::fs::linkat(old.dir, old.name, at.dir, at.name, AtFlags::empty()).map_err(|e| {
            let pair = format!("While link: {} as {}", existing.display(), new.display());
            if matches!(e, Errno::XDEV | Errno::OPNOTSUPP | Errno::PERM) {
                Error::not_supported(format!("{pair}: {e}; copy the file instead"))
            } else {
                Error::io_with(pair, e.into())
            }
        })
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let at = self.at(path);
        let lock = lock::lock_file(&at)?;
        self.note_lock(&at, lock.inode());
        Ok(Box::new(lock))
    }

    fn hold_directories(&self, paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        Ok(Some(Arc::new(HeldDirectories::new(paths)?)))
    }

    fn hold_also(&self, paths: &[&Path]) -> Result<()> {
        paths.iter().try_for_each(|path| self.hold(path))
    }

    fn check_may_change(&self, path: &Path) -> Result<()> {
        Places::check_may_change(self, &self.at(path))
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|e| failed("getcwd", path, e))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let at = self.at(path);
        let stat = if at.is_held {
            retry_on_intr(|| rustix::fs::fstatvfs(at.dir))
        } else {
            retry_on_intr(|| rustix::fs::statvfs(path))
        };
        let stat = stat.map_err(|e| failed("statvfs", path, e))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        let fd = open("open a file to truncate", &self.at_to_change(path)?, OFlags::WRONLY)?;
        retry_on_intr(|| rustix::fs::ftruncate(&fd, size)).map_err(|e| failed_at("ftruncate", path, size, e))
    }
}
