//! Whether the tables are what was written.

use super::{Db, reads};
use crate::engine::{ScrubState, Scrubber};
use crate::files::{under_either_name, verify_file_checksum};
use crate::read::tables::open_file;
use esker_base::{Error, Result};
use esker_format::file_name;

impl Db {
    /// What scrubbing has done and found since the database was opened; `None` if it is not scrubbed, see
    /// `scrub_bytes_per_second`.
    pub fn scrub_state(&self) -> Option<ScrubState> {
        self.engine().scrubber.lock().as_ref().map(Scrubber::state)
    }

    /// Reads every block of every live table of all families from its file, and checks checksums, the order of the keys,
    /// filters and counts. Blob files are not read. Reads and writes go on meanwhile.
    /// # Errors
    /// The first `Corruption` or `IoError`, which names the file.
    pub fn verify_checksum(&self) -> Result<()> {
        for family in self.engine().families.all() {
            let view = reads::pinned_view(&family);
            for (_, file) in view.version.all_files() {
                open_file(&family.tables, file)?.verify(&mut |_| true)?;
            }
        }
        Ok(())
    }

    /// Reads every live table and blob file of all families as it lies, and compares its checksum with the one that was
    /// recorded when it was made; files without one are passed over. Reads and writes go on meanwhile.
    /// # Errors
    /// `InvalidArgument` without `file_checksum_gen_factory`, or if that has not the function that a checksum was made with ·
    /// the first `Corruption` or `IoError`, which names the file.
    pub fn verify_file_checksums(&self) -> Result<()> {
        let engine = self.engine();
        let Some(factory) = &engine.options.file_checksum_gen_factory else {
            let what = "Cannot verify file checksum if options.file_checksum_gen_factory is null";
            return Err(Error::invalid_argument(what));
        };
        let fs = engine.fs().as_ref();
        for family in engine.families.all() {
            let view = reads::pinned_view(&family);
            for (_, file) in view.version.all_files() {
                let Some((checksum, function)) = &file.file_checksum else { continue };
                let path = file_name::table_file_name(&engine.path, file.number);
                under_either_name(&path, |p| verify_file_checksum(factory, fs, p, (checksum, function)))?;
            }
            for (number, blob) in view.version.blob_files() {
                let addition = &blob.addition;
                let path = file_name::blob_file_name(&engine.path, *number);
                let expected = (addition.checksum_value.as_slice(), addition.checksum_method.as_str());
                verify_file_checksum(factory, fs, &path, expected)?;
            }
        }
        Ok(())
    }
}
