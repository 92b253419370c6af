//! Replaces children of a merge by those of a newer super version, and keeps unchanged ones.
//!
//! In: children to remove and to add. Out: the merge, at the same position. Kept children are
//! neither moved nor read, so the cost depends on the changes only.
//!
//! Invariants
//!  1. A kept child stays at its first (last) entry that is not before (behind) the position, or at
//!     a later one if range tombstones hide the entries between. A new child is positioned there.
//!  2. If a child has skipped a deleted run since all were positioned, all are positioned anew. A
//!     skip relies on the older children that it saw: they have no entries that the skipped
//!     deletions hide. A new older child may have some. Example: a child with deletions and an
//!     older one with the values skip a range together, and only the older one is replaced.

use super::{CoverSpan, MergeChild, MergingIterator, node_of};
use esker_format::cursor::InternalIterator;

impl MergingIterator {
    /// A merge whose order must be restored, because a caller has moved one of its children.
    pub(crate) fn unsettled(mut self) -> MergingIterator {
        self.skipped = true;
        self
    }

    /// Whether child `at` has range tombstones.
    pub(crate) fn has_tombstones(&self, at: usize) -> bool {
        self.children[at].tombstones.is_some()
    }

    /// Removes the children with the indexes `gone`, and adds those of `fresh`, each with the index
    /// that it gets. Both lists ascend. Given a position (an internal key) and a direction, the
    /// merge is there afterwards: forward at or after the key, else at or before it. It must have
    /// been there before. Without a position, it is invalid.
    pub(crate) fn exchange(
        &mut self,
        gone: &[usize],
        fresh: Vec<(usize, MergeChild)>,
        place: Option<(&[u8], bool)>,
    ) {
        esker_base::probe!("iter:exchange");
        let came: Vec<usize> = fresh.iter().map(|(at, _)| *at).collect();
        self.replace(gone, fresh);
        let Some((target, forward)) = place else { return self.reset(true) };
        if self.skipped || self.forward != forward || self.status.is_err() {
            return self.resume(target, forward);
        }
        for i in came {
            let iter = &mut self.children[i].iter;
            if forward {
                iter.seek(target);
            } else {
                iter.seek_for_prev(target);
            }
            if !self.collect(i) {
                return;
            }
            self.sift_up(self.heap.len().saturating_sub(1));
        }
        match self.current.and_then(|node| node_of(&self.icmp, &self.children, node.child)) {
            Some(node) => self.settle(node),
            None => self.current = self.pop(),
        }
        self.skip_hidden();
    }

    /// Replaces children, and updates the indexes in the nodes of kept children.
    fn replace(&mut self, gone: &[usize], fresh: Vec<(usize, MergeChild)>) {
        const FRESH: usize = usize::MAX;
        let before = self.children.len();
        // Nodes are removed while the children are still present, because the order of nodes
        // depends on them.
        for &at in gone {
            self.drop_node(at);
        }
        let mut origins: Vec<usize> = (0..before).collect();
        for &at in gone.iter().rev() {
            self.children.remove(at);
            origins.remove(at);
        }
        for (at, child) in fresh {
            self.children.insert(at, child);
            origins.insert(at, FRESH);
        }
        let mut places = vec![FRESH; before];
        for (place, &origin) in origins.iter().enumerate().filter(|(_, origin)| **origin != FRESH) {
            places[origin] = place;
        }
        for node in self.heap.iter_mut().chain(self.current.as_mut()) {
            node.child = places[node.child];
        }
        let covered = self.children.iter().any(|child| child.tombstones.is_some());
        self.cover_span = covered.then(|| CoverSpan::new(self.children.len()));
    }

    /// Removes the node of child `child` from the merge.
    fn drop_node(&mut self, child: usize) {
        if self.current.is_some_and(|node| node.child == child) {
            self.current = None;
        } else if let Some(at) = self.heap.iter().position(|node| node.child == child) {
            self.heap.swap_remove(at);
            if at < self.heap.len() {
                self.sift_down(at);
                self.sift_up(at);
            }
        }
    }

    fn sift_up(&mut self, mut i: usize) {
        while i > 0 {
            let above = (i - 1) / 2;
            if !self.before(&self.heap[i], &self.heap[above]) {
                return;
            }
            self.heap.swap(i, above);
            i = above;
        }
    }

    /// Positions all children at `place`, including those that have skipped.
    fn resume(&mut self, place: &[u8], forward: bool) {
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

    /// Orders all children anew after some have moved.
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
