//! Skips runs of deleted keys in a merge.
//!
//! In: a remembered range in which a reader finds no key, and deleted runs of the children in it,
//! or of the current child alone. Out: children that have moved past them.
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
        let (skipped, has_moved) = match known {
            Some(known) => self.leave_known(snapshot, forward, known, c),
            None => {
                let skipped = self.leave_run(snapshot, forward, c);
                (skipped, skipped != SkipDistance::No)
            }
        };
        if !has_moved {
            return SkipDistance::No;
        }
        self.skipped = true;
        self.regroup();
        match self.current {
            Some(Node { child, .. }) if child == c => skipped,
            // Another entry is current, or none after an error.
            _ => skipped.max(SkipDistance::Near),
        }
    }

    /// Moves children in the range to its end, oldest first. A child with entries that the range's
    /// scan did not see, unless the range is for this very snapshot, only leaves a deleted run of
    /// its own. If that does not take it out of the range, its entries may be hidden by those of
    /// newer children, so newer children do the same. Returns how far `current` moved, which is in
    /// the range, and whether any child moved.
    fn leave_known(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: &KnownDeletedRun<'_>,
        current: usize,
    ) -> (SkipDistance, bool) {
        let (mut any_moved, mut older_stay) = (false, false);
        let mut distance = SkipDistance::No;
        for i in (0..self.children.len()).rev() {
            if !self.is_inside(i, known, forward) {
                continue;
            }
            let iter = &mut self.children[i].iter;
            let moved = if !older_stay && (known.was_found_at(snapshot) || iter.was_seen(known, forward)) {
                self.target.clear();
                push_place(&mut self.target, known.run_end, true);
                if forward {
                    iter.seek(&self.target);
                } else {
                    iter.seek_for_prev(&self.target);
                }
                SkipDistance::Far
            } else {
                let moved = self.leave_run(snapshot, forward, i);
                let stays = self.is_inside(i, known, forward);
                older_stay |= stays;
                if moved == SkipDistance::Near && !stays { SkipDistance::Far } else { moved }
            };
            any_moved |= moved != SkipDistance::No;
            if i == current {
                distance = moved;
            }
        }
        (distance, any_moved)
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
        let here = key::user_key(child.key());
        let older = || self.children[c + 1..].iter().map(|older| &older.iter).filter(|older| older.valid());
        if older().any(|older| !nearer(here, key::user_key(older.key()))) {
            return SkipDistance::No;
        }
        let Some(run_end) = child.deleted_run_end(snapshot, forward) else { return SkipDistance::No };
        let mut stop: Option<&[u8]> = None;
        for user_key in older().map(|older| key::user_key(older.key())) {
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
        if forward && self.children[c].iter.key() == self.target.as_slice() {
            // A deletion with sequence number 0 is the last entry of its key: the skip is one step.
            return SkipDistance::No;
        }
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
