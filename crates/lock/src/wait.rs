//! Waiting requests and their queue.
//!
//! In: requests in order of arrival. Out: which request blocks which, and which may continue after
//! a release.
//!
//! Fairness. A request is granted when no other owner *holds* a conflicting lock and no *earlier*
//! conflicting request waits. An owner older than a waiting request passes it: the owner's stamp,
//! the next ticket at the time of its first lock, is not above the request's ticket. Otherwise a
//! locker would wait while others already wait for its locks.
//!
//! Younger owners pass a waiting *range* as well, until `range_patience` tickets are drawn after
//! its own; each pass draws one. Without that, a range that waits for one slow holder would block
//! all its other keys. (With 40 threads on two processors, two of three waits were for such
//! ranges.) Only owners that began before these tickets pass. Their number is finite, so no request
//! starves.
//!
//! Passing causes no cycles among lockers that take their locks in ascending order. Suppose X waits
//! for the request W, and W waits, through others, for X. Following the holders upwards from the
//! span of W leads to a lock of X. That lock lies in W, or in a request that blocks W and that X
//! passed. But X is too young to pass W, which is younger than that request: a contradiction.
//!
//! Invariants
//!  1. A queue is sorted by ticket. A request is in the queue of each leaf that its span touches,
//!     or in none.
//!  2. `bypassing` counts the requests in the queue that may overtake.

use crate::LockMode;
use crate::cut::{CutOrder, KeySpan, KeySpanBuf};
use crate::family::LockFamily;
use crate::fragment::conflict;
use crate::owner::LockOwner;
use esker_base::sync::Arc;
use std::collections::VecDeque;

/// A request during its decision.
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
    /// Its order of arrival.
    pub(crate) ticket: u64,
    pub(crate) owner: Arc<LockOwner>,
    pub(crate) stamp: u64,
    pub(crate) family: Arc<LockFamily>,
    pub(crate) span: KeySpanBuf,
    pub(crate) mode: LockMode,
    /// Whether the request may overtake earlier ones.
    pub(crate) bypasses: bool,
    /// Requests of owners with smaller stamps pass this request.
    pub(crate) passable_until: u64,
}

impl Waiter {
    pub(crate) fn request(&self) -> LockRequest<'_> {
        LockRequest { owner: &self.owner, stamp: self.stamp, span: self.span.as_span(), mode: self.mode }
    }

    /// False if it has been granted, withdrawn or refused. A comparator that changed its answers
    /// may have left a settled request in a queue.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.owner.seat.lock().waiting.as_ref().is_some_and(|waiting| waiting.ticket == self.ticket)
    }

    /// Ends the wait of its owner. False if the owner did not wait.
    pub(crate) fn stop_waiting(&self) -> bool {
        self.owner.seat.lock().waiting.take_if(|waiting| waiting.ticket == self.ticket).is_some()
    }
}

impl Waiter {
    /// True if the request is exclusive and covers `span`. Then no later request gets a lock in
    /// `span`.
    pub(crate) fn bars(&self, order: &CutOrder, span: KeySpan<'_>) -> bool {
        self.mode == LockMode::Exclusive && order.covers(self.span.as_span(), span)
    }
}

/// The relation of an earlier request to a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earlier {
    /// Both can be granted.
    Compatible,
    /// The later one waits for the earlier.
    HoldsUp,
    /// They conflict, but the later request may go first.
    Overtaken,
}

/// The relation of `earlier` to `later`.
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

    /// The index of the request with this ticket; the length of the queue without one.
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

    /// Removes all requests of this owner; true if there were any.
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

    /// The relation of each request before `index` to `later`.
    pub(crate) fn ahead<'a>(
        &'a self,
        order: &'a CutOrder,
        index: usize,
        later: &'a LockRequest<'a>,
    ) -> impl DoubleEndedIterator<Item = (&'a Arc<Waiter>, Earlier)> + 'a {
        self.line.iter().take(index).map(move |w| (w, stand(order, w, later)))
    }

    /// True if no later request can get a lock in `region`: `waiter` is exclusive, covers the
    /// region, and no queued request may overtake.
    pub(crate) fn is_barred_by(&self, order: &CutOrder, waiter: &Waiter, region: KeySpan<'_>) -> bool {
        self.bypassing == 0 && waiter.bars(order, region)
    }
}
