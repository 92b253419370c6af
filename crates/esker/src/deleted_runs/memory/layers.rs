//! Ranges of user keys in layers: sorted, disjoint within a layer, newest on top.
//!
//! In: ranges. Out: the range around a key that takes a reader farthest. Copies of a layer share
//! its chunks. So a copy with one more range costs one chunk and the list of chunks.
//!
//! Invariants
//!  1. The ranges of a layer, chunk by chunk, are sorted and disjoint. No chunk is empty.
//!  2. A range states no more than the inserted ranges did: parts of them are joined only at one
//!     sequence number.

use esker_base::sync::Arc;
use esker_base::{FileNumber, SequenceNumber};
use esker_format::key::InternalKeyComparator;
use std::ops::Range;

/// Number of layers: one for the newest ranges, the others for readers at older sequence numbers.
const LAYERS: usize = 3;
/// Most ranges of a chunk. A full chunk is cut in half.
const CHUNK: usize = 48;
/// Of ranges that replace one another, the first and then each one of this number moves to the
/// second layer when it is replaced, and one of its square to the third. A move costs about as much
/// as a new range. A reader at an older sequence number steps over what joined the range in the
/// meantime.
const KEEP_EACH: u32 = 8;
/// Bytes of a range beside its keys: the value with its reference counts, and its slot in a chunk.
const OVERHEAD: usize = size_of::<RememberedRun>() + 3 * size_of::<usize>();

/// States that no key in `[start, end)` is visible at `sequence`.
#[derive(Debug)]
pub(super) struct RememberedRun {
    start: Box<[u8]>,
    end: Box<[u8]>,
    pub(super) sequence: SequenceNumber,
    pub(super) base_sequence: SequenceNumber,
    pub(super) newest_file: FileNumber,
    /// Number of ranges before this one, each of which replaced the one before it.
    generation: u32,
}

impl RememberedRun {
    /// A range for readers at `sequence` that read the database at `base_sequence`. REQUIRES:
    /// `start` is before `end`.
    pub(super) fn new(
        start: &[u8],
        end: &[u8],
        (sequence, base_sequence): (SequenceNumber, SequenceNumber),
        newest_file: FileNumber,
    ) -> RememberedRun {
        RememberedRun {
            start: start.into(),
            end: end.into(),
            sequence,
            base_sequence,
            newest_file,
            generation: 0,
        }
    }

    /// Orders ranges by the time of their scans.
    fn found_at(&self) -> (SequenceNumber, SequenceNumber) {
        (self.sequence, self.base_sequence)
    }

    /// The end at which a scan leaves the range.
    pub(super) fn run_end(&self, forward: bool) -> &[u8] {
        if forward { &self.end } else { &self.start }
    }

    fn bytes(&self) -> usize {
        OVERHEAD + self.start.len() + self.end.len()
    }
}

type Chunk = Arc<Vec<Arc<RememberedRun>>>;

/// One layer. A range's position is a pair: chunk, and index in the chunk.
#[derive(Clone, Debug, Default)]
struct Layer(Vec<Chunk>);

impl Layer {
    /// Number of chunks that end at or before `user_key`, and of ranges in the next chunk that do.
    fn ended_by(&self, icmp: &InternalKeyComparator, user_key: &[u8]) -> (usize, usize) {
        let ended = |range: &Arc<RememberedRun>| icmp.compare_user_keys(&range.end, user_key).is_le();
        let chunk = self.0.partition_point(|chunk| chunk.last().is_some_and(ended));
        (chunk, self.0.get(chunk).map_or(0, |chunk| chunk.partition_point(ended)))
    }

    fn at(&self, (chunk, place): (usize, usize)) -> Option<&Arc<RememberedRun>> {
        self.0.get(chunk)?.get(place)
    }

    /// The range around `user_key`.
    fn find(&self, icmp: &InternalKeyComparator, user_key: &[u8]) -> Option<&Arc<RememberedRun>> {
        let range = self.at(self.ended_by(icmp, user_key))?;
        icmp.compare_user_keys(&range.start, user_key).is_le().then_some(range)
    }

    /// Whether a range overlaps `range`.
    fn overlaps(&self, icmp: &InternalKeyComparator, range: &RememberedRun) -> bool {
        let behind = self.at(self.ended_by(icmp, &range.start));
        behind.is_some_and(|other| icmp.compare_user_keys(&other.start, &range.end).is_lt())
    }

    /// The ranges that overlap `range`.
    fn overlapping(&self, icmp: &InternalKeyComparator, range: &RememberedRun) -> Vec<Arc<RememberedRun>> {
        let (chunk, place) = self.ended_by(icmp, &range.start);
        let behind = self.0.iter().skip(chunk).flat_map(|chunk| chunk.iter()).skip(place);
        behind.take_while(|other| icmp.compare_user_keys(&other.start, &range.end).is_lt()).cloned().collect()
    }

    /// Replaces the ranges that overlap `range` by it.
    fn replace(&mut self, icmp: &InternalKeyComparator, range: Arc<RememberedRun>) {
        let (chunk, place) = self.ended_by(icmp, &range.start);
        let Some(first) = self.0.get(chunk) else {
            match self.0.last_mut() {
                Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(range),
                _ => self.0.push(Arc::new(vec![range])),
            }
            return;
        };
        let starts_before_end =
            |other: &Arc<RememberedRun>| icmp.compare_user_keys(&other.start, &range.end).is_lt();
        // The ranges that stay in the touched chunks share a chunk with the new range.
        let mut joined = first[..place].to_vec();
        let gone = self.0[chunk..].partition_point(|chunk| chunk.first().is_some_and(starts_before_end));
        let touched = chunk..chunk + gone.max(1);
        let last = &self.0[touched.end - 1];
        let behind = last[last.partition_point(starts_before_end)..].to_vec();
        joined.push(range);
        joined.extend(behind);
        self.splice(touched, joined);
    }

    fn splice(&mut self, chunks: Range<usize>, ranges: Vec<Arc<RememberedRun>>) {
        if ranges.len() <= CHUNK {
            self.0.splice(chunks, [Arc::new(ranges)]);
        } else {
            let (left, right) = ranges.split_at(ranges.len() / 2);
            self.0.splice(chunks, [left, right].map(|half| Arc::new(half.to_vec())));
        }
    }
}

/// All layers of ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct RunLayers {
    layers: [Layer; LAYERS],
    bytes: usize,
    /// The random state that chooses the next chunk to drop.
    dice: u32,
}

impl RunLayers {
    /// Bytes of memory that the ranges take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.layers.iter().flat_map(|layer| &layer.0).map(|chunk| chunk.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn bytes_counted(&self) -> usize {
        let ranges = self.layers.iter().flat_map(|layer| &layer.0).flat_map(|chunk| chunk.iter());
        ranges.map(|range| range.bytes()).sum()
    }

    /// The range around `user_key` that takes a reader at `snapshot` farthest. Of equal ranges, the
    /// newest one, because it covers more files.
    pub(super) fn find(
        &self,
        icmp: &InternalKeyComparator,
        user_key: &[u8],
        snapshot: SequenceNumber,
        forward: bool,
    ) -> Option<&RememberedRun> {
        let mut best: Option<&RememberedRun> = None;
        for layer in &self.layers {
            let Some(range) = layer.find(icmp, user_key).filter(|range| range.sequence <= snapshot) else {
                continue;
            };
            let is_better = best.is_none_or(|best| {
                let order = icmp.compare_user_keys(range.run_end(forward), best.run_end(forward));
                let order = if forward { order } else { order.reverse() };
                order.then(range.found_at().cmp(&best.found_at())).is_gt()
            });
            if is_better {
                best = Some(range);
            }
        }
        best
    }

    /// Inserts a range.
    pub(super) fn insert(&mut self, icmp: &InternalKeyComparator, mut range: RememberedRun) {
        let replaced = self.layers[0].overlapping(icmp, &range);
        let next_of = |other: &Arc<RememberedRun>| {
            other.generation.wrapping_add(u32::from(other.found_at() < range.found_at()))
        };
        range.generation = replaced.iter().map(next_of).max().unwrap_or(0);
        self.insert_at(icmp, 0, Arc::new(range));
    }

    fn insert_at(&mut self, icmp: &InternalKeyComparator, at: usize, mut range: Arc<RememberedRun>) {
        let Some(layer) = self.layers.get(at) else { return };
        let overlapped = layer.overlapping(icmp, &range);
        if overlapped.iter().any(|other| other.found_at() > range.found_at()) {
            return self.insert_at(icmp, at + 1, range);
        }
        let found_at = range.found_at();
        for same in overlapped.iter().filter(|other| other.found_at() == found_at) {
            range = Arc::new(union(icmp, &range, same));
        }
        self.bytes += range.bytes();
        self.bytes -= overlapped.iter().map(|other| other.bytes()).sum::<usize>();
        self.layers[at].replace(icmp, range);
        for older in overlapped.into_iter().filter(|other| other.found_at() < found_at) {
            let is_kept = older.generation % KEEP_EACH.pow(at as u32 + 1) == 0;
            let below = self.layers.get(at + 1);
            if is_kept || below.is_some_and(|layer| !layer.overlaps(icmp, &older)) {
                self.insert_at(icmp, at + 1, older);
            }
        }
    }

    /// Drops ranges until the others take at most this many bytes.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes {
            self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let Some(layer) = self.layers.iter_mut().rfind(|layer| !layer.0.is_empty()) else { return };
            let gone = layer.0.remove((self.dice >> 8) as usize % layer.0.len());
            self.bytes -= gone.iter().map(|range| range.bytes()).sum::<usize>();
        }
    }
}

/// Joins two overlapping ranges whose scans read at the same sequence numbers.
fn union(icmp: &InternalKeyComparator, a: &RememberedRun, b: &RememberedRun) -> RememberedRun {
    let start = if icmp.compare_user_keys(&a.start, &b.start).is_le() { &a.start } else { &b.start };
    let end = if icmp.compare_user_keys(&a.end, &b.end).is_ge() { &a.end } else { &b.end };
    // Both scans saw the files up to the smaller number.
    let newest_file = a.newest_file.min(b.newest_file);
    let generation = a.generation.max(b.generation);
    RememberedRun { generation, ..RememberedRun::new(start, end, a.found_at(), newest_file) }
}
