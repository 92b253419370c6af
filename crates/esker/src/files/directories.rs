//! Directories for tables and blob files besides the database's own (`db_paths`, `cf_paths`).
//!
//! In: the paths of families. Out: the directories exist, are held open, belong to no other
//! database, and no file number in them is used again.
//!
//! Source: RocksDB `db/db_impl/db_impl_open.cc` (`DBImpl::Open`), `db/db_impl/db_impl_files.cc`
//! (`CollectAllDBPaths`).

use crate::version::Numbers;
use esker_base::{Error, Result, SubCode};
use esker_env::FileSystem;
use esker_format::file_name::{FilePaths, FileType, current_file_name, identity_file_name, parse_file_name};
use std::path::{Path, PathBuf};

/// The directories of these families, each once, without `db`, the database's own.
pub(crate) fn other_directories<'a>(
    db: &Path,
    families: impl IntoIterator<Item = &'a FilePaths>,
) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for directory in families.into_iter().flat_map(FilePaths::all) {
        if directory != db && !directories.contains(directory) {
            directories.push(directory.clone());
        }
    }
    directories
}

/// Creates the directories for the database in `db`, holds them, and marks the numbers of files in
/// them as used.
/// # Errors
/// `InvalidArgument`: one of them is the directory of another database, whose tables would be
/// deleted as obsolete · `IoError`.
pub(crate) fn take_directories(
    fs: &dyn FileSystem,
    db: &Path,
    directories: &[PathBuf],
    numbers: &Numbers,
) -> Result<()> {
    for directory in directories {
        fs.create_dir_if_missing(directory)?;
        fs.hold_also(&[directory])?;
        check_ours(fs, db, directory)?;
        for name in fs.children(directory)?.into_iter().filter(|name| is_data_file(name)) {
            // Larger numbers were never allocated.
            if let Some((_, number)) = parse_file_name(&name).filter(|(_, n)| n.0 <= u64::MAX / 2) {
                numbers.mark_used(number);
            }
        }
    }
    Ok(())
}

/// The directory for files that no database names, beside them.
pub(crate) const LOST: &str = "lost";

/// Moves these files of `directory` into `lost` there, durably. It replaces no file.
/// # Errors
/// `Corruption`: a file of this name is there already · `IoError`.
pub(crate) fn move_to_lost(fs: &dyn FileSystem, directory: &Path, names: &[String]) -> Result<()> {
    let lost = directory.join(LOST);
    fs.create_dir_if_missing(&lost)?;
    for name in names {
        let to = lost.join(name);
        if fs.file_exists(&to)? {
            return Err(
                Error::corruption("a file of this name is lost already: move it away").at(to.display())
            );
        }
        fs.rename(&directory.join(name), &to)?;
    }
    fs.new_directory(&lost)?.fsync()?;
    fs.new_directory(directory)?.fsync()
}

/// Whether a file of this name is a table or a blob file.
pub(crate) fn is_data_file(name: &str) -> bool {
    matches!(parse_file_name(name), Some((FileType::Table | FileType::Blob, _)))
}

/// The names in `directory`; none if it does not exist.
/// # Errors
/// `IoError`.
pub(crate) fn names_if_there(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<String>> {
    match fs.children(directory) {
        Err(e) if e.subcode() == SubCode::PathNotFound => Ok(Vec::new()),
        names => names,
    }
}

/// Checks that no other database than the one in `db` lives in `directory`.
/// # Errors
/// `InvalidArgument` if one does.
pub(crate) fn check_ours(fs: &dyn FileSystem, db: &Path, directory: &Path) -> Result<()> {
    if !fs.file_exists(&current_file_name(directory))? {
        return Ok(());
    }
    // `directory` may be `db` under another name: then both have the same IDENTITY.
    match (identity(fs, directory)?, identity(fs, db)?) {
        (Some(there), here) if Some(&there) != here.as_ref() => {
            let what = "option db_paths or cf_paths: it is the directory of another database";
            Err(Error::invalid_argument(what).at(directory.display()))
        }
        _ => Ok(()),
    }
}

fn identity(fs: &dyn FileSystem, directory: &Path) -> Result<Option<Vec<u8>>> {
    let path = identity_file_name(directory);
    if !fs.file_exists(&path)? {
        return Ok(None);
    }
    let mut bytes = vec![0; 256];
    let read = fs.new_sequential_file(&path)?.read(&mut bytes)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}
