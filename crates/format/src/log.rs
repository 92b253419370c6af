//! Log records: the WAL and the MANIFEST, cut into 32 KiB blocks.
//!
//! In: whole (logical) records. Out: physical records, and back. Source: RocksDB `db/log_format.h`;
//! `db/log_reader.cc` for a reader's tolerance. Bytes: `fixtures/walrec_*`, page
//! `docs/format/log.md`.
//!
//! `crc u32 | size u16 | type u8 | [log number u32] | payload`
//!
//! Little-endian; `crc` is the masked CRC32C of everything behind `size`; records of recyclable
//! types have the log number.
//!
//! Invariants
//!  1. No physical record crosses a block. If the rest of a block is too short for a header (7
//!     bytes, or 11 with a recyclable writer), it is filled with zeros.
//!  2. A FIRST is followed by MIDDLEs and one LAST, in order, or the log ended there.
//!  3. If a record fails its checks, the rest of its block is dropped: its size cannot be
//!     trusted.
//!
//! [`LogWriter`] makes the bytes. [`LogReader`] classifies every part of a log ([`LogEvent`]), but
//! does not judge damage: [`crate::wal_recovery`] and [`next_strict`] decide what is tolerated. A
//! reader of a log that is still being written keeps a [`LogMark`] behind the last whole record.

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

/// Bytes in a block; the last one of a log may be shorter.
pub const BLOCK_BYTES: usize = 32768;
/// Header of types 1 to 4, 9, 10 and 130.
pub const HEADER_BYTES: usize = 7;
/// Header of the recyclable types, which name the log they belong to.
pub const RECYCLABLE_HEADER_BYTES: usize = 11;

/// The type of a physical record. Codes are on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordType {
    /// Space that was reserved and not written.
    Zero = 0,
    /// A whole logical record.
    Full = 1,
    /// The first fragment of a logical record.
    First = 2,
    /// A fragment that is neither first nor last.
    Middle = 3,
    /// The last fragment.
    Last = 4,
    /// As `Full`, in a file that held another log before.
    RecyclableFull = 5,
    /// As `First`.
    RecyclableFirst = 6,
    /// As `Middle`.
    RecyclableMiddle = 7,
    /// As `Last`.
    RecyclableLast = 8,
    /// The logical records of this log are compressed.
    SetCompression = 9,
    /// Families and the sizes of their user-defined timestamps.
    UserDefinedTimestampSize = 10,
    /// As `UserDefinedTimestampSize`.
    RecyclableUserDefinedTimestampSize = 11,
    /// Number, size and last sequence of the log before this one.
    PredecessorWalInfo = 130,
    /// As `PredecessorWalInfo`.
    RecyclablePredecessorWalInfo = 131,
}

impl RecordType {
    /// A reader may skip an unknown type with this bit, and no other unknown type.
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

    /// Whether the header carries the log number.
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
