//! How a cursor skips runs of deleted keys, and what it remembers of them.
//!
//! After `HOP_AFTER` entries in one call that were not shown it asks the inner cursor to hop
//! ([`InternalIterator::hop`]), and again after every hop that led to the end of what was known; if
//! a hop led nowhere, or only to an entry that an older run has in between, the next one is tried
//! twice as many entries later. When a call has stepped over many deleted keys all the same, it
//! says so to the family's [`DeadRanges`]: between the place where it began and the key it found
//! nothing is there at its sequence number.
//!
//! Invariants
//!  1. `keys` user keys were found deleted in this call, not counting what was hopped over.
//!  2. If `keys > 0`, nothing is there between `edge` (exclusive; inclusive for a forward call in
//!     an order whose next key cannot be named) and the cursor's place.

use super::DeadRanges;
use esker_base::comparator::KeyOrder;
use esker_base::iter::{Hopped, InternalIterator};
use esker_base::sync::Arc;
use esker_base::{FileNumber, SequenceNumber};
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
pub(crate) struct DeadRun {
    pub(crate) keys: u64,
    /// Keys from which on a range is remembered; `u64::MAX`: never.
    pub(crate) min_keys: u64,
    /// The same in a call that has found none remembered.
    min_keys_alone: u64,
    pub(crate) edge: Vec<u8>,
    /// The count of passed entries at which to hop.
    pub(crate) hop_at: u64,
    hop_after: u64,
    /// The first `hop_after` of a call.
    hop_first: u64,
    /// Scratch: the end of a dead range.
    known_edge: Vec<u8>,
}

impl DeadRun {
    pub(crate) fn new(view: Option<&DeadRangesOfView>) -> DeadRun {
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
    pub(crate) fn begin(&mut self) {
        self.keys = 0;
        self.min_keys = self.min_keys_alone;
        self.hop_at = self.hop_first;
        self.hop_after = self.hop_first;
    }
}

/// A place to skip from.
#[derive(Debug)]
pub(crate) struct Skip<'v> {
    pub(crate) view: Option<&'v DeadRangesOfView>,
    pub(crate) sequence: SequenceNumber,
    pub(crate) forward: bool,
    /// Entries that this call has passed.
    pub(crate) passed: u64,
    /// For a walk: what lies behind a known run, however little, is to become one range with it.
    pub(crate) joins_runs: bool,
}

impl DeadRun {
    /// Hops with `iter` from its entry, which is not to be shown. False if it did not move.
    pub(crate) fn skip<I: InternalIterator>(&mut self, iter: &mut I, from: &Skip<'_>) -> bool {
        esker_base::probe!("iter:hop");
        let known = from.view.and_then(|view| {
            let user_key = key::user_key(iter.key());
            view.ranges.find(user_key, from.sequence, from.forward, &mut self.known_edge)
        });
        let hopped = iter.hop(from.sequence, from.forward, known.as_ref());
        self.hop_after = match hopped {
            Hopped::Far => 1,
            Hopped::No | Hopped::Near => (self.hop_after * 2).max(self.hop_first),
        };
        if from.joins_runs && known.is_some() && hopped != Hopped::No {
            self.min_keys = self.min_keys.min(1);
        }
        self.hop_at = from.passed + self.hop_after;
        hopped != Hopped::No
    }

    /// A forward call over `view` has ended at `end`: remembers the deleted keys that it stepped
    /// over.
    pub(crate) fn remember_up_to(
        &mut self,
        end: &[u8],
        order: KeyOrder,
        sequence: SequenceNumber,
        view: &DeadRangesOfView,
    ) {
        if order == KeyOrder::Bytewise {
            self.edge.push(0);
        }
        view.ranges.add(&self.edge, end, sequence, view.newest_file);
    }

    /// A backward call over `view` has ended: remembers the deleted keys from `start` on, or from
    /// behind it if that key is there.
    pub(crate) fn remember_from(
        &mut self,
        (start, is_there): (&[u8], bool),
        sequence: SequenceNumber,
        view: &DeadRangesOfView,
    ) {
        let start = if is_there {
            self.known_edge.clear();
            self.known_edge.extend_from_slice(start);
            self.known_edge.push(0);
            &self.known_edge
        } else {
            start
        };
        view.ranges.add(start, &self.edge, sequence, view.newest_file);
    }
}
