//! References to blob files that enter and leave a flush or compaction.
//!
//! In: entries. Out: for each blob file, the number and bytes of its records that entries refer to.
//! A reference that the inputs have and the outputs lack is garbage. Source: RocksDB
//! `db/blob/blob_garbage_meter.cc`.

use esker_base::{FileNumber, Result, ValueType};
use esker_format::blob::BlobLocation;
use esker_format::blob::file::record_bytes;
use esker_format::version_edit::BlobFileGarbage;
use esker_format::wide_column::stored::for_each_blob;
use std::collections::BTreeMap;

/// Records of blob files that entries refer to: their number and their bytes, by file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct BlobTally(BTreeMap<FileNumber, (u64, u64)>);

impl BlobTally {
    /// Counts the blob references of this entry.
    /// # Errors
    /// `Corruption`: the entry's blob index or entity is damaged.
    #[inline]
    pub(crate) fn count(&mut self, value_type: ValueType, user_key: &[u8], value: &[u8]) -> Result<()> {
        match value_type {
            ValueType::BlobIndex | ValueType::WideColumnEntity => {
                for_each_blob(value_type, value, &mut |location| self.add(user_key, &location))
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, user_key: &[u8], location: &BlobLocation) {
        let (count, bytes) = self.0.entry(location.file_number).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(record_bytes(user_key.len(), location.size));
    }

    /// Number and bytes of the records of this file.
    pub(crate) fn of_file(&self, number: FileNumber) -> (u64, u64) {
        self.0.get(&number).copied().unwrap_or_default()
    }

    /// The files that hold the records.
    pub(crate) fn files(&self) -> impl Iterator<Item = FileNumber> {
        self.0.keys().copied()
    }

    /// Adds another count to this one.
    pub(crate) fn merge(&mut self, other: &BlobTally) {
        for (number, (count, bytes)) in &other.0 {
            let of_file = self.0.entry(*number).or_default();
            of_file.0 += count;
            of_file.1 = of_file.1.saturating_add(*bytes);
        }
    }

    /// The references that are missing in `out`, file by file.
    pub(crate) fn garbage(&self, out: &BlobTally) -> Vec<BlobFileGarbage> {
        let lost = self.0.iter().map(|(number, (count, bytes))| {
            let (kept_count, kept_bytes) = out.of_file(*number);
            BlobFileGarbage {
                number: *number,
                garbage_blob_count: count.saturating_sub(kept_count),
                garbage_blob_bytes: bytes.saturating_sub(kept_bytes),
            }
        });
        lost.filter(|garbage| garbage.garbage_blob_count > 0).collect()
    }
}
