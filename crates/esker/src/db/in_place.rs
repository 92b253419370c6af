//! Puts whose values an `inplace_callback` makes.
//!
//! In: a batch, and the lead over all writers. Out: the batch with the new values, which is what
//! the WAL and the memtables get. So a recovery calls no callback, and each update is a version of
//! its own, which snapshots keep apart.

use super::{ColumnFamilyHandle, Db};
use crate::cf::{ColumnFamily, OwnWrites};
use crate::options::{InplaceCallback, ReadOptions, UpdateStatus, WriteOptions};
use crate::write::{ApartCalls, entry_of};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, Result, SequenceNumber};
use esker_format::write_batch::{BatchOp, WriteBatch};
use esker_memtable::{MemTable, MemTableOptions};
use hashbrown::HashMap;
use std::cell::RefCell;

/// Bytes of an arena block for the earlier ops of a batch.
const OVERLAY_BLOCK_BYTES: usize = 64 << 10;

impl Db {
    /// Whether the batch has a put of a family with a callback. Costs a load in a database without
    /// such a family.
    #[inline]
    pub(super) fn updates_in_place(&self, batch: &WriteBatch) -> bool {
        self.engine().families.has_callbacks.load(Ordering::Relaxed) && self.has_put_in_place(batch)
    }

    #[cold]
    fn has_put_in_place(&self, batch: &WriteBatch) -> bool {
        batch.iter().any(|op| match op {
            BatchOp::Put { family, .. } => self.callback_of(family).is_some(),
            _ => false,
        })
    }

    /// [`Db::write_opt`] of a batch with puts of a family with a callback.
    /// # Errors
    /// Those of [`Db::write_opt`] · `InvalidArgument`: the callback breaks its word.
    #[cold]
    pub(super) fn write_in_place(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        if self.engine().commits.is_some() {
            self.refuse_in_place(batch)?;
        }
        let change = |batch: &WriteBatch| self.updated_in_place(batch);
        let calls = ApartCalls { change: Some(&change), ..ApartCalls::default() };
        self.inner.write_path.write_apart(options, batch, &calls)
    }

    /// [`Db::write_if`] of a batch with puts of a family with a callback.
    /// # Errors
    /// Those of [`Db::write_if`] · `InvalidArgument`: the callback breaks its word.
    pub(super) fn write_in_place_if(
        &self,
        options: &WriteOptions,
        batch: &mut WriteBatch,
        validate: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let validate = RefCell::new(validate);
        let check = || (validate.borrow_mut())();
        let change = |batch: &WriteBatch| self.updated_in_place(batch);
        let calls = ApartCalls { check: Some(&check), change: Some(&change), ..ApartCalls::default() };
        self.inner.write_path.write_apart(options, batch, &calls)
    }

    /// Refuses a batch whose values a callback would have to make later.
    /// # Errors
    /// `NotSupported`: the batch has a put of a family with a callback.
    pub(super) fn refuse_in_place(&self, batch: &WriteBatch) -> Result<()> {
        if self.updates_in_place(batch) {
            let what = "inplace_callback with prepared transactions, commits that take snapshots, \
                        WritePrepared or WriteUnprepared";
            return Err(Error::not_supported(what));
        }
        Ok(())
    }

    /// The batch with the values that the callbacks make. REQUIRES: the caller leads all writers.
    /// # Errors
    /// `InvalidArgument`: a callback updates a value in place that is shorter, or none · errors of
    /// reads, and of [`WriteBatch::push`].
    pub(super) fn updated_in_place(&self, batch: &WriteBatch) -> Result<WriteBatch> {
        let mut updated = WriteBatch::new();
        let mut before = EarlierOps::default();
        for op in batch.iter() {
            let BatchOp::Put { family: id, key, value: delta } = op else {
                updated.push(op)?;
                before.add(self, &op)?;
                continue;
            };
            let Some((cf, callback)) = self.callback_of(id) else {
                updated.push(op)?;
                continue;
            };
            let mut existing = before.get(self, &ColumnFamilyHandle { cf }, key)?;
            let value = match callback.update(existing.as_deref_mut(), delta) {
                UpdateStatus::Failed => continue,
                UpdateStatus::Updated(value) => value,
                UpdateStatus::UpdatedInPlace(length) => {
                    let value = existing.as_deref().and_then(|value| value.get(..length));
                    value.ok_or_else(|| longer_value(key, length))?.to_vec()
                }
            };
            let op = BatchOp::Put { family: id, key, value: &value };
            updated.push(op)?;
            before.add(self, &op)?;
        }
        Ok(updated)
    }

    fn callback_of(&self, family: ColumnFamilyId) -> Option<(Arc<ColumnFamily>, InplaceCallback)> {
        let cf = self.engine().families.by_id(family)?;
        let super_version = cf.super_version.load_full();
        let options = &super_version.options;
        let callback = options.inplace_callback.as_ref().filter(|_| options.inplace_update_support)?.clone();
        Some((cf, callback))
    }
}

/// The ops of a batch so far, over the database, in the families with a callback.
#[derive(Default)]
struct EarlierOps {
    families: HashMap<ColumnFamilyId, OwnWrites>,
    count: u64,
}

impl EarlierOps {
    fn add(&mut self, db: &Db, op: &BatchOp<'_>) -> Result<()> {
        let Some((id, entry)) = entry_of(op)? else { return Ok(()) };
        let Some((cf, _)) = db.callback_of(id) else { return Ok(()) };
        let own = self.families.entry(id).or_insert_with(|| {
            let options = MemTableOptions {
                arena_block_size: OVERLAY_BLOCK_BYTES,
                use_huge_pages: false,
                ..MemTableOptions::default()
            };
            let mem = MemTable::new(cf.icmp.clone(), options);
            OwnWrites { mem, up_to: OwnWrites::FIRST, runs: Arc::default(), spilled: None }
        });
        own.up_to = SequenceNumber(OwnWrites::FIRST.0 + self.count);
        self.count += 1;
        own.mem.add(own.up_to, entry.value_type, entry.key, entry.value)
    }

    fn get(&self, db: &Db, family: &ColumnFamilyHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let read = ReadOptions { fill_cache: false, ..ReadOptions::default() };
        let value = match self.families.get(&family.id()) {
            Some(own) => db.get_over(&read, family, own, key)?,
            None => db.get_pinned_opt(&read, family, key)?,
        };
        Ok(value.map(|value| value.to_vec()))
    }
}

#[cold]
fn longer_value(key: &[u8], length: usize) -> Error {
    Error::invalid_argument(format!(
        "inplace_callback: {length} bytes do not fit in place of the value of key '{}'",
        key.escape_ascii()
    ))
}
