//! A simple database to compare with. It keeps every write, and computes the answer of each read
//! from them.
//!
//! In: writes, in order; each gets a sequence number. Out: the right answers of point reads and
//! scans at any sequence number. Range deletions and merges are simple and slow here, because they
//! are hard to get right. Other operations are fast enough for millions of them.
//!
//! The test gives the order of keys as a function, so the model also serves families with other
//! comparators.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The effect of a write on one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Stored a value.
    Put(Vec<u8>),
    /// Deleted the key. Single deletions count as deletions.
    Delete,
    /// Stored a merge operand.
    Merge(Vec<u8>),
}

/// A merge operator: returns the new value of a key, given its old value (if any) and the operands,
/// oldest first. `None` if the operator fails.
pub type MergeFn = fn(&[u8], Option<&[u8]>, &[&[u8]]) -> Option<Vec<u8>>;
/// The order of keys.
pub type CompareFn = fn(&[u8], &[u8]) -> Ordering;

/// A key and its value, as an iterator shows them. `MergeFailed` takes the place of the value if
/// the merge failed.
pub type Pair<'a> = (&'a [u8], Result<Vec<u8>, MergeFailed>);

/// One family of a database, with its whole history.
#[derive(Clone, Debug)]
pub struct Model {
    /// The changes of each key, oldest first. `Key` gives the map the family's order.
    points: BTreeMap<Key, Vec<(u64, Change)>>,
    /// Range deletions as (sequence number, begin, end), oldest first.
    range_deletions: Vec<(u64, Vec<u8>, Vec<u8>)>,
    compare: CompareFn,
    merge: MergeFn,
    /// The newest sequence number.
    sequence: u64,
    /// Reads below this sequence number panic: the model may have forgotten their history.
    forgotten_below: u64,
}

#[derive(Clone, Debug)]
struct Key {
    bytes: Vec<u8>,
    compare: CompareFn,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Key {}
impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        (self.compare)(&self.bytes, &other.bytes)
    }
}

/// Joins operands with commas, as RocksDB's `stringappend` does.
pub fn string_append(_key: &[u8], existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = existing.into_iter().chain(operands.iter().copied()).collect();
    Some(parts.join(&b','))
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// An empty model with keys in bytewise order, which merges by [`string_append`].
    pub fn new() -> Model {
        Model::with(|a, b| a.cmp(b), string_append)
    }

    /// An empty model with this order of keys and this merge operator.
    pub fn with(compare: CompareFn, merge: MergeFn) -> Model {
        let (points, range_deletions) = (BTreeMap::new(), Vec::new());
        Model { points, range_deletions, compare, merge, sequence: 0, forgotten_below: 0 }
    }

    fn key(&self, bytes: &[u8]) -> Key {
        Key { bytes: bytes.to_vec(), compare: self.compare }
    }

    /// The newest sequence number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Raises the newest sequence number to `sequence`. Called after a write to another family of
    /// the database.
    pub fn advance_to(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    fn change(&mut self, key: &[u8], change: Change) -> u64 {
        self.sequence += 1;
        let key = self.key(key);
        self.points.entry(key).or_default().push((self.sequence, change));
        self.sequence
    }

    /// Stores a value. All writes return their sequence number.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> u64 {
        self.change(key, Change::Put(value.to_vec()))
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) -> u64 {
        self.change(key, Change::Delete)
    }

    /// Stores a merge operand.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> u64 {
        self.change(key, Change::Merge(operand.to_vec()))
    }

    /// Deletes the keys of `begin..end`. An empty or inverted range deletes nothing, but takes a
    /// sequence number.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> u64 {
        self.sequence += 1;
        if (self.compare)(begin, end) == Ordering::Less {
            self.range_deletions.push((self.sequence, begin.to_vec(), end.to_vec()));
        }
        self.sequence
    }

    /// The sequence number of the newest range deletion at or below `sequence` that covers `key`. 0
    /// if there is none.
    fn covering_sequence(&self, key: &[u8], sequence: u64) -> u64 {
        let covers = |begin: &[u8], end: &[u8]| {
            (self.compare)(begin, key) != Ordering::Greater && (self.compare)(key, end) == Ordering::Less
        };
        let newest_first = self.range_deletions.iter().rev();
        newest_first
            .filter(|(s, begin, end)| *s <= sequence && covers(begin, end))
            .map(|(s, _, _)| *s)
            .next()
            .unwrap_or(0)
    }

    /// The value that a read of `key` at `sequence` sees. `Err` if the merge operator fails.
    pub fn get_at(&self, key: &[u8], sequence: u64) -> Result<Option<Vec<u8>>, MergeFailed> {
        self.check_remembered(sequence);
        match self.points.get(&self.key(key)) {
            Some(changes) => self.value_of(key, changes, sequence),
            None => Ok(None),
        }
    }

    /// The value that a read of `key` sees now.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, MergeFailed> {
        self.get_at(key, self.sequence)
    }

    fn check_remembered(&self, sequence: u64) {
        assert!(sequence >= self.forgotten_below, "history below {} was forgotten", self.forgotten_below);
    }

    fn value_of(
        &self,
        key: &[u8],
        changes: &[(u64, Change)],
        sequence: u64,
    ) -> Result<Option<Vec<u8>>, MergeFailed> {
        let floor = if self.range_deletions.is_empty() { 0 } else { self.covering_sequence(key, sequence) };
        let mut operands: Vec<&[u8]> = Vec::new();
        let mut base = None;
        for (s, change) in changes.iter().rev().filter(|(s, _)| *s <= sequence) {
            if *s <= floor {
                break;
            }
            match change {
                Change::Put(value) => {
                    base = Some(value.as_slice());
                    break;
                }
                Change::Delete => break,
                Change::Merge(operand) => operands.push(operand),
            }
        }
        if operands.is_empty() {
            return Ok(base.map(<[u8]>::to_vec));
        }
        operands.reverse();
        (self.merge)(key, base, &operands).map(Some).ok_or(MergeFailed)
    }

    /// The pairs that an iterator at `sequence` shows, in order, from `lower` (inclusive) to
    /// `upper` (exclusive). A pair whose merge fails has `MergeFailed` as its value. An iterator of
    /// a database stops at this pair, but this one goes on.
    pub fn scan_at<'a>(
        &'a self,
        sequence: u64,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = Pair<'a>> + 'a {
        self.check_remembered(sequence);
        let low = lower.map_or(Bound::Unbounded, |k| Bound::Included(self.key(k)));
        let mut high = upper.map_or(Bound::Unbounded, |k| Bound::Excluded(self.key(k)));
        // An inverted range is empty. The map would panic.
        if let (Bound::Included(l), Bound::Excluded(h)) = (&low, &high)
            && l >= h
        {
            high = Bound::Excluded(l.clone());
        }
        self.points.range((low, high)).filter_map(move |(key, changes)| {
            match self.value_of(&key.bytes, changes, sequence) {
                Ok(None) => None,
                Ok(Some(value)) => Some((key.bytes.as_slice(), Ok(value))),
                Err(failed) => Some((key.bytes.as_slice(), Err(failed))),
            }
        })
    }

    /// The first pair at or behind `key` that a read at `sequence` sees.
    pub fn seek_at(&self, key: &[u8], sequence: u64) -> Option<Pair<'_>> {
        self.scan_at(sequence, Some(key), None).next()
    }

    /// The last pair at or before `key` that a read at `sequence` sees.
    pub fn seek_for_prev_at(&self, key: &[u8], sequence: u64) -> Option<Pair<'_>> {
        self.check_remembered(sequence);
        let range = self.points.range(..=self.key(key)).rev();
        range
            .filter_map(|(key, changes)| match self.value_of(&key.bytes, changes, sequence) {
                Ok(None) => None,
                Ok(Some(value)) => Some((key.bytes.as_slice(), Ok(value))),
                Err(failed) => Some((key.bytes.as_slice(), Err(failed))),
            })
            .next()
    }

    /// All pairs that a read sees now, without those whose merge fails.
    pub fn contents(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = self.scan_at(self.sequence, None, None);
        pairs.filter_map(|(key, value)| value.ok().map(|v| (key.to_vec(), v))).collect()
    }

    /// Number of keys in the model, deleted ones included.
    pub fn key_count(&self) -> usize {
        self.points.len()
    }

    /// Forgets changes that no read at `oldest` or later can see, so that long runs stay fast.
    /// Reads below `oldest` panic from then on.
    pub fn forget_below(&mut self, oldest: u64) {
        self.forgotten_below = self.forgotten_below.max(oldest);
        let view = self.clone_deletions();
        let floor_of = |key: &[u8]| view.covering_sequence(key, oldest);
        self.points.retain(|key, changes| {
            let floor = floor_of(&key.bytes);
            changes.retain(|(s, _)| *s > floor);
            // Take the newest change at or below `oldest` that is not a merge. It hides all changes
            // before it.
            let hides = |(s, change): &(u64, Change)| *s <= oldest && !matches!(change, Change::Merge(_));
            if let Some(index) = changes.iter().rposition(hides) {
                let from = if changes[index].1 == Change::Delete { index + 1 } else { index };
                changes.drain(..from);
            }
            !changes.is_empty()
        });
        self.range_deletions.retain(|(s, _, _)| *s > oldest);
    }

    fn clone_deletions(&self) -> Model {
        let mut view = Model::with(self.compare, self.merge);
        view.range_deletions.clone_from(&self.range_deletions);
        view
    }
}

/// The merge operator returned no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeFailed;

#[cfg(test)]
mod tests;
