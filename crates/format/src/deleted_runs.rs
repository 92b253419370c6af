//! Deleted runs: where a table has nothing but deleted keys.
//!
//! In: a table's point entries in order. Out: for a user key, the stretch of deleted keys around
//! it, so that a cursor seeks behind it instead of stepping through it. Esker's own meta block;
//! RocksDB ignores blocks of this name. Bytes: `docs/format/deleted-runs.md`.
//!
//!   key = first user key | (sequence << 8 | 0x00) u64        value = last user key  disjoint
//!
//! Invariants
//!  1. For each user key of the table within a span, both ends included, the newest entry is a
//!     point deletion of at most the span's sequence number. So a reader at that number or later
//!     finds none of these keys in this table. Their entries here hide only entries of the same
//!     keys in older sorted runs.
//!  2. A span says nothing of keys in between that the table does not have.
//!  3. Spans are sorted and disjoint.

use crate::block::{Block, BlockBuilder, BlockCursor};
use crate::key::{self, InternalKeyComparator, ParsedInternalKey};
use esker_base::{Error, Result, SequenceNumber, ValueType};

/// The block's name in the meta index. RocksDB skips unknown names when it opens a table. Builds of
/// 7.8 with assertions stop at names of unknown kind when they verify checksums; `filter.*`, a kind
/// that RocksDB has given up, is skipped there too.
pub const NAME: &str = "filter.esker.dead_spans";

/// Collects the spans of one table.
#[derive(Debug)]
pub struct DeletedRunBuilder {
    block: BlockBuilder,
    min_entries: u64,
    first: Vec<u8>,
    last: Vec<u8>,
    /// Entries of the run so far; 0: the last key is not deleted.
    entries: u64,
    sequence: SequenceNumber,
    /// Spans of at least this many entries are reported; 0: none.
    long_entries: u64,
    long: Vec<LongDeletedRun>,
}

/// A span of many entries, reported to the writer of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongDeletedRun {
    /// Its first user key.
    pub first: Vec<u8>,
    /// Its last user key.
    pub last: Vec<u8>,
    /// Number of the table's entries in the span.
    pub entries: u64,
}

impl DeletedRunBuilder {
    /// Records runs of at least `min_entries` entries; 0: none.
    pub fn new(min_entries: u64) -> DeletedRunBuilder {
        DeletedRunBuilder {
            block: BlockBuilder::new(16),
            min_entries,
            first: Vec::new(),
            last: Vec::new(),
            entries: 0,
            sequence: SequenceNumber::ZERO,
            long_entries: 0,
            long: Vec::new(),
        }
    }

    /// Also reports the spans of at least this many entries; 0: none.
    #[must_use]
    pub fn reporting_runs_of(mut self, long_entries: u64) -> DeletedRunBuilder {
        self.long_entries = long_entries;
        self
    }

    /// Whether an entry of this type can change anything: nothing but deletions need be added while
    /// there is no run.
    #[inline]
    pub fn is_relevant(&self, value_type: ValueType) -> bool {
        self.entries > 0 || value_type.is_point_deletion() && self.min_entries > 0
    }

    /// Adds the next entry. `is_older_version`: its user key is the last entry's, byte for byte.
    pub fn add(
        &mut self,
        user_key: &[u8],
        sequence: SequenceNumber,
        value_type: ValueType,
        is_older_version: bool,
    ) {
        if is_older_version {
            // The key's newest version has decided whether the key is deleted.
            self.entries += u64::from(self.entries > 0);
            return;
        }
        if !value_type.is_point_deletion() {
            self.end_run();
            return;
        }
        if self.entries == 0 {
            self.first.clear();
            self.first.extend_from_slice(user_key);
            self.sequence = sequence;
        }
        self.last.clear();
        self.last.extend_from_slice(user_key);
        self.sequence = self.sequence.max(sequence);
        self.entries += 1;
    }

    fn end_run(&mut self) {
        if self.entries > 0 && self.entries >= self.min_entries {
            let key = key::internal_key(&self.first, self.sequence, ValueType::Deletion);
            self.block.add(&key, &self.last);
            if self.long_entries > 0 && self.entries >= self.long_entries {
                let (first, last) = (self.first.clone(), self.last.clone());
                self.long.push(LongDeletedRun { first, last, entries: self.entries });
            }
        }
        self.entries = 0;
    }

    /// The block, if there is any span.
    pub fn finish(&mut self) -> Option<Vec<u8>> {
        self.end_run();
        (!self.block.is_empty()).then(|| self.block.finish().to_vec())
    }

    /// The spans to report, in order; complete when the block is finished.
    pub fn take_long(&mut self) -> Vec<LongDeletedRun> {
        std::mem::take(&mut self.long)
    }

    /// About how long the block is so far; 0 if there is none.
    pub fn size_estimate(&self) -> usize {
        if self.block.is_empty() { 0 } else { self.block.size_estimate() }
    }
}

/// A deleted run of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeletedRun<'a> {
    /// Its first user key.
    pub first: &'a [u8],
    /// Its last user key.
    pub last: &'a [u8],
    /// Readers from this sequence number on see all its deletions.
    pub sequence: SequenceNumber,
}

/// The deleted runs of a table.
#[derive(Debug)]
pub struct DeletedRuns {
    keys: Vec<u8>,
    spans: Vec<Slot>,
}

/// The keys are `keys[start..middle]` and `keys[middle..end]`, where `start` is the `end` of the
/// slot before.
#[derive(Debug)]
struct Slot {
    middle: usize,
    end: usize,
    sequence: SequenceNumber,
}

impl DeletedRuns {
    /// Parses the block. With `global_seqno` all entries of the table have that sequence number.
    /// # Errors
    /// `Corruption` if the block is malformed, a span ends before it begins, or spans are not in
    /// order.
    pub fn parse(
        block: &Block,
        icmp: &InternalKeyComparator,
        global_seqno: Option<SequenceNumber>,
    ) -> Result<DeletedRuns> {
        let mut spans = DeletedRuns { keys: Vec::new(), spans: Vec::new() };
        let mut cursor = BlockCursor::new();
        cursor.seek_to_first(block)?;
        while cursor.valid() {
            let entry = ParsedInternalKey::parse(cursor.key())?;
            let last = cursor.value(block);
            let is_behind = spans
                .at(spans.spans.len().wrapping_sub(1))
                .is_none_or(|before| icmp.compare_user_keys(before.last, entry.user_key).is_lt());
            if entry.value_type != ValueType::Deletion
                || !is_behind
                || icmp.compare_user_keys(entry.user_key, last).is_gt()
            {
                let first = entry.user_key.escape_ascii();
                return Err(Error::corruption(format!("the deleted run from '{first}' is out of order")));
            }
            spans.keys.extend_from_slice(entry.user_key);
            let middle = spans.keys.len();
            spans.keys.extend_from_slice(last);
            let (end, sequence) = (spans.keys.len(), global_seqno.unwrap_or(entry.sequence));
            spans.spans.push(Slot { middle, end, sequence });
            cursor.next(block)?;
        }
        spans.keys.shrink_to_fit();
        spans.spans.shrink_to_fit();
        Ok(spans)
    }

    fn at(&self, index: usize) -> Option<DeletedRun<'_>> {
        let slot = self.spans.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.spans.get(before)).map_or(0, |s| s.end);
        Some(DeletedRun {
            first: self.keys.get(start..slot.middle)?,
            last: self.keys.get(slot.middle..slot.end)?,
            sequence: slot.sequence,
        })
    }

    /// The span that holds `user_key`.
    pub fn find(&self, user_key: &[u8], icmp: &InternalKeyComparator) -> Option<DeletedRun<'_>> {
        let (mut low, mut high) = (0, self.spans.len());
        while low < high {
            let middle = low.midpoint(high);
            let ends_before = |span: DeletedRun<'_>| icmp.compare_user_keys(span.last, user_key).is_lt();
            if self.at(middle).is_some_and(ends_before) { low = middle + 1 } else { high = middle }
        }
        self.at(low).filter(|span| icmp.compare_user_keys(span.first, user_key).is_le())
    }

    /// All deleted runs, in order.
    pub fn iter(&self) -> impl Iterator<Item = DeletedRun<'_>> {
        (0..self.spans.len()).filter_map(|index| self.at(index))
    }

    /// Bytes of memory in use.
    pub fn memory_usage(&self) -> usize {
        self.keys.capacity() + self.spans.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests;
