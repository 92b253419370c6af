//! Names of the files of a database.
//!
//! In: a directory and a file number. Out: a path. [`parse_file_name`] turns a name back into kind
//! and number. Source: RocksDB `file/filename.cc`.
//!
//! Numbers are decimal and have at least six digits. All kinds of files take them from one counter.
//!
//! Page: `docs/format/files.md`.

use esker_base::{Error, FileNumber, Result};
use std::path::{Path, PathBuf};

mod paths;
#[cfg(test)]
mod tests;

pub use paths::{FilePaths, MAX_PATHS};

/// The file that names the current MANIFEST.
pub const CURRENT_FILE: &str = "CURRENT";
/// The file that is locked while the database is open.
pub const LOCK_FILE: &str = "LOCK";
/// The file that holds the database's id.
pub const IDENTITY_FILE: &str = "IDENTITY";
/// The human-readable log of events.
pub const INFO_LOG_FILE: &str = "LOG";
/// The directory of archived WALs, below the WAL directory.
pub const ARCHIVE_DIR: &str = "archive";

/// The kinds of files in a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FileType {
    /// A WAL: `NNNNNN.log`.
    Wal,
    /// The lock file: `LOCK`.
    DbLock,
    /// A table: `NNNNNN.sst` or `NNNNNN.ldb`.
    Table,
    /// A blob file: `NNNNNN.blob`.
    Blob,
    /// A MANIFEST: `MANIFEST-NNNNNN`.
    Descriptor,
    /// `CURRENT`, which names the current MANIFEST.
    Current,
    /// A temporary file: `NNNNNN.dbtmp`, `OPTIONS-NNNNNN.dbtmp` or `COMPACTION_PROGRESS-N.dbtmp`.
    /// An open deletes those that a crash left.
    Temp,
    /// The info log: `LOG` with number 0, or `LOG.old.<microseconds>` with the microseconds as
    /// number.
    InfoLog,
    /// RocksDB's `kMetaDatabase`: `METADB-NNNNNN`.
    MetaDatabase,
    /// `IDENTITY`, which holds the id of the database.
    Identity,
    /// An OPTIONS file: `OPTIONS-NNNNNN`.
    Options,
    /// A record of a compaction that can be resumed: `COMPACTION_PROGRESS-N`.
    CompactionProgress,
}

/// Parses a file's name (not a path) into kind and number. The number is 0 if the name has none.
/// `None` if no file of a database has such a name.
pub fn parse_file_name(name: &str) -> Option<(FileType, FileNumber)> {
    let (file_type, number) = match name {
        CURRENT_FILE => (FileType::Current, 0),
        LOCK_FILE => (FileType::DbLock, 0),
        IDENTITY_FILE => (FileType::Identity, 0),
        INFO_LOG_FILE | "LOG.old" => (FileType::InfoLog, 0),
        _ => parse_numbered(name)?,
    };
    Some((file_type, FileNumber(number)))
}

fn parse_numbered(name: &str) -> Option<(FileType, u64)> {
    const PREFIXES: [(&str, FileType); 5] = [
        ("MANIFEST-", FileType::Descriptor),
        ("LOG.old.", FileType::InfoLog),
        ("METADB-", FileType::MetaDatabase),
        ("OPTIONS-", FileType::Options),
        ("COMPACTION_PROGRESS-", FileType::CompactionProgress),
    ];
    for (prefix, file_type) in PREFIXES {
        let Some(rest) = name.strip_prefix(prefix) else { continue };
        return match rest.strip_suffix(".dbtmp") {
            Some(digits) if matches!(file_type, FileType::Options | FileType::CompactionProgress) => {
                Some((FileType::Temp, decimal(digits)?))
            }
            _ => Some((file_type, decimal(rest)?)),
        };
    }
    let (digits, suffix) = name.split_once('.')?;
    let file_type = match suffix {
        "log" => FileType::Wal,
        "sst" | "ldb" => FileType::Table,
        "blob" => FileType::Blob,
        "dbtmp" => FileType::Temp,
        _ => return None,
    };
    Some((file_type, decimal(digits)?))
}

/// Parses digits only: unlike `str::parse`, rejects a sign.
fn decimal(digits: &str) -> Option<u64> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// The path of `NNNNNN.log`.
pub fn wal_file_name(wal_dir: &Path, number: FileNumber) -> PathBuf {
    numbered(wal_dir, number, "log")
}

/// The path of `archive/NNNNNN.log`.
pub fn archived_wal_file_name(wal_dir: &Path, number: FileNumber) -> PathBuf {
    numbered(&wal_dir.join(ARCHIVE_DIR), number, "log")
}

/// The path of `NNNNNN.sst`.
pub fn table_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    numbered(dir, number, "sst")
}

/// `NNNNNN.ldb`, LevelDB's name of a table. An open looks for this name if the table has no file
/// `NNNNNN.sst`.
pub fn leveldb_table_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    numbered(dir, number, "ldb")
}

/// The path of `NNNNNN.blob`.
pub fn blob_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    numbered(dir, number, "blob")
}

/// The path of `COMPACTION_PROGRESS-N`. RocksDB numbers these files by microseconds since 1970.
pub fn compaction_progress_file_name(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("COMPACTION_PROGRESS-{number}"))
}

/// The path of `COMPACTION_PROGRESS-N.dbtmp`.
pub fn temp_compaction_progress_file_name(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("COMPACTION_PROGRESS-{number}.dbtmp"))
}

/// The path of `NNNNNN.dbtmp`.
pub fn temp_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    numbered(dir, number, "dbtmp")
}

/// The path of `MANIFEST-NNNNNN`.
pub fn descriptor_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(descriptor_base_name(number))
}

/// The path of `OPTIONS-NNNNNN`.
pub fn options_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("OPTIONS-{:06}", number.0))
}

/// The path of `OPTIONS-NNNNNN.dbtmp`.
pub fn temp_options_file_name(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("OPTIONS-{:06}.dbtmp", number.0))
}

/// The path of `CURRENT`.
pub fn current_file_name(dir: &Path) -> PathBuf {
    dir.join(CURRENT_FILE)
}

/// The path of `LOCK`.
pub fn lock_file_name(dir: &Path) -> PathBuf {
    dir.join(LOCK_FILE)
}

/// The path of `IDENTITY`.
pub fn identity_file_name(dir: &Path) -> PathBuf {
    dir.join(IDENTITY_FILE)
}

/// The path of `LOG`.
pub fn info_log_file_name(dir: &Path) -> PathBuf {
    dir.join(INFO_LOG_FILE)
}

/// The name of a database's `LOG` in a separate directory of logs.
///
/// The name is the absolute path `database` and then `_LOG`. In the path, `_` replaces each
/// character except letters, digits, `-`, `.` and `_`. The names of older logs end in
/// `.old.<microseconds>`.
pub fn info_log_name_elsewhere(database: &Path) -> String {
    /// The limit on the bytes of the path in the name. A longer path loses its front. File systems
    /// allow names of 255 bytes; `_LOG` and the end of an older log's name take the rest.
    const MAX_BYTES: usize = 230;
    let path = database.as_os_str().as_encoded_bytes();
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let kept = |b: &u8| b.is_ascii_alphanumeric() || b"-._".contains(b);
    let too_many = path.len().saturating_sub(MAX_BYTES);
    let mut name: String =
        path.iter().skip(too_many).map(|b| if kept(b) { char::from(*b) } else { '_' }).collect();
    name.push_str("_LOG");
    name
}

/// The path of `LOG.old.<microseconds>`.
pub fn old_info_log_file_name(dir: &Path, unix_micros: u64) -> PathBuf {
    dir.join(format!("LOG.old.{unix_micros}"))
}

/// The contents of CURRENT: the MANIFEST's name and a newline.
pub fn current_contents(number: FileNumber) -> String {
    format!("{}\n", descriptor_base_name(number))
}

/// The MANIFEST that CURRENT names.
/// # Errors
/// `Corruption` if the newline is missing (the write was torn), or the name is not that of a
/// MANIFEST.
pub fn parse_current(contents: &[u8]) -> Result<FileNumber> {
    let Some(name) = contents.strip_suffix(b"\n") else {
        return Err(Error::corruption("CURRENT does not end with a newline"));
    };
    match std::str::from_utf8(name).ok().and_then(parse_file_name) {
        Some((FileType::Descriptor, number)) => Ok(number),
        _ => Err(Error::corruption(format!("CURRENT names '{}', which is no MANIFEST", name.escape_ascii()))),
    }
}

fn descriptor_base_name(number: FileNumber) -> String {
    format!("MANIFEST-{:06}", number.0)
}

fn numbered(dir: &Path, number: FileNumber, suffix: &str) -> PathBuf {
    dir.join(format!("{:06}.{suffix}", number.0))
}
