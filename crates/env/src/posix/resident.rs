//! Reads of bytes that the kernel has in memory.
//!
//! In: several reads. Out: the completed reads, which did not have to wait. A read from the page
//! cache costs a third of a microsecond. A read through a ring costs more, and pays only if it
//! waits for a device.
//! Source: the kernel's `preadv2(2)`, `RWF_NOWAIT`.
//!
//! Invariant: an error here is no error of the read. The caller reads again and gets the system's
//! own error.

use crate::read_many::ReadRequest;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

#[cfg(test)]
mod tests;

/// Number of successive reads that would wait, after which no others are tried.
const MOST_MISSES: usize = 4;
/// Buffers of one read, at most: the kernel's `IOV_MAX`.
const MOST_PARTS: usize = 1024;
/// Reads from memory. `done` gets the number of bytes of each request: all, or none.
pub(crate) fn read_resident(requests: &mut [ReadRequest<'_>], done: &mut [usize]) {
    let mut misses = 0;
    for (request, done) in requests.iter_mut().zip(done) {
        let Some(fd) = request.file.descriptor() else { continue };
        match try_read(fd, request.offset, &mut request.bufs) {
            Ok(n) if n == request.bufs.iter().map(|buf| buf.len()).sum::<usize>() => {
                *done = n;
                misses = 0;
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return,
            Ok(_) | Err(_) => misses += 1,
        }
        if misses >= MOST_MISSES {
            break;
        }
    }
}

/// The page cache's part of one read, if it has any of it.
fn try_read(fd: BorrowedFd<'_>, offset: u64, bufs: &mut [&mut [u8]]) -> Result<usize, Errno> {
    if bufs.len() > MOST_PARTS {
        return Err(Errno::AGAIN);
    }
    if let [buf] = bufs {
        return rustix::io::preadv2(fd, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT);
    }
    let mut parts: Vec<IoSliceMut<'_>> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
    rustix::io::preadv2(fd, &mut parts, offset, ReadWriteFlags::NOWAIT)
}
