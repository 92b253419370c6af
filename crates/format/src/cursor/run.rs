//! Runs: entries that a cursor has decoded ahead, together, from one block. A reader that walks
//! over a run calls the cursor once for many entries.
//!
//! In: neighbouring entries of one block, in its order, with their internal keys, and the block.
//! Out: the entries that belong to the run, a place among them, and steps from one to the next that
//! touch nothing else.
//!
//! Invariants
//!  1. The run is `first..end` of the decoded entries, and `at` is one of these. It is empty if
//!     `first` and `end` are 0.
//!  2. A run that is not empty has its block in `block`, so that values stay where they are. Its
//!     entries have keys of at least 8 bytes.
//!  3. The first `count` of `entries` are decoded; the others are spare.

use esker_base::{PinnedBytes, SequenceNumber};

/// Bytes of a key behind the user key: sequence number and type.
const TRAILER_BYTES: u32 = 8;

/// Entries in the first request of a reader, which may need few entries.
const FIRST_ENTRIES: usize = 16;

/// Most entries in a request: decoded keys should stay in the processor's first cache.
const MAX_ENTRIES: usize = 64;

/// A request for the entries ahead of a cursor.
#[derive(Clone, Copy, Debug)]
pub struct DecodeAhead<'a> {
    /// The direction of the scan.
    pub forward: bool,
    /// Entries newer than this end the run.
    pub sequence: SequenceNumber,
    /// The bound: only entries whose user keys lie before it in the scan's direction are decoded.
    pub limit: Option<&'a [u8]>,
}

/// The place of an entry, and facts about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct RunEntry {
    /// Sequence number and type, packed as in the key; 0 if the key is too short.
    pub packed: u64,
    /// Offset of the entry in the block.
    pub entry: u32,
    /// Offset of its internal key in the run's keys.
    pub key: u32,
    /// Length of the key.
    pub key_len: u32,
    /// Offset of its value in the block.
    pub value: u32,
    /// Offset of the end of its value.
    pub value_end: u32,
    /// Bytes that its key shares with the key before it, which are not stored.
    pub shared: u16,
    /// Whether the bytes of its user key are known to differ from those of the entry before it.
    pub differs: bool,
}

/// Entries ahead, and a place among them.
#[derive(Debug)]
pub struct DecodedRun {
    keys: Vec<u8>,
    entries: Vec<RunEntry>,
    count: usize,
    first: usize,
    end: usize,
    at: usize,
    block: PinnedBytes,
    is_at_edge: bool,
    wanted: usize,
    /// Entries in the next request, if that is known; else 0.
    expected: usize,
    /// Backward, for the decoder: the number of restart intervals with about as many entries as are
    /// wanted.
    pub intervals: u32,
}

impl Default for DecodedRun {
    fn default() -> DecodedRun {
        DecodedRun {
            keys: Vec::new(),
            entries: Vec::new(),
            count: 0,
            first: 0,
            end: 0,
            at: 0,
            block: PinnedBytes::empty(),
            is_at_edge: false,
            wanted: FIRST_ENTRIES,
            expected: 0,
            intervals: 1,
        }
    }
}

impl DecodedRun {
    /// Whether it has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// Moves one entry on. False, with nothing changed, if there is none.
    #[inline]
    pub fn step_on(&mut self) -> bool {
        let next = self.at + 1;
        let is_there = next < self.end;
        if is_there {
            self.at = next;
        }
        is_there
    }

    /// Moves one entry back. False, with nothing changed, if there is none.
    #[inline]
    pub fn step_back(&mut self) -> bool {
        let is_there = self.at > self.first;
        if is_there {
            self.at -= 1;
        }
        is_there
    }

    /// The user key here. REQUIRES: the run is not empty.
    #[inline]
    pub fn user_key(&self) -> &[u8] {
        self.entries.get(self.at).map_or(&[], |e| self.key_bytes(e.key, e.key_len - TRAILER_BYTES))
    }

    /// The value here. REQUIRES: the run is not empty.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let place = self.entries.get(self.at);
        place.and_then(|e| self.block.get(e.value as usize..e.value_end as usize)).unwrap_or_default()
    }

    /// The value here, kept alive by its block. REQUIRES: the run is not empty.
    pub fn pinned_value(&self) -> PinnedBytes {
        match self.entries.get(self.at) {
            Some(e) => self.block.slice(e.value as usize..e.value_end as usize),
            None => PinnedBytes::empty(),
        }
    }

    #[inline]
    fn key_bytes(&self, start: u32, len: u32) -> &[u8] {
        self.keys.get(start as usize..start as usize + len as usize).unwrap_or_default()
    }

    /// Whether the run reaches to where decoding stopped: the reader is shown every entry up to
    /// there. False if the run is empty.
    #[inline]
    pub fn is_at_edge(&self) -> bool {
        self.is_at_edge && !self.is_empty()
    }

    /// Empties the run. It keeps the block until it is filled again or
    /// [`release_block`](Self::release_block) is called.
    #[inline]
    pub fn clear(&mut self) {
        (self.count, self.first, self.end, self.at) = (0, 0, 0, 0);
    }

    /// Empties the run and gives up the block.
    #[inline]
    pub fn release_block(&mut self) {
        self.clear();
        if !self.block.is_empty() {
            self.block = PinnedBytes::empty();
        }
    }

    /// Begins with small requests again: a reader starts to walk and may not go far, or it used
    /// little of what was decoded.
    #[inline]
    pub fn begin(&mut self) {
        (self.wanted, self.expected, self.intervals) = (FIRST_ENTRIES, 0, 1);
    }

    /// Sets the number of entries in the next request, if it is known.
    #[inline]
    pub fn expect(&mut self, entries: Option<usize>) {
        self.expected = entries.map_or(0, |entries| entries.min(MAX_ENTRIES));
    }

    /// Number of entries ahead of the place in this direction.
    #[inline]
    pub fn unused(&self, forward: bool) -> usize {
        if forward { self.end.saturating_sub(self.at + 1) } else { self.at - self.first }
    }

    /// Number of entries to decode next: the expected number, or few at first and twice as many
    /// each time.
    #[inline]
    pub fn wanted(&mut self) -> usize {
        if self.expected > 0 {
            return std::mem::take(&mut self.expected);
        }
        let wanted = self.wanted;
        self.wanted = (wanted * 2).min(MAX_ENTRIES);
        wanted
    }
}

/// Methods for the cursors that fill a run.
impl DecodedRun {
    /// Whether requests have grown to the limit: the reader seems to go far, and how far is
    /// unknown.
    #[inline]
    pub fn goes_far(&self) -> bool {
        self.wanted == MAX_ENTRIES
    }

    /// All entries that were decoded, in the block's order.
    #[inline]
    pub fn entries(&self) -> &[RunEntry] {
        self.entries.get(..self.count).unwrap_or_default()
    }

    /// The internal key of entry `i` of all; empty if there is none.
    #[inline]
    pub fn internal_key(&self, i: usize) -> &[u8] {
        self.entries().get(i).map_or(&[], |entry| self.key_of(entry))
    }

    /// The internal key of one of its entries.
    #[inline]
    pub fn key_of(&self, entry: &RunEntry) -> &[u8] {
        self.key_bytes(entry.key, entry.key_len)
    }

    /// Room for keys, and for `count` entries, to be decoded into. REQUIRES: it is empty.
    #[inline]
    pub fn room(&mut self, count: usize) -> (&mut Vec<u8>, &mut [RunEntry]) {
        debug_assert!(self.is_empty());
        if self.entries.len() < count {
            self.entries.resize(count, RunEntry::default());
        }
        (&mut self.keys, self.entries.get_mut(..count).unwrap_or_default())
    }

    /// Sets how many entries were decoded.
    #[inline]
    pub fn set_count(&mut self, count: usize) {
        self.count = count.min(self.entries.len());
    }

    /// Whether its values are pinned in these bytes.
    #[inline]
    pub fn is_in(&self, block: &[u8]) -> bool {
        // Pinned bytes stay where they are, so no other block can have their address.
        std::ptr::eq(self.block.as_slice(), block)
    }

    /// Sets the block that has the values of the run.
    pub fn set_block(&mut self, block: PinnedBytes) {
        self.block = block;
    }

    /// Makes the decoded entries `first..end` the run. The place is the first of them in the
    /// direction.
    #[inline]
    pub fn set_range(&mut self, first: usize, end: usize, forward: bool) {
        if first >= end || end > self.count {
            return self.clear();
        }
        (self.first, self.end) = (first, end);
        self.at = if forward { first } else { end - 1 };
        self.is_at_edge = if forward { end == self.count } else { first <= 1 };
    }

    /// The index of the place among the decoded entries.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The index of the run's first entry among the decoded entries.
    #[inline]
    pub fn first(&self) -> usize {
        self.first
    }

    /// The index behind the run's last entry among the decoded entries.
    #[inline]
    pub fn end(&self) -> usize {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::{DecodedRun, RunEntry};
    use esker_base::PinnedBytes;

    fn run(count: u32) -> DecodedRun {
        let mut run = DecodedRun::default();
        let (keys, entries) = run.room(count as usize);
        for (i, entry) in (0..).zip(entries) {
            let (key, key_len) = (9 * i, 9);
            keys.push(b'a' + u8::try_from(i).unwrap());
            keys.extend_from_slice(&[0; 8]);
            *entry = RunEntry { entry: i, key, key_len, value: i, value_end: i + 1, ..RunEntry::default() };
        }
        run.set_count(count as usize);
        run.set_block(PinnedBytes::copy_from(b"vwxyz"));
        run
    }

    #[test]
    fn steps_stay_within_the_run() {
        let mut run = run(4);
        run.set_range(1, 3, true);
        assert_eq!((run.user_key(), run.value(), run.len()), (&b"b"[..], &b"w"[..], 2));
        assert!(!run.step_back() && run.step_on() && !run.step_on());
        assert_eq!((run.user_key(), run.pinned_value().as_slice()), (&b"c"[..], &b"x"[..]));
        run.set_range(1, 3, false);
        assert_eq!(run.user_key(), b"c");
        assert!(!run.step_on() && run.step_back() && !run.step_back());
        assert_eq!(run.user_key(), b"b");
    }

    #[test]
    fn an_empty_run_has_no_steps() {
        let mut run = run(4);
        assert!(run.is_empty() && !run.step_on() && !run.step_back());
        run.set_range(2, 2, true);
        assert!(run.is_empty() && !run.step_on() && !run.step_back());
        assert_eq!(run.internal_key(7), b"");
    }

    #[test]
    fn values_outlive_the_run() {
        let mut run = run(4);
        run.set_range(0, 4, true);
        let value = run.pinned_value();
        run.release_block();
        assert_eq!(value, b"v");
        assert!(!run.is_in(&value));
    }
}
