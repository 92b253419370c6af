//! Log records, the format of WALs and MANIFESTs: files of 32 KiB blocks.
//!
//! In: logical records. Out: physical records, and back. A physical record holds a logical record
//! or a fragment of one. Source: RocksDB `db/log_format.h`; for the damage that readers tolerate,
//! `db/log_reader.cc`. Bytes: `fixtures/walrec_*`, page `docs/format/log.md`.
//!
//! `crc u32 | size u16 | type u8 | [log number u32] | payload`
//!
//! Integers are little-endian. `crc` is the masked CRC32C of all bytes behind `size`. Only
//! recyclable types have a log number.
//!
//! Invariants
//!  1. No physical record crosses a block. If the rest of a block is too short for a header (7
//!     bytes, or 11 in a recyclable log), zeros fill it.
//!  2. After a FIRST come MIDDLEs and one LAST, unless the log ends before.
//!  3. If a physical record fails its checks, a reader drops the rest of the block: the record's
//!     size may be wrong.
//!
//! [`LogWriter`] makes the bytes. [`LogReader`] classifies every part of a log ([`LogEvent`]),
//! damage included. [`crate::wal_recovery`] and [`next_strict`] decide which damage they tolerate.
//! A [`LogMark`] is the place that a reader has reached in a log to which a writer still appends.

mod compressed;
mod reader;
mod strict;
#[cfg(test)]
mod tests;
mod writer;

pub use compressed::RecordCompressor;
pub use reader::{
    LogCorruption, LogEvent, LogMark, LogReader, LogSource, PredecessorWal, SeekSource, SliceSource,
    Truncation,
};
pub use strict::next_strict;
pub use writer::LogWriter;

/// Bytes of a block. The last block of a log may be shorter.
pub const BLOCK_BYTES: usize = 32768;
/// Bytes of the header of types that are not recyclable.
pub const HEADER_BYTES: usize = 7;
/// Bytes of the header of recyclable types, which has the log number.
pub const RECYCLABLE_HEADER_BYTES: usize = 11;

/// The type of a physical record. Codes are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordType {
    /// Reserved space that was never written.
    Zero = 0,
    /// A whole logical record.
    Full = 1,
    /// The first fragment of a logical record.
    First = 2,
    /// A fragment that is neither first nor last.
    Middle = 3,
    /// The last fragment.
    Last = 4,
    /// `Full` with a log number. For recycled files: old records may lie behind the new ones.
    RecyclableFull = 5,
    /// `First` with a log number.
    RecyclableFirst = 6,
    /// `Middle` with a log number.
    RecyclableMiddle = 7,
    /// `Last` with a log number.
    RecyclableLast = 8,
    /// The logical records of this log are compressed.
    SetCompression = 9,
    /// Ids of families, and the sizes of their user-defined timestamps.
    UserDefinedTimestampSize = 10,
    /// `UserDefinedTimestampSize` with a log number.
    RecyclableUserDefinedTimestampSize = 11,
    /// Number, size and last sequence number of the WAL before this one.
    PredecessorWalInfo = 130,
    /// `PredecessorWalInfo` with a log number.
    RecyclablePredecessorWalInfo = 131,
}

impl RecordType {
    /// Readers skip an unknown type that has this bit. Any other unknown type is damage.
    pub const SAFE_TO_IGNORE: u8 = 0x80;

    /// The type with this code.
    #[inline]
    pub const fn from_u8(code: u8) -> Option<RecordType> {
        Some(match code {
            0 => RecordType::Zero,
            1 => RecordType::Full,
            2 => RecordType::First,
            3 => RecordType::Middle,
            4 => RecordType::Last,
            5 => RecordType::RecyclableFull,
            6 => RecordType::RecyclableFirst,
            7 => RecordType::RecyclableMiddle,
            8 => RecordType::RecyclableLast,
            9 => RecordType::SetCompression,
            10 => RecordType::UserDefinedTimestampSize,
            11 => RecordType::RecyclableUserDefinedTimestampSize,
            130 => RecordType::PredecessorWalInfo,
            131 => RecordType::RecyclablePredecessorWalInfo,
            _ => return None,
        })
    }

    /// Whether the header has a log number.
    #[inline]
    pub const fn is_recyclable(self) -> bool {
        matches!(
            self,
            RecordType::RecyclableFull
                | RecordType::RecyclableFirst
                | RecordType::RecyclableMiddle
                | RecordType::RecyclableLast
                | RecordType::RecyclableUserDefinedTimestampSize
                | RecordType::RecyclablePredecessorWalInfo
        )
    }
}

/// The part of a log number that records carry: its low 32 bits.
pub(crate) const fn stored_log_number(log_number: u64) -> u32 {
    let [a, b, c, d, ..] = log_number.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
