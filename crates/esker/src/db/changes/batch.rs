//! The batches of a change stream, and their operations with families by name.

use super::ChangePosition;
use crate::engine::Engine;
use esker_base::sync::Arc;
use esker_base::{ColumnFamilyId, Result, SequenceNumber};
use esker_format::wide_column::EncodedColumns;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::collections::BTreeMap;
use std::fmt;

/// A family of an operation, at the time when the batch was read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChangeFamily {
    /// The id. A database never uses an id again.
    pub id: ColumnFamilyId,
    /// The name. `None` if the family was dropped before this reader met it.
    pub name: Option<Arc<str>>,
    /// The database has this family no more. A database that is open for reading only says so of
    /// families that it did not open, too.
    pub is_dropped: bool,
    /// Bytes of the timestamp at the end of each key; 0 without.
    timestamp_bytes: usize,
}

/// Families by id, as a stream has met them.
#[derive(Debug, Default)]
pub(super) struct FamiliesSeen(BTreeMap<ColumnFamilyId, Arc<ChangeFamily>>);

impl FamiliesSeen {
    /// The batch with its families, read at `position`. Cost: one step an operation, and a lookup
    /// for each family.
    /// # Errors
    /// `Corruption` if an entity cannot be decoded.
    pub(super) fn batch(
        &mut self,
        engine: &Engine,
        first: SequenceNumber,
        batch: WriteBatch,
        position: ChangePosition,
    ) -> Result<ChangeBatch> {
        let mut families: Vec<Arc<ChangeFamily>> = Vec::new();
        for op in batch.iter() {
            if let BatchOp::PutEntity { entity, .. } = op {
                EncodedColumns::parse(entity)?;
            }
            let Some(id) = family_of(&op) else { continue };
            if !families.iter().any(|family| family.id == id) {
                families.push(self.family(engine, id));
            }
        }
        let behind = SequenceNumber(first.0.saturating_add(u64::from(batch.count())));
        // Log data has no number: numbers before it may still be missing.
        let next = if batch.count() == 0 { position } else { ChangePosition::from(behind) };
        Ok(ChangeBatch { first, next, batch, families })
    }

    fn family(&mut self, engine: &Engine, id: ColumnFamilyId) -> Arc<ChangeFamily> {
        let known = self.0.get(&id);
        let is_live = engine.families.with(id, |cf| !cf.is_dropped()).unwrap_or(false);
        if let Some(known) = known.filter(|known| known.is_dropped != is_live) {
            return known.clone();
        }
        let found = match (engine.families.by_id(id).filter(|_| is_live), known) {
            (Some(cf), _) => ChangeFamily {
                id,
                name: Some(cf.name.as_str().into()),
                is_dropped: false,
                timestamp_bytes: cf.icmp.timestamp_size(),
            },
            (None, Some(known)) => ChangeFamily { is_dropped: true, ..ChangeFamily::clone(known) },
            (None, None) => ChangeFamily { id, name: None, is_dropped: true, timestamp_bytes: 0 },
        };
        let found = Arc::new(found);
        self.0.insert(id, found.clone());
        found
    }
}

/// The family of an operation on data.
fn family_of(op: &BatchOp<'_>) -> Option<ColumnFamilyId> {
    match *op {
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

/// A unit of the change stream: operations that took effect together.
#[derive(Clone)]
pub struct ChangeBatch {
    first: SequenceNumber,
    next: ChangePosition,
    batch: WriteBatch,
    families: Vec<Arc<ChangeFamily>>,
}

impl ChangeBatch {
    /// The sequence number of the first operation. It is below the requested one only in the first
    /// batch of a stream, if the requested number lies within that batch.
    pub fn first_sequence(&self) -> SequenceNumber {
        self.first
    }

    /// The place behind this batch. A follower stores it together with the operations. Log data
    /// alone does not move it.
    pub fn next_position(&self) -> ChangePosition {
        self.next
    }

    /// The number of operations that have a sequence number: all but log data.
    pub fn len(&self) -> usize {
        self.batch.count() as usize
    }

    /// Whether the batch has log data only.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The families of the operations, in the order of their first operation.
    pub fn families(&self) -> impl Iterator<Item = &ChangeFamily> {
        self.families.iter().map(Arc::as_ref)
    }

    /// The operations, in order.
    pub fn iter(&self) -> impl Iterator<Item = ChangeItem<'_>> {
        let mut next = self.first.0;
        self.batch.iter().filter_map(move |op| {
            let family = family_of(&op).and_then(|id| self.families().find(|family| family.id == id));
            let sequence = family.map(|_| {
                next += 1;
                SequenceNumber(next - 1)
            });
            change(op, family).map(|(timestamp, op)| ChangeItem { sequence, family, timestamp, op })
        })
    }

    /// The operations as they lie in the WAL. Keys end with their timestamps.
    pub fn write_batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// The operations as a batch of their own.
    pub fn into_write_batch(self) -> WriteBatch {
        self.batch
    }
}

impl fmt::Debug for ChangeBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeBatch")
            .field("first", &self.first)
            .field("changes", &self.iter().collect::<Vec<_>>())
            .finish()
    }
}

/// One operation of a batch.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ChangeItem<'a> {
    /// The operation's sequence number; `None` for log data.
    pub sequence: Option<SequenceNumber>,
    /// The family; `None` for log data.
    pub family: Option<&'a ChangeFamily>,
    /// The user-defined timestamp, in families whose keys have one. Unknown in a family that was
    /// dropped before the reader met it: its keys end with the timestamp.
    pub timestamp: Option<&'a [u8]>,
    /// The operation.
    pub op: ChangeOp<'a>,
}

/// An operation of the change stream. Keys have no timestamps.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ChangeOp<'a> {
    /// `key` becomes `value`. Values that tables keep in blob files are here in full.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// `key` is removed.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// `key`, which was put once, is removed.
    SingleDelete {
        /// The key.
        key: &'a [u8],
    },
    /// An operand for the family's merge operator.
    Merge {
        /// The key.
        key: &'a [u8],
        /// The operand.
        operand: &'a [u8],
    },
    /// Keys from `begin` to `end`, exclusive, are removed.
    DeleteRange {
        /// First key of the range.
        begin: &'a [u8],
        /// First key behind the range.
        end: &'a [u8],
    },
    /// `key` becomes an entity.
    PutEntity {
        /// The key.
        key: &'a [u8],
        /// Names and values of columns, in the order of names.
        columns: Vec<(&'a [u8], &'a [u8])>,
    },
    /// `key` becomes `value`, as if written at a time.
    TimedPut {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Seconds since 1970.
        write_unix_time: u64,
    },
    /// The value of `key` lies in a blob file of this database, as the batch that was written said.
    BlobIndex {
        /// The key.
        key: &'a [u8],
        /// The encoded place.
        index: &'a [u8],
    },
    /// Bytes for readers of the WAL.
    LogData(&'a [u8]),
}

/// The timestamp and the operation; `None` for markers of transactions, which a stream resolves.
fn change<'a>(op: BatchOp<'a>, family: Option<&ChangeFamily>) -> Option<(Option<&'a [u8]>, ChangeOp<'a>)> {
    let size = family.map_or(0, |family| family.timestamp_bytes);
    let split = |key: &'a [u8]| match key.len().checked_sub(size).and_then(|at| key.split_at_checked(at)) {
        Some((key, timestamp)) if size > 0 => (key, Some(timestamp)),
        _ => (key, None),
    };
    let of = |key, make: &dyn Fn(&'a [u8]) -> ChangeOp<'a>| {
        let (key, timestamp) = split(key);
        Some((timestamp, make(key)))
    };
    match op {
        BatchOp::Put { key, value, .. } => of(key, &|key| ChangeOp::Put { key, value }),
        BatchOp::Delete { key, .. } => of(key, &|key| ChangeOp::Delete { key }),
        BatchOp::SingleDelete { key, .. } => of(key, &|key| ChangeOp::SingleDelete { key }),
        BatchOp::Merge { key, operand, .. } => of(key, &|key| ChangeOp::Merge { key, operand }),
        BatchOp::DeleteRange { begin, end, .. } => {
            of(begin, &|begin| ChangeOp::DeleteRange { begin, end: split(end).0 })
        }
        BatchOp::BlobIndex { key, index, .. } => of(key, &|key| ChangeOp::BlobIndex { key, index }),
        BatchOp::PutEntity { key, entity, .. } => {
            let columns = EncodedColumns::parse(entity).map_or_else(|_| Vec::new(), |c| c.iter().collect());
            of(key, &|key| ChangeOp::PutEntity { key, columns: columns.clone() })
        }
        BatchOp::TimedPut { key, value, .. } => of(key, &|key| ChangeOp::TimedPut {
            key,
            value: value.value(),
            write_unix_time: value.write_unix_time(),
        }),
        BatchOp::LogData(blob) => Some((None, ChangeOp::LogData(blob))),
        _ => None,
    }
}
