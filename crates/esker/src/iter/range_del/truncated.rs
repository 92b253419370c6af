//! The tombstones of one memtable or file, cut to the file's bounds.
//!
//! In: fragments, the file's smallest and largest internal keys, a snapshot. Out: windows ([`TombstoneSource`]), and the
//! cover of single keys.   Source of the rules for bounds: formats.md §7.9.

use super::aggregator::seek_near;
use super::{Cover, TombstoneSource};
use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};
use esker_format::key::{self, InternalKeyComparator, RANGE_END_SENTINEL};
use esker_format::range_del::FragmentedRangeTombstones;
use std::ops::Bound;

/// Where the tombstones of a file act, in user keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileBounds {
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// `None`: nothing at `largest` itself. Else: there, only versions from this sequence number on.
    edge_from: Option<SequenceNumber>,
}

impl FileBounds {
    /// From a file's bounds as the MANIFEST has them (internal keys; the type bytes may be unknown ones).
    pub fn new(smallest: &[u8], largest: &[u8]) -> FileBounds {
        let trailer = key::trailer(largest);
        // A largest key of sequence s ends the tombstones just behind (u, s). One of sequence zero ends them before
        // itself, as in RocksDB: nothing that is hidden can have lost its sequence number.
        let edge_from = (trailer != RANGE_END_SENTINEL).then_some(SequenceNumber((trailer >> 8).max(1)));
        FileBounds {
            smallest: key::user_key(smallest).to_vec(),
            largest: key::user_key(largest).to_vec(),
            edge_from,
        }
    }

    /// The first user key that the tombstones can hide.
    pub fn smallest(&self) -> &[u8] {
        &self.smallest
    }

    /// The user key at which they end.
    pub fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// Which versions of `largest()` they hide: none, or those from this sequence number on.
    pub fn edge_from(&self) -> Option<SequenceNumber> {
        self.edge_from
    }
}

/// Where a window lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Before the file's bounds.
    Below,
    /// Beyond them.
    Above,
    /// The single user key at the upper bound.
    Edge,
    /// Before fragment i and behind fragment i - 1.
    Gap(usize),
    /// Fragment i.
    In(usize),
}

/// The range tombstones of one memtable or file. Cheap to make: shares the fragments.
#[derive(Clone, Debug)]
pub struct RunTombstones {
    icmp: InternalKeyComparator,
    fragments: Arc<FragmentedRangeTombstones>,
    bounds: Option<FileBounds>,
    snapshot: SequenceNumber,
    place: Place,
}

impl RunTombstones {
    /// Those that `snapshot` sees; `bounds` of the file, `None` for a memtable.
    pub fn new(
        icmp: InternalKeyComparator,
        fragments: Arc<FragmentedRangeTombstones>,
        bounds: Option<FileBounds>,
        snapshot: SequenceNumber,
    ) -> RunTombstones {
        RunTombstones { icmp, fragments, bounds, snapshot, place: Place::Gap(0) }
    }

    /// What is hidden at `user_key`. For single reads; does not move the cursor.
    pub fn cover_at(&self, user_key: &[u8]) -> Cover {
        self.cover_of(self.find(user_key), user_key)
    }

    fn visible(&self, fragment: usize) -> SequenceNumber {
        self.fragments.fragment(fragment).newest_visible(self.snapshot)
    }

    fn find(&self, user_key: &[u8]) -> Place {
        if let Some(bounds) = &self.bounds {
            if self.icmp.compare_user_keys(user_key, &bounds.smallest).is_lt() {
                return Place::Below;
            }
            let order = self.icmp.compare_user_keys(user_key, &bounds.largest);
            if order.is_ge() {
                return if order.is_eq() && bounds.edge_from.is_some() { Place::Edge } else { Place::Above };
            }
        }
        let i = self.seek_near(user_key);
        if i < self.fragments.len()
            && self.icmp.compare_user_keys(self.fragments.fragment(i).start, user_key).is_le()
        {
            Place::In(i)
        } else {
            Place::Gap(i)
        }
    }

    /// The first fragment that ends behind `user_key`; scans mostly find it beside the last one.
    fn seek_near(&self, user_key: &[u8]) -> usize {
        match self.place {
            Place::Gap(i) | Place::In(i) => seek_near(&self.icmp, &self.fragments, i, user_key),
            _ => self.fragments.seek(user_key, &self.icmp),
        }
    }

    fn cover_of(&self, place: Place, user_key: &[u8]) -> Cover {
        match place {
            Place::In(i) => Cover::below(self.visible(i)),
            Place::Edge => {
                let seq = self.fragments.max_covering_seq(user_key, &self.icmp, self.snapshot);
                let from = self.bounds.as_ref().and_then(|b| b.edge_from).unwrap_or_default();
                if seq > from {
                    Cover { below: SequenceNumber::ZERO, edge_from: from, edge_to: seq }
                } else {
                    Cover::NONE
                }
            }
            Place::Below | Place::Above | Place::Gap(_) => Cover::NONE,
        }
    }

    fn lower_bound(&self) -> Bound<&[u8]> {
        self.bounds.as_ref().map_or(Bound::Unbounded, |b| Bound::Included(&b.smallest))
    }

    fn upper_bound(&self) -> Bound<&[u8]> {
        self.bounds.as_ref().map_or(Bound::Unbounded, |b| Bound::Excluded(&b.largest))
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

    fn current(&self) -> usize {
        match self.place {
            Place::In(i) => i,
            place => unreachable!("REQUIRES: a hidden window, not {place:?}"),
        }
    }
}

impl TombstoneSource for RunTombstones {
    fn locate(&mut self, user_key: &[u8]) -> Result<Cover> {
        self.place = self.find(user_key);
        Ok(self.cover_of(self.place, user_key))
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
            Place::In(i) => {
                let fragment = self.fragments.fragment(i);
                (
                    Bound::Included(self.clip_low(fragment.start)),
                    Bound::Excluded(self.clip_high(fragment.end)),
                )
            }
            Place::Gap(i) => {
                let low = i.checked_sub(1).map_or(self.lower_bound(), |before| {
                    Bound::Included(self.clip_low(self.fragments.fragment(before).end))
                });
                let high = if i < self.fragments.len() {
                    Bound::Excluded(self.clip_high(self.fragments.fragment(i).start))
                } else {
                    self.upper_bound()
                };
                (low, high)
            }
        }
    }

    fn covered_until(&self, end: &mut Vec<u8>) {
        let mut last = self.fragments.fragment(self.current());
        for i in self.current() + 1..self.fragments.len() {
            let next = self.fragments.fragment(i);
            if next.start != last.end || self.visible(i) == SequenceNumber::ZERO {
                break;
            }
            last = next;
        }
        end.extend_from_slice(self.clip_high(last.end));
    }

    fn covered_since(&self, start: &mut Vec<u8>) {
        let mut first = self.fragments.fragment(self.current());
        for i in (0..self.current()).rev() {
            let before = self.fragments.fragment(i);
            if before.end != first.start || self.visible(i) == SequenceNumber::ZERO {
                break;
            }
            first = before;
        }
        start.extend_from_slice(self.clip_low(first.start));
    }
}
