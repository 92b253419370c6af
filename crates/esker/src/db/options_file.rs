//! OPTIONS: the options in force, as text that RocksDB's tools read.

use super::Db;
use crate::options::{obsolete_options_files, save_options_file};
use esker_base::Result;
use esker_format::file_name;

impl Db {
    /// Writes a new OPTIONS file and removes all but the newest two.
    /// # Errors
    /// `IoError`; the older files are as they were.
    pub(super) fn write_options_file(&self) -> Result<()> {
        let engine = self.engine();
        let (number, options, families) = {
            let state = engine.state.lock();
            let families = state.families.values().map(|f| (f.cf.name.clone(), f.options.clone()));
            // Numbered under the lock: the newest file has the newest options.
            (engine.numbers.new_file_number(), engine.db_options(), families.collect::<Vec<_>>())
        };
        let families = families.iter().map(|(name, options)| (name.as_str(), options.as_ref()));
        save_options_file(engine.fs().as_ref(), &engine.path, number, &options, families)?;
        for old in obsolete_options_files(&engine.fs().children(&engine.path)?) {
            let path = file_name::options_file_name(&engine.path, old);
            if let Err(e) = engine.fs().delete_file(&path) {
                esker_base::info_log!(engine.info_log, Warn, "Could not delete an old OPTIONS file: {e}");
            }
        }
        Ok(())
    }
}
