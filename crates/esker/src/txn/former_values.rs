//! The values that keys had before a transaction wrote them to memtables.
//!
//! In: keys that the transaction wrote and has locked, so that their values stay. Out: a batch that
//! gives each key its former value again, or deletes it. [`KeyWrites`] says which keys get a single
//! deletion below that. A rollback writes the values that others see; a rollback to a save point,
//! those that the transaction saw there.
//!
//! Cost: one read for each key.

use super::batch_index::WriteBatchWithIndex;
use crate::db::{ColumnFamilyHandle, Db, simplify_entity};
use crate::get::answer::Answer;
use crate::get::point::PointRead;
use crate::options::ReadOptions;
use crate::snapshot::OwnNumbers;
use crate::wal::{KeyWrites, key_of};
use esker_base::{ColumnFamilyId, PinnedBytes, Result, ValueType};
use esker_format::wide_column::EncodedColumns;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::collections::BTreeMap;

/// The keys that a transaction wrote, and what it wrote to them.
pub(super) type WrittenKeys = BTreeMap<(ColumnFamilyId, Vec<u8>), KeyWrites>;

/// The ops of a batch without range deletions, each with its key.
pub(super) fn ops_by_key(
    batch: &WriteBatch,
) -> impl Iterator<Item = ((ColumnFamilyId, Vec<u8>), BatchOp<'_>)> + '_ {
    batch.iter().filter_map(|op| {
        let (id, is_range, key) = key_of(&op)?;
        debug_assert!(!is_range, "a transaction in memtables deletes no range");
        Some(((id, key), op))
    })
}

/// The ops that give every key its former value again. `own`: the transaction's writes that count
/// for it. Families that were dropped are left out.
/// # Errors
/// `Corruption` and `IoError` of the files · `InvalidArgument`: merge operands without an operator.
pub(super) fn former_values(db: &Db, keys: &WrittenKeys, own: Option<OwnNumbers>) -> Result<WriteBatch> {
    // Single deletions come first: a batch numbers its second op on a key higher than its first.
    let (mut former, mut values) = (WriteBatch::new(), WriteBatch::new());
    let own = WriteBatchWithIndex::over_spilled(own.filter(|own| !own.is_empty()));
    for ((id, key), writes) in keys {
        let Some(cf) = db.engine().families.by_id(*id) else { continue };
        let value = former_value(db, &ColumnFamilyHandle { cf }, &own, key)?;
        if writes.need_single_deletion(value.is_some()) {
            former.single_delete_cf(*id, key)?;
        }
        match value {
            None => values.delete_cf(*id, key)?,
            Some((ValueType::Value, value)) => values.put_cf(*id, key, &value)?,
            Some((_, entity)) => {
                let columns: Vec<_> = EncodedColumns::parse(&entity)?.iter().collect();
                values.put_entity_cf(*id, key, &columns)?;
            }
        }
    }
    former.append(&values)?;
    Ok(former)
}

/// A plain value or an entity, with its type; `None`: the key has no value.
fn former_value(
    db: &Db,
    family: &ColumnFamilyHandle,
    own: &WriteBatchWithIndex,
    key: &[u8],
) -> Result<Option<(ValueType, PinnedBytes)>> {
    let (options, own) = (ReadOptions::default(), own.own_of(family)?);
    let read =
        PointRead { options: &options, cf: &family.cf, own: own.as_ref(), statistics: None, entities: true };
    let mut found = Ok(None);
    db.inner.find(&read, key, &mut |answer| {
        found = match answer {
            Answer::Lent(value) => Ok(Some((ValueType::Value, value.pin()))),
            Answer::Made(made) => made.and_then(|entity| entity.map(simplify_entity).transpose()),
        };
    })?;
    found
}
