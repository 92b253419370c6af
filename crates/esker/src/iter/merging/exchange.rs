//! A merge goes on with other children: those of a newer view, of which most are the same.
//!
//! Invariants
//!  1. A kept child stands where it stood, on its first (last) entry that is not before (behind) the place, or further on where
//!     range tombstones hide what is in between; a fresh one is positioned by the place.
//!  2. Nothing is kept of a merge of which a child has hopped: the deletions that it left out would be missing over what a fresh
//!     older child, positioned by the place, has in between.

use super::{MergeChild, MergingIterator};

impl MergingIterator {
    /// The children, newest first, where they stand.
    pub(crate) fn into_children(self) -> Vec<MergeChild> {
        self.children
    }

    /// Whether its children may stand further on than where a merge of others would need them.
    pub(crate) fn has_hopped(&self) -> bool {
        self.has_hopped
    }

    /// Goes on at `place`, an internal key: forward at or after it, else at or before it. Children that are not `fresh` were
    /// moved in this direction by the merge they come from, to there.
    pub(crate) fn resume(&mut self, fresh: &[bool], place: &[u8], forward: bool) {
        self.reset(forward);
        for (child, _) in self.children.iter_mut().zip(fresh).filter(|(_, fresh)| **fresh) {
            if forward {
                child.iter.seek(place);
            } else {
                child.iter.seek_for_prev(place);
            }
        }
        self.regroup();
    }

    /// Orders all children anew after some have moved on.
    pub(super) fn regroup(&mut self) {
        self.heap.clear();
        self.current = None;
        for i in 0..self.children.len() {
            if !self.collect(i) {
                return;
            }
        }
        self.start();
    }
}
