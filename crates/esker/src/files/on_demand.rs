//! The file system of a follower: its leader's files, and links to tables and blob files in a
//! directory of its own.
//!
//! In: paths in the follower's directory. Out: the leader's files under these paths. A table or
//! blob file is linked into the follower's directory when it is first asked for.
//! Source of the idea: RocksDB `env/fs_on_demand.cc`.
//!
//! Invariants
//!  1. Nothing in the leader's directory changes, but that files there get further links.
//!  2. The follower's directory holds links, the LOG, `LOCK` and [`LEADER`], and no other file of a
//!     database. A link is deleted only in a directory with [`LEADER`]: elsewhere a table may be
//!     the only copy of its entries.
//!  3. The follower holds `LOCK` until it is closed: two followers need two directories.

use super::directories::{is_data_file, names_if_there};
use esker_base::sync::Arc;
use esker_base::{Error, Result, SubCode};
use esker_env::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use esker_format::file_name::{FileType, lock_file_name, parse_file_name};
use std::fmt;
use std::path::{Path, PathBuf};

/// The file that marks a follower's directory, and names its leader's directory.
pub(crate) const LEADER: &str = "LEADER";

/// See the head of the file.
pub(crate) struct OnDemandFileSystem {
    inner: Arc<dyn FileSystem>,
    leader: PathBuf,
    own: PathBuf,
}

impl fmt::Debug for OnDemandFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OnDemandFileSystem({} of {})", self.own.display(), self.leader.display())
    }
}

/// Where the file of a path lies.
enum Place {
    /// Where the path says.
    Own,
    /// Where the path says, once it is linked to this file of the leader.
    Linked(PathBuf),
    /// In the leader's directory.
    Leader(PathBuf),
}

impl OnDemandFileSystem {
    /// Takes `own` as the directory of a follower of the database in `leader`, for as long as the
    /// caller keeps the lock. Deletes the links of an earlier follower there: the leader's numbers
    /// may mean other files now.
    /// # Errors
    /// `InvalidArgument`: the directories are not apart; `own` is missing, or holds a database or
    /// tables of one · `IoError`, retryable, if another follower has the directory · `IoError`.
    pub(crate) fn take(
        inner: Arc<dyn FileSystem>,
        (own, leader): (PathBuf, PathBuf),
        create_if_missing: bool,
    ) -> Result<(OnDemandFileSystem, Box<dyn FileLock>)> {
        let refused = |what: &str| Error::invalid_argument(what).at(own.display());
        if own.starts_with(&leader) || leader.starts_with(&own) {
            return Err(refused("a follower needs a directory apart from its leader's"));
        }
        if create_if_missing {
            inner.create_dir_if_missing(&own)?;
        } else if !inner.file_exists(&own)? {
            return Err(refused("does not exist (create_if_missing is false)"));
        }
        let names = names_if_there(&*inner, &own)?;
        let is_of_database = |name: &String| {
            let kind = parse_file_name(name).map(|(kind, _)| kind);
            matches!(kind, Some(FileType::Current | FileType::Descriptor | FileType::Wal))
        };
        if names.iter().any(is_of_database) {
            return Err(refused("holds a database: a follower needs a directory of its own"));
        }
        let is_marked = names.iter().any(|name| name == LEADER);
        if !is_marked && names.iter().any(|name| is_data_file(name)) {
            return Err(refused("holds tables that no follower has linked"));
        }
        let lock = inner.lock_file(&lock_file_name(&own))?;
        let mut marker = inner.new_writable_file(&own.join(LEADER))?;
        marker.append(leader.as_os_str().as_encoded_bytes())?;
        marker.sync()?;
        marker.close()?;
        // After a power loss no link may be there without the marker.
        inner.new_directory(&own)?.fsync()?;
        for name in names_if_there(&*inner, &own)?.iter().filter(|name| is_data_file(name)) {
            inner.delete_file(&own.join(name))?;
        }
        Ok((OnDemandFileSystem { inner, leader, own }, lock))
    }

    fn place(&self, path: &Path) -> Place {
        let Ok(rest) = path.strip_prefix(&self.own) else { return Place::Own };
        let name = rest.to_str().unwrap_or_default();
        match parse_file_name(name) {
            Some((FileType::InfoLog | FileType::DbLock, _)) => Place::Own,
            Some(_) if is_data_file(name) => Place::Linked(self.leader.join(name)),
            _ if name.is_empty() => Place::Own,
            _ => Place::Leader(self.leader.join(rest)),
        }
    }

    /// The path at which the file can be read. Links the file, if it is a table or blob file.
    fn readable(&self, path: &Path) -> Result<PathBuf> {
        let original = match self.place(path) {
            Place::Own => return Ok(path.to_owned()),
            Place::Leader(path) => return Ok(path),
            Place::Linked(original) => original,
        };
        if !self.inner.file_exists(path)?
            && let Err(e) = self.inner.link_file(&original, path)
            // Another thread may have linked it.
            && !self.inner.file_exists(path)?
        {
            return Err(e);
        }
        Ok(path.to_owned())
    }

    /// Checks that the follower may change a file.
    /// # Errors
    /// `NotSupported` unless the path is one of the follower's own.
    fn writable(&self, path: &Path) -> Result<()> {
        match self.place(path) {
            Place::Own => Ok(()),
            Place::Linked(_) | Place::Leader(_) => Err(Error::not_supported(format!(
                "a follower changes no file of its leader: {}",
                path.display()
            ))),
        }
    }
}

impl FileSystem for OnDemandFileSystem {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_sequential_file(&self.readable(path)?)
    }
    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_random_access_file(&self.readable(path)?)
    }
    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        self.inner.new_direct_sequential_file(&self.readable(path)?)
    }
    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.inner.new_direct_random_access_file(&self.readable(path)?)
    }
    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(path).and_then(|()| self.inner.new_writable_file(path))
    }
    fn create_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(path).and_then(|()| self.inner.create_writable_file(path))
    }
    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(path).and_then(|()| self.inner.reopen_writable_file(path))
    }
    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        self.writable(new).and_then(|()| self.writable(old))?;
        self.inner.reuse_writable_file(new, old)
    }
    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        self.inner.new_directory(path)
    }
    fn file_exists(&self, path: &Path) -> Result<bool> {
        match self.readable(path) {
            Err(e) if e.subcode() == SubCode::PathNotFound => Ok(false),
            path => self.inner.file_exists(&path?),
        }
    }
    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        if dir != self.own {
            return self.inner.children(&self.readable(dir)?);
        }
        let is_own = |name: &String| matches!(self.place(&dir.join(name)), Place::Own);
        let mut names = self.inner.children(&self.leader)?;
        names.retain(|name| !is_own(name));
        names.extend(self.inner.children(dir)?.into_iter().filter(|name| is_own(name)));
        Ok(names)
    }
    /// Deletes a file of the follower's own, or a link.
    fn delete_file(&self, path: &Path) -> Result<()> {
        match self.place(path) {
            Place::Linked(_) => self.inner.delete_file(path),
            _ => self.writable(path).and_then(|()| self.inner.delete_file(path)),
        }
    }
    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.writable(path).and_then(|()| self.inner.create_dir_if_missing(path))
    }
    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.writable(path).and_then(|()| self.inner.delete_dir(path))
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        self.inner.file_size(&self.readable(path)?)
    }
    fn link_count(&self, path: &Path) -> Result<u64> {
        self.inner.link_count(&self.readable(path)?)
    }
    fn modification_time(&self, path: &Path) -> Result<u64> {
        self.inner.modification_time(&self.readable(path)?)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.writable(from).and_then(|()| self.writable(to))?;
        self.inner.rename(from, to)
    }
    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        self.writable(new)?;
        self.inner.link_file(&self.readable(existing)?, new)
    }
    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.writable(path).and_then(|()| self.inner.lock_file(path))
    }
    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute_path(path)
    }
    fn free_space(&self, path: &Path) -> Result<u64> {
        self.inner.free_space(path)
    }
    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        self.writable(path).and_then(|()| self.inner.truncate(path, size))
    }
}
