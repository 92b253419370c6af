//! Class `PinnedValue`: a value where the database keeps it.
//!
//! In: pinned bytes of the engine. Out: Python's buffer protocol, without a copy.

use esker::PinnedBytes;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;

/// A value that is not copied. It supports the buffer protocol: `memoryview(value)`. It keeps a
/// block or memtable in memory, also after a close of the database.
#[pyclass(frozen, weakref, name = "PinnedValue", module = "esker")]
pub(crate) struct PyPinnedValue(pub(crate) PinnedBytes);

#[pymethods]
impl PyPinnedValue {
    /// Fills a view of the bytes.
    /// # Safety
    /// `view` points to a `Py_buffer` that the call may overwrite.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes: &[u8] = &slf.get().0;
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        let len = ffi::Py_ssize_t::try_from(len)?;
        // SAFETY: the bytes stay in place and unchanged while `slf` lives, and the view takes a
        // reference to `slf`. The view is read-only (1).
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bool__(&self) -> bool {
        !self.0.is_empty()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.extract::<crate::args::BytesArg<'_>>().is_ok_and(|other| other.get() == &*self.0)
    }

    /// The hash of the same `bytes`.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.__bytes__(py).hash()
    }

    fn __repr__(&self) -> String {
        format!("<esker.PinnedValue of {} bytes>", self.0.len())
    }
}
