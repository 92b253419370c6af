//! The contract of a file system. Every implementation (real, memory, crash, fault) passes one
//! conformance suite. Errors are `IoError` with the path in the message.

use crate::direct::Alignment;
use esker_base::{Error, Result};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files by path. All methods may be called from any thread.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Opens an existing file for reading from the front.
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;
    /// Opens an existing file for positioned reads.
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>>;
    /// Creates a file for appending; an existing one is emptied.
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
    /// [`FileSystem::new_writable_file`] for a file that must not exist yet, because an existing
    /// one may belong to another process.
    /// # Errors
    /// `IoError` if the file exists.
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        if self.file_exists(path)? { Err(exists(path)) } else { self.new_writable_file(path) }
    }
    /// Opens a file for appending behind its present end; creates it if it is missing.
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
    /// [`FileSystem::new_sequential_file`] with direct I/O.
    /// # Errors
    /// `NotSupported` if the file system has no direct I/O. The next two methods fail likewise.
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        Err(no_direct_io("open a file for sequential read", path))
    }
    /// [`FileSystem::new_random_access_file`] with direct I/O: see [`RandomAccessFile::alignment`].
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Err(no_direct_io("open a file for random read", path))
    }
    /// [`FileSystem::new_writable_file`] with direct I/O. Writes about `buffer_bytes` at a time. As
    /// with any file, flushed bytes survive the process and synced bytes survive the machine.
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
    /// Opens an existing file for reading from the front, past the page cache if `is_direct`.
    fn open_sequential(&self, path: &Path, is_direct: bool) -> Result<Box<dyn SequentialFile>> {
        if is_direct { self.new_direct_sequential_file(path) } else { self.new_sequential_file(path) }
    }
    /// Opens an existing file for positioned reads, past the page cache if `is_direct`.
    fn open_random_access(&self, path: &Path, is_direct: bool) -> Result<Arc<dyn RandomAccessFile>> {
        if is_direct { self.new_direct_random_access_file(path) } else { self.new_random_access_file(path) }
    }
    /// Renames `old` to `new` and opens it for overwriting from offset 0 (WAL recycling). The old
    /// bytes stay behind the new ones, or the file is emptied.
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>>;
    /// Opens a directory, to sync it.
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>>;
    /// Whether a file or directory of this name exists.
    fn file_exists(&self, path: &Path) -> Result<bool>;
    /// Names (not paths) in a directory, in no order.
    fn children(&self, dir: &Path) -> Result<Vec<String>>;
    /// Removes a file.
    fn delete_file(&self, path: &Path) -> Result<()>;
    /// Makes a directory and its parents. An existing directory is no error.
    fn create_dir_if_missing(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn delete_dir(&self, path: &Path) -> Result<()>;
    /// Bytes in a file.
    fn file_size(&self, path: &Path) -> Result<u64>;
    /// Number of names (hard links) of a file.
    /// # Errors
    /// `NotSupported` if the file system does not provide the number.
    fn link_count(&self, path: &Path) -> Result<u64> {
        Err(Error::not_supported(format!("While count the links of {}", path.display())))
    }
    /// Unix seconds of the last change.
    fn modification_time(&self, path: &Path) -> Result<u64>;
    /// Renames `from` to `to`; atomically replaces a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives an existing file a second name.
    /// # Errors
    /// `NotSupported` where the file system has no links.
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()>;
    /// A file system with the same files that resolves paths below these directories from their
    /// handles. The handles stay valid when the directories are renamed or replaced. Once a
    /// directory's `LOCK` is locked, changes in it fail unless `LOCK` is still the locked file.
    /// `None` where directories have no handles.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    fn hold_directories(&self, _paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        Ok(None)
    }
    /// Holds these directories too, if [`FileSystem::hold_directories`] made this file system. Each
    /// path that is not held yet costs a descriptor until the file system is dropped.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    fn hold_also(&self, _paths: &[&Path]) -> Result<()> {
        Ok(())
    }
    /// Whether the file at `path` may be changed, by the directories of
    /// [`FileSystem::hold_directories`]. One system call.
    /// # Errors
    /// `IoError`: the lock of its directory is gone, and another process may have the directory.
    fn check_may_change(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
    /// Takes the lock file. The lock also excludes a running RocksDB and other holders in this
    /// process.
    /// # Errors
    /// `IoError`, retryable and naming the path, if another holder has the lock.
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// The absolute path.
    fn absolute_path(&self, path: &Path) -> Result<PathBuf>;
    /// Bytes that can still be written.
    fn free_space(&self, path: &Path) -> Result<u64>;
    /// Cuts a file to `size` bytes.
    fn truncate(&self, path: &Path, size: u64) -> Result<()>;
}

/// Replaces the file `path` by one with `contents`. Writes `temporary`, syncs it with `fsync` or
/// `fdatasync`, and renames it. The caller syncs the directory.
/// # Errors
/// `IoError`. `path` is then as it was, and `temporary` is deleted if the file system allows it.
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
    // The caller gets the first error; an error of this deletion is dropped.
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

/// Reads from front to back.
pub trait SequentialFile: Send {
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file; 0 at the end.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
    /// Moves on by `bytes`, possibly beyond the end.
    fn skip(&mut self, bytes: u64) -> Result<()>;
}

/// Reads anywhere; shared between threads.
pub trait RandomAccessFile: Send + Sync + fmt::Debug {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Reads consecutive bytes from `offset` on into `bufs`; fewer only at the end of the file.
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
    /// The alignment that direct I/O needs, if the file was opened so. Aligned reads are neither
    /// widened nor copied.
    fn alignment(&self) -> Option<Alignment> {
        None
    }
    /// The descriptor, for [`read_many`](crate::read_many). `None` unless aligned reads from it
    /// return the same bytes as reads from this file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Whether reads never wait for a device; then starting several at once gains nothing. `false`
    /// also means unknown.
    fn never_waits(&self) -> bool {
        false
    }
    /// Hints that this range will be read soon.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}
    /// Hints that the bytes read from this range were damaged. The next read should come from the
    /// medium if possible.
    fn read_anew(&self, _offset: u64, _bytes: u64) {}
    /// Bytes in the file.
    fn size(&self) -> Result<u64>;
    /// Its path, for messages.
    fn path(&self) -> &Path;
}

/// Appends to a file. Owned by one writer. A drop closes it without syncing.
pub trait WritableFile: Send {
    /// Appends all of `data`, or fails. After a failure `file_size` is the number of bytes that
    /// were appended.
    fn append(&mut self, data: &[u8]) -> Result<()>;
    /// Writes buffered bytes to the operating system: they survive an end of the process, but not
    /// of the machine.
    fn flush(&mut self) -> Result<()>;
    /// Flushes, then waits until the medium has the data, and the size as far as reads need it
    /// (`fdatasync`).
    fn sync(&mut self) -> Result<()>;
    /// As `sync`, metadata included (`fsync`).
    fn fsync(&mut self) -> Result<()> {
        self.sync()
    }
    /// Starts writing back this range without waiting (`sync_file_range`); a hint.
    fn range_sync(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Hints that space is to be reserved, up to a part of the free space. The file's size stays.
    fn preallocate(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Announces a log: many small appends follow, and no append begins with eight zeros. A hint.
    /// Appends then need no `flush`. Until `truncate` or `close` the file may end behind its
    /// appended bytes, with zeros up to the next multiple of `block` bytes. After a kill during an
    /// append within one block, the file holds the whole append, or eight zeros at its start.
    fn append_in_place(&mut self, _block: u64) -> Result<()> {
        Ok(())
    }
    /// Cuts the file to `size` bytes.
    fn truncate(&mut self, size: u64) -> Result<()>;
    /// Flushes, returns preallocated space, and closes the file. Later calls fail.
    fn close(&mut self) -> Result<()>;
    /// Bytes appended so far, buffered ones included.
    fn file_size(&self) -> u64;
}

/// An open directory.
pub trait Directory: Send + Sync {
    /// Makes created, renamed and removed names durable.
    fn fsync(&self) -> Result<()>;
}

/// A lock, held until this value is dropped.
pub trait FileLock: Send + Sync {}

#[cfg(test)]
mod tests;
