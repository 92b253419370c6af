//! The families, iterators, snapshots and transactions that a database has given to Java.
//!
//! In: objects on their way to Java. Out: their handles. Programs close objects in any order, but
//! RocksJava frees no object whose database is already freed. So a database that is freed ends its
//! objects: an ended object holds nothing of the database, and only its empty box stays.
//!
//! Invariant: until its database is freed, a list has the handles of all its objects that Java has
//! not freed. An object leaves the list before it is freed.

use crate::border::NativeResult;
use crate::db::Family;
use crate::handle::{NativeHandle, dispose, give_typed};
use crate::iterator::IteratorObject;
use crate::transactions::TransactionObject;
use esker::{Error, ErrorKind, Snapshot};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The list of a database.
#[derive(Debug, Default)]
pub(crate) struct GivenObjects(Mutex<HashMap<i64, GivenHandle>>);

/// A handle in the list.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GivenHandle {
    Family(NativeHandle<Family>),
    Iterator(NativeHandle<IteratorObject>),
    Snapshot(NativeHandle<SnapshotObject>),
    Transaction(NativeHandle<TransactionObject>),
}

/// An object that a database can end.
pub(crate) trait OfDatabase: Sized {
    fn list(&self) -> &Arc<GivenObjects>;
    fn listed(handle: NativeHandle<Self>) -> GivenHandle;
}

/// A snapshot. The field `snapshot` is `None` after the database has ended it.
#[derive(Debug)]
pub(crate) struct SnapshotObject {
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) sequence: i64,
    pub(crate) list: Arc<GivenObjects>,
}

impl OfDatabase for SnapshotObject {
    fn list(&self) -> &Arc<GivenObjects> {
        &self.list
    }

    fn listed(handle: NativeHandle<SnapshotObject>) -> GivenHandle {
        GivenHandle::Snapshot(handle)
    }
}

impl GivenObjects {
    fn change<R>(&self, change: impl FnOnce(&mut HashMap<i64, GivenHandle>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all objects of the list. Java uses none of them meanwhile, except iterators and
    /// transactions.
    pub(crate) fn end(&self) -> NativeResult<()> {
        self.change(|list| {
            for (_, object) in list.drain() {
                match object {
                    GivenHandle::Family(family) => family.get_mut()?.end(),
                    GivenHandle::Iterator(iterator) => iterator.get()?.end(),
                    GivenHandle::Snapshot(snapshot) => snapshot.get_mut()?.snapshot = None,
                    GivenHandle::Transaction(transaction) => transaction.get()?.end(),
                }
            }
            Ok(())
        })
    }
}

/// Moves an object to the heap, enters it in its list, and returns its handle.
pub(crate) fn give_listed<T: OfDatabase>(object: T) -> NativeHandle<T> {
    let list = object.list().clone();
    let handle = give_typed(object);
    list.change(|list| list.insert(handle.number(), T::listed(handle)));
    handle
}

/// Frees an object of a list.
pub(crate) fn dispose_listed<T: OfDatabase>(handle: NativeHandle<T>) -> NativeResult<()> {
    if let Some(object) = handle.find() {
        object.list().change(|list| list.remove(&handle.number()));
    }
    dispose(handle)
}

/// The error of an object that has ended.
#[cold]
pub(crate) fn ended() -> Error {
    Error::new(ErrorKind::ShutdownInProgress, "the database of this object is closed")
}
