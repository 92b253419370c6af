//! Errors of the engine as exceptions.
//!
//! In: an [`esker::Error`]. Out: an exception of the class for its kind, from `esker/_errors.py`.

use crate::call;
use esker::{Error, ErrorKind, SubCode};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// `make(kind, sub-code, message, severity, retryable)` of `esker/_errors.py`.
static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for `error`. The exception of a callback becomes its cause. If the callback was
/// interrupted, its exception is the result.
#[cold]
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    // The code below may run finalizers, which may call the engine.
    let raised = call::take_raised();
    let parts = (
        format!("{:?}", error.kind()),
        match error.subcode() {
            SubCode::None => String::new(),
            subcode => format!("{subcode:?}"),
        },
        error.message(),
        format!("{:?}", error.severity()),
        error.is_retryable(),
    );
    let made = MAKE
        .get_or_try_init(py, || -> PyResult<_> { Ok(py.import("esker._errors")?.getattr("make")?.unbind()) })
        .and_then(|make| make.bind(py).call1(parts));
    match made {
        Ok(made) => {
            let exception = PyErr::from_value(made);
            match raised {
                // An interrupt or an exit goes on to the caller.
                Some(cause) if !cause.is_instance_of::<PyException>(py) => return cause,
                Some(cause) => exception.set_cause(py, Some(cause)),
                None => {}
            }
            exception
        }
        Err(instead) => instead,
    }
}

/// The exception of this kind.
#[cold]
pub(crate) fn of_kind(kind: ErrorKind, message: impl Into<String>) -> PyErr {
    let error = Error::new(kind, message);
    Python::attach(|py| exception(py, &error))
}

/// An `esker.InvalidArgument`.
#[cold]
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    of_kind(ErrorKind::InvalidArgument, message)
}

/// An `esker.NotSupported`.
#[cold]
pub(crate) fn not_supported(message: impl Into<String>) -> PyErr {
    of_kind(ErrorKind::NotSupported, message)
}

/// An `esker.Closed` with this message.
#[cold]
pub(crate) fn closed(message: String) -> PyErr {
    let raise = |py: Python<'_>| -> PyResult<PyErr> {
        let class = py.import("esker._errors")?.getattr("Closed")?;
        let keywords = PyDict::new(py);
        keywords.set_item("code", "ShutdownInProgress")?;
        Ok(PyErr::from_value(class.call((message,), Some(&keywords))?))
    };
    Python::attach(|py| raise(py).unwrap_or_else(|instead| instead))
}
