//! Options of a database and its families, from keyword arguments, text and OPTIONS files.
//!
//! In: RocksDB's option names with Python values. Out: the engine's options. A value becomes
//! RocksDB's text for it: `True` is `true`, a dict `{a=1;b=2}`, a list `a:b`. Merge operators,
//! compaction filters, comparators and block caches are objects.

use crate::callbacks::{Plugins, PyCompactionFilter, PyComparator, PyMergeOperator};
use crate::error;
use esker::options::table::OptionStruct;
use esker::options::{
    BlockBasedTableOptions, BlockCache as EngineCache, CacheOptions, LoadedOptions, Statistics,
    load_latest_options, load_options_file, options_from_string,
};
use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions, Env, Options};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyMapping, PyString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A cache of blocks, which databases and column families may share.
#[pyclass(frozen, name = "BlockCache", module = "esker")]
pub(crate) struct PyBlockCache(Arc<EngineCache>);

#[pymethods]
impl PyBlockCache {
    #[new]
    fn new(py: Python<'_>, capacity: usize) -> PyResult<PyBlockCache> {
        let cache = EngineCache::new(&CacheOptions::with_capacity(capacity));
        Ok(PyBlockCache(Arc::new(cache.map_err(|e| error::exception(py, &e))?)))
    }

    /// Bytes that the cache may hold.
    #[getter]
    fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Bytes that the cache holds.
    #[getter]
    fn usage(&self) -> usize {
        self.0.usage()
    }
}

/// Options as a caller gives them: those of the database, and of each family.
pub(crate) struct Given {
    /// Options of the database, and of families without options of their own.
    pub(crate) options: Options,
    /// The contents of an OPTIONS file.
    loaded: Option<LoadedOptions>,
    /// Options of the database and of every family, as text.
    text: String,
    /// Keyword arguments for every family.
    keywords: Vec<(String, Py<PyAny>)>,
    pub(crate) plugins: Plugins,
}

impl Given {
    /// Reads an OPTIONS file, `text`, and keyword arguments, in this order.
    pub(crate) fn new(
        py: Python<'_>,
        text: Option<&str>,
        file: Option<OptionsSource<'_>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Given> {
        let loaded = file.map(|file| file.load(py)).transpose()?.flatten();
        let mut options = Options::default();
        if let Some(loaded) = &loaded {
            options.db = loaded.db.clone();
            options.cf = loaded.family("default").cloned().unwrap_or_default();
        }
        let text = text.unwrap_or_default().to_owned();
        options = options_from_string(&options, &text).map_err(|e| error::exception(py, &e))?;
        let keywords = keywords.map(|keywords| keywords.iter()).into_iter().flatten();
        let keywords = keywords.map(|(name, value)| Ok((name.extract()?, value.unbind())));
        let keywords = keywords.collect::<PyResult<Vec<_>>>()?;
        let mut given = Given { options, loaded, text, keywords, plugins: Plugins::default() };
        for (name, value) in
            given.keywords.iter().map(|(name, value)| (name.clone(), value.clone_ref(py))).collect::<Vec<_>>()
        {
            given.set(&name, value.bind(py))?;
        }
        Ok(given)
    }

    /// The families of the OPTIONS file.
    pub(crate) fn loaded_families(&self) -> Vec<ColumnFamilyDescriptor> {
        let families = self.loaded.iter().flat_map(|loaded| loaded.families.iter().cloned());
        families.map(ColumnFamilyDescriptor::from).collect()
    }

    /// Sets an option of the database or of its families.
    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        if name == "statistics" {
            self.options.db.statistics = value.is_truthy()?.then(|| Arc::new(Statistics::new()));
            return Ok(());
        }
        if DbOptions::find(name).is_some() {
            return self.options.db.set_text(name, &text_of(value)?).map_err(|e| error::exception(py, &e));
        }
        set_family_option(&mut self.options.cf, name, value, &self.plugins)
    }

    /// The options of the family called `name`: those of the OPTIONS file, then the text and the
    /// keyword arguments of the database, then `own`.
    pub(crate) fn family(
        &self,
        py: Python<'_>,
        name: &str,
        own: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<ColumnFamilyOptions> {
        let mut options = match self.loaded.as_ref().and_then(|loaded| loaded.family(name)) {
            Some(of_file) if name != "default" => {
                let base = Options { db: self.options.db.clone(), cf: of_file.clone() };
                let with_text = options_from_string(&base, &self.text);
                let mut options = with_text.map_err(|e| error::exception(py, &e))?.cf;
                for (name, value) in self.keywords.iter().filter(|(name, _)| is_family_option(name)) {
                    set_family_option(&mut options, name, value.bind(py), &self.plugins)?;
                }
                options
            }
            _ => self.options.cf.clone(),
        };
        for (name, value) in own.into_iter().flatten() {
            set_family_option(&mut options, &name.extract::<String>()?, &value, &self.plugins)?;
        }
        Ok(options)
    }
}

/// The file that options come from.
pub(crate) enum OptionsSource<'a> {
    /// The newest OPTIONS file of a directory, if it has one.
    NewestOf(&'a Path),
    File(&'a Path),
}

impl OptionsSource<'_> {
    fn load(self, py: Python<'_>) -> PyResult<Option<LoadedOptions>> {
        let fs = Env::default().fs;
        let loaded = match self {
            OptionsSource::File(path) => load_options_file(fs.as_ref(), path).map(Some),
            OptionsSource::NewestOf(path) => match esker::options::latest_options_file(fs.as_ref(), path) {
                Ok(Some(_)) => load_latest_options(path).map(Some),
                // Without a directory or a file there is nothing to read.
                Ok(None) | Err(_) => Ok(None),
            },
        };
        loaded.map_err(|e| error::exception(py, &e))
    }
}

fn is_family_option(name: &str) -> bool {
    name != "statistics" && DbOptions::find(name).is_none()
}

/// Sets an option of a family, or of its tables.
pub(crate) fn set_family_option(
    options: &mut ColumnFamilyOptions,
    name: &str,
    value: &Bound<'_, PyAny>,
    plugins: &Plugins,
) -> PyResult<()> {
    let py = value.py();
    let is_object = !value.is_instance_of::<PyString>() && !value.is_none();
    match name {
        "merge_operator" if is_object => {
            let operator = PyMergeOperator::new(value).map_err(|e| wants(name, e, py))?;
            plugins.note(operator.callbacks());
            options.merge_operator = Some(Arc::new(operator));
        }
        "compaction_filter" if is_object => {
            let filter = PyCompactionFilter::new(value).map_err(|e| wants(name, e, py))?;
            plugins.note(filter.callbacks());
            options.compaction_filter = Some(Arc::new(filter));
        }
        "comparator" if is_object => {
            let failure = plugins.failure.clone();
            let comparator = PyComparator::new(value, failure).map_err(|e| wants(name, e, py))?;
            plugins.note(comparator.callbacks());
            options.comparator = Arc::new(comparator);
        }
        "block_cache" if value.is_instance_of::<PyBlockCache>() => {
            options.table.block_cache = Some(value.cast::<PyBlockCache>()?.get().0.clone());
        }
        _ => {
            let text = text_of(value)?;
            let set = if ColumnFamilyOptions::find(name).is_some() {
                options.set_text(name, &text)
            } else if BlockBasedTableOptions::find(name).is_some() {
                options.table.set_text(name, &text)
            } else if name == "block_based_table_factory" {
                options.table.set_from_string(&text)
            } else {
                return Err(unknown(py, name));
            };
            set.map_err(|e| error::exception(py, &e))?;
        }
    }
    Ok(())
}

/// Says what kind of object an option takes.
fn wants(name: &str, raised: PyErr, py: Python<'_>) -> PyErr {
    if raised.is_instance_of::<PyValueError>(py) {
        return raised;
    }
    let class = match name {
        "merge_operator" => "esker.MergeOperator(name, full_merge)",
        "compaction_filter" => "esker.CompactionFilter(name, filter)",
        _ => "esker.Comparator(name, compare)",
    };
    let instead = PyTypeError::new_err(format!("{name} is RocksDB's name of one as text, or {class}"));
    instead.set_cause(py, Some(raised));
    instead
}

/// An `InvalidArgument` that names options of a similar name.
fn unknown(py: Python<'_>, name: &str) -> PyErr {
    let names = DbOptions::all_options().iter().map(|option| option.name);
    let names = names.chain(ColumnFamilyOptions::all_options().iter().map(|option| option.name));
    let names: Vec<&str> =
        names.chain(BlockBasedTableOptions::all_options().iter().map(|option| option.name)).collect();
    let close =
        py.import("difflib").and_then(|difflib| difflib.call_method1("get_close_matches", (name, names)));
    let close: Vec<String> = close.and_then(|close| close.extract()).unwrap_or_default();
    let advice = if close.is_empty() { String::new() } else { format!("; is it {}?", close.join(" or ")) };
    error::invalid(format!("no option is called '{name}'{advice}"))
}

/// RocksDB's text for a Python value.
pub(crate) fn text_of(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_none() {
        return Ok("nullptr".to_owned());
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(if value.is_truthy()? { "true" } else { "false" }.to_owned());
    }
    if value.is_instance_of::<PyString>() {
        return value.extract();
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(value.str()?.to_string());
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let entries = mapping.items()?;
        let entries = entries.iter().map(|entry| {
            let (name, value): (String, Bound<'_, PyAny>) = entry.extract()?;
            Ok(format!("{name}={}", text_of(&value)?))
        });
        return Ok(format!("{{{}}}", entries.collect::<PyResult<Vec<_>>>()?.join(";")));
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        return Ok(path.to_string_lossy().into_owned());
    }
    if !value.is_instance_of::<PyBytes>()
        && let Ok(items) = value.try_iter()
    {
        let items = items.map(|item| text_of(&item?)).collect::<PyResult<Vec<_>>>()?;
        return Ok(items.join(":"));
    }
    Err(PyTypeError::new_err(format!("an option is not of type {}", value.get_type().name()?)))
}

/// Pairs of names and texts, from keyword arguments.
pub(crate) fn changes(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let pairs = keywords.into_iter().flatten();
    pairs.map(|(name, value)| Ok((name.extract()?, text_of(&value)?))).collect()
}

/// All options of a struct that have a text form, as a dict.
pub(crate) fn as_dict<'py, T: OptionStruct>(py: Python<'py>, options: &T) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for option in T::all_options() {
        if let Some(text) = options.text_of(option.name) {
            dict.set_item(option.name, text)?;
        }
    }
    Ok(dict)
}
