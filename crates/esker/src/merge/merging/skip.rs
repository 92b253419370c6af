//! Skips runs of deleted keys in a merge.
//!
//! In: the current child's deleted run, and a remembered range in which a reader finds no key. Out:
//! children that have moved past them.
//!
//! Invariant: entries that are skipped in one child hide no entry that an older child still shows.
//! A deleted run is skipped up to the first user key that an older child has in it. A remembered
//! range is skipped only together with all older children. So a skip is valid only while the older
//! children stay in place: an exchange of children positions all of them again.

use super::{MergingIterator, Node};
use esker_base::SequenceNumber;
use esker_format::cursor::{KnownDeletedRun, ScanIterator, SkipDistance, push_place};
use esker_format::key;

impl MergingIterator {
    /// See [`ScanIterator::skip_deleted_run`].
    pub(super) fn skip_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance {
        let Some(Node { child: c, .. }) = self.current.filter(|_| self.forward == forward) else {
            return SkipDistance::No;
        };
        let mut skipped = SkipDistance::No;
        let mut was_current_tried = false;
        if let Some(known) = known {
            (skipped, was_current_tried) = self.leave_known(snapshot, forward, known, c);
        }
        if !was_current_tried {
            let left = self.leave_run(snapshot, forward, c);
            skipped = if left == SkipDistance::No { skipped } else { left };
        }
        if skipped != SkipDistance::No {
            self.skipped = true;
            self.regroup();
        }
        skipped
    }

    /// Moves children in the range to its end, oldest first. A child with entries that the range's
    /// scan did not see, unless the range is for this very snapshot, only leaves a deleted run of
    /// its own. If that does not take it out of the range, the entries of newer children may hide
    /// the entries that stay, so newer children do the same. Returns how far the children moved,
    /// and whether `current` was one of them or tried to be.
    fn leave_known(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: &KnownDeletedRun<'_>,
        current: usize,
    ) -> (SkipDistance, bool) {
        let (mut skipped, mut was_current_tried) = (SkipDistance::No, false);
        let mut older_stay = false;
        for i in (0..self.children.len()).rev() {
            if !self.is_inside(i, known, forward) {
                continue;
            }
            was_current_tried |= i == current;
            let iter = &mut self.children[i].iter;
            if !older_stay && (known.was_found_at(snapshot) || iter.was_seen(known, forward)) {
                self.target.clear();
                push_place(&mut self.target, known.run_end, true);
                if forward {
                    iter.seek(&self.target);
                } else {
                    iter.seek_for_prev(&self.target);
                }
                skipped = SkipDistance::Far;
                continue;
            }
            let left = self.leave_run(snapshot, forward, i);
            skipped = if left == SkipDistance::No { skipped } else { left };
            older_stay |= self.is_inside(i, known, forward);
        }
        (skipped, was_current_tried)
    }

    /// Whether child `i` is in the range.
    fn is_inside(&self, i: usize, known: &KnownDeletedRun<'_>, forward: bool) -> bool {
        let iter = &self.children[i].iter;
        if !iter.valid() {
            return false;
        }
        let order = self.icmp.compare_user_keys(key::user_key(iter.key()), known.run_end);
        if forward { order.is_lt() } else { order.is_ge() }
    }

    /// Moves child `c`, which is in a deleted run of its own, to the run's end. Stops at the first
    /// user key that an older child has in the run: the run's deletion of that key may be needed.
    pub(super) fn leave_run(&mut self, snapshot: SequenceNumber, forward: bool, c: usize) -> SkipDistance {
        let icmp = &self.icmp;
        let nearer = |a: &[u8], b: &[u8]| {
            let order = icmp.compare_user_keys(a, b);
            if forward { order.is_lt() } else { order.is_gt() }
        };
        let child = &self.children[c].iter;
        let Some(run_end) = child.deleted_run_end(snapshot, forward) else { return SkipDistance::No };
        let here = key::user_key(child.key());
        let mut stop: Option<&[u8]> = None;
        for older in self.children[c + 1..].iter().filter(|older| older.iter.valid()) {
            let user_key = key::user_key(older.iter.key());
            if !nearer(here, user_key) {
                return SkipDistance::No;
            }
            if !nearer(run_end, user_key) && stop.is_none_or(|stop| nearer(user_key, stop)) {
                stop = Some(user_key);
            }
        }
        if !forward && !nearer(here, run_end) {
            return SkipDistance::No;
        }
        // The target is at the older child's key, if there is one, else at the run's last key.
        // Forward: before all entries of the former, or behind all of the latter. Backward: the
        // oldest entry of either key.
        self.target.clear();
        push_place(&mut self.target, stop.unwrap_or(run_end), forward && stop.is_some());
        let skipped = if stop.is_some() { SkipDistance::Near } else { SkipDistance::Far };
        let iter = &mut self.children[c].iter;
        if forward {
            iter.seek(&self.target);
        } else {
            iter.seek_for_prev(&self.target);
        }
        skipped
    }
}
