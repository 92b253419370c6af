//! IDENTITY: the database's own name, made once.

use crate::options::DbOptions;
use esker_base::FileNumber;
use esker_base::Result;
use esker_env::{FileSystem, random};
use esker_format::file_name;
use std::path::Path;

/// The contents of IDENTITY. Makes the file if it is missing and `create` is set; otherwise a
/// missing file gives a name for this process only.
/// # Errors
/// `IoError` if it can neither be read nor made.
pub(super) fn load_or_create(
    options: &DbOptions,
    fs: &dyn FileSystem,
    dir: &Path,
    create: bool,
) -> Result<String> {
    let path = file_name::identity_file_name(dir);
    if fs.file_exists(&path)? {
        let mut file = fs.new_sequential_file(&path)?;
        let mut bytes = [0u8; 256];
        let n = file.read(&mut bytes)?;
        let id = String::from_utf8_lossy(&bytes[..n]).trim_end().to_owned();
        if !id.is_empty() {
            return Ok(id);
        }
    }
    let id = random::uuid_v4();
    if create {
        replace_file(options, fs, dir, &file_name::temp_file_name(dir, FileNumber(0)), &path, id.as_bytes())?;
    }
    Ok(id)
}

/// The contents of IDENTITY. Makes the file if it is missing.
/// # Errors
/// `IoError` if it can neither be read nor made.
pub(crate) fn load_or_create_identity(
    options: &DbOptions,
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<String> {
    load_or_create(options, fs, dir, true)
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
