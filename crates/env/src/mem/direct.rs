//! Files in memory opened with direct I/O: they accept the alignment of a disk with 512-byte
//! sectors, and panic otherwise.

use super::MemShared;
use super::node::FileNode;
use crate::direct::{Alignment, DirectSink, DirectSource};
use esker_base::Result;
use esker_base::sync::Arc;
use std::path::{Path, PathBuf};

/// The number of which offsets, lengths and addresses must be multiples.
const SECTOR_BYTES: usize = 512;

#[derive(Debug)]
pub(super) struct MemDirectFile {
    shared: Arc<MemShared>,
    node: Arc<FileNode>,
    path: PathBuf,
    alignment: Alignment,
}

impl MemDirectFile {
    pub(super) fn new(shared: Arc<MemShared>, node: Arc<FileNode>, path: &Path) -> MemDirectFile {
        let alignment = Alignment::new(SECTOR_BYTES, SECTOR_BYTES);
        MemDirectFile { shared, node, path: path.to_owned(), alignment }
    }

    fn check(&self, what: &str, offset: u64, blocks: &[u8]) {
        assert!(
            self.alignment.fits(offset, blocks),
            "{}: an unaligned direct {what} of {} bytes at {offset}, memory at {:p}",
            self.path.display(),
            blocks.len(),
            blocks.as_ptr(),
        );
    }

    fn read_blocks(&self, offset: u64, blocks: &mut [u8]) -> usize {
        self.check("read", offset, blocks);
        self.node.data.read().live.read_at(offset, blocks)
    }
}

impl DirectSource for MemDirectFile {
    fn alignment(&self) -> Alignment {
        self.alignment
    }

    fn read(&self, offset: u64, blocks: &mut [u8]) -> Result<usize> {
        Ok(self.read_blocks(offset, blocks))
    }

    fn size(&self) -> Result<u64> {
        Ok(self.node.data.read().live.len())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Each write is a change of its own: a crash parts them.
impl DirectSink for MemDirectFile {
    fn alignment(&self) -> Alignment {
        self.alignment
    }

    fn write(&mut self, offset: u64, blocks: &[u8]) -> Result<usize> {
        self.check("write", offset, blocks);
        let _standing = self.shared.gate.read();
        self.node.data.write().write(offset, blocks);
        Ok(blocks.len())
    }

    fn read(&mut self, offset: u64, block: &mut [u8]) -> Result<usize> {
        Ok(self.read_blocks(offset, block))
    }

    fn set_len(&mut self, size: u64) -> Result<()> {
        let _standing = self.shared.gate.read();
        self.node.data.write().set_len(size);
        Ok(())
    }

    fn sync(&mut self, _all: bool) -> Result<()> {
        let _standing = self.shared.gate.read();
        if self.node.data.write().sync() {
            self.shared.tree.lock().commit_journal();
        }
        Ok(())
    }

    fn preallocate(&mut self, _offset: u64, _bytes: u64) -> Result<bool> {
        Ok(false)
    }
}
