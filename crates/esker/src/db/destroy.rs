//! Removing a database.

use crate::options::DbOptions;
use esker_base::{Result, SubCode};
use esker_format::file_name::{self, FileType, parse_file_name};
use std::path::Path;

/// Deletes every file of the database in `path`, and the directory if nothing else is in it. Files that are not a
/// database's are left alone. A directory without a database is fine.
/// # Errors
/// `IoError` if another process has the database open, or a file cannot be deleted.
pub fn destroy_db(options: &DbOptions, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let fs = options.env.fs.as_ref();
    let names = match fs.children(path) {
        Ok(names) => names,
        Err(e) if e.subcode() == SubCode::PathNotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let lock_path = file_name::lock_file_name(path);
    let lock = fs.lock_file(&lock_path)?;
    for dir in [Some(path), options.wal_dir.as_deref(), options.db_log_dir.as_deref()].into_iter().flatten() {
        let names = if dir == path { names.clone() } else { fs.children(dir)? };
        for name in names {
            match parse_file_name(&name) {
                Some((FileType::DbLock, _)) | None => {}
                Some(_) => fs.delete_file(&dir.join(name))?,
            }
        }
    }
    drop(lock);
    fs.delete_file(&lock_path)?;
    if fs.children(path)?.is_empty() {
        fs.delete_dir(path)?;
    }
    Ok(())
}
