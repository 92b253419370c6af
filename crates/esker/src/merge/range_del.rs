//! The effect of range tombstones: for scans, run by run; for flushes and compactions, over all
//! inputs.
//!
//! In: the fragments of memtables and files, with the files' bounds. Out: for scans
//! [`TombstoneSource`]s, which report the cover around a key and its extent; for compactions the
//! [`RangeDelAggregator`]. Bytes and bounds: `docs/format/range-del.md`; RocksDB
//! `db/range_del_aggregator.h`.
//!
//! A tombstone applies only within its file's bounds. Beyond them, a compaction may have dropped
//! the same tombstone with the entries that it hid, and newer entries with zeroed sequence numbers
//! may lie there.

mod aggregator;
mod truncated;

pub(crate) use aggregator::RangeDelAggregator;
pub(super) use aggregator::stripe;
pub(crate) use truncated::{FileBounds, RunTombstones};

use esker_base::{Result, SequenceNumber};
use std::ops::Bound;

/// The hidden sequence numbers at a user key: all below `below`, and those in `edge_from..edge_to`.
///
/// The second part is for one case only: a user key whose versions continue in the next file of the
/// level. The first file's tombstones hide only the versions in that file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cover {
    /// All entries older than this are hidden; zero hides none.
    pub below: SequenceNumber,
    /// First sequence number of a hidden range.
    pub edge_from: SequenceNumber,
    /// End of the hidden range, exclusive.
    pub edge_to: SequenceNumber,
}

impl Cover {
    /// A cover that hides nothing.
    pub(crate) const NONE: Cover =
        Cover { below: SequenceNumber::ZERO, edge_from: SequenceNumber::ZERO, edge_to: SequenceNumber::ZERO };

    /// A cover that hides all entries older than `seq`.
    #[inline]
    pub(crate) fn below(seq: SequenceNumber) -> Cover {
        Cover { below: seq, ..Cover::NONE }
    }

    /// Whether an entry with this sequence number is hidden.
    #[inline]
    pub(crate) fn hides(&self, sequence: SequenceNumber) -> bool {
        sequence < self.below || (sequence < self.edge_to && sequence >= self.edge_from)
    }

    /// The union of both covers.
    #[must_use]
    pub(crate) fn or(self, other: Cover) -> Cover {
        let (edge_from, edge_to) = match (self.edge_to.0, other.edge_to.0) {
            (0, _) => (other.edge_from, other.edge_to),
            (_, 0) => (self.edge_from, self.edge_to),
            _ => (self.edge_from.min(other.edge_from), self.edge_to.max(other.edge_to)),
        };
        Cover { below: self.below.max(other.below), edge_from, edge_to }
    }
}

/// The range tombstones of one sorted run, as a snapshot sees them: a cursor over *windows* of user
/// keys. Within a window the cover is the same everywhere.
pub(crate) trait TombstoneSource: Send {
    /// Moves to the window of `user_key`, in either direction, and returns its cover.
    /// # Errors
    /// Errors of opening the file of `user_key`; the scan must stop.
    fn locate(&mut self, user_key: &[u8]) -> Result<Cover>;
    /// The window that was located last. It may be smaller than the largest possible one.
    fn window(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
    /// Appends the end (exclusive) of the hidden range that continues from the window located last.
    /// REQUIRES: the cover of that window hides all entries below some sequence number.
    fn covered_until(&self, end: &mut Vec<u8>);
    /// Appends the start (inclusive) of the hidden range that leads up to the window located last.
    /// REQUIRES: that window is hidden, as for [`covered_until`](Self::covered_until).
    fn covered_since(&self, start: &mut Vec<u8>);
}

#[cfg(test)]
mod tests;
