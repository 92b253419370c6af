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

    /// Goes on at `place`, an internal key: forward at or after it, else at or before it. All children are positioned there,
    /// those too that another merge has moved: it may have let them pass what others need, over a hop for one.
    pub(crate) fn resume(&mut self, place: &[u8], forward: bool) {
        self.reset(forward);
        for child in &mut self.children {
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
