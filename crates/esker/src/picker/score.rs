//! Target sizes of levels, their urgency, and the amount of pending work.
//!
//! Source: RocksDB `db/version_set.cc` (`CalculateBaseBytes`, `ComputeCompactionScore`,
//! `EstimateCompactionBytesNeeded`).

use super::{PickerOptions, RunningCompactions};
use crate::version::{FileMeta, Version, Weights};

/// Factor of scores from 1.0 on, with dynamic level sizes. It leaves room above 1.0 to order due
/// levels.
const SCORE_SCALE: f64 = 10.0;
/// The weight of a point deletion's bytes once deletions outnumber other entries.
const DELETION_WEIGHT: u64 = 2;

/// The target sizes of a version's levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LevelSizes {
    /// The level into which level 0 is compacted.
    pub base_level: usize,
    /// Most bytes of each level; `u64::MAX` for levels that are not compacted. The entry of level 0
    /// has no meaning.
    pub max_bytes: Vec<u64>,
    /// The data does not need the levels from 1 to this one; they are drained.
    pub lowest_unnecessary_level: Option<usize>,
}

impl LevelSizes {
    /// Computes the target sizes.
    pub(crate) fn new(version: &Version, options: &PickerOptions) -> LevelSizes {
        if options.level_compaction_dynamic_level_bytes {
            dynamic_sizes(version, options)
        } else {
            static_sizes(version.num_levels(), options)
        }
    }
}

fn static_sizes(num_levels: usize, options: &PickerOptions) -> LevelSizes {
    let mut max_bytes = vec![options.max_bytes_for_level_base; num_levels];
    for level in 2..num_levels {
        let extra = options.max_bytes_for_level_multiplier_additional.get(level - 1).copied().unwrap_or(1);
        let grown = multiply(max_bytes[level - 1], options.max_bytes_for_level_multiplier);
        max_bytes[level] = multiply(grown, f64::from(extra));
    }
    LevelSizes { base_level: 1.min(num_levels - 1), max_bytes, lowest_unnecessary_level: None }
}

/// Target sizes from the largest level, whose present size is its target. Each level above gets a
/// smaller target. The first one with a target of at most `max_bytes_for_level_base` is the base
/// level.
fn dynamic_sizes(version: &Version, options: &PickerOptions) -> LevelSizes {
    let num_levels = version.num_levels();
    let mut sizes = LevelSizes {
        base_level: num_levels - 1,
        max_bytes: vec![u64::MAX; num_levels],
        lowest_unnecessary_level: None,
    };
    let Some(first) = (1..num_levels).find(|&l| version.size(l) > 0) else {
        return sizes;
    };
    let largest = (1..num_levels).map(|l| version.size(l)).max().unwrap_or(0);
    let multiplier = options.max_bytes_for_level_multiplier;
    let base_max = options.max_bytes_for_level_base;
    let base_min = (base_max as f64 / multiplier) as u64;

    let mut target = largest;
    for level in (first..num_levels - 1).rev() {
        target = (target as f64 / multiplier) as u64;
        // The level above the last one keeps young entries.
        let is_needed = options.preclude_last_level_seconds > 0 && level + 2 >= num_levels;
        if sizes.lowest_unnecessary_level.is_none() && target <= base_min && !is_needed {
            sizes.lowest_unnecessary_level = Some(level);
        }
    }
    sizes.base_level = first;
    let base_bytes = if target <= base_min {
        base_min + 1
    } else {
        while sizes.base_level > 1 && target > base_max {
            sizes.base_level -= 1;
            target = (target as f64 / multiplier) as u64;
        }
        target.clamp(1, base_max)
    };
    let mut bytes = base_bytes;
    for level in sizes.base_level..num_levels {
        if level > sizes.base_level {
            bytes = multiply(bytes, multiplier);
        }
        // At least the base size. Otherwise middle levels could be smaller than level 0, and their
        // scores would take precedence over level 0.
        sizes.max_bytes[level] = bytes.max(base_max);
    }
    sizes
}

/// `bytes * factor`, or `bytes` on overflow.
pub(super) fn multiply(bytes: u64, factor: f64) -> u64 {
    if bytes == 0 || factor <= 0.0 {
        return 0;
    }
    if u64::MAX as f64 / bytes as f64 <= factor { bytes } else { (bytes as f64 * factor) as u64 }
}

/// Urgencies and target sizes of a version's levels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scores {
    /// The level into which level 0 is compacted.
    pub base_level: usize,
    /// The target sizes of the levels.
    pub sizes: LevelSizes,
    /// `(score, level)`, most urgent first; a level is due from 1.0 on. The last level is never
    /// due, and is missing here.
    pub by_urgency: Vec<(f64, usize)>,
    /// Bytes that compactions have to write before every level is within its size, as RocksDB
    /// estimates it. Write stalls depend on it.
    pub estimated_pending_compaction_bytes: u64,
}

impl Scores {
    /// Whether some level is due.
    pub(crate) fn is_due(&self) -> bool {
        self.by_urgency.first().is_some_and(|(score, _)| *score >= 1.0)
    }
}

/// Computes [`Scores`] from sums: it visits only files that are being compacted.
pub(crate) fn scores(version: &Version, options: &PickerOptions, running: &RunningCompactions) -> Scores {
    let sizes = LevelSizes::new(version, options);
    let weigher = Weigher::new(version);
    let mut by_urgency = Vec::with_capacity(version.num_levels());
    // Bytes that upper levels will soon move down.
    let mut coming_down = version.size(0) as f64;
    if version.num_levels() > 1 {
        by_urgency.push((level0_score(version, options, running, &sizes, &weigher), 0));
    }
    for level in 1..version.num_levels().saturating_sub(1) {
        let idle = idle_bytes(version, level, running, &weigher);
        by_urgency.push((sorted_level_score(level, idle, coming_down, options, &sizes), level));
        coming_down += if sizes.lowest_unnecessary_level.is_some_and(|l| level <= l) {
            version.size(level) as f64
        } else {
            version.size(level).saturating_sub(sizes.max_bytes[level]) as f64
        };
    }
    // The sort is stable: of equal scores, the upper level comes first.
    by_urgency.sort_by(|a, b| b.0.total_cmp(&a.0));
    let estimated_pending_compaction_bytes = pending_bytes(version, options, &sizes);
    Scores { base_level: sizes.base_level, sizes, by_urgency, estimated_pending_compaction_bytes }
}

/// Computes [`Scores::estimated_pending_compaction_bytes`] alone.
pub(super) fn pending_compaction_bytes(version: &Version, options: &PickerOptions) -> u64 {
    pending_bytes(version, options, &LevelSizes::new(version, options))
}

/// Compensated bytes of the files of a level that are not being compacted.
pub(super) fn idle_bytes(
    version: &Version,
    level: usize,
    running: &RunningCompactions,
    weigher: &Weigher,
) -> u64 {
    if running.has_quarantined() {
        // The levels of damaged files are unknown, so all files are visited. Few databases have
        // damaged files.
        let idle = version.files(level).iter().filter(|f| !running.is_busy(f.number));
        return weigher.weigh(&idle.map(|f| Weights::of(f)).sum());
    }
    let busy: Weights = running.inputs_of_level(level).map(Weights::of).sum();
    weigher.weigh(&(*version.levels()[level].weights() - busy))
}

/// The score of level 0. It depends on the number of files, as every read checks all of them. It
/// depends on bytes only so that level 0 does not outgrow the base level.
fn level0_score(
    version: &Version,
    options: &PickerOptions,
    running: &RunningCompactions,
    sizes: &LevelSizes,
    weigher: &Weigher,
) -> f64 {
    let idle_count = version.files(0).iter().filter(|f| !running.is_busy(f.number)).count();
    let idle = idle_bytes(version, 0, running, weigher);
    let score = idle_count as f64 / options.level0_file_num_compaction_trigger as f64;
    if !options.level_compaction_dynamic_level_bytes {
        return score.max(idle as f64 / options.max_bytes_for_level_base as f64);
    }
    let mut score = score;
    if idle >= options.max_bytes_for_level_base {
        // With this many bytes, the estimate of pending bytes counts level 0. So level 0 must be
        // due, or writes might stall without a compaction.
        score = score.max(1.01);
    }
    let base_max = sizes.max_bytes[sizes.base_level];
    if idle > base_max {
        // If level 0 is larger than the base level, its score is above 1 and the base level's is
        // lower: level 0 is compacted first.
        let base = weigher.weigh(version.levels()[sizes.base_level].weights());
        score = score.max(idle as f64 / base.max(base_max) as f64);
    }
    if score > 1.0 { score * SCORE_SCALE } else { score }
}

fn sorted_level_score(
    level: usize,
    idle: u64,
    coming_down: f64,
    options: &PickerOptions,
    sizes: &LevelSizes,
) -> f64 {
    let max = sizes.max_bytes[level] as f64;
    let plain = idle as f64 / max;
    if !options.level_compaction_dynamic_level_bytes {
        return plain;
    }
    // A level that will get many bytes from above waits for them: one later compaction is cheaper
    // than two.
    let score = if plain < 1.0 { plain } else { idle as f64 / (max + coming_down) * SCORE_SCALE };
    match sizes.lowest_unnecessary_level {
        Some(lowest) if level <= lowest && idle > 0 => {
            score.max(SCORE_SCALE * (1.001 + 0.001 * (lowest - level) as f64))
        }
        _ => score,
    }
}

/// Bytes to compact until every level has its size: level by level, the excess moves down and is
/// merged with the overlapping share of the next level.
fn pending_bytes(version: &Version, options: &PickerOptions, sizes: &LevelSizes) -> u64 {
    let level0 = version.size(0);
    let level0_due = version.num_files(0) >= options.level0_file_num_compaction_trigger
        || level0 >= options.max_bytes_for_level_base;
    let mut moving = if level0_due { level0 } else { 0 };
    let mut pending = moving;
    for level in sizes.base_level..version.num_levels().saturating_sub(1) {
        let here = version.size(level);
        if level == sizes.base_level && level0_due {
            pending = pending.saturating_add(here);
        }
        let total = here.saturating_add(moving);
        moving = total.saturating_sub(sizes.max_bytes[level]);
        let below = version.size(level + 1);
        if moving > 0 && below > 0 {
            let fan_out = below as f64 / total as f64 + 1.0;
            pending = pending.saturating_add((moving as f64 * fan_out) as u64);
        }
    }
    pending
}

/// Weighs files: many deletions make a file more urgent than its bytes say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weigher {
    average_value_bytes: u64,
}

impl Weigher {
    pub(super) fn new(version: &Version) -> Weigher {
        let all: Weights = version.levels().iter().map(|level| *level.weights()).sum();
        if all.others == 0 || all.raw_bytes == 0 {
            return Weigher { average_value_bytes: 0 };
        }
        // Stored bytes: the raw average times the compression ratio.
        let stored = all.known_bytes as f64 / all.raw_bytes as f64;
        let average = all.raw_value_bytes as f64 / all.others as f64 * stored;
        Weigher { average_value_bytes: average as u64 }
    }

    /// The bytes of some files. Files with more deletions than other entries weigh more, as do
    /// files whose range tombstones hide many bytes.
    pub(super) fn weigh(&self, weights: &Weights) -> u64 {
        let excess = weights.excess_deletions.saturating_mul(self.average_value_bytes);
        weights.bytes.saturating_add(excess.saturating_mul(DELETION_WEIGHT))
    }

    /// [`Weigher::weigh`] of one file.
    pub(super) fn compensated_size(&self, f: &FileMeta) -> u64 {
        self.weigh(&Weights::of(f))
    }
}
