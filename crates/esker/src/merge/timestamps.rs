//! Adapts keys for families with user-defined timestamps whose tables store none: reads of such
//! tables, and flushes into them.
//!
//! In: cursors and range tombstones without timestamps. Out: the same with the oldest timestamp.
//! For a flush: entries without timestamps.

use esker_base::sync::Arc;
use esker_base::{Result, SequenceNumber};
use esker_format::cursor::{InternalIterator, ScanIterator, forward_cursor, plain_cursor};
use esker_format::key::{self, InternalKeyComparator};
use esker_format::range_del::RangeTombstone;
use esker_memtable::MemTable;
use esker_table::{TableIter, TableReadOptions, TableReader};

/// A cursor over keys without timestamps that shows each key with the oldest timestamp.
pub(crate) struct PaddedIter<I> {
    iter: I,
    oldest: Vec<u8>,
    key: Vec<u8>,
}

impl<I: InternalIterator> PaddedIter<I> {
    /// Wraps `iter`; `icmp` is the order of keys with timestamps.
    pub(crate) fn new(iter: I, icmp: &InternalKeyComparator) -> PaddedIter<I> {
        PaddedIter { iter, oldest: icmp.min_timestamp().to_vec(), key: Vec::new() }
    }

    fn update(&mut self) {
        if self.iter.valid() {
            self.key.clear();
            let (user_key, trailer) = split_trailer(self.iter.key());
            self.key.extend_from_slice(user_key);
            self.key.extend_from_slice(&self.oldest);
            self.key.extend_from_slice(trailer);
        }
    }

    /// The inner cursor's target for `target`: a stored key counts as its version with the oldest
    /// timestamp.
    fn target(&self, target: &[u8]) -> Vec<u8> {
        let (user_key, trailer) = split_trailer(target);
        let (plain, timestamp) = user_key.split_at(user_key.len().saturating_sub(self.oldest.len()));
        if timestamp == self.oldest {
            [plain, trailer].concat()
        } else {
            key::seek_key(plain, SequenceNumber::MAX)
        }
    }
}

fn split_trailer(internal_key: &[u8]) -> (&[u8], &[u8]) {
    internal_key.split_at(internal_key.len().saturating_sub(key::TRAILER_BYTES))
}

impl<I: InternalIterator> InternalIterator for PaddedIter<I> {
    forward_cursor!(self => self.iter; valid, value, pinned_value, status);

    fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
        self.update();
    }
    fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
        self.update();
    }
    fn seek(&mut self, target: &[u8]) {
        self.iter.seek(&self.target(target));
        self.update();
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iter.seek_for_prev(&self.target(target));
        self.update();
    }
    fn next(&mut self) {
        self.iter.next();
        self.update();
    }
    fn prev(&mut self) {
        self.iter.prev();
        self.update();
    }
    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl<I: ScanIterator> ScanIterator for PaddedIter<I> {
    forward_cursor!(self => self.iter; progress, continue_from, release);
    // Runs, bounds and prefixes are those of stored keys, so they are not passed on. A deletion
    // hides only older timestamps.
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value,
        set_upper_bound, set_wanted_prefix_of, look_ahead, advance, pass, deleted_run_end, was_seen,
        skip_deleted_run);
}

/// A forward cursor over a memtable's entries in the form of its table: with the oldest timestamp.
///
/// All cursors of the merge must be wrapped in this way. Newer timestamps must have newer sequence
/// numbers, as RocksDB requires for these families.
pub(crate) struct TimestampsDropped<I> {
    iter: I,
    oldest: Vec<u8>,
    key: Vec<u8>,
}

impl<I: InternalIterator> TimestampsDropped<I> {
    /// Wraps `iter`; `icmp` is the order of keys with timestamps.
    pub(crate) fn new(iter: I, icmp: &InternalKeyComparator) -> TimestampsDropped<I> {
        TimestampsDropped { iter, oldest: icmp.min_timestamp().to_vec(), key: Vec::new() }
    }

    fn update(&mut self) {
        if self.iter.valid() {
            self.key.clear();
            self.key.extend_from_slice(self.iter.key());
            let end = self.key.len().saturating_sub(key::TRAILER_BYTES);
            replace_timestamp(&mut self.key[..end], &self.oldest);
        }
    }
}

impl<I: InternalIterator> InternalIterator for TimestampsDropped<I> {
    forward_cursor!(self => self.iter; valid, value, pinned_value, status);

    fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
        self.update();
    }
    fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
        self.update();
    }
    fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
        self.update();
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iter.seek_for_prev(target);
        self.update();
    }
    fn next(&mut self) {
        self.iter.next();
        self.update();
    }
    fn prev(&mut self) {
        self.iter.prev();
        self.update();
    }
    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl<I: ScanIterator> ScanIterator for TimestampsDropped<I> {
    forward_cursor!(self => self.iter; progress, continue_from, release);
    // Flushes step forward over all entries.
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value,
        set_upper_bound, set_wanted_prefix_of, look_ahead, advance, pass, deleted_run_end, was_seen,
        skip_deleted_run);
}

/// The tombstone as read from a table without timestamps: with the oldest timestamp.
pub(crate) fn at_oldest_timestamp(
    mut tombstone: RangeTombstone,
    icmp: &InternalKeyComparator,
) -> RangeTombstone {
    for key in [&mut tombstone.start, &mut tombstone.end] {
        replace_timestamp(key, icmp.min_timestamp());
    }
    tombstone
}

/// Overwrites the timestamp at the end of `user_key`. A damaged, too short key stays as it is.
pub(crate) fn replace_timestamp(user_key: &mut [u8], timestamp: &[u8]) {
    if let Some(at) = user_key.len().checked_sub(timestamp.len()) {
        user_key[at..].copy_from_slice(timestamp);
    }
}

/// The range tombstones of a table, with timestamps if the family has them: the oldest one if the
/// table stores none.
pub(crate) fn stored_tombstones(reader: &TableReader, icmp: &InternalKeyComparator) -> Vec<RangeTombstone> {
    let mut stored = reader.stored_range_tombstones().to_vec();
    if reader.lacks_timestamps() {
        for tombstone in &mut stored {
            tombstone.start.extend_from_slice(icmp.min_timestamp());
            tombstone.end.extend_from_slice(icmp.min_timestamp());
        }
    }
    stored
}

/// A cursor over a table whose keys have timestamps even if the table stores none.
pub(crate) fn table_iter(
    reader: &Arc<TableReader>,
    options: TableReadOptions,
    icmp: &InternalKeyComparator,
) -> Box<dyn ScanIterator> {
    with_timestamps(reader.iter(options), icmp)
}

/// Wraps a table's cursor in the same way.
pub(crate) fn with_timestamps(iter: TableIter, icmp: &InternalKeyComparator) -> Box<dyn ScanIterator> {
    if iter.reader().lacks_timestamps() { Box::new(PaddedIter::new(iter, icmp)) } else { Box::new(iter) }
}

/// Whether a table's filter admits versions of `key`, which has no timestamp.
/// # Errors
/// Errors of reading the filter.
pub(crate) fn may_hold(
    reader: &TableReader,
    options: &TableReadOptions,
    icmp: &InternalKeyComparator,
    key: &[u8],
) -> Result<bool> {
    let first = if reader.lacks_timestamps() { key.to_vec() } else { icmp.first_version(key) };
    reader.filter_lets_pass(options, &key::seek_key(&first, SequenceNumber::MAX))
}

/// The newest timestamp in these memtables; empty if they have no entries, or keys have no
/// timestamps.
pub(crate) fn newest_timestamp(memtables: &[Arc<MemTable>], icmp: &InternalKeyComparator) -> Vec<u8> {
    let mut newest = Vec::new();
    let mut note = |user_key: &[u8]| {
        let (_, timestamp) = icmp.split_timestamp(user_key);
        if icmp.compare_timestamps(timestamp, &newest).is_gt() {
            timestamp.clone_into(&mut newest);
        }
    };
    for mem in memtables {
        let mut iter = mem.iter();
        iter.seek_to_first();
        while iter.valid() {
            note(key::user_key(iter.key()));
            iter.next();
        }
        mem.stored_range_tombstones().iter().for_each(|tombstone| note(&tombstone.start));
    }
    newest
}
