//! How the user's cursor crosses runs of deleted keys, and what it remembers of them.
//!
//! After `HOP_AFTER` entries in one call that were not shown it asks the inner cursor to hop
//! ([`InternalIterator::hop`]), and again after every hop that led to the end of what was known; if
//! a hop led nowhere, or only to an entry that an older run has in between, the next one is tried
//! twice as many entries later. When a call has stepped over many deleted keys all the same, it
//! says so to the family's [`DeadRanges`]: between the place where it began and the key it found
//! nothing is there at its sequence number.
//!
//! A walk ([`DbIter::walk`]) is a scan for the sake of what it remembers: it asks now and then
//! whether it shall go on, and what it has passed when it stops is remembered like what it passed
//! when it found a key.
//!
//! Invariants
//!  1. `keys` user keys were found deleted in this call, not counting what was hopped over.
//!  2. If `keys > 0`, nothing is there between `edge` (exclusive; inclusive for a forward call in
//!     an order whose next key cannot be named) and the cursor's place.

use super::{DbIter, set};
use crate::cf::DeadRanges;
use esker_base::FileNumber;
use esker_base::comparator::KeyOrder;
use esker_base::iter::{Hopped, InternalIterator};
use esker_base::sync::Arc;
use esker_format::key;

/// Entries that one call passes over before it tries to hop, unless fewer are enough to remember a
/// range: a hop costs about as much as 20 steps.
const HOP_AFTER: u64 = 8;

/// Where a cursor remembers dead ranges, and the newest file that its view has.
#[derive(Clone, Debug)]
pub(crate) struct DeadRangesOfView {
    pub(crate) ranges: Arc<DeadRanges>,
    pub(crate) newest_file: FileNumber,
}

/// What one call has passed over.
#[derive(Debug)]
pub(super) struct DeadRun {
    pub(super) keys: u64,
    /// Keys from which on a range is remembered; `u64::MAX`: never.
    pub(super) min_keys: u64,
    /// The same in a call that has found none remembered.
    min_keys_alone: u64,
    pub(super) edge: Vec<u8>,
    /// The count of passed entries at which to hop.
    pub(super) hop_at: u64,
    hop_after: u64,
    /// The first `hop_after` of a call.
    hop_first: u64,
    /// Scratch: the end of a dead range.
    known_edge: Vec<u8>,
}

impl DeadRun {
    pub(super) fn new(view: Option<&DeadRangesOfView>) -> DeadRun {
        let min_keys = view.map_or(u64::MAX, |view| view.ranges.min_keys());
        let hop_first = min_keys.min(HOP_AFTER);
        DeadRun {
            keys: 0,
            min_keys,
            min_keys_alone: min_keys,
            edge: Vec::new(),
            hop_at: hop_first,
            hop_after: hop_first,
            hop_first,
            known_edge: Vec::new(),
        }
    }

    /// A new call begins.
    pub(super) fn begin(&mut self) {
        self.keys = 0;
        self.min_keys = self.min_keys_alone;
        self.hop_at = self.hop_first;
        self.hop_after = self.hop_first;
    }
}

/// Asked with the user key that a walk has come to. False: it shall stop before it.
pub(crate) type GoesOn = Box<dyn FnMut(&[u8]) -> bool + Send>;

/// A scan that may be stopped between two keys that are there.
pub(super) struct Walk {
    goes_on: GoesOn,
    /// Entries to be passed before it asks again.
    every: u64,
    stopped: bool,
}

impl<I: InternalIterator> DbIter<I> {
    /// From now on a move that passes over `every` entries asks `goes_on` with the user key it has
    /// come to, and again after as many. If that says no, the cursor is not valid and its status is
    /// fine; [`DbIter::stopped_at`] is that key then. Moves go forward only.
    pub(crate) fn walk(&mut self, every: u64, goes_on: GoesOn) {
        self.options.max_skippable_internal_keys = every;
        self.walk = Some(Walk { goes_on, every, stopped: false });
    }

    /// A new call begins.
    pub(super) fn begin_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            self.options.max_skippable_internal_keys = walk.every;
            walk.stopped = false;
        }
    }

    /// Where a walk was stopped: nothing was found before this key that was not shown, and nothing
    /// is known of the key itself.
    pub(crate) fn stopped_at(&self) -> Option<&[u8]> {
        self.walk.as_ref().filter(|walk| walk.stopped).map(|_| self.key.as_slice())
    }

    /// Whether the walk goes on over the entry that was just counted.
    pub(super) fn ask_on_walk(&mut self) -> bool {
        let Some(walk) = &mut self.walk else { return true };
        walk.stopped = !(walk.goes_on)(&self.key);
        self.valid = false;
        self.options.max_skippable_internal_keys = self.skipped_in_call + walk.every;
        !walk.stopped
    }

    /// Hops from the inner cursor's entry, which is not to be shown. False if it did not move.
    #[cold]
    pub(super) fn hop(&mut self) -> bool {
        esker_base::probe!("iter:hop");
        let snapshot = self.options.sequence;
        let view = self.options.dead_ranges.as_ref();
        let known = view.and_then(|view| {
            let user_key = key::user_key(self.iter.key());
            view.ranges.find(user_key, snapshot, self.forward, &mut self.dead.known_edge)
        });
        let hopped = self.iter.hop(snapshot, self.forward, known.as_ref());
        self.dead.hop_after = match hopped {
            Hopped::Far => 1,
            Hopped::No | Hopped::Near => (self.dead.hop_after * 2).max(self.dead.hop_first),
        };
        if self.walk.is_some() && known.is_some() && hopped != Hopped::No {
            // What lies behind it, however little, is to become one range with it.
            self.dead.min_keys = self.dead.min_keys.min(1);
        }
        self.dead.hop_at = self.skipped_in_call + self.dead.hop_after;
        self.counters.hops += u64::from(hopped != Hopped::No);
        hopped != Hopped::No
    }

    /// Forward, before `key` is replaced by the first deleted key of this call, on which the inner
    /// cursor stands.
    #[inline]
    pub(super) fn begin_run_forward(&mut self) {
        if self.icmp.order() == KeyOrder::Bytewise {
            std::mem::swap(&mut self.key, &mut self.dead.edge);
        } else {
            set(&mut self.dead.edge, key::user_key(self.iter.key()));
        }
    }

    /// A forward call has ended: the deleted keys it stepped over are remembered.
    #[cold]
    pub(super) fn remember_forward(&mut self) {
        let Some(view) = self.options.dead_ranges.as_ref().filter(|_| self.status.is_ok()) else { return };
        if self.prefix.is_some() {
            return;
        }
        let end = match (&self.options.upper_bound, self.valid) {
            (Some(upper), false) => upper,
            _ => &self.key,
        };
        if self.icmp.order() == KeyOrder::Bytewise {
            self.dead.edge.push(0);
        }
        view.ranges.add(&self.dead.edge, end, self.options.sequence, view.newest_file);
    }

    /// A backward call has ended: the same.
    #[cold]
    pub(super) fn remember_backward(&mut self) {
        let Some(view) = self.options.dead_ranges.as_ref().filter(|_| self.status.is_ok()) else { return };
        if self.prefix.is_some() {
            return;
        }
        // A key that is there cannot be named as the start in an order whose next key is not known.
        let start = match (&self.options.lower_bound, self.valid, self.icmp.order()) {
            (Some(lower), false, _) => lower,
            (_, true, KeyOrder::Bytewise) => {
                set(&mut self.dead.known_edge, &self.key);
                self.dead.known_edge.push(0);
                &self.dead.known_edge
            }
            (_, true, _) => return,
            (None, false, _) => &self.key,
        };
        view.ranges.add(start, &self.dead.edge, self.options.sequence, view.newest_file);
    }

    /// Its view is another one from now on.
    pub(crate) fn set_dead_ranges(&mut self, view: Option<DeadRangesOfView>) {
        self.dead = DeadRun::new(view.as_ref());
        self.options.dead_ranges = view;
    }
}
