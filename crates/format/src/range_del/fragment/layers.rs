//! Overlapping tombstones, as older snapshots see them.
//!
//! In: tombstones as pairs of boundaries. Out: for a fragment and a snapshot, the newest tombstone
//! that the snapshot sees; and the next fragment in either direction without one.
//!
//! [`FragmentLayers`] is a segment tree over the fragments. Each tombstone is listed at the nodes
//! that make up its range, at most 2 log n. So the nodes above a fragment list all tombstones over
//! it. [`Summary`] holds maxima of 16, 256, … fragments.
//!
//! Invariants
//!  1. `stored` is sorted newest first; a list holds places in `stored`, ascending.
#![expect(clippy::indexing_slicing, reason = "indices come from this file's own tables")]

use esker_base::SequenceNumber;

/// A tombstone over the fragments from boundary `start` to boundary `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) seq: SequenceNumber,
}

/// All tombstones, by fragment and age.
#[derive(Clone, Debug)]
pub(super) struct FragmentLayers {
    stored: Vec<Stored>,
    /// The oldest sequence number above zero over each fragment; zero if there is none.
    oldest: Vec<SequenceNumber>,
    /// Node i's list is `lists[list_ends[i - 1]..list_ends[i]]`. The root is node 1, the leaf of
    /// fragment f is node f + the number of fragments, and the node above node i is node i / 2.
    list_ends: Vec<u32>,
    lists: Vec<u32>,
}

impl FragmentLayers {
    pub(super) fn new(
        mut stored: Vec<Stored>,
        oldest: Vec<SequenceNumber>,
        fragments: usize,
    ) -> FragmentLayers {
        stored.sort_unstable_by_key(|stored| std::cmp::Reverse(stored.seq));
        let mut list_ends = vec![0u32; 2 * fragments];
        for tombstone in &stored {
            for_each_node(tombstone, fragments, |node| list_ends[node] += 1);
        }
        let mut end = 0u32;
        for list_end in &mut list_ends {
            end = end.checked_add(*list_end).expect("lists of fewer than 2^32 entries fit in memory");
            *list_end = end;
        }
        let mut lists = vec![0; end as usize];
        // This loop fills each list from its end, and so moves `list_ends[node]` to the list's
        // start. The list then ends where the next node's list starts.
        for (place, tombstone) in stored.iter().enumerate().rev() {
            let place = u32::try_from(place).expect("fewer than 2^31 tombstones");
            for_each_node(tombstone, fragments, |node| {
                list_ends[node] -= 1;
                lists[list_ends[node] as usize] = place;
            });
        }
        list_ends.remove(0);
        list_ends.push(end);
        FragmentLayers { stored, oldest, list_ends, lists }
    }

    /// All tombstones, newest first.
    pub(super) fn stored(&self) -> &[Stored] {
        &self.stored
    }

    #[inline]
    pub(super) fn oldest(&self, fragment: usize) -> SequenceNumber {
        self.oldest[fragment]
    }

    /// The newest sequence number over this fragment that `snapshot` may see, or zero.
    pub(super) fn newest_visible(&self, fragment: usize, snapshot: SequenceNumber) -> SequenceNumber {
        if self.oldest[fragment] > snapshot {
            return SequenceNumber::ZERO;
        }
        let seen = self.stored.partition_point(|stored| stored.seq > snapshot);
        let mut newest = self.stored.len();
        let mut node = fragment + self.list_ends.len() / 2;
        while node > 0 {
            let list = &self.lists[self.list_ends[node - 1] as usize..self.list_ends[node] as usize];
            let at = list.partition_point(|&place| (place as usize) < seen);
            newest = list.get(at).map_or(newest, |&place| newest.min(place as usize));
            node /= 2;
        }
        self.stored.get(newest).map_or(SequenceNumber::ZERO, |stored| stored.seq)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>()
            + self.stored.capacity() * size_of::<Stored>()
            + self.oldest.capacity() * size_of::<SequenceNumber>()
            + (self.list_ends.capacity() + self.lists.capacity()) * size_of::<u32>()
    }
}

/// Shows `each` the nodes that a tombstone's range consists of.
fn for_each_node(tombstone: &Stored, fragments: usize, mut each: impl FnMut(usize)) {
    let (mut low, mut high) = (tombstone.start as usize + fragments, tombstone.end as usize + fragments);
    while low < high {
        if low % 2 == 1 {
            each(low);
            low += 1;
        }
        if high % 2 == 1 {
            high -= 1;
            each(high);
        }
        (low, high) = (low / 2, high / 2);
    }
}

/// Number of values that one value of the next level stands for.
const WIDTH: usize = 16;

/// Maxima of a list, in levels: each value is the largest of `WIDTH` values of the level below.
/// Level 0 is the list itself, which lies elsewhere.
#[derive(Clone, Default, Debug)]
pub(super) struct Summary {
    /// Number of values in the list.
    len: usize,
    levels: Vec<Vec<SequenceNumber>>,
}

impl Summary {
    pub(super) fn new(len: usize, value: impl Fn(usize) -> SequenceNumber) -> Summary {
        let mut summary = Summary { len, levels: Vec::new() };
        let mut below = len;
        while below > WIDTH {
            let level = summary.levels.len();
            let largest = |i: usize| {
                let values = WIDTH * i..(WIDTH * (i + 1)).min(below);
                values.map(|i| summary.at(level, i, &value)).max().unwrap_or_default()
            };
            let values: Vec<_> = (0..below.div_ceil(WIDTH)).map(largest).collect();
            below = values.len();
            summary.levels.push(values);
        }
        summary
    }

    #[inline]
    fn at(&self, level: usize, i: usize, value: &impl Fn(usize) -> SequenceNumber) -> SequenceNumber {
        if level == 0 { value(i) } else { self.levels[level - 1][i] }
    }

    fn len_at(&self, level: usize) -> usize {
        if level == 0 { self.len } else { self.levels[level - 1].len() }
    }

    /// The first place from `from` on whose value is above `limit`.
    pub(super) fn first_above(
        &self,
        from: usize,
        limit: SequenceNumber,
        value: &impl Fn(usize) -> SequenceNumber,
    ) -> Option<usize> {
        let (mut level, mut i) = (0, from);
        while i < self.len_at(level) && self.at(level, i, value) <= limit {
            i += 1;
            while i.is_multiple_of(WIDTH) && level < self.levels.len() {
                (level, i) = (level + 1, i / WIDTH);
            }
        }
        if i >= self.len_at(level) {
            return None;
        }
        while level > 0 {
            (level, i) = (level - 1, i * WIDTH);
            while self.at(level, i, value) <= limit {
                i += 1;
            }
        }
        Some(i)
    }

    /// The last place before `to` whose value is above `limit`.
    pub(super) fn last_above(
        &self,
        to: usize,
        limit: SequenceNumber,
        value: &impl Fn(usize) -> SequenceNumber,
    ) -> Option<usize> {
        let (mut level, mut end) = (0, to);
        while end > 0 && self.at(level, end - 1, value) <= limit {
            end -= 1;
            while end.is_multiple_of(WIDTH) && level < self.levels.len() {
                (level, end) = (level + 1, end / WIDTH);
            }
        }
        let mut i = end.checked_sub(1)?;
        while level > 0 {
            level -= 1;
            i = (i * WIDTH + WIDTH - 1).min(self.len_at(level) - 1);
            while self.at(level, i, value) <= limit {
                i -= 1;
            }
        }
        Some(i)
    }

    pub(super) fn memory(&self) -> usize {
        self.levels.iter().map(|level| level.capacity() * size_of::<SequenceNumber>()).sum()
    }
}
