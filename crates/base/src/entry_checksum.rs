//! Checksums of single entries on their way through memory: from a batch into a memtable, and in
//! there.
//!
//! In: what an entry says. Out: 64 bits that change when any part of it does, or when two parts
//! change places.
//! Source of the idea: RocksDB `db/kv_checksum.h`. They are never on disk, so the hash may change.
//!
//! Invariant: a checksum is the exclusive or of one hash for each part, so that putting a part in
//! and taking it out are the same operation.

use crate::types::{ColumnFamilyId, SequenceNumber, ValueType};
use crate::xxph3::hash64_with_seed;

/// What keeps parts apart that hold the same bytes. Any distinct odd numbers do.
const VALUE: u64 = 0x9D8F_4C1A_63B7_25E1;
const KIND: u64 = 0xB5C0_3E97_1D24_8A6F;
const SEQUENCE: u64 = 0xE3A1_70D5_9C86_4B2D;
const FAMILY: u64 = 0x87D2_5F63_A94E_1C0B;

/// The sizes that `memtable_protection_bytes_per_key` may have.
pub const PROTECTION_BYTES: [u32; 5] = [0, 1, 2, 4, 8];

/// The checksum of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryChecksum(u64);

impl EntryChecksum {
    /// Of an entry without family and sequence number.
    pub fn of(kind: ValueType, user_key: &[u8], value: &[u8]) -> EntryChecksum {
        EntryChecksum(hash64_with_seed(user_key, 0) ^ hash64_with_seed(value, VALUE)).with_kind(kind)
    }

    fn with(self, part: u64, seed: u64) -> EntryChecksum {
        EntryChecksum(self.0 ^ hash64_with_seed(&part.to_le_bytes(), seed))
    }

    /// With this kind put in, or taken out.
    #[must_use]
    pub fn with_kind(self, kind: ValueType) -> EntryChecksum {
        self.with(u64::from(kind as u8), KIND)
    }

    /// With this family put in, or taken out.
    #[must_use]
    pub fn with_family(self, family: ColumnFamilyId) -> EntryChecksum {
        self.with(u64::from(family.0), FAMILY)
    }

    /// With this sequence number put in, or taken out.
    #[must_use]
    pub fn with_sequence(self, sequence: SequenceNumber) -> EntryChecksum {
        self.with(sequence.0, SEQUENCE)
    }

    /// Its bytes: the first few of them are a shorter checksum.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests;
