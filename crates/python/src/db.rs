//! Class `Db`: an open database, and its default column family.
//!
//! In: a directory and options. Out: the classes over it. Functions for directories that nobody has
//! open: their families, their deletion, their repair.

use crate::args::write_options;
use crate::batch::PyWriteBatch;
use crate::call;
use crate::family::{PyColumnFamily, find};
use crate::observe;
use crate::options::{self, Given, OptionsSource};
use crate::reader::{PyReader, View};
use crate::shared::{OpenDb, OpenKind};
use crate::snapshot::{PySnapshot, SnapshotCell};
use crate::transaction::{self, PyTransaction};
use esker::{
    ColumnFamilyDescriptor, ColumnFamilyOptions, DbOptions, OpenMode, OptimisticTransactionDb, TransactionDb,
    TransactionDbOptions,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open database: a mapping of bytes to bytes, its default column family. A context manager:
/// its end closes the database.
#[pyclass(frozen, subclass, extends = PyColumnFamily, name = "Db", module = "esker")]
pub(crate) struct PyDb;

/// The database of an object, if it is open.
pub(crate) fn shared<'a>(db: &'a Bound<'_, PyDb>) -> PyResult<&'a Arc<OpenDb>> {
    let shared = &db.as_super().as_super().as_super().get().shared;
    shared.check()?;
    Ok(shared)
}

/// The way in which a directory is opened.
enum Mode {
    ReadWrite(Transactions),
    ReadOnly,
    Secondary(PathBuf),
}

enum Transactions {
    None,
    Pessimistic(TransactionDbOptions),
    Optimistic,
}

impl Mode {
    fn new(
        mode: &str,
        secondary_path: Option<PathBuf>,
        transactions: Option<&str>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Mode> {
        if options.is_some() && transactions != Some("pessimistic") {
            return Err(PyTypeError::new_err("transaction_options needs transactions=\"pessimistic\""));
        }
        let transactions = match transactions {
            None => Transactions::None,
            Some("pessimistic") => Transactions::Pessimistic(transaction_db_options(options)?),
            Some("optimistic") => Transactions::Optimistic,
            Some(other) => {
                return Err(PyValueError::new_err(format!(
                    "transactions is None, pessimistic or optimistic, not '{other}'"
                )));
            }
        };
        match (mode, secondary_path) {
            ("rw", None) => Ok(Mode::ReadWrite(transactions)),
            ("r" | "secondary", _) if !matches!(transactions, Transactions::None) => {
                Err(PyValueError::new_err("a database that is open for reading only has no transactions"))
            }
            ("r", None) => Ok(Mode::ReadOnly),
            ("secondary", Some(path)) => Ok(Mode::Secondary(path)),
            ("secondary", None) => Err(PyTypeError::new_err("mode=\"secondary\" needs secondary_path")),
            ("rw" | "r", Some(_)) => Err(PyTypeError::new_err("secondary_path needs mode=\"secondary\"")),
            (other, _) => Err(PyValueError::new_err(format!("mode is rw, r or secondary, not '{other}'"))),
        }
    }

    fn open(
        self,
        options: &DbOptions,
        path: &Path,
        families: Vec<(String, ColumnFamilyOptions)>,
    ) -> esker::Result<OpenKind> {
        match self {
            Mode::ReadWrite(Transactions::None) => {
                esker::Db::open_cf(options, path, families).map(OpenKind::Plain)
            }
            Mode::ReadWrite(Transactions::Pessimistic(of_transactions)) => {
                TransactionDb::open_cf(options, &of_transactions, path, families).map(OpenKind::Pessimistic)
            }
            Mode::ReadWrite(Transactions::Optimistic) => {
                OptimisticTransactionDb::open_cf(options, path, families).map(OpenKind::Optimistic)
            }
            Mode::ReadOnly => {
                esker::Db::open_with(options, path, families, OpenMode::ReadOnly).map(OpenKind::Plain)
            }
            Mode::Secondary(own) => {
                esker::Db::open_cf_as_secondary(options, path, own, families).map(OpenKind::Plain)
            }
        }
    }
}

fn transaction_db_options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<TransactionDbOptions> {
    let mut options = TransactionDbOptions::default();
    for (name, value) in keywords.into_iter().flatten() {
        let name: String = name.extract()?;
        match name.as_str() {
            "transaction_lock_timeout" => options.transaction_lock_timeout = value.extract()?,
            "default_lock_timeout" => options.default_lock_timeout = value.extract()?,
            "max_num_deadlocks" => options.max_num_deadlocks = value.extract()?,
            "max_lock_memory" => options.max_lock_memory = value.extract()?,
            "skip_concurrency_control" => options.skip_concurrency_control = value.extract()?,
            _ => return Err(PyTypeError::new_err(format!("no transaction option is called '{name}'"))),
        }
    }
    Ok(options)
}

/// The families to open: those of the directory, and those of the caller.
fn families_to_open(
    py: Python<'_>,
    given: &Given,
    path: &Path,
    families: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<(String, ColumnFamilyOptions)>> {
    let mut names = vec!["default".to_owned()];
    if path.join("CURRENT").exists() {
        let existing = call::run(py, || esker::Db::list_column_families(&given.options.db, path))?;
        names.extend(existing.into_iter().filter(|name| name != "default"));
    }
    for name in families.into_iter().flat_map(|families| families.keys().iter()) {
        let name: String = name.extract()?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let with_options = names.into_iter().map(|name| {
        let own = families.map(|families| families.get_item(&name)).transpose()?.flatten();
        let own = own.filter(|own| !own.is_none());
        let own = own.map(|own| own.cast_into::<PyDict>()).transpose()?;
        let options = given.family(py, &name, own.as_ref())?;
        Ok((name, options))
    });
    with_options.collect()
}

#[pymethods]
impl PyDb {
    /// Opens the database in `path`, and creates it if there is none.
    #[new]
    #[pyo3(signature = (
        path, *, mode="rw", secondary_path=None, families=None, transactions=None,
        transaction_options=None, options=None, options_file=None, load_options=true, **keywords
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        secondary_path: Option<PathBuf>,
        families: Option<&Bound<'_, PyDict>>,
        transactions: Option<&str>,
        transaction_options: Option<&Bound<'_, PyDict>>,
        options: Option<&str>,
        options_file: Option<PathBuf>,
        load_options: bool,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyClassInitializer<PyDb>> {
        let mode = Mode::new(mode, secondary_path, transactions, transaction_options)?;
        let file = match &options_file {
            Some(file) => Some(OptionsSource::File(file)),
            None => load_options.then_some(OptionsSource::NewestOf(&path)),
        };
        let mut given = Given::new(py, options, file, keywords)?;
        let said = |name: &str| keywords.is_some_and(|keywords| keywords.contains(name).unwrap_or(false));
        let is_writer = matches!(mode, Mode::ReadWrite(_));
        if !said("create_if_missing") && options.is_none_or(|text| !text.contains("create_if_missing")) {
            given.options.db.create_if_missing = is_writer;
        }
        if families.is_some() && !said("create_missing_column_families") {
            given.options.db.create_missing_column_families = is_writer;
        }
        let families = families_to_open(py, &given, &path, families)?;
        let options = given.options.db.clone();
        let kind = call::run(py, || mode.open(&options, &path, families))?;
        let shared = OpenDb::new(kind, path, given.plugins);
        let family = shared.db().default_column_family();
        let reader = PyReader::new(shared, family, View::Live);
        Ok(PyColumnFamily::of(reader).add_subclass(PyDb))
    }

    /// The directory of the database.
    #[getter]
    fn path(slf: &Bound<'_, Self>) -> PathBuf {
        slf.as_super().as_super().as_super().get().shared.path.clone()
    }

    /// Whether the database was closed.
    #[getter]
    fn closed(slf: &Bound<'_, Self>) -> bool {
        slf.as_super().as_super().as_super().get().shared.is_closed()
    }

    /// Ends background work and releases the directory. A second close does nothing.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        slf.as_super().as_super().as_super().get().shared.close(slf.py())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> Bound<'py, Self> {
        slf.clone()
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        PyDb::close(slf)
    }

    /// The column family called `name`.
    fn cf<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyColumnFamily>> {
        let shared = shared(slf)?;
        PyColumnFamily::live(slf.py(), shared, find(shared, name)?)
    }

    /// Names of the column families.
    fn column_families(slf: &Bound<'_, Self>) -> PyResult<Vec<String>> {
        Ok(shared(slf)?.db().column_family_names())
    }

    /// Creates a column family, with the options of the default family unless said otherwise.
    #[pyo3(signature = (name, **options))]
    fn create_cf<'py>(
        slf: &Bound<'py, Self>,
        name: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound<'py, PyColumnFamily>> {
        let (shared, py) = (shared(slf)?, slf.py());
        let mut of_family =
            call::run_infallible(py, || shared.db().options_cf(&shared.db().default_column_family()));
        for (option, value) in options.into_iter().flatten() {
            let option: String = option.extract()?;
            options::set_family_option(&mut of_family, &option, &value, shared.plugins())?;
        }
        let created = call::run(py, || match shared.kind() {
            OpenKind::Pessimistic(db) => db.create_column_family(name, &of_family),
            _ => shared.db().create_column_family(name, &of_family),
        })?;
        PyColumnFamily::live(py, shared, created)
    }

    /// Drops the column family called `name`, with its data.
    fn drop_cf(slf: &Bound<'_, Self>, name: &str) -> PyResult<()> {
        let shared = shared(slf)?;
        let family = find(shared, name)?;
        call::run(slf.py(), || match shared.kind() {
            OpenKind::Pessimistic(db) => db.drop_column_family(&family),
            _ => shared.db().drop_column_family(&family),
        })
    }

    /// The present state, readable until the snapshot is released.
    fn snapshot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PySnapshot>> {
        let shared = shared(slf)?;
        let snapshot = call::run_infallible(slf.py(), || shared.db().snapshot());
        let view = View::Snapshot(SnapshotCell::new(&snapshot));
        Bound::new(
            slf.py(),
            PySnapshot::of(PyReader::new(shared.clone(), shared.db().default_column_family(), view)),
        )
    }

    /// An empty batch of changes.
    #[pyo3(signature = (*, sync=false, disable_wal=false, no_slowdown=false))]
    fn batch(
        slf: &Bound<'_, Self>,
        sync: bool,
        disable_wal: bool,
        no_slowdown: bool,
    ) -> PyResult<PyWriteBatch> {
        let shared = shared(slf)?;
        let options = write_options(sync, disable_wal, no_slowdown);
        Ok(PyWriteBatch::new(shared.clone(), shared.db().default_column_family(), options))
    }

    /// Begins a transaction.
    #[pyo3(signature = (*, sync=false, disable_wal=false, **options))]
    fn transaction<'py>(
        slf: &Bound<'py, Self>,
        sync: bool,
        disable_wal: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound<'py, PyTransaction>> {
        transaction::begin(slf.py(), shared(slf)?, write_options(sync, disable_wal, false), options)
    }

    /// Runs `function(transaction)` and commits. After a conflict it runs again, at most `attempts`
    /// times. Returns what the function returns.
    #[pyo3(signature = (function, *, attempts=20, **options))]
    fn transact<'py>(
        slf: &Bound<'py, Self>,
        function: &Bound<'py, PyAny>,
        attempts: usize,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let run = slf.py().import("esker._transact")?.getattr("transact")?;
        run.call((slf, function, attempts), options)
    }

    /// Makes `directory` a database with the contents of this one, by hard links where it can.
    #[pyo3(signature = (directory, *, log_size_for_flush=0))]
    fn checkpoint(slf: &Bound<'_, Self>, directory: PathBuf, log_size_for_flush: u64) -> PyResult<u64> {
        let shared = shared(slf)?;
        let made = call::run(slf.py(), || shared.db().create_checkpoint(directory, log_size_for_flush))?;
        Ok(made.0)
    }

    /// Makes earlier writes durable.
    fn sync_wal(slf: &Bound<'_, Self>) -> PyResult<()> {
        let shared = shared(slf)?;
        call::run(slf.py(), || shared.db().sync_wal())
    }

    /// Hands the WAL to the kernel, and with `sync` to the disk (for `manual_wal_flush`).
    #[pyo3(signature = (*, sync=false))]
    fn flush_wal(slf: &Bound<'_, Self>, sync: bool) -> PyResult<()> {
        let shared = shared(slf)?;
        call::run(slf.py(), || shared.db().flush_wal(sync))
    }

    /// Brings a secondary to the present state of its primary.
    fn try_catch_up_with_primary(slf: &Bound<'_, Self>) -> PyResult<()> {
        let shared = shared(slf)?;
        call::run(slf.py(), || shared.db().try_catch_up_with_primary())
    }

    /// Changes options of the whole database while it is open.
    #[pyo3(signature = (**options))]
    fn set_db_options(slf: &Bound<'_, Self>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let shared = shared(slf)?;
        let changes = options::changes(options)?;
        let changes: Vec<(&str, &str)> = changes.iter().map(|(name, text)| (&**name, &**text)).collect();
        call::run(slf.py(), || shared.db().set_db_options(&changes))
    }

    /// The options of the database in force, as RocksDB writes them.
    fn db_options<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let shared = shared(slf)?;
        let options = call::run_infallible(slf.py(), || shared.db().db_options());
        options::as_dict(slf.py(), &options)
    }

    /// Counters and distributions under RocksDB's names; empty without `statistics=True`.
    fn statistics<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let shared = shared(slf)?;
        let options = call::run_infallible(slf.py(), || shared.db().db_options());
        match &options.statistics {
            Some(statistics) => observe::statistics(slf.py(), statistics),
            None => Ok(PyDict::new(slf.py())),
        }
    }

    /// The tables of the database, as dicts.
    fn live_files<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let shared = shared(slf)?;
        let files = call::run_infallible(slf.py(), || shared.db().live_files());
        let files = files.iter().map(|file| observe::live_file(slf.py(), file));
        PyList::new(slf.py(), files.collect::<PyResult<Vec<_>>>()?)
    }

    /// Reads every block of every table, and checks it.
    fn verify_checksum(slf: &Bound<'_, Self>) -> PyResult<()> {
        let shared = shared(slf)?;
        call::run(slf.py(), || shared.db().verify_checksum())
    }

    /// Lifts the background error in force, and starts background work again.
    fn resume(slf: &Bound<'_, Self>) -> PyResult<()> {
        let shared = shared(slf)?;
        call::run(slf.py(), || shared.db().resume())
    }

    /// The sequence number of the newest write.
    #[getter]
    fn latest_sequence_number(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(shared(slf)?.db().latest_sequence_number().0)
    }
}

/// Names of the column families of the database in `path`, which need not be open.
#[pyfunction]
pub(crate) fn list_column_families(py: Python<'_>, path: PathBuf) -> PyResult<Vec<String>> {
    call::run(py, || esker::Db::list_column_families(&DbOptions::default(), path))
}

/// Deletes the database in `path`, which nobody has open.
#[pyfunction]
pub(crate) fn destroy(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    call::run(py, || esker::destroy_db(&DbOptions::default(), path))
}

/// Makes a MANIFEST for the tables and WALs in `path`, which nobody has open.
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let given = Given::new(py, None, Some(OptionsSource::NewestOf(&path)), None)?;
    let families: Vec<ColumnFamilyDescriptor> = given.loaded_families();
    call::run(py, || esker::repair_db(&given.options, &path, &families).map(drop))
}
