//! Picks compactions of the universal style: merges sorted runs with their neighbours in age.
//!
//! In: a version and the running compactions. Out: a plan that merges runs which follow each other.
//! Source: RocksDB `db/compaction/compaction_picker_universal.cc`.
//!
//! A *sorted run* is a file of level 0 or all files of a deeper level. Runs are ordered from the
//! newest to the oldest. From `level0_file_num_compaction_trigger` runs on, the reasons are tried
//! in this order: files due for a periodic rewrite; all newer runs together are too large in
//! relation to the oldest; neighbours of similar size; too many runs; enough runs to stop writers;
//! garbage; files that gets search in vain.
//!
//! Invariants
//!  1. A plan takes whole runs: all from its first to its last, so that runs stay ordered by age. A
//!     plan for reads may take parts of two neighbours. With `incremental`, so may a plan for size
//!     amplification (`incremental.rs`).
//!  2. The result goes as deep as possible: just above the next older run, or into the last level
//!     that is not reserved ([`Version::max_output_level`]).

use super::garbage;
use super::incremental;
use super::inputs::{idle_clean_cut, is_written_into, with_output_level};
use super::marked::{self, Marked};
use super::plan::{Draft, are_in_path};
use super::proximal::stays_above;
use super::score::{LevelSizes, Weigher};
use super::{CompactionPlan, CompactionReason, LevelFiles, PickContext};
use crate::options::CompactionStopStyle;
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use std::ops::{Range, RangeInclusive};

/// A file of level 0, or a deeper level.
struct Run {
    level: usize,
    /// Index in level 0; 0 for deeper levels.
    index: usize,
    bytes: u64,
    /// The run's bytes, with deletions weighted by the bytes that they will free.
    compensated: u64,
    is_busy: bool,
}

impl Run {
    /// Whether the file of this level is in the run.
    fn holds(&self, version: &Version, (level, file): &Marked) -> bool {
        *level == self.level && (self.level > 0 || version.files(0)[self.index].number == file.number)
    }
}

/// The inputs of a pick.
struct Picker<'a> {
    version: &'a Arc<Version>,
    context: &'a PickContext<'a>,
    runs: Vec<Run>,
}

/// The levels below 0 that hold runs. A reserved last level is left alone.
fn levels(version: &Version) -> RangeInclusive<usize> {
    1..=version.max_output_level()
}

/// Number of sorted runs. Write stalls depend on it, as they depend on the files of level 0 in the
/// leveled style.
pub(super) fn run_count(version: &Version) -> usize {
    version.num_files(0) + levels(version).filter(|l| version.num_files(*l) > 0).count()
}

/// Whether [`pick`] may find a compaction.
pub(super) fn needs_compaction(version: &Version, context: &PickContext<'_>) -> bool {
    let is_busy = |f: &Arc<FileMeta>| context.running.is_busy(f.number);
    let idle_files = version.files(0).iter().filter(|f| !is_busy(f)).count();
    let idle_levels =
        levels(version).filter(|l| version.files(*l).first().is_some_and(|f| !is_busy(f))).count();
    idle_files + idle_levels >= context.options.level0_file_num_compaction_trigger
        || marked::periodic(version, context).next().is_some()
        || marked::for_compaction(version, context).next().is_some()
        || garbage::is_much(version, context)
}

/// The most urgent compaction that is due and that no running compaction blocks.
pub(super) fn pick(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    let picker = Picker { version, context, runs: runs(version, context) };
    let trigger = context.options.level0_file_num_compaction_trigger;
    let is_due = picker.runs.len() >= trigger;
    if !needs_compaction(version, context) {
        return None;
    }
    let is_hot = |(_, file): &Marked| marked::reason_of(file) == CompactionReason::ReadTriggered;
    let (hot, asked): (Vec<_>, Vec<_>) = marked::for_compaction(version, context).partition(is_hot);
    let periodic = || {
        let due: Vec<_> = marked::periodic(version, context).collect();
        let is_any = !due.is_empty() || !asked.is_empty();
        is_any.then(|| picker.all_from_the_oldest(&due)).flatten()
    };
    periodic()
        .or_else(|| is_due.then(|| picker.size_amplification()).flatten())
        .or_else(|| is_due.then(|| picker.similar_neighbours()).flatten())
        .or_else(|| is_due.then(|| picker.too_many_runs()).flatten())
        .or_else(|| picker.runs_that_stop_writers())
        .or_else(|| garbage::is_much(version, context).then(|| picker.garbage()).flatten())
        .or_else(|| hot.iter().find_map(|file| picker.searched_in_vain(file)))
}

/// Plans a compaction of all runs into the last level, for `compact_range`; `None` if there are no
/// runs, or while one is being compacted. `shrinks`: files may lose entries, so that they are
/// rewritten. `output_path`: the path of the outputs, if not chosen by size.
pub(super) fn pick_all(
    version: &Arc<Version>,
    context: &PickContext<'_>,
    shrinks: bool,
    output_path: Option<u32>,
) -> Option<CompactionPlan> {
    let picker = Picker { version, context, runs: runs(version, context) };
    if picker.runs.is_empty() || picker.runs.iter().any(|r| r.is_busy) {
        return None;
    }
    let whole = 0..picker.runs.len();
    picker.plan_with(whole, CompactionReason::ManualCompaction, true, shrinks, output_path)
}

fn runs(version: &Version, context: &PickContext<'_>) -> Vec<Run> {
    let weigher = Weigher::new(version);
    let is_busy = |f: &Arc<FileMeta>| context.running.is_busy(f.number);
    let of_level0 = version.files(0).iter().enumerate().map(|(index, f)| Run {
        level: 0,
        index,
        bytes: f.file_size,
        compensated: weigher.compensated_size(f),
        is_busy: is_busy(f),
    });
    let mut runs: Vec<Run> = of_level0.collect();
    for level in levels(version) {
        let files = version.files(level);
        if !files.is_empty() {
            let running = context.running;
            runs.push(Run {
                level,
                index: 0,
                bytes: version.size(level),
                compensated: weigher.weigh(version.levels()[level].weights()),
                is_busy: running.inputs_of_level(level).next().is_some()
                    || running.has_quarantined() && files.iter().any(is_busy),
            });
        }
    }
    runs
}

impl Picker<'_> {
    /// Plans a compaction from the newest idle run to the oldest, because the `due` files are old;
    /// without any, because others were suggested.
    fn all_from_the_oldest(&self, due: &[Marked]) -> Option<CompactionPlan> {
        let end = self.runs.len();
        let idle = self.runs.iter().rev().take_while(|r| !r.is_busy).count();
        let start = end - idle;
        if idle == 0 {
            return None;
        }
        if idle == 1 {
            // The oldest run alone is rewritten only if it is due itself.
            if !due.iter().any(|file| self.runs[start].holds(self.version, file)) {
                return None;
            }
        }
        let reason = match due.is_empty() {
            true => CompactionReason::FilesMarkedForCompaction,
            false => CompactionReason::PeriodicCompaction,
        };
        self.plan(start..end, reason, true)
    }

    /// Plans a compaction of a file that gets have searched in vain with the next older run. Reads
    /// cause it, perhaps again and again, so it costs no more than these two: from a level below 0
    /// it takes the file, and what it overlaps in the next run.
    fn searched_in_vain(&self, file: &Marked) -> Option<CompactionPlan> {
        let (version, running) = (self.version, self.context.running);
        let run = self.runs.iter().position(|run| run.holds(version, file))?;
        let older = self.runs.get(run + 1).filter(|older| !older.is_busy && !self.runs[run].is_busy)?;
        let reason = CompactionReason::ReadTriggered;
        let (level, file) = file;
        if *level == 0 {
            return self.plan(run..run + 2, reason, true);
        }
        let start = LevelFiles { level: *level, files: vec![Arc::clone(file)] };
        let start = idle_clean_cut(version, start, running)?;
        let most = self.context.options.max_compaction_bytes();
        let (start, output) = with_output_level(version, running, start, older.level, most, false)?;
        self.plan_of(vec![start, output], older.level, reason, true, false, None)
    }

    /// Plans a compaction of all runs, if much of them can be dropped.
    fn garbage(&self) -> Option<CompactionPlan> {
        if self.runs.iter().any(|run| run.is_busy) {
            return None;
        }
        let reason = CompactionReason::FilesMarkedForCompaction;
        self.plan_with(0..self.runs.len(), reason, true, true, None)
    }

    /// Plans a compaction of all runs if the newer runs together are too large in relation to the
    /// oldest.
    fn size_amplification(&self) -> Option<CompactionPlan> {
        let mut last = self.runs.len().checked_sub(1)?;
        // The last level may be on cheap storage, so it does not count if it keeps old data only.
        let keeps_young_above = self.context.options.preclude_last_level_seconds > 0;
        let num_levels = self.version.num_levels();
        if keeps_young_above && num_levels > 2 && last > 0 && self.runs[last].level == num_levels - 1 {
            last -= 1;
        }
        if self.runs[last].is_busy {
            return None;
        }
        let base_bytes = self.runs[last].bytes;
        let newer = self.runs[..last].iter().rev().take_while(|r| !r.is_busy).count();
        let mut start = last - newer;
        if newer == 0 {
            return None;
        }
        let mut newer_bytes: u64 = self.runs[start..last].iter().map(|r| r.compensated).sum();
        self.leave_newest_alone(&mut start, last, &mut newer_bytes);
        let percent = u64::from(self.context.options.universal.max_size_amplification_percent);
        if newer_bytes.saturating_mul(100) < percent.saturating_mul(base_bytes) {
            return None;
        }
        self.part_of_the_oldest(start, last, newer_bytes)
            .or_else(|| self.plan(start..last + 1, CompactionReason::UniversalSizeAmplification, true))
    }

    /// Plans a compaction of a part of the runs `start..=last`, if the options have `incremental`.
    /// A choice that rewrites clearly more bytes than the whole runs do, for each byte that leaves
    /// them, counts as none.
    fn part_of_the_oldest(&self, start: usize, last: usize, newer_bytes: u64) -> Option<CompactionPlan> {
        // RocksDB's limit: 1.8 times the fan-out of the whole runs.
        const MOST_FAN_OUT: f64 = 1.8;
        let (newer, older) = (self.runs[last - 1].level, self.runs[last].level);
        if !self.context.options.universal.incremental || newer == 0 {
            return None;
        }
        let limit = self.runs[last].bytes as f64 / newer_bytes.max(1) as f64 * MOST_FAN_OUT;
        let others =
            self.runs[start..last - 1].iter().rev().map(|run| run.level).take_while(|level| *level > 0);
        let inputs = incremental::inputs(self.version, self.context, (newer, older), others, limit)?;
        self.plan_of(inputs, older, CompactionReason::UniversalSizeAmplification, true, false, None)
    }

    /// Leaves out the newest files of a long compaction, which would hold its level-0 files. Does
    /// so if some more flushes would stop writers, and if it changes the amplification little.
    fn leave_newest_alone(&self, start: &mut usize, last: usize, newer_bytes: &mut u64) {
        let options = self.context.options;
        let level0_files = self.runs[*start..last].iter().filter(|r| r.level == 0).count();
        if level0_files == 0 {
            return;
        }
        let most = (level0_files - 1).min(last - *start - 1);
        let stop = options.level0_stop_writes_trigger;
        let room = stop - stop.min(last - *start + 1);
        let excluded_for = |width: u32| (width as usize).saturating_sub(room).min(most);
        let percent = u64::from(options.universal.max_size_amplification_percent);
        let base_bytes = self.runs[last].bytes;
        let (mut excluded, mut bytes) = (0, *newer_bytes);
        let (least, largest) = (
            excluded_for(options.universal.min_merge_width),
            excluded_for(options.universal.max_merge_width),
        );
        for count in least..=largest {
            let gone: u64 = self.runs[*start + excluded..*start + count].iter().map(|r| r.compensated).sum();
            let left = bytes.saturating_sub(gone);
            let too_little = left.saturating_mul(100) < percent.saturating_mul(base_bytes);
            if too_little || left < newer_bytes.saturating_mul(9) / 10 {
                break;
            }
            (excluded, bytes) = (count, left);
        }
        *start += excluded;
        *newer_bytes = bytes;
    }

    /// Plans a compaction of neighbouring runs, each not much larger than the newer ones together.
    fn similar_neighbours(&self) -> Option<CompactionPlan> {
        let ratio = self.context.options.universal.size_ratio;
        self.neighbours(Some(ratio), usize::MAX, CompactionReason::UniversalSizeRatio)
    }

    /// Merges the newest runs: as few as are needed to reach the limit on their number.
    fn too_many_runs(&self) -> Option<CompactionPlan> {
        let idle = self.runs.iter().filter(|r| !r.is_busy).count();
        let excess = idle.checked_sub(self.most_runs()).filter(|excess| *excess > 0)?;
        self.neighbours(None, excess + 1, CompactionReason::UniversalSortedRunNum)
    }

    /// Merges the newest runs, as few as are needed to end a stop of writers, if no running job
    /// will end it. A stop must end even if options allow only larger merges.
    fn runs_that_stop_writers(&self) -> Option<CompactionPlan> {
        let stop = self.context.options.level0_stop_writes_trigger;
        let excess = self.runs.len().checked_sub(stop)?;
        if self.runs.iter().any(|run| run.is_busy) {
            return None;
        }
        let merged = (excess + 2).min(self.runs.len());
        (merged > 1).then(|| self.plan(0..merged, CompactionReason::UniversalSortedRunNum, true)).flatten()
    }

    /// RocksDB's `max_read_amp`.
    fn most_runs(&self) -> usize {
        let options = self.context.options;
        let trigger = options.level0_file_num_compaction_trigger;
        let by_size = options.universal.stop_style == CompactionStopStyle::TotalSize;
        match usize::try_from(options.universal.max_read_amp) {
            Ok(0) if by_size => {
                // The number of runs from a memtable's size to the largest run's size, if each run
                // is as large as the options allow.
                let largest = self.runs.iter().map(|r| r.bytes).max().unwrap_or(0) as f64;
                let growth = (100.0 + f64::from(options.universal.size_ratio)) / 100.0;
                let (mut count, mut size, mut total) = (1, options.write_buffer_size as f64, 0.0);
                while size < largest {
                    total += size;
                    size = growth * total;
                    count += 1;
                }
                count
            }
            Ok(n) if n > 0 => n,
            _ => trigger,
        }
    }

    /// The newest idle neighbouring runs whose sizes differ by at most `ratio` percent (`None`: of
    /// any size).
    fn neighbours(
        &self,
        ratio: Option<u32>,
        most: usize,
        reason: CompactionReason,
    ) -> Option<CompactionPlan> {
        let universal = &self.context.options.universal;
        let most = most.min(universal.max_merge_width as usize);
        let least = universal.min_merge_width.max(2) as usize;
        let ratio = f64::from(ratio.unwrap_or(u32::MAX));
        let mut first = 0;
        while first < self.runs.len() {
            if self.runs[first].is_busy {
                first += 1;
                continue;
            }
            let mut size = self.runs[first].compensated;
            let mut count = 1;
            for next in &self.runs[first + 1..] {
                if count >= most || next.is_busy || size as f64 * (100.0 + ratio) / 100.0 < next.bytes as f64
                {
                    break;
                }
                if universal.stop_style == CompactionStopStyle::SimilarSize {
                    if next.bytes as f64 * (100.0 + ratio) / 100.0 < size as f64 {
                        break;
                    }
                    size = next.compensated;
                } else {
                    size = size.saturating_add(next.compensated);
                }
                count += 1;
            }
            if count >= least {
                let compress = self.is_compressed(first + count);
                return self.plan(first..first + count, reason, compress);
            }
            first += 1;
        }
        None
    }

    /// Whether the output is compressed: it is if the runs from `older` on hold less than
    /// `compression_size_percent` of all bytes.
    fn is_compressed(&self, older: usize) -> bool {
        let Ok(percent) = u64::try_from(self.context.options.universal.compression_size_percent) else {
            return true;
        };
        let total: u64 = self.runs.iter().map(|r| r.compensated).sum();
        let older: u64 = self.runs[older..].iter().map(|r| r.bytes).sum();
        older == 0 || older.saturating_mul(100) < total.saturating_mul(percent)
    }

    /// Whether a compaction for sizes would rewrite only the last level and files that stay above
    /// it.
    fn moves_nothing(&self, plan: &CompactionPlan) -> bool {
        let last = self.version.num_levels() - 1;
        let stays = |(level, f): (usize, &Arc<FileMeta>)| {
            level == last || stays_above(self.version, self.context, level, f)
        };
        let is_for_sizes = matches!(
            plan.reason,
            CompactionReason::UniversalSizeAmplification
                | CompactionReason::UniversalSizeRatio
                | CompactionReason::UniversalSortedRunNum
        );
        plan.proximal.is_some() && is_for_sizes && plan.input_files().all(stays)
    }

    fn plan(&self, picked: Range<usize>, reason: CompactionReason, compress: bool) -> Option<CompactionPlan> {
        self.plan_with(picked, reason, compress, false, None)
    }

    fn plan_with(
        &self,
        picked: Range<usize>,
        reason: CompactionReason,
        compress: bool,
        shrinks_at_bottom: bool,
        output_path: Option<u32>,
    ) -> Option<CompactionPlan> {
        let version = self.version;
        let output_level = match self.runs.get(picked.end) {
            None => version.max_output_level(),
            Some(next) => next.level.saturating_sub(1),
        };
        let mut inputs: Vec<LevelFiles> = Vec::new();
        for run in &self.runs[picked] {
            let files = version.files(run.level);
            if run.level > 0 {
                inputs.push(LevelFiles { level: run.level, files: files.to_vec() });
                continue;
            }
            let file = Arc::clone(&files[run.index]);
            match inputs.first_mut() {
                Some(level0) => level0.files.push(file),
                None => inputs.push(LevelFiles { level: 0, files: vec![file] }),
            }
        }
        self.plan_of(inputs, output_level, reason, compress, shrinks_at_bottom, output_path)
    }

    fn plan_of(
        &self,
        inputs: Vec<LevelFiles>,
        output_level: usize,
        reason: CompactionReason,
        compress: bool,
        shrinks_at_bottom: bool,
        output_path: Option<u32>,
    ) -> Option<CompactionPlan> {
        let version = self.version;
        if output_level > 0 && is_written_into(version, self.context.running, &inputs, output_level) {
            return None;
        }
        let options = self.context.options;
        let level0_disjoint = super::manual::level0_is_disjoint(version);
        let may_move = reason != CompactionReason::PeriodicCompaction
            && !(reason == CompactionReason::ManualCompaction && options.has_compaction_filter);
        let score = self.runs.len() as f64 / options.level0_file_num_compaction_trigger as f64;
        let draft = Draft {
            inputs,
            output_level,
            reason,
            score,
            level0_disjoint,
            output_path,
            may_move,
            shrinks_at_bottom,
        };
        let mut plan = draft.finish(version, options, &LevelSizes::new(version, options));
        plan.never_compress = !compress;
        if plan.is_blocked(self.context.running) || self.moves_nothing(&plan) {
            return None;
        }
        if options.universal.allow_trivial_move
            && may_move
            && plan.proximal.is_none()
            && output_level > 0
            && are_in_path(&plan.inputs, plan.output_path)
            && is_disjoint(&plan)
            && !(plan.is_bottommost && shrinks_at_bottom)
        {
            plan.is_trivial_move = true;
        }
        Some(plan)
    }
}

/// Whether no two inputs of any level overlap.
fn is_disjoint(plan: &CompactionPlan) -> bool {
    let icmp = plan.version.icmp();
    let mut files: Vec<&Arc<FileMeta>> = plan.input_files().map(|(_, f)| f).collect();
    files.sort_by(|a, b| icmp.compare_plain_keys(a.smallest_user_key(), b.smallest_user_key()));
    files
        .windows(2)
        .all(|pair| icmp.compare_plain_keys(pair[0].largest_user_key(), pair[1].smallest_user_key()).is_lt())
}
