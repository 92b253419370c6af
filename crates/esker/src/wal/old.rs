//! WALs that no family needs and that are still on disk: in the WAL directory or its archive.
//!
//! In: files that the database releases, readers that hold files, the age and size of the archive.
//! Out: the files to archive, and the files to delete. `instance/purge.rs` does the I/O.
//!
//! Invariants
//!  1. While a reader holds file N, no file numbered N or higher is deleted or overwritten. Files
//!     may still move into the archive.
//!  2. A file stays listed until it is deleted: a list that is made under the lock of the WALs is
//!     complete.
//!  3. A file may be cut at an offset ([`OldWals::cut`]): bytes behind it belong to a failed write,
//!     or follow damage at which a recovery stopped. They are not archived.

use crate::options::DbOptions;
use esker_base::FileNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A file of the archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ArchivedWal {
    pub(crate) bytes: u64,
    /// The time of the last write, in seconds since 1970.
    pub(crate) modified: u64,
}

/// The old WALs of a database.
#[derive(Debug, Default)]
pub(crate) struct OldWals {
    /// `WAL_ttl_seconds` and `WAL_size_limit_MB` in bytes; 0: no bound.
    ttl_seconds: u64,
    size_limit: u64,
    /// Old WALs in the WAL directory.
    retired: BTreeSet<FileNumber>,
    archived: BTreeMap<FileNumber, ArchivedWal>,
    /// Bytes of the archived files.
    archived_bytes: u64,
    /// Length of the part of a file with records of this database. In a file without an entry, that
    /// is the whole file.
    cuts: BTreeMap<FileNumber, u64>,
    /// Readers by the oldest file that each needs.
    held: BTreeMap<FileNumber, usize>,
}

impl OldWals {
    /// A list without files.
    pub(crate) fn new(options: &DbOptions) -> OldWals {
        OldWals {
            ttl_seconds: options.wal_ttl_seconds,
            size_limit: options.wal_size_limit_mb.saturating_mul(1 << 20),
            ..OldWals::default()
        }
    }

    /// Whether files are archived before they are deleted.
    pub(crate) fn archives(&self) -> bool {
        self.ttl_seconds > 0 || self.size_limit > 0
    }

    /// Records that a reader needs `number` and all later files.
    pub(crate) fn hold(&mut self, number: FileNumber) {
        *self.held.entry(number).or_default() += 1;
    }

    /// Ends one [`OldWals::hold`]. Returns whether files may be deleted now.
    pub(crate) fn release(&mut self, number: FileNumber) -> bool {
        if let Some(holds) = self.held.get_mut(&number) {
            *holds -= 1;
            if *holds == 0 {
                self.held.remove(&number);
            }
        }
        let oldest = match self.archives() {
            false => self.retired.first(),
            true if self.is_too_large() => self.archived.keys().next(),
            true => None,
        };
        oldest.is_some_and(|oldest| !self.is_held(*oldest))
    }

    /// Whether a reader needs the file.
    pub(crate) fn is_held(&self, number: FileNumber) -> bool {
        self.held.keys().next().is_some_and(|oldest| *oldest <= number)
    }

    /// Records that only the first `bytes` of a file hold records of this database.
    pub(crate) fn cut(&mut self, number: FileNumber, bytes: u64) {
        self.cuts.insert(number, bytes);
    }

    /// The length that [`OldWals::cut`] gave the file.
    pub(crate) fn cut_of(&self, number: FileNumber) -> Option<u64> {
        self.cuts.get(&number).copied()
    }

    /// Records that no family needs the file in the WAL directory.
    pub(crate) fn retire(&mut self, number: FileNumber) {
        self.retired.insert(number);
    }

    /// Records that the file is in the archive.
    pub(crate) fn note_archived(&mut self, number: FileNumber, file: ArchivedWal) {
        self.retired.remove(&number);
        self.cuts.remove(&number);
        self.archived_bytes += file.bytes;
        if let Some(before) = self.archived.insert(number, file) {
            self.archived_bytes -= before.bytes;
        }
    }

    /// Records that the file was deleted.
    pub(crate) fn forget(&mut self, number: FileNumber) {
        self.retired.remove(&number);
        self.cuts.remove(&number);
    }

    /// Files to archive, oldest first. They stay listed until [`OldWals::note_archived`] or
    /// [`OldWals::forget`].
    pub(crate) fn to_archive(&self) -> Vec<FileNumber> {
        if self.archives() { self.retired.iter().copied().collect() } else { Vec::new() }
    }

    /// Takes the files of the WAL directory that should be deleted, oldest first. `last`: no
    /// further reads will come.
    pub(crate) fn take_deletable(&mut self, last: bool) -> Vec<FileNumber> {
        if self.archives() {
            return Vec::new();
        }
        let goes = |number: &FileNumber| last || !self.is_held(*number);
        let gone: Vec<_> = self.retired.iter().copied().take_while(goes).collect();
        gone.iter().for_each(|number| self.forget(*number));
        gone
    }

    /// Takes the archived files that are too old at `now` (in seconds), or whose bytes exceed the
    /// limit, oldest first. Cost: one step for each file taken.
    pub(crate) fn take_expired(&mut self, now: u64) -> Vec<FileNumber> {
        let mut gone = Vec::new();
        while let Some((&number, &file)) = self.archived.first_key_value() {
            let is_old = self.ttl_seconds > 0 && now.saturating_sub(file.modified) > self.ttl_seconds;
            if self.is_held(number) || !(is_old || self.is_too_large()) {
                break;
            }
            self.archived_bytes -= file.bytes;
            self.archived.remove(&number);
            gone.push(number);
        }
        gone
    }

    fn is_too_large(&self) -> bool {
        self.size_limit > 0 && self.archived_bytes > self.size_limit
    }

    /// The archived file with this number.
    pub(crate) fn archived(&self, number: FileNumber) -> Option<ArchivedWal> {
        self.archived.get(&number).copied()
    }

    /// The oldest file behind `number`.
    pub(crate) fn first_after(&self, number: FileNumber) -> Option<FileNumber> {
        let behind = (Bound::Excluded(number), Bound::Unbounded);
        let archived = self.archived.range(behind).next().map(|(number, _)| *number);
        self.retired.range(behind).next().copied().into_iter().chain(archived).min()
    }

    /// The newest file before `number`.
    pub(crate) fn last_before(&self, number: FileNumber) -> Option<FileNumber> {
        let archived = self.archived.range(..number).next_back().map(|(number, _)| *number);
        archived.max(self.retired.range(..number).next_back().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn n(number: u64) -> FileNumber {
        FileNumber(number)
    }

    fn archive(ttl_seconds: u64, size_limit: u64) -> OldWals {
        let mut old = OldWals { ttl_seconds, size_limit, ..OldWals::default() };
        for number in 1..=5 {
            old.retire(n(number));
            old.note_archived(n(number), ArchivedWal { bytes: 10, modified: 100 * number });
        }
        old
    }

    #[test]
    fn a_released_file_is_deleted_unless_a_reader_needs_it_or_an_older_one() {
        let mut old = OldWals::default();
        for number in [3, 5, 8] {
            old.retire(n(number));
        }
        old.hold(n(5));
        old.hold(n(5));
        assert_eq!(old.take_deletable(false), [n(3)]);
        assert!(!old.release(n(5)), "another reader holds the file");
        assert_eq!(old.take_deletable(false), []);
        assert!(old.release(n(5)));
        assert_eq!(old.take_deletable(false), [n(5), n(8)]);
        assert_eq!(old.first_after(n(0)), None);
        old.retire(n(9));
        old.hold(n(0));
        assert_eq!(old.take_deletable(true), [n(9)], "a closing database deletes all old files");
    }

    #[test]
    fn files_leave_the_archive_by_age_and_by_size_oldest_first() {
        assert_eq!(archive(150, 0).take_expired(350), [n(1)]);
        assert_eq!(archive(150, 0).take_expired(90), [], "a file from the future does not expire");
        assert_eq!(archive(0, 25).take_expired(9999), [n(1), n(2), n(3)]);
        assert_eq!(archive(150, 25).take_expired(500), [n(1), n(2), n(3)]);
        assert_eq!(archive(0, 0).take_expired(9999), [], "files of an earlier configuration stay");
        let mut held = archive(1, 5);
        held.hold(n(3));
        assert_eq!(held.take_expired(9999), [n(1), n(2)]);
        assert!(held.release(n(3)));
        assert_eq!(held.take_expired(9999), [n(3), n(4), n(5)]);
    }

    #[test]
    fn a_file_is_found_before_and_behind_another_wherever_it_is() {
        let mut old = archive(1, 0);
        old.retire(n(7));
        old.retire(n(9));
        let behind = [0, 4, 5, 7, 9].map(|number| old.first_after(n(number)));
        assert_eq!(behind, [Some(n(1)), Some(n(5)), Some(n(7)), Some(n(9)), None]);
        let before = [1, 2, 7, 8, 20].map(|number| old.last_before(n(number)));
        assert_eq!(before, [None, Some(n(1)), Some(n(5)), Some(n(7)), Some(n(9))]);
    }

    #[test]
    fn an_archive_takes_held_files_too() {
        let mut old = OldWals { ttl_seconds: 60, ..OldWals::default() };
        old.retire(n(3));
        old.hold(n(3));
        assert_eq!(old.to_archive(), [n(3)]);
        assert_eq!(old.take_deletable(false), []);
        old.note_archived(n(3), ArchivedWal { bytes: 1, modified: 0 });
        assert_eq!(old.to_archive(), []);
    }
}
