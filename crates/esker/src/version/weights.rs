//! Weights of files, to compare levels: bytes, and the bytes that deletions will free.
//!
//! In: files. Out: sums, from which some files can be subtracted again, so that no caller iterates
//! over the rest.
//! Source: RocksDB `db/version_set.cc` (`ComputeCompensatedSizes`, `UpdateAccumulatedStats`).

use super::FileMeta;
use std::iter::Sum;
use std::ops::{Add, Sub};

/// Sums over some files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// Bytes, with range tombstones weighted by the bytes that they hide.
    pub bytes: u64,
    /// Deletions beyond the number of other entries, summed file by file.
    pub excess_deletions: u64,
    /// Bytes of the files whose properties are known. The sums below count only these files.
    pub known_bytes: u64,
    /// Entries that are not deletions.
    pub others: u64,
    /// Values before compression.
    pub raw_value_bytes: u64,
    /// Keys and values before compression.
    pub raw_bytes: u64,
}

impl Weights {
    /// The weights of one file.
    pub fn of(f: &FileMeta) -> Weights {
        let bytes = f.file_size.saturating_add(f.compensated_range_deletion_size);
        let Some(s) = f.stats() else { return Weights { bytes, ..Weights::default() } };
        Weights {
            bytes,
            excess_deletions: s.deletions.saturating_mul(2).saturating_sub(s.entries),
            known_bytes: f.file_size,
            others: s.entries.saturating_sub(s.deletions),
            raw_value_bytes: s.raw_value_bytes,
            raw_bytes: s.raw_value_bytes.saturating_add(s.raw_key_bytes),
        }
    }

    fn each(self, other: Weights, of: impl Fn(u64, u64) -> u64) -> Weights {
        Weights {
            bytes: of(self.bytes, other.bytes),
            excess_deletions: of(self.excess_deletions, other.excess_deletions),
            known_bytes: of(self.known_bytes, other.known_bytes),
            others: of(self.others, other.others),
            raw_value_bytes: of(self.raw_value_bytes, other.raw_value_bytes),
            raw_bytes: of(self.raw_bytes, other.raw_bytes),
        }
    }
}

impl Add for Weights {
    type Output = Weights;
    fn add(self, other: Weights) -> Weights {
        self.each(other, u64::saturating_add)
    }
}

/// Saturates at 0: more properties of a file may be loaded now than when it was added.
impl Sub for Weights {
    type Output = Weights;
    fn sub(self, other: Weights) -> Weights {
        self.each(other, u64::saturating_sub)
    }
}

impl Sum for Weights {
    fn sum<I: Iterator<Item = Weights>>(all: I) -> Weights {
        all.fold(Weights::default(), Add::add)
    }
}
