//! The directories of a family's tables and blob files.
//!
//! In: directories in the order of `cf_paths` or `db_paths`. A MANIFEST names a directory by its
//! index in that list, the path id. Out: paths of files. Source: RocksDB `file/filename.cc`.
//!
//! Invariants
//!  1. There is at least one directory. Blob files are in the first one.
//!  2. As in RocksDB, a path id beyond the list means the last directory. A checkpoint puts the
//!     files of several directories into one, and opens by this rule.

use super::{blob_file_name, table_file_name};
use esker_base::FileNumber;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most directories of a family: RocksDB packs the path id into the two upper bits of a file
/// number.
pub const MAX_PATHS: usize = 4;

/// The directories of a family's files by path id. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePaths(Arc<[PathBuf]>);

impl FilePaths {
    /// All files in one directory.
    pub fn one(directory: impl Into<PathBuf>) -> FilePaths {
        FilePaths(Arc::new([directory.into()]))
    }

    /// Makes the list of directories, in the order of their path ids. If there are none,
    /// `directory` alone.
    pub fn new(directories: impl IntoIterator<Item = PathBuf>, directory: &Path) -> FilePaths {
        let listed: Arc<[PathBuf]> = directories.into_iter().collect();
        if listed.is_empty() { FilePaths::one(directory) } else { FilePaths(listed) }
    }

    /// The directory with this path id.
    pub fn directory(&self, path_id: u32) -> &Path {
        let listed = usize::try_from(path_id).ok().and_then(|id| self.0.get(id));
        listed.or(self.0.last()).map_or(Path::new(""), PathBuf::as_path)
    }

    /// `path_id`, or the last path id if it lies beyond the list.
    pub fn listed(&self, path_id: u32) -> u32 {
        path_id.min(u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX))
    }

    /// The path id of a directory; `None` if it is not in the list.
    pub fn id_of(&self, directory: &Path) -> Option<u32> {
        self.0.iter().zip(0..).find(|(path, _)| *path == directory).map(|(_, id)| id)
    }

    /// All directories, in the order of their path ids.
    pub fn all(&self) -> &[PathBuf] {
        &self.0
    }

    /// The directory of new level-0 tables and of blob files.
    pub fn first(&self) -> &Path {
        self.directory(0)
    }

    /// `NNNNNN.sst` in the directory with this path id.
    pub fn table(&self, path_id: u32, number: FileNumber) -> PathBuf {
        table_file_name(self.directory(path_id), number)
    }

    /// `NNNNNN.blob` in the first directory.
    pub fn blob(&self, number: FileNumber) -> PathBuf {
        blob_file_name(self.first(), number)
    }
}
