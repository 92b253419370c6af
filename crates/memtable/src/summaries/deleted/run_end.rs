//! Finds the end of a deleted run.
//!
//! In: a place in a cursor's copy of a leaf, and a snapshot. Out: the run end. The reader is shown
//! nothing between the place and the run end. Dead leaves, and dead nodes above, are skipped whole.
//! The records of other leaves are checked one by one, from the place on and at the far end. So a
//! run may begin and end in the middle of a leaf.
//!
//! The nodes are mostly in no processor cache, and each one costs a wait. So the search moves along
//! a level by the parents' statements about their children. It visits a child only if the parent
//! states nothing about that child.
//!
//! Invariants
//!  1. Everything between the place and the end of the run was checked, or lies in the range of a
//!     dead node. The range was read after the node's dead state.
//!  2. A version that may or may not be hidden by a newer one ends the run.

use super::is_deletion;
use crate::node::{LeafRun, Node};
use crate::record::{Record, Target};
use crate::tree::Tree;
use esker_base::probe;
use esker_base::sync::atomic::Ordering;
use esker_format::key::InternalKeyComparator;

/// Steps from leaf to leaf before the search uses the nodes above. Nodes are small and few in the
/// simulated machine, and fewer in models.
const STEPS: usize = match (cfg!(loom), cfg!(shuttle)) {
    (true, _) => 0,
    (_, true) => 1,
    _ => 4,
};
/// Levels of nodes, leaves included, that the search uses.
const LEVELS: usize = 12;
/// Records that are prefetched ahead.
const AHEAD: usize = 16;
/// Largest number of leaves without a dead state that one skip checks record by record, besides the
/// leaf in which it starts. The next skip continues from there.
const LIVING: usize = 4;

/// The user key whose versions are being read, newest first.
struct Group<'t> {
    icmp: &'t InternalKeyComparator,
    snapshot: u64,
    key: Option<&'t [u8]>,
    /// The version that the reader sees was found, here or in an earlier leaf.
    is_decided: bool,
    /// The last user key before `key`, if the search met one.
    before: Option<&'t [u8]>,
}

impl<'t> Group<'t> {
    /// The state before the first record.
    fn none(icmp: &'t InternalKeyComparator, snapshot: u64) -> Group<'t> {
        Group { icmp, snapshot, key: None, is_decided: false, before: None }
    }

    /// Adds the next version. True if the reader would see the record, as far as the search has
    /// read.
    #[inline]
    fn shows(&mut self, record: Record<'t>) -> bool {
        let (user_key, trailer) = record.parts();
        if !self.key.is_some_and(|key| self.icmp.same_user_key(key, user_key)) {
            self.begin(user_key, false);
        }
        if self.is_decided || trailer >> 8 > self.snapshot {
            return false;
        }
        self.is_decided = is_deletion(trailer);
        !self.is_decided
    }

    #[inline]
    fn begin(&mut self, user_key: &'t [u8], is_decided: bool) {
        self.before = self.key.replace(user_key);
        self.is_decided = is_decided;
    }
}

/// The path from the root to a node: each node above it, with the place of the child on the path.
struct Above<'t, const N: usize>([Option<(&'t Node<N>, usize)>; LEVELS]);

impl<'t, const N: usize> Above<'t, N> {
    #[inline]
    fn get(&self, level: usize) -> Option<(&'t Node<N>, usize)> {
        self.0.get(level).copied().flatten()
    }

    #[inline]
    fn set(&mut self, level: usize, node: &'t Node<N>, place: usize) {
        if let Some(above) = self.0.get_mut(level) {
            *above = Some((node, place));
        }
    }

    /// Moves from the dead node `run_end`, which is on this path, to the right, over neighbours
    /// that the parent states to be dead. Returns the node behind them.
    fn leave_right(&mut self, run_end: &'t Node<N>, snapshot: u64) -> Option<&'t Node<N>> {
        let level = usize::from(run_end.level()) + 1;
        let known = self.get(level).and_then(|(node, place)| {
            let (child, next) = node.dead_beside(place, snapshot)?;
            std::ptr::eq(child, run_end).then_some((node, place, next))
        });
        // `next` is read after the node's dead state: invariant 1 of `deleted`.
        let Some((node, mut place, mut next)) = known else { return run_end.next() };
        while let Some((child, behind)) = node.dead_beside(place + 1, snapshot)
            && next.is_some_and(|next| std::ptr::eq(next, child))
        {
            probe!("deleted_run:node");
            (place, next) = (place + 1, behind);
        }
        self.set(level, node, place);
        next
    }

    /// Updates the path after a step from a child below `level` to its neighbour `next`. If the
    /// step enters new parents that begin with `next`, returns the highest of them.
    fn step(&mut self, level: usize, next: &'t Node<N>) -> Option<&'t Node<N>> {
        let (mut next, mut entered) = (next, None);
        for level in level.. {
            let Some((node, place)) = self.get(level) else { break };
            if node.leads_to(place + 1, next) {
                self.set(level, node, place + 1);
                break;
            }
            // If the parent's right neighbour does not begin with `next`, no parent has an entry
            // for `next` yet.
            let Some(right) = node.next().filter(|right| std::ptr::eq(right.child(0), next)) else { break };
            self.set(level, right, 0);
            (next, entered) = (right, Some(right));
        }
        entered
    }
}

impl<'t, const N: usize> Above<'t, N> {
    /// Moves from the dead node `run_end`, which is on this path, to the left over dead neighbours.
    /// At the first child of a node, moves up to that node. Returns a node whose first record is
    /// the start of the deleted run.
    fn leave_left(&self, mut run_end: &'t Node<N>, snapshot: u64) -> &'t Node<N> {
        for level in usize::from(run_end.level()) + 1.. {
            let Some((node, place)) = self.get(level).filter(|(node, place)| node.leads_to(*place, run_end))
            else {
                break;
            };
            for place in (0..place).rev() {
                probe!("deleted_run:node");
                let leads_here =
                    |next: Option<&Node<N>>| next.is_some_and(|next| std::ptr::eq(next, run_end));
                run_end = match node.dead_beside(place, snapshot).filter(|(_, next)| leads_here(*next)) {
                    Some((child, _)) => child,
                    None => {
                        let child = node.child(place);
                        // The dead state is read before the link: invariant 1 of `deleted`.
                        if !(child.dead().at(snapshot) && leads_here(child.next())) {
                            return run_end;
                        }
                        child
                    }
                };
            }
            // The left neighbour of the first child belongs to the node's left neighbour.
            run_end = node;
        }
        run_end
    }
}

impl<const N: usize> LeafRun<N> {
    /// Prefetches the record that is `AHEAD` places from `at`.
    #[inline]
    fn fetch(&self, at: usize, forward: bool) {
        let ahead = if forward { at.checked_add(AHEAD) } else { at.checked_sub(AHEAD) };
        if let Some(at) = ahead {
            self.prefetch_key(at);
        }
    }

    /// Prefetches the first `AHEAD` records from `at` on.
    fn fetch_first(&self, at: usize, forward: bool) {
        let places = if forward { at..at + AHEAD } else { (at + 1).saturating_sub(AHEAD)..at + 1 };
        places.for_each(|at| self.prefetch_key(at));
    }
}

impl<const N: usize> Tree<N> {
    /// A skip within a leaf must pass at least this many records, because it costs about as much as
    /// 20 steps.
    const WORTH_A_SKIP: usize = N / 4;

    /// The end of the deleted run that contains place `at` of `run`, for a reader at `snapshot`.
    /// Forward: the last user key of the run. Backward: the first user key of the run; the search
    /// checked nothing before it, and the reader must check that key itself. `None`: the run has no
    /// whole user key, or is too short to be worth a skip.
    ///
    /// # Safety
    /// `run` was loaded from this tree.
    pub(crate) unsafe fn deleted_run_end<'t>(
        &'t self,
        run: &LeafRun<N>,
        at: usize,
        snapshot: u64,
        forward: bool,
    ) -> Option<&'t [u8]> {
        // SAFETY: the run was loaded from this tree (contract of this function).
        let leaf: &'t Node<N> = unsafe { run.leaf() }?;
        // SAFETY: the run was loaded from this tree (contract of this function).
        let here: Record<'t> = unsafe { run.record(at) };
        let run_end = if forward {
            // SAFETY: the run was loaded from this tree (contract of this function).
            unsafe { self.run_end_right(leaf, run, at, snapshot) }?
        } else {
            // SAFETY: the run was loaded from this tree (contract of this function).
            unsafe { self.run_end_left(leaf, run, at, snapshot) }?
        };
        let order = self.icmp().compare_user_keys(run_end, here.user_key());
        (if forward { order.is_ge() } else { order.is_le() }).then_some(run_end)
    }

    /// The forward half of [`deleted_run_end`](Self::deleted_run_end).
    /// # Safety
    /// `run` was loaded from this tree.
    unsafe fn run_end_right<'t>(
        &'t self,
        leaf: &'t Node<N>,
        run: &LeafRun<N>,
        at: usize,
        snapshot: u64,
    ) -> Option<&'t [u8]> {
        let mut group = Group::none(self.icmp(), snapshot);
        let mut leaf = if leaf.dead().at(snapshot) {
            leaf
        } else {
            // SAFETY: the run was loaded from this tree (contract of this function).
            if let Some(shown) = unsafe { self.look_right(leaf, run, at, &mut group) } {
                return group.before.filter(|_| shown >= at + Self::WORTH_A_SKIP);
            }
            // SAFETY: the run was loaded from this tree (contract of this function).
            match unsafe { run.next() } {
                Some(next) => next,
                None => return group.key,
            }
        };
        let mut behind = LeafRun::new();
        let mut stop = None;
        for _ in 0..LIVING {
            if leaf.dead().at(snapshot) {
                let Some(living) = self.leaf_behind(leaf, snapshot) else {
                    return self.last_key_before(None);
                };
                group = Group::none(self.icmp(), snapshot);
                (leaf, stop) = (living, Some(living));
            }
            leaf.prefetch();
            leaf.copy_to(self.icmp(), &mut behind);
            // SAFETY: the run was loaded from this tree.
            if unsafe { self.look_right(leaf, &behind, 0, &mut group) }.is_some() {
                break;
            }
            // SAFETY: the run was loaded from this tree (contract of this function).
            match unsafe { behind.next() } {
                Some(next) => leaf = next,
                None => return group.key,
            }
        }
        // If the first user key behind a dead node is shown, the run ends at the key before it.
        group.before.or_else(|| stop.and_then(|stop| self.last_key_before(Some(stop))))
    }

    /// Checks the records of a copy of `leaf` from `at` on. Returns the place of the first record
    /// that the reader is shown.
    ///
    /// # Safety
    /// `run` was loaded from this tree.
    unsafe fn look_right<'t>(
        &'t self,
        leaf: &'t Node<N>,
        run: &LeafRun<N>,
        at: usize,
        group: &mut Group<'t>,
    ) -> Option<usize> {
        let mut from = at;
        run.fetch_first(at, true);
        if group.key.is_none() && run.len() > 0 {
            // SAFETY: the run was loaded from this tree (contract of this function).
            let key = unsafe { run.record(at) }.user_key();
            // SAFETY: the run was loaded from this tree (contract of this function).
            let is_same = |at: usize| group.icmp.same_user_key(unsafe { run.record(at) }.user_key(), key);
            while from > 0 && is_same(from - 1) {
                from -= 1;
            }
            // A record in the left neighbour may hide the first record of a leaf.
            group.begin(key, from == 0 && leaf.head_since().load(Ordering::Acquire) <= group.snapshot);
        }
        (from..run.len()).find(|&at| {
            run.fetch(at, true);
            // SAFETY: the run was loaded from this tree (contract of this function).
            group.shows(unsafe { run.record(at) })
        })
    }

    /// The first leaf right of dead leaf `leaf` that is not dead; `None`: there is none.
    fn leaf_behind<'t>(&'t self, leaf: &'t Node<N>, snapshot: u64) -> Option<&'t Node<N>> {
        let mut above = Above([None; LEVELS]);
        let mut run_end = leaf;
        let mut steps = 0;
        loop {
            if steps == STEPS {
                above = self.path(&Target::of(run_end.first_record()), true).0;
                let highest = above.0.iter().flatten().rfind(|(node, _)| node.dead().at(snapshot));
                run_end = highest.map_or(run_end, |(node, _)| node);
            }
            steps += 1;
            probe!("deleted_run:node");
            let next = above.leave_right(run_end, snapshot)?;
            let mut stop = above.step(usize::from(run_end.level()) + 1, next).unwrap_or(next);
            // Tries the nodes that begin here, from the top down.
            run_end = loop {
                if stop.dead().at(snapshot) {
                    break stop;
                }
                if stop.level() == 0 {
                    return Some(stop);
                }
                above.set(usize::from(stop.level()), stop, 0);
                stop = stop.child(0);
            };
        }
    }

    /// The path to `target` (or, if not `inclusive`, to the position just before it), and the leaf
    /// at its end. The target may lie in a leaf to the right of that one.
    fn path<'t>(&'t self, target: &Target<'_>, inclusive: bool) -> (Above<'t, N>, &'t Node<N>) {
        let mut path = Above([None; LEVELS]);
        let mut node = self.root();
        while node.level() > 0 {
            let (from, place, _) = node.way_down(self.icmp(), target, inclusive);
            path.set(usize::from(from.level()), from, place);
            node = from.child(place);
            if node.level() > 0 {
                node.prefetch();
            }
        }
        (path, node)
    }

    /// The leaf of the position just before `target`: this one or one to its right.
    fn right_of<'t>(&'t self, mut leaf: &'t Node<N>, target: &Target<'_>) -> &'t Node<N> {
        while let Some(next) = leaf.next()
            && !next.starts_after(self.icmp(), target, false)
        {
            leaf = next;
        }
        leaf
    }

    /// The last user key that has no record in or behind leaf `stop`.
    fn last_key_before(&self, stop: Option<&Node<N>>) -> Option<&[u8]> {
        let mut run = LeafRun::new();
        let first = stop.map(Node::first_record);
        let last = match first {
            Some(first) => self.load_before(&Target::of(first), false, &mut run)?,
            None => self.load_last(&mut run)?,
        };
        (0..=last).rev().find_map(|at| {
            // SAFETY: the run was loaded from this tree, which is borrowed.
            let record: Record<'_> = unsafe { run.record(at) };
            let user_key = record.user_key();
            let is_stop = first.is_some_and(|first| self.icmp().same_user_key(first.user_key(), user_key));
            (!is_stop).then_some(user_key)
        })
    }

    /// The backward half of [`deleted_run_end`](Self::deleted_run_end).
    /// # Safety
    /// `run` was loaded from this tree.
    unsafe fn run_end_left<'t>(
        &'t self,
        leaf: &'t Node<N>,
        run: &LeafRun<N>,
        at: usize,
        snapshot: u64,
    ) -> Option<&'t [u8]> {
        // SAFETY: the run was loaded from this tree (contract of this function).
        let here: Target<'t> = Target::of(unsafe { run.record(at) });
        let mut run_end = None;
        // The reader is shown no record from `first` up to the place `at`.
        let mut first = if self.is_dead_around(leaf, &here, true, snapshot) {
            leaf.first_record()
        } else {
            // SAFETY: the run was loaded from this tree (contract of this function).
            if let Some(shown) = unsafe { self.look_left(leaf, run, at, snapshot, &mut run_end) } {
                return run_end.filter(|_| shown + Self::WORTH_A_SKIP <= at);
            }
            // SAFETY: the run was loaded from this tree (contract of this function).
            unsafe { run.record(0) }
        };
        let mut before = LeafRun::new();
        for _ in 0..LIVING {
            first = self.first_of_dead(first, snapshot);
            if self.is_first(first) {
                break;
            }
            let Some(last) = self.load_before(&Target::of(first), false, &mut before) else { break };
            run_end = Some(first.user_key());
            // SAFETY: the run was loaded from this tree.
            let Some(leaf) = (unsafe { before.leaf() }) else { break };
            // SAFETY: `before` is a copy of a leaf of this tree.
            if unsafe { self.look_left(leaf, &before, last, snapshot, &mut run_end) }.is_some() {
                return run_end;
            }
            // SAFETY: `before` was loaded from this tree and is not empty.
            first = unsafe { before.record(0) };
        }
        Some(first.user_key())
    }

    /// Whether `node`, which lies on the path to `target`, is dead and has `target` in its range
    /// (or, if not `inclusive`, the position just before it).
    fn is_dead_around(&self, node: &Node<N>, target: &Target<'_>, inclusive: bool, snapshot: u64) -> bool {
        // The dead state is read before the link: invariant 1 of `deleted`.
        node.dead().at(snapshot)
            && node.next().is_none_or(|next| next.starts_after(self.icmp(), target, inclusive))
    }

    /// Checks the records of a copy of `leaf` from `at` to the left. Sets `run_end` to the last
    /// checked user key that shows the reader nothing. If the reader is shown a record, stops and
    /// returns a place that is not right of this record.
    ///
    /// # Safety
    /// `run` was loaded from this tree.
    unsafe fn look_left<'t>(
        &'t self,
        leaf: &'t Node<N>,
        run: &LeafRun<N>,
        at: usize,
        snapshot: u64,
        run_end: &mut Option<&'t [u8]>,
    ) -> Option<usize> {
        run.fetch_first(at, false);
        let mut key: Option<&[u8]> = None;
        // Among the checked versions of `key` that the reader sees, the newest is not a deletion.
        let mut is_shown = false;
        for at in (0..=at).rev() {
            run.fetch(at, false);
            // SAFETY: the run was loaded from this tree (contract of this function).
            let record: Record<'t> = unsafe { run.record(at) };
            let (user_key, trailer) = record.parts();
            if !key.is_some_and(|key| self.icmp().same_user_key(key, user_key)) {
                if is_shown {
                    return Some(at);
                }
                *run_end = key.or(*run_end);
                key = Some(user_key);
            }
            if trailer >> 8 <= snapshot {
                is_shown = !is_deletion(trailer);
            }
        }
        if is_shown && leaf.head_since().load(Ordering::Acquire) > snapshot {
            return Some(0);
        }
        *run_end = key.or(*run_end);
        None
    }

    /// The start of the adjacent dead nodes that end just before `first`.
    fn first_of_dead<'t>(&'t self, mut first: Record<'t>, snapshot: u64) -> Record<'t> {
        while !self.is_first(first) {
            probe!("deleted_run:node");
            let target = Target::of(first);
            let (mut path, leaf) = self.path(&target, false);
            path.set(0, self.right_of(leaf, &target), 0);
            let is_left = |node: &Node<N>| target.cmp_record(self.icmp(), node.first_record()).is_lt();
            let is_dead =
                |node: &Node<N>| self.is_dead_around(node, &target, false, snapshot) && is_left(node);
            let Some(&(dead, _)) = path.0.iter().flatten().rfind(|(node, _)| is_dead(node)) else { break };
            first = path.leave_left(dead, snapshot).first_record();
        }
        first
    }
}
