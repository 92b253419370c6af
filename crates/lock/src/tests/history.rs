//! The decisions of a lock manager, in order, compared with the reference.
//!
//! In: decisions, recorded under the latches under which they were made. Decisions that affect each
//! other share a latch, so the list is a possible serial order of all decisions. Out: the first
//! decision that the reference makes differently.
//!
//! A request that touches several leaves, or that may overtake, is granted after the release, under
//! latches of its own. So the threads choose the time of such a grant. The check requires that the
//! reference can make the grant at its place in the list. It also requires that no request waits
//! needlessly while no thread is between a release and its grants.

use super::reference::{Answer, Cells, Reference};
use crate::LockMode;
use crate::cut::{Cut, CutPosition, KeySpan};
use crate::family::LockDecision;
use crate::wait::{LockRequest, Waiter};
use esker_base::ColumnFamilyId;
use esker_base::sync::process::Mutex;
use std::collections::HashSet;

/// The number of keys, each a single byte.
pub(crate) const KEYS: u8 = 12;
/// Number of cells of the key space: the keys, and the gaps before, between and behind them.
pub(crate) const CELLS: usize = 2 * KEYS as usize + 1;

#[cfg(not(shuttle))]
type ThreadId = std::thread::ThreadId;
#[cfg(shuttle)]
type ThreadId = shuttle::thread::ThreadId;

#[cfg(not(shuttle))]
fn this_thread() -> ThreadId {
    std::thread::current().id()
}
#[cfg(shuttle)]
fn this_thread() -> ThreadId {
    shuttle::thread::current().id()
}

/// One decision.
#[derive(Debug)]
struct Event {
    thread: ThreadId,
    /// The locker's id.
    id: u64,
    family: usize,
    cells: Cells,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A request, with its ticket if it waits.
    Asked {
        stamp: u64,
        mode: LockMode,
        may_wait: bool,
        answer: Answer,
        ticket: u64,
    },
    Granted,
    Withdrawn,
    /// The request will be withdrawn because it closes a cycle.
    Victim,
    /// A release, and whether anything was held.
    Released(bool),
    Downgraded(bool),
    /// The thread has no grants left to make.
    Done,
}

/// The list of decisions. `None` while nothing is recorded.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Option<Vec<Event>>>);

impl History {
    /// Starts recording.
    pub(crate) fn begin(&self) {
        *self.0.lock() = Some(Vec::new());
    }

    fn note(&self, family: ColumnFamilyId, id: u64, cells: impl FnOnce() -> Cells, what: What) {
        if let Some(events) = &mut *self.0.lock() {
            let family = family.0 as usize;
            events.push(Event { thread: this_thread(), id, family, cells: cells(), what });
        }
    }

    pub(crate) fn asked(
        &self,
        family: ColumnFamilyId,
        request: &LockRequest<'_>,
        may_wait: bool,
        decision: &LockDecision,
    ) {
        let (answer, ticket) = match decision {
            LockDecision::Granted(..) => (Answer::Granted, u64::MAX),
            LockDecision::Refused => (Answer::Refused, u64::MAX),
            LockDecision::Waits(waiter) => (Answer::Waits, waiter.ticket),
            LockDecision::Dropped => return,
        };
        let what = What::Asked { stamp: request.stamp, mode: request.mode, may_wait, answer, ticket };
        self.note(family, request.owner.id, || cells_of(request.span), what);
    }

    pub(crate) fn granted(&self, waiter: &Waiter) {
        self.note(waiter.family.id, waiter.owner.id, || 0..0, What::Granted);
    }

    pub(crate) fn withdrawn(&self, waiter: &Waiter) {
        self.note(waiter.family.id, waiter.owner.id, || 0..0, What::Withdrawn);
    }

    pub(crate) fn victim(&self, waiter: &Waiter, is_sure: bool) {
        if is_sure {
            self.note(waiter.family.id, waiter.owner.id, || 0..0, What::Victim);
        }
    }

    pub(crate) fn released(&self, family: ColumnFamilyId, id: u64, span: KeySpan<'_>, any: bool) {
        self.note(family, id, || cells_of(span), What::Released(any));
    }

    pub(crate) fn downgraded(&self, family: ColumnFamilyId, id: u64, span: KeySpan<'_>, any: bool) {
        self.note(family, id, || cells_of(span), What::Downgraded(any));
    }

    pub(crate) fn done(&self) {
        self.note(ColumnFamilyId::DEFAULT, 0, || 0..0, What::Done);
    }

    /// Replays the decisions in the reference; returns the number of requests. With `calm`, waits
    /// ended only by grants and cycles, so each victim must have been in a cycle.
    pub(crate) fn check(&self, families: usize, lockers: usize, patience: u64, calm: bool) -> usize {
        let events = self.0.lock().take().expect("the history has begun");
        let keys = vec![(0..CELLS).map(|cell| cell % 2 == 1).collect(); families];
        let mut reference = Reference::new(keys, lockers, patience);
        let mut busy = HashSet::new();
        let mut requests = 0;
        for (index, event) in events.iter().enumerate() {
            let so_far = || format!("{:#?}", &events[index.saturating_sub(40)..=index]);
            requests += usize::from(matches!(event.what, What::Asked { .. }));
            let agreed = agrees(&mut reference, event, calm);
            assert!(agreed, "event {index} of {}: {reference:#?} after {}", events.len(), so_far());
            if matches!(event.what, What::Done) {
                busy.remove(&event.thread);
            } else if !matches!(event.what, What::Victim) {
                busy.insert(event.thread);
            }
            if busy.is_empty() {
                let idle = reference.may_go();
                assert!(idle.is_none(), "no lock blocks {idle:?}: {reference:#?} {}", so_far());
            }
        }
        assert!(reference.is_empty(), "{reference:#?}");
        requests
    }
}

/// Whether the reference agrees with one decision; the reference then follows it.
fn agrees(reference: &mut Reference, event: &Event, calm: bool) -> bool {
    // Lockers are numbered from one on.
    let (owner, family, cells) = (event.id.saturating_sub(1) as usize, event.family, event.cells.clone());
    match event.what {
        What::Asked { stamp, mode, may_wait, answer, ticket } => {
            reference.ask(owner, family, cells, mode, (stamp, ticket), may_wait) == answer
        }
        What::Granted => reference.grant(owner),
        What::Withdrawn => reference.remove(owner),
        What::Victim => !calm || reference.is_in_cycle(owner),
        What::Released(any) => reference.give_up(owner, family, cells) == any,
        What::Downgraded(any) => reference.weaken(owner, family, cells) == any,
        What::Done => true,
    }
}

fn cells_of(span: KeySpan<'_>) -> Cells {
    let place = |cut: Cut<'_>| match cut.place {
        CutPosition::Min => 0,
        CutPosition::Before => 1 + 2 * usize::from(cut.key[0]),
        CutPosition::After => 2 + 2 * usize::from(cut.key[0]),
        CutPosition::Max => CELLS,
        other => unreachable!("{other:?} is not asked for"),
    };
    place(span.lo)..place(span.hi)
}
