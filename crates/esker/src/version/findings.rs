//! A picker's findings about a level: found once by a scan over files, and valid for every later
//! version with the same levels. Only the order of files may be outdated: the weight of deletions
//! and the age of files go on changing. RocksDB weighs a file once for all.
//!
//! In: versions that follow each other. Out: slots for answers, which versions share; `picker`
//! fills them, in the background.

use super::{FileMeta, Level};
use crate::options::CompactionPri;
use esker_base::sync::{Arc, OnceLock};

/// A file whose compaction frees enough garbage.
#[derive(Debug)]
pub(crate) struct Garbage {
    /// Its level.
    pub(crate) level: usize,
    pub(crate) file: Arc<FileMeta>,
    /// Nothing lies below it: it is rewritten where it is.
    pub(crate) stays: bool,
}

/// Answers about one level.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    waiting: Arc<OnceLock<Box<[Arc<FileMeta>]>>>,
    order: Arc<OnceLock<(CompactionPri, Vec<usize>)>>,
    garbage: Arc<OnceLock<Box<[Arc<FileMeta>]>>>,
}

impl Findings {
    /// For each level of a version with `levels`, the findings of `base` that still hold.
    /// `history`: whether the same history may be dropped.
    pub(super) fn after(
        base: &[Findings],
        old: &[Arc<Level>],
        levels: &[Arc<Level>],
        history: bool,
    ) -> Box<[Findings]> {
        let is_same = |level: usize| Arc::ptr_eq(&old[level], &levels[level]);
        // Number of deepest levels that are the same.
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

    /// Files with nothing below them that a compaction may improve, when snapshots go: by their
    /// largest sequence number.
    pub(crate) fn waiting(&self, find: impl FnOnce() -> Box<[Arc<FileMeta>]>) -> &[Arc<FileMeta>] {
        self.waiting.get_or_init(find)
    }

    /// Files whose compaction may free much.
    pub(crate) fn garbage(&self, find: impl FnOnce() -> Box<[Arc<FileMeta>]>) -> &[Arc<FileMeta>] {
        self.garbage.get_or_init(find)
    }

    /// The level's files in the order in which they are compacted, as indexes, if they were found
    /// for this priority. The first priority that is asked for is the one that is kept.
    pub(crate) fn order(&self, pri: CompactionPri, find: impl FnOnce() -> Vec<usize>) -> Option<&[usize]> {
        let (found_for, order) = self.order.get_or_init(|| (pri, find()));
        (*found_for == pri).then_some(order)
    }
}
