//! Circles of those who wait for each other.
//!
//! In: a request that has just been queued. Out: nothing, or the circle it has closed, and the
//! request withdrawn.
//!
//! Whoever waits is in the queues before it looks, and one looks at a time: of a circle, whoever
//! looks last sees all of it, and whoever finds it first leaves, so that each circle costs one
//! victim, the one that closed it. Edges are read from the leaves as they are now, in all families.
//!
//! Between two reads things move on: who was in the way may have let go and wait again, now for
//! something else. So a circle is believed only if each of its edges is found once more and each
//! request in it still waits after that: a locker that waits gives nothing up, so they were all
//! there at that moment. And a request in a queue that stood for others in front of it
//! ([`Latched::blockers`](crate::leaf::Latched::blockers)) hides them no longer when it is
//! withdrawn: then the search starts again.
//!
//! Source of the contract (victim, depth, what is reported): RocksDB
//! `utilities/transactions/lock/point`. There the depth counts transactions looked at; here it is
//! the length of a chain of locks, and requests in a queue, which wait for those before them, do
//! not count: a thousand who wait for one key are no deadlock.

use crate::LockMode;
use crate::cut::EndpointBuf;
use crate::manager::Shared;
use crate::wait::Waiter;
use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use std::collections::{HashSet, VecDeque};
use std::fmt;

/// One who waits in a circle. RocksDB's `DeadlockInfo` and `RangeDeadlockInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockInfo {
    /// Who.
    pub id: u64,
    /// For whose keys.
    pub family: ColumnFamilyId,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// Left end of what it waits for.
    pub start: EndpointBuf,
    /// Right end of what it waits for.
    pub end: EndpointBuf,
}

impl fmt::Display for DeadlockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadlockInfo { id, family, mode, start, end } = self;
        write!(f, "transaction {id} waits for column family {family}, {mode:?}, ")?;
        if start.key == end.key { write!(f, "key '{start}'") } else { write!(f, "keys '{start}' to '{end}'") }
    }
}

/// A deadlock: each waits for the next, the last for the first, who was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockPath {
    /// The circle; empty if the search was given up.
    pub path: Vec<DeadlockInfo>,
    /// The search went deeper than allowed and assumed a deadlock.
    pub limit_exceeded: bool,
    /// Seconds since the Unix epoch.
    pub deadlock_time: u64,
}

/// Recent deadlocks. Its lock is also what lets one search at a time.
#[derive(Debug)]
pub(crate) struct Deadlocks {
    recent: VecDeque<DeadlockPath>,
    max: usize,
}

impl Deadlocks {
    pub(crate) fn new(max: usize) -> Deadlocks {
        Deadlocks { recent: VecDeque::new(), max }
    }

    pub(crate) fn recent(&self) -> Vec<DeadlockPath> {
        self.recent.iter().cloned().collect()
    }

    pub(crate) fn resize(&mut self, max: usize) {
        self.max = max;
        self.recent.truncate(max);
    }

    fn add(&mut self, path: DeadlockPath) {
        self.recent.push_front(path);
        self.recent.truncate(self.max);
    }
}

/// Somebody who waits, on the way from the one who asks.
#[derive(Clone)]
struct Node {
    waiter: Arc<Waiter>,
    from: usize,
    depth: usize,
    /// It was found in the queue in front of `from`, and may stand for others there.
    in_queue: bool,
}

enum Found {
    Nothing,
    Circle(Vec<Arc<Waiter>>),
    TooDeep,
}

/// True if `waiter` closed a circle, or seems to; it has been withdrawn then.
pub(crate) fn is_victim(shared: &Shared, waiter: &Arc<Waiter>, max_depth: usize) -> bool {
    let mut deadlocks = shared.deadlocks.lock();
    let (circle, limit_exceeded) = match search(waiter, max_depth) {
        Found::Nothing => return false,
        Found::Circle(circle) => (circle, false),
        Found::TooDeep => (Vec::new(), true),
    };
    #[cfg(test)]
    shared.history.victim(waiter, !limit_exceeded);
    if !waiter.family.withdraw(waiter) {
        return false;
    }
    shared.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
    let path = circle.iter().map(|w| info(w)).collect();
    deadlocks.add(DeadlockPath { path, limit_exceeded, deadlock_time: shared.clock.now_seconds() });
    true
}

fn search(start: &Arc<Waiter>, max_depth: usize) -> Found {
    loop {
        if let Some(found) = search_once(start, max_depth) {
            return found;
        }
    }
}

/// Breadth first, so that the circle is a shortest one. `None` if something moved that it depends
/// on: a request went away that stood for others in the way, or a circle was not one.
fn search_once(start: &Arc<Waiter>, max_depth: usize) -> Option<Found> {
    let mut nodes = vec![Node { waiter: start.clone(), from: 0, depth: 0, in_queue: false }];
    let mut seen = HashSet::new();
    let mut next = 0;
    while next < nodes.len() {
        let Node { waiter, depth, in_queue, .. } = nodes[next].clone();
        let blockers = match waiter.family.blockers(&waiter) {
            Some(blockers) => blockers,
            None if in_queue => return None,
            // Its owner runs; should it wait again, it will look itself.
            None => Vec::new(),
        };
        for blocker in blockers {
            if blocker.owner.id == start.owner.id {
                let circle = circle_to(&nodes, next);
                return is_closed(&circle).then_some(Found::Circle(circle));
            }
            if !seen.insert(blocker.owner.id) {
                continue;
            }
            let in_queue = blocker.by_request.is_some();
            let waits = || blocker.owner.seat.lock().waiting.clone();
            let Some(waiter) = blocker.by_request.clone().or_else(waits) else { continue };
            let depth = depth + usize::from(!in_queue);
            if depth >= max_depth {
                return Some(Found::TooDeep);
            }
            nodes.push(Node { waiter, from: next, depth, in_queue });
        }
        next += 1;
    }
    Some(Found::Nothing)
}

fn circle_to(nodes: &[Node], last: usize) -> Vec<Arc<Waiter>> {
    let mut circle = vec![nodes[last].waiter.clone()];
    let mut at = last;
    while at != 0 {
        at = nodes[at].from;
        circle.push(nodes[at].waiter.clone());
    }
    circle.reverse();
    circle
}

/// True if each of these waits for the next, and the last for the first.
fn is_closed(circle: &[Arc<Waiter>]) -> bool {
    let nexts = circle.iter().skip(1).chain(circle.first());
    let is_in_the_way = |(waiter, next): (&Arc<Waiter>, &Arc<Waiter>)| {
        let blockers = waiter.family.blockers(waiter).unwrap_or_default();
        blockers.iter().any(|blocker| blocker.owner.id == next.owner.id)
    };
    circle.iter().zip(nexts).all(is_in_the_way) && circle.iter().all(|waiter| waiter.is_unsettled())
}

fn info(waiter: &Waiter) -> DeadlockInfo {
    let span = waiter.span.as_span();
    DeadlockInfo {
        id: waiter.owner.id,
        family: waiter.family.id,
        mode: waiter.mode,
        start: span.lo.to_endpoint(),
        end: span.hi.to_endpoint(),
    }
}
