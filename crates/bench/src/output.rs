//! The two streams of a run: one for results, one for progress.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The reason why a run ends early.
#[derive(Debug)]
pub enum BenchStop {
    /// An error, as one sentence.
    Failed(String),
    /// The reader has closed the stream of results.
    OutputClosed,
}

impl From<io::Error> for BenchStop {
    fn from(error: io::Error) -> BenchStop {
        match error.kind() {
            io::ErrorKind::BrokenPipe => BenchStop::OutputClosed,
            _ => BenchStop::Failed(format!("Output: {error}")),
        }
    }
}

impl From<esker::Error> for BenchStop {
    fn from(error: esker::Error) -> BenchStop {
        BenchStop::Failed(error.to_string())
    }
}

type Stream = Box<dyn Write + Send>;

/// The two streams, which all threads share. No other thread's text interrupts the text of a call.
pub struct BenchOutput {
    results: Mutex<Stream>,
    progress: Mutex<Stream>,
}

impl fmt::Debug for BenchOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

/// Locks a stream, even after a writing thread has panicked.
fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BenchOutput {
    /// An output that writes results to `results`, and all other text to `progress`.
    pub fn new(results: impl Write + Send + 'static, progress: impl Write + Send + 'static) -> BenchOutput {
        BenchOutput { results: Mutex::new(Box::new(results)), progress: Mutex::new(Box::new(progress)) }
    }

    /// Writes results and flushes the stream.
    /// # Errors
    /// `OutputClosed` if the reader has closed the stream; `Failed` for other errors.
    pub(crate) fn print(&self, text: fmt::Arguments<'_>) -> Result<(), BenchStop> {
        let mut stream = lock(&self.results);
        stream.write_fmt(text)?;
        stream.flush()?;
        Ok(())
    }

    /// Writes progress. A closed stream is no error.
    pub(crate) fn report(&self, text: fmt::Arguments<'_>) {
        let mut stream = lock(&self.progress);
        if stream.write_fmt(text).is_ok() {
            stream.flush().ok();
        }
    }
}
