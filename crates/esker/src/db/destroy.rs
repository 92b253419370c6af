//! Removing a database.

use crate::options::DbOptions;
use esker_base::{Result, SubCode};
use esker_env::FileSystem;
use esker_format::file_name::{self, FileType, parse_file_name};
use std::path::Path;

/// Deletes every file of the database in `path`, and the directory if nothing else is in it; of other directories that
/// options name, WALs from `wal_dir` and info logs from `db_log_dir`. Files that are not a database's are left alone. A
/// directory without a database is fine.
/// # Errors
/// `IoError` if another process has the database open, or a file cannot be deleted.
pub fn destroy_db(options: &DbOptions, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let fs = options.env.fs.as_ref();
    if names_in(fs, path)?.is_none() {
        return Ok(());
    }
    let lock_path = file_name::lock_file_name(path);
    let lock = fs.lock_file(&lock_path)?;
    delete_files(fs, path, |file_type| file_type != FileType::DbLock)?;
    let is_other = |dir: &&Path| fs.absolute_path(dir).ok() != fs.absolute_path(path).ok();
    if let Some(dir) = options.wal_dir.as_deref().filter(is_other) {
        delete_files(fs, dir, |file_type| file_type == FileType::Wal)?;
    }
    if let Some(dir) = options.db_log_dir.as_deref().filter(is_other) {
        delete_files(fs, dir, |file_type| file_type == FileType::InfoLog)?;
    }
    drop(lock);
    fs.delete_file(&lock_path)?;
    if fs.children(path)?.is_empty() {
        fs.delete_dir(path)?;
    }
    Ok(())
}

/// What is in `dir`; `None` if it is not there.
fn names_in(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Vec<String>>> {
    match fs.children(dir) {
        Err(e) if e.subcode() == SubCode::PathNotFound => Ok(None),
        names => names.map(Some),
    }
}

/// Deletes the files of a database in `dir` that are of a `wanted` type.
fn delete_files(fs: &dyn FileSystem, dir: &Path, wanted: impl Fn(FileType) -> bool) -> Result<()> {
    for name in names_in(fs, dir)?.into_iter().flatten() {
        if parse_file_name(&name).is_some_and(|(file_type, _)| wanted(file_type)) {
            fs.delete_file(&dir.join(name))?;
        }
    }
    Ok(())
}
