//! A writable file with a rate limiter and periodic write-back.
//!
//! In: a writable file. Out: the same file. Its appends wait for the rate limiter, and the kernel
//! writes them back steadily. Without a limiter, and with `bytes_per_sync` 0, the wrapper only
//! passes calls on.
//!
//! After every `bytes_per_sync` bytes, the wrapper asks the kernel to write back the file, except
//! its last MiB. While the kernel writes a page back, an append to that page blocks. Source:
//! RocksDB `file/writable_file_writer.cc` (semantics).

use crate::clock::Clock;
use crate::fs::{WritableFile, WriteLifeTimeHint};
use crate::rate_limiter::{IoKind, IoPriority, RateLimiter};
use esker_base::Result;
use esker_base::stats::Statistics;
use esker_base::sync::Arc;

/// Bytes at the end of the file that a write-back leaves out.
const NOT_SYNCED_BYTES: u64 = 1 << 20;
/// Write-back ranges end at multiples of this number of bytes.
const PAGE_BYTES: u64 = 4096;

/// A writable file behind a rate limiter.
pub struct PacedWritableFile {
    inner: Box<dyn WritableFile>,
    limiter: Option<(Arc<RateLimiter>, IoPriority)>,
    clock: Arc<dyn Clock>,
    bytes_per_sync: u64,
    range_synced: u64,
    statistics: Option<Arc<Statistics>>,
}

impl PacedWritableFile {
    /// Wraps `inner`. `bytes_per_sync` 0 leaves write-back to the kernel. `statistics` counts the
    /// requests to the limiter.
    pub fn new(
        inner: Box<dyn WritableFile>,
        limiter: Option<(Arc<RateLimiter>, IoPriority)>,
        clock: Arc<dyn Clock>,
        bytes_per_sync: u64,
        statistics: Option<Arc<Statistics>>,
    ) -> PacedWritableFile {
        let range_synced = inner.file_size();
        PacedWritableFile { inner, limiter, clock, bytes_per_sync, range_synced, statistics }
    }

    fn start_write_back(&mut self) -> Result<()> {
        if self.bytes_per_sync == 0 {
            return Ok(());
        }
        let end = self.inner.file_size().saturating_sub(NOT_SYNCED_BYTES) / PAGE_BYTES * PAGE_BYTES;
        if end < self.range_synced.saturating_add(self.bytes_per_sync) {
            return Ok(());
        }
        self.inner.range_sync(self.range_synced, end - self.range_synced)?;
        self.range_synced = end;
        Ok(())
    }
}

impl std::fmt::Debug for PacedWritableFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacedWritableFile").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}

impl WritableFile for PacedWritableFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        if let Some((limiter, priority)) = &self.limiter {
            limiter.request(
                data.len() as u64,
                *priority,
                IoKind::Write,
                &*self.clock,
                self.statistics.as_deref(),
            );
        }
        self.inner.append(data)?;
        self.start_write_back()
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
        self.inner.truncate(size)?;
        self.range_synced = self.range_synced.min(size);
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        self.inner.close()
    }
    fn file_size(&self) -> u64 {
        self.inner.file_size()
    }
}

#[cfg(test)]
mod tests;
