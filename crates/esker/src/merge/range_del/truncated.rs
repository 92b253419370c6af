//! The tombstones of one memtable or file, clipped to the file's bounds.
//!
//! In: one or more sets of fragments, the file's smallest and largest internal keys, a snapshot.
//! Out: windows ([`TombstoneSource`]), and the cover of single keys. Rules for bounds:
//! `docs/format/range-del.md`.

use super::{Cover, TombstoneSource};
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};
use esker_format::key::{self, InternalKeyComparator, RANGE_END_SENTINEL};
use esker_format::range_del::FragmentedRangeTombstones;
use std::ops::Bound;

/// Largest number of adjacent covered ranges that one call joins. The caller then calls again from
/// their end.
const MAX_JOINED: usize = 32;

/// The user keys at which the tombstones of a file apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileBounds {
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// `None`: the tombstones hide nothing at `largest` itself. Otherwise they hide, at `largest`,
    /// only versions from this sequence number on.
    edge_from: Option<SequenceNumber>,
}

impl FileBounds {
    /// Takes a file's bounds from the MANIFEST (internal keys, whose type bytes may be unknown).
    pub(crate) fn new(smallest: &[u8], largest: &[u8]) -> FileBounds {
        let trailer = key::trailer(largest);
        // A largest key with sequence number s ends the tombstones just behind (u, s). One with
        // number zero ends them before itself, as in RocksDB: no hidden entry can have lost its
        // sequence number.
        let edge_from = (trailer != RANGE_END_SENTINEL).then_some(SequenceNumber((trailer >> 8).max(1)));
        FileBounds {
            smallest: key::user_key(smallest).to_vec(),
            largest: key::user_key(largest).to_vec(),
            edge_from,
        }
    }

    /// The first user key that the tombstones can hide.
    pub(crate) fn smallest(&self) -> &[u8] {
        &self.smallest
    }

    /// The user key at which the tombstones end.
    pub(crate) fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// The versions of `largest()` that the tombstones hide: none, or those from this sequence
    /// number on.
    pub(crate) fn edge_from(&self) -> Option<SequenceNumber> {
        self.edge_from
    }
}

/// The location of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before the file's bounds.
    Below,
    /// Beyond the file's bounds.
    Above,
    /// The single user key at the upper bound.
    Edge,
    /// Within the bounds, where each set has its own position.
    Inside,
}

/// One set of tombstones, and the position of the key located last
/// ([`FragmentedRangeTombstones::position`]).
#[derive(Clone, Debug)]
struct Set {
    fragments: Arc<FragmentedRangeTombstones>,
    position: usize,
}

impl Set {
    /// The newest tombstone that `snapshot` sees at the position.
    fn newest(&self, snapshot: SequenceNumber) -> SequenceNumber {
        self.covering(self.position, snapshot).map_or(SequenceNumber::ZERO, |(_, newest)| newest)
    }

    /// The fragment at `position`, and the newest sequence number over it, if `snapshot` sees one.
    fn covering(&self, position: usize, snapshot: SequenceNumber) -> Option<(usize, SequenceNumber)> {
        let i = position.checked_sub(1).filter(|&i| i < self.fragments.len())?;
        let newest = self.fragments.newest_visible(i, snapshot);
        (newest > SequenceNumber::ZERO).then_some((i, newest))
    }

    /// The end (or start) of the range around `position` that is covered without a gap.
    fn reach(&self, position: usize, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        let (i, _) = self.covering(position, snapshot)?;
        let boundary = match forward {
            true => self.fragments.covered_until(i, snapshot),
            false => self.fragments.covered_since(i, snapshot),
        };
        Some(self.fragments.boundary(boundary))
    }

    /// [`reach`](Self::reach) for a range that continues at the user key `end`, or ends there.
    fn reach_from(
        &self,
        end: &[u8],
        icmp: &InternalKeyComparator,
        snapshot: SequenceNumber,
        forward: bool,
    ) -> Option<&[u8]> {
        let position = self.fragments.position(end, icmp);
        let begins_there = |p: usize| p > 0 && icmp.same_user_key(self.fragments.boundary(p - 1), end);
        let position = if !forward && begins_there(position) { position - 1 } else { position };
        self.reach(position, snapshot, forward)
    }
}

/// The range tombstones of one memtable or file. Cheap to make: shares the fragments.
#[derive(Clone, Debug)]
pub(crate) struct RunTombstones {
    icmp: InternalKeyComparator,
    sets: Vec<Set>,
    bounds: Option<FileBounds>,
    snapshot: SequenceNumber,
    place: Place,
}

impl RunTombstones {
    /// The tombstones of a file that `snapshot` sees; without `bounds` they apply everywhere.
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        fragments: Arc<FragmentedRangeTombstones>,
        bounds: Option<FileBounds>,
        snapshot: SequenceNumber,
    ) -> RunTombstones {
        let sets = vec![Set { fragments, position: 0 }];
        RunTombstones { icmp, sets, bounds, snapshot, place: Place::Inside }
    }

    /// The tombstones of a memtable, in any number of sets, that `snapshot` sees.
    pub(crate) fn of_memtable(
        icmp: InternalKeyComparator,
        sets: Vec<Arc<FragmentedRangeTombstones>>,
        snapshot: SequenceNumber,
    ) -> RunTombstones {
        let sets = sets.into_iter().map(|fragments| Set { fragments, position: 0 }).collect();
        RunTombstones { icmp, sets, bounds: None, snapshot, place: Place::Inside }
    }

    /// The cover at `user_key`; does not move the cursor.
    #[cfg(test)]
    pub(crate) fn cover_at(&self, user_key: &[u8]) -> Cover {
        let mut there = self.clone();
        there.find(user_key);
        there.cover(user_key)
    }

    /// Moves `place` and the sets' positions to `user_key`.
    fn find(&mut self, user_key: &[u8]) {
        if let Some(bounds) = &self.bounds {
            if self.icmp.compare_user_keys(user_key, &bounds.smallest).is_lt() {
                self.place = Place::Below;
                return;
            }
            let order = self.icmp.compare_user_keys(user_key, &bounds.largest);
            if order.is_ge() {
                let is_edge = order.is_eq() && bounds.edge_from.is_some();
                self.place = if is_edge { Place::Edge } else { Place::Above };
                return;
            }
        }
        self.place = Place::Inside;
        for set in &mut self.sets {
            set.position = set.fragments.position_near(set.position, user_key, &self.icmp);
        }
    }

    /// The cover at `user_key`, whose window [`RunTombstones::find`] has found.
    fn cover(&self, user_key: &[u8]) -> Cover {
        match self.place {
            Place::Inside => {
                let newest = self.sets.iter().map(|set| set.newest(self.snapshot));
                Cover::below(newest.max().unwrap_or_default())
            }
            Place::Edge => {
                let newest = |set: &Set| set.fragments.max_covering_seq(user_key, &self.icmp, self.snapshot);
                let seq = self.sets.iter().map(newest).max().unwrap_or_default();
                let from = self.bounds.as_ref().and_then(|b| b.edge_from).unwrap_or_default();
                if seq > from {
                    Cover { below: SequenceNumber::ZERO, edge_from: from, edge_to: seq }
                } else {
                    Cover::NONE
                }
            }
            Place::Below | Place::Above => Cover::NONE,
        }
    }

    /// The window within the bounds: from the last boundary of any set up to the next one.
    fn inner_window(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let bounds = self.bounds.as_ref();
        let mut low: Option<&[u8]> = bounds.map(|b| b.smallest.as_slice());
        let mut high: Option<&[u8]> = bounds.map(|b| b.largest.as_slice());
        for Set { fragments, position } in &self.sets {
            if fragments.is_empty() {
                continue;
            }
            if let Some(before) = position.checked_sub(1).map(|i| fragments.boundary(i))
                && low.is_none_or(|low| self.icmp.compare_user_keys(low, before).is_lt())
            {
                low = Some(before);
            }
            if let Some(behind) = (*position <= fragments.len()).then(|| fragments.boundary(*position))
                && high.is_none_or(|high| self.icmp.compare_user_keys(high, behind).is_gt())
            {
                high = Some(behind);
            }
        }
        (low.map_or(Bound::Unbounded, Bound::Included), high.map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// The end, or the start, of the range around the window's key that is hidden without a gap.
    fn reach(&self, forward: bool) -> &[u8] {
        assert!(self.place == Place::Inside, "REQUIRES: a hidden window, not {:?}", self.place);
        let farther = |a: &'_ [u8], b: &'_ [u8]| {
            let order = self.icmp.compare_user_keys(a, b);
            if forward { order.is_gt() } else { order.is_lt() }
        };
        let here = self.sets.iter().filter_map(|set| set.reach(set.position, self.snapshot, forward));
        let mut farthest =
            here.reduce(|a, b| if farther(b, a) { b } else { a }).expect("REQUIRES: a hidden window");
        if self.sets.len() == 1 {
            return farthest;
        }
        // Another set may continue where this one ends.
        for _ in 0..MAX_JOINED {
            let before = farthest;
            for set in &self.sets {
                let reach = set.reach_from(farthest, &self.icmp, self.snapshot, forward);
                farthest = reach.filter(|reach| farther(reach, farthest)).unwrap_or(farthest);
            }
            if !farther(farthest, before) {
                break;
            }
        }
        farthest
    }

    /// `key` or the file's lower bound, whichever is higher.
    fn clip_low<'a>(&'a self, key: &'a [u8]) -> &'a [u8] {
        match &self.bounds {
            Some(b) if self.icmp.compare_user_keys(key, &b.smallest).is_lt() => &b.smallest,
            _ => key,
        }
    }

    /// `key` or the file's upper bound, whichever is lower.
    fn clip_high<'a>(&'a self, key: &'a [u8]) -> &'a [u8] {
        match &self.bounds {
            Some(b) if self.icmp.compare_user_keys(key, &b.largest).is_gt() => &b.largest,
            _ => key,
        }
    }
}

impl TombstoneSource for RunTombstones {
    fn locate(&mut self, user_key: &[u8]) -> Result<Cover> {
        self.find(user_key);
        Ok(self.cover(user_key))
    }

    fn window(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let bounds = self.bounds.as_ref();
        match self.place {
            Place::Below => {
                (Bound::Unbounded, bounds.map_or(Bound::Unbounded, |b| Bound::Excluded(&b.smallest)))
            }
            Place::Edge => {
                let edge = bounds.map_or(Bound::Unbounded, |b| Bound::Included(b.largest.as_slice()));
                (edge, edge)
            }
            Place::Above => {
                let low = bounds.map_or(Bound::Unbounded, |b| match b.edge_from {
                    Some(_) => Bound::Excluded(b.largest.as_slice()),
                    None => Bound::Included(b.largest.as_slice()),
                });
                (low, Bound::Unbounded)
            }
            Place::Inside => self.inner_window(),
        }
    }

    fn covered_until(&self, end: &mut Vec<u8>) {
        end.extend_from_slice(self.clip_high(self.reach(true)));
    }

    fn covered_since(&self, start: &mut Vec<u8>) {
        start.extend_from_slice(self.clip_low(self.reach(false)));
    }
}
