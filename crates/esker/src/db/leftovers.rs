//! Files of a failed opening are deleted again.
//!
//! In: names of the files before an opening. Out: a failed opening deletes the files that it made,
//! so that attempts on a full disk do not fill it further.
//!
//! Invariants
//!  1. Files are deleted only if CURRENT names a MANIFEST that existed before: that MANIFEST names
//!     none of the new files.
//!  2. No file is deleted that existed before. The opening holds LOCK, so no other process makes
//!     files meanwhile.

use crate::files::is_data_file;
use crate::version::manifest::read_current;
use esker_base::Result;
use esker_base::sync::Arc;
use esker_env::FileSystem;
use esker_format::file_name::{FileType, current_file_name, descriptor_file_name, parse_file_name};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The directories of a database before it is opened.
pub(super) struct Leftovers {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    before: Vec<(PathBuf, HashSet<String>)>,
    /// Directories that hold only tables and blob files of the database, with the names in each.
    data: Vec<(PathBuf, HashSet<String>)>,
}

impl Leftovers {
    /// Lists both directories. `None` if a listing fails: nothing will be deleted, and the opening
    /// meets the error itself.
    pub(super) fn list(fs: &Arc<dyn FileSystem>, dir: &Path, wal_dir: &Path) -> Option<Leftovers> {
        Leftovers::try_to_list(fs, dir, wal_dir).ok()
    }

    fn try_to_list(fs: &Arc<dyn FileSystem>, dir: &Path, wal_dir: &Path) -> Result<Leftovers> {
        let mut before = Vec::new();
        let dirs = [dir, wal_dir];
        for dir in dirs.iter().take(if dir == wal_dir { 1 } else { 2 }) {
            before.push((dir.to_path_buf(), fs.children(dir)?.into_iter().collect()));
        }
        Ok(Leftovers { fs: fs.clone(), dir: dir.to_owned(), before, data: Vec::new() })
    }

    /// Adds directories of tables and blob files, once they are known to be this database's. Files
    /// in directories that cannot be listed stay.
    pub(super) fn add_data_directories(&mut self, directories: &[PathBuf]) {
        for dir in directories.iter().filter(|dir| self.before.iter().all(|(known, _)| known != *dir)) {
            if let Ok(names) = self.fs.children(dir) {
                self.data.push((dir.clone(), names.into_iter().collect()));
            }
        }
    }

    /// Deletes files that the opening made, unless CURRENT may name them. Files that cannot be
    /// deleted stay.
    pub(super) fn delete(self) {
        let had = |name: &str| self.before.first().is_some_and(|(_, names)| names.contains(name));
        let is_new_database = !had("CURRENT");
        let is_untouched = match self.fs.file_exists(&current_file_name(&self.dir)) {
            Ok(true) => read_current(self.fs.as_ref(), &self.dir).is_ok_and(|number| {
                let manifest = descriptor_file_name(&self.dir, number);
                manifest.file_name().and_then(|name| name.to_str()).is_some_and(had)
            }),
            Ok(false) => is_new_database,
            Err(_) => false,
        };
        if !is_untouched || self.delete_manifests().is_err() {
            return;
        }
        for (dir, before) in &self.before {
            for name in self.fs.children(dir).unwrap_or_default() {
                let is_ours = match parse_file_name(&name) {
                    Some((FileType::Identity, _)) => is_new_database,
                    Some((kind, _)) => {
                        matches!(kind, FileType::Table | FileType::Blob | FileType::Wal | FileType::Temp)
                    }
                    None => false,
                };
                if is_ours && !before.contains(&name) {
                    self.try_to_delete(&dir.join(&name));
                }
            }
        }
        for (dir, before) in &self.data {
            let names = self.fs.children(dir).unwrap_or_default().into_iter();
            for name in names.filter(|name| is_data_file(name) && !before.contains(name)) {
                self.try_to_delete(&dir.join(&name));
            }
        }
    }

    /// Deletes the MANIFESTs that the opening made.
    fn delete_manifests(&self) -> Result<()> {
        let Some((dir, before)) = self.before.first() else { return Ok(()) };
        let is_new = |name: &String| {
            matches!(parse_file_name(name), Some((FileType::Descriptor, _))) && !before.contains(name)
        };
        let names = self.fs.children(dir)?;
        names.iter().filter(|name| is_new(name)).try_for_each(|name| self.fs.delete_file(&dir.join(name)))
    }

    fn try_to_delete(&self, path: &Path) {
        match self.fs.delete_file(path) {
            Ok(()) | Err(_) => {}
        }
    }
}
