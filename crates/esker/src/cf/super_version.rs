//! A super version: the memtables, files and options of a family that belong together, as one
//! value.
//!
//! Invariant: every entry that was ever published and not overwritten is in one of them. A new
//! value is installed under the db mutex before the old memtable or file may go. Readers hold the
//! old value by their guard or by an `Arc`.

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
    /// The memtable that takes the writes.
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
    /// Options in force, the changeable ones included.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// Deleted runs that scans have found in the history of this super version.
    pub(crate) deleted_run_memory: Arc<DeletedRunMemory>,
    /// Unused cursors over it.
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

    /// The memtables and, behind them, the flushed ones that are kept for conflict checks; newest
    /// first.
    pub(crate) fn history(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        self.memtables().chain(self.history.iter())
    }

    /// The memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        std::iter::once(&self.mem).chain(self.imm.iter())
    }
}
