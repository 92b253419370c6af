//! Picks a part of the two oldest runs of the universal style, for `incremental`.
//!
//! In: the newer and the older of two neighbouring runs below level 0. Out: neighbouring files of
//! the newer run that a compaction merges into the older one, and files of newer runs that lie
//! within their keys.
//! Source: RocksDB `UniversalCompactionBuilder::PickIncrementalForReduceSizeAmp`.
//!
//! A window slides over the files of the newer run. Whenever it and the files that it overlaps in
//! the older run hold half of `max_compaction_bytes`, its *fan-out* counts: bytes of the older run
//! for each byte of the newer one. The window with the smallest fan-out wins. The cost is that of a
//! search in the older run for each file of the newer one.
//!
//! Invariant: files that are picked from a run leave no file of an older run behind that shares a
//! user key with them and lies above the output level.

use super::inputs::{
    any_busy, clean_cut_within, idle_clean_cut, overlap_range, overlapping, range_of, with_output_level,
};
use super::{LevelFiles, PickContext};
use crate::version::Version;
use std::ops::Range;

/// The inputs of a compaction from level `newer` into `older`, with the files of the `others`,
/// which are levels from the next newer to the newest. `None` if each choice has at least the
/// fan-out `limit`, or if a needed file is being compacted.
pub(super) fn inputs(
    version: &Version,
    context: &PickContext<'_>,
    (newer, older): (usize, usize),
    others: impl Iterator<Item = usize>,
    limit: f64,
) -> Option<Vec<LevelFiles>> {
    let max_bytes = context.options.max_compaction_bytes();
    let window = best_window(version, newer, older, max_bytes / 2, limit)?;
    let start = LevelFiles { level: newer, files: version.files(newer)[window].to_vec() };
    let start = idle_clean_cut(version, start, context.running)?;
    let (start, output) = with_output_level(version, context.running, start, older, max_bytes, false)?;
    let mut inputs = within(version, context, &start, others);
    inputs.reverse();
    inputs.extend([start, output]);
    Some(inputs)
}

/// The files of the window with the smallest fan-out below `limit`. `enough`: bytes of both levels
/// at which a window is judged.
fn best_window(
    version: &Version,
    newer: usize,
    older: usize,
    enough: u64,
    limit: f64,
) -> Option<Range<usize>> {
    let bytes_before = |level| {
        let mut sum = 0;
        let each = version.files(level).iter().map(|f| {
            sum += f.file_size;
            sum
        });
        std::iter::once(0).chain(each).collect::<Vec<u64>>()
    };
    let (newer_bytes, older_bytes) = (bytes_before(newer), bytes_before(older));
    let files = version.files(newer);
    let overlapped: Vec<Range<usize>> =
        files.iter().map(|f| overlap_range(version, older, &f.smallest, &f.largest)).collect();
    let sizes = |window: &Range<usize>| {
        let (first, last) = (&overlapped[window.start], &overlapped[window.end - 1]);
        let own = newer_bytes[window.end] - newer_bytes[window.start];
        (own, older_bytes[last.end] - older_bytes[first.start])
    };
    let mut best = None;
    let mut smallest = limit;
    let mut start = 0;
    for end in 1..=files.len() {
        if end > 1 && overlapped[end - 1].start > overlapped[end - 2].end {
            // A whole file of the older run lies between these two files, and need not be read.
            start = end - 1;
        }
        while start < end {
            let window = start..end;
            let (own, other) = sizes(&window);
            let is_enough = own + other > enough;
            let fan_out = other as f64 / own.max(1) as f64;
            if (is_enough || end == files.len()) && fan_out < smallest {
                (best, smallest) = (Some(window), fan_out);
            }
            if !is_enough {
                break;
            }
            start += 1;
        }
    }
    best
}

/// The files of newer levels that lie within the keys of `start`, from the next newer level on.
fn within(
    version: &Version,
    context: &PickContext<'_>,
    start: &LevelFiles,
    levels: impl Iterator<Item = usize>,
) -> Vec<LevelFiles> {
    let mut taken = Vec::new();
    let mut below = start.clone();
    for level in levels {
        let Some((smallest, largest)) = range_of(version.icmp(), &below.files) else { break };
        let files = clean_cut_within(version, level, smallest, largest);
        if files.files.is_empty() {
            // A file that only reaches into the keys would stay above what is below it.
            if !overlapping(version, level, smallest, largest).files.is_empty() {
                break;
            }
            continue;
        }
        if any_busy(&files.files, context.running) {
            break;
        }
        below = files.clone();
        taken.push(files);
    }
    taken
}
