//! Writes of one entry, and of batches.

use crate::batch::{Batch, IndexedBatch};
use crate::border::{JavaInput, NativeResult};
use crate::db::{Database, Family};
use crate::handle::NativeHandle;
use crate::jni::JavaEnv;
use crate::options::Call;
use esker::WriteOptions;

type Options = NativeHandle<Call<WriteOptions>>;

fn write_options(options: Options) -> WriteOptions {
    options.find().map(|options| options.options).unwrap_or_default()
}

pub(crate) fn put(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Options,
    family: NativeHandle<Family>,
    key: JavaInput,
    value: JavaInput,
) -> NativeResult<()> {
    let (db, key, value) = (db.get()?, key.read(env)?, value.read(env)?);
    Ok(db.put(&write_options(options), db.family(family)?, &key, &value)?)
}

pub(crate) fn merge(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Options,
    family: NativeHandle<Family>,
    key: JavaInput,
    operand: JavaInput,
) -> NativeResult<()> {
    let (db, key, operand) = (db.get()?, key.read(env)?, operand.read(env)?);
    Ok(db.merge(&write_options(options), db.family(family)?, &key, &operand)?)
}

pub(crate) fn delete(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Options,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<()> {
    let (db, key) = (db.get()?, key.read(env)?);
    Ok(db.delete(&write_options(options), db.family(family)?, &key)?)
}

pub(crate) fn single_delete(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Options,
    family: NativeHandle<Family>,
    key: JavaInput,
) -> NativeResult<()> {
    let (db, key) = (db.get()?, key.read(env)?);
    Ok(db.single_delete(&write_options(options), db.family(family)?, &key)?)
}

pub(crate) fn delete_range(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    options: Options,
    family: NativeHandle<Family>,
    begin: JavaInput,
    end: JavaInput,
) -> NativeResult<()> {
    let (db, begin, end) = (db.get()?, begin.read(env)?, end.read(env)?);
    Ok(db.delete_range(&write_options(options), db.family(family)?, &begin, &end)?)
}

pub(crate) fn write(
    db: NativeHandle<Database>,
    options: Options,
    batch: NativeHandle<Batch>,
) -> NativeResult<()> {
    let batch = &mut batch.get_mut()?.0;
    Ok(db.get()?.write(&write_options(options), batch)?)
}

pub(crate) fn write_indexed(
    db: NativeHandle<Database>,
    options: Options,
    batch: NativeHandle<IndexedBatch>,
) -> NativeResult<()> {
    let batch = batch.get()?.0.write_batch();
    Ok(db.get()?.write(&write_options(options), batch)?)
}
