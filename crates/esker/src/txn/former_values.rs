//! The values that keys had before a transaction wrote them to memtables.
//!
//! In: keys that the transaction wrote and has locked, so that their values stay. Out: a batch that
//! gives each key its former value again, or deletes it. A rollback writes the values that others
//! see; a rollback to a save point, those that the transaction saw there.
//!
//! Cost: one read for each key.

use super::batch_index::WriteBatchWithIndex;
use crate::db::{ColumnFamilyHandle, Db, simplify_entity};
use crate::get::answer::Answer;
use crate::get::point::PointRead;
use crate::options::ReadOptions;
use crate::snapshot::OwnNumbers;
use crate::wal::key_of;
use esker_base::{ColumnFamilyId, PinnedBytes, Result, ValueType};
use esker_format::wide_column::EncodedColumns;
use esker_format::write_batch::WriteBatch;
use std::collections::BTreeSet;

/// The keys that a transaction wrote.
pub(super) type WrittenKeys = BTreeSet<(ColumnFamilyId, Vec<u8>)>;

/// The keys of a batch without range deletions.
pub(super) fn keys_of(batch: &WriteBatch) -> impl Iterator<Item = (ColumnFamilyId, Vec<u8>)> + '_ {
    batch.iter().filter_map(|op| key_of(&op)).map(|(id, is_range, key)| {
        debug_assert!(!is_range, "a transaction in memtables deletes no range");
        (id, key)
    })
}

/// The ops that give every key its former value again. `own`: the transaction's writes that count
/// for it. Families that were dropped are left out.
/// # Errors
/// `Corruption` and `IoError` of the files · `InvalidArgument`: merge operands without an operator.
pub(super) fn former_values(db: &Db, keys: &WrittenKeys, own: Option<OwnNumbers>) -> Result<WriteBatch> {
    let mut former = WriteBatch::new();
    let own = WriteBatchWithIndex::over_spilled(own.filter(|own| !own.is_empty()));
    for (id, key) in keys {
        let Some(cf) = db.engine().families.by_id(*id) else { continue };
        match former_value(db, &ColumnFamilyHandle { cf }, &own, key)? {
            None => former.delete_cf(*id, key)?,
            Some((ValueType::Value, value)) => former.put_cf(*id, key, &value)?,
            Some((_, entity)) => {
                let columns: Vec<_> = EncodedColumns::parse(&entity)?.iter().collect();
                former.put_entity_cf(*id, key, &columns)?;
            }
        }
    }
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
