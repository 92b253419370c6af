//! One bound on the memtables of several databases: RocksDB's `WriteBufferManager`.
//!
//! In: bytes that arenas allocate and free. Out: whether a memtable should be flushed, whether
//! writers should wait, and a charge on a block cache.
//! Source of the thresholds: RocksDB `include/rocksdb/write_buffer_manager.h`,
//! `cache/cache_reservation_manager.cc`.
//!
//! Invariants
//!  1. `used_bytes` is the sum of the blocks of all memtables, `active_bytes` that of the active
//!     memtables.
//!  2. With a cache, the charge is `used_bytes` rounded up to `CHARGE_STEP`, unless the cache's
//!     strict limit refuses it. After a refusal a memtable keeps its memory, and the next block
//!     tries again. The charge shrinks once `used_bytes` is below three quarters of it.
//!  3. No thread waits for the charge's lock: a thread that finds it locked leaves the change to
//!     the lock's holder. (A change of the charge may drop cached values. This may drop a memtable
//!     of the same manager, which updates the charge on the same thread.)
//!  4. Writers that wait for memory are notified when the bound changes.

use super::DbOptions;
use esker_base::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use esker_base::sync::{Mutex, Weak};
use esker_cache::{Reservation, Role};
use esker_memtable::MemoryBudget;
use esker_table::{BlockCache, CachedBlock};
use std::sync::Arc;

/// The rule that chooses the memtable to flush when memtables reach the bound. The numbers are
/// RocksDB's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum WriteBufferFlushPolicy {
    /// The oldest active memtable of the writing database. RocksDB's default.
    Oldest = 0,
    /// The largest active memtable of the writing database. Esker's default.
    #[default]
    Largest = 1,
    /// The largest active memtable of all databases that share the manager. If it belongs to
    /// another database, that database flushes it in the background. The writing database then
    /// flushes its own memtable only if memtables reach the whole bound first.
    LargestAcrossDbs = 2,
}

impl WriteBufferFlushPolicy {
    /// The policy with this number, if there is one.
    pub fn from_u8(number: u8) -> Option<WriteBufferFlushPolicy> {
        use WriteBufferFlushPolicy as Policy;
        [Policy::Oldest, Policy::Largest, Policy::LargestAcrossDbs]
            .into_iter()
            .find(|policy| *policy as u8 == number)
    }
}

/// A database that shares a manager.
pub(crate) trait SharesMemory: Send + Sync {
    /// Bytes of the database's largest memtable that can be flushed; 0 if none can.
    fn largest_memtable(&self) -> usize;
    /// Starts a flush of that memtable in the background. False if an earlier call's flush has not
    /// ended.
    fn flush_largest(self: Arc<Self>) -> bool;
}

/// Granularity of a charge, in bytes.
const CHARGE_STEP: usize = 256 << 10;

/// An object that lets writers wait for memory.
pub(crate) trait WaitsForMemory: Send + Sync {
    /// Wakes waiting writers, which check the bound again.
    fn check_again(&self);
}

/// A database that keeps flushed memtables for conflict checks.
pub(crate) trait HoldsHistory: Send + Sync {
    /// Drops the oldest flushed memtables, `bytes` in total, and returns the bytes that it dropped.
    /// Calls [`WriteBufferManager::set_holds_history`].
    fn release_history(self: Arc<Self>, bytes: usize) -> usize;
}

/// A bound on memtables, shared by all databases whose options hold the same manager.
#[derive(Debug)]
pub struct WriteBufferManager {
    buffer_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
    active_bytes: AtomicUsize,
    allow_stall: AtomicBool,
    flush_policy: AtomicU8,
    /// The databases that share it.
    databases: Mutex<Vec<Weak<dyn SharesMemory>>>,
    charge: Option<Charge>,
    waiting: Mutex<Vec<Weak<dyn WaitsForMemory>>>,
    /// Databases that keep flushed memtables.
    histories: Mutex<Vec<Weak<dyn HoldsHistory>>>,
    /// Whether `histories` is not empty; each write reads this flag.
    has_history: AtomicBool,
}

/// The charge on a cache.
#[derive(Debug)]
struct Charge {
    /// The reservation's bytes, readable without the lock.
    bytes: AtomicUsize,
    reservation: Mutex<Reservation<CachedBlock>>,
}

impl DbOptions {
    /// Sets a manager with the bound `db_write_buffer_size`, unless the options have a manager.
    pub(crate) fn make_write_buffer_manager(&mut self) {
        if self.write_buffer_manager.is_none() && self.db_write_buffer_size > 0 {
            let manager = WriteBufferManager::new(self.db_write_buffer_size, false);
            self.write_buffer_manager = Some(Arc::new(manager));
        }
    }
}

impl WriteBufferManager {
    /// Makes a manager that bounds memtables to `buffer_bytes`; 0 means no bound. With
    /// `allow_stall`, writers wait while memtables are over the bound.
    pub fn new(buffer_bytes: usize, allow_stall: bool) -> Self {
        WriteBufferManager {
            buffer_bytes: AtomicUsize::new(buffer_bytes),
            used_bytes: AtomicUsize::new(0),
            active_bytes: AtomicUsize::new(0),
            allow_stall: AtomicBool::new(allow_stall),
            flush_policy: AtomicU8::new(WriteBufferFlushPolicy::default() as u8),
            databases: Mutex::new(Vec::new()),
            charge: None,
            waiting: Mutex::new(Vec::new()),
            histories: Mutex::new(Vec::new()),
            has_history: AtomicBool::new(false),
        }
    }

    /// As [`WriteBufferManager::new`], and charges the memory of memtables to `cache`
    /// (`cost_to_cache`).
    pub fn with_cache(buffer_bytes: usize, cache: &Arc<BlockCache>, allow_stall: bool) -> Self {
        let nothing = cache.reserve(Role::WriteBuffer, 0).expect("a reservation of 0 bytes always fits");
        let charge = Charge { bytes: AtomicUsize::new(0), reservation: Mutex::new(nothing) };
        WriteBufferManager { charge: Some(charge), ..WriteBufferManager::new(buffer_bytes, allow_stall) }
    }

    /// The bound, in bytes; 0 for none.
    pub fn buffer_size(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// Changes the bound, in bytes. Waiting writers check it again.
    pub fn set_buffer_size(&self, bytes: usize) {
        self.buffer_bytes.store(bytes, Ordering::Relaxed);
        let waiting = self.waiting.lock().clone();
        waiting.iter().filter_map(Weak::upgrade).for_each(|who| who.check_again());
    }

    /// Changes whether writers wait while memtables are over the bound. Waiting writers check
    /// again.
    pub fn set_allow_stall(&self, allow_stall: bool) {
        self.allow_stall.store(allow_stall, Ordering::Relaxed);
        let waiting = self.waiting.lock().clone();
        waiting.iter().filter_map(Weak::upgrade).for_each(|who| who.check_again());
    }

    /// The rule that chooses the memtable to flush.
    ///
    /// ```
    /// use esker::options::{WriteBufferFlushPolicy, WriteBufferManager};
    ///
    /// let manager = WriteBufferManager::new(64 << 20, false);
    /// assert_eq!(manager.flush_policy(), WriteBufferFlushPolicy::Largest);
    /// manager.set_flush_policy(WriteBufferFlushPolicy::LargestAcrossDbs);
    /// ```
    pub fn flush_policy(&self) -> WriteBufferFlushPolicy {
        WriteBufferFlushPolicy::from_u8(self.flush_policy.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Changes the policy, for the next flush.
    pub fn set_flush_policy(&self, policy: WriteBufferFlushPolicy) {
        self.flush_policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Adds a database to those that share the manager.
    pub(crate) fn add_database(&self, database: Weak<dyn SharesMemory>) {
        let mut databases = self.databases.lock();
        databases.retain(|other| other.strong_count() > 0);
        databases.push(database);
    }

    /// Whether another database flushes in place of `own`. That database has the largest memtable.
    /// True if its flush begins now, or if it runs already and memory is below the bound. Visits
    /// all families of all databases. The caller holds no lock.
    pub(crate) fn another_flushes(&self, own: &Arc<dyn SharesMemory>) -> bool {
        let databases = self.databases.lock().clone();
        let live = databases.iter().filter_map(Weak::upgrade);
        let Some((bytes, largest)) =
            live.map(|database| (database.largest_memtable(), database)).max_by_key(|(bytes, _)| *bytes)
        else {
            return false;
        };
        if bytes <= own.largest_memtable() || std::ptr::addr_eq(Arc::as_ptr(&largest), Arc::as_ptr(own)) {
            return false;
        }
        largest.flush_largest() || self.bytes_over_bound() == 0
    }

    /// Registers `who` for notification of changes of the bound. Call it before the check whether
    /// to wait.
    pub(crate) fn add_waiter(&self, who: Weak<dyn WaitsForMemory>) {
        let is_same = |other: &Weak<_>| std::ptr::addr_eq(other.as_ptr(), who.as_ptr());
        let mut waiting = self.waiting.lock();
        waiting.retain(|other| other.strong_count() > 0 && !is_same(other));
        waiting.push(who);
    }

    /// Records whether `who` keeps flushed memtables. Takes a lock; may be called under any other
    /// lock.
    pub(crate) fn set_holds_history(&self, who: Weak<dyn HoldsHistory>, holds: bool) {
        let is_same = |other: &Weak<_>| std::ptr::addr_eq(other.as_ptr(), who.as_ptr());
        let mut histories = self.histories.lock();
        if histories.iter().any(is_same) != holds {
            histories.retain(|other| other.strong_count() > 0 && !is_same(other));
            if holds {
                histories.push(who);
            }
            self.has_history.store(!histories.is_empty(), Ordering::Relaxed);
        }
    }

    /// Whether flushed memtables should be dropped because memory is over the bound. Cheap enough
    /// for each write.
    #[inline]
    pub(crate) fn history_is_too_large(&self) -> bool {
        self.has_history.load(Ordering::Relaxed) && self.bytes_over_bound() > 0
    }

    /// Lets the databases drop flushed memtables until memory is below the bound. The caller holds
    /// no lock.
    pub(crate) fn release_history(&self) {
        let (mut over, holders) = (self.bytes_over_bound(), self.histories.lock().clone());
        for holder in holders {
            match holder.upgrade() {
                Some(database) if over > 0 => over = over.saturating_sub(database.release_history(over)),
                Some(_) => return,
                None => self.set_holds_history(holder, false),
            }
        }
    }

    /// Bytes of all memtables.
    pub fn memory_usage(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the active memtables.
    pub fn mutable_memtable_memory_usage(&self) -> usize {
        self.active_bytes.load(Ordering::Relaxed)
    }

    /// Whether the memory of memtables is charged to a cache.
    pub fn cost_to_cache(&self) -> bool {
        self.charge.is_some()
    }

    /// Bytes that are charged to the cache.
    pub fn dummy_entries_in_cache_usage(&self) -> usize {
        self.charge.as_ref().map_or(0, |charge| charge.bytes.load(Ordering::Relaxed))
    }

    /// Whether a memtable should be flushed. True if active memtables exceed 7/8 of the bound. Also
    /// true if all memtables reach the bound and active ones at least half of it; with less, a
    /// flush would free little.
    pub fn should_flush(&self) -> bool {
        let bound = self.buffer_size();
        if bound == 0 {
            return false;
        }
        let active = self.mutable_memtable_memory_usage();
        active > bound / 8 * 7 || (self.memory_usage() >= bound && active >= bound / 2)
    }

    /// Bytes that all memtables have beyond the bound, at least 1 at the bound itself. 0 below the
    /// bound, or without a bound.
    pub(crate) fn bytes_over_bound(&self) -> usize {
        match self.buffer_size() {
            0 => 0,
            bound => (self.memory_usage() + 1).saturating_sub(bound),
        }
    }

    /// Whether writers should wait.
    pub fn should_stall(&self) -> bool {
        let bound = self.buffer_size();
        self.allow_stall.load(Ordering::Relaxed) && bound > 0 && self.memory_usage() >= bound
    }

    /// Adapts the charge to the used bytes if they differ enough. If another thread has the
    /// charge's lock, leaves the change to it.
    fn update_charge(&self) {
        let Some(charge) = &self.charge else { return };
        let mut refused = None;
        loop {
            // Pairs with the fence of the lock's holder. Either the holder reads the new
            // `used_bytes` after it releases the lock, or this thread finds the lock free.
            fence(Ordering::SeqCst);
            let charged = charge.bytes.load(Ordering::Relaxed);
            let target = charge_for(self.memory_usage(), charged);
            if target == charged || refused == Some(target) {
                return;
            }
            let Some(mut reservation) = charge.reservation.try_lock() else { return };
            let target = charge_for(self.memory_usage(), reservation.bytes());
            // A refusal leaves the charge as it is (invariant 2).
            refused = reservation.resize(target).is_err().then_some(target);
            charge.bytes.store(reservation.bytes(), Ordering::Relaxed);
        }
    }
}

/// The new charge, in bytes, for `used` bytes, if the present charge is `charged`.
fn charge_for(used: usize, charged: usize) -> usize {
    let is_right = used <= charged && used >= charged / 4 * 3;
    if is_right { charged } else { used.next_multiple_of(CHARGE_STEP) }
}

impl MemoryBudget for WriteBufferManager {
    fn reserve(&self, bytes: usize) {
        self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.active_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.update_charge();
    }

    fn schedule_free(&self, bytes: usize) {
        self.active_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn free(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.update_charge();
    }
}

#[cfg(test)]
mod tests;
