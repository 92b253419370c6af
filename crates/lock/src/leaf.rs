//! A stretch of the key space, with what is locked in it and who waits there, behind one latch.
//!
//! In: requests and releases that touch it, by threads that have its latch. Out: grants, handed to
//! those who waited.
//!
//! A request that lies in one leaf is decided here. One that touches several is decided under the
//! latches of all of them ([`Latched`]), taken in ascending order: so every decision is as if there
//! were one latch for the whole family, and where leaves end makes no difference to who gets what.
//!
//! Invariants
//!  1. A leaf that has `moved` is empty and in no directory; whoever has its latch looks the
//!     directory up again.
//!  2. Everything in a leaf lies between `lo` and `hi`; requests in its queue overlap them.
//!  3. No thread sleeps with a latch, and none takes one while it has a higher one.

use crate::cut::{Cut, CutBuf, Order, Span};
use crate::fragment::{Change, Fragments, Piece, Pieces, conflict};
use crate::owner::{NEVER, Outcome, Owner};
use crate::wait::{Earlier, Queue, Request, Waiter};
use esker_base::sync::{Arc, Mutex, MutexGuard};
use smallvec::SmallVec;

/// Contended latchings among [`WINDOW`] that make a leaf want to be split.
const CONTENDED_LIMIT: usize = 32;
/// Latchings after which contention is counted anew.
const WINDOW: u32 = 1024;

/// One leaf. On cache lines of its own: its latch is the only word that requests of different
/// leaves never share.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Leaf {
    state: Mutex<LeafState>,
    pub(crate) lo: CutBuf,
    pub(crate) hi: CutBuf,
}

/// What the latch guards.
#[derive(Debug, Default)]
pub(crate) struct LeafState {
    pub(crate) fragments: Fragments,
    pub(crate) queue: Queue,
    /// Replaced by others.
    pub(crate) moved: bool,
    /// The family has been dropped.
    pub(crate) closed: bool,
    latchings: u32,
    /// Where those wanted to go who found the latch taken.
    contended: Vec<CutBuf>,
}

impl Leaf {
    pub(crate) fn new(lo: CutBuf, hi: CutBuf, state: LeafState) -> Leaf {
        Leaf { state: Mutex::new(state), lo, hi }
    }

    /// The latch, for a request that starts at `at`.
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

    pub(crate) fn contains(&self, order: &Order, span: Span<'_>) -> bool {
        order.covers(self.span(), span)
    }

    pub(crate) fn span(&self) -> Span<'_> {
        Span { lo: self.lo.as_cut(), hi: self.hi.as_cut() }
    }
}

/// What is to be done once the latches are released.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    /// Sleep on an outcome, or are to look at the clock again.
    pub(crate) owners: SmallVec<[Arc<Owner>; 2]>,
    /// Touch more leaves than were latched; somebody must latch those and decide.
    pub(crate) undecided: Vec<Arc<Waiter>>,
}

impl LeafState {
    /// Whether it should be cut in two, given how many fragments it may hold.
    #[inline]
    pub(crate) fn wants_split(&self, max_fragments: usize) -> bool {
        self.fragments.len() > max_fragments || self.contended.len() >= CONTENDED_LIMIT
    }

    /// Where to cut it: in the middle of what it holds or, if it is small but busy, of where those
    /// wanted to go who found the latch taken. `None` if a cut would not help: one place, or one
    /// after the other in one direction.
    pub(crate) fn place_to_split(&mut self, order: &Order, max_fragments: usize) -> Option<CutBuf> {
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

    /// Everything from `at` on, as the state of a new leaf; requests that touch both sides stand in
    /// both queues. The difference in bytes.
    pub(crate) fn split_off(&mut self, order: &Order, at: &CutBuf) -> (LeafState, LeafState, i64) {
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

    /// True if somebody else holds what `request` conflicts with and may not be robbed.
    fn is_held(&self, order: &Order, request: &Request<'_>, now: &dyn Fn() -> u64) -> bool {
        self.fragments
            .within(order, request.span)
            .filter(|f| conflict(f.mode(), request.mode))
            .flat_map(|f| f.owners())
            .any(|o| o.id != request.owner.id && !o.may_be_robbed(now))
    }

    /// Hands what was released in `region` to those who may have it now. `leaf` is the one whose
    /// state this is.
    pub(crate) fn grant(
        &mut self,
        order: &Order,
        leaf: &Leaf,
        region: Span<'_>,
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
            // Who may overtake is decided after all who came earlier.
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
                self.nudge(order, &waiter.owner, span, wakes);
                waiter.owner.settle(Outcome::Granted(pieces, bytes));
                wakes.owners.push(waiter.owner.clone());
            } else {
                index += 1;
            }
            if self.queue.is_barred_by(order, &waiter, region) {
                return;
            }
        }
    }

    /// Checks what is here against `leaf`, whose state this is; for tests.
    pub(crate) fn check(&self, order: &Order, leaf: &Leaf) -> Result<(), String> {
        self.fragments.check(order)?;
        if let Some(stray) = self.fragments.iter().find(|f| !leaf.contains(order, f.span())) {
            return Err(format!("{stray:?} lies outside of its leaf {:?}", leaf.span()));
        }
        let waiters: Vec<_> = self.queue.iter().collect();
        if let Some(pair) = waiters.windows(2).find(|w| w[0].ticket >= w[1].ticket) {
            return Err(format!("out of order: {pair:?}"));
        }
        // Whoever could go on has been let through; but for those whom somebody may be about to
        // decide, without latches.
        let idle = waiters.iter().enumerate().find(|(index, w)| {
            !w.bypasses && leaf.contains(order, w.span.as_span()) && self.is_free_for(order, *index, w, &|| 0)
        });
        idle.map_or(Ok(()), |(_, waiter)| Err(format!("nobody is in the way of {waiter:?}")))
    }

    fn is_free_for(&self, order: &Order, index: usize, waiter: &Waiter, now: &dyn Fn() -> u64) -> bool {
        let request = waiter.request();
        !self.is_held(order, &request, now)
            && !self.queue.ahead(order, index, &request).any(|(_, stand)| stand == Earlier::HoldsUp)
    }

    /// Who got `span` can expire: those who wait there look at the clock again.
    fn nudge(&self, order: &Order, owner: &Owner, span: Span<'_>, wakes: &mut Wakes) {
        if owner.expires_at() == NEVER {
            return;
        }
        for waiter in self.queue.iter().filter(|w| order.overlap(w.span.as_span(), span)) {
            waiter.owner.seat.lock().is_nudged = true;
            wakes.owners.push(waiter.owner.clone());
        }
    }
}

/// Some neighbouring leaves, latched in ascending order.
pub(crate) struct Latched<'d> {
    pub(crate) leaves: &'d [Arc<Leaf>],
    pub(crate) states: SmallVec<[MutexGuard<'d, LeafState>; 1]>,
}

/// Somebody in the way of a waiting request.
#[derive(Debug)]
pub(crate) struct Blocker {
    pub(crate) owner: Arc<Owner>,
    /// The request that came earlier; `None` if it is in the way by a lock it has.
    pub(crate) by_request: Option<Arc<Waiter>>,
}

impl<'d> Latched<'d> {
    /// `None` if one of them has moved.
    #[inline]
    pub(crate) fn new(leaves: &'d [Arc<Leaf>], at: Cut<'_>) -> Option<Latched<'d>> {
        let mut states = SmallVec::new();
        for leaf in leaves {
            let state = leaf.latch(at);
            if state.moved {
                return None;
            }
            states.push(state);
        }
        Some(Latched { leaves, states })
    }

    /// The part of `span` that lies in the leaf at `index`.
    #[inline]
    pub(crate) fn part<'a>(&'a self, order: &Order, index: usize, span: Span<'a>) -> Span<'a> {
        part_of(self.leaves, order, index, span)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.states.iter().any(|s| s.closed)
    }

    /// True if the owner has all of it in this mode or a stronger one.
    pub(crate) fn holds(&self, order: &Order, request: &Request<'_>) -> bool {
        let Request { span, mode, owner, .. } = *request;
        let mut states = self.states.iter().enumerate();
        states.all(|(i, state)| state.fragments.holds(order, self.part(order, i, span), mode, owner.id))
    }

    /// True if `request` can be granted now; `ticket` is its own if it waits already.
    pub(crate) fn is_free_for(
        &self,
        order: &Order,
        request: &Request<'_>,
        ticket: Option<u64>,
        now: &dyn Fn() -> u64,
    ) -> bool {
        !self.states.iter().any(|s| s.is_held(order, request, now))
            && !self.is_held_up(order, request, ticket)
    }

    /// True if somebody who came before `ticket` is in the way of `request`.
    fn is_held_up(&self, order: &Order, request: &Request<'_>, ticket: Option<u64>) -> bool {
        self.is_any_ahead(order, request, ticket, Earlier::HoldsUp)
    }

    /// True if `request`, which has no ticket yet, passes somebody who waits.
    pub(crate) fn overtakes(&self, order: &Order, request: &Request<'_>) -> bool {
        self.is_any_ahead(order, request, None, Earlier::Overtaken)
    }

    /// True if one who came before `ticket` stands so to `request`.
    fn is_any_ahead(
        &self,
        order: &Order,
        request: &Request<'_>,
        ticket: Option<u64>,
        stand: Earlier,
    ) -> bool {
        self.states.iter().filter(|state| !state.queue.is_empty()).any(|state| {
            let index = state.queue.place(ticket);
            state.queue.ahead(order, index, request).any(|(_, is)| is == stand)
        })
    }

    /// A locker that holds what the request is in conflict with.
    pub(crate) fn holder(&self, order: &Order, request: &Request<'_>) -> Option<u64> {
        let held = self.states.iter().flat_map(|state| state.fragments.within(order, request.span));
        let mut owners = held.filter(|f| conflict(f.mode(), request.mode)).flat_map(|f| f.owners());
        owners.find(|owner| owner.id != request.owner.id).map(|owner| owner.id)
    }

    /// Everybody in the way of a request that waits with `ticket`; `None` if it waits no longer.
    ///
    /// Of requests that came earlier, the nearest exclusive one that covers this one stands for all
    /// before it: they and their holders are in its way too.
    pub(crate) fn blockers(
        &self,
        order: &Order,
        request: &Request<'_>,
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
            let owners = held.flat_map(|f| f.owners()).filter(|o| o.id != id && !o.may_be_robbed(now));
            blockers.extend(owners.map(|o| Blocker { owner: o.clone(), by_request: None }));
        }
        is_queued.then_some(blockers)
    }

    /// When the first of those expires whose locks are in the way, if nobody who came earlier is.
    pub(crate) fn expiry(&self, order: &Order, request: &Request<'_>, ticket: u64) -> u64 {
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
            .map(|o| o.robbable_at())
            .min()
            .unwrap_or(NEVER)
    }

    /// Takes what is free.
    pub(crate) fn take(&mut self, order: &Order, request: &Request<'_>, wakes: &mut Wakes) -> (Pieces, i64) {
        if let [state] = &mut self.states[..] {
            let taken = state.fragments.take(order, request.span, request.mode, request.owner);
            state.nudge(order, request.owner, request.span, wakes);
            return taken;
        }
        let mut all = Taken::default();
        for (i, state) in self.states.iter_mut().enumerate() {
            let part = part_of(self.leaves, order, i, request.span);
            let (pieces, bytes) = state.fragments.take(order, part, request.mode, request.owner);
            all.add(part, pieces, bytes);
            state.nudge(order, request.owner, part, wakes);
        }
        all.finish(order)
    }

    /// Puts a request that has to wait into the queues.
    pub(crate) fn enqueue(&mut self, waiter: &Arc<Waiter>) {
        waiter.owner.seat.lock().waiting = Some(waiter.clone());
        for state in &mut self.states {
            state.queue.push(waiter.clone());
        }
    }

    /// Takes a request out of the queues; false if it is not in them any more.
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
pub(crate) fn part_of<'a>(leaves: &'a [Arc<Leaf>], order: &Order, index: usize, span: Span<'a>) -> Span<'a> {
    if leaves.len() == 1 {
        return span;
    }
    let leaf = leaves[index].span();
    Span { lo: order.max(leaf.lo, span.lo), hi: order.min(leaf.hi, span.hi) }
}

/// What a request took in several leaves, put together.
#[derive(Default)]
struct Taken {
    pieces: Vec<Piece>,
    leaves: usize,
    whole: usize,
    bytes: i64,
}

impl Taken {
    fn add(&mut self, part: Span<'_>, pieces: Pieces, bytes: i64) {
        self.leaves += 1;
        self.bytes += bytes;
        match pieces {
            Pieces::Nothing => {}
            Pieces::Whole => {
                self.whole += 1;
                self.pieces.push(Piece { change: Change::Taken, span: part.to_buf() });
            }
            Pieces::Some(some) => self.pieces.extend(some),
        }
    }

    fn finish(mut self, order: &Order) -> (Pieces, i64) {
        // What touches across the border of two leaves is one piece.
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
