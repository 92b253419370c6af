//! The directory of leaves: a sorted array that lookups read without a lock.
//!
//! In: a span of keys. Out: the leaves that the span touches. A change replaces the whole array. A
//! reader may still use a replaced array: each leaf tells, under its latch, whether it was removed.
//!
//! Invariants
//!  1. Leaves lie side by side from Min to Max: `leaves[i]` ends where `leaves[i + 1]` starts, at
//!     `bounds[i]`.
//!  2. A directory never changes. A thread publishes a new one under `Stripe::structure`, and under
//!     the latches of the leaves that the new one lacks.

use crate::cut::{CutBuf, CutOrder, KeySpan};
use crate::leaf::{Leaf, LeafState};
#[cfg(any(loom, shuttle))]
use esker_base::sync::RwLock;
#[cfg(not(any(loom, shuttle)))]
use esker_base::sync::epoch::{Swap, pin};
use esker_base::sync::{Arc, Mutex};
use std::ops::Range;

/// The leaves of a stripe, and the bounds between them.
#[derive(Debug)]
pub(crate) struct LeafDirectory {
    heads: Heads,
    bounds: Vec<CutBuf>,
    pub(crate) leaves: Vec<Arc<Leaf>>,
}

impl LeafDirectory {
    /// Makes a directory of empty leaves. `bounds` must be sorted and distinct.
    pub(crate) fn new(order: &CutOrder, bounds: Vec<CutBuf>) -> LeafDirectory {
        let los = std::iter::once(CutBuf::MIN).chain(bounds.iter().cloned());
        let his = bounds.iter().cloned().chain([CutBuf::MAX]);
        let leaves = los.zip(his).map(|(lo, hi)| Arc::new(Leaf::new(lo, hi, LeafState::default()))).collect();
        LeafDirectory::of(order, bounds, leaves)
    }

    fn of(order: &CutOrder, bounds: Vec<CutBuf>, leaves: Vec<Arc<Leaf>>) -> LeafDirectory {
        let heads = Heads::new(bounds.iter().map(|b| order.head(b.as_cut())).collect());
        LeafDirectory { heads, bounds, leaves }
    }

    /// Finds the indexes of the leaves that `span` touches. `span` must not be empty.
    #[inline]
    pub(crate) fn touched(&self, order: &CutOrder, span: KeySpan<'_>) -> Range<usize> {
        let head = order.head(span.lo);
        let less = self.heads.count_below(head);
        let heads = &self.heads.sorted;
        // The next bound lies behind the span. The heads alone show this in most cases.
        if heads.get(less).is_none_or(|next| *next > order.head(span.hi)) {
            return less..less + 1;
        }
        // Among bounds with an equal head, skip those at or before `lo`. Mostly there are none. In
        // a custom order all heads are equal.
        let equal = match heads.get(less) {
            Some(h) if *h == head => heads[less..].partition_point(|h| *h == head),
            _ => 0,
        };
        let is_left = |bound: &CutBuf| order.cmp(bound.as_cut(), span.lo).is_le();
        let first = less + self.bounds[less..less + equal].partition_point(is_left);
        let mut last = first;
        while self.bounds.get(last).is_some_and(|b| order.cmp(b.as_cut(), span.hi).is_lt()) {
            last += 1;
        }
        first..last + 1
    }

    /// Makes a copy of this directory with the leaf at `index` cut in two.
    pub(crate) fn with_split(
        &self,
        order: &CutOrder,
        index: usize,
        at: CutBuf,
        left: Leaf,
        right: Leaf,
    ) -> LeafDirectory {
        let mut bounds = self.bounds.clone();
        bounds.insert(index, at);
        let mut leaves = self.leaves.clone();
        leaves.splice(index..=index, [Arc::new(left), Arc::new(right)]);
        LeafDirectory::of(order, bounds, leaves)
    }
}

/// The heads (`CutOrder::head`) of all bounds. A head decides most comparisons without a read of
/// the bound. The table `starts` gives the place where a search begins: a binary search would
/// mispredict every other branch.
#[derive(Debug)]
struct Heads {
    sorted: Vec<u64>,
    /// For each slot, the number of heads in all slots before. One more entry closes the last slot.
    starts: Vec<u32>,
    shift: u32,
}

impl Heads {
    /// Number of slots of the table `starts` for each bound.
    const SLOTS_PER_HEAD: usize = 4;

    fn new(sorted: Vec<u64>) -> Heads {
        let slots = (sorted.len() * Heads::SLOTS_PER_HEAD).next_power_of_two();
        let width = match (sorted.first(), sorted.last()) {
            (Some(first), Some(last)) => last - first,
            _ => 0,
        };
        let shift = (u64::BITS - width.leading_zeros()).saturating_sub(slots.trailing_zeros());
        let mut heads = Heads { sorted, starts: Vec::new(), shift };
        let slot_of = |head: &u64| heads.slot(*head, slots);
        heads.starts = (0..=slots)
            .map(|slot| heads.sorted.partition_point(|head| slot_of(head) < slot) as u32)
            .collect();
        heads
    }

    /// The slot of a head. A greater head has the same slot or a later one. The last slot also has
    /// all heads beyond it.
    #[inline]
    fn slot(&self, head: u64, slots: usize) -> usize {
        let distance = head.saturating_sub(self.sorted.first().copied().unwrap_or(0));
        ((distance >> self.shift) as usize).min(slots - 1)
    }

    /// The number of heads below `head`.
    #[inline]
    fn count_below(&self, head: u64) -> usize {
        let slot = self.slot(head, self.starts.len() - 1);
        let (start, end) = (self.starts[slot] as usize, self.starts[slot + 1] as usize);
        start + self.sorted[start..end].partition_point(|h| *h < head)
    }
}

/// A directory, and the lock under which it changes. A family for ranges has one stripe. A family
/// for points has `POINT_STRIPES` of them; the hash of a key selects one.
#[derive(Debug)]
pub(crate) struct Stripe {
    published: Published,
    /// Held while a leaf is split, and while a thread visits all leaves. Taken before any latch.
    pub(crate) structure: Mutex<()>,
}

#[cfg(not(any(loom, shuttle)))]
type Published = Swap<LeafDirectory>;
/// In models a lock takes the place of the epoch guard, which has models of its own.
#[cfg(any(loom, shuttle))]
type Published = RwLock<Arc<LeafDirectory>>;

impl Stripe {
    pub(crate) fn new(directory: LeafDirectory) -> Stripe {
        let directory = Arc::new(directory);
        Stripe { published: Published::new(directory), structure: Mutex::new(()) }
    }

    /// Calls `f` with the directory. `f` must not sleep, except for latches.
    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&LeafDirectory) -> R) -> R {
        let guard = pin();
        f(self.published.load(&guard))
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&LeafDirectory) -> R) -> R {
        let directory = self.published.read().clone();
        f(&directory)
    }

    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn publish(&self, directory: LeafDirectory) {
        self.published.store(Arc::new(directory));
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn publish(&self, directory: LeafDirectory) {
        *self.published.write() = Arc::new(directory);
    }
}
