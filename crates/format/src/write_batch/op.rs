//! The operations of a write batch, one by one.

use super::timed::TimedValue;
use esker_base::coding::{Decoder, put_length_prefixed};
use esker_base::{ColumnFamilyId, Error, Result};

/// Tags on disk. Tags that internal keys have too share their codes (`esker_base::ValueType`); the
/// others occur in WALs only.
pub(super) mod tag {
    pub(crate) const DELETE: u8 = 0x00;
    pub(crate) const PUT: u8 = 0x01;
    pub(crate) const MERGE: u8 = 0x02;
    pub(crate) const LOG_DATA: u8 = 0x03;
    pub(crate) const CF_DELETE: u8 = 0x04;
    pub(crate) const CF_PUT: u8 = 0x05;
    pub(crate) const CF_MERGE: u8 = 0x06;
    pub(crate) const SINGLE_DELETE: u8 = 0x07;
    pub(crate) const CF_SINGLE_DELETE: u8 = 0x08;
    pub(crate) const BEGIN_PREPARE: u8 = 0x09;
    pub(crate) const END_PREPARE: u8 = 0x0A;
    pub(crate) const COMMIT: u8 = 0x0B;
    pub(crate) const ROLLBACK: u8 = 0x0C;
    pub(crate) const NOOP: u8 = 0x0D;
    pub(crate) const CF_DELETE_RANGE: u8 = 0x0E;
    pub(crate) const DELETE_RANGE: u8 = 0x0F;
    pub(crate) const CF_BLOB_INDEX: u8 = 0x10;
    pub(crate) const BLOB_INDEX: u8 = 0x11;
    pub(crate) const BEGIN_PERSISTED_PREPARE: u8 = 0x12;
    pub(crate) const BEGIN_UNPREPARE: u8 = 0x13;
    pub(crate) const COMMIT_WITH_TIMESTAMP: u8 = 0x15;
    pub(crate) const PUT_ENTITY: u8 = 0x16;
    pub(crate) const CF_PUT_ENTITY: u8 = 0x17;
    pub(crate) const TIMED_PUT: u8 = 0x18;
    pub(crate) const CF_TIMED_PUT: u8 = 0x19;

    /// The variant of `short` that a family id follows.
    #[inline]
    pub(crate) const fn with_family(short: u8) -> u8 {
        match short {
            DELETE => CF_DELETE,
            PUT => CF_PUT,
            MERGE => CF_MERGE,
            SINGLE_DELETE => CF_SINGLE_DELETE,
            DELETE_RANGE => CF_DELETE_RANGE,
            BLOB_INDEX => CF_BLOB_INDEX,
            PUT_ENTITY => CF_PUT_ENTITY,
            TIMED_PUT => CF_TIMED_PUT,
            other => other,
        }
    }
}

/// The write policy of a prepared section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrepareKind {
    /// Write-committed: the section's ops wait for their commit.
    Committed,
    /// Write-prepared: the section's ops are already in the database.
    Persisted,
    /// Write-unprepared: the section is a part of a transaction, already in the database.
    Unprepared,
}

/// One operation. With user-defined timestamps, keys end with their timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchOp<'a> {
    /// `key` becomes `value`.
    Put {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// `key` is removed.
    Delete {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
    },
    /// `key`, which was put once, is removed.
    SingleDelete {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
    },
    /// An operand for the merge operator.
    Merge {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// Keys from `begin` to `end`, exclusive, are removed.
    DeleteRange {
        /// The family.
        family: ColumnFamilyId,
        /// First key of the range.
        begin: &'a [u8],
        /// First key behind the range.
        end: &'a [u8],
    },
    /// The value of `key` lies in a blob file.
    BlobIndex {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
        /// The blob index.
        index: &'a [u8],
    },
    /// `key` becomes a set of columns.
    PutEntity {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
        /// The encoded columns.
        entity: &'a [u8],
    },
    /// `key` becomes the value, as if written at its time.
    TimedPut {
        /// The family.
        family: ColumnFamilyId,
        /// The key.
        key: &'a [u8],
        /// The value and its time.
        value: TimedValue<'a>,
    },
    /// Bytes for readers of the WAL; nothing is applied.
    LogData(&'a [u8]),
    /// The ops up to `EndPrepare` wait for their commit.
    BeginPrepare(PrepareKind),
    /// Ends the section of the prepared transaction `xid`.
    EndPrepare {
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Applies the prepared transaction.
    Commit {
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Applies the prepared transaction with this commit timestamp.
    CommitWithTimestamp {
        /// The commit timestamp.
        timestamp: &'a [u8],
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Discards the prepared transaction.
    Rollback {
        /// Name of the transaction.
        xid: &'a [u8],
    },
    /// Does nothing. A transaction overwrites it with `BeginPrepare`.
    Noop,
}

impl BatchOp<'_> {
    /// Whether the op takes a sequence number and counts in the batch header.
    pub fn is_counted(&self) -> bool {
        self.family().is_some()
    }

    /// The family that the op writes to, if it writes.
    pub fn family(&self) -> Option<ColumnFamilyId> {
        match *self {
            BatchOp::Put { family, .. }
            | BatchOp::Delete { family, .. }
            | BatchOp::SingleDelete { family, .. }
            | BatchOp::Merge { family, .. }
            | BatchOp::DeleteRange { family, .. }
            | BatchOp::BlobIndex { family, .. }
            | BatchOp::PutEntity { family, .. }
            | BatchOp::TimedPut { family, .. } => Some(family),
            _ => None,
        }
    }

    /// Bytes of key and value that the op adds to a memtable; zero if it adds none.
    pub(super) fn entry_bytes(&self) -> (usize, usize) {
        match *self {
            BatchOp::Put { key, value, .. }
            | BatchOp::Merge { key, operand: value, .. }
            | BatchOp::DeleteRange { begin: key, end: value, .. }
            | BatchOp::BlobIndex { key, index: value, .. }
            | BatchOp::PutEntity { key, entity: value, .. } => (key.len(), value.len()),
            BatchOp::TimedPut { key, value, .. } => (key.len(), value.packed().len()),
            BatchOp::Delete { key, .. } | BatchOp::SingleDelete { key, .. } => (key.len(), 0),
            _ => (0, 0),
        }
    }
}

/// Iterates over the ops of checked bytes; allocates nothing.
#[derive(Clone, Debug)]
pub struct Ops<'a> {
    decoder: Decoder<'a>,
}

impl<'a> Ops<'a> {
    #[inline]
    pub(super) fn new(checked: &'a [u8]) -> Ops<'a> {
        Ops { decoder: Decoder::new(checked) }
    }

    /// Bytes of the ops that are left.
    #[doc(hidden)]
    #[inline]
    pub fn bytes_left(&self) -> usize {
        self.decoder.rest().len()
    }
}

impl<'a> Iterator for Ops<'a> {
    type Item = BatchOp<'a>;

    #[inline]
    fn next(&mut self) -> Option<BatchOp<'a>> {
        if self.decoder.is_empty() {
            return None;
        }
        Some(decode_op(&mut self.decoder).expect("the batch was checked when it was made").op)
    }
}

pub(super) struct Decoded<'a> {
    pub(super) op: BatchOp<'a>,
    pub(super) is_counted: bool,
}

#[inline]
pub(super) fn decode_op<'a>(d: &mut Decoder<'a>) -> Result<Decoded<'a>> {
    let code = d.u8()?;
    let family = match code {
        tag::CF_DELETE
        | tag::CF_PUT
        | tag::CF_MERGE
        | tag::CF_SINGLE_DELETE
        | tag::CF_DELETE_RANGE
        | tag::CF_BLOB_INDEX
        | tag::CF_PUT_ENTITY
        | tag::CF_TIMED_PUT => ColumnFamilyId(d.varint32()?),
        _ => ColumnFamilyId::DEFAULT,
    };
    let op = match code {
        tag::PUT | tag::CF_PUT => {
            BatchOp::Put { family, key: d.length_prefixed()?, value: d.length_prefixed()? }
        }
        tag::DELETE | tag::CF_DELETE => BatchOp::Delete { family, key: d.length_prefixed()? },
        tag::SINGLE_DELETE | tag::CF_SINGLE_DELETE => {
            BatchOp::SingleDelete { family, key: d.length_prefixed()? }
        }
        tag::MERGE | tag::CF_MERGE => {
            BatchOp::Merge { family, key: d.length_prefixed()?, operand: d.length_prefixed()? }
        }
        tag::DELETE_RANGE | tag::CF_DELETE_RANGE => {
            BatchOp::DeleteRange { family, begin: d.length_prefixed()?, end: d.length_prefixed()? }
        }
        tag::BLOB_INDEX | tag::CF_BLOB_INDEX => {
            BatchOp::BlobIndex { family, key: d.length_prefixed()?, index: d.length_prefixed()? }
        }
        tag::PUT_ENTITY | tag::CF_PUT_ENTITY => {
            BatchOp::PutEntity { family, key: d.length_prefixed()?, entity: d.length_prefixed()? }
        }
        tag::TIMED_PUT | tag::CF_TIMED_PUT => {
            let key = d.length_prefixed()?;
            BatchOp::TimedPut { family, key, value: TimedValue::parse(d.length_prefixed()?)? }
        }
        _ => return Ok(Decoded { op: decode_uncounted(code, d)?, is_counted: false }),
    };
    Ok(Decoded { op, is_counted: true })
}

fn decode_uncounted<'a>(code: u8, d: &mut Decoder<'a>) -> Result<BatchOp<'a>> {
    Ok(match code {
        tag::LOG_DATA => BatchOp::LogData(d.length_prefixed()?),
        tag::BEGIN_PREPARE => BatchOp::BeginPrepare(PrepareKind::Committed),
        tag::BEGIN_PERSISTED_PREPARE => BatchOp::BeginPrepare(PrepareKind::Persisted),
        tag::BEGIN_UNPREPARE => BatchOp::BeginPrepare(PrepareKind::Unprepared),
        tag::END_PREPARE => BatchOp::EndPrepare { xid: d.length_prefixed()? },
        tag::COMMIT => BatchOp::Commit { xid: d.length_prefixed()? },
        tag::COMMIT_WITH_TIMESTAMP => {
            BatchOp::CommitWithTimestamp { timestamp: d.length_prefixed()?, xid: d.length_prefixed()? }
        }
        tag::ROLLBACK => BatchOp::Rollback { xid: d.length_prefixed()? },
        tag::NOOP => BatchOp::Noop,
        unknown => return Err(Error::corruption(format!("unknown write batch tag {unknown}"))),
    })
}

pub(super) fn encode_marker(op: BatchOp<'_>, rep: &mut Vec<u8>) -> Result<()> {
    let (code, slices): (u8, [Option<&[u8]>; 2]) = match op {
        BatchOp::BeginPrepare(PrepareKind::Committed) => (tag::BEGIN_PREPARE, [None, None]),
        BatchOp::BeginPrepare(PrepareKind::Persisted) => (tag::BEGIN_PERSISTED_PREPARE, [None, None]),
        BatchOp::BeginPrepare(PrepareKind::Unprepared) => (tag::BEGIN_UNPREPARE, [None, None]),
        BatchOp::EndPrepare { xid } => (tag::END_PREPARE, [Some(xid), None]),
        BatchOp::Commit { xid } => (tag::COMMIT, [Some(xid), None]),
        BatchOp::CommitWithTimestamp { timestamp, xid } => {
            (tag::COMMIT_WITH_TIMESTAMP, [Some(timestamp), Some(xid)])
        }
        BatchOp::Rollback { xid } => (tag::ROLLBACK, [Some(xid), None]),
        BatchOp::Noop => (tag::NOOP, [None, None]),
        _ => return Err(Error::invalid_argument("not a transaction marker")),
    };
    rep.push(code);
    for slice in slices.into_iter().flatten() {
        put_length_prefixed(rep, super::check_length("transaction name", slice)?);
    }
    Ok(())
}
