//! A picker's decision: the files to read, the place of the result, and the reason.
//!
//! Source: RocksDB `db/compaction/compaction.cc`.
//!
//! Invariants
//!  1. The inputs of a sorted level are a clean cut: no other file of the level shares a user key
//!     with them.
//!  2. Every file of the output level that shares a user key with an input is an input.
//!  3. Every level-0 file that overlaps a level-0 input and is older is an input, unless the output
//!     level is 0; then the inputs are neighbours.

use super::inputs::{bytes_of, overlap_range, range_of};
use super::marked::may_exist_below;
use super::proximal::ProximalOutput;
use super::score::LevelSizes;
use super::{CompactionPri, CompactionReason, PickerOptions, RunningCompactions};
use crate::observe::Temperature;
use crate::options::CompressionType;
use crate::version::{FileMeta, Version};
use esker_base::ColumnFamilyId;
use esker_base::sync::Arc;
use esker_format::key::{self};
use esker_format::version_edit::{FileMetaData, VersionEdit};
use std::fmt;

/// Files of one level.
#[derive(Clone, Debug)]
pub(crate) struct LevelFiles {
    /// The level.
    pub level: usize,
    /// Level 0 is sorted newest first, or by key for a trivial move; deeper levels are sorted by
    /// key.
    pub files: Vec<Arc<FileMeta>>,
}

/// A compaction to run. Its files are in `RunningCompactions` from the time it is picked until it
/// is installed.
#[derive(Clone)]
pub(crate) struct CompactionPlan {
    /// The family.
    pub column_family: ColumnFamilyId,
    /// The version from which the plan was picked; keeps its files alive.
    pub version: Arc<Version>,
    /// The input files by level, from `start_level` on; no level is empty. In the leveled style
    /// there are at most two levels, except for `compact_files`.
    pub inputs: Vec<LevelFiles>,
    /// The first level of the inputs.
    pub start_level: usize,
    /// The level of the outputs.
    pub output_level: usize,
    /// The level above, if it gets the young entries.
    pub proximal: Option<ProximalOutput>,
    /// The path id of the outputs.
    pub output_path: u32,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// Urgency of the level when it was picked; 0 for other reasons.
    pub score: f64,
    /// Files of the first level below the output level that overlap the inputs; outputs are cut so
    /// that none overlaps too many of them.
    pub grandparents: Vec<Arc<FileMeta>>,
    /// Bytes at which an output should end; `u64::MAX` in level 0, where outputs are not cut.
    pub target_file_size: u64,
    /// Bytes at which an output must end: the target, or twice the target if a later end may be
    /// better.
    pub max_output_file_size: u64,
    /// Most bytes of an output together with the grandparents that it overlaps.
    pub max_compaction_bytes: u64,
    /// Whether only an edit moves the files to the output level, without a rewrite.
    pub is_trivial_move: bool,
    /// The temperature that the inputs get where they are; such a plan is a trivial move.
    pub new_temperature: Option<Temperature>,
    /// Whether the plan only deletes its input files.
    pub is_deletion: bool,
    /// Whether outputs stay uncompressed, against the options.
    pub never_compress: bool,
    /// The caller's own wishes, against the options.
    pub overrides: Overrides,
    /// Entries with a newer timestamp are removed; `None`: no entry is removed for its timestamp.
    pub trim_ts: Option<Arc<[u8]>>,
    /// Whether no file below the output level overlaps the inputs (nor an older file, if that level
    /// is 0): deletions and old versions need not be kept.
    pub is_bottommost: bool,
    /// Whether the inputs are all files of the family.
    pub is_full: bool,
    /// Whether a caller requested the compaction.
    pub is_manual: bool,
    /// The smallest user key of all inputs.
    pub smallest_user_key: Vec<u8>,
    /// The largest user key of all inputs.
    pub largest_user_key: Vec<u8>,
    /// Level and internal key at which round-robin picking continues afterwards.
    pub compact_cursor: Option<(usize, Vec<u8>)>,
}

/// The wishes of a compaction's caller that differ from the family's options.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Overrides {
    /// The compression of the outputs.
    pub compression: Option<CompressionType>,
    /// The temperature of the outputs.
    pub temperature: Option<Temperature>,
    /// Whether values move out of the oldest blob files.
    pub blob_garbage_collection: Option<bool>,
    /// The fraction of blob files that counts as oldest.
    pub blob_age_cutoff: Option<f64>,
}

impl CompactionPlan {
    /// Every input with its level.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.inputs.iter().flat_map(|l| l.files.iter().map(move |f| (l.level, f)))
    }

    /// The files that a trivial move changes.
    pub(crate) fn moved_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let all = self.new_temperature.is_some();
        self.input_files().filter(move |(level, _)| all || *level != self.output_level)
    }

    /// Whether a running compaction writes where this one would keep young entries.
    pub(super) fn is_blocked(&self, running: &RunningCompactions) -> bool {
        self.proximal.as_ref().is_some_and(|place| place.is_blocked(running, self.version.icmp()))
    }

    /// Whether the inputs are dropped unread, because range tombstones hide all that they have.
    pub(crate) fn skips_inputs(&self) -> bool {
        self.is_deletion && self.reason == CompactionReason::FilesMarkedForCompaction
    }

    /// Bytes of all inputs.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.input_files().map(|(_, f)| f.file_size).sum()
    }

    /// The epoch number of the outputs: the smallest of the inputs.
    #[cfg(test)]
    pub(crate) fn epoch_number(&self) -> u64 {
        self.input_files().map(|(_, f)| f.epoch_number).min().unwrap_or(0)
    }

    /// The time of the outputs' oldest ancestor, in Unix seconds; 0 if it is unknown for an input.
    #[cfg(test)]
    pub(crate) fn oldest_ancestor_time(&self) -> u64 {
        self.input_files().map(|(_, f)| f.oldest_ancestor_time).min().unwrap_or(0)
    }

    /// The edit that deletes the inputs and moves the cursor; the caller adds the outputs.
    pub(crate) fn edit(&self) -> VersionEdit {
        VersionEdit {
            column_family: self.column_family,
            deleted_files: self.input_files().map(|(level, f)| (level, f.number)).collect(),
            compact_cursors: self.compact_cursor.iter().cloned().collect(),
            ..VersionEdit::default()
        }
    }

    /// The whole edit of a trivial move.
    pub(crate) fn trivial_move_edit(&self) -> VersionEdit {
        debug_assert!(self.is_trivial_move, "files have to be rewritten");
        let mut edit = self.edit();
        edit.deleted_files = self.moved_files().map(|(level, f)| (level, f.number)).collect();
        let moved = |f: &FileMeta| {
            let temperature = self.new_temperature.map_or(f.temperature, |new| new as u8);
            (self.output_level, FileMetaData { temperature, ..f.data().clone() })
        };
        edit.new_files = self.moved_files().map(|(_, f)| moved(f)).collect();
        edit
    }
}

/// Prints `3@0 + 2@3 files to L4`, then details.
impl fmt::Display for CompactionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, level) in self.inputs.iter().enumerate() {
            let plus = if i == 0 { "" } else { " + " };
            write!(f, "{plus}{}@{}", level.files.len(), level.level)?;
        }
        write!(f, " files to L{}, {}, score {:.2}", self.output_level, self.reason.as_str(), self.score)
    }
}

impl fmt::Debug for CompactionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompactionPlan({self}:")?;
        for (level, file) in self.input_files() {
            write!(f, " {}@{level}", file.number)?;
        }
        f.write_str(")")
    }
}

/// A plan before its derived fields.
#[derive(Debug)]
pub(super) struct Draft {
    /// The inputs, not empty; [`Draft::finish`] drops empty levels.
    pub(super) inputs: Vec<LevelFiles>,
    pub(super) output_level: usize,
    pub(super) reason: CompactionReason,
    pub(super) score: f64,
    /// Whether the inputs in level 0 are known to overlap neither each other nor older files there.
    pub(super) level0_disjoint: bool,
    /// The path id of the outputs; `None`: as the compaction style says.
    pub(super) output_path: Option<u32>,
    /// Whether files may move without a rewrite, if nothing else prevents it.
    pub(super) may_move: bool,
    /// Whether a rewrite may drop entries if no data lies below the output level. If so, the inputs
    /// are rewritten instead of moved.
    pub(super) shrinks_at_bottom: bool,
}

impl Draft {
    /// Derives the remaining fields from the version and the options.
    pub(super) fn finish(
        self,
        version: &Arc<Version>,
        options: &PickerOptions,
        sizes: &LevelSizes,
    ) -> CompactionPlan {
        let Draft {
            inputs,
            output_level,
            reason,
            score,
            level0_disjoint,
            output_path,
            may_move,
            shrinks_at_bottom,
        } = self;
        let inputs: Vec<LevelFiles> = inputs.into_iter().filter(|l| !l.files.is_empty()).collect();
        let start_level = inputs.first().map_or(output_level, |l| l.level);
        let (smallest, largest) =
            range_of(version.icmp(), inputs.iter().flat_map(|l| &l.files)).unwrap_or((&[], &[]));
        let grandparents = if options.merges_whole_runs() {
            Vec::new()
        } else {
            grandparents(version, output_level, smallest, largest)
        };
        let (a, b) = (key::user_key(smallest), key::user_key(largest));
        let is_bottommost = is_bottommost(version, &inputs, output_level, a, b);
        let target_file_size = options.target_file_size(output_level, sizes.base_level);
        let non_empty = version.num_non_empty_levels();
        let compression = |level| options.compression_of(level, sizes.base_level, non_empty);
        let same_compression = compression(start_level) == compression(output_level);
        let output_path = output_path.unwrap_or_else(|| {
            options.output_path(output_level, inputs.iter().map(|l| bytes_of(&l.files)).sum())
        });
        let proximal = ProximalOutput::of(version, options, &inputs, output_level);
        let is_trivial_move = may_move
            && proximal.is_none()
            && are_in_path(&inputs, output_path)
            && !(is_bottommost && shrinks_at_bottom)
            && (start_level > 0 || level0_disjoint)
            && same_compression
            && start_level != output_level
            && inputs.len() == 1
            && moved_files_stay_cheap(
                version,
                &inputs[0].files,
                output_level,
                options.max_compaction_bytes(),
            );
        let can_end_later = output_level > 0 && !is_bottommost && !grandparents.is_empty();
        CompactionPlan {
            column_family: version.column_family(),
            compact_cursor: compact_cursor(version, options, &inputs),
            smallest_user_key: a.to_vec(),
            largest_user_key: b.to_vec(),
            is_full: inputs.iter().map(|l| l.files.len()).sum::<usize>() == version.num_all_files(),
            version: Arc::clone(version),
            inputs,
            start_level,
            output_level,
            proximal,
            output_path,
            reason,
            score,
            grandparents,
            target_file_size,
            max_output_file_size: target_file_size.saturating_mul(if can_end_later { 2 } else { 1 }),
            max_compaction_bytes: options.max_grandparent_overlap(),
            is_trivial_move,
            new_temperature: None,
            is_deletion: false,
            never_compress: false,
            overrides: Overrides::default(),
            trim_ts: None,
            is_bottommost,
            is_manual: reason == CompactionReason::ManualCompaction,
        }
    }
}

/// Whether all files lie in this path, so that they can move without a rewrite.
pub(super) fn are_in_path(inputs: &[LevelFiles], path: u32) -> bool {
    inputs.iter().flat_map(|level| &level.files).all(|file| file.path_id == path)
}

fn grandparents(
    version: &Version,
    output_level: usize,
    smallest: &[u8],
    largest: &[u8],
) -> Vec<Arc<FileMeta>> {
    // Outputs in level 0 are not cut, so they need no grandparents.
    if output_level == 0 {
        return Vec::new();
    }
    let files = |level| &version.files(level)[overlap_range(version, level, smallest, largest)];
    (output_level + 1..version.num_levels())
        .map(files)
        .find(|f| !f.is_empty())
        .map(<[_]>::to_vec)
        .unwrap_or_default()
}

fn is_bottommost(
    version: &Version,
    inputs: &[LevelFiles],
    output_level: usize,
    smallest: &[u8],
    largest: &[u8],
) -> bool {
    if output_level == 0 {
        let last = inputs.last().and_then(|l| l.files.last()).map(|f| f.number);
        if version.files(0).last().map(|f| f.number) != last {
            return false;
        }
    }
    !may_exist_below(version, output_level, smallest, largest)
}

/// Whether each file, once moved, makes at most `max` bytes with the files it overlaps in the level
/// below. Its next compaction would be too expensive otherwise.
fn moved_files_stay_cheap(version: &Version, files: &[Arc<FileMeta>], output_level: usize, max: u64) -> bool {
    let next = output_level + 1;
    next >= version.num_levels()
        || files.iter().all(|f| {
            let overlapped = &version.files(next)[overlap_range(version, next, &f.smallest, &f.largest)];
            f.file_size.saturating_add(bytes_of(overlapped)) <= max
        })
}

/// The start of the file behind the inputs, or of the level's first file if there is none.
fn compact_cursor(
    version: &Version,
    options: &PickerOptions,
    inputs: &[LevelFiles],
) -> Option<(usize, Vec<u8>)> {
    let start =
        inputs.first().filter(|l| l.level > 0 && options.compaction_pri == CompactionPri::RoundRobin)?;
    let files = version.files(start.level);
    let last = start.files.last()?;
    let next = files.partition_point(|f| version.icmp().compare(&f.smallest, &last.smallest).is_le());
    files.get(next).or(files.first()).map(|f| (start.level, f.smallest.clone()))
}
