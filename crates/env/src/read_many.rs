//! Several reads as one.
//!
//! In: reads of any files. Out: each one's result. Of files that lend their descriptor what is in the kernel's memory is read at once,
//! and what has to be waited for goes to the kernel together, if it has an `io_uring` for us; all others, and what the kernel did
//! not finish, go through the file itself, one by one: so faults that a test's file system makes up are met in any case. Files that
//! are read past the page cache have their own way (`direct/together.rs`).
//!
//! Invariant: what a read gives does not depend on the way it went.

use crate::direct::read_together;
use crate::fs::RandomAccessFile;
#[cfg(target_os = "linux")]
use crate::posix::resident::Residence;
use esker_base::Result;
use std::fmt;

/// One of several reads: of bytes that lie behind each other in a file, into one or more buffers.
pub struct ReadRequest<'a> {
    /// What to read.
    pub file: &'a dyn RandomAccessFile,
    /// Where to start.
    pub offset: u64,
    /// Where the bytes go; their lengths are how many are wanted.
    pub bufs: Vec<&'a mut [u8]>,
    /// How many bytes were read: fewer only at the end of the file.
    pub result: Result<usize>,
}

impl<'a> ReadRequest<'a> {
    /// To be read by [`read_many`].
    pub fn new(file: &'a dyn RandomAccessFile, offset: u64, bufs: Vec<&'a mut [u8]>) -> ReadRequest<'a> {
        ReadRequest { file, offset, bufs, result: Ok(0) }
    }

    /// Bytes that are wanted.
    pub(crate) fn wanted(&self) -> usize {
        self.bufs.iter().map(|buf| buf.len()).sum()
    }

    /// Reads what is wanted behind the first `done` bytes.
    pub(crate) fn read_behind(&mut self, done: usize) {
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

/// Does all of these reads.
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
        if done == request.wanted() {
            request.result = Ok(done);
        } else {
            request.read_behind(done);
        }
    }
}

/// How many bytes of each the kernel has read when it was given all of them; of none, if it was not.
#[cfg(target_os = "linux")]
fn submit(requests: &mut [ReadRequest<'_>]) -> Vec<usize> {
    if requests.len() < 2 || !requests.iter().any(|request| request.file.descriptor().is_some()) {
        return Vec::new();
    }
    let mut done = vec![0; requests.len()];
    let residence = crate::posix::resident::read_resident(requests, &mut done);
    let is_waiting = |(request, done): (&ReadRequest<'_>, &usize)| request.wanted() > *done;
    let waiting = requests.iter().zip(&done).map(is_waiting).filter(|&is_waiting| is_waiting).count();
    // A lone read waits no longer by itself.
    if residence == Residence::Partly && waiting > 1 {
        crate::posix::ring::read_many(requests, &mut done);
    }
    done
}

#[cfg(not(target_os = "linux"))]
fn submit(_requests: &mut [ReadRequest<'_>]) -> Vec<usize> {
    Vec::new()
}
