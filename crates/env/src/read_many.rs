//! Several reads at once.
//!
//! In: reads of any files. Out: the result of each read. A read takes up to three steps. The first
//! two serve files that lend their descriptors ([`RandomAccessFile::descriptor`]). First, the
//! kernel copies bytes that it has in memory. Second, the reads that still wait go to `io_uring`
//! together, if the kernel has it. Third, the files' own methods read the rest, one by one. A
//! test's file system lends no descriptors, and so sees all reads. Files with direct I/O have their
//! own path (`direct/together.rs`).
//!
//! Invariant: the result of a read does not depend on its path.

#[cfg(target_os = "linux")]
use crate::counted::{IoWatch, ReadCounter};
use crate::direct::read_together;
use crate::fs::RandomAccessFile;
#[cfg(target_os = "linux")]
use crate::posix::resident::read_resident;
use esker_base::{Result, iostats_add};
use std::fmt;

/// One read of consecutive bytes of a file into one or more buffers.
pub struct ReadRequest<'a> {
    /// The file to read.
    pub file: &'a dyn RandomAccessFile,
    /// The offset of the first byte.
    pub offset: u64,
    /// The destination. The request is for the sum of the buffers' lengths.
    pub bufs: Vec<&'a mut [u8]>,
    /// Number of bytes read: fewer than requested only at the end of the file.
    pub result: Result<usize>,
}

impl<'a> ReadRequest<'a> {
    /// Makes a request for [`read_many`].
    pub fn new(file: &'a dyn RandomAccessFile, offset: u64, bufs: Vec<&'a mut [u8]>) -> ReadRequest<'a> {
        ReadRequest { file, offset, bufs, result: Ok(0) }
    }

    /// Number of requested bytes.
    pub fn wanted(&self) -> usize {
        self.bufs.iter().map(|buf| buf.len()).sum()
    }

    /// Counts `bytes` that were read through the file's descriptor.
    pub(crate) fn count_shared(&self, bytes: usize) {
        iostats_add!(bytes_read, bytes as u64);
        if bytes > 0
            && let Some(counter) = self.file.read_counter()
        {
            counter.count(bytes);
        }
    }

    /// Reads the part of the request behind its first `done` bytes.
    pub(crate) fn read_behind(&mut self, done: usize) {
        if done == 0 {
            self.result = match self.bufs.as_mut_slice() {
                [buf] => self.file.read_at(self.offset, buf),
                bufs => self.file.read_vectored_at(self.offset, bufs),
            };
            return;
        }
        let mut before = done;
        let mut rest: Vec<&mut [u8]> = Vec::with_capacity(self.bufs.len());
        for buf in &mut self.bufs {
            let skipped = before.min(buf.len());
            before -= skipped;
            if skipped < buf.len() {
                rest.push(&mut buf[skipped..]);
            }
        }
        let read = self.file.read_vectored_at(self.offset + done as u64, &mut rest);
        self.result = read.map(|n| done + n);
    }
}

impl fmt::Debug for ReadRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {} at {}", self.wanted(), self.file.path().display(), self.offset)
    }
}

/// Starts the time of reads that go together through descriptors, if the first file counts.
#[cfg(target_os = "linux")]
pub(crate) fn watch<'a>(requests: &[ReadRequest<'a>]) -> Option<IoWatch<'a>> {
    requests.first().and_then(|request| request.file.read_counter()).map(ReadCounter::watch)
}

/// Carries out all these reads and sets their results.
pub fn read_many(requests: &mut [ReadRequest<'_>]) {
    let is_direct = |request: &ReadRequest<'_>| request.file.alignment().is_some();
    if requests.iter().any(is_direct) {
        let (mut direct, others): (Vec<_>, Vec<_>) = requests.iter_mut().partition(|r| is_direct(r));
        read_together(&mut direct);
        others.into_iter().for_each(|request| request.read_behind(0));
        return;
    }
    let done = submit(requests);
    for (i, request) in requests.iter_mut().enumerate() {
        let done = done.get(i).copied().unwrap_or(0);
        request.count_shared(done);
        if done == request.wanted() {
            request.result = Ok(done);
        } else {
            request.read_behind(done);
        }
    }
}

/// Gives the requests to `io_uring`. Returns the number of bytes read by each: zeros if there is no
/// `io_uring`.
#[cfg(target_os = "linux")]
fn submit(requests: &mut [ReadRequest<'_>]) -> Vec<usize> {
    let may_wait =
        |request: &ReadRequest<'_>| request.file.descriptor().is_some() && !request.file.never_waits();
    if requests.len() < 2 || !requests.iter().any(may_wait) {
        return Vec::new();
    }
    let mut done = vec![0; requests.len()];
    let _watch = watch(requests);
    read_resident(requests, &mut done);
    let is_waiting = |(request, done): (&ReadRequest<'_>, &usize)| request.wanted() > *done;
    let waiting = requests.iter().zip(&done).map(is_waiting).filter(|&is_waiting| is_waiting).count();
    // A single read is as fast without `io_uring`.
    if waiting > 1 {
        crate::posix::ring::read_many(requests, &mut done);
    }
    done
}

#[cfg(not(target_os = "linux"))]
fn submit(_requests: &mut [ReadRequest<'_>]) -> Vec<usize> {
    Vec::new()
}
