//! All range tombstones of a flush or compaction.
//!
//! In: the fragments of each input, with its bounds, and the live snapshots. Out: which point entries they hide for
//! everybody, and the tombstones each output file must carry.   Source: RocksDB `db/range_del_aggregator.h`.
//!
//! Snapshots cut sequence numbers into *stripes*: all that lies between two neighbouring snapshots is told apart by
//! nobody. A tombstone hides an older entry from everybody only within its own stripe, and of the tombstones of one
//! fragment only the newest of each stripe is needed.
//!
//! Invariant: `merged` holds everything that was added, or is `None`.

use super::FileBounds;
use esker_base::SequenceNumber;
use esker_base::sync::Arc;
use esker_format::key::InternalKeyComparator;
use esker_format::range_del::{Fragment, FragmentedRangeTombstones, RangeTombstone};

/// What tombstones hide of one user key that is split between its file and the next (see [`super::Cover`]).
#[derive(Debug)]
struct Edge {
    user_key: Vec<u8>,
    from: SequenceNumber,
    fragments: Arc<FragmentedRangeTombstones>,
}

/// The tombstones of all inputs.
#[derive(Debug)]
pub struct RangeDelAggregator {
    icmp: InternalKeyComparator,
    /// Ascending.
    snapshots: Vec<SequenceNumber>,
    added: Vec<RangeTombstone>,
    edges: Vec<Edge>,
    merged: Option<FragmentedRangeTombstones>,
    /// The fragment at which the last question was answered.
    place: usize,
}

impl RangeDelAggregator {
    /// None yet. `snapshots`: the live ones, ascending.
    pub fn new(icmp: InternalKeyComparator, snapshots: Vec<SequenceNumber>) -> RangeDelAggregator {
        debug_assert!(snapshots.is_sorted(), "snapshots come in order");
        RangeDelAggregator { icmp, snapshots, added: Vec::new(), edges: Vec::new(), merged: None, place: 0 }
    }

    /// Adds those of one input: a memtable (no bounds) or a file.
    pub fn add(&mut self, fragments: &Arc<FragmentedRangeTombstones>, bounds: Option<&FileBounds>) {
        self.merged = None;
        for fragment in fragments.iter() {
            if let Some((start, end)) = clip(&self.icmp, &fragment, bounds) {
                self.added.extend(fragment.seqs.iter().map(|&seq| RangeTombstone::new(start, end, seq)));
            }
        }
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

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.edges.is_empty()
    }

    /// The live snapshots, ascending.
    pub fn snapshots(&self) -> &[SequenceNumber] {
        &self.snapshots
    }

    /// Whether a tombstone hides the entry from everybody who could see it. Fastest when asked in key order.
    #[inline]
    pub fn should_delete(&mut self, user_key: &[u8], sequence: SequenceNumber) -> bool {
        !self.is_empty() && self.is_hidden(user_key, sequence)
    }

    fn is_hidden(&mut self, user_key: &[u8], sequence: SequenceNumber) -> bool {
        let stripe_end = stripe_end(&self.snapshots, sequence);
        self.build();
        let merged = self.merged.as_ref().expect("just built");
        self.place = seek_near(&self.icmp, merged, self.place, user_key);
        if self.place < merged.len() {
            let fragment = merged.fragment(self.place);
            if self.icmp.compare_user_keys(fragment.start, user_key).is_le()
                && fragment.newest_visible(stripe_end) > sequence
            {
                return true;
            }
        }
        self.edges.iter().any(|edge| {
            sequence >= edge.from
                && self.icmp.same_user_key(&edge.user_key, user_key)
                && edge.fragments.max_covering_seq(user_key, &self.icmp, stripe_end) > sequence
        })
    }

    fn build(&mut self) {
        if self.merged.is_none() {
            let refs = self.added.iter().map(RangeTombstone::as_ref);
            self.merged = Some(FragmentedRangeTombstones::from_refs(refs, &self.icmp));
            self.place = 0;
        }
    }

    /// The tombstones that an output file for the user keys `[lower, upper)` must hold, cut to them, in the order in which
    /// they are written: by start, then newest first, no two overlapping partly. At the `bottommost` level those that
    /// every snapshot sees are left out: what they hid is gone.
    pub fn tombstones_for_output(
        &mut self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
        bottommost: bool,
    ) -> Vec<RangeTombstone> {
        self.build();
        let merged = self.merged.as_ref().expect("just built");
        let mut out = Vec::new();
        let mut run = Vec::new();
        let mut needed = Vec::new();
        let (mut start, mut end): (&[u8], &[u8]) = (&[], &[]);
        let first = lower.map_or(0, |lower| merged.seek(lower, &self.icmp));
        for i in first..merged.len() {
            let fragment = merged.fragment(i);
            let low = lower.filter(|l| self.icmp.compare_user_keys(l, fragment.start).is_gt());
            let low = low.unwrap_or(fragment.start);
            let high = upper.filter(|u| self.icmp.compare_user_keys(u, fragment.end).is_lt());
            let high = high.unwrap_or(fragment.end);
            if self.icmp.compare_user_keys(low, high).is_ge() {
                break;
            }
            newest_of_stripes(&self.snapshots, fragment.seqs, bottommost, &mut needed);
            // Neighbours that differ only in what was not needed become one.
            if needed == run && low == end {
                end = high;
            } else {
                push_run(&mut out, start, end, &run);
                std::mem::swap(&mut run, &mut needed);
                (start, end) = (low, high);
            }
        }
        push_run(&mut out, start, end, &run);
        out
    }
}

fn push_run(out: &mut Vec<RangeTombstone>, start: &[u8], end: &[u8], seqs: &[SequenceNumber]) {
    out.extend(seqs.iter().map(|&seq| RangeTombstone::new(start, end, seq)));
}

/// The newest of `seqs` (descending) in each stripe; at the bottommost level none of the oldest stripe.
fn newest_of_stripes(
    snapshots: &[SequenceNumber],
    seqs: &[SequenceNumber],
    bottommost: bool,
    needed: &mut Vec<SequenceNumber>,
) {
    needed.clear();
    let mut last = None;
    for &seq in seqs {
        let stripe = stripe(snapshots, seq);
        if last != Some(stripe) && !(bottommost && stripe == 0) {
            needed.push(seq);
        }
        last = Some(stripe);
    }
}

/// How many snapshots are older than `sequence`. With none, everything is in stripe 0; what is in stripe 0 all snapshots
/// see.
#[inline]
pub(in crate::iter) fn stripe(snapshots: &[SequenceNumber], sequence: SequenceNumber) -> usize {
    match snapshots.last() {
        None => 0,
        Some(&newest) if newest < sequence => snapshots.len(),
        Some(_) => snapshots.partition_point(|&s| s < sequence),
    }
}

/// The oldest snapshot that sees `sequence`; `MAX` if none does.
#[inline]
fn stripe_end(snapshots: &[SequenceNumber], sequence: SequenceNumber) -> SequenceNumber {
    snapshots.get(stripe(snapshots, sequence)).copied().unwrap_or(SequenceNumber::MAX)
}

/// The first fragment that ends behind `user_key`, looked for from `place` on.
pub(super) fn seek_near(
    icmp: &InternalKeyComparator,
    fragments: &FragmentedRangeTombstones,
    place: usize,
    user_key: &[u8],
) -> usize {
    let ends_behind = |i: usize| icmp.compare_user_keys(fragments.fragment(i).end, user_key).is_gt();
    if place == 0 || (place <= fragments.len() && !ends_behind(place - 1)) {
        if place == fragments.len() || ends_behind(place) {
            return place;
        }
        if place + 1 == fragments.len() || ends_behind(place + 1) {
            return place + 1;
        }
    }
    fragments.seek(user_key, icmp)
}

/// The part of a fragment within the bounds.
fn clip<'a>(
    icmp: &InternalKeyComparator,
    fragment: &Fragment<'a>,
    bounds: Option<&'a FileBounds>,
) -> Option<(&'a [u8], &'a [u8])> {
    let Some(bounds) = bounds else { return Some((fragment.start, fragment.end)) };
    let start = if icmp.compare_user_keys(fragment.start, bounds.smallest()).is_lt() {
        bounds.smallest()
    } else {
        fragment.start
    };
    let end = if icmp.compare_user_keys(fragment.end, bounds.largest()).is_gt() {
        bounds.largest()
    } else {
        fragment.end
    };
    icmp.compare_user_keys(start, end).is_lt().then_some((start, end))
}
