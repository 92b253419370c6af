//! The files of one level, with what makes finding one of them fast.
//!
//! In: the files of a level in their order. Out: [`Level`], shared by all versions in which the level is the same.
//!
//! Invariants
//!  1. Level 0 is newest first; deeper levels ascend by key and do not overlap as internal keys.
//!  2. Heads are the first 8 bytes (big-endian, behind the prefix that all bounds of the level share) of the user
//!     keys of the files' bounds. They order as the keys do, but equal heads say nothing. Only sorted levels in
//!     bytewise order have them.

use super::FileMeta;
use esker_base::comparator::{KeyOrder, head};
use esker_base::sync::Arc;
use esker_format::key::{self, InternalKeyComparator};
use std::cmp::Ordering;

/// The files of one level.
#[derive(Debug, Default)]
pub struct Level {
    files: Arc<[Arc<FileMeta>]>,
    bytes: u64,
    heads: Option<Heads>,
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
        Level { files: files.into(), bytes, heads }
    }

    /// Its files; level 0 newest first, deeper levels by key.
    #[inline]
    pub fn files(&self) -> &Arc<[Arc<FileMeta>]> {
        &self.files
    }

    /// Bytes of all its files.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first file of a sorted level whose largest internal key is not below `internal_key`, if any: the only one,
    /// with its successors, that can hold it or anything after it. `files().len()` if there is none.
    #[inline]
    pub fn first_not_below(&self, internal_key: &[u8], icmp: &InternalKeyComparator) -> usize {
        let user_key = key::user_key(internal_key);
        let (from, to) = match &self.heads {
            Some(heads) => heads.candidates(user_key),
            None => (0, self.files.len()),
        };
        from + self.files[from..to].partition_point(|f| icmp.compare(&f.largest, internal_key).is_lt())
    }

    /// Whether file `index` of a sorted level begins above this user key.
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
        // The level ascends, so what its ends share, all bounds share.
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let head = |k: &[u8]| head(k, shared.min(k.len()));
        Some(Heads {
            prefix: first[..shared].into(),
            smallest: files.iter().map(|f| head(f.smallest_user_key())).collect(),
            largest: files.iter().map(|f| head(f.largest_user_key())).collect(),
        })
    }

    /// A number that compares with every head as `user_key` compares with the bound, where the two differ.
    #[inline]
    fn head_of(&self, user_key: &[u8]) -> u64 {
        let n = self.prefix.len();
        match user_key.get(..n) {
            Some(p) if *p == *self.prefix => head(user_key, n),
            // Outside of the level: 0 and MAX may equal a head, which sends the caller to the keys themselves.
            _ if user_key < &self.prefix[..] => 0,
            _ => u64::MAX,
        }
    }

    /// Half-open range of files among which the first with `largest >= user_key` is, if it is not the end of it.
    #[inline]
    fn candidates(&self, user_key: &[u8]) -> (usize, usize) {
        let h = self.head_of(user_key);
        let from = self.largest.partition_point(|&l| l < h);
        let equal = self.largest[from..].iter().take_while(|&&l| l == h).count();
        (from, from + equal)
    }
}
