//! Checks that tables and blob files hold the bytes that were written.

use super::Db;
use crate::engine::{ScrubState, Scrubber};
use crate::files::open_table::open_file;
use crate::files::{ChecksumReads, under_either_name, verify_file_checksum};
use esker_base::stats::{Ticker, record_tick};
use esker_base::{Error, FileNumber, IoActivity, Result};
use esker_env::thread_status::OperationType;
use esker_format::trace::TableReaderCaller;
use esker_table::trace::called_by;

/// A table that compactions leave alone because it is damaged: see [`Db::quarantined_tables`].
#[derive(Clone)]
#[non_exhaustive]
pub struct QuarantinedTable {
    /// Name of the table's family.
    pub column_family: String,
    /// The table's level.
    pub level: usize,
    /// The number of the table's file.
    pub number: FileNumber,
    /// The table's first user key.
    pub smallest_user_key: Vec<u8>,
    /// The table's last user key.
    pub largest_user_key: Vec<u8>,
    /// The fault, with the file's name and the offset of the first bad block. If a value in a blob
    /// file is damaged, the error names the blob file.
    pub error: Error,
}

esker_base::debug_with_text!(QuarantinedTable {
    column_family,
    level,
    number,
    text smallest_user_key,
    text largest_user_key,
    error,
});

impl Db {
    /// Work and findings of scrubbing since the database was opened; `None` if
    /// `scrub_bytes_per_second` is 0.
    pub fn scrub_state(&self) -> Option<ScrubState> {
        self.engine().check_process().ok()?;
        self.engine().scrubber.lock().as_ref().map(Scrubber::state)
    }

    /// Tables of all families in which a compaction found damage, either in the table or in a blob
    /// file that holds one of its values. Reads find entries in good blocks; a bad block gives an
    /// error that names file and offset. Compactions leave these tables in place, with newer
    /// entries above them; writes and all other work continue. The quarantine ends at the next
    /// opening or at [`Db::resume`].
    pub fn quarantined_tables(&self) -> Vec<QuarantinedTable> {
        let mut all = Vec::new();
        if !self.engine().owner.is_here() {
            return all;
        }
        let state = self.engine().state.lock();
        for family in state.families.values() {
            for (number, why) in family.running.all_quarantined() {
                let file = family.version.all_files().find(|(_, file)| file.number == number);
                let Some((level, file)) = file else { continue };
                all.push(QuarantinedTable {
                    column_family: family.cf.name.clone(),
                    level,
                    number,
                    smallest_user_key: file.smallest_user_key().to_vec(),
                    largest_user_key: file.largest_user_key().to_vec(),
                    error: why.clone(),
                });
            }
        }
        all.sort_by_key(|table| table.number);
        all
    }

    /// Reads every block of every live table of all families from its file, and checks checksums,
    /// the order of the keys, filters and counts. Reads every record of every live blob file, too.
    /// Reads and writes continue meanwhile.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// # let db = esker::Db::open_default(dir.path())?;
    /// db.verify_checksum()?;
    /// assert!(db.verify_file_checksums().is_err(), "none are made by default");
    /// assert!(db.quarantined_tables().is_empty());
    /// assert!(db.scrub_state().is_none());
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// The first `Corruption` or `IoError`, which names the file.
    pub fn verify_checksum(&self) -> Result<()> {
        self.engine().check_process()?;
        let _calls = called_by(TableReaderCaller::UserVerifyChecksum, None);
        let _activity = IoActivity::VerifyDbChecksum.begin();
        let _operation = self.engine().track(OperationType::VerifyDbChecksum, None, || [0; 6]);
        for family in self.engine().families.all() {
            let super_version = family.pinned_super_version();
            for (_, file) in super_version.version.all_files() {
                open_file(&family.tables, file)?.verify(&mut |_| true)?;
                self.count_verified(file.file_size);
            }
            for (number, blob) in super_version.version.blob_files() {
                family.tables.blobs().reader(*number)?.verify()?;
                self.count_verified(blob.file_size());
            }
        }
        Ok(())
    }

    fn count_verified(&self, bytes: u64) {
        record_tick(&self.engine().options.statistics, Ticker::VerifyChecksumReadBytes, bytes);
    }

    /// Reads the bytes of every live table and blob file of all families, and compares their
    /// checksum with the recorded one. Files without a recorded checksum are skipped. Reads and
    /// writes continue meanwhile.
    /// # Errors
    /// `InvalidArgument`: there is no `file_checksum_gen_factory`, or it lacks the function that
    /// made a checksum · the first `Corruption` or `IoError`, which names the file.
    pub fn verify_file_checksums(&self) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        let Some(factory) = &engine.options.file_checksum_gen_factory else {
            let what = "Cannot verify file checksum if options.file_checksum_gen_factory is null";
            return Err(Error::invalid_argument(what));
        };
        let _activity = IoActivity::VerifyFileChecksums.begin();
        let _operation = engine.track(OperationType::VerifyFileChecksums, None, || [0; 6]);
        let reads = ChecksumReads::new(factory, engine.fs().as_ref(), &engine.options);
        for family in engine.families.all() {
            let super_version = family.pinned_super_version();
            for (_, file) in super_version.version.all_files() {
                let Some((checksum, function)) = &file.file_checksum else { continue };
                let path = file.path();
                let verify = |path: &_| verify_file_checksum(&reads, path, (checksum, function));
                under_either_name(&path, verify)?;
                self.count_verified(file.file_size);
            }
            for (number, blob) in super_version.version.blob_files() {
                let addition = &blob.addition;
                let path = super_version.version.paths().blob(*number);
                let expected = (addition.checksum_value.as_slice(), addition.checksum_method.as_str());
                verify_file_checksum(&reads, &path, expected)?;
                self.count_verified(blob.file_size());
            }
        }
        Ok(())
    }
}
