//! Batched reads with `io_uring`.
//!
//! Each thread that reads in batches makes its own ring at its first batch. If the kernel or its
//! rules refuse a ring, no thread tries again. Any other failure drops the thread's ring, and this
//! call falls back to single reads. Source: the kernel's `io_uring(7)`.
//!
//! Invariants
//!  1. [`read_many`] returns only after the kernel has reported every submission that it took, so
//!     that the kernel writes to no buffer later.
//!  2. A forked child makes a ring of its own.
//!  3. An error of the ring is no error of a read: the caller repeats the read alone and gets the
//!     system's own error.

use super::refused::is_refused;
use crate::read_many::ReadRequest;
use esker_base::sync::fork::ProcessOwner;
use esker_base::sync::process::atomic::{AtomicBool, Ordering};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;

#[cfg(test)]
mod tests;

/// Most reads in flight at a time.
const ENTRIES: usize = 128;

/// Most buffers of one read: the kernel's `IOV_MAX`.
const MOST_PARTS: usize = 1024;

/// A thread's ring and the process that made it. A forked child must not use it: both would share
/// the kernel's side of the ring.
struct Ring(Option<(Box<IoUring>, ProcessOwner)>);

/// Whether the kernel forbids rings.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RING: RefCell<Ring> = const { RefCell::new(Ring(None)) };
}

impl Ring {
    fn open(&mut self) -> io::Result<&mut IoUring> {
        let ring = match self.0.take().filter(|(_, owner)| owner.is_here()) {
            Some(ring) => ring,
            None => match IoUring::new(ENTRIES as u32) {
                Ok(ring) => (Box::new(ring), ProcessOwner::here()),
                Err(e) => {
                    // `NOMEM` here means a limit of locked memory, which lasts. At a submission the
                    // memory is only short for a while.
                    refuse_if(is_forbidden(&e) || Errno::from_io_error(&e) == Some(Errno::NOMEM));
                    return Err(e);
                }
            },
        };
        Ok(&mut self.0.insert(ring).0)
    }

    /// Reads all requests, batch by batch. An error drops the ring, and with it the submissions
    /// that the kernel has not taken.
    fn read(&mut self, requests: &mut [ReadRequest<'_>], done: &mut [usize]) -> io::Result<()> {
        for (batch, done) in requests.chunks_mut(ENTRIES).zip(done.chunks_mut(ENTRIES)) {
            let ring = self.open()?;
            if let Err(e) = read_batch(ring, batch, done) {
                refuse_if(is_forbidden(&e));
                self.0 = None;
                return Err(e);
            }
        }
        Ok(())
    }
}

/// Whether the kernel has no rings, or its rules forbid them: later calls would fail as well.
fn is_forbidden(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_refused)
}

fn refuse_if(is_forbidden: bool) {
    if is_forbidden {
        IS_REFUSED.store(true, Ordering::Relaxed);
    }
}

/// Reads the `requests` that lack bytes, and enters the number of bytes read of each in `done`. If
/// the ring fails, entries stay as they are.
pub(crate) fn read_many(requests: &mut [ReadRequest<'_>], done: &mut [usize]) {
    if !IS_REFUSED.load(Ordering::Relaxed) {
        // After an error the caller reads the rest (invariant 3).
        RING.with_borrow_mut(|ring| ring.read(requests, done)).unwrap_or_default();
    }
}

/// Reads at most `ENTRIES` requests. After an error the ring is useless, and nothing is in flight.
fn read_batch(ring: &mut IoUring, batch: &mut [ReadRequest<'_>], done: &mut [usize]) -> io::Result<()> {
    let parts: Vec<Vec<libc::iovec>> = batch.iter_mut().map(parts_of).collect();
    let mut taken = 0;
    for (i, (request, parts)) in batch.iter().zip(&parts).enumerate() {
        let Some(fd) = request.file.descriptor().filter(|_| done[i] < request.wanted()) else { continue };
        let read = opcode::Readv::new(types::Fd(fd.as_raw_fd()), parts.as_ptr().cast(), parts.len() as u32)
            .offset(request.offset)
            .build()
            .user_data(i as u64);
        // SAFETY: the descriptor, the vector of parts and the buffers they name stay alive, and
        // nothing else uses the buffers, until `wait` below has taken the completion of every read
        // that the kernel took (invariant 1).
        if unsafe { ring.submission().push(&read) }.is_err() {
            break;
        }
        taken += 1;
    }
    wait(ring, taken, |i, result| {
        if let Some(done) = done.get_mut(i) {
            *done = usize::try_from(result).unwrap_or(0);
        }
    })
}

/// Submits the `count` pushed reads and reports their results as they come.
fn wait(ring: &mut IoUring, count: usize, mut report: impl FnMut(usize, i32)) -> io::Result<()> {
    let (mut submitted, mut reported) = (0, 0);
    while reported < count {
        match ring.submit_and_wait(count - reported) {
            Ok(n) => submitted += n,
            Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) => {}
            // Nothing is in flight, and the kernel took nothing. Dropping the ring drops the pushed
            // submissions.
            Err(e) if submitted == reported => return Err(e),
            // Reads in flight are reported before the error.
            Err(_) => {}
        }
        for entry in ring.completion() {
            report(entry.user_data() as usize, entry.result());
            reported += 1;
        }
    }
    Ok(())
}

fn parts_of(request: &mut ReadRequest<'_>) -> Vec<libc::iovec> {
    let part = |buf: &mut &mut [u8]| libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    request.bufs.iter_mut().take(MOST_PARTS).map(part).collect()
}
