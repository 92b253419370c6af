//! Directories for tables and blob files: `db_paths` of a database, `cf_paths` of a family.
//!
//! Source: RocksDB `include/rocksdb/options.h` (`DbPath`), `db/column_family.cc`.

use super::sanitize::refused;
use super::{ColumnFamilyOptions, CompactionStyle, DbOptions};
use esker_base::Result;
use esker_env::FileSystem;
use esker_format::file_name::{FilePaths, MAX_PATHS};
use std::path::{Path, PathBuf};

/// A directory for tables, and the bytes that it should hold: RocksDB's `DbPath`.
///
/// ```
/// use esker::options::DbPath;
/// use esker::{Db, Options};
/// # let dir = esker_testkit::TempDir::new("doc");
///
/// let mut options = Options::new().create_if_missing(true);
/// let (fast, slow) = (dir.join("fast"), dir.join("slow"));
/// options.db.db_paths = vec![DbPath::new(&fast, 10 << 30), DbPath::new(&slow, 1 << 40)];
/// let db = Db::open(&options, dir.join("db"))?;
/// db.put("esker", "gravel")?;
/// db.flush()?;
/// assert_eq!(db.live_files()[0].file.directory, fast);
/// # Ok::<_, esker::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DbPath {
    /// The directory; an opening creates it if it is missing. A relative path starts at the working
    /// directory at the time of opening.
    pub path: PathBuf,
    /// Bytes that the directory should hold. Compactions estimate sizes, so it may hold more.
    pub target_size: u64,
}

impl DbPath {
    /// The directory `path`, which should hold about `target_size` bytes.
    pub fn new(path: impl Into<PathBuf>, target_size: u64) -> DbPath {
        DbPath { path: path.into(), target_size }
    }
}

impl DbOptions {
    /// Makes `db_paths` absolute.
    /// # Errors
    /// `IoError` if there is no working directory.
    pub(crate) fn make_paths_absolute(&mut self) -> Result<()> {
        make_absolute(self.env.fs.as_ref(), &mut self.db_paths)
    }
}

impl ColumnFamilyOptions {
    /// Gives the family the database's directories if it has none of its own, and makes them
    /// absolute.
    /// # Errors
    /// `NotSupported` naming the option: too many directories, or more than one in a compaction
    /// style that cannot use them · `IoError` if there is no working directory.
    pub(crate) fn take_paths(&mut self, db: &DbOptions) -> Result<()> {
        let name = if self.cf_paths.is_empty() { "db_paths" } else { "cf_paths" };
        if self.cf_paths.is_empty() {
            self.cf_paths.clone_from(&db.db_paths);
        }
        check_number(name, &self.cf_paths)?;
        let has_levels = matches!(self.compaction_style, CompactionStyle::Level | CompactionStyle::Universal);
        if self.cf_paths.len() > 1 && !has_levels {
            return Err(refused(name, "more than one path needs level or universal compaction"));
        }
        make_absolute(db.env.fs.as_ref(), &mut self.cf_paths)
    }

    /// The family's directories; `db` is the database's.
    pub(crate) fn file_paths(&self, db: &Path) -> FilePaths {
        FilePaths::new(self.cf_paths.iter().map(|path| path.path.clone()), db)
    }
}

/// Checks the length of a list of paths.
/// # Errors
/// `NotSupported` if there are more directories than a MANIFEST can name.
pub(super) fn check_number(option: &str, paths: &[DbPath]) -> Result<()> {
    if paths.len() <= MAX_PATHS {
        return Ok(());
    }
    Err(refused(option, &format!("{} paths; a MANIFEST can name {MAX_PATHS}", paths.len())))
}

fn make_absolute(fs: &dyn FileSystem, paths: &mut [DbPath]) -> Result<()> {
    for path in paths {
        path.path = fs.absolute_path(&path.path)?;
    }
    Ok(())
}
