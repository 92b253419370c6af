//! The level above the last one, in which a compaction into the last level keeps young entries.
//!
//! In: the inputs of a compaction in a family with `preclude_last_level_data_seconds`. Out: the
//! keys and sequence numbers that may stay above. Source: RocksDB `db/compaction/compaction.cc`
//! (`EvaluateProximalLevel`, `PopulateProximalLevelOutputRange`).
//!
//! Invariant: no file of the level that is not an input has a user key of the range. So an entry
//! of the inputs may lie in the level, if its sequence number is above those of the last level's
//! inputs or if all files of the level are inputs.

use super::inputs::range_of;
use super::{CompactionStyle, LevelFiles, PickContext, PickerOptions, RunningCompactions};
use crate::version::{FileMeta, Version};
use esker_base::SequenceNumber;
use esker_format::key::{self, InternalKeyComparator};

/// A second place for outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProximalOutput {
    /// The level above the last one.
    pub level: usize,
    /// The smallest user key of its outputs.
    pub smallest: Vec<u8>,
    /// The largest user key of its outputs.
    pub largest: Vec<u8>,
    /// Entries up to this sequence number stay in the last level.
    pub keep_through: SequenceNumber,
}

impl ProximalOutput {
    /// The second place for outputs of these inputs; `None` if all go to `output_level`.
    pub(super) fn of(
        version: &Version,
        options: &PickerOptions,
        inputs: &[LevelFiles],
        output_level: usize,
    ) -> Option<ProximalOutput> {
        let last = version.num_levels() - 1;
        let is_universal = options.compaction_style == CompactionStyle::Universal;
        let has_place = is_universal || options.compaction_style == CompactionStyle::Level;
        if options.preclude_last_level_seconds == 0 || !has_place || output_level != last || last < 2 {
            return None;
        }
        let level = last - 1;
        let is_empty = version.num_files(level) == 0;
        if inputs.first()?.level == last && !(is_universal && is_empty) {
            return None;
        }
        let taken = inputs.iter().filter(|of| of.level == level).map(|of| of.files.len()).sum::<usize>();
        let is_whole = is_universal && taken == version.num_files(level);
        let of_level = |of: &&LevelFiles| is_whole || of.level < last;
        let files = inputs.iter().filter(of_level).flat_map(|of| &of.files);
        let (smallest, largest) = range_of(version.icmp(), files)?;
        let below = inputs.iter().filter(|of| !is_whole && of.level == last).flat_map(|of| &of.files);
        Some(ProximalOutput {
            level,
            smallest: key::user_key(smallest).to_vec(),
            largest: key::user_key(largest).to_vec(),
            keep_through: below.map(|f| f.largest_seqno).max().unwrap_or_default(),
        })
    }

    /// Whether a running compaction writes into the range of this one.
    pub(super) fn is_blocked(&self, running: &RunningCompactions, icmp: &InternalKeyComparator) -> bool {
        running.writes_into(self.level, &self.smallest, &self.largest, icmp)
    }
}

/// Whether a compaction into the last level would leave all entries of this file above it: the file
/// is in the level above, and too young, or a snapshot keeps its entries.
pub(super) fn stays_above(
    version: &Version,
    context: &PickContext<'_>,
    level: usize,
    file: &FileMeta,
) -> bool {
    let seconds = context.options.preclude_last_level_seconds;
    if seconds == 0 || level + 2 != version.num_levels() {
        return false;
    }
    let limit = context.now_seconds.saturating_sub(seconds);
    let is_young = file.oldest_ancestor_time > limit;
    is_young || file.smallest_seqno > context.oldest_live
}
