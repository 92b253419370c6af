//! Reads that go to the kernel together: `io_uring`.
//!
//! Each thread that reads so has a ring of its own, made at its first use. Whether this kernel and its rules let us have one
//! is found out then; if not, nobody asks again. Source: the kernel's `io_uring(7)`.
//!
//! Invariants
//!  1. No submission is left behind: [`read_many`] returns when the kernel has reported all that it took, so that it writes
//!     to no buffer later.
//!  2. An error here is no error of the read: who called reads again, by itself, and gets the system's word for it.

use crate::read_many::ReadRequest;
use esker_base::sync::process::atomic::{AtomicBool, Ordering};
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::AsRawFd;

/// Reads that are on their way at the same time, at most.
const ENTRIES: usize = 128;

/// Buffers of one read, at most: the kernel's `IOV_MAX`.
const MOST_PARTS: usize = 1024;

/// A thread's ring.
enum Ring {
    Untried,
    Open(Box<IoUring>),
    Refused,
}

/// Whether a thread has been refused a ring.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static RING: RefCell<Ring> = const { RefCell::new(Ring::Untried) };
}

impl Ring {
    fn open(&mut self) -> Option<&mut IoUring> {
        if let Ring::Untried = self {
            *self = match IoUring::new(ENTRIES as u32) {
                Ok(ring) => Ring::Open(Box::new(ring)),
                Err(_) => {
                    IS_REFUSED.store(true, Ordering::Relaxed);
                    Ring::Refused
                }
            };
        }
        match self {
            Ring::Open(ring) => Some(ring),
            Ring::Untried | Ring::Refused => None,
        }
    }
}

/// How many bytes of each of `requests` the kernel has read; of none, if it does not work so.
pub(crate) fn read_many(requests: &mut [ReadRequest<'_>]) -> Vec<usize> {
    if IS_REFUSED.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let mut done = vec![0; requests.len()];
    RING.with_borrow_mut(|ring| {
        for (number, wave) in requests.chunks_mut(ENTRIES).enumerate() {
            let Some(open) = ring.open() else { return };
            let at = number * ENTRIES;
            let end = at + wave.len();
            if read_wave(open, wave, &mut done[at..end]).is_err() {
                IS_REFUSED.store(true, Ordering::Relaxed);
                *ring = Ring::Refused;
                return;
            }
        }
    });
    done
}

/// Reads at most `ENTRIES` requests. An error means that the ring is of no use; nothing is on its way then.
fn read_wave(ring: &mut IoUring, wave: &mut [ReadRequest<'_>], done: &mut [usize]) -> Result<(), Errno> {
    let parts: Vec<Vec<libc::iovec>> = wave.iter_mut().map(parts_of).collect();
    let mut taken = 0;
    for (i, (request, parts)) in wave.iter().zip(&parts).enumerate() {
        let Some(fd) = request.file.descriptor() else { continue };
        let read = opcode::Readv::new(types::Fd(fd.as_raw_fd()), parts.as_ptr().cast(), parts.len() as u32)
            .offset(request.offset)
            .build()
            .user_data(i as u64);
        // SAFETY: the descriptor, the vector of parts and the buffers they name live, and the buffers are lent to nobody
        // else, until `wait` below has taken the completion of every read that the kernel took (invariant 1).
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
fn wait(ring: &mut IoUring, count: usize, mut report: impl FnMut(usize, i32)) -> Result<(), Errno> {
    let (mut submitted, mut reported) = (0, 0);
    while reported < count {
        match ring.submit_and_wait(count - reported) {
            Ok(n) => submitted += n,
            Err(e) if Errno::from_io_error(&e) == Some(Errno::INTR) => {}
            // Nothing is on its way and nothing was taken. What was pushed goes with the ring.
            Err(_) if submitted == reported => return Err(Errno::NOSYS),
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
