//! Escalation frees lock memory: it joins locks of the lockers that hold the most bytes.
//!
//! In: locks whose memory exceeds the limit. Out: fewer locks, or the answer that nothing more can
//! be joined.
//!
//! Escalation begins with the locker that holds the most, not with the locker that made the
//! request. It goes from leaf to leaf, and joins neighbouring exclusive locks of that locker to one
//! lock. It joins two locks across a gap only if no locker holds or requests a lock in the gap, and
//! the barrier allows it. Other lockers run on meanwhile.
//!
//! Invariant: the thread that joins locks sets `LockOwner::escalated` under the latch of their
//! leaf. A locker that releases locks takes that latch too, and reads `escalated` afterwards. If
//! the flag is set, the locker sweeps all leaves for locks that its log does not name.

use crate::cut::{Cut, CutOrder, KeySpan};
use crate::family::LockFamily;
use crate::leaf::LeafState;
use crate::manager::{EscalationBarrier, Inner};
use crate::owner::LockOwner;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use std::collections::HashMap;

/// The pause after an escalation that freed little, as a multiple of the escalation's duration. An
/// escalation reads all locks, so it must not run for each request over the limit. During the pause
/// these requests fail, unless released locks make room.
const REST: u64 = 8;

/// An escalation goes on until a part of the limit is free: the limit divided by this number.
/// Otherwise the next escalation would follow soon.
const GAIN: i64 = 16;

impl Inner {
    /// Whether there is room for more locks. Escalates if necessary. `unreported_bytes`: bytes of
    /// the caller's locks that the total does not count yet.
    #[inline]
    pub(crate) fn has_room(&self, unreported_bytes: i64) -> bool {
        self.shared.max_bytes.load(Ordering::Relaxed) == usize::MAX
            || self.fits(unreported_bytes)
            || self.make_room(unreported_bytes)
    }

    fn fits(&self, unreported_bytes: i64) -> bool {
        self.shared.bytes() + unreported_bytes < self.limit()
    }

    fn limit(&self) -> i64 {
        i64::try_from(self.shared.max_bytes.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    #[cold]
    fn make_room(&self, unreported_bytes: i64) -> bool {
        // One thread at a time escalates.
        let mut not_before = self.making_room.lock();
        if self.fits(unreported_bytes) {
            return true;
        }
        let start = self.shared.now();
        if start < *not_before {
            return false;
        }
        let families = self.all_families();
        let barrier = self.barrier.lock().clone();
        self.shared.counters.escalations.fetch_add(1, Ordering::Relaxed);
        let owners = greediest_first(&families);
        let mut rest = &owners[..];
        let mut count = 1;
        // Each pass takes twice as many owners as the one before. Otherwise each of a thousand
        // owners with few locks could cost a pass.
        while !rest.is_empty() {
            let these;
            (these, rest) = rest.split_at(count.min(rest.len()));
            let these = these.iter().map(|owner| (owner.id, &**owner)).collect();
            for family in &families {
                self.escalate(family, &these, barrier.as_ref());
            }
            let limit = self.limit();
            if self.fits(unreported_bytes.saturating_add(limit / GAIN)) {
                return true;
            }
            count *= 2;
        }
        let end = self.shared.now();
        *not_before = end.saturating_add(end.saturating_sub(start).saturating_mul(REST));
        self.fits(unreported_bytes)
    }

    fn escalate(
        &self,
        family: &LockFamily,
        owners: &HashMap<u64, &LockOwner>,
        barrier: Option<&EscalationBarrier>,
    ) {
        family.for_each_leaf(|_, state| {
            let LeafState { fragments, queue, .. } = state;
            let is_wanted = |gap: KeySpan<'_>| {
                queue.iter().any(|waiter| family.order.overlap(waiter.span.as_span(), gap))
            };
            let is_barred = |lo: Cut<'_>, hi: Cut<'_>| {
                barrier.is_some_and(|b| b(family.id, &lo.to_endpoint(), &hi.to_endpoint()))
            };
            let (joined, saved) = fragments.escalate(owners, |lo, hi| {
                let gap = KeySpan { lo, hi };
                is_adjacent(&family.order, gap) || !(is_wanted(gap) || is_barred(lo, hi))
            });
            self.shared.add_bytes(-saved);
            self.shared.counters.escalated_locks.fetch_add(joined as u64, Ordering::Relaxed);
        });
    }
}

fn is_adjacent(order: &CutOrder, gap: KeySpan<'_>) -> bool {
    order.is_empty(gap)
}

/// All lockers that hold locks, those with the most bytes first.
fn greediest_first(families: &[Arc<LockFamily>]) -> Vec<Arc<LockOwner>> {
    let mut bytes: HashMap<u64, (i64, Arc<LockOwner>)> = HashMap::new();
    for family in families {
        family.for_each_leaf(|_, state| {
            for fragment in state.fragments.iter() {
                let share = fragment.bytes();
                for owner in fragment.owners() {
                    bytes.entry(owner.id).or_insert_with(|| (0, owner.clone())).0 += share;
                }
            }
        });
    }
    let mut owners: Vec<(i64, Arc<LockOwner>)> = bytes.into_values().collect();
    owners.sort_by_key(|(bytes, owner)| (std::cmp::Reverse(*bytes), owner.id));
    owners.into_iter().map(|(_, owner)| owner).collect()
}
