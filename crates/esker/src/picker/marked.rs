//! Finds files that should be compacted for reasons other than the size of their level.
//!
//! Each kind is an iterator, and most callers take its first item only. Each level keeps sums over
//! its files. By these sums most levels need no check of their files.
//!
//! Source: RocksDB `db/version_set.cc` (`ComputeFilesMarkedForCompaction` and its siblings).

use super::proximal::stays_above;
use super::{CompactionReason, CompactionStyle, PickContext};
use crate::version::{FileMeta, Level, Version};
use esker_base::sync::Arc;
use esker_base::{FileNumber, SequenceNumber};

/// Level and file.
pub(super) type Marked = (usize, Arc<FileMeta>);

/// Idle files that `wanted` accepts, in levels that `on` accepts.
fn select<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
    on: impl Fn(usize, &Level) -> bool + 'a,
    wanted: impl Fn(&FileMeta) -> bool + 'a,
) -> impl Iterator<Item = Marked> + 'a {
    let levels = version.levels().iter().enumerate().filter(move |(level, l)| on(*level, l));
    let files = levels.flat_map(|(level, l)| l.files().iter().map(move |f| (level, f)));
    files
        .filter(move |(_, f)| wanted(f) && !context.running.is_busy(f.number))
        .map(|(l, f)| (l, Arc::clone(f)))
}

/// Files marked by their writer, suggested by the user or due by their reads, except in the last
/// level that has files, which has no level below, and except files that would stay where they are.
pub(super) fn for_compaction<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = Marked> + 'a {
    let suggested = context.suggested;
    let last = last_with_files(version);
    select(
        version,
        context,
        move |level, l| is_asked_in(level, last) && !(l.marked().is_empty() && suggested.is_empty()),
        move |f| f.marked_for_compaction || suggested.contains(&f.number),
    )
    .filter(|(level, file)| !stays_above(version, context, *level, file))
}

/// The last level with files, but for a reserved one.
fn last_with_files(version: &Version) -> usize {
    (0..=version.max_output_level()).rev().find(|level| version.num_files(*level) > 0).unwrap_or(0)
}

/// If level 0 is the last level with files, its files can still move to the base level.
fn is_asked_in(level: usize, last: usize) -> bool {
    level < last || level == 0
}

/// Whether the files of a level can be compacted on request.
pub(crate) fn can_be_asked(version: &Version, level: usize) -> bool {
    is_asked_in(level, last_with_files(version))
}

/// The reason for a compaction of a file of [`for_compaction`].
pub(super) fn reason_of(file: &FileMeta) -> CompactionReason {
    match file.is_hot() && !file.marked_for_compaction {
        true => CompactionReason::ReadTriggered,
        false => CompactionReason::FilesMarkedForCompaction,
    }
}

/// Files with no data below them whose entries are all older than every snapshot. Rewriting them
/// drops versions that only snapshots needed, and sets sequence numbers to 0.
pub(super) fn bottommost<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = Marked> + 'a {
    let delay = context.options.bottommost_file_compaction_delay;
    let newest = context.now_seconds.saturating_sub(delay);
    let is_due = move |f: &FileMeta| {
        (delay == 0 || f.file_creation_time <= newest)
            && !f.is_settled()
            && !context.running.is_busy(f.number)
    };
    let levels = if context.oldest_snapshot == SequenceNumber::ZERO { 0 } else { version.num_levels() };
    (0..levels).flat_map(move |level| {
        let waiting = waiting(version, level);
        let old = waiting.iter().take_while(|f| f.largest_seqno < context.oldest_snapshot);
        old.filter(move |f| is_due(f)).map(move |f| (level, Arc::clone(f)))
    })
}

/// Files of a level that a compaction may improve once snapshots are released, by their largest
/// sequence number. No data lies below them. Iterates over the level, unless an earlier version
/// with the same level and the same levels below did.
pub(super) fn waiting(version: &Version, level: usize) -> &[Arc<FileMeta>] {
    version.findings(level).waiting(|| {
        // The check for a bottommost file is costly, so it comes last.
        let waits = |f: &&Arc<FileMeta>| {
            f.largest_seqno != SequenceNumber::ZERO
                && may_be_improved(version, f)
                && is_bottommost_file(version, level, f)
        };
        let mut files: Vec<_> = version.files(level).iter().filter(waits).cloned().collect();
        files.sort_by_key(|f| f.largest_seqno);
        files.into()
    })
}

/// Whether, by its properties, a rewrite of a bottommost file may drop entries under these live
/// snapshots.
pub(super) fn may_lose_entries(version: &Version, f: &FileMeta, snapshots: &[SequenceNumber]) -> bool {
    // If keys have timestamps, the counts in the properties do not count versions of a user key.
    let has_timestamps = version.icmp().timestamp_size() > 0 && !f.user_defined_timestamps_not_persisted;
    may_be_improved(version, f) && !f.is_settled_for(snapshots) && (has_timestamps || f.may_lose_entries())
}

/// Whether a compaction of a bottommost file may improve it. Operands that the merge operator
/// refuses, and entries with timestamps, keep their sequence numbers; their files would be due
/// again and again.
fn may_be_improved(version: &Version, f: &FileMeta) -> bool {
    let icmp = version.icmp();
    if f.is_settled() || icmp.timestamp_size() == 0 || f.user_defined_timestamps_not_persisted {
        return !f.is_settled();
    }
    // Only versions before the bound can be dropped, and they are dropped once all versions are
    // before it.
    let low = version.full_history_ts_low();
    let is_known = f.max_timestamp.len() == icmp.timestamp_size();
    !low.is_empty() && (!is_known || icmp.compare_timestamps(&f.max_timestamp, low).is_lt())
}

/// More files can be [`bottommost`] only when the oldest snapshot is newer than this: the smallest
/// `largest_seqno` of the files that it keeps waiting. `SequenceNumber::MAX` if none waits.
pub(super) fn bottommost_threshold(version: &Version, oldest_snapshot: SequenceNumber) -> SequenceNumber {
    let first_of_level = |level| {
        let waiting = waiting(version, level);
        let from = waiting.partition_point(|f| f.largest_seqno < oldest_snapshot);
        waiting[from..].iter().find(|f| !f.is_settled()).map(|f| f.largest_seqno)
    };
    (0..version.num_levels()).filter_map(first_of_level).min().unwrap_or(SequenceNumber::MAX)
}

pub(super) fn is_bottommost_file(version: &Version, level: usize, f: &FileMeta) -> bool {
    let is_oldest = || version.files(0).last().is_some_and(|oldest| oldest.number == f.number);
    (level > 0 || is_oldest())
        && !may_exist_below(version, level, f.smallest_user_key(), f.largest_user_key())
}

/// Whether a level below `level` may hold keys of `[smallest, largest]`, now or after an ingestion
/// behind all files. If `level` is 0, any file below counts.
pub(super) fn may_exist_below(version: &Version, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
    let has_keys = |below| {
        version.num_files(below) > 0 && (level == 0 || version.overlaps(below, Some(smallest), Some(largest)))
    };
    version.reserves_last_level() || (level + 1..version.num_levels()).any(has_keys)
}

/// Files with data older than `ttl`, except in the last possible level, and except files that would
/// stay above it.
pub(super) fn expired<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = Marked> + 'a {
    let ttl = context.options.ttl;
    // No file is older than time 0.
    let limit = context.now_seconds.checked_sub(ttl).filter(|_| ttl > 0).unwrap_or(0);
    let last = version.num_levels() - 1;
    select(
        version,
        context,
        move |level, l| level < last && l.oldest_ancestor_time().is_some_and(|oldest| oldest < limit),
        move |f| f.oldest_ancestor_time > 0 && f.oldest_ancestor_time < limit,
    )
    .filter(|(level, file)| !stays_above(version, context, *level, file))
}

/// Files that were written longer ago than `periodic_compaction_seconds`, or, off-peak, will have
/// been when the next off-peak time begins.
pub(super) fn periodic<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = Marked> + 'a {
    let seconds = context.options.periodic_compaction_seconds;
    let last = match context.options.compaction_style {
        CompactionStyle::Universal => version.max_output_level(),
        _ => version.num_levels() - 1,
    };
    // A file that was just written is never due: it would be rewritten again and again.
    let age = seconds - context.seconds_ahead.min(seconds / 2);
    let limit = context.now_seconds.checked_sub(age).filter(|_| seconds > 0).unwrap_or(0);
    select(
        version,
        context,
        move |level, l| level <= last && l.oldest_write_time().is_some_and(|oldest| oldest < limit),
        move |f| f.write_time() > 0 && f.write_time() < limit,
    )
}

/// Tables that keep the oldest blob files alive, if these hold enough garbage. The oldest files are
/// a batch: the first file, and the files up to the next one that some table names as its oldest.
///
/// Source: RocksDB `db/version_set.cc` (`ComputeFilesMarkedForForcedBlobGC`).
pub(super) fn for_blob_gc<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = Marked> + 'a {
    let oldest = blob_file_to_go(version, context);
    let names = move |l: &Level| oldest.is_some_and(|n| l.oldest_blob_files().binary_search(&n).is_ok());
    let wanted = move |f: &FileMeta| f.oldest_blob_file_number == oldest;
    select(version, context, move |_, l| names(l), wanted)
}

fn blob_file_to_go(version: &Version, context: &PickContext<'_>) -> Option<FileNumber> {
    let (age_cutoff, threshold) = context.options.forced_blob_gc?;
    let files = version.blob_files();
    let old_enough = (age_cutoff * files.len() as f64) as usize;
    let (&oldest, _) = files.first_key_value().filter(|_| old_enough > 0)?;
    let is_named = |n: &FileNumber| {
        version.levels().iter().any(|level| level.oldest_blob_files().binary_search(n).is_ok())
    };
    let batch = || files.iter().enumerate().take_while(|(i, (n, _))| *i == 0 || !is_named(n));
    if batch().count() > old_enough {
        return None; // a part of the batch is too young, so the batch could not be deleted
    }
    let total: u64 = batch().map(|(_, (_, f))| f.addition.total_blob_bytes).sum();
    let garbage: u64 = batch().map(|(_, (_, f))| f.garbage_blob_bytes).sum();
    (garbage as f64 >= threshold * total as f64).then_some(oldest)
}
