//! Write stalls of one family: when writers must slow down or stop, and the cause.
//!
//! In: a family's memtables, level-0 files and compaction debt. Out: a condition and its cause.
//! Source of the triggers: RocksDB `db/column_family.cc` (`GetWriteStallConditionAndCause`).

use crate::observe::{WriteStallCause, WriteStallCondition};
use crate::options::{ColumnFamilyOptions, CompactionStyle};

/// A family's condition with its cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteStall {
    pub(crate) condition: WriteStallCondition,
    pub(crate) cause: Option<WriteStallCause>,
}

impl Default for WriteStall {
    fn default() -> WriteStall {
        WriteStall { condition: WriteStallCondition::Normal, cause: None }
    }
}

/// The inputs of a family's condition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallInputs {
    pub(crate) waiting_memtables: usize,
    pub(crate) level0_files: usize,
    pub(crate) pending_compaction_bytes: u64,
}

impl WriteStall {
    /// The condition that RocksDB's triggers give.
    pub(crate) fn of(inputs: StallInputs, options: &ColumnFamilyOptions) -> WriteStall {
        use WriteStallCause::{L0FileCountLimit, MemtableLimit, PendingCompactionBytes};
        use WriteStallCondition::{Delayed, Stopped};
        let stall = |condition, cause| WriteStall { condition, cause: Some(cause) };
        let compacts = !options.disable_auto_compactions;
        let over = |limit: u64| limit > 0 && inputs.pending_compaction_bytes >= limit;
        if inputs.waiting_memtables >= options.memtable_limit() {
            stall(Stopped, MemtableLimit)
        } else if compacts && inputs.level0_files >= options.level0_stop() {
            stall(Stopped, L0FileCountLimit)
        } else if compacts && over(options.hard_pending_compaction_bytes_limit) {
            stall(Stopped, PendingCompactionBytes)
        } else if options.max_write_buffer_number > 3
            && inputs.waiting_memtables + 1 >= options.memtable_limit()
            && inputs.waiting_memtables > options.memtables_to_merge()
        {
            stall(Delayed, MemtableLimit)
        } else if compacts && inputs.level0_files >= options.level0_slowdown() {
            stall(Delayed, L0FileCountLimit)
        } else if compacts && over(options.soft_pending_compaction_bytes_limit) {
            stall(Delayed, PendingCompactionBytes)
        } else {
            WriteStall::default()
        }
    }
}

/// Whether a family's compactions are behind, though its writers need not slow down yet.
pub(crate) fn is_pressed(inputs: StallInputs, options: &ColumnFamilyOptions) -> bool {
    let soft_limit = options.soft_pending_compaction_bytes_limit;
    inputs.level0_files >= level0_files_for_pressure(options)
        || soft_limit > 0 && inputs.pending_compaction_bytes >= soft_limit / 4
}

/// Level-0 files at which compactions count as behind: a quarter of the way from the compaction
/// trigger to the slowdown trigger, at most twice the compaction trigger.
fn level0_files_for_pressure(options: &ColumnFamilyOptions) -> usize {
    let trigger = i64::from(options.level0_file_num_compaction_trigger.max(0));
    let slowdown = i64::from(options.level0_slowdown_writes_trigger);
    if options.compaction_style == CompactionStyle::Fifo {
        return usize::MAX; // no number of files counts as behind
    }
    let files = (trigger * 2).min(trigger + (slowdown - trigger) / 4);
    usize::try_from(files).unwrap_or(usize::MAX)
}
