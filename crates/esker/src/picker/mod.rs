//! Picks the files to compact next. In: a version. Out: a plan. Pickers are pure: no lock, no I/O,
//! no clock.
//!
//! Reading order: [`options`] (a family's options), [`running`] (running compactions), [`score`]
//! (target size and urgency of each level), [`plan`] (the result), `inputs` (geometry of files),
//! `priority` (the order of a level's files), `proximal` (a second level for young entries),
//! `marked` (files due for other reasons than size), `garbage` (files whose compaction frees much),
//! [`leveled`], `universal` with `incremental` (parts of runs), `fifo`, [`manual`] and
//! [`whole_files`] (the ways to find a plan).
//!
//! A job calls [`pick`] under the db mutex and registers the plan in the family's
//! [`RunningCompactions`] under the same hold. It runs the plan, and removes it under the hold that
//! installs the new version.

mod fifo;
pub(crate) mod garbage;
mod incremental;
pub(crate) mod inputs;
pub(crate) mod leveled;
pub(crate) mod manual;
mod marked;
pub(crate) mod options;
pub(crate) mod plan;
mod priority;
mod proximal;
pub(crate) mod running;
pub(crate) mod score;
mod universal;
pub(crate) mod whole_files;

pub(crate) use crate::observe::CompactionReason;
pub(crate) use crate::options::{BottommostLevelCompaction, CompactionPri, CompactionStyle};
pub(crate) use marked::can_be_asked;
pub(crate) use options::{NONE_SUGGESTED, PickContext, PickerOptions};
pub(crate) use plan::{CompactionPlan, LevelFiles, Overrides};
pub(crate) use running::{RunningCompactions, RunningId};

use crate::version::Version;
use esker_base::SequenceNumber;
use esker_base::sync::Arc;

/// The most urgent compaction that is due and that no running compaction blocks. Ignores
/// `disable_auto_compactions`: the scheduler decides whether to call it.
pub(crate) fn pick(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    match context.options.compaction_style {
        CompactionStyle::Level => {
            garbage::pick_covered(version, context).or_else(|| leveled::pick(version, context))
        }
        CompactionStyle::Universal => {
            garbage::pick_covered(version, context).or_else(|| universal::pick(version, context))
        }
        CompactionStyle::Fifo => fifo::pick(version, context),
        CompactionStyle::None => None,
    }
}

/// Whether [`pick`] may find a compaction: some level is due, or some file is marked.
pub(crate) fn needs_compaction(version: &Version, context: &PickContext<'_>) -> bool {
    match context.options.compaction_style {
        CompactionStyle::Level => {
            garbage::covered(version, context).next().is_some() || leveled::needs_compaction(version, context)
        }
        CompactionStyle::Universal => {
            garbage::covered(version, context).next().is_some()
                || universal::needs_compaction(version, context)
        }
        CompactionStyle::Fifo => fifo::needs_compaction(version, context),
        CompactionStyle::None => false,
    }
}

/// Does in advance the scans over files that [`pick`] and its siblings would do under the db mutex.
/// The results stay valid while the levels are unchanged. Without them the answers are the same.
pub(crate) fn prepare(version: &Version, options: &PickerOptions, now_seconds: u64) {
    version.levels().iter().for_each(|level| {
        level.weights();
    });
    garbage::prepare(version, options);
    match options.compaction_style {
        CompactionStyle::Level => leveled::prepare(version, options, now_seconds),
        CompactionStyle::Fifo => fifo::prepare(version, options),
        _ => {}
    }
}

/// The number of level-0 files for write stalls; with universal compaction every sorted run counts.
pub(crate) fn level0_files_for_stalls(version: &Version, style: CompactionStyle) -> usize {
    match style {
        CompactionStyle::Universal => universal::run_count(version),
        _ => version.num_files(0),
    }
}

/// Bytes that compactions have to write before the tree has its target shape; 0 for styles without
/// one.
pub(crate) fn pending_compaction_bytes(version: &Version, options: &PickerOptions) -> u64 {
    match options.compaction_style {
        CompactionStyle::Level => score::pending_compaction_bytes(version, options),
        _ => 0,
    }
}

/// Until the oldest snapshot is newer than this, its rise makes no further compaction worthwhile,
/// so most releases of snapshots are cheap. `oldest_snapshot` is that of `PickContext` when the
/// version was made.
pub(crate) fn snapshot_threshold(
    version: &Version,
    style: CompactionStyle,
    oldest_snapshot: SequenceNumber,
) -> SequenceNumber {
    let of_garbage = garbage::snapshot_threshold(version, oldest_snapshot);
    match style {
        CompactionStyle::Level => of_garbage.min(marked::bottommost_threshold(version, oldest_snapshot)),
        CompactionStyle::Universal => of_garbage,
        // The pickers of these styles compact no files for this reason.
        CompactionStyle::Fifo | CompactionStyle::None => SequenceNumber::MAX,
    }
}

#[cfg(test)]
mod tests;
