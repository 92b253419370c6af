//! Cursors over memtables of RocksDB's hash kinds, which have no total order of keys.
//!
//! In: a cursor over a memtable. Out: the cursor, which finds no key when it is moved to the first
//! or last key. Esker's memtables are ordered, but programs rely on RocksDB's answer: an iterator
//! without `total_order_seek` finds keys of these memtables only by seeks.

use crate::cf::SuperVersion;
use crate::options::{MemtableFactory, ReadOptions};
use esker_format::cursor::{InternalIterator, ScanIterator, forward_cursor, plain_cursor};

/// Whether the cursors of a read find keys of memtables only by seeks.
pub(in crate::scan) fn memtables_by_prefix(super_version: &SuperVersion, options: &ReadOptions) -> bool {
    let family = &super_version.options;
    let is_hash =
        matches!(family.memtable_factory, MemtableFactory::HashSkipList | MemtableFactory::HashLinkList);
    is_hash && family.prefix_extractor.is_some() && !options.total_order_seek && !options.auto_prefix_mode
}

/// A memtable's cursor that only seeks can position.
pub(super) struct ByPrefix<I> {
    iter: I,
    /// Whether the last move was to the first or the last key.
    is_off: bool,
}

impl<I> ByPrefix<I> {
    pub(super) fn new(iter: I) -> ByPrefix<I> {
        ByPrefix { iter, is_off: true }
    }
}

impl<I: ScanIterator> InternalIterator for ByPrefix<I> {
    fn valid(&self) -> bool {
        !self.is_off && self.iter.valid()
    }

    fn seek_to_first(&mut self) {
        self.is_off = true;
    }

    fn seek_to_last(&mut self) {
        self.is_off = true;
    }

    fn seek(&mut self, target: &[u8]) {
        self.is_off = false;
        self.iter.seek(target);
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.is_off = false;
        self.iter.seek_for_prev(target);
    }

    forward_cursor!(self => self.iter; next, prev, key, value, pinned_value, status);
}

impl<I: ScanIterator> ScanIterator for ByPrefix<I> {
    forward_cursor!(self => self.iter; set_upper_bound, set_wanted_prefix_of, progress, continue_from, release);
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value, look_ahead,
        advance, pass, deleted_run_end, was_seen, skip_deleted_run);
}
