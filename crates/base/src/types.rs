//! Types of numbers (sequence numbers, file numbers, family ids), and the kinds of internal keys.
//!
//! Source: RocksDB `db/dbformat.h`; the codes are on disk and never change.

use std::fmt;

/// The place of a write in the order of all writes of the database: 56 bits. 0 is older than all
/// writes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The oldest sequence number.
    pub const ZERO: SequenceNumber = SequenceNumber(0);
    /// The largest sequence number. A read at this number sees all writes.
    pub const MAX: SequenceNumber = SequenceNumber((1 << 56) - 1);
}

/// The number in a file's name. All kinds of files of a database share one counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FileNumber(pub u64);

/// Id of a column family; 0 is "default". Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ColumnFamilyId(pub u32);

impl ColumnFamilyId {
    /// The family that every database has.
    pub const DEFAULT: ColumnFamilyId = ColumnFamilyId(0);
}

macro_rules! display_inner {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
display_inner!(SequenceNumber, FileNumber, ColumnFamilyId);

/// The kind of an internal key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ValueType {
    /// The key is deleted.
    Deletion = 0x00,
    /// A plain value.
    Value = 0x01,
    /// An operand for the merge operator.
    Merge = 0x02,
    /// The key is deleted. It was put exactly once since its last deletion.
    SingleDeletion = 0x07,
    /// All keys from this one up to, not including, the key in the value are deleted.
    RangeDeletion = 0x0F,
    /// The value lies in a blob file.
    BlobIndex = 0x11,
    /// A deletion in a family with user-defined timestamps.
    DeletionWithTimestamp = 0x14,
    /// The value is a set of named columns.
    WideColumnEntity = 0x16,
    /// A value of `TimedPut`. Its last 8 bytes are the preferred write time in a WAL or memtable,
    /// and the preferred sequence number in a table.
    ValuePreferredSeqno = 0x18,
}

impl ValueType {
    /// The type in seek keys: the largest one. A seek key is then the first of all keys with its
    /// user key and sequence number.
    pub const SEEK: ValueType = ValueType::ValuePreferredSeqno;

    /// The type in shortened separators of an index: the largest that both RocksDB 7.8 and 11 know.
    pub const SEPARATOR: ValueType = ValueType::WideColumnEntity;

    /// The type with this code. `None` if no internal key has it.
    #[inline]
    pub const fn from_u8(code: u8) -> Option<ValueType> {
        Some(match code {
            0x00 => ValueType::Deletion,
            0x01 => ValueType::Value,
            0x02 => ValueType::Merge,
            0x07 => ValueType::SingleDeletion,
            0x0F => ValueType::RangeDeletion,
            0x11 => ValueType::BlobIndex,
            0x14 => ValueType::DeletionWithTimestamp,
            0x16 => ValueType::WideColumnEntity,
            0x18 => ValueType::ValuePreferredSeqno,
            _ => return None,
        })
    }

    /// Whether an entry of this type deletes exactly one key.
    #[inline]
    pub const fn is_point_deletion(self) -> bool {
        matches!(self, ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp)
    }
}
