//! Files and directories of the real file system.
//!
//! A writable file buffers small appends and writes them at its own offset with `pwrite`. So it
//! overwrites a recycled file in place, and after an error its offset is right. The end of a log is
//! mapped instead (`posix/mapped.rs`).
//!
//! Invariants
//!  1. `written` bytes are in the kernel; the buffer holds the bytes that follow; their sum is
//!     `file_size()`, also after an error.
//!  2. The buffer never grows beyond `BUFFER_BYTES`; an append of that size or more is not copied.
//!  3. While `mapped` is set, the buffer is empty, and the file may be longer than `written`.
//!  4. A forked child changes nothing: every call fails there, and dropping the file closes the
//!     descriptor.

use super::mapped::MappedEnd;
use super::os::{self, Hint, advise, is_in_memory};
use super::refused::{is_refused, note_unsynced_directory, syncs_no_directory};
use super::{failed, failed_at, size_of};
use crate::descriptors::DataFile;
use crate::fs::{Directory, RandomAccessFile, SequentialFile, WritableFile, WriteLifeTimeHint};
use esker_base::sync::fork::ProcessOwner;
use esker_base::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes collected before a write: large enough to hide the system call (about 0.3 µs) behind the
/// copy, small enough for the second-level cache.
pub(super) const BUFFER_BYTES: usize = 128 << 10;

/// Most buffers of one `preadv`: the kernel's `IOV_MAX`.
const MOST_PARTS: usize = 1024;

/// Fills `buf` from `offset`, up to the end of the file.
fn read_full(fd: &OwnedFd, path: &Path, offset: u64, buf: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        let at = offset + done as u64;
        match retry_on_intr(|| rustix::io::pread(fd, &mut buf[done..], at)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) => return Err(failed_at("pread", path, at, e)),
        }
    }
    Ok(done)
}

/// A reservation takes at most this fraction (1/N) of the free space.
const FREE_SPACE_PARTS: u64 = 8;

/// Reserves at most `bytes` from `offset` on without changing the file's size. Returns the number
/// of reserved bytes. It takes at most a part of the free space, and nothing if the file system
/// cannot reserve. Then later writes may still fit. A failed reservation holds no space.
/// # Errors
/// `IoError` from the medium.
pub(super) fn reserve(fd: &OwnedFd, path: &Path, offset: u64, bytes: u64) -> Result<u64> {
    let free = retry_on_intr(|| rustix::fs::fstatvfs(fd));
    // A tmpfs without a limit has no blocks at all.
    let is_limited = |stat: &rustix::fs::StatVfs| stat.f_blocks > 0;
    let free = free.ok().filter(is_limited);
    let free = free.map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    let bytes = bytes.min(free / FREE_SPACE_PARTS);
    if bytes == 0 {
        return Ok(0);
    }
    match retry_on_intr(|| os::reserve_space(fd, offset, bytes)) {
        Ok(()) => Ok(bytes),
        Err(Errno::NOSPC | Errno::FBIG | Errno::DQUOT) => {
            // ext4 keeps the blocks of a failed reservation. Cutting the file to its own size frees
            // them.
            let size = size_of(fd, path)?;
            match retry_on_intr(|| rustix::fs::ftruncate(fd, size)) {
                Ok(()) | Err(_) => Ok(0),
            }
        }
        Err(e) if is_refused(e) => Ok(0),
        Err(e) => Err(failed_at("fallocate", path, offset, e)),
    }
}

/// A multiple of the page size of the kernel's cache.
const PAGE_BYTES: u64 = 64 << 10;

pub(super) struct PosixSequentialFile {
    fd: OwnedFd,
    path: PathBuf,
    offset: u64,
}

impl PosixSequentialFile {
    pub(super) fn new(fd: OwnedFd, path: &Path) -> PosixSequentialFile {
        advise(&fd, 0, 0, Hint::Sequential);
        PosixSequentialFile { fd, path: path.to_owned(), offset: 0 }
    }
}

impl SequentialFile for PosixSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = read_full(&self.fd, &self.path, self.offset, buf)?;
        self.offset += n as u64;
        Ok(n)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct PosixRandomAccessFile {
    fd: OwnedFd,
    path: PathBuf,
    /// Whether its file system lies in memory only; determined at the first use.
    is_in_memory: OnceLock<bool>,
    _counted: DataFile,
}

impl PosixRandomAccessFile {
    /// Turns the kernel's read-ahead off, as RocksDB's `advise_random_on_open` does: scans read
    /// ahead themselves.
    pub(super) fn new(fd: OwnedFd, path: &Path) -> PosixRandomAccessFile {
        advise(&fd, 0, 0, Hint::Random);
        PosixRandomAccessFile {
            fd,
            path: path.to_owned(),
            is_in_memory: OnceLock::new(),
            _counted: DataFile::new(),
        }
    }
}

impl RandomAccessFile for PosixRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_full(&self.fd, &self.path, offset, buf)
    }

    fn read_vectored_at(&self, offset: u64, bufs: &mut [&mut [u8]]) -> Result<usize> {
        let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
        let mut parts: Vec<IoSliceMut<'_>> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
        let mut rest = parts.as_mut_slice();
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            match retry_on_intr(|| {
                let most = rest.len().min(MOST_PARTS);
                rustix::io::preadv(&self.fd, &mut rest[..most], at)
            }) {
                Ok(0) => break,
                Ok(n) => {
                    done += n;
                    IoSliceMut::advance_slices(&mut rest, n);
                }
                Err(e) => return Err(failed_at("preadv", &self.path, at, e)),
            }
        }
        Ok(done)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn never_waits(&self) -> bool {
        *self.is_in_memory.get_or_init(|| is_in_memory(self.fd.as_fd()))
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        advise(&self.fd, offset, bytes, Hint::WillNeed);
    }

    fn read_anew(&self, offset: u64, bytes: u64) {
        // The kernel only drops whole pages. A length of 0 means all up to the end.
        let begin = offset - offset % PAGE_BYTES;
        let end = offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE_BYTES));
        advise(&self.fd, begin, end.map_or(0, |end| end - begin), Hint::DontNeed);
    }

    fn size(&self) -> Result<u64> {
        size_of(&self.fd, &self.path)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

pub(super) struct PosixWritableFile {
    /// `None` once the file is closed.
    fd: Option<OwnedFd>,
    owner: ProcessOwner,
    path: PathBuf,
    buffer: Vec<u8>,
    written: u64,
    /// The end of the reserved space.
    reserved_end: u64,
    mapped: Option<MappedEnd>,
}

impl PosixWritableFile {
    /// A file that appends at `offset`.
    pub(super) fn new(fd: OwnedFd, path: &Path, offset: u64) -> PosixWritableFile {
        PosixWritableFile {
            fd: Some(fd),
            owner: ProcessOwner::here(),
            path: path.to_owned(),
            buffer: Vec::new(),
            written: offset,
            reserved_end: 0,
            mapped: None,
        }
    }

    fn fd(&self) -> Result<&OwnedFd> {
        self.owner.check(self.path.display())?;
        self.fd.as_ref().ok_or_else(|| closed(&self.path))
    }

    /// Writes all of `data` behind the bytes in the kernel.
    fn write_through(&mut self, data: &[u8]) -> Result<()> {
        self.owner.check(self.path.display())?;
        let fd = self.fd.as_ref().ok_or_else(|| closed(&self.path))?;
        let mut rest = data;
        while !rest.is_empty() {
            match retry_on_intr(|| rustix::io::pwrite(fd, rest, self.written)) {
                // A write of 0 bytes is an error: repeating it might never end.
                Ok(0) => return Err(failed_at("pwrite", &self.path, self.written, Errno::IO)),
                Ok(n) => {
                    self.written += n as u64;
                    rest = &rest[n..];
                }
                Err(e) => return Err(failed_at("pwrite", &self.path, self.written, e)),
            }
        }
        Ok(())
    }

    /// Appends the `rest` of an append that was stored in part, and extends the mapped end.
    #[cold]
    fn append_beyond(&mut self, rest: &[u8]) -> Result<()> {
        self.write_through(rest)?;
        let fd = self.fd.as_ref().ok_or_else(|| closed(&self.path))?;
        if let Some(mapped) = &mut self.mapped
            && mapped.is_full(self.written)
            && mapped.grow(fd, &self.path, self.written).is_err()
        {
            // Later appends use `write`, which reports the error if it persists.
            self.mapped = None;
            // If zeros stay behind the end, later writes overwrite them, or the close cuts them.
            match retry_on_intr(|| rustix::fs::ftruncate(fd, self.written)) {
                Ok(()) | Err(_) => self.reserved_end = self.reserved_end.max(self.written + 1),
            }
        }
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return self.fd().map(|_| ());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let before = self.written;
        let result = self.write_through(&buffer);
        let gone = usize::try_from(self.written - before).expect("at most the buffered bytes were written");
        buffer.drain(..gone);
        self.buffer = buffer;
        result
    }
}

#[cold]
fn closed(path: &Path) -> Error {
    Error::io(format!("{}: the file is closed", path.display()))
}

impl WritableFile for PosixWritableFile {
    #[inline]
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if let Some(mapped) = &mut self.mapped
            && self.owner.is_here()
        {
            let stored = mapped.store(self.written, data);
            self.written += stored as u64;
            return if stored == data.len() { Ok(()) } else { self.append_beyond(&data[stored..]) };
        }
        if self.buffer.len() + data.len() > BUFFER_BYTES {
            self.write_buffer()?;
            if data.len() >= BUFFER_BYTES {
                return self.write_through(data);
            }
        }
        self.fd()?;
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_buffer()
    }

    fn sync(&mut self) -> Result<()> {
        self.write_buffer()?;
        self.owner.check(self.path.display())?;
        retry_on_intr(|| os::sync_data(self.fd.as_ref().ok_or(Errno::BADF)?))
            .map_err(|e| failed("fdatasync", &self.path, e))
    }

    fn fsync(&mut self) -> Result<()> {
        self.write_buffer()?;
        self.owner.check(self.path.display())?;
        retry_on_intr(|| os::sync_all(self.fd.as_ref().ok_or(Errno::BADF)?))
            .map_err(|e| failed("fsync", &self.path, e))
    }

    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        if offset.saturating_add(bytes) > self.written {
            self.write_buffer()?;
        }
        let Err(cause) = os::start_write_back(self.fd()?, offset, bytes) else { return Ok(()) };
        // A hint that some file systems refuse.
        let is_refused = Errno::from_io_error(&cause).is_some_and(is_refused);
        if is_refused { Ok(()) } else { Err(failed("sync_file_range", &self.path, cause)) }
    }

    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        if let Some(fd) = &self.fd {
            os::hint_life_time(fd, hint);
        }
    }

    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let fd = self.fd()?;
        // Leaves no gap behind the written or reserved bytes, so that one number describes the
        // reservation.
        let from = offset.min(self.reserved_end.max(self.file_size()));
        let end = offset.saturating_add(bytes);
        let reserved = reserve(fd, &self.path, from, end.saturating_sub(from))?;
        if reserved > 0 {
            self.reserved_end = self.reserved_end.max(from + reserved);
        }
        if let Some(mapped) = &mut self.mapped {
            mapped.reserved_up_to(self.reserved_end);
        }
        Ok(())
    }

    fn append_in_place(&mut self, block: u64) -> Result<()> {
        self.write_buffer()?;
        let fd = self.fd()?;
        // A reader would take bytes behind the end for records, so a recycled log is written, not
        // mapped.
        if size_of(fd, &self.path)? == self.written {
            self.mapped = MappedEnd::new(fd, block, self.written, self.reserved_end);
        }
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.write_buffer()?;
        let fd = self.fd()?;
        retry_on_intr(|| rustix::fs::ftruncate(fd, size))
            .map_err(|e| failed_at("ftruncate", &self.path, size, e))?;
        self.mapped = None;
        self.written = size;
        self.reserved_end = 0;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.write_buffer()?;
        if self.reserved_end > self.written || self.mapped.is_some() {
            // Cutting to the appended length frees the blocks behind it.
            self.truncate(self.written)?;
        }
        self.fd = None;
        self.buffer = Vec::new();
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }
}

impl Drop for PosixWritableFile {
    fn drop(&mut self) {
        if self.fd.is_some() && self.owner.is_here() {
            // A drop cannot report an error: a caller that needs it calls `close`.
            match self.close() {
                Ok(()) | Err(_) => {}
            }
        }
    }
}

pub(super) struct PosixDirectory {
    fd: OwnedFd,
    path: PathBuf,
}

impl PosixDirectory {
    pub(super) fn new(fd: OwnedFd, path: &Path) -> PosixDirectory {
        PosixDirectory { fd, path: path.to_owned() }
    }
}

impl Directory for PosixDirectory {
    fn fsync(&self) -> Result<()> {
        match retry_on_intr(|| os::sync_all(&self.fd)) {
            Err(e) if syncs_no_directory(e) => {
                note_unsynced_directory(&self.path);
                Ok(())
            }
            synced => synced.map_err(|e| failed("fsync directory", &self.path, e)),
        }
    }
}
