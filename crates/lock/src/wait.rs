//! One request that waits, and the queue it stands in.
//!
//! In: requests in the order in which they came. Out: who is held up by whom; who may go on when
//! something was released.
//!
//! Fairness. A request is granted when nobody else *holds* what conflicts with it and nobody who
//! came *earlier* waits for such. But whoever began before a request came passes it: its owner's
//! stamp, the next ticket when it took its first lock, is not above the request's ticket. Otherwise
//! those would wait who are waited for. And a *range* that waits is passed also by those who begin
//! before `range_patience` tickets more are drawn; whoever passes draws one. Otherwise a hundredth
//! of all keys is shut for as long as a thread that holds one of them waits for a processor: with
//! 40 threads on two of them, two waits of three were for such ranges, and each of those who waited
//! held keys again that others wanted. Only finitely many can have begun by then, so nobody starves
//! behind transactions that end.
//!
//! No circles out of that, for those who take their locks in ascending order. Say X waits for the
//! request W, which waits, by others, for X. Following who holds what upwards from what W wants,
//! one comes to what X holds; so that lies in W, or in a request that holds W up, and X passed
//! that, but is too young to pass W, which is younger: a contradiction.
//!
//! Invariants
//!  1. A queue is sorted by ticket. A request stands in the queue of each leaf that its span
//!     touches, or in none.
//!  2. `bypassing` counts the requests in the queue that may overtake.

use crate::LockMode;
use crate::cut::{Order, Span, SpanBuf};
use crate::family::Family;
use crate::fragment::conflict;
use crate::owner::Owner;
use esker_base::sync::Arc;
use std::collections::VecDeque;

/// A request, as long as it is being looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) owner: &'a Arc<Owner>,
    /// The next ticket when the owner took its first lock.
    pub(crate) stamp: u64,
    pub(crate) span: Span<'a>,
    pub(crate) mode: LockMode,
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// When it came.
    pub(crate) ticket: u64,
    pub(crate) owner: Arc<Owner>,
    pub(crate) stamp: u64,
    pub(crate) family: Arc<Family>,
    pub(crate) span: SpanBuf,
    pub(crate) mode: LockMode,
    /// It may overtake some that came earlier.
    pub(crate) bypasses: bool,
    /// Requests of owners whose stamps are smaller pass it.
    pub(crate) passable_until: u64,
}

impl Waiter {
    pub(crate) fn request(&self) -> Request<'_> {
        Request { owner: &self.owner, stamp: self.stamp, span: self.span.as_span(), mode: self.mode }
    }

    /// False if it has been granted, withdrawn or refused. It may stand in a queue even then if the
    /// comparator has changed its mind.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.owner.seat.lock().waiting.as_ref().is_some_and(|waiting| waiting.ticket == self.ticket)
    }

    /// Its owner waits for it no longer. False if it did not.
    pub(crate) fn stop_waiting(&self) -> bool {
        self.owner.seat.lock().waiting.take_if(|waiting| waiting.ticket == self.ticket).is_some()
    }
}

impl Waiter {
    /// True if it is exclusive and covers `span`: nobody behind it gets any of that.
    pub(crate) fn bars(&self, order: &Order, span: Span<'_>) -> bool {
        self.mode == LockMode::Exclusive && order.covers(self.span.as_span(), span)
    }
}

/// How an earlier request stands to a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earlier {
    /// They can both be granted.
    Compatible,
    /// The later one waits for the earlier.
    HoldsUp,
    /// They conflict, but the later one was there first.
    Overtaken,
}

/// How `earlier` stands to `later`.
pub(crate) fn stand(order: &Order, earlier: &Waiter, later: &Request<'_>) -> Earlier {
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

/// Those who wait at a leaf.
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

    /// Where the request with this ticket stands.
    pub(crate) fn position(&self, ticket: u64) -> Option<usize> {
        self.line.binary_search_by_key(&ticket, |w| w.ticket).ok()
    }

    /// Where the request with this ticket stands; without one, behind all.
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

    /// Takes all requests of this owner out; true if there were any.
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

    /// How those who came before the one at `index` stand to `later`.
    pub(crate) fn ahead<'a>(
        &'a self,
        order: &'a Order,
        index: usize,
        later: &'a Request<'a>,
    ) -> impl DoubleEndedIterator<Item = (&'a Arc<Waiter>, Earlier)> + 'a {
        self.line.iter().take(index).map(move |w| (w, stand(order, w, later)))
    }

    /// True if nobody behind a request like this can be granted anything of `region`: it is
    /// exclusive, covers the region, and nobody here may overtake.
    pub(crate) fn is_barred_by(&self, order: &Order, waiter: &Waiter, region: Span<'_>) -> bool {
        self.bypassing == 0 && waiter.bars(order, region)
    }
}
