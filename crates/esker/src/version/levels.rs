//! The files of one level, with an index that finds a file fast.
//!
//! In: the files of a level in their order. Out: [`Level`], shared by all versions in which the
//! level is the same.
//!
//! Invariants
//!  1. Level 0 is newest first; deeper levels ascend by key and do not overlap as internal keys.
//!  2. Heads are the first 8 bytes (big-endian, behind the common prefix of all bounds of the
//!     level) of the user keys of the files' bounds. Different heads are ordered as their keys;
//!     equal heads decide nothing. Only sorted levels in bytewise order have them.
//!  3. Sums over all files are computed once, when the level is made: a version that shares a level
//!     iterates over none of its files. Only [`Level::weights`] is computed at the first use,
//!     because a new file's properties become known later.

use super::{FileMeta, Weights};
use esker_base::FileNumber;
use esker_base::comparator::{KeyOrder, head};
use esker_base::sync::{Arc, OnceLock};
use esker_format::key::{self, InternalKeyComparator};
use std::cmp::Ordering;

/// The files of one level.
#[derive(Debug, Default)]
pub struct Level {
    files: Arc<[Arc<FileMeta>]>,
    bytes: u64,
    heads: Option<Heads>,
    newest_file: FileNumber,
    marked: Box<[Arc<FileMeta>]>,
    oldest_ancestor_time: Option<u64>,
    oldest_write_time: Option<u64>,
    oldest_blob_files: Box<[FileNumber]>,
    weights: OnceLock<Weights>,
}

/// Bounds as numbers, side by side: a search touches one cache line per step and no file.
#[derive(Debug)]
struct Heads {
    prefix: Box<[u8]>,
    smallest: Box<[u64]>,
    largest: Box<[u64]>,
}

impl Level {
    /// `files` in the order of invariant 1.
    pub fn new(files: Vec<Arc<FileMeta>>, sorted: bool, icmp: &InternalKeyComparator) -> Level {
        let bytes = files.iter().map(|f| f.file_size).sum();
        let heads = (sorted && icmp.order() == KeyOrder::Bytewise).then(|| Heads::of(&files)).flatten();
        let known = |time: &u64| *time > 0;
        let mut blob_files: Vec<_> = files.iter().filter_map(|f| f.oldest_blob_file_number).collect();
        blob_files.sort_unstable();
        blob_files.dedup();
        Level {
            bytes,
            heads,
            newest_file: files.iter().map(|f| f.number).max().unwrap_or_default(),
            marked: files.iter().filter(|f| f.marked_for_compaction).cloned().collect(),
            oldest_ancestor_time: files.iter().map(|f| f.oldest_ancestor_time).filter(known).min(),
            oldest_write_time: files.iter().map(|f| f.write_time()).filter(known).min(),
            oldest_blob_files: blob_files.into(),
            weights: OnceLock::new(),
            files: files.into(),
        }
    }

    /// The level's files; level 0 newest first, deeper levels by key.
    #[inline]
    pub fn files(&self) -> &Arc<[Arc<FileMeta>]> {
        &self.files
    }

    /// Bytes of all the level's files.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The highest file number; 0 without files.
    #[inline]
    pub fn newest_file(&self) -> FileNumber {
        self.newest_file
    }

    /// Files that their writer has marked for compaction, in the level's order.
    #[inline]
    pub fn marked(&self) -> &[Arc<FileMeta>] {
        &self.marked
    }

    /// The smallest `oldest_ancestor_time` of files that have one.
    #[inline]
    pub fn oldest_ancestor_time(&self) -> Option<u64> {
        self.oldest_ancestor_time
    }

    /// The smallest [`FileMeta::write_time`] of files that have one.
    #[inline]
    pub fn oldest_write_time(&self) -> Option<u64> {
        self.oldest_write_time
    }

    /// The blob files that are the oldest of some file, ascending.
    #[inline]
    pub fn oldest_blob_files(&self) -> &[FileNumber] {
        &self.oldest_blob_files
    }

    /// The sum of the weights of all files. Facts that are learned after the first call count only
    /// in the next version of the level. So no caller iterates over its files under the db mutex.
    #[inline]
    pub fn weights(&self) -> &Weights {
        self.weights.get_or_init(|| self.files.iter().map(|f| Weights::of(f)).sum())
    }

    /// The first file of a sorted level whose largest internal key is not below `internal_key`, if
    /// any: only it and its successors can hold this key or later ones. `files().len()` if there is
    /// none.
    #[inline]
    pub fn first_not_below(&self, internal_key: &[u8], icmp: &InternalKeyComparator) -> usize {
        let user_key = key::user_key(internal_key);
        let (from, to) = match &self.heads {
            Some(heads) => heads.candidates(user_key),
            None => (0, self.files.len()),
        };
        from + self.files[from..to].partition_point(|f| icmp.compare(&f.largest, internal_key).is_lt())
    }

    /// Whether file `index` of a sorted level begins after this user key.
    #[inline]
    pub fn begins_above(&self, index: usize, user_key: &[u8], icmp: &InternalKeyComparator) -> bool {
        if let Some(heads) = &self.heads {
            match heads.smallest[index].cmp(&heads.head_of(user_key)) {
                Ordering::Less => return false,
                Ordering::Greater => return true,
                Ordering::Equal => {}
            }
        }
        icmp.compare_user_keys(user_key, self.files[index].smallest_user_key()).is_lt()
    }
}

impl Heads {
    fn of(files: &[Arc<FileMeta>]) -> Option<Heads> {
        let (first, last) = (files.first()?.smallest_user_key(), files.last()?.largest_user_key());
        // The level ascends, so the common prefix of its two ends is common to all bounds.
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let head = |k: &[u8]| head(k, shared.min(k.len()));
        Some(Heads {
            prefix: first[..shared].into(),
            smallest: files.iter().map(|f| head(f.smallest_user_key())).collect(),
            largest: files.iter().map(|f| head(f.largest_user_key())).collect(),
        })
    }

    /// A number for `user_key`: where it differs from a head, it compares as `user_key` does with
    /// that head's bound.
    #[inline]
    fn head_of(&self, user_key: &[u8]) -> u64 {
        let n = self.prefix.len();
        match user_key.get(..n) {
            Some(p) if *p == *self.prefix => head(user_key, n),
            // The key lies outside of the level. 0 and MAX may equal a head; the caller then
            // compares the keys themselves.
            _ if user_key < &self.prefix[..] => 0,
            _ => u64::MAX,
        }
    }

    /// A half-open range of files: the first file with `largest >= user_key` is in it or at its
    /// end.
    #[inline]
    fn candidates(&self, user_key: &[u8]) -> (usize, usize) {
        let h = self.head_of(user_key);
        let from = self.largest.partition_point(|&l| l < h);
        let equal = self.largest[from..].iter().take_while(|&&l| l == h).count();
        (from, from + equal)
    }
}
