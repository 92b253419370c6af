//! The memtables of one family: one that takes writes, and those that wait for a flush.
//!
//! Invariants
//!  1. `immutables` is ordered from oldest to newest; flushes take a prefix and are installed in
//!     that order.
//!  2. `history` is older than all others, in the same order, and without a gap: every write since
//!     it began is in one of them, or in a file that was ingested, at `ingested` at the latest.
//!  3. Everything in a memtable is in WALs numbered at least its `log_number`, or was written
//!     without WAL.

use crate::options::ColumnFamilyOptions;
use esker_base::sync::{Arc, Weak};
use esker_base::{FileNumber, SequenceNumber};
use esker_memtable::MemTable;
use std::collections::VecDeque;

/// The bytes that a memtable may hold before it is flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemTableLimits {
    /// `write_buffer_size`.
    pub(crate) bytes: usize,
    /// `memtable_max_range_deletions`; 0: any number.
    range_deletions: u32,
}

impl MemTableLimits {
    /// Those of a family with these options.
    #[inline]
    pub(crate) fn of(options: &ColumnFamilyOptions) -> MemTableLimits {
        MemTableLimits {
            bytes: options.write_buffer_size,
            range_deletions: options.memtable_max_range_deletions,
        }
    }

    /// Whether it holds `memtable_max_range_deletions` or more.
    pub(crate) fn has_too_many_range_deletions(self, mem: &MemTable) -> bool {
        self.range_deletions > 0 && mem.num_range_deletes() >= u64::from(self.range_deletions)
    }
}

/// A full memtable on its way to level 0.
#[derive(Debug)]
pub(crate) struct ImmutableMemTable {
    pub(crate) mem: Arc<MemTable>,
    /// The oldest WAL that holds something of it.
    pub(crate) log_number: FileNumber,
    /// The WAL that was begun when it was full: nothing of it is in this one or a later one.
    pub(crate) next_log_number: FileNumber,
    /// See [`MemTables::section`].
    section: Option<FileNumber>,
    /// A flush job has it.
    pub(crate) flushing: bool,
}

/// The memtables of one family. Guarded by the db mutex.
#[derive(Debug)]
pub(crate) struct MemTables {
    pub(crate) active: Arc<MemTable>,
    /// The oldest WAL that holds something of `active`.
    pub(crate) log_number: FileNumber,
    /// The oldest WAL with a prepared section whose commit, in a later WAL, put something into
    /// `active`: replaying the commit takes both.
    section: Option<FileNumber>,
    pub(crate) immutables: Vec<ImmutableMemTable>,
    /// Flushed ones, oldest first, kept for transactions that check for conflicts.
    history: VecDeque<Arc<MemTable>>,
    /// The sequence number of the newest file that was ingested past them since the database was
    /// opened.
    pub(crate) ingested: SequenceNumber,
    /// Those that only readers hold any more; some may have gone since.
    pinned: Vec<Weak<MemTable>>,
}

impl MemTables {
    /// Starts with this one.
    pub(crate) fn new(active: Arc<MemTable>, log_number: FileNumber) -> MemTables {
        MemTables {
            active,
            log_number,
            section: None,
            immutables: Vec::new(),
            history: VecDeque::new(),
            ingested: SequenceNumber::ZERO,
            pinned: Vec::new(),
        }
    }

    /// Puts the active memtable in line for a flush and `fresh`, whose writes go to WAL
    /// `log_number`, in its place.
    pub(crate) fn switch(&mut self, fresh: Arc<MemTable>, log_number: FileNumber) {
        let full = std::mem::replace(&mut self.active, fresh);
        full.mark_immutable();
        self.immutables.push(ImmutableMemTable {
            mem: full,
            log_number: self.log_number,
            next_log_number: log_number,
            section: self.section.take(),
            flushing: false,
        });
        self.log_number = log_number;
    }

    /// The first `count` immutable ones are in tables. They are kept as long as all memtables
    /// together take no more than `max_bytes` (`max_write_buffer_size_to_maintain`).
    pub(crate) fn retire(&mut self, count: usize, max_bytes: usize) {
        self.history.extend(self.immutables.drain(..count).map(|immutable| immutable.mem));
        self.trim_history(max_bytes);
    }

    /// Lets go of the oldest flushed ones until all memtables together take no more than
    /// `max_bytes`.
    pub(crate) fn trim_history(&mut self, max_bytes: usize) {
        self.pinned.retain(|mem| mem.strong_count() > 0);
        let mut bytes = self.memory_usage() + self.history_bytes();
        while bytes > max_bytes
            && let Some(oldest) = self.history.pop_front()
        {
            bytes -= oldest.approximate_memory_usage();
            self.pinned.push(Arc::downgrade(&oldest));
        }
    }

    /// Lets go of the oldest flushed one and says how many bytes it has.
    pub(crate) fn drop_oldest_history(&mut self) -> usize {
        let Some(oldest) = self.history.pop_front() else { return 0 };
        self.pinned.retain(|mem| mem.strong_count() > 0);
        self.pinned.push(Arc::downgrade(&oldest));
        oldest.approximate_memory_usage()
    }

    /// No entry of the oldest flushed one is older than this; `None` if none is kept.
    pub(crate) fn oldest_history(&self) -> Option<SequenceNumber> {
        self.history.front().map(|mem| mem.earliest_seqno())
    }

    fn history_bytes(&self) -> usize {
        self.history.iter().map(|mem| mem.approximate_memory_usage()).sum()
    }

    /// How many are in tables, and kept all the same.
    pub(crate) fn num_flushed(&self) -> usize {
        self.history.len()
    }

    /// Bytes of all memtables, also of those that only readers hold.
    pub(crate) fn memory_usage_with_pinned(&self) -> usize {
        let pinned = self.pinned.iter().filter_map(Weak::upgrade);
        let pinned: usize = pinned.map(|mem| mem.approximate_memory_usage()).sum();
        self.memory_usage() + self.history_bytes() + pinned
    }

    /// Newest first, as checks for conflicts want them.
    pub(crate) fn history_newest_first(&self) -> Box<[Arc<MemTable>]> {
        self.history.iter().rev().cloned().collect()
    }

    /// A commit has put something into `active` whose prepared section is in `wal`.
    pub(crate) fn note_section(&mut self, wal: FileNumber) {
        self.section = Some(self.section.map_or(wal, |section| section.min(wal)));
    }

    /// The oldest WAL with a prepared section that some memtable depends on, without the first
    /// `flushed` immutable ones.
    pub(crate) fn oldest_section(&self, flushed: usize) -> Option<FileNumber> {
        let waiting = self.immutables.iter().skip(flushed).filter_map(|i| i.section);
        waiting.chain(self.section).min()
    }

    /// The oldest WAL that this family still needs, but for prepared sections.
    pub(crate) fn oldest_log_needed(&self) -> FileNumber {
        self.immutables.first().map_or(self.log_number, |oldest| oldest.log_number)
    }

    /// Newest first, as reads want them.
    pub(crate) fn immutables_newest_first(&self) -> Box<[Arc<MemTable>]> {
        self.immutables.iter().rev().map(|i| i.mem.clone()).collect()
    }

    /// How many wait and no flush job has them.
    pub(crate) fn not_flushing(&self) -> usize {
        self.immutables.iter().filter(|i| !i.flushing).count()
    }

    /// Bytes of the memtables that are not flushed.
    pub(crate) fn memory_usage(&self) -> usize {
        self.active.approximate_memory_usage()
            + self.immutables.iter().map(|i| i.mem.approximate_memory_usage()).sum::<usize>()
    }
}
