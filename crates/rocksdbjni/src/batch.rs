//! `WriteBatch` and `WriteBatchWithIndex`: changes that are written together.

use crate::border::{JavaInput, NativeResult};
use crate::callbacks::JavaCallback;
use crate::db::{Database, Family};
use crate::given::{dispose_listed, give_listed};
use crate::handle::{NativeHandle, give};
use crate::iterator::IteratorObject;
use crate::jni::{JavaEnv, Reference};
use crate::kind::DatabaseKind;
use crate::options::{DbSettings, ReadSettings};
use esker::comparator::{BytewiseComparator, ComparatorRef};
use esker::{BatchOp, ColumnFamilyId, Error, ReadOptions, WriteBatch, WriteBatchWithIndex};
use std::sync::Arc;

/// A batch.
#[derive(Debug, Default)]
pub(crate) struct Batch(pub(crate) WriteBatch);

/// A batch that can be read.
#[derive(Debug)]
pub(crate) struct IndexedBatch(pub(crate) WriteBatchWithIndex);

/// The changes that both kinds of batches take.
pub(crate) trait Changes {
    fn put(&mut self, family: ColumnFamilyId, key: &[u8], value: &[u8]) -> esker::Result<()>;
    fn merge(&mut self, family: ColumnFamilyId, key: &[u8], operand: &[u8]) -> esker::Result<()>;
    fn delete(&mut self, family: ColumnFamilyId, key: &[u8]) -> esker::Result<()>;
    fn single_delete(&mut self, family: ColumnFamilyId, key: &[u8]) -> esker::Result<()>;
    fn delete_range(&mut self, family: ColumnFamilyId, begin: &[u8], end: &[u8]) -> esker::Result<()>;
    fn put_log_data(&mut self, blob: &[u8]) -> esker::Result<()>;
    fn set_save_point(&mut self);
    fn rollback_to_save_point(&mut self) -> esker::Result<()>;
    fn pop_save_point(&mut self) -> esker::Result<()>;
    fn set_max_bytes(&mut self, bytes: usize);
    fn clear(&mut self);
    fn batch(&self) -> &WriteBatch;
}

macro_rules! changes {
    ($($ty:ty: |$this:ident| $batch:expr;)*) => {$(
        impl Changes for $ty {
            fn put(&mut self, family: ColumnFamilyId, key: &[u8], value: &[u8]) -> esker::Result<()> {
                self.0.put_cf(family, key, value)
            }
            fn merge(&mut self, family: ColumnFamilyId, key: &[u8], operand: &[u8]) -> esker::Result<()> {
                self.0.merge_cf(family, key, operand)
            }
            fn delete(&mut self, family: ColumnFamilyId, key: &[u8]) -> esker::Result<()> {
                self.0.delete_cf(family, key)
            }
            fn single_delete(&mut self, family: ColumnFamilyId, key: &[u8]) -> esker::Result<()> {
                self.0.single_delete_cf(family, key)
            }
            fn delete_range(&mut self, family: ColumnFamilyId, begin: &[u8], end: &[u8]) -> esker::Result<()> {
                self.0.delete_range_cf(family, begin, end)
            }
            fn put_log_data(&mut self, blob: &[u8]) -> esker::Result<()> {
                self.0.put_log_data(blob)
            }
            fn set_save_point(&mut self) {
                self.0.set_save_point();
            }
            fn rollback_to_save_point(&mut self) -> esker::Result<()> {
                self.0.rollback_to_save_point()
            }
            fn pop_save_point(&mut self) -> esker::Result<()> {
                self.0.pop_save_point()
            }
            fn set_max_bytes(&mut self, bytes: usize) {
                self.0.set_max_bytes(bytes);
            }
            fn clear(&mut self) {
                self.0.clear();
            }
            fn batch(&self) -> &WriteBatch {
                let $this = self;
                $batch
            }
        }
    )*};
}
changes! {
    Batch: |batch| &batch.0;
    IndexedBatch: |batch| batch.0.write_batch();
}

pub(crate) fn new(reserved: i32) -> NativeResult<i64> {
    Ok(give(Batch(WriteBatch::with_capacity(usize::try_from(reserved).unwrap_or(0)))))
}

/// A batch of serialized bytes.
pub(crate) fn parse(bytes: &[u8]) -> NativeResult<i64> {
    Ok(give(Batch(WriteBatch::from_bytes(bytes.to_vec())?)))
}

/// A batch with an index. `fallback` is the order of families that are read without a handle.
pub(crate) fn new_indexed(fallback: NativeHandle<JavaCallback>, overwrites: bool) -> NativeResult<i64> {
    let order: ComparatorRef = match fallback.find() {
        Some(JavaCallback::Comparator(comparators)) => comparators.comparator.clone(),
        None => Arc::new(BytewiseComparator),
    };
    Ok(give(IndexedBatch(WriteBatchWithIndex::new(order, overwrites))))
}

fn id(family: NativeHandle<Family>) -> ColumnFamilyId {
    family.find().map_or(ColumnFamilyId::DEFAULT, |family| family.id)
}

pub(crate) fn put<T: Changes>(
    env: &JavaEnv<'_>,
    batch: NativeHandle<T>,
    family: NativeHandle<Family>,
    key: JavaInput,
    value: JavaInput,
) -> NativeResult<()> {
    Ok(batch.get_mut()?.put(id(family), &key.read(env)?, &value.read(env)?)?)
}

pub(crate) fn merge<T: Changes>(
    env: &JavaEnv<'_>,
    batch: NativeHandle<T>,
    family: NativeHandle<Family>,
    key: JavaInput,
    operand: JavaInput,
) -> NativeResult<()> {
    Ok(batch.get_mut()?.merge(id(family), &key.read(env)?, &operand.read(env)?)?)
}

pub(crate) fn delete<T: Changes>(
    env: &JavaEnv<'_>,
    batch: NativeHandle<T>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<()> {
    Ok(batch.get_mut()?.delete(id(family), &key.read(env)?)?)
}

pub(crate) fn single_delete<T: Changes>(
    env: &JavaEnv<'_>,
    batch: NativeHandle<T>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<()> {
    Ok(batch.get_mut()?.single_delete(id(family), &key.read(env)?)?)
}

pub(crate) fn delete_range<T: Changes>(
    env: &JavaEnv<'_>,
    batch: NativeHandle<T>,
    family: NativeHandle<Family>,
    begin: JavaInput,
    end: JavaInput,
) -> NativeResult<()> {
    Ok(batch.get_mut()?.delete_range(id(family), &begin.read(env)?, &end.read(env)?)?)
}

pub(crate) fn put_log_data<T: Changes>(
    env: &JavaEnv<'_>,
    batch: NativeHandle<T>,
    blob: JavaInput,
) -> NativeResult<()> {
    Ok(batch.get_mut()?.put_log_data(&blob.read(env)?)?)
}

pub(crate) fn count<T: Changes>(batch: NativeHandle<T>) -> NativeResult<i32> {
    Ok(batch.get()?.batch().count().cast_signed())
}

pub(crate) fn clear<T: Changes>(batch: NativeHandle<T>) -> NativeResult<()> {
    batch.get_mut()?.clear();
    Ok(())
}

pub(crate) fn set_save_point<T: Changes>(batch: NativeHandle<T>) -> NativeResult<()> {
    batch.get_mut()?.set_save_point();
    Ok(())
}

pub(crate) fn rollback_to_save_point<T: Changes>(batch: NativeHandle<T>) -> NativeResult<()> {
    Ok(batch.get_mut()?.rollback_to_save_point()?)
}

pub(crate) fn pop_save_point<T: Changes>(batch: NativeHandle<T>) -> NativeResult<()> {
    Ok(batch.get_mut()?.pop_save_point()?)
}

pub(crate) fn set_max_bytes<T: Changes>(batch: NativeHandle<T>, bytes: i64) -> NativeResult<()> {
    batch.get_mut()?.set_max_bytes(usize::try_from(bytes).unwrap_or(0));
    Ok(())
}

pub(crate) fn data(env: &JavaEnv<'_>, batch: NativeHandle<Batch>) -> NativeResult<Reference> {
    env.new_bytes(batch.get()?.0.data())
}

pub(crate) fn data_size(batch: NativeHandle<Batch>) -> NativeResult<i64> {
    Ok(batch.get()?.0.data_size() as i64)
}

/// Whether the batch has an entry of a kind.
pub(crate) fn has(batch: NativeHandle<Batch>, is_kind: impl Fn(&BatchOp<'_>) -> bool) -> NativeResult<bool> {
    Ok(batch.get()?.0.iter().any(|op| is_kind(&op)))
}

/// The key's value in the batch alone; null if the batch does not change the key, or deletes it.
pub(crate) fn get_from_batch(
    env: &JavaEnv<'_>,
    batch: NativeHandle<IndexedBatch>,
    options: NativeHandle<DbSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<Reference> {
    let (batch, _) = (&batch.get()?.0, options);
    let key = key.read(env)?;
    let found = match family.find() {
        Some(family) => batch.get_from_batch_cf(family.handle()?, &key)?,
        None => batch.get_from_batch(ColumnFamilyId::DEFAULT, None, &key)?,
    };
    found.map_or(Ok(Reference::NULL), |value| env.new_bytes(&value))
}

/// The value that the key has once the batch is written.
pub(crate) fn get_from_both(
    env: &JavaEnv<'_>,
    batch: NativeHandle<IndexedBatch>,
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<Reference> {
    let (db, default) = (db.get()?, ReadOptions::default());
    if let DatabaseKind::Ttl(_) = db.kind {
        return Err(Error::not_supported("reads of a batch over a TtlDB").into());
    }
    let options = options.find().map_or(&default, |reads| &reads.options);
    let key = key.read(env)?;
    let found = batch.get()?.0.get_pinned_from_batch_and_db(&db.db, options, db.family(family)?, &key)?;
    found.map_or(Ok(Reference::NULL), |value| env.new_bytes(&value))
}

/// An iterator over what `base` shows once the batch is written. Takes `base`, as RocksDB does.
pub(crate) fn over_base(
    batch: NativeHandle<IndexedBatch>,
    base: NativeHandle<IteratorObject>,
) -> NativeResult<i64> {
    let over = base.get()?.over(&batch.get()?.0);
    dispose_listed(base)?;
    Ok(give_listed(over).number())
}
