//! Protected batches: each op has a checksum from when it is put in until it is in a memtable.
//!
//! In: ops as callers give them. Out: whether the bytes of the batch still say the same.
//! Source: RocksDB's `WriteBatch::ProtectionInfo`, `WriteOptions::protection_bytes_per_key`.
//!
//! Invariants
//!  1. The checksum of an op is that of the memtable entry it becomes, with its family: of a timed
//!     put without the time.
//!  2. The bytes of a batch that failed a comparison are not walked as checked ones.

use super::op::{BatchOp, tag};
use super::{WriteBatch, WriteBatchView};
use esker_base::entry_checksum::EntryChecksum;
use esker_base::{ColumnFamilyId, Error, Result, ValueType, probe};

/// Bytes of the checksum of each op, in a batch that has checksums.
pub const BATCH_PROTECTION_BYTES: usize = 8;

impl WriteBatch {
    /// An empty batch with a checksum of this many bytes for each op: 0 (none) or 8.
    /// # Errors
    /// `InvalidArgument` for another number.
    pub fn with_protection(bytes_per_key: usize) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        batch.protect(bytes_per_key)?;
        Ok(batch)
    }

    /// Protects the batch from now on, its ops as they are now; with 0, no longer. Says nothing new
    /// of a protected one.
    /// # Errors
    /// `InvalidArgument` if `bytes_per_key` is neither 0 nor 8.
    pub fn protect(&mut self, bytes_per_key: usize) -> Result<()> {
        match bytes_per_key {
            0 => self.checksums = None,
            BATCH_PROTECTION_BYTES if self.is_protected() => {}
            BATCH_PROTECTION_BYTES => self.checksums = Some(self.checksums_now()),
            other => {
                return Err(Error::invalid_argument(format!(
                    "protection_bytes_per_key must be zero or eight, not {other}"
                )));
            }
        }
        Ok(())
    }

    /// Takes the ops of a protected batch as they are now, after a change to their bytes.
    pub(super) fn protect_again(&mut self) {
        if self.is_protected() {
            self.checksums = Some(self.checksums_now());
        }
    }

    fn checksums_now(&self) -> Vec<EntryChecksum> {
        self.iter().filter_map(|op| checksum(&op)).collect()
    }

    /// Whether its ops have checksums.
    #[inline]
    pub fn is_protected(&self) -> bool {
        self.checksums.is_some()
    }

    /// Compares all ops with their checksums, if there are any.
    /// # Errors
    /// `Corruption` if an op is not what was put in.
    pub fn verify_checksum(&self) -> Result<()> {
        self.checked_ops(&mut |_, _| Ok(()))
    }

    /// Calls `each` for all counted ops of a protected batch, with their checksums without the
    /// family; nothing if it is not protected.
    /// # Errors
    /// `Corruption`: an operation is not what its checksum says · the error of `each`.
    #[doc(hidden)]
    pub fn checked_ops(&self, each: &mut dyn FnMut(&BatchOp<'_>, EntryChecksum) -> Result<()>) -> Result<()> {
        let Some(checksums) = &self.checksums else { return Ok(()) };
        // Invariant 2 of `WriteBatch` is what is in question.
        let view = WriteBatchView::parse(self.data())?;
        if view.count() as usize != checksums.len() {
            return Err(mismatch());
        }
        let counted = view.iter().filter_map(|op| Some((op, op.family()?, checksum(&op)?)));
        for ((op, family, found), &(mut expected)) in counted.zip(checksums) {
            probe!("WriteBatch::checked_ops", &mut expected);
            if found != expected {
                return Err(mismatch());
            }
            each(&op, expected.with_family(family))?;
        }
        Ok(())
    }

    /// Records the checksum of an op that was just added.
    #[cold]
    pub(super) fn protect_op(&mut self, short_tag: u8, family: ColumnFamilyId, key: &[u8], value: &[u8]) {
        if let (Some(checksums), Some(kind)) = (&mut self.checksums, kind_of(short_tag)) {
            checksums.push(EntryChecksum::of(kind, key, value).with_family(family));
        }
    }

    /// Records the checksums of ops that were copied from `other`: the stored checksums or, without
    /// these, new ones.
    #[inline]
    pub(super) fn protect_appended(&mut self, other: &WriteBatch) {
        if let Some(checksums) = &mut self.checksums {
            match &other.checksums {
                Some(taken) => checksums.extend_from_slice(taken),
                None => checksums.extend(other.iter().filter_map(|op| checksum(&op))),
            }
        }
    }
}

/// The kind of memtable entry that the tag of a counted op makes.
fn kind_of(short_tag: u8) -> Option<ValueType> {
    Some(match short_tag {
        tag::PUT => ValueType::Value,
        tag::TIMED_PUT => ValueType::ValuePreferredSeqno,
        tag::DELETE => ValueType::Deletion,
        tag::SINGLE_DELETE => ValueType::SingleDeletion,
        tag::MERGE => ValueType::Merge,
        tag::DELETE_RANGE => ValueType::RangeDeletion,
        tag::BLOB_INDEX => ValueType::BlobIndex,
        tag::PUT_ENTITY => ValueType::WideColumnEntity,
        _ => return None,
    })
}

/// The checksum of a counted op; `None` for other ops.
fn checksum(op: &BatchOp<'_>) -> Option<EntryChecksum> {
    let (kind, key, value) = match *op {
        BatchOp::Put { key, value, .. } => (ValueType::Value, key, value),
        BatchOp::TimedPut { key, value, .. } => (ValueType::ValuePreferredSeqno, key, value.packed()),
        BatchOp::Delete { key, .. } => (ValueType::Deletion, key, &[][..]),
        BatchOp::SingleDelete { key, .. } => (ValueType::SingleDeletion, key, &[][..]),
        BatchOp::Merge { key, operand, .. } => (ValueType::Merge, key, operand),
        BatchOp::DeleteRange { begin, end, .. } => (ValueType::RangeDeletion, begin, end),
        BatchOp::BlobIndex { key, index, .. } => (ValueType::BlobIndex, key, index),
        BatchOp::PutEntity { key, entity, .. } => (ValueType::WideColumnEntity, key, entity),
        _ => return None,
    };
    Some(EntryChecksum::of(kind, key, value).with_family(op.family()?))
}

#[cold]
fn mismatch() -> Error {
    Error::corruption("write batch per key-value checksum verification failed")
}

#[cfg(test)]
mod tests;
