//! Eviction: a clock whose hands are moved by inserts that need room.
//!
//! In: the bytes that an insert needs. Out: the bytes freed. The evicted entries have no handles
//! and were not used recently.
//!
//! There are two hands. A step of a hand visits one bucket, which is one cache line. An entry is on
//! probation while its clock is zero and its place records no use. Most new entries are.
//!
//! The first hand visits up to eight buckets. It stops after the first in which it evicts an entry
//! on probation, and leaves all other entries as they are. So about a tenth of the entries are on
//! probation, and a scan, whose blocks are never used again, replaces that tenth only. If the first
//! hand evicts nothing, the second takes a step: an entry whose clock is above zero loses one; at
//! zero it is evicted.
//!
//! An evicted entry leaves a ghost of its hash in its place until the place is needed. An entry of
//! low priority that returns while its ghost is there starts with a clock of two, not on probation.
//! (Quick demotion and lazy promotion, as in S3-FIFO, Yang et al., SOSP '23, on a clock; numbers in
//! docs/design/0002-block-cache.md.)
//!
//! Invariants
//!  1. Threads share a hand by adding to its position, so no thread waits for another, and two
//!     threads rarely visit the same bucket. A thread takes eight steps of the first hand at a
//!     time. It uses up the rest of them at its next eviction.
//!  2. Entries under guards may be evicted: their memory waits for the guards. Entries with handles
//!     stay.
//!  3. Each call ends: when it has freed enough, after `MAX_TURNS` turns of the second hand, or
//!     after a turn in which no entry was evicted or aged. It also ends after `effort_cap` pinned
//!     entries, and as many more for each evicted one. Evictions under a strict limit, or for a
//!     smaller capacity, have no `effort_cap`.
//!  4. While too many bytes wait for guards (`full_deferred`), no new value is inserted. So a
//!     reader that sleeps under its guard, or reads a file, does not make the cache's memory grow.
//!     Present values stay and are found.
//!  5. A call that found nothing to evict is remembered (`barren`). Later calls visit
//!     `BARREN_BUCKETS` only, until one meets an entry without handles. A call in a cache without
//!     entries does the same. So a cache full of pinned or reserved memory does not search its
//!     whole table for each charge. The hand continues from its position, so all buckets are
//!     visited eventually. If the cache has entries, a strict limit refuses only after a visit of
//!     all buckets.

use super::slot::FoundSlot;
use super::table::ClockTable;
use crate::ledger::ChargeTally;
use crate::outcome::{Evicted, EvictedList};
use esker_base::sync::atomic::Ordering;
use esker_base::sync::epoch::{self, Guard};

/// Number of turns in which every clock reaches zero, plus one.
const MAX_TURNS: usize = 4;
/// Buckets in which the first hand looks for an entry on probation before the second takes a step.
/// Eight buckets have about 32 entries. If a tenth of all entries are on probation, at least one of
/// the 32 nearly always is.
const PROBATION_BUCKETS: usize = 8;
/// Buckets that a call looks at after an earlier call found nothing to evict in the whole table.
const BARREN_BUCKETS: usize = 32;
/// An eviction tries to advance the epoch once memory that waits for guards exceeds the capacity
/// divided by this.
const DEFERRED_SHARE: usize = 64;
/// The lower bound, in bytes, of the limit that follows from [`DEFERRED_SHARE`].
const MIN_DEFERRED_BYTES: usize = 16 << 10;
/// No new value is inserted while waiting values, or waiting entries without their values, exceed
/// the capacity divided by this.
const MAX_DEFERRED_SHARE: usize = 40;
/// The lower bounds of the limits that follow from [`MAX_DEFERRED_SHARE`]: bytes of waiting values,
/// and bytes of waiting entries without their values. So values of a cache of more than 1.25 MiB
/// exceed its capacity by at most 2.5 %. An entry without its value has one or two percent of its
/// former size.
const MIN_FULL_DEFERRED_BYTES: [usize; 2] = [32 << 10, 256 << 10];
/// Once an eviction has evicted this many entries, it subtracts their charges together. Until then,
/// other inserts still count these charges.
const SETTLED_AT_ONCE: usize = 32;
/// One in this many of the refused inserts tries to advance the epoch.
const REFUSALS_FOR_A_PUSH: usize = 16;

/// One eviction under way.
struct Sweep<V> {
    evicted: EvictedList<V>,
    freed: usize,
    taken: usize,
    pinned: usize,
    wanted: usize,
    tally: ChargeTally,
    /// Buckets that the second hand has visited since an entry was evicted or lost a clock step.
    barren: usize,
    /// Whether the last call found nothing to evict or the cache is empty, and this call has found
    /// nothing yet. A wary call does not age pinned entries, so they do not prolong its search.
    is_wary: bool,
    /// Whether this call, while it is wary, looks at `BARREN_BUCKETS` only.
    is_hasty: bool,
}

impl<V> Sweep<V> {
    fn new(wanted: usize, is_wary: bool) -> Sweep<V> {
        Sweep {
            evicted: EvictedList::new(),
            freed: 0,
            taken: 0,
            pinned: 0,
            wanted,
            tally: ChargeTally::default(),
            barren: 0,
            is_wary,
            is_hasty: false,
        }
    }

    /// Records that an entry was evicted or lost a clock step.
    fn has_found(&mut self) {
        (self.barren, self.is_wary) = (0, false);
    }
}

impl<V: Send + Sync + 'static> ClockTable<V> {
    /// Evicts until `wanted` bytes are free, or until another end of invariant 3. Returns the bytes
    /// freed.
    pub(crate) fn evict(&self, wanted: usize, effort_cap: usize) -> usize {
        let was_barren = self.barren.load(Ordering::Relaxed);
        let is_empty = self.occupancy() == 0;
        let mut sweep = Sweep::new(wanted, was_barren || is_empty);
        sweep.is_hasty = is_empty || effort_cap < usize::MAX;
        let guard = epoch::pin();
        self.sweep(&mut sweep, effort_cap, &guard);
        let is_barren = sweep.taken == 0;
        if is_barren != was_barren {
            self.barren.store(is_barren, Ordering::Relaxed);
        }
        let ([whole, emptied], [_, most_emptied]) = (self.ledger.deferred_parts(), self.full_deferred());
        if whole > self.usual_deferred() / 2 || emptied > most_emptied / 2 {
            // Hands the memory that this thread has retired to the epoch, so that another thread
            // can free it. Otherwise the memory could wait until this thread evicts again. One
            // thread's entries without values take a few kilobytes. Those of many threads could
            // reach the limit at which inserts are refused.
            guard.flush();
        }
        drop(guard);
        self.report(sweep.evicted);
        self.push_deferred();
        sweep.freed
    }

    /// Moves the hands until enough bytes are free, or the effort cap is reached.
    fn sweep(&self, sweep: &mut Sweep<V>, effort_cap: usize, guard: &Guard) {
        let length = self.length();
        let mut steps_left = length * MAX_TURNS;
        // Steps that the first hand has left: at most one turn without success, because a turn
        // shows that no entry on probation can be evicted.
        let mut probation_left = if sweep.is_wary { 0 } else { length };
        while sweep.freed < sweep.wanted
            && steps_left > 0
            && sweep.pinned < effort_cap.saturating_mul(sweep.taken + 1)
        {
            let taken = sweep.taken;
            for _ in 0..PROBATION_BUCKETS.min(probation_left) {
                self.sweep_bucket(self.next_on_probation(), sweep, true, guard);
                probation_left -= 1;
                if sweep.taken > taken {
                    break;
                }
            }
            if sweep.taken == taken {
                self.sweep_bucket(self.hand.fetch_add(1, Ordering::Relaxed), sweep, false, guard);
                steps_left -= 1;
                let is_hasty = sweep.is_wary && sweep.is_hasty;
                if sweep.barren >= if is_hasty { BARREN_BUCKETS.min(length) } else { length } {
                    break;
                }
            }
            if sweep.barren == 0 {
                probation_left = length;
            }
            if sweep.tally.entries >= SETTLED_AT_ONCE {
                self.settle(&mut sweep.tally);
            }
        }
        self.settle(&mut sweep.tally);
    }

    /// The next step of the first hand.
    fn next_on_probation(&self) -> usize {
        let own = &self.probation_claims[self.ledger.own_share()];
        let next = own.fetch_add(1, Ordering::Relaxed);
        if !next.is_multiple_of(PROBATION_BUCKETS) {
            return next;
        }
        // Two threads that share a claim may both reach this line. Then some steps are left out or
        // made twice.
        let first = self.probation_hand.fetch_add(PROBATION_BUCKETS, Ordering::Relaxed);
        own.store(first + 1, Ordering::Relaxed);
        first
    }

    /// Looks at the bucket to which a step of a hand leads.
    fn sweep_bucket(&self, step: usize, sweep: &mut Sweep<V>, only_probation: bool, guard: &Guard) {
        let index = step % self.length();
        sweep.barren += usize::from(!only_probation);
        for found in self.bucket(index).entries(guard) {
            if sweep.freed >= sweep.wanted {
                return;
            }
            // The place's word comes first: it often rules the entry out, and the entry itself is
            // mostly in no processor cache.
            if found.word.clock() > 0 {
                if only_probation {
                    continue;
                }
                if sweep.is_wary && found.entry.is_pinned() {
                    sweep.pinned += 1;
                } else {
                    found.age();
                    sweep.has_found();
                }
                continue;
            }
            if only_probation && !found.word.is_on_probation() {
                continue;
            }
            if found.entry.is_pinned() {
                sweep.pinned += usize::from(!only_probation);
            } else if let Some(bytes) = self.evict_into(&found, &mut sweep.evicted, &mut sweep.tally, guard) {
                sweep.freed += bytes;
                sweep.taken += 1;
                sweep.has_found();
            }
        }
    }

    /// Evicts an entry without handles; cleans up after a dead one.
    pub(super) fn evict_found(
        &self,
        found: &FoundSlot<'_, V>,
        evicted: &mut EvictedList<V>,
        guard: &Guard,
    ) -> Option<usize> {
        let mut tally = ChargeTally::default();
        let freed = self.evict_into(found, evicted, &mut tally, guard);
        self.settle(&mut tally);
        freed
    }

    /// Subtracts charges and counts of evicted entries. REQUIRES: the guard under which they were
    /// evicted is still open.
    fn settle(&self, tally: &mut ChargeTally) {
        let tally = std::mem::take(tally);
        if tally.entries > 0 {
            self.ledger.settle(&tally);
        }
    }

    /// Evicts an entry without handles, and adds its charge and count to `tally`. Cleans up after a
    /// dead entry. Returns the charge of the evicted entry.
    fn evict_into(
        &self,
        found: &FoundSlot<'_, V>,
        evicted: &mut EvictedList<V>,
        tally: &mut ChargeTally,
        guard: &Guard,
    ) -> Option<usize> {
        let entry = found.entry;
        if entry.is_dead() {
            self.clear(found, None, guard);
            return None;
        }
        let ghost = Some(self.hash(&entry.about.key));
        if self.on_evict.is_some() {
            let value = entry.erase_for_callback()?;
            evicted.push(Evicted { value, was_hit: found.word.is_hit() });
        } else if !entry.erase_unpinned_under(guard, tally) {
            return None;
        }
        tally.entries += 1;
        self.unplace(found, ghost, guard);
        Some(entry.about.charge)
    }

    /// Reports evicted entries. REQUIRES: no guard is open here.
    pub(crate) fn report(&self, evicted: EvictedList<V>) {
        if let Some(callback) = &self.on_evict {
            evicted.into_iter().for_each(callback);
        }
    }

    /// Evicts every entry without handles.
    pub(crate) fn evict_all(&self) {
        let mut evicted = EvictedList::new();
        let guard = epoch::pin();
        for index in 0..self.length() {
            for found in self.bucket(index).entries(&guard) {
                self.evict_found(&found, &mut evicted, &guard);
            }
        }
        drop(guard);
        self.report(evicted);
        epoch::collect();
    }

    fn usual_deferred(&self) -> usize {
        (self.ledger.capacity() / DEFERRED_SHARE).max(MIN_DEFERRED_BYTES)
    }

    /// Most bytes that may wait for guards: of values, and of entries without their values.
    fn full_deferred(&self) -> [usize; 2] {
        let share = self.ledger.capacity() / MAX_DEFERRED_SHARE;
        MIN_FULL_DEFERRED_BYTES.map(|least| share.max(least))
    }

    /// Whether the memory that waits for guards has reached its limit, so that no value is inserted
    /// (invariant 4).
    pub(crate) fn is_deferred_full(&self) -> bool {
        let most = self.full_deferred();
        let is_full = || self.ledger.deferred_parts().iter().zip(most).any(|(bytes, most)| *bytes > most);
        if !is_full() {
            return false;
        }
        if self.deferred_refusals.fetch_add(1, Ordering::Relaxed).is_multiple_of(REFUSALS_FOR_A_PUSH) {
            epoch::collect();
        }
        is_full()
    }

    /// Tries to advance the epoch if too much memory waits for guards. A guard that stays open, say
    /// because its thread does not run, keeps that memory. An attempt for each insert would then be
    /// in vain, so the next attempt waits until `usual_deferred` more bytes wait.
    fn push_deferred(&self) {
        let share = self.usual_deferred();
        let (deferred_free, left) = (self.ledger.deferred_free(), self.deferred_left.load(Ordering::Relaxed));
        if deferred_free > left.saturating_add(share) {
            epoch::collect();
            self.deferred_left.store(self.ledger.deferred_free(), Ordering::Relaxed);
        } else if deferred_free < left {
            self.deferred_left.store(deferred_free, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
