//! Per-node summaries of range tombstones. A lookup that meets none on its path skips the search
//! for tombstones.
//!
//! In: range tombstones, as they are added. Out: for a lookup, the newest tombstone that may hide
//! its result, and the newest that may hide a key it did not find; 0 if there is none. The answer
//! may be too new, never too old.
//!
//! ```text
//! inner nodes   covers: the tombstone covers all keys of the node
//! leaves        covers: it covers a record of the leaf     reaches: it overlaps the leaf's range
//!               gaps: the gaps between records it covers, in 64 classes
//! ```
//!
//! A tombstone marks some leaves at its ends and, between them, the highest nodes that it covers
//! whole: O(width) nodes a level, for a range of any length. A lookup passes one node of each level
//! and takes the greatest number of the nodes on its path. These numbers lie in lines that the
//! lookup reads anyway, and it writes nothing.
//!
//! Invariants
//!  1. For a tombstone whose addition is complete and a key under it, one of two holds. Either a
//!     node on the key's path has the tombstone's number or a greater one. Or the tombstone reaches
//!     the key's leaf. Then the leaf has that number if it has an older record of the user key.
//!     Without any record of the key, the gap for the key is marked.
//!  2. Numbers only grow, under the node's latch. A node that is split off takes a part of another
//!     node's range and starts with that node's numbers. So a path through the left node and its
//!     link reports no less.
//!  3. A record inserted into a leaf that a newer tombstone reaches counts as covered by it
//!     (`admit`). So insert and tombstone may come in either order.
//!  4. `newest_above` is no less than any inner node's number, once the addition is complete. A
//!     lookup whose path has no smaller number need not read another node.
//!  5. A gap is named by the head of the record behind it. A record inserted into a marked gap has
//!     a marked gap before it: the mark is there before the record. The last gap of a leaf ends at
//!     the next leaf. Marks stay.
//!  6. A lookup that must see a tombstone began after its addition was complete (the engine
//!     publishes sequence numbers in that order), and sees all its marks. Loads and stores need no
//!     order among themselves.

use crate::node::{Guess, Here, Node, own};
use crate::record::{Record, Target};
use crate::tree::Tree;
use esker_base::SequenceNumber;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use esker_format::key::InternalKeyComparator;

/// A tombstone over no more leaves than this marks each of them.
const FEW_LEAVES: usize = 4;

/// A node's summary of range tombstones.
pub(crate) struct CoveredSummary {
    reaches: AtomicU64,
    covers: AtomicU64,
}

impl CoveredSummary {
    pub(crate) fn none() -> CoveredSummary {
        CoveredSummary { reaches: AtomicU64::new(0), covers: AtomicU64::new(0) }
    }

    /// The summary of a node that is split off this one. REQUIRES: the latch.
    pub(crate) fn split(&self) -> CoveredSummary {
        CoveredSummary { reaches: AtomicU64::new(self.reaches()), covers: AtomicU64::new(self.covers()) }
    }

    #[inline]
    fn reaches(&self) -> u64 {
        self.reaches.load(Ordering::Relaxed)
    }

    #[inline]
    fn covers(&self) -> u64 {
        self.covers.load(Ordering::Relaxed)
    }

    /// Updates the summary for a record at `sequence` that is inserted into this leaf. REQUIRES:
    /// the latch.
    #[inline]
    pub(crate) fn admit(&self, sequence: u64) {
        let reaches = self.reaches();
        if reaches >= sequence && reaches > self.covers() {
            self.covers.store(reaches, Ordering::Relaxed);
        }
    }

    /// Records that a tombstone reaches into this node, or covers records or gaps in it. REQUIRES:
    /// the latch.
    fn fall(&self, sequence: u64, covers: bool) {
        if sequence > self.reaches() {
            self.reaches.store(sequence, Ordering::Relaxed);
        }
        if covers && sequence > self.covers() {
            self.covers.store(sequence, Ordering::Relaxed);
        }
    }
}

/// A class of gaps of a leaf: between two neighbouring records, before the first, or behind the
/// last. There are 64 classes.
#[derive(Clone, Copy)]
pub(crate) struct Gap(u64);

impl Gap {
    /// Stands for the head of a record behind the last one.
    const END: u64 = u64::MAX;

    /// The gap behind the last record, up to the next leaf.
    pub(crate) const BEHIND_ALL: Gap = Gap::before(Gap::END);

    /// All gaps.
    const ALL: Gap = Gap(u64::MAX);

    /// The gap before a record with this head.
    #[inline]
    pub(crate) const fn before(head: u64) -> Gap {
        // Fibonacci hashing (Knuth, vol. 3, 6.4): neighbouring heads differ in few bits.
        Gap(1 << (head.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58))
    }
}

/// The gaps of a leaf that range tombstones lie in.
pub(crate) struct Gaps(AtomicU64);

impl Gaps {
    pub(crate) fn none() -> Gaps {
        Gaps(AtomicU64::new(0))
    }

    #[inline]
    fn has(&self, gap: Gap) -> bool {
        self.0.load(Ordering::Relaxed) & gap.0 != 0
    }

    /// Marks `gap`. REQUIRES: the latch.
    fn mark(&self, gap: Gap) {
        self.0.store(own!(self.0) | gap.0, Ordering::Relaxed);
    }

    /// Whether any gap is marked. REQUIRES: the latch.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        own!(self.0) != 0
    }

    /// Prepares the marks for a record with this head in `gap`. REQUIRES: the latch; the record is
    /// stored afterwards.
    #[inline(never)]
    pub(crate) fn divide(&self, gap: Gap, head: u64) {
        if self.has(gap) {
            self.mark(Gap::before(head));
        }
    }

    /// Prepares the marks for a split: the records behind this gap move to a new leaf, with a part
    /// of the gap. REQUIRES: the latch; the link is stored afterwards.
    pub(crate) fn give_away_from(&self, gap: Gap) {
        self.divide(gap, Gap::END);
    }

    /// One bit for each of `heads` (fewer than 128): whether the gap before it is marked. For
    /// [`split`](Self::split). REQUIRES: the latch.
    pub(crate) fn before(&self, heads: impl Iterator<Item = u64>) -> u128 {
        if !self.any() {
            return 0;
        }
        heads.enumerate().fold(0, |marked, (i, head)| marked | u128::from(self.has(Gap::before(head))) << i)
    }

    /// The marks of a leaf that is split off and has these heads. `marked`: the bits of
    /// [`before`](Self::before). REQUIRES: the latch.
    pub(crate) fn split(&self, heads: impl Iterator<Item = u64>, marked: u128) -> Gaps {
        let gaps = Gaps(AtomicU64::new(own!(self.0) & Gap::BEHIND_ALL.0));
        if marked != 0 {
            heads
                .enumerate()
                .filter(|(i, _)| marked >> i & 1 != 0)
                .for_each(|(_, head)| gaps.mark(Gap::before(head)));
        }
        gaps
    }
}

/// The tombstones that a lookup met.
pub(crate) struct CoverLookup<'t, const N: usize> {
    /// The newest version that the target sees.
    pub(crate) found: Option<Record<'t>>,
    /// The leaf with that record or, if there is none, the leaf where the search ended.
    pub(crate) leaf: &'t Node<N>,
    /// The newest tombstone that covers whole nodes above.
    whole: u64,
    /// The newest tombstone that reaches behind the records of the leaves that were passed.
    passed: u64,
    /// If no record was found: whether a tombstone may cover the target's gap.
    is_marked: bool,
}

impl<const N: usize> CoverLookup<'_, N> {
    /// The newest tombstone that may cover the found record; no newer one does.
    #[inline(always)]
    pub(crate) fn over_found(&self) -> u64 {
        self.whole.max(self.leaf.covered().covers())
    }

    /// The newest tombstone that may cover the user key; no newer one does.
    #[inline]
    pub(crate) fn over_key(&self) -> u64 {
        let of_leaf = if self.is_marked || self.found.is_some() { self.leaf.covered().reaches() } else { 0 };
        self.whole.max(self.passed).max(of_leaf)
    }
}

/// A range tombstone that is being added.
#[derive(Clone, Copy)]
struct Span<'a> {
    start: Target<'a>,
    end: &'a [u8],
    sequence: u64,
}

impl Span<'_> {
    /// Whether the tombstone covers keys at or after `record`.
    fn goes_beyond(&self, icmp: &InternalKeyComparator, record: Record<'_>) -> bool {
        icmp.compare_user_keys(record.user_key(), self.end).is_lt()
    }
}

impl<const N: usize> Tree<N> {
    /// Searches for the target's user key, and reports the tombstones of the nodes on the path. The
    /// path is that of a lookup without tombstones.
    #[inline(always)]
    pub(crate) fn look_up<'t>(&'t self, target: &Target<'_>) -> CoverLookup<'t, N> {
        if self.newest_above.load(Ordering::Relaxed) > 0 {
            return self.look_up_under_tombstones(target);
        }
        let leaf = self.find(0, target, true);
        self.look_up_in(leaf, target, leaf.no_guess(self.icmp(), target), 0)
    }

    /// `look_up` while tombstones may cover whole inner nodes.
    #[inline(never)]
    fn look_up_under_tombstones<'t>(&'t self, target: &Target<'_>) -> CoverLookup<'t, N> {
        let mut whole = 0;
        let leaf = self.find_past(0, target, true, |node| whole = node.covered().covers().max(whole));
        self.look_up_in(leaf, target, leaf.no_guess(self.icmp(), target), whole)
    }

    /// `look_up` in `leaf`. `whole` is the newest tombstone over a node above it.
    #[inline(always)]
    fn look_up_in<'t>(
        &'t self,
        leaf: &'t Node<N>,
        target: &Target<'_>,
        guess: Guess,
        whole: u64,
    ) -> CoverLookup<'t, N> {
        match leaf.first_of_key_here(self.icmp(), target, guess) {
            Here::Beyond(next) => self.look_up_beyond(leaf, next, target, whole),
            here => self.lookup_result(here, leaf, target, (whole, 0)),
        }
    }

    /// `look_up_in` if all of `leaf` is before the target, for example if the target is the first
    /// key of the next leaf.
    #[inline(never)]
    fn look_up_beyond<'t>(
        &'t self,
        leaf: &'t Node<N>,
        next: Option<&'t Node<N>>,
        target: &Target<'_>,
        whole: u64,
    ) -> CoverLookup<'t, N> {
        let (mut leaf, mut next, mut passed) = (leaf, next, 0);
        loop {
            if leaf.gaps().has(Gap::BEHIND_ALL) {
                passed = leaf.covered().reaches().max(passed);
            }
            let Some(right) = next else {
                return CoverLookup { found: None, leaf, whole, passed, is_marked: false };
            };
            leaf = right;
            let guess = leaf.no_guess(self.icmp(), target);
            match leaf.first_of_key_here(self.icmp(), target, guess) {
                Here::Beyond(behind) => next = behind,
                here => return self.lookup_result(here, leaf, target, (whole, passed)),
            }
        }
    }

    /// The tombstones for a search that ended in `leaf`. The nodes above it report `whole`.
    /// `passed`: the newest tombstone that reaches behind the records of leaves before it.
    #[inline(always)]
    fn lookup_result<'t>(
        &'t self,
        here: Here<'t, N>,
        leaf: &'t Node<N>,
        target: &Target<'_>,
        (whole, passed): (u64, u64),
    ) -> CoverLookup<'t, N> {
        let gap = match here {
            Here::First(record) if self.icmp().same_user_key(record.user_key(), target.user_key) => {
                return self.lookup_result_of_found(record, leaf, (whole, passed));
            }
            Here::First(record) => leaf.gap_before(self.icmp(), record),
            Here::Absent(gap) => gap,
            Here::Beyond(_) => Gap::BEHIND_ALL,
        };
        CoverLookup { found: None, leaf, whole, passed, is_marked: leaf.gaps().has(gap) }
    }

    #[inline(always)]
    fn lookup_result_of_found<'t>(
        &'t self,
        record: Record<'t>,
        leaf: &'t Node<N>,
        (whole, passed): (u64, u64),
    ) -> CoverLookup<'t, N> {
        // The first key of a leaf is also searched in the leaf on its left. Tombstones there do not
        // cover it, but the path may have missed nodes above its own leaf.
        let off_the_way = if passed > 0 && self.newest_above.load(Ordering::Relaxed) > whole {
            self.whole_above(&Target::of(record))
        } else {
            0
        };
        CoverLookup { found: Some(record), leaf, whole: whole.max(off_the_way), passed, is_marked: true }
    }

    /// The newest tombstone that covers a whole node above the leaf of this record.
    #[cold]
    fn whole_above(&self, record: &Target<'_>) -> u64 {
        let mut whole = 0;
        self.find_past(0, record, true, |node| whole = node.covered().covers().max(whole));
        whole
    }

    /// `look_up` for up to `G` targets, in any order; `see` gets the target's index. Goes level by
    /// level, as [`visit_versions_of`](Self::visit_versions_of).
    pub(crate) fn look_up_many<'t, const G: usize>(
        &'t self,
        targets: &[Target<'_>],
        mut see: impl FnMut(usize, CoverLookup<'t, N>),
    ) {
        debug_assert!(targets.len() <= G);
        let root = self.root();
        let mut ways = [(root, 0); G];
        let looks_above = self.newest_above.load(Ordering::Relaxed) > 0;
        // All children of a level's nodes are of the next lower level.
        for _ in 0..root.level() {
            for ((node, whole), target) in ways.iter_mut().zip(targets) {
                let (from, at, _) = node.way_down(self.icmp(), target, true);
                *node = from.child(at);
                node.prefetch_heads();
                if looks_above {
                    *whole = from.covered().covers().max(*whole);
                }
            }
        }
        let mut guesses = [Guess::TO_BE_MADE; G];
        for ((guess, (leaf, _)), target) in guesses.iter_mut().zip(ways).zip(targets) {
            *guess = leaf.guess(self.icmp(), target);
        }
        for (guess, (leaf, _)) in guesses.iter().zip(ways).take(targets.len()) {
            leaf.fetch(*guess);
        }
        for (i, target) in targets.iter().enumerate() {
            see(i, self.look_up_in(ways[i].0, target, guesses[i], ways[i].1));
        }
    }

    /// Marks the nodes and gaps under the tombstone `[start, end)`. Lookups that begin afterwards
    /// see the marks.
    pub(crate) fn mark_covered(&self, start: &[u8], end: &[u8], sequence: SequenceNumber) {
        if self.icmp().compare_user_keys(start, end).is_ge() {
            return;
        }
        let start = Target { user_key: start, trailer: u64::MAX };
        let span = Span { start, end, sequence: sequence.0 };
        if !self.mark_leaves(self.find(0, &start, true), None, &span, FEW_LEAVES) {
            self.mark_below(self.root(), None, &span);
        }
    }

    /// Marks up to `limit` leaves from this one on, before `stop`. True if no leaf is left to mark.
    fn mark_leaves<'t>(
        &'t self,
        leaf: &'t Node<N>,
        stop: Option<&'t Node<N>>,
        span: &Span<'_>,
        limit: usize,
    ) -> bool {
        let mut leaf = leaf;
        for _ in 0..limit {
            let latched = leaf.latch_here();
            let next = leaf.next();
            let is_before = next.is_some_and(|next| !next.starts_after(self.icmp(), &span.start, true));
            if !is_before {
                leaf.fall_between(self.icmp(), span);
            }
            drop(latched);
            match self.goes_on(next, stop, span) {
                Some(next) => leaf = next,
                None => return true,
            }
        }
        false
    }

    /// The next node, if the tombstone reaches it and it is not `stop`.
    fn goes_on<'t>(
        &'t self,
        next: Option<&'t Node<N>>,
        stop: Option<&'t Node<N>>,
        span: &Span<'_>,
    ) -> Option<&'t Node<N>> {
        let is_stop = |next: &Node<N>| stop.is_some_and(|stop| std::ptr::eq(stop, next));
        next.filter(|next| !is_stop(next) && span.goes_beyond(self.icmp(), next.low_fence()))
    }

    /// Marks nodes below this one and its right neighbours, before `stop`: each child that the
    /// tombstone covers whole, and parts of the others.
    fn mark_below<'t>(&'t self, node: &'t Node<N>, stop: Option<&'t Node<N>>, span: &Span<'_>) {
        if node.level() == 0 {
            self.mark_leaves(node, stop, span, usize::MAX);
            return;
        }
        let mut node = node;
        loop {
            let latched = node.latch_here();
            let next = node.next();
            let is_before = next.is_some_and(|next| !next.starts_after(self.icmp(), &span.start, true));
            let children = match is_before {
                true => Vec::new(),
                false => node.own_children_from(self.icmp(), &span.start),
            };
            drop(latched);
            for (i, &(begins, child)) in children.iter().enumerate() {
                if i > 0 && !begins.is_some_and(|begins| span.goes_beyond(self.icmp(), begins)) {
                    return;
                }
                let behind = match children.get(i + 1) {
                    Some(&(begins, behind)) => begins.map(|begins| (begins, behind)),
                    None => next.map(|next| (next.low_fence(), next.child(0))),
                };
                // A child is covered whole if the tombstone covers all user keys from its first to
                // its neighbour's first. The child may have newer versions of the neighbour's first
                // user key.
                let is_inside = |r: Record<'_>| span.start.cmp_record(self.icmp(), r).is_ge();
                match behind {
                    Some((ends, behind))
                        if begins.is_some_and(is_inside) && span.goes_beyond(self.icmp(), ends) =>
                    {
                        self.mark_whole(child, behind, span.sequence);
                    }
                    _ => self.mark_below(child, behind.map(|(_, behind)| behind), span),
                }
            }
            match self.goes_on(next, stop, span) {
                Some(next) => node = next,
                None => return,
            }
        }
    }

    /// Marks the nodes from this one up to `stop`: also nodes split off it that the level above
    /// does not know yet.
    fn mark_whole(&self, node: &Node<N>, stop: &Node<N>, sequence: u64) {
        if node.level() > 0 {
            self.newest_above.fetch_max(sequence, Ordering::Relaxed);
        }
        let mut next = Some(node);
        while let Some(node) = next
            && !std::ptr::eq(node, stop)
        {
            let latched = node.latch_here();
            node.covered().fall(sequence, true);
            if node.level() == 0 {
                node.gaps().mark(Gap::ALL);
            }
            next = node.next();
            drop(latched);
        }
    }
}

impl<const N: usize> Node<N> {
    /// Leaves: marks the records and gaps that the tombstone covers. REQUIRES: the latch.
    fn fall_between(&self, icmp: &InternalKeyComparator, span: &Span<'_>) {
        let end = Target { user_key: span.end, trailer: u64::MAX };
        let from = self.own_place_of(icmp, &span.start, 0);
        let to = self.own_place_of(icmp, &end, from);
        self.covered().fall(span.sequence, from < to);
        let begins_at_a_record = from < to && self.own_is_at(icmp, from, &span.start);
        for at in from + usize::from(begins_at_a_record)..=to {
            self.gaps().mark(self.own_gap_before(at));
        }
    }
}

#[cfg(test)]
mod tests;
