//! An open database, which all objects made from it share.
//!
//! In: a database of one of three kinds. Out: checks before each call, writes that respect the
//! locks of transactions, and a close at the interpreter's exit.

use crate::call::{self, EngineHandle};
use crate::callbacks::Plugins;
use crate::error;
use crate::later;
use esker::{
    ColumnFamilyHandle, Db, ErrorKind, OptimisticTransactionDb, Result, TransactionDb, WriteBatch,
    WriteOptions,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// A database with or without transactions.
pub(crate) enum OpenKind {
    Plain(Db),
    Pessimistic(TransactionDb),
    Optimistic(OptimisticTransactionDb),
}

/// An open database.
pub(crate) struct OpenDb {
    kind: EngineHandle<OpenKind>,
    pub(crate) path: PathBuf,
    made_in: u64,
    is_closed: AtomicBool,
    /// Functions in Python that the engine calls.
    plugins: Plugins,
}

/// Open databases. A holder of the mutex keeps the GIL, and runs no Python code.
static OPEN: Mutex<Vec<Weak<OpenDb>>> = Mutex::new(Vec::new());

impl OpenDb {
    pub(crate) fn new(kind: OpenKind, path: PathBuf, plugins: Plugins) -> Arc<OpenDb> {
        let shared = Arc::new(OpenDb {
            kind: EngineHandle::new(kind),
            path,
            made_in: call::process(),
            is_closed: AtomicBool::new(false),
            plugins,
        });
        if let Ok(mut open) = OPEN.lock() {
            open.retain(|weak| weak.strong_count() > 0);
            open.push(Arc::downgrade(&shared));
        }
        shared
    }

    /// Checks that the database is open, and that this thread may call it.
    #[inline]
    pub(crate) fn check(&self) -> PyResult<()> {
        self.check_place()?;
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(error::closed(format!("the database {} is closed", self.path.display())));
        }
        if self.plugins.failure.has_happened() {
            return Err(error::of_kind(
                ErrorKind::Aborted,
                "the comparator has raised, so the order of keys in memory may be wrong; close the database \
                 and open it again",
            ));
        }
        Ok(())
    }

    /// Checks that this thread may call the engine, whether the database is open or not.
    pub(crate) fn check_place(&self) -> PyResult<()> {
        call::check_place(self.made_in)
    }

    /// Whether [`OpenDb::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Functions in Python that the engine calls.
    pub(crate) fn plugins(&self) -> &Plugins {
        &self.plugins
    }

    pub(crate) fn kind(&self) -> &OpenKind {
        &self.kind
    }

    /// The database below the transactions.
    #[inline]
    pub(crate) fn db(&self) -> &Db {
        match &*self.kind {
            OpenKind::Plain(db) => db,
            OpenKind::Pessimistic(db) => db.db(),
            OpenKind::Optimistic(db) => db.db(),
        }
    }

    /// Closes the database once.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.check_place()?;
        if self.is_closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        call::run(py, || self.db().close())
    }

    /// Closes the database and drops its callbacks in Python, for the garbage collector. Inside a
    /// callback, a thread does both later, since the close may wait for the callback.
    pub(crate) fn end(this: &Arc<OpenDb>, py: Python<'_>) {
        let end = |this: &OpenDb, py: Python<'_>| {
            drop(this.close(py));
            this.plugins.clear();
        };
        if !call::is_in_callback() {
            return end(this, py);
        }
        let this = this.clone();
        // Without an interpreter the functions are gone anyway.
        later::run(move || {
            Python::try_attach(|py| end(&this, py));
        });
    }

    pub(crate) fn put(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        (key, value): (&[u8], &[u8]),
    ) -> Result<()> {
        match &*self.kind {
            OpenKind::Pessimistic(db) => db.put_opt(options, family, key, value),
            _ => self.db().put_opt(options, family, key, value),
        }
    }

    pub(crate) fn delete(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        key: &[u8],
    ) -> Result<()> {
        match &*self.kind {
            OpenKind::Pessimistic(db) => db.delete_opt(options, family, key),
            _ => self.db().delete_opt(options, family, key),
        }
    }

    pub(crate) fn merge(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        (key, operand): (&[u8], &[u8]),
    ) -> Result<()> {
        match &*self.kind {
            OpenKind::Pessimistic(db) => db.merge_opt(options, family, key, operand),
            _ => self.db().merge_opt(options, family, key, operand),
        }
    }

    pub(crate) fn delete_range(
        &self,
        options: &WriteOptions,
        family: &ColumnFamilyHandle,
        (begin, end): (&[u8], &[u8]),
    ) -> Result<()> {
        match &*self.kind {
            OpenKind::Pessimistic(db) => db.delete_range_opt(options, family, begin, end),
            _ => self.db().delete_range_opt(options, family, begin, end),
        }
    }

    pub(crate) fn write(&self, options: &WriteOptions, batch: &mut WriteBatch) -> Result<()> {
        match &*self.kind {
            OpenKind::Pessimistic(db) => db.write_opt(options, batch),
            _ => self.db().write_opt(options, batch),
        }
    }
}

/// Closes all open databases, at the interpreter's exit. Background threads may need the
/// interpreter for callbacks, so they end while it still runs.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let open = OPEN.lock().map(|mut open| std::mem::take(&mut *open)).unwrap_or_default();
    for shared in open.iter().filter_map(Weak::upgrade) {
        // A forked child leaves the parent's database alone.
        if shared.made_in != call::process() {
            continue;
        }
        if let Err(raised) = shared.close(py) {
            raised.write_unraisable(py, None);
        }
    }
    later::finish(py);
}
