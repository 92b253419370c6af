//! A picker's findings about a level. A scan over files finds them once, and they are valid for
//! every later version with the same levels. Only the order of files may be outdated, because the
//! weight of deletions and the age of files change. RocksDB computes a file's weight only once,
//! too.
//!
//! In: successive versions. Out: slots for results, which versions share; `picker` fills them in
//! the background.

use super::{FileMeta, Level};
use crate::options::CompactionPri;
use esker_base::sync::{Arc, OnceLock};

/// A file whose compaction frees enough garbage.
#[derive(Debug)]
pub(crate) struct Garbage {
    /// The file's level.
    pub(crate) level: usize,
    pub(crate) file: Arc<FileMeta>,
    /// Whether no data lies below the file, so that it is rewritten in its own level.
    pub(crate) stays: bool,
}

/// Results about one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    waiting: Arc<OnceLock<Box<[Arc<FileMeta>]>>>,
    order: Arc<OnceLock<(CompactionPri, Vec<usize>)>>,
    garbage: Arc<OnceLock<Box<[Arc<FileMeta>]>>>,
}

impl Findings {
    /// For each level of a version with `levels`, the findings of `base` that still hold.
    /// `history`: whether compactions may drop the same history as before.
    pub(super) fn after(
        base: &[Findings],
        old: &[Arc<Level>],
        levels: &[Arc<Level>],
        history: bool,
    ) -> Box<[Findings]> {
        let is_same = |level: usize| Arc::ptr_eq(&old[level], &levels[level]);
        // Number of unchanged levels, counted from the deepest.
        let same_below = (0..levels.len()).rev().take_while(|level| is_same(*level)).count();
        let of_level = |(level, before): (usize, &Findings)| {
            let (mut now, last) = (Findings::default(), level + 1 == levels.len());
            if history && level + same_below >= levels.len() {
                now.waiting = Arc::clone(&before.waiting);
            }
            if is_same(level) {
                now.garbage = Arc::clone(&before.garbage);
            }
            if is_same(level) && (last || is_same(level + 1)) {
                now.order = Arc::clone(&before.order);
            }
            now
        };
        base.iter().enumerate().map(of_level).collect()
    }

    /// Files with no data below them that a compaction may improve once snapshots are released, by
    /// their largest sequence number.
    pub(crate) fn waiting(&self, find: impl FnOnce() -> Box<[Arc<FileMeta>]>) -> &[Arc<FileMeta>] {
        self.waiting.get_or_init(find)
    }

    /// Files whose compaction may free many bytes.
    pub(crate) fn garbage(&self, find: impl FnOnce() -> Box<[Arc<FileMeta>]>) -> &[Arc<FileMeta>] {
        self.garbage.get_or_init(find)
    }

    /// The level's files in the order in which they are compacted, as indexes, if they were
    /// computed for this priority. Only the order of the first requested priority is kept.
    pub(crate) fn order(&self, pri: CompactionPri, find: impl FnOnce() -> Vec<usize>) -> Option<&[usize]> {
        let (found_for, order) = self.order.get_or_init(|| (pri, find()));
        (*found_for == pri).then_some(order)
    }
}
