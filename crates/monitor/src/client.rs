//! A client of a statistics server.
//!
//! In: the path of a socket. Out: snapshots, or an error that names the path.

use crate::SNAPSHOT_FORMAT;
use crate::server::{ASK, Hello, ServerLine};
use crate::snapshot::StatisticsSnapshot;
use crate::socket::{address, new_socket};
use crate::source::SnapshotSource;
use esker::options::Env;
use esker::{Error, Result};
use rustix::io::Errno;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the longest line that a client takes.
const LINE_LIMIT: u64 = 64 << 20;
/// The longest wait for a line, and for all of a request of [`RemoteStatistics`].
const PATIENCE: Duration = Duration::from_secs(5);

fn now() -> u64 {
    Env::default().clock.monotonic_micros()
}

/// The time at which `patience` from now ends.
fn deadline(patience: Duration) -> u64 {
    now().saturating_add(u64::try_from(patience.as_micros()).unwrap_or(u64::MAX))
}

/// A stream with a deadline for everything until the next one is set: a server that sends a byte
/// now and then does not extend it.
#[derive(Debug)]
struct TimedStream {
    stream: UnixStream,
    deadline: u64,
}

impl TimedStream {
    /// The time that is left.
    fn left(&self) -> io::Result<Duration> {
        match self.deadline.saturating_sub(now()) {
            0 => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
            micros => Ok(Duration::from_micros(micros)),
        }
    }
}

impl Read for TimedStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match self.stream.read(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects without a wait: a server that does not run keeps its queue full for ever.
fn connect(path: &Path) -> Result<UnixStream> {
    let address = address(path)?;
    let failed = |e: Errno| Error::io_with(path.display(), e.into());
    let socket = new_socket().map_err(failed)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::INPROGRESS) => {
            let message = format!("{}: the server takes no new clients now", path.display());
            return Err(Error::busy(message));
        }
        Err(e) => return Err(failed(e)),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false).map_err(|e| Error::io_with(path.display(), e))?;
    Ok(stream)
}

/// A connection to a [`StatisticsServer`](crate::StatisticsServer), in this process or another one.
#[derive(Debug)]
pub struct StatisticsClient {
    stream: BufReader<TimedStream>,
    path: PathBuf,
    hello: Hello,
}

impl StatisticsClient {
    /// Connects to the socket at `path`, and waits for the first line for five seconds.
    /// # Errors
    /// `IoError`: nobody listens there, or the server is silent · `NotSupported`: the server's
    /// format is another one · `Busy`: the server has no place, or accepts no clients now ·
    /// `Corruption`: the words are not a statistics server's. Each one names the path.
    pub fn connect(path: impl AsRef<Path>) -> Result<StatisticsClient> {
        StatisticsClient::connect_within(path, PATIENCE)
    }

    /// As [`StatisticsClient::connect`], with another wait for the first line.
    /// # Errors
    /// As [`StatisticsClient::connect`].
    pub fn connect_within(path: impl AsRef<Path>, patience: Duration) -> Result<StatisticsClient> {
        StatisticsClient::connect_until(path.as_ref(), deadline(patience))
    }

    fn connect_until(path: &Path, deadline: u64) -> Result<StatisticsClient> {
        let mut stream = BufReader::new(TimedStream { stream: connect(path)?, deadline });
        let text = read_line(&mut stream, path)?;
        let hello: Hello = match serde_json::from_str(&text) {
            Ok(hello) => hello,
            Err(_) => return Err(refusal(&text, path)),
        };
        if hello.esker_statistics != SNAPSHOT_FORMAT {
            let message = format!(
                "{}: statistics of format {}; this program reads {SNAPSHOT_FORMAT}",
                path.display(),
                hello.esker_statistics
            );
            return Err(Error::not_supported(message));
        }
        Ok(StatisticsClient { stream, path: path.to_owned(), hello })
    }

    /// The server's first line.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// A snapshot of the server's database. It comes within five seconds. After an error the
    /// connection may be out of step: connect anew.
    /// # Errors
    /// As [`StatisticsClient::connect`] · `ShutdownInProgress`: the database is closed.
    pub fn snapshot(&mut self) -> Result<StatisticsSnapshot> {
        self.snapshot_until(deadline(PATIENCE))
    }

    fn snapshot_until(&mut self, deadline: u64) -> Result<StatisticsSnapshot> {
        self.stream.get_mut().deadline = deadline;
        self.stream.get_mut().write_all(ASK).map_err(|e| Error::io_with(self.path.display(), e))?;
        let text = read_line(&mut self.stream, &self.path)?;
        match serde_json::from_str(&text) {
            Ok(ServerLine::Snapshot(snapshot)) => Ok(snapshot),
            _ => Err(refusal(&text, &self.path)),
        }
    }
}

/// The error of a line that is not the expected one.
fn refusal(text: &str, path: &Path) -> Error {
    match serde_json::from_str::<ServerLine<()>>(text) {
        Ok(ServerLine::Closed(_)) => {
            Error::shutdown_in_progress(format!("{}: the database is closed", path.display()))
        }
        Ok(ServerLine::Error(why)) => Error::busy(format!("{}: {why}", path.display())),
        _ => Error::corruption(format!("{}: is no statistics server of Esker", path.display())),
    }
}

fn read_line(stream: &mut BufReader<TimedStream>, path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = stream.by_ref().take(LINE_LIMIT).read_line(&mut text);
    match read {
        Ok(_) if text.ends_with('\n') => Ok(text),
        Ok(_) => {
            let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
            Err(Error::io_with(format_args!("{}: the server has ended", path.display()), ended))
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidData => {
            Err(Error::corruption(format!("{}: is no statistics server of Esker", path.display())))
        }
        Err(e) => Err(Error::io_with(path.display(), e)),
    }
}

/// A server of another process as a source. A lost connection is made anew at the next request.
/// A request takes five seconds at most, also if the process of the server does not run.
#[derive(Debug)]
pub struct RemoteStatistics {
    path: PathBuf,
    client: Option<StatisticsClient>,
}

impl RemoteStatistics {
    /// The server that listens at `path`, now or later.
    pub fn new(path: impl Into<PathBuf>) -> RemoteStatistics {
        RemoteStatistics { path: path.into(), client: None }
    }
}

impl SnapshotSource for RemoteStatistics {
    fn latest(&mut self) -> Result<Arc<StatisticsSnapshot>> {
        let deadline = deadline(PATIENCE);
        if let Some(mut client) = self.client.take() {
            match client.snapshot_until(deadline) {
                Ok(snapshot) => {
                    self.client = Some(client);
                    return Ok(Arc::new(snapshot));
                }
                Err(e) if now() >= deadline => return Err(e),
                // The server may have dropped a silent client, so the first failure is no news.
                Err(_) => {}
            }
        }
        let mut client = StatisticsClient::connect_until(&self.path, deadline)?;
        let snapshot = client.snapshot_until(deadline)?;
        self.client = Some(client);
        Ok(Arc::new(snapshot))
    }
}
