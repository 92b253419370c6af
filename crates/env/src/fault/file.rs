//! Open files and directories that apply the rules before each operation.

use super::op::OpKind;
use super::{Shared, Verdict};
use crate::direct::Alignment;
use crate::fs::{Directory, RandomAccessFile, SequentialFile, WritableFile, WriteLifeTimeHint};
use esker_base::Result;
use esker_base::sync::Arc;
use std::path::{Path, PathBuf};

/// Reads through `read`, unless a rule decides otherwise. Sets `spoils` to whether the schedule may
/// change the bytes.
fn read(
    shared: &Shared,
    path: &Path,
    offset: u64,
    buf: &mut [u8],
    spoils: &mut bool,
    read: impl FnOnce(&mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let verdict = shared.begin(OpKind::Read, path, Some(offset), buf.len());
    *spoils = matches!(verdict, Verdict::Spoil);
    match verdict {
        Verdict::Go | Verdict::Spoil => read(buf),
        Verdict::Fail(e) | Verdict::Short(_, e) => Err(e),
        Verdict::Skip => Err(super::cannot_skip(OpKind::Read)),
        Verdict::Flip(draw) => {
            let n = read(buf)?;
            if n > 0 {
                let bit = draw % (n as u64 * 8);
                buf[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
            Ok(n)
        }
    }
}

pub(super) struct FaultSequentialFile {
    inner: Box<dyn SequentialFile>,
    shared: Arc<Shared>,
    path: PathBuf,
    offset: u64,
}

impl FaultSequentialFile {
    pub(super) fn new(
        inner: Box<dyn SequentialFile>,
        shared: Arc<Shared>,
        path: &Path,
    ) -> FaultSequentialFile {
        FaultSequentialFile { inner, shared, path: path.to_owned(), offset: 0 }
    }
}

impl SequentialFile for FaultSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = read(&self.shared, &self.path, self.offset, buf, &mut false, |buf| self.inner.read(buf))?;
        self.offset += n as u64;
        Ok(n)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.inner.skip(bytes)?;
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct FaultRandomAccessFile {
    inner: Arc<dyn RandomAccessFile>,
    shared: Arc<Shared>,
}

impl FaultRandomAccessFile {
    pub(super) fn new(inner: Arc<dyn RandomAccessFile>, shared: Arc<Shared>) -> FaultRandomAccessFile {
        FaultRandomAccessFile { inner, shared }
    }
}

impl RandomAccessFile for FaultRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let path = self.inner.path();
        let mut spoils = false;
        let n = read(&self.shared, path, offset, buf, &mut spoils, |buf| self.inner.read_at(offset, buf))?;
        if spoils {
            // Ignores an error of this second read: the bytes are to be wrong in any case.
            let mut again = |at: u64, other: &mut [u8]| drop(self.inner.read_at(at, other));
            self.shared.spoil(path, offset, &mut buf[..n], &mut again);
        }
        Ok(n)
    }

    fn alignment(&self) -> Option<Alignment> {
        self.inner.alignment()
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        self.inner.prefetch(offset, bytes);
    }

    fn read_anew(&self, offset: u64, bytes: u64) {
        self.inner.read_anew(offset, bytes);
    }

    fn never_waits(&self) -> bool {
        self.inner.never_waits()
    }

    fn size(&self) -> Result<u64> {
        self.inner.size()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

pub(super) struct FaultWritableFile {
    inner: Box<dyn WritableFile>,
    shared: Arc<Shared>,
    path: PathBuf,
}

impl FaultWritableFile {
    pub(super) fn new(inner: Box<dyn WritableFile>, shared: Arc<Shared>, path: &Path) -> FaultWritableFile {
        FaultWritableFile { inner, shared, path: path.to_owned() }
    }
}

impl WritableFile for FaultWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        match self.shared.begin(OpKind::Append, &self.path, Some(self.inner.file_size()), data.len()) {
            Verdict::Go | Verdict::Flip(_) | Verdict::Spoil => self.inner.append(data),
            Verdict::Fail(e) => Err(e),
            Verdict::Skip => Ok(()),
            Verdict::Short(keep, e) => {
                self.inner.append(&data[..keep])?;
                self.inner.flush()?;
                Err(e)
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.shared.check(OpKind::Flush, &self.path)? { self.inner.flush() } else { Ok(()) }
    }

    /// Gives appended bytes to the kernel before the sync begins: a crash within the sync may then
    /// keep any part of them.
    fn sync(&mut self) -> Result<()> {
        self.inner.flush()?;
        // A skipped sync simulates a disk that lies. The kernel still gets the bytes.
        if self.shared.check(OpKind::Sync, &self.path)? { self.inner.sync() } else { self.inner.flush() }
    }

    fn fsync(&mut self) -> Result<()> {
        self.inner.flush()?;
        if self.shared.check(OpKind::Sync, &self.path)? { self.inner.fsync() } else { self.inner.flush() }
    }

    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        match self.shared.begin(OpKind::RangeSync, &self.path, Some(offset), bytes as usize) {
            Verdict::Go | Verdict::Flip(_) | Verdict::Spoil => self.inner.range_sync(offset, bytes),
            Verdict::Fail(e) | Verdict::Short(_, e) => Err(e),
            Verdict::Skip => Ok(()),
        }
    }

    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        match self.shared.begin(OpKind::Preallocate, &self.path, Some(offset), bytes as usize) {
            Verdict::Go | Verdict::Flip(_) | Verdict::Spoil => self.inner.preallocate(offset, bytes),
            Verdict::Fail(e) | Verdict::Short(_, e) => Err(e),
            Verdict::Skip => Ok(()),
        }
    }

    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.inner.set_write_life_time_hint(hint);
    }

    /// Not an operation of its own: it takes effect in appends.
    fn append_in_place(&mut self, block: u64) -> Result<()> {
        self.inner.append_in_place(block)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        if self.shared.check(OpKind::Truncate, &self.path)? { self.inner.truncate(size) } else { Ok(()) }
    }

    fn close(&mut self) -> Result<()> {
        if self.shared.check(OpKind::Close, &self.path)? { self.inner.close() } else { Ok(()) }
    }

    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}

pub(super) struct FaultDirectory {
    inner: Box<dyn Directory>,
    shared: Arc<Shared>,
    path: PathBuf,
}

impl FaultDirectory {
    pub(super) fn new(inner: Box<dyn Directory>, shared: Arc<Shared>, path: &Path) -> FaultDirectory {
        FaultDirectory { inner, shared, path: path.to_owned() }
    }
}

impl Directory for FaultDirectory {
    fn fsync(&self) -> Result<()> {
        if self.shared.check(OpKind::DirSync, &self.path)? { self.inner.fsync() } else { Ok(()) }
    }
}
