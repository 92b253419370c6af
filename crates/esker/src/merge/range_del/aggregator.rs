//! All range tombstones of a flush or compaction.
//!
//! In: the fragments of each input, with its bounds, and the live snapshots. Out: the point entries
//! that they hide from all readers, and the tombstones of each output file. Source: RocksDB
//! `db/range_del_aggregator.h`.
//!
//! Snapshots cut sequence numbers into *stripes*: no reader distinguishes entries between two
//! neighbouring snapshots. A tombstone hides an older entry from all readers only within its own
//! stripe. If a transaction committed the entry later, tombstones of all stripes up to the commit's
//! hide it, too. Over each key only the newest tombstone of each stripe is needed. So each stripe
//! with tombstones has a set of its own, with only the newest tombstones.
//!
//! For n tombstones of any shape, and any number of snapshots: O(n log n) time and O(n) memory. The
//! outputs have at most 2n tombstones, and one more for each cut by an output's end.
//!
//! Invariant: `stripes` holds all tombstones that were added, or is `None`.

use super::FileBounds;
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::{FragmentedRangeTombstones, RangeTombstone, RangeTombstoneRef};

/// The cover of one user key that is split between its file and the next (see [`super::Cover`]).
#[derive(Debug)]
struct Edge {
    user_key: Vec<u8>,
    from: SequenceNumber,
    fragments: Arc<FragmentedRangeTombstones>,
}

/// The tombstones of one input, which apply within its bounds.
#[derive(Debug)]
struct Input {
    fragments: Arc<FragmentedRangeTombstones>,
    bounds: Option<FileBounds>,
}

/// The newest tombstones of one stripe.
#[derive(Debug)]
struct Stripe {
    /// The stripe's number: the number of older snapshots.
    number: usize,
    newest: FragmentedRangeTombstones,
    /// The position of the last requested key.
    position: usize,
}

/// The tombstones of all inputs.
#[derive(Debug)]
pub(crate) struct RangeDelAggregator {
    icmp: InternalKeyComparator,
    /// Live snapshots, ascending.
    snapshots: Vec<SequenceNumber>,
    inputs: Vec<Input>,
    edges: Vec<Edge>,
    /// The stripes, by number.
    stripes: Option<Vec<Stripe>>,
    dropped: u64,
}

impl RangeDelAggregator {
    /// An aggregator without tombstones. `snapshots`: the live snapshots, ascending.
    pub(crate) fn new(icmp: InternalKeyComparator, snapshots: Vec<SequenceNumber>) -> RangeDelAggregator {
        debug_assert!(snapshots.is_sorted(), "snapshots come in order");
        RangeDelAggregator {
            icmp,
            snapshots,
            inputs: Vec::new(),
            edges: Vec::new(),
            stripes: None,
            dropped: 0,
        }
    }

    /// Adds the tombstones of one input: a memtable (without bounds) or a file.
    pub(crate) fn add(&mut self, fragments: &Arc<FragmentedRangeTombstones>, bounds: Option<&FileBounds>) {
        self.stripes = None;
        self.inputs.push(Input { fragments: Arc::clone(fragments), bounds: bounds.cloned() });
        if let Some(bounds) = bounds
            && let Some(from) = bounds.edge_from()
            && fragments.max_covering_seq(bounds.largest(), &self.icmp, SequenceNumber::MAX) > from
        {
            self.edges.push(Edge {
                user_key: bounds.largest().to_vec(),
                from,
                fragments: Arc::clone(fragments),
            });
        }
    }

    /// Whether there are no tombstones.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// The live snapshots, ascending.
    pub(crate) fn snapshots(&self) -> &[SequenceNumber] {
        &self.snapshots
    }

    /// Whether a tombstone hides the entry from every reader that could see it. `seen_from`: the
    /// oldest stripe whose readers see the entry; newer than that of `sequence` if a transaction
    /// committed the entry later. Fastest when called in key order.
    #[inline]
    pub(crate) fn should_delete(
        &mut self,
        user_key: &[u8],
        sequence: SequenceNumber,
        seen_from: usize,
    ) -> bool {
        !self.is_empty() && self.is_hidden(user_key, sequence, seen_from)
    }

    fn is_hidden(&mut self, user_key: &[u8], sequence: SequenceNumber, seen_from: usize) -> bool {
        let first = stripe(&self.snapshots, sequence);
        let stripes = built(&mut self.stripes, &self.inputs, &self.icmp, &self.snapshots);
        let from = stripes.partition_point(|stripe| stripe.number < first);
        for Stripe { newest, position, .. } in
            stripes[from..].iter_mut().take_while(|stripe| stripe.number <= seen_from)
        {
            *position = newest.position_near(*position, user_key, &self.icmp);
            let here = position.checked_sub(1).filter(|&i| i < newest.len());
            if here.is_some_and(|i| newest.fragment(i).newest > sequence) {
                return true;
            }
        }
        let stripe_end = self.snapshots.get(seen_from).copied().unwrap_or(SequenceNumber::MAX);
        self.edges.iter().any(|edge| {
            sequence >= edge.from
                && self.icmp.same_user_key(&edge.user_key, user_key)
                && edge.fragments.max_covering_seq(user_key, &self.icmp, stripe_end) > sequence
        })
    }

    /// Tombstones that [`tombstones_for_output`](Self::tombstones_for_output) left out, counted
    /// once for each output file.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The tombstones that an output file for the user keys `[lower, upper)` must hold, clipped to
    /// these keys. They come in the order in which they are written: by start, then newest first.
    /// Tombstones of one stripe do not overlap. At the `bottommost` level, tombstones that every
    /// snapshot sees are left out: the entries that they hid are gone.
    pub(crate) fn tombstones_for_output(
        &mut self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        bottommost: bool,
    ) -> Vec<RangeTombstone> {
        let icmp = &self.icmp;
        let stripes = built(&mut self.stripes, &self.inputs, icmp, &self.snapshots);
        let mut out = Vec::new();
        for Stripe { newest, number, .. } in stripes.iter() {
            let is_dropped = bottommost && *number == 0;
            let first = lower.map_or(0, |lower| newest.position(lower, icmp).saturating_sub(1));
            let fragments = (first..newest.len()).map(|i| newest.fragment(i));
            for fragment in fragments {
                let start = lower.filter(|lower| icmp.compare_user_keys(lower, fragment.start).is_gt());
                let start = start.unwrap_or(fragment.start);
                let end = upper.filter(|upper| icmp.compare_user_keys(upper, fragment.end).is_lt());
                let end = end.unwrap_or(fragment.end);
                if icmp.compare_user_keys(start, end).is_ge() {
                    break;
                }
                if fragment.newest > SequenceNumber::ZERO && is_dropped {
                    self.dropped += 1;
                } else if fragment.newest > SequenceNumber::ZERO {
                    out.push(RangeTombstone::new(start, end, fragment.newest));
                }
            }
        }
        if stripes.len() > 1 {
            out.sort_by(|a, b| icmp.compare_user_keys(&a.start, &b.start).then(b.seq.cmp(&a.seq)));
        }
        out
    }
}

/// The stripes; builds them from all inputs if they are missing.
fn built<'s>(
    stripes: &'s mut Option<Vec<Stripe>>,
    inputs: &[Input],
    icmp: &InternalKeyComparator,
    snapshots: &[SequenceNumber],
) -> &'s mut Vec<Stripe> {
    stripes.get_or_insert_with(|| {
        let tombstones = inputs.iter().flat_map(|input| {
            input.fragments.tombstones().filter_map(|tombstone| clip(icmp, tombstone, input.bounds.as_ref()))
        });
        let mut numbered: Vec<_> = tombstones.map(|t| (stripe(snapshots, t.seq), t)).collect();
        numbered.sort_by_key(|&(number, _)| number);
        let stripes = numbered.chunk_by(|(a, _), (b, _)| a == b);
        let made = stripes.map(|stripe| Stripe {
            number: stripe[0].0,
            newest: FragmentedRangeTombstones::newest_of(stripe.iter().map(|&(_, t)| t), icmp),
            position: 0,
        });
        made.collect()
    })
}

/// Number of snapshots older than `sequence`. Without snapshots all entries are in stripe 0; all
/// snapshots see the entries of stripe 0.
#[inline]
pub(crate) fn stripe(snapshots: &[SequenceNumber], sequence: SequenceNumber) -> usize {
    match snapshots.last() {
        None => 0,
        Some(&newest) if newest < sequence => snapshots.len(),
        Some(_) => snapshots.partition_point(|&s| s < sequence),
    }
}

/// The part of a tombstone within the given bounds.
fn clip<'a>(
    icmp: &InternalKeyComparator,
    tombstone: RangeTombstoneRef<'a>,
    bounds: Option<&'a FileBounds>,
) -> Option<RangeTombstoneRef<'a>> {
    let Some(bounds) = bounds else { return Some(tombstone) };
    let RangeTombstoneRef { mut start, mut end, seq } = tombstone;
    if icmp.compare_user_keys(start, bounds.smallest()).is_lt() {
        start = bounds.smallest();
    }
    if icmp.compare_user_keys(end, bounds.largest()).is_gt() {
        end = bounds.largest();
    }
    icmp.compare_user_keys(start, end).is_lt().then_some(RangeTombstoneRef { start, end, seq })
}
