//! A trace as a file.
//!
//! A writer: in whole records, out a file. A reader: in that file, out its records one by one.
//!
//! Invariants
//!  1. For one record, a reader allocates at most as many bytes as the file has.

use esker_base::{Error, ErrorKind, Result};
use esker_env::{Env, FileSystem, SequentialFile, WritableFile};
use esker_format::trace::{FRAME_BYTES, payload_len};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size of a writer's buffer.
const BUFFER_BYTES: usize = 64 << 10;

/// A destination for the records of a trace.
pub trait TraceWriter: Send {
    /// Appends one record.
    /// # Errors
    /// Any error ends the trace: no record follows, and `Db::end_trace` returns the error.
    fn write(&mut self, record: &[u8]) -> Result<()>;
    /// Bytes of all records appended so far.
    fn file_size(&self) -> u64;
    /// Completes the trace: flushes buffered records and closes the destination.
    /// # Errors
    /// `IoError` if records could not be written.
    fn close(&mut self) -> Result<()>;
}

/// A source of the records of a trace.
pub trait TraceReader: Send {
    /// The next whole record; `None` at the end.
    /// # Errors
    /// `Corruption` if a record is cut off · `IoError`.
    fn read(&mut self) -> Result<Option<Vec<u8>>>;
    /// Moves back to the first record.
    /// # Errors
    /// `IoError` after [`close`](Self::close).
    fn reset(&mut self) -> Result<()>;
    /// Closes the source. Later reads fail.
    /// # Errors
    /// Those of the source.
    fn close(&mut self) -> Result<()>;
}

/// Creates a trace file at `path` and replaces an existing file. The writer buffers up to 64 KiB.
///
/// ```
/// use esker::trace::{TraceOptions, new_file_trace_reader, new_file_trace_writer};
/// use esker::{Db, Env, Options, ReplayOptions, Replayer};
///
/// # let dir = esker_testkit::TempDir::new("doc");
/// let (env, path) = (Env::default(), dir.join("queries"));
/// let options = Options::new().create_if_missing(true);
/// let db = Db::open(&options, dir.join("db"))?;
/// db.start_trace(&TraceOptions::default(), new_file_trace_writer(&env, &path)?)?;
/// db.put("esker", "gravel")?;
/// db.end_trace()?;
///
/// let other = Db::open(&options, dir.join("other"))?;
/// let mut replayer = Replayer::new(&other, &[], new_file_trace_reader(&env, &path)?);
/// replayer.prepare()?;
/// replayer.replay(&ReplayOptions::default(), |_| {})?;
/// assert_eq!(other.get("esker")?.unwrap(), b"gravel");
/// # Ok::<_, esker::Error>(())
/// ```
/// # Errors
/// `IoError` if the file cannot be made.
pub fn new_file_trace_writer(env: &Env, path: impl AsRef<Path>) -> Result<Box<dyn TraceWriter>> {
    let file = env.fs.new_writable_file(path.as_ref())?;
    Ok(Box::new(FileTraceWriter { file, buffer: Vec::new(), bytes: 0 }))
}

struct FileTraceWriter {
    file: Box<dyn WritableFile>,
    buffer: Vec<u8>,
    bytes: u64,
}

impl FileTraceWriter {
    fn flush(&mut self) -> Result<()> {
        let appended = self.file.append(&self.buffer);
        self.buffer.clear();
        appended
    }
}

impl TraceWriter for FileTraceWriter {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(record);
        self.bytes += record.len() as u64;
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    fn file_size(&self) -> u64 {
        self.bytes
    }

    fn close(&mut self) -> Result<()> {
        self.flush()?;
        self.file.flush()?;
        self.file.close()
    }
}

/// Opens the trace file at `path` for reading its records.
/// # Errors
/// `IoError` if the file cannot be opened.
pub fn new_file_trace_reader(env: &Env, path: impl AsRef<Path>) -> Result<Box<dyn TraceReader>> {
    let (fs, path) = (env.fs.clone(), path.as_ref().to_owned());
    let open = OpenTrace::new(fs.as_ref(), &path)?;
    Ok(Box::new(FileTraceReader { fs, path, open: Some(open) }))
}

struct FileTraceReader {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    /// `None` after `close`.
    open: Option<OpenTrace>,
}

/// The file, and bytes read from it that no record has consumed.
struct OpenTrace {
    file: Box<dyn SequentialFile>,
    buffer: Vec<u8>,
    at: usize,
}

impl OpenTrace {
    fn new(fs: &dyn FileSystem, path: &Path) -> Result<OpenTrace> {
        Ok(OpenTrace { file: fs.new_sequential_file(path)?, buffer: Vec::new(), at: 0 })
    }

    /// Reads ahead until the buffer has `bytes` bytes. Returns the buffer, which has fewer at the
    /// end of the file.
    fn fill(&mut self, bytes: usize) -> Result<&[u8]> {
        self.buffer.drain(..self.at);
        self.at = 0;
        while self.buffer.len() < bytes {
            let before = self.buffer.len();
            self.buffer.resize(before + BUFFER_BYTES, 0);
            let read = self.file.read(&mut self.buffer[before..]);
            self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                break;
            }
        }
        Ok(&self.buffer)
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let frame = self.fill(FRAME_BYTES)?;
        if frame.is_empty() {
            return Ok(None);
        }
        let cut_off = || Error::corruption("Corrupted trace file. It ends within a record.");
        let len = FRAME_BYTES + payload_len(frame).map_err(|_| cut_off())? as usize;
        let record = self.fill(len)?.get(..len).ok_or_else(cut_off)?.to_vec();
        self.at = len;
        Ok(Some(record))
    }
}

impl TraceReader for FileTraceReader {
    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let open = self.open.as_mut().ok_or_else(closed)?;
        open.next().map_err(|e| e.at(self.path.display()))
    }

    fn reset(&mut self) -> Result<()> {
        self.open.as_ref().ok_or_else(closed)?;
        self.open = Some(OpenTrace::new(self.fs.as_ref(), &self.path)?);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::IoError, "TraceReader is closed.")
}
