//! The surroundings of a command: files, clock, standard input, and its output streams.

use crate::progress::{ClearStream, CountedInput, ProgressLine};
use esker::internals::env::{FileSystem, SequentialFile};
use esker::options::load_latest_options_from;
use esker::{DbOptions, Env, Error, Result};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// An output stream.
pub(crate) type Stream = Box<dyn Write + Send>;

type Source = Rc<dyn Fn() -> Box<dyn BufRead>>;
type Sink = Rc<dyn Fn() -> Stream>;

/// The surroundings of a command: the machine, or a simulation in memory.
pub struct Host {
    env: Env,
    is_machine: bool,
    /// The files of `env` without encryption.
    plain: Arc<dyn FileSystem>,
    /// The file system that encrypts; `None` if no encryption keys were given.
    #[cfg(feature = "encryption")]
    encrypted: Option<esker::encryption::EncryptedFs>,
    input: Source,
    output: Sink,
    errors: Sink,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("env", &self.env).finish_non_exhaustive()
    }
}

impl Host {
    /// This machine, with the standard streams of this process.
    pub fn machine() -> Host {
        Host {
            env: Env::default(),
            is_machine: true,
            plain: Env::default().fs,
            #[cfg(feature = "encryption")]
            encrypted: None,
            input: Rc::new(|| Box::new(std::io::stdin().lock())),
            output: Rc::new(|| Box::new(std::io::stdout())),
            errors: Rc::new(|| Box::new(std::io::stderr())),
        }
    }

    /// A host with the files of `env` and with `input` on standard input. Its output streams
    /// discard all bytes.
    pub fn unheard(env: Env, input: Vec<u8>) -> Host {
        let input: Arc<[u8]> = input.into();
        Host {
            plain: Arc::clone(&env.fs),
            env,
            is_machine: false,
            #[cfg(feature = "encryption")]
            encrypted: None,
            input: Rc::new(move || Box::new(std::io::Cursor::new(Arc::clone(&input)))),
            output: Rc::new(|| Box::new(std::io::sink())),
            errors: Rc::new(|| Box::new(std::io::sink())),
        }
    }

    /// The same surroundings with the files of `fs`, with output that does not mix with `progress`,
    /// and, if `counts_input`, with standard input that counts there.
    pub(crate) fn watched(
        &self,
        fs: Arc<dyn FileSystem>,
        progress: &ProgressLine,
        counts_input: bool,
    ) -> Host {
        let (input, output, errors) = (self.input.clone(), self.output.clone(), self.errors.clone());
        let (of_input, of_output, of_errors) = (progress.clone(), progress.clone(), progress.clone());
        Host {
            env: Env { fs: Arc::clone(&fs), ..self.env() },
            is_machine: self.is_machine,
            plain: fs,
            #[cfg(feature = "encryption")]
            encrypted: self.encrypted.clone(),
            input: match counts_input {
                true => Rc::new(move || Box::new(CountedInput::new(input(), &of_input))),
                false => input,
            },
            output: Rc::new(move || Box::new(ClearStream::new(output(), &of_output))),
            errors: Rc::new(move || Box::new(ClearStream::new(errors(), &of_errors))),
        }
    }

    /// The same surroundings with encrypted files.
    #[cfg(feature = "encryption")]
    pub(crate) fn with_encrypted(&self, fs: esker::encryption::EncryptedFs) -> Host {
        Host {
            env: Env { fs: Arc::new(fs.clone()), ..self.env() },
            is_machine: self.is_machine,
            plain: Arc::clone(&self.plain),
            encrypted: Some(fs),
            input: self.input.clone(),
            output: self.output.clone(),
            errors: self.errors.clone(),
        }
    }

    /// The encrypted files.
    #[cfg(feature = "encryption")]
    pub(crate) fn encrypted(&self) -> Option<&esker::encryption::EncryptedFs> {
        self.encrypted.as_ref()
    }

    pub(crate) fn env(&self) -> Env {
        self.env.clone()
    }

    pub(crate) fn fs(&self) -> &dyn FileSystem {
        self.env.fs.as_ref()
    }

    /// Default options with this host's environment.
    pub(crate) fn db_options(&self) -> DbOptions {
        DbOptions { env: self.env(), ..DbOptions::default() }
    }

    /// The WAL directory in the OPTIONS file of the database in `dir`. As in RocksDB's `ldb`,
    /// `None` if that directory does not exist.
    pub(crate) fn wal_dir_of(&self, dir: &Path) -> Option<PathBuf> {
        let recorded = load_latest_options_from(self.fs(), dir).ok()?.db.wal_dir;
        recorded.filter(|wal_dir| self.fs().file_exists(wal_dir).unwrap_or(false))
    }

    /// Whether the command line named encryption keys.
    pub(crate) fn is_encrypted(&self) -> bool {
        #[cfg(feature = "encryption")]
        return self.encrypted.is_some();
        #[cfg(not(feature = "encryption"))]
        false
    }

    /// Files of this machine without encryption, such as those below `/proc`.
    pub(crate) fn plain_fs(&self) -> &dyn FileSystem {
        self.plain.as_ref()
    }

    /// Checks that a path is no FIFO, device or directory, whose open might wait forever. A missing
    /// file passes. Without effect if the host is not this machine.
    /// # Errors
    /// `IoError` naming the path.
    pub(crate) fn check_regular(&self, path: &Path) -> Result<()> {
        let found = if self.is_machine { std::fs::metadata(path).ok() } else { None };
        let Some(found) = found.filter(|found| !found.is_file()) else { return Ok(()) };
        let what = if found.is_dir() { "a directory" } else { "a FIFO, a socket or a device" };
        Err(Error::io_with(path.display(), io::Error::other(format!("is {what}, not a file"))))
    }

    /// Whether the streams are those of this process.
    pub(crate) fn is_machine(&self) -> bool {
        self.is_machine
    }

    pub(crate) fn input(&self) -> Box<dyn BufRead> {
        (self.input)()
    }

    pub(crate) fn output(&self) -> Stream {
        (self.output)()
    }

    pub(crate) fn errors(&self) -> Stream {
        (self.errors)()
    }
}

/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The lines of a file, one after the other. Memory: a piece of the file, and its longest line. A
/// limit bounds the memory for lines.
pub(crate) struct FileLines {
    file: Box<dyn SequentialFile>,
    piece: Vec<u8>,
    /// The bytes of `piece` behind the last line.
    unread: Range<usize>,
    line: Vec<u8>,
    number: u64,
    /// Bytes of a line that are kept.
    limit: usize,
}

impl FileLines {
    pub(crate) fn open(fs: &dyn FileSystem, path: &Path) -> Result<FileLines> {
        let file = fs.new_sequential_file(path)?;
        Ok(FileLines {
            file,
            piece: vec![0; PIECE_BYTES],
            unread: 0..0,
            line: Vec::new(),
            number: 0,
            limit: usize::MAX,
        })
    }

    /// Drops the bytes of each line behind the first `bytes`.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// The number of the next line, from 1 on, and its text; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<(u64, Cow<'_, str>)>> {
        self.line.clear();
        loop {
            let unread = self.piece.get(self.unread.clone()).unwrap_or_default();
            let mut parts = unread.splitn(2, |byte| *byte == b'\n');
            let begin = parts.next().unwrap_or_default();
            let kept = begin.len().min(self.limit - self.line.len());
            self.line.extend_from_slice(begin.get(..kept).unwrap_or_default());
            if parts.next().is_some() {
                self.unread.start += begin.len() + 1;
                break;
            }
            self.unread = 0..self.file.read(&mut self.piece)?;
            if self.unread.is_empty() {
                if self.line.is_empty() {
                    return Ok(None);
                }
                break;
            }
        }
        self.number += 1;
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Some((self.number, String::from_utf8_lossy(line))))
    }
}

/// Makes a file, or replaces it. The file is not encrypted. Not for files of databases.
/// # Errors
/// `IoError` naming the path.
pub(crate) fn write_file(host: &Host, path: &Path, bytes: &[u8]) -> Result<()> {
    host.check_regular(path)?;
    let mut file = host.plain_fs().new_writable_file(path)?;
    file.append(bytes)?;
    file.close()
}

/// The whole content of a file.
pub(crate) fn read_file(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let mut file = fs.new_sequential_file(path)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(bytes),
            n => bytes.extend_from_slice(piece.get(..n).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::internals::env::MemFs;

    #[test]
    fn lines_are_read_across_pieces() {
        let fs = MemFs::new();
        let long = "x".repeat(2 * PIECE_BYTES);
        let text = format!("first\n\n{long}\r\n{}\nlast", "y".repeat(PIECE_BYTES - 1));
        for text in [&text[..], "", "\n", "a\n", "a\n\n"] {
            let mut file = fs.new_writable_file(Path::new("/lines")).unwrap();
            file.append(text.as_bytes()).unwrap();
            file.close().unwrap();
            let mut lines = FileLines::open(&fs, Path::new("/lines")).unwrap();
            let mut read = Vec::new();
            while let Some((number, line)) = lines.next_line().unwrap() {
                read.push(line.into_owned());
                assert_eq!(number as usize, read.len());
            }
            assert_eq!(read, text.lines().collect::<Vec<_>>());
            assert!(lines.next_line().unwrap().is_none());
        }
    }
}
