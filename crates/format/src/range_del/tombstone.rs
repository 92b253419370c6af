//! One range tombstone and its stored form.
//!
//! In: an entry of a range tombstone block or memtable. Out: start, end, sequence number; and back.
//! Source: RocksDB `db/dbformat.h` (`RangeTombstone`).
//!
//! `key = start user key | (sequence << 8 | 0x0F) u64`, `value = end user key`
//!
//! Invariants
//!  1. The end is exclusive: a tombstone `[start, end)@seq` hides `(key, s)` when `start <= key <
//!     end` and `s < seq`.
//!  2. `start >= end` is possible in bytes from disk; it hides nothing.

use crate::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_base::{Error, Result, SequenceNumber, ValueType};
use std::cmp::Ordering;

/// A tombstone that owns its keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeTombstone {
    /// The first deleted user key.
    pub start: Vec<u8>,
    /// The user key at which the range ends, exclusive.
    pub end: Vec<u8>,
    /// The sequence number of the tombstone.
    pub seq: SequenceNumber,
}

impl RangeTombstone {
    /// `[start, end)` at `seq`.
    pub fn new(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>, seq: SequenceNumber) -> RangeTombstone {
        RangeTombstone { start: start.into(), end: end.into(), seq }
    }

    /// The tombstone, borrowed.
    pub fn as_ref(&self) -> RangeTombstoneRef<'_> {
        RangeTombstoneRef { start: &self.start, end: &self.end, seq: self.seq }
    }

    /// The internal key it is stored under; the value is `end`.
    pub fn internal_key(&self) -> Vec<u8> {
        self.as_ref().internal_key()
    }
}

/// A tombstone whose keys lie elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeTombstoneRef<'a> {
    /// The first deleted user key.
    pub start: &'a [u8],
    /// The user key at which the range ends, exclusive.
    pub end: &'a [u8],
    /// The sequence number of the tombstone.
    pub seq: SequenceNumber,
}

impl<'a> RangeTombstoneRef<'a> {
    /// Parses an entry of a range tombstone block.
    /// # Errors
    /// `Corruption` if the key is no internal key of type `RangeDeletion`.
    pub fn parse(internal_key: &'a [u8], end: &'a [u8]) -> Result<RangeTombstoneRef<'a>> {
        let parsed = ParsedInternalKey::parse(internal_key)?;
        if parsed.value_type != ValueType::RangeDeletion {
            return Err(Error::corruption(format!(
                "range tombstone block holds an entry of type {:?}",
                parsed.value_type
            )));
        }
        Ok(RangeTombstoneRef { start: parsed.user_key, end, seq: parsed.sequence })
    }

    /// The internal key it is stored under; the value is `end`.
    pub fn internal_key(&self) -> Vec<u8> {
        key::internal_key(self.start, self.seq, ValueType::RangeDeletion)
    }

    /// Whether it covers no key at all.
    pub fn is_empty(&self, icmp: &InternalKeyComparator) -> bool {
        icmp.compare_user_keys(self.start, self.end) != Ordering::Less
    }

    /// Whether `user_key` lies in `[start, end)`.
    pub fn covers(&self, user_key: &[u8], icmp: &InternalKeyComparator) -> bool {
        icmp.compare_user_keys(self.start, user_key) != Ordering::Greater
            && icmp.compare_user_keys(user_key, self.end) == Ordering::Less
    }

    /// A copy that owns its keys.
    pub fn to_owned(&self) -> RangeTombstone {
        RangeTombstone::new(self.start, self.end, self.seq)
    }
}

#[cfg(test)]
mod tests;
