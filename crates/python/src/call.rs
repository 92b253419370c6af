//! Calls of the engine without the GIL.
//!
//! In: work for the engine. Out: its result, with errors as exceptions.

use crate::error;
use crate::later;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The state of a thread. Calls do not nest, since callbacks may not call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    InCall,
    /// In a call, and a callback has raised.
    HasRaised,
}

thread_local! {
    /// Whether this thread waits for the engine on behalf of Python code.
    static STATE: Cell<State> = const { Cell::new(State::Outside) };
    /// Whether this thread runs a callback in Python for the engine.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    /// The exception of a callback, which becomes the cause of the call's exception.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Counts forks from now on, so that children can refuse calls.
pub(crate) fn watch_forks(py: Python<'_>) -> PyResult<()> {
    #[pyfunction]
    fn after_fork() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    let keywords = PyDict::new(py);
    keywords.set_item("after_in_child", pyo3::wrap_pyfunction!(after_fork, py)?)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&keywords)).map(drop)
}

/// A number of this process, for [`check_place`]: the forks since the first process.
pub(crate) fn process() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// A number of this thread, never 0. A later thread may have the same one.
pub(crate) fn thread() -> usize {
    STATE.with(|state| std::ptr::from_ref(state).addr())
}

/// Whether this thread runs a callback in Python for the engine.
pub(crate) fn is_in_callback() -> bool {
    IN_CALLBACK.get()
}

/// Checks that the caller is in the process that made the object, and in no callback.
pub(crate) fn check_place(made_in: u64) -> PyResult<()> {
    if made_in != process() {
        return Err(error::not_supported(
            "the database was opened before a fork, and a forked child cannot use it; open it in the child \
             after the parent has closed it, or open it with mode=\"r\"",
        ));
    }
    if is_in_callback() {
        return Err(PyRuntimeError::new_err(
            "a merge operator, compaction filter or comparator must not call the database",
        ));
    }
    Ok(())
}

/// Result of a call of the engine. A caller that holds a mutex lets it go before
/// [`CallOutcome::finish`].
#[must_use]
pub(crate) struct CallOutcome<T> {
    result: esker::Result<T>,
    has_raised: bool,
}

impl<T> CallOutcome<T> {
    /// The value or the exception. Making the exception, or reporting a callback's, runs Python
    /// code.
    #[inline]
    pub(crate) fn finish(self, py: Python<'_>) -> PyResult<T> {
        match self.result {
            Ok(value) => {
                if self.has_raised {
                    report_raised(py);
                }
                Ok(value)
            }
            Err(error) => Err(error::exception(py, &error)),
        }
    }
}

/// Runs `work` of the engine without the GIL, and makes no exception.
#[inline]
pub(crate) fn attempt<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> esker::Result<T> + Send,
) -> CallOutcome<T> {
    let (result, has_raised) = py.detach(|| on_behalf(work));
    CallOutcome { result, has_raised }
}

/// Runs `work` of the engine without the GIL.
#[inline]
pub(crate) fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> esker::Result<T> + Send) -> PyResult<T> {
    attempt(py, work).finish(py)
}

/// Runs `work` of the engine without the GIL. The work has no error.
pub(crate) fn run_infallible<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (result, has_raised) = py.detach(|| on_behalf(work));
    if has_raised {
        report_raised(py);
    }
    result
}

/// Runs `work` and marks this thread meanwhile, so that callbacks leave their exceptions in
/// [`RAISED`]. Returns whether a callback has raised.
#[inline]
fn on_behalf<T>(work: impl FnOnce() -> T) -> (T, bool) {
    STATE.set(State::InCall);
    let result = work();
    (result, STATE.replace(State::Outside) == State::HasRaised)
}

/// Hands the exception of a callback to `sys.unraisablehook`, because the engine call around it has
/// succeeded.
#[cold]
fn report_raised(py: Python<'_>) {
    if let Some(raised) = take_raised() {
        raised.write_unraisable(py, None);
    }
}

/// Runs a callback in Python for the engine, with the GIL. `None` after an exception, or without a
/// function. The exception is left for the engine call under which the callback runs. Without a
/// call, `sys.unraisablehook` gets the exception.
pub(crate) fn callback<T>(
    function: impl for<'py> FnOnce(Python<'py>) -> Option<Bound<'py, PyAny>>,
    body: impl for<'py> FnOnce(Python<'py>, &Bound<'py, PyAny>) -> PyResult<T>,
) -> Option<T> {
    // The attachment, the hook and the drop of the function may run finalizers, too.
    let before = IN_CALLBACK.replace(true);
    let value = Python::try_attach(|py| {
        let function = &function(py)?;
        match body(py, function) {
            Ok(value) => Some(value),
            Err(raised) => {
                if STATE.get() == State::Outside {
                    raised.write_unraisable(py, Some(function));
                } else {
                    RAISED.set(Some(raised));
                    STATE.set(State::HasRaised);
                }
                None
            }
        }
    });
    IN_CALLBACK.set(before);
    value.flatten()
}

/// The exception that a callback of this thread has raised since the last call.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// A handle of the engine. Its drop runs without the GIL, and outside of callbacks.
pub(crate) struct EngineHandle<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> EngineHandle<T> {
    pub(crate) fn new(value: T) -> EngineHandle<T> {
        EngineHandle(Some(value))
    }
}

impl<T: Send + 'static> Deref for EngineHandle<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("a handle is empty only while it is dropped")
    }
}

impl<T: Send + 'static> DerefMut for EngineHandle<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a handle is empty only while it is dropped")
    }
}

impl<T: Send + 'static> Drop for EngineHandle<T> {
    fn drop(&mut self) {
        let mut value = self.0.take();
        if is_in_callback() {
            return later::run(move || drop(value));
        }
        // Without an interpreter, or while it ends, there is no GIL to give up.
        Python::try_attach(|py| {
            let value = value.take();
            py.detach(|| drop(value));
        });
    }
}
