//! One node of the tree, and how its readers and its one writer share it.
//!
//! In: records (in inner nodes: separators with children) at places found by search. Out: the first record at or
//! after a target, the child to go down to, or a copy of all record addresses; to any number of threads while one
//! inserts.
//!
//! ```text
//! link: next | count      latch      level   prefix
//! heads   [ 8 key bytes after the prefix ]  sorted           searched first
//! records [ address ]                       in step with it  asked when heads are equal, and for the answer
//! children[ address ]                       inner nodes only
//! ```
//!
//! An insert makes room from the right: it copies the last slot one to the right, raises the count, copies the others
//! from right to left, each slot's words only after all words of the slot to its right, and writes its own slot last.
//! All stores are releases, all loads of readers acquires.
//!
//! Invariants
//!  1. Between two splits of a node the content of a slot only gets smaller (in key order), and what was in the node
//!     stays in it, in its slot or further right. So a reader that goes from left to right misses nothing that was
//!     there when it began, though it may meet a record twice, or newer ones out of order.
//!  2. A split changes `next`, which never returns to an earlier value, in the same store that lowers the count; no
//!     slot of the part that went is overwritten before that. A reader of a leaf that finds `next` as it was when it
//!     began has seen no such slot. Thus readers never wait, and search again only in a leaf that has split meanwhile.
//!  3. `link`'s count slots hold complete records, at all times also those beyond it that were ever used.
//!  4. Every record of a node is at or after its first one, its low fence, which for all but the leftmost node of a
//!     level never changes; the low fence of `next` bounds it from above. Nodes are never merged or freed.
//!  5. Heads are a monotone image of keys whatever the prefix: equal heads say nothing. Prefix, level and the
//!     address of the children are written before the node can be reached.
//!  6. In an inner node the child read from a slot after its separator was found at or before the target starts at
//!     or before the target (by 1, also across splits): going right from there finds everything.

use crate::arena::Arena;
use crate::dead::{self, After, Dead, Deaths};
use crate::record::{Record, Target};
use esker_base::Result;
use esker_base::comparator::KeyOrder;
use esker_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use esker_base::sync::{Mutex, MutexGuard};
use esker_format::key::InternalKeyComparator;
use std::alloc::Layout;
use std::cmp;
use std::ptr::{self, NonNull};

/// The count of a link takes these bits of an address.
const COUNT_MASK: usize = 127;
/// The longest prefix that a node can leave out of its heads.
const MAX_PREFIX: usize = 40;
/// A prefix this much longer than the old one is worth computing a new node's heads anew.
const WORTHWHILE: usize = 4;

/// Reads a word that nobody else can write, as the reader holds the latch.
macro_rules! own {
    ($word:expr) => {{
        #[cfg(not(loom))]
        let value = $word.load(Ordering::Relaxed);
        // To loom an atomic load is an access that hides earlier ones by other threads from its search.
        #[cfg(loom)]
        // SAFETY: only who holds the latch writes to it; loom checks that.
        let value = unsafe { $word.unsync_load() };
        value
    }};
}

pub(crate) use own;

type Children<const N: usize> = [AtomicPtr<Node<N>>; N];

/// A node with up to `N` slots.
#[repr(C, align(128))]
pub(crate) struct Node<const N: usize> {
    link: AtomicPtr<Node<N>>,
    /// Null in a leaf.
    children: *const Children<N>,
    latch: Mutex<Trend>,
    level: u8,
    prefix_len: u8,
    prefix: [u8; MAX_PREFIX],
    heads: [AtomicU64; N],
    records: [AtomicPtr<u8>; N],
    dead: Dead,
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

/// Where the last inserts went: a run of neighbours says where the next ones will go.
#[derive(Debug, Default)]
pub(crate) struct Trend {
    last: u8,
    ascending: u8,
    descending: u8,
    deaths: Deaths,
}

impl Trend {
    fn new<const N: usize>() -> Trend {
        let mut trend = Trend::default();
        trend.deaths.await_more(N / 4);
        trend
    }

    fn note(&mut self, at: usize) {
        let last = usize::from(self.last);
        self.ascending = if at == last + 1 { self.ascending.saturating_add(1) } else { 0 };
        self.descending = if at == last { self.descending.saturating_add(1) } else { 0 };
        self.last = at as u8;
    }
}

/// What a slot holds.
#[derive(Clone, Copy)]
struct Slot<const N: usize> {
    head: u64,
    record: *mut u8,
    child: *mut Node<N>,
}

impl<const N: usize> Slot<N> {
    const EMPTY: Slot<N> = Slot { head: 0, record: ptr::null_mut(), child: ptr::null_mut() };
}

/// Record addresses of one leaf, in order, as a cursor keeps them.
#[derive(Debug)]
pub(crate) struct Run<const N: usize> {
    records: [*mut u8; N],
    len: usize,
    /// The leaf to the right when this was copied.
    next: *mut Node<N>,
}

/// A node whose latch is held.
pub(crate) struct Latched<'t, const N: usize> {
    pub(crate) node: &'t Node<N>,
    trend: MutexGuard<'t, Trend>,
    /// Where the target goes.
    at: usize,
}

/// What became of an insert.
pub(crate) enum Inserted<'t, const N: usize> {
    /// It is in.
    Done,
    /// It is in, and the node was split: this one is new, to the right, and begins with this record.
    Split(&'t Node<N>, Record<'t>),
    /// This very key, sequence and type is there already.
    Duplicate,
}

impl<const N: usize> Run<N> {
    pub(crate) fn new() -> Run<N> {
        Run { records: [ptr::null_mut(); N], len: 0, next: ptr::null_mut() }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The leaf behind the one that was copied, at that time.
    ///
    /// # Safety
    /// The run was loaded from a tree that lives for `'t`.
    #[inline]
    pub(crate) unsafe fn next<'t>(&self) -> Option<&'t Node<N>> {
        // SAFETY: the address of a node of that tree, or null.
        unsafe { Node::from_ptr(self.next) }
    }

    /// The record at place `at`.
    ///
    /// # Safety
    /// The run was loaded from a tree that lives for `'t`.
    ///
    /// # Panics
    /// If `at >= len()`.
    #[inline]
    pub(crate) unsafe fn record<'t>(&self, at: usize) -> Record<'t> {
        let place = NonNull::new(self.records[..self.len][at]).expect("a run holds addresses of records");
        // SAFETY: the address of a record of that tree.
        unsafe { Record::from_ptr(place) }
    }

    /// Asks for the record a few places after `at` to be brought near.
    #[inline]
    pub(crate) fn prefetch_ahead(&self, at: usize) {
        if let Some(&record) = self.records[..self.len].get(at + PREFETCH_DISTANCE) {
            prefetch_record(record);
        }
    }

    /// The same, before `at`.
    #[inline]
    pub(crate) fn prefetch_behind(&self, at: usize) {
        if let Some(before) = at.checked_sub(PREFETCH_DISTANCE) {
            prefetch_record(self.records[before]);
        }
    }

    /// Asks for the first records a cursor that stands at `at` will meet.
    pub(crate) fn prefetch_from(&self, at: usize) {
        for &record in self.records[..self.len].iter().skip(at).take(PREFETCH_DISTANCE) {
            prefetch_record(record);
        }
    }

    /// The place of this very record.
    pub(crate) fn place_of(&self, record: Record<'_>) -> Option<usize> {
        self.records[..self.len].iter().position(|&place| place == record.as_ptr())
    }

    /// The place of the first record that is not before `target`, or at it if `inclusive`.
    pub(crate) fn find(&self, icmp: &InternalKeyComparator, target: &Target<'_>, inclusive: bool) -> usize {
        self.records[..self.len].partition_point(|&place| {
            let place = NonNull::new(place).expect("a run holds addresses of records");
            // SAFETY: the address of a record of a tree that the caller borrows.
            is_before(icmp, unsafe { Record::from_ptr(place) }, target, inclusive)
        })
    }

    /// Drops what is not behind all before it: records that were inserted while the run was copied.
    fn drop_out_of_order(&mut self, icmp: &InternalKeyComparator) {
        let mut kept = 0;
        for at in 0..self.len {
            // SAFETY: the run was just copied from a node of a tree that its caller borrows.
            let record: Record<'_> = unsafe { self.record(at) };
            if kept > 0 {
                // SAFETY: as above.
                let last: Record<'_> = unsafe { self.record(kept - 1) };
                if Target::of(record).cmp_record(icmp, last) != cmp::Ordering::Less {
                    continue;
                }
            }
            self.records[kept] = self.records[at];
            kept += 1;
        }
        self.len = kept;
    }
}

const PREFETCH_DISTANCE: usize = 6;
/// For `Node::first_of_key`: nothing is known.
pub(crate) const NO_GUESS: usize = usize::MAX;

impl<'t, const N: usize> Node<N> {
    /// An empty leaf.
    /// # Errors
    /// `Aborted` with `MemoryLimit`.
    pub(crate) fn leaf(arena: &'t Arena) -> Result<&'t Node<N>> {
        Node::build(arena, 0, &[], &[], ptr::null_mut(), Dead::empty())
    }

    /// An inner node with one child, which takes everything; a separator like `separator` will come next.
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
        Node::build(arena, below.level + 1, spare_one(prefix), &[slot], ptr::null_mut(), Dead::unknown())
    }

    /// A new node that nobody can reach yet.
    fn build(
        arena: &'t Arena,
        level: u8,
        prefix: &[u8],
        slots: &[Slot<N>],
        next: *mut Node<N>,
        dead: Dead,
    ) -> Result<&'t Node<N>> {
        assert!(size_of::<Node<N>>() <= 1 << 16 && N >= 2 && N < COUNT_MASK, "the count fits its bits");
        let slot = |i: usize| slots.get(i).copied().unwrap_or(Slot::EMPTY);
        let children = if level == 0 {
            ptr::null()
        } else {
            let place = arena.allocate_node(Layout::new::<Children<N>>())?.cast::<Children<N>>();
            // SAFETY: fresh memory of this layout, ours alone.
            unsafe { place.write(std::array::from_fn(|i| AtomicPtr::new(slot(i).child))) };
            place.as_ptr().cast_const()
        };
        let mut prefix_bytes = [0; MAX_PREFIX];
        prefix_bytes[..prefix.len()].copy_from_slice(prefix);
        let place = arena.allocate_node(Layout::new::<Node<N>>())?.cast::<Node<N>>();
        let node = Node {
            link: AtomicPtr::new(Link::new(next, slots.len()).0),
            children,
            latch: Mutex::new(Trend::new::<N>()),
            level,
            prefix_len: prefix.len() as u8,
            prefix: prefix_bytes,
            heads: std::array::from_fn(|i| AtomicU64::new(slot(i).head)),
            records: std::array::from_fn(|i| AtomicPtr::new(slot(i).record)),
            dead,
        };
        // SAFETY: fresh memory of this layout, ours alone.
        unsafe { place.write(node) };
        // SAFETY: just written; it stays for as long as the arena.
        Ok(unsafe { place.as_ref() })
    }

    /// The node at an address that was read from a link, child or root of a tree that lives for `'t`.
    ///
    /// # Safety
    /// That.
    #[inline]
    pub(crate) unsafe fn from_ptr(place: *mut Node<N>) -> Option<&'t Node<N>> {
        // SAFETY: such addresses are null or lead to nodes, which are complete before their address is stored and
        // stay until the arena is dropped (invariants 4 and 5).
        unsafe { place.as_ref() }
    }

    /// 0 for a leaf.
    #[inline]
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// How many slots are in use.
    pub(crate) fn count(&self) -> usize {
        self.load_link().count()
    }

    /// Leaves: whether nothing was ever inserted here. A leaf may be without records for a moment when it has given all of
    /// them to the one on its right, so the count alone does not tell.
    #[inline]
    pub(crate) fn is_untouched(&self) -> bool {
        self.load_link().0.is_null()
    }

    /// For which snapshots it holds nothing.
    #[inline]
    pub(crate) fn dead(&self) -> &Dead {
        &self.dead
    }

    /// The first record of its leftmost leaf, which is not empty.
    pub(crate) fn first_record(&'t self) -> Record<'t> {
        let mut node = self;
        while node.level > 0 {
            node = node.child(0);
        }
        node.record::<false>(0)
    }

    /// Leaves: all records. REQUIRES: the latch.
    pub(crate) fn own_records(&'t self) -> impl Iterator<Item = Record<'t>> {
        (0..self.own_link().count()).map(|at| self.record::<true>(at))
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

    /// The link, for who holds the latch.
    #[inline]
    fn own_link(&self) -> Link<N> {
        Link(own!(self.link))
    }

    /// The head of a slot; `OWN` for who holds the latch.
    #[inline]
    fn head<const OWN: bool>(&self, at: usize) -> u64 {
        if OWN { own!(self.heads[at]) } else { self.heads[at].load(Ordering::Acquire) }
    }

    /// The record of a slot that is or was in use; never called for slot 0 of a leftmost inner node.
    /// `OWN` for who holds the latch.
    #[inline]
    fn record<const OWN: bool>(&'t self, at: usize) -> Record<'t> {
        let place = if OWN { own!(self.records[at]) } else { self.records[at].load(Ordering::Acquire) };
        let place = NonNull::new(place).expect("a used slot has a record");
        // SAFETY: records are complete before their address is stored and stay for as long as the arena.
        unsafe { Record::from_ptr(place) }
    }

    #[inline]
    fn children(&'t self) -> &'t Children<N> {
        debug_assert!(self.level > 0);
        // SAFETY: set at creation of an inner node, to memory that stays as long as the node.
        unsafe { &*self.children }
    }

    /// Child `at` of an inner node.
    pub(crate) fn child(&'t self, at: usize) -> &'t Node<N> {
        let child = self.children()[at].load(Ordering::Acquire);
        // SAFETY: children are nodes of the same tree, which lives as long as this one.
        unsafe { Node::from_ptr(child) }.expect("a used slot of an inner node has a child")
    }

    /// Whether all of this node, which is not the leftmost of its level, lies after `target`; at it counts as after
    /// unless `inclusive`.
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
        head_after(&self.prefix[..usize::from(self.prefix_len)], order, user_key)
    }

    /// A place such that everything left of it is before `target` and was when it was looked at; and, if nobody
    /// inserts meanwhile, the first place that is not. Looks at slots `from..count`.
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
            at = if self.head::<OWN>(at + half - 1) < head { at + half } else { at };
            size -= half;
        }
        if size == 1 && self.head::<OWN>(at) < head { at + 1 } else { at }
    }

    /// `search` when no head before `at` can be that of a record at or after the target.
    #[inline]
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

    /// The rest of `search` when the heads did not tell.
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

    /// Inner nodes: which child leads to `target`, and where it stands. If not `inclusive`, the child that holds what
    /// is just before `target`. The child begins at or before it; its right neighbours may begin so too.
    #[inline]
    pub(crate) fn descend(
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
            return (node.child(at - 1), at - 1, count);
        }
    }

    /// Leaves: about where the target's user key is, with its record being fetched. What is there may move on at once.
    #[inline]
    pub(crate) fn guess(&'t self, icmp: &InternalKeyComparator, target: &Target<'_>) -> usize {
        let count = self.load_link().count();
        let at = self.search_heads::<false>(self.head_of(icmp.order(), target.user_key), 0, count);
        if let Some(record) = self.records[..count].get(at) {
            prefetch_record(record.load(Ordering::Relaxed));
        }
        at
    }

    /// Leaves: the first record at or after `target` in this leaf or one to its right; if no record has the target's user
    /// key, may answer `None` without looking at any. `guess`: where it may be in this leaf; any number will do.
    #[inline]
    pub(crate) fn first_of_key(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        mut guess: usize,
    ) -> Option<(Record<'t>, &'t Node<N>)> {
        let mut node = self;
        loop {
            match node.first_of_key_here(icmp, target, guess) {
                Ok(found) => return found.map(|record| (record, node)),
                Err(next) => node = next?,
            }
            guess = NO_GUESS;
        }
    }

    /// `Err` with the next leaf if all of this one is before `target`.
    #[inline]
    fn first_of_key_here(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        mut guess: usize,
    ) -> std::result::Result<Option<Record<'t>>, Option<&'t Node<N>>> {
        let head = self.head_of(icmp.order(), target.user_key);
        loop {
            let link = self.load_link();
            let count = link.count();
            // What is left of a head below the target's is before the target, however the guess was made.
            let is_right = guess < count
                && self.head::<false>(guess) >= head
                && (guess == 0 || self.head::<false>(guess - 1) < head);
            let at = if is_right { guess } else { self.search_heads::<false>(head, 0, count) };
            guess = NO_GUESS;
            let at = self.search_behind::<false>(icmp, target, head, false, at, count);
            if at < count && self.head::<false>(at) > head {
                // Heads are sorted and only move right: no slot has had this head since `search` began.
                if self.load_link().next() == link.next() {
                    return Ok(None);
                }
                continue;
            }
            let (found, now) = self.scan(icmp, target, at, count);
            if now.next() == link.next() {
                return found.map(Some).ok_or_else(|| self.neighbour(link));
            }
        }
    }

    /// The first record from slot `at` on that is not before `target`, and the link as it was after that.
    #[inline]
    fn scan(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        mut at: usize,
        mut count: usize,
    ) -> (Option<Record<'t>>, Link<N>) {
        loop {
            if at < count {
                let record = self.record::<false>(at);
                if !is_before(icmp, record, target, false) {
                    return (Some(record), self.load_link());
                }
                at += 1;
            } else {
                // What is looked for may have moved beyond the count while we came here.
                let now = self.load_link();
                if now.count() <= count {
                    return (None, now);
                }
                count = now.count();
            }
        }
    }

    /// Leaves: copies the addresses of its records, in order, and finds the place in the copy of the first record
    /// that is not before `target`, or at it if `inclusive`.
    pub(crate) fn copy_and_find(
        &'t self,
        icmp: &InternalKeyComparator,
        target: &Target<'_>,
        inclusive: bool,
        run: &mut Run<N>,
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
    pub(crate) fn copy_to(&self, icmp: &InternalKeyComparator, run: &mut Run<N>) {
        loop {
            let link = self.load_link();
            let mut count = link.count();
            let mut at = 0;
            run.len = 0;
            let now = loop {
                while at < count {
                    let record = self.records[at].load(Ordering::Acquire);
                    // A neighbour that is being moved is seen twice.
                    if run.len == 0 || run.records[run.len - 1] != record {
                        run.records[run.len] = record;
                        run.len += 1;
                    }
                    at += 1;
                }
                let now = self.load_link();
                if now.count() <= count {
                    break now;
                }
                count = now.count();
            };
            if now.next() != link.next() {
                continue;
            }
            run.next = link.next();
            if now != link {
                // More than one insert passed by: the copy has all it must have, and perhaps newer ones between.
                run.drop_out_of_order(icmp);
            }
            return;
        }
    }

    /// Brings the lines that a search may look at near; all at once, so that it waits once.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let start = ptr::from_ref(self).cast::<u8>();
        for line in 0..size_of::<Node<N>>().div_ceil(64) {
            prefetch_line(start.wrapping_add(line * 64));
        }
    }

    /// Latches the node, this one or one to its right, that `target` belongs to.
    pub(crate) fn latch_for(&'t self, icmp: &InternalKeyComparator, target: &Target<'_>) -> Latched<'t, N> {
        let mut node = self;
        loop {
            let trend = node.latch.lock();
            let link = node.own_link();
            let head = node.head_of(icmp.order(), target.user_key);
            let from = usize::from(node.level > 0);
            let at = node.search::<true>(icmp, target, head, false, from, link.count());
            match node.neighbour(link) {
                Some(next) if at == link.count() && !next.starts_after(icmp, target, true) => node = next,
                _ => return Latched { node, trend, at },
            }
        }
    }
}

impl<'t, const N: usize> Latched<'t, N> {
    /// Inserts `record` (in an inner node, as the separator of `child`) at its place, which the latch was taken for.
    /// # Errors
    /// `Aborted` with `MemoryLimit` if the node is full and there is no memory for another; nothing was inserted.
    pub(crate) fn insert(
        mut self,
        icmp: &InternalKeyComparator,
        arena: &'t Arena,
        record: Record<'t>,
        child: Option<&'t Node<N>>,
    ) -> Result<(Inserted<'t, N>, After<'t, N>)> {
        let (node, at) = (self.node, self.at);
        let link = node.own_link();
        let count = link.count();
        let target = Target::of(record);
        let head = node.head_of(icmp.order(), target.user_key);
        // Other heads say that the keys differ, without a look at the other record, which is far away.
        let is_twin = at < count
            && node.head::<true>(at) == head
            && target.cmp_record(icmp, node.record::<true>(at)) == cmp::Ordering::Equal;
        if is_twin {
            return Ok((Inserted::Duplicate, After::Nothing));
        }
        let new = Slot {
            head,
            record: record.as_ptr(),
            child: child.map_or(ptr::null_mut(), |c| ptr::from_ref(c).cast_mut()),
        };
        if count < N {
            node.put(at, new, link);
            self.trend.note(at);
            return Ok((Inserted::Done, self.after(icmp, (record, target.trailer), at == count)));
        }
        let (keep, new_goes_right) = self.split_point(link);
        let right = node.split_off(icmp, arena, link, keep, new_goes_right.then_some((at, new)))?;
        let mut after = After::Nothing;
        if new_goes_right && node.level == 0 {
            after = dead::after_insert(right, icmp, (record, target.trailer), at == N, None);
        }
        // From here on readers find what went in `right`.
        let link = Link::new(ptr::from_ref(right).cast_mut(), keep);
        node.link.store(link.0, Ordering::Release);
        *self.trend = Trend::new::<N>();
        if !new_goes_right {
            node.put(at, new, link);
            self.trend.note(at);
            after = self.after(icmp, (record, target.trailer), at == keep);
        }
        Ok((Inserted::Split(right, right.record::<false>(0)), after))
    }

    /// What the record that was just put into this node, `last`: as its last one, means for others.
    #[inline]
    fn after(&mut self, icmp: &InternalKeyComparator, record: (Record<'t>, u64), last: bool) -> After<'t, N> {
        if self.node.level > 0 {
            return After::Nothing;
        }
        dead::after_insert(self.node, icmp, record, last, Some(&mut self.trend.deaths))
    }

    /// How many below have died.
    pub(crate) fn deaths(&mut self) -> &mut Deaths {
        &mut self.trend.deaths
    }

    /// How many slots a full node keeps, and whether the new one goes to the other node.
    /// Runs of ascending or descending keys leave full nodes behind them.
    fn split_point(&self, link: Link<N>) -> (usize, bool) {
        let at = self.at;
        let run = (N / 8).max(2) as u8;
        let last = link.next().is_null();
        if at == N && (last || self.trend.ascending >= run) {
            (N, true)
        } else if at > 0 && self.trend.ascending >= run {
            (at, true)
        } else if at < N && (at == 0 || self.trend.descending >= run) {
            (at, false)
        } else {
            (N / 2, at > N / 2)
        }
    }
}

impl<'t, const N: usize> Node<N> {
    /// Puts `slot` in place `at` and moves those behind it. REQUIRES: the latch; `link` is current and not full.
    fn put(&'t self, at: usize, slot: Slot<N>, link: Link<N>) {
        let count = link.count();
        let grown = Link::new(link.next(), count + 1).0;
        if at == count {
            self.store(at, slot);
            self.link.store(grown, Ordering::Release);
            return;
        }
        self.store(count, self.load(count - 1));
        self.link.store(grown, Ordering::Release);
        for to in (at + 1..count).rev() {
            self.store(to, self.load(to - 1));
        }
        self.store(at, slot);
    }

    #[inline]
    fn store(&'t self, at: usize, slot: Slot<N>) {
        if self.level > 0 {
            self.children()[at].store(slot.child, Ordering::Release);
        }
        self.records[at].store(slot.record, Ordering::Release);
        self.heads[at].store(slot.head, Ordering::Release);
    }

    /// REQUIRES: the latch.
    #[inline]
    fn load(&'t self, at: usize) -> Slot<N> {
        let child = if self.level > 0 { own!(self.children()[at]) } else { ptr::null_mut() };
        Slot { head: own!(self.heads[at]), record: own!(self.records[at]), child }
    }

    /// A new node with the slots from `keep` on and, in its place, the new one. REQUIRES: the latch, a full node.
    fn split_off(
        &'t self,
        icmp: &InternalKeyComparator,
        arena: &'t Arena,
        link: Link<N>,
        keep: usize,
        new: Option<(usize, Slot<N>)>,
    ) -> Result<&'t Node<N>> {
        let mut slots = [Slot::EMPTY; N];
        let mut len = 0;
        for at in keep..=N {
            if let Some((place, slot)) = new
                && place == at
            {
                slots[len] = slot;
                len += 1;
            }
            if at < N {
                slots[len] = self.load(at);
                len += 1;
            }
        }
        let slots = &mut slots[..len];
        let prefix = self.choose_prefix(icmp.order(), slots, keep);
        let old_prefix = &self.prefix[..usize::from(self.prefix_len)];
        if prefix != old_prefix {
            slots.iter().for_each(|slot| prefetch_record(slot.record));
            for slot in &mut *slots {
                slot.head = head_after(prefix, icmp.order(), key_at(slot.record));
            }
        }
        // Versions of one user key that come apart: those that stay hide those that go.
        let last = keep.checked_sub(1).filter(|_| self.level == 0).map(|last| self.record::<true>(last));
        let first = slots[0].record;
        let hides = last.filter(|last| icmp.same_user_key(last.user_key(), key_at(first)));
        Node::build(arena, self.level, prefix, slots, link.next(), self.dead.split(hides))
    }

    /// The prefix for a new node with these slots: what their keys share, unless the old one is nearly as good.
    fn choose_prefix(&'t self, order: KeyOrder, slots: &[Slot<N>], keep: usize) -> &'t [u8] {
        let old = &self.prefix[..usize::from(self.prefix_len)];
        if order == KeyOrder::Custom {
            return &[];
        }
        // A single key says nothing about those to come; with its left neighbour it does.
        let other = match slots {
            [_, .., last] => last.record,
            _ if keep > 0 => self.load(keep - 1).record,
            _ => ptr::null_mut(),
        };
        if other.is_null() {
            return &[];
        }
        let (first, other): (&'t [u8], &'t [u8]) = (key_at(slots[0].record), key_at(other));
        let shared = shared_prefix(first, other);
        if shared.len() >= old.len() && shared.len() < old.len() + WORTHWHILE && first.starts_with(old) {
            old
        } else {
            spare_one(shared)
        }
    }
}

/// What two keys begin with, as far as a node can remember it.
fn shared_prefix<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    let len = a.iter().zip(b).take(MAX_PREFIX).take_while(|(a, b)| a == b).count();
    &a[..len]
}

/// One byte less, for keys that will come next to these.
fn spare_one(prefix: &[u8]) -> &[u8] {
    prefix.split_last().map_or(&[], |(_, rest)| rest)
}

/// The user key of the record at an address that was read from a slot.
fn key_at<'t>(record: *mut u8) -> &'t [u8] {
    let place = NonNull::new(record).expect("a used slot has a record");
    // SAFETY: slots hold addresses of complete records, which stay for as long as the arena.
    unsafe { Record::from_ptr(place) }.user_key()
}

#[inline]
fn is_before(icmp: &InternalKeyComparator, record: Record<'_>, target: &Target<'_>, inclusive: bool) -> bool {
    match target.cmp_record(icmp, record) {
        cmp::Ordering::Less => true,
        cmp::Ordering::Equal => inclusive,
        cmp::Ordering::Greater => false,
    }
}

/// 8 bytes of the key behind `prefix`, as a number in the order of the keys; keys without the prefix get the least
/// or greatest number, on whichever side of it they are.
#[inline]
fn head_after(prefix: &[u8], order: KeyOrder, user_key: &[u8]) -> u64 {
    let head = if prefix.is_empty() {
        first_8(user_key)
    } else {
        match user_key.strip_prefix(prefix) {
            Some(rest) => first_8(rest),
            None if user_key < prefix => 0,
            None => u64::MAX,
        }
    };
    match order {
        KeyOrder::Bytewise => head,
        KeyOrder::ReverseBytewise => !head,
        KeyOrder::Custom => 0,
    }
}

#[inline]
fn first_8(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(chunk)
        }
    }
}

#[inline]
fn prefetch_record(record: *mut u8) {
    // Header, key and the start of the value: 100 bytes of it mostly reach into a third line.
    prefetch_line(record);
    prefetch_line(record.wrapping_add(64));
    prefetch_line(record.wrapping_add(128));
}

#[inline]
pub(crate) fn prefetch_line(_address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address has no effect but on caches.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(_address.cast());
    }
}

#[cfg(test)]
mod tests;
