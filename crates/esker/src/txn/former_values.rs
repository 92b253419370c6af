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
use crate::write::order_of;
use esker_base::comparator::ComparatorRef;
use esker_base::{ColumnFamilyId, PinnedBytes, Result, ValueType};
use esker_format::wide_column::EncodedColumns;
use esker_format::write_batch::{BatchOp, WriteBatch};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The keys that a transaction wrote, and what it wrote to them.
pub(super) type WrittenKeys = BTreeMap<WrittenKey, KeyWrites>;

/// A key of a family, in the family's order: keys of other bytes may be equal to it.
#[derive(Clone, Debug)]
pub(super) struct WrittenKey {
    family: ColumnFamilyId,
    key: Vec<u8>,
    /// `None`: the order is a built-in one, so equal keys have equal bytes.
    order: Option<ComparatorRef>,
}

impl Ord for WrittenKey {
    fn cmp(&self, other: &WrittenKey) -> Ordering {
        self.family.cmp(&other.family).then_with(|| match (&self.order, &other.order) {
            (Some(order), Some(_)) => order.compare(&self.key, &other.key),
            (None, None) => self.key.cmp(&other.key),
            // The family was dropped between the two.
            (one, another) => one.is_some().cmp(&another.is_some()),
        })
    }
}

impl PartialOrd for WrittenKey {
    fn partial_cmp(&self, other: &WrittenKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WrittenKey {
    fn eq(&self, other: &WrittenKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for WrittenKey {}

/// The ops of a batch without range deletions, each with its key.
pub(super) fn ops_by_key<'a>(
    db: &'a Db,
    batch: &'a WriteBatch,
) -> impl Iterator<Item = (WrittenKey, BatchOp<'a>)> + 'a {
    batch.iter().filter_map(|op| {
        let (family, is_range, key) = key_of(&op)?;
        debug_assert!(!is_range, "a transaction in memtables deletes no range");
        let order = order_of(db.engine(), family).map(|icmp| icmp.user_comparator().clone());
        Some((WrittenKey { family, key, order }, op))
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
    for (WrittenKey { family: id, key, .. }, writes) in keys {
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
