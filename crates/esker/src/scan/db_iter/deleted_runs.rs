//! Moves of the user's cursor across deleted runs; `deleted_runs/` remembers and skips them.
//!
//! A pre-scan ([`DbIter::pre_scan`]) is a scan that only remembers deleted runs. At intervals it
//! checks whether to continue. When it stops or finds a key, it remembers the run that it has
//! passed.

use super::{DbIter, set};
use crate::deleted_runs::{DeletedRunMemoryRef, DeletedRunTracker, Skip};
use esker_base::comparator::KeyOrder;
use esker_format::cursor::ScanIterator;
use esker_format::key;

/// Called with the user key that a pre-scan has reached. Returns whether to continue. False stops
/// the pre-scan before that key.
pub(crate) type GoesOn = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// State of a pre-scan, which may stop between two visible keys.
pub(super) struct PreScanState {
    goes_on: GoesOn,
    /// Entries between two calls of `goes_on`.
    every: u64,
    stopped: bool,
}

impl<I: ScanIterator> DbIter<I> {
    /// Makes this cursor a pre-scan. After each `every` entries that a move passes, it calls
    /// `goes_on` with the user key that it has reached. If the answer is false, the cursor becomes
    /// invalid without an error, and [`DbIter::stopped_at`] is that key. Moves go forward only.
    pub(crate) fn pre_scan(&mut self, every: u64, goes_on: GoesOn) {
        self.options.max_skippable_internal_keys = every;
        self.pre_scan = Some(PreScanState { goes_on, every, stopped: false });
    }

    /// Begins a new call.
    pub(super) fn begin_pre_scan(&mut self) {
        if let Some(pre_scan) = &mut self.pre_scan {
            self.options.max_skippable_internal_keys = pre_scan.every;
            pre_scan.stopped = false;
        }
    }

    /// The key at which a pre-scan was stopped: no visible key lies before it; it may be visible
    /// itself.
    pub(crate) fn stopped_at(&self) -> Option<&[u8]> {
        self.pre_scan.as_ref().filter(|pre_scan| pre_scan.stopped).map(|_| self.key.as_slice())
    }

    /// Whether the pre-scan continues past the entry that was just counted.
    pub(super) fn ask_pre_scan(&mut self) -> bool {
        let Some(pre_scan) = &mut self.pre_scan else { return true };
        pre_scan.stopped = !(pre_scan.goes_on)(&self.key);
        self.valid = false;
        self.options.max_skippable_internal_keys = self.skipped_in_call + pre_scan.every;
        !pre_scan.stopped
    }

    /// Skips a deleted run from the inner cursor's entry, which is hidden. Returns whether the
    /// inner cursor moved.
    #[cold]
    pub(super) fn skip_deleted_run(&mut self) -> bool {
        let from = Skip {
            memory: self.options.deleted_run_memory.as_ref(),
            sequence: self.options.sequence,
            forward: self.forward,
            passed: self.skipped_in_call,
            joins_runs: self.pre_scan.is_some(),
        };
        let has_moved = self.deleted_run.skip(&mut self.iter, &from);
        self.counters.skips += u64::from(has_moved);
        has_moved
    }

    /// Records the start of a run. Called forward, with the inner cursor at this call's first
    /// deleted key, before that key replaces `key`.
    #[inline]
    pub(super) fn begin_run_forward(&mut self) {
        if self.icmp.order() == KeyOrder::Bytewise {
            std::mem::swap(&mut self.key, &mut self.deleted_run.run_end);
        } else {
            set(&mut self.deleted_run.run_end, key::user_key(self.iter.key()));
        }
    }

    /// Remembers the deleted keys that a forward call has stepped over. Called at the call's end.
    #[cold]
    pub(super) fn remember_forward(&mut self) {
        let Some(memory) = self.options.deleted_run_memory.as_ref().filter(|_| self.status.is_ok()) else {
            return;
        };
        if self.prefix.is_some() {
            return;
        }
        let end = match (&self.options.upper_bound, self.valid) {
            (Some(upper), false) => upper,
            _ => &self.key,
        };
        self.deleted_run.remember_up_to(end, self.icmp.order(), self.options.sequence, memory);
    }

    /// Remembers the deleted keys that a backward call has stepped over. Called at the call's end.
    #[cold]
    pub(super) fn remember_backward(&mut self) {
        let Some(memory) = self.options.deleted_run_memory.as_ref().filter(|_| self.status.is_ok()) else {
            return;
        };
        if self.prefix.is_some() {
            return;
        }
        // The run starts behind a visible key. Only an order in which each key has a known
        // successor can name that start.
        let start = match (&self.options.lower_bound, self.valid, self.icmp.order()) {
            (Some(lower), false, _) => lower,
            (None, false, _) | (_, true, KeyOrder::Bytewise) => &self.key,
            (_, true, _) => return,
        };
        self.deleted_run.remember_from((start, self.valid), self.options.sequence, memory);
    }

    /// Sets the memory of deleted runs, after a change of super version.
    pub(crate) fn set_deleted_run_memory(&mut self, memory: Option<DeletedRunMemoryRef>) {
        self.deleted_run = DeletedRunTracker::new(memory.as_ref());
        self.options.deleted_run_memory = memory;
    }
}
