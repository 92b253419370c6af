//! The user's cursor across deleted runs; `deleted_runs/` has the knowledge about them.
//!
//! A pre-scan ([`DbIter::pre_scan`]) is a scan for the sake of remembering runs. It asks now and
//! then whether to go on. The part that it has passed is remembered when it stops, as when it finds
//! a key.

use super::{DbIter, set};
use crate::deleted_runs::{DeletedRunMemoryRef, DeletedRunTracker, Skip};
use esker_base::comparator::KeyOrder;
use esker_format::cursor::ScanIterator;
use esker_format::key;

/// Asked with the user key that a pre-scan has come to. False: it shall stop before it.
pub(crate) type GoesOn = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// A scan that may be stopped between two keys that are there.
pub(super) struct PreScanState {
    goes_on: GoesOn,
    /// Entries to be passed before it asks again.
    every: u64,
    stopped: bool,
}

impl<I: ScanIterator> DbIter<I> {
    /// From now on a move that passes over `every` entries asks `goes_on` with the user key it has
    /// come to, and again after as many. If that says no, the cursor is not valid and its status is
    /// fine; [`DbIter::stopped_at`] is that key then. Moves go forward only.
    pub(crate) fn pre_scan(&mut self, every: u64, goes_on: GoesOn) {
        self.options.max_skippable_internal_keys = every;
        self.pre_scan = Some(PreScanState { goes_on, every, stopped: false });
    }

    /// A new call begins.
    pub(super) fn begin_pre_scan(&mut self) {
        if let Some(pre_scan) = &mut self.pre_scan {
            self.options.max_skippable_internal_keys = pre_scan.every;
            pre_scan.stopped = false;
        }
    }

    /// Where a pre-scan was stopped: no visible key lies before this one, and nothing is known of
    /// the key itself.
    pub(crate) fn stopped_at(&self) -> Option<&[u8]> {
        self.pre_scan.as_ref().filter(|pre_scan| pre_scan.stopped).map(|_| self.key.as_slice())
    }

    /// Whether the pre-scan goes on over the entry that was just counted.
    pub(super) fn ask_pre_scan(&mut self) -> bool {
        let Some(pre_scan) = &mut self.pre_scan else { return true };
        pre_scan.stopped = !(pre_scan.goes_on)(&self.key);
        self.valid = false;
        self.options.max_skippable_internal_keys = self.skipped_in_call + pre_scan.every;
        !pre_scan.stopped
    }

    /// Skips from the inner cursor's entry, which is not to be shown. False if it did not move.
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

    /// Forward, before `key` is replaced by the first deleted key of this call, on which the inner
    /// cursor stands.
    #[inline]
    pub(super) fn begin_run_forward(&mut self) {
        if self.icmp.order() == KeyOrder::Bytewise {
            std::mem::swap(&mut self.key, &mut self.deleted_run.run_end);
        } else {
            set(&mut self.deleted_run.run_end, key::user_key(self.iter.key()));
        }
    }

    /// A forward call has ended: the deleted keys it stepped over are remembered.
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

    /// A backward call has ended: the same.
    #[cold]
    pub(super) fn remember_backward(&mut self) {
        let Some(memory) = self.options.deleted_run_memory.as_ref().filter(|_| self.status.is_ok()) else {
            return;
        };
        if self.prefix.is_some() {
            return;
        }
        // A key that is there cannot be named as the start in an order whose next key is not known.
        let start = match (&self.options.lower_bound, self.valid, self.icmp.order()) {
            (Some(lower), false, _) => lower,
            (None, false, _) | (_, true, KeyOrder::Bytewise) => &self.key,
            (_, true, _) => return,
        };
        self.deleted_run.remember_from((start, self.valid), self.options.sequence, memory);
    }

    /// From now on uses the memory of another super version.
    pub(crate) fn set_deleted_run_memory(&mut self, memory: Option<DeletedRunMemoryRef>) {
        self.deleted_run = DeletedRunTracker::new(memory.as_ref());
        self.options.deleted_run_memory = memory;
    }
}
