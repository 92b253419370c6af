//! Per-node summaries of deleted runs. A cursor skips a run of deleted keys instead of stepping
//! through it.
//!
//! In: the effect of inserts on leaves. Out: for a record and a snapshot, the user key at which the
//! deleted run around it ends (`deleted/run_end.rs`).
//!
//! A node states for which snapshots it is dead: `since <= snapshot < until`. Dead means that such
//! a reader is shown no record below it: each is too new, a deletion, hidden by a newer one of its
//! user key, or under a range tombstone of this memtable. Readers find out the last case: a reader
//! that steps over records under range tombstones checks their leaf (`bury_covered`), so that the
//! next reader skips it. Deletions never end a dead state. Other writes end it for the readers that
//! see them, and only once they see them. So a writer lowers `until` of its leaf, and then of the
//! nodes above, before its sequence number is published, and nothing else need be informed.
//!
//! A leaf whose live keys are deleted one by one is checked after as many deletions as it had live
//! keys. A node above is checked after as many of its nodes have died. So a deletion pays for
//! checking about one record. A writer into a leaf that is not dead pays for one comparison.
//!
//! A node above states, beside its own, the same of each child: of the child's range as far as this
//! node knows, up to the start of the next child. So a reader that moves along a level mostly need
//! not fetch the nodes it passes.
//!
//! Invariants
//!  1. A node's statement is true of all records in its range, from its own first to its right
//!     neighbour's first, at all published snapshots. It stays true. Its range only shrinks, and a
//!     node that is split off states no more. So a reader that reads the statement before `next`
//!     may believe it of the range up to there.
//!  2. A node above states no more than the nodes below it: its words are made and lowered under
//!     its latch, from theirs. A writer that lowers those below visits the nodes above afterwards,
//!     before it is published. It visits the node of its own record. A node below that was split
//!     meanwhile may have lowered words on both sides, so a node above that is split asks the nodes
//!     below it. A new root is seen by one of the two: both have a fence between their store and
//!     their load.
//!  3. `head_since`: from that snapshot on the records of a leaf's first user key are hidden by
//!     newer ones, which lie in the leaf on its left. The first record of a leaf never changes,
//!     except in the leftmost, which has nothing on its left.
//!  4. `since` is stored before `until`, and read after it.

mod run_end;

use crate::node::{LatchedNode, Node, own};
use crate::record::{Record, Target};
use crate::tree::Tree;
use esker_base::ValueType;
use esker_base::sync::atomic::{AtomicU64, Ordering, fence};
use esker_format::key::InternalKeyComparator;

/// No end; or nothing known.
const NEVER: u64 = u64::MAX;

/// A reader at a snapshot from `since` on and below `until` finds nothing.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotRange {
    pub(crate) since: u64,
    pub(crate) until: u64,
}

impl SnapshotRange {
    /// Nothing is known.
    pub(crate) const NONE: SnapshotRange = SnapshotRange { since: 0, until: 0 };
    /// No reader finds anything.
    const ALL: SnapshotRange = SnapshotRange { since: 0, until: NEVER };

    /// The intersection of both.
    fn and(self, other: SnapshotRange) -> SnapshotRange {
        SnapshotRange { since: self.since.max(other.since), until: self.until.min(other.until) }
    }
}

/// A span that other threads read at any time.
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

    /// Of something that a reader asks for after this, for which it says nothing until `set`.
    /// REQUIRES: the latch.
    pub(crate) fn clear(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// REQUIRES: the latch.
    pub(crate) fn set(&self, span: SnapshotRange) {
        self.since.store(span.since, Ordering::Release);
        self.until.store(span.until, Ordering::Release);
    }

    /// Whether nothing has ended it.
    #[inline]
    fn is_open(&self) -> bool {
        self.until.load(Ordering::Relaxed) == NEVER
    }

    /// Whether this write ends a dead state, or has ended it here by a split (`split_above`): then
    /// only this writer informs the nodes above. REQUIRES: the latch.
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
    /// Of an empty leaf.
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

    /// Of a node that is split off; `hidden_by`: the last record that stays, if it is of the same
    /// user key as the first that goes. REQUIRES: the latch.
    pub(crate) fn split(&self, hidden_by: Option<Record<'_>>) -> DeletedSummary {
        DeletedSummary::new(self.words.own(), hidden_by.map_or(NEVER, sequence))
    }
}

/// Counts deaths below a node, up to the number at which the node is looked through.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    awaited: u8,
}

impl Deaths {
    /// Counts one more. True if there have been enough.
    fn count(&mut self) -> bool {
        self.awaited = self.awaited.saturating_sub(1);
        self.awaited == 0
    }

    pub(crate) fn await_more(&mut self, live: usize) {
        self.awaited = live.min(usize::from(u8::MAX)) as u8;
    }
}

/// The consequence of an insert for the nodes above, or beside, its leaf.
pub(crate) enum After<'t, const N: usize> {
    Nothing,
    /// Its leaf was dead for some readers that will see it.
    Alive,
    /// Its leaf is dead now.
    Dead,
    /// Its record may be all that kept this leaf, on the right, from being dead.
    Beside(&'t Node<N>),
}

fn sequence(record: Record<'_>) -> u64 {
    record.parts().1 >> 8
}

#[inline]
fn is_deletion(trailer: u64) -> bool {
    ValueType::from_u8(trailer as u8).is_some_and(ValueType::is_point_deletion)
}

/// Updates leaf `node` after a record with this trailer was put into it; `last`: as its last one.
/// REQUIRES: its latch, or that no reader can reach it yet.
#[inline]
pub(crate) fn after_insert<'t, const N: usize>(
    node: &'t Node<N>,
    icmp: &InternalKeyComparator,
    (record, trailer): (Record<'t>, u64),
    last: bool,
    deaths: Option<&mut Deaths>,
) -> After<'t, N> {
    if !is_deletion(trailer) {
        return if node.dead().end(trailer >> 8) { After::Alive } else { After::Nothing };
    }
    if node.dead().is_open() && !last {
        return After::Nothing;
    }
    after_deletion(node, icmp, record, last, deaths)
}

fn after_deletion<'t, const N: usize>(
    node: &'t Node<N>,
    icmp: &InternalKeyComparator,
    record: Record<'t>,
    last: bool,
    deaths: Option<&mut Deaths>,
) -> After<'t, N> {
    if last && let Some(next) = node.next() {
        let first = next.first_record();
        if icmp.same_user_key(first.user_key(), record.user_key()) {
            next.head_since().fetch_min(sequence(record), Ordering::AcqRel);
            // If this leaf dies by it too, its next deletion will tell.
            return After::Beside(next);
        }
    }
    let Some(deaths) = deaths.filter(|_| !node.dead().is_open()) else { return After::Nothing };
    if deaths.count() && look_through(node, icmp, deaths) { After::Dead } else { After::Nothing }
}

/// Looks whether a leaf is dead. REQUIRES: its latch.
#[cold]
fn look_through<const N: usize>(node: &Node<N>, icmp: &InternalKeyComparator, deaths: &mut Deaths) -> bool {
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
    deaths.await_more(live);
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
/// check this half. States that it is dead if it is and has not stated it. REQUIRES: its latch, or
/// that no reader can reach it yet.
pub(crate) fn look_after_split<const N: usize>(node: &Node<N>, icmp: &InternalKeyComparator) {
    if node.dead().is_open() || node.count() == 0 {
        return;
    }
    if node.level() > 0 {
        if node.dead_child(0).is_open() {
            look_below(node, &mut Deaths::default());
        }
        return;
    }
    // If any record shows a key, mostly the last record does, because it came last.
    let may_be_dead = is_deletion(node.own_last_record().parts().1);
    if let Some(since) = may_be_dead.then(|| covered_since(node, icmp, |_| 0)).flatten() {
        node.dead().set(SnapshotRange { since, until: NEVER });
    }
}

/// Shows `each` the nodes from `child` on, up to `end`, exclusive.
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

/// Shows `each` the nodes below this one, up to where its right neighbour begins, those too that it
/// does not know yet. REQUIRES: its latch.
fn for_each_below<'t, const N: usize>(node: &'t Node<N>, each: impl FnMut(&'t Node<N>)) {
    for_each_beside(node.child(0), node.next().map(|next| next.child(0)), each);
}

/// Updates the words for child `at` of a node above from the child and those beside it that are not
/// known here yet; returns them, unless they have been ended. REQUIRES: the latch.
fn heed<const N: usize>(node: &Node<N>, at: usize) -> SnapshotRange {
    // Invariant 2: a writer that ends a node's state below stores that, and then loads the root.
    fence(Ordering::SeqCst);
    let mut span = SnapshotRange::ALL;
    for_each_beside(node.child(at), node.child_after(at), |child| span = span.and(child.dead().load()));
    if span.until == NEVER {
        node.dead_child(at).set(span);
    }
    span
}

/// Looks whether a node above is dead: whether all below it, up to where its right neighbour
/// begins, are. REQUIRES: its latch.
#[cold]
fn look_below<const N: usize>(node: &Node<N>, deaths: &mut Deaths) -> bool {
    let (mut all, mut live) = (SnapshotRange::ALL, 0);
    for at in 0..node.count() {
        let span = heed(node, at);
        live += usize::from(span.until != NEVER);
        all = all.and(span);
    }
    deaths.await_more(live);
    if live == 0 {
        node.dead().set(all);
    }
    live == 0
}

/// The words for `child`, which `node` learns of now, for slot `at`. The words of its left
/// neighbour held for it too. From here on neither states more than the nodes themselves: a writer
/// that has ended a node's state before its split comes by one half only. REQUIRES: the latch of
/// `node`.
pub(crate) fn split_child<'t, const N: usize>(
    node: &'t Node<N>,
    at: usize,
    child: &'t Node<N>,
) -> SnapshotRange {
    let words = node.dead_child(at - 1);
    let said = words.own();
    if said.until == 0 {
        return said;
    }
    let end = node.child_after(at - 1);
    let until = |from: &'t Node<N>, end: Option<&'t Node<N>>| {
        let mut until = said.until;
        for_each_beside(from, end, |child| until = child.dead().until.load(Ordering::Acquire).min(until));
        until
    };
    words.set(SnapshotRange { until: until(node.child(at - 1), Some(child)), ..said });
    SnapshotRange { until: until(child, end), ..said }
}

/// The summary of the node above that is split off `node` and begins with `first`. From here on
/// both state no more than the nodes below them: a writer that has ended a node's state before its
/// split comes by one half only. REQUIRES: the latch of `node`.
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
    /// Does the remaining work after an insert at `target`.
    #[inline]
    pub(crate) fn settle<'t>(&'t self, after: After<'t, N>, target: &Target<'_>) {
        match after {
            After::Nothing => {}
            After::Alive => self.revive(target),
            After::Dead => self.bury(target),
            After::Beside(leaf) => self.look_beside(leaf),
        }
    }

    /// A node has been split: those above may have only waited for a half that is dead.
    #[inline]
    pub(crate) fn settle_split(&self, halves: [&Node<N>; 2]) {
        for half in halves.into_iter().filter(|half| half.dead().is_open()) {
            self.bury(&Target::of(half.first_record()));
        }
    }

    /// Ends the dead state of nodes above `target`'s leaf for readers that see it.
    #[cold]
    fn revive(&self, target: &Target<'_>) {
        for level in 1.. {
            fence(Ordering::SeqCst);
            if self.root().level() < level {
                return;
            }
            let mut latched = self.find(level, target, true).latch_for(self.icmp(), target);
            let node = latched.node;
            node.dead_child(node.own_place_below(self.icmp(), target)).end(target.trailer >> 8);
            if !node.dead().end(target.trailer >> 8) {
                // An earlier writer that ended it goes on upwards, and is published first.
                return;
            }
            latched.deaths().await_more(1);
        }
    }

    /// Marks a reader's leaf dead if range tombstones and deletions hide all of it from a reader at
    /// `snapshot`. `covering`: the newest tombstone over a user key that such a reader sees, or 0.
    /// Never waits: without the latch it does nothing. Costs up to a search for each record of the
    /// leaf.
    pub(crate) fn bury_covered(&self, leaf: &Node<N>, snapshot: u64, covering: impl Fn(&[u8]) -> u64) {
        if leaf.is_untouched() || leaf.count() == 0 || leaf.dead().at(snapshot) {
            return;
        }
        let target = Target::of(leaf.first_record());
        let Some(latched) = leaf.try_latch_for(self.icmp(), &target) else { return };
        // If one end of the leaf is not under a tombstone, this finds it soon.
        let last = latched.node.own_last_record();
        if !is_deletion(last.parts().1) && covering(last.user_key()) <= sequence(last) {
            return;
        }
        let Some(since) = covered_since(latched.node, self.icmp(), covering) else { return };
        if since <= snapshot {
            latched.node.dead().set(SnapshotRange { since, until: NEVER });
            drop(latched);
            self.bury_by(&target, |node, target| node.try_latch_for(self.icmp(), target));
        }
    }

    /// The leaf that `target` is in has died.
    #[cold]
    fn bury(&self, target: &Target<'_>) {
        self.bury_by(target, |node, target| Some(node.latch_for(self.icmp(), target)));
    }

    /// `bury`, as far up as `latch` can have the nodes.
    fn bury_by<'t>(
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
            heed(node, node.own_place_below(self.icmp(), target));
            if node.dead().is_open() {
                continue;
            }
            if !latched.deaths().count() || !look_below(node, latched.deaths()) {
                return;
            }
        }
    }

    #[cold]
    fn look_beside(&self, leaf: &Node<N>) {
        let target = Target::of(leaf.first_record());
        let mut latched = leaf.latch_for(self.icmp(), &target);
        let node = latched.node;
        if !node.dead().is_open() && look_through(node, self.icmp(), latched.deaths()) {
            drop(latched);
            self.bury(&target);
        }
    }
}

#[cfg(test)]
mod tests;
