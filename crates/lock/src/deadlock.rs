//! Finds deadlocks: cycles of lockers that wait for each other.
//!
//! In: a waiting request. Out: a cycle that contains the request, if there is one. The searcher
//! then withdraws the request.
//!
//! A locker first enters the queues, and then searches. One search runs at a time. So the whole
//! cycle is in the queues when the last of its lockers searches. The first searcher that finds the
//! cycle withdraws its own request. So each cycle costs one victim: the first locker that finds it.
//! The search reads the edges (which locker waits for which) from the leaves of all families.
//!
//! Edges can change between two reads: a blocker may release its lock and wait again for another
//! one. So the search reads each edge of a cycle a second time, and then checks that each request
//! still waits. A waiting locker releases nothing, so all edges existed at one time. In the search,
//! a queued request may stand for all requests before it
//! ([`LatchedLeaf::blockers`](crate::leaf::LatchedLeaf::blockers)). So the search starts again if a
//! request that it found in a queue has left the queue.
//!
//! Source of the contract (victim, depth, report): RocksDB `utilities/transactions/lock/point`. In
//! RocksDB, the depth limits the number of transactions that a search visits. Here it limits the
//! length of a chain of locks. A request that waits for an earlier request adds nothing to the
//! length: a thousand lockers that wait for one key are no deadlock.

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
    /// The family of the requested keys.
    pub family: ColumnFamilyId,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// Left end of the requested range.
    pub start: EndpointBuf,
    /// Right end of the requested range.
    pub end: EndpointBuf,
}

impl fmt::Display for DeadlockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeadlockInfo { id, family, mode, start, end } = self;
        write!(f, "transaction {id} waits for column family {family}, {mode:?}, ")?;
        if start.key == end.key { write!(f, "key '{start}'") } else { write!(f, "keys '{start}' to '{end}'") }
    }
}

/// A deadlock: each locker waits for the next one, and the last one for the first. The request of
/// the first one failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadlockPath {
    /// The cycle; empty if the search stopped at its depth limit.
    pub path: Vec<DeadlockInfo>,
    /// Whether the search reached its depth limit, and so assumed a deadlock.
    pub limit_exceeded: bool,
    /// The time of the deadlock, in seconds since the Unix epoch.
    pub deadlock_time: u64,
}

/// Recent deadlocks. The lock around this value also lets one search run at a time.
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
    /// True: this request stands before the request of node `from` in a queue, and may represent
    /// further requests there. False: a lock of this request's owner blocks the request of `from`.
    in_queue: bool,
}

enum SearchResult {
    Nothing,
    Cycle(Vec<Arc<Waiter>>),
    TooDeep,
}

/// Withdraws `waiter` if it is part of a cycle, or if the search reaches the depth limit. Returns
/// whether it withdrew `waiter`: false also if another thread has ended the wait meanwhile.
pub(crate) fn withdraw_if_deadlocked(shared: &LockShared, waiter: &Arc<Waiter>, max_depth: usize) -> bool {
    let mut deadlocks = shared.deadlocks.lock();
    let (cycle, limit_exceeded) = match search(waiter, max_depth) {
        SearchResult::Nothing => return false,
        SearchResult::Cycle(cycle) => (cycle, false),
        SearchResult::TooDeep => (Vec::new(), true),
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

fn search(start: &Arc<Waiter>, max_depth: usize) -> SearchResult {
    loop {
        if let Some(found) = search_once(start, max_depth) {
            return found;
        }
    }
}

/// Searches breadth first. `None`: an edge has changed, and the search must run again.
fn search_once(start: &Arc<Waiter>, max_depth: usize) -> Option<SearchResult> {
    let mut nodes = vec![Node { waiter: start.clone(), from: 0, depth: 0, in_queue: false }];
    let mut seen = HashSet::new();
    let mut next = 0;
    while next < nodes.len() {
        let Node { waiter, depth, in_queue, .. } = nodes[next].clone();
        let blockers = match waiter.family.blockers(&waiter) {
            Some(blockers) => blockers,
            None if in_queue => return None,
            // The request's owner does not wait any more. If it waits again, it runs a search of
            // its own.
            None => Vec::new(),
        };
        for blocker in blockers {
            if blocker.owner.id == start.owner.id {
                let cycle = cycle_to(&nodes, next);
                return is_cycle(&cycle).then_some(SearchResult::Cycle(cycle));
            }
            if !seen.insert(blocker.owner.id) {
                continue;
            }
            let in_queue = blocker.by_request.is_some();
            let waits = || blocker.owner.seat.lock().waiting.clone();
            let Some(waiter) = blocker.by_request.clone().or_else(waits) else { continue };
            let depth = depth + usize::from(!in_queue);
            if depth >= max_depth {
                return Some(SearchResult::TooDeep);
            }
            nodes.push(Node { waiter, from: next, depth, in_queue });
        }
        next += 1;
    }
    Some(SearchResult::Nothing)
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

/// Whether each locker waits for the next one, and the last one for the first.
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
