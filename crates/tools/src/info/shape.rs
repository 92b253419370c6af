//! The shape of a family: target sizes of levels, sorted runs, amplification.
//!
//! In: bytes by level and the family's options. Out: numbers. Pure.
//! Source: the sizes of `rocksdb.cfstats`, and the page "Leveled Compaction" of RocksDB's wiki.

use super::model::LevelInfo;
use esker::ColumnFamilyOptions;
use esker::options::CompactionStyle;

/// Deeper levels have no target here.
pub(super) const MOST_LEVELS: usize = 64;

/// The target of each level; `None` for level 0, for levels above the base level, and for other
/// styles than leveled compaction. `bytes` has the size of each level, from level 0 on.
pub(super) fn targets(bytes: &[u64], options: &ColumnFamilyOptions) -> Vec<Option<u64>> {
    let levels = usize::try_from(options.num_levels).unwrap_or(0).max(bytes.len()).clamp(1, MOST_LEVELS);
    let mut targets = vec![None; levels];
    if options.compaction_style != CompactionStyle::Level {
        return targets;
    }
    let size = |level: usize| bytes.get(level).copied().unwrap_or(0);
    let base_max = options.max_bytes_for_level_base as f64;
    let factor = Some(options.max_bytes_for_level_multiplier).filter(|f| *f >= 1.0).unwrap_or(1.0);
    if !options.level_compaction_dynamic_level_bytes {
        let mut target = base_max;
        for (level, place) in targets.iter_mut().enumerate().skip(1) {
            if level > 1 {
                let extra = options.max_bytes_for_level_multiplier_additional.get(level - 1);
                target *= factor * f64::from(extra.copied().unwrap_or(1));
            }
            *place = Some(target as u64);
        }
        return targets;
    }
    // The largest level is its own target. Each level above has a smaller one, down to a base level
    // with at most `max_bytes_for_level_base`.
    let Some(first) = (1..levels).find(|&level| size(level) > 0) else { return targets };
    let largest = (1..levels).map(size).max().unwrap_or(0) as f64;
    let mut base_level = first;
    let mut base = (first + 1..levels).fold(largest, |target, _| target / factor);
    if base <= base_max / factor {
        base = base_max / factor + 1.0;
    } else {
        while base_level > 1 && base > base_max {
            base_level -= 1;
            base /= factor;
        }
        base = base.min(base_max);
    }
    let mut target = base;
    for place in targets.iter_mut().skip(base_level) {
        *place = Some(target.max(base_max) as u64);
        target *= factor;
    }
    targets
}

/// The number of sorted runs in a level.
pub(super) fn sorted_runs(level: usize, files: u64) -> u64 {
    if level == 0 { files } else { files.min(1) }
}

/// Bytes of all tables to bytes of the last level with files.
pub(super) fn space_amplification(levels: &[LevelInfo]) -> Option<f64> {
    let last = levels.iter().rev().find(|level| level.bytes > 0)?;
    let total: u64 = levels.iter().map(|level| level.bytes).fold(0, u64::saturating_add);
    (last.level > 0).then(|| total as f64 / last.bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_leveled_compaction() {
        let mut options = ColumnFamilyOptions { max_bytes_for_level_base: 100, ..Default::default() };
        options.num_levels = 5;
        options.level_compaction_dynamic_level_bytes = false;
        let expected = [None, Some(100), Some(1000), Some(10_000), Some(100_000)];
        assert_eq!(targets(&[7, 0, 0], &options), expected);
        options.level_compaction_dynamic_level_bytes = true;
        assert_eq!(targets(&[7, 0, 0], &options), [None; 5], "no level has a size yet");
        let expected = [None, None, None, Some(100), Some(990)];
        assert_eq!(targets(&[0, 0, 0, 0, 990], &options), expected);
        options.compaction_style = CompactionStyle::Universal;
        assert_eq!(targets(&[0, 0, 0, 0, 990], &options), [None; 5]);
    }

    #[test]
    fn the_space_of_a_family_is_compared_with_its_last_level() {
        let level = |level, bytes| LevelInfo { level, bytes, ..LevelInfo::default() };
        assert_eq!(space_amplification(&[level(0, 50), level(6, 100)]), Some(1.5));
        assert_eq!(space_amplification(&[level(0, 50)]), None);
        assert_eq!((sorted_runs(0, 4), sorted_runs(3, 4), sorted_runs(3, 0)), (4, 1, 0));
    }
}
