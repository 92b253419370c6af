//! Class `BackupEngine`: backups of databases in a directory.

use crate::call::{self, EngineHandle};
use crate::db::PyDb;
use esker::{BackupEngine as Engine, BackupEngineOptions, CreateBackupOptions, RestoreOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::path::PathBuf;
use std::sync::Mutex;

/// Backups of databases in one directory. Tables that several backups have are stored once.
#[pyclass(frozen, weakref, name = "BackupEngine", module = "esker")]
pub(crate) struct PyBackupEngine {
    /// Threads wait for the mutex without the GIL.
    engine: Mutex<EngineHandle<Engine>>,
    made_in: u64,
}

impl PyBackupEngine {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Engine) -> esker::Result<T> + Send,
    ) -> PyResult<T> {
        call::check_place(self.made_in)?;
        call::run(py, || work(&mut self.engine.lock().expect("no holder panics")))
    }
}

#[pymethods]
impl PyBackupEngine {
    /// Opens the backups in `backup_dir`, which is made if it is not there.
    #[new]
    #[pyo3(signature = (backup_dir, *, destroy_old_data=false, backup_rate_limit=0, restore_rate_limit=0))]
    fn new(
        py: Python<'_>,
        backup_dir: PathBuf,
        destroy_old_data: bool,
        backup_rate_limit: u64,
        restore_rate_limit: u64,
    ) -> PyResult<PyBackupEngine> {
        let options = BackupEngineOptions::new(backup_dir)
            .destroy_old_data(destroy_old_data)
            .backup_rate_limit(backup_rate_limit)
            .restore_rate_limit(restore_rate_limit);
        let engine = call::run(py, || Engine::open(&options))?;
        Ok(PyBackupEngine { engine: Mutex::new(EngineHandle::new(engine)), made_in: call::process() })
    }

    /// Makes a backup of `db` and returns its number. Without `flush` the WALs are copied.
    #[pyo3(signature = (db, *, flush=false, metadata=None))]
    fn create(
        &self,
        py: Python<'_>,
        db: &Bound<'_, PyDb>,
        flush: bool,
        metadata: Option<crate::args::BytesArg<'_>>,
    ) -> PyResult<u32> {
        let shared = crate::db::shared(db)?.clone();
        let options = CreateBackupOptions::default().flush_before_backup(flush);
        let metadata = metadata.as_ref().map_or(&[][..], |metadata| metadata.get());
        self.run(py, |engine| engine.create_new_backup_with_options(shared.db(), &options, metadata))
    }

    /// The backups, oldest first, as dicts.
    fn infos<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let infos = self.run(py, |engine| Ok(engine.backup_infos()))?;
        let infos = infos.iter().map(|info| {
            let dict = PyDict::new(py);
            dict.set_item("backup_id", info.backup_id)?;
            dict.set_item("timestamp", info.timestamp)?;
            dict.set_item("size", info.size)?;
            dict.set_item("number_files", info.number_files)?;
            dict.set_item("metadata", PyBytes::new(py, &info.app_metadata))?;
            Ok(dict)
        });
        PyList::new(py, infos.collect::<PyResult<Vec<_>>>()?)
    }

    /// Makes `db_dir` a database with the contents of a backup: the newest if `backup_id` is None.
    #[pyo3(signature = (db_dir, *, backup_id=None))]
    fn restore(&self, py: Python<'_>, db_dir: PathBuf, backup_id: Option<u32>) -> PyResult<()> {
        self.run(py, |engine| match backup_id {
            Some(id) => engine.restore_db_from_backup_with(&RestoreOptions::default(), id, &db_dir, &db_dir),
            None => engine.restore_db_from_latest_backup(&db_dir, &db_dir),
        })
    }

    /// Checks that the files of a backup are there, and with `checksums` that they are unchanged.
    #[pyo3(signature = (backup_id, *, checksums=false))]
    fn verify(&self, py: Python<'_>, backup_id: u32, checksums: bool) -> PyResult<()> {
        self.run(py, |engine| engine.verify_backup(backup_id, checksums))
    }

    /// Deletes a backup.
    fn delete(&self, py: Python<'_>, backup_id: u32) -> PyResult<()> {
        self.run(py, |engine| engine.delete_backup(backup_id))
    }

    /// Deletes all backups but the newest `keep`.
    fn purge_old(&self, py: Python<'_>, keep: usize) -> PyResult<()> {
        self.run(py, |engine| engine.purge_old_backups(keep))
    }
}
