//! Holds files of another owner open: the owner may delete each of them at any time.
//!
//! In: tables and blob files that a version names. Out: an open descriptor of each file while the
//! process may have more of them; beyond, only a check that the file exists.

use crate::version::{FileMeta, missing_table};
use esker_base::logger::InfoLog;
use esker_base::sync::Arc;
use esker_base::{Error, ErrorKind, FileNumber, Result, SubCode};
use esker_env::FileSystem;
use esker_env::descriptors::has_room;
use esker_table::TableCache;

/// The database whose files are held.
#[derive(Clone, Copy)]
pub(super) struct Holding<'a> {
    pub(super) fs: &'a Arc<dyn FileSystem>,
    /// If false, a missing file is an error of the reads that need it, not of the open.
    pub(super) paranoid_checks: bool,
    pub(super) info_log: &'a Arc<dyn InfoLog>,
}

impl Holding<'_> {
    /// Holds a table. Reads nothing.
    /// # Errors
    /// `Corruption`: the file is missing, or has another size than the MANIFEST says · `IoError`.
    pub(super) fn hold_table(&self, tables: &TableCache, level: usize, file: &FileMeta) -> Result<()> {
        let data = file.data();
        let held = if has_room() { tables.hold(data) } else { tables.check_there(data) };
        self.check(held, || missing_table(level, file))
    }

    /// Holds a blob file. Reads nothing.
    /// # Errors
    /// `Corruption`: the file is missing · `IoError`.
    pub(super) fn hold_blob_file(&self, tables: &TableCache, number: FileNumber) -> Result<()> {
        let path = tables.paths().blob(number);
        let held = if has_room() { tables.blobs().hold(number) } else { self.fs.file_size(&path).map(drop) };
        self.check(held, || Error::corruption("the blob file is missing").at(path.display()))
    }

    fn check(&self, held: Result<()>, missing: impl FnOnce() -> Error) -> Result<()> {
        match held {
            // Reads of the file will report it.
            Err(e) if !self.paranoid_checks || e.kind() == ErrorKind::IoError && e.is_retryable() => {
                esker_base::info_log!(self.info_log, Warn, "Not kept open: {e}");
                Ok(())
            }
            Err(e) if e.subcode() == SubCode::PathNotFound => Err(missing()),
            held => held,
        }
    }
}
