//! What scans have found out: ranges of user keys in which nothing was there at some sequence number.
//!
//! In: a range that a scan has just crossed without finding a key that is there, the sequence number it read at, and the
//! newest file it saw. Out: the same for later scans, which seek across instead of stepping through the deleted keys again,
//! whichever memtables and files the deletions and what they hide lie in. Nothing is written to the database for that: each
//! run of deleted keys is stepped through once, not once for each scan.
//!
//! When such a range is true
//!  "Nothing in `[a, b)` is there at sequence number s" stays true whatever is written, flushed or compacted later. A reader
//!  at S = s therefore finds nothing in there. A reader at S > s finds what was written between s and S, and nothing else. So
//!  it may leave out all entries that were there when the range was found: those of files that the scan saw, or that were
//!  made of such files, if no entry in them is newer than s. A file's largest sequence number alone does not tell: compactions
//!  set the numbers of what everybody sees to zero. So the file's number must not be higher than the newest the scan saw;
//!  files with lower numbers that were installed later are compactions of files that were there. (Ingested files are not:
//!  invariant 1.) In memtables sequence numbers are what they were. And what is left out of one sorted run may have hidden
//!  something in an older one: a run is passed only together with all older ones that have anything in the range.
//!  A reader at S < s learns nothing.
//!
//! Invariants
//!  1. Every range in here is true, in that sense, for all views that hold this value. Ingestion, which puts entries with old
//!     sequence numbers into the history, gives the family's views a fresh value from then on.
//!  2. Ranges come from scans whose view was complete at their sequence number (`cf.super_version.holds(view)` after the
//!     number was read), that saw everything: not from those that ignore range deletions, stop at memtables or caches, or
//!     stay within a prefix. The same scans use them. There are none in families with timestamps.
//!  3. The list is replaced, never changed. Readers take no lock.
//!  4. At most [`MAX_RANGES`] ranges are kept; of those within a newer one at most [`OLDER_KEPT`], for readers at older
//!     sequence numbers.

use esker_base::iter::KnownDead;
use esker_base::sync::epoch::{self, Swap};
use esker_base::sync::{Arc, Mutex};
use esker_base::{FileNumber, SequenceNumber};
use esker_format::key::InternalKeyComparator;

/// Beyond these the one found first is forgotten. Readers look at all of them, some 10 ns each, before they hop.
const MAX_RANGES: usize = 128;

/// Ranges within a newer range that are kept for readers at older sequence numbers.
const OLDER_KEPT: usize = 2;

/// A dead range.
#[derive(Clone, Debug)]
struct Range {
    start: Arc<[u8]>,
    end: Arc<[u8]>,
    sequence: SequenceNumber,
    newest_file: FileNumber,
}

/// The dead ranges of a family.
#[derive(Debug)]
pub(crate) struct DeadRanges {
    icmp: InternalKeyComparator,
    /// See [`DeadRanges::new`].
    min_keys: u64,
    /// In the order in which they were found.
    ranges: Swap<Vec<Range>>,
    /// Held by who replaces the list; only ever tried.
    adding: Mutex<()>,
}

impl DeadRanges {
    /// None yet. `min_keys`: how many deleted keys a scan steps over in one call before it puts a range in; 0: none ever
    /// does.
    pub(crate) fn new(icmp: InternalKeyComparator, min_keys: u64) -> DeadRanges {
        let min_keys = if icmp.user_comparator().timestamp_size() > 0 { 0 } else { min_keys };
        DeadRanges { icmp, min_keys, ranges: Swap::new(Arc::default()), adding: Mutex::new(()) }
    }

    /// The same settings, nothing found: for the views of a history to which something old was added.
    pub(crate) fn fresh(&self) -> DeadRanges {
        DeadRanges::new(self.icmp.clone(), self.min_keys)
    }

    /// Deleted keys in one call that make it worth while to put a range in; `u64::MAX` for never.
    pub(crate) fn min_keys(&self) -> u64 {
        if self.min_keys == 0 { u64::MAX } else { self.min_keys }
    }

    /// Nothing in `[start, end)` is there at `sequence`, says a scan that saw files up to `newest_file`. Forgotten if somebody
    /// else is putting something in.
    #[cold]
    pub(crate) fn add(&self, start: &[u8], end: &[u8], sequence: SequenceNumber, newest_file: FileNumber) {
        if self.icmp.compare_user_keys(start, end).is_ge() {
            return;
        }
        let Some(adding) = self.adding.try_lock() else { return };
        let new = Range { start: start.into(), end: end.into(), sequence, newest_file };
        let mut ranges = self.ranges.load_full().to_vec();
        let mut older: Vec<SequenceNumber> = ranges
            .iter()
            .filter(|old| old.sequence < sequence && self.is_within(old, &new))
            .map(|old| old.sequence)
            .collect();
        older.sort_unstable();
        let newest_kept = older.get(OLDER_KEPT - 1).or(older.last()).copied().unwrap_or_default();
        let mut left = OLDER_KEPT;
        ranges.retain(|old| {
            if !self.is_within(old, &new) {
                return true;
            }
            let keep = old.sequence < sequence && old.sequence <= newest_kept && left > 0;
            left -= usize::from(keep);
            keep
        });
        if ranges.len() == MAX_RANGES {
            ranges.remove(0);
        }
        ranges.push(new);
        self.ranges.store(Arc::new(ranges));
        drop(adding);
    }

    /// Whether all that `old` says follows from `new` for readers at both sequence numbers.
    fn is_within(&self, old: &Range, new: &Range) -> bool {
        old.sequence <= new.sequence
            && self.icmp.compare_user_keys(&old.start, &new.start).is_ge()
            && self.icmp.compare_user_keys(&old.end, &new.end).is_le()
    }

    /// The range around `user_key` that leads farthest for a reader at `snapshot`. `edge` gets its end or, not `forward`, its
    /// start.
    pub(crate) fn find<'a>(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        forward: bool,
        edge: &'a mut Vec<u8>,
    ) -> Option<KnownDead<'a>> {
        let guard = epoch::pin();
        let mut best: Option<&Range> = None;
        for range in self.ranges.load(&guard) {
            if range.sequence > snapshot
                || self.icmp.compare_user_keys(&range.start, user_key).is_gt()
                || self.icmp.compare_user_keys(&range.end, user_key).is_le()
            {
                continue;
            }
            let is_better = best.is_none_or(|best| {
                let order = if forward {
                    self.icmp.compare_user_keys(&best.end, &range.end)
                } else {
                    self.icmp.compare_user_keys(&range.start, &best.start)
                };
                // As far: the newer knows more files, and needs fewer entries to be old.
                order.is_lt() || (order.is_eq() && best.sequence <= range.sequence)
            });
            if is_better {
                best = Some(range);
            }
        }
        let range = best?;
        edge.clear();
        edge.extend_from_slice(if forward { &range.end } else { &range.start });
        Some(KnownDead { edge, sequence: range.sequence, newest_file: range.newest_file })
    }
}

#[cfg(test)]
mod tests;
