//! Making room: joining the locks of the greediest.
//!
//! In: more bytes of locks than allowed. Out: fewer, or the word that this is all there is to gain.
//!
//! Whoever holds most gives up precision, not whoever happens to ask: its neighbouring exclusive
//! locks become one, leaf by leaf, where nobody else holds or wants anything between them and the
//! barrier agrees. There is no moment in which everything stands still.
//!
//! Invariant: `Owner::escalated` is set under the latch under which locks are joined, so that
//! whoever has released what its log names, and so has had that latch since, knows whether to sweep
//! for what the log does not name.

use crate::cut::{Cut, Order, Span};
use crate::family::Family;
use crate::leaf::LeafState;
use crate::manager::{EscalationBarrier, Inner};
use crate::owner::Owner;
use esker_base::sync::Arc;
use esker_base::sync::atomic::Ordering;
use std::collections::HashMap;

/// When little was to be gained, it is not tried again for so many times as long as it took: it
/// goes through all locks there are, and everybody who asks for one beyond the limit is refused
/// meanwhile. What is given back makes room at once.
const REST: u64 = 8;

/// So large a part of the limit is made free, if it can be: else the next lock but a few would have
/// all of them gone through again.
const GAIN: i64 = 16;

impl Inner {
    /// True if there is room for more locks, made if need be. `untold` bytes are the caller's own.
    #[inline]
    pub(crate) fn has_room(&self, untold: i64) -> bool {
        self.shared.max_bytes.load(Ordering::Relaxed) == usize::MAX
            || self.fits(untold)
            || self.make_room(untold)
    }

    fn fits(&self, untold: i64) -> bool {
        self.shared.bytes() + untold < self.limit()
    }

    fn limit(&self) -> i64 {
        i64::try_from(self.shared.max_bytes.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
    }

    #[cold]
    fn make_room(&self, untold: i64) -> bool {
        // One at a time.
        let mut not_before = self.making_room.lock();
        if self.fits(untold) {
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
        // Twice as many each time: of many who hold little each would take a walk of its own.
        while !rest.is_empty() {
            let these;
            (these, rest) = rest.split_at(count.min(rest.len()));
            let these = these.iter().map(|owner| (owner.id, &**owner)).collect();
            for family in &families {
                self.escalate(family, &these, barrier.as_ref());
            }
            let limit = self.limit();
            if self.fits(untold.saturating_add(limit / GAIN)) {
                return true;
            }
            count *= 2;
        }
        let end = self.shared.now();
        *not_before = end.saturating_add(end.saturating_sub(start).saturating_mul(REST));
        self.fits(untold)
    }

    fn escalate(&self, family: &Family, owners: &HashMap<u64, &Owner>, barrier: Option<&EscalationBarrier>) {
        family.for_each_leaf(|_, state| {
            let LeafState { fragments, queue, .. } = state;
            let is_wanted =
                |gap: Span<'_>| queue.iter().any(|waiter| family.order.overlap(waiter.span.as_span(), gap));
            let is_barred = |lo: Cut<'_>, hi: Cut<'_>| {
                barrier.is_some_and(|b| b(family.id, &lo.to_endpoint(), &hi.to_endpoint()))
            };
            let (joined, saved) = fragments.escalate(owners, |lo, hi| {
                let gap = Span { lo, hi };
                is_adjacent(&family.order, gap) || !(is_wanted(gap) || is_barred(lo, hi))
            });
            self.shared.add_bytes(-saved);
            self.shared.counters.escalated_locks.fetch_add(joined as u64, Ordering::Relaxed);
        });
    }
}

fn is_adjacent(order: &Order, gap: Span<'_>) -> bool {
    order.is_empty(gap)
}

/// Everybody who holds locks, by how many bytes of them.
fn greediest_first(families: &[Arc<Family>]) -> Vec<Arc<Owner>> {
    let mut bytes: HashMap<u64, (i64, Arc<Owner>)> = HashMap::new();
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
    let mut owners: Vec<(i64, Arc<Owner>)> = bytes.into_values().collect();
    owners.sort_by_key(|(bytes, owner)| (std::cmp::Reverse(*bytes), owner.id));
    owners.into_iter().map(|(_, owner)| owner).collect()
}
