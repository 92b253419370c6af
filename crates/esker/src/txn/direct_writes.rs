//! Writes of a [`TransactionDb`] outside of transactions: locks of a batch, and its write.
//!
//! Invariant: two batches never wait for each other, because both lock in the same order.

use super::batch_index::no_timestamps;
use super::db::{LockTarget, TransactionDb, lock, target};
use super::options::{TransactionDbOptions, TransactionOptions, timeout};
use super::timestamps::has_timestamps;
use crate::db::ColumnFamilyHandle;
use crate::options::WriteOptions;
use esker_base::{Error, Result};
use esker_format::wide_column::EncodedColumns;
use esker_format::write_batch::{BatchOp, WriteBatch};
use esker_lock::{LockMode, Locker};

/// The way of a write of one key outside of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DirectWrites {
    /// The key is locked, and written.
    Locked,
    /// The key is written (`skip_concurrency_control`).
    Unlocked,
    /// A transaction writes the key and the entries of secondary indices.
    Indexed,
}

impl DirectWrites {
    pub(super) fn of(options: &TransactionDbOptions) -> DirectWrites {
        match options.skip_concurrency_control {
            _ if !options.secondary_indices.is_empty() => DirectWrites::Indexed,
            true => DirectWrites::Unlocked,
            false => DirectWrites::Locked,
        }
    }
}

impl TransactionDb {
    /// Writes the op that `fill` adds to an empty batch.
    pub(super) fn write_one(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        fill: impl FnOnce(&mut WriteBatch) -> Result<()>,
    ) -> Result<()> {
        family.check_live(self.db())?;
        if has_timestamps(family) {
            return Err(no_timestamps(family));
        }
        let mut batch = WriteBatch::new();
        fill(&mut batch)?;
        match self.shared.direct_writes {
            DirectWrites::Locked => self.write_locked(options, &mut batch),
            DirectWrites::Unlocked => self.db().write_opt(options, &mut batch),
            DirectWrites::Indexed => self.write_in_transaction(options, family, &batch),
        }
    }

    /// Writes the batch with locks on its keys.
    pub(super) fn write_locked(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        let lock_timeout = timeout(self.shared.options.default_lock_timeout);
        let options_of_locks = esker_lock::LockerOptions { lock_timeout, ..Default::default() };
        let mut locker = self.shared.locks.locker(options_of_locks);
        self.lock_ops(&mut locker, batch)?;
        self.db().write_opt(options, batch)
    }

    /// Writes the ops of the batch, which are ops on `family`, as a transaction of their own.
    /// Conflicts are not checked.
    #[cold]
    fn write_in_transaction(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        batch: &WriteBatch,
    ) -> Result<()> {
        let transaction = self.begin_transaction_opt(options, &TransactionOptions::default());
        transaction.set_lock_timeout(self.shared.options.default_lock_timeout);
        for op in batch.iter() {
            match op {
                BatchOp::Put { key, value, .. } => transaction.put_untracked(family, key, value)?,
                BatchOp::PutEntity { key, entity, .. } => {
                    let columns: Vec<_> = EncodedColumns::parse(entity)?.iter().collect();
                    transaction.put_entity_untracked(family, key, &columns)?;
                }
                BatchOp::Delete { key, .. } => transaction.delete_untracked(family, key)?,
                BatchOp::SingleDelete { key, .. } => transaction.single_delete_untracked(family, key)?,
                BatchOp::Merge { key, operand, .. } => transaction.merge_untracked(family, key, operand)?,
                BatchOp::DeleteRange { begin, end, .. } => {
                    transaction.delete_range_cf(family, begin, end)?;
                }
                other => return Err(Error::invalid_argument(format!("no op of a transaction: {other:?}"))),
            }
        }
        transaction.commit()
    }

    /// Locks all keys and ranges of `batch`, family by family in the order of keys, so that two
    /// batches never wait for each other. In another order, one batch could hold a key inside a
    /// range that the other locks first.
    fn lock_ops(&self, locker: &mut Locker, batch: &WriteBatch) -> Result<()> {
        let mut wanted: Vec<LockTarget<'_>> = batch.iter().filter_map(target).collect();
        wanted.sort_by_key(|(id, ..)| *id);
        for of_family in wanted.chunk_by_mut(|a, b| a.0 == b.0) {
            let Some(cf) = self.db().engine().families.by_id(of_family[0].0) else { continue };
            let family = ColumnFamilyHandle { cf };
            if has_timestamps(&family) {
                return Err(no_timestamps(&family));
            }
            let (locks, icmp) = (self.shared.locks_of(&family)?, &family.cf.icmp);
            // With point locks, keys that the comparator finds equal may still be different keys.
            of_family.sort_by(|(_, a, _), (_, b, _)| icmp.compare_user_keys(a, b).then_with(|| a.cmp(b)));
            for (_, key, end) in of_family {
                lock(locker, locks, &family, key, *end, LockMode::Exclusive)?;
            }
        }
        Ok(())
    }
}
