//! Reads that go to the kernel together: `io_uring`.
//!
//! Each thread that reads so has a ring of its own, made at its first use. If this kernel or its
//! rules do not let us have one, nobody asks again; any other failure costs the thread its ring and
//! this call the way through it. Source: the kernel's `io_uring(7)`.
//!
//! Invariants
//!  1. No submission is left behind: [`read_many`] returns when the kernel has reported all that it
//!     took, so that it writes to no buffer later.
//!  2. A forked child makes a ring of its own.
//!  3. An error here is no error of the read: who called reads again, by itself, and gets the
//!     system's word for it.

use super::refused::is_refused;
use crate::read_many::ReadRequest;
use esker_base::sync::fork::Owner;
use esker_base::sync::process::atomic::{AtomicBool, Ordering};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;

#[cfg(test)]
mod tests;

/// Reads that are on their way at the same time, at most.
const ENTRIES: usize = 128;

/// Buffers of one read, at most: the kernel's `IOV_MAX`.
const MOST_PARTS: usize = 1024;

/// A thread's ring, once it is made, and the process that made it: a forked child shares the
/// kernel's end of it.
struct Ring(Option<(Box<IoUring>, Owner)>);

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
                Ok(ring) => (Box::new(ring), Owner::here()),
                Err(e) => {
                    // Locked memory is limited by a rule; that of a submission is short for a
                    // while.
                    refuse_if(is_forbidden(&e) || Errno::from_io_error(&e) == Some(Errno::NOMEM));
                    return Err(e);
                }
            },
        };
        Ok(&mut self.0.insert(ring).0)
    }

    /// Reads all, wave by wave. After an error there is no ring: what was pushed and not taken goes
    /// with it.
    fn read(&mut self, requests: &mut [ReadRequest<'_>], done: &mut [usize]) -> io::Result<()> {
        for (wave, done) in requests.chunks_mut(ENTRIES).zip(done.chunks_mut(ENTRIES)) {
            let ring = self.open()?;
            if let Err(e) = read_wave(ring, wave, done) {
                refuse_if(is_forbidden(&e));
                self.0 = None;
                return Err(e);
            }
        }
        Ok(())
    }
}

/// Whether the kernel has no rings, or its rules keep them from us: it will say so however often we
/// ask.
fn is_forbidden(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(is_refused)
}

fn refuse_if(is_forbidden: bool) {
    if is_forbidden {
        IS_REFUSED.store(true, Ordering::Relaxed);
    }
}

/// Reads those of `requests` that are not done: `done` gets how many bytes of each the kernel has
/// read; of none more, if it does not work so.
pub(crate) fn read_many(requests: &mut [ReadRequest<'_>], done: &mut [usize]) {
    if !IS_REFUSED.load(Ordering::Relaxed) {
        // After an error what is not done is left to the caller (invariant 3).
        RING.with_borrow_mut(|ring| ring.read(requests, done)).unwrap_or_default();
    }
}

/// Reads at most `ENTRIES` requests. An error means that the ring is of no use; nothing is on its
/// way then.
fn read_wave(ring: &mut IoUring, wave: &mut [ReadRequest<'_>], done: &mut [usize]) -> io::Result<()> {
    let parts: Vec<Vec<libc::iovec>> = wave.iter_mut().map(parts_of).collect();
    let mut taken = 0;
    for (i, (request, parts)) in wave.iter().zip(&parts).enumerate() {
        let Some(fd) = request.file.descriptor().filter(|_| done[i] < request.wanted()) else { continue };
        let read = opcode::Readv::new(types::Fd(fd.as_raw_fd()), parts.as_ptr().cast(), parts.len() as u32)
            .offset(request.offset)
            .build()
            .user_data(i as u64);
        // SAFETY: the descriptor, the vector of parts and the buffers they name live, and the
        // buffers are lent to nobody else, until `wait` below has taken the completion of every
        // read that the kernel took (invariant 1).
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

/// Submits what was pushed, `count` reads, and hands their results over as they come.
fn wait(ring: &mut IoUring, count: usize, mut report: impl FnMut(usize, i32)) -> io::Result<()> {
    let (mut submitted, mut reported) = (0, 0);
    while reported < count {
        match ring.submit_and_wait(count - reported) {
            Ok(n) => submitted += n,
            Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) => {}
            // Nothing is on its way and nothing was taken. What was pushed goes with the ring.
            Err(e) if submitted == reported => return Err(e),
            // What is on its way comes in first.
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
