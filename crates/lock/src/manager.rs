//! The lock manager: families, what they share, and what there is to see.
//!
//! In: families come and go, lockers are made. Out: locks (`locker.rs`), and for people: dumps,
//! waits, deadlocks, counters.
//!
//! Invariants
//!  1. A locker touches nothing of [`Shared`] that others write to when it takes or releases a lock
//!     without waiting, but for its share of `bytes`, which it adds up by itself until that is
//!     worth it.
//!  2. Tickets are drawn under the latches of the leaves whose queues they are for.

use crate::cut::EndpointBuf;
use crate::deadlock::{DeadlockPath, Deadlocks};
use crate::family::Family;
use crate::locker::Locker;
use crate::wait::Waiter;
use crate::{Clock, FamilyOptions, LockManagerOptions, LockMode, LockerOptions};
use esker_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use esker_base::sync::{Arc, Mutex, fork};
use esker_base::{ColumnFamilyId, Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// Most bytes that a locker keeps to itself before it tells others.
const MAX_UNTOLD_BYTES: i64 = 16 << 10;

/// Whether locks may be joined across a gap: called with the family and the two ends of the gap;
/// true forbids it. Runs under latches: it must not call back.
pub type EscalationBarrier = Arc<dyn Fn(ColumnFamilyId, &EndpointBuf, &EndpointBuf) -> bool + Send + Sync>;

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// What all families and lockers share.
pub(crate) struct Shared {
    /// In a forked child nothing is locked or released: other threads' latches are held for ever
    /// there.
    pub(crate) process: fork::Owner,
    // Read by all, seldom written.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) max_bytes: AtomicUsize,
    /// Tickets drawn behind a waiting range's before no new owner passes it.
    pub(crate) range_patience: u64,
    /// Some locker can expire.
    pub(crate) may_expire: AtomicBool,
    // Written by those who wait, or now and then.
    tickets: Apart<AtomicU64>,
    ids: Apart<AtomicU64>,
    bytes: Apart<AtomicI64>,
    pub(crate) counters: Apart<Counts>,
    pub(crate) deadlocks: Mutex<Deadlocks>,
    /// What was decided, for tests that ask for it.
    #[cfg(test)]
    pub(crate) history: crate::tests::history::History,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl std::ops::Deref for Apart<Counts> {
    type Target = Counts;
    fn deref(&self) -> &Counts {
        &self.0
    }
}

/// [`Counters`], as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) waits: AtomicU64,
    pub(crate) wakeups: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) cancellations: AtomicU64,
    pub(crate) escalations: AtomicU64,
    pub(crate) escalated_locks: AtomicU64,
    pub(crate) splits: AtomicU64,
}

/// What happened since the manager was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests that had to wait, however that ended.
    pub waits: u64,
    /// Sleeping threads that were woken by others.
    pub wakeups: u64,
    /// Requests that were not granted in time.
    pub timeouts: u64,
    /// Requests refused because waiting would have closed a circle.
    pub deadlocks: u64,
    /// Waits that were cancelled.
    pub cancellations: u64,
    /// Times that locks were joined for lack of memory.
    pub escalations: u64,
    /// Locks that went when they were joined with others.
    pub escalated_locks: u64,
    /// Leaves that were cut in two.
    pub splits: u64,
    /// Bytes that locks take, to within what lockers keep to themselves.
    pub lock_memory: u64,
}

impl Shared {
    pub(crate) fn now(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    pub(crate) fn draw_ticket(&self) -> u64 {
        self.tickets.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The next ticket: whoever reads this is senior to all who will draw one.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add_bytes(&self, difference: i64) {
        if difference != 0 {
            self.bytes.0.fetch_add(difference, Ordering::Relaxed);
        }
    }

    /// Bytes of all locks that have been told of.
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes.0.load(Ordering::Relaxed)
    }

    /// How many bytes a locker may keep to itself: little against the limit, nothing if that is
    /// small.
    #[inline]
    pub(crate) fn untold_bytes(&self) -> i64 {
        let limit = self.max_bytes.load(Ordering::Relaxed);
        if limit == usize::MAX { MAX_UNTOLD_BYTES } else { ((limit / 256) as i64).min(MAX_UNTOLD_BYTES) }
    }
}

/// What the manager and its lockers hold.
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) families: Mutex<BTreeMap<ColumnFamilyId, Arc<Family>>>,
    pub(crate) barrier: Mutex<Option<EscalationBarrier>>,
    /// Held while locks are joined: one thread at a time makes room. When it may be tried again,
    /// after it was of no use.
    pub(crate) making_room: Mutex<u64>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn all_families(&self) -> Vec<Arc<Family>> {
        self.families.lock().values().cloned().collect()
    }

    /// For dumps: a forked child sees none.
    fn all_families_here(&self) -> Vec<Arc<Family>> {
        if self.shared.process.is_here() { self.all_families() } else { Vec::new() }
    }

    fn counters(&self) -> Counters {
        let counts = &self.shared.counters;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counters {
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

/// The lock manager. Cloning shares.
#[derive(Clone, Debug)]
pub struct LockManager {
    inner: Arc<Inner>,
}

/// A lock, as a dump shows it. RocksDB's `KeyLockInfo` and `RangeLockInfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    /// Whose keys.
    pub family: ColumnFamilyId,
    /// Left end, which belongs to it.
    pub start: EndpointBuf,
    /// Right end, which belongs to it.
    pub end: EndpointBuf,
    /// Ids of the lockers that hold it, ascending.
    pub ids: Vec<u64>,
    /// Shared or exclusive.
    pub mode: LockMode,
}

/// A request that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitInfo {
    /// Who waits.
    pub id: u64,
    /// For whose keys.
    pub family: ColumnFamilyId,
    /// Left end, which belongs to it.
    pub start: EndpointBuf,
    /// Right end, which belongs to it.
    pub end: EndpointBuf,
    /// Shared or exclusive.
    pub mode: LockMode,
    /// Ids of those in its way, ascending: they hold a conflicting lock or came earlier.
    pub waits_for: Vec<u64>,
}

impl LockManager {
    /// No families, no locks.
    pub fn new(options: LockManagerOptions) -> LockManager {
        let LockManagerOptions { clock, max_lock_memory, max_num_deadlocks, range_patience } = options;
        let shared = Shared {
            process: fork::Owner::here(),
            clock,
            max_bytes: AtomicUsize::new(max_lock_memory),
            range_patience,
            may_expire: AtomicBool::new(false),
            tickets: Apart(AtomicU64::new(1)),
            ids: Apart(AtomicU64::new(1)),
            bytes: Apart(AtomicI64::new(0)),
            counters: Apart::default(),
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

    /// Makes a family known.
    /// # Errors
    /// `InvalidArgument` if there is one with this number.
    pub fn add_family(&self, id: ColumnFamilyId, options: &FamilyOptions) -> Result<Arc<Family>> {
        let mut families = self.inner.families.lock();
        if families.contains_key(&id) {
            return Err(Error::invalid_argument(format!("column family {id} has a lock table already")));
        }
        let family = Arc::new(Family::new(id, options, self.inner.shared.clone()));
        families.insert(id, family.clone());
        Ok(family)
    }

    /// The family with this number.
    pub fn family(&self, id: ColumnFamilyId) -> Option<Arc<Family>> {
        self.inner.families.lock().get(&id).cloned()
    }

    /// Drops a family, locks and all. Who waits for one of them gets `ColumnFamilyDropped`, and so
    /// does whoever asks for one from now on; releasing them later does nothing.
    /// # Errors
    /// `NotFound` if there is none with this number.
    pub fn drop_family(&self, id: ColumnFamilyId) -> Result<()> {
        let family = self.inner.families.lock().remove(&id);
        let family =
            family.ok_or_else(|| Error::not_found(format!("column family {id} has no lock table")))?;
        family.close();
        Ok(())
    }

    /// Somebody who takes locks: a transaction, as far as locks go.
    pub fn locker(&self, options: LockerOptions) -> Locker {
        let id = self.inner.shared.ids.0.fetch_add(1, Ordering::Relaxed);
        Locker::new(self.inner.clone(), id, options)
    }

    /// Every lock that is held, by family and place. Leaf by leaf: not one moment in time.
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

    /// Every request that waits, oldest first, with those in its way. Not one moment in time.
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

    /// How many deadlocks are remembered.
    pub fn set_max_num_deadlocks(&self, count: usize) {
        if self.inner.shared.process.is_here() {
            self.inner.shared.deadlocks.lock().resize(count);
        }
    }

    /// Bytes that locks may take, of all families together. Over it, those of the greediest locker
    /// are joined; if that does not help, requests get `LockLimit`. `usize::MAX`: no limit.
    pub fn set_max_lock_memory(&self, bytes: usize) {
        self.inner.shared.max_bytes.store(bytes, Ordering::Relaxed);
        *self.inner.making_room.lock() = 0;
    }

    /// What forbids joining two locks; `None` if nothing.
    pub fn set_escalation_barrier(&self, barrier: Option<EscalationBarrier>) {
        *self.inner.barrier.lock() = barrier;
        *self.inner.making_room.lock() = 0;
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.inner.counters()
    }

    /// Checks every invariant that can be seen from here; for tests.
    /// # Errors
    /// The first that does not hold.
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
