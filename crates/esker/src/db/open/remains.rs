//! Refuses to create a database among the files of a lost one.

use super::Opening;
use crate::files::{check_ours, is_data_file, move_to_lost, names_if_there};
use esker_base::{Error, Result};
use esker_env::FileSystem;
use esker_format::file_name::{self, FileType, parse_file_name};
use std::path::Path;

impl Opening {
    /// Refuses to create a database among the files of another one: it would replay their WALs and
    /// delete their tables. Such files remain if CURRENT is lost, or if a restore or a destroy was
    /// interrupted. An interrupted creation leaves no such files. With `move_leftovers_of_paths`,
    /// tables in other directories are moved to `lost`.
    /// # Errors
    /// `Corruption` names one of the files · `InvalidArgument` · `IoError`.
    pub(super) fn check_for_remains(&self, fs: &dyn FileSystem) -> Result<()> {
        for dir in [&self.path, &self.wal_dir] {
            let is_of_database = |name: &String| match parse_file_name(name) {
                Some((FileType::Wal, _)) => true,
                Some((FileType::Table | FileType::Blob, _)) => *dir == self.path,
                _ => false,
            };
            if let Some(name) = fs.children(dir)?.into_iter().find(is_of_database) {
                return Err(remains(&dir.join(name)));
            }
        }
        // The new database would take archived WALs for its own history.
        if let Some(number) = self.archived_wals().first() {
            return Err(remains(&file_name::archived_wal_file_name(&self.wal_dir, *number)));
        }
        for dir in self.other_directories() {
            let mut names = names_if_there(fs, &dir)?;
            names.retain(|name| is_data_file(name));
            let Some(first) = names.first() else { continue };
            if !self.options.move_leftovers_of_paths {
                return Err(remains(&dir.join(first)));
            }
            check_ours(fs, &self.path, &dir)?;
            move_to_lost(fs, &dir, &names)?;
            let (dir, count) = (dir.display(), names.len());
            esker_base::info_log!(
                self.info_log,
                Warn,
                "{dir}: moved {count} files of a lost database to lost"
            );
        }
        Ok(())
    }
}

fn remains(file: &Path) -> Error {
    Error::corruption(
        "this file is there and CURRENT is not, so no new database is created; repair_db, or esker ldb repair, \
         makes one of what is left, destroy_db removes it",
    )
    .at(file.display())
}
