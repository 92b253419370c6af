//! Picks the steps of `compact_range` and `compact_files`.
//!
//! Source: RocksDB `db/db_impl/db_impl_compaction_flush.cc` (`CompactRangeInternal`),
//! `db/compaction/compaction_picker.cc`.
//!
//! A `compact_range` begins at the first level with files in the range and goes down level by
//! level, in portions of about `max_compaction_bytes`. Then files of the last level are rewritten.
//! [`ManualCompaction`] plans each step.
//!
//! Invariant: afterwards no file of the range holds an entry that was hidden from all readers when
//! the call began, unless [`BottommostLevelCompaction::Skip`] kept the last level as it was. So a
//! file that may lose entries is rewritten instead of moved if no data lies below it, also if it is
//! in the last level already. The file's properties show this. A file with one value for each key
//! stays.

use super::inputs::{
    any_busy, bytes_of, clean_cut, compare_bounds, end_at, idle_clean_cut, is_written_into, overlap_range,
    overlapping, range_of, with_output_level,
};
use super::marked::may_lose_entries;
use super::plan::Draft;
use super::score::LevelSizes;
use super::{
    BottommostLevelCompaction, CompactionPlan, CompactionReason, CompactionStyle, LevelFiles, NONE_SUGGESTED,
    PickContext, PickerOptions, RunningCompactions, universal,
};
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use esker_base::{Error, FileNumber, Result, SequenceNumber};
use std::collections::BTreeSet;

/// The next step of a `compact_range`.
#[derive(Debug)]
pub(crate) enum ManualStep {
    /// Run this plan, then get the next step with the new version. If the plan fails, stop.
    Run(Box<CompactionPlan>),
    /// A running job blocks the next step: call again when the job has ended.
    Conflict,
    /// The compaction is complete.
    Done,
}

/// The progress of a `compact_range`.
#[derive(Clone, Debug)]
pub(crate) struct ManualCompaction {
    begin: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    bottommost: BottommostLevelCompaction,
    /// The path id of the outputs; `None`: the one that the compaction style chooses.
    output_path: Option<u32>,
    /// Snapshots that were live when the call began, ascending.
    snapshots: Vec<SequenceNumber>,
    /// Files with this number or a higher one were written after the start.
    first_new_file: FileNumber,
    stage: Stage,
    arrived_at: Option<usize>,
    /// The user key at which the current stage continues, inclusive; `None` = at `begin`.
    cursor: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// No level has been checked yet.
    Start,
    /// Files of a level move down. The output level is chosen anew for each plan, because the base
    /// level may change.
    Down {
        from: usize,
    },
    /// All files of the range above this level have moved down.
    Arrived {
        level: usize,
    },
    /// Rewrites files of the last level: all of them, or those that may lose entries.
    Bottommost {
        level: usize,
        all: bool,
    },
    Done,
}

impl ManualCompaction {
    /// A compaction of the user keys `[begin, end]`, both inclusive, `None` = open. `next_file` is
    /// the number that the next new file will get; `snapshots`, ascending, are live. With
    /// `exclusive_manual_compaction` the caller excludes all other compactions until the end.
    pub(crate) fn new(
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        bottommost: BottommostLevelCompaction,
        next_file: FileNumber,
        snapshots: Vec<SequenceNumber>,
    ) -> ManualCompaction {
        ManualCompaction {
            begin: begin.map(<[u8]>::to_vec),
            end: end.map(<[u8]>::to_vec),
            bottommost,
            output_path: None,
            snapshots,
            first_new_file: next_file,
            stage: Stage::Start,
            arrived_at: None,
            cursor: None,
        }
    }

    /// The compaction with its outputs in the path `output_path`.
    pub(crate) fn into_path(self, output_path: Option<u32>) -> ManualCompaction {
        ManualCompaction { output_path, ..self }
    }

    /// The level of the range's files after the last step; `None` if no file had keys of the range.
    pub(crate) fn arrived_at(&self) -> Option<usize> {
        self.arrived_at
    }

    /// The damaged file, with its error, that would block the next step even if no compaction ran.
    pub(crate) fn blocked_by(
        &self,
        version: &Arc<Version>,
        options: &PickerOptions,
        running: &RunningCompactions,
    ) -> Option<Error> {
        let left = running.without_plans()?;
        match self.clone().next(version, options, &left) {
            ManualStep::Conflict => {
                let is_live = |n: FileNumber| version.all_files().any(|(_, f)| f.number == n);
                left.all_quarantined().find(|(n, _)| is_live(*n)).map(|(_, why)| why.clone())
            }
            ManualStep::Run(_) | ManualStep::Done => None,
        }
    }

    /// The next step, given the current version and the running compactions. The plan is not
    /// registered yet.
    pub(crate) fn next(
        &mut self,
        version: &Arc<Version>,
        options: &PickerOptions,
        running: &RunningCompactions,
    ) -> ManualStep {
        if options.compaction_style == CompactionStyle::Universal
            && let Some(step) = self.next_of_runs(version, options, running)
        {
            return step;
        }
        if options.compaction_style == CompactionStyle::Fifo {
            // FIFO merges no files; automatic compactions delete old and excess files.
            return ManualStep::Done;
        }
        loop {
            let (from, to, takes) = match self.stage {
                Stage::Start => {
                    self.arrived_at = self.first_level(version);
                    self.stage = match self.arrived_at {
                        None => Stage::Done,
                        Some(level) => self.stage_from(level, version, options),
                    };
                    continue;
                }
                Stage::Arrived { level } => {
                    self.arrived_at = Some(level);
                    self.stage = self.stage_from(level, version, options);
                    continue;
                }
                Stage::Down { from: 0 } => (0, LevelSizes::new(version, options).base_level, Takes::All),
                Stage::Down { from } => (from, from + 1, Takes::All),
                Stage::Bottommost { level, all } => (level, level, self.files_to_rewrite(all)),
                Stage::Done => return ManualStep::Done,
            };
            let request = self.request(from, to, takes);
            match pick_range(version, options, running, request) {
                ManualPick::Conflict => return ManualStep::Conflict,
                ManualPick::Nothing => self.end_stage(to),
                ManualPick::Plan { plan, next_begin } => {
                    match next_begin {
                        Some(key) => self.cursor = Some(key),
                        None => self.end_stage(to),
                    }
                    return ManualStep::Run(plan);
                }
            }
        }
    }

    /// The step for the universal style: all runs into the last level at once, for any range.
    /// `None` if only the last level has files; files there that may lose entries remain to be
    /// rewritten.
    fn next_of_runs(
        &mut self,
        version: &Arc<Version>,
        options: &PickerOptions,
        running: &RunningCompactions,
    ) -> Option<ManualStep> {
        let last = version.max_output_level();
        let is_alone = last > 0 && version.all_files().all(|(level, _)| level >= last);
        let is_written = |f: &Arc<FileMeta>| f.number >= self.first_new_file;
        let rewrites = match self.bottommost {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => options.has_compaction_filter,
            BottommostLevelCompaction::Force => true,
            BottommostLevelCompaction::ForceOptimized => !version.all_files().any(|(_, f)| is_written(f)),
        };
        if matches!(self.stage, Stage::Done | Stage::Bottommost { .. }) {
            return None;
        }
        if self.first_level(version).is_none_or(|first| first > last) {
            return Some(ManualStep::Done);
        }
        if is_alone && !rewrites {
            self.stage = self.rewrite_of(last, rewrites);
            return None;
        }
        let context = PickContext {
            options,
            running,
            now_seconds: 0,
            seconds_ahead: 0,
            oldest_snapshot: SequenceNumber::ZERO,
            oldest_live: SequenceNumber::MAX,
            suggested: &NONE_SUGGESTED,
        };
        // A run that is alone above the last level would move there as it is.
        let shrinks =
            rewrites || version.all_files().any(|(_, f)| may_lose_entries(version, f, &self.snapshots));
        let Some(plan) = universal::pick_all(version, &context, shrinks, self.output_path) else {
            return Some(ManualStep::Conflict);
        };
        self.stage = Stage::Done;
        self.arrived_at = Some(last);
        Some(ManualStep::Run(Box::new(plan)))
    }

    fn end_stage(&mut self, to: usize) {
        self.cursor = None;
        self.stage = match self.stage {
            Stage::Down { .. } => Stage::Arrived { level: to },
            _ => Stage::Done,
        };
    }

    fn request(&self, from: usize, to: usize, takes: Takes) -> ManualRequest<'_> {
        ManualRequest {
            input_level: from,
            output_level: to,
            begin: self.cursor.as_deref().or(self.begin.as_deref()),
            end: self.end.as_deref(),
            takes,
            output_path: self.output_path,
            snapshots: &self.snapshots,
        }
    }

    /// The files of the last level to rewrite: without `Force`, files that this call has written
    /// stay.
    fn files_to_rewrite(&self, all: bool) -> Takes {
        match self.bottommost {
            BottommostLevelCompaction::Force => Takes::All,
            _ if all => Takes::Below(self.first_new_file),
            _ => Takes::MayLoseEntries { below: self.first_new_file },
        }
    }

    fn first_level(&self, version: &Version) -> Option<usize> {
        let (begin, end) = (self.begin.as_deref(), self.end.as_deref());
        (0..version.num_levels()).find(|&level| version.overlaps(level, begin, end))
    }

    /// The stage that follows when all files of the range are in `level` or below.
    fn stage_from(&self, level: usize, version: &Version, options: &PickerOptions) -> Stage {
        if version.num_levels() < 2 {
            return Stage::Done;
        }
        if level == 0 {
            return Stage::Down { from: 0 };
        }
        let last = match options.level_compaction_dynamic_level_bytes {
            true => version.num_levels() - 1,
            false => version.num_non_empty_levels().saturating_sub(1),
        };
        if level < last {
            return Stage::Down { from: level };
        }
        let all = match self.bottommost {
            BottommostLevelCompaction::Skip => false,
            BottommostLevelCompaction::IfHaveCompactionFilter => options.has_compaction_filter,
            BottommostLevelCompaction::Force | BottommostLevelCompaction::ForceOptimized => true,
        };
        self.rewrite_of(level, all)
    }

    fn rewrite_of(&self, level: usize, all: bool) -> Stage {
        match self.bottommost {
            BottommostLevelCompaction::Skip => Stage::Done,
            _ => Stage::Bottommost { level, all },
        }
    }
}

/// The files of the input level that a portion takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Takes {
    /// Every file.
    All,
    /// Files with a smaller number.
    Below(FileNumber),
    /// Files with a smaller number from which a compaction may drop entries.
    MayLoseEntries {
        /// The exclusive bound of the file numbers.
        below: FileNumber,
    },
}

/// One portion of a `compact_range`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManualRequest<'a> {
    /// The level of the input files.
    pub input_level: usize,
    /// The output level; the input level itself for a rewrite. Levels in between must be empty.
    pub output_level: usize,
    /// First user key, inclusive; `None` = from the start.
    pub begin: Option<&'a [u8]>,
    /// Last user key, inclusive; `None` = to the end.
    pub end: Option<&'a [u8]>,
    /// The files that the portion takes.
    pub takes: Takes,
    /// The path id of the outputs; `None`: the one that the compaction style chooses.
    pub output_path: Option<u32>,
    /// Live snapshots, ascending.
    pub snapshots: &'a [SequenceNumber],
}

/// The answer to a [`ManualRequest`].
#[derive(Debug)]
pub(crate) enum ManualPick {
    /// No file of the level lies in the range.
    Nothing,
    /// A running job blocks the portion: call again when the job has ended.
    Conflict,
    /// A plan to run.
    Plan {
        /// The plan to run.
        plan: Box<CompactionPlan>,
        /// The user key at which the next portion begins, inclusive, if the plan does not cover the
        /// rest of the range.
        next_begin: Option<Vec<u8>>,
    },
}

/// Plans one portion.
pub(crate) fn pick_range(
    version: &Arc<Version>,
    options: &PickerOptions,
    running: &RunningCompactions,
    request: ManualRequest<'_>,
) -> ManualPick {
    let level = request.input_level;
    let (files, covers_range) = match level {
        0 => {
            let mut files = version.overlapping(0, request.begin, request.end);
            files.retain(|f| request.takes(version, f));
            (files, true)
        }
        _ => portion(version, options, request),
    };
    if files.is_empty() {
        return ManualPick::Nothing;
    }
    if level == 0 && running.reads_level0() {
        return ManualPick::Conflict;
    }
    let start = LevelFiles { level, files };
    let Some((start, output)) = with_all_needed(version, options, running, start, request.output_level)
    else {
        return ManualPick::Conflict;
    };
    let next_begin = if covers_range { None } else { key_behind(version, &start) };
    let inputs = vec![start, output];
    if is_written_into(version, running, &inputs, request.output_level) {
        return ManualPick::Conflict;
    }
    let level0_disjoint = level == 0 && level0_is_disjoint(version);
    let may_shrink = |f: &Arc<FileMeta>| may_lose_entries(version, f, request.snapshots);
    let shrinks_at_bottom = inputs.iter().flat_map(|l| &l.files).any(may_shrink);
    let draft = Draft {
        inputs,
        output_level: request.output_level,
        reason: CompactionReason::ManualCompaction,
        score: 0.0,
        level0_disjoint,
        output_path: request.output_path,
        may_move: !options.has_compaction_filter,
        shrinks_at_bottom,
    };
    let plan = Box::new(draft.finish(version, options, &LevelSizes::new(version, options)));
    if plan.is_blocked(running) {
        return ManualPick::Conflict;
    }
    ManualPick::Plan { plan, next_begin }
}

impl ManualRequest<'_> {
    fn takes(&self, version: &Version, f: &FileMeta) -> bool {
        match self.takes {
            Takes::All => true,
            Takes::Below(limit) => f.number < limit,
            Takes::MayLoseEntries { below } => {
                f.number < below && may_lose_entries(version, f, self.snapshots)
            }
        }
    }
}

/// The files of a sorted level for one portion, and whether no further files remain. Takes one
/// file, and more while they and the files that they overlap in the output level stay within
/// `max_compaction_bytes`. Files between new files are taken first.
fn portion(
    version: &Version,
    options: &PickerOptions,
    request: ManualRequest<'_>,
) -> (Vec<Arc<FileMeta>>, bool) {
    let (level, output_level) = (request.input_level, request.output_level);
    let rest = &version.files(level)[version.overlapping_range(level, request.begin, request.end)];
    let from = rest.iter().position(|f| request.takes(version, f)).unwrap_or(rest.len());
    let rest = &rest[from..];
    let Some(first) = rest.first() else { return (Vec::new(), true) };
    // The files that they overlap: a range that only grows to the right.
    let mut below = if level == output_level {
        0..0
    } else {
        overlap_range(version, output_level, &first.smallest, &first.largest)
    };
    let mut bytes = first.file_size;
    let mut bytes_below = bytes_of(&version.files(output_level)[below.clone()]);
    let mut count = 1;
    for f in rest[1..].iter().take_while(|f| request.takes(version, f)) {
        bytes = bytes.saturating_add(f.file_size);
        if level != output_level {
            let end = end_at(version, output_level, below.end, &f.largest);
            bytes_below = bytes_below.saturating_add(bytes_of(&version.files(output_level)[below.end..end]));
            below.end = end;
        }
        if bytes.saturating_add(bytes_below) > options.max_compaction_bytes() {
            break;
        }
        count += 1;
    }
    (rest[..count].to_vec(), !rest[count..].iter().any(|f| request.takes(version, f)))
}

/// The files with all further inputs that they need; `None` if one of these is being compacted.
fn with_all_needed(
    version: &Version,
    options: &PickerOptions,
    running: &RunningCompactions,
    start: LevelFiles,
    output_level: usize,
) -> Option<(LevelFiles, LevelFiles)> {
    let start = if start.level == 0 {
        let (smallest, largest) = range_of(version.icmp(), &start.files)?;
        overlapping(version, 0, smallest, largest)
    } else {
        start
    };
    let start = idle_clean_cut(version, start, running)?;
    with_output_level(version, running, start, output_level, options.max_compaction_bytes(), false)
}

/// The start of the file behind the inputs of a sorted level.
fn key_behind(version: &Version, start: &LevelFiles) -> Option<Vec<u8>> {
    let last = start.files.last().filter(|_| start.level > 0)?;
    let files = version.files(start.level);
    let next = files.partition_point(|f| version.icmp().compare(&f.smallest, &last.smallest).is_le());
    files.get(next).map(|f| f.smallest_user_key().to_vec())
}

/// Whether no two files of level 0 share a user key. Files that share a user key differ only by
/// internal keys.
pub(super) fn level0_is_disjoint(version: &Version) -> bool {
    let icmp = version.icmp();
    let mut files: Vec<&Arc<FileMeta>> = version.files(0).iter().collect();
    files.sort_by(|a, b| icmp.compare(&a.smallest, &b.smallest));
    files.windows(2).all(|w| compare_bounds(icmp, &w[0].largest, &w[1].smallest).is_lt())
}

/// Plans a `compact_files`: these files, with all further inputs that they need, into
/// `output_level`.
/// # Errors
/// `InvalidArgument`: no file was named, one is not in the version or below the output level, or
/// this compaction style has no such level · the error of a needed file that is damaged ·
/// `Aborted`: a needed file is being compacted, or a running compaction writes into the same range;
/// try again later.
pub(crate) fn pick_files(
    version: &Arc<Version>,
    options: &PickerOptions,
    running: &RunningCompactions,
    files: &[FileNumber],
    output_level: usize,
    (output_path, may_move): (Option<u32>, bool),
) -> Result<CompactionPlan> {
    if output_level >= version.num_levels() {
        let levels = version.num_levels();
        return Err(Error::invalid_argument(format!(
            "output level {output_level} of a family with {levels} levels"
        )));
    }
    if options.compaction_style == CompactionStyle::Fifo && output_level > 0 {
        return Err(Error::invalid_argument(format!("output level {output_level}: FIFO has level 0 only")));
    }
    if version.reserves_last_level() && output_level > version.max_output_level() {
        return Err(Error::invalid_argument(format!(
            "output level {output_level}: cf_allow_ingest_behind reserves the last level"
        )));
    }
    let named = check_named(version, files, output_level)?;
    let inputs = inputs_of_all_levels(version, named, output_level);
    let is_needed = |n: FileNumber| inputs.iter().flat_map(|l| &l.files).any(|f| f.number == n);
    if let Some((_, why)) = running.all_quarantined().find(|(n, _)| is_needed(*n)) {
        return Err(why.clone());
    }
    if inputs.iter().any(|l| any_busy(&l.files, running)) {
        return Err(Error::aborted("a file that this compaction needs is being compacted"));
    }
    if inputs[0].level == 0 && running.reads_level0() {
        return Err(Error::aborted("another compaction reads level 0"));
    }
    if output_level > 0 && is_written_into(version, running, &inputs, output_level) {
        return Err(Error::aborted(format!(
            "a running compaction writes into this range of L{output_level}"
        )));
    }
    // Older files of level 0 that overlap the named ones are among the inputs.
    let level0_disjoint = inputs[0].files.len() == 1;
    let draft = Draft {
        inputs,
        output_level,
        reason: CompactionReason::ManualCompaction,
        score: 0.0,
        level0_disjoint,
        output_path,
        // The filter wants to see each entry of a manual compaction.
        may_move: may_move && !options.has_compaction_filter,
        shrinks_at_bottom: false,
    };
    let plan = draft.finish(version, options, &LevelSizes::new(version, options));
    if plan.is_blocked(running) {
        return Err(Error::aborted("a running compaction writes above the last level"));
    }
    Ok(plan)
}

/// Plans a job that another process has picked: exactly these files into `output_level`.
/// # Errors
/// `InvalidArgument`: no file was named, one is not in the version or below the output level, or
/// there is no such level.
pub(crate) fn pick_exactly(
    version: &Arc<Version>,
    options: &PickerOptions,
    files: &[FileNumber],
    output_level: usize,
) -> Result<CompactionPlan> {
    if output_level >= version.num_levels() {
        let levels = version.num_levels();
        return Err(Error::invalid_argument(format!(
            "output level {output_level} of a family with {levels} levels"
        )));
    }
    let named = check_named(version, files, output_level)?;
    let of_level = |level| LevelFiles {
        level,
        files: version.files(level).iter().filter(|f| named.contains(&f.number)).cloned().collect(),
    };
    let draft = Draft {
        inputs: (0..=output_level).map(of_level).collect(),
        output_level,
        reason: CompactionReason::ManualCompaction,
        score: 0.0,
        level0_disjoint: false,
        output_path: Some(0),
        may_move: false,
        shrinks_at_bottom: false,
    };
    Ok(draft.finish(version, options, &LevelSizes::new(version, options)))
}

fn check_named(version: &Version, files: &[FileNumber], output_level: usize) -> Result<BTreeSet<FileNumber>> {
    let mut missing: BTreeSet<FileNumber> = files.iter().copied().collect();
    let named = missing.clone();
    if named.is_empty() {
        return Err(Error::invalid_argument("a compaction must have at least one file"));
    }
    for (level, f) in version.all_files() {
        if missing.remove(&f.number) && level > output_level {
            return Err(Error::invalid_argument(format!(
                "file #{} on level {level} cannot be compacted up to level {output_level}",
                f.number
            )));
        }
    }
    match missing.first() {
        None => Ok(named),
        Some(n) => Err(Error::invalid_argument(format!("file #{n} is not in the column family"))),
    }
}

/// The inputs, level by level: the named files, the files between them, and all files in the range
/// of these and of the inputs above. An output may cover that whole range.
fn inputs_of_all_levels(
    version: &Version,
    named: BTreeSet<FileNumber>,
    output_level: usize,
) -> Vec<LevelFiles> {
    let mut inputs: Vec<LevelFiles> = Vec::new();
    for level in 0..=output_level {
        let files = version.files(level);
        let is_named = |f: &Arc<FileMeta>| named.contains(&f.number);
        let files = if level > 0 {
            let above = inputs.iter().flat_map(|l| &l.files);
            match range_of(version.icmp(), above.chain(files.iter().filter(|f| is_named(f)))) {
                Some((a, b)) => files[overlap_range(version, level, a, b)].to_vec(),
                None => continue,
            }
        } else {
            let (Some(first), Some(last)) =
                (files.iter().position(is_named), files.iter().rposition(is_named))
            else {
                continue;
            };
            // An older file of level 0 must not stay above the files that go down.
            let last = if output_level > 0 { files.len() - 1 } else { last };
            files[first..=last].to_vec()
        };
        if !files.is_empty() {
            inputs.push(clean_cut(version, LevelFiles { level, files }));
        }
    }
    inputs
}
