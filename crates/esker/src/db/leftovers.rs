//! What a failed opening leaves in the directory: nothing.
//!
//! In: the names that are there before an opening, and what CURRENT says. Out: after a failure, the files that the
//! opening made are deleted, so that attempts on a full disk do not fill it further.
//!
//! Invariants
//!  1. Nothing is deleted unless CURRENT says what it said before: the MANIFEST in force names none of the new files.
//!  2. Nothing is deleted that was there before. The opening holds LOCK, so nobody else makes files meanwhile.

use esker_base::Result;
use esker_base::sync::Arc;
use esker_env::FileSystem;
use esker_format::file_name::{FileType, current_file_name, parse_file_name};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The directories of a database before it is opened.
pub(super) struct Leftovers {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    current: Option<Vec<u8>>,
    before: Vec<(PathBuf, HashSet<String>)>,
}

impl Leftovers {
    /// Lists both directories.
    /// # Errors
    /// `IoError`.
    pub(super) fn list(fs: &Arc<dyn FileSystem>, dir: &Path, wal_dir: &Path) -> Result<Leftovers> {
        let mut before = Vec::new();
        let dirs = [dir, wal_dir];
        for dir in dirs.iter().take(if dir == wal_dir { 1 } else { 2 }) {
            before.push((dir.to_path_buf(), fs.children(dir)?.into_iter().collect()));
        }
        let current =
            if fs.file_exists(&current_file_name(dir))? { Some(read_current(fs, dir)?) } else { None };
        Ok(Leftovers { fs: fs.clone(), dir: dir.to_owned(), current, before })
    }

    /// Deletes what the opening made, unless CURRENT may name it. What cannot be deleted stays.
    pub(super) fn delete(self) {
        let current = match self.fs.file_exists(&current_file_name(&self.dir)) {
            Ok(true) => read_current(&self.fs, &self.dir).map(Some),
            Ok(false) => Ok(None),
            Err(e) => Err(e),
        };
        if !current.is_ok_and(|current| current == self.current) {
            return;
        }
        let is_new_database = self.current.is_none();
        for (dir, before) in &self.before {
            for name in self.fs.children(dir).unwrap_or_default() {
                let is_ours = match parse_file_name(&name) {
                    Some((FileType::Identity, _)) => is_new_database,
                    Some((kind, _)) => matches!(
                        kind,
                        FileType::Table
                            | FileType::Blob
                            | FileType::Wal
                            | FileType::Descriptor
                            | FileType::Temp
                    ),
                    None => false,
                };
                if is_ours && !before.contains(&name) {
                    match self.fs.delete_file(&dir.join(&name)) {
                        Ok(()) | Err(_) => {}
                    }
                }
            }
        }
    }
}

fn read_current(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<Vec<u8>> {
    let mut file = fs.new_sequential_file(&current_file_name(dir))?;
    // Longer contents name no MANIFEST.
    let mut bytes = vec![0; 256];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}
