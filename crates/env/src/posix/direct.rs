//! Files of the real file system with `O_DIRECT`.
//!
//! The kernel reports the alignment (`statx`, since Linux 6.1). An older kernel does not; then it
//! is the logical block of the device, or a page if that is unknown. Source of the last two:
//! RocksDB `env/io_posix.cc`.

use super::os;
use super::{At, failed, failed_at, file, size_of, try_open};
use crate::descriptors::DataFile;
use crate::direct::{Alignment, DirectSink, DirectSource};
use crate::fs::WriteLifeTimeHint;
use crate::fs::no_direct_io;
use esker_base::Result;
use esker_base::sync::fork::ProcessOwner;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::{Errno, retry_on_intr};
use std::path::{Path, PathBuf};

/// The alignment if nothing better is known.
const PAGE_BYTES: usize = 4096;
/// Valid sizes of a block. No device has larger ones, so an answer outside is ignored.
const BLOCK_BYTES: std::ops::RangeInclusive<usize> = 512..=64 << 10;

/// An open file; its reads and writes are aligned. A forked child may read it, and changes nothing.
#[derive(Debug)]
pub(super) struct DirectFile {
    fd: OwnedFd,
    owner: ProcessOwner,
    path: PathBuf,
    alignment: Alignment,
    /// Counts the file if it is open for reading.
    _counted: Option<DataFile>,
}

impl DirectFile {
    pub(super) fn open_to_read(operation: &str, at: &At<'_>) -> Result<DirectFile> {
        DirectFile::open(operation, at, OFlags::RDONLY)
    }

    /// Creates the file. `how` says whether an existing file is emptied or refused.
    pub(super) fn create(operation: &str, at: &At<'_>, how: OFlags) -> Result<DirectFile> {
        DirectFile::open(operation, at, OFlags::RDWR | OFlags::CREATE | how)
    }

    fn open(operation: &str, at: &At<'_>, flags: OFlags) -> Result<DirectFile> {
        let path = at.path;
        let fd = try_open(at, flags | OFlags::DIRECT).map_err(|e| match e {
            Errno::INVAL | Errno::OPNOTSUPP => no_direct_io(operation, path),
            e => failed(operation, path, e),
        })?;
        let alignment = alignment_of(&fd).ok_or_else(|| no_direct_io(operation, path))?;
        let _counted = (!flags.contains(OFlags::CREATE)).then(DataFile::new);
        Ok(DirectFile { fd, owner: ProcessOwner::here(), path: path.to_owned(), alignment, _counted })
    }
}

/// The file's alignment; `None` if it has no direct I/O.
fn alignment_of(fd: &OwnedFd) -> Option<Alignment> {
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match stat {
        Ok(stat) if stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            reported_alignment(stat.stx_dio_offset_align, stat.stx_dio_mem_align)
        }
        _ => {
            let block = logical_block(fd).unwrap_or(PAGE_BYTES);
            Some(Alignment::new(block, block))
        }
    }
}

/// The alignment that the kernel reports; zeros mean no direct I/O.
fn reported_alignment(block: u32, memory: u32) -> Option<Alignment> {
    let (block, memory) = (usize::try_from(block).ok()?, usize::try_from(memory).ok()?);
    let is_answer = |n: usize| n.is_power_of_two() && n <= *BLOCK_BYTES.end();
    (is_answer(block) && is_answer(memory)).then(|| Alignment::new(block, memory))
}

/// The logical block of the device under the file; a partition has its disk's.
fn logical_block(fd: &OwnedFd) -> Option<usize> {
    let device = rustix::fs::fstat(fd).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = format!("/sys/dev/block/{major}:{minor}");
    let read = |queue: &str| std::fs::read_to_string(format!("{device}/{queue}/logical_block_size")).ok();
    let bytes = read("queue").or_else(|| read("../queue"))?.trim().parse().ok()?;
    (BLOCK_BYTES.contains(&bytes) && bytes.is_power_of_two()).then_some(bytes)
}

impl DirectFile {
    /// Reads whole blocks, as many as there are.
    fn read_blocks(&self, offset: u64, blocks: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < blocks.len() {
            let at = offset + done as u64;
            match retry_on_intr(|| rustix::io::pread(&self.fd, &mut blocks[done..], at)) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) => return Err(failed_at("pread", &self.path, at, e)),
            }
            // Only the end of the file lies within a block, and no aligned read is possible behind
            // it.
            if !done.is_multiple_of(self.alignment.block()) {
                break;
            }
        }
        Ok(done)
    }
}

impl DirectSource for DirectFile {
    fn alignment(&self) -> Alignment {
        self.alignment
    }

    fn read(&self, offset: u64, blocks: &mut [u8]) -> Result<usize> {
        self.read_blocks(offset, blocks)
    }

    fn size(&self) -> Result<u64> {
        size_of(&self.fd, &self.path)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}

impl DirectSink for DirectFile {
    fn alignment(&self) -> Alignment {
        self.alignment
    }

    fn write(&mut self, offset: u64, blocks: &[u8]) -> Result<usize> {
        self.owner.check(self.path.display())?;
        let n = retry_on_intr(|| rustix::io::pwrite(&self.fd, blocks, offset))
            .map_err(|e| failed_at("pwrite", &self.path, offset, e))?;
        // A block that was written in part is written again completely.
        match n - n % self.alignment.block() {
            // A write of 0 bytes is an error: repeating it might never end.
            0 => Err(failed_at("pwrite", &self.path, offset, Errno::IO)),
            whole => Ok(whole),
        }
    }

    fn read(&mut self, offset: u64, block: &mut [u8]) -> Result<usize> {
        self.read_blocks(offset, block)
    }

    fn set_len(&mut self, size: u64) -> Result<()> {
        self.owner.check(self.path.display())?;
        retry_on_intr(|| rustix::fs::ftruncate(&self.fd, size))
            .map_err(|e| failed_at("ftruncate", &self.path, size, e))
    }

    fn sync(&mut self, all: bool) -> Result<()> {
        self.owner.check(self.path.display())?;
        if all {
            retry_on_intr(|| rustix::fs::fsync(&self.fd)).map_err(|e| failed("fsync", &self.path, e))
        } else {
            retry_on_intr(|| rustix::fs::fdatasync(&self.fd)).map_err(|e| failed("fdatasync", &self.path, e))
        }
    }

    fn hint_life_time(&mut self, hint: WriteLifeTimeHint) {
        os::hint_life_time(&self.fd, hint);
    }

    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<bool> {
        self.owner.check(self.path.display())?;
        Ok(file::reserve(&self.fd, &self.path, offset, bytes)? > 0)
    }
}
