//! The locks of one column family: requests arrive, wait and are granted here.
//!
//! In: requests and releases by lockers. Out: [`LockDecision`]s. The locker itself does the waiting
//! (`locker.rs`).
//!
//! Every operation has the same steps: look up the leaves, latch them in ascending order, decide,
//! release the latches, and then wake the lockers that were granted something ([`Wakes`]).
//!
//! Lock order: `Stripe::structure`, latches ascending, `LockOwner::seat`. No lock is taken under a
//! seat.

use crate::cut::{CutBuf, CutOrder, KeySpan, KeySpanBuf};
use crate::directory::{LeafDirectory, Stripe};
use crate::fragment::{Escalated, Pieces};
use crate::leaf::{Blocker, LatchedLeaf, Leaf, LeafState, Wakes, part_of};
use crate::manager::LockShared;
use crate::owner::WaitOutcome;
use crate::wait::{LockRequest, Waiter};
use crate::{FamilyOptions, Locking};
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use esker_base::{ColumnFamilyId, Error, hash};
use std::fmt;

/// Number of stripes of a family that locks points only.
const POINT_STRIPES: usize = 64;
/// A leaf may hold `max_fragments`, and one more for each [`LEAVES_PER_FRAGMENT`] leaves. This
/// keeps directories small enough to be copied at each split.
const LEAVES_PER_FRAGMENT: usize = 8;
/// Contended leaves are split until there are this many.
const MAX_LEAVES_BY_CONTENTION: usize = 1024;

/// The locks of one column family.
pub struct LockFamily {
    pub(crate) id: ColumnFamilyId,
    pub(crate) order: CutOrder,
    locking: Locking,
    max_fragments: usize,
    pub(crate) stripes: Box<[Stripe]>,
    pub(crate) shared: Arc<LockShared>,
}

impl fmt::Debug for LockFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("id", &self.id).field("locking", &self.locking).finish_non_exhaustive()
    }
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum LockDecision {
    /// Granted: the pieces that are newly held, and their bytes.
    Granted(Pieces, i64),
    /// The request would have to wait and may not.
    Refused,
    /// The request is in the queues.
    Waits(Arc<Waiter>),
    /// The family has been dropped.
    Dropped,
}

impl LockFamily {
    pub(crate) fn new(id: ColumnFamilyId, options: &FamilyOptions, shared: Arc<LockShared>) -> LockFamily {
        let (order, stripe_count) = match options.locking {
            // Points are equal when their bytes are, under every comparator, as in RocksDB.
            Locking::Points => (CutOrder::Bytewise, POINT_STRIPES),
            Locking::Ranges => (CutOrder::of(&options.comparator), 1),
        };
        let bounds = match options.locking {
            Locking::Points => Vec::new(),
            Locking::Ranges => bounds_at(&order, &options.boundaries),
        };
        let stripes =
            (0..stripe_count).map(|_| Stripe::new(LeafDirectory::new(&order, bounds.clone()))).collect();
        let max_fragments = options.max_fragments.max(1);
        LockFamily { id, order, locking: options.locking, max_fragments, stripes, shared }
    }

    /// The family's id.
    pub fn id(&self) -> ColumnFamilyId {
        self.id
    }

    /// The kind of locks it takes.
    pub fn locking(&self) -> Locking {
        self.locking
    }

    #[inline]
    fn stripe(&self, span: KeySpan<'_>) -> &Stripe {
        if self.stripes.len() == 1 { &self.stripes[0] } else { &self.stripes[stripe_of(span.lo.key)] }
    }

    /// Calls `f` with the latches of all leaves that `span` touches.
    #[inline]
    fn latched<R>(&self, span: KeySpan<'_>, f: impl FnOnce(&mut LatchedLeaf<'_>) -> R) -> R {
        let stripe = self.stripe(span);
        let mut f = Some(f);
        loop {
            let done = stripe.with(|directory| {
                let touched = directory.touched(&self.order, span);
                let mut latched = LatchedLeaf::new(&directory.leaves[touched], span.lo)?;
                let f = f.take()?;
                let result = f(&mut latched);
                let limit = self.max_fragments + directory.leaves.len() / LEAVES_PER_FRAGMENT;
                Some((result, latched.states.iter().any(|state| state.wants_split(limit))))
            });
            if let Some((result, wants_split)) = done {
                if wants_split {
                    self.split(stripe, span);
                }
                return result;
            }
        }
    }

    /// Grants `request`, or queues it if it may wait.
    pub(crate) fn acquire(self: &Arc<LockFamily>, request: &LockRequest<'_>, may_wait: bool) -> LockDecision {
        let mut wakes = Wakes::default();
        let decision = self.latched(request.span, |latched| {
            let decision = self.decide_new(latched, request, may_wait, &mut wakes);
            #[cfg(test)]
            self.shared.history.asked(self.id, request, may_wait, &decision);
            decision
        });
        self.deliver(wakes);
        decision
    }

    #[inline]
    fn decide_new(
        self: &Arc<LockFamily>,
        latched: &mut LatchedLeaf<'_>,
        request: &LockRequest<'_>,
        may_wait: bool,
        wakes: &mut Wakes,
    ) -> LockDecision {
        if latched.is_closed() {
            return LockDecision::Dropped;
        }
        let (order, owner) = (&self.order, request.owner);
        if let [state] = &mut latched.states[..]
            && state.queue.is_empty()
            && let Some(bytes) = state.fragments.take_free(order, request.span, request.mode, owner)
        {
            return LockDecision::Granted(Pieces::Whole, bytes);
        }
        if latched.holds(order, request) {
            return LockDecision::Granted(Pieces::Nothing, 0);
        }
        if latched.is_free_for(order, request, None, &|| self.shared.now()) {
            // Each pass draws a ticket, so younger owners pass a waiting range only a limited
            // number of times (`wait.rs`).
            if latched.overtakes(order, request) {
                self.shared.draw_ticket();
            }
            let (pieces, bytes) = latched.take(order, request, wakes);
            return LockDecision::Granted(pieces, bytes);
        }
        if !may_wait {
            return LockDecision::Refused;
        }
        let waiter = self.waiter(latched, request);
        latched.enqueue(&waiter);
        LockDecision::Waits(waiter)
    }

    /// A waiter for `request`. Its ticket is drawn under the latches, which keeps queues sorted.
    fn waiter(self: &Arc<LockFamily>, latched: &LatchedLeaf<'_>, request: &LockRequest<'_>) -> Arc<Waiter> {
        let ticket = self.shared.draw_ticket();
        let patience = if request.span.is_point() { 0 } else { self.shared.range_patience };
        Arc::new(Waiter {
            ticket,
            passable_until: (ticket + 1).saturating_add(patience),
            owner: request.owner.clone(),
            stamp: request.stamp,
            family: self.clone(),
            span: request.span.to_buf(),
            mode: request.mode,
            bypasses: latched.overtakes(&self.order, request),
        })
    }

    /// Releases the part of `span` that `id` holds. Returns the difference in bytes; `None`: it
    /// held nothing.
    pub(crate) fn release(&self, span: KeySpan<'_>, id: u64, escalated: Escalated) -> Option<i64> {
        let note = |_any: bool| {
            #[cfg(test)]
            self.shared.history.released(self.id, id, span, _any);
        };
        self.loosen(span, |state, part| state.fragments.release(&self.order, part, id, escalated), note)
    }

    /// Makes the exclusive locks of `id` within `span` shared. Returns the difference in bytes;
    /// `None`: there were none.
    pub(crate) fn downgrade(&self, span: KeySpan<'_>, id: u64) -> Option<i64> {
        let note = |_any: bool| {
            #[cfg(test)]
            self.shared.history.downgraded(self.id, id, span, _any);
        };
        self.loosen(span, |state, part| state.fragments.downgrade(&self.order, part, id), note)
    }

    /// Applies `change`, which releases or weakens locks, to each leaf, then grants waiting
    /// requests. `note` is called under the latches, with whether `change` released anything.
    #[inline]
    fn loosen(
        &self,
        span: KeySpan<'_>,
        mut change: impl FnMut(&mut LeafState, KeySpan<'_>) -> Option<i64>,
        note: impl Fn(bool),
    ) -> Option<i64> {
        let mut wakes = Wakes::default();
        let sum = self.latched(span, |latched| {
            let mut sum = None;
            for index in 0..latched.states.len() {
                let part = part_of(latched.leaves, &self.order, index, span);
                if let Some(bytes) = change(&mut latched.states[index], part) {
                    sum = Some(sum.unwrap_or(0) + bytes);
                }
            }
            note(sum.is_some());
            if sum.is_some() {
                self.grant(latched, span, &mut wakes);
            }
            sum
        });
        self.deliver(wakes);
        sum
    }

    /// Grants the requests that wait for `span` and are free to continue.
    #[inline]
    fn grant(&self, latched: &mut LatchedLeaf<'_>, span: KeySpan<'_>, wakes: &mut Wakes) {
        let leaves = latched.leaves;
        for (leaf, state) in leaves.iter().zip(&mut latched.states).filter(|(_, s)| !s.queue.is_empty()) {
            state.grant(&self.order, leaf, span, &|| self.shared.now(), wakes);
        }
    }

    /// Withdraws a waiting request. False if it has been settled meanwhile.
    pub(crate) fn withdraw(&self, waiter: &Waiter) -> bool {
        let span = waiter.span.as_span();
        let mut wakes = Wakes::default();
        let was_there = self.latched(span, |latched| {
            let was_there = latched.dequeue(waiter.ticket) && waiter.stop_waiting();
            if was_there {
                #[cfg(test)]
                self.shared.history.withdrawn(waiter);
                self.grant(latched, span, &mut wakes);
            }
            was_there
        });
        self.deliver(wakes);
        let is_elsewhere = self.has_custom_order() && self.withdraw_from_anywhere(waiter);
        was_there || is_elsewhere
    }

    /// Withdraws a request from any queue. A comparator that changed its answers may have left it
    /// in the wrong one.
    #[cold]
    fn withdraw_from_anywhere(&self, waiter: &Waiter) -> bool {
        let mut wakes = Wakes::default();
        self.for_each_leaf(|leaf, state| {
            if state.queue.remove_ticket(waiter.ticket) {
                state.grant(&self.order, leaf, leaf.span(), &|| self.shared.now(), &mut wakes);
            }
        });
        self.deliver(wakes);
        // If another thread granted the request, it did so under one of the latches above.
        waiter.stop_waiting()
    }

    /// Examines a waiting request again: locks may have expired, or it touches several leaves.
    pub(crate) fn decide(&self, waiter: &Waiter) {
        let mut wakes = Wakes::default();
        self.decide_into(waiter, &mut wakes);
        self.deliver(wakes);
    }

    fn decide_into(&self, waiter: &Waiter, wakes: &mut Wakes) {
        let request = waiter.request();
        self.latched(request.span, |latched| {
            let is_queued = latched.states.iter().any(|s| s.queue.position(waiter.ticket).is_some());
            let now = || self.shared.now();
            if is_queued && latched.is_free_for(&self.order, &request, Some(waiter.ticket), &now) {
                latched.dequeue(waiter.ticket);
                if !waiter.is_unsettled() {
                    return;
                }
                let (pieces, bytes) = latched.take(&self.order, &request, wakes);
                #[cfg(test)]
                self.shared.history.granted(waiter);
                waiter.owner.settle(WaitOutcome::Granted(pieces, bytes));
                wakes.owners.push(waiter.owner.clone());
            }
        });
    }

    /// Decides the undecided requests in order of arrival and wakes sleeping lockers. The caller
    /// holds no latch.
    #[inline]
    fn deliver(&self, mut wakes: Wakes) {
        if wakes.owners.is_empty() && wakes.undecided.is_empty() {
            #[cfg(test)]
            self.shared.history.done();
            return;
        }
        let mut undecided = std::mem::take(&mut wakes.undecided);
        undecided.sort_by_key(|w| w.ticket);
        undecided.dedup_by_key(|w| w.ticket);
        for waiter in undecided {
            self.decide_into(&waiter, &mut wakes);
        }
        #[cfg(test)]
        self.shared.history.done();
        for owner in wakes.owners {
            self.shared.counters.wakeups.fetch_add(1, Ordering::Relaxed);
            owner.wake.notify_one();
        }
    }

    /// The first time at which a lock that blocks `waiter` expires; `NEVER` if an earlier request
    /// blocks it too.
    pub(crate) fn expiry_in_the_way(&self, waiter: &Waiter) -> u64 {
        let request = waiter.request();
        self.latched(request.span, |latched| latched.expiry(&self.order, &request, waiter.ticket))
    }

    /// A locker that holds a conflicting lock; `None` if there is none any more.
    pub(crate) fn holder(&self, request: &LockRequest<'_>) -> Option<u64> {
        self.latched(request.span, |latched| latched.holder(&self.order, request))
    }

    /// All blockers of a waiting request; `None` if it waits no longer.
    pub(crate) fn blockers(&self, waiter: &Waiter) -> Option<Vec<Blocker>> {
        let request = waiter.request();
        self.latched(request.span, |latched| {
            latched.blockers(&self.order, &request, waiter.ticket, &|| self.shared.now())
        })
    }

    /// Splits the first leaf under `span` that is too large or too contended. Does nothing if no
    /// leaf is, for example after a split by another thread.
    #[cold]
    fn split(&self, stripe: &Stripe, span: KeySpan<'_>) {
        let _structure = stripe.structure.lock();
        let order = &self.order;
        stripe.with(|directory| {
            let limit = self.max_fragments + directory.leaves.len() / LEAVES_PER_FRAGMENT;
            for index in directory.touched(order, span) {
                let leaf = &directory.leaves[index];
                let mut state = leaf.latch(span.lo);
                let is_large = state.fragments.len() > limit;
                if !state.wants_split(limit)
                    || (!is_large && directory.leaves.len() >= MAX_LEAVES_BY_CONTENTION)
                {
                    continue;
                }
                let Some(at) = state.place_to_split(order, limit) else { continue };
                let is_inside = order.cmp(leaf.lo.as_cut(), at.as_cut()).is_lt()
                    && order.cmp(at.as_cut(), leaf.hi.as_cut()).is_lt();
                if !is_inside {
                    continue;
                }
                let (left, right, bytes) = state.split_off(order, &at);
                let left = Leaf::new(leaf.lo.clone(), at.clone(), left);
                let right = Leaf::new(at.clone(), leaf.hi.clone(), right);
                stripe.publish(directory.with_split(order, index, at, left, right));
                self.shared.add_bytes(bytes);
                self.shared.counters.splits.fetch_add(1, Ordering::Relaxed);
                // `directory` is out of date now, so the loop must not go on.
                return;
            }
        });
    }

    /// Ends the family: drops its locks, and fails waiting and later requests.
    pub(crate) fn close(&self) {
        for stripe in &self.stripes {
            let _structure = stripe.structure.lock();
            let mut waiting: Vec<Arc<Waiter>> = Vec::new();
            stripe.with(|directory| {
                let mut states: Vec<_> =
                    directory.leaves.iter().map(|leaf| leaf.latch(leaf.lo.as_cut())).collect();
                for state in &mut states {
                    state.closed = true;
                    self.shared.add_bytes(-state.fragments.clear());
                    waiting.extend(state.queue.take_all());
                }
                waiting.sort_by_key(|w| w.ticket);
                waiting.dedup_by_key(|w| w.ticket);
                for waiter in &waiting {
                    waiter.owner.settle(WaitOutcome::Failed(dropped(self.id)));
                }
            });
            for waiter in waiting {
                waiter.owner.wake.notify_one();
            }
        }
    }

    /// Calls `f` with each leaf under its latch, in order.
    pub(crate) fn for_each_leaf(&self, mut f: impl FnMut(&Leaf, &mut LeafState)) {
        for stripe in &self.stripes {
            let _structure = stripe.structure.lock();
            stripe.with(|directory| {
                for leaf in &directory.leaves {
                    f(leaf, &mut leaf.latch(leaf.lo.as_cut()));
                }
            });
        }
    }

    /// Whether the order is a user's comparator, whose answers may change.
    #[inline]
    pub(crate) fn has_custom_order(&self) -> bool {
        matches!(self.order, CutOrder::Custom(_))
    }

    /// Releases everything that `id` holds, and finds it without the comparator. Also removes
    /// requests of `id` that an inconsistent comparator left in queues. `id` must not wait. Returns
    /// the difference in bytes.
    #[cold]
    pub(crate) fn purge(&self, id: u64) -> i64 {
        let (mut wakes, mut sum) = (Wakes::default(), 0);
        self.for_each_leaf(|leaf, state| {
            let bytes = state.fragments.purge(id);
            if bytes.is_some() | state.queue.remove_owner(id) {
                sum += bytes.unwrap_or(0);
                state.grant(&self.order, leaf, leaf.span(), &|| self.shared.now(), &mut wakes);
            }
        });
        self.deliver(wakes);
        sum
    }

    /// Releases everything that `id` holds. Escalation leaves locks that the owner's log does not
    /// name; this function finds them too. Returns the difference in bytes.
    pub(crate) fn sweep(&self, id: u64) -> i64 {
        let everything = KeySpan { lo: CutBuf::MIN.as_cut(), hi: CutBuf::MAX.as_cut() };
        let mut held: Vec<KeySpanBuf> = Vec::new();
        self.for_each_leaf(|_, state| {
            let own = state.fragments.within(&self.order, everything).filter(|f| f.is_owned_by(id));
            held.extend(own.map(|f| f.span().to_buf()));
        });
        held.iter().filter_map(|span| self.release(span.as_span(), id, Escalated::Release)).sum()
    }
}

/// The error of a dropped family.
#[cold]
pub(crate) fn dropped(id: ColumnFamilyId) -> Error {
    Error::column_family_dropped(format!("column family {id} was dropped; its locks are gone"))
}

/// The stripe of a key in a family for points.
#[inline]
fn stripe_of(key: &[u8]) -> usize {
    hash::xxh3_64(key, 0) as usize % POINT_STRIPES
}

/// The cuts before `keys`, sorted and without duplicates.
fn bounds_at(order: &CutOrder, keys: &[Vec<u8>]) -> Vec<CutBuf> {
    let mut bounds: Vec<CutBuf> = keys.iter().map(|k| KeySpan::point(k).lo.to_buf()).collect();
    bounds.sort_by(|a, b| order.cmp(a.as_cut(), b.as_cut()));
    bounds.dedup_by(|a, b| order.cmp(a.as_cut(), b.as_cut()).is_eq());
    bounds
}
