//! The part of the cursor contract that only user scans need, beyond [`InternalIterator`].
//!
//! In: hints about the scan (bounds, prefix, progress), a reader's sequence number, and ranges that
//! are known to be deleted. Out: combined steps, decoded runs, and moves past deleted runs.
//!
//! A cursor may ignore hints: they change the cost of a scan, never its result.

use super::{DecodeAhead, DecodedRun, InternalIterator, LeftValue, forward_cursor, push_place};
use esker_base::{FileNumber, PinnedBytes, SequenceNumber};

/// A range of user keys in which a scan found nothing, and the state that the scan saw.
///
/// A reader at `sequence` or later may skip entries of the range that the scan saw. Those are
/// entries of files up to `newest_file` that have no entry newer than `sequence`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownDeletedRun<'a> {
    /// Forward: the first user key behind the range. Backward: the first user key in it.
    pub run_end: &'a [u8],
    /// The sequence number at which the scan read.
    pub sequence: SequenceNumber,
    /// The sequence number at which the scan read the database. It is below `sequence` if the scan
    /// also read unwritten operations of a transaction, which have numbers of their own.
    pub base_sequence: SequenceNumber,
    /// The highest file number that the scan saw. A file with a higher number may hold newer
    /// entries, whatever its sequence numbers are.
    pub newest_file: FileNumber,
}

impl KnownDeletedRun<'_> {
    /// Whether the scan saw everything that a reader at `snapshot` sees, without unwritten
    /// operations.
    pub fn was_found_at(&self, snapshot: SequenceNumber) -> bool {
        self.sequence == snapshot && self.base_sequence == snapshot
    }
}

/// Bytes that a scan has passed in one direction without a seek, across tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScanProgress {
    /// Bytes of blocks, as they are stored.
    pub bytes: u64,
    /// The part of `bytes` that was read from files instead of a cache.
    pub read_bytes: u64,
}

/// The result of [`ScanIterator::skip_deleted_run`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SkipDistance {
    /// The cursor did not move.
    No,
    /// The cursor stopped within the deleted run, at a key of an older sorted run. The next skip
    /// may be short.
    Near,
    /// The cursor moved to the end of the known deleted range.
    Far,
}

/// A cursor that a user scan reads through.
pub trait ScanIterator: InternalIterator {
    /// Moves as `next`, and returns the internal key, or `None` if the cursor is invalid. This is
    /// one call through a trait object instead of three. REQUIRES: `valid()`.
    fn next_key(&mut self) -> Option<&[u8]>;
    /// Moves as `prev`, and returns the internal key, as [`next_key`](Self::next_key). REQUIRES:
    /// `valid()`.
    fn prev_key(&mut self) -> Option<&[u8]>;
    /// [`prev_key`](Self::prev_key), which also stores the value of the entry that it leaves in
    /// `left`. The cursor lends the value until its next move, or `left` keeps it. REQUIRES:
    /// `valid()`.
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]>;
    /// The value that [`prev_key_leaving`](Self::prev_key_leaving) has lent. REQUIRES: it lent one,
    /// and the cursor has not moved since.
    fn left_value(&self) -> &[u8];
    /// As [`left_value`](Self::left_value), but the value outlives the next move.
    fn pinned_left_value(&self) -> PinnedBytes;

    /// Announces that no key at or beyond this user key will be requested, so that files may stop
    /// early. `None` removes the bound.
    fn set_upper_bound(&mut self, user_key: Option<&[u8]>);
    /// Limits later requests to keys with the prefix of this user key, whatever targets `seek` and
    /// `seek_for_prev` have. The cursor may then skip files. `None` lifts the limit. Prefixes
    /// are those of the family's prefix extractor.
    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>);
    /// Progress of the scan that this cursor is a part of; zero if the cursor has no information
    /// about it.
    fn progress(&self) -> ScanProgress;
    /// Announces that the scan comes from the end of another file, with `progress`.
    fn continue_from(&mut self, progress: ScanProgress);
    /// Releases resources, above all blocks, until the cursor is positioned again. The cursor may
    /// be invalid afterwards.
    fn release(&mut self);

    /// Fills `run` with entries from the current one on, without a move. Each is a plain value that
    /// a reader at `ahead.sequence` sees unchanged. Its user key differs from that of the entry
    /// before it in key order; forward, nothing is checked before the first entry. All entries are
    /// adjacent in one block. A cursor without runs clears `run`. REQUIRES: `valid()`; the last
    /// move went in this direction or was a seek.
    fn look_ahead(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>);
    /// Moves to the entry at the run's place. REQUIRES: `run` came from this cursor, is not empty,
    /// and the cursor has not moved since.
    fn advance(&mut self, run: &DecodedRun);
    /// Steps off the last entry of the run and looks ahead from there. If looking ahead takes long,
    /// `run` is left empty. REQUIRES: as [`advance`](Self::advance).
    fn pass(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>);

    /// If the current user key lies in a deleted run: the last user key of the run, or, not
    /// `forward`, the first. In a deleted run the newest entry of each user key in this memtable or
    /// file is deleted: it is a point deletion that `snapshot` sees, or a range deletion of the
    /// same memtable hides it. Keys that only older sorted runs have do not belong to the run.
    /// Newer entries of its first key may be in the file before. REQUIRES: `valid()`.
    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]>;
    /// Whether the scan that found `known` saw all entries from here to `known.run_end`. If so, a
    /// reader at its sequence number or later finds nothing among them. REQUIRES: `valid()`.
    fn was_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool;
    /// Skips entries from here on that a reader at `snapshot` cannot find: those of deleted runs,
    /// and those in `known`, which must contain the current user key and be valid for `snapshot`.
    /// Older entries that they hide may be skipped too, so the reader must not need older entries
    /// of the current user key. REQUIRES: `valid()`; the last move went in this direction.
    fn skip_deleted_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance;
}

impl<T: ScanIterator + ?Sized> ScanIterator for Box<T> {
    forward_cursor!(self => **self; next_key, prev_key, prev_key_leaving, left_value, pinned_left_value,
        set_upper_bound, set_wanted_prefix_of, progress, continue_from, release, look_ahead, advance, pass,
        deleted_run_end, was_seen, skip_deleted_run);
}

/// [`ScanIterator::skip_deleted_run`] for a cursor that is not merged with others.
pub fn skip_alone<I: ScanIterator + ?Sized>(
    iter: &mut I,
    snapshot: SequenceNumber,
    forward: bool,
    known: Option<&KnownDeletedRun<'_>>,
) -> SkipDistance {
    let mut target = Vec::new();
    if let Some(known) = known.filter(|k| k.was_found_at(snapshot) || iter.was_seen(k, forward)) {
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
