//! Sources of the log reader: log files read once, or followed while they grow.

use esker_base::sync::Arc;
use esker_base::{FileNumber, Result, SubCode};
use esker_env::{FileSystem, RandomAccessFile, SequentialFile};
use esker_format::file_name;
use esker_format::log::{LogReader, LogSource, SeekSource};
use std::fmt;
use std::path::Path;

/// A WAL that no process writes, or one that another process may be writing.
pub(crate) enum WalSource {
    /// Read once, from front to back.
    Ended(Box<dyn SequentialFile>),
    Growing(TailSource),
}

impl LogSource for WalSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        match self {
            WalSource::Ended(file) => file.read(buf),
            WalSource::Growing(tail) => tail.read(buf),
        }
    }

    fn try_seek(&mut self, offset: u64) -> bool {
        match self {
            WalSource::Ended(_) => false,
            WalSource::Growing(tail) => tail.try_seek(offset),
        }
    }
}

impl fmt::Debug for WalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WalSource")
    }
}

/// A WAL from front to back.
pub(crate) type WalReader = LogReader<WalSource>;

/// A reader over WAL `number` in `dir`.
/// # Errors
/// `IoError` if it cannot be opened.
pub(crate) fn open_wal(fs: &dyn FileSystem, dir: &Path, number: FileNumber) -> Result<WalReader> {
    let file = fs.new_sequential_file(&file_name::wal_file_name(dir, number))?;
    Ok(LogReader::new(WalSource::Ended(file), number.0))
}

/// A reader over WAL `number` in `dir`, which another process may be writing. Stays readable when
/// the file is deleted.
/// # Errors
/// `IoError` if it cannot be opened.
pub(crate) fn open_wal_of_owner(fs: &dyn FileSystem, dir: &Path, number: FileNumber) -> Result<WalReader> {
    let tail = TailSource::open(fs, &file_name::wal_file_name(dir, number))?;
    Ok(LogReader::new(WalSource::Growing(tail), number.0))
}

/// A log file that another process may still be writing. Stays readable when the file is deleted.
pub(crate) struct TailSource {
    file: Arc<dyn RandomAccessFile>,
    at: u64,
}

impl TailSource {
    /// Opens the file.
    /// # Errors
    /// `IoError`; sub-code `PathNotFound` if it is not there.
    pub(crate) fn open(fs: &dyn FileSystem, path: &Path) -> Result<TailSource> {
        Ok(TailSource { file: fs.new_random_access_file(path)?, at: 0 })
    }
}

impl LogSource for TailSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let n = self.file.read_at(self.at, buf)?;
        self.at += n as u64;
        Ok(n)
    }

    fn try_seek(&mut self, offset: u64) -> bool {
        self.at = offset;
        true
    }
}

impl SeekSource for TailSource {
    fn seek(&mut self, offset: u64) {
        self.at = offset;
    }
}

impl fmt::Debug for TailSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TailSource({} at {})", self.file.path().display(), self.at)
    }
}

/// A WAL that is read up to a bound. The bound rises while the WAL is being written.
#[derive(Debug)]
pub(crate) struct BoundedWal {
    file: TailSource,
    pub(crate) end: u64,
}

impl BoundedWal {
    /// Opens WAL `number` of `wal_dir` or its archive, with a bound of 0.
    /// # Errors
    /// `IoError` if it cannot be opened.
    pub(crate) fn open(fs: &dyn FileSystem, wal_dir: &Path, number: FileNumber) -> Result<BoundedWal> {
        let file = match TailSource::open(fs, &file_name::wal_file_name(wal_dir, number)) {
            Err(e) if e.subcode() == SubCode::PathNotFound => {
                TailSource::open(fs, &file_name::archived_wal_file_name(wal_dir, number))?
            }
            opened => opened?,
        };
        Ok(BoundedWal { file, end: 0 })
    }
}

impl LogSource for BoundedWal {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.file.at)).unwrap_or(usize::MAX);
        let wanted = buf.len().min(left);
        match buf.get_mut(..wanted) {
            Some(buf) if wanted > 0 => self.file.read(buf),
            _ => Ok(0),
        }
    }
}

impl SeekSource for BoundedWal {
    fn seek(&mut self, offset: u64) {
        self.file.seek(offset);
    }
}
