//! The user's cursor across runs of deleted keys: what is known of them lies in `deleted_runs/`.
//!
//! A walk ([`DbIter::walk`]) is a scan for the sake of what it remembers: it asks now and then
//! whether it shall go on, and what it has passed when it stops is remembered like what it passed
//! when it found a key.

use super::{DbIter, set};
use crate::deleted_runs::{DeadRangesOfView, DeadRun, Skip};
use esker_base::comparator::KeyOrder;
use esker_base::iter::InternalIterator;
use esker_format::key;

/// Asked with the user key that a walk has come to. False: it shall stop before it.
pub(crate) type GoesOn = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// A scan that may be stopped between two keys that are there.
pub(super) struct Walk {
    goes_on: GoesOn,
    /// Entries to be passed before it asks again.
    every: u64,
    stopped: bool,
}

impl<I: InternalIterator> DbIter<I> {
    /// From now on a move that passes over `every` entries asks `goes_on` with the user key it has
    /// come to, and again after as many. If that says no, the cursor is not valid and its status is
    /// fine; [`DbIter::stopped_at`] is that key then. Moves go forward only.
    pub(crate) fn walk(&mut self, every: u64, goes_on: GoesOn) {
        self.options.max_skippable_internal_keys = every;
        self.walk = Some(Walk { goes_on, every, stopped: false });
    }

    /// A new call begins.
    pub(super) fn begin_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            self.options.max_skippable_internal_keys = walk.every;
            walk.stopped = false;
        }
    }

    /// Where a walk was stopped: nothing was found before this key that was not shown, and nothing
    /// is known of the key itself.
    pub(crate) fn stopped_at(&self) -> Option<&[u8]> {
        self.walk.as_ref().filter(|walk| walk.stopped).map(|_| self.key.as_slice())
    }

    /// Whether the walk goes on over the entry that was just counted.
    pub(super) fn ask_on_walk(&mut self) -> bool {
        let Some(walk) = &mut self.walk else { return true };
        walk.stopped = !(walk.goes_on)(&self.key);
        self.valid = false;
        self.options.max_skippable_internal_keys = self.skipped_in_call + walk.every;
        !walk.stopped
    }

    /// Hops from the inner cursor's entry, which is not to be shown. False if it did not move.
    #[cold]
    pub(super) fn hop(&mut self) -> bool {
        let from = Skip {
            view: self.options.dead_ranges.as_ref(),
            sequence: self.options.sequence,
            forward: self.forward,
            passed: self.skipped_in_call,
            joins_runs: self.walk.is_some(),
        };
        let has_moved = self.dead.skip(&mut self.iter, &from);
        self.counters.hops += u64::from(has_moved);
        has_moved
    }

    /// Forward, before `key` is replaced by the first deleted key of this call, on which the inner
    /// cursor stands.
    #[inline]
    pub(super) fn begin_run_forward(&mut self) {
        if self.icmp.order() == KeyOrder::Bytewise {
            std::mem::swap(&mut self.key, &mut self.dead.edge);
        } else {
            set(&mut self.dead.edge, key::user_key(self.iter.key()));
        }
    }

    /// A forward call has ended: the deleted keys it stepped over are remembered.
    #[cold]
    pub(super) fn remember_forward(&mut self) {
        let Some(view) = self.options.dead_ranges.as_ref().filter(|_| self.status.is_ok()) else { return };
        if self.prefix.is_some() {
            return;
        }
        let end = match (&self.options.upper_bound, self.valid) {
            (Some(upper), false) => upper,
            _ => &self.key,
        };
        self.dead.remember_up_to(end, self.icmp.order(), self.options.sequence, view);
    }

    /// A backward call has ended: the same.
    #[cold]
    pub(super) fn remember_backward(&mut self) {
        let Some(view) = self.options.dead_ranges.as_ref().filter(|_| self.status.is_ok()) else { return };
        if self.prefix.is_some() {
            return;
        }
        // A key that is there cannot be named as the start in an order whose next key is not known.
        let start = match (&self.options.lower_bound, self.valid, self.icmp.order()) {
            (Some(lower), false, _) => lower,
            (None, false, _) | (_, true, KeyOrder::Bytewise) => &self.key,
            (_, true, _) => return,
        };
        self.dead.remember_from((start, self.valid), self.options.sequence, view);
    }

    /// Its view is another one from now on.
    pub(crate) fn set_dead_ranges(&mut self, view: Option<DeadRangesOfView>) {
        self.dead = DeadRun::new(view.as_ref());
        self.options.dead_ranges = view;
    }
}
