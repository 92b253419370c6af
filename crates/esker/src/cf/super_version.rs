//! A super version: one value with the memtables, files and options that a family has together.
//!
//! Invariant: every published entry that is not overwritten is in one of the memtables or files. A
//! new value is installed under the db mutex before the old memtable or file may be freed. Readers
//! hold the old value by their guard or by an `Arc`.

use super::IdleCursors;
use crate::deleted_runs::DeletedRunMemory;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;
use esker_base::sync::Arc;
use esker_base::{FileNumber, SequenceNumber};
use esker_memtable::MemTable;

/// Memtables plus version, pinned as one.
#[derive(Debug)]
pub(crate) struct SuperVersion {
    /// The active memtable.
    pub(crate) mem: Arc<MemTable>,
    /// Full memtables on their way to level 0, newest first.
    pub(crate) imm: Box<[Arc<MemTable>]>,
    /// Flushed memtables kept for conflict checks, newest first; not for reads.
    pub(crate) history: Box<[Arc<MemTable>]>,
    /// The sequence number of the newest ingested file, for conflict checks: no memtable has its
    /// entries.
    pub(crate) ingested: SequenceNumber,
    /// The files.
    pub(crate) version: Arc<Version>,
    /// The highest number of its files.
    pub(crate) newest_file: FileNumber,
    /// The family's options in force.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// Deleted runs that scans of this super version or its predecessors have found.
    pub(crate) deleted_run_memory: Arc<DeletedRunMemory>,
    /// Unused cursors over this super version.
    pub(crate) idle: IdleCursors,
    /// Number of the super version; it rises with each one installed in the database.
    pub(crate) number: u64,
}

impl SuperVersion {
    /// The first super version of a family: one memtable over the files of `version`.
    pub(crate) fn first(
        mem: Arc<MemTable>,
        version: Arc<Version>,
        options: Arc<ColumnFamilyOptions>,
        deleted_run_memory: Arc<DeletedRunMemory>,
    ) -> SuperVersion {
        SuperVersion {
            mem,
            imm: Box::default(),
            history: Box::default(),
            ingested: SequenceNumber::ZERO,
            newest_file: version.newest_file(),
            version,
            options,
            deleted_run_memory,
            idle: IdleCursors::default(),
            number: 0,
        }
    }

    /// The memtables, and then the flushed memtables that are kept for conflict checks; newest
    /// first.
    pub(crate) fn history(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        self.memtables().chain(self.history.iter())
    }

    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        std::iter::once(&self.mem).chain(self.imm.iter())
    }
}
