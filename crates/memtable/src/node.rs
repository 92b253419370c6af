//! One node of the tree, and how its readers and its one writer share it.
//!
//! In: records (in inner nodes: separators with children) at places found by search. Out: the first
//! record at or after a target, the child to go down to, or a copy of all record addresses; to any
//! number of threads while one inserts. Here: layout and reading · `lookup.rs`: one key in a leaf ·
//! `insert.rs`: writing · `run.rs`: copies of leaves · `heads.rs`: the numbers compared first.
//!
//! ```text
//! link: next | count      dead    leaves: gaps    latch    covered      in one line
//! prefix    level
//! heads   [ 8 key bytes after the prefix ]  sorted           searched first
//! records [ address ]                       in step with it  asked if heads are equal, and last
//! children[ address, dead for whom ]        inner nodes only
//! ```
//!
//! An insert makes room from the right: it copies the last slot one to the right and raises the
//! count. It copies the others from right to left, each slot's words only after all words of the
//! slot to its right. It writes its own slot last. All stores are releases, all loads of readers
//! acquires.
//!
//! Invariants
//!  1. Between two splits of a node the content of a slot only gets smaller (in key order). A
//!     record in the node stays in it, in its slot or further right. So a reader that goes from
//!     left to right misses no record that was there when it began. It may meet a record twice, or
//!     newer ones out of order.
//!  2. A split changes `next`, which never returns to an earlier value, in the same store that
//!     lowers the count; no slot of the part that went is overwritten before that. If a reader of a
//!     leaf finds `next` unchanged at its end, it has seen no such slot. Thus readers never wait,
//!     and search again only in a leaf that has split meanwhile.
//!  3. `link`'s count slots hold complete records, at all times also those beyond it that were ever
//!     used.
//!  4. Every record of a node is at or after its first one, the low fence. That never changes,
//!     except in the leftmost node of a level. The low fence of `next` bounds the records from
//!     above. Nodes are never merged or freed.
//!  5. Heads are a monotone image of keys whatever the prefix: equal heads say nothing. Prefix,
//!     level and the address of the children are written before the node can be reached.
//!  6. In an inner node, a reader finds a separator at or before the target, and then reads the
//!     slot's child. That child starts at or before the target (by 1, also across splits): going
//!     right from there finds everything.
//!  7. `store_child` clears the words of a slot before it changes the slot's child, and sets them
//!     after. A child that has left a slot does not come back to it. So words read between two
//!     reads of one child are about that child.

mod heads;
mod insert;
mod lookup;
mod run;

pub(crate) use heads::prefetch_line;
pub(crate) use insert::{LatchedNode, NodeInsert};
pub(crate) use lookup::{Guess, Here};
pub(crate) use run::LeafRun;

use crate::arena::Arena;
use crate::record::{Record, Target};
use crate::summaries::covered::{CoveredSummary, Gap, Gaps};
use crate::summaries::deleted::{DeletedSummary, SnapshotRange, Words};
use esker_base::Result;
use esker_base::comparator::KeyOrder;
use esker_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use esker_base::sync::{Mutex, MutexGuard};
use esker_format::key::InternalKeyComparator;
use heads::{head_in_node, shared_prefix, spare_one};
use insert::Trend;
use std::alloc::Layout;
use std::cmp;
use std::hint::select_unpredictable;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// The count of a link takes these bits of an address.
const COUNT_MASK: usize = 127;
/// The longest prefix that a node can leave out of its heads.
const MAX_PREFIX: usize = 30;

/// Reads a word that only latch holders write; the reader holds the latch.
macro_rules! own {
    ($word:expr) => {{
        #[cfg(not(loom))]
        let value = $word.load(Ordering::Relaxed);
        // For loom an atomic load hides earlier accesses by other threads from its search.
        #[cfg(loom)]
        // SAFETY: only the latch holder writes it; loom checks that.
        let value = unsafe { $word.unsync_load() };
        value
    }};
}

pub(crate) use own;

/// The parts of an inner node's slots beside the separators.
struct Children<const N: usize> {
    /// These fields have cache lines of their own, because every lookup reads them.
    nodes: [AtomicPtr<Node<N>>; N],
    /// The snapshots for which the child is dead, with the nodes split off it that are not known
    /// here yet.
    dead: [Words; N],
}

/// A node with up to `N` slots.
#[repr(C, align(128))]
pub(crate) struct Node<const N: usize> {
    link: AtomicPtr<Node<N>>,
    /// This field is in the link's line, which a reader that moves along a level reads.
    dead: DeletedSummary,
    own: Own<N>,
    /// Eight bytes: four for the futex, four for the trend.
    latch: Mutex<Trend>,
    /// This field is in a line that every lookup reads.
    covered: CoveredSummary,
    prefix: [u8; MAX_PREFIX],
    prefix_len: u8,
    level: u8,
    heads: [AtomicU64; N],
    records: [AtomicPtr<u8>; N],
}

/// A word that leaves use for one thing and inner nodes for another.
union Own<const N: usize> {
    /// Leaves.
    gaps: ManuallyDrop<Gaps>,
    /// The children of an inner node.
    children: *const Children<N>,
}

/// The node to the right, and how many slots are in use.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link<const N: usize>(*mut Node<N>);

impl<const N: usize> Link<N> {
    fn new(next: *mut Node<N>, count: usize) -> Link<N> {
        debug_assert!(next.addr() & COUNT_MASK == 0 && count <= N);
        Link(next.map_addr(|address| address | count))
    }
    #[inline]
    fn count(self) -> usize {
        self.0.addr() & COUNT_MASK
    }
    #[inline]
    fn next(self) -> *mut Node<N> {
        self.0.map_addr(|address| address & !COUNT_MASK)
    }
}

/// The content of a slot.
#[derive(Clone, Copy)]
struct Slot<const N: usize> {
    head: u64,
    record: *mut u8,
    child: *mut Node<N>,
}

impl<const N: usize> Slot<N> {
    const EMPTY: Slot<N> = Slot { head: 0, record: ptr::null_mut(), child: ptr::null_mut() };
}

impl<'t, const N: usize> Node<N> {
    /// An empty leaf.
    /// # Errors
    /// `Aborted` with `MemoryLimit`.
    pub(crate) fn leaf(arena: &'t Arena) -> Result<&'t Node<N>> {
        Node::build(
            arena,
            0,
            &[],
            &[],
            ptr::null_mut(),
            (DeletedSummary::empty(), CoveredSummary::none(), Gaps::none()),
        )
    }

    /// An inner node with one child, which takes everything; a separator like `separator` will come
    /// next.
    /// # Errors
    /// `Aborted` with `MemoryLimit`.
    pub(crate) fn above(
        below: &'t Node<N>,
        arena: &'t Arena,
        icmp: &InternalKeyComparator,
        separator: Record<'t>,
    ) -> Result<&'t Node<N>> {
        let from = usize::from(below.level > 0);
        let prefix = match below.count() > from && icmp.order() != KeyOrder::Custom {
            true => shared_prefix(below.record::<false>(from).user_key(), separator.user_key()),
            false => &[],
        };
        let slot = Slot { child: ptr::from_ref(below).cast_mut(), ..Slot::EMPTY };
        Node::build(
            arena,
            below.level + 1,
            spare_one(prefix),
            &[slot],
            ptr::null_mut(),
            (DeletedSummary::unknown(), CoveredSummary::none(), Gaps::none()),
        )
    }

    /// A new node that no reader can reach yet.
    fn build(
        arena: &'t Arena,
        level: u8,
        prefix: &[u8],
        slots: &[Slot<N>],
        next: *mut Node<N>,
        (dead, covered, gaps): (DeletedSummary, CoveredSummary, Gaps),
    ) -> Result<&'t Node<N>> {
        assert!(size_of::<Node<N>>() <= 1 << 16 && N >= 2 && N < COUNT_MASK, "the count fits its bits");
        let slot = |i: usize| slots.get(i).copied().unwrap_or(Slot::EMPTY);
        let own = if level == 0 {
            Own { gaps: ManuallyDrop::new(gaps) }
        } else {
            let place = arena.allocate_node(Layout::new::<Children<N>>())?.cast::<Children<N>>();
            let children = Children {
                nodes: std::array::from_fn(|i| AtomicPtr::new(slot(i).child)),
                dead: std::array::from_fn(|_| Words::new(SnapshotRange::NONE)),
            };
            // SAFETY: fresh memory of this layout, ours alone.
            unsafe { place.write(children) };
            Own { children: place.as_ptr().cast_const() }
        };
        let mut prefix_bytes = [0; MAX_PREFIX];
        prefix_bytes[..prefix.len()].copy_from_slice(prefix);
        let place = arena.allocate_node(Layout::new::<Node<N>>())?.cast::<Node<N>>();
        let node = Node {
            link: AtomicPtr::new(Link::new(next, slots.len()).0),
            dead,
            own,
            latch: Mutex::new(Trend::new::<N>()),
            covered,
            prefix: prefix_bytes,
            prefix_len: prefix.len() as u8,
            level,
            heads: std::array::from_fn(|i| AtomicU64::new(slot(i).head)),
            records: std::array::from_fn(|i| AtomicPtr::new(slot(i).record)),
        };
        // SAFETY: fresh memory of this layout, ours alone.
        unsafe { place.write(node) };
        // SAFETY: just written; it stays for as long as the arena.
        Ok(unsafe { place.as_ref() })
    }

    /// The node at `place`, or `None` for null.
    ///
    /// # Safety
    /// `place` was read from a link, child or root of a tree that outlives `'t`.
    #[inline]
    pub(crate) unsafe fn from_ptr(place: *mut Node<N>) -> Option<&'t Node<N>> {
        // SAFETY: such addresses are null or lead to nodes, which are complete before their address
        // is stored and stay until the arena is dropped (invariants 4 and 5).
        unsafe { place.as_ref() }
    }

    /// 0 for a leaf.
    #[inline]
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// Number of slots in use.
    pub(crate) fn count(&self) -> usize {
        self.load_link().count()
    }

    /// Leaves: whether nothing was ever inserted here. A leaf may be without records briefly when
    /// it has given all of them to its right neighbour, so the count alone does not decide.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.load_link().0.is_null()
    }

    /// The snapshots for which the node has no visible record.
    #[inline]
    pub(crate) fn dead(&self) -> &Words {
        &self.dead.words
    }

    /// Leaves: `dead`, invariant 3.
    #[inline]
    pub(crate) fn head_since(&self) -> &AtomicU64 {
        &self.dead.head_since
    }

    /// Inner nodes: for which snapshots child `at`, as far as it is known here, holds nothing.
    /// REQUIRES: the latch.
    pub(crate) fn dead_child(&'t self, at: usize) -> &'t Words {
        &self.children().dead[at]
    }

    /// Inner nodes: child `at` and the known start behind it, if a reader at this snapshot finds
    /// nothing between the two. `None`: not known here.
    #[inline]
    pub(crate) fn dead_beside(
        &'t self,
        at: usize,
        snapshot: u64,
    ) -> Option<(&'t Node<N>, Option<&'t Node<N>>)> {
        let children = self.children();
        let (place, dead) = (children.nodes.get(at)?, &children.dead[at]);
        let child = place.load(Ordering::Acquire);
        if !dead.at(snapshot) {
            return None;
        }
        // The neighbour is read after the words: they hold up to the child that was beside this one
        // at that time. A child that has come between them since begins before that.
        let link = self.load_link();
        let next = match at + 1 {
            behind if behind < link.count() => Some(self.child(behind)),
            behind if behind == link.count() => self.neighbour(link).map(|next| next.child(0)),
            _ => return None,
        };
        // By invariant 7 the words and the neighbour are this child's if the slot still has it. If
        // a split moved the child away, the slot behind it is in use again only after this slot has
        // another child.
        if place.load(Ordering::Acquire) != child {
            return None;
        }
        // SAFETY: children are nodes of the same tree, which lives as long as this one.
        Some((unsafe { Node::from_ptr(child) }?, next))
    }

    /// Inner nodes: the child that begins behind child `at`, this node's or its neighbour's first.
    /// REQUIRES: the latch.
    pub(crate) fn child_after(&'t self, at: usize) -> Option<&'t Node<N>> {
        if at + 1 < self.own_link().count() {
            return Some(self.child(at + 1));
        }
        self.next().map(|next| next.child(0))
    }

    /// Inner nodes: the place of the child that `target` is in as far as is known here. REQUIRES:
    /// the latch, taken for `target`.
    pub(crate) fn own_place_below(&'t self, icmp: &InternalKeyComparator, target: &Target<'_>) -> usize {
        let head = self.head_of(icmp.order(), target.user_key);
        self.search::<true>(icmp, target, head, true, 1, self.own_link().count()) - 1
    }

    /// The summary of range tombstones that reach into it.
    #[inline]
    pub(crate) fn covered(&self) -> &CoveredSummary {
        &self.covered
    }

    /// Leaves: between which of its records range tombstones lie.
    #[inline]
    pub(crate) fn gaps(&self) -> &Gaps {
        assert!(self.level == 0, "an inner node has children instead");
        // SAFETY: a leaf is made with gaps (`build`), and a node's kind never changes.
        unsafe { &self.own.gaps }
    }

    /// The first record of its leftmost leaf, which is not empty.
    pub(crate) fn first_record(&'t self) -> Record<'t> {
        let mut node = self;
        while node.level > 0 {
            node = node.child(0);
        }
        node.record::<false>(0)
    }

    /// Latches this very node, whichever keys belong to it.
    pub(crate) fn latch_here(&'t self) -> LatchedNode<'t, N> {
        let trend = self.latch.lock();
        LatchedNode { node: self, trend, at: 0 }
    }

    /// Leaves: the first slot from `from` on whose record is not before `target`, or the count.
    /// REQUIRES: the latch.
    pub(crate) fn own_place_of(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        from: usize,
    ) -> usize {
        let count = self.own_link().count();
        let head = self.head_of(icmp.order(), target.user_key);
        if from < count && self.head::<true>(from) > head {
            return from;
        }
        self.search::<true>(icmp, target, head, false, from, count)
    }

    /// Leaves: the gap before slot `at`, which may be the count. REQUIRES: the latch.
    #[inline]
    pub(crate) fn own_gap_before(&self, at: usize) -> Gap {
        if at < self.own_link().count() { Gap::before(own!(self.heads[at])) } else { Gap::BEHIND_ALL }
    }

    /// Leaves: whether the record of slot `at` has the target's user key. REQUIRES: the latch.
    pub(crate) fn own_is_at(&'t self, icmp: &InternalKeyComparator, at: usize, target: &Target<'_>) -> bool {
        at < self.own_link().count()
            && own!(self.heads[at]) == self.head_of(icmp.order(), target.user_key)
            && icmp.same_user_key(self.record::<true>(at).user_key(), target.user_key)
    }

    /// Leaves: the gap before a record of this leaf.
    pub(crate) fn gap_before(&self, icmp: &InternalKeyComparator, record: Record<'_>) -> Gap {
        Gap::before(self.head_of(icmp.order(), record.user_key()))
    }

    /// Inner nodes: from the child that leads to `target` on, all children with where they begin;
    /// the leftmost of a level begins before everything. REQUIRES: the latch.
    pub(crate) fn own_children_from(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
    ) -> Vec<(Option<Record<'t>>, &'t Node<N>)> {
        let count = self.own_link().count();
        let from = self.own_place_below(icmp, target);
        let begins_at = |at: usize| {
            let place = NonNull::new(own!(self.records[at]))?;
            // SAFETY: records are complete before their address is stored and stay for as long as
            // the arena.
            Some(unsafe { Record::from_ptr(place) })
        };
        (from..count).map(|at| (begins_at(at), self.child(at))).collect()
    }

    /// Leaves: all records. REQUIRES: the latch.
    pub(crate) fn own_records(&'t self) -> impl Iterator<Item = Record<'t>> {
        (0..self.own_link().count()).map(|at| self.record::<true>(at))
    }

    /// The last record. REQUIRES: the latch; it is not empty.
    pub(crate) fn own_last_record(&'t self) -> Record<'t> {
        self.record::<true>(self.own_link().count() - 1)
    }

    /// The node to the right.
    pub(crate) fn next(&'t self) -> Option<&'t Node<N>> {
        self.neighbour(self.load_link())
    }

    /// The node that a link of this node leads to.
    #[inline]
    fn neighbour(&'t self, link: Link<N>) -> Option<&'t Node<N>> {
        // SAFETY: links lead to nodes of the same tree, which lives as long as this one.
        unsafe { Node::from_ptr(link.next()) }
    }

    #[inline]
    fn load_link(&self) -> Link<N> {
        Link(self.link.load(Ordering::Acquire))
    }

    /// The link, for the latch holder.
    #[inline]
    fn own_link(&self) -> Link<N> {
        Link(own!(self.link))
    }

    /// The head of a slot; `OWN` for the latch holder.
    #[inline]
    fn head<const OWN: bool>(&self, at: usize) -> u64 {
        if OWN { own!(self.heads[at]) } else { self.heads[at].load(Ordering::Acquire) }
    }

    /// The record of a slot that is or was in use; never called for slot 0 of a leftmost inner
    /// node. `OWN` for the latch holder.
    #[inline]
    fn record<const OWN: bool>(&'t self, at: usize) -> Record<'t> {
        let place = if OWN { own!(self.records[at]) } else { self.records[at].load(Ordering::Acquire) };
        let place = NonNull::new(place).expect("a used slot has a record");
        // SAFETY: records are complete before their address is stored and stay for as long as the
        // arena.
        unsafe { Record::from_ptr(place) }
    }

    #[inline]
    fn children(&'t self) -> &'t Children<N> {
        debug_assert!(self.level > 0);
        // SAFETY: an inner node is made with children (`build`), and a node's kind never changes.
        let children = unsafe { self.own.children };
        // SAFETY: set at creation of an inner node, to memory that stays as long as the node.
        unsafe { &*children }
    }

    /// Child `at` of an inner node.
    pub(crate) fn child(&'t self, at: usize) -> &'t Node<N> {
        let child = self.children().nodes[at].load(Ordering::Acquire);
        // SAFETY: children are nodes of the same tree, which lives as long as this one.
        unsafe { Node::from_ptr(child) }.expect("a used slot of an inner node has a child")
    }

    /// The first record of this node, which is not the leftmost of its level.
    pub(crate) fn low_fence(&'t self) -> Record<'t> {
        self.record::<false>(0)
    }

    /// Whether all of this node, which is not the leftmost of its level, lies after `target`; at it
    /// counts as after unless `inclusive`.
    pub(crate) fn starts_after(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        inclusive: bool,
    ) -> bool {
        !is_before(icmp, self.record::<false>(0), target, inclusive)
    }

    /// The head of this key in this node (invariant 5).
    #[inline]
    fn head_of(&self, order: KeyOrder, user_key: &[u8]) -> u64 {
        head_in_node(&self.prefix, self.prefix_len.into(), order, user_key)
    }

    /// A place such that everything left of it was, and is, before `target`. Without concurrent
    /// inserts it is the first place that is not. Searches slots `from..count`.
    #[inline]
    fn search<const OWN: bool>(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        head: u64,
        inclusive: bool,
        from: usize,
        count: usize,
    ) -> usize {
        let at = self.search_heads::<OWN>(head, from, count);
        self.search_behind::<OWN>(icmp, target, head, inclusive, at, count)
    }

    /// The first of the slots `from..count` whose head is not below `head`.
    #[inline]
    fn search_heads<const OWN: bool>(&'t self, head: u64, from: usize, count: usize) -> usize {
        let mut at = from;
        let mut size = count.saturating_sub(from);
        while size > 1 {
            let half = size / 2;
            at = select_unpredictable(self.head::<OWN>(at + half - 1) < head, at + half, at);
            size -= half;
        }
        if size == 1 && self.head::<OWN>(at) < head { at + 1 } else { at }
    }

    /// The rest of `search`, when no head before `at` can be that of a record at or after the
    /// target. A function of its own, so that the compiler inlines more of it: otherwise a lookup
    /// takes 41 instructions more.
    #[inline(always)]
    fn search_behind<const OWN: bool>(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        head: u64,
        inclusive: bool,
        at: usize,
        count: usize,
    ) -> usize {
        if at >= count
            || self.head::<OWN>(at) != head
            || !is_before(icmp, self.record::<OWN>(at), target, inclusive)
        {
            return at;
        }
        self.search_among_equals::<OWN>(icmp, target, head, inclusive, at + 1, count)
    }

    /// The rest of `search` if the heads do not decide.
    fn search_among_equals<const OWN: bool>(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        head: u64,
        inclusive: bool,
        from: usize,
        count: usize,
    ) -> usize {
        let (mut low, mut high) = (from, count);
        while low < high {
            let middle = low + (high - low) / 2;
            let before = match self.head::<OWN>(middle).cmp(&head) {
                cmp::Ordering::Less => true,
                cmp::Ordering::Equal => is_before(icmp, self.record::<OWN>(middle), target, inclusive),
                cmp::Ordering::Greater => false,
            };
            (low, high) = if before { (middle + 1, high) } else { (low, middle) };
        }
        low
    }

    /// Inner nodes: the child that leads to `target`, and its slot. If not `inclusive`, the child
    /// with the position just before `target`. The child begins at or before it; its right
    /// neighbours may begin so too.
    #[inline]
    pub(crate) fn descend(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        inclusive: bool,
    ) -> (&'t Node<N>, usize, usize) {
        let (node, at, count) = self.way_down(icmp, target, inclusive);
        (node.child(at), at, count)
    }

    /// Inner nodes: this node or a right neighbour, whichever has `target` in its range; the place
    /// of the child that leads to it, and the number of children.
    #[inline(always)]
    pub(crate) fn way_down(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        inclusive: bool,
    ) -> (&'t Node<N>, usize, usize) {
        let mut node = self;
        loop {
            let link = node.load_link();
            let count = link.count();
            let head = node.head_of(icmp.order(), target.user_key);
            let at = node.search::<false>(icmp, target, head, inclusive, 1, count);
            if at == count
                && let Some(next) = node.neighbour(link)
                && !next.starts_after(icmp, target, inclusive)
            {
                node = next;
                continue;
            }
            return (node, at - 1, count);
        }
    }

    /// Leaves: copies the addresses of its records, in order. Gives the place in the copy of the
    /// first record at or behind `target`; only behind it if `inclusive`.
    pub(crate) fn copy_and_find(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        inclusive: bool,
        run: &mut LeafRun<N>,
    ) -> usize {
        self.copy_to(icmp, run);
        let link = self.load_link();
        let head = self.head_of(icmp.order(), target.user_key);
        let at = self.search::<false>(icmp, target, head, inclusive, 0, link.count());
        // A full copy means that the slots rested since it was made, if the link did: see `put`.
        let rested = run.len == link.count() && run.next == link.next() && self.load_link() == link;
        if rested { at } else { run.find(icmp, target, inclusive) }
    }

    /// Leaves: copies the addresses of its records, in order.
    pub(crate) fn copy_to(&self, icmp: &InternalKeyComparator, run: &mut LeafRun<N>) {
        loop {
            let link = self.load_link();
            let (mut now, mut count) = (link, 0);
            while count < now.count() {
                let slots = count..now.count();
                for (place, record) in run.records[slots.clone()].iter_mut().zip(&self.records[slots]) {
                    *place = record.load(Ordering::Acquire);
                }
                count = now.count();
                now = self.load_link();
            }
            if now.next() != link.next() {
                continue;
            }
            run.len = count;
            run.next = link.next();
            run.leaf = self;
            run.drop_twins();
            if now != link {
                // More than one insert passed by: the copy has all it must have, and perhaps newer
                // ones between.
                run.drop_out_of_order(icmp);
            }
            return;
        }
    }

    /// Prefetches all lines that a search may read at once, so that the search waits once.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let start = ptr::from_ref(self).cast::<u8>();
        for line in 0..size_of::<Node<N>>().div_ceil(64) {
            prefetch_line(start.wrapping_add(line * 64));
        }
    }

    /// [`prefetch`](Self::prefetch) without the addresses of the records: a search through many
    /// nodes side by side fetches an address once it is chosen, and keeps half as many lines in
    /// flight.
    #[inline]
    pub(crate) fn prefetch_heads(&self) {
        let start = ptr::from_ref(self).cast::<u8>();
        for line in 0..std::mem::offset_of!(Node<N>, records).div_ceil(64) {
            prefetch_line(start.wrapping_add(line * 64));
        }
    }

    /// Inner nodes: whether this is child `at`.
    #[inline]
    pub(crate) fn leads_to(&self, at: usize, node: &Node<N>) -> bool {
        at < self.count() && ptr::eq(self.children().nodes[at].load(Ordering::Relaxed), node)
    }

    /// Latches the node, this one or one to its right, that `target` belongs to.
    pub(crate) fn latch_for(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
    ) -> LatchedNode<'t, N> {
        self.latch_by(icmp, target, |latch| Some(latch.lock())).expect("waited for")
    }

    /// [`latch_for`](Self::latch_for) for a reader, which waits for no writer: `None` if a latch is
    /// not free.
    pub(crate) fn try_latch_for(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
    ) -> Option<LatchedNode<'t, N>> {
        self.latch_by(icmp, target, Mutex::try_lock)
    }

    #[inline(always)]
    fn latch_by(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        lock: impl Fn(&'t Mutex<Trend>) -> Option<MutexGuard<'t, Trend>>,
    ) -> Option<LatchedNode<'t, N>> {
        let mut node = self;
        loop {
            let trend = lock(&node.latch)?;
            let link = node.own_link();
            let head = node.head_of(icmp.order(), target.user_key);
            let from = usize::from(node.level > 0);
            let at = node.search::<true>(icmp, target, head, false, from, link.count());
            match node.neighbour(link) {
                Some(next) if at == link.count() && !next.starts_after(icmp, target, true) => node = next,
                _ => return Some(LatchedNode { node, trend, at }),
            }
        }
    }
}

#[inline(always)]
fn is_before(icmp: &InternalKeyComparator, record: Record<'_>, target: &Target<'_>, inclusive: bool) -> bool {
    match target.cmp_record(icmp, record) {
        cmp::Ordering::Less => true,
        cmp::Ordering::Equal => inclusive,
        cmp::Ordering::Greater => false,
    }
}

#[cfg(test)]
mod tests;
