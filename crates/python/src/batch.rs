//! Class `WriteBatch`: changes that take effect together.

use crate::args::BytesArg;
use crate::call::{self, EngineHandle};
use crate::error;
use crate::family;
use crate::shared::OpenDb;
use esker::{ColumnFamilyHandle, WriteBatch as EngineBatch, WriteOptions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Arc, Mutex, MutexGuard};

/// The changes. A holder of the mutex keeps the GIL, and runs no Python code.
struct BatchCell {
    batch: Mutex<EngineBatch>,
    options: WriteOptions,
}

/// Changes of several keys and families, all or none of which take effect. A context manager: its
/// end writes the changes, or discards them after an exception.
#[pyclass(frozen, weakref, name = "WriteBatch", module = "esker")]
pub(crate) struct PyWriteBatch {
    shared: Arc<OpenDb>,
    family: EngineHandle<ColumnFamilyHandle>,
    cell: Arc<BatchCell>,
}

impl PyWriteBatch {
    pub(crate) fn new(
        shared: Arc<OpenDb>,
        family: ColumnFamilyHandle,
        options: WriteOptions,
    ) -> PyWriteBatch {
        let cell = Arc::new(BatchCell { batch: Mutex::new(EngineBatch::new()), options });
        PyWriteBatch { shared, family: EngineHandle::new(family), cell }
    }

    fn lock(&self) -> MutexGuard<'_, EngineBatch> {
        self.cell.batch.lock().expect("no holder panics")
    }

    /// Changes the batch.
    fn edit<T>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut EngineBatch, &ColumnFamilyHandle) -> esker::Result<T>,
    ) -> PyResult<T> {
        self.shared.check()?;
        let changed = change(&mut self.lock(), &self.family);
        changed.map_err(|error| error::exception(py, &error))
    }
}

#[pymethods]
impl PyWriteBatch {
    /// Stores `value` under `key`.
    fn put(&self, py: Python<'_>, key: BytesArg<'_>, value: BytesArg<'_>) -> PyResult<()> {
        self.edit(py, |batch, family| batch.put_cf(family, key.get(), value.get()))
    }

    /// Removes `key`.
    fn delete(&self, py: Python<'_>, key: BytesArg<'_>) -> PyResult<()> {
        self.edit(py, |batch, family| batch.delete_cf(family, key.get()))
    }

    /// Adds an operand for the merge operator to `key`.
    fn merge(&self, py: Python<'_>, key: BytesArg<'_>, operand: BytesArg<'_>) -> PyResult<()> {
        self.edit(py, |batch, family| batch.merge_cf(family, key.get(), operand.get()))
    }

    /// Removes all keys from `begin` up to `end`, exclusive.
    fn delete_range(&self, py: Python<'_>, begin: BytesArg<'_>, end: BytesArg<'_>) -> PyResult<()> {
        self.edit(py, |batch, family| batch.delete_range_cf(family, begin.get(), end.get()))
    }

    fn __setitem__(&self, py: Python<'_>, key: BytesArg<'_>, value: BytesArg<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    fn __delitem__(&self, py: Python<'_>, key: BytesArg<'_>) -> PyResult<()> {
        self.delete(py, key)
    }

    /// The same batch; changes through the returned object go to another column family.
    fn cf(&self, name: &str) -> PyResult<PyWriteBatch> {
        let family = EngineHandle::new(family::find(&self.shared, name)?);
        Ok(PyWriteBatch { shared: self.shared.clone(), family, cell: self.cell.clone() })
    }

    /// Marks the present state, for `rollback_to_save_point`.
    fn set_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.edit(py, |batch, _| {
            batch.set_save_point();
            Ok(())
        })
    }

    /// Removes the changes since the newest save point, and the save point.
    fn rollback_to_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.edit(py, |batch, _| batch.rollback_to_save_point())
    }

    /// Removes all changes.
    fn clear(&self) -> PyResult<()> {
        self.shared.check_place()?;
        self.lock().clear();
        Ok(())
    }

    /// Writes the changes. The batch is empty afterwards; after an error it keeps them.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check()?;
        let mut batch = std::mem::take(&mut *self.lock());
        let result = call::run(py, || self.shared.write(&self.cell.options, &mut batch));
        if result.is_err() {
            let mut since = self.lock();
            // Other threads may have added changes during the write. If the batch cannot hold them
            // too, they are lost. The caller gets the error of the write.
            drop(batch.append(&since));
            *since = batch;
        }
        result
    }

    /// Number of changes.
    fn __len__(&self) -> PyResult<usize> {
        self.shared.check_place()?;
        Ok(self.lock().count() as usize)
    }

    /// The size of the changes in bytes, as the WAL gets them.
    #[getter]
    fn data_size(&self) -> PyResult<usize> {
        self.shared.check_place()?;
        Ok(self.lock().data_size())
    }

    fn __contains__(&self, _key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Err(PyTypeError::new_err("a batch cannot be read; use a transaction"))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        if exception.get_item(0).is_ok_and(|kind| !kind.is_none()) {
            return self.clear();
        }
        self.write(py)
    }
}
