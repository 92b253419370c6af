//! A file system in memory that tracks the possible states after a crash.
//!
//! In: the calls of an engine. Out: [`CrashFs::crash_clone`] makes a file system in a state that a
//! crash at this point could leave. [`CrashChoices`] selects the state. Other threads may use
//! the file system during the call.
//!
//! The model
//!  - *Killed process*: flushed bytes and all names survive. Bytes that a writable file still
//!    buffers are lost. The machine runs on: a later power loss may still take data that was not
//!    synced.
//!  - *Power loss, bytes*: each file keeps the bytes of its last `sync`. A prefix of the later
//!    appends, overwrites and truncations survives too. The first lost operation may be torn.
//!    Between the surviving bytes and the file's former end there may be nothing, zeros, garbage,
//!    or some of the real pages with zeros between them. Some sectors of lost writes may survive
//!    too, and may replace earlier bytes of the file.
//!  - *Files appended in place*: after a power loss, zeros may follow the file's bytes, up to a
//!    multiple of the file's block. After a kill, zeros always follow. A kill may tear an append in
//!    progress: its first eight bytes are then zeros, and any of its other bytes may be there.
//!  - *Power loss, names*: a prefix of all creations, links, renames and deletions survives.
//!    `Strict` (the promise of POSIX): each directory has its own order, and only
//!    `Directory::fsync` makes its names safe. `Journaled` (ext4's behaviour): all names share one
//!    order, and a sync of any directory or changed file makes all earlier changes of names safe. A
//!    rename is never torn. New directories are safe at once.
//!
//! The same calls and the same seed give the same file system.

mod choices;

use choices::Draws;
pub use choices::{CrashChoices, CrashKind, Keep, NameDurability, Tail};

use crate::fs::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use crate::mem::MemFs;
use crate::mem::node::FileNode;
use crate::mem::tree::MemTree;
use esker_base::Result;
use esker_base::sync::Arc;
use std::path::{Path, PathBuf};

/// A file system in memory for crash tests. A clone shares its files; [`CrashFs::crash_clone`]
/// copies them.
#[derive(Clone, Debug)]
pub struct CrashFs(MemFs);

impl CrashFs {
    /// An empty file system with the directory "/".
    pub fn new() -> CrashFs {
        CrashFs(MemFs::with_tree(MemTree::new(true), true))
    }

    /// Makes a file system in a state that a crash at this point could leave.
    ///
    /// Original and copy share no later changes, and all locks of the copy are free. In a copy made
    /// by a power loss, all data and names count as synced. Cheap: the two share bytes until one
    /// side changes them.
    pub fn crash_clone(&self, choices: &CrashChoices) -> CrashFs {
        let mut draws = Draws::new(choices);
        let shared = &self.0.shared;
        let _still = shared.gate.write();
        let tree = shared.tree.lock();
        let left = match choices.kind {
            CrashKind::ProcessKill => {
                tree.copied(&mut |file| FileNode::with(file.id, draws.killed(&file.data.read())))
            }
            CrashKind::PowerLoss => {
                let journaled = choices.names == NameDurability::Journaled;
                let names = tree.names_after_power_loss(journaled, &mut |n| draws.kept_names(n));
                let mut copy =
                    |file: &FileNode| FileNode::on_medium(file.id, draws.content(&file.data.read()));
                MemTree::from_names(&names, tree.next_id(), &mut copy)
            }
        };
        CrashFs(MemFs::with_tree(left, true))
    }
}

impl Default for CrashFs {
    fn default() -> CrashFs {
        CrashFs::new()
    }
}

macro_rules! delegate {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {$(
        fn $name(&self, $($arg: $ty),*) -> Result<$out> {
            self.0.$name($($arg),*)
        }
    )*};
}

impl FileSystem for CrashFs {
    delegate! {
        fn new_sequential_file(path: &Path) -> Box<dyn SequentialFile>;
        fn new_random_access_file(path: &Path) -> Arc<dyn RandomAccessFile>;
        fn new_writable_file(path: &Path) -> Box<dyn WritableFile>;
        fn reopen_writable_file(path: &Path) -> Box<dyn WritableFile>;
        fn new_direct_sequential_file(path: &Path) -> Box<dyn SequentialFile>;
        fn new_direct_random_access_file(path: &Path) -> Arc<dyn RandomAccessFile>;
        fn new_direct_writable_file(path: &Path, buffer_bytes: usize) -> Box<dyn WritableFile>;
        fn reuse_writable_file(new: &Path, old: &Path) -> Box<dyn WritableFile>;
        fn overwrite_file(path: &Path, offset: u64) -> Box<dyn WritableFile>;
        fn new_directory(path: &Path) -> Box<dyn Directory>;
        fn file_exists(path: &Path) -> bool;
        fn children(dir: &Path) -> Vec<String>;
        fn delete_file(path: &Path) -> ();
        fn create_dir_if_missing(path: &Path) -> ();
        fn delete_dir(path: &Path) -> ();
        fn file_size(path: &Path) -> u64;
        fn link_count(path: &Path) -> u64;
        fn modification_time(path: &Path) -> u64;
        fn rename(from: &Path, to: &Path) -> ();
        fn link_file(existing: &Path, new: &Path) -> ();
        fn lock_file(path: &Path) -> Box<dyn FileLock>;
        fn absolute_path(path: &Path) -> PathBuf;
        fn free_space(path: &Path) -> u64;
        fn truncate(path: &Path, size: u64) -> ();
    }
}

#[cfg(test)]
mod tests;
