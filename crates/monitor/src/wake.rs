//! A byte through a pair of sockets: other threads end a server's wait.

use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end that wakes. Any thread may call it at any time.
#[derive(Debug)]
pub(crate) struct Waker {
    stream: UnixStream,
    orders: Mutex<Orders>,
}

/// The reasons to wake.
#[derive(Clone, Copy, Default, Debug)]
struct Orders {
    stop: bool,
    closing: bool,
}

/// The end that a server waits for.
#[derive(Debug)]
pub(crate) struct Wakeups(UnixStream);

/// The two ends.
/// # Errors
/// The process has no descriptors left.
pub(crate) fn pair() -> io::Result<(Waker, Wakeups)> {
    let (stream, other) = UnixStream::pair()?;
    stream.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    Ok((Waker { stream, orders: Mutex::default() }, Wakeups(other)))
}

impl Waker {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // A full buffer wakes as well as one more byte.
        (&self.stream).write(&[1]).unwrap_or_default();
    }

    /// Ends the server.
    pub(crate) fn stop(&self) {
        self.orders().stop = true;
        self.wake();
    }

    /// Says that the database begins to close.
    pub(crate) fn close_begins(&self) {
        self.orders().closing = true;
        self.wake();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.orders().stop
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.orders().closing
    }
}

impl Wakeups {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes all bytes that have come.
    pub(crate) fn drain(&mut self) {
        let mut bytes = [0; 64];
        while self.0.read(&mut bytes).is_ok_and(|n| n > 0) {}
    }
}

/// Whether a call of the system is to be tried again.
pub(crate) fn is_interrupted(errno: Errno) -> bool {
    errno == Errno::INTR
}
