//! Class `Snapshot`: reads as of one point in time.

use crate::call::EngineHandle;
use crate::error;
use crate::reader::{PyReader, View};
use esker::{ReadOptions, Snapshot as EngineSnapshot};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex};

/// A snapshot, until it is released. A holder of the mutex keeps the GIL, and runs no Python code.
pub(crate) struct SnapshotCell(Mutex<Option<Arc<EngineHandle<ReadOptions>>>>);

impl SnapshotCell {
    pub(crate) fn new(snapshot: &EngineSnapshot) -> Arc<SnapshotCell> {
        let options = ReadOptions::new().snapshot(snapshot);
        Arc::new(SnapshotCell(Mutex::new(Some(Arc::new(EngineHandle::new(options))))))
    }

    /// Options of a read in the snapshot.
    pub(crate) fn options(&self) -> PyResult<Arc<EngineHandle<ReadOptions>>> {
        let options = self.0.lock().expect("no holder panics").clone();
        options.ok_or_else(|| error::closed("the snapshot is released".to_owned()))
    }
}

/// A database as of one point in time. A context manager: its end releases the snapshot.
#[pyclass(frozen, extends = PyReader, name = "Snapshot", module = "esker")]
pub(crate) struct PySnapshot;

impl PySnapshot {
    pub(crate) fn of(reader: PyReader) -> PyClassInitializer<PySnapshot> {
        PyClassInitializer::from(reader).add_subclass(PySnapshot)
    }
}

fn cell<'a>(slf: &'a Bound<'_, PySnapshot>) -> &'a Arc<SnapshotCell> {
    match &slf.as_super().get().view {
        View::Snapshot(cell) => cell,
        _ => unreachable!("a Snapshot is made with the view of a snapshot"),
    }
}

#[pymethods]
impl PySnapshot {
    /// The same snapshot of another column family.
    fn cf<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PySnapshot>> {
        let reader = slf.as_super().get();
        let family = crate::family::find(&reader.shared, name)?;
        let view = View::Snapshot(cell(slf).clone());
        Bound::new(slf.py(), PySnapshot::of(PyReader::new(reader.shared.clone(), family, view)))
    }

    /// The sequence number of the newest write that the snapshot shows.
    #[getter]
    fn sequence_number(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(cell(slf).options()?.snapshot.as_ref().map_or(0, |snapshot| snapshot.sequence().0))
    }

    /// Releases the snapshot: compactions may drop the versions that only it shows.
    fn release(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.as_super().get().shared.check_place()?;
        let options = cell(slf).0.lock().expect("no holder panics").take();
        drop(options);
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        PySnapshot::release(slf)
    }
}
