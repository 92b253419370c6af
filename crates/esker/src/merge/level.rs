//! The files of a sorted level as one sorted run.
//!
//! In: files that do not overlap, in key order, and an opener of files. Out: one cursor over their
//! entries ([`LevelIterator`]) and one over their range tombstones ([`LevelTombstones`]). They are
//! separate because a file's tombstones still hide entries of deeper levels after the file's last
//! own entry.
//!
//! Invariants
//!  1. `current` is the open cursor of file `index`, or `None`.
//!  2. A file is opened only by a seek to a key within its bounds, or by a step into it.

use super::range_del::{Cover, FileBounds, RunTombstones, TombstoneSource};
use crate::version::FileMeta;
use esker_base::sync::Arc;
use esker_base::{PinnedBytes, Result, SequenceNumber};
use esker_format::cursor::{
    DecodeAhead, DecodedRun, InternalIterator, KnownDeletedRun, LeftValue, ScanIterator, plain_cursor,
};
use esker_format::key::{self, InternalKeyComparator, RANGE_END_SENTINEL};
use esker_format::range_del::FragmentedRangeTombstones;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

/// The facts about a file that are needed before it is opened.
pub(crate) trait LevelFile: Send + Sync {
    /// The file's lower bound, an internal key.
    fn smallest(&self) -> &[u8];
    /// The file's upper bound, an internal key; exclusive if it ends in [`RANGE_END_SENTINEL`].
    fn largest(&self) -> &[u8];
    /// False if the file is known to hold no range tombstones.
    fn may_have_range_dels(&self) -> bool;
    /// Whether the scan that found `known` saw the file, and no entry of the file is newer than
    /// that scan.
    fn was_seen(&self, known: &KnownDeletedRun<'_>) -> bool;
}

impl<T: LevelFile + ?Sized> LevelFile for Arc<T> {
    fn smallest(&self) -> &[u8] {
        (**self).smallest()
    }
    fn largest(&self) -> &[u8] {
        (**self).largest()
    }
    fn may_have_range_dels(&self) -> bool {
        (**self).may_have_range_dels()
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>) -> bool {
        (**self).was_seen(known)
    }
}

impl LevelFile for FileMeta {
    fn smallest(&self) -> &[u8] {
        &self.data().smallest
    }
    fn largest(&self) -> &[u8] {
        &self.data().largest
    }
    fn may_have_range_dels(&self) -> bool {
        self.may_have_range_deletions()
    }
    fn was_seen(&self, known: &KnownDeletedRun<'_>) -> bool {
        self.number <= known.newest_file && self.data().largest_seqno <= known.sequence
    }
}

/// An open file.
pub(crate) struct OpenedFile {
    /// A cursor over the file's entries.
    pub iter: Box<dyn ScanIterator>,
    /// The file's range tombstones, not clipped to its bounds; `None` if it has none.
    pub range_dels: Option<Arc<FragmentedRangeTombstones>>,
}

impl fmt::Debug for OpenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenedFile").field("range_dels", &self.range_dels).finish_non_exhaustive()
    }
}

/// Opens files, mostly through the table cache.
pub(crate) trait FileOpener<F>: Send + Sync {
    /// Opens `file`: a cursor, not positioned, and its tombstones.
    /// # Errors
    /// Errors of opening the table, which end the scan.
    fn open(&self, file: &F) -> Result<OpenedFile>;
    /// The file's range tombstones, without its entries. Default: opens the file.
    /// # Errors
    /// As [`open`](Self::open).
    fn range_dels(&self, file: &F) -> Result<Option<Arc<FragmentedRangeTombstones>>> {
        Ok(self.open(file)?.range_dels)
    }
    /// Takes the cursor over `file` when its level is closed. The cursor has not failed, and may be
    /// at any position. Default: drops it.
    fn keep(&self, _file: &F, _iter: Box<dyn ScanIterator>) {}
    /// Returns a cursor over `file` that `keep` took. The caller sets its bounds and positions it.
    /// Default: none.
    fn take_kept(&self, _file: &F) -> Option<Box<dyn ScanIterator>> {
        None
    }
    /// For a scan over the prefix of `wanted`: whether it surely needs neither `user_key` nor any
    /// key beyond. Default: false.
    fn has_other_prefix(&self, _user_key: &[u8], _wanted: &[u8]) -> bool {
        false
    }
}

/// The first file that does not end before `target`, an internal key; `files.len()` if all do.
fn find_file<F: LevelFile>(icmp: &InternalKeyComparator, files: &[F], target: &[u8]) -> usize {
    files.partition_point(|f| icmp.compare(f.largest(), target).is_lt())
}

/// A cursor over the entries of a sorted level. Dropping it returns the cursor of the current file
/// to the opener.
pub(crate) struct LevelIterator<F: LevelFile, O: FileOpener<F>> {
    icmp: InternalKeyComparator,
    files: Arc<[F]>,
    opener: Arc<O>,
    index: usize,
    current: Option<Box<dyn ScanIterator>>,
    upper_bound: Option<Vec<u8>>,
    wanted_prefix_of: Option<Vec<u8>>,
    status: Result<()>,
}

impl<F: LevelFile, O: FileOpener<F>> Drop for LevelIterator<F, O> {
    fn drop(&mut self) {
        if let (Some(iter), Some(file)) = (self.current.take(), self.files.get(self.index)) {
            self.opener.keep(file, iter);
        }
    }
}

impl<F: LevelFile, O: FileOpener<F>> fmt::Debug for LevelIterator<F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelIterator")
            .field("files", &self.files.len())
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl<F: LevelFile, O: FileOpener<F>> LevelIterator<F, O> {
    /// A cursor over `files`, which are in key order and do not overlap. Opens no file.
    pub(crate) fn new(icmp: InternalKeyComparator, files: Arc<[F]>, opener: Arc<O>) -> LevelIterator<F, O> {
        let index = files.len();
        let (current, upper_bound, wanted_prefix_of) = (None, None, None);
        LevelIterator { icmp, files, opener, index, current, upper_bound, wanted_prefix_of, status: Ok(()) }
    }

    /// Makes file `index` the current one; `usize::MAX` and `files.len()` are beyond the ends.
    /// Returns false if there is no such file.
    fn enter(&mut self, index: usize) -> bool {
        if index >= self.files.len() {
            self.current = None;
            return false;
        }
        if self.current.is_none() || self.index != index {
            self.current = None;
            self.index = index;
            let file = &self.files[index];
            let kept = self.opener.take_kept(file);
            // A reused cursor has the bounds of its former level.
            let is_kept = kept.is_some();
            match kept.map_or_else(|| self.opener.open(file).map(|opened| opened.iter), Ok) {
                Ok(mut iter) => {
                    if is_kept || self.upper_bound.is_some() {
                        iter.set_upper_bound(self.upper_bound.as_deref());
                    }
                    if is_kept || self.wanted_prefix_of.is_some() {
                        iter.set_wanted_prefix_of(self.wanted_prefix_of.as_deref());
                    }
                    self.current = Some(iter);
                }
                Err(error) => {
                    self.status = Err(error);
                    return false;
                }
            }
        }
        true
    }

    /// Moves from the end of a file to the first entry of the next file that has entries.
    fn settle_forward(&mut self) {
        while let Some(iter) = &self.current
            && !iter.valid()
        {
            if let Err(error) = iter.status() {
                self.status = Err(error);
                self.current = None;
                return;
            }
            let (next, progress) = (self.index + 1, iter.progress());
            if self.starts_beyond_bound(next) || self.lies_beyond_prefix(next, true) || !self.enter(next) {
                self.current = None;
                return;
            }
            if let Some(iter) = &mut self.current {
                iter.continue_from(progress);
                iter.seek_to_first();
            }
        }
    }

    /// Moves from the start of a file to the last entry of the previous file that has entries.
    fn settle_backward(&mut self) {
        while let Some(iter) = &self.current
            && !iter.valid()
        {
            if let Err(error) = iter.status() {
                self.status = Err(error);
                self.current = None;
                return;
            }
            let (next, progress) = (self.index.wrapping_sub(1), iter.progress());
            if self.lies_beyond_prefix(next, false) || !self.enter(next) {
                self.current = None;
                return;
            }
            if let Some(iter) = &mut self.current {
                iter.continue_from(progress);
                iter.seek_to_last();
            }
        }
    }

    /// Moves one entry forward; returns whether the cursor is then valid.
    #[inline]
    fn step_forward(&mut self) -> bool {
        let within_file = self.current.as_mut().is_some_and(|iter| iter.next_key().is_some());
        within_file || {
            self.settle_forward();
            self.valid()
        }
    }

    /// Moves one entry backward; returns whether the cursor is then valid.
    #[inline]
    fn step_backward(&mut self) -> bool {
        let within_file = self.current.as_mut().is_some_and(|iter| iter.prev_key().is_some());
        within_file || {
            self.settle_backward();
            self.valid()
        }
    }

    fn starts_beyond_bound(&self, index: usize) -> bool {
        match (&self.upper_bound, self.files.get(index)) {
            (Some(bound), Some(file)) => {
                self.icmp.compare_user_keys(key::user_key(file.smallest()), bound).is_ge()
            }
            _ => false,
        }
    }

    /// Whether the file, and all files beyond it, have only other prefixes than the wanted keys:
    /// keys of one prefix are contiguous. Without this check, files whose filters exclude the
    /// prefix would lead the scan into ever further files.
    fn lies_beyond_prefix(&self, index: usize, forward: bool) -> bool {
        let (Some(wanted), Some(file)) = (&self.wanted_prefix_of, self.files.get(index)) else {
            return false;
        };
        let edge = key::user_key(if forward { file.smallest() } else { file.largest() });
        let order = self.icmp.compare_user_keys(edge, wanted);
        order == if forward { Ordering::Greater } else { Ordering::Less }
            && self.opener.has_other_prefix(edge, wanted)
    }

    /// Whether `known` saw all files from the current one to the one with `known.run_end`.
    fn were_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool {
        let reaches_into = |file: &F| {
            let (start, end) = (key::user_key(file.smallest()), key::user_key(file.largest()));
            if forward {
                self.icmp.compare_user_keys(start, known.run_end).is_lt()
            } else {
                self.icmp.compare_user_keys(end, known.run_end).is_ge()
            }
        };
        let (before, from) = self.files.split_at(self.index.min(self.files.len()));
        if forward {
            from.iter().take_while(|file| reaches_into(file)).all(|file| file.was_seen(known))
        } else {
            let backward = from.iter().take(1).chain(before.iter().rev());
            backward.take_while(|file| reaches_into(file)).all(|file| file.was_seen(known))
        }
    }

    fn open_iter(&self) -> &dyn ScanIterator {
        self.current.as_deref().expect("REQUIRES: valid()")
    }
}

impl<F: LevelFile, O: FileOpener<F>> InternalIterator for LevelIterator<F, O> {
    #[inline]
    fn valid(&self) -> bool {
        self.current.as_ref().is_some_and(|iter| iter.valid())
    }

    fn seek_to_first(&mut self) {
        self.status = Ok(());
        if self.starts_beyond_bound(0) {
            self.current = None;
        } else if self.enter(0)
            && let Some(iter) = &mut self.current
        {
            iter.seek_to_first();
            self.settle_forward();
        }
    }

    fn seek_to_last(&mut self) {
        self.status = Ok(());
        if self.enter(self.files.len().wrapping_sub(1))
            && let Some(iter) = &mut self.current
        {
            iter.seek_to_last();
            self.settle_backward();
        }
    }

    fn seek(&mut self, target: &[u8]) {
        self.status = Ok(());
        let index = find_file(&self.icmp, &self.files, target);
        if self.starts_beyond_bound(index) {
            self.current = None;
        } else if self.enter(index)
            && let Some(iter) = &mut self.current
        {
            iter.seek(target);
            self.settle_forward();
        }
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.status = Ok(());
        // The last file that does not begin after the target.
        let behind = self.files.partition_point(|f| self.icmp.compare(f.smallest(), target).is_le());
        if self.enter(behind.wrapping_sub(1))
            && let Some(iter) = &mut self.current
        {
            iter.seek_for_prev(target);
            self.settle_backward();
        }
    }

    #[inline]
    fn next(&mut self) {
        self.step_forward();
    }

    #[inline]
    fn prev(&mut self) {
        self.step_backward();
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.open_iter().key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.open_iter().value()
    }

    fn status(&self) -> Result<()> {
        self.status.clone()
    }

    fn pinned_value(&self) -> PinnedBytes {
        self.open_iter().pinned_value()
    }
}

impl<F: LevelFile, O: FileOpener<F>> ScanIterator for LevelIterator<F, O> {
    plain_cursor!(self; progress, continue_from, skip_deleted_run);

    #[inline]
    fn next_key(&mut self) -> Option<&[u8]> {
        self.step_forward().then(|| self.open_iter().key())
    }

    #[inline]
    fn prev_key(&mut self) -> Option<&[u8]> {
        self.step_backward().then(|| self.open_iter().key())
    }

    #[inline]
    fn prev_key_leaving(&mut self, left: &mut LeftValue) -> Option<&[u8]> {
        let Some(iter) = &mut self.current else { return None };
        if iter.prev_key_leaving(left).is_none() {
            // The file's cursor, which may have lent the value, is about to be closed.
            left.keep_lent(&**iter);
            self.settle_backward();
        }
        self.valid().then(|| self.open_iter().key())
    }

    #[inline]
    fn left_value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |iter| iter.left_value())
    }

    fn pinned_left_value(&self) -> PinnedBytes {
        self.current.as_ref().map_or_else(PinnedBytes::empty, |iter| iter.pinned_left_value())
    }

    fn set_upper_bound(&mut self, user_key: Option<&[u8]>) {
        set_bound(&mut self.upper_bound, user_key);
        if let Some(iter) = &mut self.current {
            iter.set_upper_bound(user_key);
        }
    }

    fn set_wanted_prefix_of(&mut self, user_key: Option<&[u8]>) {
        self.wanted_prefix_of = user_key.map(<[u8]>::to_vec);
        if let Some(iter) = &mut self.current {
            iter.set_wanted_prefix_of(user_key);
        }
    }

    fn release(&mut self) {
        if let Some(iter) = &mut self.current {
            iter.release();
        }
    }

    fn look_ahead(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        match &mut self.current {
            Some(iter) => iter.look_ahead(run, ahead),
            None => run.clear(),
        }
    }

    fn advance(&mut self, run: &DecodedRun) {
        if let Some(iter) = &mut self.current {
            iter.advance(run);
        }
    }

    fn pass(&mut self, run: &mut DecodedRun, ahead: &DecodeAhead<'_>) {
        let Some(iter) = &mut self.current else { return run.clear() };
        iter.pass(run, ahead);
        if !run.is_empty() || iter.valid() {
            return;
        }
        run.release_block();
        if ahead.forward {
            self.settle_forward();
        } else {
            self.settle_backward();
        }
    }

    fn deleted_run_end(&self, snapshot: SequenceNumber, forward: bool) -> Option<&[u8]> {
        self.open_iter().deleted_run_end(snapshot, forward)
    }

    fn was_seen(&self, known: &KnownDeletedRun<'_>, forward: bool) -> bool {
        self.were_seen(known, forward)
    }
}

/// The range tombstones of a sorted level, each clipped to its file's bounds.
pub(crate) struct LevelTombstones<F, O> {
    icmp: InternalKeyComparator,
    files: Arc<[F]>,
    opener: Arc<O>,
    snapshot: SequenceNumber,
    /// The file whose user keys contain the window, or the file after the gap with the window.
    index: usize,
    in_gap: bool,
    /// The tombstones of file `loaded`, if it has any.
    run: Option<RunTombstones>,
    loaded: usize,
    /// Whether the window is the last user key of file `index`, whose versions continue in the next
    /// file.
    shared_edge: bool,
}

impl<F, O> fmt::Debug for LevelTombstones<F, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LevelTombstones")
            .field("files", &self.files.len())
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl<F: LevelFile, O: FileOpener<F>> LevelTombstones<F, O> {
    /// The tombstones of `files` that `snapshot` sees. The files are in key order and do not
    /// overlap. Opens no file.
    pub(crate) fn new(
        icmp: InternalKeyComparator,
        files: Arc<[F]>,
        opener: Arc<O>,
        snapshot: SequenceNumber,
    ) -> LevelTombstones<F, O> {
        let loaded = files.len();
        LevelTombstones {
            icmp,
            files,
            opener,
            snapshot,
            index: 0,
            in_gap: true,
            run: None,
            loaded,
            shared_edge: false,
        }
    }

    fn load(&mut self, index: usize) -> Result<()> {
        if self.loaded == index {
            return Ok(());
        }
        let file = &self.files[index];
        self.run = None;
        self.loaded = self.files.len();
        if file.may_have_range_dels()
            && let Some(range_dels) = self.opener.range_dels(file)?
        {
            let bounds = FileBounds::new(file.smallest(), file.largest());
            self.run = Some(RunTombstones::new(self.icmp.clone(), range_dels, Some(bounds), self.snapshot));
        }
        self.loaded = index;
        Ok(())
    }

    /// Whether file `index` ends before `user_key`.
    fn ends_before(&self, index: usize, user_key: &[u8]) -> bool {
        let largest = self.files[index].largest();
        let order = self.icmp.compare_user_keys(key::user_key(largest), user_key);
        order.is_lt() || (order.is_eq() && key::trailer(largest) == RANGE_END_SENTINEL)
    }

    /// The first file that does not end before `user_key`; scans mostly find it next to the last
    /// one.
    fn find(&self, user_key: &[u8]) -> usize {
        let (i, len) = (self.index, self.files.len());
        if i < len && (i == 0 || self.ends_before(i - 1, user_key)) {
            if !self.ends_before(i, user_key) {
                return i;
            }
            if i + 1 == len || !self.ends_before(i + 1, user_key) {
                return i + 1;
            }
        }
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = low.midpoint(high);
            if self.ends_before(middle, user_key) { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn starts_at_or_before(&self, index: usize, user_key: &[u8]) -> bool {
        self.files
            .get(index)
            .is_some_and(|f| self.icmp.compare_user_keys(key::user_key(f.smallest()), user_key).is_le())
    }

    fn cover_in(&mut self, index: usize, user_key: &[u8]) -> Result<Cover> {
        self.load(index)?;
        match &mut self.run {
            Some(run) => run.locate(user_key),
            None => Ok(Cover::NONE),
        }
    }
}

impl<F: LevelFile, O: FileOpener<F>> TombstoneSource for LevelTombstones<F, O> {
    fn locate(&mut self, user_key: &[u8]) -> Result<Cover> {
        self.index = self.find(user_key);
        self.shared_edge = false;
        self.in_gap = !self.starts_at_or_before(self.index, user_key);
        if self.in_gap {
            return Ok(Cover::NONE);
        }
        let mut cover = self.cover_in(self.index, user_key)?;
        // Versions of one user key may be spread over several files, each with its part of the
        // tombstones.
        while self.starts_at_or_before(self.index + 1, user_key) {
            self.shared_edge = true;
            self.index += 1;
            cover = cover.or(self.cover_in(self.index, user_key)?);
        }
        Ok(cover)
    }

    fn window(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let file = self.files.get(self.index);
        let start = file.map(|f| key::user_key(f.smallest()));
        if self.in_gap {
            let low = self.index.checked_sub(1).map_or(Bound::Unbounded, |before| {
                let largest = self.files[before].largest();
                if key::trailer(largest) == RANGE_END_SENTINEL {
                    Bound::Included(key::user_key(largest))
                } else {
                    Bound::Excluded(key::user_key(largest))
                }
            });
            return (low, start.map_or(Bound::Unbounded, Bound::Excluded));
        }
        let start = start.expect("not in a gap, so in a file");
        if self.shared_edge {
            return (Bound::Included(start), Bound::Included(start));
        }
        match &self.run {
            Some(run) => run.window(),
            // No key is hidden up to the next file, which decides about a user key that both have.
            None => {
                let next = self.files.get(self.index + 1).map(|f| key::user_key(f.smallest()));
                (Bound::Included(start), next.map_or(Bound::Unbounded, Bound::Excluded))
            }
        }
    }

    fn covered_until(&self, end: &mut Vec<u8>) {
        self.run.as_ref().expect("REQUIRES: a hidden window").covered_until(end);
    }

    fn covered_since(&self, start: &mut Vec<u8>) {
        self.run.as_ref().expect("REQUIRES: a hidden window").covered_since(start);
    }
}

/// Replaces `bound` by a copy of `key`, in the same memory if it fits.
pub(crate) fn set_bound(bound: &mut Option<Vec<u8>>, key: Option<&[u8]>) {
    match (bound.as_mut(), key) {
        (Some(bound), Some(key)) => {
            bound.clear();
            bound.extend_from_slice(key);
        }
        (_, key) => *bound = key.map(<[u8]>::to_vec),
    }
}

#[cfg(test)]
mod tests;
