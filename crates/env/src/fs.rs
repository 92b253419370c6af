//! What a file system must do for the engine. Every implementation (real, memory, crash, fault)
//! passes one conformance suite. Errors are `IoError` with the path in the message.

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
    /// As [`FileSystem::new_writable_file`], of a file that nobody has: one that is there may be
    /// another process's.
    /// # Errors
    /// `IoError` if there is such a file.
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        if self.file_exists(path)? { Err(exists(path)) } else { self.new_writable_file(path) }
    }
    /// Opens a file for appending behind what it holds; creates it if it is missing.
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
    /// As [`FileSystem::new_sequential_file`], past the page cache.
    /// # Errors
    /// `NotSupported` where there is no direct I/O: also of the two below.
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        Err(no_direct_io("open a file for sequential read", path))
    }
    /// As [`FileSystem::new_random_access_file`], past the page cache: see
    /// [`RandomAccessFile::alignment`].
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        Err(no_direct_io("open a file for random read", path))
    }
    /// As [`FileSystem::new_writable_file`], past the page cache, about `buffer_bytes` at a time.
    /// What is appended survives the process once it is flushed, and the machine once it is synced,
    /// as with any other file.
    fn new_direct_writable_file(&self, path: &Path, _buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        Err(no_direct_io("open a file for appending", path))
    }
    /// As [`FileSystem::create_writable_file`], past the page cache.
    /// # Errors
    /// `IoError` if there is such a file.
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
    /// Renames `old` to `new` and opens it for overwriting from offset 0 without emptying it (WAL
    /// recycling).
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>>;
    /// Opens a directory, to sync it.
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>>;
    /// Whether a file or directory of this name is there.
    fn file_exists(&self, path: &Path) -> Result<bool>;
    /// Names (not paths) in a directory, in no order.
    fn children(&self, dir: &Path) -> Result<Vec<String>>;
    /// Removes a file.
    fn delete_file(&self, path: &Path) -> Result<()>;
    /// Makes a directory and its parents; one that exists is fine.
    fn create_dir_if_missing(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn delete_dir(&self, path: &Path) -> Result<()>;
    /// Bytes in a file.
    fn file_size(&self, path: &Path) -> Result<u64>;
    /// Unix seconds of the last change.
    fn modification_time(&self, path: &Path) -> Result<u64>;
    /// Atomically puts `from` in the place of `to`.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// A second name for a file. `NotSupported` where the file system has no links.
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()>;
    /// The same files, with paths below these directories looked up from handles of the
    /// directories: they stay what they are when the directories are renamed or replaced. Once
    /// their `LOCK` is locked, nothing in them is created, renamed or deleted unless it is still
    /// the file that was locked. `None` where directories have no handles.
    /// # Errors
    /// `IoError` naming the directory that cannot be opened.
    fn hold_directories(&self, _paths: &[&Path]) -> Result<Option<Arc<dyn FileSystem>>> {
        Ok(None)
    }
    /// Whether what lies at `path` may be changed, as far as [`FileSystem::hold_directories`]
    /// knows. One system call.
    /// # Errors
    /// `IoError`: the lock of its directory is gone, and another process may have the directory.
    fn check_may_change(&self, _path: &Path) -> Result<()> {
        Ok(())
    }
    /// Takes the lock file (a lock that excludes a live RocksDB, too; and a table of this process).
    /// `IoError`/`Busy`-like error naming the path when somebody else has it.
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// The path from the root.
    fn absolute_path(&self, path: &Path) -> Result<PathBuf>;
    /// Bytes that can still be written.
    fn free_space(&self, path: &Path) -> Result<u64>;
    /// Cuts a file to `size` bytes.
    fn truncate(&self, path: &Path, size: u64) -> Result<()>;
}

/// "While create a file: /db/000012.sst: File exists".
#[cold]
fn exists(path: &Path) -> Error {
    let cause = std::io::ErrorKind::AlreadyExists.into();
    Error::io_with(format_args!("While create a file: {}", path.display()), cause)
}

/// "While open a file for random read: /db/000012.sst: direct I/O (O_DIRECT) is not supported
/// here".
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
    /// Reads bytes that lie behind each other into `bufs`, from `offset` on; fewer only at the end
    /// of the file. Gives how many were read in all.
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
    /// If it is read past the page cache: what reads must be aligned to that are not to be widened
    /// and copied.
    fn alignment(&self) -> Option<Alignment> {
        None
    }
    /// The descriptor behind it, if reading from that, aligned as it demands, is the same as
    /// reading here: [`read_many`](crate::read_many) may.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Whether reads wait for no device, so that nothing is gained by beginning several before one
    /// is done. `false`: not known.
    fn never_waits(&self) -> bool {
        false
    }
    /// Hints that this range will be read soon.
    fn prefetch(&self, _offset: u64, _bytes: u64) {}
    /// What was read of this range was damaged: the next read shall come from the medium, as far as
    /// that can be had. A hint.
    fn read_anew(&self, _offset: u64, _bytes: u64) {}
    /// Bytes in the file.
    fn size(&self) -> Result<u64>;
    /// Its path, for messages.
    fn path(&self) -> &Path;
}

/// Appends. Not shared. Dropping it closes it without syncing.
pub trait WritableFile: Send {
    /// Appends all of `data`, or fails; after a failure how much was appended is unknown until
    /// `file_size`.
    fn append(&mut self, data: &[u8]) -> Result<()>;
    /// Hands buffered bytes to the operating system: they survive the process, not the machine.
    fn flush(&mut self) -> Result<()>;
    /// `flush`, then waits until the data (and the size, as far as needed to read it) is on the
    /// medium (`fdatasync`).
    fn sync(&mut self) -> Result<()>;
    /// As `sync`, metadata included (`fsync`).
    fn fsync(&mut self) -> Result<()> {
        self.sync()
    }
    /// Starts writing back this range without waiting (`sync_file_range`); a hint.
    fn range_sync(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Reserves space, as much as is sensible for what is free; a hint, the file's size stays.
    fn preallocate(&mut self, _offset: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    /// Says that this is a log: many small appends will follow, of which each begins with something
    /// else than eight zeros. A hint. From then on an append needs no `flush`, and until `truncate`
    /// or `close` the file may end behind what was appended: with zeros, up to the next multiple of
    /// `block` bytes. Who opens it after the process died in the middle of an append that ends in
    /// the block it began in finds all of that append, or eight zeros where it would begin.
    fn append_in_place(&mut self, _block: u64) -> Result<()> {
        Ok(())
    }
    /// Cuts the file.
    fn truncate(&mut self, size: u64) -> Result<()>;
    /// `flush`, give back preallocated space, close. Later calls fail.
    fn close(&mut self) -> Result<()>;
    /// Bytes appended so far, buffered ones included.
    fn file_size(&self) -> u64;
}

/// An open directory.
pub trait Directory: Send + Sync {
    /// Makes created, renamed and removed names durable.
    fn fsync(&self) -> Result<()>;
}

/// Held until it is dropped.
pub trait FileLock: Send + Sync {}
