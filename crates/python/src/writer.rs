//! Class `Writer`: writes to one family, at once or in a transaction.
//!
//! In: keys and values. Out: changes of the database, or of the transaction until it commits.

use crate::args::{BytesArg, write_options};
use crate::call;
use crate::reader::{PyReader, View};
use crate::scan::RowRange;
use esker::{WriteBatch, WriteOptions};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping, PySlice, PyTuple};
use std::ops::Bound::{Excluded, Included};

/// Reads and writes of one column family, at once or in a transaction.
#[pyclass(frozen, subclass, extends = PyReader, name = "Writer", module = "esker")]
pub(crate) struct PyWriter;

/// A change of one key, or of a range.
#[derive(Clone, Copy)]
enum Change<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    Merge(&'a [u8], &'a [u8]),
    DeleteRange(&'a [u8], &'a [u8]),
}

/// Makes `change`, at once or in the transaction.
fn apply(slf: &Bound<'_, PyWriter>, options: &WriteOptions, change: Change<'_>) -> PyResult<()> {
    let reader = slf.as_super().get();
    let (shared, family, py) = (&reader.shared, &*reader.family, slf.py());
    shared.check()?;
    match &reader.view {
        View::Transaction(cell) => {
            if *options != WriteOptions::default() {
                return Err(PyTypeError::new_err(
                    "a write in a transaction takes no options; give them to the transaction",
                ));
            }
            cell.run(py, |txn| match change {
                Change::Put(key, value) => txn.put(family, key, value),
                Change::Delete(key) => txn.delete(family, key),
                Change::Merge(key, operand) => txn.merge(family, key, operand),
                Change::DeleteRange(begin, end) => txn.delete_range(family, begin, end),
            })
        }
        _ => call::run(py, || match change {
            Change::Put(key, value) => shared.put(options, family, (key, value)),
            Change::Delete(key) => shared.delete(options, family, key),
            Change::Merge(key, operand) => shared.merge(options, family, (key, operand)),
            Change::DeleteRange(begin, end) => shared.delete_range(options, family, (begin, end)),
        }),
    }
}

/// The value of `key`. A transaction locks or tracks the key, for a write that follows.
fn value_for_update<'py>(slf: &Bound<'py, PyWriter>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let reader = slf.as_super().get();
    let View::Transaction(cell) = &reader.view else { return reader.value(slf.py(), key) };
    reader.shared.check()?;
    let value = cell.run(slf.py(), |txn| txn.get_for_update(&reader.family, key, true))?;
    Ok(value.map(|value| PyBytes::new(slf.py(), &value)))
}

/// The pairs of a mapping or of an iterable.
fn pairs<'py>(source: &Bound<'py, PyAny>) -> PyResult<Vec<(BytesArg<'py>, BytesArg<'py>)>> {
    let pairs = match source.cast::<PyMapping>() {
        Ok(mapping) => mapping.items()?.into_any(),
        // Databases are no mappings for Python, since they have no length.
        Err(_) if source.is_instance_of::<PyReader>() => source.call_method0("items")?,
        Err(_) => source.clone(),
    };
    pairs.try_iter()?.map(|pair| pair?.extract()).collect()
}

#[pymethods]
impl PyWriter {
    /// Stores `value` under `key`.
    #[pyo3(signature = (key, value, *, sync=false, disable_wal=false, no_slowdown=false))]
    fn put(
        slf: &Bound<'_, Self>,
        key: BytesArg<'_>,
        value: BytesArg<'_>,
        sync: bool,
        disable_wal: bool,
        no_slowdown: bool,
    ) -> PyResult<()> {
        let options = write_options(sync, disable_wal, no_slowdown);
        apply(slf, &options, Change::Put(key.get(), value.get()))
    }

    /// Removes `key`, without a look whether it is there.
    #[pyo3(signature = (key, *, sync=false, disable_wal=false, no_slowdown=false))]
    fn delete(
        slf: &Bound<'_, Self>,
        key: BytesArg<'_>,
        sync: bool,
        disable_wal: bool,
        no_slowdown: bool,
    ) -> PyResult<()> {
        apply(slf, &write_options(sync, disable_wal, no_slowdown), Change::Delete(key.get()))
    }

    /// Adds an operand for the merge operator to `key`.
    #[pyo3(signature = (key, operand, *, sync=false, disable_wal=false, no_slowdown=false))]
    fn merge(
        slf: &Bound<'_, Self>,
        key: BytesArg<'_>,
        operand: BytesArg<'_>,
        sync: bool,
        disable_wal: bool,
        no_slowdown: bool,
    ) -> PyResult<()> {
        let options = write_options(sync, disable_wal, no_slowdown);
        apply(slf, &options, Change::Merge(key.get(), operand.get()))
    }

    /// Removes all keys from `begin` up to `end`, exclusive.
    #[pyo3(signature = (begin, end, *, sync=false, disable_wal=false, no_slowdown=false))]
    fn delete_range(
        slf: &Bound<'_, Self>,
        begin: BytesArg<'_>,
        end: BytesArg<'_>,
        sync: bool,
        disable_wal: bool,
        no_slowdown: bool,
    ) -> PyResult<()> {
        let options = write_options(sync, disable_wal, no_slowdown);
        apply(slf, &options, Change::DeleteRange(begin.get(), end.get()))
    }

    fn __setitem__(slf: &Bound<'_, Self>, key: BytesArg<'_>, value: BytesArg<'_>) -> PyResult<()> {
        apply(slf, &WriteOptions::default(), Change::Put(key.get(), value.get()))
    }

    fn __delitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(slice) = key.cast::<PySlice>() {
            let RowRange::Range((Included(begin), Excluded(end))) = RowRange::of_slice(slice)? else {
                return Err(PyTypeError::new_err("a slice to delete has a start and an end"));
            };
            return apply(slf, &WriteOptions::default(), Change::DeleteRange(&begin, &end));
        }
        let bytes: BytesArg<'_> = key.extract()?;
        if value_for_update(slf, bytes.get())?.is_none() {
            return Err(PyKeyError::new_err(key.clone().unbind()));
        }
        apply(slf, &WriteOptions::default(), Change::Delete(bytes.get()))
    }

    /// Removes `key` and returns its value, or the default. Atomic in a transaction only.
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop() takes a key and at most one default"));
        }
        let bytes: BytesArg<'_> = key.extract()?;
        match value_for_update(slf, bytes.get())? {
            Some(value) => {
                apply(slf, &WriteOptions::default(), Change::Delete(bytes.get()))?;
                Ok(value.into_any())
            }
            None => default.get_item(0).map_err(|_| PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// Returns the value of `key`. If there is none, stores `default` and returns it. Atomic in a
    /// transaction only.
    fn setdefault<'py>(
        slf: &Bound<'py, Self>,
        key: BytesArg<'py>,
        default: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(value) = value_for_update(slf, key.get())? {
            return Ok(value.into_any());
        }
        let bytes: BytesArg<'_> = default.extract()?;
        apply(slf, &WriteOptions::default(), Change::Put(key.get(), bytes.get()))?;
        Ok(default)
    }

    /// Stores all pairs of a mapping or of an iterable: in one write, or in a transaction one by
    /// one.
    #[pyo3(signature = (source, /, *, sync=false, disable_wal=false, no_slowdown=false))]
    fn update(
        slf: &Bound<'_, Self>,
        source: &Bound<'_, PyAny>,
        sync: bool,
        disable_wal: bool,
        no_slowdown: bool,
    ) -> PyResult<()> {
        let (reader, py) = (slf.as_super().get(), slf.py());
        reader.shared.check()?;
        let options = write_options(sync, disable_wal, no_slowdown);
        let pairs = pairs(source)?;
        if let View::Transaction(_) = reader.view {
            let put = |(key, value): &(BytesArg<'_>, BytesArg<'_>)| {
                apply(slf, &options, Change::Put(key.get(), value.get()))
            };
            return pairs.iter().try_for_each(put);
        }
        let mut batch = WriteBatch::new();
        for (key, value) in &pairs {
            let added = batch.put_cf(&*reader.family, key.get(), value.get());
            added.map_err(|error| crate::error::exception(py, &error))?;
        }
        call::run(py, || reader.shared.write(&options, &mut batch))
    }
}
