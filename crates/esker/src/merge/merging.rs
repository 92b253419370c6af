//! Merges many sorted runs into one, without entries that newer range tombstones hide.
//!
//! In: one cursor per sorted run, newest run first, each with its tombstones if it has any. Out:
//! one cursor over all entries in internal-key order, in both directions. RocksDB's
//! `table/merging_iterator.cc` also skips whole ranges, by another mechanism.
//!
//! The child with the next entry is held outside the heap, so that a run of entries from one child
//! costs one comparison each. For the built-in orders, heap nodes have the first 16 bytes of the
//! user key.
//!
//! Tombstones: around the current key there is a *span* of user keys within which no tombstone
//! begins or ends. Within it, one number per child determines which entries are hidden, so an entry
//! costs one comparison with the span's end. At that end the sources are searched again. An entry
//! hidden by a tombstone of a newer run makes its child seek to the tombstone's end instead of
//! stepping: all entries of the older run in between are hidden as well. Under a tombstone of its
//! own run a child steps, and skips its known deleted runs (`merging/skip.rs`).
//!
//! Invariants
//!  1. Every valid child but the current one is in the heap, once; moving forward (backward), each
//!     is at its first (last) entry that is not before (behind) the current entry, or at a later
//!     one if tombstones hide the entries between.
//!  2. For one user key, the entries of a newer run have larger sequence numbers than those of an
//!     older run.
//!  3. The sources of the newest `depth` children are located at the span; 0: there is no span.

mod ahead;
mod exchange;
mod skip;

use super::range_del::{Cover, TombstoneSource};
use esker_base::comparator::KeyOrder;
use esker_base::{Error, PinnedBytes, Result, SequenceNumber, ValueType, perf_add, perf_count};
use esker_format::cursor::{
    DecodeAhead, DecodedRun, InternalIterator, KnownDeletedRun, LeftValue, ScanIterator, SkipDistance,
    plain_cursor,
};
use esker_format::key::{self, InternalKeyComparator, append_internal_key};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

/// Hidden entries of a run that are stepped over before a skip is tried: a skip costs about as much
/// as 20 steps.
const OWN_STEPS: u32 = 8;
/// Most steps between two unsuccessful tries.
const MAX_OWN_STEPS: u32 = 64;

/// One sorted run of a merge.
pub(crate) struct MergeChild {
    /// A cursor over the run's entries.
    pub iter: Box<dyn ScanIterator>,
    /// The run's range tombstones, if it has any. They hide older entries of this run and of all
    /// older runs.
    pub tombstones: Option<Box<dyn TombstoneSource>>,
}

impl MergeChild {
    /// A run without range tombstones.
    pub(crate) fn new(iter: Box<dyn ScanIterator>) -> MergeChild {
        MergeChild { iter, tombstones: None }
    }

    /// A run with range tombstones.
    #[cfg(test)]
    pub(crate) fn with_tombstones(
        iter: Box<dyn ScanIterator>,
        tombstones: Box<dyn TombstoneSource>,
    ) -> MergeChild {
        MergeChild { iter, tombstones: Some(tombstones) }
    }
}

impl fmt::Debug for MergeChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeChild").field("tombstones", &self.tombstones.is_some()).finish_non_exhaustive()
    }
}

/// Merges the children, newest first, into one cursor. A single child without tombstones is
/// returned unchanged.
pub(crate) fn merge_children(
    icmp: &InternalKeyComparator,
    mut children: Vec<MergeChild>,
) -> Box<dyn ScanIterator> {
    if children.len() == 1 && children[0].tombstones.is_none() {
        return children.pop().expect("the list has one child").iter;
    }
    Box::new(MergingIterator::new(icmp.clone(), children))
}

/// A valid child, with the prefix of its key that decides most comparisons.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Out of date in the current node: a node is compared only after a step, or in the heap.
    prefix: u128,
    child: usize,
}

/// The merged cursor over all children.
pub(crate) struct MergingIterator {
    icmp: InternalKeyComparator,
    children: Vec<MergeChild>,
    heap: Vec<Node>,
    current: Option<Node>,
    forward: bool,
    /// Whether a child has skipped since all children were positioned.
    skipped: bool,
    /// The reader's sequence number: only entries visible to it are needed; `None`: all entries.
    reader: Option<SequenceNumber>,
    /// Entries since the last try of a skip that were stepped over because tombstones of their own
    /// run hide them.
    own_hidden: u32,
    /// The value of `own_hidden` at which a skip is tried.
    skip_after: u32,
    /// The child whose lent value was left.
    left: usize,
    cover_span: Option<CoverSpan>,
    /// Scratch: the target of seeks in children.
    target: Vec<u8>,
    status: Result<()>,
}

impl fmt::Debug for MergingIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergingIterator")
            .field("children", &self.children.len())
            .field("current", &self.current)
            .field("forward", &self.forward)
            .finish_non_exhaustive()
    }
}

impl MergingIterator {
    /// A cursor over these children, newest first. Not valid until positioned.
    pub(crate) fn new(icmp: InternalKeyComparator, children: Vec<MergeChild>) -> MergingIterator {
        let covered = children.iter().any(|c| c.tombstones.is_some());
        let cover_span = covered.then(|| CoverSpan::new(children.len()));
        let heap = Vec::with_capacity(children.len());
        MergingIterator {
            icmp,
            children,
            heap,
            current: None,
            forward: true,
            skipped: false,
            reader: None,
            own_hidden: 0,
            skip_after: OWN_STEPS,
            left: 0,
            cover_span,
            target: Vec::new(),
            status: Ok(()),
        }
    }

    /// Declares a reader at `sequence` that needs only visible entries, so that deleted runs may be
    /// skipped.
    pub(crate) fn read_at(&mut self, sequence: SequenceNumber) {
        self.reader = Some(sequence).filter(|sequence| *sequence < SequenceNumber::MAX);
    }

    fn reset(&mut self, forward: bool) {
        (self.own_hidden, self.skip_after) = (0, OWN_STEPS);
        self.heap.clear();
        self.current = None;
        self.forward = forward;
        self.skipped = false;
        self.status = Ok(());
        if let Some(cover_span) = &mut self.cover_span {
            cover_span.depth = 0;
        }
    }

    fn fail(&mut self, error: Error) {
        self.heap.clear();
        self.current = None;
        self.status = Err(error);
    }

    /// Appends child `i`, which has just been positioned, to the heap's vector. Returns false if it
    /// failed.
    fn collect(&mut self, i: usize) -> bool {
        match node_of(&self.icmp, &self.children, i) {
            Some(node) => self.heap.push(node),
            None => {
                if let Err(error) = self.children[i].iter.status() {
                    self.fail(error);
                    return false;
                }
            }
        }
        true
    }

    /// Orders the collected nodes, and moves to the first entry that is not hidden.
    fn start(&mut self) {
        for i in (0..self.heap.len() / 2).rev() {
            self.sift_down(i);
        }
        self.current = self.pop();
        self.skip_hidden();
    }

    /// Restores the order after the current child has moved to `node`.
    #[inline]
    fn settle(&mut self, node: Node) {
        match self.heap.first() {
            Some(top) if self.before(top, &node) => {
                self.current = Some(std::mem::replace(&mut self.heap[0], node));
                self.sift_down(0);
            }
            _ => self.current = Some(node),
        }
    }

    /// Continues without child `i`, which has ended or failed.
    #[cold]
    fn settle_without(&mut self, i: usize) {
        match self.children[i].iter.status() {
            Ok(()) => self.current = self.pop(),
            Err(error) => self.fail(error),
        }
    }

    /// Steps the current child in the direction of travel.
    #[inline]
    fn step(&mut self) {
        let Some(Node { child: i, .. }) = self.current else { return };
        let iter = &mut self.children[i].iter;
        let key = if self.forward { iter.next_key() } else { iter.prev_key() };
        match key {
            // A single valid child needs no comparison.
            Some(_) if self.heap.is_empty() => {}
            Some(key) => {
                let node = Node { prefix: prefix_of(self.icmp.order(), key::user_key(key)), child: i };
                self.settle(node);
            }
            None => self.settle_without(i),
        }
    }

    fn pop(&mut self) -> Option<Node> {
        if self.heap.is_empty() {
            return None;
        }
        let top = self.heap.swap_remove(0);
        self.sift_down(0);
        Some(top)
    }

    fn sift_down(&mut self, mut i: usize) {
        let len = self.heap.len();
        loop {
            let left = 2 * i + 1;
            if left >= len {
                return;
            }
            let right = left + 1;
            let first =
                if right < len && self.before(&self.heap[right], &self.heap[left]) { right } else { left };
            if !self.before(&self.heap[first], &self.heap[i]) {
                return;
            }
            self.heap.swap(i, first);
            i = first;
        }
    }

    /// Whether `a` comes first in the direction of travel. Of equal keys, the newer run's comes
    /// first when moving forward.
    #[inline]
    fn before(&self, a: &Node, b: &Node) -> bool {
        let order = a.prefix.cmp(&b.prefix).then_with(|| self.compare_keys(a, b));
        if self.forward { order.is_lt() } else { order.is_gt() }
    }

    #[inline]
    fn compare_keys(&self, a: &Node, b: &Node) -> Ordering {
        let key = |n: &Node| self.children[n.child].iter.key();
        self.icmp.compare(key(a), key(b)).then_with(|| a.child.cmp(&b.child))
    }

    /// Reverses the direction at the current entry: all other children move to its other side.
    #[cold]
    fn turn(&mut self) {
        let Some(current) = self.current else { return };
        let forward = !self.forward;
        self.target.clear();
        self.target.extend_from_slice(self.children[current.child].iter.key());
        self.reset(forward);
        for i in 0..self.children.len() {
            if i == current.child {
                continue;
            }
            let child = &mut self.children[i].iter;
            if forward {
                child.seek(&self.target)
            } else {
                child.seek_for_prev(&self.target)
            }
            // The same internal key in two runs (files ingested behind): the newer run is first
            // when moving forward.
            let is_behind = if forward { i < current.child } else { i > current.child };
            if is_behind && child.valid() && self.icmp.compare(child.key(), &self.target).is_eq() {
                if forward { child.next() } else { child.prev() }
            }
            if !self.collect(i) {
                return;
            }
        }
        for i in (0..self.heap.len() / 2).rev() {
            self.sift_down(i);
        }
        self.current = Some(current);
    }

    /// Moves past hidden entries.
    #[inline]
    fn skip_hidden(&mut self) {
        if self.cover_span.is_some() {
            self.skip_covered();
        }
    }

    fn skip_covered(&mut self) {
        while let (Some(node), Some(cover_span)) = (self.current, &mut self.cover_span) {
            let c = node.child;
            let internal_key = self.children[c].iter.key();
            let user_key = key::user_key(internal_key);
            let sequence = SequenceNumber(key::trailer(internal_key) >> 8);
            if cover_span.knows(&self.icmp, c, user_key, self.forward) {
                if !cover_span.joint[c].hides(sequence) {
                    return;
                }
                self.target.clear();
                self.target.extend_from_slice(user_key);
            } else {
                self.target.clear();
                self.target.extend_from_slice(user_key);
                if let Err(error) =
                    cover_span.look_deeper(&self.icmp, &mut self.children, c + 1, &self.target)
                {
                    return self.fail(error);
                }
                if !cover_span.joint[c].hides(sequence) {
                    return;
                }
            }
            self.leave_hidden(c);
        }
    }

    /// Moves the current child `c` off a hidden entry: past the whole range if a tombstone of a
    /// newer run hides it.
    fn leave_hidden(&mut self, c: usize) {
        if !self.farthest_cover(c) {
            return self.leave_own(c);
        }
        perf_count!(internal_range_del_reseek_count);
        let iter = &mut self.children[c].iter;
        if self.forward {
            iter.seek(&self.target)
        } else {
            iter.seek_for_prev(&self.target)
        }
        // In an ordered run, this seek reaches the target. In a damaged run, seeks could go back
        // and forth forever.
        let order = iter.valid().then(|| self.icmp.compare(iter.key(), &self.target));
        if order.is_some_and(|order| if self.forward { order.is_lt() } else { order.is_gt() }) {
            return self
                .fail(Error::corruption("keys are out of order: a seek past a deleted range ends in it"));
        }
        match node_of(&self.icmp, &self.children, c) {
            Some(node) => self.settle(node),
            None => self.settle_without(c),
        }
    }

    /// Moves the current child `c` off an entry that a tombstone of its own run hides. Newer
    /// entries may lie under the tombstone, so it steps; after some steps it tries to skip the
    /// whole deleted run.
    fn leave_own(&mut self, c: usize) {
        self.own_hidden += 1;
        let Some(snapshot) = self.reader.filter(|_| self.own_hidden >= self.skip_after) else {
            return self.step();
        };
        self.own_hidden = 0;
        if self.leave_run(snapshot, self.forward, c) == SkipDistance::No {
            self.skip_after = (2 * self.skip_after).clamp(OWN_STEPS, MAX_OWN_STEPS);
            return self.step();
        }
        self.skip_after = 1;
        self.skipped = true;
        match node_of(&self.icmp, &self.children, c) {
            Some(node) => self.settle(node),
            None => self.settle_without(c),
        }
    }

    /// Sets `target` to the farthest end of the ranges around the span that tombstones of runs
    /// newer than `c` hide. Returns false if they hide nothing.
    fn farthest_cover(&mut self, c: usize) -> bool {
        let Some(cover_span) = &mut self.cover_span else { return false };
        let mut found = false;
        for (child, cover) in self.children[..c].iter().zip(&cover_span.own) {
            let Some(source) = child.tombstones.as_ref().filter(|_| cover.below > SequenceNumber::ZERO)
            else {
                continue;
            };
            cover_span.end.clear();
            if self.forward {
                source.covered_until(&mut cover_span.end);
            } else {
                source.covered_since(&mut cover_span.end);
            }
            let order = self.icmp.compare_user_keys(&cover_span.end, &self.target);
            if !found || (if self.forward { order.is_gt() } else { order.is_lt() }) {
                std::mem::swap(&mut cover_span.end, &mut self.target);
            }
            found = true;
        }
        if found {
            // The target before all entries of the user key: forward it is the first entry there,
            // backward the last one before.
            append_internal_key(&mut self.target, &[], SequenceNumber::MAX, ValueType::SEEK);
        }
        found
    }

    /// Positions every child at `target`, or beyond the range that newer runs hide there.
    fn seek_children(&mut self, target: &[u8], forward: bool) {
        self.reset(forward);
        self.target.clear();
        self.target.extend_from_slice(target);
        perf_add!(seek_child_seek_count, self.children.len() as u64);
        for i in 0..self.children.len() {
            let child = &mut self.children[i];
            if forward {
                child.iter.seek(&self.target)
            } else {
                child.iter.seek_for_prev(&self.target)
            }
            if !self.collect(i) {
                return;
            }
            if i + 1 < self.children.len()
                && let Err(error) = self.push_target_past(i, forward)
            {
                return self.fail(error);
            }
        }
        self.start();
    }

    /// Moves `target` past the range in which the tombstones of child `i` hide entries of older
    /// children.
    fn push_target_past(&mut self, i: usize, forward: bool) -> Result<()> {
        let Some(source) = &mut self.children[i].tombstones else { return Ok(()) };
        let cover = source.locate(key::user_key(&self.target))?;
        if cover.below > SequenceNumber::ZERO {
            self.target.clear();
            if forward {
                source.covered_until(&mut self.target);
            } else {
                source.covered_since(&mut self.target);
            }
            append_internal_key(&mut self.target, &[], SequenceNumber::MAX, ValueType::SEEK);
        }
        Ok(())
    }

    fn current_child(&self) -> &MergeChild {
        &self.children[self.current.expect("REQUIRES: valid()").child]
    }
}

impl InternalIterator for MergingIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek_to_first(&mut self) {
        self.reset(true);
        for i in 0..self.children.len() {
            self.children[i].iter.seek_to_first();
            if !self.collect(i) {
                return;
            }
        }
        self.start();
    }

    fn seek_to_last(&mut self) {
        self.reset(false);
        for i in 0..self.children.len() {
            self.children[i].iter.seek_to_last();
            if !self.collect(i) {
                return;
            }
        }
        self.start();
    }

    fn seek(&mut self, target: &[u8]) {
        self.seek_children(target, true);
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.seek_children(target, false);
    }

    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid(), "REQUIRES: valid()");
        if !self.forward {
            self.turn();
        }
        self.step();
        self.skip_hidden();
    }

    #[inline]
    fn prev(&mut self) {
        debug_assert!(self.valid(), "REQUIRES: valid()");
        if self.forward {
            self.turn();
        }
        self.step();
        self.skip_hidden();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.current_child().iter.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.current_child().iter.value()
    }

    fn status(&self) -> Result<()> {
        self.status.clone()
    }

    fn pinned_value(&self) -> PinnedBytes {
        self.current_child().iter.pinned_value()
    }
}

impl ScanIterator for MergingIterator {
    plain_cursor!(self; next_key, prev_key, progress, continue_from, deleted_run_end, was_seen);

    #[inline]
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]> {
        if self.cover_span.is_some() {
            // A step past hidden entries may move the same child again.
            left.keep(self);
            return self.prev_key();
        }
        if self.forward {
            self.turn();
        }
        let i = self.current?.child;
        self.left = i;
        match self.children[i].iter.prev_key_leaving(left) {
            Some(_) if self.heap.is_empty() => {}
            Some(key) => {
                let node = Node { prefix: prefix_of(self.icmp.order(), key::user_key(key)), child: i };
                self.settle(node);
            }
            None => self.settle_without(i),
        }
        self.valid().then(|| self.key())
    }

    #[inline]
    fn left_value(&self) -> &[u8] {
        self.children[self.left].iter.left_value()
    }

    fn pinned_left_value(&self) -> PinnedBytes {
        self.children[self.left].iter.pinned_left_value()
    }

    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        self.children.iter_mut().for_each(|child| child.iter.set_upper_bound(user_key));
    }

    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        self.children.iter_mut().for_each(|child| child.iter.set_wanted_prefix_of(user_key));
    }

    fn release(&mut self) {
        self.reset(true);
        self.children.iter_mut().for_each(|child| child.iter.release());
    }

    fn look_ahead(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        self.look_ahead_of_others(run, ahead);
    }

    fn advance(&mut self, run: &DecodedRun) {
        if let Some(node) = self.current {
            self.children[node.child].iter.advance(run);
        }
    }

    fn pass(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        self.pass_before_others(run, ahead);
    }

    fn skip_deleted_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance {
        self.skip_run(snapshot, forward, known)
    }
}

/// Child `i` as a heap node, if it is valid.
#[inline]
fn node_of(icmp: &InternalKeyComparator, children: &[MergeChild], i: usize) -> Option<Node> {
    let iter = &children[i].iter;
    iter.valid().then(|| Node { prefix: prefix_of(icmp.order(), key::user_key(iter.key())), child: i })
}

/// A number that sorts as `order` does if two numbers differ; equal for all keys if the order is
/// unknown.
#[inline]
fn prefix_of(order: KeyOrder, user_key: &[u8]) -> u128 {
    let first = match user_key.first_chunk::<16>() {
        Some(chunk) => u128::from_be_bytes(*chunk),
        None => {
            let mut padded = [0; 16];
            padded[..user_key.len()].copy_from_slice(user_key);
            u128::from_be_bytes(padded)
        }
    };
    match order {
        KeyOrder::Bytewise => first,
        KeyOrder::ReverseBytewise => !first,
        KeyOrder::Custom => 0,
    }
}

/// The span around the current key, and the covers within it.
struct CoverSpan {
    /// Number of children whose tombstones have been located; see invariant 3.
    depth: usize,
    low: BoundBuf,
    high: BoundBuf,
    /// The cover of each child's own tombstones within the span.
    own: Vec<Cover>,
    /// The cover over each child's entries: by its own tombstones and those of all newer children.
    joint: Vec<Cover>,
    /// Scratch: the end of a covered range.
    end: Vec<u8>,
}

impl CoverSpan {
    fn new(children: usize) -> CoverSpan {
        CoverSpan {
            depth: 0,
            low: BoundBuf::default(),
            high: BoundBuf::default(),
            own: vec![Cover::NONE; children],
            joint: vec![Cover::NONE; children],
            end: Vec::new(),
        }
    }

    /// Whether `joint[c]` holds at `user_key`. Drops the span if it does not reach `user_key`.
    #[inline]
    fn knows(&mut self, icmp: &InternalKeyComparator, c: usize, user_key: &[u8], forward: bool) -> bool {
        // A span is entered from one side and left at the other.
        let inside = self.depth > 0
            && if forward { self.high.is_above(icmp, user_key) } else { self.low.is_below(icmp, user_key) };
        if !inside {
            self.depth = 0;
            self.low.kind = BoundKind::Unbounded;
            self.high.kind = BoundKind::Unbounded;
        }
        c < self.depth
    }

    /// Takes the tombstones of children up to `depth` into account, at `user_key`, which is in the
    /// span.
    #[cold]
    fn look_deeper(
        &mut self,
        icmp: &InternalKeyComparator,
        children: &mut [MergeChild],
        depth: usize,
        user_key: &[u8],
    ) -> Result<()> {
        for (i, child) in children.iter_mut().enumerate().take(depth).skip(self.depth) {
            let newer = if i == 0 { Cover::NONE } else { self.joint[i - 1] };
            self.own[i] = Cover::NONE;
            if let Some(source) = &mut child.tombstones {
                self.own[i] = source.locate(user_key)?;
                let (low, high) = source.window();
                self.low.raise(icmp, low);
                self.high.lower(icmp, high);
            }
            self.joint[i] = newer.or(self.own[i]);
        }
        self.depth = depth;
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum BoundKind {
    #[default]
    Unbounded,
    Included,
    Excluded,
}

/// A bound that owns its key and reuses its memory.
#[derive(Default)]
struct BoundBuf {
    kind: BoundKind,
    key: Vec<u8>,
}

impl BoundBuf {
    #[inline]
    fn is_above(&self, icmp: &InternalKeyComparator, user_key: &[u8]) -> bool {
        match self.kind {
            BoundKind::Unbounded => true,
            BoundKind::Excluded => icmp.compare_user_keys(user_key, &self.key).is_lt(),
            BoundKind::Included => icmp.compare_user_keys(user_key, &self.key).is_le(),
        }
    }

    #[inline]
    fn is_below(&self, icmp: &InternalKeyComparator, user_key: &[u8]) -> bool {
        match self.kind {
            BoundKind::Unbounded => true,
            BoundKind::Excluded => icmp.compare_user_keys(user_key, &self.key).is_gt(),
            BoundKind::Included => icmp.compare_user_keys(user_key, &self.key).is_ge(),
        }
    }

    /// Replaces the own bound by `bound` if that is lower. Both are upper bounds.
    fn lower(&mut self, icmp: &InternalKeyComparator, bound: Bound<&[u8]>) {
        let (kind, key) = split(bound);
        if kind == BoundKind::Unbounded {
            return;
        }
        let tighter = self.kind == BoundKind::Unbounded
            || match icmp.compare_user_keys(key, &self.key) {
                Ordering::Less => true,
                Ordering::Equal => kind == BoundKind::Excluded,
                Ordering::Greater => false,
            };
        if tighter {
            self.set(kind, key);
        }
    }

    /// Replaces the own bound by `bound` if that is higher. Both are lower bounds.
    fn raise(&mut self, icmp: &InternalKeyComparator, bound: Bound<&[u8]>) {
        let (kind, key) = split(bound);
        if kind == BoundKind::Unbounded {
            return;
        }
        let tighter = self.kind == BoundKind::Unbounded
            || match icmp.compare_user_keys(key, &self.key) {
                Ordering::Greater => true,
                Ordering::Equal => kind == BoundKind::Excluded,
                Ordering::Less => false,
            };
        if tighter {
            self.set(kind, key);
        }
    }

    fn set(&mut self, kind: BoundKind, key: &[u8]) {
        self.kind = kind;
        self.key.clear();
        self.key.extend_from_slice(key);
    }
}

fn split(bound: Bound<&[u8]>) -> (BoundKind, &[u8]) {
    match bound {
        Bound::Unbounded => (BoundKind::Unbounded, &[]),
        Bound::Included(key) => (BoundKind::Included, key),
        Bound::Excluded(key) => (BoundKind::Excluded, key),
    }
}

#[cfg(test)]
mod tests;
