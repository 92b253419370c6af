//! Files that want to be compacted for other reasons than the size of their level.
//!
//! Source: RocksDB `db/version_set.cc` (`ComputeFilesMarkedForCompaction` and its siblings).

use super::PickContext;
use crate::version::{FileMeta, Version};
use esker_base::SequenceNumber;
use esker_base::sync::Arc;

/// Level and file.
pub(super) type Marked = (usize, Arc<FileMeta>);

fn idle<'a>(
    version: &'a Version,
    context: &'a PickContext<'_>,
) -> impl Iterator<Item = (usize, &'a Arc<FileMeta>)> {
    version.all_files().filter(|(_, f)| !context.running.is_busy(f.number))
}

fn select(
    version: &Version,
    context: &PickContext<'_>,
    mut wanted: impl FnMut(usize, &FileMeta) -> bool,
) -> Vec<Marked> {
    idle(version, context).filter(|(level, f)| wanted(*level, f)).map(|(l, f)| (l, Arc::clone(f))).collect()
}

/// Files that their writer or somebody else asked for, except in the last level that has files: there is nowhere to go.
pub(super) fn for_compaction(version: &Version, context: &PickContext<'_>) -> Vec<Marked> {
    let last = version.num_non_empty_levels().saturating_sub(1);
    select(version, context, |level, f| {
        let asked = f.marked_for_compaction || context.suggested.contains(&f.number);
        // A lone level 0 has the base level to go to.
        asked && (level < last || level == 0)
    })
}

/// Files with nothing below them whose entries are all older than every snapshot: rewriting them drops what only snapshots
/// needed, and sets sequence numbers to 0.
pub(super) fn bottommost(version: &Version, context: &PickContext<'_>) -> Vec<Marked> {
    if context.oldest_snapshot == SequenceNumber::ZERO {
        return Vec::new();
    }
    let delay = context.options.bottommost_file_compaction_delay;
    let newest = context.now_seconds.saturating_sub(delay);
    select(version, context, |level, f| {
        f.largest_seqno != SequenceNumber::ZERO
            && f.largest_seqno < context.oldest_snapshot
            && (delay == 0 || f.file_creation_time <= newest)
            && may_be_improved(version, f)
            && is_bottommost_file(version, level, f)
    })
}

/// Whether a compaction of a bottommost file may come to anything. Not all entries lose their sequence numbers: operands that the
/// merge operator refuses do not, nor those with timestamps; their files would be due again and again.
fn may_be_improved(version: &Version, f: &FileMeta) -> bool {
    let icmp = version.icmp();
    if f.is_settled() || icmp.timestamp_size() == 0 || f.user_defined_timestamps_not_persisted {
        return !f.is_settled();
    }
    // Only what is before the bound can go, and once all of it is before that all goes at once. Newer timestamps sort first.
    let low = version.full_history_ts_low();
    let is_known = f.max_timestamp.len() == icmp.timestamp_size();
    !low.is_empty() && (!is_known || icmp.compare_user_keys(&f.max_timestamp, low).is_gt())
}

/// The sequence number beyond which the oldest snapshot must move before more files can be [`bottommost`] ones: the smallest
/// of those that it keeps from it. `SequenceNumber::MAX` if there is none.
pub(super) fn bottommost_threshold(version: &Version, oldest_snapshot: SequenceNumber) -> SequenceNumber {
    let mut threshold = SequenceNumber::MAX;
    for (level, f) in version.all_files() {
        let waits = f.largest_seqno != SequenceNumber::ZERO && f.largest_seqno >= oldest_snapshot;
        // Whether it is a bottommost file is dear to find out, so it comes last.
        if waits
            && f.largest_seqno < threshold
            && may_be_improved(version, f)
            && is_bottommost_file(version, level, f)
        {
            threshold = f.largest_seqno;
        }
    }
    threshold
}

fn is_bottommost_file(version: &Version, level: usize, f: &FileMeta) -> bool {
    let is_oldest = || version.files(0).last().is_some_and(|oldest| oldest.number == f.number);
    (level > 0 || is_oldest())
        && !may_exist_below(version, level, f.smallest_user_key(), f.largest_user_key())
}

/// Whether a level below `level` may hold keys of `[smallest, largest]`. Below level 0 any file counts.
pub(super) fn may_exist_below(version: &Version, level: usize, smallest: &[u8], largest: &[u8]) -> bool {
    (level + 1..version.num_levels()).any(|below| {
        version.num_files(below) > 0 && (level == 0 || version.overlaps(below, Some(smallest), Some(largest)))
    })
}

/// Files with data older than `ttl`, except in the last level that there can be.
pub(super) fn expired(version: &Version, context: &PickContext<'_>) -> Vec<Marked> {
    let ttl = context.options.ttl;
    let Some(limit) = context.now_seconds.checked_sub(ttl).filter(|_| ttl > 0) else {
        return Vec::new();
    };
    let last = version.num_levels() - 1;
    let old = |f: &FileMeta| f.oldest_ancestor_time > 0 && f.oldest_ancestor_time < limit;
    select(version, context, |level, f| level < last && old(f))
}

/// Files that were written longer ago than `periodic_compaction_seconds`.
pub(super) fn periodic(version: &Version, context: &PickContext<'_>) -> Vec<Marked> {
    let seconds = context.options.periodic_compaction_seconds;
    let Some(limit) = context.now_seconds.checked_sub(seconds).filter(|_| seconds > 0) else {
        return Vec::new();
    };
    let written = |f: &FileMeta| match f.file_creation_time {
        0 => f.oldest_ancestor_time,
        time => time,
    };
    select(version, context, |_, f| written(f) > 0 && written(f) < limit)
}

/// Tables that keep the oldest blob files alive, if there is enough garbage in these. The oldest files are those that go
/// with the first of them: up to the next that some table names as its oldest.
///
/// Source: RocksDB `db/version_set.cc` (`ComputeFilesMarkedForForcedBlobGC`).
pub(super) fn for_blob_gc(version: &Version, context: &PickContext<'_>) -> Vec<Marked> {
    let Some((age_cutoff, threshold)) = context.options.forced_blob_gc else { return Vec::new() };
    let files = version.blob_files();
    let old_enough = (age_cutoff * files.len() as f64) as usize;
    let Some((&oldest, _)) = files.first_key_value().filter(|_| old_enough > 0) else { return Vec::new() };
    let named: std::collections::BTreeSet<_> =
        version.all_files().filter_map(|(_, f)| f.oldest_blob_file_number).collect();
    let batch = || files.iter().enumerate().take_while(|(i, (n, _))| *i == 0 || !named.contains(*n));
    if batch().count() > old_enough {
        return Vec::new(); // some of the batch are too young, so it would not go
    }
    let total: u64 = batch().map(|(_, (_, f))| f.addition.total_blob_bytes).sum();
    let garbage: u64 = batch().map(|(_, (_, f))| f.garbage_blob_bytes).sum();
    if (garbage as f64) < threshold * total as f64 {
        return Vec::new();
    }
    select(version, context, |_, f| f.oldest_blob_file_number == Some(oldest))
}
