//! Which files to compact next: a version in, a plan out. Pure: no lock, no I/O, no clock.
//!
//! Reading order: [`options`] (what a family says), [`running`] (what is being compacted), [`score`] (how large each level
//! should be and how urgent it is), [`plan`] (what comes out), `inputs` (geometry of files), `priority` (which file of a level
//! first), `marked` (files that want to go for other reasons than size), [`leveled`] and [`manual`] (how a plan is found),
//! [`cut`] (where its outputs end).
//!
//! Whoever holds the db mutex asks [`pick`], registers the plan in the family's [`RunningCompactions`] under the same hold,
//! runs it, and takes it out again under the hold under which the new version is installed.

pub mod cut;
mod inputs;
pub mod leveled;
pub mod manual;
mod marked;
pub mod options;
pub mod plan;
mod priority;
pub mod running;
pub mod score;

pub use crate::observe::CompactionReason;
pub use crate::options::{BottommostLevelCompaction, CompactionPri, CompactionStyle};
pub use options::{CompactionOptions, PickContext};
pub use plan::{CompactionPlan, LevelFiles};
pub use running::{RunningCompactions, RunningId};

use crate::version::Version;
use esker_base::sync::Arc;
use esker_base::{Error, Result, SequenceNumber};

/// Whether compactions of this style can be picked; asked when a family is opened.
/// # Errors
/// `NotSupported`, naming the style.
pub fn check_style(style: CompactionStyle) -> Result<()> {
    match style {
        CompactionStyle::Level | CompactionStyle::None => Ok(()),
        CompactionStyle::Universal | CompactionStyle::Fifo => {
            Err(Error::not_supported(format!("compaction_style {style:?} is not supported yet")))
        }
    }
}

/// The most urgent compaction that nothing running is in the way of, if one is due. Runs also when
/// `disable_auto_compactions` is set: whether to ask is for the scheduler to know.
pub fn pick(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    match context.options.compaction_style {
        CompactionStyle::Level => leveled::pick(version, context),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => None,
    }
}

/// Whether [`pick`] may find something: some level is due, or some file is marked.
pub fn needs_compaction(version: &Version, context: &PickContext<'_>) -> bool {
    match context.options.compaction_style {
        CompactionStyle::Level => leveled::needs_compaction(version, context),
        CompactionStyle::Universal | CompactionStyle::Fifo | CompactionStyle::None => false,
    }
}

/// The oldest snapshot must be larger than this before its release can make a compaction worth while that was not so when
/// the version was made (`oldest_snapshot` being the one of `PickContext` then). Keeps releases cheap.
pub fn bottommost_threshold(version: &Version, oldest_snapshot: SequenceNumber) -> SequenceNumber {
    marked::bottommost_threshold(version, oldest_snapshot)
}

#[cfg(test)]
mod tests;
