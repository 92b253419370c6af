//! A file system in memory that knows what a crash would leave.
//!
//! In: the calls of an engine. Out: [`CrashFs::crash_clone`], at any moment and while other threads
//! go on: a file system as it could be found after a crash at this moment. Which of the possible
//! ones, [`CrashChoices`] says.
//!
//! The model
//!  - *Killed process*: everything that was flushed is there, names included; what a writable file
//!    still collected is not. The machine goes on: what was not safe from a power loss is not safe
//!    from the next one either.
//!  - *Power loss, bytes*: of each file there is what its last `sync` covered, then a prefix of the
//!    appends, overwrites and truncations that came since. The first one that is lost may be torn.
//!    Behind it, up to where the file had grown, there may be nothing, zeros, garbage, or some
//!    pages of the real bytes and zeros between; or some sectors of what was lost, also where it
//!    overwrote what was there before.
//!  - *Appended in place*: such a file may end later than that, with zeros, at a multiple of its
//!    block; it does after a kill, and an append that was in the making then may have left anything
//!    behind its first eight bytes.
//!  - *Power loss, names*: creations, links, renames and deletions survive in order, as a prefix.
//!    `Strict` (what POSIX promises): each directory has its own order, and only `Directory::fsync`
//!    makes its names safe. `Journaled` (what ext4 does): all names share one order, and a sync of
//!    any file with news or of any directory makes all earlier ones safe. A rename is never torn.
//!    New directories are safe at once.
//!
//! The same calls and the same seed give the same file system.

mod choices;

use choices::Draws;
pub use choices::{CrashChoices, CrashKind, Keep, NameDurability, Tail};

use crate::fs::{Directory, FileLock, FileSystem, RandomAccessFile, SequentialFile, WritableFile};
use crate::mem::MemFs;
use crate::mem::node::FileNode;
use crate::mem::tree::Tree;
use esker_base::Result;
use esker_base::sync::Arc;
use std::path::{Path, PathBuf};

/// A file system in memory that can be crashed. Cloning shares it; [`CrashFs::crash_clone`] does
/// not.
#[derive(Clone, Debug)]
pub struct CrashFs(MemFs);

impl CrashFs {
    /// An empty one, with the directory "/".
    pub fn new() -> CrashFs {
        CrashFs(MemFs::with_tree(Tree::new(true), true))
    }

    /// What a crash at this moment leaves. The two share nothing afterwards, and locks are free.
    /// What a power loss leaves is safe from the next crash. Cheap: bytes are shared until one side
    /// changes them.
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
                Tree::from_names(&names, tree.next_id(), &mut copy)
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
        fn new_directory(path: &Path) -> Box<dyn Directory>;
        fn file_exists(path: &Path) -> bool;
        fn children(dir: &Path) -> Vec<String>;
        fn delete_file(path: &Path) -> ();
        fn create_dir_if_missing(path: &Path) -> ();
        fn delete_dir(path: &Path) -> ();
        fn file_size(path: &Path) -> u64;
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
