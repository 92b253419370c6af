//! The part of the cursor contract that only user scans need, beyond [`InternalIterator`].
//!
//! In: hints about the scan (bounds, prefix, progress), a reader's sequence number, and ranges that
//! are known to be deleted. Out: fused steps, decoded runs, and moves past deleted runs.
//!
//! Hints may be ignored: they change the cost of a scan, never its result.

use super::{DecodeAhead, DecodedRun, InternalIterator, LeftValue, forward_cursor, push_place};
use esker_base::{FileNumber, PinnedBytes, SequenceNumber};

/// A range of user keys in which a scan found nothing, and the state that the scan saw.
///
/// A reader at `sequence` or later may leave out entries of the range that the scan saw: those of
/// files up to `newest_file` without an entry newer than `sequence`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownDeletedRun<'a> {
    /// Forward: the first user key behind the range. Backward: the first user key in it.
    pub run_end: &'a [u8],
    /// The sequence number at which the scan read.
    pub sequence: SequenceNumber,
    /// The highest file number that the scan saw. A file with a higher number may hold newer
    /// entries, whatever its sequence numbers are.
    pub newest_file: FileNumber,
}

/// Bytes that a scan has passed in one direction without a seek, across tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Bytes of blocks, as they are stored.
    pub bytes: u64,
    /// The part of `bytes` that was read from files instead of a cache.
    pub read_bytes: u64,
}

/// The result of [`ScanIterator::skip_deleted_run`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipDistance {
    /// The cursor did not move.
    No,
    /// The cursor stopped at an older run's key within the deleted run; the next skip may be short.
    Near,
    /// The cursor moved to the end of what is known to be deleted.
    Far,
}

/// A cursor that a user scan reads through.
pub trait ScanIterator: InternalIterator {
    /// `next`, and then the internal key, or `None` if the cursor is invalid: one call through a
    /// trait object instead of three. REQUIRES: `valid()`.
    fn next_key(&mut self) -> Option<&[u8]>;
    /// `prev`, and then the internal key, as [`next_key`](Self::next_key). REQUIRES: `valid()`.
    fn prev_key(&mut self) -> Option<&[u8]>;
    /// [`prev_key`](Self::prev_key), with the value of the entry that it leaves in `left`: lent by
    /// this cursor until its next move, or kept. REQUIRES: `valid()`.
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]>;
    /// The value that [`prev_key_leaving`](Self::prev_key_leaving) has lent. REQUIRES: it lent one,
    /// and the cursor has not moved since.
    fn left_value(&self) -> &[u8];
    /// As [`left_value`](Self::left_value), alive beyond the next move.
    fn pinned_left_value(&self) -> PinnedBytes;

    /// Tells that no key at or beyond this user key will be asked for, so that files may stop
    /// early; `None` removes the bound.
    fn set_upper_bound(&mut self, user_key: Option<&[u8]>);
    /// Limits later requests to keys with the prefix of this user key, whatever targets `seek` and
    /// `seek_for_prev` have. The cursor may then pass over files. `None` lifts the limit. Prefixes
    /// are those of the family's prefix extractor.
    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>);
    /// Progress of the scan that this cursor is a part of; zero if the cursor does not know it.
    fn passed(&self) -> Passed;
    /// Tells that the scan comes from the end of another file, after `passed`.
    fn go_on(&mut self, passed: Passed);
    /// Releases what the cursor need not hold until it is positioned again, above all blocks. The
    /// cursor may be invalid afterwards.
    fn release(&mut self);

    /// Fills `run` with entries from the current one on, without a move. Each is a plain value that
    /// a reader at `ahead.sequence` is shown as it is. Its user key differs from that of the entry
    /// before it in key order; forward, nothing is checked before the first. All lie next to each
    /// other in one block. A cursor without runs clears `run`. REQUIRES: `valid()`; the last move
    /// went in this direction or was a seek.
    fn look_ahead(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>);
    /// Moves to the entry at the run's place. REQUIRES: `run` came from this cursor, is not empty,
    /// and the cursor has not moved since.
    fn advance(&mut self, run: &DecodedRun);
    /// Steps off the last entry of the run and looks ahead from there, unless that takes long:
    /// `run` is empty then. REQUIRES: as [`advance`](Self::advance).
    fn pass(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>);

    /// If the user key here lies in a deleted run: the last user key of the run; not `forward`, the
    /// first. In a deleted run, the newest entry of each user key in this memtable or file is
    /// deleted. It is a point deletion that `snapshot` sees, or a range deletion of the same
    /// memtable hides it. The run says nothing of keys that only older sorted runs have. Newer
    /// entries of its first key may be in the file before. REQUIRES: `valid()`.
    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]>;
    /// Whether the scan that found `known` saw all entries from here to `known.run_end`. A reader
    /// at its sequence number or later then finds nothing among them. REQUIRES: `valid()`.
    fn was_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool;
    /// Leaves out entries from here on that a reader at `snapshot` cannot find: those of deleted
    /// runs, and those in `known`, which holds the user key here and is true for `snapshot`. Older
    /// entries that those hide may be left out with them, so the reader must not need older entries
    /// of the user key here. REQUIRES: `valid()`; the last move went in this direction.
    fn skip_deleted_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance;
}

impl<T: ScanIterator + ?Sized> ScanIterator for Box<T> {
    forward_cursor!(self => **self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value,
        set_upper_bound, set_wanted_prefix_of, passed, go_on, release, look_ahead, advance, pass,
        deleted_run_end, was_seen, skip_deleted_run);
}

/// [`ScanIterator::skip_deleted_run`] of a cursor that nothing is merged with.
pub fn skip_alone<I: ScanIterator + ?Sized>(
    iter: &mut I,
    snapshot: SequenceNumber,
    forward: bool,
    known: Option<&KnownDeletedRun<'_>>,
) -> SkipDistance {
    let mut target = Vec::new();
    if let Some(known) = known.filter(|k| k.sequence == snapshot || iter.was_seen(k, forward)) {
        push_place(&mut target, known.run_end, true);
    } else if let Some(run_end) = iter.deleted_run_end(snapshot, forward)
        && !iter.key().starts_with(run_end)
    {
        push_place(&mut target, run_end, false);
    } else {
        return SkipDistance::No;
    }
    if forward {
        iter.seek(&target);
    } else {
        iter.seek_for_prev(&target);
    }
    SkipDistance::Far
}
