//! The loop of a server: one thread, one listener, a few connections, none of which can hold it.
//!
//! In: a listening socket and a [`Protocol`]. Out: its answers. The thread sleeps until a client, a
//! deadline or the owner wakes it, so a server that nobody asks costs nothing.
//!
//! Invariants
//!  1. No read and no write waits. A client that does not take its answer, or does not finish its
//!     request, is dropped at its deadline.
//!  2. Memory is bounded: [`MOST_CLIENTS`] connections, each with one request of
//!     [`Protocol::limit`] bytes and one answer.
//!  3. An idle client cannot keep others out: if all places are taken, a new client gets the place
//!     of the one that has been silent for the longest, after [`SILENCE`].

use crate::wake::{Waker, Wakeups, is_interrupted};
use esker::options::Env;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

/// Connections at once.
pub(crate) const MOST_CLIENTS: usize = 8;
/// Microseconds after which a silent client gives its place to a new one.
const SILENCE: u64 = 1_000_000;
/// Microseconds in which a client must finish a request that it has begun, and take an answer.
const PATIENCE: u64 = 5_000_000;
/// Microseconds for which the end of a connection waits for the client's end.
const LINGER: u64 = 1_000_000;
/// Bytes that a client may still send after the last answer.
const MOST_REMAINS: usize = 256 << 10;
/// Microseconds without accepts after an accept failed, as without descriptors.
const ACCEPT_PAUSE: u64 = 100_000;
/// Microseconds between two looks at a database that closes.
const CLOSING_STEP: u64 = 50_000;

/// The words that server and client exchange.
pub(crate) trait Protocol {
    /// Bytes of the longest request.
    fn limit(&self) -> usize;
    /// The first bytes to each client.
    fn greeting(&self) -> Vec<u8>;
    /// Microseconds in which the first request must be complete; `None`: no limit until it begins.
    fn first_deadline(&self) -> Option<u64>;
    /// Bytes of the first request in `received`; `None` if it is not complete.
    fn request_end(&self, received: &[u8]) -> Option<usize>;
    /// The answer to a request.
    fn answer(&mut self, request: &[u8]) -> ProtocolAnswer;
    /// The answer to a request above the limit; the connection ends after it.
    fn too_long(&self) -> Vec<u8>;
    /// The answer to a client for which there is no place.
    fn busy(&self) -> Vec<u8>;
    /// Whether the database is open.
    fn is_open(&mut self) -> bool;
    /// Whether an answer has found that the database is closed.
    fn has_closed(&self) -> bool;
}

/// An answer, and the end of the connection or of the server.
#[derive(Debug)]
pub(crate) struct ProtocolAnswer {
    pub(crate) bytes: Vec<u8>,
    /// Whether the connection ends after it.
    pub(crate) is_last: bool,
}

/// A connection's stream.
pub(crate) trait ClientStream: Read + Write + Send {
    fn fd(&self) -> BorrowedFd<'_>;
    /// Says to the client that no more bytes come.
    fn end(&self);
}

impl ClientStream for UnixStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
    fn end(&self) {
        self.shutdown(Shutdown::Write).unwrap_or_default();
    }
}

impl ClientStream for TcpStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
    fn end(&self) {
        self.shutdown(Shutdown::Write).unwrap_or_default();
    }
}

/// A listening socket that does not block.
pub(crate) trait Listening: Send {
    fn fd(&self) -> BorrowedFd<'_>;
    fn accept_one(&self) -> io::Result<Box<dyn ClientStream>>;
}

impl Listening for UnixListener {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
    fn accept_one(&self) -> io::Result<Box<dyn ClientStream>> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(Box::new(stream))
    }
}

impl Listening for TcpListener {
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
    fn accept_one(&self) -> io::Result<Box<dyn ClientStream>> {
        let (stream, _) = self.accept()?;
        stream.set_nonblocking(true)?;
        Ok(Box::new(stream))
    }
}

/// The next step of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Requests come.
    Open,
    /// The last answer goes out.
    Last,
    /// Everything is sent, and the client has not ended yet.
    Ending { remains: usize },
    /// Nothing is left to do.
    Gone,
}

struct Connection {
    stream: Box<dyn ClientStream>,
    received: Vec<u8>,
    pending: Vec<u8>,
    sent: usize,
    phase: Phase,
    deadline: Option<u64>,
    last_active: u64,
    /// Whether a request waits that has come whole.
    has_more: bool,
}

impl Connection {
    fn new(stream: Box<dyn ClientStream>, greeting: Vec<u8>, deadline: Option<u64>, now: u64) -> Connection {
        Connection {
            stream,
            received: Vec::new(),
            pending: greeting,
            sent: 0,
            phase: Phase::Open,
            deadline,
            last_active: now,
            has_more: false,
        }
    }

    fn has_pending(&self) -> bool {
        self.sent < self.pending.len()
    }

    fn wants(&self) -> PollFlags {
        if self.has_pending() { PollFlags::OUT } else { PollFlags::IN }
    }

    fn put(&mut self, bytes: Vec<u8>, now: u64) {
        (self.pending, self.sent) = (bytes, 0);
        self.deadline = Some(now + PATIENCE);
    }

    /// Does what is possible without a wait, and answers one request at most: a client that asks
    /// without end gets its turns as the others do.
    fn advance(&mut self, protocol: &mut dyn Protocol, now: u64) {
        let mut has_answered = false;
        self.has_more = false;
        loop {
            if self.has_pending() && !self.send(now) {
                return;
            }
            let phase = self.phase;
            match phase {
                Phase::Open if has_answered => {
                    self.has_more = protocol.request_end(&self.received).is_some();
                    return;
                }
                Phase::Open if self.answer_next(protocol, now) => has_answered = true,
                Phase::Open if self.receive(protocol, now) => {}
                Phase::Open | Phase::Gone => return,
                Phase::Last => {
                    self.stream.end();
                    self.phase = Phase::Ending { remains: MOST_REMAINS };
                    self.deadline = Some(now + LINGER);
                }
                Phase::Ending { remains } => return self.discard(remains),
            }
        }
    }

    /// Sends; false if the rest must wait, or the client is gone.
    fn send(&mut self, now: u64) -> bool {
        while self.has_pending() {
            match self.stream.write(&self.pending[self.sent..]) {
                Ok(0) => self.phase = Phase::Gone,
                Ok(n) => (self.sent, self.last_active) = (self.sent + n, now),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => self.phase = Phase::Gone,
            }
            if self.phase == Phase::Gone {
                return false;
            }
        }
        (self.pending, self.sent) = (Vec::new(), 0);
        self.deadline = (!self.received.is_empty()).then_some(now + PATIENCE);
        true
    }

    /// Answers the first request; false if none is complete.
    fn answer_next(&mut self, protocol: &mut dyn Protocol, now: u64) -> bool {
        let Some(end) = protocol.request_end(&self.received) else { return false };
        let request: Vec<u8> = self.received.drain(..end).collect();
        let answer = protocol.answer(&request);
        if answer.is_last {
            self.phase = Phase::Last;
        }
        self.put(answer.bytes, now);
        true
    }

    /// Receives; true if there may be a request now, or an answer.
    fn receive(&mut self, protocol: &mut dyn Protocol, now: u64) -> bool {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.phase = Phase::Gone,
            Ok(n) => {
                if self.received.is_empty() && self.deadline.is_none() {
                    self.deadline = Some(now + PATIENCE);
                }
                self.received.extend_from_slice(&bytes[..n]);
                self.last_active = now;
                let is_whole = protocol.request_end(&self.received).is_some();
                if !is_whole && self.received.len() > protocol.limit() {
                    self.received = Vec::new();
                    self.phase = Phase::Last;
                    self.put(protocol.too_long(), now);
                }
                return true;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => return true,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.phase = Phase::Gone,
        }
        false
    }

    /// Reads what the client still sends, so that its system keeps the last answer.
    fn discard(&mut self, mut remains: usize) {
        let mut bytes = [0; 4096];
        while remains > 0 {
            match self.stream.read(&mut bytes) {
                Ok(n @ 1..) => remains = remains.saturating_sub(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.phase = Phase::Ending { remains };
                    return;
                }
                Ok(_) | Err(_) => break,
            }
        }
        self.phase = Phase::Gone;
    }
}

/// A server's state. Its thread calls [`Serving::run`].
pub(crate) struct Serving {
    listener: Box<dyn Listening>,
    protocol: Box<dyn Protocol + Send>,
    waker: Arc<Waker>,
    wakeups: Wakeups,
    connections: Vec<Connection>,
    /// No accepts before this time.
    accept_from: u64,
}

impl Serving {
    pub(crate) fn new(
        listener: Box<dyn Listening>,
        protocol: Box<dyn Protocol + Send>,
        waker: Arc<Waker>,
        wakeups: Wakeups,
    ) -> Serving {
        Serving { listener, protocol, waker, wakeups, connections: Vec::new(), accept_from: 0 }
    }

    /// Serves until the owner ends it or the database is closed.
    pub(crate) fn run(&mut self) {
        let clock = Env::default().clock;
        while !self.waker.is_stopped() {
            if self.waker.is_closing() && !self.protocol.is_open() {
                return;
            }
            let ready = self.wait(clock.monotonic_micros());
            let now = clock.monotonic_micros();
            self.wakeups.drain();
            for (connection, _) in self.connections.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready) {
                connection.advance(&mut *self.protocol, now);
            }
            if self.protocol.has_closed() {
                return;
            }
            let expired = |c: &Connection| c.deadline.is_some_and(|deadline| deadline <= now);
            self.connections.retain(|c| c.phase != Phase::Gone && !expired(c));
            if now >= self.accept_from {
                self.accept(now);
            }
        }
    }

    /// Waits for events. For each connection: whether it can go on.
    fn wait(&self, now: u64) -> Vec<bool> {
        let deadlines = self.connections.iter().filter_map(|c| c.deadline);
        let paused = (self.accept_from > now).then_some(self.accept_from);
        let closing = self.waker.is_closing().then_some(now + CLOSING_STEP);
        let at_once = self.connections.iter().any(|c| c.has_more).then_some(now);
        let next = deadlines.chain(paused).chain(closing).chain(at_once).min();
        let timeout = next.map(|at| {
            let micros = at.saturating_sub(now);
            let nanos = (micros % 1_000_000 * 1_000) as i64;
            Timespec { tv_sec: (micros / 1_000_000) as i64, tv_nsec: nanos }
        });
        let listens = if paused.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let wake = self.wakeups.as_fd();
        let listener = self.listener.fd();
        let mut fds =
            vec![PollFd::from_borrowed_fd(wake, PollFlags::IN), PollFd::from_borrowed_fd(listener, listens)];
        fds.extend(self.connections.iter().map(|c| PollFd::from_borrowed_fd(c.stream.fd(), c.wants())));
        if let Err(e) = poll(&mut fds, timeout.as_ref())
            && !is_interrupted(e)
        {
            // Without memory in the kernel, the loop must not spin.
            Env::default().clock.sleep(std::time::Duration::from_micros(ACCEPT_PAUSE));
        }
        let events = fds[2..].iter().map(|fd| !fd.revents().is_empty());
        events.zip(&self.connections).map(|(has_event, c)| has_event || c.has_more).collect()
    }

    fn accept(&mut self, now: u64) {
        // Bounded, so that a storm of connections cannot keep the loop from its clients.
        for _ in 0..MOST_CLIENTS * 2 {
            match self.listener.accept_one() {
                Ok(stream) => self.admit(stream, now),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    self.accept_from = now + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }

    fn admit(&mut self, mut stream: Box<dyn ClientStream>, now: u64) {
        if self.connections.len() >= MOST_CLIENTS {
            let silent = self.connections.iter().enumerate().min_by_key(|(_, c)| c.last_active);
            match silent {
                Some((index, c)) if c.last_active + SILENCE <= now => {
                    self.connections.swap_remove(index);
                }
                _ => {
                    // The buffer of a new connection takes some words.
                    stream.write_all(&self.protocol.busy()).unwrap_or_default();
                    return;
                }
            }
        }
        let deadline = self.protocol.first_deadline().map(|micros| now + micros);
        let mut connection = Connection::new(stream, self.protocol.greeting(), deadline, now);
        connection.advance(&mut *self.protocol, now);
        if connection.phase != Phase::Gone {
            self.connections.push(connection);
        }
    }
}
