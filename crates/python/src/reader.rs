//! Class `Reader`: reads of one family, at present, in a snapshot or in a transaction.
//!
//! In: keys and ranges. Out: values, and iterators of `scan.rs`.

use crate::args::{BytesArg, set_read_options};
use crate::call::{self, EngineHandle};
use crate::scan::{PyEntries, RowRange, Rows, Want};
use crate::shared::OpenDb;
use crate::snapshot::SnapshotCell;
use crate::transaction::TransactionCell;
use crate::value::PyPinnedValue;
use esker::{ColumnFamilyHandle, PinnedBytes, ReadOptions};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PySlice};
use std::sync::{Arc, LazyLock};

/// The point in time that a reader sees.
pub(crate) enum View {
    /// The present.
    Live,
    Snapshot(Arc<SnapshotCell>),
    Transaction(Arc<TransactionCell>),
}

/// Options of a read of the present.
static LIVE: LazyLock<ReadOptions> = LazyLock::new(ReadOptions::default);

/// Reads of one column family: at present, in a snapshot or in a transaction.
#[pyclass(frozen, subclass, weakref, name = "Reader", module = "esker")]
pub(crate) struct PyReader {
    pub(crate) shared: Arc<OpenDb>,
    pub(crate) family: EngineHandle<ColumnFamilyHandle>,
    pub(crate) view: View,
}

impl PyReader {
    pub(crate) fn new(shared: Arc<OpenDb>, family: ColumnFamilyHandle, view: View) -> PyReader {
        PyReader { shared, family: EngineHandle::new(family), view }
    }

    /// The value of `key`, pinned.
    fn lookup(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<PinnedBytes>> {
        self.shared.check()?;
        let (db, family) = (self.shared.db(), &*self.family);
        match &self.view {
            View::Live => call::run(py, || db.get_pinned_opt(&LIVE, family, key)),
            View::Snapshot(cell) => {
                let options = cell.options()?;
                call::run(py, || db.get_pinned_opt(&options, family, key))
            }
            View::Transaction(cell) => cell.run(py, |txn| txn.get_pinned(family, key)),
        }
    }

    /// The value of `key` as `bytes`.
    pub(crate) fn value<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.lookup(py, key)?.map(|value| PyBytes::new(py, &value)))
    }

    /// An iterator over `span`.
    fn entries(
        &self,
        py: Python<'_>,
        span: &RowRange,
        want: Want,
        given: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyEntries> {
        self.shared.check()?;
        let (db, family) = (self.shared.db(), &*self.family);
        let mut options = match &self.view {
            View::Live => ReadOptions::default(),
            View::Snapshot(cell) => (**cell.options()?).clone(),
            View::Transaction(cell) => {
                if given.is_some_and(|given| !given.is_empty()) {
                    return Err(PyTypeError::new_err("an iterator of a transaction takes no read options"));
                }
                let rows = cell.run(py, |txn| Ok(txn.entries(family, span)))?;
                return Ok(PyEntries::new(self.shared.clone(), rows, want));
            }
        };
        set_read_options(&mut options, given)?;
        let rows = call::run_infallible(py, || -> Box<dyn Rows> {
            match span {
                RowRange::Prefix(prefix) => Box::new(db.prefix_opt(options, family, prefix)),
                RowRange::Range(range) => Box::new(db.range_opt(options, family, range.clone())),
            }
        });
        Ok(PyEntries::new(self.shared.clone(), rows, want))
    }

    fn one(&self, py: Python<'_>, reverse: bool) -> PyResult<Option<Py<PyAny>>> {
        let want = Want { keys: true, values: true, reverse, pinned: false };
        let entries = self.entries(py, &RowRange::all(), want, None)?;
        entries.next(py)
    }
}

#[pymethods]
impl PyReader {
    /// The value of `key`, or `default` if there is none.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: BytesArg<'py>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.value(py, key.get())?.map(Bound::into_any).or(default))
    }

    /// The value of `key` where the database keeps it, without a copy; `None` if there is none.
    fn get_pinned(&self, py: Python<'_>, key: BytesArg<'_>) -> PyResult<Option<PyPinnedValue>> {
        Ok(self.lookup(py, key.get())?.map(PyPinnedValue))
    }

    /// The values of `keys`, each `None` if absent. Reads each block once.
    fn multi_get<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        self.shared.check()?;
        let keys = keys.try_iter()?.map(|key| key?.extract()).collect::<PyResult<Vec<BytesArg<'_>>>>()?;
        let keys: Vec<&[u8]> = keys.iter().map(BytesArg::get).collect();
        let (db, family) = (self.shared.db(), &*self.family);
        let values = match &self.view {
            View::Live => call::run(py, || db.multi_get_opt(&LIVE, family, &keys).into_iter().collect()),
            View::Snapshot(cell) => {
                let options = cell.options()?;
                call::run(py, || db.multi_get_opt(&options, family, &keys).into_iter().collect())
            }
            View::Transaction(cell) => cell.run(py, |txn| txn.multi_get(family, &keys).into_iter().collect()),
        };
        let values: Vec<Option<PinnedBytes>> = values?;
        PyList::new(py, values.iter().map(|value| value.as_ref().map(|value| PyBytes::new(py, value))))
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let span = RowRange::of_slice(slice)?;
            let want = Want { keys: true, values: true, reverse: false, pinned: false };
            return Ok(Bound::new(py, self.entries(py, &span, want, None)?)?.into_any());
        }
        let bytes: BytesArg<'_> = key.extract()?;
        let value = self.value(py, bytes.get())?;
        value.map(Bound::into_any).ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __contains__(&self, py: Python<'_>, key: BytesArg<'_>) -> PyResult<bool> {
        Ok(self.lookup(py, key.get())?.is_some())
    }

    /// Keys and values from `start` up to `end`, exclusive, or below `prefix`, in the order of the
    /// keys or in reverse.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false, pinned=false, **read_options))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<BytesArg<'_>>,
        end: Option<BytesArg<'_>>,
        prefix: Option<BytesArg<'_>>,
        reverse: bool,
        pinned: bool,
        read_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyEntries> {
        let span = RowRange::new(&self.family, start, end, prefix)?;
        self.entries(py, &span, Want { keys: true, values: true, reverse, pinned }, read_options)
    }

    /// The keys of `items`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false, **read_options))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<BytesArg<'_>>,
        end: Option<BytesArg<'_>>,
        prefix: Option<BytesArg<'_>>,
        reverse: bool,
        read_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyEntries> {
        let span = RowRange::new(&self.family, start, end, prefix)?;
        self.entries(py, &span, Want { keys: true, values: false, reverse, pinned: false }, read_options)
    }

    /// The values of `items`.
    #[pyo3(signature = (start=None, end=None, *, prefix=None, reverse=false, pinned=false, **read_options))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn values(
        &self,
        py: Python<'_>,
        start: Option<BytesArg<'_>>,
        end: Option<BytesArg<'_>>,
        prefix: Option<BytesArg<'_>>,
        reverse: bool,
        pinned: bool,
        read_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyEntries> {
        let span = RowRange::new(&self.family, start, end, prefix)?;
        self.entries(py, &span, Want { keys: false, values: true, reverse, pinned }, read_options)
    }

    /// Shows the functions that the engine calls to the garbage collector, if this is the last
    /// object of its database. While there are others, the collector may not end the database.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match Arc::strong_count(&self.shared) {
            1 => self.shared.plugins().traverse(&visit),
            _ => Ok(()),
        }
    }

    /// Breaks a cycle through a function that the engine calls: closes the database, and gives up
    /// its functions.
    fn __clear__(&self) {
        if Arc::strong_count(&self.shared) == 1 {
            Python::attach(|py| OpenDb::end(&self.shared, py));
        }
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<PyEntries> {
        self.keys(py, None, None, None, false, None)
    }

    /// The first key and its value; `None` if there are no keys.
    fn first(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.one(py, false)
    }

    /// The last key and its value; `None` if there are no keys.
    fn last(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.one(py, true)
    }

    fn __len__(&self) -> PyResult<usize> {
        Err(PyTypeError::new_err(
            "len() would have to read every key; use estimate_num_keys(), or count: sum(1 for _ in db.keys())",
        ))
    }

    /// True, also for a database without keys.
    fn __bool__(&self) -> bool {
        true
    }

    /// The name of the column family.
    #[getter]
    fn name(&self) -> &str {
        self.family.name()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let this = slf.get();
        let state = if this.shared.is_closed() { ", closed" } else { "" };
        let (class, path) = (slf.get_type().name()?, this.shared.path.display());
        Ok(format!("<esker.{class} '{}' of {path}{state}>", this.family.name()))
    }
}
