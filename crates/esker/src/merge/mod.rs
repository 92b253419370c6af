//! Merging: many sorted runs become one, for scans, flushes and compactions.
//!
//! Reading order: [`merging`] (sorted runs to one order), [`level`] (the files of a level to one
//! run), [`range_del`] (range tombstones), [`operands`] (merge operands to a value),
//! [`compaction_iter`] (internal keys to those that a reader may still need), [`timestamps`] (keys
//! of tables that store none).

pub(crate) mod call_times;
pub(crate) mod compaction_iter;
pub(crate) mod level;
pub(crate) mod merging;
pub(crate) mod operands;
pub(crate) mod range_del;
pub(crate) mod timestamps;

#[cfg(test)]
pub(crate) mod vec_iter;

pub(crate) use compaction_iter::{CompactionIterator, CompactionIteratorOptions, CompactionIteratorStats};
pub(crate) use level::{FileOpener, LevelIterator, LevelTombstones, OpenedFile};
pub(crate) use merging::{MergeChild, MergingIterator, merge_children};
pub(crate) use operands::MergeOperands;
pub(crate) use range_del::{RangeDelAggregator, RunTombstones};

#[cfg(test)]
pub(crate) mod tests;
