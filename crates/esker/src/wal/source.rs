//! A WAL file as the log reader wants it.

use esker_base::{FileNumber, Result};
use esker_env::{FileSystem, SequentialFile};
use esker_format::file_name;
use esker_format::log::{LogReader, LogSource};
use std::fmt;
use std::path::Path;

/// Reads a file from front to back.
pub(crate) struct WalFileSource(Box<dyn SequentialFile>);

impl LogSource for WalFileSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.0.read(buf)
    }
}

impl fmt::Debug for WalFileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileSource")
    }
}

/// A WAL from front to back.
pub(crate) type WalReader = LogReader<WalFileSource>;

/// A reader over WAL `number` in `dir`.
/// # Errors
/// `IoError` if it cannot be opened.
pub(crate) fn open_wal(fs: &dyn FileSystem, dir: &Path, number: FileNumber) -> Result<WalReader> {
    let file = fs.new_sequential_file(&file_name::wal_file_name(dir, number))?;
    Ok(LogReader::new(WalFileSource(file), number.0))
}
