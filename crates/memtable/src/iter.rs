//! A cursor over all versions of all keys of a memtable, in internal-key order, forward and
//! backward.
//!
//! In: a memtable. Out: internal keys and values as slices of its records.
//!
//! The cursor copies the addresses of one leaf's records, and steps within this copy (`run`). It
//! reads the tree only at the ends of the copy.
//!
//! Invariants
//!  1. `run` holds, in order, the addresses of all records that a leaf had when the cursor copied
//!     it. `at` is a place in `run` if the cursor is valid.
//!  2. The cursor holds `table`, so records stay in place and unchanged.

use crate::checks::check_order;
use crate::memtable::MemTable;
use crate::record::{Record, Target};
use crate::tree::TreeRun;
use esker_base::sync::Arc;
use esker_base::{PinnedBytes, Result, SequenceNumber};
use esker_format::cursor::{InternalIterator, KnownDeletedRun, LeftValue, ScanIterator, plain_cursor};
use std::fmt;

/// A cursor over all entries of a memtable.
pub struct MemTableIter {
    run: TreeRun,
    at: usize,
    /// The key and value of the record at `at`; of an earlier record if the cursor is not valid.
    key: *const [u8],
    value: *const [u8],
    /// The value of the record at which the last call of `prev_key_leaving` began.
    left: *const [u8],
    valid: bool,
    /// Whether the memtable's [`Checks`](crate::Checks) are on.
    checked: bool,
    /// Whether the cursor ignores range tombstones. If the cursor ignores them, and the memtable
    /// has range tombstones, the cursor skips no deleted run: perhaps only a tombstone hides the
    /// keys of the run.
    ignores_range_deletions: bool,
    /// The error of a failed check.
    status: Result<()>,
    table: Arc<MemTable>,
}

// SAFETY: the pointers lead into records that `table` keeps (invariant 2), and `table` is `Send +
// Sync`.
unsafe impl Send for MemTableIter {}

const NOTHING: *const [u8] = &[];

impl MemTableIter {
    pub(crate) fn new(table: Arc<MemTable>, ignores_range_deletions: bool) -> MemTableIter {
        let checked = table.checks_itself();
        MemTableIter {
            run: TreeRun::new(),
            at: 0,
            key: NOTHING,
            value: NOTHING,
            left: NOTHING,
            valid: false,
            checked,
            ignores_range_deletions,
            status: Ok(()),
            table,
        }
    }

    /// Moves to place `at` of the run, or makes the cursor invalid.
    #[inline]
    fn settle(&mut self, at: Option<usize>) {
        self.valid = at.is_some();
        let Some(at) = at else { return };
        self.at = at;
        // SAFETY: the records of `run` live as long as `self.table` (invariant 2).
        let record: Record<'_> = unsafe { self.run.record(at) };
        let (key, value) = record.key_value();
        (self.key, self.value) = (key, value);
    }

    /// Checks the leaf in which a seek ended.
    #[inline]
    fn check_seek(&mut self) {
        if self.checked {
            self.check(|iter| iter.table.options.checks.check_run(&iter.table.tree, &iter.run));
        }
    }

    /// Ends the iteration if `also` fails, or if the entry does not match its checksum.
    #[cold]
    fn check(&mut self, also: impl FnOnce(&Self) -> Result<()>) {
        self.status = Ok(());
        if self.valid {
            // SAFETY: the records of `run` live as long as `self.table` (invariant 2).
            let record: Record<'_> = unsafe { self.run.record(self.at) };
            self.status = also(self).and_then(|()| self.table.options.checks.check(record));
            self.valid = self.status.is_ok();
        }
    }

    /// Takes a step and checks the new record.
    #[cold]
    fn step_checked(&mut self, forward: bool) {
        // SAFETY: the records of `run` live as long as `self.table` (invariant 2), even after the
        // run loads another leaf.
        let left: Record<'static> = unsafe { self.run.record(self.at) };
        if forward {
            self.step_forward()
        } else {
            self.step_back()
        }
        self.check(|iter| {
            if !iter.table.options.checks.order {
                return Ok(());
            }
            // SAFETY: `iter` holds the memtable from which the run was loaded (invariants 1 and 2).
            let here: Record<'_> = unsafe { iter.run.record(iter.at) };
            let (before, behind) = if forward { (left, here) } else { (here, left) };
            check_order(&iter.table.tree, before, behind)
        });
    }

    #[inline]
    fn step_forward(&mut self) {
        if self.at + 1 < self.run.len() {
            self.run.prefetch_ahead(self.at);
            self.settle(Some(self.at + 1));
        } else {
            self.next_leaf();
        }
    }

    #[inline]
    fn step_back(&mut self) {
        if self.at > 0 {
            self.run.prefetch_behind(self.at);
            self.settle(Some(self.at - 1));
        } else {
            self.prev_leaf();
        }
    }

    /// Marks the leaf as dead if a range tombstone hides the current record, and range tombstones
    /// or deletions hide all others. Readers at `snapshot` and later see none of the leaf's keys.
    #[cold]
    fn mark_dead_if_covered(&self, snapshot: SequenceNumber) {
        let covering = |user_key: &[u8]| self.table.max_covering_tombstone_seq(user_key, snapshot).0;
        // SAFETY: `run` was loaded from this tree.
        let record: Record<'_> = unsafe { self.run.record(self.at) };
        let (user_key, trailer) = record.parts();
        // SAFETY: `self` holds the memtable from which `run` was loaded (invariants 1 and 2).
        let leaf = unsafe { self.run.leaf() };
        if let Some(leaf) = leaf.filter(|_| covering(user_key) > trailer >> 8) {
            self.table.tree.mark_dead_if_covered(leaf, snapshot.0, covering);
        }
    }

    #[cold]
    fn next_leaf(&mut self) {
        // SAFETY: `run` was loaded from this tree.
        let found = unsafe { self.table.tree.load_next(&mut self.run) };
        self.settle(found.then_some(0));
    }

    #[cold]
    fn prev_leaf(&mut self) {
        // SAFETY: the first record of `run` lives as long as `self.table`.
        let first: Record<'_> = unsafe { self.run.record(0) };
        let tree = &self.table.tree;
        let found = match tree.is_first(first) {
            true => None,
            false => tree.load_before(&Target::of(first), false, &mut self.run),
        };
        self.settle(found);
    }
}

impl InternalIterator for MemTableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    fn seek_to_first(&mut self) {
        let found = self.table.tree.load_first(&mut self.run).then_some(0);
        self.settle(found);
        self.check_seek();
    }

    fn seek_to_last(&mut self) {
        let found = self.table.tree.load_last(&mut self.run);
        self.settle(found);
        self.check_seek();
    }

    fn seek(&mut self, target: &[u8]) {
        let found = self.table.tree.load_from(&Target::new(target), &mut self.run);
        self.settle(found);
        self.check_seek();
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        let found = self.table.tree.load_before(&Target::new(target), true, &mut self.run);
        self.settle(found);
        self.check_seek();
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid);
        if self.checked {
            return self.step_checked(true);
        }
        self.step_forward();
    }

    #[inline]
    fn prev(&mut self) {
        debug_assert!(self.valid);
        if self.checked {
            return self.step_checked(false);
        }
        self.step_back();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        debug_assert!(self.valid);
        // SAFETY: `settle` sets the pointer to bytes of a record that `table` keeps. Before the
        // first `settle` it points to an empty static slice.
        unsafe { &*self.key }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        debug_assert!(self.valid);
        // SAFETY: `settle` sets the pointer to bytes of a record that `table` keeps. Before the
        // first `settle` it points to an empty static slice.
        unsafe { &*self.value }
    }

    fn pinned_value(&self) -> PinnedBytes {
        self.table.pin_record_bytes(self.value())
    }

    fn status(&self) -> Result<()> {
        self.status.clone()
    }
}

impl ScanIterator for MemTableIter {
    plain_cursor!(self; next_key, prev_key, set_upper_bound, set_wanted_prefix_of, progress, continue_from, release,
        look_ahead, advance, pass, skip_deleted_run);

    #[inline]
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]> {
        self.left = self.value;
        left.lend();
        self.prev_key()
    }

    fn left_value(&self) -> &[u8] {
        // SAFETY: `left` is a former `value`, and `table` keeps its record.
        unsafe { &*self.left }
    }

    fn pinned_left_value(&self) -> PinnedBytes {
        self.table.pin_record_bytes(self.left_value())
    }

    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        // A deletion with a timestamp hides only versions with older timestamps.
        if self.table.comparator().timestamp_size() > 0 {
            return None;
        }
        if self.table.has_range_tombstones() {
            if self.ignores_range_deletions {
                return None;
            }
            self.mark_dead_if_covered(snapshot);
        }
        // SAFETY: `run` was loaded from this tree.
        unsafe { self.table.tree.deleted_run_end(&self.run, self.at, snapshot.0, forward) }
    }

    fn was_seen(&self, known: &KnownDeletedRun<'_>, _forward: bool) -> bool {
        // A writer raises `largest_seqno` before readers can find its entry. If the comparison
        // holds, the memtable has no entry that is newer than the scan that found the run.
        self.table.largest_seqno() <= known.sequence
    }
}

impl fmt::Debug for MemTableIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("MemTableIter");
        if self.valid {
            out.field("key", &format_args!("b\"{}\"", self.key().escape_ascii()));
        }
        out.finish_non_exhaustive()
    }
}
