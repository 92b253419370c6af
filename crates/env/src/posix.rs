//! The real file system, by system calls.
//!
//! In: paths. Out: files, directories and locks. Every error names the operation, the path and, where there is
//! one, the offset; a full disk has sub-code `NoSpace`, a missing path `PathNotFound`.
//!
//! Invariants
//!  1. Interrupted calls (`EINTR`) and short reads and writes are carried on; callers never see them.
//!  2. Every descriptor is closed on `exec`.
//!  3. No `LOCK` file is opened by a process that holds it: closing any descriptor of a file drops its `fcntl`
//!     locks (`posix/lock.rs`).
//!
//! Random reads go one `pread` at a time; several go to the kernel together where that is possible (`posix/ring.rs`).

#[cfg(target_os = "linux")]
mod direct;
mod file;
mod lock;
mod mapped;
pub(crate) mod refused;
#[cfg(target_os = "linux")]
pub(crate) mod resident;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
use crate::direct::{DirectRandomAccessFile, DirectSequentialFile, DirectWritableFile};
use crate::fs::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use esker_base::{Error, Result};
use file::{PosixDirectory, PosixRandomAccessFile, PosixSequentialFile, PosixWritableFile};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The file system of this machine. Holds nothing; all of them are the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFileSystem;

impl PosixFileSystem {
    /// The file system of this machine.
    pub fn new() -> PosixFileSystem {
        PosixFileSystem
    }
}

/// "While pwrite: /db/000012.sst: No space left on device".
#[cold]
pub(crate) fn failed(operation: &str, path: &Path, cause: impl Into<std::io::Error>) -> Error {
    Error::io_with(format_args!("While {operation}: {}", path.display()), cause.into())
}

/// "While pwrite: /db/000012.sst at offset 4096: No space left on device".
#[cold]
fn failed_at(operation: &str, path: &Path, offset: impl Display, cause: Errno) -> Error {
    Error::io_with(format_args!("While {operation}: {} at offset {offset}", path.display()), cause.into())
}

fn open(operation: &str, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    try_open(path, flags).map_err(|e| failed(operation, path, e))
}

fn try_open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    retry_on_intr(|| rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, mode))
}

fn size_of(fd: &OwnedFd, path: &Path) -> Result<u64> {
    let stat = rustix::fs::fstat(fd).map_err(|e| failed("fstat", path, e))?;
    Ok(u64::try_from(stat.st_size).expect("a file's size is not negative"))
}

impl FileSystem for PosixFileSystem {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let fd = open("open a file for sequential read", path, OFlags::RDONLY)?;
        Ok(Box::new(PosixSequentialFile::new(fd, path)))
    }

    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let fd = open("open a file for random read", path, OFlags::RDONLY)?;
        Ok(Arc::new(PosixRandomAccessFile::new(fd, path)))
    }

    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let fd = open("open a file for appending", path, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?;
        Ok(Box::new(PosixWritableFile::new(fd, path, 0)))
    }

    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let fd = open("reopen a file for appending", path, OFlags::WRONLY | OFlags::CREATE)?;
        let size = size_of(&fd, path)?;
        Ok(Box::new(PosixWritableFile::new(fd, path, size)))
    }

    #[cfg(target_os = "linux")]
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let source = direct::DirectFile::open_to_read("open a file for sequential read", path)?;
        Ok(Box::new(DirectSequentialFile::new(source)))
    }

    #[cfg(target_os = "linux")]
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let source = direct::DirectFile::open_to_read("open a file for random read", path)?;
        Ok(Arc::new(DirectRandomAccessFile::new(source)))
    }

    #[cfg(target_os = "linux")]
    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        let sink = direct::DirectFile::create("open a file for appending", path)?;
        Ok(Box::new(DirectWritableFile::new(sink, path, buffer_bytes)))
    }

    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        self.rename(old, new)?;
        let fd = open("open a file for reuse", new, OFlags::WRONLY)?;
        Ok(Box::new(PosixWritableFile::new(fd, new, 0)))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let fd = open("open directory", path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Box::new(PosixDirectory::new(fd, path)))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|e| failed("stat", path, e))
    }

    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(dir).map_err(|e| failed("opendir", dir, e))?;
        entries
            .map(|entry| match entry {
                Ok(entry) => Ok(entry.file_name().to_string_lossy().into_owned()),
                Err(e) => Err(failed("readdir", dir, e)),
            })
            .collect()
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|e| failed("unlink", path, e))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path).map_err(|e| failed("mkdir", path, e))
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        std::fs::remove_dir(path).map_err(|e| failed("rmdir", path, e))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        Ok(std::fs::metadata(path).map_err(|e| failed("stat", path, e))?.len())
    }

    fn modification_time(&self, path: &Path) -> Result<u64> {
        let changed =
            std::fs::metadata(path).and_then(|m| m.modified()).map_err(|e| failed("stat", path, e))?;
        Ok(changed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|e| {
            Error::io_with(format_args!("While rename: {} to {}", from.display(), to.display()), e)
        })
    }

    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        std::fs::hard_link(existing, new).map_err(|e| {
            let pair = format!("While link: {} as {}", existing.display(), new.display());
            if matches!(
                e.raw_os_error(),
                Some(libc::EXDEV | libc::EOPNOTSUPP | libc::EPERM | libc::ENOSYS | libc::EMLINK)
            ) {
                Error::not_supported(format!("{pair}: {e}; copy the file instead"))
            } else {
                Error::io_with(pair, e)
            }
        })
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Ok(Box::new(lock::lock_file(path)?))
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|e| failed("getcwd", path, e))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let stat = retry_on_intr(|| rustix::fs::statvfs(path)).map_err(|e| failed("statvfs", path, e))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        let fd = open("open a file to truncate", path, OFlags::WRONLY)?;
        retry_on_intr(|| rustix::fs::ftruncate(&fd, size)).map_err(|e| failed_at("ftruncate", path, size, e))
    }
}
