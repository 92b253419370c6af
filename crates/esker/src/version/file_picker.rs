//! Finds the files that may hold a key, newest first.
//!
//! In: a version and an internal key to seek. Out: files, level 0 first, then at most one file per
//! level, or several if the versions of the user key continue in the level's next file (RocksDB
//! `db/version_set.cc`, `FilePicker`).

use super::{FileMeta, Level, Version};
use esker_base::sync::Arc;
use esker_format::key;

/// Iterator over `(level, file)`. A file is yielded only if its bounds do not exclude the user key;
/// the caller stops at its first hit.
#[derive(Debug)]
pub struct Candidates<'a> {
    version: &'a Version,
    internal_key: &'a [u8],
    level: usize,
    /// Index of the next file to check in `level`; `None` until the level has been searched.
    next: Option<usize>,
}

impl<'a> Candidates<'a> {
    #[inline]
    pub(super) fn new(version: &'a Version, internal_key: &'a [u8]) -> Candidates<'a> {
        Candidates { version, internal_key, level: 0, next: Some(0) }
    }

    fn next_in_level0(&mut self) -> Option<&'a Arc<FileMeta>> {
        let user_key = key::user_key(self.internal_key);
        let icmp = self.version.icmp();
        let from = self.next?;
        let files = &self.version.files(0)[from..];
        let hit = files.iter().position(|f| {
            icmp.compare_user_keys(user_key, f.smallest_user_key()).is_ge()
                && icmp.compare_user_keys(user_key, f.largest_user_key()).is_le()
        })?;
        self.next = Some(from + hit + 1);
        Some(&files[hit])
    }

    fn next_in_sorted_level(&mut self, level: &'a Level) -> Option<&'a Arc<FileMeta>> {
        let icmp = self.version.icmp();
        let index = match self.next {
            Some(index) => index,
            None if level.files().is_empty() => return None,
            None => level.first_not_below(self.internal_key, icmp),
        };
        let file = level.files().get(index)?;
        if level.begins_above(index, key::user_key(self.internal_key), icmp) {
            return None;
        }
        self.next = Some(index + 1);
        Some(file)
    }

    /// Whether the file behind `file` must be checked, too: it can hold older versions of the user
    /// key only if `file` ends with that user key.
    fn may_go_on(&self, file: &FileMeta) -> bool {
        self.version.icmp().same_user_key(file.largest_user_key(), key::user_key(self.internal_key))
    }
}

impl<'a> Iterator for Candidates<'a> {
    type Item = (usize, &'a Arc<FileMeta>);

    fn next(&mut self) -> Option<(usize, &'a Arc<FileMeta>)> {
        if self.level == 0 {
            if let Some(file) = self.next_in_level0() {
                return Some((0, file));
            }
            self.level = 1;
            self.next = None;
        }
        while let Some(level) = self.version.levels().get(self.level) {
            let number = self.level;
            let found = self.next_in_sorted_level(level);
            if !found.is_some_and(|f| self.may_go_on(f)) {
                self.level += 1;
                self.next = None;
            }
            if let Some(file) = found {
                return Some((number, file));
            }
        }
        None
    }
}
