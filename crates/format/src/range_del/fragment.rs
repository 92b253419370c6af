//! Overlapping range tombstones, cut into disjoint fragments that can be searched.
//!
//! In: tombstones in any order. Out: for any user key and snapshot, the newest tombstone that covers it; and the
//! fragments in order, as flush and compaction write them.   Source: RocksDB `db/range_tombstone_fragmenter.h`.
//!
//! ```text
//! a----------e @5                    a---c @5
//!      c----------g @9       ->          c---e @9,5
//!                                            e---g @9
//! ```
//!
//! Invariants
//!  1. Fragments are sorted and disjoint; each lies between two neighbouring boundaries, a boundary being the start
//!     or end of some tombstone; keys that no tombstone covers lie in no fragment.
//!  2. A fragment has at least one sequence number; they are descending and distinct.
//!
//! A lookup searches the boundaries' first 8 bytes behind what they all begin with, as numbers; whole keys are
//! compared only among those that agree there. That is for the bytewise order; other orders compare keys (1000
//! tombstones, one run on a busy 2-vCPU Zen 4 machine: 146 ns for a lookup by keys, 47 by numbers).
//!
//! Storage: each boundary once, in one buffer; sequence numbers in one pool. A fragment whose list is a stretch of
//! its neighbour's shares it: windows that slide forward or backward in time, "everything before k" for growing k,
//! and nested ranges all take O(n). Only overlaps without any such order take O(n * depth).
#![expect(
    clippy::indexing_slicing,
    reason = "indices come from this file's own tables; no bytes from disk are used as numbers"
)]

use super::tombstone::{RangeTombstone, RangeTombstoneRef};
use crate::key::InternalKeyComparator;
use esker_base::SequenceNumber;
use esker_base::comparator::{KeyOrder, head};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A piece of key space and every tombstone that covers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// The first user key of the piece.
    pub start: &'a [u8],
    /// The first user key after it.
    pub end: &'a [u8],
    /// The tombstones' sequence numbers, newest first; never empty.
    pub seqs: &'a [SequenceNumber],
}

impl Fragment<'_> {
    /// The newest sequence number that `snapshot` may see, or zero.
    #[inline]
    pub fn newest_visible(&self, snapshot: SequenceNumber) -> SequenceNumber {
        newest_visible(self.seqs, snapshot)
    }
}

#[inline]
fn newest_visible(seqs: &[SequenceNumber], snapshot: SequenceNumber) -> SequenceNumber {
    match seqs.first() {
        Some(&newest) if newest <= snapshot => newest,
        _ => {
            let at = seqs.partition_point(|&s| s > snapshot);
            seqs.get(at).copied().unwrap_or(SequenceNumber::ZERO)
        }
    }
}

/// Two cache lines of heads.
const STRIDE: usize = 16;

/// Where a fragment's parts are stored.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// It starts at this boundary and ends at the next.
    boundary: u32,
    seq_count: u32,
    seq_at: usize,
    /// The first of them: most snapshots see it, and need not look further.
    newest: SequenceNumber,
}

/// Disjoint, sorted, searchable range tombstones. Immutable; share it by `Arc`.
#[derive(Clone, Default, Debug)]
pub struct FragmentedRangeTombstones {
    keys: Vec<u8>,
    /// Boundary i is `keys[key_ends[i]..key_ends[i + 1]]`; starts with 0.
    key_ends: Vec<usize>,
    /// How many bytes all boundaries begin with in common.
    prefix_len: usize,
    /// Of each boundary, the 8 bytes behind those, big-endian, zeros behind its end. Empty unless the order is bytewise.
    heads: Vec<u64>,
    /// Every `STRIDE`th head, from the first: few enough to stay in a processor's cache.
    top_heads: Vec<u64>,
    slots: Vec<Slot>,
    /// How many slots start before boundary i, for each i up to and including the number of boundaries. Empty if each
    /// boundary but the last starts a slot: then it would be i, except for the last.
    slots_before: Vec<u32>,
    seqs: Vec<SequenceNumber>,
    max_seq: SequenceNumber,
    tombstone_count: usize,
}

impl FragmentedRangeTombstones {
    /// None.
    pub fn empty() -> FragmentedRangeTombstones {
        FragmentedRangeTombstones::default()
    }

    /// Fragments `tombstones`; those that cover nothing (`start >= end`) are dropped. O(n log n) for n tombstones,
    /// plus the length of the lists that cannot be shared (head of this file).
    pub fn build(tombstones: Vec<RangeTombstone>, icmp: &InternalKeyComparator) -> FragmentedRangeTombstones {
        FragmentedRangeTombstones::from_refs(tombstones.iter().map(RangeTombstone::as_ref), icmp)
    }

    /// As [`build`](Self::build), from keys that lie elsewhere; they are copied.
    pub fn from_refs<'a>(
        tombstones: impl IntoIterator<Item = RangeTombstoneRef<'a>>,
        icmp: &InternalKeyComparator,
    ) -> FragmentedRangeTombstones {
        let tombstones: Vec<_> = tombstones.into_iter().filter(|t| !t.is_empty(icmp)).collect();
        if tombstones.is_empty() {
            return FragmentedRangeTombstones::default();
        }
        Builder::run(&tombstones, icmp)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How many fragments.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many tombstones went in, without those that covered nothing.
    pub fn tombstone_count(&self) -> usize {
        self.tombstone_count
    }

    /// The newest sequence number of all; zero if there are none.
    #[inline]
    pub fn max_seq(&self) -> SequenceNumber {
        self.max_seq
    }

    /// Bytes of memory it takes.
    pub fn approximate_memory_usage(&self) -> usize {
        size_of::<Self>()
            + self.keys.capacity()
            + self.key_ends.capacity() * size_of::<usize>()
            + (self.heads.capacity() + self.top_heads.capacity()) * size_of::<u64>()
            + self.slots.capacity() * size_of::<Slot>()
            + self.slots_before.capacity() * size_of::<u32>()
            + self.seqs.capacity() * size_of::<SequenceNumber>()
    }

    /// Fragment `i`.
    ///
    /// # Panics
    /// If `i >= len()`.
    #[inline]
    pub fn fragment(&self, i: usize) -> Fragment<'_> {
        let slot = &self.slots[i];
        let boundary = slot.boundary as usize;
        Fragment {
            start: self.boundary(boundary),
            end: self.boundary(boundary + 1),
            seqs: self.seqs_of(slot),
        }
    }

    /// All fragments, in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Fragment<'_>> + ExactSizeIterator {
        (0..self.len()).map(|i| self.fragment(i))
    }

    /// The sequence number of the newest tombstone that covers `user_key` and that `snapshot` may see; zero if none.
    #[inline]
    pub fn max_covering_seq(
        &self,
        user_key: &[u8],
        icmp: &InternalKeyComparator,
        snapshot: SequenceNumber,
    ) -> SequenceNumber {
        if self.slots.is_empty() {
            return SequenceNumber::ZERO;
        }
        let Some(boundary) = self.boundaries_up_to(user_key, icmp).checked_sub(1) else {
            return SequenceNumber::ZERO;
        };
        match self.slots.get(self.slots_before(boundary)) {
            Some(slot) if slot.boundary as usize != boundary => SequenceNumber::ZERO,
            Some(slot) if slot.newest <= snapshot => slot.newest,
            Some(slot) => newest_visible(self.seqs_of(slot), snapshot),
            None => SequenceNumber::ZERO,
        }
    }

    /// The first fragment that ends after `user_key`: the one that covers it, else the next; `len()` if none does.
    #[inline]
    pub fn seek(&self, user_key: &[u8], icmp: &InternalKeyComparator) -> usize {
        if self.slots.is_empty() {
            return 0;
        }
        let last = self.boundaries_up_to(user_key, icmp).saturating_sub(1);
        self.slots_before(last)
    }

    /// The last fragment that starts at or before `user_key`: the one that covers it, else the one before.
    #[inline]
    pub fn seek_for_prev(&self, user_key: &[u8], icmp: &InternalKeyComparator) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots_before(self.boundaries_up_to(user_key, icmp)).checked_sub(1)
    }

    /// Whether some tombstone that `snapshot` may see covers part of `[start, end]`, both inclusive.
    pub fn overlaps(
        &self,
        start: &[u8],
        end: &[u8],
        icmp: &InternalKeyComparator,
        snapshot: SequenceNumber,
    ) -> bool {
        (self.seek(start, icmp)..self.len())
            .map(|i| self.fragment(i))
            .take_while(|f| icmp.compare_user_keys(f.start, end) != Ordering::Greater)
            .any(|f| f.newest_visible(snapshot) > SequenceNumber::ZERO)
    }

    /// How many slots start before this boundary, or before the end.
    #[inline]
    fn slots_before(&self, boundary: usize) -> usize {
        if self.slots_before.is_empty() {
            boundary.min(self.slots.len())
        } else {
            self.slots_before[boundary] as usize
        }
    }

    /// How many boundaries are at or before `key`. There are some.
    #[inline]
    fn boundaries_up_to(&self, key: &[u8], icmp: &InternalKeyComparator) -> usize {
        let count = self.key_ends.len() - 1;
        if self.heads.is_empty() {
            return self.boundaries_up_to_by_keys(0..count, |boundary| icmp.compare_user_keys(boundary, key));
        }
        let prefix = &self.keys[..self.prefix_len];
        if !key.starts_with(prefix) {
            return if key < prefix { 0 } else { count };
        }
        let head = head(key, self.prefix_len);
        let first = self.first_head_at_or_after(head);
        if self.heads.get(first).is_none_or(|&h| h != head) {
            return first;
        }
        // Mostly just one.
        let same = match self.heads.get(first + 1) {
            Some(&h) if h == head => self.heads[first..].partition_point(|&h| h == head),
            _ => 1,
        };
        self.boundaries_up_to_by_keys(first..first + same, |boundary| boundary.cmp(key))
    }

    #[inline]
    fn first_head_at_or_after(&self, head: u64) -> usize {
        // The last top that is less, if any, starts the stretch in which heads cease to be less.
        let Some(top) = self.top_heads.partition_point(|&h| h < head).checked_sub(1) else { return 0 };
        let start = top * STRIDE;
        let stretch = &self.heads[start..self.heads.len().min(start + STRIDE)];
        start + stretch.iter().filter(|&&h| h < head).count()
    }

    /// The end of those boundaries in `range` that are at or before the key `compare` compares them with.
    fn boundaries_up_to_by_keys(&self, range: Range<usize>, compare: impl Fn(&[u8]) -> Ordering) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if compare(self.boundary(middle)) == Ordering::Greater {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Fills in what is derived from boundaries and slots.
    fn index(&mut self, icmp: &InternalKeyComparator) {
        let count = self.key_ends.len() - 1;
        if icmp.order() == KeyOrder::Bytewise {
            // Sorted: what the first and the last begin with, all do.
            let (first, last) = (self.boundary(0), self.boundary(count - 1));
            self.prefix_len = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            self.heads = (0..count).map(|i| head(self.boundary(i), self.prefix_len)).collect();
            self.top_heads = self.heads.iter().step_by(STRIDE).copied().collect();
        }
        if self.slots.len() == count - 1 {
            return;
        }
        self.slots_before = Vec::with_capacity(count + 1);
        let mut slots = 0;
        for boundary in 0..=count {
            self.slots_before.push(slots);
            let starts_here = self.slots.get(slots as usize).is_some_and(|s| s.boundary as usize == boundary);
            slots += u32::from(starts_here);
        }
    }

    #[inline]
    fn boundary(&self, i: usize) -> &[u8] {
        &self.keys[self.key_ends[i]..self.key_ends[i + 1]]
    }

    #[inline]
    fn seqs_of(&self, slot: &Slot) -> &[SequenceNumber] {
        &self.seqs[slot.seq_at..slot.seq_at + slot.seq_count as usize]
    }
}

/// Sweeps over the boundaries with the set of tombstones that cover the piece behind each.
#[derive(Default)]
struct Builder {
    out: FragmentedRangeTombstones,
    /// Sequence number -> how many tombstones with it cover the current piece.
    active: BTreeMap<SequenceNumber, u32>,
    run: Run,
}

impl Builder {
    fn run(tombstones: &[RangeTombstoneRef<'_>], icmp: &InternalKeyComparator) -> FragmentedRangeTombstones {
        let mut builder = Builder::default();
        builder.out.tombstone_count = tombstones.len();
        builder.out.max_seq = tombstones.iter().map(|t| t.seq).max().unwrap_or_default();
        builder.out.key_ends.push(0);

        let edges = sorted_edges(tombstones, icmp);
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for group in edges.chunk_by(|a, b| icmp.same_user_key(a.key, b.key)) {
            added.clear();
            removed.clear();
            // Starts come before ends, so a number that ends here and starts here anew has not changed.
            for edge in group {
                if edge.is_end {
                    builder.leave(edge.seq, &mut removed);
                } else {
                    builder.enter(edge.seq, &mut added);
                }
            }
            builder.push_boundary(group[0].key);
            builder.push_fragment(&mut added, &mut removed);
        }
        builder.flush_run();
        debug_assert!(builder.active.is_empty(), "every tombstone that was entered ends");
        let mut out = builder.out;
        out.keys.shrink_to_fit();
        out.key_ends.shrink_to_fit();
        out.slots.shrink_to_fit();
        out.seqs.shrink_to_fit();
        out.index(icmp);
        out
    }

    fn enter(&mut self, seq: SequenceNumber, added: &mut Vec<SequenceNumber>) {
        let count = self.active.entry(seq).or_insert(0);
        *count += 1;
        if *count == 1 {
            added.push(seq);
        }
    }

    fn leave(&mut self, seq: SequenceNumber, removed: &mut Vec<SequenceNumber>) {
        let count = self.active.get_mut(&seq).expect("a tombstone starts before it ends");
        *count -= 1;
        if *count == 0 {
            self.active.remove(&seq);
            removed.push(seq);
        }
    }

    fn push_boundary(&mut self, key: &[u8]) {
        self.out.keys.extend_from_slice(key);
        self.out.key_ends.push(self.out.keys.len());
    }

    /// Adds the piece behind the boundary just pushed, unless nothing covers it.
    fn push_fragment(&mut self, added: &mut [SequenceNumber], removed: &mut [SequenceNumber]) {
        added.sort_unstable();
        removed.sort_unstable();
        if !self.run.change(added, removed) {
            self.flush_run();
            self.run.restart(self.active.keys().copied());
        }
        if self.active.is_empty() {
            return;
        }
        let boundary =
            u32::try_from(self.out.key_ends.len() - 2).expect("fewer than 2^32 tombstones fit in memory");
        self.run.record(boundary);
    }

    fn flush_run(&mut self) {
        self.run.flush(&mut self.out);
    }
}

/// A stretch of sequence numbers that several fragments in a row share: each sees a window of it.
#[derive(Default)]
struct Run {
    /// Ascending.
    seqs: VecDeque<SequenceNumber>,
    /// How many were put before the first ones: positions count from the original front.
    prepended: isize,
    /// The current fragment's window of positions.
    low: isize,
    high: isize,
    /// Boundary and window of each fragment since the last flush.
    windows: Vec<(u32, isize, isize)>,
}

impl Run {
    fn at(&self, position: isize) -> SequenceNumber {
        self.seqs[(position + self.prepended) as usize]
    }

    /// Moves the window; `added` and `removed` are ascending. False if the new list is no stretch that this run can
    /// hold; then the caller starts another.
    fn change(&mut self, added: &[SequenceNumber], removed: &[SequenceNumber]) -> bool {
        let mut removed = removed;
        while let Some((first, rest)) = removed.split_first()
            && self.low < self.high
            && self.at(self.low) == *first
        {
            self.low += 1;
            removed = rest;
        }
        while let Some((last, rest)) = removed.split_last()
            && self.low < self.high
            && self.at(self.high - 1) == *last
        {
            self.high -= 1;
            removed = rest;
        }
        // What was added and removed at one boundary never was in the list; it cannot happen, see `Builder::run`.
        removed.is_empty() && self.extend(added)
    }

    fn extend(&mut self, added: &[SequenceNumber]) -> bool {
        if added.is_empty() {
            return true;
        }
        if self.low == self.high {
            return false;
        }
        let older = added.partition_point(|&s| s < self.at(self.low));
        let (older, newer) = added.split_at(older);
        let front = -self.prepended;
        let back = self.seqs.len() as isize + front;
        let fits = (older.is_empty() || self.low == front)
            && (newer.is_empty() || self.high == back && newer[0] > self.at(self.high - 1));
        if fits {
            for &seq in older.iter().rev() {
                self.seqs.push_front(seq);
            }
            self.prepended += older.len() as isize;
            self.low -= older.len() as isize;
            self.seqs.extend(newer);
            self.high += newer.len() as isize;
        }
        fits
    }

    fn restart(&mut self, seqs: impl Iterator<Item = SequenceNumber>) {
        self.seqs.extend(seqs);
        self.high = self.seqs.len() as isize;
    }

    fn record(&mut self, boundary: u32) {
        self.windows.push((boundary, self.low, self.high));
    }

    /// Writes the stretch, newest first, and the fragments that look at it; then is empty.
    fn flush(&mut self, out: &mut FragmentedRangeTombstones) {
        let back = self.seqs.len() as isize - self.prepended;
        let base = out.seqs.len();
        if !self.windows.is_empty() {
            out.seqs.extend(self.seqs.iter().rev());
        }
        out.slots.extend(self.windows.iter().map(|&(boundary, low, high)| Slot {
            boundary,
            seq_count: u32::try_from(high - low).expect("fewer than 2^32 tombstones fit in memory"),
            seq_at: base + (back - high) as usize,
            newest: self.seqs[(high - 1 + self.prepended) as usize],
        }));
        self.seqs.clear();
        self.windows.clear();
        (self.prepended, self.low, self.high) = (0, 0, 0);
    }
}

/// Where a tombstone starts or ends.
struct Edge<'a> {
    key: &'a [u8],
    seq: SequenceNumber,
    is_end: bool,
}

fn sorted_edges<'a>(tombstones: &[RangeTombstoneRef<'a>], icmp: &InternalKeyComparator) -> Vec<Edge<'a>> {
    let mut edges = Vec::with_capacity(2 * tombstones.len());
    for t in tombstones {
        edges.push(Edge { key: t.start, seq: t.seq, is_end: false });
        edges.push(Edge { key: t.end, seq: t.seq, is_end: true });
    }
    edges.sort_unstable_by(|a, b| icmp.compare_user_keys(a.key, b.key).then(a.is_end.cmp(&b.is_end)));
    edges
}

#[cfg(test)]
mod tests;
