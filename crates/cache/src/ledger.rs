//! The charges of a cache.
//!
//! In: charges, when entries are made and when they are removed. Out: usage, and counts by role,
//! without a walk over entries.
//!
//! Invariants
//!  1. `usage` is the sum of the charges of entries in the cache, evicted entries that are still
//!     held, reservations, and the cache's own table.
//!  2. `deferred_free` counts the memory of unreachable entries that waits for guards
//!     (`esker_base::sync::epoch`): the charge, or the bytes of an entry without its value.
//!  3. Every charge is released exactly once: into deferred free or at once (`CacheEntry`'s state
//!     says which).
//!  4. While the limit is strict, only the table's own charge may lift `usage` above `capacity`.

use crate::role::{Role, RoleStats};
use crossbeam_utils::CachePadded;
use esker_base::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use esker_base::sync::thread_number;

/// A thread's share of the counts by role. Several threads may use one share. A share may be
/// negative; the sum is not.
#[derive(Debug)]
struct Share {
    entries: [AtomicIsize; Role::COUNT],
    bytes: [AtomicIsize; Role::COUNT],
}

impl Default for Share {
    fn default() -> Share {
        Share {
            entries: std::array::from_fn(|_| AtomicIsize::new(0)),
            bytes: std::array::from_fn(|_| AtomicIsize::new(0)),
        }
    }
}

const MAX_SHARES: usize = 32;

/// Charges and counts of several evicted entries, so that shared words are written once for all.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ChargeTally {
    /// Entries that were counted in a table.
    pub(crate) entries: usize,
    charge: usize,
    waiting: [usize; 2],
}

impl ChargeTally {
    /// Adds an entry with this charge. `waiting` bytes of its memory must wait for guards;
    /// `is_whole`: they include the value.
    pub(crate) fn add(&mut self, charge: usize, (waiting, is_whole): (usize, bool)) {
        self.charge += charge;
        self.waiting[usize::from(!is_whole)] += waiting;
    }
}

/// The words that every insert and eviction writes, on one cache line: one fetch for all of them.
#[derive(Debug, Default)]
struct Now {
    usage: AtomicUsize,
    /// Bytes that wait for guards: of entries with their values, and of entries without.
    deferred_free: [AtomicUsize; 2],
    /// Entries in the table of a clock.
    listed: AtomicUsize,
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Ledger {
    now: CachePadded<Now>,
    capacity: CachePadded<AtomicUsize>,
    strict: AtomicBool,
    /// Bytes in use by entries that are in no table.
    detached: CachePadded<AtomicIsize>,
    shares: Box<[CachePadded<Share>]>,
}

impl Ledger {
    pub(crate) fn new(capacity: usize, strict: bool) -> Ledger {
        let processors =
            if cfg!(loom) { 1 } else { std::thread::available_parallelism().map_or(1, |n| n.get()) };
        // More shares than processors: threads outnumber processors, and two threads of one share
        // may run at the same time.
        let shares = if cfg!(loom) { 1 } else { (4 * processors).next_power_of_two().min(MAX_SHARES) };
        Ledger {
            now: CachePadded::default(),
            capacity: CachePadded::new(AtomicUsize::new(capacity)),
            strict: AtomicBool::new(strict),
            detached: CachePadded::new(AtomicIsize::new(0)),
            shares: (0..shares).map(|_| CachePadded::default()).collect(),
        }
    }

    pub(crate) fn usage(&self) -> usize {
        self.now.usage.load(Ordering::Relaxed)
    }

    /// Bytes that are no longer charged and not yet free.
    pub(crate) fn deferred_free(&self) -> usize {
        self.now.deferred_free.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Bytes that wait for guards: of entries with their values, and of entries without.
    pub(crate) fn deferred_parts(&self) -> [usize; 2] {
        [0, 1].map(|part: usize| self.now.deferred_free[part].load(Ordering::Relaxed))
    }

    /// Entries in the table of a clock.
    pub(crate) fn listed(&self) -> usize {
        self.now.listed.load(Ordering::Relaxed)
    }

    /// Counts one more entry in the table. Returns the new number.
    pub(crate) fn list(&self) -> usize {
        self.now.listed.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn unlist(&self, entries: usize) {
        self.now.listed.fetch_sub(entries, Ordering::Relaxed);
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Ordering::Relaxed);
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    pub(crate) fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Ordering::Relaxed);
    }

    /// Bytes in use by entries that are in no table. Concurrent updates may make the count negative
    /// briefly.
    pub(crate) fn detached(&self) -> usize {
        usize::try_from(self.detached.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(crate) fn add_detached(&self, charge: usize) {
        self.detached.fetch_add(charge as isize, Ordering::Relaxed);
    }

    pub(crate) fn sub_detached(&self, charge: usize) {
        self.detached.fetch_sub(charge as isize, Ordering::Relaxed);
    }

    /// Adds a charge without regard to the capacity. Returns the bytes by which usage then exceeds
    /// it.
    pub(crate) fn charge(&self, charge: usize) -> usize {
        let usage = self.now.usage.fetch_add(charge, Ordering::Relaxed) + charge;
        usage.saturating_sub(self.capacity())
    }

    /// Adds a charge if it fits into the capacity; a charge of 0 always fits.
    /// # Errors
    /// The bytes that are missing.
    pub(crate) fn charge_within_capacity(&self, charge: usize) -> Result<(), usize> {
        if charge == 0 {
            return Ok(());
        }
        let capacity = self.capacity();
        let fits = |usage: usize| usage.checked_add(charge).filter(|&sum| sum <= capacity);
        self.now
            .usage
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map(|_| ())
            .map_err(|usage| usage.saturating_add(charge).saturating_sub(capacity))
    }

    /// Releases a charge.
    pub(crate) fn uncharge(&self, charge: usize) {
        let before = self.now.usage.fetch_sub(charge, Ordering::Relaxed);
        debug_assert!(before >= charge, "{charge} bytes were never charged: {before}");
    }

    /// Releases a charge. `waiting` bytes of memory must wait for guards; `is_whole`: they include
    /// the value.
    pub(crate) fn uncharge_deferred(&self, charge: usize, (waiting, is_whole): (usize, bool)) {
        self.now.deferred_free[usize::from(!is_whole)].fetch_add(waiting, Ordering::Relaxed);
        self.uncharge(charge);
    }

    /// Releases several charges. REQUIRES: a guard, open since before the tally's entries became
    /// unreachable.
    pub(crate) fn settle(&self, tally: &ChargeTally) {
        if tally.entries > 0 {
            self.unlist(tally.entries);
        }
        for (deferred_free, waiting) in self.now.deferred_free.iter().zip(tally.waiting) {
            if waiting > 0 {
                deferred_free.fetch_add(waiting, Ordering::Relaxed);
            }
        }
        if tally.charge > 0 {
            self.uncharge(tally.charge);
        }
    }

    /// Records that waiting memory is free.
    pub(crate) fn free_deferred(&self, (waiting, is_whole): (usize, bool)) {
        self.now.deferred_free[usize::from(!is_whole)].fetch_sub(waiting, Ordering::Relaxed);
    }

    /// The index of this thread's share.
    #[inline]
    pub(crate) fn own_share(&self) -> usize {
        thread_number() & (self.shares.len() - 1)
    }

    pub(crate) fn share_count(&self) -> usize {
        self.shares.len()
    }

    /// Adds to the numbers of entries (or reservations) and of their bytes. The arguments are
    /// negative for removed ones.
    #[inline]
    pub(crate) fn count(&self, role: Role, entries: isize, bytes: isize) {
        let share = &self.shares[self.own_share()];
        share.entries[role as usize].fetch_add(entries, Ordering::Relaxed);
        share.bytes[role as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counts now. Updates by other threads may be counted in part.
    pub(crate) fn role_stats(&self) -> RoleStats {
        let mut stats = RoleStats::default();
        for role in Role::ALL {
            let sum = |of: fn(&Share) -> &[AtomicIsize; Role::COUNT]| {
                let sum: isize =
                    self.shares.iter().map(|s| of(s)[role as usize].load(Ordering::Relaxed)).sum();
                u64::try_from(sum).unwrap_or(0)
            };
            stats.add(role, sum(|s| &s.entries), sum(|s| &s.bytes));
        }
        stats
    }
}
