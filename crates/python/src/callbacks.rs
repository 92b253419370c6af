//! Merge operators, compaction filters and comparators in Python.
//!
//! In: objects of `esker/_plugins.py`, which have a name and functions. Out: the engine's traits.
//! Functions run with the GIL, on the thread of the call or on a background thread.
//!
//! An exception of a merge operator makes the read or compaction fail. After an exception of a
//! filter the entry stays. An exception of a comparator has no order to give: the engine goes on in
//! byte order, and the database refuses all further calls ([`Failure`]).

use crate::call;
use esker::compaction_filter::{CompactionFilter, FilterDecision};
use esker::comparator::Comparator;
use esker::merge_operator::MergeOperator;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicBool};
use std::sync::{Arc, Mutex};

/// A function of a plug-in, until the garbage collector takes it. The engine owns the function;
/// [`PyReader`](crate::reader::PyReader) shows it to the collector. A holder of the mutex keeps the
/// GIL, and runs no Python code.
pub(crate) struct PythonFunction(Mutex<Option<Py<PyAny>>>);

impl PythonFunction {
    fn new(function: Py<PyAny>) -> Arc<PythonFunction> {
        Arc::new(PythonFunction(Mutex::new(Some(function))))
    }

    /// Runs the function for the engine: [`call::callback`]. `None` after the collector took it.
    fn run<T>(
        &self,
        body: impl for<'py> FnOnce(Python<'py>, &Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        call::callback(
            |py| self.0.lock().ok()?.as_ref().map(|function| function.clone_ref(py).into_bound(py)),
            body,
        )
    }

    /// Shows the function to the garbage collector.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0.try_lock().map_or(Ok(()), |function| visit.call(&*function))
    }

    /// Gives up the function.
    fn clear(&self) {
        let function = self.0.lock().map(|mut function| function.take());
        drop(function);
    }
}

/// The plug-ins in Python of a database.
#[derive(Clone, Default)]
pub(crate) struct Plugins {
    pub(crate) failure: Arc<ComparatorFailure>,
    /// A holder of the mutex keeps the GIL, and runs no Python code.
    callbacks: Arc<Mutex<Vec<Arc<PythonFunction>>>>,
}

impl Plugins {
    /// Notes functions that the engine owns from now on.
    pub(crate) fn note(&self, functions: impl Iterator<Item = Arc<PythonFunction>>) {
        if let Ok(mut callbacks) = self.callbacks.lock() {
            callbacks.extend(functions);
        }
    }

    /// Shows the functions to the garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(callbacks) = self.callbacks.try_lock() else { return Ok(()) };
        callbacks.iter().try_for_each(|callback| callback.traverse(visit))
    }

    /// Gives up the functions of a closed database.
    pub(crate) fn clear(&self) {
        let callbacks = self.callbacks.lock().map(|mut callbacks| std::mem::take(&mut *callbacks));
        callbacks.unwrap_or_default().iter().for_each(|callback| callback.clear());
    }
}

/// Says that a comparator has raised, so the order in memory may be wrong.
#[derive(Default)]
pub(crate) struct ComparatorFailure(AtomicBool);

impl ComparatorFailure {
    /// Whether a comparator has raised.
    pub(crate) fn has_happened(&self) -> bool {
        self.0.load(atomic::Ordering::Relaxed)
    }
}

/// The name of `plugin`, which OPTIONS files can hold.
fn name_of(plugin: &Bound<'_, PyAny>) -> PyResult<String> {
    let name: String = plugin.getattr("name")?.extract()?;
    let is_plain = |c: char| !c.is_control() && !"{};=\\#\"".contains(c);
    if name.is_empty() || name == "nullptr" || name.trim() != name || !name.chars().all(is_plain) {
        return Err(PyValueError::new_err(format!(
            "the name {name:?} cannot stand in an OPTIONS file: use letters, digits, dots and spaces between them"
        )));
    }
    Ok(name)
}

/// The function `name` of `plugin`; `None` if it is `None`.
fn function_of(plugin: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    let function = plugin.getattr(name)?;
    Ok(if function.is_none() { None } else { Some(function.unbind()) })
}

fn required(plugin: &Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyAny>> {
    function_of(plugin, name)?.ok_or_else(|| PyTypeError::new_err(format!("{name} is None")))
}

fn bytes_of(result: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(result.extract::<crate::args::BytesArg<'_>>()?.get().to_vec())
}

/// A merge operator in Python.
pub(crate) struct PyMergeOperator {
    name: String,
    full_merge: Arc<PythonFunction>,
    partial_merge: Option<Arc<PythonFunction>>,
}

impl PyMergeOperator {
    pub(crate) fn new(plugin: &Bound<'_, PyAny>) -> PyResult<PyMergeOperator> {
        Ok(PyMergeOperator {
            name: name_of(plugin)?,
            full_merge: PythonFunction::new(required(plugin, "full_merge")?),
            partial_merge: function_of(plugin, "partial_merge")?.map(PythonFunction::new),
        })
    }
}

impl PyMergeOperator {
    /// The functions, for the garbage collector.
    pub(crate) fn callbacks(&self) -> impl Iterator<Item = Arc<PythonFunction>> {
        [Some(&self.full_merge), self.partial_merge.as_ref()].into_iter().flatten().cloned()
    }
}

impl MergeOperator for PyMergeOperator {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.full_merge.run(|py, function| {
            let existing = existing.map(|value| PyBytes::new(py, value));
            let operands = PyList::new(py, operands.iter().map(|operand| PyBytes::new(py, operand)))?;
            bytes_of(&function.call1((PyBytes::new(py, key), existing, operands))?)
        })
    }

    fn partial_merge(&self, key: &[u8], left: &[u8], right: &[u8]) -> Option<Vec<u8>> {
        let merged = self.partial_merge.as_ref()?.run(|py, function| {
            let [key, left, right] = [key, left, right].map(|bytes| PyBytes::new(py, bytes));
            let merged = function.call1((key, left, right))?;
            if merged.is_none() { Ok(None) } else { bytes_of(&merged).map(Some) }
        });
        merged.flatten()
    }
}

/// A compaction filter in Python.
pub(crate) struct PyCompactionFilter {
    name: String,
    filter: Arc<PythonFunction>,
}

impl PyCompactionFilter {
    pub(crate) fn new(plugin: &Bound<'_, PyAny>) -> PyResult<PyCompactionFilter> {
        Ok(PyCompactionFilter {
            name: name_of(plugin)?,
            filter: PythonFunction::new(required(plugin, "filter")?),
        })
    }
}

/// The decision that a filter's answer means: `None` keeps, `esker.REMOVE` removes, bytes replace
/// the value, and `esker.RemoveUntil(key)` removes and skips to a key.
fn decision(answer: &Bound<'_, PyAny>) -> PyResult<FilterDecision> {
    if answer.is_none() {
        return Ok(FilterDecision::Keep);
    }
    let plugins = answer.py().import("esker._plugins")?;
    if answer.is(plugins.getattr("REMOVE")?) {
        return Ok(FilterDecision::Remove);
    }
    if answer.is_instance(&plugins.getattr("RemoveUntil")?)? {
        return Ok(FilterDecision::RemoveAndSkipUntil(bytes_of(&answer.getattr("key")?)?));
    }
    bytes_of(answer).map(FilterDecision::ChangeValue).map_err(|_| {
        PyTypeError::new_err("a compaction filter returns None, esker.REMOVE, esker.RemoveUntil or new bytes")
    })
}

impl PyCompactionFilter {
    /// The function, for the garbage collector.
    pub(crate) fn callbacks(&self) -> impl Iterator<Item = Arc<PythonFunction>> {
        [self.filter.clone()].into_iter()
    }
}

impl CompactionFilter for PyCompactionFilter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> FilterDecision {
        let decided = self.filter.run(|py, function| {
            let arguments = (level, PyBytes::new(py, key), PyBytes::new(py, value));
            decision(&function.call1(arguments)?)
        });
        decided.unwrap_or(FilterDecision::Keep)
    }
}

/// A comparator in Python.
pub(crate) struct PyComparator {
    name: String,
    compare: Arc<PythonFunction>,
    failure: Arc<ComparatorFailure>,
}

impl PyComparator {
    pub(crate) fn new(plugin: &Bound<'_, PyAny>, failure: Arc<ComparatorFailure>) -> PyResult<PyComparator> {
        let compare = PythonFunction::new(required(plugin, "compare")?);
        Ok(PyComparator { name: name_of(plugin)?, compare, failure })
    }

    /// The function, for the garbage collector.
    pub(crate) fn callbacks(&self) -> impl Iterator<Item = Arc<PythonFunction>> {
        [self.compare.clone()].into_iter()
    }
}

/// The order that a comparator's answer means: a negative number, zero or a positive number.
fn order(answer: &Bound<'_, PyAny>) -> PyResult<Ordering> {
    if let Ok(number) = answer.extract::<i64>() {
        return Ok(number.cmp(&0));
    }
    // Floats, and integers of more than 64 bits.
    if answer.lt(0)? {
        Ok(Ordering::Less)
    } else if answer.gt(0)? {
        Ok(Ordering::Greater)
    } else if answer.eq(0)? {
        Ok(Ordering::Equal)
    } else {
        Err(PyTypeError::new_err("a comparator returns a negative number, zero or a positive number"))
    }
}

impl Comparator for PyComparator {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // The engine relies on the equality of equal bytes.
        if a == b {
            return Ordering::Equal;
        }
        let ordered = self.compare.run(|py, function| {
            let arguments = PyTuple::new(py, [PyBytes::new(py, a), PyBytes::new(py, b)])?;
            order(&function.call1(arguments)?)
        });
        ordered.unwrap_or_else(|| {
            self.failure.0.store(true, atomic::Ordering::Relaxed);
            a.cmp(b)
        })
    }
}
