//! Picks the files of `delete_files_in_ranges`: files all of whose keys lie in a range.
//!
//! In: a version, the running compactions, ranges of user keys. Out: a plan without outputs, over
//! all levels with such files.
//! Source: RocksDB `DBImpl::DeleteFilesInRanges`,
//! `VersionStorageInfo::GetCleanInputsWithinInterval`.
//!
//! Invariants
//!  1. Files of level 0 stay: they are ordered by age, and overlap each other.
//!  2. In a level, either all versions of a user key are deleted or none, unless some are being
//!     compacted.

use super::inputs::shrink_to_clean_cut;
use super::plan::Draft;
use super::score::LevelSizes;
use super::{CompactionPlan, CompactionReason, LevelFiles, PickerOptions, RunningCompactions};
use crate::options::RangeOpt;
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use std::ops::Range;

/// The files of levels below 0 that lie within a range and are not being compacted; `None` if there
/// are none. Damaged files are included. `include_end`: includes files whose last key is the
/// `limit` of a range.
pub(crate) fn pick_whole_files(
    version: &Arc<Version>,
    options: &PickerOptions,
    running: &RunningCompactions,
    ranges: &[RangeOpt<'_>],
    include_end: bool,
) -> Option<CompactionPlan> {
    let of_level = |level: usize| {
        let mut taken: Vec<_> =
            ranges.iter().map(|range| within(version, level, *range, include_end)).collect();
        taken.sort_by_key(|taken| taken.start);
        let mut files: Vec<Arc<FileMeta>> = Vec::new();
        let mut next = 0;
        for taken in taken {
            let new = taken.start.max(next)..taken.end.max(next);
            next = new.end;
            files.extend(version.files(level)[new].iter().filter(|f| !running.is_input(f.number)).cloned());
        }
        LevelFiles { level, files }
    };
    let inputs: Vec<LevelFiles> =
        (1..version.num_levels()).map(of_level).filter(|of| !of.files.is_empty()).collect();
    let output_level = inputs.last()?.level;
    let reason = CompactionReason::ManualCompaction;
    let draft = Draft {
        inputs,
        output_level,
        reason,
        score: 0.0,
        level0_disjoint: false,
        output_path: None,
        may_move: false,
        shrinks_at_bottom: false,
    };
    let plan = draft.finish(version, options, &LevelSizes::new(version, options));
    Some(CompactionPlan { is_deletion: true, compact_cursor: None, ..plan })
}

/// The largest clean cut of a sorted level that lies within the range.
fn within(version: &Version, level: usize, range: RangeOpt<'_>, include_end: bool) -> Range<usize> {
    let (files, icmp) = (version.files(level), version.icmp());
    let plain = icmp.without_timestamp();
    let compare = |of_file: &[u8], key: &[u8]| plain.compare_user_keys(icmp.split_timestamp(of_file).0, key);
    let starts_before = |f: &Arc<FileMeta>, start| compare(f.smallest_user_key(), start).is_lt();
    let ends_within = |f: &Arc<FileMeta>, limit| {
        let order = compare(f.largest_user_key(), limit);
        order.is_lt() || include_end && order.is_eq()
    };
    let from = range.start.map_or(0, |start| files.partition_point(|f| starts_before(f, start)));
    let to = range.limit.map_or(files.len(), |limit| files.partition_point(|f| ends_within(f, limit)));
    shrink_to_clean_cut(version, level, from..to)
}
