//! Checksums of entries in memory: from a batch to a memtable, and inside the memtable.
//!
//! In: the parts of an entry. Out: 64 bits that change when a part changes or two parts are
//! swapped.
//! Source of the idea: RocksDB `db/kv_checksum.h`. Checksums are never on disk, so the hash may
//! change.
//!
//! Invariant: a checksum is the exclusive or of one hash for each part, so that adding a part and
//! removing it are the same operation.

use crate::types::{ColumnFamilyId, SequenceNumber, ValueType};
use crate::xxph3::hash64_with_seed;

/// Seeds of the parts, so that equal bytes in different parts have different hashes. They are
/// distinct odd numbers; the key's seed is 0.
const VALUE: u64 = 0x9D8F_4C1A_63B7_25E1;
const KIND: u64 = 0xB5C0_3E97_1D24_8A6F;
const SEQUENCE: u64 = 0xE3A1_70D5_9C86_4B2D;
const FAMILY: u64 = 0x87D2_5F63_A94E_1C0B;

/// The values that `memtable_protection_bytes_per_key` may have.
pub const PROTECTION_BYTES: [u32; 5] = [0, 1, 2, 4, 8];

/// The checksum of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryChecksum(u64);

impl EntryChecksum {
    /// The checksum of an entry without its family and sequence number.
    pub fn of(kind: ValueType, user_key: &[u8], value: &[u8]) -> EntryChecksum {
        EntryChecksum(hash64_with_seed(user_key, 0) ^ hash64_with_seed(value, VALUE)).with_kind(kind)
    }

    fn with(self, part: u64, seed: u64) -> EntryChecksum {
        EntryChecksum(self.0 ^ hash64_with_seed(&part.to_le_bytes(), seed))
    }

    /// Adds or removes the kind.
    #[must_use]
    pub fn with_kind(self, kind: ValueType) -> EntryChecksum {
        self.with(u64::from(kind as u8), KIND)
    }

    /// Adds or removes the family.
    #[must_use]
    pub fn with_family(self, family: ColumnFamilyId) -> EntryChecksum {
        self.with(u64::from(family.0), FAMILY)
    }

    /// Adds or removes the sequence number.
    #[must_use]
    pub fn with_sequence(self, sequence: SequenceNumber) -> EntryChecksum {
        self.with(sequence.0, SEQUENCE)
    }

    /// The checksum as bytes. A prefix of them is a shorter checksum.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests;
