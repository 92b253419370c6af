//! `RocksIterator`: a cursor over the entries of a family.
//!
//! In: moves. Out: keys and values, copied to Java. An iterator that cannot be made is one that is
//! not valid and has the error as its status, as in RocksDB.

use crate::border::{JavaInput, JavaOutput, NativeFailure, NativeResult};
use crate::db::{Database, Family};
use crate::given::{GivenHandle, GivenObjects, OfDatabase, SnapshotObject, ended, give_listed};
use crate::handle::{NativeHandle, handles};
use crate::jni::{JavaEnv, Reference};
use crate::options::ReadSettings;
use esker::txn::TransactionIterator;
use esker::{DbIterator, Error, TtlIterator, WriteBatchWithIndex};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An iterator. Calls lock it, since a database ends its iterators on another thread.
#[derive(Debug)]
pub(crate) struct IteratorObject {
    cursor: Mutex<CursorKind>,
    list: Arc<GivenObjects>,
}

/// An iterator over a database, one with a batch's changes added, or the reason why there is none.
#[derive(Debug)]
pub(crate) enum CursorKind {
    Db(Box<DbIterator>),
    /// Over a database whose values expire.
    Ttl(Box<TtlIterator>),
    Over(Box<TransactionIterator>),
    Failed(Error),
}

impl OfDatabase for IteratorObject {
    fn list(&self) -> &Arc<GivenObjects> {
        &self.list
    }

    fn listed(handle: NativeHandle<IteratorObject>) -> GivenHandle {
        GivenHandle::Iterator(handle)
    }
}

impl IteratorObject {
    fn new(db: &Database, cursor: CursorKind) -> IteratorObject {
        IteratorObject { cursor: Mutex::new(cursor), list: db.list.clone() }
    }

    pub(crate) fn of_transaction(
        made: esker::Result<TransactionIterator>,
        list: &Arc<GivenObjects>,
    ) -> IteratorObject {
        let cursor = made.map_or_else(CursorKind::Failed, |iterator| CursorKind::Over(Box::new(iterator)));
        IteratorObject { cursor: Mutex::new(cursor), list: list.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, CursorKind> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of the database.
    pub(crate) fn end(&self) {
        *self.lock() = CursorKind::Failed(ended());
    }

    /// An iterator over what this one shows once `batch` is written.
    pub(crate) fn over(&self, batch: &WriteBatchWithIndex) -> IteratorObject {
        let made = match &*self.lock() {
            CursorKind::Db(base) => batch.iter_over(base),
            CursorKind::Ttl(_) => Err(Error::not_supported("a batch over an iterator of a TtlDB")),
            CursorKind::Over(_) => Err(Error::not_supported("the base iterator is one over a batch")),
            CursorKind::Failed(error) => Err(error.clone()),
        };
        IteratorObject::of_transaction(made, &self.list)
    }
}

/// Calls a method of an iterator of any kind.
macro_rules! of_cursor {
    ($cursor:expr, $iterator:ident => $call:expr, $error:ident => $else:expr) => {
        match $cursor {
            CursorKind::Db($iterator) => $call,
            CursorKind::Ttl($iterator) => $call,
            CursorKind::Over($iterator) => $call,
            CursorKind::Failed($error) => $else,
        }
    };
}

impl CursorKind {
    fn valid(&self) -> bool {
        of_cursor!(self, iterator => iterator.valid(), _error => false)
    }

    fn key(&self) -> NativeResult<&[u8]> {
        of_cursor!(self, iterator => if iterator.valid() { Ok(iterator.key()) } else { Err(not_valid()) },
            _error => Err(not_valid()))
    }

    fn value(&self) -> NativeResult<&[u8]> {
        match self {
            CursorKind::Db(iterator) if iterator.valid() => Ok(iterator.value()),
            CursorKind::Ttl(iterator) if iterator.valid() => Ok(iterator.value()?),
            CursorKind::Over(iterator) if iterator.valid() => Ok(iterator.value()),
            _ => Err(not_valid()),
        }
    }
}

#[cold]
fn not_valid() -> NativeFailure {
    Error::invalid_argument("the iterator is not valid").into()
}

fn open(
    db: &Database,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
) -> NativeResult<CursorKind> {
    let options = options.find().map(|reads| reads.options.clone()).unwrap_or_default();
    Ok(db.iter(options, db.family(family)?).unwrap_or_else(CursorKind::Failed))
}

pub(crate) fn iterator(
    db: NativeHandle<Database>,
    options: NativeHandle<ReadSettings>,
    family: NativeHandle<Family>,
) -> NativeResult<i64> {
    let db = db.get()?;
    Ok(give_listed(IteratorObject::new(db, open(db, options, family)?)).number())
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
        made.push(db.iter(options.clone(), db.family(family)?)?);
    }
    let made = made.into_iter().map(|cursor| give_listed(IteratorObject::new(db, cursor)).number());
    env.new_longs(&made.collect::<Vec<i64>>())
}

pub(crate) fn is_valid(cursor: NativeHandle<IteratorObject>) -> NativeResult<bool> {
    Ok(cursor.get()?.lock().valid())
}

pub(crate) fn seek_to_first(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    of_cursor!(&mut *cursor.get()?.lock(), iterator => iterator.seek_to_first(), _error => ());
    Ok(())
}

pub(crate) fn seek_to_last(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    of_cursor!(&mut *cursor.get()?.lock(), iterator => iterator.seek_to_last(), _error => ());
    Ok(())
}

/// As in RocksDB, a step of an iterator that is not valid changes nothing.
pub(crate) fn next(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    let cursor = &mut *cursor.get()?.lock();
    if cursor.valid() {
        of_cursor!(cursor, iterator => iterator.next(), _error => ());
    }
    Ok(())
}

pub(crate) fn prev(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    let cursor = &mut *cursor.get()?.lock();
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
    of_cursor!(&mut *cursor.get()?.lock(), iterator => iterator.seek(&key), _error => ());
    Ok(())
}

pub(crate) fn seek_for_prev(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    key: JavaInput,
) -> NativeResult<()> {
    let key = key.read(env)?;
    of_cursor!(&mut *cursor.get()?.lock(), iterator => iterator.seek_for_prev(&key), _error => ());
    Ok(())
}

pub(crate) fn status(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    Ok(of_cursor!(&*cursor.get()?.lock(), iterator => iterator.status(), error => Err(error.clone()))?)
}

fn no_refresh() -> NativeFailure {
    Error::not_supported("Refresh() is not supported").into()
}

pub(crate) fn refresh(cursor: NativeHandle<IteratorObject>) -> NativeResult<()> {
    match &mut *cursor.get()?.lock() {
        CursorKind::Db(iterator) => Ok(iterator.refresh()?),
        CursorKind::Ttl(_) | CursorKind::Over(_) => Err(no_refresh()),
        CursorKind::Failed(error) => Err(error.clone().into()),
    }
}

pub(crate) fn refresh_at(
    cursor: NativeHandle<IteratorObject>,
    snapshot: NativeHandle<SnapshotObject>,
) -> NativeResult<()> {
    let Some(snapshot) = snapshot.find() else { return refresh(cursor) };
    let snapshot = snapshot.snapshot.as_ref().ok_or_else(ended)?;
    match &mut *cursor.get()?.lock() {
        CursorKind::Db(iterator) => Ok(iterator.refresh_at(snapshot)?),
        CursorKind::Ttl(_) | CursorKind::Over(_) => Err(no_refresh()),
        CursorKind::Failed(error) => Err(error.clone().into()),
    }
}

pub(crate) fn key(env: &JavaEnv<'_>, cursor: NativeHandle<IteratorObject>) -> NativeResult<Reference> {
    env.new_bytes(cursor.get()?.lock().key()?)
}

pub(crate) fn value(env: &JavaEnv<'_>, cursor: NativeHandle<IteratorObject>) -> NativeResult<Reference> {
    env.new_bytes(cursor.get()?.lock().value()?)
}

pub(crate) fn key_into(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    output: JavaOutput,
) -> NativeResult<i32> {
    output.write(env, cursor.get()?.lock().key()?)
}

pub(crate) fn value_into(
    env: &JavaEnv<'_>,
    cursor: NativeHandle<IteratorObject>,
    output: JavaOutput,
) -> NativeResult<i32> {
    output.write(env, cursor.get()?.lock().value()?)
}
