//! A client of a statistics server.
//!
//! In: the path of a socket. Out: snapshots, or an error that names the path.

use crate::SNAPSHOT_FORMAT;
use crate::server::{ASK, Hello, ServerLine};
use crate::snapshot::StatisticsSnapshot;
use crate::source::SnapshotSource;
use esker::{Error, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the longest line that a client takes.
const LINE_LIMIT: u64 = 64 << 20;
/// The longest wait for a line.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a [`StatisticsServer`](crate::StatisticsServer), in this process or another one.
#[derive(Debug)]
pub struct StatisticsClient {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    hello: Hello,
}

impl StatisticsClient {
    /// Connects to the socket at `path`.
    /// # Errors
    /// `IoError`: nobody listens there, or the server is silent for five seconds · `NotSupported`:
    /// the server's format is another one · `Busy`: the server has no place · `Corruption`: the
    /// words are not a statistics server's. Each one names the path.
    pub fn connect(path: impl AsRef<Path>) -> Result<StatisticsClient> {
        let path = path.as_ref();
        let failed = |e| Error::io_with(path.display(), e);
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut stream = BufReader::new(stream);
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

    /// A snapshot of the server's database.
    /// # Errors
    /// As [`StatisticsClient::connect`] · `ShutdownInProgress`: the database is closed.
    pub fn snapshot(&mut self) -> Result<StatisticsSnapshot> {
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

fn read_line(stream: &mut BufReader<UnixStream>, path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = stream.by_ref().take(LINE_LIMIT).read_line(&mut text);
    match read {
        Ok(_) if text.ends_with('\n') => Ok(text),
        Ok(_) => {
            let ended = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            Err(Error::io_with(format_args!("{}: the server has ended", path.display()), ended))
        }
        Err(e) if e.kind() == std::io::ErrorKind::InvalidData => {
            Err(Error::corruption(format!("{}: is no statistics server of Esker", path.display())))
        }
        Err(e) => Err(Error::io_with(path.display(), e)),
    }
}

/// A server of another process as a source. A lost connection is made anew at the next request.
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
        // The server may have dropped a silent client, so the first failure is no news.
        if let Some(mut client) = self.client.take()
            && let Ok(snapshot) = client.snapshot()
        {
            self.client = Some(client);
            return Ok(Arc::new(snapshot));
        }
        let mut client = StatisticsClient::connect(&self.path)?;
        let snapshot = client.snapshot()?;
        self.client = Some(client);
        Ok(Arc::new(snapshot))
    }
}
