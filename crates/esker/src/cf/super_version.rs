//! A super version: the memtables, files and options of a family that belong together, as one
//! value.
//!
//! Invariant: every entry that was ever published and not overwritten is in one of them. A new
//! value is installed under the db mutex before the old memtable or file may go; readers hold the
//! old one by their guard or by an `Arc`.

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
    /// Takes the writes.
    pub(crate) mem: Arc<MemTable>,
    /// Full ones on their way to level 0, newest first.
    pub(crate) imm: Box<[Arc<MemTable>]>,
    /// Flushed ones that are kept to check for conflicts, newest first; not for reads.
    pub(crate) history: Box<[Arc<MemTable>]>,
    /// The sequence number of the newest file that was ingested, which no memtable knows of; for
    /// checks of conflicts.
    pub(crate) ingested: SequenceNumber,
    /// The files.
    pub(crate) version: Arc<Version>,
    /// The highest number of its files.
    pub(crate) newest_file: FileNumber,
    /// Options in force, the changeable ones included.
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// What scans have found out about the history that this super version belongs to.
    pub(crate) deleted_run_memory: Arc<DeletedRunMemory>,
    /// Cursors over it that are not in use.
    pub(crate) idle: IdleCursors,
    /// Rises with each one installed in the database.
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
