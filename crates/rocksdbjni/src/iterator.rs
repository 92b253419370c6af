//! `RocksIterator`: a cursor over the entries of a family.
//!
//! In: moves. Out: keys and values, copied to Java. An iterator that cannot be made is one that is
//! not valid and has the error as its status, as in RocksDB.

use crate::border::{JavaInput, JavaOutput, NativeFailure, NativeResult};
use crate::db::{Database, Family, handles};
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaEnv, Reference};
use crate::options::ReadSettings;
use esker::txn::TransactionIterator;
use esker::{DbIterator, Error, Snapshot, WriteBatchWithIndex};

/// An iterator over a database, one with a batch's changes added, or why it could not be made.
#[derive(Debug)]
pub(crate) enum IteratorObject {
    Db(Box<DbIterator>),
    Over(Box<TransactionIterator>),
    Failed(Error),
}

/// Calls a method of an iterator of any kind.
macro_rules! of_cursor {
    ($cursor:expr, $iterator:ident => $call:expr, $error:ident => $else:expr) => {
        match $cursor {
            IteratorObject::Db($iterator) => $call,
            IteratorObject::Over($iterator) => $call,
            IteratorObject::Failed($error) => $else,
        }
    };
}

impl IteratorObject {
    fn valid(&self) -> bool {
        of_cursor!(self, iterator => iterator.valid(), _error => false)
    }

    fn key(&self) -> NativeResult<&[u8]> {
        of_cursor!(self, iterator => if iterator.valid() { Ok(iterator.key()) } else { Err(not_valid()) },
            _error => Err(not_valid()))
    }

    fn value(&self) -> NativeResult<&[u8]> {
        of_cursor!(self, iterator => if iterator.valid() { Ok(iterator.value()) } else { Err(not_valid()) },
            _error => Err(not_valid()))
    }

    /// An iterator over what this one shows once `batch` is written.
    pub(crate) fn over(&self, batch: &WriteBatchWithIndex) -> IteratorObject {
        let made = match self {
            IteratorObject::Db(base) => batch.iter_over(base),
            IteratorObject::Over(_) => Err(Error::not_supported("the base iterator is one over a batch")),
            IteratorObject::Failed(error) => Err(error.clone()),
        };
        made.map_or_else(IteratorObject::Failed, |iterator| IteratorObject::Over(Box::new(iterator)))
    }
}

#[cold]
fn not_valid() -> NativeFailure {
    Error::invalid_argument("the iterator is not valid").into()
}

fn open(db: &Database, options: NativeHandle<ReadSettings>, family: NativeHandle<Family>) -> IteratorObject {
    let options = options.find().map(|reads| reads.options.clone()).unwrap_or_default();
    db.db
        .iter_opt(options, db.family(family))
        .map_or_else(IteratorObject::Failed, |iterator| IteratorObject::Db(Box::new(iterator)))
}

pub(crate) fn iterator(
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
) -> NativeResult<i64> {
    Ok(give(open(db.get()?, options, family)))
}

/// Iterators over several families at one sequence number.
pub(crate) fn iterators(
    env: &JavaEnv<'_>,
    db: NativeHandle<Database>,
    families: Reference,
    options: NativeHandle<ReadSettings>,
) -> NativeResult<Reference> {
    let db = db.get()?;
    let mut options = options.find().map(|reads| reads.options.clone()).unwrap_or_default();
    options.snapshot.get_or_insert_with(|| db.db.snapshot());
    let mut made = Vec::new();
    for family in handles::<Family>(env, families)? {
        made.push(IteratorObject::Db(Box::new(db.db.iter_opt(options.clone(), db.family(family))?)));
    }
    env.new_longs(&made.into_iter().map(give).collect::<Vec<i64>>())
}

pub(crate) fn is_valid(cursor: NativeHandle<IteratorObject>) -> NativeResult<bool> {
    Ok(cursor.get()?.valid())
}

pub(crate) fn seek_to_first(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    of_cursor!(cursor.get_mut()?, iterator => iterator.seek_to_first(), _error => ());
    Ok(())
}

pub(crate) fn seek_to_last(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    of_cursor!(cursor.get_mut()?, iterator => iterator.seek_to_last(), _error => ());
    Ok(())
}

/// As in RocksDB, a step of an iterator that is not valid changes nothing.
pub(crate) fn next(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    let cursor = cursor.get_mut()?;
    if cursor.valid() {
        of_cursor!(cursor, iterator => iterator.next(), _error => ());
    }
    Ok(())
}

pub(crate) fn prev(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    let cursor = cursor.get_mut()?;
    if cursor.valid() {
        of_cursor!(cursor, iterator => iterator.prev(), _error => ());
    }
    Ok(())
}

pub(crate) fn seek(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    key: JavaInput,
) -> NativeResult<()> {
    let key = key.read(env)?;
    of_cursor!(cursor.get_mut()?, iterator => iterator.seek(&key), _error => ());
    Ok(())
}

pub(crate) fn seek_for_prev(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    key: JavaInput,
) -> NativeResult<()> {
    let key = key.read(env)?;
    of_cursor!(cursor.get_mut()?, iterator => iterator.seek_for_prev(&key), _error => ());
    Ok(())
}

pub(crate) fn status(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    Ok(of_cursor!(cursor.get()?, iterator => iterator.status(), error => Err(error.clone()))?)
}

fn no_refresh() -> NativeFailure {
    Error::not_supported("Refresh() is not supported").into()
}

pub(crate) fn refresh(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    match cursor.get_mut()? {
        IteratorObject::Db(iterator) => Ok(iterator.refresh()?),
        IteratorObject::Over(_) => Err(no_refresh()),
        IteratorObject::Failed(error) => Err(error.clone().into()),
    }
}

pub(crate) fn refresh_at(
    cursor: NativeHandle<IteratorObject>,
    snapshot: NativeHandle<Snapshot>,
) -> NativeResult<()> {
    let Some(snapshot) = snapshot.find() else { return refresh(cursor) };
    match cursor.get_mut()? {
        IteratorObject::Db(iterator) => Ok(iterator.refresh_at(snapshot)?),
        IteratorObject::Over(_) => Err(no_refresh()),
        IteratorObject::Failed(error) => Err(error.clone().into()),
    }
}

pub(crate) fn key(env: &JavaEnv<'_>, cursor: NativeHandle<IteratorObject>) -> NativeResult<Reference> {
    env.new_bytes(cursor.get()?.key()?)
}

pub(crate) fn value(env: &JavaEnv<'_>, cursor: NativeHandle<IteratorObject>) -> NativeResult<Reference> {
    env.new_bytes(cursor.get()?.value()?)
}

pub(crate) fn key_into(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    output: JavaOutput,
) -> NativeResult<i32> {
    output.write(env, cursor.get()?.key()?)
}

pub(crate) fn value_into(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    output: JavaOutput,
) -> NativeResult<i32> {
    output.write(env, cursor.get()?.value()?)
}
