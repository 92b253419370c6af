//! The lock manager: its families, the state that lockers share, and reports.
//!
//! In: calls that add families, drop families and make lockers. Out: lockers (`locker.rs`), and
//! reports: locks, waits, deadlocks and counters.
//!
//! Invariants
//!  1. A locker that takes or releases locks without a wait writes only one word of [`LockShared`]:
//!     `bytes`, once for several locks.
//!  2. A request draws its ticket under the latches of the leaves in whose queues it waits.

use crate::cut::EndpointBuf;
use crate::deadlock::{DeadlockPath, Deadlocks};
use crate::family::LockFamily;
use crate::locker::Locker;
use crate::wait::Waiter;
use crate::{FamilyOptions, LockClock, LockManagerOptions, LockMode, LockerOptions};
use crossbeam_utils::CachePadded;
use esker_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use esker_base::sync::{Arc, Mutex, fork};
use esker_base::{ColumnFamilyId, Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// Largest number of bytes that a locker counts by itself before it adds them to the total.
const MAX_UNREPORTED_BYTES: i64 = 16 << 10;

/// A function that escalation asks before it joins two locks across a gap. Gets the family, and the
/// two ends of the gap; `true` forbids the join. Runs under latches and must not call the lock
/// manager.
pub type EscalationBarrier = Arc<dyn Fn(ColumnFamilyId, &EndpointBuf, &EndpointBuf) -> bool + Send + Sync>;

/// State shared by all families and lockers.
pub(crate) struct LockShared {
    /// The process of this manager. A forked child locks and releases nothing: it may have
    /// inherited latches that other threads held.
    pub(crate) process: fork::ProcessOwner,
    // All threads read these fields and seldom write them.
    pub(crate) clock: Arc<dyn LockClock>,
    pub(crate) max_bytes: AtomicUsize,
    /// [`LockManagerOptions::range_patience`].
    pub(crate) range_patience: u64,
    /// Whether any locker can expire.
    pub(crate) may_expire: AtomicBool,
    // Lockers write these fields. Padding keeps the busiest ones in cache lines of their own.
    tickets: CachePadded<AtomicU64>,
    ids: CachePadded<AtomicU64>,
    bytes: CachePadded<AtomicI64>,
    pub(crate) counters: CachePadded<LockCounts>,
    pub(crate) deadlocks: Mutex<Deadlocks>,
    /// The decisions of all requests, for tests.
    #[cfg(test)]
    pub(crate) history: crate::tests::history::History,
}

impl fmt::Debug for LockShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// [`LockCounters`] as atomics.
#[derive(Debug, Default)]
pub(crate) struct LockCounts {
    pub(crate) waits: AtomicU64,
    pub(crate) wakeups: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) cancellations: AtomicU64,
    pub(crate) escalations: AtomicU64,
    pub(crate) escalated_locks: AtomicU64,
    pub(crate) splits: AtomicU64,
}

/// Counts of events since the manager was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockCounters {
    /// Requests that had to wait, whatever the outcome.
    pub waits: u64,
    /// Sleeping threads that another thread woke.
    pub wakeups: u64,
    /// Requests whose time ran out.
    pub timeouts: u64,
    /// Requests that failed because their wait closed a cycle.
    pub deadlocks: u64,
    /// Waits that were cancelled.
    pub cancellations: u64,
    /// Escalations.
    pub escalations: u64,
    /// Locks that escalation joined with a neighbour.
    pub escalated_locks: u64,
    /// Leaf splits.
    pub splits: u64,
    /// Bytes of all locks, as far as lockers have reported them.
    pub lock_memory: u64,
}

impl LockShared {
    pub(crate) fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    pub(crate) fn draw_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// The next ticket, without drawing it. A locker that reads the number now is senior to all
    /// requests that draw tickets later.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.load(Ordering::Relaxed)
    }

    pub(crate) fn add_bytes(&self, difference: i64) {
        if difference != 0 {
            self.bytes.fetch_add(difference, Ordering::Relaxed);
        }
    }

    /// Bytes of all locks that lockers have reported.
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that a locker may leave unreported: a small part of the limit, 0 for a small limit.
    #[inline]
    pub(crate) fn max_unreported_bytes(&self) -> i64 {
        let limit = self.max_bytes.load(Ordering::Relaxed);
        if limit == usize::MAX {
            MAX_UNREPORTED_BYTES
        } else {
            ((limit / 256) as i64).min(MAX_UNREPORTED_BYTES)
        }
    }
}

/// The state behind a manager and its lockers.
pub(crate) struct Inner {
    pub(crate) shared: Arc<LockShared>,
    pub(crate) families: Mutex<BTreeMap<ColumnFamilyId, Arc<LockFamily>>>,
    pub(crate) barrier: Mutex<Option<EscalationBarrier>>,
    /// A thread that escalates holds this lock. If the last escalation freed little, the value is
    /// the earliest time of the next one.
    pub(crate) making_room: Mutex<u64>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn all_families(&self) -> Vec<Arc<LockFamily>> {
        self.families.lock().values().cloned().collect()
    }

    /// All families, for reports. None in a forked child.
    fn all_families_here(&self) -> Vec<Arc<LockFamily>> {
        if self.shared.process.is_here() { self.all_families() } else { Vec::new() }
    }

    fn counters(&self) -> LockCounters {
        let counts = &self.shared.counters;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LockCounters {
            waits: read(&counts.waits),
            wakeups: read(&counts.wakeups),
            timeouts: read(&counts.timeouts),
            deadlocks: read(&counts.deadlocks),
            cancellations: read(&counts.cancellations),
            escalations: read(&counts.escalations),
            escalated_locks: read(&counts.escalated_locks),
            splits: read(&counts.splits),
            lock_memory: self.shared.bytes().max(0) as u64,
        }
    }
}

/// The lock manager. Clones share their state.
#[derive(Clone, Debug)]
pub struct LockManager {
    inner: Arc<Inner>,
}

/// The report of a held lock: RocksDB's `KeyLockInfo` and `RangeLockInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    /// The family of the keys.
    pub family: ColumnFamilyId,
    /// Left end, included.
    pub start: EndpointBuf,
    /// Right end, included.
    pub end: EndpointBuf,
    /// Ids of the lockers that hold the lock, ascending.
    pub ids: Vec<u64>,
    /// Shared or exclusive.
    pub mode: LockMode,
}

/// The report of a waiting request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitInfo {
    /// The waiting locker.
    pub id: u64,
    /// The family of the requested keys.
    pub family: ColumnFamilyId,
    /// Left end, included.
    pub start: EndpointBuf,
    /// Right end, included.
    pub end: EndpointBuf,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// Ids of the lockers that block the request, ascending: they hold a conflicting lock, or made
    /// an earlier conflicting request.
    pub waits_for: Vec<u64>,
}

impl LockManager {
    /// A manager without families.
    pub fn new(options: LockManagerOptions) -> LockManager {
        let LockManagerOptions { clock, max_lock_memory, max_num_deadlocks, range_patience } = options;
        let shared = LockShared {
            process: fork::ProcessOwner::here(),
            clock,
            max_bytes: AtomicUsize::new(max_lock_memory),
            range_patience,
            may_expire: AtomicBool::new(false),
            tickets: CachePadded::new(AtomicU64::new(1)),
            ids: CachePadded::new(AtomicU64::new(1)),
            bytes: CachePadded::new(AtomicI64::new(0)),
            counters: CachePadded::default(),
            deadlocks: Mutex::new(Deadlocks::new(max_num_deadlocks)),
            #[cfg(test)]
            history: crate::tests::history::History::default(),
        };
        LockManager {
            inner: Arc::new(Inner {
                shared: Arc::new(shared),
                families: Mutex::new(BTreeMap::new()),
                barrier: Mutex::new(None),
                making_room: Mutex::new(0),
            }),
        }
    }

    /// Adds a family.
    /// # Errors
    /// `InvalidArgument` if a family with this id exists.
    pub fn add_family(&self, id: ColumnFamilyId, options: &FamilyOptions) -> Result<Arc<LockFamily>> {
        let mut families = self.inner.families.lock();
        if families.contains_key(&id) {
            return Err(Error::invalid_argument(format!("column family {id} has a lock table already")));
        }
        let family = Arc::new(LockFamily::new(id, options, self.inner.shared.clone()));
        families.insert(id, family.clone());
        Ok(family)
    }

    /// The family with this id.
    pub fn family(&self, id: ColumnFamilyId) -> Option<Arc<LockFamily>> {
        self.inner.families.lock().get(&id).cloned()
    }

    /// Drops a family with its locks. Waiting requests and later requests in this family fail with
    /// `ColumnFamilyDropped`. A later release of its locks does nothing.
    /// # Errors
    /// `NotFound` if no family has this id.
    pub fn drop_family(&self, id: ColumnFamilyId) -> Result<()> {
        let family = self.inner.families.lock().remove(&id);
        let family =
            family.ok_or_else(|| Error::not_found(format!("column family {id} has no lock table")))?;
        family.close();
        Ok(())
    }

    /// Makes a locker, for one transaction.
    pub fn locker(&self, options: LockerOptions) -> Locker {
        let id = self.inner.shared.ids.fetch_add(1, Ordering::Relaxed);
        Locker::new(self.inner.clone(), id, options)
    }

    /// Lists every held lock, by family and key. Locks may change during the call, because it reads
    /// leaf by leaf.
    pub fn locks(&self) -> Vec<LockInfo> {
        let mut all = Vec::new();
        for family in self.inner.all_families_here() {
            family.for_each_leaf(|_, state| {
                for fragment in state.fragments.iter() {
                    let (start, end) = fragment.endpoints();
                    let mut ids: Vec<u64> = fragment.owners().map(|o| o.id).collect();
                    ids.sort_unstable();
                    all.push(LockInfo { family: family.id, start, end, ids, mode: fragment.mode() });
                }
            });
        }
        all
    }

    /// Lists every waiting request, oldest first, with its blockers. Requests may change during the
    /// call.
    pub fn waits(&self) -> Vec<WaitInfo> {
        let mut waiters: Vec<Arc<Waiter>> = Vec::new();
        for family in self.inner.all_families_here() {
            family.for_each_leaf(|_, state| waiters.extend(state.queue.iter().cloned()));
        }
        waiters.sort_by_key(|w| w.ticket);
        waiters.dedup_by_key(|w| w.ticket);
        waiters.iter().map(|w| wait_info(w)).collect()
    }

    /// The most recent deadlocks, newest first: RocksDB's `GetDeadlockInfoBuffer`.
    pub fn deadlocks(&self) -> Vec<DeadlockPath> {
        if !self.inner.shared.process.is_here() {
            return Vec::new();
        }
        self.inner.shared.deadlocks.lock().recent()
    }

    /// Sets the number of recent deadlocks that the manager remembers.
    pub fn set_max_num_deadlocks(&self, count: usize) {
        if self.inner.shared.process.is_here() {
            self.inner.shared.deadlocks.lock().resize(count);
        }
    }

    /// Limits the bytes of all locks of all families. Over the limit, escalation joins locks of the
    /// locker that holds most. If that does not help, requests fail with `LockLimit`. `usize::MAX`:
    /// no limit.
    pub fn set_max_lock_memory(&self, bytes: usize) {
        self.inner.shared.max_bytes.store(bytes, Ordering::Relaxed);
        *self.inner.making_room.lock() = 0;
    }

    /// Sets the function that escalation asks before it joins two locks across a gap. `None`:
    /// nothing is forbidden.
    pub fn set_escalation_barrier(&self, barrier: Option<EscalationBarrier>) {
        *self.inner.barrier.lock() = barrier;
        *self.inner.making_room.lock() = 0;
    }

    /// The counters so far.
    pub fn counters(&self) -> LockCounters {
        self.inner.counters()
    }

    /// Checks the invariants of all leaves. For tests.
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> std::result::Result<(), String> {
        for family in self.inner.all_families() {
            let mut result = Ok(());
            family.for_each_leaf(|leaf, state| {
                let check = state.check(&family.order, leaf);
                if result.is_ok() {
                    result = check;
                }
            });
            result?;
        }
        Ok(())
    }
}

fn wait_info(waiter: &Waiter) -> WaitInfo {
    let blockers = waiter.family.blockers(waiter).unwrap_or_default();
    let mut waits_for: Vec<u64> = blockers.iter().map(|b| b.owner.id).collect();
    waits_for.sort_unstable();
    waits_for.dedup();
    let span = waiter.span.as_span();
    WaitInfo {
        id: waiter.owner.id,
        family: waiter.family.id,
        start: span.lo.to_endpoint(),
        end: span.hi.to_endpoint(),
        mode: waiter.mode,
        waits_for,
    }
}
