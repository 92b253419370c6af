//! Counts of an indexed batch: by family, by key, of single deletions that later ops hide.
//!
//! An *entry* is a run of ops on one key: it begins with the first op, or with a merge, and later
//! ops that are no merges replace its op. Without `overwrite_key` each op is an entry.
//!
//! Source of the semantics: RocksDB `utilities/write_batch_with_index/write_batch_with_index.cc`.

use super::batch_index::{BatchEntry, WriteBatchWithIndex};
use crate::cf::OwnWrites;
use esker_base::{ColumnFamilyId, Result, ValueType};
use esker_format::cursor::InternalIterator;
use esker_format::key::{InternalKeyComparator, ParsedInternalKey};
use esker_format::write_batch::BatchOp;
use std::collections::{BTreeMap, BTreeSet};

/// The entries of a family in a batch: [`WriteBatchWithIndex::cf_stats`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchCfStat {
    /// Number of entries. With `overwrite_key`, ops on one key are one entry, and each merge behind
    /// the first op begins another one.
    pub entry_count: u32,
    /// Number of entries with a single deletion that a later op on the key hides. 0 without
    /// `overwrite_key`.
    pub overwritten_sd_count: u32,
}

/// An op, as an iterator over a batch shows it.
#[derive(Debug)]
pub(super) struct IndexedOp {
    pub(super) entry: BatchEntry,
    pub(super) update_count: u32,
    pub(super) has_overwritten_single_del: bool,
}

/// The ops on one key, newest first.
type OpsOfKey = Vec<BatchEntry>;

/// Calls `each` with the ops on each key, in the order of the keys.
fn for_each_key(own: &OwnWrites, icmp: &InternalKeyComparator, mut each: impl FnMut(OpsOfKey)) -> Result<()> {
    let mut ops = OpsOfKey::new();
    let mut iter = own.mem.iter();
    iter.seek_to_first();
    while iter.valid() {
        let key = ParsedInternalKey::parse(iter.key())?;
        if key.sequence <= own.up_to {
            if ops.first().is_some_and(|newest| !icmp.same_user_key(&newest.key, key.user_key)) {
                each(std::mem::take(&mut ops));
            }
            ops.push(BatchEntry {
                value_type: key.value_type,
                key: key.user_key.to_vec(),
                value: iter.value().to_vec(),
            });
        }
        iter.next();
    }
    if !ops.is_empty() {
        each(ops);
    }
    Ok(())
}

/// Whether the entry whose newest op is at `at` has a single deletion that a later op hides.
fn hides_single_deletion(ops: &[BatchEntry], at: usize) -> bool {
    let merge = ops.iter().skip(at).position(|op| op.value_type == ValueType::Merge);
    let behind = merge.map_or(ops.len(), |merge| at + merge + 1);
    ops.iter().take(behind).skip(at.max(1)).any(|op| op.value_type == ValueType::SingleDeletion)
}

/// The ops in the order of their keys, newest first; with `overwrite` only the effective ones of
/// each key: the newest op, and merges down to the op to which they apply.
pub(super) fn indexed_ops(
    own: &OwnWrites,
    icmp: &InternalKeyComparator,
    overwrite: bool,
) -> Result<Vec<IndexedOp>> {
    let mut shown = Vec::new();
    for_each_key(own, icmp, |ops| {
        let merges = ops.iter().take_while(|op| op.value_type == ValueType::Merge).count();
        let effective = if overwrite { (merges + 1).min(ops.len()) } else { ops.len() };
        let count = |at: usize| if overwrite { (ops.len() - at) as u32 } else { 1 };
        let facts: Vec<_> =
            (0..effective).map(|at| (count(at), overwrite && hides_single_deletion(&ops, at))).collect();
        let with_facts = |(entry, (update_count, has_overwritten_single_del))| IndexedOp {
            entry,
            update_count,
            has_overwritten_single_del,
        };
        shown.extend(ops.into_iter().zip(facts).map(with_facts));
    })?;
    Ok(shown)
}

impl WriteBatchWithIndex {
    /// The number of entries of each family, and of single deletions that later ops hide. Costs a
    /// look at each op; families are read in the order given to [`new`](Self::new).
    ///
    /// ```
    /// use esker::{ColumnFamilyId, WriteBatchWithIndex};
    ///
    /// let mut batch = WriteBatchWithIndex::default();
    /// batch.single_delete("once")?;
    /// batch.put("once", "again")?;
    /// batch.put("a", "1")?;
    /// let stat = batch.cf_stats()?[&ColumnFamilyId::DEFAULT];
    /// assert_eq!((stat.entry_count, stat.overwritten_sd_count), (2, 1));
    /// assert_eq!(batch.op_count(), 3);
    ///
    /// let mut iter = batch.iter(ColumnFamilyId::DEFAULT)?;
    /// iter.seek(b"once");
    /// assert_eq!((iter.update_count(), iter.has_overwritten_single_del()), (2, true));
    /// # Ok::<_, esker::Error>(())
    /// ```
    /// # Errors
    /// `NotSupported`: the batch has an op that this engine lacks.
    pub fn cf_stats(&self) -> Result<BTreeMap<ColumnFamilyId, BatchCfStat>> {
        let families: BTreeSet<_> = self.batch.iter().filter_map(|op| op.family()).collect();
        let mut stats = BTreeMap::new();
        let icmp = self.default_order();
        for family in families {
            let Some(own) = self.own(family, &icmp)? else { continue };
            let mut stat = BatchCfStat::default();
            for_each_key(&own, &icmp, |ops| {
                if !self.overwrites_keys() {
                    stat.entry_count += ops.len() as u32;
                    return;
                }
                // An entry ends where the next newer op is a merge.
                let ends = |at: usize| at == 0 || ops[at - 1].value_type == ValueType::Merge;
                for at in (0..ops.len()).filter(|&at| ends(at)) {
                    stat.entry_count += 1;
                    stat.overwritten_sd_count += u32::from(hides_single_deletion(&ops, at));
                }
            })?;
            if stat != BatchCfStat::default() {
                stats.insert(family, stat);
            }
        }
        Ok(stats)
    }

    /// Number of operations that reads of the batch find: all but range deletions, and those that
    /// a transaction has written without indexing. Costs a look at each op.
    pub fn op_count(&self) -> usize {
        let all = self.batch.ops_bytes().len();
        let mut ops = self.batch.iter();
        let mut count = 0;
        loop {
            let at = all - ops.bytes_left();
            let Some(op) = ops.next() else { return count };
            let is_point = op.family().is_some() && !matches!(op, BatchOp::DeleteRange { .. });
            count += usize::from(is_point && !self.unindexed.has(at));
        }
    }
}
