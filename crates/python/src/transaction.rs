//! Class `Transaction`: reads and writes that take effect together while others run.
//!
//! In: a pessimistic or optimistic transaction of the engine. Out: the classes `Reader` and
//! `Writer` over it.
//!
//! Invariant: threads wait for the mutex of a transaction without the GIL only.

use crate::args::BytesArg;
use crate::call::{self, EngineHandle};
use crate::family;
use crate::reader::{PyReader, View};
use crate::scan::{RowRange, Rows};
use crate::shared::{OpenDb, OpenKind};
use crate::writer::PyWriter;
use esker::txn::{Endpoint, LockMode};
use esker::{
    ColumnFamilyHandle, Error, IsolationLevel, OptimisticTransactionOptions, PinnedBytes, ReadOptions,
    Result, TransactionOptions, WriteOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::sync::{Arc, Mutex};

/// A transaction of the engine.
pub(crate) enum Txn {
    Pessimistic(esker::Transaction),
    Optimistic(Box<esker::OptimisticTransaction>),
}

macro_rules! either {
    ($txn:expr, $own:ident => $call:expr) => {
        match $txn {
            Txn::Pessimistic($own) => $call,
            Txn::Optimistic($own) => $call,
        }
    };
}

impl Txn {
    pub(crate) fn get_pinned(&self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<Option<PinnedBytes>> {
        either!(self, txn => txn.get_pinned_opt(&ReadOptions::default(), family, key))
    }

    pub(crate) fn multi_get(
        &self,
        family: &ColumnFamilyHandle,
        keys: &[&[u8]],
    ) -> Vec<Result<Option<PinnedBytes>>> {
        either!(self, txn => txn.multi_get(&ReadOptions::default(), family, keys))
    }

    pub(crate) fn get_for_update(
        &self,
        family: &ColumnFamilyHandle,
        key: &[u8],
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>> {
        let read = ReadOptions::default();
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        match self {
            Txn::Pessimistic(txn) => txn.get_for_update_opt(&read, family, key, mode, true),
            Txn::Optimistic(txn) => txn.get_for_update_opt(&read, family, key),
        }
    }

    pub(crate) fn put(&self, family: &ColumnFamilyHandle, key: &[u8], value: &[u8]) -> Result<()> {
        either!(self, txn => txn.put_cf(family, key, value))
    }

    pub(crate) fn delete(&self, family: &ColumnFamilyHandle, key: &[u8]) -> Result<()> {
        either!(self, txn => txn.delete_cf(family, key))
    }

    pub(crate) fn merge(&self, family: &ColumnFamilyHandle, key: &[u8], operand: &[u8]) -> Result<()> {
        either!(self, txn => txn.merge_cf(family, key, operand))
    }

    pub(crate) fn delete_range(&self, family: &ColumnFamilyHandle, begin: &[u8], end: &[u8]) -> Result<()> {
        either!(self, txn => txn.delete_range_cf(family, begin, end))
    }

    pub(crate) fn entries(&self, family: &ColumnFamilyHandle, span: &RowRange) -> Box<dyn Rows> {
        either!(self, txn => match span {
            RowRange::Prefix(prefix) => Box::new(txn.prefix_cf(family, prefix)),
            RowRange::Range(range) => Box::new(txn.range_cf(family, range.clone())),
        })
    }
}

/// A transaction, until it is over.
pub(crate) struct TransactionCell(Mutex<Option<Txn>>);

fn over() -> Error {
    Error::invalid_argument("the transaction is over: it was committed or rolled back")
}

impl TransactionCell {
    /// Runs `work` on the transaction without the GIL, after calls of other threads.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Txn) -> Result<T> + Send,
    ) -> PyResult<T> {
        call::run(py, || match &*self.0.lock().expect("no holder panics") {
            Some(txn) => work(txn),
            None => Err(over()),
        })
    }

    /// Ends the transaction with `work`. After an error it goes on.
    fn end(&self, py: Python<'_>, work: impl FnOnce(&Txn) -> Result<()> + Send) -> PyResult<()> {
        call::run(py, || {
            let mut txn = self.0.lock().expect("no holder panics");
            work(txn.as_ref().ok_or_else(over)?)?;
            *txn = None;
            Ok(())
        })
    }
}

impl Drop for TransactionCell {
    fn drop(&mut self) {
        if let Ok(Some(txn)) = self.0.get_mut().map(Option::take) {
            drop(EngineHandle::new(txn));
        }
    }
}

/// A transaction. A context manager: its end commits, or rolls back after an exception.
#[pyclass(frozen, extends = PyWriter, name = "Transaction", module = "esker")]
pub(crate) struct PyTransaction;

fn reader<'a>(slf: &'a Bound<'_, PyTransaction>) -> PyResult<(&'a PyReader, &'a Arc<TransactionCell>)> {
    let reader = slf.as_super().as_super().get();
    reader.shared.check()?;
    match &reader.view {
        View::Transaction(cell) => Ok((reader, cell)),
        _ => unreachable!("a Transaction is made with the view of a transaction"),
    }
}

/// Begins a transaction on the database's default family.
pub(crate) fn begin<'py>(
    py: Python<'py>,
    shared: &Arc<OpenDb>,
    write: WriteOptions,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Bound<'py, PyTransaction>> {
    shared.check()?;
    let txn = match shared.kind() {
        OpenKind::Plain(_) => {
            return Err(crate::error::invalid(
                "the database was opened without transactions; open it with transactions=\"pessimistic\" or \
                 transactions=\"optimistic\"",
            ));
        }
        OpenKind::Pessimistic(db) => {
            let options = pessimistic_options(keywords)?;
            Txn::Pessimistic(call::run_infallible(py, || db.begin_transaction_opt(&write, &options)))
        }
        OpenKind::Optimistic(db) => {
            let options = optimistic_options(keywords)?;
            Txn::Optimistic(call::run_infallible(py, || Box::new(db.begin_transaction_opt(&write, &options))))
        }
    };
    let cell = Arc::new(TransactionCell(Mutex::new(Some(txn))));
    object(py, shared, shared.db().default_column_family(), cell)
}

fn object<'py>(
    py: Python<'py>,
    shared: &Arc<OpenDb>,
    family: ColumnFamilyHandle,
    cell: Arc<TransactionCell>,
) -> PyResult<Bound<'py, PyTransaction>> {
    let reader = PyReader::new(shared.clone(), family, View::Transaction(cell));
    Bound::new(py, PyClassInitializer::from(reader).add_subclass(PyWriter).add_subclass(PyTransaction))
}

fn isolation(text: &str) -> PyResult<IsolationLevel> {
    match text {
        "read_committed" => Ok(IsolationLevel::ReadCommitted),
        "snapshot" => Ok(IsolationLevel::Snapshot),
        "serializable" => Ok(IsolationLevel::Serializable),
        _ => Err(PyValueError::new_err(format!(
            "isolation is read_committed, snapshot or serializable, not '{text}'"
        ))),
    }
}

fn no_such_option(name: &str, kind: &str) -> PyErr {
    PyTypeError::new_err(format!("{kind} transactions have no option '{name}'"))
}

fn pessimistic_options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<TransactionOptions> {
    let mut options = TransactionOptions::default();
    for (name, value) in keywords.into_iter().flatten() {
        let name: String = name.extract()?;
        match name.as_str() {
            "isolation" => options.isolation = isolation(&value.extract::<String>()?)?,
            "set_snapshot" => options.set_snapshot = value.extract()?,
            "deadlock_detect" => options.deadlock_detect = value.extract()?,
            "deadlock_detect_depth" => options.deadlock_detect_depth = value.extract()?,
            "lock_timeout" => options.lock_timeout = value.extract()?,
            "expiration" => options.expiration = value.extract()?,
            "max_write_batch_size" => options.max_write_batch_size = value.extract()?,
            "skip_concurrency_control" => options.skip_concurrency_control = value.extract()?,
            _ => return Err(no_such_option(&name, "pessimistic")),
        }
    }
    Ok(options)
}

fn optimistic_options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<OptimisticTransactionOptions> {
    let mut options = OptimisticTransactionOptions::default();
    for (name, value) in keywords.into_iter().flatten() {
        let name: String = name.extract()?;
        match name.as_str() {
            "isolation" => options.isolation = isolation(&value.extract::<String>()?)?,
            "set_snapshot" => options.set_snapshot = value.extract()?,
            _ => return Err(no_such_option(&name, "optimistic")),
        }
    }
    Ok(options)
}

#[pymethods]
impl PyTransaction {
    /// The same transaction on another column family.
    fn cf<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyTransaction>> {
        let (reader, cell) = reader(slf)?;
        object(slf.py(), &reader.shared, family::find(&reader.shared, name)?, cell.clone())
    }

    /// Reads `key` and locks it. Optimistic transactions check at the commit that it is unchanged.
    #[pyo3(signature = (key, default=None, *, exclusive=true))]
    fn get_for_update<'py>(
        slf: &Bound<'py, Self>,
        key: BytesArg<'py>,
        default: Option<Bound<'py, PyAny>>,
        exclusive: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (reader, cell) = reader(slf)?;
        let key = key.get();
        let value = cell.run(slf.py(), |txn| txn.get_for_update(&reader.family, key, exclusive))?;
        Ok(value.map(|value| PyBytes::new(slf.py(), &value).into_any()).or(default))
    }

    /// Locks all keys from `start` to `end`, which belongs to the range, present or not.
    #[pyo3(signature = (start=None, end=None, *, exclusive=true))]
    fn lock_range(
        slf: &Bound<'_, Self>,
        start: Option<BytesArg<'_>>,
        end: Option<BytesArg<'_>>,
        exclusive: bool,
    ) -> PyResult<()> {
        let (reader, cell) = reader(slf)?;
        let begin = start.as_ref().map_or(Endpoint::Min, |key| Endpoint::Key(key.get()));
        let end = end.as_ref().map_or(Endpoint::Max, |key| Endpoint::Key(key.get()));
        let mode = if exclusive { LockMode::Exclusive } else { LockMode::Shared };
        cell.run(slf.py(), |txn| match txn {
            Txn::Pessimistic(txn) => txn.get_range_lock(&reader.family, begin, end, mode),
            Txn::Optimistic(_) => Err(Error::not_supported("optimistic transactions have no locks")),
        })
    }

    /// Takes a snapshot: keys that others have written since then cannot be written.
    fn set_snapshot(slf: &Bound<'_, Self>) -> PyResult<()> {
        reader(slf)?.1.run(slf.py(), |txn| {
            either!(txn, txn => txn.set_snapshot());
            Ok(())
        })
    }

    /// Marks the present state, for `rollback_to_save_point`.
    fn set_save_point(slf: &Bound<'_, Self>) -> PyResult<()> {
        reader(slf)?.1.run(slf.py(), |txn| {
            either!(txn, txn => txn.set_save_point());
            Ok(())
        })
    }

    /// Undoes the writes since the newest save point, and removes the save point.
    fn rollback_to_save_point(slf: &Bound<'_, Self>) -> PyResult<()> {
        reader(slf)?.1.run(slf.py(), |txn| either!(txn, txn => txn.rollback_to_save_point()))
    }

    /// Gives the transaction a name, for a two-phase commit.
    fn set_name(slf: &Bound<'_, Self>, name: BytesArg<'_>) -> PyResult<()> {
        let name = name.get();
        reader(slf)?.1.run(slf.py(), |txn| match txn {
            Txn::Pessimistic(txn) => txn.set_name(name),
            Txn::Optimistic(_) => Err(Error::not_supported("optimistic transactions have no names")),
        })
    }

    /// The first phase of a two-phase commit. The transaction needs a name.
    fn prepare(slf: &Bound<'_, Self>) -> PyResult<()> {
        reader(slf)?.1.run(slf.py(), |txn| match txn {
            Txn::Pessimistic(txn) => txn.prepare(),
            Txn::Optimistic(_) => Err(Error::not_supported("optimistic transactions cannot be prepared")),
        })
    }

    /// Makes the writes visible. After an error the transaction goes on, and can be rolled back.
    fn commit(slf: &Bound<'_, Self>) -> PyResult<()> {
        reader(slf)?.1.end(slf.py(), |txn| either!(txn, txn => txn.commit()))
    }

    /// Discards the writes and releases the locks.
    fn rollback(slf: &Bound<'_, Self>) -> PyResult<()> {
        reader(slf)?.1.end(slf.py(), |txn| either!(txn, txn => txn.rollback()))
    }

    /// Whether the transaction was committed or rolled back.
    #[getter]
    fn is_over(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let (_, cell) = reader(slf)?;
        Ok(call::run_infallible(slf.py(), || cell.0.lock().expect("no holder panics").is_none()))
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(slf: &Bound<'_, Self>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let failed = exception.get_item(0).is_ok_and(|kind| !kind.is_none());
        // The exception of the block says more than one of a rollback on a closed database.
        if failed && reader(slf).is_err() {
            return Ok(());
        }
        if PyTransaction::is_over(slf)? {
            return Ok(());
        }
        if failed {
            return PyTransaction::rollback(slf);
        }
        PyTransaction::commit(slf).inspect_err(|_| {
            // The commit's error counts, and a rollback releases the locks.
            drop(PyTransaction::rollback(slf));
        })
    }
}
