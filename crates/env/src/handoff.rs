//! A writable file that hands checksums to its file system.
//!
//! In: appends to a file. Out: the same appends, each with the CRC32C of its bytes, so that the
//! file system can check them on the way to the medium. Source: RocksDB
//! `file/writable_file_writer.cc` (semantics of `checksum_handoff_file_types`).
//!
//! A file system that stores other bytes than it is given (encryption, direct I/O) passes no
//! checksum on. Cost: one pass over the bytes of each append, at the speed of CRC32C.

use crate::fs::{WritableFile, WriteLifeTimeHint};
use esker_base::Result;

/// Adds a checksum to each append.
///
/// ```
/// # use esker_env::{FileSystem, MemFs};
/// use esker_env::{ChecksumHandoff, WritableFile};
/// # let fs = MemFs::new();
/// # fs.create_dir_if_missing("/d".as_ref())?;
/// let file = fs.new_writable_file("/d/table".as_ref())?;
/// let mut file = ChecksumHandoff::new(file);
/// file.append(b"bytes")?; // `append_with_checksum(b"bytes", …)` of the file below
/// # Ok::<_, esker_base::Error>(())
/// ```
pub struct ChecksumHandoff {
    inner: Box<dyn WritableFile>,
}

impl ChecksumHandoff {
    /// Wraps `inner`.
    pub fn new(inner: Box<dyn WritableFile>) -> ChecksumHandoff {
        ChecksumHandoff { inner }
    }
}

impl std::fmt::Debug for ChecksumHandoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ChecksumHandoff")
    }
}

impl WritableFile for ChecksumHandoff {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.inner.append_with_checksum(data, esker_base::crc32c::value(data))
    }
    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.inner.fsync()
    }
    fn range_sync(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.range_sync(offset, bytes)
    }
    fn preallocate(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.inner.preallocate(offset, bytes)
    }
    fn set_write_life_time_hint(&mut self, hint: WriteLifeTimeHint) {
        self.inner.set_write_life_time_hint(hint);
    }
    fn append_in_place(&mut self, block: u64) -> Result<()> {
        self.inner.append_in_place(block)
    }
    fn truncate(&mut self, size: u64) -> Result<()> {
        self.inner.truncate(size)
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}
