//! Open files, directories and locks in memory.
//!
//! In a tracked file system a writable file keeps its appends back until a flush, sync or close, or
//! until they would fill a real file's buffer. So tests find a missing flush.

use super::MemShared;
use super::node::FileNode;
use crate::fs::{Directory, FileLock, RandomAccessFile, SequentialFile, WritableFile};
use esker_base::sync::Arc;
use esker_base::{Error, Result};
use std::path::{Path, PathBuf};

/// The buffer size of a real file (`posix/file.rs`).
const BUFFER_BYTES: usize = 128 << 10;

pub(super) struct MemSequentialFile {
    node: Arc<FileNode>,
    offset: u64,
}

impl MemSequentialFile {
    pub(super) fn new(node: Arc<FileNode>) -> MemSequentialFile {
        MemSequentialFile { node, offset: 0 }
    }
}

impl SequentialFile for MemSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.node.data.read().live.read_at(self.offset, buf);
        self.offset += n as u64;
        Ok(n)
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct MemRandomAccessFile {
    node: Arc<FileNode>,
    path: PathBuf,
}

impl MemRandomAccessFile {
    pub(super) fn new(node: Arc<FileNode>, path: &Path) -> MemRandomAccessFile {
        MemRandomAccessFile { node, path: path.to_owned() }
    }
}

impl RandomAccessFile for MemRandomAccessFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.node.data.read().live.read_at(offset, buf))
    }

    fn never_waits(&self) -> bool {
        true
    }

    fn size(&self) -> Result<u64> {
        Ok(self.node.data.read().live.len())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

pub(super) struct MemWritableFile {
    shared: Arc<MemShared>,
    node: Arc<FileNode>,
    path: PathBuf,
    /// Appends that are not flushed, one element each, so that a crash can separate them.
    pending: Vec<Vec<u8>>,
    pending_bytes: usize,
    /// Offset at which the next flush writes.
    offset: u64,
    /// Whether appends are flushed at once.
    in_place: bool,
    closed: bool,
}

impl MemWritableFile {
    pub(super) fn new(
        shared: Arc<MemShared>,
        node: Arc<FileNode>,
        path: &Path,
        offset: u64,
    ) -> MemWritableFile {
        let path = path.to_owned();
        let (pending, pending_bytes) = (Vec::new(), 0);
        MemWritableFile { shared, node, path, pending, pending_bytes, offset, in_place: false, closed: false }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed {
            Err(Error::io(format!("{}: the file is closed", self.path.display())))
        } else {
            Ok(())
        }
    }
}

impl WritableFile for MemWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.check_open()?;
        if !self.shared.tracked {
            self.node.data.write().write(self.offset, data);
            self.offset += data.len() as u64;
            return Ok(());
        }
        self.pending.push(data.to_vec());
        self.pending_bytes += data.len();
        if self.in_place || self.pending_bytes > BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        if self.pending.is_empty() {
            return Ok(());
        }
        let _standing = self.shared.gate.read();
        let mut data = self.node.data.write();
        for piece in self.pending.drain(..) {
            data.write(self.offset, &piece);
            self.offset += piece.len() as u64;
        }
        self.pending_bytes = 0;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        let _standing = self.shared.gate.read();
        if self.node.data.write().sync() {
            self.shared.tree.lock().commit_journal();
        }
        Ok(())
    }

    /// Readers of this file system never see the zeros behind the end; a crash may show them.
    fn append_in_place(&mut self, block: u64) -> Result<()> {
        self.flush()?;
        let _standing = self.shared.gate.read();
        let mut data = self.node.data.write();
        self.in_place = data.live.len() == self.offset;
        data.block = self.in_place.then_some(block);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.flush()?;
        self.in_place = false;
        let _standing = self.shared.gate.read();
        let mut data = self.node.data.write();
        data.block = None;
        data.set_len(size);
        self.offset = size;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.flush()?;
        if self.in_place {
            let _standing = self.shared.gate.read();
            self.node.data.write().block = None;
        }
        self.closed = true;
        Ok(())
    }

    fn file_size(&self) -> u64 {
        self.offset + self.pending_bytes as u64
    }
}

impl Drop for MemWritableFile {
    fn drop(&mut self) {
        if !self.closed {
            self.close().expect("a write to memory cannot fail");
        }
    }
}

pub(super) struct MemDirectory {
    shared: Arc<MemShared>,
    id: u64,
}

impl MemDirectory {
    pub(super) fn new(shared: Arc<MemShared>, id: u64) -> MemDirectory {
        MemDirectory { shared, id }
    }
}

impl Directory for MemDirectory {
    fn fsync(&self) -> Result<()> {
        let _standing = self.shared.gate.read();
        self.shared.tree.lock().sync_dir(self.id);
        Ok(())
    }
}

pub(super) struct MemFileLock {
    shared: Arc<MemShared>,
    id: u64,
}

impl MemFileLock {
    pub(super) fn new(shared: Arc<MemShared>, id: u64) -> MemFileLock {
        MemFileLock { shared, id }
    }
}

impl FileLock for MemFileLock {}

impl Drop for MemFileLock {
    fn drop(&mut self) {
        self.shared.tree.lock().locks.remove(&self.id);
    }
}
