//! Cursors above tables and memtables, and what flush and compaction keep.
//!
//! Reading order: [`merging`] (sorted runs to one order), [`level`] (files to one run),
//! [`range_del`] (what tombstones hide), [`db_iter`] (internal keys to user keys at one sequence
//! number), [`compaction_iter`] (internal keys to those that somebody may still need).

pub mod compaction_iter;
pub mod db_iter;
pub mod level;
pub mod merging;
pub mod range_del;
pub(crate) mod timestamped;
pub(crate) mod versions;

#[cfg(test)]
pub(crate) mod vec_iter;

pub use compaction_iter::{CompactionIterator, CompactionIteratorOptions, CompactionIteratorStats};
pub(crate) use db_iter::DeadRangesOfView;
pub use db_iter::{DbIter, DbIterOptions};
pub use level::{FileOpener, LevelFile, LevelIterator, LevelTombstones, OpenedFile};
pub use merging::{MergeChild, MergingIterator, merge_children};
pub use range_del::{RangeDelAggregator, RunTombstones};

#[cfg(test)]
mod tests;
