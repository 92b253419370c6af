//! Finds deadlocks: cycles of lockers that wait for each other.
//!
//! In: a request that has just been queued. Out: nothing, or the cycle that the request closed; the
//! request is then withdrawn.
//!
//! A locker enters the queues before it searches, and one search runs at a time. The last searcher
//! of a cycle therefore sees all of it. The first searcher that finds a cycle withdraws its own
//! request, so each cycle costs one victim: the locker that closed it. The search reads the current
//! edges from the leaves of all families.
//!
//! Edges can change between two reads: a blocker may have released its lock and may wait again for
//! something else. The search therefore believes a cycle only if it finds each edge a second time
//! and each request still waits after that. A waiting locker releases nothing, so all edges existed
//! at once. A queued request may represent earlier requests
//! ([`LatchedLeaf::blockers`](crate::leaf::LatchedLeaf::blockers)). If it is withdrawn during the
//! search, the search starts again.
//!
//! Source of the contract (victim, depth, report): RocksDB `utilities/transactions/lock/point`.
//! RocksDB's depth counts the transactions that its search visits. Here the depth is the length of
//! a chain of locks. A request that waits for an earlier request adds nothing, so a thousand
//! lockers that wait for one key are no deadlock.

use crate::LockMode;
use crate::cut::EndpointBuf;
use crate::manager::LockShared;
use crate::wait::Waiter;
use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use std::collections::{HashSet, VecDeque};
use std::fmt;

/// One waiting locker of a cycle. RocksDB's `DeadlockInfo` and `RangeDeadlockInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockInfo {
    /// The waiting locker.
    pub id: u64,
    /// The family of the keys it waits for.
    pub family: ColumnFamilyId,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// Left end of the range it waits for.
    pub start: EndpointBuf,
    /// Right end of the range it waits for.
    pub end: EndpointBuf,
}

impl fmt::Display for DeadlockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadlockInfo { id, family, mode, start, end } = self;
        write!(f, "transaction {id} waits for column family {family}, {mode:?}, ")?;
        if start.key == end.key { write!(f, "key '{start}'") } else { write!(f, "keys '{start}' to '{end}'") }
    }
}

/// A deadlock: each locker waits for the next, and the last, which was refused, for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockPath {
    /// The cycle; empty if the search stopped at its depth limit.
    pub path: Vec<DeadlockInfo>,
    /// The search went deeper than allowed and assumed a deadlock.
    pub limit_exceeded: bool,
    /// Seconds since the Unix epoch.
    pub deadlock_time: u64,
}

/// Recent deadlocks. The lock around them also serializes searches.
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

/// A waiting locker that the search reached.
#[derive(Clone)]
struct Node {
    waiter: Arc<Waiter>,
    from: usize,
    depth: usize,
    /// The search reached it as an earlier request in the queue of `from`. Such a request may
    /// represent others.
    in_queue: bool,
}

enum Found {
    Nothing,
    Cycle(Vec<Arc<Waiter>>),
    TooDeep,
}

/// Withdraws `waiter` if it closed a cycle, or if the search reached the depth limit. True if so.
pub(crate) fn withdraw_if_deadlocked(shared: &LockShared, waiter: &Arc<Waiter>, max_depth: usize) -> bool {
    let mut deadlocks = shared.deadlocks.lock();
    let (cycle, limit_exceeded) = match search(waiter, max_depth) {
        Found::Nothing => return false,
        Found::Cycle(cycle) => (cycle, false),
        Found::TooDeep => (Vec::new(), true),
    };
    #[cfg(test)]
    shared.history.victim(waiter, !limit_exceeded);
    if !waiter.family.withdraw(waiter) {
        return false;
    }
    shared.counters.deadlocks.fetch_add(1, Ordering::Relaxed);
    let path = cycle.iter().map(|w| info(w)).collect();
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

/// Searches breadth first, so that it finds a shortest cycle. `None`: an edge changed meanwhile,
/// and the search must run again.
fn search_once(start: &Arc<Waiter>, max_depth: usize) -> Option<Found> {
    let mut nodes = vec![Node { waiter: start.clone(), from: 0, depth: 0, in_queue: false }];
    let mut seen = HashSet::new();
    let mut next = 0;
    while next < nodes.len() {
        let Node { waiter, depth, in_queue, .. } = nodes[next].clone();
        let blockers = match waiter.family.blockers(&waiter) {
            Some(blockers) => blockers,
            None if in_queue => return None,
            // Its owner runs. If it waits again, it searches by itself.
            None => Vec::new(),
        };
        for blocker in blockers {
            if blocker.owner.id == start.owner.id {
                let cycle = cycle_to(&nodes, next);
                return is_cycle(&cycle).then_some(Found::Cycle(cycle));
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

fn cycle_to(nodes: &[Node], last: usize) -> Vec<Arc<Waiter>> {
    let mut cycle = vec![nodes[last].waiter.clone()];
    let mut at = last;
    while at != 0 {
        at = nodes[at].from;
        cycle.push(nodes[at].waiter.clone());
    }
    cycle.reverse();
    cycle
}

/// True if each locker waits for the next, and the last for the first.
fn is_cycle(waiters: &[Arc<Waiter>]) -> bool {
    let nexts = waiters.iter().skip(1).chain(waiters.first());
    let is_in_the_way = |(waiter, next): (&Arc<Waiter>, &Arc<Waiter>)| {
        let blockers = waiter.family.blockers(waiter).unwrap_or_default();
        blockers.iter().any(|blocker| blocker.owner.id == next.owner.id)
    };
    waiters.iter().zip(nexts).all(is_in_the_way) && waiters.iter().all(|waiter| waiter.is_unsettled())
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
