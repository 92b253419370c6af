//! Operations of a file system, as counted and listed.

use std::fmt;
use std::path::PathBuf;

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OpKind {
    /// Opens a file for reading, or a directory.
    Open,
    /// Opens a file for writing: a new one, an emptied one, one to append to, one to overwrite, or
    /// a recycled one under its new name.
    Create,
    /// One positioned or sequential read.
    Read,
    /// One append.
    Append,
    /// Flush.
    Flush,
    /// Sync, with or without metadata.
    Sync,
    /// Start writing back.
    RangeSync,
    /// Reserve space.
    Preallocate,
    /// Truncation, by name or by handle.
    Truncate,
    /// Close a file that was written.
    Close,
    /// Rename; the path is the new name.
    Rename,
    /// Link; the path is the new name.
    Link,
    /// Delete a file.
    Delete,
    /// Sync a directory.
    DirSync,
    /// Make directories.
    CreateDir,
    /// Delete a directory.
    DeleteDir,
    /// List a directory.
    List,
    /// Query of existence, size, age or free space.
    Stat,
    /// Lock.
    Lock,
}

impl OpKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [OpKind; 19] = {
        use OpKind::*;
        [
            Open,
            Create,
            Read,
            Append,
            Flush,
            Sync,
            RangeSync,
            Preallocate,
            Truncate,
            Close,
            Rename,
            Link,
            Delete,
            DirSync,
            CreateDir,
            DeleteDir,
            List,
            Stat,
            Lock,
        ]
    };

    /// The kinds that change the disk, or promise that it has changed.
    pub const CHANGES: [OpKind; 13] = {
        use OpKind::*;
        [
            Create, Append, Flush, Sync, RangeSync, Truncate, Close, Rename, Link, Delete, DirSync,
            CreateDir, DeleteDir,
        ]
    };

    /// The bit of this kind in a set of kinds.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpKind::Open => "open",
            OpKind::Create => "create",
            OpKind::Read => "read",
            OpKind::Append => "append",
            OpKind::Flush => "flush",
            OpKind::Sync => "sync",
            OpKind::RangeSync => "range-sync",
            OpKind::Preallocate => "preallocate",
            OpKind::Truncate => "truncate",
            OpKind::Close => "close",
            OpKind::Rename => "rename",
            OpKind::Link => "link",
            OpKind::Delete => "delete",
            OpKind::DirSync => "dir-sync",
            OpKind::CreateDir => "create-dir",
            OpKind::DeleteDir => "delete-dir",
            OpKind::List => "list",
            OpKind::Stat => "stat",
            OpKind::Lock => "lock",
        })
    }
}

/// One operation. It displays as "append 000004.log 0+31", without the directory, for data-driven
/// tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultOp {
    /// Its number, from 0.
    pub index: u64,
    /// The kind of operation.
    pub kind: OpKind,
    /// The path of the file; the new name for renames and links.
    pub path: PathBuf,
    /// The offset in the file, for reads, appends and ranges.
    pub offset: Option<u64>,
    /// Number of requested bytes.
    pub bytes: u64,
    /// Whether a rule or the full disk changed the operation's result. Always false during the
    /// hook.
    pub fault: bool,
}

impl fmt::Display for FaultOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        write!(f, "{} {}", self.kind, name.display())?;
        if let Some(offset) = self.offset {
            write!(f, " {offset}+{}", self.bytes)?;
        }
        if self.fault { f.write_str(" FAULT") } else { Ok(()) }
    }
}
