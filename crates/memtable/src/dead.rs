//! Which stretches of the tree hold nothing but deleted keys, so that a cursor leaves them out instead of stepping through.
//!
//! In: what inserts do to leaves. Out: for a record and a snapshot, the user key at which the dead stretch around it ends
//! (`dead/edge.rs`).
//!
//! A node says for which snapshots it is dead: `since <= snapshot < until`. Dead means that no record below it is what such a
//! reader shows: each is too new, a deletion, or hidden by a newer one of its user key. Deletions never change that, other
//! writes end it for readers who see them, and for those it matters only when they see them: so a writer lowers `until` of its
//! leaf, and then of the nodes above, before its sequence number is published, and nobody else need be told. A leaf whose
//! live keys have been deleted one by one is looked through when there have been as many deletions as it had live keys, and
//! a node above when as many of its nodes have died: a deletion pays for about one record to be looked at. Who writes into
//! leaves that are not dead pays for one comparison.
//!
//! Invariants
//!  1. What a node says is true of all records in its range, from its first one to that of its right neighbour, at all
//!     snapshots that have been published; whatever it said stays true. Its range only shrinks, and a node that is split
//!     off says no more. So who reads it before `next` may believe it of the range up to there.
//!  2. A node above says no more than the nodes below it: its words are made and lowered under its latch, from theirs, and who
//!     lowers those below comes by afterwards, before he is published. He comes by where his own record is: a node below that
//!     was split meanwhile has his end on both sides, so a node above that is split asks those below it. A root that is put on
//!     top meanwhile is seen by one of the two: both have a fence between their store and their load.
//!  3. `head_since`: from that snapshot on the records of a leaf's first user key are hidden by newer ones, which lie in the leaf on
//!     its left. What a leaf begins with never changes, but in the leftmost, which has nothing on its left.
//!  4. `since` is stored before `until`, and read after it.

mod edge;

use crate::node::{Node, own};
use crate::record::{Record, Target};
use crate::tree::Tree;
use esker_base::ValueType;
use esker_base::sync::atomic::{AtomicU64, Ordering, fence};
use esker_format::key::InternalKeyComparator;

/// Nothing ends it; nothing is known.
const NEVER: u64 = u64::MAX;

/// What a node says of its readers.
pub(crate) struct Dead {
    since: AtomicU64,
    until: AtomicU64,
    head_since: AtomicU64,
}

impl Dead {
    /// Of an empty leaf.
    pub(crate) fn empty() -> Dead {
        Dead::new(0, NEVER, NEVER)
    }

    /// Of a node that nothing is known of.
    pub(crate) fn unknown() -> Dead {
        Dead::new(0, 0, NEVER)
    }

    fn new(since: u64, until: u64, head_since: u64) -> Dead {
        Dead {
            since: AtomicU64::new(since),
            until: AtomicU64::new(until),
            head_since: AtomicU64::new(head_since),
        }
    }

    /// Of a node that is split off; `hidden_by`: the last record that stays, if it is of the same user key as the first that
    /// goes. REQUIRES: the latch.
    pub(crate) fn split(&self, hidden_by: Option<Record<'_>>) -> Dead {
        let head_since = hidden_by.map_or(NEVER, sequence);
        Dead::new(own!(self.since), own!(self.until), head_since)
    }

    /// Whether a reader at this snapshot finds nothing.
    #[inline]
    fn at(&self, snapshot: u64) -> bool {
        snapshot < self.until.load(Ordering::Acquire) && self.since.load(Ordering::Acquire) <= snapshot
    }

    /// Whether nothing has ended it.
    #[inline]
    fn is_open(&self) -> bool {
        self.until.load(Ordering::Relaxed) == NEVER
    }

    /// Whether this ends something, or has ended it here by a split (`split_above`): then nobody else tells those above.
    /// REQUIRES: the latch.
    #[inline]
    fn end(&self, sequence: u64) -> bool {
        let ends = sequence <= own!(self.until);
        if ends {
            self.until.store(sequence, Ordering::Release);
        }
        ends
    }

    /// REQUIRES: the latch.
    fn begin(&self, since: u64) {
        self.since.store(since, Ordering::Release);
        self.until.store(NEVER, Ordering::Release);
    }
}

/// How many deaths a node waits for until it is looked through.
#[derive(Debug, Default)]
pub(crate) struct Deaths {
    seen: u8,
    awaited: u8,
}

impl Deaths {
    /// One more below. Whether there have been enough.
    fn count(&mut self) -> bool {
        self.seen = self.seen.saturating_add(1);
        self.seen >= self.awaited
    }

    pub(crate) fn await_more(&mut self, live: usize) {
        (self.seen, self.awaited) = (0, live.min(usize::from(u8::MAX)) as u8);
    }
}

/// What an insert means for the nodes above, or beside, its leaf.
pub(crate) enum After<'t, const N: usize> {
    Nothing,
    /// Its leaf was dead for some who will see it.
    Alive,
    /// Its leaf is dead now.
    Dead,
    /// It may be all that kept this leaf, on the right, from being dead.
    Beside(&'t Node<N>),
}

fn sequence(record: Record<'_>) -> u64 {
    record.parts().1 >> 8
}

#[inline]
fn is_deletion(trailer: u64) -> bool {
    ValueType::from_u8(trailer as u8).is_some_and(ValueType::is_point_deletion)
}

/// What becomes of leaf `node` after a record with this trailer was put into it, `last`: as its last one.
/// REQUIRES: its latch, or that nobody can reach it yet.
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
            next.dead().head_since.fetch_min(sequence(record), Ordering::AcqRel);
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
        let hidden = if is_first { node.dead().head_since.load(Ordering::Acquire) } else { NEVER };
        live += usize::from(hidden == NEVER);
        since = since.max(hidden);
    }
    deaths.await_more(live);
    if live == 0 {
        node.dead().begin(since);
    }
    live == 0
}

/// Shows `each` the nodes below this one, up to where its right neighbour begins, those too that it does not know yet.
/// REQUIRES: its latch.
fn for_each_below<'t, const N: usize>(node: &'t Node<N>, mut each: impl FnMut(&'t Node<N>)) {
    let end = node.next().map(|next| next.child(0));
    let mut below = Some(node.child(0));
    while let Some(child) = below
        && !end.is_some_and(|end| std::ptr::eq(end, child))
    {
        each(child);
        below = child.next();
    }
}

/// The same for a node above: those below it, up to where its right neighbour begins. REQUIRES: its latch.
#[cold]
fn look_below<const N: usize>(node: &Node<N>, deaths: &mut Deaths) -> bool {
    // Invariant 2: who put an end to one below stores that, and then looks for the root.
    fence(Ordering::SeqCst);
    let (mut since, mut live) = (0, 0);
    for_each_below(node, |child| {
        live += usize::from(child.dead().until.load(Ordering::Acquire) != NEVER);
        since = since.max(child.dead().since.load(Ordering::Acquire));
    });
    deaths.await_more(live);
    if live == 0 {
        node.dead().begin(since);
    }
    live == 0
}

/// Of the node above that is split off `node` and begins with `first`. From here on both say no more than those below them: who
/// has put an end to one of them that was split afterwards is on his way to one half only. REQUIRES: the latch of `node`.
pub(crate) fn split_above<'t, const N: usize>(node: &'t Node<N>, first: &'t Node<N>) -> Dead {
    let dead = node.dead();
    let (mut stays, mut goes) = (own!(dead.until), own!(dead.until));
    let mut is_right = false;
    if stays > 0 {
        for_each_below(node, |child| {
            is_right |= std::ptr::eq(child, first);
            let until = if is_right { &mut goes } else { &mut stays };
            *until = child.dead().until.load(Ordering::Acquire).min(*until);
        });
    }
    dead.until.store(stays, Ordering::Release);
    Dead::new(own!(dead.since), goes, NEVER)
}

impl<const N: usize> Tree<N> {
    /// Does what is left to do after an insert at `target`.
    #[inline]
    pub(crate) fn settle<'t>(&'t self, after: After<'t, N>, target: &Target<'_>) {
        match after {
            After::Nothing => {}
            After::Alive => self.revive(target),
            After::Dead => self.bury(target),
            After::Beside(leaf) => self.look_beside(leaf),
        }
    }

    /// A leaf has been split: those above may have only waited for a node that is born dead.
    #[inline]
    pub(crate) fn settle_split(&self, right: &Node<N>) {
        if right.dead().is_open() {
            self.bury(&Target::of(right.first_record()));
        }
    }

    /// Nodes above `target`'s leaf are not dead for those who see it.
    #[cold]
    fn revive(&self, target: &Target<'_>) {
        for level in 1.. {
            fence(Ordering::SeqCst);
            if self.root().level() < level {
                return;
            }
            let mut latched = self.find(level, target, true).latch_for(self.icmp(), target);
            if !latched.node.dead().end(target.trailer >> 8) {
                // Whoever ended it earlier goes on upwards, and is published first.
                return;
            }
            latched.deaths().await_more(1);
        }
    }

    /// The leaf that `target` is in has died.
    #[cold]
    fn bury(&self, target: &Target<'_>) {
        for level in 1.. {
            if self.root().level() < level {
                return;
            }
            let mut latched = self.find(level, target, true).latch_for(self.icmp(), target);
            let node = latched.node;
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
