//! Where a run's text goes: results on one stream, progress and complaints on the other.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a run ended early.
#[derive(Debug)]
pub enum Stop {
    /// What went wrong, as one sentence. What was measured until then has been told, and marked
    /// partial.
    Failed(String),
    /// Whoever read the results has seen enough.
    OutputClosed,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Stop::OutputClosed,
            _ => Stop::Failed(format!("Output: {error}")),
        }
    }
}

impl From<esker::Error> for Stop {
    fn from(error: esker::Error) -> Stop {
        Stop::Failed(error.to_string())
    }
}

type Stream = Box<dyn Write + Send>;

/// The two streams. Used by all threads; each call writes whole.
pub struct Output {
    results: Mutex<Stream>,
    progress: Mutex<Stream>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

/// A stream is usable whatever happened to the thread that wrote before.
fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Output {
    /// Results go to `results`, all else to `progress`.
    pub fn new(results: impl Write + Send + 'static, progress: impl Write + Send + 'static) -> Output {
        Output { results: Mutex::new(Box::new(results)), progress: Mutex::new(Box::new(progress)) }
    }

    /// Writes results at once.
    /// # Errors
    /// `OutputClosed` if nobody reads any more; `Failed` with the reason.
    pub(crate) fn print(&self, text: fmt::Arguments<'_>) -> Result<(), Stop> {
        let mut stream = lock(&self.results);
        stream.write_fmt(text)?;
        stream.flush()?;
        Ok(())
    }

    /// Tells how far it is. A stream that takes no more is no reason to stop.
    pub(crate) fn tell(&self, text: fmt::Arguments<'_>) {
        let mut stream = lock(&self.progress);
        if stream.write_fmt(text).is_ok() {
            stream.flush().ok();
        }
    }
}
