//! An HTTP page about a database: `/`, `/snapshot.json` and `/metrics`.
//!
//! In: GET requests of HTTP/1.1. Out: a page without outer resources, JSON, or Prometheus' text.
//!
//! Invariants
//!  1. An address that is not loopback needs [`PageServerOptions::allow_remote`].
//!  2. The `Host` of a request is an address, `localhost` or a name that the options list: a page
//!     of a foreign name that resolves to this address (DNS rebinding) gets nothing.
//!  3. A head has at most [`HEAD_LIMIT`] bytes and comes within five seconds. Every answer ends its
//!     connection.

use crate::exposition::exposition;
use crate::serve::{Protocol, ProtocolAnswer, Serving};
use crate::server::ServerThread;
use crate::source::{CloseWaker, SnapshotSource};
use crate::wake::pair;
use esker::{Error, ErrorKind, Result};
use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

/// Bytes of the longest head.
const HEAD_LIMIT: usize = 8 << 10;
/// Microseconds in which a head must come.
const HEAD_PATIENCE: u64 = 5_000_000;
const PAGE: &str = include_str!("page.html");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The address of a [`PageServer`], and the clients that it accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PageServerOptions {
    /// The address. Port 0 takes a free port.
    pub address: SocketAddr,
    /// Whether `address` may be other than loopback. There is no password and no encryption: every
    /// host that reaches the address sees the statistics. Default: false.
    pub allow_remote: bool,
    /// Names of this host in addresses of browsers, beside `localhost`. Default: none.
    pub hosts: Vec<String>,
}

impl PageServerOptions {
    /// A page at this address.
    pub fn new(address: SocketAddr) -> PageServerOptions {
        PageServerOptions { address, allow_remote: false, hosts: Vec::new() }
    }

    /// The same with [`PageServerOptions::allow_remote`].
    #[must_use]
    pub fn allow_remote(mut self, allow: bool) -> PageServerOptions {
        self.allow_remote = allow;
        self
    }

    /// The same with [`PageServerOptions::hosts`].
    #[must_use]
    pub fn hosts(mut self, hosts: Vec<String>) -> PageServerOptions {
        self.hosts = hosts;
        self
    }
}

/// Serves a page, JSON and Prometheus' text by HTTP, from one thread. A drop ends it. A port of
/// loopback has no owner: every user of this machine (of this network namespace) can read it.
///
/// ```
/// use esker::Db;
/// use esker_monitor::{Monitor, PageServer, PageServerOptions, WatchedDb};
/// use std::io::{Read, Write};
/// use std::sync::Arc;
/// use std::time::Duration;
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let db = Arc::new(Db::open_default(dir.path())?);
/// let watched = WatchedDb::new(&Monitor::new(), &db, Duration::from_millis(100));
/// let options = PageServerOptions::new(([127, 0, 0, 1], 0).into());
/// let server = PageServer::start(Box::new(watched), &options)?;
///
/// let mut browser = std::net::TcpStream::connect(server.address()).expect("a server");
/// browser.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("open");
/// let mut text = String::new();
/// browser.read_to_string(&mut text).expect("text");
/// assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("esker_uptime_seconds"));
/// # Ok::<_, esker::Error>(())
/// ```
pub struct PageServer {
    thread: ServerThread,
    address: SocketAddr,
}

impl fmt::Debug for PageServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl PageServer {
    /// Listens at the address and starts the thread.
    /// # Errors
    /// `InvalidArgument`: the address is not loopback, and `allow_remote` is not set · `IoError`:
    /// the address is taken, or no thread can be made. Each one names the address.
    pub fn start(mut source: Box<dyn SnapshotSource>, options: &PageServerOptions) -> Result<PageServer> {
        let address = options.address;
        if !address.ip().is_loopback() && !options.allow_remote {
            let message = format!("{address}: is not loopback; other hosts need allow_remote");
            return Err(Error::invalid_argument(message));
        }
        let failed = |e| Error::io_with(address, e);
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (waker, wakeups) = pair().map_err(failed)?;
        let waker = Arc::new(waker);
        source.wake_at_close(CloseWaker(waker.clone()));
        let protocol = Box::new(Http { source, hosts: options.hosts.clone(), has_closed: false });
        let serving = Serving::new(Box::new(listener), protocol, waker.clone(), wakeups);
        let thread = ServerThread::start(serving, waker, ()).map_err(failed)?;
        Ok(PageServer { thread, address })
    }

    /// The address, with the port that port 0 became.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the server ends: when the database of the source is closed, if the source wakes
    /// the server ([`WatchedDb`](crate::WatchedDb) does with the monitor's listener), else at the
    /// next request after that. The page of a [`RemoteStatistics`](crate::RemoteStatistics) does
    /// not end by itself.
    pub fn wait(self) {
        self.thread.wait();
    }

    /// Whether the server has ended, as [`PageServer::wait`] says.
    pub fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }
}

/// The protocol of the page.
struct Http {
    source: Box<dyn SnapshotSource>,
    hosts: Vec<String>,
    has_closed: bool,
}

/// An answer's status line, type and body.
struct Reply {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Reply {
    fn refused(status: &'static str, why: &str) -> Reply {
        Reply { status, content_type: "text/plain; charset=utf-8", body: format!("{why}\n") }
    }

    fn into_bytes(self, with_body: bool) -> Vec<u8> {
        let Reply { status, content_type, body } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let length = body.len();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{allow}\
             Connection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
             Content-Security-Policy: {POLICY}\r\n\r\n"
        )
        .into_bytes();
        if with_body {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

/// The parts of a head that count.
#[derive(PartialEq, Eq, Debug)]
struct Head<'a> {
    method: &'a str,
    target: &'a str,
    host: &'a str,
}

/// Reads a head. `None`: it is no request of HTTP/1.
fn parse(head: &[u8]) -> Option<Head<'_>> {
    let text = std::str::from_utf8(head).ok()?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !target.starts_with('/') {
        return None;
    }
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim_matches([' ', '\t']))
    });
    let host = hosts.next()?;
    // With two hosts, a proxy in between may have looked at the other one.
    hosts.next().is_none().then_some(Head { method, target, host })
}

/// The name or address in a `Host`, without the port.
fn name_of(host: &str) -> &str {
    if let Some(inside) = host.strip_prefix('[') {
        return inside.split_once(']').map_or("", |(address, _)| address);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

impl Http {
    fn is_known(&self, host: &str) -> bool {
        let name = name_of(host);
        // No name server decides about a literal address.
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    fn reply(&mut self, head: &Head<'_>) -> Reply {
        if !self.is_known(head.host) {
            return Reply::refused("421 Misdirected Request", "this server does not know that host");
        }
        if !matches!(head.method, "GET" | "HEAD") {
            return Reply::refused("405 Method Not Allowed", "GET and HEAD alone");
        }
        let path = head.target.split_once('?').map_or(head.target, |(path, _)| path);
        match path {
            "/" => {
                let (status, content_type) = ("200 OK", "text/html; charset=utf-8");
                return Reply { status, content_type, body: PAGE.to_owned() };
            }
            "/snapshot.json" | "/metrics" => {}
            _ => return Reply::refused("404 Not Found", "here are /, /snapshot.json and /metrics"),
        }
        match self.source.latest() {
            Ok(snapshot) if path == "/metrics" => Reply {
                status: "200 OK",
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: exposition(&snapshot),
            },
            Ok(snapshot) => Reply {
                status: "200 OK",
                content_type: "application/json",
                body: serde_json::to_string(&*snapshot).expect("maps have keys of text"),
            },
            Err(e) if e.kind() == ErrorKind::ShutdownInProgress => {
                self.has_closed = !self.source.is_open();
                Reply::refused("503 Service Unavailable", "the database is closed")
            }
            Err(e) => Reply::refused("503 Service Unavailable", &e.to_string()),
        }
    }
}

impl Protocol for Http {
    fn limit(&self) -> usize {
        HEAD_LIMIT
    }

    fn greeting(&self) -> Vec<u8> {
        Vec::new()
    }

    fn first_deadline(&self) -> Option<u64> {
        Some(HEAD_PATIENCE)
    }

    fn request_end(&self, received: &[u8]) -> Option<usize> {
        received.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4)
    }

    fn answer(&mut self, request: &[u8]) -> ProtocolAnswer {
        let (reply, with_body) = match parse(request) {
            Some(head) => (self.reply(&head), head.method != "HEAD"),
            None => (Reply::refused("400 Bad Request", "no request of HTTP/1.1 with one Host"), true),
        };
        ProtocolAnswer { bytes: reply.into_bytes(with_body), is_last: true }
    }

    fn too_long(&self) -> Vec<u8> {
        Reply::refused("431 Request Header Fields Too Large", "the head is too long").into_bytes(true)
    }

    fn busy(&self) -> Vec<u8> {
        Reply::refused("503 Service Unavailable", "no place for another client").into_bytes(true)
    }

    fn is_open(&mut self) -> bool {
        self.source.is_open()
    }

    fn has_closed(&self) -> bool {
        self.has_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_one_host() {
        let head = parse(b"GET /metrics?x HTTP/1.1\r\nhOST:\t[::1]:80 \r\nA: b\r\n\r\n").unwrap();
        assert_eq!(head, Head { method: "GET", target: "/metrics?x", host: "[::1]:80" });
        for refused in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET / HTTP/2\r\nHost: a\r\n\r\n",
            b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\xFF / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"\r\n\r\n",
        ] {
            assert_eq!(parse(refused), None, "{}", refused.escape_ascii());
        }
    }

    #[test]
    fn hosts_are_addresses_or_known_names() {
        let names = ["a", "a:1", "[::1]", "[::1]:1", "127.0.0.1:80", "[", "[::1"].map(name_of);
        assert_eq!(names, ["a", "a", "::1", "::1", "127.0.0.1", "", ""]);
    }
}
