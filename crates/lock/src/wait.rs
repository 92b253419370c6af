//! Waiting requests, and the queue of a leaf.
//!
//! In: requests in order of arrival. Out: the requests that block a given one.
//!
//! Fairness. A request is granted when no other owner *holds* a conflicting lock, and no *earlier*
//! conflicting request waits. There are two exceptions.
//!
//! First, an owner passes a waiting request that arrived after the owner's first lock. (The owner's
//! stamp is the next ticket at the time of its first lock. If this stamp is at most the request's
//! ticket, the owner passes the request.) Without this exception, an owner would wait for requests
//! that wait for the owner's own locks.
//!
//! Second, a younger owner passes a waiting *range*, if fewer than `range_patience` tickets were
//! drawn between the range's ticket and the owner's first lock. Each pass draws a ticket. Without
//! these passes, a range that waits for one slow holder would block all its other keys. (In a
//! measurement without passes, with 40 threads on two processors, 64% of the waits were for keys
//! that no owner held.) The number of passes is finite, so no request starves.
//!
//! Passing forms no cycle among lockers that lock in ascending order. Suppose that there is one: a
//! locker X waits for a request W, and W waits, through other lockers, for a lock L of X. Each
//! locker requests keys above its own locks. So the keys ascend from W, through the locks and
//! requests of the other lockers, to L, and from L to the request of X. That request overlaps W.
//! So L lies in the span of W, or in the span of an earlier request V for which W waits. X waits
//! for W, so X is too young to pass W, and took L after W arrived. To take L, X must have passed W
//! or V. X could not pass W. X could not pass V either: X is younger than the owner of W, and that
//! owner is too young to pass V. This is a contradiction.
//!
//! Invariants
//!  1. A queue is sorted by ticket. A request is in the queues of all leaves that its span touches,
//!     or in none.
//!  2. `bypassing` counts the requests in the queue with `bypasses`.

use crate::LockMode;
use crate::cut::{CutOrder, KeySpan, KeySpanBuf};
use crate::family::LockFamily;
use crate::fragment::conflict;
use crate::owner::LockOwner;
use esker_base::sync::Arc;
use std::collections::VecDeque;

/// A request that is being decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest<'a> {
    pub(crate) owner: &'a Arc<LockOwner>,
    /// The next ticket at the time of the owner's first lock.
    pub(crate) stamp: u64,
    pub(crate) span: KeySpan<'a>,
    pub(crate) mode: LockMode,
}

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// The request's place in the order of arrival.
    pub(crate) ticket: u64,
    pub(crate) owner: Arc<LockOwner>,
    pub(crate) stamp: u64,
    pub(crate) family: Arc<LockFamily>,
    pub(crate) span: KeySpanBuf,
    pub(crate) mode: LockMode,
    /// Whether the request may overtake earlier requests.
    pub(crate) bypasses: bool,
    /// Owners with a smaller stamp than this pass the request.
    pub(crate) passable_until: u64,
}

impl Waiter {
    pub(crate) fn request(&self) -> LockRequest<'_> {
        LockRequest { owner: &self.owner, stamp: self.stamp, span: self.span.as_span(), mode: self.mode }
    }

    /// False if the request was granted or withdrawn, or its family was dropped. An inconsistent
    /// comparator may leave a settled request in a queue.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.owner.seat.lock().waiting.as_ref().is_some_and(|waiting| waiting.ticket == self.ticket)
    }

    /// Marks that the owner waits no longer. False if the owner did not wait for this request.
    pub(crate) fn stop_waiting(&self) -> bool {
        self.owner.seat.lock().waiting.take_if(|waiting| waiting.ticket == self.ticket).is_some()
    }
}

impl Waiter {
    /// Whether the request is exclusive and covers `span`.
    pub(crate) fn bars(&self, order: &CutOrder, span: KeySpan<'_>) -> bool {
        self.mode == LockMode::Exclusive && order.covers(self.span.as_span(), span)
    }
}

/// The effect of an earlier request on a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earlier {
    /// The two do not conflict.
    Compatible,
    /// The later request waits for the earlier one.
    HoldsUp,
    /// The two conflict, but the later request may go first.
    Overtaken,
}

/// The effect of `earlier` on `later`.
pub(crate) fn stand(order: &CutOrder, earlier: &Waiter, later: &LockRequest<'_>) -> Earlier {
    let is_apart = earlier.owner.id == later.owner.id
        || !conflict(earlier.mode, later.mode)
        || !order.overlap(earlier.span.as_span(), later.span);
    if is_apart {
        Earlier::Compatible
    } else if later.stamp < earlier.passable_until {
        Earlier::Overtaken
    } else {
        Earlier::HoldsUp
    }
}

/// The waiting requests of a leaf.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: VecDeque<Arc<Waiter>>,
    bypassing: usize,
}

impl Queue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Arc<Waiter>> {
        self.line.get(index)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Waiter>> {
        self.line.iter()
    }

    /// The index of the request with this ticket.
    pub(crate) fn position(&self, ticket: u64) -> Option<usize> {
        self.line.binary_search_by_key(&ticket, |w| w.ticket).ok()
    }

    /// The index of the request with this ticket. The length of the queue if there is no ticket, or
    /// no such request.
    pub(crate) fn place(&self, ticket: Option<u64>) -> usize {
        ticket.and_then(|t| self.position(t)).unwrap_or(self.line.len())
    }

    pub(crate) fn push(&mut self, waiter: Arc<Waiter>) {
        debug_assert!(self.line.back().is_none_or(|last| last.ticket < waiter.ticket));
        self.bypassing += usize::from(waiter.bypasses);
        self.line.push_back(waiter);
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<Arc<Waiter>> {
        let waiter = self.line.remove(index)?;
        self.bypassing -= usize::from(waiter.bypasses);
        if self.line.is_empty() {
            self.line = VecDeque::new();
        }
        Some(waiter)
    }

    pub(crate) fn remove_ticket(&mut self, ticket: u64) -> bool {
        self.position(ticket).and_then(|index| self.remove(index)).is_some()
    }

    /// Removes all requests of this owner. True if there were any.
    pub(crate) fn remove_owner(&mut self, id: u64) -> bool {
        let before = self.line.len();
        while let Some(index) = self.line.iter().position(|waiter| waiter.owner.id == id) {
            self.remove(index);
        }
        self.line.len() < before
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<Arc<Waiter>> {
        self.bypassing = 0;
        std::mem::take(&mut self.line)
    }

    /// The effect of each request before `index` on `later`.
    pub(crate) fn ahead<'a>(
        &'a self,
        order: &'a CutOrder,
        index: usize,
        later: &'a LockRequest<'a>,
    ) -> impl DoubleEndedIterator<Item = (&'a Arc<Waiter>, Earlier)> + 'a {
        self.line.iter().take(index).map(move |w| (w, stand(order, w, later)))
    }

    /// Whether `waiter` keeps all later requests from locks in `region`: it is exclusive and covers
    /// the region, and no queued request may overtake.
    pub(crate) fn is_barred_by(&self, order: &CutOrder, waiter: &Waiter, region: KeySpan<'_>) -> bool {
        self.bypassing == 0 && waiter.bars(order, region)
    }
}
