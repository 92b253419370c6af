//! Picks compactions of the leveled style.
//!
//! In: a version and the running compactions. Out: the most urgent plan that no running compaction
//! blocks.
//! Source: RocksDB `db/compaction/compaction_picker_level.cc`.
//!
//! The order of reasons: levels that are due, most urgent first; files marked by their writers;
//! files of the last level that can lose old versions; files older than `ttl`; files due for a
//! periodic rewrite. Only one compaction that reads level 0 runs at a time. While a running
//! compaction blocks compactions from level 0 into the base level, level-0 files are merged with
//! each other.

pub(crate) use super::PickContext;
use super::garbage;
use super::inputs::{
    any_busy, bytes_of, clean_cut, clean_end, compare_bounds, end_at, idle_clean_cut, is_written_into,
    overlap_range, overlapping, range_of, with_output_level,
};
use super::marked::{self, Marked};
use super::plan::Draft;
use super::proximal::stays_above;
use super::score::{Scores, Weigher, multiply, scores};
use super::{
    CompactionPlan, CompactionPri, CompactionReason, LevelFiles, NONE_SUGGESTED, PickerOptions,
    RunningCompactions, priority,
};
use crate::version::{FileMeta, Version};
use esker_base::SequenceNumber;
use esker_base::sync::Arc;

/// Fewest level-0 files that are merged with each other.
const MIN_FILES_FOR_INTRA_L0: usize = 4;
/// Level-0 files beyond the trigger before they are merged with each other.
const INTRA_L0_SLACK: usize = 2;
/// Most files that move down at once, so that the next level is not flooded.
const MAX_MULTI_TRIVIAL_MOVE: usize = 4;

/// The most urgent compaction that is due and that no running compaction blocks.
pub(crate) fn pick(version: &Arc<Version>, context: &PickContext<'_>) -> Option<CompactionPlan> {
    if version.num_levels() < 2 {
        return None;
    }
    let picker = Picker { version, context, scores: scores(version, context.options, context.running) };
    picker.due_level().or_else(|| picker.marked_file())
}

/// Whether [`pick`] may find a compaction: some level is due, or some file is marked.
pub(crate) fn needs_compaction(version: &Version, context: &PickContext<'_>) -> bool {
    version.num_levels() > 1
        && (scores(version, context.options, context.running).is_due()
            || marked::for_compaction(version, context).next().is_some()
            || marked::bottommost(version, context).next().is_some()
            || garbage::free(version, context).next().is_some()
            || marked::expired(version, context).next().is_some()
            || marked::periodic(version, context).next().is_some()
            || marked::for_blob_gc(version, context).next().is_some())
}

/// Does in advance the scans over files that [`pick`] and its siblings would otherwise do under the
/// db mutex.
pub(crate) fn prepare(version: &Version, options: &PickerOptions, now_seconds: u64) {
    let running = RunningCompactions::default();
    let context = PickContext {
        options,
        running: &running,
        now_seconds,
        seconds_ahead: 0,
        oldest_snapshot: SequenceNumber::ZERO,
        oldest_live: SequenceNumber::MAX,
        suggested: &NONE_SUGGESTED,
    };
    (0..version.num_levels()).for_each(|level| {
        marked::waiting(version, level);
    });
    // A level that is not due without running compactions is not due with them.
    for (_, level) in scores(version, options, &running).by_urgency.iter().filter(|(score, _)| *score >= 1.0)
    {
        priority::order(version, *level, &context);
    }
}

/// The first files of a plan.
struct Start {
    inputs: LevelFiles,
    output_level: usize,
    reason: CompactionReason,
    score: f64,
    /// Whether the files are level-0 files that overlap neither older files of level 0 nor the
    /// output level: they can move without a rewrite.
    is_l0_move: bool,
}

/// The output level of a marked file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    SameLevel,
    /// The next level; a file in the last level is rewritten there.
    NextLevel,
    /// The next level; files in the last level are skipped.
    NextLevelIfAny,
}

struct Picker<'a> {
    version: &'a Arc<Version>,
    context: &'a PickContext<'a>,
    scores: Scores,
}

impl Picker<'_> {
    fn base_level(&self) -> usize {
        self.scores.base_level
    }

    fn due_level(&self) -> Option<CompactionPlan> {
        let mut level0_is_blocked = false;
        for &(score, level) in self.scores.by_urgency.iter().take_while(|(score, _)| *score >= 1.0) {
            // Otherwise other compactions would take the files that level 0 waits for again and
            // again, and level 0 would starve.
            if level0_is_blocked && level == self.base_level() {
                continue;
            }
            if level > 0 {
                if let Some(plan) = self.pick_sorted_level(level, score) {
                    return Some(plan);
                }
                continue;
            }
            if let Some(plan) = self.pick_level0(score) {
                return Some(plan);
            }
            level0_is_blocked = true;
            if let Some(files) = self.intra_level0_by_cost() {
                return self.complete(self.intra_level0(files, score));
            }
        }
        None
    }

    fn pick_level0(&self, score: f64) -> Option<CompactionPlan> {
        if self.context.running.reads_level0() {
            let files = self.intra_level0_by_size()?;
            return self.complete(self.intra_level0(files, score));
        }
        let start = |files: Vec<Arc<FileMeta>>, is_l0_move| Start {
            inputs: LevelFiles { level: 0, files },
            output_level: self.base_level(),
            reason: CompactionReason::LevelL0FilesNum,
            score,
            is_l0_move,
        };
        let movable = self.movable_level0_files();
        if !movable.is_empty() {
            return self.complete(start(movable, true));
        }
        if let Some(files) = self.intra_level0_by_size() {
            return self.complete(self.intra_level0(files, score));
        }
        let order = priority::order(self.version, 0, self.context);
        order.iter().find_map(|&i| self.complete(start(vec![Arc::clone(&self.version.files(0)[i])], false)))
    }

    fn intra_level0(&self, files: Vec<Arc<FileMeta>>, score: f64) -> Start {
        Start {
            inputs: LevelFiles { level: 0, files },
            output_level: 0,
            reason: CompactionReason::LevelL0FilesNum,
            score,
            is_l0_move: false,
        }
    }

    /// The oldest level-0 files that overlap neither each other nor the base level, by key. None if
    /// the base level is empty, or if levels may differ in compression.
    fn movable_level0_files(&self) -> Vec<Arc<FileMeta>> {
        let (version, base) = (self.version, self.base_level());
        let mut files: Vec<Arc<FileMeta>> = Vec::new();
        if !self.context.options.compression_per_level.is_empty() || version.num_files(base) == 0 {
            return files;
        }
        let icmp = version.icmp();
        let mut range: Option<(&[u8], &[u8])> = None;
        for f in version.files(0).iter().rev().take_while(|f| !self.is_busy(f)) {
            // Versions of one user key stay together, whatever their sequence numbers.
            let with_it = match range {
                None => (&f.smallest[..], &f.largest[..]),
                Some((a, b)) if compare_bounds(icmp, &f.largest, a).is_lt() => (&f.smallest[..], b),
                Some((a, b)) if compare_bounds(icmp, &f.smallest, b).is_gt() => (a, &f.largest[..]),
                Some(_) => break,
            };
            if !overlap_range(version, base, with_it.0, with_it.1).is_empty() {
                break;
            }
            range = Some(with_it);
            files.push(Arc::clone(f));
        }
        files.sort_by(|a, b| icmp.compare(&a.smallest, &b.smallest));
        files
    }

    /// All newest idle level-0 files, if the base level is so large that a compaction into it would
    /// mostly rewrite old data.
    fn intra_level0_by_size(&self) -> Option<Vec<Arc<FileMeta>>> {
        let (version, options) = (self.version, self.context.options);
        let min_files = options.level0_file_num_compaction_trigger.max(2);
        let level0 = version.files(0);
        if level0.len() < min_files {
            return None;
        }
        let weigher = Weigher::new(version);
        let level0_bytes: u64 = level0.iter().map(|f| weigher.compensated_size(f)).sum();
        let factor = options.max_bytes_for_level_multiplier.max(10.0) * 2.0;
        if version.size(self.base_level()) <= multiply(level0_bytes, factor) {
            return None;
        }
        let files: Vec<_> = level0.iter().take_while(|f| !self.is_busy(f)).cloned().collect();
        (files.len() >= min_files).then_some(files)
    }

    /// The newest idle level-0 files, as long as each further file lowers the work per file
    /// removed.
    fn intra_level0_by_cost(&self) -> Option<Vec<Arc<FileMeta>>> {
        let (level0, options) = (self.version.files(0), self.context.options);
        if level0.len() < options.level0_file_num_compaction_trigger + INTRA_L0_SLACK {
            return None;
        }
        let mut bytes = level0.first().filter(|f| !self.is_busy(f))?.file_size;
        let mut bytes_per_file_gone = u64::MAX;
        let mut count = 1;
        for f in &level0[1..] {
            bytes = bytes.saturating_add(f.file_size);
            let with_it = bytes / count as u64;
            if self.is_busy(f) || with_it > bytes_per_file_gone || bytes > options.max_compaction_bytes() {
                break;
            }
            bytes_per_file_gone = with_it;
            count += 1;
        }
        (count >= MIN_FILES_FOR_INTRA_L0).then(|| level0[..count].to_vec())
    }

    fn pick_sorted_level(&self, level: usize, score: f64) -> Option<CompactionPlan> {
        let round_robin = self.context.options.compaction_pri == CompactionPri::RoundRobin;
        let order = priority::order(self.version, level, self.context);
        for &index in &*order {
            if self.is_busy(&self.version.files(level)[index]) {
                if round_robin {
                    // A compaction into the base level comes first.
                    return None;
                }
                continue;
            }
            if stays_above(self.version, self.context, level, &self.version.files(level)[index]) {
                continue;
            }
            let plan = self.pick_file(level, index, score);
            if plan.is_some() || round_robin {
                return plan;
            }
        }
        None
    }

    /// Plans a compaction of one file of a due level, and of the files that must or should be
    /// compacted with it.
    fn pick_file(&self, level: usize, index: usize, score: f64) -> Option<CompactionPlan> {
        let (version, running) = (self.version, self.context.running);
        let round_robin = self.context.options.compaction_pri == CompactionPri::RoundRobin;
        let file = Arc::clone(&version.files(level)[index]);
        let inputs = idle_clean_cut(version, LevelFiles { level, files: vec![file] }, running)?;
        let (smallest, largest) = range_of(version.icmp(), &inputs.files)?;
        let moves = overlap_range(version, level + 1, smallest, largest).is_empty();
        let inputs = match moves {
            true if inputs.files.len() == 1 => self.extend_move(inputs, index, round_robin),
            false if round_robin => self.extend_round_robin(inputs),
            _ => inputs,
        };
        let reason = CompactionReason::LevelMaxLevelSize;
        self.complete(Start { inputs, output_level: level + 1, reason, score, is_l0_move: false })
    }

    /// Adds neighbours that can move with a file without a rewrite.
    fn extend_move(&self, inputs: LevelFiles, index: usize, rightwards: bool) -> LevelFiles {
        let (version, options) = (self.version, self.context.options);
        if !options.compression_per_level.is_empty() {
            return inputs;
        }
        let files = version.files(inputs.level);
        let joined = |i: usize| {
            version
                .icmp()
                .compare_plain_keys(files[i - 1].largest_user_key(), files[i].smallest_user_key())
                .is_eq()
        };
        let fits = |from: usize, to: usize, added: usize| {
            let range =
                overlap_range(version, inputs.level + 1, &files[from].smallest, &files[to - 1].largest);
            !self.is_busy(&files[added])
                && range.is_empty()
                && bytes_of(&files[from..to]) <= options.max_compaction_bytes()
        };
        let (mut from, mut to) = (index, index + 1);
        while to < files.len()
            && to - from < MAX_MULTI_TRIVIAL_MOVE
            && fits(from, to + 1, to)
            && !(to + 1 < files.len() && joined(to + 1))
        {
            to += 1;
        }
        while !rightwards
            && from > 0
            && to - from < MAX_MULTI_TRIVIAL_MOVE
            && fits(from - 1, to, from - 1)
            && !(from > 1 && joined(from - 1))
        {
            from -= 1;
        }
        LevelFiles { level: inputs.level, files: files[from..to].to_vec() }
    }

    /// Adds the files behind, until the level would be within its size or the compaction would be
    /// too large. The inputs grow only to the right.
    fn extend_round_robin(&self, inputs: LevelFiles) -> LevelFiles {
        let (version, running, options) = (self.version, self.context.running, self.context.options);
        let level = inputs.level;
        let (files, below) = (version.files(level), version.files(level + 1));
        let idle: u64 = match running.has_quarantined() {
            true => files.iter().filter(|f| !self.is_busy(f)).map(|f| f.file_size).sum(),
            false => {
                let busy: u64 = running.inputs_of_level(level).map(|f| f.file_size).sum();
                version.size(level).saturating_sub(busy)
            }
        };
        let too_much = idle.saturating_sub(self.scores.sizes.max_bytes[level]);
        let Some((smallest, largest)) = range_of(version.icmp(), &inputs.files) else { return inputs };
        let output = clean_cut(version, overlapping(version, level + 1, smallest, largest));
        let Some(last) = output.files.last().filter(|_| !any_busy(&output.files, running)) else {
            return inputs;
        };
        let at = |files: &[Arc<FileMeta>], bound: &[u8]| {
            files.partition_point(|f| version.icmp().compare(&f.smallest, bound).is_lt())
        };
        let (from, mut output_to) = (at(files, smallest), at(below, &last.smallest) + 1);
        let mut to = from + inputs.files.len();
        let (mut bytes, mut output_bytes) = (bytes_of(&inputs.files), bytes_of(&output.files));
        while bytes < too_much && to < files.len() {
            let wider = clean_end(version, level, to + 1);
            let touched = end_at(version, level + 1, output_to, &files[wider - 1].largest);
            let output_wider = clean_end(version, level + 1, touched);
            let (more, more_below) = (&files[to..wider], &below[output_to..output_wider]);
            let with = bytes.saturating_add(bytes_of(more));
            let with_below = output_bytes.saturating_add(bytes_of(more_below));
            if any_busy(more, running)
                || any_busy(more_below, running)
                || with.saturating_add(with_below) > options.max_compaction_bytes()
            {
                break;
            }
            (to, output_to, bytes, output_bytes) = (wider, output_wider, with, with_below);
        }
        LevelFiles { level, files: files[from..to].to_vec() }
    }

    fn marked_file(&self) -> Option<CompactionPlan> {
        let (version, context) = (self.version, self.context);
        let periodic_target = match context.options.level_compaction_dynamic_level_bytes {
            true => Target::NextLevel,
            false => Target::SameLevel,
        };
        let pick = |target, reason| move |(level, f): Marked| self.pick_marked(level, f, target, reason);
        let asked = |(level, f): Marked| {
            let reason = marked::reason_of(&f);
            self.pick_marked(level, f, Target::NextLevel, reason)
        };
        let bottommost = pick(Target::SameLevel, CompactionReason::BottommostFiles);
        let expired = pick(Target::NextLevelIfAny, CompactionReason::Ttl);
        let periodic = pick(periodic_target, CompactionReason::PeriodicCompaction);
        let blob_gc = pick(Target::SameLevel, CompactionReason::ForcedBlobGc);
        None.or_else(|| marked::for_compaction(version, context).find_map(asked))
            .or_else(|| marked::bottommost(version, context).find_map(bottommost))
            .or_else(|| self.garbage())
            .or_else(|| marked::expired(version, context).find_map(expired))
            .or_else(|| marked::periodic(version, context).find_map(periodic))
            .or_else(|| marked::for_blob_gc(version, context).find_map(blob_gc))
    }

    fn pick_marked(
        &self,
        level: usize,
        file: Arc<FileMeta>,
        target: Target,
        reason: CompactionReason,
    ) -> Option<CompactionPlan> {
        let last = self.version.num_non_empty_levels() - 1;
        // If no level below has files, files of level 0 move down only on request.
        let asked =
            matches!(reason, CompactionReason::FilesMarkedForCompaction | CompactionReason::ReadTriggered);
        let can_go_down = level < last || (level == 0 && asked);
        if level == 0 && self.context.running.reads_level0()
            || target == Target::NextLevelIfAny && level == last
        {
            return None;
        }
        let output_level = match target {
            Target::NextLevel | Target::NextLevelIfAny if can_go_down => self.next_level(level),
            _ => level,
        };
        let inputs = LevelFiles { level, files: vec![file] };
        let inputs = idle_clean_cut(self.version, inputs, self.context.running)?;
        self.complete(Start { inputs, output_level, reason, score: 0.0, is_l0_move: false })
    }

    /// A file whose compaction frees much of the bytes it reads.
    fn garbage(&self) -> Option<CompactionPlan> {
        garbage::free(self.version, self.context).find_map(|found| {
            let (target, reason) = match found.stays {
                true => (Target::SameLevel, CompactionReason::BottommostFiles),
                false => (Target::NextLevel, CompactionReason::FilesMarkedForCompaction),
            };
            self.pick_marked(found.level, Arc::clone(&found.file), target, reason)
        })
    }

    fn next_level(&self, level: usize) -> usize {
        if level == 0 { self.base_level() } else { level + 1 }
    }

    /// Completes the plan with further inputs; `None` if a running compaction blocks it.
    fn complete(&self, start: Start) -> Option<CompactionPlan> {
        let (version, running, options) = (self.version, self.context.running, self.context.options);
        let Start { mut inputs, output_level, reason, score, is_l0_move } = start;
        if inputs.level == 0 && output_level > 0 && !is_l0_move {
            let (smallest, largest) = range_of(version.icmp(), &inputs.files)?;
            inputs = overlapping(version, 0, smallest, largest);
        }
        if any_busy(&inputs.files, running) {
            return None;
        }
        let (inputs, output) = if output_level == 0 || is_l0_move {
            (inputs, LevelFiles { level: output_level, files: Vec::new() })
        } else {
            let rightwards = options.compaction_pri == CompactionPri::RoundRobin && score >= 1.0;
            let max = options.max_compaction_bytes();
            with_output_level(version, running, inputs, output_level, max, rightwards)?
        };
        let level0_disjoint = is_l0_move || inputs.files.len() == 1 && output.files.is_empty();
        let inputs = vec![inputs, output];
        if output_level > 0 && is_written_into(version, running, &inputs, output_level) {
            return None;
        }
        let draft = Draft {
            inputs,
            output_level,
            reason,
            score,
            level0_disjoint,
            output_path: None,
            may_move: true,
            shrinks_at_bottom: false,
        };
        let plan = draft.finish(version, options, &self.scores.sizes);
        (!plan.is_blocked(running)).then_some(plan)
    }

    fn is_busy(&self, f: &FileMeta) -> bool {
        self.context.running.is_busy(f.number)
    }
}
