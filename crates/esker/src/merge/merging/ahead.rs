//! Decodes entries ahead in a merge, while the current child comes first.
//!
//! In: the current child. Out: a run of its entries that all lie before the other children's
//! entries, within a span in which none of them is hidden. So a run costs one comparison, not one
//! for each entry.
//!
//! Invariant: while there is a run, no child moves; the current child is at the run's first entry.

use super::{BoundKind, MergingIterator, Node, prefix_of};
use crate::merge::range_del::Cover;
use esker_format::cursor::{DecodeAhead, DecodedRun, ScanIterator};
use esker_format::key;

impl MergingIterator {
    /// See [`ScanIterator::look_ahead`].
    pub(super) fn look_ahead_of_others(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        run.clear();
        if self.forward == ahead.forward && self.shows_all_of_current() {
            self.ask_current(ahead, |iter, ahead| iter.look_ahead(run, ahead));
        }
    }

    /// See [`ScanIterator::pass`].
    pub(super) fn pass_before_others(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        let Some(Node { child: i, .. }) = self.current else { return run.clear() };
        debug_assert!(self.shows_all_of_current(), "no tombstone was located since the run began");
        self.ask_current(ahead, |iter, ahead| iter.pass(run, ahead));
        if !run.is_empty() {
            return;
        }
        let iter = &self.children[i].iter;
        if iter.valid() {
            let prefix = prefix_of(self.icmp.order(), key::user_key(iter.key()));
            self.settle(Node { prefix, child: i });
        } else {
            self.settle_without(i);
        }
        self.skip_hidden();
    }

    /// Whether no tombstone hides entries of the current child in the span, as far as is known.
    fn shows_all_of_current(&self) -> bool {
        match (&self.cover_span, self.current) {
            (Some(cover_span), Some(Node { child: i, .. })) => {
                i < cover_span.depth && cover_span.joint[i] == Cover::NONE
            }
            _ => true,
        }
    }

    /// Calls `ask` with the current child and the two limits of its run: the next child's entry,
    /// and the end of the span.
    fn ask_current(
        &mut self,
        ahead: &DecodeAhead<'_>,
        ask: impl FnOnce(&mut dyn ScanIterator, &DecodeAhead<'_>),
    ) {
        let Some(Node { child: i, .. }) = self.current else { return };
        let icmp = &self.icmp;
        let nearer = |limit: Option<&[u8]>, key: &[u8]| {
            limit.is_none_or(|limit| {
                let order = icmp.compare_user_keys(key, limit);
                if ahead.forward { order.is_lt() } else { order.is_gt() }
            })
        };
        let mut limit = ahead.limit;
        if let Some(cover_span) = &self.cover_span {
            let bound = if ahead.forward { &cover_span.high } else { &cover_span.low };
            if bound.kind != BoundKind::Unbounded && nearer(limit, &bound.key) {
                limit = Some(&bound.key);
            }
        }
        let Some(top) = self.heap.first().map(|node| node.child) else {
            return ask(&mut *self.children[i].iter, &DecodeAhead { limit, ..*ahead });
        };
        let Ok([current, next]) = self.children.get_disjoint_mut([i, top]) else { return };
        let next = key::user_key(next.iter.key());
        if nearer(limit, next) {
            limit = Some(next);
        }
        ask(&mut *current.iter, &DecodeAhead { limit, ..*ahead });
    }
}
