//! A leaf: a range of the key space with its locks and its queue, behind one latch.
//!
//! In: requests and releases that touch the leaf, by threads that hold its latch. Out: grants.
//!
//! A request within one leaf is decided here. A request over several leaves is decided under all
//! their latches ([`LatchedLeaf`]), taken in ascending order. Decisions are therefore the same as
//! under one latch for the whole family, wherever leaves end.
//!
//! Invariants
//!  1. A leaf that has `moved` is empty and in no directory; a thread that finds such a leaf looks
//!     it up in the directory again.
//!  2. Everything in a leaf lies between `lo` and `hi`; requests in its queue overlap them.
//!  3. No thread sleeps with a latch, and none takes a latch while it holds a higher one.

use crate::cut::{Cut, CutBuf, CutOrder, KeySpan};
use crate::fragment::{FragmentChange, FragmentPiece, Fragments, Pieces, conflict};
use crate::owner::{LockOwner, NEVER, WaitOutcome};
use crate::wait::{Earlier, LockRequest, Queue, Waiter};
use esker_base::sync::{Arc, Mutex, MutexGuard};
use smallvec::SmallVec;

/// A leaf should be split after this many contended latchings among [`WINDOW`].
const CONTENDED_LIMIT: usize = 32;
/// Latchings after which contention is counted anew.
const WINDOW: u32 = 1024;

/// One leaf, on its own cache lines: requests for different leaves share no latch word.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Leaf {
    state: Mutex<LeafState>,
    pub(crate) lo: CutBuf,
    pub(crate) hi: CutBuf,
}

/// The data under the latch.
#[derive(Debug, Default)]
pub(crate) struct LeafState {
    pub(crate) fragments: Fragments,
    pub(crate) queue: Queue,
    /// A split has replaced this leaf.
    pub(crate) moved: bool,
    /// The family has been dropped.
    pub(crate) closed: bool,
    latchings: u32,
    /// Starts of the requests that found the latch taken.
    contended: Vec<CutBuf>,
}

impl Leaf {
    pub(crate) fn new(lo: CutBuf, hi: CutBuf, state: LeafState) -> Leaf {
        Leaf { state: Mutex::new(state), lo, hi }
    }

    /// Takes the latch for a request that starts at `at`.
    #[inline]
    pub(crate) fn latch(&self, at: Cut<'_>) -> MutexGuard<'_, LeafState> {
        let mut state = match self.state.try_lock() {
            Some(state) => state,
            None => self.latch_contended(at),
        };
        state.latchings += 1;
        if state.latchings > WINDOW {
            state.latchings = 0;
            state.contended.clear();
        }
        state
    }

    #[cold]
    fn latch_contended(&self, at: Cut<'_>) -> MutexGuard<'_, LeafState> {
        let mut state = self.state.lock();
        if state.contended.len() < CONTENDED_LIMIT {
            state.contended.push(at.to_buf());
        }
        state
    }

    pub(crate) fn contains(&self, order: &CutOrder, span: KeySpan<'_>) -> bool {
        order.covers(self.span(), span)
    }

    pub(crate) fn span(&self) -> KeySpan<'_> {
        KeySpan { lo: self.lo.as_cut(), hi: self.hi.as_cut() }
    }
}

/// Work to do after the latches are released.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Owners that have an outcome, or a new deadline.
    pub(crate) owners: SmallVec<[Arc<LockOwner>; 2]>,
    /// Requests that touch more leaves than were latched. The caller latches those and decides.
    pub(crate) undecided: Vec<Arc<Waiter>>,
}

impl LeafState {
    /// Whether to split the leaf, if a leaf may have `max_fragments` fragments.
    #[inline]
    pub(crate) fn wants_split(&self, max_fragments: usize) -> bool {
        self.fragments.len() > max_fragments || self.contended.len() >= CONTENDED_LIMIT
    }

    /// The key to split at: the middle of the fragments or, for a small contended leaf, the middle
    /// of the starts of requests that found the latch taken. `None` if a split would not help: all
    /// requests start at one key, or at ascending or descending keys.
    pub(crate) fn place_to_split(&mut self, order: &CutOrder, max_fragments: usize) -> Option<CutBuf> {
        if self.fragments.len() > max_fragments {
            return self.fragments.middle();
        }
        let mut places = std::mem::take(&mut self.contended);
        let ups = places.windows(2).filter(|w| order.cmp(w[0].as_cut(), w[1].as_cut()).is_lt()).count();
        let downs = places.windows(2).filter(|w| order.cmp(w[0].as_cut(), w[1].as_cut()).is_gt()).count();
        if places.len() < CONTENDED_LIMIT || ups.max(downs) > CONTENDED_LIMIT * 9 / 10 {
            return None;
        }
        places.sort_by(|a, b| order.cmp(a.as_cut(), b.as_cut()));
        let middle = places.swap_remove(places.len() / 2);
        let is_one_place = places.iter().all(|p| order.cmp(p.as_cut(), middle.as_cut()).is_eq());
        (!is_one_place).then_some(middle)
    }

    /// Splits the leaf at `at` into the states of two new leaves. A request that touches both sides
    /// is in both queues. Returns the states and the difference in bytes.
    pub(crate) fn split_off(&mut self, order: &CutOrder, at: &CutBuf) -> (LeafState, LeafState, i64) {
        let mut fragments = std::mem::take(&mut self.fragments);
        let (right_fragments, bytes) = fragments.split_off(order, at.as_cut());
        let mut left = LeafState { fragments, closed: self.closed, ..LeafState::default() };
        let mut right = LeafState { fragments: right_fragments, closed: self.closed, ..LeafState::default() };
        for waiter in self.queue.take_all() {
            let span = waiter.span.as_span();
            if order.cmp(span.lo, at.as_cut()).is_lt() {
                left.queue.push(waiter.clone());
            }
            if order.cmp(at.as_cut(), span.hi).is_lt() {
                right.queue.push(waiter);
            }
        }
        self.moved = true;
        (left, right, bytes)
    }

    /// True if another owner holds a conflicting lock that has not expired.
    fn is_held(&self, order: &CutOrder, request: &LockRequest<'_>, now: &dyn Fn() -> u64) -> bool {
        self.fragments
            .within(order, request.span)
            .filter(|f| conflict(f.mode(), request.mode))
            .flat_map(|f| f.owners())
            .any(|o| o.id != request.owner.id && !o.is_stealable(now))
    }

    /// Grants what was released in `region` to waiting requests. `leaf` is the leaf of this state.
    pub(crate) fn grant(
        &mut self,
        order: &CutOrder,
        leaf: &Leaf,
        region: KeySpan<'_>,
        now: &dyn Fn() -> u64,
        wakes: &mut Wakes,
    ) {
        let mut index = 0;
        while let Some(waiter) = self.queue.get(index).cloned() {
            let span = waiter.span.as_span();
            if !order.overlap(span, region) {
                index += 1;
                continue;
            }
            // A request that may overtake is decided after all earlier ones.
            let overtakes = waiter.bypasses && !wakes.undecided.is_empty();
            if overtakes || !leaf.contains(order, span) {
                wakes.undecided.push(waiter.clone());
                index += 1;
            } else if self.is_free_for(order, index, &waiter, now) {
                self.queue.remove(index);
                if !waiter.is_unsettled() {
                    continue;
                }
                #[cfg(test)]
                waiter.family.shared.history.granted(&waiter);
                let (pieces, bytes) = self.fragments.take(order, span, waiter.mode, &waiter.owner);
                self.recheck_deadlines(order, &waiter.owner, span, wakes);
                waiter.owner.settle(WaitOutcome::Granted(pieces, bytes));
                wakes.owners.push(waiter.owner.clone());
            } else {
                index += 1;
            }
            if self.queue.is_barred_by(order, &waiter, region) {
                return;
            }
        }
    }

    /// Checks this state against its `leaf`; for tests.
    pub(crate) fn check(&self, order: &CutOrder, leaf: &Leaf) -> Result<(), String> {
        self.fragments.check(order)?;
        if let Some(stray) = self.fragments.iter().find(|f| !leaf.contains(order, f.span())) {
            return Err(format!("{stray:?} lies outside of its leaf {:?}", leaf.span()));
        }
        let waiters: Vec<_> = self.queue.iter().collect();
        if let Some(pair) = waiters.windows(2).find(|w| w[0].ticket >= w[1].ticket) {
            return Err(format!("out of order: {pair:?}"));
        }
        // Every request that could continue has been granted, except those that another thread is
        // about to decide without latches.
        let idle = waiters.iter().enumerate().find(|(index, w)| {
            !w.bypasses && leaf.contains(order, w.span.as_span()) && self.is_free_for(order, *index, w, &|| 0)
        });
        idle.map_or(Ok(()), |(_, waiter)| Err(format!("nobody is in the way of {waiter:?}")))
    }

    fn is_free_for(&self, order: &CutOrder, index: usize, waiter: &Waiter, now: &dyn Fn() -> u64) -> bool {
        let request = waiter.request();
        !self.is_held(order, &request, now)
            && !self.queue.ahead(order, index, &request).any(|(_, stand)| stand == Earlier::HoldsUp)
    }

    /// The new owner of `span` can expire: waiting requests must check their deadlines again.
    fn recheck_deadlines(&self, order: &CutOrder, owner: &LockOwner, span: KeySpan<'_>, wakes: &mut Wakes) {
        if owner.expires_at() == NEVER {
            return;
        }
        for waiter in self.queue.iter().filter(|w| order.overlap(w.span.as_span(), span)) {
            waiter.owner.seat.lock().is_nudged = true;
            wakes.owners.push(waiter.owner.clone());
        }
    }
}

/// Neighbouring leaves, latched in ascending order.
pub(crate) struct LatchedLeaf<'d> {
    pub(crate) leaves: &'d [Arc<Leaf>],
    pub(crate) states: SmallVec<[MutexGuard<'d, LeafState>; 1]>,
}

/// A locker or request that blocks a waiting request.
#[derive(Debug)]
pub(crate) struct Blocker {
    pub(crate) owner: Arc<LockOwner>,
    /// The earlier request; `None` if a held lock blocks.
    pub(crate) by_request: Option<Arc<Waiter>>,
}

impl<'d> LatchedLeaf<'d> {
    /// Latches `leaves`; `None` if one of them has moved.
    #[inline]
    pub(crate) fn new(leaves: &'d [Arc<Leaf>], at: Cut<'_>) -> Option<LatchedLeaf<'d>> {
        let mut states = SmallVec::new();
        for leaf in leaves {
            let state = leaf.latch(at);
            if state.moved {
                return None;
            }
            states.push(state);
        }
        Some(LatchedLeaf { leaves, states })
    }

    /// The part of `span` that lies in the leaf at `index`.
    #[inline]
    pub(crate) fn part<'a>(&'a self, order: &CutOrder, index: usize, span: KeySpan<'a>) -> KeySpan<'a> {
        part_of(self.leaves, order, index, span)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.states.iter().any(|s| s.closed)
    }

    /// True if the owner holds all of it in this mode or a stronger one.
    pub(crate) fn holds(&self, order: &CutOrder, request: &LockRequest<'_>) -> bool {
        let LockRequest { span, mode, owner, .. } = *request;
        let mut states = self.states.iter().enumerate();
        states.all(|(i, state)| state.fragments.holds(order, self.part(order, i, span), mode, owner.id))
    }

    /// True if `request` can be granted now. `ticket` is its own if it waits already.
    pub(crate) fn is_free_for(
        &self,
        order: &CutOrder,
        request: &LockRequest<'_>,
        ticket: Option<u64>,
        now: &dyn Fn() -> u64,
    ) -> bool {
        !self.states.iter().any(|s| s.is_held(order, request, now))
            && !self.is_held_up(order, request, ticket)
    }

    /// True if a request with an earlier ticket blocks `request`.
    fn is_held_up(&self, order: &CutOrder, request: &LockRequest<'_>, ticket: Option<u64>) -> bool {
        self.is_any_ahead(order, request, ticket, Earlier::HoldsUp)
    }

    /// True if `request`, which has no ticket yet, would pass a waiting request.
    pub(crate) fn overtakes(&self, order: &CutOrder, request: &LockRequest<'_>) -> bool {
        self.is_any_ahead(order, request, None, Earlier::Overtaken)
    }

    /// True if a request with an earlier ticket has this relation to `request`.
    fn is_any_ahead(
        &self,
        order: &CutOrder,
        request: &LockRequest<'_>,
        ticket: Option<u64>,
        stand: Earlier,
    ) -> bool {
        self.states.iter().filter(|state| !state.queue.is_empty()).any(|state| {
            let index = state.queue.place(ticket);
            state.queue.ahead(order, index, request).any(|(_, is)| is == stand)
        })
    }

    /// A locker that holds a conflicting lock.
    pub(crate) fn holder(&self, order: &CutOrder, request: &LockRequest<'_>) -> Option<u64> {
        let held = self.states.iter().flat_map(|state| state.fragments.within(order, request.span));
        let mut owners = held.filter(|f| conflict(f.mode(), request.mode)).flat_map(|f| f.owners());
        owners.find(|owner| owner.id != request.owner.id).map(|owner| owner.id)
    }

    /// All blockers of the request that waits with `ticket`; `None` if it waits no longer.
    ///
    /// The nearest earlier exclusive request that covers this one stands for all requests before
    /// it: they and their holders block this one too.
    pub(crate) fn blockers(
        &self,
        order: &CutOrder,
        request: &LockRequest<'_>,
        ticket: u64,
        now: &dyn Fn() -> u64,
    ) -> Option<Vec<Blocker>> {
        let id = request.owner.id;
        let (mut blockers, mut is_queued) = (Vec::new(), false);
        for state in &self.states {
            let Some(index) = state.queue.position(ticket) else { continue };
            is_queued = true;
            for (waiter, stand) in state.queue.ahead(order, index, request).rev() {
                if stand != Earlier::HoldsUp {
                    continue;
                }
                blockers.push(Blocker { owner: waiter.owner.clone(), by_request: Some(waiter.clone()) });
                if self.states.len() == 1 && !waiter.bypasses && waiter.bars(order, request.span) {
                    return Some(blockers);
                }
            }
            let held =
                state.fragments.within(order, request.span).filter(|f| conflict(f.mode(), request.mode));
            let owners = held.flat_map(|f| f.owners()).filter(|o| o.id != id && !o.is_stealable(now));
            blockers.extend(owners.map(|o| Blocker { owner: o.clone(), by_request: None }));
        }
        is_queued.then_some(blockers)
    }

    /// The first expiry among the blocking locks, if no earlier request blocks.
    pub(crate) fn expiry(&self, order: &CutOrder, request: &LockRequest<'_>, ticket: u64) -> u64 {
        let is_queued = self.states.iter().any(|s| s.queue.position(ticket).is_some());
        if !is_queued || self.is_held_up(order, request, Some(ticket)) {
            return NEVER;
        }
        let states = self.states.iter();
        states
            .flat_map(|s| s.fragments.within(order, request.span))
            .filter(|f| conflict(f.mode(), request.mode))
            .flat_map(|f| f.owners())
            .filter(|o| o.id != request.owner.id)
            .map(|o| o.stealable_from())
            .min()
            .unwrap_or(NEVER)
    }

    /// Takes the span, which is free.
    pub(crate) fn take(
        &mut self,
        order: &CutOrder,
        request: &LockRequest<'_>,
        wakes: &mut Wakes,
    ) -> (Pieces, i64) {
        if let [state] = &mut self.states[..] {
            let taken = state.fragments.take(order, request.span, request.mode, request.owner);
            state.recheck_deadlines(order, request.owner, request.span, wakes);
            return taken;
        }
        let mut all = Taken::default();
        for (i, state) in self.states.iter_mut().enumerate() {
            let part = part_of(self.leaves, order, i, request.span);
            let (pieces, bytes) = state.fragments.take(order, part, request.mode, request.owner);
            all.add(part, pieces, bytes);
            state.recheck_deadlines(order, request.owner, part, wakes);
        }
        all.finish(order)
    }

    /// Puts a waiting request into the queues.
    pub(crate) fn enqueue(&mut self, waiter: &Arc<Waiter>) {
        waiter.owner.seat.lock().waiting = Some(waiter.clone());
        for state in &mut self.states {
            state.queue.push(waiter.clone());
        }
    }

    /// Takes a request out of the queues; false if it is no longer in them.
    pub(crate) fn dequeue(&mut self, ticket: u64) -> bool {
        let mut was_there = false;
        for state in &mut self.states {
            was_there |= state.queue.remove_ticket(ticket);
        }
        was_there
    }
}

/// The part of `span` that lies in the leaf at `index`.
#[inline]
pub(crate) fn part_of<'a>(
    leaves: &'a [Arc<Leaf>],
    order: &CutOrder,
    index: usize,
    span: KeySpan<'a>,
) -> KeySpan<'a> {
    if leaves.len() == 1 {
        return span;
    }
    let leaf = leaves[index].span();
    KeySpan { lo: order.max(leaf.lo, span.lo), hi: order.min(leaf.hi, span.hi) }
}

/// The pieces that a request took in several leaves.
#[derive(Default)]
struct Taken {
    pieces: Vec<FragmentPiece>,
    leaves: usize,
    whole: usize,
    bytes: i64,
}

impl Taken {
    fn add(&mut self, part: KeySpan<'_>, pieces: Pieces, bytes: i64) {
        self.leaves += 1;
        self.bytes += bytes;
        match pieces {
            Pieces::Nothing => {}
            Pieces::Whole => {
                self.whole += 1;
                self.pieces.push(FragmentPiece { change: FragmentChange::Taken, span: part.to_buf() });
            }
            Pieces::Some(some) => self.pieces.extend(some),
        }
    }

    fn finish(mut self, order: &CutOrder) -> (Pieces, i64) {
        // Pieces that touch at the border of two leaves become one.
        self.pieces.dedup_by(|next, piece| {
            let joins = piece.change == next.change
                && order.cmp(piece.span.hi.as_cut(), next.span.lo.as_cut()).is_eq();
            if joins {
                piece.span.hi = next.span.hi.clone();
            }
            joins
        });
        let pieces = if self.whole == self.leaves {
            Pieces::Whole
        } else if self.pieces.is_empty() {
            Pieces::Nothing
        } else {
            Pieces::Some(self.pieces)
        };
        (pieces, self.bytes)
    }
}
