//! The contract of a file system.
//!
//! Every implementation (real, memory, crash, fault) passes one conformance suite. Errors are
//! `IoError` with the path in the message.

use crate::counted::ReadCounter;
use crate::direct::Alignment;
use esker_base::{Error, Result};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens, names and removes files. All methods may be called from any thread.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Opens an existing file for reading from the front.
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;
    /// Opens an existing file for positioned reads.
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;
    /// Creates a file for appending. Empties an existing file.
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
    /// [`FileSystem::new_writable_file`] for a file that must not exist yet: an existing file may
    /// belong to another process.
    /// # Errors
    /// `IoError` if the file exists.
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        if self.file_exists(path)? { Err(exists(path)) } else { self.new_writable_file(path) }
    }
    /// Opens a file for appending at its end. Creates a missing file.
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
    /// [`FileSystem::new_sequential_file`] with direct I/O.
    /// # Errors
    /// `NotSupported` if the file system has no direct I/O. The next two methods have the same
    /// error.
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        Err(no_direct_io("open a file for sequential read", path))
    }
    /// [`FileSystem::new_random_access_file`] with direct I/O: see [`RandomAccessFile::alignment`].
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Err(no_direct_io("open a file for random read", path))
    }
    /// [`FileSystem::new_writable_file`] with direct I/O. The file writes about `buffer_bytes` at a
    /// time. Flushed bytes survive a crash of the process, and synced bytes survive a crash of the
    /// machine.
    fn new_direct_writable_file(&self, path: &Path, _buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        Err(no_direct_io("open a file for appending", path))
    }
    /// [`FileSystem::create_writable_file`] with direct I/O.
    /// # Errors
    /// `IoError` if the file exists.
    fn create_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        if self.file_exists(path)? {
            Err(exists(path))
        } else {
            self.new_direct_writable_file(path, buffer_bytes)
        }
    }
    /// Opens an existing file for reading from the front, with direct I/O if `is_direct`.
    fn open_sequential(&self, path: &Path, is_direct: bool) -> Result<Box<dyn SequentialFile>> {
        if is_direct { self.new_direct_sequential_file(path) } else { self.new_sequential_file(path) }
    }
    /// Opens an existing file for positioned reads, with direct I/O if `is_direct`.
    fn open_random_access(&self, path: &Path, is_direct: bool) -> Result<Arc<dyn RandomAccessFile>> {
        if is_direct { self.new_direct_random_access_file(path) } else { self.new_random_access_file(path) }
    }
    /// Renames `old` to `new` and opens the file for overwriting from offset 0 (WAL recycling). An
    /// implementation may keep the old bytes behind the new ones, empty the file, or make a new
    /// file and delete the old one.
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>>;
    /// Opens an existing file of at least `offset` bytes for overwriting from `offset` on. All
    /// other bytes, the name and the length stay.
    /// # Errors
    /// `NotSupported` if the file system cannot change bytes within a file.
    fn overwrite_file(&self, path: &Path, _offset: u64) -> Result<Box<dyn WritableFile>> {
        Err(Error::not_supported(format!("While open a file for overwriting: {}", path.display())))
    }
    /// Opens a directory, so that the caller can sync it.
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>>;
    /// Whether a file or directory of this name exists.
    fn file_exists(&self, path: &Path) -> Result<bool>;
    /// Names (not paths) in a directory, in no order.
    fn children(&self, dir: &Path) -> Result<Vec<String>>;
    /// Deletes a file.
    fn delete_file(&self, path: &Path) -> Result<()>;
    /// Makes a directory and its parents. An existing directory is no error.
    fn create_dir_if_missing(&self, path: &Path) -> Result<()>;
    /// Deletes an empty directory.
    fn delete_dir(&self, path: &Path) -> Result<()>;
    /// The size of a file in bytes.
    fn file_size(&self, path: &Path) -> Result<u64>;
    /// Number of names (hard links) of a file.
    /// # Errors
    /// `NotSupported` if the file system does not provide the number.
    fn link_count(&self, path: &Path) -> Result<u64> {
        Err(Error::not_supported(format!("While count the links of {}", path.display())))
    }
    /// The time of the last change, in seconds since the Unix epoch.
    fn modification_time(&self, path: &Path) -> Result<u64>;
    /// Renames `from` to `to`. Atomically replaces an existing file `to`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives an existing file a second name.
    /// # Errors
    /// `NotSupported` where the file system has no links.
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()>;
    /// Opens these directories and returns a file system that resolves paths below them from their
    /// handles.
    ///
    /// A handle stays valid when its directory is renamed or replaced. Once the caller has locked
    /// the file `LOCK`, changes in the directories fail if that file is removed or replaced.
    /// Returns `None` if the file system has no handles of directories.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    fn hold_directories(&self, _paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        Ok(None)
    }
    /// Adds directories to a file system that [`FileSystem::hold_directories`] made. Does nothing
    /// on other file systems. Each new directory costs a descriptor until the file system is
    /// dropped.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    fn hold_also(&self, _paths: &[&Path]) -> Result<()> {
        Ok(())
    }
    /// Checks that this process may change the file at `path`. Without effect unless
    /// [`FileSystem::hold_directories`] made this file system. Costs one system call.
    /// # Errors
    /// `IoError` if the locked file `LOCK` was removed or replaced: another process may own the
    /// directory.
    fn check_may_change(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
    /// Locks the file at `path`. The lock excludes other processes (RocksDB too) and other holders
    /// in this process.
    /// # Errors
    /// `IoError`, retryable and naming the path, if another holder has the lock.
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Makes `path` absolute.
    fn absolute_path(&self, path: &Path) -> Result<PathBuf>;
    /// Free bytes on the device that holds `path`.
    fn free_space(&self, path: &Path) -> Result<u64>;
    /// Cuts the file at `path` to `size` bytes.
    fn truncate(&self, path: &Path, size: u64) -> Result<()>;
}

/// Atomically replaces the file `path` by one with `contents`.
///
/// Writes `temporary`, syncs it with `fsync` or `fdatasync`, and renames it. The caller syncs the
/// directory.
/// # Errors
/// `IoError`. `path` is then unchanged, and `temporary` is deleted if the file system allows it.
pub fn replace_file(
    fs: &dyn FileSystem,
    temporary: &Path,
    path: &Path,
    contents: &[u8],
    use_fsync: bool,
) -> Result<()> {
    let write = || {
        let mut file = fs.new_writable_file(temporary)?;
        file.append(contents)?;
        if use_fsync { file.fsync() } else { file.sync() }?;
        file.close()
    };
    let replaced = write().and_then(|()| fs.rename(temporary, path));
    // The caller gets the first error. An error of this deletion is ignored.
    replaced.inspect_err(|_| fs.delete_file(temporary).unwrap_or_default())
}

/// An error such as "While create a file: /db/000012.sst: File exists".
#[cold]
fn exists(path: &Path) -> Error {
    let cause = std::io::ErrorKind::AlreadyExists.into();
    Error::io_with(format_args!("While create a file: {}", path.display()), cause)
}

/// An error such as "While open a file for random read: /db/000012.sst: direct I/O (O_DIRECT) is
/// not supported here".
#[cold]
pub(crate) fn no_direct_io(operation: &str, path: &Path) -> Error {
    let path = path.display();
    Error::not_supported(format!("While {operation}: {path}: direct I/O (O_DIRECT) is not supported here"))
}

/// A file that is read from front to back.
pub trait SequentialFile: Send {
    /// Reads `buf.len()` bytes, fewer only at the end of the file. Returns the number of bytes
    /// read.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
    /// Skips `bytes` bytes, possibly beyond the end of the file.
    fn skip(&mut self, bytes: u64) -> Result<()>;
}

/// A file that is read at any offset, by several threads at once.
pub trait RandomAccessFile: Send + Sync + fmt::Debug {
    /// Reads `buf.len()` bytes at `offset`, fewer only at the end of the file. Returns the number
    /// of bytes read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Reads consecutive bytes from `offset` on, until all of `bufs` are full or the file ends.
    /// Returns the number of bytes read.
    fn read_vectored_at(&self, offset: u64, bufs: &mut [&mut [u8]]) -> Result<usize> {
        let mut done = 0;
        for buf in bufs {
            let n = self.read_at(offset + done as u64, buf)?;
            done += n;
            if n < buf.len() {
                break;
            }
        }
        Ok(done)
    }
    /// The alignment for reads if the file was opened with direct I/O. Unaligned reads cost more:
    /// the file widens and copies them.
    fn alignment(&self) -> Option<Alignment> {
        None
    }
    /// The descriptor, for [`read_many`](crate::read_many). `None` if reads from the descriptor do
    /// not return the bytes of this file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The counter of this file's reads, for reads through the descriptor. `None`: nothing counts.
    fn read_counter(&self) -> Option<&ReadCounter> {
        None
    }
    /// Whether reads never wait for a device. `false` also means unknown.
    fn never_waits(&self) -> bool {
        false
    }
    /// Hints that this range will be read soon.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}
    /// Hints that bytes read from this range were damaged. The next read should come from the
    /// device itself, not from a copy in memory.
    fn read_anew(&self, _offset: u64, _bytes: u64) {}
    /// The size of the file in bytes.
    fn size(&self) -> Result<u64>;
    /// The path, for messages.
    fn path(&self) -> &Path;
}

/// The expected lifetime of a file's data. The numbers are those of RocksDB's
/// `Env::WriteLifeTimeHint`, and of Linux's `RWH_WRITE_LIFE_*`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
#[repr(u8)]
pub enum WriteLifeTimeHint {
    /// Nothing is known.
    #[default]
    NotSet = 0,
    /// Nothing is known, said explicitly.
    None = 1,
    /// Logs.
    Short = 2,
    /// Tables that the next compaction rewrites.
    Medium = 3,
    /// Tables in the middle of the tree.
    Long = 4,
    /// Tables near the last level.
    Extreme = 5,
}

/// A file to which one writer appends. A drop closes the file without syncing it.
pub trait WritableFile: Send {
    /// Appends all of `data`. After an error, `file_size` tells how much was appended.
    fn append(&mut self, data: &[u8]) -> Result<()>;
    /// Appends all of `data`, whose CRC32C is `checksum`: a file system that can check its data on
    /// the way to the medium compares them, and refuses what does not match. The default appends.
    fn append_with_checksum(&mut self, data: &[u8], _checksum: u32) -> Result<()> {
        self.append(data)
    }
    /// Writes buffered bytes to the operating system. They survive a crash of the process, but not
    /// of the machine.
    fn flush(&mut self) -> Result<()>;
    /// Flushes, then waits until the device has the data and the metadata that reads need
    /// (`fdatasync`).
    fn sync(&mut self) -> Result<()>;
    /// Flushes, then waits until the device has the data and all metadata (`fsync`).
    fn fsync(&mut self) -> Result<()> {
        self.sync()
    }
    /// Hints that the kernel should start to write back this range (`sync_file_range`). Does not
    /// wait.
    fn range_sync(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Hints that disk space for this range should be reserved. The file's size stays. An
    /// implementation may reserve less if the disk is nearly full.
    fn preallocate(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Hints how long the file's data will live (`F_SET_RW_HINT`): the device may keep data of
    /// similar lifetimes together.
    fn set_write_life_time_hint(&mut self, _hint: WriteLifeTimeHint) {}
    /// Hints that the file is a log: many small appends follow, and no append begins with eight
    /// zero bytes.
    ///
    /// Appends then need no `flush`. Until `truncate` or `close`, zeros may follow the appended
    /// bytes, up to the next multiple of `block` bytes. A kill may interrupt an append that lies
    /// within one block. The file then has the whole append, or eight zeros in place of the
    /// append's first eight bytes.
    fn append_in_place(&mut self, _block: u64) -> Result<()> {
        Ok(())
    }
    /// Cuts the file to `size` bytes.
    fn truncate(&mut self, size: u64) -> Result<()>;
    /// Flushes, frees preallocated space, and closes the file. Later calls fail.
    fn close(&mut self) -> Result<()>;
    /// Bytes appended so far, buffered ones included.
    fn file_size(&self) -> u64;
}

/// An open directory.
pub trait Directory: Send + Sync {
    /// Makes created, renamed and removed names durable.
    fn fsync(&self) -> Result<()>;
}

/// A lock of a file, held until this value is dropped.
pub trait FileLock: Send + Sync {}

#[cfg(test)]
mod tests;
