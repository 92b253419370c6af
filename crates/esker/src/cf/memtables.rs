//! The memtables of one family: one that takes writes, and those that wait for a flush.
//!
//! Invariants
//!  1. `immutables` is ordered from oldest to newest; flushes take a prefix and are installed in
//!     that order.
//!  2. `history` has flushed memtables, oldest first, all older than `immutables`. Every write
//!     since the first of them is in a memtable here, or in an ingested file with a sequence number
//!     up to `ingested`.
//!  3. Each entry of a memtable is in a WAL numbered at least `log_number`, or was written without
//!     WAL.

use crate::options::ColumnFamilyOptions;
use esker_base::sync::{Arc, Weak};
use esker_base::{FileNumber, SequenceNumber};
use esker_memtable::MemTable;
use std::collections::VecDeque;

/// The limits at which a memtable is flushed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemTableLimits {
    /// `write_buffer_size` plus six tenths of an arena block, as in RocksDB.
    bytes: usize,
    /// `memtable_max_range_deletions`; 0 means no limit.
    range_deletions: u32,
}

impl MemTableLimits {
    /// The limits of a family with these options.
    #[inline]
    pub(crate) fn of(options: &ColumnFamilyOptions) -> MemTableLimits {
        let over = options.arena_block_size.min(options.write_buffer_size / 8) / 5 * 3;
        MemTableLimits {
            bytes: options.write_buffer_size.saturating_add(over),
            range_deletions: options.memtable_max_range_deletions,
        }
    }

    /// Bytes at which a memtable is full.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether the memtable has reached the limit of bytes.
    #[inline]
    pub(crate) fn has_too_many_bytes(self, mem: &MemTable) -> bool {
        mem.used_bytes() >= self.bytes
    }

    /// Whether the memtable has reached the limit of range deletions.
    pub(crate) fn has_too_many_range_deletions(self, mem: &MemTable) -> bool {
        self.range_deletions > 0 && mem.num_range_deletes() >= u64::from(self.range_deletions)
    }
}

/// A full memtable on its way to level 0.
#[derive(Debug)]
pub(crate) struct ImmutableMemTable {
    pub(crate) mem: Arc<MemTable>,
    /// The oldest WAL that has entries of this memtable.
    pub(crate) log_number: FileNumber,
    /// The WAL that was begun when this memtable became immutable. That WAL and later ones have no
    /// entry of it.
    pub(crate) next_log_number: FileNumber,
    /// See [`MemTables::section`].
    section: Option<FileNumber>,
    /// Whether a flush job writes this memtable.
    pub(crate) flushing: bool,
}

/// The memtables of one family. Guarded by the db mutex.
#[derive(Debug)]
pub(crate) struct MemTables {
    pub(crate) active: Arc<MemTable>,
    /// The oldest WAL that has entries of `active`.
    pub(crate) log_number: FileNumber,
    /// The oldest WAL with a prepared section whose commit, in a later WAL, wrote into `active`. A
    /// replay of the commit needs both WALs.
    section: Option<FileNumber>,
    pub(crate) immutables: Vec<ImmutableMemTable>,
    /// Flushed memtables, oldest first, kept for transactions that check for conflicts.
    history: VecDeque<Arc<MemTable>>,
    /// The newest sequence number of an ingested file since the database was opened. Its entries
    /// are in no memtable.
    pub(crate) ingested: SequenceNumber,
    /// Dropped memtables. Readers may keep them alive.
    pinned: Vec<Weak<MemTable>>,
}

impl MemTables {
    /// Memtables of a family with `active` only.
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

    /// Queues the active memtable for a flush and replaces it by `fresh`, whose writes go to WAL
    /// `log_number`.
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

    /// Replaces the memtables of a secondary. `log_number` is the WAL of `active`; `sealed` has the
    /// immutable memtables, oldest first, each with its WAL.
    pub(crate) fn follow(
        &mut self,
        active: Arc<MemTable>,
        log_number: FileNumber,
        sealed: impl Iterator<Item = (Arc<MemTable>, FileNumber)>,
    ) {
        self.active = active;
        self.log_number = log_number;
        self.immutables = sealed
            .map(|(mem, wal)| ImmutableMemTable {
                mem,
                log_number: wal,
                next_log_number: FileNumber(wal.0 + 1),
                section: None,
                flushing: false,
            })
            .collect();
    }

    /// Moves the first `count` immutable memtables, which a flush has written, to `history`. Then
    /// trims `history` to `max_bytes` (`max_write_buffer_size_to_maintain`).
    pub(crate) fn retire(&mut self, count: usize, max_bytes: usize) {
        self.history.extend(self.immutables.drain(..count).map(|immutable| immutable.mem));
        self.trim_history(max_bytes);
    }

    /// Drops the oldest flushed memtables until all memtables together take at most `max_bytes`.
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

    /// Drops the oldest flushed memtable and returns its size in bytes.
    pub(crate) fn drop_oldest_history(&mut self) -> usize {
        let Some(oldest) = self.history.pop_front() else { return 0 };
        self.pinned.retain(|mem| mem.strong_count() > 0);
        self.pinned.push(Arc::downgrade(&oldest));
        oldest.approximate_memory_usage()
    }

    /// A lower bound of the sequence numbers in `history`; `None` if it is empty.
    pub(crate) fn oldest_history(&self) -> Option<SequenceNumber> {
        self.history.front().map(|mem| mem.earliest_seqno())
    }

    fn history_bytes(&self) -> usize {
        self.history.iter().map(|mem| mem.approximate_memory_usage()).sum()
    }

    /// Number of memtables in `history`.
    pub(crate) fn num_flushed(&self) -> usize {
        self.history.len()
    }

    /// Bytes of all memtables, including dropped ones that readers keep alive.
    pub(crate) fn memory_usage_with_pinned(&self) -> usize {
        let pinned = self.pinned.iter().filter_map(Weak::upgrade);
        let pinned: usize = pinned.map(|mem| mem.approximate_memory_usage()).sum();
        self.memory_usage() + self.history_bytes() + pinned
    }

    /// Flushed memtables, newest first, for conflict checks.
    pub(crate) fn history_newest_first(&self) -> Box<[Arc<MemTable>]> {
        self.history.iter().rev().cloned().collect()
    }

    /// Records that a commit wrote into `active` and has its prepared section in `wal`.
    pub(crate) fn note_section(&mut self, wal: FileNumber) {
        self.section = Some(self.section.map_or(wal, |section| section.min(wal)));
    }

    /// The oldest WAL with a prepared section that a memtable depends on. The first `flushed`
    /// immutable memtables do not count.
    pub(crate) fn oldest_section(&self, flushed: usize) -> Option<FileNumber> {
        let waiting = self.immutables.iter().skip(flushed).filter_map(|i| i.section);
        waiting.chain(self.section).min()
    }

    /// The oldest WAL that this family still needs, prepared sections excluded.
    pub(crate) fn oldest_log_needed(&self) -> FileNumber {
        self.immutables.first().map_or(self.log_number, |oldest| oldest.log_number)
    }

    /// Immutable memtables, newest first, for reads.
    pub(crate) fn immutables_newest_first(&self) -> Box<[Arc<MemTable>]> {
        self.immutables.iter().rev().map(|i| i.mem.clone()).collect()
    }

    /// Number of immutable memtables that no flush job has taken.
    pub(crate) fn not_flushing(&self) -> usize {
        self.immutables.iter().filter(|i| !i.flushing).count()
    }

    /// Bytes of the active and the immutable memtables, without `history`.
    pub(crate) fn memory_usage(&self) -> usize {
        self.active.approximate_memory_usage()
            + self.immutables.iter().map(|i| i.mem.approximate_memory_usage()).sum::<usize>()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
