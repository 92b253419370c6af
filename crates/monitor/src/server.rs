//! The statistics server: snapshots of one database through a Unix socket.
//!
//! In: a database and a path. Out: lines of JSON, on request.
//!
//! The words: the server begins with a line [`Hello`]. A request is the line `"snapshot"`, and its
//! answer the line `{"snapshot":{…}}`. Any other request gets `{"error":"…"}`, and the connection
//! ends. When the database is closed, a request gets `{"closed":"…"}`, and the server ends.

use crate::serve::{Protocol, ProtocolAnswer, Serving};
use crate::snapshot::StatisticsSnapshot;
use crate::socket::listen;
use crate::source::{CloseWaker, SnapshotSource, WatchedDb};
use crate::wake::{Waker, pair};
use crate::{Monitor, SNAPSHOT_FORMAT};
use esker::{Db, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes of the longest request: a request is a word.
const REQUEST_LIMIT: usize = 4096;
/// The request for a snapshot.
pub(crate) const ASK: &[u8] = b"\"snapshot\"\n";

/// The first line of a statistics server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Hello {
    /// The format of snapshots: [`SNAPSHOT_FORMAT`].
    pub esker_statistics: u32,
    /// The process of the server.
    pub pid: u32,
    /// The version of this crate.
    pub version: String,
}

/// An answer to a request.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServerLine<S> {
    Snapshot(S),
    Error(String),
    Closed(String),
}

/// A line of JSON.
pub(crate) fn line(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(value).expect("maps have keys of text, and numbers are finite");
    bytes.push(b'\n');
    bytes
}

/// The socket of a [`StatisticsServer`], and the effort that it may make.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StatisticsServerOptions {
    /// The path of the socket. Its directory must exist.
    pub socket: PathBuf,
    /// The least time between two snapshots; requests in between get the last one. Default: 100 ms.
    pub interval: Duration,
}

impl StatisticsServerOptions {
    /// A socket at this path.
    pub fn new(socket: impl Into<PathBuf>) -> StatisticsServerOptions {
        StatisticsServerOptions { socket: socket.into(), interval: Duration::from_millis(100) }
    }

    /// The same socket with this interval.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> StatisticsServerOptions {
        self.interval = interval;
        self
    }
}

/// A thread that serves clients until it is dropped or its database is closed.
pub(crate) struct ServerThread {
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts a thread for `serving`. `owned` is dropped when it ends.
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        mut serving: Serving,
        waker: Arc<Waker>,
        owned: impl Send + 'static,
    ) -> std::io::Result<ServerThread> {
        let run = move || {
            serving.run();
            // The path goes before the socket, so that no other start meets a dead socket.
            drop(owned);
            drop(serving);
        };
        let thread = thread::Builder::new().name("esker-monitor".to_owned()).spawn(run)?;
        Ok(ServerThread { waker, thread: Some(thread) })
    }

    /// Waits for the thread, which ends by itself.
    pub(crate) fn wait(mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_default();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.waker.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread has been printed, and the owner goes on.
            thread.join().unwrap_or_default();
        }
    }
}

/// Serves the statistics of one database through a Unix socket, which only the owner of the process
/// may connect to (mode 0600). A drop ends it and removes the socket.
///
/// * **Ownership.** The server has a weak reference to the `Arc` and no handle to the database:
///   a drop of the `Arc` closes the database, if no other handle is left. While a snapshot is made
///   (milliseconds) the server has a handle. A drop of the last other handle in that time closes
///   the database on the server's thread.
/// * **The end.** A closed database ends the server, and the socket goes: at once with the
///   monitor's listener, else at the next request.
/// * **Cost.** A thread that sleeps. A request costs one snapshot ([`Monitor::snapshot`]), at most
///   one an interval. Eight clients are served at once.
///
/// ```
/// use esker::{Db, Options};
/// use esker_monitor::{Monitor, StatisticsClient, StatisticsServer, StatisticsServerOptions};
/// use std::sync::Arc;
/// # let dir = esker_testkit::TempDir::new("doc");
/// # let socket = dir.join("socket");
///
/// let monitor = Monitor::new();
/// let mut options = Options::new().create_if_missing(true);
/// options.db.listeners.push(monitor.listener());
/// let db = Arc::new(Db::open(&options, dir.join("db"))?);
/// let server = StatisticsServer::start(&monitor, &db, &StatisticsServerOptions::new(&socket))?;
///
/// // In another process:
/// let mut client = StatisticsClient::connect(&socket)?;
/// assert_eq!(client.snapshot()?.family_count, 1);
/// # Ok::<_, esker::Error>(())
/// ```
pub struct StatisticsServer {
    thread: ServerThread,
    path: PathBuf,
}

impl std::fmt::Debug for StatisticsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatisticsServer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl StatisticsServer {
    /// Listens at the path and starts the thread. A socket that a killed process left is replaced.
    /// # Errors
    /// `Busy`: another server listens there · `InvalidArgument`: the path is a file of another
    /// kind, or longer than 107 bytes · `IoError`: the socket or the thread cannot be made. The
    /// error names the path.
    pub fn start<D>(
        monitor: &Monitor,
        db: &Arc<D>,
        options: &StatisticsServerOptions,
    ) -> Result<StatisticsServer>
    where
        D: Borrow<Db> + Send + Sync + 'static,
    {
        let mut source = WatchedDb::new(monitor, db, options.interval);
        let failed = |e| Error::io_with(options.socket.display(), e);
        let (waker, wakeups) = pair().map_err(failed)?;
        let waker = Arc::new(waker);
        let (listener, owned) = listen(&options.socket)?;
        let path = owned.path().to_owned();
        source.wake_at_close(CloseWaker(waker.clone()));
        let protocol = Box::new(JsonLines { source, has_closed: false });
        let serving = Serving::new(Box::new(listener), protocol, waker.clone(), wakeups);
        let thread = ServerThread::start(serving, waker, owned).map_err(failed)?;
        Ok(StatisticsServer { thread, path })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the server has ended, because its database is closed: see above for when it ends.
    pub fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }
}

/// The protocol of the Unix socket.
struct JsonLines {
    source: WatchedDb,
    has_closed: bool,
}

impl JsonLines {
    fn error(message: impl Into<String>) -> Vec<u8> {
        line(&ServerLine::<()>::Error(message.into()))
    }
}

impl Protocol for JsonLines {
    fn limit(&self) -> usize {
        REQUEST_LIMIT
    }

    fn greeting(&self) -> Vec<u8> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        line(&Hello { esker_statistics: SNAPSHOT_FORMAT, pid: std::process::id(), version })
    }

    fn first_deadline(&self) -> Option<u64> {
        None
    }

    fn request_end(&self, received: &[u8]) -> Option<usize> {
        received.iter().position(|byte| *byte == b'\n').map(|at| at + 1)
    }

    fn answer(&mut self, request: &[u8]) -> ProtocolAnswer {
        let asked: Option<String> = serde_json::from_slice(request).ok();
        if asked.as_deref() != Some("snapshot") {
            return ProtocolAnswer { bytes: Self::error("the request is not \"snapshot\""), is_last: true };
        }
        match self.source.latest() {
            Ok(snapshot) => {
                let bytes = line(&ServerLine::<&StatisticsSnapshot>::Snapshot(&snapshot));
                ProtocolAnswer { bytes, is_last: false }
            }
            Err(e) if e.kind() == ErrorKind::ShutdownInProgress => {
                self.has_closed = true;
                ProtocolAnswer { bytes: line(&ServerLine::<()>::Closed(e.to_string())), is_last: true }
            }
            Err(e) => ProtocolAnswer { bytes: Self::error(e.to_string()), is_last: false },
        }
    }

    fn too_long(&self) -> Vec<u8> {
        Self::error(format!("the request is longer than {REQUEST_LIMIT} bytes"))
    }

    fn busy(&self) -> Vec<u8> {
        Self::error("the server has no place for another client")
    }

    fn is_open(&mut self) -> bool {
        self.source.is_open()
    }

    fn has_closed(&self) -> bool {
        self.has_closed
    }
}
