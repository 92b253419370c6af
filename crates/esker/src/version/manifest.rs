//! MANIFEST and CURRENT as files: appends and syncs records, switches CURRENT to the next MANIFEST,
//! and reads both.
//!
//! Source: RocksDB `db/version_set.cc`, `file/filename.cc` (`SetCurrentFile`). Page:
//! `docs/format/manifest.md`.
//!
//! Invariants
//!  1. CURRENT names a MANIFEST only after that MANIFEST is complete by itself and synced.
//!  2. After an error the writer is unusable: the length of its last record in the file is unknown.

use super::VersionSetOptions;
use crate::wal::TailSource;
use esker_base::stats::{Histogram, Statistics};
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result};
use esker_env::{ChecksumHandoff, Clock, FileSystem, SequentialFile, StopWatch, WritableFile, replace_file};
use esker_format::file_name;
use esker_format::log::{LogMark, LogReader, LogWriter, next_strict};
use esker_format::version_edit::VersionEdit;
use std::fmt;
use std::path::{Path, PathBuf};

/// Appends edits to one MANIFEST.
pub(super) struct ManifestWriter {
    path: PathBuf,
    file: Box<dyn WritableFile>,
    log: LogWriter,
    use_fsync: bool,
    statistics: Option<Arc<Statistics>>,
    clock: Arc<dyn Clock>,
    record: Vec<u8>,
    framed: Vec<u8>,
    /// Bytes of its initial snapshot.
    beginning: u64,
}

impl ManifestWriter {
    /// Creates the file; CURRENT is not touched.
    /// # Errors
    /// `IoError`, also if the file exists: it may be the MANIFEST of another process's database.
    pub(super) fn create(options: &VersionSetOptions, number: FileNumber) -> Result<ManifestWriter> {
        let path = file_name::descriptor_file_name(&options.dir, number);
        let mut file = options.fs.create_writable_file(&path)?;
        if options.checksum_handoff {
            file = Box::new(ChecksumHandoff::new(file));
        }
        Ok(ManifestWriter {
            path,
            file,
            log: LogWriter::new(0, false),
            use_fsync: options.use_fsync,
            statistics: options.statistics.clone(),
            clock: options.clock.clone(),
            record: Vec::new(),
            framed: Vec::new(),
            beginning: 0,
        })
    }

    /// Reserves `bytes` of the disk.
    pub(super) fn preallocate(&mut self, bytes: u64) -> Result<()> {
        if bytes == 0 { Ok(()) } else { self.file.preallocate(0, bytes) }
    }

    /// Marks the end of the initial snapshot: edits follow.
    pub(super) fn begun(&mut self) {
        self.beginning = self.bytes();
    }

    /// Whether the next edit should go into a fresh MANIFEST: this one has more than `max_bytes`,
    /// and has outgrown its initial snapshot by `space_amp_pct` percent. The snapshot grows with
    /// the number of tables. With `max_bytes` alone, a database whose snapshot is larger would
    /// write a snapshot with each edit.
    pub(super) fn is_full(&self, max_bytes: u64, space_amp_pct: u64) -> bool {
        let grown = u128::from(self.beginning) * (100 + u128::from(space_amp_pct)) / 100;
        u128::from(self.bytes()) > u128::from(max_bytes).max(grown)
    }

    /// Bytes appended so far.
    pub(super) fn bytes(&self) -> u64 {
        self.file.file_size()
    }

    /// Appends one record.
    pub(super) fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        self.record.clear();
        edit.encode_to(&mut self.record);
        self.framed.clear();
        self.log.add_record(&self.record, &mut self.framed);
        self.file.append(&self.framed).map_err(|e| e.at(self.path.display()))
    }

    /// Waits until all records are on the medium.
    pub(super) fn sync(&mut self) -> Result<()> {
        let (statistics, clock) = (self.statistics.as_deref(), &*self.clock);
        let _watch = StopWatch::start(statistics, clock, Histogram::ManifestFileSyncMicros);
        let synced = if self.use_fsync { self.file.fsync() } else { self.file.sync() };
        synced.map_err(|e| e.at(self.path.display()))
    }

    /// Frees preallocated space. All records have been synced already.
    pub(super) fn close(mut self) -> Result<()> {
        self.file.close()
    }
}

impl fmt::Debug for ManifestWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManifestWriter({}, {} bytes)", self.path.display(), self.bytes())
    }
}

/// Writes a MANIFEST with these edits, which must be complete by themselves, and makes CURRENT name
/// it.
/// # Errors
/// `IoError`: CURRENT names the old MANIFEST unless it was switched already.
pub(crate) fn write_manifest(
    options: &VersionSetOptions,
    number: FileNumber,
    edits: &[VersionEdit],
) -> Result<()> {
    let mut manifest = ManifestWriter::create(options, number)?;
    edits.iter().try_for_each(|edit| manifest.append(edit))?;
    manifest.sync()?;
    manifest.close()?;
    set_current(options, number)
}

/// Copies the first `bytes` bytes of MANIFEST `number` in `from` to `to`, durably, with every table
/// in path 0: the copy of a database with several paths is one directory, and RocksDB 11.8 crashes
/// when it drops a table whose path id its options lack. The name is durable after a sync of the
/// directory.
/// # Errors
/// `IoError` · `Corruption` if the MANIFEST cannot be read.
pub(crate) fn copy_in_one_path(
    fs: &Arc<dyn FileSystem>,
    (from, to): (&Path, &Path),
    number: FileNumber,
    bytes: u64,
) -> Result<()> {
    let mut reader = ManifestReader::open_first(fs.as_ref(), from, number, false, bytes)?;
    let mut copy = ManifestWriter::create(&VersionSetOptions::new(fs.clone(), to), number)?;
    while let Some(mut edit) = reader.next_edit()? {
        edit.new_files.iter_mut().for_each(|(_, file)| file.path_id = 0);
        copy.append(&edit)?;
    }
    copy.sync()?;
    copy.close()
}

/// Makes CURRENT name this MANIFEST: a temporary file is written, synced and renamed, then the
/// directory is synced.
/// # Errors
/// `IoError`: CURRENT may name the old MANIFEST or this one, so both must stay.
pub(super) fn set_current(options: &VersionSetOptions, number: FileNumber) -> Result<()> {
    let (fs, dir) = (&options.fs, &options.dir);
    let directory = fs.new_directory(dir)?;
    // RocksDB syncs the directory only after the rename. A file system that does not keep the order
    // of directory changes could then lose the MANIFEST's name and keep CURRENT's.
    directory.fsync()?;
    let temp = file_name::temp_file_name(dir, number);
    let (current, contents) = (file_name::current_file_name(dir), file_name::current_contents(number));
    replace_file(fs.as_ref(), &temp, &current, contents.as_bytes(), true)?;
    directory.fsync()
}

/// Number of the MANIFEST that CURRENT names.
/// # Errors
/// `IoError` (sub-code `PathNotFound` if there is no database) · `Corruption` if CURRENT names no
/// MANIFEST.
pub fn read_current(fs: &dyn FileSystem, dir: &Path) -> Result<FileNumber> {
    /// More bytes than any MANIFEST's name with its newline has.
    const MAX_BYTES: usize = 256;
    let path = file_name::current_file_name(dir);
    let mut file = fs.new_sequential_file(&path)?;
    let mut contents = vec![0; MAX_BYTES];
    let mut filled = 0;
    while filled < MAX_BYTES {
        match file.read(&mut contents[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    file_name::parse_current(&contents[..filled]).map_err(|e| e.at(path.display()))
}

/// Edits of a MANIFEST from front to back.
pub(crate) struct ManifestReader {
    path: PathBuf,
    log: Log,
    record: Vec<u8>,
}

enum Log {
    /// Read once, from start to end.
    Whole(Box<LogReader<FileSource>>),
    /// Read while it grows; the mark is behind the last edit.
    Followed(Box<LogReader<TailSource>>, LogMark),
}

/// A file, and the number of bytes still to be read.
struct FileSource(Box<dyn SequentialFile>, u64);

impl esker_format::log::LogSource for FileSource {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let wanted = buf.len().min(usize::try_from(self.1).unwrap_or(buf.len()));
        let read = self.0.read(&mut buf[..wanted])?;
        self.1 -= read as u64;
        Ok(read)
    }
}

impl ManifestReader {
    /// Opens a MANIFEST. If `follows`, the reader gives later edits after it has reached the end.
    /// # Errors
    /// `IoError`; `Corruption` if CURRENT names a missing file.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        dir: &Path,
        number: FileNumber,
        follows: bool,
    ) -> Result<ManifestReader> {
        ManifestReader::open_first(fs, dir, number, follows, u64::MAX)
    }

    /// Opens the first `bytes` bytes of a MANIFEST; if `follows`, all of it.
    fn open_first(
        fs: &dyn FileSystem,
        dir: &Path,
        number: FileNumber,
        follows: bool,
        bytes: u64,
    ) -> Result<ManifestReader> {
        let path = file_name::descriptor_file_name(dir, number);
        if !fs.file_exists(&path)? {
            let what = format!("CURRENT names {}, which is not there", path.display());
            return Err(advise(Error::corruption(what)));
        }
        let log = if follows {
            let log = LogReader::new(TailSource::open(fs, &path)?, 0);
            let mark = log.mark();
            Log::Followed(Box::new(log), mark)
        } else {
            let source = FileSource(fs.new_sequential_file(&path)?, bytes);
            Log::Whole(Box::new(LogReader::new(source, 0)))
        };
        Ok(ManifestReader { path, log, record: Vec::new() })
    }

    /// The MANIFEST's path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next edit, or `None` at the end. An incomplete record at the very end was never
    /// acknowledged, and counts as the end.
    /// # Errors
    /// `Corruption` and `IoError`, naming the file.
    pub(crate) fn next_edit(&mut self) -> Result<Option<VersionEdit>> {
        let path = self.path.display();
        let is_record = match &mut self.log {
            Log::Whole(log) => next_strict(log.as_mut(), &mut self.record, &path),
            Log::Followed(log, _) => next_strict(log, &mut self.record, &path),
        };
        let is_record = is_record.map_err(advise)?;
        if let Log::Followed(log, mark) = &mut self.log {
            if is_record {
                *mark = log.mark();
            } else {
                log.go_back(mark);
            }
        }
        if !is_record {
            return Ok(None);
        }
        VersionEdit::decode(&self.record).map(Some).map_err(|e| advise(e.at(self.path.display())))
    }
}

/// Adds advice to the error: a database whose MANIFEST cannot be read needs a repair or a backup.
fn advise(error: Error) -> Error {
    if error.is_corruption() {
        error.advising("repair_db, or esker ldb repair, makes a new MANIFEST of the tables and WALs")
    } else {
        error
    }
}

impl fmt::Debug for ManifestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManifestReader({})", self.path.display())
    }
}
