//! Skips of deleted runs by a cursor, and the report of runs that it stepped through.
//!
//! After `SKIP_AFTER` hidden entries in one call, the cursor calls the inner cursor to skip
//! ([`ScanIterator::skip_deleted_run`]). It calls after the first hidden entry if the first
//! skip of an earlier call reached the end of a run. After a seek it also calls there if the entry
//! lies in a remembered run. It calls again after every skip that reached the end of the known
//! deleted run, a few entries later if that run was remembered. If a skip did not move, or stopped
//! at an entry that an older sorted run has in between, the interval to the next try doubles. A
//! call that has stepped over many deleted keys reports them to the family's [`DeletedRunMemory`]:
//! at its sequence number there is no key between its start and the key that it found. Behind a
//! remembered run, a few keys are enough: otherwise each pop of a queue would step over the
//! messages popped since.
//!
//! Invariants
//!  1. `keys` is the number of user keys that this call has found deleted, without skipped keys.
//!  2. If `keys > 0`, there is no visible key between `run_end` and the cursor's position.
//!     `run_end` itself is excluded, but included in a forward call if the order does not name a
//!     key's successor.

use super::DeletedRunMemory;
use esker_base::comparator::KeyOrder;
use esker_base::sync::Arc;
use esker_base::{FileNumber, SequenceNumber};
use esker_format::cursor::{KnownDeletedRun, ScanIterator, SkipDistance};
use esker_format::key;
use esker_memtable::MemTable;

/// Entries that one call passes over before it tries to skip, unless fewer are enough to remember a
/// range: a skip costs about as much as 20 steps.
const SKIP_AFTER: u64 = 8;

/// Deleted keys behind a remembered run that join it. To remember them costs about as many
/// instructions as to step over two or three.
const JOIN_AFTER: u64 = 3;

/// Entries behind a remembered run that a call passes over before it tries to skip again: more than
/// the deletions and deleted values of keys that have not joined the run.
const AFTER_KNOWN: u64 = 2 * JOIN_AFTER - 1;

/// The memory in which a cursor remembers deleted runs, and the newest file of its super version.
#[derive(Clone, Debug)]
pub(crate) struct DeletedRunMemoryRef {
    pub(crate) ranges: Arc<DeletedRunMemory>,
    pub(crate) newest_file: FileNumber,
    /// Set if the cursor reads own writes of a transaction over the database.
    pub(crate) own: Option<OwnRunsRef>,
}

/// The memory of runs that own writes have a part in.
#[derive(Clone, Debug)]
pub(crate) struct OwnRunsRef {
    pub(crate) ranges: Arc<DeletedRunMemory>,
    /// The sequence number at which the cursor reads the database.
    pub(crate) base_sequence: SequenceNumber,
    /// The own writes.
    pub(crate) mem: Arc<MemTable>,
}

impl DeletedRunMemoryRef {
    /// The remembered run around `user_key`; `run_end` gets its end.
    fn find<'a>(
        &self,
        user_key: &[u8],
        sequence: SequenceNumber,
        forward: bool,
        run_end: &'a mut Vec<u8>,
    ) -> Option<KnownDeletedRun<'a>> {
        let mut find_in = |ranges: &DeletedRunMemory, sequence| {
            let known = ranges.find(user_key, sequence, forward, run_end)?;
            Some((known.sequence, known.base_sequence, known.newest_file))
        };
        let found = match &self.own {
            // A run of the database is true for its part of the cursor; own writes are newer.
            Some(own) => find_in(&own.ranges, sequence).or_else(|| find_in(&self.ranges, own.base_sequence)),
            None => find_in(&self.ranges, sequence),
        };
        let (sequence, base_sequence, newest_file) = found?;
        Some(KnownDeletedRun { run_end, sequence, base_sequence, newest_file })
    }

    /// Remembers that a cursor at `sequence` found nothing in `[start, end)`. If no own write lies
    /// there, later transactions and other readers know the run, too.
    fn add(&self, start: &[u8], end: &[u8], sequence: SequenceNumber) {
        let (ranges, sequences) = match &self.own {
            Some(own) if self.ranges.has_entries(&own.mem, start, end) => {
                (&own.ranges, (sequence, own.base_sequence))
            }
            Some(own) => (&self.ranges, (own.base_sequence, own.base_sequence)),
            None => (&self.ranges, (sequence, sequence)),
        };
        ranges.add(start, end, sequences, self.newest_file);
    }
}

/// The deleted keys that one call has passed over.
#[derive(Debug)]
pub(crate) struct DeletedRunTracker {
    pub(crate) keys: u64,
    /// Keys after which a range is remembered; `u64::MAX`: never.
    pub(crate) min_keys: u64,
    /// `min_keys` in a call that has met no remembered range.
    min_keys_alone: u64,
    pub(crate) run_end: Vec<u8>,
    /// The count of passed entries at which to skip.
    pub(crate) skip_at: u64,
    skip_after: u64,
    /// The smallest `skip_after` behind a skip that did not reach a run's end.
    skip_least: u64,
    /// The first `skip_at` of the next call that is no seek.
    skip_first: u64,
    /// Whether this call has tried to skip.
    has_tried: bool,
    /// Scratch: the end of a deleted run.
    known_end: Vec<u8>,
}

impl DeletedRunTracker {
    pub(crate) fn new(memory: Option<&DeletedRunMemoryRef>) -> DeletedRunTracker {
        let min_keys = memory.map_or(u64::MAX, |memory| memory.ranges.min_keys());
        let skip_least = min_keys.min(SKIP_AFTER);
        DeletedRunTracker {
            keys: 0,
            min_keys,
            min_keys_alone: min_keys,
            run_end: Vec::new(),
            skip_at: skip_least,
            skip_after: skip_least,
            skip_least,
            skip_first: skip_least,
            has_tried: false,
            known_end: Vec::new(),
        }
    }

    /// Begins a seek, after `begin`: the cursor calls `skip` at its first hidden entry, which skips
    /// there if the entry lies in a remembered run.
    #[inline]
    pub(crate) fn begin_seek(&mut self) {
        self.skip_at = 1;
    }

    /// Begins a new call.
    pub(crate) fn begin(&mut self) {
        self.keys = 0;
        self.min_keys = self.min_keys_alone;
        self.skip_at = self.skip_first;
        self.skip_after = self.skip_least;
        self.has_tried = false;
    }
}

/// The state of the call in which a cursor skips.
#[derive(Debug)]
pub(crate) struct Skip<'v> {
    pub(crate) memory: Option<&'v DeletedRunMemoryRef>,
    pub(crate) sequence: SequenceNumber,
    pub(crate) forward: bool,
    /// Entries that this call has passed.
    pub(crate) passed: u64,
    /// Set for pre-scans: each deleted key behind a remembered run joins it.
    pub(crate) joins_runs: bool,
}

impl DeletedRunTracker {
    /// Skips with `iter` from its entry, which is hidden. Before `skip_first`, tries only in a
    /// remembered run. Returns false if `iter` did not move.
    pub(crate) fn skip<I: ScanIterator>(&mut self, iter: &mut I, from: &Skip<'_>) -> bool {
        esker_base::probe!("iter:skip");
        let known = from.memory.and_then(|memory| {
            let user_key = key::user_key(iter.key());
            memory.find(user_key, from.sequence, from.forward, &mut self.known_end)
        });
        if known.is_some() {
            self.min_keys = match self.min_keys_alone {
                _ if from.joins_runs => 1,
                u64::MAX => u64::MAX,
                keys => keys.min(JOIN_AFTER),
            };
        }
        let is_early = from.passed < self.skip_first;
        let skipped = match &known {
            None if is_early => SkipDistance::No,
            known => iter.skip_deleted_run(from.sequence, from.forward, known.as_ref()),
        };
        if is_early && skipped == SkipDistance::No {
            self.skip_at = self.skip_first;
            return false;
        }
        self.skip_after = match skipped {
            SkipDistance::Far if known.is_some() => AFTER_KNOWN,
            SkipDistance::Far => 1,
            SkipDistance::No | SkipDistance::Near => (self.skip_after * 2).max(self.skip_least),
        };
        if !std::mem::replace(&mut self.has_tried, true) {
            self.skip_first = if skipped == SkipDistance::Far { 1 } else { self.skip_least };
        }
        self.skip_at = from.passed + self.skip_after;
        skipped != SkipDistance::No
    }

    /// Remembers the deleted keys that a forward call has stepped over. The call has ended at
    /// `end`.
    pub(crate) fn remember_up_to(
        &mut self,
        end: &[u8],
        order: KeyOrder,
        sequence: SequenceNumber,
        memory: &DeletedRunMemoryRef,
    ) {
        if order == KeyOrder::Bytewise {
            self.run_end.push(0);
        }
        memory.add(&self.run_end, end, sequence);
    }

    /// Remembers the deleted keys that a backward call has stepped over: from `start` on, or from
    /// behind it if `start` is a visible key.
    pub(crate) fn remember_from(
        &mut self,
        (start, is_there): (&[u8], bool),
        sequence: SequenceNumber,
        memory: &DeletedRunMemoryRef,
    ) {
        let start = if is_there {
            self.known_end.clear();
            self.known_end.extend_from_slice(start);
            self.known_end.push(0);
            &self.known_end
        } else {
            start
        };
        memory.add(start, &self.run_end, sequence);
    }
}
