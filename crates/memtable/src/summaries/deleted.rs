//! Per-node summaries of deleted runs. A cursor skips a run of deleted keys instead of stepping
//! through it.
//!
//! In: the effect of inserts on leaves. Out: for a record and a snapshot, the user key at which the
//! deleted run around it ends (`deleted/run_end.rs`).
//!
//! A node states for which snapshots it is dead: `since <= snapshot < until`. Dead means that a
//! reader at that snapshot is shown no record below the node. Each record is too new, a deletion,
//! hidden by a newer one of its user key, or under a range tombstone of this memtable. Writers find
//! the first three cases. A reader finds the last: if it steps over a record under a range
//! tombstone, it checks the leaf (`mark_dead_if_covered`), so that the next reader skips it.
//!
//! Deletions never end a dead state. Other writes end it for the readers that see them, which exist
//! only once the write is published. So before its sequence number is published, a writer lowers
//! `until` of its leaf, and then of the nodes above. Nothing else has to change.
//!
//! A leaf whose live keys are deleted one by one is checked after as many deletions as it had live
//! keys. A node above is checked after as many of its nodes have died. So each deletion costs the
//! check of about one record. A write into a leaf that is not dead costs one comparison.
//!
//! A node above also keeps a statement for each child: about the range from the child's start to
//! the start of the next child that the node knows. So a reader that moves along a level fetches
//! few of the nodes it passes.
//!
//! Invariants
//!  1. A node's statement is true of all records in its range, from its own first to its right
//!     neighbour's first, at all published snapshots. It stays true. The range only shrinks, and a
//!     node that is split off states no more. So a reader first reads the statement and then
//!     `next`: the statement holds up to that node.
//!  2. A node above states no more than the nodes below it. Its words are computed and lowered
//!     under its latch, from the words of the nodes below.
//!     - A writer that lowers `until` of a node visits the nodes above it afterwards, before it is
//!       published.
//!     - It takes the path to its own record. If a node below was split meanwhile, both halves may
//!       have lowered words, but only one lies on that path. So a node above that is split reads
//!       the words of the nodes below it.
//!     - If a new root is made meanwhile, the writer sees it, or the root's maker sees the lowered
//!       words: both have a fence between their store and their load.
//!  3. `head_since`: from that snapshot on, newer records in the left neighbour hide the records of
//!     the leaf's first user key. The first record of a leaf never changes, except in the leftmost
//!     leaf, which has no left neighbour.
//!  4. `since` is stored before `until`, and read after it.

mod run_end;

use crate::node::{LatchedNode, Node, own};
use crate::record::{Record, Target};
use crate::tree::Tree;
use esker_base::ValueType;
use esker_base::sync::atomic::{AtomicU64, Ordering, fence};
use esker_format::key::InternalKeyComparator;

/// As an `until`: no end. As a `since` or `head_since`: no statement.
const NEVER: u64 = u64::MAX;

/// A reader at a snapshot from `since` on and below `until` finds nothing.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotRange {
    pub(crate) since: u64,
    pub(crate) until: u64,
}

impl SnapshotRange {
    /// No snapshot, so no statement.
    pub(crate) const NONE: SnapshotRange = SnapshotRange { since: 0, until: 0 };
    /// Every snapshot: no reader finds anything.
    const ALL: SnapshotRange = SnapshotRange { since: 0, until: NEVER };

    /// The intersection of both.
    fn and(self, other: SnapshotRange) -> SnapshotRange {
        SnapshotRange { since: self.since.max(other.since), until: self.until.min(other.until) }
    }
}

/// A range of snapshots that other threads read at any time.
pub(crate) struct Words {
    since: AtomicU64,
    until: AtomicU64,
}

impl Words {
    pub(crate) fn new(span: SnapshotRange) -> Words {
        Words { since: AtomicU64::new(span.since), until: AtomicU64::new(span.until) }
    }

    /// Whether a reader at this snapshot finds nothing.
    #[inline]
    pub(crate) fn at(&self, snapshot: u64) -> bool {
        snapshot < self.until.load(Ordering::Acquire) && self.since.load(Ordering::Acquire) <= snapshot
    }

    fn load(&self) -> SnapshotRange {
        let until = self.until.load(Ordering::Acquire);
        SnapshotRange { since: self.since.load(Ordering::Acquire), until }
    }

    /// REQUIRES: the latch.
    pub(crate) fn own(&self) -> SnapshotRange {
        SnapshotRange { since: own!(self.since), until: own!(self.until) }
    }

    /// States nothing until the next `set`. Call it before the thing that the words describe is
    /// replaced. REQUIRES: the latch.
    pub(crate) fn clear(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// REQUIRES: the latch.
    pub(crate) fn set(&self, span: SnapshotRange) {
        self.since.store(span.since, Ordering::Release);
        self.until.store(span.until, Ordering::Release);
    }

    /// Whether no write has ended the dead state.
    #[inline]
    fn is_open(&self) -> bool {
        self.until.load(Ordering::Relaxed) == NEVER
    }

    /// Lowers `until` to a write's sequence number. Whether this write ended the dead state, here
    /// or in the node that this one was split from (`split_above`): then it must lower the nodes
    /// above. REQUIRES: the latch.
    #[inline]
    fn end(&self, sequence: u64) -> bool {
        let ends = sequence <= own!(self.until);
        if ends {
            self.until.store(sequence, Ordering::Release);
        }
        ends
    }
}

/// A node's summary of deleted runs.
pub(crate) struct DeletedSummary {
    pub(crate) words: Words,
    pub(crate) head_since: AtomicU64,
}

impl DeletedSummary {
    /// The summary of an empty leaf.
    pub(crate) fn empty() -> DeletedSummary {
        DeletedSummary::new(SnapshotRange::ALL, NEVER)
    }

    /// A summary that states nothing.
    pub(crate) fn unknown() -> DeletedSummary {
        DeletedSummary::new(SnapshotRange::NONE, NEVER)
    }

    fn new(span: SnapshotRange, head_since: u64) -> DeletedSummary {
        DeletedSummary { words: Words::new(span), head_since: AtomicU64::new(head_since) }
    }

    /// The summary of a node that is split off. `hidden_by`: the last record that stays, if it has
    /// the user key of the first record that goes. REQUIRES: the latch.
    pub(crate) fn split(&self, hidden_by: Option<Record<'_>>) -> DeletedSummary {
        DeletedSummary::new(self.words.own(), hidden_by.map_or(NEVER, sequence))
    }
}

/// Counts the deletions below a node until the node should be checked.
#[derive(Debug, Default)]
pub(crate) struct DeletionCountdown {
    left: u8,
}

impl DeletionCountdown {
    /// Counts one more. True if the node should be checked.
    fn count_down(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Starts again at `live`, the number of records or children that still show a key.
    pub(crate) fn restart(&mut self, live: usize) {
        self.left = live.min(usize::from(u8::MAX)) as u8;
    }
}

/// The work that an insert leaves for the nodes above its leaf, or beside it.
pub(crate) enum After<'t, const N: usize> {
    Nothing,
    /// The leaf was dead for some readers that will see the record.
    Alive,
    /// The leaf is dead now.
    Dead,
    /// This right neighbour may be dead now: the deletion hides its first user key.
    Beside(&'t Node<N>),
}

fn sequence(record: Record<'_>) -> u64 {
    record.parts().1 >> 8
}

#[inline]
fn is_deletion(trailer: u64) -> bool {
    ValueType::from_u8(trailer as u8).is_some_and(ValueType::is_point_deletion)
}

/// Updates the summary of leaf `node` after a record with this trailer was put into it; `last`: in
/// its last slot. REQUIRES: its latch, or that no reader can reach it yet.
#[inline]
pub(crate) fn after_insert<'t, const N: usize>(
    node: &'t Node<N>,
    icmp: &InternalKeyComparator,
    (record, trailer): (Record<'t>, u64),
    last: bool,
    countdown: Option<&mut DeletionCountdown>,
) -> After<'t, N> {
    if !is_deletion(trailer) {
        return if node.dead().end(trailer >> 8) { After::Alive } else { After::Nothing };
    }
    if node.dead().is_open() && !last {
        return After::Nothing;
    }
    after_deletion(node, icmp, record, last, countdown)
}

fn after_deletion<'t, const N: usize>(
    node: &'t Node<N>,
    icmp: &InternalKeyComparator,
    record: Record<'t>,
    last: bool,
    countdown: Option<&mut DeletionCountdown>,
) -> After<'t, N> {
    if last && let Some(next) = node.next() {
        let first = next.first_record();
        if icmp.same_user_key(first.user_key(), record.user_key()) {
            next.head_since().fetch_min(sequence(record), Ordering::AcqRel);
            // If this leaf is dead now too, its next deletion finds that out.
            return After::Beside(next);
        }
    }
    let Some(countdown) = countdown.filter(|_| !node.dead().is_open()) else { return After::Nothing };
    if countdown.count_down() && check_leaf(node, icmp, countdown) { After::Dead } else { After::Nothing }
}

/// Checks whether a leaf is dead. REQUIRES: its latch.
#[cold]
fn check_leaf<const N: usize>(
    node: &Node<N>,
    icmp: &InternalKeyComparator,
    countdown: &mut DeletionCountdown,
) -> bool {
    let (mut since, mut live) = (0, 0);
    let mut key: Option<&[u8]> = None;
    for record in node.own_records() {
        let (user_key, trailer) = record.parts();
        let is_first = key.is_none();
        if key.is_some_and(|key| icmp.same_user_key(key, user_key)) {
            continue;
        }
        key = Some(user_key);
        if is_deletion(trailer) {
            since = since.max(trailer >> 8);
            continue;
        }
        let hidden = if is_first { node.head_since().load(Ordering::Acquire) } else { NEVER };
        live += usize::from(hidden == NEVER);
        since = since.max(hidden);
    }
    countdown.restart(live);
    if live == 0 {
        node.dead().set(SnapshotRange { since, until: NEVER });
    }
    live == 0
}

/// The snapshot from which on a reader finds nothing in a leaf: each newest version is a deletion,
/// or hidden by a range tombstone. `covering` gives the newest tombstone over a user key that the
/// reader sees. `None`: the reader finds something. REQUIRES: its latch.
#[cold]
fn covered_since<const N: usize>(
    node: &Node<N>,
    icmp: &InternalKeyComparator,
    covering: impl Fn(&[u8]) -> u64,
) -> Option<u64> {
    let (mut since, mut key): (u64, Option<&[u8]>) = (0, None);
    let hidden_from = |record: Record<'_>| {
        let covered_by = covering(record.user_key());
        (covered_by > sequence(record)).then_some(covered_by)
    };
    for record in node.own_records() {
        let (user_key, trailer) = record.parts();
        let is_first = key.is_none();
        if key.is_some_and(|key| icmp.same_user_key(key, user_key)) {
            continue;
        }
        key = Some(user_key);
        let hidden = match is_deletion(trailer) {
            true => Some(trailer >> 8),
            false => hidden_from(record).or_else(|| {
                let head_since = node.head_since().load(Ordering::Acquire);
                (is_first && head_since != NEVER).then_some(head_since)
            }),
        };
        since = since.max(hidden?);
    }
    Some(since)
}

/// Checks one half of a split node: later inserts may go to its twin only, and then nothing would
/// check this half. Marks the node as dead if it is dead and not marked. REQUIRES: its latch, or
/// that no reader can reach it yet.
pub(crate) fn check_split_half<const N: usize>(node: &Node<N>, icmp: &InternalKeyComparator) {
    if node.dead().is_open() || node.count() == 0 {
        return;
    }
    if node.level() > 0 {
        if node.dead_child(0).is_open() {
            check_inner_node(node, &mut DeletionCountdown::default());
        }
        return;
    }
    // If any record shows a key, mostly the last record does, because it came last.
    let may_be_dead = is_deletion(node.own_last_record().parts().1);
    if let Some(since) = may_be_dead.then(|| covered_since(node, icmp, |_| 0)).flatten() {
        node.dead().set(SnapshotRange { since, until: NEVER });
    }
}

/// Calls `each` with the nodes from `child` up to `end`, exclusive.
fn for_each_beside<'t, const N: usize>(
    child: &'t Node<N>,
    end: Option<&'t Node<N>>,
    mut each: impl FnMut(&'t Node<N>),
) {
    let mut beside = Some(child);
    while let Some(node) = beside
        && !end.is_some_and(|end| std::ptr::eq(end, node))
    {
        each(node);
        beside = node.next();
    }
}

/// Calls `each` with the nodes below this one, up to the start of its right neighbour, including
/// those that it does not know yet. REQUIRES: its latch.
fn for_each_below<'t, const N: usize>(node: &'t Node<N>, each: impl FnMut(&'t Node<N>)) {
    for_each_beside(node.child(0), node.next().map(|next| next.child(0)), each);
}

/// Updates the words for child `at` from that child and from the nodes split off it that this node
/// does not know yet. Returns what they all state; stores it unless a write has ended it. REQUIRES:
/// the latch.
fn update_child_words<const N: usize>(node: &Node<N>, at: usize) -> SnapshotRange {
    // Invariant 2: a writer that ends a dead state below stores that, and then loads the root.
    fence(Ordering::SeqCst);
    let mut span = SnapshotRange::ALL;
    for_each_beside(node.child(at), node.child_after(at), |child| span = span.and(child.dead().load()));
    if span.until == NEVER {
        node.dead_child(at).set(span);
    }
    span
}

/// Checks whether a node above is dead: all nodes below it are, up to the start of its right
/// neighbour. REQUIRES: its latch.
#[cold]
fn check_inner_node<const N: usize>(node: &Node<N>, countdown: &mut DeletionCountdown) -> bool {
    let (mut all, mut live) = (SnapshotRange::ALL, 0);
    for at in 0..node.count() {
        let span = update_child_words(node, at);
        live += usize::from(span.until != NEVER);
        all = all.and(span);
    }
    countdown.restart(live);
    if live == 0 {
        node.dead().set(all);
    }
    live == 0
}

/// The words for `child`, which `node` puts into slot `at` now. Until now the words of the slot
/// before it covered `child`, too. Both are lowered to the state of the nodes that they cover: a
/// writer that ended a dead state before the split visits only one of them. REQUIRES: the latch of
/// `node`.
pub(crate) fn split_child<'t, const N: usize>(
    node: &'t Node<N>,
    at: usize,
    child: &'t Node<N>,
) -> SnapshotRange {
    let words = node.dead_child(at - 1);
    let stored = words.own();
    if stored.until == 0 {
        return stored;
    }
    let end = node.child_after(at - 1);
    let until = |from: &'t Node<N>, end: Option<&'t Node<N>>| {
        let mut until = stored.until;
        for_each_beside(from, end, |child| until = child.dead().until.load(Ordering::Acquire).min(until));
        until
    };
    words.set(SnapshotRange { until: until(node.child(at - 1), Some(child)), ..stored });
    SnapshotRange { until: until(child, end), ..stored }
}

/// The summary of the inner node that is split off `node` and begins with `first`. Both halves are
/// lowered to the state of the nodes below them: a writer that ended a dead state before the split
/// visits only one half. REQUIRES: the latch of `node`.
pub(crate) fn split_above<'t, const N: usize>(node: &'t Node<N>, first: &'t Node<N>) -> DeletedSummary {
    let span = node.dead().own();
    let (mut stays, mut goes) = (span, span);
    let mut is_right = false;
    if span.until > 0 {
        for_each_below(node, |child| {
            is_right |= std::ptr::eq(child, first);
            let half = if is_right { &mut goes } else { &mut stays };
            half.until = child.dead().until.load(Ordering::Acquire).min(half.until);
        });
    }
    node.dead().until.store(stays.until, Ordering::Release);
    DeletedSummary::new(goes, NEVER)
}

impl<const N: usize> Tree<N> {
    /// Does the work that an insert at `target` left.
    #[inline]
    pub(crate) fn settle<'t>(&'t self, after: After<'t, N>, target: &Target<'_>) {
        match after {
            After::Nothing => {}
            After::Alive => self.end_dead_above(target),
            After::Dead => self.report_dead_leaf(target),
            After::Beside(leaf) => self.check_neighbour(leaf),
        }
    }

    /// Updates the nodes above for each dead half of a split node: one of those nodes may be dead
    /// now.
    #[inline]
    pub(crate) fn settle_split(&self, halves: [&Node<N>; 2]) {
        for half in halves.into_iter().filter(|half| half.dead().is_open()) {
            self.report_dead_leaf(&Target::of(half.first_record()));
        }
    }

    /// Ends the dead state of nodes above `target`'s leaf for the readers that see `target`.
    #[cold]
    fn end_dead_above(&self, target: &Target<'_>) {
        for level in 1.. {
            fence(Ordering::SeqCst);
            if self.root().level() < level {
                return;
            }
            let mut latched = self.find(level, target, true).latch_for(self.icmp(), target);
            let node = latched.node;
            node.dead_child(node.own_place_below(self.icmp(), target)).end(target.trailer >> 8);
            if !node.dead().end(target.trailer >> 8) {
                // An earlier write has ended the state. Its writer visits the nodes above, and is
                // published first.
                return;
            }
            latched.countdown().restart(1);
        }
    }

    /// Marks a reader's leaf dead if range tombstones and deletions hide all of it from a reader at
    /// `snapshot`. `covering`: the newest tombstone over a user key that the reader sees, or 0.
    /// Never waits: if another thread has the latch, it does nothing. Costs up to a search for each
    /// record of the leaf.
    pub(crate) fn mark_dead_if_covered(
        &self,
        leaf: &Node<N>,
        snapshot: u64,
        covering: impl Fn(&[u8]) -> u64,
    ) {
        if leaf.is_untouched() || leaf.count() == 0 || leaf.dead().at(snapshot) {
            return;
        }
        let target = Target::of(leaf.first_record());
        let Some(latched) = leaf.try_latch_for(self.icmp(), &target) else { return };
        // Often one end of the leaf is not under the tombstone. This finds it before the whole leaf
        // is checked.
        let last = latched.node.own_last_record();
        if !is_deletion(last.parts().1) && covering(last.user_key()) <= sequence(last) {
            return;
        }
        let Some(since) = covered_since(latched.node, self.icmp(), covering) else { return };
        if since <= snapshot {
            latched.node.dead().set(SnapshotRange { since, until: NEVER });
            drop(latched);
            self.report_dead_leaf_with(&target, |node, target| node.try_latch_for(self.icmp(), target));
        }
    }

    /// Updates the nodes above the leaf of `target`, which is dead.
    #[cold]
    fn report_dead_leaf(&self, target: &Target<'_>) {
        self.report_dead_leaf_with(target, |node, target| Some(node.latch_for(self.icmp(), target)));
    }

    /// `report_dead_leaf`, as far up as `latch` gets the latches.
    fn report_dead_leaf_with<'t>(
        &'t self,
        target: &Target<'_>,
        latch: impl Fn(&'t Node<N>, &Target<'_>) -> Option<LatchedNode<'t, N>>,
    ) {
        for level in 1.. {
            if self.root().level() < level {
                return;
            }
            let Some(mut latched) = latch(self.find(level, target, true), target) else { return };
            let node = latched.node;
            update_child_words(node, node.own_place_below(self.icmp(), target));
            if node.dead().is_open() {
                continue;
            }
            if !latched.countdown().count_down() || !check_inner_node(node, latched.countdown()) {
                return;
            }
        }
    }

    #[cold]
    fn check_neighbour(&self, leaf: &Node<N>) {
        let target = Target::of(leaf.first_record());
        let mut latched = leaf.latch_for(self.icmp(), &target);
        let node = latched.node;
        if !node.dead().is_open() && check_leaf(node, self.icmp(), latched.countdown()) {
            drop(latched);
            self.report_dead_leaf(&target);
        }
    }
}

#[cfg(test)]
mod tests;
