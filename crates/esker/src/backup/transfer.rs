//! Bytes that a backup, a verification or a restore reads: paced, counted, and stopped on request.

use crate::files::read_chunks;
use esker_base::stats::{Statistics, Ticker};
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, Result, crc32c};
use esker_env::{Clock, FileSystem, IoKind, IoPriority, RateLimiter};
use std::cell::Cell;
use std::path::Path;

/// Reads and copies files.
pub(super) struct Transfer<'a> {
    fs: &'a dyn FileSystem,
    clock: &'a dyn Clock,
    limiter: Option<&'a RateLimiter>,
    pub(super) stopped: Option<&'a AtomicBool>,
    /// Called after each `interval` bytes that are copied.
    pub(super) progress: Option<&'a (dyn Fn() + Send + Sync)>,
    /// Counts the bytes of a backup.
    pub(super) statistics: Option<&'a Statistics>,
    interval: u64,
    /// Bytes copied since the last call.
    since: Cell<u64>,
}

impl<'a> Transfer<'a> {
    /// A transfer at the pace of `limiter`, which nobody stops and which reports no progress.
    pub(super) fn new(
        fs: &'a dyn FileSystem,
        clock: &'a dyn Clock,
        limiter: Option<&'a RateLimiter>,
        interval: u64,
    ) -> Transfer<'a> {
        let since = Cell::new(0);
        Transfer { fs, clock, limiter, stopped: None, progress: None, statistics: None, interval, since }
    }

    /// Checks that the backup was not stopped.
    /// # Errors
    /// `Incomplete` if it was.
    pub(super) fn check_stopped(&self) -> Result<()> {
        match self.stopped.is_some_and(|stopped| stopped.load(Ordering::Acquire)) {
            true => Err(Error::incomplete("Backup stopped")),
            false => Ok(()),
        }
    }

    /// The checksum of the first `bytes` bytes of a file.
    /// # Errors
    /// `IoError` · `Corruption`: the file is shorter · `Incomplete` if the backup was stopped.
    pub(super) fn checksum(&self, path: &Path, is_direct: bool, bytes: u64) -> Result<u32> {
        let mut crc = 0;
        read_chunks(self.fs.open_sequential(path, is_direct)?, path, bytes, |chunk| {
            self.pace(chunk)?;
            crc = crc32c::extend(crc, chunk);
            Ok(())
        })?;
        Ok(crc)
    }

    /// Copies the first `bytes` bytes, durably, and returns their checksum.
    /// # Errors
    /// Those of [`checksum`](Self::checksum).
    pub(super) fn copy(&self, from: &Path, is_direct: bool, to: &Path, bytes: u64) -> Result<u32> {
        self.copy_from(self.fs, from, is_direct, to, bytes)
    }

    /// [`copy`](Self::copy) of a file in the file system `source`.
    /// # Errors
    /// Those of [`checksum`](Self::checksum).
    pub(super) fn copy_from(
        &self,
        source: &dyn FileSystem,
        from: &Path,
        is_direct: bool,
        to: &Path,
        bytes: u64,
    ) -> Result<u32> {
        let source = source.open_sequential(from, is_direct)?;
        let mut target = self.fs.new_writable_file(to)?;
        let mut crc = 0;
        read_chunks(source, from, bytes, |chunk| {
            self.pace(chunk)?;
            crc = crc32c::extend(crc, chunk);
            target.append(chunk)?;
            self.count(Ticker::BackupWriteBytes, chunk);
            self.report_progress(chunk);
            Ok(())
        })?;
        target.fsync()?;
        target.close()?;
        Ok(crc)
    }

    fn pace(&self, chunk: &[u8]) -> Result<()> {
        self.check_stopped()?;
        if let Some(limiter) = self.limiter {
            let kind = if limiter.limits(IoKind::Read) { IoKind::Read } else { IoKind::Write };
            limiter.request(chunk.len() as u64, IoPriority::Low, kind, self.clock, self.statistics);
        }
        self.count(Ticker::BackupReadBytes, chunk);
        Ok(())
    }

    fn count(&self, ticker: Ticker, chunk: &[u8]) {
        if let Some(statistics) = self.statistics {
            statistics.record_tick(ticker, chunk.len() as u64);
        }
    }

    fn report_progress(&self, chunk: &[u8]) {
        let Some(progress) = self.progress else { return };
        let mut since = self.since.get() + chunk.len() as u64;
        while since >= self.interval {
            since -= self.interval;
            progress();
        }
        self.since.set(since);
    }
}
