//! The one cursor contract, for memtables, blocks, tables, levels and their merge.

mod run;

pub use run::{Ahead, Run, RunEntry};

use esker_base::{FileNumber, PinnedBytes, Result, SequenceNumber, ValueType};

/// A range of user keys in which nothing is there for a reader, and why that may be believed of
/// entries that are not looked at: what a scan at `sequence` has seen, of files up to
/// `newest_file`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownDeletedRun<'a> {
    /// Forward: the first user key behind the range. Backward: the first in it.
    pub run_end: &'a [u8],
    /// Where the scan read at.
    pub sequence: SequenceNumber,
    /// The file with the highest number that the scan saw; files with higher ones may hold what
    /// came later, even if their sequence numbers do not say so.
    pub newest_file: FileNumber,
}

/// How far a scan has come without leaving its course, from one table to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Bytes of blocks, as they are stored.
    pub bytes: u64,
    /// Of these, what came from files and not from a cache.
    pub read_bytes: u64,
}

/// How far [`InternalIterator::skip_deleted_run`] came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipDistance {
    /// It did not move.
    No,
    /// It moved to where something old may be hidden; another skip may not lead far.
    Near,
    /// It moved to the end of what is known to be dead.
    Far,
}

/// From this size on the value of an entry that a cursor has left is pinned where it lies instead
/// of copied. A pin costs two atomic operations.
const PIN_VALUES_FROM_BYTES: usize = 4096;

/// The value of an entry that a cursor has left by [`InternalIterator::prev_key_leaving`].
#[derive(Debug, Default)]
pub struct LeftValue {
    place: LeftPlace,
    /// The value, if it was copied.
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
enum LeftPlace {
    /// The cursor still has it, until it moves again.
    #[default]
    Lent,
    Copied,
    Pinned(PinnedBytes),
}

impl LeftValue {
    /// The cursor still has it: [`InternalIterator::left_value`].
    #[inline]
    pub fn lend(&mut self) {
        self.place = LeftPlace::Lent;
    }

    /// Keeps the value on which the cursor stands.
    pub fn keep<I: InternalIterator + ?Sized>(&mut self, iter: &I) {
        let value = iter.value();
        if value.len() >= PIN_VALUES_FROM_BYTES {
            self.place = LeftPlace::Pinned(iter.pinned_value());
        } else {
            self.copy(value);
        }
    }

    /// Keeps the value that the cursor, which is to be moved, has lent.
    pub fn keep_lent<I: InternalIterator + ?Sized>(&mut self, iter: &I) {
        if !matches!(self.place, LeftPlace::Lent) {
            return;
        }
        let value = iter.left_value();
        if value.len() >= PIN_VALUES_FROM_BYTES {
            self.place = LeftPlace::Pinned(iter.pinned_left_value());
        } else {
            self.copy(value);
        }
    }

    /// Lets go of the value, and of much memory.
    pub fn release(&mut self) {
        self.place = LeftPlace::Lent;
        if self.buffer.capacity() > PIN_VALUES_FROM_BYTES {
            self.buffer = Vec::new();
        }
    }

    fn copy(&mut self, value: &[u8]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(value);
        self.place = LeftPlace::Copied;
    }

    /// The value, where `iter` is the cursor that left it and has not moved since, unless it was
    /// told to [`keep_lent`](Self::keep_lent).
    #[inline]
    pub fn value<'a, I: InternalIterator + ?Sized>(&'a self, iter: &'a I) -> &'a [u8] {
        match &self.place {
            LeftPlace::Lent => iter.left_value(),
            LeftPlace::Copied => &self.buffer,
            LeftPlace::Pinned(bytes) => bytes,
        }
    }

    /// As [`value`](Self::value), alive beyond the next move.
    pub fn pinned<I: InternalIterator + ?Sized>(&self, iter: &I) -> PinnedBytes {
        match &self.place {
            LeftPlace::Lent => iter.pinned_left_value(),
            LeftPlace::Copied => PinnedBytes::copy_from(&self.buffer),
            LeftPlace::Pinned(bytes) => bytes.clone(),
        }
    }
}

/// A cursor over internal keys (user key, then 8 bytes of sequence and type) in internal-key order:
/// user key by the family's comparator, then newest first.
///
/// A new cursor is not valid until it is positioned. After a failed step it is not valid and
/// `status` says why; a cursor that is not valid with an `Ok` status has run off an end. Every
/// positioning call clears an earlier failure. Moving a cursor that is not valid is a bug of the
/// caller.
pub trait InternalIterator: Send {
    /// Whether it stands on an entry.
    fn valid(&self) -> bool;
    /// To the first entry.
    fn seek_to_first(&mut self);
    /// To the last entry.
    fn seek_to_last(&mut self);
    /// To the first entry at or after `target`, an internal key.
    fn seek(&mut self, target: &[u8]);
    /// To the last entry at or before `target`, an internal key.
    fn seek_for_prev(&mut self, target: &[u8]);
    /// One entry on. REQUIRES: `valid()`.
    fn next(&mut self);
    /// One entry back. REQUIRES: `valid()`.
    fn prev(&mut self);
    /// The internal key here; lives until the next move. REQUIRES: `valid()`.
    fn key(&self) -> &[u8];
    /// The value here; lives until the next move. REQUIRES: `valid()`.
    fn value(&self) -> &[u8];
    /// `next`, and the internal key then, or `None` if it is not valid: one call through a trait
    /// object instead of three. REQUIRES: `valid()`.
    #[inline]
    fn next_key(&mut self) -> Option<&[u8]> {
        self.next();
        self.valid().then(|| self.key())
    }
    /// `prev`, and the internal key then, as [`next_key`](Self::next_key). REQUIRES: `valid()`.
    #[inline]
    fn prev_key(&mut self) -> Option<&[u8]> {
        self.prev();
        self.valid().then(|| self.key())
    }
    /// [`prev_key`](Self::prev_key), which leaves the value here behind: `left` says where it is
    /// until the next move. For cursors that must step off an entry to know whether it is the one
    /// to show. REQUIRES: `valid()`. Default: it is kept in `left`.
    #[inline]
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]> {
        left.keep(self);
        self.prev_key()
    }
    /// The value that [`prev_key_leaving`](Self::prev_key_leaving) has lent. REQUIRES: it has, and
    /// was the last move.
    fn left_value(&self) -> &[u8] {
        &[]
    }
    /// The same, kept alive beyond the next move.
    fn pinned_left_value(&self) -> PinnedBytes {
        PinnedBytes::copy_from(self.left_value())
    }
    /// Fills `run` with entries from the one here on, without moving, as far as a reader at
    /// `ahead.sequence` is shown each of them as it is: plain values that it sees, each of another
    /// user key than the one before it in key order; for the first in key order, going forward,
    /// that is not looked at. They are neighbours among the entries here, and all of one block.
    /// REQUIRES: `valid()`; the last move went in this direction or was a seek. Default: there are
    /// none.
    fn look_ahead(&mut self, run: &mut Run, _ahead: &Ahead<'_>) {
        run.clear();
    }
    /// To the entry at the run's place. REQUIRES: `run` came from here and is not empty, and there
    /// was no other move since.
    fn advance(&mut self, _run: &Run) {}
    /// Past the last entry of the run, as a step from that would go, and looks ahead from there;
    /// not if that takes too long. REQUIRES: as [`advance`](Self::advance).
    fn pass(&mut self, run: &mut Run, _ahead: &Ahead<'_>) {
        run.clear();
    }
    /// Why it is not valid, if an error was the reason.
    /// # Errors
    /// The first error since the last positioning call: `Corruption`, `IoError`, or `Incomplete`
    /// (I/O forbidden).
    fn status(&self) -> Result<()>;
    /// The value here, kept alive beyond the next move; shares the block or memtable where it can,
    /// copies otherwise. REQUIRES: `valid()`.
    fn pinned_value(&self) -> PinnedBytes {
        PinnedBytes::copy_from(self.value())
    }
    /// Keys at or beyond this user key will not be asked for; a hint that lets files stop early.
    /// Default: ignored.
    fn set_upper_bound(&mut self, _user_key: Option<&[u8]>) {}
    /// Only keys with the same prefix as this user key (by the family's prefix extractor) will be
    /// asked for until the next call, `None`: any; a hint that lets files be passed over by `seek`
    /// and `seek_for_prev`, whatever their targets are. Default: ignored.
    fn set_wanted_prefix_of(&mut self, _user_key: Option<&[u8]>) {}
    /// How far the scan has come of which this cursor is a part. Default: that is not known.
    fn passed(&self) -> Passed {
        Passed::default()
    }
    /// The scan comes from another file's end, and has come so far. Default: ignored.
    fn go_on(&mut self, _passed: Passed) {}
    /// It will not be used for a while: lets go of what it need not hold until it is positioned
    /// next, blocks above all. Not valid afterwards, or nobody asks. Default: it holds nothing.
    fn release(&mut self) {}
    /// If the user key here lies in a run of deleted keys, all of whose newest entries in this
    /// memtable or file are point deletions that `snapshot` sees, or hidden by such range deletions
    /// of the same memtable: the last user key of the run or, not `forward`, its first, which must
    /// still be looked at, since newer entries of it may be in the file before. Keys in between
    /// that are only in older sorted runs are not deleted by that. REQUIRES: `valid()`. Default:
    /// nothing is known.
    fn deleted_run_end(&self, _snapshot: SequenceNumber, _forward: bool) -> Option<&[u8]> {
        None
    }
    /// Whether all entries from here to `known.run_end` were there when the scan was made that
    /// `known` comes from, so that no reader at its sequence number or a later one finds anything
    /// among them. REQUIRES: `valid()`. Default: nothing is known.
    fn was_seen(&self, _known: &KnownDeletedRun<'_>, _forward: bool) -> bool {
        false
    }
    /// Leaves out entries from here on that a reader at `snapshot` cannot find: those of deleted
    /// runs, and those in `known`, which must hold the user key here and be true for `snapshot`.
    /// What is left out may be more than what was hidden from the reader as it stood: it must not
    /// be in the middle of a user key whose older entries it needs. REQUIRES: `valid()`; the last
    /// move went in this direction. Default: as a cursor that is read alone.
    fn skip_deleted_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance {
        let mut target = Vec::new();
        if let Some(known) = known.filter(|k| k.sequence == snapshot || self.was_seen(k, forward)) {
            push_place(&mut target, known.run_end, true);
        } else if let Some(run_end) = self.deleted_run_end(snapshot, forward)
            && !self.key().starts_with(run_end)
        {
            push_place(&mut target, run_end, false);
        } else {
            return SkipDistance::No;
        }
        if forward {
            self.seek(&target);
        } else {
            self.seek_for_prev(&target);
        }
        SkipDistance::Far
    }
}

/// Appends the internal key that sorts before all entries of a user key, or behind all (but one of
/// sequence number zero that is a deletion, with which it is equal).
pub fn push_place(target: &mut Vec<u8>, user_key: &[u8], before: bool) {
    target.extend_from_slice(user_key);
    let first = (SequenceNumber::MAX.0 << 8) | ValueType::SEEK as u64;
    target.extend_from_slice(&(if before { first } else { 0 }).to_le_bytes());
}

impl<T: InternalIterator + ?Sized> InternalIterator for Box<T> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) {
        (**self).seek_to_first();
    }
    fn seek_to_last(&mut self) {
        (**self).seek_to_last();
    }
    fn seek(&mut self, target: &[u8]) {
        (**self).seek(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        (**self).seek_for_prev(target);
    }
    fn next(&mut self) {
        (**self).next();
    }
    fn prev(&mut self) {
        (**self).prev();
    }
    fn next_key(&mut self) -> Option<&[u8]> {
        (**self).next_key()
    }
    fn prev_key(&mut self) -> Option<&[u8]> {
        (**self).prev_key()
    }
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]> {
        (**self).prev_key_leaving(left)
    }
    fn look_ahead(&mut self, run: &mut Run, ahead: &Ahead<'_>) {
        (**self).look_ahead(run, ahead);
    }
    fn advance(&mut self, run: &Run) {
        (**self).advance(run);
    }
    fn pass(&mut self, run: &mut Run, ahead: &Ahead<'_>) {
        (**self).pass(run, ahead);
    }
    fn left_value(&self) -> &[u8] {
        (**self).left_value()
    }
    fn pinned_left_value(&self) -> PinnedBytes {
        (**self).pinned_left_value()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn status(&self) -> Result<()> {
        (**self).status()
    }
    fn pinned_value(&self) -> PinnedBytes {
        (**self).pinned_value()
    }
    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        (**self).set_upper_bound(user_key);
    }
    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        (**self).set_wanted_prefix_of(user_key);
    }
    fn passed(&self) -> Passed {
        (**self).passed()
    }
    fn go_on(&mut self, passed: Passed) {
        (**self).go_on(passed);
    }
    fn release(&mut self) {
        (**self).release();
    }
    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        (**self).deleted_run_end(snapshot, forward)
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool {
        (**self).was_seen(known, forward)
    }
    fn skip_deleted_run(
        &mut self,
        snapshot: SequenceNumber,
        forward: bool,
        known: Option<&KnownDeletedRun<'_>>,
    ) -> SkipDistance {
        (**self).skip_deleted_run(snapshot, forward, known)
    }
}
