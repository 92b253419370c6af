//! The B+-tree over a memtable's records, with links from each node to its right neighbour.
//!
//! In: records. Out: the first record at or after a target, the versions of a key, runs of records
//! for cursors. `node` says how readers and a writer share a node.
//!
//! The tree is a B-link tree (Lehman and Yao). A split first makes the new right neighbour, and
//! adds it to the parent later. A search that reaches the left node meanwhile follows the link to
//! the right. So an insert latches one node at a time, and a search latches none.
//!
//! Invariants
//!  1. Each level is a list from left to right; the root is the leftmost node of the highest level.
//!  2. While a node is not yet in its parent, a search reaches the node through its left neighbour.
//!  3. The tree owns the arena: nodes and records live as long as the tree.

use crate::arena::Arena;
use crate::node::{self, Guess, Node, NodeInsert};
use crate::record::{Record, Target};
use crate::summaries::deleted::After;
use esker_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use esker_base::sync::{Mutex, hesitate};
use esker_base::{Error, Result};
use esker_format::key::InternalKeyComparator;
use std::fmt;
use std::ptr;

/// Slots of a node. With 66 a leaf fills 18 cache lines. In the simulated machine nodes are small,
/// so that a few inserts split leaves and inner nodes.
pub(crate) const WIDTH: usize = if cfg!(shuttle) { 6 } else { 66 };

/// Number of targets that a batch searches together. Sixteen leaves fit into the first-level cache.
pub(crate) const GROUP: usize = 16;

/// Up to this number of targets, `get_many_covered` uses smaller arrays. To set up arrays for
/// `GROUP` targets would cost more than the lookups.
pub(crate) const SMALL_GROUP: usize = 4;

/// The copy of a leaf, with the width of a memtable's nodes.
pub(crate) type TreeRun = node::LeafRun<WIDTH>;

/// The B+-tree, with `N` slots in each node.
pub(crate) struct Tree<const N: usize = WIDTH> {
    root: AtomicPtr<Node<N>>,
    /// A thread that adds a new root holds this latch.
    root_latch: Mutex<()>,
    /// An upper bound for the sequence numbers of range tombstones that cover a whole inner node.
    pub(crate) newest_above: AtomicU64,
    arena: Arena,
    icmp: InternalKeyComparator,
}

// SAFETY: the tree owns its records and nodes. Their shared words are atomics, or behind latches;
// the rest is immutable.
unsafe impl<const N: usize> Send for Tree<N> {}
// SAFETY: readers and writers share nodes by atomics and latches (`node.rs`); the comparator is
// `Send + Sync`.
unsafe impl<const N: usize> Sync for Tree<N> {}

impl<const N: usize> Tree<N> {
    /// An empty tree.
    /// # Errors
    /// `Aborted` with `MemoryLimit`.
    pub(crate) fn new(icmp: InternalKeyComparator, arena: Arena) -> Result<Tree<N>> {
        let leaf: *const Node<N> = Node::leaf(&arena)?;
        Ok(Tree {
            root: AtomicPtr::new(leaf.cast_mut()),
            root_latch: Mutex::new(()),
            newest_above: AtomicU64::new(0),
            arena,
            icmp,
        })
    }

    /// The order of the tree's records.
    pub(crate) fn icmp(&self) -> &InternalKeyComparator {
        &self.icmp
    }

    /// The arena of the tree's records.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    #[inline]
    pub(crate) fn root(&self) -> &Node<N> {
        // SAFETY: a root of this tree (invariant 3).
        unsafe { Node::from_ptr(self.root.load(Ordering::Acquire)) }.expect("a tree has a root")
    }

    /// Whether `record`, which is in the tree, comes before all others.
    #[inline]
    pub(crate) fn is_first(&self, record: Record<'_>) -> bool {
        ptr::eq(self.root().first_record().as_ptr(), record.as_ptr())
    }

    /// Whether the tree has no records.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let root = self.root();
        root.level() == 0 && root.is_untouched()
    }

    /// Searches for `target`, from the root down to this level. Returns the node that contains
    /// `target`, or a node left of that one. If not `inclusive`, the search is for the position
    /// directly before `target`. REQUIRES: the root has at least this level.
    #[inline]
    pub(crate) fn find(&self, level: u8, target: &Target<'_>, inclusive: bool) -> &Node<N> {
        self.find_past(level, target, inclusive, |_| {})
    }

    /// Does `find`, and calls `pass` with each node from which the search goes down.
    #[inline(always)]
    pub(crate) fn find_past<'t>(
        &'t self,
        level: u8,
        target: &Target<'_>,
        inclusive: bool,
        mut pass: impl FnMut(&'t Node<N>),
    ) -> &'t Node<N> {
        let mut node = self.root();
        while node.level() > level {
            let (from, at, _) = node.way_down(&self.icmp, target, inclusive);
            node = from.child(at);
            node.prefetch();
            pass(from);
        }
        node
    }

    /// Inserts `record`.
    /// # Errors
    /// `TryAgain` if its internal key exists already · `Aborted` with `MemoryLimit`; nothing was
    /// inserted.
    ///
    /// # Safety
    /// The record lies in this tree's arena.
    pub(crate) unsafe fn insert(&self, record: Record<'_>) -> Result<()> {
        // SAFETY: the record lies in this tree's arena (contract of this function).
        let after = unsafe { self.insert_unsettled(record) }?;
        if !matches!(after, After::Nothing) {
            hesitate();
            self.settle(after, &Target::of(record));
        }
        Ok(())
    }

    /// Inserts `record` and updates the leaf's summary of deleted entries. The caller must call
    /// `settle` with the result before readers see the record. `settle` updates the nodes above.
    /// # Errors
    /// `TryAgain` if its internal key exists already · `Aborted` with `MemoryLimit`; nothing was
    /// inserted.
    ///
    /// # Safety
    /// The record lies in this tree's arena.
    #[inline]
    pub(crate) unsafe fn insert_unsettled<'t>(&'t self, record: Record<'t>) -> Result<After<'t, N>> {
        let target = Target::of(record);
        let latched = self.find(0, &target, true).latch_for(&self.icmp, &target);
        let leaf = latched.node;
        let (inserted, after) = latched.insert(&self.icmp, &self.arena, record, None)?;
        match inserted {
            NodeInsert::Done => {}
            NodeInsert::Duplicate => return Err(duplicate()),
            NodeInsert::Split(right, separator) => {
                self.add_to_parent(right, separator);
                self.settle_split([leaf, right]);
            }
        }
        Ok(after)
    }

    /// Adds `right` to its parent. If there is no memory for that, only the left neighbour's link
    /// leads to `right`: searches stay correct and get slower.
    fn add_to_parent<'t>(&'t self, right: &'t Node<N>, separator: Record<'t>) {
        let level = right.level() + 1;
        if self.root().level() < level && self.grow(level, separator).is_err() {
            return;
        }
        let target = Target::of(separator);
        let latched = self.find(level, &target, true).latch_for(&self.icmp, &target);
        let node = latched.node;
        match latched.insert(&self.icmp, &self.arena, separator, Some(right)) {
            Ok((NodeInsert::Split(beside, separator), _)) => {
                self.add_to_parent(beside, separator);
                self.settle_split([node, beside]);
            }
            Ok((NodeInsert::Done, _)) | Err(_) => {}
            Ok((NodeInsert::Duplicate, _)) => {
                unreachable!("a node is split off once, and records are distinct")
            }
        }
    }

    /// Adds a root of this level, unless another thread has added one.
    #[cold]
    fn grow<'t>(&'t self, level: u8, separator: Record<'t>) -> Result<()> {
        let _latch = self.root_latch.lock();
        let root = self.root();
        if root.level() < level {
            debug_assert_eq!(root.level() + 1, level, "a level is added after the level below has split");
            let above = Node::above(root, &self.arena, &self.icmp, separator)?;
            self.root.store(ptr::from_ref(above).cast_mut(), Ordering::Release);
        }
        Ok(())
    }

    /// Visits the versions of the target's user key, from the target on, until `visit` returns
    /// false. The newest version comes first.
    #[inline]
    pub(crate) fn visit_versions<'t>(&'t self, target: &Target<'_>, visit: impl FnMut(Record<'t>) -> bool) {
        if !self.is_empty() {
            let leaf = self.find(0, target, true);
            self.visit_in(leaf, target, leaf.no_guess(&self.icmp, target), visit);
        }
    }

    /// Does `visit_versions` for each of up to `G` targets, which need not be sorted. `visit` gets
    /// the target's index.
    ///
    /// The searches for all targets go down together, level by level. So the processor
    /// fetches all nodes of a level at the same time, and then all records.
    pub(crate) fn visit_versions_of<'t, const G: usize>(
        &'t self,
        targets: &[Target<'_>],
        mut visit: impl FnMut(usize, Record<'t>) -> bool,
    ) {
        if self.is_empty() {
            return;
        }
        debug_assert!(targets.len() <= G);
        let root = self.root();
        let mut nodes = [root; G];
        // The children of a node are one level lower.
        for _ in 0..root.level() {
            for (node, target) in nodes.iter_mut().zip(targets) {
                (*node, _, _) = node.descend(&self.icmp, target, true);
                node.prefetch_heads();
            }
        }
        let mut guesses = [Guess::TO_BE_MADE; G];
        for ((guess, leaf), target) in guesses.iter_mut().zip(nodes).zip(targets) {
            *guess = leaf.guess(&self.icmp, target);
        }
        for (guess, leaf) in guesses.iter().zip(nodes).take(targets.len()) {
            leaf.fetch(*guess);
        }
        for (i, target) in targets.iter().enumerate() {
            self.visit_in(nodes[i], target, guesses[i], |record| visit(i, record));
        }
    }

    /// Does `visit_versions` from `leaf` on. `target` is in `leaf`, or right of it.
    #[inline]
    fn visit_in<'t>(
        &'t self,
        leaf: &'t Node<N>,
        target: &Target<'_>,
        guess: Guess,
        mut visit: impl FnMut(Record<'t>) -> bool,
    ) {
        let Some((first, leaf)) = leaf.first_of_key(&self.icmp, target, guess) else { return };
        if self.icmp.same_user_key(first.user_key(), target.user_key) && visit(first) {
            self.visit_older(leaf, first, visit);
        }
    }

    /// Visits the versions behind `newer`, newest first. `newer` was in `leaf`, and may have moved
    /// right.
    pub(crate) fn visit_older<'t>(
        &'t self,
        leaf: &'t Node<N>,
        newer: Record<'t>,
        mut visit: impl FnMut(Record<'t>) -> bool,
    ) {
        let target = Target::of(newer);
        let mut run = node::LeafRun::new();
        leaf.copy_to(&self.icmp, &mut run);
        let mut at = match run.place_of(newer) {
            Some(at) => at + 1,
            None => run.find(&self.icmp, &target, true),
        };
        loop {
            if at == run.len() {
                // SAFETY: the run was copied from this tree, which is borrowed for `'t`.
                let Some(next) = (unsafe { run.next() }) else { return };
                at = next.copy_and_find(&self.icmp, &target, true, &mut run);
                continue;
            }
            // SAFETY: the run was copied from this tree, which is borrowed for `'t`.
            let record: Record<'t> = unsafe { run.record(at) };
            if !self.icmp.same_user_key(record.user_key(), target.user_key) || !visit(record) {
                return;
            }
            at += 1;
        }
    }

    /// Copies the first leaf into `run`. Returns false if the tree is empty.
    pub(crate) fn load_first(&self, run: &mut node::LeafRun<N>) -> bool {
        let mut node = self.root();
        while node.level() > 0 {
            node = node.child(0);
        }
        self.load_leaf_or_right(node, run)
    }

    /// Copies the leaf behind `run` into `run`. Returns false if there is none.
    ///
    /// # Safety
    /// `run` was loaded from this tree.
    pub(crate) unsafe fn load_next(&self, run: &mut node::LeafRun<N>) -> bool {
        // SAFETY: the run was loaded from this tree (contract of this function).
        match unsafe { run.next() } {
            Some(next) => self.load_leaf_or_right(next, run),
            None => false,
        }
    }

    fn load_leaf_or_right<'t>(&'t self, mut leaf: &'t Node<N>, run: &mut node::LeafRun<N>) -> bool {
        loop {
            leaf.copy_to(&self.icmp, run);
            // SAFETY: the run was copied from this tree, which is borrowed for `'t`.
            let next: Option<&'t Node<N>> = unsafe { run.next() };
            if run.len() > 0 {
                next.inspect(|next| next.prefetch());
                run.prefetch_from(0);
                return true;
            }
            let Some(next) = next else { return false };
            leaf = next;
        }
    }

    /// Copies the last leaf into `run`. Returns the place of its last record, or `None` if the tree
    /// is empty.
    pub(crate) fn load_last(&self, run: &mut node::LeafRun<N>) -> Option<usize> {
        let mut node = self.root();
        loop {
            while let Some(next) = node.next() {
                node = next;
            }
            if node.level() == 0 {
                break;
            }
            node = node.child(node.count() - 1);
        }
        // The leaf may have split since.
        node.copy_to(&self.icmp, run);
        // SAFETY: the run was copied from this tree, which is borrowed.
        while let Some(next) = unsafe { run.next() } {
            next.copy_to(&self.icmp, run);
        }
        run.len().checked_sub(1)
    }

    /// Copies the leaf with the first record at or after `target` into `run`. Returns the record's
    /// place.
    pub(crate) fn load_from(&self, target: &Target<'_>, run: &mut node::LeafRun<N>) -> Option<usize> {
        let mut leaf = self.find(0, target, true);
        loop {
            let at = leaf.copy_and_find(&self.icmp, target, false, run);
            if at < run.len() {
                return Some(at);
            }
            // SAFETY: the run was copied from this tree, which is borrowed.
            leaf = unsafe { run.next() }?;
        }
    }

    /// Copies the leaf with the last record before `target` into `run`. Returns the record's place.
    /// If `inclusive`, the record may also be at `target`.
    pub(crate) fn load_before(
        &self,
        target: &Target<'_>,
        inclusive: bool,
        run: &mut node::LeafRun<N>,
    ) -> Option<usize> {
        let mut leaf = self.find(0, target, inclusive);
        loop {
            let before = leaf.copy_and_find(&self.icmp, target, inclusive, run);
            // SAFETY: the run was copied from this tree, which is borrowed.
            match unsafe { run.next() } {
                Some(next) if before == run.len() && !next.starts_after(&self.icmp, target, inclusive) => {
                    leaf = next;
                }
                _ => return before.checked_sub(1),
            }
        }
    }

    /// Estimates how many of the tree's `entries` records have user keys in `[start, end)`.
    pub(crate) fn approximate_count(&self, start: &[u8], end: &[u8], entries: u64) -> u64 {
        let place = |user_key| self.rank(&Target { user_key, trailer: u64::MAX });
        let share = (place(end) - place(start)).clamp(0.0, 1.0);
        (share * entries as f64).round() as u64
    }

    /// Estimates the share of records before `target`. Assumes that all children of a node have
    /// equally many records below them.
    fn rank(&self, target: &Target<'_>) -> f64 {
        let (mut before, mut width) = (0.0, 1.0);
        let mut node = self.root();
        while node.level() > 0 {
            let (child, at, count) = node.descend(&self.icmp, target, true);
            width /= count as f64;
            before += width * at as f64;
            node = child;
        }
        let mut run = node::LeafRun::new();
        let at = node.copy_and_find(&self.icmp, target, false, &mut run);
        before + width * at as f64 / run.len().max(1) as f64
    }
}

impl<const N: usize> fmt::Debug for Tree<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("levels", &(self.root().level() + 1)).finish_non_exhaustive()
    }
}

#[cold]
fn duplicate() -> Error {
    Error::try_again("key+seq exists")
}

#[cfg(test)]
mod tests;
