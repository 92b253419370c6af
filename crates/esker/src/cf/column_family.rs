//! One column family: the part that never changes, and the state under the db mutex.

use crate::cf::{MemTables, SuperVersion, WriteStall};
use crate::deleted_runs::DeletedRunMemory;
use crate::observe::{FlushReason, IngestedFiles, LevelCompactionStats, StallCounts};
use crate::options::{ColumnFamilyOptions, ReadOptions};
use crate::picker::{PickerOptions, RunningCompactions};
use crate::version::{ObsoleteFiles, Version};
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::epoch::{self, Swap};
use esker_base::sync::{Arc, OnceLock};
use esker_base::{ColumnFamilyId, Error, FileNumber, Result, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use esker_table::TableCache;
use std::collections::BTreeSet;
use std::fmt;

/// The part of a column family that readers and writers share. It has cache lines of its own,
/// because iterators change its counts.
#[repr(align(128))]
pub(crate) struct ColumnFamily {
    /// The open database of this process to which the family belongs: `Engine::tag`.
    pub(crate) database: u64,
    pub(crate) id: ColumnFamilyId,
    pub(crate) name: String,
    pub(crate) icmp: InternalKeyComparator,
    /// Everything a read needs. Changed only by `engine::publish_super_version`.
    pub(crate) super_version: Swap<SuperVersion>,
    /// Open tables of this family.
    pub(crate) tables: Arc<TableCache>,
    /// The family's locks, if the database has transactions that lock.
    pub(crate) locks: OnceLock<Arc<esker_lock::LockFamily>>,
    dropped: AtomicBool,
    /// Dropped after `super_version`.
    _end: EndOfFamily,
}

/// Schedules the deletion of a dropped family's files when its last handle is dropped.
struct EndOfFamily(Arc<ObsoleteFiles>);

impl Drop for EndOfFamily {
    fn drop(&mut self) {
        // The super version, with its open tables, waits with this thread, which may fall idle.
        if self.0.has_lost_database() {
            epoch::collect();
        } else {
            epoch::pin().flush();
        }
        self.0.search_again();
    }
}

impl ColumnFamily {
    /// A family that starts with this super version. `obsolete` hears of its end.
    pub(crate) fn new(
        database: u64,
        id: ColumnFamilyId,
        name: String,
        icmp: InternalKeyComparator,
        super_version: Arc<SuperVersion>,
        tables: Arc<TableCache>,
        obsolete: Arc<ObsoleteFiles>,
    ) -> ColumnFamily {
        let super_version = Swap::new(super_version);
        let (locks, dropped) = (OnceLock::new(), AtomicBool::new(false));
        let _end = EndOfFamily(obsolete);
        ColumnFamily { database, id, name, icmp, super_version, tables, locks, dropped, _end }
    }

    /// The current super version, with a count of its own, for reads that outlive one call.
    pub(crate) fn pinned_super_version(&self) -> Arc<SuperVersion> {
        self.super_version.load_full()
    }

    /// The timestamp at which a read of this family reads.
    /// # Errors
    /// `InvalidArgument`: a family with timestamps and none given, or the reverse; a timestamp of
    /// another size, or one older than the family's oldest readable timestamp.
    pub(crate) fn read_timestamp(
        &self,
        super_version: &SuperVersion,
        options: &ReadOptions,
    ) -> Result<Vec<u8>> {
        let size = self.icmp.timestamp_size();
        let wrong =
            |what: String| Err(Error::invalid_argument(format!("column family '{}': {what}", self.name)));
        match &options.timestamp {
            _ if size == 0 => {
                wrong("ReadOptions::timestamp is set, but its keys have no timestamps".to_owned())
            }
            None => wrong("its keys have timestamps, but ReadOptions::timestamp is not set".to_owned()),
            Some(timestamp) if timestamp.len() != size => {
                wrong(format!("ReadOptions::timestamp has {} bytes, its keys have {size}", timestamp.len()))
            }
            Some(timestamp)
                if self
                    .icmp
                    .compare_timestamps(timestamp, super_version.version.full_history_ts_low())
                    .is_lt() =>
            {
                wrong("ReadOptions::timestamp is older than full_history_ts_low".to_owned())
            }
            Some(timestamp) => Ok(timestamp.clone()),
        }
    }

    /// Whether the family was dropped. Readers that hold it continue; writes fail.
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnFamily({} {:?})", self.id, self.name)
    }
}

/// The mutable state of a family, under the db mutex.
#[derive(Debug)]
pub(crate) struct FamilyState {
    pub(crate) cf: Arc<ColumnFamily>,
    pub(crate) options: Arc<ColumnFamilyOptions>,
    /// The part of `options` that pickers read.
    pub(crate) compaction_options: PickerOptions,
    pub(crate) memtables: MemTables,
    pub(crate) version: Arc<Version>,
    /// The memory of deleted runs for later super versions.
    pub(crate) deleted_run_memory: Arc<DeletedRunMemory>,
    /// The next epoch number, for level-0 files.
    pub(crate) epochs: Arc<AtomicU64>,
    pub(crate) running: RunningCompactions,
    /// Whether the family is in the flush queue.
    pub(crate) flush_queued: bool,
    /// Whether a flush job has some of its memtables.
    pub(crate) flushing: bool,
    /// A flush requested during the running one.
    pub(crate) flush_wanted: Option<FlushReason>,
    /// The family's last failed flush whose error did not become the background error.
    pub(crate) failed_flush: Option<FailedFlush>,
    /// Whether the family is in the compaction queue.
    pub(crate) compaction_queued: bool,
    /// Calls that abort the family's compactions, without their resuming calls.
    pub(crate) compactions_aborted: usize,
    /// Tables to compact on request, or because of reads. The next version drops deleted tables
    /// from the set.
    pub(crate) suggested: BTreeSet<FileNumber>,
    pub(crate) stall: WriteStall,
    /// Bytes that compactions must write to bring every level within its size.
    pub(crate) pending_compaction_bytes: u64,
    /// Files of the last level are worth rewriting only after the oldest snapshot is newer than
    /// this.
    pub(crate) bottommost_threshold: SequenceNumber,
    pub(crate) compaction_stats: LevelCompactionStats,
    pub(crate) bytes_flushed: u64,
    pub(crate) ingested: IngestedFiles,
    pub(crate) stall_counts: StallCounts,
    pub(crate) next_memtable_id: u64,
}

/// A flush that failed without stopping the database, because a listener cleared the error. Callers
/// that wait for it get the error from here.
#[derive(Debug)]
pub(crate) struct FailedFlush {
    /// The count of such flushes of the database, with this one.
    pub(crate) number: u64,
    /// The newest memtable of the family that the flush took.
    pub(crate) newest: u64,
    pub(crate) error: Error,
}

impl FailedFlush {
    /// Whether a caller gets this error: the caller waits for `memtable`, and began to wait after
    /// `before` failed flushes of the database.
    pub(crate) fn concerns(&self, memtable: u64, before: u64) -> bool {
        self.number > before && self.newest >= memtable
    }
}

impl FamilyState {
    /// Whether memtables wait for a flush that has not begun: enough of them, or on request.
    /// Source: RocksDB `MemTableList::IsFlushPending`.
    pub(crate) fn is_flush_pending(&self) -> bool {
        let waiting = self.memtables.not_flushing();
        let asked = self.flush_queued || self.flush_wanted.is_some();
        waiting >= self.options.memtables_to_merge() || waiting > 0 && asked
    }
}
