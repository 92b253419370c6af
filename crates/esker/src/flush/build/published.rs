//! A memtable's entries without those of a failed write.
//!
//! In: a cursor over a memtable, and the newest sequence number that was published. Out: the same
//! cursor without entries beyond that number.

use esker_base::SequenceNumber;
use esker_format::cursor::{InternalIterator, ScanIterator, forward_cursor, plain_cursor};
use esker_format::key;

/// A cursor that leaves out entries newer than `newest`.
pub(super) struct Published<I> {
    iter: I,
    newest: SequenceNumber,
}

impl<I: InternalIterator> Published<I> {
    /// A cursor without entries newer than `newest`. Not valid until positioned.
    pub(super) fn new(iter: I, newest: SequenceNumber) -> Published<I> {
        Published { iter, newest }
    }

    fn skip(&mut self, forward: bool) {
        while self.iter.valid() && key::trailer(self.iter.key()) >> 8 > self.newest.0 {
            if forward {
                self.iter.next();
            } else {
                self.iter.prev();
            }
        }
    }
}

impl<I: InternalIterator> InternalIterator for Published<I> {
    forward_cursor!(self => self.iter; valid, key, value, pinned_value, status);

    fn seek_to_first(&mut self) {
        self.iter.seek_to_first();
        self.skip(true);
    }
    fn seek_to_last(&mut self) {
        self.iter.seek_to_last();
        self.skip(false);
    }
    fn seek(&mut self, target: &[u8]) {
        self.iter.seek(target);
        self.skip(true);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        self.iter.seek_for_prev(target);
        self.skip(false);
    }
    fn next(&mut self) {
        self.iter.next();
        self.skip(true);
    }
    fn prev(&mut self) {
        self.iter.prev();
        self.skip(false);
    }
}

impl<I: ScanIterator> ScanIterator for Published<I> {
    forward_cursor!(self => self.iter; set_upper_bound, set_wanted_prefix_of, progress, continue_from, release);
    // Decoded entries ahead could be among those left out, so this cursor decodes none.
    plain_cursor!(self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value, look_ahead,
        advance, pass, deleted_run_end, was_seen, skip_deleted_run);
}
