//! Class `Entries`: an iterator over a range of keys.
//!
//! In: a range of the engine. Out: Python objects, one at a time. Rows come in chunks, so that many
//! rows share one release of the GIL. The first chunk is small: an iterator from which a program
//! takes one row reads eight.

use crate::args::BytesArg;
use crate::call::{self, CallOutcome, EngineHandle};
use crate::shared::OpenDb;
use crate::value::PyPinnedValue;
use esker::comparator::KeyOrder;
use esker::{ColumnFamilyHandle, EntryCursor, PinnedBytes, Result};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice, PyType};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Rows of the first chunk.
const FIRST_ROWS: usize = 8;
/// Most rows of a chunk.
const MOST_ROWS: usize = 1024;
/// Most rows of a chunk of pinned values, each of which holds a block in memory.
const MOST_PINNED: usize = 64;
/// A chunk ends after this many bytes.
const CHUNK_BYTES: usize = 128 << 10;

/// Two ends, in the form that the engine takes.
type Range = (std::ops::Bound<Vec<u8>>, std::ops::Bound<Vec<u8>>);

/// The keys to read.
pub(crate) enum RowRange {
    Prefix(Vec<u8>),
    Range(Range),
}

impl RowRange {
    pub(crate) fn all() -> RowRange {
        RowRange::Range((Unbounded, Unbounded))
    }

    /// The keys from `start` up to `end`, exclusive, that begin with `prefix`.
    pub(crate) fn new(
        family: &ColumnFamilyHandle,
        start: Option<BytesArg<'_>>,
        end: Option<BytesArg<'_>>,
        prefix: Option<BytesArg<'_>>,
    ) -> PyResult<RowRange> {
        let [start, end, prefix] = [start, end, prefix].map(|bytes| bytes.map(|bytes| bytes.get().to_vec()));
        let Some(prefix) = prefix else {
            return Ok(RowRange::Range((start.map_or(Unbounded, Included), end.map_or(Unbounded, Excluded))));
        };
        if start.is_none() && end.is_none() {
            return Ok(RowRange::Prefix(prefix));
        }
        if family.comparator().order() != KeyOrder::Bytewise {
            return Err(PyValueError::new_err("prefix with start or end needs keys in byte order"));
        }
        let after = after_prefix(&prefix);
        let end = match (end, after) {
            (Some(end), Some(after)) => Some(end.min(after)),
            (end, after) => end.or(after),
        };
        let start = start.map_or(prefix.clone(), |start| start.max(prefix));
        Ok(RowRange::Range((Included(start), end.map_or(Unbounded, Excluded))))
    }

    /// The keys of `db[start:end]`.
    pub(crate) fn of_slice(slice: &Bound<'_, PySlice>) -> PyResult<RowRange> {
        if !slice.getattr("step")?.is_none() {
            return Err(PyTypeError::new_err(
                "a slice of keys has no step; use items(start, end, reverse=True)",
            ));
        }
        let end = |name: &str| -> PyResult<Option<Vec<u8>>> {
            let end = slice.getattr(name)?;
            if end.is_none() { Ok(None) } else { Ok(Some(end.extract::<BytesArg<'_>>()?.get().to_vec())) }
        };
        let (start, stop) = (end("start")?, end("stop")?);
        Ok(RowRange::Range((start.map_or(Unbounded, Included), stop.map_or(Unbounded, Excluded))))
    }
}

/// The first key behind all keys that begin with `prefix`, in byte order; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// The parts of each row, and the direction.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    pub(crate) keys: bool,
    pub(crate) values: bool,
    pub(crate) reverse: bool,
    pub(crate) pinned: bool,
}

/// Rows that the iterator has not given yet.
#[derive(Default)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    /// For each row, the ends of its key and of its value in `bytes`.
    ends: Vec<(usize, usize)>,
    pins: Vec<PinnedBytes>,
    /// The next row.
    at: usize,
}

/// A range of the engine, with a database's or a transaction's cursor.
pub(crate) trait Rows: Send {
    /// Reads up to `rows` rows into an empty chunk. Returns whether the range has ended.
    fn fill(&mut self, chunk: &mut Chunk, rows: usize, want: Want) -> Result<bool>;
}

impl<C: EntryCursor + Send> Rows for esker::Entries<C> {
    fn fill(&mut self, chunk: &mut Chunk, rows: usize, want: Want) -> Result<bool> {
        while chunk.ends.len() < rows && chunk.bytes.len() < CHUNK_BYTES {
            if want.pinned {
                let row = if want.reverse { self.next_back() } else { self.next() };
                let Some((key, value)) = row.transpose()? else { return Ok(true) };
                chunk.bytes.extend_from_slice(&key);
                chunk.ends.push((chunk.bytes.len(), chunk.bytes.len()));
                chunk.pins.push(value);
                continue;
            }
            let row = if want.reverse { self.next_item_back()? } else { self.next_item()? };
            let Some((key, value)) = row else { return Ok(true) };
            if want.keys {
                chunk.bytes.extend_from_slice(key);
            }
            let key_end = chunk.bytes.len();
            if want.values {
                chunk.bytes.extend_from_slice(value);
            }
            chunk.ends.push((key_end, chunk.bytes.len()));
        }
        Ok(false)
    }
}

struct State {
    /// `None` after the end of the range, or after an error.
    rows: Option<EngineHandle<Box<dyn Rows>>>,
    chunk: Chunk,
    /// Rows of the next chunk.
    next_rows: usize,
}

/// An iterator over a range of keys, as of one point in time.
#[pyclass(frozen, weakref, name = "Entries", module = "esker")]
pub(crate) struct PyEntries {
    shared: Arc<OpenDb>,
    want: Want,
    /// Threads wait for the mutex without the GIL. A holder runs Python code in `refill` only.
    state: Mutex<State>,
    /// The thread in `refill`, as [`call::thread`] names it; 0 for none.
    refilled_by: AtomicUsize,
}

impl PyEntries {
    pub(crate) fn new(shared: Arc<OpenDb>, rows: Box<dyn Rows>, want: Want) -> PyEntries {
        let rows = Some(EngineHandle::new(rows));
        PyEntries {
            shared,
            want,
            state: Mutex::new(State { rows, chunk: Chunk::default(), next_rows: FIRST_ROWS }),
            refilled_by: AtomicUsize::new(0),
        }
    }

    /// Locks the state. Waits for the calls of other threads.
    /// # Errors
    /// A finalizer calls the iterator while its thread is in another call of the iterator.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return Ok(state),
                Err(TryLockError::Poisoned(_)) => unreachable!("no holder panics"),
                Err(TryLockError::WouldBlock)
                    if self.refilled_by.load(Ordering::Relaxed) == call::thread() =>
                {
                    return Err(PyRuntimeError::new_err("this thread is in a call of the same iterator"));
                }
                // The thread releases the mutex before it takes the GIL again: finalizers may run
                // at that point.
                Err(TryLockError::WouldBlock) => py.detach(|| drop(self.state.lock())),
            }
        }
    }

    /// The next row as a Python object; `None` at the end.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.shared.check()?;
        let (row, filled) = {
            let mut state = self.lock(py)?;
            let filled = state.needs_rows().then(|| self.refill(py, &mut state));
            (state.chunk.take(py, self.want), filled)
        };
        // The mutex is free: exceptions and tuples may run finalizers.
        filled.map_or(Ok(()), |filled| filled.finish(py))?;
        row.map(|row| row.into_object(py)).transpose()
    }

    /// Reads the next chunk, empty after an error.
    fn refill(&self, py: Python<'_>, state: &mut State) -> CallOutcome<()> {
        self.refilled_by.store(call::thread(), Ordering::Relaxed);
        let filled = call::attempt(py, || state.fill(self.want));
        self.refilled_by.store(0, Ordering::Relaxed);
        filled
    }
}

impl State {
    /// Whether the next row is in a chunk that was not read yet.
    fn needs_rows(&self) -> bool {
        self.chunk.at == self.chunk.ends.len() && self.rows.is_some()
    }

    /// Reads the next chunk. The end of the range, and an error, release the engine's iterator.
    fn fill(&mut self, want: Want) -> Result<()> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        self.chunk.clear();
        let filled = rows.fill(&mut self.chunk, self.next_rows, want);
        self.next_rows = (self.next_rows * 4).min(if want.pinned { MOST_PINNED } else { MOST_ROWS });
        if !matches!(filled, Ok(false)) {
            self.rows = None;
        }
        if filled.is_err() {
            self.chunk.clear();
        }
        filled.map(drop)
    }
}

/// The parts of a row that the caller wants.
struct Row<'py> {
    key: Option<Bound<'py, PyBytes>>,
    value: Option<RowValue<'py>>,
}

enum RowValue<'py> {
    Copied(Bound<'py, PyBytes>),
    Pinned(PinnedBytes),
}

impl<'py> Row<'py> {
    /// The row as a Python object. The conversion may run finalizers.
    fn into_object(self, py: Python<'py>) -> PyResult<Py<PyAny>> {
        match (self.key, self.value) {
            (Some(key), Some(RowValue::Copied(value))) => (key, value).into_py_any(py),
            (Some(key), Some(RowValue::Pinned(value))) => (key, PyPinnedValue(value)).into_py_any(py),
            (None, Some(RowValue::Copied(value))) => value.into_py_any(py),
            (None, Some(RowValue::Pinned(value))) => PyPinnedValue(value).into_py_any(py),
            (key, None) => key.into_py_any(py),
        }
    }
}

impl Chunk {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.pins.clear();
        self.at = 0;
    }

    /// Takes the next row. `None` after the last one.
    fn take<'py>(&mut self, py: Python<'py>, want: Want) -> Option<Row<'py>> {
        let (key_end, value_end) = *self.ends.get(self.at)?;
        let start = self.at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let pin = self.pins.get(self.at).cloned();
        self.at += 1;
        let copied = || RowValue::Copied(PyBytes::new(py, &self.bytes[key_end..value_end]));
        Some(Row {
            key: want.keys.then(|| PyBytes::new(py, &self.bytes[start..key_end])),
            value: want.values.then(|| pin.map_or_else(copied, RowValue::Pinned)),
        })
    }
}

#[pymethods]
impl PyEntries {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.next(py)
    }

    /// `Entries[row]`, for annotations.
    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _row: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        class.clone()
    }

    /// The next rows, at most `count`, as a list. The list is empty at the end.
    fn take<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        while list.len() < count
            && let Some(row) = self.next(py)?
        {
            list.append(row)?;
        }
        Ok(list)
    }

    /// Ends the iteration, and releases the blocks and files that the iterator holds.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.check_place()?;
        let held = {
            let mut state = self.lock(py)?;
            (state.rows.take(), std::mem::take(&mut state.chunk))
        };
        drop(held);
        Ok(())
    }
}
