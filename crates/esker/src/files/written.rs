//! Compares the entries added to a table with those read from it: `paranoid_file_checks`,
//! `verify_output_flags`.
//!
//! In: entries as the writer got them, then entries as the finished file has them. Out: whether
//! they are equal.
//! Source: RocksDB `db/output_validator.h`.
//!
//! Invariant: the order of point entries counts; range tombstones may come in any order.

use super::type_of;
use crate::options::{ColumnFamilyOptions, VerifyOutputFlags};
use esker_base::xxph3::hash64_with_seed;
use esker_base::{Result, ValueType};
use esker_table::TableReader;

/// The verification of a fresh table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verification {
    pub(super) blocks: bool,
    pub(super) entries: bool,
    pub(super) file: bool,
}

impl Verification {
    /// The verification that the options request, for the output of a compaction or of a flush.
    pub(super) fn wanted(options: &ColumnFamilyOptions, is_compaction: bool) -> Verification {
        let whose = match is_compaction {
            true => VerifyOutputFlags::ENABLE_FOR_LOCAL_COMPACTION,
            false => VerifyOutputFlags::ENABLE_FOR_FLUSH,
        };
        let flags = options.verify_output_flags;
        let wants = |what| flags & whose != 0 && flags & what != 0;
        Verification {
            blocks: wants(VerifyOutputFlags::VERIFY_BLOCK_CHECKSUM),
            entries: options.paranoid_file_checks || wants(VerifyOutputFlags::VERIFY_ITERATION),
            file: wants(VerifyOutputFlags::VERIFY_FILE_CHECKSUM),
        }
    }
}

/// Entries seen, as hashes of all their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WrittenFile {
    points: u64,
    tombstones: u64,
}

impl WrittenFile {
    /// Adds an entry.
    pub(super) fn add(&mut self, internal_key: &[u8], value: &[u8]) {
        if type_of(internal_key) == Some(ValueType::RangeDeletion) {
            let hash = hash64_with_seed(value, hash64_with_seed(internal_key, 0));
            self.tombstones = self.tombstones.wrapping_add(hash);
        } else {
            self.points = hash64_with_seed(value, hash64_with_seed(internal_key, self.points));
        }
    }

    /// The summary of a table's entries, read from its file with all checksums verified.
    /// # Errors
    /// `Corruption` and `IoError` name the file.
    pub(super) fn in_table(reader: &TableReader) -> Result<WrittenFile> {
        let mut written = WrittenFile::default();
        let mut add = |key: &[u8], value: &[u8]| {
            written.add(key, value);
            Ok(())
        };
        reader.for_each_data_block(&mut |block| block.for_each(&mut add))?;
        reader.for_each_stored_tombstone(&mut add)?;
        Ok(written)
    }
}
