//! What a picker has found out about a level by walking over files: found once, and true of every
//! later version as long as the levels that it follows from are the same. One thing may be older:
//! in which order files go is as it was when it was found, though what deletions in them weigh, and
//! how old they are, goes on changing. RocksDB weighs a file once for all.
//!
//! In: versions that follow each other. Out: places for answers, which versions share; `picker`
//! fills them, in the background.

use super::{FileMeta, Level};
use crate::options::CompactionPri;
use esker_base::sync::{Arc, OnceLock};

/// A file that is worth a compaction for what can go.
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
    /// Of each level of a version with `levels`, as far as what was found in `base`, with levels of
    /// its own, is true still. `history`: whether the same history may be dropped.
    pub(super) fn after(
        base: &[Findings],
        old: &[Arc<Level>],
        levels: &[Arc<Level>],
        history: bool,
    ) -> Box<[Findings]> {
        let is_same = |level: usize| Arc::ptr_eq(&old[level], &levels[level]);
        // As many of the deepest levels as are the same.
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

    /// Which file of the level goes first: indexes, if they were found for this priority. The first
    /// priority that is asked for is the one that is kept.
    pub(crate) fn order(&self, pri: CompactionPri, find: impl FnOnce() -> Vec<usize>) -> Option<&[usize]> {
        let (found_for, order) = self.order.get_or_init(|| (pri, find()));
        (*found_for == pri).then_some(order)
    }
}
