//! Inserts a record into a node. Only the thread that holds the node's latch writes to the node,
//! except for its word `head_since`.
//!
//! In: a latched node, and a record. Out: the record in its slot. A full node splits; the caller
//! then adds the new right node to the parent. Readers rely on the order of the stores: `node.rs`,
//! invariants 1 to 3.

use super::heads::{head_after, key_at, prefetch_record, shared_prefix, spare_one};
use super::{Children, Link, Node, Slot, own};
use crate::arena::Arena;
use crate::record::{Record, Target};
use crate::summaries::covered::Gaps;
use crate::summaries::deleted::{self, After, DeletionCountdown, SnapshotRange};
use esker_base::Result;
use esker_base::comparator::KeyOrder;
use esker_base::sync::MutexGuard;
use esker_base::sync::atomic::Ordering;
use esker_format::key::InternalKeyComparator;
use std::{cmp, ptr};

/// A split keeps the node's prefix if all moved keys have it, and their common prefix is fewer than
/// this many bytes longer. It then keeps the heads, too.
const WORTHWHILE: usize = 4;

/// A node, latched for the insert of a target.
pub(crate) struct LatchedNode<'t, const N: usize> {
    pub(crate) node: &'t Node<N>,
    pub(super) trend: MutexGuard<'t, Trend>,
    /// The slot for the target.
    pub(super) at: usize,
}

/// The result of an insert.
pub(crate) enum NodeInsert<'t, const N: usize> {
    /// The record is in.
    Done,
    /// The record is in, and the node was split: the new right node, and its first record.
    Split(&'t Node<N>, Record<'t>),
    /// The node has a record with the same key, sequence number and type.
    Duplicate,
}

/// Statistics of the last inserts' slots, which tell whether keys arrive in ascending or descending
/// order.
#[derive(Debug, Default)]
pub(crate) struct Trend {
    last: u8,
    ascending: u8,
    descending: u8,
    countdown: DeletionCountdown,
}

impl Trend {
    pub(super) fn new<const N: usize>() -> Trend {
        let mut trend = Trend::default();
        trend.countdown.restart(N / 4);
        trend
    }

    fn note(&mut self, at: usize) {
        let last = usize::from(self.last);
        self.ascending = if at == last + 1 { self.ascending.saturating_add(1) } else { 0 };
        self.descending = if at == last { self.descending.saturating_add(1) } else { 0 };
        self.last = at as u8;
    }
}

impl<'t, const N: usize> LatchedNode<'t, N> {
    /// Inserts `record` into its slot. In an inner node, `record` is the separator of `child`.
    /// # Errors
    /// `Aborted` with `MemoryLimit` if the node is full and there is no memory for another one.
    /// Nothing was inserted.
    pub(crate) fn insert(
        mut self,
        icmp: &InternalKeyComparator,
        arena: &'t Arena,
        record: Record<'t>,
        child: Option<&'t Node<N>>,
    ) -> Result<(NodeInsert<'t, N>, After<'t, N>)> {
        let (node, at) = (self.node, self.at);
        let link = node.own_link();
        let count = link.count();
        let target = Target::of(record);
        let head = node.head_of(icmp.order(), target.user_key);
        // If the heads differ, the keys differ. The record need not be read.
        let is_twin = at < count
            && node.head::<true>(at) == head
            && target.cmp_record(icmp, node.record::<true>(at)) == cmp::Ordering::Equal;
        if is_twin {
            return Ok((NodeInsert::Duplicate, After::Nothing));
        }
        if node.level == 0 {
            node.covered.admit(target.trailer >> 8);
            if node.gaps().any() {
                node.gaps().divide(node.own_gap_before(at), head);
            }
        }
        let new = Slot {
            head,
            record: record.as_ptr(),
            child: child.map_or(ptr::null_mut(), |c| ptr::from_ref(c).cast_mut()),
        };
        let dead = child.map_or(SnapshotRange::NONE, |child| deleted::split_child(node, at, child));
        if count < N {
            node.put(at, (new, dead), link);
            self.trend.note(at);
            return Ok((NodeInsert::Done, self.after(icmp, (record, target.trailer), at == count)));
        }
        let (keep, new_goes_right) = self.split_point(link);
        let right = node.split_off(icmp, arena, link, keep, new_goes_right.then_some((at, new, dead)))?;
        let mut after = After::Nothing;
        if new_goes_right && node.level == 0 {
            after = deleted::after_insert(right, icmp, (record, target.trailer), at == N, None);
        }
        if node.level == 0 {
            node.gaps().give_away_from(node.own_gap_before(keep));
        }
        deleted::check_split_half(right, icmp);
        // From here on readers find the moved records in `right`.
        let link = Link::new(ptr::from_ref(right).cast_mut(), keep);
        node.link.store(link.0, Ordering::Release);
        *self.trend = Trend::new::<N>();
        if !new_goes_right {
            node.put(at, (new, dead), link);
            self.trend.note(at);
            after = self.after(icmp, (record, target.trailer), at == keep);
        }
        deleted::check_split_half(node, icmp);
        Ok((NodeInsert::Split(right, right.record::<false>(0)), after))
    }

    /// Updates this leaf's summary of deleted entries for the new `record`. Returns the work that
    /// is left for the nodes above. `last`: the record is in the last slot.
    #[inline]
    fn after(&mut self, icmp: &InternalKeyComparator, record: (Record<'t>, u64), last: bool) -> After<'t, N> {
        if self.node.level > 0 {
            return After::Nothing;
        }
        deleted::after_insert(self.node, icmp, record, last, Some(&mut self.trend.countdown))
    }

    /// The countdown to the next check whether this node is dead.
    pub(crate) fn countdown(&mut self) -> &mut DeletionCountdown {
        &mut self.trend.countdown
    }

    /// Number of slots that a full node keeps, and whether the new slot goes to the new node. While
    /// keys arrive in ascending or descending order, the node splits at the new slot. So ascending
    /// or descending keys leave full nodes behind.
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
    /// Moves slot `at` and all later slots one place to the right, and puts `slot` at `at`.
    /// REQUIRES: the latch; `link` is the current link, and the node is not full.
    fn put(&'t self, at: usize, slot: (Slot<N>, SnapshotRange), link: Link<N>) {
        let count = link.count();
        let grown = Link::new(link.next(), count + 1).0;
        if at == count {
            self.store(at, slot);
            self.link.store(grown, Ordering::Release);
            return;
        }
        self.move_right(count);
        self.link.store(grown, Ordering::Release);
        for to in (at + 1..count).rev() {
            self.move_right(to);
        }
        self.store(at, slot);
    }

    #[inline]
    fn store(&'t self, at: usize, (slot, dead): (Slot<N>, SnapshotRange)) {
        if self.level > 0 {
            self.store_child(at, slot.child, dead);
        }
        self.records[at].store(slot.record, Ordering::Release);
        self.heads[at].store(slot.head, Ordering::Release);
    }

    /// Copies slot `to - 1` into slot `to`. REQUIRES: the latch.
    #[inline]
    fn move_right(&'t self, to: usize) {
        if self.level > 0 {
            self.store_child(to, own!(self.children().nodes[to - 1]), self.dead_child(to - 1).own());
        }
        self.records[to].store(own!(self.records[to - 1]), Ordering::Release);
        self.heads[to].store(own!(self.heads[to - 1]), Ordering::Release);
    }

    /// Inner nodes: stores a child and its summary words as invariant 7 of `node.rs` demands.
    /// REQUIRES: the latch.
    #[inline(never)]
    fn store_child(&'t self, at: usize, child: *mut Node<N>, dead: SnapshotRange) {
        let Children { nodes, dead: words } = self.children();
        words[at].clear();
        nodes[at].store(child, Ordering::Release);
        words[at].set(dead);
    }

    /// Reads slot `at`. REQUIRES: the latch.
    #[inline]
    fn load(&'t self, at: usize) -> Slot<N> {
        let child = if self.level > 0 { own!(self.children().nodes[at]) } else { ptr::null_mut() };
        Slot { head: own!(self.heads[at]), record: own!(self.records[at]), child }
    }

    /// Makes a new node with copies of the slots from `keep` on, and with the slot `new` if it
    /// belongs there. REQUIRES: the latch, a full node.
    fn split_off(
        &'t self,
        icmp: &InternalKeyComparator,
        arena: &'t Arena,
        link: Link<N>,
        keep: usize,
        new: Option<(usize, Slot<N>, SnapshotRange)>,
    ) -> Result<&'t Node<N>> {
        let mut slots = [Slot::EMPTY; N];
        let mut len = 0;
        for at in keep..=N {
            if let Some((place, slot, _)) = new
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
        let marked = match self.level {
            0 => self.gaps().before(slots.iter().map(|slot| slot.head)),
            _ => 0,
        };
        if prefix != old_prefix {
            slots.iter().for_each(|slot| prefetch_record(slot.record));
            for slot in &mut *slots {
                slot.head = head_after(prefix, icmp.order(), key_at(slot.record));
            }
        }
        let gaps = match self.level {
            0 => self.gaps().split(slots.iter().map(|slot| slot.head), marked),
            _ => Gaps::none(),
        };
        // SAFETY: a slot's child is null or a node of this tree.
        let dead = match unsafe { Node::from_ptr(slots[0].child) } {
            Some(first) => deleted::split_above(self, first),
            None => {
                // The split may separate versions of one user key. The newer versions stay in this
                // node and hide those in the new node.
                let last = keep.checked_sub(1).map(|last| self.record::<true>(last));
                let first = slots[0].record;
                self.dead.split(last.filter(|last| icmp.same_user_key(last.user_key(), key_at(first))))
            }
        };
        let right =
            Node::build(arena, self.level, prefix, slots, link.next(), (dead, self.covered.split(), gaps))?;
        if self.level > 0 {
            for at in 0..len {
                right.dead_child(at).set(match new {
                    Some((place, _, dead)) if keep + at == place => dead,
                    Some((place, ..)) if keep + at > place => self.dead_child(keep + at - 1).own(),
                    _ => self.dead_child(keep + at).own(),
                });
            }
        }
        Ok(right)
    }

    /// Chooses the prefix of a new node: the common prefix of the slots' keys without its last
    /// byte. Keeps the old prefix if that is nearly as long.
    fn choose_prefix(&'t self, order: KeyOrder, slots: &[Slot<N>], keep: usize) -> &'t [u8] {
        let old = &self.prefix[..usize::from(self.prefix_len)];
        if order == KeyOrder::Custom {
            return &[];
        }
        // If there is a single key, takes the common prefix with its left neighbour.
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
