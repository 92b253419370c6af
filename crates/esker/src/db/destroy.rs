//! Removing a database.

use super::descriptor::ColumnFamilyDescriptor;
use crate::files::{check_ours, is_data_file, is_trash_name};
use crate::options::DbOptions;
use esker_base::{Result, SubCode};
use esker_env::FileSystem;
use esker_format::file_name::{self, FileType, parse_file_name};
use std::collections::BTreeSet;
use std::path::Path;

/// Deletes every file of the database in `path`: also its WALs in `wal_dir` and in the archive, its
/// info logs in `db_log_dir`, and its tables and blob files in `db_paths`. Then deletes `path`, the
/// archive and each directory of `db_paths`, if it is empty. Other files stay. A directory without
/// a database is fine.
/// # Errors
/// `InvalidArgument`, with nothing deleted: one of `db_paths` is another database's directory ·
/// `IoError` if another process has the database open, or a file cannot be deleted.
pub fn destroy_db(options: &DbOptions, path: impl AsRef<Path>) -> Result<()> {
    destroy_db_cf(options, path, &[])
}

/// [`destroy_db`] of a database whose families have directories of their own: deletes tables and
/// blob files from `cf_paths` of these families, too.
///
/// ```
/// use esker::options::DbPath;
/// use esker::{ColumnFamilyDescriptor, ColumnFamilyOptions, Db, DbOptions, destroy_db_cf};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let options = DbOptions::new().create_if_missing(true).create_missing_column_families(true);
/// let cf_paths = vec![DbPath::new(dir.join("users"), u64::MAX)];
/// let users = ColumnFamilyDescriptor::new("users", ColumnFamilyOptions::new().cf_paths(cf_paths));
/// let families = [ColumnFamilyDescriptor::from("default"), users];
/// let db = Db::open_cf(&options, dir.join("db"), &families)?;
/// # drop(db);
/// destroy_db_cf(&options, dir.join("db"), &families)?;
/// assert!(!dir.join("db").exists() && !dir.join("users").exists());
/// # Ok::<_, esker::Error>(())
/// ```
/// # Errors
/// Those of [`destroy_db`].
pub fn destroy_db_cf(
    options: &DbOptions,
    path: impl AsRef<Path>,
    families: &[ColumnFamilyDescriptor],
) -> Result<()> {
    let path = path.as_ref();
    let fs = options.env.fs.as_ref();
    if names_in(fs, path)?.is_none() {
        return Ok(());
    }
    let lock_path = file_name::lock_file_name(path);
    let lock = fs.lock_file(&lock_path)?;
    let absolute = fs.absolute_path(path)?;
    let paths = families.iter().flat_map(|family| &family.options.cf_paths).chain(&options.db_paths);
    let mut others = BTreeSet::new();
    for directory in paths {
        others.insert(fs.absolute_path(&directory.path)?);
    }
    others.remove(&absolute);
    others.iter().try_for_each(|directory| check_ours(fs, &absolute, directory))?;
    let is_of_type = |wanted: fn(FileType) -> bool| {
        move |name: &str| parse_file_name(name).is_some_and(|(file_type, _)| wanted(file_type))
    };
    delete_files(fs, path, is_of_type(|file_type| file_type != FileType::DbLock))?;
    delete_files(fs, path, is_trash_name)?;
    delete_archive(fs, path)?;
    for directory in &others {
        delete_files(fs, directory, |name| is_data_file(name) || is_trash_name(name))?;
        // Another name may lead to `path`, which still has `LOCK`.
        if fs.file_exists(directory)? && fs.children(directory)?.is_empty() {
            fs.delete_dir(directory)?;
        }
    }
    let is_other = |dir: &&Path| fs.absolute_path(dir).is_ok_and(|dir| dir != absolute);
    if let Some(dir) = options.wal_dir.as_deref().filter(is_other) {
        delete_files(fs, dir, is_of_type(|file_type| file_type == FileType::Wal))?;
        delete_archive(fs, dir)?;
    }
    if let Some(dir) = options.db_log_dir.as_deref() {
        let log = file_name::info_log_name_elsewhere(&absolute);
        let is_old = |name: &str| {
            let micros = name.strip_prefix(&log).and_then(|rest| rest.strip_prefix(".old."));
            micros.is_some_and(|micros| micros.bytes().all(|b| b.is_ascii_digit()))
        };
        delete_files(fs, dir, |name| name == log || is_old(name))?;
    }
    drop(lock);
    fs.delete_file(&lock_path)?;
    if fs.children(path)?.is_empty() {
        fs.delete_dir(path)?;
    }
    Ok(())
}

/// The names in `dir`; `None` if it does not exist.
fn names_in(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Vec<String>>> {
    match fs.children(dir) {
        Err(e) if e.subcode() == SubCode::PathNotFound => Ok(None),
        names => names.map(Some),
    }
}

/// Deletes the files in `dir` whose names `wanted` accepts.
fn delete_files(fs: &dyn FileSystem, dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    for name in names_in(fs, dir)?.into_iter().flatten().filter(|name| wanted(name)) {
        fs.delete_file(&dir.join(name))?;
    }
    Ok(())
}

/// Deletes the archived WALs of `wal_dir`, and their directory if nothing else is in it.
pub(crate) fn delete_archive(fs: &dyn FileSystem, wal_dir: &Path) -> Result<()> {
    let archive = wal_dir.join(file_name::ARCHIVE_DIR);
    if !fs.file_exists(&archive)? {
        return Ok(());
    }
    delete_files(fs, &archive, |name| matches!(parse_file_name(name), Some((FileType::Wal, _))))?;
    if fs.children(&archive)?.is_empty() { fs.delete_dir(&archive) } else { Ok(()) }
}
