//! Calls of the database to its `sst_file_manager`: it reports existing files, deletes files, and
//! checks the space limit.
//!
//! Source: RocksDB `file/file_util.cc` (`DeleteDBFile`), `DBImpl::TrackOrUntrackFiles`.

use super::{Engine, ErrorReason};
use crate::files::{check_space_limit, is_trash};
use esker_base::Result;
use esker_env::sst_file_manager::Deleter;
use esker_format::file_name::{FileType, parse_file_name};
use std::path::{Path, PathBuf};

impl Engine {
    /// Deletes a file of the database. Tables, blob files and trash are deleted at the pace of the
    /// `sst_file_manager`, and WALs too if they lie in the same directory. Other files are deleted
    /// at once.
    /// # Errors
    /// `IoError`.
    pub(crate) fn delete_file(&self, path: &Path) -> Result<()> {
        match &self.options.sst_file_manager {
            Some(manager) if self.is_paced(path) => {
                let statistics = &self.options.statistics;
                manager.delete_file(Deleter { fs: self.fs(), info_log: &self.info_log, statistics }, path)
            }
            _ => self.fs().delete_file(path),
        }
    }

    fn is_paced(&self, path: &Path) -> bool {
        match kind_of(path) {
            Some(FileType::Table | FileType::Blob) => true,
            Some(FileType::Wal) => self.wal_dir == self.path,
            _ => is_trash(path),
        }
    }

    /// The directories with tables and blob files of this database: its own, then the others.
    fn data_directories(&self) -> Vec<PathBuf> {
        [&self.path].into_iter().chain(&*self.other_directories.lock()).cloned().collect()
    }

    /// Reports existing tables, blob files and trash to the `sst_file_manager`. Costs one system
    /// call a file.
    /// # Errors
    /// `IoError`.
    pub(crate) fn track_existing_files(&self) -> Result<()> {
        let Some(manager) = &self.options.sst_file_manager else { return Ok(()) };
        for directory in self.data_directories() {
            for name in self.fs().children(&directory)? {
                let path = directory.join(name);
                if matches!(kind_of(&path), Some(FileType::Table | FileType::Blob)) || is_trash(&path) {
                    manager.on_add_file(&path, self.fs().file_size(&path)?);
                }
            }
        }
        Ok(())
    }

    /// Makes the `sst_file_manager` stop tracking and deleting files in this database's
    /// directories.
    pub(crate) fn end_file_tracking(&self) {
        if let Some(manager) = &self.options.sst_file_manager {
            let directories = self.data_directories();
            manager.forget_directories(&directories.iter().map(PathBuf::as_path).collect::<Vec<_>>());
        }
    }

    /// Stops writes if the tracked files have reached their limit.
    pub(crate) fn stop_at_space_limit(&self) {
        if let Err(reached) = check_space_limit(&self.options) {
            self.set_background_error(&reached, ErrorReason::Flush);
        }
    }
}

fn kind_of(path: &Path) -> Option<FileType> {
    let name = path.file_name()?.to_str()?;
    parse_file_name(name).map(|(kind, _)| kind)
}
