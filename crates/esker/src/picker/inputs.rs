//! Geometry of files: ranges, overlaps, clean cuts.
//!
//! A *clean cut* of a sorted level is a run of files whose neighbours share no user key with it.
//! Any other choice would move newer versions of a user key below older ones.
//! Source: RocksDB `db/compaction/compaction_picker.cc`, `db/version_set.cc`
//! (`GetOverlappingInputs`).

use super::{LevelFiles, RunningCompactions};
use crate::version::{FileMeta, Version};
use esker_base::sync::Arc;
use esker_format::key::{self, InternalKeyComparator};
use std::cmp::Ordering;
use std::ops::Range;

/// Compares bounds of files by user key; an upper bound from a range tombstone sorts before all
/// other bounds with its user key.
pub(crate) fn compare_bounds(icmp: &InternalKeyComparator, a: &[u8], b: &[u8]) -> Ordering {
    let is_end = |k: &[u8]| key::trailer(k) == key::RANGE_END_SENTINEL;
    icmp.compare_plain_keys(key::user_key(a), key::user_key(b)).then_with(|| is_end(b).cmp(&is_end(a)))
}

/// The internal keys between which the files lie; `None` without files.
pub(super) fn range_of<'a>(
    icmp: &InternalKeyComparator,
    files: impl IntoIterator<Item = &'a Arc<FileMeta>>,
) -> Option<(&'a [u8], &'a [u8])> {
    files.into_iter().map(|f| (f.smallest.as_slice(), f.largest.as_slice())).reduce(|(a, b), (c, d)| {
        let smallest = if icmp.compare(c, a).is_lt() { c } else { a };
        let largest = if icmp.compare(d, b).is_gt() { d } else { b };
        (smallest, largest)
    })
}

/// Files of a sorted level that share a user key with the bounds `[smallest, largest]`.
pub(super) fn overlap_range(
    version: &Version,
    level: usize,
    smallest: &[u8],
    largest: &[u8],
) -> Range<usize> {
    let (files, icmp) = (version.files(level), version.icmp());
    let from = files.partition_point(|f| compare_bounds(icmp, &f.largest, smallest).is_lt());
    let count = files[from..].partition_point(|f| compare_bounds(icmp, &f.smallest, largest).is_le());
    from..from + count
}

/// The index at which files of a sorted level end if they are extended from `end` to the bound
/// `largest`.
pub(super) fn end_at(version: &Version, level: usize, end: usize, largest: &[u8]) -> usize {
    let (rest, icmp) = (&version.files(level)[end..], version.icmp());
    end + rest.partition_point(|f| compare_bounds(icmp, &f.smallest, largest).is_le())
}

/// Files of any level that share a user key with the bounds; in level 0 also files that overlap
/// those files, and so on.
pub(super) fn overlapping(version: &Version, level: usize, smallest: &[u8], largest: &[u8]) -> LevelFiles {
    let files = if level > 0 {
        version.files(level)[overlap_range(version, level, smallest, largest)].to_vec()
    } else {
        overlapping_in_level0(version, key::user_key(smallest), key::user_key(largest))
    };
    LevelFiles { level, files }
}

/// The files that overlap the user keys, the files that overlap those, and so on. There may be
/// thousands in a chain of overlaps, in any order of age, so they are visited by key.
fn overlapping_in_level0(version: &Version, smallest: &[u8], largest: &[u8]) -> Vec<Arc<FileMeta>> {
    let (files, icmp) = (version.files(0), version.icmp());
    let start = |i: usize| files[i].smallest_user_key();
    let mut by_start: Vec<usize> = (0..files.len()).collect();
    by_start.sort_by(|&a, &b| icmp.compare_plain_keys(start(a), start(b)));
    let mut taken = vec![false; files.len()];
    let mut rest = &by_start[..];
    while let Some(&first) = rest.first() {
        // A run of files that overlap each other: all or none of them are taken.
        let (mut end, mut count) = (files[first].largest_user_key(), 1);
        while let Some(&next) = rest.get(count)
            && icmp.compare_plain_keys(start(next), end).is_le()
        {
            let next_end = files[next].largest_user_key();
            end = if icmp.compare_plain_keys(next_end, end).is_gt() { next_end } else { end };
            count += 1;
        }
        let apart = icmp.compare_plain_keys(end, smallest).is_lt()
            || icmp.compare_plain_keys(start(first), largest).is_gt();
        let run;
        (run, rest) = rest.split_at(count);
        run.iter().for_each(|&i| taken[i] = !apart);
    }
    files.iter().zip(taken).filter(|(_, taken)| *taken).map(|(f, _)| Arc::clone(f)).collect()
}

/// The files and, in a sorted level, the files on both sides that continue their user keys. In
/// level 0 nothing is added.
pub(super) fn clean_cut(version: &Version, inputs: LevelFiles) -> LevelFiles {
    let mut inputs = inputs;
    while inputs.level > 0
        && let Some((smallest, largest)) = range_of(version.icmp(), &inputs.files)
    {
        let grown = overlapping(version, inputs.level, smallest, largest);
        if grown.files.len() <= inputs.files.len() {
            break;
        }
        inputs = grown;
    }
    inputs
}

/// The end of a run of files in a sorted level after adding the files that continue its last user
/// key. The run is not empty, and ends at `end`.
pub(super) fn clean_end(version: &Version, level: usize, end: usize) -> usize {
    let (files, icmp) = (version.files(level), version.icmp());
    let joined = |i: usize| compare_bounds(icmp, &files[i - 1].largest, &files[i].smallest).is_eq();
    (end..files.len()).find(|&i| !joined(i)).unwrap_or(files.len())
}

/// [`clean_cut`], if none of its files is being compacted.
pub(super) fn idle_clean_cut(
    version: &Version,
    inputs: LevelFiles,
    running: &RunningCompactions,
) -> Option<LevelFiles> {
    let inputs = clean_cut(version, inputs);
    (!any_busy(&inputs.files, running)).then_some(inputs)
}

/// The largest clean cut of a sorted level that lies within `[smallest, largest]`.
pub(super) fn clean_cut_within(
    version: &Version,
    level: usize,
    smallest: &[u8],
    largest: &[u8],
) -> LevelFiles {
    let (files, icmp) = (version.files(level), version.icmp());
    let from = files.partition_point(|f| compare_bounds(icmp, &f.smallest, smallest).is_lt());
    let to = files.partition_point(|f| compare_bounds(icmp, &f.largest, largest).is_le());
    LevelFiles { level, files: files[shrink_to_clean_cut(version, level, from..to)].to_vec() }
}

/// The largest part of these files of a sorted level that shares no user key with other files.
pub(super) fn shrink_to_clean_cut(version: &Version, level: usize, these: Range<usize>) -> Range<usize> {
    let (files, icmp) = (version.files(level), version.icmp());
    let (mut from, mut to) = (these.start, these.end.max(these.start));
    let joined = |i: usize| compare_bounds(icmp, &files[i - 1].largest, &files[i].smallest).is_eq();
    while from > 0 && from < to && joined(from) {
        from += 1;
    }
    while to < files.len() && to > from && joined(to) {
        to -= 1;
    }
    from..to
}

pub(super) fn any_busy(files: &[Arc<FileMeta>], running: &RunningCompactions) -> bool {
    files.iter().any(|f| running.is_busy(f.number))
}

#[cfg(test)]
thread_local! {
    /// Number of files whose sizes this thread has summed.
    pub(super) static SUMMED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

pub(super) fn bytes_of(files: &[Arc<FileMeta>]) -> u64 {
    #[cfg(test)]
    SUMMED.set(SUMMED.get() + files.len() as u64);
    files.iter().map(|f| f.file_size).sum()
}

/// Whether a running compaction writes into the user-key range of these files on `level`.
pub(super) fn is_written_into(
    version: &Version,
    running: &RunningCompactions,
    inputs: &[LevelFiles],
    level: usize,
) -> bool {
    match range_of(version.icmp(), inputs.iter().flat_map(|l| &l.files)) {
        None => false,
        Some((a, b)) => running.writes_into(level, key::user_key(a), key::user_key(b), version.icmp()),
    }
}

/// Adds the files of the output level that files of an upper level overlap. Then adds more of the
/// upper level, if that needs no more of the output level and stays below twice
/// `max_compaction_bytes`. With `rightwards`, the inputs grow only towards larger keys. `None` if a
/// needed file is being compacted.
pub(super) fn with_output_level(
    version: &Version,
    running: &RunningCompactions,
    start: LevelFiles,
    output_level: usize,
    max_compaction_bytes: u64,
    rightwards: bool,
) -> Option<(LevelFiles, LevelFiles)> {
    if start.level == output_level {
        return Some((start, LevelFiles { level: output_level, files: Vec::new() }));
    }
    let (smallest, largest) = range_of(version.icmp(), &start.files)?;
    let output = overlapping(version, output_level, smallest, largest);
    if output.files.is_empty() {
        return Some((start, output));
    }
    let output = idle_clean_cut(version, output, running)?;
    let limit = max_compaction_bytes.saturating_mul(2);
    let grown = grow(version, running, &start, &output, limit, rightwards);
    Some((grown.unwrap_or(start), output))
}

fn grow(
    version: &Version,
    running: &RunningCompactions,
    start: &LevelFiles,
    output: &LevelFiles,
    limit: u64,
    rightwards: bool,
) -> Option<LevelFiles> {
    let icmp = version.icmp();
    let (own_smallest, _) = range_of(icmp, &start.files)?;
    let (smallest, largest) = range_of(icmp, start.files.iter().chain(&output.files))?;
    let smallest = if rightwards { own_smallest } else { smallest };
    let output_bytes = bytes_of(&output.files);
    let fits = |files: &LevelFiles| {
        files.files.len() > start.files.len()
            && !any_busy(&files.files, running)
            && output_bytes.saturating_add(bytes_of(&files.files)) < limit
    };
    let wide = clean_cut(version, overlapping(version, start.level, smallest, largest));
    if fits(&wide) {
        let (a, b) = range_of(icmp, &wide.files)?;
        let needed = clean_cut(version, overlapping(version, output.level, a, b));
        if needed.files.len() == output.files.len() {
            return Some(wide);
        }
    }
    if start.level == 0 {
        return None;
    }
    let narrow = clean_cut_within(version, start.level, smallest, largest);
    fits(&narrow).then_some(narrow)
}
