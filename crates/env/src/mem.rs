//! Files in memory: for tests, and for databases that need no disk.
//!
//! In: paths and bytes. Out: the same bytes, until the last clone of the file system is dropped. As
//! on a disk, an open file stays readable after its deletion. Errors are those of the real file
//! system, but space never runs out.
//!
//! A file opened with direct I/O has the alignment of a disk with 512-byte sectors: an unaligned
//! read or write panics.
//!
//! [`crate::crash::CrashFs`] is this file system with tracking of the states after a power loss.

pub(crate) mod content;
mod direct;
mod handle;
pub(crate) mod node;
pub(crate) mod tree;

use crate::direct::{DirectRandomAccessFile, DirectSequentialFile, DirectWritableFile};
use crate::fs::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use direct::MemDirectFile;
use esker_base::sync::{Arc, Mutex, RwLock};
use esker_base::{Error, Result};
use handle::{MemDirectory, MemFileLock, MemRandomAccessFile, MemSequentialFile, MemWritableFile};
use std::path::{Path, PathBuf};
use tree::MemTree;

/// A file system in memory. Clones share the files.
#[derive(Clone, Debug)]
pub struct MemFs {
    pub(crate) shared: Arc<MemShared>,
}

#[derive(Debug)]
pub(crate) struct MemShared {
    pub(crate) tracked: bool,
    /// Each change takes this lock shared. A caller that needs a consistent state of all files
    /// takes the lock exclusively. Lock order: `gate`, then `tree`, then a file's data.
    pub(crate) gate: RwLock<()>,
    pub(crate) tree: Mutex<MemTree>,
}

impl MemFs {
    /// Makes an empty file system with the directory "/".
    pub fn new() -> MemFs {
        MemFs::with_tree(MemTree::new(false), false)
    }

    pub(crate) fn with_tree(tree: MemTree, tracked: bool) -> MemFs {
        MemFs { shared: Arc::new(MemShared { tracked, gate: RwLock::new(()), tree: Mutex::new(tree) }) }
    }

    /// Changes the names of files under their lock.
    fn change<T>(
        &self,
        operation: &str,
        path: &Path,
        change: impl FnOnce(&mut MemTree) -> Result<T, i32>,
    ) -> Result<T> {
        let _standing = self.shared.gate.read();
        change(&mut self.shared.tree.lock()).map_err(|errno| failed(operation, path, errno))
    }

    /// Reads the names of files under their lock.
    fn read_tree<T>(
        &self,
        operation: &str,
        path: &Path,
        read_tree: impl FnOnce(&MemTree) -> Result<T, i32>,
    ) -> Result<T> {
        read_tree(&self.shared.tree.lock()).map_err(|errno| failed(operation, path, errno))
    }

    fn create_empty(&self, path: &Path) -> Result<Arc<node::FileNode>> {
        self.change("open a file for appending", path, |t| {
            let node = t.create(path)?;
            let mut data = node.data.write();
            if data.live.len() > 0 {
                data.set_len(0);
            }
            drop(data);
            Ok(node)
        })
    }

    fn writable(&self, path: &Path, node: Arc<node::FileNode>, offset: u64) -> Box<dyn WritableFile> {
        Box::new(MemWritableFile::new(Arc::clone(&self.shared), node, path, offset))
    }
}

impl Default for MemFs {
    fn default() -> MemFs {
        MemFs::new()
    }
}

#[cold]
fn failed(operation: &str, path: &Path, errno: i32) -> Error {
    let cause = std::io::Error::from_raw_os_error(errno);
    Error::io_with(format_args!("While {operation}: {}", path.display()), cause)
}

impl FileSystem for MemFs {
    fn new_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let node = self.read_tree("open a file for sequential read", path, |t| t.file(path))?;
        Ok(Box::new(MemSequentialFile::new(node)))
    }

    fn new_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let node = self.read_tree("open a file for random read", path, |t| t.file(path))?;
        Ok(Arc::new(MemRandomAccessFile::new(node, path)))
    }

    fn new_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let node = self.create_empty(path)?;
        Ok(self.writable(path, node, 0))
    }

    fn reopen_writable_file(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let node = self.change("reopen a file for appending", path, |t| t.create(path))?;
        let size = node.data.read().live.len();
        Ok(self.writable(path, node, size))
    }

    fn new_direct_sequential_file(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let node = self.read_tree("open a file for sequential read", path, |t| t.file(path))?;
        Ok(Box::new(DirectSequentialFile::new(MemDirectFile::new(Arc::clone(&self.shared), node, path))))
    }

    fn new_direct_random_access_file(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        let node = self.read_tree("open a file for random read", path, |t| t.file(path))?;
        Ok(Arc::new(DirectRandomAccessFile::new(MemDirectFile::new(Arc::clone(&self.shared), node, path))))
    }

    fn new_direct_writable_file(&self, path: &Path, buffer_bytes: usize) -> Result<Box<dyn WritableFile>> {
        let sink = MemDirectFile::new(Arc::clone(&self.shared), self.create_empty(path)?, path);
        Ok(Box::new(DirectWritableFile::new(sink, path, buffer_bytes)))
    }

    fn reuse_writable_file(&self, new: &Path, old: &Path) -> Result<Box<dyn WritableFile>> {
        let node = self.change("reuse a file", old, |t| {
            t.rename(old, new)?;
            t.file(new)
        })?;
        Ok(self.writable(new, node, 0))
    }

    fn overwrite_file(&self, path: &Path, offset: u64) -> Result<Box<dyn WritableFile>> {
        let node = self.change("open a file for overwriting", path, |t| t.file(path))?;
        Ok(self.writable(path, node, offset))
    }

    fn new_directory(&self, path: &Path) -> Result<Box<dyn Directory>> {
        let id = self.read_tree("open directory", path, |t| t.dir(path))?;
        Ok(Box::new(MemDirectory::new(Arc::clone(&self.shared), id)))
    }

    fn file_exists(&self, path: &Path) -> Result<bool> {
        self.read_tree("stat", path, |t| Ok(t.lookup(path).is_some()))
    }

    fn children(&self, dir: &Path) -> Result<Vec<String>> {
        self.read_tree("opendir", dir, |t| t.children(dir))
    }

    fn delete_file(&self, path: &Path) -> Result<()> {
        self.change("unlink", path, |t| t.remove_file(path))
    }

    fn create_dir_if_missing(&self, path: &Path) -> Result<()> {
        self.change("mkdir", path, |t| t.create_dirs(path))
    }

    fn delete_dir(&self, path: &Path) -> Result<()> {
        self.change("rmdir", path, |t| t.remove_dir(path))
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let node = self.read_tree("stat", path, |t| t.file(path))?;
        let size = node.data.read().live.len();
        Ok(size)
    }

    fn modification_time(&self, path: &Path) -> Result<u64> {
        let node = self.read_tree("stat", path, |t| t.file(path))?;
        let micros = node.data.read().changed_micros;
        Ok(micros / 1_000_000)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.change("rename", from, |t| t.rename(from, to))
            .map_err(|e| e.at(format_args!("to {}", to.display())))
    }

    fn link_file(&self, existing: &Path, new: &Path) -> Result<()> {
        self.change("link", existing, |t| t.link(existing, new))
            .map_err(|e| e.at(format_args!("as {}", new.display())))
    }

    fn lock_file(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let node = self.change("open a file for lock", path, |t| t.create(path))?;
        if !self.shared.tree.lock().locks.insert(node.id) {
            let path = path.display();
            return Err(Error::io(format!("lock hold by current process: {path}: No locks available"))
                .with_retryable(true));
        }
        Ok(Box::new(MemFileLock::new(Arc::clone(&self.shared), node.id)))
    }

    fn absolute_path(&self, path: &Path) -> Result<PathBuf> {
        Ok(Path::new("/").join(tree::names(path).join("/")))
    }

    fn free_space(&self, _path: &Path) -> Result<u64> {
        Ok(1 << 40)
    }

    fn truncate(&self, path: &Path, size: u64) -> Result<()> {
        let _standing = self.shared.gate.read();
        let node = self.read_tree("truncate", path, |t| t.file(path))?;
        node.data.write().set_len(size);
        Ok(())
    }
}
