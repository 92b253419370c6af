//! Class `ColumnFamily`: one family of a database, its maintenance and its properties.

use crate::args::BytesArg;
use crate::call;
use crate::error;
use crate::observe;
use crate::options;
use crate::reader::{PyReader, View};
use crate::shared::OpenDb;
use crate::writer::PyWriter;
use esker::{ColumnFamilyHandle, CompactRangeOptions, ErrorKind, ExplainScan, FlushOptions, ReadOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A column family: a key space of its own inside a database.
#[pyclass(frozen, subclass, extends = PyWriter, name = "ColumnFamily", module = "esker")]
pub(crate) struct PyColumnFamily;

impl PyColumnFamily {
    pub(crate) fn of(reader: PyReader) -> PyClassInitializer<PyColumnFamily> {
        PyClassInitializer::from(reader).add_subclass(PyWriter).add_subclass(PyColumnFamily)
    }

    /// The object for `family` that reads the present state ([`View::Live`]).
    pub(crate) fn live<'py>(
        py: Python<'py>,
        shared: &Arc<OpenDb>,
        family: ColumnFamilyHandle,
    ) -> PyResult<Bound<'py, PyColumnFamily>> {
        Bound::new(py, PyColumnFamily::of(PyReader::new(shared.clone(), family, View::Live)))
    }
}

/// The family called `name`.
pub(crate) fn find(shared: &OpenDb, name: &str) -> PyResult<ColumnFamilyHandle> {
    shared.check()?;
    let known = || shared.db().column_family_names().join(", ");
    shared.db().column_family(name).ok_or_else(|| {
        error::of_kind(
            ErrorKind::NotFound,
            format!("no column family is called '{name}'; there are {}", known()),
        )
    })
}

fn reader<'a>(slf: &'a Bound<'_, PyColumnFamily>) -> PyResult<&'a PyReader> {
    let reader = slf.as_super().as_super().get();
    reader.shared.check()?;
    Ok(reader)
}

#[pymethods]
impl PyColumnFamily {
    /// Writes the memtable of the family as a table.
    #[pyo3(signature = (*, wait=true, allow_write_stall=false))]
    fn flush(slf: &Bound<'_, Self>, wait: bool, allow_write_stall: bool) -> PyResult<()> {
        let reader = reader(slf)?;
        let options = FlushOptions { wait, allow_write_stall, ..FlushOptions::default() };
        call::run(slf.py(), || reader.shared.db().flush_opt(&options, &[&reader.family]))
    }

    /// Compacts the keys from `begin` to `end`.
    #[pyo3(signature = (begin=None, end=None))]
    fn compact_range(
        slf: &Bound<'_, Self>,
        begin: Option<BytesArg<'_>>,
        end: Option<BytesArg<'_>>,
    ) -> PyResult<()> {
        let reader = reader(slf)?;
        let [begin, end] = [&begin, &end].map(|end| end.as_ref().map(BytesArg::get));
        let options = CompactRangeOptions::default();
        call::run(slf.py(), || reader.shared.db().compact_range_opt(&options, &reader.family, begin, end))
    }

    /// Changes options while the database is open.
    #[pyo3(signature = (**options))]
    fn set_options(slf: &Bound<'_, Self>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let reader = reader(slf)?;
        let changes = options::changes(options)?;
        let changes: Vec<(&str, &str)> = changes.iter().map(|(name, text)| (&**name, &**text)).collect();
        call::run(slf.py(), || reader.shared.db().set_options(&reader.family, &changes))
    }

    /// The options that are in force for the family, by name, in RocksDB's text form.
    fn options<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let reader = reader(slf)?;
        let options = call::run_infallible(slf.py(), || reader.shared.db().options_cf(&reader.family));
        let dict = options::as_dict(slf.py(), &options)?;
        dict.update(options::as_dict(slf.py(), &options.table)?.as_mapping())?;
        Ok(dict)
    }

    /// The property `name`, such as `rocksdb.stats`; `None` if there is none.
    #[pyo3(name = "property")]
    fn text_property(slf: &Bound<'_, Self>, name: &str) -> PyResult<Option<String>> {
        let reader = reader(slf)?;
        Ok(call::run_infallible(slf.py(), || reader.shared.db().property_cf(&reader.family, name)))
    }

    /// The property `name` as a number; `None` if there is none.
    fn int_property(slf: &Bound<'_, Self>, name: &str) -> PyResult<Option<u64>> {
        let reader = reader(slf)?;
        Ok(call::run_infallible(slf.py(), || reader.shared.db().int_property_cf(&reader.family, name)))
    }

    /// The property `name` as a dict; `None` if there is none.
    fn map_property<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
        let reader = reader(slf)?;
        let property =
            call::run_infallible(slf.py(), || reader.shared.db().map_property_cf(&reader.family, name));
        property.map(|property| property.into_pyobject(slf.py())).transpose()
    }

    /// An estimate of the number of keys.
    fn estimate_num_keys(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(PyColumnFamily::int_property(slf, "rocksdb.estimate-num-keys")?.unwrap_or(0))
    }

    /// An estimate of the bytes that the keys from `begin` up to `end` take on disk.
    fn approximate_size(slf: &Bound<'_, Self>, begin: BytesArg<'_>, end: BytesArg<'_>) -> PyResult<u64> {
        let reader = reader(slf)?;
        let (begin, end) = (begin.get(), end.get());
        Ok(call::run_infallible(slf.py(), || reader.shared.db().approximate_size(&reader.family, begin, end)))
    }

    /// Explains `get(key)`: the sources that it searches, and why, as a dict.
    fn explain_get<'py>(slf: &Bound<'py, Self>, key: BytesArg<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (reader, key) = (reader(slf)?, key.get());
        let read = ReadOptions::default();
        let explained = call::run(slf.py(), || reader.shared.db().explain_get(&read, &reader.family, key))?;
        observe::explanation(slf.py(), &explained)
    }

    /// Explains a scan of `rows` rows from `start`, run by run, as a dict.
    #[pyo3(signature = (start=None, *, rows=10, reverse=false))]
    fn explain_scan<'py>(
        slf: &Bound<'py, Self>,
        start: Option<BytesArg<'py>>,
        rows: u64,
        reverse: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = reader(slf)?;
        let scan = ExplainScan { from: start.map(|start| start.get().to_vec()), rows, reverse };
        let read = ReadOptions::default();
        let explained =
            call::run(slf.py(), || reader.shared.db().explain_scan(&read, &reader.family, &scan))?;
        observe::explanation(slf.py(), &explained)
    }

    /// Ingests table files of another program into the family.
    fn ingest_external_file(slf: &Bound<'_, Self>, files: Vec<std::path::PathBuf>) -> PyResult<()> {
        let reader = reader(slf)?;
        call::run(slf.py(), || reader.shared.db().ingest_external_file_cf(&reader.family, &files))
    }
}
