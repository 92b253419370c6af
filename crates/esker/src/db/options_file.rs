//! OPTIONS: the options in force, as text that RocksDB's tools read.

use super::Db;
use super::purge::Deleting;
use crate::options::{obsolete_options_files, save_options_file};
use esker_base::{FileNumber, Result};
use esker_format::file_name;
use std::path::Path;

impl Db {
    /// Writes a new OPTIONS file and removes all but the newest two, unless file deletions are disabled.
    /// # Errors
    /// `IoError`; the older files are as they were.
    pub(super) fn write_options_file(&self) -> Result<()> {
        let engine = self.engine();
        self.save_options(&engine.path, None)?;
        let Some(_deleting) = Deleting::begin(engine, &mut engine.state.lock()) else { return Ok(()) };
        for old in obsolete_options_files(&engine.fs().children(&engine.path)?) {
            let path = file_name::options_file_name(&engine.path, old);
            if let Err(e) = engine.fs().delete_file(&path) {
                esker_base::info_log!(engine.info_log, Warn, "Could not delete an old OPTIONS file: {e}");
            }
        }
        Ok(())
    }

    /// Writes an OPTIONS file with this number into another directory: that of a copy, which has its WALs with it.
    /// # Errors
    /// `IoError`.
    pub(crate) fn save_options_in(&self, directory: &Path, number: FileNumber) -> Result<()> {
        self.save_options(directory, Some(number))
    }

    fn save_options(&self, directory: &Path, number: Option<FileNumber>) -> Result<()> {
        let engine = self.engine();
        let (number, mut options, families) = {
            let state = engine.state.lock();
            let families = state.families.values().map(|f| (f.cf.name.clone(), f.options.clone()));
            // Numbered under the lock: the newest file has the newest options.
            let number = number.unwrap_or_else(|| engine.numbers.new_file_number());
            (number, engine.db_options().as_ref().clone(), families.collect::<Vec<_>>())
        };
        // For tools, which know the database's directory only, and may be started in another one than this process.
        let is_other = directory == engine.path && engine.wal_dir != engine.path;
        options.wal_dir = if is_other { Some(engine.fs().absolute_path(&engine.wal_dir)?) } else { None };
        let families = families.iter().map(|(name, options)| (name.as_str(), options.as_ref()));
        save_options_file(engine.fs().as_ref(), directory, number, &options, families).map(drop)
    }
}
