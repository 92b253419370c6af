//! The database's id: made once, kept in the MANIFEST and in the file IDENTITY.
//!
//! In: options, a directory, the id in the MANIFEST. Out: the id, and an IDENTITY that agrees with
//! it. If they differ, the MANIFEST's id counts. Source: RocksDB `db/db_impl/db_impl_files.cc`
//! (`SetupDBId`).

use super::Db;
use crate::options::DbOptions;
use esker_base::FileNumber;
use esker_base::Result;
use esker_env::{FileSystem, random};
use esker_format::file_name;
use std::path::Path;

impl Db {
    /// The database's id: the same at each opening, and in checkpoints if
    /// [`write_dbid_to_manifest`](DbOptions#structfield.write_dbid_to_manifest) is on. RocksDB's
    /// `GetDbIdentity`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let db = esker::Db::open_default(dir.path())?;
    /// assert_eq!(db.db_identity().len(), "b5a75c69-89b4-47a6-939e-4780ce7c492e".len());
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn db_identity(&self) -> &str {
        &self.engine().db_id
    }

    /// The id of this opening, 20 characters. Tables record it. RocksDB's `GetDbSessionId`.
    ///
    /// ```
    /// # let dir = esker_testkit::TempDir::new("doc");
    /// let db = esker::Db::open_default(dir.path())?;
    /// assert_eq!(db.db_session_id().len(), 20);
    /// # Ok::<_, esker::Error>(())
    /// ```
    pub fn db_session_id(&self) -> &str {
        &self.engine().session_id
    }
}

/// The id in IDENTITY; `None` if there is no such file, or nothing in it.
/// # Errors
/// `IoError` if the file cannot be read.
pub(super) fn load(fs: &dyn FileSystem, dir: &Path) -> Result<Option<String>> {
    let path = file_name::identity_file_name(dir);
    if !fs.file_exists(&path)? {
        return Ok(None);
    }
    let mut file = fs.new_sequential_file(&path)?;
    let mut bytes = [0u8; 256];
    let n = file.read(&mut bytes)?;
    let id = String::from_utf8_lossy(&bytes[..n]).trim_end().to_owned();
    Ok((!id.is_empty()).then_some(id))
}

/// Writes IDENTITY.
/// # Errors
/// `IoError`; the file is then as it was.
pub(super) fn save(options: &DbOptions, fs: &dyn FileSystem, dir: &Path, id: &str) -> Result<()> {
    let (temp, path) = (file_name::temp_file_name(dir, FileNumber(0)), file_name::identity_file_name(dir));
    replace_file(options, fs, dir, &temp, &path, id.as_bytes())
}

/// A new id.
pub(super) fn generate() -> String {
    random::uuid_v4()
}

/// The id in IDENTITY. Makes one and the file if there is none.
/// # Errors
/// `IoError` if the file can neither be read nor made.
pub(crate) fn load_or_create_identity(
    options: &DbOptions,
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<String> {
    if let Some(id) = load(fs, dir)? {
        return Ok(id);
    }
    let id = generate();
    save(options, fs, dir, &id)?;
    Ok(id)
}

/// Writes `contents` to `temp`, syncs it, renames it to `path` and syncs the directory.
/// # Errors
/// `IoError`; `path` is then as it was.
pub(super) fn replace_file(
    options: &DbOptions,
    fs: &dyn FileSystem,
    dir: &Path,
    temp: &Path,
    path: &Path,
    contents: &[u8],
) -> Result<()> {
    esker_env::replace_file(fs, temp, path, contents, options.use_fsync)?;
    fs.new_directory(dir)?.fsync()
}
